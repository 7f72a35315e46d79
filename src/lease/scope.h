/* SPDX-License-Identifier: Apache-2.0 */
/* scope.h: what a lease covers, as text, and which scopes conflict.
 *
 *   named:deploy        a name; "deploy" alone means the same
 *   path:/a/b           one path
 *   tree:/a             a path and all paths under it
 *   inode:7             an inode with all its bytes
 *   range:7:0-4096      bytes of an inode, half-open; "0-" extends to the end
 *   chunk:data/x.usv    one object that is to be merged
 *   pin:data/x.usv      one object that is being read: conflicts with nothing, but is visible
 *   shard:domains/a3    one shard of an index, to be written
 *   snapshot:events:42  a catalog that is being read, as of a generation: like a pin, it conflicts
 *                       with nothing, but what the catalog retires later is not deleted */
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
    SCOPE_SNAPSHOT,
};

struct scope {
    enum scope_kind kind;
    struct view name; /* of a name, path, tree, chunk, pin or shard; partition of a snapshot */
    uint64_t inode;   /* of an inode or range */
    uint64_t start, end; /* of a range, half-open */
    uint64_t generation; /* of a snapshot */
};

#define SCOPE_END UINT64_MAX

/* The length of the longest text: a kind and the longest key. */
#define SCOPE_TEXT_MAX (16 + 1024)

/* The views of the scope point into the text. */
enum hf_status scope_parse(struct view text, struct scope *ret_scope, struct hf_error *error);

/* Whether the text has a known kind, or no kind. An unknown kind may come from a later
 * version. */
bool scope_kind_known(struct view text);

/* The canonical text of a scope, which scope_parse reads back: "named:deploy". */
const char *scope_text(const struct scope *scope, char text[SCOPE_TEXT_MAX + 1]);

/* Whether two exclusive leases on these scopes exclude each other. */
bool scope_conflicts(const struct scope *a, const struct scope *b);

bool scope_equal(const struct scope *a, const struct scope *b);

/* Whether every scope that conflicts with `b` conflicts with `a` too: `a` is the same scope, a
 * tree above it, a range around it, or the inode of a range. Any two scopes A and B that cover a
 * scope C conflict with each other. C conflicts with itself, so A, which covers C, conflicts with
 * C. B covers C too, so B conflicts with A. A pin or a snapshot conflicts with nothing, so it
 * covers nothing and nothing covers it. */
bool scope_covers(const struct scope *a, const struct scope *b);

/* Whether the scope conflicts with no scope at all: it only shows that something is being read. */
bool scope_is_passive(const struct scope *scope);

/* Whether the scope conflicts with every scope in its table that can conflict at all. */
bool scope_is_whole_table(const struct scope *scope);

/* A copy with the names in the same allocation, to be freed with free(); NULL if out of memory. */
struct scope *scopes_copy(const struct scope *scopes, size_t count);

/* Names of locks, keys and namespaces: a-z 0-9 . _ - in segments separated by slashes, at most
 * 128 bytes. Segments that start with a dot are reserved. A name with upper-case letters is
 * refused, and the error suggests the lower-case name. */
#define NAME_BYTES_MAX 128
enum hf_status name_check(struct view name, struct hf_error *error);

#endif
