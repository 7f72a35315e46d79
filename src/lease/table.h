/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: the lease table: a document whose transitions are pure.
 *
 * A table holds all leases that can conflict with one another, the queue of waiters, and the
 * next token. table_apply changes it in place, and src/doc writes it back. If the write fails,
 * the table is discarded and loaded again.
 *
 * Invariants (table_check in the tests verifies them all; a grant checks its own part):
 *
 *   1. no two active leases conflict, except slots up to their number;
 *   2. every token is below next_token; next_token never decreases;
 *   3. an id occurs once, among leases and waiters together;
 *   4. a waiter is reserved exactly when no active lease conflicts with it and fewer than
 *      16^missed waiters before it do. The operation that makes room reserves it. */
#ifndef LEASE_TABLE_H
#define LEASE_TABLE_H

#include "lease/lease.h"

#define TABLE_FORMAT "holdfast.leases/1"

/* Beyond these limits, acquire and enqueue are refused. Renew, release and claim never are. */
#define TABLE_BYTES_MAX      ((size_t)1024 * 1024)
#define TABLE_LEASES_MAX     1000
#define TABLE_WAITERS_MAX    4096
#define TABLE_AUDIT_MAX      32
#define TABLE_FINISHED_MAX   16 /* ended leases that name no output, in addition */
#define TABLE_FINISHED_BYTES ((size_t)64 * 1024) /* the total size of these */
#define TABLE_COMPLETED_MAX  256 /* newest completions of scopes without a promise */
#define TABLE_PROMISES_MAX   512 /* completions kept for their period (once_per) */
#define TABLE_PROMISES_BYTES ((size_t)256 * 1024) /* the total size of these */
#define TABLE_STATE_MAX      ((size_t)32 * 1024)  /* the state of a key, beside its leases */

/* A larger document is not a lease table. */
#define TABLE_BYTES_READ_MAX ((size_t)8 * 1024 * 1024)

/* A waiter. Its id starts with its session: "<session>-<n>". */
struct waiter {
    struct waiter_entry *wanted;    /* its request */
    bool reserved;                  /* it has its turn */
    bool called;                    /* we gave it its turn, in a body not known to be written */
    struct mono_time reserved_seen; /* when we first saw its turn */
};

/* The last holder of a shard's lock whose lease is no longer in the table. */
struct table_legacy_lock {
    struct wall_time created_at;
    size_t worker_size;
    char worker_id[HOLDER_BYTES_MAX];
};

struct lease_table {
    bool adopted;  /* another program's file, which has no format line yet */
    bool of_shard; /* a shard's lock, which has the members of legacy_lock.c */
    bool damaged;  /* a mark in place of a table that cannot be read (src/lock/tables.c) */
    uint64_t next_token;
    struct lease_settings settings;
    struct ttl_limit limit; /* the client that wrote it here knew that it was recorded */
    struct lease **leases;
    size_t lease_count;
    struct waiter *waiters;
    size_t waiter_count;
    struct wanted *wanted; /* the terms that waiters share; NULL without waiters */
    unsigned missed;    /* reservations not claimed since the first in line last claimed one */
    struct view *audit; /* JSON objects, oldest first; each allocated */
    size_t audit_count;
    struct buffer state;            /* the state of a key, as JSON from src/key; or empty */
    struct buffer unknown;          /* unknown members */
    struct buffer unknown_settings; /* unknown members of the settings */
    size_t bytes;                   /* of the leases, waiters, `wanted` and audit entries */
    size_t bytes_to_come;           /* that the leases of waiters with shared terms will add */
    bool ended;                     /* a lease ended: old finished leases may be removed */
    struct table_legacy_lock legacy;
};

/* An empty table whose first token is in this epoch. */
struct lease_table *table_new(const struct lease_settings *settings, uint64_t epoch,
                              struct hf_error *error);
void table_free(struct lease_table *table);

/* Decodes a document that arrived at this time. Entries that are unchanged since `previous` (NULL
 * for none) keep the time at which they were first seen, and are shared by the two tables instead
 * of being decoded again. So only one task at a time may use the two tables. Returns CORRUPT if
 * the document is not a table, and UNSUPPORTED if a later version wrote it. */
enum hf_status table_decode(struct view text, struct mono_time arrived,
                            const struct lease_table *previous, struct lease_table **ret_table,
                            struct hf_error *error);

/* The same for a shard's lock, which other programs may also write. A file with only worker_id,
 * created_at and expires_at is decoded as one active lease that covers the table. This lease must
 * be watched for the time between created_at and expires_at or, if that is unknown, for
 * ttl_max. */
enum hf_status table_decode_of_shard(struct view text, struct mono_time arrived,
                                     const struct lease_table *previous,
                                     struct lease_table **ret_table, struct hf_error *error);

/* The longest ttl of a shard's lock, and therefore of a barrier in its table. */
#define SHARD_TTL_MAX SPAN_S(300)

/* Encodes the table, with the nonce that makes its ETag unique. False if the text does not fit, or
 * if out of memory. */
bool table_encode(const struct lease_table *table, struct view nonce, struct buffer *text);

struct lease *table_find(const struct lease_table *table, struct view id);

/* The active lease with this token, or NULL. */
struct lease *table_find_token(const struct lease_table *table, uint64_t token);

/* Reserves memory for any state, so that table_set_state cannot fail afterwards. False if out of
 * memory. */
bool table_reserve_state(struct lease_table *table);

/* Sets the state of the key: a JSON object, or empty. */
void table_set_state(struct lease_table *table, struct view state);
struct waiter *table_find_waiter(const struct lease_table *table, struct view id);

/* Notes that the table is known to be in the store. Waiters that were given their turn can now see
 * it. */
void table_written(struct lease_table *table, struct mono_time now);

/* When, on our boot-time clock, there will be an entry to scavenge if nothing changes. */
struct mono_time table_due_at(const struct lease_table *table, const struct evidence *evidence);

enum table_op_kind {
    TABLE_ACQUIRE, /* wanted; with `wait`, joins the queue if the lock is not free */
    TABLE_CLAIM,   /* id: turns a waiter whose turn it is into a lease */
    /* Id: leave the queue, or release the lease if it was granted meanwhile. */
    TABLE_CANCEL,
    TABLE_RENEW,    /* id, token; a note, if there is one, replaces that of the lease */
    TABLE_RELEASE,  /* id, token */
    TABLE_COMPLETE, /* id, token, note: the work is done */
    TABLE_FAIL,     /* id, token, note: the work failed */
    TABLE_BREAK,    /* id, token, note: ended by an operator, for a reason */
    /* Mark leases proven to have ended, drop waiters that missed their turn or are gone. */
    TABLE_SCAVENGE,
    TABLE_FORGET,  /* id: remove an ended lease whose output has been settled */
    TABLE_BARRIER, /* wanted: nothing is granted until it ends; raises the token epoch */
    TABLE_KEEP,    /* leave the leases alone: only the state changes */
};

enum table_outcome {
    TABLE_NOTHING,
    TABLE_GRANTED,
    TABLE_QUEUED,
    TABLE_ENDED,
};

/* An operation and its result. */
struct table_op {
    enum table_op_kind kind;
    const struct lease_request *wanted;
    struct view id;
    uint64_t token;
    struct view note;
    struct view by; /* the name of the operator who breaks the lease */
    bool wait;      /* `wanted` contains the poll interval */
    /* Acquire, claim: refuse if the work was completed within this period ... */
    struct span once_per;
    struct span once_slack; /* ... less this */
    /* Barrier: the epoch of the next token. Grants: the epoch to continue in once the tokens of
     * the table's own epoch are used up. */
    uint64_t epoch;
    const struct view *mine; /* nonces of earlier attempts of this operation */
    size_t mine_count;
    bool limited;           /* grant and renew only within a recorded limit ... */
    struct ttl_limit limit; /* ... which is the table's own limit, or this one */
    struct span ttl_unsaid; /* the ttl of leases that do not state theirs */
    /* Whether the process of this waiter has ended, so that nobody will claim its turn. NULL: not
     * known of any. Like the evidence, it is knowledge that the caller has. */
    bool (*gone)(void *argument, const struct lease_request *waiter);
    void *gone_argument;

    enum table_outcome outcome;
    bool changed;    /* the table must be written */
    bool already;    /* an earlier attempt, `granted_by`, had already done it */
    bool in_line;    /* acquire: it was already in the queue */
    bool needs_time; /* refused, but must be written: the reply contains the store time */
    /* Refused: the tokens of this epoch are used up, and `epoch` is not a later one. */
    bool needs_epoch;
    bool needs_limit; /* refused: no limit allows a lease of `ttl_needed` */
    struct span ttl_needed;
    uint64_t granted; /* the token */
    struct view granted_by;
    struct store_time expires; /* of the lease that was granted or renewed */
    size_t position;           /* in the queue, from 0 */
    size_t cleared;            /* leases proven to have ended, now marked as expired */
    uint64_t cleared_token;    /* token and holder of the first of them */
    char cleared_holder[HOLDER_BYTES_MAX + 1];
    struct hf_error error;
    char blocker[64]; /* id of a lease or waiter in the way */
};

/* Applies one operation at the time of the evidence. Returns OK, or a refusal:
 *
 *   HELD         not free, or others are ahead of us in the queue
 *   LOST         the lease, or the place in the queue, no longer exists
 *   MISMATCH     the lease has a different token, or the semaphore a different number of slots
 *   INVALID      a ttl or scope is out of range
 *   ALREADY      acquire with once_per: it was done within the period
 *   UNSUPPORTED  acquire with once_per: the table cannot remember it for the period
 *   UNAVAILABLE  the table is full, or out of memory
 *
 * A refusal may also have `changed` the table, but only by cleanup that is safe for any client to
 * do, such as marking leases that are proven to have ended. */
enum hf_status table_apply(struct lease_table *table, struct table_op *op,
                           const struct evidence *evidence);

/* Whether a table can hold a note: it is empty, or JSON that is neither too long nor too deep. */
bool table_takes_note(struct view note);

#endif
