/* SPDX-License-Identifier: Apache-2.0 */
/* position.h: where the next scrub of a sweeper continues. It is noted in the store, so that a
 * process that is often started anew does not read the same objects again and again.
 *
 * The position is only a starting point: if it is lost, or two processes scrub at the same time,
 * some objects are read twice. A position is written only over the one that was read, so of two
 * such processes, the slower one does not put the other one back. */
#ifndef SCRUB_POSITION_H
#define SCRUB_POSITION_H

#include "store/store.h"

struct scrub_position {
    char after[HF_SCRUB_POSITION_MAX]; /* any bytes */
    size_t size;                       /* 0: the beginning of the store */
    struct condition unchanged;        /* under which the note is still the one that was read */
    struct buffer unknown;             /* its members of a later version */
};

/* The beginning if there is no note, or if it is damaged or too long. Release it regardless of the
 * status. */
enum hf_status scrub_position_read(struct store *store, struct scrub_position *ret_position,
                                   struct hf_error *error);
void scrub_position_release(struct scrub_position *position);

/* Writes `after` instead of the position that was read. CONFLICT or NOT_FOUND: another client has
 * changed the note since then. */
enum hf_status scrub_position_write(struct store *store, const struct scrub_position *read,
                                    struct view after, struct hf_error *error);

#endif
