/* key.h: keys with state, and transactions. A key is a name with a lock and a state: bytes of any
 * size, with a version that rises by one with every change and an ETag that is never used twice.
 * (A key that was removed, and not used for a day, may be forgotten: then it counts from 1 again.)
 * Its lease is that of the lock named:<key>. Whoever holds it may change the state; a change that
 * arrives after the lease was taken over is refused by the store itself, since lease and state
 * stand in one document. Anybody may read, without a lease.
 *
 *     struct hf_key *key;
 *     hf_key_new(client, "orders/42", NULL, &key, &error);
 *     hf_key_acquire(key, 10000, NULL, &error);
 *     hf_key_update(key, text, strlen(text), NULL, NULL, &error);
 *     hf_key_release(key, HF_COMMIT, &error);
 *     hf_key_free(key);
 *
 * TRANSACTIONS change many keys at once, or none. Keys are taken and changed in the name of a
 * transaction; nobody sees the changes before it is committed, which is one write of one object.
 * When its process dies, the next who wants one of its keys rolls it back.
 *
 *     hf_txn_begin(client, NULL, &txn, &error);
 *     hf_txn_acquire(txn, names, 2, NULL, 10000, keys, &error);
 *     hf_key_update(keys[0], ...); hf_key_update(keys[1], ...);
 *     hf_txn_commit(txn, &decision, &error);
 *     hf_txn_free(txn);                               frees its keys, too
 *
 * Reads of several keys are not a snapshot: take the keys for that. */
#ifndef HOLDFAST_KEY_H
#define HOLDFAST_KEY_H

#include "holdfast/lock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hf_key;
struct hf_txn;

/* Why an operation on a key was not done; the name in lower case is what --json says. Each row:
 * name, status, sentence. */
#define HF_KEY_OUTCOME_TABLE(ROW)                                                          \
    ROW(NONE, OK, "done")                                                                  \
    ROW(LEASE_REQUIRED, DENIED, "it takes the lease of the key, held alone")               \
    ROW(LEASE_EXPIRED, EXPIRED, "the lease is over: its time is up, or it was taken away") \
    ROW(FENCING_MISMATCH, FENCED, "the key has been granted to somebody else since")       \
    ROW(VERSION_CONFLICT, CONFLICT, "the key has another version than the one named")      \
    ROW(ETAG_MISMATCH, CONFLICT, "the key has another ETag than the one named")            \
    ROW(TXN_MISMATCH, MISMATCH, "the key is taken for another transaction, or for none")   \
    ROW(WAITING, HELD, "somebody else holds the key, or a transaction that is not decided")

#define HF_KEY_OUTCOME_ENUM_(name, status, text) HF_KEY_##name,
enum hf_key_outcome { HF_KEY_OUTCOME_TABLE(HF_KEY_OUTCOME_ENUM_) HF_KEY_OUTCOME_COUNT };
#undef HF_KEY_OUTCOME_ENUM_

/* "version_conflict"; "unknown" for a number that is none of these. */
HF_API const char *hf_key_outcome_name(enum hf_key_outcome outcome);

#define HF_KEY_ETAG_SIZE 32
#define HF_TXN_ID_SIZE   32

/* One version of a key. */
struct hf_key_info {
    size_t struct_size;
    enum hf_key_outcome outcome;     /* why not; set whatever the status is */
    uint64_t version;                /* 0: it was never written */
    char etag[HF_KEY_ETAG_SIZE + 1]; /* empty with version 0 */
    uint64_t size;
    uint64_t token;               /* of the lease under which it was written */
    int64_t updated_ms;           /* since 1970, by the calendar of who wrote it: for people */
    bool removed;                 /* the key holds nothing since this version */
    char txn[HF_TXN_ID_SIZE + 1]; /* the transaction that it is taken for; empty: none */
};
#define HF_KEY_INFO                                                                           \
    HF_VALUE_(hf_key_info, sizeof(struct hf_key_info), HF_KEY_NONE, 0, { 0 }, 0, 0, 0, false, \
              { 0 })

/* What must hold for a change to happen. */
struct hf_key_if {
    size_t struct_size;
    bool version_set;
    uint64_t version; /* 0: the key holds nothing */
    const char *etag; /* not empty; NULL: any */
};
#define HF_KEY_IF HF_VALUE_(hf_key_if, sizeof(struct hf_key_if), false, 0, NULL)

/* What becomes of what is staged. */
enum hf_decision { HF_COMMIT, HF_ROLLBACK };

struct hf_key_options {
    size_t struct_size;
    int64_t ttl_ms;  /* of the lease, which is exclusive */
    bool no_renewal; /* leave renewing to the caller (hf_key_keepalive) */
    int64_t poll_ms; /* while waiting look this often; 0: by the kind of store */
    bool
        staged; /* changes are published by the release, all or none, and lost with the lease */
    const char *note; /* JSON to stand beside the lease, or NULL */

    /* As in struct hf_lock_options; `lock` is that of the key. */
    void (*notify)(void *argument, struct hf_lock *lock, enum hf_lock_event event);
    void *notify_argument;
};
#define HF_KEY_OPTIONS                                                                     \
    HF_VALUE_(hf_key_options, sizeof(struct hf_key_options), 30000, false, 0, false, NULL, \
              NULL, NULL)

/* A handle for a key: local, as hf_lock_new. `options` may be NULL. */
HF_API enum hf_status hf_key_new(struct hf_client *client, const char *name,
                                 const struct hf_key_options *options, struct hf_key **ret_key,
                                 struct hf_error *error);

/* Gives back what is still held, in the background, without publishing what is staged. NULL is
 * fine. */
HF_API void hf_key_free(struct hf_key *key);

/* As hf_lock_acquire. What an earlier holder or transaction left is settled first. `info`, here
 * and below, may be NULL. */
HF_API enum hf_status hf_key_acquire(struct hf_key *key, int64_t wait_ms,
                                     struct hf_key_info *info, struct hf_error *error);

/* The lock of the key, for hf_lock_check, _remaining_ms, _token and _text; not to be freed. */
HF_API struct hf_lock *hf_key_lock(struct hf_key *key);

/* Its name; "" for NULL. Local. */
HF_API const char *hf_key_name(const struct hf_key *key);

/* What the key held when it was last acquired by this handle, or taken for its transaction. Local.
 * NOT_FOUND when it never was. */
HF_API enum hf_status hf_key_seen(struct hf_key *key, struct hf_key_info *info,
                                  struct hf_error *error);

/* Renews the lease now. */
HF_API enum hf_status hf_key_keepalive(struct hf_key *key, struct hf_error *error);

/* Changes the state, at once, or, in a transaction or with `staged`, when that is committed. `when`
 * may be NULL. UNSURE: no answer; ask again, or roll back. A file is read from its beginning and
 * must not change meanwhile. */
HF_API enum hf_status hf_key_update(struct hf_key *key, const void *data, size_t size,
                                    const struct hf_key_if *when, struct hf_key_info *info,
                                    struct hf_error *error);
HF_API enum hf_status hf_key_update_file(struct hf_key *key, int fd,
                                         const struct hf_key_if *when, struct hf_key_info *info,
                                         struct hf_error *error);
HF_API enum hf_status hf_key_remove(struct hf_key *key, const struct hf_key_if *when,
                                    struct hf_key_info *info, struct hf_error *error);

/* Ends the lease; what is staged is published or dropped in the same write. A key of a transaction
 * decides that, all of it. LOST: the lease was over before, and nothing staged was published; or
 * another process that has it ended it, and dropped what was staged. MISMATCH: that has published
 * what was to be rolled back. */
HF_API enum hf_status hf_key_release(struct hf_key *key, enum hf_decision decision,
                                     struct hf_error *error);

/* A handle for a lease that another process has passed on as text (hf_lock_text). */
HF_API enum hf_status hf_key_adopt(struct hf_client *client, const char *lease,
                                   const struct hf_key_options *options,
                                   struct hf_key **ret_key, struct hf_error *error);

/* Frees the handle and leaves the lease to whoever has its text. NULL is fine. */
HF_API void hf_key_detach(struct hf_key *key);

/* Reads without a lease. NOT_FOUND when the key holds nothing; then `info` tells the version all
 * the same. The data is given back by hf_free. */
HF_API enum hf_status hf_key_get(struct hf_client *client, const char *name, size_t size_max,
                                 void **ret_data, size_t *ret_size, struct hf_key_info *info,
                                 struct hf_error *error);

/* The file, which must be empty, becomes the state. */
HF_API enum hf_status hf_key_get_file(struct hf_client *client, const char *name, int fd,
                                      struct hf_key_info *info, struct hf_error *error);

/* ---- Transactions -------------------------------------------------------------------- */

struct hf_txn_options {
    size_t struct_size;
    const char *id; /* of one that another process has begun; NULL: a new one */
};
#define HF_TXN_OPTIONS HF_VALUE_(hf_txn_options, sizeof(struct hf_txn_options), NULL)

/* Begins one, or joins one that is pending. When this returns, its record stands in the store. It
 * must be decided within a day (the late bound of the store's requests); then it is rolled back.
 * `options` may be NULL. */
HF_API enum hf_status hf_txn_begin(struct hf_client *client,
                                   const struct hf_txn_options *options,
                                   struct hf_txn **ret_txn, struct hf_error *error);

/* Frees it with all its keys. One that is not decided is rolled back first, unless it was joined:
 * then its keys are left as they are (hf_key_detach). NULL is fine. */
HF_API void hf_txn_free(struct hf_txn *txn);

HF_API const char *hf_txn_id(const struct hf_txn *txn);

/* Takes keys for the transaction, in the order of their names whatever order they are given in, so
 * that two transactions cannot wait for each other; one whose name is before that of a key that it
 * has already is taken only if it is free at once. All or none: `ret_keys` stay the transaction's.
 * `wait_ms` is for all of them together. UNSURE, of one that was joined: they were given back, but
 * its record may name them; if it does, it can be committed only when they are taken again. */
HF_API enum hf_status hf_txn_acquire(struct hf_txn *txn, const char *const *names, size_t count,
                                     const struct hf_key_options *options, int64_t wait_ms,
                                     struct hf_key **ret_keys, struct hf_error *error);

/* Ends a hf_txn_acquire that waits in another thread, as hf_lock_interrupt does. NULL is fine. */
HF_API void hf_txn_interrupt(struct hf_txn *txn);

/* Why a hf_txn_acquire that waits has no answer from the store; as hf_lock_trouble. */
HF_API enum hf_status hf_txn_trouble(struct hf_txn *txn, struct hf_error *error);

/* A handle for a key that another process has taken for this transaction and passed on as text: its
 * changes are staged for the transaction. It is not one of the transaction's: free it, or detach
 * it. DENIED: the transaction was not begun by hf_txn_open, so its own process alone knows what it
 * has staged. Otherwise as hf_key_adopt. */
HF_API enum hf_status hf_txn_adopt(struct hf_txn *txn, const char *lease,
                                   const struct hf_key_options *options,
                                   struct hf_key **ret_key, struct hf_error *error);

/* Decides it, settles its keys and gives them back.
 *   OK        decided as asked; all its keys are settled, or will be by whoever touches them
 *   MISMATCH  it had been decided otherwise: *ret_decision says how (which may be NULL)
 *   UNSURE    no answer: ask again; until then nobody knows, and its keys take no change
 *   EXPIRED, LOST  commit: a lease of it is over; it was rolled back
 *   DENIED    commit: another process has begun it, which alone may (not of `holdfast txn begin`)
 * When a commit of one that several processes share fails otherwise, its keys may take no change
 * any more: ask again, or roll back. */
HF_API enum hf_status hf_txn_commit(struct hf_txn *txn, enum hf_decision *ret_decision,
                                    struct hf_error *error);
HF_API enum hf_status hf_txn_rollback(struct hf_txn *txn, enum hf_decision *ret_decision,
                                      struct hf_error *error);

/* ---- Transactions by id -------------------------------------------------------------- */

/* Begins one that has no handle: any process may join it by its id (hf_txn_options.id), take and
 * change keys for it, and decide it. When this returns, its record stands in the store. */
HF_API enum hf_status hf_txn_open(struct hf_client *client, char ret_id[HF_TXN_ID_SIZE + 1],
                                  struct hf_error *error);

/* Decides a transaction by its id, and settles the keys that its record names.
 *   OK         decided as asked, now or earlier
 *   MISMATCH   it is decided otherwise: *ret_decision says how (which may be NULL). A commit is
 *              rolled back when a key of it is not held any more
 *   NOT_FOUND  there is no such transaction, or it ended long ago
 *   UNSURE     no answer: ask again
 *   DENIED     commit: it was not begun by hf_txn_open, so only the process that began it may
 *   INVALID    that is no id
 *   CORRUPT    its record, or a key that it names, is damaged */
HF_API enum hf_status hf_txn_decide(struct hf_client *client, const char *id,
                                    enum hf_decision decision, enum hf_decision *ret_decision,
                                    struct hf_error *error);

/* For a record that is damaged, so that nobody can tell whether it was committed: its bytes are
 * kept under .holdfast/kept/ and a rollback takes their place. OK also when it can be read, or is
 * not there; *ret_done, which may be NULL, says whether it was replaced. */
HF_API enum hf_status hf_txn_give_up(struct hf_client *client, const char *id, bool *ret_done,
                                     struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
