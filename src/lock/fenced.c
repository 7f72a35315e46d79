/* fenced.c: writing fenced objects: the body first, where it is large, then the fence by
 * compare-and-swap. Reading them is in fenced_read.c.
 *
 * A body has a name that was never used before, so it is written once and never changes. It is
 * deleted in two cases only: a later fence is known to stand in the place of the one that named
 * it, or the fence that would have named it is known never to be written. Whoever dies in between
 * leaves a body that nothing names. */
#include "lock/fenced.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/rule.h"
#include "lock/body.h"
#include "lock/fenced_inside.h"
#include "lock/handle.h"
#include "store/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* How often a write is begun anew because another with the same lease came in between; the numbers
 * of its tries lie between those of two calls. */
#define TRIES_MAX   32
#define TRIES_PAUSE SPAN_MS(20)

/* ---- The fence as a document --------------------------------------------------------- */

static enum hf_status decode(struct view bytes, struct mono_time arrived, const void *previous,
                             void **ret_body, struct hf_error *error)
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

static enum hf_status birth(void *context, struct view key, struct mono_time deadline,
                            void **ret_body, struct etag *ret_etag, struct hf_error *error)
{
    (void)context;
    (void)key;
    (void)deadline;
    (void)ret_etag;
    *ret_body = calloc(1, sizeof(struct fence));
    return *ret_body ? HF_OK : error_no_memory(error);
}

static bool encode(const void *body, struct view nonce, struct buffer *text)
{
    return fence_encode(body, nonce, text);
}

static const struct doc_type fence_type = {
    .bytes_max = FENCE_BYTES_MAX,
    .decode = decode,
    .birth = birth,
    .encode = encode,
    .free = free,
};

/* ---- A write ------------------------------------------------------------------------- */

/* What is written: bytes, or, with a file that is not -1, its contents. */
struct content {
    enum fence_kind kind;
    struct view bytes;
    int fd;
    uint64_t size;
    uint64_t xxh3;
};

struct write {
    struct doc_op op; /* must stand first */
    struct hf_lock *lock;
    struct view key;
    struct fence_writer by;
    const struct content *content;
    char name[KEY_BYTES_MAX + 1]; /* of our body, if it has one */
    bool tried;                   /* a fence of ours was sent, ... */
    struct fence_stamp over;      /* ... at last over this one */
    enum fence_outcome outcome;
    bool seen;            /* it was there at some time, or may have been */
    size_t replaced_size; /* the body that our fence took the place of */
    char replaced[KEY_BYTES_MAX + 1];
};

/* Whether the lease under which the write began is still ours. */
static enum hf_status check_lease(const struct write *write, struct hf_error *error)
{
    struct hf_lock *lock = write->lock;
    struct env_mutex *mutex = &lock->client->keeper.mutex;
    env_mutex_lock(mutex);
    enum hf_status status = lock_check_locked(lock);
    bool same = lock->token == write->by.stamp.token;
    env_mutex_unlock(mutex);
    if (status == HF_NOT_FOUND || !same)
        return error_set(error, HF_EXPIRED, "the lock was released meanwhile");
    return status == HF_OK ? HF_OK : error_set(error, status, "%s", hf_status_text(status));
}

/* Puts our write into the place of what the fence says. */
static enum hf_status go_over(struct write *write, struct fence *fence, struct hf_error *error)
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

/* What has happened already happened in time, so the lease is asked last. CONFLICT: the write
 * needs another number, and its body another name; it may appear twice, but is never lost. */
static enum hf_status apply(struct doc_op *op, void *body, const struct evidence *evidence)
{
    struct write *write = (struct write *)(void *)op;
    struct fence *fence = body;
    (void)evidence;
    if (fence->kind == FENCE_BODY && !fenced_is_body_of(write->key, fence_text(fence)))
        return fenced_strange_body(&op->error);
    enum hf_status status = fence_judge(fence, &write->by, &write->outcome, &op->error);
    bool gone = write->tried && fence_may_be_gone(fence, &write->by.stamp, &write->over);
    write->seen = write->seen || gone || (status == HF_OK && write->outcome == FENCE_DONE);
    if (status != HF_OK || write->outcome != FENCE_WRITE)
        return status;
    if (gone)
        return error_set(&op->error, HF_CONFLICT, "others write with the same lease");
    status = check_lease(write, &op->error);
    if (status != HF_OK && RULE(FENCE_ASKS_THE_LEASE))
        return status;
    status = go_over(write, fence, &op->error);
    op->changed = status == HF_OK;
    return status;
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

static enum hf_status check_again(void *argument, struct hf_error *error)
{
    return check_lease(argument, error);
}

static enum hf_status put_body(struct write *write, struct hf_error *error)
{
    const struct content *content = write->content;
    struct body body = { view_of(write->name), content->bytes, content->fd, content->size };
    return body_put(write->lock->client, &body, check_again, write, error);
}

/* What a write leaves over: the body before it, once another is known to stand in its place; our
 * own, once it certainly does not stand and never will. */
static void clear_up(const struct write *write, enum hf_status status)
{
    struct hf_client *client = write->lock->client;
    bool stands = status == HF_OK && write->outcome != FENCE_SUPERSEDED;
    bool swapped = status == HF_OK || !RULE(OLD_BODY_AFTER_THE_SWAP);
    if (swapped && write->replaced_size > 0)
        body_discard(client, (struct view){ write->replaced, write->replaced_size });
    bool may_stand = stands || (status == HF_UNSURE && RULE(UNSURE_KEEPS_BODY));
    if (!may_stand && write->name[0] != '\0')
        body_discard(client, view_of(write->name));
}

/* ---- The shelf ----------------------------------------------------------------------- */

#define SHELF_IDLE_MAX 64

struct warm_fence {
    struct doc *doc;
    size_t users;
    struct warm_fence *next; /* of those that are idle */
};

void fence_shelf_init(struct fence_shelf *shelf, struct env *env)
{
    *shelf = (struct fence_shelf){ .fences = MAP_INIT };
    env_mutex_init(env, &shelf->mutex);
}

static void warm_free(struct warm_fence *warm)
{
    doc_free(warm->doc);
    free(warm);
}

/* Takes the longest unused off the shelf. */
static struct warm_fence *take_oldest_locked(struct fence_shelf *shelf)
{
    struct warm_fence *oldest = shelf->idle;
    shelf->idle = oldest->next;
    shelf->idle_count--;
    map_take(&shelf->fences, doc_key(oldest->doc));
    return oldest;
}

void fence_shelf_release(struct fence_shelf *shelf)
{
    while (shelf->idle)
        warm_free(take_oldest_locked(shelf));
    check(shelf->fences.count == 0);
    map_release(&shelf->fences);
    env_mutex_release(&shelf->mutex);
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

static void leave_idle_locked(struct fence_shelf *shelf, struct warm_fence *warm)
{
    struct warm_fence **at = &shelf->idle;
    while (*at != warm)
        at = &(*at)->next;
    *at = warm->next;
    shelf->idle_count--;
}

static void join_idle_locked(struct fence_shelf *shelf, struct warm_fence *warm)
{
    struct warm_fence **at = &shelf->idle;
    while (*at)
        at = &(*at)->next;
    warm->next = NULL;
    *at = warm;
    shelf->idle_count++;
}

/* NULL without memory. */
static struct warm_fence *warm_take(struct hf_client *client, struct view key)
{
    struct fence_shelf *shelf = &client->fences;
    env_mutex_lock(&shelf->mutex);
    struct warm_fence *warm = map_get(&shelf->fences, key);
    if (warm && warm->users == 0)
        leave_idle_locked(shelf, warm);
    if (!warm)
        warm = warm_add_locked(client, key);
    if (warm)
        warm->users++;
    env_mutex_unlock(&shelf->mutex);
    return warm;
}

static void warm_drop(struct hf_client *client, struct warm_fence *warm)
{
    struct fence_shelf *shelf = &client->fences;
    struct warm_fence *oldest = NULL;
    env_mutex_lock(&shelf->mutex);
    if (--warm->users == 0)
        join_idle_locked(shelf, warm);
    if (shelf->idle_count > SHELF_IDLE_MAX)
        oldest = take_oldest_locked(shelf);
    env_mutex_unlock(&shelf->mutex);
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
    write->op.deadline = mono_add(env_now(client->env), REQUEST_TIME);
    enum hf_status status = doc_update(warm->doc, &write->op);
    warm_drop(client, warm);
    *error = write->op.error;
    struct fence fence;
    struct hf_error why;
    if (status == HF_CORRUPT && /* a document cannot tell what is too long to be one */
        fenced_read_fence(client, write->key, &fence, &why) == HF_MISMATCH) {
        *error = why;
        return error->status;
    }
    return status;
}

static enum hf_status check_alone(const struct hf_lock *lock, struct hf_error *error)
{
    if (lock->options.mode == HF_EXCLUSIVE || !RULE(WRITER_HOLDS_ALONE))
        return HF_OK;
    return error_set(error, HF_MISMATCH,
                     "fenced objects are written under an exclusive lock: others may hold a "
                     "shared one, or one of slots, too");
}

/* Who we are; the token and the number come later. */
static struct fence_writer writer_of(const struct hf_lock *lock)
{
    struct fence_writer writer = { .scopes = lock->scopes, .scope_count = lock->scope_count };
    struct view table = doc_key(lock->place->doc);
    memcpy(writer.stamp.table, table.data, table.size);
    memcpy(writer.stamp.session, lock->client->session, NONCE_SIZE);
    return writer;
}

/* CONFLICT: to be begun anew. */
static enum hf_status write_once(struct write *write, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    write->op = (struct doc_op){ .apply = apply };
    write->tried = false;
    write->replaced_size = 0;
    if (write->content->kind == FENCE_BODY) {
        name_body(write);
        status = put_body(write, error);
        if (status == HF_UNAVAILABLE && !RULE(BODY_BEFORE_FENCE))
            status = HF_OK;
    }
    if (status == HF_OK)
        status = swap_fence(write, error);
    /* A refusal of today does not undo what was there yesterday. */
    enum hf_status told = status;
    if (write->seen && RULE(SEEN_IS_NOT_UNDONE) && status != HF_OK && status != HF_CONFLICT) {
        error_prefix(error, "it may have been written before that");
        error->status = told = HF_UNSURE;
    }
    /* What is fenced stands no more, and never will again. */
    clear_up(write, status == HF_FENCED ? status : told);
    return told;
}

static enum hf_status write_until_settled(struct write *write, uint64_t call,
                                          struct hf_error *error)
{
    struct env *env = write->lock->client->env;
    enum hf_status status = HF_CONFLICT;
    for (unsigned tries = 0; status == HF_CONFLICT && tries < TRIES_MAX; tries++) {
        if (tries > 1)
            env_sleep(env, env_jitter(env, TRIES_PAUSE));
        write->by.stamp.seq = call * TRIES_MAX + tries;
        status = write_once(write, error);
    }
    return status == HF_CONFLICT ? error->status = HF_UNSURE : status;
}

static enum hf_status write_content(struct hf_lock *lock, struct view key,
                                    const struct content *content, struct hf_error *error)
{
    struct write write = {
        .lock = lock, .key = key, .by = writer_of(lock), .content = content
    };
    uint64_t call;
    enum hf_status status = fenced_check_key(lock->client, key, error);
    if (status == HF_OK && view_equal(key, doc_key(lock->place->doc)))
        status = error_set(error, HF_INVALID, "this is the key of the lock's own table");
    if (status == HF_OK)
        status = check_alone(lock, error);
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
        return error_set(error, HF_INVALID, "%zu bytes are too many at once; write a file",
                         bytes.size);
    return write_content(lock, key, &content, error);
}

static enum hf_status write_small_file(struct hf_lock *lock, struct view key, int fd,
                                       struct hf_error *error)
{
    char bytes[FENCE_INLINE_MAX];
    size_t size;
    enum hf_status status = file_read_at(fd, bytes, sizeof bytes, 0, &size, error);
    return status == HF_OK ? fenced_write(lock, key, (struct view){ bytes, size }, error)
                           : status;
}

static enum hf_status write_file(struct hf_lock *lock, struct view key, int fd,
                                 struct hf_error *error)
{
    struct content content = { .kind = FENCE_BODY, .fd = fd };
    enum hf_status status = file_size(fd, &content.size, error);
    if (status == HF_OK && content.size <= FENCE_INLINE_MAX)
        return write_small_file(lock, key, fd, error);
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
    return error_tell(error, write_file(lock, view_of(key), fd, &why), &why);
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
