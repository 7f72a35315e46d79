/* table_inside.h: for the files of this folder only: how a table keeps its arrays. */
#ifndef LEASE_TABLE_INSIDE_H
#define LEASE_TABLE_INSIDE_H

#include "lease/table.h"

#include <assert.h>

/* Tokens are epoch << 32 | counter, below 2^53 so that every JSON reader keeps them whole. */
#define TOKEN_MAX       ((UINT64_C(1) << 53) - 1)
#define TOKEN_EPOCH_MAX (TOKEN_MAX >> 32)

/* Claims are never refused, so there may be as many leases as there were waiters. */
#define TABLE_LEASES_READ_MAX (2 * TABLE_WAITERS_MAX)
static_assert(TABLE_LEASES_READ_MAX > TABLE_LEASES_MAX + TABLE_WAITERS_MAX +
                                          TABLE_FINISHED_MAX + TABLE_COMPLETED_MAX +
                                          TABLE_PROMISES_MAX,
              "a table that we wrote can be read");

/* The reservation names at most 2^MISSED_MAX waiters. */
#define MISSED_MAX 12

/* How deep in a table a note stands: in a member of its lease, in a member, in the table. */
#define NOTE_DEPTH 3

/* What a table has around its entries. */
#define KIB_OF_HEADER ((size_t)4 * 1024)

/* Each takes what it is given over when it succeeds. */
bool table_add_lease(struct lease_table *table, struct lease *lease);
bool table_add_waiter(struct lease_table *table, struct lease *wanted);
bool table_add_audit(struct lease_table *table, struct view entry);

/* Takes back the newest entry. */
void table_drop_audit(struct lease_table *table);

void table_remove_lease(struct lease_table *table, size_t index);
struct lease *table_take_waiter(struct lease_table *table, size_t index);

/* Says what those want who do not say; takes it over. NULL: every one says. */
void table_set_wanted(struct lease_table *table, struct lease *wanted);

/* Refuses a request whose lease could not stand in the table as it was meant (wanted.c). */
enum hf_status wanted_check(const struct lease_table *table, struct table_op *op);

/* Puts a lease of these fields in the place of another, which is freed. */
enum hf_status table_replace_lease(struct lease_table *table, struct lease *old,
                                   const struct lease *fields, struct table_op *op);

/* ---- Once a period (once_per.c) ------------------------------------------------------- */

/* Whether the store has a clock, and has not told us what it says. */
bool time_is_yet_unknown(const struct evidence *evidence);

/* Refuses, and has the table written all the same: the answer to that tells the time. */
enum hf_status ask_for_time(struct table_op *op);

/* ALREADY when the same as `wanted` was completed within the period of the operation. */
enum hf_status once_per_check(struct lease_table *table, struct table_op *op,
                              const struct lease *wanted, const struct evidence *evidence);

/* Whether it is a completion that must be remembered still. */
bool once_per_is_promised(const struct lease *lease, const struct evidence *evidence);

/* UNSUPPORTED when the table has no room to remember the completion of a lease that is about to be
 * granted. */
enum hf_status once_per_promise(const struct lease_table *table, const struct lease *granted,
                                const struct evidence *evidence, struct table_op *op);

/* Fields of a lease that is about to be completed: it takes over what is promised of the same work
 * that was done before. */
void once_per_complete(const struct lease_table *table, struct lease *fields,
                       const struct evidence *evidence);

/* ---- The face of a shard's lock (face.c) --------------------------------------------- */

enum face_member { FACE_WORKER_ID, FACE_CREATED_AT, FACE_EXPIRES_AT, FACE_MEMBERS };

/* A lock of another program that is to last longer than a day does not tell how long it lasts. */
#define FACE_TTL_MS_MAX INT64_C(86400000)

/* Writes its members, each with a comma before it. */
void face_write(const struct lease_table *table, struct buffer *text);

/* Takes over what a table says; values are JSON, empty when they are not there. False without
 * memory. */
bool face_read(struct lease_table *table, const struct view members[FACE_MEMBERS]);

/* A lease is about to leave the table. */
void face_follow(struct lease_table *table, const struct lease *gone);

/* The lease that a file of another program stands for. */
enum hf_status face_lease(const struct view members[FACE_MEMBERS], struct lease **ret_lease,
                          struct hf_error *error);

/* ---- Ids (ids.c) --------------------------------------------------------------------- */

/* Where each id of a table stands: leases first, then waiters. Good until either changes. */
struct ids {
    const struct lease_table *table;
    struct id_slot {
        uint32_t hash;
        uint32_t place; /* from 1; 0: empty */
    } * slots;
    size_t room;
};

#define NOWHERE SIZE_MAX

/* False without memory. *ret_unique: no id stands twice. */
bool ids_init(struct ids *ids, const struct lease_table *table, bool *ret_unique);
void ids_release(struct ids *ids);

/* The index of a lease, or of a waiter, or NOWHERE. */
size_t ids_lease(const struct ids *ids, struct view id);
size_t ids_waiter(const struct ids *ids, struct view id);

/* ---- The queue (queue.c) ------------------------------------------------------------- */

/* Whether an active lease, or slots that are all taken, stand in the way; then names one. */
bool queue_active_blocks(const struct lease_table *table, const struct lease *wanted,
                         struct view *ret_blocker);

/* How many of the first `before` waiters stand in the way of a request; counts up to `limit`.
 */
size_t queue_waiters_before(const struct lease_table *table, const struct lease *wanted,
                            size_t before, size_t limit);

/* Restores invariant 4; a waiter whose turn begins is seen since `now`. */
void queue_settle(struct lease_table *table, struct mono_time now);

/* Drops the waiters of sessions that let their turn pass; true when there were any. */
bool queue_drop_missed(struct lease_table *table, struct mono_time now);

/* ---- permit.c ------------------------------------------------------------------------ */

/* That there is a token left; goes on in a later epoch where the operation names one. */
enum hf_status permit_token(struct lease_table *table, struct table_op *op);

/* That it is known that a lease of this ttl can be. */
enum hf_status permit_ttl(struct lease_table *table, struct span ttl,
                          const struct evidence *evidence, struct table_op *op);

#endif
