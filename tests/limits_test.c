/* SPDX-License-Identifier: Apache-2.0 */
/* limits_test.c: the recorded limit of the length of leases, as a pure type. */
#include "lock/limits.h"

#include "test.h"

static const struct limit_policy policy = { .floor = { 60000000 },
                                            .period = { INT64_C(86400000000) } };

static struct lease_settings settings_of(bool watch_only)
{
    struct lease_settings settings = lease_settings_default();
    settings.skew_tolerance = SPAN_S(2);
    settings.watch_only = watch_only;
    return settings;
}

/* The store's clock is between so many seconds and one more. */
static struct evidence at(int64_t seconds, const char *clock)
{
    return (struct evidence){ .now = { seconds * 1000000 },
                              .time_known = clock != NULL,
                              .earliest = { seconds * 1000000 },
                              .latest = { (seconds + 1) * 1000000 },
                              .clock = view_of(clock ? clock : ""),
                              .nonce = VIEW("") };
}

static bool found(const struct limits *limits, int64_t ttl_s, struct evidence evidence)
{
    struct lease_settings settings = settings_of(false);
    struct ttl_limit limit;
    return limits_find(limits, &settings, SPAN_S(ttl_s), &policy, &evidence, &limit);
}

static void record(struct limits *limits, int64_t ttl_s, struct evidence evidence)
{
    struct lease_settings settings = settings_of(false);
    limits_record(limits, &settings, SPAN_S(ttl_s), &policy, &evidence);
}

static void drop(struct limits *limits, struct evidence evidence)
{
    struct lease_settings settings = settings_of(false);
    limits_drop_over(limits, &settings, &evidence);
}

static void a_limit_covers_what_is_shorter(void **state)
{
    (void)state;
    struct limits limits = { 0 };
    assert_false(found(&limits, 1, at(100, "a")));
    record(&limits, 30, at(100, "a"));
    assert_int_equal(limits_longest(&limits).us, 60000000); /* rounded up */
    assert_true(found(&limits, 1, at(100, "a")) && found(&limits, 60, at(100, "a")));
    assert_false(found(&limits, 61, at(100, "a")));
    record(&limits, 61, at(100, "a"));
    assert_int_equal(limits_longest(&limits).us, 120000000);
    record(&limits, 3600, at(100, "a"));
    assert_int_equal(limits.count, 3);
    record(&limits, 3600, at(200, "a"));
    assert_int_equal(limits.count, 3);
}

static void a_limit_ends_on_the_stores_clock(void **state)
{
    (void)state;
    struct limits limits = { 0 };
    struct lease_settings settings = settings_of(false);
    record(&limits, 60, at(100, "a"));
    struct ttl_limit limit = limits.of[0];
    struct evidence last = at(100 + 86400, "a"), past = at(101 + 86400, "a");
    struct evidence other = at(100, "b"), none = at(100, NULL);
    assert_true(ttl_limit_allows(&limit, &settings, SPAN_S(60), &last));
    assert_false(ttl_limit_allows(&limit, &settings, SPAN_S(60), &past));
    assert_false(ttl_limit_allows(&limit, &settings, SPAN_S(60), &other));
    assert_false(ttl_limit_allows(&limit, &settings, SPAN_S(60), &none));
    assert_false(ttl_limit_allows(&limit, &settings, SPAN_US(60000001), &last));
    assert_true(found(&limits, 60, at(100 + 43200, "a")));
    assert_false(found(&limits, 60, at(101 + 43200, "a"))); /* to be recorded anew */
}

static void it_is_dropped_once_its_leases_are_over(void **state)
{
    (void)state;
    struct limits limits = { 0 };
    record(&limits, 60, at(100, "a"));
    record(&limits, 3600, at(100, "a"));
    int64_t end = 101 + 86400 + 3600 + 2; /* used until then, for an hour, and the tolerance */
    drop(&limits, at(end, "a"));
    assert_int_equal(limits_longest(&limits).us, 3600000000);
    drop(&limits, at(end + 9999999, "b"));
    assert_int_equal(limits_longest(&limits).us, 3600000000);
    drop(&limits, at(end + 1, "a"));
    assert_int_equal(limits_longest(&limits).us, 60000000);
    drop(&limits, at(end + 9999999, "a")); /* the shortest stays */
    assert_int_equal(limits.count, 1);
}

/* After a boot the clock is another one. */
static void one_of_another_clock_is_taken_over(void **state)
{
    (void)state;
    struct limits limits = { 0 };
    record(&limits, 3600, at(100, "a"));
    record(&limits, 60, at(50, "b"));
    assert_true(found(&limits, 3600, at(50, "b")));
    int64_t end = 51 + 86400 + 86 + 3600 + 2;
    drop(&limits, at(end, "b"));
    assert_int_equal(limits.count, 2);
    drop(&limits, at(end + 2, "b"));
    assert_int_equal(limits_longest(&limits).us, 60000000);
}

static void without_a_clock_it_is_for_ever(void **state)
{
    (void)state;
    struct limits limits = { 0 }, watched = { 0 };
    struct lease_settings settings = settings_of(true);
    struct evidence evidence = at(100, "a");
    struct ttl_limit limit;
    record(&limits, 60, at(100, NULL));
    record(&limits, 3600, at(100, "a"));
    drop(&limits, at(99999999, "a"));
    assert_int_equal(limits.count, 1);
    assert_true(found(&limits, 60, at(99999999, "b")));
    limits_record(&watched, &settings, SPAN_S(60), &policy, &evidence);
    assert_true(limits_find(&watched, &settings, SPAN_S(60), &policy, &evidence, &limit));
    assert_true(limit.until.clock == 0);
}

static void when_there_are_too_many_two_become_one(void **state)
{
    (void)state;
    struct limits limits = { 0 };
    for (int64_t i = 1; i <= 3 * LIMITS_MAX; i++) {
        limits_add(&limits, (struct ttl_limit){ SPAN_S(i), { 7, i } });
        assert_true(limits.count <= LIMITS_MAX);
        assert_int_equal(limits_longest(&limits).us, i * 1000000);
        for (size_t j = 1; j < limits.count; j++)
            assert_true(limits.of[j - 1].ttl.us < limits.of[j].ttl.us);
    }
    limits_add(&limits, (struct ttl_limit){ SPAN_S(1), { 7, 99 } });
    assert_int_equal(limits.count, LIMITS_MAX);
    bool kept = false;
    for (size_t i = 0; i < limits.count; i++)
        kept = kept || limits.of[i].until.us == 99;
    assert_true(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a limit covers what is shorter", a_limit_covers_what_is_shorter),
        IT("a limit ends on the store's clock", a_limit_ends_on_the_stores_clock),
        IT("it is dropped once every lease under it is over, but for the shortest",
           it_is_dropped_once_its_leases_are_over),
        IT("one of another clock is taken over", one_of_another_clock_is_taken_over),
        IT("without a clock it is for ever", without_a_clock_it_is_for_ever),
        IT("when there are too many two become one", when_there_are_too_many_two_become_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
