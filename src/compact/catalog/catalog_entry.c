/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_entry.c: encodes and decodes the entries of a catalog: chunks, graves and removals.
 * Unknown members are kept, so an older program does not drop what a newer one wrote. */
#include "base/check.h"
#include "base/layout.h"
#include "base/utf8.h"
#include "compact/catalog/catalog_inside.h"

#define RESTAMPS_READ_MAX 1000000

/* ---- Bounds -------------------------------------------------------------------------- */

static bool is_chunk_key(struct view key)
{
    return key.size > 0 && key.size <= KEY_BYTES_MAX && utf8_is_text(key);
}

static bool is_ms(int64_t ms)
{
    return ms >= -CHUNK_MS_MAX && ms <= CHUNK_MS_MAX;
}

enum hf_status chunk_check(const struct chunk *chunk, struct hf_error *error)
{
    if (!is_chunk_key(chunk->key))
        return error_set(error, HF_INVALID, "a chunk's key must be text of 1 to %d bytes",
                         KEY_BYTES_MAX);
    if (chunk->level >= CASCADE_LEVELS_MAX)
        return error_set(error, HF_INVALID, "a chunk's level must be 0 to %d",
                         CASCADE_LEVELS_MAX - 1);
    if (chunk->size > OBJECT_BYTES_MAX || chunk->rows > CHUNK_NUMBER_MAX ||
        chunk->rejects > CHUNK_NUMBER_MAX)
        return error_set(error, HF_INVALID,
                         "the size or number of rows of a chunk is too large");
    if (chunk->markers.count > CHUNK_NUMBER_MAX || !is_ms(chunk->markers.ms) ||
        (!chunk->markers.known && chunk->markers.count > 0))
        return error_set(error, HF_INVALID, "the deletion markers of a chunk are out of range");
    if (!is_ms(chunk->min_ms) || !is_ms(chunk->max_ms) || chunk->min_ms > chunk->max_ms)
        return error_set(
            error, HF_INVALID,
            "the times of a chunk are out of range, or its end is before its start");
    if (chunk->writer.size > WRITER_BYTES_MAX || !utf8_is_text(chunk->writer))
        return error_set(error, HF_INVALID, "a writer's name must be text of 1 to %d bytes",
                         WRITER_BYTES_MAX);
    if (chunk->file_id.size > FILE_ID_BYTES_MAX || !utf8_is_text(chunk->file_id))
        return error_set(error, HF_INVALID,
                         "the identity of a file must be text of 1 to %d bytes",
                         FILE_ID_BYTES_MAX);
    bool adopted = chunk_is_adopted(chunk);
    if (adopted ? !is_chunk_key(chunk->object) || chunk->etag.size == 0 ||
                      chunk->etag.size > ETAG_BYTES_MAX || !utf8_is_text(chunk->etag) ||
                      chunk->file_id.size == 0
                : chunk->etag.size > 0 || chunk->own)
        return error_set(error, HF_INVALID,
                         "an adopted chunk must name its object, its ETag and its identity");
    return HF_OK;
}

enum hf_status catalog_check_key(const struct catalog *catalog, struct view key,
                                 struct hf_error *error)
{
    if (!is_chunk_key(key))
        return error_set(error, HF_INVALID, "a chunk's key must be text of 1 to %d bytes",
                         KEY_BYTES_MAX);
    struct view home = layout_home(key);
    if (!view_equal(home, catalog->partition))
        return error_set(error, HF_INVALID, "the chunk belongs to partition %.*s, not %.*s",
                         VIEW_ARGS(home), VIEW_ARGS(catalog->partition));
    return HF_OK;
}

/* ---- Members ------------------------------------------------------------------------- */

/* The tables are in encoding order, so the decoder finds each member at the first attempt. */

static bool take_chunk_key(struct member_reader *members, void *part);
static bool take_chunk_file_id(struct member_reader *members, void *part);
static bool take_chunk_object(struct member_reader *members, void *part);
static bool take_rows(struct member_reader *members, void *part);
static bool rows_are_unknown(const void *part);
static bool take_expiry(struct member_reader *members, int64_t *ret_ms);
static void write_rows(const void *part, struct buffer *text);
static bool take_targets(struct member_reader *members, void *part);
static bool take_markers(struct member_reader *members, void *part);
static bool markers_are_unknown(const void *part);
static void write_markers(const void *part, struct buffer *text);
static bool take_grave_chunks(struct member_reader *members, void *part);
static bool take_how(struct member_reader *members, void *part);
static bool take_removal_keys(struct member_reader *members, void *part);
static bool take_removal_file_ids(struct member_reader *members, void *part);
static bool take_removal_objects(struct member_reader *members, void *part);

static const struct member chunk_members[] = {
    { .name = { "key", 3 },
      .need = MEMBER_NEEDED,
      .kind = MEMBER_TEXT,
      .offset = offsetof(struct chunk, key),
      .take = take_chunk_key },
    MEMBER(chunk, "level", MEMBER_U32, level, CASCADE_LEVELS_MAX - 1, MEMBER_NEEDED),
    MEMBER(chunk, "size", MEMBER_U64, size, OBJECT_BYTES_MAX, MEMBER_NEEDED),
    { .name = { "rows", 4 },
      .take = take_rows,
      .is_omitted = rows_are_unknown,
      .write = write_rows },
    MEMBER(chunk, "min", MEMBER_I64, min_ms, CHUNK_MS_MAX, MEMBER_NEEDED),
    MEMBER(chunk, "max", MEMBER_I64, max_ms, CHUNK_MS_MAX, MEMBER_NEEDED),
    MEMBER(chunk, "writer", MEMBER_TEXT, writer, WRITER_BYTES_MAX, MEMBER_OPTIONAL),
    MEMBER(chunk, "seq", MEMBER_U64, sequence, CHUNK_NUMBER_MAX, MEMBER_OPTIONAL),
    { .name = { "file_id", 7 },
      .kind = MEMBER_TEXT,
      .offset = offsetof(struct chunk, file_id),
      .take = take_chunk_file_id },
    MEMBER(chunk, "crc32c", MEMBER_U32, crc32c, UINT32_MAX, MEMBER_NEEDED),
    MEMBER(chunk, "since", MEMBER_STAMP, since, 0, MEMBER_NEEDED),
    { .name = { "markers", 7 },
      .take = take_markers,
      .is_omitted = markers_are_unknown,
      .write = write_markers },
    MEMBER(chunk, "marker_max", MEMBER_I64, markers.ms, CHUNK_MS_MAX, MEMBER_OPTIONAL),
    MEMBER(chunk, "marked", MEMBER_STAMP, markers.since, 0, MEMBER_OPTIONAL),
    MEMBER(chunk, "rejects", MEMBER_U64, rejects, CHUNK_NUMBER_MAX, MEMBER_OPTIONAL),
    MEMBER(chunk, "run", MEMBER_TEXT, run, MERGE_ID_DIGITS, MEMBER_OPTIONAL),
    MEMBER(chunk, "tries", MEMBER_U32, tries, CHUNK_TRIES_MAX, MEMBER_OPTIONAL),
    MEMBER(chunk, "tested", MEMBER_U32, tested, CHUNK_TRIES_MAX, MEMBER_OPTIONAL),
    MEMBER(chunk, "mark_begin", MEMBER_BOOL, mark_begin, 0, MEMBER_OPTIONAL),
    MEMBER(chunk, "quarantine", MEMBER_TEXT, quarantine, REASON_BYTES_MAX, MEMBER_OPTIONAL),
    { .name = { "object", 6 },
      .kind = MEMBER_TEXT,
      .offset = offsetof(struct chunk, object),
      .take = take_chunk_object },
    MEMBER(chunk, "etag", MEMBER_TEXT, etag, ETAG_BYTES_MAX, MEMBER_OPTIONAL),
    MEMBER(chunk, "own", MEMBER_BOOL, own, 0, MEMBER_OPTIONAL),
    MEMBER(chunk, "key_kinds", MEMBER_U32, key_kinds, UINT16_MAX, MEMBER_OPTIONAL),
};
static const struct member_table chunk_table =
    MEMBER_TABLE(chunk_members, "a member of a chunk is missing");

static bool take_expired_by(struct member_reader *members, void *part)
{
    struct grave *grave = part;
    grave->by_age = true;
    return take_expiry(members, &grave->expired_ms);
}

static bool is_not_by_age(const void *part)
{
    return !((const struct grave *)part)->by_age;
}

static void write_expired_by(const void *part, struct buffer *text)
{
    buffer_append_i64(text, ((const struct grave *)part)->expired_ms);
}

static bool take_expired_before(struct member_reader *members, void *part)
{
    struct grave *grave = part;
    grave->had_before = true;
    return take_expiry(members, &grave->before_ms);
}

static bool has_no_before(const void *part)
{
    return !((const struct grave *)part)->had_before;
}

static void write_expired_before(const void *part, struct buffer *text)
{
    buffer_append_i64(text, ((const struct grave *)part)->before_ms);
}

static const struct member grave_members[] = {
    MEMBER(grave, "into", MEMBER_TEXT, into, KEY_BYTES_MAX, MEMBER_OPTIONAL),
    MEMBER(grave, "undone", MEMBER_BOOL, undone, 0, MEMBER_OPTIONAL),
    MEMBER(grave, "discarded", MEMBER_BOOL, discarded, 0, MEMBER_OPTIONAL),
    { .name = { "expired", 7 },
      .take = take_expired_by,
      .is_omitted = is_not_by_age,
      .write = write_expired_by },
    { .name = { "expired_before", 14 },
      .take = take_expired_before,
      .is_omitted = has_no_before,
      .write = write_expired_before },
    MEMBER(grave, "since", MEMBER_STAMP, part.since, 0, MEMBER_NEEDED),
    MEMBER(grave, "restamps", MEMBER_U32, part.restamps, RESTAMPS_READ_MAX, MEMBER_OPTIONAL),
    MEMBER_BY("targets", take_targets, MEMBER_OPTIONAL),
    MEMBER_BY("chunks", take_grave_chunks, MEMBER_NEEDED),
};
static const struct member_table grave_table =
    MEMBER_TABLE(grave_members, "a member of a tombstone entry is missing");

static const struct member removal_members[] = {
    MEMBER_BY("how", take_how, MEMBER_NEEDED),
    MEMBER(removal, "done", MEMBER_BOOL, done, 0, MEMBER_OPTIONAL),
    MEMBER(removal, "since", MEMBER_STAMP, part.since, 0, MEMBER_NEEDED),
    MEMBER(removal, "restamps", MEMBER_U32, part.restamps, RESTAMPS_READ_MAX, MEMBER_OPTIONAL),
    MEMBER(removal, "generation", MEMBER_U64, generation, GENERATION_MAX, MEMBER_OPTIONAL),
    MEMBER_BY("keys", take_removal_keys, MEMBER_NEEDED),
    MEMBER_BY("file_ids", take_removal_file_ids, MEMBER_OPTIONAL),
    MEMBER_BY("objects", take_removal_objects, MEMBER_OPTIONAL),
};
static const struct member_table removal_table =
    MEMBER_TABLE(removal_members, "a member of a deleting entry is missing");

static const struct member object_members[] = {
    MEMBER(removal_object, "key", MEMBER_TEXT, key, KEY_BYTES_MAX, MEMBER_NEEDED),
    MEMBER(removal_object, "object", MEMBER_TEXT, object, KEY_BYTES_MAX, MEMBER_NEEDED),
    MEMBER(removal_object, "etag", MEMBER_TEXT, etag, ETAG_BYTES_MAX, MEMBER_NEEDED),
    MEMBER(removal_object, "own", MEMBER_BOOL, own, 0, MEMBER_OPTIONAL),
};
static const struct member_table object_table =
    MEMBER_TABLE(object_members, "a member of an adopted object is missing");

/* ---- Encoding ------------------------------------------------------------------------ */

/* Encodes the entry of a chunk. INVALID: it is longer than bytes_max. */
static enum hf_status chunk_write(const struct chunk *chunk, size_t bytes_max,
                                  struct buffer *text, struct hf_error *error)
{
    if (!buffer_reserve(text, KIB))
        return error_no_memory(error);
    members_write(&chunk_table, chunk, '{', text);
    buffer_append(text, chunk->unknown);
    buffer_append_byte(text, '}');
    if (text->failed && text->size < text->max / 2)
        return error_no_memory(error);
    if (text->failed || text->size > bytes_max)
        return error_set(error, HF_INVALID, "the entry of a chunk is longer than %d bytes",
                         CHUNK_BYTES_MAX);
    return HF_OK;
}

enum hf_status catalog_check_chunk(const struct chunk *chunk, struct hf_error *error)
{
    const struct stamp longest = { UINT64_MAX, INT64_MAX };
    struct buffer text = BUFFER_INIT(4 * CHUNK_BYTES_READ_MAX);
    struct chunk added = *chunk;
    added.sequence = CHUNK_NUMBER_MAX;
    added.since = longest;
    if (added.markers.count > 0)
        added.markers.since = longest;
    added.unknown = VIEW("");
    enum hf_status status = chunk_check(&added, error);
    if (status == HF_OK)
        status = chunk_write(&added, CHUNK_BYTES_MAX, &text, error);
    buffer_release(&text);
    return status;
}

enum hf_status chunk_seal(struct catalog *catalog, struct chunk *chunk, size_t bytes_max,
                          struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(4 * CHUNK_BYTES_READ_MAX);
    enum hf_status status = chunk_write(chunk, bytes_max, &text, error);
    if (status == HF_OK) {
        chunk->raw = catalog_keep(catalog, buffer_view(&text));
        if (!chunk->raw.data)
            status = error_no_memory(error);
    }
    buffer_release(&text);
    return status;
}

enum hf_status chunk_keep(struct catalog *catalog, struct chunk *chunk, struct hf_error *error)
{
    chunk->unknown = VIEW("");
    chunk->quarantine = catalog_keep(catalog, chunk->quarantine);
    chunk->key = catalog_keep(catalog, chunk->key);
    chunk->writer = catalog_keep(catalog, chunk->writer);
    chunk->file_id = catalog_keep(catalog, chunk->file_id);
    chunk->object = catalog_keep(catalog, chunk->object);
    chunk->etag = catalog_keep(catalog, chunk->etag);
    chunk->run = catalog_keep(catalog, chunk->run);
    if (!chunk->run.data || !chunk->key.data || !chunk->writer.data || !chunk->file_id.data ||
        !chunk->quarantine.data || !chunk->object.data || !chunk->etag.data)
        return error_no_memory(error);
    return chunk_seal(catalog, chunk, CHUNK_BYTES_MAX, error);
}

void grave_write(const struct grave *grave, struct buffer *text)
{
    if (grave->part.raw.size > 0) {
        buffer_append(text, grave->part.raw);
        return;
    }
    members_write(&grave_table, grave, '{', text);
    buffer_append(text, grave->part.unknown);
    if (grave->target_count > 0)
        texts_write(text, VIEW(",\"targets\":["), grave->targets, grave->target_count);
    buffer_append(text, VIEW(",\"chunks\":["));
    for (size_t i = 0; i < grave->count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        buffer_append(text, grave->chunks[i].raw);
    }
    buffer_append(text, VIEW("]}"));
}

void texts_write(struct buffer *text, struct view before, const struct view *texts,
                 size_t count)
{
    buffer_append(text, before);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_byte(text, ',');
        json_write_string(text, texts[i]);
    }
    buffer_append_byte(text, ']');
}

void removal_write(const struct removal *removal, struct buffer *text)
{
    if (removal->part.raw.size > 0) {
        buffer_append(text, removal->part.raw);
        return;
    }
    buffer_append(text, removal->how == DELETING_RETIRED ? VIEW("{\"how\":\"retired\"")
                                                         : VIEW("{\"how\":\"condemned\""));
    members_write(&removal_table, removal, ',', text);
    buffer_append(text, removal->part.unknown);
    texts_write(text, VIEW(",\"keys\":["), removal->keys, removal->count);
    if (removal->file_id_count > 0)
        texts_write(text, VIEW(",\"file_ids\":["), removal->file_ids, removal->file_id_count);
    for (size_t i = 0; i < removal->object_count; i++) {
        buffer_append(text, i ? VIEW(",") : VIEW(",\"objects\":["));
        members_write(&object_table, &removal->objects[i], '{', text);
        buffer_append_byte(text, '}');
    }
    buffer_append(text, removal->object_count > 0 ? VIEW("]}") : VIEW("}"));
}

/* ---- Decoding ------------------------------------------------------------------------ */

bool part_no_memory(struct part_reader *reader)
{
    reader->no_memory = true;
    return json_fail(&reader->json, "out of memory");
}

bool key_read(struct part_reader *reader, struct view *ret_key)
{
    struct view key;
    if (!json_take_text(&reader->json, &reader->catalog->inside->space, &key))
        return false;
    if (key.size == 0 || key.size > KEY_BYTES_MAX || memchr(key.data, '\0', key.size))
        return json_fail(&reader->json, "invalid key");
    if (++reader->key_count > CATALOG_KEYS_READ_MAX)
        return json_fail(&reader->json, "too many keys");
    *ret_key = key;
    return true;
}

bool file_id_read(struct part_reader *reader, struct view *ret_file_id)
{
    struct view file_id;
    if (!json_take_text(&reader->json, &reader->catalog->inside->space, &file_id))
        return false;
    if (file_id.size == 0 || file_id.size > FILE_ID_BYTES_MAX ||
        memchr(file_id.data, '\0', file_id.size) || ++reader->key_count > CATALOG_KEYS_READ_MAX)
        return json_fail(&reader->json, "invalid file identity, or too many of them");
    *ret_file_id = file_id;
    return true;
}

static bool take_chunk_key(struct member_reader *members, void *part)
{
    return key_read(members->context, &((struct chunk *)part)->key);
}

static bool take_chunk_file_id(struct member_reader *members, void *part)
{
    return file_id_read(members->context, &((struct chunk *)part)->file_id);
}

static bool take_chunk_object(struct member_reader *members, void *part)
{
    return key_read(members->context, &((struct chunk *)part)->object);
}

static bool take_expiry(struct member_reader *members, int64_t *ret_ms)
{
    if (!json_take_i64(members->json, ret_ms))
        return false;
    return is_ms(*ret_ms) || json_fail(members->json, "a time of expiry is out of range");
}

/* A chunk without rows differs from one whose number of rows is unknown. */
static bool take_rows(struct member_reader *members, void *part)
{
    struct chunk *chunk = part;
    chunk->rows_known = true;
    return json_take_u64(members->json, CHUNK_NUMBER_MAX, &chunk->rows);
}

static bool rows_are_unknown(const void *part)
{
    return !((const struct chunk *)part)->rows_known;
}

static void write_rows(const void *part, struct buffer *text)
{
    buffer_append_u64(text, ((const struct chunk *)part)->rows);
}

/* Likewise for a chunk without deletion markers. */
static bool take_markers(struct member_reader *members, void *part)
{
    struct chunk *chunk = part;
    chunk->markers.known = true;
    return json_take_u64(members->json, CHUNK_NUMBER_MAX, &chunk->markers.count);
}

static bool markers_are_unknown(const void *part)
{
    return !((const struct chunk *)part)->markers.known;
}

static void write_markers(const void *part, struct buffer *text)
{
    buffer_append_u64(text, ((const struct chunk *)part)->markers.count);
}

bool part_members_read(struct part_reader *reader, const struct member_table *table, void *part,
                       struct buffer *unknown)
{
    struct member_reader members = { &reader->json, &reader->catalog->inside->space, unknown,
                                     reader };
    bool good = members_read(&members, table, part);
    return unknown->failed ? part_no_memory(reader) : good;
}

/* Decodes an object, and keeps its bytes and its unknown members. */
static bool part_read(struct part_reader *reader, const struct member_table *table, void *part,
                      struct view *ret_raw, struct view *ret_unknown)
{
    struct json_reader *json = &reader->json;
    struct buffer unknown = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    json_peek(json);
    const char *start = json->at;
    bool good = part_members_read(reader, table, part, &unknown);
    if (good) {
        *ret_raw = (struct view){ start, (size_t)(json->at - start) };
        *ret_unknown = catalog_keep(reader->catalog, buffer_view(&unknown));
        good = ret_unknown->data || part_no_memory(reader);
    }
    buffer_release(&unknown);
    return good;
}

bool chunk_read(struct part_reader *reader, struct chunk *ret_chunk)
{
    struct chunk chunk = { .writer = VIEW(""),
                           .file_id = VIEW(""),
                           .run = VIEW(""),
                           .quarantine = VIEW(""),
                           .object = VIEW(""),
                           .etag = VIEW("") };
    if (!part_read(reader, &chunk_table, &chunk, &chunk.raw, &chunk.unknown))
        return false;
    if (chunk.raw.size > CHUNK_BYTES_READ_MAX)
        return json_fail(&reader->json, "entry too long");
    if (chunk.min_ms > chunk.max_ms)
        return json_fail(&reader->json, "the end of a chunk is before its start");
    /* Without its ETag, an object that somebody else rewrites would be taken for the chunk. Without
     * an identity, it would be adopted again. */
    if (chunk_is_adopted(&chunk) ? chunk.etag.size == 0 || chunk.file_id.size == 0
                                 : chunk.etag.size > 0 || chunk.own)
        return json_fail(&reader->json, "an adopted chunk has no ETag or no identity");
    *ret_chunk = chunk;
    return true;
}

/* Copies the collected items of an array into the catalog's memory. */
static bool keep_items(struct part_reader *reader, const char *none, void **ret_items)
{
    struct view items = buffer_view(&reader->items);
    if (reader->json.why || items.size == 0)
        return json_fail(&reader->json, none);
    *ret_items = catalog_take(reader->catalog, items.size);
    if (!*ret_items)
        return part_no_memory(reader);
    memcpy(*ret_items, items.data, items.size);
    return true;
}

static bool add_item(struct part_reader *reader, const void *item, size_t size)
{
    return buffer_append(&reader->items, (struct view){ item, size }) || part_no_memory(reader);
}

static bool take_targets(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct grave *grave = part;
    return texts_read(reader, key_read, &grave->targets, &grave->target_count);
}

static bool take_grave_chunks(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct grave *grave = part;
    struct chunk chunk;
    void *chunks = NULL;
    buffer_clear(&reader->items);
    for (json_enter_array(&reader->json); json_next_element(&reader->json);)
        if (!chunk_read(reader, &chunk) || !add_item(reader, &chunk, sizeof chunk))
            return false;
    if (!keep_items(reader, "tombstone entry without chunks", &chunks))
        return false;
    grave->chunks = chunks;
    grave->count = reader->items.size / sizeof chunk;
    return true;
}

bool grave_read(struct part_reader *reader, struct grave *ret_grave)
{
    struct grave grave = { .part.seen = reader->arrived, .into = VIEW("") };
    if (!part_read(reader, &grave_table, &grave, &grave.part.raw, &grave.part.unknown))
        return false;
    if (grave.into.size == 0 && grave.target_count > 0)
        return json_fail(&reader->json, "a tombstone entry has targets, and was not merged");
    if (grave.undone && grave.into.size > 0)
        return json_fail(&reader->json, "an undone merge has a target");
    if ((grave.by_age && (grave.into.size > 0 || grave.undone || grave.discarded)) ||
        (grave.had_before && !grave.by_age))
        return json_fail(&reader->json, "a tombstone entry left in two ways");
    *ret_grave = grave;
    return true;
}

static bool take_how(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct view word;
    if (!json_take_plain(&reader->json, &word))
        return false;
    bool retired = view_equal(word, VIEW("retired"));
    if (!retired && !view_equal(word, VIEW("condemned")))
        return json_fail(&reader->json, "a deleting entry is neither retired nor condemned");
    ((struct removal *)part)->how = retired ? DELETING_RETIRED : DELETING_CONDEMNED;
    return true;
}

bool texts_read(struct part_reader *reader,
                bool (*read)(struct part_reader *reader, struct view *ret_text),
                struct view **ret_texts, size_t *ret_count)
{
    struct view text = VIEW("");
    void *texts = NULL;
    buffer_clear(&reader->items);
    for (json_enter_array(&reader->json); json_next_element(&reader->json);)
        if (!read(reader, &text) || !add_item(reader, &text, sizeof text))
            return false;
    if (!keep_items(reader, "empty list", &texts))
        return false;
    *ret_texts = texts;
    *ret_count = reader->items.size / sizeof text;
    return true;
}

bool numbers_read(struct part_reader *reader, uint64_t **ret_numbers, size_t *ret_count)
{
    uint64_t number = 0;
    void *numbers = NULL;
    buffer_clear(&reader->items);
    for (json_enter_array(&reader->json); json_next_element(&reader->json);)
        if (!json_take_u64(&reader->json, CHUNK_NUMBER_MAX, &number) ||
            !add_item(reader, &number, sizeof number))
            return false;
    if (!keep_items(reader, "empty list", &numbers))
        return false;
    *ret_numbers = numbers;
    *ret_count = reader->items.size / sizeof number;
    return true;
}

static bool take_removal_keys(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct removal *removal = part;
    return texts_read(reader, key_read, &removal->keys, &removal->count);
}

static bool take_removal_file_ids(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct removal *removal = part;
    return texts_read(reader, file_id_read, &removal->file_ids, &removal->file_id_count);
}

static bool take_removal_objects(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct removal *removal = part;
    struct removal_object object;
    void *objects = NULL;
    buffer_clear(&reader->items);
    for (json_enter_array(&reader->json); json_next_element(&reader->json);) {
        struct member_reader inner = { &reader->json, &reader->catalog->inside->space, NULL,
                                       reader };
        object = (struct removal_object){ .own = false };
        if (!members_read(&inner, &object_table, &object) ||
            !add_item(reader, &object, sizeof object))
            return false;
    }
    if (!keep_items(reader, "deleting entry without objects", &objects))
        return false;
    removal->objects = objects;
    removal->object_count = reader->items.size / sizeof object;
    return true;
}

/* Whether each object belongs to one of the keys, in their order. */
static bool objects_match_keys(const struct removal *removal)
{
    size_t next = 0;
    for (size_t i = 0; i < removal->count && next < removal->object_count; i++)
        next += view_equal(removal->keys[i], removal->objects[next].key);
    return next == removal->object_count;
}

bool removal_read(struct part_reader *reader, struct removal *ret_removal)
{
    struct removal removal = { .part.seen = reader->arrived };
    if (!part_read(reader, &removal_table, &removal, &removal.part.raw, &removal.part.unknown))
        return false;
    if (!objects_match_keys(&removal))
        return json_fail(&reader->json,
                         "the objects of a deleting entry are not those of its keys");
    *ret_removal = removal;
    return true;
}
