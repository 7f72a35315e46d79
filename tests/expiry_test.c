/* SPDX-License-Identifier: Apache-2.0 */
/* expiry_test.c KIND: the expiry index: hours, keys and entries; which entries a client writes
 * for its leases, and the limits of their cost; other counters for the sweeper. KIND is mem,
 * sqlite, dir, or url. sim_expiry_test.c tests when entries are written, over hours. */
#include "base/instant.h"
#include "lock/expiry.h"
#include "lock/handle.h"
#include "lock_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define TABLE "default/meta/deploy.json"

/* Hours that no test outlives. */
#define LONG_HOUR SPAN_S(3600 * 1000)

/* ---- Hours --------------------------------------------------------------------------- */

static void hours_are_text_in_order(void **state)
{
    (void)state;
    char text[HOUR_TEXT_SIZE + 1], before[HOUR_TEXT_SIZE + 1] = "";
    const int64_t calendar = (INSTANT_S_MAX + 1) / 3600;
    const int64_t numbers[] = {
        0, 1, 23, 24, 491522, calendar - 1, calendar, INT64_C(1) << 35
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct hour hour;
        hour_text((struct hour){ numbers[i] }, text);
        assert_int_equal(strlen(text), HOUR_TEXT_SIZE);
        assert_true(hour_parse(view_of(text), &hour));
        assert_int_equal(hour.number, numbers[i]);
        assert_true(strcmp(before, text) < 0);
        snprintf(before, sizeof before, "%s", text);
    }
    assert_string_equal(hour_text((struct hour){ 0 }, text), "1970010100");
    assert_string_equal(hour_text((struct hour){ 491522 }, text), "2026012702");
    assert_string_equal(hour_text((struct hour){ calendar - 1 }, text), "9999123123");
}

static void what_is_no_hour_is_refused(void **state)
{
    (void)state;
    const char *const texts[] = { "",           "2026012",    "20260127021", "2026013200",
                                  "2026023000", "2026012724", "2026130100",  "1969123123",
                                  "2026-01-27", "x00000000A", "x000000000",  "x00000000g",
                                  "X004000000", " 026012702", "2026012 02",  "0000010100" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct hour hour = { 7 };
        if (hour_parse(view_of(texts[i]), &hour))
            fail_msg("'%s' was read as an hour", texts[i]);
        assert_int_equal(hour.number, 7);
    }
}

static void hours_go_by_the_date_of_the_store(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    enum store_clock kind = client->clock.kind;
    struct evidence evidence = { .time_known = true,
                                 .earliest = { SPAN_S(7 * 3600 - 1).us },
                                 .latest = { SPAN_S(7 * 3600 + 1).us },
                                 .wall = { SPAN_S(100 * 3600).us } };
    client->clock.kind = STORE_CLOCK_DATE;
    assert_int_equal(hour_now(client, &evidence).number, 6);
    assert_int_equal(hour_after(client, &evidence, SPAN_S(1)).number, 7);
    evidence.time_known = false; /* not yet: no hour is over */
    ASSERT(!hour_is_known(client, &evidence));
    assert_int_equal(hour_now(client, &evidence).number, 0);
    assert_int_equal(hour_after(client, &evidence, SPAN_S(3600)).number, 101);
    client->clock.kind = STORE_CLOCK_BOOT; /* which says nothing of the calendar */
    evidence.time_known = true;
    assert_int_equal(hour_now(client, &evidence).number, 100);
    client->clock.kind = kind;
}

static void a_lease_ends_in_an_hour_from_now_on(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    const struct mono_time start = { SPAN_S(10 * 3600).us };
    struct evidence evidence = { .now = start, .wall = { SPAN_S(100 * 3600).us } };
    struct lease lease = { .id = VIEW("a-1"), .wish.ttl = SPAN_S(7200), .seen = start };
    assert_int_equal(hour_of_lease(client, &lease, &evidence).number, 102);
    evidence.now = mono_add(start, SPAN_S(3600));
    assert_int_equal(hour_of_lease(client, &lease, &evidence).number, 101);
    evidence.now = mono_add(start, SPAN_S(9 * 3600)); /* long over */
    assert_int_equal(hour_of_lease(client, &lease, &evidence).number, 100);
}

/* ---- Keys and entries ---------------------------------------------------------------- */

static void keys_of_entries_name_their_tables(void **state)
{
    struct pair *pair = *state;
    const struct hf_client *client = pair->one.client;
    const char *const rests[] = { "meta/deploy.json", "meta/a/b/c.json", "inode/77.json",
                                  "paths.json" };
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        char table[KEY_BYTES_MAX + 1], key[KEY_BYTES_MAX + 1], expected[KEY_BYTES_MAX + 1];
        char again[KEY_BYTES_MAX + 1];
        struct hour hour;
        snprintf(table, sizeof table, "default/%s", rests[i]);
        snprintf(expected, sizeof expected, "default/.lease-index/2026012702/%s", rests[i]);
        assert_true(expiry_has(client, view_of(table)));
        assert_true(expiry_key(client, view_of(table), (struct hour){ 491522 }, key));
        assert_string_equal(key, expected);
        assert_true(expiry_parse(client, view_of(key), &hour, again));
        assert_int_equal(hour.number, 491522);
        assert_string_equal(again, table);
    }
}

static void other_tables_have_no_entries(void **state)
{
    struct pair *pair = *state;
    const struct hf_client *client = pair->one.client;
    const char *const tables[] = { "metadata/compaction-leases.json",
                                   "metadata/eu/compaction-leases.json",
                                   "indexes/users/shards/0f.lock",
                                   "other/meta/deploy.json",
                                   "default/meta/deploy",
                                   "default/state/deploy.json",
                                   "defaultx/meta/deploy.json",
                                   "default" };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct hf_error error;
        if (expiry_has(client, view_of(tables[i])))
            fail_msg("'%s' is in the index", tables[i]);
        IS(HF_INVALID, expiry_write(pair->one.client, view_of(tables[i]), (struct hour){ 1 },
                                    NULL, (struct mono_time){ 0 }, &error));
        assert_true(error.why[0]);
    }
    const char *const keys[] = { "default/.lease-index/2026012702/metadata",
                                 "default/.lease-index/2026012799/paths.json",
                                 "default/.lease-index/paths.json",
                                 "default/.lease-index/2026012702/",
                                 "default/.lease-index/2026012702",
                                 "other/.lease-index/2026012702/paths.json",
                                 "default/meta/deploy.json" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char table[KEY_BYTES_MAX + 1];
        struct hour hour;
        if (expiry_parse(client, view_of(keys[i]), &hour, table))
            fail_msg("'%s' is an entry of '%s'", keys[i], table);
    }
}

static void an_entry_says_which_stub_it_waits_for(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    const char key[] = "default/.lease-index/2026012702/meta/deploy.json";
    struct hour hour = { 491522 };
    struct expiry_entry entry;
    struct hf_error error;
    struct etag stub;
    MUST(expiry_write(client, VIEW(TABLE), hour, NULL, (struct mono_time){ 0 }, &error));
    char *plain = world_text(&pair->world, key);
    assert_true(expiry_decode(view_of(plain), &entry));
    assert_int_equal(entry.stub.size, 0);
    MUST(expiry_write(client, VIEW(TABLE), hour, NULL, (struct mono_time){ 0 }, &error));
    char *again = world_text(&pair->world, key);
    assert_string_not_equal(plain, again);
    assert_true(etag_set(&stub, VIEW("\"a\\\"-1\"")));
    MUST(expiry_write(client, VIEW(TABLE), hour, &stub, (struct mono_time){ 0 }, &error));
    char *text = world_text(&pair->world, key);
    assert_true(expiry_decode(view_of(text), &entry));
    assert_true(etag_equal(&entry.stub, &stub));
    free(plain);
    free(again);
    free(text);
}

static void a_strange_entry_is_not_read(void **state)
{
    (void)state;
    const char *const texts[] = {
        "", "{", "[]", "7", "{\"stub\":7}", "{\"stub\":\"\"}", "{} x"
    };
    struct expiry_entry entry;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (expiry_decode(view_of(texts[i]), &entry))
            fail_msg("'%s' was read as an entry", texts[i]);
    assert_true(expiry_decode(VIEW("{\"later\":[1],\"stub\":\"e\"}"), &entry));
    assert_true(view_equal(etag_view(&entry.stub), VIEW("e")));
}

/* ---- What is held -------------------------------------------------------------------- */

/* How many entries there are, and the key of the last. */
static size_t entries(struct world *world, char last[KEY_BYTES_MAX + 1])
{
    struct list_call list = { .prefix = VIEW("default/.lease-index/") };
    must(store_list(world->truth, &list), &list.error, "list", __LINE__);
    size_t count = list.count;
    if (count > 0 && last)
        snprintf(last, KEY_BYTES_MAX + 1, "%.*s", VIEW_ARGS(list.entries[count - 1].key));
    list_release(&list);
    return count;
}

struct expected {
    struct world *world;
    size_t count;
};

static bool has_entries(void *argument)
{
    const struct expected *expected = argument;
    return entries(expected->world, NULL) >= expected->count;
}

static void until_entries(struct world *world, size_t count)
{
    struct expected expected = { world, count };
    if (!comes_true(has_entries, &expected, 5000))
        FAIL("there are %zu entries and not %zu", entries(world, NULL), count);
}

struct renewed {
    struct world *world;
    const char *table;
    uint64_t times;
};

/* Of a table with one lease. */
static bool is_renewed(void *argument)
{
    const struct renewed *renewed = argument;
    char *text = world_text(renewed->world, renewed->table);
    const char *at = text ? strstr(text, "\"renewals\":") : NULL;
    bool is = at && strtoull(at + strlen("\"renewals\":"), NULL, 10) >= renewed->times;
    free(text);
    return is;
}

static void until_renewed(struct world *world, const char *table, uint64_t times)
{
    struct renewed renewed = { world, table, times };
    if (!comes_true(is_renewed, &renewed, 10000))
        FAIL("%s is not renewed %d times", table, (int)times);
}

static void a_brief_lock_costs_no_entry(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
    IS(HF_OK, hf_lock_release(lock, NULL));
    script_counts(&pair->one.way);
    for (int i = 0; i < 10; i++) {
        IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
        IS(HF_OK, hf_lock_release(lock, NULL));
    }
    struct counts counts = script_counts(&pair->one.way);
    ASSERT(counts.puts == 20);
    ASSERT(counts.gets + counts.looks + counts.others == 0);
    ASSERT(entries(&pair->world, NULL) == 0);
    hf_lock_free(lock);
}

/* Requests for a lease of this ttl, of a table that is known, that is left to others. */
static struct counts cost_of_leaving(struct pair *pair, const char *scope, int64_t ttl_ms)
{
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = ttl_ms, .no_renewal = true);
    struct hf_lock *lock = lock_with(&pair->one, scope, &options);
    script_counts(&pair->one.way);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    hf_lock_detach(lock);
    return script_counts(&pair->one.way);
}

static void a_long_lease_that_is_left_costs_one_entry(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    char key[KEY_BYTES_MAX + 1], expected[KEY_BYTES_MAX + 1], text[HF_LEASE_TEXT_MAX];
    struct hf_lock *warm = lock_held(&pair->one, "range:7:0-1", 3600000);
    IS(HF_OK, hf_lock_release(warm, NULL));
    hf_lock_free(warm);
    ASSERT(cost_of_leaving(pair, "range:7:10-19", 299000).puts == 1);
    ASSERT(entries(&pair->world, NULL) == 0);
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(&client->clock, &evidence);
    struct hour hour = hour_after(client, &evidence, SPAN_MS(3000000));
    struct counts counts = cost_of_leaving(pair, "range:7:20-29", 3000000);
    ASSERT(counts.puts == 2 && counts.gets + counts.looks + counts.others == 0);
    ASSERT(entries(&pair->world, key) == 1);
    ASSERT(expiry_key(client, VIEW("default/inode/7.json"), hour, expected));
    ASSERT(strcmp(key, expected) == 0);
    ASSERT(cost_of_leaving(pair, "range:7:30-39", 3000000).puts == 1); /* there is one */
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 3600000), *adopted;
    IS(HF_OK, hf_lock_text(lock, text, NULL));
    IS(HF_OK, hf_lock_adopt(pair->two.client, text, NULL, &adopted, NULL));
    script_counts(&pair->two.way);
    hf_lock_detach(adopted); /* whoever has acquired it has seen to that, or will */
    ASSERT(script_counts(&pair->two.way).puts == 0);
    hf_lock_free(lock);
}

static void a_lock_that_is_held_has_one_entry(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    char key[KEY_BYTES_MAX + 1], expected[KEY_BYTES_MAX + 1];
    client->hour = LONG_HOUR;
    struct mono_time start = now();
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 300);
    until_entries(&pair->world, 1);
    ASSERT(ms_since(start) >= 150);
    until_renewed(&pair->world, TABLE, 3);
    ASSERT(entries(&pair->world, key) == 1);
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(&client->clock, &evidence);
    ASSERT(expiry_key(client, VIEW(TABLE), hour_now(client, &evidence), expected));
    ASSERT(strcmp(key, expected) == 0);
    IS(HF_OK, hf_lock_release(lock, NULL));
    script_counts(&pair->one.way);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL)); /* the table is still known to have one */
    IS(HF_OK, hf_lock_release(lock, NULL));
    ASSERT(script_counts(&pair->one.way).puts == 2);
    hf_lock_free(lock);
}

static void locks_of_one_table_have_one_entry(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *locks[9];
    pair->one.client->hour = LONG_HOUR;
    for (int i = 0; i < 8; i++) {
        char scope[64];
        snprintf(scope, sizeof scope, "range:7:%d-%d", 10 * i, 10 * i + 9);
        locks[i] = lock_held(&pair->one, scope, 400);
    }
    locks[8] = lock_held(&pair->one, "path:/a", 400);
    until_entries(&pair->world, 2);
    until_renewed(&pair->world, "default/paths.json", 2);
    ASSERT(entries(&pair->world, NULL) == 2);
    for (int i = 0; i < 9; i++)
        hf_lock_free(locks[i]);
}

static void leases_of_one_table_that_end_far_apart_have_one_each(void **state)
{
    struct pair *pair = *state;
    pair->one.client->hour = SPAN_S(600);
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = 3600000, .no_renewal = true);
    struct hf_lock *long_one = lock_with(&pair->one, "range:7:0-9", &options);
    IS(HF_OK, hf_lock_acquire(long_one, 0, NULL));
    env_mutex_lock(&pair->one.client->keeper.mutex);
    long_one->index_at = now(); /* as if half of it had passed */
    env_mutex_unlock(&pair->one.client->keeper.mutex);
    struct hf_lock *brief = lock_held(&pair->one, "range:7:10-19", 300);
    until_entries(&pair->world, 2);
    hf_lock_free(long_one);
    hf_lock_free(brief);
}

static void who_took_a_lease_over_has_an_entry_too(void **state)
{
    struct pair *pair = *state;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_lock *adopted;
    struct hf_error error;
    pair->two.client->hour = LONG_HOUR;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
    MUST(hf_lock_text(lock, text, &error));
    hf_lock_detach(lock);
    MUST(hf_lock_adopt(pair->two.client, text, NULL, &adopted, &error));
    env_mutex_lock(&pair->two.client->keeper.mutex);
    adopted->index_at = now();
    env_cond_broadcast(&pair->two.client->keeper.changed);
    env_mutex_unlock(&pair->two.client->keeper.mutex);
    until_entries(&pair->world, 1);
    hf_lock_free(adopted);
}

static void before_the_store_tells_its_date_there_is_none(void **state)
{
    struct pair *pair = *state;
    pair->one.client->clock.kind = STORE_CLOCK_DATE; /* which this store never tells */
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 600);
    until_renewed(&pair->world, TABLE, 3);
    ASSERT(entries(&pair->world, NULL) == 0);
    ASSERT(!pair->one.client->keeper.indexer);
    hf_lock_free(lock);
}

static void chunks_and_shards_have_none(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *chunk = lock_held(&pair->one, "chunk:data/a", 600);
    struct hf_lock *shard = lock_held(&pair->one, "shard:users/0f", 600);
    until_renewed(&pair->world, "metadata/compaction-leases.json", 3);
    until_renewed(&pair->world, "indexes/users/shards/0f.lock", 3);
    ASSERT(entries(&pair->world, NULL) == 0);
    ASSERT(!pair->one.client->keeper.indexer);
    hf_lock_free(chunk);
    hf_lock_free(shard);
}

/* ---- What an entry never costs ------------------------------------------------------- */

static void a_failing_entry_is_tried_again_with_the_next_renewal(void **state)
{
    struct pair *pair = *state;
    pair->one.client->hour = LONG_HOUR;
    way_shut(&pair->one.way, ".lease-index", REFUSE(HF_UNAVAILABLE));
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 300);
    script_counts(&pair->one.way);
    until_renewed(&pair->world, TABLE, 4);
    env_mutex_lock(&pair->one.client->keeper.mutex); /* no renewal is noted meanwhile */
    unsigned puts = script_counts(&pair->one.way).puts;
    env_mutex_unlock(&pair->one.client->keeper.mutex);
    ASSERT(puts >= 5 && puts <= 12); /* a try for each renewal, or a third of a ttl */
    ASSERT(entries(&pair->world, NULL) == 0);
    way_open(&pair->one.way);
    until_entries(&pair->world, 1);
    IS(HF_OK, hf_lock_check(lock, NULL));
    hf_lock_free(lock);
}

static void a_hanging_entry_keeps_nobody_waiting(void **state)
{
    struct pair *pair = *state;
    pair->one.client->hour = LONG_HOUR;
    way_shut(&pair->one.way, ".lease-index", HANG);
    struct hf_lock *locks[6];
    for (int i = 0; i < 6; i++) {
        char scope[16];
        snprintf(scope, sizeof scope, "job-%d", i);
        locks[i] = lock_held(&pair->one, scope, 300);
    }
    until_renewed(&pair->world, "default/meta/job-0.json", 4);
    for (int i = 0; i < 6; i++) {
        IS(HF_OK, hf_lock_check(locks[i], NULL));
        struct mono_time start = now();
        IS(HF_OK, hf_lock_release(locks[i], NULL));
        ASSERT(ms_since(start) < 1000);
        hf_lock_free(locks[i]);
    }
    ASSERT(entries(&pair->world, NULL) == 0);
    way_open(&pair->one.way);
}

/* ---- What a client counts ------------------------------------------------------------ */

/* Operations that were begun since the last time. */
static uint64_t begun(struct hf_client *client)
{
    static uint64_t before;
    uint64_t after = atomic_load(&client->activity.count), begun = after - before;
    before = after;
    return begun;
}

static void what_callers_begin_is_counted(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    begun(client);
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 300);
    ASSERT(begun(client) == 1);
    struct mono_time before = now();
    IS(HF_OK, hf_lock_renew(lock, NULL));
    ASSERT(begun(client) == 1);
    ASSERT(atomic_load(&client->activity.last) >= before.us);
    until_renewed(&pair->world, TABLE, 2); /* by the keeper */
    IS(HF_OK, hf_lock_check(lock, NULL));
    ASSERT(hf_lock_remaining_ms(lock) > 0);
    ASSERT(begun(client) == 0);
    IS(HF_OK, hf_lock_release(lock, NULL));
    ASSERT(begun(client) == 1);
    IS(HF_OK, hf_lock_begin(lock, NULL));
    IS(HF_OK, hf_lock_poll(lock, NULL));
    ASSERT(begun(client) == 2);
    hf_lock_free(lock); /* and releases it */
    ASSERT(begun(client) == 1);
}

static void what_else_callers_begin_is_counted_too(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    const char *const chunks[] = { "data/a" };
    char text[HF_LEASE_TEXT_MAX];
    struct hf_error error;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000), *adopted;
    void *data;
    size_t size;
    bool is_free;
    begun(client);
    IS(HF_OK, hf_fenced_put(lock, "x", "1", 1, NULL));
    IS(HF_OK, hf_fenced_get(client, "x", 10, &data, &size, NULL, NULL));
    hf_free(data);
    IS(HF_OK, hf_fenced_delete(lock, "x", NULL));
    ASSERT(begun(client) == 3);
    IS(HF_OK, hf_chunks_unleased(client, chunks, 1, &is_free, NULL));
    ASSERT(begun(client) == 1);
    MUST(hf_lock_text(lock, text, &error));
    hf_lock_detach(lock);
    ASSERT(begun(client) == 0);
    MUST(hf_lock_adopt(client, text, NULL, &adopted, &error));
    hf_lock_detach(adopted);
    ASSERT(begun(client) == 1);
    IS(HF_OK, hf_break(client, text, "me", NULL, NULL));
    ASSERT(begun(client) == 1);
}

static void leave_a_lease_behind(struct pair *pair)
{
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 100);
    hf_lock_detach(lock);
}

static uint64_t cleared(struct hf_client *client, enum sweep_mode mode)
{
    env_mutex_lock(&client->shared.mutex);
    uint64_t count = client->shared.cleared[mode];
    env_mutex_unlock(&client->shared.mutex);
    return count;
}

/* Asks for what is over to be cleared; false when there was no answer in that time. */
static bool scavenge(struct hf_client *client, enum sweep_mode mode, int64_t ms)
{
    struct table_ref *ref;
    struct hf_error error;
    struct request request, *requests[] = { &request };
    MUST(table_ref_take(client, VIEW(TABLE), &ref, &error));
    request_init(&request, ref, TABLE_SCAVENGE, mono_add(now(), SPAN_MS(ms)));
    request.mode = mode;
    enum hf_status status = table_ref_ask(ref, requests, 1);
    table_ref_drop(ref);
    return status == HF_OK;
}

static void what_is_cleared_is_counted_by_mode(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->two.client;
    leave_a_lease_behind(pair);
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 1000);
    IS(HF_OK, hf_lock_acquire(lock, 10000, NULL));
    IS(HF_OK, hf_lock_release(lock, NULL));
    ASSERT(cleared(client, SWEEP_TRANSPARENT) == 1);
    leave_a_lease_behind(pair);
    struct mono_time start = now();
    while (cleared(client, SWEEP_MANUAL) == 0 && ms_since(start) < 10000) {
        ASSERT(scavenge(client, SWEEP_MANUAL, 10000));
        pass_ms(20);
    }
    ASSERT(cleared(client, SWEEP_MANUAL) == 1);
    ASSERT(cleared(client, SWEEP_TRANSPARENT) == 1);
    ASSERT(cleared(client, SWEEP_IDLE) == 0);
    hf_lock_free(lock);
}

/* Each way in which a write can fail, at a moment at which the lease is over. */
static void what_is_not_written_is_not_counted(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->two.client;
    const struct fate fates[] = { REFUSE(HF_DENIED), REFUSE(HF_UNAVAILABLE), LOSE };
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 1000);
    leave_a_lease_behind(pair);
    IS(HF_HELD, hf_lock_acquire(lock, 0, NULL)); /* seen from now on */
    pass_ms(250);
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        way_shut(&pair->two.way, "", fates[i]);
        ASSERT(!scavenge(client, SWEEP_TRANSPARENT, 50));
        ASSERT(cleared(client, SWEEP_TRANSPARENT) == 0);
    }
    way_open(&pair->two.way);
    ASSERT(scavenge(client, SWEEP_TRANSPARENT, 10000));
    ASSERT(cleared(client, SWEEP_TRANSPARENT) == 1);
    hf_lock_free(lock);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("hours are ten bytes of text that sort as they follow each other",
           hours_are_text_in_order),
        IT("what is no hour is refused", what_is_no_hour_is_refused),
        PAIR("hours go by the store's date where it tells one",
             hours_go_by_the_date_of_the_store),
        PAIR("a lease ends in an hour that is not before now",
             a_lease_ends_in_an_hour_from_now_on),
        PAIR("the key of an entry names its table", keys_of_entries_name_their_tables),
        PAIR("tables of chunks, shards and other namespaces have no entries",
             other_tables_have_no_entries),
        PAIR("an entry names the stub that it waits for, and is new each time",
             an_entry_says_which_stub_it_waits_for),
        IT("a strange entry is not read, an unknown member is passed over",
           a_strange_entry_is_not_read),
        PAIR("a brief lock costs no entry", a_brief_lock_costs_no_entry),
        PAIR("a lease of 5 minutes or more that is left to others costs one entry, a shorter "
             "none",
             a_long_lease_that_is_left_costs_one_entry),
        PAIR("a lock that is held past half of its ttl has one entry in the hour of its end",
             a_lock_that_is_held_has_one_entry),
        PAIR("locks of one table have one entry", locks_of_one_table_have_one_entry),
        PAIR("leases of one table that end in different hours have one each",
             leases_of_one_table_that_end_far_apart_have_one_each),
        PAIR("an adopted lease has an entry too", who_took_a_lease_over_has_an_entry_too),
        PAIR("as long as a store has not told its date there is no entry",
             before_the_store_tells_its_date_there_is_none),
        PAIR("locks of chunks and shards have none", chunks_and_shards_have_none),
        PAIR("an entry that fails is tried again with the next renewal",
             a_failing_entry_is_tried_again_with_the_next_renewal),
        PAIR("an entry that hangs delays no renewal and no release",
             a_hanging_entry_keeps_nobody_waiting),
        PAIR("what callers begin is counted, what the keeper does is not",
             what_callers_begin_is_counted),
        PAIR("operations on fenced objects, chunks and other leases are counted too",
             what_else_callers_begin_is_counted_too),
        PAIR("leases that are cleared are counted by on whose behalf",
             what_is_cleared_is_counted_by_mode),
        PAIR("leases are counted as cleared once that is written",
             what_is_not_written_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
