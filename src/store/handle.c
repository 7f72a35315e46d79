/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c: counts the users of an open store, and turns each request into a record for the
 * trace callback. The count keeps a store open until the last client on it is closed. */
#include "store/handle.h"

#include "base/check.h"

#include <assert.h>
#include <stdlib.h>

static_assert((int)HF_STORE_CALL_PUT_FILE == (int)CALL_PUT_FILE &&
                  (int)HF_STORE_CALL_COUNT == (int)CALL_KIND_COUNT,
              "the calls of store.h and those of observe.h are the same, in the same order");

const char *etag_to_text(const struct etag *etag, char text[HF_ETAG_MAX])
{
    static_assert(HF_ETAG_MAX == ETAG_BYTES_MAX + 1, "an ETag and its NUL");
    memcpy(text, etag->data, etag->size);
    text[etag->size] = '\0';
    return text;
}

static void report_request(void *argument, const struct observation *seen)
{
    struct hf_store *handle = argument;
    const struct condition *condition = seen->condition;
    char matched[HF_ETAG_MAX], etag[HF_ETAG_MAX], key[KEY_BYTES_MAX + 1];
    check(seen->key.size <= KEY_BYTES_MAX);
    memcpy(key, seen->key.size ? seen->key.data : "", seen->key.size);
    key[seen->key.size] = '\0';
    bool matches = condition && condition->kind == CONDITION_MATCH;
    struct hf_store_request request = {
        .struct_size = sizeof request,
        .call = (enum hf_store_call)seen->kind,
        .key = key,
        .key_size = seen->key.size,
        .if_absent = condition && condition->kind == CONDITION_ABSENT,
        .if_match = matches ? etag_to_text(&condition->etag, matched) : NULL,
        .status = seen->error->status,
        .why = seen->error->status == HF_OK ? "" : seen->error->why,
        .etag = seen->etag ? etag_to_text(seen->etag, etag) : NULL,
        .sent_bytes = seen->bytes_sent,
        .received_bytes = seen->bytes_received,
        .took_us = seen->took.us,
        .first_of_batch = seen->first_of_batch,
        .depth = seen->depth,
    };
    handle->trace(handle->trace_argument, &request);
}

enum hf_status store_handle_new(
    struct store *store, void (*trace)(void *argument, const struct hf_store_request *request),
    void *trace_argument, struct hf_store **ret_handle, struct hf_error *error)
{
    struct hf_store *handle = calloc(1, sizeof *handle);
    if (!handle)
        return error_no_memory(error);
    *handle = (struct hf_store){
        .store = store, .users = 1, .trace = trace, .trace_argument = trace_argument
    };
    enum hf_status status = HF_OK;
    env_mutex_init(store->env, &handle->checking);
    env_mutex_init(store->env, &handle->scrubbed.mutex);
    if (trace)
        status = store_observe(store, (struct observer){ report_request, handle },
                               &handle->store, error);
    if (status == HF_OK) {
        *ret_handle = handle;
    } else {
        env_mutex_release(&handle->scrubbed.mutex);
        env_mutex_release(&handle->checking);
        free(handle);
    }
    return status;
}

/* ---- Placements ---------------------------------------------------------------------- */

#define PLACEMENTS_BYTES_MAX ((size_t)256 * KIB)

struct view store_handle_placements(const struct hf_store *handle)
{
    const struct placements_read *latest = atomic_load(&handle->placements);
    return latest ? (struct view){ latest->text, latest->size } : VIEW("");
}

static enum hf_status keep_placements(struct hf_store *handle, struct view text,
                                      struct hf_error *error)
{
    if (view_equal(text, store_handle_placements(handle)))
        return HF_OK;
    struct placements_read *read = malloc(sizeof *read + text.size);
    if (!read)
        return error_no_memory(error);
    read->size = text.size;
    if (text.size > 0)
        memcpy(read->text, text.data, text.size);
    read->earlier = atomic_load(&handle->placements);
    while (!atomic_compare_exchange_weak(&handle->placements, &read->earlier, read)) {
    }
    return HF_OK;
}

enum hf_status store_handle_read_placements(struct hf_store *handle, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(PLACEMENTS_BYTES_MAX);
    enum hf_status status = bucket_read_placements(handle->store, &text, error);
    if (status == HF_OK)
        status = keep_placements(handle, buffer_view(&text), error);
    buffer_release(&text);
    return status;
}

static enum hf_status check_locks_locked(struct hf_store *handle, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(PLACEMENTS_BYTES_MAX);
    if (atomic_load(&handle->for_locks))
        return HF_OK;
    enum hf_status status = bucket_check_placed(handle->store, &text, error);
    if (status == HF_OK)
        status = keep_placements(handle, buffer_view(&text), error);
    buffer_release(&text);
    atomic_store(&handle->for_locks, status == HF_OK);
    return status;
}

enum hf_status store_handle_check_locks(struct hf_store *handle, struct hf_error *error)
{
    if (atomic_load(&handle->for_locks))
        return HF_OK;
    env_mutex_lock(&handle->checking);
    enum hf_status status = check_locks_locked(handle, error);
    env_mutex_unlock(&handle->checking);
    return status;
}

static void free_placements(struct hf_store *handle)
{
    struct placements_read *read = atomic_load(&handle->placements);
    while (read) {
        struct placements_read *earlier = read->earlier;
        free(read);
        read = earlier;
    }
}

/* ---- Users --------------------------------------------------------------------------- */

struct hf_store *store_handle_keep(struct hf_store *handle)
{
    atomic_fetch_add(&handle->users, 1);
    return handle;
}

void store_handle_drop(struct hf_store *handle)
{
    if (!handle || atomic_fetch_sub(&handle->users, 1) > 1)
        return;
    env_mutex_release(&handle->scrubbed.mutex);
    env_mutex_release(&handle->checking);
    store_close(handle->store);
    free_placements(handle);
    free(handle);
}
