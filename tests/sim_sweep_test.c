/* SPDX-License-Identifier: Apache-2.0 */
/* sim_sweep_test.c: the simulator's checks of sweeping, on tables and entries that the test
 * writes and removes by hand: correct histories pass, and each fault is found. */
#include "base/layout.h"
#include "checker_kit.h"
#include "sim/checkers/sweep_checker.h"

#define TABLE "default/meta/door.json"
#define EARLY "default/.lease-index/2020010100/meta/door.json"
#define LATER "default/.lease-index/2020010105/meta/door.json"
#define EPOCH ".holdfast/epoch/default.json"
#define ENTRY "{ \"write\": \"n\" }"
#define LATE  SPAN_S(100)

#define HELD   "\"leases\":{\"l\":{\"lease_id\":\"l\",\"token\":3,\"status\":\"active\"}}"
#define OVER   "\"leases\":{}"
#define WAITED "\"leases\":{},\"waiters\":[{\"lease_id\":\"w\"}]"

/* ---- Histories ------------------------------------------------------------------------- */

static void put_table(struct history *history, const char *members)
{
    history_put(history, TABLE,
                text(history, "{\"format\":\"holdfast.lease-table/1\",\"next_token\":4,%s}",
                     members));
}

static void begin(struct history *history)
{
    struct sweep_checker_options options = { .late_bound = LATE, .hour = SPAN_S(3600) };
    history->checker = sweep_checker_new(&history->run, &options);
}

static void end(struct history *history)
{
    sweep_checker_free(history->checker);
}

static const struct court court = { begin, end };

static void told(struct history *history, enum hf_status status, uint64_t ops)
{
    struct sweep_options options = { .settings = SWEEP_SETTINGS };
    struct sweep_report report = { .ops = ops };
    options.settings.ops_max = 5;
    sweep_checker_begins(history->checker, history->node);
    sweep_checker_told(history->checker, history->node, &options, status, &report);
}

/* ---- Stories that are well --------------------------------------------------------------- */

static void cleared_and_purged(struct history *history)
{
    put_table(history, HELD);
    history_put(history, EARLY, ENTRY);
    history_pass(history, SPAN_S(10));
    put_table(history, OVER);
    history_put(history, LATER, ENTRY);
    take(history, EARLY);
    history_pass(history, LATE);
    history_put(history, EPOCH, "{\"epoch\":1}");
    take(history, TABLE);
    take(history, LATER);
    told(history, HF_OK, 5);
    sweep_checker_end(history->checker, history->node);
}

static void an_entry_that_moves(struct history *history)
{
    put_table(history, HELD);
    history_put(history, EARLY, ENTRY);
    history_pass(history, SPAN_S(10));
    history_put(history, LATER, ENTRY);
    take(history, EARLY);
}

static void a_lease_without_an_entry(struct history *history)
{
    put_table(history, HELD);
    sweep_checker_end(history->checker, history->node);
}

/* ---- Stories that are not ---------------------------------------------------------------- */

static void the_last_entry_goes(struct history *history)
{
    put_table(history, HELD);
    history_put(history, EARLY, ENTRY);
    history_pass(history, SPAN_S(10));
    take(history, EARLY);
}

static void an_entry_of_no_hour(struct history *history)
{
    history_put(history, "default/.lease-index/today/meta/door.json", ENTRY);
}

static void purged_with_a_lease(struct history *history)
{
    put_table(history, HELD);
    history_pass(history, LATE);
    history_put(history, EPOCH, "{\"epoch\":1}");
    take(history, TABLE);
}

static void purged_with_a_waiter(struct history *history)
{
    put_table(history, WAITED);
    history_pass(history, LATE);
    history_put(history, EPOCH, "{\"epoch\":1}");
    take(history, TABLE);
}

static void purged_too_soon(struct history *history)
{
    put_table(history, OVER);
    history_pass(history, SPAN_US(LATE.us / 2));
    history_put(history, EPOCH, "{\"epoch\":1}");
    take(history, TABLE);
}

static void purged_in_its_epoch(struct history *history)
{
    put_table(history, OVER);
    history_pass(history, LATE);
    take(history, TABLE);
}

static void an_epoch_that_falls(struct history *history)
{
    history_put(history, EPOCH, "{\"epoch\":2}");
    history_put(history, EPOCH, "{\"epoch\":1}");
}

static void too_much_is_looked_at(struct history *history)
{
    told(history, HF_OK, 6);
}

static void a_sweep_that_finds_damage(struct history *history)
{
    told(history, HF_CORRUPT, 0);
}

static void held_and_not_entered(struct history *history)
{
    put_table(history, HELD);
    sweep_checker_held(history->checker, history->node, VIEW(TABLE));
}

static void an_entry_in_the_end(struct history *history)
{
    history_put(history, EARLY, ENTRY);
    sweep_checker_end(history->checker, history->node);
}

static void an_entry_of_a_transaction_in_the_end(struct history *history)
{
    history_put(history, LAYOUT_TXN_EXPIRY_FOLDER "2020010100/t", ENTRY);
    sweep_checker_end(history->checker, history->node);
}

static void a_lease_in_the_end(struct history *history)
{
    put_table(history, HELD);
    history_put(history, "default/.lease-index/9998010100/meta/door.json", ENTRY);
    sweep_checker_end(history->checker, history->node);
}

/* ---- The table --------------------------------------------------------------------------- */

static void good_stories_pass(void **state)
{
    (void)state;
    TELL(&court, { cleared_and_purged, NULL }, { an_entry_that_moves, NULL },
         { a_lease_without_an_entry, NULL });
}

static void entries_tell_of_what_lives(void **state)
{
    (void)state;
    TELL(&court,
         { the_last_entry_goes, "the last entry of " TABLE " goes, where token 3 is active" },
         { an_entry_of_no_hour, "is of no hour" },
         { held_and_not_entered, "for hours, and no entry tells of it" });
}

static void tables_are_purged_when_nobody_needs_them(void **state)
{
    (void)state;
    TELL(&court, { purged_with_a_lease, TABLE " is purged, and has a lease" },
         { purged_with_a_waiter, TABLE " is purged, and somebody waits there" },
         { purged_too_soon, "us after it was used" },
         { purged_in_its_epoch, "and the epoch is not above its tokens" },
         { an_epoch_that_falls, "the epoch is 1, and was 2" });
}

static void a_sweep_keeps_to_its_caps(void **state)
{
    (void)state;
    TELL(&court, { too_much_is_looked_at, "looks at 6 entries, and may at 5" },
         { a_sweep_that_finds_damage, "sweeps, and is told CORRUPT" });
}

static void nothing_dead_is_left_in_the_end(void **state)
{
    (void)state;
    TELL(&court, { an_entry_in_the_end, "is left, of an hour that is over" },
         { an_entry_of_a_transaction_in_the_end, "is left, of an hour that is over" },
         { a_lease_in_the_end, "in the end " TABLE " is leased, and had an entry" });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("good stories pass", good_stories_pass),
        IT("entries tell of what lives", entries_tell_of_what_lives),
        IT("tables are purged when nobody needs them",
           tables_are_purged_when_nobody_needs_them),
        IT("a sweep keeps to its caps", a_sweep_keeps_to_its_caps),
        IT("nothing dead is left in the end", nothing_dead_is_left_in_the_end),
    };
    return cmocka_run_group_tests_name("sim_sweep_test", tests, NULL, NULL);
}
