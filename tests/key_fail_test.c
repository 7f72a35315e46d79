/* SPDX-License-Identifier: Apache-2.0 */
/* key_fail_test.c KIND: keys under failures: each request of a change is lost, refused or left
 * without an answer, each allocation fails, and a process dies at each request. Every report
 * must be true, published states complete, and the next holder able to go on and clean up. KIND
 * is mem, dir or sqlite. */
#include "alloc.h"
#include "key_kit.h"
#include "lock/table_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

#define LARGE 5000

/* ---- Stories ------------------------------------------------------------------------- */

/* What happens to a key that holds the first version, "before" or large. Each notes what it was
 * told: the first status that is not OK. */
struct story {
    const char *name;
    bool large_before, staged;
    void (*act)(struct hf_key *key, const char *bytes, struct hf_error *ret_why);

    /* Afterwards, when all went well. */
    uint64_t version;
    size_t size; /* SIZE_MAX: it is removed */
};

static void note(struct hf_error *why, enum hf_status status, const struct hf_error *told)
{
    if (status != told->status)
        FAIL("%s and %s", hf_status_name(status), hf_status_name(told->status));
    if (status != HF_OK && told->why[0] == '\0')
        FAIL("%s without a reason", hf_status_name(status));
    if (why->status == HF_OK)
        *why = *told;
}
#define NOTE(call) note(ret_why, (call), &told)

static void change_to(struct hf_key *key, const char *bytes, size_t size,
                      struct hf_error *ret_why)
{
    struct hf_error told;
    NOTE(hf_key_update(key, bytes, size, NULL, NULL, &told));
    NOTE(hf_key_release(key, HF_COMMIT, &told));
}

static void to_small(struct hf_key *key, const char *bytes, struct hf_error *ret_why)
{
    change_to(key, bytes, 100, ret_why);
}

static void to_large(struct hf_key *key, const char *bytes, struct hf_error *ret_why)
{
    change_to(key, bytes, LARGE, ret_why);
}

static void twice(struct hf_key *key, const char *bytes, struct hf_error *ret_why)
{
    struct hf_error told;
    NOTE(hf_key_update(key, bytes, LARGE - 1, NULL, NULL, &told));
    if (ret_why->status == HF_OK)
        change_to(key, bytes, LARGE, ret_why);
}

static void away(struct hf_key *key, const char *bytes, struct hf_error *ret_why)
{
    struct hf_error told;
    (void)bytes;
    NOTE(hf_key_remove(key, NULL, NULL, &told));
    NOTE(hf_key_release(key, HF_COMMIT, &told));
}

static void back(struct hf_key *key, const char *bytes, struct hf_error *ret_why)
{
    struct hf_error told;
    NOTE(hf_key_update(key, bytes, LARGE, NULL, NULL, &told));
    NOTE(hf_key_release(key, HF_ROLLBACK, &told));
}

static const struct story stories[] = {
    { "small to small", false, false, to_small, 2, 100 },
    { "small to large", false, false, to_large, 2, LARGE },
    { "large to large", true, false, to_large, 2, LARGE },
    { "large to small", true, false, to_small, 2, 100 },
    { "large, twice in one lease", true, false, twice, 3, LARGE },
    { "removed", true, false, away, 2, SIZE_MAX },
    { "staged, small", false, true, to_small, 2, 100 },
    { "staged, large", true, true, to_large, 2, LARGE },
    { "staged, twice", true, true, twice, 2, LARGE },
    { "staged and rolled back", true, true, back, 1, LARGE },
};
#define STORIES (sizeof stories / sizeof *stories)

/* ---- A scene ------------------------------------------------------------------------- */

/* The first is the one to whom it happens. */
struct scene {
    struct world world;
    struct peer one, two;
    struct hf_key *key;
    char *bytes;
    struct hf_error told;
};

static void scene_open(struct scene *scene, const struct story *story)
{
    *scene = (struct scene){ .bytes = bytes_of(LARGE, 3) };
    world_open(&scene->world);
    peer_open(&scene->one, &scene->world, NULL);
    peer_open(&scene->two, &scene->world, NULL);
    scene->key = key_with(&scene->one, "k", 60000, story->staged);
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
    MUST(hf_key_update(scene->key, story->large_before ? scene->bytes : "before",
                       story->large_before ? LARGE : 6, NULL, NULL, &error));
    MUST(hf_key_release(scene->key, HF_COMMIT, &error));
}

static void scene_close(struct scene *scene)
{
    hf_key_free(scene->key);
    peer_close(&scene->one);
    peer_close(&scene->two);
    world_close(&scene->world);
    free(scene->bytes);
}

static void play(struct scene *scene, const struct story *story)
{
    struct hf_error told;
    enum hf_status status = hf_key_acquire(scene->key, 0, NULL, &told);
    note(&scene->told, status, &told);
    if (status == HF_OK)
        story->act(scene->key, scene->bytes, &scene->told);
}

/* A version can be read, whole, by somebody else; which one, and of what size. */
static uint64_t readable(struct scene *scene, size_t *ret_size)
{
    struct hf_key_info info = HF_KEY_INFO;
    void *data;
    enum hf_status status =
        hf_key_get(scene->two.client, "k", LARGE, &data, ret_size, &info, &error);
    if (status == HF_NOT_FOUND && info.removed) {
        *ret_size = SIZE_MAX;
        return info.version;
    }
    must(status, &error, "hf_key_get", __LINE__);
    ASSERT(*ret_size == info.size);
    ASSERT((*ret_size == 6 && memcmp(data, "before", 6) == 0) ||
           memcmp(data, scene->bytes, *ret_size) == 0);
    hf_free(data);
    return info.version;
}

static enum hf_status note_lease(void *argument, const struct table_snapshot *sight,
                                 struct hf_error *why)
{
    (void)why;
    for (size_t i = 0; sight->table && i < sight->table->lease_count; i++) {
        const struct lease *lease = sight->table->leases[i];
        if (lease->status == LEASE_ACTIVE)
            snprintf(argument, HF_LEASE_TEXT_MAX, "%" PRIu64 ":%.*s:" DOCUMENT, lease->token,
                     VIEW_ARGS(lease->id));
    }
    return HF_OK;
}

/* The lease of the dead, if there is one: nobody wants to wait for its end. */
static void break_lease(struct scene *scene)
{
    char lease[HF_LEASE_TEXT_MAX] = "";
    struct table_reader look;
    table_reader_init(&look, scene->two.client);
    MUST(table_reader_read(&look, VIEW(DOCUMENT), note_lease, lease, &error));
    table_reader_release(&look);
    if (lease[0])
        hf_break(scene->two.client, lease, "test", "it is dead", NULL);
}

/* The next holder finds the key free once the lease is away, changes it, and leaves so many bodies
 * that nothing names. */
static size_t next_holder(struct scene *scene, uint64_t version)
{
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key *next = key_with(&scene->two, "k", 60000, false);
    break_lease(scene);
    MUST(hf_key_acquire(next, 10000, &info, &error));
    ASSERT(info.version == version);
    update(next, "next");
    done(next);
    info = reads(&scene->two, "k", "next");
    ASSERT(info.version == version + 1);
    ASSERT(world_times(&scene->world, DOCUMENT, "\"stage\"") == 0);
    return bodies(&scene->world, "k");
}

/* ---- One request in trouble ---------------------------------------------------------- */

static const struct {
    const char *name;
    struct fate fate;
} troubles[] = {
    { "its answer is lost", { FATE_LOSE_REPLY, HF_UNSURE } },
    { "it is lost", { FATE_LOSE, HF_UNSURE } },
    { "it is refused for now", { FATE_REFUSE, HF_UNAVAILABLE } },
    { "it is told as a conflict", { FATE_REFUSE, HF_CONFLICT } },
};
#define TROUBLES (sizeof troubles / sizeof *troubles)

/* False when there is no request of that number. */
static bool play_in_trouble(const struct story *story, size_t trouble, long n)
{
    struct scene scene;
    size_t size;
    scene_open(&scene, story);
    way_fail(&scene.one.way, n, troubles[trouble].fate);
    play(&scene, story);
    bool failed = way_has_failed(&scene.one.way);
    if (scene.told.status != HF_OK)
        FAIL("%s, request %ld, %s: %s: %s", story->name, n, troubles[trouble].name,
             hf_status_name(scene.told.status), scene.told.why);
    uint64_t version = readable(&scene, &size);
    if (version != story->version || size != story->size)
        FAIL("%s, request %ld, %s: version %u of %zu bytes", story->name, n,
             troubles[trouble].name, (unsigned)version, size);
    size_t left = next_holder(&scene, version);
    if (left > 0)
        FAIL("%s, request %ld, %s: %zu bodies are left", story->name, n, troubles[trouble].name,
             left);
    scene_close(&scene);
    return failed;
}

/* One that is asked again finds what it has done, or does it: once, and it says so. */
static void each_request_in_trouble(void **state)
{
    (void)state;
    for (size_t i = 0; i < STORIES; i++)
        for (size_t j = 0; j < TROUBLES; j++) {
            long n = 0;
            while (play_in_trouble(&stories[i], j, n))
                n++;
            ASSERT(n >= 3 && n < 20);
        }
}

/* ---- Death at each request ----------------------------------------------------------- */

/* The version after a death is the one before or the one after, and that only if it was told as
 * done, or not as undone. */
static void check_told(const struct story *story, const struct scene *scene, long n,
                       uint64_t version, size_t size)
{
    bool all = version == story->version && size == story->size;
    if (scene->told.status == HF_OK && !all)
        FAIL("%s, death at %ld: told as done, but it is version %u", story->name, n,
             (unsigned)version);
    if (version > story->version || version < 1)
        FAIL("%s, death at %ld: version %u", story->name, n, (unsigned)version);
}

/* False when there is no request of that number. What nothing names is counted in *left. */
static bool die_at(const struct story *story, struct fate fate, long n, size_t *left)
{
    struct scene scene;
    size_t size;
    scene_open(&scene, story);
    way_die(&scene.one.way, n, fate);
    play(&scene, story);
    bool failed = way_has_failed(&scene.one.way);
    uint64_t version = readable(&scene, &size);
    check_told(story, &scene, n, version, size);
    *left += next_holder(&scene, version);
    scene_close(&scene);
    return failed;
}

/* Only a death between a body and its swap leaves a body that nothing names. */
static void a_death_at_each_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < STORIES; i++) {
        size_t left = 0, bodies_written = 0;
        long n = 0;
        while (die_at(&stories[i], REFUSE(HF_DENIED), n, &left))
            n++;
        ASSERT(n >= 3 && n < 20);
        if (stories[i].act == to_large || stories[i].act == back)
            bodies_written = 1;
        else if (stories[i].act == twice)
            bodies_written = 2;
        if (left != bodies_written)
            FAIL("%s: %zu bodies left over all deaths, expected %zu", stories[i].name, left,
                 bodies_written);
    }
}

/* The last request of the dead was done. */
static void a_death_after_each_request(void **state)
{
    (void)state;
    size_t left = 0;
    for (size_t i = 0; i < STORIES; i++)
        for (long n = 0; die_at(&stories[i], LOSE_REPLY, n, &left);)
            ASSERT(++n < 20);
}

/* ---- No answer at all ---------------------------------------------------------------- */

/* The next request to the document meets this fate, and all after it are refused: nobody can find
 * out what became of it. */
static void no_answer_from_document(struct script *way, struct fate fate, long number)
{
    way_shut(way, "/meta/", REFUSE(HF_DENIED));
    way_fail(way, number, fate);
}

static void unsure_update(struct scene *scene, struct fate fate)
{
    struct hf_key_info info = HF_KEY_INFO;
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
    no_answer_from_document(&scene->one.way, fate, 1); /* 0 is the body */
    IS(HF_UNSURE, hf_key_update(scene->key, scene->bytes, LARGE, NULL, &info, &error));
    ASSERT(info.outcome == HF_KEY_NONE);
    ASSERT(way_has_failed(&scene->one.way));
    ASSERT(bodies(&scene->world, "k") == 2);
    way_open(&scene->one.way);
}

/* Both ways, its body stays until another change is known to stand. */
static void an_update_without_an_answer(void **state)
{
    (void)state;
    static const struct story story = { .large_before = true };
    static const struct fate fates[] = { { FATE_LOSE_REPLY, HF_UNSURE },
                                         { FATE_LOSE, HF_UNSURE } };
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        size_t size;
        scene_open(&scene, &story);
        unsure_update(&scene, fates[i]);
        ASSERT(readable(&scene, &size) == (i == 0 ? 2 : 1));
        MUST(hf_key_update(scene.key, scene.bytes, LARGE - 1, NULL, NULL, &error));
        ASSERT(readable(&scene, &size) == (i == 0 ? 3 : 2) && size == LARGE - 1);
        MUST(hf_key_release(scene.key, HF_COMMIT, &error));
        ASSERT(bodies(&scene.world, "k") == 1);
        scene_close(&scene);
    }
}

/* What nobody knows to be staged is not published by the release: it is staged again, or rolled
 * back. */
static void a_stage_without_an_answer(void **state)
{
    (void)state;
    static const struct story story = { .large_before = true, .staged = true };
    static const struct fate fates[] = { { FATE_LOSE_REPLY, HF_UNSURE },
                                         { FATE_LOSE, HF_UNSURE } };
    for (size_t i = 0; i < 4; i++) {
        struct scene scene;
        size_t size;
        scene_open(&scene, &story);
        unsure_update(&scene, fates[i % 2]);
        IS(HF_UNSURE, hf_key_release(scene.key, HF_COMMIT, &error));
        MUST(hf_lock_check(hf_key_lock(scene.key), &error));
        if (i < 2) {
            MUST(hf_key_update(scene.key, scene.bytes, LARGE - 1, NULL, NULL, &error));
            MUST(hf_key_release(scene.key, HF_COMMIT, &error));
            ASSERT(readable(&scene, &size) == 2 && size == LARGE - 1);
        } else {
            MUST(hf_key_release(scene.key, HF_ROLLBACK, &error));
            ASSERT(readable(&scene, &size) == 1 && size == LARGE);
        }
        ASSERT(bodies(&scene.world, "k") == 1);
        scene_close(&scene);
    }
}

/* The release publishes or not, and says that it does not know; the lease is given back in the
 * background, and what is still staged dropped by the next. */
static void a_release_without_an_answer(void **state)
{
    (void)state;
    static const struct story story = { .large_before = true, .staged = true };
    static const struct fate fates[] = { { FATE_LOSE_REPLY, HF_UNSURE },
                                         { FATE_LOSE, HF_UNSURE } };
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        size_t size;
        scene_open(&scene, &story);
        MUST(hf_key_acquire(scene.key, 0, NULL, &error));
        MUST(hf_key_update(scene.key, scene.bytes, 100, NULL, NULL, &error));
        no_answer_from_document(&scene.one.way, fates[i], 0);
        IS(HF_UNSURE, hf_key_release(scene.key, HF_COMMIT, &error));
        way_open(&scene.one.way);
        uint64_t version = readable(&scene, &size);
        ASSERT(version == (i == 0 ? 2 : 1) && size == (i == 0 ? 100 : LARGE));
        ASSERT(next_holder(&scene, version) == 0);
        scene_close(&scene);
    }
}

/* ---- Paused -------------------------------------------------------------------------- */

struct paused {
    struct scene *scene;
    enum hf_status status;
    struct hf_key_info info;
    struct hf_error why;
};

static void write_while_paused(void *argument)
{
    struct paused *paused = argument;
    paused->status = hf_key_update(paused->scene->key, paused->scene->bytes, LARGE, NULL,
                                   &paused->info, &paused->why);
}

static bool is_under_way(void *argument)
{
    return script_met(argument, "shut") > 0;
}

/* Its body is under way when the key is granted to another. The swap comes too late, whatever this
 * one believes. */
static void a_paused_writer_publishes_nothing(void **state)
{
    (void)state;
    static const struct story story = { .large_before = false };
    struct scene scene;
    struct paused paused = { .scene = &scene, .info = HF_KEY_INFO };
    struct env_task *task;
    scene_open(&scene, &story);
    MUST(hf_key_acquire(scene.key, 0, NULL, &error));
    way_shut(&scene.one.way, "/state/", HANG);
    MUST(env_task_start(env_real(), write_while_paused, &paused, &task, &error));
    ASSERT(comes_true(is_under_way, &scene.one.way, 10000));
    take_away(&scene.two, scene.key);
    struct hf_key *other = key_held(&scene.two, "k");
    update(other, "theirs");
    MUST(hf_lock_check(hf_key_lock(scene.key), &error)); /* as far as it knows */
    way_open(&scene.one.way);
    env_task_join(env_real(), task);
    if (paused.status != HF_FENCED)
        FAIL("%s: %s", hf_status_name(paused.status), paused.why.why);
    ASSERT(paused.info.outcome == HF_KEY_FENCING_MISMATCH && paused.info.version == 2);
    reads(&scene.one, "k", "theirs");
    ASSERT(bodies(&scene.world, "k") == 0);
    done(other);
    scene_close(&scene);
}

/* What it wrote meets a conflict, which may have been with itself; and since then two others were
 * published. Nobody can tell whether its own was there in between. (A change in one step has no
 * conflicts, so there it is known.) */
static void an_overtaken_writer_is_not_told_as_refused(void **state)
{
    (void)state;
    static const struct story story = { .large_before = true };
    struct scene scene;
    struct hf_key_info info = HF_KEY_INFO;
    scene_open(&scene, &story);
    take_no_steps(&scene.one);
    MUST(hf_key_acquire(scene.key, 0, NULL, &error));
    take_away(&scene.two, scene.key);
    publish(&scene.two, "k", "theirs");
    publish(&scene.two, "k", "theirs again");
    IS(HF_UNSURE, hf_key_update(scene.key, scene.bytes, LARGE, NULL, &info, &error));
    ASSERT(info.outcome == HF_KEY_NONE && info.version == 3);
    ASSERT(bodies(&scene.world, "k") == 1); /* so it stays, for a full sweep to find */
    refuses(scene.key, NULL, HF_KEY_LEASE_EXPIRED, HF_EXPIRED);
    reads(&scene.one, "k", "theirs again");
    scene_close(&scene);
}

/* ---- Committed and not settled ------------------------------------------------------- */

/* Who commits can write the record and nothing else: readers see what is committed. Once the lease
 * is away they settle the key, too. */
static void what_is_committed_is_read(void **state)
{
    (void)state;
    static const size_t sizes[] = { 100, LARGE };
    static const struct story story = { .large_before = true };
    const char *name = "k";
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        struct hf_txn *txn;
        struct hf_key *key;
        size_t size;
        scene_open(&scene, &story);
        take_no_steps(&scene.one);
        MUST(hf_txn_begin(scene.one.client, NULL, &txn, &error));
        MUST(hf_txn_acquire(txn, &name, 1, NULL, 0, &key, &error));
        MUST(hf_key_update(key, scene.bytes, sizes[i], NULL, NULL, &error));
        ASSERT(readable(&scene, &size) == 1);
        way_shut(&scene.one.way, "/meta/", REFUSE(HF_DENIED));
        MUST(hf_txn_commit(txn, NULL, &error));
        ASSERT(readable(&scene, &size) == 2 && size == sizes[i]);
        ASSERT(world_times(&scene.world, DOCUMENT, "\"stage\"") == 1);
        break_lease(&scene);
        ASSERT(readable(&scene, &size) == 2 && size == sizes[i]);
        ASSERT(world_times(&scene.world, DOCUMENT, "\"stage\"") == 0);
        ASSERT(next_holder(&scene, 2) == 0);
        way_open(&scene.one.way);
        hf_txn_free(txn);
        scene_close(&scene);
    }
}

/* ---- Memory -------------------------------------------------------------------------- */

/* Each call says that there is no memory, or does without; the next holder goes on. */
static bool play_without_memory(const struct story *story, long n)
{
    struct scene scene;
    size_t size;
    scene_open(&scene, story);
    alloc_fail_after(n);
    play(&scene, story);
    bool failed = alloc_stop();
    enum hf_status status = scene.told.status;
    if (status != HF_OK && (!failed || (status != HF_UNAVAILABLE && status != HF_UNSURE)))
        FAIL("%s, allocation %ld: %s: %s", story->name, n, hf_status_name(status),
             scene.told.why);
    uint64_t version = readable(&scene, &size);
    check_told(story, &scene, n, version, size);
    next_holder(&scene, version);
    scene_close(&scene);
    return failed;
}

static void each_allocation_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < STORIES; i++) {
        long n = 0;
        while (play_without_memory(&stories[i], n))
            n++;
        ASSERT(n > 3);
    }
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_in_trouble),
        cmocka_unit_test(a_death_at_each_request),
        cmocka_unit_test(a_death_after_each_request),
        cmocka_unit_test(an_update_without_an_answer),
        cmocka_unit_test(a_stage_without_an_answer),
        cmocka_unit_test(a_release_without_an_answer),
        cmocka_unit_test(a_paused_writer_publishes_nothing),
        cmocka_unit_test(each_allocation_fails),
        cmocka_unit_test(an_overtaken_writer_is_not_told_as_refused),
        cmocka_unit_test(what_is_committed_is_read),
    };
    tests[0].name =
        "a change whose request or answer is lost happens once, and is told as done";
    tests[1].name = "who dies before any request leaves a whole version, and the next goes on";
    tests[2].name = "who dies after any request leaves a whole version, and the next goes on";
    tests[3].name = "the body of an update without an answer stays until that is known";
    tests[4].name = "what may not be staged is not published by the release";
    tests[5].name = "a release without an answer has published or not, and never half";
    tests[6].name =
        "a writer who was paused publishes nothing after the key was granted to another";
    tests[7].name = "every allocation may fail";
    tests[8].name = "a writer who was overtaken twice is not told that it was refused";
    tests[9].name = "what is committed is read though its owner could not settle it";
    return cmocka_run_group_tests_name("key_fail", tests, NULL, NULL);
}
