/* SPDX-License-Identifier: Apache-2.0 */
/* position.h: where the next scrub of a sweeper continues. It is kept in the store, so that a
 * process that is often started anew does not read the same objects again and again.
 *
 * The position is only a starting point: if it is lost, or several processes write it, some objects
 * are read twice. So it is written without a condition, and the last writer wins. */
#ifndef SCRUB_POSITION_H
#define SCRUB_POSITION_H

#include "store/store.h"

struct scrub_position {
    char after[HF_SCRUB_POSITION_MAX]; /* "": the beginning of the store */
    struct wall_time at;               /* when it was written, for display */
};

/* The beginning if there is no record, or if it cannot be read. */
enum hf_status scrub_position_read(struct store *store, struct scrub_position *ret_position,
                                   struct hf_error *error);

/* Members of a later version that the record has are kept. */
enum hf_status scrub_position_write(struct store *store, struct view after,
                                    struct hf_error *error);

#endif
