/* net.c: the journey of a request.
 *
 *     sent ---> arrives, takes effect ---> the reply arrives
 *
 * All that may go wrong is drawn when it is sent, in one fixed order, except the delay of the
 * reply. An answer timer is always set, to the time-out at first, so every request ends for its
 * node whatever becomes of it at the store. */
#include "sim/net.h"

#include "base/check.h"
#include "base/parse.h"
#include "sim/request.h"

#include <inttypes.h>
#include <stdlib.h>

struct net {
    struct world *world;
    struct bucket *bucket;
    struct net_plan plan;
    struct prng prng;
    unsigned front_ends;
    struct span skews[FRONT_ENDS_MAX];
    bool cut[NODES_MAX + 1];
    struct node_watch watches[NODES_MAX + 1];
    struct request *requests;
    size_t open_count;
    uint64_t sent;
    uint64_t faults[NET_FAULT_COUNT];
};

#define NET_TRACE(net, ...) \
    trace_line(world_trace((net)->world), world_now_us((net)->world), __VA_ARGS__)

/* How soon a broken connection is noticed, and how soon a proxy sends again. */
#define NOTICE_MAX SPAN_MS(200)
#define RESEND_MAX SPAN_S(2)

const char *net_fault_text(enum net_fault fault)
{
#define NET_FAULT_TEXT_(name, count, one) count,
    static const char *const texts[] = { NET_FAULT_TABLE(NET_FAULT_TEXT_) };
#undef NET_FAULT_TEXT_
    check(fault < NET_FAULT_COUNT);
    return texts[fault];
}

/* ---- Draws --------------------------------------------------------------------------- */

/* In [0, limit]. */
static int64_t draw_up_to(struct net *net, struct span limit)
{
    return (int64_t)prng_below(&net->prng, (uint64_t)limit.us + 1);
}

static void count_fault(struct request *request, enum net_fault fault)
{
    struct net *net = request->net;
#define NET_FAULT_ONE_(name, count, one) one,
    static const char *const stories[] = { NET_FAULT_TABLE(NET_FAULT_ONE_) };
#undef NET_FAULT_ONE_
    net->faults[fault]++;
    NET_TRACE(net, "network: #%" PRIu64 " of node %u %s", request->number,
              node_number(request->node), stories[fault]);
}

/* Whether this fault hits this request. Chances of zero draw nothing. */
static bool draw_fault(struct request *request, uint32_t chance, enum net_fault fault)
{
    if (chance == 0 || !prng_chance(&request->net->prng, chance))
        return false;
    count_fault(request, fault);
    return true;
}

static int64_t draw_delay(struct request *request)
{
    struct net *net = request->net;
    const struct net_plan *plan = &net->plan;
    int64_t delay =
        plan->delay_min.us + draw_up_to(net, SPAN_US(plan->delay_max.us - plan->delay_min.us));
    if (draw_fault(request, plan->slow_chance, NET_SLOW))
        delay += draw_up_to(net, plan->slow_max);
    return delay;
}

/* ---- Records ------------------------------------------------------------------------- */

struct request *request_new(struct net *net, struct node *node, enum request_kind kind,
                            size_t room)
{
    struct request *request = calloc(1, sizeof *request + room);
    check(request);
    request->net = net;
    request->node = node;
    request->kind = kind;
    request->room = room;
    request->number = ++net->sent;
    request->client = world_running(net->world);
    request->next = net->requests;
    if (net->requests)
        net->requests->previous = request;
    net->requests = request;
    net->open_count++;
    return request;
}

struct view request_keep(struct request *request, struct view bytes)
{
    check(bytes.size <= request->room - request->used);
    char *copy = request->space + request->used;
    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    request->used += bytes.size;
    return (struct view){ copy, bytes.size };
}

static void request_free(struct request *request)
{
    struct net *net = request->net;
    world_cancel_timer(net->world, &request->arrival);
    world_cancel_timer(net->world, &request->second_arrival);
    world_cancel_timer(net->world, &request->answer);
    if (request->previous)
        request->previous->next = request->next;
    else
        net->requests = request->next;
    if (request->next)
        request->next->previous = request->previous;
    if (request->kind == REQUEST_LIST)
        arena_release(&request->call.list.arena);
    buffer_release(&request->body);
    net->open_count--;
    free(request);
}

/* Nobody waits for it, and nothing of it is under way. */
static void free_if_over(struct request *request)
{
    if (!request->client && !timer_is_set(&request->arrival) &&
        !timer_is_set(&request->second_arrival) && !timer_is_set(&request->answer))
        request_free(request);
}

void request_let_go(struct request *request)
{
    request->client = NULL;
    free_if_over(request);
}

static void forget_node(void *argument, struct node *node)
{
    struct net *net = argument;
    struct request *next;
    for (struct request *request = net->requests; request; request = next) {
        next = request->next;
        if (request->node == node)
            request_let_go(request);
    }
}

static const char *condition_word(const struct condition *condition)
{
    switch (condition->kind) {
    case CONDITION_ALWAYS: return "";
    case CONDITION_ABSENT: return " if-absent";
    case CONDITION_MATCH: return " if-match ";
    }
    check_unreachable();
}

struct request_text request_text(const struct request *request)
{
    const struct view none = VIEW("");
    struct view name = none, etag = none;
    const char *verb = "", *condition = "";
    if (world_trace(request->net->world)->mode == TRACE_OFF)
        return (struct request_text){ "" }; /* nobody reads it, and it takes its time */
    switch (request->kind) {
    case REQUEST_GET:
        verb = "get";
        name = request->call.get.key;
        etag = etag_view(&request->call.get.none_match);
        condition = etag.size > 0 ? " if-none-match " : "";
        break;
    case REQUEST_PUT:
        verb = "put";
        name = request->call.put.key;
        etag = etag_view(&request->call.put.condition.etag);
        condition = condition_word(&request->call.put.condition);
        break;
    case REQUEST_DELETE:
        verb = "delete";
        name = request->call.remove.key;
        etag = etag_view(&request->call.remove.condition.etag);
        condition = condition_word(&request->call.remove.condition);
        break;
    case REQUEST_LIST:
        verb = "list";
        name = request->call.list.prefix;
        break;
    }
    struct request_text result;
    struct trace_text name_text = trace_text(name), etag_text = trace_text(etag);
    snprintf(result.text, sizeof result.text, "%s %s%s%s (#%" PRIu64 ")", verb, name_text.text,
             condition, etag_text.text, request->number);
    return result;
}

/* ---- The end, as the node sees it ---------------------------------------------------- */

static void end_request(struct request *request, enum request_end end)
{
    request->end = end;
    if (request->client)
        task_wake(request->client);
    free_if_over(request);
}

static void ring_answer(void *argument)
{
    struct request *request = argument;
    enum request_end end = request->reply;
    if (end != END_SILENCE && request->net->cut[node_number(request->node)]) {
        count_fault(request, NET_PARTITIONED);
        request->reply = END_SILENCE;
        world_set_timer(request->net->world, &request->answer, request->timeout_us, ring_answer,
                        request);
        return;
    }
    if (end != END_SILENCE && node_is_suspended(request->node)) {
        count_fault(request, NET_SLEPT_THROUGH);
        end = END_SILENCE;
    }
    end_request(request, end);
}

static void answer_in(struct request *request, int64_t delay_us, enum request_end end)
{
    int64_t due = world_now_us(request->net->world) + delay_us;
    if (due >= request->timeout_us) {
        due = request->timeout_us;
        end = END_SILENCE;
    }
    request->answer_decided = true;
    request->reply = end;
    world_set_timer(request->net->world, &request->answer, due, ring_answer, request);
}

/* No reply will come; the node finds out at once or by its time-out. */
static void answer_never(struct request *request)
{
    int64_t delay =
        request->noticed ? draw_up_to(request->net, NOTICE_MAX) : request->timeout_us;
    answer_in(request, delay, END_SILENCE);
}

/* ---- At the store -------------------------------------------------------------------- */

/* Entries and names go into the memory of the request. */
static void apply_list(struct bucket *bucket, struct list_call *call)
{
    arena_release(&call->arena);
    call->entries = arena_take(&call->arena, call->max * sizeof *call->entries);
    check(call->entries);
    call->count = 0;
    call->more = false;
    error_clear(&call->error);
    bucket_list(bucket, call);
}

static enum hf_status apply(struct request *request)
{
    struct bucket *bucket = request->net->bucket;
    switch (request->kind) {
    case REQUEST_GET:
        bucket_get(bucket, &request->call.get);
        return request->call.get.error.status;
    case REQUEST_PUT:
        bucket_put(bucket, &request->call.put);
        return request->call.put.error.status;
    case REQUEST_DELETE:
        bucket_delete(bucket, &request->call.remove);
        return request->call.remove.error.status;
    case REQUEST_LIST:
        apply_list(bucket, &request->call.list);
        return request->call.list.error.status;
    }
    check_unreachable();
}

static void stamp(struct request *request)
{
    struct net *net = request->net;
    request->date = bucket_date(net->bucket, request->skew);
    if (draw_fault(request, net->plan.stale_date_chance, NET_STALE_DATE)) {
        int64_t age = draw_up_to(net, net->plan.stale_max);
        request->date.us -= age - age % 1000000;
    }
}

static void ring_arrival(void *argument)
{
    struct request *request = argument;
    struct net *net = request->net;
    enum hf_status status = apply(request);
    struct request_text text = request_text(request);
    NET_TRACE(net, "store: %s of node %u -> %s", text.text, node_number(request->node),
              hf_status_name(status));
    stamp(request);
    bool is_first_of_two = timer_is_set(&request->second_arrival);
    if (is_first_of_two || request->answer_decided || request->end != END_PENDING)
        free_if_over(request);
    else if (request->lose_reply)
        answer_never(request);
    else
        answer_in(request, draw_delay(request), END_REPLY);
}

/* ---- On its way ---------------------------------------------------------------------- */

static bool is_write(const struct request *request)
{
    return request->kind == REQUEST_PUT || request->kind == REQUEST_DELETE;
}

/* The request never arrives. */
static bool draw_loss(struct request *request)
{
    struct net *net = request->net;
    if (!net->cut[node_number(request->node)])
        return draw_fault(request, net->plan.request_lost_chance, NET_REQUEST_LOST);
    count_fault(request, NET_PARTITIONED);
    return true;
}

static void start_journey(struct request *request)
{
    struct net *net = request->net;
    const struct net_plan *plan = &net->plan;
    int64_t now = world_now_us(net->world);
    int64_t delay = draw_delay(request);
    request->skew = net->skews[prng_below(&net->prng, net->front_ends)];
    request->noticed = prng_chance(&net->prng, plan->reset_chance);
    if (draw_loss(request)) {
        answer_never(request);
        return;
    }
    if (draw_fault(request, plan->throttle_chance, NET_THROTTLED)) {
        answer_in(request, delay, END_THROTTLED);
        return;
    }
    bool late = is_write(request) && draw_fault(request, plan->late_chance, NET_LATE_APPLY);
    if (late) {
        delay += draw_up_to(net, plan->late_max);
        answer_never(request);
    }
    world_set_timer(net->world, &request->arrival, now + delay, ring_arrival, request);
    request->lose_reply = draw_fault(request, plan->reply_lost_chance, NET_REPLY_LOST);
    if (is_write(request) && draw_fault(request, plan->resend_chance, NET_RESENT))
        world_set_timer(net->world, &request->second_arrival,
                        now + delay + 1 + draw_up_to(net, RESEND_MAX), ring_arrival, request);
}

void request_send(struct request *request, struct mono_time deadline)
{
    struct net *net = request->net;
    struct mono_time until = deadline;
    if (deadline.us == 0 || deadline.us >= MOMENT_FAR)
        until = mono_add(node_moment(request->node, world_now_us(net->world)),
                         SPAN_MS(STORE_TIMEOUT_MS));
    request->timeout_us = node_true_time(request->node, until);
    request->reply = END_SILENCE;
    world_set_timer(net->world, &request->answer, request->timeout_us, ring_answer, request);
    start_journey(request);
}

void request_await(struct request *request)
{
    while (request->end == END_PENDING)
        task_wait(request->net->world, WAIT_REPLY);
}

/* ---- The network as a whole ---------------------------------------------------------- */

struct net *net_new(struct world *world, const struct net_options *options)
{
    check(options->front_ends >= 1 && options->front_ends <= FRONT_ENDS_MAX);
    struct net *net = calloc(1, sizeof *net);
    check(net);
    net->world = world;
    net->bucket = bucket_new(world, &options->bucket);
    net->prng = world_stream(world, STREAM_NETWORK);
    net->front_ends = options->front_ends;
    for (unsigned i = 0; i < net->front_ends; i++)
        net->skews[i].us =
            draw_up_to(net, SPAN_US(2 * options->skew_max.us)) - options->skew_max.us;
    net_set_plan(net, &options->plan);
    return net;
}

void net_free(struct net *net)
{
    while (net->requests)
        request_free(net->requests);
    bucket_free(net->bucket);
    free(net);
}

struct bucket *net_bucket(struct net *net)
{
    return net->bucket;
}

void net_set_plan(struct net *net, const struct net_plan *plan)
{
    check(plan->delay_min.us >= 0 && plan->delay_min.us <= plan->delay_max.us);
    net->plan = *plan;
}

void net_cut(struct net *net, struct node *node, bool cut)
{
    NET_TRACE(net, "network: node %u is %s", node_number(node),
              cut ? "cut off" : "connected again");
    net->cut[node_number(node)] = cut;
}

void net_step_clock(struct net *net, struct span by)
{
    char text[SPAN_TEXT_MAX];
    NET_TRACE(net, "store: its clock steps %s by %s", by.us < 0 ? "back" : "on",
              span_text(SPAN_US(by.us < 0 ? -by.us : by.us), text));
    bucket_step_clock(net->bucket, by);
}

uint64_t net_fault_count(const struct net *net, enum net_fault fault)
{
    check(fault < NET_FAULT_COUNT);
    return net->faults[fault];
}

uint64_t net_request_count(const struct net *net)
{
    return net->sent;
}

size_t net_open_requests(const struct net *net)
{
    return net->open_count;
}

/* Told when a process ends, so that its requests wait for nobody. */
void net_attach(struct net *net, struct node *node)
{
    struct node_watch *watch = &net->watches[node_number(node)];
    if (watch->ended)
        return;
    *watch = (struct node_watch){ .ended = forget_node, .argument = net };
    node_add_watch(node, watch);
}
