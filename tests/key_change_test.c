/* SPDX-License-Identifier: Apache-2.0 */
/* key_change_test.c: changes of a key's state on one body of its document: which are refused
 * and why, and the results of the others, for the holder and for transactions. */
#include "key_change_kit.h"

#include <ctype.h>

/* ---- Outcomes ------------------------------------------------------------------------ */

static void outcomes_are_named_as_in_the_header(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        enum hf_status status;
        const char *sentence;
    } rows[] = {
#define ROW(name, status, sentence) { #name, HF_##status, sentence },
        HF_KEY_OUTCOME_TABLE(ROW)
#undef ROW
    };
    for (unsigned i = 0; i < HF_KEY_OUTCOME_COUNT; i++) {
        char lower[64] = "";
        for (size_t j = 0; rows[i].name[j]; j++)
            lower[j] = (char)tolower((unsigned char)rows[i].name[j]);
        assert_string_equal(lower, hf_key_outcome_name((enum hf_key_outcome)i));
        assert_int_equal(rows[i].status, outcome_status((enum hf_key_outcome)i));
        assert_string_equal(rows[i].sentence, outcome_sentence((enum hf_key_outcome)i));
    }
}

/* ---- Publishing ---------------------------------------------------------------------- */

static void the_holder_publishes(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = version_of(ETAG_A, token, "hi");
    struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
    assert_done(table, &change, "{" NOW_A("1", T1, "2", "\"text\":\"hi\"") "}");
    assert_int_equal(1, change.state.now.number);
    assert_true(change.blocker == token);
    change_release(&change);
    version = version_of(ETAG_B, token, "ho");
    change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
    assert_done(table, &change, "{" NOW_B("2", T1, "2", "\"text\":\"ho\"") "}");
    change_release(&change);
    table_free(table);
}

static void a_publication_knows_itself(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    bool changed;
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = version_of(ETAG_A, token, "hi");
    struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
    change.if_version_set = true;
    assert_done(table, &change, NULL);
    /* Even when its condition does not hold any more, and its lease is over. */
    let_go(table, "a-1", token);
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_true(change.already);
    assert_false(changed);
    assert_int_equal(1, change.state.now.number);
    change_release(&change);
    table_free(table);
}

static void the_time_of_a_version_is_drawn_when_it_has_none(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = version_of(ETAG_A, token, "hi");
    version.at.us = 0;
    struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
    assert_done(table, &change, NULL);
    assert_true(change.state.now.at.us == kit_at(1).wall.us);
    change_release(&change);
    table_free(table);
}

static void only_the_holder_publishes(void **unused)
{
    (void)unused;
    enum change_kind kinds[] = { CHANGE_PUBLISH, CHANGE_STAGE };
    for (size_t i = 0; i < 2; i++) {
        struct lease_table *table = kit_table();
        struct change change;
        uint64_t shared = hold(table, "s-1", LEASE_SHARED, 0);
        struct state_version version = version_of(ETAG_A, shared, "hi");
        change = change_by(kinds[i], "", shared, &version);
        assert_refused(table, &change, HF_KEY_LEASE_REQUIRED, 1);
        change = change_by(kinds[i], "s-1", shared, &version);
        assert_refused(table, &change, HF_KEY_LEASE_REQUIRED, 1);
        let_go(table, "s-1", shared);

        uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
        version.token = token + 1;
        change = change_by(kinds[i], "a-1", token + 1, &version);
        assert_refused(table, &change, HF_KEY_FENCING_MISMATCH, 1);
        version.token = token;
        change = change_by(kinds[i], "a-1", token, &version);
        assert_refused(table, &change, HF_KEY_LEASE_EXPIRED, /* ttl of 10 s */ 20000);
        let_go(table, "a-1", token);
        change = change_by(kinds[i], "a-1", token, &version);
        assert_refused(table, &change, HF_KEY_LEASE_EXPIRED, 1);
        hold(table, "b-1", LEASE_EXCLUSIVE, 1);
        change = change_by(kinds[i], "a-1", token, &version);
        assert_refused(table, &change, HF_KEY_FENCING_MISMATCH, 1);
        table_free(table);
    }
}

static void a_broken_lease_publishes_nothing(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = version_of(ETAG_A, token, "hi");
    assert_int_equal(HF_OK, kit_do(table, &op, kit_at(1), TABLE_BREAK, "a-1", token));
    struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
    assert_refused(table, &change, HF_KEY_LEASE_EXPIRED, 1);
    table_free(table);
}

/* A condition, and whether it holds of the state. */
struct demand {
    const char *state;
    bool version_set;
    uint64_t version;
    const char *etag;
    enum hf_key_outcome outcome;
};

static void conditions_are_checked(void **unused)
{
    (void)unused;
#define HAS_3  "{" NOW_A("3", "1", "2", "\"text\":\"hi\"") "}"
#define GONE_3 "{" NOW_A("3", "1", "0", "\"removed\":true") "}"
    static const struct demand rows[] = {
        { "", true, 0, "", HF_KEY_NONE },
        { "", true, 1, "", HF_KEY_VERSION_CONFLICT },
        { "", false, 0, ETAG_A, HF_KEY_ETAG_MISMATCH },
        { HAS_3, true, 3, "", HF_KEY_NONE },
        { HAS_3, true, 3, ETAG_A, HF_KEY_NONE },
        { HAS_3, true, 0, "", HF_KEY_VERSION_CONFLICT },
        { HAS_3, true, 2, ETAG_A, HF_KEY_VERSION_CONFLICT },
        { HAS_3, true, 3, ETAG_B, HF_KEY_ETAG_MISMATCH },
        { HAS_3, false, 0, "aaaa", HF_KEY_ETAG_MISMATCH },
        { GONE_3, true, 0, "", HF_KEY_NONE },
        { GONE_3, true, 3, ETAG_A, HF_KEY_NONE },
        { GONE_3, true, 2, "", HF_KEY_VERSION_CONFLICT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lease_table *table = kit_table();
        uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
        struct state_version version = version_of(ETAG_B, token, "new");
        set_state(table, rows[i].state);
        struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
        change.if_version_set = rows[i].version_set;
        change.if_version = rows[i].version;
        change.if_etag = view_of(rows[i].etag);
        if (rows[i].outcome == HF_KEY_NONE) {
            assert_done(table, &change, NULL);
            change_release(&change);
        } else {
            assert_refused(table, &change, rows[i].outcome, 1);
        }
        table_free(table);
    }
}

static void conditions_are_about_what_its_holder_sees(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version first = version_of(ETAG_A, token, "one");
    struct state_version second = version_of(ETAG_B, token, "two");
    struct change change = change_by(CHANGE_STAGE, "a-1", token, &first);
    change.if_version_set = true;
    assert_done(table, &change, NULL);
    change_release(&change);
    change = change_by(CHANGE_STAGE, "a-1", token, &second);
    change.if_version_set = true;
    assert_refused(table, &change, HF_KEY_VERSION_CONFLICT, 1);
    change = change_by(CHANGE_STAGE, "a-1", token, &second);
    change.if_version_set = true;
    change.if_version = 1;
    change.if_etag = view_of(ETAG_A);
    assert_done(table, &change, NULL);
    assert_int_equal(1, change.state.stage.next.number);
    change_release(&change);
    table_free(table);
}

static void a_lost_state_is_replaced_only_without_conditions(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    bool changed;
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = version_of(ETAG_A, token, "hi");
    set_state(table, "{\"lost\":true}");
    struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
    change.if_version_set = true;
    assert_int_equal(HF_CORRUPT, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_false(changed);
    change.if_version_set = false;
    assert_done(table, &change, "{" NOW_A(T1, T1, "2", "\"text\":\"hi\"") "}");
    change_release(&change);
    table_free(table);
}

static void what_it_had_staged_is_superseded(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version first = with_body(ETAG_A, token);
    struct state_version second = version_of(ETAG_B, token, "two");
    struct change change = change_by(CHANGE_STAGE, "a-1", token, &first);
    assert_done(table, &change, NULL);
    change_release(&change);
    change = change_by(CHANGE_PUBLISH, "a-1", token, &second);
    assert_done(table, &change,
                "{" NOW_B("1", T1, "3", "\"text\":\"two\"") ",\"old\":[\"" T1 "-" ETAG_A
                                                            "\"]}");
    change_release(&change);
    table_free(table);
}

/* An attempt without an answer, and then whoever has the same lease publishes: `number` is what
 * stands there when it is tried again. */
static void what_may_have_been_superseded_is_not_published_again(void **unused)
{
    (void)unused;
    for (int later = 0; later < 2; later++) {
        struct lease_table *table = kit_table();
        bool changed;
        uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
        struct state_version version = with_body(ETAG_A, token);
        struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
        assert_done(table, &change, NULL); /* would be version 1 */
        if (later) {
            set_state(table, "{" NOW_B("2", T1, "2", "\"text\":\"hi\"") "}");
            assert_refused(table, &change, HF_KEY_VERSION_CONFLICT, 1);
        } else { /* that is version 1, so ours was not */
            set_state(table, "{" NOW_B("1", T1, "2", "\"text\":\"hi\"") "}");
            assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
            assert_true(changed && change.state.now.number == 2);
            change_release(&change);
        }
        table_free(table);
    }
}

/* ---- Without a lease ------------------------------------------------------------------- */

static struct change once(const struct state_version *version)
{
    return change_by(CHANGE_ONCE, "", 0, version);
}

static void a_free_key_is_changed_without_a_lease(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    uint64_t next = table->next_token;
    struct state_version version = version_of(ETAG_A, 0, "hi");
    struct change change = once(&version);
    assert_done(table, &change, "{" NOW_A("1", T1, "2", "\"text\":\"hi\"") "}");
    assert_true(table->next_token == next + 1);
    bool changed;
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_true(change.already && !changed && table->next_token == next + 1);
    change_release(&change);
    assert_true(hold(table, "a-1", LEASE_EXCLUSIVE, 0) == next + 1);
    table_free(table);
}

static void a_key_that_is_not_free_is_not_changed_without_a_lease(void **unused)
{
    (void)unused;
    struct state_version version = version_of(ETAG_A, 0, "hi");
    enum { HELD, SHARED, OVER, IN_LINE, STAGED, STAGED_ALONE, NO_TOKEN, CASES };
    for (int which = 0; which < CASES; which++) {
        struct lease_table *table = kit_table();
        struct change change = once(&version), line = change_by(CHANGE_ENLIST, "", 0, NULL);
        struct table_op op;
        bool changed;
        uint64_t token = 0;
        if (which == HELD || which == SHARED || which == OVER || which == IN_LINE)
            token = hold(table, "a-1", which == SHARED ? LEASE_SHARED : LEASE_EXCLUSIVE, 0);
        if (which == IN_LINE) {
            enlist(table, &line, "b-1", /* wait */ true, 0, &op, &changed);
            let_go(table, "a-1", token);
            assert_true(table->waiter_count == 1);
        }
        if (which == STAGED) {
            table_free(table);
            table = staged(&token);
            let_go(table, "a-1", token);
        }
        if (which == STAGED_ALONE) {
            token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
            struct state_version next = version_of(ETAG_B, token, "ho");
            struct change stage = change_by(CHANGE_STAGE, "a-1", token, &next);
            assert_done(table, &stage, NULL);
            change_release(&stage);
            let_go(table, "a-1", token);
        }
        if (which == NO_TOKEN)
            table->next_token |= UINT32_MAX;
        assert_refused(table, &change, HF_KEY_WAITING, which == OVER ? 100000000 : 1);
        change_release(&line);
        table_free(table);
    }
}

static void a_change_without_a_lease_is_not_repeated_over_a_later_one(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    struct state_version version = version_of(ETAG_A, 0, "hi");
    struct change change = once(&version);
    assert_done(table, &change, NULL); /* would be version 1 */
    set_state(table, "{" NOW_B("2", T1, "2", "\"text\":\"ho\"") "}");
    assert_refused(table, &change, HF_KEY_VERSION_CONFLICT, 1);
    table_free(table);
}

/* Version 1 is another one, or may be this one. */
static void a_change_that_was_not_made_is_repeated(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    struct state_version version = version_of(ETAG_A, 0, "hi");
    struct change change = once(&version);
    assert_done(table, &change, NULL); /* would be version 1 */
    set_state(
        table,
        "{" NOW_B("3", T1, "2",
                  "\"text\":\"ho\"") ",\"recent\":{\"version\":2,\"etags\":\"ccccaaaa\"}}");
    assert_refused(table, &change, HF_KEY_VERSION_CONFLICT, 1);
    set_state(
        table,
        "{" NOW_B("3", T1, "2",
                  "\"text\":\"ho\"") ",\"recent\":{\"version\":2,\"etags\":\"cccccccc\"}}");
    change.remembers = true;
    assert_done(table, &change, NULL);
    assert_int_equal(change.state.now.number, 4);
    assert_int_equal(change.state.recent.number, 3);
    change_release(&change);
    table_free(table);
}

/* ---- Transactions -------------------------------------------------------------------- */

static void a_grant_takes_the_key_in_the_same_write(void **unused)
{
    (void)unused;
    uint64_t token;
    struct lease_table *table = taken(&token);
    assert_state(table, "{\"stage\":{\"token\":" T1 ",\"txn\":\"" TXN_A "\"}}");
    table_free(table);
}

static void who_is_not_granted_takes_nothing(void **unused)
{
    (void)unused;
    for (int wait = 0; wait < 2; wait++) {
        struct lease_table *table = kit_table();
        struct change change;
        struct table_op op;
        bool changed;
        uint64_t token = hold(table, "b-1", LEASE_EXCLUSIVE, 0);
        set_state(table, "{" NOW_A("3", "1", "2", "\"text\":\"hi\"") "}");
        change_init(&change, CHANGE_ENLIST);
        change.txn = view_of(TXN_A);
        enum hf_status status = enlist(table, &change, "a-1", wait, 1, &op, &changed);
        assert_int_equal(wait ? HF_OK : HF_HELD, status);
        assert_false(changed);
        assert_int_equal(3, change.state.now.number);
        assert_true(change.blocker == token);
        assert_state(table, "{" NOW_A("3", "1", "2", "\"text\":\"hi\"") "}");
        change_release(&change);
        table_free(table);
    }
}

static void a_grant_drops_what_a_lease_that_is_over_had_staged(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    struct change change;
    struct table_op op;
    bool changed;
    uint64_t token = hold(table, "b-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = with_body(ETAG_A, token);
    change = change_by(CHANGE_STAGE, "b-1", token, &version);
    assert_done(table, &change, NULL);
    change_release(&change);
    let_go(table, "b-1", token);
    change_init(&change, CHANGE_ENLIST);
    assert_int_equal(HF_OK, enlist(table, &change, "a-1", false, 1, &op, &changed));
    assert_true(changed);
    assert_false(change.state.staged);
    assert_state(table, "{\"old\":[\"" T1 "-" ETAG_A "\"]}");
    change_release(&change);
    table_free(table);
}

static void a_grant_leaves_what_another_transaction_has_staged(void **unused)
{
    (void)unused;
    uint64_t token;
    struct lease_table *table = taken(&token);
    struct change change;
    struct table_op op;
    bool changed;
    let_go(table, "a-1", token);
    change_init(&change, CHANGE_ENLIST);
    change.txn = view_of(TXN_B);
    assert_int_equal(HF_OK, enlist(table, &change, "b-1", false, 1, &op, &changed));
    assert_false(changed);
    assert_true(change.abandoned);
    assert_state(table, "{\"stage\":{\"token\":" T1 ",\"txn\":\"" TXN_A "\"}}");
    change_release(&change);
    /* The holder cannot change it before that is settled. */
    struct state_version version = version_of(ETAG_A, op.granted, "hi");
    change = change_by(CHANGE_PUBLISH, "b-1", op.granted, &version);
    assert_refused(table, &change, HF_KEY_TXN_MISMATCH, 1);
    change = change_by(CHANGE_STAGE, "b-1", op.granted, &version);
    change.txn = view_of(TXN_B);
    assert_refused(table, &change, HF_KEY_TXN_MISMATCH, 1);
    table_free(table);
}

static void a_transaction_does_not_take_up_what_it_has_under_a_lease_that_is_over(void **unused)
{
    (void)unused;
    uint64_t token;
    struct lease_table *table = taken(&token);
    struct table_op op;
    bool changed;
    struct state_version version = version_of(ETAG_A, token, "hi");
    struct change change = change_by(CHANGE_STAGE, "a-1", token, &version);
    change.txn = view_of(TXN_A);
    assert_done(table, &change, NULL);
    change_release(&change);
    let_go(table, "a-1", token);
    change_init(&change, CHANGE_ENLIST);
    change.txn = view_of(TXN_A);
    assert_int_equal(HF_OK, enlist(table, &change, "a-2", false, 1, &op, &changed));
    assert_true(op.granted > token);
    assert_false(changed); /* it has the lease, and then has to settle */
    assert_true(change.abandoned && change.state.stage.token == token);
    assert_string_equal(ETAG_A, change.state.stage.next.etag);
    change_release(&change);
    table_free(table);
}

static void a_taken_key_is_changed_by_its_transaction_alone(void **unused)
{
    (void)unused;
    uint64_t token;
    struct lease_table *table = taken(&token);
    struct state_version version = version_of(ETAG_A, token, "hi");
    struct change change = change_by(CHANGE_PUBLISH, "a-1", token, &version);
    assert_refused(table, &change, HF_KEY_TXN_MISMATCH, 1);
    change = change_by(CHANGE_STAGE, "a-1", token, &version);
    assert_refused(table, &change, HF_KEY_TXN_MISMATCH, 1);
    change = change_by(CHANGE_STAGE, "a-1", token, &version);
    change.txn = view_of(TXN_B);
    assert_refused(table, &change, HF_KEY_TXN_MISMATCH, 1);
    change = change_by(CHANGE_STAGE, "a-1", token, &version);
    change.txn = view_of(TXN_A);
    assert_done(table, &change, NULL);
    assert_true(view_equal(VIEW(TXN_A), view_of(change.state.stage.txn)));
    bool changed; /* and once more, since the answer was lost */
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_true(change.already);
    assert_false(changed);
    change_release(&change);
    table_free(table);
}

static void a_transaction_changes_only_what_it_has_taken(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version version = version_of(ETAG_A, token, "hi");
    struct change change = change_by(CHANGE_STAGE, "a-1", token, &version);
    change.txn = view_of(TXN_A);
    assert_refused(table, &change, HF_KEY_TXN_MISMATCH, 1);
    table_free(table);
}

static struct change settle_of(const char *txn, bool commit)
{
    struct change change;
    change_init(&change, CHANGE_SETTLE);
    change.txn = view_of(txn);
    change.commit = commit;
    return change;
}

/* The same for what is staged: whoever has the same lease has staged over it. */
static void what_may_have_been_staged_over_is_not_staged_again(void **unused)
{
    (void)unused;
    uint64_t token;
    struct lease_table *table = taken(&token);
    struct state_version first = with_body(ETAG_A, token), second = with_body(ETAG_B, token);
    struct change change = change_by(CHANGE_STAGE, "a-1", token, &first);
    struct change other = change_by(CHANGE_STAGE, "a-1", token, &second);
    change.txn = other.txn = view_of(TXN_A);
    assert_done(table, &change, NULL);
    assert_done(table, &other, NULL);
    assert_refused(table, &change, HF_KEY_VERSION_CONFLICT, 1);
    bool changed; /* who finds what it found is free to try again */
    set_state(table, "{\"stage\":{\"token\":" T1 ",\"txn\":\"" TXN_A "\"}}");
    change = change_by(CHANGE_STAGE, "a-1", token, &first);
    change.txn = view_of(TXN_A);
    assert_done(table, &change, NULL);
    set_state(table, "{\"stage\":{\"token\":" T1 ",\"txn\":\"" TXN_A "\"}}");
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_true(changed);
    change_release(&change);
    change_release(&other);
    table_free(table);
}

/* Nothing is staged then, as there was nothing when it was tried first. */
static void what_may_have_been_published_over_is_not_staged_again(void **unused)
{
    (void)unused;
    struct lease_table *table = kit_table();
    uint64_t token = hold(table, "a-1", LEASE_EXCLUSIVE, 0);
    struct state_version first = with_body(ETAG_A, token), second = with_body(ETAG_B, token);
    struct change change = change_by(CHANGE_STAGE, "a-1", token, &first);
    struct change other = change_by(CHANGE_PUBLISH, "a-1", token, &second);
    assert_done(table, &change, NULL);
    assert_done(table, &other, NULL);
    assert_refused(table, &change, HF_KEY_VERSION_CONFLICT, 1);
    change_release(&other);
    table_free(table);
}

static void what_is_sealed_stays_as_it_is(void **unused)
{
    (void)unused;
    uint64_t token;
    bool changed;
    struct lease_table *table = staged(&token);
    struct change seal;
    change_init(&seal, CHANGE_SEAL);
    seal.txn = view_of(TXN_A);
    assert_done(table, &seal, NULL);
    assert_true(seal.found && seal.state.stage.sealed);
    assert_int_equal(HF_OK, apply_to(table, &seal, NULL, NULL, 1, &changed));
    assert_true(seal.already && !changed);
    change_release(&seal);
    struct state_version version = version_of(ETAG_B, token, "hi");
    struct change change = change_by(CHANGE_STAGE, "a-1", token, &version);
    change.txn = view_of(TXN_A);
    assert_refused(table, &change, HF_KEY_TXN_MISMATCH, 1);
    change = settle_of(TXN_A, true);
    assert_done(table, &change, "{" NOW_A("1", T1, "9000", "\"body\":true") "}");
    change_release(&change);
    /* Where nothing is staged for it, or under a lease that is over, there is nothing to seal. */
    change_init(&seal, CHANGE_SEAL);
    seal.txn = view_of(TXN_A);
    assert_refused(table, &seal, HF_KEY_LEASE_EXPIRED, 1);
    table_free(table);
    table = staged(&token);
    let_go(table, "a-1", token);
    change_init(&seal, CHANGE_SEAL);
    seal.txn = view_of(TXN_A);
    assert_refused(table, &seal, HF_KEY_LEASE_EXPIRED, 1);
    table_free(table);
}

static void what_is_decided_is_settled(void **unused)
{
    (void)unused;
    for (int commit = 0; commit < 2; commit++) {
        uint64_t token;
        bool changed;
        struct lease_table *table = staged(&token);
        struct change change = settle_of(TXN_A, commit);
        assert_done(table, &change,
                    commit ? "{" NOW_A("1", T1, "9000", "\"body\":true") "}"
                           : "{\"old\":[\"" T1 "-" ETAG_A "\"]}");
        assert_true(change.found);
        /* Again: it is not there any more. */
        assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
        assert_false(changed);
        assert_false(change.found);
        assert_true(change.already);
        change_release(&change);
        table_free(table);
    }
}

static void what_is_of_others_is_not_settled(void **unused)
{
    (void)unused;
    uint64_t token;
    bool changed;
    struct lease_table *table = staged(&token);
    struct change change = settle_of(TXN_B, true);
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_false(changed);
    assert_false(change.found);
    assert_true(change.state.staged);
    change_release(&change);
    table_free(table);
}

/* While it is pending, a process gives back only what it has taken itself. */
static void a_stage_under_another_token_is_not_given_back(void **unused)
{
    (void)unused;
    uint64_t token;
    bool changed;
    struct lease_table *table = staged(&token);
    struct change change = settle_of(TXN_A, false);
    change.under = token + 1;
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_false(changed || change.found);
    assert_true(change.already && change.state.staged);
    change.under = token;
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_true(changed && change.found && !change.state.staged);
    change_release(&change);
    table_free(table);
}

/* Who commits counts on it. */
static void a_stage_that_is_sealed_is_not_given_back(void **unused)
{
    uint64_t token;
    struct lease_table *table = staged(&token);
    struct change seal, change = settle_of(TXN_A, false);
    bool changed;
    (void)unused;
    change_init(&seal, CHANGE_SEAL);
    seal.txn = view_of(TXN_A);
    assert_done(table, &seal, NULL);
    change.under = token;
    assert_int_equal(HF_OK, apply_to(table, &change, NULL, NULL, 1, &changed));
    assert_true(!changed && !change.found && change.state.staged);
    change_release(&change);
    change = settle_of(TXN_A, false); /* it is decided */
    assert_done(table, &change, NULL);
    assert_true(change.found && !change.state.staged);
    change_release(&change);
    change_release(&seal);
    table_free(table);
}

static void who_settles_takes_the_key_in_the_same_write(void **unused)
{
    (void)unused;
    uint64_t token;
    struct lease_table *table = staged(&token);
    let_go(table, "a-1", token);
    uint64_t next = hold(table, "b-1", LEASE_EXCLUSIVE, 1);
    struct change change = settle_of(TXN_A, true);
    change.enlist = view_of(TXN_B);
    change.lease = view_of("b-1");
    change.token = next;
    assert_done(table, &change,
                "{" NOW_A("1", T1, "9000", "\"body\":true") ",\"stage\":{\"token\":" T2
                                                            ",\"txn\":\"" TXN_B "\"}}");
    change_release(&change);
    /* Only with the lease, and only what is free then. */
    change = settle_of(TXN_B, false);
    change.enlist = view_of(TXN_A);
    change.lease = view_of("a-1");
    change.token = token;
    assert_refused(table, &change, HF_KEY_FENCING_MISMATCH, 1);
    change =
        settle_of("00000000000000000000000000000000", false); /* under a lease that is over */
    change.enlist = view_of(TXN_B);
    change.lease = view_of("c-1");
    let_go(table, "b-1", next);
    change.token = hold(table, "c-1", LEASE_EXCLUSIVE, 1);
    assert_refused(table, &change, HF_KEY_WAITING, 1);
    let_go(table, "c-1", change.token);
    next = hold(table, "b-1", LEASE_EXCLUSIVE, 1);
    change = settle_of("00000000000000000000000000000000", false);
    change.enlist = view_of(TXN_A);
    change.lease = view_of("b-1");
    change.token = next;
    assert_refused(table, &change, HF_KEY_WAITING, 1);
    table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("outcomes have the names and statuses of the header",
           outcomes_are_named_as_in_the_header),
        IT("the holder publishes, and versions count", the_holder_publishes),
        IT("a publication that finds itself there is done", a_publication_knows_itself),
        IT("a version without a time gets that of the attempt",
           the_time_of_a_version_is_drawn_when_it_has_none),
        IT("only the holder publishes or stages: alone, by id and token, and in time",
           only_the_holder_publishes),
        IT("a broken lease publishes nothing", a_broken_lease_publishes_nothing),
        IT("conditions on version and ETag are checked", conditions_are_checked),
        IT("conditions are about what the holder sees, staged or not",
           conditions_are_about_what_its_holder_sees),
        IT("a lost state is replaced only without conditions",
           a_lost_state_is_replaced_only_without_conditions),
        IT("what the same lease had staged is superseded by what it publishes",
           what_it_had_staged_is_superseded),
        IT("a free key is changed without a lease, under the next token",
           a_free_key_is_changed_without_a_lease),
        IT("a key that is held, waited for or staged is not changed without a lease",
           a_key_that_is_not_free_is_not_changed_without_a_lease),
        IT("a change without a lease is not repeated over a later one",
           a_change_without_a_lease_is_not_repeated_over_a_later_one),
        IT("unless the document shows that it was not made",
           a_change_that_was_not_made_is_repeated),
        IT("a grant takes the key for its transaction in the same write",
           a_grant_takes_the_key_in_the_same_write),
        IT("who is not granted the key takes nothing", who_is_not_granted_takes_nothing),
        IT("a grant drops what a lease that is over had staged",
           a_grant_drops_what_a_lease_that_is_over_had_staged),
        IT("a grant leaves what another transaction has staged, which locks the key",
           a_grant_leaves_what_another_transaction_has_staged),
        IT("a transaction does not take up what it has under a lease that is over",
           a_transaction_does_not_take_up_what_it_has_under_a_lease_that_is_over),
        IT("a key that is taken is changed by its transaction alone",
           a_taken_key_is_changed_by_its_transaction_alone),
        IT("a transaction changes only what it has taken",
           a_transaction_changes_only_what_it_has_taken),
        IT("what may have been published and superseded is not published again",
           what_may_have_been_superseded_is_not_published_again),
        IT("what may have been staged over is not staged again",
           what_may_have_been_staged_over_is_not_staged_again),
        IT("what may have been published over is not staged again",
           what_may_have_been_published_over_is_not_staged_again),
        IT("what is sealed stays as it is until it is settled", what_is_sealed_stays_as_it_is),
        IT("a stage under another token is not given back",
           a_stage_under_another_token_is_not_given_back),
        IT("a stage that is sealed is not given back",
           a_stage_that_is_sealed_is_not_given_back),
        IT("what is decided is promoted or discarded, once", what_is_decided_is_settled),
        IT("what another transaction has staged is not settled",
           what_is_of_others_is_not_settled),
        IT("who settles takes the key in the same write, with the lease",
           who_settles_takes_the_key_in_the_same_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
