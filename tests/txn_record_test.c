/* SPDX-License-Identifier: Apache-2.0 */
/* txn_record_test.c: the record of a transaction: its JSON, and which transitions it allows. */
#include "key/record.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define ID    "00112233445566778899aabbccddeeff"
#define OWNER "ffeeddccbbaa99887766554433221100"
#define HOUR  (INT64_C(3600) * 1000000)

/* ---- A record without a store -------------------------------------------------------- */

static struct txn_record *record_new(void)
{
    struct txn_record *record = record_doc_type.birth(NULL);
    assert_non_null(record);
    return record;
}

static struct evidence at(int64_t us, const char *clock)
{
    return (struct evidence){ .now = { us },
                              .time_known = true,
                              .earliest = { us },
                              .latest = { us },
                              .clock = view_of(clock),
                              .wall = { us },
                              .nonce = VIEW("n") };
}

static struct record_op op_of(enum record_op_kind kind)
{
    struct record_op op;
    record_op_init(&op, kind, VIEW(ID), (struct mono_time){ 1 });
    op.owner = VIEW(OWNER);
    op.holder = VIEW("bank \"one\"");
    return op;
}

static enum hf_status apply(struct txn_record *record, struct record_op *op, int64_t us)
{
    struct evidence evidence = at(us, "clock");
    op->op.changed = false;
    return op->op.apply(&op->op, record, &evidence);
}

static struct txn_record *begun(void)
{
    struct txn_record *record = record_new();
    struct record_op op = op_of(RECORD_BEGIN);
    assert_int_equal(apply(record, &op, 1), HF_OK);
    assert_true(op.op.changed);
    return record;
}

static enum hf_status decide(struct txn_record *record, enum txn_state decision, bool mark,
                             const struct txn_key *keys, size_t count,
                             enum txn_state *ret_recorded)
{
    struct record_op op = op_of(RECORD_DECIDE);
    op.decision = decision;
    op.mark = mark;
    op.keys = keys;
    op.key_count = count;
    enum hf_status status = apply(record, &op, 2);
    *ret_recorded = op.recorded;
    return status;
}

static const struct txn_key two_keys[] = { { "bank/a" }, { "bank/b/c" } };

/* ---- Moves --------------------------------------------------------------------------- */

static void begin_knows_itself(void **state)
{
    (void)state;
    struct txn_record *record = begun();
    struct record_op again = op_of(RECORD_BEGIN);
    assert_int_equal(apply(record, &again, 2), HF_OK);
    assert_false(again.op.changed);
    again.owner = VIEW("0123456789abcdef0123456789abcdef");
    assert_int_equal(apply(record, &again, 3), HF_MISMATCH);
    assert_int_equal(record->state, TXN_PENDING);
    record_doc_type.free(record);
}

static void decisions_are_for_ever(void **state)
{
    (void)state;
    const enum txn_state both[] = { TXN_COMMIT, TXN_ROLLBACK };
    for (size_t i = 0; i < 2; i++) {
        enum txn_state recorded;
        struct txn_record *record = begun();
        assert_int_equal(decide(record, both[i], false, two_keys, 2, &recorded), HF_OK);
        assert_int_equal(recorded, both[i]);
        assert_int_equal(decide(record, both[1 - i], true, NULL, 0, &recorded), HF_OK);
        assert_int_equal(recorded, both[i]);
        assert_int_equal(record->state, both[i]);
        assert_int_equal(record->key_count, 2);
        record_doc_type.free(record);
    }
}

static void what_is_missing_is_never_committed(void **state)
{
    (void)state;
    enum txn_state recorded;
    struct txn_record *record = record_new();
    assert_int_equal(decide(record, TXN_COMMIT, true, two_keys, 2, &recorded), HF_OK);
    assert_int_equal(recorded, TXN_ABSENT);
    assert_int_equal(decide(record, TXN_ROLLBACK, false, NULL, 0, &recorded), HF_OK);
    assert_int_equal(recorded, TXN_ABSENT);
    assert_int_equal(record->state, TXN_ABSENT);
    assert_int_equal(decide(record, TXN_ROLLBACK, true, NULL, 0, &recorded), HF_OK);
    assert_int_equal(recorded, TXN_ROLLBACK);
    struct record_op late = op_of(RECORD_BEGIN);
    assert_int_equal(apply(record, &late, 3), HF_MISMATCH);
    assert_true(late.marked);
    assert_int_equal(record->state, TXN_ROLLBACK);
    record_doc_type.free(record);
}

static void keys_of_others_are_not_passed_over(void **state)
{
    (void)state;
    enum txn_state recorded;
    struct txn_record *record = begun();
    struct record_op enlist = op_of(RECORD_ENLIST);
    enlist.keys = &two_keys[1];
    enlist.key_count = 1;
    assert_int_equal(apply(record, &enlist, 2), HF_OK);
    assert_true(enlist.op.changed);
    assert_int_equal(apply(record, &enlist, 2), HF_OK);
    assert_false(enlist.op.changed);
    assert_int_equal(decide(record, TXN_COMMIT, false, two_keys, 1, &recorded), HF_CONFLICT);
    assert_int_equal(record->state, TXN_PENDING);
    assert_int_equal(decide(record, TXN_COMMIT, false, two_keys, 2, &recorded), HF_OK);
    assert_int_equal(record->key_count, 2);
    enlist.keys = &(struct txn_key){ "bank/late" };
    assert_int_equal(apply(record, &enlist, 3), HF_MISMATCH);
    record_doc_type.free(record);
}

static void rollback_takes_no_knowledge_of_keys(void **state)
{
    (void)state;
    enum txn_state recorded;
    struct txn_record *record = begun();
    struct record_op enlist = op_of(RECORD_ENLIST);
    enlist.keys = two_keys;
    enlist.key_count = 2;
    assert_int_equal(apply(record, &enlist, 2), HF_OK);
    assert_int_equal(decide(record, TXN_ROLLBACK, false, NULL, 0, &recorded), HF_OK);
    assert_int_equal(recorded, TXN_ROLLBACK);
    assert_int_equal(record->key_count, 2);
    record_doc_type.free(record);
}

static void too_many_keys_are_refused(void **state)
{
    (void)state;
    enum txn_state recorded;
    struct txn_record *record = begun();
    struct txn_key *keys = calloc(TXN_KEYS_MAX + 1, sizeof *keys);
    assert_non_null(keys);
    for (size_t i = 0; i <= TXN_KEYS_MAX; i++)
        snprintf(keys[i].name, sizeof keys[i].name, "bank/%zu", i);
    assert_int_equal(decide(record, TXN_COMMIT, false, keys, TXN_KEYS_MAX + 1, &recorded),
                     HF_INVALID);
    assert_int_equal(record->state, TXN_PENDING);
    assert_int_equal(record->key_count, 0);
    assert_int_equal(decide(record, TXN_COMMIT, false, keys, TXN_KEYS_MAX, &recorded), HF_OK);
    assert_int_equal(record->key_count, TXN_KEYS_MAX);
    free(keys);
    record_doc_type.free(record);
}

static void applied_is_noted_of_what_is_decided(void **state)
{
    (void)state;
    enum txn_state recorded;
    struct txn_record *record = begun();
    struct record_op op = op_of(RECORD_APPLIED);
    assert_int_equal(apply(record, &op, 2), HF_OK);
    assert_false(op.op.changed);
    assert_int_equal(decide(record, TXN_COMMIT, false, NULL, 0, &recorded), HF_OK);
    assert_int_equal(apply(record, &op, 2), HF_OK);
    assert_true(op.op.changed);
    assert_true(record->applied);
    assert_int_equal(apply(record, &op, 2), HF_OK);
    assert_false(op.op.changed);
    record_doc_type.free(record);
    record = begun(); /* a rollback needs no note */
    assert_int_equal(decide(record, TXN_ROLLBACK, false, NULL, 0, &recorded), HF_OK);
    assert_int_equal(apply(record, &op, 2), HF_OK);
    assert_false(op.op.changed || record->applied);
    record_doc_type.free(record);
    record = record_new(); /* purged: it does not come back */
    assert_int_equal(apply(record, &op, 2), HF_OK);
    assert_false(op.op.changed);
    assert_int_equal(op.recorded, TXN_ABSENT);
    record_doc_type.free(record);
}

static void applied_is_noted_by_who_knows_all_keys(void **state)
{
    (void)state;
    enum txn_state recorded;
    struct txn_record *record = begun();
    struct record_op op = op_of(RECORD_APPLIED);
    assert_int_equal(decide(record, TXN_COMMIT, false, two_keys, 2, &recorded), HF_OK);
    op.keys = two_keys;
    for (op.key_count = 0; op.key_count < 2; op.key_count++) {
        assert_int_equal(apply(record, &op, 2), HF_OK);
        assert_false(op.op.changed || record->applied);
    }
    assert_int_equal(apply(record, &op, 2), HF_OK);
    assert_true(op.op.changed && record->applied);
    record_doc_type.free(record);
}

/* ---- Time ---------------------------------------------------------------------------- */

static void it_is_purged_after_d_only(void **state)
{
    (void)state;
    enum txn_state recorded;
    struct lease_settings settings = lease_settings_default();
    settings.late_bound = SPAN_US(HOUR);
    settings.skew_tolerance = SPAN_S(2);
    struct txn_record *record = begun();
    struct evidence late = at(100 * HOUR, "clock");
    record->seen = late.now;
    assert_false(record_may_purge(record, &settings, &late)); /* pending */
    assert_int_equal(decide(record, TXN_ROLLBACK, false, NULL, 0, &recorded), HF_OK);
    struct evidence soon = at(HOUR + 2000000, "clock"), later = at(HOUR + 2000003, "clock");
    record->seen = soon.now;
    assert_false(record_may_purge(record, &settings, &soon));
    record->seen = later.now;
    assert_true(record_may_purge(record, &settings, &later));
    struct evidence other = at(100 * HOUR, "another");
    record->seen = other.now;
    assert_false(record_may_purge(record, &settings, &other));
    record->seen = (struct mono_time){ other.now.us - 2 * HOUR }; /* watched for long enough */
    assert_true(record_may_purge(record, &settings, &other));
    record_doc_type.free(record);
}

static void unreadable_stamps_start_anew_so_often(void **state)
{
    (void)state;
    struct txn_record *record = begun();
    struct record_op op = op_of(RECORD_RESTAMP);
    assert_int_equal(apply(record, &op, 5), HF_OK); /* of our own clock: left alone */
    assert_false(op.op.changed);
    for (int i = 0; i < STAMP_RESTAMPS_MAX + 3; i++) {
        struct evidence evidence = at(10 + i, i % 2 == 0 ? "other" : "clock");
        op.op.changed = false;
        assert_int_equal(op.op.apply(&op.op, record, &evidence), HF_OK);
        assert_int_equal(op.op.changed, i < STAMP_RESTAMPS_MAX);
    }
    assert_int_equal(record->restamps, STAMP_RESTAMPS_MAX);
    assert_int_equal(record->state, TXN_PENDING);
    record_doc_type.free(record);
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void it_reads_what_it_writes(void **state)
{
    (void)state;
    enum txn_state recorded;
    struct hf_error error;
    struct txn_record *record = begun(), again;
    struct buffer text = BUFFER_INIT(RECORD_BYTES_MAX), twice = BUFFER_INIT(RECORD_BYTES_MAX);
    assert_int_equal(decide(record, TXN_COMMIT, false, two_keys, 2, &recorded), HF_OK);
    record->applied = record->open = true;
    record->restamps = 3;
    buffer_append(&record->unknown, VIEW(",\"colour\":[1,{\"a\":null}]"));
    assert_true(record_encode(record, VIEW("nonce"), &text));
    assert_status(HF_OK, record_decode(buffer_view(&text), &again, &error), &error);
    assert_int_equal(again.state, TXN_COMMIT);
    assert_string_equal(again.id, ID);
    assert_string_equal(again.owner, OWNER);
    assert_string_equal(again.holder, "bank \"one\"");
    assert_int_equal(again.began.us, 1);
    assert_int_equal(again.decided.us, 2);
    assert_true(again.applied && again.open);
    assert_int_equal(again.restamps, 3);
    assert_int_equal(again.key_count, 2);
    assert_true(record_names(&again, &two_keys[0]) && record_names(&again, &two_keys[1]));
    assert_true(record_encode(&again, VIEW("nonce"), &twice));
    assert_true(view_equal(buffer_view(&text), buffer_view(&twice)));
    record_release(&again);
    buffer_release(&text);
    buffer_release(&twice);
    record_doc_type.free(record);
}

static void what_is_no_record_is_refused(void **state)
{
    (void)state;
#define HEAD "{\"format\":\"holdfast.txn/1\",\"id\":\"" ID "\""
    static const struct {
        const char *text;
        enum hf_status status;
    } rows[] = {
        { "", HF_CORRUPT },
        { "{}", HF_CORRUPT },
        { HEAD "}", HF_CORRUPT },
        { HEAD ",\"state\":\"done\"}", HF_CORRUPT },
        { HEAD ",\"state\":\"absent\"}", HF_CORRUPT },
        { HEAD ",\"state\":\"pending\"}", HF_CORRUPT }, /* by nobody */
        { HEAD ",\"state\":\"rollback\"}", HF_OK },
        { HEAD ",\"state\":\"rollback\"} x", HF_CORRUPT },
        { HEAD ",\"state\":\"commit\",\"keys\":[\"a\"]}", HF_CORRUPT },
        { HEAD ",\"state\":\"commit\",\"keys\":[\"a/../b\"]}", HF_CORRUPT },
        { HEAD ",\"state\":\"commit\",\"keys\":[\"a/b\"],\"keys\":[\"a/b\"]}", HF_CORRUPT },
        { HEAD ",\"state\":\"commit\",\"decided\":\"noon\"}", HF_CORRUPT },
        { "{\"format\":\"holdfast.txn/1\",\"id\":\"short\",\"state\":\"commit\"}", HF_CORRUPT },
        { "{\"format\":\"holdfast.txn/2\",\"id\":1}", HF_UNSUPPORTED },
        { "{\"format\":\"holdfast.leases/1\"}", HF_CORRUPT },
    };
#undef HEAD
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct txn_record record;
        struct hf_error error = { .why = "" };
        enum hf_status status = record_decode(view_of(rows[i].text), &record, &error);
        if (status != rows[i].status)
            fail_msg("'%s' is %s", rows[i].text, hf_status_name(status));
        if (status == HF_OK)
            record_release(&record);
    }
}

static void ids_are_digits(void **state)
{
    (void)state;
    char key[KEY_BYTES_MAX + 1];
    assert_true(txn_id_valid(VIEW(ID)));
    assert_false(txn_id_valid(VIEW("")));
    assert_false(txn_id_valid(VIEW("00112233445566778899aabbccddeef")));
    assert_false(txn_id_valid(VIEW("00112233445566778899AABBCCDDEEFF")));
    assert_false(txn_id_valid(VIEW("0011223344556677/899aabbccddeeff")));
    record_key(VIEW(ID), key);
    assert_string_equal(key, ".txn-decisions/m/" ID);
    record_entry_key(VIEW(ID), VIEW("2026020610"), key);
    assert_string_equal(key, ".txn-decisions/e/2026020610/" ID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a begin knows the record of its own attempt from another's", begin_knows_itself),
        IT("a decision is for ever, and the other one is told it", decisions_are_for_ever),
        IT("a missing record can be rolled back and never committed",
           what_is_missing_is_never_committed),
        IT("a commit that does not know a key which others have taken is refused",
           keys_of_others_are_not_passed_over),
        IT("a rollback needs to know no keys, and keeps those that are named",
           rollback_takes_no_knowledge_of_keys),
        IT("a transaction of too many keys is refused and stays pending",
           too_many_keys_are_refused),
        IT("that all is applied is noted once, and never brings a record back",
           applied_is_noted_of_what_is_decided),
        IT("that all is applied is noted only by who knows all keys",
           applied_is_noted_by_who_knows_all_keys),
        IT("a record is purged D after its decision, by its own clock or by watching",
           it_is_purged_after_d_only),
        IT("a stamp of a clock that nobody can read starts anew, so often and no more",
           unreadable_stamps_start_anew_so_often),
        IT("it reads what it writes, and keeps members that it does not know",
           it_reads_what_it_writes),
        IT("what is no record is refused", what_is_no_record_is_refused),
        IT("ids are 32 digits and name the record and its entry", ids_are_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
