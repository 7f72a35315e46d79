/* SPDX-License-Identifier: Apache-2.0 */
/* adopt.c: reads a shard of bare records. All records are checked before any is used: an object
 * that is neither such a shard nor one of ours is damaged, and must stay as it is. */
#include "index/adopt.h"

#include "base/check.h"
#include "base/rule.h"

#include <inttypes.h>
#include <stdlib.h>

struct adopting {
    struct shard_cursor *cursor;
    struct arena arena; /* keys with escapes */
    struct record *records;
    size_t count, capacity;
    size_t line;
    uint64_t size; /* of all records */
    record_reader *read;
};

static bool keep_adopted(struct adopting *adopting, const struct record *record,
                         const struct buffer *space)
{
    if (adopting->count == adopting->capacity) {
        size_t capacity = adopting->capacity > 0 ? adopting->capacity * 2 : 1024;
        struct record *records = realloc(adopting->records, capacity * sizeof *records);
        if (!records)
            return false;
        adopting->records = records;
        adopting->capacity = capacity;
    }
    struct record *kept = &adopting->records[adopting->count++];
    *kept = *record;
    if (space->size > 0) /* the next record reuses the space of an unescaped key */
        kept->key = arena_copy(&adopting->arena, record->key);
    return kept->key.data != NULL;
}

static enum hf_status not_adopted(const struct adopting *adopting, const char *why,
                                  struct hf_error *error)
{
    return error_set(error, HF_CORRUPT, "%sline %zu is not a record of it: %s",
                     adopting->cursor->index->schema.plain
                         ? ""
                         : "it does not start like a shard, and ",
                     adopting->line, why);
}

static enum hf_status adopt_line(struct adopting *adopting, struct view bytes,
                                 struct buffer *space, struct hf_error *error)
{
    struct index *index = adopting->cursor->index;
    struct record record;
    struct hf_error why;
    adopting->line++;
    enum hf_status status = adopting->read(&index->schema, bytes, space, &record, NULL, &why);
    if (status == HF_INVALID)
        return not_adopted(adopting, why.why, error);
    if (status != HF_OK) {
        *error = why;
        return status;
    }
    struct shard_id shard = shard_of_key(record.key, index->schema.digits);
    if (strcmp(shard.text, adopting->cursor->shard.text) != 0)
        return not_adopted(adopting, "its key belongs to another shard", error);
    return keep_adopted(adopting, &record, space) ? HF_OK : error_no_memory(error);
}

/* By key; within a key, the latest first. */
static int compare_adopted(const void *a, const void *b)
{
    const struct record *left = a, *right = b;
    int order = view_compare(left->key, right->key);
    return order != 0 ? order : record_compare(right, left);
}

/* Keeps the latest record of each key. */
static void keep_latest(struct adopting *adopting)
{
    size_t kept = 0;
    if (adopting->count > 1)
        qsort(adopting->records, adopting->count, sizeof *adopting->records, compare_adopted);
    for (size_t i = 0; i < adopting->count; i++) {
        const struct record *record = &adopting->records[i];
        if (kept > 0 && view_equal(adopting->records[kept - 1].key, record->key))
            continue;
        adopting->records[kept++] = *record;
        adopting->size += record->bytes.size + strlen(RECORD_END);
    }
    adopting->count = kept;
}

/* Writes the records into the window as one block after another. A block is closed at SHARD_BLOCK
 * bytes, or at more if there would be too many blocks. */
static enum hf_status fill_with_adopted(struct adopting *adopting, struct buffer *window,
                                        struct hf_error *error)
{
    struct shard_head *head = &adopting->cursor->head;
    uint64_t block_bytes = SHARD_BLOCK;
    while (adopting->size / block_bytes >= SHARD_BLOCKS_MAX - 1)
        block_bytes *= 2;
    head->blocks = arena_take(&head->arena, (size_t)(adopting->size / block_bytes + 1) *
                                                sizeof *head->blocks);
    if (!head->blocks || !buffer_reserve(window, (size_t)adopting->size))
        return error_no_memory(error);
    for (size_t i = 0; i < adopting->count; i++) {
        const struct record *record = &adopting->records[i];
        struct shard_block *last =
            head->block_count > 0 ? &head->blocks[head->block_count - 1] : NULL;
        if (!last || last->size >= block_bytes) {
            last = &head->blocks[head->block_count++];
            *last = (struct shard_block){ .at = head->size,
                                          .first_key = arena_copy(&head->arena, record->key) };
            if (!last->first_key.data)
                return error_no_memory(error);
        }
        buffer_append(window, record->bytes);
        buffer_append(window, VIEW(RECORD_END));
        last->size = window->size - last->at;
        head->size = window->size;
        head->records++;
        head->deleted += record->deleted;
    }
    check(!window->failed && head->size == adopting->size);
    return HF_OK;
}

/* The head of an adopted shard: without blocks at first, and with what its sidecar knows, which
 * holds for every version of the shard. */
static struct shard_head adopted_head(const struct shard_cursor *cursor)
{
    const struct schema *schema = &cursor->index->schema;
    const struct shard_head *known = &cursor->sidecar.head;
    return (struct shard_head){
        .version = schema->version_count,
        .schema_hash = schema->versions[schema->version_count - 1].hash,
        .token = known->token,
        .writes = known->writes,
        .has_floor = known->has_floor,
        .floor = known->floor,
        .sealed = known->sealed,
        .sealed_to = known->sealed_to,
        .sealed_at = known->sealed_at,
    };
}

enum hf_status shard_adopt(struct shard_cursor *cursor, struct view text,
                           struct hf_error *error)
{
    struct adopting adopting = { .cursor = cursor, .arena = ARENA_INIT };
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct buffer window = BUFFER_INIT(ADOPT_BYTES_MAX + 2 * DELETIONS_MAX + 1);
    struct view rest = text, bytes, deletions = cursor->sidecar.deletions;
    enum hf_status status = HF_OK;
    cursor->head = adopted_head(cursor);
    /* The deletions of a plain shard are in its sidecar. */
    adopting.read = cursor->index->schema.plain ? record_read : record_read_stored;
    while (status == HF_OK && record_cut(&rest, &bytes))
        status = adopt_line(&adopting, bytes, &space, error);
    bool described = etag_equal(&cursor->etag, &cursor->sidecar.head.of);
    bool outdated = RULE(DELETIONS_OUTLIVE_VERSIONS) && !described;
    adopting.read = record_read_stored;
    while ((described || outdated) && status == HF_OK && record_cut(&deletions, &bytes))
        status = adopt_line(&adopting, bytes, &space, error);
    if (status == HF_OK && adopting.count == 0 && !cursor->index->schema.plain)
        status = error_set(error, HF_CORRUPT, "it is empty");
    if (status == HF_OK) {
        keep_latest(&adopting);
        status = fill_with_adopted(&adopting, &window, error);
    }
    if (status == HF_OK) {
        buffer_release(&cursor->window);
        cursor->window = window;
        cursor->loaded = cursor->rest = buffer_view(&cursor->window);
        cursor->loaded_at = 0;
        cursor->next_block = cursor->head.block_count;
    } else {
        buffer_release(&window);
    }
    buffer_release(&space);
    arena_release(&adopting.arena);
    free(adopting.records);
    return status;
}
