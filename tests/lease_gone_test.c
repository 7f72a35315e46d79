/* SPDX-License-Identifier: Apache-2.0 */
/* lease_gone_test.c: waiters whose process has ended. They lose their places in the queue as soon
 * as one of them would get the turn; nobody else does, and no lease ends. */
#include "lease_kit.h"
#include "test.h"

#include <stdio.h>

#define PLACE "01234567"

/* What the caller of table_apply knows, and how often it was asked. */
struct known {
    const char *gone; /* the sessions that are gone: one letter each */
    size_t asked;
};

static bool is_gone(void *argument, const struct lease_request *waiter)
{
    struct known *known = argument;
    known->asked++;
    return memchr(known->gone, waiter->session.data[0], strlen(known->gone)) != NULL;
}

static enum hf_status act(struct lease_table *table, struct known *known, int64_t ms,
                          struct table_op *op)
{
    struct evidence evidence = kit_at(ms);
    op->gone = is_gone;
    op->gone_argument = known;
    enum hf_status status = table_apply(table, op, &evidence);
    table_check(table);
    return status;
}

static void ask(struct lease_table *table, struct known *known, int64_t ms, const char *id,
                enum lease_mode mode, bool wait, struct table_op *op)
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
    *op = (struct table_op){ .kind = TABLE_ACQUIRE, .wanted = &wanted, .wait = wait };
    (void)act(table, known, ms, op);
    op->wanted = NULL;
}

static void release(struct lease_table *table, struct known *known, int64_t ms, const char *id,
                    uint64_t token)
{
    struct table_op op = { .kind = TABLE_RELEASE, .id = view_of(id), .token = token };
    assert_status(HF_OK, act(table, known, ms, &op), &op.error);
}

static void seven_gone_and_one_there(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct known known = { "", 0 };
    struct table_op op;
    ask(table, &known, 0, "z-1", LEASE_EXCLUSIVE, false, &op);
    uint64_t token = op.granted;
    for (char c = 'a'; c <= 'h'; c++) {
        char id[] = { c, '-', '1', '\0' };
        ask(table, &known, 1, id, LEASE_EXCLUSIVE, true, &op);
        assert_int_equal(op.outcome, TABLE_QUEUED);
    }
    assert_int_equal(known.asked, 0); /* nobody has a turn */
    table = kit_reload(table, 2);
    known.gone = "abcdefg";
    release(table, &known, 3, "z-1", token);
    assert_int_equal(table->waiter_count, 1);
    assert_true(kit_waiter(table, "h-1")->reserved);
    assert_int_equal(table->missed, 0);
    assert_int_equal(known.asked, 8);
    table_free(table);
}

static void one_that_is_there_is_asked_about_once(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct known known = { "b", 0 };
    struct table_op op;
    ask(table, &known, 0, "z-1", LEASE_EXCLUSIVE, false, &op);
    uint64_t token = op.granted;
    ask(table, &known, 1, "a-1", LEASE_EXCLUSIVE, true, &op);
    ask(table, &known, 1, "b-1", LEASE_EXCLUSIVE, true, &op);
    release(table, &known, 2, "z-1", token);
    assert_int_equal(known.asked, 1);
    assert_true(kit_waiter(table, "a-1")->reserved);
    assert_non_null(kit_waiter(table, "b-1")); /* it is not in the way yet */
    table_free(table);
}

static void all_places_go_and_no_lease(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct known known = { "", 0 };
    struct table_op op;
    ask(table, &known, 0, "a-1", LEASE_SLOTS, false, &op);
    ask(table, &known, 0, "z-1", LEASE_SLOTS, false, &op);
    uint64_t token = op.granted;
    ask(table, &known, 1, "a-2", LEASE_SLOTS, true, &op);
    ask(table, &known, 1, "b-1", LEASE_SLOTS, true, &op);
    ask(table, &known, 1, "a-3", LEASE_SLOTS, true, &op);
    known.gone = "a";
    release(table, &known, 2, "z-1", token);
    assert_null(kit_waiter(table, "a-2"));
    assert_null(kit_waiter(table, "a-3"));
    assert_true(kit_waiter(table, "b-1")->reserved);
    assert_int_equal(kit_lease(table, "a-1")->status, LEASE_ACTIVE);
    table_free(table);
}

/* The process ended after it was given its turn: a newcomer is not refused because of it. */
static void a_turn_of_the_gone_is_free(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct known known = { "", 0 };
    struct table_op op;
    ask(table, &known, 0, "z-1", LEASE_EXCLUSIVE, false, &op);
    uint64_t token = op.granted;
    ask(table, &known, 1, "a-1", LEASE_EXCLUSIVE, true, &op);
    release(table, &known, 2, "z-1", token);
    assert_true(kit_waiter(table, "a-1")->reserved);
    ask(table, &known, 3, "b-1", LEASE_EXCLUSIVE, false, &op);
    assert_int_equal(op.error.status, HF_HELD);
    known.gone = "a";
    ask(table, &known, 3, "b-1", LEASE_EXCLUSIVE, false, &op);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_int_equal(table->waiter_count, 0);
    table_free(table);
}

static void scavenge_passes_a_turn_of_the_gone_on(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct known known = { "", 0 };
    struct table_op op;
    ask(table, &known, 0, "z-1", LEASE_EXCLUSIVE, false, &op);
    uint64_t token = op.granted;
    ask(table, &known, 1, "a-1", LEASE_EXCLUSIVE, true, &op);
    ask(table, &known, 1, "b-1", LEASE_EXCLUSIVE, true, &op);
    release(table, &known, 2, "z-1", token);
    op = (struct table_op){ .kind = TABLE_SCAVENGE };
    assert_int_equal(act(table, &known, 3, &op), HF_OK);
    assert_false(op.changed);
    known.gone = "a";
    op = (struct table_op){ .kind = TABLE_SCAVENGE };
    assert_int_equal(act(table, &known, 3, &op), HF_OK);
    assert_true(op.changed);
    assert_true(kit_waiter(table, "b-1")->reserved);
    table_free(table);
}

/* Many who share a lock have their turn together, and not all of them are asked about each time. */
static void so_many_are_asked_about(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct known known = { "", 0 };
    struct table_op op;
    char id[16];
    ask(table, &known, 0, "z-1", LEASE_EXCLUSIVE, false, &op);
    uint64_t token = op.granted;
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "a-%d", i + 1);
        ask(table, &known, 1, id, LEASE_SHARED, true, &op);
    }
    release(table, &known, 2, "z-1", token);
    assert_true(kit_waiter(table, "a-100")->reserved);
    assert_in_range(known.asked, 1, 16);
    table_free(table);
}

static void a_place_is_written_for_a_waiter_only(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct known known = { "", 0 };
    struct table_op op;
    ask(table, &known, 0, "z-1", LEASE_EXCLUSIVE, false, &op);
    uint64_t token = op.granted;
    struct buffer text = kit_encode(table);
    assert_null(memmem(text.data, text.size, "place", 5));
    buffer_release(&text);
    ask(table, &known, 1, "a-1", LEASE_EXCLUSIVE, true, &op);
    table = kit_reload_afresh(table, 2);
    const struct waiter *waiter = kit_waiter(table, "a-1");
    assert_true(view_equal(waiter->wanted->asked.place, VIEW(PLACE)));
    release(table, &known, 2, "z-1", token);
    op = (struct table_op){ .kind = TABLE_CLAIM, .id = VIEW("a-1") };
    assert_int_equal(act(table, &known, 3, &op), HF_OK);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    text = kit_encode(table);
    assert_null(memmem(text.data, text.size, "place", 5));
    buffer_release(&text);
    table_free(table);
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
