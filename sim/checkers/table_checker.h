/* SPDX-License-Identifier: Apache-2.0 */
/* table_checker.h: parses lease tables for the checkers. It is a second implementation of
 * docs/formats.md and of the meaning of scopes, and uses no code from src/lease. */
#ifndef SIM_CHECKERS_TABLE_CHECKER_H
#define SIM_CHECKERS_TABLE_CHECKER_H

#include "base/view.h"

#include <stdint.h>

#define CHECKED_SCOPES_MAX 8

enum checked_kind {
    CHECKED_NAMED,
    CHECKED_PATH,
    CHECKED_TREE,
    CHECKED_INODE,
    CHECKED_RANGE,
    CHECKED_CHUNK,
    CHECKED_PIN,
    CHECKED_SNAPSHOT,
};

struct checked_scope {
    enum checked_kind kind;
    struct view name;
    uint64_t inode, start, end;
};

enum checked_mode { CHECKED_EXCLUSIVE, CHECKED_SHARED, CHECKED_SLOTS };

/* What a lease covers, and in which mode. A lease without scopes covers everything in its table. */
struct checked_wish {
    enum checked_mode mode;
    uint64_t slots;
    size_t scope_count;
    struct checked_scope scopes[CHECKED_SCOPES_MAX];
};

/* The scope's view points into the text. */
bool checked_scope_read(struct view text, struct checked_scope *ret_scope);

/* Whether the two must not be held at the same time. Slots of one scope also conflict; callers
 * count them instead (checked_share_slots). */
bool checked_conflict(const struct checked_wish *a, const struct checked_wish *b);

/* Whether both use a slot of the same scope. */
bool checked_share_slots(const struct checked_wish *a, const struct checked_wish *b);

/* A lease or a waiter. */
struct checked_entry {
    struct view bytes; /* the whole entry, as raw text */
    struct view id;
    uint64_t token;
    struct view status; /* as raw text */
    bool active;
    bool reserved; /* for a waiter: it has its turn */
    uint64_t renewals;
    uint64_t ttl_ms;
    uint64_t poll_ms;
    int64_t expires_us;
    struct view note; /* as raw text; data is NULL: none */
    bool wish_told;   /* it names its own scopes */
    struct checked_wish wish;
};

/* One version of a table, with a copy of its text. */
struct checked_version {
    char *text;
    bool foreign; /* written by another program: it has no format line */
    uint64_t next_token;
    uint64_t missed;
    struct checked_entry *leases, *waiters;
    size_t lease_count, waiter_count;
    struct view settings, audit; /* as raw text */
};

/* Returns NULL if the text is not a table. Entries whose bytes are unchanged since `before`, the
 * previous version (or NULL), are not parsed again. */
struct checked_version *checked_version_read(struct view text,
                                             const struct checked_version *before);

/* Does nothing if `version` is NULL. */
void checked_version_free(struct checked_version *version);

/* Each returns NULL if there is none. */
const struct checked_entry *checked_by_token(const struct checked_version *version,
                                             uint64_t token);
const struct checked_entry *checked_waiter(const struct checked_version *version,
                                           struct view id);

#endif
