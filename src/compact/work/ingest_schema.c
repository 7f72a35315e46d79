/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_schema.c: the columns with which a new Parquet file must agree. Only the footer of a
 * chunk is read, by one or two ranged gets, into an otherwise empty file of the same size, which
 * is enough to learn the columns. */
#include "compact/catalog/chunk_object.h"
#include "compact/work/ingest_inside.h"
#include "file/bytes.h"
#include "file/new_file.h"
#include "merge/parquet_footer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define TAIL_FIRST  (64 * KIB)         /* holds most footers */
#define TAIL_MAX    ((size_t)16 << 20) /* larger ones are not compared */
#define MAGIC_START "PAR1"

static bool has_parquet(const struct ingest *ingest)
{
    return ingest->settings.format == HF_MERGE_PARQUET;
}

/* The chunk with the most rows, which has the columns of most files that were merged. */
void ingest_choose_schema(struct ingest *ingest, const struct catalog *catalog)
{
    struct chunk_schema *schema = &ingest->schema;
    const struct chunk *best = NULL;
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        if (chunk->quarantine.size == 0 && (!best || chunk->rows > best->rows))
            best = chunk;
    }
    if (!has_parquet(ingest) || !best)
        return;
    struct get_call get = chunk_get_call(best);
    if (get.key.size > KEY_BYTES_MAX)
        return;
    memcpy(schema->key, get.key.data, get.key.size);
    schema->key[get.key.size] = '\0';
    schema->match = get.match;
    schema->size = best->size;
}

static bool read_tail(struct ingest *ingest, uint64_t size, struct buffer *tail)
{
    struct chunk_schema *schema = &ingest->schema;
    struct get_call get = { .key = view_of(schema->key),
                            .match = schema->match,
                            .offset = schema->size - size,
                            .body = tail };
    buffer_clear(tail);
    return store_get(ingest->tree->store, &get) == HF_OK && tail->size == size;
}

/* The size of the footer with its length and magic bytes; 0: unreadable. */
static uint64_t footer_size(const struct buffer *tail)
{
    uint64_t length = 0;
    if (tail->size < 12 || memcmp(tail->data + tail->size - 4, MAGIC_START, 4) != 0)
        return 0;
    for (size_t i = 5; i <= 8; i++)
        length = length << 8 | (uint8_t)tail->data[tail->size - i];
    return length + 8;
}

static bool read_footer(struct ingest *ingest, struct buffer *tail)
{
    uint64_t whole = ingest->schema.size, first = whole < TAIL_FIRST ? whole : TAIL_FIRST;
    if (!read_tail(ingest, first, tail))
        return false;
    uint64_t needed = footer_size(tail);
    if (needed == 0 || needed > TAIL_MAX || needed > whole)
        return false;
    return needed <= first || read_tail(ingest, needed, tail);
}

/* A file of the chunk's size that has only its first and last bytes. */
static bool write_shell(struct chunk_schema *schema, const struct buffer *tail)
{
    schema->fd = nameless_file(scratch_or_usual(NULL));
    if (schema->fd < 0)
        return false;
    snprintf(schema->path, sizeof schema->path, "/proc/self/fd/%d", schema->fd);
    return file_write_at(schema->fd, VIEW(MAGIC_START), 0, NULL) == HF_OK &&
           file_write_at(schema->fd, buffer_view(tail), schema->size - tail->size, NULL) ==
               HF_OK;
}

const char *ingest_schema_path(struct ingest *ingest)
{
    struct chunk_schema *schema = &ingest->schema;
    struct buffer tail = BUFFER_INIT(TAIL_MAX);
    if (!has_parquet(ingest))
        return NULL;
    if (schema->fd < 0 && schema->key[0] &&
        (!read_footer(ingest, &tail) || !write_shell(schema, &tail)))
        ingest_release_schema(ingest);
    buffer_release(&tail);
    schema->key[0] = '\0';
    return schema->fd >= 0 ? schema->path : NULL;
}

void ingest_follow_schema(struct ingest *ingest, const char *path)
{
    struct chunk_schema *schema = &ingest->schema;
    if (!has_parquet(ingest) || schema->fd >= 0)
        return;
    schema->fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(schema->path, sizeof schema->path, "/proc/self/fd/%d", schema->fd);
}

void ingest_release_schema(struct ingest *ingest)
{
    if (ingest->schema.fd >= 0)
        close(ingest->schema.fd);
    ingest->schema.fd = -1;
}
