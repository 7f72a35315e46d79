/* SPDX-License-Identifier: Apache-2.0 */
/* idle.c: the task that sweeps while the store is idle. A sweep yields to callers, so that it does
 * not slow them down. It still runs on a busy store: after 12 grace periods, a run no longer
 * yields. */
#include "sweep/sweep_inside.h"

#include <stdlib.h>

/* How often it checks whether other processes are active. */
#define CHECKS_PER_GRACE 8
#define CHECK_PEERS_MOST SPAN_S(1)

/* A store that is never idle is swept once per this many grace periods. */
#define PUT_OFF_GRACES 12

struct sweeper {
    struct hf_client *client;
    struct sweep_settings settings;
    struct sweeper_watch watch;
    struct env_task *task;
    struct sweep_cursor cursor; /* private to the task, as are the members up to `shared` */
    struct mono_time since;     /* when it was started, or its last run ended ... */
    struct mono_time finished;  /* like `since`, but only for runs that did not yield */
    bool peers_known;           /* ... or other processes were seen to change the store */
    uint64_t peers;
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        bool stopping;
        struct sweep_report total;
    } shared;
};

static bool sweeper_goes_on(void *argument)
{
    struct sweeper *sweeper = argument;
    env_mutex_lock(&sweeper->shared.mutex);
    bool stopping = sweeper->shared.stopping;
    env_mutex_unlock(&sweeper->shared.mutex);
    return !stopping;
}

/* When the next run will no longer yield, because it has been delayed for too long. */
static struct mono_time overdue_at(const struct sweeper *sweeper)
{
    return mono_add(sweeper->finished,
                    SPAN_US(PUT_OFF_GRACES * sweeper->settings.idle_grace.us));
}

/* When a grace period will have passed since the last operation and the last run. */
static struct mono_time due_at(struct sweeper *sweeper)
{
    struct mono_time last = client_last_active(sweeper->client);
    struct mono_time idle = mono_add(mono_before(sweeper->since, last) ? last : sweeper->since,
                                     sweeper->settings.idle_grace);
    return mono_earlier(idle, overdue_at(sweeper));
}

/* Checks whether other processes have changed the store. The time of the change is unknown, so
 * the current time is used. */
static void check_peers(struct sweeper *sweeper)
{
    uint64_t peers;
    if (!store_peer_changes(client_store(sweeper->client), &peers))
        return;
    if (sweeper->peers_known && peers != sweeper->peers)
        sweeper->since = client_now(sweeper->client);
    sweeper->peers_known = true;
    sweeper->peers = peers;
}

/* Waits until this time; false if the sweeper must stop. */
static bool wait_or_stop(struct sweeper *sweeper, struct mono_time until)
{
    bool in_time = true;
    env_mutex_lock(&sweeper->shared.mutex);
    while (in_time && !sweeper->shared.stopping)
        in_time = env_cond_wait_until(&sweeper->shared.changed, &sweeper->shared.mutex, until);
    bool stopping = sweeper->shared.stopping;
    env_mutex_unlock(&sweeper->shared.mutex);
    return !stopping;
}

/* Waits until a run may start; false if the sweeper must stop. The last check is made after the
 * grace period. */
static bool wait_until_idle(struct sweeper *sweeper)
{
    struct span each = SPAN_US(sweeper->settings.idle_grace.us / CHECKS_PER_GRACE);
    for (;;) {
        check_peers(sweeper);
        struct mono_time now = client_now(sweeper->client), due = due_at(sweeper);
        if (!mono_before(now, due))
            return sweeper_goes_on(sweeper);
        if (sweeper->peers_known)
            due = mono_earlier(due, mono_add(now, span_smaller(each, CHECK_PEERS_MOST)));
        if (!wait_or_stop(sweeper, due))
            return false;
    }
}

static void sweep_once(struct sweeper *sweeper)
{
    struct sweep_options options = {
        .settings = sweeper->settings,
        .mode = SWEEP_IDLE,
        .overdue = !mono_before(client_now(sweeper->client), overdue_at(sweeper)),
        .go_on = sweeper_goes_on,
        .argument = sweeper,
    };
    struct sweep_report report;
    struct hf_error error; /* the report contains the failure; the next run tries again */
    sweep_run(sweeper->client, &options, &sweeper->cursor, &report, &error);
    env_mutex_lock(&sweeper->shared.mutex);
    sweep_report_add(&sweeper->shared.total, &report);
    env_mutex_unlock(&sweeper->shared.mutex);
    if (report.runs > 0 && sweeper->watch.remember) /* the idle sweeper keeps its own cursor */
        sweep_remember_run(sweeper->client, sweeper->settings.all_namespaces,
                           /* cursor */ NULL, &report);
    if (report.runs > 0 && sweeper->watch.ran)
        sweeper->watch.ran(sweeper->watch.argument, &report);
    /* What is done after a run, such as a scrub, may take longer than the grace period. */
    sweeper->since = client_now(sweeper->client);
    if (!report.stopped_by_activity)
        sweeper->finished = sweeper->since;
}

/* There is also a grace period between two runs. */
static void run_sweeper(void *argument)
{
    struct sweeper *sweeper = argument;
    while (wait_until_idle(sweeper))
        sweep_once(sweeper);
}

enum hf_status sweeper_start(struct hf_client *client, const struct sweep_settings *settings,
                             const struct sweeper_watch *watch, struct sweeper **ret_sweeper,
                             struct hf_error *error)
{
    if (sweep_settings_check(settings, error) != HF_OK)
        return error->status;
    struct sweeper *sweeper = calloc(1, sizeof *sweeper);
    if (!sweeper)
        return error_no_memory(error);
    sweeper->client = client;
    sweeper->settings = *settings;
    if (watch)
        sweeper->watch = *watch;
    sweeper->since = sweeper->finished = client_now(client);
    env_mutex_init(client_env(client), &sweeper->shared.mutex);
    env_cond_init(client_env(client), &sweeper->shared.changed);
    enum hf_status status =
        env_task_start(client_env(client), run_sweeper, sweeper, &sweeper->task, error);
    if (status == HF_OK)
        *ret_sweeper = sweeper;
    else
        sweeper_stop(sweeper);
    return status;
}

void sweeper_stop(struct sweeper *sweeper)
{
    if (!sweeper)
        return;
    env_mutex_lock(&sweeper->shared.mutex);
    sweeper->shared.stopping = true;
    env_cond_signal(&sweeper->shared.changed);
    env_mutex_unlock(&sweeper->shared.mutex);
    if (sweeper->task)
        env_task_join(client_env(sweeper->client), sweeper->task);
    env_cond_release(&sweeper->shared.changed);
    env_mutex_release(&sweeper->shared.mutex);
    free(sweeper);
}

void sweeper_report(struct sweeper *sweeper, struct sweep_report *ret_report)
{
    env_mutex_lock(&sweeper->shared.mutex);
    *ret_report = sweeper->shared.total;
    env_mutex_unlock(&sweeper->shared.mutex);
}
