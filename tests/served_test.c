/* SPDX-License-Identifier: Apache-2.0 */
/* served_test.c: the public calls on a real server, which the test starts, kills and starts again.
 * $HOLDFAST_SERVE is its program. */
#include "holdfast.h"

#include "base/error.h"
#include "env/env.h"
#include "lock/handle.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct scene {
    char *folder;
    char store[4200], url[4200];
    pid_t server;
    struct hf_client *one, *two;
    struct hf_error error;
};

#define OK(call)         assert_status(HF_OK, call, &scene->error)
#define IS(status, call) assert_status(status, call, &scene->error)

/* ---- The server ------------------------------------------------ */

static bool list_nothing(void *argument, const struct hf_lease_info *lease)
{
    (void)argument;
    (void)lease;
    return true;
}

struct seen_txn {
    char label[HF_TXN_ID_SIZE + 1], key[64];
    size_t count, key_count;
};

static bool keep_txn(void *argument, const struct hf_txn_info *txn)
{
    struct seen_txn *seen = argument;
    assert_int_equal(txn->state, HF_TXN_PENDING);
    seen->count++;
    seen->key_count = txn->key_count;
    snprintf(seen->label, sizeof seen->label, "%s", txn->id);
    snprintf(seen->key, sizeof seen->key, "%s", txn->key_count > 0 ? txn->keys[0] : "");
    return true;
}

/* It answers once it has opened its store. */
static void start_server(struct scene *scene)
{
    scene->server = fork();
    if (scene->server == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, STDERR_FILENO);
        execl(getenv("HOLDFAST_SERVE"), "holdfast-serve", "--store", scene->store, "--listen",
              scene->url, (char *)NULL);
        _exit(127);
    }
    assert_true(scene->server > 0);
    struct mono_time end = mono_add(env_now(env_real()), SPAN_S(30));
    while (scene->one && hf_locks_list(scene->one, "", NULL, list_nothing, NULL, NULL) != HF_OK)
        assert_true(mono_before(env_now(env_real()), end));
}

static void kill_server(struct scene *scene)
{
    int status;
    kill(scene->server, SIGKILL);
    waitpid(scene->server, &status, 0);
}

static int set_up(void **state)
{
    static struct scene scene;
    scene = (struct scene){ .folder = test_dir_make() };
    snprintf(scene.store, sizeof scene.store, "sqlite:%s/locks.db?sync=off", scene.folder);
    snprintf(scene.url, sizeof scene.url, "unix:%s/socket", scene.folder);
    assert_status(HF_OK, hf_client_open(scene.url, NULL, &scene.one, &scene.error),
                  &scene.error);
    assert_status(HF_OK, hf_client_open(scene.url, NULL, &scene.two, &scene.error),
                  &scene.error);
    start_server(&scene);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    hf_client_close(scene->one);
    hf_client_close(scene->two);
    kill_server(scene);
    test_dir_remove(scene->folder);
    return 0;
}

#define SCENE(sentence, function)                       \
    {                                                   \
        (sentence), (function), set_up, tear_down, NULL \
    }

static struct hf_lock *lock_of(struct scene *scene, struct hf_client *client, const char *scope,
                               const struct hf_lock_options *options)
{
    struct hf_lock *lock;
    OK(hf_lock_new(client, scope, options, &lock, &scene->error));
    return lock;
}

/* ---- Locks ------------------------------------------------ */

static void a_lock_is_held_renewed_and_released(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *mine = lock_of(scene, scene->one, "x", NULL);
    struct hf_lock *other = lock_of(scene, scene->two, "x", NULL);
    IS(HF_NOT_FOUND, hf_lock_check(mine, &scene->error));
    OK(hf_lock_acquire(mine, 0, &scene->error));
    OK(hf_lock_acquire(mine, 0, &scene->error)); /* twice */
    uint64_t token = hf_lock_token(mine);
    int64_t left = hf_lock_remaining_ms(mine);
    assert_true(token > 0 && left > 0 && left <= 30000);
    assert_int_equal(hf_lock_ttl_ms(mine), 30000);
    IS(HF_HELD, hf_lock_acquire(other, 0, &scene->error));
    assert_true(hf_lock_blocked(other, 0));
    OK(hf_lock_renew(mine, &scene->error));
    OK(hf_lock_release(mine, &scene->error));
    OK(hf_lock_check(mine, &scene->error));
    OK(hf_lock_release(mine, &scene->error));
    IS(HF_NOT_FOUND, hf_lock_release(mine, &scene->error));
    OK(hf_lock_acquire(other, 0, &scene->error));
    assert_true(hf_lock_token(other) > token);
    OK(hf_lock_release(other, &scene->error));
    hf_lock_free(mine);
    hf_lock_free(other);
}

struct waiting {
    struct hf_lock *lock;
    enum hf_status status;
    struct hf_error error;
};

static void *wait_long(void *argument)
{
    struct waiting *waiter = argument;
    waiter->status = hf_lock_acquire(waiter->lock, 60000, &waiter->error);
    return NULL;
}

static void a_wait_ends_by_a_release_an_interrupt_or_its_time(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *mine = lock_of(scene, scene->one, "path:/a/b", NULL);
    struct waiting waiter = { .lock = lock_of(scene, scene->two, "tree:/a", NULL) };
    pthread_t thread;
    OK(hf_lock_acquire(mine, 0, &scene->error));
    IS(HF_TIMEOUT, hf_lock_acquire(waiter.lock, 50, &scene->error));
    pthread_create(&thread, NULL, wait_long, &waiter);
    env_sleep(env_real(), SPAN_MS(300));
    hf_lock_interrupt(waiter.lock);
    pthread_join(thread, NULL);
    assert_status(HF_CANCELLED, waiter.status, &waiter.error);
    pthread_create(&thread, NULL, wait_long, &waiter);
    env_sleep(env_real(), SPAN_MS(300));
    OK(hf_lock_release(mine, &scene->error));
    pthread_join(thread, NULL);
    assert_status(HF_OK, waiter.status, &waiter.error);
    hf_lock_free(mine);
    hf_lock_free(waiter.lock);
}

/* ---- Waiting in steps ------------------------------------------------ */

static void poll_until_held(struct scene *scene, struct hf_lock *lock)
{
    struct mono_time end = mono_add(env_now(env_real()), SPAN_S(60));
    enum hf_status status;
    while ((status = hf_lock_poll(lock, &scene->error)) == HF_HELD &&
           mono_before(env_now(env_real()), end))
        env_sleep(env_real(), SPAN_MS(5));
    IS(HF_OK, status);
}

static void a_wait_in_steps_is_granted_in_its_turn(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *mine = lock_of(scene, scene->one, "x", NULL);
    struct hf_lock *other = lock_of(scene, scene->two, "x", NULL);
    IS(HF_NOT_FOUND, hf_lock_poll(other, &scene->error));
    OK(hf_lock_begin(mine, &scene->error)); /* it is free */
    OK(hf_lock_poll(mine, &scene->error));
    IS(HF_HELD, hf_lock_begin(other, &scene->error));
    IS(HF_HELD, hf_lock_poll(other, &scene->error));
    assert_true(hf_lock_blocked(other, 0));
    IS(HF_INVALID, hf_lock_begin(other, &scene->error));
    uint64_t token = hf_lock_token(mine);
    OK(hf_lock_release(mine, &scene->error));
    poll_until_held(scene, other);
    assert_true(hf_lock_token(other) > token);
    assert_false(hf_lock_blocked(other, 0));
    OK(hf_lock_release(other, &scene->error));
    IS(HF_NOT_FOUND, hf_lock_poll(other, &scene->error));
    hf_lock_free(mine);
    hf_lock_free(other);
}

static void a_wait_in_steps_that_is_ended_leaves_nothing(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *mine = lock_of(scene, scene->one, "x", NULL);
    struct hf_lock *other = lock_of(scene, scene->two, "x", NULL);
    OK(hf_lock_acquire(mine, 0, &scene->error));
    IS(HF_HELD, hf_lock_begin(other, &scene->error));
    OK(hf_lock_cancel(other, &scene->error));
    IS(HF_NOT_FOUND, hf_lock_poll(other, &scene->error));
    IS(HF_HELD, hf_lock_begin(other, &scene->error));
    hf_lock_interrupt(other);
    env_sleep(env_real(), SPAN_MS(300));
    IS(HF_CANCELLED, hf_lock_poll(other, &scene->error));
    IS(HF_HELD, hf_lock_begin(other, &scene->error));
    hf_lock_free(other);
    OK(hf_lock_release(mine, &scene->error));
    OK(hf_lock_acquire(mine, 0, &scene->error)); /* nobody is in line */
    other = lock_of(scene, scene->two, "x", NULL);
    IS(HF_HELD, hf_lock_begin(other, &scene->error));
    env_sleep(env_real(), SPAN_MS(100)); /* it is in line */
    OK(hf_lock_release(mine, &scene->error));
    hf_lock_free(other); /* whether it was granted or not */
    OK(hf_lock_acquire(mine, 10000, &scene->error));
    OK(hf_lock_release(mine, &scene->error));
    hf_lock_free(mine);
}

static void a_key_is_acquired_in_steps(void **state)
{
    struct scene *scene = *state;
    struct hf_key *mine, *other;
    struct hf_key_info info = HF_KEY_INFO;
    OK(hf_key_new(scene->one, "k", NULL, &mine, &scene->error));
    OK(hf_key_new(scene->two, "k", NULL, &other, &scene->error));
    OK(hf_key_begin(mine, &info, &scene->error));
    IS(HF_HELD, hf_key_begin(other, NULL, &scene->error));
    OK(hf_key_update(mine, "one", 3, NULL, &info, &scene->error));
    OK(hf_key_release(mine, HF_COMMIT, &scene->error));
    struct mono_time end = mono_add(env_now(env_real()), SPAN_S(60));
    enum hf_status status;
    while ((status = hf_key_poll(other, &info, &scene->error)) == HF_HELD &&
           mono_before(env_now(env_real()), end))
        env_sleep(env_real(), SPAN_MS(5));
    IS(HF_OK, status);
    assert_int_equal(info.version, 1);
    OK(hf_key_release(other, HF_COMMIT, &scene->error));
    hf_key_free(mine);
    hf_key_free(other);
}

static void several_scopes_are_held_all_or_none(void **state)
{
    struct scene *scene = *state;
    static const char *const ab[] = { "path:/a", "path:/b" }, *const cb[] = { "path:/c",
                                                                              "path:/b" };
    static const char *const names[] = { "a", "b" };
    struct hf_blocker blocker = HF_BLOCKER;
    struct hf_lock *mine, *other, *none,
        *free_one = lock_of(scene, scene->two, "path:/c", NULL);
    OK(hf_lock_new_many(scene->one, ab, 2, NULL, &mine, &scene->error));
    OK(hf_lock_new_many(scene->two, cb, 2, NULL, &other, &scene->error));
    IS(HF_INVALID, hf_lock_new_many(scene->one, names, 2, NULL, &none, &scene->error));
    OK(hf_lock_acquire(mine, 0, &scene->error));
    OK(hf_lock_renew(mine, &scene->error));
    IS(HF_HELD, hf_lock_acquire(other, 0, &scene->error));
    assert_false(hf_lock_blocked(other, 0));
    assert_true(hf_lock_blocked(other, 1));
    OK(hf_lock_blocker(other, &blocker, &scene->error));
    assert_string_equal(blocker.scope, "path:/b");
    OK(hf_lock_acquire(free_one, 0, &scene->error)); /* nothing was taken */
    OK(hf_lock_release(free_one, &scene->error));
    IS(HF_TIMEOUT, hf_lock_acquire(other, 50, &scene->error));
    OK(hf_lock_release(mine, &scene->error));
    OK(hf_lock_acquire(other, 10000, &scene->error));
    OK(hf_lock_release(other, &scene->error));
    hf_lock_free(mine);
    hf_lock_free(other);
    hf_lock_free(free_one);
}

static bool note_lease(void *argument, const struct hf_lease_info *lease)
{
    snprintf(argument, 400, "%s %s %s", hf_lease_state_name(lease->state), lease->holder,
             lease->note);
    return false;
}

static bool note_completed(void *argument, const struct hf_lease_info *lease)
{
    return lease->state != HF_LEASE_COMPLETED || note_lease(argument, lease);
}

static void work_is_done_once_per_period(void **state)
{
    struct scene *scene = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_list_options all = HF_LIST_OPTIONS;
    struct hf_blocker blocker = HF_BLOCKER;
    char seen[400] = "", wanted[400];
    options.once_per_ms = 3600000;
    options.note = "{\"step\":1}";
    struct hf_lock *mine = lock_of(scene, scene->one, "nightly", &options);
    struct hf_lock *other = lock_of(scene, scene->two, "nightly", &options);
    OK(hf_lock_acquire(mine, 0, &scene->error));
    OK(hf_locks_list(scene->two, "nightly", NULL, note_lease, seen, &scene->error));
    assert_non_null(strstr(seen, " {\"step\":1}"));
    IS(HF_INVALID, hf_lock_fail(mine, "{", &scene->error));
    OK(hf_lock_fail(mine, NULL, &scene->error));
    OK(hf_lock_acquire(mine, 0, &scene->error));
    OK(hf_lock_complete(mine, "\"done\"", &scene->error));
    IS(HF_ALREADY, hf_lock_acquire(other, 0, &scene->error));
    IS(HF_ALREADY, hf_lock_acquire(other, 10000, &scene->error));
    OK(hf_lock_blocker(other, &blocker, &scene->error));
    assert_int_equal(blocker.state, HF_LEASE_COMPLETED);
    assert_in_range(blocker.retry_ms, 1, 3600000);
    snprintf(wanted, sizeof wanted, "completed %s \"done\"", blocker.holder);
    all.ended = true;
    OK(hf_locks_list(scene->two, "nightly", &all, note_completed, seen, &scene->error));
    assert_string_equal(seen, wanted);
    hf_lock_free(mine);
    hf_lock_free(other);
}

static void a_lease_is_passed_on_as_text(void **state)
{
    struct scene *scene = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *mine, *other;
    char text[HF_LEASE_TEXT_MAX], scope[HF_SCOPE_TEXT_MAX];
    options.mode = HF_SHARED;
    mine = lock_of(scene, scene->one, "y", &options);
    OK(hf_lock_acquire(mine, 0, &scene->error));
    OK(hf_lock_text(mine, text, &scene->error));
    hf_lock_detach(mine);
    OK(hf_lock_adopt(scene->two, text, NULL, &other, &scene->error));
    OK(hf_lock_check(other, &scene->error));
    assert_int_equal(hf_lock_ttl_ms(other), 30000);
    OK(hf_lock_scope(other, 0, scope, &scene->error));
    assert_string_equal(scope, "named:y");
    hf_lock_detach(other);
    options = HF_LOCK_OPTIONS;
    options.unconfirmed = true;
    OK(hf_lock_adopt(scene->two, text, &options, &other, &scene->error));
    IS(HF_UNSURE, hf_lock_check(other, &scene->error));
    OK(hf_lock_release(other, &scene->error));
    hf_lock_free(other);
    IS(HF_LOST, hf_lock_adopt(scene->one, text, NULL, &other, &scene->error));
}

/* What a shell or a terminal would change is written as %XX; earlier versions wrote it as it is. */
static void a_lease_is_one_word_whatever_its_scope_is(void **state)
{
    static const char *const rows[][2] = {
        { "path:/a b", "path:/a%20b" },
        { "path:/$(x);'y'", "path:/%24%28x%29%3B%27y%27" },
        { "tree:/a\nb\\c\x1b", "tree:/a%0Ab%5Cc%1B" },
        { "path:/50%", "path:/50%25" },
        { "path:/a%20b", "path:/a%2520b" },
        { "path:/\xc2\x85\xc3\xa9", "path:/%C2%85\xc3\xa9" },
    };
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hf_lock *mine = lock_of(scene, scene->one, rows[i][0], NULL), *other;
        struct hf_lease_name name = HF_LEASE_NAME;
        char text[HF_LEASE_TEXT_MAX], raw[HF_LEASE_TEXT_MAX], scope[HF_SCOPE_TEXT_MAX];
        OK(hf_lock_acquire(mine, 0, &scene->error));
        OK(hf_lock_text(mine, text, &scene->error));
        hf_lock_detach(mine);
        char *place = strstr(text, "/scope/");
        assert_non_null(place);
        assert_string_equal(place + strlen("/scope/"), rows[i][1]);
        OK(hf_lease_parse(text, &name, &scene->error));
        assert_string_equal(strstr(name.table, "/scope/") + strlen("/scope/"), rows[i][0]);
        OK(hf_lock_adopt(scene->two, text, NULL, &other, &scene->error));
        OK(hf_lock_scope(other, 0, scope, &scene->error));
        assert_string_equal(scope, rows[i][0]);
        hf_lock_detach(other);
        snprintf(raw, sizeof raw, "%.*s%s", (int)(place + strlen("/scope/") - text), text,
                 rows[i][0]);
        bool is_of_today = strcmp(rows[i][0], "path:/a%20b") == 0;
        IS(is_of_today ? HF_LOST : HF_OK,
           hf_lock_adopt(scene->two, raw, NULL, &other, &scene->error));
        if (is_of_today)
            OK(hf_lock_adopt(scene->two, text, NULL, &other, &scene->error));
        OK(hf_lock_release(other, &scene->error));
        hf_lock_free(other);
    }
}

static void a_lease_that_cannot_be_printed_is_not_granted(void **state)
{
    struct scene *scene = *state;
    char path[900] = "path:/";
    struct hf_lock *lock;
    memset(path + strlen(path), ' ', 600);
    IS(HF_INVALID, hf_lock_new(scene->one, path, NULL, &lock, &scene->error));
    path[400] = '\0';
    OK(hf_lock_new(scene->one, path, NULL, &lock, &scene->error));
    hf_lock_free(lock);
}

static void closing_a_client_releases_its_leases(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *mine = lock_of(scene, scene->one, "x", NULL);
    struct hf_lock *other = lock_of(scene, scene->two, "x", NULL);
    OK(hf_lock_acquire(mine, 0, &scene->error));
    hf_client_close(scene->one);
    scene->one = NULL;
    IS(HF_LOST, hf_lock_check(mine, &scene->error));
    hf_lock_free(mine);
    OK(hf_lock_acquire(other, 10000, &scene->error));
    hf_lock_free(other);
}

static void a_wait_that_begins_while_its_client_is_closed_is_cancelled(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *mine = lock_of(scene, scene->two, "x", NULL);
    struct waiting waiter = { .lock = lock_of(scene, scene->one, "x", NULL) };
    struct mono_time start = env_now(env_real());
    pthread_t thread;
    OK(hf_lock_acquire(mine, 0, &scene->error));
    table_ref_begin_ending(waiter.lock->ref); /* the call waits for the end of this first */
    pthread_create(&thread, NULL, wait_long, &waiter);
    env_sleep(env_real(), SPAN_MS(300));
    hf_client_close(scene->one);
    scene->one = NULL;
    table_ref_finish_ending(waiter.lock->ref);
    pthread_join(thread, NULL);
    assert_status(HF_CANCELLED, waiter.status, &waiter.error);
    assert_true(mono_since(env_now(env_real()), start).us < SPAN_S(50).us);
    hf_lock_free(waiter.lock);
    hf_lock_free(mine);
}

/* ---- The keeper ------------------------------------------------ */

static atomic_int danger, safe, gone;

static void count_event(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    (void)argument;
    (void)lock;
    atomic_fetch_add(event == HF_LOCK_DANGER ? &danger
                     : event == HF_LOCK_SAFE ? &safe
                                             : &gone,
                     1);
}

static void wait_for_event(atomic_int *event)
{
    struct mono_time end = mono_add(env_now(env_real()), SPAN_S(60));
    while (atomic_load(event) == 0) {
        assert_true(mono_before(env_now(env_real()), end));
        env_sleep(env_real(), SPAN_MS(10));
    }
}

static void a_holder_is_told_when_its_server_is_away_and_when_it_is_back(void **state)
{
    struct scene *scene = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    atomic_store(&danger, 0);
    atomic_store(&safe, 0);
    atomic_store(&gone, 0);
    options.ttl_ms = 9000;
    options.notify = count_event;
    struct hf_lock *lock = lock_of(scene, scene->two, "x", &options);
    OK(hf_lock_acquire(lock, 0, &scene->error));
    kill_server(scene);
    wait_for_event(&danger);
    OK(hf_lock_check(lock, &scene->error));
    start_server(scene);
    wait_for_event(&safe);
    OK(hf_lock_check(lock, &scene->error));
    kill_server(scene);
    wait_for_event(&gone);
    IS(HF_EXPIRED, hf_lock_check(lock, &scene->error));
    assert_int_equal(hf_lock_remaining_ms(lock), 0);
    start_server(scene);
    OK(hf_lock_release(lock, &scene->error)); /* nobody else was granted it meanwhile */
    hf_lock_free(lock);
}

/* ---- Keys ------------------------------------------------ */

static void a_key_is_changed_under_its_lease_and_read_by_all(void **state)
{
    struct scene *scene = *state;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_if when = HF_KEY_IF;
    struct hf_key_status held = HF_KEY_STATUS;
    struct hf_key *key;
    void *data;
    size_t size;
    OK(hf_key_new(scene->one, "orders/42", NULL, &key, &scene->error));
    IS(HF_DENIED, hf_key_update(key, "a", 1, NULL, &info, &scene->error));
    OK(hf_key_acquire(key, 0, &info, &scene->error));
    assert_int_equal(info.version, 0);
    OK(hf_key_update(key, "hello", 5, NULL, &info, &scene->error));
    assert_int_equal(info.version, 1);
    when.version_set = true;
    when.version = 7;
    IS(HF_CONFLICT, hf_key_update(key, "b", 1, &when, &info, &scene->error));
    assert_int_equal(info.outcome, HF_KEY_VERSION_CONFLICT);
    assert_int_equal(info.version, 1);
    OK(hf_key_get(scene->two, "orders/42", 100, &data, &size, &info, &scene->error));
    assert_int_equal(size, 5);
    assert_memory_equal(data, "hello", 5);
    hf_free(data);
    OK(hf_key_describe(scene->two, "orders/42", &info, &held, &scene->error));
    assert_true(held.held && held.token == hf_lock_token(hf_key_lock(key)));
    OK(hf_key_remove(key, NULL, &info, &scene->error));
    assert_true(info.version == 2 && info.removed);
    OK(hf_key_release(key, HF_COMMIT, &scene->error));
    IS(HF_NOT_FOUND,
       hf_key_get(scene->two, "orders/42", 100, &data, &size, &info, &scene->error));
    assert_int_equal(info.version, 2);
    OK(hf_key_change(scene->two, "orders/42", "x", 1, NULL, &info, &scene->error));
    assert_int_equal(info.version, 3);
    hf_key_free(key);
}

/* ---- Transactions ------------------------------------------------ */

static void assert_state(struct scene *scene, const char *name, const char *wanted)
{
    void *data = NULL;
    size_t size = 0;
    enum hf_status status =
        hf_key_get(scene->two, name, 100, &data, &size, NULL, &scene->error);
    IS(wanted ? HF_OK : HF_NOT_FOUND, status);
    if (wanted) {
        assert_int_equal(size, strlen(wanted));
        assert_memory_equal(data, wanted, size);
    }
    hf_free(data);
}

/* Both keys are changed for a new transaction. */
static struct hf_txn *stage_two(struct scene *scene, const char *state)
{
    static const char *const names[] = { "t/b", "t/a" };
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key *keys[2];
    struct hf_txn *txn;
    OK(hf_txn_begin(scene->one, NULL, &txn, &scene->error));
    OK(hf_txn_acquire(txn, names, 2, NULL, 0, keys, &scene->error));
    assert_string_equal(hf_key_name(keys[0]), "t/b");
    OK(hf_key_seen(keys[1], &info, &scene->error));
    uint64_t version = info.version;
    struct hf_txn_change changes[] = {
        { .key = keys[0], .data = state, .size = strlen(state), .info = &info },
        { .key = keys[1], .data = state, .size = strlen(state) },
    };
    OK(hf_txn_update(txn, changes, 2, &scene->error));
    assert_int_equal(info.version, version + 1);
    assert_string_equal(info.txn, hf_txn_id(txn));
    return txn;
}

static void a_transaction_changes_all_its_keys_or_none(void **state)
{
    struct scene *scene = *state;
    enum hf_decision decision;
    struct hf_lock *lock = lock_of(scene, scene->two, "t/a", NULL);
    struct hf_txn *txn = stage_two(scene, "one");
    struct seen_txn seen = { .count = 0 };
    assert_state(scene, "t/a", NULL);
    OK(hf_txns_list(scene->two, HF_TXN_PENDING, NULL, keep_txn, &seen, &scene->error));
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.key_count, 2);
    assert_non_null(strstr(seen.key, "default/t/"));
    assert_null(strstr(hf_txn_id(txn), seen.label)); /* it is a secret */
    IS(HF_HELD, hf_lock_acquire(lock, 0, &scene->error));
    OK(hf_txn_commit(txn, &decision, &scene->error));
    assert_int_equal(decision, HF_COMMIT);
    OK(hf_txn_commit(txn, &decision, &scene->error));
    IS(HF_MISMATCH, hf_txn_rollback(txn, &decision, &scene->error));
    hf_txn_free(txn);
    assert_state(scene, "t/a", "one");
    assert_state(scene, "t/b", "one");
    OK(hf_lock_acquire(lock, 0, &scene->error)); /* the commit released its keys */
    OK(hf_lock_release(lock, &scene->error));
    txn = stage_two(scene, "two");
    OK(hf_txn_rollback(txn, NULL, &scene->error));
    hf_txn_free(txn);
    hf_txn_free(stage_two(scene, "three")); /* which rolls it back */
    assert_state(scene, "t/a", "one");
    OK(hf_lock_acquire(lock, 0, &scene->error));
    hf_lock_free(lock);
}

static void keys_that_are_refused_together_leave_nothing(void **state)
{
    struct scene *scene = *state;
    static const char *const names[] = { "a", "b" };
    struct hf_key *keys[2];
    struct hf_txn *txn;
    struct hf_lock *first = lock_of(scene, scene->two, "a", NULL);
    struct hf_lock *last = lock_of(scene, scene->two, "b", NULL);
    OK(hf_lock_acquire(last, 0, &scene->error));
    OK(hf_txn_begin(scene->one, NULL, &txn, &scene->error));
    IS(HF_HELD, hf_txn_acquire(txn, names, 2, NULL, 0, keys, &scene->error));
    IS(HF_TIMEOUT, hf_txn_acquire(txn, names, 2, NULL, 50, keys, &scene->error));
    assert_null(keys[0]);
    OK(hf_lock_acquire(first, 0, &scene->error));
    OK(hf_lock_release(first, &scene->error));
    OK(hf_lock_release(last, &scene->error));
    OK(hf_txn_acquire(txn, names, 2, NULL, 0, keys, &scene->error));
    OK(hf_key_update(keys[0], "x", 1, NULL, NULL, &scene->error));
    OK(hf_key_release(keys[1], HF_COMMIT, &scene->error)); /* commits all of it */
    hf_txn_free(txn);
    assert_state(scene, "a", "x");
    /* The id is known, so the transaction keeps what it has. */
    OK(hf_lock_acquire(last, 0, &scene->error));
    OK(hf_txn_begin(scene->one, NULL, &txn, &scene->error));
    assert_int_equal(strlen(hf_txn_id(txn)), HF_TXN_ID_SIZE);
    IS(HF_HELD, hf_txn_acquire(txn, names, 2, NULL, 0, keys, &scene->error));
    IS(HF_HELD, hf_lock_acquire(first, 0, &scene->error));
    OK(hf_lock_release(last, &scene->error));
    OK(hf_txn_acquire(txn, names, 2, NULL, 0, keys, &scene->error));
    OK(hf_txn_rollback(txn, NULL, &scene->error));
    OK(hf_lock_acquire(first, 0, &scene->error));
    hf_txn_free(txn);
    hf_lock_free(first);
    hf_lock_free(last);
}

static bool note_txn(void *argument, const struct hf_txn_info *txn)
{
    struct hf_txn_info *seen = argument;
    *seen = *txn;
    seen->id = seen->holder = NULL;
    seen->keys = NULL;
    return false;
}

static void a_transaction_is_shared_by_its_id(void **state)
{
    struct scene *scene = *state;
    static const char *const name = "shared";
    char id[HF_TXN_ID_SIZE + 1], lease[HF_LEASE_TEXT_MAX];
    struct hf_txn_options options = HF_TXN_OPTIONS;
    struct hf_key_options adopting = HF_KEY_OPTIONS;
    struct hf_txn_info seen = { .key_count = 0 };
    struct hf_txn *one, *two;
    struct hf_key *key;
    enum hf_decision decision;
    OK(hf_txn_open(scene->one, id, &scene->error));
    options.id = id;
    OK(hf_txn_begin(scene->one, &options, &one, &scene->error));
    OK(hf_txn_acquire(one, &name, 1, NULL, 0, &key, &scene->error));
    OK(hf_lock_text(hf_key_lock(key), lease, &scene->error));
    hf_txn_free(one); /* which was joined, so that the key stays */
    OK(hf_txn_begin(scene->two, &options, &two, &scene->error));
    adopting.unconfirmed = true;
    OK(hf_txn_adopt(two, lease, &adopting, &key, &scene->error));
    OK(hf_key_update(key, "x", 1, NULL, NULL, &scene->error));
    hf_key_detach(key);
    OK(hf_txn_show(scene->one, id, note_txn, &seen, &scene->error));
    assert_true(seen.state == HF_TXN_PENDING && seen.open && seen.key_count == 1);
    OK(hf_txn_commit(two, &decision, &scene->error));
    hf_txn_free(two);
    assert_state(scene, name, "x");
    IS(HF_MISMATCH, hf_txn_decide(scene->one, id, HF_ROLLBACK, &decision, &scene->error));
    assert_int_equal(decision, HF_COMMIT);
    OK(hf_txn_decide(scene->one, id, HF_COMMIT, &decision, &scene->error));
    IS(HF_MISMATCH, hf_txn_begin(scene->two, &options, &two, &scene->error));
    memset(id, '0', HF_TXN_ID_SIZE);
    IS(HF_NOT_FOUND, hf_txn_begin(scene->two, &options, &two, &scene->error));
    IS(HF_NOT_FOUND, hf_txn_show(scene->two, id, NULL, NULL, &scene->error));
    IS(HF_NOT_FOUND, hf_txn_decide(scene->two, id, HF_COMMIT, NULL, &scene->error));
}

static void *kill_soon(void *argument)
{
    env_sleep(env_real(), SPAN_MS(300));
    kill_server(argument);
    return NULL;
}

static void a_commit_without_a_reply_is_found_out(void **state)
{
    struct scene *scene = *state;
    static const char *const name = "t/c";
    struct hf_key *key;
    enum hf_decision decision;
    struct hf_txn *txn = stage_two(scene, "one");
    pthread_t thread;
    kill(scene->server, SIGSTOP); /* it accepts the request, and never answers it */
    pthread_create(&thread, NULL, kill_soon, scene);
    IS(HF_UNSURE, hf_txn_commit(txn, NULL, &scene->error));
    pthread_join(thread, NULL);
    IS(HF_UNSURE, hf_txn_acquire(txn, &name, 1, NULL, 0, &key, &scene->error));
    start_server(scene);
    OK(hf_txn_commit(txn, &decision, &scene->error));
    assert_int_equal(decision, HF_COMMIT);
    hf_txn_free(txn);
    assert_state(scene, "t/a", "one");
    assert_state(scene, "t/b", "one");
}

/* ---- What a server does not have ------------------------------------------------ */

static void what_needs_the_bucket_says_so(void **state)
{
    struct scene *scene = *state;
    struct hf_key_options staged = HF_KEY_OPTIONS;
    struct hf_lock *lock = lock_of(scene, scene->one, "x", NULL), *none;
    struct hf_key *key;
    struct hf_store *store;
    IS(HF_UNSUPPORTED, hf_lock_new(scene->one, "chunk:data/x", NULL, &none, &scene->error));
    staged.staged = true;
    IS(HF_UNSUPPORTED, hf_key_new(scene->one, "x", &staged, &key, &scene->error));
    IS(HF_UNSUPPORTED, hf_store_open(scene->url, NULL, &store, &scene->error));
    OK(hf_lock_acquire(lock, 0, &scene->error));
    IS(HF_UNSUPPORTED, hf_fenced_put(lock, "k", "x", 1, &scene->error));
    assert_non_null(strstr(scene->error.why, "bucket itself"));
    OK(hf_lock_release(lock, &scene->error));
    hf_lock_free(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE("a lock is held, renewed and released", a_lock_is_held_renewed_and_released),
        SCENE("a wait ends by a release, an interrupt or its time",
              a_wait_ends_by_a_release_an_interrupt_or_its_time),
        SCENE("a wait in steps is granted in its turn", a_wait_in_steps_is_granted_in_its_turn),
        SCENE("a wait in steps that is ended leaves nothing",
              a_wait_in_steps_that_is_ended_leaves_nothing),
        SCENE("a key is acquired in steps", a_key_is_acquired_in_steps),
        SCENE("several scopes are held, all or none", several_scopes_are_held_all_or_none),
        SCENE("work is done once per period", work_is_done_once_per_period),
        SCENE("a lease is passed on as text", a_lease_is_passed_on_as_text),
        SCENE("a lease is one word, whatever its scope is",
              a_lease_is_one_word_whatever_its_scope_is),
        SCENE("a lease that could not be printed is not granted",
              a_lease_that_cannot_be_printed_is_not_granted),
        SCENE("closing a client releases its leases", closing_a_client_releases_its_leases),
        SCENE("a wait that begins while its client is closed is cancelled",
              a_wait_that_begins_while_its_client_is_closed_is_cancelled),
        SCENE("a holder is told when its server is away, and when it is back",
              a_holder_is_told_when_its_server_is_away_and_when_it_is_back),
        SCENE("a key is changed under its lease, and read by all",
              a_key_is_changed_under_its_lease_and_read_by_all),
        SCENE("a transaction changes all its keys or none",
              a_transaction_changes_all_its_keys_or_none),
        SCENE("keys that are refused together leave nothing",
              keys_that_are_refused_together_leave_nothing),
        SCENE("a transaction is shared by its id", a_transaction_is_shared_by_its_id),
        SCENE("a commit without a reply is found out", a_commit_without_a_reply_is_found_out),
        SCENE("what needs the bucket itself says so", what_needs_the_bucket_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
