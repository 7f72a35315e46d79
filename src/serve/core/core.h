/* SPDX-License-Identifier: Apache-2.0 */
/* core.h: the state machine of the server: which requests wait for which lock, which of them has a
 * place in the store's queue, what happens when a client hangs up, and which result a retry gets.
 * The rules are in ../README.md.
 *
 * Pure: it reads no clock, makes no calls and starts no thread. Its owner, a single thread, reports
 * events with the current time, and carries out the actions:
 *
 *     core_acquire(core, request, &wanted, now, &error);
 *     while (core_next(core, &action))
 *         if (action.kind == CORE_ANSWER) reply(action.request, action.result);
 *         else                            start a worker on action.order, and later:
 *     core_call_ended(core, call, &result, now);
 *     ... wait for the next event, or until core_wake_at(core) and then core_pass_time(core, now)
 *
 * Drain the actions after every event. Each request that was accepted is answered exactly once,
 * unless it hangs up first; each call that was started must be reported as ended exactly once. */
#ifndef SERVE_CORE_CORE_H
#define SERVE_CORE_CORE_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"
#include "holdfast/key.h"

#define CORE_RESOURCE_MAX   1280 /* bytes: a namespace and a scope */
#define CORE_REQUEST_ID_MAX 576  /* with what separates clients and resources */
#define CORE_LEASE_ID_SIZE  32

struct core;

struct core_limits {
    size_t requests_max;      /* under way, waits included; further ones are refused */
    size_t calls_max;         /* started and not ended */
    struct span start_max;    /* a request that does not wait, and whose call does not start
                               * within this time, is refused */
    size_t remembered_max;    /* results kept for retries; the oldest is forgotten first ... */
    struct span remember_for; /* ... and none is kept for longer */
    struct span leave_max; /* a wait in vain is answered when its place is given up, and at the
                               * latest this long after its limit */
    struct span poll_min;  /* how often a place in the store's queue is polled: ... */
    struct span poll_max;
    struct span poll_cost; /* ... this much for each line, within these bounds */
    struct span ask_after; /* while somebody is known to hold a resource, the first in line asks
                            * the store with the release, and at the latest after this time */
};

#define CORE_LIMITS                                     \
    ((struct core_limits){ .requests_max = 20000,       \
                           .calls_max = 64,             \
                           .start_max = SPAN_S(5),      \
                           .remembered_max = 65536,     \
                           .remember_for = SPAN_S(600), \
                           .leave_max = SPAN_S(3),      \
                           .poll_min = SPAN_MS(250),    \
                           .poll_max = SPAN_MS(2000),   \
                           .poll_cost = SPAN_US(2500),  \
                           .ask_after = SPAN_MS(10) })

/* Frees an order. Called once for each order that the core accepted, when no call uses it any more;
 * never before its last call has ended. */
typedef void core_free_order(void *order);

/* NULL if memory runs out. */
struct core *core_new(const struct core_limits *limits, core_free_order *free_order);

/* Optional. Reports each request that begins to wait, once: it stands in line behind others, or has
 * a place in the store's queue. Called during an event. Must not call the core. */
void core_on_wait(struct core *core, void (*waits)(void *argument, uint64_t request),
                  void *argument);

/* Frees the core, with all requests that were not answered. No call may be under way. Does nothing
 * if `core` is NULL. */
void core_free(struct core *core);

/* ---- Events -------------------------------------------------------------------------- */

/* The id by which a client repeats a request; empty: none. Ids are compared over all requests, so
 * include what separates clients (namespace, user). `content` is a hash of everything that makes
 * the request what it is; two requests with one id must agree in it. */
struct core_retry {
    struct view id;
    uint64_t content;
};

struct core_wanted {
    struct view resource;
    bool excludes;          /* while it holds the resource, nobody else can */
    bool waits;             /* stand in line if it is not free ... */
    struct mono_time until; /* ... until then; MOMENT_FAR: as long as it takes */
    struct core_retry retry;
    void *order; /* the core's from now on, unless the call fails */
};

/* A request to acquire a lock. OK: it will be answered by an action. Otherwise it was refused:
 *
 *     HELD          it does not want to wait, and others are in line
 *     INVALID       its id was used for another request
 *     UNAVAILABLE   too many requests are under way, or out of memory
 *     CANCELLED     the server is stopping
 *
 * `request` is a number of the caller's that no request under way has. The order of a request that
 * joins or repeats another one is freed during the call. */
enum hf_status core_acquire(struct core *core, uint64_t request,
                            const struct core_wanted *wanted, struct mono_time now,
                            struct hf_error *error);

/* Any other request that calls the library once. If its call has not begun after `start_max`,
 * because calls that take long are under way, it is answered with UNAVAILABLE, and nothing
 * happened. The same is true of an acquire that does not wait. */
struct core_work {
    struct view resource; /* if it may become free by this: a release */
    struct core_retry retry;
    void *order;
    bool shared; /* many clients send it with one id: joining it is no retry */
    bool reads;  /* it changes nothing, and concerns nobody but those who wait for it */
};

/* As core_acquire, but never HELD or CANCELLED. A hang-up does not stop it, unless it reads and its
 * call has not begun. What reads begins after the calls of holders. */
enum hf_status core_work(struct core *core, uint64_t request, const struct core_work *work,
                         struct mono_time now, struct hf_error *error);

/* The client of a request has left. It is never answered from now on. Does nothing if the request
 * is not under way. */
void core_hang_up(struct core *core, uint64_t request, struct mono_time now);

/* The result of a request, as its call reports it. The core itself uses only `status` and
 * `keep`. */
struct core_result {
    enum hf_status status;
    bool keep;                   /* it had an effect: a retry gets this result again */
    enum hf_key_outcome outcome; /* why an update was refused */
    char lease_id[CORE_LEASE_ID_SIZE + 1];
    uint64_t token;
    struct mono_time valid_until; /* how long the lease can be relied on, by the library */
    int64_t ttl_ms;
    uint64_t version; /* of the key's state */
    char etag[HF_KEY_ETAG_SIZE + 1];
    uint64_t blocked;     /* HELD: which of several scopes were in the way, one bit each */
    char why[HF_WHY_MAX]; /* empty if the status is OK */
};

/* A call has ended. For BEGIN and POLL, the status OK is a grant, HELD is a place in the store's
 * queue, and after any other status there is neither. */
void core_call_ended(struct core *core, uint64_t call, const struct core_result *result,
                     struct mono_time now);

/* A resource may have become free by something else than the release of a core_work. Its first
 * waiter is polled at once. */
void core_wake(struct core *core, struct view resource, struct mono_time now);

/* Time limits and polls that are due, and results that are forgotten. */
void core_pass_time(struct core *core, struct mono_time now);

/* When core_pass_time has something to do; MOMENT_FAR: never. */
struct mono_time core_wake_at(const struct core *core);

/* From now on, nothing is granted. Waits, and reads that have not begun, are answered with
 * CANCELLED. */
void core_stop(struct core *core, struct mono_time now);

/* Whether any request waits for a resource. */
bool core_has_waiters(const struct core *core);

/* Whether no request and no call is left. */
bool core_is_idle(const struct core *core);

/* ---- Actions ------------------------------------------------------------------------- */

/* The calls, and what they do with the handle of an acquire. */
enum core_call {
    CORE_CALL_ACQUIRE,   /* one attempt; there is no handle afterwards */
    CORE_CALL_BEGIN,     /* one attempt, and a place in the queue: HELD leaves a handle */
    CORE_CALL_POLL,      /* HELD leaves the handle */
    CORE_CALL_CANCEL,    /* gives up the place; frees the handle */
    CORE_CALL_GIVE_BACK, /* releases the lease that the last call of this order was granted */
    CORE_CALL_WORK,      /* the order of core_work */
};

struct core_action {
    enum { CORE_ANSWER, CORE_CALL } kind;
    /* An answer. The result is valid until the next call of the core. */
    uint64_t request;
    const struct core_result *result;
    /* A call. */
    uint64_t call;
    enum core_call what;
    void *order;
    int64_t poll_ms; /* BEGIN: the pace of the polls */
};

/* Takes the next action. False: there is none now. Of several answers, those to waiters that were
 * granted their lock come first, because others wait for its release. */
bool core_next(struct core *core, struct core_action *ret_action);

/* ---- Counts -------------------------------------------------------------------------- */

struct core_counts {
    size_t requests;   /* under way */
    size_t waiting;    /* of these, acquires in line */
    size_t lines;      /* resources with a waiter or a place */
    size_t calls;      /* under way */
    size_t remembered; /* results */
    uint64_t retries; /* so far: requests with the id of an earlier one, which got its result */
};
struct core_counts core_count(const struct core *core);

/* Checks the invariants, by check(). For tests; takes time in proportion to the requests. */
void core_check(const struct core *core);

#endif
