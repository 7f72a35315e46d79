/* compact_desk.c: the partition that a command works on, and how its parts are told. */
#include "cli/compact.h"

#include "base/layout.h"
#include "base/parse.h"
#include "cli/connect.h"
#include "cli/lock.h"

#include <stdlib.h>

/* ---- Opening ------------------------------------------------------------------------- */

struct view partition_option(struct cli *cli)
{
    const struct option_value *value = cli_option(cli, "partition");
    return value ? value->text : VIEW(LAYOUT_PARTITION_DEFAULT);
}

/* What is counted is the work, and not what the bucket said of itself. */
static enum hf_status open_counted(struct cli *cli)
{
    cli->counts_requests = true;
    enum hf_status status = cli_open_store(cli);
    atomic_store(&cli->requests, 0);
    return status;
}

static void report_trouble(void *argument, const struct hf_compact_trouble *trouble)
{
    struct desk *desk = argument;
    struct hf_error why;
    error_set(&why, trouble->status, "%s", trouble->why);
    struct view part = view_of(trouble->part);
    cli_report(desk->cli, part.size > 0 ? part : (struct view){ NULL, 0 }, &why);
    if (desk->broken.status == HF_OK)
        desk->broken = why;
}

enum hf_status desk_end(struct desk *desk, enum hf_status status)
{
    struct cli *cli = desk->cli;
    cli->reported = status != HF_OK && status == desk->broken.status &&
                    strcmp(cli->error.why, desk->broken.why) == 0;
    return status;
}

static enum hf_status open_desk(struct desk *desk, struct cli *cli, bool counted,
                                struct hf_compact_options *options)
{
    *desk = (struct desk){ .cli = cli };
    const char *partition = option_text(cli, "partition");
    struct view name = partition_option(cli);
    if (!layout_partition_valid(name)) /* before the store is asked */
        return error_set(
            &cli->error, HF_INVALID,
            "a partition is named with a-z 0-9 . _ - in up to %d bytes, not '%.*s'",
            PARTITION_BYTES_MAX, VIEW_ARGS(view_first(name, 80)));
    options->trouble = report_trouble;
    options->argument = desk;
    enum hf_status status = counted ? open_counted(cli) : HF_OK;
    if (status == HF_OK)
        status = cli_connect(cli, HF_CLIENT_OPTIONS, &desk->client);
    if (status == HF_OK)
        status = hf_compact_open(desk->client, partition, options, &desk->compact, &cli->error);
    return status;
}

enum hf_status desk_open(struct desk *desk, struct cli *cli)
{
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    return open_desk(desk, cli, /* counted */ false, &options);
}

enum hf_status desk_open_exec(struct desk *desk, struct cli *cli,
                              struct hf_compact_options *options)
{
    return open_desk(desk, cli, /* counted */ false, options);
}

enum hf_status desk_open_counted(struct desk *desk, struct cli *cli,
                                 struct hf_compact_options *options)
{
    return open_desk(desk, cli, /* counted */ true, options);
}

void desk_close(struct desk *desk)
{
    hf_compact_close(desk->compact);
    hf_client_close(desk->client);
}

uint64_t desk_requests(struct desk *desk)
{
    return atomic_load(&desk->cli->requests);
}

const char *scratch_folder(struct cli *cli)
{
    const char *scratch = option_text(cli, "scratch");
    const char *folder = scratch ? scratch : getenv("TMPDIR");
    return folder && folder[0] ? folder : "/tmp";
}

/* ---- Commands of the bucket ----------------------------------------------------------- */

#define ALLOW_EXEC_VARIABLE "HOLDFAST_ALLOW_EXEC"
#define ALLOW_EXEC_MAX      64

struct program_list {
    struct cli *cli;
    const char **programs;
    size_t count;
};

/* A program must be the same wherever the worker was started. */
static enum hf_status add_program(struct program_list *list, const char *where,
                                  struct view path)
{
    struct cli *cli = list->cli;
    if (path.size == 0 || path.data[0] != '/')
        return error_set(&cli->error, HF_INVALID,
                         "%s takes the absolute path of a program, not '%.*s'", where,
                         VIEW_ARGS(view_first(path, 80)));
    if (list->count == ALLOW_EXEC_MAX)
        return error_set(&cli->error, HF_INVALID, "%d programs may be allowed, no more",
                         ALLOW_EXEC_MAX);
    struct view copy = arena_copy(&cli->arena, path);
    if (!copy.data)
        return error_no_memory(&cli->error);
    list->programs[list->count++] = copy.data;
    return HF_OK;
}

enum hf_status take_allow_exec(struct cli *cli, struct hf_compact_options *options)
{
    struct program_list list = { .cli = cli };
    const char *variable = getenv(ALLOW_EXEC_VARIABLE);
    struct view rest = view_of(variable ? variable : "");
    enum hf_status status = HF_OK;
    list.programs = arena_take(&cli->arena, ALLOW_EXEC_MAX * sizeof *list.programs);
    if (!list.programs)
        return error_no_memory(&cli->error);
    for (const struct option_value *value = cli_option(cli, "allow-exec");
         value && status == HF_OK; value = value->next)
        status = add_program(&list, "--allow-exec", value->text);
    while (rest.size > 0 && status == HF_OK)
        status = add_program(&list, ALLOW_EXEC_VARIABLE, view_cut(&rest, ':'));
    options->allow_exec = list.programs;
    options->allow_exec_count = list.count;
    return status;
}

/* ---- JSON ---------------------------------------------------------------------------- */

/* As they stand in a catalog. */
json_t *settings_as_json(const struct hf_compact_settings *settings)
{
    json_t *object = json_object();
    json_add(&object, "format", json_string(hf_merge_format_name(settings->format)));
    if (settings->key && settings->key[0])
        json_add_words(&object, "key", view_of(settings->key));
    if (settings->time && settings->time[0])
        json_add_words(&object, "time", view_of(settings->time));
    if (settings->headless)
        json_add_bool(&object, "header", false);
    if (settings->coding > HF_MERGE_PLAIN)
        json_add(&object, "compress", json_string(hf_merge_coding_name(settings->coding)));
    if (settings->command && settings->command[0])
        json_add_words(&object, "command", view_of(settings->command));
    json_add(&object, "policy", json_string(hf_compact_policy_name(settings->policy)));
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
#define NUMBER(name) { #name, (uint64_t)(settings->name) }
        NUMBER(command_limit_ms),  NUMBER(rejects_max),
        NUMBER(level0_count),      NUMBER(level1_bytes),
        NUMBER(level_factor),      NUMBER(cascade_base),
        NUMBER(group_max),         NUMBER(ttl_ms),
        NUMBER(grace_ms),          NUMBER(late_bound_ms),
        NUMBER(skew_tolerance_ms), NUMBER(retention_ms),
        NUMBER(backlog_max),       NUMBER(tries_max),
        NUMBER(step_ms),
#undef NUMBER
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_add_count(&object, numbers[i].name, numbers[i].value);
    return object;
}

json_t *chunk_as_json(const struct hf_chunk_info *chunk)
{
    json_t *object = json_object();
    json_add_key(&object, "key", view_of(chunk->key));
    json_add_count(&object, "level", chunk->level);
    json_add_count(&object, "size_bytes", chunk->size);
    json_add(&object, "rows",
             chunk->rows_known ? json_integer((json_int_t)chunk->rows) : json_null());
    json_add_time_ms(&object, "min_at", chunk->min_ms);
    json_add_time_ms(&object, "max_at", chunk->max_ms);
    json_add_words(&object, "writer", view_of(chunk->writer));
    json_add_count(&object, "sequence", chunk->sequence);
    json_add_crc32c(&object, "crc32c", chunk->crc32c);
    json_add_count(&object, "rejects", chunk->rejects);
    json_add_count(&object, "tries", chunk->tries);
    json_add_words(&object, "quarantine", view_of(chunk->quarantine));
    return object;
}
