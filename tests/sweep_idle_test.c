/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_idle_test.c: when the idle sweeper starts a run, and when it stops. */
#include "sweep_kit.h"

static struct hf_error error;

/* Starts it with real tasks, whose time passes as the test says. */
static struct sweeper *start_watched(struct sweep_kit *kit, struct span delay,
                                     const struct sweeper_watch *watch)
{
    struct sweep_settings settings = SWEEP_SETTINGS;
    struct sweeper *sweeper;
    settings.op_delay = delay;
    atomic_store(&kit->threads, true);
    MUST(sweeper_start(kit->one.client, &settings, watch, &sweeper, &error));
    atomic_store(&kit->threads, false);
    return sweeper;
}

static struct sweeper *start(struct sweep_kit *kit, struct span delay)
{
    return start_watched(kit, delay, /* watch */ NULL);
}

/* Lets time pass in steps until it has swept so many entries, or as long as that. */
static struct sweep_report pass_until(struct sweep_kit *kit, struct sweeper *sweeper,
                                      uint64_t runs, struct span most)
{
    struct sweep_report report = { 0 };
    struct mono_time until = mono_add(env_now(&kit->env), most);
    sweeper_report(sweeper, &report);
    while (report.runs < runs && mono_before(env_now(&kit->env), until)) {
        pass(kit, SPAN_MS(100));
        pass_ms(1);
        sweeper_report(sweeper, &report);
    }
    return report;
}

static void it_sweeps_when_nobody_does_anything(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 5, 60000);
    pass(kit, HOURS(2));
    struct sweeper *sweeper = start(kit, SPAN_MS(100));
    pass(kit, SPAN_S(295));
    pass_ms(5);
    client_active(kit->one.client); /* the time of grace begins anew */
    pass(kit, SPAN_S(290));
    struct sweep_report report = pass_until(kit, sweeper, 1, SPAN_S(5));
    assert_int_equal(report.runs, 0);
    report = pass_until(kit, sweeper, 1, SPAN_S(60));
    assert_int_equal(report.runs, 1);
    assert_int_equal(report.leases_cleared, 5);
    assert_true(report.duration.us >= SPAN_MS(400).us); /* four delays */
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
    pass(kit, SPAN_S(290));
    assert_int_equal(pass_until(kit, sweeper, 2, SPAN_S(5)).runs, 1);
    assert_int_equal(pass_until(kit, sweeper, 2, SPAN_S(60)).runs, 2);
    sweeper_stop(sweeper);
}

static bool has_begun(void *argument)
{
    struct sweep_kit *kit = argument;
    return leases(kit, "a0") == 0;
}

static void it_stops_within_one_entry(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 9, 60000);
    pass(kit, HOURS(2));
    struct sweeper *sweeper = start(kit, SPAN_S(1));
    pass_ms(5);
    pass(kit, SPAN_S(301));
    ASSERT(comes_true(has_begun, kit, 2000));
    client_active(kit->one.client); /* between two entries */
    struct sweep_report report = pass_until(kit, sweeper, 1, SPAN_S(5));
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.stop, HF_SWEEP_STOP_ACTIVITY);
    assert_int_equal(report.stopped_by_activity, 1);
    sweeper_stop(sweeper);
}

/* One hour by default: 12 graces of 5 minutes. */
static void it_is_not_put_off_for_ever(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 5, 60000);
    pass(kit, HOURS(2));
    struct sweeper *sweeper = start(kit, SPAN_MS(100));
    struct sweep_report report = { 0 };
    for (int minutes = 0; minutes < 59; minutes++) {
        client_active(kit->one.client);
        pass(kit, SPAN_S(60));
        pass_ms(2);
    }
    sweeper_report(sweeper, &report);
    assert_int_equal(report.runs, 0);
    struct mono_time until = mono_add(env_now(&kit->env), SPAN_S(120));
    while (report.runs < 1 && mono_before(env_now(&kit->env), until)) {
        client_active(kit->one.client); /* as it sweeps, too */
        pass(kit, SPAN_MS(100));
        pass_ms(1);
        sweeper_report(sweeper, &report);
    }
    assert_int_equal(report.runs, 1);
    assert_int_equal(report.leases_cleared, 5);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
    sweeper_stop(sweeper);
}

/* What the sweeper does after each run, such as a scrub. */
struct chore {
    atomic_uint begun;
    atomic_bool may_end;
};

static void do_chore(void *argument, const struct sweep_report *run)
{
    struct chore *chore = argument;
    (void)run;
    atomic_fetch_add(&chore->begun, 1);
    while (!atomic_load(&chore->may_end))
        pass_ms(1);
}

static bool is_at_chore(void *argument)
{
    struct chore *chore = argument;
    return atomic_load(&chore->begun) == 1;
}

static void its_grace_begins_after_what_follows_a_run(void **state)
{
    struct sweep_kit *kit = *state;
    struct chore chore = { 0 };
    const struct sweeper_watch watch = { .ran = do_chore, .argument = &chore };
    struct sweeper *sweeper = start_watched(kit, SPAN_MS(100), &watch);
    pass_ms(5);
    pass(kit, SPAN_S(301));
    ASSERT(comes_true(is_at_chore, &chore, 2000));
    pass(kit, HOURS(2));
    atomic_store(&chore.may_end, true);
    pass_ms(5);
    assert_int_equal(pass_until(kit, sweeper, 2, SPAN_S(290)).runs, 1);
    assert_int_equal(pass_until(kit, sweeper, 2, SPAN_S(60)).runs, 2);
    sweeper_stop(sweeper);
}

static void it_is_stopped_at_any_time(void **state)
{
    struct sweep_kit *kit = *state;
    sweeper_stop(NULL);
    sweeper_stop(start(kit, SPAN_S(1))); /* while it waits for its time */
    leave_locks(kit, "a", 9, 60000);
    pass(kit, HOURS(2));
    struct sweeper *sweeper = start(kit, SPAN_S(1));
    pass_ms(5);
    pass(kit, SPAN_S(301));
    ASSERT(comes_true(has_begun, kit, 2000));
    sweeper_stop(sweeper); /* while it waits for the next entry */
    assert_int_equal(leases(kit, "a8"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SWEEP("the idle sweeper begins when nobody did anything for the time of grace",
              it_sweeps_when_nobody_does_anything),
        SWEEP("the idle sweeper stops within one entry of an operation",
              it_stops_within_one_entry),
        SWEEP("the idle sweeper is put off for 12 times its grace at most",
              it_is_not_put_off_for_ever),
        SWEEP("the grace begins anew after what the idle sweeper does after a run",
              its_grace_begins_after_what_follows_a_run),
        SWEEP("the idle sweeper is stopped at any time", it_is_stopped_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
