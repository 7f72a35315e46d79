/* compact_settings.c: `compact create` and `compact set`: how a partition is compacted. */
#include "base/parse.h"
#include "cli/compact.h"

#include <inttypes.h>

/* ---- Options ------------------------------------------------------------------------- */

enum field_kind {
    FIELD_TEXT,
    FIELD_FLAG,
    FIELD_COUNT, /* also sizes */
    FIELD_SPAN,  /* milliseconds */
    FIELD_FORMAT,
    FIELD_CODING,
    FIELD_POLICY,
};

/* Which option says what. What chunks are made of cannot change once there are some. */
static const struct field {
    const char *option;
    enum field_kind kind;
    size_t offset;
    bool of_chunks;
} fields[] = {
#define FIELD(option, kind, member, of_chunks)                                        \
    {                                                                                 \
        option, FIELD_##kind, offsetof(struct hf_compact_settings, member), of_chunks \
    }
    FIELD("format", FORMAT, format, true),
    FIELD("key", TEXT, key, true),
    FIELD("time", TEXT, time, true),
    FIELD("no-header", FLAG, headless, true),
    FIELD("compress", CODING, coding, false),
    FIELD("command", TEXT, command, false),
    FIELD("time-limit", SPAN, command_limit_ms, false),
    FIELD("max-rejects", COUNT, rejects_max, false),
    FIELD("policy", POLICY, policy, false),
    FIELD("level0-count", COUNT, level0_count, false),
    FIELD("level1-size", COUNT, level1_bytes, false),
    FIELD("level-factor", COUNT, level_factor, false),
    FIELD("cascade-base", COUNT, cascade_base, false),
    FIELD("group-max", COUNT, group_max, false),
    FIELD("ttl", SPAN, ttl_ms, false),
    FIELD("grace", SPAN, grace_ms, false),
    FIELD("late-bound", SPAN, late_bound_ms, false),
    FIELD("skew", SPAN, skew_tolerance_ms, false),
    FIELD("retention", SPAN, retention_ms, false),
    FIELD("backlog", COUNT, backlog_max, false),
    FIELD("tries", COUNT, tries_max, false),
    FIELD("step", SPAN, step_ms, false),
#undef FIELD
};

#define FIELDS (sizeof fields / sizeof fields[0])

/* A span that has no whole milliseconds would be written as another. */
static enum hf_status take_span(struct cli *cli, struct span span, int64_t *ms)
{
    if (span.us % 1000 != 0)
        return error_set(&cli->error, HF_INVALID, "it counts in milliseconds");
    *ms = span.us / 1000;
    return HF_OK;
}

static enum hf_status take_field(struct cli *cli, const struct field *field,
                                 const struct option_value *value,
                                 struct hf_compact_settings *settings)
{
    void *at = (char *)settings + field->offset;
    switch (field->kind) {
    case FIELD_TEXT: *(const char **)at = value->text.data; return HF_OK; /* of argv */
    case FIELD_FLAG: *(bool *)at = true; return HF_OK;
    case FIELD_COUNT: *(uint64_t *)at = value->number; return HF_OK;
    case FIELD_SPAN: return take_span(cli, value->span, at);
    case FIELD_FORMAT: return hf_merge_format_parse(value->text.data, at, &cli->error);
    case FIELD_CODING: return hf_merge_coding_parse(value->text.data, at, &cli->error);
    case FIELD_POLICY: return hf_compact_policy_parse(value->text.data, at, &cli->error);
    }
    return HF_OK;
}

/* Writes the options that were given over the settings; tells how many, and whether one is about
 * what chunks are made of. */
static enum hf_status take_fields(struct cli *cli, struct hf_compact_settings *settings,
                                  size_t *ret_count, const char **ret_of_chunks)
{
    *ret_count = 0;
    *ret_of_chunks = NULL;
    for (size_t i = 0; i < FIELDS; i++) {
        const struct option_value *value = cli_option(cli, fields[i].option);
        if (!value)
            continue;
        enum hf_status status = take_field(cli, &fields[i], value, settings);
        if (status != HF_OK) {
            error_prefix(&cli->error, "--%s", fields[i].option);
            return status;
        }
        ++*ret_count;
        if (fields[i].of_chunks && !*ret_of_chunks)
            *ret_of_chunks = fields[i].option;
    }
    return HF_OK;
}

static void tell(struct cli *cli, const char *done, const struct hf_compact_settings *settings)
{
    struct output *out = &cli->out;
    struct view partition = partition_option(cli);
    if (cli->json) {
        json_t *object = json_object();
        json_add_key(&object, "partition", partition);
        json_add(&object, "settings", settings_as_json(settings));
        output_json(out, object);
        return;
    }
    if (cli->quiet)
        return;
    output_print(out, "%s partition %.*s: %s, policy %s\n", done, VIEW_ARGS(partition),
                 hf_merge_format_name(settings->format),
                 hf_compact_policy_name(settings->policy));
}

/* ---- create -------------------------------------------------------------------------- */

enum hf_status run_compact_create(struct cli *cli)
{
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    struct desk desk = { .cli = cli };
    size_t given;
    const char *of_chunks;
    enum hf_status status = take_fields(cli, &settings, &given, &of_chunks);
    if (status != HF_OK)
        return status;
    status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = hf_compact_create(desk.compact, &settings, &cli->error);
    if (status == HF_OK)
        tell(cli, "made", &settings);
    desk_close(&desk);
    return status;
}

/* ---- set ----------------------------------------------------------------------------- */

static bool note_chunk(void *has_chunks, const struct hf_chunk_info *chunk)
{
    bool was_data = chunk->state == HF_CHUNK_LIVE || chunk->state == HF_CHUNK_TOMBSTONE;
    *(bool *)has_chunks |= was_data;
    return !was_data;
}

/* Whoever names what chunks are made of once there are some has something else in mind, also where
 * it is what is set already. */
static enum hf_status check_no_chunks(struct desk *desk, const char *option)
{
    struct cli *cli = desk->cli;
    bool has_chunks = false;
    enum hf_status status =
        desk_end(desk, hf_compact_chunks(desk->compact, HF_CHUNKS_ALL, note_chunk, &has_chunks,
                                         &cli->error));
    if (status != HF_OK || !has_chunks)
        return status;
    return error_set(&cli->error, HF_CONFLICT,
                     "--%s cannot change any more: there are chunks that are made so", option);
}

static enum hf_status change(struct desk *desk, struct hf_compact_settings *settings)
{
    struct cli *cli = desk->cli;
    size_t given;
    const char *of_chunks;
    enum hf_status status = take_fields(cli, settings, &given, &of_chunks);
    if (status != HF_OK)
        return status;
    if (given == 0)
        return error_set(&cli->error, HF_INVALID,
                         "name what to change; --help lists it, and 'compact status --json' "
                         "shows what is set");
    if (of_chunks)
        status = check_no_chunks(desk, of_chunks);
    if (status == HF_OK)
        status = desk_end(desk, hf_compact_set(desk->compact, settings, &cli->error));
    return status;
}

enum hf_status run_compact_set(struct cli *cli)
{
    struct desk desk;
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = hf_compact_get_settings(desk.compact, &settings, &cli->error);
    if (status == HF_OK)
        status = change(&desk, &settings);
    if (status == HF_OK)
        tell(cli, "changed", &settings);
    desk_close(&desk);
    return status;
}
