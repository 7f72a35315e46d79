/* SPDX-License-Identifier: Apache-2.0 */
/* pin_test.c: a pin on an existing chunk keeps it from being deleted, wherever a split has
 * moved its entry. Of a reader and a deleter, at least one sees the other. */
#include "catalog_tree_kit.h"

#include "compact/care/pin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MS 30000

static char keys[600][KEY_BYTES_MAX + 1];

static enum hf_status take(struct bed *bed, const char *const *names, size_t count,
                           struct hf_lock **ret_lock)
{
    return pin_take(bed->tree, names, count, TTL_MS, ret_lock, &bed->error);
}

static bool is_pinned(struct bed *bed, const char *key)
{
    struct view view = view_of(key);
    struct pin_query query = { .keys = &view, .count = 1 };
    bool pinned;
    assert_status(HF_OK, pin_find(bed->tree, &query, &pinned, &bed->error), &bed->error);
    return pinned;
}

/* Gives back, for certain. */
static void give_back(struct bed *bed, struct hf_lock *lock)
{
    assert_status(HF_OK, hf_lock_release(lock, &bed->error), &bed->error);
    hf_lock_free(lock);
}

static void retire_all(struct bed *bed, const char *partition)
{
    struct catalog_op op = { .kind = CATALOG_RETIRE, .cutoff_ms = SOME_HOUR + 1000 * HOUR_MS };
    assert_status(HF_OK,
                  catalog_ref_apply(slot_of(bed, partition), &op, (struct mono_time){ 0 }),
                  &op.error);
}

/* Moves what is past its grace (there is none) to deleting. */
static void reap(struct bed *bed, const char *partition)
{
    struct catalog_op op = { .kind = CATALOG_MAINTAIN };
    assert_status(HF_OK,
                  catalog_ref_apply(slot_of(bed, partition), &op, (struct mono_time){ 0 }),
                  &op.error);
}

static void a_pin_is_seen(void **state)
{
    (void)state;
    struct ground ground;
    struct hf_lock *lock;
    ground_open(&ground, "sqlite", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(reader, NULL, 3, 1, keys), &reader->error);
    const char *names[] = { keys[0], keys[2] };
    assert_false(is_pinned(deleter, keys[0]));
    assert_status(HF_OK, take(reader, names, 2, &lock), &reader->error);
    struct view asked[] = { view_of(keys[0]), view_of(keys[1]), view_of(keys[2]),
                            view_of(keys[0]), VIEW("data/other/L0/2026/11/a.usv") };
    struct pin_query query = { .keys = asked, .count = 5 };
    bool pinned[5];
    assert_status(HF_OK, pin_find(deleter->tree, &query, pinned, &deleter->error),
                  &deleter->error);
    assert_true(pinned[0] && !pinned[1] && pinned[2] && pinned[3] && !pinned[4]);
    give_back(reader, lock);
    assert_false(is_pinned(deleter, keys[0]));
    ground_close(&ground);
}

static void what_is_gone_cannot_be_pinned(void **state)
{
    (void)state;
    struct ground ground;
    struct hf_lock *lock = NULL;
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(reader, NULL, 2, 1, keys), &reader->error);
    retire_all(deleter, NULL);
    const char *names[] = { keys[0], keys[1] };
    assert_status(HF_OK, take(reader, names, 2, &lock), &reader->error); /* in their grace */
    give_back(reader, lock);
    reap(deleter, NULL);
    assert_status(HF_NOT_FOUND, take(reader, names, 2, &lock), &reader->error);
    assert_non_null(strstr(reader->error.why, keys[0]));
    assert_false(is_pinned(deleter, keys[0]));
    const char *unknown = "data/default/L0/2026/11/nobody.usv";
    assert_status(HF_NOT_FOUND, take(reader, &unknown, 1, &lock), &reader->error);
    assert_non_null(strstr(reader->error.why, "nobody"));
    ground_close(&ground);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct ground ground;
    struct hf_lock *lock;
    ground_open(&ground, "mem", NULL, 1);
    struct bed *bed = &ground.beds[0];
    ground_create(&ground);
    const char *two[] = { "data/default/L0/2026/11/a.usv", "data/other/L0/2026/11/a.usv" };
    assert_status(HF_INVALID, take(bed, two, 2, &lock), &bed->error);
    assert_status(HF_INVALID, take(bed, two, 0, &lock), &bed->error);
    assert_status(HF_INVALID, take(bed, two, PIN_CHUNKS_MAX + 1, &lock), &bed->error);
    assert_status(HF_INVALID, pin_take(bed->tree, two, 1, 1, &lock, &bed->error), &bed->error);
    ground_close(&ground);
}

static void what_has_moved_can_be_pinned(void **state)
{
    (void)state;
    struct ground ground;
    struct census census;
    struct hf_lock *lock;
    const char *names[PIN_CHUNKS_MAX];
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(deleter, NULL, 600, 100, keys), &deleter->error);
    struct catalog_ref *root = slot_of(deleter, NULL);
    assert_status(HF_OK, catalog_ref_split(root, &deleter->error), &deleter->error);
    tree_listing_take(deleter, &census); /* whose child has the first is split again */
    char child[PARTITION_BYTES_MAX + 1];
    snprintf(child, sizeof child, "%s", census_find(&census, keys[0])->partition);
    tree_listing_release(&census);
    assert_status(HF_OK, catalog_ref_split(slot_of(deleter, child), &deleter->error),
                  &deleter->error);
    for (size_t i = 0; i < PIN_CHUNKS_MAX; i++)
        names[i] = keys[i];
    assert_status(HF_OK, take(reader, names, PIN_CHUNKS_MAX, &lock), &reader->error);
    assert_true(is_pinned(deleter, keys[0]));
    assert_true(is_pinned(deleter, keys[PIN_CHUNKS_MAX - 1]));
    assert_false(is_pinned(deleter, keys[PIN_CHUNKS_MAX]));
    give_back(reader, lock);
    tree_listing_take(deleter, &census); /* and is deleted there */
    snprintf(child, sizeof child, "%s", census_find(&census, keys[0])->partition);
    tree_listing_release(&census);
    retire_all(deleter, child);
    reap(deleter, child);
    assert_status(HF_NOT_FOUND, take(reader, names, 1, &lock), &reader->error);
    ground_close(&ground);
}

static void a_damaged_table_pins_all(void **state)
{
    (void)state;
    struct ground ground;
    struct hf_lock *lock;
    ground_open(&ground, "mem", NULL, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(reader, NULL, 1, 1, keys), &reader->error);
    const char *name = keys[0];
    assert_status(HF_OK, take(reader, &name, 1, &lock), &reader->error);
    put_bytes(&ground, LAYOUT_CHUNK_LEASES, VIEW("{"));
    /* Whoever asks for a lease replaces it, by one that says that nobody knows who has what. */
    struct hf_lock *other;
    assert_status(HF_OK, hf_lock_new(deleter->client, "pin:x", NULL, &other, &deleter->error),
                  &deleter->error);
    assert_status(HF_HELD, hf_lock_acquire(other, 0, &deleter->error), &deleter->error);
    hf_lock_free(other);
    assert_true(is_pinned(deleter, keys[0]));
    hf_lock_free(lock);
    ground_close(&ground);
}

static void lost_replies_pin_all_the_same(void **state)
{
    (void)state;
    struct ground ground;
    struct hf_lock *lock;
    const struct fault_plan plan = { .seed = 5, .lose_reply = 500000 };
    ground_open(&ground, "mem", &plan, 2);
    struct bed *reader = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    assert_status(HF_OK, add_chunks(reader, NULL, 1, 1, keys), &reader->error);
    const char *name = keys[0];
    assert_status(HF_OK, take(reader, &name, 1, &lock), &reader->error);
    assert_true(is_pinned(deleter, keys[0]));
    give_back(reader, lock);
    ground_close(&ground);
}

/* ---- The race ------------------------------------------------------------------------ */

#define RACES 60

struct reader {
    struct bed *bed;
    const char *key;
    enum hf_status status;
    struct hf_lock *lock;
};

static void read_one(void *argument)
{
    struct reader *reader = argument;
    reader->status = take(reader->bed, &reader->key, 1, &reader->lock);
}

static void one_of_the_two_sees_the_other(void **state)
{
    (void)state;
    struct ground ground;
    size_t kept = 0, deleted = 0;
    ground_open(&ground, "mem", NULL, 2);
    struct bed *bed = &ground.beds[0], *deleter = &ground.beds[1];
    ground_create(&ground);
    for (size_t i = 0; i < RACES; i++) {
        struct reader reader = { .bed = bed, .key = keys[0] };
        struct env_task *task;
        assert_status(HF_OK, add_chunks(deleter, NULL, 1, 1, keys), &deleter->error);
        retire_all(deleter, NULL);
        assert_status(HF_OK, env_task_start(env_real(), read_one, &reader, &task, &bed->error),
                      &bed->error);
        if (i % 2)
            env_sleep(env_real(), env_jitter(env_real(), SPAN_US(400)));
        reap(deleter, NULL);
        bool pinned = is_pinned(deleter, keys[0]); /* if not, it would be deleted now */
        env_task_join(env_real(), task);
        assert_true(reader.status == HF_OK || reader.status == HF_NOT_FOUND);
        assert_true(pinned || reader.status == HF_NOT_FOUND);
        kept += reader.status == HF_OK;
        deleted += !pinned;
        if (reader.status == HF_OK)
            give_back(bed, reader.lock);
    }
    print_message("# %zu were pinned, %zu deleted\n", kept, deleted);
    ground_close(&ground);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a pin is seen by those who delete, until it is given back", a_pin_is_seen),
        IT("what is gone cannot be pinned, and is named; what is in its grace can be",
           what_is_gone_cannot_be_pinned),
        IT("chunks of two homes, none and too many are refused",
           what_makes_no_sense_is_refused),
        IT("what a split has moved is found where it is now", what_has_moved_can_be_pinned),
        IT("when the table of leases was damaged everything counts as pinned",
           a_damaged_table_pins_all),
        IT("a pin holds when replies are lost", lost_replies_pin_all_the_same),
        IT("of a reader and a deleter at least one sees the other",
           one_of_the_two_sees_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
