/* SPDX-License-Identifier: Apache-2.0 */
/* store_move_test.c: the option `move` of hf_store_copy: what it deletes, what it refuses, and what
 * other clients may do meanwhile. Each test runs on a store whose ETags are new with each write,
 * and on one whose ETags are hashes of the bytes. */
#include "hashed_store.h"
#include "lock/fence.h"
#include "scripted_store.h"
#include "store/handle.h"
#include "test.h"

#include <string.h>

struct scene {
    bool hashed;
    struct store *inner;
    struct script script;
    struct script alias_script;
    struct hf_store *store;
    struct hf_store *alias; /* the same store */
    struct hf_error error;
};

#define OK(call)         assert_status(HF_OK, call, &scene->error)
#define IS(status, call) assert_status(status, call, &scene->error)

static void scene_open(struct scene *scene, bool hashed)
{
    *scene = (struct scene){ .hashed = hashed };
    if (hashed)
        scene->inner = hashed_store_open(env_real());
    else
        OK(store_open(env_real(), VIEW("mem:"), &scene->inner, &scene->error));
    assert_non_null(scene->inner);
    scene->inner->traits.delete_conditional = true;
    script_init(&scene->script, scene->inner);
    script_init(&scene->alias_script, scene->inner);
    OK(store_handle_new(&scene->script.base, NULL, NULL, &scene->store, &scene->error));
    OK(store_handle_new(&scene->alias_script.base, NULL, NULL, &scene->alias, &scene->error));
}

static void scene_close(struct scene *scene)
{
    store_handle_drop(scene->store);
    store_handle_drop(scene->alias);
    store_close(scene->inner);
}

/* As another client, whose calls no rule counts. */
static void write_object(struct scene *scene, const char *key, const char *text)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    options.force = true;
    OK(hf_store_put(scene->alias, key, text, strlen(text), &options, NULL, &scene->error));
}

/* `text` NULL: there is no such object. */
static void assert_object(struct scene *scene, const char *key, const char *text)
{
    void *data;
    size_t size;
    IS(text ? HF_OK : HF_NOT_FOUND,
       hf_store_get(scene->store, key, 1000, NULL, &data, &size, NULL, &scene->error));
    if (!text)
        return;
    assert_int_equal(size, strlen(text));
    assert_memory_equal(data, text, size);
    hf_free(data);
}

static enum hf_status move_object(struct scene *scene, const char *source, const char *target)
{
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    options.move = true;
    return hf_store_copy(scene->store, source, scene->store, target, &options, NULL,
                         &scene->error);
}

/* ---- What is moved ------------------------------------------------------------------- */

static void moves_and_never_replaces(struct scene *scene)
{
    write_object(scene, "x", "1");
    OK(move_object(scene, "x", "y"));
    assert_object(scene, "x", NULL);
    assert_object(scene, "y", "1");
    write_object(scene, "x", "2");
    IS(HF_CONFLICT, move_object(scene, "x", "y"));
    assert_non_null(strstr(scene->error.why, "'y' already exists with different bytes"));
    assert_object(scene, "x", "2");
    assert_object(scene, "y", "1");
    IS(HF_NOT_FOUND, move_object(scene, "none", "z"));
}

/* What a move leaves that was stopped after the copy. */
static void continues_only_if_a_write_can_be_told_apart(struct scene *scene)
{
    write_object(scene, "x", "1");
    write_object(scene, "y", "1");
    IS(scene->hashed ? HF_CONFLICT : HF_OK, move_object(scene, "x", "y"));
    if (scene->hashed)
        assert_non_null(strstr(scene->error.why, "'y' already has the same bytes"));
    assert_object(scene, "x", scene->hashed ? "1" : NULL);
    assert_object(scene, "y", "1");
}

static void refuses_what_must_stay(struct scene *scene)
{
    static const char *const fences[] = { "{ \"format\": \"" FENCE_FORMAT
                                          "2\", \"token\": 1 }\n",
                                          "{ \"format\": \"" FENCE_FORMAT "9\", damaged" };
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    for (size_t i = 0; i < 2; i++) {
        write_object(scene, "fence", fences[i]);
        IS(HF_INVALID, move_object(scene, "fence", "y"));
        assert_non_null(strstr(scene->error.why, "fenced objects are not moved"));
        assert_object(scene, "fence", fences[i]);
        assert_object(scene, "y", NULL);
    }
    write_object(scene, "default/meta/job.json", "{}");
    IS(HF_INVALID, move_object(scene, "default/meta/job.json", "y"));
    write_object(scene, "x", "1");
    IS(HF_INVALID, move_object(scene, "x", "default/meta/new.json"));
    IS(HF_INVALID, move_object(scene, "x", "x"));
    options.move = true;
    IS(HF_INVALID,
       hf_store_copy_all(scene->store, "x", scene->store, "y", &options, NULL, &scene->error));
    assert_object(scene, "y", NULL);
}

static void deletes_nothing_without_conditional_deletes(struct scene *scene)
{
    scene->script.base.traits.delete_conditional = false;
    write_object(scene, "x", "1");
    IS(HF_UNSUPPORTED, move_object(scene, "x", "y"));
    assert_object(scene, "x", "1");
    assert_object(scene, "y", "1");
}

static void deletes_nothing_if_both_handles_are_one_store(struct scene *scene)
{
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    options.move = true;
    write_object(scene, "x", "1");
    IS(HF_CONFLICT,
       hf_store_copy(scene->store, "x", scene->alias, "x", &options, NULL, &scene->error));
    assert_object(scene, "x", "1");
}

/* ---- What others do meanwhile -------------------------------------------------------- */

static void write_later(void *argument)
{
    write_object(argument, "x", "later");
}

static void write_again(void *argument)
{
    write_object(argument, "x", "1");
}

/* Another client writes the source before call number `later` of a move, and writes the first bytes
 * again before call number `again`: their ETag may be that of the first version. Returns false if
 * the move has ended before. */
static bool race_writes(bool hashed, unsigned later, unsigned again)
{
    struct scene opened, *scene = &opened;
    scene_open(scene, hashed);
    write_object(scene, "x", "1");
    script_rule(&scene->script, .name = "later", .skip = later, .times = 1,
                .before = write_later, .argument = scene);
    script_rule(&scene->script, .name = "again", .skip = again, .times = 1,
                .before = write_again, .argument = scene);
    enum hf_status status = move_object(scene, "x", "y");
    bool written = script_met(&scene->script, "later") > 0;
    bool written_again = script_met(&scene->script, "again") > 0;
    script_reset(&scene->script);
    assert_true(status == HF_OK || status == HF_CONFLICT);
    assert_object(scene, status == HF_OK ? "y" : "x",
                  written && !written_again ? "later" : "1");
    scene_close(scene);
    return written;
}

static void loses_nothing_that_is_written_meanwhile(struct scene *scene)
{
    const unsigned never = 100;
    unsigned calls = 0;
    while (race_writes(scene->hashed, calls, never))
        calls++;
    assert_true(calls >= 5);
    for (unsigned later = 0; later < calls; later++)
        for (unsigned again = later + 1; again < calls; again++)
            race_writes(scene->hashed, later, again);
}

static void move_back(void *argument)
{
    move_object(argument, "y", "x");
}

static void move_there(void *argument)
{
    move_object(argument, "x", "y");
}

static bool has_object(struct scene *scene, const char *key)
{
    void *data;
    size_t size;
    if (hf_store_get(scene->store, key, 1000, NULL, &data, &size, NULL, &scene->error) != HF_OK)
        return false;
    hf_free(data);
    return true;
}

/* Another client moves the object back before call number `back` of a move, and before call number
 * `there` a third client moves it like the first. Returns false if the first move has ended before
 * the last of them. */
static bool race_moves(bool hashed, bool both, unsigned back, unsigned there)
{
    struct scene scene;
    scene_open(&scene, hashed);
    write_object(&scene, "x", "1");
    if (both)
        write_object(&scene, "y", "1");
    script_rule(&scene.script, .name = "back", .skip = back, .times = 1, .before = move_back,
                .argument = &scene);
    script_rule(&scene.script, .name = "there", .skip = there, .times = 1, .before = move_there,
                .argument = &scene);
    move_object(&scene, "x", "y");
    bool met = script_met(&scene.script, "back") + script_met(&scene.script, "there") == 2;
    script_drop(&scene.script, "back");
    script_drop(&scene.script, "there");
    if (!has_object(&scene, "x") && !has_object(&scene, "y"))
        fail_msg("lost: hashed %d, both %d, back %u, there %u", hashed, both, back, there);
    scene_close(&scene);
    return met;
}

static void opposite_moves_leave_a_copy(struct scene *scene)
{
    unsigned races = 0;
    for (int both = 0; both < 2; both++)
        for (unsigned back = 0; race_moves(scene->hashed, both, back, 0); back++)
            for (unsigned there = 1; race_moves(scene->hashed, both, back, there); there++)
                races++;
    assert_true(races >= 20);
}

/* ---- The table ----------------------------------------------------------------------- */

static void on_both_kinds(void (*test)(struct scene *scene))
{
    for (int hashed = 0; hashed < 2; hashed++) {
        struct scene scene;
        scene_open(&scene, hashed);
        test(&scene);
        scene_close(&scene);
    }
}

#define ON_BOTH_KINDS(function)               \
    static void test_##function(void **state) \
    {                                         \
        (void)state;                          \
        on_both_kinds(function);              \
    }

ON_BOTH_KINDS(moves_and_never_replaces)
ON_BOTH_KINDS(continues_only_if_a_write_can_be_told_apart)
ON_BOTH_KINDS(refuses_what_must_stay)
ON_BOTH_KINDS(deletes_nothing_without_conditional_deletes)
ON_BOTH_KINDS(deletes_nothing_if_both_handles_are_one_store)
ON_BOTH_KINDS(loses_nothing_that_is_written_meanwhile)
ON_BOTH_KINDS(opposite_moves_leave_a_copy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a move deletes the source, and never replaces the target by other bytes",
           test_moves_and_never_replaces),
        IT("a target with the same bytes is written again, or refused if that changes no ETag",
           test_continues_only_if_a_write_can_be_told_apart),
        IT("fenced objects and Holdfast's own objects are not moved",
           test_refuses_what_must_stay),
        IT("without conditional deletes, the source stays",
           test_deletes_nothing_without_conditional_deletes),
        IT("a move onto the same object through another handle deletes nothing",
           test_deletes_nothing_if_both_handles_are_one_store),
        IT("what is written to the source during a move is never lost",
           test_loses_nothing_that_is_written_meanwhile),
        IT("opposite moves at the same time leave at least one copy",
           test_opposite_moves_leave_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
