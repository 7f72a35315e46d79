/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h: the tables in which a namespace keeps its locks on paths.
 *
 * By default, one table contains all paths and trees of a namespace, <ns>/paths.json. A table has
 * room for 1,000 leases. A namespace that is created with pages has N such tables,
 * <ns>/paths/0.json to <ns>/paths/<N-1>.json. The page of a path is a hash of its first k segments.
 * Locks on names, inodes and ranges do not depend on the placement.
 *
 * Invariants:
 *
 *   1. Scopes that can conflict are in the same page. Everything in a tree of at least k segments
 *      has the same first k segments as the tree. A tree with fewer segments would contain paths of
 *      many pages, so it is INVALID. A path with fewer than k segments conflicts only with itself
 *      and with such trees, so its own segments are enough.
 *   2. A namespace has one placement forever. The object <ns>/paths.json decides which one. It is
 *      either the one table or a *placement mark*, and both are created only if the object is
 *      absent. A mark is never changed, and no sweep removes it. So a client that does not know
 *      about the pages finds the mark in place of its table, and is refused: an older program
 *      because of the mark's format, and this one with advice.
 *   3. Clients learn the placement from the bucket's format document (store/bucket.h), which they
 *      read anyway when they open the store. So it costs no request, and a lock handle can be made
 *      without one. The document names the placement only after the mark is known to be in the
 *      store, and takes it from the mark. So all clients that use pages use the same ones, and
 *      from then on no client can use the one table.
 *   4. Two objects record the placement. If the mark is lost, clients still know the pages, except
 *      those that were opened before the creation. If the format document is lost, the mark refuses
 *      all new clients. placement_create with the same numbers restores either of them.
 *
 * What a crash during placement_create leaves: perhaps the bucket's feature, which only makes older
 * programs refuse the bucket; perhaps the mark, so that every lock on a path is refused until the
 * creation is repeated. No lock can be held at that time. */
#ifndef LOCK_PLACEMENT_H
#define LOCK_PLACEMENT_H

#include "lease/scope.h"
#include "store/store.h"

#define PLACEMENT_PAGES_MIN    2
#define PLACEMENT_PAGES_MAX    65536
#define PLACEMENT_SEGMENTS_MAX 16

struct placement {
    uint32_t pages; /* 0: one table for all paths */
    uint32_t segments;
};

/* INVALID, with the reason, if a namespace cannot be created with this placement. */
enum hf_status placement_check(const struct placement *placement, struct hf_error *error);

/* The page of a path or tree in a namespace with pages. INVALID if the tree has too few
 * segments. */
enum hf_status placement_page(const struct placement *placement, const struct scope *scope,
                              uint32_t *ret_page, struct hf_error *error);

/* The one page that can contain paths that start with this text. False if there may be several,
 * because the text does not contain all segments that determine a page. */
bool placement_page_of_start(const struct placement *placement, struct view start,
                             uint32_t *ret_page);

/* Whether an object at <ns>/paths.json is a placement mark, not a table. */
bool placement_is_mark(struct view bytes);

/* The refusal of a client that expected a table and found the mark: UNSUPPORTED. */
enum hf_status placement_refuse(struct hf_error *error);

/* The placement of a namespace, from the member `placements` of the bucket's format document, which
 * may be empty. UNSUPPORTED if it is not one that this version knows. */
enum hf_status placement_find(struct view placements, struct view ns,
                              struct placement *ret_placement, struct hf_error *error);

/* Creates a namespace with this placement. OK also if the namespace already has it; parts that an
 * interrupted creation left out are then added. MISMATCH if the namespace is in use, or has another
 * placement. UNSURE: it may have been created; call it again. UNAVAILABLE if the bucket has no room
 * for more placements (more than 1,000). The store must be one that locks may use. */
enum hf_status placement_create(struct store *store, struct view ns,
                                const struct placement *placement, struct hf_error *error);

/* After an object was copied to this key from another store: if it is a placement mark, records its
 * placement, because the format document is not copied. */
enum hf_status placement_record_copied(struct store *store, struct view key,
                                       struct hf_error *error);

#endif
