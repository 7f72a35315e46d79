/* SPDX-License-Identifier: Apache-2.0 */
/* net_store.c: the store as a node sees it. It turns calls into requests, and the outcomes of
 * requests into results. */
#include "base/check.h"
#include "sim/world/request.h"
#include "sim/world/session.h"
#include "store/stream.h"
#include "store/toolkit.h"

#include <inttypes.h>
#include <stdlib.h>

struct net_store {
    struct store base;
    struct net *net;
    struct node *node;
};

static struct net_store *net_store_of(struct store *store)
{
    return (struct net_store *)store;
}

static void trace_end(const struct net_store *store, const struct request *request,
                      enum hf_status status)
{
    struct world *world = node_world(store->node);
    struct request_text text = request_text(request);
    trace_line(world_trace(world), "node %u: %s is answered %s", node_number(store->node),
               text.text, hf_status_name(status));
}

/* A node does not send a request after its deadline. */
static bool may_send(const struct net_store *store, struct mono_time deadline,
                     struct hf_error *error)
{
    if (deadline.us == 0 || mono_before(env_now(store->base.env), deadline))
        return true;
    error_set(error, HF_UNAVAILABLE, "not sent: the deadline has passed");
    return false;
}

/* Returns OK if the store replied, and otherwise the status of a request without a reply. */
static enum hf_status checker_end(const struct request *request, bool is_write,
                                  struct hf_error *error)
{
    switch (request->end) {
    case END_REPLY: return HF_OK;
    case END_THROTTLED: return error_set(error, HF_UNAVAILABLE, "the store is too busy");
    case END_ERROR:
        return error_set(error, is_write ? HF_UNSURE : HF_UNAVAILABLE,
                         "the store has an error of its own");
    case END_SILENCE:
        return error_set(error, is_write ? HF_UNSURE : HF_UNAVAILABLE,
                         "no answer from the store");
    case END_PENDING: break;
    }
    check_unreachable();
}

static struct store_stamp stamp_of(const struct net_store *store, const struct request *request,
                                   struct mono_time sent)
{
    if (request->end == END_SILENCE || store->base.traits.clock != STORE_CLOCK_DATE)
        return (struct store_stamp){ 0 };
    return (struct store_stamp){
        .known = true,
        .cached = request->cached,
        .date = request->date,
        .sent = sent,
        .received = env_now(store->base.env),
    };
}

/* Other tasks may run, time may pass, and faults may happen between a node's decision and the
 * sending of its request, and between the arrival of a reply and the node's reaction. */
static struct mono_time decide(struct net_store *store)
{
    struct mono_time sent = env_now(store->base.env);
    env_sleep(store->base.env, SPAN_US(0));
    net_decided(store->net, store->node);
    return sent;
}

static void await(struct net_store *store, struct request *request)
{
    request_await(request);
    env_sleep(store->base.env, SPAN_US(0));
}

/* ---- Sending ------------------------------------------------------------------------- */

static struct request *send_get(struct net_store *store, const struct get_call *call)
{
    struct request *request = request_new(store->net, store->node, REQUEST_GET, call->key.size);
    request->call.get = (struct get_call){
        .key = request_keep(request, call->key),
        .none_match = call->none_match,
        .match = call->match,
        .offset = call->offset,
        .length = call->length,
        .body = &request->body,
    };
    request->body = BUFFER_INIT(BODY_BYTES_MAX);
    request_send(request, call->deadline);
    return request;
}

/* Creates a put request without sending it. */
static struct request *new_put(struct net_store *store, struct view key, struct view body,
                               struct condition condition)
{
    struct request *request =
        request_new(store->net, store->node, REQUEST_PUT, key.size + body.size);
    struct view kept_key = request_keep(request, key);
    struct view kept_body = request_keep(request, body);
    request->call.put =
        (struct put_call){ .key = kept_key, .body = kept_body, .condition = condition };
    return request;
}

static struct request *send_put(struct net_store *store, const struct put_call *call)
{
    struct request *request = new_put(store, call->key, call->body, call->condition);
    request_send(request, call->deadline);
    return request;
}

static struct request *send_delete(struct net_store *store, const struct delete_call *call)
{
    struct request *request =
        request_new(store->net, store->node, REQUEST_DELETE, call->key.size);
    request->call.remove = (struct delete_call){ .key = request_keep(request, call->key),
                                                 .condition = call->condition };
    request_send(request, call->deadline);
    return request;
}

static struct request *send_list(struct net_store *store, const struct list_call *call)
{
    struct request *request =
        request_new(store->net, store->node, REQUEST_LIST,
                    call->prefix.size + call->after.size + call->delimiter.size);
    struct view prefix = request_keep(request, call->prefix);
    struct view after = request_keep(request, call->after);
    struct view delimiter = request_keep(request, call->delimiter);
    request->call.list = (struct list_call){
        .prefix = prefix,
        .after = after,
        .max = call->max,
        .delimiter = delimiter,
    };
    request_send(request, call->deadline);
    return request;
}

/* ---- Results ------------------------------------------------------------------------- */

static void take_get(struct net_store *store, struct get_call *call, struct request *request,
                     struct mono_time sent)
{
    if (checker_end(request, /* is_write */ false, &call->error) == HF_OK) {
        call->info = request->call.get.info;
        call->error = request->call.get.error;
        if (call->error.status == HF_OK)
            get_append(call, buffer_view(&request->body));
    }
    call->stamp = stamp_of(store, request, sent);
    trace_end(store, request, call->error.status);
}

static void take_put(struct net_store *store, struct put_call *call, struct request *request,
                     struct mono_time sent)
{
    if (checker_end(request, /* is_write */ true, &call->error) == HF_OK) {
        call->etag = request->call.put.etag;
        call->error = request->call.put.error;
    }
    call->stamp = stamp_of(store, request, sent);
    trace_end(store, request, call->error.status);
}

static void take_delete(struct net_store *store, struct delete_call *call,
                        struct request *request, struct mono_time sent)
{
    if (checker_end(request, /* is_write */ true, &call->error) == HF_OK)
        call->error = request->call.remove.error;
    call->stamp = stamp_of(store, request, sent);
    trace_end(store, request, call->error.status);
}

/* Copies the entries into the node's own memory. */
static void copy_entries(struct list_call *call, const struct list_call *from)
{
    for (size_t i = 0; i < from->count; i++) {
        struct view key = arena_copy(&call->arena, from->entries[i].key);
        if (!key.data) {
            error_no_memory(&call->error);
            return;
        }
        call->entries[call->count] = from->entries[i];
        call->entries[call->count++].key = key;
    }
    call->more = from->more;
}

static void take_list(struct net_store *store, struct list_call *call, struct request *request,
                      struct mono_time sent)
{
    if (checker_end(request, /* is_write */ false, &call->error) == HF_OK) {
        call->error = request->call.list.error;
        copy_entries(call, &request->call.list);
    }
    call->stamp = stamp_of(store, request, sent);
    trace_end(store, request, call->error.status);
}

/* ---- The calls ----------------------------------------------------------------------- */

/* All requests of a batch are sent together, and then awaited one by one. The three functions
 * differ only in their types. */
#define DEFINE_MANY(verb)                                                               \
    static void net_##verb(struct store *base, struct verb##_call *calls, size_t count) \
    {                                                                                   \
        struct net_store *store = net_store_of(base);                                   \
        struct mono_time sent = decide(store);                                          \
        struct request *first = NULL, **last = &first;                                  \
        struct heap *before = heap_enter(NULL);                                         \
        for (size_t i = 0; i < count; i++)                                              \
            if (may_send(store, calls[i].deadline, &calls[i].error)) {                  \
                *last = send_##verb(store, &calls[i]);                                  \
                (*last)->place_in_call = i;                                             \
                last = &(*last)->next_of_call;                                          \
            }                                                                           \
        heap_enter(before);                                                             \
        while (first) {                                                                 \
            struct request *request = first;                                            \
            first = request->next_of_call;                                              \
            await(store, request);                                                      \
            take_##verb(store, &calls[request->place_in_call], request, sent);          \
            request_let_go(request);                                                    \
        }                                                                               \
    }

DEFINE_MANY(get)
DEFINE_MANY(put)
DEFINE_MANY(delete)

static void net_list(struct store *base, struct list_call *call)
{
    struct net_store *store = net_store_of(base);
    if (!may_send(store, call->deadline, &call->error))
        return;
    struct mono_time sent = decide(store);
    struct heap *before = heap_enter(NULL);
    struct request *request = send_list(store, call);
    heap_enter(before);
    await(store, request);
    take_list(store, call, request, sent);
    request_let_go(request);
}

/* Passes the object to the decision function as a copy in the node's memory, because the function
 * may yield to other tasks. Returns false if memory runs out. */
static bool show_object(struct net_store *store, struct change_call *call,
                        struct etag *ret_etag, struct view *ret_bytes)
{
    const struct bucket *bucket = net_bucket(store->net);
    struct buffer copy = BUFFER_INIT(BODY_BYTES_MAX);
    struct view body = { NULL, 0 };
    *ret_etag = bucket_etag(bucket, call->key);
    if (call->ready.data && etag_equal(ret_etag, &call->known)) {
        *ret_bytes = call->ready;
        return true;
    }
    if (ret_etag->size > 0 && !etag_equal(ret_etag, &call->known)) {
        if (!buffer_reserve(&copy, 1) || !buffer_append(&copy, bucket_peek(bucket, call->key)))
            return false;
        body = buffer_view(&copy);
    }
    *ret_bytes = call->decide(call->argument, ret_etag, body);
    buffer_release(&copy);
    return true;
}

/* What was decided about one object. */
struct decision {
    struct etag etag; /* of the version that was shown */
    struct view bytes;
};

static bool is_outdated(const struct net_store *store, const struct change_call *call,
                        const struct decision *decision)
{
    struct etag now = bucket_etag(net_bucket(store->net), call->key);
    return !etag_equal(&decision->etag, &now);
}

/* Decides about the objects as they are now. If the decision function yielded and another task
 * changed an object, all are decided again. Returns false if memory runs out. */
static bool decide_all(struct net_store *store, struct change_call *calls, size_t count,
                       struct decision *decisions)
{
    bool again = true;
    while (again) {
        again = false;
        for (size_t i = 0; i < count; i++)
            if (!show_object(store, &calls[i], &decisions[i].etag, &decisions[i].bytes))
                return false;
        for (size_t i = 0; i < count; i++)
            again = again || ((count > 1 || decisions[i].bytes.data) &&
                              is_outdated(store, &calls[i], &decisions[i]));
    }
    return true;
}

static struct put_call step_put(struct request *request, struct view key,
                                const struct decision *decision)
{
    const struct etag *etag = &decision->etag;
    return (struct put_call){ .key = request_keep(request, key),
                              .body = request_keep(request, decision->bytes),
                              .condition = etag->size > 0 ? if_match(etag) : if_absent() };
}

/* Sends all puts as one request, which takes effect as a whole. NULL: there is nothing to write. */
static struct request *send_step(struct net_store *store, const struct change_call *calls,
                                 size_t count, const struct decision *decisions)
{
    size_t room = 0, puts = 0;
    for (size_t i = 0; i < count; i++) {
        if (calls[i].refused && count > 1)
            return NULL;
        room += calls[i].key.size + decisions[i].bytes.size;
        puts += decisions[i].bytes.data != NULL;
    }
    if (puts == 0)
        return NULL;
    struct heap *before = heap_enter(NULL);
    struct request *request = request_new(store->net, store->node, REQUEST_PUT, room);
    request->more = calloc(puts, sizeof *request->more);
    check(request->more);
    for (size_t i = 0, first = 1; i < count; i++) {
        if (!decisions[i].bytes.data)
            continue;
        struct put_call put = step_put(request, calls[i].key, &decisions[i]);
        if (first)
            request->call.put = put;
        else
            request->more[request->more_count++] = put;
        first = 0;
    }
    request_step(request, calls[0].deadline);
    heap_enter(before);
    return request;
}

/* Copies the results. All calls have the status of the request. */
static void take_step(struct net_store *store, struct change_call *calls, size_t count,
                      const struct decision *decisions, struct request *request,
                      struct mono_time sent)
{
    struct put_call put = { .key = calls[0].key };
    size_t more = 0;
    bool first = true;
    take_put(store, &put, request, sent);
    for (size_t i = 0; i < count; i++) {
        calls[i].error = put.error;
        calls[i].stamp = put.stamp;
        if (!decisions[i].bytes.data)
            continue;
        calls[i].wrote = put.error.status == HF_OK;
        calls[i].etag = first ? put.etag : request->more[more++].etag;
        first = false;
    }
}

/* Reads and writes objects in one step: the decision about the current objects takes effect
 * immediately, for all of them or for none. */
static void net_change_together(struct store *base, struct change_call *calls, size_t count)
{
    struct net_store *store = net_store_of(base);
    struct decision decisions[TOGETHER_MAX];
    struct mono_time sent = decide(store);
    struct hf_error error;
    error_clear(&error);
    bool good = may_send(store, calls[0].deadline, &error);
    if (good && !decide_all(store, calls, count, decisions)) {
        error_no_memory(&error);
        good = false;
    }
    CALLS_FAIL(calls, count, error);
    for (size_t i = 0; good && i < count; i++)
        calls[i].etag = decisions[i].etag;
    struct request *request = good ? send_step(store, calls, count, decisions) : NULL;
    if (!request)
        return;
    await(store, request);
    take_step(store, calls, count, decisions, request, sent);
    request_let_go(request);
}

/* Changes that need not take place together are steps one after the other, so that others may write
 * in between, and some of them may be lost. */
static void net_change(struct store *base, struct change_call *calls, size_t count,
                       bool together)
{
    if (together)
        net_change_together(base, calls, count);
    for (size_t i = 0; !together && i < count; i++)
        net_change_together(base, &calls[i], 1);
}

/* Bodies are kept in memory as a whole, because simulated objects are small. */
static void net_get_file(struct store *base, struct get_call *call, int fd,
                         const struct progress *progress)
{
    struct buffer body = BUFFER_INIT(BODY_BYTES_MAX);
    struct buffer *asked = call->body;
    call->body = &body;
    net_get(base, call, 1);
    call->body = asked;
    if (call->error.status == HF_OK &&
        file_write_at(fd, buffer_view(&body), 0, &call->error) == HF_OK)
        progress_step(progress, body.size, body.size, &call->error);
    buffer_release(&body);
}

static void net_put_file(struct store *base, struct put_call *call, int fd,
                         const struct progress *progress)
{
    uint64_t size;
    if (file_size(fd, &size, &call->error) != HF_OK)
        return;
    char *bytes = size <= BODY_BYTES_MAX ? malloc((size_t)size + 1) : NULL;
    if (!bytes) {
        error_set(&call->error, HF_UNAVAILABLE, "no memory for an object of %" PRIu64 " bytes",
                  size);
        return;
    }
    size_t got = 0;
    if (file_read_at(fd, bytes, (size_t)size, 0, &got, &call->error) == HF_OK &&
        progress_step(progress, got, size, &call->error)) {
        struct view asked = call->body;
        call->body = (struct view){ bytes, got };
        net_put(base, call, 1);
        call->body = asked;
    }
    free(bytes);
}

/* Returns true: the store counts as foreign code, so clients probe it. */
static bool net_identify(struct store *base, struct buffer *text)
{
    (void)base;
    buffer_append(text, VIEW("simulated"));
    return true;
}

static bool net_session_enter(struct store *base, const char *id, char *ret_place)
{
    struct net_store *store = net_store_of(base);
    return bucket_has_sessions(net_bucket(store->net)) &&
           sessions_enter(net_sessions(store->net), store->node, id, ret_place);
}

static bool net_session_gone(struct store *base, const char *place, struct view id)
{
    return sessions_gone(net_sessions(net_store_of(base)->net), place, id);
}

static void net_close(struct store *base)
{
    free(base);
}

#define OPS_OF_BOTH                                                            \
    .name = "simulated", .get = net_get, .put = net_put, .remove = net_delete, \
    .list = net_list, .get_file = net_get_file, .put_file = net_put_file,      \
    .identify = net_identify, .session_enter = net_session_enter,              \
    .session_gone = net_session_gone, .close = net_close

static const struct store_ops net_store_ops = { OPS_OF_BOTH };

/* The operations of a store with its own lock. */
static const struct store_ops step_store_ops = { OPS_OF_BOTH, .change = net_change };

struct store *net_store_open(struct net *net, struct node *node)
{
    struct net_store *store = malloc(sizeof *store);
    if (!store)
        return NULL;
    *store = (struct net_store){
        .base = { .ops = bucket_steps(net_bucket(net)) ? &step_store_ops : &net_store_ops,
                  .env = node_env(node),
                  .traits = bucket_traits(net_bucket(net)) },
        .net = net,
        .node = node,
    };
    net_attach(net, node);
    return &store->base;
}
