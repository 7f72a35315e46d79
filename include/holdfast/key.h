/* SPDX-License-Identifier: Apache-2.0 */
/* key.h: keys with state, and transactions. A key is a name with a lock and a state. The state is a
 * byte string of any length, with a version that increases by one with every change and an ETag
 * that is never reused. (A key that was removed and has not been used for a day may be forgotten;
 * its versions then start again at 1.) The lease of a key is the lease of the lock named:<key>.
 * While a client holds the key, only that client may change the state. The lease and the state are
 * stored in one document, so the store itself refuses a change that arrives after a takeover.
 * Reading needs no lease, and neither does a single change of a key that is free (hf_key_change).
 *
 *     struct hf_key *key;
 *     hf_key_new(client, "orders/42", NULL, &key, &error);
 *     hf_key_acquire(key, 10000, NULL, &error);
 *     hf_key_update(key, text, strlen(text), NULL, NULL, &error);
 *     hf_key_release(key, HF_COMMIT, &error);
 *     hf_key_free(key);
 *
 * TRANSACTIONS change several keys, either all or none. Acquire and change the keys for a
 * transaction. No other client sees the changes before the commit, which is a single write to one
 * object. If the process dies, the next client that wants one of the keys rolls the transaction
 * back.
 *
 *     hf_txn_begin(client, NULL, &txn, &error);
 *     hf_txn_acquire(txn, names, 2, NULL, 10000, keys, &error);
 *     hf_key_update(keys[0], ...); hf_key_update(keys[1], ...);
 *     hf_txn_commit(txn, &decision, &error);
 *     hf_txn_free(txn);                               also frees its keys
 *
 * Reading several keys does not return a consistent snapshot. If you need one, acquire the keys. */
#ifndef HOLDFAST_KEY_H
#define HOLDFAST_KEY_H

#include "holdfast/lock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hf_key;
struct hf_txn;

/* Why an operation on a key was refused. Each row: constant, status, description. */
#define HF_KEY_OUTCOME_TABLE(ROW)                                                     \
    ROW(NONE, OK, "done")                                                             \
    ROW(LEASE_REQUIRED, DENIED, "the key must be held in exclusive mode")             \
    ROW(LEASE_EXPIRED, EXPIRED, "the lease has expired or was ended")                 \
    ROW(FENCING_MISMATCH, FENCED, "the key has since been granted to another client") \
    ROW(VERSION_CONFLICT, CONFLICT, "the key does not have the given version")        \
    ROW(ETAG_MISMATCH, CONFLICT, "the key does not have the given ETag")              \
    ROW(TXN_MISMATCH, MISMATCH, "the key is not held for the given transaction")      \
    ROW(WAITING, HELD, "another client or an undecided transaction holds the key")

#define HF_KEY_OUTCOME_ENUM_(name, status, text) HF_KEY_##name,
enum hf_key_outcome { HF_KEY_OUTCOME_TABLE(HF_KEY_OUTCOME_ENUM_) HF_KEY_OUTCOME_COUNT };
#undef HF_KEY_OUTCOME_ENUM_

/* Returns the name of an outcome in lower case, such as "version_conflict". */
HF_API const char *hf_key_outcome_name(enum hf_key_outcome outcome);

#define HF_KEY_ETAG_SIZE 32
#define HF_TXN_ID_SIZE   32

/* One version of a key. */
struct hf_key_info {
    size_t struct_size;
    enum hf_key_outcome outcome;     /* why the call was refused; always set */
    uint64_t version;                /* 0: never written */
    char etag[HF_KEY_ETAG_SIZE + 1]; /* empty if the version is 0 */
    uint64_t size;
    uint64_t token;               /* of the lease under which it was written */
    int64_t updated_ms;           /* since 1970, by the writer's wall clock, for display only */
    bool removed;                 /* this version removed the state */
    char txn[HF_TXN_ID_SIZE + 1]; /* the transaction that holds the key, or empty */
};
#define HF_KEY_INFO                                                                           \
    HF_VALUE_(hf_key_info, sizeof(struct hf_key_info), HF_KEY_NONE, 0, { 0 }, 0, 0, 0, false, \
              { 0 })

/* The conditions for a change. */
struct hf_key_if {
    size_t struct_size;
    bool version_set;
    uint64_t version; /* 0: the key has no state */
    const char *etag; /* not empty; NULL: any */
};
#define HF_KEY_IF HF_VALUE_(hf_key_if, sizeof(struct hf_key_if), false, 0, NULL)

/* Whether staged changes are published or dropped. */
enum hf_decision { HF_COMMIT, HF_ROLLBACK };

struct hf_key_options {
    size_t struct_size;
    int64_t ttl_ms;  /* of the lease, which is exclusive */
    bool no_renewal; /* do not renew in the background; call hf_key_keepalive */
    int64_t poll_ms; /* how often a waiter polls, as in struct hf_lock_options */
    /* Publish all changes together when the key is released. If the lease is lost, so are the
     * changes. */
    bool staged;
    const char *note; /* JSON stored with the lease, or NULL */

    /* As in struct hf_lock_options; `lock` is the lock of the key. */
    void (*notify)(void *argument, struct hf_lock *lock, enum hf_lock_event event);
    void *notify_argument;

    bool unconfirmed; /* hf_key_adopt: make no request, as in hf_lock_adopt */
};
#define HF_KEY_OPTIONS                                                                     \
    HF_VALUE_(hf_key_options, sizeof(struct hf_key_options), 30000, false, 0, false, NULL, \
              NULL, NULL, false)

/* Creates a handle for a key. `options` may be NULL. Local. */
HF_API enum hf_status hf_key_new(struct hf_client *client, const char *name,
                                 const struct hf_key_options *options, struct hf_key **ret_key,
                                 struct hf_error *error);

/* Frees a handle. A lease that it still holds is released in the background, and staged changes are
 * dropped. Does nothing if `key` is NULL. */
HF_API void hf_key_free(struct hf_key *key);

/* Acquires the key, like hf_lock_acquire. Changes staged by earlier holders and transactions are
 * published or dropped first. `info` may be NULL, here and below. */
HF_API enum hf_status hf_key_acquire(struct hf_key *key, int64_t wait_ms,
                                     struct hf_key_info *info, struct hf_error *error);

/* Acquires the key without blocking, in steps, like hf_lock_begin, hf_lock_poll and hf_lock_cancel.
 * hf_key_begin returns HF_OK, or HF_HELD and joins the queue. hf_key_poll returns HF_OK if the
 * handle holds the key, HF_HELD if it is still waiting, and HF_NOT_FOUND if it was not in the
 * queue. After any other status, the handle is not in the queue. The keys of a transaction cannot
 * be acquired in this way. */
HF_API enum hf_status hf_key_begin(struct hf_key *key, struct hf_key_info *info,
                                   struct hf_error *error);
HF_API enum hf_status hf_key_poll(struct hf_key *key, struct hf_key_info *info,
                                  struct hf_error *error);
HF_API enum hf_status hf_key_cancel(struct hf_key *key, struct hf_error *error);

/* Returns the lock of the key, for hf_lock_check, hf_lock_remaining_ms, hf_lock_token and
 * hf_lock_text. Do not free it. */
HF_API struct hf_lock *hf_key_lock(struct hf_key *key);

/* Returns the name of the key, or "" if `key` is NULL. Local. */
HF_API const char *hf_key_name(const struct hf_key *key);

/* Returns the version that the key had when this handle, or its transaction, last acquired it.
 * Returns HF_NOT_FOUND if the key was never acquired. Local. */
HF_API enum hf_status hf_key_seen(struct hf_key *key, struct hf_key_info *info,
                                  struct hf_error *error);

/* Renews the lease now. */
HF_API enum hf_status hf_key_keepalive(struct hf_key *key, struct hf_error *error);

/* Changes the state. The change becomes visible immediately or, in a transaction or with `staged`,
 * at the commit. `when` may be NULL. A file is read from its beginning, and must not change during
 * the call. Returns HF_UNSURE if the store did not reply: call again, or roll back. */
HF_API enum hf_status hf_key_update(struct hf_key *key, const void *data, size_t size,
                                    const struct hf_key_if *when, struct hf_key_info *info,
                                    struct hf_error *error);
HF_API enum hf_status hf_key_update_file(struct hf_key *key, int fd,
                                         const struct hf_key_if *when, struct hf_key_info *info,
                                         struct hf_error *error);
HF_API enum hf_status hf_key_remove(struct hf_key *key, const struct hf_key_if *when,
                                    struct hf_key_info *info, struct hf_error *error);

/* How to change a key without a handle. */
struct hf_key_change_options {
    size_t struct_size;
    bool removes;                 /* remove the state; the data must be empty */
    const struct hf_key_if *when; /* the conditions; NULL: none */
    int64_t wait_ms;              /* how long to wait if the key is held; 0: not at all */
    int64_t ttl_ms;               /* of the lease, if one is needed */
    /* do not acquire the key: HF_HELD if it cannot be changed without a lease */
    bool free_only;
};
#define HF_KEY_CHANGE_OPTIONS                                                              \
    HF_VALUE_(hf_key_change_options, sizeof(struct hf_key_change_options), false, NULL, 0, \
              30000, false)

/* Changes the state of a key that this process does not hold. If nobody holds the key or waits for
 * it, this is a single write, which checks the conditions, takes the next token and publishes the
 * state; a state above 4 KiB is written before it. Otherwise, and if a state above 4 KiB belongs to
 * a key that this client has not used before, the key is acquired, changed and released. `options`
 * may be NULL.
 *
 * Returns HF_HELD or, after a wait, HF_TIMEOUT if the key was not free within wait_ms. Returns
 * HF_UNSURE if it is not known whether the key was changed: because the store did not reply or, on
 * a store on the network, because dozens of other changes came first. Read the key before you call
 * again. */
HF_API enum hf_status hf_key_change(struct hf_client *client, const char *name,
                                    const void *data, size_t size,
                                    const struct hf_key_change_options *options,
                                    struct hf_key_info *info, struct hf_error *error);

/* The new state of one key. */
struct hf_key_write {
    const char *name;
    const void *data; /* at most 4 KiB */
    size_t size;
    bool removes;                 /* remove the state; the data must be empty */
    const struct hf_key_if *when; /* the conditions; NULL: none */
};

/* The maximum number of keys that are changed together. */
#define HF_KEYS_TOGETHER_MAX 32

/* Changes several keys that this process does not hold, in one step of the store: all or none.
 * Nobody ever sees some of them changed and others not. If nobody holds a key or waits for it, this
 * is a single write. Otherwise the keys are acquired in the order of their names, waiting for at
 * most wait_ms in total, changed together, and released. `infos` is NULL or an array of `count`
 * structs, each initialised with HF_KEY_INFO.
 *
 * Only a store with its own lock can do this (sqlite), and only while not too many clients wait for
 * a key (hundreds). Otherwise returns HF_UNSUPPORTED, and nothing is changed: use a transaction
 * (hf_txn_begin), which works on every store. Returns the refusal of one key if its conditions do
 * not hold; the outcome is then in its info, and nothing is changed. Returns HF_HELD or, after a
 * wait, HF_TIMEOUT if a key was not free within wait_ms. Returns HF_UNSURE if it is not known
 * whether the keys were changed; either all are, or none: read one of them before you call
 * again. */
HF_API enum hf_status hf_key_change_many(struct hf_client *client,
                                         const struct hf_key_write *writes, size_t count,
                                         int64_t wait_ms, struct hf_key_info *infos,
                                         struct hf_error *error);

enum hf_try_kind {
    HF_TRY_ACQUIRE, /* as hf_lock_acquire or hf_key_acquire with a wait_ms of 0 */
    HF_TRY_BEGIN,   /* as hf_lock_begin or hf_key_begin */
    HF_TRY_RELEASE, /* as hf_lock_release; not for a key */
    HF_TRY_RENEW,   /* as hf_lock_renew; not for a key */
};

/* One lock of hf_try_many. */
struct hf_try {
    enum hf_try_kind kind;
    struct hf_lock *lock; /* one of these two; the other one is NULL */
    struct hf_key *key;
    struct hf_key_info *info; /* of the key; may be NULL */
    struct hf_error error;    /* the result */
};

#define HF_TRY_MAX 64

/* Acquires many locks and keys, and releases or renews others, in one attempt: all locks of one
 * table are written together, releases first, and on an sqlite store everything is synced to the
 * disk at once. Use it to serve many clients from one process. The handles must be different, and
 * belong to one client.
 * Returns HF_OK, and the result of each in its `error`: what the single call would have returned.
 * None depends on another. There is one more result, HF_CONFLICT: this lock takes more than one
 * write, for example because its table must be created. Nothing was done for it then, and the
 * handle is as before: make the single call.
 *
 * Returns HF_UNSUPPORTED, and does nothing, on a store without its own lock (any but sqlite), and
 * on a server. There, make the single calls, in as many threads as you like. */
HF_API enum hf_status hf_try_many(struct hf_try *tries, size_t count, struct hf_error *error);

/* Releases the key. Staged changes are published or dropped in the same write. If the key belongs
 * to a transaction, this commits or rolls back the whole transaction.
 *
 * Returns HF_LOST if the lease had already ended and no staged change was published, or if another
 * process that has this lease released the key and dropped the staged changes. Returns HF_MISMATCH
 * if that process published changes that this call was asked to roll back. */
HF_API enum hf_status hf_key_release(struct hf_key *key, enum hf_decision decision,
                                     struct hf_error *error);

/* Creates a handle for a lease that another process passed on as text (hf_lock_text). The lease is
 * renewed, unless the option `unconfirmed` is set, as in hf_lock_adopt. */
HF_API enum hf_status hf_key_adopt(struct hf_client *client, const char *lease,
                                   const struct hf_key_options *options,
                                   struct hf_key **ret_key, struct hf_error *error);

/* Frees a handle but leaves its lease in place for the process that has its text. Does nothing if
 * `key` is NULL. */
HF_API void hf_key_detach(struct hf_key *key);

/* Reads a key without a lease. Free the data with hf_free. Returns HF_NOT_FOUND if the key has no
 * state; `info` still contains the version. */
HF_API enum hf_status hf_key_get(struct hf_client *client, const char *name, size_t size_max,
                                 void **ret_data, size_t *ret_size, struct hf_key_info *info,
                                 struct hf_error *error);

/* Reads a key into a file, which must be empty. */
HF_API enum hf_status hf_key_get_file(struct hf_client *client, const char *name, int fd,
                                      struct hf_key_info *info, struct hf_error *error);

/* ---- Transactions -------------------------------------------------------------------- */

struct hf_txn_options {
    size_t struct_size;
    const char *id; /* a transaction that another process began; NULL: a new one */
};
#define HF_TXN_OPTIONS HF_VALUE_(hf_txn_options, sizeof(struct hf_txn_options), NULL)

/* Begins a transaction, or joins a pending one. The decision record is in the store before a key is
 * acquired for the transaction, and before hf_txn_id returns. Commit the transaction or roll it
 * back within a day (the late bound); after that it is rolled back automatically. `options` may be
 * NULL. */
HF_API enum hf_status hf_txn_begin(struct hf_client *client,
                                   const struct hf_txn_options *options,
                                   struct hf_txn **ret_txn, struct hf_error *error);

/* Frees a transaction and all its keys. An undecided transaction is rolled back first. If the
 * transaction was joined, it is not rolled back, and its keys are detached as by hf_key_detach.
 * Does nothing if `txn` is NULL. */
HF_API void hf_txn_free(struct hf_txn *txn);

/* Returns the id of the transaction, or "" if `txn` is NULL. If the decision record has not been
 * written yet, writes it first, so that other processes can join the transaction. If the store does
 * not respond, a process that joins finds no transaction. */
HF_API const char *hf_txn_id(const struct hf_txn *txn);

/* Acquires keys for the transaction, either all or none. `wait_ms` is the limit for all of them
 * together. On a store on the network, all keys are first asked for at the same time, without
 * waiting. If one of them is not free, the others are given back, and the keys are acquired in the
 * order of their names, regardless of the order in which you list them, so two transactions cannot
 * deadlock. A key whose name sorts before a key that the transaction already has is acquired only
 * if it is free at that moment. The transaction owns `ret_keys`; do not free them.
 *
 * Returns HF_UNSURE if there was no reply and a key may still be held for the transaction: roll it
 * back. Returns HF_UNSURE for a joined transaction if the keys were released but the transaction's
 * record may still name them. In that case the transaction can be committed only after the keys
 * have been acquired again. */
HF_API enum hf_status hf_txn_acquire(struct hf_txn *txn, const char *const *names, size_t count,
                                     const struct hf_key_options *options, int64_t wait_ms,
                                     struct hf_key **ret_keys, struct hf_error *error);

/* A change to one key of a transaction, as hf_key_update or hf_key_remove makes it. */
struct hf_txn_change {
    struct hf_key *key; /* one that hf_txn_acquire returned for the transaction */
    const void *data;
    size_t size;
    bool removes;                 /* remove the state; the data must be empty */
    const struct hf_key_if *when; /* the conditions; NULL: none */
    struct hf_key_info *info;     /* may be NULL */
    enum hf_status status;        /* the result, set by the call */
};

/* Makes several changes, each to another key, and returns when the result of each is known. On a
 * store on the network they are made at the same time, so they take little longer than one.
 *
 * Returns HF_OK if all changes are staged. Otherwise returns the first status that is not HF_OK;
 * the others may be staged, as the status of each says. Returns HF_INVALID, and makes no change, if
 * a key is listed twice or does not belong to the transaction. */
HF_API enum hf_status hf_txn_update(struct hf_txn *txn, struct hf_txn_change *changes,
                                    size_t count, struct hf_error *error);

/* Interrupts an hf_txn_acquire that is waiting in another thread, like hf_lock_interrupt. Does
 * nothing if `txn` is NULL. */
HF_API void hf_txn_interrupt(struct hf_txn *txn);

/* Reports why a waiting hf_txn_acquire has received no reply from the store, like
 * hf_lock_trouble. */
HF_API enum hf_status hf_txn_trouble(struct hf_txn *txn, struct hf_error *error);

/* Creates a handle for a key that another process acquired for this transaction and passed on as
 * text. Changes are staged for the transaction. The transaction does not own the handle: free or
 * detach it, before or after hf_txn_free. Returns HF_DENIED if the transaction was not begun by
 * hf_txn_open. Only the process that began any other transaction knows all of its staged changes.
 * Otherwise like hf_key_adopt. */
HF_API enum hf_status hf_txn_adopt(struct hf_txn *txn, const char *lease,
                                   const struct hf_key_options *options,
                                   struct hf_key **ret_key, struct hf_error *error);

/* Commits a transaction or rolls it back, and releases its keys. On a store on the network, the
 * call returns as soon as the decision is known, and the keys are released in the background. If
 * the same client acquires one of them again, it first waits for this, and is not refused because
 * of it. Another client that tries to acquire one at that moment waits until it is released, up to
 * two seconds, even if it asked not to wait. hf_client_close completes the work, as long as the
 * store responds. If the process ends without it, other clients have to wait until the leases of
 * these keys expire. Readers see the decision at once in any case.
 *
 * Returns HF_OK if the decision is as requested; the transaction's keys then have their final
 * state, or receive it from the next client that uses them. Returns HF_MISMATCH if the transaction
 * was already decided the other way; *ret_decision contains the decision. `ret_decision` may be
 * NULL. Returns HF_UNSURE if the store did not reply: call again. Until then, the decision is
 * unknown and the keys accept no changes.
 *
 * A commit returns HF_EXPIRED or HF_LOST if one of the transaction's leases has ended; the
 * transaction has then been rolled back. It returns HF_DENIED if another process began the
 * transaction without hf_txn_open: only that process may commit it. If the commit of a shared
 * transaction fails with any other status, the keys may no longer accept changes: call again, or
 * roll back. */
HF_API enum hf_status hf_txn_commit(struct hf_txn *txn, enum hf_decision *ret_decision,
                                    struct hf_error *error);
HF_API enum hf_status hf_txn_rollback(struct hf_txn *txn, enum hf_decision *ret_decision,
                                      struct hf_error *error);

/* ---- Transactions by id -------------------------------------------------------------- */

/* Begins a transaction without a handle. Any process may join it by its id (hf_txn_options.id),
 * acquire and change keys for it, and commit it or roll it back. When the call returns, the
 * decision record is in the store. */
HF_API enum hf_status hf_txn_open(struct hf_client *client, char ret_id[HF_TXN_ID_SIZE + 1],
                                  struct hf_error *error);

/* Commits or rolls back the transaction with this id, and brings the keys that its record names to
 * their final state.
 *
 * Returns HF_OK if the decision is as requested, now or earlier. Returns HF_MISMATCH if the
 * transaction was decided the other way; *ret_decision contains the decision. `ret_decision` may be
 * NULL. A commit becomes a rollback if one of the transaction's keys is no longer held. Returns
 * HF_NOT_FOUND if the transaction does not exist, or ended long ago. Returns HF_UNSURE if the store
 * did not reply: call again. Returns HF_DENIED for a commit if the transaction was not begun by
 * hf_txn_open: only the process that began it may commit it. Returns HF_INVALID if `id` is not a
 * valid id, and HF_CORRUPT if the record, or a key that it names, is damaged.
 *
 * The call also ends the leases of these keys, like hf_break: another process that holds one may
 * not notice until its next renewal, and its hf_lock_check returns HF_OK until then. The states of
 * the keys are safe, because a decided transaction accepts no changes. Anything else that the lease
 * protects is not, unless it is protected by the token, too. So decide a transaction when the
 * processes that share it have done their parts. The same holds if one of them calls hf_txn_commit
 * or hf_txn_rollback. */
HF_API enum hf_status hf_txn_decide(struct hf_client *client, const char *id,
                                    enum hf_decision decision, enum hf_decision *ret_decision,
                                    struct hf_error *error);

/* Replaces a damaged decision record with a rollback. Use this function when the record is so
 * damaged that the decision cannot be read. The damaged bytes are kept under .holdfast/kept/. Also
 * returns HF_OK if the record can be read or does not exist. *ret_done is set to true if the record
 * was replaced. `ret_done` may be NULL. */
HF_API enum hf_status hf_txn_give_up(struct hf_client *client, const char *id, bool *ret_done,
                                     struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
