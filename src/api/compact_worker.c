/* SPDX-License-Identifier: Apache-2.0 */
/* compact_worker.c: workers that run in the caller's thread or in a library thread, their events,
 * and custom mergers. */
#include "api/compact_inside.h"
#include "compact/work/worker.h"
#include "merge/files.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MEMORY_USUAL (256 * MIB)

/* The default poll intervals of a worker that only notifies. A stop request is noticed within a
 * NAP. */
#define NOTIFY_LOCAL   SPAN_MS(200)
#define NOTIFY_NETWORK SPAN_S(2)
#define NAP            SPAN_MS(100)

struct hf_compact_worker {
    struct hf_compact *compact;
    struct hf_compact_worker_options options;
    struct hf_merger merger;
    struct arena arena; /* for the strings in the options */
    struct merger *file_merger;
    struct worker *worker;  /* NULL: it only notifies */
    struct env_task *task;  /* NULL: it runs in the caller's thread */
    atomic_bool stopping;   /* requested by a call, or by an event callback */
    bool needed;            /* the last check found work */
    struct env_mutex mutex; /* guards the members below */
    struct env_cond ended;
    bool over;
    struct hf_compact_totals totals;
    struct hf_error error;
};

/* ---- Events -------------------------------------------------------------------------- */

static struct hf_compact_result result_of(const struct job_report *report)
{
    const struct merge_product *product = &report->product;
    return (struct hf_compact_result){
        .struct_size = sizeof(struct hf_compact_result),
        .end = report->end,
        .error = report->error,
        .blame = report->blame,
        .output = report->output,
        .output_bytes = product->size,
        .merged_bytes = report->bytes_merged,
        .rows_known = product->rows_known,
        .rows_in = product->rows_in,
        .rows_out = product->rows_out,
        .rows_superseded = product->rows_superseded,
        .rows_rejected = product->rows_rejected,
        .rows_deleted = product->rows_deleted,
        .rejects = product->rejects,
        .took_over = report->took_over,
        .took_ms = report->took.us / 1000,
    };
}

/* False if memory runs out. */
static bool group_of(const struct order *order, struct arena *arena,
                     struct hf_compact_group *ret_group)
{
    const char **sources = arena_take(arena, (order->count + 1) * sizeof *sources);
    if (!sources)
        return false;
    for (size_t i = 0; i < order->count; i++)
        if (!(sources[i] = text_in(arena, order->sources[i].key)))
            return false;
    *ret_group =
        (struct hf_compact_group){ .struct_size = sizeof *ret_group,
                                   .partition = order->ref->partition,
                                   .level = order->level,
                                   .forced = order->forced,
                                   .bytes = order->bytes,
                                   .rows = order->rows,
                                   .sources = sources,
                                   .source_count = order->count,
                                   .test = order->test,
                                   .drops = order->drops,
                                   .range = order->range_count ? (unsigned)order->range + 1 : 0,
                                   .ranges = (unsigned)order->range_count };
    return true;
}

static void report_event(struct hf_compact_worker *worker, struct hf_compact_event *event)
{
    event->struct_size = sizeof *event;
    if (!worker->options.event(worker->options.argument, event))
        hf_compact_worker_stop(worker);
}

/* Reports that there is work, if the last check found none. */
static void report_if_needed(struct hf_compact_worker *worker, bool needed,
                             const struct hf_compact_totals *totals)
{
    struct hf_compact_event event = { .kind = HF_COMPACT_NEEDED, .totals = totals, .why = "" };
    bool news = needed && !worker->needed;
    worker->needed = needed;
    if (news)
        report_event(worker, &event);
}

/* Records the totals for callers that are waiting. */
static void note_totals(struct hf_compact_worker *worker,
                        const struct hf_compact_totals *totals)
{
    env_mutex_lock(&worker->mutex);
    worker->totals = *totals;
    env_mutex_unlock(&worker->mutex);
}

/* Called by one task of the worker at a time. */
static void report_notice(void *argument, const struct worker_notice *notice)
{
    struct hf_compact_worker *worker = argument;
    note_totals(worker, notice->totals);
    if (!worker->options.event)
        return;
    struct hf_compact_group group;
    struct hf_compact_result result;
    struct arena arena = ARENA_INIT;
    struct hf_compact_event event = {
        .kind = notice->event,
        .totals = notice->totals,
        .why = notice->why ? notice->why : "",
    };
    if (notice->event == HF_COMPACT_PLANNED)
        report_if_needed(worker, notice->totals->groups_planned > 0, notice->totals);
    if (notice->order && group_of(notice->order, &arena, &group))
        event.group = &group;
    if (notice->report) {
        result = result_of(notice->report);
        event.result = &result;
    }
    if (!notice->order || event.group) /* if memory ran out, only this event is lost */
        report_event(worker, &event);
    arena_release(&arena);
}

/* ---- Mergers of the caller ----------------------------------------------------------- */

bool hf_merger_goes_on(const struct hf_merger_job *job, uint64_t bytes_done)
{
    const struct merge_task *task = job ? job->inside : NULL;
    return task && task->goes_on(task->argument, bytes_done);
}

static enum hf_status ask_merger(const struct hf_merger *merger, const struct merge_task *task,
                                 struct arena *arena, struct hf_merged *merged,
                                 struct hf_error *error)
{
    const struct merge_order *order = task->order;
    struct hf_merger_source *sources =
        arena_take(arena, (order->source_count + 1) * sizeof *sources);
    const char *partition = text_in(arena, layout_home(order->output));
    if (!sources || !partition)
        return error_no_memory(error);
    for (size_t i = 0; i < order->source_count; i++) {
        sources[i] = (struct hf_merger_source){ .key = text_in(arena, order->sources[i].key),
                                                .path = task->paths[i],
                                                .size = order->sources[i].size };
        if (!sources[i].key)
            return error_no_memory(error);
    }
    struct hf_merger_job job = { .struct_size = sizeof job,
                                 .sources = sources,
                                 .source_count = order->source_count,
                                 .partition = partition,
                                 .level = order->level,
                                 .output = task->output,
                                 .folder = task->folder,
                                 .memory_bytes = order->memory_bytes,
                                 .inside = task };
    return merger->merge(merger->argument, &job, merged, error);
}

static enum hf_status merge_by_caller(void *argument, const struct merge_task *task,
                                      struct merge_product *product, struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct hf_merged merged = { .struct_size = sizeof merged, .culprit = HF_MERGER_NOBODY };
    enum hf_status status = ask_merger(argument, task, &arena, &merged, error);
    arena_release(&arena);
    product->culprit = merged.culprit;
    if (merged.rows_known && merged.rows_in >= merged.rows_out) {
        product->rows_known = true;
        product->rows_in = merged.rows_in;
        product->rows_out = merged.rows_out;
        product->rows_superseded = merged.rows_in - merged.rows_out;
    }
    return status;
}

/* ---- Options ------------------------------------------------------------------------- */

static enum hf_status copy_merger(struct hf_compact_worker *worker, struct hf_error *error)
{
    if (!worker->options.merger)
        return HF_OK;
    enum hf_status status =
        READ_OPTIONS(HF_MERGER, worker->options.merger, &worker->merger, error);
    if (status == HF_OK && !worker->merger.merge)
        status = error_set(error, HF_INVALID, "merger.merge must not be NULL");
    if (status == HF_OK && worker->merger.name) {
        worker->merger.name = text_in(&worker->arena, view_of(worker->merger.name));
        if (!worker->merger.name)
            status = error_no_memory(error);
    }
    return status;
}

static enum hf_status copy_worker_options(struct hf_compact_worker *worker,
                                          const struct hf_compact_worker_options *given,
                                          struct hf_error *error)
{
    struct hf_compact_worker_options *options = &worker->options;
    enum hf_status status = READ_OPTIONS(HF_COMPACT_WORKER_OPTIONS, given, options, error);
    if (status != HF_OK)
        return status;
    if ((unsigned)options->mode > HF_COMPACT_NOTIFY)
        return error_set(error, HF_INVALID, "unknown mode %d", (int)options->mode);
    if (options->mode == HF_COMPACT_NOTIFY && !options->event)
        return error_set(error, HF_INVALID,
                         "a worker that only notifies needs an event callback");
    if (options->poll_ms < 0 || options->threads > HF_MERGE_THREADS_MAX)
        return error_set(error, HF_INVALID, "%s",
                         options->poll_ms < 0 ? "poll_ms must not be negative"
                                              : "too many threads");
    if (options->beat_ms != 0 && (options->beat_ms < ROSTER_BEAT_LEAST.us / 1000 ||
                                  options->beat_ms > ROSTER_BEAT_MOST.us / 1000))
        return error_set(error, HF_INVALID, "the beat must be between 100ms and 1h");
    if (options->jobs == 0)
        options->jobs = (unsigned)merge_threads_usual();
    if (options->threads == 0)
        options->threads = (unsigned)merge_threads_usual();
    uint64_t least = options->jobs * (uint64_t)HF_MERGE_MEMORY_MIN;
    if (options->memory_bytes == 0)
        options->memory_bytes = MEMORY_USUAL > least ? MEMORY_USUAL : least;
    if (options->label) {
        options->label = text_in(&worker->arena, view_of(options->label));
        if (!options->label)
            return error_no_memory(error);
    }
    if (options->inbox) {
        if (options->mode != HF_COMPACT_WATCH)
            return error_set(error, HF_INVALID, "only a worker that watches has an inbox");
        options->inbox = text_in(&worker->arena, view_of(options->inbox));
        if (!options->inbox)
            return error_no_memory(error);
    }
    return copy_merger(worker, error);
}

/* ---- Starting and stopping ----------------------------------------------------------- */

static enum hf_status make_worker(struct hf_compact_worker *worker, struct hf_error *error)
{
    const struct hf_compact_worker_options *options = &worker->options;
    struct hf_compact *compact = worker->compact;
    const char *label = options->label ? options->label : client_holder(compact->client);
    const struct worker_options used = { .mode = options->mode,
                                         .jobs = options->jobs,
                                         .memory_bytes = options->memory_bytes,
                                         .force = options->force,
                                         .poll = span_of_ms(options->poll_ms),
                                         .beat = span_of_ms(options->beat_ms),
                                         .label = view_of(label),
                                         .inbox = view_of(options->inbox ? options->inbox : ""),
                                         .inbox_scratch = compact->scratch,
                                         .tell = report_notice,
                                         .argument = worker };
    if (options->mode == HF_COMPACT_NOTIFY)
        return HF_OK;
    worker->file_merger =
        file_merger_new(client_env(compact->client), client_store(compact->client),
                        compact->scratch, options->threads, error);
    if (!worker->file_merger)
        return error->status;
    file_merger_allow(worker->file_merger, &compact->allowed);
    if (worker->merger.merge) {
        const struct merge_callback merger = { worker->merger.name, merge_by_caller,
                                               &worker->merger };
        file_merger_use(worker->file_merger, &merger);
    }
    return worker_new(compact->tree, worker->file_merger, &used, &worker->worker, error);
}

static void free_worker(struct hf_compact_worker *worker)
{
    worker_free(worker->worker);
    file_merger_free(worker->file_merger);
    env_cond_release(&worker->ended);
    env_mutex_release(&worker->mutex);
    arena_release(&worker->arena);
    hf_compact_close(worker->compact);
    free(worker);
}

static enum hf_status new_worker(struct hf_compact *compact,
                                 const struct hf_compact_worker_options *options,
                                 enum hf_compact_mode usual,
                                 struct hf_compact_worker **ret_worker, struct hf_error *error)
{
    struct hf_compact_worker *worker = calloc(1, sizeof *worker);
    struct env *env = client_env(compact->client);
    if (!worker)
        return error_no_memory(error);
    worker->compact = compact_keep(compact);
    worker->options = HF_COMPACT_WORKER_OPTIONS;
    worker->totals = HF_COMPACT_TOTALS;
    worker->options.mode = usual;
    worker->merger = HF_MERGER;
    worker->arena = ARENA_INIT;
    env_mutex_init(env, &worker->mutex);
    env_cond_init(env, &worker->ended);
    enum hf_status status = copy_worker_options(worker, options, error);
    if (status == HF_OK)
        status = make_worker(worker, error);
    if (status == HF_OK)
        *ret_worker = worker;
    else
        free_worker(worker);
    return status;
}

static bool is_stopping(struct hf_compact_worker *worker)
{
    return atomic_load_explicit(&worker->stopping, memory_order_relaxed);
}

/* Notifies a caller that does its own merges whenever there is work. */
static void watch_for_work(struct hf_compact_worker *worker)
{
    struct env *env = client_env(worker->compact->client);
    bool local = client_store(worker->compact->client)->traits.clock == STORE_CLOCK_BOOT;
    struct span poll = worker->options.poll_ms > 0 ? span_of_ms(worker->options.poll_ms)
                       : local                     ? NOTIFY_LOCAL
                                                   : NOTIFY_NETWORK;
    while (!is_stopping(worker)) {
        struct hf_compact_plan_report report = HF_COMPACT_PLAN_REPORT;
        struct hf_compact_totals totals = HF_COMPACT_TOTALS;
        struct hf_error error;
        bool needed = false;
        struct mono_time next = mono_add(env_now(env), poll);
        struct hf_compact_event trouble = { .kind = HF_COMPACT_TROUBLE,
                                            .totals = &totals,
                                            .why = error.why };
        if (hf_compact_should_start(worker->compact, &needed, &report, &error) == HF_OK) {
            totals.groups_planned = report.groups;
            totals.bytes_planned = report.bytes;
            note_totals(worker, &totals);
            report_if_needed(worker, needed, &totals);
        } else {
            report_event(worker, &trouble);
        }
        while (!is_stopping(worker) && mono_before(env_now(env), next))
            env_sleep_until(env, mono_earlier(next, mono_add(env_now(env), NAP)));
    }
}

static void worker_main(void *argument)
{
    struct hf_compact_worker *worker = argument;
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct hf_error error = { .status = HF_OK };
    client_active(worker->compact->client);
    enum hf_status status = HF_OK;
    if (worker->worker)
        status = worker_run(worker->worker, &totals, &error);
    else
        watch_for_work(worker);
    /* For a worker that watches, being stopped is a normal end. For a single run it is
     * CANCELLED, because the run was not completed. */
    bool watches = worker->options.mode >= HF_COMPACT_WATCH;
    if (status == HF_CANCELLED && watches)
        error_clear(&error);
    else if (status == HF_OK && !watches && is_stopping(worker))
        error_set(&error, HF_CANCELLED, "stopped by the caller");
    env_mutex_lock(&worker->mutex);
    if (worker->worker)
        worker->totals = totals;
    worker->error = error;
    worker->over = true;
    env_cond_broadcast(&worker->ended);
    env_mutex_unlock(&worker->mutex);
}

enum hf_status hf_compact_run(struct hf_compact *compact,
                              const struct hf_compact_worker_options *options,
                              struct hf_compact_totals *totals, struct hf_error *error)
{
    struct hf_compact_worker *worker = NULL;
    struct hf_error why;
    if (ERROR_IF_NULL(error, compact) != HF_OK ||
        CHECK_REPORT(HF_COMPACT_TOTALS, totals, error) != HF_OK)
        return HF_INVALID;
    enum hf_status status = new_worker(compact, options, HF_COMPACT_ONCE, &worker, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    worker_main(worker);
    why = worker->error;
    write_caller_report(totals, &worker->totals, sizeof worker->totals);
    free_worker(worker);
    return error_tell(error, why.status, &why);
}

enum hf_status hf_compact_worker_start(struct hf_compact *compact,
                                       const struct hf_compact_worker_options *options,
                                       struct hf_compact_worker **ret_worker,
                                       struct hf_error *error)
{
    struct hf_compact_worker *worker = NULL;
    struct hf_error why;
    if (ret_worker)
        *ret_worker = NULL;
    if (ERROR_IF_NULL(error, compact, ret_worker) != HF_OK)
        return HF_INVALID;
    enum hf_status status = new_worker(compact, options, HF_COMPACT_WATCH, &worker, &why);
    if (status == HF_OK) {
        status = env_task_start(client_env(compact->client), worker_main, worker, &worker->task,
                                &why);
        if (status == HF_OK)
            *ret_worker = worker;
        else
            free_worker(worker);
    }
    return error_tell(error, status, &why);
}

void hf_compact_worker_stop(struct hf_compact_worker *worker)
{
    if (!worker)
        return;
    atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
    if (worker->worker)
        worker_stop(worker->worker);
}

enum hf_status hf_compact_worker_wait(struct hf_compact_worker *worker, int64_t wait_ms,
                                      struct hf_compact_totals *totals, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, worker) != HF_OK ||
        CHECK_REPORT(HF_COMPACT_TOTALS, totals, error) != HF_OK)
        return HF_INVALID;
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "wait_ms must not be negative");
    struct env *env = client_env(worker->compact->client);
    struct mono_time until = mono_add(env_now(env), span_of_ms(wait_ms));
    env_mutex_lock(&worker->mutex);
    while (!worker->over && mono_before(env_now(env), until))
        env_cond_wait_until(&worker->ended, &worker->mutex, until);
    bool over = worker->over;
    struct hf_error why = worker->error;
    struct hf_compact_totals told = worker->totals;
    env_mutex_unlock(&worker->mutex);
    write_caller_report(totals, &told, sizeof told);
    if (!over)
        return error_set(error, HF_TIMEOUT, "the worker is still running");
    return error_tell(error, why.status, &why);
}

void hf_compact_worker_free(struct hf_compact_worker *worker)
{
    if (!worker)
        return;
    hf_compact_worker_stop(worker);
    env_task_join(client_env(worker->compact->client), worker->task);
    free_worker(worker);
}
