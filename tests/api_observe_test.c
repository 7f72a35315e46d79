/* SPDX-License-Identifier: Apache-2.0 */
/* api_observe_test.c [sqlite]: the promises of observe.h about listing leases, and about the
 * lease that blocks a lock. Uses holdfast.h only. Keys and transactions are in api_key_test.c. */
#include "api_client_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHOWN_MAX 32

/* ---- What is shown ------------------------------------------------------------------- */

struct shown {
    char scope[64], holder[64], table[64];
    enum hf_lease_state state;
    enum hf_relation relation;
    enum hf_change change;
    size_t place, scope_count, waiters;
    uint64_t token;
    int64_t held_ms, remaining_ms, takeover_ms;
    char lease[HF_LEASE_TEXT_MAX];
};

struct view_of_all {
    struct shown shown[SHOWN_MAX];
    size_t count, stop_after; /* 0: never */
    size_t damaged, asked, refuse_at;
    char damaged_key[128];
};

static void keep(struct view_of_all *all, const struct hf_lease_info *lease)
{
    struct shown *one = &all->shown[all->count++];
    assert_true(all->count <= SHOWN_MAX);
    assert_int_equal(lease->struct_size, sizeof *lease);
    *one = (struct shown){ .state = lease->state,
                           .relation = lease->relation,
                           .place = lease->place,
                           .scope_count = lease->scope_count,
                           .waiters = lease->waiters,
                           .token = lease->token,
                           .held_ms = lease->held_ms,
                           .remaining_ms = lease->remaining_ms,
                           .takeover_ms = lease->takeover_ms };
    snprintf(one->scope, sizeof one->scope, "%s",
             lease->scope_count > 0 ? lease->scopes[0] : "");
    snprintf(one->holder, sizeof one->holder, "%s", lease->holder);
    snprintf(one->table, sizeof one->table, "%s", lease->table);
    snprintf(one->lease, sizeof one->lease, "%s", lease->lease);
}

static bool keep_lease(void *argument, const struct hf_lease_info *lease)
{
    struct view_of_all *all = argument;
    keep(all, lease);
    return all->count != all->stop_after;
}

static bool keep_change(void *argument, enum hf_change change,
                        const struct hf_lease_info *lease)
{
    struct view_of_all *all = argument;
    keep(all, lease);
    all->shown[all->count - 1].change = change;
    return all->count != all->stop_after;
}

static void keep_damaged(void *argument, const char *key, const struct hf_error *why)
{
    struct view_of_all *all = argument;
    assert_int_equal(why->status, HF_CORRUPT);
    snprintf(all->damaged_key, sizeof all->damaged_key, "%s", key);
    all->damaged++;
}

static bool proceed(void *argument)
{
    struct view_of_all *all = argument;
    return ++all->asked != all->refuse_at;
}

static void list(struct place *place, const char *start, struct hf_list_options options,
                 struct view_of_all *all)
{
    *all = (struct view_of_all){ .stop_after = all->stop_after };
    OK(hf_locks_list(place->client, start, &options, keep_lease, all, &place->error));
}

/* ---- Lists --------------------------------------------------------------------------- */

static void a_list_shows_who_holds_what_and_for_how_long(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_lock *lock = place_held(place, "deploy");
    struct hf_lock *in_line = place_waiting(place, "deploy");
    list(place, "", HF_LIST_OPTIONS, &all);
    assert_int_equal(all.count, 1);
    const struct shown *one = &all.shown[0];
    char lease[HF_LEASE_TEXT_MAX];
    assert_string_equal(one->scope, "named:deploy");
    assert_string_equal(one->holder, "ada");
    assert_string_equal(one->table, "default/meta/deploy.json");
    assert_int_equal(one->state, HF_LEASE_ACTIVE);
    assert_int_equal(one->token, hf_lock_token(lock));
    assert_int_equal(one->waiters, 1);
    assert_in_range(one->remaining_ms, 1, 30000);
    assert_true(one->held_ms >= 0 && one->takeover_ms >= one->remaining_ms);
    OK(hf_lock_text(lock, lease, &place->error));
    assert_string_equal(one->lease, lease);
    hf_lock_free(in_line);
    hf_lock_free(lock);
}

static void those_who_wait_and_those_that_ended_are_shown_when_asked_for(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_lock *done = place_held(place, "deploy");
    OK(hf_lock_complete(done, NULL, &place->error));
    struct hf_lock *lock = place_held(place, "deploy"), *first = place_waiting(place, "deploy");
    struct hf_lock *second = place_waiting(place, "deploy");
    options.waiting = true;
    list(place, "", options, &all);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.shown[1].state, HF_LEASE_WAITING);
    assert_int_equal(all.shown[1].place, 1);
    assert_int_equal(all.shown[2].place, 2);
    assert_string_equal(all.shown[2].lease, "");
    options.waiting = false;
    options.ended = true;
    list(place, "", options, &all);
    assert_int_equal(all.count, 2);
    assert_int_equal(all.shown[0].state, HF_LEASE_COMPLETED);
    assert_string_equal(all.shown[0].lease, "");
    hf_lock_free(second);
    hf_lock_free(first);
    hf_lock_free(lock);
    hf_lock_free(done);
}

static void a_list_has_what_starts_with_what_was_named(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_lock *locks[] = { place_held(place, "jobs/a"), place_held(place, "jobs/b"),
                                place_held(place, "path:/srv/x") };
    list(place, "jobs/", HF_LIST_OPTIONS, &all);
    assert_int_equal(all.count, 2);
    list(place, "named:jobs/b", HF_LIST_OPTIONS, &all);
    assert_int_equal(all.count, 1);
    list(place, "path:/srv", HF_LIST_OPTIONS, &all);
    assert_int_equal(all.count, 1);
    assert_string_equal(all.shown[0].scope, "path:/srv/x");
    IS(HF_INVALID,
       hf_locks_list(place->client, "nonsense:x", NULL, keep_lease, &all, &place->error));
    for (size_t i = 0; i < 3; i++)
        hf_lock_free(locks[i]);
}

static void a_list_ends_when_the_caller_has_enough(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { .stop_after = 1 };
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_lock *locks[] = { place_held(place, "a"), place_held(place, "b"),
                                place_held(place, "c") };
    list(place, "", HF_LIST_OPTIONS, &all);
    assert_int_equal(all.count, 1);
    options.proceed = proceed;
    all = (struct view_of_all){ .refuse_at = 2 };
    IS(HF_CANCELLED,
       hf_locks_list(place->client, "", &options, keep_lease, &all, &place->error));
    assert_int_equal(all.count, 1);
    for (size_t i = 0; i < 3; i++)
        hf_lock_free(locks[i]);
}

static void use_folder(struct place *place)
{
    char url[256];
    hf_client_close(place->client);
    snprintf(url, sizeof url, "dir:%s/damaged", place->folder);
    OK(hf_client_open(url, NULL, &place->client, &place->error));
}

/* By writing into the folder of a store. */
static void damage_table(struct place *place, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/damaged/default/meta/%s.json", place->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("nonsense", file);
    fclose(file);
}

static void what_is_damaged_is_told_and_the_rest_is_listed(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_list_options options = HF_LIST_OPTIONS;
    use_folder(place);
    struct hf_lock *lock = place_held(place, "b");
    damage_table(place, "a");
    IS(HF_CORRUPT, hf_locks_list(place->client, "", NULL, keep_lease, &all, &place->error));
    assert_non_null(strstr(place->error.why, "default/meta/a.json"));
    options.damaged = keep_damaged;
    list(place, "", options, &all);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.damaged, 1);
    assert_string_equal(all.damaged_key, "default/meta/a.json");
    IS(HF_CORRUPT, hf_locks_show(place->client, "a", NULL, NULL, NULL, NULL, &place->error));
    hf_lock_free(lock);
}

static void a_lease_whose_holder_is_gone_is_over_when_that_is_proven(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_lock *lock = place_lock(place, "deploy", 100);
    OK(hf_lock_acquire(lock, 0, &place->error));
    hf_lock_detach(lock);
    do {
        list(place, "", HF_LIST_OPTIONS, &all);
        assert_int_equal(all.count, 1);
    } while (all.shown[0].state == HF_LEASE_ACTIVE || all.shown[0].state == HF_LEASE_OVERDUE);
    assert_int_equal(all.shown[0].state, HF_LEASE_OVER);
    assert_int_equal(all.shown[0].takeover_ms, 0);
    assert_true(all.shown[0].remaining_ms <= 0);
}

/* ---- One scope ----------------------------------------------------------------------- */

struct audit {
    char last[512];
    size_t count;
};

static bool keep_audit(void *argument, const char *json)
{
    struct audit *audit = argument;
    snprintf(audit->last, sizeof audit->last, "%s", json);
    audit->count++;
    return true;
}

static void a_scope_is_shown_with_all_that_is_in_its_way(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_table_info table = HF_TABLE_INFO;
    struct hf_lock *tree = place_held(place, "tree:/a"), *other = place_held(place, "path:/z");
    struct hf_lock *in_line = place_waiting(place, "path:/a/b");
    OK(hf_locks_show(place->client, "path:/a/b", &table, keep_lease, NULL, &all,
                     &place->error));
    assert_false(table.absent);
    assert_string_equal(table.scope, "path:/a/b");
    assert_true(table.next_token > hf_lock_token(other));
    assert_true(table.ttl_max_ms == 3600000 && table.margin_ms > 0);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.shown[0].relation, HF_RELATION_IN_WAY);
    assert_int_equal(all.shown[1].relation, HF_RELATION_NONE);
    assert_int_equal(all.shown[2].relation, HF_RELATION_OF_SCOPE);
    hf_lock_free(in_line);
    hf_lock_free(other);
    hf_lock_free(tree);
}

static void a_scope_that_nobody_ever_locked_is_absent(void **state)
{
    struct place *place = *state;
    struct hf_table_info table = HF_TABLE_INFO;
    OK(hf_locks_show(place->client, "x", &table, NULL, NULL, NULL, &place->error));
    assert_true(table.absent);
    assert_string_equal(table.table, "default/meta/x.json");
    IS(HF_INVALID,
       hf_locks_show(place->client, "no such scope", &table, NULL, NULL, NULL, &place->error));
    table.struct_size = 0;
    IS(HF_INVALID, hf_locks_show(place->client, "x", &table, NULL, NULL, NULL, &place->error));
}

static void what_people_did_is_on_record(void **state)
{
    struct place *place = *state;
    struct audit audit = { .count = 0 };
    char lease[HF_LEASE_TEXT_MAX];
    struct hf_lock *lock = place_held(place, "deploy");
    OK(hf_lock_text(lock, lease, &place->error));
    OK(hf_break(place->client, lease, "eve", "stuck", &place->error));
    OK(hf_locks_show(place->client, "deploy", NULL, NULL, keep_audit, &audit, &place->error));
    assert_int_equal(audit.count, 1);
    assert_non_null(strstr(audit.last, "\"eve\""));
    assert_non_null(strstr(audit.last, "\"stuck\""));
    hf_lock_free(lock);
}

/* ---- Watching ------------------------------------------------------------------------ */

static void look(struct place *place, struct hf_watch *watch, struct view_of_all *all)
{
    *all = (struct view_of_all){ .stop_after = all->stop_after };
    OK(hf_watch_look(watch, keep_change, all, &place->error));
}

static void a_watch_tells_what_changed_between_two_looks(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_watch *watch;
    struct hf_lock *lock = place_held(place, "deploy");
    OK(hf_watch_new(place->client, "", NULL, &watch, &place->error));
    look(place, watch, &all);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.shown[0].change, HF_CHANGE_GRANTED);
    struct hf_lock *in_line = place_waiting(place, "deploy"),
                   *third = place_waiting(place, "deploy");
    look(place, watch, &all);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.shown[0].change, HF_CHANGE_NONE);
    assert_int_equal(all.shown[1].change, HF_CHANGE_WAITING);
    OK(hf_lock_release(lock, &place->error));
    while (hf_lock_poll(in_line, &place->error) == HF_HELD)
        continue;
    OK(hf_lock_cancel(third, &place->error));
    look(place, watch, &all);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.shown[0].change, HF_CHANGE_GRANTED);
    bool ended = false, left = false;
    for (size_t i = 1; i < 3; i++) {
        ended = ended || all.shown[i].change == HF_CHANGE_ENDED;
        left = left || all.shown[i].change == HF_CHANGE_LEFT;
        assert_string_equal(all.shown[i].scope, "named:deploy");
    }
    assert_true(ended && left);
    look(place, watch, &all);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.shown[0].change, HF_CHANGE_NONE);
    hf_watch_free(watch);
    hf_lock_free(third);
    hf_lock_free(in_line);
    hf_lock_free(lock);
}

/* The changes of a lease until it is over, and the longest time from one look to the next. */
struct course {
    enum hf_change seen[3];
    size_t count;
    int64_t slowest_us;
};

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static struct course watch_until_over(struct place *place, int64_t ttl_ms)
{
    struct course course = { .count = 0 };
    struct view_of_all all = { 0 };
    struct hf_watch *watch;
    struct hf_lock *lock = place_lock(place, "deploy", ttl_ms);
    OK(hf_lock_acquire(lock, 0, &place->error));
    hf_lock_detach(lock);
    OK(hf_watch_new(place->client, "", NULL, &watch, &place->error));
    int64_t before = now_us(), now;
    do {
        look(place, watch, &all);
        now = now_us();
        course.slowest_us = now - before > course.slowest_us ? now - before : course.slowest_us;
        before = now;
        assert_int_equal(all.count, 1);
        if (all.shown[0].change == HF_CHANGE_NONE)
            continue;
        assert_true(course.count < 3);
        course.seen[course.count++] = all.shown[0].change;
    } while (all.shown[0].state != HF_LEASE_OVER);
    hf_watch_free(watch);
    return course;
}

/* Only by watching, so that no clock proves it at once. A machine that is too slow to look while
 * the lease is overdue gets a longer one. */
static void a_watch_tells_when_a_lease_is_overdue_and_then_over(void **state)
{
    struct place *place = *state;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.takeover_observed = true;
    hf_client_close(place->client);
    OK(hf_client_open(place->url, &options, &place->client, &place->error));
    int64_t ttl_ms = 100;
    struct course course = watch_until_over(place, ttl_ms);
    for (; course.slowest_us > ttl_ms * 100 && ttl_ms < 3000;
         course = watch_until_over(place, ttl_ms))
        ttl_ms *= 3;
    assert_int_equal(course.count, 3);
    assert_int_equal(course.seen[0], HF_CHANGE_GRANTED);
    assert_int_equal(course.seen[1], HF_CHANGE_OVERDUE);
    assert_int_equal(course.seen[2], HF_CHANGE_OVER);
}

static void a_look_that_was_stopped_takes_nothing_for_gone(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_watch *watch;
    struct hf_lock *a = place_held(place, "a"), *b = place_held(place, "b");
    OK(hf_watch_new(place->client, "", NULL, &watch, &place->error));
    all.stop_after = 1;
    look(place, watch, &all);
    assert_int_equal(all.count, 1);
    all.stop_after = 0;
    look(place, watch, &all);
    assert_int_equal(all.count, 2);
    assert_int_equal(all.shown[0].change, HF_CHANGE_NONE);
    assert_int_equal(all.shown[1].change, HF_CHANGE_GRANTED);
    hf_watch_free(watch);
    hf_lock_free(b);
    hf_lock_free(a);
}

static void a_look_at_a_table_that_cannot_be_read_takes_nothing_for_gone(void **state)
{
    struct place *place = *state;
    struct view_of_all all = { 0 };
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_watch *watch, *silent;
    use_folder(place);
    struct hf_lock *a = place_held(place, "a"), *b = place_held(place, "b");
    options.damaged = keep_damaged;
    OK(hf_watch_new(place->client, "", &options, &watch, &place->error));
    OK(hf_watch_new(place->client, "", NULL, &silent, &place->error));
    look(place, watch, &all);
    look(place, silent, &all);
    assert_int_equal(all.count, 2);
    struct hf_lock *waiter = place_waiting(place, "a");
    look(place, silent, &all);
    damage_table(place, "a");
    OK(hf_lock_release(b, &place->error));
    look(place, silent, &all);
    assert_int_equal(all.count, 1);
    assert_string_equal(all.shown[0].scope, "named:b");
    for (int i = 0; i < 2; i++) {
        look(place, watch, &all);
        assert_int_equal(all.count, i == 0 ? 1 : 0);
        assert_int_equal(all.damaged, 1);
    }
    assert_string_equal(all.damaged_key, "default/meta/a.json");
    hf_watch_free(silent);
    hf_watch_free(watch);
    hf_lock_free(waiter);
    hf_lock_free(b);
    hf_lock_free(a);
}

/* ---- Who is in the way --------------------------------------------------------------- */

static void held_says_by_whom_on_which_scope_and_for_how_long(void **state)
{
    struct place *place = *state;
    struct hf_blocker blocker = HF_BLOCKER;
    struct hf_lock *lock = place_held(place, "path:/b"), *wanted;
    const char *scopes[] = { "path:/a", "path:/b" };
    OK(hf_lock_new_many(place->client, scopes, 2, NULL, &wanted, &place->error));
    IS(HF_HELD, hf_lock_acquire(wanted, 0, &place->error));
    OK(hf_lock_blocker(wanted, &blocker, &place->error));
    assert_string_equal(blocker.scope, "path:/b");
    assert_string_equal(blocker.holder, "ada");
    assert_int_equal(blocker.state, HF_LEASE_ACTIVE);
    assert_int_equal(blocker.token, hf_lock_token(lock));
    assert_int_equal(blocker.scopes_blocked, 1);
    assert_in_range(blocker.remaining_ms, 1, 30000);
    assert_true(blocker.retry_ms >= blocker.remaining_ms && blocker.held_ms >= 0);
    IS(HF_TIMEOUT, hf_lock_acquire(wanted, 10, &place->error));
    OK(hf_lock_blocker(wanted, &blocker, &place->error));
    OK(hf_lock_release(lock, &place->error));
    IS(HF_NOT_FOUND, hf_lock_blocker(wanted, &blocker, &place->error));
    hf_lock_free(wanted);
    hf_lock_free(lock);
}

static bool count_blockers(void *argument, const char *scope, const struct hf_lease_info *lease)
{
    size_t *count = argument;
    assert_string_equal(scope, lease->scopes[0]);
    ++*count;
    return true;
}

static void every_scope_that_is_leased_has_its_blocker(void **state)
{
    struct place *place = *state;
    size_t count = 0;
    struct hf_lock *a = place_held(place, "path:/a"), *b = place_held(place, "path:/b"),
                   *wanted;
    const char *scopes[] = { "path:/a", "path:/b", "path:/c" };
    OK(hf_lock_new_many(place->client, scopes, 3, NULL, &wanted, &place->error));
    OK(hf_lock_blockers(wanted, count_blockers, &count, &place->error));
    assert_int_equal(count, 2);
    hf_lock_free(wanted);
    hf_lock_free(b);
    hf_lock_free(a);
}

static void already_says_who_did_it_and_when_it_may_be_done_again(void **state)
{
    struct place *place = *state;
    struct hf_blocker blocker = HF_BLOCKER;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    options.once_per_ms = 60000;
    OK(hf_lock_new(place->client, "nightly", &options, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    OK(hf_lock_complete(lock, NULL, &place->error));
    IS(HF_ALREADY, hf_lock_acquire(lock, 0, &place->error));
    OK(hf_lock_blocker(lock, &blocker, &place->error));
    assert_int_equal(blocker.state, HF_LEASE_COMPLETED);
    assert_string_equal(blocker.holder, "ada");
    assert_in_range(blocker.retry_ms, 1, 60000);
    hf_lock_free(lock);
}

/* ---- Handles ------------------------------------------------------------------------- */

static void a_lease_as_text_says_what_it_is_of(void **state)
{
    struct place *place = *state;
    struct hf_lease_name name = HF_LEASE_NAME;
    char lease[HF_LEASE_TEXT_MAX], scope[HF_SCOPE_TEXT_MAX];
    struct hf_lock *lock = place_held(place, "a/b");
    OK(hf_lock_text(lock, lease, &place->error));
    OK(hf_lease_parse(lease, &name, &place->error));
    assert_int_equal(name.token, hf_lock_token(lock));
    assert_string_equal(name.ns, "default");
    assert_string_equal(name.key, "a/b");
    assert_string_equal(name.table, "default/meta/a/b.json");
    IS(HF_INVALID, hf_lease_parse("deploy", &name, &place->error));
    assert_int_equal(hf_lock_ttl_ms(lock), 30000);
    OK(hf_lock_scope(lock, 0, scope, &place->error));
    assert_string_equal(scope, "named:a/b");
    IS(HF_NOT_FOUND, hf_lock_scope(lock, 1, scope, &place->error));
    OK(hf_lock_trouble(lock, &place->error));
    hf_lock_free(lock);
}

struct waiter {
    struct hf_lock *lock;
    struct hf_txn *txn;
    struct hf_error error;
};

static void *wait_for_lock(void *argument)
{
    struct waiter *waiter = argument;
    const char *names[] = { "deploy" };
    struct hf_key *key;
    if (waiter->lock)
        hf_lock_acquire(waiter->lock, 20000, &waiter->error);
    else
        hf_txn_acquire(waiter->txn, names, 1, NULL, 20000, &key, &waiter->error);
    return NULL;
}

/* Asked again and again, since the wait may not have begun. */
static void interrupt_all(struct place *place, struct waiter *waiter)
{
    struct view_of_all all = { 0 };
    struct hf_list_options options = HF_LIST_OPTIONS;
    pthread_t thread;
    options.waiting = true;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, waiter), 0);
    do
        list(place, "", options, &all);
    while (all.count < 2);
    do {
        hf_lock_interrupt(waiter->lock);
        hf_txn_interrupt(waiter->txn);
        list(place, "", options, &all);
    } while (all.count > 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiter->error.status, HF_CANCELLED);
}

static void a_wait_is_interrupted_from_another_thread(void **state)
{
    struct place *place = *state;
    struct waiter waiter = { .lock = place_lock(place, "deploy", 30000) };
    struct hf_lock *lock = place_held(place, "deploy");
    interrupt_all(place, &waiter);
    hf_lock_free(waiter.lock);
    waiter.lock = NULL;
    OK(hf_txn_begin(place->client, NULL, &waiter.txn, &place->error));
    OK(hf_txn_trouble(waiter.txn, &place->error));
    interrupt_all(place, &waiter);
    hf_txn_free(waiter.txn);
    hf_lock_free(lock);
}

static void every_state_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(hf_lease_state_name(HF_LEASE_OVERDUE), "overdue");
    assert_string_equal(hf_mode_name(HF_SHARED), "shared");
    assert_string_equal(hf_proof_name(HF_PROOF_WATCHED), "watched");
    assert_string_equal(hf_change_name(HF_CHANGE_LEFT), "left");
    assert_string_equal(hf_txn_state_name(HF_TXN_ROLLBACK), "rollback");
    assert_string_equal(hf_change_name(HF_CHANGE_COUNT), "unknown");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_shows_who_holds_what_and_for_how_long),
        cmocka_unit_test(those_who_wait_and_those_that_ended_are_shown_when_asked_for),
        cmocka_unit_test(a_list_has_what_starts_with_what_was_named),
        cmocka_unit_test(a_list_ends_when_the_caller_has_enough),
        cmocka_unit_test(what_is_damaged_is_told_and_the_rest_is_listed),
        cmocka_unit_test(a_lease_whose_holder_is_gone_is_over_when_that_is_proven),
        cmocka_unit_test(a_scope_is_shown_with_all_that_is_in_its_way),
        cmocka_unit_test(a_scope_that_nobody_ever_locked_is_absent),
        cmocka_unit_test(what_people_did_is_on_record),
        cmocka_unit_test(a_watch_tells_what_changed_between_two_looks),
        cmocka_unit_test(a_watch_tells_when_a_lease_is_overdue_and_then_over),
        cmocka_unit_test(a_look_that_was_stopped_takes_nothing_for_gone),
        cmocka_unit_test(a_look_at_a_table_that_cannot_be_read_takes_nothing_for_gone),
        cmocka_unit_test(held_says_by_whom_on_which_scope_and_for_how_long),
        cmocka_unit_test(every_scope_that_is_leased_has_its_blocker),
        cmocka_unit_test(already_says_who_did_it_and_when_it_may_be_done_again),
        cmocka_unit_test(a_lease_as_text_says_what_it_is_of),
        cmocka_unit_test(a_wait_is_interrupted_from_another_thread),
        cmocka_unit_test(every_state_has_a_name),
    };
    return place_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
