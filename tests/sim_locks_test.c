/* SPDX-License-Identifier: Apache-2.0 */
/* sim_locks_test.c: the simulator's checks of locks, on tables that the test writes by hand:
 * correct histories pass, and each fault is found. */
#include "base/check.h"
#include "lock/client_inside.h"
#include "sim/checkers/lock_checker.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_KEY "default/meta/door.json"

/* ---- Scopes and modes ---------------------------------------------------------------- */

static struct checked_wish wish_of(const char *scope, enum checked_mode mode)
{
    struct checked_wish wish = { .mode = mode, .scope_count = 1 };
    assert_true(checked_scope_read(view_of(scope), &wish.scopes[0]));
    return wish;
}

static void scopes_conflict_as_they_should(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool conflict;
    } rows[] = {
        { "named:a", "a", true },
        { "named:a", "named:ab", false },
        { "path:/a/b", "tree:/a", true },
        { "path:/ab", "tree:/a", false },
        { "tree:/a/b", "tree:/a", true },
        { "tree:/", "path:/x", true },
        { "path:/a", "path:/a/b", false },
        { "inode:7", "range:7:5-6", true },
        { "inode:7", "range:8:5-6", false },
        { "range:7:0-10", "range:7:10-20", false },
        { "range:7:0-11", "range:7:10-20", true },
        { "range:7:0-", "range:7:1000-2000", true },
        { "chunk:x", "chunk:x", true },
        { "chunk:x", "pin:x", false },
        { "pin:x", "pin:x", false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct checked_wish a = wish_of(rows[i].a, CHECKED_EXCLUSIVE);
        struct checked_wish b = wish_of(rows[i].b, CHECKED_EXCLUSIVE);
        if (checked_conflict(&a, &b) != rows[i].conflict ||
            checked_conflict(&b, &a) != rows[i].conflict)
            fail_msg("%s and %s", rows[i].a, rows[i].b);
    }
}

static void modes_conflict_as_they_should(void **state)
{
    (void)state;
    struct checked_wish alone = wish_of("a", CHECKED_EXCLUSIVE);
    struct checked_wish shared = wish_of("a", CHECKED_SHARED);
    struct checked_wish slot = wish_of("a", CHECKED_SLOTS);
    assert_true(checked_conflict(&alone, &shared));
    assert_true(checked_conflict(&shared, &slot));
    assert_false(checked_conflict(&shared, &shared));
    assert_true(checked_share_slots(&slot, &slot));
    assert_false(checked_share_slots(&slot, &shared));
}

/* ---- Histories ----------------------------------------------------------------------- */

struct history {
    struct run run;
    struct lock_checker *checker;
    struct node *node; /* node 1, which is down unless a story runs on it */
};

static struct history history_begin(void)
{
    struct history history = { .checker = NULL };
    struct world_options world_options = WORLD_OPTIONS;
    struct net_options net_options = NET_OPTIONS;
    history.run.world = world_new(&world_options);
    history.run.net = net_new(history.run.world, &net_options);
    struct node_options node_options = NODE_OPTIONS;
    node_options.may_leak = true; /* stories stop where they are */
    history.node = node_new(history.run.world, &node_options);
    return history;
}

/* The run's address must not change once the checker knows it. */
static void history_watch(struct history *history)
{
    struct lock_checker_options options = { .exclusion = true, .own_clock = true };
    history->checker = lock_checker_new(&history->run, &options);
}

static void history_end(struct history *history)
{
    world_stop(history->run.world);
    lock_checker_free(history->checker);
    net_free(history->run.net);
    world_free(history->run.world);
}

/* By nobody's request. */
static void write_at(struct history *history, const char *key, const char *text)
{
    struct put_call put = { .key = view_of(key), .body = view_of(text) };
    struct heap *before = heap_enter(NULL);
    bucket_put(net_bucket(history->run.net), &put);
    heap_enter(before);
}

static void write_table(struct history *history, const char *text)
{
    write_at(history, TABLE_KEY, text);
}

/* What the checker has said must have these words. NULL: nothing. */
static void expect_words(const struct history *history, const char *words)
{
    const char *failure = world_failure(history->run.world);
    if (words && (!failure || !strstr(failure, words)))
        fail_msg("not '%s' but '%s'", words, failure ? failure : "nothing");
    if (!words && failure)
        fail_msg("'%s'", failure);
}

#define TABLE(next, rest) \
    "{\"format\":\"holdfast.leases/1\",\"next_token\":" #next ",\"write\":\"n\"" rest "}"
#define LEASE(id, token, mode, more)                                                   \
    "\"" id "\":{\"lease_id\":\"" id "\",\"scopes\":[\"named:door\"],\"mode\":\"" mode \
    "\",\"token\":" #token ",\"status\":\"active\"" more "}"
#define LEASES(leases)   ",\"leases\":{" leases "}"
#define WAITERS(waiters) ",\"waiters\":[" waiters "]"
#define WAITER(id)       "{\"lease_id\":\"" id "\",\"scopes\":[\"named:door\"]}"

/* Shows these versions one after the other; what the checker says of it all must have these words.
 * NULL: nothing. */
static void expect(const char *words, const char *const *versions, size_t count)
{
    struct history history = history_begin();
    history_watch(&history);
    for (size_t i = 0; i < count; i++)
        write_table(&history, versions[i]);
    expect_words(&history, words);
    history_end(&history);
}

#define EXPECT(words, ...)                                              \
    do {                                                                \
        static const char *const versions_[] = { __VA_ARGS__ };         \
        expect(words, versions_, sizeof versions_ / sizeof *versions_); \
    } while (0)

static void good_histories_pass(void **state)
{
    (void)state;
    EXPECT(NULL, TABLE(0, ""), TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", ""))),
           TABLE(2, LEASES("")), TABLE(3, LEASES(LEASE("b-1", 2, "exclusive", ""))));
    EXPECT(NULL,
           TABLE(3, LEASES(LEASE("a-1", 1, "shared", "") "," LEASE("b-1", 2, "shared", ""))));
    EXPECT(NULL, TABLE(3, LEASES(LEASE("a-1", 1, "slots", ",\"slots\":2") "," LEASE(
                              "b-1", 2, "slots", ",\"slots\":2"))));
}

static void two_holders_in_one_table(void **state)
{
    (void)state;
    EXPECT("both token 1 and token 2 hold",
           TABLE(3,
                 LEASES(LEASE("a-1", 1, "exclusive", "") "," LEASE("b-1", 2, "shared", ""))));
    EXPECT("both token 1 and token 2 hold",
           TABLE(3, LEASES(LEASE("a-1", 1, "slots", ",\"slots\":1") "," LEASE(
                        "b-1", 2, "slots", ",\"slots\":1"))));
}

static void tokens_that_fall(void **state)
{
    (void)state;
    EXPECT("grants token 4 after token 5", TABLE(6, LEASES(LEASE("a-1", 5, "exclusive", ""))),
           TABLE(6, LEASES("")), TABLE(6, LEASES(LEASE("b-1", 4, "exclusive", ""))));
    EXPECT("the next token of " TABLE_KEY " falls from 6 to 2", TABLE(6, LEASES("")),
           TABLE(2, LEASES("")));
}

static void what_was_over_is_active_again(void **state)
{
    (void)state;
    EXPECT("was over, and is active again", TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", ""))),
           TABLE(2, LEASES("")), TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", ""))));
}

static void one_who_waits_is_overtaken(void **state)
{
    (void)state;
    EXPECT("w-1 of " TABLE_KEY ", who waited longer, is overtaken by token 1",
           TABLE(1, WAITERS(WAITER("w-1") "," WAITER("w-2"))),
           TABLE(2, LEASES(LEASE("w-2", 1, "exclusive", "")) WAITERS(WAITER("w-1"))));
    EXPECT(NULL, TABLE(1, WAITERS(WAITER("w-1") "," WAITER("w-2"))),
           TABLE(2, LEASES(LEASE("w-1", 1, "exclusive", "")) WAITERS(WAITER("w-2"))));
    EXPECT(NULL, TABLE(1, WAITERS(WAITER("w-1") "," WAITER("w-2") "," WAITER("w-3"))),
           TABLE(2, LEASES(LEASE("w-3", 1, "exclusive", "")) WAITERS(WAITER("w-1"))));
}

#define SLOT_WAITER(id) \
    "{\"lease_id\":\"" id "\",\"scopes\":[\"named:door\"],\"mode\":\"slots\",\"slots\":2}"

#define FIVE(a, b, c, d, e) WAITER(a) "," WAITER(b) "," WAITER(c) "," WAITER(d) "," WAITER(e)
#define FIFTEEN                                                                           \
    FIVE("w-1", "w-2", "w-3", "w-4", "w-5")                                               \
    "," FIVE("w-6", "w-7", "w-8", "w-9", "w-10") "," FIVE("w-11", "w-12", "w-13", "w-14", \
                                                          "w-15")

static void missed_turns_let_some_overtake(void **state)
{
    (void)state;
    EXPECT(NULL, TABLE(1, ",\"missed\":1" WAITERS(WAITER("w-1") "," WAITER("w-2"))),
           TABLE(2, LEASES(LEASE("w-2", 1, "exclusive", "")) WAITERS(WAITER("w-1"))));
    EXPECT(NULL, TABLE(1, ",\"missed\":1" WAITERS(FIFTEEN "," WAITER("w-16"))),
           TABLE(2, LEASES(LEASE("w-16", 1, "exclusive", "")) WAITERS(FIFTEEN)));
    EXPECT("w-16 of " TABLE_KEY ", who waited longer, is overtaken by token 1",
           TABLE(1, ",\"missed\":1" WAITERS(FIFTEEN "," WAITER("w-16") "," WAITER("w-17"))),
           TABLE(2, LEASES(LEASE("w-17", 1, "exclusive", ""))
                        WAITERS(FIFTEEN "," WAITER("w-16"))));
}

static void slots_are_taken_in_order(void **state)
{
    (void)state;
    EXPECT(
        "is overtaken by token 1", TABLE(1, WAITERS(SLOT_WAITER("w-1") "," SLOT_WAITER("w-2"))),
        TABLE(2, LEASES(LEASE("w-2", 1, "slots", ",\"slots\":2")) WAITERS(SLOT_WAITER("w-1"))));
    EXPECT(NULL, TABLE(1, WAITERS(SLOT_WAITER("w-1") "," SLOT_WAITER("w-2"))),
           TABLE(2, ",\"reserved\":[\"w-1\"]" LEASES(LEASE("w-2", 1, "slots", ",\"slots\":2"))
                        WAITERS(SLOT_WAITER("w-1"))));
}

static void what_is_no_table(void **state)
{
    (void)state;
    EXPECT("is no table", "");
    EXPECT("is no table", "{\"format\":");
    EXPECT("without a format", "{\"leases\":{}}");
}

#define MARK "{\"format\":\"holdfast.leases/2\",\"pages\":5,\"segments\":2}\n"

static void marks_stay_and_spare_tables(void **state)
{
    (void)state;
    EXPECT(NULL, MARK);
    EXPECT("is replaced by a placement mark", TABLE(0, ""), MARK);
    EXPECT("the placement mark " TABLE_KEY " is replaced", MARK, TABLE(0, ""));
}

static void damage_is_not_held_against_anybody(void **state)
{
    (void)state;
    struct history history = history_begin();
    history_watch(&history);
    write_table(&history, TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", ""))));
    checker_damage(history.checker, VIEW(TABLE_KEY), VIEW("garbage"), DAMAGE_VISIBLE);
    write_table(&history, TABLE(4294967298, LEASES("")));
    assert_null(world_failure(history.run.world));
    write_table(&history, TABLE(4294967298, LEASES(LEASE("b-1", 1, "exclusive", ""))));
    assert_non_null(strstr(world_failure(history.run.world), "is granted a second time"));
    history_end(&history);
}

/* ---- Those who ask ------------------------------------------------------------------- */

static const struct lock_wish door = { TABLE_KEY, { "named:door" }, 1, HF_EXCLUSIVE, 0 };
static const struct lock_wish slot = { TABLE_KEY, { "named:door" }, 1, HF_SLOTS, 2 };

/* The first handle of node 1, which has not been booted, has this note. */
#define NOTE       ",\"note\":\"1/0/0\""
#define OUR_WAITER "{\"lease_id\":\"w-1\",\"scopes\":[\"named:door\"]" NOTE "}"
#define CALLED     ",\"reserved\":[\"w-1\"]"

static void checker_refusal(const struct lock_wish *wish, const char *table, const char *words)
{
    struct history history = history_begin();
    history_watch(&history);
    struct claim *claim = claim_checker(history.checker, history.node, wish);
    if (table)
        write_table(&history, table);
    checker_asks(claim, CHECKER_ASKS_ONCE, 0);
    checker_told_held(claim);
    expect_words(&history, words);
    history_end(&history);
}

static void refusals_must_be_true(void **state)
{
    (void)state;
    static const char lie[] = "is held, and nothing was in its way";
    checker_refusal(&door, NULL, lie);
    checker_refusal(&door, TABLE(2, LEASES("")), lie);
    checker_refusal(&door, TABLE(2, WAITERS(OUR_WAITER)), lie);
    checker_refusal(&slot, TABLE(2, LEASES(LEASE("a-1", 1, "slots", ",\"slots\":2"))), lie);
    checker_refusal(&door, TABLE(2, LEASES(LEASE("a-1", 1, "shared", ""))), NULL);
    checker_refusal(&door, TABLE(2, WAITERS(WAITER("w-2"))), NULL);
    checker_refusal(&slot,
                    TABLE(2, LEASES(LEASE("a-1", 1, "slots", ",\"slots\":2"))
                                 WAITERS(SLOT_WAITER("w-1"))),
                    NULL);
}

static void what_was_in_the_way_meanwhile_counts(void **state)
{
    (void)state;
    struct history history = history_begin();
    history_watch(&history);
    struct claim *claim = claim_checker(history.checker, history.node, &door);
    checker_asks(claim, CHECKER_ASKS_ONCE, 0);
    write_table(&history, TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", ""))));
    write_table(&history, TABLE(2, LEASES("")));
    checker_told_held(claim);
    expect_words(&history, NULL);
    checker_asks(claim, CHECKER_ASKS_ONCE, 0); /* by now there is nothing any more */
    checker_told_held(claim);
    expect_words(&history, "nothing was in its way");
    history_end(&history);
}

static void what_was_refused_is_never_granted(void **state)
{
    (void)state;
    for (int unsure = 0; unsure < 2; unsure++) {
        struct history history = history_begin();
        history_watch(&history);
        struct claim *claim = claim_checker(history.checker, history.node, &door);
        checker_asks(claim, CHECKER_ASKS_ONCE, 0);
        checker_refused(claim, unsure ? HF_UNSURE : HF_HELD);
        write_table(&history, TABLE(2, LEASES(LEASE("w-1", 1, "exclusive", NOTE))));
        expect_words(&history, unsure ? NULL : "is granted to node 1, which was told HELD");
        history_end(&history);
    }
}

static void done_already_must_be_true(void **state)
{
    (void)state;
    for (int done = 0; done < 2; done++) {
        struct history history = history_begin();
        history_watch(&history);
        struct claim *claim = claim_checker(history.checker, history.node, &door);
        write_table(&history, TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", ""))));
        write_table(&history, done
                                  ? TABLE(2, LEASES("\"a-1\":{\"lease_id\":\"a-1\",\"token\":1,"
                                                    "\"status\":\"completed\"}"))
                                  : TABLE(2, LEASES("")));
        checker_asks(claim, CHECKER_ASKS_ONCE, 0);
        checker_told_already(claim);
        expect_words(&history, done ? NULL : "done already, and it never was");
        history_end(&history);
    }
}

/* ---- Those who wait ------------------------------------------------------------------ */

struct drop {
    struct history history;
    struct timer timer;
};

static void drop_now(void *argument)
{
    struct drop *drop = argument;
    write_table(&drop->history, TABLE(2, ""));
}

/* One who waits is called, and gone from the line after a while. */
static void checker_drop(const char *called, bool leaves, int64_t after_us, const char *words)
{
    struct drop drop = { .history = history_begin() };
    struct history *history = &drop.history;
    history_watch(history);
    struct claim *claim = claim_checker(history->checker, history->node, &door);
    checker_asks(claim, CHECKER_STANDS_IN_LINE, HF_WAIT_FOREVER);
    write_table(history, called);
    if (leaves)
        checker_leaves(claim);
    world_set_timer(history->run.world, &drop.timer, after_us, drop_now, &drop);
    world_run(history->run.world);
    expect_words(history, words);
    history_end(history);
}

static void nobody_is_put_out_before_its_time(void **state)
{
    (void)state;
    static const char *const early = "is put out of the line";
    const char *called = TABLE(1, CALLED WAITERS(OUR_WAITER));
    const char *waits = TABLE(1, WAITERS(OUR_WAITER));
    const char *slow =
        TABLE(1, CALLED WAITERS("{\"lease_id\":\"w-1\",\"scopes\":[\"named:door\"],"
                                "\"poll_ms\":1000" NOTE "}"));
    checker_drop(called, false, 1990000, early);
    checker_drop(called, false, 2000000, NULL);
    checker_drop(called, true, 1, NULL);
    checker_drop(waits, false, 9000000, early);
    checker_drop(slow, false, 2900000, early);
    checker_drop(slow, false, 3000000, NULL);
}

/* ---- Ends ---------------------------------------------------------------------------- */

#define ENDED(word)                                                          \
    "\"a-1\":{\"lease_id\":\"a-1\",\"scopes\":[\"named:door\"],\"token\":1," \
    "\"status\":\"" word "\"" NOTE "}"

/* The lease of node 1 is ended by nobody's request. */
static void checker_stranger(const char *ended, bool breaks, const char *words)
{
    struct history history = history_begin();
    history_watch(&history);
    claim_checker(history.checker, history.node, &door);
    write_table(&history, TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", NOTE))));
    if (breaks)
        checker_breaks(history.checker, TABLE_KEY, 1);
    write_table(&history, ended);
    expect_words(&history, words);
    history_end(&history);
}

static void only_holders_end_a_lease(void **state)
{
    (void)state;
    checker_stranger(TABLE(2, LEASES("")), false, "which has it not");
    checker_stranger(TABLE(2, LEASES(ENDED("completed"))), false, "which has it not");
    checker_stranger(TABLE(2, LEASES(ENDED("broken"))), false, "which nobody asked for");
    checker_stranger(TABLE(2, LEASES(ENDED("broken"))), true, NULL);
    checker_stranger(TABLE(2, LEASES(ENDED("expired"))), false, NULL);
}

static void checker_rest(const char *table, const char *words)
{
    struct history history = history_begin();
    history_watch(&history);
    checker_freed(claim_checker(history.checker, history.node, &door));
    write_table(&history, table);
    lock_checker_end(history.checker);
    expect_words(&history, words);
    history_end(&history);
}

static void nothing_is_left_at_the_end(void **state)
{
    (void)state;
    checker_rest(TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", ""))), "still held at the end");
    checker_rest(TABLE(2, CALLED WAITERS(OUR_WAITER)), "w-1 still waits");
    checker_rest(TABLE(2, WAITERS(WAITER("w-2"))), "w-2 still waits");
    /* of one who crashed, to be dropped by whoever comes next */
    checker_rest(TABLE(2, ",\"reserved\":[\"w-2\"]" WAITERS(WAITER("w-2"))), NULL);
    checker_rest(TABLE(2, LEASES("\"a-1\":{\"lease_id\":\"a-1\",\"scopes\":[\"pin:x\"],"
                                 "\"token\":1,\"status\":\"active\"}")),
                 NULL);
}

/* ---- Stories of a holder ------------------------------------------------------------- */

struct story {
    struct history history;
    struct hf_lock *lock;
    struct claim *claim;
    void (*tell)(struct story *story);
    char body[4096]; /* that a timer writes: a checker that fails does not return to a task */
    const char *key; /* where; NULL: to the table */
    struct timer timer;
};

static void write_body(void *argument)
{
    struct story *story = argument;
    write_at(&story->history, story->key ? story->key : TABLE_KEY, story->body);
}

static void write_soon(struct story *story)
{
    struct world *world = story->history.run.world;
    world_set_timer(world, &story->timer, world_now_us(world) + 1, write_body, story);
    env_sleep(node_env(story->history.node), SPAN_MS(10));
}

/* The table as it is, with one text in the place of another. */
static void rewrite_table(struct story *story, const char *from, const char *to)
{
    struct view text = bucket_peek(net_bucket(story->history.run.net), VIEW(TABLE_KEY));
    char *at = memmem(text.data, text.size, from, strlen(from));
    check(at && text.size + strlen(to) < sizeof story->body);
    size_t before = (size_t)(at - text.data), after = text.size - before - strlen(from);
    snprintf(story->body, sizeof story->body, "%.*s%s%.*s", (int)before, text.data, to,
             (int)after, at + strlen(from));
    write_soon(story);
}

static void hold_and_tell(struct node *node, void *argument)
{
    struct story *story = argument;
    struct hf_client *client;
    struct hf_error error;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct claim_note note;
    check(client_new(net_store_open(story->history.run.net, node), NULL, &client, &error) ==
          HF_OK);
    story->claim = claim_checker(story->history.checker, node, &door);
    note = checker_note(story->claim);
    options.note = note.text;
    options.ttl_ms = 3000;
    options.no_renewal = true;
    check(hf_lock_new(client, "door", &options, &story->lock, &error) == HF_OK);
    checker_asks(story->claim, CHECKER_ASKS_ONCE, 0);
    check(hf_lock_acquire(story->lock, 0, &error) == HF_OK);
    checker_held(story->claim, story->lock, /* adopted */ false);
    story->tell(story);
    hf_lock_free(story->lock);
    hf_client_close(client);
}

static void expect_story(void (*tell)(struct story *story), const char *words)
{
    struct story story = { .history = history_begin(), .tell = tell };
    history_watch(&story.history);
    node_boot(story.history.node, hold_and_tell, &story);
    world_run(story.history.run.world);
    expect_words(&story.history, words);
    history_end(&story.history);
}

static void sleep_s(struct story *story, int64_t seconds)
{
    env_sleep(node_env(story->history.node), SPAN_S(seconds));
}

static void let_go(struct story *story)
{
    checker_lets_go(story->claim, CHECKER_RELEASES);
    checker_released(story->claim, hf_lock_release(story->lock, NULL));
    checker_freed(story->claim);
}

static void take_it_away(struct story *story)
{
    rewrite_table(story, "\"status\":\"active\"", "\"status\":\"expired\"");
}

static void take_it_away_late(struct story *story)
{
    sleep_s(story, 5);
    take_it_away(story);
}

static void take_it_away_when_told(struct story *story)
{
    sleep_s(story, 5);
    checker_told(story->claim, HF_LOCK_GONE, /* kept */ false);
    take_it_away(story);
    checker_freed(story->claim);
}

static void grant_it_to_another(struct story *story)
{
    rewrite_table(story, "\"leases\":{",
                  "\"leases\":{\"b-1\":{\"lease_id\":\"b-1\",\"scopes\":[\"named:door\"],"
                  "\"token\":9999999999,\"status\":\"active\"},");
}

static void grant_it_in_another_table(struct story *story)
{
    story->key = "default/paths/3.json";
    grant_it_to_another(story);
}

static void stay_silent(struct story *story)
{
    sleep_s(story, 5);
    checker_look(story->history.checker);
    sleep_s(story, 1);
    checker_look(story->history.checker);
}

static void warn_too_late(struct story *story)
{
    sleep_s(story, 5);
    checker_told(story->claim, HF_LOCK_GONE, /* kept */ true);
}

static void warn_in_time(struct story *story)
{
    sleep_s(story, 2);
    checker_told(story->claim, HF_LOCK_DANGER, /* kept */ true);
    sleep_s(story, 3);
    checker_told(story->claim, HF_LOCK_GONE, /* kept */ true);
    checker_freed(story->claim);
}

static void believe_again(struct story *story)
{
    checker_told(story->claim, HF_LOCK_GONE, /* kept */ false);
    checker_look(story->history.checker);
}

static void be_told_of_a_release_that_was_none(struct story *story)
{
    checker_lets_go(story->claim, CHECKER_RELEASES);
    checker_released(story->claim, HF_OK);
}

static void be_told_of_the_wrong_end(struct story *story)
{
    checker_lets_go(story->claim, CHECKER_COMPLETES);
    checker_released(story->claim, hf_lock_release(story->lock, NULL));
}

static void be_told_lost(struct story *story)
{
    checker_lets_go(story->claim, CHECKER_RELEASES);
    check(hf_lock_release(story->lock, NULL) == HF_OK);
    checker_released(story->claim, HF_LOST);
}

static void renew_after_the_end(struct story *story)
{
    checker_lets_go(story->claim, CHECKER_RELEASES);
    checker_released(story->claim, HF_UNSURE);
    sleep_s(story, 1);
    rewrite_table(story, "\"status\":\"active\"", "\"status\":\"active\",\"renewals\":7");
}

static void be_told_twice(struct story *story)
{
    checker_held(claim_checker(story->history.checker, story->history.node, &door), story->lock,
                 /* adopted */ false);
}

static void leave_a_place_in_line(struct story *story)
{
    struct claim *claim = claim_checker(story->history.checker, story->history.node, &door);
    struct claim_note note = checker_note(claim);
    let_go(story);
    snprintf(story->body, sizeof story->body,
             "{\"format\":\"holdfast.leases/"
             "1\",\"next_token\":4294967300,\"write\":\"n\",\"waiters\":"
             "[{\"lease_id\":\"w-1\",\"scopes\":[\"named:door\"],\"note\":%s}]}",
             note.text);
    sleep_s(story, 2);
    write_soon(story);
    checker_quiet(story->history.checker, story->history.node, SPAN_S(10));
    checker_freed(claim);
    checker_quiet(story->history.checker, story->history.node, SPAN_S(10)); /* not yet */
    sleep_s(story, 11);
    checker_quiet(story->history.checker, story->history.node, SPAN_S(10));
}

static void a_good_holder_passes(void **state)
{
    (void)state;
    expect_story(let_go, NULL);
    expect_story(take_it_away_when_told, NULL);
    expect_story(warn_in_time, NULL);
}

static void a_believer_is_not_robbed(void **state)
{
    (void)state;
    expect_story(take_it_away, "is ended while node 1 still believes in it");
    expect_story(grant_it_to_another, "is granted while node 1 still believes");
    expect_story(grant_it_in_another_table, "is granted while node 1 still believes");
    expect_story(believe_again, "again, after it was told that it is gone");
    expect_story(be_told_twice, "was told a second time");
}

static void a_holder_is_told_in_time(void **state)
{
    (void)state;
    expect_story(take_it_away_late, "before node 1 is told that it is gone");
    expect_story(stay_silent, "has long been over for node 1, which was not told");
    expect_story(warn_too_late, "and not before that it was in danger");
}

static void the_end_is_as_it_is_told(void **state)
{
    (void)state;
    expect_story(be_told_of_a_release_that_was_none, "which is active");
    expect_story(be_told_of_the_wrong_end, "which is not there");
    expect_story(be_told_lost, "which it has ended itself");
    expect_story(renew_after_the_end, "is renewed after its work ended");
    expect_story(leave_a_place_in_line, "has long stopped waiting");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("scopes are in each other's way as they should be", scopes_conflict_as_they_should),
        IT("modes are in each other's way as they should be", modes_conflict_as_they_should),
        IT("good histories pass", good_histories_pass),
        IT("two holders in one table are noticed", two_holders_in_one_table),
        IT("tokens that fall are noticed", tokens_that_fall),
        IT("a lease that is revived is noticed", what_was_over_is_active_again),
        IT("one who waits and is overtaken is noticed", one_who_waits_is_overtaken),
        IT("after missed turns so many may be overtaken, and no more",
           missed_turns_let_some_overtake),
        IT("slots are taken in order", slots_are_taken_in_order),
        IT("what is no table is noticed", what_is_no_table),
        IT("a placement mark that replaces a table, or is replaced, is noticed",
           marks_stay_and_spare_tables),
        IT("damage is nobody's fault, and forgets no token",
           damage_is_not_held_against_anybody),
        IT("a refusal that was never true is noticed", refusals_must_be_true),
        IT("a refusal counts for all the time since it was asked",
           what_was_in_the_way_meanwhile_counts),
        IT("what was refused for good and is granted later is noticed",
           what_was_refused_is_never_granted),
        IT("work that is said to be done and is not is noticed", done_already_must_be_true),
        IT("one who waits and is put out before its time is noticed",
           nobody_is_put_out_before_its_time),
        IT("a lease that is ended by a stranger is noticed", only_holders_end_a_lease),
        IT("what is left at the end is noticed", nothing_is_left_at_the_end),
        IT("a holder who does all well passes", a_good_holder_passes),
        IT("one who believes and is robbed is noticed", a_believer_is_not_robbed),
        IT("a holder who is told too late is noticed", a_holder_is_told_in_time),
        IT("an end that is not as it is told is noticed", the_end_is_as_it_is_told),
    };
    int failed = cmocka_run_group_tests_name("sim_locks", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
