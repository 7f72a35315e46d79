/* SPDX-License-Identifier: Apache-2.0 */
/* status.c: `index status`: the inbox and the shards of an index, its current compilers, and
 * entries that were set aside. */
#include "cli/index/index.h"
#include "cli/interrupt.h"

#include <inttypes.h>

/* Above this size, reading and rewriting a shard makes each compile slow. */
#define SHARD_LARGE (1 * GIB)

/* A plain shard cannot be larger than 256 MiB. */
#define PLAIN_LARGE (128 * MIB)

/* An entry that has waited longer suggests that no process is compiling the index. */
#define WAIT_LONG_MS 3600000

#define REASONS_MAX 8

struct overview_of_index {
    struct cli *cli;
    struct hf_index_info info;
    const char *name;
    struct hf_index_stats stats;
    const char *const *fields;
    const char *key, *time; /* the names of the key field and the time field */
    bool aged, counted;     /* the oldest entry's age, or the number of records, is known */
    int64_t now_ms, oldest_age_ms, records_in_ms;
    bool large, waits_long;
    unsigned more_digits;
    struct record_list holders, reasons;
    struct gauge gauge;
};

static bool show_entries(void *argument, uint64_t entries)
{
    struct overview_of_index *view = argument;
    if (gauge_is_due(&view->gauge))
        gauge_say(&view->gauge, "status  %" PRIu64 " entr%s", entries,
                  entries == 1 ? "y" : "ies");
    return !interrupted();
}

/* Clocks may differ, so a time in the future counts as an age of 0. */
static int64_t age_ms(const struct overview_of_index *view, int64_t then_ms)
{
    return view->now_ms > then_ms ? view->now_ms - then_ms : 0;
}

struct told_holder {
    struct hf_index_holder info;
    const char *state;
    int64_t age_ms;
};

static const struct field holder_record[] = HOLDER_RECORD;

static bool list_holder(void *argument, const struct hf_index_holder *holder)
{
    struct overview_of_index *view = argument;
    struct told_holder told = { *holder, "overdue", age_ms(view, holder->created_ms) };
    if (holder->over)
        told.state = "over";
    else if (holder->expires_ms > view->now_ms)
        told.state = "active";
    record_list_add(view->cli, &view->holders, holder_record, &told, HOLDER_TEXT);
    return true;
}

struct aside_reason {
    const char *entry, *why;
};

static const struct field reason_record[] = REASON_RECORD;

static bool add_reason(void *argument, const char *entry, const char *why)
{
    struct overview_of_index *view = argument;
    record_list_add(view->cli, &view->reasons, reason_record,
                    &(struct aside_reason){ entry, why }, "  {entry}: {why}\n");
    return view->reasons.count < REASONS_MAX;
}

/* Appends "domain (key), owner, updated_at (time)". */
static void append_field_names(struct buffer *to, const struct overview_of_index *view)
{
    for (size_t i = 0; i < view->info.field_count; i++)
        buffer_print(to, "%s%s%s", i ? ", " : "", view->fields[i],
                     i == view->info.key    ? " (key)"
                     : i == view->info.time ? " (time)"
                                            : "");
}

static const struct field schema_record[] = SCHEMA_RECORD;
static const struct field inbox_record[] = INBOX_RECORD;
static const struct field shards_record[] = SHARDS_RECORD;
const struct field index_status_record[] = INDEX_STATUS_RECORD;

/* The remarks follow from the figures. */
static enum hf_status derive_remarks(struct overview_of_index *view)
{
    struct cli *cli = view->cli;
    const struct hf_index_info *info = &view->info;
    const struct hf_index_stats *stats = &view->stats;
    const char **fields = arena_take(&cli->arena, (info->field_count + 1) * sizeof *fields);
    if (!fields)
        return error_no_memory(&cli->error);
    for (size_t i = 0; i < info->field_count; i++)
        fields[i] = hf_index_field_name(cli->index, i);
    view->fields = fields;
    view->key = fields[info->key];
    view->time = fields[info->time];
    view->aged = stats->oldest_ms >= 0;
    view->counted = stats->records >= 0;
    view->oldest_age_ms = view->aged ? age_ms(view, stats->oldest_ms) : 0;
    view->records_in_ms = -age_ms(view, stats->records_at_ms);
    view->large = stats->shard_bytes_max > (info->plain ? PLAIN_LARGE : SHARD_LARGE) &&
                  info->digits < HF_INDEX_DIGITS_MAX;
    view->more_digits = info->digits + 1;
    view->waits_long = view->oldest_age_ms > WAIT_LONG_MS;
    return HF_OK;
}

enum hf_status run_index_status(struct cli *cli)
{
    struct overview_of_index view = { .cli = cli,
                                      .info = cli->info,
                                      .name = cli->arguments[0],
                                      .stats = HF_INDEX_STATS,
                                      .now_ms = env_wall(cli->env).us / 1000 };
    struct hf_index_status_options options = HF_INDEX_STATUS_OPTIONS;
    options.progress = show_entries;
    options.holder = list_holder;
    options.aside = add_reason;
    options.argument = &view;
    gauge_start(&view.gauge, cli, VIEW("status"));
    enum hf_status status = hf_index_status(cli->index, &options, &view.stats, &cli->error);
    gauge_clear(&view.gauge);
    if (status == HF_OK)
        status = derive_remarks(&view);
    if (status == HF_OK)
        record_show(cli, index_status_record, &view, INDEX_STATUS_TEXT);
    record_list_release(&view.holders);
    record_list_release(&view.reasons);
    return status;
}
