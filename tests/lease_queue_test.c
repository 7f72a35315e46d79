/* SPDX-License-Identifier: Apache-2.0 */
/* lease_queue_test.c: sharing, waiting, turns, and waiters that miss their turn. Also entries
 * that are granted to nobody: barriers, full tables, and work that was done already. */
#include "lease_kit.h"
#include "test.h"

#include <stdio.h>

static uint64_t grant(struct lease_table *table, int64_t ms, struct wish wish)
{
    struct table_op op;
    assert_status(HF_OK, kit_acquire(table, &op, kit_at(ms), wish), &op.error);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    table_check(table);
    return op.granted;
}

/* Joins the queue; the position is returned. */
static size_t join(struct lease_table *table, int64_t ms, struct wish wish)
{
    struct table_op op;
    wish.wait = true;
    assert_status(HF_OK, kit_acquire(table, &op, kit_at(ms), wish), &op.error);
    assert_int_equal(op.outcome, TABLE_QUEUED);
    assert_true(op.changed);
    table_check(table);
    return op.position;
}

static void release(struct lease_table *table, int64_t ms, const char *id, uint64_t token)
{
    struct table_op op;
    assert_status(HF_OK, kit_do(table, &op, kit_at(ms), TABLE_RELEASE, id, token), &op.error);
    table_check(table);
}

static bool reserved(const struct lease_table *table, const char *id)
{
    const struct waiter *waiter = kit_waiter(table, id);
    assert_non_null(waiter);
    return waiter->reserved;
}

static uint64_t claim(struct lease_table *table, int64_t ms, const char *id)
{
    struct table_op op;
    assert_status(HF_OK, kit_do(table, &op, kit_at(ms), TABLE_CLAIM, id, 0), &op.error);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_true(op.granted > 0 && op.changed);
    assert_null(kit_waiter(table, id));
    table_check(table);
    return op.granted;
}

static bool can_claim(struct lease_table *table, int64_t ms, const char *id)
{
    struct table_op op;
    enum hf_status status = kit_do(table, &op, kit_at(ms), TABLE_CLAIM, id, 0);
    assert_true(status == HF_OK || status == HF_HELD);
    return op.outcome == TABLE_GRANTED;
}

#define X(id_) ((struct wish){ .id = (id_), .scopes = "named:x" })

/* ---- Shared and slots ---------------------------------------------------------------- */

static void shared_go_together(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = { .id = "a-1", .scopes = "named:x", .mode = LEASE_SHARED };
    uint64_t first = grant(table, 0, wish);
    wish.id = "b-1";
    uint64_t second = grant(table, 0, wish);
    assert_true(second > first);
    assert_int_equal(kit_acquire(table, &op, kit_at(0), X("c-1")), HF_HELD);
    release(table, 1, "a-1", first);
    assert_int_equal(kit_acquire(table, &op, kit_at(1), X("c-1")), HF_HELD);
    release(table, 1, "b-1", second);
    grant(table, 1, X("c-1"));
    assert_int_equal(kit_acquire(table, &op, kit_at(2), wish), HF_HELD);
    table_free(table);
}

static void slots_are_counted(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = { .scopes = "named:x", .mode = LEASE_SLOTS, .slots = 3 };
    uint64_t tokens[3];
    static const char *const ids[] = { "a-1", "b-1", "c-1" };
    for (int i = 0; i < 3; i++) {
        wish.id = ids[i];
        tokens[i] = grant(table, 0, wish);
    }
    wish.id = "d-1";
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_HELD);
    assert_int_equal(kit_acquire(table, &op, kit_at(0), X("e-1")), HF_HELD);
    struct wish shared = { .id = "e-1", .scopes = "named:x", .mode = LEASE_SHARED };
    assert_int_equal(kit_acquire(table, &op, kit_at(0), shared), HF_HELD);
    release(table, 1, "b-1", tokens[1]);
    table = kit_reload(table, 1);
    assert_int_equal(kit_acquire(table, &op, kit_at(1), X("e-1")), HF_HELD);
    grant(table, 1, wish);
    assert_int_equal(kit_active(table), 3);
    table_free(table);
}

static void another_number_of_slots_is_a_mismatch(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = { .id = "a-1", .scopes = "named:x", .mode = LEASE_SLOTS, .slots = 3 };
    uint64_t token = grant(table, 0, wish);
    struct wish other = wish;
    other.id = "b-1", other.slots = 4;
    assert_int_equal(kit_acquire(table, &op, kit_at(0), other), HF_MISMATCH);
    other.wait = true;
    assert_int_equal(kit_acquire(table, &op, kit_at(0), other), HF_MISMATCH);
    assert_int_equal(table->waiter_count, 0);
    other.slots = 0;
    assert_int_equal(kit_acquire(table, &op, kit_at(0), other), HF_INVALID);
    /* When nobody uses it any more the number may be another. */
    release(table, 1, "a-1", token);
    other.slots = 4, other.wait = false;
    grant(table, 1, other);
    table_free(table);
}

static void slot_waiters_get_as_many_turns_as_slots_are_free(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct wish wish = { .scopes = "named:x", .mode = LEASE_SLOTS, .slots = 2 };
    wish.id = "a-1";
    uint64_t a = grant(table, 0, wish);
    wish.id = "b-1";
    uint64_t b = grant(table, 0, wish);
    static const char *const ids[] = { "c-1", "d-1", "e-1" };
    for (int i = 0; i < 3; i++) {
        wish.id = ids[i];
        join(table, 1, wish);
    }
    release(table, 2, "a-1", a);
    assert_true(reserved(table, "c-1") && !reserved(table, "d-1"));
    release(table, 2, "b-1", b);
    assert_true(reserved(table, "c-1") && reserved(table, "d-1") && !reserved(table, "e-1"));
    claim(table, 3, "d-1");
    assert_true(reserved(table, "c-1") && !reserved(table, "e-1"));
    claim(table, 3, "c-1");
    assert_false(can_claim(table, 3, "e-1"));
    table_free(table);
}

/* ---- Waiting ------------------------------------------------------------------------- */

static void waiters_come_in_order(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    uint64_t token = grant(table, 0, X("a-1"));
    assert_int_equal(join(table, 0, X("b-1")), 0);
    assert_int_equal(join(table, 0, X("c-1")), 1);
    assert_int_equal(join(table, 0, X("d-1")), 2);
    assert_false(can_claim(table, 1, "b-1"));
    release(table, 1, "a-1", token);
    assert_true(reserved(table, "b-1") && !reserved(table, "c-1"));
    assert_false(can_claim(table, 1, "c-1"));
    uint64_t second = claim(table, 1, "b-1");
    assert_true(second > token && !reserved(table, "c-1"));
    release(table, 2, "b-1", second);
    uint64_t third = claim(table, 2, "c-1");
    assert_true(third > second);
    release(table, 3, "c-1", third);
    assert_true(claim(table, 3, "d-1") > third);
    table_free(table);
}

static void a_claim_counts_from_its_own_moment(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, X("a-1"));
    struct wish wish = { .id = "b-1",
                         .scopes = "named:x tree:/a",
                         .ttl_us = 5000000,
                         .output = "out/b",
                         .note = "[1]" };
    join(table, 0, wish);
    release(table, 3000, "a-1", token);
    table = kit_reload(table, 3100);
    struct evidence evidence = kit_at(4000);
    assert_int_equal(kit_do(table, &op, evidence, TABLE_CLAIM, "b-1", 0), HF_OK);
    const struct lease *lease = kit_lease(table, "b-1");
    assert_int_equal(lease->expires.us, evidence.latest.us + 5000000);
    assert_int_equal(op.expires.us, lease->expires.us);
    assert_true(view_equal(op.granted_by, evidence.nonce));
    assert_true(view_equal(lease->session, VIEW("b")) && lease->wish.scope_count == 2);
    assert_true(view_equal(lease->output, VIEW("out/b")) &&
                view_equal(lease->note, VIEW("[1]")));
    assert_int_equal(lease->wish.poll.us, 0);
    table_free(table);
}

static void waiting_and_claiming_repeat_themselves(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, X("a-1"));
    struct wish wish = X("b-1");
    join(table, 0, wish);
    join(table, 0, X("c-1"));
    table = kit_reload(table, 1);
    wish.wait = true;
    assert_int_equal(kit_acquire(table, &op, kit_at(1), wish), HF_OK);
    assert_int_equal(op.outcome, TABLE_QUEUED);
    assert_int_equal(op.position, 0);
    assert_int_equal(table->waiter_count, 2);
    release(table, 2, "a-1", token);
    struct evidence evidence = kit_at(3);
    assert_int_equal(kit_do(table, &op, evidence, TABLE_CLAIM, "b-1", 0), HF_OK);
    uint64_t granted = op.granted, next = table->next_token;
    table = kit_reload(table, 3);
    assert_int_equal(kit_do(table, &op, kit_at(4), TABLE_CLAIM, "b-1", 0), HF_OK);
    assert_true(op.already && op.granted == granted && table->next_token == next);
    assert_true(view_equal(op.granted_by, evidence.nonce));
    assert_int_equal(op.expires.us, evidence.latest.us + 10000000);
    table_free(table);
}

static void newcomers_obey_the_order(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish shared = { .id = "a-1", .scopes = "named:x", .mode = LEASE_SHARED };
    uint64_t token = grant(table, 0, shared);
    join(table, 0, X("b-1"));
    /* A reader would fit beside the first, but a writer waits. */
    shared.id = "c-1";
    assert_int_equal(kit_acquire(table, &op, kit_at(1), shared), HF_HELD);
    assert_string_equal(op.blocker, "b-1");
    release(table, 2, "a-1", token);
    /* It is free, but it is not this one's turn. */
    assert_int_equal(kit_acquire(table, &op, kit_at(2), X("d-1")), HF_HELD);
    assert_string_equal(op.blocker, "b-1");
    assert_int_equal(join(table, 2, shared), 1);
    assert_false(can_claim(table, 2, "c-1"));
    claim(table, 2, "b-1");
    table_free(table);
}

static void disjoint_ranges_overtake(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    uint64_t a = grant(table, 0, (struct wish){ .id = "a-1", .scopes = "range:7:0-100" });
    join(table, 0, (struct wish){ .id = "b-1", .scopes = "range:7:50-150" });
    join(table, 0, (struct wish){ .id = "c-1", .scopes = "range:7:140-200" });
    /* Not in anybody's way: granted at once, past two who wait. */
    grant(table, 0, (struct wish){ .id = "d-1", .scopes = "range:7:200-300", .wait = true });
    /* In the way of the third only: waits for it, though its bytes are free. */
    assert_int_equal(join(table, 0, (struct wish){ .id = "e-1", .scopes = "range:7:190-200" }),
                     2);
    assert_false(reserved(table, "c-1") || reserved(table, "e-1"));
    release(table, 1, "a-1", a);
    assert_true(reserved(table, "b-1") && !reserved(table, "c-1"));
    table_free(table);
}

static void shared_waiters_have_their_turn_together(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    uint64_t token = grant(table, 0, X("a-1"));
    struct wish shared = { .scopes = "named:x", .mode = LEASE_SHARED };
    static const char *const ids[] = { "b-1", "c-1", "e-1" };
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            join(table, 0, X("d-1"));
        shared.id = ids[i];
        join(table, 0, shared);
    }
    table = kit_reload(table, 1);
    release(table, 1, "a-1", token);
    assert_true(reserved(table, "b-1") && reserved(table, "c-1"));
    assert_false(reserved(table, "d-1") || reserved(table, "e-1"));
    uint64_t c = claim(table, 1, "c-1"), b = claim(table, 1, "b-1");
    assert_false(can_claim(table, 1, "d-1") || can_claim(table, 1, "e-1"));
    release(table, 2, "c-1", c);
    assert_false(reserved(table, "d-1"));
    release(table, 2, "b-1", b);
    assert_true(reserved(table, "d-1") && !reserved(table, "e-1"));
    table_free(table);
}

static void whoever_makes_room_says_for_whom(void **state)
{
    (void)state;
    static const enum table_op_kind rooms[] = { TABLE_RELEASE, TABLE_COMPLETE, TABLE_FAIL,
                                                TABLE_BREAK,   TABLE_CANCEL,   TABLE_SCAVENGE };
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        struct lease_table *table = kit_table();
        struct table_op op;
        uint64_t token = grant(table, 0, X("a-1"));
        join(table, 0, X("b-1"));
        assert_int_equal(kit_do(table, &op, kit_at(15000), rooms[i], "a-1", token), HF_OK);
        assert_true(op.changed && reserved(table, "b-1"));
        table_check(table);
        struct buffer text = kit_encode(table);
        assert_non_null(strstr(buffer_text(&text), "\"reserved\":[\"b-1\"]"));
        buffer_release(&text);
        table_free(table);
    }
}

static void a_newcomer_that_finds_it_over_makes_room_too(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    grant(table, 0, X("a-1"));
    join(table, 0, X("b-1"));
    assert_int_equal(kit_acquire(table, &op, kit_at(15000), X("c-1")), HF_HELD);
    assert_true(op.changed && reserved(table, "b-1"));
    table_check(table);
    claim(table, 15001, "b-1");
    table_free(table);
}

/* As operations of one process are written together: one finds the holder dead, the other, which
 * was next, has the lock in the same write. */
static void scavenge_and_claim_grant_in_one_go(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    grant(table, 0, X("a-1"));
    join(table, 0, X("b-1"));
    join(table, 0, X("c-1"));
    table = kit_reload(table, 1);
    struct evidence evidence = kit_at(15000);
    assert_int_equal(kit_do(table, &op, evidence, TABLE_SCAVENGE, "", 0), HF_OK);
    assert_true(op.changed);
    assert_int_equal(kit_do(table, &op, evidence, TABLE_CLAIM, "c-1", 0), HF_OK);
    assert_int_equal(op.outcome, TABLE_QUEUED);
    assert_int_equal(kit_do(table, &op, evidence, TABLE_CLAIM, "b-1", 0), HF_OK);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_int_equal(op.expires.us, evidence.latest.us + 10000000);
    table_check(table);
    table = kit_reload_afresh(table, 15001);
    assert_int_equal(kit_lease(table, "b-1")->status, LEASE_ACTIVE);
    assert_int_equal(kit_lease(table, "a-1")->status, LEASE_EXPIRED);
    assert_false(reserved(table, "c-1"));
    table_free(table);
}

/* The same where not a lease but a turn has to go first. */
static void scavenge_passes_a_missed_turn_on_in_one_go(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, X("a-1"));
    join(table, 0, X("b-1"));
    join(table, 0, X("c-1"));
    release(table, 1000, "a-1", token);
    struct evidence evidence = kit_at(3001);
    assert_int_equal(kit_do(table, &op, evidence, TABLE_SCAVENGE, "", 0), HF_OK);
    assert_int_equal(kit_do(table, &op, evidence, TABLE_CLAIM, "c-1", 0), HF_OK);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_int_equal(kit_do(table, &op, evidence, TABLE_CLAIM, "b-1", 0), HF_LOST);
    table_check(table);
    table_free(table);
}

static void cancel_leaves_or_gives_back(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, X("a-1"));
    join(table, 0, X("b-1"));
    join(table, 0, X("c-1"));
    join(table, 0, X("d-1"));
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_CANCEL, "c-1", 0), HF_OK);
    assert_null(kit_waiter(table, "c-1"));
    release(table, 2, "a-1", token);
    /* Whose turn it is leaves: it is the next one's. */
    assert_int_equal(kit_do(table, &op, kit_at(3), TABLE_CANCEL, "b-1", 0), HF_OK);
    assert_true(reserved(table, "d-1"));
    table_check(table);
    claim(table, 4, "d-1");
    /* Granted meanwhile: given back. Twice, and of what never was: nothing to do. */
    table = kit_reload(table, 4);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kit_do(table, &op, kit_at(5), TABLE_CANCEL, "d-1", 0), HF_OK);
        assert_int_equal(kit_active(table), 0);
        table = kit_reload(table, 5);
    }
    assert_int_equal(kit_do(table, &op, kit_at(6), TABLE_CANCEL, "z-9", 0), HF_OK);
    table_free(table);
}

static void a_place_that_is_gone_is_lost(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    assert_int_equal(kit_do(table, &op, kit_at(0), TABLE_CLAIM, "b-1", 0), HF_LOST);
    table_free(table);
}

/* ---- Turns that nobody takes --------------------------------------------------------- */

static void scavenge(struct lease_table *table, int64_t us)
{
    struct table_op op;
    assert_status(HF_OK, kit_do(table, &op, kit_at_us(us), TABLE_SCAVENGE, "", 0), &op.error);
    table_check(table);
}

static void a_missed_turn_drops_the_session(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    uint64_t token = grant(table, 0, X("a-1"));
    join(table, 0, X("b-1"));
    join(table, 0, X("c-1"));
    join(table, 0, X("b-2"));
    join(table, 0, (struct wish){ .id = "b-3", .scopes = "tree:/ named:x" });
    release(table, 1000, "a-1", token);
    scavenge(table, 2999999);
    assert_true(reserved(table, "b-1"));
    scavenge(table, 3000001);
    assert_null(kit_waiter(table, "b-1"));
    assert_null(kit_waiter(table, "b-2"));
    assert_null(kit_waiter(table, "b-3"));
    assert_true(reserved(table, "c-1"));
    assert_int_equal(table->missed, 1);
    table_free(table);
}

/* One waits, and it becomes its turn a second from the start. */
static struct lease_table *one_turn(int64_t poll_ms)
{
    struct lease_table *table = kit_table();
    uint64_t token = grant(table, 0, X("a-1"));
    struct wish wish = X("b-1");
    wish.poll_ms = poll_ms;
    join(table, 0, wish);
    release(table, 1000, "a-1", token);
    return table;
}

static void expect_turn_until(struct lease_table *table, int64_t ms)
{
    scavenge(table, ms * 1000 - 1);
    assert_non_null(kit_waiter(table, "b-1"));
    scavenge(table, ms * 1000 + 1);
    assert_null(kit_waiter(table, "b-1"));
    table_free(table);
}

static void the_window_is_three_polls_of_a_slow_one(void **state)
{
    (void)state;
    struct lease_table *table = one_turn(5000);
    table_written(table, (struct mono_time){ 1000 * 1000 });
    expect_turn_until(kit_reload(table, 1100), 16000);
}

static void the_window_counts_from_when_the_observer_saw_it(void **state)
{
    (void)state;
    struct lease_table *table = kit_reload_afresh(one_turn(0), 50000);
    /* Seen again and again, it is still the first sight that counts. */
    table = kit_reload(table, 51000);
    table = kit_reload(table, 51500);
    expect_turn_until(table, 52000);
}

/* Whoever gives a turn may be stopped before that is written. */
static void a_turn_counts_from_when_it_is_written(void **state)
{
    (void)state;
    struct lease_table *table = one_turn(0);
    table_written(table, (struct mono_time){ 9000 * 1000 });
    expect_turn_until(table, 11000);
}

static void a_turn_of_a_lost_write_counts_from_the_load(void **state)
{
    (void)state;
    expect_turn_until(kit_reload(one_turn(0), 9000), 11000);
}

static void after_a_missed_turn_many_have_the_next(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    uint64_t token = grant(table, 0, X("a-1"));
    char id[8];
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "w%d-1", i);
        join(table, 0, X(id));
    }
    release(table, 1000, "a-1", token);
    int64_t now_us = 1000000;
    size_t left = 40;
    for (size_t named = 1; named <= 16; named *= 16) {
        for (size_t i = 0; i < table->waiter_count; i++)
            assert_int_equal(table->waiters[i].reserved, i < named);
        table = kit_reload(table, now_us / 1000);
        now_us += 2000001;
        scavenge(table, now_us);
        left -= named;
        assert_int_equal(table->waiter_count, left);
    }
    /* Whoever swaps first has it. Those before it may be dead, so many have the next turn. */
    assert_int_equal(left, 23);
    uint64_t claimed = claim(table, now_us / 1000 + 1, "w19-1");
    assert_int_equal(table->missed, 2);
    assert_false(can_claim(table, now_us / 1000 + 1, "w17-1"));
    release(table, now_us / 1000 + 2, "w19-1", claimed);
    assert_true(reserved(table, "w17-1") && reserved(table, "w39-1"));
    /* When the first in line claims, one has the turn at a time again. */
    claimed = claim(table, now_us / 1000 + 3, "w17-1");
    assert_int_equal(table->missed, 0);
    release(table, now_us / 1000 + 4, "w17-1", claimed);
    assert_true(reserved(table, "w18-1") && !reserved(table, "w20-1"));
    table_free(table);
}

/* ---- Once, barriers, bounds ---------------------------------------------------------- */

static void work_is_done_once_a_period(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = X("a-1");
    wish.once_per = SPAN_S(3600);
    uint64_t token = grant(table, 0, wish);
    assert_int_equal(kit_do(table, &op, kit_at(1000), TABLE_COMPLETE, "a-1", token), HF_OK);
    wish.id = "b-1";
    assert_int_equal(kit_acquire(table, &op, kit_at(2000), wish), HF_ALREADY);
    /* Other work was not done. */
    struct wish other_work = { .id = "o-1", .scopes = "named:y", .once_per = SPAN_S(3600) };
    grant(table, 2000, other_work);
    /* Others that come and go meanwhile do not push the completion out. */
    for (int i = 0; i < 40; i++) {
        char id[16];
        snprintf(id, sizeof id, "c-%d", i);
        uint64_t other = grant(table, 3000, X(id));
        enum table_op_kind end = i % 2 ? TABLE_FAIL : TABLE_RELEASE;
        assert_int_equal(kit_do(table, &op, kit_at(3000), end, id, other), HF_OK);
    }
    table = kit_reload_afresh(table, 4000);
    assert_int_equal(kit_acquire(table, &op, kit_at(3599999), wish), HF_ALREADY);
    /* Without the period it is free, and after it. */
    uint64_t free_one = grant(table, 5000, X("d-1"));
    release(table, 5000, "d-1", free_one);
    grant(table, 3600000, wish); /* since it was granted, not since it was completed */
    table_free(table);
}

/* Only the same work is done when it is done: not a part of it, not more; and whether it was
 * shared makes no difference. */
static void done_means_the_same_was_done(void **state)
{
    (void)state;
    static const struct {
        const char *done, *wanted;
        enum lease_mode mode;
        bool same;
    } rows[] = {
        { "named:x", "named:x", LEASE_SHARED, true },
        { "tree:/a", "path:/a/b", LEASE_EXCLUSIVE, false },
        { "tree:/a", "tree:/a", LEASE_EXCLUSIVE, true },
        { "tree:/a", "path:/a", LEASE_EXCLUSIVE, false },
        { "chunk:1 chunk:2", "chunk:2 chunk:1", LEASE_EXCLUSIVE, true },
        { "chunk:1 chunk:2", "chunk:1", LEASE_EXCLUSIVE, false },
        { "chunk:1", "chunk:1 chunk:2", LEASE_EXCLUSIVE, false },
        { "chunk:1 chunk:2", "chunk:2 chunk:2", LEASE_EXCLUSIVE, false },
        { "chunk:2 chunk:2", "chunk:1 chunk:2", LEASE_EXCLUSIVE, false },
        { "range:7:0-10", "range:7:0-20", LEASE_EXCLUSIVE, false },
        { "pin:1", "pin:1", LEASE_EXCLUSIVE, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct lease_table *table = kit_table();
        struct table_op op;
        struct wish wish = { .id = "a-1", .scopes = rows[i].done, .mode = rows[i].mode };
        uint64_t token = grant(table, 0, wish);
        assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_COMPLETE, "a-1", token), HF_OK);
        wish = (struct wish){ .id = "b-1", .scopes = rows[i].wanted, .mode = rows[i].mode };
        wish.once_per = SPAN_S(3600);
        if (kit_acquire(table, &op, kit_at(2), wish) != (rows[i].same ? HF_ALREADY : HF_OK))
            fail_msg("%s done, %s wanted", rows[i].done, rows[i].wanted);
        table_free(table);
    }
}

static void failed_work_is_not_done(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = X("a-1");
    wish.once_per = SPAN_S(3600);
    uint64_t token = grant(table, 0, wish);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_FAIL, "a-1", token), HF_OK);
    wish.id = "b-1";
    grant(table, 2, wish);
    table_free(table);
}

static void who_waited_for_work_that_is_done_need_not_do_it(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = X("a-1");
    wish.once_per = SPAN_S(3600);
    uint64_t token = grant(table, 0, wish);
    wish.id = "b-1";
    join(table, 10, wish);
    join(table, 20, X("c-1"));
    assert_int_equal(kit_do(table, &op, kit_at(1000), TABLE_COMPLETE, "a-1", token), HF_OK);
    struct evidence evidence = kit_at(1001);
    op = (struct table_op){ .kind = TABLE_CLAIM, .id = VIEW("b-1"), .once_per = SPAN_S(3600) };
    assert_int_equal(table_apply(table, &op, &evidence), HF_ALREADY);
    assert_true(op.changed);
    assert_null(kit_waiter(table, "b-1"));
    assert_null(kit_lease(table, "b-1"));
    table_check(table);
    assert_true(reserved(table, "c-1"));
    claim(table, 1002, "c-1");
    table_free(table);
}

static void a_barrier_grants_nothing(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, X("a-1"));
    join(table, 0, X("b-1"));
    assert_int_equal(kit_barrier(table, &op, kit_at(0), "bar", 20000000, 5), HF_OK);
    assert_true(op.granted >> 32 == 5 && table->next_token > op.granted);
    table_check(table);
    uint64_t next = table->next_token;
    table = kit_reload(table, 1);
    /* Once more, after a lost reply; and with an epoch that is behind: tokens never fall. */
    assert_int_equal(kit_barrier(table, &op, kit_at(1), "bar", 20000000, 5), HF_OK);
    assert_true(op.already && table->next_token == next);
    assert_int_equal(kit_barrier(table, &op, kit_at(1), "bar2", 1000000, 2), HF_OK);
    assert_true(op.granted >= next);
    /* Who held before may go on and end it, but nobody may start. */
    assert_int_equal(kit_do(table, &op, kit_at(2), TABLE_RENEW, "a-1", token), HF_OK);
    release(table, 3, "a-1", token);
    assert_false(can_claim(table, 3, "b-1"));
    struct wish other = { .id = "c-1", .scopes = "named:other", .mode = LEASE_SHARED };
    assert_int_equal(kit_acquire(table, &op, kit_at(4), other), HF_HELD);
    table = kit_reload_afresh(table, 5);
    assert_int_equal(kit_acquire(table, &op, kit_at(20000), other), HF_HELD);
    assert_true(grant(table, 22006, other) >> 32 == 5);
    table_free(table);
}

static void an_epoch_past_the_last_is_refused(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    assert_int_equal(kit_barrier(table, &op, kit_at(0), "bar", 1000000, UINT64_C(1) << 21),
                     HF_INVALID);
    assert_true(table->next_token >> 32 == 1);
    assert_int_equal(kit_barrier(table, &op, kit_at(0), "bar", 1000000, (1 << 21) - 1), HF_OK);
    table = kit_reload(table, 1);
    table_free(table);
}

static void a_full_table_refuses_newcomers_only(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    char id[16], scope[24];
    uint64_t first = 0;
    for (int i = 0; i < TABLE_LEASES_MAX - 1; i++) {
        snprintf(id, sizeof id, "a-%d", i);
        snprintf(scope, sizeof scope, "path:/%d", i);
        struct wish wish = { .id = id, .scopes = scope };
        assert_status(HF_OK, kit_acquire(table, &op, kit_at(0), wish), &op.error);
        first = first ? first : op.granted;
    }
    join(table, 0, (struct wish){ .id = "w-1", .scopes = "path:/0" });
    grant(table, 0, (struct wish){ .id = "z-1", .scopes = "path:/z" });
    struct wish more = { .id = "y-1", .scopes = "path:/y" };
    assert_int_equal(kit_acquire(table, &op, kit_at(0), more), HF_UNAVAILABLE);
    assert_non_null(strstr(op.error.why, "; hf_namespace_create creates"));
    more.scopes = "path:/z", more.wait = true;
    assert_int_equal(kit_acquire(table, &op, kit_at(0), more), HF_UNAVAILABLE);
    table = kit_reload(table, 1);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_RENEW, "a-0", first), HF_OK);
    release(table, 2, "a-0", first);
    claim(table, 3, "w-1");
    assert_int_equal(kit_do(table, &op, kit_at(3), TABLE_BREAK, "w-1", table->next_token - 1),
                     HF_OK);
    table = kit_reload(table, 4);
    table_check(table);
    table_free(table);
}

static void the_bound_in_bytes_holds(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    static char scopes[64 * 1024];
    size_t used = 0;
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(scopes + used, sizeof scopes - used, "%schunk:%0800d",
                                 i ? " " : "", i);
    int granted = 0;
    enum hf_status status = HF_OK;
    for (int i = 0; i < 100 && status == HF_OK; i++) {
        struct table_op op;
        char id[16];
        snprintf(id, sizeof id, "a-%d", i);
        struct wish wish = { .id = id, .scopes = scopes, .wait = true };
        status = kit_acquire(table, &op, kit_at(0), wish);
        granted += status == HF_OK;
    }
    struct buffer text = kit_encode(table);
    assert_true(text.size <= TABLE_BYTES_MAX);
    buffer_release(&text);
    assert_int_equal(status, HF_UNAVAILABLE);
    assert_true(granted > 10);
    table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("shared leases go together, and with no exclusive one", shared_go_together),
        IT("slots are counted", slots_are_counted),
        IT("another number of slots is a mismatch while anybody uses it",
           another_number_of_slots_is_a_mismatch),
        IT("as many who wait for slots have a turn as slots are free",
           slot_waiters_get_as_many_turns_as_slots_are_free),
        IT("waiters come in order", waiters_come_in_order),
        IT("a claim counts from its own moment and is all that was asked for",
           a_claim_counts_from_its_own_moment),
        IT("waiting and claiming repeat themselves after a lost reply",
           waiting_and_claiming_repeat_themselves),
        IT("newcomers obey the order", newcomers_obey_the_order),
        IT("disjoint ranges overtake, others do not", disjoint_ranges_overtake),
        IT("shared waiters have their turn together", shared_waiters_have_their_turn_together),
        IT("whoever makes room says for whom, where a poller finds it",
           whoever_makes_room_says_for_whom),
        IT("a newcomer that finds a lease over makes room for who waits",
           a_newcomer_that_finds_it_over_makes_room_too),
        IT("scavenge and claim in one write grant in one go",
           scavenge_and_claim_grant_in_one_go),
        IT("scavenge passes a missed turn on to a claim in the same write",
           scavenge_passes_a_missed_turn_on_in_one_go),
        IT("cancel leaves the queue, or gives back what was granted",
           cancel_leaves_or_gives_back),
        IT("a claim without a place in the queue is lost", a_place_that_is_gone_is_lost),
        IT("a missed turn drops all waiters of that session", a_missed_turn_drops_the_session),
        IT("one that polls slowly has three polls of time",
           the_window_is_three_polls_of_a_slow_one),
        IT("a turn that we gave counts from when that is known to be written",
           a_turn_counts_from_when_it_is_written),
        IT("a turn of a write without an answer counts from the load that shows it",
           a_turn_of_a_lost_write_counts_from_the_load),
        IT("the window counts from when the observer first saw the turn",
           the_window_counts_from_when_the_observer_saw_it),
        IT("after a missed turn many have the next, until the first in line claims",
           after_a_missed_turn_many_have_the_next),
        IT("work is done once a period", work_is_done_once_a_period),
        IT("done means that the same was done", done_means_the_same_was_done),
        IT("failed work was not done", failed_work_is_not_done),
        IT("who waited for work that is done need not do it",
           who_waited_for_work_that_is_done_need_not_do_it),
        IT("behind a barrier nothing is granted until it is over", a_barrier_grants_nothing),
        IT("an epoch past the last is refused", an_epoch_past_the_last_is_refused),
        IT("a full table refuses newcomers, and nobody else",
           a_full_table_refuses_newcomers_only),
        IT("no acquire makes the document larger than its bound", the_bound_in_bytes_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
