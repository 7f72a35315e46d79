/* SPDX-License-Identifier: Apache-2.0 */
/* net.c: the path of a request.
 *
 *     sent ---> arrives, takes effect ---> the reply arrives
 *
 * All faults of a request are drawn when it is sent, in a fixed order; only the delay and the date
 * of the reply are drawn later. The answer timer is always set, initially to the timeout. Every
 * request therefore ends for its node, regardless of what happens to it at the store. */
#include "sim/world/net.h"

#include "base/check.h"
#include "base/parse.h"
#include "sim/workloads/draw.h"
#include "sim/world/profile.h"
#include "sim/world/request.h"
#include "sim/world/session.h"

#include <inttypes.h>
#include <stdlib.h>

/* The cache between one node and the store, and the age of its replies. */
struct cache {
    int64_t until_us;
    int64_t age_us;
};

struct net {
    struct world *world;
    struct bucket *bucket;
    struct sessions *sessions;
    struct net_plan plan;
    uint64_t root;                 /* the root of the requests' random sequences */
    uint64_t calls[NODES_MAX + 1]; /* how many requests each node has made */
    unsigned front_ends;
    struct span skews[FRONT_ENDS_MAX];
    bool cut[NODES_MAX + 1];
    struct cache caches[NODES_MAX + 1];
    struct node_watch watches[NODES_MAX + 1];
    struct request *requests;
    size_t open_count;
    const struct request *applying;  /* the request that takes effect now, or NULL */
    size_t under_way[NODES_MAX + 1]; /* requests for which each node is waiting */
    uint64_t sent;
    bool throttles;
    struct profile_limits *profile_limits;
    int64_t busy_until_us; /* when the store has handled all requests that have arrived */
    struct faults faults;
    struct call_watch watch;
};

#define NET_TRACE(net, ...) trace_line(world_trace((net)->world), __VA_ARGS__)

/* How soon a node notices a broken connection, and how soon a proxy resends a request. */
#define NOTICE_MAX SPAN_MS(200)
#define RESEND_MAX SPAN_S(2)

/* How long a cache keeps replying. */
#define CACHE_MAX SPAN_S(60)

/* During a burst of throttling the store refuses most requests. */
#define BURST_CHANCE 900000

/* ---- Draws --------------------------------------------------------------------------- */

static bool is_write(const struct request *request)
{
    return request->kind == REQUEST_PUT || request->kind == REQUEST_DELETE;
}

static bool is_conditional(const struct request *request)
{
    switch (request->kind) {
    case REQUEST_PUT:
        return request->call.put.condition.kind != CONDITION_ALWAYS && !request->is_step;
    case REQUEST_DELETE: return request->call.remove.condition.kind != CONDITION_ALWAYS;
    case REQUEST_GET:
    case REQUEST_LIST: return false;
    }
    check_unreachable();
}

static struct view key_of(const struct request *request)
{
    switch (request->kind) {
    case REQUEST_GET: return request->call.get.key;
    case REQUEST_PUT: return request->call.put.key;
    case REQUEST_DELETE: return request->call.remove.key;
    case REQUEST_LIST: return request->call.list.prefix;
    }
    check_unreachable();
}

static void tell_fault(struct request *request, enum fault fault)
{
    struct net *net = request->net;
    if (world_trace(net->world)->mode == TRACE_OFF)
        return;
    struct request_text text = request_text(request);
    NET_TRACE(net, "network: %s of node %u %s", text.text, node_number(request->node),
              fault_story(fault));
}

/* Whether this fault affects this request. A probability of zero draws nothing. */
static bool draw_fault(struct request *request, uint32_t chance, enum fault fault)
{
    struct net *net = request->net;
    if (chance == 0 || !prng_chance(&request->prng, chance) ||
        !fault_happens(&net->faults, fault))
        return false;
    net->faults.hits++;
    tell_fault(request, fault);
    return true;
}

static void suffer(struct request *request, enum fault fault)
{
    fault_follows(&request->net->faults, fault);
    tell_fault(request, fault);
}

static int64_t draw_delay(struct request *request)
{
    struct net *net = request->net;
    const struct net_plan *plan = &net->plan;
    int64_t delay =
        plan->profile
            ? profile_draw_us(plan->profile, is_write(request), &request->prng) / 2
            : plan->delay_min.us +
                  draw_up_to(&request->prng, SPAN_US(plan->delay_max.us - plan->delay_min.us));
    if (draw_fault(request, plan->slow_chance, NET_SLOW))
        delay += draw_of_any_size(&request->prng, plan->slow_max);
    return delay;
}

/* ---- Records ------------------------------------------------------------------------- */

/* Each request of each node has its own random sequence, so what happens to one request does
 * not change the others. */
static struct prng sequence_of_next(struct net *net, const struct node *node)
{
    unsigned number = node_number(node);
    uint64_t place = ((uint64_t)number << 48) + ++net->calls[number];
    struct prng of_place = prng_seeded(net->root + place);
    return prng_seeded(prng_next(&of_place));
}

struct request *request_new(struct net *net, struct node *node, enum request_kind kind,
                            size_t room)
{
    struct request *request = malloc(sizeof *request + room);
    check(request);
    *request = (struct request){ 0 }; /* without clearing the buffer, which may be large */
    request->net = net;
    request->node = node;
    request->kind = kind;
    request->room = room;
    request->number = ++net->sent;
    request->prng = sequence_of_next(net, node);
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
    free(request->more);
    net->open_count--;
    free(request);
}

/* Frees a request that no node is waiting for and that is no longer in flight. */
static void free_if_over(struct request *request)
{
    if (!request->client && !timer_is_set(&request->arrival) &&
        !timer_is_set(&request->second_arrival) && !timer_is_set(&request->answer))
        request_free(request);
}

/* Called when the node has a result or is no longer waiting. */
static void leave_way(struct request *request)
{
    if (request->is_under_way)
        request->net->under_way[node_number(request->node)]--;
    request->is_under_way = false;
}

void request_let_go(struct request *request)
{
    leave_way(request);
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
        return (struct request_text){ "" }; /* nothing is traced, and formatting is slow */
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
    leave_way(request);
    if (request->client)
        task_wake(request->client);
    free_if_over(request);
}

/* Injects a fault as the reply arrives. Returns true if the node crashed; the request may then have
 * been freed. */
static bool strike_at_answer(struct request *request)
{
    const struct call_watch *watch = &request->net->watch;
    return watch->at && request->client &&
           watch->at(watch->argument, request->node, CALL_ANSWERED, request->number);
}

static void ring_answer(void *argument)
{
    struct request *request = argument;
    enum request_end end = request->reply;
    if (end != END_SILENCE && request->net->cut[node_number(request->node)]) {
        suffer(request, NET_PARTITIONED);
        request->reply = END_SILENCE;
        world_set_timer(request->net->world, &request->answer, request->timeout_us, ring_answer,
                        request);
        return;
    }
    if (end != END_SILENCE && node_is_suspended(request->node)) {
        suffer(request, NET_SLEPT_THROUGH);
        end = END_SILENCE;
    }
    if (end != END_SILENCE && strike_at_answer(request))
        return;
    end_request(request, end);
}

static void answer_at(struct request *request, int64_t due_us, enum request_end end)
{
    bool in_time = due_us < request->timeout_us;
    request->answer_decided = true;
    request->reply = in_time ? end : END_SILENCE;
    world_set_timer(request->net->world, &request->answer,
                    in_time ? due_us : request->timeout_us, ring_answer, request);
}

static void answer_in(struct request *request, int64_t delay_us, enum request_end end)
{
    answer_at(request, world_now_us(request->net->world) + delay_us, end);
}

/* No reply will arrive. The node notices this immediately or at its timeout. */
static void answer_never(struct request *request)
{
    if (request->noticed)
        answer_in(request, draw_up_to(&request->prng, NOTICE_MAX), END_SILENCE);
    else
        answer_at(request, request->timeout_us, END_SILENCE);
}

/* ---- At the store -------------------------------------------------------------------- */

static void ring_arrival(void *argument);

/* Copies the entries and names into the request's memory. */
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
        bucket_put_together(bucket, &request->call.put, request->more, request->more_count);
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

/* A cache between a node and the store replies only to reads. Once it has started, it keeps
 * replying for a while. */
static bool is_cached(struct request *request)
{
    struct net *net = request->net;
    struct cache *cache = &net->caches[node_number(request->node)];
    int64_t now_us = world_now_us(net->world);
    if (is_write(request) || net->plan.cached_date_chance == 0)
        return false;
    if (now_us < cache->until_us)
        return true;
    if (!draw_fault(request, net->plan.cached_date_chance, NET_CACHED_DATE))
        return false;
    cache->until_us = now_us + draw_of_any_size(&request->prng, CACHE_MAX);
    cache->age_us = draw_of_any_size(&request->prng, net->plan.stale_max);
    return true;
}

static void stamp(struct request *request)
{
    struct net *net = request->net;
    request->date = bucket_date(net->bucket, request->skew);
    request->cached = is_cached(request);
    int64_t age = 0;
    if (request->cached)
        age = net->caches[node_number(request->node)].age_us;
    else if (draw_fault(request, net->plan.lying_date_chance, NET_LYING_DATE))
        age = draw_of_any_size(&request->prng, net->plan.stale_max);
    request->date.us -= age - age % 1000000;
}

static void refuse(struct request *request)
{
    struct hf_error *error =
        request->kind == REQUEST_PUT ? &request->call.put.error : &request->call.remove.error;
    error_set(error, HF_CONFLICT, "another write of the object is under way");
}

static void do_it(struct request *request)
{
    struct net *net = request->net;
    net->applying = request;
    enum hf_status status = apply(request);
    net->applying = NULL;
    if (net->plan.profile && status == HF_OK && is_conditional(request))
        profile_wrote(net->profile_limits, key_of(request), world_now_us(net->world));
    if (world_trace(net->world)->mode == TRACE_OFF)
        return;
    struct request_text text = request_text(request);
    bool wrote = request->kind == REQUEST_PUT && status == HF_OK;
    struct trace_text etag = trace_text(wrote ? etag_view(&request->call.put.etag) : VIEW(""));
    NET_TRACE(net, "store: %s of node %u -> %s%s%s", text.text, node_number(request->node),
              hf_status_name(status), wrote ? ", now " : "", etag.text);
}

/* Applies the request at the store. Returns the result that the node gets if the reply arrives. */
static enum request_end meet_fate(struct request *request)
{
    switch (request->fate) {
    case FATE_DONE: do_it(request); return END_REPLY;
    case FATE_DONE_BUT_ERROR: do_it(request); return END_ERROR;
    case FATE_ERROR: return END_ERROR;
    case FATE_THROTTLED: return END_THROTTLED;
    case FATE_REFUSED: refuse(request); return END_REPLY;
    }
    check_unreachable();
}

/* A store that is busy handles a request after those that arrived earlier. Returns false once the
 * request has had its turn. A node that has given up does not make the store work less. */
static bool waits_for_turn(struct request *request)
{
    struct net *net = request->net;
    int64_t now_us = world_now_us(net->world);
    if (net->plan.service.us == 0 || request->queued || request->fate == FATE_THROTTLED)
        return false;
    request->queued = true;
    if (net->busy_until_us < now_us)
        net->busy_until_us = now_us;
    net->busy_until_us += net->plan.service.us;
    world_set_timer(net->world, &request->arrival, net->busy_until_us, ring_arrival, request);
    return true;
}

static void exceed_limit(struct request *request, enum request_fate fate, enum fault fault)
{
    if (fault_happens(&request->net->faults, fault)) {
        request->fate = fate;
        tell_fault(request, fault);
    }
}

/* A store with limits refuses what exceeds them. */
static void obey_profile(struct request *request)
{
    struct net *net = request->net;
    struct profile_request seen = { .key = key_of(request),
                                    .write = is_write(request),
                                    .conditional = is_conditional(request),
                                    .at_us = world_now_us(net->world) };
    if (!net->plan.profile || request->fate != FATE_DONE)
        return;
    switch (profile_admit(net->profile_limits, net->plan.profile, &seen)) {
    case PROFILE_ADMITS: break;
    case PROFILE_THROTTLES: exceed_limit(request, FATE_THROTTLED, NET_THROTTLED); break;
    case PROFILE_REFUSES: exceed_limit(request, FATE_REFUSED, NET_REFUSED); break;
    }
}

static void ring_arrival(void *argument)
{
    struct request *request = argument;
    if (waits_for_turn(request))
        return;
    obey_profile(request);
    enum request_end end = meet_fate(request);
    stamp(request);
    bool is_first_of_two = timer_is_set(&request->second_arrival);
    if (is_first_of_two || request->answer_decided || request->end != END_PENDING)
        free_if_over(request);
    else if (request->lose_reply)
        answer_never(request);
    else
        answer_in(request, draw_delay(request), end);
}

/* ---- In flight ----------------------------------------------------------------------- */

/* Draws whether the request is lost before it arrives. */
static bool draw_loss(struct request *request)
{
    struct net *net = request->net;
    if (!net->cut[node_number(request->node)])
        return draw_fault(request, net->plan.request_lost_chance, NET_REQUEST_LOST);
    suffer(request, NET_PARTITIONED);
    return true;
}

static enum request_fate draw_fate(struct request *request)
{
    const struct net_plan *plan = &request->net->plan;
    uint32_t throttle_chance = request->net->throttles ? BURST_CHANCE : plan->throttle_chance;
    if (draw_fault(request, throttle_chance, NET_THROTTLED))
        return FATE_THROTTLED;
    if (draw_fault(request, plan->busy_chance, NET_BUSY) ||
        draw_fault(request, plan->error_chance, NET_ERROR_UNDONE))
        return FATE_ERROR;
    if (is_write(request) && draw_fault(request, plan->error_done_chance, NET_ERROR_DONE))
        return FATE_DONE_BUT_ERROR;
    if (is_conditional(request) && draw_fault(request, plan->refuse_chance, NET_REFUSED))
        return FATE_REFUSED;
    return FATE_DONE;
}

/* Draws whether the node gets no reply and the write reaches the store late. Returns how much later
 * than normal; 0 if it is not late. */
static int64_t draw_lateness(struct request *request)
{
    const struct net_plan *plan = &request->net->plan;
    if (!is_write(request) || !draw_fault(request, plan->late_chance, NET_LATE_APPLY))
        return 0;
    answer_never(request);
    return draw_of_any_size(&request->prng, plan->late_max);
}

static void start_journey(struct request *request)
{
    struct net *net = request->net;
    const struct net_plan *plan = &net->plan;
    int64_t arrival = world_now_us(net->world) + draw_delay(request);
    size_t front_end = net->front_ends > 1 ? prng_below(&request->prng, net->front_ends) : 0;
    request->skew = net->skews[front_end];
    request->noticed =
        plan->reset_chance > 0 && prng_chance(&request->prng, plan->reset_chance);
    if (draw_loss(request)) {
        answer_never(request);
        return;
    }
    request->fate = draw_fate(request);
    if (request->fate == FATE_DONE)
        arrival += draw_lateness(request);
    world_set_timer(net->world, &request->arrival, arrival, ring_arrival, request);
    request->lose_reply = draw_fault(request, plan->reply_lost_chance, NET_REPLY_LOST);
    if (request->fate == FATE_DONE && is_write(request) &&
        draw_fault(request, plan->resend_chance, NET_RESENT))
        world_set_timer(net->world, &request->second_arrival,
                        arrival + 1 + draw_up_to(&request->prng, RESEND_MAX), ring_arrival,
                        request);
}

/* The deadline of a call, in true time. If the deadline is distant or absent, the store's own
 * timeout applies: a client waits no longer than this for a server that does not reply. */
static int64_t timeout_of(const struct request *request, struct mono_time deadline)
{
    struct mono_time until = deadline;
    if (deadline.us == 0 || deadline.us >= MOMENT_FAR)
        until = mono_add(node_moment(request->node, world_now_us(request->net->world)),
                         SPAN_MS(STORE_TIMEOUT_MS));
    return node_true_time(request->node, until);
}

static void begin_request(struct request *request, struct mono_time deadline)
{
    struct net *net = request->net;
    request->timeout_us = timeout_of(request, deadline);
    request->life = node_lives(request->node);
    request->sent_us = world_now_us(net->world);
    request->reply = END_SILENCE;
    request->is_under_way = true;
    net->under_way[node_number(request->node)]++;
    world_set_timer(net->world, &request->answer, request->timeout_us, ring_answer, request);
}

static void tell_left(struct request *request)
{
    const struct call_watch *watch = &request->net->watch;
    if (watch->at)
        watch->at(watch->argument, request->node, CALL_LEFT, request->number);
}

void request_send(struct request *request, struct mono_time deadline)
{
    begin_request(request, deadline);
    start_journey(request);
    tell_left(request);
}

void request_step(struct request *request, struct mono_time deadline)
{
    const struct net_plan *plan = &request->net->plan;
    request->is_step = true;
    begin_request(request, deadline);
    request->fate = draw_fate(request);
    request->lose_reply = draw_fault(request, plan->reply_lost_chance, NET_REPLY_LOST);
    ring_arrival(request);
    tell_left(request);
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
    net->sessions = sessions_new(world);
    net->profile_limits = profile_limits_new();
    struct prng prng = world_stream(world, STREAM_NETWORK);
    net->root = prng_next(&prng);
    net->faults.limits = options->limits;
    net->front_ends = options->front_ends;
    for (unsigned i = 0; i < net->front_ends; i++)
        net->skews[i] = draw_either_way(&prng, options->skew_max);
    net_set_plan(net, &options->plan);
    return net;
}

void net_free(struct net *net)
{
    while (net->requests)
        request_free(net->requests);
    bucket_free(net->bucket);
    sessions_free(net->sessions);
    profile_limits_free(net->profile_limits);
    free(net);
}

struct bucket *net_bucket(struct net *net)
{
    return net->bucket;
}

struct sessions *net_sessions(struct net *net)
{
    return net->sessions;
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

void net_throttle(struct net *net, bool throttles)
{
    if (net->throttles != throttles)
        NET_TRACE(net, "store: %s",
                  throttles ? "throttles nearly everybody from now on"
                            : "throttles no more than usual again");
    net->throttles = throttles;
}

struct faults *net_faults(struct net *net)
{
    return &net->faults;
}

bool net_is_busy(const struct net *net, const struct node *node)
{
    return net->under_way[node_number(node)] > 0;
}

void net_set_call_watch(struct net *net, const struct call_watch *watch)
{
    net->watch = *watch;
}

void net_decided(struct net *net, struct node *node)
{
    if (net->watch.at)
        net->watch.at(net->watch.argument, node, CALL_DECIDED, /* number */ 0);
}

uint64_t net_request_count(const struct net *net)
{
    return net->sent;
}

struct net_sender net_sender(const struct net *net)
{
    const struct request *request = net->applying;
    return request ? (struct net_sender){ request->node, request->life, request->sent_us }
                   : (struct net_sender){ .node = NULL };
}

size_t net_open_requests(const struct net *net)
{
    return net->open_count;
}

bool net_repeats_write(const struct net *net)
{
    for (const struct request *request = net->requests; request; request = request->next)
        if (!timer_is_set(&request->arrival) && timer_is_set(&request->second_arrival))
            return true;
    return false;
}

/* When the node's process ends, its requests no longer have a waiting node. */
void net_attach(struct net *net, struct node *node)
{
    struct node_watch *watch = &net->watches[node_number(node)];
    if (watch->ended)
        return;
    *watch = (struct node_watch){ .ended = forget_node, .argument = net };
    node_add_watch(node, watch);
}
