/* judge_table.h: a lease table as a judge reads it: what docs/formats.md says of its JSON, and what
 * is known of scopes, written a second time. Nothing here comes from src/lease. */
#ifndef SIM_JUDGE_TABLE_H
#define SIM_JUDGE_TABLE_H

#include "base/view.h"

#include <stdint.h>

#define JUDGED_SCOPES_MAX 8

enum judged_kind {
    JUDGED_NAMED,
    JUDGED_PATH,
    JUDGED_TREE,
    JUDGED_INODE,
    JUDGED_RANGE,
    JUDGED_CHUNK,
    JUDGED_PIN,
};

struct judged_scope {
    enum judged_kind kind;
    struct view name;
    uint64_t inode, start, end;
};

enum judged_mode { JUDGED_EXCLUSIVE, JUDGED_SHARED, JUDGED_SLOTS };

/* What a lease covers, and how. Without scopes it covers all that its table is about. */
struct judged_wish {
    enum judged_mode mode;
    uint64_t slots;
    size_t scope_count;
    struct judged_scope scopes[JUDGED_SCOPES_MAX];
};

/* The scope's view points into the text. */
bool judged_scope_read(struct view text, struct judged_scope *ret_scope);

/* Whether no two of these may be held at once; slots of one thing are counted instead. */
bool judged_conflict(const struct judged_wish *a, const struct judged_wish *b);

/* Whether both take a slot of the same thing. */
bool judged_share_slots(const struct judged_wish *a, const struct judged_wish *b);

/* A lease, or one who waits. */
struct judged_entry {
    struct view bytes; /* all of it, as it stands */
    struct view id;
    uint64_t token;
    struct view status; /* as it stands */
    bool active;
    bool reserved; /* of one who waits: it is its turn */
    uint64_t renewals;
    uint64_t ttl_ms;
    uint64_t poll_ms;
    int64_t expires_us;
    struct view note; /* as it stands; data is NULL: none */
    bool wish_told;   /* it says itself what it covers */
    struct judged_wish wish;
};

/* One version of a table, with a copy of its text. */
struct judged_version {
    char *text;
    bool foreign; /* of another program: it has no format line */
    uint64_t next_token;
    uint64_t missed;
    struct judged_entry *leases, *waiters;
    size_t lease_count, waiter_count;
    struct view settings, audit; /* as they stand */
};

/* NULL when it is no table. Most entries stand as they stood in the version before, if there is one
 * (or NULL), and are not read again. */
struct judged_version *judged_version_read(struct view text,
                                           const struct judged_version *before);

/* NULL is fine. */
void judged_version_free(struct judged_version *version);

/* Each NULL when there is none. */
const struct judged_entry *judged_by_token(const struct judged_version *version,
                                           uint64_t token);
const struct judged_entry *judged_waiter(const struct judged_version *version, struct view id);

#endif
