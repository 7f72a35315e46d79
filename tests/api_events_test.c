/* SPDX-License-Identifier: Apache-2.0 */
/* api_events_test.c [sqlite]: the promises of observe.h about events and counters. Uses
 * holdfast.h only, and sqlite3.h to keep a store busy. On sqlite the second client has its own
 * connection; in memory, where a store belongs to one client, it is the same client. */
#include "holdfast.h"

#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENTS_KEPT  8192
#define PATIENCE_S   20
#define EVENTS_QUEUE 4096 /* as the header says */

static bool on_disk;
static char *folder;

/* ---- A log --------------------------------------------------------------------------- */

struct entry {
    enum hf_event_kind kind;
    char scope[64], key[128], holder[64], txn[HF_TXN_ID_SIZE + 1];
    uint64_t token, count, dropped, bytes;
    enum hf_status status;
    enum hf_store_call request;
};

struct log {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct entry *entries;
    size_t count;
    bool shut; /* the callback waits */
    bool waits;
    void (*also)(void *argument, const struct hf_event *event);
    void *argument;
};

static void log_init(struct log *log)
{
    *log =
        (struct log){ .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    log->entries = calloc(EVENTS_KEPT, sizeof *log->entries);
    assert_non_null(log->entries);
}

static void note(void *argument, const struct hf_event *event)
{
    struct log *log = argument;
    if (log->also)
        log->also(log->argument, event);
    pthread_mutex_lock(&log->mutex);
    while (log->shut) {
        log->waits = true;
        pthread_cond_broadcast(&log->changed);
        pthread_cond_wait(&log->changed, &log->mutex);
    }
    if (log->count < EVENTS_KEPT && event->struct_size == sizeof *event) {
        struct entry *entry = &log->entries[log->count++];
        *entry = (struct entry){ .kind = event->kind,
                                 .token = event->token,
                                 .count = event->count,
                                 .dropped = event->dropped,
                                 .bytes = event->bytes_sent + event->bytes_received,
                                 .status = event->status,
                                 .request = event->request };
        snprintf(entry->scope, sizeof entry->scope, "%s", event->scope);
        snprintf(entry->key, sizeof entry->key, "%s", event->key);
        snprintf(entry->holder, sizeof entry->holder, "%s", event->holder);
        snprintf(entry->txn, sizeof entry->txn, "%s", event->txn);
    }
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->mutex);
}

static const struct entry *find_locked(const struct log *log, enum hf_event_kind kind,
                                       size_t from)
{
    for (size_t i = from; i < log->count; i++)
        if (log->entries[i].kind == kind)
            return &log->entries[i];
    return NULL;
}

/* Waits until an event of this kind was told. */
static struct entry await(struct log *log, enum hf_event_kind kind)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&log->mutex);
    const struct entry *found;
    int timed_out = 0;
    while (!(found = find_locked(log, kind, 0)) && timed_out == 0)
        timed_out = pthread_cond_timedwait(&log->changed, &log->mutex, &end);
    struct entry entry = found ? *found : (struct entry){ 0 };
    pthread_mutex_unlock(&log->mutex);
    if (!found)
        fail_msg("%s was not told", hf_event_name(kind));
    return entry;
}

static size_t count_of(struct log *log, enum hf_event_kind kind)
{
    size_t count = 0;
    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < log->count; i++)
        count += log->entries[i].kind == kind;
    pthread_mutex_unlock(&log->mutex);
    return count;
}

/* ---- A scene ------------------------------------------------------------------------- */

struct scene {
    char url[256];
    struct log log;
    struct hf_client *one, *two;
    struct hf_error error;
};

static int raise_scene(void **state)
{
    static int number;
    struct scene *scene = calloc(1, sizeof *scene);
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    assert_non_null(scene);
    log_init(&scene->log);
    if (on_disk)
        snprintf(scene->url, sizeof scene->url, "sqlite:%s/events-%d.db", (char *)*state,
                 number++);
    else
        snprintf(scene->url, sizeof scene->url, "mem:");
    options.holder = "one";
    options.event = note;
    options.event_argument = &scene->log;
    assert_status(HF_OK, hf_client_open(scene->url, &options, &scene->one, &scene->error),
                  &scene->error);
    scene->two = scene->one;
    if (on_disk) {
        options.holder = "two";
        options.event = NULL;
        assert_status(HF_OK, hf_client_open(scene->url, &options, &scene->two, &scene->error),
                      &scene->error);
    }
    *state = scene;
    return 0;
}

/* After this all has been told. */
static void close_clients(struct scene *scene)
{
    if (scene->two != scene->one)
        hf_client_close(scene->two);
    hf_client_close(scene->one);
    scene->one = scene->two = NULL;
}

static void fall(struct scene *scene)
{
    close_clients(scene);
    free(scene->log.entries);
    free(scene);
}

static struct hf_lock *lock_of(struct scene *scene, struct hf_client *client, const char *scope,
                               int64_t ttl_ms, bool renewed)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    options.ttl_ms = ttl_ms;
    options.no_renewal = !renewed;
    assert_status(HF_OK, hf_lock_new(client, scope, &options, &lock, &scene->error),
                  &scene->error);
    return lock;
}

static struct hf_stats stats_of(struct scene *scene, struct hf_client *client)
{
    struct hf_stats stats = HF_STATS;
    assert_status(HF_OK, hf_client_stats(client, &stats, &scene->error), &scene->error);
    return stats;
}

/* ---- Stories ------------------------------------------------------------------------- */

static void granted_renewed_and_released_are_told_in_order(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 30000, true);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    uint64_t token = hf_lock_token(lock);
    assert_status(HF_OK, hf_lock_renew(lock, &scene->error), &scene->error);
    assert_status(HF_OK, hf_lock_release(lock, &scene->error), &scene->error);
    hf_lock_free(lock);
    struct hf_stats stats = stats_of(scene, scene->one);
    close_clients(scene);
    struct entry *entries = scene->log.entries;
    static const enum hf_event_kind expected[] = { HF_EVENT_GRANTED, HF_EVENT_RENEWED,
                                                   HF_EVENT_RELEASED };
    size_t seen = 0;
    for (size_t i = 0; i < scene->log.count; i++) {
        if (entries[i].kind == HF_EVENT_REQUEST)
            continue;
        assert_true(seen < 3);
        assert_int_equal(entries[i].kind, expected[seen++]);
        assert_string_equal(entries[i].scope, "named:deploy");
        assert_string_equal(entries[i].key, "default/meta/deploy.json");
        assert_int_equal(entries[i].token, token);
        assert_int_equal(entries[i].status, HF_OK);
    }
    assert_int_equal(seen, 3);
    assert_int_equal(stats.granted, 1);
    assert_int_equal(stats.renewed, 1);
    assert_int_equal(stats.released, 1);
    assert_int_equal(stats.lost, 0);
    fall(scene);
}

static void a_lease_is_renewed_in_the_background_and_each_renewal_is_told(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 1500, true);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    struct entry renewed = await(&scene->log, HF_EVENT_RENEWED);
    assert_int_equal(renewed.token, hf_lock_token(lock));
    assert_true(stats_of(scene, scene->one).renewed >= 1);
    hf_lock_free(lock);
    assert_int_equal(await(&scene->log, HF_EVENT_RELEASED).token, renewed.token);
    fall(scene);
}

static void events_that_are_not_chosen_are_counted_but_not_told(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 30000, false);
    assert_status(HF_INVALID,
                  hf_client_choose_events(scene->one, HF_EVENT_BIT(HF_EVENT_COUNT),
                                          &scene->error),
                  &scene->error);
    assert_status(HF_OK,
                  hf_client_choose_events(scene->one, HF_EVENT_BIT(HF_EVENT_RELEASED),
                                          &scene->error),
                  &scene->error);
    size_t requests = count_of(&scene->log, HF_EVENT_REQUEST);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    assert_status(HF_OK, hf_lock_release(lock, &scene->error), &scene->error);
    assert_string_equal(await(&scene->log, HF_EVENT_RELEASED).scope, "named:deploy");
    assert_status(HF_OK, hf_client_choose_events(scene->one, 0, &scene->error), &scene->error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    assert_status(HF_OK, hf_lock_release(lock, &scene->error), &scene->error);
    hf_lock_free(lock);
    struct hf_stats stats = stats_of(scene, scene->one);
    assert_true(stats.granted == 2 && stats.released == 2 && stats.events_dropped == 0);
    close_clients(scene);
    assert_int_equal(count_of(&scene->log, HF_EVENT_GRANTED), 0);
    assert_int_equal(count_of(&scene->log, HF_EVENT_RELEASED), 1);
    assert_int_equal(count_of(&scene->log, HF_EVENT_REQUEST), requests);
    fall(scene);
}

static void whose_lease_is_taken_over_is_told(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *dead = lock_of(scene, scene->two, "deploy", 200, false);
    assert_status(HF_OK, hf_lock_acquire(dead, 0, &scene->error), &scene->error);
    uint64_t token = hf_lock_token(dead);
    hf_lock_detach(dead);
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 30000, true);
    assert_status(HF_OK, hf_lock_acquire(lock, 20000, &scene->error), &scene->error);
    struct entry taken = await(&scene->log, HF_EVENT_TAKEN_OVER);
    assert_string_equal(taken.holder, on_disk ? "two" : "one");
    assert_int_equal(taken.token, token);
    assert_int_equal(taken.count, 1);
    assert_string_equal(taken.key, "default/meta/deploy.json");
    assert_true(stats_of(scene, scene->one).taken_over == 1);
    hf_lock_free(lock);
    fall(scene);
}

static void a_lease_that_was_broken_is_lost(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_TEXT_MAX];
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 1500, true);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    assert_status(HF_OK, hf_lock_text(lock, lease, &scene->error), &scene->error);
    assert_status(HF_OK, hf_break(scene->two, lease, "a person", "a reason", &scene->error),
                  &scene->error);
    struct entry lost = await(&scene->log, HF_EVENT_LOST);
    assert_int_equal(lost.token, hf_lock_token(lock));
    assert_int_equal(lost.status, HF_LOST);
    assert_status(HF_LOST, hf_lock_check(lock, &scene->error), &scene->error);
    assert_int_equal(stats_of(scene, scene->one).lost, 1);
    hf_lock_free(lock);
    close_clients(scene);
    assert_int_equal(count_of(&scene->log, HF_EVENT_LOST), 1);
    assert_int_equal(count_of(&scene->log, HF_EVENT_RELEASED), 0);
    fall(scene);
}

static void a_lease_that_nobody_renews_is_told_to_be_lost_when_it_expires(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 100, false);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    assert_int_equal(await(&scene->log, HF_EVENT_LOST).status, HF_EXPIRED);
    assert_int_equal(count_of(&scene->log, HF_EVENT_DANGER), 0);
    hf_lock_free(lock);
    fall(scene);
}

/* ---- A store that does not answer ---------------------------------------------------- */

/* As another program would that writes for a long time. */
static sqlite3 *block_store(struct scene *scene)
{
    sqlite3 *other;
    assert_int_equal(sqlite3_open(scene->url + strlen("sqlite:"), &other), SQLITE_OK);
    sqlite3_busy_timeout(other, PATIENCE_S * 1000);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return other;
}

static void danger_is_told_when_renewing_fails_and_safe_when_it_works_again(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 6000, true);
    if (!on_disk) { /* nothing keeps a store in memory from answering */
        hf_lock_free(lock);
        fall(scene);
        return;
    }
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    sqlite3 *other = block_store(scene);
    struct entry danger = await(&scene->log, HF_EVENT_DANGER);
    assert_string_equal(danger.scope, "named:deploy");
    assert_string_equal(danger.key, "default/meta/deploy.json");
    assert_int_equal(danger.token, hf_lock_token(lock));
    assert_int_equal(count_of(&scene->log, HF_EVENT_SAFE), 0);
    assert_status(HF_OK, hf_lock_check(lock, &scene->error), &scene->error);
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_int_equal(await(&scene->log, HF_EVENT_SAFE).token, danger.token);
    assert_status(HF_OK, hf_lock_check(lock, &scene->error), &scene->error);
    hf_lock_free(lock);
    close_clients(scene);
    assert_int_equal(count_of(&scene->log, HF_EVENT_DANGER), 1);
    assert_int_equal(count_of(&scene->log, HF_EVENT_SAFE), 1);
    assert_int_equal(count_of(&scene->log, HF_EVENT_LOST), 0);
    fall(scene);
}

/* Lets the shortest time pass that a lease can have, by one of another store. */
static void let_a_lease_expire(struct scene *scene)
{
    struct hf_client *client;
    assert_status(HF_OK, hf_client_open("mem:", NULL, &client, &scene->error), &scene->error);
    struct hf_lock *lock = lock_of(scene, client, "clock", HF_TTL_MS_MIN, false);
    enum hf_status status = hf_lock_acquire(lock, 0, &scene->error);
    if (status != HF_LOST) /* on a busy machine the time may have passed before the reply */
        assert_status(HF_OK, status, &scene->error);
    while (hf_lock_check(lock, NULL) == HF_OK)
        sched_yield();
    hf_lock_free(lock);
    hf_client_close(client);
}

static void what_a_sweep_clears_is_told_as_swept(void **state)
{
    struct scene *scene = *state;
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    struct hf_lock *dead = lock_of(scene, scene->two, "deploy", 1000, false);
    options.full = true;
    assert_status(HF_OK, hf_lock_acquire(dead, 0, &scene->error), &scene->error);
    uint64_t token = hf_lock_token(dead);
    hf_lock_detach(dead);
    for (int i = 0; i < PATIENCE_S * 10 && report.leases_cleared == 0; i++) {
        let_a_lease_expire(scene);
        assert_status(HF_OK, hf_sweep(scene->one, &options, &report, &scene->error),
                      &scene->error);
    }
    struct entry swept = await(&scene->log, HF_EVENT_SWEPT);
    assert_string_equal(swept.holder, on_disk ? "two" : "one");
    assert_string_equal(swept.key, "default/meta/deploy.json");
    assert_int_equal(swept.token, token);
    assert_int_equal(swept.count, 1);
    assert_int_equal(stats_of(scene, scene->one).swept, 1);
    assert_int_equal(stats_of(scene, scene->one).taken_over, 0);
    assert_int_equal(count_of(&scene->log, HF_EVENT_TAKEN_OVER), 0);
    fall(scene);
}

static void a_lease_that_is_adopted_is_told_as_renewed(void **state)
{
    struct scene *scene = *state;
    char lease[HF_LEASE_TEXT_MAX];
    struct hf_lock *lock = lock_of(scene, scene->two, "deploy", 30000, false), *adopted;
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    assert_status(HF_OK, hf_lock_text(lock, lease, &scene->error), &scene->error);
    hf_lock_detach(lock);
    assert_status(HF_OK, hf_lock_adopt(scene->one, lease, NULL, &adopted, &scene->error),
                  &scene->error);
    assert_string_equal(await(&scene->log, HF_EVENT_RENEWED).scope, "named:deploy");
    assert_status(HF_OK, hf_lock_complete(adopted, NULL, &scene->error), &scene->error);
    await(&scene->log, HF_EVENT_RELEASED);
    hf_lock_free(adopted);
    fall(scene);
}

static void transactions_are_told_when_they_are_decided(void **state)
{
    struct scene *scene = *state;
    struct hf_txn *txn;
    char id[HF_TXN_ID_SIZE + 1], other[HF_TXN_ID_SIZE + 1];
    assert_status(HF_OK, hf_txn_begin(scene->one, NULL, &txn, &scene->error), &scene->error);
    snprintf(id, sizeof id, "%s", hf_txn_id(txn));
    assert_status(HF_OK, hf_txn_commit(txn, NULL, &scene->error), &scene->error);
    assert_string_equal(await(&scene->log, HF_EVENT_COMMITTED).txn, id);
    hf_txn_free(txn);
    assert_status(HF_OK, hf_txn_open(scene->two, other, &scene->error), &scene->error);
    assert_status(HF_OK, hf_txn_decide(scene->one, other, HF_ROLLBACK, NULL, &scene->error),
                  &scene->error);
    struct entry back = await(&scene->log, HF_EVENT_ROLLED_BACK);
    assert_string_equal(back.txn, other);
    assert_non_null(strstr(back.key, other));
    struct hf_stats stats = stats_of(scene, scene->one);
    assert_int_equal(stats.committed, 1);
    assert_int_equal(stats.rolled_back, 1);
    close_clients(scene);
    assert_int_equal(count_of(&scene->log, HF_EVENT_COMMITTED), 1);
    assert_int_equal(count_of(&scene->log, HF_EVENT_ROLLED_BACK), 1);
    fall(scene);
}

/* On a store where a change is a read and a write. */
static void writes_that_others_came_before_are_told_as_conflicts(void **state)
{
    struct scene *scene = *state;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    char url[256];
    close_clients(scene);
    snprintf(url, sizeof url, "dir:%s/conflict", folder);
    options.event = note;
    options.event_argument = &scene->log;
    assert_status(HF_OK, hf_client_open(url, &options, &scene->one, &scene->error),
                  &scene->error);
    assert_status(HF_OK, hf_client_open(url, NULL, &scene->two, &scene->error), &scene->error);
    struct hf_lock *ours = lock_of(scene, scene->one, "deploy", 30000, true);
    struct hf_lock *theirs = lock_of(scene, scene->two, "deploy", 30000, true);
    struct hf_lock *locks[] = { ours, theirs, ours };
    for (size_t i = 0; i < 3; i++) {
        assert_status(HF_OK, hf_lock_acquire(locks[i], 0, &scene->error), &scene->error);
        assert_status(HF_OK, hf_lock_release(locks[i], &scene->error), &scene->error);
    }
    uint64_t conflicts = stats_of(scene, scene->one).conflicts;
    hf_lock_free(ours);
    hf_lock_free(theirs);
    close_clients(scene);
    uint64_t told = 0;
    for (size_t i = 0; i < scene->log.count; i++)
        if (scene->log.entries[i].kind == HF_EVENT_CONFLICT) {
            assert_string_equal(scene->log.entries[i].key, "default/meta/deploy.json");
            told += scene->log.entries[i].count;
        }
    assert_true(conflicts > 0);
    assert_int_equal(told, conflicts);
    fall(scene);
}

/* ---- Requests ------------------------------------------------------------------------ */

static void requests_are_told_and_counted(void **state)
{
    struct scene *scene = *state;
    void *data;
    size_t size;
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 30000, true);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    assert_status(HF_OK, hf_fenced_put(lock, "state.json", "12345", 5, &scene->error),
                  &scene->error);
    assert_status(
        HF_OK, hf_fenced_get(scene->one, "state.json", 100, &data, &size, NULL, &scene->error),
        &scene->error);
    hf_free(data);
    hf_lock_free(lock);
    struct hf_stats stats = stats_of(scene, scene->one);
    assert_true(stats.puts.calls >= 2 && stats.puts.bytes > 5);
    assert_true(stats.gets.calls >= 1 && stats.gets.bytes > 5);
    close_clients(scene);
    bool put = false, got = false;
    uint64_t puts = 0;
    for (size_t i = 0; i < scene->log.count; i++) {
        const struct entry *entry = &scene->log.entries[i];
        if (entry->kind != HF_EVENT_REQUEST)
            continue;
        puts += entry->request == HF_STORE_CALL_PUT;
        bool ours = strstr(entry->key, "state.json") && entry->status == HF_OK;
        put = put || (ours && entry->request == HF_STORE_CALL_PUT && entry->bytes >= 5);
        got = got || (ours && entry->request == HF_STORE_CALL_GET && entry->bytes >= 5);
    }
    assert_true(put && got);
    assert_true(puts >= stats.puts.calls);
    fall(scene);
}

static void a_request_that_fails_is_counted_as_such(void **state)
{
    struct scene *scene = *state;
    void *data;
    size_t size;
    assert_status(HF_NOT_FOUND,
                  hf_key_get(scene->one, "nothing", 100, &data, &size, NULL, &scene->error),
                  &scene->error);
    struct hf_stats stats = stats_of(scene, scene->one);
    assert_true(stats.gets.failed >= 1);
    assert_true(stats.gets.failed <= stats.gets.calls);
    fall(scene);
}

static void a_client_without_a_callback_counts_all_the_same(void **state)
{
    struct scene *scene = *state;
    struct hf_client *quiet;
    assert_status(HF_OK, hf_client_open("mem:", NULL, &quiet, &scene->error), &scene->error);
    struct hf_lock *lock = lock_of(scene, quiet, "deploy", 30000, true);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    struct hf_stats stats = stats_of(scene, quiet);
    assert_int_equal(stats.granted, 1);
    assert_true(stats.puts.calls >= 1);
    assert_int_equal(stats.events_dropped, 0);
    hf_lock_free(lock);
    hf_client_close(quiet);
    fall(scene);
}

/* ---- Without a lock of the library --------------------------------------------------- */

struct caller {
    struct hf_client *client;
    struct hf_lock *held, *waiting;
    pthread_mutex_t mutex;
    bool ready;
    unsigned calls;
};

static bool look_on(void *argument, const struct hf_lease_info *lease)
{
    (void)argument;
    (void)lease;
    return true;
}

/* Calls that take the locks of the client, of the keeper and of either handle. */
static void call_back(void *argument, const struct hf_event *event)
{
    struct caller *caller = argument;
    struct hf_stats stats = HF_STATS;
    pthread_mutex_lock(&caller->mutex);
    bool ready = caller->ready && event->kind != HF_EVENT_REQUEST;
    pthread_mutex_unlock(&caller->mutex);
    if (!ready)
        return;
    hf_client_stats(caller->client, &stats, NULL);
    hf_lock_check(caller->held, NULL);
    hf_lock_remaining_ms(caller->held);
    hf_lock_token(caller->waiting);
    hf_lock_blocked(caller->waiting, 0);
    hf_lock_trouble(caller->waiting, NULL);
    hf_locks_list(caller->client, "", NULL, look_on, NULL, NULL);
    if (event->kind == HF_EVENT_RENEWED && caller->calls++ == 0) {
        hf_lock_renew(caller->held, NULL);  /* and those that wait for the store */
        hf_lock_interrupt(caller->waiting); /* while another thread waits in it */
    }
}

static void no_lock_of_the_library_is_held_while_an_event_is_told(void **state)
{
    struct scene *scene = *state;
    struct caller caller = { .client = scene->one, .mutex = PTHREAD_MUTEX_INITIALIZER };
    scene->log.argument = &caller;
    scene->log.also = call_back;
    caller.held = lock_of(scene, scene->one, "deploy", 1500, true);
    caller.waiting = lock_of(scene, scene->one, "deploy", 1500, true);
    pthread_mutex_lock(&caller.mutex);
    caller.ready = true;
    pthread_mutex_unlock(&caller.mutex);
    assert_status(HF_OK, hf_lock_acquire(caller.held, 0, &scene->error), &scene->error);
    enum hf_status status;
    do /* it may be interrupted before it waits */
        status = hf_lock_acquire(caller.waiting, 3000, &scene->error);
    while (status == HF_TIMEOUT && caller.calls == 0);
    assert_int_equal(status, HF_CANCELLED);
    assert_status(HF_OK, hf_lock_release(caller.held, &scene->error), &scene->error);
    await(&scene->log, HF_EVENT_RELEASED);
    close_clients(scene);
    hf_lock_free(caller.held);
    hf_lock_free(caller.waiting);
    fall(scene);
}

static void what_a_slow_callback_misses_is_counted(void **state)
{
    struct scene *scene = *state;
    struct log *log = &scene->log;
    void *data;
    size_t size;
    log->shut = true;
    for (int i = 0; i < EVENTS_QUEUE + 100; i++)
        hf_key_get(scene->one, "nothing", 100, &data, &size, NULL, NULL);
    uint64_t dropped = stats_of(scene, scene->one).events_dropped;
    assert_true(dropped > 0);
    pthread_mutex_lock(&log->mutex);
    log->shut = false;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->mutex);
    struct hf_lock *lock = lock_of(scene, scene->one, "deploy", 30000, true);
    uint64_t told = 0;
    for (int tries = 0; tries < 1000 && told == 0; tries++) { /* until there is room again */
        assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
        assert_status(HF_OK, hf_lock_release(lock, &scene->error), &scene->error);
        pthread_mutex_lock(&log->mutex);
        for (size_t i = 0; i < log->count; i++)
            told += log->entries[i].dropped;
        pthread_mutex_unlock(&log->mutex);
    }
    assert_true(told >= dropped);
    hf_lock_free(lock);
    fall(scene);
}

/* ---- Rows ---------------------------------------------------------------------------- */

static void every_kind_of_event_has_a_name(void **state)
{
    (void)state;
    for (int kind = 0; kind < HF_EVENT_COUNT; kind++)
        assert_true(strlen(hf_event_name((enum hf_event_kind)kind)) > 3);
    assert_string_equal(hf_event_name(HF_EVENT_TAKEN_OVER), "taken_over");
    assert_string_equal(hf_event_name((enum hf_event_kind)99), "unknown");
}

static int begin(void **state)
{
    *state = folder;
    return raise_scene(state);
}

#define STORY(name) cmocka_unit_test_setup(name, begin)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        STORY(events_that_are_not_chosen_are_counted_but_not_told),
        STORY(granted_renewed_and_released_are_told_in_order),
        STORY(a_lease_is_renewed_in_the_background_and_each_renewal_is_told),
        STORY(whose_lease_is_taken_over_is_told),
        STORY(a_lease_that_was_broken_is_lost),
        STORY(a_lease_that_nobody_renews_is_told_to_be_lost_when_it_expires),
        STORY(danger_is_told_when_renewing_fails_and_safe_when_it_works_again),
        STORY(what_a_sweep_clears_is_told_as_swept),
        STORY(a_lease_that_is_adopted_is_told_as_renewed),
        STORY(transactions_are_told_when_they_are_decided),
        STORY(writes_that_others_came_before_are_told_as_conflicts),
        STORY(requests_are_told_and_counted),
        STORY(a_request_that_fails_is_counted_as_such),
        STORY(a_client_without_a_callback_counts_all_the_same),
        STORY(no_lock_of_the_library_is_held_while_an_event_is_told),
        STORY(what_a_slow_callback_misses_is_counted),
        cmocka_unit_test(every_kind_of_event_has_a_name),
    };
    on_disk = argc > 1 && strcmp(argv[1], "sqlite") == 0;
    folder = test_dir_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_dir_remove(folder);
    return failed;
}
