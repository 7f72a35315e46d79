/* sim_run_test.c: runs of whole workloads: one seed is one history, and judges notice. */
#include "base/limits.h"
#include "sim/run.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static struct run_result run_of(const struct workload *workload, uint64_t seed)
{
    struct run_options options = RUN_OPTIONS;
    struct run_result result;
    options.workload = workload;
    options.seed = seed;
    run_seed(&options, &result);
    if (!result.ok)
        fail_msg("seed %d of %s: %s", (int)seed, workload->name, result.failure);
    return result;
}

static void one_seed_is_one_history(void **state)
{
    (void)state;
    for (size_t i = 0; workloads[i]; i++) {
        struct run_result last = { 0 };
        for (uint64_t seed = 1; seed <= 20; seed++) {
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
static char *text_of_run(const struct workload *workload, uint64_t seed, size_t room)
{
    char *text = calloc(1, room);
    FILE *out = fmemopen(text, room, "w");
    struct run_options options = RUN_OPTIONS;
    struct run_result result;
    options.workload = workload;
    options.seed = seed;
    options.trace = TRACE_PRINT;
    options.trace_out = out;
    run_seed(&options, &result);
    assert_int_equal(fclose(out), 0);
    assert_true(strlen(text) > 1000 && strlen(text) < room - 1);
    return text;
}

static void printing_changes_nothing(void **state)
{
    (void)state;
    char *first = text_of_run(&workload_counter, 5, MIB);
    char *second = text_of_run(&workload_counter, 5, MIB);
    assert_string_equal(first, second);
    free(first);
    free(second);
}

static void judges_notice_a_broken_store(void **state)
{
    (void)state;
    for (size_t i = 0; workloads[i]; i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct run_options options = RUN_OPTIONS;
            struct run_result result;
            options.workload = workloads[i];
            options.seed = seed;
            options.ignore_conditions = true;
            run_seed(&options, &result);
            assert_false(result.ok);
        }
}

static void runs_without_faults_have_none(void **state)
{
    (void)state;
    for (size_t i = 0; workloads[i]; i++) {
        struct run_options options = RUN_OPTIONS;
        struct run_result result;
        options.workload = workloads[i];
        options.calm = true;
        run_seed(&options, &result);
        assert_true(result.ok);
        for (size_t k = 0; k < NET_FAULT_COUNT; k++)
            assert_int_equal(result.net_faults[k], 0);
        for (size_t k = 0; k < CHAOS_FAULT_COUNT; k++)
            assert_int_equal(result.chaos_faults[k], 0);
    }
}

static void every_fault_happens(void **state)
{
    (void)state;
    uint64_t net_faults[NET_FAULT_COUNT] = { 0 }, chaos_faults[CHAOS_FAULT_COUNT] = { 0 };
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct run_result result = run_of(&workload_counter, seed);
        for (size_t k = 0; k < NET_FAULT_COUNT; k++)
            net_faults[k] += result.net_faults[k];
        for (size_t k = 0; k < CHAOS_FAULT_COUNT; k++)
            chaos_faults[k] += result.chaos_faults[k];
    }
    for (size_t k = 0; k < NET_FAULT_COUNT; k++)
        assert_true(net_faults[k] > 0);
    for (size_t k = 0; k < CHAOS_FAULT_COUNT; k++)
        assert_true(chaos_faults[k] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("one seed is one history, two seeds are two", one_seed_is_one_history),
        IT("the printed story is the same each time", printing_changes_nothing),
        IT("judges notice a store that ignores conditions", judges_notice_a_broken_store),
        IT("a calm run has no faults", runs_without_faults_have_none),
        IT("every fault of the plans happens", every_fault_happens),
    };
    int failed = cmocka_run_group_tests_name("sim_run", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
