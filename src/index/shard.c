/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c: writes and parses the header line of a shard, and finds its blocks. The line and the
 * blocks have checksums, so damage is detected before a record is used. */
#include "index/shard.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- The start of the line ----------------------------------------------------------- */

#define BEFORE_LINE  "{\"format\":\"" SHARD_FORMAT "\",\"line\":\""
#define BEFORE_LATER "{\"format\":\"" SHARD_FORMAT_LATER "\",\"line\":\""
#define BEFORE_PLAIN "{\"format\":\"" SHARD_FORMAT_PLAIN "\",\"line\":\""
#define BEFORE_CHECK "\",\"check\":\""

#define LINE_DIGITS  8
#define CHECK_DIGITS 8
#define LINE_AT      (sizeof BEFORE_LINE - 1)
#define CHECK_AT     (LINE_AT + LINE_DIGITS + sizeof BEFORE_CHECK - 1)
#define CHECKED_AT   (CHECK_AT + CHECK_DIGITS + 1) /* after the quote */

static_assert(sizeof BEFORE_LATER == sizeof BEFORE_LINE &&
                  sizeof BEFORE_PLAIN == sizeof BEFORE_LINE,
              "the line is in the same place");
static_assert(CHECKED_AT <= SHARD_PROLOGUE, "the first read has what tells the line's size");
static_assert(SHARD_LINE_MAX < 100000000, "the size of a line has eight digits");

static bool parse_hex(struct view text, size_t digits, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0 || (text.data[i] >= 'A' && text.data[i] <= 'F'))
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *ret_value = value;
    return text.size == digits;
}

static struct view text_part(struct view text, size_t at, size_t size)
{
    return view_first(view_from(text, at), size);
}

/* Whether it claims to be a shard or a sidecar in a later format than `latest`, which ends with its
 * version. */
static bool is_later_than(struct view start, struct view latest)
{
    struct view family = view_first(latest, latest.size - 1), rest = start;
    uint64_t number, known = (uint64_t)(latest.data[latest.size - 1] - '0');
    if (!view_starts_with(start, family))
        return false;
    rest = view_from(start, family.size);
    size_t digits = view_find(rest, '"');
    return digits < rest.size &&
           parse_u64(view_first(rest, digits), UINT64_MAX, &number, NULL) == HF_OK &&
           number > known;
}

enum hf_status shard_line_size(struct view start, uint64_t *ret_size, struct hf_error *error)
{
    if (is_later_than(start, VIEW("{\"format\":\"" SHARD_FORMAT_LATER)) ||
        is_later_than(start, VIEW("{\"format\":\"" SHARD_FORMAT_PLAIN)))
        return error_set(error, HF_UNSUPPORTED, "its format is newer than %s",
                         SHARD_FORMAT_LATER);
    if (!view_starts_with(start, VIEW(BEFORE_LINE)) &&
        !view_starts_with(start, VIEW(BEFORE_LATER)) &&
        !view_starts_with(start, VIEW(BEFORE_PLAIN)))
        return error_set(error, HF_CORRUPT, "it does not start like a shard");
    uint64_t size, sum;
    if (parse_u64(text_part(start, LINE_AT, LINE_DIGITS), SHARD_LINE_MAX, &size, NULL) !=
            HF_OK ||
        size <= CHECKED_AT ||
        !view_equal(text_part(start, LINE_AT + LINE_DIGITS, sizeof BEFORE_CHECK - 1),
                    VIEW(BEFORE_CHECK)) ||
        !parse_hex(text_part(start, CHECK_AT, CHECK_DIGITS), CHECK_DIGITS, &sum) ||
        !view_equal(text_part(start, CHECKED_AT - 1, 1), VIEW("\"")))
        return error_set(error, HF_CORRUPT, "the start of its header line is damaged");
    *ret_size = size;
    return HF_OK;
}

/* ---- Reading the line ---------------------------------------------------------------- */

void shard_head_release(struct shard_head *head)
{
    arena_release(&head->arena);
    *head = (struct shard_head){ 0 };
}

struct line_reader {
    struct json_reader json;
    struct shard_head *head;
    struct buffer key; /* scratch */
    size_t block_capacity;
    bool no_memory;
    unsigned seen; /* one bit per required member */
};

static void read_head_nonce(struct line_reader *reader)
{
    struct view text;
    if (!json_take_plain(&reader->json, &text))
        return;
    if (text.size != NONCE_SIZE || memchr(text.data, '\0', text.size))
        json_fail(&reader->json, "the nonce has the wrong size");
    else
        memcpy(reader->head->nonce, text.data, NONCE_SIZE);
}

static void read_hex_string(struct line_reader *reader, size_t digits, uint64_t *ret_value)
{
    struct view text;
    if (json_take_plain(&reader->json, &text) && !parse_hex(text, digits, ret_value))
        json_fail(&reader->json, "invalid hexadecimal number");
}

/* Parses the next part of [at, size, check, first key]. */
static void read_block_part(struct line_reader *reader, unsigned number,
                            struct shard_block *block)
{
    uint64_t sum = 0;
    switch (number) {
    case 0: json_take_u64(&reader->json, SHARD_BYTES_MAX, &block->at); return;
    case 1: json_take_u64(&reader->json, SHARD_BLOCK_MAX, &block->size); return;
    case 2:
        read_hex_string(reader, CHECK_DIGITS, &sum);
        block->crc32c = (uint32_t)sum;
        return;
    case 3: json_take_text(&reader->json, &reader->key, &block->first_key); return;
    default: json_fail(&reader->json, "a block has too many parts");
    }
}

/* Whether a block can follow the previous ones. */
static bool block_follows(const struct shard_head *head, const struct shard_block *block)
{
    bool key_fits = block->first_key.size > 0 && block->first_key.size <= INDEX_KEY_BYTES_MAX;
    if (head->block_count == 0)
        return key_fits && block->size > 0 && block->at == 0;
    const struct shard_block *last = &head->blocks[head->block_count - 1];
    return key_fits && block->size > 0 && block->at == last->at + last->size &&
           view_compare(last->first_key, block->first_key) < 0;
}

static void read_block_entry(struct line_reader *reader)
{
    struct shard_head *head = reader->head;
    struct shard_block block = { .first_key = { "", 0 } };
    unsigned parts = 0;
    buffer_clear(&reader->key);
    json_enter_array(&reader->json);
    for (; json_next_element(&reader->json); parts++)
        read_block_part(reader, parts, &block);
    if (reader->json.why)
        return;
    if (parts != 4 || head->block_count == reader->block_capacity ||
        !block_follows(head, &block)) {
        json_fail(&reader->json, "blocks are not contiguous");
        return;
    }
    block.first_key = arena_copy(&head->arena, block.first_key);
    reader->no_memory = reader->no_memory || !block.first_key.data;
    head->blocks[head->block_count++] = block;
}

/* Parses [s, atto] of an instant, up to the next element. */
static void read_head_instant(struct line_reader *reader, struct instant *ret_instant)
{
    int64_t s = 0;
    uint64_t atto = 0;
    bool whole = json_enter_array(&reader->json) && json_next_element(&reader->json) &&
                 json_take_i64(&reader->json, &s) && json_next_element(&reader->json) &&
                 json_take_u64(&reader->json, UINT64_C(999999999999999999), &atto);
    if (!whole || s < INSTANT_S_MIN || s > INSTANT_S_MAX)
        json_fail(&reader->json, "invalid instant");
    *ret_instant = (struct instant){ s, atto };
}

static void read_head_floor(struct line_reader *reader)
{
    read_head_instant(reader, &reader->head->floor);
    reader->head->has_floor = true;
    if (!reader->json.why && json_next_element(&reader->json))
        json_fail(&reader->json, "the floor has too many parts");
}

static void read_head_sealed(struct line_reader *reader)
{
    struct view text;
    struct shard_head *head = reader->head;
    read_head_instant(reader, &head->sealed_to);
    head->sealed = !reader->json.why && json_next_element(&reader->json) &&
                   json_take_plain(&reader->json, &text) &&
                   stamp_parse(text, &head->sealed_at) && !json_next_element(&reader->json);
    if (!head->sealed)
        json_fail(&reader->json, "invalid seal");
}

/* Parses "etag", the version that a sidecar describes. */
static void read_head_etag(struct line_reader *reader)
{
    struct view text = VIEW("");
    buffer_clear(&reader->key);
    if (json_take_text(&reader->json, &reader->key, &text) &&
        !etag_set(&reader->head->of, text))
        json_fail(&reader->json, "the ETag is too long");
}

/* Parses [count, size, check] of the deletions that follow the line of a sidecar. */
static void read_head_deletions(struct line_reader *reader)
{
    struct shard_head *head = reader->head;
    uint64_t sum = 0;
    bool whole = json_enter_array(&reader->json) && json_next_element(&reader->json) &&
                 json_take_u64(&reader->json, DELETIONS_MAX, &head->deleted) &&
                 json_next_element(&reader->json) &&
                 json_take_u64(&reader->json, 2 * DELETIONS_MAX, &head->deletions_size) &&
                 json_next_element(&reader->json);
    if (whole)
        read_hex_string(reader, CHECK_DIGITS, &sum);
    head->deletions_crc32c = (uint32_t)sum;
    if (!reader->json.why && (!whole || json_next_element(&reader->json)))
        json_fail(&reader->json, "invalid deletions");
}

static void read_head_member(struct line_reader *reader, struct view name)
{
    struct shard_head *head = reader->head;
    static const char *const names[] = { "nonce",  "token",  "version",  "schema",  "records",
                                         "size",   "blocks", "writes",   "deleted", "floor",
                                         "sealed", "etag",   "deletions" };
    unsigned which = 0;
    while (which < sizeof names / sizeof *names && !view_equal(name, view_of(names[which])))
        which++;
    if (reader->seen & 1U << which) {
        json_fail(&reader->json, "duplicate member");
        return;
    }
    struct view skipped;
    switch (which) {
    case 0: read_head_nonce(reader); break;
    case 1: json_take_u64(&reader->json, UINT64_MAX, &head->token); break;
    case 2: json_take_u64(&reader->json, UINT64_MAX, &head->version); break;
    case 3: read_hex_string(reader, 16, &head->schema_hash); break;
    case 4: json_take_u64(&reader->json, SHARD_BYTES_MAX, &head->records); break;
    case 5: json_take_u64(&reader->json, SHARD_BYTES_MAX, &head->size); break;
    case 6:
        json_enter_array(&reader->json);
        while (!reader->no_memory && json_next_element(&reader->json))
            read_block_entry(reader);
        break;
    case 7: json_take_u64(&reader->json, UINT64_MAX - 1, &head->writes); break;
    case 8: json_take_u64(&reader->json, SHARD_BYTES_MAX, &head->deleted); break;
    case 9: read_head_floor(reader); break;
    case 10: read_head_sealed(reader); break;
    case 11: read_head_etag(reader); break;
    case 12: read_head_deletions(reader); break;
    default: json_skip(&reader->json, &skipped); return;
    }
    reader->seen |= 1U << which;
}

static enum hf_status head_is_whole(const struct line_reader *reader, struct hf_error *error)
{
    const struct shard_head *head = reader->head;
    if ((reader->seen & 0x7f) != 0x7f) /* older shards do not count writes */
        return error_set(error, HF_CORRUPT, "a member of its header line is missing");
    const struct shard_block *last =
        head->block_count > 0 ? &head->blocks[head->block_count - 1] : NULL;
    if (head->size != (last ? last->at + last->size : 0) || head->records > head->size ||
        head->records < head->block_count || (head->records > 0 && !last) ||
        (!head->plain && head->deleted > head->records))
        return error_set(error, HF_CORRUPT, "the sizes in its header line do not add up");
    return HF_OK;
}

static enum hf_status read_head_members(struct line_reader *reader, struct view line,
                                        struct hf_error *error)
{
    struct view name;
    /* The shortest block is [0,1,"00000000","a"], with its comma. */
    reader->block_capacity =
        line.size / 20 < SHARD_BLOCKS_MAX ? line.size / 20 : SHARD_BLOCKS_MAX;
    reader->head->blocks =
        arena_take(&reader->head->arena, reader->block_capacity * sizeof(struct shard_block));
    if (!reader->head->blocks)
        return error_no_memory(error);
    json_enter_object(&reader->json);
    while (!reader->no_memory && json_next_member(&reader->json, &name))
        read_head_member(reader, name);
    if (reader->no_memory || reader->key.failed) /* it has room for a whole line */
        return error_no_memory(error);
    if (!json_end(&reader->json))
        return error_set(error, HF_CORRUPT, "its header line is damaged: %s", reader->json.why);
    return head_is_whole(reader, error);
}

enum hf_status shard_head_read(struct view line, struct shard_head *ret_head,
                               struct hf_error *error)
{
    struct shard_head head = { .plain = view_starts_with(line, VIEW(BEFORE_PLAIN)) };
    if (shard_line_size(line, &head.line_size, error) != HF_OK)
        return error->status;
    uint64_t sum = 0;
    parse_hex(text_part(line, CHECK_AT, CHECK_DIGITS), CHECK_DIGITS, &sum);
    if (head.line_size != line.size || line.data[line.size - 1] != '\n' ||
        crc32c(0, view_from(line, CHECKED_AT)) != sum)
        return error_set(error, HF_CORRUPT,
                         "its header line is damaged: the checksum is wrong");
    struct line_reader reader = { .json = json_read(line),
                                  .head = &head,
                                  .key = BUFFER_INIT(SHARD_LINE_MAX) };
    enum hf_status status = read_head_members(&reader, line, error);
    buffer_release(&reader.key);
    if (status == HF_OK)
        *ret_head = head;
    else
        shard_head_release(&head);
    return status;
}

size_t shard_find_block(const struct shard_head *head, struct view key)
{
    check(head->block_count > 0);
    size_t low = 0, high = head->block_count; /* low: 0, or a block at or before `key` */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (view_compare(head->blocks[middle].first_key, key) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- Writing ------------------------------------------------------------------------- */

enum hf_status shard_writer_init(struct shard_writer *writer, const struct schema *schema,
                                 uint64_t token, const char *nonce, uint64_t bytes_expected,
                                 struct hf_error *error)
{
    check(schema->version_count > 0 && strlen(nonce) == NONCE_SIZE);
    *writer = (struct shard_writer){
        .block_bytes = SHARD_BLOCK,
        .last_key = BUFFER_INIT(INDEX_KEY_BYTES_MAX),
        .head = { .token = token,
                  .version = schema->version_count,
                  .schema_hash = schema->versions[schema->version_count - 1].hash },
    };
    memcpy(writer->head.nonce, nonce, NONCE_SIZE);
    writer->deletions = BUFFER_INIT(DELETIONS_MAX);
    object_writer_init(&writer->writer);
    if (bytes_expected > SHARD_BYTES_MAX)
        bytes_expected = SHARD_BYTES_MAX;
    while (bytes_expected / writer->block_bytes >= SHARD_BLOCKS_MAX - 1)
        writer->block_bytes *= 2;
    writer->block_capacity = (size_t)(bytes_expected / writer->block_bytes) + 1;
    writer->head.blocks =
        arena_take(&writer->head.arena, writer->block_capacity * sizeof(struct shard_block));
    if (!writer->head.blocks)
        return error_no_memory(error);
    return HF_OK;
}

void shard_writer_release(struct shard_writer *writer)
{
    object_writer_release(&writer->writer);
    shard_head_release(&writer->head);
    buffer_release(&writer->last_key);
    buffer_release(&writer->deletions);
}

/* The block that takes the next record; NULL if out of memory. */
static struct shard_block *open_block(struct shard_writer *writer, struct view key)
{
    struct shard_head *head = &writer->head;
    struct shard_block *last =
        head->block_count > 0 ? &head->blocks[head->block_count - 1] : NULL;
    if (last && last->size < writer->block_bytes)
        return last;
    check(head->block_count < writer->block_capacity); /* bytes_expected was enough */
    struct view first_key = arena_copy(&head->arena, key);
    if (!first_key.data)
        return NULL;
    last = &head->blocks[head->block_count++];
    *last = (struct shard_block){ .at = head->size, .first_key = first_key };
    return last;
}

/* Adds a deletion of a plain shard, which is not among its records. */
static enum hf_status add_deletion(struct shard_writer *writer, const struct record *record,
                                   struct hf_error *error)
{
    struct buffer *deletions = &writer->deletions;
    if (record->bytes.size + sizeof RECORD_END > DELETIONS_MAX - deletions->size)
        return error_set(
            error, HF_INVALID,
            "the deletions of the shard would be larger than 64 MiB: an index with "
            "more digits has smaller shards");
    writer->head.deleted++;
    return buffer_append(deletions, record->bytes) && buffer_append(deletions, VIEW(RECORD_END))
               ? HF_OK
               : error_no_memory(error);
}

enum hf_status shard_writer_add(struct shard_writer *writer, const struct record *record,
                                struct hf_error *error)
{
    struct shard_head *head = &writer->head;
    const uint64_t size_max = head->plain ? PLAIN_BYTES_MAX : SHARD_BYTES_MAX;
    check(head->records == 0 || view_compare(buffer_view(&writer->last_key), record->key) < 0);
    uint64_t size = record->bytes.size + sizeof RECORD_END - 1;
    if (size > size_max - head->size)
        return error_set(error, HF_INVALID,
                         "the shard would be larger than %s: an index with more digits has "
                         "smaller shards",
                         head->plain ? "256 MiB" : "4 GiB");
    if (head->plain && record->deleted)
        return add_deletion(writer, record, error);
    buffer_clear(&writer->last_key);
    struct shard_block *block = open_block(writer, record->key);
    if (!block || !buffer_append(&writer->last_key, record->key))
        return error_no_memory(error);
    if (!object_writer_append(&writer->writer, record->bytes) ||
        !object_writer_append(&writer->writer, VIEW(RECORD_END))) {
        *error = writer->writer.error;
        return error->status;
    }
    block->crc32c = crc32c(crc32c(block->crc32c, record->bytes), VIEW(RECORD_END));
    block->size += size;
    head->size += size;
    head->records++;
    head->deleted += record->deleted;
    return HF_OK;
}

static void write_blocks(const struct shard_head *head, struct buffer *line)
{
    for (size_t i = 0; i < head->block_count; i++) {
        const struct shard_block *block = &head->blocks[i];
        buffer_print(line, "%s[%" PRIu64 ",%" PRIu64 ",\"%08" PRIx32 "\",", i > 0 ? "," : "",
                     block->at, block->size, block->crc32c);
        json_write_string(line, block->first_key);
        buffer_append_byte(line, ']');
    }
}

/* Writes what a shard knows of deletions. */
static void write_deletions(const struct shard_head *head, struct buffer *line)
{
    char text[STAMP_TEXT_MAX];
    if (!head->plain)
        buffer_print(line, ",\"deleted\":%" PRIu64, head->deleted);
    if (head->has_floor)
        buffer_print(line, ",\"floor\":[%" PRId64 ",%" PRIu64 "]", head->floor.s,
                     head->floor.atto);
    if (head->sealed)
        buffer_print(line, ",\"sealed\":[%" PRId64 ",%" PRIu64 ",\"%s\"]", head->sealed_to.s,
                     head->sealed_to.atto, stamp_text(head->sealed_at, text));
}

/* Writes what only the line of a sidecar has. */
static void write_plain_members(const struct shard_head *head, struct buffer *line)
{
    if (head->of.size > 0) {
        buffer_append(line, VIEW(",\"etag\":"));
        json_write_string(line, etag_view(&head->of));
    }
    if (head->deletions_size > 0)
        buffer_print(line, ",\"deletions\":[%" PRIu64 ",%" PRIu64 ",\"%08" PRIx32 "\"]",
                     head->deleted, head->deletions_size, head->deletions_crc32c);
}

enum hf_status shard_writer_end(struct shard_writer *writer, struct buffer *line,
                                struct hf_error *error)
{
    return shard_head_write(&writer->head, line) ? HF_OK : error_no_memory(error);
}

bool shard_head_write(struct shard_head *head, struct buffer *line)
{
    const bool later = head->deleted > 0 || head->has_floor || head->sealed;
    check(line->size == 0);
    buffer_append(line, head->plain ? VIEW(BEFORE_PLAIN)
                        : later     ? VIEW(BEFORE_LATER)
                                    : VIEW(BEFORE_LINE));
    buffer_append(line, VIEW("00000000" BEFORE_CHECK "00000000\""));
    buffer_print(line,
                 ",\"nonce\":\"%s\",\"token\":%" PRIu64 ",\"writes\":%" PRIu64
                 ",\"version\":%" PRIu64 ",\"schema\":\"%016" PRIx64 "\",\"records\":%" PRIu64
                 ",\"size\":%" PRIu64 ",\"blocks\":[",
                 head->nonce, head->token, head->writes, head->version, head->schema_hash,
                 head->records, head->size);
    write_blocks(head, line);
    buffer_append_byte(line, ']');
    if (later)
        write_deletions(head, line);
    if (head->plain)
        write_plain_members(head, line);
    buffer_append(line, VIEW("}\n"));
    if (line->failed)
        return false;
    check(line->size <= SHARD_LINE_MAX);
    char digits[24];
    snprintf(digits, sizeof digits, "%0*zu", LINE_DIGITS, line->size);
    memcpy(line->data + LINE_AT, digits, LINE_DIGITS);
    uint32_t sum = crc32c(0, view_from(buffer_view(line), CHECKED_AT));
    snprintf(digits, sizeof digits, "%0*" PRIx32, CHECK_DIGITS, sum);
    memcpy(line->data + CHECK_AT, digits, CHECK_DIGITS);
    head->line_size = line->size;
    return true;
}
