/* SPDX-License-Identifier: Apache-2.0 */
/* close_test.c: closing a client whose handles were not freed. Their locks are released, the
 * handles report it, and can still be freed. */
#include "holdfast.h"

#include "base/error.h"
#include "env/env.h"
#include "lock/handle.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Two clients of one store, as two processes would be. */
struct scene {
    char *folder;
    char url[4200];
    struct hf_client *one, *two;
};

static int set_up(void **state)
{
    static struct scene scene;
    struct hf_error error;
    scene = (struct scene){ .folder = test_dir_make() };
    snprintf(scene.url, sizeof scene.url, "sqlite:%s/locks.db?sync=off", scene.folder);
    assert_status(HF_OK, hf_client_open(scene.url, NULL, &scene.one, &error), &error);
    assert_status(HF_OK, hf_client_open(scene.url, NULL, &scene.two, &error), &error);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    hf_client_close(scene->two);
    test_dir_remove(scene->folder);
    return 0;
}

#define SCENE(sentence, function)                       \
    {                                                   \
        (sentence), (function), set_up, tear_down, NULL \
    }

static struct hf_lock *held(struct hf_client *client, const char *scope,
                            const struct hf_lock_options *options)
{
    struct hf_lock *lock;
    struct hf_error error;
    assert_status(HF_OK, hf_lock_new(client, scope, options, &lock, &error), &error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &error), &error);
    return lock;
}

/* The other client gets it at once, long before its ttl is over. */
static void is_free(struct scene *scene, const char *scope)
{
    struct hf_error error;
    struct hf_lock *lock = held(scene->two, scope, NULL);
    assert_status(HF_OK, hf_lock_release(lock, &error), &error);
    hf_lock_free(lock);
}

static void note_gone(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    (void)lock;
    if (event == HF_LOCK_GONE)
        atomic_fetch_add((atomic_int *)argument, 1);
}

static void what_is_held_is_given_back(void **state)
{
    struct scene *scene = *state;
    struct hf_error error;
    atomic_int gone = 0;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.notify = note_gone;
    options.notify_argument = &gone;
    struct hf_lock *deploy = held(scene->one, "deploy", &options);
    struct hf_lock *backup = held(scene->one, "backup", NULL);
    hf_client_close(scene->one);
    is_free(scene, "deploy");
    is_free(scene, "backup");

    /* The handles that are left know it, and hold nothing any more. */
    for (int i = 0; i < 1000 && atomic_load(&gone) == 0; i++)
        env_sleep(env_real(), SPAN_MS(5));
    assert_int_equal(atomic_load(&gone), 1);
    assert_status(HF_LOST, hf_lock_check(deploy, &error), &error);
    assert_int_equal(hf_lock_remaining_ms(deploy), 0);
    assert_status(HF_LOST, hf_lock_renew(deploy, &error), &error);
    assert_status(HF_LOST, hf_fenced_put(deploy, "state", "x", 1, &error), &error);
    assert_status(HF_LOST, hf_lock_release(deploy, &error), &error);
    assert_status(HF_CANCELLED, hf_lock_acquire(deploy, 0, &error), &error);
    assert_status(HF_CANCELLED, hf_lock_begin(deploy, &error), &error);
    hf_lock_free(deploy);
    hf_lock_free(backup);
    is_free(scene, "deploy");
}

static void one_that_holds_nothing_is_left(void **state)
{
    struct scene *scene = *state;
    struct hf_error error;
    struct hf_lock *idle, *released = held(scene->one, "deploy", NULL);
    assert_status(HF_OK, hf_lock_new(scene->one, "deploy", NULL, &idle, &error), &error);
    assert_status(HF_OK, hf_lock_release(released, &error), &error);
    hf_client_close(scene->one);
    assert_status(HF_NOT_FOUND, hf_lock_check(idle, &error), &error);
    assert_status(HF_NOT_FOUND, hf_lock_release(released, &error), &error);
    hf_lock_free(released);
    hf_lock_detach(idle);
}

struct waiting {
    struct hf_lock *lock;
    int64_t wait_ms;
    struct hf_error error;
};

static void *wait_in_line(void *argument)
{
    struct waiting *waiting = argument;
    hf_lock_acquire(waiting->lock, waiting->wait_ms, &waiting->error);
    return NULL;
}

static void who_waits_is_told(void **state)
{
    struct scene *scene = *state;
    struct hf_error error;
    struct hf_lock *holder = held(scene->two, "deploy", NULL), *polling;
    struct waiting waiting = { .wait_ms = HF_WAIT_FOREVER };
    pthread_t thread;
    assert_status(HF_OK, hf_lock_new(scene->one, "deploy", NULL, &waiting.lock, &error),
                  &error);
    assert_status(HF_OK, hf_lock_new(scene->one, "deploy", NULL, &polling, &error), &error);
    assert_status(HF_HELD, hf_lock_begin(polling, &error), &error);
    assert_int_equal(pthread_create(&thread, NULL, wait_in_line, &waiting), 0);
    env_sleep(env_real(), SPAN_MS(100));
    hf_client_close(scene->one);
    pthread_join(thread, NULL);
    assert_status(HF_CANCELLED, waiting.error.status, &waiting.error);
    assert_status(HF_CANCELLED, hf_lock_poll(polling, &error), &error);
    hf_lock_free(waiting.lock);
    hf_lock_free(polling);
    assert_status(HF_OK, hf_lock_release(holder, &error), &error);
    hf_lock_free(holder);
    is_free(scene, "deploy");
}

/* The call has found the client open, but is not in line yet when the client is closed. */
static void who_is_about_to_wait_is_told(void **state)
{
    struct scene *scene = *state;
    struct hf_error error;
    struct hf_lock *holder = held(scene->two, "deploy", NULL);
    struct waiting waiting = { .wait_ms = 20000 };
    pthread_t thread;
    assert_status(HF_OK, hf_lock_new(scene->one, "deploy", NULL, &waiting.lock, &error),
                  &error);
    table_ref_begin_ending(waiting.lock->ref); /* the call waits for the end of this first */
    assert_int_equal(pthread_create(&thread, NULL, wait_in_line, &waiting), 0);
    env_sleep(env_real(), SPAN_MS(100));
    hf_client_close(scene->one);
    table_ref_finish_ending(waiting.lock->ref);
    pthread_join(thread, NULL);
    assert_status(HF_CANCELLED, waiting.error.status, &waiting.error);
    hf_lock_free(waiting.lock);
    assert_status(HF_OK, hf_lock_release(holder, &error), &error);
    hf_lock_free(holder);
    is_free(scene, "deploy");
}

static void keys_and_transactions_too(void **state)
{
    struct scene *scene = *state;
    struct hf_error error;
    struct hf_key *key, *taken;
    struct hf_txn *txn;
    const char *names[] = { "accounts/ann" };
    assert_status(HF_OK, hf_key_new(scene->one, "orders/42", NULL, &key, &error), &error);
    assert_status(HF_OK, hf_key_acquire(key, 0, NULL, &error), &error);
    assert_status(HF_OK, hf_txn_begin(scene->one, NULL, &txn, &error), &error);
    assert_status(HF_OK, hf_txn_acquire(txn, names, 1, NULL, 0, &taken, &error), &error);
    hf_client_close(scene->one);
    is_free(scene, "orders/42");
    assert_int_not_equal(hf_key_update(key, "x", 1, NULL, NULL, &error), HF_OK);
    assert_int_not_equal(hf_txn_commit(txn, NULL, &error), HF_OK);
    hf_key_free(key);
    hf_txn_free(txn);
    is_free(scene, "accounts/ann");
}

static void only_a_transaction_is_left(void **state)
{
    struct scene *scene = *state;
    struct hf_error error;
    struct hf_txn *txn;
    assert_status(HF_OK, hf_txn_begin(scene->one, NULL, &txn, &error), &error);
    hf_client_close(scene->one);
    hf_txn_free(txn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE("a lock that is held when its client is closed is given back, and told LOST",
              what_is_held_is_given_back),
        SCENE("a handle that holds nothing may be freed after its client was closed",
              one_that_holds_nothing_is_left),
        SCENE("a call that waits in line when the client is closed is CANCELLED",
              who_waits_is_told),
        SCENE("a call that is about to wait in line when the client is closed is CANCELLED",
              who_is_about_to_wait_is_told),
        SCENE("keys and transactions may be freed after their client was closed",
              keys_and_transactions_too),
        SCENE("a transaction without keys may be freed after its client was closed",
              only_a_transaction_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
