/* SPDX-License-Identifier: Apache-2.0 */
/* key.h: keys inside the library: the struct of a handle, and the functions shared by the files
 * in this folder, the sweeper and the program. The public functions are in holdfast/key.h. */
#ifndef KEY_KEY_H
#define KEY_KEY_H

#include "base/options.h"
#include "key/change.h"
#include "key/record.h"
#include "lock/background.h"
#include "lock/handle.h"
#include "lock/server.h"

#include <stdatomic.h>

struct hf_key {
    struct hf_client *client;
    struct hf_lock *lock;
    struct change enlist; /* the hook of its lock's grants */
    char name[NAME_BYTES_MAX + 1];
    bool staged;      /* changes are published with the release */
    bool unconfirmed; /* a staging write got no reply: roll it back, or change it again */
    bool changed;     /* a version of ours is staged */
    /* The staged version. A release recognises its own effect by this version's ETag. */
    struct state_version next;
    /* A change for the transaction that is not in the store yet: the step that commits the
     * transaction stages and publishes it (README.md, rule 15). */
    struct {
        bool there;
        struct state_version version; /* with its bytes in: */
        struct buffer bytes;
    } kept;
    struct hf_txn *txn; /* the transaction that it belongs to, or NULL */
    bool keeps_txn;     /* the transaction does not own this handle, and must outlive it */
    bool sealed;        /* the transaction is or may be decided, so no change is allowed */
    bool waiting;       /* in the queue, by hf_key_begin */
    bool has_turn;      /* among the tasks of this process (lock/local_turn.h) */
    bool hasty;         /* an acquire without a wait does not even wait for a settling */
    bool in_doubt;      /* a step may have committed the transaction and ended the lease */
    bool stopped;       /* the transaction no longer needs the lease: */
    struct lock_ending ending;
    struct {
        struct body_name old[STATE_OLD_MAX]; /* listed as old, to be deleted */
        size_t old_count;
        struct body_name gone[STATE_OLD_MAX]; /* deleted; the next change forgets them */
        size_t gone_count;
        struct body_name doubt; /* of a change that got no reply; empty ETag: none */
    } bodies;
    struct env_mutex calls; /* serialises changes to the state */
};

/* Whether a transaction's record has been written. */
enum txn_begin {
    TXN_DEFERRED, /* nothing was sent: the step that acquires the first keys writes it, too */
    TXN_MAYBE,    /* there was no reply */
    TXN_BEGUN,    /* it was in the store */
    TXN_ENDED,    /* the transaction was rolled back without it */
};

struct hf_txn {
    struct hf_client *client;
    char id[TXN_ID_SIZE + 1];
    char owner[NONCE_SIZE + 1];
    bool joined;     /* begun by another process; our keys are named in the record, too */
    bool open;       /* joined: every member may commit it */
    struct doc *doc; /* its record */
    struct {         /* the first write of the record, which may wait for the first keys */
        struct env_mutex mutex;
        enum txn_begin state;
        bool told; /* the caller knows the id, which must not change any more */
    } begin;
    struct { /* the call that can be interrupted */
        struct env_mutex mutex;
        bool active;          /* a call that acquires keys is in progress */
        bool interrupted;     /* that call waits no more, and not for a later key either */
        bool cancelled;       /* and this wait is cancelled: */
        struct hf_lock *lock; /* NULL: it does not wait in a queue */
    } waiting;
    struct env_mutex mutex;    /* guards the members below; held by every call */
    enum txn_state known;      /* what we know of its record */
    bool asked;                /* a commit got no reply; it may be recorded, or even purged */
    bool settled;              /* its keys were settled in the step that committed it */
    struct mono_time asked_at; /* when that commit was sent */
    struct hf_key **keys;      /* in the order in which they were taken */
    size_t key_count;
    struct txn_key *others; /* keys that other processes have taken for it, as far as we know */
    size_t other_count;
    /* Settles its keys. While it is under way, none of the members above changes. */
    struct background_job settling;
    atomic_size_t users; /* the caller's handle, the settling, and handles that keep it */
};

/* Adds a user, and removes one. The last one frees the transaction and its keys. */
void txn_keep(struct hf_txn *txn);
void txn_drop(struct hf_txn *txn);

/* ---- Handles, for transactions (key.c) ----------------------------------------------- */

/* Like hf_key_new and hf_key_adopt, for a transaction (NULL: none). Changes are staged for the
 * transaction, and a release commits it or rolls it back. `options` may be NULL. A lease can be
 * adopted only for an open transaction; otherwise the result is DENIED, because only the process
 * that began the transaction knows what is staged. */
enum hf_status key_new_for(struct hf_client *client, const char *name,
                           const struct hf_key_options *options, struct hf_txn *txn,
                           struct hf_key **ret_key, struct hf_error *error);
enum hf_status key_adopt_for(struct hf_client *client, const char *lease,
                             const struct hf_key_options *options, struct hf_txn *txn,
                             struct hf_key **ret_key, struct hf_error *error);

/* A key's lease according to its handle: OK, EXPIRED, LOST, or NOT_FOUND if no lease is held. A
 * lease that was adopted without a request counts as held: the document decides. */
struct key_lease {
    char id[LEASE_ID_MAX + 1];
    uint64_t token;
};
enum hf_status key_lease(struct hf_key *key, struct key_lease *ret_lease);

/* Ends the use of a key by a decided transaction: promotes or discards the key's stage and
 * releases its lease, in one write. OK: the key's document was observed to have no stage left. Old
 * bodies are left to keys_clear_up. */
enum hf_status key_end(struct hf_key *key, bool commit, struct hf_error *error);

/* Makes sure that an acquire for a transaction that got no reply has left neither a lease nor a
 * stage. OK: it has not, and none can appear any more. */
enum hf_status key_undo_acquire(struct hf_key *key, struct hf_error *error);

/* Whether an acquire was refused because of a transaction that has since been decided, and whose
 * process is about to end the lease. */
bool key_is_being_settled(struct hf_key *key);

/* Lets the next task of this process ask for the key. Does nothing without a turn. */
void key_leave_turn(struct hf_key *key);

/* The first half of key_end, which makes no request: the handle no longer holds its lease. Until
 * key_end or key_abandon, this process does not ask for the key again. */
void key_stop(struct hf_key *key);

/* Instead of key_end: the server that decided the transaction has ended the lease. */
void key_ended_by_server(struct hf_key *key);

/* Instead of key_end, after key_stop: the lease and the stage are left to other clients. */
void key_abandon(struct hf_key *key);

/* ---- In one step with other keys (txn_step.c). The caller holds `calls`. ---------------- */

/* Before and after the request for the lease. If the second call fails, the lease is released. */
void key_begin_acquire_locked(struct hf_key *key);
enum hf_status key_finish_acquire_locked(struct hf_key *key, struct hf_error *error);

/* Sets `info`, which may be NULL, after an acquire with this status. */
void key_report_acquired_locked(const struct hf_key *key, enum hf_status status,
                                struct hf_key_info *info);

/* Like key_stop; instead of key_end, the change promotes the stage in the step that decides the
 * transaction. Then either the key is committed, or, if the step certainly changed nothing, its
 * handle holds the lease again. */
void key_stop_locked(struct hf_key *key);
void key_init_commit(struct change *change, const struct hf_key *key);
void key_committed_locked(struct hf_key *key, const struct change *change);
void key_resume_locked(struct hf_key *key);

/* Stages a change that was kept for the step of the commit, because there is no such step.
 * Does nothing if none was kept. MISMATCH, EXPIRED, LOST: the key is not held for the transaction
 * any more. UNSURE: call again. */
enum hf_status key_stage_kept_locked(struct hf_key *key, struct hf_error *error);

/* Deletes the old bodies of one client's keys, in as few requests as possible. Never fails. */
void keys_clear_up(struct hf_key *const *keys, size_t count);

/* The same for one key, with its `calls` held. */
void key_clear_up_locked(struct hf_key *key);

/* Records which bodies must be deleted, once a change is known to have been made. Called with
 * `calls` held. */
void key_note_state(struct hf_key *key, const struct key_state *state);

/* ---- Looking (read.c) ---------------------------------------------------------------- */

/* A key for display: the state that a reader would see, and the holder. */
struct key_description {
    struct hf_key_info info; /* version 0: it was never written */
    bool lost;               /* its document was damaged, so its state is unknown */
    bool staged;             /* there is a stage, of a lease alone or of info.txn */
    bool held;
    char holder[HOLDER_BYTES_MAX + 1];
    uint64_t token;              /* of that lease */
    struct span remaining;       /* by wall-clock time, for display only; never negative */
    struct wall_time expires_at; /* for display only, too */
    size_t waiters;
};

/* First clears ended leases (best effort). NOT_FOUND: there is neither a key nor a lock with this
 * name. */
enum hf_status key_describe(struct hf_client *client, const char *name,
                            struct key_description *ret_description, struct hf_error *error);

/* ---- Operations on one key (change.c, publish.c) ------------------------------------- */

/* Sends a change to a table, without a lease operation. A `deadline` of zero means REQUEST_TIME
 * from now. A refusal sets change->outcome. If the operation may have taken effect and then finds
 * the lease gone, the result is UNSURE. */
enum hf_status change_ask(struct table_ref *ref, struct change *change,
                          struct mono_time deadline, struct hf_error *error);

/* Whether the change, which needs a lease, would be allowed; changes nothing. `kept`: a version
 * that counts as staged already, or NULL. A refusal sets change->refused, and is based on the
 * current document. Otherwise the document may be a few milliseconds old. */
enum hf_status change_check(struct table_ref *ref, struct change *change,
                            const struct state_version *kept, struct hf_error *error);

/* The key of a name's document in a namespace. INVALID if the name is invalid. */
enum hf_status key_document(struct view ns, struct view name, char ret_key[KEY_BYTES_MAX + 1],
                            struct hf_error *error);

/* The key of a body: <ns>/state/<key>/<token>-<etag>. False if it is too long. */
bool key_body_key(struct view ns, struct view name, const struct body_name *body,
                  char ret_key[KEY_BYTES_MAX + 1]);

/* Deletes bodies of the named key, in as few requests as possible. Moves the *ret_gone bodies that
 * are known to be gone to the front of `names`. Never waits for long. */
void bodies_delete(struct hf_client *client, struct view name, struct body_name *names,
                   size_t count, size_t *ret_gone);

/* Prepares a change without a lease (once.c). The version, the data and the condition must live as
 * long as the change. */
void once_init(struct change *change, struct hf_key *key, struct view data, bool removes,
               const struct hf_key_if *when, struct state_version *ret_version);

/* OK, or INVALID if the conditions of a change make no sense. */
enum hf_status key_check_if(const struct hf_key_if *when, struct hf_error *error);

/* Fills in info from the state after a change. */
void key_info_fill(const struct key_state *state, const struct state_version *version,
                   enum hf_key_outcome outcome, struct hf_key_info *ret_info);

/* Starts a public call. Returns INVALID if `ret_info`, which may be NULL, was not initialised.
 * Otherwise clears it. */
static inline enum hf_status key_info_begin(struct hf_key_info *ret_info,
                                            struct hf_error *error)
{
    enum hf_status status = check_caller_report("HF_KEY_INFO", ret_info, error);
    if (status == HF_OK && ret_info)
        key_info_fill(NULL, NULL, HF_KEY_NONE, ret_info);
    return status;
}

/* ---- Stages of transactions (settle.c) ----------------------------------------------- */

/* The claim of a client that holds a key and takes it for a transaction; all empty: no claim. */
struct stage_claim {
    struct view lease;
    uint64_t token; /* of the lease */
    struct view enlist;
};

/* Settles the stage of the named key if it is decided or abandoned: reads the record, promotes or
 * discards the stage, and takes the key as claimed in the same write. Also deletes the old bodies.
 * HELD: the transaction is pending and the stage is not abandoned. */
enum hf_status stage_settle(struct table_ref *ref, struct view name,
                            const struct stage_claim *claim, struct change *ret_change,
                            struct hf_error *error);

/* ---- Transactions, for the sweeper and the program (txn.c, txn_look.c) --------------- */

/* The current record; NOT_FOUND if there is none. Released by record_release. */
enum hf_status txn_look(struct hf_client *client, struct view id, struct txn_record *ret_record,
                        struct hf_error *error);

/* Begins a transaction without a handle. Its members join it by its id, and commit it by its id
 * (txn_decide). */
enum hf_status txn_open(struct hf_client *client, char ret_id[TXN_ID_SIZE + 1],
                        struct hf_error *error);

/* Decides a transaction by its id alone, for processes that did not begin it. A commit covers the
 * keys that the record names. Each of them must have its stage under a lease that is still
 * active. */
enum hf_status txn_decide(struct hf_client *client, struct view id, enum hf_decision decision,
                          enum txn_state *ret_recorded, struct hf_error *error);

/* Saves a copy of an unreadable record for operators, and puts a rollback in its place
 * (give_up.c). Also returns OK if the record can be read or is missing. *ret_done: this call
 * replaced the record. */
enum hf_status txn_give_up(struct hf_client *client, struct view id, bool *ret_done,
                           struct hf_error *error);

/* The result of an attempt to purge a record. */
enum purge_result {
    PURGE_GONE,    /* there is no record, or another client has just purged it */
    PURGE_DONE,    /* purged by this call */
    PURGE_NOT_YET, /* not due yet */
    PURGE_DECIDED, /* it was pending for longer than D, and is now rolled back */
};

/* Purges a record if it is due: D has passed since the decision, and every participant has been
 * observed to have no stage left. Remaining stages are settled first. */
enum hf_status txn_purge(struct hf_client *client, struct view id,
                         enum purge_result *ret_result, struct hf_error *error);

/* Writes the index entry for a record that is about to be written. The sweeper finds the record
 * through this entry when it can be purged. */
enum hf_status record_announce(struct hf_client *client, struct view id,
                               struct hf_error *error);

#endif
