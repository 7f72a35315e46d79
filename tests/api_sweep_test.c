/* SPDX-License-Identifier: Apache-2.0 */
/* api_sweep_test.c KIND: the promises of holdfast/sweep.h, tested through the public headers
 * only. KIND is mem or sqlite. What a run clears, and by which proof, is in sweep_test. */
#include "api_client_kit.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A lock that was used leaves a table, and a namespace. */
static void use_a_lock(struct place *place, struct hf_client *client, const char *name)
{
    struct hf_lock *lock;
    OK(hf_lock_new(client, name, NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    OK(hf_lock_release(lock, &place->error));
    hf_lock_free(lock);
}

static void every_stop_has_a_word_and_a_sentence(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HF_SWEEP_STOP_COUNT; i++) {
        assert_true(strlen(hf_sweep_stop_name((enum hf_sweep_stop)i)) > 3);
        assert_non_null(strchr(hf_sweep_stop_text((enum hf_sweep_stop)i), ' '));
    }
    assert_string_equal(hf_sweep_stop_name(HF_SWEEP_STOP_OPS), "max_ops");
    assert_string_equal(hf_sweep_stop_name(HF_SWEEP_STOP_COUNT), "unknown");
    assert_string_equal(hf_sweep_stop_text(HF_SWEEP_STOP_COUNT), "unknown");
}

static void a_run_of_an_empty_store_is_done(void **state)
{
    struct place *place = *state;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    report.failed = 77;
    OK(hf_sweep(place->client, NULL, &report, &place->error));
    assert_int_equal(report.runs, 1);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
    assert_int_equal(report.namespaces, 1);
    assert_true(report.duration_ms >= 0);
    OK(hf_sweep(place->client, NULL, NULL, NULL));
}

static void a_full_run_looks_at_everything(void **state)
{
    struct place *place = *state;
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    use_a_lock(place, place->client, "one");
    use_a_lock(place, place->client, "two");
    OK(hf_sweep(place->client, &options, &report, &place->error));
    assert_int_equal(report.ops, 0);
    options.full = true;
    OK(hf_sweep(place->client, &options, &report, &place->error));
    assert_true(report.ops >= 2);
}

static void a_run_stops_at_its_cap_and_the_next_goes_on(void **state)
{
    struct place *place = *state;
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    use_a_lock(place, place->client, "one");
    use_a_lock(place, place->client, "two");
    options.full = true;
    options.ops_max = 1;
    OK(hf_sweep(place->client, &options, &report, &place->error));
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.stop, HF_SWEEP_STOP_OPS);
    OK(hf_sweep(place->client, &options, &report, &place->error));
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
}

static void the_store_remembers_runs_but_no_dry_ones(void **state)
{
    struct place *place = *state;
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    struct hf_sweep_due due = HF_SWEEP_DUE;
    struct hf_sweep_report last = HF_SWEEP_REPORT, total = HF_SWEEP_REPORT;
    options.dry_run = true;
    OK(hf_sweep(place->client, &options, NULL, &place->error));
    OK(hf_sweep_status(place->client, false, &due, &last, &total, &place->error));
    assert_int_equal(total.runs, 0);
    assert_true(due.last_ms == 0);
    options.dry_run = false;
    OK(hf_sweep(place->client, &options, NULL, &place->error));
    OK(hf_sweep(place->client, &options, NULL, &place->error));
    OK(hf_sweep_status(place->client, false, &due, &last, &total, &place->error));
    assert_int_equal(last.runs, 1);
    assert_int_equal(total.runs, 2);
    assert_true(due.last_ms > INT64_C(1600000000000));
    OK(hf_sweep_status(place->client, true, &due, NULL, NULL, &place->error));
    options.all_namespaces = true;
    OK(hf_sweep(place->client, &options, NULL, &place->error));
    OK(hf_sweep_status(place->client, true, &due, &last, &total, &place->error));
    assert_int_equal(total.runs, 3);
    OK(hf_sweep_status(place->client, false, &due, &last, &total, &place->error));
    assert_int_equal(total.runs, 2);
}

static bool cancel(void *argument, const struct hf_sweep_report *so_far)
{
    (void)so_far;
    return --*(int *)argument > 0;
}

static void progress_cancels_a_run(void **state)
{
    struct place *place = *state;
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    int calls = 1;
    use_a_lock(place, place->client, "one");
    options.full = true;
    options.progress = cancel;
    options.argument = &calls;
    IS(HF_CANCELLED, hf_sweep(place->client, &options, &report, &place->error));
    assert_int_equal(report.stop, HF_SWEEP_STOP_CANCELLED);
    assert_int_equal(calls, 0);
    IS(HF_CANCELLED, hf_sweep(place->client, &options, NULL, NULL));
}

struct nested {
    struct hf_client *client;
    struct hf_sweep_report report;
    unsigned calls;
};

static bool sweep_within(void *argument, const struct hf_sweep_report *so_far)
{
    struct nested *nested = argument;
    struct hf_error error;
    (void)so_far;
    nested->calls++;
    assert_status(HF_OK, hf_sweep(nested->client, NULL, &nested->report, &error), &error);
    return true;
}

static void a_run_that_another_stands_in_the_way_of_does_nothing(void **state)
{
    struct place *place = *state;
    struct nested nested = { .client = place->client, .report = HF_SWEEP_REPORT };
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    use_a_lock(place, place->client, "one");
    options.full = true;
    options.progress = sweep_within;
    options.argument = &nested;
    OK(hf_sweep(place->client, &options, &report, &place->error));
    assert_true(nested.calls > 0);
    assert_int_equal(nested.report.stop, HF_SWEEP_STOP_BUSY);
    assert_int_equal(nested.report.runs, 0);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
}

static void options_out_of_range_are_invalid_and_nothing_is_done(void **state)
{
    struct place *place = *state;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    struct hf_sweeper *sweeper;
    for (int i = 0; i < 6; i++) {
        struct hf_sweep_options options = HF_SWEEP_OPTIONS;
        struct hf_sweeper_options idle = HF_SWEEPER_OPTIONS;
        options.op_delay_ms = idle.op_delay_ms = i == 0 ? -1 : i == 1 ? INT64_MAX : 0;
        options.ops_max = idle.ops_max = i == 2 ? 0 : i == 3 ? UINT64_MAX : 1;
        options.runtime_max_ms = idle.runtime_max_ms = i == 4 ? 0 : i == 5 ? INT64_MAX : 1;
        IS(HF_INVALID, hf_sweep(place->client, &options, &report, &place->error));
        assert_int_equal(report.runs, 0);
        IS(HF_INVALID, hf_sweeper_start(place->client, &idle, &sweeper, &place->error));
        assert_null(sweeper);
    }
    struct hf_sweeper_options idle = HF_SWEEPER_OPTIONS;
    idle.idle_grace_ms = 9;
    IS(HF_INVALID, hf_sweeper_start(place->client, &idle, &sweeper, &place->error));
    idle.struct_size = 0;
    IS(HF_INVALID, hf_sweeper_start(place->client, &idle, &sweeper, &place->error));
    report.struct_size = 0;
    IS(HF_INVALID, hf_sweep(place->client, NULL, &report, &place->error));
}

/* ---- In the background --------------------------------------------------------------- */

static void note_run(void *argument, const struct hf_sweep_report *run)
{
    assert_int_equal(run->runs, 1);
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void a_sweeper_runs_when_nobody_is_at_work(void **state)
{
    struct place *place = *state;
    struct hf_sweeper_options options = HF_SWEEPER_OPTIONS;
    struct hf_sweep_due due = HF_SWEEP_DUE;
    struct hf_sweep_report report = HF_SWEEP_REPORT, total = HF_SWEEP_REPORT;
    struct hf_sweeper *sweeper;
    atomic_int runs = 0;
    options.idle_grace_ms = 20;
    options.remember = true;
    options.ran = note_run;
    options.argument = &runs;
    OK(hf_sweeper_start(place->client, &options, &sweeper, &place->error));
    while (atomic_load(&runs) < 2)
        sched_yield();
    OK(hf_sweeper_report(sweeper, &report, &place->error));
    assert_true(report.runs >= 2);
    hf_sweeper_stop(sweeper);
    OK(hf_sweep_status(place->client, false, &due, NULL, &total, &place->error));
    assert_true(total.runs >= 2);
}

static void a_sweeper_waits_for_its_grace_and_stops_at_once(void **state)
{
    struct place *place = *state;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    struct hf_sweep_due due = HF_SWEEP_DUE;
    struct hf_sweeper *sweeper;
    OK(hf_sweeper_start(place->client, NULL, &sweeper, &place->error));
    OK(hf_sweeper_report(sweeper, &report, &place->error));
    assert_int_equal(report.runs, 0);
    hf_sweeper_stop(sweeper);
    OK(hf_sweep_status(place->client, false, &due, NULL, &report, &place->error));
    assert_int_equal(report.runs, 0);
}

static void a_sweeper_outlives_its_client(void **state)
{
    struct place *place = *state;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    struct hf_sweeper *sweeper;
    OK(hf_sweeper_start(place->client, NULL, &sweeper, &place->error));
    hf_client_close(place->client);
    place->client = NULL;
    OK(hf_sweeper_report(sweeper, &report, &place->error));
    hf_sweeper_stop(sweeper);
}

/* ---- What there is to do ------------------------------------------------------------- */

#define NAMES_TEXT_MAX 200
static bool note_name(void *argument, const char *ns)
{
    char *text = argument;
    snprintf(text + strlen(text), NAMES_TEXT_MAX - strlen(text), "%s", ns);
    return strcmp(ns, "default") != 0;
}

static void namespaces_are_told_in_order_until_it_is_enough(void **state)
{
    struct place *place = *state;
    char text[NAMES_TEXT_MAX] = "";
    OK(hf_sweep_namespaces(place->client, false, note_name, text, &place->error));
    assert_string_equal(text, "default");
    if (!place_is_shared(place))
        return;
    static const char *const names[] = { "alpha", "zeta" };
    for (int i = 0; i < 2; i++) {
        struct hf_client_options options = HF_CLIENT_OPTIONS;
        struct hf_client *client;
        options.ns = names[i];
        OK(hf_client_open(place->url, &options, &client, &place->error));
        use_a_lock(place, client, "one");
        hf_client_close(client);
    }
    text[0] = '\0';
    OK(hf_sweep_namespaces(place->client, true, note_name, text, &place->error));
    assert_string_equal(text, "alphadefault");
}

static void a_local_store_tells_of_others(void **state)
{
    struct place *place = *state;
    if (place_is_shared(place))
        assert_true(hf_sweep_sees_others(place->client));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stop_has_a_word_and_a_sentence),
        cmocka_unit_test(a_run_of_an_empty_store_is_done),
        cmocka_unit_test(a_full_run_looks_at_everything),
        cmocka_unit_test(a_run_stops_at_its_cap_and_the_next_goes_on),
        cmocka_unit_test(the_store_remembers_runs_but_no_dry_ones),
        cmocka_unit_test(progress_cancels_a_run),
        cmocka_unit_test(a_run_that_another_stands_in_the_way_of_does_nothing),
        cmocka_unit_test(options_out_of_range_are_invalid_and_nothing_is_done),
        cmocka_unit_test(a_sweeper_runs_when_nobody_is_at_work),
        cmocka_unit_test(a_sweeper_waits_for_its_grace_and_stops_at_once),
        cmocka_unit_test(a_sweeper_outlives_its_client),
        cmocka_unit_test(namespaces_are_told_in_order_until_it_is_enough),
        cmocka_unit_test(a_local_store_tells_of_others),
    };
    return place_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
