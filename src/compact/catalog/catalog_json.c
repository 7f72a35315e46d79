/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_json.c: encodes and decodes the document of a catalog; catalog_entry.c does so for its
 * entries. A document that breaks an invariant is refused as CORRUPT and never overwritten, because
 * every deletion depends on it. */
#include "base/check.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "compact/catalog/catalog_inside.h"
#include "merge/key.h"

#include <stdlib.h>

/* Room for the document apart from its entries. */
#define HEADER_BYTES (16 * KIB)

#define DROPPING_RESTAMPS_MAX 1000000

/* ---- Encoding ------------------------------------------------------------------------ */

static void write_string(struct buffer *text, struct view before, struct view value)
{
    buffer_append(text, before);
    json_write_string(text, value);
}

static void write_catalog_settings(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"settings\":"));
    compact_settings_encode(&catalog->settings, text);
    if (text->failed || catalog->inside->unknown_settings.size == 0)
        return;
    text->size--; /* drops the closing brace */
    buffer_append(text, buffer_view(&catalog->inside->unknown_settings));
    buffer_append_byte(text, '}');
}

static void write_counts(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"counts\":["));
    for (size_t i = 0; i < CASCADE_LEVELS_MAX; i++) {
        if (i > 0)
            buffer_append_byte(text, ',');
        buffer_append_u64(text, catalog->cascade.counts[i]);
    }
    buffer_append_byte(text, ']');
    if (catalog->due.clock != 0 || catalog->due.us != 0) {
        char digits[STAMP_TEXT_MAX];
        write_string(text, VIEW(",\"due\":"), view_of(stamp_text(catalog->due, digits)));
    }
}

static void write_writers(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"writers\":{"));
    for (size_t i = 0; i < catalog->writer_count; i++) {
        if (i > 0)
            buffer_append_byte(text, ',');
        json_write_string(text, catalog->writers[i].name);
        buffer_append_byte(text, ':');
        buffer_append_u64(text, catalog->writers[i].sequence);
    }
    buffer_append_byte(text, '}');
}

static void write_chunk_entries(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"chunks\":["));
    for (size_t i = 0; i < catalog->live_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        buffer_append(text, catalog->live[i].raw);
    }
    buffer_append(text, VIEW("],\n\"tombstones\":["));
    for (size_t i = 0; i < catalog->grave_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        grave_write(&catalog->graves[i], text);
    }
    buffer_append(text, VIEW("],\n\"deleting\":["));
    for (size_t i = 0; i < catalog->removal_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        removal_write(&catalog->removals[i], text);
    }
    buffer_append_byte(text, ']');
}

/* References are grouped by child. */
static void write_moved(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"moved\":["));
    for (size_t i = 0; i < catalog->reference_count; i++) {
        const struct reference *reference = &catalog->references[i];
        bool first = i == 0 || reference[-1].child != reference->child;
        if (first) {
            buffer_append(text, i ? VIEW("]},\n{\"child\":") : VIEW("\n{\"child\":"));
            buffer_append_u64(text, reference->child);
            buffer_append(text, VIEW(",\"keys\":["));
        } else {
            buffer_append_byte(text, ',');
        }
        json_write_string(text, reference->key);
    }
    buffer_append(text, catalog->reference_count ? VIEW("]}]") : VIEW("]"));
}

static void write_merges(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"merges\":["));
    for (size_t i = 0; i < catalog->merge_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        divided_write(&catalog->merges[i], text);
    }
    buffer_append_byte(text, ']');
}

static void write_children(const struct catalog *catalog, struct buffer *text)
{
    texts_write(text, VIEW(",\n\"children\":["), catalog->children, catalog->child_count);
    buffer_append(text, catalog->split_by == SPLIT_BY_HOUR ? VIEW(",\"split_by\":\"hour\"")
                                                           : VIEW(",\"split_by\":\"key\""));
    if (catalog->split_generation > 0) {
        buffer_append(text, VIEW(",\"split_generation\":"));
        buffer_append_u64(text, catalog->split_generation);
    }
    write_moved(catalog, text);
    if (catalog->moved_file_id_count > 0)
        texts_write(text, VIEW(",\n\"moved_file_ids\":["), catalog->moved_file_ids,
                    catalog->moved_file_id_count);
}

static const struct member dropping_members[] = {
    MEMBER(catalog, "since", MEMBER_STAMP, dropping.since, 0, MEMBER_NEEDED),
    MEMBER(catalog, "restamps", MEMBER_U32, dropping.restamps, DROPPING_RESTAMPS_MAX,
           MEMBER_OPTIONAL),
    MEMBER(catalog, "dropped", MEMBER_BOOL, is_dropped, 0, MEMBER_OPTIONAL),
};
static const struct member_table dropping_table =
    MEMBER_TABLE(dropping_members, "a drop without the time of its mark");

static void write_dropping(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"dropping\":"));
    members_write(&dropping_table, catalog, '{', text);
    buffer_append(text, catalog->dropping.unknown);
    buffer_append_byte(text, '}');
}

/* A program that knows only the first version must not use such a catalog. It would add chunks to
 * a partition that is being dropped, or chunks below the floor, or misread a key of several
 * fields. */
static bool needs_format_2(const struct catalog *catalog)
{
    return catalog->is_dropping || catalog_has_adopted(catalog) || catalog->has_floor ||
           catalog->settings.deleted.size > 0 ||
           compact_settings_version(&catalog->settings) > 1;
}

bool catalog_encode(const struct catalog *catalog, struct view nonce, struct buffer *text)
{
    const struct catalog_inside *inside = catalog->inside;
    buffer_reserve(text, catalog->live_bytes + catalog->dead_bytes + HEADER_BYTES +
                             inside->unknown.size + inside->unknown_settings.size);
    buffer_append(text, needs_format_2(catalog)
                            ? VIEW("{\"format\":\"" LAYOUT_CATALOG_FORMAT_2 "\"")
                            : VIEW("{\"format\":\"" LAYOUT_CATALOG_FORMAT "\""));
    buffer_append(text, VIEW(",\"write\":"));
    checksum_append_write(text, nonce);
    write_string(text, VIEW(",\"partition\":"), catalog->partition);
    if (catalog->parent.size > 0)
        write_string(text, VIEW(",\"parent\":"), catalog->parent);
    buffer_append(text, VIEW(",\"depth\":"));
    buffer_append_u64(text, catalog->depth);
    if (catalog->generation > 0) {
        buffer_append(text, VIEW(",\"generation\":"));
        buffer_append_u64(text, catalog->generation);
    }
    write_catalog_settings(catalog, text);
    write_counts(catalog, text);
    write_writers(catalog, text);
    write_chunk_entries(catalog, text);
    if (catalog->kept_file_id_count > 0)
        texts_write(text, VIEW(",\n\"kept_file_ids\":["), catalog->kept_file_ids,
                    catalog->kept_file_id_count);
    if (catalog->child_count > 0)
        write_children(catalog, text);
    if (catalog->has_floor) {
        buffer_append(text, VIEW(",\n\"floor\":"));
        buffer_append_i64(text, catalog->floor_ms);
    }
    if (catalog->has_expired) {
        buffer_append(text, VIEW(",\n\"expired\":"));
        buffer_append_i64(text, catalog->expired_ms);
    }
    if (catalog->stray.clock != 0) {
        char digits[STAMP_TEXT_MAX];
        write_string(text, VIEW(",\n\"stray\":"), view_of(stamp_text(catalog->stray, digits)));
    }
    if (catalog->is_dropping)
        write_dropping(catalog, text);
    if (catalog->merge_count > 0)
        write_merges(catalog, text);
    buffer_append(text, buffer_view(&inside->unknown));
    buffer_append(text, VIEW("}\n"));
    return checksum_finish(text);
}

/* ---- Decoding ------------------------------------------------------------------------ */

static bool take_catalog_format(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct view format;
    (void)part;
    if (!json_take_plain(&reader->json, &format))
        return false;
    if (view_equal(format, VIEW(LAYOUT_CATALOG_FORMAT)) ||
        view_equal(format, VIEW(LAYOUT_CATALOG_FORMAT_2)))
        return true;
    reader->later = view_starts_with(format, VIEW("holdfast.catalog/"));
    return json_fail(&reader->json,
                     reader->later ? "the format version is newer than this program supports"
                                   : "unknown format");
}

static bool take_write_nonce(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct view raw;
    (void)part;
    return json_skip(&reader->json, &raw);
}

static bool read_partition(struct part_reader *reader, struct view *ret_partition)
{
    struct view name;
    if (!json_take_plain(&reader->json, &name))
        return false;
    if (!layout_partition_valid(name))
        return json_fail(&reader->json, "invalid partition name");
    *ret_partition = name;
    return true;
}

static bool take_partition(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    return read_partition(reader, &((struct catalog *)part)->partition);
}

static bool take_parent(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    return read_partition(reader, &((struct catalog *)part)->parent);
}

static bool take_settings(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct catalog *catalog = part;
    struct buffer *unknown = &catalog->inside->unknown_settings;
    return compact_settings_decode(&reader->json, &catalog->inside->space, unknown,
                                   &catalog->settings) ||
           (unknown->failed && part_no_memory(reader));
}

static bool take_counts(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    struct catalog *catalog = part;
    size_t count = 0;
    for (json_enter_array(json); json_next_element(json); count++) {
        if (count == CASCADE_LEVELS_MAX)
            return json_fail(json, "too many counts");
        json_take_u64(json, CHUNK_NUMBER_MAX, &catalog->cascade.counts[count]);
    }
    return json->why == NULL;
}

/* A writer's name is the name of a JSON member and may contain escapes. */
static bool read_writer_name(struct part_reader *reader, struct view raw, struct view *ret_name)
{
    struct json_reader quoted = json_read((struct view){ raw.data - 1, raw.size + 2 });
    if (!json_take_text(&quoted, &reader->catalog->inside->space, ret_name) ||
        ret_name->size == 0 || ret_name->size > WRITER_BYTES_MAX ||
        memchr(ret_name->data, '\0', ret_name->size))
        return json_fail(&reader->json, "invalid writer name");
    return true;
}

static bool take_writers(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    struct catalog *catalog = part;
    struct view raw, name;
    uint64_t sequence;
    for (json_enter_object(json); json_next_member(json, &raw);) {
        if (catalog->writer_count > CATALOG_WRITERS_MAX)
            return json_fail(json, "too many writers");
        if (!read_writer_name(reader, raw, &name) ||
            !json_take_u64(json, CHUNK_NUMBER_MAX, &sequence))
            return false;
        if (!catalog_room_writers(catalog, 1))
            return part_no_memory(reader);
        size_t place = writer_place(catalog->writers, catalog->writer_count, name);
        if (place < catalog->writer_count && view_equal(catalog->writers[place].name, name))
            return json_fail(json, "duplicate writer");
        memmove(&catalog->writers[place + 1], &catalog->writers[place],
                (catalog->writer_count - place) * sizeof *catalog->writers);
        catalog->writers[place] = (struct writer){ name, sequence };
        catalog->writer_count++;
    }
    return json->why == NULL;
}

/* Makes room for a key and checks that it is new. A key in two states could be deleted while it is
 * live. */
static bool enter_key(struct part_reader *reader, struct view key)
{
    struct key_index *index = &reader->catalog->inside->index;
    if (!catalog_reserve_keys(reader->catalog, 1))
        return part_no_memory(reader);
    if (key_index_get(index, key))
        return json_fail(&reader->json, "duplicate key");
    key_index_put(index, key, CHUNK_UNKNOWN, 0);
    return true;
}

static bool take_chunks(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    struct chunk chunk;
    for (json_enter_array(json); json_next_element(json);) {
        if (!chunk_read(reader, &chunk) || !enter_key(reader, chunk.key))
            return false;
        if (!catalog_room_live(part, 1))
            return part_no_memory(reader);
        catalog_push_live(part, &chunk);
    }
    return json->why == NULL;
}

/* An entry that has the same stamp as in the previous document counts as seen since the earlier
 * time. An entry that was unwritten in the previous document was not seen there. */
static void keep_seen_time(struct dead_part *part, const struct dead_part *before)
{
    if (!before->unwritten && before->since.clock == part->since.clock &&
        before->since.us == part->since.us && before->restamps == part->restamps)
        part->seen = before->seen;
}

static bool take_graves(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    struct grave grave;
    for (json_enter_array(json); json_next_element(json);) {
        if (!grave_read(reader, &grave))
            return false;
        for (size_t i = 0; i < grave.count; i++)
            if (!enter_key(reader, grave.chunks[i].key))
                return false;
        if (!catalog_room_graves(part, 1) || !catalog_reserve_keys(part, grave.count))
            return part_no_memory(reader);
        const struct grave *before =
            reader->previous ? catalog_grave_by_key(reader->previous, grave.chunks[0].key)
                             : NULL;
        if (before)
            keep_seen_time(&grave.part, &before->part);
        catalog_push_grave(part, &grave);
    }
    return json->why == NULL;
}

static bool take_removals(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    struct removal removal;
    for (json_enter_array(json); json_next_element(json);) {
        if (!removal_read(reader, &removal))
            return false;
        for (size_t i = 0; i < removal.count; i++)
            if (!enter_key(reader, removal.keys[i]))
                return false;
        if (!catalog_room_removals(part, 1) ||
            !catalog_reserve_keys(part, removal.file_id_count))
            return part_no_memory(reader);
        const struct removal *before =
            reader->previous ? catalog_removal_by_key(reader->previous, removal.keys[0]) : NULL;
        if (before)
            keep_seen_time(&removal.part, &before->part);
        catalog_push_removal(part, &removal);
    }
    return json->why == NULL;
}

static bool take_children(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    struct catalog *catalog = part;
    size_t count = 0;
    for (json_enter_array(json); json_next_element(json); count++) {
        struct view name;
        if (count == CATALOG_CHILDREN || !read_partition(reader, &name))
            return json_fail(json, "too many children");
        for (size_t i = 0; i < count; i++)
            if (view_equal(catalog->children[i], name))
                return json_fail(json, "duplicate child");
        catalog->children[count] = name;
    }
    if (json->why || count != CATALOG_CHILDREN)
        return json_fail(json, "too few children");
    catalog->child_count = count;
    return true;
}

static bool take_split_by(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct view word;
    if (!json_take_plain(&reader->json, &word))
        return false;
    bool hour = view_equal(word, VIEW("hour"));
    if (!hour && !view_equal(word, VIEW("key")))
        return json_fail(&reader->json, "split_by is neither hour nor key");
    ((struct catalog *)part)->split_by = hour ? SPLIT_BY_HOUR : SPLIT_BY_KEY;
    reader->split_by_known = true;
    return true;
}

static bool take_moved_keys(struct part_reader *reader, uint64_t child)
{
    struct json_reader *json = &reader->json;
    struct view key;
    for (json_enter_array(json); json_next_element(json);) {
        if (!json_take_text(json, &reader->catalog->inside->space, &key))
            return false;
        bool good = key.size > 0 && key.size <= KEY_BYTES_MAX &&
                    !memchr(key.data, '\0', key.size) &&
                    ++reader->key_count <= CATALOG_KEYS_READ_MAX;
        if (!good)
            return json_fail(json, "invalid key, or too many keys");
        if (!enter_key(reader, key))
            return false;
        if (!catalog_room_references(reader->catalog, 1))
            return part_no_memory(reader);
        catalog_push_reference(reader->catalog, key, (unsigned)child);
    }
    return json->why == NULL;
}

/* Groups are in the order of the children, so encoding gives the same bytes. Each has
 * only "child" and "keys", in this order. */
static bool take_moved(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    uint64_t child, least = 0;
    struct view name, more;
    (void)part;
    for (json_enter_array(json); json_next_element(json); least = child + 1) {
        bool good = json_enter_object(json) && json_next_member(json, &name) &&
                    view_equal(name, VIEW("child")) &&
                    json_take_u64(json, CATALOG_CHILDREN - 1, &child) && child >= least &&
                    json_next_member(json, &name) && view_equal(name, VIEW("keys"));
        if (!good)
            return json_fail(json, "references are invalid or out of order");
        if (!take_moved_keys(reader, child))
            return false;
        if (json_next_member(json, &more))
            return json_fail(json, "unknown member in references");
    }
    return json->why == NULL;
}

/* Reads identities into one of the catalog's two lists of them. */
static bool take_file_ids(struct part_reader *reader, struct catalog *catalog,
                          bool (*make_room)(struct catalog *, size_t),
                          void (*push)(struct catalog *, struct view))
{
    struct json_reader *json = &reader->json;
    struct view file_id;
    for (json_enter_array(json); json_next_element(json);) {
        if (!file_id_read(reader, &file_id))
            return false;
        if (!make_room(catalog, 1) || !catalog_reserve_keys(catalog, 1))
            return part_no_memory(reader);
        push(catalog, file_id);
    }
    return json->why == NULL;
}

static bool take_moved_files(struct member_reader *members, void *part)
{
    return take_file_ids(members->context, part, catalog_room_moved_file_ids,
                         catalog_push_moved_file);
}

static bool take_ms(struct member_reader *members, const char *why, int64_t *ret_ms)
{
    struct json_reader *json = &((struct part_reader *)members->context)->json;
    if (!json_take_i64(json, ret_ms))
        return false;
    return (*ret_ms >= -CHUNK_MS_MAX && *ret_ms <= CHUNK_MS_MAX) || json_fail(json, why);
}

static bool take_floor(struct member_reader *members, void *part)
{
    struct catalog *catalog = part;
    catalog->has_floor = true;
    return take_ms(members, "the floor is out of range", &catalog->floor_ms);
}

static bool take_expired(struct member_reader *members, void *part)
{
    struct catalog *catalog = part;
    catalog->has_expired = true;
    return take_ms(members, "the time of expiry is out of range", &catalog->expired_ms);
}

static bool take_dropping(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct catalog *catalog = part;
    struct buffer unknown = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    catalog->is_dropping = true;
    catalog->dropping.seen = reader->arrived;
    bool good = part_members_read(reader, &dropping_table, catalog, &unknown);
    if (good) {
        catalog->dropping.unknown = catalog_keep(catalog, buffer_view(&unknown));
        good = catalog->dropping.unknown.data || part_no_memory(reader);
    }
    buffer_release(&unknown);
    if (good && reader->previous && reader->previous->is_dropping)
        keep_seen_time(&catalog->dropping, &reader->previous->dropping);
    return good;
}

static bool take_kept_files(struct member_reader *members, void *part)
{
    return take_file_ids(members->context, part, catalog_room_kept_file_ids,
                         catalog_push_kept_file);
}

/* Two merges of the same source could not both be committed, and a plan has room for one. */
static bool check_sources_once(struct part_reader *reader)
{
    const struct catalog *catalog = reader->catalog;
    struct hf_error error;
    size_t count = 0;
    for (size_t i = 0; i < catalog->merge_count; i++)
        count += catalog->merges[i].source_count;
    struct view *sources = catalog_take(reader->catalog, (count + 1) * sizeof *sources);
    if (!sources)
        return part_no_memory(reader);
    count = 0;
    for (size_t i = 0; i < catalog->merge_count; i++)
        for (size_t k = 0; k < catalog->merges[i].source_count; k++)
            sources[count++] = catalog->merges[i].sources[k];
    enum hf_status status = catalog_check_twice(sources, count, &error);
    if (status == HF_UNAVAILABLE)
        return part_no_memory(reader);
    return status == HF_OK || json_fail(&reader->json, "duplicate source of divided merges");
}

/* The records stand behind everything else, so the keys that are known otherwise were read
 * before. */
static bool take_merges(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    struct catalog *catalog = part;
    struct divided_merge merge;
    for (json_enter_array(json); json_next_element(json);) {
        if (catalog->merge_count == CATALOG_MERGES_MAX)
            return json_fail(json, "too many divided merges");
        if (!divided_read(reader, &merge))
            return false;
        if (catalog_merge(catalog, merge.id))
            return json_fail(json, "duplicate id of a divided merge");
        catalog->merges[catalog->merge_count++] = merge;
    }
    return json->why == NULL && check_sources_once(reader);
}

static const struct member catalog_members[] = {
    MEMBER_BY("format", take_catalog_format, MEMBER_NEEDED),
    MEMBER_BY("write", take_write_nonce, MEMBER_OPTIONAL),
    MEMBER_BY("partition", take_partition, MEMBER_NEEDED),
    MEMBER_BY("parent", take_parent, MEMBER_OPTIONAL),
    MEMBER(catalog, "depth", MEMBER_U32, depth, CATALOG_DEPTH_MAX, MEMBER_OPTIONAL),
    MEMBER(catalog, "generation", MEMBER_U64, generation, GENERATION_MAX, MEMBER_OPTIONAL),
    MEMBER_BY("settings", take_settings, MEMBER_NEEDED),
    MEMBER_BY("counts", take_counts, MEMBER_NEEDED),
    MEMBER(catalog, "due", MEMBER_STAMP, due, 0, MEMBER_OPTIONAL),
    MEMBER_BY("writers", take_writers, MEMBER_NEEDED),
    MEMBER_BY("chunks", take_chunks, MEMBER_NEEDED),
    MEMBER_BY("tombstones", take_graves, MEMBER_NEEDED),
    MEMBER_BY("deleting", take_removals, MEMBER_NEEDED),
    MEMBER_BY("kept_file_ids", take_kept_files, MEMBER_OPTIONAL),
    MEMBER_BY("children", take_children, MEMBER_OPTIONAL),
    MEMBER_BY("split_by", take_split_by, MEMBER_OPTIONAL),
    MEMBER(catalog, "split_generation", MEMBER_U64, split_generation, GENERATION_MAX,
           MEMBER_OPTIONAL),
    MEMBER_BY("moved", take_moved, MEMBER_OPTIONAL),
    MEMBER_BY("moved_file_ids", take_moved_files, MEMBER_OPTIONAL),
    MEMBER_BY("floor", take_floor, MEMBER_OPTIONAL),
    MEMBER_BY("expired", take_expired, MEMBER_OPTIONAL),
    MEMBER(catalog, "stray", MEMBER_STAMP, stray, 0, MEMBER_OPTIONAL),
    MEMBER_BY("dropping", take_dropping, MEMBER_OPTIONAL),
    MEMBER_BY("merges", take_merges, MEMBER_OPTIONAL),
};
static const struct member_table catalog_table =
    MEMBER_TABLE(catalog_members, "a required member is missing");

/* ---- Invariants ---------------------------------------------------------------------- */

/* A chunk with another home can only come from a split, so the catalog must have a parent. */
static bool is_at_home(const struct catalog *catalog, struct view key)
{
    return catalog->parent.size > 0 || view_equal(layout_home(key), catalog->partition);
}

static bool homes_are_right(const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->live_count; i++)
        if (!is_at_home(catalog, catalog->live[i].key))
            return false;
    for (size_t i = 0; i < catalog->grave_count; i++)
        for (size_t k = 0; k < catalog->graves[i].count; k++)
            if (!is_at_home(catalog, catalog->graves[i].chunks[k].key))
                return false;
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        bool ours = removal->how == DELETING_CONDEMNED;
        for (size_t k = 0; k < removal->count; k++)
            if (ours ? !view_equal(layout_home(removal->keys[k]), catalog->partition)
                     : !is_at_home(catalog, removal->keys[k]))
                return false;
    }
    for (size_t i = 0; i < catalog->reference_count; i++)
        if (!is_at_home(catalog, catalog->references[i].key))
            return false;
    return true;
}

/* A removal of a later generation than the catalog would never be deleted, because no reader could
 * pin that generation. */
static bool generations_hold(const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->removal_count; i++)
        if (catalog->removals[i].generation > catalog->generation)
            return false;
    return catalog->split_generation <= catalog->generation &&
           (catalog->child_count > 0 || catalog->split_generation == 0);
}

static bool check_whole(struct part_reader *reader)
{
    const struct catalog *catalog = reader->catalog;
    struct json_reader *json = &reader->json;
    bool split = catalog->child_count > 0;
    if ((catalog->parent.size > 0) != (catalog->depth > 0))
        return json_fail(json, "parent and depth contradict each other");
    bool moved = catalog->reference_count > 0 || catalog->moved_file_id_count > 0;
    if (split != reader->split_by_known || (!split && moved))
        return json_fail(
            json, "references or split_by without children, or children without split_by");
    if (view_equal(catalog->parent, catalog->partition))
        return json_fail(json, "the catalog is its own parent");
    for (size_t i = 0; i < catalog->child_count; i++)
        if (view_equal(catalog->children[i], catalog->partition))
            return json_fail(json, "the catalog is its own child");
    if (catalog->child_count > 0 && catalog->live_count > 0)
        return json_fail(json, "the catalog has both children and live chunks");
    bool listed = catalog->live_count + catalog->dead_count > 0;
    if ((catalog->is_dropping && catalog->live_count > 0) || (catalog->is_dropped && listed))
        return json_fail(json, "the catalog is being dropped and still lists chunks");
    if (reader->previous && !view_equal(reader->previous->partition, catalog->partition))
        return json_fail(json, "the catalog belongs to another partition");
    if (!catalog_sequences_hold(catalog))
        return json_fail(json, "a chunk's sequence number is above that of its writer");
    if (!generations_hold(catalog))
        return json_fail(json, "a generation is later than that of the catalog");
    if (!homes_are_right(catalog))
        return json_fail(json, "a key belongs to another partition");
    return true;
}

/* Copies the text, and reserves room for its unescaped strings and for a key with escapes. */
static bool copy_document(struct catalog *catalog, struct view text)
{
    struct catalog_inside *inside = catalog->inside;
    inside->text = malloc(text.size + 1);
    if (!inside->text)
        return false;
    memcpy(inside->text, text.data, text.size);
    bool escapes = memchr(text.data, '\\', text.size) != NULL;
    return buffer_reserve(&inside->space, (escapes ? text.size : 0) + KEY_TEXT_MAX);
}

enum hf_status catalog_decode(struct view text, struct mono_time arrived,
                              const struct catalog *previous, struct catalog **ret_catalog,
                              struct hf_error *error)
{
    if (text.size == 0 || text.size > CATALOG_BYTES_READ_MAX)
        return error_set(error, HF_CORRUPT, "not a catalog: it has %zu bytes", text.size);
    if (checksum_check(text) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT, "the catalog is damaged: " CHECKSUM_MISTAKE);
    struct catalog *catalog = catalog_blank();
    if (!catalog)
        return error_no_memory(error);
    if (!copy_document(catalog, text)) {
        catalog_free(catalog);
        return error_no_memory(error);
    }
    struct part_reader reader = {
        .json = json_read((struct view){ catalog->inside->text, text.size }),
        .catalog = catalog,
        .previous = previous,
        .arrived = arrived,
        .items = BUFFER_INIT(CATALOG_KEYS_READ_MAX * sizeof(struct chunk)),
    };
    catalog->parent = VIEW("");
    bool good =
        part_members_read(&reader, &catalog_table, catalog, &catalog->inside->unknown) &&
        json_end(&reader.json) && check_whole(&reader);
    size_t at = (size_t)(reader.json.at - reader.json.text.data);
    buffer_release(&reader.items);
    if (!good) {
        catalog_free(catalog);
        if (reader.no_memory)
            return error_no_memory(error);
        return error_set(error, reader.later ? HF_UNSUPPORTED : HF_CORRUPT,
                         "the catalog cannot be read at byte %zu: %s", at, reader.json.why);
    }
    catalog->inside->spent = 0; /* all of it is in use */
    *ret_catalog = catalog;
    return HF_OK;
}
