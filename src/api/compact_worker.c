/* compact_worker.c: workers, in the caller's thread or in one of the library; what they tell; and
 * mergers of the caller's own. */
#include "api/compact_inside.h"
#include "compact/worker.h"
#include "merge/files.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MEMORY_USUAL (256 * MIB)

/* Whoever only notifies looks so often, unless it was told; a stop is noticed within a nap. */
#define NOTIFY_LOCAL   SPAN_MS(200)
#define NOTIFY_NETWORK SPAN_S(2)
#define NAP            SPAN_MS(100)

struct hf_compact_worker {
    struct hf_compact *compact;
    struct hf_compact_worker_options options;
    struct hf_merger merger;
    struct arena arena; /* of the texts of the options */
    struct forge *forge;
    struct worker *worker;  /* NULL: it only notifies */
    struct env_task *task;  /* NULL: it runs in a thread of the caller */
    atomic_bool stopping;   /* from outside, or by an event */
    bool needed;            /* there was something to do when it last looked */
    struct env_mutex mutex; /* guards what follows */
    struct env_cond ended;
    bool over;
    struct worker_totals totals;
    struct hf_error error;
};

/* ---- Names --------------------------------------------------------------------------- */

const char *hf_compact_end_name(enum hf_compact_end end)
{
#define END_NAME(name, word, text) [HF_COMPACT_END_##name] = word,
    static const char *const names[] = { HF_COMPACT_END_TABLE(END_NAME) };
#undef END_NAME
    return (unsigned)end < HF_COMPACT_END_COUNT ? names[end] : "";
}

const char *hf_compact_event_name(enum hf_compact_event_kind kind)
{
#define EVENT_NAME(name, word, text) [HF_COMPACT_##name] = word,
    static const char *const names[] = { HF_COMPACT_EVENT_TABLE(EVENT_NAME) };
#undef EVENT_NAME
    return (unsigned)kind < HF_COMPACT_EVENT_COUNT ? names[kind] : "";
}

#define SAME_END(name, word, text)                                                        \
    static_assert((int)HF_COMPACT_END_##name == (int)JOB_##name, "the tables are in one " \
                                                                 "order");
HF_COMPACT_END_TABLE(SAME_END)

#define SAME_EVENT(name)                                            \
    static_assert((int)HF_COMPACT_##name == (int)WORKER_##name + 1, \
                  "NEEDED is ours, and the others are in one order")
SAME_EVENT(PLANNED);
SAME_EVENT(STARTED);
SAME_EVENT(PROGRESS);
SAME_EVENT(ENDED);
SAME_EVENT(TENDED);
SAME_EVENT(PAUSED);
SAME_EVENT(TROUBLE);

static_assert(HF_COMPACT_JOBS_MAX == WORKER_JOBS_MAX, "the bound is that of a worker");
static_assert((int)HF_COMPACT_BLAME_NOBODY == (int)BLAME_NOBODY &&
                  (int)HF_COMPACT_BLAME_GROUP == (int)BLAME_GROUP &&
                  (int)HF_COMPACT_BLAME_CHUNK == (int)BLAME_CHUNK &&
                  (int)HF_COMPACT_ONCE == (int)WORKER_ONCE &&
                  (int)HF_COMPACT_DRAIN == (int)WORKER_DRAIN &&
                  (int)HF_COMPACT_WATCH == (int)WORKER_WATCH,
              "numbers are passed on as they are");

/* ---- Telling ------------------------------------------------------------------------- */

static struct hf_compact_totals totals_of(const struct worker_totals *totals)
{
    struct hf_compact_totals told = HF_COMPACT_TOTALS;
    told.groups_planned = totals->groups_planned;
    told.bytes_planned = totals->bytes_planned;
    told.groups_committed = totals->groups_committed;
    told.groups_failed = totals->groups_failed;
    told.groups_lost = totals->groups_lost;
    told.bytes_done = totals->bytes_done;
    told.bytes_in_vain = totals->bytes_in_vain;
    told.rows_in = totals->rows_in;
    told.rows_out = totals->rows_out;
    told.rows_superseded = totals->rows_superseded;
    told.rows_expired = totals->rows_expired;
    told.rows_rejected = totals->rows_rejected;
    told.claims = totals->claims;
    told.claims_held = totals->claims_held;
    told.takeovers = totals->takeovers;
    told.settled = totals->tended.settled;
    told.condemned = totals->tended.condemned;
    told.retired = totals->tended.retired;
    told.reaped = totals->tended.reaped;
    told.deleted = totals->tended.deleted;
    told.pinned = totals->tended.pinned;
    told.dropped = totals->tended.dropped;
    return told;
}

static struct hf_compact_result result_of(const struct job_report *report)
{
    const struct forge_product *product = &report->product;
    return (struct hf_compact_result){
        .struct_size = sizeof(struct hf_compact_result),
        .end = (enum hf_compact_end)report->end,
        .error = report->error,
        .blame = (enum hf_compact_blame)report->blame,
        .output = report->output,
        .output_bytes = product->size,
        .merged_bytes = report->bytes_merged,
        .rows_known = product->rows_known,
        .rows_in = product->rows_in,
        .rows_out = product->rows_out,
        .rows_superseded = product->rows_superseded,
        .rows_rejected = product->rows_rejected,
        .rejects = product->rejects,
        .took_over = report->took_over,
        .took_ms = report->took.us / 1000,
    };
}

/* False without memory. */
static bool group_of(const struct order *order, struct arena *arena,
                     struct hf_compact_group *ret_group)
{
    const char **sources = arena_take(arena, (order->count + 1) * sizeof *sources);
    bool good = sources != NULL;
    for (size_t i = 0; i < order->count && good; i++)
        good = (sources[i] = text_in(arena, order->sources[i].key)) != NULL;
    *ret_group = (struct hf_compact_group){ .struct_size = sizeof *ret_group,
                                            .partition = order->slot->partition,
                                            .level = order->level,
                                            .forced = order->forced,
                                            .bytes = order->bytes,
                                            .rows = order->rows,
                                            .sources = sources,
                                            .source_count = good ? order->count : 0 };
    return good;
}

static void tell(struct hf_compact_worker *worker, struct hf_compact_event *event)
{
    event->struct_size = sizeof *event;
    if (!worker->options.event(worker->options.argument, event))
        hf_compact_worker_stop(worker);
}

/* There is something to do, and there was nothing. */
static void tell_if_needed(struct hf_compact_worker *worker, bool needed,
                           const struct hf_compact_totals *totals)
{
    struct hf_compact_event event = { .kind = HF_COMPACT_NEEDED, .totals = totals, .why = "" };
    bool news = needed && !worker->needed;
    worker->needed = needed;
    if (news)
        tell(worker, &event);
}

/* Called by one task of the worker at a time. */
static void tell_notice(void *argument, const struct worker_notice *notice)
{
    struct hf_compact_worker *worker = argument;
    struct hf_compact_totals totals = totals_of(notice->totals);
    struct hf_compact_group group;
    struct hf_compact_result result;
    struct arena arena = ARENA_INIT;
    struct hf_compact_event event = {
        .kind = (enum hf_compact_event_kind)(notice->event + 1),
        .totals = &totals,
        .why = notice->why ? notice->why : "",
    };
    if (notice->event == WORKER_PLANNED)
        tell_if_needed(worker, totals.groups_planned > 0, &totals);
    if (notice->order && group_of(notice->order, &arena, &group))
        event.group = &group;
    if (notice->report) {
        result = result_of(notice->report);
        event.result = &result;
    }
    if (!notice->order || event.group) /* without memory an event is lost, and nothing else */
        tell(worker, &event);
    arena_release(&arena);
}

/* ---- A merger of the caller's own ---------------------------------------------------- */

bool hf_merger_goes_on(const struct hf_merger_job *job, uint64_t bytes_done)
{
    const struct forge_task *task = job ? job->inside : NULL;
    return task && task->goes_on(task->argument, bytes_done);
}

static enum hf_status ask_merger(const struct hf_merger *merger, const struct forge_task *task,
                                 struct arena *arena, struct hf_merged *merged,
                                 struct hf_error *error)
{
    const struct forge_order *order = task->order;
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

static enum hf_status merge_by_caller(void *argument, const struct forge_task *task,
                                      struct forge_product *product, struct hf_error *error)
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

static enum hf_status take_merger(struct hf_compact_worker *worker, struct hf_error *error)
{
    if (!worker->options.merger)
        return HF_OK;
    enum hf_status status = read_caller_options("HF_MERGER", worker->options.merger,
                                                &worker->merger, sizeof worker->merger, error);
    if (status == HF_OK && !worker->merger.merge)
        status = error_set(error, HF_INVALID, "a merger needs a function that merges");
    if (status == HF_OK && worker->merger.name) {
        worker->merger.name = text_in(&worker->arena, view_of(worker->merger.name));
        if (!worker->merger.name)
            status = error_no_memory(error);
    }
    return status;
}

static enum hf_status take_options(struct hf_compact_worker *worker,
                                   const struct hf_compact_worker_options *given,
                                   struct hf_error *error)
{
    struct hf_compact_worker_options *options = &worker->options;
    enum hf_status status = read_caller_options("HF_COMPACT_WORKER_OPTIONS", given, options,
                                                sizeof *options, error);
    if (status != HF_OK)
        return status;
    if ((unsigned)options->mode > HF_COMPACT_NOTIFY)
        return error_set(error, HF_INVALID, "there is no mode %d", (int)options->mode);
    if (options->mode == HF_COMPACT_NOTIFY && !options->event)
        return error_set(error, HF_INVALID, "a worker that only notifies needs an event");
    if (options->poll_ms < 0 || options->threads > MERGE_THREADS_MAX)
        return error_set(error, HF_INVALID, "%s",
                         options->poll_ms < 0 ? "poll_ms must not be negative"
                                              : "too many threads");
    if (options->jobs == 0)
        options->jobs = (unsigned)merge_threads_usual();
    if (options->threads == 0)
        options->threads = (unsigned)merge_threads_usual();
    uint64_t least = options->jobs * (uint64_t)MERGE_MEMORY_MIN;
    if (options->memory_bytes == 0)
        options->memory_bytes = MEMORY_USUAL > least ? MEMORY_USUAL : least;
    if (options->label) {
        options->label = text_in(&worker->arena, view_of(options->label));
        if (!options->label)
            return error_no_memory(error);
    }
    return take_merger(worker, error);
}

/* ---- Its life ------------------------------------------------------------------------ */

static enum hf_status make_worker(struct hf_compact_worker *worker, struct hf_error *error)
{
    const struct hf_compact_worker_options *options = &worker->options;
    struct hf_compact *compact = worker->compact;
    const char *label = options->label ? options->label : compact->client->holder;
    const struct worker_options used = { .mode = (enum worker_mode)options->mode,
                                         .jobs = options->jobs,
                                         .memory_bytes = options->memory_bytes,
                                         .force = options->force,
                                         .poll = SPAN_MS(options->poll_ms),
                                         .label = view_of(label),
                                         .tell = options->event ? tell_notice : NULL,
                                         .argument = worker };
    if (options->mode == HF_COMPACT_NOTIFY)
        return HF_OK;
    worker->forge = forge_files_new(compact->client->env, compact->client->store,
                                    compact->scratch, options->threads, error);
    if (!worker->forge)
        return error->status;
    forge_files_allow(worker->forge, &compact->allowed);
    if (worker->merger.merge) {
        const struct forge_merger merger = { worker->merger.name, merge_by_caller,
                                             &worker->merger };
        forge_files_use(worker->forge, &merger);
    }
    return worker_new(compact->shelf, worker->forge, &used, &worker->worker, error);
}

static void free_worker(struct hf_compact_worker *worker)
{
    worker_free(worker->worker);
    forge_files_free(worker->forge);
    env_cond_release(&worker->ended);
    env_mutex_release(&worker->mutex);
    arena_release(&worker->arena);
    free(worker);
}

static enum hf_status new_worker(struct hf_compact *compact,
                                 const struct hf_compact_worker_options *options,
                                 enum hf_compact_mode usual,
                                 struct hf_compact_worker **ret_worker, struct hf_error *error)
{
    struct hf_compact_worker *worker = calloc(1, sizeof *worker);
    struct env *env = compact->client->env;
    if (!worker)
        return error_no_memory(error);
    worker->compact = compact;
    worker->options = HF_COMPACT_WORKER_OPTIONS;
    worker->options.mode = usual;
    worker->merger = HF_MERGER;
    worker->arena = ARENA_INIT;
    env_mutex_init(env, &worker->mutex);
    env_cond_init(env, &worker->ended);
    enum hf_status status = take_options(worker, options, error);
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

/* Whoever merges by itself is told when there is something to do. */
static void notify(struct hf_compact_worker *worker)
{
    struct env *env = worker->compact->client->env;
    bool local = worker->compact->client->store->traits.clock == STORE_CLOCK_BOOT;
    struct span poll = worker->options.poll_ms > 0 ? SPAN_MS(worker->options.poll_ms)
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
            tell_if_needed(worker, needed, &totals);
        } else {
            tell(worker, &trouble);
        }
        while (!is_stopping(worker) && mono_before(env_now(env), next))
            env_sleep_until(env, mono_earlier(next, mono_add(env_now(env), NAP)));
    }
}

/* To be stopped is how watching ends; of a run it is not all that was asked for. */
static enum hf_status judge_end(struct hf_compact_worker *worker, enum hf_status status,
                                struct hf_error *error)
{
    bool watches = worker->options.mode >= HF_COMPACT_WATCH;
    if (status == HF_CANCELLED && watches)
        return error_clear(error);
    if (status == HF_OK && !watches && is_stopping(worker))
        return error_set(error, HF_CANCELLED, "stopped because the caller asked to");
    return status;
}

static void work(void *argument)
{
    struct hf_compact_worker *worker = argument;
    struct worker_totals totals = { 0 };
    struct hf_error error = { .status = HF_OK };
    client_active(worker->compact->client);
    enum hf_status status = HF_OK;
    if (worker->worker)
        status = worker_run(worker->worker, &totals, &error);
    else
        notify(worker);
    judge_end(worker, status, &error);
    env_mutex_lock(&worker->mutex);
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
        check_caller_report("HF_COMPACT_TOTALS", totals, error) != HF_OK)
        return HF_INVALID;
    enum hf_status status = new_worker(compact, options, HF_COMPACT_ONCE, &worker, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    work(worker);
    why = worker->error;
    struct hf_compact_totals told = totals_of(&worker->totals);
    write_caller_report(totals, &told, sizeof told);
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
        status = env_task_start(compact->client->env, work, worker, &worker->task, &why);
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
        check_caller_report("HF_COMPACT_TOTALS", totals, error) != HF_OK)
        return HF_INVALID;
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "wait_ms must not be negative");
    struct env *env = worker->compact->client->env;
    struct mono_time until = wait_ms > INT64_MAX / 2000
                                 ? (struct mono_time){ MOMENT_FAR }
                                 : mono_add(env_now(env), SPAN_MS(wait_ms));
    env_mutex_lock(&worker->mutex);
    while (!worker->over && mono_before(env_now(env), until))
        env_cond_wait_until(&worker->ended, &worker->mutex, until);
    bool over = worker->over;
    struct hf_error why = worker->error;
    struct hf_compact_totals told = totals_of(&worker->totals);
    env_mutex_unlock(&worker->mutex);
    write_caller_report(totals, &told, sizeof told);
    if (!over)
        return error_set(error, HF_TIMEOUT, "the worker still works");
    return error_tell(error, why.status, &why);
}

void hf_compact_worker_free(struct hf_compact_worker *worker)
{
    if (!worker)
        return;
    hf_compact_worker_stop(worker);
    env_task_join(worker->compact->client->env, worker->task);
    free_worker(worker);
}
