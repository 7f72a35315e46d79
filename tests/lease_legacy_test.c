/* SPDX-License-Identifier: Apache-2.0 */
/* lease_legacy_test.c: the lock of a shard as a document: what it shows to programs that know
 * only worker_id, created_at and expires_at, and how a lock that such a program wrote is read. */
#include "lease_kit.h"
#include "test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARD "shard:domains/a3"

static struct lease_table *shard_table(void)
{
    struct lease_table *table = kit_table();
    table->of_shard = true;
    return table;
}

static struct lease_table *read_at(struct view text, int64_t arrived_ms,
                                   const struct lease_table *previous)
{
    struct lease_table *table = NULL;
    struct hf_error error;
    assert_status(HF_OK,
                  table_decode_of_shard(text, (struct mono_time){ arrived_ms * 1000 }, previous,
                                        &table, &error),
                  &error);
    return table;
}

static struct lease_table *reload_at(struct lease_table *table, int64_t arrived_ms)
{
    struct buffer text = kit_encode(table);
    struct lease_table *again = read_at(buffer_view(&text), arrived_ms, table);
    buffer_release(&text);
    table_free(table);
    return again;
}

/* As another program reads it: an object in which no member stands twice. */
static json_t *tree_of(const struct lease_table *table)
{
    struct buffer text = kit_encode(table);
    json_error_t error;
    json_t *tree = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
    if (!tree)
        fail_msg("%s in %s", error.text, buffer_text(&text));
    buffer_release(&text);
    return tree;
}

static void assert_legacy(const struct lease_table *table, const char *worker,
                          const char *created_at, const char *expires_at)
{
    json_t *tree = tree_of(table);
    const char *found[3] = { NULL };
    assert_int_equal(json_unpack(tree, "{s:s, s:s, s:s}", "worker_id", &found[0], "created_at",
                                 &found[1], "expires_at", &found[2]),
                     0);
    assert_string_equal(found[0], worker);
    assert_string_equal(found[1], created_at);
    assert_string_equal(found[2], expires_at);
    json_decref(tree);
}

static uint64_t grant(struct lease_table *table, int64_t ms, const char *id)
{
    struct table_op op;
    struct wish wish = { .id = id, .scopes = SHARD };
    assert_int_equal(kit_acquire(table, &op, kit_at(ms), wish), HF_OK);
    return op.granted;
}

static void end(struct lease_table *table, int64_t ms, enum table_op_kind kind, const char *id,
                uint64_t token)
{
    struct table_op op;
    assert_int_equal(kit_do(table, &op, kit_at(ms), kind, id, token), HF_OK);
}

/* ---- What others see ----------------------------------------------------------------- */

static void it_shows_who_holds_and_until_when(void **state)
{
    (void)state;
    struct lease_table *table = shard_table();
    assert_legacy(table, "", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z");
    uint64_t token = grant(table, 1000, "a-1");
    assert_legacy(table, "tester", "2026-02-06T10:00:01.000Z", "2026-02-06T10:00:11.000Z");
    end(table, 4000, TABLE_RENEW, "a-1", token);
    assert_legacy(table, "tester", "2026-02-06T10:00:01.000Z", "2026-02-06T10:00:14.000Z");
    table = reload_at(table, 4000);
    assert_legacy(table, "tester", "2026-02-06T10:00:01.000Z", "2026-02-06T10:00:14.000Z");
    table_free(table);
}

/* A release leaves no lease behind, a completion does: nobody waits for either. */
static void nobody_waits_for_what_is_over(void **state)
{
    (void)state;
    static const enum table_op_kind ends[] = { TABLE_RELEASE, TABLE_COMPLETE, TABLE_FAIL };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct lease_table *table = shard_table();
        end(table, 3000, ends[i], "a-1", grant(table, 2000, "a-1"));
        assert_int_equal(kit_active(table), 0);
        for (int again = 0; again < 3; again++) {
            assert_legacy(table, "tester", "2026-02-06T10:00:02.000Z",
                          "2026-02-06T10:00:02.000Z");
            table = reload_at(table, 3000 + again);
        }
        uint64_t token = grant(table, 5000, "b-1");
        assert_legacy(table, "tester", "2026-02-06T10:00:05.000Z", "2026-02-06T10:00:15.000Z");
        end(table, 6000, TABLE_RELEASE, "b-1", token);
        table = reload_at(table, 6000);
        assert_legacy(
            table, "tester",
            ends[i] == TABLE_RELEASE ? "2026-02-06T10:00:05.000Z" : "2026-02-06T10:00:02.000Z",
            ends[i] == TABLE_RELEASE ? "2026-02-06T10:00:05.000Z" : "2026-02-06T10:00:02.000Z");
        table_free(table);
    }
}

static void it_does_not_grow(void **state)
{
    (void)state;
    struct lease_table *table = shard_table();
    size_t size = 0;
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof id, "a-%03d", i);
        end(table, 2 * i + 1, TABLE_RELEASE, id, grant(table, 2 * i, id));
        table = reload_at(table, 2 * i + 1);
        struct buffer text = kit_encode(table);
        if (i == 10)
            size = text.size;
        assert_true(i < 10 || text.size <= size + 2); /* tokens have more digits */
        buffer_release(&text);
        assert_int_equal(table->unknown.size, 0);
        json_decref(tree_of(table));
    }
    table_free(table);
}

static void other_tables_have_no_legacy_lock(void **state)
{
    (void)state;
    struct lease_table *table = kit_table(), *again = NULL;
    struct hf_error error;
    grant(table, 0, "a-1");
    json_t *tree = tree_of(table);
    assert_null(json_object_get(tree, "worker_id"));
    json_decref(tree);
    table_free(table);
    /* There the names are anybody's. */
    const char theirs[] = "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":5,\"leases\":{},"
                          "\"worker_id\":7,\"created_at\":\"x\",\"expires_at\":null}";
    assert_status(HF_OK,
                  table_decode(view_of(theirs), (struct mono_time){ 0 }, NULL, &again, &error),
                  &error);
    tree = tree_of(again);
    assert_int_equal(json_integer_value(json_object_get(tree, "worker_id")), 7);
    assert_string_equal(json_string_value(json_object_get(tree, "created_at")), "x");
    assert_true(json_is_null(json_object_get(tree, "expires_at")));
    json_decref(tree);
    table_free(again);
    assert_int_equal(table_decode(VIEW("{\"worker_id\":\"a\",\"created_at\":0,"
                                       "\"expires_at\":1}"),
                                  (struct mono_time){ 0 }, NULL, &again, &error),
                     HF_CORRUPT);
}

/* ---- Locks of other programs --------------------------------------------------------- */

static const char theirs[] = "{\"worker_id\": \"rpi-7\", "
                             "\"created_at\": \"2026-02-06T10:00:00Z\", "
                             "\"expires_at\": \"2026-02-06T10:05:00Z\"}";

static void adopt(struct lease_table *table)
{
    assert_true(table->adopted);
    table->adopted = false;
    table->next_token = (UINT64_C(9) << 32) + 1;
}

static void a_lock_of_another_program_is_one_lease(void **state)
{
    (void)state;
    struct lease_table *table = read_at(view_of(theirs), 7, NULL);
    assert_true(table->adopted && table->of_shard);
    assert_int_equal(table->lease_count, 1);
    const struct lease *lease = table->leases[0];
    assert_true(view_equal(lease->holder, VIEW("rpi-7")));
    assert_int_equal(lease->status, LEASE_ACTIVE);
    assert_int_equal(lease->wish.scope_count, 0);
    assert_int_equal(lease->clock.size, 0);
    assert_int_equal(lease->wish.ttl.us, 300 * 1000000);
    assert_int_equal(lease->seen.us, 7000);
    assert_int_equal(table->settings.ttl_max.us, SHARD_TTL_MAX.us);
    adopt(table);
    assert_legacy(table, "rpi-7", "2026-02-06T10:00:00.000Z", "2026-02-06T10:05:00.000Z");
    table_free(table);
}

/* 300 s, 60 ms of drift and 50 of margin; whatever calendars and the store's clock say. */
static void it_is_over_when_it_was_watched_for_so_long(void **state)
{
    (void)state;
    struct lease_table *table = read_at(view_of(theirs), 0, NULL);
    struct wish wish = { .id = "a-1", .scopes = SHARD };
    struct table_op op;
    adopt(table);
    struct evidence late = kit_at(0);
    late.earliest.us = late.latest.us = MOMENT_FAR / 2;
    late.wall.us += INT64_C(1000) * 24 * 3600 * 1000000;
    assert_int_equal(kit_acquire(table, &op, late, wish), HF_HELD);
    /* Read again and again it is the same one. */
    for (int i = 1; i < 5; i++) {
        struct lease_table *again = read_at(view_of(theirs), i * 60000, table);
        table_free(table);
        table = again;
        adopt(table);
        assert_int_equal(table->leases[0]->seen.us, 0);
    }
    assert_int_equal(kit_acquire(table, &op, kit_at(300109), wish), HF_HELD);
    assert_int_equal(kit_acquire(table, &op, kit_at(300111), wish), HF_OK);
    assert_int_equal(op.granted, (UINT64_C(9) << 32) + 1);
    table_check(table);
    table_free(table);
}

static enum hf_status ask(struct lease_table *table, struct table_op *op,
                          struct evidence evidence)
{
    return kit_acquire(table, op, evidence, (struct wish){ .id = "b-1", .scopes = SHARD });
}

/* The same document as somebody else reads it, who never saw it before. */
static struct lease_table *read_afresh(struct lease_table *table, int64_t arrived_ms)
{
    struct buffer text = kit_encode(table);
    struct lease_table *again = read_at(buffer_view(&text), arrived_ms, NULL);
    buffer_release(&text);
    table_free(table);
    return again;
}

/* Those who never watch it go by the store's clock: 300 s, 60 ms of drift, 50 of margin and 30 s
 * of tolerance after the first who asked. */
static void who_asks_gives_it_an_end(void **state)
{
    (void)state;
    struct table_op op;
    struct lease_table *table = read_at(view_of(theirs), 0, NULL);
    adopt(table);
    struct evidence first = kit_at(1000);
    first.earliest.us -= 500000;
    first.latest.us += 500000;
    assert_int_equal(ask(table, &op, first), HF_HELD);
    assert_true(op.changed);
    assert_true(view_equal(table->leases[0]->clock, VIEW(KIT_CLOCK)));
    assert_int_equal(table->leases[0]->expires.us, first.latest.us + 300110000);
    assert_int_equal(table->leases[0]->seen.us, 0);
    assert_legacy(table, "rpi-7", "2026-02-06T10:00:00.000Z", "2026-02-06T10:05:00.000Z");
    table_check(table);
    int64_t end_ms = 1500 + 300110 + 30000;
    static const int64_t before_ms[] = { 300000, 5000, 1 };
    for (size_t i = 0; i < sizeof before_ms / sizeof before_ms[0]; i++) {
        table = read_afresh(table, end_ms - before_ms[i]);
        assert_int_equal(ask(table, &op, kit_at(end_ms - before_ms[i])), HF_HELD);
        assert_false(op.changed);
    }
    table = read_afresh(table, end_ms + 1);
    struct evidence elsewhere = kit_at(end_ms + 1);
    elsewhere.clock = VIEW("clock-b");
    assert_int_equal(ask(table, &op, elsewhere), HF_HELD);
    assert_false(op.changed);
    assert_int_equal(ask(table, &op, kit_at(end_ms + 1)), HF_OK);
    table_free(table);
}

static void without_a_ttl_it_lasts_as_long_as_any(void **state)
{
    (void)state;
    struct table_op op;
    struct lease_table *table = read_at(VIEW("{\"worker_id\":\"w\"}"), 0, NULL);
    adopt(table);
    assert_int_equal(ask(table, &op, kit_at(0)), HF_HELD);
    assert_int_equal(table->leases[0]->wish.ttl.us, 0);
    assert_int_equal(table->leases[0]->expires.us, KIT_CLOCK_OFFSET + 300110000);
    table_free(table);
}

static void who_stands_in_line_gives_it_an_end_too(void **state)
{
    (void)state;
    struct table_op op;
    struct lease_table *table = read_at(view_of(theirs), 0, NULL);
    struct wish wish = { .id = "b-1", .scopes = SHARD, .wait = true };
    adopt(table);
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_OK);
    assert_int_equal(op.outcome, TABLE_QUEUED);
    assert_int_equal(table->leases[0]->expires.us, KIT_CLOCK_OFFSET + 300110000);
    table_check(table);
    table_free(table);
}

static void only_a_known_time_gives_an_end(void **state)
{
    (void)state;
    struct table_op op;
    struct lease_table *table = read_at(view_of(theirs), 0, NULL);
    adopt(table);
    struct evidence timeless = kit_at(0);
    timeless.time_known = false;
    assert_int_equal(ask(table, &op, timeless), HF_HELD);
    assert_false(op.changed);
    assert_int_equal(table->leases[0]->clock.size, 0);
    table_free(table);
}

/* Leases of other programs in any other table are watched and nothing else. */
static void no_other_table_gives_ends(void **state)
{
    (void)state;
    struct table_op op;
    struct hf_error error;
    struct lease_table *table = NULL;
    const char text[] = "{\"leases\":{\"x\":{\"lease_id\":\"x\",\"holder_id\":\"w\","
                        "\"status\":\"active\",\"chunks\":[\"c\"]}}}";
    assert_status(HF_OK,
                  table_decode(view_of(text), (struct mono_time){ 0 }, NULL, &table, &error),
                  &error);
    adopt(table);
    struct wish wish = { .id = "b-1", .scopes = "chunk:c" };
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_HELD);
    assert_false(op.changed);
    assert_int_equal(table->leases[0]->clock.size, 0);
    table_free(table);
}

static void another_file_is_another_lease(void **state)
{
    (void)state;
    static const char *const others[] = {
        "{\"worker_id\":\"rpi-8\",\"created_at\":\"2026-02-06T10:00:00Z\","
        "\"expires_at\":\"2026-02-06T10:05:00Z\"}",
        "{\"worker_id\":\"rpi-7\",\"created_at\":\"2026-02-06T10:00:01Z\","
        "\"expires_at\":\"2026-02-06T10:05:00Z\"}",
        "{\"worker_id\":\"rpi-7\",\"created_at\":\"2026-02-06T10:00:00Z\","
        "\"expires_at\":\"2026-02-06T10:05:01Z\"}",
    };
    struct lease_table *table = read_at(view_of(theirs), 0, NULL);
    for (size_t i = 0; i < 3; i++) {
        struct lease_table *other = read_at(view_of(others[i]), 1000, table);
        assert_false(view_equal(other->leases[0]->id, table->leases[0]->id));
        assert_int_equal(other->leases[0]->seen.us, 1000000);
        table_free(other);
    }
    /* Blanks and order say nothing. */
    struct lease_table *same =
        read_at(VIEW("{\"expires_at\":\"2026-02-06T10:05:00Z\",\"worker_id\":\"rpi-7\",\n"
                     "\"created_at\":\"2026-02-06T10:00:00Z\"}"),
                1000, table);
    assert_int_equal(same->leases[0]->seen.us, 0);
    table_free(same);
    table_free(table);
}

static void every_spelling_of_its_times_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *created_at, *expires_at;
        int64_t ttl_ms; /* 0: nobody knows, so it is watched for ttl_max */
    } rows[] = {
        { "\"2026-02-06T10:00:00Z\"", "\"2026-02-06T10:00:30Z\"", 30000 },
        { "\"2026-02-06T10:00:00.123456+00:00\"", "\"2026-02-06T11:00:30.123456+01:00\"",
          30000 },
        { "\"2026-02-06T10:00:00.123456\"", "\"2026-02-06T10:05:00.123457\"", 300001 },
        { "\"2026-02-06 10:00:00\"", "\"2026-02-06 10:00:01\"", 1000 },
        { "1770372000", "1770372060", 60000 },
        { "1770372000.5", "1770372060.75", 60250 },
        { "\"1770372000\"", "\"1770372060\"", 60000 },
        { "\"2026-02-06T10:00:00Z\"", "\"2026-02-07T10:00:00Z\"", 86400000 },
        { "\"2026-02-06T10:00:00Z\"", "\"2026-02-07T10:00:00.001Z\"", 0 },
        { "\"2026-02-06T10:00:00Z\"", "\"2026-02-06T10:00:00Z\"", 0 },
        { "\"2026-02-06T10:00:00Z\"", "\"2026-02-06T09:00:00Z\"", 0 },
        { "\"0001-01-01T00:00:00Z\"", "\"9999-12-31T23:59:59Z\"", 0 },
        { "\"soon\"", "\"2026-02-06T09:00:00Z\"", 0 },
        { "\"2026-02-06T10:00:00Z\"", "null", 0 },
        { "9223372036854775807", "\"\"", 0 },
        { "[1]", "{}", 0 },
        { "-9223372036854775808", "9223372036854775807", 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        struct table_op op;
        snprintf(text, sizeof text, "{\"worker_id\":\"w\",\"created_at\":%s,\"expires_at\":%s}",
                 rows[i].created_at, rows[i].expires_at);
        struct lease_table *table = read_at(view_of(text), 0, NULL);
        if (table->leases[0]->wish.ttl.us != rows[i].ttl_ms * 1000)
            fail_msg("%s gave %lld", text, (long long)table->leases[0]->wish.ttl.us);
        adopt(table);
        int64_t whole = rows[i].ttl_ms > 0 ? rows[i].ttl_ms : 300000;
        struct wish wish = { .id = "a-1", .scopes = SHARD };
        assert_int_equal(kit_acquire(table, &op, kit_at(whole), wish), HF_HELD);
        json_decref(tree_of(table));
        int64_t enough = whole + whole / 5000 + 100;
        assert_int_equal(kit_acquire(table, &op, kit_at(enough), wish), HF_OK);
        table_free(table);
    }
}

static void every_worker_is_somebody(void **state)
{
    (void)state;
    static const struct {
        const char *worker, *holder;
    } rows[] = {
        { "\"\"", "" },
        { "\"a\\u00e4\\n\"", "a\xc3\xa4\n" },
        { "7", "7" },
        { "null", "null" },
        { "\""
          "\xf0\x9f\xa6\x80"
          "\"",
          "\xf0\x9f\xa6\x80" },
        { "{\"a\":[1]}", "{\"a\":[1]}" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"worker_id\":%s,\"more\":1}", rows[i].worker);
        struct lease_table *table = read_at(view_of(text), 0, NULL);
        assert_true(view_equal(table->leases[0]->holder, view_of(rows[i].holder)));
        adopt(table);
        json_t *tree = tree_of(table);
        assert_string_equal(json_string_value(json_object_get(tree, "worker_id")),
                            rows[i].holder);
        assert_int_equal(json_integer_value(json_object_get(tree, "more")), 1);
        json_decref(tree);
        table_free(table);
    }
}

/* It is cut where a character ends, and the same at every reading. */
static void a_long_name_is_cut(void **state)
{
    (void)state;
    char text[2000] = "{\"worker_id\":\"x";
    size_t size = strlen(text);
    for (; size < 1600; size += 2)
        memcpy(text + size, "\xc3\xa4", 2);
    memcpy(text + size, "\"}", 3);
    struct lease_table *table = read_at(view_of(text), 0, NULL);
    assert_int_equal(table->leases[0]->holder.size, HOLDER_BYTES_MAX - 1);
    adopt(table);
    table = reload_at(table, 5);
    assert_int_equal(table->leases[0]->holder.size, HOLDER_BYTES_MAX - 1);
    assert_int_equal(table->leases[0]->seen.us, 0);
    table_free(table);
}

static void what_is_no_lock_is_corrupt(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "garbage",
        "{}",
        "[]",
        "{\"created_at\":\"2026-02-06T10:00:00Z\",\"expires_at\":\"2026-02-06T10:05:00Z\"}",
        "{\"worker_id\":\"a\",\"worker_id\":\"b\"}",
        "{\"worker_id\":\"a\"",
        "{\"worker_id\":\"a\",\"next_token\":\"x\"}",
        "{\"worker_id\":\"\xff\"}",
        "{\"format\":\"" TABLE_FORMAT "\",\"worker_id\":\"a\"}",
        "{\"format\":\"" TABLE_FORMAT "\",\"worker_id\":\"a\",\"leases\":{}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct lease_table *table = NULL;
        struct hf_error error;
        if (table_decode_of_shard(view_of(bad[i]), (struct mono_time){ 0 }, NULL, &table,
                                  &error) != HF_CORRUPT)
            fail_msg("%s is taken", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the lock of a shard shows who holds it and until when",
           it_shows_who_holds_and_until_when),
        IT("nobody waits for one that is over", nobody_waits_for_what_is_over),
        IT("what it shows stands there once, however often it is written", it_does_not_grow),
        IT("other tables show nothing, and keep such members as they are",
           other_tables_have_no_legacy_lock),
        IT("a lock of another program is one lease that covers the table",
           a_lock_of_another_program_is_one_lease),
        IT("it is over when it was watched for as long as it says",
           it_is_over_when_it_was_watched_for_so_long),
        IT("who asks for it gives it an end on the store's clock, once",
           who_asks_gives_it_an_end),
        IT("one without a ttl lasts as long as any then",
           without_a_ttl_it_lasts_as_long_as_any),
        IT("who stands in line for it gives it an end too",
           who_stands_in_line_gives_it_an_end_too),
        IT("while the store's time is not known it gets no end",
           only_a_known_time_gives_an_end),
        IT("in no other table does a lease get an end so", no_other_table_gives_ends),
        IT("another file is another lease, and is watched anew", another_file_is_another_lease),
        IT("its times are read in every spelling; without sense it is watched for ttl_max",
           every_spelling_of_its_times_is_read),
        IT("whatever its worker is called, somebody holds it", every_worker_is_somebody),
        IT("a name that is too long is cut between two characters", a_long_name_is_cut),
        IT("what is no lock is corrupt", what_is_no_lock_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
