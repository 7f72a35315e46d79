/* SPDX-License-Identifier: Apache-2.0 */
/* show.c: `compact plan`, `ls` and `status`: what a run would merge now, the chunks of a partition,
 * and its state. */
#include "cli/compact/compact.h"

const struct field chunk_record[] = CHUNK_RECORD;

static void append_first_source(struct buffer *to, const struct hf_compact_group *group)
{
    buffer_append(to, view_of(group->sources[0]));
}

const struct field group_record[] = GROUP_RECORD;

/* ---- plan ---------------------------------------------------------------------------- */

struct planning {
    struct cli *cli;
    struct view partition;
    struct hf_compact_plan_report report;
    struct record_list plan;
};

const struct field compact_plan_record[] = COMPACT_PLAN_RECORD;

/* Adds "L1  15 chunks  12.5 KiB  150 rows", and the first chunk, which identifies the group. */
static bool add_planned_group(void *argument, const struct hf_compact_group *group)
{
    struct planning *planning = argument;
    record_list_add(planning->cli, &planning->plan, group_record, group,
                    planning->cli->quiet ? "" : PLANNED_GROUP_TEXT);
    return true;
}

enum hf_status run_compact_plan(struct cli *cli)
{
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct planning planning = { .cli = cli,
                                 .partition = partition_option(cli),
                                 .report = HF_COMPACT_PLAN_REPORT };
    enum hf_status status = take_allow_exec(cli, &options);
    if (status == HF_OK)
        status = cli_open_partition(cli, &options);
    if (status == HF_OK)
        status = partition_end(cli, hf_compact_plan(cli->compact, cli_given(cli, "force"),
                                                    add_planned_group, &planning,
                                                    &planning.report, &cli->error));
    if (status == HF_OK || cli->reported)
        record_show(cli, compact_plan_record, &planning, COMPACT_PLAN_TEXT);
    record_list_release(&planning.plan);
    return status;
}

/* ---- ls ------------------------------------------------------------------------------ */

struct chunk_listing {
    struct cli *cli;
    bool all;
    bool titled;
    size_t count;
    struct hf_error error; /* from the flush */
};

const struct field chunk_line_record[] = CHUNK_LINE_RECORD;

/* For a chunk that is being deleted, the catalog keeps only its name. */
const struct field chunk_name_record[] = CHUNK_NAME_RECORD;

/* Prints the titles above the first chunk; with --all, even for an empty list. */
static void print_titles(struct chunk_listing *listing)
{
    struct cli *cli = listing->cli;
    const char *titles =
        "STATE      LEVEL       SIZE       ROWS  LATEST                    KEY";
    if (listing->titled || cli->json || cli->quiet)
        return;
    listing->titled = true;
    output_bold(&cli->out, view_of(listing->all ? titles : strstr(titles, "LEVEL")));
    output_text(&cli->out, "\n");
}

/* The output is flushed regularly, to notice when its reader is gone. */
#define FLUSH_EVERY 256

static bool print_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct chunk_listing *listing = argument;
    struct cli *cli = listing->cli;
    print_titles(listing);
    if (chunk->state == HF_CHUNK_RETIRED || chunk->state == HF_CHUNK_CONDEMNED)
        record_show(cli, chunk_name_record, chunk, "{state<10} {nothing<55}{key}\n");
    else
        record_show(cli, chunk_line_record, chunk,
                    listing->all ? "{state<10} " CHUNK_LINE_TEXT : CHUNK_LINE_TEXT);
    return ++listing->count % FLUSH_EVERY != 0 ||
           output_flush(&cli->out, &listing->error) == HF_OK;
}

enum hf_status run_compact_ls(struct cli *cli)
{
    struct chunk_listing listing = { .cli = cli, .all = cli_given(cli, "all") };
    enum hf_status status =
        hf_compact_chunks(cli->compact, listing.all ? HF_CHUNKS_ALL : HF_CHUNKS_LIVE,
                          print_chunk, &listing, &cli->error);
    partition_end(cli, status);
    if (status == HF_OK && listing.all)
        print_titles(&listing);
    if (listing.error.status == HF_OK)
        return status;
    cli->error = listing.error;
    return cli->error.status;
}

/* ---- status -------------------------------------------------------------------------- */

/* The maximum number of quarantined chunks listed, whose count includes all of them, and of
 * paths. */
#define SHOWN_MAX 100

struct overview {
    struct cli *cli;
    struct view partition;
    struct hf_compact_status status;
    struct hf_compact_settings settings;
    uint64_t bytes_per_second;
    struct record_list levels, jobs, records, quarantined, paths, members, catalogs;
};

static const struct field job_record[] = JOB_RECORD;
static const struct field merge_record[] = MERGE_RECORD;
static const struct field catalog_record[] = CATALOG_RECORD;
static const struct field member_record[] = MEMBER_RECORD;
static const struct field registered_path_record[] = REGISTERED_PATH_RECORD;

struct level {
    unsigned level;
    struct hf_compact_level sum;
};

static const struct field level_record[] = LEVEL_RECORD;
static const struct field backlog_record[] = BACKLOG_RECORD;
static const struct field due_record[] = DUE_RECORD;
static const struct field last_hour_record[] = LAST_HOUR_RECORD;
static const struct field tombstone_record[] = TOMBSTONE_RECORD;
static const struct field deleting_record[] = DELETING_RECORD;
const struct field compact_status_record[] = COMPACT_STATUS_RECORD;

static bool add_job(void *argument, const struct hf_compact_job_info *job)
{
    struct overview *view = argument;
    record_list_add(view->cli, &view->jobs, job_record, job, JOB_TEXT);
    return true;
}

static bool add_record(void *argument, const struct hf_compact_record *record)
{
    struct overview *view = argument;
    record_list_add(view->cli, &view->records, merge_record, record, "");
    return true;
}

static bool add_catalog(void *argument, const struct hf_compact_catalog *catalog)
{
    struct overview *view = argument;
    record_list_add(view->cli, &view->catalogs, catalog_record, catalog, "");
    return true;
}

static bool add_member(void *argument, const struct hf_compact_member *member)
{
    struct overview *view = argument;
    record_list_add(view->cli, &view->members, member_record, member, "");
    return true;
}

static bool add_quarantined(void *argument, const struct hf_chunk_info *chunk)
{
    struct overview *view = argument;
    record_list_add(view->cli, &view->quarantined, chunk_record, chunk,
                    "  {key}: {quarantine}\n");
    return view->quarantined.count < SHOWN_MAX;
}

static bool add_registered(void *argument, const struct hf_compact_path *path)
{
    struct overview *view = argument;
    record_list_add(view->cli, &view->paths, registered_path_record, path,
                    "adopts       {path}[{own?}, and deletes what is merged]"
                    "[{releasing?}, until it is released]\n");
    return view->paths.count < SHOWN_MAX;
}

/* Reads the totals first; quarantined chunks and settings are read only if there are any. */
static enum hf_status read_overview(struct overview *view)
{
    struct cli *cli = view->cli;
    struct hf_compact_status *totals = &view->status;
    struct hf_compact_status_options options = HF_COMPACT_STATUS_OPTIONS;
    struct hf_error ignored; /* already reported when the totals were read */
    options.each_job = add_job;
    options.each_record = add_record;
    options.each_catalog = add_catalog;
    options.each_member = add_member;
    options.argument = view;
    enum hf_status status =
        partition_end(cli, hf_compact_get_status(cli->compact, &options, totals, &cli->error));
    if (totals->quarantined > 0 && cli->broken.status == HF_OK)
        hf_compact_chunks(cli->compact, HF_CHUNKS_QUARANTINED, add_quarantined, view, &ignored);
    if (totals->catalogs > 0)
        hf_compact_get_settings(cli->compact, &view->settings, &ignored);
    if (status == HF_OK)
        status = hf_compact_paths(cli->compact, add_registered, view, &cli->error);
    if (totals->committed_ms > 0)
        view->bytes_per_second =
            (uint64_t)((double)totals->committed_bytes * 1000 / (double)totals->committed_ms);
    for (unsigned i = 0; i < HF_COMPACT_LEVELS_MAX; i++) {
        struct level level = { i, totals->levels[i] };
        if (level.sum.chunks > 0)
            record_list_add(cli, &view->levels, level_record, &level,
                            "level {level<6} {chunks chunk}, {size_bytes}, {rows row}\n");
    }
    return status;
}

enum hf_status run_compact_status(struct cli *cli)
{
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct overview view = { .cli = cli,
                             .partition = partition_option(cli),
                             .status = HF_COMPACT_STATUS,
                             .settings = HF_COMPACT_SETTINGS };
    enum hf_status status = take_allow_exec(cli, &options);
    if (status == HF_OK && cli_given(cli, "svg") && cli->json)
        status = cli_invalid(cli, "use either --svg or --json");
    if (status == HF_OK)
        status = cli_open_partition(cli, &options);
    if (status == HF_OK && cli_given(cli, "svg"))
        return picture_levels(cli, view.partition);
    if (status == HF_OK)
        status = read_overview(&view);
    if (status == HF_OK || (cli->reported && view.status.catalogs > 0))
        record_show(cli, compact_status_record, &view, COMPACT_STATUS_TEXT);
    struct record_list *lists[] = { &view.levels,      &view.jobs,  &view.records,
                                    &view.quarantined, &view.paths, &view.members,
                                    &view.catalogs };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        record_list_release(lists[i]);
    return status;
}
