/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c: the schema of an index: creating it, extending it, and its JSON form. Fields can only
 * be appended, so older records keep their meaning, and older programs can still read them. */
#include "index/schema.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define HASH_DIGITS 16

static struct view field_name(const struct schema *schema, size_t field)
{
    return view_of(schema->fields[field]);
}

void schema_copy(struct schema *to, const struct schema *from)
{
    memcpy(to, from, offsetof(struct schema, fields));
    memcpy(to->fields, from->fields, from->field_count * sizeof from->fields[0]);
    to->version_count = from->version_count;
    memcpy(to->versions, from->versions, from->version_count * sizeof from->versions[0]);
}

size_t schema_find(const struct schema *schema, struct view name)
{
    size_t field = 0;
    while (field < schema->field_count && !view_equal(field_name(schema, field), name))
        field++;
    return field;
}

enum hf_status schema_pick(const struct schema *schema, struct view name, size_t *ret_field,
                           struct hf_error *error)
{
    size_t field = schema_find(schema, name);
    if (field < schema->field_count) {
        *ret_field = field;
        return HF_OK;
    }
    struct nearest nearest = { .wanted = name };
    struct buffer names = BUFFER_INIT(HF_WHY_MAX);
    for (size_t i = 0; i < schema->field_count; i++) {
        nearest_offer(&nearest, view_of(schema->fields[i]));
        buffer_print(&names, "%s%s", i ? ", " : "", schema->fields[i]);
    }
    error_set(error, HF_INVALID, "there is no field '%.*s'%s%.*s%s The fields are %.*s",
              VIEW_ARGS(view_first(name, INDEX_FIELD_BYTES)),
              nearest.best.data ? "; did you mean '" : "", VIEW_ARGS(nearest.best),
              nearest.best.data ? "'?" : ".", VIEW_ARGS(buffer_view(&names)));
    buffer_release(&names);
    return HF_INVALID;
}

/* Hashes each name, followed by an LF, which no name contains: key, time, then all fields. */
static uint64_t hash_version(const struct schema *schema, size_t field_count)
{
    struct hash_stream stream;
    hash_stream_init(&stream);
    const size_t roles[] = { schema->key, schema->time };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        hash_stream_add(&stream, field_name(schema, roles[i]));
        hash_stream_add(&stream, VIEW("\n"));
    }
    for (size_t i = 0; i < field_count; i++) {
        hash_stream_add(&stream, field_name(schema, i));
        hash_stream_add(&stream, VIEW("\n"));
    }
    return hash_stream_xxh3(&stream);
}

static void add_version(struct schema *schema)
{
    check(schema->version_count < INDEX_VERSIONS_MAX);
    schema->versions[schema->version_count].field_count = schema->field_count;
    schema->versions[schema->version_count].hash = hash_version(schema, schema->field_count);
    schema->version_count++;
}

/* ---- Making -------------------------------------------------------------------------- */

static bool is_name_byte(char c)
{
    char small = (char)(c | 0x20);
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

/* Appends a field. */
static enum hf_status schema_add_field(struct schema *schema, struct view name,
                                       struct hf_error *error)
{
    size_t plain = 0;
    while (plain < name.size && is_name_byte(name.data[plain]))
        plain++;
    if (name.size == 0)
        return error_set(error, HF_INVALID, "a field has no name");
    if (plain < name.size)
        return error_set(error, HF_INVALID,
                         "a field name may contain only a-z A-Z 0-9 . _ -; the name that "
                         "starts with '%.*s' contains something else",
                         VIEW_ARGS(view_first(name, plain < 40 ? plain : 40)));
    if (name.size > INDEX_FIELD_BYTES)
        return error_set(error, HF_INVALID, "the name of field %.*s... is longer than %d bytes",
                         VIEW_ARGS(view_first(name, 40)), INDEX_FIELD_BYTES);
    if (schema_find(schema, name) < schema->field_count)
        return error_set(error, HF_INVALID, "the field %.*s is listed twice", VIEW_ARGS(name));
    if (schema->field_count == INDEX_FIELDS_MAX)
        return error_set(error, HF_INVALID, "an index can have at most %d fields",
                         INDEX_FIELDS_MAX);
    memcpy(schema->fields[schema->field_count], name.data, name.size);
    schema->fields[schema->field_count][name.size] = '\0';
    schema->field_count++;
    return HF_OK;
}

/* Key and time must be fields of version 1, which has all fields that were added so far. */
static enum hf_status set_roles(struct schema *schema, struct view key, struct view time,
                                struct hf_error *error)
{
    schema->key = schema_find(schema, key);
    schema->time = schema_find(schema, time);
    if (schema->key == schema->field_count)
        return error_set(error, HF_INVALID, "the key '%.*s' is not one of the fields",
                         VIEW_ARGS(view_first(key, INDEX_FIELD_BYTES)));
    if (schema->time == schema->field_count)
        return error_set(error, HF_INVALID, "the time '%.*s' is not one of the fields",
                         VIEW_ARGS(view_first(time, INDEX_FIELD_BYTES)));
    if (schema->key == schema->time)
        return error_set(error, HF_INVALID, "%.*s cannot be both the key and the time",
                         VIEW_ARGS(key));
    return HF_OK;
}

bool schema_parse_time(const struct schema *schema, struct view text,
                       struct instant *ret_instant)
{
    return instant_parse(text, ret_instant) ||
           (schema->has_zone && instant_parse_local(text, schema->zone_east_s, ret_instant));
}

enum hf_status schema_set_zone(struct schema *schema, struct view zone, struct hf_error *error)
{
    schema->has_zone = zone.size > 0;
    if (zone.size == 0 || zone_parse(zone, &schema->zone_east_s))
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "'%.*s' is not a time zone; expected UTC, or an offset such as +02:00",
                     VIEW_ARGS(view_first(zone, 40)));
}

const char *zone_text(const struct schema *schema, char text[ZONE_TEXT_MAX])
{
    unsigned minutes = (unsigned)(llabs((long long)schema->zone_east_s) / 60);
    if (minutes == 0)
        return schema->has_zone ? "UTC" : "none";
    snprintf(text, ZONE_TEXT_MAX, "%c%02u:%02u", schema->zone_east_s < 0 ? '-' : '+',
             minutes / 60 % 100, minutes % 60);
    return text;
}

enum hf_status schema_new(const struct schema_spec *spec, struct schema *ret_schema,
                          struct hf_error *error)
{
    struct schema schema = { .digits = spec->digits,
                             .foreign = spec->foreign,
                             .plain = spec->plain };
    if (spec->digits < 1 || spec->digits > INDEX_DIGITS_MAX)
        return error_set(error, HF_INVALID, "a shard name must have 1 to %d digits, not %u",
                         INDEX_DIGITS_MAX, spec->digits);
    if (spec->field_count == 0)
        return error_set(error, HF_INVALID, "an index needs at least one field");
    for (size_t i = 0; i < spec->field_count; i++)
        if (schema_add_field(&schema, spec->fields[i], error) != HF_OK)
            return HF_INVALID;
    if (set_roles(&schema, spec->key, spec->time, error) != HF_OK)
        return HF_INVALID;
    add_version(&schema);
    *ret_schema = schema;
    return HF_OK;
}

/* ---- Extending ----------------------------------------------------------------------- */

/* Whether some version had this many fields. If so, the request matches that version. */
static bool was_version(const struct schema *schema, size_t field_count)
{
    for (size_t i = 0; i < schema->version_count; i++)
        if (schema->versions[i].field_count == field_count)
            return true;
    return false;
}

/* Checks the parts that never change. */
static enum hf_status check_same(const struct schema *schema, const struct schema *wanted,
                                 struct hf_error *error)
{
    size_t common =
        schema->field_count < wanted->field_count ? schema->field_count : wanted->field_count;
    if (schema->digits != wanted->digits)
        return error_set(
            error, HF_INVALID,
            "the shard names of the index have %u digit%s; this cannot be changed to %u",
            schema->digits, schema->digits == 1 ? "" : "s", wanted->digits);
    if (schema->foreign != wanted->foreign)
        return error_set(error, HF_INVALID,
                         schema->foreign
                             ? "the index accepts entries from other programs"
                             : "the index does not accept entries from other programs");
    if (schema->plain != wanted->plain)
        return error_set(error, HF_INVALID, "the shards of the index are %splain",
                         schema->plain ? "" : "not ");
    if (schema->has_zone != wanted->has_zone || schema->zone_east_s != wanted->zone_east_s) {
        char ours[ZONE_TEXT_MAX], theirs[ZONE_TEXT_MAX];
        return error_set(error, HF_INVALID,
                         "the time zone of the index is %s; this cannot be changed to %s",
                         zone_text(schema, ours), zone_text(wanted, theirs));
    }
    for (size_t i = 0; i < common; i++)
        if (strcmp(schema->fields[i], wanted->fields[i]) != 0)
            return error_set(
                error, HF_INVALID,
                "field %zu of the index is %s, not %s: fields can only be added at the end",
                i + 1, schema->fields[i], wanted->fields[i]);
    if (schema->key != wanted->key)
        return error_set(error, HF_INVALID, "the key of the index is %s, not %s",
                         schema->fields[schema->key], wanted->fields[wanted->key]);
    if (schema->time != wanted->time)
        return error_set(error, HF_INVALID, "the time of the index is %s, not %s",
                         schema->fields[schema->time], wanted->fields[wanted->time]);
    if (wanted->field_count < schema->field_count && !was_version(schema, wanted->field_count))
        return error_set(error, HF_INVALID,
                         "the index also has the field %s: fields cannot be removed",
                         schema->fields[wanted->field_count]);
    return HF_OK;
}

enum hf_status schema_extend(struct schema *schema, const struct schema *wanted,
                             bool *ret_changed, struct hf_error *error)
{
    enum hf_status status = check_same(schema, wanted, error);
    if (status != HF_OK)
        return status;
    bool changes = wanted->field_count > schema->field_count;
    if (changes && schema->version_count == INDEX_VERSIONS_MAX)
        return error_set(error, HF_INVALID, "the index already has the maximum of %d versions",
                         INDEX_VERSIONS_MAX);
    if (changes) {
        size_t from = schema->field_count;
        memcpy(schema->fields[from], wanted->fields[from],
               (wanted->field_count - from) * sizeof wanted->fields[0]);
        schema->field_count = wanted->field_count;
        add_version(schema);
    }
    *ret_changed = changes;
    return HF_OK;
}

enum hf_status schema_check_version(const struct schema *schema, uint64_t version,
                                    uint64_t hash, struct hf_error *error)
{
    if (version == 0)
        return error_set(error, HF_CORRUPT, "the schema version must not be 0");
    if (version > schema->version_count)
        return error_set(error, HF_UNSUPPORTED,
                         "version %" PRIu64 " of the schema is unknown: the latest is %zu",
                         version, schema->version_count);
    if (schema->versions[version - 1].hash != hash)
        return error_set(error, HF_CORRUPT,
                         "the fields do not match version %" PRIu64 " of the schema", version);
    return HF_OK;
}

/* ---- JSON ---------------------------------------------------------------------------- */

bool schema_encode(const struct schema *schema, struct view unknown, struct view nonce,
                   struct buffer *text)
{
    char zone[ZONE_TEXT_MAX], stamp[STAMP_TEXT_MAX];
    bool later = schema->has_zone || schema->deletes || schema->dropped || schema->plain;
    buffer_print(text,
                 "{\"format\":\"%s\",\"write\":", later ? INDEX_FORMAT_LATER : INDEX_FORMAT);
    checksum_append_write(text, nonce);
    buffer_print(text,
                 ",\"digits\":%u,\"foreign\":%s,\"key\":\"%s\",\"time\":\"%s\",\"fields\":[",
                 schema->digits, schema->foreign ? "true" : "false",
                 schema->fields[schema->key], schema->fields[schema->time]);
    for (size_t i = 0; i < schema->field_count; i++)
        buffer_print(text, "%s\"%s\"", i > 0 ? "," : "", schema->fields[i]);
    buffer_append(text, VIEW("],\"versions\":["));
    for (size_t i = 0; i < schema->version_count; i++)
        buffer_print(text, "%s[%zu,\"%016" PRIx64 "\"]", i > 0 ? "," : "",
                     schema->versions[i].field_count, schema->versions[i].hash);
    buffer_append_byte(text, ']');
    if (schema->has_zone)
        buffer_print(text, ",\"zone\":\"%s\"", zone_text(schema, zone));
    if (schema->plain)
        buffer_append(text, VIEW(",\"plain\":true"));
    if (schema->deletes)
        buffer_append(text, VIEW(",\"deletes\":true"));
    if (schema->dropped)
        buffer_print(text, ",\"dropped\":\"%s\"%s", stamp_text(schema->dropped_at, stamp),
                     schema->emptied ? ",\"emptied\":true" : "");
    buffer_append(text, unknown);
    buffer_append(text, VIEW("}\n"));
    return checksum_finish(text);
}

/* The members as text. They are parsed only once the format is known, because a newer format may
 * have other members. */
struct parts {
    struct view format, key, time, fields, versions, zone, dropped;
    uint64_t digits;
    bool foreign, foreign_given, deletes, plain, emptied;
};

static void read_part(struct json_reader *reader, struct view name, struct parts *parts)
{
    struct view raw;
    if (view_equal(name, VIEW("format")))
        json_take_plain(reader, &parts->format);
    else if (view_equal(name, VIEW("key")))
        json_take_plain(reader, &parts->key);
    else if (view_equal(name, VIEW("time")))
        json_take_plain(reader, &parts->time);
    else if (view_equal(name, VIEW("zone")))
        json_take_plain(reader, &parts->zone);
    else if (view_equal(name, VIEW("dropped")))
        json_take_plain(reader, &parts->dropped);
    else if (view_equal(name, VIEW("deletes")))
        json_take_bool(reader, &parts->deletes);
    else if (view_equal(name, VIEW("plain")))
        json_take_bool(reader, &parts->plain);
    else if (view_equal(name, VIEW("emptied")))
        json_take_bool(reader, &parts->emptied);
    else if (view_equal(name, VIEW("fields")))
        json_skip(reader, &parts->fields);
    else if (view_equal(name, VIEW("versions")))
        json_skip(reader, &parts->versions);
    else if (view_equal(name, VIEW("digits")))
        json_take_u64(reader, INDEX_DIGITS_MAX, &parts->digits);
    else if (view_equal(name, VIEW("foreign")))
        parts->foreign_given = json_take_bool(reader, &parts->foreign);
    else
        json_skip(reader, &raw);
}

static bool is_known_member(struct view name)
{
    static const char *const names[] = { "format",  "write",  "digits",   "foreign", "key",
                                         "time",    "fields", "versions", "zone",    "deletes",
                                         "dropped", "plain",  "emptied" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (view_equal(name, view_of(names[i])))
            return true;
    return false;
}

bool schema_unknown(struct view text, struct buffer *unknown)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (json_skip(&reader, &raw) && !is_known_member(name)) {
            buffer_append(unknown, VIEW(",\""));
            buffer_append(unknown, name);
            buffer_append(unknown, VIEW("\":"));
            buffer_append(unknown, raw);
        }
    return !unknown->failed;
}

static bool read_hash(struct view text, uint64_t *ret_hash)
{
    uint64_t hash = 0;
    if (text.size != HASH_DIGITS)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0)
            return false;
        hash = hash << 4 | (uint64_t)digit;
    }
    *ret_hash = hash;
    return true;
}

static bool read_schema_fields(struct view text, struct schema *schema)
{
    struct json_reader reader = json_read(text);
    struct view name;
    for (json_enter_array(&reader); json_next_element(&reader);)
        if (json_take_plain(&reader, &name) && schema_add_field(schema, name, NULL) != HF_OK)
            json_fail(&reader, "invalid field");
    return json_end(&reader) && schema->field_count > 0;
}

/* Reads one [number of fields, "hash"]. The hash must match these fields. */
static bool read_schema_version(struct json_reader *reader, struct schema *schema)
{
    size_t before =
        schema->version_count ? schema->versions[schema->version_count - 1].field_count : 0;
    struct view text = VIEW("");
    uint64_t count = 0, hash = 0;
    bool whole = json_enter_array(reader) && json_next_element(reader) &&
                 json_take_u64(reader, schema->field_count, &count) &&
                 json_next_element(reader) && json_take_plain(reader, &text) &&
                 !json_next_element(reader);
    if (!whole || count <= before || !read_hash(text, &hash) ||
        hash != hash_version(schema, (size_t)count) ||
        schema->version_count == INDEX_VERSIONS_MAX)
        return json_fail(reader, "invalid version");
    schema->versions[schema->version_count].field_count = (size_t)count;
    schema->versions[schema->version_count].hash = hash;
    schema->version_count++;
    return true;
}

/* Reads the versions. The last version has all fields, and the first must already have the key and
 * the time. */
static bool read_schema_versions(struct view text, struct schema *schema)
{
    struct json_reader reader = json_read(text);
    for (json_enter_array(&reader); json_next_element(&reader);)
        read_schema_version(&reader, schema);
    if (!json_end(&reader) || schema->version_count == 0)
        return false;
    return schema->versions[schema->version_count - 1].field_count == schema->field_count &&
           schema->key < schema->versions[0].field_count &&
           schema->time < schema->versions[0].field_count;
}

enum hf_status schema_decode(struct view text, struct schema *ret_schema,
                             struct hf_error *error)
{
    struct json_reader reader = json_read(text);
    struct parts parts = { .digits = 0 };
    struct view name;
    if (checksum_check(text) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT, "index.json is damaged: " CHECKSUM_MISTAKE);
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        read_part(&reader, name, &parts);
    bool readable = json_end(&reader);
    bool later = view_equal(parts.format, VIEW(INDEX_FORMAT_LATER));
    bool ours = later || view_equal(parts.format, VIEW(INDEX_FORMAT));
    if (!ours && view_starts_with(parts.format, VIEW("holdfast.index/")))
        return error_set(error, HF_UNSUPPORTED,
                         "the index has a later format, %.*s: use a newer version of holdfast",
                         VIEW_ARGS(view_first(parts.format, 40)));
    if (!readable || !ours || parts.digits == 0 || !parts.foreign_given)
        return error_set(error, HF_CORRUPT, "index.json is damaged: %s",
                         !readable ? reader.why : "a member is missing or out of range");
    struct schema schema = { .digits = (unsigned)parts.digits,
                             .foreign = parts.foreign,
                             .deletes = later && parts.deletes,
                             .plain = later && parts.plain,
                             .dropped = later && parts.dropped.size > 0,
                             .emptied = later && parts.dropped.size > 0 && parts.emptied };
    if (schema.dropped && !stamp_parse(parts.dropped, &schema.dropped_at))
        return error_set(error, HF_CORRUPT, "index.json is damaged: its mark is not a stamp");
    if (!read_schema_fields(parts.fields, &schema) ||
        set_roles(&schema, parts.key, parts.time, NULL) != HF_OK ||
        schema_set_zone(&schema, later ? parts.zone : VIEW(""), NULL) != HF_OK)
        return error_set(
            error, HF_CORRUPT,
            "index.json is damaged: its fields, key and time contradict each other");
    if (!read_schema_versions(parts.versions, &schema))
        return error_set(error, HF_CORRUPT,
                         "index.json is damaged: its versions do not match its fields");
    *ret_schema = schema;
    return HF_OK;
}
