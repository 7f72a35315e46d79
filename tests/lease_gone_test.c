/* SPDX-License-Identifier: Apache-2.0 */
/* lease_gone_test.c: waiters whose process has ended. They lose their places in the queue as soon
 * as one of them would get the turn; nobody else does, and no lease ends. */
#include "lease_kit.h"
#include "test.h"

#include <stdio.h>

#define PLACE "01234567"

/* A table with a lock that "z-1" holds, and what the caller of table_apply knows about waiters. The
 * first letter of an id names its session. */
struct scene {
    struct lease_table *table;
    uint64_t token;   /* of z-1 */
    const char *gone; /* the sessions that are gone: one letter each */
    size_t asked;     /* how often the caller was asked */
};

static bool is_gone(void *argument, const struct lease_request *waiter)
{
    struct scene *scene = argument;
    scene->asked++;
    return memchr(scene->gone, waiter->session.data[0], strlen(scene->gone)) != NULL;
}

static enum hf_status act(struct scene *scene, int64_t ms, struct table_op *op)
{
    struct evidence evidence = kit_at(ms);
    op->gone = is_gone;
    op->gone_argument = scene;
    enum hf_status status = table_apply(scene->table, op, &evidence);
    table_check(scene->table);
    return status;
}

static struct table_op ask(struct scene *scene, int64_t ms, const char *id,
                           enum lease_mode mode, bool wait)
{
    struct scope scope;
    char session[2] = { id[0], '\0' };
    struct lease_request wanted = {
        .id = view_of(id),
        .holder = VIEW("tester"),
        .session = view_of(session),
        .place = VIEW(PLACE),
        .wish = { .scopes = &scope,
                  .scope_count = kit_scopes("named:x", &scope, 1),
                  .mode = mode,
                  .slots = mode == LEASE_SLOTS ? 2 : 0,
                  .ttl = SPAN_S(10),
                  .poll = SPAN_MS(100) },
    };
    struct table_op op = { .kind = TABLE_ACQUIRE, .wanted = &wanted, .wait = wait };
    (void)act(scene, ms, &op);
    op.wanted = NULL;
    return op;
}

static void queue(struct scene *scene, const char *id, enum lease_mode mode)
{
    assert_int_equal(ask(scene, 1, id, mode, /* wait */ true).outcome, TABLE_QUEUED);
}

static struct scene scene_open(enum lease_mode mode)
{
    struct scene scene = { .table = kit_table(), .gone = "" };
    struct table_op op = ask(&scene, 0, "z-1", mode, /* wait */ false);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    scene.token = op.granted;
    return scene;
}

static void release_first(struct scene *scene, int64_t ms)
{
    struct table_op op = { .kind = TABLE_RELEASE, .id = VIEW("z-1"), .token = scene->token };
    assert_status(HF_OK, act(scene, ms, &op), &op.error);
}

static bool has_turn(const struct scene *scene, const char *id)
{
    const struct waiter *waiter = kit_waiter(scene->table, id);
    return waiter && waiter->reserved;
}

static void seven_gone_and_one_there(void **state)
{
    (void)state;
    struct scene scene = scene_open(LEASE_EXCLUSIVE);
    for (char c = 'a'; c <= 'h'; c++)
        queue(&scene, (char[]){ c, '-', '1', '\0' }, LEASE_EXCLUSIVE);
    assert_int_equal(scene.asked, 0); /* nobody has a turn */
    scene.table = kit_reload(scene.table, 2);
    scene.gone = "abcdefg";
    release_first(&scene, 3);
    assert_int_equal(scene.table->waiter_count, 1);
    assert_true(has_turn(&scene, "h-1"));
    assert_int_equal(scene.table->missed, 0);
    assert_int_equal(scene.asked, 8);
    table_free(scene.table);
}

static void one_that_is_there_is_asked_about_once(void **state)
{
    (void)state;
    struct scene scene = scene_open(LEASE_EXCLUSIVE);
    scene.gone = "b";
    queue(&scene, "a-1", LEASE_EXCLUSIVE);
    queue(&scene, "b-1", LEASE_EXCLUSIVE);
    release_first(&scene, 2);
    assert_int_equal(scene.asked, 1);
    assert_true(has_turn(&scene, "a-1"));
    assert_non_null(kit_waiter(scene.table, "b-1")); /* it is not in the way yet */
    table_free(scene.table);
}

static void all_places_go_and_no_lease(void **state)
{
    (void)state;
    struct scene scene = scene_open(LEASE_SLOTS);
    ask(&scene, 0, "a-1", LEASE_SLOTS, /* wait */ false);
    queue(&scene, "a-2", LEASE_SLOTS);
    queue(&scene, "b-1", LEASE_SLOTS);
    queue(&scene, "a-3", LEASE_SLOTS);
    scene.gone = "a";
    release_first(&scene, 2);
    assert_null(kit_waiter(scene.table, "a-2"));
    assert_null(kit_waiter(scene.table, "a-3"));
    assert_true(has_turn(&scene, "b-1"));
    assert_int_equal(kit_lease(scene.table, "a-1")->status, LEASE_ACTIVE);
    table_free(scene.table);
}

/* The process ended after it was given its turn: a newcomer is not refused because of it. */
static void a_turn_of_the_gone_is_free(void **state)
{
    (void)state;
    struct scene scene = scene_open(LEASE_EXCLUSIVE);
    queue(&scene, "a-1", LEASE_EXCLUSIVE);
    release_first(&scene, 2);
    assert_true(has_turn(&scene, "a-1"));
    struct table_op op = ask(&scene, 3, "b-1", LEASE_EXCLUSIVE, /* wait */ false);
    assert_int_equal(op.error.status, HF_HELD);
    scene.gone = "a";
    op = ask(&scene, 3, "b-1", LEASE_EXCLUSIVE, /* wait */ false);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_int_equal(scene.table->waiter_count, 0);
    table_free(scene.table);
}

static void scavenge_passes_a_turn_of_the_gone_on(void **state)
{
    (void)state;
    struct scene scene = scene_open(LEASE_EXCLUSIVE);
    queue(&scene, "a-1", LEASE_EXCLUSIVE);
    queue(&scene, "b-1", LEASE_EXCLUSIVE);
    release_first(&scene, 2);
    struct table_op op = { .kind = TABLE_SCAVENGE };
    assert_int_equal(act(&scene, 3, &op), HF_OK);
    assert_false(op.changed);
    scene.gone = "a";
    op = (struct table_op){ .kind = TABLE_SCAVENGE };
    assert_int_equal(act(&scene, 3, &op), HF_OK);
    assert_true(op.changed);
    assert_true(has_turn(&scene, "b-1"));
    table_free(scene.table);
}

/* Many who share a lock have their turn together, and not all of them are asked about each time. */
static void so_many_are_asked_about(void **state)
{
    (void)state;
    struct scene scene = scene_open(LEASE_EXCLUSIVE);
    char id[16];
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "a-%d", i + 1);
        queue(&scene, id, LEASE_SHARED);
    }
    release_first(&scene, 2);
    assert_true(has_turn(&scene, "a-100"));
    assert_in_range(scene.asked, 1, 16);
    table_free(scene.table);
}

static bool names_a_place(const struct scene *scene)
{
    struct buffer text = kit_encode(scene->table);
    bool found = memmem(text.data, text.size, "place", 5) != NULL;
    buffer_release(&text);
    return found;
}

static void a_place_is_written_for_a_waiter_only(void **state)
{
    (void)state;
    struct scene scene = scene_open(LEASE_EXCLUSIVE);
    assert_false(names_a_place(&scene));
    queue(&scene, "a-1", LEASE_EXCLUSIVE);
    scene.table = kit_reload_afresh(scene.table, 2);
    const struct waiter *waiter = kit_waiter(scene.table, "a-1");
    assert_true(view_equal(waiter->wanted->asked.place, VIEW(PLACE)));
    release_first(&scene, 2);
    struct table_op op = { .kind = TABLE_CLAIM, .id = VIEW("a-1") };
    assert_int_equal(act(&scene, 3, &op), HF_OK);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_false(names_a_place(&scene));
    table_free(scene.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a release passes over seven that are gone, in one write", seven_gone_and_one_there),
        IT("only who gets the turn is asked about", one_that_is_there_is_asked_about_once),
        IT("who is gone loses all places, and no lease", all_places_go_and_no_lease),
        IT("the turn of one that is gone refuses nobody", a_turn_of_the_gone_is_free),
        IT("scavenge passes the turn of one that is gone on",
           scavenge_passes_a_turn_of_the_gone_on),
        IT("of many that have their turn, so many are asked about", so_many_are_asked_about),
        IT("only a waiter says where it is present", a_place_is_written_for_a_waiter_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
