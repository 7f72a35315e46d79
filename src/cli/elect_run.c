/* elect_run.c: `elect run`: a command that runs on one machine of a fleet. It is `run`, except that
 * members of the group queue for the lock in the order of the ladder: the first after one step,
 * each further one a step later. The lock alone decides who runs. */
#include "cli/elect.h"
#include "cli/lock.h"
#include "cli/run.h"
#include "elect/ladder.h"
#include "elect/roster.h"

#include <signal.h>
#include <stdio.h>

#define STEP_DEFAULT SPAN_S(1)

/* How soon a signal is noticed. */
#define NAP SPAN_MS(50)

struct candidate {
    struct cli *cli;
    struct view name; /* of this member; empty: drawn */
    char group[ROSTER_GROUP_MAX + 2];
    struct span beat, step;
    struct store *store;
    struct roster roster; /* used by the task alone while it runs */
    bool joined;
    struct env_task *task;  /* sends heartbeats; NULL: not started */
    struct env_mutex mutex; /* guards `over` */
    struct env_cond ended;
    bool over;
};

/* ---- Heartbeats ------------------------------------------------------------------------- */

/* A failed heartbeat is retried with the next; the lock does not depend on it. */
static void send_heartbeats(void *argument)
{
    struct candidate *candidate = argument;
    struct env *env = candidate->cli->env;
    struct hf_error ignored;
    env_mutex_lock(&candidate->mutex);
    while (!candidate->over) {
        env_mutex_unlock(&candidate->mutex);
        roster_keep(&candidate->roster, env_now(env), &ignored);
        struct mono_time next = mono_add(env_now(env), SPAN_US(candidate->beat.us / 4));
        env_mutex_lock(&candidate->mutex);
        while (!candidate->over &&
               env_cond_wait_until(&candidate->ended, &candidate->mutex, next))
            continue;
    }
    env_mutex_unlock(&candidate->mutex);
}

static void leave(struct candidate *candidate)
{
    struct env *env = candidate->cli->env;
    if (candidate->task) {
        env_mutex_lock(&candidate->mutex);
        candidate->over = true;
        env_cond_signal(&candidate->ended);
        env_mutex_unlock(&candidate->mutex);
        env_task_join(env, candidate->task);
    }
    if (candidate->joined)
        roster_leave(&candidate->roster);
    if (candidate->store)
        store_close(candidate->store);
    env_cond_release(&candidate->ended);
    env_mutex_release(&candidate->mutex);
}

/* ---- Our turn ------------------------------------------------------------------------ */

static bool is_our_turn(const struct candidate *candidate, struct span waited)
{
    const struct roster *roster = &candidate->roster;
    const struct work work = { .base = 1 };
    size_t rank = ladder_rank(roster->present, roster->present_count,
                              view_of(roster->fingerprint), &work);
    return ladder_may_start(rank, candidate->step, waited);
}

static enum hf_status join_group(struct candidate *candidate, struct hf_error *error)
{
    struct cli *cli = candidate->cli;
    char label[OWN_LABEL_MAX];
    enum hf_status status =
        cli_open(cli, (struct view){ NULL, 0 }, BUCKET_LOCKS, &candidate->store);
    if (status == HF_OK)
        status = roster_join(&candidate->roster, candidate->store, view_of(candidate->group),
                             candidate->name, own_label(label), candidate->beat, &cli->error);
    if (status != HF_OK)
        *error = cli->error;
    candidate->joined = status == HF_OK;
    return status;
}

/* Sleeps and sends heartbeats meanwhile. */
static enum hf_status rest(struct candidate *candidate, struct run *run, struct span length,
                           struct hf_error *error)
{
    struct env *env = candidate->cli->env;
    struct mono_time end = mono_add(env_now(env), length);
    struct hf_error ignored;
    while (mono_before(env_now(env), end) && !atomic_load(&run->stopping)) {
        env_sleep_until(env, mono_earlier(end, mono_add(env_now(env), NAP)));
        roster_keep(&candidate->roster, env_now(env), &ignored);
    }
    return atomic_load(&run->stopping) ? error_set(error, HF_CANCELLED, "stopped by a signal")
                                       : HF_OK;
}

/* The first step lets members that start at the same time see each other. */
enum hf_status candidate_wait_turn(struct candidate *candidate, struct run *run,
                                   struct hf_error *error)
{
    struct env *env = candidate->cli->env;
    struct hf_error ignored;
    enum hf_status status = join_group(candidate, error);
    if (status == HF_OK)
        status = rest(candidate, run, candidate->step, error);
    if (status == HF_OK)
        roster_look(&candidate->roster, &ignored);
    struct mono_time since = env_now(env);
    while (status == HF_OK && !is_our_turn(candidate, mono_since(env_now(env), since)))
        status = rest(candidate, run, NAP, error);
    if (status == HF_OK)
        status = env_task_start(env, send_heartbeats, candidate, &candidate->task, error);
    return status;
}

/* ---- The command --------------------------------------------------------------------- */

/* The group is named after the lock, prefixed by the namespace if one is given. */
static enum hf_status name_group(struct candidate *candidate)
{
    struct cli *cli = candidate->cli;
    const struct option_value *ns = cli_option(cli, "ns");
    int size = snprintf(candidate->group, sizeof candidate->group, "%.*s%s%s",
                        ns ? (int)view_first(ns->text, ROSTER_GROUP_MAX).size : 0,
                        ns ? ns->text.data : "", ns ? "." : "", cli->arguments[0]);
    if (size < 0 || (size_t)size > ROSTER_GROUP_MAX)
        return error_set(&cli->error, HF_INVALID, "the name must not exceed %d bytes",
                         ROSTER_GROUP_MAX);
    return HF_OK;
}

enum hf_status run_elect_run(struct cli *cli)
{
    const struct option_value *name = cli_option(cli, "as");
    struct candidate candidate = { .cli = cli,
                                   .name = name ? name->text : VIEW(""),
                                   .beat = cli_span(cli, "beat", ELECT_BEAT_DEFAULT),
                                   .step = cli_span(cli, "step", STEP_DEFAULT) };
    struct run run = { .cli = cli,
                       .candidate = &candidate,
                       .wait_ms = cli_span(cli, "wait", WAIT_FOREVER).us / 1000 };
    struct hf_lock_options options;
    if (name && name->text.size == 0)
        return error_set(&cli->error, HF_INVALID, "--as takes a name");
    enum hf_status status = name_group(&candidate);
    if (status == HF_OK)
        status = lock_options(cli, /* has_modes */ false, &options);
    if (status != HF_OK)
        return status;
    env_mutex_init(cli->env, &candidate.mutex);
    env_cond_init(cli->env, &candidate.ended);
    status = run_through(&run, &options);
    if (atomic_load(&run.stopping))
        raise(cli->wait_status); /* if the store hangs, the signal ends us while we leave */
    leave(&candidate);
    return status;
}
