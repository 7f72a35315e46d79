/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: `elect run`: runs a command on one machine of a fleet. It works like `run`, except that
 * the members of the group queue for the lock in the order of the ladder: the first member after
 * one step, and each later member one step after the previous one. The lock alone decides which
 * member runs the command. */
#include "cli/run/run.h"
#include "cli/lock/lock.h"

#include <signal.h>
#include <stdio.h>

#define STEP_DEFAULT SPAN_S(1)

/* How often signals are checked. */
#define NAP SPAN_MS(50)

#define GROUP_MAX 128

struct candidate {
    struct cli *cli;
    struct hf_elect_options options;
    char group[GROUP_MAX + 2];
    struct span step;
    struct hf_client *client; /* separate: the lock's client is closed before we leave */
    struct hf_elect_member *member;
};

static bool is_our_turn(const struct candidate *candidate, struct span waited)
{
    struct hf_elect_work work = HF_ELECT_WORK;
    size_t rank;
    work.base = 1;
    if (hf_elect_rank_own(candidate->member, &work, &rank, /* score */ NULL,
                          /* error */ NULL) != HF_OK)
        return true; /* the order is only a hint; the lock decides */
    return hf_elect_starts_in_ms(rank, candidate->step.us / 1000, waited.us / 1000) == 0;
}

static enum hf_status rest(struct candidate *candidate, struct run *run, struct span length,
                           struct hf_error *error)
{
    struct env *env = candidate->cli->env;
    struct mono_time end = mono_add(env_now(env), length);
    while (mono_before(env_now(env), end) && !atomic_load(&run->stopping))
        env_sleep_until(env, mono_earlier(end, mono_add(env_now(env), NAP)));
    return atomic_load(&run->stopping) ? error_set(error, HF_CANCELLED, "stopped by a signal")
                                       : HF_OK;
}

/* The part of --wait that is left since `begun`; at least 1, so the lock is always tried. */
static int64_t wait_left_ms(const struct run *run, struct env *env, struct mono_time begun)
{
    int64_t left_ms = run->wait_ms - mono_since(env_now(env), begun).us / 1000;
    return left_ms > 0 ? left_ms : 1;
}

/* The first step lets members that start at the same time see each other. */
enum hf_status candidate_wait_turn(struct candidate *candidate, struct run *run,
                                   int64_t *ret_left_ms, struct hf_error *error)
{
    struct cli *cli = candidate->cli;
    struct mono_time begun = env_now(cli->env);
    enum hf_status status = cli_connect_another(cli, /* options */ NULL, &candidate->client);
    if (status == HF_OK)
        status = hf_elect_join(candidate->client, candidate->group, &candidate->options,
                               &candidate->member, &cli->error);
    if (status != HF_OK)
        *error = cli->error;
    struct span step =
        span_smaller(candidate->step, SPAN_MS(wait_left_ms(run, cli->env, begun)));
    if (status == HF_OK)
        status = rest(candidate, run, step, error);
    if (status == HF_OK)
        hf_elect_look(candidate->member, /* error */ NULL);
    struct mono_time since = env_now(cli->env);
    while (status == HF_OK && wait_left_ms(run, cli->env, begun) > 1 &&
           !is_our_turn(candidate, mono_since(env_now(cli->env), since)))
        status = rest(candidate, run, NAP, error);
    *ret_left_ms = wait_left_ms(run, cli->env, begun);
    return status;
}

/* The group is named after the lock, prefixed by the namespace if one is given. */
enum hf_status run_elect_run(struct cli *cli)
{
    const char *name = option_text(cli, "as"), *ns = option_text(cli, "ns");
    struct candidate candidate = { .cli = cli,
                                   .options = HF_ELECT_OPTIONS,
                                   .step = cli_span(cli, "step", STEP_DEFAULT) };
    struct run run = { .cli = cli,
                       .candidate = &candidate,
                       .wait_ms = option_ms(cli, "wait", WAIT_FOREVER.us / 1000) };
    struct hf_lock_options options;
    candidate.options.name = name;
    candidate.options.beat_ms = elect_beat_ms(cli);
    if (name && !name[0])
        return cli_invalid(cli, "--as must not be empty");
    int size = snprintf(candidate.group, sizeof candidate.group, "%.*s%s%s", GROUP_MAX,
                        ns ? ns : "", ns ? "." : "", cli->arguments[0]);
    if (size < 0 || (size_t)size > GROUP_MAX)
        return cli_invalid(cli, "the name must not exceed %d bytes", GROUP_MAX);
    enum hf_status status = lock_options(cli, /* has_modes */ false, &options);
    if (status != HF_OK)
        return status;
    status = run_through(&run, &options);
    if (atomic_load(&run.stopping))
        raise(cli->wait_status); /* if the store hangs while we leave, the signal ends us */
    hf_elect_leave(candidate.member);
    hf_client_close(candidate.client);
    return status;
}
