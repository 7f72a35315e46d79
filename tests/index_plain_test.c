/* SPDX-License-Identifier: Apache-2.0 */
/* index_plain_test.c KIND plain: shards of bare records, beside which a sidecar has the rest. Other
 * programs read and rewrite them, and a compiler may die between its writes. KIND is mem or
 * sqlite. */
#include "index/plain.h"
#include "index/read.h"
#include "index_scene.h"
#include "lock/client_inside.h"

#include <stdio.h>
#include <stdlib.h>

#define SIDECAR_OBJECT    "shards/a3.json"
#define LINE(value, hour) AT("example.com", value, hour) "\n"

static void assert_text(struct scene *scene, const char *name, const char *expected)
{
    char *text = yard_read(&scene->yard, name);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static bool has_text(struct scene *scene, const char *name, const char *part)
{
    char *text = yard_read(&scene->yard, name);
    bool has = text && strstr(text, part);
    free(text);
    return has;
}

static void compile(struct scene *scene)
{
    crew_compile(&scene->other);
}

/* ---- The two objects ----------------------------------------------------------------- */

static void a_plain_shard_has_records_alone(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    yard_put(&scene->yard, AT("example.com", "new", "10"));
    compile(scene);
    assert_text(scene, SHARD_OBJECT, LINE("new", "10"));
    assert_true(has_text(scene, SIDECAR_OBJECT, "\"holdfast.plain/1\""));
    assert_true(has_text(scene, SIDECAR_OBJECT, "\"etag\":"));
    assert_true(has_text(scene, "index.json", "\"holdfast.index/2\""));
    assert_true(has_text(scene, "index.json", "\"plain\":true"));
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    assert_string_equal(scene_value(scene, "example.com"), "new");
    assert_int_equal(scene_keys(scene), 1);
}

/* Lookups in a large shard read one block of it, by the sidecar. */
static void a_sidecar_finds_blocks(void **state)
{
    struct scene *scene = *state;
    char value[2001];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    crew_fill(&scene->other, "a3", "k", 0, 500, value);
    yard_put(&scene->yard, AT("example.com", "v", "10"));
    compile(scene);
    meter_reset(&scene->yard.meter);
    assert_string_equal(scene_value(scene, "example.com"), "v");
    assert_in_range(yard_received(&scene->yard, CALL_GET), 1, 200000);
    /* Another program's version has no blocks, and is read whole. */
    char *text = yard_read(&scene->yard, SHARD_OBJECT);
    char *at = strstr(text, "example.com" US "v");
    memcpy(at, LINE("w", "11"), strlen(LINE("w", "11"))); /* it is as long */
    yard_write(&scene->yard, SHARD_OBJECT, view_of(text));
    free(text);
    assert_string_equal(scene_value(scene, "example.com"), "w");
    compile(scene);
    assert_string_equal(scene_value(scene, "example.com"), "w");
}

static void deletions_are_in_the_sidecar(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    compile(scene);
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    compile(scene);
    assert_text(scene, SHARD_OBJECT, "");
    assert_true(has_text(scene, SIDECAR_OBJECT, RECORD_DELETED "example.com"));
    assert_string_equal(scene_value(scene, "example.com"), "");
    assert_int_equal(scene_keys(scene), 0);
    yard_put(&scene->yard, AT("example.com", "new", "11"));
    compile(scene);
    assert_text(scene, SHARD_OBJECT, LINE("new", "11"));
    assert_false(has_text(scene, SIDECAR_OBJECT, RECORD_DELETED));
    assert_string_equal(scene_value(scene, "example.com"), "new");
}

/* ---- Other programs ------------------------------------------------------------------ */

static void what_another_program_writes_counts(void **state)
{
    static const char *const ends[] = { "\n", "\x1e", "\x1e\n", "" };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        void *own;
        scene_set_up(&own);
        struct scene *scene = own;
        char text[256];
        yard_put(&scene->yard, AT("example.com", "ours", "09"));
        compile(scene);
        /* Unsorted, and with an older record of the same key; of the same size as before or not. */
        snprintf(text, sizeof text, "%s%s%s%s", AT("example.com", "them", "10"), ends[0],
                 AT("example.com", "then", "08"), ends[i]);
        yard_write(&scene->yard, SHARD_OBJECT, view_of(text));
        assert_string_equal(scene_value(scene, "example.com"), "them");
        assert_int_equal(scene_keys(scene), 1);
        yard_put(&scene->yard, AT("example.com", "late", "07"));
        compile(scene);
        assert_text(scene, SHARD_OBJECT, LINE("them", "10"));
        assert_string_equal(scene_value(scene, "example.com"), "them");
        /* A version of the same size, which the sidecar must not be taken for. */
        yard_write(&scene->yard, SHARD_OBJECT, VIEW(LINE("they", "11")));
        assert_string_equal(scene_value(scene, "example.com"), "they");
        scene_tear_down(&own);
    }
}

static void write_theirs(void *argument)
{
    struct scene *scene = argument;
    yard_write(&scene->yard, SHARD_OBJECT, VIEW(LINE("theirs", "12")));
}

static void what_it_writes_meanwhile_is_not_lost(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    compile(scene);
    yard_put(&scene->yard, AT("example.com", "new", "10"));
    scene_happens(scene, CALL_PUT, SHARD_OBJECT, write_theirs);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_LOST);
    assert_int_equal(scene_waiting(scene, A3), 1);
    assert_text(scene, SHARD_OBJECT, LINE("theirs", "12"));
    compile(scene);
    assert_text(scene, SHARD_OBJECT, LINE("theirs", "12"));
}

/* Against the rules, it writes without a condition, right after our two writes. */
static void write_old_over_ours(void *argument)
{
    struct scene *scene = argument;
    yard_write(&scene->yard, SHARD_OBJECT, VIEW(LINE("old", "09")));
}

static void entries_stay_until_they_are_read_back(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    compile(scene);
    yard_put(&scene->yard, AT("example.com", "new", "10"));
    script_rule(&scene->gate, .name = "over", .on = ON_PUT, .part = SIDECAR_OBJECT, .times = 1,
                .after = write_old_over_ours, .argument = scene);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(script_met(&scene->gate, "over"), 1);
    assert_int_equal(report.end, HF_INDEX_END_LOST);
    assert_non_null(strstr(report.why.why, "another program"));
    assert_int_equal(scene_waiting(scene, A3), 1);
    assert_string_equal(scene_value(scene, "example.com"), "new");
    compile(scene);
    assert_text(scene, SHARD_OBJECT, LINE("new", "10"));
    assert_int_equal(scene_waiting(scene, A3), 0);
}

static void what_it_brings_back_stays_deleted(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    compile(scene);
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    compile(scene);
    /* The sidecar is newer than the shard. */
    yard_write(&scene->yard, SHARD_OBJECT, VIEW(LINE("old", "09")));
    assert_string_equal(scene_value(scene, "example.com"), "");
    assert_int_equal(scene_keys(scene), 0);
    crew_fill(&scene->other, "a3", "k", 0, 1, "v");
    compile(scene);
    assert_false(has_text(scene, SHARD_OBJECT, "example.com"));
    assert_string_equal(scene_value(scene, "example.com"), "");
    /* A later record is not. */
    yard_write(&scene->yard, SHARD_OBJECT, VIEW(LINE("again", "11")));
    assert_string_equal(scene_value(scene, "example.com"), "again");
}

static void a_shard_that_is_gone_keeps_its_deletions(void **state)
{
    struct scene *scene = *state;
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    compile(scene);
    char key[128];
    snprintf(key, sizeof key, "indexes/domains/%s", SHARD_OBJECT);
    struct delete_call call = { .key = view_of(key) };
    assert_int_equal(store_delete(scene->other.index->store, &call), HF_OK);
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    assert_string_equal(scene_value(scene, "example.com"), "");
    compile(scene);
    assert_text(scene, SHARD_OBJECT, "");
    assert_string_equal(scene_value(scene, "example.com"), "");
}

/* ---- Between the writes -------------------------------------------------------------- */

/* One record replaces another, one is deleted, and a deletion is replaced. */
static void set_up_changes(struct scene *scene, char keys[2][64])
{
    static const char *const names[2] = { "x", "y" };
    for (size_t i = 0; i < 2; i++) {
        unsigned salt = 0;
        do
            snprintf(keys[i], 64, "%s%u", names[i], salt++);
        while (strcmp(yard_shard(keys[i]).text, "a3") != 0);
    }
    char record[256];
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    snprintf(record, sizeof record, "%s" US "gone" US "2026-02-06T09:00:00Z", keys[0]);
    yard_put(&scene->yard, record);
    scene_delete(scene, keys[1], "2026-02-06T09:00:00Z");
    compile(scene);
    yard_put(&scene->yard, AT("example.com", "new", "10"));
    snprintf(record, sizeof record, "%s" US "back" US "2026-02-06T10:00:00Z", keys[1]);
    yard_put(&scene->yard, record);
    scene_delete(scene, keys[0], "2026-02-06T10:00:00Z");
}

static void assert_changed(struct scene *scene, char keys[2][64])
{
    assert_string_equal(scene_value(scene, "example.com"), "new");
    assert_string_equal(scene_value(scene, keys[0]), "");
    assert_string_equal(scene_value(scene, keys[1]), "back");
    assert_int_equal(scene_keys(scene), 2);
}

/* From this write of the pair on, all fail: the compiler is as good as dead. */
struct death {
    unsigned writes_left;
    struct fate fate;
    unsigned met;
};

static struct fate die(void *argument, struct script_call *call)
{
    struct death *death = argument;
    if (!view_ends_with(call->key, VIEW("a3.usv")) &&
        !view_ends_with(call->key, VIEW("a3.json")))
        return PASS;
    if (death->writes_left > 0) {
        death->writes_left--;
        return PASS;
    }
    death->met++;
    return death->fate;
}

static void whichever_write_fails_nothing_is_lost(void **state)
{
    static const struct fate fates[] = { { FATE_REFUSE, HF_DENIED },
                                         { FATE_LOSE, HF_UNSURE },
                                         { FATE_LOSE_REPLY, HF_UNSURE } };
    (void)state;
    for (size_t f = 0; f < 3; f++)
        for (unsigned writes = 0, met = 1; met > 0; writes++) {
            void *own;
            char keys[2][64];
            scene_set_up(&own);
            struct scene *scene = own;
            struct death death = { .writes_left = writes, .fate = fates[f] };
            set_up_changes(scene, keys);
            script_rule(&scene->gate, .name = "dies", .on = ON_PUT, .part = "shards/",
                        .decide = die, .argument = &death);
            struct compile_report report = crew_compile_shard(&scene->crew, A3);
            script_drop(&scene->gate, "dies");
            met = death.met;
            /* A lost reply does no harm; otherwise the entries stay. */
            if (met > 0 && fates[f].kind != FATE_LOSE_REPLY)
                assert_int_equal(scene_waiting(scene, A3), 3);
            else
                assert_int_equal(report.end, HF_INDEX_END_DONE);
            assert_changed(scene, keys);
            compile(scene);
            assert_changed(scene, keys);
            assert_int_equal(scene_waiting(scene, A3), 0);
            assert_false(has_text(scene, SHARD_OBJECT, keys[0]));
            scene_tear_down(&own);
            assert_in_range(writes, 0, 3); /* sidecar, shard, sidecar */
        }
}

static void look_for_deletion(void *argument)
{
    struct scene *scene = argument;
    assert_true(has_text(scene, SHARD_OBJECT, "example.com"));
    assert_true(has_text(scene, SIDECAR_OBJECT, RECORD_DELETED "example.com"));
    assert_int_equal(scene_keys(scene), 0);
}

static void a_deletion_comes_before_its_record_goes(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    compile(scene);
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    scene_happens(scene, CALL_PUT, SHARD_OBJECT, look_for_deletion);
    assert_int_equal(crew_compile_shard(&scene->crew, A3).end, HF_INDEX_END_DONE);
    assert_int_equal(script_met(&scene->gate, "happens"), 1);
}

static void delete_and_compile(void *argument)
{
    struct scene *scene = argument;
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    compile(scene);
}

/* The reader has listed an old entry. Between its reads of the sidecar and of the shard, the key is
 * deleted: neither the sidecar that it has read nor the shard has the key. */
static void a_reader_uses_a_pair(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "new", "09"));
    scene_delete(scene, "other.example",
                 NULL); /* so that the format does not change meanwhile */
    compile(scene);
    yard_write(&scene->yard, SHARD_OBJECT, VIEW(LINE("new", "09"))); /* it is read whole */
    yard_put(&scene->yard, AT("example.com", "older", "08"));
    scene_happens(scene, CALL_GET, SHARD_OBJECT, delete_and_compile);
    const char *value = scene_value(scene, "example.com");
    assert_int_equal(script_met(&scene->gate, "happens"), 1);
    assert_string_equal(value, "");
}

/* ---- Damage and limits --------------------------------------------------------------- */

static void a_damaged_sidecar_stops_its_shard(void **state)
{
    struct scene *scene = *state;
    struct buffer bytes = BUFFER_INIT(MIB);
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    compile(scene);
    char *whole = yard_read(&scene->yard, SIDECAR_OBJECT);
    yard_put(&scene->yard, AT("example.com", "late", "08"));
    for (size_t i = 0; i < strlen(whole); i += 7) {
        char saved = whole[i];
        whole[i] ^= 1;
        yard_write(&scene->yard, SIDECAR_OBJECT, view_of(whole));
        whole[i] = saved;
        enum hf_status status =
            index_get(scene->crew.index, VIEW("example.com"), &bytes, &scene->error);
        assert_true(status == HF_CORRUPT || status == HF_UNSUPPORTED);
        assert_non_null(strstr(scene->error.why, SIDECAR_OBJECT));
    }
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_FAILED);
    assert_int_equal(scene_waiting(scene, A3), 1);
    yard_write(&scene->yard, SIDECAR_OBJECT, view_of(whole));
    assert_string_equal(scene_value(scene, "example.com"), "");
    free(whole);
    buffer_release(&bytes);
}

static void what_is_no_record_is_left_alone(void **state)
{
    struct scene *scene = *state;
    static const char *const texts[] = {
        LINE("v", "10") "no record\n",
        RECORD_DELETED LINE("v", "10"),
        "{\"format\":\"holdfast.shard/1\"}\n",
        LINE("v", "10") AT("another", "shard", "10") "\n",
    };
    struct buffer bytes = BUFFER_INIT(MIB);
    scene_delete(scene, "example.com", "2026-02-06T08:00:00Z");
    for (size_t i = 0; i < 4; i++) {
        yard_write(&scene->yard, SHARD_OBJECT, view_of(texts[i]));
        assert_status(HF_CORRUPT,
                      index_get(scene->crew.index, VIEW("example.com"), &bytes, &scene->error),
                      &scene->error);
        assert_non_null(strstr(scene->error.why, "is not a record of it"));
        assert_int_equal(crew_compile_shard(&scene->crew, A3).end, HF_INDEX_END_FAILED);
        assert_text(scene, SHARD_OBJECT, texts[i]);
    }
    buffer_release(&bytes);
}

static void a_compiler_that_is_too_late_gives_up(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "new", "10"));
    scene->crew.client->space.settings.late_bound = SPAN_US(1);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_LOST);
    assert_non_null(strstr(report.why.why, "too long ago"));
    assert_false(yard_has(&scene->yard, SHARD_OBJECT));
    assert_int_equal(scene_waiting(scene, A3), 1);
}

/* Adds records of a megabyte until the writer refuses one. */
static size_t add_up_to_the_limit(bool deletions, struct hf_error *error)
{
    struct schema schema = yard_schema("domain,name,updated_at");
    struct shard_writer writer;
    size_t size = INDEX_RECORD_BYTES_MAX - 1, count = 0;
    char *bytes = malloc(size), key[16];
    enum hf_status status = HF_OK;
    assert_non_null(bytes);
    memset(bytes, 'x', size);
    assert_status(HF_OK,
                  shard_writer_init(&writer, &schema, 1, "0123456789abcdef0123456789abcdef",
                                    SHARD_BYTES_MAX, error),
                  error);
    writer.head.plain = true;
    while (status == HF_OK && count < 1000) {
        snprintf(key, sizeof key, "%08zu", count);
        struct record record = { .bytes = { bytes, size },
                                 .key = view_of(key),
                                 .deleted = deletions };
        status = shard_writer_add(&writer, &record, error);
        count += status == HF_OK;
    }
    assert_int_equal(status, HF_INVALID);
    shard_writer_release(&writer);
    free(bytes);
    return count;
}

static void a_plain_shard_is_bounded(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(add_up_to_the_limit(/* deletions */ false, &scene->error), 256);
    assert_non_null(strstr(scene->error.why, "256 MiB: an index with more digits"));
    assert_int_equal(add_up_to_the_limit(/* deletions */ true, &scene->error), 63);
    assert_non_null(strstr(scene->error.why, "64 MiB: an index with more digits"));
}

static void plain_never_changes(void **state)
{
    struct scene *scene = *state;
    struct schema schema = yard_schema("domain,name,updated_at,more");
    enum index_made made;
    schema.plain = false;
    assert_status(HF_INVALID,
                  index_create(scene->other.index->store, NULL, VIEW("domains"), &schema, &made,
                               &scene->error),
                  &scene->error);
    assert_non_null(strstr(scene->error.why, "plain"));
    assert_int_equal(yard_create(&scene->yard, "domain,name,updated_at,more"), INDEX_EXTENDED);
    yard_put(&scene->yard, AT("example.com", "v", "10"));
    compile(scene);
    assert_text(scene, SHARD_OBJECT, LINE("v", "10"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        COMPILES("a plain shard has records alone, and a sidecar with its ETag",
                 a_plain_shard_has_records_alone),
        COMPILES("a key is found by the blocks of the sidecar, or in the whole shard",
                 a_sidecar_finds_blocks),
        COMPILES("deletions are in the sidecar only", deletions_are_in_the_sidecar),
        IT("what another program writes counts, in any order and with any end",
           what_another_program_writes_counts),
        COMPILES("what another program writes meanwhile is not lost",
                 what_it_writes_meanwhile_is_not_lost),
        COMPILES("entries stay until the shard read back shows their records",
                 entries_stay_until_they_are_read_back),
        COMPILES("what another program brings back stays deleted",
                 what_it_brings_back_stays_deleted),
        COMPILES("a shard that is gone keeps its deletions",
                 a_shard_that_is_gone_keeps_its_deletions),
        IT("whichever write of a compiler fails, readers and the next compiler are right",
           whichever_write_fails_nothing_is_lost),
        COMPILES("a deletion is in the sidecar before its record leaves the shard",
                 a_deletion_comes_before_its_record_goes),
        COMPILES("a reader uses a shard with the sidecar of the same moment",
                 a_reader_uses_a_pair),
        COMPILES("a damaged sidecar stops its shard, and nothing is cleared",
                 a_damaged_sidecar_stops_its_shard),
        COMPILES("a shard with something else than records is left alone",
                 what_is_no_record_is_left_alone),
        COMPILES("a compiler that has read the shard too long ago does not write it",
                 a_compiler_that_is_too_late_gives_up),
        COMPILES("a plain shard has 256 MiB at most, and 64 MiB of deletions",
                 a_plain_shard_is_bounded),
        COMPILES("whether shards are plain never changes", plain_never_changes),
    };
    if (!yard_kind_set(argc, argv) || !yard_is_plain())
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
