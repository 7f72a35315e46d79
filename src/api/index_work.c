/* SPDX-License-Identifier: Apache-2.0 */
/* index_work.c: the calls of holdfast/index.h that work on a whole index: loading, compiling
 * and status. */
#include "api/index_inside.h"

#include "base/parse.h"
#include "index/compile.h"
#include "index/drop.h"
#include "index/load.h"
#include "index/stats.h"

#include <stdio.h>

/* ---- Loading ------------------------------------------------------------------------- */

enum hf_status hf_index_load(struct hf_index *index, int fd, enum hf_index_format format,
                             const struct hf_index_load_options *options,
                             struct hf_index_load_report *report, struct hf_error *error)
{
    struct hf_index_load_options used = HF_INDEX_LOAD_OPTIONS;
    struct hf_index_load_report done = HF_INDEX_LOAD_REPORT;
    struct index *own = NULL;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, index) != HF_OK ||
        READ_OPTIONS(HF_INDEX_LOAD_OPTIONS, options, &used, &why) != HF_OK ||
        CHECK_REPORT(HF_INDEX_LOAD_REPORT, report, &why) != HF_OK ||
        index_check_format(format, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    if (used.wait_ms < 0)
        return error_set(error, HF_INVALID, "wait_ms must not be negative");
    const struct load_options inside = { .straight = used.straight,
                                         .wait = span_of_ms(used.wait_ms),
                                         .progress = used.progress,
                                         .refused = used.refused,
                                         .trouble = used.trouble,
                                         .argument = used.argument };
    enum hf_status status = index_borrow(index, &own, &why);
    if (status == HF_OK) {
        status = index_load(own, fd, format, &inside, &done, &why);
        index_give_back(index, own);
    }
    write_caller_report(report, &done, sizeof done);
    return error_tell(error, status, &why);
}

/* ---- Compiling ----------------------------------------------------------------------- */

struct compiling {
    struct hf_index_compile_options options;
    bool stopped;
};

static bool compile_is_stopped(void *argument)
{
    struct compiling *compiling = argument;
    const struct hf_index_compile_options *options = &compiling->options;
    if (!compiling->stopped && options->go_on)
        compiling->stopped = !options->go_on(options->argument);
    return compiling->stopped;
}

static void report_shard(void *argument, const struct compile_report *report)
{
    const struct compiling *compiling = argument;
    const struct hf_index_shard shard = {
        .struct_size = sizeof shard,
        .shard = report->shard.text,
        .end = report->end,
        .why = &report->why,
        .token = report->token,
        .folded = { .entries = report->entries,
                    .records_new = report->fold.records_new,
                    .records_later = report->fold.records_later,
                    .superseded = report->fold.superseded,
                    .aside = report->aside,
                    .deleted = report->clear.deleted,
                    .marked = report->clear.marked,
                    .newer = report->clear.newer,
                    .left = report->clear.left },
        .writes = report->folds,
        .records = report->fold.records,
        .bytes = report->fold.bytes,
        .first_aside = report->first_aside,
        .keys_deleted = report->fold.deleted,
        .deletions_dropped = report->fold.dropped,
    };
    if (compiling->options.shard_done)
        compiling->options.shard_done(compiling->options.argument, &shard);
}

static void report_compile_trouble(void *argument, const struct hf_error *error)
{
    const struct compiling *compiling = argument;
    if (compiling->options.trouble)
        compiling->options.trouble(compiling->options.argument, error);
}

static enum hf_status convert_compile_options(struct compiling *compiling,
                                              const struct index *index,
                                              struct compile_options *ret_options,
                                              struct hf_error *error)
{
    const struct hf_index_compile_options *given = &compiling->options;
    struct compile_options options = COMPILE_OPTIONS;
    options.ttl = span_of_ms(given->ttl_ms);
    options.once = !given->watch;
    options.wait = span_of_ms(given->wait_ms);
    options.poll = span_of_ms(given->poll_ms);
    options.keep_deleted = span_of_ms(given->keep_deleted_ms);
    options.stop = compile_is_stopped;
    options.tell = report_shard;
    options.trouble = report_compile_trouble;
    options.argument = compiling;
    enum hf_status status = ttl_check(options.ttl, SPAN_S(1), COMPILE_TTL_MAX, NULL, error);
    if (status == HF_OK &&
        (given->wait_ms < 0 || given->poll_ms < 0 || given->keep_deleted_ms < 0))
        status = error_set(error, HF_INVALID, "%s must not be negative",
                           given->wait_ms < 0   ? "wait_ms"
                           : given->poll_ms < 0 ? "poll_ms"
                                                : "keep_deleted_ms");
    if (status == HF_OK)
        status = index_shard_of(index, given->shard, &options.shard, error);
    *ret_options = options;
    return status;
}

enum hf_status hf_index_compile(struct hf_index *index,
                                const struct hf_index_compile_options *options,
                                struct hf_index_compile_report *report, struct hf_error *error)
{
    struct compiling compiling = { .options = HF_INDEX_COMPILE_OPTIONS };
    struct compile_options inside;
    struct hf_index_compile_report totals = HF_INDEX_COMPILE_REPORT;
    struct index *own = NULL;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, index) != HF_OK ||
        READ_OPTIONS(HF_INDEX_COMPILE_OPTIONS, options, &compiling.options, &why) != HF_OK ||
        CHECK_REPORT(HF_INDEX_COMPILE_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = index_borrow(index, &own, &why);
    if (status == HF_OK) {
        status = convert_compile_options(&compiling, own, &inside, &why);
        if (status == HF_OK)
            status = index_compile(own, &inside, &totals, &why);
        index_give_back(index, own);
    }
    write_caller_report(report, &totals, sizeof totals);
    if (status == HF_OK && compiling.stopped && !compiling.options.watch)
        status = error_set(&why, HF_CANCELLED, "stopped by the caller");
    return error_tell(error, status, &why);
}

/* ---- Dropping ------------------------------------------------------------------------ */

enum hf_status hf_index_drop(struct hf_client *client, const char *name,
                             const struct hf_index_drop_options *options,
                             struct hf_index_drop_report *report, struct hf_error *error)
{
    struct hf_index_drop_options used = HF_INDEX_DROP_OPTIONS;
    struct hf_index_drop_report done = HF_INDEX_DROP_REPORT;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, client, name) != HF_OK ||
        READ_OPTIONS(HF_INDEX_DROP_OPTIONS, options, &used, &why) != HF_OK ||
        CHECK_REPORT(HF_INDEX_DROP_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    const struct drop_options inside = { used.dry_run, used.progress, used.argument };
    enum hf_status status = index_drop(client, view_of(name), &inside, &done, &why);
    write_caller_report(report, &done, sizeof done);
    return error_tell(error, status, &why);
}

/* ---- Status -------------------------------------------------------------------------- */

static bool report_counted(void *argument, uint64_t entries)
{
    const struct hf_index_status_options *options = argument;
    return !options->progress || options->progress(options->argument, entries);
}

static void report_holders(const struct hf_index_status_options *options,
                           const struct index_stats *index_stats)
{
    size_t known = index_stats->holder_count < STATS_HOLDERS_MAX ? index_stats->holder_count
                                                                 : STATS_HOLDERS_MAX;
    if (!options->holder)
        return;
    for (size_t i = 0; i < known; i++) {
        const struct stats_holder *from = &index_stats->holders[i];
        const struct hf_index_holder holder = { .struct_size = sizeof holder,
                                                .shard = from->shard.text,
                                                .holder = from->worker,
                                                .token = from->token,
                                                .over = from->over,
                                                .created_ms = from->created_at.us / 1000,
                                                .expires_ms = from->expires_at.us / 1000 };
        if (!options->holder(options->argument, &holder))
            return;
    }
}

static void report_aside(const struct hf_index_status_options *options,
                         const struct index_stats *index_stats)
{
    if (!options->aside)
        return;
    for (size_t i = 0; i < index_stats->reason_count; i++)
        if (!options->aside(options->argument, index_stats->reasons[i].entry,
                            index_stats->reasons[i].why))
            return;
}

static struct hf_index_stats public_stats(const struct index_stats *index_stats)
{
    struct hf_index_stats stats = {
        .struct_size = sizeof stats,
        .entries = index_stats->entries,
        .entries_foreign = index_stats->entries_foreign,
        .entry_bytes = index_stats->entry_bytes,
        .markers = index_stats->markers,
        .strays = index_stats->strays,
        .shards_waiting = index_stats->shards_waiting,
        .oldest_ms = index_stats->oldest_known ? index_stats->oldest.us / 1000 : -1,
        .shards = index_stats->shards,
        .shard_bytes = index_stats->shard_bytes,
        .shard_bytes_max = index_stats->shard_bytes_max,
        .records = index_stats->records_known ? (int64_t)index_stats->records : -1,
        .records_at_ms = index_stats->records_known ? index_stats->records_at.us / 1000 : 0,
        .holder_count = index_stats->holder_count,
        .locks_unreadable = index_stats->locks_unreadable,
        .aside = index_stats->aside,
        .deletions = index_stats->records_known ? (int64_t)index_stats->deletions : -1,
    };
    static_assert(sizeof stats.largest > INDEX_DIGITS_MAX, "it takes the name of a shard");
    snprintf(stats.largest, sizeof stats.largest, "%s", index_stats->largest.text);
    return stats;
}

enum hf_status hf_index_status(struct hf_index *index,
                               const struct hf_index_status_options *options,
                               struct hf_index_stats *ret_stats, struct hf_error *error)
{
    struct hf_index_status_options used = HF_INDEX_STATUS_OPTIONS;
    struct index_stats index_stats;
    struct index *own = NULL;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, index, ret_stats) != HF_OK ||
        READ_OPTIONS(HF_INDEX_STATUS_OPTIONS, options, &used, &why) != HF_OK ||
        CHECK_REPORT(HF_INDEX_STATS, ret_stats, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = index_borrow(index, &own, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    status = index_stats_take(own, report_counted, &used, &index_stats, &why);
    if (status == HF_OK) {
        const struct hf_index_stats filled = public_stats(&index_stats);
        write_caller_report(ret_stats, &filled, sizeof filled);
        report_holders(&used, &index_stats);
        report_aside(&used, &index_stats);
        index_stats_release(&index_stats);
    }
    index_give_back(index, own);
    return error_tell(error, status, &why);
}
