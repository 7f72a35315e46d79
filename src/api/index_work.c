/* index_work.c: the calls of holdfast/index.h that work on all of an index: loading, compiling, and
 * how it is. */
#include "api/index_inside.h"

#include "base/parse.h"
#include "index/census.h"
#include "index/compile.h"
#include "index/load.h"

#include <stdio.h>

/* One that does not fit is longer than anybody waits, and out of range where there is one. */
static struct span span_of_ms(int64_t ms)
{
    const int64_t most = MOMENT_FAR / 4;
    return SPAN_US(ms < most / 1000 ? ms * 1000 : most);
}

/* ---- Loading ------------------------------------------------------------------------- */

static struct hf_index_load_report public_load(const struct load_report *report)
{
    return (struct hf_index_load_report){
        .struct_size = sizeof(struct hf_index_load_report),
        .records = report->taken,
        .straight = report->by_way[WAY_STRAIGHT],
        .held = report->by_way[WAY_HELD],
        .few = report->by_way[WAY_FEW],
        .damaged = report->by_way[WAY_DAMAGED],
        .shards = report->shards,
        .refused = report->refused,
        .up_to_line = report->lines_taken,
        .bytes_read = report->bytes_read,
        .complete = report->complete,
    };
}

static bool tell_loaded(void *argument, const struct load_report *report)
{
    const struct hf_index_load_options *options = argument;
    const struct hf_index_load_report so_far = public_load(report);
    return !options->progress || options->progress(options->argument, &so_far);
}

static void tell_refused(void *argument, uint64_t line, const struct hf_error *why)
{
    const struct hf_index_load_options *options = argument;
    if (options->refused)
        options->refused(options->argument, line, why);
}

static void tell_damage(void *argument, const struct hf_error *why)
{
    const struct hf_index_load_options *options = argument;
    if (options->trouble)
        options->trouble(options->argument, why);
}

static enum hf_status check_load(const struct hf_index_load_options *given,
                                 struct hf_index_load_options *ret_options,
                                 enum hf_index_format format,
                                 const struct hf_index_load_report *report,
                                 struct hf_error *error)
{
    enum hf_status status = read_caller_options("HF_INDEX_LOAD_OPTIONS", given, ret_options,
                                                sizeof *ret_options, error);
    if (status == HF_OK)
        status = check_caller_report("HF_INDEX_LOAD_REPORT", report, error);
    if (status == HF_OK && ret_options->wait_ms < 0)
        status = error_set(error, HF_INVALID, "wait_ms must not be negative");
    if (status == HF_OK && (unsigned)format >= HF_INDEX_FORMAT_COUNT)
        status = error_set(error, HF_INVALID, "%d is no format", (int)format);
    return status;
}

enum hf_status hf_index_load(struct hf_index *index, int fd, enum hf_index_format format,
                             const struct hf_index_load_options *options,
                             struct hf_index_load_report *report, struct hf_error *error)
{
    struct hf_index_load_options used = HF_INDEX_LOAD_OPTIONS;
    struct load_report done = { 0 };
    struct index *own = NULL;
    struct hf_error why;
    if (ERROR_IF_NULL(error, index) != HF_OK)
        return HF_INVALID;
    enum hf_status status = check_load(options, &used, format, report, error);
    if (status != HF_OK)
        return status;
    const struct load_options inside = { .straight = used.straight,
                                         .wait = span_of_ms(used.wait_ms),
                                         .progress = tell_loaded,
                                         .refused = tell_refused,
                                         .trouble = tell_damage,
                                         .argument = &used };
    status = index_borrow(index, &own, &why);
    if (status == HF_OK) {
        status = index_load(own, fd, format, &inside, &done, &why);
        index_give_back(index, own);
    }
    const struct hf_index_load_report filled = public_load(&done);
    write_caller_report(report, &filled, sizeof filled);
    return error_tell(error, status, &why);
}

/* ---- Compiling ----------------------------------------------------------------------- */

#define END_ROW_(name, word, text) \
    static_assert((int)HF_INDEX_END_##name == (int)COMPILE_##name, word);
HF_INDEX_END_TABLE(END_ROW_)
#undef END_ROW_

const char *hf_index_end_name(enum hf_index_end end)
{
    return (unsigned)end < HF_INDEX_END_COUNT ? compile_end_name((enum compile_end)end) : "";
}

struct compiling {
    struct hf_index_compile_options options;
    bool stopped;
};

static bool is_stopped(void *argument)
{
    struct compiling *compiling = argument;
    const struct hf_index_compile_options *options = &compiling->options;
    if (!compiling->stopped && options->go_on)
        compiling->stopped = !options->go_on(options->argument);
    return compiling->stopped;
}

static void tell_shard(void *argument, const struct compile_report *report)
{
    const struct compiling *compiling = argument;
    const struct hf_index_shard shard = {
        .shard = report->shard.text,
        .end = (enum hf_index_end)report->end,
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
    };
    if (compiling->options.shard_done)
        compiling->options.shard_done(compiling->options.argument, &shard);
}

static void tell_store_trouble(void *argument, const struct hf_error *error)
{
    const struct compiling *compiling = argument;
    if (compiling->options.trouble)
        compiling->options.trouble(compiling->options.argument, error);
}

static struct hf_index_compile_report public_totals(const struct compile_totals *totals)
{
    return (struct hf_index_compile_report){
        .struct_size = sizeof(struct hf_index_compile_report),
        .shards_done = totals->shards_done,
        .shards_held = totals->shards_held,
        .shards_lost = totals->shards_lost,
        .shards_failed = totals->shards_failed,
        .folded = { .entries = totals->entries,
                    .records_new = totals->records_new,
                    .records_later = totals->records_later,
                    .superseded = totals->superseded,
                    .aside = totals->aside,
                    .deleted = totals->clear.deleted,
                    .marked = totals->clear.marked,
                    .newer = totals->clear.newer,
                    .left = totals->clear.left },
    };
}

static enum hf_status compile_options_of(struct compiling *compiling, const struct index *index,
                                         struct compile_options *ret_options,
                                         struct hf_error *error)
{
    const struct hf_index_compile_options *given = &compiling->options;
    struct compile_options options = COMPILE_OPTIONS;
    options.ttl = span_of_ms(given->ttl_ms);
    options.once = !given->watch;
    options.wait = span_of_ms(given->wait_ms);
    options.poll = span_of_ms(given->poll_ms);
    options.stop = is_stopped;
    options.tell = tell_shard;
    options.trouble = tell_store_trouble;
    options.argument = compiling;
    enum hf_status status = ttl_check(options.ttl, SPAN_S(1), COMPILE_TTL_MAX, NULL, error);
    if (status == HF_OK && (given->wait_ms < 0 || given->poll_ms < 0))
        status = error_set(error, HF_INVALID, "%s must not be negative",
                           given->wait_ms < 0 ? "wait_ms" : "poll_ms");
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
    struct compile_totals totals = { 0 };
    struct index *own = NULL;
    struct hf_error why;
    if (ERROR_IF_NULL(error, index) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_INDEX_COMPILE_OPTIONS", options, &compiling.options,
                            sizeof compiling.options, error);
    if (status == HF_OK)
        status = check_caller_report("HF_INDEX_COMPILE_REPORT", report, error);
    if (status != HF_OK)
        return status;
    status = index_borrow(index, &own, &why);
    if (status == HF_OK) {
        status = compile_options_of(&compiling, own, &inside, &why);
        if (status == HF_OK)
            status = index_compile(own, &inside, &totals, &why);
        index_give_back(index, own);
    }
    const struct hf_index_compile_report filled = public_totals(&totals);
    write_caller_report(report, &filled, sizeof filled);
    if (status == HF_OK && compiling.stopped && !compiling.options.watch)
        status = error_set(&why, HF_CANCELLED, "stopped by the caller");
    return error_tell(error, status, &why);
}

/* ---- Status -------------------------------------------------------------------------- */

static bool tell_counted(void *argument, uint64_t entries)
{
    const struct hf_index_status_options *options = argument;
    return !options->progress || options->progress(options->argument, entries);
}

static void tell_holders(const struct hf_index_status_options *options,
                         const struct census *census)
{
    bool more = options->holder != NULL;
    for (size_t i = 0; more && i < census->holder_count && i < CENSUS_HOLDERS_MAX; i++) {
        const struct census_holder *from = &census->holders[i];
        const struct hf_index_holder holder = { .shard = from->shard.text,
                                                .holder = from->worker,
                                                .token = from->token,
                                                .over = from->over,
                                                .created_ms = from->created_at.us / 1000,
                                                .expires_ms = from->expires_at.us / 1000 };
        more = options->holder(options->argument, &holder);
    }
}

static void tell_aside(const struct hf_index_status_options *options,
                       const struct census *census)
{
    bool more = options->aside != NULL;
    for (size_t i = 0; more && i < census->reason_count; i++)
        more =
            options->aside(options->argument, census->reasons[i].entry, census->reasons[i].why);
}

static struct hf_index_stats public_stats(const struct census *census)
{
    struct hf_index_stats stats = {
        .struct_size = sizeof stats,
        .entries = census->entries,
        .entries_foreign = census->entries_foreign,
        .entry_bytes = census->entry_bytes,
        .markers = census->markers,
        .strays = census->strays,
        .shards_waiting = census->shards_waiting,
        .oldest_ms = census->oldest_known ? census->oldest.us / 1000 : -1,
        .shards = census->shards,
        .shard_bytes = census->shard_bytes,
        .shard_bytes_max = census->shard_bytes_max,
        .records = census->records_known ? (int64_t)census->records : -1,
        .records_at_ms = census->records_known ? census->records_at.us / 1000 : 0,
        .holder_count = census->holder_count,
        .locks_unreadable = census->locks_unreadable,
        .aside = census->aside,
    };
    static_assert(sizeof stats.largest > INDEX_DIGITS_MAX, "it takes the name of a shard");
    snprintf(stats.largest, sizeof stats.largest, "%s", census->largest.text);
    return stats;
}

enum hf_status hf_index_status(struct hf_index *index,
                               const struct hf_index_status_options *options,
                               struct hf_index_stats *ret_stats, struct hf_error *error)
{
    struct hf_index_status_options used = HF_INDEX_STATUS_OPTIONS;
    struct census census;
    struct index *own = NULL;
    struct hf_error why;
    if (ERROR_IF_NULL(error, index, ret_stats) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_INDEX_STATUS_OPTIONS", options, &used, sizeof used, error);
    if (status == HF_OK)
        status = check_caller_report("HF_INDEX_STATS", ret_stats, error);
    if (status != HF_OK)
        return status;
    status = index_borrow(index, &own, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    status = census_take(own, tell_counted, &used, &census, &why);
    if (status == HF_OK) {
        const struct hf_index_stats filled = public_stats(&census);
        write_caller_report(ret_stats, &filled, sizeof filled);
        tell_holders(&used, &census);
        tell_aside(&used, &census);
        census_release(&census);
    }
    index_give_back(index, own);
    return error_tell(error, status, &why);
}
