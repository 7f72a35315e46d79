/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_test.c: each file becomes a chunk once, whatever is wrong with a file, whoever splits,
 * condemns or merges meanwhile, and whichever replies of the store are lost. */
#include "alloc.h"
#include "base/hash.h"
#include "catalog_tree_kit.h"
#include "compact/work/ingest.h"
#include "scripted_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kinds[] = { "mem", "sqlite" };

#define FILES_MAX 64

/* A bucket with two who use it, and files to be ingested. */
struct stage {
    struct ground ground;
    struct bed *bed;   /* who ingests */
    struct bed *other; /* somebody else, on a catalog tree of its own */
    struct ingest_file files[FILES_MAX];
    char paths[FILES_MAX][512];
    size_t count;
    struct ingest_options options;
    struct hf_error error;
    /* Of go_on: */
    void (*hook)(struct stage *stage);
    size_t calls;
    size_t hook_at; /* the call at which the hook is called, once */
    bool stop;
};

static bool go_on(void *argument, size_t files_done, uint64_t bytes_done)
{
    struct stage *stage = argument;
    (void)bytes_done;
    assert_true(files_done <= stage->count);
    if (++stage->calls == stage->hook_at && stage->hook)
        stage->hook(stage);
    return !stage->stop;
}

static struct compact_settings usv_by_time(void)
{
    struct compact_settings settings = some_settings();
    settings.time = VIEW("2");
    settings.rejects_max = 1;
    return settings;
}

/* `plan` and `settings` may be NULL: nothing goes wrong, and as above. */
static void stage_open(struct stage *stage, void **state, const struct fault_plan *plan,
                       const struct compact_settings *settings)
{
    struct compact_settings usual = usv_by_time();
    *stage = (struct stage){ .count = 0 };
    ground_open(&stage->ground, *state, plan, 2);
    stage->bed = &stage->ground.beds[0];
    stage->other = &stage->ground.beds[1];
    stage->options = (struct ingest_options){
        .writer = VIEW("w1"), .patience = SPAN_S(2), .go_on = go_on, .argument = stage
    };
    assert_status(HF_OK,
                  catalog_tree_create(stage->bed->tree, settings ? settings : &usual,
                                      &stage->error),
                  &stage->error);
}

static void stage_close(struct stage *stage)
{
    ground_close(&stage->ground);
}

static struct ingest_file *add_path(struct stage *stage, const char *name)
{
    assert_true(stage->count < FILES_MAX);
    char *path = stage->paths[stage->count];
    snprintf(path, sizeof stage->paths[0], "%s/%s", stage->ground.dir, name);
    struct ingest_file *file = &stage->files[stage->count++];
    *file = (struct ingest_file){ .path = path };
    return file;
}

static void write_bytes(const char *path, struct view bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (bytes.size)
        assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
    assert_int_equal(fclose(file), 0);
}

static struct ingest_file *add_file(struct stage *stage, const char *name, struct view bytes)
{
    struct ingest_file *file = add_path(stage, name);
    write_bytes(file->path, bytes);
    return file;
}

/* So many files of two rows, an hour apart. */
static void add_files(struct stage *stage, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[32], text[128];
        long long s = SOME_HOUR / 1000 + (long long)i * 3600;
        snprintf(name, sizeof name, "file%zu", i);
        snprintf(text, sizeof text, "a%zu\x1f%lld\nb%zu\x1f%lld\n", i, s, i, s + 1);
        add_file(stage, name, view_of(text));
    }
}

static enum hf_status ingest(struct stage *stage)
{
    return ingest_files(stage->bed->tree, stage->files, stage->count, &stage->options,
                        &stage->error);
}

/* ---- What is there then -------------------------------------------------------------- */

/* Each file that was taken is live, once, under its key, which names the catalog that has it or
 * one above it; nothing else is. */
static void assert_taken_once(struct stage *stage, size_t others)
{
    struct census census;
    size_t taken = 0;
    tree_listing_take(stage->other, &census);
    assert_int_equal(census.twice, 0);
    for (size_t i = 0; i < stage->count; i++) {
        const struct ingest_file *file = &stage->files[i];
        const struct counted *counted = file->key[0] ? census_find(&census, file->key) : NULL;
        bool live = counted && counted->state == CHUNK_LIVE;
        if (live != (file->error.status == HF_OK))
            fail_msg("file %zu: %s, but %s: %s", i, hf_status_name(file->error.status),
                     counted ? chunk_state_name(counted->state) : "not there", file->error.why);
        taken += live;
        if (live) {
            struct get_call get = { .key = view_of(file->key) };
            struct buffer body = BUFFER_INIT(MIB);
            get.body = &body;
            assert_status(HF_OK, store_get(stage->ground.store, &get), &get.error);
            assert_int_equal(get.info.size, file->size);
            buffer_release(&body);
        }
    }
    assert_int_equal(census.live, taken + others);
    tree_listing_release(&census);
}

struct copied {
    const char *key;
    struct chunk chunk;
    char writer[WRITER_BYTES_MAX + 1];
    bool found;
};

static void copy_chunk(void *argument, const struct catalog *catalog,
                       const struct evidence *evidence)
{
    struct copied *copied = argument;
    (void)evidence;
    const struct chunk *chunk = catalog_find(catalog, view_of(copied->key));
    copied->found = chunk != NULL;
    if (!chunk)
        return;
    copied->chunk = *chunk;
    snprintf(copied->writer, sizeof copied->writer, "%.*s", VIEW_ARGS(chunk->writer));
}

static struct copied entry_of(struct stage *stage, const struct ingest_file *file)
{
    struct copied copied = { .key = file->key };
    assert_status(HF_OK,
                  catalog_ref_show(slot_of(stage->other, NULL), copy_chunk, &copied,
                                   &stage->error),
                  &stage->error);
    assert_true(copied.found);
    return copied;
}

/* ---- Files become chunks ------------------------------------------------------------- */

static void files_become_chunks(void **state)
{
    struct stage stage;
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    struct view bytes = VIEW("a\x1f"
                             "2025-11-15T10:00:00.0005Z\nbad\nb\x1f"
                             "2025-11-15T10:30:00Z\n");
    struct ingest_file *file = add_file(&stage, "one", bytes);
    add_files(&stage, 3);
    assert_status(HF_OK, ingest(&stage), &stage.error);
    assert_taken_once(&stage, 0);
    assert_true(view_starts_with(view_of(file->key), VIEW("data/default/L0/2025/11/")));
    assert_true(view_ends_with(view_of(file->key), VIEW(".usv")));
    assert_true(file->size == bytes.size && file->rows == 3 && file->malformed == 1);
    struct copied copied = entry_of(&stage, file);
    assert_true(copied.chunk.level == 0 && copied.chunk.sequence == 1);
    assert_true(copied.chunk.rows_known && copied.chunk.rows == 3);
    assert_true(copied.chunk.min_ms == SOME_HOUR);
    assert_true(copied.chunk.max_ms == SOME_HOUR + 1800 * 1000);
    assert_int_equal(copied.chunk.crc32c, crc32c(0, bytes));
    assert_string_equal(copied.writer, "w1");
    assert_int_equal(entry_of(&stage, &stage.files[3]).chunk.sequence, 4);
    char *stored = get_bytes(&stage.ground, file->key);
    assert_memory_equal(stored, bytes.data, bytes.size);
    free(stored);
    stage_close(&stage);
}

static void a_file_of_rows_that_cannot_be_read_is_refused(void **state)
{
    struct stage stage;
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    struct ingest_file *all = add_file(&stage, "all", VIEW("a\x1fnever\nb\n"));
    struct ingest_file *many = add_file(&stage, "many",
                                        VIEW("a\x1f"
                                             "2025-11-15T10:00:00Z\nb\nc\n"));
    struct ingest_file *some = add_file(&stage, "some",
                                        VIEW("a\x1f"
                                             "2025-11-15T10:00:00Z\nb\n"));
    assert_status(HF_INVALID, ingest(&stage), &stage.error);
    assert_int_equal(all->error.status, HF_INVALID);
    assert_non_null(strstr(all->error.why, "none of the 2 rows can be read: record 1 "));
    assert_true(view_starts_with(view_of(all->error.why), view_of(all->path)));
    assert_int_equal(many->error.status, HF_INVALID);
    assert_non_null(strstr(many->error.why, "2 of 3 rows cannot be read"));
    assert_non_null(strstr(many->error.why, "record 2 "));
    assert_int_equal(some->error.status, HF_OK);
    assert_taken_once(&stage, 0);
    assert_int_equal(count_objects(&stage.ground, "data/"), 1);
    stage_close(&stage);
}

static void many_files_are_added_in_one_write(void **state)
{
    struct stage stage;
    struct meter_counts counts[CALL_KIND_COUNT];
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    add_files(&stage, 50);
    meter_reset(&stage.ground.meter);
    assert_status(HF_OK, ingest(&stage), &stage.error);
    meter_read(&stage.ground.meter, counts);
    assert_int_equal(counts[CALL_PUT_FILE].calls, 50);
    assert_true(counts[CALL_PUT].calls <=
                1); /* a store that changes in one step puts nothing */
    assert_int_equal(counts[CALL_DELETE].calls, 0);
    assert_taken_once(&stage, 0);
    stage_close(&stage);
}

static void a_file_that_cannot_be_taken_is_told_and_the_rest_goes_on(void **state)
{
    struct stage stage;
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    add_files(&stage, 1);
    add_path(&stage, "nowhere");
    add_path(&stage, ".");
    add_file(&stage, "empty", VIEW(""));
    add_file(&stage, "cut.gz", VIEW("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"));
    add_file(&stage, "last",
             VIEW("z\x1f"
                  "1763200000\n"));
    assert_status(HF_NOT_FOUND, ingest(&stage), &stage.error);
    assert_non_null(strstr(stage.error.why, "nowhere"));
    const enum hf_status expected[] = { HF_OK,      HF_NOT_FOUND, HF_INVALID,
                                        HF_INVALID, HF_CORRUPT,   HF_OK };
    for (size_t i = 0; i < stage.count; i++)
        assert_status(expected[i], stage.files[i].error.status, &stage.files[i].error);
    assert_non_null(strstr(stage.files[3].error.why, "is empty"));
    assert_non_null(strstr(stage.files[4].error.why, "cut.gz"));
    assert_taken_once(&stage, 0);
    assert_int_equal(count_objects(&stage.ground, "data/"), 2);
    stage_close(&stage);
}

static void without_a_time_it_is_now(void **state)
{
    struct stage stage;
    struct compact_settings settings = some_settings();
    stage_open(&stage, state, NULL, &settings);
    int64_t before = env_wall(env_real()).us / 1000;
    struct ingest_file *file = add_file(&stage, "one", VIEW("a\n"));
    assert_status(HF_OK, ingest(&stage), &stage.error);
    struct copied copied = entry_of(&stage, file);
    int64_t after = env_wall(env_real()).us / 1000;
    assert_true(copied.chunk.min_ms >= before && copied.chunk.max_ms <= after);
    assert_true(copied.chunk.min_ms == copied.chunk.max_ms);
    stage_close(&stage);
}

static void what_has_no_rows_is_taken_as_it_is(void **state)
{
    struct stage stage;
    struct compact_settings settings = compact_settings_default();
    settings.format = HF_MERGE_CONCAT;
    stage_open(&stage, state, NULL, &settings);
    struct ingest_file *file = add_file(&stage, "log.gz", VIEW("no gzip"));
    assert_status(HF_OK, ingest(&stage), &stage.error);
    assert_false(entry_of(&stage, file).chunk.rows_known);
    assert_int_equal(file->rows, 0);
    stage_close(&stage);
}

static void a_name_tells_how_its_object_is_compressed(void **state)
{
    struct stage stage;
    struct compact_settings settings = usv_by_time();
    settings.coding = HF_MERGE_ZSTD;
    stage_open(&stage, state, NULL, &settings);
    /* "a", US, "1", LF, by gzip. */
    struct view packed = VIEW("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x01\x04\x00\xfb\xff"
                              "a\x1f"
                              "1\n\x9b\x45\x2c\x93\x04\x00\x00\x00");
    struct ingest_file *plain = add_file(&stage, "plain",
                                         VIEW("a\x1f"
                                              "1\n"));
    struct ingest_file *gzip = add_file(&stage, "gzip", packed);
    assert_status(HF_OK, ingest(&stage), &stage.error);
    assert_status(HF_OK, plain->error.status, &plain->error);
    assert_true(view_ends_with(view_of(plain->key), VIEW(".usv")));
    assert_status(HF_OK, gzip->error.status, &gzip->error);
    assert_true(view_ends_with(view_of(gzip->key), VIEW(".usv.gz")));
    assert_taken_once(&stage, 0);
    stage_close(&stage);
}

static void a_request_that_makes_no_sense_is_refused(void **state)
{
    struct stage stage;
    char writer[WRITER_BYTES_MAX + 1];
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    add_files(&stage, 2);
    memset(writer, 'w', sizeof writer);
    stage.options.writer = (struct view){ writer, sizeof writer };
    assert_status(HF_INVALID, ingest(&stage), &stage.error);
    assert_int_equal(stage.files[1].error.status, HF_INVALID);
    stage.options.writer = VIEW("");
    assert_status(HF_INVALID, ingest(&stage), &stage.error);
    assert_int_equal(count_objects(&stage.ground, "data/"), 0);
    stage_close(&stage);
}

static void without_a_catalog_nothing_is_put(void **state)
{
    struct stage stage = { .count = 0 };
    ground_open(&stage.ground, *state, NULL, 1);
    stage.bed = &stage.ground.beds[0];
    stage.options.writer = VIEW("w");
    add_files(&stage, 1);
    assert_status(HF_NOT_FOUND, ingest(&stage), &stage.error);
    assert_non_null(strstr(stage.error.why, "compact create"));
    assert_int_equal(stage.files[0].error.status, HF_NOT_FOUND);
    assert_int_equal(count_objects(&stage.ground, ""), 0);
    stage_close(&stage);
}

/* ---- Backpressure -------------------------------------------------------------------- */

static void too_many_that_wait_are_told_in_numbers(void **state)
{
    struct stage stage;
    struct compact_settings settings = usv_by_time();
    settings.backlog_max = settings.level0_count = 5;
    stage_open(&stage, state, NULL, &settings);
    add_files(&stage, 8);
    assert_status(HF_UNAVAILABLE, ingest(&stage), &stage.error);
    assert_non_null(strstr(stage.error.why, "5 chunks are waiting to be merged"));
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(stage.files[i].error.status, i < 5 ? HF_OK : HF_UNAVAILABLE);
    assert_taken_once(&stage, 0);
    assert_int_equal(count_objects(&stage.ground, "data/"), 5);
    stage_close(&stage);
}

/* Somebody merges the first five. */
static void merge_five(struct stage *stage)
{
    struct bed *other = stage->other;
    struct compact_settings settings = usv_by_time();
    char key[KEY_BYTES_MAX + 1];
    struct view keys[5];
    struct catalog_op op = { .kind = CATALOG_COMMIT, .keys = keys, .key_count = 5 };
    struct chunk_key_parts parts = { VIEW("default"), 1, SOME_HOUR, &settings };
    assert_status(HF_OK, chunk_key_draw(env_real(), &parts, key, &op.drawn, &other->error),
                  &other->error);
    for (size_t i = 0; i < 5; i++)
        keys[i] = view_of(stage->files[i].key);
    op.target = (struct chunk){ .key = view_of(key),
                                .level = 1,
                                .size = 1,
                                .min_ms = SOME_HOUR,
                                .max_ms = SOME_HOUR + 5 * HOUR_MS,
                                .writer = VIEW("w") };
    assert_status(HF_OK, catalog_ref_apply(slot_of(other, NULL), &op, (struct mono_time){ 0 }),
                  &op.error);
}

static void it_waits_until_some_are_merged(void **state)
{
    struct stage stage;
    struct compact_settings settings = usv_by_time();
    settings.backlog_max = settings.level0_count = 5;
    stage_open(&stage, state, NULL, &settings);
    add_files(&stage, 8);
    stage.options.until = mono_add(env_now(env_real()), SPAN_S(30));
    stage.hook = merge_five;
    stage.hook_at = 8 + 2 * 5 + 1; /* looked through; put, with a step each; then it waits */
    assert_status(HF_OK, ingest(&stage), &stage.error);
    struct census census;
    tree_listing_take(stage.other, &census);
    assert_int_equal(census.live, 3 + 1);
    assert_int_equal(census.dead, 5);
    tree_listing_release(&census);
    stage_close(&stage);
}

/* ---- Others at work ------------------------------------------------------------------ */

static void split_by_other(struct stage *stage)
{
    struct bed *other = stage->other;
    assert_status(HF_OK, catalog_ref_split(slot_of(other, NULL), &other->error), &other->error);
}

static void a_split_that_came_between_changes_the_names(void **state)
{
    struct stage stage;
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    assert_status(HF_OK, add_chunks(stage.other, NULL, 10, 10, NULL), &stage.other->error);
    add_files(&stage, 12);
    stage.hook = split_by_other;
    stage.hook_at = 12 + 2 * 6; /* half of them are put */
    assert_status(HF_OK, ingest(&stage), &stage.error);
    assert_taken_once(&stage, 10);
    struct census census;
    tree_listing_take(stage.other, &census);
    assert_int_equal(census.catalogs, 1 + CATALOG_CHILDREN);
    assert_int_equal(census.dead, 12); /* the names of before, condemned */
    for (size_t i = 0; i < stage.count; i++) {
        const struct counted *counted = census_find(&census, stage.files[i].key);
        assert_true(
            view_equal(layout_home(view_of(stage.files[i].key)), view_of(counted->partition)));
    }
    tree_listing_release(&census);
    stage_close(&stage);
}

static void a_full_catalog_is_split(void **state)
{
    struct stage stage;
    struct compact_settings settings = usv_by_time();
    settings.backlog_max = 100000;
    stage_open(&stage, state, NULL, &settings);
    size_t others = 0;
    while (add_chunks(stage.other, NULL, 256, 40, NULL) == HF_OK)
        others += 256;
    while (add_chunks(stage.other, NULL, 8, 40, NULL) == HF_OK)
        others += 8;
    add_files(&stage, 30);
    assert_status(HF_OK, ingest(&stage), &stage.error);
    assert_taken_once(&stage, others);
    struct census census;
    tree_listing_take(stage.other, &census);
    assert_int_equal(census.catalogs, 1 + CATALOG_CHILDREN);
    assert_true(census.dead <= 8); /* few are put in vain */
    tree_listing_release(&census);
    stage_close(&stage);
}

/* Somebody takes the first file's object for rubbish. */
static void condemn_first(struct stage *stage)
{
    struct view key = view_of(stage->files[0].key);
    struct catalog_op op = { .kind = CATALOG_CONDEMN, .keys = &key, .key_count = 1 };
    assert_status(HF_OK,
                  catalog_ref_apply(slot_of(stage->other, NULL), &op, (struct mono_time){ 0 }),
                  &op.error);
}

static void a_name_that_was_condemned_meanwhile_is_replaced(void **state)
{
    struct stage stage;
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    add_files(&stage, 4);
    stage.hook = condemn_first;
    stage.hook_at = 4 + 2 * 2;
    assert_status(HF_OK, ingest(&stage), &stage.error);
    assert_taken_once(&stage, 0);
    assert_int_equal(count_objects(&stage.ground, "data/"), 8);
    stage_close(&stage);
}

/* A world whose clock is behind, and that does not sleep. */
static struct span behind;

static struct mono_time now_behind(struct env *env)
{
    (void)env;
    return (struct mono_time){ env_now(env_real()).us - behind.us };
}

static void no_sleep(struct env *env, struct mono_time moment)
{
    (void)env;
    (void)moment;
}

static struct env *other_world(void)
{
    static struct env_ops ops;
    static struct env env = { &ops };
    ops = *env_real()->ops;
    ops.now = now_behind;
    ops.sleep_until = no_sleep;
    behind = (struct span){ 0 };
    return &env;
}

static void stop_the_delay(struct stage *stage)
{
    (void)stage;
    behind = (struct span){ 0 };
}

static void names_that_are_too_old_are_drawn_anew(void **state)
{
    struct stage stage;
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    add_files(&stage, 4);
    stage.bed->tree->env = other_world();
    behind = SPAN_S(13 * 3600); /* more than half of a day */
    stage.hook = stop_the_delay;
    stage.hook_at = 4 + 2 * 2;
    assert_status(HF_OK, ingest(&stage), &stage.error);
    assert_taken_once(&stage, 0);
    assert_true(count_objects(&stage.ground, "data/") > 4);
    stage.bed->tree->env = env_real();
    stage_close(&stage);
}

static void change_last_file(struct stage *stage)
{
    write_bytes(stage->files[stage->count - 1].path, VIEW("changed\x1f"
                                                          "1763200800\n"));
}

static void a_file_that_changes_meanwhile_is_not_taken(void **state)
{
    struct stage stage;
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    add_files(&stage, 3);
    stage.hook = change_last_file;
    stage.hook_at = 3 + 1;
    assert_status(HF_UNAVAILABLE, ingest(&stage), &stage.error);
    assert_non_null(strstr(stage.error.why, "changed"));
    assert_int_equal(stage.files[0].error.status, HF_OK);
    assert_int_equal(stage.files[2].error.status, HF_UNAVAILABLE);
    assert_taken_once(&stage, 0);

    /* The same just after its bytes were read; the others are there already. */
    stage.calls = 0;
    stage.hook_at = 3 + 2 * 1;
    assert_status(HF_UNAVAILABLE, ingest(&stage), &stage.error);
    assert_int_equal(stage.files[1].error.status, HF_OK);
    assert_int_equal(stage.files[2].error.status, HF_UNAVAILABLE);
    struct census census;
    tree_listing_take(stage.other, &census);
    assert_int_equal(census_find(&census, stage.files[2].key)->state, CHUNK_CONDEMNED);
    tree_listing_release(&census);
    stage_close(&stage);
}

static void stop_it(struct stage *stage)
{
    stage->stop = true;
}

static void when_it_is_stopped_what_was_put_is_added(void **state)
{
    struct stage stage;
    stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
    add_files(&stage, 6);
    stage.hook = stop_it;
    stage.hook_at = 6 + 2 * 2 + 1;
    assert_status(HF_CANCELLED, ingest(&stage), &stage.error);
    for (size_t i = 0; i < stage.count; i++)
        assert_int_equal(stage.files[i].error.status, i < 2 ? HF_OK : HF_CANCELLED);
    assert_taken_once(&stage, 0);

    stage.calls = 0;
    stage.stop = false;
    stage.hook_at = 3; /* while they are looked through */
    assert_status(HF_CANCELLED, ingest(&stage), &stage.error);
    for (size_t i = 0; i < stage.count; i++) /* two are there already */
        assert_int_equal(stage.files[i].error.status, i < 2 ? HF_OK : HF_CANCELLED);
    stage_close(&stage);
}

/* ---- Answers that are lost ----------------------------------------------------------- */

static void what_was_put_without_an_answer_is_found(void **state)
{
    struct stage stage;
    const struct fault_plan plan = { .seed = 1, .lose_reply = 1000000 };
    stage_open(&stage, state, &plan, /* settings */ NULL);
    add_files(&stage, 5);
    assert_status(HF_OK, ingest(&stage), &stage.error);
    assert_taken_once(&stage, 0);
    assert_int_equal(count_objects(&stage.ground, "data/"), 5);
    stage_close(&stage);
}

static void with_answers_lost_each_file_is_taken_once_or_told(void **state)
{
    size_t taken = 0;
    const uint64_t seeds = strcmp(*state, "mem") == 0 ? 12 : 3; /* disks are slow */
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct stage stage;
        const struct fault_plan plan = { .seed = seed,
                                         .throttle = 50000,
                                         .refuse = 50000,
                                         .lose = 100000,
                                         .lose_reply = 150000,
                                         .late = 50000,
                                         .late_max = SPAN_MS(5) };
        stage_open(&stage, state, &plan, /* settings */ NULL);
        add_files(&stage, 12);
        if (seed % 3 == 0) {
            stage.hook = split_by_other;
            stage.hook_at = 12 + 9;
        }
        stage.bed->tree->env = other_world();
        ingest(&stage);
        stage.bed->tree->env = env_real();
        store_fault_calm(stage.ground.store);
        for (size_t i = 0; i < stage.count; i++) {
            assert_true(stage.files[i].error.status != HF_UNSURE);
            taken += stage.files[i].error.status == HF_OK;
        }
        assert_taken_once(&stage, 0);
        stage_close(&stage);
    }
    assert_true(taken > seeds * 12 * 3 / 4);
}

#define PATIENCE SPAN_MS(150)

/* From its first put on a store answers no get and no put for a while; that put is done or not. */
struct silence {
    bool does_it;
    struct span lasts;
    struct mono_time end;
    struct store *store; /* its retries are not limited here */
};

static struct fate be_silent(void *argument, struct script_call *call)
{
    struct silence *silence = argument;
    struct mono_time now = env_now(env_real());
    retry_budget_refund(store_budget(silence->store));
    if (silence->end.us > 0)
        return mono_before(now, silence->end) ? LOSE : PASS;
    if (!call->put)
        return PASS;
    silence->end = mono_add(now, silence->lasts);
    return silence->does_it ? LOSE_REPLY : LOSE;
}

/* Ingests two files with such a store. For PATIENCE: the add is given up, not yet condemned. */
static enum hf_status ingest_in_silence(struct stage *stage, bool does_it, struct span lasts)
{
    struct bed bed;
    struct script script;
    struct silence silence = { .does_it = does_it, .lasts = lasts, .store = &script.base };
    script_init(&script, stage->ground.store);
    script.ops.change = NULL;
    bed_open(&bed, &script.base);
    add_files(stage, 2);
    stage->options.patience = PATIENCE;
    script_rule(&script, .on = ON_GET | ON_PUT, .decide = be_silent, .argument = &silence);
    enum hf_status status =
        ingest_files(bed.tree, stage->files, stage->count, &stage->options, &stage->error);
    bed_close(&bed);
    store_close(&script.base);
    return status;
}

static void an_add_without_an_answer_is_asked_for_by_condemning(void **state)
{
    for (int does_it = 0; does_it < 2; does_it++) {
        struct stage stage;
        stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
        assert_status(does_it ? HF_OK : HF_UNAVAILABLE,
                      ingest_in_silence(&stage, does_it, PATIENCE), &stage.error);
        assert_taken_once(&stage, 0);
        if (!does_it) {
            struct census census;
            tree_listing_take(stage.other, &census);
            assert_int_equal(census.dead, 2);
            assert_int_equal(census_find(&census, stage.files[0].key)->state, CHUNK_CONDEMNED);
            tree_listing_release(&census);
        }
        stage_close(&stage);
    }
}

static void unsure_is_told_only_when_nothing_answers(void **state)
{
    for (int does_it = 0; does_it < 2; does_it++) {
        struct stage stage;
        stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
        assert_status(HF_UNSURE, ingest_in_silence(&stage, does_it, SPAN_S(3600)),
                      &stage.error);
        assert_int_equal(stage.files[1].error.status, HF_UNSURE);
        stage_close(&stage);
    }
}

/* ---- Memory -------------------------------------------------------------------------- */

static void an_allocation_that_fails_is_told_or_made_good(void **state)
{
    size_t told = 0;
    for (long failures = 0;; failures++) {
        struct stage stage;
        stage_open(&stage, state, /* plan */ NULL, /* settings */ NULL);
        add_files(&stage, 2);
        stage.bed->tree->env = other_world();
        alloc_fail_after(failures);
        enum hf_status status = ingest(&stage);
        bool failed = alloc_stop();
        stage.bed->tree->env = env_real();
        assert_true(status == HF_OK || status == HF_UNAVAILABLE);
        told += status != HF_OK;
        assert_taken_once(&stage, 0);
        stage_close(&stage);
        if (!failed)
            break;
    }
    assert_true(told > 10);
}

static const struct CMUnitTest rows[] = {
    IT("files become chunks", files_become_chunks),
    IT("a file of rows that cannot be read is refused",
       a_file_of_rows_that_cannot_be_read_is_refused),
    IT("many files are added in one write", many_files_are_added_in_one_write),
    IT("a file that cannot be taken is told, and the rest goes on",
       a_file_that_cannot_be_taken_is_told_and_the_rest_goes_on),
    IT("without a time it is now", without_a_time_it_is_now),
    IT("what has no rows is taken as it is", what_has_no_rows_is_taken_as_it_is),
    IT("a name tells how its object is compressed", a_name_tells_how_its_object_is_compressed),
    IT("without a catalog nothing is put", without_a_catalog_nothing_is_put),
    IT("too many that wait are told in numbers", too_many_that_wait_are_told_in_numbers),
    IT("it waits until some are merged", it_waits_until_some_are_merged),
    IT("a split that came between changes the names",
       a_split_that_came_between_changes_the_names),
    IT("a full catalog is split", a_full_catalog_is_split),
    IT("with answers lost, each file is taken once or told",
       with_answers_lost_each_file_is_taken_once_or_told),
};
#define ROWS (sizeof rows / sizeof rows[0])

/* Nothing of these depends on the store. */
static const struct CMUnitTest mem_rows[] = {
    IT("what was put without an answer is found there",
       what_was_put_without_an_answer_is_found),
    IT("a request that makes no sense is refused", a_request_that_makes_no_sense_is_refused),
    IT("names that are too old are drawn anew", names_that_are_too_old_are_drawn_anew),
    IT("a file that changes meanwhile is not taken",
       a_file_that_changes_meanwhile_is_not_taken),
    IT("when it is stopped, what was put is added", when_it_is_stopped_what_was_put_is_added),
    IT("a name that was condemned meanwhile is replaced",
       a_name_that_was_condemned_meanwhile_is_replaced),
    IT("an add without an answer is asked for by condemning",
       an_add_without_an_answer_is_asked_for_by_condemning),
    IT("unsure is told only when nothing answers", unsure_is_told_only_when_nothing_answers),
    IT("an allocation that fails is told, or made good",
       an_allocation_that_fails_is_told_or_made_good),
};
#define MEM_ROWS (sizeof mem_rows / sizeof mem_rows[0])

int main(void)
{
    static char names[2 * ROWS + MEM_ROWS][160];
    struct CMUnitTest tests[2 * ROWS + MEM_ROWS];
    for (size_t i = 0; i < 2 * ROWS + MEM_ROWS; i++) {
        bool is_shared = i < 2 * ROWS;
        const char *kind = kinds[is_shared ? i / ROWS : 0];
        tests[i] = is_shared ? rows[i % ROWS] : mem_rows[i - 2 * ROWS];
        snprintf(names[i], sizeof names[i], "%s: %s", kind, tests[i].name);
        tests[i].name = names[i];
        tests[i].initial_state = (void *)(uintptr_t)kind;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
