/* SPDX-License-Identifier: Apache-2.0 */
/* index_many_test.c KIND: many keys are read in one pass: each inbox is listed once, no part of a
 * shard is read twice, and every key is answered exactly once. KIND is mem or sqlite. */
#include "index/read.h"
#include "index_scene.h"

#include <stdio.h>
#include <stdlib.h>

#define KEYS_MAX 400

/* The answers of one call. */
struct answers {
    size_t count;
    unsigned times[KEYS_MAX];
    enum hf_status status[KEYS_MAX];
    char value[KEYS_MAX][16]; /* the second field */
    size_t stop_after;        /* 0: never */
};

static enum hf_status note_answer(void *argument, size_t number, const struct record *record,
                                  const struct hf_error *why, struct hf_error *error)
{
    struct answers *answers = argument;
    assert_in_range(number, 0, KEYS_MAX - 1);
    assert_int_equal(record != NULL, why->status == HF_OK);
    answers->count++;
    answers->times[number]++;
    answers->status[number] = why->status;
    if (record)
        snprintf(answers->value[number], sizeof answers->value[number], "%.*s",
                 VIEW_ARGS(record_field(record, 1)));
    return answers->count == answers->stop_after ? error_set(error, HF_CANCELLED, "enough")
                                                 : HF_OK;
}

static enum hf_status get_all(struct scene *scene, const char *const *keys, size_t count,
                              struct answers *answers)
{
    struct view views[KEYS_MAX];
    const struct index_getter getter = { note_answer, answers };
    assert_in_range(count, 0, KEYS_MAX);
    for (size_t i = 0; i < count; i++)
        views[i] = view_of(keys[i]);
    enum hf_status status =
        index_get_many(scene->crew.index, views, count, &getter, &scene->error);
    for (size_t i = 0; i < count && answers->stop_after == 0; i++)
        assert_int_equal(answers->times[i], 1);
    return status;
}

static void compile(void *argument)
{
    struct scene *scene = argument;
    crew_compile(&scene->other);
}

#define AT(key, value, hour) key US value US "2026-02-06T" hour ":00:00Z"

static void every_key_is_answered_once(void **state)
{
    struct scene *scene = *state;
    static const char *const keys[] = { "c", "none", "a", "a", "", "b", "nothing" };
    for (int folded = 0; folded < 3; folded++) {
        struct answers answers = { .count = 0 };
        if (folded == 0) {
            yard_put(&scene->yard, AT("a", "old", "10"));
            yard_put(&scene->yard, AT("b", "old", "10"));
            yard_put(&scene->yard, AT("c", "old", "10"));
        } else if (folded == 1) {
            compile(scene);
            yard_put(&scene->yard, AT("a", "new", "11"));
            yard_put(&scene->yard, AT("b", "past", "09"));
            yard_write(&scene->yard, "c.usv", VIEW(AT("c", "theirs", "12") "\n"));
        } else {
            compile(scene);
        }
        assert_status(HF_NOT_FOUND, get_all(scene, keys, 7, &answers), &scene->error);
        assert_int_equal(answers.count, 7);
        assert_string_equal(answers.value[0], folded ? "theirs" : "old");
        assert_int_equal(answers.status[1], HF_NOT_FOUND);
        assert_string_equal(answers.value[2], folded ? "new" : "old");
        assert_string_equal(answers.value[3], folded ? "new" : "old");
        assert_int_equal(answers.status[4], HF_NOT_FOUND);
        assert_string_equal(answers.value[5], "old");
        assert_int_equal(answers.status[6], HF_NOT_FOUND);
    }
    struct answers none = { .count = 0 };
    assert_status(HF_OK, get_all(scene, keys, 0, &none), &scene->error);
    struct answers found = { .count = 0 };
    assert_status(HF_OK, get_all(scene, keys + 2, 2, &found), &scene->error);
    struct answers stopped = { .stop_after = 2 };
    assert_status(HF_CANCELLED, get_all(scene, keys, 7, &stopped), &scene->error);
    assert_int_equal(stopped.count, 2);
}

/* The keys of a shard, read from the object. Returns the size of the object. */
struct key_texts {
    const char *keys[KEYS_MAX];
    char texts[KEYS_MAX][32];
    size_t count;
};

static size_t add_keys_of(struct scene *scene, const char *shard, struct key_texts *keys)
{
    char name[32];
    snprintf(name, sizeof name, "shards/%s.usv", shard);
    char *text = yard_read(&scene->yard, name);
    assert_non_null(text);
    size_t size = strlen(text);
    struct view rest = view_of(text);
    view_cut(&rest, '\n'); /* the header line */
    while (rest.size > 0) {
        struct view line = view_cut(&rest, '\n'), key = view_cut(&line, '\x1f');
        assert_true(keys->count < KEYS_MAX && key.size < sizeof keys->texts[0]);
        snprintf(keys->texts[keys->count], sizeof keys->texts[0], "%.*s", VIEW_ARGS(key));
        keys->keys[keys->count] = keys->texts[keys->count];
        keys->count++;
    }
    free(text);
    return size;
}

/* Three shards, with entries in the inbox of one of them. */
static void a_pass_costs_little(void **state)
{
    struct scene *scene = *state;
    static const char *const shards[] = { "10", "7f", "e0" };
    struct key_texts keys = { .count = 0 };
    struct answers answers = { .count = 0 };
    size_t young = 0;
    for (size_t i = 0; i < 3; i++)
        crew_fill(&scene->other, shards[i], "k", 0, 100, "old");
    compile(scene);
    for (size_t i = 0; i < 3; i++)
        add_keys_of(scene, shards[i], &keys);
    crew_fill(&scene->other, "7f", "k", 0, 20, "young");
    crew_fill(&scene->other, "7f", "other", 0, 20, "young");
    assert_int_equal(keys.count, 300);
    meter_reset(&scene->yard.meter);
    assert_status(HF_OK, get_all(scene, keys.keys, keys.count, &answers), &scene->error);
    for (size_t i = 0; i < keys.count; i++)
        young += strcmp(answers.value[i], "young") == 0;
    assert_int_equal(young, 20);
    /* The entries outside folders, in two places; the folders of the inbox; one inbox. */
    assert_int_equal(yard_calls(&scene->yard, CALL_LIST), 4);
    /* One read of each shard, and one of each entry of these keys. */
    assert_int_equal(yard_calls(&scene->yard, CALL_GET), 3 + 20);
    assert_int_equal(yard_batches(&scene->yard, CALL_GET), 3 + 1);
    assert_int_equal(yard_calls(&scene->yard, CALL_PUT), 0);
}

/* A large shard is read in pieces, and none of them twice. */
static void no_part_is_read_twice(void **state)
{
    struct scene *scene = *state;
    struct key_texts keys = { .count = 0 };
    char value[3001];
    struct answers answers = { .count = 0 };
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    crew_fill(&scene->other, "7f", "k", 0, 300, value);
    compile(scene);
    size_t size = add_keys_of(scene, "7f", &keys);
    assert_int_equal(keys.count, 300);
    meter_reset(&scene->yard.meter);
    assert_status(HF_OK, get_all(scene, keys.keys, keys.count, &answers), &scene->error);
    /* The end of the first piece may belong to a block that is read with the next one. */
    assert_in_range(yard_received(&scene->yard, CALL_GET), size, size + 64 * KIB);
    assert_in_range(yard_calls(&scene->yard, CALL_GET), 2, 12);
}

static void what_vanishes_is_found(void **state)
{
    struct scene *scene = *state;
    static const char *const keys[] = { "a", "b", "c" };
    yard_put(&scene->yard, AT("a", "old", "10"));
    yard_put(&scene->yard, AT("b", "old", "10"));
    yard_put(&scene->yard, AT("c", "old", "10"));
    struct answers answers = { .count = 0 };
    scene_happens(scene, CALL_GET, "inbox/", compile);
    assert_status(HF_OK, get_all(scene, keys, 3, &answers), &scene->error);
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(answers.value[i], "old");
}

static void a_damaged_shard_fails_only_its_keys(void **state)
{
    struct scene *scene = *state;
    static const char *const keys[] = { "a", "b", "c", "none" };
    char name[32];
    struct answers answers = { .count = 0 };
    for (size_t i = 0; i < 3; i++) {
        char record[64];
        snprintf(record, sizeof record, AT("%s", "old", "10"), keys[i]);
        yard_put(&scene->yard, record);
    }
    compile(scene);
    snprintf(name, sizeof name, "shards/%s.usv", yard_shard("b").text);
    yard_write(&scene->yard, name, VIEW("{damaged"));
    assert_status(HF_CORRUPT, get_all(scene, keys, 4, &answers), &scene->error);
    assert_string_equal(answers.value[0], "old");
    assert_int_equal(answers.status[1], HF_CORRUPT);
    assert_string_equal(answers.value[2], "old");
    assert_int_equal(answers.status[3], HF_NOT_FOUND);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        COMPILES("every key is answered once, given twice or not there, wherever its record is",
                 every_key_is_answered_once),
        COMPILES("a pass lists each inbox once, and reads each shard once",
                 a_pass_costs_little),
        COMPILES("no part of a large shard is read twice", no_part_is_read_twice),
        COMPILES("an entry that vanishes between listing and reading is found in the shard",
                 what_vanishes_is_found),
        COMPILES("a damaged shard fails only its own keys",
                 a_damaged_shard_fails_only_its_keys),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
