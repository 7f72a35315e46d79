/* SPDX-License-Identifier: Apache-2.0 */
/* read.c: `index query`, `export` and `count`: read many records of an index. */
#include "cli/files.h"
#include "cli/index/index.h"
#include "cli/interrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* ---- Walking ------------------------------------------------------------------------- */

struct index_walking {
    struct cli *cli;
    struct hf_index_query query;
    uint64_t limit; /* the maximum number of records to print */
    struct gauge gauge;
    const char *verb;
    struct hf_index_progress progress;
    struct hf_error trouble; /* the error of the first shard that could not be read */
};

static bool show_walked(void *argument, const struct hf_index_progress *so_far)
{
    struct index_walking *walking = argument;
    walking->progress = *so_far;
    if (interrupted())
        return false;
    if (gauge_is_due(&walking->gauge))
        gauge_say(&walking->gauge,
                  "%s  %" PRIu64 " of %" PRIu64 " shards  %" PRIu64 " record%s", walking->verb,
                  so_far->shards_read, so_far->shards_total, so_far->records,
                  so_far->records == 1 ? "" : "s");
    return true;
}

static void report_unreadable_shard(void *argument, const struct hf_error *error)
{
    struct index_walking *walking = argument;
    struct cli *cli = walking->cli;
    gauge_clear(&walking->gauge);
    cli_report(cli, cli_argument(cli, 0), error);
    cli->reported = true;
    if (walking->trouble.status == HF_OK)
        walking->trouble = *error;
}

static void walking_start(struct index_walking *walking)
{
    walking->progress = HF_INDEX_PROGRESS;
    walking->query.progress = show_walked;
    walking->query.trouble = report_unreadable_shard;
    walking->query.argument = walking;
    gauge_start(&walking->gauge, walking->cli, view_of(walking->verb));
}

/* The errors for unreadable shards were already printed, one by one. Unreadable entries only cause
 * a warning and are not a failure, because all readable records were printed. */
static enum hf_status walking_end(struct index_walking *walking, enum hf_status status)
{
    struct cli *cli = walking->cli;
    const char *name = cli->arguments[0];
    uint64_t count = walking->progress.unreadable;
    bool one = count == 1;
    struct hf_error note;
    gauge_clear(&walking->gauge);
    if (status != HF_OK && status != walking->trouble.status)
        cli->reported = false;
    if (count == 0 || cli->quiet)
        return status;
    error_set(&note, HF_OK,
              "%" PRIu64
              " entr%s in the inbox cannot be read and %s left out; a compile sets %s aside",
              count, one ? "y" : "ies", one ? "is" : "are", one ? "it" : "them");
    if (cli->json)
        write_error_line(json_pack("{s:s, s:I, s:s, s:s}", "index", name, "unreadable",
                                   (json_int_t)count, "warning", note.why, "command",
                                   cli->command->path));
    else
        fprintf(stderr, "holdfast: %s %s: %s\n", cli->command->path, name, note.why);
    return status;
}

/* Reads one record more than the limit, so a shard that cannot be read is reported even if it comes
 * directly after the last record. Stops when the output cannot be written. */
static enum hf_status print_all(struct index_walking *walking, struct showing *showing,
                                struct hf_index_cursor *cursor)
{
    struct cli *cli = walking->cli;
    for (uint64_t shown = 0;;) {
        struct hf_index_record *record;
        struct hf_error error;
        enum hf_status status = hf_index_cursor_next(cursor, &record, &error);
        if (status == HF_NOT_FOUND || (status == HF_OK && shown == walking->limit)) {
            cli->error = walking->trouble;
            return cli->error.status;
        }
        if (status == HF_CANCELLED) {
            cli->error = error;
            return status;
        }
        if (status != HF_OK) {
            report_unreadable_shard(walking, &error);
            continue;
        }
        shown++;
        status = interrupt_check(&cli->error);
        if (status == HF_OK)
            status = print_record(showing, record, &cli->error);
        if (status == HF_OK && cli->out.failed_errno)
            status = output_flush(&cli->out, &cli->error);
        if (status != HF_OK)
            return status;
    }
}

static enum hf_status print_walk(struct index_walking *walking, enum hf_index_format format)
{
    struct cli *cli = walking->cli;
    struct showing showing = { .cli = cli, .format = format };
    struct hf_index_cursor *cursor = NULL;
    enum hf_status status = print_header(&showing);
    if (status != HF_OK)
        return status;
    walking_start(walking);
    status = hf_index_cursor_open(cli->index, &walking->query, &cursor, &cli->error);
    if (status == HF_OK) {
        status = print_all(walking, &showing, cursor);
        hf_index_cursor_progress(cursor, &walking->progress, NULL);
        hf_index_cursor_close(cursor);
    }
    return walking_end(walking, status);
}

/* ---- query --------------------------------------------------------------------------- */

/* The library parses the conditions. */
static enum hf_status take_conditions(struct cli *cli, const char **conditions,
                                      size_t *ret_count)
{
    size_t count = 0;
    for (const struct option_value *at = cli_option(cli, "where"); at; at = at->next) {
        if (count == HF_INDEX_WHERE_MAX)
            return cli_invalid(cli, "--where can be given at most %d times",
                               HF_INDEX_WHERE_MAX);
        conditions[count++] = at->text.data;
    }
    *ret_count = count;
    return HF_OK;
}

enum hf_status run_index_query(struct cli *cli)
{
    const char *conditions[HF_INDEX_WHERE_MAX];
    struct index_walking walking = { .cli = cli, .verb = "query", .query = HF_INDEX_QUERY };
    enum hf_index_format format;
    walking.query.filters = conditions;
    walking.query.sort = option_text(cli, "sort");
    walking.query.prefix = option_text(cli, "prefix");
    walking.query.since = option_text(cli, "since");
    walking.query.shard = option_text(cli, "shard");
    walking.limit = option_number(cli, "limit", UINT64_MAX);
    if (walking.query.sort && walking.limit < UINT64_MAX)
        walking.query.limit = walking.limit;
    enum hf_status status = take_record_format(cli, FORMAT_PLAIN, &format);
    if (status == HF_OK)
        status = cli_open_index(cli);
    if (status == HF_OK)
        status = take_conditions(cli, conditions, &walking.query.filter_count);
    if (status == HF_OK)
        status = index_option_error(cli, print_walk(&walking, format));
    return status;
}

/* ---- export -------------------------------------------------------------------------- */

struct exported {
    const char *output;
    struct hf_index_progress progress;
};

const struct field exported_record[] = EXPORTED_RECORD;

/* The file appears under its name only when it is complete. */
static enum hf_status export_to_file(struct index_walking *walking, const char *path,
                                     enum hf_index_format format)
{
    struct cli *cli = walking->cli;
    struct new_file file;
    bool stream = false;
    enum hf_status status = target_is_stream(cli, view_of(path), &stream);
    if (status == HF_OK && stream)
        return cli_invalid(cli,
                           "'%.80s' is a pipe or a device; omit --output to write to stdout",
                           path);
    if (status == HF_OK)
        status = target_create(cli, view_of(path), &file);
    if (status != HF_OK)
        return status;
    walking_start(walking);
    status = hf_index_export(cli->index, &walking->query, file.fd, format, &walking->progress,
                             &cli->error);
    status = walking_end(walking, status);
    if (status != HF_OK) {
        new_file_release(&file);
        return status;
    }
    status = target_keep(cli, &file);
    if (status == HF_OK)
        record_tell(cli, exported_record, &(struct exported){ path, walking->progress },
                    "exported {records record} to {output}\n");
    return status;
}

enum hf_status run_index_export(struct cli *cli)
{
    struct index_walking walking = {
        .cli = cli, .verb = "export", .query = HF_INDEX_QUERY, .limit = UINT64_MAX
    };
    const char *path = option_text(cli, "output");
    bool to_file = path && strcmp(path, "-") != 0;
    enum hf_index_format format, usual = HF_INDEX_USV;
    if (to_file && !path[0])
        return cli_invalid(cli, "--output must not be empty");
    if (to_file)
        hf_index_format_of_path(path, &usual);
    enum hf_status status = to_file ? index_format_option(cli, usual, &format)
                                    : take_record_format(cli, usual, &format);
    if (status == HF_OK)
        status = cli_open_index(cli);
    if (status != HF_OK)
        return status;
    return to_file ? export_to_file(&walking, path, format) : print_walk(&walking, format);
}

/* ---- count --------------------------------------------------------------------------- */

struct counted {
    const char *index;
    uint64_t records;
};

const struct field counted_record[] = COUNTED_RECORD;

enum hf_status run_index_count(struct cli *cli)
{
    struct index_walking walking = { .cli = cli, .verb = "count", .query = HF_INDEX_QUERY };
    struct counted counted = { cli->arguments[0], 0 };
    walking_start(&walking);
    enum hf_status status =
        hf_index_count(cli->index, &walking.query, &counted.records, &cli->error);
    status = walking_end(&walking, status);
    if (status == HF_OK)
        record_show(cli, counted_record, &counted, "{records}\n");
    return status;
}
