/* SPDX-License-Identifier: Apache-2.0 */
/* observe.c: passes every call to the inner store, measures how long it took, and reports it to
 * the observer. A combined read and write (store_change) is reported as the get and the put
 * that it replaces. */
#include "store/observe.h"

#include "base/check.h"
#include "store/stream.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct observed_store {
    struct store base;
    struct observer observer;
    _Atomic uint64_t depth; /* of the deepest request that has ended */
};

/* A request, which may consist of several calls. */
struct request {
    struct mono_time began;
    struct span took;
    uint64_t depth;
};

static struct observed_store *observed_of(struct store *store)
{
    return (struct observed_store *)(void *)store;
}

static struct request begin_request(struct store *store)
{
    return (struct request){ .began = env_now(store->env),
                             .depth = atomic_load(&observed_of(store)->depth) + 1 };
}

static void end_request(struct store *store, struct request *request)
{
    _Atomic uint64_t *deepest = &observed_of(store)->depth;
    uint64_t seen = atomic_load(deepest);
    request->took = mono_since(env_now(store->env), request->began);
    while (seen < request->depth &&
           !atomic_compare_exchange_weak(deepest, &seen, request->depth))
        continue;
}

/* Reports one call of a request that has ended. */
static void report_call(struct store *store, struct observation seen,
                        const struct request *request, size_t index)
{
    const struct observer *observer = &observed_of(store)->observer;
    seen.took = request->took;
    seen.depth = request->depth;
    seen.first_of_batch = index == 0;
    observer->saw(observer->argument, &seen);
}

static const struct etag *etag_if(const struct hf_error *error, const struct etag *etag)
{
    return error->status == HF_OK || error->status == HF_NOT_MODIFIED ? etag : NULL;
}

/* The size of the requested range. */
static uint64_t bytes_of_get(const struct get_call *call)
{
    if (call->error.status != HF_OK)
        return 0;
    uint64_t left = call->info.size - call->offset;
    return call->length > 0 && call->length < left ? call->length : left;
}

static struct observation observation_of_get(enum call_kind kind, const struct get_call *call)
{
    return (struct observation){ .kind = kind,
                                 .key = call->key,
                                 .error = &call->error,
                                 .etag = etag_if(&call->error, &call->info.etag),
                                 .bytes_received = bytes_of_get(call) };
}

static struct observation observation_of_put(enum call_kind kind, const struct put_call *call)
{
    return (struct observation){ .kind = kind,
                                 .key = call->key,
                                 .condition = &call->condition,
                                 .error = &call->error,
                                 .etag = etag_if(&call->error, &call->etag),
                                 .bytes_sent = call->body.size };
}

static void observed_get(struct store *store, struct get_call *calls, size_t count)
{
    struct request request = begin_request(store);
    store->inner->ops->get(store->inner, calls, count);
    end_request(store, &request);
    for (size_t i = 0; i < count; i++)
        report_call(store, observation_of_get(CALL_GET, &calls[i]), &request, i);
}

static void observed_put(struct store *store, struct put_call *calls, size_t count)
{
    struct request request = begin_request(store);
    store->inner->ops->put(store->inner, calls, count);
    end_request(store, &request);
    for (size_t i = 0; i < count; i++)
        report_call(store, observation_of_put(CALL_PUT, &calls[i]), &request, i);
}

static void observed_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct request request = begin_request(store);
    store->inner->ops->remove(store->inner, calls, count);
    end_request(store, &request);
    for (size_t i = 0; i < count; i++) {
        struct observation seen = { .kind = CALL_DELETE,
                                    .key = calls[i].key,
                                    .condition = &calls[i].condition,
                                    .error = &calls[i].error };
        report_call(store, seen, &request, i);
    }
}

static void observed_list(struct store *store, struct list_call *call)
{
    struct request request = begin_request(store);
    store->inner->ops->list(store->inner, call);
    end_request(store, &request);
    struct observation seen = { .kind = CALL_LIST, .key = call->prefix, .error = &call->error };
    report_call(store, seen, &request, 0);
}

static void observed_get_file(struct store *store, struct get_call *call, int fd,
                              const struct progress *progress)
{
    struct request request = begin_request(store);
    store->inner->ops->get_file(store->inner, call, fd, progress);
    end_request(store, &request);
    report_call(store, observation_of_get(CALL_GET_FILE, call), &request, 0);
}

/* A lent file counts as one that was read. */
static void observed_lend_file(struct store *store, struct get_call *call, int *ret_fd)
{
    struct request request = begin_request(store);
    if (store_lend_file(store->inner, call, ret_fd) == HF_UNSUPPORTED)
        return;
    end_request(store, &request);
    report_call(store, observation_of_get(CALL_GET_FILE, call), &request, 0);
}

static void observed_put_file(struct store *store, struct put_call *call, int fd,
                              const struct progress *progress)
{
    struct request request = begin_request(store);
    store->inner->ops->put_file(store->inner, call, fd, progress);
    end_request(store, &request);
    struct observation seen = observation_of_put(CALL_PUT_FILE, call);
    file_size(fd, &seen.bytes_sent, /* error */ NULL);
    report_call(store, seen, &request, 0);
}

/* The reads and writes of one change, for reporting it as a get and a put. */
struct watched_change {
    struct change_call *call;  /* the caller's */
    struct change_call *inner; /* the inner store's */
    bool read, absent;
    uint64_t bytes_read, bytes_written;
};

static struct view watched_decide(void *argument, const struct etag *now, struct view body)
{
    struct watched_change *watched = argument;
    watched->absent = now->size == 0;
    watched->read = watched->read || body.data || (watched->absent && !watched->call->creates);
    watched->bytes_read = body.size;
    struct view bytes = watched->call->decide(watched->call->argument, now, body);
    watched->bytes_written = bytes.size;
    watched->inner->quiet = watched->call->quiet;
    watched->inner->refused = watched->call->refused;
    return bytes;
}

/* The get succeeded if there was a put after it, even if that put failed. */
static void report_get_of_change(struct store *store, const struct watched_change *watched,
                                 bool put, const struct request *request)
{
    const struct change_call *call = watched->call;
    struct hf_error error = call->error;
    bool found = put || error.status == HF_OK;
    if (found && watched->absent)
        error_set(&error, HF_NOT_FOUND, "no such object");
    else if (found)
        error_clear(&error);
    struct observation seen = { .kind = CALL_GET,
                                .key = call->key,
                                .error = &error,
                                .etag = put || call->etag.size == 0 ? NULL : &call->etag,
                                .bytes_received = watched->bytes_read };
    report_call(store, seen, request, 0);
}

static void report_step(struct store *store, const struct watched_change *watched,
                        const struct request *request)
{
    const struct change_call *call = watched->call;
    bool put = call->wrote || call->error.status == HF_UNSURE;
    /* A change that wrote without reading the bytes used a cached body. Without the step, it would
     * have been a single put. */
    if (watched->read || !put)
        report_get_of_change(store, watched, put, request);
    struct observation seen = { .kind = CALL_PUT,
                                .key = call->key,
                                .error = &call->error,
                                .etag = etag_if(&call->error, &call->etag),
                                .bytes_sent = watched->bytes_written };
    if (put)
        report_call(store, seen, request, 0);
}

static void observed_change(struct store *store, struct change_call *calls, size_t count,
                            bool together)
{
    struct request request = begin_request(store);
    struct change_call inner[EACH_MAX];
    struct watched_change watched[EACH_MAX];
    for (size_t i = 0; i < count; i++) {
        watched[i] = (struct watched_change){ .call = &calls[i],
                                              .inner = &inner[i],
                                              .bytes_written = calls[i].ready.size };
        inner[i] = calls[i];
        inner[i].decide = watched_decide;
        inner[i].argument = &watched[i];
    }
    if (together)
        store_change_together(store->inner, inner, count);
    else
        store_change_each(store->inner, inner, count);
    for (size_t i = 0; i < count; i++) {
        inner[i].decide = calls[i].decide;
        inner[i].argument = calls[i].argument;
        calls[i] = inner[i];
    }
    end_request(store, &request);
    for (size_t i = 0; i < count; i++)
        if (calls[i].error.status !=
            HF_UNSUPPORTED) /* a get and a put follow, and are reported */
            report_step(store, &watched[i], &request);
}

static void observed_close(struct store *store)
{
    store_close(store->inner);
    free(store);
}

#define OBSERVED_OPS                                                                         \
    .name = "observed", .get = observed_get, .put = observed_put, .remove = observed_remove, \
    .list = observed_list, .get_file = observed_get_file, .put_file = observed_put_file,     \
    .lend_file = observed_lend_file, .close = observed_close

static const struct store_ops observed_ops = { OBSERVED_OPS };

/* Of a store that changes objects in one step. A caller prepares a step in advance, so one that the
 * inner store would only refuse is not offered. */
static const struct store_ops observed_step_ops = { OBSERVED_OPS, .change = observed_change };

enum hf_status store_observe(struct store *inner, struct observer observer,
                             struct store **ret_store, struct hf_error *error)
{
    struct observed_store *observed = malloc(sizeof *observed);
    if (!observed)
        return error_no_memory(error);
    *observed = (struct observed_store){
        .base = { .ops = inner->ops->change ? &observed_step_ops : &observed_ops,
                  .env = inner->env,
                  .inner = inner,
                  .traits = inner->traits,
                  .barred = inner->barred },
        .observer = observer,
    };
    *ret_store = &observed->base;
    return HF_OK;
}

void store_unobserve(struct store *observed)
{
    check(observed->ops == &observed_ops || observed->ops == &observed_step_ops);
    free(observed);
}

/* ---- Requests to a server ---------------------------------------------------------------- */

struct served_request {
    void (*make)(void *argument, struct observation *seen);
    void *argument;
    struct observation seen;
};

/* One wrapper after another, each around the next one. */
static void observe_served(struct store *store, struct served_request *served)
{
    while (store && store->ops != &observed_ops && store->ops != &observed_step_ops)
        store = store->inner;
    if (!store) {
        served->make(served->argument, &served->seen);
        return;
    }
    struct request request = begin_request(store);
    observe_served(store->inner, served);
    end_request(store, &request);
    report_call(store, served->seen, &request, 0);
}

void observe_request(struct store *store,
                     void (*make)(void *argument, struct observation *seen), void *argument)
{
    struct served_request served = { .make = make, .argument = argument };
    observe_served(store, &served);
}
