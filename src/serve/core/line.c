/* SPDX-License-Identifier: Apache-2.0 */
/* line.c: the lines of waiters, and what happens to the one at the front of each, which alone has a
 * place in the store's queue. It guards against places and leases that nobody wants: whatever a
 * call brings for an acquire that is no longer wanted is given up before the next waiter asks. */
#include "serve/core/core_inside.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"

#include <stdlib.h>
#include <string.h>

/* ---- Lines --------------------------------------------------------------------------- */

static struct core_line *line_new(struct core *core, struct view resource)
{
    void *old;
    struct core_line *line = calloc(1, sizeof *line + resource.size);
    if (!line)
        return NULL;
    line->core = core;
    line->poll.kind = TIMER_POLL;
    TAILQ_INIT(&line->parked);
    line->resource_size = resource.size;
    memcpy(line->resource, resource.data, resource.size);
    if (!core_timers_reserve(&core->timers)) {
        free(line);
        return NULL;
    }
    if (!map_put(&core->lines, line_key(line), line, &old)) {
        core_timers_unreserve(&core->timers);
        free(line);
        return NULL;
    }
    check(old == NULL);
    return line;
}

static void line_free(struct core *core, struct core_line *line)
{
    check(!line->front && TAILQ_EMPTY(&line->parked));
    core_timer_clear(&core->timers, &line->poll.timer);
    core_timers_unreserve(&core->timers);
    check(map_take(&core->lines, line_key(line)) == line);
    free(line);
}

bool line_is_wanted(const struct core *core, struct view resource)
{
    const struct core_line *line = map_get(&core->lines, resource);
    return line && (!TAILQ_EMPTY(&line->parked) || op_is_wanted(line->front));
}

/* The more lines there are, the less often each is polled. The pace of a place never changes,
 * because the store drops a waiter that misses its turn, and its claim window depends on this. */
static int64_t pace_ms(const struct core *core)
{
    int64_t us = core->limits.poll_cost.us * (int64_t)core->lines.count;
    us = us < core->limits.poll_min.us ? core->limits.poll_min.us : us;
    us = us > core->limits.poll_max.us ? core->limits.poll_max.us : us;
    return us / 1000;
}

static void start_asking(struct core *core, struct core_line *line)
{
    line->again = false;
    core_timer_clear(&core->timers, &line->poll.timer);
    line->front->poll_ms = pace_ms(core);
    op_start(core, line->front, OP_ASKING, CORE_CALL_BEGIN);
}

static void put_in_front(struct core *core, struct core_line *line, struct core_op *op)
{
    line->front = op;
    op->line = line;
    start_asking(core, line);
}

/* The first in line would be refused now. It asks in the same write as the release (line_follow),
 * which then is the grant, and no place in the store's queue is needed. But the lease may end by
 * other means, and clients of other servers may want it, so it does not wait for long. */
static void put_next(struct core *core, struct core_line *line, struct core_op *op)
{
    line->front = op;
    op->line = line;
    op->state = OP_NEXT;
    struct mono_time ask_at = mono_add(core->now, core->limits.ask_after);
    MUTANT(mutant_waits_for_a_release(&ask_at));
    core_timer_set(&core->timers, &line->poll.timer, ask_at);
}

/* The front has left: the next one asks. `held`: the front has been granted the resource. */
static void line_advance(struct core *core, struct core_line *line, bool held)
{
    line->front->line = NULL;
    line->front = NULL;
    core_timer_clear(&core->timers, &line->poll.timer);
    struct core_op *next = TAILQ_FIRST(&line->parked);
    MUTANT(mutant_serves_the_last(&next, TAILQ_LAST(&line->parked, core_ops)));
    if (!next) {
        line_free(core, line);
        return;
    }
    TAILQ_REMOVE(&line->parked, next, link);
    line->parked_count--;
    if (held)
        put_next(core, line, next);
    else
        put_in_front(core, line, next);
}

bool line_join(struct core *core, struct core_op *op)
{
    struct core_line *line = map_get(&core->lines, op->resource);
    if (!line) {
        line = line_new(core, op->resource);
        if (!line)
            return false;
        put_in_front(core, line, op);
        return true;
    }
    op->state = OP_PARKED;
    op->line = line;
    TAILQ_INSERT_TAIL(&line->parked, op, link);
    line->parked_count++;
    op_report_wait(core, op);
    return true;
}

/* ---- The front ----------------------------------------------------------------------- */

static void start_poll(struct core *core, struct core_line *line)
{
    line->again = false;
    core_timer_clear(&core->timers, &line->poll.timer);
    op_start(core, line->front, OP_POLLING, CORE_CALL_POLL);
}

void line_poll(struct core *core, struct core_line *line)
{
    bool stands = line->front->state == OP_STANDING;
    check(stands || line->front->state == OP_NEXT);
    if (stands)
        start_poll(core, line);
    else
        start_asking(core, line);
}

void line_follow(struct core *core, struct view resource)
{
    struct core_line *line = map_get(&core->lines, resource);
    if (line && line->front->state == OP_NEXT)
        start_asking(core, line);
}

void line_wake_one(struct core *core, struct view resource)
{
    struct core_line *line = map_get(&core->lines, resource);
    bool wakes = RULE(RELEASE_WAKES_THE_LINE) && line;
    if (wakes && (line->front->state == OP_STANDING || line->front->state == OP_NEXT))
        line_poll(core, line);
    else if (wakes)
        line->again = true; /* the call under way may have seen the table before */
}

void line_wake(struct core *core, struct view resource)
{
    line_wake_one(core, resource);
    overlap_wake(core, resource);
}

/* A place in the store's queue, which is polled from now on. */
static void stand(struct core *core, struct core_op *op)
{
    struct core_line *line = op->line;
    op->state = OP_STANDING;
    op_report_wait(core, op);
    if (line->again)
        start_poll(core, line);
    else
        core_timer_set(&core->timers, &line->poll.timer,
                       mono_add(core->now, SPAN_MS(op->poll_ms)));
}

static void leave_line(struct core *core, struct core_op *op, bool held)
{
    struct core_line *line = op->line;
    if (line && line->front == op)
        line_advance(core, line, held);
    op_end(core, op);
}

void acquire_leave(struct core *core, struct core_op *op)
{
    leave_line(core, op, /* held */ false);
}

static void give_grant_back(struct core *core, struct core_op *op)
{
    if (RULE(UNWANTED_IS_GIVEN_BACK))
        op_start(core, op, OP_GIVING_BACK, CORE_CALL_GIVE_BACK);
    else
        acquire_leave(core, op);
}

void acquire_abandon(struct core *core, struct core_op *op)
{
    memory_remove(core, op); /* a retry must not join what is about to be given back */
    switch (op->state) {
    case OP_PARKED:
        TAILQ_REMOVE(&op->line->parked, op, link);
        op->line->parked_count--;
        op->line = NULL;
        op_end(core, op);
        break;
    case OP_NEXT: acquire_leave(core, op); break;
    case OP_ASKING: /* a call that is under way is followed up when it has ended */
        if (op_withdraw(core, op))
            acquire_leave(core, op);
        break;
    case OP_POLLING:
        if (op_withdraw(core, op))
            op_start(core, op, OP_LEAVING, CORE_CALL_CANCEL);
        break;
    case OP_STANDING:
        core_timer_clear(&core->timers, &op->line->poll.timer);
        op_start(core, op, OP_LEAVING, CORE_CALL_CANCEL);
        break;
    case OP_LEAVING:
    case OP_GIVING_BACK:
    case OP_ENDED: break;
    case OP_WORKING:
    default: check_unreachable();
    }
}

/* A result for an acquire that nobody wants. */
static void undo_unwanted(struct core *core, struct core_op *op, enum hf_status status)
{
    if (status == HF_OK)
        give_grant_back(core, op);
    else if (status == HF_HELD && op->what != CORE_CALL_ACQUIRE)
        op_start(core, op, OP_LEAVING, CORE_CALL_CANCEL);
    else
        acquire_leave(core, op);
}

void acquire_call_ended(struct core *core, struct core_op *op, const struct core_result *result)
{
    enum hf_status status = result->status;
    bool gives_up = op->state == OP_LEAVING || op->state == OP_GIVING_BACK;
    if (gives_up) {
        overlap_wake(core, op->resource);
        if (!op->line) /* otherwise the next in line asks anyway */
            line_wake_one(core, op->resource);
        acquire_leave(core, op);
        return;
    }
    if (!op_is_wanted(op)) {
        undo_unwanted(core, op, status);
        return;
    }
    if (status == HF_HELD && op->what != CORE_CALL_ACQUIRE) {
        stand(core, op);
        return;
    }
    op_answer(core, op, result);
    leave_line(core, op, status == HF_OK && op->excludes);
}
