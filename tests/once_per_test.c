/* SPDX-License-Identifier: Apache-2.0 */
/* once_per_test.c: work that is done once per period: when the period starts, by which clock,
 * and that completions are remembered as long as promised; and which other ended leases stay. Tests
 * the table alone, without a store. */
#include "base/limits.h"
#include "lease_kit.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MINUTE_MS INT64_C(60000)
#define HOUR_MS   (60 * MINUTE_MS)

/* Work on these scopes, once an hour, give or take six minutes. */
static struct wish hourly(const char *id, const char *scopes)
{
    return (struct wish){
        .id = id, .scopes = scopes, .once_per = SPAN_S(3600), .once_slack = SPAN_S(360)
    };
}

static enum hf_status ask(struct lease_table *table, int64_t ms, struct wish wish)
{
    struct table_op op;
    enum hf_status status = kit_acquire(table, &op, kit_at(ms), wish);
    if (status == HF_OK)
        kit_do(table, &op, kit_at(ms), TABLE_CANCEL, wish.id, 0);
    table_check(table);
    return status;
}

/* Begins at one time, with a lease that is long enough, and is completed at another. */
static void complete_at(struct lease_table *table, int64_t begun_ms, int64_t done_ms,
                        struct wish wish)
{
    struct table_op op;
    wish.ttl_us = INT64_C(3600) * 1000000;
    assert_status(HF_OK, kit_acquire(table, &op, kit_at(begun_ms), wish), &op.error);
    uint64_t token = op.granted;
    assert_status(HF_OK, kit_do(table, &op, kit_at(begun_ms + 1), TABLE_RENEW, wish.id, token),
                  &op.error);
    assert_status(HF_OK, kit_do(table, &op, kit_at(done_ms), TABLE_COMPLETE, wish.id, token),
                  &op.error);
}

static void complete(struct lease_table *table, int64_t ms, struct wish wish)
{
    complete_at(table, ms, ms, wish);
}

/* ---- From when it counts --------------------------------------------------------------- */

static void an_hourly_job_runs_every_hour(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    /* It takes twenty minutes, and no start is quite on time. */
    static const int64_t starts_ms[] = { 1000, HOUR_MS, 2 * HOUR_MS + 500, 3 * HOUR_MS - 30000,
                                         4 * HOUR_MS };
    for (size_t i = 0; i < sizeof starts_ms / sizeof starts_ms[0]; i++) {
        char id[16];
        snprintf(id, sizeof id, "a-%zu", i);
        complete_at(table, starts_ms[i], starts_ms[i] + 20 * MINUTE_MS, hourly(id, "named:x"));
        table = kit_reload_afresh(table, starts_ms[i] + 20 * MINUTE_MS);
        assert_int_equal(ask(table, starts_ms[i] + 21 * MINUTE_MS, hourly("b-1", "named:x")),
                         HF_ALREADY);
    }
    table_free(table);
}

static void the_slack_is_as_it_was_named(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    complete_at(table, 0, 10 * MINUTE_MS, hourly("a-1", "named:x"));
    struct wish strict = hourly("b-1", "named:x");
    strict.once_slack = SPAN_US(0);
    assert_int_equal(ask(table, 54 * MINUTE_MS - 1, hourly("b-1", "named:x")), HF_ALREADY);
    assert_int_equal(ask(table, 54 * MINUTE_MS, hourly("b-1", "named:x")), HF_OK);
    assert_int_equal(ask(table, HOUR_MS - 1, strict), HF_ALREADY);
    assert_int_equal(ask(table, HOUR_MS, strict), HF_OK);
    table_free(table);
}

static void a_refusal_says_when_it_may_be_done_again(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    complete_at(table, 0, 10 * MINUTE_MS, hourly("a-1", "named:x"));
    assert_int_equal(kit_acquire(table, &op, kit_at(24 * MINUTE_MS), hourly("b-1", "named:x")),
                     HF_ALREADY);
    assert_string_equal(op.error.why,
                        "already run 24m ago by tester; the next run is allowed in 30m");
    table_free(table);
}

/* ---- That it is remembered -------------------------------------------------------------- */

/* Others complete work of their own in the same table. */
static void complete_others(struct lease_table *table, int64_t ms, int count, bool promised)
{
    for (int i = 0; i < count; i++) {
        char id[16], scope[24];
        snprintf(id, sizeof id, "o%d-%d", promised, i);
        snprintf(scope, sizeof scope, "path:/%d/%d", promised, i);
        struct wish wish = hourly(id, scope);
        if (!promised)
            wish.once_per = wish.once_slack = SPAN_US(0);
        complete(table, ms + i, wish);
    }
}

static void others_do_not_make_it_forget(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    complete(table, 0, hourly("a-1", "path:/a"));
    complete_others(table, 1000, 300, /* promised */ true);
    complete_others(table, 10000, 300, /* promised */ false);
    table = kit_reload_afresh(table, 20000);
    assert_int_equal(ask(table, 53 * MINUTE_MS, hourly("b-1", "path:/a")), HF_ALREADY);
    assert_int_equal(ask(table, 53 * MINUTE_MS, hourly("b-2", "path:/1/0")), HF_ALREADY);
    /* And those whose period is over give way. */
    complete(table, 2 * HOUR_MS, hourly("a-2", "path:/a"));
    assert_true(table->lease_count <= TABLE_COMPLETED_MAX + TABLE_FINISHED_MAX + 1);
    table_free(table);
}

/* A table that has promised all that it can, from 0 ms on. Made once, since that takes a while. */
static struct buffer full_text;

static struct lease_table *full_table(void)
{
    struct lease_table *table;
    struct hf_error error;
    if (full_text.size == 0) {
        table = kit_table();
        complete_others(table, 0, TABLE_PROMISES_MAX, /* promised */ true);
        full_text = kit_encode(table);
        table_free(table);
    }
    assert_status(HF_OK,
                  table_decode(buffer_view(&full_text), kit_at(0).now, NULL, &table, &error),
                  &error);
    return table;
}

static int free_full_text(void **state)
{
    (void)state;
    buffer_release(&full_text);
    return 0;
}

static void what_it_cannot_remember_it_does_not_grant(void **state)
{
    (void)state;
    struct lease_table *table = full_table();
    struct table_op op;
    struct wish more = hourly("b-1", "path:/a");
    uint64_t next = table->next_token;
    assert_int_equal(kit_acquire(table, &op, kit_at(2000), more), HF_UNSUPPORTED);
    assert_non_null(strstr(op.error.why, "cannot promise to remember"));
    assert_true(table->next_token == next && !kit_lease(table, "b-1"));
    /* Without a period there is nothing to promise; and what is remembered may be done again. */
    assert_int_equal(ask(table, 3000, (struct wish){ .id = "c-1", .scopes = "path:/a" }),
                     HF_OK);
    assert_int_equal(ask(table, 55 * MINUTE_MS, hourly("d-1", "path:/1/0")), HF_OK);
    /* Once the periods are over there is room. */
    assert_int_equal(ask(table, HOUR_MS - 1, more), HF_UNSUPPORTED);
    assert_int_equal(ask(table, 2 * HOUR_MS, more), HF_OK);
    table_free(table);
}

static void one_that_waited_is_refused_the_same_way(void **state)
{
    (void)state;
    struct lease_table *table = full_table();
    struct table_op op;
    struct wish holding = { .id = "a-1", .scopes = "path:/a" };
    assert_int_equal(kit_acquire(table, &op, kit_at(600), holding), HF_OK);
    uint64_t token = op.granted;
    struct wish waiting = hourly("b-1", "path:/a");
    waiting.wait = true;
    assert_int_equal(kit_acquire(table, &op, kit_at(601), waiting), HF_OK);
    assert_int_equal(kit_do(table, &op, kit_at(1000), TABLE_RELEASE, "a-1", token), HF_OK);
    struct evidence evidence = kit_at(1001);
    op = (struct table_op){ .kind = TABLE_CLAIM, .id = VIEW("b-1"), .once_per = SPAN_S(3600) };
    assert_int_equal(table_apply(table, &op, &evidence), HF_UNSUPPORTED);
    table_free(table);
}

static void promises_are_bounded_by_bytes_too(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    char scopes[20000];
    size_t size = 0, granted = 0;
    enum hf_status status = HF_OK;
    for (int i = 0; i < 60; i++)
        size += (size_t)snprintf(scopes + size, sizeof scopes - size, "%schunk:data/%0128d",
                                 i ? " " : "", i);
    while (status == HF_OK && granted < 100) {
        char id[16];
        struct table_op op;
        snprintf(id, sizeof id, "a-%zu", granted);
        scopes[size - 1] = (char)('a' + granted % 26); /* other work each time */
        scopes[size - 2] = (char)('a' + granted / 26);
        status = kit_acquire(table, &op, kit_at(0), hourly(id, scopes));
        if (status == HF_OK)
            kit_do(table, &op, kit_at(0), TABLE_COMPLETE, id, op.granted);
        granted += status == HF_OK;
    }
    assert_int_equal(status, HF_UNSUPPORTED);
    assert_true(granted > 5 && table->bytes <= TABLE_PROMISES_BYTES + 64 * KIB);
    table_free(table);
}

static void what_is_remembered_takes_nobodys_room(void **state)
{
    (void)state;
    struct lease_table *table = full_table();
    struct table_op op;
    for (int i = 0; i < TABLE_LEASES_MAX; i++) {
        char id[16], scope[24];
        snprintf(id, sizeof id, "h-%d", i);
        snprintf(scope, sizeof scope, "path:/held/%d", i);
        struct wish wish = { .id = id, .scopes = scope };
        assert_status(HF_OK, kit_acquire(table, &op, kit_at(1000), wish), &op.error);
    }
    table = kit_reload_afresh(table, 1000);
    assert_int_equal(ask(table, 1001, (struct wish){ .id = "x-1", .scopes = "path:/x" }),
                     HF_UNAVAILABLE);
    table_free(table);
}

static void a_longer_period_is_not_cut_short(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct wish daily = hourly("a-1", "path:/a");
    daily.once_per = SPAN_S(86400);
    complete(table, 0, daily);
    /* Somebody does it again, who asked for nothing. */
    complete(table, 1000, (struct wish){ .id = "b-1", .scopes = "path:/a" });
    complete_others(table, 2000, 300, /* promised */ false);
    table = kit_reload_afresh(table, 3000);
    daily.id = "c-1";
    assert_int_equal(ask(table, 12 * HOUR_MS, daily), HF_ALREADY);
    table_free(table);
}

/* ---- By which clock ---------------------------------------------------------------------- */

static struct evidence on_clock(int64_t ms, const char *clock, int64_t wall_us)
{
    struct evidence evidence = kit_at(ms);
    evidence.clock = view_of(clock);
    evidence.wall = (struct wall_time){ wall_us };
    return evidence;
}

/* The clock of a local store is that of one boot; between two there is only the calendar. */
static void after_a_boot_the_calendar_decides(void **state)
{
    (void)state;
    const int64_t noon_us = INT64_C(1794830400) * 1000000;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = hourly("a-1", "named:x");
    assert_int_equal(kit_acquire(table, &op, on_clock(0, "boot-1", noon_us), wish), HF_OK);
    assert_int_equal(kit_do(table, &op, on_clock(0, "boot-1", noon_us), TABLE_COMPLETE, "a-1",
                            op.granted),
                     HF_OK);
    wish.id = "b-1";
    struct evidence early = on_clock(5, "boot-2", noon_us + 50 * MINUTE_MS * 1000);
    struct evidence late = on_clock(5, "boot-2", noon_us + 55 * MINUTE_MS * 1000);
    assert_int_equal(kit_acquire(table, &op, early, wish), HF_ALREADY);
    assert_false(op.changed);
    assert_int_equal(kit_acquire(table, &op, late, wish), HF_OK);
    table_free(table);
}

/* A calendar that was years ahead, once, does not keep the work from ever being done again. */
static void a_calendar_of_the_future_costs_one_period(void **state)
{
    (void)state;
    const int64_t noon_us = INT64_C(1794830400) * 1000000;
    const int64_t year_us = INT64_C(366) * 24 * HOUR_MS * 1000;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = hourly("a-1", "named:x");
    struct evidence ahead = on_clock(0, "boot-1", noon_us + 70 * year_us);
    assert_int_equal(kit_acquire(table, &op, ahead, wish), HF_OK);
    assert_int_equal(kit_do(table, &op, ahead, TABLE_COMPLETE, "a-1", op.granted), HF_OK);
    wish.id = "b-1";
    struct evidence right = on_clock(1000, "boot-2", noon_us);
    assert_int_equal(kit_acquire(table, &op, right, wish), HF_ALREADY);
    assert_true(op.changed); /* it counts anew from here */
    table = kit_reload_afresh(table, 1000);
    right = on_clock(1000 + 50 * MINUTE_MS, "boot-2", noon_us);
    assert_int_equal(kit_acquire(table, &op, right, wish), HF_ALREADY);
    right = on_clock(1000 + 54 * MINUTE_MS, "boot-2", noon_us);
    assert_int_equal(kit_acquire(table, &op, right, wish), HF_OK);
    table_free(table);
}

/* The same where the store tells no time at all. */
static void nor_does_it_without_a_clock(void **state)
{
    (void)state;
    const int64_t noon_us = INT64_C(1794830400) * 1000000;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = hourly("a-1", "named:x");
    struct evidence now = on_clock(0, "", noon_us + 10 * HOUR_MS * 1000);
    now.time_known = false;
    assert_int_equal(kit_acquire(table, &op, now, wish), HF_OK);
    assert_int_equal(kit_do(table, &op, now, TABLE_COMPLETE, "a-1", op.granted), HF_OK);
    wish.id = "b-1";
    now.wall.us = noon_us;
    assert_int_equal(kit_acquire(table, &op, now, wish), HF_ALREADY);
    now.wall.us = noon_us + 53 * MINUTE_MS * 1000;
    assert_int_equal(kit_acquire(table, &op, now, wish), HF_ALREADY);
    assert_false(op.changed);
    now.wall.us = noon_us + 54 * MINUTE_MS * 1000;
    assert_int_equal(kit_acquire(table, &op, now, wish), HF_OK);
    table_free(table);
}

static void who_is_granted_it_knows_the_time(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct evidence blind = kit_at(0);
    blind.time_known = false;
    assert_int_equal(kit_acquire(table, &op, blind, hourly("a-1", "named:x")), HF_UNAVAILABLE);
    assert_true(op.needs_time && op.changed);
    assert_null(kit_lease(table, "a-1"));
    table_free(table);
}

/* ---- As it is written --------------------------------------------------------------------- */

/* As it was written before grants were stamped: it counts from its end. */
static const char old_table[] =
    "{\"format\":\"holdfast.leases/1\",\"next_token\":42,\"write\":\"n\",\"reserved\":[],\n"
    "\"settings\":{\"drift_ppm\":200,\"margin_ms\":50,\"skew_ms\":2000,\"ttl_max_ms\":3600000,"
    "\"late_ms\":86400000,\"takeover\":\"any\"},\n"
    "\"leases\":{\n\"a-1\":{\"lease_id\":\"a-1\",\"holder_id\":\"old\",\"scopes\":[\"named:x\"]"
    ","
    "\"session\":\"a\",\"mode\":\"exclusive\",\"token\":41,\"level\":0,\"status\":"
    "\"completed\","
    "\"ttl_ms\":30000,\"clock\":\"clock-a\",\"expires_us\":%" PRId64 ",\"ended_us\":%" PRId64
    ",\"nonce\":\"n\",\"acquired_at\":\"2026-11-15T10:00:00.000Z\","
    "\"expires_at\":\"2026-11-15T10:20:00.000Z\"}},\n\"waiters\":[],\n\"audit\":[]}\n";

static void old_completions_are_honoured(void **state)
{
    (void)state;
    struct lease_table *table;
    struct hf_error error;
    char text[2000];
    int64_t ended_us = KIT_CLOCK_OFFSET + 20 * MINUTE_MS * 1000;
    int size = snprintf(text, sizeof text, old_table, ended_us, ended_us);
    assert_status(HF_OK,
                  table_decode((struct view){ text, (size_t)size }, kit_at(0).now, NULL, &table,
                               &error),
                  &error);
    assert_int_equal(ask(table, 73 * MINUTE_MS, hourly("b-1", "named:x")), HF_ALREADY);
    assert_int_equal(ask(table, 74 * MINUTE_MS, hourly("b-1", "named:x")), HF_OK);
    table_free(table);
}

static void period_and_grant_are_written_and_read(void **state)
{
    (void)state;
    struct lease_table *table = kit_table(), *damaged = NULL;
    struct hf_error error;
    complete_at(table, 5000, 6000, hourly("a-1", "named:x"));
    table = kit_reload_afresh(table, 7000);
    const struct lease *lease = kit_lease(table, "a-1");
    assert_int_equal(lease->once_per.us, SPAN_S(3600).us);
    assert_int_equal(lease->granted.us, KIT_CLOCK_OFFSET + 5000000);
    assert_true(lease->granted.clock != 0);
    /* A stamp that is none is damage. */
    struct buffer text = kit_encode(table);
    char *stamp = strstr(text.data, "\"granted\":\"");
    assert_non_null(stamp);
    stamp[strlen("\"granted\":\"")] = 'g';
    assert_int_equal(table_decode(buffer_view(&text), kit_at(0).now, NULL, &damaged, &error),
                     HF_CORRUPT);
    buffer_release(&text);
    table_free(table);
}

/* ---- Which finished leases stay ------------------------------------------------------- */

/* Grants leases, and fails them at once. */
static void finish_leases(struct lease_table *table, int64_t ms, const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        char id[16];
        struct table_op op;
        snprintf(id, sizeof id, "%s-%d", prefix, i);
        struct wish wish = { .id = id, .scopes = "named:x" };
        assert_status(HF_OK, kit_acquire(table, &op, kit_at(ms + i), wish), &op.error);
        assert_status(HF_OK, kit_do(table, &op, kit_at(ms + i), TABLE_FAIL, id, op.granted),
                      &op.error);
    }
}

static void the_write_that_ends_a_lease_keeps_it(void **state)
{
    (void)state;
    static const enum table_op_kind ends[] = { TABLE_BREAK, TABLE_FAIL, TABLE_COMPLETE };
    for (size_t i = 0; i < 2 * sizeof ends / sizeof ends[0]; i++) {
        struct lease_table *table = kit_table();
        struct table_op op;
        bool dated = i % 2 == 0;
        struct evidence first = kit_at(0), last = kit_at(2000);
        first.time_known = last.time_known = dated;
        first.clock = last.clock = dated ? first.clock : VIEW("");
        struct wish wish = { .id = "a-1", .scopes = "path:/x", .ttl_us = 60000000 };
        assert_status(HF_OK, kit_acquire(table, &op, first, wish), &op.error);
        uint64_t token = op.granted;
        finish_leases(table, 1000, "b", 2 * TABLE_FINISHED_MAX);
        assert_status(HF_OK, kit_do(table, &op, last, ends[i / 2], "a-1", token), &op.error);
        assert_non_null(kit_lease(table, "a-1"));
        assert_true(table->lease_count <= TABLE_FINISHED_MAX + 1);
        table = kit_reload(table, 2001);
        assert_status(HF_OK, kit_do(table, &op, kit_at(2001), ends[i / 2], "a-1", token),
                      &op.error);
        assert_true(op.already);
        table_free(table);
    }
}

/* Those of another clock, as of an earlier boot, go first. */
static void leases_that_ended_last_stay(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct evidence other_clock = kit_at(0);
    other_clock.clock = VIEW("another clock");
    other_clock.latest.us *= 2;
    struct wish early = { .id = "a-1", .scopes = "path:/x", .ttl_us = 600000000 };
    struct wish late = { .id = "c-1", .scopes = "path:/y" };
    assert_status(HF_OK, kit_acquire(table, &op, kit_at(0), early), &op.error);
    uint64_t token = op.granted;
    finish_leases(table, 1000, "b", TABLE_FINISHED_MAX);
    assert_status(HF_OK, kit_acquire(table, &op, other_clock, late), &op.error);
    assert_status(HF_OK, kit_do(table, &op, other_clock, TABLE_FAIL, "c-1", op.granted),
                  &op.error);
    assert_status(HF_OK, kit_do(table, &op, kit_at(60000), TABLE_BREAK, "a-1", token),
                  &op.error);
    finish_leases(table, 120000, "d", TABLE_FINISHED_MAX - 1);
    assert_non_null(kit_lease(table, "a-1"));
    assert_null(kit_lease(table, "c-1"));
    assert_null(kit_lease(table, "b-15"));
    finish_leases(table, 180000, "e", 1);
    assert_null(kit_lease(table, "a-1"));
    assert_non_null(kit_lease(table, "d-0"));
    table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("an hourly job that takes its time runs every hour", an_hourly_job_runs_every_hour),
        IT("the period counts from the grant, less the slack", the_slack_is_as_it_was_named),
        IT("a refusal says how long ago it was done and when it may be done again",
           a_refusal_says_when_it_may_be_done_again),
        IT("six hundred other completions of its table do not make it forget",
           others_do_not_make_it_forget),
        IT("what the table could not remember for the period is not granted",
           what_it_cannot_remember_it_does_not_grant),
        IT("nor to one that has waited for it", one_that_waited_is_refused_the_same_way),
        IT("completions to be remembered are bounded in bytes too",
           promises_are_bounded_by_bytes_too),
        IT("completions take no room from leases that are held",
           what_is_remembered_takes_nobodys_room),
        IT("the same work done again does not cut a longer period short",
           a_longer_period_is_not_cut_short),
        IT("after a boot the calendar decides", after_a_boot_the_calendar_decides),
        IT("a calendar that was years ahead costs one period, and no more",
           a_calendar_of_the_future_costs_one_period),
        IT("nor does it where the store tells no time", nor_does_it_without_a_clock),
        IT("work for a period is not granted before the store's time is known",
           who_is_granted_it_knows_the_time),
        IT("completions without a stamp of their grant count from their end",
           old_completions_are_honoured),
        IT("the period and the stamp are written and read",
           period_and_grant_are_written_and_read),
        IT("a lease is there after the write that ends it, however long ago it was granted",
           the_write_that_ends_a_lease_keeps_it),
        IT("of finished leases those stay that ended last", leases_that_ended_last_stay),
    };
    return cmocka_run_group_tests(tests, NULL, free_full_text);
}
