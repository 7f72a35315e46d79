/* SPDX-License-Identifier: Apache-2.0 */
/* store.c: the entry point of every store. It checks arguments once for all back ends, and asserts
 * what callers rely on in the results, such as an ETag with every success. */
#include "store/store.h"

#include "base/check.h"
#include "base/parse.h"
#include "store/toolkit.h"
#include "store/write_notify.h"

bool etag_set(struct etag *etag, struct view text)
{
    if (text.size == 0 || text.size > ETAG_BYTES_MAX)
        return false;
    memcpy(etag->data, text.data, text.size);
    etag->size = (uint8_t)text.size;
    return true;
}

void list_release(struct list_call *call)
{
    arena_release(&call->arena);
    call->entries = NULL;
    call->count = 0;
}

/* ---- Checks of arguments ------------------------------------------------------------- */

static bool key_is_good(struct view key, struct hf_error *error)
{
    if (key.size >= 1 && key.size <= KEY_BYTES_MAX)
        return true;
    error_set(error, HF_INVALID, "a key must be 1 to %d bytes long, not %zu", KEY_BYTES_MAX,
              key.size);
    return false;
}

static bool condition_is_good(const struct condition *condition, struct hf_error *error)
{
    if (condition->kind != CONDITION_MATCH || condition->etag.size > 0)
        return true;
    error_set(error, HF_INVALID, "if-match needs an ETag");
    return false;
}

static bool get_is_good(struct get_call *call)
{
    return key_is_good(call->key, &call->error);
}

static bool writes_are_barred(const struct store *store, struct hf_error *error)
{
    if (store->barred.status != HF_OK)
        *error = store->barred;
    return store->barred.status != HF_OK;
}

static bool put_is_good(const struct store *store, struct put_call *call)
{
    if (writes_are_barred(store, &call->error))
        return false;
    if (call->body.size > BODY_BYTES_MAX) {
        error_set(&call->error, HF_INVALID, "%zu bytes are too many for one put; use put_file",
                  call->body.size);
        return false;
    }
    return key_is_good(call->key, &call->error) &&
           condition_is_good(&call->condition, &call->error);
}

static bool delete_is_good(const struct store *store, struct delete_call *call)
{
    if (writes_are_barred(store, &call->error))
        return false;
    if (call->condition.kind == CONDITION_ABSENT) {
        error_set(&call->error, HF_INVALID, "a delete cannot have the condition 'absent'");
        return false;
    }
    if (call->condition.kind == CONDITION_MATCH && !store->traits.delete_conditional) {
        error_set(&call->error, HF_UNSUPPORTED, "this store has no conditional delete");
        return false;
    }
    return key_is_good(call->key, &call->error) &&
           condition_is_good(&call->condition, &call->error);
}

/* ---- The budget for retries ---------------------------------------------------------- */

struct retry_budget *store_budget(struct store *store)
{
    while (store->inner)
        store = store->inner;
    return &store->budget;
}

/* ---- The calls ----------------------------------------------------------------------- */

/* If one call of a batch is invalid, nothing is sent, and every call gets its error. */

enum hf_status store_get_many(struct store *store, struct get_call *calls, size_t count)
{
    check(count <= BATCH_MAX);
    enum hf_status first = HF_OK;
    for (size_t i = 0; i < count; i++)
        if (!get_is_good(&calls[i])) {
            struct hf_error error = calls[i].error;
            CALLS_FAIL(calls, count, error);
            return error.status;
        }
    store->ops->get(store, calls, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        check(status != HF_OK || calls[i].info.etag.size > 0);
        retry_budget_answered(store_budget(store), status);
        if (first == HF_OK)
            first = status;
    }
    return first;
}

enum hf_status store_put_many(struct store *store, struct put_call *calls, size_t count)
{
    check(count <= BATCH_MAX);
    enum hf_status first = HF_OK;
    for (size_t i = 0; i < count; i++)
        if (!put_is_good(store, &calls[i])) {
            struct hf_error error = calls[i].error;
            CALLS_FAIL(calls, count, error);
            return error.status;
        }
    store->ops->put(store, calls, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        check(status != HF_OK || calls[i].etag.size > 0);
        retry_budget_answered(store_budget(store), status);
        if (first == HF_OK)
            first = status;
    }
    return first;
}

enum hf_status store_delete_many(struct store *store, struct delete_call *calls, size_t count)
{
    check(count <= BATCH_MAX);
    enum hf_status first = HF_OK;
    for (size_t i = 0; i < count; i++)
        if (!delete_is_good(store, &calls[i])) {
            struct hf_error error = calls[i].error;
            CALLS_FAIL(calls, count, error);
            return error.status;
        }
    store->ops->remove(store, calls, count);
    for (size_t i = 0; i < count; i++)
        if (first == HF_OK)
            first = calls[i].error.status;
    return first;
}

enum hf_status store_get(struct store *store, struct get_call *call)
{
    return store_get_many(store, call, 1);
}

enum hf_status store_put(struct store *store, struct put_call *call)
{
    return store_put_many(store, call, 1);
}

enum hf_status store_delete(struct store *store, struct delete_call *call)
{
    return store_delete_many(store, call, 1);
}

enum hf_status store_list(struct store *store, struct list_call *call)
{
    if (call->max == 0)
        call->max = LIST_PAGE_MAX;
    call->count = 0;
    call->more = false;
    call->arena = ARENA_INIT;
    if (call->max > LIST_PAGE_MAX || call->delimiter.size > 1 ||
        call->prefix.size > KEY_BYTES_MAX || call->after.size > KEY_BYTES_MAX)
        return error_set(&call->error, HF_INVALID,
                         "a listing takes pages of 1 to %d names, names of at most %d bytes, "
                         "and a delimiter of one byte",
                         LIST_PAGE_MAX, KEY_BYTES_MAX);
    call->entries = arena_take(&call->arena, call->max * sizeof *call->entries);
    if (!call->entries)
        return error_no_memory(&call->error);
    error_clear(&call->error);
    store->ops->list(store, call);
    retry_budget_answered(store_budget(store), call->error.status);
    if (call->error.status != HF_OK) {
        list_release(call);
        call->more = false;
    }
    check(!call->more || call->count > 0);
    return call->error.status;
}

enum hf_status store_get_file(struct store *store, struct get_call *call, int fd,
                              const struct progress *progress)
{
    if (!get_is_good(call))
        return call->error.status;
    store->ops->get_file(store, call, fd, progress);
    check(call->error.status != HF_OK || call->info.etag.size > 0);
    return call->error.status;
}

enum hf_status store_put_file(struct store *store, struct put_call *call, int fd,
                              const struct progress *progress)
{
    if (!put_is_good(store, call))
        return call->error.status;
    store->ops->put_file(store, call, fd, progress);
    check(call->error.status != HF_OK || call->etag.size > 0);
    return call->error.status;
}

enum hf_status store_lend_file(struct store *store, struct get_call *call, int *ret_fd)
{
    if (!get_is_good(call))
        return call->error.status;
    if (!store->ops->lend_file || call->offset != 0 || call->length != 0)
        return error_set(&call->error, HF_UNSUPPORTED, "objects of this store are not files");
    store->ops->lend_file(store, call, ret_fd);
    check(call->error.status != HF_OK || call->info.etag.size > 0);
    return call->error.status;
}

static void clear_change_result(struct change_call *call)
{
    call->wrote = false;
    call->etag = (struct etag){ 0 };
}

static bool change_is_good(const struct store *store, struct change_call *call)
{
    clear_change_result(call);
    call->stamp = (struct store_stamp){ 0 };
    if (writes_are_barred(store, &call->error) || !key_is_good(call->key, &call->error))
        return false;
    if (!store->ops->change)
        error_set(&call->error, HF_UNSUPPORTED, "the store has no lock of its own");
    return store->ops->change != NULL;
}

enum hf_status store_change_together(struct store *store, struct change_call *calls,
                                     size_t count)
{
    check(count > 0 && count <= TOGETHER_MAX);
    for (size_t i = 0; i < count; i++)
        if (!change_is_good(store, &calls[i])) {
            struct hf_error error = calls[i].error;
            CALLS_FAIL(calls, count, error);
            return error.status;
        }
    store->ops->change(store, calls, count, /* together */ true);
    for (size_t i = 0; i < count; i++) {
        check(calls[i].error.status == calls[0].error.status);
        if (calls[i].error.status != HF_OK) /* what set these was rolled back */
            clear_change_result(&calls[i]);
        check(!calls[i].wrote || calls[i].etag.size > 0);
    }
    return calls[0].error.status;
}

enum hf_status store_change(struct store *store, struct change_call *call)
{
    return store_change_together(store, call, 1);
}

enum hf_status store_change_each(struct store *store, struct change_call *calls, size_t count)
{
    enum hf_status first = HF_OK;
    check(count > 0 && count <= EACH_MAX);
    for (size_t i = 0; i < count; i++)
        if (!change_is_good(store, &calls[i])) {
            struct hf_error error = calls[i].error;
            CALLS_FAIL(calls, count, error);
            return error.status;
        }
    store->ops->change(store, calls, count, /* together */ false);
    for (size_t i = 0; i < count; i++) {
        if (calls[i].error.status != HF_OK)
            clear_change_result(&calls[i]);
        if (first == HF_OK)
            first = calls[i].error.status;
        check(!calls[i].wrote || calls[i].etag.size > 0);
    }
    return first;
}

bool store_listens(const struct store *store)
{
    if (store->notify)
        return write_notify_listens(store->notify);
    if (store->ops->listens)
        return store->ops->listens(store);
    return store->inner && store_listens(store->inner);
}

bool store_listen(struct store *store, uint64_t *ticket, struct mono_time until)
{
    if (store->notify)
        return write_notify_listen(store->notify, ticket, until);
    if (store->ops->listen)
        return store->ops->listen(store, ticket, until);
    if (store->inner)
        return store_listen(store->inner, ticket, until);
    if (*ticket == 0) {
        *ticket = 1;
        return true;
    }
    env_sleep_until(store->env, until);
    return false;
}

void store_ring(struct store *store)
{
    if (store->notify)
        write_notify_ring(store->notify);
    else if (store->ops->ring)
        store->ops->ring(store);
    else if (store->inner)
        store_ring(store->inner);
}

bool store_peer_changes(struct store *store, uint64_t *ret_mark)
{
    if (store->ops->peer_changes)
        return store->ops->peer_changes(store, ret_mark);
    return store->inner && store_peer_changes(store->inner, ret_mark);
}

bool store_identify(struct store *store, struct buffer *text)
{
    if (store->ops->identify)
        return store->ops->identify(store, text);
    if (store->inner)
        return store_identify(store->inner, text);
    buffer_append(text, view_of(store->ops->name));
    return false;
}

void store_doubt(struct store *store, struct mono_time deadline)
{
    for (struct store *layer = store; layer; layer = layer->inner)
        if (layer->ops->doubt)
            layer->ops->doubt(layer, deadline);
}

/* The ETag of an encrypted object may be a random number, which no other object has. */
bool store_etag_is_md5(struct store *store, const struct etag *etag)
{
    while (store->inner)
        store = store->inner;
    struct view text = etag_view(etag);
    bool quoted = text.size > 1 && text.data[0] == '"' && text.data[text.size - 1] == '"';
    if (quoted)
        text = view_first(view_from(text, 1), text.size - 2);
    for (size_t i = 0; i < text.size; i++)
        if (hex_digit(text.data[i]) < 0)
            return false;
    return text.size == 32 && strcmp(store->ops->name, "s3") == 0;
}

void store_close(struct store *store)
{
    if (store)
        store->ops->close(store);
}
