/* SPDX-License-Identifier: Apache-2.0 */
/* lock_keeper_test.c KIND: the background work of a client: it renews leases, reports danger
 * and loss, and releases what callers left. KIND is mem, sqlite, or url. */
#include "base/prng.h"
#include "lock_kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define TABLE "default/meta/deploy.json"

/* ---- What the keeper told ------------------------------------------------------------ */

#define STORY_MAX 64

struct story {
    atomic_size_t count;
    struct telling {
        enum hf_lock_event event;
        struct mono_time at;
        enum hf_status check;
        int64_t remaining_ms;
    } told[STORY_MAX];
};

static void note_event(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    struct story *story = argument;
    size_t n = atomic_load(&story->count);
    if (n == STORY_MAX)
        return;
    story->told[n].event = event;
    story->told[n].at = now();
    story->told[n].check = hf_lock_check(lock, NULL);
    story->told[n].remaining_ms = hf_lock_remaining_ms(lock);
    atomic_store(&story->count, n + 1);
}

static struct hf_lock *told_lock(struct peer *peer, const char *scope, int64_t ttl_ms,
                                 struct story *story)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = ttl_ms;
    options.notify = note_event;
    options.notify_argument = story;
    struct hf_lock *lock = lock_with(peer, scope, &options);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    return lock;
}

struct chapter {
    struct story *story;
    enum hf_lock_event event;
};

static bool has_told(void *argument)
{
    struct chapter *chapter = argument;
    size_t count = atomic_load(&chapter->story->count);
    return count > 0 && chapter->story->told[count - 1].event == chapter->event;
}

static void until_told(struct story *story, enum hf_lock_event event, int64_t within_ms)
{
    struct chapter chapter = { story, event };
    if (!comes_true(has_told, &chapter, within_ms))
        FAIL("event %d was not told last within %d ms; %zu were told", (int)event,
             (int)within_ms, atomic_load(&story->count));
}

/* ---- Renewing ------------------------------------------------------------------------ */

/* Whether a lock of this ttl is held, and told so, for three and a half of them. */
static bool is_kept(struct pair *pair, int64_t ttl_ms)
{
    struct story story = { 0 };
    struct hf_lock *lock = told_lock(&pair->one, "deploy", ttl_ms, &story);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
    struct mono_time start = now();
    bool kept = true;
    while (kept && ms_since(start) < ttl_ms * 7 / 2) {
        kept = hf_lock_check(lock, NULL) == HF_OK && hf_lock_remaining_ms(lock) > 0;
        kept = kept && hf_lock_acquire(other, 0, NULL) == HF_HELD;
        pass_ms(5);
    }
    kept = kept && atomic_load(&story.count) == 0; /* nothing to tell */
    hf_lock_release(lock, NULL);
    hf_lock_release(other, NULL);
    hf_lock_free(lock);
    hf_lock_free(other);
    return kept;
}

/* A machine that stalls for longer than two thirds of a ttl loses the lease, as it must; it gets a
 * longer one. */
static void a_lock_is_kept(void **state)
{
    ASSERT(is_kept(*state, 200) || is_kept(*state, 800) || is_kept(*state, 3200));
}

#define RENEWALS 4

struct pace {
    atomic_size_t count;
    struct mono_time at[RENEWALS];
};

static void note_renewal(void *argument)
{
    struct pace *pace = argument;
    size_t n = atomic_load(&pace->count);
    if (n < RENEWALS)
        pace->at[n] = now();
    atomic_store(&pace->count, n + 1);
}

static bool has_paced(void *argument)
{
    struct pace *pace = argument;
    return atomic_load(&pace->count) >= RENEWALS;
}

/* The most of these gaps are as long as they should be; a busy machine may make one longer. */
static void it_is_renewed_at_a_third(void **state)
{
    struct pair *pair = *state;
    struct pace pace = { 0 };
    int64_t ttl_ms = scaled_ms(600), gap_ms[RENEWALS], least = INT64_MAX;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", ttl_ms);
    struct mono_time last = now();
    script_rule(&pair->one.way, .name = "pace", .on = ON_PUT | ON_CHANGE, .key = TABLE,
                .before = note_renewal, .argument = &pace);
    ASSERT(comes_true(has_paced, &pace, 4 * ttl_ms));
    script_drop(&pair->one.way, "pace");
    for (size_t i = 0; i < RENEWALS; i++) {
        gap_ms[i] = mono_since(pace.at[i], last).us / 1000;
        last = pace.at[i];
        least = i > 0 && gap_ms[i] < least ? gap_ms[i] : least;
        if (gap_ms[i] < ttl_ms / 3 - 20)
            FAIL("renewed after %lld ms of a ttl of %lld", (long long)gap_ms[i],
                 (long long)ttl_ms);
    }
    if (least > ttl_ms * 9 / 20)
        FAIL("renewed every %lld ms at best, of a ttl of %lld", (long long)least,
             (long long)ttl_ms);
    hf_lock_free(lock);
}

static size_t renewers_of(struct hf_client *client)
{
    env_mutex_lock(&client->keeper.mutex);
    size_t count = client->keeper.renewer_count;
    env_mutex_unlock(&client->keeper.mutex);
    return count;
}

static void a_short_lease_starts_no_renewer(void **state)
{
    struct pair *pair = *state;
    for (int i = 0; i < 3; i++) {
        struct hf_lock *lock = lock_held(&pair->one, "deploy", 600000);
        IS(HF_OK, hf_lock_release(lock, NULL));
        hf_lock_free(lock);
    }
    assert_int_equal(renewers_of(pair->one.client), 0);
    ASSERT(is_kept(pair, 200) || is_kept(pair, 800) || is_kept(pair, 3200));
    assert_int_not_equal(renewers_of(pair->one.client), 0);
}

static atomic_int starts_to_fail;

static enum hf_status start_or_fail(struct env *env, void (*run)(void *), void *argument,
                                    struct env_task **ret_task, struct hf_error *error)
{
    if (atomic_load(&starts_to_fail) > 0) {
        atomic_fetch_sub(&starts_to_fail, 1);
        return error_set(error, HF_UNAVAILABLE, "no thread");
    }
    return env_real()->ops->task_start(env, run, argument, ret_task, error);
}

/* The first three starts fail; the lease is renewed before it is in danger. */
static void a_renewer_that_cannot_start_is_started_later(void **state)
{
    static struct env_ops ops; /* static: the client is closed after the test */
    static struct env scarce = { .ops = &ops };
    struct pair *pair = *state;
    struct pace pace = { 0 };
    ops = *env_real()->ops;
    ops.task_start = start_or_fail;
    pair->one.client->env = &scarce;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", scaled_ms(1200));
    script_rule(&pair->one.way, .name = "pace", .on = ON_PUT | ON_CHANGE, .key = TABLE,
                .before = note_renewal, .argument = &pace);
    atomic_store(&starts_to_fail, 3);
    ASSERT(comes_true(has_paced, &pace, 4 * scaled_ms(1200)));
    assert_int_equal(atomic_load(&starts_to_fail), 0);
    IS(HF_OK, hf_lock_check(lock, NULL));
    script_drop(&pair->one.way, "pace");
    hf_lock_free(lock);
}

/* How long it takes until a lock of 200 ms that nobody renews is told to be gone. */
static int64_t ms_until_gone(struct pair *pair)
{
    struct story story = { 0 };
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = 200, .no_renewal = true);
    options.notify = note_event;
    options.notify_argument = &story;
    struct hf_lock *lock = lock_with(&pair->one, "deploy", &options);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    script_counts(&pair->one.way);
    struct mono_time start = now();
    until_told(&story, HF_LOCK_GONE, 5000);
    int64_t took_ms = ms_since(start);
    IS(HF_EXPIRED, hf_lock_check(lock, NULL));
    /* Its entry in the expiry index, if the keeper was awake between half-life and end. */
    ASSERT(script_counts(&pair->one.way).puts <= 1);
    ASSERT(world_times(&pair->world, "default/meta/deploy.json", "\"renewals\"") == 0);
    hf_lock_free(lock);
    return took_ms;
}

/* Never too early, and in time at least once: a busy machine may be late. */
static void without_renewal_it_ends(void **state)
{
    struct pair *pair = *state;
    int64_t best = INT64_MAX;
    for (int i = 0; i < 10 && best > 205; i++) {
        int64_t took_ms = ms_until_gone(pair);
        ASSERT(took_ms >= 50);
        best = took_ms < best ? took_ms : best;
    }
    assert_in_range(best, 50, 205);
}

static void many_locks_of_many_tables_are_kept(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *locks[200];
    for (int i = 0; i < 200; i++) {
        char scope[64];
        if (i < 100)
            snprintf(scope, sizeof scope, "jobs/%d", i);
        else
            snprintf(scope, sizeof scope, "range:%d:%d-%d", i % 7, i, i + 1);
        locks[i] = lock_held(&pair->one, scope, 1000);
    }
    script_counts(&pair->one.way);
    pass_ms(1500);
    for (int i = 0; i < 200; i++)
        IS(HF_OK, hf_lock_check(locks[i], NULL));
    struct counts counts = script_counts(&pair->one.way);
    /* 107 tables, three or four or five times. */
    assert_in_range(counts.puts, 300, 700);
    assert_int_equal(counts.gets, 0);
    for (int i = 0; i < 200; i++)
        hf_lock_free(locks[i]);
}

static void more_ranges_than_one_call_carries(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *locks[300];
    for (int i = 0; i < 300; i++) {
        char scope[64];
        snprintf(scope, sizeof scope, "range:7:%d-%d", 2 * i, 2 * i + 1);
        locks[i] = lock_held(&pair->one, scope, 2000);
    }
    pass_ms(3000);
    for (int i = 0; i < 300; i++)
        IS(HF_OK, hf_lock_check(locks[i], NULL));
    for (int i = 0; i < 300; i++)
        hf_lock_free(locks[i]);
}

static void a_table_that_hangs_holds_up_no_other(void **state)
{
    struct pair *pair = *state;
    struct story stuck_story = { 0 }, good_story = { 0 };
    struct hf_lock *stuck = told_lock(&pair->one, "stuck", 300, &stuck_story);
    struct hf_lock *good[8];
    for (int i = 0; i < 8; i++) {
        char scope[16];
        snprintf(scope, sizeof scope, "good%d", i);
        good[i] = told_lock(&pair->one, scope, 1500, &good_story);
    }
    way_shut(&pair->one.way, "stuck", HANG);
    until_told(&stuck_story, HF_LOCK_GONE, 1000);
    IS(HF_EXPIRED, hf_lock_check(stuck, NULL));
    pass_ms(2000);
    for (int i = 0; i < 8; i++)
        IS(HF_OK, hf_lock_check(good[i], NULL));
    assert_int_equal(atomic_load(&good_story.count), 0);
    way_open(&pair->one.way);
    for (int i = 0; i < 8; i++)
        hf_lock_free(good[i]);
    hf_lock_free(stuck);
}

/* ---- Telling ------------------------------------------------------------------------- */

static void danger_then_safe(void **state)
{
    struct pair *pair = *state;
    struct story story = { 0 };
    struct hf_lock *lock = told_lock(&pair->one, "deploy", 600, &story);
    way_shut(&pair->one.way, "", REFUSE(HF_UNAVAILABLE));
    until_told(&story, HF_LOCK_DANGER, 600);
    assert_int_equal(story.told[0].check, HF_OK);
    ASSERT(story.told[0].remaining_ms > 0);
    way_open(&pair->one.way);
    until_told(&story, HF_LOCK_SAFE, 600);
    assert_int_equal(atomic_load(&story.count), 2);
    assert_int_equal(story.told[1].check, HF_OK);
    IS(HF_OK, hf_lock_check(lock, NULL));
    hf_lock_free(lock);
}

/* Whether danger was told, and the end before somebody else had it. On a busy machine the task that
 * tells may wake too late for either. The lock itself is over by then in any case. */
static bool gone_was_told_in_time(struct pair *pair, struct fate fate, int64_t ttl_ms)
{
    struct story story = { 0 };
    struct hf_lock *lock = told_lock(&pair->one, "deploy", ttl_ms, &story);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
    way_shut(&pair->one.way, "", fate);
    IS(HF_OK, hf_lock_acquire(other, 4 * ttl_ms + 5000, NULL));
    struct mono_time taken = now();
    IS(HF_EXPIRED, hf_lock_check(lock, NULL));
    until_told(&story, HF_LOCK_GONE, 5000);
    size_t count = atomic_load(&story.count);
    ASSERT(count == 1 || count == 2);
    const struct telling *gone = &story.told[count - 1];
    assert_int_equal(gone->check, HF_EXPIRED);
    assert_int_equal(gone->remaining_ms, 0);
    bool in_time = count == 2 && mono_before(gone->at, taken);
    if (count == 2) {
        assert_int_equal(story.told[0].event, HF_LOCK_DANGER);
        ASSERT(mono_before(story.told[0].at, gone->at));
    }
    way_open(&pair->one.way);
    IS(HF_LOST, hf_lock_release(lock, NULL));
    IS(HF_OK, hf_lock_renew(other, NULL)); /* what comes late does not hit it */
    assert_int_equal(atomic_load(&story.count), count);
    IS(HF_OK, hf_lock_release(other, NULL)); /* a free alone would release it later */
    hf_lock_free(lock);
    hf_lock_free(other);
    return in_time;
}

/* Danger is told some part of the ttl before the end, so a slow machine gets a longer ttl. */
static void gone_is_told_in_time(struct pair *pair, struct fate fate)
{
    static const int64_t ttls_ms[] = { 300, 300, 600, 1200, 2400, 4800 };
    bool in_time = false;
    for (size_t i = 0; i < sizeof ttls_ms / sizeof *ttls_ms && !in_time; i++)
        in_time = gone_was_told_in_time(pair, fate, ttls_ms[i]);
    ASSERT(in_time);
}

static void gone_when_refused(void **state)
{
    gone_is_told_in_time(*state, REFUSE(HF_UNAVAILABLE));
}

static void gone_when_lost(void **state)
{
    gone_is_told_in_time(*state, LOSE);
}

static void gone_when_hanging(void **state)
{
    gone_is_told_in_time(*state, HANG);
}

static void gone_when_denied(void **state)
{
    gone_is_told_in_time(*state, REFUSE(HF_DENIED));
}

static void a_broken_lease_is_told(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX];
    struct story story = { 0 };
    struct hf_lock *lock = told_lock(&pair->one, "deploy", 3000, &story);
    MUST(hf_lock_text(lock, text, &error));
    MUST(hf_break(pair->two.client, text, "anna", "enough", &error));
    until_told(&story, HF_LOCK_GONE, 4000);
    assert_int_equal(atomic_load(&story.count), 1);
    assert_int_equal(story.told[0].check, HF_LOST);
    IS(HF_LOST, hf_lock_check(lock, &error));
    IS(HF_LOST, hf_lock_release(lock, &error));
    hf_lock_free(lock);
}

static void each_release_of_a_lost_lock_is_lost(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
    MUST(hf_lock_acquire(lock, 0, &error));
    MUST(hf_lock_acquire(lock, 0, &error));
    MUST(hf_lock_release(lock, &error));
    MUST(hf_lock_text(lock, text, &error));
    MUST(hf_break(pair->two.client, text, "anna", "enough", &error));
    IS(HF_LOST, hf_lock_renew(lock, &error));
    IS(HF_LOST, hf_lock_release(lock, &error));
    IS(HF_LOST, hf_lock_check(lock, &error)); /* it must be released once more */
    IS(HF_LOST, hf_lock_release(lock, &error));
    IS(HF_NOT_FOUND, hf_lock_release(lock, &error));
    hf_lock_free(lock);
}

static void a_released_lock_tells_nothing(void **state)
{
    struct pair *pair = *state;
    struct story story = { 0 };
    struct hf_lock *lock = told_lock(&pair->one, "deploy", 200, &story);
    IS(HF_OK, hf_lock_release(lock, NULL));
    script_counts(&pair->one.way);
    pass_ms(400);
    assert_int_equal(atomic_load(&story.count), 0);
    struct counts counts = script_counts(&pair->one.way);
    assert_int_equal(counts.puts + counts.gets + counts.looks, 0);
    hf_lock_free(lock);
}

/* ---- Giving back --------------------------------------------------------------------- */

/* The table says who completed it, so it is not taken for somebody else's doing. */
static void what_we_completed_late_is_ours(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = scaled_ms(200), .no_renewal = true);
    struct hf_lock *lock = lock_with(&pair->one, "deploy", &options);
    MUST(hf_lock_acquire(lock, 0, &error));
    pass_ms(scaled_ms(220));
    IS(HF_EXPIRED, hf_lock_check(lock, &error));
    script_rule(&pair->one.way, .on = ON_PUT, .part = "/meta/", .times = 1, .fate = LOSE_REPLY);
    MUST(hf_lock_complete(lock, NULL, &error));
    assert_int_equal(world_times(&pair->world, "default/meta/deploy.json", "completed"), 1);
    hf_lock_free(lock);
}

static void to_free_is_to_give_back(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL)); /* twice: free gives back all */
    hf_lock_free(lock);
    IS(HF_OK, hf_lock_acquire(other, 2000, NULL));
    hf_lock_free(other);
}

static void to_close_is_to_have_given_back(void **state)
{
    struct pair *pair = *state;
    struct peer peer;
    peer_open(&peer, &pair->world, NULL);
    for (int i = 0; i < 50; i++) {
        char scope[16];
        snprintf(scope, sizeof scope, "job%d", i);
        hf_lock_free(lock_held(&peer, scope, 0));
    }
    peer_close(&peer);
    for (int i = 0; i < 50; i++) {
        char scope[16];
        snprintf(scope, sizeof scope, "job%d", i);
        struct hf_lock *lock = lock_held(&pair->one, scope, 0);
        hf_lock_release(lock, NULL);
        hf_lock_free(lock);
    }
}

static void to_close_takes_a_few_seconds_at_most(void **state)
{
    struct pair *pair = *state;
    struct peer peer;
    peer_open(&peer, &pair->world, NULL);
    struct hf_lock *lock = lock_held(&peer, "deploy", 0);
    way_shut(&peer.way, "", REFUSE(HF_UNAVAILABLE));
    hf_lock_free(lock);
    struct mono_time start = now();
    peer_close(&peer);
    ASSERT(ms_since(start) < 6000);
}

static void an_unsure_grant_is_given_back(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *warm = lock_held(&pair->one, "deploy", 0);
    IS(HF_OK, hf_lock_release(warm, NULL));
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 60000);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
    way_fail(&pair->one.way, 0, LOSE_REPLY);
    enum hf_status status = hf_lock_acquire(lock, 0, &error);
    ASSERT(way_has_failed(&pair->one.way));
    ASSERT(status == HF_OK || status == HF_UNSURE);
    if (status == HF_OK)
        IS(HF_OK, hf_lock_release(lock, &error));
    IS(HF_OK, hf_lock_acquire(other, 5000, &error)); /* long before the ttl */
    hf_lock_free(warm);
    hf_lock_free(lock);
    hf_lock_free(other);
}

/* The store is away for so long that the call gives up: the grant may have happened. */
static void an_unsure_grant_is_given_back_later(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
    IS(HF_OK, hf_lock_release(lock, NULL));
    way_shut(&pair->one.way, "deploy", LOSE);
    way_fail(&pair->one.way, 0, LOSE_REPLY); /* it is granted; nothing else arrives */
    IS(HF_UNSURE, hf_lock_acquire(lock, 300, &error));
    IS(HF_HELD, hf_lock_acquire(other, 0, &error)); /* in the store's eyes it is held */
    way_open(&pair->one.way);
    IS(HF_OK, hf_lock_acquire(other, 10000, &error));
    IS(HF_OK, hf_lock_release(other, &error));
    IS(HF_OK, hf_lock_acquire(lock, 10000, &error)); /* the handle is as good as new */
    hf_lock_free(lock);
    hf_lock_free(other);
}

static bool is_free(void *argument)
{
    struct hf_lock *lock = argument;
    return hf_lock_acquire(lock, 0, NULL) == HF_OK;
}

/* The store loses the reply to one request, and denies all others for a while. */
static void a_grant_that_lands_after_a_denial_is_given_back(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
    IS(HF_OK, hf_lock_release(lock, &error));
    script_rule(&pair->one.way, .name = "deny", .skip = 1, .fate = REFUSE(HF_DENIED));
    way_fail(&pair->one.way, 0, LATE);
    IS(HF_UNSURE, hf_lock_acquire(lock, 5000, &error));
    pass_ms(100); /* the background is denied, too */
    script_deliver(&pair->one.way);
    IS(HF_HELD, hf_lock_acquire(other, 0, &error));
    script_drop(&pair->one.way, "deny");
    ASSERT(comes_true(is_free, other, 10000));
    hf_lock_free(lock);
    hf_lock_free(other);
}

static void a_release_that_is_denied_is_made_later(void **state)
{
    const struct fate fates[] = { REFUSE(HF_DENIED), REFUSE(HF_UNSUPPORTED) };
    struct pair *pair = *state;
    struct hf_error error;
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
        struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
        way_shut(&pair->one.way, "", fates[i]);
        IS(fates[i].status, hf_lock_release(lock, &error));
        IS(HF_NOT_FOUND, hf_lock_check(lock, &error));
        IS(HF_HELD, hf_lock_acquire(other, 0, &error));
        way_open(&pair->one.way);
        ASSERT(comes_true(is_free, other, 10000));
        IS(HF_OK, hf_lock_release(other, &error));
        hf_lock_free(lock);
        hf_lock_free(other);
    }
}

static void a_denied_release_by_text_may_be_repeated(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options options = LOCK_OPTIONS(.unconfirmed = true);
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000), *named;
    char text[HF_LEASE_TEXT_MAX];
    MUST(hf_lock_text(lock, text, &error));
    hf_lock_detach(lock);
    way_shut(&pair->one.way, "", REFUSE(HF_DENIED));
    MUST(hf_lock_adopt(pair->one.client, text, &options, &named, &error));
    IS(HF_DENIED, hf_lock_release(named, &error));
    hf_lock_free(named);
    way_open(&pair->one.way);
    pass_ms(1200); /* the background tries again each second */
    MUST(hf_lock_adopt(pair->one.client, text, &options, &named, &error));
    MUST(hf_lock_release(named, &error));
    hf_lock_free(named);
}

/* ---- Threads ------------------------------------------------------------------------- */

#define THREADS 32
#define NAMES   8

struct storm {
    struct pair *pair;
    atomic_int holders[NAMES];
    atomic_uint_fast64_t token[NAMES];
    atomic_uint grants, strange;
    atomic_bool stop;
};

struct sailor {
    struct storm *storm;
    unsigned number;
    struct env_task *task;
};

/* Tells what was strange, so that it can be understood; the test fails at its end. */
static void note_strange(struct storm *storm, const char *what, enum hf_status status)
{
    print_message("# strange: %s, %s\n", what, hf_status_name(status));
    atomic_fetch_add(&storm->strange, 1);
}

static void hold_for_a_while(struct storm *storm, struct hf_lock *lock, unsigned name,
                             struct prng *prng)
{
    if (atomic_fetch_add(&storm->holders[name], 1) != 0)
        note_strange(storm, "two holders", HF_OK);
    uint64_t token = hf_lock_token(lock);
    if (atomic_exchange(&storm->token[name], token) >= token)
        note_strange(storm, "a token that does not rise", HF_OK);
    atomic_fetch_add(&storm->grants, 1);
    char text[HF_LEASE_TEXT_MAX];
    enum hf_status status = prng_below(prng, 4) == 0 ? hf_lock_renew(lock, NULL) : HF_OK;
    if (status != HF_OK)
        note_strange(storm, "renewed", status);
    if ((status = hf_lock_text(lock, text, NULL)) != HF_OK)
        note_strange(storm, "its text", status);
    if ((status = hf_lock_check(lock, NULL)) != HF_OK)
        note_strange(storm, "checked", status);
    atomic_fetch_sub(&storm->holders[name], 1);
}

static void end_in_some_way(struct storm *storm, struct hf_lock *lock, struct prng *prng)
{
    enum hf_status status;
    switch (prng_below(prng, 3)) {
    case 0: status = hf_lock_complete(lock, NULL, NULL); break;
    case 1: status = hf_lock_fail(lock, "1", NULL); break;
    default: status = hf_lock_release(lock, NULL); break;
    }
    if (status != HF_OK)
        note_strange(storm, "ended", status);
}

static void sail(void *argument)
{
    struct sailor *sailor = argument;
    struct storm *storm = sailor->storm;
    struct prng prng = prng_seeded(sailor->number);
    struct peer *peer = sailor->number % 2 ? &storm->pair->one : &storm->pair->two;
    while (!atomic_load(&storm->stop)) {
        struct hf_lock *lock;
        unsigned name = (unsigned)prng_below(&prng, NAMES);
        char scope[16];
        snprintf(scope, sizeof scope, "storm%u", name);
        if (hf_lock_new(peer->client, scope, NULL, &lock, NULL) != HF_OK)
            break;
        enum hf_status status =
            prng_below(&prng, 5) == 0
                ? hf_lock_begin(lock, NULL)
                : hf_lock_acquire(lock, (int64_t)prng_below(&prng, 40), NULL);
        if (status == HF_OK) {
            hold_for_a_while(storm, lock, name, &prng);
            if (prng_below(&prng, 4) > 0)
                end_in_some_way(storm, lock, &prng);
        } else if (status != HF_HELD && status != HF_TIMEOUT && status != HF_UNSURE) {
            note_strange(storm, "asked for", status);
        } /* UNSURE: the machine was too slow; free gives back what it may hold */
        hf_lock_free(lock);
    }
}

static void many_threads_and_few_locks(void **state)
{
    struct hf_error error;
    struct storm storm = { .pair = *state };
    struct sailor sailors[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        sailors[i] = (struct sailor){ .storm = &storm, .number = i };
        MUST(env_task_start(env_real(), sail, &sailors[i], &sailors[i].task, &error));
    }
    pass_ms(2000);
    atomic_store(&storm.stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        env_task_join(env_real(), sailors[i].task);
    print_message("# %u grants\n", atomic_load(&storm.grants));
    assert_int_equal(atomic_load(&storm.strange), 0);
    ASSERT(atomic_load(&storm.grants) > 50);
}

/* One handle, used by many at once: calls on it are safe, if not sensible. */
static void meddle(void *argument)
{
    struct sailor *sailor = argument;
    struct prng prng = prng_seeded(sailor->number);
    struct hf_lock *lock = (struct hf_lock *)(void *)sailor->storm;
    char text[HF_LEASE_TEXT_MAX];
    for (int i = 0; i < 150; i++)
        switch (prng_below(&prng, 10)) {
        case 0: hf_lock_acquire(lock, 5, NULL); break;
        case 1: hf_lock_release(lock, NULL); break;
        case 2: hf_lock_renew(lock, NULL); break;
        case 3: hf_lock_check(lock, NULL); break;
        case 4: hf_lock_cancel(lock, NULL); break;
        case 5: hf_lock_begin(lock, NULL); break;
        case 6: hf_lock_poll(lock, NULL); break;
        case 7: hf_lock_text(lock, text, NULL); break;
        case 8: hf_lock_blocked(lock, 0); break;
        default:
            hf_lock_remaining_ms(lock);
            hf_lock_token(lock);
            break;
        }
}

static void many_threads_and_one_handle(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 200);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 0);
    struct sailor sailors[8];
    for (unsigned i = 0; i < 8; i++) {
        sailors[i] = (struct sailor){ .storm = (struct storm *)(void *)lock, .number = i };
        MUST(env_task_start(env_real(), meddle, &sailors[i], &sailors[i].task, &error));
    }
    for (unsigned i = 0; i < 8; i++)
        env_task_join(env_real(), sailors[i].task);
    hf_lock_free(lock);
    IS(HF_OK, hf_lock_acquire(other, 3000, NULL));
    hf_lock_free(other);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("a lock is kept for as long as it is held", a_lock_is_kept),
        PAIR("a lock is renewed at a third of its ttl", it_is_renewed_at_a_third),
        PAIR("a lease that ends before its first renewal starts no renewer",
             a_short_lease_starts_no_renewer),
        PAIR("a renewer that cannot be started is started later",
             a_renewer_that_cannot_start_is_started_later),
        PAIR("without renewal it ends, and that is told", without_renewal_it_ends),
        PAIR("many locks of many tables are kept", many_locks_of_many_tables_are_kept),
        PAIR("more ranges of one inode than a call carries are kept",
             more_ranges_than_one_call_carries),
        PAIR("a table that hangs holds up no other", a_table_that_hangs_holds_up_no_other),
        PAIR("danger is told, and when it is over", danger_then_safe),
        PAIR("the end is told before a takeover when the store refuses", gone_when_refused),
        PAIR("the end is told before a takeover when answers are lost", gone_when_lost),
        PAIR("the end is told before a takeover when the store hangs", gone_when_hanging),
        PAIR("the end is told before a takeover when we are shut out", gone_when_denied),
        PAIR("a broken lease is told at the next renewal", a_broken_lease_is_told),
        PAIR("each release of a lock that was lost is LOST, however often it was acquired",
             each_release_of_a_lost_lock_is_lost),
        PAIR("a released lock is not renewed, and tells nothing",
             a_released_lock_tells_nothing),
        PAIR("what was completed late, and without an answer, is told as done",
             what_we_completed_late_is_ours),
        PAIR("to free a handle is to give back what it holds", to_free_is_to_give_back),
        PAIR("to close a client is to have given back all", to_close_is_to_have_given_back),
        PAIR("to close takes a few seconds at most", to_close_takes_a_few_seconds_at_most),
        PAIR("a grant without an answer is had or given back", an_unsure_grant_is_given_back),
        PAIR("a grant that stays without an answer is given back when the store is there again",
             an_unsure_grant_is_given_back_later),
        PAIR("a grant that takes effect after the store denied another request is given back",
             a_grant_that_lands_after_a_denial_is_given_back),
        PAIR("a release that the store denies is made later",
             a_release_that_is_denied_is_made_later),
        PAIR("a release that was denied may be repeated by whoever has the lease as text",
             a_denied_release_by_text_may_be_repeated),
        PAIR("32 threads and 8 locks: one holder each, and tokens rise",
             many_threads_and_few_locks),
        PAIR("many threads may use one handle", many_threads_and_one_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
