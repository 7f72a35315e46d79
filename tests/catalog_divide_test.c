/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_divide_test.c: merges that are divided into ranges: their records, finished ranges, the
 * commit by the last range, and every way to give a merge up. */
#include "base/hash.h"
#include "catalog_kit.h"
#include "test.h"

#include <stdio.h>

/* ---- A merge of two chunks ----------------------------------------------------------- */

#define SOURCES 2
#define RANGES  3
#define ID      "00112233445566778899aabbccddeeff"

/* The bytes of each source, and where each range starts in it. */
static const char *const texts[SOURCES] = { "0123456789", "abcdefgh" };
static const uint64_t starts[RANGES][SOURCES] = { { 0, 0 }, { 4, 3 }, { 7, 3 } };

struct scene {
    struct catalog *catalog;
    struct view sources[SOURCES];
    struct range ranges[RANGES];
    struct divided_merge merge;
};

static struct catalog *marked_catalog(void)
{
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *catalog;
    struct hf_error error;
    settings.deleted = VIEW("4");
    assert_status(HF_OK,
                  catalog_new(VIEW(KIT_PARTITION), VIEW(""), 0, &settings, &catalog, &error),
                  &error);
    return catalog;
}

static struct chunk source_chunk(unsigned n)
{
    struct chunk chunk = kit_chunk(1, n);
    chunk.size = strlen(texts[n]);
    chunk.rows = 10;
    chunk.crc32c = crc32c(0, view_of(texts[n]));
    return chunk;
}

/* With a time of the newest marker, the first source has two markers. */
static struct scene scene_with_markers(int64_t marker_ms)
{
    struct scene scene = { .catalog = marker_ms ? marked_catalog() : kit_catalog() };
    struct chunk chunks[SOURCES];
    for (unsigned i = 0; i < SOURCES; i++) {
        chunks[i] = source_chunk(i);
        chunks[i].markers.known = marker_ms > 0;
        scene.sources[i] = chunks[i].key;
    }
    if (marker_ms > 0)
        chunks[0].markers =
            (struct chunk_markers){ .known = true, .count = 2, .ms = marker_ms };
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = chunks, .chunk_count = SOURCES };
    assert_status(HF_OK, kit_apply(scene.catalog, &op, catalog_kit_at(1)), &op.error);
    return scene;
}

static struct scene new_scene(void)
{
    return scene_with_markers(0);
}

static struct divided_merge merge_of(struct scene *scene, const char *id)
{
    static const char *const firsts[RANGES] = { "", "34", "37" };
    for (size_t i = 0; i < RANGES; i++)
        scene->ranges[i] = (struct range){ .from = view_of(firsts[i]), .starts = starts[i] };
    return (struct divided_merge){ .id = view_of(id),
                                   .level = 2,
                                   .sources = scene->sources,
                                   .source_count = SOURCES,
                                   .ranges = scene->ranges,
                                   .range_count = RANGES };
}

static enum hf_status divide(struct scene *scene, const struct divided_merge *merge)
{
    struct catalog_op op = { .kind = CATALOG_DIVIDE, .merge = merge };
    return kit_apply(scene->catalog, &op, catalog_kit_at(2));
}

static struct scene divided_scene(void)
{
    struct scene scene = new_scene();
    struct divided_merge merge = merge_of(&scene, ID);
    assert_int_equal(divide(&scene, &merge), HF_OK);
    return scene;
}

/* The output of a range: 7, 7 and 6 rows in, of which one is superseded in each. */
struct output {
    size_t range;
    unsigned number;
    uint64_t rows_in;
    bool wrong_crc;
    bool drops; /* markers are dropped: this many, instead of superseded rows */
    uint64_t deleted;
    int64_t seconds;
};

static struct catalog_op enter(struct scene *scene, struct output output)
{
    uint64_t crcs[SOURCES];
    uint64_t rows_in = output.rows_in ? output.rows_in : output.range == 2 ? 6 : 7;
    for (size_t i = 0; i < SOURCES; i++) {
        uint64_t from = starts[output.range][i];
        uint64_t to =
            output.range + 1 < RANGES ? starts[output.range + 1][i] : strlen(texts[i]);
        crcs[i] = crc32c(0, (struct view){ texts[i] + from, (size_t)(to - from) });
    }
    crcs[0] ^= output.wrong_crc;
    struct catalog_op op = { .kind = CATALOG_RANGE,
                             .id = VIEW(ID),
                             .range = output.range,
                             .target = kit_chunk(2, output.number),
                             .rows_in = rows_in,
                             .superseded = output.deleted ? 0 : 1,
                             .deleted = output.deleted,
                             .drops_markers = output.drops,
                             .crcs = crcs };
    struct evidence at = catalog_kit_at(output.seconds ? output.seconds : 3);
    op.drawn = at.now;
    op.target.rows = rows_in - (output.deleted ? output.deleted : 1);
    kit_apply(scene->catalog, &op, at);
    op.crcs = NULL;
    return op;
}

static enum condemned condemn_range(struct scene *scene, unsigned output, size_t range,
                                    enum hf_compact_blame blame, struct view culprit)
{
    char name[RANGE_LEASE_MAX + 1];
    struct divided_merge merge = merge_of(scene, ID);
    struct view key = kit_key(2, output);
    struct view lease = view_of(range_lease_name(VIEW(KIT_PARTITION), &merge, range, name));
    enum condemned answer = CONDEMN_HAPPENED;
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = &key,
                             .key_count = 1,
                             .blame = blame,
                             .sources = &lease,
                             .source_count = 1,
                             .culprit = culprit,
                             .reason = VIEW("it broke"),
                             .ret_condemned = &answer };
    assert_status(HF_OK, kit_apply(scene->catalog, &op, catalog_kit_at(4)), &op.error);
    return answer;
}

static void reload(struct scene *scene)
{
    struct catalog *again = catalog_kit_reload(scene->catalog, NULL, 5);
    catalog_free(scene->catalog);
    scene->catalog = again;
    catalog_check(again);
}

static void expect_state(const struct scene *scene, unsigned number, enum chunk_state state)
{
    assert_string_equal(chunk_state_name(catalog_state(scene->catalog, kit_key(2, number))),
                        chunk_state_name(state));
}

/* ---- What goes well ------------------------------------------------------------------ */

static void the_last_range_commits_whichever_it_is(void **state)
{
    static const size_t orders[][RANGES] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 2, 0 } };
    (void)state;
    for (size_t o = 0; o < 3; o++) {
        struct scene scene = divided_scene();
        for (unsigned i = 0; i < RANGES; i++) {
            unsigned number = 10 + (unsigned)orders[o][i];
            struct catalog_op op =
                enter(&scene, (struct output){ .range = orders[o][i], .number = number });
            assert_status(HF_OK, op.error.status, &op.error);
            assert_int_equal(op.committed, i == RANGES - 1);
            expect_state(&scene, number, i < RANGES - 1 ? CHUNK_PENDING : CHUNK_LIVE);
            reload(&scene);
        }
        assert_int_equal(scene.catalog->merge_count, 0);
        assert_int_equal(scene.catalog->live_count, RANGES);
        for (unsigned i = 0; i < RANGES; i++) { /* in the order of their keys */
            assert_true(view_equal(scene.catalog->live[i].key, kit_key(2, 10 + i)));
            assert_true(view_equal(scene.catalog->live[i].run, VIEW(ID)));
        }
        assert_int_equal(scene.catalog->graves[0].count, SOURCES);
        assert_int_equal(scene.catalog->graves[0].target_count, RANGES);
        catalog_free(scene.catalog);
    }
}

static void a_repeated_range_is_told_as_done(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    for (unsigned i = 0; i < RANGES; i++) {
        enter(&scene, (struct output){ .range = i, .number = 10 + i });
        struct catalog_op op = enter(&scene, (struct output){ .range = i, .number = 10 + i });
        assert_status(HF_OK, op.error.status, &op.error);
        assert_true(op.already && !op.changed);
        assert_int_equal(op.committed, i == RANGES - 1);
    }
    struct catalog_op op = enter(&scene, (struct output){ .range = 0, .number = 10 });
    assert_true(op.already && op.committed);
    catalog_free(scene.catalog);
}

/* ---- What is refused ----------------------------------------------------------------- */

static void a_range_is_done_once(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    enter(&scene, (struct output){ .range = 1, .number = 11 });
    assert_int_equal(enter(&scene, (struct output){ .range = 1, .number = 99 }).error.status,
                     HF_CONFLICT);
    expect_state(&scene, 99, CHUNK_UNKNOWN);
    assert_int_equal(kit_condemn(scene.catalog, kit_key(2, 98), catalog_kit_at(3)),
                     CONDEMN_DONE);
    assert_int_equal(enter(&scene, (struct output){ .range = 2, .number = 98 }).error.status,
                     HF_CONFLICT);
    catalog_free(scene.catalog);
}

static void sums_that_differ_are_not_committed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct scene scene = divided_scene();
        enter(&scene, (struct output){ .range = 0, .number = 10 });
        enter(&scene, (struct output){ .range = 1, .number = 11, .wrong_crc = i == 0 });
        struct catalog_op op =
            enter(&scene,
                  (struct output){ .range = 2, .number = 12, .rows_in = i == 0 ? 6 : 5 });
        assert_int_equal(op.error.status, HF_CORRUPT);
        assert_true(op.wrong_sum);
        assert_int_equal(scene.catalog->live_count, SOURCES);
        expect_state(&scene, 10, CHUNK_PENDING);
        expect_state(&scene, 12, CHUNK_UNKNOWN);
        catalog_free(scene.catalog);
    }
}

static void a_record_is_checked(void **state)
{
    (void)state;
    struct scene scene = new_scene();
    struct divided_merge merge = merge_of(&scene, ID);
    merge.range_count = 1;
    assert_int_equal(divide(&scene, &merge), HF_INVALID);
    merge = merge_of(&scene, "short");
    assert_int_equal(divide(&scene, &merge), HF_INVALID);
    merge = merge_of(&scene, ID);
    scene.ranges[2].from = VIEW("33");
    assert_int_equal(divide(&scene, &merge), HF_INVALID);
    merge = merge_of(&scene, ID);
    scene.ranges[2].starts = starts[0];
    assert_int_equal(divide(&scene, &merge), HF_INVALID);
    merge = merge_of(&scene, ID);
    scene.sources[1] = kit_key(1, 77);
    assert_int_equal(divide(&scene, &merge), HF_CONFLICT);
    scene.sources[1] = kit_key(1, 1);
    assert_int_equal(divide(&scene, &merge), HF_OK);
    assert_int_equal(divide(&scene, &merge), HF_OK); /* a lost reply */
    assert_int_equal(scene.catalog->merge_count, 1);
    merge = merge_of(&scene, "ffffffffffffffffffffffffffffffff");
    assert_int_equal(divide(&scene, &merge), HF_CONFLICT);
    catalog_free(scene.catalog);
}

/* ---- Giving up ----------------------------------------------------------------------- */

static void a_condemn_spares_what_is_done(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    enter(&scene, (struct output){ .range = 0, .number = 10 });
    assert_int_equal(condemn_range(&scene, 10, 0, HF_COMPACT_BLAME_GROUP, VIEW("")),
                     CONDEMN_HAPPENED);
    expect_state(&scene, 10, CHUNK_PENDING);
    assert_int_equal(scene.catalog->merges[0].ranges[0].tries, 0);
    catalog_free(scene.catalog);
}

static void too_many_tries_of_a_range_give_the_merge_up(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    enter(&scene, (struct output){ .range = 0, .number = 10 });
    enter(&scene, (struct output){ .range = 2, .number = 12 });
    for (unsigned i = 0; i < 2; i++) {
        condemn_range(&scene, 20 + i, 1, HF_COMPACT_BLAME_GROUP, VIEW(""));
        condemn_range(&scene, 20 + i, 1, HF_COMPACT_BLAME_GROUP, VIEW("")); /* settled again */
        condemn_range(&scene, 30 + i, 1, HF_COMPACT_BLAME_NOBODY, VIEW(""));
        reload(&scene);
        assert_int_equal(scene.catalog->merges[0].ranges[1].tries, i + 1);
        assert_int_equal(scene.catalog->live[0].tries, 0);
    }
    condemn_range(&scene, 22, 1, HF_COMPACT_BLAME_GROUP, VIEW(""));
    assert_int_equal(scene.catalog->merge_count, 0);
    for (unsigned i = 0; i < SOURCES; i++)
        assert_int_equal(scene.catalog->live[i].tries, 1);
    expect_state(&scene, 10, CHUNK_CONDEMNED);
    expect_state(&scene, 12, CHUNK_CONDEMNED);
    /* The merge is gone, for a worker that comes late, too. */
    assert_int_equal(enter(&scene, (struct output){ .range = 1, .number = 11 }).error.status,
                     HF_CONFLICT);
    reload(&scene);
    catalog_free(scene.catalog);
}

static void a_culprit_gives_the_merge_up_at_once(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    enter(&scene, (struct output){ .range = 0, .number = 10 });
    condemn_range(&scene, 20, 1, HF_COMPACT_BLAME_CHUNK, kit_key(1, 1));
    assert_int_equal(scene.catalog->merge_count, 0);
    expect_state(&scene, 10, CHUNK_CONDEMNED);
    assert_int_equal(scene.catalog->live[0].tries, 0);
    assert_true(scene.catalog->live[1].quarantine.size > 0);
    catalog_free(scene.catalog);
}

static void a_merge_without_all_its_sources_is_given_up(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    struct view key = kit_key(1, 0);
    enter(&scene, (struct output){ .range = 0, .number = 10 });
    kit_maintain(scene.catalog, catalog_kit_at(4));
    assert_int_equal(scene.catalog->merge_count, 1);
    struct catalog_op op = {
        .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = VIEW("so")
    };
    assert_status(HF_OK, kit_apply(scene.catalog, &op, catalog_kit_at(4)), &op.error);
    assert_int_equal(enter(&scene, (struct output){ .range = 1, .number = 11 }).error.status,
                     HF_CONFLICT);
    expect_state(&scene, 10, CHUNK_PENDING);
    kit_maintain(scene.catalog, catalog_kit_at(5));
    assert_int_equal(scene.catalog->merge_count, 0);
    expect_state(&scene, 10, CHUNK_CONDEMNED);
    catalog_free(scene.catalog);
}

/* Nobody would ever commit it, and its sources would be in no other merge. */
static void a_record_without_a_range_to_do_is_given_up(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    enter(&scene, (struct output){ .range = 0, .number = 10 });
    enter(&scene, (struct output){ .range = 1, .number = 11 });
    scene.catalog->merges[0].range_count = 2;
    kit_maintain(scene.catalog, catalog_kit_at(5));
    assert_int_equal(scene.catalog->merge_count, 0);
    expect_state(&scene, 10, CHUNK_CONDEMNED);
    expect_state(&scene, 11, CHUNK_CONDEMNED);
    catalog_free(scene.catalog);
}

/* An earlier version of the program preserves the record, and does not know that the output is in
 * it. */
static void an_output_that_an_old_program_condemned_is_made_again(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    enter(&scene, (struct output){ .range = 0, .number = 10 });
    struct buffer text = catalog_kit_encode(scene.catalog);
    char changed[8192];
    struct catalog *catalog;
    struct hf_error error;
    const char *deleting = strstr(buffer_text(&text), "\"deleting\":[");
    snprintf(changed, sizeof changed,
             "%.*s\"deleting\":[{\"how\":\"condemned\",\"since\":\"0000000000000001:5\","
             "\"keys\":[\"%.*s\"]}%s",
             (int)(deleting - buffer_text(&text)), buffer_text(&text),
             VIEW_ARGS(kit_key(2, 10)), deleting + strlen("\"deleting\":["));
    assert_status(HF_OK, kit_decode(changed, &catalog, &error), &error);
    catalog_check(catalog);
    assert_int_equal(catalog_state(catalog, kit_key(2, 10)), CHUNK_CONDEMNED);
    assert_false(catalog->merges[0].ranges[0].done);
    catalog_free(catalog);
    buffer_release(&text);
    catalog_free(scene.catalog);
}

/* ---- Undelete ------------------------------------------------------------------------ */

static enum hf_status undelete(struct scene *scene, struct view key)
{
    struct catalog_op op = { .kind = CATALOG_UNDELETE, .keys = &key, .key_count = 1 };
    return kit_apply(scene->catalog, &op, catalog_kit_at(6));
}

static void undelete_undoes_the_whole_merge(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    for (unsigned i = 0; i < RANGES; i++)
        enter(&scene, (struct output){ .range = i, .number = 10 + i });
    reload(&scene);
    assert_int_equal(undelete(&scene, kit_key(1, 1)), HF_OK);
    assert_int_equal(scene.catalog->live_count, SOURCES);
    for (unsigned i = 0; i < RANGES; i++)
        expect_state(&scene, 10 + i, CHUNK_TOMBSTONE);
    catalog_free(scene.catalog);
}

static void undelete_needs_all_targets(void **state)
{
    (void)state;
    struct scene scene = divided_scene();
    struct catalog_op op;
    for (unsigned i = 0; i < RANGES; i++)
        enter(&scene, (struct output){ .range = i, .number = 10 + i });
    assert_int_equal(kit_commit(scene.catalog, &op, 3, 1, 11, 1, catalog_kit_at(5)), HF_OK);
    assert_int_equal(undelete(&scene, kit_key(1, 1)), HF_CONFLICT);
    assert_int_equal(scene.catalog->live_count, RANGES);
    catalog_free(scene.catalog);
}

/* ---- Deletion markers ---------------------------------------------------------------- */

/* Markers may be dropped after twice D. All records of the kit are later than this marker. */
#define OLD_S     201000
#define MARKER_MS INT64_C(1000)

static struct scene marked_scene(int64_t marker_ms)
{
    struct scene scene = scene_with_markers(marker_ms);
    struct divided_merge merge = merge_of(&scene, ID);
    merge.drops_markers = true;
    assert_int_equal(divide(&scene, &merge), HF_OK);
    return scene;
}

static struct catalog_op enter_without(struct scene *scene, size_t range, unsigned number,
                                       uint64_t deleted)
{
    return enter(scene, (struct output){ .range = range,
                                         .number = number,
                                         .drops = true,
                                         .deleted = deleted,
                                         .seconds = OLD_S });
}

static void ranges_drop_markers_together(void **state)
{
    (void)state;
    struct scene scene = marked_scene(MARKER_MS);
    enter_without(&scene, 0, 10, 1);
    assert_false(scene.catalog->has_floor);
    reload(&scene);
    enter_without(&scene, 1, 11, 0);
    reload(&scene);
    assert_true(scene.catalog->merges[0].drops_markers);
    assert_int_equal(scene.catalog->merges[0].ranges[0].deleted, 1);
    struct catalog_op op = enter_without(&scene, 2, 12, 1);
    assert_status(HF_OK, op.error.status, &op.error);
    assert_true(op.committed && !op.needs_markers);
    assert_true(scene.catalog->has_floor && scene.catalog->floor_ms == MARKER_MS);
    for (unsigned i = 0; i < RANGES; i++) {
        const struct chunk *target = &scene.catalog->live[i];
        assert_true(target->markers.known && target->markers.count == 0);
    }
    catalog_free(scene.catalog);
}

/* A chunk that begins no later than the marker. */
static void add_older(struct scene *scene)
{
    struct chunk chunk = kit_chunk(0, 70);
    chunk.min_ms = 1;
    chunk.markers.known = true;
    struct catalog_op op = { .kind = CATALOG_ADD,
                             .chunks = &chunk,
                             .chunk_count = 1,
                             .drawn = catalog_kit_at(OLD_S).now };
    assert_status(HF_OK, kit_apply(scene->catalog, &op, catalog_kit_at(OLD_S)), &op.error);
}

/* Only the ranges that dropped something are merged again. */
static void markers_that_must_be_kept_come_back(void **state)
{
    (void)state;
    for (size_t last = 0; last < RANGES; last++) {
        struct scene scene = marked_scene(MARKER_MS);
        for (size_t i = 0; i < RANGES; i++)
            if (i != last)
                enter_without(&scene, i, 10 + (unsigned)i, i == 1 ? 0 : 1);
        add_older(&scene);
        struct catalog_op op =
            enter_without(&scene, last, 10 + (unsigned)last, last == 1 ? 0 : 1);
        assert_status(HF_OK, op.error.status, &op.error);
        assert_true(op.changed && !op.committed);
        assert_int_equal(op.needs_markers, last != 1);
        reload(&scene);
        assert_false(scene.catalog->merges[0].drops_markers || scene.catalog->has_floor);
        for (unsigned i = 0; i < RANGES; i++) {
            assert_int_equal(scene.catalog->merges[0].ranges[i].done, i == 1);
            expect_state(&scene, 10 + i, i == 1 ? CHUNK_PENDING : CHUNK_CONDEMNED);
        }
        /* A range that was merged before, and lacks its marker, is refused. */
        op = enter_without(&scene, 0, 20, 1);
        assert_int_equal(op.error.status, HF_CONFLICT);
        assert_true(op.needs_markers);
        enter(&scene, (struct output){ .range = 0, .number = 30, .seconds = OLD_S });
        op = enter(&scene, (struct output){ .range = 2, .number = 32, .seconds = OLD_S });
        assert_status(HF_OK, op.error.status, &op.error);
        assert_true(op.committed);
        const struct chunk *kept = catalog_find(scene.catalog, kit_key(2, 30));
        assert_true(kept->markers.known && kept->markers.count == 2);
        assert_true(kept->markers.ms == MARKER_MS);
        catalog_free(scene.catalog);
    }
}

static void young_markers_are_kept(void **state)
{
    (void)state;
    struct scene scene = marked_scene(MARKER_MS);
    for (unsigned i = 0; i < RANGES; i++) {
        struct catalog_op op = enter(&scene, (struct output){ .range = i,
                                                              .number = 10 + i,
                                                              .drops = true,
                                                              .deleted = 1,
                                                              .seconds = OLD_S - 2000 });
        assert_int_equal(op.needs_markers, i == RANGES - 1);
    }
    assert_int_equal(scene.catalog->merge_count, 1);
    expect_state(&scene, 10, CHUNK_CONDEMNED);
    catalog_free(scene.catalog);
}

/* ---- Names --------------------------------------------------------------------------- */

static void a_lease_name_is_read_back(void **state)
{
    char name[RANGE_LEASE_MAX + 1];
    struct scene scene = new_scene();
    struct divided_merge merge = merge_of(&scene, ID);
    struct view id;
    size_t range;
    (void)state;
    struct view written = view_of(range_lease_name(VIEW("some.part"), &merge, 63, name));
    assert_true(view_equal(layout_home(written), VIEW("some.part")));
    assert_true(range_lease_parse(written, &id, &range));
    assert_true(view_equal(id, VIEW(ID)));
    assert_int_equal(range, 63);
    const char *const others[] = { "",
                                   "data/",
                                   "data/p/L2/2026/11/x.usv",
                                   "data/p/L2/range/x.1",
                                   "data/p/L2/range/" ID,
                                   "data/p/L2/range/" ID ".64" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(range_lease_parse(view_of(others[i]), &id, &range));
    catalog_free(scene.catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the last range commits, whichever it is", the_last_range_commits_whichever_it_is),
        IT("a repeated range is told as done", a_repeated_range_is_told_as_done),
        IT("a range is done once, and not by a condemned output", a_range_is_done_once),
        IT("sums that differ are not committed", sums_that_differ_are_not_committed),
        IT("a record is checked", a_record_is_checked),
        IT("a condemn spares what is done", a_condemn_spares_what_is_done),
        IT("too many tries of a range give the merge up",
           too_many_tries_of_a_range_give_the_merge_up),
        IT("a culprit gives the merge up at once", a_culprit_gives_the_merge_up_at_once),
        IT("a merge without all its sources is given up",
           a_merge_without_all_its_sources_is_given_up),
        IT("a record of which all ranges are done is given up",
           a_record_without_a_range_to_do_is_given_up),
        IT("an output that an old program condemned is made again",
           an_output_that_an_old_program_condemned_is_made_again),
        IT("undelete undoes the whole merge", undelete_undoes_the_whole_merge),
        IT("undelete needs all targets", undelete_needs_all_targets),
        IT("ranges drop deletion markers together, and raise the floor",
           ranges_drop_markers_together),
        IT("if markers must be kept, the ranges that dropped some are merged again",
           markers_that_must_be_kept_come_back),
        IT("markers that were ingested less than twice D ago are kept", young_markers_are_kept),
        IT("a lease name is read back", a_lease_name_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
