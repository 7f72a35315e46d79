/* SPDX-License-Identifier: Apache-2.0 */
/* txn_fail_test.c [KIND [remote]]: a transfer between two keys with each of its store calls failed
 * in turn: refused, lost with or without effect, or as the last call of its process. Both keys
 * must have changed or neither, every report must be true, and others must be able to go on. With
 * `remote`, keys are taken, staged and settled side by side, as on a network. */
#include "txn_kit.h"

#include <stdio.h>
#include <stdlib.h>

/* Of those who die: short, so that their leases are over soon. */
#define TTL_MS     1000 /* a transfer takes several syncs of a disk that others use too */
#define CALLS_MAX  40
#define LARGE_SIZE 5000
#define RECORDS    ".txn-decisions/m/"

static struct hf_error error;
static bool remote;
static bool in_steps; /* the store changes several objects in one step */

/* How many calls a transfer has, so that the test does not miss most of them. */
static long calls_at_least(void)
{
    return in_steps ? 5 : 11;
}

/* What keys hold, before and after; large states have bodies. */
struct texts {
    char *old[2], *new[2];
};

static char *text_of(char letter, size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, letter, size);
    text[size] = '\0';
    return text;
}

static struct texts texts_of(size_t size)
{
    return (struct texts){ { text_of('a', size), text_of('b', size) },
                           { text_of('A', size), text_of('B', size) } };
}

static void texts_free(struct texts *texts)
{
    for (size_t i = 0; i < 2; i++) {
        free(texts->old[i]);
        free(texts->new[i]);
    }
}

/* ---- One transfer -------------------------------------------------------------------- */

struct scene {
    struct world world;
    struct peer one, two; /* to whom it happens, and another */
    struct hf_txn *txn;   /* of `one`; NULL: it did not come to that */
    char id[HF_TXN_ID_SIZE + 1];
    enum hf_status commit;
    enum hf_decision told;
    const char *failed; /* the first call that was not OK */
    struct hf_error why;
};

static void scene_open(struct scene *scene, const struct texts *texts)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    *scene = (struct scene){ .commit = HF_CANCELLED, .told = HF_ROLLBACK };
    options.ttl_max_ms = TTL_MS;
    world_open(&scene->world);
    peer_open(&scene->one, &scene->world, &options);
    peer_open(&scene->two, &scene->world, &options);
    in_steps = scene->world.truth->ops->change != NULL;
    if (remote) {
        make_remote(&scene->one);
        make_remote(&scene->two);
    }
    for (size_t i = 0; i < 2; i++) {
        struct hf_key *key = key_with(&scene->two, i == 0 ? "a" : "b", TTL_MS, false);
        MUST(hf_key_acquire(key, 0, NULL, &error));
        update(key, texts->old[i]);
        done(key);
    }
}

static void scene_close(struct scene *scene)
{
    hf_txn_free(scene->txn);
    peer_close(&scene->one);
    peer_close(&scene->two);
    world_close(&scene->world);
}

static bool went(struct scene *scene, enum hf_status status, const struct hf_error *why,
                 const char *call)
{
    if (status != why->status || (status != HF_OK && why->why[0] == '\0'))
        FAIL("%s: %s, and says %s", call, hf_status_name(status), hf_status_name(why->status));
    if (status != HF_OK && !scene->failed) {
        scene->failed = call;
        scene->why = *why;
    }
    return status == HF_OK;
}
#define WENT(call) went(scene, (call), &why, #call)

/* Until something fails; the transaction stays. */
static void transfer(struct scene *scene, const struct texts *texts)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_client *client = scene->one.client;
    struct hf_key *keys[2];
    struct hf_error why;
    options.ttl_ms = TTL_MS;
    if (!WENT(hf_txn_begin(client, NULL, &scene->txn, &why))) {
        scene->txn = NULL;
        return;
    }
    snprintf(scene->id, sizeof scene->id, "%s", hf_txn_id(scene->txn));
    if (!WENT(hf_txn_acquire(scene->txn, (const char *[]){ "a", "b" }, 2, &options, 0, keys,
                             &why)))
        return;
    struct hf_txn_change changes[2];
    for (size_t i = 0; i < 2; i++)
        changes[i] = (struct hf_txn_change){ .key = keys[i],
                                             .data = texts->new[i],
                                             .size = strlen(texts->new[i]) };
    if (!WENT(hf_txn_update(scene->txn, changes, 2, &why)))
        return;
    scene->commit = hf_txn_commit(scene->txn, &scene->told, &why);
    went(scene, scene->commit, &why, "hf_txn_commit");
    await_settled(&scene->one);
}

/* ---- What must hold ------------------------------------------------------------------ */

static bool is_new(struct scene *scene, const struct texts *texts, size_t which)
{
    void *data;
    size_t size;
    MUST(hf_key_get(scene->two.client, which == 0 ? "a" : "b", 2 * LARGE_SIZE, &data, &size,
                    NULL, &error));
    bool changed = size > 0 && *(char *)data == texts->new[which][0];
    const char *expected = changed ? texts->new[which] : texts->old[which];
    ASSERT(size == strlen(expected) && memcmp(data, expected, size) == 0);
    hf_free(data);
    return changed;
}

/* Whether both have changed; fails when only one has. */
static bool both_changed(struct scene *scene, const struct texts *texts)
{
    bool a = is_new(scene, texts, 0), b = is_new(scene, texts, 1);
    if (a != b)
        FAIL("half of it is seen: %s has changed alone; commit: %s", a ? "a" : "b",
             hf_status_name(scene->commit));
    return a;
}

/* What the process of the transfer was told is true. */
static void told_the_truth(const struct scene *scene, bool changed)
{
    bool ok = scene->commit == HF_OK;
    bool refused =
        scene->commit == HF_EXPIRED || scene->commit == HF_LOST || scene->commit == HF_MISMATCH;
    if ((ok && !changed) || (refused && changed) || (scene->commit == HF_CANCELLED && changed))
        FAIL("commit: %s, and it is %s", hf_status_name(scene->commit),
             changed ? "done" : "not done");
    if (ok)
        ASSERT(scene->told == HF_COMMIT);
}

/* Somebody takes both keys, in time, and finds them as they were seen. */
static void others_go_on(struct scene *scene, const struct texts *texts, bool changed)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *keys[2];
    struct hf_txn *txn = begin(&scene->two);
    options.ttl_ms = TTL_MS;
    options.poll_ms = 5;
    MUST(hf_txn_acquire(txn, (const char *[]){ "a", "b" }, 2, &options, 5000, keys, &error));
    ASSERT(both_changed(scene, texts) == changed);
    for (size_t i = 0; i < 2; i++)
        update(keys[i], texts->old[i]);
    commit(txn);
    hf_txn_free(txn);
    await_settled(&scene->two);
    ASSERT(!both_changed(scene, texts));
    ASSERT(!is_staged(&scene->world, "a") && !is_staged(&scene->world, "b"));
}

static void purge_record(struct scene *scene, struct view key)
{
    struct view name = view_from(key, strlen(RECORDS));
    char id[HF_TXN_ID_SIZE + 1];
    snprintf(id, sizeof id, "%.*s", VIEW_ARGS(name));
    pass_ms(1);
    enum purge_result result = purge(&scene->two, id);
    pass_ms(1);
    if (result == PURGE_DECIDED) /* its process was dead before it could decide */
        result = purge(&scene->two, id);
    ASSERT(result == PURGE_DONE);
}

/* Each record goes. */
static void records_are_purged(struct scene *scene)
{
    struct list_call list = { .prefix = VIEW(RECORDS) };
    must(store_list(scene->world.truth, &list), &list.error, "list", __LINE__);
    set_late_bound(&scene->two, SPAN_US(0));
    for (size_t i = 0; i < list.count; i++)
        purge_record(scene, list.entries[i].key);
    list_release(&list);
    ASSERT(objects_below(&scene->world, RECORDS) == 0);
}

/* ---- One call fails ------------------------------------------------------------------ */

static const struct fate fates[] = { { FATE_REFUSE, HF_UNAVAILABLE },
                                     { FATE_LOSE, HF_UNSURE },
                                     { FATE_LOSE_REPLY, HF_UNSURE } };

/* False when there are not so many calls. */
static bool fail_call(const struct texts *texts, long number, struct fate fate)
{
    struct scene scene;
    scene_open(&scene, texts);
    way_fail(&scene.one.way, number, fate);
    transfer(&scene, texts);
    bool failed = way_has_failed(&scene.one.way);
    if (scene.failed)
        FAIL("call %ld, fate %d: %s: %s", number, fate.kind, scene.failed, scene.why.why);
    bool changed = both_changed(&scene, texts);
    ASSERT(changed);
    hf_txn_free(scene.txn);
    scene.txn = NULL;
    ASSERT(!is_staged(&scene.world, "a") && !is_staged(&scene.world, "b"));
    others_go_on(&scene, texts, changed);
    scene_close(&scene);
    return failed;
}

static void fail_each_call(size_t size)
{
    struct texts texts = texts_of(size);
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        long number = 0;
        while (number < CALLS_MAX && fail_call(&texts, number, fates[i]))
            number++;
        ASSERT(number >= calls_at_least() && number < CALLS_MAX);
    }
    texts_free(&texts);
}

static void one_failure_changes_nothing(void **state)
{
    (void)state;
    fail_each_call(10);
}

static void nor_does_one_with_large_states(void **state)
{
    (void)state;
    fail_each_call(LARGE_SIZE);
}

/* ---- The last call of a process ------------------------------------------------------ */

/* Who comes first afterwards. */
enum first { READER_FIRST, NEWCOMER_FIRST, PURGE_FIRST, FIRSTS };

/* False when it has as many calls, and lives. */
static bool die_at(struct scene *scene, const struct texts *texts, long number, bool done_so)
{
    scene_open(scene, texts);
    way_die(&scene->one.way, number, done_so ? LOSE_REPLY : REFUSE(HF_DENIED));
    transfer(scene, texts);
    return way_has_failed(&scene->one.way);
}

static void look_after(struct scene *scene, const struct texts *texts, enum first first)
{
    if (first == PURGE_FIRST)
        records_are_purged(scene);
    bool changed = first == NEWCOMER_FIRST ? false : both_changed(scene, texts);
    if (first == NEWCOMER_FIRST) {
        struct hf_key *key = key_with(&scene->two, "b", TTL_MS, false);
        MUST(hf_key_acquire(key, 5000, NULL, &error));
        done(key);
        changed = both_changed(scene, texts);
    }
    told_the_truth(scene, changed);
    others_go_on(scene, texts, changed);
    records_are_purged(scene);
    ASSERT(!both_changed(scene, texts));
}

/* All die at the same time, each in a world of its own, so that one wait is enough for all. */
static void die_at_each_call(size_t size, enum first first)
{
    struct texts texts = texts_of(size);
    struct scene *scenes = calloc((size_t)2 * CALLS_MAX, sizeof *scenes);
    assert_non_null(scenes);
    size_t count = 0;
    for (int done_so = 0; done_so < 2; done_so++)
        for (long number = 0; number < CALLS_MAX; number++)
            if (!die_at(&scenes[count++], &texts, number, done_so))
                break;
    ASSERT(count >= 2 * (size_t)calls_at_least() && count < (size_t)2 * CALLS_MAX);
    pass_ms(TTL_MS);
    size_t changes = 0;
    for (size_t i = 0; i < count; i++) {
        look_after(&scenes[i], &texts, first);
        changes += scenes[i].commit == HF_OK;
        scene_close(&scenes[i]);
    }
    ASSERT(changes > 0 && changes < count);
    free(scenes);
    texts_free(&texts);
}

static void readers_find_all_or_nothing_of_the_dead(void **state)
{
    (void)state;
    die_at_each_call(10, READER_FIRST);
}

static void newcomers_find_all_or_nothing_of_the_dead(void **state)
{
    (void)state;
    die_at_each_call(LARGE_SIZE, NEWCOMER_FIRST);
}

static void the_purge_finds_all_or_nothing_of_the_dead(void **state)
{
    (void)state;
    die_at_each_call(10, PURGE_FIRST);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IT("a transfer survives the failure of any one call", one_failure_changes_nothing),
        IT("so does one of large states", nor_does_one_with_large_states),
        IT("whichever call was its last, readers find all of a transfer or nothing",
           readers_find_all_or_nothing_of_the_dead),
        IT("and so do newcomers", newcomers_find_all_or_nothing_of_the_dead),
        IT("and so does the purge, which settles it",
           the_purge_finds_all_or_nothing_of_the_dead),
    };
    remote = argc > 2 && strcmp(argv[2], "remote") == 0;
    return world_kind_set(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
