/* SPDX-License-Identifier: Apache-2.0 */
/* release.h: releases paths that a partition has registered (catalog/prefixes.h), so that another
 * partition may adopt their objects.
 *
 *   mark    the path is marked as releasing. From then on, no client learns that it may add an
 *           object of the path, and a client that has learned it before adds within D/2
 *   remove  once 2 D have passed, all catalogs are read. If none of them lists an object of the
 *           path, the path is removed
 *
 * An object that its partition still lists, even as a tombstone, may still be read, or deleted, by
 * that partition, so its path stays registered. The catalogs are read after the wait: an object
 * that they do not list then is never added, unless the path is claimed again, which removes the
 * mark. */
#ifndef COMPACT_CARE_RELEASE_H
#define COMPACT_CARE_RELEASE_H

#include "compact/catalog/catalog_tree.h"

struct release_report {
    bool released;   /* the path is no longer registered */
    uint64_t chunks; /* of the partition that still need its objects, in any state */
    int64_t wait_ms; /* at least this long until it can be released */
};

/* Does what can be done now. `path` is exactly as it was registered. NOT_FOUND: it is not
 * registered to the partition of the catalog tree. OK even if the partition does not exist. */
enum hf_status release_path(struct catalog_tree *tree, struct view path,
                            struct release_report *ret_report, struct hf_error *error);

/* For a partition that is being dropped: marks all of its paths and, if `unused`, removes those
 * that may be removed. *ret_left: paths that are still registered. */
enum hf_status release_all(struct catalog_tree *tree, bool unused, size_t *ret_left,
                           struct hf_error *error);

/* How long it takes at least until all paths of the partition can be released; 0: none is
 * registered. */
enum hf_status release_wait(struct catalog_tree *tree, int64_t late_bound_ms,
                            int64_t *ret_wait_ms, struct hf_error *error);

#endif
