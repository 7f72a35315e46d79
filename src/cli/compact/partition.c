/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c: opens the partition that a command works on; `compact create` and `set`, which write
 * its settings; and the manual operations `pause`, `resume`, `pin`, `quarantine` and `undelete`. */
#include "cli/compact/compact.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Opening ------------------------------------------------------------------------- */

struct view partition_option(struct cli *cli)
{
    const char *name = option_text(cli, "partition");
    return view_of(name ? name : "default");
}

static void report_trouble(void *argument, const struct hf_compact_trouble *trouble)
{
    struct cli *cli = argument;
    struct hf_error why;
    error_set(&why, trouble->status, "%s", trouble->why);
    struct view part = view_of(trouble->part);
    cli_report(cli, part.size > 0 ? part : (struct view){ NULL, 0 }, &why);
    if (cli->broken.status == HF_OK)
        cli->broken = why;
}

enum hf_status partition_end(struct cli *cli, enum hf_status status)
{
    cli->reported = status != HF_OK && status == cli->broken.status &&
                    strcmp(cli->error.why, cli->broken.why) == 0;
    return status;
}

enum hf_status cli_open_named(struct cli *cli, const char *partition,
                              struct hf_compact_options *options)
{
    struct hf_compact_options usual = HF_COMPACT_OPTIONS;
    options = options ? options : &usual;
    options->trouble = report_trouble;
    options->argument = cli;
    enum hf_status status = cli_connect(cli);
    return status == HF_OK
               ? hf_compact_open(cli->client, partition, options, &cli->compact, &cli->error)
               : status;
}

enum hf_status cli_open_partition(struct cli *cli, struct hf_compact_options *options)
{
    return cli_open_named(cli, option_text(cli, "partition"), options);
}

const char *scratch_folder(struct cli *cli)
{
    const char *scratch = option_text(cli, "scratch");
    const char *folder = scratch ? scratch : getenv("TMPDIR");
    return folder && folder[0] ? folder : "/tmp";
}

/* ---- Allowed programs ----------------------------------------------------------------- */

#define ALLOW_EXEC_VARIABLE "HOLDFAST_ALLOW_EXEC"
#define ALLOW_EXEC_MAX      64

/* The path must be absolute, because a relative path would depend on the folder in which the worker
 * is started. */
static enum hf_status allow_program(struct cli *cli, struct names *programs, const char *where,
                                    struct view path)
{
    if (path.size == 0 || path.data[0] != '/')
        return cli_invalid(cli, "%s takes the absolute path of a program, not '%.*s'", where,
                           VIEW_ARGS(view_first(path, 80)));
    if (programs->count == ALLOW_EXEC_MAX)
        return cli_invalid(cli, "at most %d programs can be allowed", ALLOW_EXEC_MAX);
    return names_add(programs, path) ? HF_OK : error_no_memory(&cli->error);
}

enum hf_status take_allow_exec(struct cli *cli, struct hf_compact_options *options)
{
    const char *variable = getenv(ALLOW_EXEC_VARIABLE);
    struct view rest = view_of(variable ? variable : "");
    const struct option_value *value = cli_option(cli, "allow-exec");
    struct names programs = { .arena = &cli->arena };
    enum hf_status status = HF_OK;
    while (value && status == HF_OK) {
        status = allow_program(cli, &programs, "--allow-exec", value->text);
        value = value->next;
    }
    while (rest.size > 0 && status == HF_OK)
        status = allow_program(cli, &programs, ALLOW_EXEC_VARIABLE, view_cut(&rest, ':'));
    options->allow_exec = programs.names;
    options->allow_exec_count = programs.count;
    return status;
}

/* ---- Settings ------------------------------------------------------------------------ */

/* Empty for plain chunks, so the record omits it. */
static const char *compress_name(unsigned coding)
{
    return coding > HF_MERGE_PLAIN ? hf_merge_coding_name((enum hf_merge_coding)coding) : "";
}

const struct field settings_record[] = SETTINGS_RECORD;

enum option_field_kind {
    TAKE_TEXT,
    TAKE_FLAG,
    TAKE_COUNT, /* also sizes */
    TAKE_SPAN,  /* milliseconds */
    TAKE_FORMAT,
    TAKE_CODING,
    TAKE_POLICY,
};

/* The option for each setting. Settings with `of_chunks` describe the contents of chunks, and
 * cannot change once the partition has chunks. */
static const struct option_field {
    const char *option;
    enum option_field_kind kind;
    size_t offset;
    bool of_chunks;
} option_fields[] = {
#define FIELD(option, kind, member, of_chunks)                                       \
    {                                                                                \
        option, TAKE_##kind, offsetof(struct hf_compact_settings, member), of_chunks \
    }
    FIELD("format", FORMAT, format, true),
    FIELD("key", TEXT, key, true),
    FIELD("time", TEXT, time, true),
    FIELD("deleted-field", TEXT, deleted, true),
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
    FIELD("output-max", COUNT, output_max, false),
#undef FIELD
};

/* Settings are stored in milliseconds; a finer duration would be rounded silently. */
static enum hf_status take_setting_option(struct cli *cli, const struct option_field *field,
                                          const struct option_value *value, void *at)
{
    switch (field->kind) {
    case TAKE_TEXT: *(const char **)at = value->text.data; return HF_OK; /* from argv */
    case TAKE_FLAG: *(bool *)at = true; return HF_OK;
    case TAKE_COUNT: *(uint64_t *)at = value->number; return HF_OK;
    case TAKE_SPAN:
        *(int64_t *)at = value->span.us / 1000;
        return value->span.us % 1000 == 0
                   ? HF_OK
                   : cli_invalid(cli, "must be a whole number of milliseconds");
    case TAKE_FORMAT: return hf_merge_format_parse(value->text.data, at, &cli->error);
    case TAKE_CODING: return hf_merge_coding_parse(value->text.data, at, &cli->error);
    case TAKE_POLICY: return hf_compact_policy_parse(value->text.data, at, &cli->error);
    }
    return HF_OK;
}

/* Copies the given options into the settings. Returns their number, and the first option that
 * describes the contents of chunks. */
static enum hf_status take_setting_options(struct cli *cli,
                                           struct hf_compact_settings *settings,
                                           size_t *ret_count, const char **ret_of_chunks)
{
    *ret_count = 0;
    *ret_of_chunks = NULL;
    for (size_t i = 0; i < sizeof option_fields / sizeof option_fields[0]; i++) {
        const struct option_field *field = &option_fields[i];
        const struct option_value *value = cli_option(cli, field->option);
        if (!value)
            continue;
        enum hf_status status =
            take_setting_option(cli, field, value, (char *)settings + field->offset);
        if (status != HF_OK) {
            error_prefix(&cli->error, "--%s", field->option);
            return status;
        }
        ++*ret_count;
        if (field->of_chunks && !*ret_of_chunks)
            *ret_of_chunks = field->option;
    }
    return HF_OK;
}

struct made_partition {
    const char *done;
    struct view partition;
    struct hf_compact_settings settings;
};

const struct field made_partition_record[] = MADE_PARTITION_RECORD;

static void tell_made(struct cli *cli, const char *done,
                      const struct hf_compact_settings *settings)
{
    struct made_partition made = { done, partition_option(cli), *settings };
    record_tell(cli, made_partition_record, &made,
                "{done} partition {partition}: {settings.format}, policy {settings.policy}\n");
}

enum hf_status run_compact_create(struct cli *cli)
{
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    size_t given;
    const char *of_chunks;
    enum hf_status status = take_setting_options(cli, &settings, &given, &of_chunks);
    if (status == HF_OK)
        status = cli_open_partition(cli, /* options */ NULL);
    if (status == HF_OK)
        status = hf_compact_create(cli->compact, &settings, &cli->error);
    if (status == HF_OK)
        tell_made(cli, "created", &settings);
    return status;
}

static bool note_chunk(void *has_chunks, const struct hf_chunk_info *chunk)
{
    bool was_data = chunk->state == HF_CHUNK_LIVE || chunk->state == HF_CHUNK_TOMBSTONE;
    *(bool *)has_chunks |= was_data;
    return !was_data;
}

/* An option that describes the contents of chunks is refused once there are chunks, even with its
 * current value, because the user expects a change that will not happen. Shown are the settings
 * that hold now, with what others have changed meanwhile. */
enum hf_status run_compact_set(struct cli *cli)
{
    struct hf_compact_settings before = HF_COMPACT_SETTINGS, settings;
    bool has_chunks = false;
    size_t given;
    const char *of_chunks;
    enum hf_status status = hf_compact_get_settings(cli->compact, &before, &cli->error);
    settings = before;
    if (status == HF_OK)
        status = take_setting_options(cli, &settings, &given, &of_chunks);
    if (status == HF_OK && given == 0)
        return cli_invalid(cli, "no setting was given; --help lists the settings, and 'compact "
                                "status --json' shows their values");
    if (status == HF_OK && of_chunks)
        status = partition_end(cli, hf_compact_chunks(cli->compact, HF_CHUNKS_ALL, note_chunk,
                                                      &has_chunks, &cli->error));
    if (status == HF_OK && has_chunks)
        return error_set(&cli->error, HF_CONFLICT,
                         "--%s cannot be changed: the partition already has chunks", of_chunks);
    if (status == HF_OK)
        status =
            partition_end(cli, hf_compact_set(cli->compact, &before, &settings, &cli->error));
    if (status == HF_OK) {
        struct hf_error ignored; /* they are stored; then those that were asked for are shown */
        hf_compact_get_settings(cli->compact, &settings, &ignored);
        tell_made(cli, "changed", &settings);
    }
    return status;
}

/* ---- Manual work --------------------------------------------------------------------- */

#define PIN_TTL_MS_DEFAULT 600000
#define PIN_CHUNKS_MAX     512
#define REASON_BYTES_MAX   200

/* The result of a command, for its record. Each command fills in the members that it prints. */
struct cared {
    struct view partition, key;
    bool paused;
    const char *quarantine; /* the reason; "": no longer in quarantine */
    bool discarded;
    uint64_t restored;
};

const struct field paused_record[] = PAUSED_RECORD;
const struct field quarantined_record[] = QUARANTINED_RECORD;
const struct field undeleted_record[] = UNDELETED_RECORD;

static enum hf_status tell_pause(struct cli *cli, bool paused, enum hf_status status)
{
    struct cared told = { .partition = partition_option(cli), .paused = paused };
    if (status == HF_OK)
        record_tell(cli, paused_record, &told, "[{paused?}paused|resumed] {partition}\n");
    return status;
}

enum hf_status run_compact_pause(struct cli *cli)
{
    char by[USER_TEXT_MAX];
    return tell_pause(cli, true,
                      hf_compact_pause(cli->compact, option_text(cli, "why"), user_text(by),
                                       &cli->error));
}

enum hf_status run_compact_resume(struct cli *cli)
{
    return tell_pause(cli, false, hf_compact_resume(cli->compact, &cli->error));
}

enum hf_status run_compact_pin(struct cli *cli)
{
    struct hf_lock *lock = NULL;
    if (cli->argument_count > PIN_CHUNKS_MAX)
        return cli_invalid(cli, "at most %d chunks can be pinned at once", PIN_CHUNKS_MAX);
    enum hf_status status = cli_open_partition(cli, /* options */ NULL);
    if (status == HF_OK)
        status = hf_compact_pin(cli->compact, cli->arguments, cli->argument_count,
                                option_ms(cli, "ttl", PIN_TTL_MS_DEFAULT), &lock, &cli->error);
    return status == HF_OK ? lease_hand_over(cli, lock) : status;
}

enum hf_status run_compact_quarantine(struct cli *cli)
{
    char by[USER_TEXT_MAX], said[REASON_BYTES_MAX + 1];
    const char *why = option_text(cli, "why"), *key = cli->arguments[0];
    if (why && strlen(why) > REASON_BYTES_MAX)
        return cli_invalid(cli, "--why must not exceed %d bytes", REASON_BYTES_MAX);
    snprintf(said, sizeof said, "by %s", user_text(by));
    bool release = cli_given(cli, "release"), discard = cli_given(cli, "discard");
    if (!why || !why[0])
        why = said;
    enum hf_status status = cli_open_partition(cli, /* options */ NULL);
    if (status != HF_OK)
        return status;
    status = release   ? hf_compact_unquarantine(cli->compact, key, &cli->error)
             : discard ? hf_compact_discard(cli->compact, key, &cli->error)
                       : hf_compact_quarantine(cli->compact, key, why, &cli->error);
    struct cared told = { .key = view_of(key),
                          .quarantine = release || discard ? "" : why,
                          .discarded = discard };
    if (partition_end(cli, status) == HF_OK)
        record_tell(cli, quarantined_record, &told,
                    "[{quarantine?}quarantined|[{discarded?}discarded|released]] {key}\n");
    return status;
}

enum hf_status run_compact_undelete(struct cli *cli)
{
    struct cared told = { .key = cli_argument(cli, 0) };
    enum hf_status status =
        partition_end(cli, hf_compact_undelete(cli->compact, told.key.data, &told.restored,
                                               &cli->error));
    if (status == HF_OK)
        record_tell(cli, undeleted_record, &told, "brought back {restored chunk}\n");
    return status;
}
