/* SPDX-License-Identifier: Apache-2.0 */
/* fenced.c: writes fenced objects: first the body, if it is large, then the fence, by
 * compare-and-swap. A body is deleted only if a later fence is known to have replaced the fence
 * that named it, or if the fence that would have named it can never be written. A writer that
 * dies in between leaves a body that nothing names. */
#include "lock/fenced.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "lock/body.h"
#include "lock/fenced_inside.h"
#include "lock/handle.h"
#include "store/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* How many times a write is tried if other writes with the same lease come in between. The numbers
 * of the tries lie between the numbers of two calls. */
#define TRIES_MAX   32
#define TRIES_PAUSE SPAN_MS(20)

/* ---- The fence as a document --------------------------------------------------------- */

static enum hf_status decode_fence_doc(struct view bytes, struct mono_time arrived,
                                       const void *previous, void **ret_body,
                                       struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    struct fence *fence = malloc(sizeof *fence);
    if (!fence)
        return error_no_memory(error);
    enum hf_status status = fence_decode(bytes, fence, error);
    if (status == HF_OK)
        *ret_body = fence;
    else
        free(fence);
    return status;
}

static void *new_fence_doc(void *context)
{
    (void)context;
    return calloc(1, sizeof(struct fence));
}

static bool encode_fence_doc(const void *body, struct view nonce, struct buffer *text)
{
    return fence_encode(body, nonce, text);
}

static const struct doc_type fence_type = {
    .bytes_max = FENCE_BYTES_MAX,
    .decode = decode_fence_doc,
    .birth = new_fence_doc,
    .encode = encode_fence_doc,
    .free = free,
};

/* ---- A write ------------------------------------------------------------------------- */

/* The content: bytes, or, if `fd` is not -1, the contents of that file. */
struct content {
    enum fence_kind kind;
    struct view bytes;
    int fd;
    uint64_t size;
    uint64_t xxh3;
};

struct write {
    struct doc_op op; /* must be the first member */
    struct hf_lock *lock;
    struct view key;
    struct fence_writer by;
    const struct content *content;
    char name[KEY_BYTES_MAX + 1]; /* our body's, if it has one */
    bool tried;                   /* a fence of ours was sent ... */
    struct fence_stamp over;      /* ... most recently to replace this one */
    struct {                      /* the same before the last attempt */
        bool tried;
        struct fence_stamp over;
    } before;
    enum fence_outcome outcome;
    bool seen;            /* our write was there at some time, or may have been */
    size_t replaced_size; /* the body that our fence replaced */
    char replaced[KEY_BYTES_MAX + 1];
};

/* Whether we still hold the lease under which the write began. */
static enum hf_status check_write_lease(void *argument, struct hf_error *error)
{
    const struct write *write = argument;
    struct hf_lock *lock = write->lock;
    struct env_mutex *mutex = &lock->client->keeper.mutex;
    env_mutex_lock(mutex);
    enum hf_status status = lock_check_locked(lock);
    bool same = lock->token == write->by.stamp.token;
    env_mutex_unlock(mutex);
    if (status == HF_NOT_FOUND || !same)
        return error_set(error, HF_EXPIRED, "the lock was released during the write");
    return status == HF_OK ? HF_OK : error_set(error, status, "%s", hf_status_text(status));
}

/* Replaces the fence's content with our write. */
static enum hf_status fill_fence(struct write *write, struct fence *fence,
                                 struct hf_error *error)
{
    const struct content *content = write->content;
    const struct fence_stamp over = fence->stamp;
    enum hf_status status = fence_sign(fence, &write->by, error);
    if (status != HF_OK)
        return status;
    struct view replaced = fence->kind == FENCE_BODY ? fence_text(fence) : VIEW("");
    memcpy(write->replaced, replaced.data, replaced.size);
    write->replaced_size = replaced.size;
    write->over = over;
    write->tried = true;
    fence->kind = content->kind;
    fence->size = content->size;
    fence->xxh3 = content->xxh3;
    fence_set_text(fence, content->kind == FENCE_BODY     ? view_of(write->name)
                          : content->kind == FENCE_INLINE ? content->bytes
                                                          : VIEW(""));
    return HF_OK;
}

/* The lease is checked last, because a write that is found in place was made while the lease was
 * valid. CONFLICT: the write must start again with another number and another name for its body.
 * It may then appear twice, but is never lost. */
static enum hf_status apply_fenced_write(struct doc_op *op, void *body,
                                         const struct evidence *evidence)
{
    struct write *write = (struct write *)(void *)op;
    struct fence *fence = body;
    (void)evidence;
    write->before.tried = write->tried;
    write->before.over = write->over;
    if (fence->kind == FENCE_BODY && !fenced_is_body_of(write->key, fence_text(fence)))
        return fenced_strange_body(&op->error);
    enum hf_status status = fence_check_writer(fence, &write->by, &write->outcome, &op->error);
    bool gone = write->tried && fence_may_be_gone(fence, &write->by.stamp, &write->over);
    write->seen = write->seen || gone || (status == HF_OK && write->outcome == FENCE_DONE);
    if (status != HF_OK || write->outcome != FENCE_WRITE)
        return status;
    /* If the write were repeated with the same number, two versions could have the same stamp, and
     * another process could mistake one for the other and name a deleted body. */
    if (gone)
        return error_set(&op->error, HF_CONFLICT,
                         "another process is writing with the same lease");
    status = check_write_lease(write, &op->error);
    if (RULE(FENCE_ASKS_THE_LEASE) && status != HF_OK)
        return status;
    status = fill_fence(write, fence, &op->error);
    op->changed = status == HF_OK;
    return status;
}

/* The last attempt was not sent, so our fence was not there. */
static void forget_fenced_attempt(struct doc_op *op)
{
    struct write *write = (struct write *)(void *)op;
    write->tried = write->before.tried;
    write->over = write->before.over;
}

/* ---- Bodies -------------------------------------------------------------------------- */

static void name_body(struct write *write)
{
    char nonce[NONCE_SIZE + 1];
    env_random_hex(write->lock->client->env, NONCE_SIZE, nonce);
    int size =
        snprintf(write->name, sizeof write->name,
                 "%.*s" LAYOUT_BODY_FOLDER "%" PRIu64 "-%" PRIu64 "-%s", VIEW_ARGS(write->key),
                 write->by.stamp.token, write->by.stamp.seq, nonce);
    check(size > 0 && (size_t)size < sizeof write->name);
}

/* Deletes the previous body if another fence is known to have replaced its fence, and our own body
 * if its fence is known not to be in place and never will be. */
static void discard_bodies(const struct write *write, enum hf_status status)
{
    struct hf_client *client = write->lock->client;
    bool stands = status == HF_OK && write->outcome != FENCE_SUPERSEDED;
    bool still_named = RULE(OLD_BODY_AFTER_THE_SWAP) && status != HF_OK;
    if (!still_named && write->replaced_size > 0)
        body_discard(client, (struct view){ write->replaced, write->replaced_size });
    /* After UNSURE the fence may still take effect and name the body, so the body stays. */
    bool may_stand = stands || (RULE(UNSURE_KEEPS_BODY) && status == HF_UNSURE);
    if (!may_stand && write->name[0] != '\0')
        body_discard(client, view_of(write->name));
}

/* ---- Cached fences ------------------------------------------------------------------- */

#define FENCES_IDLE_MAX 64

struct warm_fence {
    struct doc *doc;
    size_t users;
    struct warm_fence *next; /* of the idle ones */
};

void fence_cache_init(struct fence_cache *cache, struct env *env)
{
    *cache = (struct fence_cache){ .fences = MAP_INIT };
    env_mutex_init(env, &cache->mutex);
}

static void warm_free(struct warm_fence *warm)
{
    doc_free(warm->doc);
    free(warm);
}

/* Takes the least recently used fence out of the cache. */
static struct warm_fence *take_oldest_locked(struct fence_cache *cache)
{
    struct warm_fence *oldest = cache->idle;
    cache->idle = oldest->next;
    cache->idle_count--;
    map_take(&cache->fences, doc_key(oldest->doc));
    return oldest;
}

void fence_cache_release(struct fence_cache *cache)
{
    while (cache->idle)
        warm_free(take_oldest_locked(cache));
    check(cache->fences.count == 0);
    map_release(&cache->fences);
    env_mutex_release(&cache->mutex);
}

static struct warm_fence *warm_add_locked(struct hf_client *client, struct view key)
{
    struct warm_fence *warm = calloc(1, sizeof *warm);
    void *old;
    if (!warm)
        return NULL;
    if (doc_new(client->store, &client->clock, key, &fence_type, /* context */ NULL, &warm->doc,
                NULL) != HF_OK) {
        free(warm);
        return NULL;
    }
    if (!map_put(&client->fences.fences, doc_key(warm->doc), warm, &old)) {
        warm_free(warm);
        return NULL;
    }
    return warm;
}

/* NULL if out of memory. */
static struct warm_fence *warm_take(struct hf_client *client, struct view key)
{
    struct fence_cache *cache = &client->fences;
    env_mutex_lock(&cache->mutex);
    struct warm_fence *warm = map_get(&cache->fences, key);
    if (warm && warm->users == 0) {
        struct warm_fence **at = &cache->idle;
        while (*at != warm)
            at = &(*at)->next;
        *at = warm->next;
        cache->idle_count--;
    }
    if (!warm)
        warm = warm_add_locked(client, key);
    if (warm)
        warm->users++;
    env_mutex_unlock(&cache->mutex);
    return warm;
}

static void warm_drop(struct hf_client *client, struct warm_fence *warm)
{
    struct fence_cache *cache = &client->fences;
    struct warm_fence *oldest = NULL;
    env_mutex_lock(&cache->mutex);
    if (--warm->users == 0) {
        struct warm_fence **at = &cache->idle;
        while (*at)
            at = &(*at)->next;
        warm->next = NULL;
        *at = warm;
        cache->idle_count++;
    }
    if (cache->idle_count > FENCES_IDLE_MAX)
        oldest = take_oldest_locked(cache);
    env_mutex_unlock(&cache->mutex);
    if (oldest)
        warm_free(oldest);
}

/* ---- Writing ------------------------------------------------------------------------- */

static enum hf_status swap_fence(struct write *write, struct hf_error *error)
{
    struct hf_client *client = write->lock->client;
    struct warm_fence *warm = warm_take(client, write->key);
    if (!warm)
        return error_no_memory(error);
    write->op.deadline = client_deadline(client);
    enum hf_status status = doc_update(warm->doc, &write->op);
    warm_drop(client, warm);
    *error = write->op.error;
    struct fence fence;
    struct hf_error why;
    /* src/doc reports CORRUPT for an object that is too long to be a document. Such an object was
     * never a fence, so the caller gets MISMATCH. */
    if (status == HF_CORRUPT &&
        fenced_read_fence(client, write->key, &fence, &why) == HF_MISMATCH) {
        *error = why;
        return error->status;
    }
    return status;
}

/* CONFLICT: start again. */
static enum hf_status write_fenced_once(struct write *write, struct hf_error *error)
{
    const struct content *content = write->content;
    enum hf_status status = HF_OK;
    write->op = (struct doc_op){ .apply = apply_fenced_write, .unsent = forget_fenced_attempt };
    write->tried = false;
    write->replaced_size = 0;
    if (content->kind == FENCE_BODY) {
        name_body(write);
        struct body body = { view_of(write->name), content->bytes, content->fd, content->size };
        status = body_put(write->lock->client, &body, check_write_lease, write, error);
        MUTANT(mutant_writes_fence_without_body(&status));
    }
    if (status == HF_OK)
        status = swap_fence(write, error);
    /* Readers may have seen the write before it was overwritten. A refusal now does not undo that,
     * so the outcome is UNSURE. */
    enum hf_status told = status;
    if (RULE(SEEN_IS_NOT_UNDONE) && write->seen && status != HF_OK && status != HF_CONFLICT) {
        error_prefix(error, "the write may have taken effect before");
        error->status = told = HF_UNSURE;
    }
    /* A fence that was refused as FENCED is not in place and never will be, so its body can be
     * deleted even if the outcome is reported as UNSURE. */
    discard_bodies(write, status == HF_FENCED ? status : told);
    return told;
}

static enum hf_status write_until_settled(struct write *write, uint64_t call,
                                          struct hf_error *error)
{
    struct env *env = write->lock->client->env;
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        if (tries > 1)
            env_sleep(env, env_jitter(env, TRIES_PAUSE));
        write->by.stamp.seq = call * TRIES_MAX + tries;
        enum hf_status status = write_fenced_once(write, error);
        if (status != HF_CONFLICT)
            return status;
    }
    return error->status = HF_UNSURE;
}

static enum hf_status write_content(struct hf_lock *lock, struct view key,
                                    const struct content *content, struct hf_error *error)
{
    struct write write = {
        .lock = lock,
        .key = key,
        .by = { .scopes = lock->scopes, .scope_count = lock->scope_count },
        .content = content,
    };
    struct view table = doc_key(lock->ref->doc);
    uint64_t call;
    memcpy(write.by.stamp.table, table.data, table.size);
    memcpy(write.by.stamp.session, lock->client->session, NONCE_SIZE);
    enum hf_status status = fenced_check_key(lock->client, key, error);
    if (status == HF_OK && view_equal(key, table))
        status = error_set(error, HF_INVALID, "the key belongs to the lock's own table");
    if (RULE(WRITER_HOLDS_ALONE) && status == HF_OK && lock->options.mode != HF_EXCLUSIVE)
        status = error_set(error, HF_MISMATCH,
                           "fenced objects need an exclusive lock; a shared lock or one with "
                           "slots may have other holders");
    if (status == HF_OK)
        status = lock_fence(lock, &write.by.stamp.token, &call, error);
    return status == HF_OK ? write_until_settled(&write, call, error) : status;
}

enum hf_status fenced_write(struct hf_lock *lock, struct view key, struct view bytes,
                            struct hf_error *error)
{
    struct content content = { .kind =
                                   bytes.size <= FENCE_INLINE_MAX ? FENCE_INLINE : FENCE_BODY,
                               .bytes = bytes,
                               .fd = -1,
                               .size = bytes.size,
                               .xxh3 = hash_xxh3(bytes) };
    if (bytes.size > BODY_BYTES_MAX)
        return error_set(error, HF_INVALID,
                         "%zu bytes are too many for one call; use hf_fenced_put_file",
                         bytes.size);
    return write_content(lock, key, &content, error);
}

static enum hf_status write_fenced_file(struct hf_lock *lock, struct view key, int fd,
                                        struct hf_error *error)
{
    struct content content = { .kind = FENCE_BODY, .fd = fd };
    char bytes[FENCE_INLINE_MAX];
    size_t size;
    enum hf_status status = file_size(fd, &content.size, error);
    if (status == HF_OK && content.size <= FENCE_INLINE_MAX) {
        status = file_read_at(fd, bytes, sizeof bytes, 0, &size, error);
        return status == HF_OK ? fenced_write(lock, key, (struct view){ bytes, size }, error)
                               : status;
    }
    if (status == HF_OK)
        status = fenced_hash_file(fd, content.size, &content.xxh3, error);
    return status == HF_OK ? write_content(lock, key, &content, error) : status;
}

/* ---- The calls ----------------------------------------------------------------------- */

enum hf_status hf_fenced_put(struct hf_lock *lock, const char *key, const void *data,
                             size_t size, struct hf_error *error)
{
    struct hf_error why;
    if (size == 0)
        data = "";
    if (ERROR_IF_NULL(error, lock, key, data) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    return error_tell(error,
                      fenced_write(lock, view_of(key), (struct view){ data, size }, &why),
                      &why);
}

enum hf_status hf_fenced_put_file(struct hf_lock *lock, const char *key, int fd,
                                  struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, lock, key) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    return error_tell(error, write_fenced_file(lock, view_of(key), fd, &why), &why);
}

enum hf_status hf_fenced_delete(struct hf_lock *lock, const char *key, struct hf_error *error)
{
    struct hf_error why;
    struct content nothing = {
        .kind = FENCE_DELETED, .bytes = VIEW(""), .fd = -1, .xxh3 = hash_xxh3(VIEW(""))
    };
    if (ERROR_IF_NULL(error, lock, key) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    return error_tell(error, write_content(lock, view_of(key), &nothing, &why), &why);
}
