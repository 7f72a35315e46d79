/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_test.c: a snapshot of a partition stays readable while chunks are merged, moved by
 * splits and deleted; and it does not stop the deletion of anything that it does not contain. */
#include "catalog_tree_kit.h"

#include "compact/care/maintain.h"
#include "compact/care/pin.h"
#include "compact/care/snapshot.h"
#include "lock/chunks.h"
#include "scripted_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MS 60000

static char keys[64][KEY_BYTES_MAX + 1];

static void take(struct bed *bed, struct snapshot *snapshot)
{
    assert_status(HF_OK, snapshot_take(bed->tree, TTL_MS, snapshot, &bed->error), &bed->error);
}

/* Adds chunks with their objects. */
static void add(struct ground *ground, struct bed *bed, const char *partition, size_t count,
                size_t first)
{
    assert_status(HF_OK, add_chunks(bed, partition, count, 1, keys + first), &bed->error);
    for (size_t i = 0; i < count; i++)
        put_bytes(ground, keys[first + i], VIEW("a chunk\n"));
}

static void apply(struct bed *bed, const char *partition, struct catalog_op op)
{
    assert_status(HF_OK,
                  catalog_ref_apply(slot_of(bed, partition), &op, (struct mono_time){ 0 }),
                  &op.error);
}

/* Turns all live chunks into tombstones. Their grace has passed at once (some_settings). */
static void retire(struct bed *bed, const char *partition)
{
    apply(bed, partition,
          (struct catalog_op){ .kind = CATALOG_RETIRE,
                               .cutoff_ms = SOME_HOUR + 1000 * HOUR_MS });
}

static struct maintain_report maintain(struct bed *bed)
{
    struct maintain_options options = { .short_lived = false };
    struct maintain_report report = { 0 };
    assert_status(HF_OK, maintain_round(bed->tree, &options, &report, &bed->error),
                  &bed->error);
    return report;
}

static bool has_object(struct ground *ground, const char *key)
{
    return count_objects(ground, key) == 1;
}

static bool lists(const struct snapshot *snapshot, const char *key)
{
    for (size_t i = 0; i < snapshot->chunk_count; i++)
        if (view_equal(snapshot->chunks[i].chunk.key, view_of(key)))
            return true;
    return false;
}

static void a_snapshot_keeps_its_objects(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot snapshot;
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    add(&ground, deleter, NULL, 3, 0);
    take(reader, &snapshot);
    assert_int_equal(snapshot.chunk_count, 3);
    assert_int_equal(snapshot.pin_count, 1);
    retire(deleter, NULL);
    struct maintain_report report = maintain(deleter);
    assert_int_equal(report.reaped, 3);
    assert_int_equal(report.pinned, 3);
    assert_int_equal(report.deleted, 0);
    for (size_t i = 0; i < 3; i++)
        assert_true(has_object(&ground, keys[i]));
    assert_status(HF_OK, snapshot_check(&snapshot, &reader->error), &reader->error);
    snapshot_release(&snapshot);
    assert_int_equal(maintain(deleter).deleted, 3);
    assert_int_equal(count_objects(&ground, "data/"), 0);
    ground_close(&ground);
}

/* Each reader starts before the one before it ends, so there is always one. */
static void overlapping_readers_do_not_stop_deletion(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot snapshots[2];
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    add(&ground, deleter, NULL, 1, 0);
    take(reader, &snapshots[0]);
    for (size_t i = 0; i < 10; i++) {
        struct snapshot *older = &snapshots[i % 2], *newer = &snapshots[(i + 1) % 2];
        retire(deleter, NULL);
        assert_int_equal(maintain(deleter).deleted, 0);
        assert_true(has_object(&ground, keys[i]));
        add(&ground, deleter, NULL, 1, i + 1);
        take(reader, newer);
        assert_true(lists(newer, keys[i + 1]) && !lists(newer, keys[i]));
        snapshot_release(older);
        assert_int_equal(maintain(deleter).deleted, 1); /* only the newer one is left */
        assert_false(has_object(&ground, keys[i]));
    }
    snapshot_release(&snapshots[0]);
    ground_close(&ground);
}

static void a_pin_is_one_lease(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot snapshots[3];
    ground_open(&ground, "mem", NULL, 1);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    add(&ground, bed, NULL, 40, 0);
    for (size_t i = 0; i < 3; i++)
        take(bed, &snapshots[i]);
    char *text = get_bytes(&ground, LAYOUT_CHUNK_LEASES);
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, "\"snapshot:default:")); at++)
        count++;
    assert_int_equal(count, 3);
    assert_null(strstr(text, keys[0]));
    free(text);
    for (size_t i = 0; i < 3; i++)
        snapshot_release(&snapshots[i]);
    ground_close(&ground);
}

/* ---- Splits -------------------------------------------------------------------------- */

static void child_of(struct bed *bed, const char *key, char child[PARTITION_BYTES_MAX + 1])
{
    struct census census;
    tree_listing_take(bed, &census);
    snprintf(child, PARTITION_BYTES_MAX + 1, "%s", census_find(&census, key)->partition);
    tree_listing_release(&census);
}

static void a_split_moves_what_is_pinned(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot before, after;
    char child[PARTITION_BYTES_MAX + 1], grandchild[PARTITION_BYTES_MAX + 1];
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    add(&ground, deleter, NULL, 16, 0);
    take(reader, &before);
    assert_status(HF_OK, catalog_ref_split(slot_of(deleter, NULL), &deleter->error),
                  &deleter->error);
    child_of(deleter, keys[0], child);
    assert_status(HF_OK, catalog_ref_split(slot_of(deleter, child), &deleter->error),
                  &deleter->error);
    child_of(deleter, keys[0], grandchild);
    retire(deleter, grandchild); /* where the reader has no pin */
    struct maintain_report report = maintain(deleter);
    assert_true(report.reaped > 0 && report.deleted == 0);
    take(reader, &after); /* it sees the split, and does not list what is deleting */
    assert_int_equal(after.pin_count, 1 + 2 * CATALOG_CHILDREN);
    assert_int_equal(after.chunk_count, 16 - report.reaped);
    assert_false(lists(&after, keys[0]));
    snapshot_release(&before);
    assert_int_equal(maintain(deleter).deleted, report.reaped);
    retire(deleter, grandchild);
    snapshot_release(&after);
    ground_close(&ground);
}

/* Runs beside a reader that takes a snapshot. */
static void split_twice(void *argument)
{
    struct bed *bed = argument;
    struct hf_error error;
    char child[PARTITION_BYTES_MAX + 1];
    catalog_ref_split(slot_of(bed, NULL), &error);
    child_of(bed, keys[0], child);
    catalog_ref_split(slot_of(bed, child), &error);
}

static void a_split_while_pinning_is_harmless(void **state)
{
    (void)state;
    size_t seen = 0;
    for (int i = 0; i < 40; i++) {
        struct ground ground;
        struct snapshot snapshot;
        struct env_task *task;
        ground_open(&ground, "mem", NULL, 2);
        struct bed *reader = &ground.beds[0], *other = &ground.beds[1];
        ground_create(&ground);
        add(&ground, other, NULL, 16, 0);
        assert_status(HF_OK,
                      env_task_start(env_real(), split_twice, other, &task, &other->error),
                      &other->error);
        env_sleep(env_real(), env_jitter(env_real(), SPAN_US(1500)));
        take(reader, &snapshot);
        env_task_join(env_real(), task);
        assert_int_equal(snapshot.chunk_count, 16);
        for (size_t k = 0; k < 16; k++)
            assert_true(lists(&snapshot, keys[k]));
        for (size_t k = 0; k < snapshot.chunk_count; k++) {
            const struct snapshot_chunk *chunk = &snapshot.chunks[k];
            seen += !view_equal(chunk->partition, snapshot.pins[chunk->pin].partition);
        }
        char child[PARTITION_BYTES_MAX + 1];
        child_of(other, keys[0], child);
        retire(other, child);
        assert_int_equal(maintain(other).deleted, 0);
        snapshot_release(&snapshot);
        ground_close(&ground);
    }
    print_message("# %zu chunks were found below the catalog that was pinned\n", seen);
}

/* ---- Other versions ------------------------------------------------------------------ */

/* Replaces every occurrence of a text; both must be shorter than the document. */
static void edit(struct ground *ground, const char *key, const char *from, const char *to)
{
    char *text = get_bytes(ground, key);
    struct buffer edited = BUFFER_INIT(MIB);
    const char *at = text, *found;
    test_unseal(text);
    assert_non_null(strstr(text, from));
    while ((found = strstr(at, from))) {
        buffer_append(&edited, (struct view){ at, (size_t)(found - at) });
        buffer_append(&edited, view_of(to));
        at = found + strlen(from);
    }
    buffer_append(&edited, view_of(at));
    put_bytes(ground, key, buffer_view(&edited));
    buffer_release(&edited);
    free(text);
}

#define CATALOG_KEY "metadata/catalog.json"

/* A version without generations keeps the member of the catalog, but moves names without it. */
static void names_that_an_old_version_moved_are_kept(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot old, new;
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    add(&ground, deleter, NULL, 2, 0);
    take(reader, &old);
    retire(deleter, NULL);
    apply(deleter, NULL, (struct catalog_op){ .kind = CATALOG_MAINTAIN });
    edit(&ground, CATALOG_KEY, ",\"generation\":1", "");
    assert_int_equal(maintain(deleter).deleted, 0); /* and it gives them a generation */
    char *text = get_bytes(&ground, CATALOG_KEY);
    assert_non_null(strstr(text, "\"depth\":0,\"generation\":1,"));
    free(text);
    take(reader, &new);
    snapshot_release(&old);
    assert_int_equal(maintain(deleter).deleted, 2); /* the new snapshot does not hold them */
    snapshot_release(&new);
    ground_close(&ground);
}

static void a_split_by_an_old_version_is_safe(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot old, new;
    char child[PARTITION_BYTES_MAX + 1];
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    add(&ground, deleter, NULL, 8, 0);
    take(reader, &old);
    assert_status(HF_OK, catalog_ref_split(slot_of(deleter, NULL), &deleter->error),
                  &deleter->error);
    edit(&ground, CATALOG_KEY, ",\"split_generation\":1", "");
    edit(&ground, CATALOG_KEY, ",\"generation\":1", "");
    child_of(deleter, keys[0], child);
    retire(deleter, child);
    struct maintain_report report = maintain(deleter);
    assert_true(report.reaped > 0 && report.deleted == 0);
    take(reader, &new); /* of the generation that this maintenance has set */
    assert_int_equal(maintain(deleter).deleted, 0);
    snapshot_release(&old);
    assert_int_equal(maintain(deleter).deleted, report.reaped);
    snapshot_release(&new);
    ground_close(&ground);
}

static void pins_by_name_still_count(void **state)
{
    (void)state;
    struct ground ground;
    struct hf_lock *lock;
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    add(&ground, deleter, NULL, 2, 0);
    const char *name = keys[1];
    assert_status(HF_OK, pin_take(reader->tree, &name, 1, TTL_MS, &lock, &reader->error),
                  &reader->error);
    retire(deleter, NULL);
    struct maintain_report report = maintain(deleter);
    assert_int_equal(report.deleted, 1);
    assert_int_equal(report.pinned, 1);
    assert_true(has_object(&ground, keys[1]) && !has_object(&ground, keys[0]));
    hf_lock_release(lock, &reader->error);
    hf_lock_free(lock);
    maintain(deleter);
    assert_false(has_object(&ground, keys[1]));
    ground_close(&ground);
}

/* A version that does not know snapshots must not delete anything. Its decoder is the same as ours,
 * except that it has no such kind: it refuses the whole table. */
static void an_old_version_refuses_the_table(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot snapshot;
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *old = &ground.beds[1];
    struct maintain_options options = { .short_lived = false };
    struct maintain_report report = { 0 };
    ground_create(&ground);
    add(&ground, old, NULL, 2, 0);
    take(reader, &snapshot);
    edit(&ground, LAYOUT_CHUNK_LEASES, "\"snapshot:", "\"laterkind:");
    retire(old, NULL);
    assert_status(HF_UNSUPPORTED, maintain_round(old->tree, &options, &report, &old->error),
                  &old->error);
    assert_int_equal(report.deleted, 0);
    assert_int_equal(count_objects(&ground, "data/"), 2);
    edit(&ground, LAYOUT_CHUNK_LEASES, "\"laterkind:", "\"snapshot:");
    snapshot_release(&snapshot);
    ground_close(&ground);
}

/* ---- Trouble ------------------------------------------------------------------------- */

static void a_dead_reader_is_forgotten(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot snapshot;
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    add(&ground, deleter, NULL, 1, 0);
    assert_status(HF_OK, snapshot_take(reader->tree, 1000, &snapshot, &reader->error),
                  &reader->error);
    struct hf_lock *lock = snapshot.pins[0].lock;
    hf_lock_detach(lock); /* nobody renews it */
    snapshot.pins[0].lock = NULL;
    snapshot_release(&snapshot);
    retire(deleter, NULL);
    uint64_t deleted = 0;
    for (int i = 0; i < 600 && deleted == 0; i++) {
        deleted = maintain(deleter).deleted;
        env_sleep(env_real(), SPAN_MS(50));
    }
    assert_int_equal(deleted, 1);
    ground_close(&ground);
}

static void what_cannot_be_read_gives_no_snapshot(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot snapshot;
    ground_open(&ground, "mem", NULL, 1);
    struct bed *bed = &ground.beds[0];
    assert_status(HF_NOT_FOUND, snapshot_take(bed->tree, TTL_MS, &snapshot, &bed->error),
                  &bed->error);
    ground_create(&ground);
    add(&ground, bed, NULL, 8, 0);
    assert_status(HF_OK, catalog_ref_split(slot_of(bed, NULL), &bed->error), &bed->error);
    char child[PARTITION_BYTES_MAX + 1], key[KEY_BYTES_MAX + 1];
    child_of(bed, keys[0], child);
    snprintf(key, sizeof key, "metadata/%s/catalog.json", child);
    put_bytes(&ground, key, VIEW("{"));
    assert_status(HF_CORRUPT, snapshot_take(bed->tree, TTL_MS, &snapshot, &bed->error),
                  &bed->error);
    assert_non_null(strstr(bed->error.why, child));
    ground_close(&ground);
}

static void lost_replies_change_nothing(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot snapshot;
    const struct fault_plan plan = { .seed = 7, .lose_reply = 300000 };
    ground_open(&ground, "mem", &plan, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(deleter, NULL, 4, 1, keys), &deleter->error);
    take(reader, &snapshot);
    assert_int_equal(snapshot.chunk_count, 4);
    snapshot_release(&snapshot);
    ground_close(&ground);
}

/* Replaces the catalog by one that has removed nothing yet. */
static void create_again(void *argument)
{
    edit(argument, CATALOG_KEY, "\"generation\":1", "\"generation\":0");
}

/* A pin at the generation of the old catalog would not hold what the new one removes first. */
static void a_catalog_that_is_created_again_gives_no_snapshot(void **state)
{
    (void)state;
    struct ground ground;
    struct snapshot snapshot;
    struct script script;
    struct bed reader = { .client = NULL };
    ground_open(&ground, "mem", NULL, 1);
    struct bed *other = &ground.beds[0];
    ground_create(&ground);
    add(&ground, other, NULL, 2, 0);
    retire(other, NULL);
    assert_int_equal(maintain(other).deleted, 2);
    add(&ground, other, NULL, 1, 2);
    script_init(&script, ground.store);
    script_rule(&script, .name = "leases", .on = ON_PUT | ON_CHANGE, .part = "leases.json",
                .times = 1, .before = create_again, .argument = &ground);
    bed_open(&reader, &script.base);
    assert_status(HF_CONFLICT, snapshot_take(reader.tree, TTL_MS, &snapshot, &reader.error),
                  &reader.error);
    assert_int_equal(script_met(&script, "leases"), 1);
    take(&reader, &snapshot);
    assert_int_equal(snapshot.chunk_count, 1);
    snapshot_release(&snapshot);
    bed_close(&reader);
    store_close(&script.base);
    ground_close(&ground);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a snapshot keeps its objects until it is released", a_snapshot_keeps_its_objects),
        IT("overlapping readers do not stop deletion for ever",
           overlapping_readers_do_not_stop_deletion),
        IT("the pin of a catalog is one lease, whatever the catalog contains",
           a_pin_is_one_lease),
        IT("what a split moves stays pinned, and later snapshots do not hold it",
           a_split_moves_what_is_pinned),
        IT("what a split moves while catalogs are pinned stays readable",
           a_split_while_pinning_is_harmless),
        IT("names that a version without generations moved are kept for all snapshots",
           names_that_an_old_version_moved_are_kept),
        IT("what a version without generations split stays pinned",
           a_split_by_an_old_version_is_safe),
        IT("pins by name still count", pins_by_name_still_count),
        IT("a version without snapshots deletes nothing that one may pin",
           an_old_version_refuses_the_table),
        IT("the snapshot of a dead reader ends with its lease", a_dead_reader_is_forgotten),
        IT("a partition that cannot be read as a whole gives no snapshot",
           what_cannot_be_read_gives_no_snapshot),
        IT("a snapshot is taken although replies are lost", lost_replies_change_nothing),
        IT("a catalog that is created again meanwhile gives no snapshot",
           a_catalog_that_is_created_again_gives_no_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
