/* SPDX-License-Identifier: Apache-2.0 */
/* index_shard_test.c: the bytes of a shard, and the cursor that reads them: what is written is
 * read back, damage is detected, and a lookup reads little. */
#include "alloc.h"
#include "base/hash.h"
#include "index/cursor.h"
#include "index/fold.h"
#include "index_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NONCE "0123456789abcdef0123456789abcdef"
#define SHARD ((struct shard_id){ "a3" })
#define TIME  US "2026-02-06T10:00:00Z"

/* ---- Shards for tests ---------------------------------------------------------------- */

static struct record read_record(const struct schema *schema, const char *text,
                                 struct buffer *space)
{
    struct record record;
    struct hf_error error;
    assert_status(HF_OK,
                  record_read(schema, view_of(text), space, &record,
                              /* ret_too_many_fields */ NULL, &error),
                  &error);
    return record;
}

/* The bytes of a shard of these records, whose keys rise. */
static struct buffer make_shard(const struct schema *schema, const char *const *texts,
                                size_t count)
{
    struct shard_writer writer;
    struct hf_error error;
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct buffer line = BUFFER_INIT(BODY_BYTES_MAX);
    uint64_t expected = 0;
    for (size_t i = 0; i < count; i++)
        expected += strlen(texts[i]) + 1;
    assert_status(HF_OK, shard_writer_init(&writer, schema, 7, NONCE, expected, &error),
                  &error);
    for (size_t i = 0; i < count; i++) {
        struct record record = read_record(schema, texts[i], &space);
        assert_status(HF_OK, shard_writer_add(&writer, &record, &error), &error);
    }
    assert_status(HF_OK, shard_writer_end(&writer, &line, &error), &error);
    assert_true(writer.writer.fd < 0);
    assert_true(buffer_append(&line, buffer_view(&writer.writer.memory)));
    shard_writer_release(&writer);
    buffer_release(&space);
    return line;
}

/* A shard whose line says this behind its check, which is right, and these bytes behind it. */
static struct buffer forge(const char *members, const char *records)
{
    struct buffer text = BUFFER_INIT(BODY_BYTES_MAX);
    char behind[4096], start[128];
    int size = snprintf(behind, sizeof behind, "%s}\n", members);
    int before =
        snprintf(start, sizeof start,
                 "{\"format\":\"holdfast.shard/1\",\"line\":\"%08d\",\"check\":\"%08x\"",
                 size + 66 - 1, crc32c(0, view_of(behind)));
    assert_int_equal(before, 65);
    assert_true(buffer_print(&text, "%s%s%s", start, behind, records));
    return text;
}

/* A forged shard of one block. */
static struct buffer merge_block(const struct schema *schema, const char *records)
{
    char members[1024];
    snprintf(members, sizeof members,
             ",\"nonce\":\"" NONCE "\",\"token\":7,\"version\":1,\"schema\":\"%016" PRIx64
             "\",\"records\":2,\"size\":%zu,\"blocks\":[[0,%zu,\"%08x\",\"a\"]]",
             schema->versions[0].hash, strlen(records), strlen(records),
             crc32c(0, view_of(records)));
    return forge(members, records);
}

static void put_shard(struct yard *yard, struct buffer bytes)
{
    yard_write(yard, "shards/a3.usv", buffer_view(&bytes));
    buffer_release(&bytes);
}

static enum hf_status open_shard(struct yard *yard, struct shard_cursor *cursor, uint64_t first)
{
    return shard_cursor_open(cursor, yard->index, SHARD, first, &yard->error);
}

/* Reads the shard from its start to its end: how it ends, and how many records there are. */
static enum hf_status read_all(struct yard *yard, uint64_t first, size_t *ret_count)
{
    struct shard_cursor cursor;
    struct record record;
    enum hf_status status = open_shard(yard, &cursor, first);
    *ret_count = 0;
    if (status != HF_OK)
        return status;
    while ((status = shard_cursor_next(&cursor, &record, &yard->error)) == HF_OK)
        ++*ret_count;
    shard_cursor_close(&cursor);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

static void assert_read(struct yard *yard, enum hf_status expected)
{
    size_t count;
    assert_status(expected, read_all(yard, SHARD_READ_LARGE, &count), &yard->error);
}

/* key00000 on, each record of about `size` bytes; folded, as a compiler does it. */
static void fill(struct yard *yard, size_t count, size_t size)
{
    struct record *records = calloc(count, sizeof *records);
    char *space = malloc(count * (size + 64)), *at = space;
    struct fold_report report;
    assert_non_null(records);
    assert_non_null(space);
    for (size_t i = 0; i < count; i++) {
        int used = snprintf(at, size + 64, "key%08zu" US "%0*zu" TIME, i, (int)size - 33, i);
        records[i].bytes = (struct view){ at, (size_t)used };
        records[i].key = (struct view){ at, 11 };
        at += used + 1;
    }
    assert_status(HF_OK,
                  index_fold(yard->index, 1, &(struct shard_records){ SHARD, records, count },
                             &report, &yard->error),
                  &yard->error);
    assert_int_equal(report.records, count);
    free(records);
    free(space);
    meter_reset(&yard->meter);
}

/* ---- Writing and reading ------------------------------------------------------------- */

static const char *const odd_records[] = {
    "\"quoted\\\"" TIME,           "\x1b@nul" US "x" TIME,
    "\x01\x02\x03" US "y" TIME,    "a\x1b_b" US "separators" TIME,
    "example.com" US "\x1bJ" TIME, "\xc3\xa9t\xc3\xa9" US "" TIME,
};

static int by_key(const void *left, const void *right)
{
    const char *const *a = left, *const *b = right;
    struct schema schema = yard_schema("domain,name,updated_at");
    struct buffer spaces[2] = { BUFFER_INIT(1024), BUFFER_INIT(1024) };
    int order = view_compare(read_record(&schema, *a, &spaces[0]).key,
                             read_record(&schema, *b, &spaces[1]).key);
    buffer_release(&spaces[0]);
    buffer_release(&spaces[1]);
    return order;
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    const char *texts[] = { odd_records[1], odd_records[2], odd_records[3], odd_records[4],
                            odd_records[5] };
    const size_t count = sizeof texts / sizeof *texts;
    qsort(texts, count, sizeof *texts, by_key);
    put_shard(&yard, make_shard(&yard.index->schema, texts, count));
    struct shard_cursor cursor;
    assert_status(HF_OK, open_shard(&yard, &cursor, SHARD_PROLOGUE), &yard.error);
    assert_true(cursor.exists);
    assert_string_equal(cursor.head.nonce, NONCE);
    assert_int_equal(cursor.head.token, 7);
    assert_int_equal(cursor.head.version, 1);
    assert_int_equal(cursor.head.schema_hash, yard.index->schema.versions[0].hash);
    assert_int_equal(cursor.head.records, count);
    assert_int_equal(cursor.head.block_count, 1);
    for (size_t i = 0; i < count; i++) {
        struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
        struct record expected = read_record(&yard.index->schema, texts[i], &space), record;
        assert_status(HF_OK, shard_cursor_next(&cursor, &record, &yard.error), &yard.error);
        assert_true(view_equal(record.bytes, expected.bytes));
        assert_true(view_equal(record.key, expected.key));
        assert_int_equal(instant_compare(record.time, expected.time), 0);
        if (i == 0)
            assert_true(view_equal(cursor.head.blocks[0].first_key, expected.key));
        assert_status(HF_OK, shard_cursor_find(&cursor, expected.key, &record, &yard.error),
                      &yard.error);
        assert_true(view_equal(record.bytes, expected.bytes));
        buffer_release(&space);
    }
    struct record none;
    assert_int_equal(shard_cursor_next(&cursor, &none, &yard.error), HF_NOT_FOUND);
    assert_int_equal(shard_cursor_next(&cursor, &none, &yard.error), HF_NOT_FOUND);
    shard_cursor_close(&cursor);
    yard_close(&yard);
}

static void no_shard_is_an_empty_one(void **state)
{
    (void)state;
    struct yard yard;
    struct shard_cursor cursor;
    struct record record;
    yard_open(&yard);
    for (int there = 0; there < 2; there++) {
        assert_status(HF_OK, open_shard(&yard, &cursor, SHARD_READ_SMALL), &yard.error);
        assert_int_equal(cursor.exists, there);
        assert_int_equal(shard_cursor_next(&cursor, &record, &yard.error), HF_NOT_FOUND);
        shard_cursor_seek(&cursor, VIEW("a"), false);
        assert_int_equal(shard_cursor_next(&cursor, &record, &yard.error), HF_NOT_FOUND);
        assert_int_equal(shard_cursor_find(&cursor, VIEW("a"), &record, &yard.error),
                         HF_NOT_FOUND);
        shard_cursor_close(&cursor);
        put_shard(&yard, make_shard(&yard.index->schema, NULL, 0));
    }
    yard_close(&yard);
}

static void blocks_are_cut(void **state)
{
    (void)state;
    struct yard yard;
    struct shard_cursor cursor;
    yard_open(&yard);
    fill(&yard, 3000, 100);
    assert_status(HF_OK, open_shard(&yard, &cursor, SHARD_READ_SMALL), &yard.error);
    const struct shard_head *head = &cursor.head;
    assert_in_range(head->block_count, 300000 / SHARD_BLOCK - 1, 300000 / SHARD_BLOCK + 1);
    for (size_t i = 0; i + 1 < head->block_count; i++) {
        assert_in_range(head->blocks[i].size, SHARD_BLOCK, SHARD_BLOCK + 200);
        assert_int_equal(shard_find_block(head, head->blocks[i].first_key), i);
        char before[64], behind[64];
        snprintf(behind, sizeof behind, "%.*s0", VIEW_ARGS(head->blocks[i].first_key));
        assert_int_equal(shard_find_block(head, view_of(behind)), i);
        snprintf(before, sizeof before, "%.*s", VIEW_ARGS(head->blocks[i + 1].first_key));
        before[10]--;
        assert_int_equal(shard_find_block(head, view_of(before)), i);
    }
    assert_int_equal(shard_find_block(head, VIEW("a")), 0);
    assert_int_equal(shard_find_block(head, VIEW("z")), head->block_count - 1);
    shard_cursor_close(&cursor);
    yard_close(&yard);
}

/* ---- Damage -------------------------------------------------------------------------- */

static struct buffer small_shard(const struct schema *schema)
{
    static const char *const texts[] = { "example.com" US "one" TIME,
                                         "example.org" US "two" TIME };
    return make_shard(schema, texts, 2);
}

static void every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    struct buffer shard = small_shard(&yard.index->schema);
    for (size_t i = 0; i < shard.size; i++)
        for (unsigned bit = 1; bit < 0x200; bit <<= 1) {
            char before = shard.data[i];
            shard.data[i] = (char)(before ^ (char)(bit == 0x100 ? 0xff : bit));
            yard_write(&yard, "shards/a3.usv", buffer_view(&shard));
            size_t count;
            enum hf_status status = read_all(&yard, SHARD_PROLOGUE, &count);
            bool later_format =
                i == strlen("{\"format\":\"holdfast.shard/") && status == HF_UNSUPPORTED;
            if (status != HF_CORRUPT && !later_format)
                fail_msg("bit %x of byte %zu: %s", bit, i, hf_status_name(status));
            shard.data[i] = before;
        }
    buffer_release(&shard);
    yard_close(&yard);
}

static void every_other_length_is_noticed(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    struct buffer shard = small_shard(&yard.index->schema);
    size_t whole = shard.size;
    assert_true(buffer_append(&shard, VIEW("x")));
    for (size_t size = 0; size <= shard.size; size++) {
        yard_write(&yard, "shards/a3.usv", view_first(buffer_view(&shard), size));
        assert_read(&yard, size == whole ? HF_OK : HF_CORRUPT);
        if (size != whole)
            assert_non_null(strstr(yard.error.why, "indexes/domains/shards/a3.usv"));
    }
    buffer_release(&shard);
    yard_close(&yard);
}

static void what_is_no_shard_is_told_so(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    static const struct {
        const char *text;
        enum hf_status status;
    } rows[] = {
        { "example.com" TIME "\n", HF_CORRUPT },
        { "{\"format\":\"holdfast.shard/3\",\"anything\":1}\n", HF_UNSUPPORTED },
        { "{\"format\":\"holdfast.shard/x\"}", HF_CORRUPT },
        { "{\"format\":\"holdfast.shard/1\",\"line\":\"99999999\",\"check\":\"00000000\"}",
          HF_CORRUPT },
        { "{\"format\":\"holdfast.shard/1\",\"line\":\"00000001\",\"check\":\"00000000\"}",
          HF_CORRUPT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        yard_write(&yard, "shards/a3.usv", view_of(rows[i].text));
        assert_read(&yard, rows[i].status);
    }
    yard_close(&yard);
}

#define START \
    ",\"nonce\":\"" NONCE "\",\"token\":7,\"version\":1,\"schema\":\"0123456789abcdef\""

static void a_line_must_hold(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        enum hf_status status;
    } rows[] = {
        { START ",\"records\":0,\"size\":0,\"blocks\":[]", HF_OK },
        { START ",\"records\":0,\"size\":0,\"blocks\":[],\"later\":{\"a\":[1]}", HF_OK },
        { START ",\"records\":2,\"size\":9,\"blocks\":[[0,4,\"0badcafe\",\"a\"],"
                "[4,5,\"0badcafe\",\"b\"]]",
          HF_OK },
        { START ",\"records\":2,\"size\":9,\"blocks\":[[0,4,\"0badcafe\",\"b\"],"
                "[4,5,\"0badcafe\",\"a\"]]",
          HF_CORRUPT },
        { START ",\"records\":2,\"size\":9,\"blocks\":[[0,4,\"0badcafe\",\"a\"],"
                "[4,5,\"0badcafe\",\"a\"]]",
          HF_CORRUPT },
        { START ",\"records\":2,\"size\":9,\"blocks\":[[0,4,\"0badcafe\",\"a\"],"
                "[5,4,\"0badcafe\",\"b\"]]",
          HF_CORRUPT },
        { START ",\"records\":2,\"size\":9,\"blocks\":[[1,8,\"0badcafe\",\"a\"]]", HF_CORRUPT },
        { START ",\"records\":2,\"size\":9,\"blocks\":[[0,8,\"0badcafe\",\"a\"]]", HF_CORRUPT },
        { START ",\"records\":2,\"size\":0,\"blocks\":[[0,0,\"0badcafe\",\"a\"]]", HF_CORRUPT },
        { START ",\"records\":1,\"size\":9,\"blocks\":[[0,9,\"0BADCAFE\",\"a\"]]", HF_CORRUPT },
        { START ",\"records\":1,\"size\":9,\"blocks\":[[0,9,\"0badcaf\",\"a\"]]", HF_CORRUPT },
        { START ",\"records\":1,\"size\":9,\"blocks\":[[0,9,\"0badcafe\",\"\"]]", HF_CORRUPT },
        { START ",\"records\":1,\"size\":9,\"blocks\":[[0,9,\"0badcafe\"]]", HF_CORRUPT },
        { START ",\"records\":1,\"size\":9,\"blocks\":[[0,9,\"0badcafe\",\"a\",1]]",
          HF_CORRUPT },
        { START ",\"records\":1,\"size\":4294967296,"
                "\"blocks\":[[0,4294967296,\"0badcafe\",\"a\"]]",
          HF_CORRUPT },
        { START ",\"records\":10,\"size\":9,\"blocks\":[[0,9,\"0badcafe\",\"a\"]]",
          HF_CORRUPT },
        { START ",\"records\":0,\"size\":9,\"blocks\":[[0,9,\"0badcafe\",\"a\"]]", HF_CORRUPT },
        { START ",\"records\":1,\"size\":0,\"blocks\":[]", HF_CORRUPT },
        { START ",\"records\":0,\"size\":0", HF_CORRUPT },
        { START ",\"records\":0,\"records\":0,\"size\":0,\"blocks\":[]", HF_CORRUPT },
        { START ",\"records\":-1,\"size\":0,\"blocks\":[]", HF_CORRUPT },
        { ",\"nonce\":\"short\",\"token\":7,\"version\":1,\"schema\":\"0123456789abcdef\""
          ",\"records\":0,\"size\":0,\"blocks\":[]",
          HF_CORRUPT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buffer text = forge(rows[i].members, "");
        struct shard_head head;
        struct hf_error error;
        enum hf_status status = shard_head_read(buffer_view(&text), &head, &error);
        if (status != rows[i].status)
            fail_msg("row %zu: %s", i, status == HF_OK ? "taken" : error.why);
        if (status == HF_OK)
            shard_head_release(&head);
        buffer_release(&text);
    }
}

static void records_of_a_block_must_hold(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    static const struct {
        const char *records;
        enum hf_status status;
    } rows[] = {
        { "a" US TIME "\nb" US TIME "\n", HF_OK },
        { "b" US TIME "\na" US TIME "\n", HF_CORRUPT },
        { "a" US TIME "\na" US TIME "\n", HF_CORRUPT },
        { "a" US TIME "\nb" US TIME, HF_CORRUPT },
        { "a" US TIME "\n\n", HF_CORRUPT },
        { US "a" TIME "\nb" US TIME "\n", HF_CORRUPT },
        { "a" US TIME "\nb\x1b" US TIME "\n", HF_CORRUPT },
        { "a" US TIME "\nb" US "c" US "noon"
          "\n",
          HF_CORRUPT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_shard(&yard, merge_block(&yard.index->schema, rows[i].records));
        assert_read(&yard, rows[i].status);
    }
    yard_close(&yard);
}

/* ---- Versions ------------------------------------------------------------------------ */

static void a_later_schema_is_fetched(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    assert_int_equal(yard_create(&yard, "domain,name,updated_at,more"), INDEX_EXTENDED);
    struct index *other;
    assert_status(HF_OK,
                  index_open(&yard.store.base, NULL, VIEW("domains"), &other, &yard.error),
                  &yard.error);
    const char *text = "a" US "n" TIME US "more";
    put_shard(&yard, make_shard(&other->schema, &text, 1));
    assert_int_equal(yard.index->schema.version_count, 1);
    assert_read(&yard, HF_OK);
    assert_int_equal(yard.index->schema.version_count, 2);
    struct schema schema = other->schema;
    schema.versions[schema.version_count++].hash = 1; /* nobody else knows of it */
    put_shard(&yard, make_shard(&schema, &text, 1));
    assert_read(&yard, HF_UNSUPPORTED);
    schema = other->schema;
    schema.versions[1].hash++;
    put_shard(&yard, make_shard(&schema, &text, 1));
    assert_read(&yard, HF_CORRUPT);
    index_close(other);
    yard_close(&yard);
}

static void replace(void *argument)
{
    struct yard *yard = argument;
    static const char *const texts[] = { "new" US TIME };
    put_shard(yard, make_shard(&yard->index->schema, texts, 1));
}

static void a_shard_that_is_replaced_is_a_conflict(void **state)
{
    (void)state;
    struct yard yard;
    struct shard_cursor cursor;
    struct record record;
    yard_open(&yard);
    for (int gone = 0; gone < 2; gone++) {
        fill(&yard, 3000, 100);
        assert_status(HF_OK, open_shard(&yard, &cursor, SHARD_READ_SMALL), &yard.error);
        assert_status(HF_OK, shard_cursor_next(&cursor, &record, &yard.error), &yard.error);
        struct delete_call call = { .key = view_of(cursor.object) };
        if (gone)
            assert_status(HF_OK, store_delete(yard.store.inner, &call), &call.error);
        else
            replace(&yard);
        enum hf_status status;
        size_t count = 1;
        while ((status = shard_cursor_next(&cursor, &record, &yard.error)) == HF_OK)
            count++;
        assert_int_equal(status, HF_CONFLICT);
        assert_in_range(count, 100, 1000); /* what came with the first request */
        shard_cursor_close(&cursor);
        assert_status(HF_OK, store_delete(yard.store.inner, &call), &call.error);
    }
    yard_close(&yard);
}

static void a_line_is_of_one_version(void **state)
{
    (void)state;
    struct yard yard;
    struct shard_cursor cursor;
    struct record record;
    yard_open(&yard);
    fill(&yard, 100, 100);
    script_rule(&yard.store, .on = ON_GET, .skip = 1, .times = 1, .before = replace,
                .argument = &yard);
    assert_status(HF_OK, open_shard(&yard, &cursor, SHARD_PROLOGUE), &yard.error);
    assert_int_equal(yard_calls(&yard, CALL_GET), 4);
    assert_status(HF_OK, shard_cursor_next(&cursor, &record, &yard.error), &yard.error);
    assert_true(view_equal(record.key, VIEW("new")));
    shard_cursor_close(&cursor);
    yard_close(&yard);
}

/* ---- Large shards -------------------------------------------------------------------- */

#define MANY 60000

static uint64_t bytes_read(struct yard *yard)
{
    struct meter_counts kinds[CALL_KIND_COUNT];
    meter_read(&yard->meter, kinds);
    return kinds[CALL_GET].bytes_received;
}

static void find_one(struct yard *yard, const char *key, enum hf_status expected)
{
    struct shard_cursor cursor;
    struct record record;
    meter_reset(&yard->meter);
    assert_status(HF_OK, open_shard(yard, &cursor, SHARD_READ_SMALL), &yard->error);
    assert_status(expected, shard_cursor_find(&cursor, view_of(key), &record, &yard->error),
                  &yard->error);
    if (expected == HF_OK)
        assert_true(view_equal(record.key, view_of(key)));
    shard_cursor_close(&cursor);
    assert_in_range(yard_calls(yard, CALL_GET), 1, 2);
    assert_in_range(bytes_read(yard), 1, SHARD_READ_SMALL + 2 * SHARD_BLOCK);
}

static void a_large_shard_is_read_in_parts(void **state)
{
    (void)state;
    struct yard yard;
    size_t count;
    yard_open(&yard);
    fill(&yard, MANY, 130);
    assert_status(HF_OK, read_all(&yard, SHARD_READ_LARGE, &count), &yard.error);
    assert_int_equal(count, MANY);
    assert_in_range(yard_calls(&yard, CALL_GET), MANY * 130 / MIB, MANY * 130 / MIB + 3);
    for (unsigned i = 0; i < MANY; i += 997) {
        char key[32];
        snprintf(key, sizeof key, "key%08u", i);
        find_one(&yard, key, HF_OK);
        snprintf(key, sizeof key, "key%08u+", i);
        find_one(&yard, key, HF_NOT_FOUND);
    }
    find_one(&yard, "key00000000", HF_OK);
    find_one(&yard, "key00059999", HF_OK);
    find_one(&yard, "a", HF_NOT_FOUND);
    find_one(&yard, "z", HF_NOT_FOUND);
    yard_close(&yard);
}

static void a_key_at_the_end_of_a_block_costs_no_other(void **state)
{
    (void)state;
    struct yard yard;
    struct shard_cursor cursor;
    yard_open(&yard);
    fill(&yard, MANY, 130);
    assert_status(HF_OK, open_shard(&yard, &cursor, SHARD_READ_SMALL), &yard.error);
    for (size_t i = 1; i < cursor.head.block_count; i += 7) {
        char key[32];
        snprintf(key, sizeof key, "%.*s", VIEW_ARGS(cursor.head.blocks[i].first_key));
        key[10] = (char)(key[10] - 1); /* just before it, or nearly so */
        snprintf(key + 11, sizeof key - 11, "zzz");
        find_one(&yard, key, HF_NOT_FOUND);
    }
    shard_cursor_close(&cursor);
    yard_close(&yard);
}

static void a_small_shard_is_one_request(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    fill(&yard, 500, 100);
    find_one(&yard, "key00000499", HF_OK);
    assert_int_equal(yard_calls(&yard, CALL_GET), 1);
    yard_close(&yard);
}

static void who_goes_on_reads_more_at_once(void **state)
{
    (void)state;
    struct yard yard;
    size_t count;
    yard_open(&yard);
    fill(&yard, MANY, 130);
    assert_status(HF_OK, read_all(&yard, SHARD_READ_SMALL, &count), &yard.error);
    assert_int_equal(count, MANY);
    assert_in_range(yard_calls(&yard, CALL_GET), 8, 20);
    yard_close(&yard);
}

static void seek_and_expect(struct yard *yard, struct shard_cursor *cursor, const char *key,
                            bool beyond, const char *expected)
{
    struct record record;
    shard_cursor_seek(cursor, view_of(key), beyond);
    enum hf_status status = shard_cursor_next(cursor, &record, &yard->error);
    if (!expected) {
        assert_int_equal(status, HF_NOT_FOUND);
        return;
    }
    assert_status(HF_OK, status, &yard->error);
    assert_true(view_equal(record.key, view_of(expected)));
}

static void it_goes_to_a_key(void **state)
{
    (void)state;
    struct yard yard;
    struct shard_cursor cursor;
    yard_open(&yard);
    fill(&yard, 3000, 100);
    assert_status(HF_OK, open_shard(&yard, &cursor, SHARD_READ_SMALL), &yard.error);
    seek_and_expect(&yard, &cursor, "key00001234", false, "key00001234");
    seek_and_expect(&yard, &cursor, "key00001234", true, "key00001235");
    seek_and_expect(&yard, &cursor, "key00001234+", false, "key00001235");
    seek_and_expect(&yard, &cursor, "key00002999", true, NULL);
    seek_and_expect(&yard, &cursor, "", false, "key00000000");
    seek_and_expect(&yard, &cursor, "z", false, NULL);
    seek_and_expect(&yard, &cursor, "key00002", false, "key00002000");
    char *longer = malloc(INDEX_KEY_BYTES_MAX * 2 + 1);
    assert_non_null(longer);
    memset(longer, 'k', INDEX_KEY_BYTES_MAX * 2);
    longer[INDEX_KEY_BYTES_MAX * 2] = '\0';
    seek_and_expect(&yard, &cursor, longer, false, NULL);
    memset(longer, 'a', INDEX_KEY_BYTES_MAX * 2);
    seek_and_expect(&yard, &cursor, longer, true, "key00000000");
    free(longer);
    for (size_t i = 1; i < cursor.head.block_count; i++) { /* from the end of one to the next */
        unsigned long number = strtoul(cursor.head.blocks[i].first_key.data + 3, NULL, 10);
        char before[32], key[32];
        snprintf(before, sizeof before, "key%08lu", number - 1);
        snprintf(key, sizeof key, "key%08lu", number);
        seek_and_expect(&yard, &cursor, before, true, key);
        seek_and_expect(&yard, &cursor, before, false, before);
    }
    meter_reset(&yard.meter);
    seek_and_expect(&yard, &cursor, "key00002999", false, "key00002999");
    seek_and_expect(&yard, &cursor, "key00002998", false, "key00002998");
    assert_in_range(yard_calls(&yard, CALL_GET), 0, 1); /* the second was in memory */
    shard_cursor_close(&cursor);
    yard_close(&yard);
}

/* ---- Trouble ------------------------------------------------------------------------- */

static void without_memory_it_says_so(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    fill(&yard, 3000, 100);
    size_t count = 0;
    for (long n = 0;; n++) {
        alloc_fail_after(n);
        enum hf_status status = read_all(&yard, SHARD_PROLOGUE, &count);
        if (!alloc_stop()) {
            assert_status(HF_OK, status, &yard.error);
            break;
        }
        assert_status(HF_UNAVAILABLE, status, &yard.error);
    }
    assert_int_equal(count, 3000);
    yard_close(&yard);
}

static void without_a_folder_for_files_it_says_so(void **state)
{
    (void)state;
    char *kept = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    struct object_writer writer;
    char bytes[4096];
    memset(bytes, 'x', sizeof bytes);
    setenv("TMPDIR", "/nowhere/at/all", 1);
    object_writer_init(&writer);
    for (size_t i = 0; i < OBJECT_WRITER_MEMORY / sizeof bytes; i++)
        assert_true(object_writer_append(&writer, (struct view){ bytes, sizeof bytes }));
    assert_false(object_writer_append(&writer, VIEW("one more")));
    assert_int_equal(writer.error.status, HF_UNAVAILABLE);
    assert_non_null(strstr(writer.error.why, "/nowhere/at/all"));
    assert_false(object_writer_append(&writer, VIEW("")));
    struct put_call put = { .key = VIEW("a") };
    assert_int_equal(object_writer_put(&writer, /* store */ NULL, VIEW(""), &put),
                     HF_UNAVAILABLE);
    object_writer_release(&writer);
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
}

static void a_draft_is_put_whole_and_again(void **state)
{
    (void)state;
    struct yard yard;
    struct object_writer writer;
    yard_open(&yard);
    object_writer_init(&writer);
    struct buffer expected = BUFFER_INIT(BODY_BYTES_MAX);
    buffer_append(&expected, VIEW("head\n"));
    char piece[100000];
    for (size_t i = 0; i < 100; i++) {
        memset(piece, (int)('a' + i % 26), sizeof piece);
        struct view bytes = { piece, 1 + i * 997 };
        assert_true(object_writer_append(&writer, bytes));
        buffer_append(&expected, bytes);
        if (i % 30 != 0)
            continue;
        for (int again = 0; again < 2; again++) { /* in memory at first, then in the file */
            struct put_call put = { .key = VIEW("draft") };
            struct buffer found = BUFFER_INIT(BODY_BYTES_MAX);
            struct get_call get = { .key = put.key, .body = &found };
            assert_status(HF_OK,
                          object_writer_put(&writer, &yard.store.base, VIEW("head\n"), &put),
                          &put.error);
            assert_status(HF_OK, store_get(&yard.store.base, &get), &get.error);
            assert_true(view_equal(buffer_view(&found), buffer_view(&expected)));
            buffer_release(&found);
        }
    }
    assert_true(writer.fd >= 0);
    buffer_release(&expected);
    object_writer_release(&writer);
    yard_close(&yard);
}

int main(int argc, char **argv)
{
    if (!yard_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("what is written is read back, whatever is in it", what_is_written_is_read_back),
        IT("no shard, and one without records, are at their end", no_shard_is_an_empty_one),
        IT("blocks are cut at 16 KiB, and a key is found in its own", blocks_are_cut),
        IT("every flipped bit is noticed", every_flipped_bit_is_noticed),
        IT("every other length is noticed, and the reason names the shard",
           every_other_length_is_noticed),
        IT("what is no shard, or one of a later format, is told so",
           what_is_no_shard_is_told_so),
        IT("a line that contradicts itself is damaged, whatever its check", a_line_must_hold),
        IT("records without order, key, time or end are damage, whatever their check",
           records_of_a_block_must_hold),
        IT("a shard of a later schema makes the handle fetch it", a_later_schema_is_fetched),
        IT("a shard that is replaced while it is read is a conflict",
           a_shard_that_is_replaced_is_a_conflict),
        IT("a line is read of one version, or anew", a_line_is_of_one_version),
        IT("of a large shard a lookup reads two ranges, and a walk reads megabytes",
           a_large_shard_is_read_in_parts),
        IT("a key that would be last in its block costs no other block",
           a_key_at_the_end_of_a_block_costs_no_other),
        IT("a small shard is looked up by one request", a_small_shard_is_one_request),
        IT("who goes on reading is given more at once", who_goes_on_reads_more_at_once),
        IT("it goes to a key, or behind it, and reads nothing twice", it_goes_to_a_key),
        IT("without memory it says so", without_memory_it_says_so),
        IT("without a folder for its file a draft says so",
           without_a_folder_for_files_it_says_so),
        IT("a draft is put whole, and again, from memory and from its file",
           a_draft_is_put_whole_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
