/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h: connects the core with the pool. The core's calls become jobs, and jobs that have ended
 * become events of the core. Everything here runs on the loop.
 *
 *     core_acquire(core, ...); calls_pump(calls);        after each event that the caller reports
 *     calls_collect(calls, now);                         after the pool has notified
 *     calls_pass_time(calls, now);                       at calls_wake_at(calls)
 *
 *     calls_flush(calls, now);                           before the loop waits again
 *     job = calls_take_batch(calls, now);                or, if the caller can block, before that
 *
 * Each of the first three ends with the actions of the core: answers go to the caller's function.
 *
 * Calls that can be made together (`joins`) are gathered until calls_flush, and become one job: a
 * batch. While a batch is under way, the next one gathers, so that the more requests there are, the
 * more of them share one write. If writes are slow, it also waits for those who have just been
 * answered (gather.h). If writes are fast, so that the loop would otherwise be idle while
 * a batch is written, two batches are under way at a time. A batch makes each call as if it were
 * alone, or not at all; those that it did not make become jobs of their own. If a batch is under
 * way for CALLS_PATIENCE, because the store hangs, no call waits for it any longer: each becomes a
 * job of its own.
 *
 * Waking a worker takes longer than a short write. So if writes are short, and the caller can block
 * (stand_in.h), it makes the batch itself. */
#ifndef SERVE_CALLS_CALLS_H
#define SERVE_CALLS_CALLS_H

#include "serve/calls/gather.h"
#include "serve/calls/pool.h"
#include "serve/core/core.h"

/* What a call of the core does. Every order starts with this struct, which call_order_init fills
 * in. */
struct call_order {
    struct pool_job job; /* must be the first member */
    /* Makes the call, in a worker, and sets the result, which is zero at first. */
    void (*make)(struct call_order *order, enum core_call what, int64_t poll_ms,
                 struct core_result *result);
    void (*free)(struct call_order *order); /* on the loop; must not block */
    /* What can be made together with others; may be NULL. Set after call_order_init. */
    const struct call_order_group *group;

    /* Of the call that is under way. */
    uint64_t call;
    enum core_call what;
    int64_t poll_ms;
    struct core_result result;
    bool alone;              /* set by make_many: the call was not made */
    struct call_order *next; /* of those that gather */
};

#define CALLS_PATIENCE SPAN_S(1)

/* The time that the loop itself needs for a request, about. */
#define CALLS_OVERLAP_BELOW SPAN_US(30)

/* Writes are short unless this many batches in a row took as long as this, or were slow and had
 * several calls, so that the loop is to see who comes back meanwhile (gather.h). (A single batch
 * may only have waited for a processor.) */
#define CALLS_LONG       SPAN_MS(2)
#define CALLS_LONG_COUNT 4

/* The most calls in a batch, and the most batches under way. */
#define CALLS_BATCH_MAX HF_TRY_MAX
#define CALLS_BATCHES   2

struct call_order_group {
    /* Whether this call of the order can be part of a batch. On the loop. */
    bool (*joins)(const struct call_order *order, enum core_call what);
    /* Makes the calls of all these orders, in a worker. Sets `alone` for those that it did not
     * make. False: this store has no use for batches, and there will be no more of them. */
    bool (*make_many)(struct call_order *const *orders, size_t count);
};

void call_order_init(struct call_order *order,
                     void (*make)(struct call_order *order, enum core_call what,
                                  int64_t poll_ms, struct core_result *result),
                     void (*free_it)(struct call_order *order));

/* A core_free_order. */
void call_order_free(void *order);

/* Sets status and `why` of a result from a call of the library. */
void call_result_set(struct core_result *result, enum hf_status status,
                     const struct hf_error *error);

/* Answers a request. The result is valid during the call. */
typedef void calls_answer(void *argument, uint64_t request, const struct core_result *result);

struct call_batch {
    struct pool_job job; /* must be the first member */
    struct call_order *orders[CALLS_BATCH_MAX];
    size_t count; /* 0: not under way */
    struct mono_time began;
    bool useful; /* what make_many returned */
};

/* The pool's jobs_max must be at least the core's calls_max. The members below
 * `overlap_below` are zero at first. */
struct calls {
    struct core *core;
    struct pool *pool;
    calls_answer *answer;
    void *argument;
    struct span
        overlap_below; /* writes are fast if a batch takes less than this for each call */
    struct call_order *first, *last; /* that gather for the next batch */
    struct call_batch batches[CALLS_BATCHES];
    struct gather gather;
    size_t arrived;        /* calls that `gather` does not know yet */
    bool gathers;          /* calls wait for others */
    bool overlap;          /* writes are fast */
    unsigned long_batches; /* in a row, at most CALLS_LONG_COUNT */
    bool unbatched;        /* the store has no use for batches */
};

void calls_pump(struct calls *calls);
void calls_collect(struct calls *calls, struct mono_time now);
void calls_pass_time(struct calls *calls, struct mono_time now);
void calls_flush(struct calls *calls, struct mono_time now);

/* The batch that calls_flush would give to a worker, if writes are short. The caller runs the job,
 * and then calls pool_end and calls_collect. NULL: leave it to calls_flush. */
struct pool_job *calls_take_batch(struct calls *calls, struct mono_time now);

/* When calls_pass_time or calls_flush has something to do; MOMENT_FAR: never. */
struct mono_time calls_wake_at(const struct calls *calls);

/* Until when the calls that gather wait for others (gather.h); MOMENT_FAR: they do not. It may be a
 * fraction of a millisecond. */
struct mono_time calls_gather_until(const struct calls *calls);

#endif
