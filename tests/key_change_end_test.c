/* SPDX-License-Identifier: Apache-2.0 */
/* key_change_end_test.c: how the end of a lease affects the state of a key; old bodies,
 * failures, and changes through a store. */
#include "alloc.h"
#include "key_change_kit.h"
#include "lock_kit.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- With the end of a lease --------------------------------------------------------- */

/* Something that "a-1" alone has staged. */
static struct lease_table *prepared(uint64_t *ret_token)
{
    struct lease_table *table = kit_table();
    *ret_token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = with_body(ETAG_A, *ret_token);
    struct change change = change_by(CHANGE_STAGE, "a-1", *ret_token, &version);
    assert_done(table, &change, NULL);
    change_release(&change);
    return table;
}

static void finish(struct lease_table *table, struct change *change, int64_t ms, bool *changed)
{
    struct table_op op = { .kind = TABLE_RELEASE, .id = change->lease, .token = change->token };
    assert_int_equal(HF_OK, apply_to(table, change, &op, NULL, ms, changed));
}

static void a_release_publishes_what_was_staged_or_drops_it(void **unused)
{
    (void)unused;
    for (int commit = 0; commit < 2; commit++) {
        uint64_t token;
        bool changed;
        struct lease_table *table = prepared(&token);
        struct state_version version = with_body(ETAG_A, token);
        struct change change = change_by(CHANGE_FINISH, "a-1", token, &version);
        change.commit = commit;
        finish(table, &change, 1, &changed);
        assert_true(changed);
        assert_true(change.found);
        assert_int_equal(HF_KEY_NONE, change.outcome);
        assert_true(change.blocker == 0);
        assert_state(table, commit ? "{" NOW_A("1", T1, "9000", "\"body\":true") "}"
                                   : "{\"old\":[\"" T1 "-" ETAG_A "\"]}");
        /* Again, since the answer was lost. */
        finish(table, &change, 1, &changed);
        assert_false(changed);
        assert_int_equal(commit, change.already);
        assert_int_equal(HF_KEY_NONE, change.outcome);
        change_release(&change);
        table_free(table);
    }
}

static void a_release_that_comes_too_late_publishes_nothing(void **unused)
{
    (void)unused;
    uint64_t token;
    bool changed;
    struct lease_table *table = prepared(&token);
    struct state_version version = with_body(ETAG_A, token);
    struct change change = change_by(CHANGE_FINISH, "a-1", token, &version);
    change.commit = true;
    finish(table, &change, 20000, &changed);
    assert_int_equal(HF_KEY_LEASE_EXPIRED, change.outcome);
    assert_state(table, "{\"old\":[\"" T1 "-" ETAG_A "\"]}");
    /* Nor when somebody else has cleared it away. */
    hold(table, "b-1", LEASE_EXCLUSIVE, 20000);
    finish(table, &change, 20000, &changed);
    assert_int_equal(HF_KEY_FENCING_MISMATCH, change.outcome);
    assert_false(change.already);
    assert_false(changed);
    change_release(&change);
    table_free(table);
}

static void a_release_leaves_the_stages_of_transactions(void **unused)
{
    (void)unused;
    uint64_t token;
    bool changed;
    struct lease_table *table = staged(&token);
    struct change change = change_by(CHANGE_FINISH, "a-1", token, NULL);
    change.commit = true;
    finish(table, &change, 1, &changed);
    assert_false(changed);
    assert_false(change.found);
    assert_true(change.state.staged);
    assert_true(change.abandoned);
    change_release(&change);
    table_free(table);
}

static void tidying_drops_what_a_lease_that_is_over_had_staged(void **unused)
{
    (void)unused;
    uint64_t token;
    bool changed;
    struct change change;
    struct table_op op = { .kind = TABLE_SCAVENGE };
    struct lease_table *table = prepared(&token);
    change_init(&change, CHANGE_TIDY);
    assert_int_equal(HF_OK, apply_to(table, &change, &op, NULL, 1, &changed));
    assert_false(changed);
    assert_true(change.state.staged);
    assert_false(change.abandoned);
    assert_int_equal(HF_OK, apply_to(table, &change, &op, NULL, 20000, &changed));
    assert_true(changed);
    assert_int_equal(1, op.cleared);
    assert_true(change.blocker == 0);
    assert_state(table, "{\"old\":[\"" T1 "-" ETAG_A "\"]}");
    change_release(&change);
    table_free(table);
    /* Not what a transaction has: that is for its record to say. */
    table = staged(&token);
    assert_int_equal(HF_OK, apply_to(table, &change, &op, NULL, 20000, &changed));
    assert_true(change.abandoned);
    assert_true(change.state.staged);
    assert_false(changed);
    change_release(&change);
    table_free(table);
}

/* ---- Old bodies, and trouble --------------------------------------------------------- */

static void deleted_bodies_are_forgotten_on_the_way(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    bool changed;
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct body_name gone = { 1, ETAG_A };
    struct state_version version = version_of(ETAG_B, token, "hi");
    set_state(table, "{\"old\":[\"1-" ETAG_A "\",\"2-" ETAG_A "\"]}");
    struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
    change.old = &gone;
    change.old_count = 1;
    assert_done(table, &change,
                "{" NOW_B("1", T1, "2", "\"text\":\"hi\"") ",\"old\":[\"2-" ETAG_A "\"]}");
    change_release(&change);
    change_init(&change, CHANGE_FORGET);
    gone.token = 2;
    change.old = &gone;
    change.old_count = 1;
    assert_done(table, &change, "{" NOW_B("1", T1, "2", "\"text\":\"hi\"") "}");
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_false(changed);
    change_release(&change);
    table_free(table);
}

static void looking_changes_nothing(void **unused)
{
    (void)unused;
    uint64_t token;
    bool changed;
    struct change change;
    struct lease_table *table = staged(&token);
    change_init(&change, CHANGE_LOOK);
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_false(changed);
    assert_true(change.state.stage.changes);
    assert_true(change.blocker == token);
    change_release(&change);
    table_free(table);
}

static void a_state_that_cannot_be_read_stops_everything(void **unused)
{
    (void)unused;
    for (int kind = CHANGE_LOOK; kind <= CHANGE_FORGET; kind++) {
        struct lease_table *table = kit_table();
        bool changed;
        uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
        struct state_version version = version_of(ETAG_A, token, "hi");
        set_state(table, "{\"now\":{}}");
        struct change change = change_by((enum change_kind)kind, "a-1", token, &version);
        assert_int_equal(HF_CORRUPT, apply_to(table, &change, NULL, NULL, 1, &changed));
        assert_false(changed);
        assert_state(table, "{\"now\":{}}");
        change_release(&change);
        table_free(table);
    }
}

static void what_leaves_no_room_is_refused_before_the_grant(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    struct change change;
    struct table_op op;
    bool changed;
    struct buffer text = BUFFER_INIT(TABLE_STATE_MAX);
    buffer_append(&text, VIEW("{\"x\":\""));
    while (text.size < TABLE_STATE_MAX - 20)
        buffer_append_byte(&text, 'x');
    buffer_append(&text, VIEW("\"}"));
    set_state(table, buffer_text(&text));
    change_init(&change, CHANGE_ENLIST);
    change.txn = view_of(TXN_A);
    assert_int_equal(HF_UNAVAILABLE, enlist(table, &change, "a-1", false, 0, &op, &changed));
    assert_false(changed);
    assert_int_equal(0, kit_active(table));
    assert_state(table, buffer_text(&text));
    change_release(&change);
    /* Who only wants the lease gets it. */
    change_init(&change, CHANGE_ENLIST);
    assert_int_equal(HF_OK, enlist(table, &change, "a-1", false, 0, &op, &changed));
    change_release(&change);
    buffer_release(&text);
    table_free(table);
}

/* A move of each kind, on a fresh table each time. */
struct trial {
    const char *state;
    enum change_kind kind;
    bool commit, enlists;
};

static enum hf_status attempt(const struct trial *trial, struct lease_table *table,
                              struct change *change, bool *changed)
{
    struct table_op op;
    if (trial->kind == CHANGE_ENLIST)
        return enlist(table, change, "a-1", false, 0, &op, changed);
    if (trial->kind == CHANGE_TIDY) {
        op = (struct table_op){ .kind = TABLE_SCAVENGE };
        return apply_to(table, change, &op, NULL, 1, changed);
    }
    return apply_to(table, change, NULL, NULL, 1, changed);
}

static void fail_allocation(const struct trial *trial, long n, bool *ret_failed)
{
    struct lease_table *table = kit_table();
    bool changed;
    uint64_t token = trial->kind == CHANGE_ENLIST ? 0 : hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = version_of(ETAG_B, token, "hi");
    struct change change = change_by(trial->kind, "a-1", token, &version);
    struct buffer text = BUFFER_INIT(TABLE_STATE_MAX);
    buffer_append(&text, view_of(trial->state));
    assert_true(buffer_reserve(&table->state, text.size));
    table_set_state(table, buffer_view(&text));
    change.commit = trial->commit;
    change.txn = trial->kind == CHANGE_ENLIST || trial->kind == CHANGE_SETTLE ? view_of(TXN_A)
                                                                              : VIEW("");
    change.enlist = trial->enlists ? view_of(TXN_B) : VIEW("");
    alloc_fail_after(n);
    enum hf_status status = attempt(trial, table, &change, &changed);
    *ret_failed = alloc_stop();
    if (*ret_failed) {
        assert_int_equal(HF_UNAVAILABLE, status);
        assert_false(changed);
        assert_true(view_equal(buffer_view(&text), buffer_view(&table->state)));
        status = attempt(trial, table, &change, &changed);
    }
    assert_int_equal(HF_OK, status);
    assert_true(changed);
    change_release(&change);
    buffer_release(&text);
    table_free(table);
}

static void every_allocation_may_fail(void **unused)
{
    (void)unused;
#define LOCAL                                                                        \
    "{\"stage\":{\"token\":1,\"next\":{\"version\":1,\"token\":1,\"etag\":\"" ETAG_A \
    "\",\"size\":9,\"updated_ms\":7,\"body\":true}}}"
#define OF_TXN "{\"stage\":{\"token\":1,\"txn\":\"" TXN_A "\"}}"
    static const struct trial trials[] = {
        { .kind = CHANGE_PUBLISH, .state = "{\"x\":1}" },
        { .kind = CHANGE_STAGE, .state = "{\"x\":1}" },
        { .kind = CHANGE_ENLIST, .state = "" },
        { .kind = CHANGE_ENLIST, .state = LOCAL },
        { .kind = CHANGE_TIDY, .state = LOCAL },
        { .kind = CHANGE_SETTLE, .state = OF_TXN, .commit = true },
        { .kind = CHANGE_SETTLE, .state = OF_TXN, .enlists = true },
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        bool failed = true;
        long n = 0;
        for (; failed; n++)
            fail_allocation(&trials[i], n, &failed);
        assert_true(n > 1);
    }
}

/* ---- Where things are ---------------------------------------------------------------- */

static void keys_of_objects_are_as_in_the_layout(void **unused)
{
    (void)unused;
    char key[KEY_BYTES_MAX + 1];
    struct hf_error error;
    struct body_name body = { 17, ETAG_A };
    assert_status(HF_OK, key_document(VIEW("default"), VIEW("orders/42"), key, &error), &error);
    assert_string_equal("default/meta/orders/42.json", key);
    assert_int_equal(HF_INVALID, key_document(VIEW("default"), VIEW("../x"), key, &error));
    assert_int_equal(HF_INVALID, key_document(VIEW("default"), VIEW(""), key, &error));
    assert_true(key_body_key(VIEW("default"), VIEW("orders/42"), &body, key));
    assert_string_equal("default/state/orders/42/17-" ETAG_A, key);
    char longest[KEY_BYTES_MAX];
    memset(longest, 'x', sizeof longest);
    assert_false(
        key_body_key(VIEW("default"), (struct view){ longest, sizeof longest }, &body, key));
}

/* ---- Asking -------------------------------------------------------------------------- */

static struct change publication(struct hf_lock *lock, struct state_version *version,
                                 const char *etag)
{
    *version = version_of(etag, lock->token, "hi");
    return change_by(CHANGE_PUBLISH, lock->id, lock->token, version);
}

static void a_change_is_one_put(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct state_version version;
    struct hf_lock *lock = lock_held(&pair->one, "k", 60000);
    struct change change = publication(lock, &version, ETAG_A);
    script_counts(&pair->one.way);
    IS(HF_OK, change_ask(lock->ref, &change, (struct mono_time){ 0 }, &error));
    struct counts counts = script_counts(&pair->one.way);
    ASSERT(counts.puts == 1 && counts.gets + counts.looks + counts.others == 0);
    ASSERT(world_times(&pair->world, "default/meta/k.json", ETAG_A) == 1);
    change_release(&change);
    MUST(hf_lock_release(lock, &error));
    hf_lock_free(lock);
}

static void a_change_without_an_answer_is_found_done(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct state_version version;
    struct hf_lock *lock = lock_held(&pair->one, "k", 60000);
    struct change change = publication(lock, &version, ETAG_A);
    change.if_version_set = true;
    way_fail(&pair->one.way, 0, LOSE_REPLY);
    IS(HF_OK, change_ask(lock->ref, &change, (struct mono_time){ 0 }, &error));
    ASSERT(way_has_failed(&pair->one.way));
    ASSERT(change.already && change.state.now.number == 1);
    change_release(&change);
    MUST(hf_lock_release(lock, &error));
    hf_lock_free(lock);
}

static void a_refusal_says_why(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct state_version version;
    struct hf_lock *lock = lock_held(&pair->one, "k", 60000);
    struct change change = publication(lock, &version, ETAG_A);
    change.if_version_set = true;
    change.if_version = 5;
    IS(HF_CONFLICT, change_ask(lock->ref, &change, (struct mono_time){ 0 }, &error));
    ASSERT(change.outcome == HF_KEY_VERSION_CONFLICT && error.status == HF_CONFLICT);
    ASSERT(strcmp(error.why, "the key was never written, so it does not have version 5") == 0);
    change_release(&change);
    MUST(hf_lock_release(lock, &error));
    hf_lock_free(lock);
}

static void write_over(struct hf_lock *lock, const char *etag)
{
    struct hf_error error;
    struct state_version version;
    struct change change = publication(lock, &version, etag);
    MUST(change_ask(lock->ref, &change, (struct mono_time){ 0 }, &error));
    change_release(&change);
}

/* The answer is lost, and before it can be asked for the lease is taken away and the state written
 * over: nobody can tell any more whether it had been published. */
static void what_may_have_been_done_is_not_told_as_refused(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct state_version version;
    struct hf_lock *lock = lock_held(&pair->one, "k", 60000);
    struct hf_lock *other = lock_of(&pair->two, "k", 60000);
    struct change change = publication(lock, &version, ETAG_A);
    struct request request;
    /* Another process breaks the lease, through its own table_ref. */
    request_init(&request, other->ref, TABLE_BREAK, (struct mono_time){ 0 });
    request.table.id = view_of(lock->id);
    request.table.token = lock->token;
    request.table.by = VIEW("operator");
    request.table.note = VIEW("\"gone\"");
    IS(HF_OK, table_ref_ask(other->ref, (struct request *[]){ &request }, 1));
    MUST(hf_lock_acquire(other, 0, &error));
    write_over(other, ETAG_B);
    write_over(other, ETAG_C);
    /* Our put meets a conflict, which may have been with ourselves. */
    IS(HF_UNSURE, change_ask(lock->ref, &change, (struct mono_time){ 0 }, &error));
    ASSERT(change.outcome == HF_KEY_FENCING_MISMATCH);
    /* Asked anew, of a document that is known, it is a refusal. */
    IS(HF_FENCED, change_ask(lock->ref, &change, (struct mono_time){ 0 }, &error));
    change_release(&change);
    hf_lock_free(lock);
    hf_lock_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a release publishes what was staged, or drops it",
           a_release_publishes_what_was_staged_or_drops_it),
        IT("a release that comes too late publishes nothing",
           a_release_that_comes_too_late_publishes_nothing),
        IT("a release leaves what transactions have staged",
           a_release_leaves_the_stages_of_transactions),
        IT("tidying drops what a lease that is over had staged, and no more",
           tidying_drops_what_a_lease_that_is_over_had_staged),
        IT("bodies that were deleted are forgotten on the way",
           deleted_bodies_are_forgotten_on_the_way),
        IT("looking changes nothing", looking_changes_nothing),
        IT("a state that cannot be read stops everything",
           a_state_that_cannot_be_read_stops_everything),
        IT("a state that leaves no room refuses the transaction before the grant",
           what_leaves_no_room_is_refused_before_the_grant),
        IT("every allocation may fail", every_allocation_may_fail),
        IT("keys of objects are as in the layout", keys_of_objects_are_as_in_the_layout),
        PAIR("a change is one put", a_change_is_one_put),
        PAIR("a change whose answer is lost is found done",
             a_change_without_an_answer_is_found_done),
        PAIR("a refusal says why", a_refusal_says_why),
        PAIR("what may have been done is not told as refused",
             what_may_have_been_done_is_not_told_as_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
