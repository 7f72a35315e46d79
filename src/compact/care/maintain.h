/* SPDX-License-Identifier: Apache-2.0 */
/* maintain.h: maintains a partition: settles ended leases, retires chunks past their retention, and
 * deletes chunks past their grace period. Any number of workers may do so concurrently.
 *
 *   settle  for a lease that ended without `complete` and names an output: condemn the output in
 *           the catalog (or learn that its commit happened), count the try against the chunks that
 *           are to blame, then forget the lease
 *   retire  live chunks whose newest record is past the retention become tombstones
 *   reap    tombstones past grace move to deleting; *then* the current pins are read, and the
 *           objects that nobody has pinned are deleted
 *   drop    after D in deleting, the objects are deleted once more; *then* their names are dropped
 *           from the catalog */
#ifndef COMPACT_CARE_MAINTAIN_H
#define COMPACT_CARE_MAINTAIN_H

#include "compact/catalog/catalog_tree.h"

struct maintain_report {
    uint64_t settled;   /* leases */
    uint64_t condemned; /* outputs that can never be committed now */
    uint64_t retired;   /* chunks past their retention */
    uint64_t reaped;    /* chunks past their grace period */
    uint64_t deleted;   /* objects */
    uint64_t pinned;    /* kept because a reader has pinned them */
    uint64_t dropped;   /* names dropped from catalogs */
    uint64_t requests;
};

struct maintain_options {
    bool short_lived; /* renews stamps that only a long-lived process could check (stamp.h) */
    bool (*go_on)(void *argument); /* may be NULL; false stops the round between two steps */
    void *argument;
};

/* Runs one round over all catalogs of the catalog tree. A catalog that cannot be read is
 * skipped. */
enum hf_status maintain_round(struct catalog_tree *tree, const struct maintain_options *options,
                              struct maintain_report *report, struct hf_error *error);

/* Settles the ended leases of one table that are on any of these chunks; `keys` NULL: all ended
 * leases of the table. */
enum hf_status maintain_settle(struct catalog_tree *tree, struct view home,
                               const struct view *keys, size_t count,
                               struct maintain_report *report, struct hf_error *error);

#endif
