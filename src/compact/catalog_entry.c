/* catalog_entry.c: the parts of a catalog as JSON: chunks, graves and removals; encoding and
 * decoding side by side. */
#include "base/check.h"
#include "base/layout.h"
#include "base/utf8.h"
#include "compact/catalog_inside.h"

#include <stdlib.h>

#define RESTAMPS_READ_MAX 1000000

/* ---- Bounds -------------------------------------------------------------------------- */

static bool is_key(struct view key)
{
    return key.size > 0 && key.size <= KEY_BYTES_MAX && utf8_is_text(key);
}

static bool is_ms(int64_t ms)
{
    return ms >= -CHUNK_MS_MAX && ms <= CHUNK_MS_MAX;
}

enum hf_status chunk_check(const struct chunk *chunk, struct hf_error *error)
{
    if (!is_key(chunk->key))
        return error_set(error, HF_INVALID, "a chunk's key must be text of 1 to %d bytes",
                         KEY_BYTES_MAX);
    if (chunk->level >= CASCADE_LEVELS_MAX)
        return error_set(error, HF_INVALID, "a chunk's level must be 0 to %d",
                         CASCADE_LEVELS_MAX - 1);
    if (chunk->size > OBJECT_BYTES_MAX || chunk->rows > CHUNK_NUMBER_MAX ||
        chunk->rejects > CHUNK_NUMBER_MAX)
        return error_set(error, HF_INVALID, "a chunk's size or rows cannot be so large");
    if (!is_ms(chunk->min_ms) || !is_ms(chunk->max_ms) || chunk->min_ms > chunk->max_ms)
        return error_set(error, HF_INVALID, "a chunk's times are out of range or order");
    if (chunk->writer.size > WRITER_BYTES_MAX || !utf8_is_text(chunk->writer))
        return error_set(error, HF_INVALID, "a writer's name must be text of 1 to %d bytes",
                         WRITER_BYTES_MAX);
    if (chunk->file_id.size > FILE_ID_BYTES_MAX || !utf8_is_text(chunk->file_id))
        return error_set(error, HF_INVALID,
                         "the identity of a file must be text of 1 to %d bytes",
                         FILE_ID_BYTES_MAX);
    return HF_OK;
}

enum hf_status catalog_check_key(const struct catalog *catalog, struct view key,
                                 struct hf_error *error)
{
    if (!is_key(key))
        return error_set(error, HF_INVALID, "a chunk's key must be text of 1 to %d bytes",
                         KEY_BYTES_MAX);
    struct view home = layout_home(key);
    if (!view_equal(home, catalog->partition))
        return error_set(error, HF_INVALID,
                         "the home of this chunk is the partition %.*s, not %.*s",
                         VIEW_ARGS(home), VIEW_ARGS(catalog->partition));
    return HF_OK;
}

/* ---- Encoding ------------------------------------------------------------------------ */

static void write_number(struct buffer *text, struct view before, uint64_t number)
{
    buffer_append(text, before);
    buffer_append_u64(text, number);
}

static void write_stamp(struct buffer *text, struct view before, struct stamp stamp)
{
    char digits[STAMP_TEXT_MAX];
    buffer_append(text, before);
    buffer_append_byte(text, '"');
    buffer_append(text, view_of(stamp_text(stamp, digits)));
    buffer_append_byte(text, '"');
}

static void chunk_write(const struct chunk *chunk, struct buffer *text)
{
    buffer_append(text, VIEW("{\"key\":"));
    json_write_string(text, chunk->key);
    write_number(text, VIEW(",\"level\":"), chunk->level);
    write_number(text, VIEW(",\"size\":"), chunk->size);
    if (chunk->rows_known)
        write_number(text, VIEW(",\"rows\":"), chunk->rows);
    buffer_append(text, VIEW(",\"min\":"));
    buffer_append_i64(text, chunk->min_ms);
    buffer_append(text, VIEW(",\"max\":"));
    buffer_append_i64(text, chunk->max_ms);
    if (chunk->writer.size > 0) {
        buffer_append(text, VIEW(",\"writer\":"));
        json_write_string(text, chunk->writer);
    }
    if (chunk->sequence > 0)
        write_number(text, VIEW(",\"seq\":"), chunk->sequence);
    if (chunk->file_id.size > 0) {
        buffer_append(text, VIEW(",\"file_id\":"));
        json_write_string(text, chunk->file_id);
    }
    write_number(text, VIEW(",\"crc32c\":"), chunk->crc32c);
    write_stamp(text, VIEW(",\"since\":"), chunk->since);
    if (chunk->rejects > 0)
        write_number(text, VIEW(",\"rejects\":"), chunk->rejects);
    if (chunk->tries > 0)
        write_number(text, VIEW(",\"tries\":"), chunk->tries);
    if (chunk->quarantine.size > 0) {
        buffer_append(text, VIEW(",\"quarantine\":"));
        json_write_string(text, chunk->quarantine);
    }
    buffer_append(text, chunk->unknown);
    buffer_append_byte(text, '}');
}

enum hf_status chunk_seal(struct catalog *catalog, struct chunk *chunk, size_t bytes_max,
                          struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(4 * CHUNK_BYTES_READ_MAX);
    enum hf_status status = HF_OK;
    if (!buffer_reserve(&text, KIB)) {
        status = error_no_memory(error);
    } else {
        chunk_write(chunk, &text);
        if (text.failed && text.size < text.max / 2)
            status = error_no_memory(error);
        else if (text.failed || text.size > bytes_max)
            status = error_set(error, HF_INVALID, "an entry of a chunk is longer than %d bytes",
                               CHUNK_BYTES_MAX);
    }
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
    if (!chunk->key.data || !chunk->writer.data || !chunk->file_id.data ||
        !chunk->quarantine.data)
        return error_no_memory(error);
    return chunk_seal(catalog, chunk, CHUNK_BYTES_MAX, error);
}

void grave_write(const struct grave *grave, struct buffer *text)
{
    if (grave->raw.size > 0) {
        buffer_append(text, grave->raw);
        return;
    }
    buffer_append_byte(text, '{');
    if (grave->into.size > 0) {
        buffer_append(text, VIEW("\"into\":"));
        json_write_string(text, grave->into);
        buffer_append_byte(text, ',');
    }
    if (grave->undone)
        buffer_append(text, VIEW("\"undone\":true,"));
    write_stamp(text, VIEW("\"since\":"), grave->since);
    if (grave->restamps > 0)
        write_number(text, VIEW(",\"restamps\":"), grave->restamps);
    buffer_append(text, grave->unknown);
    buffer_append(text, VIEW(",\"chunks\":["));
    for (size_t i = 0; i < grave->count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        buffer_append(text, grave->chunks[i].raw);
    }
    buffer_append(text, VIEW("]}"));
}

static void write_texts(struct buffer *text, struct view before, const struct view *texts,
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
    if (removal->raw.size > 0) {
        buffer_append(text, removal->raw);
        return;
    }
    buffer_append(text, removal->how == DELETING_RETIRED ? VIEW("{\"how\":\"retired\"")
                                                         : VIEW("{\"how\":\"condemned\""));
    if (removal->done)
        buffer_append(text, VIEW(",\"done\":true"));
    write_stamp(text, VIEW(",\"since\":"), removal->since);
    if (removal->restamps > 0)
        write_number(text, VIEW(",\"restamps\":"), removal->restamps);
    buffer_append(text, removal->unknown);
    write_texts(text, VIEW(",\"keys\":["), removal->keys, removal->count);
    if (removal->file_id_count > 0)
        write_texts(text, VIEW(",\"file_ids\":["), removal->file_ids, removal->file_id_count);
    buffer_append_byte(text, '}');
}

/* ---- Decoding ------------------------------------------------------------------------ */

/* Names of members, in the order in which they are mostly written; `next` is where the search
 * starts, and `found` the members seen so far, as bits. */
struct member_names {
    const struct view *names;
    unsigned count, next, found;
};

/* Which member it is; `count` when unknown. A second one of the same name is a mistake. */
static unsigned member_of(struct json_reader *json, struct member_names *members,
                          struct view name)
{
    for (unsigned i = 0; i < members->count; i++) {
        unsigned at = (members->next + i) % members->count;
        if (view_equal(name, members->names[at])) {
            if (members->found >> at & 1)
                json_fail(json, "a member that stands twice");
            members->found |= 1U << at;
            members->next = at + 1;
            return at;
        }
    }
    return members->count;
}

bool part_no_memory(struct part_reader *reader)
{
    reader->no_memory = true;
    return json_fail(&reader->json, "out of memory");
}

bool member_keep(struct json_reader *reader, struct view name, struct buffer *unknown)
{
    struct view raw;
    if (!json_skip(reader, &raw))
        return false;
    buffer_append(unknown, VIEW(",\""));
    buffer_append(unknown, name);
    buffer_append(unknown, VIEW("\":"));
    return buffer_append(unknown, raw) || json_fail(reader, "out of memory");
}

/* Keeps what was gathered, and gives back the memory of it. */
static bool keep_unknown(struct part_reader *reader, struct buffer *unknown,
                         struct view *ret_unknown)
{
    *ret_unknown = VIEW("");
    if (unknown->failed)
        part_no_memory(reader);
    else if (unknown->size > 0) {
        *ret_unknown = catalog_keep(reader->catalog, buffer_view(unknown));
        if (!ret_unknown->data)
            part_no_memory(reader);
    }
    buffer_release(unknown);
    return reader->json.why == NULL;
}

static bool take_key(struct part_reader *reader, struct view *ret_key)
{
    struct view key;
    if (!json_take_text(&reader->json, &reader->catalog->inside->space, &key))
        return false;
    if (key.size == 0 || key.size > KEY_BYTES_MAX || memchr(key.data, '\0', key.size))
        return json_fail(&reader->json, "a key that is none");
    if (++reader->key_count > CATALOG_KEYS_READ_MAX)
        return json_fail(&reader->json, "more keys than a catalog can have");
    *ret_key = key;
    return true;
}

static bool take_short_text(struct part_reader *reader, size_t max, struct view *ret_text)
{
    struct view text;
    if (!json_take_text(&reader->json, &reader->catalog->inside->space, &text))
        return false;
    if (text.size > max || memchr(text.data, '\0', text.size))
        return json_fail(&reader->json, "a text that is too long");
    *ret_text = text;
    return true;
}

bool file_id_read(struct part_reader *reader, struct view *ret_file_id)
{
    struct view file_id;
    if (!take_short_text(reader, FILE_ID_BYTES_MAX, &file_id))
        return false;
    if (file_id.size == 0 || ++reader->key_count > CATALOG_KEYS_READ_MAX)
        return json_fail(&reader->json, "an identity of a file that is none, or too many");
    *ret_file_id = file_id;
    return true;
}

static bool take_small(struct json_reader *json, uint64_t max, unsigned *ret_number)
{
    uint64_t number;
    if (!json_take_u64(json, max, &number))
        return false;
    *ret_number = (unsigned)number;
    return true;
}

static bool take_ms(struct json_reader *json, int64_t *ret_ms)
{
    int64_t ms;
    if (!json_take_i64(json, &ms))
        return false;
    if (!is_ms(ms))
        return json_fail(json, "a time that is out of range");
    *ret_ms = ms;
    return true;
}

static bool take_stamp(struct json_reader *json, struct stamp *ret_stamp)
{
    struct view text;
    return json_take_plain(json, &text) &&
           (stamp_parse(text, ret_stamp) || json_fail(json, "a stamp that is none"));
}

enum chunk_member {
    CHUNK_KEY,
    CHUNK_LEVEL,
    CHUNK_SIZE,
    CHUNK_ROWS,
    CHUNK_MIN,
    CHUNK_MAX,
    CHUNK_WRITER,
    CHUNK_SEQ,
    CHUNK_FILE_ID,
    CHUNK_CRC32C,
    CHUNK_SINCE,
    CHUNK_REJECTS,
    CHUNK_TRIES,
    CHUNK_QUARANTINE,
    CHUNK_MEMBERS
};

static const struct view chunk_names[CHUNK_MEMBERS] = {
    [CHUNK_KEY] = { "key", 3 },         [CHUNK_LEVEL] = { "level", 5 },
    [CHUNK_SIZE] = { "size", 4 },       [CHUNK_ROWS] = { "rows", 4 },
    [CHUNK_MIN] = { "min", 3 },         [CHUNK_MAX] = { "max", 3 },
    [CHUNK_WRITER] = { "writer", 6 },   [CHUNK_SEQ] = { "seq", 3 },
    [CHUNK_FILE_ID] = { "file_id", 7 }, [CHUNK_CRC32C] = { "crc32c", 6 },
    [CHUNK_SINCE] = { "since", 5 },     [CHUNK_REJECTS] = { "rejects", 7 },
    [CHUNK_TRIES] = { "tries", 5 },     [CHUNK_QUARANTINE] = { "quarantine", 10 },
};

#define CHUNK_NEEDS                                                             \
    (1U << CHUNK_KEY | 1U << CHUNK_LEVEL | 1U << CHUNK_SIZE | 1U << CHUNK_MIN | \
     1U << CHUNK_MAX | 1U << CHUNK_CRC32C | 1U << CHUNK_SINCE)

static bool chunk_take(struct part_reader *reader, unsigned member, struct view name,
                       struct chunk *chunk, struct buffer *unknown)
{
    struct json_reader *json = &reader->json;
    uint64_t crc32c;
    switch ((enum chunk_member)member) {
    case CHUNK_KEY: return take_key(reader, &chunk->key);
    case CHUNK_LEVEL: return take_small(json, CASCADE_LEVELS_MAX - 1, &chunk->level);
    case CHUNK_SIZE: return json_take_u64(json, OBJECT_BYTES_MAX, &chunk->size);
    case CHUNK_ROWS:
        chunk->rows_known = true;
        return json_take_u64(json, CHUNK_NUMBER_MAX, &chunk->rows);
    case CHUNK_MIN: return take_ms(json, &chunk->min_ms);
    case CHUNK_MAX: return take_ms(json, &chunk->max_ms);
    case CHUNK_WRITER: return take_short_text(reader, WRITER_BYTES_MAX, &chunk->writer);
    case CHUNK_SEQ: return json_take_u64(json, CHUNK_NUMBER_MAX, &chunk->sequence);
    case CHUNK_FILE_ID: return file_id_read(reader, &chunk->file_id);
    case CHUNK_CRC32C:
        if (!json_take_u64(json, UINT32_MAX, &crc32c))
            return false;
        chunk->crc32c = (uint32_t)crc32c;
        return true;
    case CHUNK_SINCE: return take_stamp(json, &chunk->since);
    case CHUNK_REJECTS: return json_take_u64(json, CHUNK_NUMBER_MAX, &chunk->rejects);
    case CHUNK_TRIES: return take_small(json, CHUNK_TRIES_MAX, &chunk->tries);
    case CHUNK_QUARANTINE: return take_short_text(reader, REASON_BYTES_MAX, &chunk->quarantine);
    case CHUNK_MEMBERS: break;
    }
    return member_keep(json, name, unknown);
}

bool chunk_read(struct part_reader *reader, struct chunk *ret_chunk)
{
    struct json_reader *json = &reader->json;
    struct member_names members = { chunk_names, CHUNK_MEMBERS, 0, 0 };
    struct buffer unknown = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    struct chunk chunk = { .writer = VIEW(""), .file_id = VIEW(""), .quarantine = VIEW("") };
    struct view name;
    json_peek(json);
    size_t start = json->at;
    for (json_enter_object(json); json_next_member(json, &name);)
        chunk_take(reader, member_of(json, &members, name), name, &chunk, &unknown);
    if (!keep_unknown(reader, &unknown, &chunk.unknown))
        return false;
    chunk.raw = (struct view){ json->text.data + start, json->at - start };
    if (chunk.raw.size > CHUNK_BYTES_READ_MAX)
        return json_fail(json, "an entry that is too long");
    if ((members.found & CHUNK_NEEDS) != CHUNK_NEEDS)
        return json_fail(json, "an entry of a chunk that lacks a member");
    if (chunk.min_ms > chunk.max_ms)
        return json_fail(json, "a chunk that ends before it begins");
    *ret_chunk = chunk;
    return true;
}

/* Room for one more in an array that a reader uses again and again. */
static bool reader_room(struct part_reader *reader, void **array, size_t *room, size_t count,
                        size_t size)
{
    if (count < *room)
        return true;
    size_t wanted = *room ? 2 * *room : 64;
    void *grown = realloc(*array, wanted * size);
    if (!grown)
        return part_no_memory(reader);
    *array = grown;
    *room = wanted;
    return true;
}

static bool take_chunks(struct part_reader *reader, struct grave *grave)
{
    struct json_reader *json = &reader->json;
    size_t count = 0;
    for (json_enter_array(json); json_next_element(json); count++) {
        void *array = reader->chunks;
        if (!reader_room(reader, &array, &reader->chunk_room, count, sizeof(struct chunk)))
            return false;
        reader->chunks = array;
        if (!chunk_read(reader, &reader->chunks[count]))
            return false;
    }
    if (json->why || count == 0)
        return json_fail(json, "tombstones without a chunk");
    grave->chunks = catalog_take(reader->catalog, count * sizeof(struct chunk));
    if (!grave->chunks)
        return part_no_memory(reader);
    memcpy(grave->chunks, reader->chunks, count * sizeof(struct chunk));
    grave->count = count;
    return true;
}

/* An array of texts, each read by `take`, in the catalog's memory. */
static bool take_texts(struct part_reader *reader,
                       bool (*take)(struct part_reader *reader, struct view *ret_text),
                       struct view **ret_texts, size_t *ret_count)
{
    struct json_reader *json = &reader->json;
    size_t count = 0;
    for (json_enter_array(json); json_next_element(json); count++) {
        void *array = reader->keys;
        if (!reader_room(reader, &array, &reader->key_room, count, sizeof(struct view)))
            return false;
        reader->keys = array;
        if (!take(reader, &reader->keys[count]))
            return false;
    }
    if (json->why || count == 0)
        return json_fail(json, "a removal without a key");
    struct view *texts = catalog_take(reader->catalog, count * sizeof(struct view));
    if (!texts)
        return part_no_memory(reader);
    memcpy(texts, reader->keys, count * sizeof(struct view));
    *ret_texts = texts;
    *ret_count = count;
    return true;
}

enum grave_member {
    GRAVE_INTO,
    GRAVE_UNDONE,
    GRAVE_SINCE,
    GRAVE_RESTAMPS,
    GRAVE_CHUNKS,
    GRAVE_MEMBERS
};

static const struct view grave_names[GRAVE_MEMBERS] = {
    [GRAVE_INTO] = { "into", 4 },     [GRAVE_UNDONE] = { "undone", 6 },
    [GRAVE_SINCE] = { "since", 5 },   [GRAVE_RESTAMPS] = { "restamps", 8 },
    [GRAVE_CHUNKS] = { "chunks", 6 },
};

#define GRAVE_NEEDS (1U << GRAVE_SINCE | 1U << GRAVE_CHUNKS)

static bool grave_take(struct part_reader *reader, unsigned member, struct view name,
                       struct grave *grave, struct buffer *unknown)
{
    struct json_reader *json = &reader->json;
    switch ((enum grave_member)member) {
    case GRAVE_INTO: return take_short_text(reader, KEY_BYTES_MAX, &grave->into);
    case GRAVE_UNDONE: return json_take_bool(json, &grave->undone);
    case GRAVE_SINCE: return take_stamp(json, &grave->since);
    case GRAVE_RESTAMPS: return take_small(json, RESTAMPS_READ_MAX, &grave->restamps);
    case GRAVE_CHUNKS: return take_chunks(reader, grave);
    case GRAVE_MEMBERS: break;
    }
    return member_keep(json, name, unknown);
}

bool grave_read(struct part_reader *reader, struct grave *ret_grave)
{
    struct json_reader *json = &reader->json;
    struct member_names members = { grave_names, GRAVE_MEMBERS, 0, 0 };
    struct buffer unknown = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    struct grave grave = { .into = VIEW(""), .seen = reader->arrived };
    struct view name;
    json_peek(json);
    size_t start = json->at;
    for (json_enter_object(json); json_next_member(json, &name);)
        grave_take(reader, member_of(json, &members, name), name, &grave, &unknown);
    if (!keep_unknown(reader, &unknown, &grave.unknown))
        return false;
    if ((members.found & GRAVE_NEEDS) != GRAVE_NEEDS)
        return json_fail(json, "tombstones that lack a member");
    if (grave.undone && grave.into.size > 0)
        return json_fail(json, "a merge that was undone and has a target");
    grave.raw = (struct view){ json->text.data + start, json->at - start };
    *ret_grave = grave;
    return true;
}

enum removal_member {
    REMOVAL_HOW,
    REMOVAL_DONE,
    REMOVAL_SINCE,
    REMOVAL_RESTAMPS,
    REMOVAL_KEYS,
    REMOVAL_FILE_IDS,
    REMOVAL_MEMBERS
};

static const struct view removal_names[REMOVAL_MEMBERS] = {
    [REMOVAL_HOW] = { "how", 3 },     [REMOVAL_DONE] = { "done", 4 },
    [REMOVAL_SINCE] = { "since", 5 }, [REMOVAL_RESTAMPS] = { "restamps", 8 },
    [REMOVAL_KEYS] = { "keys", 4 },   [REMOVAL_FILE_IDS] = { "file_ids", 8 },
};

#define REMOVAL_NEEDS (1U << REMOVAL_HOW | 1U << REMOVAL_SINCE | 1U << REMOVAL_KEYS)

static bool take_how(struct json_reader *json, enum deleting_how *ret_how)
{
    struct view word;
    if (!json_take_plain(json, &word))
        return false;
    bool retired = view_equal(word, VIEW("retired"));
    if (!retired && !view_equal(word, VIEW("condemned")))
        return json_fail(json, "a removal that is neither retired nor condemned");
    *ret_how = retired ? DELETING_RETIRED : DELETING_CONDEMNED;
    return true;
}

static bool removal_take(struct part_reader *reader, unsigned member, struct view name,
                         struct removal *removal, struct buffer *unknown)
{
    struct json_reader *json = &reader->json;
    switch ((enum removal_member)member) {
    case REMOVAL_HOW: return take_how(json, &removal->how);
    case REMOVAL_DONE: return json_take_bool(json, &removal->done);
    case REMOVAL_SINCE: return take_stamp(json, &removal->since);
    case REMOVAL_RESTAMPS: return take_small(json, RESTAMPS_READ_MAX, &removal->restamps);
    case REMOVAL_KEYS: return take_texts(reader, take_key, &removal->keys, &removal->count);
    case REMOVAL_FILE_IDS:
        return take_texts(reader, file_id_read, &removal->file_ids, &removal->file_id_count);
    case REMOVAL_MEMBERS: break;
    }
    return member_keep(json, name, unknown);
}

bool removal_read(struct part_reader *reader, struct removal *ret_removal)
{
    struct json_reader *json = &reader->json;
    struct member_names members = { removal_names, REMOVAL_MEMBERS, 0, 0 };
    struct buffer unknown = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    struct removal removal = { .seen = reader->arrived };
    struct view name;
    json_peek(json);
    size_t start = json->at;
    for (json_enter_object(json); json_next_member(json, &name);)
        removal_take(reader, member_of(json, &members, name), name, &removal, &unknown);
    if (!keep_unknown(reader, &unknown, &removal.unknown))
        return false;
    if ((members.found & REMOVAL_NEEDS) != REMOVAL_NEEDS)
        return json_fail(json, "a removal that lacks a member");
    removal.raw = (struct view){ json->text.data + start, json->at - start };
    *ret_removal = removal;
    return true;
}
