/* SPDX-License-Identifier: Apache-2.0 */
/* placement_test.c: the pages of paths (lock/placement.h): which page a scope belongs to, and how a
 * namespace gets its placement, whatever is lost on the way and whoever else wants another. */
#include "base/layout.h"
#include "lease/lease.h"
#include "lock/client_inside.h"
#include "scripted_store.h"
#include "store/bucket.h"
#include "test.h"

#include <stdio.h>

#define MARK_KEY "many/paths.json"

/* ---- Pages --------------------------------------------------------------------------- */

static struct scope scope_of(const char *text)
{
    struct scope scope;
    struct hf_error error;
    assert_status(HF_OK, scope_parse(view_of(text), &scope, &error), &error);
    return scope;
}

static uint32_t page_in(const struct placement *placement, const char *text)
{
    struct scope scope = scope_of(text);
    struct hf_error error;
    uint32_t page = UINT32_MAX;
    assert_status(HF_OK, placement_page(placement, &scope, &page, &error), &error);
    assert_true(page < placement->pages);
    return page;
}

/* A program of another version must find the same page. */
static void pages_never_change(void **state)
{
    static const struct {
        struct placement placement;
        const char *scope;
        uint32_t page;
    } rows[] = {
        { { 1024, 1 }, "path:/a", 5 },     { { 1024, 1 }, "path:/a/b", 5 },
        { { 1024, 1 }, "tree:/a", 5 },     { { 1024, 2 }, "path:/a", 5 },
        { { 1024, 2 }, "path:/a/b", 361 }, { { 4096, 1 }, "path:/customers/7/file", 707 },
        { { 1024, 1 }, "path:/", 194 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(page_in(&rows[i].placement, rows[i].scope), rows[i].page);
}

static void a_short_tree_is_refused_and_a_short_path_is_not(void **state)
{
    static const struct {
        uint32_t segments;
        const char *scope;
        enum hf_status status;
    } rows[] = {
        { 1, "tree:/", HF_INVALID },    { 1, "tree:/a", HF_OK },
        { 1, "path:/", HF_OK },         { 2, "tree:/a", HF_INVALID },
        { 2, "tree:/a/b", HF_OK },      { 2, "path:/a", HF_OK },
        { 3, "tree:/a/b", HF_INVALID }, { 3, "tree:/a/b/c", HF_OK },
        { 3, "path:/a/b", HF_OK },      { 16, "tree:/a/b/c/d/e", HF_INVALID },
    };
    struct hf_error error;
    uint32_t page;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct placement placement = { 64, rows[i].segments };
        struct scope scope = scope_of(rows[i].scope);
        assert_status(rows[i].status, placement_page(&placement, &scope, &page, &error),
                      &error);
        if (rows[i].status != HF_OK)
            assert_non_null(strstr(error.why, "a tree must have at least"));
    }
}

/* A path of up to six segments, each of them one of three, so that many are equal. */
static void draw_path(uint64_t *random, char path[64])
{
    static const char *const segments[] = { "/a", "/ab", "/b" };
    size_t count = *random % 7, used = 0;
    for (size_t i = 0; i < count; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        used += (size_t)snprintf(path + used, 64 - used, "%s", segments[(*random >> 33) % 3]);
    }
    if (count == 0)
        snprintf(path, 64, "/");
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    *random ^= *random >> 29;
}

static void scopes_that_conflict_are_in_one_page(void **state)
{
    uint64_t random = 7;
    size_t conflicts = 0, apart = 0;
    struct hf_error error;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[2][64], name[2][160];
        struct scope scopes[2];
        struct placement placement = { 2 + (uint32_t)(random >> 40) % 60,
                                       1 + (uint32_t)(random >> 50) % 4 };
        uint32_t pages[2] = { 0, 0 };
        bool placed = true;
        for (size_t k = 0; k < 2; k++) {
            draw_path(&random, text[k]);
            snprintf(name[k], sizeof name[k], "%s:%s", (random >> 35) % 2 ? "path" : "tree",
                     text[k]);
            scopes[k] = scope_of(name[k]);
            placed =
                placed && placement_page(&placement, &scopes[k], &pages[k], &error) == HF_OK;
        }
        if (!placed)
            continue;
        if (scope_conflicts(&scopes[0], &scopes[1])) {
            conflicts++;
            if (pages[0] != pages[1])
                fail_msg("%s and %s conflict", name[0], name[1]);
        }
        apart += pages[0] != pages[1];
    }
    assert_true(conflicts > 1000 && apart > 1000);
}

static void the_start_of_a_path_may_determine_its_page(void **state)
{
    static const struct {
        uint32_t segments;
        const char *start, *path; /* a path of the page, or NULL if there may be several */
    } rows[] = {
        { 1, "", NULL },
        { 1, "/", NULL },
        { 1, "/a", NULL },
        { 1, "/a/", "path:/a" },
        { 1, "/a/b", "path:/a" },
        { 2, "/a/b", NULL },
        { 2, "/a/b/", "path:/a/b" },
        { 2, "/a/b/c/d", "path:/a/b" },
        { 1, "a/b", NULL },
    };
    uint32_t page;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct placement placement = { 97, rows[i].segments };
        bool known = placement_page_of_start(&placement, view_of(rows[i].start), &page);
        assert_int_equal(known, rows[i].path != NULL);
        if (known)
            assert_int_equal(page, page_in(&placement, rows[i].path));
    }
}

static void keys_of_pages_are_tables(void **state)
{
    static const char *const ours[] = { "many/paths/0.json", "many/paths/65535.json" };
    static const char *const others[] = {
        "many/paths/65536.json", "many/paths/01.json", "many/paths/.json",
        "many/paths/x.json",     "many/paths/1",       "data/paths/1.json",
        "many/paths/1/2.json",
    };
    (void)state;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        assert_true(table_key_is_ours(view_of(ours[i])) &&
                    table_kind_of(view_of(ours[i])) == TABLES_OF_PATHS);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(table_key_is_ours(view_of(others[i])));
}

/* ---- Creation ------------------------------------------------------------------------ */

struct scene {
    struct store *truth;
    struct script script;
    struct hf_error error;
};

static void scene_open(struct scene *scene)
{
    *scene = (struct scene){ .error = { HF_OK, "" } };
    assert_status(HF_OK, store_open(env_real(), VIEW("mem:"), &scene->truth, &scene->error),
                  &scene->error);
    script_init(&scene->script, scene->truth);
}

static void scene_close(struct scene *scene)
{
    store_close(&scene->script.base);
    store_close(scene->truth);
}

static enum hf_status create(struct scene *scene, uint32_t pages, uint32_t segments)
{
    const struct placement placement = { pages, segments };
    return placement_create(&scene->script.base, VIEW("many"), &placement, &scene->error);
}

/* The placement as a client that opens the store learns it. */
static struct placement recorded(struct scene *scene)
{
    struct buffer text = BUFFER_INIT(MIB);
    struct placement placement;
    assert_status(HF_OK, bucket_read_placements(scene->truth, &text, &scene->error),
                  &scene->error);
    assert_status(HF_OK,
                  placement_find(buffer_view(&text), VIEW("many"), &placement, &scene->error),
                  &scene->error);
    buffer_release(&text);
    return placement;
}

static void assert_placed(struct scene *scene, uint32_t pages, uint32_t segments)
{
    char mark[200];
    struct buffer body = BUFFER_INIT(KIB);
    struct placement placement = recorded(scene);
    assert_true(placement.pages == pages && placement.segments == segments);
    struct get_call get = { .key = VIEW(MARK_KEY), .body = &body };
    assert_status(HF_OK, store_get(scene->truth, &get), &get.error);
    snprintf(mark, sizeof mark,
             "{\"format\":\"holdfast.leases/2\",\"pages\":%u,\"segments\":%u}\n", pages,
             segments);
    assert_string_equal(buffer_text(&body), mark);
    buffer_release(&body);
}

static void remove_object(struct scene *scene, const char *key)
{
    struct delete_call call = { .key = view_of(key) };
    assert_status(HF_OK, store_delete(scene->truth, &call), &call.error);
}

/* Acquires a lock with a client that knows this placement, and releases it. */
static enum hf_status lock_once(struct scene *scene, const char *scope,
                                struct placement placement)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *client;
    struct hf_lock *lock;
    options.ns = "many";
    assert_status(HF_OK, client_new(&scene->script.base, &options, &client, &scene->error),
                  &scene->error);
    client->space.placement = placement;
    enum hf_status status = hf_lock_new(client, scope, NULL, &lock, &scene->error);
    if (status == HF_OK) {
        status = hf_lock_acquire(lock, 0, &scene->error);
        hf_lock_free(lock);
    }
    hf_client_close(client);
    return status;
}

static void a_placement_is_recorded_twice_and_never_changes(void **state)
{
    struct scene scene;
    (void)state;
    scene_open(&scene);
    assert_status(HF_OK, create(&scene, 64, 2), &scene.error);
    assert_placed(&scene, 64, 2);
    assert_status(HF_OK, create(&scene, 64, 2), &scene.error);
    assert_status(HF_MISMATCH, create(&scene, 65, 2), &scene.error);
    assert_non_null(strstr(scene.error.why, "has 64 pages, determined by 2 segments"));
    assert_status(HF_MISMATCH, create(&scene, 64, 1), &scene.error);
    assert_placed(&scene, 64, 2);
    assert_status(HF_OK, lock_once(&scene, "path:/a/b", (struct placement){ 64, 2 }),
                  &scene.error);
    assert_status(HF_OK, create(&scene, 64, 2), &scene.error);
    scene_close(&scene);
}

static void impossible_placements_are_refused(void **state)
{
    static const struct placement rows[] = { { 0, 1 }, { 1, 1 },  { 65537, 1 },
                                             { 8, 0 }, { 8, 17 }, { 0, 0 } };
    struct scene scene;
    (void)state;
    scene_open(&scene);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_status(HF_INVALID, create(&scene, rows[i].pages, rows[i].segments),
                      &scene.error);
    assert_int_equal(script_counts(&scene.script).puts, 0);
    assert_status(HF_OK, create(&scene, 65536, 16), &scene.error);
    scene_close(&scene);
}

static void a_namespace_in_use_gets_no_pages(void **state)
{
    static const char *const scopes[] = { "path:/a", "deploy", "inode:7" };
    (void)state;
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
        struct scene scene;
        scene_open(&scene);
        assert_status(HF_OK, lock_once(&scene, scopes[i], (struct placement){ 0 }),
                      &scene.error);
        assert_status(HF_MISMATCH, create(&scene, 64, 1), &scene.error);
        assert_non_null(strstr(scene.error.why, i == 0 ? "in one table" : "is already in use"));
        assert_int_equal(recorded(&scene).pages, 0);
        assert_status(HF_OK, lock_once(&scene, "path:/a", (struct placement){ 0 }),
                      &scene.error);
        scene_close(&scene);
    }
}

/* Whichever request fails, and whether or not it was done, a repetition completes the creation. */
static void an_interrupted_creation_is_repeated(void **state)
{
    static const struct fate fates[] = { { FATE_REFUSE, HF_UNAVAILABLE },
                                         { FATE_REFUSE, HF_DENIED },
                                         { FATE_LOSE, HF_UNSURE },
                                         { FATE_LOSE_REPLY, HF_UNSURE },
                                         { FATE_TWICE, HF_OK } };
    (void)state;
    for (size_t k = 0; k < sizeof fates / sizeof *fates; k++)
        for (unsigned skip = 0; skip < 12; skip++) {
            struct scene scene;
            scene_open(&scene);
            script_rule(&scene.script, .name = "fails", .skip = skip, .times = 1,
                        .fate = fates[k]);
            enum hf_status status = create(&scene, 64, 2);
            assert_true(status == HF_OK || scene.error.why[0]);
            script_reset(&scene.script);
            if (status != HF_OK)
                assert_status(HF_OK, create(&scene, 64, 2), &scene.error);
            assert_placed(&scene, 64, 2);
            scene_close(&scene);
        }
}

static void what_is_lost_of_a_placement_is_restored(void **state)
{
    struct scene scene;
    (void)state;
    scene_open(&scene);
    assert_status(HF_OK, create(&scene, 64, 2), &scene.error);
    assert_status(HF_OK, lock_once(&scene, "path:/a/b", recorded(&scene)), &scene.error);
    remove_object(&scene, MARK_KEY); /* the format document still refuses others */
    assert_status(HF_MISMATCH, create(&scene, 32, 2), &scene.error);
    assert_status(HF_OK, lock_once(&scene, "path:/a/b", recorded(&scene)), &scene.error);
    assert_status(HF_OK, create(&scene, 64, 2), &scene.error);
    assert_placed(&scene, 64, 2);
    remove_object(&scene, LAYOUT_BUCKET_KEY); /* the mark still refuses locks and others */
    assert_status(HF_UNSUPPORTED, lock_once(&scene, "path:/a/b", recorded(&scene)),
                  &scene.error);
    assert_status(HF_MISMATCH, create(&scene, 32, 2), &scene.error);
    assert_status(HF_OK, create(&scene, 64, 2), &scene.error);
    assert_placed(&scene, 64, 2);
    scene_close(&scene);
}

static void a_bucket_has_room_for_a_thousand_placements(void **state)
{
    struct scene scene;
    struct buffer text = BUFFER_INIT(MIB);
    (void)state;
    scene_open(&scene);
    for (int full = 0; full < 2; full++) {
        buffer_clear(&text);
        buffer_print(&text, "{\"format\":\"holdfast.bucket/1\",\"features\":{"
                            "\"incompatible\":[\"path-pages\"]},\"placements\":{");
        for (int i = 0; i < (full ? 3000 : 1000); i++)
            buffer_print(&text, "%s\"a-namespace-%d\": { \"pages\": 4096, \"segments\": 1 }",
                         i > 0 ? ", " : "", i);
        buffer_print(&text, "}}");
        struct put_call put = { .key = VIEW(LAYOUT_BUCKET_KEY), .body = buffer_view(&text) };
        assert_status(HF_OK, store_put(scene.truth, &put), &put.error);
        if (full)
            remove_object(&scene, MARK_KEY);
        script_reset(&scene.script);
        assert_status(full ? HF_UNAVAILABLE : HF_OK, create(&scene, 64, 2), &scene.error);
    }
    assert_int_equal(script_counts(&scene.script).puts, 0);
    buffer_release(&text);
    scene_close(&scene);
}

/* ---- Races --------------------------------------------------------------------------- */

struct rival {
    struct scene *scene;
    const struct placement *placement; /* NULL: locks a path in one table */
    enum hf_status status;
};

/* Another client, through the same store without rules. */
static void rival_acts(void *argument)
{
    struct rival *rival = argument;
    struct scene own = { .truth = rival->scene->truth };
    script_init(&own.script, own.truth);
    rival->status = rival->placement ? placement_create(&own.script.base, VIEW("many"),
                                                        rival->placement, &own.error)
                                     : lock_once(&own, "path:/a/b", (struct placement){ 0 });
    store_close(&own.script.base);
}

/* At each request, another client is faster. Exactly one of the two has its way. */
static void the_first_of_two_wins(void **state)
{
    static const struct placement other = { 32, 1 };
    size_t won = 0, lost = 0;
    (void)state;
    for (unsigned skip = 0; skip < 12; skip++)
        for (int tables = 0; tables < 2; tables++) {
            struct scene scene;
            scene_open(&scene);
            struct rival rival = { &scene, tables ? NULL : &other, HF_CANCELLED };
            script_rule(&scene.script, .name = "race", .skip = skip, .times = 1,
                        .before = rival_acts, .argument = &rival);
            enum hf_status status = create(&scene, 64, 2);
            bool met = script_met(&scene.script, "race") > 0;
            assert_true(status == HF_OK || status == HF_MISMATCH);
            if (met && status == HF_OK) {
                assert_status(tables ? HF_UNSUPPORTED : HF_MISMATCH, rival.status,
                              &scene.error);
                assert_placed(&scene, 64, 2);
            } else if (met && !tables) {
                assert_int_equal(rival.status, HF_OK);
                assert_placed(&scene, 32, 1);
            } else if (met) {
                assert_int_equal(rival.status, HF_OK);
                assert_int_equal(recorded(&scene).pages, 0);
            }
            won += met && status == HF_OK;
            lost += met && status != HF_OK;
            scene_close(&scene);
        }
    assert_true(won >= 2 && lost >= 4);
}

/* A client that does not know the pages, of this version or an older one, leaves the mark alone. */
static void a_client_without_pages_is_refused_by_the_mark(void **state)
{
    struct scene scene;
    struct lease_table *table;
    struct mono_time now = { 0 };
    (void)state;
    scene_open(&scene);
    assert_status(HF_OK, create(&scene, 64, 2), &scene.error);
    assert_status(HF_UNSUPPORTED, lock_once(&scene, "path:/a/b", (struct placement){ 0 }),
                  &scene.error);
    assert_non_null(strstr(scene.error.why, "open the store again"));
    assert_placed(&scene, 64, 2);
    assert_status(HF_OK, lock_once(&scene, "deploy", (struct placement){ 0 }), &scene.error);
    assert_status(
        HF_UNSUPPORTED,
        table_decode(VIEW("{\"format\":\"holdfast.leases/2\",\"pages\":64,\"segments\":2}\n"),
                     now, NULL, &table, &scene.error),
        &scene.error);
    assert_non_null(strstr(scene.error.why, "upgrade Holdfast"));
    scene_close(&scene);
}

static void an_unknown_placement_is_unsupported(void **state)
{
    static const char *const texts[] = {
        "{ \"many\": { \"pages\": 64, \"segments\": 2, \"by\": \"x\" } }",
        "{ \"many\": { \"pages\": 1, \"segments\": 2 } }",
        "{ \"many\": { \"pages\": 64 } }",
        "{ \"many\": 7 }",
        "{ \"many\": ",
    };
    struct placement placement;
    struct hf_error error;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_status(HF_UNSUPPORTED,
                      placement_find(view_of(texts[i]), VIEW("many"), &placement, &error),
                      &error);
    assert_status(HF_OK, placement_find(view_of(texts[0]), VIEW("other"), &placement, &error),
                  &error);
    assert_int_equal(placement.pages, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the page of a path never changes", pages_never_change),
        IT("a short tree is refused, and a short path is not",
           a_short_tree_is_refused_and_a_short_path_is_not),
        IT("scopes that conflict are in one page", scopes_that_conflict_are_in_one_page),
        IT("the start of a path may determine its page",
           the_start_of_a_path_may_determine_its_page),
        IT("the keys of pages are those of tables of paths", keys_of_pages_are_tables),
        IT("a placement is recorded twice, and never changes",
           a_placement_is_recorded_twice_and_never_changes),
        IT("impossible placements are refused before anything is written",
           impossible_placements_are_refused),
        IT("a namespace that is in use gets no pages", a_namespace_in_use_gets_no_pages),
        IT("an interrupted creation is completed by the next one",
           an_interrupted_creation_is_repeated),
        IT("a placement that is half lost is restored by the same creation",
           what_is_lost_of_a_placement_is_restored),
        IT("a bucket has room for a thousand placements, and refuses more before it is full",
           a_bucket_has_room_for_a_thousand_placements),
        IT("of two creations, or a creation and a lock, the first wins", the_first_of_two_wins),
        IT("a client that does not know the pages is refused, and leaves the mark alone",
           a_client_without_pages_is_refused_by_the_mark),
        IT("a placement of a later version is unsupported",
           an_unknown_placement_is_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
