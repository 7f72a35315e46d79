/* SPDX-License-Identifier: Apache-2.0 */
/* clock_test.c: the range of the store's clock, computed from the dates of its replies. */
#include "doc/clock.h"
#include "test.h"

/* ---- A world where only the boot-time clock matters ---------------------------------- */

struct world {
    struct env env; /* must stand first */
    int64_t now_us;
};

static struct mono_time world_now(struct env *env)
{
    return (struct mono_time){ ((struct world *)(void *)env)->now_us };
}

static struct wall_time world_wall(struct env *env)
{
    (void)env;
    return (struct wall_time){ 77 };
}

static const char *world_boot_id(struct env *env)
{
    (void)env;
    return "boot-1";
}

static void world_mutex(struct env_mutex *mutex)
{
    (void)mutex;
}

static const struct env_ops world_ops = {
    .now = world_now,
    .wall = world_wall,
    .boot_id = world_boot_id,
    .mutex_init = world_mutex,
    .mutex_release = world_mutex,
    .mutex_lock = world_mutex,
    .mutex_unlock = world_mutex,
};

static struct world world;
static struct store store;
static struct doc_clock the_clock;

static void begin(enum store_clock kind)
{
    world = (struct world){ .env = { &world_ops }, .now_us = 1000 };
    store = (struct store){ .env = &world.env, .traits = { .clock = kind } };
    clock_init(&the_clock, &store);
}

static struct evidence evidence(void)
{
    struct evidence evidence = { .nonce = VIEW("untouched"), .time_known = true };
    clock_evidence(&the_clock, &evidence);
    return evidence;
}

/* The store's clock stands `ahead_us` before ours, and tells it in whole seconds; the reply is
 * made at `made_us`. The boot-time clock stands at `received_us` afterwards. */
static void reply(int64_t ahead_us, int64_t sent_us, int64_t made_us, int64_t received_us)
{
    int64_t true_us = made_us + ahead_us;
    struct store_stamp stamp = { .known = true,
                                 .date = { true_us - true_us % 1000000 },
                                 .sent = { sent_us },
                                 .received = { received_us } };
    world.now_us = received_us;
    clock_learn(&the_clock, &stamp);
}

#define S INT64_C(1000000)

/* ---- Tests --------------------------------------------------------------------------- */

static void nothing_known(void **state)
{
    (void)state;
    begin(STORE_CLOCK_DATE);
    struct evidence now = evidence();
    assert_false(now.time_known);
    assert_int_equal(now.now.us, 1000);
    assert_int_equal(now.wall.us, 77);
    assert_true(view_equal(now.clock, VIEW("store")));
    assert_true(view_equal(now.nonce, VIEW("untouched")));
    struct store_stamp silent = { .known = false, .date = { 5 } };
    clock_learn(&the_clock, &silent);
    assert_false(evidence().time_known);
    struct clock_sample samples[CLOCK_SAMPLES];
    assert_int_equal(clock_samples(&the_clock, samples), 0);
}

/* A read may come out of a cache; a write that was done and tells no time says that there is
 * none. */
static void no_dates_at_all(void **state)
{
    (void)state;
    struct store_stamp undated = { .received = { 5 } },
                       cached = { .known = true, .cached = true };
    begin(STORE_CLOCK_DATE);
    clock_learn(&the_clock, &cached);
    clock_learn_from_write(&the_clock, &undated, /* done */ false);
    assert_true(view_equal(evidence().clock, VIEW("store")));
    clock_learn_from_write(&the_clock, &undated, /* done */ true);
    assert_true(view_equal(evidence().clock, VIEW("")));
    reply(500 * S, 10 * S, 10 * S, 10 * S + 50000);
    assert_true(view_equal(evidence().clock, VIEW("store")));
}

static void one_reply(void **state)
{
    (void)state;
    begin(STORE_CLOCK_DATE);
    reply(500 * S + 250000, 10 * S, 10 * S + 30000, 10 * S + 50000);
    struct evidence now = evidence();
    assert_true(now.time_known);
    /* The date says 510 s. At the soonest it was made just before it came, and cut by nothing;
     * at the latest when it was asked for, and cut by a second. */
    assert_int_equal(now.earliest.us, 510 * S);
    assert_int_equal(now.latest.us, 511 * S + 50000);
}

static void holds_the_truth(void **state)
{
    (void)state;
    for (int64_t ahead = -3 * S; ahead <= 3 * S; ahead += 123457) {
        begin(STORE_CLOCK_DATE);
        int64_t at = 100 * S;
        for (int i = 0; i < 40; i++, at += 777777) {
            reply(ahead, at, at + (i * 7919) % 90000, at + 90000);
            struct evidence now = evidence();
            assert_true(now.earliest.us <= now.now.us + ahead);
            assert_true(now.latest.us >= now.now.us + ahead);
            assert_true(now.latest.us - now.earliest.us <= 3 * S);
        }
    }
}

static void front_ends_disagree(void **state)
{
    (void)state;
    begin(STORE_CLOCK_DATE);
    reply(100 * S, 10 * S, 10 * S, 10 * S);
    reply(130 * S, 11 * S, 11 * S, 11 * S);
    struct evidence now = evidence();
    /* No moment suits both: each counts. */
    assert_in_range(now.earliest.us, 111 * S - 1000, 111 * S);
    assert_in_range(now.latest.us, 142 * S, 142 * S + 1000);
}

static void a_stale_date(void **state)
{
    (void)state;
    begin(STORE_CLOCK_DATE);
    reply(100 * S, 10 * S, 10 * S, 10 * S);
    struct evidence before = evidence();
    reply(40 * S, 10 * S, 10 * S, 10 * S); /* a minute old */
    struct evidence after = evidence();
    assert_int_equal(after.latest.us, before.latest.us);
    assert_int_equal(after.earliest.us, before.earliest.us - 60 * S);
}

static void forgets_the_oldest(void **state)
{
    (void)state;
    begin(STORE_CLOCK_DATE);
    reply(900 * S, 10 * S, 10 * S, 10 * S); /* from a front end that went away */
    for (int64_t i = 1; i < CLOCK_SAMPLES; i++)
        reply(100 * S, (10 + i) * S, (10 + i) * S, (10 + i) * S);
    assert_true(evidence().latest.us > 900 * S);
    reply(100 * S, 30 * S, 30 * S, 30 * S);
    assert_in_range(evidence().latest.us, 131 * S, 131 * S + 10000);
    struct clock_sample samples[CLOCK_SAMPLES];
    assert_int_equal(clock_samples(&the_clock, samples), CLOCK_SAMPLES);
    assert_int_equal(samples[0].taken.us, 30 * S);
    for (size_t i = 1; i < CLOCK_SAMPLES; i++)
        assert_true(samples[i].taken.us < samples[i - 1].taken.us);
    assert_int_equal(samples[CLOCK_SAMPLES - 1].taken.us, 11 * S);
}

static void few_samples_are_listed(void **state)
{
    (void)state;
    begin(STORE_CLOCK_DATE);
    reply(100 * S, 10 * S, 10 * S, 10 * S);
    reply(100 * S, 20 * S, 20 * S, 20 * S);
    struct clock_sample samples[CLOCK_SAMPLES];
    assert_int_equal(clock_samples(&the_clock, samples), 2);
    assert_int_equal(samples[0].taken.us, 20 * S);
    assert_int_equal(samples[1].taken.us, 10 * S);
    assert_int_equal(samples[1].offset_min_us, 100 * S);
    assert_int_equal(samples[1].offset_max_us, 101 * S);
}

/* Both clocks drift, and what was known is known less well. */
static void drifts(void **state)
{
    (void)state;
    begin(STORE_CLOCK_DATE);
    reply(100 * S, 10 * S, 10 * S, 10 * S);
    struct evidence then = evidence();
    for (int64_t age = 1; age < 1000000; age = age * 3 + 1) {
        world.now_us = (10 + age) * S;
        struct evidence now = evidence();
        int64_t wider = age * CLOCK_DRIFT_PPM;
        assert_in_range(then.earliest.us + age * S - now.earliest.us, wider,
                        wider + CLOCK_DRIFT_PPM);
        assert_in_range(now.latest.us - then.latest.us - age * S, wider,
                        wider + CLOCK_DRIFT_PPM);
    }
    world.now_us = 10 * S + 1; /* less than a second is not nothing */
    assert_true(evidence().latest.us > then.latest.us + 1);
}

static void a_sample_from_just_now(void **state)
{
    (void)state;
    begin(STORE_CLOCK_DATE);
    reply(100 * S, 10 * S, 10 * S, 10 * S + 50);
    world.now_us = 10 * S; /* another task read the clock before that reply came */
    struct evidence now = evidence();
    assert_int_equal(now.earliest.us, 110 * S - 50);
    assert_int_equal(now.latest.us, 111 * S);
}

static void local(void **state)
{
    (void)state;
    begin(STORE_CLOCK_BOOT);
    world.now_us = 42 * S;
    struct evidence now = evidence();
    assert_true(now.time_known);
    assert_int_equal(now.earliest.us, 42 * S);
    assert_int_equal(now.latest.us, 42 * S);
    assert_true(view_equal(now.clock, VIEW("boot-1")));
    reply(100 * S, 50 * S, 50 * S, 50 * S);
    assert_int_equal(evidence().latest.us, 50 * S);
    struct clock_sample samples[CLOCK_SAMPLES];
    assert_int_equal(clock_samples(&the_clock, samples), 0);
}

static void none(void **state)
{
    (void)state;
    begin(STORE_CLOCK_NONE);
    reply(100 * S, 50 * S, 50 * S, 50 * S);
    struct evidence now = evidence();
    assert_false(now.time_known);
    assert_int_equal(now.clock.size, 0);
    assert_int_equal(now.now.us, 50 * S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("without a date nothing is known", nothing_known),
        IT("a write that tells no time says that there is none", no_dates_at_all),
        IT("one reply gives an interval: its date, its way, the second it was cut to",
           one_reply),
        IT("the interval always holds the truth", holds_the_truth),
        IT("where front ends disagree each counts", front_ends_disagree),
        IT("a stale date widens the interval to the past only", a_stale_date),
        IT("only the last samples count", forgets_the_oldest),
        IT("samples are listed newest first", few_samples_are_listed),
        IT("what was known drifts", drifts),
        IT("a sample newer than the moment asked about does not narrow it",
           a_sample_from_just_now),
        IT("on a local store the clock is the boot-time clock, exactly", local),
        IT("a store without a clock tells nothing", none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
