/* SPDX-License-Identifier: Apache-2.0 */
/* lease_damage_test.c: damages valid tables in bytes, members and whole entries. There must be
 * no crash, no lower token and no second holder, and every table that can be read can be
 * written again. */
#include "base/json.h"
#include "base/prng.h"
#include "lease_kit.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS_EACH SEED_ROUNDS(5000)
#define TEXT_MAX    ((size_t)256 * 1024)

/* A plain lease file of another program, as in lease_json_test.c, with members of its own. */
static const char plain_file[] =
    "{\n  \"leases\": {\n    \"lease-abc123\": {\n      \"lease_id\": \"lease-abc123\",\n"
    "      \"holder_id\": \"compactor-node-1\",\n"
    "      \"chunks\": [\"chunk_a.parquet\", \"chunk_b.parquet\", \"chunk_c.parquet\"],\n"
    "      \"acquired_at\": \"2026-02-06T10:00:00Z\",\n"
    "      \"expires_at\": \"2026-02-06T10:05:00Z\",\n      \"level\": 0,\n"
    "      \"status\": \"active\", \"shard\": 7\n    }\n  }, \"theirs\": [1, {}]\n}\n";

/* The lock of a shard as other programs write it. */
static const char shard_file[] =
    "{\"worker_id\": \"worker-\\u00e4\", \"created_at\": \"2026-02-06T10:00:00.250000\", "
    "\"expires_at\": \"2026-02-06T10:05:00+00:00\", \"theirs\": [1, {}]}\n";

/* How the texts of a test are read. */
typedef enum hf_status decode_fn(struct view text, struct mono_time arrived,
                                 const struct lease_table *previous,
                                 struct lease_table **ret_table, struct hf_error *error);
static decode_fn *read_as = table_decode;

/* Exclusive, shared and slots; brief waiters and others, one with its turn; something over,
 * something broken, and members that we do not know. */
static struct buffer example_table(void)
{
    struct lease_table *table = kit_table();
    struct table_op op;
    static const struct wish wishes[] = {
        { .id = "a-1",
          .scopes = "named:x",
          .output = "out/a",
          .note = "{\"k\":[1,\"\\u0041\"]}" },
        { .id = "b-1", .scopes = "path:/p tree:/q", .mode = LEASE_SHARED },
        { .id = "b-2", .scopes = "path:/p", .mode = LEASE_SHARED },
        { .id = "c-1", .scopes = "named:s", .mode = LEASE_SLOTS, .slots = 2 },
        { .id = "d-1", .scopes = "range:7:0-100" },
        { .id = "e-1", .scopes = "chunk:one chunk:two" },
        { .id = "f-1", .scopes = "named:y" },
        { .id = "w-1", .scopes = "named:x", .wait = true },
        { .id = "w-2", .scopes = "named:x", .wait = true },
        { .id = "v-1", .scopes = "range:7:50-", .wait = true, .output = "out/v" },
        { .id = "u-1", .scopes = "named:y", .wait = true, .poll_ms = 700 },
    };
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++)
        assert_status(HF_OK, kit_acquire(table, &op, kit_at(0), wishes[i]), &op.error);
    kit_do(table, &op, kit_at(1), TABLE_BREAK, "e-1", kit_lease(table, "e-1")->token);
    kit_do(table, &op, kit_at(1), TABLE_RELEASE, "f-1", kit_lease(table, "f-1")->token);
    assert_true(kit_waiter(table, "u-1")->reserved);
    buffer_append(&table->unknown, VIEW(",\"theirs\":{\"deep\":[1,2,{\"x\":null}]}"));
    buffer_append(&table->unknown_settings, VIEW(",\"hue\":\"blue\""));
    struct buffer text = kit_encode(table);
    table_free(table);
    return text;
}

/* ---- Ways to damage ------------------------------------------------------------------ */

struct damage {
    struct prng prng;
    char *text; /* TEXT_MAX bytes of room */
    size_t size;
};

/* Puts `with` in the place of `count` bytes; nothing when there is no room. */
static void splice(struct damage *d, size_t at, size_t count, struct view with)
{
    if (d->size - count + with.size > TEXT_MAX)
        return;
    memmove(d->text + at + with.size, d->text + at + count, d->size - at - count);
    memcpy(d->text + at, with.data, with.size);
    d->size = d->size - count + with.size;
}

static size_t any_place(struct damage *d)
{
    return (size_t)prng_below(&d->prng, d->size + 1);
}

static void flip_bytes(struct damage *d)
{
    static const char likely[] = "0123456789{}[]\",:aX-\\\xff\x01 ";
    for (uint64_t n = 1 + prng_below(&d->prng, 3); n > 0 && d->size > 0; n--)
        d->text[prng_below(&d->prng, d->size)] =
            likely[prng_below(&d->prng, sizeof likely - 1)];
}

static void delete_bytes(struct damage *d)
{
    size_t at = any_place(d), most = d->size - at;
    splice(d, at, (size_t)prng_below(&d->prng, (most < 40 ? most : 40) + 1), VIEW(""));
}

static void insert_bytes(struct damage *d)
{
    char bytes[16];
    size_t count = 1 + (size_t)prng_below(&d->prng, sizeof bytes);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (char)prng_below(&d->prng, 256);
    splice(d, any_place(d), 0, (struct view){ bytes, count });
}

static void truncate_text(struct damage *d)
{
    d->size = any_place(d);
}

static void repeat_bytes(struct damage *d)
{
    char copy[2048];
    size_t at = any_place(d), most = d->size - at;
    size_t count = (size_t)prng_below(&d->prng, (most < sizeof copy ? most : sizeof copy) + 1);
    memcpy(copy, d->text + at, count);
    splice(d, any_place(d), 0, (struct view){ copy, count });
}

/* The start and size of a random value, found by its colon; false when there is none. */
static bool find_value(struct damage *d, size_t *ret_at, size_t *ret_size)
{
    size_t start = any_place(d), at = start;
    while (at < d->size && d->text[at] != ':')
        at++;
    if (at >= d->size)
        return false;
    struct json_reader reader = json_read((struct view){ d->text + at + 1, d->size - at - 1 });
    struct view raw;
    if (!json_skip(&reader, &raw))
        return false;
    *ret_at = (size_t)(raw.data - d->text);
    *ret_size = raw.size;
    return true;
}

static void retype_value(struct damage *d)
{
    static const char *const values[] = {
        "null",
        "true",
        "-1",
        "0",
        "1.5",
        "1e400",
        "99999999999999999999",
        "9007199254740991",
        "9007199254740992",
        "9223372036854775807",
        "-9223372036854775808",
        "\"\"",
        "\"x\"",
        "[]",
        "{}",
        "[\"named:x\"]",
        "[[\"x\"]]",
        "{\"x\":{\"lease_id\":\"x\"}}",
        "\"active\"",
        "\"completed\"",
        "\"shared\"",
        "\"slots\"",
        "\"a-1\"",
        "\"\\u0000\"",
    };
    size_t at, size;
    if (find_value(d, &at, &size))
        splice(d, at, size,
               view_of(values[prng_below(&d->prng, sizeof values / sizeof values[0])]));
}

/* A member that stands twice, with another value; before or behind the first. */
static void duplicate_member(struct damage *d)
{
    static const char *const members[] = {
        "\"next_token\":1,",
        "\"leases\":{},",
        "\"status\":\"released\",",
        "\"token\":1,",
        "\"scopes\":[\"named:other\"],",
        "\"expires_us\":1,",
        "\"lease_id\":\"other\",",
        "\"waiters\":[],",
        "\"wanted\":{\"scopes\":[\"named:z\"],\"poll_ms\":1,\"ttl_ms\":100},",
        "\"format\":\"" TABLE_FORMAT "\",",
        "\"mode\":\"shared\",",
        "\"missed\":12,",
        "\"settings\":{\"margin_ms\":0},",
        "\"ttl_ms\":1,",
        "\"renewals\":0,",
    };
    size_t at = any_place(d);
    while (at < d->size && d->text[at] != '{')
        at++;
    if (at < d->size)
        splice(d, at + 1, 0,
               view_of(members[prng_below(&d->prng, sizeof members / sizeof members[0])]));
}

static void nest_deeply(struct damage *d)
{
    char deep[256];
    size_t levels = 1 + (size_t)prng_below(&d->prng, 60), at, size;
    bool objects = prng_below(&d->prng, 2);
    size_t used = 0;
    for (size_t i = 0; i < levels; i++)
        used += (size_t)snprintf(deep + used, sizeof deep - used,
                                 objects && i % 2 ? "{\"\":" : "[");
    for (size_t i = levels; i-- > 0;)
        deep[used++] = objects && i % 2 ? '}' : ']';
    /* The innermost object needs a value. */
    if (objects && levels % 2 == 0)
        return;
    if (find_value(d, &at, &size))
        splice(d, at, size, (struct view){ deep, used });
}

/* Every "id" of one entry becomes that of another. */
static void rename_entry(struct damage *d)
{
    static const char *const ids[] = { "a-1", "b-1", "b-2", "d-1", "w-1", "w-2", "v-1" };
    const char *from = ids[prng_below(&d->prng, 7)], *to = ids[prng_below(&d->prng, 7)];
    for (size_t at = 0; at + 5 <= d->size; at++)
        if (d->text[at] == '"' && memcmp(d->text + at + 1, from, 3) == 0 &&
            d->text[at + 4] == '"')
            memcpy(d->text + at + 1, to, 3);
}

/* Somebody else who holds the same, written by who knows whom. */
static void add_holder(struct damage *d)
{
    static const char *const holders[] = {
        "\"z\":{\"lease_id\":\"z\",\"scopes\":[\"named:x\"],\"token\":4294967297},",
        "\"z\":{\"lease_id\":\"z\",\"scopes\":[\"named:x\"],\"ttl_ms\":1},",
        "\"z\":{\"lease_id\":\"z\",\"scopes\":[\"named:s\"],\"mode\":\"slots\",\"slots\":1},",
        "\"z\":{\"lease_id\":\"z\",\"chunks\":[\"chunk_a.parquet\"]},",
        "\"z\":{\"lease_id\":\"z\"},",
        "\"z\":{\"lease_id\":\"z\",\"chunks\":[\"q\"],\"token\":9007199254740990},",
    };
    static const char mark[] = "\"leases\"";
    char *leases = memmem(d->text, d->size, mark, sizeof mark - 1);
    char *open = leases ? memchr(leases, '{', d->size - (size_t)(leases - d->text)) : NULL;
    if (open)
        splice(d, (size_t)(open - d->text) + 1, 0, view_of(holders[prng_below(&d->prng, 6)]));
}

static void several(struct damage *d);

static const struct {
    const char *name;
    void (*apply)(struct damage *d);
} ways[] = {
    { "flip", flip_bytes },
    { "delete", delete_bytes },
    { "insert", insert_bytes },
    { "truncate", truncate_text },
    { "repeat", repeat_bytes },
    { "retype", retype_value },
    { "duplicate", duplicate_member },
    { "nest", nest_deeply },
    { "rename", rename_entry },
    { "second holder", add_holder },
    { "several", several },
};
#define WAYS (sizeof ways / sizeof ways[0])

static void several(struct damage *d)
{
    for (uint64_t n = 2 + prng_below(&d->prng, 3); n > 0; n--)
        ways[prng_below(&d->prng, WAYS - 1)].apply(d);
}

/* ---- What must hold of whatever can be read ------------------------------------------ */

/* What whoever loads a table does before it judges anything. */
static void prepare(struct lease_table *table)
{
    struct lease_settings own = kit_settings();
    table->settings = lease_settings_stricter(&table->settings, &own);
    if (table->adopted && table->next_token < UINT64_C(9) << 32)
        table->next_token = (UINT64_C(9) << 32) + 1;
    table->adopted = false;
}

static void tokens_are_below_the_next(const struct lease_table *table)
{
    for (size_t i = 0; i < table->lease_count; i++)
        assert_true(table->leases[i]->token < table->next_token);
}

static bool only_pins(const struct lease *lease)
{
    for (size_t i = 0; i < lease->wish.scope_count; i++)
        if (lease->wish.scopes[i].kind != SCOPE_PIN)
            return false;
    return lease->wish.scope_count > 0;
}

/* Asks for these scopes, alone, when nothing can be proven over. */
static enum hf_status ask(struct lease_table *table, struct table_op *op, struct scope *scopes,
                          size_t count)
{
    struct evidence evidence = kit_at(0);
    evidence.time_known = false;
    struct lease_request wanted = { .id = VIEW("new-1"),
                                    .session = VIEW("new"),
                                    .holder = VIEW("h"),
                                    .wish.scopes = scopes,
                                    .wish.scope_count = count,
                                    .wish.ttl = SPAN_S(1) };
    *op = (struct table_op){ .kind = TABLE_ACQUIRE, .wanted = &wanted };
    enum hf_status status = table_apply(table, op, &evidence);
    op->wanted = NULL;
    return status;
}

/* Nobody gets what is active, and a grant has a token above all. */
static void no_second_holder(struct lease_table *table)
{
    struct table_op op;
    uint64_t highest = 0;
    bool barrier = false;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        highest = lease->token > highest ? lease->token : highest;
        if (lease->status != LEASE_ACTIVE || only_pins(lease))
            continue;
        barrier = barrier || lease->wish.scope_count == 0;
        struct scope any = { .kind = SCOPE_NAMED, .name = VIEW("x") };
        enum hf_status status =
            lease->wish.scope_count > 0
                ? ask(table, &op, lease->wish.scopes, lease->wish.scope_count)
                : ask(table, &op, &any, 1);
        if (status == HF_OK)
            fail_msg("%.*s has a second holder", VIEW_ARGS(lease->id));
    }
    struct scope fresh = { .kind = SCOPE_NAMED, .name = VIEW("nobody/has/this") };
    enum hf_status status = ask(table, &op, &fresh, 1);
    if (status == HF_OK)
        assert_true(!barrier && op.granted > highest && op.granted < table->next_token);
    else
        assert_true(op.error.why[0] != '\0');
}

static bool any_conflict(const struct lease_table *table, const struct lease *lease)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *other = table->leases[i];
        bool slots = other->wish.mode == LEASE_SLOTS && lease->wish.mode == LEASE_SLOTS;
        if (other != lease && other->status == LEASE_ACTIVE && !slots &&
            wishes_conflict(&other->wish, &lease->wish))
            return true;
    }
    return false;
}

/* Each who waits claims; whoever is granted is in nobody's way. */
static void no_claim_in_the_way(struct lease_table *table)
{
    for (size_t i = 0; i < table->waiter_count;) {
        char id[HOLDER_BYTES_MAX + 1];
        struct view view = table->waiters[i].wanted->asked.id;
        memcpy(id, view.data, view.size);
        struct evidence evidence = kit_at(0);
        struct table_op op = { .kind = TABLE_CLAIM, .id = { id, view.size } };
        enum hf_status status = table_apply(table, &op, &evidence);
        if (status == HF_OK && op.outcome == TABLE_GRANTED) {
            const struct lease *lease = table_find(table, op.id);
            assert_true(lease && lease->token == op.granted && !any_conflict(table, lease));
            continue;
        }
        assert_true(status != HF_OK || op.outcome == TABLE_QUEUED);
        i++;
    }
}

static void survives_the_round_trip(const struct lease_table *table)
{
    struct buffer first = BUFFER_INIT(TABLE_BYTES_READ_MAX), second = first;
    struct lease_table *again = NULL;
    struct hf_error error;
    assert_true(table_encode(table, VIEW("n"), &first));
    assert_status(HF_OK,
                  read_as(buffer_view(&first), (struct mono_time){ 0 }, table, &again, &error),
                  &error);
    assert_true(table_encode(again, VIEW("n"), &second));
    assert_true(view_equal(buffer_view(&first), buffer_view(&second)));
    assert_true(again->next_token == table->next_token && again->bytes == table->bytes);
    table_free(again);
    buffer_release(&first);
    buffer_release(&second);
}

/* Reads a text, alone and beside what was known before: both say the same. */
static struct lease_table *read_both_ways(struct view text, const struct lease_table *good)
{
    struct lease_table *table = NULL, *beside = NULL;
    struct hf_error error = { .why = "" };
    struct mono_time arrived = { 0 };
    enum hf_status status = read_as(text, arrived, NULL, &table, &error);
    if (status != HF_OK && status != HF_CORRUPT && status != HF_UNSUPPORTED)
        fail_msg("%s", hf_status_name(status));
    assert_true(status == HF_OK || (error.why[0] != '\0' && error.status == status && !table));
    assert_int_equal(read_as(text, arrived, good, &beside, &error), status);
    if (status == HF_OK) {
        assert_true(beside->bytes == table->bytes && beside->next_token == table->next_token &&
                    beside->lease_count == table->lease_count &&
                    beside->waiter_count == table->waiter_count);
        table_free(beside);
    }
    return table;
}

/* ---- Tests --------------------------------------------------------------------------- */

static void damage_by(struct view good_text, size_t way, uint64_t seed, size_t *ret_read)
{
    struct lease_table *good = NULL;
    struct hf_error error;
    assert_status(HF_OK, read_as(good_text, (struct mono_time){ 0 }, NULL, &good, &error),
                  &error);
    struct damage d = { .prng = prng_seeded(seed), .text = malloc(TEXT_MAX) };
    assert_non_null(d.text);
    for (int i = 0; i < ROUNDS_EACH; i++) {
        memcpy(d.text, good_text.data, good_text.size);
        d.size = good_text.size;
        ways[way].apply(&d);
        char *exact = malloc(d.size + 1); /* so that a read past the end is seen */
        memcpy(exact, d.text, d.size);
        struct lease_table *table = read_both_ways((struct view){ exact, d.size }, good);
        free(exact);
        if (!table)
            continue;
        ++*ret_read;
        prepare(table);
        tokens_are_below_the_next(table);
        survives_the_round_trip(table);
        no_second_holder(table);
        no_claim_in_the_way(table);
        tokens_are_below_the_next(table);
        survives_the_round_trip(table);
        table_free(table);
    }
    free(d.text);
    table_free(good);
}

static void damaged_tables_do_no_harm(void **state)
{
    (void)state;
    struct buffer text = example_table();
    for (size_t way = 0; way < WAYS; way++) {
        size_t read = 0;
        damage_by(buffer_view(&text), way, 100 + way, &read);
        damage_by(view_of(plain_file), way, 200 + way, &read);
        print_message("# %s: %zu of %d could still be read\n", ways[way].name, read,
                      2 * ROUNDS_EACH);
        assert_true(read < 2 * ROUNDS_EACH && (read > 0 || ways[way].apply == truncate_text));
    }
    buffer_release(&text);
}

/* One holder, one who waits, some who are gone. */
static struct buffer example_lock(void)
{
    struct lease_table *table = kit_table();
    struct table_op op;
    table->of_shard = true;
    struct wish wish = { .id = "a-1", .scopes = "shard:domains/a3", .note = "[1]" };
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_OK);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_COMPLETE, "a-1", op.granted), HF_OK);
    wish.id = "b-1";
    assert_int_equal(kit_acquire(table, &op, kit_at(2), wish), HF_OK);
    assert_int_equal(kit_do(table, &op, kit_at(3), TABLE_RELEASE, "b-1", op.granted), HF_OK);
    wish.id = "c-1";
    assert_int_equal(kit_acquire(table, &op, kit_at(4), wish), HF_OK);
    wish = (struct wish){ .id = "d-1", .scopes = "shard:domains/a3", .wait = true };
    assert_int_equal(kit_acquire(table, &op, kit_at(5), wish), HF_OK);
    struct buffer text = kit_encode(table);
    table_free(table);
    return text;
}

static void damaged_locks_of_shards_do_no_harm(void **state)
{
    (void)state;
    struct buffer text = example_lock();
    read_as = table_decode_of_shard;
    for (size_t way = 0; way < WAYS; way++) {
        size_t read = 0;
        damage_by(buffer_view(&text), way, 300 + way, &read);
        damage_by(view_of(shard_file), way, 400 + way, &read);
        print_message("# %s: %zu of %d could still be read\n", ways[way].name, read,
                      2 * ROUNDS_EACH);
        assert_true(read > 0 || ways[way].apply == truncate_text);
    }
    read_as = table_decode;
    buffer_release(&text);
}

static enum hf_status decode_text(const char *text, struct lease_table **ret_table)
{
    struct hf_error error;
    return table_decode(view_of(text), (struct mono_time){ 0 }, NULL, ret_table, &error);
}

static void a_member_that_stands_twice_is_corrupt(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":50,\"next_token\":5,\"leases\":{}}",
        "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":50,\"leases\":{},\"leases\":{}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"a\",\"status\":\"active\",\"status\":\"failed\"}}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"a\",\"chunks\":[\"x\"],\"chunks\":[\"y\"]}}}",
        "{\"leases\":{\"a\":{\"lease_id\":\"a\",\"token\":7,\"token\":1}}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct lease_table *table = NULL;
        if (decode_text(bad[i], &table) != HF_CORRUPT)
            fail_msg("%s is taken", bad[i]);
    }
}

#define OURS(members) "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":5," members "}"

/* What only looks like words of a later version, or is damaged besides, is damage. */
static void not_every_strange_word_is_a_later_one(void **state)
{
    (void)state;
    static const char *const bad[] = {
        OURS("\"leases\":{\"a\":{\"lease_id\":\"a\",\"mode\":\"\"}}"),
        OURS("\"leases\":{\"a\":{\"lease_id\":\"a\",\"mode\":\"a b\"}}"),
        OURS("\"leases\":{\"a\":{\"lease_id\":\"a\",\"mode\":7}}"),
        OURS("\"leases\":{\"a\":{\"lease_id\":\"a\",\"scopes\":[\"\\u0001:x\"]}}"),
        OURS("\"leases\":{\"a\":{\"lease_id\":\"a\",\"scopes\":[\"path:no\"]}}"),
        "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":5,\"leases\":{\"a\":{"
        "\"lease_id\":\"a\",\"mode\":\"quorum\"",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct lease_table *table = NULL;
        if (decode_text(bad[i], &table) != HF_CORRUPT)
            fail_msg("%s is taken", bad[i]);
    }
}

/* A table of a later version is not ours to judge, and must never be put aside as damaged. */
static void a_later_version_is_never_called_damaged(void **state)
{
    (void)state;
    static const char *const later[] = {
        "{\"format\":\"holdfast.leases/2\",\"next_token\":\"5\",\"leases\":[1,2]}",
        "{\"leases\":[1,2],\"format\":\"holdfast.leases/2\"}",
        "{\"audit\":7,\"format\":\"holdfast.leases/2\",\"format\":\"holdfast.leases/2\"}",
        "{\"format\":\"holdfast.leases/2\",\"leases\":{\"a\":{\"lease_id\":7}},\"waiters\":{}}",
        OURS("\"leases\":{\"a\":{\"lease_id\":\"a\",\"mode\":\"quorum\"}}"),
        OURS("\"leases\":{\"a\":{\"lease_id\":\"a\",\"status\":\"suspended\"}}"),
        OURS("\"leases\":{\"a\":{\"lease_id\":\"a\",\"scopes\":[\"volume:x/y\"]}}"),
        OURS("\"leases\":{},\"settings\":{\"takeover\":\"by-vote\"}"),
        OURS("\"leases\":{},\"wanted\":{\"scopes\":[\"volume:x\"],\"poll_ms\":1}"),
        OURS("\"leases\":{},\"waiters\":[{\"lease_id\":\"a-1\",\"poll_ms\":1,"
             "\"mode\":\"quorum\",\"scopes\":[\"named:x\"]}]"),
    };
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        struct lease_table *table = NULL;
        if (decode_text(later[i], &table) != HF_UNSUPPORTED)
            fail_msg("%s is not told apart", later[i]);
    }
}

static void tokens_of_other_programs_are_passed(void **state)
{
    (void)state;
    struct lease_table *table = NULL;
    assert_int_equal(decode_text("{\"leases\":{\"a\":{\"lease_id\":\"a\",\"token\":77},"
                                 "\"b\":{\"lease_id\":\"b\",\"token\":12}}}",
                                 &table),
                     HF_OK);
    assert_true(table->adopted && table->next_token == 78);
    table_free(table);
    table = NULL;
    /* There is none above the last. */
    assert_int_equal(
        decode_text("{\"leases\":{\"a\":{\"lease_id\":\"a\",\"token\":9007199254740991}}}",
                    &table),
        HF_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("damaged tables do no harm: no crash, no lower token, no second holder",
           damaged_tables_do_no_harm),
        IT("nor do damaged locks of shards, ours or another program's",
           damaged_locks_of_shards_do_no_harm),
        IT("a member that stands twice is corrupt", a_member_that_stands_twice_is_corrupt),
        IT("a table of a later version is never called damaged",
           a_later_version_is_never_called_damaged),
        IT("a strange word that no version would write is damage",
           not_every_strange_word_is_a_later_one),
        IT("the next token passes those of other programs",
           tokens_of_other_programs_are_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
