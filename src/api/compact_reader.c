/* SPDX-License-Identifier: Apache-2.0 */
/* compact_reader.c: a reader of the chunks that a partition had at one point in time. The reader
 * pins the chunks, so none of them is deleted before it has been read. */
#include "api/compact_inside.h"
#include "compact/care/pin.h"

#include <stdlib.h>

#define TTL_USUAL_MS INT64_C(60000)

/* If the grace period is short, a chunk may be deleted after the catalog has been read and before
 * the chunk is pinned. The reader then starts again with the new catalog. */
#define OPEN_TRIES 8

struct hf_compact_reader {
    struct hf_compact *compact;
    struct arena arena;
    struct hf_chunk_info *chunks;
    size_t count, room;
    struct hf_lock **pins;
    size_t pin_count;
    struct env_mutex mutex; /* guards `next` */
    size_t next;
};

/* ---- The snapshot -------------------------------------------------------------------- */

static enum hf_status copy_live_chunks(void *argument, struct catalog_ref *ref,
                                       const struct catalog *catalog)
{
    struct hf_compact_reader *reader = argument;
    size_t wanted = reader->count + catalog->live_count;
    if (wanted > reader->room) {
        size_t room = wanted > 2 * reader->room ? wanted : 2 * reader->room;
        struct hf_chunk_info *chunks = realloc(reader->chunks, room * sizeof *chunks);
        if (!chunks)
            return HF_UNAVAILABLE;
        reader->chunks = chunks;
        reader->room = room;
    }
    for (size_t i = 0; i < catalog->live_count; i++)
        if (!chunk_info_copy(&reader->arena, ref, HF_CHUNK_LIVE, &catalog->live[i], VIEW(""),
                             &reader->chunks[reader->count++]))
            return HF_UNAVAILABLE;
    return HF_OK;
}

/* ---- Pins ---------------------------------------------------------------------------- */

/* Groups chunks by home partition, and keeps the order in which they are reported. */
struct home_index {
    struct view home;
    size_t index;
};

static int compare_homes(const void *a, const void *b)
{
    const struct home_index *one = a, *other = b;
    int order = view_compare(one->home, other->home);
    if (order != 0)
        return order;
    return one->index < other->index ? -1 : one->index > other->index;
}

/* Pins chunks of one home partition, up to the maximum per lease. */
static enum hf_status pin_some(struct hf_compact_reader *reader,
                               const struct home_index *indexes, size_t count, int64_t ttl_ms,
                               size_t *ret_pinned, struct hf_error *error)
{
    const char *keys[PIN_CHUNKS_MAX];
    size_t pinned = 0;
    while (pinned < count && pinned < PIN_CHUNKS_MAX &&
           view_equal(indexes[pinned].home, indexes[0].home)) {
        keys[pinned] = reader->chunks[indexes[pinned].index].key;
        pinned++;
    }
    enum hf_status status = pin_take(reader->compact->tree, keys, pinned, ttl_ms,
                                     &reader->pins[reader->pin_count], error);
    if (status == HF_OK) {
        reader->pin_count++;
        *ret_pinned = pinned;
    }
    return status;
}

static enum hf_status pin_all(struct hf_compact_reader *reader, int64_t ttl_ms,
                              struct hf_error *error)
{
    size_t count = reader->count;
    struct home_index *indexes = calloc(count + 1, sizeof *indexes);
    enum hf_status status = HF_OK;
    reader->pins = calloc(count + 1, sizeof(struct hf_lock *));
    if (!indexes || !reader->pins) {
        free(indexes);
        return error_no_memory(error);
    }
    for (size_t i = 0; i < count; i++)
        indexes[i] = (struct home_index){ layout_home(view_of(reader->chunks[i].key)), i };
    qsort(indexes, count, sizeof *indexes, compare_homes);
    size_t done = 0, pinned = 0;
    while (done < count && status == HF_OK) {
        status = pin_some(reader, &indexes[done], count - done, ttl_ms, &pinned, error);
        done += pinned;
    }
    free(indexes);
    return status;
}

static void release_snapshot(struct hf_compact_reader *reader)
{
    struct hf_error ignored; /* a pin that is not released expires */
    for (size_t i = 0; i < reader->pin_count; i++) {
        hf_lock_release(reader->pins[i], &ignored);
        hf_lock_free(reader->pins[i]);
    }
    free(reader->pins);
    free(reader->chunks);
    arena_release(&reader->arena);
    reader->pins = NULL;
    reader->chunks = NULL;
    reader->arena = ARENA_INIT;
    reader->count = reader->room = reader->pin_count = 0;
}

static enum hf_status take_snapshot(struct hf_compact_reader *reader, int64_t ttl_ms,
                                    struct hf_error *error)
{
    struct compact_walk walk = { .look = copy_live_chunks, .argument = reader, .whole = true };
    for (int i = 0;; i++) {
        enum hf_status status = compact_walk(reader->compact, &walk, error);
        if (status != HF_OK)
            return status;
        status = pin_all(reader, ttl_ms, error);
        if (status != HF_NOT_FOUND)
            return status;
        if (i + 1 == OPEN_TRIES)
            return error_set(
                error, HF_UNAVAILABLE,
                "chunks are deleted faster than they can be pinned; increase the grace period");
        release_snapshot(reader);
    }
}

/* ---- The calls ----------------------------------------------------------------------- */

enum hf_status hf_compact_reader_open(struct hf_compact *compact,
                                      const struct hf_compact_reader_options *options,
                                      struct hf_compact_reader **ret_reader,
                                      struct hf_error *error)
{
    struct hf_compact_reader_options used = HF_COMPACT_READER_OPTIONS;
    struct hf_error why;
    if (ret_reader)
        *ret_reader = NULL;
    if (ERROR_IF_NULL(&why, compact, ret_reader) != HF_OK ||
        READ_OPTIONS(HF_COMPACT_READER_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct hf_compact_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return error_no_memory(error);
    reader->compact = compact_keep(compact);
    reader->arena = ARENA_INIT;
    env_mutex_init(client_env(compact->client), &reader->mutex);
    client_active(compact->client);
    enum hf_status status =
        take_snapshot(reader, used.ttl_ms ? used.ttl_ms : TTL_USUAL_MS, &why);
    if (status == HF_OK)
        *ret_reader = reader;
    else
        hf_compact_reader_close(reader);
    return error_tell(error, status, &why);
}

void hf_compact_reader_close(struct hf_compact_reader *reader)
{
    if (!reader)
        return;
    release_snapshot(reader);
    env_mutex_release(&reader->mutex);
    hf_compact_close(reader->compact);
    free(reader);
}

enum hf_status hf_compact_reader_next(struct hf_compact_reader *reader,
                                      struct hf_chunk_info *ret_chunk, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, reader, ret_chunk) != HF_OK ||
        CHECK_REPORT(HF_CHUNK_INFO, ret_chunk, error) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&reader->mutex);
    size_t at = reader->next;
    if (at < reader->count)
        reader->next++;
    env_mutex_unlock(&reader->mutex);
    if (at == reader->count)
        return error_set(error, HF_NOT_FOUND, "there are no more chunks");
    write_caller_report(ret_chunk, &reader->chunks[at], sizeof reader->chunks[at]);
    return error_clear(error);
}

void hf_compact_reader_rewind(struct hf_compact_reader *reader)
{
    if (!reader)
        return;
    env_mutex_lock(&reader->mutex);
    reader->next = 0;
    env_mutex_unlock(&reader->mutex);
}

uint64_t hf_compact_reader_count(struct hf_compact_reader *reader)
{
    return reader ? reader->count : 0;
}

enum hf_status hf_compact_reader_check(struct hf_compact_reader *reader, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, reader) != HF_OK)
        return HF_INVALID;
    for (size_t i = 0; i < reader->pin_count; i++) {
        enum hf_status status = hf_lock_check(reader->pins[i], error);
        if (status != HF_OK)
            return status;
    }
    return error_clear(error);
}

/* ---- Bytes --------------------------------------------------------------------------- */

enum hf_status hf_compact_reader_fetch(struct hf_compact_reader *reader, const char *key,
                                       int fd, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, reader, key) != HF_OK)
        return HF_INVALID;
    size_t i = 0;
    while (i < reader->count && strcmp(reader->chunks[i].key, key) != 0)
        i++;
    if (i == reader->count)
        return error_set(error, HF_NOT_FOUND, "the chunk is not in the reader's snapshot");
    const struct hf_chunk_info *chunk = &reader->chunks[i];
    enum hf_status status =
        pin_read(reader->compact->tree, view_of(key), chunk->size, chunk->crc32c, fd, &why);
    return error_tell(error, status, &why);
}
