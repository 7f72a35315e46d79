/* SPDX-License-Identifier: Apache-2.0 */
/* key_change_kit.c: applies changes of a key's state to one body of its document, without a
 * store. */
#include "key_change_kit.h"

enum hf_status apply_to(struct lease_table *table, struct change *change, struct table_op *op,
                        const struct lease_request *wanted, int64_t ms, bool *ret_changed)
{
    struct table_op keep = { .kind = TABLE_KEEP };
    struct evidence evidence = kit_at(ms);
    bool changed = false;
    if (!op)
        op = &keep;
    op->wanted = wanted;
    enum hf_status status =
        change->hook.before(&change->hook, table, &evidence, &changed, &op->error);
    if (status == HF_OK) {
        status = table_apply(table, op, &evidence);
        if (status == HF_OK)
            change->hook.after(&change->hook, table, op, &changed);
    }
    op->wanted = NULL;
    *ret_changed = changed;
    return status;
}

uint64_t hold(struct lease_table *table, const char *id, enum lease_mode mode, int64_t ms)
{
    struct table_op op;
    assert_int_equal(HF_OK,
                     kit_acquire(table, &op, kit_at(ms),
                                 (struct wish){ .id = id, .scopes = "named:k", .mode = mode }));
    return op.granted;
}

void let_go(struct lease_table *table, const char *id, uint64_t token)
{
    struct table_op op;
    assert_int_equal(HF_OK, kit_do(table, &op, kit_at(1), TABLE_RELEASE, id, token));
}

void set_state(struct lease_table *table, const char *text)
{
    assert_true(table_reserve_state(table));
    table_set_state(table, view_of(text));
}

void assert_state(struct lease_table *table, const char *expected)
{
    assert_string_equal(expected, buffer_text(&table->state));
}

struct state_version version_of(const char *etag, uint64_t token, const char *text)
{
    struct state_version version = {
        .token = token, .bytes = view_of(text), .size = strlen(text), .at = { 7000 }
    };
    memcpy(version.etag, etag, NONCE_SIZE);
    return version;
}

struct state_version with_body(const char *etag, uint64_t token)
{
    struct state_version version = version_of(etag, token, "");
    version.has_body = true;
    version.size = 9000;
    return version;
}

struct change change_by(enum change_kind kind, const char *lease, uint64_t token,
                        const struct state_version *version)
{
    struct change change;
    change_init(&change, kind);
    change.lease = view_of(lease);
    change.token = token;
    change.version = version;
    return change;
}

void assert_done(struct lease_table *table, struct change *change, const char *expected)
{
    bool changed;
    assert_int_equal(HF_OK, apply_to(table, change, NULL, NULL, 1, &changed));
    assert_true(changed);
    assert_int_equal(HF_KEY_NONE, change->outcome);
    if (expected)
        assert_state(table, expected);
}

void assert_refused(struct lease_table *table, struct change *change,
                    enum hf_key_outcome outcome, int64_t ms)
{
    bool changed;
    struct buffer before = BUFFER_INIT(TABLE_STATE_MAX);
    assert_true(buffer_append(&before, buffer_view(&table->state)));
    enum hf_status status = apply_to(table, change, NULL, NULL, ms, &changed);
    assert_string_equal(hf_key_outcome_name(outcome), hf_key_outcome_name(change->outcome));
    assert_int_equal(outcome_status(outcome), status);
    assert_false(changed);
    assert_true(view_equal(buffer_view(&before), buffer_view(&table->state)));
    buffer_release(&before);
    change_release(change);
}

enum hf_status enlist(struct lease_table *table, struct change *change, const char *id,
                      bool wait, int64_t ms, struct table_op *op, bool *ret_changed)
{
    struct scope scope = { .kind = SCOPE_NAMED, .name = VIEW("k") };
    struct lease_request wanted = { .id = view_of(id),
                                    .holder = VIEW("tester"),
                                    .session = view_first(view_of(id), strlen(id) - 2),
                                    .wish.scopes = &scope,
                                    .wish.scope_count = 1,
                                    .wish.ttl = SPAN_S(10),
                                    .wish.poll = SPAN_MS(100) };
    *op = (struct table_op){ .kind = TABLE_ACQUIRE, .id = wanted.id, .wait = wait };
    return apply_to(table, change, op, &wanted, ms, ret_changed);
}

struct lease_table *taken(uint64_t *ret_token)
{
    struct lease_table *table = kit_table();
    struct change change;
    struct table_op op;
    bool changed;
    change_init(&change, CHANGE_ENLIST);
    change.txn = view_of(TXN_A);
    assert_int_equal(HF_OK, enlist(table, &change, "a-1", false, 0, &op, &changed));
    assert_true(changed);
    assert_int_equal(TABLE_GRANTED, op.outcome);
    assert_true(change.state.staged);
    assert_false(change.abandoned);
    *ret_token = op.granted;
    change_release(&change);
    return table;
}

struct lease_table *staged(uint64_t *ret_token)
{
    struct lease_table *table = taken(ret_token);
    struct state_version version = with_body(ETAG_A, *ret_token);
    struct change change = change_by(CHANGE_STAGE, "a-1", *ret_token, &version);
    change.txn = view_of(TXN_A);
    assert_done(table, &change, NULL);
    change_release(&change);
    return table;
}
