/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c: the settings of a partition: limits, checks and JSON. Every client that can write to
 * the bucket can change them, so values that would stop or overload all workers are refused. */
#include "compact/catalog/settings.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/members.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "merge/command.h"
#include "merge/key.h"

#define FIELD_BYTES_MAX   256
#define COMMAND_BYTES_MAX 4096

#define MINUTE_MS INT64_C(60000)
#define DAY_MS    (24 * 60 * MINUTE_MS)
#define YEAR_MS   (366 * DAY_MS)

struct compact_settings compact_settings_default(void)
{
    return (struct compact_settings){
        .format = HF_MERGE_USV,
        .coding = HF_MERGE_PLAIN,
        .command_limit_ms = 60 * MINUTE_MS,
        .rejects_max = MERGE_REJECTS_DEFAULT,
        .policy = HF_COMPACT_LEVELS,
        .level0_count = 15,
        .level1_bytes = 2 * GIB,
        .level_factor = 5,
        .cascade_base = 20,
        .group_max = 256,
        .ttl_ms = MINUTE_MS,
        .grace_ms = 15 * MINUTE_MS,
        .late_bound_ms = DAY_MS,
        .skew_tolerance_ms = 30000,
        .retention_ms = 0,
        .backlog_max = 3000,
        .tries_max = 3,
        .step_ms = 1000,
        .output_max = 1 * GIB,
    };
}

enum hf_status compact_policy_parse(struct view text, enum hf_compact_policy *ret_policy,
                                    struct hf_error *error)
{
    for (int i = 0; i < HF_COMPACT_POLICY_COUNT; i++) {
        if (view_equal(text, view_of(hf_compact_policy_name((enum hf_compact_policy)i)))) {
            *ret_policy = (enum hf_compact_policy)i;
            return HF_OK;
        }
    }
    return error_set(error, HF_INVALID, "unknown policy '%.*s': use levels or cascade",
                     VIEW_ARGS(view_first(text, 40)));
}

struct merge_options compact_chunk_options(const struct compact_settings *settings)
{
    struct merge_options options = MERGE_OPTIONS;
    options.format = settings->format;
    if (merge_has_records(settings->format) && settings->key.size > 0)
        options.key = settings->key;
    if (merge_has_records(settings->format) && settings->time.size > 0)
        options.time = settings->time;
    if (settings->deleted.size > 0)
        options.deleted = settings->deleted;
    options.headless = settings->headless;
    options.distinct_columns = settings->command.size == 0;
    options.record_bytes_max = CHUNK_RECORD_MAX;
    options.record_max_is_fixed = true;
    return options;
}

uint64_t compact_level_bytes(const struct compact_settings *settings, unsigned level)
{
    uint64_t bytes = settings->level1_bytes;
    for (unsigned i = 1; i < level; i++)
        if (bytes < OBJECT_BYTES_MAX)
            bytes *= settings->level_factor;
    return bytes < OBJECT_BYTES_MAX ? bytes : OBJECT_BYTES_MAX;
}

/* ---- Members ------------------------------------------------------------------------- */

static const char *format_word(unsigned value)
{
    return hf_merge_format_name((enum hf_merge_format)value);
}

static const char *coding_word(unsigned value)
{
    return hf_merge_coding_name((enum hf_merge_coding)value);
}

static const char *policy_word(unsigned value)
{
    return hf_compact_policy_name((enum hf_compact_policy)value);
}

static bool is_plain(const void *object)
{
    return ((const struct compact_settings *)object)->coding == HF_MERGE_PLAIN;
}

/* "header" in JSON, and "headless" in C. */
static bool take_header(struct member_reader *reader, void *object)
{
    bool header;
    if (!json_take_bool(reader->json, &header))
        return false;
    ((struct compact_settings *)object)->headless = !header;
    return true;
}

static bool is_with_header(const void *object)
{
    return !((const struct compact_settings *)object)->headless;
}

static void write_header(const void *object, struct buffer *text)
{
    buffer_append(text, is_with_header(object) ? VIEW("true") : VIEW("false"));
}

/* ---- Keys ---------------------------------------------------------------------------- */

/* A key that is one field, compared as bytes, is stored as the name of this field, as it always
 * was. Any other key is stored as its text, which earlier versions would read as a name; so it
 * needs another version of the document (compact_settings_version). */

/* Whether a key is one field, compared as bytes; if so, the name of the field. */
static bool is_plain_key(struct view text, char space[KEY_TEXT_MAX], struct view *ret_name)
{
    return key_parse_name(text, space, ret_name, NULL) == HF_OK;
}

static bool take_plain_key(struct member_reader *reader, void *object)
{
    struct compact_settings *settings = object;
    struct view name;
    if (!json_take_text(reader->json, reader->space, &name))
        return false;
    if (name.size > FIELD_BYTES_MAX || memchr(name.data, '\0', name.size))
        return json_fail(reader->json, "text too long");
    size_t start = reader->space->size;
    settings->key = name;
    if (!memchr(name.data, ',', name.size) && !memchr(name.data, ':', name.size) &&
        !memchr(name.data, '\\', name.size))
        return true;
    if (!key_append_name(reader->space, name))
        return json_fail(reader->json, "out of memory");
    settings->key = (struct view){ reader->space->data + start, reader->space->size - start };
    return true;
}

static bool lacks_plain_key(const void *object)
{
    const struct compact_settings *settings = object;
    char space[KEY_TEXT_MAX];
    struct view name;
    return settings->key.size == 0 || !is_plain_key(settings->key, space, &name);
}

static void write_plain_key(const void *object, struct buffer *text)
{
    const struct compact_settings *settings = object;
    char space[KEY_TEXT_MAX];
    struct view name = settings->key;
    is_plain_key(settings->key, space, &name);
    json_write_string(text, name);
}

unsigned compact_settings_version(const struct compact_settings *settings)
{
    return settings->key.size > 0 && lacks_plain_key(settings) ? 2 : 1;
}

static bool lacks_other_key(const void *object)
{
    return compact_settings_version(object) == 1;
}

#define TEXT(member, most) \
    MEMBER(compact_settings, #member, MEMBER_TEXT, member, most, MEMBER_OPTIONAL)
#define WORD(text, member, function, count)                                     \
    .name = { text, sizeof(text) - 1 }, .kind = MEMBER_WORD,                    \
    .offset = offsetof(struct compact_settings, member), .need = MEMBER_ALWAYS, \
    .max = (count), .word = (function)
/* Signed and unsigned numbers are handled alike, since none is negative or near 2^63. */
#define NUMBER(member, least, most)                                                    \
    {                                                                                  \
        .name = { #member, sizeof(#member) - 1 }, .kind = MEMBER_U64,                  \
        .offset = offsetof(struct compact_settings, member), .min = (uint64_t)(least), \
        .max = (uint64_t)(most), .need = MEMBER_ALWAYS                                 \
    }

static const struct member members[] = {
    { WORD("format", format, format_word, HF_MERGE_FORMAT_COUNT),
      .unknown_word = "unknown format in settings" },
    { .name = { "key", 3 },
      .take = take_plain_key,
      .is_omitted = lacks_plain_key,
      .write = write_plain_key },
    { .name = { "keys", 4 },
      .kind = MEMBER_TEXT,
      .offset = offsetof(struct compact_settings, key),
      .max = KEY_TEXT_MAX,
      .is_omitted = lacks_other_key },
    TEXT(time, FIELD_BYTES_MAX),
    TEXT(deleted, FIELD_BYTES_MAX),
    { .name = { "header", 6 },
      .take = take_header,
      .is_omitted = is_with_header,
      .write = write_header },
    { WORD("compress", coding, coding_word, HF_MERGE_CODING_COUNT), .is_omitted = is_plain,
      .unknown_word = "unknown compression in settings" },
    TEXT(command, COMMAND_BYTES_MAX),
    { WORD("policy", policy, policy_word, HF_COMPACT_POLICY_COUNT),
      .unknown_word = "unknown policy in settings" },
    NUMBER(command_limit_ms, 1, 30 * DAY_MS),
    NUMBER(rejects_max, 0, INT64_MAX),
    NUMBER(level0_count, 2, 4096),
    NUMBER(level1_bytes, 1, OBJECT_BYTES_MAX),
    NUMBER(level_factor, 2, 1000),
    NUMBER(cascade_base, 2, 1000),
    NUMBER(group_max, 2, 512), /* a lease names all sources, and a table must fit many leases */
    NUMBER(ttl_ms, 100, DAY_MS),
    NUMBER(grace_ms, 0, YEAR_MS),
    NUMBER(late_bound_ms, 1, YEAR_MS),
    NUMBER(skew_tolerance_ms, 0, DAY_MS),
    NUMBER(retention_ms, 0, 100 * YEAR_MS),
    NUMBER(backlog_max, 1, 1000000),
    NUMBER(tries_max, 1, 1000),
    NUMBER(step_ms, 0, 60 * MINUTE_MS),
    NUMBER(output_max, 1, OBJECT_BYTES_MAX),
};
static const struct member_table settings_table = MEMBER_TABLE(members, "");

static const struct member *next_number_member(const struct member *previous)
{
    const struct member *end = members + settings_table.count;
    const struct member *next = previous ? previous + 1 : members;
    while (next < end && next->kind != MEMBER_U64)
        next++;
    return next < end ? next : NULL;
}

static uint64_t get_number(const struct compact_settings *settings, const struct member *number)
{
    uint64_t value;
    memcpy(&value, (const char *)settings + number->offset, sizeof value);
    return value;
}

bool compact_settings_keep(struct compact_settings *settings, struct arena *arena)
{
    struct view *texts[] = { &settings->key, &settings->time, &settings->deleted,
                             &settings->command };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i]->size == 0) {
            *texts[i] = (struct view){ NULL, 0 };
            continue;
        }
        *texts[i] = arena_copy(arena, *texts[i]);
        if (!texts[i]->data)
            return false;
    }
    return true;
}

void compact_settings_hash(const struct compact_settings *settings, struct hash_stream *stream)
{
    const struct view texts[] = { view_of(hf_merge_format_name(settings->format)),
                                  view_of(hf_merge_coding_name(settings->coding)),
                                  view_of(hf_compact_policy_name(settings->policy)),
                                  settings->headless ? VIEW("headless") : VIEW(""),
                                  settings->key,
                                  settings->time,
                                  settings->deleted,
                                  settings->command };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        hash_stream_add(stream, texts[i]);
        hash_stream_add(stream, VIEW("\n"));
    }
    for (const struct member *number = next_number_member(NULL); number;
         number = next_number_member(number)) {
        uint64_t value = get_number(settings, number);
        hash_stream_add(stream, (struct view){ (const char *)&value, sizeof value });
    }
}

bool compact_settings_equal(const struct compact_settings *a, const struct compact_settings *b)
{
    bool equal = a->format == b->format && view_equal(a->key, b->key) &&
                 view_equal(a->time, b->time) && view_equal(a->deleted, b->deleted) &&
                 a->headless == b->headless && a->coding == b->coding &&
                 view_equal(a->command, b->command) && a->policy == b->policy;
    for (const struct member *number = next_number_member(NULL); number;
         number = next_number_member(number))
        equal = equal && get_number(a, number) == get_number(b, number);
    return equal;
}

struct compact_settings compact_settings_change(const struct compact_settings *current,
                                                const struct compact_settings *before,
                                                const struct compact_settings *after)
{
    struct compact_settings changed = *current;
#define CHANGE(name)                 \
    if (before->name != after->name) \
    changed.name = after->name
#define CHANGE_TEXT(name)                       \
    if (!view_equal(before->name, after->name)) \
    changed.name = after->name
    CHANGE(format);
    CHANGE(headless);
    CHANGE(coding);
    CHANGE(policy);
    CHANGE_TEXT(key);
    CHANGE_TEXT(time);
    CHANGE_TEXT(deleted);
    CHANGE_TEXT(command);
#undef CHANGE
#undef CHANGE_TEXT
    for (const struct member *number = next_number_member(NULL); number;
         number = next_number_member(number))
        if (get_number(before, number) != get_number(after, number))
            memcpy((char *)&changed + number->offset, (const char *)after + number->offset,
                   sizeof(uint64_t));
    return changed;
}

/* ---- Bounds -------------------------------------------------------------------------- */

static enum hf_status check_text(const char *what, struct view text, size_t max,
                                 struct hf_error *error)
{
    if (text.size > max)
        return error_set(error, HF_INVALID, "the %s in the settings is longer than %zu bytes",
                         what, max);
    if (!utf8_is_text(text))
        return error_set(error, HF_INVALID, "the %s in the settings is not valid UTF-8 text",
                         what);
    return HF_OK;
}

static enum hf_status check_key_text(struct view text, struct hf_error *error)
{
    char space[KEY_TEXT_MAX];
    struct merge_key key;
    enum hf_status status = check_text("key", text, KEY_TEXT_MAX, error);
    if (status != HF_OK || text.size == 0)
        return status;
    status = key_parse(text, /* by_name */ true, space, &key, error);
    for (size_t i = 0; i < key.count && status == HF_OK; i++)
        status = check_text("key", key.parts[i].field.name, FIELD_BYTES_MAX, error);
    return status;
}

static enum hf_status check_together(const struct compact_settings *settings,
                                     struct hf_error *error)
{
    bool has_command = settings->command.size > 0;
    bool records = merge_has_records(settings->format);
    bool tabular = settings->format == HF_MERGE_CSV || settings->format == HF_MERGE_TSV;
    if (settings->format == HF_MERGE_EXEC && !has_command)
        return error_set(error, HF_INVALID, "the format exec needs a command");
    if (!records && !has_command && settings->key.size + settings->time.size > 0)
        return error_set(error, HF_INVALID,
                         "the format %s has no fields, so neither a key nor a time can be set",
                         hf_merge_format_name(settings->format));
    if (records && settings->key.size + settings->time.size == 0)
        return error_set(
            error, HF_INVALID,
            "no field to merge %s records by: set a key field, a time field, or both",
            hf_merge_format_name(settings->format));
    if (settings->format == HF_MERGE_PARQUET && compact_settings_version(settings) > 1)
        return error_set(error, HF_INVALID,
                         "the key of parquet files is one column, ordered by its type");
    if (settings->format == HF_MERGE_PARQUET && settings->coding != HF_MERGE_PLAIN)
        return error_set(error, HF_INVALID,
                         "a Parquet file compresses its own columns; it cannot be compressed "
                         "again");
    if (settings->deleted.size > 0 &&
        (!records || has_command || settings->key.size == 0 || settings->time.size == 0))
        return error_set(error, HF_INVALID,
                         "a deleted field needs a key and a time field, and no command");
    if (settings->headless && !tabular)
        return error_set(error, HF_INVALID, "only csv and tsv can be read without a header");
    return HF_OK;
}

/* Checks the limits without which a document is not read at all. */
static enum hf_status check_bounds(const struct compact_settings *settings,
                                   struct hf_error *error)
{
    if ((unsigned)settings->format >= HF_MERGE_FORMAT_COUNT ||
        (unsigned)settings->coding >= HF_MERGE_CODING_COUNT ||
        settings->coding == HF_MERGE_AUTO ||
        (unsigned)settings->policy >= HF_COMPACT_POLICY_COUNT)
        return error_set(error, HF_INVALID,
                         "unknown format, compression or policy in settings");
    enum hf_status status = check_key_text(settings->key, error);
    if (status == HF_OK)
        status = check_text("time", settings->time, FIELD_BYTES_MAX, error);
    if (status == HF_OK)
        status = check_text("deleted field", settings->deleted, FIELD_BYTES_MAX, error);
    if (status == HF_OK)
        status = check_text("command", settings->command, COMMAND_BYTES_MAX, error);
    if (status != HF_OK)
        return status;
    for (const struct member *number = next_number_member(NULL); number;
         number = next_number_member(number)) {
        uint64_t value = get_number(settings, number);
        if (value < number->min || value > number->max)
            return error_set(error, HF_INVALID, "%s must be %llu to %llu", number->name.data,
                             (unsigned long long)number->min, (unsigned long long)number->max);
    }
    return check_together(settings, error);
}

/* Whether the command can be run. One placeholder word stands for the inputs. */
static enum hf_status check_command(struct view line, struct hf_error *error)
{
    static const char *const inputs[] = { "{inputs}" };
    struct arena arena = ARENA_INIT;
    char **words;
    bool has_inputs = false;
    enum hf_status status = command_words(line, &(struct merge_paths){ inputs, 1, "output" },
                                          &arena, &words, error);
    if (status == HF_OK)
        for (; *words; words++)
            has_inputs |= strcmp(*words, inputs[0]) == 0;
    arena_release(&arena);
    if (status == HF_OK && !has_inputs)
        return error_set(error, HF_INVALID,
                         "the command does not say where {inputs} go; add the word {inputs}");
    return status;
}

/* Without a header a field is selected by its number. */
static enum hf_status check_field(const char *what, struct view field, struct hf_error *error)
{
    uint64_t number = 1;
    if (field.size > 0 && (parse_u64(field, UINT32_MAX, &number, NULL) != HF_OK || number == 0))
        return error_set(error, HF_INVALID,
                         "the %s must be a field number, counted from 1, not '%.*s': without a "
                         "header, fields have no names",
                         what, VIEW_ARGS(view_first(field, 60)));
    return HF_OK;
}

static enum hf_status check_key_fields(struct view text, struct hf_error *error)
{
    char space[KEY_TEXT_MAX];
    struct merge_key key = { .count = 0 };
    enum hf_status status = HF_OK;
    if (text.size > 0)
        status = key_parse(text, /* by_name */ true, space, &key, error);
    for (size_t i = 0; i < key.count && status == HF_OK; i++)
        status = check_field("key", key.parts[i].field.name, error);
    return status;
}

enum hf_status compact_settings_check(const struct compact_settings *settings,
                                      struct hf_error *error)
{
    enum hf_status status = check_bounds(settings, error);
    bool numbered = settings->format == HF_MERGE_USV || settings->headless;
    if (status == HF_OK && settings->command.size > 0)
        status = check_command(settings->command, error);
    if (status == HF_OK && settings->retention_ms > 0 && settings->time.size == 0)
        status = error_set(error, HF_INVALID,
                           "retention needs the times of records: set the time field");
    if (status == HF_OK && numbered)
        status = check_key_fields(settings->key, error);
    if (status == HF_OK && numbered)
        status = check_field("time", settings->time, error);
    if (status == HF_OK && numbered)
        status = check_field("deleted field", settings->deleted, error);
    /* Ingest must not be blocked before there are enough chunks for a merge. */
    bool levels = settings->policy == HF_COMPACT_LEVELS;
    uint64_t least = levels ? settings->level0_count : settings->cascade_base;
    if (status == HF_OK && settings->backlog_max < least)
        status = error_set(error, HF_INVALID,
                           "backlog_max must be at least %s (%llu): otherwise, ingest would "
                           "stop before the first merge",
                           levels ? "level0_count" : "cascade_base", (unsigned long long)least);
    return status;
}

/* ---- JSON ---------------------------------------------------------------------------- */

bool compact_settings_encode(const struct compact_settings *settings, struct buffer *text)
{
    members_write(&settings_table, settings, '{', text);
    return buffer_append_byte(text, '}');
}

bool compact_settings_decode(struct json_reader *reader, struct buffer *space,
                             struct buffer *unknown, struct compact_settings *ret_settings)
{
    struct compact_settings settings = compact_settings_default();
    struct member_reader members_of = { reader, space, unknown, NULL };
    if (!members_read(&members_of, &settings_table, &settings))
        return false;
    struct view *texts[] = { &settings.key, &settings.time, &settings.deleted,
                             &settings.command };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i]->size == 0)
            *texts[i] = (struct view){ NULL, 0 };
    if (check_bounds(&settings, NULL) != HF_OK)
        return json_fail(reader, "settings are out of range or contradict each other");
    *ret_settings = settings;
    return true;
}
