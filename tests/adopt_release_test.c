/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_release_test.c: how a registered path is released, by hand or because its partition is
 * dropped: not while a client may still add one of its objects, nor while the partition lists one.
 * Also which adopted objects a drop deletes. */
#include "adopt_kit.h"
#include "scripted_store.h"

#include "compact/care/drop.h"
#include "compact/care/pin.h"
#include "compact/care/release.h"
#include "compact/catalog/prefixes.h"

#include <stdio.h>
#include <string.h>

/* D is short enough to wait for, and long enough for a busy machine to add chunks in half of it. */
#define D_MS 2000

#define TURN     SPAN_MS(50)
#define TURN_MAX 600

static const char *const raw_objects[] = { "raw/object-0000.usv", "raw/object-0001.usv" };

/* ---- Helpers ------------------------------------------------------------------------- */

/* Another partition of the same bucket, by the client of bed 3. */
static struct catalog_tree *open_other(struct outside *outside)
{
    struct compact_settings settings = outside_short_d(D_MS);
    struct catalog_tree *other;
    assert_status(HF_OK,
                  catalog_tree_open(outside->ground.store, outside->ground.beds[3].client,
                                    VIEW("other"), &other, &outside->error),
                  &outside->error);
    assert_status(HF_OK, catalog_tree_create(other, &settings, &outside->error),
                  &outside->error);
    return other;
}

static enum hf_status adopt_into(struct outside *outside, struct catalog_tree *tree,
                                 const char *path)
{
    struct adopt_options options = outside_options(outside, false);
    struct view paths[] = { view_of(path) };
    return adopt_paths(tree, paths, 1, &options, &outside->report, &outside->error);
}

static struct release_report release(struct outside *outside, size_t bed, const char *path)
{
    struct release_report report;
    assert_status(HF_OK,
                  release_path(outside->ground.beds[bed].tree, view_of(path), &report,
                               &outside->error),
                  &outside->error);
    return report;
}

static void release_to_the_end(struct outside *outside, size_t bed, const char *path)
{
    bool released = false;
    for (int i = 0; i < TURN_MAX && !released; i++) {
        released = release(outside, bed, path).released;
        if (!released)
            env_sleep(env_real(), TURN);
    }
    assert_true(released);
}

static void drop_to_the_end(struct outside *outside, size_t bed)
{
    const struct drop_options options = { .go_on = NULL };
    struct drop_report report = { .gone = false };
    for (int i = 0; i < TURN_MAX && !report.gone; i++) {
        enum hf_status status =
            drop_step(outside->ground.beds[bed].tree, &options, &report, &outside->error);
        if (status == HF_NOT_FOUND)
            return;
        assert_status(HF_OK, status, &outside->error);
        if (!report.gone)
            env_sleep(env_real(), TURN);
    }
    assert_true(report.gone);
}

static void count_path(void *argument, const struct prefix *prefix,
                       const struct evidence *evidence)
{
    (void)prefix, (void)evidence;
    ++*(size_t *)argument;
}

static size_t paths_of(struct outside *outside, size_t bed)
{
    size_t count = 0;
    assert_status(HF_OK,
                  prefixes_show(outside->ground.beds[bed].tree, count_path, &count,
                                &outside->error),
                  &outside->error);
    return count;
}

/* ---- Dropping ------------------------------------------------------------------------ */

static void a_drop_deletes_what_is_owned_keeps_the_rest_and_releases_the_paths(void **state)
{
    for (int conditional = 0; conditional < 2; conditional++) {
        struct outside outside;
        outside_open(&outside, state, NULL, outside_short_d(400));
        outside.ground.store->traits.delete_conditional = conditional;
        struct catalog_tree *other = open_other(&outside);
        outside_put_objects(&outside, "own/", 2);
        outside_put_objects(&outside, "raw/", 2);
        assert_status(HF_OK, outside_adopt(&outside, 0, "own/", true), &outside.error);
        assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
        outside_put_row(&outside, "own/object-0001.usv", 50); /* against the promise */
        assert_int_equal(paths_of(&outside, 0), 2);
        assert_int_equal(adopt_into(&outside, other, "raw/"), HF_CONFLICT);
        drop_to_the_end(&outside, 0);
        assert_int_equal(count_objects(&outside.ground, "own/object-0000"), 0);
        assert_int_equal(count_objects(&outside.ground, "own/object-0001"), 1);
        assert_int_equal(count_objects(&outside.ground, "raw/"), 2);
        assert_int_equal(paths_of(&outside, 0), 0);
        assert_status(HF_OK, adopt_into(&outside, other, "raw/"), &outside.error);
        assert_int_equal(outside.report.added, 2);
        catalog_tree_close(other);
        ground_close(&outside.ground);
    }
}

static void a_partition_that_is_created_again_adopts_again(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(400));
    outside_put_objects(&outside, "raw/", 3);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    drop_to_the_end(&outside, 1);
    ground_create_with(&outside.ground, outside_short_d(400));
    assert_status(HF_OK, outside_adopt(&outside, 2, "raw/", /* as before: */ false),
                  &outside.error);
    assert_int_equal(outside.report.added, 3);
    outside_assert_live(&outside, 3);
    ground_close(&outside.ground);
}

static void an_owned_object_that_is_pinned_outlives_the_drop_of_its_partition(void **state)
{
    const struct drop_options options = { .go_on = NULL };
    struct drop_report report = { .pinned = 0 };
    struct outside outside;
    struct hf_lock *pin;
    outside_open(&outside, state, NULL, outside_short_d(400));
    struct bed *bed = &outside.ground.beds[1];
    outside_put_objects(&outside, "own/", 2);
    assert_status(HF_OK, outside_adopt(&outside, 0, "own/", true), &outside.error);
    struct sought sought = outside_seek(&outside, "own/object-0001.usv");
    const char *keys[] = { sought.key };
    assert_status(HF_OK, pin_take(bed->tree, keys, 1, 600000, &pin, &outside.error),
                  &outside.error);
    for (int i = 0; i < TURN_MAX && report.pinned == 0; i++) {
        assert_status(HF_OK,
                      drop_step(outside.ground.beds[0].tree, &options, &report, &outside.error),
                      &outside.error);
        env_sleep(env_real(), TURN);
    }
    assert_int_equal(report.pinned, 1);
    assert_int_equal(count_objects(&outside.ground, "own/object-0000"), 0);
    assert_int_equal(count_objects(&outside.ground, "own/object-0001"), 1);
    assert_int_equal(paths_of(&outside, 0), 1); /* it is still listed */
    assert_status(HF_OK, hf_lock_release(pin, &outside.error), &outside.error);
    hf_lock_free(pin);
    drop_to_the_end(&outside, 0);
    assert_int_equal(count_objects(&outside.ground, "own/"), 0);
    assert_int_equal(paths_of(&outside, 0), 0);
    ground_close(&outside.ground);
}

static void a_dry_run_tells_how_long_owned_objects_and_paths_take(void **state)
{
    struct outside outside;
    struct drop_report report;
    outside_open(&outside, state, NULL, outside_short_d(60000));
    struct catalog_tree *tree = outside.ground.beds[0].tree;
    assert_status(HF_OK, drop_count(tree, &report, &outside.error), &outside.error);
    assert_int_equal(report.wait_ms, 60000);
    outside_put_objects(&outside, "own/", 1);
    assert_status(HF_OK, outside_adopt(&outside, 0, "own/", true), &outside.error);
    assert_status(HF_OK, drop_count(tree, &report, &outside.error), &outside.error);
    assert_int_equal(report.wait_ms, 120000); /* its path is released after 2 D */
    ground_close(&outside.ground);
}

/* ---- By hand ------------------------------------------------------------------------- */

static void a_path_is_released_once_nothing_needs_its_objects(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(400));
    struct catalog_tree *other = open_other(&outside);
    outside_put_objects(&outside, "raw/", 2);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    struct release_report report = release(&outside, 1, "raw/");
    assert_true(!report.released && report.chunks == 2 && report.wait_ms > 0);
    env_sleep(env_real(), SPAN_MS(1000)); /* more than 2 D */
    report = release(&outside, 1, "raw/");
    assert_true(!report.released && report.chunks == 2 && report.wait_ms == 0);
    assert_int_equal(adopt_into(&outside, other, "raw/"), HF_CONFLICT);
    outside_merge(&outside, raw_objects, 2);
    env_sleep(env_real(), SPAN_MS(5));
    outside_maintain(&outside);
    assert_int_equal(release(&outside, 1, "raw/").chunks, 2); /* they are being deleted */
    for (int i = 0; i < TURN_MAX && outside_maintain(&outside).dropped == 0; i++)
        env_sleep(env_real(), TURN);
    assert_true(release(&outside, 1, "raw/").released);
    assert_int_equal(count_objects(&outside.ground, "raw/"), 2);
    assert_status(HF_OK, adopt_into(&outside, other, "raw/"), &outside.error);
    assert_int_equal(outside.report.added, 2);
    catalog_tree_close(other);
    ground_close(&outside.ground);
}

static void a_path_is_not_released_before_twice_d(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(D_MS));
    outside_put_objects(&outside, "raw/", 1);
    assert_int_equal(outside_adopt(&outside, 0, "raw/x/", false), HF_OK); /* nothing is there */
    struct mono_time before = env_now(env_real());
    release_to_the_end(&outside, 1, "raw/x/");
    assert_true(mono_since(env_now(env_real()), before).us >= 2 * D_MS * 1000);
    ground_close(&outside.ground);
}

static void whoever_adopts_a_path_takes_its_release_back(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(400));
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    release(&outside, 1, "raw/");
    env_sleep(env_real(), SPAN_MS(1000));
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    assert_false(release(&outside, 1, "raw/").released); /* it begins anew */
    release_to_the_end(&outside, 1, "raw/");
    /* Now it can be owned. */
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", true), &outside.error);
    ground_close(&outside.ground);
}

static void a_path_is_released_exactly_as_it_was_registered(void **state)
{
    struct outside outside;
    struct release_report report;
    outside_open(&outside, state, NULL, outside_short_d(400));
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    struct catalog_tree *tree = outside.ground.beds[0].tree;
    assert_int_equal(release_path(tree, VIEW("raw/1/"), &report, &outside.error), HF_NOT_FOUND);
    assert_non_null(strstr(outside.error.why, "as part of raw/"));
    assert_int_equal(release_path(tree, VIEW("else/"), &report, &outside.error), HF_NOT_FOUND);
    struct catalog_tree *other = open_other(&outside);
    assert_int_equal(release_path(other, VIEW("raw/"), &report, &outside.error), HF_NOT_FOUND);
    catalog_tree_close(other);
    ground_close(&outside.ground);
}

/* ---- A client that has seen the path long ago ---------------------------------------- */

static struct catalog_tree *taker; /* the partition that takes the path over */

/* While an object is being described, its path is released and registered to another partition. */
static void release_meanwhile(struct outside *outside)
{
    outside->hook = NULL;
    release_to_the_end(outside, 1, "raw/");
    struct prefix claim = { .path = VIEW("raw/") };
    assert_status(HF_OK, prefixes_claim(taker, &claim, 1, &outside->error), &outside->error);
}

static void who_has_seen_a_path_before_its_release_adds_no_object(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(400));
    taker = open_other(&outside);
    outside_put_objects(&outside, "raw/", 2);
    outside.described = true;
    outside.hook = release_meanwhile;
    assert_int_equal(outside_adopt(&outside, 0, "raw/", false), HF_CONFLICT);
    assert_non_null(strstr(outside.error.why, "registered to partition other"));
    assert_null(outside.hook);
    outside_assert_live(&outside, 0);
    catalog_tree_close(taker);
    ground_close(&outside.ground);
}

/* While an object is being described, more than D/2 passes. */
static void pass_time(struct outside *outside)
{
    outside->hook = NULL;
    env_sleep(env_real(), SPAN_MS(1300));
}

static void what_was_listed_long_ago_is_looked_at_again(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(D_MS));
    outside_put_objects(&outside, "raw/", 2);
    outside.described = true;
    outside.hook = pass_time;
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    assert_int_equal(outside.report.added, 2);
    assert_listed(&outside.ground.beds[1], 2, 0); /* no name was generated in vain */
    ground_close(&outside.ground);
}

/* ---- Each call in turn --------------------------------------------------------------- */

/* Whichever call of a release fails, repeating it releases the path, and nothing else. */
static void fail_each_call(void **state, struct fate fate)
{
    for (unsigned n = 0;; n++) {
        struct outside outside;
        struct bed bed;
        struct script script;
        struct release_report report;
        struct hf_error error;
        outside_open(&outside, state, NULL, outside_short_d(1));
        assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
        assert_status(HF_OK, outside_adopt(&outside, 0, "stays/", false), &outside.error);
        script_init(&script, outside.ground.store);
        bed_open(&bed, &script.base);
        release_path(bed.tree, VIEW("raw/"), &report, &error);
        env_sleep(env_real(), SPAN_MS(10));
        script_rule(&script, .name = "n", .skip = n, .times = 1, .fate = fate);
        release_path(bed.tree, VIEW("raw/"), &report, &error);
        bool met = script_met(&script, "n") > 0;
        script_drop(&script, "n");
        for (int i = 0; i < TURN_MAX && paths_of(&outside, 0) == 2; i++) {
            release_path(outside.ground.beds[1].tree, VIEW("raw/"), &report, &error);
            env_sleep(env_real(), SPAN_MS(5));
        }
        assert_int_equal(paths_of(&outside, 0), 1);
        bed_close(&bed);
        store_close(&script.base);
        ground_close(&outside.ground);
        if (!met)
            break;
        assert_in_range(n, 0, 50);
    }
}

static void whichever_call_of_a_release_fails_repeating_it_finishes(void **state)
{
    fail_each_call(state, REFUSE(HF_UNAVAILABLE));
    fail_each_call(state, LOSE_REPLY);
}

int main(int argc, char **argv)
{
    static char usual[] = "mem";
    char *kind = argc > 1 ? argv[1] : usual;
#define ON(name, test)               \
    {                                \
        name, test, NULL, NULL, kind \
    }
    const struct CMUnitTest tests[] = {
        ON("a drop deletes what is owned, keeps the rest, and releases the paths",
           a_drop_deletes_what_is_owned_keeps_the_rest_and_releases_the_paths),
        ON("a partition that is created again adopts again",
           a_partition_that_is_created_again_adopts_again),
        ON("an owned object that is pinned outlives the drop of its partition",
           an_owned_object_that_is_pinned_outlives_the_drop_of_its_partition),
        ON("a dry run tells how long owned objects and paths take",
           a_dry_run_tells_how_long_owned_objects_and_paths_take),
        ON("a path is released once nothing needs its objects",
           a_path_is_released_once_nothing_needs_its_objects),
        ON("a path is not released before twice D", a_path_is_not_released_before_twice_d),
        ON("whoever adopts a path takes its release back",
           whoever_adopts_a_path_takes_its_release_back),
        ON("a path is released exactly as it was registered",
           a_path_is_released_exactly_as_it_was_registered),
        ON("who has seen a path before its release adds no object",
           who_has_seen_a_path_before_its_release_adds_no_object),
        ON("what was listed long ago is looked at again",
           what_was_listed_long_ago_is_looked_at_again),
        ON("whichever call of a release fails, repeating it finishes",
           whichever_call_of_a_release_fails_repeating_it_finishes),
    };
#undef ON
    return cmocka_run_group_tests(tests, NULL, NULL);
}
