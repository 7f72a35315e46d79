/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_memory_test.c: the recorded progress of sweeps, where they resume, and the work that is
 * left. */
#include "base/layout.h"
#include "sweep_kit.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

/* ---- What is remembered -------------------------------------------------------------- */

#define MEMORY LAYOUT_SWEEP_FOLDER "default.json"

static struct sweep_memory some_memory(void)
{
    struct sweep_memory memory = {
        .cursor = { .lease_entry = ENTRIES "2026010811/meta/\"a\".json",
                    .txn_entry = TXN_ENTRIES "2026010811/0123",
                    .partition = "eu",
                    .full = "default/meta/z.json",
                    .turn = 2,
                    .raised_hour = 491075 },
        .last = { .runs = 1,
                  .ops = 7,
                  .stop = HF_SWEEP_STOP_ACTIVITY,
                  .stopped_by_activity = 1 },
        .at = { KIT_BEGIN_S * 1000000 },
    };
    memory.last.duration = SPAN_MS(1500);
    sweep_report_add(&memory.total, &memory.last);
    memory.last.stop = HF_SWEEP_STOP_OPS;
    sweep_report_add(&memory.total, &memory.last);
    return memory;
}

static struct sweep_memory recall(struct sweep_kit *kit)
{
    struct sweep_memory memory;
    memset(&memory, 0xff, sizeof memory);
    MUST(sweep_recall(kit->one.client, false, &memory, &error));
    return memory;
}

static void what_is_remembered_is_recalled(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_memory memory = some_memory();
    assert_int_equal(recall(kit).total.runs, 0); /* there is none */
    MUST(sweep_remember(kit->one.client, false, &memory, &error));
    struct sweep_memory again = recall(kit);
    assert_string_equal(again.cursor.lease_entry, memory.cursor.lease_entry);
    assert_string_equal(again.cursor.txn_entry, memory.cursor.txn_entry);
    assert_string_equal(again.cursor.partition, "eu");
    assert_string_equal(again.cursor.full, memory.cursor.full);
    assert_int_equal(again.cursor.turn, 2);
    assert_int_equal(again.cursor.raised_hour, 491075);
    assert_int_equal(again.at.us, memory.at.us);
    assert_int_equal(again.last.ops, 7);
    assert_int_equal(again.last.stop, HF_SWEEP_STOP_OPS);
    assert_int_equal(again.total.ops, 14);
    assert_int_equal(again.total.runs, 2);
    assert_int_equal(again.total.stopped_by_activity, 2);
    assert_int_equal(again.total.duration.us, SPAN_S(3).us);
    assert_int_equal(again.total.stop, HF_SWEEP_STOP_OPS);
    assert_memory_equal(&again.last, &memory.last, sizeof memory.last);
    assert_memory_equal(&again.total, &memory.total, sizeof memory.total);
}

static void unknown_members_are_passed_over(void **state)
{
    struct sweep_kit *kit = *state;
    world_write(&kit->world, MEMORY,
                VIEW("{\"later\":[{\"a\":1}],\"format\":\"" LAYOUT_SWEEP_FORMAT
                     "\",\"at_ms\":5,"
                     "\"cursor\":{\"turn\":1,\"moon\":{}},"
                     "\"total\":{\"ops\":3,\"stop\":\"eclipse\",\"comets\":4}}"));
    struct sweep_memory memory = recall(kit);
    assert_int_equal(memory.cursor.turn, 1);
    assert_int_equal(memory.total.ops, 3);
    assert_int_equal(memory.at.us, 5000);
}

static void damage_is_forgotten(void **state)
{
    struct sweep_kit *kit = *state;
    const struct sweep_memory nothing = { 0 };
    struct sweep_memory memory = some_memory();
    MUST(sweep_remember(kit->one.client, false, &memory, &error));
    char *text = world_text(&kit->world, MEMORY);
    for (size_t size = 0; size + 2 < strlen(text); size++) { /* a newline ends it */
        world_write(&kit->world, MEMORY, (struct view){ text, size });
        memory = recall(kit);
        assert_memory_equal(&memory, &nothing, sizeof memory);
    }
    free(text);
    const char *const strange[] = {
        "[]",
        "{\"format\":\"holdfast.sweep/2\"}",
        "{\"format\":\"" LAYOUT_SWEEP_FORMAT "\"",
        "{\"format\":\"" LAYOUT_SWEEP_FORMAT "\",\"at_ms\":9223372036854775807}",
        "{\"format\":\"" LAYOUT_SWEEP_FORMAT "\",\"cursor\":{\"turn\":-1}}",
        "{\"format\":\"" LAYOUT_SWEEP_FORMAT "\",\"last\":{\"duration_ms\":-1}}",
        "{\"format\":\"" LAYOUT_SWEEP_FORMAT "\",\"total\":{\"ops\":\"many\"}}"
    };
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        world_write(&kit->world, MEMORY, view_of(strange[i]));
        memory = recall(kit);
        assert_memory_equal(&memory, &nothing, sizeof memory);
    }
    char *large = bytes_of(100000, 1);
    world_write(&kit->world, MEMORY, (struct view){ large, 100000 });
    free(large);
    memory = recall(kit);
    assert_memory_equal(&memory, &nothing, sizeof memory);
    way_shut(&kit->one.way, "", REFUSE(HF_UNAVAILABLE)); /* nobody knows */
    IS(HF_UNAVAILABLE, sweep_recall(kit->one.client, false, &memory, &error));
}

/* The next run is added to what is read. */
static void what_cannot_be_added_up_is_damage(void **state)
{
    struct sweep_kit *kit = *state;
    world_write(&kit->world, MEMORY,
                VIEW("{\"format\":\"" LAYOUT_SWEEP_FORMAT "\",\"at_ms\":5,"
                     "\"total\":{\"duration_ms\":9223372036854775}}"));
    struct sweep_memory memory = recall(kit);
    const struct sweep_report longest = { .duration = SWEEP_RUNTIME_MAX };
    sweep_report_add(&memory.total, &longest);
    assert_int_equal(memory.total.duration.us, longest.duration.us);
}

/* A cursor that leads nowhere is a place to begin from. */
static void a_strange_cursor_does_no_harm(void **state)
{
    struct sweep_kit *kit = *state;
    const char *const strange[] = { "?", ENTRIES, ENTRIES "2026010811", ENTRIES "9999123123/z",
                                    "default/.lease-indey/2026010811/meta/a.json" };
    leave_locks(kit, "a", 10, 60000);
    pass(kit, HOURS(2));
    for (size_t i = 0; i < 5; i++) {
        snprintf(kit->cursor.lease_entry, sizeof kit->cursor.lease_entry, "%s", strange[i]);
        snprintf(kit->cursor.txn_entry, sizeof kit->cursor.txn_entry, "%s", strange[i]);
        snprintf(kit->cursor.partition, sizeof kit->cursor.partition, "%s", "../..");
        kit->cursor.turn = UINT64_MAX;
        assert_int_equal(run(kit).stop, HF_SWEEP_STOP_DONE);
    }
    assert_int_equal(leases(kit, "a9"), 0);
}

static void what_is_due_is_counted(void **state)
{
    struct sweep_kit *kit = *state;
    struct hf_sweep_due due;
    char name[][NAME_BYTES_MAX + 1] = { "default" };
    const struct sweep_names names = { name, 1 };
    leave_locks(kit, "a", 3, 60000);
    pass(kit, HOURS(1));
    leave_locks(kit, "b", 2, 60000);
    world_write(&kit->world, TXN_ENTRIES "2026010810/0123", VIEW("{}"));
    world_write(&kit->world, TXN_ENTRIES "2026020810/0123", VIEW("{}"));
    world_write(&kit->world, TXN_ENTRIES "someday/0123", VIEW("{}"));
    MUST(sweep_due(kit->one.client, &names, &due, &error));
    assert_int_equal(due.lease_hours, 1);
    assert_int_equal(due.lease_entries, 3);
    assert_int_equal(due.txn_hours, 1);
    assert_int_equal(due.txn_entries, 1);
    assert_int_equal(due.later_hours, 2);
    assert_false(due.more);
    for (int i = 0; i < 20; i++) { /* more hours than are looked into */
        enter(kit, "a0");
        pass(kit, HOURS(1));
    }
    requests(kit);
    MUST(sweep_due(kit->one.client, &names, &due, &error));
    assert_true(due.more);
    assert_true(requests(kit) <= 17);
    way_shut(&kit->one.way, "", REFUSE(HF_UNAVAILABLE));
    IS(HF_UNAVAILABLE, sweep_due(kit->one.client, &names, &due, &error));
}

static void each_reason_has_a_word(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HF_SWEEP_STOP_COUNT; i++) {
        assert_true(strlen(hf_sweep_stop_name((enum hf_sweep_stop)i)) > 0);
        assert_true(strlen(hf_sweep_stop_text((enum hf_sweep_stop)i)) > 0);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(hf_sweep_stop_name((enum hf_sweep_stop)i),
                                    hf_sweep_stop_name((enum hf_sweep_stop)j));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SWEEP("what is remembered is recalled", what_is_remembered_is_recalled),
        SWEEP("unknown members are passed over", unknown_members_are_passed_over),
        SWEEP("what is damaged is forgotten", damage_is_forgotten),
        SWEEP("a duration that cannot be added up is damage",
              what_cannot_be_added_up_is_damage),
        SWEEP("a cursor that leads nowhere does no harm", a_strange_cursor_does_no_harm),
        SWEEP("what is due is counted, up to a bound", what_is_due_is_counted),
        IT("each reason to stop has a word and a sentence", each_reason_has_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
