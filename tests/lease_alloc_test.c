/* SPDX-License-Identifier: Apache-2.0 */
/* lease_alloc_test.c: fails every allocation of every transition, of reading and of writing in
 * turn. Each must return a status, leak nothing, and leave nothing half done. */
#include "alloc.h"
#include "lease_kit.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

/* Two hold, two wait (the first of them has its turn, since "gone" was released), one is over,
 * one is about to be; and there are members that we do not know. */
static struct buffer prepare(uint64_t *ret_token)
{
    struct lease_table *table = kit_table();
    struct table_op op;
    kit_acquire(table, &op, kit_at(0), (struct wish){ .id = "gone-1", .scopes = "named:y" });
    uint64_t gone = op.granted;
    kit_acquire(table, &op, kit_at(0),
                (struct wish){ .id = "w-1", .scopes = "named:y path:/\"q\"", .wait = true });
    kit_acquire(table, &op, kit_at(0),
                (struct wish){
                    .id = "v-1", .scopes = "named:y", .wait = true, .poll_ms = 3600000 });
    kit_do(table, &op, kit_at(0), TABLE_RELEASE, "gone-1", gone);
    kit_acquire(table, &op, kit_at(0),
                (struct wish){
                    .id = "old-1", .scopes = "named:z", .output = "out", .ttl_us = 1000000 });
    struct wish held = { .id = "a-1",
                         .scopes = "chunk:1 chunk:2 chunk:3 named:x",
                         .output = "o" };
    kit_acquire(table, &op, kit_at(9000), held);
    *ret_token = op.granted;
    assert_true(buffer_append(&table->unknown, VIEW(",\"theirs\":[1,2]")));
    struct buffer text = kit_encode(table);
    table_free(table);
    return text;
}

static struct lease_table *load(const struct buffer *text)
{
    struct lease_table *table = NULL;
    struct hf_error error;
    assert_status(HF_OK,
                  table_decode(buffer_view(text), (struct mono_time){ 9000000 }, NULL, &table,
                               &error),
                  &error);
    return table;
}

static enum hf_status move(struct lease_table *table, struct table_op *op,
                           enum table_op_kind kind, uint64_t token)
{
    switch (kind) {
    case TABLE_ACQUIRE:
        return kit_acquire(table, op, kit_at(9500),
                           (struct wish){ .id = "n-1",
                                          .scopes = "named:x named:n",
                                          .wait = token,
                                          .note = "{\"a\":\"\\u0041\"}" });
    case TABLE_CLAIM: return kit_do(table, op, kit_at(9500), kind, "w-1", 0);
    case TABLE_CANCEL: return kit_do(table, op, kit_at(9500), kind, token ? "w-1" : "a-1", 0);
    case TABLE_SCAVENGE: return kit_do(table, op, kit_at(9500), kind, "", 0);
    case TABLE_FORGET: return kit_do(table, op, kit_at(9500), kind, "old-1", 0);
    case TABLE_BARRIER: return kit_barrier(table, op, kit_at(9500), "bar", 1000000, 7);
    case TABLE_RENEW:
    case TABLE_RELEASE:
    case TABLE_COMPLETE:
    case TABLE_FAIL:
    case TABLE_KEEP:
    case TABLE_BREAK: return kit_do(table, op, kit_at(9500), kind, "a-1", token);
    }
    return HF_INVALID;
}

/* Each allocation fails once; then the same move on the same table does what it should. */
static void fail_each_allocation_of(const struct buffer *text, enum table_op_kind kind,
                                    uint64_t token)
{
    struct lease_table *table = load(text);
    struct table_op op;
    enum hf_status expected = move(table, &op, kind, token);
    size_t leases = table->lease_count, waiters = table->waiter_count,
           audit = table->audit_count;
    uint64_t next = table->next_token;
    table_free(table);
    for (long n = 0;; n++) {
        table = load(text);
        alloc_fail_after(n);
        enum hf_status status = move(table, &op, kind, token);
        bool failed = alloc_stop();
        if (failed && status != HF_UNAVAILABLE && status != expected)
            fail_msg("move %d, allocation %ld: %s", kind, n, hf_status_name(status));
        assert_true(status == expected || op.error.why[0] != '\0');
        table_check(table);
        if (status != expected)
            assert_int_equal(move(table, &op, kind, token), expected);
        table_check(table);
        assert_int_equal(table->lease_count, leases);
        assert_int_equal(table->waiter_count, waiters);
        assert_int_equal(table->audit_count, audit);
        assert_true(table->next_token == next);
        table_free(table);
        if (!failed)
            break;
        assert_true(n < 1000);
    }
}

static void every_move_survives_a_lack_of_memory(void **state)
{
    (void)state;
    uint64_t token;
    struct buffer text = prepare(&token);
    for (enum table_op_kind kind = TABLE_ACQUIRE; kind <= TABLE_BARRIER; kind++)
        fail_each_allocation_of(&text, kind, token);
    fail_each_allocation_of(&text, TABLE_ACQUIRE, /* do not wait */ 0);
    fail_each_allocation_of(&text, TABLE_CANCEL, /* of a lease */ 0);
    buffer_release(&text);
}

/* How many allocations can fail. */
static long fail_each_allocation_of_reading(struct view text,
                                            const struct lease_table *previous)
{
    bool of_shard = previous && previous->of_shard;
    for (long n = 0;; n++) {
        struct lease_table *table = NULL;
        struct hf_error error;
        alloc_fail_after(n);
        enum hf_status status =
            (of_shard ? table_decode_of_shard : table_decode)(text, (struct mono_time){ 1 },
                                                              previous, &table, &error);
        bool failed = alloc_stop();
        /* Never CORRUPT: that would put a good table aside. */
        assert_int_equal(status, failed ? HF_UNAVAILABLE : HF_OK);
        table_free(table);
        if (!failed)
            return n;
    }
}

/* A table in which there is so much to look up that it is not searched from end to end. */
static struct lease_table *crowd(void)
{
    struct lease_table *table = kit_table();
    struct table_op op;
    for (int i = 0; i < 200; i++) {
        char id[16], scope[16];
        snprintf(id, sizeof id, "q-%d", i);
        snprintf(scope, sizeof scope, "path:/%d", i % 100);
        kit_acquire(table, &op, kit_at(0),
                    (struct wish){ .id = id, .scopes = scope, .wait = true });
    }
    return table;
}

static void reading_survives_a_lack_of_memory(void **state)
{
    (void)state;
    uint64_t token;
    struct buffer text = prepare(&token);
    struct lease_table *same = load(&text), *other = crowd();
    long cold = fail_each_allocation_of_reading(buffer_view(&text), NULL);
    long known = fail_each_allocation_of_reading(buffer_view(&text), same);
    long changed = fail_each_allocation_of_reading(buffer_view(&text), other);
    assert_true(cold > 10 && known > 2 && known < cold && changed > cold);
    table_free(same);
    table_free(other);
    buffer_release(&text);
}

static void reading_a_lock_of_another_program_survives_it_too(void **state)
{
    (void)state;
    struct lease_table *previous = kit_table();
    previous->of_shard = true;
    long with_escape = fail_each_allocation_of_reading(
        VIEW("{\"worker_id\":\"\\u00e4\",\"created_at\":0,\"expires_at\":5,\"x\":1}"),
        previous);
    long ours = fail_each_allocation_of_reading(
        VIEW("{\"format\":\"holdfast.leases/1\",\"next_token\":1,\"worker_id\":\"\\u00e4\","
             "\"leases\":{}}"),
        previous);
    assert_true(with_escape > 5 && ours > 1);
    table_free(previous);
}

static void writing_survives_a_lack_of_memory(void **state)
{
    (void)state;
    uint64_t token;
    struct buffer text = prepare(&token);
    struct lease_table *table = load(&text);
    for (long n = 0;; n++) {
        struct buffer out = BUFFER_INIT(TABLE_BYTES_READ_MAX);
        alloc_fail_after(n);
        bool good = table_encode(table, VIEW("n"), &out);
        bool failed = alloc_stop();
        assert_int_equal(good, !failed);
        buffer_release(&out);
        if (!failed)
            break;
    }
    struct buffer small = BUFFER_INIT(100);
    assert_false(table_encode(table, VIEW("n"), &small));
    buffer_release(&small);
    table_free(table);
    buffer_release(&text);
}

static void a_new_table_survives_a_lack_of_memory(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    struct hf_error error;
    alloc_fail_after(0);
    struct lease_table *table = table_new(&settings, 1, &error);
    assert_true(alloc_stop());
    assert_null(table);
    assert_int_equal(error.status, HF_UNAVAILABLE);
    table_free(NULL);
    lease_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("every move survives every lack of memory, and works when tried again",
           every_move_survives_a_lack_of_memory),
        IT("reading without memory is never called corrupt", reading_survives_a_lack_of_memory),
        IT("nor is a lock of another program",
           reading_a_lock_of_another_program_survives_it_too),
        IT("writing without memory, or past a bound, says so",
           writing_survives_a_lack_of_memory),
        IT("a table that cannot be made says so", a_new_table_survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
