/* catalog_json.c: the document of a catalog: encoding and decoding side by side. The parts are
 * in catalog_entry.c. */
#include "base/check.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "compact/catalog_inside.h"

#include <stdlib.h>

/* Of the document besides its parts. */
#define HEADER_BYTES (16 * KIB)

/* ---- Encoding ------------------------------------------------------------------------ */

static void write_string(struct buffer *text, struct view before, struct view value)
{
    buffer_append(text, before);
    json_write_string(text, value);
}

static void write_settings(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"settings\":"));
    compact_settings_encode(&catalog->settings, text);
    if (text->failed || catalog->inside->unknown_settings.size == 0)
        return;
    text->size--; /* its closing brace */
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

static void write_parts(const struct catalog *catalog, struct buffer *text)
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

static void write_moved_files(const struct catalog *catalog, struct buffer *text)
{
    if (catalog->moved_file_id_count == 0)
        return;
    buffer_append(text, VIEW(",\n\"moved_file_ids\":["));
    for (size_t i = 0; i < catalog->moved_file_id_count; i++) {
        if (i > 0)
            buffer_append_byte(text, ',');
        json_write_string(text, catalog->moved_file_ids[i]);
    }
    buffer_append_byte(text, ']');
}

static void write_children(const struct catalog *catalog, struct buffer *text)
{
    buffer_append(text, VIEW(",\n\"children\":["));
    for (size_t i = 0; i < catalog->child_count; i++) {
        if (i > 0)
            buffer_append_byte(text, ',');
        json_write_string(text, catalog->children[i]);
    }
    buffer_append(text, catalog->split_by == SPLIT_BY_HOUR ? VIEW("],\"split_by\":\"hour\"")
                                                           : VIEW("],\"split_by\":\"key\""));
    write_moved(catalog, text);
    write_moved_files(catalog, text);
}

bool catalog_encode(const struct catalog *catalog, struct view nonce, struct buffer *text)
{
    const struct catalog_inside *inside = catalog->inside;
    buffer_reserve(text, catalog->live_bytes + catalog->dead_bytes + HEADER_BYTES +
                             inside->unknown.size + inside->unknown_settings.size);
    write_string(text, VIEW("{\"format\":\"" LAYOUT_CATALOG_FORMAT "\",\"write\":"), nonce);
    write_string(text, VIEW(",\"partition\":"), catalog->partition);
    if (catalog->parent.size > 0)
        write_string(text, VIEW(",\"parent\":"), catalog->parent);
    buffer_append(text, VIEW(",\"depth\":"));
    buffer_append_u64(text, catalog->depth);
    write_settings(catalog, text);
    write_counts(catalog, text);
    write_writers(catalog, text);
    write_parts(catalog, text);
    if (catalog->child_count > 0)
        write_children(catalog, text);
    buffer_append(text, buffer_view(&inside->unknown));
    return buffer_append(text, VIEW("}\n"));
}

/* ---- Decoding ------------------------------------------------------------------------ */

/* Members of a catalog that may stand once; all others are kept as they are. */
enum member {
    FORMAT,
    WRITE,
    PARTITION,
    PARENT,
    DEPTH,
    SETTINGS,
    COUNTS,
    DUE,
    WRITERS,
    CHUNKS,
    TOMBSTONES,
    DELETING,
    CHILDREN,
    SPLIT_BY,
    MOVED,
    MOVED_FILE_IDS,
    UNKNOWN,
};

static const struct view member_names[UNKNOWN] = {
    [FORMAT] = { "format", 6 },
    [WRITE] = { "write", 5 },
    [PARTITION] = { "partition", 9 },
    [PARENT] = { "parent", 6 },
    [DEPTH] = { "depth", 5 },
    [SETTINGS] = { "settings", 8 },
    [COUNTS] = { "counts", 6 },
    [DUE] = { "due", 3 },
    [WRITERS] = { "writers", 7 },
    [CHUNKS] = { "chunks", 6 },
    [TOMBSTONES] = { "tombstones", 10 },
    [DELETING] = { "deleting", 8 },
    [CHILDREN] = { "children", 8 },
    [SPLIT_BY] = { "split_by", 8 },
    [MOVED] = { "moved", 5 },
    [MOVED_FILE_IDS] = { "moved_file_ids", 14 },
};

#define MEMBERS_NEEDED                                                                   \
    (1U << FORMAT | 1U << PARTITION | 1U << SETTINGS | 1U << CHUNKS | 1U << TOMBSTONES | \
     1U << DELETING | 1U << WRITERS | 1U << COUNTS)

struct decoding {
    struct part_reader part;
    const struct catalog *previous;
    unsigned found;
    bool later; /* of a version that we do not know */
};

static struct json_reader *json_of(struct decoding *d)
{
    return &d->part.json;
}

static struct buffer *space_of(struct decoding *d)
{
    return &d->part.catalog->inside->space;
}

static bool take_format(struct decoding *d)
{
    struct view format;
    if (!json_take_plain(json_of(d), &format))
        return false;
    if (view_equal(format, VIEW(LAYOUT_CATALOG_FORMAT)))
        return true;
    d->later = view_starts_with(format, VIEW("holdfast.catalog/"));
    return json_fail(json_of(d), d->later ? "it is of a later version than this program knows"
                                          : "its format is another");
}

static bool take_partition(struct decoding *d, struct view *ret_partition)
{
    struct view name;
    if (!json_take_plain(json_of(d), &name))
        return false;
    if (!layout_partition_valid(name))
        return json_fail(json_of(d), "a partition's name that is none");
    *ret_partition = name;
    return true;
}

/* The settings, once for what we know and once for what we do not. */
static bool take_settings(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    struct json_reader again = *json;
    struct view name, raw;
    if (!compact_settings_decode(json, space_of(d), &d->part.catalog->settings))
        return false;
    for (json_enter_object(&again); json_next_member(&again, &name);) {
        if (compact_settings_knows(name))
            json_skip(&again, &raw);
        else if (!member_keep(&again, name, &d->part.catalog->inside->unknown_settings))
            return part_no_memory(&d->part);
    }
    return true;
}

static bool take_counts(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    size_t count = 0;
    for (json_enter_array(json); json_next_element(json); count++) {
        if (count == CASCADE_LEVELS_MAX)
            return json_fail(json, "more counts than levels");
        json_take_u64(json, CHUNK_NUMBER_MAX, &d->part.catalog->cascade.counts[count]);
    }
    return json->why == NULL;
}

static bool take_due(struct decoding *d)
{
    struct view text;
    return json_take_plain(json_of(d), &text) &&
           (stamp_parse(text, &d->part.catalog->due) ||
            json_fail(json_of(d), "a stamp that is none"));
}

/* A writer's name is the name of a member, where escapes stand as they are. */
static bool take_writer_name(struct decoding *d, struct view raw, struct view *ret_name)
{
    struct view quoted = { raw.data - 1, raw.size + 2 };
    struct json_reader reader = json_read(quoted);
    if (!json_take_text(&reader, space_of(d), ret_name) || ret_name->size == 0 ||
        ret_name->size > WRITER_BYTES_MAX || memchr(ret_name->data, '\0', ret_name->size))
        return json_fail(json_of(d), "a writer's name that is none");
    return true;
}

static bool take_writers(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    struct catalog *catalog = d->part.catalog;
    struct view raw, name;
    uint64_t sequence;
    for (json_enter_object(json); json_next_member(json, &raw);) {
        if (catalog->writer_count > CATALOG_WRITERS_MAX)
            return json_fail(json, "more writers than a catalog can have");
        if (!take_writer_name(d, raw, &name) ||
            !json_take_u64(json, CHUNK_NUMBER_MAX, &sequence))
            return false;
        if (!catalog_room_writers(catalog, 1))
            return part_no_memory(&d->part);
        size_t place = writer_place(catalog->writers, catalog->writer_count, name);
        if (place < catalog->writer_count && view_equal(catalog->writers[place].name, name))
            return json_fail(json, "a writer that stands twice");
        memmove(&catalog->writers[place + 1], &catalog->writers[place],
                (catalog->writer_count - place) * sizeof *catalog->writers);
        catalog->writers[place] = (struct writer){ name, sequence };
        catalog->writer_count++;
    }
    return json->why == NULL;
}

/* A key that is about to be entered: there must be room, and it must be new. */
static bool enter_key(struct decoding *d, struct view key)
{
    struct key_index *index = &d->part.catalog->inside->index;
    if (!catalog_reserve_keys(d->part.catalog, 1))
        return part_no_memory(&d->part);
    if (key_index_get(index, key))
        return json_fail(json_of(d), "a key that stands twice");
    key_index_put(index, key, CHUNK_UNKNOWN, 0);
    return true;
}

static bool take_chunks(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    struct catalog *catalog = d->part.catalog;
    struct chunk chunk;
    for (json_enter_array(json); json_next_element(json);) {
        if (!chunk_read(&d->part, &chunk) || !enter_key(d, chunk.key))
            return false;
        if (!catalog_room_live(catalog, 1))
            return part_no_memory(&d->part);
        catalog_push_live(catalog, &chunk);
    }
    return json->why == NULL;
}

static bool same_stamp(struct stamp a, struct stamp b)
{
    return a.clock == b.clock && a.us == b.us;
}

/* Since when we see it stand there: what stood there before, by the same stamp, was seen
 * then. */
static void recall_grave(const struct decoding *d, struct grave *grave)
{
    if (!d->previous)
        return;
    const struct key_slot *slot =
        key_index_get(&d->previous->inside->index, grave->chunks[0].key);
    if (!slot || slot->state != CHUNK_TOMBSTONE)
        return;
    const struct grave *before = catalog_grave_of(d->previous, slot->serial);
    if (before && !before->unwritten && same_stamp(before->since, grave->since) &&
        before->restamps == grave->restamps)
        grave->seen = before->seen;
}

static void recall_removal(const struct decoding *d, struct removal *removal)
{
    if (!d->previous)
        return;
    const struct key_slot *slot = key_index_get(&d->previous->inside->index, removal->keys[0]);
    if (!slot || (slot->state != CHUNK_RETIRED && slot->state != CHUNK_CONDEMNED))
        return;
    const struct removal *before = catalog_removal_of(d->previous, slot->serial);
    if (before && !before->unwritten && same_stamp(before->since, removal->since) &&
        before->restamps == removal->restamps)
        removal->seen = before->seen;
}

static bool take_graves(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    struct catalog *catalog = d->part.catalog;
    struct grave grave;
    for (json_enter_array(json); json_next_element(json);) {
        if (!grave_read(&d->part, &grave))
            return false;
        for (size_t i = 0; i < grave.count; i++)
            if (!enter_key(d, grave.chunks[i].key))
                return false;
        if (!catalog_room_graves(catalog, 1) || !catalog_reserve_keys(catalog, grave.count))
            return part_no_memory(&d->part);
        recall_grave(d, &grave);
        catalog_push_grave(catalog, &grave);
    }
    return json->why == NULL;
}

static bool take_removals(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    struct catalog *catalog = d->part.catalog;
    struct removal removal;
    for (json_enter_array(json); json_next_element(json);) {
        if (!removal_read(&d->part, &removal))
            return false;
        for (size_t i = 0; i < removal.count; i++)
            if (!enter_key(d, removal.keys[i]))
                return false;
        if (!catalog_room_removals(catalog, 1) ||
            !catalog_reserve_keys(catalog, removal.file_id_count))
            return part_no_memory(&d->part);
        recall_removal(d, &removal);
        catalog_push_removal(catalog, &removal);
    }
    return json->why == NULL;
}

static bool take_children(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    struct catalog *catalog = d->part.catalog;
    size_t count = 0;
    for (json_enter_array(json); json_next_element(json); count++) {
        struct view name;
        if (count == CATALOG_CHILDREN || !take_partition(d, &name))
            return json_fail(json, "more children than there can be");
        for (size_t i = 0; i < count; i++)
            if (view_equal(catalog->children[i], name))
                return json_fail(json, "a child that stands twice");
        catalog->children[count] = name;
    }
    if (json->why || count != CATALOG_CHILDREN)
        return json_fail(json, "fewer children than there must be");
    catalog->child_count = count;
    return true;
}

static bool take_split_by(struct decoding *d)
{
    struct view word;
    if (!json_take_plain(json_of(d), &word))
        return false;
    bool hour = view_equal(word, VIEW("hour"));
    if (!hour && !view_equal(word, VIEW("key")))
        return json_fail(json_of(d), "split by neither hour nor key");
    d->part.catalog->split_by = hour ? SPLIT_BY_HOUR : SPLIT_BY_KEY;
    return true;
}

static bool take_moved_keys(struct decoding *d, uint64_t child)
{
    struct json_reader *json = json_of(d);
    struct catalog *catalog = d->part.catalog;
    struct view key;
    for (json_enter_array(json); json_next_element(json);) {
        if (!json_take_text(json, space_of(d), &key))
            return false;
        bool good = key.size > 0 && key.size <= KEY_BYTES_MAX &&
                    !memchr(key.data, '\0', key.size) &&
                    ++d->part.key_count <= CATALOG_KEYS_READ_MAX;
        if (!good)
            return json_fail(json, "a key that is none, or too many of them");
        if (!enter_key(d, key))
            return false;
        if (!catalog_room_references(catalog, 1))
            return part_no_memory(&d->part);
        catalog_push_reference(catalog, key, (unsigned)child);
    }
    return json->why == NULL;
}

/* Groups rise by child, so that the document is written as it was read; nothing but "child" and
 * "keys" stands in them, in this order. */
static bool take_moved(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    uint64_t child, least = 0;
    struct view name, more;
    for (json_enter_array(json); json_next_element(json); least = child + 1) {
        bool good = json_enter_object(json) && json_next_member(json, &name) &&
                    view_equal(name, VIEW("child")) &&
                    json_take_u64(json, CATALOG_CHILDREN - 1, &child) && child >= least &&
                    json_next_member(json, &name) && view_equal(name, VIEW("keys"));
        if (!good)
            return json_fail(json, "references that are none, or out of order");
        if (!take_moved_keys(d, child))
            return false;
        if (json_next_member(json, &more))
            return json_fail(json, "references with a member that nobody knows");
    }
    return json->why == NULL;
}

static bool take_moved_files(struct decoding *d)
{
    struct json_reader *json = json_of(d);
    struct catalog *catalog = d->part.catalog;
    struct view file_id;
    for (json_enter_array(json); json_next_element(json);) {
        if (!file_id_read(&d->part, &file_id))
            return false;
        if (!catalog_room_moved_file_ids(catalog, 1) || !catalog_reserve_keys(catalog, 1))
            return part_no_memory(&d->part);
        catalog_push_moved_file(catalog, file_id);
    }
    return json->why == NULL;
}

static enum member find_member(struct decoding *d, struct view name)
{
    for (unsigned i = 0; i < UNKNOWN; i++) {
        if (!view_equal(name, member_names[i]))
            continue;
        if (d->found >> i & 1)
            json_fail(json_of(d), "a member that stands twice");
        d->found |= 1U << i;
        return (enum member)i;
    }
    return UNKNOWN;
}

static bool take_depth(struct decoding *d)
{
    uint64_t depth;
    if (!json_take_u64(json_of(d), CATALOG_DEPTH_MAX, &depth))
        return false;
    d->part.catalog->depth = (unsigned)depth;
    return true;
}

static bool take_member(struct decoding *d, struct view name)
{
    struct catalog *catalog = d->part.catalog;
    struct view raw;
    switch (find_member(d, name)) {
    case FORMAT: return take_format(d);
    case WRITE: return json_skip(json_of(d), &raw);
    case PARTITION: return take_partition(d, &catalog->partition);
    case PARENT: return take_partition(d, &catalog->parent);
    case DEPTH: return take_depth(d);
    case SETTINGS: return take_settings(d);
    case COUNTS: return take_counts(d);
    case DUE: return take_due(d);
    case WRITERS: return take_writers(d);
    case CHUNKS: return take_chunks(d);
    case TOMBSTONES: return take_graves(d);
    case DELETING: return take_removals(d);
    case CHILDREN: return take_children(d);
    case SPLIT_BY: return take_split_by(d);
    case MOVED: return take_moved(d);
    case MOVED_FILE_IDS: return take_moved_files(d);
    case UNKNOWN: break;
    }
    return member_keep(json_of(d), name, &catalog->inside->unknown) ||
           (catalog->inside->unknown.failed && part_no_memory(&d->part));
}

/* ---- What the whole must be ---------------------------------------------------------- */

/* Chunks of another home come by a split, so only below a parent. */
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

static bool check_whole(struct decoding *d)
{
    const struct catalog *catalog = d->part.catalog;
    struct json_reader *json = json_of(d);
    bool split = d->found >> CHILDREN & 1;
    if ((d->found & MEMBERS_NEEDED) != MEMBERS_NEEDED)
        return json_fail(json, "it lacks a member that every catalog has");
    if ((catalog->parent.size > 0) != (catalog->depth > 0))
        return json_fail(json, "its parent and its depth do not go together");
    bool moved = catalog->reference_count > 0 || catalog->moved_file_id_count > 0;
    if (split != (d->found >> SPLIT_BY & 1) || (!split && moved))
        return json_fail(json, "it is neither split nor whole");
    if (view_equal(catalog->parent, catalog->partition))
        return json_fail(json, "it is its own parent");
    for (size_t i = 0; i < catalog->child_count; i++)
        if (view_equal(catalog->children[i], catalog->partition))
            return json_fail(json, "it is its own child");
    if (catalog->child_count > 0 && catalog->live_count > 0)
        return json_fail(json, "it has children and live chunks");
    if (d->previous && !view_equal(d->previous->partition, catalog->partition))
        return json_fail(json, "it is of another partition");
    if (!catalog_sequences_hold(catalog))
        return json_fail(json, "a chunk with a number that its writer was not given");
    if (!homes_are_right(catalog))
        return json_fail(json, "a key whose home is another partition");
    return true;
}

static enum hf_status decode_whole(struct decoding *d, struct hf_error *error)
{
    struct json_reader *json = json_of(d);
    struct view name;
    for (json_enter_object(json); json_next_member(json, &name);)
        take_member(d, name);
    if (json_end(json) && check_whole(d))
        return HF_OK;
    if (d->part.no_memory)
        return error_no_memory(error);
    return error_set(error, d->later ? HF_UNSUPPORTED : HF_CORRUPT,
                     "the catalog cannot be read at byte %zu: %s", json->at, json->why);
}

/* A copy of the text, and room for as much as its escapes can come to. */
static bool keep_text(struct catalog *catalog, struct view text)
{
    struct catalog_inside *inside = catalog->inside;
    inside->text = malloc(text.size + 1);
    if (!inside->text)
        return false;
    memcpy(inside->text, text.data, text.size);
    bool escapes = memchr(text.data, '\\', text.size) != NULL;
    return !escapes || buffer_reserve(&inside->space, text.size);
}

enum hf_status catalog_decode(struct view text, struct mono_time arrived,
                              const struct catalog *previous, struct catalog **ret_catalog,
                              struct hf_error *error)
{
    if (text.size == 0 || text.size > CATALOG_BYTES_READ_MAX)
        return error_set(error, HF_CORRUPT, "a catalog of %zu bytes is none", text.size);
    struct catalog *catalog = catalog_blank();
    if (!catalog)
        return error_no_memory(error);
    if (!keep_text(catalog, text)) {
        catalog_free(catalog);
        return error_no_memory(error);
    }
    struct decoding d = { .part = { .catalog = catalog, .arrived = arrived },
                          .previous = previous };
    catalog->parent = VIEW("");
    d.part.json = json_read((struct view){ catalog->inside->text, text.size });
    enum hf_status status = decode_whole(&d, error);
    free(d.part.chunks);
    free(d.part.keys);
    if (status != HF_OK) {
        catalog_free(catalog);
        return status;
    }
    catalog->inside->spent = 0; /* none of it is garbage */
    *ret_catalog = catalog;
    return HF_OK;
}
