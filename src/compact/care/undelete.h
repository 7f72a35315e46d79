/* SPDX-License-Identifier: Apache-2.0 */
/* undelete.h: undoes a merge, or brings a retired chunk back. The chunks that come back must be
 * readable, because the chunk that they were merged into becomes a tombstone and is deleted later.
 * Nobody deletes the objects of tombstones, except the owners of adopted objects. */
#ifndef COMPACT_CARE_UNDELETE_H
#define COMPACT_CARE_UNDELETE_H

#include "compact/catalog/catalog_tree.h"

/* Applies the undelete to the catalog that lists the chunk, after it has found all adopted objects
 * that would come back in the versions that were adopted. CONFLICT: one of them was rewritten or
 * deleted, and nothing is changed. Otherwise as CATALOG_UNDELETE. Costs one get per adopted
 * object. */
enum hf_status undelete_chunk(struct catalog_ref *ref, struct view key, size_t *ret_restored,
                              struct hf_error *error);

#endif
