#include "store/observe.h"

#include "base/check.h"
#include "store/stream.h"

#include <stdio.h>
#include <stdlib.h>

const char *hf_store_call_name(enum hf_store_call call)
{
#define ROW(name, text) [HF_STORE_CALL_##name] = text,
    static const char *const names[HF_STORE_CALL_COUNT] = { HF_STORE_CALL_TABLE(ROW) };
#undef ROW
    return (unsigned)call < HF_STORE_CALL_COUNT ? names[call] : "unknown";
}

struct observed_store {
    struct store base;
    struct store *inner;
    struct observer observer;
};

static struct observed_store *observed_of(struct store *store)
{
    return (struct observed_store *)(void *)store;
}

static void tell(struct observed_store *observed, const struct observation *observation)
{
    observed->observer.saw(observed->observer.argument, observation);
}

static struct span since(struct store *store, struct mono_time start)
{
    return mono_since(env_now(store->env), start);
}

static const struct etag *etag_if(const struct hf_error *error, const struct etag *etag)
{
    return error->status == HF_OK || error->status == HF_NOT_MODIFIED ? etag : NULL;
}

/* The size of the range that was asked for. */
static uint64_t bytes_of_get(const struct get_call *call)
{
    if (call->error.status != HF_OK)
        return 0;
    uint64_t left = call->info.size - call->offset;
    return call->length > 0 && call->length < left ? call->length : left;
}

static struct observation observation_of_get(const struct get_call *call)
{
    return (struct observation){ .kind = CALL_GET,
                                 .key = call->key,
                                 .error = &call->error,
                                 .etag = etag_if(&call->error, &call->info.etag),
                                 .bytes_received = bytes_of_get(call) };
}

static struct observation observation_of_put(const struct put_call *call)
{
    return (struct observation){ .kind = CALL_PUT,
                                 .key = call->key,
                                 .condition = &call->condition,
                                 .error = &call->error,
                                 .etag = etag_if(&call->error, &call->etag),
                                 .bytes_sent = call->body.size };
}

static void observed_get(struct store *store, struct get_call *calls, size_t count)
{
    struct observed_store *observed = observed_of(store);
    struct mono_time start = env_now(store->env);
    observed->inner->ops->get(observed->inner, calls, count);
    struct span took = since(store, start);
    for (size_t i = 0; i < count; i++) {
        struct observation seen = observation_of_get(&calls[i]);
        seen.took = took;
        seen.first_of_batch = i == 0;
        tell(observed, &seen);
    }
}

static void observed_put(struct store *store, struct put_call *calls, size_t count)
{
    struct observed_store *observed = observed_of(store);
    struct mono_time start = env_now(store->env);
    observed->inner->ops->put(observed->inner, calls, count);
    struct span took = since(store, start);
    for (size_t i = 0; i < count; i++) {
        struct observation seen = observation_of_put(&calls[i]);
        seen.took = took;
        seen.first_of_batch = i == 0;
        tell(observed, &seen);
    }
}

static void observed_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct observed_store *observed = observed_of(store);
    struct mono_time start = env_now(store->env);
    observed->inner->ops->remove(observed->inner, calls, count);
    struct span took = since(store, start);
    for (size_t i = 0; i < count; i++) {
        struct observation seen = { .kind = CALL_DELETE,
                                    .key = calls[i].key,
                                    .condition = &calls[i].condition,
                                    .error = &calls[i].error,
                                    .took = took,
                                    .first_of_batch = i == 0 };
        tell(observed, &seen);
    }
}

static void observed_list(struct store *store, struct list_call *call)
{
    struct observed_store *observed = observed_of(store);
    struct mono_time start = env_now(store->env);
    observed->inner->ops->list(observed->inner, call);
    struct observation seen = { .kind = CALL_LIST,
                                .key = call->prefix,
                                .error = &call->error,
                                .took = since(store, start),
                                .first_of_batch = true };
    tell(observed, &seen);
}

static void observed_get_file(struct store *store, struct get_call *call, int fd,
                              const struct progress *progress)
{
    struct observed_store *observed = observed_of(store);
    struct mono_time start = env_now(store->env);
    observed->inner->ops->get_file(observed->inner, call, fd, progress);
    struct observation seen = observation_of_get(call);
    seen.kind = CALL_GET_FILE;
    seen.took = since(store, start);
    seen.first_of_batch = true;
    tell(observed, &seen);
}

/* A file that is lent counts as one that was read. */
static void observed_lend_file(struct store *store, struct get_call *call, int *ret_fd)
{
    struct observed_store *observed = observed_of(store);
    struct mono_time start = env_now(store->env);
    if (store_lend_file(observed->inner, call, ret_fd) == HF_UNSUPPORTED)
        return;
    struct observation seen = observation_of_get(call);
    seen.kind = CALL_GET_FILE;
    seen.took = since(store, start);
    seen.first_of_batch = true;
    tell(observed, &seen);
}

static void observed_put_file(struct store *store, struct put_call *call, int fd,
                              const struct progress *progress)
{
    struct observed_store *observed = observed_of(store);
    struct mono_time start = env_now(store->env);
    observed->inner->ops->put_file(observed->inner, call, fd, progress);
    struct observation seen = observation_of_put(call);
    seen.kind = CALL_PUT_FILE;
    file_size(fd, &seen.bytes_sent, /* error */ NULL);
    seen.took = since(store, start);
    seen.first_of_batch = true;
    tell(observed, &seen);
}

/* What a change did, as the get and the put that others would have taken. */
struct watched_change {
    struct change_call *call; /* the caller's */
    struct change_call inner;
    bool read, absent;
    uint64_t bytes_read, bytes_written;
};

static struct view watched_decide(void *argument, const struct etag *now, struct view body)
{
    struct watched_change *watched = argument;
    watched->absent = now->size == 0;
    watched->read = watched->read || body.data || watched->absent;
    watched->bytes_read = body.size;
    struct view bytes = watched->call->decide(watched->call->argument, now, body);
    watched->bytes_written = bytes.size;
    watched->inner.quiet = watched->call->quiet;
    return bytes;
}

/* What was found is good, whatever became of the put behind it. */
static void tell_get_of_change(struct observed_store *observed,
                               const struct watched_change *watched, bool put,
                               struct observation seen)
{
    const struct change_call *call = watched->call;
    struct hf_error error = call->error;
    bool found = put || error.status == HF_OK;
    if (found && watched->absent)
        error_set(&error, HF_NOT_FOUND, "no such object");
    else if (found)
        error_clear(&error);
    seen.kind = CALL_GET;
    seen.error = &error;
    seen.etag = put || call->etag.size == 0 ? NULL : &call->etag;
    seen.bytes_received = watched->bytes_read;
    tell(observed, &seen);
}

static void observed_change(struct store *store, struct change_call *call)
{
    struct observed_store *observed = observed_of(store);
    struct mono_time start = env_now(store->env);
    struct watched_change watched = { .call = call, .inner = *call };
    watched.inner.decide = watched_decide;
    watched.inner.argument = &watched;
    store_change(observed->inner, &watched.inner);
    watched.inner.decide = call->decide;
    watched.inner.argument = call->argument;
    *call = watched.inner;
    if (call->error.status == HF_UNSUPPORTED)
        return; /* nothing was asked of the store: the get and the put will be seen */
    bool put = call->wrote || call->error.status == HF_UNSURE;
    struct observation seen = { .key = call->key,
                                .took = since(store, start),
                                .first_of_batch = true };
    if (watched.read || !put)
        tell_get_of_change(observed, &watched, put, seen);
    if (put) {
        seen.kind = CALL_PUT;
        seen.error = &call->error;
        seen.etag = etag_if(&call->error, &call->etag);
        seen.bytes_sent = watched.bytes_written;
        tell(observed, &seen);
    }
}

static void observed_inspect(struct store *store, struct probe_report *report)
{
    struct store *inner = observed_of(store)->inner;
    if (inner->ops->inspect)
        inner->ops->inspect(inner, report);
}

static void observed_learn(struct store *store, const struct store_traits *traits)
{
    struct store *inner = observed_of(store)->inner;
    if (inner->ops->learn)
        inner->ops->learn(inner, traits);
}

static bool observed_identify(struct store *store, struct buffer *text)
{
    return store_identify(observed_of(store)->inner, text);
}

static bool observed_listens(const struct store *store)
{
    return store_listens(((const struct observed_store *)(const void *)store)->inner);
}

static bool observed_listen(struct store *store, uint64_t *ticket, struct mono_time until)
{
    return store_listen(observed_of(store)->inner, ticket, until);
}

static void observed_ring(struct store *store)
{
    store_ring(observed_of(store)->inner);
}

static bool observed_peer_changes(struct store *store, uint64_t *ret_mark)
{
    return store_peer_changes(observed_of(store)->inner, ret_mark);
}

static void observed_close(struct store *store)
{
    store_close(observed_of(store)->inner);
    free(store);
}

static const struct store_ops observed_ops = {
    .name = "observed",
    .get = observed_get,
    .put = observed_put,
    .remove = observed_remove,
    .list = observed_list,
    .get_file = observed_get_file,
    .put_file = observed_put_file,
    .lend_file = observed_lend_file,
    .inspect = observed_inspect,
    .learn = observed_learn,
    .identify = observed_identify,
    .change = observed_change,
    .listens = observed_listens,
    .listen = observed_listen,
    .ring = observed_ring,
    .peer_changes = observed_peer_changes,
    .close = observed_close,
};

enum hf_status store_observe(struct store *inner, struct observer observer,
                             struct store **ret_store, struct hf_error *error)
{
    struct observed_store *observed = malloc(sizeof *observed);
    if (!observed)
        return error_no_memory(error);
    *observed = (struct observed_store){
        .base = { .ops = &observed_ops,
                  .env = inner->env,
                  .traits = inner->traits,
                  .barred = inner->barred },
        .inner = inner,
        .observer = observer,
    };
    *ret_store = &observed->base;
    return HF_OK;
}

void store_unobserve(struct store *observed)
{
    check(observed->ops == &observed_ops);
    free(observed);
}

/* ---- The meter ----------------------------------------------------------------------- */

void meter_init(struct meter *meter, struct env *env)
{
    *meter = (struct meter){ 0 };
    env_mutex_init(env, &meter->mutex);
}

void meter_release(struct meter *meter)
{
    env_mutex_release(&meter->mutex);
}

static void meter_saw(void *argument, const struct observation *seen)
{
    struct meter *meter = argument;
    env_mutex_lock(&meter->mutex);
    struct meter_counts *counts = &meter->kinds[seen->kind];
    counts->calls++;
    counts->batches += seen->first_of_batch;
    counts->failed += seen->error->status != HF_OK && seen->error->status != HF_NOT_MODIFIED;
    counts->bytes_sent += seen->bytes_sent;
    counts->bytes_received += seen->bytes_received;
    env_mutex_unlock(&meter->mutex);
}

struct observer meter_observer(struct meter *meter)
{
    return (struct observer){ meter_saw, meter };
}

void meter_reset(struct meter *meter)
{
    env_mutex_lock(&meter->mutex);
    memset(meter->kinds, 0, sizeof meter->kinds);
    env_mutex_unlock(&meter->mutex);
}

void meter_read(struct meter *meter, struct meter_counts ret_kinds[CALL_KIND_COUNT])
{
    env_mutex_lock(&meter->mutex);
    memcpy(ret_kinds, meter->kinds, sizeof meter->kinds);
    env_mutex_unlock(&meter->mutex);
}
