/* holdfast.h: leases, locks and compaction for anything that lives in a bucket.
 *
 * Holdfast needs no lock server. Everything that must be agreed on is a small document in an
 * object store (a directory, an SQLite file, S3), and every change to it is a compare-and-swap:
 * load it, compute the new one, write it back only if nobody else did meanwhile.
 *
 *     struct hf_client *client;
 *     struct hf_lock *lock;
 *     struct hf_error error;
 *     if (hf_client_open("sqlite:jobs.db", NULL, &client, &error) == HF_OK &&
 *         hf_lock_new(client, "deploy", NULL, &lock, &error) == HF_OK &&
 *         hf_lock_acquire(lock, 60000, &error) == HF_OK) {
 *         ... the work, with hf_lock_check(lock, &error) before each step that matters ...
 *         hf_lock_release(lock, &error);
 *     }
 *
 * WHAT A LEASE PROMISES. A lock here is a lease: it is granted for a time (the ttl) and renewed
 * in the background for as long as the handle is held and the process runs. While hf_lock_check
 * says OK, no other client of the same store was granted a conflicting lease. When the holder
 * dies, stops or is cut off, the lease ends by itself and somebody else goes on: nobody has to
 * clean up. Among conflicting requests that wait, order is kept.
 *
 * No clock of one machine is compared with that of another. The holder counts its time on its
 * own boot-time clock, from before the request that got the lease was sent. Somebody who wants
 * to take over must prove that this time is over: by the store's clock, with all that it may be
 * wrong by, or by having watched the lease stand unchanged for longer than it can be valid. The
 * promise needs this much of the world: boot-time clocks of two machines that drift apart by
 * less than 200 ppm, and front ends of a store whose clocks agree within half the skew
 * tolerance (2 s on AWS, 30 s elsewhere; where that is too much to ask, takeover_observed does
 * without the store's clock).
 *
 * WHAT IT DOES NOT PROMISE. That you still hold it when your write arrives. Between
 * hf_lock_check and the effect of the next line your process may be paused (a debugger, a
 * suspended laptop, a stopped container) for longer than the ttl, and somebody else may have
 * been granted the lock. No lock of any kind can prevent that; only the place where the write
 * arrives can refuse it. So each grant has a TOKEN, which rises with every grant of that lock,
 * for ever. Write what must not go back with hf_fenced_put, which takes the lock itself and
 * refuses a stale token (FENCED), or give hf_lock_token to a database that compares it.
 *
 * AFTER A PAUSE the first call tells: hf_lock_check answers EXPIRED (the time is over by our
 * own clock, which counts through suspend) or LOST (somebody ended it). Stop the work; what was
 * written with the token is safe; release the handle, then acquire again for a new one. A lost
 * lease is never revived.
 *
 * CHOOSING A TTL. It is how long the others wait after the holder died, and three times the
 * longest silence of the store that the holder survives, since it is renewed at a third.
 *
 *     work                      ttl      renewed every   why
 *     short operations          10 s      3 s            quick recovery when a client fails
 *     long operations           60 s     20 s            less traffic, survives a slow minute
 *     batches                  300 s    100 s            is hardly ever interrupted
 *
 * On stores on the network, which tell their time in whole seconds, take 5 s at least.
 *
 * SCOPES say what is locked, as text:
 *
 *     deploy, named:deploy      a name: a-z 0-9 . _ - in segments between slashes
 *     path:/a/b                 one path; tree:/a is a path and all under it
 *     inode:7                   an inode; range:7:0-4096 some of its bytes, 0- to the end
 *     chunk:data/x.usv          an object that is to be merged
 *     pin:data/x.usv            an object that is being read: stands in nobody's way
 *     shard:domains/a3          a shard of an index, to be written; for 5 minutes at a time
 *
 * NO ANSWER. When a store does not answer, nobody knows whether a write happened. Such a call
 * says UNSURE, never "failed": the lock may be ours in the store's eyes. The client goes on
 * giving it back in the background until that is settled or the lease is over.
 *
 * CONVENTIONS. Handles are opaque. Options are structs with an initialiser, refused when out of
 * range. Outputs are named ret_..., and are set on success only, except that a handle is NULL
 * after a failure. Texts end with NUL and are copied. `error` may be NULL; else it is always set.
 * Any other pointer that is NULL, where nothing says that it may be, is INVALID: so calls after
 * one that has failed fail, too, and do no harm. The library never logs, exits or installs signal
 * handlers.
 *
 * THREADS. Every function may be called from any thread, on the same handle too, except that
 * ..._close and ..._free must be the last call on a handle. What a call says more about threads
 * stands with it. A client has threads of its own, started with the first lock that is held.
 * After fork() a child must not use the handles of its parent. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

/* The value of an initialiser, in the words of either language. */
#ifdef __cplusplus
#define HF_VALUE_(type, ...) (type{ __VA_ARGS__ })
#else
#define HF_VALUE_(type, ...) ((struct type){ __VA_ARGS__ })
#endif

/* ---- Statuses ------------------------------------------------------------------------ */

/* The one table of statuses. A status says what the caller may do next, not where it came from.
 * Each row: name, exit code of the program, sentence for a person.
 *
 * Exit codes start at 80 so that `holdfast run`, which passes on the exit status of its child,
 * is not mistaken for it by scripts that use the customary small numbers. */
#define HF_STATUS_TABLE(ROW)                                                        \
    ROW(OK, 0, "done")                                                              \
    ROW(NOT_FOUND, 80, "there is no such object or lease")                          \
    ROW(NOT_MODIFIED, 81, "the object is still the version that was named")         \
    ROW(CONFLICT, 82, "somebody else wrote first: read again, then decide again")   \
    ROW(UNSURE, 83, "the write may or may not have happened, and may still happen") \
    ROW(UNAVAILABLE, 84, "certainly not done; it may work later")                   \
    ROW(DENIED, 85, "not allowed: check the credentials or permissions")            \
    ROW(INVALID, 86, "the request makes no sense as it stands: correct it")         \
    ROW(UNSUPPORTED, 87, "this store or build cannot do that")                      \
    ROW(CORRUPT, 88, "stored data is damaged: keep it, and look before going on")   \
    ROW(HELD, 89, "somebody else holds it")                                         \
    ROW(LOST, 90, "the lease is no longer ours: stop the work it protected")        \
    ROW(EXPIRED, 91, "the lease ended before the call")                             \
    ROW(MISMATCH, 92, "it belongs to another lock or lease than the one named")     \
    ROW(FENCED, 93, "a later holder has written already: our token is stale")       \
    ROW(TIMEOUT, 94, "the time allowed is over, and nothing was changed")           \
    ROW(CANCELLED, 95, "stopped because the caller asked to")                       \
    ROW(ALREADY, 96, "it was done already, within the period that was named")       \
    ROW(UNREPORTED, 97, "done; the result could not be written")

#define HF_STATUS_ENUM_(name, code, text) HF_##name,
enum hf_status { HF_STATUS_TABLE(HF_STATUS_ENUM_) HF_STATUS_COUNT };
#undef HF_STATUS_ENUM_

/* "CONFLICT": the status as it is spelled in this header and in --json output. */
HF_API const char *hf_status_name(enum hf_status status);

/* The sentence of the table. */
HF_API const char *hf_status_text(enum hf_status status);

/* What the program `holdfast` exits with. */
HF_API int hf_status_exit_code(enum hf_status status);

/* "0.1.0". */
HF_API const char *hf_version(void);

#define HF_WHY_MAX 240

/* A status and the reason, in words, that a person needs to act on it. */
struct hf_error {
    enum hf_status status;
    char why[HF_WHY_MAX];
};

/* ---- The client ---------------------------------------------------------------------- */

/* One store, one namespace of locks, as one holder. A process needs one, whatever its number of
 * threads: calls that wait for one document share their requests. */
struct hf_client;

/* The most careful settings that any client of a table ever had stay with it. */
struct hf_client_options {
    const char *ns;     /* the namespace of its locks; NULL: "default". Not metadata, data,
                           indexes or roster, which are other folders of a bucket */
    const char *holder; /* a label that others see; NULL: host name and process id */
    int64_t ttl_max_ms; /* no lease here is longer; 0: an hour; at most a day. The same for all
                           clients of a namespace: after a restore nothing is granted for so
                           long */
    int64_t skew_tolerance_ms; /* of the store's clock; -1: by the kind of store */
    bool takeover_observed;    /* take over only what was watched, whatever the clocks say */
};

/* Names the fields in their order, as do those below. */
#define HF_CLIENT_OPTIONS HF_VALUE_(hf_client_options, NULL, NULL, 0, -1, false)

/* Opens by URL: mem:  dir:PATH  sqlite:FILE  s3://BUCKET/PREFIX. `options` may be NULL.
 * Reads what the bucket says of itself (one get); a store on the network that nobody has tried is
 * probed first, which takes some fifty small requests, once a month. UNSUPPORTED: the store does
 * not keep the promises that locks are built on, or the bucket uses a feature that this version
 * does not know. UNAVAILABLE: it could not be asked. A client that may only read can open it; then
 * every write is DENIED. */
HF_API enum hf_status hf_client_open(const char *url, const struct hf_client_options *options,
                                     struct hf_client **ret_client, struct hf_error *error);

/* Free the locks, keys and transactions of a client before you close it. What a handle that is
 * left still holds is given back, as hf_lock_free would: the handle is told LOST, is granted
 * nothing any more (CANCELLED, also to a call that waits in line), and must still be freed; the
 * memory and the store of the client go with the last one. Waits for what is being given back
 * in the background, for a few seconds at most. NULL is fine. */
HF_API void hf_client_close(struct hf_client *client);

/* ---- Locks --------------------------------------------------------------------------- */

/* A handle to one lock, held or not. Holding is counted by handle: who acquires again what the
 * handle holds has it at once and must release it as often. So threads that are to exclude each
 * other need a handle each. */
struct hf_lock;

enum hf_mode {
    HF_EXCLUSIVE, /* alone */
    HF_SHARED,    /* with others that are shared */
    HF_SLOTS,     /* up to `slots` at a time */
};

/* What the keeper has to tell about a lock that is held. */
enum hf_lock_event {
    HF_LOCK_DANGER, /* renewing fails; the work should come to an end */
    HF_LOCK_SAFE,   /* renewed after all */
    HF_LOCK_GONE,   /* no longer ours; nobody else can have it yet unless it was broken */
};

/* For `once_slack_ms`: no slack at all. */
#define HF_NO_SLACK (-1)

struct hf_lock_options {
    int64_t ttl_ms;
    enum hf_mode mode;
    uint32_t slots;        /* of HF_SLOTS: how many may hold at once; all must say the same */
    bool no_renewal;       /* leave renewing to the caller (hf_lock_renew) */
    int64_t poll_ms;       /* while waiting look this often; 0: by the kind of store */
    int64_t once_per_ms;   /* ALREADY if it was done within this time; 0: never mind */
    int64_t once_slack_ms; /* so much earlier will do; 0: a tenth of once_per_ms */
    /* Of a lock of chunks: an object that the holder is going to write, and compaction settles
     * what becomes of it; NULL: none. INVALID for other locks. */
    const char *output;
    uint32_t level;   /* of that output */
    const char *note; /* JSON to stand beside the lease, or NULL */

    /* May be NULL. Called from a thread of the client, without any lock of the library held;
     * must not block, and may call what is marked "local" below, nothing else. */
    void (*notify)(void *argument, struct hf_lock *lock, enum hf_lock_event event);
    void *notify_argument;
};

#define HF_LOCK_DEFAULTS_ 30000, HF_EXCLUSIVE, 0, false, 0, 0, 0, NULL, 0, NULL, NULL, NULL
#define HF_LOCK_OPTIONS   HF_VALUE_(hf_lock_options, HF_LOCK_DEFAULTS_)

/* ONCE A PERIOD. A lock that is acquired with once_per_ms is granted only if nobody who held
 * the same scopes called hf_lock_complete within that time, counted from when *they* were
 * granted the lock, less the slack: so a job that starts every hour with once_per_ms of an hour
 * runs every hour, however long it takes and however its start wavers. Time is that of the
 * store's clock; on a local store that of this boot of the machine, and across boots the
 * calendar.
 *
 * Who completes it is remembered for the once_per_ms with which it was acquired, so all should
 * name the same. A table remembers up to 512 completions; where it cannot promise to remember
 * one more, acquire says UNSUPPORTED and nothing is granted. A name has a table of its own and
 * always can; paths, trees and ranges share one. A completion without a period is remembered as
 * long as there is room, and counts from its end. A table that was damaged, or brought back
 * from a backup, has forgotten what it had been told since. */

/* A handle for a scope. Local: asks nothing of the store. `options` may be NULL. */
HF_API enum hf_status hf_lock_new(struct hf_client *client, const char *scope,
                                  const struct hf_lock_options *options,
                                  struct hf_lock **ret_lock, struct hf_error *error);

/* The same for many scopes, held all or none: chunks and pins, ranges of one inode, or paths. */
HF_API enum hf_status hf_lock_new_many(struct hf_client *client, const char *const *scopes,
                                       size_t count, const struct hf_lock_options *options,
                                       struct hf_lock **ret_lock, struct hf_error *error);

/* Gives back what is still held, in the background. NULL is fine. */
HF_API void hf_lock_free(struct hf_lock *lock);

/* Frees the handle and leaves a lease that it holds as it stands, for whoever has its text
 * (hf_lock_text): from now on nobody renews it but they. If this handle acquired it, with a ttl of
 * 5 minutes or more, it is noted first where a sweep will find it: one request, of 5 seconds at
 * most. NULL is fine. */
HF_API void hf_lock_detach(struct hf_lock *lock);

#define HF_WAIT_FOREVER INT64_MAX

/* Acquires, waiting in line for up to wait_ms; 0: only if it is free at once. Then a lease that
 * can be ended only by watching it (of a machine that was booted anew since, on a local store)
 * is never taken over by clients that do not live as long as its ttl: let them wait.
 *   OK       held
 *   HELD     wait_ms was 0, and it is not free (hf_lock_blocked tells which scopes)
 *   TIMEOUT  waited in vain, and left the line
 *   ALREADY  once_per_ms: it was done
 *   UNSUPPORTED  once_per_ms: it could not be remembered for so long
 *   UNSURE   no answer; it is being given back
 *   LOST     granted, but too late to be of use; given back
 *   CANCELLED  hf_lock_cancel was called meanwhile, or the client was closed
 *   EXPIRED, LOST  of a handle that holds a lease that is over: release it first
 *   INVALID, MISMATCH  the table allows no such ttl, or others use another number of slots
 *   UNAVAILABLE, DENIED, CORRUPT  the store's; TIMEOUT of a store that does not answer, too
 * It may return up to a few seconds after wait_ms while the store does not answer; with a
 * wait_ms of 0 after ten. */
HF_API enum hf_status hf_lock_acquire(struct hf_lock *lock, int64_t wait_ms,
                                      struct hf_error *error);

/* The same in steps, for those who cannot block. `begin` asks once: OK, or HELD, then we wait
 * in line; `poll` looks, at most as often as poll_ms allows, and takes its turn when it comes:
 * OK or HELD; `cancel` leaves the line. After any other status we are not in line. Who is in
 * line and does not poll for max(2 s, 3 poll_ms) when its turn comes is dropped. */
HF_API enum hf_status hf_lock_begin(struct hf_lock *lock, struct hf_error *error);
HF_API enum hf_status hf_lock_poll(struct hf_lock *lock, struct hf_error *error);
HF_API enum hf_status hf_lock_cancel(struct hf_lock *lock, struct hf_error *error);

/* After HELD: whether the scope of this index was in the way of being granted. Local. */
HF_API bool hf_lock_blocked(struct hf_lock *lock, size_t index);

/* Whether it is held at this moment: OK, EXPIRED (its time is over), LOST (somebody ended it),
 * or NOT_FOUND (it was never acquired, or was released). Local, and cheap: ask often. */
HF_API enum hf_status hf_lock_check(struct hf_lock *lock, struct hf_error *error);

/* For how long it is certainly ours if nothing is renewed; 0 when it is not. Local. */
HF_API int64_t hf_lock_remaining_ms(struct hf_lock *lock);

/* The token of the last grant; 0 when there was none. Local. */
HF_API uint64_t hf_lock_token(struct hf_lock *lock);

/* Renews now. */
HF_API enum hf_status hf_lock_renew(struct hf_lock *lock, struct hf_error *error);

/* Ends it. A handle that was acquired more than once is released as often; then NOT_FOUND.
 *   OK      nobody else had it before
 *   LOST    it had ended by itself or was broken: the work may have overlapped with somebody
 *           else's
 *   UNSURE  no answer; not held any more, and given back in the background
 * `note` is JSON or NULL. `complete` is remembered for the once_per_ms of its lock, `fail` is kept
 * for people to look at. */
HF_API enum hf_status hf_lock_release(struct hf_lock *lock, struct hf_error *error);
HF_API enum hf_status hf_lock_complete(struct hf_lock *lock, const char *note,
                                       struct hf_error *error);
HF_API enum hf_status hf_lock_fail(struct hf_lock *lock, const char *note,
                                   struct hf_error *error);

/* ---- Leases as text ------------------------------------------------------------------ */

/* A held lease as one word, to be passed to another process: token, id and table. It is a name
 * and not a secret: whoever can write the store can read it there and could do what its holder
 * does, and to others it is of no use. All the same pass it by environment or pipe, not as an
 * argument that every user of the machine sees. */
#define HF_LEASE_TEXT_MAX 1536
HF_API enum hf_status hf_lock_text(struct hf_lock *lock, char text[HF_LEASE_TEXT_MAX],
                                   struct hf_error *error);

/* A handle that holds the lease of that text, renewed by us: LOST when it is over. It can be
 * renewed, ended and used for fenced objects, and not acquired again; hf_lock_detach leaves it
 * to whoever gave it. options->ttl_ms and what else says what to ask for are not used. */
HF_API enum hf_status hf_lock_adopt(struct hf_client *client, const char *text,
                                    const struct hf_lock_options *options,
                                    struct hf_lock **ret_lock, struct hf_error *error);

/* Takes a lease away from its holder, who may not notice until its next renewal: only its token
 * protects what it still writes. `by` and `reason` are kept in the table. LOST when that lease
 * is over already; a later one of the same lock is never hit. */
HF_API enum hf_status hf_break(struct hf_client *client, const char *text, const char *by,
                               const char *reason, struct hf_error *error);

/* Which of these objects nobody has leased for merging: sets ret_free[i]. One look, and nothing
 * more than a hint; hf_lock_acquire decides. */
HF_API enum hf_status hf_chunks_unleased(struct hf_client *client, const char *const *keys,
                                         size_t count, bool *ret_free, struct hf_error *error);

/* ---- Fenced objects ------------------------------------------------------------------ */

/* Objects that remember the highest token that wrote them, and what their first writer held. To
 * write one, hold an exclusive lock that covers that: the same scopes, a tree above a path or tree,
 * a range around a range, the inode of a range. Any two such locks exclude each other, so their
 * tokens are in the order in which they were held.
 *   OK        written
 *   FENCED    not written: somebody with a later token has written
 *   EXPIRED   the lease is over (LOST: taken away)
 *   MISMATCH  the object belongs to another lock, or is not a fenced one; or the lock is not held
 *             alone (shared, slots, pins)
 *   UNSURE    it may have been written, or may yet be: no answer, or a later holder has written
 *             since; write it again with the same lock to be sure
 *   INVALID   the key cannot be used, or the scopes of the first writer have more than 4 KiB
 *   UNSUPPORTED  a later version of Holdfast wrote it
 * Writes of one client count in the order of the calls; those of others with the same lease,
 * which was passed on as text, in any order. A file must not change meanwhile. */
HF_API enum hf_status hf_fenced_put(struct hf_lock *lock, const char *key, const void *data,
                                    size_t size, struct hf_error *error);
HF_API enum hf_status hf_fenced_put_file(struct hf_lock *lock, const char *key, int fd,
                                         struct hf_error *error);

/* Leaves the fence: a stale token cannot bring the object back. */
HF_API enum hf_status hf_fenced_delete(struct hf_lock *lock, const char *key,
                                       struct hf_error *error);

/* NOT_FOUND when there is none or it was deleted; MISMATCH when it is not a fenced object. The
 * data is given back by hf_free; `ret_token`, of who wrote it, may be NULL. */
HF_API enum hf_status hf_fenced_get(struct hf_client *client, const char *key, size_t size_max,
                                    void **ret_data, size_t *ret_size, uint64_t *ret_token,
                                    struct hf_error *error);

/* The file becomes the object. It is read back to compare, so it must be open for both. */
HF_API enum hf_status hf_fenced_get_file(struct hf_client *client, const char *key, int fd,
                                         uint64_t *ret_token, struct hf_error *error);

HF_API void hf_free(void *data);

/* ---- Keys with state ----------------------------------------------------------------- */

/* A key is a name with a lock and a state: bytes of any size, with a version that rises by one
 * with every change and an ETag that is never used twice. (A key that was removed, and not used for
 * a day, may be forgotten: then it counts from 1 again.) Its lease is that of the lock
 * named:<key>. Whoever holds it may change the state; a change that arrives after the lease was
 * taken over is refused by the store itself, since lease and state stand in one document. Anybody
 * may read, without a lease.
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

/* "version_conflict". */
HF_API const char *hf_key_outcome_name(enum hf_key_outcome outcome);

#define HF_KEY_ETAG_SIZE 32
#define HF_TXN_ID_SIZE   32

/* One version of a key. */
struct hf_key_info {
    enum hf_key_outcome outcome;     /* why not; set whatever the status is */
    uint64_t version;                /* 0: it was never written */
    char etag[HF_KEY_ETAG_SIZE + 1]; /* empty with version 0 */
    uint64_t size;
    uint64_t token;               /* of the lease under which it was written */
    int64_t updated_ms;           /* since 1970, by the calendar of who wrote it: for people */
    bool removed;                 /* the key holds nothing since this version */
    char txn[HF_TXN_ID_SIZE + 1]; /* the transaction that it is taken for; empty: none */
};

/* What must hold for a change to happen. */
struct hf_key_if {
    bool version_set;
    uint64_t version; /* 0: the key holds nothing */
    const char *etag; /* not empty; NULL: any */
};

/* What becomes of what is staged. */
enum hf_decision { HF_COMMIT, HF_ROLLBACK };

struct hf_key_options {
    struct hf_lock_options lock; /* ttl and so on; the mode is exclusive */
    bool
        staged; /* changes are published by the release, all or none, and lost with the lease */
};
#define HF_KEY_OPTIONS HF_VALUE_(hf_key_options, { HF_LOCK_DEFAULTS_ }, false)

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
    const char *id; /* of one that another process has begun; NULL: a new one */
};
#define HF_TXN_OPTIONS HF_VALUE_(hf_txn_options, NULL)

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

#ifdef __cplusplus
}
#endif

#endif
