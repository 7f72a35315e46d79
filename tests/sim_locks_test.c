/* sim_locks_test.c: the judges of locks, shown tables that are made by hand: each must be judged as
 * it deserves. */
#include "sim/judge_lock.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_KEY "default/meta/door.json"

/* ---- Scopes and modes ---------------------------------------------------------------- */

static struct judged_wish wish_of(const char *scope, enum judged_mode mode)
{
    struct judged_wish wish = { .mode = mode, .scope_count = 1 };
    assert_true(judged_scope_read(view_of(scope), &wish.scopes[0]));
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
        struct judged_wish a = wish_of(rows[i].a, JUDGED_EXCLUSIVE);
        struct judged_wish b = wish_of(rows[i].b, JUDGED_EXCLUSIVE);
        if (judged_conflict(&a, &b) != rows[i].conflict ||
            judged_conflict(&b, &a) != rows[i].conflict)
            fail_msg("%s and %s", rows[i].a, rows[i].b);
    }
}

static void modes_conflict_as_they_should(void **state)
{
    (void)state;
    struct judged_wish alone = wish_of("a", JUDGED_EXCLUSIVE);
    struct judged_wish shared = wish_of("a", JUDGED_SHARED);
    struct judged_wish slot = wish_of("a", JUDGED_SLOTS);
    assert_true(judged_conflict(&alone, &shared));
    assert_true(judged_conflict(&shared, &slot));
    assert_false(judged_conflict(&shared, &shared));
    assert_true(judged_share_slots(&slot, &slot));
    assert_false(judged_share_slots(&slot, &shared));
}

/* ---- Histories ----------------------------------------------------------------------- */

struct history {
    struct run run;
    struct judge_lock *judge;
};

static struct history history_begin(void)
{
    struct history history = { .judge = NULL };
    struct world_options world_options = WORLD_OPTIONS;
    struct net_options net_options = NET_OPTIONS;
    history.run.world = world_new(&world_options);
    history.run.net = net_new(history.run.world, &net_options);
    return history;
}

/* The run's address must not change once the judge knows it. */
static void history_watch(struct history *history)
{
    struct judge_lock_options options = { .exclusion = true, .store_time = true };
    history->judge = judge_lock_new(&history->run, &options);
}

static void history_end(struct history *history)
{
    world_stop(history->run.world);
    judge_lock_free(history->judge);
    net_free(history->run.net);
    world_free(history->run.world);
}

static void write_table(struct history *history, const char *text)
{
    struct put_call put = { .key = VIEW(TABLE_KEY), .body = view_of(text) };
    bucket_put(net_bucket(history->run.net), &put);
}

#define TABLE(next, rest) \
    "{\"format\":\"holdfast.leases/1\",\"next_token\":" #next ",\"write\":\"n\"" rest "}"
#define LEASE(id, token, mode, more)                                                   \
    "\"" id "\":{\"lease_id\":\"" id "\",\"scopes\":[\"named:door\"],\"mode\":\"" mode \
    "\",\"token\":" #token ",\"status\":\"active\"" more "}"
#define LEASES(leases)   ",\"leases\":{" leases "}"
#define WAITERS(waiters) ",\"waiters\":[" waiters "]"
#define WAITER(id)       "{\"lease_id\":\"" id "\",\"scopes\":[\"named:door\"]}"

/* Shows these versions one after the other; what the judge says of it all must have these words.
 * NULL: nothing. */
static void expect(const char *words, const char *const *versions, size_t count)
{
    struct history history = history_begin();
    history_watch(&history);
    for (size_t i = 0; i < count; i++)
        write_table(&history, versions[i]);
    const char *failure = world_failure(history.run.world);
    if (words && (!failure || !strstr(failure, words)))
        fail_msg("not '%s' but '%s'", words, failure ? failure : "nothing");
    if (!words && failure)
        fail_msg("'%s'", failure);
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

static void what_is_no_table(void **state)
{
    (void)state;
    EXPECT("is no table", "");
    EXPECT("is no table", "{\"format\":");
    EXPECT("without a format", "{\"leases\":{}}");
}

static void damage_is_not_held_against_anybody(void **state)
{
    (void)state;
    struct history history = history_begin();
    history_watch(&history);
    write_table(&history, TABLE(2, LEASES(LEASE("a-1", 1, "exclusive", ""))));
    judge_damage(history.judge, VIEW(TABLE_KEY), VIEW("garbage"), DAMAGE_VISIBLE);
    write_table(&history, TABLE(4294967298, LEASES("")));
    assert_null(world_failure(history.run.world));
    write_table(&history, TABLE(4294967298, LEASES(LEASE("b-1", 1, "exclusive", ""))));
    assert_non_null(strstr(world_failure(history.run.world), "active again"));
    history_end(&history);
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
        IT("what is no table is noticed", what_is_no_table),
        IT("damage is nobody's fault, and forgets no token",
           damage_is_not_held_against_anybody),
    };
    int failed = cmocka_run_group_tests_name("sim_locks", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
