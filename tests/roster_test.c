/* SPDX-License-Identifier: Apache-2.0 */
/* roster_test.c: the members of a group, on stores in memory and in a file, with a wall clock
 * that the test sets: who is present, absent or dead; and failures of the store and of memory. */
#include "alloc.h"
#include "base/layout.h"
#include "elect/roster.h"
#include "fault_store.h"
#include "meter.h"
#include "scripted_store.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define BEAT  SPAN_S(10)
#define GROUP VIEW("crew")

/* ---- A world whose calendar stands still ---------------------------------------------- */

static struct wall_time calendar;

static struct wall_time set_wall(struct env *env)
{
    (void)env;
    return calendar;
}

static struct env *env_of_test(void)
{
    static struct env_ops ops;
    static struct env env = { &ops };
    ops = *env_real()->ops;
    ops.wall = set_wall;
    return &env;
}

struct kit {
    char *folder;
    struct store *store;
    struct meter meter;
};

static struct store *open_counted(struct kit *kit, const char *url)
{
    struct store *inner, *store;
    struct hf_error error;
    assert_status(HF_OK, store_open(env_of_test(), view_of(url), &inner, &error), &error);
    meter_init(&kit->meter, env_of_test());
    assert_status(HF_OK, store_observe(inner, meter_observer(&kit->meter), &store, &error),
                  &error);
    return store;
}

static int set_up_mem(void **state)
{
    struct kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    calendar = (struct wall_time){ INT64_C(1767225600) * 1000000 };
    kit->store = open_counted(kit, "mem:");
    *state = kit;
    return 0;
}

static int set_up_sqlite(void **state)
{
    char url[4200];
    struct kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    calendar = (struct wall_time){ INT64_C(1767225600) * 1000000 };
    kit->folder = test_dir_make();
    snprintf(url, sizeof url, "sqlite:%s/db?sync=off", kit->folder);
    kit->store = open_counted(kit, url);
    *state = kit;
    return 0;
}

static int tear_down(void **state)
{
    struct kit *kit = *state;
    store_close(kit->store);
    meter_release(&kit->meter);
    if (kit->folder)
        test_dir_remove(kit->folder);
    free(kit);
    return 0;
}

static void pass(struct span span)
{
    calendar = wall_add(calendar, span);
}

static void put(struct store *store, const char *key)
{
    struct put_call call = { .key = view_of(key), .body = VIEW("x") };
    assert_status(HF_OK, store_put(store, &call), &call.error);
}

static bool exists(struct store *store, const char *key)
{
    struct buffer body = BUFFER_INIT(64 * KIB);
    struct get_call call = { .key = view_of(key), .body = &body };
    enum hf_status status = store_get(store, &call);
    buffer_release(&body);
    return status == HF_OK;
}

static uint64_t calls(struct kit *kit, enum call_kind kind)
{
    struct meter_counts counts[CALL_KIND_COUNT];
    meter_read(&kit->meter, counts);
    return counts[kind].calls;
}

static void join(struct kit *kit, struct roster *roster, const char *name)
{
    struct hf_error error;
    assert_status(HF_OK,
                  roster_join(roster, kit->store,
                              &(struct roster_options){ GROUP, view_of(name), VIEW("host-1"),
                                                        BEAT },
                              &error),
                  &error);
}

/* As if so many beats had passed for the member. */
static enum hf_status keep(struct roster *roster, struct hf_error *error)
{
    struct mono_time later = mono_add(roster->beaten, roster->beat);
    if (mono_before(later, mono_add(roster->listed, roster->beat)))
        later = mono_add(roster->listed, roster->beat);
    return roster_keep(roster, later, error);
}

static void assert_present(const struct roster *roster, const char *expected)
{
    struct buffer text = BUFFER_INIT(64 * KIB);
    for (size_t i = 0; i < roster->present_count; i++)
        buffer_print(&text, "%s%.*s", i > 0 ? " " : "", VIEW_ARGS(roster->present[i]));
    assert_string_equal(buffer_text(&text), expected);
    buffer_release(&text);
}

/* ---- Coming, staying, going ---------------------------------------------------------- */

static void members_see_each_other(void **state)
{
    struct kit *kit = *state;
    struct roster a, b, c;
    struct hf_error error;
    join(kit, &b, "b");
    assert_present(&b, "b");
    join(kit, &c, "c");
    assert_present(&c, "b c");
    join(kit, &a, "a");
    assert_present(&a, "a b c");
    assert_status(HF_OK, keep(&b, &error), &error);
    assert_present(&b, "a b c");
    roster_leave(&a);
    assert_false(exists(kit->store, "roster/crew/a"));
    assert_status(HF_OK, keep(&b, &error), &error);
    assert_present(&b, "b c");
    roster_leave(&b);
    roster_leave(&c);
}

static void joining_and_beating_are_a_put_and_a_listing(void **state)
{
    struct kit *kit = *state;
    struct roster roster;
    struct hf_error error;
    meter_reset(&kit->meter);
    join(kit, &roster, "a");
    assert_int_equal(calls(kit, CALL_PUT), 1);
    assert_int_equal(calls(kit, CALL_LIST), 1);
    struct mono_time early = mono_add(roster.beaten, SPAN_US(BEAT.us - 1));
    for (int i = 0; i < 100; i++)
        assert_status(HF_OK, roster_keep(&roster, early, &error), &error);
    assert_int_equal(calls(kit, CALL_PUT) + calls(kit, CALL_LIST), 2);
    assert_status(HF_OK, keep(&roster, &error), &error);
    assert_int_equal(calls(kit, CALL_PUT), 2);
    assert_int_equal(calls(kit, CALL_LIST), 2);
    roster_leave(&roster);
    assert_int_equal(calls(kit, CALL_DELETE), 1);
    assert_int_equal(calls(kit, CALL_GET), 0);
}

static void an_object_tells_people_who_it_is(void **state)
{
    struct kit *kit = *state;
    struct roster roster;
    struct hf_error error;
    struct buffer body = BUFFER_INIT(KIB);
    assert_status(HF_OK,
                  roster_join(&roster, kit->store,
                              &(struct roster_options){ GROUP, VIEW("a"), VIEW("host \"1\"\n"),
                                                        BEAT },
                              &error),
                  &error);
    assert_status(HF_OK, keep(&roster, &error), &error);
    struct get_call get = { .key = VIEW("roster/crew/a"), .body = &body };
    assert_status(HF_OK, store_get(kit->store, &get), &get.error);
    assert_string_equal(buffer_text(&body),
                        "{\"format\":\"" LAYOUT_ROSTER_FORMAT
                        "\",\"label\":\"host \\\"1\\\"\\n\",\"beat_ms\":10000,\"beats\":2}\n");
    buffer_release(&body);
    roster_leave(&roster);
}

static void a_name_is_drawn_where_none_is_given(void **state)
{
    struct kit *kit = *state;
    struct roster a, b;
    join(kit, &a, "");
    join(kit, &b, "");
    assert_int_equal(strlen(a.fingerprint), FINGERPRINT_DRAWN);
    assert_int_equal(strspn(a.fingerprint, "0123456789abcdef"), FINGERPRINT_DRAWN);
    assert_string_not_equal(a.fingerprint, b.fingerprint);
    assert_int_equal(b.present_count, 2);
    roster_leave(&a);
    roster_leave(&b);
}

/* ---- Present, absent, dead ----------------------------------------------------------- */

static void who_misses_three_beats_is_absent_and_who_beats_again_is_back(void **state)
{
    struct kit *kit = *state;
    struct roster a, b;
    struct hf_error error;
    join(kit, &a, "a");
    join(kit, &b, "b");
    pass(SPAN_S(30));
    assert_status(HF_OK, keep(&b, &error), &error);
    assert_present(&b, "a b");
    pass(SPAN_S(2)); /* more than what some stores cut off */
    assert_status(HF_OK, keep(&b, &error), &error);
    assert_present(&b, "b");
    assert_true(exists(kit->store, "roster/crew/a"));
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_present(&a, "a b");
    assert_status(HF_OK, keep(&b, &error), &error);
    assert_present(&b, "a b");
    roster_leave(&a);
    roster_leave(&b);
}

/* A dead group would otherwise look alive for ever: its last member is the newest of it. */
static void who_looks_from_outside_finds_none_of_a_group_that_died(void **state)
{
    struct kit *kit = *state;
    struct member_list list;
    struct arena arena = ARENA_INIT;
    struct hf_error error;
    put(kit->store, "roster/crew/long-gone");
    pass(SPAN_S(40));
    put(kit->store, "roster/crew/b");
    pass(SPAN_S(20));
    put(kit->store, "roster/crew/a");
    assert_status(HF_OK, roster_members(kit->store, GROUP, BEAT, false, &arena, &list, &error),
                  &error);
    assert_int_equal(list.count, 3);
    assert_true(view_equal(list.members[0].fingerprint, VIEW("a")) && list.members[0].present);
    assert_true(view_equal(list.members[1].fingerprint, VIEW("b")) && list.members[1].present);
    assert_true(view_equal(list.members[2].fingerprint, VIEW("long-gone")) &&
                !list.members[2].present);
    assert_int_equal(wall_since(list.members[0].modified, list.members[1].modified).us,
                     SPAN_S(20).us);
    pass(SPAN_S(32));
    assert_status(HF_OK, roster_members(kit->store, GROUP, BEAT, false, &arena, &list, &error),
                  &error);
    assert_int_equal(list.count, 3);
    for (size_t i = 0; i < list.count; i++)
        assert_false(list.members[i].present);
    arena_release(&arena);
}

/* One writes every minute, one has died, and one is no member of ours. */
static void members_are_judged_by_their_own_intervals_on_request(void **state)
{
    struct kit *kit = *state;
    struct roster slow, dead;
    struct member_list list;
    struct arena arena = ARENA_INIT;
    struct hf_error error;
    struct roster_options options = { GROUP, VIEW("slow"), VIEW("host:1"), SPAN_S(60) };
    assert_status(HF_OK, roster_join(&slow, kit->store, &options, &error), &error);
    options.fingerprint = VIEW("dead");
    options.beat = SPAN_S(20);
    assert_status(HF_OK, roster_join(&dead, kit->store, &options, &error), &error);
    put(kit->store, "roster/crew/foreign");
    pass(SPAN_S(100));
    assert_status(HF_OK, roster_members(kit->store, GROUP, BEAT, true, &arena, &list, &error),
                  &error);
    assert_int_equal(list.count, 3);
    for (size_t i = 0; i < list.count; i++)
        assert_int_equal(list.members[i].present,
                         view_equal(list.members[i].fingerprint, VIEW("slow")));
    pass(SPAN_S(100));
    assert_status(HF_OK, roster_members(kit->store, GROUP, BEAT, true, &arena, &list, &error),
                  &error);
    for (size_t i = 0; i < list.count; i++)
        assert_false(list.members[i].present);
    arena_release(&arena);
    roster_leave(&slow);
    roster_leave(&dead);
}

/* By the calendar of the store nobody has written for a year: who was last is present. */
static void members_compare_times_with_the_newest_and_with_no_clock_of_ours(void **state)
{
    struct kit *kit = *state;
    struct roster a;
    struct hf_error error;
    join(kit, &a, "a");
    put(kit->store, "roster/crew/b");
    pass(SPAN_S(365 * 86400));
    struct mono_time now = mono_add(a.listed, a.beat);
    a.beaten = now; /* it only lists */
    assert_status(HF_OK, roster_keep(&a, now, &error), &error);
    assert_present(&a, "a b");
    roster_leave(&a);
}

static void we_are_always_among_those_present(void **state)
{
    struct kit *kit = *state;
    struct roster a;
    struct hf_error error;
    join(kit, &a, "m");
    struct delete_call removal = { .key = VIEW("roster/crew/m") };
    assert_status(HF_OK, store_delete(kit->store, &removal), &removal.error);
    put(kit->store, "roster/crew/k");
    put(kit->store, "roster/crew/z");
    struct mono_time later = mono_add(a.listed, BEAT);
    a.beaten = later; /* so that it only lists */
    assert_status(HF_OK, roster_keep(&a, later, &error), &error);
    assert_present(&a, "k m z");
    roster_leave(&a);
}

static void what_the_dead_leave_is_deleted_by_who_finds_it(void **state)
{
    struct kit *kit = *state;
    struct roster a, b;
    struct hf_error error;
    put(kit->store, "roster/crew/dead");
    put(kit->store, "roster/other/dead");
    put(kit->store, "roster/crew/Not a member");
    put(kit->store, "roster/crew/folder/dead");
    join(kit, &a, "a");
    pass(SPAN_S(299));
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_true(exists(kit->store, "roster/crew/dead"));
    pass(SPAN_S(3));
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_false(exists(kit->store, "roster/crew/dead"));
    assert_true(exists(kit->store, "roster/other/dead"));
    assert_true(exists(kit->store, "roster/crew/Not a member"));
    assert_true(exists(kit->store, "roster/crew/folder/dead"));
    pass(SPAN_S(3600));
    join(kit, &b, "b"); /* a was only silent: its next beat writes it again */
    assert_false(exists(kit->store, "roster/crew/a"));
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_present(&a, "a b");
    roster_leave(&a);
    roster_leave(&b);
}

/* It died while the clock of the machine was a day ahead. */
static void a_clock_that_was_ahead_hides_nobody(void **state)
{
    struct kit *kit = *state;
    struct roster a, b;
    struct member_list list;
    struct arena arena = ARENA_INIT;
    struct hf_error error;
    const struct span day = SPAN_S(86400);
    pass(day);
    put(kit->store, "roster/crew/ahead");
    pass(SPAN_US(-day.us));
    join(kit, &a, "a");
    join(kit, &b, "b");
    pass(BEAT);
    assert_status(HF_OK, keep(&b, &error), &error);
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_present(&a, "a ahead b");
    assert_present(&b, "a ahead b");
    assert_true(exists(kit->store, "roster/crew/a") && exists(kit->store, "roster/crew/b"));
    assert_status(HF_OK, roster_members(kit->store, GROUP, BEAT, true, &arena, &list, &error),
                  &error);
    for (size_t i = 0; i < list.count; i++)
        assert_true(list.members[i].present);
    arena_release(&arena);
    pass(SPAN_S(32)); /* b beats no more */
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_present(&a, "a ahead");
    pass(day);
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_present(&a, "a");
    pass(SPAN_S(302));
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_false(exists(kit->store, "roster/crew/b") ||
                 exists(kit->store, "roster/crew/ahead"));
    roster_leave(&a);
    roster_leave(&b);
}

static void so_many_of_the_dead_at_once_and_no_more(void **state)
{
    struct kit *kit = *state;
    struct roster a;
    struct hf_error error;
    char key[64];
    for (int i = 0; i < ROSTER_DELETES_MAX + 9; i++) {
        snprintf(key, sizeof key, "roster/crew/dead-%d", i);
        put(kit->store, key);
    }
    pass(SPAN_S(3600));
    meter_reset(&kit->meter);
    join(kit, &a, "a");
    assert_int_equal(calls(kit, CALL_DELETE), ROSTER_DELETES_MAX);
    assert_status(HF_OK, keep(&a, &error), &error);
    assert_int_equal(calls(kit, CALL_DELETE), ROSTER_DELETES_MAX + 9);
    roster_leave(&a);
}

static void a_crash_leaves_an_object(void **state)
{
    struct kit *kit = *state;
    struct roster a;
    join(kit, &a, "a");
    roster_release(&a);
    assert_true(exists(kit->store, "roster/crew/a"));
    join(kit, &a, "a"); /* and the next life takes it over */
    assert_present(&a, "a");
    roster_leave(&a);
}

/* ---- Strangers, bounds --------------------------------------------------------------- */

static void garbage_in_the_folder_is_passed_over(void **state)
{
    struct kit *kit = *state;
    static const char *const keys[] = {
        "roster/crew/.hidden",   "roster/crew/Upper", "roster/crew/with space",
        "roster/crew/deep/er",   "roster/crew/%00",   "roster/crew/\xff\xfe",
        "roster/crews/neighbor", "roster/cre/w",      "roster/crew",
    };
    char key[KEY_BYTES_MAX + 1] = "roster/crew/";
    struct roster a;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put(kit->store, keys[i]);
    memset(key + strlen("roster/crew/"), 'x', FINGERPRINT_MAX + 1);
    put(kit->store, key);
    key[strlen("roster/crew/") + FINGERPRINT_MAX] = '\0';
    put(kit->store, key);
    join(kit, &a, "a");
    assert_int_equal(a.present_count, 2);
    assert_int_equal(a.present[1].size, FINGERPRINT_MAX);
    roster_leave(&a);
}

static void put_members(struct kit *kit, size_t count)
{
    struct put_call calls_of_batch[BATCH_MAX];
    static char keys[BATCH_MAX][64];
    for (size_t done = 0; done < count;) {
        size_t batch = count - done < BATCH_MAX ? count - done : BATCH_MAX;
        for (size_t i = 0; i < batch; i++) {
            snprintf(keys[i], sizeof keys[i], "roster/crew/m%06zu", done + i);
            calls_of_batch[i] = (struct put_call){ .key = view_of(keys[i]), .body = VIEW("x") };
        }
        assert_int_equal(store_put_many(kit->store, calls_of_batch, batch), HF_OK);
        done += batch;
    }
}

static void thousands_of_members_come_in_pages(void **state)
{
    struct kit *kit = *state;
    struct roster a;
    put_members(kit, 2500);
    meter_reset(&kit->meter);
    join(kit, &a, "z");
    assert_int_equal(calls(kit, CALL_LIST), 3);
    assert_int_equal(a.present_count, 2501);
    for (size_t i = 1; i < a.present_count; i++)
        assert_true(view_compare(a.present[i - 1], a.present[i]) < 0);
    roster_leave(&a);
}

static void beyond_the_bound_nobody_is_looked_at_but_ourselves(void **state)
{
    struct kit *kit = *state;
    struct roster a;
    put_members(kit, ROSTER_MEMBERS_MAX + 700);
    meter_reset(&kit->meter);
    join(kit, &a, "z");
    assert_int_equal(calls(kit, CALL_LIST), 5);
    assert_int_equal(a.present_count, ROSTER_MEMBERS_MAX + 1);
    assert_true(view_equal(a.present[ROSTER_MEMBERS_MAX], VIEW("z")));
    roster_leave(&a);
}

static void what_is_no_name_and_no_beat_is_refused(void **state)
{
    struct kit *kit = *state;
    struct roster roster;
    struct hf_error error;
    struct arena arena = ARENA_INIT;
    struct member_list list;
    char text[200];
    memset(text, 'a', sizeof text);
    const struct view bad[] = { VIEW(""),         VIEW(".a"),
                                VIEW("A"),        VIEW("a/b"),
                                VIEW("a b"),      VIEW("\0"),
                                VIEW("\xc3\xa4"), { text, ROSTER_GROUP_MAX + 1 } };
    meter_reset(&kit->meter);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(
            roster_join(&roster, kit->store,
                        &(struct roster_options){ bad[i], VIEW("a"), VIEW(""), BEAT }, &error),
            HF_INVALID);
        assert_int_equal(roster_members(kit->store, bad[i], BEAT, false, &arena, &list, &error),
                         HF_INVALID);
        if (bad[i].size > 0)
            assert_int_equal(
                roster_join(&roster, kit->store,
                            &(struct roster_options){ GROUP, bad[i], VIEW(""), BEAT }, &error),
                HF_INVALID);
    }
    const struct span beats[] = { SPAN_US(0), SPAN_MS(99), SPAN_S(3601), SPAN_S(-5) };
    for (size_t i = 0; i < sizeof beats / sizeof *beats; i++) {
        assert_int_equal(roster_join(&roster, kit->store,
                                     &(struct roster_options){ GROUP, VIEW("a"), VIEW(""),
                                                               beats[i] },
                                     &error),
                         HF_INVALID);
        assert_string_equal(error.why, "the beat must be between 100ms and 1h");
        assert_int_equal(roster_members(kit->store, GROUP, beats[i], false, &arena, &list,
                                        &error),
                         HF_INVALID);
    }
    assert_int_equal(calls(kit, CALL_PUT) + calls(kit, CALL_LIST), 0);
    arena_release(&arena);
}

static void the_longest_names_fit(void **state)
{
    struct kit *kit = *state;
    struct roster roster;
    struct hf_error error;
    char text[ROSTER_GROUP_MAX];
    memset(text, 'g', sizeof text);
    struct view group = { text, ROSTER_GROUP_MAX }, name = { text, FINGERPRINT_MAX };
    char label[400];
    memset(label, '\x01', sizeof label);
    assert_status(HF_OK,
                  roster_join(&roster, kit->store,
                              &(struct roster_options){
                                  group, name, (struct view){ label, sizeof label }, BEAT },
                              &error),
                  &error);
    assert_int_equal(roster.present_count, 1);
    roster_leave(&roster);
}

/* ---- A store that fails -------------------------------------------------------------- */

/* Stands before the kit's store and refuses what it is told to. */
static void refuse(struct script *gate, bool put, bool list)
{
    script_rule(gate, .name = "put", .on = ON_PUT, .fate = put ? LOSE : PASS);
    script_rule(gate, .name = "list", .on = ON_LIST,
                .fate = list ? REFUSE(HF_UNAVAILABLE) : PASS);
}

static void a_store_that_fails_leaves_the_roster_as_it_was(void **state)
{
    struct kit *kit = *state;
    struct script gate;
    struct roster a;
    struct hf_error error;
    script_init(&gate, kit->store);
    put(kit->store, "roster/crew/b");
    assert_status(HF_OK,
                  roster_join(&a, &gate.base,
                              &(struct roster_options){ GROUP, VIEW("a"), VIEW(""), BEAT },
                              &error),
                  &error);
    put(kit->store, "roster/crew/c");
    refuse(&gate, /* put */ false, /* list */ true);
    assert_int_equal(keep(&a, &error), HF_UNAVAILABLE);
    assert_string_equal(error.why, "list roster/crew/: by the script");
    assert_present(&a, "a b");
    refuse(&gate, /* put */ true, /* list */ true);
    assert_int_equal(keep(&a, &error), HF_UNSURE);
    assert_string_equal(error.why, "put roster/crew/a: by the script");
    refuse(&gate, /* put */ true, /* list */ false);
    assert_int_equal(keep(&a, &error), HF_UNSURE); /* the listing goes well all the same */
    assert_present(&a, "a b c");
    roster_leave(&a);
    store_close(&gate.base);
}

static void what_failed_is_tried_again_before_the_next_beat(void **state)
{
    struct kit *kit = *state;
    struct script gate;
    struct roster a;
    struct hf_error error;
    script_init(&gate, kit->store);
    assert_status(HF_OK,
                  roster_join(&a, &gate.base,
                              &(struct roster_options){ GROUP, VIEW("a"), VIEW(""), BEAT },
                              &error),
                  &error);
    struct mono_time now = mono_add(a.beaten, BEAT);
    refuse(&gate, /* put */ true, /* list */ true);
    assert_int_equal(roster_keep(&a, now, &error), HF_UNSURE);
    assert_status(HF_OK, roster_keep(&a, mono_add(now, SPAN_S(2)), &error), &error);
    refuse(&gate, /* put */ false, /* list */ false);
    meter_reset(&kit->meter);
    assert_status(HF_OK, roster_keep(&a, mono_add(now, SPAN_MS(2500)), &error), &error);
    assert_int_equal(calls(kit, CALL_PUT), 1);
    assert_int_equal(calls(kit, CALL_LIST), 1);
    roster_leave(&a);
    store_close(&gate.base);
}

static void who_cannot_join_leaves_nothing(void **state)
{
    struct kit *kit = *state;
    struct script gate;
    struct roster a;
    struct hf_error error;
    script_init(&gate, kit->store);
    refuse(&gate, /* put */ true, /* list */ false);
    assert_int_equal(roster_join(&a, &gate.base,
                                 &(struct roster_options){ GROUP, VIEW("a"), VIEW(""), BEAT },
                                 &error),
                     HF_UNSURE);
    refuse(&gate, /* put */ false, /* list */ true);
    assert_int_equal(roster_join(&a, &gate.base,
                                 &(struct roster_options){ GROUP, VIEW("a"), VIEW(""), BEAT },
                                 &error),
                     HF_UNAVAILABLE);
    assert_false(exists(kit->store, "roster/crew/a"));
    store_close(&gate.base);
}

/* ---- Memory that fails --------------------------------------------------------------- */

static void join_or_fail(struct kit *kit, long after, bool *ret_failed)
{
    struct roster a;
    struct hf_error error;
    alloc_fail_after(after);
    enum hf_status status =
        roster_join(&a, kit->store,
                    &(struct roster_options){ GROUP, VIEW("zz"), VIEW("label"), BEAT }, &error);
    *ret_failed = alloc_stop();
    if (status == HF_OK)
        roster_release(&a);
    else
        assert_true(status == HF_UNAVAILABLE || status == HF_UNSURE);
    assert_true(*ret_failed || status == HF_OK);
}

static void keep_or_fail(struct roster *roster, long after, bool *ret_failed)
{
    struct hf_error error;
    size_t before = roster->present_count;
    alloc_fail_after(after);
    enum hf_status status = keep(roster, &error);
    *ret_failed = alloc_stop();
    assert_true(status == HF_OK || status == HF_UNAVAILABLE || status == HF_UNSURE);
    assert_true(*ret_failed || status == HF_OK);
    assert_int_equal(roster->present_count, before);
}

static void each_allocation_may_fail(void **state)
{
    struct kit *kit = *state;
    struct roster roster;
    bool failed = true;
    put_members(kit, 300);
    long n = 0;
    for (; failed; n++)
        join_or_fail(kit, n, &failed);
    assert_true(n > 5);
    join(kit, &roster, "zz");
    failed = true;
    for (n = 0; failed; n++)
        keep_or_fail(&roster, n, &failed);
    assert_true(n > 5);
    roster_leave(&roster);
}

#define ON(sentence, function)                                           \
    { sentence ", in memory", function, set_up_mem, tear_down, NULL },   \
    {                                                                    \
        sentence ", in sqlite", function, set_up_sqlite, tear_down, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON("members see each other come and go", members_see_each_other),
        ON("joining and beating are a put and a listing, and nothing in between",
           joining_and_beating_are_a_put_and_a_listing),
        ON("an object tells people who it is", an_object_tells_people_who_it_is),
        ON("a name is drawn where none is given", a_name_is_drawn_where_none_is_given),
        ON("who misses three beats is absent, and who beats again is back",
           who_misses_three_beats_is_absent_and_who_beats_again_is_back),
        ON("who looks from outside finds none of a group that died",
           who_looks_from_outside_finds_none_of_a_group_that_died),
        ON("a look from outside may judge each member by its own interval",
           members_are_judged_by_their_own_intervals_on_request),
        ON("members compare times with the newest of the group, and with no clock of ours",
           members_compare_times_with_the_newest_and_with_no_clock_of_ours),
        ON("we are always among those present", we_are_always_among_those_present),
        ON("what the dead leave is deleted by who finds it",
           what_the_dead_leave_is_deleted_by_who_finds_it),
        ON("a member that died with its clock ahead hides nobody else",
           a_clock_that_was_ahead_hides_nobody),
        ON("so many of the dead are deleted at once, and no more",
           so_many_of_the_dead_at_once_and_no_more),
        ON("a crash leaves an object, which the next life takes over",
           a_crash_leaves_an_object),
        ON("garbage in the folder is passed over", garbage_in_the_folder_is_passed_over),
        ON("thousands of members come in pages", thousands_of_members_come_in_pages),
        ON("beyond the bound nobody is looked at but ourselves",
           beyond_the_bound_nobody_is_looked_at_but_ourselves),
        ON("what is no name, and no beat, is refused", what_is_no_name_and_no_beat_is_refused),
        ON("the longest names fit", the_longest_names_fit),
        ON("a store that fails leaves the roster as it was",
           a_store_that_fails_leaves_the_roster_as_it_was),
        ON("what failed is tried again before the next beat",
           what_failed_is_tried_again_before_the_next_beat),
        ON("who cannot join leaves nothing", who_cannot_join_leaves_nothing),
        ON("each allocation may fail", each_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("roster", tests, NULL, NULL);
}
