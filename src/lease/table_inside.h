/* SPDX-License-Identifier: Apache-2.0 */
/* table_inside.h: private to this folder: functions that change a table's arrays, and the
 * functions that the files share. */
#ifndef LEASE_TABLE_INSIDE_H
#define LEASE_TABLE_INSIDE_H

#include "lease/table.h"

#include <assert.h>

/* Tokens are epoch << 32 | counter. They are below 2^53, so that every JSON reader can represent
 * them exactly. */
#define TOKEN_MAX       ((UINT64_C(1) << 53) - 1)
#define TOKEN_EPOCH_MAX (TOKEN_MAX >> 32)

/* Claims are never refused for the table's size, so every waiter may become a lease. */
#define TABLE_LEASES_READ_MAX (2 * TABLE_WAITERS_MAX)
static_assert(TABLE_LEASES_READ_MAX > TABLE_LEASES_MAX + TABLE_WAITERS_MAX +
                                          TABLE_FINISHED_MAX + TABLE_COMPLETED_MAX +
                                          TABLE_PROMISES_MAX,
              "a table that we wrote can be read");

/* The largest count of missed turns that a document can have. */
#define MISSED_MAX 12

/* A reservation names at most 2^TOGETHER_BITS_MAX waiters. */
#define TOGETHER_BITS_MAX 12

/* The nesting depth of a note: it is inside a lease, inside `leases`, inside the table. */
#define NOTE_DEPTH 3

/* The maximum size of a table without its entries. */
#define KIB_OF_HEADER ((size_t)4 * 1024)

/* The first two take ownership of their argument if they succeed; the third copies it. */
bool table_add_lease(struct lease_table *table, struct lease *lease);
bool table_add_waiter(struct lease_table *table, struct waiter_entry *wanted);
bool table_add_audit(struct lease_table *table, struct view entry);

/* Removes the newest entry. */
void table_drop_audit(struct lease_table *table);

void table_remove_lease(struct lease_table *table, size_t index);
struct waiter_entry *table_take_waiter(struct lease_table *table, size_t index);

/* Sets the terms that waiters share, and takes ownership of them. NULL: there are none. */
void table_set_wanted(struct lease_table *table, struct wanted *wanted);

/* Refuses a request whose lease would not read back from the table as intended (wanted.c). */
enum hf_status wanted_check(const struct lease_table *table, struct table_op *op);

/* Whether both are slots of one semaphore: they do not exclude each other, but are counted. */
bool wishes_share_slots(const struct lease_wish *a, const struct lease_wish *b);

/* Replaces a lease with one that has these fields, and frees the old one. */
enum hf_status table_replace_lease(struct lease_table *table, struct lease *old,
                                   const struct lease *fields, struct table_op *op);

/* ---- Once per period (once_per.c) ---------------------------------------------------- */

/* Whether the store has a clock whose time we do not know yet. */
bool time_is_yet_unknown(const struct evidence *evidence);

/* Refuses the operation, but causes the table to be written: the reply contains the time. */
enum hf_status ask_for_time(struct table_op *op);

/* ALREADY if work with the scopes of `wanted` was completed within the period. */
enum hf_status once_per_check(struct lease_table *table, struct table_op *op,
                              const struct lease_wish *wanted, const struct evidence *evidence);

/* Whether the lease is a completion that must still be kept. */
bool once_per_is_promised(const struct lease *lease, const struct evidence *evidence);

/* UNSUPPORTED if the table has no room to remember the completion of a lease that is about to
 * be granted. */
enum hf_status once_per_promise(const struct lease_table *table, const struct lease *granted,
                                const struct evidence *evidence, struct table_op *op);

/* For a lease that is about to be completed: inherits a longer promise for the same work. */
void once_per_complete(const struct lease_table *table, struct lease *fields,
                       const struct evidence *evidence);

/* ---- The lock of a shard for older programs (legacy_lock.c) -------------------------- */

enum legacy_lock_member {
    LEGACY_WORKER_ID,
    LEGACY_CREATED_AT,
    LEGACY_EXPIRES_AT,
    LEGACY_MEMBERS
};

/* If another program's lock lasts longer, its ttl is treated as unknown. */
#define LEGACY_TTL_MS_MAX INT64_C(86400000)

/* Writes the members, each with a comma before it. */
void legacy_lock_write(const struct lease_table *table, struct buffer *text);

/* Reads the members from a table; values are JSON, empty if absent. False if out of memory. */
bool legacy_lock_read(struct lease_table *table, const struct view members[LEGACY_MEMBERS]);

/* Remembers the holder of a lease that is being removed from the table. */
void legacy_lock_follow(struct lease_table *table, const struct lease *gone);

/* The lease that another program's file represents. */
enum hf_status legacy_lock_lease(const struct view members[LEGACY_MEMBERS],
                                 struct lease **ret_lease, struct hf_error *error);

/* ---- Ids (ids.c) --------------------------------------------------------------------- */

/* The position of each id in a table: leases first, then waiters. Valid until either
 * changes. */
struct ids {
    const struct lease_table *table;
    struct id_slot {
        uint32_t hash;
        uint32_t place; /* from 1; 0: empty */
    } * slots;
    size_t room;
};

#define NOWHERE SIZE_MAX

/* False if out of memory. *ret_unique: no id occurs twice. */
bool ids_init(struct ids *ids, const struct lease_table *table, bool *ret_unique);
void ids_release(struct ids *ids);

/* The index of the lease or waiter with this id, or NOWHERE. */
size_t ids_lease(const struct ids *ids, struct view id);
size_t ids_waiter(const struct ids *ids, struct view id);

/* ---- The queue (queue.c) ------------------------------------------------------------- */

/* Whether an active lease blocks the request, or all slots are in use; if so, names one lease. */
bool queue_active_blocks(const struct lease_table *table, const struct lease_wish *wanted,
                         struct view *ret_blocker);

/* How many of the first `before` waiters block a request; counts up to `limit`. */
size_t queue_waiters_before(const struct lease_table *table, const struct lease_wish *wanted,
                            size_t before, size_t limit);

/* How many waiters that conflict get their turn together after so many missed turns. */
size_t queue_turn_width(unsigned missed);

/* Restores invariant 4 of table.h. The turn of a newly reserved waiter is counted from `now`. */
void queue_settle(struct lease_table *table, struct mono_time now);

/* Drops all waiters of each session that missed a turn; true if there were any. */
bool queue_drop_missed(struct lease_table *table, struct mono_time now);

/* Drops all waiters of each session that has a turn and is gone; true if there were any. Never
 * touches a lease: a lease may outlive its session by design. */
bool queue_drop_gone(struct lease_table *table, const struct table_op *op);

/* ---- permit.c ------------------------------------------------------------------------ */

/* Whether there is a token left. Continues in a later epoch if the operation names one. */
enum hf_status permit_token(struct lease_table *table, struct table_op *op);

/* Whether a recorded limit allows a lease of this ttl. */
enum hf_status permit_ttl(struct lease_table *table, struct span ttl,
                          const struct evidence *evidence, struct table_op *op);

#endif
