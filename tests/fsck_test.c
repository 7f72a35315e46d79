/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_test.c KIND: makes every fault that a bucket can have, alone and many at once. fsck must
 * find exactly these faults. KIND is mem or sqlite. */
#include "alloc.h"
#include "compact/care/maintain.h"
#include "fsck_kit.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Tests --------------------------------------------------------------------------- */

static void clean_bucket(void **state)
{
    (void)state;
    struct scene *scene = scene_open(1);
    fsck(scene, AT_ONCE);
    FOUND_WHAT_WAS_MADE(scene);
    assert_int_equal(scene->report.catalogs, 2 + CATALOG_CHILDREN);
    assert_int_equal(scene->report.chunks, 10);
    assert_int_equal(scene->report.tombstones, 4);
    assert_int_equal(scene->report.objects, 17);
    assert_int_equal(scene->report.deleting, 1);
    ASSERT(scene->report.rows > 0 && scene->report.bytes_read > 0);
    struct hf_error error;
    MUST(try_fsck(scene, "logs", AT_ONCE, &error));
    FOUND_WHAT_WAS_MADE(scene);
    assert_int_equal(scene->report.catalogs, 1 + CATALOG_CHILDREN);
    assert_int_equal(scene->report.objects, 9);
    IS(HF_NOT_FOUND, try_fsck(scene, "nowhere", AT_ONCE, &error));
    IS(HF_INVALID, try_fsck(scene, "No/Name", AT_ONCE, &error));
    scene_close(scene);
}

static void empty_bucket(void **state)
{
    (void)state;
    struct hf_error error;
    struct hf_fsck_report report;
    struct fsck_options options = { .repair = true };
    struct world world;
    struct peer peer;
    world_open(&world);
    peer_open(&peer, &world, NULL);
    MUST(fsck_run(&peer.way.base, peer.client, VIEW(""), &options, &report, &error));
    assert_int_equal(report.found, 0);
    peer_close(&peer);
    world_close(&world);
}

static void each_kind(void **state)
{
    (void)state;
    for (enum hf_fsck_kind kind = 0; kind < HF_FSCK_KIND_COUNT; kind++) {
        struct scene *scene = scene_open(100 + (uint64_t)kind);
        make_fault(scene, kind);
        fsck(scene, AT_ONCE);
        FOUND_WHAT_WAS_MADE(scene);
        size_t of_kind = 0;
        for (size_t i = 0; i < scene->found.count; i++)
            of_kind += scene->found.items[i].kind == kind;
        assert_int_equal(of_kind, 1);
        assert_int_equal(scene->report.repaired, 0);
        scene_close(scene);
    }
}

static void make_many(struct scene *scene)
{
    for (int i = 0; i < 3 * HF_FSCK_KIND_COUNT; i++)
        if (prng_below(&scene->prng, 3) > 0)
            make_fault(scene, (enum hf_fsck_kind)prng_below(&scene->prng, HF_FSCK_KIND_COUNT));
}

static void many_at_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct scene *scene = scene_open(1000 + seed);
        make_many(scene);
        fsck(scene, AT_ONCE);
        FOUND_WHAT_WAS_MADE(scene);
        scene_close(scene);
    }
}

static void dry_run(void **state)
{
    (void)state;
    struct buffer before = BUFFER_INIT(16 * MIB), after = BUFFER_INIT(16 * MIB);
    struct scene *scene = scene_open(7);
    for (enum hf_fsck_kind kind = 0; kind < HF_FSCK_KIND_COUNT; kind++)
        make_fault(scene, kind);
    dump(scene, &before);
    fsck(scene, AT_ONCE);
    dump(scene, &after);
    ASSERT(view_equal(buffer_view(&before), buffer_view(&after)));
    buffer_release(&before);
    buffer_release(&after);
    scene_close(scene);
}

/* Whether it can be put right, and whether nothing is left of it then. */
static bool is_repairable(enum hf_fsck_kind kind)
{
    return kind == HF_FSCK_MISSING_OBJECT || kind == HF_FSCK_WRONG_SIZE ||
           kind == HF_FSCK_WRONG_CHECKSUM || kind == HF_FSCK_WRONG_ROWS ||
           kind == HF_FSCK_UNREFERENCED || kind == HF_FSCK_LINGERING ||
           kind == HF_FSCK_STRAY_CATALOG || kind == HF_FSCK_UNSETTLED_LEASE ||
           kind == HF_FSCK_REWRITTEN;
}

static bool is_gone_then(enum hf_fsck_kind kind)
{
    return kind == HF_FSCK_UNREFERENCED || kind == HF_FSCK_LINGERING ||
           kind == HF_FSCK_STRAY_CATALOG || kind == HF_FSCK_UNSETTLED_LEASE;
}

static void forget_repaired(struct items *items)
{
    size_t kept = 0;
    for (size_t i = 0; i < items->count; i++)
        if (!is_gone_then(items->items[i].kind))
            items->items[kept++] = items->items[i];
    items->count = kept;
}

static void repairing(void **state)
{
    (void)state;
    struct scene *scene = scene_open(8);
    scene->long_ago = true;
    for (unsigned i = 0; i < 2 * HF_FSCK_KIND_COUNT; i++) {
        enum hf_fsck_kind kind = (enum hf_fsck_kind)(i % HF_FSCK_KIND_COUNT);
        if (kind != HF_FSCK_BAD_CATALOG && kind != HF_FSCK_MISSING_CATALOG)
            make_fault(scene, kind);
    }
    fsck(scene, AT_ONCE_REPAIR);
    FOUND_WHAT_WAS_MADE(scene);
    for (size_t i = 0; i < scene->found.count; i++)
        if (scene->found.items[i].repaired != is_repairable(scene->found.items[i].kind)) {
            show_items("found", &scene->found);
            FAIL("%s", scene->found.items[i].key);
        }
    struct items made = scene->made;
    forget_repaired(&scene->made);
    fsck(scene, AT_ONCE_REPAIR); /* what is quarantined is still told, and left as it is */
    FOUND_WHAT_WAS_MADE(scene);
    assert_int_equal(scene->report.repaired, 0);
    for (size_t i = 0; i < made.count; i++) {
        bool deleted = is_gone_then(made.items[i].kind);
        char *text = world_text(&scene->world, made.items[i].key);
        if (deleted && made.items[i].kind != HF_FSCK_UNSETTLED_LEASE)
            assert_null(text);
        free(text);
    }
    scene_close(scene);
}

static void look_for_quarantine(void *argument, const struct catalog *catalog,
                                const struct evidence *evidence)
{
    (void)evidence;
    const struct view *key = argument;
    const struct chunk *chunk = catalog_find(catalog, *key);
    ASSERT(chunk && chunk->quarantine.size > 0);
    ASSERT(view_starts_with(chunk->quarantine, VIEW("fsck: wrong-checksum")));
}

static void quarantine_says_why(void **state)
{
    (void)state;
    struct scene *scene = scene_open(9);
    struct hf_error error;
    struct catalog_tree *tree;
    struct catalog_ref *ref;
    make_fault(scene, HF_FSCK_WRONG_CHECKSUM);
    fsck(scene, AT_ONCE_REPAIR);
    struct view key = view_of(scene->made.items[0].key);
    MUST(catalog_tree_open(&scene->peer.way.base, scene->peer.client, VIEW("default"), &tree,
                           &error));
    MUST(catalog_tree_ref(tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_show(ref, look_for_quarantine, &key, &error));
    catalog_tree_close(tree);
    scene_close(scene);
}

static void strays_keep_for_long(void **state)
{
    (void)state;
    struct scene *scene = scene_open(10);
    make_fault(scene, HF_FSCK_STRAY_CATALOG);
    fsck(scene, AT_ONCE_REPAIR);
    FOUND_WHAT_WAS_MADE(scene);
    assert_int_equal(scene->report.repaired, 0);
    /* One that has what its parent does not know may be data, however old. */
    struct made_chunk made;
    char id[PARTITION_BYTES_MAX + 1], key[KEY_BYTES_MAX + 1];
    draw_id(scene, id);
    draw_chunk(scene, id, 0, &made);
    put_chunk(scene, &made);
    merge_catalog(scene, id, "");
    add_chunk(scene, id, &made);
    copy_into(scene, id, made.chunk.key, id, "default");
    catalog_of(id, key);
    note(scene, HF_FSCK_STRAY_CATALOG, key);
    scene->long_ago = true;
    fsck(scene, AT_ONCE_REPAIR);
    FOUND_WHAT_WAS_MADE(scene);
    assert_int_equal(scene->report.repaired, 1);
    char *text = world_text(&scene->world, key);
    assert_non_null(text);
    free(text);
    scene_close(scene);
}

/* The listing of a local store has the times of wall clocks, which can be set. */
static void date_far_apart(void *argument, struct script_call *call)
{
    struct scene *scene = argument;
    for (size_t i = 0; i < call->list->count; i++)
        if (view_equal(call->list->entries[i].key, view_of(scene->made.items[0].key)))
            call->list->entries[i].info.modified.us -= INT64_C(30) * 86400 * 1000000;
}

static void set_short_d(struct scene *scene)
{
    struct compact_settings settings = settings_of_test();
    struct catalog_op op = { .kind = CATALOG_SET, .settings = &settings };
    settings.late_bound_ms = 1;
    settings.skew_tolerance_ms = 0;
    apply(scene, "default", &op);
}

static void wall_clocks_prove_nothing(void **state)
{
    (void)state;
    struct scene *scene = scene_open(15);
    make_fault(scene, HF_FSCK_STRAY_CATALOG);
    script_rule(&scene->bent, .on = ON_LIST, .reply = date_far_apart, .argument = scene);
    for (int i = 0; i < 2; i++) {
        fsck(scene, AT_ONCE_REPAIR);
        FOUND_WHAT_WAS_MADE(scene);
        assert_int_equal(scene->report.repaired, 0);
    }
    /* The first of them has marked it. */
    set_short_d(scene);
    for (int i = 0; i < 1000 && scene->report.repaired == 0; i++)
        fsck(scene, AT_ONCE_REPAIR);
    assert_int_equal(scene->report.repaired, 1);
    assert_null(world_text(&scene->world, scene->made.items[0].key));
    scene_close(scene);
}

static void young_objects(void **state)
{
    (void)state;
    struct scene *scene = scene_open(11);
    make_fault(scene, HF_FSCK_UNREFERENCED);
    make_fault(scene, HF_FSCK_UNREFERENCED);
    make_fault(scene, HF_FSCK_STRAY_CATALOG);
    fsck(scene, (struct fsck_options){ .repair = true });
    assert_int_equal(scene->found.count, 0);
    assert_int_equal(scene->report.young, 2 + 2); /* two more have a lease */
    scene_close(scene);
}

static void homeless_objects(void **state)
{
    (void)state;
    struct scene *scene = scene_open(12);
    struct made_chunk made;
    draw_chunk(scene, "nobodys", 0, &made);
    put_chunk(scene, &made);
    note(scene, HF_FSCK_UNREFERENCED, made.key);
    fsck(scene, (struct fsck_options){ .repair = true }); /* however young it is */
    FOUND_WHAT_WAS_MADE(scene);
    assert_int_equal(scene->report.repaired, 0);
    char *text = world_text(&scene->world, made.key);
    assert_non_null(text);
    free(text);
    scene_close(scene);
}

/* Nobody knows what was in it: perhaps just this. */
static void spared_objects(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        struct scene *scene = scene_open(20 + i);
        make_fault(scene, HF_FSCK_UNREFERENCED);
        if (i == 0)
            make_fault(scene, HF_FSCK_MISSING_CATALOG);
        else {
            world_write(&scene->world, "metadata/spoilt/catalog.json", VIEW("{"));
            note(scene, HF_FSCK_BAD_CATALOG, "metadata/spoilt/catalog.json");
        }
        fsck(scene, AT_ONCE_REPAIR);
        char *text = world_text(&scene->world, scene->made.items[0].key);
        assert_non_null(text);
        free(text);
        FOUND_WHAT_WAS_MADE(scene);
        assert_int_equal(scene->report.repaired, 0);
        scene_close(scene);
    }
}

/* Nobody looks inside: what only the bytes tell is not found, all else is. */
static void shallow_look(void **state)
{
    (void)state;
    struct scene *scene = scene_open(13);
    make_fault(scene, HF_FSCK_MISSING_OBJECT);
    make_fault(scene, HF_FSCK_WRONG_SIZE);
    make_fault(scene, HF_FSCK_UNREFERENCED);
    size_t kept = scene->made.count;
    make_fault(scene, HF_FSCK_WRONG_CHECKSUM);
    make_fault(scene, HF_FSCK_WRONG_ROWS);
    make_fault(scene, HF_FSCK_UNREADABLE_OBJECT);
    scene->made.count = kept;
    fsck(scene, AT_ONCE_SHALLOW);
    FOUND_WHAT_WAS_MADE(scene);
    assert_int_equal(scene->report.bytes_read, 0);
    scene_close(scene);
}

/* Whether a fault of this kind, as the kit makes it, is one of the default partition alone. */
static bool is_of_default(enum hf_fsck_kind kind)
{
    return kind != HF_FSCK_BAD_CATALOG && kind != HF_FSCK_MISSING_CATALOG &&
           kind != HF_FSCK_TWICE && kind != HF_FSCK_WRONG_HOME && kind != HF_FSCK_BAD_LEASES;
}

static void one_partition(void **state)
{
    (void)state;
    struct scene *scene = scene_open(14);
    struct made_chunk made;
    struct hf_error error;
    size_t kept = 0;
    for (enum hf_fsck_kind kind = 0; kind < HF_FSCK_KIND_COUNT; kind++)
        make_fault(scene, kind);
    for (size_t i = 0; i < scene->made.count; i++)
        if (is_of_default(scene->made.items[i].kind))
            scene->made.items[kept++] = scene->made.items[i];
    scene->made.count = kept;
    draw_chunk(scene, "logs", 0, &made);
    put_chunk(scene, &made);
    MUST(try_fsck(scene, "default", AT_ONCE, &error));
    FOUND_WHAT_WAS_MADE(scene);
    scene->made.count = 0;
    note(scene, HF_FSCK_UNREFERENCED, made.key);
    MUST(try_fsck(scene, "logs", AT_ONCE, &error));
    FOUND_WHAT_WAS_MADE(scene);
    scene_close(scene);
}

static void stopping(void **state)
{
    (void)state;
    struct scene *scene = scene_open(15);
    struct hf_error error;
    scene->cancelled = true;
    IS(HF_CANCELLED, try_fsck(scene, "", AT_ONCE, &error));
    scene_close(scene);
}

/* ---- Between the first look and the second ------------------------------------------- */

static struct compact_settings settings_without_grace(void)
{
    struct compact_settings settings = settings_of_test();
    settings.grace_ms = 0;
    settings.skew_tolerance_ms = 0;
    return settings;
}

static void maintain(struct scene *scene, const char *partition)
{
    struct maintain_options options = { .short_lived = true };
    struct maintain_report report = { 0 };
    struct hf_error error;
    struct catalog_tree *tree;
    MUST(catalog_tree_open(&scene->peer.way.base, scene->peer.client, view_of(partition), &tree,
                           &error));
    MUST(maintain_round(tree, &options, &report, &error));
    catalog_tree_close(tree);
}

/* What the catalogs had when they were read. */
static struct made_chunk live[2], dead[2];

static void merge_and_reap(void *argument)
{
    struct scene *scene = argument;
    struct made_chunk target;
    merge_two(scene, "busy", live, &target);
    maintain(scene, "busy");
    for (int i = 0; i < 2; i++) {
        assert_null(world_text(&scene->world, live[i].key));
        assert_null(world_text(&scene->world, dead[i].key));
    }
}

static void reaped_meanwhile(void **state)
{
    (void)state;
    struct scene *scene = scene_open(30);
    struct compact_settings settings = settings_without_grace();
    struct made_chunk target;
    create(scene, "busy", &settings);
    make_merged(scene, "busy", dead, &target);
    make_chunk(scene, "busy", &live[0]);
    make_chunk(scene, "busy", &live[1]);
    script_rule(&scene->bent, .name = "moment", .on = ON_LIST, .key = "data/", .times = 1,
                .before = merge_and_reap, .argument = scene);
    fsck(scene, AT_ONCE);
    assert_int_equal(script_met(&scene->bent, "moment"), 1);
    FOUND_WHAT_WAS_MADE(scene);
    scene_close(scene);
}

static void add_more(void *argument)
{
    struct scene *scene = argument;
    make_chunk(scene, "default", &live[0]);
    make_merged(scene, "default", dead, &live[1]);
}

static void added_meanwhile(void **state)
{
    (void)state;
    struct scene *scene = scene_open(31);
    script_rule(&scene->bent, .name = "moment", .on = ON_LIST, .key = "data/", .times = 1,
                .before = add_more, .argument = scene);
    fsck(scene, AT_ONCE_REPAIR);
    assert_int_equal(script_met(&scene->bent, "moment"), 1);
    FOUND_WHAT_WAS_MADE(scene);
    assert_int_equal(scene->report.objects, 17 + 4);
    scene_close(scene);
}

/* A split whose children are there, and whose parent is swapped as soon as it was read. */
static char *swapped;
#define SPLIT_PARENT "metadata/busy/catalog.json"

static void swap_parent(void *argument)
{
    struct scene *scene = argument;
    world_write(&scene->world, SPLIT_PARENT, view_of(swapped));
}

static void split_meanwhile(void **state)
{
    (void)state;
    struct scene *scene = scene_open(32);
    create(scene, "busy", NULL);
    for (int i = 0; i < 10; i++)
        make_chunk(scene, "busy", &live[0]);
    char *before = world_text(&scene->world, SPLIT_PARENT);
    split(scene, "busy");
    swapped = world_text(&scene->world, SPLIT_PARENT);
    world_write(&scene->world, SPLIT_PARENT, view_of(before));
    scene->long_ago = true;
    script_rule(&scene->bent, .name = "moment", .on = ON_GET, .key = SPLIT_PARENT, .times = 1,
                .after = swap_parent, .argument = scene);
    fsck(scene, AT_ONCE_REPAIR);
    assert_int_equal(script_met(&scene->bent, "moment"), 1);
    FOUND_WHAT_WAS_MADE(scene);
    fsck(scene, AT_ONCE);
    FOUND_WHAT_WAS_MADE(scene);
    free(before);
    free(swapped);
    scene_close(scene);
}

/* ---- While others work --------------------------------------------------------------- */

struct churn {
    struct scene *scene;
    struct env_mutex mutex;
    bool stop;
};

static bool is_stopped(struct churn *churn)
{
    env_mutex_lock(&churn->mutex);
    bool stop = churn->stop;
    env_mutex_unlock(&churn->mutex);
    return stop;
}

/* Adds, merges and maintains in a new partition, and splits it at last. */
static void churn_once(struct scene *mine)
{
    char partition[PARTITION_BYTES_MAX + 1];
    struct compact_settings settings = settings_without_grace();
    struct made_chunk sources[2], target;
    create(mine, draw_partition(mine, partition), &settings);
    for (int i = 0; i < 3; i++) {
        make_merged(mine, partition, sources, &target);
        maintain(mine, partition);
    }
    split(mine, partition);
}

static void churn_on(void *argument)
{
    struct churn *churn = argument;
    struct scene *mine = calloc(1, sizeof *mine);
    ASSERT(mine);
    mine->world = churn->scene->world;
    peer_open(&mine->peer, &mine->world, NULL);
    mine->prng = prng_seeded(99);
    for (mine->partitions = 1000; mine->partitions < 1200 && !is_stopped(churn);)
        churn_once(mine);
    peer_close(&mine->peer);
    free(mine);
}

static void others_at_work(void **state)
{
    (void)state;
    struct scene *scene = scene_open(16);
    struct churn churn = { .scene = scene };
    struct env_task *task;
    struct hf_error error;
    make_fault(scene, HF_FSCK_MISSING_OBJECT);
    make_fault(scene, HF_FSCK_WRONG_CHECKSUM);
    env_mutex_init(env_real(), &churn.mutex);
    MUST(env_task_start(env_real(), churn_on, &churn, &task, &error));
    struct mono_time start = now();
    for (int i = 0; i < 40 && ms_since(start) < 500; i++) {
        fsck(scene, (struct fsck_options){ .age = SPAN_S(600) });
        FOUND_WHAT_WAS_MADE(scene);
    }
    env_mutex_lock(&churn.mutex);
    churn.stop = true;
    env_mutex_unlock(&churn.mutex);
    env_task_join(env_real(), task);
    fsck(scene, AT_ONCE);
    FOUND_WHAT_WAS_MADE(scene);
    env_mutex_release(&churn.mutex);
    scene_close(scene);
}

/* ---- Trouble ------------------------------------------------------------------------- */

static void furnish_with_faults(struct scene *scene)
{
    static const enum hf_fsck_kind kinds[] = { HF_FSCK_MISSING_OBJECT,  HF_FSCK_UNREFERENCED,
                                               HF_FSCK_LINGERING,       HF_FSCK_STRAY_CATALOG,
                                               HF_FSCK_UNSETTLED_LEASE, HF_FSCK_TWICE };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        make_fault(scene, kinds[i]);
}

/* Whatever it found before the trouble is of what was made. */
static void found_no_more(struct scene *scene, int line)
{
    for (size_t i = 0; i < scene->found.count; i++) {
        bool made = false;
        for (size_t j = 0; j < scene->made.count; j++)
            made |= by_kind_and_key(&scene->found.items[i], &scene->made.items[j]) == 0;
        if (!made && scene->found.items[i].kind != HF_FSCK_UNREADABLE_OBJECT)
            FAIL("line %d: found %s %s", line, hf_fsck_kind_name(scene->found.items[i].kind),
                 scene->found.items[i].key);
    }
}

static void no_memory(void **state)
{
    (void)state;
    struct scene *scene = scene_open(17);
    struct hf_error error;
    bool failed = true;
    furnish_with_faults(scene);
    for (long n = 0; failed; n += 1 + n / 20) {
        alloc_fail_after(n);
        enum hf_status status = try_fsck(scene, "", AT_ONCE_SHALLOW, &error);
        failed = alloc_stop();
        if (status != HF_OK && (status != HF_UNAVAILABLE || !failed))
            FAIL("after %ld: %s: %s", n, hf_status_name(status), error.why);
        found_no_more(scene, __LINE__);
        if (status == HF_OK)
            FOUND_WHAT_WAS_MADE(scene);
    }
    scene_close(scene);
}

static void store_in_trouble(void **state)
{
    (void)state;
    struct scene *scene = scene_open(18);
    struct hf_error error;
    furnish_with_faults(scene);
    bool failed = true;
    for (long n = 0; failed; n += 3) {
        way_fail(&scene->peer.way, n, REFUSE(HF_DENIED));
        enum hf_status status = try_fsck(scene, "", AT_ONCE_SHALLOW, &error);
        failed = way_has_failed(&scene->peer.way);
        ASSERT(status == HF_OK || status == HF_DENIED || status == HF_UNAVAILABLE);
        ASSERT(failed || status == HF_OK);
        found_no_more(scene, __LINE__);
    }
    way_shut(&scene->peer.way, "data/", REFUSE(HF_UNAVAILABLE));
    IS(HF_UNAVAILABLE, try_fsck(scene, "", AT_ONCE, &error));
    way_shut(&scene->peer.way, "catalog.json", REFUSE(HF_DENIED));
    IS(HF_DENIED, try_fsck(scene, "", AT_ONCE, &error));
    way_open(&scene->peer.way);
    fsck(scene, AT_ONCE);
    FOUND_WHAT_WAS_MADE(scene);
    struct fsck_options nowhere = { .scratch = "/nonexistent" };
    ASSERT(try_fsck(scene, "", nowhere, &error) != HF_OK);
    scene_close(scene);
}

static void words(void **state)
{
    (void)state;
    for (enum hf_fsck_kind i = 0; i < HF_FSCK_KIND_COUNT; i++) {
        assert_true(strlen(hf_fsck_kind_name(i)) > 0 && strlen(hf_fsck_kind_text(i)) > 0);
        for (enum hf_fsck_kind j = 0; j < i; j++)
            assert_string_not_equal(hf_fsck_kind_name(i), hf_fsck_kind_name(j));
    }
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("every kind of finding has a word of its own", words),
        IT("nothing is found in an empty bucket", empty_bucket),
        IT("nothing is found in a bucket that is in order", clean_bucket),
        IT("a fault of each kind is found, and nothing else", each_kind),
        IT("of many faults at once each is found, and nothing else", many_at_once),
        IT("without repair not a byte is changed", dry_run),
        IT("what can be repaired is, and is not found again or is quarantined", repairing),
        IT("a quarantine says what is wrong", quarantine_says_why),
        IT("a stray catalog is deleted when it is old and its parent knows all it has",
           strays_keep_for_long),
        IT("on a local store, a stray catalog is deleted only 2 D after it was marked",
           wall_clocks_prove_nothing),
        IT("what is young is counted, not told", young_objects),
        IT("an object of a partition without a catalog is told and never deleted",
           homeless_objects),
        IT("while a catalog cannot be read nothing is condemned", spared_objects),
        IT("a shallow look reads no object", shallow_look),
        IT("one partition is looked through alone", one_partition),
        IT("it stops when it is told to", stopping),
        IT("what is merged and deleted meanwhile is not missed", reaped_meanwhile),
        IT("what is added meanwhile is not taken for an orphan", added_meanwhile),
        IT("what a split moves meanwhile is in one place", split_meanwhile),
        IT("what others do meanwhile is not taken for a fault", others_at_work),
        IT("without memory it ends with a status or finds all", no_memory),
        IT("when the store fails it ends with a status and tells nothing wrong",
           store_in_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
