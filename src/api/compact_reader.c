/* SPDX-License-Identifier: Apache-2.0 */
/* compact_reader.c: a reader of the chunks that a partition had at one point in time. The reader
 * pins the chunks, so none of them is deleted before it has been read. */
#include "api/compact_inside.h"
#include "compact/care/pin.h"
#include "compact/care/snapshot.h"

#include <stdlib.h>

#define TTL_USUAL_MS INT64_C(60000)

struct hf_compact_reader {
    struct hf_compact *compact;
    struct snapshot snapshot;
    struct hf_chunk_info *chunks; /* one for each chunk of the snapshot */
    struct arena arena;           /* their strings */
    struct env_mutex mutex;       /* guards `next` */
    size_t next;
};

static bool list_snapshot(struct hf_compact_reader *reader)
{
    const struct snapshot *snapshot = &reader->snapshot;
    reader->chunks = calloc(snapshot->chunk_count + 1, sizeof *reader->chunks);
    bool good = reader->chunks != NULL;
    for (size_t i = 0; good && i < snapshot->chunk_count; i++) {
        const struct snapshot_chunk *chunk = &snapshot->chunks[i];
        /* The name of the catalog ends with a NUL, because it was copied into an arena. */
        good = chunk_info_copy(&reader->arena, chunk->partition.data, HF_CHUNK_LIVE,
                               &chunk->chunk, VIEW(""), &reader->chunks[i]);
    }
    return good;
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
        snapshot_take(compact->tree, used.ttl_ms ? used.ttl_ms : TTL_USUAL_MS,
                      &reader->snapshot, &why);
    if (status == HF_OK && !list_snapshot(reader))
        status = error_no_memory(&why);
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
    snapshot_release(&reader->snapshot);
    free(reader->chunks);
    arena_release(&reader->arena);
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
    if (at < reader->snapshot.chunk_count)
        reader->next++;
    env_mutex_unlock(&reader->mutex);
    if (at == reader->snapshot.chunk_count)
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
    return reader ? reader->snapshot.chunk_count : 0;
}

enum hf_status hf_compact_reader_check(struct hf_compact_reader *reader, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, reader) != HF_OK)
        return HF_INVALID;
    struct hf_error why;
    enum hf_status status = snapshot_check(&reader->snapshot, &why);
    return error_tell(error, status, &why);
}

/* ---- Bytes --------------------------------------------------------------------------- */

enum hf_status hf_compact_reader_fetch(struct hf_compact_reader *reader, const char *key,
                                       int fd, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, reader, key) != HF_OK)
        return HF_INVALID;
    size_t i = 0;
    while (i < reader->snapshot.chunk_count && strcmp(reader->chunks[i].key, key) != 0)
        i++;
    if (i == reader->snapshot.chunk_count)
        return error_set(error, HF_NOT_FOUND, "the chunk is not in the reader's snapshot");
    const struct hf_chunk_info *chunk = &reader->chunks[i];
    const struct chunk asked = { .key = view_of(chunk->key),
                                 .size = chunk->size,
                                 .crc32c = chunk->crc32c,
                                 .object = view_of(chunk->object),
                                 .etag = view_of(chunk->etag) };
    enum hf_status status = pin_read(reader->compact->tree, &asked, fd, &why);
    return error_tell(error, status, &why);
}
