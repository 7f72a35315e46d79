/* SPDX-License-Identifier: Apache-2.0 */
/* worker_inbox.c: the worker's task that adopts the objects of its inbox. It runs beside the jobs,
 * because a large object takes long to read. */
#include "compact/work/worker_inside.h"

#include "base/check.h"
#include "elect/ladder.h"

/* Workers that share an inbox scan it less often, the lower they rank: one of them is enough. */
#define INBOX_RANK_MAX 4

static bool may_adopt(void *argument, size_t objects_done, uint64_t bytes_done)
{
    (void)objects_done;
    (void)bytes_done;
    return !worker_stops(argument);
}

static bool worker_describes(void *argument, struct view key, struct adopt_facts *ret_facts)
{
    const struct worker_options *options = &((const struct worker *)argument)->options;
    return options->inbox_describe(options->argument, key, ret_facts);
}

enum hf_status worker_open_inbox(struct worker *worker, struct hf_error *error)
{
    const struct worker_options *options = &worker->options;
    struct adopt_options adopt = { .writer = view_first(options->label, WRITER_BYTES_MAX),
                                   .scratch = options->inbox_scratch,
                                   .describe =
                                       options->inbox_describe ? worker_describes : NULL,
                                   .go_on = may_adopt,
                                   .argument = worker };
    return inbox_new(worker->tree, options->inbox, &adopt, &worker->inbox, error);
}

static void scan_inbox(void *argument)
{
    struct worker *worker = argument;
    struct adopt_report report;
    struct hf_error error;
    inbox_scan(worker->inbox, &report, &error);
    env_mutex_lock(&worker->shared.mutex);
    worker->shared.totals.adopted += report.added;
    worker->shared.inbox_added = report.added > 0;
    worker->shared.inbox_error = error;
    worker->shared.inbox_ended = true;
    env_cond_broadcast(&worker->shared.changed);
    env_mutex_unlock(&worker->shared.mutex);
    if (report.added > 0)
        worker_report(worker, HF_COMPACT_ADOPTED, NULL, NULL, NULL);
}

void worker_end_inbox(struct worker *worker, bool wait)
{
    env_mutex_lock(&worker->shared.mutex);
    bool ended = worker->shared.inbox_ended;
    env_mutex_unlock(&worker->shared.mutex);
    if (!worker->inbox_task || (!ended && !wait))
        return;
    env_task_join(worker->tree->env, worker->inbox_task);
    worker->inbox_task = NULL;
    worker->stale = worker->stale || worker->shared.inbox_added;
    if (worker->shared.inbox_error.status != HF_OK &&
        worker->shared.inbox_error.status != HF_CANCELLED)
        worker_report_trouble(worker, &worker->shared.inbox_error);
}

void worker_scan_inbox(struct worker *worker)
{
    struct mono_time now = env_now(worker->tree->env);
    struct hf_error error;
    worker_end_inbox(worker, /* wait */ false);
    if (!worker->inbox || worker->inbox_task || worker->paused ||
        mono_before(now, worker->inbox_at))
        return;
    const struct work_writer writer = { .writer = VIEW("inbox") };
    const struct work work = { .base = 1, .writers = &writer, .writer_count = 1 };
    size_t rank = 0;
    if (worker->joined)
        rank = ladder_rank(worker->roster.present, worker->roster.present_count,
                           view_of(worker->roster.fingerprint), &work);
    if (rank > INBOX_RANK_MAX)
        rank = INBOX_RANK_MAX;
    worker->inbox_at = mono_add(now, SPAN_US(worker->poll.us * (int64_t)(rank + 1)));
    worker->shared.inbox_ended = false;
    if (env_task_start(worker->tree->env, scan_inbox, worker, &worker->inbox_task, &error) !=
        HF_OK) {
        worker->inbox_task = NULL;
        worker_report_trouble(worker, &error);
    }
}
