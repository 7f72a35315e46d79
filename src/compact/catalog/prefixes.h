/* SPDX-License-Identifier: Apache-2.0 */
/* prefixes.h: which partition may adopt which objects: metadata/adopted.json.
 *
 * A path is a prefix if it ends with a slash, and otherwise the key of one object. One swap of this
 * document registers a path to one partition, before any of its objects is added to a catalog.
 *
 * A path that is no longer needed is released in two swaps. The first marks it as *releasing*. The
 * second removes it, once 2 D have passed since the stamp of the mark and the partition lists none
 * of its objects. A client adds an object only within D/2 of having seen its path registered and
 * not releasing (work/adopt.h). The mark takes effect within D/2 of its stamp, and an add within
 * D/2 of being sent, like every write. So after the second swap no add of an object of the path to
 * the partition can take effect.
 *
 * Invariants:
 *   1. no two registered paths overlap: no path is equal to another, and none starts with a
 *      registered prefix. So no object has two partitions;
 *   2. a path is never moved to another partition, and never becomes owned or unowned, unless it
 *      is released first;
 *   3. no path is in one of Holdfast's own folders;
 *   4. a path is removed only if it has been releasing for 2 D. Its partition may claim it again
 *      before, which removes the mark. */
#ifndef COMPACT_CATALOG_PREFIXES_H
#define COMPACT_CATALOG_PREFIXES_H

#include "compact/catalog/catalog_tree.h"

#define PREFIXES_MAX       4096
#define PREFIXES_BYTES_MAX ((size_t)8 * 1024 * 1024) /* longest document that is read */

/* A path and the partition that it is, or is to be, registered to. */
struct prefix {
    struct view path;
    struct view partition;
    bool own; /* the partition deletes its objects once they are merged */
    bool releasing;
    struct stamp since; /* releasing: when it was marked, or restamped */
    uint32_t restamps;
    struct view unknown; /* members that only later versions know: ,"name":value,... */
};

/* INVALID: the path is empty, too long, or in one of Holdfast's own folders. */
enum hf_status prefix_check(struct view path, struct hf_error *error);

/* Whether the object belongs to Holdfast, so that it is never adopted. */
bool prefix_excludes(struct view key);

/* Whether every object of the path `inner` is also one of the path `outer`. */
bool prefix_covers(struct view outer, struct view inner);

/* Registers paths to the partition of the catalog tree, all or none. A path that its partition has
 * registered before, or that is inside such a prefix, needs no change, unless it is releasing;
 * `own` is then set to what is registered. Paths of the same partition inside a new prefix are
 * absorbed by it.
 *
 * CONFLICT: a path overlaps one of another partition, or `own` is asked for and the path is
 * registered without it, or the other way around for an absorbed path. UNAVAILABLE: there are too
 * many paths. */
enum hf_status prefixes_claim(struct catalog_tree *tree, struct prefix *claims, size_t count,
                              struct hf_error *error);

/* Releases a path of a partition. */
struct prefix_release {
    struct view path; /* empty: all paths of the partition */
    /* The partition lists none of its objects. Until then, the path is only marked. */
    bool unused;
    int64_t late_bound_ms, skew_tolerance_ms; /* D, of the partition */

    /* The result. */
    size_t waiting;  /* paths that are left: not marked for 2 D yet ... */
    size_t ready;    /* ... or marked for 2 D, and waiting only for `unused` */
    int64_t wait_ms; /* at least this long until none is waiting */
};

/* Marks the path, or removes it if that may be done now. OK also if it is not registered: then no
 * path is left. */
enum hf_status prefixes_release(struct catalog_tree *tree, struct prefix_release *release,
                                struct hf_error *error);

/* How long it takes at least until the path can be removed. */
int64_t prefix_wait_ms(const struct prefix *prefix, int64_t late_bound_ms,
                       const struct evidence *evidence);

/* Calls `look` for each path of the partition of the catalog tree; `look` must not call the catalog
 * tree. OK also if nothing was ever registered. */
typedef void prefixes_look(void *argument, const struct prefix *prefix,
                           const struct evidence *evidence);
enum hf_status prefixes_show(struct catalog_tree *tree, prefixes_look *look, void *argument,
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

/* As prefixes_release, for a partition. */
void prefix_list_release(struct prefix_list *list, struct view partition,
                         struct prefix_release *release, const struct evidence *evidence,
                         bool *ret_changed);

size_t prefix_list_count(const struct prefix_list *list);
const struct prefix *prefix_list_at(const struct prefix_list *list, size_t index);

#endif
