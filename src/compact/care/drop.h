/* SPDX-License-Identifier: Apache-2.0 */
/* drop.h: removes a whole partition, in steps that any client may repeat after a crash.
 *
 *   mark    parents first, each catalog is marked, and its live chunks become tombstones. From then
 *           on it refuses to list a new chunk. Then the partition's registered paths are marked as
 *           releasing (release.h)
 *   delete  maintain.h moves, deletes and drops the names as usual, after grace and D; pins are
 *           respected
 *   remove  children first, a catalog that lists no name, was marked D ago, and has neither
 *           children nor an active lease or pin is removed: the objects that no catalog lists, for
 *           the partition's own catalog the registered paths, its lease table, its other documents,
 *           and at last the catalog itself
 *
 * maintain_round does all of this for a partition whose first catalog is marked, so any worker
 * finishes a drop. */
#ifndef COMPACT_CARE_DROP_H
#define COMPACT_CARE_DROP_H

#include "compact/catalog/catalog_tree.h"

struct drop_options {
    bool (*go_on)(void *argument); /* may be NULL; false stops between two steps */
    void *argument;
};

struct drop_report {
    bool marked;            /* the drop has begun */
    bool gone;              /* nothing is left */
    uint64_t catalogs;      /* that are left */
    uint64_t chunks, bytes; /* live before the call */
    uint64_t tombstones, tombstone_bytes;
    uint64_t deleting; /* names */
    uint64_t deleted;  /* objects, by this call */
    uint64_t pinned;   /* objects that were kept because a reader has pinned them */
    int64_t wait_ms;   /* at least this long until nothing is left */
};

/* Counts what is left, and changes nothing. NOT_FOUND: there is no partition. */
enum hf_status drop_count(struct catalog_tree *tree, struct drop_report *ret_report,
                          struct hf_error *error);

/* Does everything that can be done now. `ret_report` is set regardless of the status. NOT_FOUND:
 * there is no partition. */
enum hf_status drop_step(struct catalog_tree *tree, const struct drop_options *options,
                         struct drop_report *ret_report, struct hf_error *error);

/* Marks all catalogs of the partition. A client that has only seen that somebody drops the
 * partition does not begin, because it may have been created again since: NOT_FOUND. */
enum hf_status drop_mark(struct catalog_tree *tree, bool begins, struct hf_error *error);

/* For maintain_round. Removes the catalogs that are ready for it. OK also if there is none.
 * `deleted` is increased by the number of deleted objects that no catalog listed. A catalog whose
 * lease table is in use is left to a later call. */
enum hf_status drop_remove(struct catalog_tree *tree, const struct drop_options *options,
                           uint64_t *deleted, struct hf_error *error);

#endif
