/* SPDX-License-Identifier: Apache-2.0 */
/* core_inside.h: the structs of the core, and the functions that its files share. core.c has the
 * events and the actions, line.c the lines and the places in the store's queue, memory.c the
 * request ids and the results that are kept for retries. */
#ifndef SERVE_CORE_CORE_INSIDE_H
#define SERVE_CORE_CORE_INSIDE_H

#include "base/map.h"
#include "base/spare.h"
#include "serve/core/core.h"
#include "serve/core/timers.h"

#include <sys/queue.h>

/* The states of an operation. Its order may be used by a call only in those marked *. */
enum op_state {
    OP_PARKED,      /* in a line, behind others */
    OP_NEXT,        /* first in line, and the one before it has been granted the resource */
    OP_ASKING,      /* * BEGIN or ACQUIRE */
    OP_STANDING,    /* has a place in the store's queue; no call is under way */
    OP_POLLING,     /* * POLL */
    OP_LEAVING,     /* * CANCEL */
    OP_GIVING_BACK, /* * GIVE_BACK */
    OP_WORKING,     /* * WORK */
    OP_ENDED,       /* has its result */
};

enum timer_kind { TIMER_REQUEST, TIMER_POLL };

/* What a timer belongs to; the first member of either struct. */
struct owned_timer {
    struct core_timer timer; /* must be the first member */
    enum timer_kind kind;
};

/* A request of the caller, from its arrival until its answer is taken. */
struct core_request {
    struct owned_timer limit; /* must be the first member; the end of its wait */
    unsigned char key[8];     /* its number, in the map of requests */
    struct core_op *op;
    TAILQ_ENTRY(core_request) link;   /* in the list that list_of() says */
    bool late;                        /* its wait is over, and is answered soon */
    bool answered;                    /* among the answers ... */
    const struct core_result *result; /* ... with this one, which belongs to the operation */
};

TAILQ_HEAD(core_requests, core_request);

/* An acquire or a work. It exists while a request, a call or the memory refers to it. */
struct core_op {
    enum op_state state;
    bool is_acquire, waits, excludes;
    bool reads;    /* a work that nobody needs once its requests have left */
    bool reported; /* as waiting */
    bool starting; /* its next call has not been taken by the caller yet ... */
    bool urgent;   /* ... and is in this one of the two lists */
    uint64_t call; /* the number of the call that is under way; 0: none */
    unsigned char call_key[8];
    enum core_call what;             /* that call */
    TAILQ_ENTRY(core_op) link;       /* in its line, among the remembered results */
    TAILQ_ENTRY(core_op) start_link; /* among the operations that wait for a call */
    struct core_requests requests;   /* those that want it */
    struct core_requests late;       /* their wait is over; answered when it has left */
    size_t unanswered;               /* requests whose answer refers to its result */
    struct core_line *line;          /* PARKED, or the front of its line; NULL: none */
    void *order;                     /* NULL: freed */
    int64_t poll_ms;
    struct core_result result;
    struct mono_time ended_at;
    bool remembered;      /* its result is kept for retries */
    bool known_by_id;     /* a retry with its id finds it */
    uint64_t content;     /* what the requests of this id agree in */
    struct view resource; /* in `text`, and so is the id */
    struct view id;
    bool is_short; /* the text is at most OP_TEXT_USUAL */
    char text[];
};

TAILQ_HEAD(core_ops, core_op);

/* The waiters for one resource. */
struct core_line {
    struct owned_timer poll; /* must be the first member */
    struct core *core;
    /* The only one that may have a place in the store's queue, or ask for one. It may be unwanted
     * by now. NULL only while the next one is chosen. */
    struct core_op *front;
    struct core_ops parked; /* all of them wanted */
    size_t parked_count;
    bool again; /* the resource may have become free since the current call began */
    size_t resource_size;
    char resource[];
};

struct core {
    struct core_limits limits;
    core_free_order *free_order;
    void (*report_wait)(void *argument, uint64_t request); /* NULL: nobody wants to know */
    void *report_argument;
    struct mono_time now; /* of the current event */
    bool stopping;
    struct core_timers timers;
    struct map requests; /* by number */
    struct map calls;    /* under way, by number */
    struct map lines;    /* by resource */
    struct map ids;      /* operations with a request id */
    uint64_t last_call;
    size_t starting;                      /* operations whose next call has not been taken */
    struct core_requests grants, answers; /* the first ones are taken first */
    struct core_ops urgent, ordinary;     /* operations that wait for a call */
    struct core_ops remembered;           /* the oldest first */
    uint64_t retries;
    size_t remembered_count;
    struct core_result told; /* the result of the last answer that was taken */
    struct spare spare_requests, spare_ops;
};

/* ---- core.c -------------------------------------------------------------------------- */

/* Whether a request still wants the operation. */
static inline bool op_is_wanted(const struct core_op *op)
{
    return !TAILQ_EMPTY(&op->requests);
}

/* Reports the requests of an operation that begins to wait. */
void op_report_wait(struct core *core, struct core_op *op);

/* Starts a call of the operation, as soon as there is room for it. */
void op_start(struct core *core, struct core_op *op, enum op_state state, enum core_call what);

/* Withdraws a call that the caller has not taken yet. True: there was one. */
bool op_withdraw(struct core *core, struct core_op *op);

/* Answers all requests of the operation with this result. It is then unwanted. */
void op_answer(struct core *core, struct core_op *op, const struct core_result *result);

/* The operation is over: nobody wants it, and no call of it is under way. Frees its order, and the
 * operation itself unless an answer or the memory refers to it. */
void op_end(struct core *core, struct core_op *op);

/* Frees the operation if nothing refers to it. */
void op_free_if_unused(struct core *core, struct core_op *op);

/* ---- line.c -------------------------------------------------------------------------- */

static inline struct view line_key(const struct core_line *line)
{
    return (struct view){ line->resource, line->resource_size };
}

/* Whether a request that does not wait would overtake somebody. */
bool line_is_wanted(const struct core *core, struct view resource);

/* Adds an acquire to the line of its resource. False if memory runs out. */
bool line_join(struct core *core, struct core_op *op);

/* Nobody wants the acquire any more: it leaves, and gives back what it has. */
void acquire_abandon(struct core *core, struct core_op *op);

/* The result of a call of an acquire. */
void acquire_call_ended(struct core *core, struct core_op *op,
                        const struct core_result *result);

/* Ends an acquire that has neither a place nor a lease that is not wanted. The next in line
 * asks. */
void acquire_leave(struct core *core, struct core_op *op);

/* The resource may have become free: its line goes on, and those that overlap with it do. */
void line_wake(struct core *core, struct view resource);

/* The same for its own line alone. */
void line_wake_one(struct core *core, struct view resource);

/* A poll is due, or the first in line asks. */
void line_poll(struct core *core, struct core_line *line);

/* A release of the resource begins: the first in line asks in the same write, if it can. */
void line_follow(struct core *core, struct view resource);

/* ---- overlap.c ----------------------------------------------------------------------- */

/* Wakes the lines of other resources that overlap with this one, which may have become free. */
void overlap_wake(struct core *core, struct view resource);

/* ---- memory.c ------------------------------------------------------------------------ */

/* The operation with this request id; NULL if there is none. */
struct core_op *memory_find(const struct core *core, struct view id);

/* Makes the operation known by its id, if it has one. False if memory runs out. */
bool memory_add(struct core *core, struct core_op *op);

/* A retry no longer finds the operation. Does nothing if it is not known. */
void memory_remove(struct core *core, struct core_op *op);

/* Keeps the result of an operation that has ended, for retries. */
void memory_keep(struct core *core, struct core_op *op);

/* Forgets results that are too old, and the oldest ones if there are too many. */
void memory_forget(struct core *core);

/* Forgets all results. */
void memory_clear(struct core *core);

#endif
