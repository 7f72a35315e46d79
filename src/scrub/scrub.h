/* SPDX-License-Identifier: Apache-2.0 */
/* scrub.h: reads a store from its first key to its last, slowly, and reports objects whose bytes
 * are not those that were written. It changes nothing. README.md has the rules. */
#ifndef SCRUB_SCRUB_H
#define SCRUB_SCRUB_H

#include "store/store.h"

struct scrub_options {
    struct view prefix;
    struct view after; /* a position (include/holdfast/scrub.h) */
    bool documents;    /* nothing else is read */
    bool sealed;       /* a document without a checksum is a finding */
    /* May be NULL. Called with each document that has no checksum and is otherwise right: its bytes
     * (of a fenced object, with the line and the rest) and its version. CONFLICT or UNSURE: it is
     * examined again. Any other status but OK ends the scrub. */
    enum hf_status (*seal)(void *argument, struct view key, struct view text,
                           const struct etag *version, struct hf_error *error);
    uint64_t rate_max;  /* bytes per second; 0: no limit */
    uint64_t bytes_max; /* larger objects are skipped; 0: no limit */
    /* Both may be NULL. `tell` returns false to end the scrub with OK; `go_on`, with CANCELLED. */
    bool (*tell)(void *argument, enum hf_scrub_kind kind, struct view key, const char *why);
    bool (*go_on)(void *argument, const struct hf_store_scrub_report *so_far);
    void *argument;
};

/* Whether a scrub can begin at this position: its keys are not too long. */
bool scrub_takes_position(struct view after);

/* Whether this status of a read is that of a store which does not answer or denies the request. */
bool scrub_is_of_store(enum hf_status status);

/* The report is set regardless of the status. With bytes_max, an object that was being read when
 * `go_on` returned false counts as skipped, so that the next slice continues after it. */
enum hf_status scrub_run(struct store *store, const struct scrub_options *options,
                         struct hf_store_scrub_report *ret_report, struct hf_error *error);

#endif
