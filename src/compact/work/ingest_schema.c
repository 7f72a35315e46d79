/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_schema.c: the columns with which a new file must agree. Only a part of one chunk is read:
 * the footer of a Parquet file, by one or two ranged gets, into an otherwise empty file of the same
 * size; or the first bytes of a csv or tsv file, which contain its header. The header matters only
 * if a field is given by number, because that number must stand for the same column everywhere. */
#include "compact/catalog/chunk_object.h"
#include "compact/work/ingest_inside.h"
#include "file/bytes.h"
#include "file/new_file.h"
#include "merge/key.h"
#include "merge/parquet_footer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define HEAD_BYTES  (256 * KIB)        /* holds most headers, even compressed */
#define TAIL_FIRST  (64 * KIB)         /* holds most footers */
#define TAIL_MAX    ((size_t)16 << 20) /* larger ones are not compared */
#define MAGIC_START "PAR1"

static bool is_field_number(struct view text)
{
    struct field field;
    return text.size > 0 && field_parse(text, /* by_name */ false, &field, NULL) == HF_OK &&
           field.number > 0;
}

/* Whether a field of csv or tsv files with a header is given by number. */
static bool has_numbers(const struct compact_settings *settings)
{
    char space[KEY_TEXT_MAX];
    struct merge_key key = { .count = 0 };
    bool is_csv = settings->format == HF_MERGE_CSV || settings->format == HF_MERGE_TSV;
    if (!is_csv || settings->headless)
        return false;
    if (settings->key.size > 0 &&
        key_parse(settings->key, /* by_name */ false, space, &key, NULL) != HF_OK)
        return false;
    bool found = is_field_number(settings->time) || is_field_number(settings->deleted);
    for (size_t i = 0; i < key.count; i++)
        found = found || key.parts[i].field.number > 0;
    return found;
}

static bool has_parquet(const struct ingest *ingest)
{
    return ingest->settings.format == HF_MERGE_PARQUET;
}

/* Whether the files of a partition must agree in anything. */
static bool must_agree(const struct ingest *ingest)
{
    return has_parquet(ingest) || has_numbers(&ingest->settings);
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
    if (!must_agree(ingest) || !best)
        return;
    struct get_call get = chunk_get_call(best);
    if (get.key.size > KEY_BYTES_MAX)
        return;
    memcpy(schema->key, get.key.data, get.key.size);
    schema->key[get.key.size] = '\0';
    schema->match = get.match;
    schema->size = best->size;
}

static bool read_chunk_part(struct ingest *ingest, uint64_t offset, uint64_t size,
                            struct buffer *part)
{
    struct chunk_schema *schema = &ingest->schema;
    struct get_call get = { .key = view_of(schema->key),
                            .match = schema->match,
                            .offset = offset,
                            .length = size,
                            .body = part };
    buffer_clear(part);
    return size > 0 && store_get(ingest->tree->store, &get) == HF_OK && part->size == size;
}

static bool read_chunk_tail(struct ingest *ingest, uint64_t size, struct buffer *tail)
{
    return read_chunk_part(ingest, ingest->schema.size - size, size, tail);
}

static bool read_chunk_head(struct ingest *ingest, struct buffer *head)
{
    uint64_t whole = ingest->schema.size;
    return read_chunk_part(ingest, 0, whole < HEAD_BYTES ? whole : HEAD_BYTES, head);
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
    if (!read_chunk_tail(ingest, first, tail))
        return false;
    uint64_t needed = footer_size(tail);
    if (needed == 0 || needed > TAIL_MAX || needed > whole)
        return false;
    return needed <= first || read_chunk_tail(ingest, needed, tail);
}

static bool make_part_file(struct chunk_schema *schema)
{
    schema->fd = nameless_file(scratch_or_usual(NULL));
    snprintf(schema->path, sizeof schema->path, "/proc/self/fd/%d", schema->fd);
    return schema->fd >= 0;
}

/* A file of the chunk's size that has only its first and last bytes. */
static bool fetch_footer(struct ingest *ingest, struct buffer *tail)
{
    struct chunk_schema *schema = &ingest->schema;
    return read_footer(ingest, tail) && make_part_file(schema) &&
           file_write_at(schema->fd, VIEW(MAGIC_START), 0, NULL) == HF_OK &&
           file_write_at(schema->fd, buffer_view(tail), schema->size - tail->size, NULL) ==
               HF_OK;
}

static bool fetch_header(struct ingest *ingest, struct buffer *head)
{
    struct chunk_schema *schema = &ingest->schema;
    return read_chunk_head(ingest, head) && make_part_file(schema) &&
           file_write_at(schema->fd, buffer_view(head), 0, NULL) == HF_OK;
}

const char *ingest_schema_path(struct ingest *ingest)
{
    struct chunk_schema *schema = &ingest->schema;
    struct buffer part = BUFFER_INIT(TAIL_MAX);
    if (!must_agree(ingest))
        return NULL;
    if (schema->fd < 0 && schema->key[0] &&
        !(has_parquet(ingest) ? fetch_footer(ingest, &part) : fetch_header(ingest, &part)))
        ingest_release_schema(ingest);
    buffer_release(&part);
    schema->key[0] = '\0';
    return schema->fd >= 0 ? schema->path : NULL;
}

void ingest_follow_schema(struct ingest *ingest, const char *path)
{
    struct chunk_schema *schema = &ingest->schema;
    if (!must_agree(ingest) || schema->fd >= 0)
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
