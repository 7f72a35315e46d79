/* SPDX-License-Identifier: Apache-2.0 */
/* sim_run_test.c: runs of whole workloads: one seed gives one history, the checks notice
 * faults, faults happen and can be switched off, a node may crash at every call, and failing
 * runs are shrunk. */
#include "base/limits.h"
#include "sim/options.h"
#include "sim/shrink.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static struct run_options options_of(const struct workload *workload, uint64_t seed)
{
    struct run_options options = RUN_OPTIONS;
    options.workload = workload;
    options.seed = seed;
    return options;
}

static struct run_result result_of(const struct run_options *options)
{
    struct run_result result;
    run_seed(options, &result);
    return result;
}

static struct run_result run_well(const struct run_options *options)
{
    struct run_result result = result_of(options);
    struct replay replay;
    options_replay(options, &replay);
    if (!result.ok)
        fail_msg("%s: %s", replay.text, result.failure);
    return result;
}

static struct run_result run_of(const struct workload *workload, uint64_t seed)
{
    struct run_options options = options_of(workload, seed);
    return run_well(&options);
}

/* ---- One seed ------------------------------------------------------------------------ */

static void one_seed_is_one_history(void **state)
{
    (void)state;
    for (size_t i = 0; workloads[i]; i++) {
        struct run_result last = { 0 };
        /* Those that count requests are long: under a sanitizer they have one run, of their own. */
        bool is_long = workloads[i]->counts_requests;
        uint64_t rounds = SANITIZED ? (is_long ? 0 : 2) : is_long ? 2 : 20;
        for (uint64_t seed = 1; seed <= rounds; seed++) {
            struct run_result first = run_of(workloads[i], seed);
            struct run_result second = run_of(workloads[i], seed);
            assert_true(first.hash == second.hash);
            assert_int_equal(first.lines, second.lines);
            assert_int_equal(first.steps, second.steps);
            assert_true(first.hash != last.hash);
            last = first;
        }
    }
}

/* The lines of a run, in `room` bytes that the caller frees. */
static char *text_of(const struct run_options *options, size_t room,
                     struct run_result *ret_result)
{
    char *text = calloc(1, room);
    FILE *out = fmemopen(text, room, "w");
    struct run_options printing = *options;
    printing.trace = TRACE_PRINT;
    printing.trace_out = out;
    *ret_result = run_well(&printing);
    assert_int_equal(fclose(out), 0);
    assert_true(strlen(text) > 1000 && strlen(text) < room - 1);
    return text;
}

static void printing_changes_nothing(void **state)
{
    (void)state;
    struct run_options options = options_of(&workload_counter, 5);
    struct run_result result = run_well(&options), result_of_first, result_of_second;
    char *first = text_of(&options, MIB, &result_of_first);
    char *second = text_of(&options, MIB, &result_of_second);
    assert_string_equal(first, second);
    assert_true(result.hash == result_of_first.hash && result.hash == result_of_second.hash);
    free(first);
    free(second);
}

static void judges_notice_a_broken_store(void **state)
{
    (void)state;
    for (size_t i = 0; workloads[i]; i++) {
        unsigned noticed = 0;
        if (workloads[i]->counts_requests)
            continue;
        for (uint64_t seed = 1; seed <= SEED_ROUNDS(20); seed++) {
            struct run_options options = options_of(workloads[i], seed);
            options.ignore_conditions = true;
            /* Most operations on an index write names of their own, which nobody can meet at. */
            if (workloads[i] == &workload_index || workloads[i] == &workload_drop)
                options.operations *= 4;
            if (workloads[i] == &workload_drop || workloads[i] == &workload_upgrade)
                options.nodes = 16;
            noticed += !result_of(&options).ok;
        }
        /* Nodes that drop an index rest for most of the time, and seldom meet. A server may be the
         * only one. Sessions that upgrade a bucket rest for seconds between two of them. */
        bool seldom = workloads[i] == &workload_drop || workloads[i] == &workload_serve;
        bool rarely = workloads[i] == &workload_upgrade;
        if (noticed < SEED_ROUNDS(20) / (rarely ? 4 : seldom ? 2 : 1))
            fail_msg("%s: noticed in %u runs", workloads[i]->name, noticed);
    }
}

/* ---- Faults -------------------------------------------------------------------------- */

static void assert_no_faults(const struct run_result *result)
{
    for (size_t k = 0; k < FAULT_COUNT; k++)
        assert_int_equal(result->faults.counts[k], 0);
    assert_int_equal(result->faults.happened, 0);
    assert_int_equal(result->faults.hits, 0);
}

static void runs_without_faults_have_none(void **state)
{
    (void)state;
    for (size_t i = 0; workloads[i]; i++) {
        struct run_options options = options_of(workloads[i], 1);
        if (workloads[i]->counts_requests)
            continue;
        options.calm = true;
        struct run_result result = run_well(&options);
        assert_no_faults(&result);
        options.calm = false;
        options.limits.max = 0;
        result = run_well(&options);
        assert_no_faults(&result);
    }
}

static void every_fault_happens(void **state)
{
    (void)state;
    uint64_t counts[FAULT_COUNT] = { 0 };
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct run_result result = run_of(&workload_counter, seed);
        for (size_t k = 0; k < FAULT_COUNT; k++)
            counts[k] += result.faults.counts[k];
    }
    for (size_t k = 0; k < FAULT_COUNT; k++)
        if (counts[k] == 0)
            fail_msg("there were no %s", fault_count_text((enum fault)k));
}

static void what_is_left_out_does_not_happen(void **state)
{
    (void)state;
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        struct run_options options = options_of(&workload_counter, 100 + i);
        options.limits.without = UINT64_C(1) << i;
        struct run_result result = run_well(&options);
        if (*fault_name((enum fault)i))
            assert_int_equal(result.faults.counts[i], 0);
        assert_true(result.faults.happened > 5);
    }
}

static uint64_t occurrences(const char *text, const char *words)
{
    uint64_t count = 0;
    for (const char *at = text; (at = strstr(at, words)); at += strlen(words))
        count++;
    return count;
}

/* Each of them begins, and ends, as often as it should. */
static void splits_and_bursts_begin_and_end(void **state)
{
    (void)state;
    uint64_t splits = 0, cut = 0, bursts = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct run_options options = options_of(&workload_counter, seed);
        options.limits.without = ~(UINT64_C(1) << CHAOS_SPLIT | UINT64_C(1) << CHAOS_BURST);
        struct run_result result;
        char *text = text_of(&options, MIB, &result);
        splits += result.faults.counts[CHAOS_SPLIT];
        bursts += result.faults.counts[CHAOS_BURST];
        cut += occurrences(text, "is cut off along with others");
        assert_int_equal(occurrences(text, "is cut off along with others"),
                         occurrences(text, "is connected again"));
        assert_int_equal(occurrences(text, "throttles nearly everybody"),
                         occurrences(text, "throttles no more than usual"));
        free(text);
    }
    assert_true(splits > 5 && cut > 2 * splits);
    assert_true(bursts > 5);
}

static void only_the_first_faults_happen(void **state)
{
    (void)state;
    for (uint64_t max = 1; max <= 12; max++) {
        struct run_options options = options_of(&workload_locks, 3);
        options.limits.max = max;
        assert_int_equal(run_well(&options).faults.happened, max);
    }
}

/* What the million seeds are asked for. */
static void seeds_of_locks_are_rough(void **state)
{
    (void)state;
    const struct workload *of_locks[] = { &workload_locks, &workload_ranges, &workload_epochs,
                                          &workload_fenced };
    for (size_t i = 0; i < sizeof of_locks / sizeof of_locks[0]; i++)
        for (uint64_t seed = 1; seed <= SEED_ROUNDS(50); seed++) {
            struct run_result result = run_of(of_locks[i], seed);
            uint64_t of_requests = 0;
            for (unsigned k = 0; k <= NET_LYING_DATE; k++)
                of_requests += result.faults.counts[k];
            assert_true(result.faults.hits >= 10);
            assert_true(result.faults.hits >= of_requests);
            assert_true(result.faults.hits <= result.faults.happened + 5 * NODES_MAX);
        }
}

/* ---- A crash at every call ----------------------------------------------------------- */

static void crash_at_each_call(const struct workload *workload, uint64_t seed)
{
    struct run_options options = options_of(workload, seed);
    options.nodes = 3;
    options.operations = workload == &workload_drop ? 30 : 4; /* many find no index */
    options.crash_at.request = UINT64_MAX;
    uint64_t requests = run_well(&options).requests_in_chaos;
    assert_true(requests > 5);
    for (uint64_t i = 0; i < 2 * requests; i += SANITIZED ? 9 : 1) {
        options.crash_at = (struct crash_at){ .request = 1 + i / 2, .answered = i % 2 == 1 };
        struct run_result result = run_well(&options);
        enum fault fault = i % 2 == 1 ? CHAOS_CRASH_ANSWERED : CHAOS_CRASH_LEFT;
        if (i + 1 == 2 * requests && result.faults.happened == 0)
            break; /* the reply to the last one came when it was calm */
        assert_int_equal(result.faults.counts[fault], 1);
        assert_int_equal(result.faults.happened, 1);
        assert_int_equal(result.faults.hits, 1);
    }
}

static void a_node_may_crash_at_every_call(void **state)
{
    (void)state;
    for (size_t i = 0; workloads[i]; i++)
        if (!workloads[i]->counts_requests)
            crash_at_each_call(workloads[i], 1);
}

/* ---- Shrinking ----------------------------------------------------------------------- */

/* Fails with two nodes or more, seven operations or more, and late applies. */
static bool fails_when_large(void *argument, const struct run_options *options,
                             struct run_result *ret_result)
{
    unsigned *runs = argument;
    ++*runs;
    uint64_t kinds = UINT64_C(1) << NET_LATE_APPLY | UINT64_C(1) << CHAOS_CRASH;
    bool fails = options->nodes >= 2 && options->operations >= 7 && options->limits.max >= 3 &&
                 !(options->limits.without >> NET_LATE_APPLY & 1);
    *ret_result = (struct run_result){ .ok = !fails };
    ret_result->faults.happened = options->limits.max < 40 ? options->limits.max : 40;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        ret_result->faults.counts[i] = (kinds & ~options->limits.without) >> i & 1;
    return fails;
}

static void a_failure_is_made_small(void **state)
{
    (void)state;
    struct run_options options = options_of(&workload_locks, 7);
    struct run_result result;
    unsigned runs = 0;
    assert_true(fails_when_large(&runs, &options, &result));
    struct shrunk shrunk = shrink(&options, &result, fails_when_large, &runs);
    assert_false(shrunk.result.ok);
    assert_int_equal(shrunk.options.nodes, 2);
    assert_int_equal(shrunk.options.operations, 7);
    assert_int_equal(shrunk.options.limits.max, 3);
    assert_true(shrunk.options.limits.without == UINT64_C(1) << CHAOS_CRASH);
    assert_int_equal(shrunk.options.seed, 7);
    assert_int_equal(shrunk.runs, runs - 1);
    assert_true(shrunk.runs <= SHRINK_RUNS_MAX);
}

static bool never_fails(void *argument, const struct run_options *options,
                        struct run_result *ret_result)
{
    (void)options;
    ++*(unsigned *)argument;
    *ret_result = (struct run_result){ .ok = true };
    return false;
}

static void what_cannot_be_smaller_stays(void **state)
{
    (void)state;
    struct run_options options = options_of(&workload_locks, 7);
    options.nodes = NODES_MAX;
    options.operations = OPERATIONS_MAX;
    struct run_result result = { .faults = { .happened = 1000000 } };
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        result.faults.counts[i] = 1;
    unsigned runs = 0;
    struct shrunk shrunk = shrink(&options, &result, never_fails, &runs);
    assert_int_equal(shrunk.options.nodes, NODES_MAX);
    assert_int_equal(shrunk.options.operations, OPERATIONS_MAX);
    assert_true(shrunk.options.limits.max == UINT64_MAX && shrunk.options.limits.without == 0);
    assert_in_range(runs, 100, SHRINK_RUNS_MAX);
}

static bool still_fails(void *argument, const struct run_options *options,
                        struct run_result *ret_result)
{
    (void)argument;
    *ret_result = result_of(options);
    return !ret_result->ok;
}

static void a_broken_store_shows_in_a_small_run(void **state)
{
    (void)state;
    struct run_options options = options_of(&workload_counter, 1);
    options.ignore_conditions = true;
    struct run_result result = result_of(&options);
    struct shrunk shrunk = shrink(&options, &result, still_fails, NULL);
    assert_true(shrunk.options.nodes <= 2 && shrunk.options.operations <= 10);
    struct run_result again = result_of(&shrunk.options);
    assert_string_equal(again.failure, shrunk.result.failure);
    assert_true(again.hash == shrunk.result.hash);
}

/* ---- The command that runs it again -------------------------------------------------- */

/* The words of a replay that follow its name, as a line of a file would have them. */
static struct run_options read_back(const struct run_options *options)
{
    struct replay replay;
    struct arguments arguments;
    char line[REPLAY_MAX + 64];
    options_replay(options, &replay);
    const char *rest = strstr(replay.text, " --seed");
    assert_non_null(rest);
    snprintf(line, sizeof line, "race 99 9 9 %s  # a story", rest);
    assert_true(options_read_line(line, "here", &arguments));
    assert_int_equal(arguments.run.trace, TRACE_PRINT);
    assert_int_equal(arguments.seeds, 1);
    arguments.run.trace = options->trace;
    arguments.run.trace_out = options->trace_out;
    return arguments.run;
}

static void a_replay_is_the_same_run(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(3);
    for (int i = 0; i < 200; i++) {
        struct run_options options = options_of(&workload_counter, prng_next(&prng));
        options.nodes = 1 + (unsigned)prng_below(&prng, 5);
        options.operations = 1 + (unsigned)prng_below(&prng, 20);
        options.calm = prng_below(&prng, 8) == 0;
        options.ignore_conditions = prng_below(&prng, 4) == 0;
        for (unsigned k = 0; k < FAULT_COUNT; k++)
            if (*fault_name((enum fault)k) && prng_below(&prng, 4) == 0)
                options.limits.without |= UINT64_C(1) << k;
        if (prng_below(&prng, 2) == 0)
            options.limits.max = prng_below(&prng, 20);
        if (prng_below(&prng, 4) == 0)
            options.crash_at =
                (struct crash_at){ 1 + prng_below(&prng, 20), prng_below(&prng, 2) == 0 };
        struct run_options back = read_back(&options);
        assert_true(result_of(&back).hash == result_of(&options).hash);
    }
}

static void lines_may_be_empty(void **state)
{
    (void)state;
    struct arguments arguments;
    char lines[][32] = { "", "\n", "  # only a story\n", "locks 12 3 40 --calm # x\n" };
    assert_false(options_read_line(lines[0], "here", &arguments));
    assert_false(options_read_line(lines[1], "here", &arguments));
    assert_false(options_read_line(lines[2], "here", &arguments));
    assert_true(options_read_line(lines[3], "here", &arguments));
    assert_ptr_equal(arguments.run.workload, &workload_locks);
    assert_int_equal(arguments.run.seed, 12);
    assert_int_equal(arguments.run.nodes, 3);
    assert_int_equal(arguments.run.operations, 40);
    assert_true(arguments.run.calm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("one seed is one history, two seeds are two", one_seed_is_one_history),
        IT("the printed story is the same each time", printing_changes_nothing),
        IT("judges notice a store that ignores conditions", judges_notice_a_broken_store),
        IT("a calm run has no faults, and one of which all are left out neither",
           runs_without_faults_have_none),
        IT("every fault of the plans happens", every_fault_happens),
        IT("what is left out does not happen, and the rest does",
           what_is_left_out_does_not_happen),
        IT("partitions of several nodes and bursts of throttling begin, and end",
           splits_and_bursts_begin_and_end),
        IT("only the first faults happen when so many are allowed",
           only_the_first_faults_happen),
        IT("in seeds of locks ten faults or more hit a request in flight",
           seeds_of_locks_are_rough),
        IT("a node may crash at every call, as it leaves or as its reply comes",
           a_node_may_crash_at_every_call),
        IT("a failure is made as small as it goes", a_failure_is_made_small),
        IT("what cannot be made smaller stays, after a bounded number of runs",
           what_cannot_be_smaller_stays),
        IT("a broken store shows in a small run, again and again",
           a_broken_store_shows_in_a_small_run),
        IT("the command of a replay is the same run, whatever its options",
           a_replay_is_the_same_run),
        IT("a line of a file of runs may be empty or all story", lines_may_be_empty),
    };
    int failed = cmocka_run_group_tests_name("sim_run", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
