/* SPDX-License-Identifier: Apache-2.0 */
/* hashed_store.c: see hashed_store.h. */
#include "hashed_store.h"

#include "base/check.h"
#include "base/hash.h"
#include "file/bytes.h"
#include "store/toolkit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A back end of its own, not a scripted store: it checks every condition with its own ETags,
 * and mem: only stores the bytes. */
struct hashed {
    struct store base;
    struct store *mem;
};

static struct store *mem_of(struct store *store)
{
    return ((struct hashed *)(void *)store)->mem;
}

static struct etag etag_of(struct view bytes)
{
    struct etag etag;
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash_xxh3(bytes));
    check(etag_set(&etag, view_of(text)));
    return etag;
}

/* Reads the whole object. False if it does not exist, or memory runs out. */
static bool load(struct store *store, struct view key, struct buffer *body,
                 struct object_info *ret_info, struct hf_error *error)
{
    *body = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = key, .body = body };
    mem_of(store)->ops->get(mem_of(store), &get, 1);
    *ret_info = get.info;
    *error = get.error;
    if (get.error.status == HF_OK)
        ret_info->etag = etag_of(buffer_view(body));
    else
        buffer_release(body);
    return get.error.status == HF_OK;
}

static void hashed_get(struct store *store, struct get_call *call, size_t count)
{
    struct buffer body;
    struct object_info info;
    uint64_t length;
    check(count == 1);
    bool there = load(store, call->key, &body, &info, &call->error);
    if (!there && call->error.status != HF_NOT_FOUND)
        return;
    if (get_check(call, there ? &info : NULL, &length) == HF_OK)
        get_append(call, view_first(view_from(buffer_view(&body), (size_t)call->offset),
                                    (size_t)length));
    if (there)
        buffer_release(&body);
}

static void hashed_put(struct store *store, struct put_call *call, size_t count)
{
    struct buffer body;
    struct object_info info;
    check(count == 1);
    bool there = load(store, call->key, &body, &info, &call->error);
    if (there)
        buffer_release(&body);
    else if (call->error.status != HF_NOT_FOUND)
        return;
    if (condition_check(&call->condition, there ? &info.etag : NULL, &call->error) != HF_OK)
        return;
    struct put_call put = { .key = call->key, .body = call->body };
    mem_of(store)->ops->put(mem_of(store), &put, 1);
    call->error = put.error;
    if (put.error.status == HF_OK)
        call->etag = etag_of(call->body);
}

static void hashed_remove(struct store *store, struct delete_call *call, size_t count)
{
    struct buffer body;
    struct object_info info;
    struct delete_call removal = { .key = call->key };
    check(count == 1);
    bool there = load(store, call->key, &body, &info, &call->error);
    if (there)
        buffer_release(&body);
    else if (call->error.status != HF_NOT_FOUND)
        return;
    if (condition_check(&call->condition, there ? &info.etag : NULL, &call->error) != HF_OK)
        return;
    mem_of(store)->ops->remove(mem_of(store), &removal, 1);
    call->error = removal.error;
}

static void hashed_list(struct store *store, struct list_call *call)
{
    mem_of(store)->ops->list(mem_of(store), call);
}

static void hashed_get_file(struct store *store, struct get_call *call, int fd,
                            const struct progress *progress)
{
    struct buffer body = BUFFER_INIT(BODY_BYTES_MAX);
    (void)progress;
    call->body = &body;
    hashed_get(store, call, 1);
    call->body = NULL;
    if (call->error.status == HF_OK)
        file_write_at(fd, buffer_view(&body), 0, &call->error);
    buffer_release(&body);
}

static void hashed_put_file(struct store *store, struct put_call *call, int fd,
                            const struct progress *progress)
{
    uint64_t size;
    size_t got;
    (void)progress;
    if (file_size(fd, &size, &call->error) != HF_OK)
        return;
    char *bytes = malloc((size_t)size + 1);
    if (!bytes) {
        error_no_memory(&call->error);
        return;
    }
    if (file_read_at(fd, bytes, (size_t)size, 0, &got, &call->error) == HF_OK) {
        call->body = (struct view){ bytes, got };
        hashed_put(store, call, 1);
        call->body = VIEW("");
    }
    free(bytes);
}

static void hashed_close(struct store *store)
{
    store_close(mem_of(store));
    free(store);
}

static const struct store_ops hashed_ops = {
    .name = "hashed",
    .get = hashed_get,
    .put = hashed_put,
    .remove = hashed_remove,
    .list = hashed_list,
    .get_file = hashed_get_file,
    .put_file = hashed_put_file,
    .close = hashed_close,
};

struct store *hashed_store_open(struct env *env)
{
    struct hf_error error;
    struct hashed *hashed = calloc(1, sizeof *hashed);
    if (!hashed)
        return NULL;
    if (store_open(env, VIEW("mem:"), &hashed->mem, &error) != HF_OK) {
        free(hashed);
        return NULL;
    }
    hashed->base =
        (struct store){ .ops = &hashed_ops, .env = env, .traits = hashed->mem->traits };
    hashed->base.traits.etag_fresh = false;
    hashed->base.traits.delete_conditional = false;
    return &hashed->base;
}
