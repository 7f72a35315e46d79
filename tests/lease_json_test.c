/* SPDX-License-Identifier: Apache-2.0 */
/* lease_json_test.c: the lease table as a document: entries of other programs are honoured and
 * kept, damage is detected, and no readable document causes a crash. */
#include "base/prng.h"
#include "lease_kit.h"
#include "test.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* A plain lease file of another program: no format line, no tokens, no clock. */
static const char plain_file[] =
    "{\n"
    "  \"leases\": {\n"
    "    \"lease-abc123\": {\n"
    "      \"lease_id\": \"lease-abc123\",\n"
    "      \"holder_id\": \"compactor-node-1\",\n"
    "      \"chunks\": [\"chunk_a.parquet\", \"chunk_b.parquet\", \"chunk_c.parquet\"],\n"
    "      \"acquired_at\": \"2026-02-06T10:00:00Z\",\n"
    "      \"expires_at\": \"2026-02-06T10:05:00Z\",\n"
    "      \"level\": 0,\n"
    "      \"status\": \"active\"\n"
    "    }\n"
    "  }\n"
    "}\n";

static enum hf_status decode(struct view text, struct lease_table **ret_table)
{
    struct hf_error error = { .why = "" };
    struct lease_table *before = *ret_table;
    enum hf_status status =
        table_decode(text, (struct mono_time){ 0 }, NULL, ret_table, &error);
    if (status != HF_OK) {
        assert_true(error.why[0] != '\0' && error.status == status);
        assert_ptr_equal(*ret_table, before);
    }
    return status;
}

static struct lease_table *decoded(const char *text)
{
    struct lease_table *table = NULL;
    assert_int_equal(decode(view_of(text), &table), HF_OK);
    return table;
}

static void assert_refused(const char *text, enum hf_status expected)
{
    struct lease_table *table = NULL;
    enum hf_status status = decode(view_of(text), &table);
    if (status != expected)
        fail_msg("%.80s gave %s", text, hf_status_name(status));
}

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

/* What whoever adopts a file does: gives it tokens of a new epoch. */
static void adopt(struct lease_table *table)
{
    assert_true(table->adopted);
    table->adopted = false;
    table->next_token = (UINT64_C(9) << 32) + 1;
}

/* ---- Files of other programs --------------------------------------------------------- */

static void a_plain_file_is_served(void **state)
{
    (void)state;
    struct lease_table *table = decoded(plain_file);
    assert_true(table->adopted);
    assert_int_equal(table->lease_count, 1);
    const struct lease *lease = kit_lease(table, "lease-abc123");
    assert_non_null(lease);
    assert_true(view_equal(lease->holder, VIEW("compactor-node-1")));
    assert_int_equal(lease->wish.scope_count, 3);
    assert_true(view_equal(lease->wish.scopes[2].name, VIEW("chunk_c.parquet")));
    assert_int_equal(lease->wish.scopes[0].kind, SCOPE_CHUNK);
    assert_int_equal(lease->wish.mode, LEASE_EXCLUSIVE);
    assert_int_equal(lease->status, LEASE_ACTIVE);
    assert_int_equal(lease->acquired_at.us, INT64_C(1770372000000000));
    assert_int_equal(lease->expires_at.us, INT64_C(1770372300000000));
    assert_int_equal(lease->clock.size, 0);
    table_free(table);
}

static void active_leases_of_a_plain_file_block(void **state)
{
    (void)state;
    struct lease_table *table = decoded(plain_file);
    struct table_op op;
    adopt(table);
    struct wish taken = { .id = "a-1", .scopes = "chunk:chunk_b.parquet" };
    struct wish free_one = { .id = "b-1", .scopes = "chunk:chunk_d.parquet" };
    assert_int_equal(kit_acquire(table, &op, kit_at(0), taken), HF_HELD);
    assert_string_equal(op.blocker, "lease-abc123");
    assert_int_equal(kit_acquire(table, &op, kit_at(0), free_one), HF_OK);
    assert_true(op.granted >> 32 == 9);
    /* No time of the store ends it, only watching it for the longest ttl. */
    struct evidence late = kit_at(0);
    late.earliest.us = late.latest.us = MOMENT_FAR;
    late.wall.us += INT64_C(1000) * 24 * 3600 * 1000000;
    assert_int_equal(kit_acquire(table, &op, late, taken), HF_HELD);
    assert_int_equal(kit_acquire(table, &op, kit_at(3600000), taken), HF_HELD);
    table = kit_reload(table, 3600000);
    assert_int_equal(kit_acquire(table, &op, kit_at(3601000), taken), HF_OK);
    assert_int_equal(kit_lease(table, "lease-abc123")->status, LEASE_EXPIRED);
    table_check(table);
    table_free(table);
}

static void other_spellings_of_plain_files_are_read(void **state)
{
    (void)state;
    struct lease_table *table = decoded(
        "{\"leases\":{\"a\":{\"lease_id\":\"a\",\"holder_id\":\"\\u00e9\\n\",\"chunks\":"
        "[\"x\\u002fy\"],\"acquired_at\":\"2026-02-06T10:00:00.123456789Z\",\"expires_at\":"
        "\"2026-02-06T10:05:00.5+00:00\",\"level\":3,\"status\":\"Completed\"},"
        "\"b\":{\"lease_id\":\"b\",\"holder_id\":\"\",\"chunks\":[\"z\"],\"acquired_at\":"
        "\"2026-02-06T10:00:00Z\",\"expires_at\":\"2026-02-06T10:05:00Z\",\"level\":0,"
        "\"status\":\"Failed\"}}}");
    const struct lease *lease = kit_lease(table, "a");
    assert_int_equal(lease->status, LEASE_COMPLETED);
    assert_true(view_equal(lease->wish.scopes[0].name, VIEW("x/y")));
    assert_true(view_equal(lease->holder, VIEW("\xc3\xa9\n")));
    assert_int_equal(lease->wish.level, 3);
    assert_int_equal(kit_lease(table, "b")->status, LEASE_FAILED);
    table_free(table);
    table = decoded("{\"leases\":{}}");
    assert_true(table->adopted);
    table_free(table);
}

static void unknown_members_survive(void **state)
{
    (void)state;
    json_t *before = json_loads(plain_file, 0, NULL);
    json_t *extra = json_loads("{\"deep\":[1,2.50,{\"é\\\"\":null}],\"n\":-1e3}", 0, NULL);
    json_object_set(before, "their_own", extra);
    json_t *leases = json_object_get(before, "leases");
    json_t *lease = json_object_get(leases, "lease-abc123");
    json_object_set(lease, "shard", extra);
    json_object_set_new(lease, "region", json_string("eu \"1\" \\ \n ü"));
    json_t *other = json_deep_copy(lease);
    json_object_set_new(other, "lease_id", json_string("other"));
    json_object_set_new(other, "chunks", json_loads("[\"q\"]", 0, NULL));
    json_object_set_new(leases, "other", other);
    char *text = json_dumps(before, JSON_INDENT(1));
    struct lease_table *table = decoded(text);
    adopt(table);
    struct table_op op;
    assert_status(HF_OK, kit_do(table, &op, kit_at(5), TABLE_RENEW, "lease-abc123", 0),
                  &op.error);
    table = kit_reload(table, 6);
    json_t *after = tree_of(table);
    json_t *changed = json_object_get(json_object_get(after, "leases"), "lease-abc123");
    json_t *same = json_object_get(json_object_get(after, "leases"), "other");
    assert_true(json_equal(json_object_get(after, "their_own"), extra));
    assert_true(json_equal(json_object_get(changed, "shard"), extra));
    assert_true(
        json_equal(json_object_get(changed, "region"), json_object_get(lease, "region")));
    assert_true(
        json_equal(json_object_get(changed, "chunks"), json_object_get(lease, "chunks")));
    assert_int_equal(json_integer_value(json_object_get(changed, "renewals")), 1);
    assert_true(json_equal(same, other));
    assert_string_equal(json_string_value(json_object_get(after, "format")), TABLE_FORMAT);
    json_decref(after);
    json_decref(before);
    json_decref(extra);
    free(text);
    table_free(table);
}

/* Another version of us may have settings that we do not know; and what means something in one
 * who waits may be a stranger's member in a lease. */
static void unknown_settings_and_members_of_leases_survive(void **state)
{
    (void)state;
    struct lease_table *table = decoded(
        "{\"format\":\"" TABLE_FORMAT
        "\",\"next_token\":9,\"settings\":{\"hue\":[1,\"\\u0041\"],"
        "\"margin_ms\":70,\"more\":{\"a\":null}},\"leases\":{\"a-1\":{\"lease_id\":\"a-1\","
        "\"scopes\":[\"named:x\"],\"token\":3,\"ttl_ms\":60000,\"poll_ms\":\"theirs\"}}}");
    struct table_op op;
    assert_status(HF_OK, kit_do(table, &op, kit_at(1), TABLE_RENEW, "a-1", 3), &op.error);
    table = kit_reload_afresh(kit_reload(table, 2), 3);
    json_t *tree = tree_of(table);
    json_t *settings = json_object_get(tree, "settings");
    json_t *hue = json_loads("[1,\"A\"]", 0, NULL), *more = json_loads("{\"a\":null}", 0, NULL);
    assert_true(json_equal(json_object_get(settings, "hue"), hue));
    assert_true(json_equal(json_object_get(settings, "more"), more));
    assert_int_equal(json_integer_value(json_object_get(settings, "margin_ms")), 70);
    assert_int_equal(table->settings.margin.us, 70000);
    json_t *lease = json_object_get(json_object_get(tree, "leases"), "a-1");
    assert_string_equal(json_string_value(json_object_get(lease, "poll_ms")), "theirs");
    assert_int_equal(json_integer_value(json_object_get(lease, "token")), 3);
    assert_int_equal(kit_lease(table, "a-1")->status, LEASE_ACTIVE);
    json_decref(hue);
    json_decref(more);
    json_decref(tree);
    table_free(table);
}

/* ---- Our own ------------------------------------------------------------------------- */

static const char *const scope_texts[] = {
    "named:a",       "named:b/c",  "path:/a/b \xc3\xbc", "tree:/a",  "tree:/z", "inode:7",
    "range:8:0-100", "range:8:5-", "chunk:a\"b\\c",      "chunk:/x", "pin:y",
};

static void random_wish(struct prng *prng, char id[16], int number, struct wish *ret)
{
    snprintf(id, 16, "s%" PRIu64 "-%d", prng_below(prng, 5), number);
    *ret = (struct wish){
        .id = id,
        .mode = prng_below(prng, 2) ? LEASE_EXCLUSIVE : LEASE_SHARED,
        .ttl_us = 1000 * (int64_t)(100 + prng_below(prng, 100000)),
        .wait = prng_below(prng, 2),
        .output = prng_below(prng, 4) ? NULL : "out/\xc3\xa9 \"1\"",
        .note = prng_below(prng, 4) ? NULL : "{\"a\":[1,\"\\u0001\"]}",
        .poll_ms = (int64_t)prng_below(prng, 10000),
    };
}

static enum hf_status acquire_random(struct lease_table *table, struct prng *prng, int number)
{
    char id[16];
    struct wish wish;
    struct table_op op;
    struct scope scopes[2];
    random_wish(prng, id, number, &wish);
    size_t count = 1 + (size_t)prng_below(prng, 2);
    for (size_t i = 0; i < count; i++) {
        const char *text = scope_texts[prng_below(prng, sizeof scope_texts / sizeof(char *))];
        assert_int_equal(scope_parse(view_of(text), &scopes[i], NULL), HF_OK);
    }
    struct evidence evidence = kit_at(number);
    evidence.time_known = prng_below(prng, 4) != 0;
    struct lease_request wanted = { .id = view_of(id),
                                    .holder = VIEW("h \"q\" \n"),
                                    .session = { id, 2 },
                                    .wish.scopes = scopes,
                                    .wish.scope_count = count,
                                    .wish.mode = wish.mode,
                                    .wish.ttl = { wish.ttl_us },
                                    .wish.level = prng_below(prng, 3),
                                    .wish.poll = SPAN_MS(wish.poll_ms + 1),
                                    .output = view_of(wish.output ? wish.output : ""),
                                    .note = view_of(wish.note ? wish.note : "") };
    op = (struct table_op){ .kind = TABLE_ACQUIRE, .wanted = &wanted, .wait = wish.wait };
    return table_apply(table, &op, &evidence);
}

static struct lease_table *random_table(struct prng *prng, int operations)
{
    struct lease_table *table = kit_table();
    static const enum table_op_kind ends[] = { TABLE_RENEW, TABLE_RELEASE, TABLE_COMPLETE,
                                               TABLE_FAIL, TABLE_BREAK };
    for (int i = 0; i < operations; i++) {
        struct table_op op;
        if (prng_below(prng, 3) || table->lease_count == 0) {
            acquire_random(table, prng, i);
            continue;
        }
        const struct lease *lease = table->leases[prng_below(prng, table->lease_count)];
        char id[32];
        snprintf(id, sizeof id, "%.*s", VIEW_ARGS(lease->id));
        kit_do(table, &op, kit_at(i), ends[prng_below(prng, 5)], id, lease->token);
    }
    table_check(table);
    return table;
}

static void random_tables_survive_the_round_trip(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(3);
    for (int i = 0; i < 300; i++) {
        struct lease_table *table = random_table(&prng, 60), *again = NULL;
        struct buffer first = BUFFER_INIT(TABLE_BYTES_READ_MAX);
        struct buffer second = BUFFER_INIT(TABLE_BYTES_READ_MAX);
        assert_true(table_encode(table, VIEW("n"), &first));
        assert_int_equal(decode(buffer_view(&first), &again), HF_OK);
        assert_true(table_encode(again, VIEW("n"), &second));
        assert_true(view_equal(buffer_view(&first), buffer_view(&second)));
        assert_int_equal(table->bytes, again->bytes);
        table_check(again);
        json_t *tree = json_loadb(first.data, first.size, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(tree);
        json_decref(tree);
        for (size_t k = 0; k < table->lease_count; k++) {
            const struct lease *a = table->leases[k], *b = again->leases[k];
            assert_true(lease_unchanged(a, b));
            assert_true(a->expires.us == b->expires.us && a->wish.ttl.us == b->wish.ttl.us);
            assert_true(view_equal(a->clock, b->clock) && view_equal(a->session, b->session));
            assert_true(a->wish.scope_count == b->wish.scope_count &&
                        a->wish.mode == b->wish.mode);
        }
        for (size_t k = 0; k < table->waiter_count; k++) {
            const struct lease_request *a = &table->waiters[k].wanted->asked,
                                       *b = &again->waiters[k].wanted->asked;
            assert_true(view_equal(a->session, b->session) &&
                        a->wish.poll.us == b->wish.poll.us);
            assert_true(table->waiters[k].reserved == again->waiters[k].reserved);
        }
        buffer_release(&first);
        buffer_release(&second);
        table_free(table);
        table_free(again);
    }
}

static void settings_are_kept(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    settings.watch_only = true;
    settings.drift_ppm = 12345;
    settings.margin = SPAN_MS(77);
    struct hf_error error;
    struct lease_table *table = table_new(&settings, 3, &error);
    table = kit_reload_afresh(table, 0);
    assert_true(table->settings.watch_only && table->settings.drift_ppm == 12345);
    assert_int_equal(table->settings.margin.us, 77000);
    assert_int_equal(table->settings.skew_tolerance.us, settings.skew_tolerance.us);
    assert_int_equal(table->settings.ttl_max.us, settings.ttl_max.us);
    assert_int_equal(table->settings.late_bound.us, settings.late_bound.us);
    assert_true(table->next_token == (UINT64_C(3) << 32) + 1);
    table_free(table);
}

/* ---- Damage -------------------------------------------------------------------------- */

static void what_is_no_table_is_corrupt(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "\n",
        "null",
        "[]",
        "7",
        "\"x\"",
        "{",
        "{}x",
        "x",
        "{}",
        "{\"other\":1}",
        "{\"leases\":[]}",
        "{\"leases\":null}",
        "{\"leases\":{\"a\":{}}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"b\"}}}",
        "{\"leases\":{\"a\":[]}}",
        "{\"format\":\"" TABLE_FORMAT "\"}",
        "{\"format\":\"" TABLE_FORMAT "\",\"leases\":{}}",
        "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":5}",
        "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":\"5\",\"leases\":{}}",
        "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":-5,\"leases\":{}}",
        "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":1.5,\"leases\":{}}",
        "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":9007199254740992,\"leases\":{}}",
        "{\"format\":7,\"next_token\":5,\"leases\":{}}",
        "{\"format\":null,\"next_token\":5,\"leases\":{}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"a\"},\"a\":{\"lease_id\":\"a\"}}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"a\"}},\"waiters\":[{\"lease_id\":\"a\",\"poll_ms\":"
        "1}]}",
        "{\"leases\":{},\"waiters\":[{\"lease_id\":\"a-1\",\"poll_ms\":1},"
        "{\"lease_id\":\"a-1\",\"poll_ms\":1}]}",
        "{\"format\":\"" TABLE_FORMAT
        "\",\"next_token\":5,\"leases\":{\"a\":{\"lease_id\":\"a\","
        "\"token\":5}}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"a\",\"status\":\"asleep\"}}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"a\",\"clock\":\"c\",\"status\":\"active\"}}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"a\",\"clock\":\"c\",\"expires_us\":"
        "9223372036854775807}}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(bad[i], HF_CORRUPT);
}

static void a_later_format_is_told_apart(void **state)
{
    (void)state;
    assert_refused("{\"format\":\"holdfast.leases/2\",\"next_token\":5,\"leases\":{}}",
                   HF_UNSUPPORTED);
    assert_refused("{\"format\":\"holdfast.leases/10\",\"leases\":{}}", HF_UNSUPPORTED);
    assert_refused("{\"format\":\"holdfast.leases/2\",\"other\":{}}", HF_UNSUPPORTED);
}

static void every_truncation_is_corrupt(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(4);
    struct lease_table *table = random_table(&prng, 40), *again = NULL;
    struct buffer text = kit_encode(table);
    for (size_t size = 0; size + 2 <= text.size; size++) {
        char *exact = malloc(size + 1); /* so that a read past the end is seen */
        memcpy(exact, text.data, size);
        assert_int_equal(decode((struct view){ exact, size }, &again), HF_CORRUPT);
        free(exact);
    }
    for (size_t size = 0; size + 2 < sizeof plain_file; size++)
        assert_int_equal(decode((struct view){ plain_file, size }, &again), HF_CORRUPT);
    buffer_release(&text);
    table_free(table);
}

static void huge_documents_are_refused(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT(2 * TABLE_BYTES_READ_MAX);
    struct lease_table *table = NULL;
    buffer_append(&text, VIEW("{\"leases\":{}"));
    while (text.size <= TABLE_BYTES_READ_MAX)
        buffer_append_byte(&text, ' ');
    assert_true(buffer_append_byte(&text, '}'));
    assert_int_equal(decode(buffer_view(&text), &table), HF_CORRUPT);
    buffer_clear(&text);
    buffer_append(&text, VIEW("{\"leases\":{},\"x\":"));
    for (int i = 0; i < 100000; i++)
        buffer_append_byte(&text, '[');
    assert_int_equal(decode(buffer_view(&text), &table), HF_CORRUPT);
    buffer_release(&text);
}

/* Everything that can be done to a table, done; nothing may abort, and what is written can be
 * read. */
static void use(struct lease_table *table)
{
    struct table_op op;
    char ids[8][300];
    uint64_t tokens[8];
    size_t count = 0;
    if (table->adopted)
        adopt(table);
    for (size_t i = 0; i < table->lease_count && count < 4; i++, count++) {
        tokens[count] = table->leases[i]->token;
        snprintf(ids[count], 300, "%.*s", VIEW_ARGS(table->leases[i]->id));
    }
    for (size_t i = 0; i < table->waiter_count && count < 8; i++, count++) {
        tokens[count] = 0;
        snprintf(ids[count], 300, "%.*s", VIEW_ARGS(table->waiters[i].wanted->asked.id));
    }
    for (size_t i = 0; i < count; i++) {
        kit_do(table, &op, kit_at(1), TABLE_RENEW, ids[i], tokens[i]);
        kit_do(table, &op, kit_at(1), TABLE_CLAIM, ids[i], 0);
        kit_do(table, &op, kit_at(1), i % 2 ? TABLE_BREAK : TABLE_FAIL, ids[i], tokens[i]);
        kit_do(table, &op, kit_at(1), TABLE_FORGET, ids[i], 0);
    }
    kit_acquire(table, &op, kit_at(2), (struct wish){ .id = "new-1", .scopes = "named:x" });
    kit_do(table, &op, kit_at(100000), TABLE_SCAVENGE, "", 0);
    kit_barrier(table, &op, kit_at(100001), "bar", 1000000, 1000);
    for (size_t i = 0; i < count; i++)
        kit_do(table, &op, kit_at(100002), TABLE_CANCEL, ids[i], 0);
    table_free(kit_reload(table, 100003));
}

/* A document with one exclusive lease on named:x, one who waits, and some history. */
static json_t *example_document(void)
{
    struct lease_table *table = kit_table();
    struct table_op op;
    kit_acquire(table, &op, kit_at(0),
                (struct wish){ .id = "a-1", .scopes = "named:x", .output = "o", .note = "{}" });
    kit_acquire(table, &op, kit_at(0),
                (struct wish){ .id = "b-1", .scopes = "named:x", .wait = true });
    kit_acquire(table, &op, kit_at(0),
                (struct wish){ .id = "c-1", .scopes = "chunk:y path:/z" });
    kit_do(table, &op, kit_at(0), TABLE_BREAK, "c-1", op.granted);
    json_t *tree = tree_of(table);
    table_free(table);
    return tree;
}

/* The changed document is refused, or it still keeps others from what was held. */
static void assert_still_guarded(json_t *document, const char *what)
{
    char *text = json_dumps(document, 0);
    struct lease_table *table = NULL;
    enum hf_status status = decode(view_of(text), &table);
    if (status == HF_OK) {
        struct table_op op;
        if (table->adopted)
            adopt(table);
        struct wish wish = { .id = "new-1", .scopes = "named:x" };
        status = kit_acquire(table, &op, kit_at(1), wish);
        if (status != HF_HELD)
            fail_msg("%s: the lease no longer guards: %s", what, hf_status_name(status));
        table_free(table);
        assert_int_equal(decode(view_of(text), &table), HF_OK);
        use(table);
    } else if (status != HF_CORRUPT && status != HF_UNSUPPORTED) {
        fail_msg("%s gave %s", what, hf_status_name(status));
    }
    free(text);
}

/* Replaces or removes each member of `object`, one at a time, within `document`. */
static void damage_members(json_t *document, json_t *object, const char *where)
{
    static const char *const values[] = { NULL,      "null",
                                          "true",    "-1",
                                          "1.5",     "\"x\"",
                                          "[]",      "{}",
                                          "1e30",    "9223372036854775807",
                                          "\"\"",    "[[\"x\"]]",
                                          "[\"x\"]", "{\"x\":{\"lease_id\":\"x\"}}" };
    json_t *keys = json_array();
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) json_array_append_new(keys, json_string(key));
    for (size_t k = 0; k < json_array_size(keys); k++) {
        key = json_string_value(json_array_get(keys, k));
        json_t *kept = json_incref(json_object_get(object, key));
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            /* Other leases, other scopes and another end are not damage that anybody can see. */
            bool plausible =
                values[i] && (strcmp(key, "leases") == 0 || strcmp(key, "scopes") == 0 ||
                              strcmp(key, "chunks") == 0 || strcmp(key, "expires_us") == 0);
            if (plausible &&
                (values[i][0] == '{' || values[i][0] == '[' || values[i][0] == '-'))
                continue;
            char what[128];
            snprintf(what, sizeof what, "%s.%s = %s", where, key,
                     values[i] ? values[i] : "(gone)");
            if (values[i])
                json_object_set_new(object, key, json_loads(values[i], JSON_DECODE_ANY, NULL));
            else
                json_object_del(object, key);
            assert_still_guarded(document, what);
            json_object_set(object, key, kept);
        }
        json_decref(kept);
    }
    json_decref(keys);
}

static void no_damaged_member_frees_a_lease(void **state)
{
    (void)state;
    json_t *document = example_document();
    assert_still_guarded(document, "as it is");
    json_t *leases = json_object_get(document, "leases");
    damage_members(document, document, "table");
    damage_members(document, json_object_get(leases, "a-1"), "a-1");
    damage_members(document, json_object_get(leases, "c-1"), "c-1");
    damage_members(document, json_object_get(document, "settings"), "settings");
    damage_members(document, json_array_get(json_object_get(document, "waiters"), 0), "b-1");
    json_decref(document);
}

static void random_bytes_do_no_harm(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(9);
    json_t *document = example_document();
    char *text = json_dumps(document, 0);
    size_t size = strlen(text);
    size_t read = 0;
    for (int i = 0; i < 30000; i++) {
        char *copy = malloc(size);
        memcpy(copy, text, size);
        for (uint64_t n = 1 + prng_below(&prng, 3); n > 0; n--)
            copy[prng_below(&prng, size)] =
                "0123456789{}[]\",:aX-\\\xff"[prng_below(&prng, 23)];
        struct lease_table *table = NULL;
        enum hf_status status = decode((struct view){ copy, size }, &table);
        assert_true(status == HF_OK || status == HF_CORRUPT || status == HF_UNSUPPORTED);
        if (status == HF_OK) {
            use(table);
            read++;
        }
        free(copy);
    }
    assert_true(read > 0);
    free(text);
    json_decref(document);
}

static void a_turn_that_cannot_be_is_not_given(void **state)
{
    (void)state;
    json_t *document = example_document();
    json_object_set_new(document, "reserved", json_loads("[\"b-1\",\"nobody\"]", 0, NULL));
    char *text = json_dumps(document, 0);
    struct lease_table *table = decoded(text);
    struct table_op op;
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_CLAIM, "b-1", 0), HF_OK);
    assert_int_equal(op.outcome, TABLE_QUEUED);
    table_free(table);
    free(text);
    json_decref(document);
}

static void leases_that_conflict_already_bring_nobody_down(void **state)
{
    (void)state;
    struct lease_table *table = decoded(
        "{\"leases\":{\"a\":{\"lease_id\":\"a\",\"chunks\":[\"x\"],\"status\":\"active\"},"
        "\"b\":{\"lease_id\":\"b\",\"chunks\":[\"x\"],\"status\":\"active\"}}}");
    struct table_op op;
    adopt(table);
    struct wish wish = { .id = "c-1", .scopes = "chunk:x" };
    assert_int_equal(kit_do(table, &op, kit_at(0), TABLE_RELEASE, "a", 0), HF_OK);
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_HELD);
    assert_int_equal(kit_do(table, &op, kit_at(0), TABLE_BREAK, "b", 0), HF_OK);
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_OK);
    table_free(table);
}

static void as_many_leases_as_there_can_be_are_read(void **state)
{
    (void)state;
    struct lease_table *table = kit_table(), *again = NULL;
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    buffer_append(&text,
                  VIEW("{\"format\":\"" TABLE_FORMAT "\",\"next_token\":9,\"leases\":{"));
    for (int i = 0; i < TABLE_LEASES_MAX + TABLE_WAITERS_MAX; i++)
        buffer_print(&text, "%s\"a-%d\":{\"lease_id\":\"a-%d\",\"scopes\":[\"path:/%d\"]}",
                     i ? "," : "", i, i, i);
    assert_true(buffer_append(&text, VIEW("}}")));
    assert_int_equal(decode(buffer_view(&text), &again), HF_OK);
    assert_int_equal(again->lease_count, TABLE_LEASES_MAX + TABLE_WAITERS_MAX);
    buffer_release(&text);
    table_free(again);
    table_free(table);
}

/* ---- Sightings ----------------------------------------------------------------------- */

static void sightings_are_carried_over(void **state)
{
    (void)state;
    struct lease_table *theirs = kit_table();
    struct table_op op;
    kit_acquire(theirs, &op, kit_at(0), (struct wish){ .id = "a-1", .scopes = "named:a" });
    kit_acquire(theirs, &op, kit_at(0), (struct wish){ .id = "b-1", .scopes = "named:b" });
    uint64_t token = op.granted;
    struct buffer first = kit_encode(theirs);
    kit_do(theirs, &op, kit_at(50), TABLE_RENEW, "b-1", token);
    kit_acquire(theirs, &op, kit_at(50), (struct wish){ .id = "c-1", .scopes = "named:c" });
    struct buffer second = kit_encode(theirs);
    struct lease_table *one = NULL, *two = NULL, *three = NULL;
    struct hf_error error;
    assert_status(HF_OK,
                  table_decode(buffer_view(&first), (struct mono_time){ 1000 }, NULL, &one,
                               &error),
                  &error);
    assert_status(HF_OK,
                  table_decode(buffer_view(&second), (struct mono_time){ 2000 }, one, &two,
                               &error),
                  &error);
    assert_status(HF_OK,
                  table_decode(buffer_view(&second), (struct mono_time){ 3000 }, two, &three,
                               &error),
                  &error);
    assert_int_equal(kit_lease(two, "a-1")->seen.us, 1000);
    assert_int_equal(kit_lease(two, "b-1")->seen.us, 2000);
    assert_int_equal(kit_lease(two, "c-1")->seen.us, 2000);
    assert_int_equal(kit_lease(three, "a-1")->seen.us, 1000);
    assert_int_equal(kit_lease(three, "b-1")->seen.us, 2000);
    /* A table that was gone in between has seen nothing. */
    table_free(two);
    assert_status(HF_OK,
                  table_decode(buffer_view(&second), (struct mono_time){ 4000 }, NULL, &two,
                               &error),
                  &error);
    assert_int_equal(kit_lease(two, "a-1")->seen.us, 4000);
    table_free(one);
    table_free(two);
    table_free(three);
    table_free(theirs);
    buffer_release(&first);
    buffer_release(&second);
}

static void a_table_that_an_earlier_version_filled_has_room(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct lease_table *table;
    struct table_op op;
    struct hf_error error;
    struct wish wish = { .id = "b-1", .scopes = "named:x" };
    buffer_print(&text, "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":9999,\"leases\":{");
    for (int i = 0; i < TABLE_LEASES_MAX; i++)
        buffer_print(&text,
                     "%s\n\"a-%d\":{\"lease_id\":\"a-%d\",\"scopes\":[\"named:x\"],"
                     "\"token\":%d,\"status\":\"failed\",\"output\":\"out\"}",
                     i > 0 ? "," : "", i, i, i + 1);
    buffer_print(&text, "}}");
    assert_status(HF_OK, table_decode(buffer_view(&text), kit_at(1).now, NULL, &table, &error),
                  &error);
    assert_int_equal(table->lease_count, TABLE_LEASES_MAX);
    assert_status(HF_OK, kit_acquire(table, &op, kit_at(1), wish), &op.error);
    assert_int_equal(op.outcome, TABLE_GRANTED);
    assert_true(table->lease_count <= TABLE_FINISHED_MAX + 1);
    buffer_release(&text);
    table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a plain lease file of another program is served", a_plain_file_is_served),
        IT("its active leases block, and end only by watching",
           active_leases_of_a_plain_file_block),
        IT("other spellings of plain files are read", other_spellings_of_plain_files_are_read),
        IT("members that we do not know survive, of the table and of a changed lease",
           unknown_members_survive),
        IT("settings that we do not know survive, and members of others' leases",
           unknown_settings_and_members_of_leases_survive),
        IT("random tables survive the round trip", random_tables_survive_the_round_trip),
        IT("settings are kept in the document", settings_are_kept),
        IT("what is no table is corrupt", what_is_no_table_is_corrupt),
        IT("a later format is told apart", a_later_format_is_told_apart),
        IT("every truncation is corrupt", every_truncation_is_corrupt),
        IT("huge and deep documents are refused", huge_documents_are_refused),
        IT("no damaged or missing member frees a lease", no_damaged_member_frees_a_lease),
        IT("random bytes do no harm", random_bytes_do_no_harm),
        IT("a turn that cannot be is not given", a_turn_that_cannot_be_is_not_given),
        IT("leases that conflict already bring nobody down",
           leases_that_conflict_already_bring_nobody_down),
        IT("as many leases as claims can make are read",
           as_many_leases_as_there_can_be_are_read),
        IT("sightings are carried over for what did not change", sightings_are_carried_over),
        IT("a table that an earlier version filled with outputs has room again",
           a_table_that_an_earlier_version_filled_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
