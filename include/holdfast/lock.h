/* lock.h: locks as leases: acquired, renewed in the background, released, passed on as text. What a
 * lease promises, and what it does not, is in holdfast.h.
 *
 *     struct hf_lock *lock;
 *     if (hf_lock_new(client, "deploy", NULL, &lock, &error) == HF_OK &&
 *         hf_lock_acquire(lock, 60000, &error) == HF_OK) {
 *         ... the work, with hf_lock_check(lock, &error) before each step that matters ...
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

/* Every ttl is within these; a client may allow less (ttl_max_ms). */
#define HF_TTL_MS_MIN 100
#define HF_TTL_MS_MAX 86400000

/* For `once_slack_ms`: no slack at all. */
#define HF_NO_SLACK (-1)

struct hf_lock_options {
    size_t struct_size;
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

#define HF_LOCK_OPTIONS                                                                       \
    HF_VALUE_(hf_lock_options, sizeof(struct hf_lock_options), 30000, HF_EXCLUSIVE, 0, false, \
              0, 0, 0, NULL, 0, NULL, NULL, NULL)

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

/* Ends a wait of this handle from another thread: the call that waits says CANCELLED, a little
 * later. Unlike hf_lock_cancel it does not wait for that call to return, and does nothing when none
 * waits yet. Local. NULL is fine. */
HF_API void hf_lock_interrupt(struct hf_lock *lock);

/* Why a call of this handle that waits has no answer from the store: OK when nothing is amiss, else
 * the status and the reason of the last try. Local. */
HF_API enum hf_status hf_lock_trouble(struct hf_lock *lock, struct hf_error *error);

/* After HELD: whether the scope of this index was in the way of being granted. Local; who holds it
 * is told by hf_lock_blocker (observe.h). */
HF_API bool hf_lock_blocked(struct hf_lock *lock, size_t index);

/* Whether it is held at this moment: OK, EXPIRED (its time is over), LOST (somebody ended it),
 * or NOT_FOUND (it was never acquired, or was released). Local, and cheap: ask often. */
HF_API enum hf_status hf_lock_check(struct hf_lock *lock, struct hf_error *error);

/* For how long it is certainly ours if nothing is renewed; 0 when it is not. Local. */
HF_API int64_t hf_lock_remaining_ms(struct hf_lock *lock);

/* The token of the last grant; 0 when there was none. Local. */
HF_API uint64_t hf_lock_token(struct hf_lock *lock);

/* The ttl: that of the lease while there is one, else the one that will be asked for. Local. */
HF_API int64_t hf_lock_ttl_ms(struct hf_lock *lock);

/* Its scope of this index in full ("named:deploy"); those of an adopted lease are those of the
 * lease. NOT_FOUND when it has no more. Local. */
#define HF_SCOPE_TEXT_MAX 1088
HF_API enum hf_status hf_lock_scope(struct hf_lock *lock, size_t index,
                                    char text[HF_SCOPE_TEXT_MAX], struct hf_error *error);

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

#define HF_NAME_MAX 128

/* What a lease as text says. */
struct hf_lease_name {
    size_t struct_size;
    uint64_t token;
    char ns[HF_NAME_MAX + 1];  /* the namespace of a client that can adopt it */
    char key[HF_NAME_MAX + 1]; /* of a lock with a name: that name; else empty */
    char table[1025];          /* the object that it stands in */
};
#define HF_LEASE_NAME \
    HF_VALUE_(hf_lease_name, sizeof(struct hf_lease_name), 0, { 0 }, { 0 }, { 0 })

/* Takes such a text apart; asks nothing of anybody. INVALID: it is not the text of a lease. */
HF_API enum hf_status hf_lease_parse(const char *text, struct hf_lease_name *name,
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

#ifdef __cplusplus
}
#endif

#endif
