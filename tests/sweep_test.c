/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_test.c: a run of the sweeper: how it handles the expiry index, its cost, and when it
 * stops. Transactions, unused tables and the rest are in sweep_rest_test.c, the record of runs
 * in sweep_memory_test.c, and the start of idle runs in sweep_idle_test.c. */
#include "lock/expiry.h"
#include "sweep_kit.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

/* ---- The index ----------------------------------------------------------------------- */

static void what_expired_is_cleared(void **state)
{
    struct sweep_kit *kit = *state;
    leave_lock(&kit->two, "lock", 60000);
    enter(kit, "lock");
    leave_key(&kit->two, "key", 60000, "text");
    enter(kit, "key");
    pass(kit, HOURS(2));
    struct sweep_report report = run(kit);
    assert_int_equal(report.runs, 1);
    assert_int_equal(report.ops, 2);
    assert_int_equal(report.leases_cleared, 2);
    assert_int_equal(report.entries_deleted, 1); /* of the key, whose state stays */
    assert_int_equal(report.entries_moved, 1);   /* of the lock, whose table may go D later */
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
    assert_int_equal(leases(kit, "lock"), 0);
    assert_int_equal(leases(kit, "key"), 0);
    reads(&kit->two, "key", "text");
    assert_int_equal(kit->one.client->shared.cleared[SWEEP_MANUAL], 2);
    assert_int_equal(kit->one.client->shared.cleared[SWEEP_IDLE], 0);
    assert_int_equal(run(kit).ops, 0);
}

/* It has no keeper: who acquired it is gone. */
static void a_long_lease_that_was_left_is_found(void **state)
{
    struct sweep_kit *kit = *state;
    leave_lock(&kit->two, "long", 50 * 60000);
    leave_lock(&kit->two, "brief", 60000);
    assert_int_equal(objects(kit, ENTRIES), 1);
    pass(kit, HOURS(3));
    assert_int_equal(run(kit).leases_cleared, 1);
    assert_int_equal(leases(kit, "long"), 0);
    assert_int_equal(leases(kit, "brief"), 1); /* until somebody touches it, or a full run */
}

static void what_an_idle_sweep_clears_is_counted_as_such(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    options.mode = SWEEP_IDLE;
    leave_locks(kit, "a", 3, 60000);
    pass(kit, HOURS(2));
    assert_int_equal(run_with(kit, &options).leases_cleared, 3);
    assert_int_equal(kit->one.client->shared.cleared[SWEEP_IDLE], 3);
    assert_int_equal(kit->one.client->shared.cleared[SWEEP_MANUAL], 0);
    assert_int_equal(kit->one.client->shared.cleared[SWEEP_TRANSPARENT], 0);
}

/* Holds a lock from a minute before the hour on, for an hour, with an entry of the hour before; now
 * it is a minute past. */
static void leave_live_lock(struct sweep_kit *kit)
{
    pass(kit, SPAN_S(3600 - 1000 - 60));
    way_shut(&kit->two.way, ENTRIES, REFUSE(HF_UNAVAILABLE)); /* none of the hour of its end */
    leave_lock(&kit->two, "live", 3600000);
    way_open(&kit->two.way);
    enter(kit, "live");
    pass(kit, SPAN_S(120));
}

/* The keys of the two hours in question. */
static bool is_entered(struct sweep_kit *kit, int hours)
{
    char key[KEY_BYTES_MAX + 1], text[HOUR_TEXT_SIZE + 1];
    hour_text((struct hour){ KIT_BEGIN_S / 3600 + hours }, text);
    snprintf(key, sizeof key, ENTRIES "%s/meta/live.json", text);
    char *entry = world_text(&kit->world, key);
    free(entry);
    return entry != NULL;
}

static void what_is_live_is_moved(void **state)
{
    struct sweep_kit *kit = *state;
    leave_live_lock(kit);
    struct sweep_report report = run(kit);
    assert_int_equal(report.leases_cleared, 0);
    assert_int_equal(report.entries_moved, 1);
    assert_int_equal(report.entries_deleted, 0);
    assert_int_equal(leases(kit, "live"), 1);
    assert_true(is_entered(kit, 1));
    assert_false(is_entered(kit, 0));
    pass(kit, HOURS(1));
    assert_int_equal(run(kit).leases_cleared, 1);
    assert_int_equal(leases(kit, "live"), 0);
}

/* The new entry is there before the old one goes; and if it cannot be, that stays. */
static void an_entry_moves_before_it_goes(void **state)
{
    struct sweep_kit *kit = *state;
    char text[HOUR_TEXT_SIZE + 1], old[64], new[64];
    leave_live_lock(kit);
    snprintf(old, sizeof old, ENTRIES "%s/meta",
             hour_text((struct hour){ KIT_BEGIN_S / 3600 }, text));
    snprintf(new, sizeof new, ENTRIES "%s/meta",
             hour_text((struct hour){ KIT_BEGIN_S / 3600 + 1 }, text));
    way_shut(&kit->one.way, new, REFUSE(HF_UNAVAILABLE));
    assert_int_equal(run(kit).failed, 1);
    assert_true(is_entered(kit, 0));
    assert_false(is_entered(kit, 1));
    way_shut(&kit->one.way, old, REFUSE(HF_UNAVAILABLE));
    struct sweep_report report = run(kit);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.entries_moved, 0);
    assert_true(is_entered(kit, 0));
    assert_true(is_entered(kit, 1));
    way_open(&kit->one.way);
    assert_int_equal(run(kit).entries_moved, 1);
    assert_false(is_entered(kit, 0));
    assert_true(is_entered(kit, 1));
    assert_int_equal(leases(kit, "live"), 1);
}

/* An entry that was written anew since it was listed is another. */
static void rewrite(void *argument, const struct sweep_report *report)
{
    struct sweep_kit *kit = argument;
    char text[HOUR_TEXT_SIZE + 1], key[KEY_BYTES_MAX + 1];
    (void)report;
    hour_text((struct hour){ KIT_BEGIN_S / 3600 }, text);
    snprintf(key, sizeof key, ENTRIES "%s/meta/key.json", text);
    world_write(&kit->world, key, VIEW("{ \"write\": \"later\" }"));
}

static void an_entry_that_was_written_anew_stays(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    options.progress = rewrite;
    options.argument = kit;
    leave_key(&kit->two, "key", 60000, "text");
    enter(kit, "key");
    pass(kit, HOURS(2));
    struct sweep_report report = run_with(kit, &options);
    assert_int_equal(report.leases_cleared, 1);
    assert_int_equal(report.entries_deleted, 0);
    assert_int_equal(objects(kit, ENTRIES), 1);
    assert_int_equal(run(kit).entries_deleted, 1);
}

static void entries_without_a_table_go(void **state)
{
    struct sweep_kit *kit = *state;
    enter(kit, "never");
    pass(kit, HOURS(2));
    struct sweep_report report = run(kit);
    assert_int_equal(report.entries_deleted, 1);
    assert_int_equal(objects(kit, ENTRIES), 0);
    assert_int_equal(objects(kit, "default/meta/"), 0); /* nor is one born */
}

static void hours_that_are_not_over_are_left_alone(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 3, 1000);
    pass(kit, SPAN_S(2400)); /* over for long, but so is not the hour */
    uint64_t before = fingerprint(kit);
    assert_int_equal(run(kit).ops, 0);
    assert_true(fingerprint(kit) == before);
    pass(kit, SPAN_S(600));
    assert_int_equal(run(kit).leases_cleared, 3);
}

/* A waiter that missed its turn is dropped; while somebody is in line the table is looked at again
 * the next hour. */
static void where_somebody_waits_is_looked_at_again(void **state)
{
    struct sweep_kit *kit = *state;
    leave_lock(&kit->two, "line", 60000);
    enter(kit, "line");
    struct hf_lock *waiter = lock_of(&kit->two, "line", 60000);
    IS(HF_HELD, hf_lock_begin(waiter, NULL));
    pass(kit, HOURS(2));
    struct sweep_report report = run(kit);
    assert_int_equal(report.leases_cleared, 1);
    assert_int_equal(report.entries_moved, 1);
    IS(HF_OK, hf_lock_poll(waiter, &error)); /* it is its turn */
    IS(HF_OK, hf_lock_release(waiter, &error));
    hf_lock_free(waiter);
    pass(kit, HOURS(1));
    assert_int_equal(run(kit).ops, 1);
}

/* What would only be moved because somebody else could purge it is simply deleted. */
static void without_conditions_entries_just_go(void **state)
{
    struct sweep_kit *kit = *state;
    kit->one.way.base.traits.delete_conditional = false;
    leave_locks(kit, "a", 2, 60000);
    pass(kit, HOURS(2));
    struct sweep_report report = run(kit);
    assert_int_equal(report.leases_cleared, 2);
    assert_int_equal(report.entries_deleted, 2);
    assert_int_equal(report.entries_moved, 0);
    assert_int_equal(objects(kit, ENTRIES), 0);
}

/* Just before the first delete somebody is granted the lock, and entered in the same hour: by one
 * whose calendar is behind. */
static void grant(void *argument)
{
    leave_lock(argument, "a0", 3600000);
}

static void a_lease_granted_meanwhile_is_entered_again(void **state)
{
    struct sweep_kit *kit = *state;
    kit->one.way.base.traits.delete_conditional = false;
    leave_locks(kit, "a", 1, 60000);
    pass(kit, HOURS(2));
    script_rule(&kit->one.way, .name = "grant", .on = ON_DELETE, .times = 1, .before = grant,
                .argument = &kit->two);
    run(kit);
    assert_int_equal(script_met(&kit->one.way, "grant"), 1);
    assert_int_equal(leases(kit, "a0"), 1);
    assert_int_equal(objects(kit, ENTRIES), 1);
    pass(kit, HOURS(2));
    assert_int_equal(run(kit).leases_cleared, 1);
}

/* ---- What it costs ------------------------------------------------------------------- */

static unsigned cost_among(struct sweep_kit *kit, const char *name, size_t expired)
{
    leave_locks(kit, name, expired, 60000);
    pass(kit, HOURS(1));
    requests(kit);
    struct sweep_report report = run(kit);
    assert_int_equal(report.leases_cleared, expired);
    return requests(kit);
}

static void the_cost_is_that_of_what_expired(void **state)
{
    struct sweep_kit *kit = *state;
    run(kit);
    unsigned of_nothing = requests(kit);
    unsigned among_none = cost_among(kit, "a", 100);
    for (size_t i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "live%zu", i);
        leave_lock(&kit->two, name, 3600000);
    }
    unsigned among_many = cost_among(kit, "b", 100);
    assert_true(of_nothing <= 5);
    assert_true(among_many <= 5 * 100 + 10);
    assert_int_equal(among_many, among_none);
}

/* ---- Caps ---------------------------------------------------------------------------- */

static void as_many_entries_as_allowed(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    options.settings.ops_max = 4;
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    const unsigned expected[] = { 4, 4, 2 };
    for (size_t i = 0; i < 3; i++) {
        struct sweep_report report = run_with(kit, &options);
        assert_int_equal(report.ops, expected[i]);
        assert_int_equal(report.leases_cleared, expected[i]); /* none of them twice */
        assert_int_equal(report.stop, i < 2 ? HF_SWEEP_STOP_OPS : HF_SWEEP_STOP_DONE);
        kit->cursor.turn = 0; /* the parts take turns; these are all of one */
    }
    leave_locks(kit, "b", 4, 60000);
    pass(kit, HOURS(1));
    struct sweep_report report = run_with(kit, &options);
    assert_int_equal(report.ops, 4);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE); /* there were no more */
}

/* What can never be dealt with does not keep the rest waiting. */
static void the_cursor_is_behind_what_failed(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    options.settings.ops_max = 3;
    for (int i = 0; i < 3; i++) {
        char key[64];
        snprintf(key, sizeof key, ENTRIES "2026010811/%d", i);
        world_write(&kit->world, key, VIEW("?"));
    }
    leave_locks(kit, "a", 6, 60000);
    pass(kit, HOURS(2));
    const unsigned cleared[] = { 0, 3, 3 };
    for (size_t i = 0; i < 3; i++) {
        struct sweep_report report = run_with(kit, &options);
        assert_int_equal(report.leases_cleared, cleared[i]);
        assert_int_equal(report.failed, 3 - cleared[i]);
        kit->cursor.turn = 0;
    }
    assert_int_equal(run(kit).failed, 3); /* and then begins anew */
}

static void delays_are_within_the_time(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    options.settings.op_delay = SPAN_MS(300);
    options.settings.runtime_max = SPAN_MS(1000);
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    struct sweep_report report = run_with(kit, &options);
    assert_int_equal(report.ops, 4); /* at 0, 300, 600 and 900 ms */
    assert_int_equal(report.stop, HF_SWEEP_STOP_TIME);
    assert_int_equal(report.duration.us, SPAN_MS(1000).us);
}

static void slow_requests_are_within_the_time(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    size_t cleared = 0;
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    way_shut(&kit->one.way, "", SLOW); /* 250 ms each */
    for (int64_t ms = 3000; cleared < 10; ms += 137) {
        options.settings.runtime_max = SPAN_MS(ms);
        struct sweep_report report = run_with(kit, &options);
        cleared += report.leases_cleared;
        assert_true(report.duration.us <= SPAN_MS(ms).us);
        assert_true(report.ops > 0);
        assert_int_equal(report.failed, 0);
        kit->cursor.turn = 0;
    }
    assert_int_equal(cleared, 10);
}

/* A store that does not answer keeps it no longer than its time, and what a document is given. */
static void what_hangs_is_within_the_time(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    struct sweep_report report;
    const char *const parts[] = { "", "default/meta/", "lease-index" };
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    options.settings.runtime_max = SPAN_S(4);
    for (size_t i = 0; i < 3; i++) {
        way_shut(&kit->one.way, parts[i], HANG);
        IS(HF_OK, sweep_run(kit->one.client, &options, &kit->cursor, &report, &error));
        assert_int_equal(report.stop, HF_SWEEP_STOP_TIME);
        assert_int_equal(report.leases_cleared, 0);
        assert_true(report.duration.us <= SPAN_MS(4500).us);
    }
    options.settings.runtime_max = SPAN_S(15); /* longer than a request is waited for */
    way_shut(&kit->one.way, "", HANG);
    IS(HF_UNAVAILABLE, sweep_run(kit->one.client, &options, &kit->cursor, &report, &error));
    assert_int_equal(report.stop, HF_SWEEP_STOP_FAILED);
    way_open(&kit->one.way);
    kit->cursor = (struct sweep_cursor){ 0 };
    assert_int_equal(run(kit).ops, 10);
}

static void settings_out_of_range_are_refused(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    struct sweep_report report;
    struct sweep_settings wrong[6];
    for (size_t i = 0; i < 6; i++)
        wrong[i] = SWEEP_SETTINGS;
    IS(HF_OK, sweep_settings_check(&wrong[0], &error));
    wrong[0].idle_grace = SPAN_MS(9);
    wrong[1].idle_grace = SPAN_S(8 * 86400);
    wrong[2].op_delay = SPAN_S(61);
    wrong[3].ops_max = 0;
    wrong[4].runtime_max = SPAN_US(999);
    wrong[5].op_delay = SPAN_US(-1);
    for (size_t i = 0; i < 6; i++) {
        options.settings = wrong[i];
        IS(HF_INVALID, sweep_run(kit->one.client, &options, &kit->cursor, &report, &error));
        assert_true(strlen(error.why) > 0);
        assert_int_equal(report.runs, 0);
        struct sweeper *sweeper;
        IS(HF_INVALID,
           sweeper_start(kit->one.client, &wrong[i], /* watch */ NULL, &sweeper, &error));
    }
}

/* ---- Giving way ---------------------------------------------------------------------- */

/* What happens at one entry of a run, from 1; or at one question whether it goes on. */
struct moment {
    struct sweep_kit *kit;
    uint64_t at, asked;
    enum hf_sweep_stop other;
};

static void use_at(void *argument, const struct sweep_report *report)
{
    struct moment *moment = argument;
    if (report->ops == moment->at)
        IS(HF_NOT_FOUND, hf_key_get(moment->kit->one.client, "mine", 1, &(void *){ NULL },
                                    &(size_t){ 0 }, NULL, &error));
}

static void an_operation_stops_an_idle_sweep(void **state)
{
    struct sweep_kit *kit = *state;
    struct moment moment = { .kit = kit, .at = 3 };
    struct sweep_options options = by_hand();
    options.mode = SWEEP_IDLE;
    options.progress = use_at;
    options.argument = &moment;
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    struct sweep_report report = run_with(kit, &options);
    assert_int_equal(report.ops, 3); /* the one that was under way, and no other */
    assert_int_equal(report.leases_cleared, 3);
    assert_int_equal(report.stop, HF_SWEEP_STOP_ACTIVITY);
    assert_int_equal(report.stopped_by_activity, 1);
    options.mode = SWEEP_MANUAL; /* which gives way to nobody */
    kit->cursor.turn = 0;
    report = run_with(kit, &options);
    assert_int_equal(report.ops, 7);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
    assert_int_equal(report.stopped_by_activity, 0);
}

/* Where no store tells of others, what it works on does: the first entry, which somebody writes
 * anew. */
static void a_conflict_stops_an_idle_sweep(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    options.mode = SWEEP_IDLE;
    options.progress = rewrite;
    options.argument = kit;
    leave_key(&kit->two, "key", 60000, "text");
    enter(kit, "key");
    leave_locks(kit, "z", 4, 60000);
    pass(kit, HOURS(2));
    struct sweep_report report = run_with(kit, &options);
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.stop, HF_SWEEP_STOP_CONFLICT);
    assert_int_equal(report.stopped_by_activity, 1);
    assert_int_equal(objects(kit, ENTRIES), 5);
}

static bool act_when_asked(void *argument)
{
    struct moment *moment = argument;
    if (++moment->asked == moment->at)
        client_active(moment->kit->one.client);
    return true;
}

static void an_operation_ends_a_delay(void **state)
{
    struct sweep_kit *kit = *state;
    struct moment moment = { .kit = kit, .at = 20 };
    struct sweep_options options = by_hand();
    options.mode = SWEEP_IDLE;
    options.settings.op_delay = SPAN_S(10);
    options.go_on = act_when_asked;
    options.argument = &moment;
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    struct sweep_report report = run_with(kit, &options);
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.stop, HF_SWEEP_STOP_ACTIVITY);
    assert_true(report.duration.us <= SPAN_S(1).us);
}

static bool refuse_when_asked(void *argument)
{
    struct moment *moment = argument;
    return ++moment->asked < moment->at;
}

static void who_says_stop_is_obeyed(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    uint64_t ops = 0;
    for (uint64_t at = 1; ops < 10; at++) {
        struct moment moment = { .kit = kit, .at = at };
        struct sweep_options options = by_hand();
        options.go_on = refuse_when_asked;
        options.argument = &moment;
        struct sweep_report report = run_with(kit, &options);
        assert_int_equal(report.stop, HF_SWEEP_STOP_CANCELLED);
        assert_int_equal(moment.asked, at); /* not asked again */
        ops += report.ops;
        kit->cursor.turn = 0;
    }
    assert_int_equal(ops, 10);
}

static void sweep_beside(void *argument, const struct sweep_report *report)
{
    struct moment *moment = argument;
    struct sweep_options options = by_hand();
    struct sweep_cursor cursor = { 0 };
    struct sweep_report other;
    (void)report;
    IS(HF_OK, sweep_run(moment->kit->two.client, &options, &cursor, &other, &error));
    moment->other = other.stop;
    assert_int_equal(other.runs, 0);
    assert_int_equal(other.ops, 0);
}

static void one_a_process(void **state)
{
    struct sweep_kit *kit = *state;
    struct moment moment = { .kit = kit, .other = HF_SWEEP_STOP_DONE };
    struct sweep_options options = by_hand();
    options.progress = sweep_beside;
    options.argument = &moment;
    leave_locks(kit, "a", 2, 60000);
    pass(kit, HOURS(2));
    assert_int_equal(run_with(kit, &options).leases_cleared, 2);
    assert_int_equal(moment.other, HF_SWEEP_STOP_BUSY);
    assert_int_equal(run(kit).stop, HF_SWEEP_STOP_DONE); /* and the next may */
}

/* ---- Trouble ------------------------------------------------------------------------- */

static void what_fails_is_passed_over(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    way_shut(&kit->one.way, "default/meta/a3", REFUSE(HF_UNAVAILABLE));
    struct sweep_report report = run(kit);
    assert_int_equal(report.ops, 10);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.leases_cleared, 9);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
    assert_int_equal(leases(kit, "a3"), 1);
    way_open(&kit->one.way);
    assert_int_equal(run(kit).leases_cleared, 1);
}

static void what_is_not_ours_is_left(void **state)
{
    struct sweep_kit *kit = *state;
    const char *const strange[] = { ENTRIES "2026010711/meta/a", ENTRIES "2026010711/readme",
                                    ENTRIES "yesterday/meta/a.json", ENTRIES "2026010711",
                                    TXN_ENTRIES "2026010711/readme" };
    for (size_t i = 0; i < 5; i++)
        world_write(&kit->world, strange[i], VIEW("?"));
    uint64_t before = fingerprint(kit);
    struct sweep_report report = run(kit);
    assert_int_equal(report.failed, 3); /* in hours of ours */
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE);
    assert_true(fingerprint(kit) == before);
}

static void a_store_that_fails_ends_it(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    struct sweep_report report;
    leave_locks(kit, "a", 20, 60000);
    pass(kit, HOURS(2));
    way_shut(&kit->one.way, "default/meta/", REFUSE(HF_DENIED));
    IS(HF_DENIED, sweep_run(kit->one.client, &options, &kit->cursor, &report, &error));
    assert_true(strlen(error.why) > 0);
    assert_int_equal(report.stop, HF_SWEEP_STOP_FAILED);
    assert_int_equal(report.ops, 5); /* not each of them in turn */
    assert_int_equal(report.failed, 5);
    assert_int_equal(report.runs, 1);
    way_shut(&kit->one.way, "", REFUSE(HF_UNAVAILABLE));
    IS(HF_UNAVAILABLE, sweep_run(kit->one.client, &options, &kit->cursor, &report, &error));
    assert_int_equal(report.stop, HF_SWEEP_STOP_FAILED);
    assert_int_equal(report.ops, 0);
    way_open(&kit->one.way);
    assert_int_equal(run(kit).leases_cleared + run(kit).leases_cleared, 20);
}

/* Of each call in turn: the run comes to an end, and a later one does the rest. */
static void any_call_may_fail(void **state)
{
    struct sweep_kit *kit = *state;
    const struct fate fates[] = { REFUSE(HF_UNAVAILABLE), LOSE, LOSE_REPLY };
    struct sweep_options options = by_hand();
    struct sweep_report report;
    for (size_t i = 0; i < 3; i++) {
        bool failed = true;
        for (long n = 0; failed; n++) {
            leave_lock(&kit->two, "lock", 60000);
            enter(kit, "lock");
            leave_key(&kit->two, "key", 60000, "text");
            enter(kit, "key");
            pass(kit, HOURS(1));
            way_fail(&kit->one.way, n, fates[i]);
            sweep_run(kit->one.client, &options, &kit->cursor, &report, &error);
            failed = way_has_failed(&kit->one.way);
            run(kit);
            assert_int_equal(leases(kit, "lock"), 0);
            assert_int_equal(leases(kit, "key"), 0);
            pass(kit, PAST_D);
            run(kit);
            run(kit);
            assert_int_equal(objects(kit, "default/meta/lock"), 0);
            assert_int_equal(objects(kit, ENTRIES), 0);
            reads(&kit->two, "key", "text");
            pass(kit, HOURS(1));
        }
    }
}

static void a_dry_run_writes_nothing(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    options.dry_run = true;
    leave_locks(kit, "a", 5, 60000);
    enter(kit, "never");
    leave_key(&kit->two, "key", 60000, "text");
    enter(kit, "key");
    pass(kit, HOURS(2));
    kit->cursor.turn = 1;
    struct sweep_cursor cursor = kit->cursor;
    uint64_t before = fingerprint(kit);
    struct sweep_report would = run_with(kit, &options);
    assert_true(fingerprint(kit) == before);
    assert_memory_equal(&cursor, &kit->cursor, sizeof cursor);
    assert_int_equal(kit->one.client->shared.cleared[SWEEP_MANUAL], 0);
    struct sweep_report did = run(kit);
    assert_int_equal(would.ops, did.ops);
    assert_int_equal(would.leases_cleared, did.leases_cleared);
    assert_int_equal(would.entries_deleted, did.entries_deleted);
    assert_int_equal(would.entries_moved, did.entries_moved);
    assert_int_equal(did.leases_cleared, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SWEEP("leases that are over are cleared by their entries, which then go",
              what_expired_is_cleared),
        SWEEP("a long lease that was left to others is found when it has ended",
              a_long_lease_that_was_left_is_found),
        SWEEP("leases are counted as cleared by an idle sweep",
              what_an_idle_sweep_clears_is_counted_as_such),
        SWEEP("the entry of a live lease is moved to its hour, the lease left as it is",
              what_is_live_is_moved),
        SWEEP("a new entry is there before the old one goes", an_entry_moves_before_it_goes),
        SWEEP("an entry that was written anew stays", an_entry_that_was_written_anew_stays),
        SWEEP("an entry without a table goes, and no table is born",
              entries_without_a_table_go),
        SWEEP("hours that are not over are left alone", hours_that_are_not_over_are_left_alone),
        SWEEP("a table where somebody waits is looked at again",
              where_somebody_waits_is_looked_at_again),
        SWEEP("where deletes have no conditions entries just go",
              without_conditions_entries_just_go),
        SWEEP("there a lease that is granted meanwhile is entered again",
              a_lease_granted_meanwhile_is_entered_again),
        SWEEP("requests are at most five for each that is over, whatever is alive",
              the_cost_is_that_of_what_expired),
        SWEEP("no more entries than allowed, and the next run goes on behind them",
              as_many_entries_as_allowed),
        SWEEP("the cursor is behind what failed", the_cursor_is_behind_what_failed),
        SWEEP("delays are within the time of a run", delays_are_within_the_time),
        SWEEP("slow requests are within the time of a run", slow_requests_are_within_the_time),
        SWEEP("a store that hangs keeps it no longer than its time",
              what_hangs_is_within_the_time),
        SWEEP("settings out of range are refused", settings_out_of_range_are_refused),
        SWEEP("an operation stops an idle sweep within one entry, not one by hand",
              an_operation_stops_an_idle_sweep),
        SWEEP("an idle sweep stops when somebody else changes what it works on",
              a_conflict_stops_an_idle_sweep),
        SWEEP("an operation ends a delay", an_operation_ends_a_delay),
        SWEEP("who says stop is obeyed at once, and nothing is left out",
              who_says_stop_is_obeyed),
        SWEEP("there is one sweep a process", one_a_process),
        SWEEP("an entry that fails is passed over, and done by a later run",
              what_fails_is_passed_over),
        SWEEP("what is no entry of ours is left", what_is_not_ours_is_left),
        SWEEP("a store that fails ends the run with its status", a_store_that_fails_ends_it),
        SWEEP("whichever call fails, a later run does the rest", any_call_may_fail),
        SWEEP("a dry run writes nothing, and tells what a run then does",
              a_dry_run_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
