/* SPDX-License-Identifier: Apache-2.0 */
/* prefixes.h: which partition may adopt which objects: metadata/adopted.json.
 *
 * A path is a prefix if it ends with a slash, and otherwise the key of one object. One swap of this
 * document registers a path to one partition, before any of its objects is added to a catalog.
 *
 * Invariants:
 *   1. no two registered paths overlap: no path is equal to another, and none starts with a
 *      registered prefix. So no object has two partitions;
 *   2. a path is never moved to another partition, and never becomes owned or unowned;
 *   3. no path is in one of Holdfast's own folders. */
#ifndef COMPACT_CATALOG_PREFIXES_H
#define COMPACT_CATALOG_PREFIXES_H

#include "compact/catalog/catalog_tree.h"

#define PREFIXES_MAX       4096
#define PREFIXES_BYTES_MAX ((size_t)8 * 1024 * 1024) /* longest document that is read */

/* A path and the partition that it is, or is to be, registered to. */
struct prefix {
    struct view path;
    struct view partition;
    bool own;            /* the partition deletes its objects once they are merged */
    struct view unknown; /* members that only later versions know: ,"name":value,... */
};

/* INVALID: the path is empty, too long, or in one of Holdfast's own folders. */
enum hf_status prefix_check(struct view path, struct hf_error *error);

/* Whether the object belongs to Holdfast, so that it is never adopted. */
bool prefix_excludes(struct view key);

/* Registers paths to the partition of the catalog tree, all or none. A path that its partition has
 * registered before, or that is inside such a prefix, needs no change; `own` is then set to what is
 * registered. Paths of the same partition inside a new prefix are absorbed by it.
 *
 * CONFLICT: a path overlaps one of another partition, or `own` is asked for and the path is
 * registered without it, or the other way around for an absorbed path. UNAVAILABLE: there are too
 * many paths. */
enum hf_status prefixes_claim(struct catalog_tree *tree, struct prefix *claims, size_t count,
                              struct hf_error *error);

/* ---- The document, pure --------------------------------------------------------------- */

struct prefix_list;

struct prefix_list *prefix_list_new(void); /* NULL: out of memory */
void prefix_list_free(struct prefix_list *list);

/* CORRUPT: not such a document. UNSUPPORTED: a newer version. */
enum hf_status prefix_list_decode(struct view text, struct prefix_list **ret_list,
                                  struct hf_error *error);
bool prefix_list_encode(const struct prefix_list *list, struct view nonce, struct buffer *text);

/* As prefixes_claim; leaves the list unchanged unless OK. */
enum hf_status prefix_list_claim(struct prefix_list *list, struct prefix *claims, size_t count,
                                 bool *ret_changed, struct hf_error *error);

size_t prefix_list_count(const struct prefix_list *list);
const struct prefix *prefix_list_at(const struct prefix_list *list, size_t index);

#endif
