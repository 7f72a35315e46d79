/* scope.h: what a lease covers, as text, and which two things get in each other's way.
 *
 *     named:deploy        a name; "deploy" alone means the same
 *     path:/a/b           one path
 *     tree:/a             a path and all under it
 *     inode:7             an inode, with all its bytes
 *     range:7:0-4096      bytes of an inode, from 0 up to but not 4096; "0-" goes to the end
 *     chunk:data/x.usv    one object that is to be merged
 *     pin:data/x.usv      one object that is being read: gets in nobody's way, but is seen
 *     shard:domains/a3    one shard of an index, to be written */
#ifndef LEASE_SCOPE_H
#define LEASE_SCOPE_H

#include "base/error.h"
#include "base/view.h"

#include <stdint.h>

enum scope_kind {
    SCOPE_NAMED,
    SCOPE_PATH,
    SCOPE_TREE,
    SCOPE_INODE,
    SCOPE_RANGE,
    SCOPE_CHUNK,
    SCOPE_PIN,
    SCOPE_SHARD,
};

struct scope {
    enum scope_kind kind;
    struct view name;    /* of a name, path, tree, chunk, pin or shard */
    uint64_t inode;      /* of an inode or range */
    uint64_t start, end; /* of a range, half-open */
};

#define SCOPE_END UINT64_MAX

/* The longest text: a kind and the longest key. */
#define SCOPE_TEXT_MAX (16 + 1024)

/* The scope's views point into the text. */
enum hf_status scope_parse(struct view text, struct scope *ret_scope, struct hf_error *error);

/* Whether it has a kind that we know, or none: what has another may be a later version's. */
bool scope_kind_known(struct view text);

/* The one text of a scope, which scope_parse reads back: "named:deploy". */
const char *scope_text(const struct scope *scope, char text[SCOPE_TEXT_MAX + 1]);

/* Whether two leases of these scopes could not both be exclusive. */
bool scope_conflicts(const struct scope *a, const struct scope *b);

bool scope_equal(const struct scope *a, const struct scope *b);

/* Whether whatever conflicts with `b` conflicts with `a` too: `a` is the same scope, a tree above
 * it, a range around it, or the inode of a range. Two scopes that cover a third conflict: `a`
 * conflicts with the third, as that does with itself, and so with whatever covers it. A pin
 * conflicts with nothing, so it covers nothing and nothing covers it. */
bool scope_covers(const struct scope *a, const struct scope *b);

/* Whether it conflicts with every scope of its table that conflicts with anything. */
bool scope_is_whole_table(const struct scope *scope);

/* A copy with the names in the same allocation, for free(); NULL without memory. */
struct scope *scopes_copy(const struct scope *scopes, size_t count);

/* Names of locks, keys and namespaces: a-z 0-9 . _ - in segments between slashes, 128 bytes at
 * most; segments that start with a dot are reserved. An upper-case name is refused with the
 * lower- case one suggested. */
#define NAME_BYTES_MAX 128
enum hf_status name_check(struct view name, struct hf_error *error);

#endif
