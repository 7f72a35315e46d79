/* SPDX-License-Identifier: Apache-2.0 */
/* core.c: the events and the actions of the core. It guards against requests that are answered
 * twice or never, and against more work at a time than the limits allow. Memory is allocated only
 * when a request arrives, so no later event can fail. */
#include "serve/core/core_inside.h"

#include "base/check.h"
#include "base/rule.h"

#include <stdlib.h>
#include <string.h>

/* What is kept to be used again: nodes of the maps of requests and of calls; requests, and
 * operations with a text of the usual size. */
#define SPARE_NODES   128
#define SPARE_MAX     64
#define OP_TEXT_USUAL 128

/* Numbers in the order of their bytes, as keys of a map. */
static struct view number_key(uint64_t number, unsigned char key[8])
{
    for (int i = 0; i < 8; i++)
        key[i] = (unsigned char)(number >> (56 - 8 * i));
    return (struct view){ (const char *)key, 8 };
}

static uint64_t key_number(const unsigned char key[8])
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | key[i];
    return number;
}

static struct view key_view(const unsigned char key[8])
{
    return (struct view){ (const char *)key, 8 };
}

/* ---- Creating and freeing ------------------------------------------------------------ */

struct core *core_new(const struct core_limits *limits, core_free_order *free_order)
{
    struct core *core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    check(limits->requests_max > 0 && limits->calls_max > 0 && limits->poll_min.us >= 1000);
    core->limits = *limits;
    core->free_order = free_order;
    TAILQ_INIT(&core->grants);
    TAILQ_INIT(&core->answers);
    TAILQ_INIT(&core->urgent);
    TAILQ_INIT(&core->ordinary);
    TAILQ_INIT(&core->remembered);
    core->timers = CORE_TIMERS_INIT;
    core->requests = core->calls = MAP_INIT_BUSY(SPARE_NODES);
    core->lines = core->ids = MAP_INIT;
    return core;
}

static struct core_request *request_make(struct core *core, uint64_t number)
{
    void *old;
    struct core_request *request = spare_take(&core->spare_requests, sizeof *request);
    if (!request)
        return NULL;
    *request = (struct core_request){ .limit = { .kind = TIMER_REQUEST } };
    if (!core_timers_reserve(&core->timers)) {
        free(request);
        return NULL;
    }
    if (!map_put(&core->requests, number_key(number, request->key), request, &old)) {
        core_timers_unreserve(&core->timers);
        free(request);
        return NULL;
    }
    check(old == NULL);
    return request;
}

static void request_drop(struct core *core, struct core_request *request)
{
    core_timer_clear(&core->timers, &request->limit.timer);
    core_timers_unreserve(&core->timers);
    check(map_take(&core->requests, key_view(request->key)) == request);
    spare_give(&core->spare_requests, request, SPARE_MAX);
}

static struct core_op *op_new(struct core *core, struct view resource,
                              const struct core_retry *retry, void *order)
{
    check(resource.size <= CORE_RESOURCE_MAX && retry->id.size <= CORE_REQUEST_ID_MAX);
    size_t size = resource.size + retry->id.size;
    bool is_short = size <= OP_TEXT_USUAL;
    struct core_op *op = is_short ? spare_take(&core->spare_ops, sizeof *op + OP_TEXT_USUAL)
                                  : malloc(sizeof *op + size);
    if (!op)
        return NULL;
    *op = (struct core_op){ .is_short = is_short };
    if (resource.size > 0)
        memcpy(op->text, resource.data, resource.size);
    if (retry->id.size > 0)
        memcpy(op->text + resource.size, retry->id.data, retry->id.size);
    op->resource = (struct view){ op->text, resource.size };
    op->id = (struct view){ op->text + resource.size, retry->id.size };
    op->content = retry->content;
    op->order = order;
    TAILQ_INIT(&op->requests);
    TAILQ_INIT(&op->late);
    return op;
}

static void op_free(struct core *core, struct core_op *op)
{
    if (op->is_short)
        spare_give(&core->spare_ops, op, SPARE_MAX);
    else
        free(op);
}

void op_free_if_unused(struct core *core, struct core_op *op)
{
    if (op->state != OP_ENDED || op->unanswered > 0 || op->remembered)
        return;
    check(!op_is_wanted(op) && TAILQ_EMPTY(&op->late) && !op->order && !op->starting &&
          op->call == 0);
    op_free(core, op);
}

/* ---- Answers and calls --------------------------------------------------------------- */

/* Whoever has waited for a lock has it now, and others wait for its release. So it is answered
 * before the one that has released it. */
static bool is_granted_wait(const struct core_request *request)
{
    return request->op->waits && request->result->status == HF_OK;
}

/* The list that the request is in. */
static struct core_requests *list_of(struct core *core, const struct core_request *request)
{
    if (request->answered)
        return is_granted_wait(request) ? &core->grants : &core->answers;
    return request->late ? &request->op->late : &request->op->requests;
}

static void answer_request(struct core *core, struct core_request *request,
                           const struct core_result *result)
{
    core_timer_clear(&core->timers, &request->limit.timer);
    request->answered = true;
    request->result = result;
    request->op->unanswered++;
    TAILQ_INSERT_TAIL(list_of(core, request), request, link);
}

void op_answer(struct core *core, struct core_op *op, const struct core_result *result)
{
    op->result = *result;
    struct core_request *request;
    while ((request = TAILQ_FIRST(&op->requests))) {
        TAILQ_REMOVE(&op->requests, request, link);
        answer_request(core, request, &op->result);
    }
}

static void answer_late(struct core *core, struct core_request *request)
{
    static const struct core_result over = { .status = HF_TIMEOUT,
                                             .outcome = HF_KEY_WAITING,
                                             .why = "still held by other clients" };
    TAILQ_REMOVE(list_of(core, request), request, link);
    answer_request(core, request, &over);
}

void op_end(struct core *core, struct core_op *op)
{
    check(!op_is_wanted(op) && !op->starting && op->call == 0 && !op->line);
    op->state = OP_ENDED;
    if (op->order)
        core->free_order(op->order);
    op->order = NULL;
    while (!TAILQ_EMPTY(&op->late))
        answer_late(core, TAILQ_FIRST(&op->late));
    memory_keep(core, op);
    op_free_if_unused(core, op);
}

void op_start(struct core *core, struct core_op *op, enum op_state state, enum core_call what)
{
    check(!op->starting && op->call == 0);
    op->state = state;
    op->what = what;
    op->starting = true;
    op->urgent = what != CORE_CALL_ACQUIRE && what != CORE_CALL_BEGIN && !op->reads;
    core->starting++;
    TAILQ_INSERT_TAIL(op->urgent ? &core->urgent : &core->ordinary, op, start_link);
}

bool op_withdraw(struct core *core, struct core_op *op)
{
    if (!op->starting)
        return false;
    op->starting = false;
    core->starting--;
    TAILQ_REMOVE(op->urgent ? &core->urgent : &core->ordinary, op, start_link);
    return true;
}

static struct core_request *first_answered(const struct core *core)
{
    struct core_request *request = TAILQ_FIRST(&core->grants);
    return request ? request : TAILQ_FIRST(&core->answers);
}

static void pop_answer(struct core *core, struct core_action *ret_action)
{
    struct core_request *request = first_answered(core);
    struct core_op *op = request->op;
    TAILQ_REMOVE(list_of(core, request), request, link);
    *ret_action =
        (struct core_action){ .kind = CORE_ANSWER, .request = key_number(request->key) };
    /* The operation may be freed before the caller has read its result. */
    core->told = *request->result;
    ret_action->result = &core->told;
    op->unanswered--;
    request_drop(core, request);
    op_free_if_unused(core, op);
}

static struct core_op *first_to_start(const struct core *core)
{
    struct core_op *op = TAILQ_FIRST(&core->urgent);
    return op ? op : TAILQ_FIRST(&core->ordinary);
}

static bool pop_call(struct core *core, struct core_action *ret_action)
{
    void *old;
    bool full = RULE(CALLS_ARE_BOUNDED) && core->calls.count >= core->limits.calls_max;
    struct core_op *op = first_to_start(core);
    if (!op || full)
        return false;
    uint64_t call = core->last_call + 1;
    /* Without memory, the call starts with a later event. */
    if (!map_put(&core->calls, number_key(call, op->call_key), op, &old))
        return false;
    check(old == NULL);
    op_withdraw(core, op);
    op->call = core->last_call = call;
    *ret_action = (struct core_action){ .kind = CORE_CALL,
                                        .call = call,
                                        .what = op->what,
                                        .order = op->order,
                                        .poll_ms = op->poll_ms };
    return true;
}

bool core_next(struct core *core, struct core_action *ret_action)
{
    if (first_answered(core)) {
        pop_answer(core, ret_action);
        return true;
    }
    return pop_call(core, ret_action);
}

/* ---- Waits --------------------------------------------------------------------------- */

void core_on_wait(struct core *core, void (*waits)(void *argument, uint64_t request),
                  void *argument)
{
    core->report_wait = waits;
    core->report_argument = argument;
}

void op_report_wait(struct core *core, struct core_op *op)
{
    if (op->reported || !core->report_wait)
        return;
    op->reported = true;
    const struct core_request *request;
    TAILQ_FOREACH (request, &op->requests, link)
        core->report_wait(core->report_argument, key_number(request->key));
}

/* ---- Requests ------------------------------------------------------------------------ */

/* A change goes on if its client hangs up, so works that have not begun count as well. */
static bool has_too_many_requests(const struct core *core)
{
    return core->requests.count >= core->limits.requests_max ||
           core->starting >= core->limits.requests_max;
}

static enum hf_status refuse_more_requests(struct hf_error *error)
{
    return error_set(error, HF_UNAVAILABLE, "too many requests are under way; try again later");
}

static struct mono_time start_limit(const struct core *core)
{
    return mono_add(core->now, core->limits.start_max);
}

/* ---- Ends of waits ------------------------------------------------------------------- */

/* A request has left its operation. A work that changes something goes on without it, an acquire
 * does not, and neither does a read that has not begun. */
static void forsake(struct core *core, struct core_op *op)
{
    if (op_is_wanted(op))
        return;
    if (op->is_acquire)
        acquire_abandon(core, op);
    else if (op->reads && op_withdraw(core, op))
        op_end(core, op);
}

/* A request whose wait is over, and which is answered when the place in the store's queue is given
 * up, or a second time limit has passed. */
static void make_late(struct core *core, struct core_request *request)
{
    struct core_op *op = request->op;
    TAILQ_REMOVE(&op->requests, request, link);
    request->late = true;
    TAILQ_INSERT_TAIL(&op->late, request, link);
    core_timer_set(&core->timers, &request->limit.timer,
                   mono_add(core->now, core->limits.leave_max));
}

/* The wait of one request is over. If nobody else wants the acquire, its place is given up before
 * the answer. */
static void end_wait(struct core *core, struct core_request *request)
{
    struct core_op *op = request->op;
    bool is_last = request == TAILQ_FIRST(&op->requests) && !TAILQ_NEXT(request, link);
    if (RULE(TIMEOUT_HAS_NO_PLACE) && is_last && !request->late)
        make_late(core, request);
    else
        answer_late(core, request);
    forsake(core, op);
}

/* A client has repeated its request, and no longer wants to wait: it withdraws all of them. */
static void end_all_waits(struct core *core, struct core_op *op)
{
    while (op_is_wanted(op))
        make_late(core, TAILQ_FIRST(&op->requests));
    forsake(core, op);
}

/* ---- Arrivals ------------------------------------------------------------------------ */

/* A request with the id of an earlier one. */
static enum hf_status join_op(struct core *core, uint64_t number, struct core_op *op,
                              bool is_acquire, uint64_t content, struct mono_time until,
                              void *order, struct hf_error *error)
{
    bool same = op->is_acquire == is_acquire && op->content == content;
    if (RULE(ID_HAS_ONE_CONTENT) && !same)
        return error_set(error, HF_INVALID,
                         "the request id was used for another request; use a new one");
    struct core_request *request = request_make(core, number);
    if (!request)
        return error_no_memory(error);
    request->op = op;
    if (op->state == OP_ENDED) {
        answer_request(core, request, &op->result);
    } else {
        TAILQ_INSERT_TAIL(&op->requests, request, link);
        core_timer_set(&core->timers, &request->limit.timer, until);
        if (op->reported)
            core->report_wait(core->report_argument, number);
    }
    core->free_order(order);
    return error_clear(error);
}

/* A new operation with its first request; NULL if memory runs out. It has not begun. */
static struct core_op *make_op(struct core *core, uint64_t number, struct view resource,
                               const struct core_retry *retry, struct mono_time until,
                               void *order)
{
    struct core_op *op = op_new(core, resource, retry, order);
    if (!op)
        return NULL;
    struct core_request *request = request_make(core, number);
    if (!request || !memory_add(core, op)) {
        if (request)
            request_drop(core, request);
        op_free(core, op);
        return NULL;
    }
    request->op = op;
    TAILQ_INSERT_TAIL(&op->requests, request, link);
    core_timer_set(&core->timers, &request->limit.timer, until);
    return op;
}

/* Takes back an operation that could not begin. Its order is still the caller's. */
static void unmake_op(struct core *core, struct core_op *op)
{
    struct core_request *request = TAILQ_FIRST(&op->requests);
    TAILQ_REMOVE(&op->requests, request, link);
    request_drop(core, request);
    memory_remove(core, op);
    op_free(core, op);
}

enum hf_status core_acquire(struct core *core, uint64_t request,
                            const struct core_wanted *wanted, struct mono_time now,
                            struct hf_error *error)
{
    core->now = now;
    memory_forget(core);
    if (core->stopping)
        return error_set(error, HF_CANCELLED, "the server is stopping");
    if (has_too_many_requests(core))
        return refuse_more_requests(error);
    struct mono_time until = { MOMENT_FAR };
    if (RULE(WAITS_END) && wanted->waits)
        until = wanted->until;
    else if (!wanted->waits)
        until = start_limit(core);
    struct core_op *op = memory_find(core, wanted->retry.id);
    if (op && RULE(RETRY_JOINS)) {
        bool withdraws = RULE(REPEAT_ENDS_THE_WAIT) && !wanted->waits && op->waits;
        enum hf_status status = join_op(core, request, op, /* is_acquire */ true,
                                        wanted->retry.content, until, wanted->order, error);
        core->retries += status == HF_OK;
        if (status == HF_OK && withdraws && op->state != OP_ENDED)
            end_all_waits(core, op);
        return status;
    }
    if (RULE(NO_WAIT_IN_TURN) && !wanted->waits && line_is_wanted(core, wanted->resource))
        return error_set(error, HF_HELD, "others are waiting for it");
    const struct core_retry none = { VIEW(""), 0 };
    op = make_op(core, request, wanted->resource, op ? &none : &wanted->retry, until,
                 wanted->order);
    if (!op)
        return error_no_memory(error);
    op->is_acquire = true;
    op->waits = wanted->waits;
    op->excludes = wanted->excludes;
    if (!op->waits) {
        op_start(core, op, OP_ASKING, CORE_CALL_ACQUIRE);
    } else if (!line_join(core, op)) {
        unmake_op(core, op);
        return error_no_memory(error);
    }
    return error_clear(error);
}

enum hf_status core_work(struct core *core, uint64_t request, const struct core_work *work,
                         struct mono_time now, struct hf_error *error)
{
    core->now = now;
    memory_forget(core);
    if (has_too_many_requests(core))
        return refuse_more_requests(error);
    struct mono_time until = start_limit(core);
    struct core_op *op = memory_find(core, work->retry.id);
    if (op) {
        enum hf_status status = join_op(core, request, op, /* is_acquire */ false,
                                        work->retry.content, until, work->order, error);
        core->retries += status == HF_OK && !work->shared;
        return status;
    }
    op = make_op(core, request, work->resource, &work->retry, until, work->order);
    if (!op)
        return error_no_memory(error);
    op->reads = work->reads;
    op_start(core, op, OP_WORKING, CORE_CALL_WORK);
    if (op->resource.size > 0)
        line_follow(core, op->resource);
    return error_clear(error);
}

/* ---- Other events -------------------------------------------------------------------- */

void core_hang_up(struct core *core, uint64_t number, struct mono_time now)
{
    unsigned char key[8];
    core->now = now;
    struct core_request *request = map_get(&core->requests, number_key(number, key));
    if (!request)
        return;
    struct core_op *op = request->op;
    bool answered = request->answered;
    TAILQ_REMOVE(list_of(core, request), request, link);
    request_drop(core, request);
    if (answered) {
        op->unanswered--;
        op_free_if_unused(core, op);
    } else {
        forsake(core, op);
    }
}

void core_call_ended(struct core *core, uint64_t call, const struct core_result *result,
                     struct mono_time now)
{
    unsigned char key[8];
    core->now = now;
    struct core_op *op = map_take(&core->calls, number_key(call, key));
    check(op && op->call == call);
    op->call = 0;
    if (op->is_acquire) {
        acquire_call_ended(core, op, result);
        return;
    }
    /* The resource is looked up before the operation, which has its name, may be freed. */
    if (op->resource.size > 0)
        line_wake(core, op->resource);
    op_answer(core, op, result);
    op_end(core, op);
}

void core_wake(struct core *core, struct view resource, struct mono_time now)
{
    core->now = now;
    line_wake(core, resource);
}

bool core_has_waiters(const struct core *core)
{
    return core->lines.count > 0;
}

/* Other calls take so long that this one has not begun. All requests of the operation are told that
 * nothing happened. */
static void refuse_to_start(struct core *core, struct core_op *op)
{
    static const struct core_result busy = {
        .status = HF_UNAVAILABLE, .why = "the store is slow to answer; nothing was done"
    };
    if (!op_withdraw(core, op))
        return; /* its call is under way, and ends when the store's own time limits are over */
    memory_remove(core, op);
    op_answer(core, op, &busy);
    op_end(core, op);
}

void core_pass_time(struct core *core, struct mono_time now)
{
    core->now = now;
    memory_forget(core);
    struct core_timer *first = core_timers_first(&core->timers);
    while (first && !mono_before(now, first->due)) {
        struct owned_timer *owned = (struct owned_timer *)(void *)first;
        core_timer_clear(&core->timers, first);
        struct core_request *request = (struct core_request *)(void *)owned;
        if (owned->kind == TIMER_POLL)
            line_poll(core, (struct core_line *)(void *)owned);
        else if (request->op->waits)
            end_wait(core, request);
        else
            refuse_to_start(core, request->op);
        first = core_timers_first(&core->timers);
    }
}

struct mono_time core_wake_at(const struct core *core)
{
    struct mono_time at = { MOMENT_FAR };
    const struct core_timer *first = core_timers_first(&core->timers);
    if (first)
        at = first->due;
    const struct core_op *oldest = TAILQ_FIRST(&core->remembered);
    if (oldest)
        at = mono_earlier(at, mono_add(oldest->ended_at, core->limits.remember_for));
    return at;
}

void core_stop(struct core *core, struct mono_time now)
{
    static const struct core_result stopped = { .status = HF_CANCELLED,
                                                .why = "the server is stopping" };
    core->now = now;
    core->stopping = true;
    struct core_request *request = map_seek(&core->requests, VIEW(""), /* beyond */ false);
    while (request) {
        unsigned char key[8];
        memcpy(key, request->key, sizeof key);
        struct core_op *op = request->op;
        bool ends = op->is_acquire || (op->reads && op->starting);
        if (RULE(STOP_GRANTS_NOTHING) && !request->answered && ends) {
            TAILQ_REMOVE(list_of(core, request), request, link);
            answer_request(core, request, &stopped);
            forsake(core, op);
        }
        request = map_seek(&core->requests, key_view(key), /* beyond */ true);
    }
}

bool core_is_idle(const struct core *core)
{
    return core->requests.count == 0 && core->calls.count == 0 && core->starting == 0;
}

/* ---- The end, counts and checks ------------------------------------------------------ */

void core_free(struct core *core)
{
    if (!core)
        return;
    check(core->calls.count == 0);
    core->stopping = true;
    for (struct core_request *request; (request = map_seek(&core->requests, VIEW(""), false));)
        core_hang_up(core, key_number(request->key), core->now);
    /* What is left are calls that nobody has taken: of works, and of acquires that leave. */
    for (struct core_op *op; (op = first_to_start(core));) {
        op_withdraw(core, op);
        if (op->is_acquire)
            acquire_leave(core, op);
        else
            op_end(core, op);
    }
    memory_clear(core);
    check(core->lines.count == 0 && core->ids.count == 0);
    map_release(&core->requests);
    map_release(&core->calls);
    map_release(&core->lines);
    map_release(&core->ids);
    spare_release(&core->spare_requests);
    spare_release(&core->spare_ops);
    core_timers_release(&core->timers);
    free(core);
}

struct core_counts core_count(const struct core *core)
{
    struct core_counts counts = { .requests = core->requests.count,
                                  .lines = core->lines.count,
                                  .calls = core->calls.count,
                                  .remembered = core->remembered_count,
                                  .retries = core->retries };
    const struct core_line *line = map_seek(&core->lines, VIEW(""), /* beyond */ false);
    while (line) {
        counts.waiting += line->parked_count + op_is_wanted(line->front);
        line = map_seek(&core->lines, line_key(line), /* beyond */ true);
    }
    return counts;
}

static void check_one_line(const struct core_line *line)
{
    size_t parked = 0;
    const struct core_op *front = line->front;
    check(front && front->line == line && front->is_acquire && front->waits);
    check(front->state != OP_PARKED && front->state != OP_WORKING && front->state != OP_ENDED);
    bool rests = front->state == OP_STANDING || front->state == OP_NEXT;
    check(rests == (line->poll.timer.index > 0));
    check(rests == (!front->starting && front->call == 0));
    const struct core_op *op;
    TAILQ_FOREACH (op, &line->parked, link) {
        check(op->line == line && op->state == OP_PARKED && op_is_wanted(op));
        check(!op->starting && op->call == 0 && op->order);
        parked++;
    }
    check(parked == line->parked_count);
}

void core_check(const struct core *core)
{
    const struct core_line *line = map_seek(&core->lines, VIEW(""), /* beyond */ false);
    while (line) {
        check_one_line(line);
        line = map_seek(&core->lines, line_key(line), /* beyond */ true);
    }
    const struct core_request *request = map_seek(&core->requests, VIEW(""), false);
    while (request) {
        check(request->answered == (request->result != NULL));
        check(request->answered || request->op->state != OP_ENDED);
        request = map_seek(&core->requests, key_view(request->key), /* beyond */ true);
    }
    check(core->timers.reserved == core->requests.count + core->lines.count);
}
