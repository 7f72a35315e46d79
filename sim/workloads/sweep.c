/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: nodes use locks as in `locks`, and sweep, on request or when they are idle. Hours and D
 * are short, so index entries become due and tables are purged while other nodes use them. The lock
 * checkers verify that nothing live is cleared. sweep_checker.h lists what must be true of the
 * index and of purges.
 *
 * When the other nodes have finished, one node holds a lease for hours, abandons it, and sweeps
 * until nothing is left. */
#include "base/check.h"
#include "sim/checkers/sweep_checker.h"
#include "sim/workloads/lock_inside.h"

#include <stdlib.h>

static const struct lock_wish wishes[] = {
    { "default/meta/door.json", { "named:door" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_SHARED, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/lamp.json", { "named:lamp" }, 1, HF_EXCLUSIVE, 0 },
    { "default/inode/7.json", { "range:7:0-4096" }, 1, HF_EXCLUSIVE, 0 },
    { "default/paths.json", { "tree:/a" }, 1, HF_EXCLUSIVE, 0 },
};

enum { WISHES = sizeof wishes / sizeof *wishes };

/* As in `bank`, D is longer than all delays of a request together. */
#define PAUSE_MAX   SPAN_S(15)
#define SUSPEND_MAX SPAN_S(15)
#define SLOW_MAX    SPAN_S(8)
#define LATE_MAX    SPAN_S(12)
#define LATE_BOUND  SPAN_S(90)
#define FRONT_ENDS  SPAN_S(20) /* the part of an hour by which clocks may differ */
#define UNTIL       SPAN_S(300)
#define WALL_OFF    SPAN_S(15)
#define HOUR        SPAN_S(30)

#define OPS_MAX_FEW   8
#define FINAL_OPS_MAX 10000
#define FINAL_SWEEPS  10
#define FINAL_GAP     SPAN_S(45)
#define HELD_HOURS    4

struct sweeping {
    struct run *run;
    struct lock_work *work;
    struct lock_beside beside;
    struct sweep_checker *checker;
    struct sweep_cursor cursors[NODES_MAX + 1]; /* each node remembers a copy */
    bool settled;
};

/* ---- Sweeping -------------------------------------------------------------------------- */

static enum hf_sweep_stop sweep_once(struct sweeping *sweeping, struct process *process,
                                     bool full, uint64_t ops_max)
{
    unsigned number = node_number(process->node);
    struct sweep_report report = { .stop = HF_SWEEP_STOP_FAILED };
    struct sweep_options options = { .settings = SWEEP_SETTINGS, .mode = SWEEP_MANUAL };
    struct sweep_cursor cursor = sweeping->cursors[number];
    struct hf_error error;
    options.settings.op_delay = process_up_to_ms(process, 50);
    options.settings.ops_max = ops_max;
    options.full = full;
    sweep_checker_begins(sweeping->checker, process->node);
    enum hf_status status = sweep_run(process->client, &options, &cursor, &report, &error);
    sweeping->cursors[number] = cursor;
    trace_line(world_trace(sweeping->run->world),
               "node %u: sweeps%s: %s, %s, %" PRIu64 " entries", number,
               full ? " everything" : "", hf_status_name(status),
               hf_sweep_stop_name(report.stop), report.ops);
    sweep_checker_told(sweeping->checker, process->node, &options, status, &report);
    return status == HF_OK ? report.stop : HF_SWEEP_STOP_FAILED;
}

static void act(void *argument, struct process *process)
{
    bool full = process_one_in(process, 4);
    sweep_once(argument, process, full, 1 + process_below(process, OPS_MAX_FEW));
    env_sleep(process->env, process_up_to_ms(process, 20000));
}

/* Some processes sweep automatically. */
static void *begin(void *argument, struct process *process)
{
    struct sweep_settings settings = SWEEP_SETTINGS;
    struct sweeper *sweeper;
    struct hf_error error;
    (void)argument;
    settings.idle_grace = SPAN_MS(500 + (int64_t)process_below(process, 4000));
    settings.op_delay = process_up_to_ms(process, 50);
    if (!process_one_in(process, 3) || node_number(process->node) == 1)
        return NULL;
    check(sweeper_start(process->client, &settings, /* watch */ NULL, &sweeper, &error) ==
          HF_OK);
    return sweeper;
}

static void end(void *argument, struct process *process, void *begun)
{
    (void)argument;
    (void)process;
    sweeper_stop(begun);
}

/* ---- The fault-free phase -------------------------------------------------------------- */

/* Holds a lease for hours, and abandons it. */
static void hold_for_hours(struct sweeping *sweeping, struct process *process)
{
    struct use use;
    struct hf_error error;
    lock_use_open(&use, process, &wishes[0], /* final */ true);
    checker_asks(use.claim, CHECKER_STANDS_IN_LINE, HF_WAIT_FOREVER);
    enum hf_status status = hf_lock_acquire(use.lock, HF_WAIT_FOREVER, &error);
    if (status != HF_OK) {
        checker_refused(use.claim, status);
        lock_use_close(&use);
        return;
    }
    checker_held(use.claim, use.lock, /* adopted */ false);
    for (int i = 0; i < HELD_HOURS; i++) {
        env_sleep(process->env, HOUR);
        if (hf_lock_check(use.lock, NULL) == HF_OK)
            sweep_checker_held(sweeping->checker, process->node, view_of(use.wish->key));
        if (process_one_in(process, 2))
            sweep_once(sweeping, process, /* full */ false, FINAL_OPS_MAX);
    }
    USE_TRACE(&use, "abandons token %" PRIu64, hf_lock_token(use.lock));
    checker_lets_go(use.claim, CHECKER_ABANDONS);
    hf_lock_detach(use.lock);
    checker_freed(use.claim);
}

static void calm(void *argument, struct process *process)
{
    struct sweeping *sweeping = argument;
    if (sweeping->settled)
        return;
    hold_for_hours(sweeping, process);
    for (int i = 0; i < FINAL_SWEEPS; i++) {
        env_sleep(process->env, FINAL_GAP);
        enum hf_sweep_stop stop =
            sweep_once(sweeping, process, /* full */ false, FINAL_OPS_MAX);
        if (stop != HF_SWEEP_STOP_DONE && stop != HF_SWEEP_STOP_TIME)
            world_fail(sweeping->run->world, "a sweep in the fault-free phase ends with %s",
                       hf_sweep_stop_name(stop));
    }
    sweep_checker_end(sweeping->checker, process->node);
    /* Only a full sweep finds a lease that ended before it had an index entry. The first full sweep
     * may start where an earlier one stopped. */
    for (int i = 0; i < 2; i++)
        sweep_once(sweeping, process, /* full */ true, FINAL_OPS_MAX);
    sweeping->settled = true;
}

/* ---- The workload ---------------------------------------------------------------------- */

static void tune(struct run *run, struct plans *plans)
{
    lock_work_tune(run, plans);
    plans->net.plan.slow_max = SLOW_MAX;
    plans->net.plan.late_max = LATE_MAX;
    plans->chaos.pause_max = PAUSE_MAX;
    plans->chaos.suspend_max = SUSPEND_MAX;
    if (plans->chaos.until.us > 0)
        plans->chaos.until = UNTIL;
    if (plans->net.bucket.clock == STORE_CLOCK_BOOT)
        plans->nodes.wall_off = plans->chaos.wall_step_max = WALL_OFF;
}

static void *start(struct run *run)
{
    struct sweeping *sweeping = calloc(1, sizeof *sweeping);
    check(sweeping);
    struct lock_plan plan = lock_plan_draw(run->world);
    bool keeps_time = plan.exclusion && plan.store_time;
    bool dated = bucket_traits(net_bucket(run->net)).clock == STORE_CLOCK_DATE;
    struct span bound = SPAN_US(LATE_BOUND.us - FRONT_ENDS.us);
    struct sweep_checker_options options = { .late_bound =
                                                 keeps_time && dated ? bound : SPAN_US(0),
                                             .hour = HOUR,
                                             .wild_calendars = !keeps_time };
    sweeping->run = run;
    sweeping->checker = sweep_checker_new(run, &options);
    sweeping->beside = (struct lock_beside){ .late_bound = LATE_BOUND,
                                             .hour = HOUR,
                                             .argument = sweeping,
                                             .begin = begin,
                                             .end = end,
                                             .act = act,
                                             .calm = calm };
    sweeping->work = lock_work_new_beside(run, wishes, WISHES, &sweeping->beside);
    return sweeping;
}

static void checker(struct run *run, void *state)
{
    struct sweeping *sweeping = state;
    if (!sweeping->settled)
        world_fail(run->world, "nobody came to the end of sweeping");
    lock_work_end(sweeping->work);
}

static void free_state(void *state)
{
    struct sweeping *sweeping = state;
    lock_work_free(sweeping->work);
    sweep_checker_free(sweeping->checker);
    free(sweeping);
}

const struct workload workload_sweep = {
    .name = "sweep",
    .about = "nodes use locks and sweep; nothing live is cleared, and nothing is left",
    .tune = tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
