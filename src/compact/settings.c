/* settings.c: how a partition is compacted: bounds, and the JSON of it. */
#include "compact/settings.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "merge/command.h"

#define FIELD_BYTES_MAX   256
#define COMMAND_BYTES_MAX 4096

#define MINUTE_MS INT64_C(60000)
#define DAY_MS    (24 * 60 * MINUTE_MS)
#define YEAR_MS   (366 * DAY_MS)

#define POLICY_NAMES        \
    {                       \
        "levels", "cascade" \
    }

struct compact_settings compact_settings_default(void)
{
    return (struct compact_settings){
        .format = MERGE_USV,
        .coding = MERGE_PLAIN,
        .command_limit_ms = 60 * MINUTE_MS,
        .rejects_max = MERGE_REJECTS_DEFAULT,
        .policy = POLICY_LEVELS,
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
    };
}

const char *compact_policy_name(enum compact_policy policy)
{
    static const char *const names[POLICY_COUNT] = POLICY_NAMES;
    check(policy < POLICY_COUNT);
    return names[policy];
}

enum hf_status compact_policy_parse(struct view text, enum compact_policy *ret_policy,
                                    struct hf_error *error)
{
    for (int i = 0; i < POLICY_COUNT; i++) {
        if (view_equal(text, view_of(compact_policy_name((enum compact_policy)i)))) {
            *ret_policy = (enum compact_policy)i;
            return HF_OK;
        }
    }
    return error_set(error, HF_INVALID, "\"%.*s\" is no policy: levels or cascade",
                     VIEW_ARGS(view_first(text, 40)));
}

uint64_t compact_level_bytes(const struct compact_settings *settings, unsigned level)
{
    uint64_t bytes = settings->level1_bytes;
    for (unsigned i = 1; i < level && bytes < OBJECT_BYTES_MAX; i++)
        bytes *= settings->level_factor;
    return bytes < OBJECT_BYTES_MAX ? bytes : OBJECT_BYTES_MAX;
}

/* ---- Members ------------------------------------------------------------------------- */

/* A number: what the document calls it, where it stands in the struct, and its bounds. Signed
 * and unsigned ones are alike here, since none is negative or near 2^63. */
struct number {
    struct view name;
    size_t offset;
    uint64_t min, max;
};

#define NUMBER(member, least, most)                                                  \
    {                                                                                \
        { #member, sizeof(#member) - 1 }, offsetof(struct compact_settings, member), \
            (uint64_t)(least), (uint64_t)(most)                                      \
    }

static const struct number numbers[] = {
    NUMBER(command_limit_ms, 1, 30 * DAY_MS),
    NUMBER(rejects_max, 0, INT64_MAX),
    NUMBER(level0_count, 2, 4096),
    NUMBER(level1_bytes, 1, OBJECT_BYTES_MAX),
    NUMBER(level_factor, 2, 1000),
    NUMBER(cascade_base, 2, 1000),
    NUMBER(group_max, 2, 512), /* a lease names them all, and many leases fit into a table */
    NUMBER(ttl_ms, 100, DAY_MS),
    NUMBER(grace_ms, 0, YEAR_MS),
    NUMBER(late_bound_ms, 1, YEAR_MS),
    NUMBER(skew_tolerance_ms, 0, DAY_MS),
    NUMBER(retention_ms, 0, 100 * YEAR_MS),
    NUMBER(backlog_max, 1, 1000000),
    NUMBER(tries_max, 1, 1000),
    NUMBER(step_ms, 0, 60 * MINUTE_MS),
};
#define NUMBER_COUNT (sizeof numbers / sizeof numbers[0])

static_assert(sizeof(int64_t) == sizeof(uint64_t), "members are moved as they are");

static uint64_t get_number(const struct compact_settings *settings, const struct number *number)
{
    uint64_t value;
    memcpy(&value, (const char *)settings + number->offset, sizeof value);
    return value;
}

static void set_number(struct compact_settings *settings, const struct number *number,
                       uint64_t value)
{
    memcpy((char *)settings + number->offset, &value, sizeof value);
}

static const struct number *find_number(struct view name)
{
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        if (view_equal(name, numbers[i].name))
            return &numbers[i];
    return NULL;
}

bool compact_settings_knows(struct view name)
{
    static const struct view others[] = { { "format", 6 }, { "key", 3 },      { "time", 4 },
                                          { "header", 6 }, { "compress", 8 }, { "command", 7 },
                                          { "policy", 6 } };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (view_equal(name, others[i]))
            return true;
    return find_number(name) != NULL;
}

bool compact_settings_keep(struct compact_settings *settings, struct arena *arena)
{
    struct view *texts[] = { &settings->key, &settings->time, &settings->command };
    bool kept = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && kept; i++) {
        if (texts[i]->size == 0)
            continue;
        *texts[i] = arena_copy(arena, *texts[i]);
        kept = texts[i]->data != NULL; /* a copy that failed has no size either */
    }
    return kept;
}

void compact_settings_hash(const struct compact_settings *settings, struct hash_stream *stream)
{
    const struct view texts[] = { view_of(merge_format_name(settings->format)),
                                  view_of(merge_coding_name(settings->coding)),
                                  view_of(compact_policy_name(settings->policy)),
                                  settings->headless ? VIEW("headless") : VIEW(""),
                                  settings->key,
                                  settings->time,
                                  settings->command };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        hash_stream_add(stream, texts[i]);
        hash_stream_add(stream, VIEW("\n"));
    }
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        uint64_t value = get_number(settings, &numbers[i]);
        hash_stream_add(stream, (struct view){ (const char *)&value, sizeof value });
    }
}

bool compact_settings_equal(const struct compact_settings *a, const struct compact_settings *b)
{
    bool equal = a->format == b->format && view_equal(a->key, b->key) &&
                 view_equal(a->time, b->time) && a->headless == b->headless &&
                 a->coding == b->coding && view_equal(a->command, b->command) &&
                 a->policy == b->policy;
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        equal = equal && get_number(a, &numbers[i]) == get_number(b, &numbers[i]);
    return equal;
}

/* ---- Bounds -------------------------------------------------------------------------- */

static enum hf_status check_text(const char *what, struct view text, size_t max,
                                 struct hf_error *error)
{
    if (text.size > max)
        return error_set(error, HF_INVALID, "the %s of the settings is longer than %zu bytes",
                         what, max);
    if (!utf8_is_text(text))
        return error_set(error, HF_INVALID, "the %s of the settings is not text", what);
    return HF_OK;
}

static enum hf_status check_numbers(const struct compact_settings *settings,
                                    struct hf_error *error)
{
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        uint64_t value = get_number(settings, &numbers[i]);
        if (value < numbers[i].min || value > numbers[i].max)
            return error_set(error, HF_INVALID, "%s of the settings must be %llu to %llu",
                             numbers[i].name.data, (unsigned long long)numbers[i].min,
                             (unsigned long long)numbers[i].max);
    }
    return HF_OK;
}

static enum hf_status check_together(const struct compact_settings *settings,
                                     struct hf_error *error)
{
    bool exec = settings->format == MERGE_EXEC;
    bool has_command = settings->command.size > 0;
    bool records = settings->format != MERGE_CONCAT && !exec;
    bool tabular = settings->format == MERGE_CSV || settings->format == MERGE_TSV;
    if (exec && !has_command)
        return error_set(error, HF_INVALID, "the format exec needs a command that merges");
    if (!records && !has_command && settings->key.size + settings->time.size > 0)
        return error_set(error, HF_INVALID, "the format %s has no fields for a key or a time",
                         merge_format_name(settings->format));
    if (records && settings->key.size + settings->time.size == 0)
        return error_set(error, HF_INVALID, "name a key or a time, by which %s is merged",
                         merge_format_name(settings->format));
    if (settings->headless && !tabular)
        return error_set(error, HF_INVALID, "only csv and tsv have a header to do without");
    return HF_OK;
}

/* What a document must have to be read at all. */
static enum hf_status check_bounds(const struct compact_settings *settings,
                                   struct hf_error *error)
{
    if ((unsigned)settings->format >= MERGE_FORMAT_COUNT ||
        (unsigned)settings->coding >= MERGE_CODING_COUNT ||
        (unsigned)settings->policy >= POLICY_COUNT)
        return error_set(error, HF_INVALID,
                         "a format, compression or policy of the settings that is none");
    enum hf_status status = check_text("key", settings->key, FIELD_BYTES_MAX, error);
    if (status == HF_OK)
        status = check_text("time", settings->time, FIELD_BYTES_MAX, error);
    if (status == HF_OK)
        status = check_text("command", settings->command, COMMAND_BYTES_MAX, error);
    if (status == HF_OK)
        status = check_numbers(settings, error);
    return status == HF_OK ? check_together(settings, error) : status;
}

/* Whether it could be run. A word stands for all inputs, so that it may stand for itself. */
static enum hf_status check_command(struct view line, struct hf_error *error)
{
    static const char *const inputs[] = { "{inputs}" };
    struct arena arena = ARENA_INIT;
    char **words;
    bool has_inputs = false;
    enum hf_status status = command_words(line, inputs, 1, "output", &arena, &words, error);
    for (; status == HF_OK && *words && !has_inputs; words++)
        has_inputs = strcmp(*words, inputs[0]) == 0;
    arena_release(&arena);
    if (status == HF_OK && !has_inputs)
        return error_set(error, HF_INVALID,
                         "the command does not say where {inputs} go, so it could not know "
                         "what to merge");
    return status;
}

/* Without names in a header a field is known by its number. */
static enum hf_status check_field(const char *what, struct view field, struct hf_error *error)
{
    uint64_t number = 1;
    if (field.size > 0 && (parse_u64(field, UINT32_MAX, &number, NULL) != HF_OK || number == 0))
        return error_set(
            error, HF_INVALID,
            "the %s must be the number of a field, from 1, not '%.*s': there are no "
            "names to find it by",
            what, VIEW_ARGS(view_first(field, 60)));
    return HF_OK;
}

/* Chunks must not be kept out before there are enough of them to be merged. */
static enum hf_status check_backlog(const struct compact_settings *settings,
                                    struct hf_error *error)
{
    bool levels = settings->policy == POLICY_LEVELS;
    uint64_t least = levels ? settings->level0_count : settings->cascade_base;
    if (settings->backlog_max < least)
        return error_set(error, HF_INVALID,
                         "backlog_max of the settings must be at least %s, %llu: else nothing "
                         "would ever be merged",
                         levels ? "level0_count" : "cascade_base", (unsigned long long)least);
    return HF_OK;
}

enum hf_status compact_settings_check(const struct compact_settings *settings,
                                      struct hf_error *error)
{
    enum hf_status status = check_bounds(settings, error);
    bool numbered = settings->format == MERGE_USV || settings->headless;
    if (status == HF_OK && settings->command.size > 0)
        status = check_command(settings->command, error);
    if (status == HF_OK && settings->retention_ms > 0 && settings->time.size == 0)
        status =
            error_set(error, HF_INVALID,
                      "retention goes by the times of records: name the field of the time");
    if (status == HF_OK && numbered)
        status = check_field("key", settings->key, error);
    if (status == HF_OK && numbered)
        status = check_field("time", settings->time, error);
    return status == HF_OK ? check_backlog(settings, error) : status;
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void write_text(struct buffer *text, struct view before, struct view value)
{
    buffer_append(text, before);
    json_write_string(text, value);
}

bool compact_settings_encode(const struct compact_settings *settings, struct buffer *text)
{
    write_text(text, VIEW("{\"format\":"), view_of(merge_format_name(settings->format)));
    if (settings->key.size > 0)
        write_text(text, VIEW(",\"key\":"), settings->key);
    if (settings->time.size > 0)
        write_text(text, VIEW(",\"time\":"), settings->time);
    if (settings->headless)
        buffer_append(text, VIEW(",\"header\":false"));
    if (settings->coding != MERGE_PLAIN)
        write_text(text, VIEW(",\"compress\":"), view_of(merge_coding_name(settings->coding)));
    if (settings->command.size > 0)
        write_text(text, VIEW(",\"command\":"), settings->command);
    write_text(text, VIEW(",\"policy\":"), view_of(compact_policy_name(settings->policy)));
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        buffer_append(text, VIEW(",\""));
        buffer_append(text, numbers[i].name);
        buffer_append(text, VIEW("\":"));
        buffer_append_u64(text, get_number(settings, &numbers[i]));
    }
    return buffer_append_byte(text, '}');
}

/* A word that one of the parsers above knows. */
static bool take_format(struct json_reader *reader, struct compact_settings *settings)
{
    struct view word;
    return json_take_plain(reader, &word) &&
           (merge_format_parse(word, &settings->format, NULL) == HF_OK ||
            json_fail(reader, "a format of the settings that is none"));
}

static bool take_coding(struct json_reader *reader, struct compact_settings *settings)
{
    struct view word;
    return json_take_plain(reader, &word) &&
           (merge_coding_parse(word, &settings->coding, NULL) == HF_OK ||
            json_fail(reader, "a compression of the settings that is none"));
}

static bool take_policy(struct json_reader *reader, struct compact_settings *settings)
{
    struct view word;
    return json_take_plain(reader, &word) &&
           (compact_policy_parse(word, &settings->policy, NULL) == HF_OK ||
            json_fail(reader, "a policy of the settings that is none"));
}

static bool take_header(struct json_reader *reader, struct compact_settings *settings)
{
    bool header;
    if (!json_take_bool(reader, &header))
        return false;
    settings->headless = !header;
    return true;
}

static bool take_member(struct json_reader *reader, struct view name, struct buffer *space,
                        struct compact_settings *settings)
{
    const struct number *number = find_number(name);
    struct view raw;
    uint64_t value;
    if (number) {
        if (!json_take_u64(reader, number->max, &value))
            return false;
        set_number(settings, number, value);
        return true;
    }
    if (view_equal(name, VIEW("format")))
        return take_format(reader, settings);
    if (view_equal(name, VIEW("key")))
        return json_take_text(reader, space, &settings->key);
    if (view_equal(name, VIEW("time")))
        return json_take_text(reader, space, &settings->time);
    if (view_equal(name, VIEW("header")))
        return take_header(reader, settings);
    if (view_equal(name, VIEW("compress")))
        return take_coding(reader, settings);
    if (view_equal(name, VIEW("command")))
        return json_take_text(reader, space, &settings->command);
    if (view_equal(name, VIEW("policy")))
        return take_policy(reader, settings);
    return json_skip(reader, &raw);
}

bool compact_settings_decode(struct json_reader *reader, struct buffer *space,
                             struct compact_settings *ret_settings)
{
    struct compact_settings settings = compact_settings_default();
    struct view name;
    for (json_enter_object(reader); json_next_member(reader, &name);)
        take_member(reader, name, space, &settings);
    if (reader->why)
        return false;
    struct view *texts[] = { &settings.key, &settings.time, &settings.command };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i]->size == 0)
            *texts[i] = (struct view){ NULL, 0 };
    if (check_bounds(&settings, NULL) != HF_OK)
        return json_fail(reader, "settings that are out of range or do not go together");
    *ret_settings = settings;
    return true;
}
