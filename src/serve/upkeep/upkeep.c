/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep.c: the threads of upkeep. It guards against work in the background that delays clients or
 * the end of the server. */
#include "serve/upkeep/upkeep.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_AFTER   SPAN_S(10)
#define STOP_CHECK_MS 100
#define SCRUB_RATE    ((uint64_t)4 * 1024 * 1024) /* as 'holdfast sweep --scrub' */

/* A partition that is merged, or an index that is compiled, by a thread of its own. */
struct part {
    struct upkeep *upkeep;
    const char *name;
    enum hf_status (*work)(struct part *part, struct hf_error *error); /* until it is stopped */
    struct env_task *task;
    char said[HF_WHY_MAX]; /* the last reason that was reported */
    char about[HF_NAME_MAX + 32];
};

struct upkeep {
    struct upkeep_options options;
    struct hf_client *client;
    struct hf_lock *unused; /* never acquired */
    struct hf_sweeper *sweeper;
    struct hf_elect_member *member;
    struct part parts[2 * UPKEEP_NAMES_MAX + 1];
    size_t part_count;
    struct part scrub; /* in the sweeper's thread; has no work of its own */
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        bool stopping;
    } shared;
};

/* ---- Parts --------------------------------------------------------------------------- */

static bool upkeep_goes_on(struct upkeep *upkeep)
{
    env_mutex_lock(&upkeep->shared.mutex);
    bool stopping = upkeep->shared.stopping;
    env_mutex_unlock(&upkeep->shared.mutex);
    return !stopping;
}

/* Reports a failure, unless it is the same as before. */
static void report_part_failure(struct part *part, const struct hf_error *why)
{
    const struct upkeep_options *options = &part->upkeep->options;
    if (strcmp(part->said, why->why) == 0)
        return;
    snprintf(part->said, sizeof part->said, "%s", why->why);
    options->failed(options->argument, part->about, why);
}

static bool note_merge_event(void *argument, const struct hf_compact_event *event)
{
    struct part *part = argument;
    struct hf_error why = { .status = HF_UNAVAILABLE };
    if (event->kind == HF_COMPACT_TROUBLE) {
        snprintf(why.why, sizeof why.why, "%s", event->why);
        report_part_failure(part, &why);
    }
    return true;
}

/* Merges a partition. One merge at a time, in one thread: clients come first. */
static enum hf_status merge_part(struct part *part, struct hf_error *error)
{
    struct hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    struct hf_compact *compact = NULL;
    struct hf_compact_worker *worker = NULL;
    options.mode = HF_COMPACT_WATCH;
    options.jobs = options.threads = 1;
    options.event = note_merge_event;
    options.argument = part;
    enum hf_status status =
        hf_compact_open(part->upkeep->client, part->name, NULL, &compact, error);
    if (status == HF_OK)
        status = hf_compact_worker_start(compact, &options, &worker, error);
    while (worker &&
           (status = hf_compact_worker_wait(worker, STOP_CHECK_MS, NULL, error)) == HF_TIMEOUT)
        if (!upkeep_goes_on(part->upkeep))
            hf_compact_worker_stop(worker);
    hf_compact_worker_free(worker);
    hf_compact_close(compact);
    return status;
}

static bool part_goes_on(void *argument)
{
    struct part *part = argument;
    return upkeep_goes_on(part->upkeep);
}

static void note_compile_trouble(void *argument, const struct hf_error *why)
{
    report_part_failure(argument, why);
}

static enum hf_status compile_part(struct part *part, struct hf_error *error)
{
    struct hf_index_compile_options options = HF_INDEX_COMPILE_OPTIONS;
    struct hf_index *index = NULL;
    options.watch = true;
    options.go_on = part_goes_on;
    options.trouble = note_compile_trouble;
    options.argument = part;
    enum hf_status status = hf_index_open(part->upkeep->client, part->name, &index, error);
    if (status == HF_OK)
        status = hf_index_compile(index, &options, NULL, error);
    hf_index_close(index);
    return status;
}

/* What a partition that cannot be read has yet to do is left out: its own thread reports why. */
static void add_partition_backlog(struct upkeep *upkeep, const char *name,
                                  struct metrics_backlog *backlog)
{
    struct hf_compact_status status = HF_COMPACT_STATUS;
    struct hf_compact *compact = NULL;
    if (hf_compact_open(upkeep->client, name, NULL, &compact, NULL) == HF_OK &&
        hf_compact_get_status(compact, NULL, &status, NULL) == HF_OK) {
        backlog->chunks += status.levels[0].chunks;
        backlog->due_groups += status.due_groups;
        backlog->due_bytes += status.due_bytes;
    }
    hf_compact_close(compact);
}

static void add_index_backlog(struct upkeep *upkeep, const char *name,
                              struct metrics_backlog *backlog)
{
    struct hf_index_stats stats = HF_INDEX_STATS;
    struct hf_index *index = NULL;
    if (hf_index_open(upkeep->client, name, &index, NULL) == HF_OK &&
        hf_index_status(index, NULL, &stats, NULL) == HF_OK) {
        int64_t age_ms = env_wall(upkeep->options.env).us / 1000 - stats.oldest_ms;
        backlog->index_entries += stats.entries;
        if (stats.entries > 0 && stats.oldest_ms >= 0 && age_ms > backlog->lag_ms)
            backlog->lag_ms = age_ms;
    }
    hf_index_close(index);
}

/* Reads once what the other parts have yet to do. */
static enum hf_status read_backlog(struct part *part, struct hf_error *error)
{
    struct upkeep *upkeep = part->upkeep;
    const struct upkeep_options *options = &upkeep->options;
    struct metrics_backlog backlog = { .lag_ms = -1 };
    for (size_t i = 0; i < options->partition_count && upkeep_goes_on(upkeep); i++)
        add_partition_backlog(upkeep, options->partitions[i], &backlog);
    for (size_t i = 0; i < options->index_count && upkeep_goes_on(upkeep); i++)
        add_index_backlog(upkeep, options->indexes[i], &backlog);
    metrics_set_backlog(options->metrics, &backlog);
    return error_clear(error);
}

/* False: upkeep must stop. */
static bool pause_part(struct upkeep *upkeep)
{
    struct mono_time until = mono_add(env_now(upkeep->options.env), AGAIN_AFTER);
    bool in_time = true;
    env_mutex_lock(&upkeep->shared.mutex);
    while (in_time && !upkeep->shared.stopping)
        in_time = env_cond_wait_until(&upkeep->shared.changed, &upkeep->shared.mutex, until);
    bool stopping = upkeep->shared.stopping;
    env_mutex_unlock(&upkeep->shared.mutex);
    return !stopping;
}

static void run_part(void *argument)
{
    struct part *part = argument;
    do {
        struct hf_error error = { .status = HF_OK };
        if (part->work(part, &error) != HF_OK && upkeep_goes_on(part->upkeep))
            report_part_failure(part, &error);
    } while (pause_part(part->upkeep));
}

static enum hf_status start_part(struct upkeep *upkeep, const char *kind, const char *name,
                                 enum hf_status (*work)(struct part *, struct hf_error *),
                                 struct hf_error *error)
{
    check(upkeep->part_count < sizeof upkeep->parts / sizeof upkeep->parts[0]);
    struct part *part = &upkeep->parts[upkeep->part_count];
    *part = (struct part){ .upkeep = upkeep, .name = name, .work = work };
    snprintf(part->about, sizeof part->about, "%s '%s'", kind, name);
    enum hf_status status =
        env_task_start(upkeep->options.env, run_part, part, &part->task, error);
    upkeep->part_count += status == HF_OK;
    return status;
}

/* ---- All of it ----------------------------------------------------------------------- */

static bool report_scrub_finding(void *argument, const struct hf_scrub_finding *finding)
{
    const struct upkeep_options *options = &((struct upkeep *)argument)->options;
    options->found(options->argument, finding);
    return true;
}

static bool slice_goes_on(void *argument, const struct hf_store_scrub_report *so_far)
{
    (void)so_far;
    return upkeep_goes_on(argument);
}

/* Continues where the last slice ended, which may have been read by another process. If the store
 * fails, the next one tries the same slice again. */
static void scrub_next_slice(struct upkeep *upkeep)
{
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    options.remember = true;
    options.bytes_max = upkeep->options.scrub_bytes;
    options.rate_max = SCRUB_RATE;
    options.finding = report_scrub_finding;
    options.progress = slice_goes_on;
    options.argument = upkeep;
    struct hf_error why;
    enum hf_status status = hf_store_scrub(upkeep->options.store, &options, &report, &why);
    if (status != HF_OK && upkeep_goes_on(upkeep))
        report_part_failure(&upkeep->scrub, &why);
    metrics_scrub(upkeep->options.metrics, &report, status == HF_OK);
}

/* Called in the sweeper's own thread. */
static void note_sweep(void *argument, const struct hf_sweep_report *run)
{
    struct upkeep *upkeep = argument;
    metrics_sweep(upkeep->options.metrics, run);
    if (upkeep->options.scrub_bytes > 0 && run->stop == HF_SWEEP_STOP_DONE)
        scrub_next_slice(upkeep);
}

static enum hf_status start_sweeper(struct upkeep *upkeep, struct hf_error *error)
{
    struct hf_sweeper_options options = upkeep->options.sweeper;
    options.all_namespaces = true;
    options.ran = note_sweep;
    options.argument = upkeep;
    enum hf_status status =
        hf_lock_new(upkeep->client, "serve", /* options */ NULL, &upkeep->unused, error);
    return status == HF_OK ? hf_sweeper_start(upkeep->client, &options, &upkeep->sweeper, error)
                           : status;
}

static enum hf_status start_parts(struct upkeep *upkeep, struct hf_error *error)
{
    const struct upkeep_options *options = &upkeep->options;
    enum hf_status status = HF_OK;
    if (options->sweeps)
        status = start_sweeper(upkeep, error);
    if (status == HF_OK && options->group)
        status = hf_elect_join(upkeep->client, options->group, /* options */ NULL,
                               &upkeep->member, error);
    for (size_t i = 0; i < options->partition_count && status == HF_OK; i++)
        status = start_part(upkeep, "partition", options->partitions[i], merge_part, error);
    for (size_t i = 0; i < options->index_count && status == HF_OK; i++)
        status = start_part(upkeep, "index", options->indexes[i], compile_part, error);
    if (status == HF_OK && options->partition_count + options->index_count > 0)
        status = start_part(upkeep, "backlog", "", read_backlog, error);
    return status;
}

enum hf_status upkeep_start(const struct upkeep_options *options, struct upkeep **ret_upkeep,
                            struct hf_error *error)
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);
    *ret_upkeep = NULL;
    if (!upkeep)
        return error_no_memory(error);
    upkeep->options = *options;
    upkeep->scrub = (struct part){ .upkeep = upkeep, .about = "scrub" };
    env_mutex_init(options->env, &upkeep->shared.mutex);
    env_cond_init(options->env, &upkeep->shared.changed);
    enum hf_status status =
        hf_client_open_on(options->store, /* options */ NULL, &upkeep->client, error);
    if (status == HF_OK)
        status = start_parts(upkeep, error);
    if (status == HF_OK)
        *ret_upkeep = upkeep;
    else
        upkeep_free(upkeep);
    return status;
}

/* Somebody who only watches the server does not keep it from being idle. */
static bool is_use(const struct http_request *request)
{
    static const char *const reads[] = { "/v1/get", "/v1/describe", "/v1/index/get",
                                         "/v1/index/query" };
    struct view path = http_request_path(request);
    if (http_request_verb(request) == HTTP_VERB_POST)
        return view_starts_with(path, VIEW("/v1/"));
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++)
        if (view_equal(path, view_of(reads[i])))
            return true;
    return false;
}

/* Requests are served by other clients, but the sweeper knows only the calls of its own. This one
 * makes no request to the store. */
void upkeep_note_request(struct upkeep *upkeep, const struct http_request *request)
{
    if (upkeep && upkeep->unused && is_use(request))
        hf_lock_poll(upkeep->unused, NULL);
}

void upkeep_stop(struct upkeep *upkeep)
{
    if (!upkeep)
        return;
    env_mutex_lock(&upkeep->shared.mutex);
    upkeep->shared.stopping = true;
    env_cond_broadcast(&upkeep->shared.changed);
    env_mutex_unlock(&upkeep->shared.mutex);
}

void upkeep_free(struct upkeep *upkeep)
{
    if (!upkeep)
        return;
    upkeep_stop(upkeep);
    hf_sweeper_stop(upkeep->sweeper);
    for (size_t i = 0; i < upkeep->part_count; i++)
        env_task_join(upkeep->options.env, upkeep->parts[i].task);
    hf_elect_leave(upkeep->member);
    hf_lock_free(upkeep->unused);
    hf_client_close(upkeep->client);
    env_cond_release(&upkeep->shared.changed);
    env_mutex_release(&upkeep->shared.mutex);
    free(upkeep);
}
