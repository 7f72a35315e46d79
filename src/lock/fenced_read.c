/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_read.c: reads fenced objects: first the fence, then the body that it names. If a writer
 * replaces the fence and deletes the body in between, the reader starts again. So it always
 * returns one complete version. */
#include "base/hash.h"
#include "base/layout.h"
#include "base/utf8.h"
#include "lock/fenced.h"
#include "lock/fenced_inside.h"
#include "store/stream.h"

#include <stdlib.h>

/* How many times a reader tries again if the body is gone. */
#define READ_TRIES_MAX 16

/* "<token>-<seq>-<nonce>", after the folder of bodies. */
#define BODY_NAME_MAX   (20 + 1 + 20 + 1 + NONCE_SIZE)
#define FENCED_KEY_MAX  (KEY_BYTES_MAX - (sizeof LAYOUT_BODY_FOLDER - 1) - BODY_NAME_MAX)
#define HOLDFAST_FOLDER VIEW(".holdfast/")

/* ---- Keys ---------------------------------------------------------------------------- */

/* Removes a prefix; false if the text does not start with it. */
static bool cut_prefix(struct view *text, struct view start)
{
    if (!view_starts_with(*text, start))
        return false;
    *text = view_from(*text, start.size);
    return true;
}

/* Recognises only the tables of the client's own namespace, because it does not know the other
 * namespaces. */
static bool is_lease_table(const struct hf_client *client, struct view key)
{
    struct view rest = key;
    if (view_starts_with(key, VIEW(LAYOUT_CHUNK_FOLDER)) &&
        view_ends_with(key, VIEW(LAYOUT_CHUNK_TABLE)))
        return true;
    if (table_key_is_of_shard(key))
        return true;
    return cut_prefix(&rest, view_of(client->space.ns)) &&
           (view_equal(rest, VIEW(LAYOUT_PATHS)) ||
            (view_starts_with(rest, VIEW(LAYOUT_PAGES_FOLDER)) && table_key_is_ours(key)) ||
            view_starts_with(rest, VIEW(LAYOUT_META_FOLDER)) ||
            view_starts_with(rest, VIEW(LAYOUT_INODE_FOLDER)));
}

enum hf_status fenced_check_key(const struct hf_client *client, struct view key,
                                struct hf_error *error)
{
    if (key.size == 0 || key.size > FENCED_KEY_MAX)
        return error_set(error, HF_INVALID,
                         "the key of a fenced object must be 1 to %zu bytes long, not %zu",
                         FENCED_KEY_MAX, key.size);
    if (!utf8_is_text(key))
        return error_set(error, HF_INVALID, "the key of a fenced object must be UTF-8 text");
    if (view_starts_with(key, HOLDFAST_FOLDER))
        return error_set(error, HF_INVALID, "keys under .holdfast/ are reserved for Holdfast");
    if (memmem(key.data, key.size, LAYOUT_BODY_FOLDER, sizeof LAYOUT_BODY_FOLDER - 1))
        return error_set(error, HF_INVALID,
                         "keys in a folder '...%s' are reserved for bodies of fenced objects",
                         LAYOUT_BODY_FOLDER);
    if (is_lease_table(client, key))
        return error_set(error, HF_INVALID, "the key belongs to a lease table");
    return HF_OK;
}

bool fenced_is_body_of(struct view key, struct view name)
{
    return cut_prefix(&name, key) && cut_prefix(&name, VIEW(LAYOUT_BODY_FOLDER)) &&
           name.size > 0;
}

enum hf_status fenced_strange_body(struct hf_error *error)
{
    return error_set(error, HF_CORRUPT,
                     "the fence names a body of another object: it was copied to this key");
}

/* ---- Files --------------------------------------------------------------------------- */

enum hf_status fenced_hash_file(int fd, uint64_t size, uint64_t *ret_xxh3,
                                struct hf_error *error)
{
    struct hash_stream hash;
    char *piece = malloc(STREAM_PIECE);
    if (!piece)
        return error_no_memory(error);
    hash_stream_init(&hash);
    enum hf_status status = HF_OK;
    uint64_t done = 0;
    while (status == HF_OK && done < size) {
        size_t wanted = size - done < STREAM_PIECE ? (size_t)(size - done) : STREAM_PIECE;
        size_t got = 0;
        status = file_read_at(fd, piece, wanted, done, &got, error);
        if (status == HF_OK && got < wanted)
            status =
                error_set(error, HF_CORRUPT, "the file became shorter while it was being read");
        hash_stream_add(&hash, (struct view){ piece, got });
        done += got;
    }
    free(piece);
    if (status == HF_OK)
        *ret_xxh3 = hash_stream_xxh3(&hash);
    return status;
}

/* ---- Destinations -------------------------------------------------------------------- */

/* Where the bytes go: into a buffer or, if `fd` is not -1, into that file, from its start. */
struct sink {
    struct buffer *body;
    int fd;
};

static enum hf_status refuse_wrong_body(struct hf_error *error)
{
    return error_set(error, HF_CORRUPT, "the body is not the one that was written");
}

static enum hf_status read_body_to_buffer(struct hf_client *client, const struct fence *fence,
                                          struct buffer *body, struct hf_error *error)
{
    size_t before = body->size;
    struct get_call get = { .key = fence_text(fence), .length = fence->size, .body = body };
    enum hf_status status = client_get(client, &get);
    *error = get.error;
    if (status == HF_OK && (get.info.size != fence->size ||
                            hash_xxh3(view_from(buffer_view(body), before)) != fence->xxh3))
        status = refuse_wrong_body(error);
    if (status != HF_OK)
        body->size = before;
    return status;
}

static enum hf_status read_body_to_file(struct hf_client *client, const struct fence *fence,
                                        int fd, struct hf_error *error)
{
    struct get_call get = { .key = fence_text(fence) };
    uint64_t xxh3;
    enum hf_status status = store_get_file(client->store, &get, fd, /* progress */ NULL);
    clock_learn(&client->clock, &get.stamp);
    *error = get.error;
    if (status == HF_OK && get.info.size != fence->size)
        status = refuse_wrong_body(error);
    if (status == HF_OK)
        status = fenced_hash_file(fd, fence->size, &xxh3, error);
    if (status == HF_OK && xxh3 != fence->xxh3)
        status = refuse_wrong_body(error);
    return status;
}

/* NOT_FOUND: the body is gone. */
static enum hf_status read_fenced_body(struct hf_client *client, const struct fence *fence,
                                       const struct sink *sink, struct hf_error *error)
{
    if (sink->body && fence->size > sink->body->max - sink->body->size)
        return error_set(error, HF_INVALID,
                         "the object has %llu bytes, more than the %zu allowed",
                         (unsigned long long)fence->size, sink->body->max - sink->body->size);
    enum hf_status status = HF_OK;
    if (fence->kind != FENCE_INLINE)
        status = sink->fd >= 0 ? read_body_to_file(client, fence, sink->fd, error)
                               : read_body_to_buffer(client, fence, sink->body, error);
    else if (sink->fd >= 0)
        status = file_write_at(sink->fd, fence_text(fence), 0, error);
    else if (!buffer_append(sink->body, fence_text(fence)))
        status = error_no_memory(error);
    if (status == HF_OK && sink->fd >= 0) /* an earlier try may have written more */
        status = file_set_size(sink->fd, fence->size, error);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------- */

enum hf_status fenced_read_fence(struct hf_client *client, struct view key, struct fence *fence,
                                 struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(FENCE_BYTES_MAX);
    struct get_call get = { .key = key, .body = &text, .deadline = client_deadline(client) };
    enum hf_status status = client_get(client, &get);
    *error = get.error;
    if (status == HF_OK)
        status = fence_decode(buffer_view(&text), fence, error);
    else if (status == HF_INVALID) /* it is longer than any fence */
        status = error_set(error, HF_MISMATCH, "this is not a fenced object");
    buffer_release(&text);
    if (status == HF_OK && (fence->kind == FENCE_DELETED || fence->kind == FENCE_NONE))
        status = error_set(error, HF_NOT_FOUND, "the object was %s",
                           fence->kind == FENCE_NONE ? "never written" : "deleted");
    if (status == HF_OK && fence->kind == FENCE_BODY &&
        !fenced_is_body_of(key, fence_text(fence)))
        status = fenced_strange_body(error);
    return status;
}

/* If the body is missing, the fence is read again. If it still names that body, no writer has
 * replaced it, so the object is damaged. */
static enum hf_status read_fenced_object(struct hf_client *client, struct view key,
                                         const struct sink *sink, uint64_t *ret_token,
                                         struct hf_error *error)
{
    struct fence fence, before = { .kind = FENCE_NONE };
    enum hf_status status = fenced_check_key(client, key, error);
    if (status != HF_OK)
        return status;
    for (int tries = 0; tries < READ_TRIES_MAX; tries++) {
        status = fenced_read_fence(client, key, &fence, error);
        if (status != HF_OK)
            return status;
        if (before.kind == FENCE_BODY && view_equal(fence_text(&before), fence_text(&fence)))
            return error_set(error, HF_CORRUPT, "the body that the fence names is gone");
        status = read_fenced_body(client, &fence, sink, error);
        if (status == HF_OK && ret_token)
            *ret_token = fence.stamp.token;
        if (status != HF_NOT_FOUND)
            return status;
        before = fence;
    }
    return error_set(error, HF_UNAVAILABLE,
                     "the object is overwritten faster than it can be read; try again");
}

enum hf_status fenced_read(struct hf_client *client, struct view key, struct buffer *body,
                           uint64_t *ret_token, struct hf_error *error)
{
    struct sink sink = { .body = body, .fd = -1 };
    return read_fenced_object(client, key, &sink, ret_token, error);
}

/* ---- The calls ----------------------------------------------------------------------- */

enum hf_status hf_fenced_get(struct hf_client *client, const char *key, size_t size_max,
                             void **ret_data, size_t *ret_size, uint64_t *ret_token,
                             struct hf_error *error)
{
    struct hf_error why;
    struct buffer body = BUFFER_INIT(size_max < BODY_BYTES_MAX ? size_max : BODY_BYTES_MAX);
    uint64_t token;
    if (ERROR_IF_NULL(error, client, key, ret_data, ret_size) != HF_OK)
        return HF_INVALID;
    client_active(client);
    enum hf_status status = fenced_read(client, view_of(key), &body, &token, &why);
    if (status == HF_OK && !buffer_reserve(&body, 0)) /* non-NULL for an empty object too */
        status = error_no_memory(&why);
    if (status != HF_OK) {
        buffer_release(&body);
        if (error)
            *error = why;
        return status;
    }
    *ret_data = body.data;
    *ret_size = body.size;
    if (ret_token)
        *ret_token = token;
    return error_clear(error);
}

/* The file is read back to verify its checksum, so it must be open for reading. */
static enum hf_status check_readable(int fd, struct hf_error *error)
{
    char byte;
    size_t size;
    uint64_t whole;
    enum hf_status status = file_size(fd, &whole, error);
    if (status == HF_OK && file_read_at(fd, &byte, 1, 0, &size, error) != HF_OK)
        status = error_set(error, HF_INVALID, "the file must be open for reading too");
    return status;
}

enum hf_status hf_fenced_get_file(struct hf_client *client, const char *key, int fd,
                                  uint64_t *ret_token, struct hf_error *error)
{
    struct hf_error why;
    struct sink sink = { .fd = fd };
    if (ERROR_IF_NULL(error, client, key) != HF_OK)
        return HF_INVALID;
    client_active(client);
    enum hf_status status = check_readable(fd, &why);
    if (status == HF_OK)
        status = read_fenced_object(client, view_of(key), &sink, ret_token, &why);
    return error_tell(error, status, &why);
}
