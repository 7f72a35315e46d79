/* SPDX-License-Identifier: Apache-2.0 */
/* bank.c: nodes move money between keys in transactions, rewrite single keys, read, and sweep,
 * while faults happen. bank_checker.h and sweep_checker.h list what must be true. bank_txn.c and
 * bank_key.c contain the nodes' operations.
 *
 * During the fault-free phase, after every request in flight has arrived, one node sweeps until
 * nothing that crashed nodes left behind remains, and reads everything. */
#include "base/check.h"
#include "lock/client_inside.h"
#include "sim/checkers/swap_checker.h"
#include "sim/workloads/bank_work.h"

#include <stdlib.h>

/* This long after the fault-free phase begins, every request in flight has arrived. */
#define SETTLE SPAN_S(120)

#define AWAIT_STEP SPAN_S(20)

/* The number of sweeps at the end, and the time between them. A record is deleted D after its
 * decision, and its index entry is in a later hour. */
#define FINAL_SWEEPS  12
#define FINAL_GAP     SPAN_S(60)
#define FINAL_OPS_MAX 100000

#define OPS_MAX_FEW  20
#define OPS_MAX_MANY 200

#define READS_MAX    12
#define SWEEPS       4
#define TRANSACTIONS 3

static void open_all(struct teller *teller)
{
    const struct bank_plan *plan = &teller->work->plan;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    char label[32];
    snprintf(label, sizeof label, "node-%u", node_number(teller->node));
    options.holder = label;
    options.skew_tolerance_ms = plan->skew.tolerance_ms;
    teller->store = net_store_open(teller->work->run->net, teller->node);
    check(teller->store);
    check(client_new(teller->store, &options, &teller->client, &error) == HF_OK);
    teller->client->space.settings.late_bound = plan->late_bound;
    teller->client->hour = plan->hour;
}

static void close_all(struct teller *teller)
{
    hf_client_close(teller->client);
    store_close(teller->store);
}

enum hf_sweep_stop teller_sweep(struct teller *teller, bool full, uint64_t ops_max)
{
    struct sweep_checker *checker = teller->work->sweep_checker;
    struct sweep_report report = { .stop = HF_SWEEP_STOP_FAILED };
    struct sweep_options options = { .settings = SWEEP_SETTINGS, .mode = SWEEP_MANUAL };
    struct hf_error error;
    options.settings.op_delay = SPAN_MS((int64_t)teller_below(teller, 50));
    if (teller->work->plan.litters)
        options.settings.op_delay = SPAN_US(0);
    options.settings.ops_max = ops_max;
    options.full = full;
    sweep_checker_begins(checker, teller->node);
    enum hf_status status =
        sweep_run(teller->client, &options, teller->cursor, &report, &error);
    TELLER_TRACE(teller, "sweeps%s: %s, %s, %" PRIu64 " entries", full ? " everything" : "",
                 hf_status_name(status), hf_sweep_stop_name(report.stop), report.ops);
    sweep_checker_told(checker, teller->node, &options, status, &report);
    return status == HF_OK ? report.stop : HF_SWEEP_STOP_FAILED;
}

static void read_some(struct teller *teller, uint64_t most)
{
    struct hf_key_info info = HF_KEY_INFO;
    int64_t balance;
    for (uint64_t i = teller_below(teller, most) + 1; i > 0; i--)
        teller_read(teller, teller_draw_key(teller), &balance, &info);
}

static void do_one_thing(struct teller *teller)
{
    const struct bank_plan *plan = &teller->work->plan;
    uint64_t what = teller_below(teller, 16);
    bool looks_on = node_number(teller->node) >= BANK_ONLOOKERS;
    if (plan->crowds && looks_on) {
        read_some(teller, READS_MAX);
    } else if (plan->litters && looks_on) {
        for (int i = 0; i < SWEEPS; i++)
            teller_sweep(teller, /* full */ true, OPS_MAX_MANY);
    } else if (plan->litters && teller_one_in(teller, 2)) {
        teller_rewrite(teller);
    } else if (plan->crowds && !teller_one_in(teller, 4)) {
        for (int i = 0; i < TRANSACTIONS; i++)
            teller_transact(teller);
    } else if (teller_one_in(teller, plan->sweeps)) {
        bool full = teller_one_in(teller, 3);
        teller_sweep(teller, full, 1 + teller_below(teller, OPS_MAX_FEW));
    } else if (teller->work->lent.text[0] != '\0' && teller_one_in(teller, 2)) {
        teller_borrow(teller);
    } else if (teller->work->offer.id[0] != '\0' && teller_one_in(teller, 2)) {
        teller_join(teller);
    } else if (teller->work->passed.text[0] != '\0' && teller_one_in(teller, 2)) {
        teller_adopt(teller);
    } else if (teller_one_in(teller, plan->joins)) {
        teller_share(teller);
    } else if (what < 8) {
        teller_transact(teller);
    } else if (what < 11) {
        teller_rewrite(teller);
    } else if (what < 13) {
        teller_change_at_once(teller);
    } else if (what < 14) {
        teller_move_at_once(teller);
    } else {
        read_some(teller, 3);
    }
}

static void do_another_thing(void *argument)
{
    struct teller hand = *(struct teller *)argument;
    struct sweep_cursor cursor = { 0 };
    hand.cursor = &cursor;
    do_one_thing(&hand);
}

static void act(struct teller *teller)
{
    struct env_task *task = NULL;
    struct hf_error error;
    if (teller->work->plan.both_hands && teller_one_in(teller, 3))
        check(env_task_start(teller->env, do_another_thing, teller, &task, &error) == HF_OK);
    do_one_thing(teller);
    if (task)
        env_task_join(teller->env, task);
    bool far = !teller->work->plan.fast_hands && teller_one_in(teller, 3);
    teller_rest(teller, SPAN_S(far ? 40 : 2));
}

static void sweep_to_the_end(struct teller *teller)
{
    struct bank_work *work = teller->work;
    struct hf_key_info info = HF_KEY_INFO;
    int64_t balance;
    for (int i = 1; i <= FINAL_SWEEPS; i++) {
        enum hf_sweep_stop stop = teller_sweep(teller, i % 3 == 0, FINAL_OPS_MAX);
        if (stop != HF_SWEEP_STOP_DONE && stop != HF_SWEEP_STOP_TIME)
            world_fail(work->run->world, "a sweep in the fault-free phase ends with %s",
                       hf_sweep_stop_name(stop));
        if (i < FINAL_SWEEPS)
            env_sleep(teller->env, FINAL_GAP);
    }
    for (size_t i = 0; i < BANK_KEYS; i++)
        if (!teller_read(teller, i, &balance, &info))
            world_fail(work->run->world, "%s cannot be read in the fault-free phase",
                       bank_keys[i]);
    sweep_checker_end(work->sweep_checker, teller->node);
    work->team.settled = true;
}

static void program(struct node *node, void *argument)
{
    struct bank_work *work = argument;
    struct sweep_cursor cursor = { 0 };
    struct teller teller = {
        .work = work, .node = node, .env = node_env(node), .cursor = &cursor
    };
    open_all(&teller);
    while (team_goes_on(&work->team, node))
        act(&teller);
    team_await_calm(&work->team, node);
    if (team_rests(&work->team, node, SETTLE, AWAIT_STEP))
        sweep_to_the_end(&teller);
    close_all(&teller);
}

static void *start(struct run *run)
{
    struct bank_work *work = calloc(1, sizeof *work);
    check(work);
    work->run = run;
    team_init(&work->team, run);
    work->plan = bank_plan_draw(run->world);
    struct bank_checker_options options = { .keys = bank_keys,
                                            .key_count = BANK_KEYS,
                                            .pairs = BANK_PAIRS,
                                            .late_bound = work->plan.late_bound };
    bool dated = bucket_traits(net_bucket(run->net)).clock == STORE_CLOCK_DATE;
    struct sweep_checker_options sweep_options = { .late_bound = dated ? work->plan.late_bound
                                                                       : SPAN_US(0),
                                                   .hour = work->plan.hour };
    sweep_options.wild_calendars = !dated && work->plan.wild_calendars;
    work->checker = bank_checker_new(run, &options);
    work->sweep_checker = sweep_checker_new(run, &sweep_options);
    work->swap_checker = swap_checker_new(run);
    for (unsigned i = 0; i < run->options->nodes; i++) {
        struct node *node = world_node(run->world, i);
        work->cuts[node_number(node)] = (struct bank_cut){ .work = work, .node = node };
        node_boot(node, program, work);
    }
    return work;
}

static void checker(struct run *run, void *state)
{
    struct bank_work *work = state;
    if (!work->team.settled)
        world_fail(run->world, "nobody came to the end of sweeping");
    bank_checker_end(work->checker);
}

static void free_state(void *state)
{
    struct bank_work *work = state;
    for (size_t i = 0; i <= NODES_MAX; i++)
        world_cancel_timer(work->run->world, &work->cuts[i].timer);
    bank_checker_free(work->checker);
    sweep_checker_free(work->sweep_checker);
    swap_checker_free(work->swap_checker);
    free(work);
}

const struct workload workload_bank = {
    .name = "bank",
    .about = "nodes move money between keys in transactions; none is made or lost",
    .tune = bank_tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
