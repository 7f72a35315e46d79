/* SPDX-License-Identifier: Apache-2.0 */
/* index_warm_test.c KIND: a reader that has read a shard before keeps it, asks only whether it has
 * changed, and never answers from a version that is no longer there. KIND is mem or sqlite. */
#include "base/check.h"
#include "index/read.h"
#include "index/shard_cache.h"
#include "index_crew.h"

#include <stdio.h>
#include <stdlib.h>

/* An index that accepts no entries of other programs, read through a gate, and a client that
 * compiles past it. */
struct scene {
    struct yard yard;
    struct script gate;
    struct hf_client *client;
    struct index *writer, *index;
    struct hf_error error;
};

static void create_own(struct scene *scene)
{
    struct schema schema = yard_schema("domain,name,updated_at");
    struct store *store = scene->yard.store.inner;
    enum index_made made;
    schema.foreign = false;
    assert_status(HF_OK, client_new(store, NULL, &scene->client, &scene->error), &scene->error);
    assert_status(
        HF_OK, index_create(store, scene->client, VIEW("own"), &schema, &made, &scene->error),
        &scene->error);
    assert_status(HF_OK,
                  index_open(store, scene->client, VIEW("own"), &scene->writer, &scene->error),
                  &scene->error);
    assert_status(
        HF_OK, index_open(&scene->gate.base, NULL, VIEW("own"), &scene->index, &scene->error),
        &scene->error);
}

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    yard_open(&scene->yard);
    yard_script(&scene->gate, scene->yard.store.inner);
    create_own(scene);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    index_close(scene->index);
    index_close(scene->writer);
    hf_client_close(scene->client);
    store_close(&scene->gate.base);
    yard_close(&scene->yard);
    free(scene);
    return 0;
}

#define WARM(sentence, function)                        \
    {                                                   \
        (sentence), (function), set_up, tear_down, NULL \
    }

/* ---- Writing and reading --------------------------------------------------------------- */

#define AT(key, value, hour) key US value US "2026-02-06T" hour ":00:00Z"
#define SHARD                "indexes/own/shards/a3.usv" /* of example.com */

static void put(struct scene *scene, const char *record)
{
    struct view bytes = view_of(record);
    size_t bad;
    assert_status(HF_OK, index_put(scene->writer, &bytes, 1, &bad, &scene->error),
                  &scene->error);
}

static void compile(void *argument)
{
    struct scene *scene = argument;
    struct compile_options options = COMPILE_OPTIONS;
    struct hf_index_compile_report totals;
    options.once = true;
    assert_status(HF_OK, index_compile(scene->writer, &options, &totals, &scene->error),
                  &scene->error);
}

static void put_and_compile(struct scene *scene, const char *record)
{
    put(scene, record);
    compile(scene);
}

static void assert_gets(struct scene *scene, const char *key, const char *expected)
{
    struct buffer bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX + 1);
    enum hf_status status = index_get(scene->index, view_of(key), &bytes, &scene->error);
    assert_status(expected ? HF_OK : HF_NOT_FOUND, status, &scene->error);
    if (expected)
        assert_view(buffer_view(&bytes), expected);
    buffer_release(&bytes);
}

/* What one get asks of the store. */
struct asked {
    uint64_t lists, gets, others, depth, bytes;
};

static struct asked count_get(struct scene *scene, const char *key, const char *expected)
{
    struct meter *meter = &scene->yard.meter;
    struct meter_counts kinds[CALL_KIND_COUNT];
    struct asked asked = { 0 };
    uint64_t depth = meter->depth;
    meter_reset(meter);
    assert_gets(scene, key, expected);
    meter_read(meter, kinds);
    for (size_t i = 0; i < CALL_KIND_COUNT; i++)
        asked.others += kinds[i].calls;
    asked.lists = kinds[CALL_LIST].calls;
    asked.gets = kinds[CALL_GET].calls;
    asked.others -= asked.lists + asked.gets;
    asked.bytes = kinds[CALL_GET].bytes_received;
    asked.depth = meter->depth - depth;
    return asked;
}

static void assert_asked(struct asked asked, uint64_t gets)
{
    assert_int_equal(asked.lists, 1);
    assert_int_equal(asked.gets, gets);
    assert_int_equal(asked.others, 0);
    assert_int_equal(asked.depth, 1 + gets);
}

/* A key of the shard of example.com that starts like this. */
#define KEY_ROOM 64
static const char *name_key(const char *start, char key[KEY_ROOM])
{
    unsigned salt = 0;
    do
        snprintf(key, KEY_ROOM, "%s%u", start, salt++);
    while (strcmp(yard_shard(key).text, "a3") != 0);
    return key;
}

/* Records of one shard that fill many blocks. */
#define BLOCK_RECORDS 60
static void fill_blocks(struct scene *scene, const char *hour)
{
    struct view records[BLOCK_RECORDS];
    size_t room = 5000, bad;
    char *text = malloc(BLOCK_RECORDS * room);
    assert_non_null(text);
    for (size_t i = 0; i < BLOCK_RECORDS; i++) {
        char start[16], key[KEY_ROOM], *record = text + i * room;
        snprintf(start, sizeof start, "k%02zu.", i);
        int size = snprintf(record, room, "%s" US "%04000d" US "2026-02-06T%s:00:00Z",
                            name_key(start, key), 0, hour);
        records[i] = (struct view){ record, (size_t)size };
    }
    assert_status(HF_OK, index_put(scene->writer, records, BLOCK_RECORDS, &bad, &scene->error),
                  &scene->error);
    free(text);
    compile(scene);
}

/* ---- Tests ----------------------------------------------------------------------------- */

#define FIRST  AT("example.com", "first", "10")
#define SECOND AT("example.com", "second", "11")
#define THIRD  AT("example.com", "third", "12")

static void a_warm_get_only_asks(void **state)
{
    struct scene *scene = *state;
    put_and_compile(scene, FIRST);
    struct asked cold = count_get(scene, "example.com", FIRST);
    assert_asked(cold, 1);
    assert_true(cold.bytes > 0);
    for (int i = 0; i < 3; i++) {
        struct asked warm = count_get(scene, "example.com", FIRST);
        assert_asked(warm, 1);
        assert_int_equal(warm.bytes, 0);
    }
    /* Keys that the shard does not have, before its first and behind its last one. */
    static const char *const starts[] = { "a", "z" };
    for (size_t i = 0; i < 2; i++) {
        char key[KEY_ROOM];
        struct asked warm = count_get(scene, name_key(starts[i], key), NULL);
        assert_asked(warm, 1);
        assert_int_equal(warm.bytes, 0);
    }
}

static void another_shard_is_seen_at_once(void **state)
{
    struct scene *scene = *state;
    put_and_compile(scene, FIRST);
    assert_gets(scene, "example.com", FIRST);
    put_and_compile(scene, SECOND);
    struct asked changed = count_get(scene, "example.com", SECOND);
    assert_asked(changed, 1); /* the question is answered by the new shard */
    assert_true(changed.bytes > 0);
    assert_int_equal(count_get(scene, "example.com", SECOND).bytes, 0);
    put(scene, THIRD);
    assert_gets(scene, "example.com", THIRD);
    compile(scene);
    assert_gets(scene, "example.com", THIRD);
}

static void a_shard_that_is_gone_is_not_used(void **state)
{
    struct scene *scene = *state;
    put_and_compile(scene, FIRST);
    assert_gets(scene, "example.com", FIRST);
    struct delete_call call = { .key = VIEW(SHARD) };
    assert_int_equal(store_delete(scene->yard.store.inner, &call), HF_OK);
    assert_gets(scene, "example.com", NULL);
    put_and_compile(scene, SECOND);
    assert_gets(scene, "example.com", SECOND);
}

/* The entry is gone from the inbox when it is listed, or when it is to be read. */
static void what_is_folded_meanwhile_is_found(void **state)
{
    static const struct {
        enum call_kind kind;
        const char *part;
    } moments[] = { { CALL_LIST, "" }, { CALL_GET, "inbox" }, { CALL_GET, "shards" } };
    static const char *const records[] = { FIRST, SECOND, THIRD,
                                           AT("example.com", "fourth", "13") };
    struct scene *scene = *state;
    put_and_compile(scene, records[0]);
    assert_gets(scene, "example.com", records[0]);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        put(scene, records[i + 1]);
        script_rule(&scene->gate, .name = "folds", .on = ON_KIND(moments[i].kind) | ON_FIRST,
                    .part = moments[i].part, .times = 1, .before = compile, .argument = scene);
        assert_gets(scene, "example.com", records[i + 1]);
        assert_int_equal(script_met(&scene->gate, "folds"), 1);
        assert_gets(scene, "example.com", records[i + 1]);
    }
}

static void a_block_is_read_from_the_version_that_is_kept(void **state)
{
    struct scene *scene = *state;
    put_and_compile(scene, FIRST);
    fill_blocks(scene, "10");
    /* The first read has the blocks at the start of the shard, with example.com among them. */
    assert_gets(scene, "example.com", FIRST);
    char key[KEY_ROOM];
    struct asked behind = count_get(scene, name_key("z", key), NULL);
    assert_asked(behind, 1); /* the last block, on condition of the ETag */
    assert_true(behind.bytes > 0 && behind.bytes < 64 * KIB);
    assert_int_equal(count_get(scene, key, NULL).bytes, 0);
    /* Replaced: the block is refused, and the shard read anew. */
    assert_asked(count_get(scene, "example.com", FIRST), 1);
    fill_blocks(scene, "11");
    behind = count_get(scene, key, NULL);
    assert_asked(behind, 3);
    assert_gets(scene, "example.com", FIRST);
}

static void handles_share_what_they_keep(void **state)
{
    struct scene *scene = *state;
    put_and_compile(scene, FIRST);
    struct index *copy = index_copy(scene->index), *own = scene->index;
    assert_non_null(copy);
    assert_gets(scene, "example.com", FIRST);
    scene->index = copy;
    assert_int_equal(count_get(scene, "example.com", FIRST).bytes, 0);
    index_close(own); /* the copy still has it */
    assert_int_equal(count_get(scene, "example.com", FIRST).bytes, 0);
}

/* Adds a field, as another program would. */
static void extend(struct scene *scene)
{
    struct schema schema = yard_schema("domain,name,updated_at,note");
    enum index_made made;
    schema.foreign = false;
    assert_status(HF_OK,
                  index_create(scene->yard.store.inner, scene->client, VIEW("own"), &schema,
                               &made, &scene->error),
                  &scene->error);
    assert_status(HF_OK, index_refresh(scene->writer, &scene->error), &scene->error);
}

/* A call works on a copy of the schema, and another call may have read the shard with a later
 * one. */
static void a_kept_shard_may_have_a_later_schema(void **state)
{
    struct scene *scene = *state;
    put_and_compile(scene, FIRST);
    struct index *early = index_copy(scene->index), *own = scene->index;
    assert_non_null(early);
    extend(scene);
    put_and_compile(scene, SECOND US "new");
    assert_gets(scene, "example.com", SECOND US "new");
    scene->index = early;
    assert_gets(scene, "example.com", SECOND US "new");
    scene->index = own;
    index_close(early);
}

/* The first deletion changes the schema, too. */
static void a_kept_shard_may_have_the_first_deletion(void **state)
{
    struct scene *scene = *state;
    struct view key = VIEW("example.com");
    size_t bad;
    put_and_compile(scene, FIRST);
    struct index *early = index_copy(scene->index), *own = scene->index;
    assert_non_null(early);
    assert_status(HF_OK,
                  index_delete(scene->writer, &key, 1, VIEW("2026-02-06T11:00:00Z"), &bad,
                               &scene->error),
                  &scene->error);
    compile(scene);
    assert_gets(scene, "example.com", NULL);
    scene->index = early;
    assert_gets(scene, "example.com", NULL);
    scene->index = own;
    index_close(early);
}

/* A record that takes most of what is read of a shard at first. */
#define LONG_RECORD 62000
static void write_long(char record[LONG_RECORD], const char *key)
{
    static const char time[] = US "2026-02-06T10:00:00Z";
    size_t size = strlen(key);
    memset(record, 'x', LONG_RECORD);
    memcpy(record, key, size);
    record[size] = US[0];
    memcpy(record + LONG_RECORD - sizeof time, time, sizeof time);
}

static void what_is_kept_is_bounded(void **state)
{
    enum { SHARDS = 256 };
    struct scene *scene = *state;
    static char keys[SHARDS][16], record[LONG_RECORD];
    unsigned found = 0;
    for (unsigned i = 0; found < SHARDS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", i);
        size_t number = strtoul(yard_shard(key).text, NULL, 16);
        if (keys[number][0])
            continue;
        memcpy(keys[number], key, sizeof key);
        found++;
        write_long(record, key);
        put(scene, record);
    }
    compile(scene);
    unsigned empty = 0;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < SHARDS; i++) {
            write_long(record, keys[i]);
            empty += count_get(scene, keys[i], record).bytes == 0;
            assert_true(shard_cache_bytes(scene->index->cache) <= SHARD_CACHE_BYTES);
        }
    assert_true(shard_cache_bytes(scene->index->cache) > SHARD_CACHE_BYTES / 2);
    assert_true(empty > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WARM("a warm get is a listing and one conditional read, which returns nothing",
             a_warm_get_only_asks),
        WARM("a shard that was replaced is seen by the next get, with no further request",
             another_shard_is_seen_at_once),
        WARM("a shard that is gone is not used any more", a_shard_that_is_gone_is_not_used),
        WARM("an entry that is folded in the middle of a warm get is found in the shard",
             what_is_folded_meanwhile_is_found),
        WARM("a block that is not kept is read from the version that is, or not at all",
             a_block_is_read_from_the_version_that_is_kept),
        WARM("the copies of a handle share what they keep", handles_share_what_they_keep),
        WARM("what was kept by a call with a later schema is read with that schema",
             a_kept_shard_may_have_a_later_schema),
        WARM("a deletion that was kept by a call with a later schema is one",
             a_kept_shard_may_have_the_first_deletion),
        WARM("what a handle keeps is bounded", what_is_kept_is_bounded),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
