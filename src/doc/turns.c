/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c: tasks that change the same document take turns: one of them leads an attempt for all
 * that are waiting. It guards against lost wake-ups, conflicts between requests from one process,
 * and retries that overload the store. */
#include "base/check.h"
#include "base/rule.h"
#include "doc/doc_inside.h"

/* After n failures in a row the next attempt waits up to 2^n round trips, within these bounds.
 * After a conflict, crowd.h decides, unless nobody has caused it. */
#define BACKOFF_DOUBLINGS_MAX 8
#define BACKOFF_MAX           SPAN_S(2)

/* How often a leader that pauses looks for urgent operations, and for the budget of the store. */
#define PAUSE_SLICE SPAN_MS(250)

/* A pause because of other clients takes at most this part of the time that any operation in the
 * queue has left, but may always be this many round trips long. So there is time for several
 * attempts, and the last of them do not follow each other closely. */
#define CROWD_TIME_PART   4
#define CROWD_ROUND_TRIPS 4

/* An urgent operation, or one that is to be tried soon and has no others ahead, is tried again at
 * once after a conflict, and after several it pauses for up to two, four, ... round trips. */
#define URGENT_DOUBLINGS_MAX 4
#define SOON_DOUBLINGS_MAX   2

/* To wait in line costs nothing while others are ahead, so an operation that joins them pauses for
 * longer, also after the first conflict. A hand-over takes three to six round trips, and pauses are
 * drawn from 0 up to this limit for each of them. */
#define TURN_ROUND_TRIPS 8

/* ---- The queue ----------------------------------------------------------------------- */

static void push_locked(struct doc *doc, struct doc_op *op)
{
    op->next = NULL;
    if (doc->shared.last)
        doc->shared.last->next = op;
    else
        doc->shared.first = op;
    doc->shared.last = op;
}

static void remove_locked(struct doc *doc, struct doc_op *op)
{
    struct doc_op *before = NULL;
    for (struct doc_op *at = doc->shared.first; at != op; at = at->next)
        before = at;
    if (before)
        before->next = op->next;
    else
        doc->shared.first = op->next;
    if (doc->shared.last == op)
        doc->shared.last = before;
}

/* Sets the error of an operation whose deadline has passed. */
static void time_out(struct doc_op *op)
{
    struct hf_error last = op->error;
    /* TIMEOUT promises that nothing was or will be changed. That is not known while an earlier
     * attempt may still land (README.md, rule 3). */
    bool unsure = RULE(LATE_IS_UNSURE) && op->doubt == DOC_DOUBT_OPEN;
    error_set(&op->error, unsure ? HF_UNSURE : HF_TIMEOUT, "%s%s%s",
              unsure ? "not confirmed before the deadline; the change may still happen"
                     : "not done before the deadline",
              last.status != HF_OK ? ": " : "", last.status != HF_OK ? last.why : "");
    op->answer = DOC_FAILED;
}

/* Returns the operation to its caller. Must be the last access to it: once the mutex is unlocked,
 * the caller may return, and the operation may be on its stack. */
static void publish_op_locked(struct doc_op *op)
{
    op->state = DOC_OP_DONE;
    env_cond_signal(op->wake);
}

/* Takes the waiting operations. Operations whose deadline has passed time out instead. */
static void take_batch_locked(struct doc *doc, struct batch *batch)
{
    struct mono_time now = env_now(doc->store->env);
    batch->count = 0;
    while (doc->shared.first && batch->count < BATCH_OPS_MAX) {
        struct doc_op *op = doc->shared.first;
        remove_locked(doc, op);
        if (mono_before(now, op->deadline)) {
            op->state = DOC_OP_TAKEN;
            batch->ops[batch->count++] = op;
        } else {
            time_out(op);
            publish_op_locked(op);
        }
    }
}

/* Returns unfinished operations to the front of the queue, in order, or times them out. */
static void give_back_locked(struct doc *doc, struct batch *batch)
{
    struct mono_time now = env_now(doc->store->env);
    /* From the last to the first, because each one is put in front of the queue. */
    for (size_t i = batch->count; i-- > 0;) {
        struct doc_op *op = batch->ops[i];
        /* A conflict is not reported as trouble if it means that another client made progress. */
        if (op->answer != DOC_UNANSWERED ||
            (op->error.status == HF_CONFLICT && !doc_conflicts_in_vain(doc)))
            error_clear(&doc->shared.trouble);
        else
            doc->shared.trouble = op->error;
        if (op->answer == DOC_UNANSWERED && !mono_before(now, op->deadline))
            time_out(op);
        if (op->answer != DOC_UNANSWERED) {
            publish_op_locked(op);
            continue;
        }
        op->state = DOC_OP_QUEUED;
        op->next = doc->shared.first;
        doc->shared.first = op;
        if (!doc->shared.last)
            doc->shared.last = op;
    }
}

/* ---- Leading ------------------------------------------------------------------------- */

/* The longest pause because of other clients. */
static struct span crowd_limit(struct doc *doc, struct mono_time now)
{
    return crowd_pause(&doc->crowd, doc->failures_in_row > 0, mono_since(now, doc->failing),
                       doc->round_trip, now);
}

/* The longest such pause of an operation that has this deadline. */
static struct span crowd_time(const struct doc *doc, struct mono_time now,
                              struct mono_time deadline)
{
    struct span part = SPAN_US(mono_since(deadline, now).us / CROWD_TIME_PART);
    return span_larger(part, SPAN_US(CROWD_ROUND_TRIPS * doc->round_trip.us));
}

static struct span failure_limit(const struct doc *doc)
{
    unsigned doublings = doc->failures_in_row < BACKOFF_DOUBLINGS_MAX ? doc->failures_in_row
                                                                      : BACKOFF_DOUBLINGS_MAX;
    return span_smaller(SPAN_US(doc->round_trip.us << doublings), BACKOFF_MAX);
}

/* How urgent the operations in the queue are. */
struct urgency {
    bool urgent, soon;
    size_t ahead;              /* of the first that is to be tried soon */
    struct mono_time deadline; /* the earliest that has not passed; MOMENT_FAR: none */
};

static struct urgency queued_urgency(struct doc *doc, struct mono_time now)
{
    struct urgency all = { .ahead = SIZE_MAX, .deadline = { MOMENT_FAR } };
    env_mutex_lock(&doc->shared.mutex);
    for (const struct doc_op *op = doc->shared.first; op; op = op->next) {
        all.urgent = all.urgent || op->urgent;
        all.soon = all.soon || op->soon;
        if (op->soon && op->ahead < all.ahead)
            all.ahead = op->ahead;
        if (mono_before(now, op->deadline))
            all.deadline = mono_earlier(all.deadline, op->deadline);
    }
    env_mutex_unlock(&doc->shared.mutex);
    return all;
}

/* Most clients wait for what such an operation does, so few of them write at the same time. But
 * several waiters may have their turn together, so the pauses of those that conflict again grow.
 * Whoever joins a line has time until those ahead have had their turn. */
static struct span hurried_limit(const struct doc *doc, const struct urgency *queued)
{
    unsigned most = queued->urgent ? URGENT_DOUBLINGS_MAX : SOON_DOUBLINGS_MAX;
    unsigned again = doc->failures_in_row > 0 ? doc->failures_in_row - 1 : 0;
    int64_t trips = again > 0 ? (int64_t)1 << (again < most ? again : most) : 0;
    if (!queued->urgent)
        trips += TURN_ROUND_TRIPS * (int64_t)queued->ahead;
    return SPAN_US(doc->round_trip.us * trips);
}

/* While the leader pauses, an urgent operation may be queued, which ends the pause, or one that has
 * little time, which shortens a pause because of other clients. Returns whether the pause was cut
 * short. */
static bool pause_until(struct doc *doc, struct mono_time until, bool crowd)
{
    struct env *env = doc->store->env;
    struct mono_time now = env_now(env);
    bool cut = false;
    while (mono_before(now, until)) {
        struct mono_time slice = mono_add(now, PAUSE_SLICE);
        env_sleep_until(env, mono_earlier(slice, until));
        now = env_now(env);
        if (!mono_before(now, until))
            break;
        struct urgency queued = queued_urgency(doc, now);
        struct mono_time latest = mono_add(now, crowd_time(doc, now, queued.deadline));
        if (queued.urgent)
            return true;
        if (crowd && mono_before(latest, until)) {
            until = latest;
            cut = true;
        }
    }
    return cut;
}

/* Waits until the budget of the store allows a retry. */
static void wait_for_budget(struct doc *doc, struct mono_time deadline)
{
    struct env *env = doc->store->env;
    struct mono_time now = env_now(env);
    while (RULE(RETRIES_ARE_LIMITED) && mono_before(now, deadline) &&
           !queued_urgency(doc, now).urgent) {
        doc->paid = retry_budget_take(store_budget(doc->store), now);
        if (doc->paid)
            return;
        struct mono_time next = mono_add(now, env_jitter(env, SPAN_US(2 * PAUSE_SLICE.us)));
        env_sleep_until(env, mono_earlier(next, deadline));
        now = env_now(env);
    }
}

/* Full jitter, so that clients that failed at the same time do not retry at the same time. The
 * pause never extends past the deadline of the leader's own operation. */
static void pause_before_attempt(struct doc *doc, struct mono_time deadline)
{
    struct env *env = doc->store->env;
    struct mono_time now = env_now(env);
    /* Nobody makes progress by conflicts in vain, so they are failures, also of urgent operations:
     * these would be tried again at once, and as often as the store answers. */
    bool conflicted = doc->conflicted && !doc_conflicts_in_vain(doc);
    bool crowd = doc->failures_in_row == 0 || conflicted;
    struct span limit = crowd ? crowd_limit(doc, now) : failure_limit(doc);
    doc->hurried = false;
    if (limit.us == 0) /* as nearly always */
        return;
    struct urgency queued = queued_urgency(doc, now);
    if (crowd)
        limit =
            span_smaller(limit, crowd_time(doc, now, mono_earlier(queued.deadline, deadline)));
    bool hurries = crowd && (queued.urgent || (queued.soon && doc->failures_in_row > 0));
    struct span most = hurries ? hurried_limit(doc, &queued) : limit;
    doc->hurried = hurries && (queued.urgent || queued.ahead == 0);
    limit = span_smaller(limit, most);
    struct mono_time until = mono_earlier(mono_add(now, env_jitter(env, limit)), deadline);
    if (queued.urgent)
        env_sleep_until(env, until);
    else if (pause_until(doc, until, crowd))
        doc->hurried = true;
    if (!crowd)
        wait_for_budget(doc, deadline);
}

/* Leads one attempt for all waiting operations. Called with the mutex held, which is unlocked
 * during the attempt. */
static void lead_locked(struct doc *doc, struct mono_time deadline)
{
    struct batch batch;
    doc->shared.busy = true;
    env_mutex_unlock(&doc->shared.mutex);
    /* The batch is taken after the pause, so operations that arrive during the pause join the same
     * put. */
    pause_before_attempt(doc, deadline);
    env_mutex_lock(&doc->shared.mutex);
    take_batch_locked(doc, &batch);
    env_mutex_unlock(&doc->shared.mutex);
    if (batch.count > 0)
        doc_try(doc, &batch);
    env_mutex_lock(&doc->shared.mutex);
    give_back_locked(doc, &batch);
    if (!doc->shared.first)
        doc->failures_in_row = 0; /* the next caller has not failed yet */
    doc->shared.busy = false;
}

/* A task that leaves while no other is leading wakes the first operation in the queue, and one task
 * that is waiting in doc_look. So a task is always awake while there is work, and none is woken
 * needlessly. */
static void leave_locked(struct doc *doc)
{
    if (!doc->shared.busy) {
        env_cond_signal(&doc->shared.idle);
        if (doc->shared.first)
            env_cond_signal(doc->shared.first->wake);
    }
    env_mutex_unlock(&doc->shared.mutex);
}

/* Waits for a turn to lead, or until a leader has finished the operation. An operation that is
 * TAKEN when its deadline passes ignores it, because its leader is still using it. Before that it
 * may be returned to the queue, and its task is not woken for that. */
static void wait_for_turn_locked(struct doc *doc, struct doc_op *op)
{
    bool in_time = true;
    if (op->state == DOC_OP_QUEUED || mono_before(env_now(doc->store->env), op->deadline))
        in_time = env_cond_wait_until(op->wake, &doc->shared.mutex, op->deadline);
    else
        env_cond_wait(op->wake, &doc->shared.mutex);
    /* A leader may have taken the operation just before its deadline. Its write may already be on
     * the way, so the caller must then wait for the result. */
    if (!in_time && op->state == DOC_OP_QUEUED) {
        remove_locked(doc, op);
        time_out(op);
        publish_op_locked(op);
    }
}

/* ---- Calls --------------------------------------------------------------------------- */

bool doc_trouble(struct doc *doc, struct hf_error *ret_why)
{
    env_mutex_lock(&doc->shared.mutex);
    *ret_why = doc->shared.trouble;
    env_mutex_unlock(&doc->shared.mutex);
    return ret_why->status != HF_OK;
}

enum hf_status doc_update_many(struct doc *doc, struct doc_op *const *ops, size_t count)
{
    enum hf_status first = HF_OK;
    /* Each call has its own condition, so that only the calls that are finished, and the next
     * leader, are woken. */
    struct env_cond wake;
    env_cond_init(doc->store->env, &wake);
    env_mutex_lock(&doc->shared.mutex);
    for (size_t i = 0; i < count; i++) {
        check(ops[i]->deadline.us > 0);
        ops[i]->state = DOC_OP_QUEUED;
        ops[i]->answer = DOC_UNANSWERED;
        error_clear(&ops[i]->error);
        ops[i]->wake = &wake;
        push_locked(doc, ops[i]);
    }
    for (size_t i = 0; i < count; i++) {
        while (ops[i]->state != DOC_OP_DONE) {
            if (doc->shared.busy)
                wait_for_turn_locked(doc, ops[i]);
            else
                lead_locked(doc, ops[i]->deadline);
        }
        if (first == HF_OK)
            first = ops[i]->error.status;
    }
    leave_locked(doc);
    env_cond_release(&wake);
    return first;
}

enum hf_status doc_update(struct doc *doc, struct doc_op *op)
{
    return doc_update_many(doc, &op, 1);
}

enum hf_status doc_take_turn(struct doc *doc, struct mono_time deadline, struct hf_error *error)
{
    env_mutex_lock(&doc->shared.mutex);
    while (doc->shared.busy)
        if (!env_cond_wait_until(&doc->shared.idle, &doc->shared.mutex, deadline)) {
            /* The last leader may have woken this task and no other, so pass the wake-up on. */
            leave_locked(doc);
            return error_set(error, HF_TIMEOUT, "the document was busy until the deadline");
        }
    doc->shared.busy = true;
    env_mutex_unlock(&doc->shared.mutex);
    return HF_OK;
}

bool doc_try_turn(struct doc *doc)
{
    env_mutex_lock(&doc->shared.mutex);
    bool taken = !doc->shared.busy;
    doc->shared.busy = true;
    env_mutex_unlock(&doc->shared.mutex);
    return taken;
}

void doc_leave_turn(struct doc *doc)
{
    env_mutex_lock(&doc->shared.mutex);
    doc->shared.busy = false;
    leave_locked(doc);
}

enum hf_status doc_look(struct doc *doc, struct mono_time deadline,
                        void (*look)(void *argument, const void *body,
                                     const struct evidence *evidence),
                        void *argument, struct hf_error *error)
{
    enum hf_status status = doc_take_turn(doc, deadline, error);
    if (status != HF_OK)
        return status;
    status = doc_load(doc, deadline, error);
    if (status == HF_CONFLICT) /* it changed while it was being read */
        status = doc_load(doc, deadline, error);
    if (status == HF_OK) {
        struct evidence evidence = { .nonce = VIEW("") };
        clock_evidence(doc->clock, &evidence);
        look(argument, doc->body, &evidence);
    }
    doc_leave_turn(doc);
    return status;
}
