/* idle.c: the task that sweeps when there is nothing else to do. */
#include "sweep/sweep_inside.h"

#include <stdlib.h>

/* How often it looks whether other processes are at work. */
#define LOOKS_A_GRACE  8
#define LOOK_EACH_MOST SPAN_S(1)

/* A store that is never idle is swept all the same, once in so many graces. */
#define PUT_OFF_GRACES 12

struct sweeper {
    struct hf_client *client;
    struct sweep_settings settings;
    struct sweeper_watch watch;
    struct env_task *task;
    struct sweep_cursor cursor; /* the task's own, as is what follows up to `shared` */
    struct mono_time since;     /* when it was started, or its last run ended, ... */
    struct mono_time finished;  /* as `since`, but only of runs that gave way to nobody */
    bool peers_known;           /* ... or other processes were seen to change the store */
    uint64_t peers;
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        bool stopping;
        struct sweep_report total;
    } shared;
};

static bool goes_on(void *argument)
{
    struct sweeper *sweeper = argument;
    env_mutex_lock(&sweeper->shared.mutex);
    bool stopping = sweeper->shared.stopping;
    env_mutex_unlock(&sweeper->shared.mutex);
    return !stopping;
}

/* When the next run was put off, or gave way, for so long that it gives way no more. */
static struct mono_time overdue_at(const struct sweeper *sweeper)
{
    return mono_add(sweeper->finished,
                    SPAN_US(PUT_OFF_GRACES * sweeper->settings.idle_grace.us));
}

/* When nobody will have begun anything for the time of grace, nor a run have ended. */
static struct mono_time due_at(struct sweeper *sweeper)
{
    struct mono_time last = { atomic_load(&sweeper->client->activity.last) };
    struct mono_time idle = mono_add(mono_before(sweeper->since, last) ? last : sweeper->since,
                                     sweeper->settings.idle_grace);
    return mono_earlier(idle, overdue_at(sweeper));
}

/* Looks whether other processes have changed the store. It does not say when: so now. */
static void look_at_peers(struct sweeper *sweeper)
{
    uint64_t peers;
    if (!store_peer_changes(sweeper->client->store, &peers))
        return;
    if (sweeper->peers_known && peers != sweeper->peers)
        sweeper->since = env_now(sweeper->client->env);
    sweeper->peers_known = true;
    sweeper->peers = peers;
}

/* When to look again. */
static struct mono_time look_at(struct sweeper *sweeper, struct mono_time due)
{
    struct span each = SPAN_US(sweeper->settings.idle_grace.us / LOOKS_A_GRACE);
    if (!sweeper->peers_known)
        return due;
    each = span_smaller(each, LOOK_EACH_MOST);
    return mono_earlier(due, mono_add(env_now(sweeper->client->env), each));
}

/* Waits until the moment, unless it is told to stop: false. */
static bool wait_until(struct sweeper *sweeper, struct mono_time until)
{
    bool in_time = true;
    env_mutex_lock(&sweeper->shared.mutex);
    while (in_time && !sweeper->shared.stopping)
        in_time = env_cond_wait_until(&sweeper->shared.changed, &sweeper->shared.mutex, until);
    bool stopping = sweeper->shared.stopping;
    env_mutex_unlock(&sweeper->shared.mutex);
    return !stopping;
}

/* False: it is to stop. The last look is one after the time of grace. */
static bool wait_until_idle(struct sweeper *sweeper)
{
    for (;;) {
        look_at_peers(sweeper);
        struct mono_time due = due_at(sweeper);
        if (!mono_before(env_now(sweeper->client->env), due))
            return goes_on(sweeper);
        if (!wait_until(sweeper, look_at(sweeper, due)))
            return false;
    }
}

static void sweep_once(struct sweeper *sweeper)
{
    struct sweep_options options = {
        .settings = sweeper->settings,
        .mode = SWEEP_IDLE,
        .overdue = !mono_before(env_now(sweeper->client->env), overdue_at(sweeper)),
        .go_on = goes_on,
        .argument = sweeper,
    };
    struct sweep_report report;
    struct hf_error error; /* the report says that it failed; the next run tries again */
    sweep_run(sweeper->client, &options, &sweeper->cursor, &report, &error);
    env_mutex_lock(&sweeper->shared.mutex);
    sweep_report_add(&sweeper->shared.total, &report);
    env_mutex_unlock(&sweeper->shared.mutex);
    sweeper->since = env_now(sweeper->client->env);
    if (!report.stopped_by_activity)
        sweeper->finished = sweeper->since;
    if (report.runs == 0)
        return;
    if (sweeper->watch.remember) /* its cursor is its own */
        sweep_remember_run(sweeper->client, sweeper->settings.all_namespaces,
                           /* cursor */ NULL, &report);
    if (sweeper->watch.ran)
        sweeper->watch.ran(sweeper->watch.argument, &report);
}

/* Between two runs passes the time of grace, too. */
static void work(void *argument)
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
    sweeper->since = sweeper->finished = env_now(client->env);
    env_mutex_init(client->env, &sweeper->shared.mutex);
    env_cond_init(client->env, &sweeper->shared.changed);
    enum hf_status status = env_task_start(client->env, work, sweeper, &sweeper->task, error);
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
        env_task_join(sweeper->client->env, sweeper->task);
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
