/* SPDX-License-Identifier: Apache-2.0 */
/* lock_fail_test.c KIND [quick]: the life of a lock, with each allocation and each store call
 * failed in turn. Each call must return a true status, leak nothing and leave nothing behind,
 * and afterwards another client gets the lock within the ttl and its proof. KIND is mem or
 * sqlite; quick skips the parts that mostly wait. */
#include "alloc.h"
#include "lock_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define TTL_MS     200
#define TTL_MAX_MS 200

/* The ttl, the margins, and what a busy machine may add. */
#define OTHERS_WAIT_MS 1500

struct stage {
    struct world world;
    struct peer peer;  /* to whom it happens */
    struct peer other; /* with a good way */
    struct hf_lock *other_lock;
    char text[HF_LEASE_TEXT_MAX]; /* of what the other holds */
    struct hf_error error;        /* the first that was not OK */
    const char *failed;
};

static struct hf_client_options careful(void)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.ttl_max_ms = TTL_MAX_MS;
    return options;
}

static struct hf_lock_options brief(void)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = TTL_MS;
    options.poll_ms = 5;
    options.note = "{\"a\":1}";
    return options;
}

/* Notes the first failure of a scene. */
static bool went(struct stage *stage, enum hf_status status, const struct hf_error *error,
                 const char *call)
{
    if (status != error->status)
        FAIL("%s says %s and %s", call, hf_status_name(status), hf_status_name(error->status));
    if (status != HF_OK && status != HF_HELD && error->why[0] == '\0')
        FAIL("%s: %s without a reason", call, hf_status_name(status));
    if (status != HF_OK && !stage->failed) {
        stage->failed = call;
        stage->error = *error;
    }
    return status == HF_OK;
}
#define WENT(call) went(stage, (call), &error, #call)

/* ---- Scenes: each opens its client, and leaves nothing -------------------------------- */

static struct hf_lock *scene_lock(struct stage *stage)
{
    struct hf_error error;
    struct hf_lock_options options = brief();
    struct hf_lock *lock = NULL;
    if (!WENT(hf_lock_new(stage->peer.client, "deploy", &options, &lock, &error)))
        return NULL;
    return lock;
}

static void acquire_renew_release(struct stage *stage)
{
    struct hf_error error;
    struct hf_lock *lock = scene_lock(stage);
    if (lock && WENT(hf_lock_acquire(lock, 100, &error))) {
        WENT(hf_lock_renew(lock, &error));
        WENT(hf_lock_text(lock, stage->text, &error));
        WENT(hf_lock_release(lock, &error));
    }
    hf_lock_free(lock);
}

static void acquire_and_leave(struct stage *stage)
{
    struct hf_error error;
    struct hf_lock *lock = scene_lock(stage);
    if (lock)
        WENT(hf_lock_acquire(lock, 0, &error));
    hf_lock_free(lock);
}

static void acquire_and_complete(struct stage *stage)
{
    struct hf_error error;
    struct hf_lock *lock = scene_lock(stage);
    if (lock && WENT(hf_lock_acquire(lock, 0, &error)))
        WENT(hf_lock_complete(lock, "[1,2]", &error));
    hf_lock_free(lock);
}

static void the_other_acquires(struct stage *stage)
{
    if (hf_lock_acquire(stage->other_lock, 5000, NULL) != HF_OK ||
        hf_lock_text(stage->other_lock, stage->text, NULL) != HF_OK)
        FAIL("the other could not acquire it");
}

static void wait_for_the_other(struct stage *stage)
{
    struct hf_error error;
    struct hf_lock *lock = scene_lock(stage);
    struct mono_time start = now();
    enum hf_status status = lock ? hf_lock_begin(lock, &error) : HF_UNAVAILABLE;
    if (status == HF_HELD)
        status = hf_lock_poll(lock, &error);
    hf_lock_release(stage->other_lock, NULL);
    while (status == HF_HELD && ms_since(start) < 5000) {
        status = hf_lock_poll(lock, &error);
        pass_ms(1);
    }
    if (lock && went(stage, status, &error, "begin and poll"))
        WENT(hf_lock_release(lock, &error));
    hf_lock_free(lock);
}

static void wait_in_vain(struct stage *stage)
{
    struct hf_error error;
    struct hf_lock *lock = scene_lock(stage);
    enum hf_status status = lock ? hf_lock_acquire(lock, 60, &error) : HF_TIMEOUT;
    if (status != HF_TIMEOUT)
        went(stage, status, &error, "acquire");
    hf_lock_free(lock);
    hf_lock_release(stage->other_lock, NULL);
}

static void adopt_and_complete(struct stage *stage)
{
    struct hf_error error;
    struct hf_lock *lock = NULL;
    if (WENT(hf_lock_adopt(stage->peer.client, stage->text, NULL, &lock, &error))) {
        WENT(hf_lock_renew(lock, &error));
        WENT(hf_lock_complete(lock, NULL, &error));
    }
    hf_lock_free(lock);
    hf_lock_release(stage->other_lock, NULL);
}

static void break_it(struct stage *stage)
{
    struct hf_error error;
    WENT(hf_break(stage->peer.client, stage->text, "anna", "to see", &error));
    hf_lock_release(stage->other_lock, NULL);
}

static void look_for_chunks(struct stage *stage)
{
    struct hf_error error;
    const char *keys[2] = { "a", "b" };
    bool free_ones[2];
    if (WENT(hf_chunks_unleased(stage->peer.client, keys, 2, free_ones, &error)))
        ASSERT(free_ones[0] && free_ones[1]);
}

static const struct scene {
    const char *name;
    bool quick;
    void (*before)(struct stage *stage);
    void (*act)(struct stage *stage);
} scenes[] = {
    { "acquire, renew, release", true, NULL, acquire_renew_release },
    { "acquire, free", false, NULL, acquire_and_leave },
    { "acquire, complete", true, NULL, acquire_and_complete },
    { "wait", true, the_other_acquires, wait_for_the_other },
    { "wait in vain", false, the_other_acquires, wait_in_vain },
    { "adopt", true, the_other_acquires, adopt_and_complete },
    { "break", true, the_other_acquires, break_it },
    { "chunks", true, NULL, look_for_chunks },
};
#define SCENES (sizeof scenes / sizeof scenes[0])

static void play(struct stage *stage, const struct scene *scene)
{
    scene->act(stage);
    hf_client_close(stage->peer.client);
}

static void stage_open(struct stage *stage)
{
    struct hf_client_options options = careful();
    struct hf_lock_options lock_options = brief();
    *stage = (struct stage){ .failed = NULL };
    world_open(&stage->world);
    peer_open(&stage->other, &stage->world, &options);
    stage->other_lock = lock_with(&stage->other, "deploy", &lock_options);
}

static void stage_close(struct stage *stage)
{
    hf_lock_free(stage->other_lock);
    peer_close(&stage->other);
    world_close(&stage->world);
}

/* Chaos, then calm: whatever happened, somebody else gets it in time. */
static void others_get_it(struct stage *stage, const char *what, long n)
{
    struct hf_error error;
    enum hf_status status = hf_lock_acquire(stage->other_lock, OTHERS_WAIT_MS, &error);
    if (status != HF_OK)
        FAIL("%s, failure %ld (%s: %s): afterwards %s: %s", what, n,
             stage->failed ? stage->failed : "no call failed", stage->error.why,
             hf_status_name(status), error.why);
    status = hf_lock_release(stage->other_lock, &error);
    if (status != HF_OK)
        FAIL("%s, failure %ld: release afterwards %s: %s", what, n, hf_status_name(status),
             error.why);
}

/* ---- Memory -------------------------------------------------------------------------- */

static bool play_without_memory(struct stage *stage, const struct scene *scene, long n)
{
    struct hf_client_options options = careful();
    struct hf_error error;
    stage->failed = NULL;
    if (scene->before)
        scene->before(stage);
    alloc_fail_after(n);
    bool opened = WENT(peer_try_open(&stage->peer, &stage->world, &options, &error));
    if (opened)
        play(stage, scene);
    bool failed = alloc_stop();
    if (opened)
        store_close(&stage->peer.way.base);
    else
        hf_lock_release(stage->other_lock, NULL);
    if (stage->failed && !failed)
        FAIL("%s: %s failed by itself: %s", scene->name, stage->failed, stage->error.why);
    if (stage->failed && stage->error.status != HF_UNAVAILABLE &&
        stage->error.status != HF_UNSURE)
        FAIL("%s, allocation %ld: %s: %s: %s", scene->name, n, stage->failed,
             hf_status_name(stage->error.status), stage->error.why);
    return failed;
}

static void every_allocation_fails_in_turn(void **state)
{
    const struct scene *scene = *state;
    struct stage *stage = calloc(1, sizeof *stage);
    assert_non_null(stage);
    stage_open(stage);
    long n = 0;
    while (play_without_memory(stage, scene, n)) {
        others_get_it(stage, scene->name, n);
        n++;
    }
    print_message("# %s: %ld allocations\n", scene->name, n);
    ASSERT(n > 3);
    stage_close(stage);
    free(stage);
}

/* ---- The store ----------------------------------------------------------------------- */

#define BIT(status) (1u << (status))

/* What may come of a scene in which a call of the store fails in this way, besides OK. */
static const struct failure {
    const char *name;
    struct fate fate;
    unsigned allowed;
} failures[] = {
    { "UNAVAILABLE", { FATE_REFUSE, HF_UNAVAILABLE }, BIT(HF_UNAVAILABLE) },
    { "lost", { FATE_LOSE, HF_UNSURE }, BIT(HF_UNSURE) | BIT(HF_UNAVAILABLE) },
    { "reply lost", { FATE_LOSE_REPLY, HF_UNSURE }, BIT(HF_UNSURE) | BIT(HF_UNAVAILABLE) },
    { "CONFLICT", { FATE_REFUSE, HF_CONFLICT }, 0 },
    { "DENIED", { FATE_REFUSE, HF_DENIED }, BIT(HF_DENIED) },
    { "CORRUPT", { FATE_REFUSE, HF_CORRUPT }, BIT(HF_CORRUPT) },
    { "slow",
      { FATE_SLOW, HF_OK },
      BIT(HF_LOST) | BIT(HF_EXPIRED) | BIT(HF_TIMEOUT) | BIT(HF_UNSURE) },
};
#define FAILURES (sizeof failures / sizeof failures[0])

struct case_of_store {
    const struct scene *scene;
    const struct failure *failure;
    char name[100];
};

static bool play_with_failure(struct stage *stage, const struct case_of_store *one, long n)
{
    struct hf_client_options options = careful();
    stage->failed = NULL;
    if (one->scene->before)
        one->scene->before(stage);
    peer_open(&stage->peer, &stage->world, &options);
    way_fail(&stage->peer.way, n, one->failure->fate);
    play(stage, one->scene);
    bool failed = way_has_failed(&stage->peer.way);
    store_close(&stage->peer.way.base);
    if (stage->failed && !(BIT(stage->error.status) & one->failure->allowed))
        FAIL("%s, call %ld: %s: %s: %s", one->name, n, stage->failed,
             hf_status_name(stage->error.status), stage->error.why);
    return failed;
}

static void every_store_call_fails_in_turn(void **state)
{
    const struct case_of_store *one = *state;
    struct stage *stage = calloc(1, sizeof *stage);
    assert_non_null(stage);
    stage_open(stage);
    long n = 0;
    while (play_with_failure(stage, one, n)) {
        others_get_it(stage, one->name, n);
        n++;
        ASSERT(n < 200);
    }
    ASSERT(n > 0);
    stage_close(stage);
    free(stage);
}

/* ---- A lease that was granted long before it ends ------------------------------------ */

/* More leases of the same table than it keeps when they have ended. */
static void finish_others(struct peer *peer)
{
    struct hf_error error;
    for (int i = 0; i < TABLE_FINISHED_MAX; i++) {
        struct hf_lock *lock = lock_held(peer, "path:/others", 0);
        MUST(hf_lock_fail(lock, NULL, &error));
        hf_lock_free(lock);
    }
}

static void a_release_finds_that_its_lease_was_broken(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_lock *lock = lock_held(&pair->one, "path:/x", 60000);
    struct hf_lock *next = lock_of(&pair->two, "path:/x", 0);
    MUST(hf_lock_text(lock, text, &error));
    finish_others(&pair->two);
    MUST(hf_break(pair->two.client, text, "anna", "to see", &error));
    MUST(hf_lock_acquire(next, 0, &error));
    IS(HF_LOST, hf_lock_release(lock, &error));
    MUST(hf_lock_release(next, &error));
    hf_lock_free(lock);
    hf_lock_free(next);
}

static void an_end_without_a_reply_finds_itself(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX];
    for (int i = 0; i < 3; i++) {
        struct hf_lock *lock = lock_held(&pair->one, "path:/x", 60000);
        MUST(hf_lock_text(lock, text, &error));
        finish_others(&pair->one);
        script_rule(&pair->one.way, .name = "end", .on = ON_PUT | ON_CHANGE, .part = "/paths",
                    .times = 1, .fate = LOSE_REPLY);
        if (i == 0)
            MUST(hf_lock_fail(lock, NULL, &error));
        else if (i == 1)
            MUST(hf_lock_complete(lock, NULL, &error));
        else
            MUST(hf_break(pair->one.client, text, "anna", "to see", &error));
        assert_int_equal(script_met(&pair->one.way, "end"), 1);
        hf_lock_free(lock);
    }
}

/* ---- A lease that is only named ------------------------------------------------------ */

static void come_late(void *argument)
{
    (void)argument;
    pass_ms(1100);
}

static void a_late_renewal_leaves_it_named(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_lock_options options = LOCK_OPTIONS(.unconfirmed = true, .no_renewal = true);
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 1000), *named;
    MUST(hf_lock_text(lock, text, &error));
    hf_lock_detach(lock);
    MUST(hf_lock_adopt(pair->two.client, text, &options, &named, &error));
    script_rule(&pair->two.way, .name = "late", .on = ON_PUT | ON_CHANGE, .part = "deploy",
                .times = 1, .after = come_late);
    script_rule(&pair->two.way, .name = "deny", .on = ON_PUT | ON_CHANGE, .part = "deploy",
                .skip = 1, .fate = REFUSE(HF_DENIED));
    IS(HF_DENIED, hf_lock_renew(named, &error));
    ASSERT(script_met(&pair->two.way, "late") == 1);
    IS(HF_UNSURE, hf_lock_check(named, &error));
    IS(HF_DENIED, hf_lock_release(named, &error));
    hf_lock_free(named);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    static struct CMUnitTest tests[SCENES * (FAILURES + 1) + 3];
    static struct case_of_store cases[SCENES * FAILURES];
    static char names[SCENES][100];
    size_t count = 0, case_count = 0;
    bool quick = argc > 2 && strcmp(argv[2], "quick") == 0;
    for (size_t i = 0; i < SCENES; i++) {
        if (quick && !scenes[i].quick)
            continue;
        snprintf(names[i], sizeof names[i], "each allocation of '%s' may fail", scenes[i].name);
        tests[count++] = (struct CMUnitTest){ .name = names[i],
                                              .test_func = every_allocation_fails_in_turn,
                                              .initial_state = (void *)(uintptr_t)&scenes[i] };
        for (size_t k = 0; k < FAILURES; k++) {
            if (quick && failures[k].fate.kind == FATE_SLOW)
                continue;
            struct case_of_store *one = &cases[case_count++];
            *one = (struct case_of_store){ &scenes[i], &failures[k], "" };
            snprintf(one->name, sizeof one->name, "each store call of '%s' may fail: %s",
                     scenes[i].name, failures[k].name);
            tests[count++] = (struct CMUnitTest){ .name = one->name,
                                                  .test_func = every_store_call_fails_in_turn,
                                                  .initial_state = one };
        }
    }
    tests[count++] = (struct CMUnitTest)PAIR("a release finds that its lease was broken",
                                             a_release_finds_that_its_lease_was_broken);
    tests[count++] = (struct CMUnitTest)PAIR("an end that got no reply finds itself",
                                             an_end_without_a_reply_finds_itself);
    tests[count++] = (struct CMUnitTest)PAIR("a late renewal of a named lease leaves it named",
                                             a_late_renewal_leaves_it_named);
    return _cmocka_run_group_tests("locks that fail", tests, count, NULL, NULL);
}
