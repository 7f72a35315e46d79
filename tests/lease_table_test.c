/* SPDX-License-Identifier: Apache-2.0 */
/* lease_table_test.c: each transition of the table, each refusal, and each of them again after
 * a lost reply. Waiting is in lease_queue_test.c, the form of the document in
 * lease_json_test.c. */
#include "lease_kit.h"
#include "test.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define EPOCH_1 (UINT64_C(1) << 32)

static uint64_t grant(struct lease_table *table, int64_t ms, const char *id, const char *scopes)
{
    struct table_op op;
    assert_status(
        HF_OK, kit_acquire(table, &op, kit_at(ms), (struct wish){ .id = id, .scopes = scopes }),
        &op.error);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    table_check(table);
    return op.granted;
}

/* One that stays in the table when it is over, however it ends. */
static uint64_t grant_with_output(struct lease_table *table, int64_t ms, const char *id,
                                  const char *scopes)
{
    struct table_op op;
    struct wish wish = { .id = id, .scopes = scopes, .output = "out/1" };
    assert_status(HF_OK, kit_acquire(table, &op, kit_at(ms), wish), &op.error);
    return op.granted;
}

static enum lease_status status_of(const struct lease_table *table, const char *id)
{
    const struct lease *lease = kit_lease(table, id);
    assert_non_null(lease);
    return lease->status;
}

/* ---- Acquire ------------------------------------------------------------------------- */

static void acquire_grants_a_token(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct evidence began = kit_at(1000);
    struct wish wish = {
        .id = "s-1", .scopes = "named:x", .output = "out/1", .note = "{\"k\":1}"
    };
    assert_status(HF_OK, kit_acquire(table, &op, began, wish), &op.error);
    assert_true(op.changed && !op.already);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_true(op.granted >> 32 == 1);
    assert_true(view_equal(op.granted_by, began.nonce));
    assert_int_equal(op.expires.us, began.latest.us + 10000000);
    const struct lease *lease = kit_lease(table, "s-1");
    assert_non_null(lease);
    assert_true(lease->token == op.granted && lease->status == LEASE_ACTIVE);
    assert_true(view_equal(lease->nonce, began.nonce) && view_equal(lease->clock, began.clock));
    assert_true(view_equal(lease->session, VIEW("s")) &&
                view_equal(lease->output, VIEW("out/1")));
    assert_true(view_equal(lease->note, VIEW("{\"k\":1}")));
    assert_int_equal(lease->expires.us, op.expires.us);
    assert_int_equal(lease->renewals, 0);
    table_free(table);
}

static void a_held_scope_is_refused(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, "a-1", "chunk:x chunk:y");
    struct wish wish = { .id = "b-1", .scopes = "chunk:z chunk:y" };
    assert_int_equal(kit_acquire(table, &op, kit_at(1), wish), HF_HELD);
    assert_string_equal(op.blocker, "a-1");
    assert_true(op.error.why[0] != '\0' && op.error.status == HF_HELD);
    assert_false(op.changed);
    assert_null(kit_lease(table, "b-1"));
    /* The same session is no exception: re-entrance is counted by the handle, not here. */
    wish = (struct wish){ .id = "a-2", .scopes = "chunk:x", .session = "a" };
    assert_int_equal(kit_acquire(table, &op, kit_at(1), wish), HF_HELD);
    assert_true(grant(table, 2, "b-1", "chunk:z") > token);
    table_free(table);
}

static void a_repeated_acquire_finds_its_own(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct evidence first = kit_at(0);
    struct wish wish = { .id = "a-1", .scopes = "named:x" };
    assert_status(HF_OK, kit_acquire(table, &op, first, wish), &op.error);
    uint64_t token = op.granted, next = table->next_token;
    table = kit_reload(table, 5);
    assert_status(HF_OK, kit_acquire(table, &op, kit_at(100), wish), &op.error);
    assert_true(op.already);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_true(op.granted == token && table->next_token == next);
    assert_true(view_equal(op.granted_by, first.nonce));
    assert_int_equal(op.expires.us, first.latest.us + 10000000);
    assert_int_equal(kit_active(table), 1);
    table_free(table);
}

static void a_repeated_acquire_of_what_ended_is_lost(void **state)
{
    (void)state;
    static const enum table_op_kind ends[] = { TABLE_COMPLETE, TABLE_BREAK, TABLE_FAIL };
    for (size_t i = 0; i < 3; i++) {
        struct lease_table *table = kit_table();
        struct table_op op;
        uint64_t token = grant(table, 0, "a-1", "named:x");
        assert_int_equal(kit_do(table, &op, kit_at(1), ends[i], "a-1", token), HF_OK);
        struct wish wish = { .id = "a-1", .scopes = "named:x" };
        assert_int_equal(kit_acquire(table, &op, kit_at(2), wish), HF_LOST);
        assert_true(op.already); /* it is in the store, where it may not have ended yet */
        assert_int_equal(kit_active(table), 0);
        table_free(table);
    }
}

static void ttls_are_bounded(void **state)
{
    (void)state;
    static const struct {
        int64_t ttl_us;
        enum hf_status status;
    } rows[] = { { LEASE_TTL_MS_MIN * 1000, HF_OK },
                 { LEASE_TTL_MS_MIN * 1000 - 1000, HF_INVALID },
                 { 1, HF_INVALID },
                 { -1000000, HF_INVALID },
                 { INT64_C(3600000000), HF_OK },
                 { INT64_C(3600001000), HF_INVALID },
                 { INT64_MAX, HF_INVALID } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct lease_table *table = kit_table();
        struct table_op op;
        struct wish wish = { .id = "a-1", .scopes = "named:x", .ttl_us = rows[i].ttl_us };
        assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), rows[i].status);
        assert_int_equal(table->lease_count, rows[i].status == HF_OK);
        table_free(table);
    }
}

/* What is granted can be read back by everybody, as it was meant. */
static void assert_granted_whole_or_refused(struct lease_request *wanted, const char *what)
{
    struct lease_table *table = kit_table();
    struct evidence evidence = kit_at(0);
    struct table_op op = { .kind = TABLE_ACQUIRE, .wanted = wanted, .id = wanted->id };
    enum hf_status status = table_apply(table, &op, &evidence);
    if (status == HF_OK) {
        struct buffer text = kit_encode(table);
        struct lease_table *again = NULL;
        struct hf_error error;
        if (table_decode(buffer_view(&text), evidence.now, NULL, &again, &error) != HF_OK)
            fail_msg("%s: granted, but cannot be read back: %s", what, error.why);
        const struct lease *lease = table_find(again, wanted->id);
        if (!lease || !view_equal(lease->output, wanted->output) ||
            !view_equal(lease->session, wanted->session) ||
            lease->wish.slots != wanted->wish.slots ||
            lease->wish.level != wanted->wish.level || !view_equal(lease->note, wanted->note) ||
            lease->wish.scope_count != wanted->wish.scope_count)
            fail_msg("%s: granted, but comes back as another", what);
        table_check(again);
        table_free(again);
        buffer_release(&text);
    } else if (status != HF_INVALID || table->lease_count != 0 || op.error.why[0] == '\0') {
        fail_msg("%s: %s", what, hf_status_name(status));
    }
    table_free(table);
}

static void whatever_is_granted_can_be_read_back(void **state)
{
    (void)state;
    static char long_text[300 * 1024];
    memset(long_text, 'a', sizeof long_text);
    static const struct view odd[] = {
        { "a\"b", 3 },       { "a\\b", 3 },       { "a\nb", 3 },
        { "\xff", 1 },       { "a\0b", 3 },       { "", 0 },
        { "é", 2 },          { long_text, 33 },   { long_text, 64 },
        { long_text, 65 },   { long_text, 256 },  { long_text, 257 },
        { long_text, 1024 }, { long_text, 1025 }, { long_text, sizeof long_text },
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char what[64];
        struct scope scope = { .kind = SCOPE_NAMED, .name = VIEW("x") };
        const struct lease_request plain = { .id = VIEW("a-1"),
                                             .session = VIEW("a"),
                                             .wish.scopes = &scope,
                                             .wish.scope_count = 1,
                                             .wish.ttl = SPAN_S(1),
                                             .holder = VIEW("h") };
        struct lease_request wanted = plain;
        wanted.id = odd[i];
        snprintf(what, sizeof what, "id %zu", i);
        assert_granted_whole_or_refused(&wanted, what);
        wanted = plain, wanted.session = odd[i];
        snprintf(what, sizeof what, "session %zu", i);
        assert_granted_whole_or_refused(&wanted, what);
        wanted = plain, wanted.output = odd[i];
        snprintf(what, sizeof what, "output %zu", i);
        assert_granted_whole_or_refused(&wanted, what);
        wanted = plain, wanted.holder = odd[i];
        snprintf(what, sizeof what, "holder %zu", i);
        assert_granted_whole_or_refused(&wanted, what);
        wanted = plain, wanted.note = odd[i];
        snprintf(what, sizeof what, "note %zu", i);
        assert_granted_whole_or_refused(&wanted, what);
    }
}

static void numbers_and_scopes_out_of_bounds_are_refused(void **state)
{
    (void)state;
    static struct scope scopes[LEASE_SCOPES_MAX + 1];
    for (size_t i = 0; i < LEASE_SCOPES_MAX + 1; i++)
        scopes[i] = (struct scope){ .kind = SCOPE_INODE, .inode = i };
    const struct lease_request plain = { .id = VIEW("a-1"),
                                         .session = VIEW("a"),
                                         .wish.scopes = scopes,
                                         .wish.scope_count = 1,
                                         .wish.ttl = SPAN_S(1),
                                         .holder = VIEW("h") };
    struct lease_request wanted = plain;
    wanted.wish.scope_count = LEASE_SCOPES_MAX;
    assert_granted_whole_or_refused(&wanted, "the most scopes");
    wanted.wish.scope_count = LEASE_SCOPES_MAX + 1;
    assert_granted_whole_or_refused(&wanted, "too many scopes");
    wanted = plain, wanted.wish.level = UINT64_C(1) << 40;
    assert_granted_whole_or_refused(&wanted, "a huge level");
    wanted = plain, wanted.wish.mode = LEASE_SLOTS, wanted.wish.slots = UINT64_C(1) << 40;
    assert_granted_whole_or_refused(&wanted, "a huge number of slots");
    wanted = plain, wanted.note = VIEW("{\"deep\":[[[1,2,3]]]}");
    assert_granted_whole_or_refused(&wanted, "a note");
    wanted = plain, wanted.note = VIEW("\"a\",\"token\":77");
    assert_granted_whole_or_refused(&wanted, "a note that means more");
}

/* A note stands deep inside a table, which must still be read. */
static void a_note_that_is_too_deep_is_refused(void **state)
{
    (void)state;
    bool taken = false, refused = false;
    for (size_t depth = 1; depth <= 40; depth++) {
        char note[96];
        memset(note, '[', depth);
        memset(note + depth, ']', depth);
        struct scope scope = { .kind = SCOPE_NAMED, .name = VIEW("x") };
        struct lease_request wanted = { .id = VIEW("a-1"),
                                        .session = VIEW("a"),
                                        .wish.scopes = &scope,
                                        .wish.scope_count = 1,
                                        .wish.ttl = SPAN_S(1),
                                        .note = { note, 2 * depth } };
        assert_granted_whole_or_refused(&wanted, "a deep note");
        struct lease_table *table = kit_table();
        uint64_t token = grant(table, 0, "a-1", "named:x");
        struct evidence evidence = kit_at(1);
        struct table_op op = {
            .kind = TABLE_COMPLETE, .id = VIEW("a-1"), .token = token, .note = wanted.note
        };
        enum hf_status status = table_apply(table, &op, &evidence);
        assert_true(status == HF_OK || status == HF_INVALID);
        taken = taken || status == HF_OK;
        refused = refused || status == HF_INVALID;
        table_free(kit_reload_afresh(table, 2));
    }
    assert_true(taken && refused);
}

static void an_acquire_without_scopes_is_no_barrier(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = { .id = "a-1", .scopes = "" };
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_INVALID);
    table_free(table);
}

/* ---- Renew --------------------------------------------------------------------------- */

static void renew_prolongs(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, "a-1", "named:x"), next = table->next_token;
    struct evidence again = kit_at(4000);
    assert_status(HF_OK, kit_do(table, &op, again, TABLE_RENEW, "a-1", token), &op.error);
    assert_true(op.changed && !op.already && op.granted == token);
    assert_int_equal(op.expires.us, again.latest.us + 10000000);
    const struct lease *lease = kit_lease(table, "a-1");
    assert_int_equal(lease->renewals, 1);
    assert_true(lease->token == token && view_equal(lease->nonce, again.nonce));
    assert_int_equal(lease->expires.us, op.expires.us);
    assert_true(table->next_token == next);
    table_free(table);
}

static void a_repeated_renew_finds_its_own(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, "a-1", "named:x");
    struct evidence first = kit_at(1000), second = kit_at(2000);
    assert_int_equal(kit_do(table, &op, first, TABLE_RENEW, "a-1", token), HF_OK);
    table = kit_reload(table, 1500);
    const struct view mine[] = { VIEW("another"), first.nonce };
    op = (struct table_op){
        .kind = TABLE_RENEW, .id = VIEW("a-1"), .token = token, .mine = mine, .mine_count = 2
    };
    assert_status(HF_OK, table_apply(table, &op, &second), &op.error);
    assert_true(op.already && view_equal(op.granted_by, first.nonce));
    assert_int_equal(op.expires.us, first.latest.us + 10000000);
    assert_int_equal(kit_lease(table, "a-1")->renewals, 1);
    table_free(table);
}

static void renew_never_revives(void **state)
{
    (void)state;
    static const enum table_op_kind ends[] = { TABLE_RELEASE, TABLE_COMPLETE, TABLE_FAIL,
                                               TABLE_BREAK, TABLE_SCAVENGE };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct lease_table *table = kit_table();
        struct table_op op;
        uint64_t token = grant_with_output(table, 0, "a-1", "named:x");
        assert_int_equal(kit_do(table, &op, kit_at(20000), ends[i], "a-1", token), HF_OK);
        enum lease_status ended = status_of(table, "a-1");
        assert_int_not_equal(ended, LEASE_ACTIVE);
        assert_int_equal(kit_do(table, &op, kit_at(20001), TABLE_RENEW, "a-1", token), HF_LOST);
        assert_int_equal(status_of(table, "a-1"), ended);
        table_free(table);
    }
}

static void renew_of_what_is_provably_over_is_lost(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, "a-1", "named:x");
    assert_int_equal(kit_do(table, &op, kit_at(12001), TABLE_RENEW, "a-1", token), HF_LOST);
    assert_int_equal(kit_active(table), 0);
    table_free(table);
}

static void renew_names_id_and_token(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, "a-1", "named:x");
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_RENEW, "a-1", token + 1), HF_MISMATCH);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_RENEW, "a-1", 0), HF_MISMATCH);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_RENEW, "b-1", token), HF_LOST);
    assert_int_equal(kit_lease(table, "a-1")->renewals, 0);
    table_free(table);
}

/* ---- Ends ---------------------------------------------------------------------------- */

static const struct {
    enum table_op_kind kind;
    enum lease_status status;
} ends[] = { { TABLE_RELEASE, LEASE_RELEASED },
             { TABLE_COMPLETE, LEASE_COMPLETED },
             { TABLE_FAIL, LEASE_FAILED },
             { TABLE_BREAK, LEASE_BROKEN } };
#define ENDS ((int)(sizeof ends / sizeof ends[0]))

static void each_end_is_final(void **state)
{
    (void)state;
    for (int first = 0; first < ENDS; first++)
        for (int second = 0; second < ENDS; second++) {
            struct lease_table *table = kit_table();
            struct table_op op;
            uint64_t token = grant_with_output(table, 0, "a-1", "named:x");
            assert_int_equal(kit_do(table, &op, kit_at(1), ends[first].kind, "a-1", token),
                             HF_OK);
            assert_true(op.changed && !op.already);
            assert_int_equal(op.outcome, TABLE_ENDED);
            assert_int_equal(status_of(table, "a-1"), ends[first].status);
            table = kit_reload(table, 2);
            size_t audited = table->audit_count;
            enum hf_status status =
                kit_do(table, &op, kit_at(3), ends[second].kind, "a-1", token);
            if (first == second)
                assert_true(status == HF_OK && op.already);
            else
                assert_true(status == HF_LOST || (status == HF_OK && op.already));
            assert_int_equal(status_of(table, "a-1"), ends[first].status);
            assert_int_equal(table->audit_count, audited);
            /* The scope is free for the next. */
            assert_true(grant(table, 4, "b-1", "named:x") > token);
            table_free(table);
        }
}

static void a_strangers_token_ends_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < ENDS; i++) {
        struct lease_table *table = kit_table();
        struct table_op op;
        uint64_t token = grant(table, 0, "a-1", "named:x");
        enum table_op_kind kind = ends[i].kind;
        assert_int_equal(kit_do(table, &op, kit_at(1), kind, "a-1", token - 1), HF_MISMATCH);
        assert_int_equal(kit_do(table, &op, kit_at(1), kind, "a-1", token + 1), HF_MISMATCH);
        assert_true(kit_do(table, &op, kit_at(1), kind, "b-1", token) != HF_OK || op.already);
        assert_int_equal(status_of(table, "a-1"), LEASE_ACTIVE);
        assert_int_equal(table->audit_count, 0);
        /* Of an ended lease neither. */
        assert_int_equal(kit_do(table, &op, kit_at(2), kind, "a-1", token), HF_OK);
        enum hf_status late = kit_do(table, &op, kit_at(3), kind, "a-1", token + 1);
        assert_true(late == HF_MISMATCH ||
                    (kind == TABLE_RELEASE && late == HF_OK && op.already));
        table_free(table);
    }
}

/* What is not held is released, so a release needs no trace to repeat itself. */
static void a_release_leaves_nothing_but_outputs(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, "a-1", "named:x");
    uint64_t other = grant_with_output(table, 0, "b-1", "named:y");
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_RELEASE, "a-1", token), HF_OK);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_RELEASE, "b-1", other), HF_OK);
    assert_null(kit_lease(table, "a-1"));
    assert_int_equal(status_of(table, "b-1"), LEASE_RELEASED);
    assert_int_equal(kit_do(table, &op, kit_at(2), TABLE_RELEASE, "a-1", token), HF_OK);
    assert_true(op.already);
    assert_int_equal(kit_do(table, &op, kit_at(2), TABLE_RENEW, "a-1", token), HF_LOST);
    assert_int_equal(kit_do(table, &op, kit_at(2), TABLE_COMPLETE, "a-1", token), HF_LOST);
    assert_int_equal(kit_do(table, &op, kit_at(2), TABLE_BREAK, "a-1", token), HF_LOST);
    table_free(table);
}

static void a_retried_break_spares_the_next_holder(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, "a-1", "named:x");
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_BREAK, "a-1", token), HF_OK);
    assert_int_equal(table->audit_count, 1);
    json_t *entry =
        json_loadb(table->audit[0].data, table->audit[0].size, JSON_DECODE_ANY, NULL);
    assert_true(json_is_object(entry));
    json_decref(entry);
    struct buffer text = kit_encode(table);
    assert_non_null(strstr(buffer_text(&text), "a reason"));
    assert_non_null(strstr(buffer_text(&text), "operator"));
    buffer_release(&text);
    grant(table, 2, "b-1", "named:x");
    table = kit_reload(table, 3);
    assert_int_equal(kit_do(table, &op, kit_at(4), TABLE_BREAK, "a-1", token), HF_OK);
    assert_true(op.already);
    assert_int_equal(table->audit_count, 1);
    assert_int_equal(status_of(table, "b-1"), LEASE_ACTIVE);
    table_free(table);
}

static void the_audit_is_bounded(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    char last[16] = "";
    for (int i = 0; i < TABLE_AUDIT_MAX + 10; i++) {
        snprintf(last, sizeof last, "a-%d", i);
        uint64_t token = grant(table, i, last, "named:x");
        assert_int_equal(kit_do(table, &op, kit_at(i), TABLE_BREAK, last, token), HF_OK);
        table_check(table);
    }
    assert_int_equal(table->audit_count, TABLE_AUDIT_MAX);
    struct view newest = table->audit[TABLE_AUDIT_MAX - 1];
    assert_non_null(memmem(newest.data, newest.size, last, strlen(last)));
    table = kit_reload(table, 1);
    assert_int_equal(table->audit_count, TABLE_AUDIT_MAX);
    table_free(table);
}

static void odd_reasons_leave_a_readable_document(void **state)
{
    (void)state;
    static char long_note[NOTE_BYTES_MAX * 2];
    memset(long_note, '1', sizeof long_note);
    static const struct view notes[] = {
        { "not json", 8 }, { "\"a\",\"b\":1", 9 },          { "{", 1 },
        { "\xff", 1 },     { long_note, sizeof long_note }, { "{\"why\":\"x\"}", 11 },
        { "", 0 }
    };
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        for (int k = 0; k < ENDS; k++) {
            struct lease_table *table = kit_table();
            uint64_t token = grant(table, 0, "a-1", "named:x");
            struct evidence evidence = kit_at(1);
            struct table_op op = { .kind = ends[k].kind,
                                   .id = VIEW("a-1"),
                                   .token = token,
                                   .note = notes[i],
                                   .by = VIEW("a \"quoted\" \xff person") };
            enum hf_status status = table_apply(table, &op, &evidence);
            assert_true(status == HF_OK || status == HF_INVALID);
            table = kit_reload(table, 2);
            assert_int_equal(kit_active(table), status == HF_INVALID);
            table_free(table);
        }
}

/* ---- Over by proof ------------------------------------------------------------------- */

static void a_proof_is_needed_to_take_over(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t token = grant(table, 0, "a-1", "named:x");
    table = kit_reload_afresh(table, 0);
    struct wish wish = { .id = "b-1", .scopes = "named:x" };
    assert_int_equal(kit_acquire(table, &op, kit_at_us(10100000), wish), HF_HELD);
    assert_int_equal(kit_do(table, &op, kit_at_us(10100000), TABLE_SCAVENGE, "", 0), HF_OK);
    assert_false(op.changed);
    assert_int_equal(status_of(table, "a-1"), LEASE_ACTIVE);
    assert_int_equal(kit_acquire(table, &op, kit_at_us(10103000), wish), HF_OK);
    assert_true(op.granted > token);
    assert_int_equal(status_of(table, "a-1"), LEASE_EXPIRED);
    table_check(table);
    table_free(table);
}

static void scavenge_ends_only_what_is_over(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    grant(table, 0, "a-1", "named:x");
    grant(table, 8000, "b-1", "named:y");
    assert_int_equal(kit_do(table, &op, kit_at(13000), TABLE_SCAVENGE, "", 0), HF_OK);
    assert_true(op.changed);
    assert_int_equal(status_of(table, "a-1"), LEASE_EXPIRED);
    assert_int_equal(status_of(table, "b-1"), LEASE_ACTIVE);
    assert_int_equal(kit_do(table, &op, kit_at(13000), TABLE_SCAVENGE, "", 0), HF_OK);
    assert_false(op.changed);
    table_free(table);
}

static void no_store_time_leaves_only_watching(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct evidence blind = kit_at(0);
    blind.time_known = false;
    struct wish first = { .id = "a-1", .scopes = "named:x" };
    struct wish second = { .id = "b-1", .scopes = "named:x" };
    assert_int_equal(kit_acquire(table, &op, blind, first), HF_OK);
    table = kit_reload_afresh(table, 500000);
    assert_int_equal(kit_acquire(table, &op, kit_at(500001), second), HF_HELD);
    assert_int_equal(kit_acquire(table, &op, kit_at(510101), second), HF_HELD);
    assert_int_equal(kit_acquire(table, &op, kit_at(510103), second), HF_OK);
    table_free(table);
}

static void a_renewal_starts_the_watch_again(void **state)
{
    (void)state;
    struct lease_table *theirs = kit_table(), *ours = NULL;
    struct table_op op;
    struct hf_error error;
    uint64_t token = grant(theirs, 0, "a-1", "named:x");
    struct wish wish = { .id = "b-1", .scopes = "named:x" };
    for (int i = 1; i < 10; i++) {
        int64_t ms = i * 6000;
        struct evidence evidence = kit_at(ms);
        assert_int_equal(kit_do(theirs, &op, evidence, TABLE_RENEW, "a-1", token), HF_OK);
        struct buffer text = kit_encode(theirs);
        struct lease_table *previous = ours;
        assert_status(HF_OK,
                      table_decode(buffer_view(&text), evidence.now, previous, &ours, &error),
                      &error);
        table_free(previous);
        buffer_release(&text);
        struct evidence blind = kit_at(ms + 5999);
        blind.time_known = false;
        assert_int_equal(kit_acquire(ours, &op, blind, wish), HF_HELD);
    }
    table_free(theirs);
    table_free(ours);
}

/* ---- What is over -------------------------------------------------------------------- */

static void finished_leases_are_bounded(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    char id[16];
    for (int i = 0; i < 200; i++) {
        snprintf(id, sizeof id, "a-%d", i);
        uint64_t token = grant(table, i, id, "named:x");
        assert_int_equal(kit_do(table, &op, kit_at(i), ends[i % ENDS].kind, id, token), HF_OK);
        assert_true(table->lease_count <= TABLE_FINISHED_MAX + 1);
    }
    /* The last is there for who ended it to find after a lost reply. */
    assert_non_null(kit_lease(table, id));
    /* Completions of many scopes are kept for once_per, but not so many that others suffer. */
    for (int i = 0; i < 1500; i++) {
        char scope[16];
        snprintf(id, sizeof id, "c-%d", i);
        snprintf(scope, sizeof scope, "path:/%d", i);
        uint64_t token = grant(table, 200 + i, id, scope);
        assert_int_equal(kit_do(table, &op, kit_at(i), TABLE_COMPLETE, id, token), HF_OK);
        assert_true(table->lease_count <= TABLE_FINISHED_MAX + TABLE_COMPLETED_MAX);
    }
    table_free(table);
}

static void outputs_are_kept_until_forgotten(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    char id[16];
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "a-%d", i);
        struct wish wish = { .id = id, .scopes = "chunk:x", .output = i % 2 ? "out" : NULL };
        assert_int_equal(kit_acquire(table, &op, kit_at(i), wish), HF_OK);
        if (i == 1)
            assert_int_not_equal(kit_do(table, &op, kit_at(i), TABLE_FORGET, id, 0), HF_OK);
        uint64_t token = table->next_token - 1;
        assert_int_equal(kit_do(table, &op, kit_at(i), ends[(i / 2) % ENDS].kind, id, token),
                         HF_OK);
    }
    for (int i = 1; i < 100; i += 2) {
        snprintf(id, sizeof id, "a-%d", i);
        bool settled = ends[(i / 2) % ENDS].kind == TABLE_COMPLETE; /* by who completed it */
        assert_true(settled || kit_lease(table, id));
        assert_int_equal(kit_do(table, &op, kit_at(200), TABLE_FORGET, id, 0), HF_OK);
        table = kit_reload(table, 200);
        /* Once more, after a lost reply. */
        assert_int_equal(kit_do(table, &op, kit_at(201), TABLE_FORGET, id, 0), HF_OK);
    }
    assert_true(table->lease_count <= TABLE_FINISHED_MAX);
    table_free(table);
}

/* Of other locks nobody settles them. */
static void outputs_of_other_locks_do_not_fill_a_table(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    char id[16];
    for (int i = 0; i < 3 * TABLE_LEASES_MAX; i++) {
        snprintf(id, sizeof id, "a-%d", i);
        uint64_t token = grant_with_output(table, i, id, "named:x");
        assert_int_equal(kit_do(table, &op, kit_at(i), TABLE_RELEASE, id, token), HF_OK);
        assert_true(table->lease_count <= TABLE_FINISHED_MAX);
    }
    table_free(table);
}

static void expired_outputs_are_kept_too(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = { .id = "a-1", .scopes = "chunk:x", .output = "out/1" };
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_OK);
    for (int i = 0; i < 50; i++) {
        char id[16];
        snprintf(id, sizeof id, "b-%d", i);
        uint64_t token = grant(table, 20000 + i, id, "chunk:x");
        assert_int_equal(kit_do(table, &op, kit_at(20000 + i), TABLE_RELEASE, id, token),
                         HF_OK);
    }
    assert_int_equal(status_of(table, "a-1"), LEASE_EXPIRED);
    assert_true(view_equal(kit_lease(table, "a-1")->output, VIEW("out/1")));
    table_free(table);
}

/* ---- Tokens -------------------------------------------------------------------------- */

static void tokens_rise_for_ever(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    uint64_t last = 0;
    for (int i = 0; i < 300; i++) {
        char id[16];
        snprintf(id, sizeof id, "a-%d", i);
        uint64_t token = grant(table, i, id, "named:x");
        assert_true(token > last && token < UINT64_C(1) << 53);
        last = token;
        if (i % 3)
            assert_int_equal(kit_do(table, &op, kit_at(i), TABLE_RELEASE, id, token), HF_OK);
        else
            assert_int_equal(kit_do(table, &op, kit_at(i), TABLE_BREAK, id, token), HF_OK);
        table = i % 2 ? kit_reload(table, i) : kit_reload_afresh(table, i);
    }
    table_free(table);
}

static void the_last_token_is_not_passed(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    char id[16];
    table->next_token = (UINT64_C(1) << 53) - 4;
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "a-%d", i);
        struct wish wish = { .id = id, .scopes = "named:x" };
        if (kit_acquire(table, &op, kit_at(i), wish) != HF_OK)
            break;
        assert_true(op.granted > last && op.granted < UINT64_C(1) << 53);
        last = op.granted;
        assert_int_equal(kit_do(table, &op, kit_at(i), TABLE_RELEASE, id, last), HF_OK);
        table = kit_reload(table, i);
    }
    assert_true(last > 0);
    table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("acquire grants a token of the epoch and counts from its own moment",
           acquire_grants_a_token),
        IT("what is held is refused, naming who holds it", a_held_scope_is_refused),
        IT("an acquire repeated after a lost reply finds its own lease and token",
           a_repeated_acquire_finds_its_own),
        IT("an acquire repeated after its lease ended is lost, not granted anew",
           a_repeated_acquire_of_what_ended_is_lost),
        IT("ttls are bounded", ttls_are_bounded),
        IT("whatever is granted can be read back, or it is refused",
           whatever_is_granted_can_be_read_back),
        IT("numbers and scopes out of bounds are refused",
           numbers_and_scopes_out_of_bounds_are_refused),
        IT("a note too deep for a table to be read is refused",
           a_note_that_is_too_deep_is_refused),
        IT("an acquire without scopes is no barrier", an_acquire_without_scopes_is_no_barrier),
        IT("renew prolongs and keeps the token", renew_prolongs),
        IT("a renew repeated after a lost reply finds its own attempt",
           a_repeated_renew_finds_its_own),
        IT("renew never revives", renew_never_revives),
        IT("renew of what is provably over is lost", renew_of_what_is_provably_over_is_lost),
        IT("renew names id and token", renew_names_id_and_token),
        IT("each end is final, repeats itself as already done, and frees the scope",
           each_end_is_final),
        IT("a stranger's token ends nothing", a_strangers_token_ends_nothing),
        IT("a release leaves nothing but an output that is not settled",
           a_release_leaves_nothing_but_outputs),
        IT("a break repeated after a lost reply spares the next holder",
           a_retried_break_spares_the_next_holder),
        IT("the audit list is bounded, the newest kept", the_audit_is_bounded),
        IT("odd notes and reasons leave a readable document",
           odd_reasons_leave_a_readable_document),
        IT("taking over and scavenging need a proof", a_proof_is_needed_to_take_over),
        IT("scavenge ends only what is over", scavenge_ends_only_what_is_over),
        IT("a grant made without store time is over only by watching",
           no_store_time_leaves_only_watching),
        IT("a renewal starts the watch again", a_renewal_starts_the_watch_again),
        IT("finished leases are bounded", finished_leases_are_bounded),
        IT("outputs are kept until forgotten, and forgetting repeats itself",
           outputs_are_kept_until_forgotten),
        IT("outputs of locks that are no chunks do not fill a table",
           outputs_of_other_locks_do_not_fill_a_table),
        IT("the output of an expired lease is kept too", expired_outputs_are_kept_too),
        IT("tokens rise for ever, across documents", tokens_rise_for_ever),
        IT("the last token is not passed", the_last_token_is_not_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
