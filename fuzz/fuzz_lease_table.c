/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_lease_table.c: parses arbitrary bytes as a lease table or a scope. An accepted one must
 * be written and read back as the same, and every operation on a table must return a status and
 * leave a readable table. */
#include "base/check.h"
#include "fuzz.h"
#include "lease/table.h"

#include <stdlib.h>

#define TRIED_MAX 3 /* leases and waiters that are put through the moves */

/* ---- Scopes -------------------------------------------------------------------------- */

static void scope_holds(struct view text)
{
    struct scope scope, again;
    struct hf_error error;
    char printed[SCOPE_TEXT_MAX + 1];
    enum hf_status status = scope_parse(text, &scope, &error);
    if (status != HF_OK) {
        check(status == HF_INVALID && error.why[0] != '\0');
        return;
    }
    check(scope_parse(view_of(scope_text(&scope, printed)), &again, &error) == HF_OK);
    check(scope_equal(&scope, &again));
    check(scope_conflicts(&scope, &again) == (scope.kind != SCOPE_PIN));
}

/* ---- Tables -------------------------------------------------------------------------- */

static const struct mono_time arrived = { 1000000 };

static struct evidence evidence_at(int64_t us)
{
    return (struct evidence){ .now = { us },
                              .time_known = true,
                              .earliest = { us },
                              .latest = { us + 1000 },
                              .clock = VIEW("clock-a"),
                              .wall = { INT64_C(1770372000000000) },
                              .nonce = VIEW("0123456789abcdef") };
}

/* As a table, or as the lock of a shard. */
typedef enum hf_status decode_fn(struct view text, struct mono_time arrived,
                                 const struct lease_table *previous,
                                 struct lease_table **ret_table, struct hf_error *error);

/* Written, read and written again it is the same. The table is freed. */
static void survives_the_round_trip(struct lease_table *table, decode_fn *decode)
{
    struct buffer first = BUFFER_INIT(4 * TABLE_BYTES_READ_MAX), second = first;
    struct lease_table *again;
    struct hf_error error;
    check(table_encode(table, VIEW("n"), &first));
    if (first.size <= TABLE_BYTES_READ_MAX) {
        check(decode(buffer_view(&first), arrived, table, &again, &error) == HF_OK);
        check(again->bytes == table->bytes && again->next_token == table->next_token);
        check(table_encode(again, VIEW("n"), &second));
        check(view_equal(buffer_view(&first), buffer_view(&second)));
        table_free(again);
    }
    buffer_release(&first);
    buffer_release(&second);
    table_free(table);
}

static void move(struct lease_table *table, enum table_op_kind kind, struct view id,
                 uint64_t token, int64_t us)
{
    struct scope scope = { .kind = SCOPE_NAMED, .name = VIEW("x") };
    struct lease_request wanted = { .id = VIEW("new-1"),
                                    .session = VIEW("new"),
                                    .wish.scopes = &scope,
                                    .wish.scope_count = kind == TABLE_BARRIER ? 0 : 1,
                                    .wish.ttl = SPAN_S(1),
                                    .wish.poll = SPAN_MS(kind == TABLE_BARRIER ? 0 : 100) };
    if (kind == TABLE_BARRIER)
        wanted.id = VIEW("barrier-1");
    struct table_op op = {
        .kind = kind, .wanted = &wanted, .id = id, .token = token, .wait = true, .epoch = 3
    };
    struct evidence evidence = evidence_at(us);
    uint64_t next = table->next_token;
    enum hf_status status = table_apply(table, &op, &evidence);
    check(status == HF_OK || op.error.why[0] != '\0');
    check(table->next_token >= next);
    check(op.outcome != TABLE_GRANTED || op.granted < table->next_token);
}

/* Operations free the leases that they end, so ids are copied first. */
static size_t remember(const struct lease_table *table, struct view ids[], uint64_t tokens[])
{
    size_t count = 0;
    for (size_t i = 0; i < table->lease_count && i < TRIED_MAX; i++) {
        ids[count] = table->leases[i]->id;
        tokens[count++] = table->leases[i]->token;
    }
    for (size_t i = 0; i < table->waiter_count && i < TRIED_MAX; i++) {
        ids[count] = table->waiters[i].wanted->asked.id;
        tokens[count++] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        char *copy = malloc(ids[i].size);
        check(copy != NULL);
        memcpy(copy, ids[i].data, ids[i].size);
        ids[i].data = copy;
    }
    return count;
}

static void every_move_holds(struct lease_table *table)
{
    static const enum table_op_kind ends[] = { TABLE_RELEASE, TABLE_FAIL, TABLE_COMPLETE,
                                               TABLE_BREAK, TABLE_CANCEL };
    struct view ids[2 * TRIED_MAX];
    uint64_t tokens[2 * TRIED_MAX];
    size_t count = remember(table, ids, tokens);
    for (size_t i = 0; i < count; i++) {
        move(table, TABLE_CLAIM, ids[i], 0, 1000001);
        move(table, TABLE_RENEW, ids[i], tokens[i], 1000002);
    }
    move(table, TABLE_ACQUIRE, VIEW("new-1"), 0, 1000003);
    for (size_t i = 0; i < count; i++) {
        move(table, ends[i % 5], ids[i], tokens[i], 1000004);
        move(table, TABLE_FORGET, ids[i], 0, 1000005);
    }
    move(table, TABLE_SCAVENGE, VIEW(""), 0, INT64_C(1) << 50);
    move(table, TABLE_BARRIER, VIEW("barrier-1"), 0, (INT64_C(1) << 50) + 1);
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)ids[i].data);
}

static void table_holds(struct view text, decode_fn *decode)
{
    struct lease_table *table;
    struct hf_error error = { .why = "" };
    enum hf_status status = decode(text, arrived, NULL, &table, &error);
    if (status != HF_OK) {
        check(status == HF_CORRUPT || status == HF_UNSUPPORTED);
        check(error.why[0] != '\0');
        return;
    }
    if (table->adopted) {
        table->adopted = false;
        table->next_token = UINT64_C(1) << 52;
        for (size_t i = 0; i < table->lease_count; i++)
            if (table->leases[i]->token >= table->next_token)
                table->adopted = true;
    }
    if (table->adopted) {
        table_free(table);
        return;
    }
    every_move_holds(table);
    survives_the_round_trip(table, decode);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view input = { (const char *)data, size };
    scope_holds(input);
    table_holds(input, table_decode);
    table_holds(input, table_decode_of_shard);
    return 0;
}
