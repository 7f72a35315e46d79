/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_tree_test.c: catalogs as documents, and their tree, on real stores: several clients add,
 * commit and split at once, replies are lost, and every chunk must be there once. */
#include "catalog_tree_kit.h"

#include "alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = { "mem", "sqlite" };

static const char *kind_of(void **state)
{
    return *state;
}

static void ignore(void *argument, const struct catalog *catalog,
                   const struct evidence *evidence)
{
    (void)argument;
    (void)catalog;
    (void)evidence;
}

static enum hf_status pass(void *argument, struct catalog_ref *ref,
                           const struct catalog *catalog, const struct evidence *evidence,
                           const struct hf_error *why)
{
    (void)argument;
    (void)ref;
    (void)catalog;
    (void)evidence;
    (void)why;
    return HF_OK;
}

/* ---- Making one ---------------------------------------------------------------------- */

static void none_is_told_at_once(void **state)
{
    struct ground ground;
    ground_open(&ground, kind_of(state), NULL, 1);
    struct bed *bed = &ground.beds[0];
    char partition[PARTITION_BYTES_MAX + 1];
    assert_status(HF_NOT_FOUND, catalog_ref_show(slot_of(bed, NULL), ignore, NULL, &bed->error),
                  &bed->error);
    assert_non_null(strstr(bed->error.why, "compact create"));
    assert_status(HF_NOT_FOUND, add_chunks(bed, NULL, 1, 1, NULL), &bed->error);
    assert_non_null(strstr(bed->error.why, "compact create"));
    assert_status(HF_NOT_FOUND, catalog_tree_walk(bed->tree, pass, NULL, &bed->error),
                  &bed->error);
    assert_status(HF_NOT_FOUND,
                  catalog_tree_home(bed->tree, VIEW("a"), SOME_HOUR, partition, &bed->error),
                  &bed->error);
    assert_status(HF_NOT_FOUND, catalog_ref_split(slot_of(bed, NULL), &bed->error),
                  &bed->error);
    assert_int_equal(count_objects(&ground, ""), 0);
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 1, 1, NULL), &bed->error);
    ground_close(&ground);
}

static void same_settings_are_fine(void **state)
{
    struct ground ground;
    ground_open(&ground, kind_of(state), NULL, 2);
    struct compact_settings settings = some_settings();
    struct bed *other = &ground.beds[1];
    ground_create(&ground);
    ground_create(&ground);
    assert_status(HF_OK, catalog_tree_create(other->tree, &settings, &other->error),
                  &other->error);
    settings.level0_count = 7;
    assert_status(HF_CONFLICT, catalog_tree_create(other->tree, &settings, &other->error),
                  &other->error);
    settings.level0_count = 0;
    assert_status(HF_INVALID, catalog_tree_create(other->tree, &settings, &other->error),
                  &other->error);
    ground_close(&ground);
}

struct creator {
    struct bed *bed;
    uint64_t level0_count;
    enum hf_status status;
};

static void create_one(void *argument)
{
    struct creator *creator = argument;
    struct compact_settings settings = some_settings();
    settings.level0_count = creator->level0_count;
    creator->status = catalog_tree_create(creator->bed->tree, &settings, &creator->bed->error);
}

static void one_creator_wins(void **state)
{
    struct ground ground;
    struct creator creators[4];
    struct env_task *tasks[4];
    size_t done = 0;
    ground_open(&ground, kind_of(state), NULL, 4);
    for (size_t i = 0; i < 4; i++) {
        creators[i] = (struct creator){ .bed = &ground.beds[i], .level0_count = 10 + i };
        assert_status(HF_OK,
                      env_task_start(env_real(), create_one, &creators[i], &tasks[i],
                                     &ground.beds[i].error),
                      &ground.beds[i].error);
    }
    for (size_t i = 0; i < 4; i++)
        env_task_join(env_real(), tasks[i]);
    for (size_t i = 0; i < 4; i++) {
        done += creators[i].status == HF_OK;
        assert_true(creators[i].status == HF_OK || creators[i].status == HF_CONFLICT);
    }
    assert_int_equal(done, 1);
    ground_close(&ground);
}

static void create_survives_a_lost_reply(void **state)
{
    struct ground ground;
    const struct fault_plan plan = { .seed = 7, .lose_reply = 1000000 };
    ground_open(&ground, kind_of(state), &plan, 1);
    ground_create(&ground);
    ground_create(&ground);
    ground_close(&ground);
}

/* ---- Damage -------------------------------------------------------------------------- */

static void damage_stays(void **state)
{
    struct ground ground;
    struct census census;
    ground_open(&ground, kind_of(state), NULL, 1);
    struct bed *bed = &ground.beds[0];
    struct compact_settings settings = some_settings();
    put_bytes(&ground, "metadata/catalog.json", VIEW("{ \"format\": \"holdfast.cata"));
    assert_status(HF_CORRUPT, add_chunks(bed, NULL, 1, 1, NULL), &bed->error);
    assert_non_null(strstr(bed->error.why, "metadata/catalog.json"));
    assert_status(HF_CORRUPT, catalog_tree_create(bed->tree, &settings, &bed->error),
                  &bed->error);
    assert_non_null(strstr(bed->error.why, "metadata/catalog.json"));
    assert_status(HF_CORRUPT, catalog_ref_show(slot_of(bed, NULL), ignore, NULL, &bed->error),
                  &bed->error);
    assert_non_null(strstr(bed->error.why, "metadata/catalog.json"));
    tree_listing_take(bed, &census);
    assert_int_equal(census.unreadable, 1);
    tree_listing_release(&census);
    char *bytes = get_bytes(&ground, "metadata/catalog.json");
    assert_string_equal(bytes, "{ \"format\": \"holdfast.cata");
    free(bytes);
    ground_close(&ground);
}

static void a_copy_is_not_the_one_of_its_place(void **state)
{
    struct ground ground;
    ground_open(&ground, kind_of(state), NULL, 1);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    char *bytes = get_bytes(&ground, "metadata/catalog.json");
    put_bytes(&ground, "metadata/copy/catalog.json", view_of(bytes));
    assert_status(HF_CORRUPT, add_chunks(bed, "copy", 1, 1, NULL), &bed->error);
    assert_non_null(strstr(bed->error.why, "metadata/copy/catalog.json"));
    free(bytes);
    ground_close(&ground);
}

static void a_missing_child_stops_itself_only(void **state)
{
    struct ground ground;
    struct census census;
    ground_open(&ground, kind_of(state), NULL, 2);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 800, 200, NULL), &bed->error);
    struct catalog_ref *root = slot_of(bed, NULL);
    assert_status(HF_OK, catalog_ref_split(root, &bed->error), &bed->error);
    char key[KEY_BYTES_MAX + 1];
    assert_true(layout_partition_key(view_of(root->route.children[3]), LAYOUT_CATALOG, key));
    struct delete_call gone = { .key = view_of(key) };
    assert_status(HF_OK, store_delete(ground.store, &gone), &gone.error);
    assert_true(layout_partition_key(view_of(root->route.children[5]), LAYOUT_CATALOG, key));
    put_bytes(&ground, key, VIEW("{}"));
    tree_listing_take(&ground.beds[1], &census);
    assert_int_equal(census.catalogs, 9);
    assert_int_equal(census.unreadable, 2);
    assert_true(census.live > 0 && census.live < 800);
    tree_listing_release(&census);
    ground_close(&ground);
}

static void no_walk_in_circles(void **state)
{
    struct ground ground;
    struct census census;
    ground_open(&ground, kind_of(state), NULL, 2);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    struct catalog_ref *root = slot_of(bed, NULL);
    assert_status(HF_OK, catalog_ref_split(root, &bed->error), &bed->error);
    /* A child that names its cousins as its children. */
    struct catalog_ref *child = slot_of(bed, root->route.children[0]);
    struct catalog_op op = { .kind = CATALOG_SPLIT, .drawn = env_now(env_real()) };
    struct catalog *none;
    struct compact_settings settings = some_settings();
    assert_status(HF_OK, catalog_new(VIEW("none"), VIEW(""), 0, &settings, &none, &bed->error),
                  &bed->error);
    op.live_hash = catalog_live_hash(none);
    catalog_free(none);
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        op.children[i] = view_of(root->route.children[i ? i : 1]);
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        if (i == 0)
            op.children[i] = VIEW("default");
    assert_status(HF_OK, catalog_ref_apply(child, &op, (struct mono_time){ 0 }), &op.error);
    tree_listing_take(&ground.beds[1], &census);
    assert_int_equal(census.catalogs, 17);
    assert_int_equal(census.unreadable, 8);
    tree_listing_release(&census);
    ground_close(&ground);
}

/* ---- Splitting ----------------------------------------------------------------------- */

struct order_seen {
    size_t count;
    char seen[64][PARTITION_BYTES_MAX + 1];
};

static enum hf_status note_order(void *argument, struct catalog_ref *ref,
                                 const struct catalog *catalog, const struct evidence *evidence,
                                 const struct hf_error *why)
{
    (void)evidence;
    (void)why;
    struct order_seen *order = argument;
    bool parent_seen = catalog->parent.size == 0;
    for (size_t i = 0; i < order->count; i++)
        parent_seen |= view_equal(view_of(order->seen[i]), catalog->parent);
    assert_true(parent_seen);
    snprintf(order->seen[order->count++], PARTITION_BYTES_MAX + 1, "%s", ref->partition);
    return HF_OK;
}

static void a_split_moves_all(void **state)
{
    struct ground ground;
    struct census before, after;
    struct order_seen order = { .count = 0 };
    static char keys[1000][KEY_BYTES_MAX + 1];
    ground_open(&ground, kind_of(state), NULL, 2);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 1000, 100, keys), &bed->error);
    const struct view bad = view_of(keys[10]);
    struct catalog_op quarantine = {
        .kind = CATALOG_QUARANTINE, .keys = &bad, .key_count = 1, .reason = VIEW("it smells")
    };
    struct catalog_ref *root = slot_of(bed, NULL);
    assert_status(HF_OK, catalog_ref_apply(root, &quarantine, (struct mono_time){ 0 }),
                  &quarantine.error);
    tree_listing_take(bed, &before);
    assert_status(HF_OK, catalog_ref_split(root, &bed->error), &bed->error);
    assert_status(HF_OK, catalog_ref_split(root, &bed->error), &bed->error);
    tree_listing_take(&ground.beds[1], &after);
    assert_int_equal(after.catalogs, 9);
    assert_int_equal(after.live, 1000);
    assert_int_equal(after.moved, 1000);
    assert_int_equal(after.twice, 0);
    for (size_t i = 0; i < 1000; i++) {
        const struct counted *then = census_find(&before, keys[i]);
        const struct counted *now = census_find(&after, keys[i]);
        assert_true(then && now && now->state == CHUNK_LIVE);
        assert_int_equal(now->sequence, then->sequence);
        assert_int_equal(now->quarantined, i == 10);
        assert_string_not_equal(now->partition, "default");
        /* an hour stays together */
        assert_string_equal(now->partition, census_find(&after, keys[i % 100])->partition);
    }
    assert_int_equal(count_objects(&ground, "metadata/"), 9);
    assert_status(HF_OK,
                  catalog_tree_walk(ground.beds[1].tree, note_order, &order, &bed->error),
                  &bed->error);
    assert_int_equal(order.count, 9);
    tree_listing_release(&before);
    tree_listing_release(&after);
    ground_close(&ground);
}

struct looked {
    struct compact_settings settings;
    enum split_by split_by;
    uint64_t level0_count, watermark;
    unsigned depth;
    size_t live;
};

static void look_at(void *argument, const struct catalog *catalog,
                    const struct evidence *evidence)
{
    (void)evidence;
    struct looked *looked = argument;
    *looked = (struct looked){ .split_by = catalog->split_by,
                               .level0_count = catalog->settings.level0_count,
                               .depth = catalog->depth,
                               .live = catalog->live_count,
                               .watermark =
                                   catalog->writer_count ? catalog->writers[0].sequence : 0 };
    assert_true(view_equal(catalog->settings.key, VIEW("1")));
}

static void settings_and_watermarks_survive(void **state)
{
    struct ground ground;
    struct looked looked;
    ground_open(&ground, kind_of(state), NULL, 2);
    struct bed *bed = &ground.beds[0], *other = &ground.beds[1];
    struct compact_settings settings = some_settings();
    ground_create(&ground);
    settings.level0_count = 33;
    struct catalog_op set = { .kind = CATALOG_SET, .settings = &settings };
    struct catalog_ref *root = slot_of(bed, NULL);
    assert_status(HF_OK, catalog_ref_apply(root, &set, (struct mono_time){ 0 }), &set.error);
    assert_status(HF_OK, add_chunks(bed, NULL, 100, 1, NULL), &bed->error);
    assert_status(HF_OK, catalog_ref_split(root, &bed->error), &bed->error);
    assert_status(HF_OK, catalog_ref_show(root, look_at, &looked, &bed->error), &bed->error);
    assert_int_equal(looked.split_by, SPLIT_BY_KEY); /* one hour has them all */
    assert_int_equal(looked.live, 0);
    for (size_t i = 0; i < CATALOG_CHILDREN; i++) {
        struct catalog_ref *child = slot_of(other, root->route.children[i]);
        assert_status(HF_OK, catalog_ref_show(child, look_at, &looked, &other->error),
                      &other->error);
        assert_int_equal(looked.level0_count, 33);
        assert_int_equal(looked.depth, 1);
        assert_int_equal(looked.watermark, 100);
        assert_true(looked.live > 0 && looked.live < 50);
    }
    ground_close(&ground);
}

/* Changes a setting, as soon as somebody puts a catalog of a child. */
struct meddler {
    struct bed *bed;
    bool done;
};

static void meddle(void *argument, const struct observation *observation)
{
    struct meddler *meddler = argument;
    struct compact_settings settings = some_settings();
    struct catalog_op set = { .kind = CATALOG_SET, .settings = &settings };
    bool child = view_ends_with(observation->key, VIEW("/" LAYOUT_CATALOG)) &&
                 !view_equal(observation->key, VIEW("metadata/" LAYOUT_CATALOG));
    if (meddler->done || !child || observation->kind != CALL_PUT)
        return;
    meddler->done = true;
    settings.level0_count = 44;
    assert_status(HF_OK,
                  catalog_ref_apply(slot_of(meddler->bed, NULL), &set, (struct mono_time){ 0 }),
                  &set.error);
}

static void settings_of_the_last_moment_survive(void **state)
{
    struct ground ground;
    struct looked looked;
    struct hf_client *client;
    struct catalog_tree *tree;
    struct catalog_ref *root;
    struct store *watched, *bucket;
    ground_open(&ground, kind_of(state), NULL, 1);
    struct bed *bed = &ground.beds[0];
    struct meddler meddler = { .bed = bed };
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 40, 20, NULL), &bed->error);
    bucket = ground.store; /* is closed by the one that is laid over it */
    assert_status(HF_OK,
                  store_observe(bucket, (struct observer){ meddle, &meddler }, &watched,
                                &bed->error),
                  &bed->error);
    assert_status(HF_OK, client_new(watched, NULL, &client, &bed->error), &bed->error);
    assert_status(HF_OK,
                  catalog_tree_open(watched, client, VIEW("default"), &tree, &bed->error),
                  &bed->error);
    assert_status(HF_OK, catalog_tree_ref(tree, VIEW("default"), &root, &bed->error),
                  &bed->error);
    assert_status(HF_OK, catalog_ref_split(root, &bed->error), &bed->error);
    assert_true(meddler.done);
    for (size_t i = 0; i < CATALOG_CHILDREN; i++) {
        struct catalog_ref *child = slot_of(bed, root->route.children[i]);
        assert_status(HF_OK, catalog_ref_show(child, look_at, &looked, &bed->error),
                      &bed->error);
        assert_int_equal(looked.level0_count, 44);
    }
    catalog_tree_close(tree);
    hf_client_close(client);
    catalog_tree_close(bed->tree);
    hf_client_close(bed->client);
    ground.count = 0;
    ground.store = watched;
    ground_close(&ground);
}

static void a_stale_home_is_corrected(void **state)
{
    struct ground ground;
    char home[PARTITION_BYTES_MAX + 1];
    struct meter_counts counts[CALL_KIND_COUNT];
    ground_open(&ground, kind_of(state), NULL, 2);
    struct bed *bed = &ground.beds[0], *other = &ground.beds[1];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 200, 50, NULL), &bed->error);
    assert_status(HF_OK, catalog_tree_home(bed->tree, VIEW("x"), SOME_HOUR, home, &bed->error),
                  &bed->error);
    assert_string_equal(home, "default");
    assert_status(HF_OK, catalog_ref_split(slot_of(other, NULL), &other->error), &other->error);
    meter_reset(&ground.meter);
    assert_status(HF_OK, catalog_tree_home(bed->tree, VIEW("x"), SOME_HOUR, home, &bed->error),
                  &bed->error);
    meter_read(&ground.meter, counts);
    assert_int_equal(counts[CALL_GET].calls, 0);
    assert_string_equal(home, "default"); /* as we knew it */
    assert_status(HF_MISMATCH, add_chunks(bed, home, 1, 1, NULL), &bed->error);
    assert_status(HF_OK, catalog_tree_home(bed->tree, VIEW("x"), SOME_HOUR, home, &bed->error),
                  &bed->error);
    assert_string_not_equal(home, "default");
    assert_status(HF_OK, add_chunks(bed, home, 1, 1, NULL), &bed->error);
    ground_close(&ground);
}

static void a_full_one_says_so(void **state)
{
    struct ground ground;
    struct census census;
    ground_open(&ground, kind_of(state), NULL, 1);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 3000, 100, NULL), &bed->error);
    assert_status(HF_UNAVAILABLE, add_chunks(bed, NULL, 3000, 100, NULL), &bed->error);
    assert_status(HF_OK, catalog_ref_split(slot_of(bed, NULL), &bed->error), &bed->error);
    assert_status(HF_MISMATCH, add_chunks(bed, NULL, 1, 1, NULL), &bed->error);
    tree_listing_take(bed, &census);
    assert_int_equal(census.live, 3000);
    assert_int_equal(census.twice, 0);
    tree_listing_release(&census);
    ground_close(&ground);
}

/* ---- Many at once -------------------------------------------------------------------- */

#define CROWD        4
#define CROWD_ROUNDS 20
#define CROWD_BATCH  6

/* One who adds where it is told to, and merges pairs of what it added. */
struct hand {
    struct bed *bed;
    char keys[CROWD_ROUNDS * CROWD_BATCH][KEY_BYTES_MAX + 1];
    enum { HAND_NOT, HAND_ADDED, HAND_MERGED } what[CROWD_ROUNDS * CROWD_BATCH];
    size_t count;
    size_t targets, unsure;
};

/* Puts a batch somewhere; whoever is refused by a split asks again for its home. */
static void add_somewhere(struct hand *hand, size_t round)
{
    char home[PARTITION_BYTES_MAX + 1];
    enum hf_status status = HF_MISMATCH;
    for (int tries = 0; tries < 20 && status == HF_MISMATCH; tries++) {
        char seed[32];
        snprintf(seed, sizeof seed, "%zu/%d", round, tries);
        status =
            catalog_tree_home(hand->bed->tree, view_of(seed),
                              SOME_HOUR + (int64_t)round * HOUR_MS, home, &hand->bed->error);
        if (status == HF_OK)
            status = add_chunks(hand->bed, home, CROWD_BATCH, 3, hand->keys + hand->count);
    }
    assert_status(HF_OK, status, &hand->bed->error);
    for (size_t i = 0; i < CROWD_BATCH; i++)
        hand->what[hand->count++] = HAND_ADDED;
}

/* Merges the first two of the last batch. They may have moved: then it is refused. */
static void merge_two(struct hand *hand)
{
    size_t first = hand->count - CROWD_BATCH;
    char target[KEY_BYTES_MAX + 1], home[PARTITION_BYTES_MAX + 1];
    struct compact_settings settings = some_settings();
    const struct view sources[2] = { view_of(hand->keys[first]),
                                     view_of(hand->keys[first + 1]) };
    struct catalog_op op = { .kind = CATALOG_COMMIT, .keys = sources, .key_count = 2 };
    snprintf(home, sizeof home, "%.*s", VIEW_ARGS(layout_home(sources[0])));
    assert_status(HF_OK,
                  chunk_key_draw(env_real(),
                                 &(struct chunk_key_parts){ view_of(home), /* level */ 1,
                                                            SOME_HOUR, &settings },
                                 target, &op.drawn, &hand->bed->error),
                  &hand->bed->error);
    op.target = (struct chunk){ .key = view_of(target),
                                .level = 1,
                                .size = 2000,
                                .rows_known = true,
                                .rows = 20,
                                .min_ms = SOME_HOUR,
                                .max_ms = SOME_HOUR + HOUR_MS,
                                .writer = VIEW("m"),
                                .crc32c = 2 };
    enum hf_status status =
        catalog_ref_apply(slot_of(hand->bed, home), &op, (struct mono_time){ 0 });
    assert_true(status == HF_OK || status == HF_CONFLICT || status == HF_MISMATCH);
    if (status == HF_OK) {
        hand->targets++;
        hand->what[first] = hand->what[first + 1] = HAND_MERGED;
    }
}

static void work(void *argument)
{
    struct hand *hand = argument;
    for (size_t round = 0; round < CROWD_ROUNDS; round++) {
        add_somewhere(hand, round);
        merge_two(hand);
        if (round % 8 == 5) {
            char home[PARTITION_BYTES_MAX + 1];
            assert_status(HF_OK,
                          catalog_tree_home(hand->bed->tree, VIEW("split"), SOME_HOUR, home,
                                            &hand->bed->error),
                          &hand->bed->error);
            enum hf_status status =
                catalog_ref_split(slot_of(hand->bed, home), &hand->bed->error);
            assert_true(status == HF_OK || status == HF_UNAVAILABLE || status == HF_UNSURE);
            hand->unsure += status == HF_UNSURE;
        }
    }
}

static void check_hands(struct ground *ground, struct hand *hands)
{
    struct census census;
    size_t live = 0, merged = 0;
    tree_listing_take(&ground->beds[CROWD], &census);
    assert_int_equal(census.twice, 0);
    assert_int_equal(census.unreadable, 0);
    assert_true(census.catalogs > 9);
    for (size_t h = 0; h < CROWD; h++) {
        live += hands[h].targets;
        for (size_t i = 0; i < hands[h].count; i++) {
            const struct counted *counted = census_find(&census, hands[h].keys[i]);
            assert_non_null(counted);
            bool is_merged = hands[h].what[i] == HAND_MERGED;
            assert_int_equal(counted->state, is_merged ? CHUNK_TOMBSTONE : CHUNK_LIVE);
            live += !is_merged;
            merged += is_merged;
        }
    }
    assert_int_equal(census.live, live);
    assert_int_equal(census.dead, merged);
    assert_true(merged > 0);
    tree_listing_release(&census);
}

static void crowd(void **state, const struct fault_plan *plan)
{
    struct ground ground;
    struct env_task *tasks[CROWD];
    struct hand *hands = calloc(CROWD, sizeof *hands);
    assert_non_null(hands);
    ground_open(&ground, kind_of(state), plan, CROWD + 1);
    ground_create(&ground);
    for (size_t i = 0; i < CROWD; i++) {
        hands[i].bed = &ground.beds[i];
        assert_status(HF_OK,
                      env_task_start(env_real(), work, &hands[i], &tasks[i],
                                     &ground.beds[i].error),
                      &ground.beds[i].error);
    }
    for (size_t i = 0; i < CROWD; i++)
        env_task_join(env_real(), tasks[i]);
    if (plan)
        store_fault_calm(ground.store);
    check_hands(&ground, hands);
    size_t unsure = 0;
    for (size_t i = 0; i < CROWD; i++)
        unsure += hands[i].unsure;
    if (!plan && unsure == 0) { /* what lost was cleared away */
        struct census census;
        tree_listing_take(&ground.beds[CROWD], &census);
        assert_int_equal(count_objects(&ground, "metadata/"), census.catalogs);
        tree_listing_release(&census);
    }
    ground_close(&ground);
    free(hands);
}

static void many_at_once(void **state)
{
    crowd(state, NULL);
}

static void many_at_once_with_lost_replies(void **state)
{
    const struct fault_plan plan = { .seed = 11,
                                     .throttle = 10000,
                                     .lose = 30000,
                                     .lose_reply = 60000,
                                     .late = 30000,
                                     .late_max = SPAN_MS(5) };
    crowd(state, &plan);
}

/* ---- Requests, memory, time ---------------------------------------------------------- */

static void a_warm_walk_is_one_get_each(void **state)
{
    struct ground ground;
    struct meter_counts counts[CALL_KIND_COUNT];
    ground_open(&ground, kind_of(state), NULL, 1);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 2000, 100, NULL), &bed->error);
    assert_status(HF_OK, catalog_ref_split(slot_of(bed, NULL), &bed->error), &bed->error);
    assert_status(HF_OK, catalog_tree_walk(bed->tree, pass, NULL, &bed->error), &bed->error);
    meter_reset(&ground.meter);
    assert_status(HF_OK, catalog_tree_walk(bed->tree, pass, NULL, &bed->error), &bed->error);
    meter_read(&ground.meter, counts);
    assert_int_equal(counts[CALL_GET].calls, 9);
    assert_int_equal(counts[CALL_GET].bytes_received, 0);
    assert_int_equal(counts[CALL_PUT].calls + counts[CALL_LIST].calls, 0);
    ground_close(&ground);
}

static void a_warm_change_is_one_put(void **state)
{
    struct ground ground;
    struct meter_counts counts[CALL_KIND_COUNT];
    ground_open(&ground, kind_of(state), NULL, 1);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 2000, 100, NULL), &bed->error);
    meter_reset(&ground.meter);
    assert_status(HF_OK, add_chunks(bed, NULL, 5, 1, NULL), &bed->error);
    meter_read(&ground.meter, counts);
    assert_int_equal(counts[CALL_PUT].calls, 1);
    assert_int_equal(counts[CALL_GET].calls, 0);
    ground_close(&ground);
}

static void a_split_without_memory_leaves_all(void **state)
{
    struct ground ground;
    struct census census;
    long failed = 0;
    ground_open(&ground, kind_of(state), NULL, 2);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(bed, NULL, 10, 5, NULL), &bed->error);
    enum hf_status status = HF_UNAVAILABLE;
    for (long n = 0; status != HF_OK && n < 2000; n++, failed++) {
        struct catalog_ref *root = slot_of(bed, NULL);
        alloc_fail_after(n);
        status = catalog_ref_split(root, &bed->error);
        alloc_stop();
        if (status != HF_OK)
            assert_true(status == HF_UNAVAILABLE || status == HF_TIMEOUT);
    }
    assert_status(HF_OK, status, &bed->error);
    assert_true(failed > 20);
    tree_listing_take(&ground.beds[1], &census);
    assert_int_equal(census.live, 10);
    assert_int_equal(census.twice, 0);
    tree_listing_release(&census);
    ground_close(&ground);
}

static void a_cold_walk_finds_all(void **state)
{
    struct ground ground;
    struct census census;
    ground_open(&ground, kind_of(state), NULL, 2);
    struct bed *bed = &ground.beds[0], *cold = &ground.beds[1];
    const char *sized = getenv("HOLDFAST_WALK"); /* by hand: splits of the second level */
    int more = sized ? sized[0] - '0' : 0;
    const size_t entries = sized ? 4000 : 200;
    ground_create(&ground);
    struct catalog_ref *root = slot_of(bed, NULL);
    assert_status(HF_OK, catalog_ref_split(root, &bed->error), &bed->error);
    for (int i = 0; i < more; i++)
        assert_status(HF_OK,
                      catalog_ref_split(slot_of(bed, root->route.children[i]), &bed->error),
                      &bed->error);
    for (int i = 0; i < CATALOG_CHILDREN; i++) {
        struct catalog_ref *child = slot_of(bed, root->route.children[i]);
        for (int j = 0; i < more && j < CATALOG_CHILDREN; j++)
            assert_status(HF_OK, add_chunks(bed, child->route.children[j], entries, 100, NULL),
                          &bed->error);
        if (i >= more)
            assert_status(HF_OK, add_chunks(bed, child->partition, entries, 100, NULL),
                          &bed->error);
    }
    struct mono_time start = env_now(env_real());
    assert_status(HF_OK, catalog_tree_walk(cold->tree, pass, NULL, &cold->error), &cold->error);
    struct span took = mono_since(env_now(env_real()), start);
    print_message("# %d leaves of %zu entries: %lld us cold\n", 8 + 7 * more, entries,
                  (long long)took.us);
    tree_listing_take(bed, &census);
    assert_int_equal(census.live, (size_t)(8 + 7 * more) * entries);
    tree_listing_release(&census);
    ground_close(&ground);
}

/* ---- Pausing ------------------------------------------------------------------------- */

static void pausing_is_seen_by_all(void **state)
{
    struct ground ground;
    char why[HF_WHY_MAX];
    bool paused = true;
    ground_open(&ground, kind_of(state), NULL, 2);
    struct bed *bed = &ground.beds[0], *other = &ground.beds[1];
    assert_status(HF_OK, catalog_tree_is_paused(other->tree, &paused, why, &other->error),
                  &other->error);
    assert_false(paused);
    assert_status(HF_OK,
                  catalog_tree_pause(bed->tree, VIEW("a \"move\""), VIEW("ann"), &bed->error),
                  &bed->error);
    assert_status(HF_OK, catalog_tree_is_paused(other->tree, &paused, why, &other->error),
                  &other->error);
    assert_true(paused);
    assert_string_equal(why, "a \"move\" (ann)");
    assert_status(HF_OK, catalog_tree_resume(other->tree, &other->error), &other->error);
    assert_status(HF_OK, catalog_tree_resume(other->tree, &other->error), &other->error);
    assert_status(HF_OK, catalog_tree_is_paused(bed->tree, &paused, why, &bed->error),
                  &bed->error);
    assert_false(paused);
    put_bytes(&ground, "metadata/pause", VIEW("stop!"));
    assert_status(HF_OK, catalog_tree_is_paused(bed->tree, &paused, why, &bed->error),
                  &bed->error);
    assert_true(paused);
    ground_close(&ground);
}

/* ---- All of it ----------------------------------------------------------------------- */

static const struct CMUnitTest rows[] = {
    IT("where there is no catalog everybody is told at once how to make one",
       none_is_told_at_once),
    IT("making a catalog again is fine with the same settings, else a conflict",
       same_settings_are_fine),
    IT("of several who make the catalog at once with other settings one succeeds",
       one_creator_wins),
    IT("a lost reply to the first write is found to be ours", create_survives_a_lost_reply),
    IT("a damaged catalog is named and never written over", damage_stays),
    IT("a catalog that was copied elsewhere is not taken for the one of that place",
       a_copy_is_not_the_one_of_its_place),
    IT("a child that is missing or damaged stops itself only",
       a_missing_child_stops_itself_only),
    IT("catalogs that name each other do not lead a walk in circles", no_walk_in_circles),
    IT("a split moves every entry once, as it stands, and an hour stays together",
       a_split_moves_all),
    IT("children have the settings and the watermarks of their parent",
       settings_and_watermarks_survive),
    IT("children get settings that were changed while they were made",
       settings_of_the_last_moment_survive),
    IT("who knows an old home is refused, and then finds the new one",
       a_stale_home_is_corrected),
    IT("a full catalog refuses to grow until it is split", a_full_one_says_so),
    IT("what many add, merge and split at once is there once", many_at_once),
    IT("so it is when replies are lost", many_at_once_with_lost_replies),
    IT("a warm walk is one get for each catalog, and no bytes", a_warm_walk_is_one_get_each),
    IT("a split that runs out of memory leaves everything where it was",
       a_split_without_memory_leaves_all),
    IT("a cold walk finds all", a_cold_walk_finds_all),
    IT("a pause is seen by all, until it is taken back", pausing_is_seen_by_all),
};
#define ROWS (sizeof rows / sizeof rows[0])

int main(void)
{
    static char names[2 * ROWS + 1][160];
    struct CMUnitTest tests[2 * ROWS + 1];
    for (size_t i = 0; i < 2 * ROWS; i++) {
        const char *kind = kinds[i / ROWS];
        tests[i] = rows[i % ROWS];
        snprintf(names[i], sizeof names[i], "%s: %s", kind, rows[i % ROWS].name);
        tests[i].name = names[i];
        tests[i].initial_state = (void *)(uintptr_t)kind;
    }
    /* An sqlite store changes small documents in one step, which is counted otherwise. */
    tests[2 * ROWS] =
        (struct CMUnitTest)IT("mem: a warm change is one put", a_warm_change_is_one_put);
    tests[2 * ROWS].initial_state = (void *)(uintptr_t)kinds[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
