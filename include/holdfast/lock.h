/* SPDX-License-Identifier: Apache-2.0 */
/* lock.h: acquires, renews and releases locks, and passes their leases on as text. The guarantees
 * of a lease are documented in holdfast.h.
 *
 *     struct hf_lock *lock;
 *     if (hf_lock_new(client, "deploy", NULL, &lock, &error) == HF_OK &&
 *         hf_lock_acquire(lock, 60000, &error) == HF_OK) {
 *         ... do the work; call hf_lock_check(lock, &error) before each critical step ...
 *         hf_lock_release(lock, &error);
 *     }
 *     hf_lock_free(lock); */
#ifndef HOLDFAST_LOCK_H
#define HOLDFAST_LOCK_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Locks --------------------------------------------------------------------------- */

/* A handle to one lock, held or not. Acquisitions are counted per handle: acquiring a lock that the
 * handle already holds succeeds immediately, and the handle must be released as many times as it
 * was acquired. Threads that must exclude one another therefore each need their own handle. */
struct hf_lock;

enum hf_mode {
    HF_EXCLUSIVE, /* one holder */
    HF_SHARED,    /* any number of shared holders */
    HF_SLOTS,     /* up to `slots` holders */
};

/* Events of a held lock, reported by the keeper. */
enum hf_lock_event {
    HF_LOCK_DANGER, /* renewal is failing: finish the work */
    HF_LOCK_SAFE,   /* renewed after HF_LOCK_DANGER */
    /* The lease has ended. No other client can have been granted the lock yet, unless the lease was
     * broken. */
    HF_LOCK_GONE,
};

/* The limits for every ttl. A client may set a lower maximum (ttl_max_ms). */
#define HF_TTL_MS_MIN 100
#define HF_TTL_MS_MAX 86400000

/* For `once_slack_ms`: no slack. */
#define HF_NO_SLACK (-1)

struct hf_lock_options {
    size_t struct_size;
    int64_t ttl_ms;
    enum hf_mode mode;
    /* HF_SLOTS: the number of holders; must be the same for all clients. */
    uint32_t slots;
    bool no_renewal; /* do not renew in the background; call hf_lock_renew */
    /* How often a waiter polls; 0: depends on the kind of store. On a store that does not notify
     * its clients, hf_lock_acquire polls up to 25 times as often when the turn of the waiter is
     * likely to be near. */
    int64_t poll_ms;
    int64_t once_per_ms;   /* HF_ALREADY if the work was done within this period; 0: none */
    int64_t once_slack_ms; /* shortens the period; 0: a tenth of once_per_ms */
    /* For a lock on chunks: the object that the holder will write, or NULL. Compaction decides
     * whether that object is kept. HF_INVALID for other locks. */
    const char *output;
    uint32_t level;   /* of the output */
    const char *note; /* JSON stored with the lease, or NULL */

    /* Optional. Called from a client thread that holds none of the library's internal locks. The
     * callback must not block, and may call only functions marked "Local" below. */
    void (*notify)(void *argument, struct hf_lock *lock, enum hf_lock_event event);
    void *notify_argument;

    bool unconfirmed; /* hf_lock_adopt: make no request; see there */
};

#define HF_LOCK_OPTIONS                                                                       \
    HF_VALUE_(hf_lock_options, sizeof(struct hf_lock_options), 30000, HF_EXCLUSIVE, 0, false, \
              0, 0, 0, NULL, 0, NULL, NULL, NULL, false)

/* ONCE PER PERIOD. A lock with once_per_ms is granted only if the work was not completed within
 * that period, less the slack. A holder of the same scopes completes the work by calling
 * hf_lock_complete. The period is counted from that holder's grant. An hourly job with a
 * once_per_ms of one hour therefore runs every hour, even if it takes a long time or its start time
 * varies. Time is measured by the store's clock. On a local store, this is the boot-time clock or,
 * across reboots, the wall clock.
 *
 * A completion is remembered for the once_per_ms of the lock that was completed, so all clients
 * should use the same value. A table remembers up to 512 completions. If a table cannot guarantee
 * that it will remember another completion, hf_lock_acquire returns HF_UNSUPPORTED. Each name has
 * its own table, which always has room; the paths and trees of a namespace, or of one of its pages,
 * share one table, and so do the ranges of an inode. A completion without a period is remembered
 * while there is room, and is counted from the end of the work. A table that was damaged, or
 * restored from a backup, may have lost completions. */

/* Creates a handle for a scope. `options` may be NULL. Local. */
HF_API enum hf_status hf_lock_new(struct hf_client *client, const char *scope,
                                  const struct hf_lock_options *options,
                                  struct hf_lock **ret_lock, struct hf_error *error);

/* Creates a handle for several scopes. Either all of them are acquired or none. The scopes must be
 * chunks and pins, ranges of one inode, or paths; in a namespace with pages, paths in one page
 * (store.h). Local. */
HF_API enum hf_status hf_lock_new_many(struct hf_client *client, const char *const *scopes,
                                       size_t count, const struct hf_lock_options *options,
                                       struct hf_lock **ret_lock, struct hf_error *error);

/* Frees a handle. A lease that it still holds is released in the background. Does nothing if `lock`
 * is NULL. */
HF_API void hf_lock_free(struct hf_lock *lock);

/* Frees a handle but leaves its lease in place for a process that has the lease's text
 * (hf_lock_text). From then on, only that process renews the lease. If this handle acquired the
 * lease with a ttl of 5 minutes or more, the lease is first recorded for the sweeper, which takes
 * one request and at most 5 seconds. Does nothing if `lock` is NULL. */
HF_API void hf_lock_detach(struct hf_lock *lock);

#define HF_WAIT_FOREVER INT64_MAX

/* Acquires the lock, waiting in the queue for up to wait_ms. If wait_ms is 0, acquires it only if
 * it is free now.
 *
 * Returns HF_OK if the lock is held. Returns HF_HELD if wait_ms is 0 and the lock is not free;
 * hf_lock_blocked reports which scopes conflict. Returns HF_TIMEOUT if the wait ended without a
 * grant and the handle has left the queue, or if the store did not reply. Returns HF_CANCELLED if
 * hf_lock_cancel or hf_lock_interrupt was called, or the client was closed.
 *
 * Returns HF_UNSURE if the store did not reply; the lock is then released in the background.
 * Returns HF_LOST if the lock was granted too late to be useful; the lock has been released.
 * Returns HF_EXPIRED or HF_LOST if the handle still has a lease that has ended: release the lock
 * first.
 *
 * Returns HF_ALREADY if the work was done within once_per_ms, and HF_UNSUPPORTED if the table
 * cannot remember a completion for that long. Returns HF_INVALID if the table does not allow this
 * ttl, and HF_MISMATCH if other clients use a different number of slots. HF_UNAVAILABLE, HF_DENIED
 * and HF_CORRUPT come from the store.
 *
 * If the store does not reply, the call may return a few seconds after wait_ms, or after ten
 * seconds if wait_ms is 0.
 *
 * Some leases can be proven to have ended only by watching them. On a local store, these are the
 * leases that were granted before a reboot. A client that runs for less than the ttl and uses a
 * wait_ms of 0 never takes over such a lease. Let the client wait instead. */
HF_API enum hf_status hf_lock_acquire(struct hf_lock *lock, int64_t wait_ms,
                                      struct hf_error *error);

/* Acquires the lock without blocking, in steps. hf_lock_begin makes one attempt: it returns HF_OK,
 * or HF_HELD and joins the queue. hf_lock_poll reads the table, at most once per poll_ms, and
 * acquires the lock when the handle's turn comes. It returns HF_OK if the handle holds the lock,
 * HF_HELD if it is still waiting, and HF_NOT_FOUND if it was not in the queue. After any other
 * status, the handle is not in the queue. hf_lock_cancel removes it from the queue. A waiter is
 * dropped if it does not poll within max(2 s, 3 poll_ms), or at a server its ttl, of its turn. */
HF_API enum hf_status hf_lock_begin(struct hf_lock *lock, struct hf_error *error);
HF_API enum hf_status hf_lock_poll(struct hf_lock *lock, struct hf_error *error);
HF_API enum hf_status hf_lock_cancel(struct hf_lock *lock, struct hf_error *error);

/* Interrupts a call that is waiting on this handle in another thread. The waiting call returns
 * HF_CANCELLED shortly after. Unlike hf_lock_cancel, this function does not wait for that call to
 * return, and has no effect if no call is waiting yet. If the handle waits in steps, its wait ends,
 * and hf_lock_poll soon returns HF_CANCELLED. Does nothing if `lock` is NULL. Local. */
HF_API void hf_lock_interrupt(struct hf_lock *lock);

/* Reports why a call that is waiting on this handle has received no reply from the store. Returns
 * HF_OK if there is no problem; otherwise returns the status and reason of the last attempt.
 * Local. */
HF_API enum hf_status hf_lock_trouble(struct hf_lock *lock, struct hf_error *error);

/* After HF_HELD: returns true if the scope with this index conflicted. hf_lock_blocker (observe.h)
 * reports the holder. Local. */
HF_API bool hf_lock_blocked(struct hf_lock *lock, size_t index);

/* Checks whether the lock is held now. Returns HF_OK if it is, HF_EXPIRED if the lease has expired,
 * HF_LOST if another client ended it, and HF_NOT_FOUND if the lock was never acquired or was
 * released. Returns HF_UNSURE for a lease that was adopted with `unconfirmed` and not renewed
 * since. If another client has ended the lease with hf_break, or has decided its transaction
 * (hf_txn_decide), the result may be HF_OK until the next renewal. Local and cheap: call it
 * often. */
HF_API enum hf_status hf_lock_check(struct hf_lock *lock, struct hf_error *error);

/* Returns how long the lease is certain to stay valid without a renewal, or 0 if the lock is not
 * held. Local. */
HF_API int64_t hf_lock_remaining_ms(struct hf_lock *lock);

/* Returns the token of the last grant, or 0 if there was no grant. Local. */
HF_API uint64_t hf_lock_token(struct hf_lock *lock);

/* Returns the ttl of the lease, or the ttl that will be requested if there is no lease. Local. */
HF_API int64_t hf_lock_ttl_ms(struct hf_lock *lock);

/* Returns the scope with this index in full ("named:deploy"). An adopted lock has the scopes of its
 * lease. Returns HF_NOT_FOUND if the index is past the last scope. Local. */
#define HF_SCOPE_TEXT_MAX 1088
HF_API enum hf_status hf_lock_scope(struct hf_lock *lock, size_t index,
                                    char text[HF_SCOPE_TEXT_MAX], struct hf_error *error);

/* Renews the lease now. */
HF_API enum hf_status hf_lock_renew(struct hf_lock *lock, struct hf_error *error);

/* Releases the lock. A handle that was acquired several times must be released as many times; after
 * that, releasing it returns HF_NOT_FOUND. Only the last of these releases makes a request; the
 * others return HF_LOST if the lease has ended, even if no other client was granted the lock.
 *
 * Returns HF_OK if no other client was granted the lock before the release. Returns HF_LOST if the
 * lease had expired or was broken: the work may have overlapped with another holder's work. Returns
 * HF_UNSURE if the store did not reply; the handle no longer holds the lock, which is then released
 * in the background. HF_DENIED, HF_CORRUPT and HF_UNSUPPORTED come from the store. Then, too, the
 * handle no longer holds the lock, and the client keeps trying to release it, except for a lease
 * adopted with `unconfirmed`, whose release may be repeated.
 *
 * hf_lock_complete records the work as done, for the once_per_ms of the lock. hf_lock_fail records
 * it as failed, for display only. `note` is JSON or NULL. */
HF_API enum hf_status hf_lock_release(struct hf_lock *lock, struct hf_error *error);
HF_API enum hf_status hf_lock_complete(struct hf_lock *lock, const char *note,
                                       struct hf_error *error);
HF_API enum hf_status hf_lock_fail(struct hf_lock *lock, const char *note,
                                   struct hf_error *error);

/* ---- Leases as text ------------------------------------------------------------------ */

/* Writes a held lease as one word that can be passed to another process. The word contains the
 * token, the id and the table. It identifies the lease and is not a secret: every client that can
 * write to the store can also read the lease there and act as its holder. To anyone else, the word
 * is useless. Nevertheless, pass it in an environment variable or through a pipe, because every
 * user of the machine can see a program's arguments. */
#define HF_LEASE_TEXT_MAX 1536
HF_API enum hf_status hf_lock_text(struct hf_lock *lock, char text[HF_LEASE_TEXT_MAX],
                                   struct hf_error *error);

#define HF_NAME_MAX 128

/* The parts of a lease's text. */
struct hf_lease_name {
    size_t struct_size;
    uint64_t token;
    char ns[HF_NAME_MAX + 1];  /* the namespace; only its clients can adopt the lease */
    char key[HF_NAME_MAX + 1]; /* the name of a named lock; otherwise empty */
    char table[1025];          /* the object that contains the lease */
};
#define HF_LEASE_NAME \
    HF_VALUE_(hf_lease_name, sizeof(struct hf_lease_name), 0, { 0 }, { 0 }, { 0 })

/* Parses the text of a lease. Returns HF_INVALID if the text does not describe a lease. Local. */
HF_API enum hf_status hf_lease_parse(const char *text, struct hf_lease_name *name,
                                     struct hf_error *error);

/* Creates a handle that holds the lease with this text, and renews it. Returns HF_LOST if the lease
 * has ended. The handle can renew and release the lease and write fenced objects, but cannot
 * acquire it again. hf_lock_detach returns the lease to the process that passed it on. Options that
 * describe a request, such as ttl_ms, are ignored.
 *
 * With the option `unconfirmed`, the call makes no request, and the handle does not know whether
 * the lease is still active: hf_lock_check returns HF_UNSURE. Use it for a single operation on the
 * lease, which then costs one write: hf_lock_renew, hf_lock_release, hf_lock_complete,
 * hf_lock_fail, or a change to the state of a key (hf_key_adopt). Each of them returns HF_LOST or,
 * for a state, the reason, if the lease has ended. A successful hf_lock_renew confirms the lease;
 * from then on, the handle is like any other. Fenced objects can be written only after that.
 * hf_lock_free and hf_lock_detach leave a lease in place that was never confirmed. */
HF_API enum hf_status hf_lock_adopt(struct hf_client *client, const char *text,
                                    const struct hf_lock_options *options,
                                    struct hf_lock **ret_lock, struct hf_error *error);

/* Ends the lease of another holder. The holder may not notice until its next renewal; until then,
 * only the fencing token can stop its writes. `by` and `reason` are recorded in the table. Returns
 * HF_LOST if the lease has already ended. A later lease of the same lock is never affected. */
HF_API enum hf_status hf_break(struct hf_client *client, const char *text, const char *by,
                               const char *reason, struct hf_error *error);

/* Sets ret_free[i] to true if the object keys[i] is not leased for a merge, and to false otherwise.
 * Reads the leases once. The result is only a hint; only hf_lock_acquire is authoritative. */
HF_API enum hf_status hf_chunks_unleased(struct hf_client *client, const char *const *keys,
                                         size_t count, bool *ret_free, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
