/* SPDX-License-Identifier: Apache-2.0 */
/* lock_wait_test.c KIND: waiting for a lock: order, giving up, being dropped, and a thousand
 * waiters. KIND is mem, sqlite, or url ($HOLDFAST_TEST_URL). */
#include "lock_kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define TABLE "default/meta/deploy.json"

/* A call of hf_lock_acquire in a task of its own. */
struct waiting {
    struct hf_lock *lock;
    int64_t wait_ms;
    struct hf_error error;
    enum hf_status status;
    atomic_bool done;
    struct env_task *task;
};

static void wait_in_task(void *argument)
{
    struct waiting *waiting = argument;
    waiting->status = hf_lock_acquire(waiting->lock, waiting->wait_ms, &waiting->error);
    atomic_store(&waiting->done, true);
}

static void start_waiting(struct waiting *waiting, struct hf_lock *lock, int64_t wait_ms)
{
    struct hf_error error;
    *waiting = (struct waiting){ .lock = lock, .wait_ms = wait_ms };
    MUST(env_task_start(env_real(), wait_in_task, waiting, &waiting->task, &error));
}

static enum hf_status join(struct waiting *waiting)
{
    env_task_join(env_real(), waiting->task);
    return waiting->status;
}

struct line {
    struct world *world;
    size_t length;
};

/* Those who wait carry a poll interval in the table; others do not. */
static bool line_is(void *argument)
{
    struct line *line = argument;
    char *text = world_text(line->world, TABLE);
    const char *start = text ? strstr(text, "\"waiters\"") : NULL;
    size_t count = 0;
    for (const char *at = start; at && (at = strstr(at, "\"lease_id\"")); at++)
        count++;
    free(text);
    return count == line->length;
}

static void until_line_is(struct pair *pair, size_t length)
{
    struct line line = { &pair->world, length };
    ASSERT(comes_true(line_is, &line, 5000));
}

static struct hf_lock *patient(struct peer *peer)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.poll_ms = 5;
    return lock_with(peer, "deploy", &options);
}

/* Polls until it is held or so long has passed. */
static enum hf_status poll_for(struct hf_lock *lock, int64_t ms)
{
    struct mono_time start = now();
    enum hf_status status;
    do {
        status = hf_lock_poll(lock, NULL);
        pass_ms(status == HF_HELD ? 1 : 0);
    } while (status == HF_HELD && ms_since(start) < ms);
    return status;
}

/* ---- Blocking ------------------------------------------------------------------------ */

static void who_waits_gets_it(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 0);
    struct waiting waiting;
    start_waiting(&waiting, lock, 20000);
    until_line_is(pair, 1);
    ASSERT(!atomic_load(&waiting.done));
    struct mono_time start = now();
    MUST(hf_lock_release(holder, &error));
    IS(HF_OK, join(&waiting));
    ASSERT(ms_since(start) < 2000);
    MUST(hf_lock_check(lock, &error));
    ASSERT(hf_lock_token(lock) > hf_lock_token(holder));
    hf_lock_free(lock);
    hf_lock_free(holder);
}

static void who_waits_in_vain_leaves_the_line(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 0);
    struct mono_time start = now();
    IS(HF_TIMEOUT, hf_lock_acquire(lock, 200, &error));
    assert_int_equal(error.status, HF_TIMEOUT);
    assert_in_range(ms_since(start), 199, 1500);
    until_line_is(pair, 0);
    IS(HF_NOT_FOUND, hf_lock_check(lock, &error));
    MUST(hf_lock_release(holder, &error));
    MUST(hf_lock_acquire(holder, 0, &error)); /* nobody is before us */
    hf_lock_free(lock);
    hf_lock_free(holder);
}

static void waits_of_strange_length(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 0);
    IS(HF_INVALID, hf_lock_acquire(lock, -1, &error));
    ASSERT(error.why[0]);
    IS(HF_TIMEOUT, hf_lock_acquire(lock, 1, &error));
    struct waiting waiting;
    const int64_t lengths[] = { HF_WAIT_FOREVER, HF_WAIT_FOREVER - 1, INT64_MAX / 1000 };
    for (size_t i = 0; i < 3; i++) {
        start_waiting(&waiting, lock, lengths[i]);
        until_line_is(pair, 1);
        MUST(hf_lock_release(holder, &error));
        IS(HF_OK, join(&waiting));
        MUST(hf_lock_release(lock, &error));
        MUST(hf_lock_acquire(holder, 0, &error));
    }
    hf_lock_free(lock);
    hf_lock_free(holder);
}

static void a_wait_is_cancelled_from_another_thread(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 0);
    struct waiting waiting;
    start_waiting(&waiting, lock, HF_WAIT_FOREVER);
    until_line_is(pair, 1);
    struct mono_time start = now();
    MUST(hf_lock_cancel(lock, &error));
    IS(HF_CANCELLED, join(&waiting));
    ASSERT(ms_since(start) < 1000);
    until_line_is(pair, 0);
    IS(HF_NOT_FOUND, hf_lock_check(lock, &error));
    IS(HF_TIMEOUT, hf_lock_acquire(lock, 20, &error)); /* that was for the last call only */
    MUST(hf_lock_release(holder, &error));
    MUST(hf_lock_acquire(lock, 100, &error));
    hf_lock_free(lock);
    hf_lock_free(holder);
}

/* A cancellation that meets the very beginning of a wait either comes before it or ends it. In both
 * cases it returns at once, although it waits for the other call to return. */
static void a_cancel_never_waits_for_the_wait(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 0);
    for (int i = 0; i < 400; i++) {
        struct waiting waiting;
        start_waiting(&waiting, lock, 30000);
        env_sleep(env_real(), SPAN_US(i % 100));
        while (!atomic_load(&waiting.done)) {
            struct mono_time start = now();
            MUST(hf_lock_cancel(lock, &error));
            ASSERT(ms_since(start) < 10000);
        }
        IS(HF_CANCELLED, join(&waiting));
    }
    hf_lock_free(lock);
    hf_lock_free(holder);
}

/* The reads of a store in trouble end with the time limit of a request, here at once. */
static void a_wait_for_the_store_is_interrupted(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 0);
    struct waiting waiting;
    way_shut(&pair->two.way, TABLE, REFUSE(HF_TIMEOUT));
    start_waiting(&waiting, lock, HF_WAIT_FOREVER);
    pass_ms(50);
    for (; !atomic_load(&waiting.done); pass_ms(10)) /* it may not have begun to wait yet */
        hf_lock_interrupt(lock);
    IS(HF_CANCELLED, join(&waiting));
    way_open(&pair->two.way);
    hf_lock_free(lock);
}

/* Also where one waits for the store's notify file, and looks only once in an hour. */
static void a_wait_is_cancelled_at_once(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.poll_ms = 3600000;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = lock_with(&pair->two, "deploy", &options);
    struct waiting waiting;
    start_waiting(&waiting, lock, HF_WAIT_FOREVER);
    until_line_is(pair, 1);
    pass_ms(50); /* it listens by now; if not, so much the better for it */
    struct mono_time start = now();
    MUST(hf_lock_cancel(lock, &error));
    IS(HF_CANCELLED, join(&waiting));
    ASSERT(ms_since(start) < 1000);
    hf_lock_free(lock);
    hf_lock_free(holder);
}

static void to_cancel_nothing_changes_nothing(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 0);
    enum hf_status idle = hf_lock_cancel(lock, &error);
    ASSERT(idle == HF_OK || idle == HF_NOT_FOUND);
    MUST(hf_lock_acquire(lock, 100, &error));
    hf_lock_cancel(lock, &error);
    MUST(hf_lock_check(lock, &error));
    MUST(hf_lock_renew(lock, &error));
    hf_lock_free(lock);
}

/* ---- In steps ------------------------------------------------------------------------ */

static void begin_poll_cancel(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *first = patient(&pair->two), *second = patient(&pair->two);
    IS(HF_HELD, hf_lock_begin(first, &error));
    IS(HF_HELD, hf_lock_begin(second, &error));
    ASSERT(hf_lock_blocked(first, 0));
    IS(HF_HELD, hf_lock_poll(first, &error));
    IS(HF_HELD, poll_for(second, 20));
    until_line_is(pair, 2);
    MUST(hf_lock_cancel(first, &error));
    until_line_is(pair, 1);
    enum hf_status gone = hf_lock_poll(first, &error);
    ASSERT(gone != HF_OK && gone != HF_HELD);
    MUST(hf_lock_release(holder, &error));
    IS(HF_OK, poll_for(second, 5000));
    MUST(hf_lock_check(second, &error));
    MUST(hf_lock_release(second, &error));
    IS(HF_OK, hf_lock_begin(first, &error)); /* free: at once */
    hf_lock_free(first);
    hf_lock_free(second);
    hf_lock_free(holder);
}

static void an_interrupt_ends_a_wait_in_steps(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = patient(&pair->two);
    hf_lock_interrupt(lock); /* before it waits, which has no effect */
    IS(HF_HELD, hf_lock_begin(lock, &error));
    IS(HF_HELD, hf_lock_poll(lock, &error));
    hf_lock_interrupt(lock);
    IS(HF_CANCELLED, hf_lock_poll(lock, &error));
    IS(HF_NOT_FOUND, hf_lock_poll(lock, &error));
    until_line_is(pair, 0);
    hf_lock_free(lock);
    hf_lock_free(holder);
}

static void order_is_kept(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *line[12];
    for (int i = 0; i < 12; i++) {
        line[i] = patient(i % 3 ? &pair->two : &pair->one);
        IS(HF_HELD, hf_lock_begin(line[i], &error));
    }
    struct hf_lock *newcomer = patient(&pair->one);
    MUST(hf_lock_release(holder, &error));
    for (int i = 0; i < 12; i++) {
        IS(HF_HELD, hf_lock_acquire(newcomer, 0, &error)); /* those who wait go first */
        for (int k = 11; k > i; k--)
            IS(HF_HELD, hf_lock_poll(line[k], &error));
        IS(HF_OK, poll_for(line[i], 5000));
        MUST(hf_lock_release(line[i], &error));
        hf_lock_free(line[i]);
    }
    MUST(hf_lock_acquire(newcomer, 0, &error));
    hf_lock_free(newcomer);
    hf_lock_free(holder);
}

static void a_writer_is_not_starved_by_readers(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options shared = HF_LOCK_OPTIONS;
    shared.mode = HF_SHARED;
    shared.poll_ms = 5;
    struct hf_lock *reader = lock_with(&pair->one, "deploy", &shared);
    struct hf_lock *writer = patient(&pair->two);
    struct hf_lock *late[2] = { lock_with(&pair->one, "deploy", &shared),
                                lock_with(&pair->two, "deploy", &shared) };
    MUST(hf_lock_acquire(reader, 0, &error));
    IS(HF_HELD, hf_lock_begin(writer, &error));
    IS(HF_HELD, hf_lock_acquire(late[0], 0, &error)); /* behind the writer */
    IS(HF_HELD, hf_lock_begin(late[0], &error));
    IS(HF_HELD, hf_lock_begin(late[1], &error));
    MUST(hf_lock_release(reader, &error));
    IS(HF_HELD, hf_lock_poll(late[0], &error));
    IS(HF_OK, poll_for(writer, 5000));
    MUST(hf_lock_release(writer, &error));
    IS(HF_OK, poll_for(late[0], 5000)); /* both at once */
    IS(HF_OK, poll_for(late[1], 5000));
    for (int i = 0; i < 2; i++)
        hf_lock_free(late[i]);
    hf_lock_free(writer);
    hf_lock_free(reader);
}

static void to_free_is_to_leave_the_line(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *first = patient(&pair->two), *second = patient(&pair->one);
    IS(HF_HELD, hf_lock_begin(first, &error));
    IS(HF_HELD, hf_lock_begin(second, &error));
    hf_lock_free(first);
    until_line_is(pair, 1);
    MUST(hf_lock_release(holder, &error));
    struct mono_time start = now();
    IS(HF_OK, poll_for(second, 5000));
    ASSERT(ms_since(start) < 1000); /* no claim window to wait for */
    hf_lock_free(second);
    hf_lock_free(holder);
}

static void who_does_not_poll_is_dropped(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *sleeper = patient(&pair->two), *second = patient(&pair->one);
    IS(HF_HELD, hf_lock_begin(sleeper, &error));
    IS(HF_HELD, hf_lock_begin(second, &error));
    MUST(hf_lock_release(holder, &error));
    struct mono_time start = now();
    IS(HF_OK, poll_for(second, 8000));
    assert_in_range(ms_since(start), 1900, 5000); /* the claim window */
    enum hf_status status = hf_lock_poll(sleeper, &error);
    ASSERT(status != HF_OK);
    hf_lock_free(sleeper);
    hf_lock_free(second);
    hf_lock_free(holder);
}

static void cut_off(void *argument)
{
    struct pair *pair = argument;
    script_rule(&pair->two.way, .name = "outage", .fate = REFUSE(HF_UNAVAILABLE));
}

/* Its turn passes while the store takes no write of it; that it has to join again is no reason to
 * end its wait. */
static void wait_through_outage(struct pair *pair, bool no_reply)
{
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = patient(&pair->two), *second = patient(&pair->one);
    struct waiting waiting;
    start_waiting(&waiting, lock, HF_WAIT_FOREVER);
    until_line_is(pair, 1);
    IS(HF_HELD, hf_lock_begin(second, &error));
    if (no_reply)
        script_rule(&pair->two.way, .name = "claim", .on = ON_PUT | ON_CHANGE, .times = 1,
                    .fate = LOSE, .after = cut_off, .argument = pair);
    else
        script_rule(&pair->two.way, .name = "outage", .on = ON_PUT | ON_CHANGE,
                    .fate = REFUSE(HF_UNAVAILABLE));
    MUST(hf_lock_release(holder, &error));
    IS(HF_OK, poll_for(second, 8000));
    pass_ms(10500); /* a request that the store refuses is repeated for 10 s */
    ASSERT(!atomic_load(&waiting.done));
    script_drop(&pair->two.way, "outage");
    until_line_is(pair, 1);
    MUST(hf_lock_release(second, &error));
    IS(HF_OK, join(&waiting));
    hf_lock_free(lock);
    hf_lock_free(second);
    hf_lock_free(holder);
}

static void who_lost_its_place_in_an_outage_waits_on(void **state)
{
    wait_through_outage(*state, /* no_reply */ false);
}

static void who_gets_no_reply_in_an_outage_waits_on(void **state)
{
    wait_through_outage(*state, /* no_reply */ true);
}

/* Learns its turn, and meets an outage before it can claim it. The next poll is a minute away. */
static struct hf_lock *turn_in_outage(struct pair *pair, struct hf_lock *holder)
{
    struct hf_error error;
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = 30000, .poll_ms = 60000);
    struct hf_lock *lock = lock_with(&pair->two, "deploy", &options);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
    IS(HF_HELD, hf_lock_begin(lock, &error));
    MUST(hf_lock_release(holder, &error));
    IS(HF_HELD, hf_lock_acquire(other, 0, &error));
    way_shut(&pair->two.way, "", REFUSE(HF_UNAVAILABLE));
    hf_lock_free(other);
    return lock;
}

static void a_turn_outlasts_an_outage(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *lock = turn_in_outage(pair, holder);
    IS(HF_HELD, hf_lock_poll(lock, &error)); /* after 10 s */
    way_open(&pair->two.way);
    IS(HF_OK, poll_for(lock, 5000));
    hf_lock_free(lock);
    hf_lock_free(holder);
}

static void claims_without_a_reply_end_with_the_wait(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    struct waiting waiting;
    struct hf_lock *lock = patient(&pair->two);
    start_waiting(&waiting, lock, 3000);
    until_line_is(pair, 1);
    struct mono_time start = now();
    script_rule(&pair->two.way, .name = "outage", .on = ON_PUT | ON_CHANGE,
                .fate = REFUSE(HF_UNAVAILABLE));
    MUST(hf_lock_release(holder, &error));
    IS(HF_TIMEOUT, join(&waiting));
    assert_in_range(ms_since(start), 2000, 20000);
    script_drop(&pair->two.way, "outage");
    hf_lock_free(lock);
    hf_lock_free(holder);
}

static void what_was_done_meanwhile_need_not_be_done(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.once_per_ms = 60000;
    options.poll_ms = 5;
    struct hf_lock *holder = lock_with(&pair->one, "deploy", &options);
    struct hf_lock *lock = lock_with(&pair->two, "deploy", &options);
    struct hf_lock *careless = lock_of(&pair->two, "deploy", 0);
    MUST(hf_lock_acquire(holder, 0, &error));
    struct waiting waiting;
    start_waiting(&waiting, lock, 10000);
    until_line_is(pair, 1);
    MUST(hf_lock_complete(holder, NULL, &error));
    IS(HF_ALREADY, join(&waiting));
    until_line_is(pair, 0);
    MUST(hf_lock_acquire(careless, 0, &error));
    hf_lock_free(careless);
    hf_lock_free(lock);
    hf_lock_free(holder);
}

static void a_slack_is_less_than_its_period(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock;
    static const int64_t bad[] = { HF_NO_SLACK - 1, 1000, INT64_MAX };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hf_lock_options options = HF_LOCK_OPTIONS;
        options.once_per_ms = 1000;
        options.once_slack_ms = bad[i];
        IS(HF_INVALID, hf_lock_new(pair->one.client, "deploy", &options, &lock, &error));
        ASSERT(strstr(error.why, "slack"));
    }
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.once_per_ms = 3600000;
    options.once_slack_ms = HF_NO_SLACK;
    lock = lock_with(&pair->one, "deploy", &options);
    MUST(hf_lock_acquire(lock, 0, &error));
    MUST(hf_lock_complete(lock, NULL, &error));
    IS(HF_ALREADY, hf_lock_acquire(lock, 0, &error));
    hf_lock_free(lock);
}

static void a_dead_holder_is_waited_out(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct peer dead;
    peer_open(&dead, &pair->world, NULL);
    struct hf_lock *holder = lock_held(&dead, "deploy", scaled_ms(300));
    way_shut(&dead.way, "", LOSE);
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 0);
    struct mono_time start = now();
    MUST(hf_lock_acquire(lock, 10000, &error));
    assert_in_range(ms_since(start), scaled_ms(240), scaled_ms(1500));
    IS(HF_EXPIRED, hf_lock_check(holder, &error));
    way_open(&dead.way);
    hf_lock_free(holder);
    peer_close(&dead);
    MUST(hf_lock_renew(lock, &error));
    hf_lock_free(lock);
}

/* ---- A thousand ---------------------------------------------------------------------- */

/* How many wait. ThreadSanitizer watches every byte of their table. */
static size_t crowd_size(void)
{
    const char *asked = getenv("HOLDFAST_TEST_CROWD");
    return asked ? strtoul(asked, NULL, 10) : WITH_TSAN ? 300 : 1000;
}

/* As many paths as their table has room for. */
static size_t fill_table(struct pair *pair, struct hf_lock **locks, size_t max)
{
    struct hf_error error;
    char scope[64];
    for (size_t i = 0; i < max; i++) {
        snprintf(scope, sizeof scope, "path:/many/%zu", i);
        locks[i] = lock_of(&pair->one, scope, 600000); /* not renewed meanwhile */
        if (hf_lock_acquire(locks[i], 0, &error) == HF_UNAVAILABLE) {
            assert_non_null(strstr(error.why, "full"));
            return i + 1;
        }
    }
    fail_msg("the table is not full");
    return max;
}

static void a_full_table_is_asked_at_the_pace_of_who_waits(void **state)
{
    struct pair *pair = *state;
    static struct hf_lock *locks[1100];
    struct hf_error error;
    size_t count = fill_table(pair, locks, sizeof locks / sizeof locks[0]);
    struct hf_lock *last = locks[count - 1];
    script_counts(&pair->one.way);
    IS(HF_UNAVAILABLE, hf_lock_acquire(last, 500, &error));
    struct counts counts = script_counts(&pair->one.way);
    print_message("# a full table was asked %ld times in 500 ms\n",
                  (long)(counts.gets + counts.looks + counts.puts));
    assert_in_range(counts.gets + counts.looks + counts.puts, 1, 12);
    struct waiting waiting;
    start_waiting(&waiting, last, 20000);
    while (!atomic_load(&waiting.done)) { /* what comes before the call is forgotten by it */
        MUST(hf_lock_cancel(last, &error));
        pass_ms(5);
    }
    IS(HF_CANCELLED, join(&waiting));
    start_waiting(&waiting, last, 20000);
    MUST(hf_lock_release(locks[0], &error));
    IS(HF_OK, join(&waiting));
    for (size_t i = 0; i < count; i++)
        hf_lock_free(locks[i]);
}

/* Everybody polls in turn; each holder releases at once. Notes who came when. */
static void serve_crowd(struct hf_lock **crowd, size_t count, size_t *served)
{
    struct mono_time start = now();
    size_t done = 0;
    for (size_t i = 0; i < count; i++)
        served[i] = SIZE_MAX;
    while (done < count && ms_since(start) < 60000)
        for (size_t i = 0; i < count; i++) {
            if (served[i] != SIZE_MAX)
                continue;
            enum hf_status status = hf_lock_poll(crowd[i], NULL);
            if (status == HF_HELD)
                continue;
            IS(HF_OK, status);
            served[i] = done++;
            IS(HF_OK, hf_lock_release(crowd[i], NULL));
        }
    assert_int_equal(done, count);
}

static void a_thousand_wait(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, "deploy", 0);
    size_t count = crowd_size();
    struct hf_lock **crowd = calloc(count, sizeof *crowd);
    size_t *served = calloc(count, sizeof *served);
    ASSERT(crowd && served);
    for (size_t i = 0; i < count; i++) {
        crowd[i] = patient(i % 2 ? &pair->one : &pair->two);
        IS(HF_HELD, hf_lock_begin(crowd[i], &error));
    }
    script_counts(&pair->one.way);
    script_counts(&pair->two.way);
    MUST(hf_lock_release(holder, &error));
    serve_crowd(crowd, count, served);
    struct counts one = script_counts(&pair->one.way), two = script_counts(&pair->two.way);
    print_message("# %zu hand-overs: %u puts, %u of them too late, %u gets, %u looks\n", count,
                  one.puts + two.puts, one.conflicts + two.conflicts, one.gets + two.gets,
                  one.looks + two.looks);
    ASSERT(one.conflicts + two.conflicts <= count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(served[i], i);
    for (size_t i = 0; i < count; i++)
        hf_lock_free(crowd[i]);
    hf_lock_free(holder);
    free(served);
    free(crowd);
}

/* ---- A store that does not answer ---------------------------------------------------- */

#define ALL_CALLS (ON_GET | ON_PUT | ON_CHANGE | ON_LIST | ON_DELETE)

static void check_given_up(enum hf_status status, struct mono_time start, int64_t wait_ms)
{
    int64_t late_ms = ms_since(start) - wait_ms;
    if (status != HF_TIMEOUT && status != HF_UNSURE && status != HF_UNAVAILABLE)
        FAIL("a wait of %lld ms: %s", (long long)wait_ms, hf_status_name(status));
    if (late_ms > 4000)
        FAIL("a wait of %lld ms took %lld more", (long long)wait_ms, (long long)late_ms);
}

/* From the start, from the first write on, or once it stands in line. */
static void a_wait_ends_when_the_store_does_not_answer(void **state)
{
    struct pair *pair = *state;
    static const unsigned kinds[] = { ALL_CALLS, ON_PUT | ON_CHANGE };
    for (size_t i = 0; i < 2; i++) {
        struct hf_lock *lock = lock_of(&pair->one, "other", 0);
        script_rule(&pair->one.way, .name = "hang", .on = kinds[i], .fate = HANG);
        struct mono_time start = now();
        check_given_up(hf_lock_acquire(lock, 300, NULL), start, 300);
        script_drop(&pair->one.way, "hang");
        hf_lock_free(lock);
    }
    struct hf_lock *held = lock_held(&pair->two, "deploy", 0);
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 0);
    struct waiting waiting;
    struct line line = { &pair->world, 1 };
    struct mono_time start = now();
    start_waiting(&waiting, lock, scaled_ms(700));
    ASSERT(comes_true(line_is, &line, scaled_ms(600)));
    script_rule(&pair->one.way, .name = "hang", .on = ALL_CALLS, .fate = HANG);
    check_given_up(join(&waiting), start, scaled_ms(700));
    script_drop(&pair->one.way, "hang");
    hf_lock_free(lock);
    hf_lock_free(held);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("who waits gets it when it is released", who_waits_gets_it),
        PAIR("who waits in vain leaves the line", who_waits_in_vain_leaves_the_line),
        PAIR("a wait may be of any length that makes sense", waits_of_strange_length),
        PAIR("a wait is cancelled from another thread",
             a_wait_is_cancelled_from_another_thread),
        PAIR("a cancel meets the beginning of a wait, and never waits for its end",
             a_cancel_never_waits_for_the_wait),
        PAIR("a wait is cancelled at once, however seldom it looks",
             a_wait_is_cancelled_at_once),
        PAIR("to cancel where nobody waits changes nothing", to_cancel_nothing_changes_nothing),
        PAIR("who cannot block begins, polls, and cancels", begin_poll_cancel),
        PAIR("an interrupt ends a wait for a store that does not answer",
             a_wait_for_the_store_is_interrupted),
        PAIR("an interrupt ends a wait in steps", an_interrupt_ends_a_wait_in_steps),
        PAIR("order is kept among those who wait, and newcomers obey it", order_is_kept),
        PAIR("a writer is not starved by readers", a_writer_is_not_starved_by_readers),
        PAIR("to free a handle is to leave the line", to_free_is_to_leave_the_line),
        PAIR("who does not poll when its turn comes is dropped", who_does_not_poll_is_dropped),
        PAIR("who lost its place in an outage of the store waits on",
             who_lost_its_place_in_an_outage_waits_on),
        PAIR("who gets no reply to its claim in an outage waits on",
             who_gets_no_reply_in_an_outage_waits_on),
        PAIR("a turn outlasts an outage, however long the poll interval",
             a_turn_outlasts_an_outage),
        PAIR("claims that get no reply end with the wait",
             claims_without_a_reply_end_with_the_wait),
        PAIR("what was done while one waited need not be done again",
             what_was_done_meanwhile_need_not_be_done),
        PAIR("the slack of a period is less than that", a_slack_is_less_than_its_period),
        PAIR("a wait ends a few seconds after its time when the store does not answer",
             a_wait_ends_when_the_store_does_not_answer),
        PAIR("a dead holder is waited out", a_dead_holder_is_waited_out),
        PAIR("a full table is asked at the pace of who waits, and once there is room it is had",
             a_full_table_is_asked_at_the_pace_of_who_waits),
        PAIR("a thousand wait: in order, with at most one write too many a hand-over",
             a_thousand_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
