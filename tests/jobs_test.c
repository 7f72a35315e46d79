/* SPDX-License-Identifier: Apache-2.0 */
/* jobs_test.c: the document of recent jobs: entries are read back, old and surplus ones are
 * removed, and no content prevents adding more. Also the names of chunks. */
#include "catalog_tree_kit.h"

#include "alloc.h"
#include "compact/work/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_KEY "metadata/compaction-jobs.json"

static const struct job_record sample = {
    .id = { "data/default/L1/2026/11/00.usv", 30 },
    .worker = { "node \"1\"", 8 },
    .end = { "failed", 6 },
    .why = { "line\nfeed", 9 },
    .level = 1,
    .sources = 15,
    .bytes_in = 1000,
    .bytes_out = 900,
    .rows_in = 100,
    .rows_out = 80,
    .rows_superseded = 10,
    .rows_expired = 4,
    .rows_rejected = 6,
    .took_ms = 1234,
};

static void note(struct bed *bed, const struct job_record *record)
{
    assert_status(HF_OK, jobs_note(bed->tree, record, &bed->error), &bed->error);
}

static struct job_record *read_all(struct bed *bed, struct arena *arena, size_t *ret_count)
{
    struct job_record *records;
    assert_status(HF_OK, jobs_read(bed->tree, arena, &records, ret_count, &bed->error),
                  &bed->error);
    return records;
}

static size_t count_all(struct bed *bed)
{
    struct arena arena = ARENA_INIT;
    size_t count;
    read_all(bed, &arena, &count);
    arena_release(&arena);
    return count;
}

static void what_is_noted_is_read(void **state)
{
    (void)state;
    struct ground ground;
    struct arena arena = ARENA_INIT;
    size_t count;
    ground_open(&ground, "sqlite", NULL, 2);
    assert_int_equal(count_all(&ground.beds[1]), 0);
    note(&ground.beds[0], &sample);
    struct job_record *records = read_all(&ground.beds[1], &arena, &count);
    assert_int_equal(count, 1);
    assert_true(view_equal(records->id, sample.id));
    assert_true(view_equal(records->worker, sample.worker));
    assert_true(view_equal(records->end, sample.end));
    assert_true(view_equal(records->why, sample.why));
    assert_int_equal(records->level, 1);
    assert_int_equal(records->sources, 15);
    assert_int_equal(records->bytes_in, 1000);
    assert_int_equal(records->bytes_out, 900);
    assert_int_equal(records->rows_in, 100);
    assert_int_equal(records->rows_out, 80);
    assert_int_equal(records->rows_superseded, 10);
    assert_int_equal(records->rows_expired, 4);
    assert_int_equal(records->rows_rejected, 6);
    assert_int_equal(records->took_ms, 1234);
    assert_true(records->ended.clock != 0 && records->ended_at.us > 0);
    arena_release(&arena);
    ground_close(&ground);
}

static void one_job_is_noted_once(void **state)
{
    (void)state;
    struct ground ground;
    const struct fault_plan plan = { .seed = 3, .lose_reply = 1000000 };
    ground_open(&ground, "mem", &plan, 1);
    note(&ground.beds[0], &sample);
    note(&ground.beds[0], &sample);
    assert_int_equal(count_all(&ground.beds[0]), 1);
    ground_close(&ground);
}

static void two_who_note_lose_nothing(void **state)
{
    (void)state;
    struct ground ground;
    struct job_record record = sample;
    char id[32];
    ground_open(&ground, "mem", NULL, 2);
    for (int i = 0; i < 40; i++) {
        record.id = (struct view){ id, (size_t)snprintf(id, sizeof id, "job %d", i) };
        note(&ground.beds[i % 2], &record);
    }
    assert_int_equal(count_all(&ground.beds[0]), 40);
    ground_close(&ground);
}

static void a_warm_note_is_one_put(void **state)
{
    (void)state;
    struct ground ground;
    struct meter_counts counts[CALL_KIND_COUNT];
    struct job_record record = sample;
    ground_open(&ground, "mem", NULL, 1);
    note(&ground.beds[0], &sample);
    meter_reset(&ground.meter);
    record.id = VIEW("another");
    note(&ground.beds[0], &record);
    meter_read(&ground.meter, counts);
    assert_int_equal(counts[CALL_PUT].calls, 1);
    assert_int_equal(counts[CALL_GET].calls, 0);
    ground_close(&ground);
}

static void the_oldest_go_first(void **state)
{
    (void)state;
    struct ground ground;
    struct arena arena = ARENA_INIT;
    struct job_record record = sample;
    size_t count;
    char id[32];
    ground_open(&ground, "mem", NULL, 1);
    for (int i = 0; i < 2 * JOBS_KEPT_MAX + 10; i++) {
        record.id = (struct view){ id, (size_t)snprintf(id, sizeof id, "job %d", i) };
        note(&ground.beds[0], &record);
    }
    struct job_record *records = read_all(&ground.beds[0], &arena, &count);
    assert_int_equal(count, JOBS_KEPT_MAX);
    snprintf(id, sizeof id, "job %d", JOBS_KEPT_MAX + 10);
    assert_true(view_equal(records[0].id, view_of(id)));
    arena_release(&arena);
    ground_close(&ground);
}

/* The byte of a character that was cut becomes a replacement character, which is longer. */
static void a_text_cut_within_a_character_is_kept(void **state)
{
    (void)state;
    struct ground ground;
    struct arena arena = ARENA_INIT;
    struct job_record record = sample;
    char why[HF_WHY_MAX];
    size_t count;
    memset(why, 'x', sizeof why);
    why[sizeof why - 1] = '\xc3';
    record.why = (struct view){ why, sizeof why };
    ground_open(&ground, "mem", NULL, 1);
    note(&ground.beds[0], &record);
    struct job_record *records = read_all(&ground.beds[0], &arena, &count);
    assert_int_equal(count, 1);
    assert_true(view_starts_with(records[0].why, view_first(record.why, sizeof why - 1)));
    arena_release(&arena);
    ground_close(&ground);
}

static void what_is_old_goes(void **state)
{
    (void)state;
    struct ground ground;
    ground_open(&ground, "mem", NULL, 1);
    char text[1024], now[64];
    long long wall_ms = (long long)(env_wall(env_real()).us / 1000);
    snprintf(now, sizeof now, "%lld", wall_ms);
    snprintf(text, sizeof text,
             "{\"format\":\"" LAYOUT_JOBS_FORMAT "\",\"jobs\":["
             "{\"id\":\"old\",\"ended\":\"00000000000000ab:1\",\"ended_ms\":%lld},"
             "{\"id\":\"new\",\"ended\":\"00000000000000ab:1\",\"ended_ms\":%s,\"mood\":[7]}]}",
             wall_ms - 3700000, now);
    put_bytes(&ground, JOBS_KEY, view_of(text));
    assert_int_equal(count_all(&ground.beds[0]), 1);
    note(&ground.beds[0], &sample);
    assert_int_equal(count_all(&ground.beds[0]), 2);
    char *after = get_bytes(&ground, JOBS_KEY);
    assert_null(strstr(after, "\"old\""));
    assert_non_null(strstr(after, "\"mood\":[7]")); /* what we do not know survives */
    free(after);
    ground_close(&ground);
}

static void damage_begins_anew(void **state)
{
    (void)state;
    struct ground ground;
    const struct view damaged[] = {
        VIEW(""),
        VIEW("{ \"format\": \"holdf"),
        VIEW("[]"),
        VIEW("{\"format\":\"something else\",\"jobs\":[{\"id\":\"a\"}]}"),
        VIEW("{\"format\":\"" LAYOUT_JOBS_FORMAT "\",\"jobs\":[7,{\"id\":7},{}]}"),
        VIEW("{\"format\":\"" LAYOUT_JOBS_FORMAT "\",\"jobs\":7}"),
    };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        ground_open(&ground, "mem", NULL, 1);
        put_bytes(&ground, JOBS_KEY, damaged[i]);
        assert_int_equal(count_all(&ground.beds[0]), 0);
        note(&ground.beds[0], &sample);
        assert_int_equal(count_all(&ground.beds[0]), 1);
        ground_close(&ground);
    }
}

static void what_is_too_long_begins_anew(void **state)
{
    (void)state;
    struct ground ground;
    size_t size = 5 * MIB;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, ' ', size);
    ground_open(&ground, "mem", NULL, 1);
    put_bytes(&ground, JOBS_KEY, (struct view){ bytes, size });
    note(&ground.beds[0], &sample);
    assert_int_equal(count_all(&ground.beds[0]), 1);
    free(bytes);
    ground_close(&ground);
}

static void a_later_version_is_left_alone(void **state)
{
    (void)state;
    struct ground ground;
    const char *text = "{\"format\":\"holdfast.jobs/9\",\"jobs\":{}}";
    ground_open(&ground, "mem", NULL, 1);
    struct bed *bed = &ground.beds[0];
    put_bytes(&ground, JOBS_KEY, view_of(text));
    assert_status(HF_UNSUPPORTED, jobs_note(bed->tree, &sample, &bed->error), &bed->error);
    char *after = get_bytes(&ground, JOBS_KEY);
    assert_string_equal(after, text);
    free(after);
    ground_close(&ground);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    struct ground ground;
    static char text[20000];
    memset(text, 0x01, sizeof text); /* six bytes each, as JSON */
    struct job_record record = { .id = VIEW("a"),
                                 .worker = { text, sizeof text },
                                 .end = { text, sizeof text },
                                 .why = { text, sizeof text } };
    ground_open(&ground, "mem", NULL, 1);
    note(&ground.beds[0], &record);
    assert_int_equal(count_all(&ground.beds[0]), 1);
    ground_close(&ground);
}

static void memory_may_fail(void **state)
{
    (void)state;
    struct ground ground;
    ground_open(&ground, "mem", NULL, 1);
    struct bed *bed = &ground.beds[0];
    struct job_record record = sample;
    char id[32];
    bool failed = true;
    for (long n = 0; failed && n < 200; n++) {
        struct arena arena = ARENA_INIT;
        struct job_record *records;
        size_t count;
        record.id = (struct view){ id, (size_t)snprintf(id, sizeof id, "job %ld", n) };
        put_bytes(&ground, JOBS_KEY, VIEW("{}")); /* to be read anew */
        alloc_fail_after(n);
        enum hf_status noted = jobs_note(bed->tree, &record, &bed->error);
        enum hf_status got = jobs_read(bed->tree, &arena, &records, &count, &bed->error);
        failed = alloc_stop();
        assert_true(noted == HF_OK || noted == HF_UNAVAILABLE);
        assert_true(got == HF_OK || got == HF_UNAVAILABLE);
        arena_release(&arena);
    }
    assert_false(failed);
    ground_close(&ground);
}

/* ---- Names ------------------------------------------------------------------------- */

static void names_say_where_they_belong(void **state)
{
    (void)state;
    struct hf_error error;
    struct mono_time drawn;
    char key[KEY_BYTES_MAX + 1], again[KEY_BYTES_MAX + 1];
    struct compact_settings settings = some_settings();
    struct mono_time before = env_now(env_real());
    assert_status(HF_OK,
                  chunk_key_draw(env_real(),
                                 &(struct chunk_key_parts){ VIEW("logs"), 3, SOME_HOUR,
                                                            &settings },
                                 key, &drawn, &error),
                  &error);
    assert_true(drawn.us >= before.us && drawn.us <= env_now(env_real()).us);
    assert_memory_equal(key, "data/logs/L3/2025/11/", 21);
    assert_int_equal(strlen(key), 21 + 32 + 4);
    assert_string_equal(key + 21 + 32, ".usv");
    assert_true(view_equal(layout_home(view_of(key)), VIEW("logs")));
    assert_status(HF_OK,
                  chunk_key_draw(env_real(),
                                 &(struct chunk_key_parts){ VIEW("logs"), 3, SOME_HOUR,
                                                            &settings },
                                 again, &drawn, &error),
                  &error);
    assert_string_not_equal(key, again);
    settings.format = HF_MERGE_NDJSON;
    settings.coding = HF_MERGE_ZSTD;
    assert_status(HF_OK,
                  chunk_key_draw(env_real(),
                                 &(struct chunk_key_parts){ VIEW("default"), 0, -1, &settings },
                                 key, &drawn, &error),
                  &error);
    assert_memory_equal(key, "data/default/L0/1969/12/", 24);
    assert_string_equal(key + 24 + 32, ".ndjson.zst");
    assert_status(HF_OK,
                  chunk_key_draw(env_real(),
                                 &(struct chunk_key_parts){ VIEW("default"), 0, INT64_MAX,
                                                            &settings },
                                 key, &drawn, &error),
                  &error);
    assert_memory_equal(key, "data/default/L0/9999/12/", 24);
    assert_status(HF_OK,
                  chunk_key_draw(env_real(),
                                 &(struct chunk_key_parts){ VIEW("default"), 0, INT64_MIN,
                                                            &settings },
                                 key, &drawn, &error),
                  &error);
    assert_memory_equal(key, "data/default/L0/0001/01/", 24);
    assert_status(HF_INVALID,
                  chunk_key_draw(env_real(),
                                 &(struct chunk_key_parts){ VIEW("a/b"), 0, 0, &settings }, key,
                                 &drawn, &error),
                  &error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("what is noted is read, by others too", what_is_noted_is_read),
        IT("a job is noted once, whatever becomes of the reply", one_job_is_noted_once),
        IT("two who note at the same time lose nothing", two_who_note_lose_nothing),
        IT("noting one more costs one put", a_warm_note_is_one_put),
        IT("the oldest go when there are too many", the_oldest_go_first),
        IT("what is older than an hour goes, and unknown members stay", what_is_old_goes),
        IT("a document that cannot be read begins anew", damage_begins_anew),
        IT("so does one that is too long to be read", what_is_too_long_begins_anew),
        IT("a document of a later version is left alone", a_later_version_is_left_alone),
        IT("texts that are too long are cut", long_texts_are_cut),
        IT("a text that was cut within a character is kept",
           a_text_cut_within_a_character_is_kept),
        IT("each allocation may fail", memory_may_fail),
        IT("names of chunks say where they belong, and are never the same",
           names_say_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
