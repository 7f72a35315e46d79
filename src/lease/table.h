/* table.h: the lease table: a document whose transitions are pure.
 *
 * A table holds the leases of everything that could get in each other's way, the queue of those
 * who wait, and the next token. It is changed in place by table_apply and written back by
 * whoever loaded it (src/doc); when the write fails the table is thrown away and loaded again.
 *
 * Invariants (table_check walks them all; a grant checks its own part):
 *   1. no two active leases conflict, except slots up to their number;
 *   2. every token is below next_token; next_token never falls;
 *   3. an id stands once, among leases and waiters together;
 *   4. a waiter is reserved exactly when nothing active conflicts with it and fewer than
 * 2^missed waiters before it do: whoever makes room says for whom. */
#ifndef LEASE_TABLE_H
#define LEASE_TABLE_H

#include "lease/lease.h"

#define TABLE_FORMAT "holdfast.leases/1"

/* Past these acquire and enqueue are refused; renew, release and claim never are. */
#define TABLE_BYTES_MAX      ((size_t)1024 * 1024)
#define TABLE_LEASES_MAX     1000
#define TABLE_WAITERS_MAX    4096
#define TABLE_AUDIT_MAX      32
#define TABLE_FINISHED_MAX   16 /* leases that are over and name no output, besides */
#define TABLE_FINISHED_BYTES ((size_t)64 * 1024) /* of those, together */
#define TABLE_COMPLETED_MAX \
    256 /* the newest completion of each scope, while nothing is promised */
#define TABLE_PROMISES_MAX   512 /* completions to be remembered for their period (once_per) */
#define TABLE_PROMISES_BYTES ((size_t)256 * 1024) /* of those, together */
#define TABLE_STATE_MAX      ((size_t)32 * 1024)  /* of what a key keeps beside its leases */

/* A document larger than this is not ours. */
#define TABLE_BYTES_READ_MAX ((size_t)8 * 1024 * 1024)

/* One who waits. Its id starts with its session: "<session>-<n>". */
struct waiter {
    struct lease *wanted;           /* what it turns into; all its fields can be read */
    bool reserved;                  /* it is this one's turn */
    bool called;                    /* by us, in a body that is not known to be written */
    struct mono_time reserved_seen; /* since when we see that */
};

/* Who had the lock of a shard last, of those whose leases are gone. */
struct table_face {
    struct wall_time created_at;
    size_t worker_size;
    char worker_id[HOLDER_BYTES_MAX];
};

struct lease_table {
    bool adopted;  /* a file of another program: no format line yet */
    bool of_shard; /* it is the lock of a shard: it has a face (face.c) */
    uint64_t next_token;
    struct lease_settings settings;
    struct ttl_limit limit; /* known to be recorded by whoever wrote it here */
    struct lease **leases;
    size_t lease_count;
    struct waiter *waiters;
    size_t waiter_count;
    struct lease *wanted; /* what waiters want who do not say; NULL when nobody waits */
    unsigned missed;      /* reservations in a row that nobody claimed */
    struct view *audit;   /* JSON objects, oldest first; each allocated */
    size_t audit_count;
    struct buffer state;            /* JSON of src/key, or empty: what the key holds */
    struct buffer unknown;          /* members that we do not know */
    struct buffer unknown_settings; /* and those of the settings */
    size_t bytes;                   /* of the leases, waiters, `wanted` and audit entries */
    size_t bytes_to_come;           /* of what waiters do not say: their leases will */
    bool ended;                     /* leases ended, and older ones may have to go */
    struct table_face face;
};

/* An empty table whose first token is of this epoch. */
struct lease_table *table_new(const struct lease_settings *settings, uint64_t epoch,
                              struct hf_error *error);
void table_free(struct lease_table *table);

/* Reads a document that arrived at this moment. What stood unchanged in `previous` (NULL for
 * none) keeps the moment since which it was seen, and is not read again but shared by the two
 * tables: so they must be used by one task at a time. CORRUPT when it is not a table,
 * UNSUPPORTED when it is one of a later version. */
enum hf_status table_decode(struct view text, struct mono_time arrived,
                            const struct lease_table *previous, struct lease_table **ret_table,
                            struct hf_error *error);

/* The same of the table that is the lock of a shard, which other programs may write as well: a file
 * with worker_id, created_at and expires_at alone is one active lease that covers the table. It is
 * to be watched for as long as these say, or for ttl_max. */
enum hf_status table_decode_of_shard(struct view text, struct mono_time arrived,
                                     const struct lease_table *previous,
                                     struct lease_table **ret_table, struct hf_error *error);

/* Locks of shards are held for no longer, so a barrier there does not last longer either. */
#define SHARD_TTL_MAX SPAN_S(300)

/* Writes it, with the nonce that makes its ETag new. False when it does not fit or without
 * memory. */
bool table_encode(const struct lease_table *table, struct view nonce, struct buffer *text);

/* Reads only who is reserved, for those who poll: the first `max` ids, as views of the text.
 * False when the text does not begin as ours do. */
bool table_peek_reserved(struct view text, struct view *ret_ids, size_t max, size_t *ret_count);

struct lease *table_find(const struct lease_table *table, struct view id);

/* The active lease of this token, or NULL. */
struct lease *table_find_token(const struct lease_table *table, uint64_t token);

/* Room for any state, so that table_set_state cannot fail afterwards. False without memory. */
bool table_reserve_state(struct lease_table *table);

/* What the key holds from now on: a JSON object, or empty. */
void table_set_state(struct lease_table *table, struct view state);
struct waiter *table_find_waiter(const struct lease_table *table, struct view id);

/* The table as it is now is known to stand in the store: those whom we have called can see it. */
void table_written(struct lease_table *table, struct mono_time now);

/* When, on our boot-time clock, there will be something to scavenge if nothing changes. */
struct mono_time table_due_at(const struct lease_table *table, const struct evidence *evidence);

/* ---- Transitions --------------------------------------------------------------------- */

enum table_op_kind {
    TABLE_ACQUIRE,  /* `wanted`; with `wait`, join the queue when it is not free */
    TABLE_CLAIM,    /* id: a waiter whose turn it is becomes a lease */
    TABLE_CANCEL,   /* id: leave the queue, or give back what was granted meanwhile */
    TABLE_RENEW,    /* id, token */
    TABLE_RELEASE,  /* id, token */
    TABLE_COMPLETE, /* id, token, note: done */
    TABLE_FAIL,     /* id, token, note: given up */
    TABLE_BREAK,    /* id, token, note: taken away by a person, who says why */
    TABLE_SCAVENGE, /* whatever is provably over, and waiters that missed their turn */
    TABLE_FORGET,   /* id: an ended lease whose output is settled */
    TABLE_BARRIER,  /* wanted: nothing is granted until this is over; raises the token epoch */
    TABLE_KEEP,     /* leaves the leases as they are: only the state is changed */
};

enum table_outcome {
    TABLE_NOTHING,
    TABLE_GRANTED,
    TABLE_QUEUED,
    TABLE_ENDED,
};

/* What is asked, and what came of it. */
struct table_op {
    enum table_op_kind kind;
    const struct lease *wanted; /* fields of the lease to be */
    struct view id;
    uint64_t token;
    struct view note;
    struct view by;          /* who breaks */
    bool wait;               /* wanted->poll says how often it will look */
    struct span once_per;    /* acquire, claim: not if it was completed within this ... */
    struct span once_slack;  /* ... less this */
    uint64_t epoch;          /* barrier: tokens go on from this epoch; grants: once theirs are
                                used up */
    const struct view *mine; /* nonces of this operation's own earlier attempts */
    size_t mine_count;
    bool limited;           /* grant and renew only what is known to be within a limit ... */
    struct ttl_limit limit; /* ... as the table has it, or this one */
    struct span ttl_unsaid; /* and so long can one be that does not say */

    enum table_outcome outcome;
    bool changed;    /* the table must be written */
    bool already;    /* it had happened before: by the attempt of `granted_by` */
    bool in_line;    /* acquire: it stood in line before */
    bool needs_time; /* refused, and written all the same: that tells the store's time */
    bool
        needs_epoch; /* refused: this epoch's tokens are used up, and `epoch` is no later one */
    bool needs_limit; /* refused: no limit allows a lease of `ttl_needed` */
    struct span ttl_needed;
    uint64_t granted; /* the token */
    struct view granted_by;
    struct store_time expires; /* of what was granted or renewed */
    size_t position;           /* in the queue, from 0 */
    size_t cleared;            /* leases that were provably over, and are marked so now */
    uint64_t cleared_token;    /* of the first of them, and whose it was */
    char cleared_holder[HOLDER_BYTES_MAX + 1];
    struct hf_error error;
    char blocker[64]; /* id of a lease or waiter in the way */
};

/* Applies one operation at the time that the evidence tells. OK, or a refusal:
 *   HELD       not free, or others wait before us
 *   LOST       the lease, or the place in the queue, is no longer there
 *   MISMATCH   another token than that lease's; or another number of slots
 *   INVALID    a ttl or scope out of bounds
 *   ALREADY    acquire with once_per: it was done within the period
 *   UNSUPPORTED  acquire with once_per: it could not be remembered for the period
 *   UNAVAILABLE  the table is full, or out of memory
 * A refusal may also have `changed` the table (what was over is cleared, what had no end has
 * one). */
enum hf_status table_apply(struct lease_table *table, struct table_op *op,
                           const struct evidence *evidence);

/* Whether a note can stand in a table: JSON, not too long and not too deep, or empty. */
bool table_takes_note(struct view note);

/* Aborts when an invariant does not hold. */
void table_check(const struct lease_table *table);

#endif
