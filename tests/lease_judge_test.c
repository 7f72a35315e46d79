/* SPDX-License-Identifier: Apache-2.0 */
/* lease_judge_test.c: when a lease is over, and that its holder always knows it first. */
#include "base/prng.h"
#include "lease_kit.h"
#include "test.h"

#include <math.h>
#include <stdio.h>

/* A lease of ten seconds that ends at store time 1,000 s and was first seen at 2,000 s. */
#define END_US  INT64_C(1000000000)
#define SEEN_US INT64_C(2000000000)
#define TTL_US  INT64_C(10000000)

/* ttl * (1 + 200 ppm) + margin, and ttl * (1 - 200 ppm) - margin. */
#define WATCH_US INT64_C(10102000)
#define VALID_US INT64_C(9898000)

static struct lease example(void)
{
    return (struct lease){ .id = VIEW("a"),
                           .nonce = VIEW("n"),
                           .clock = VIEW(KIT_CLOCK),
                           .wish.ttl = { TTL_US },
                           .status = LEASE_ACTIVE,
                           .expires = { END_US },
                           .seen = { SEEN_US } };
}

/* We saw it just now; the store's clock is at least this. */
static struct evidence store_says(int64_t earliest_us)
{
    return (struct evidence){ .now = { SEEN_US },
                              .time_known = true,
                              .earliest = { earliest_us },
                              .latest = { earliest_us + 500000 },
                              .clock = VIEW(KIT_CLOCK),
                              .nonce = VIEW("m") };
}

/* So long after we first saw it, and nothing known of the store's time. */
static struct evidence watched_for(int64_t us)
{
    return (struct evidence){ .now = { SEEN_US + us }, .nonce = VIEW("m") };
}

static enum lease_proof judge(const struct lease_settings *settings, const struct lease *lease,
                              struct evidence evidence)
{
    return lease_judge(settings, lease, &evidence);
}

static void store_time_proves_it_past_end_and_tolerance(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    struct lease lease = example();
    const int64_t line = END_US + 2000000;
    assert_int_equal(judge(&settings, &lease, store_says(0)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, store_says(END_US + 1)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, store_says(line - 1)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, store_says(line)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, store_says(line + 1)), PROOF_STORE_TIME);
    assert_int_equal(judge(&settings, &lease, store_says(MOMENT_FAR)), PROOF_STORE_TIME);
}

static void the_latest_store_time_proves_nothing(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    struct lease lease = example();
    struct evidence evidence = store_says(END_US);
    evidence.latest = (struct store_time){ END_US * 2 };
    assert_int_equal(judge(&settings, &lease, evidence), PROOF_NONE);
}

static void watching_proves_it(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    struct lease lease = example();
    assert_int_equal(judge(&settings, &lease, watched_for(0)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, watched_for(TTL_US + 1)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, watched_for(WATCH_US - 1)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, watched_for(WATCH_US + 1)), PROOF_WATCHED);
    /* Time that runs backwards, or a table of the future, proves nothing. */
    assert_int_equal(judge(&settings, &lease, watched_for(-WATCH_US)), PROOF_NONE);
}

static void drift_and_margin_are_the_settings(void **state)
{
    (void)state;
    static const struct {
        uint32_t ppm;
        int64_t margin_us, ttl_us, watch_us, valid_us;
    } rows[] = {
        { 0, 0, 100000, 100000, 100000 },
        { 0, 7, 100000, 100007, 99993 },
        { 200, 0, 1000000, 1000200, 999800 },
        { 1000, 5, 3600000000, 3603600005, 3596399995 },
        { 500000, 0, 1000000, 1500000, 500000 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct lease_settings settings = kit_settings();
        settings.drift_ppm = rows[i].ppm;
        settings.margin.us = rows[i].margin_us;
        struct lease lease = example();
        lease.wish.ttl.us = rows[i].ttl_us;
        const int64_t line = rows[i].watch_us;
        assert_int_equal(judge(&settings, &lease, watched_for(line - 1)), PROOF_NONE);
        assert_int_equal(judge(&settings, &lease, watched_for(line + 1)), PROOF_WATCHED);
        struct evidence evidence = watched_for(0);
        struct mono_time until = lease_valid_until(&settings, lease.wish.ttl, &evidence);
        assert_in_range(until.us - SEEN_US, rows[i].valid_us - 1, rows[i].valid_us);
    }
}

static void rounding_never_helps_either_side(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    settings.margin.us = 0;
    for (int64_t ttl = 100000; ttl < 120000; ttl += 7) {
        struct lease lease = example();
        lease.wish.ttl.us = ttl;
        double drift = (double)ttl * 200e-6;
        int64_t watch = ttl + (int64_t)ceil(drift);
        struct evidence evidence = watched_for(0);
        int64_t valid = lease_valid_until(&settings, lease.wish.ttl, &evidence).us - SEEN_US;
        assert_true((double)valid <= (double)ttl - drift);
        assert_int_equal(judge(&settings, &lease, watched_for(watch - 1)), PROOF_NONE);
    }
}

static void another_clock_proves_nothing(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    static const char *const clocks[] = { "clock-b", "clock-", "clock-aa", "" };
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        struct lease lease = example();
        lease.clock = view_of(clocks[i]);
        assert_int_equal(judge(&settings, &lease, store_says(MOMENT_FAR)), PROOF_NONE);
        assert_int_equal(judge(&settings, &lease, watched_for(WATCH_US + 1)), PROOF_WATCHED);
    }
}

static void no_clock_on_either_side_proves_nothing(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    struct lease lease = example();
    struct evidence evidence = store_says(MOMENT_FAR);
    evidence.clock = VIEW("");
    assert_int_equal(judge(&settings, &lease, evidence), PROOF_NONE);
    /* Both empty are not the same clock. */
    lease.clock = VIEW("");
    assert_int_equal(judge(&settings, &lease, evidence), PROOF_NONE);
    lease.clock = (struct view){ NULL, 0 };
    assert_int_equal(judge(&settings, &lease, evidence), PROOF_NONE);
    evidence = store_says(MOMENT_FAR);
    evidence.time_known = false;
    lease = example();
    assert_int_equal(judge(&settings, &lease, evidence), PROOF_NONE);
}

static void a_lease_without_ttl_is_watched_for_the_longest(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    struct lease lease = example();
    lease.wish.ttl.us = 0;
    lease.clock = VIEW("");
    const int64_t line = INT64_C(3600000000) + 720000 + 100000;
    assert_int_equal(judge(&settings, &lease, watched_for(WATCH_US * 10)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, watched_for(line - 1)), PROOF_NONE);
    assert_int_equal(judge(&settings, &lease, watched_for(line + 1)), PROOF_WATCHED);
}

static void takeover_observed_ignores_store_time(void **state)
{
    (void)state;
    struct lease_settings settings = kit_settings();
    settings.watch_only = true;
    struct lease lease = example();
    assert_int_equal(judge(&settings, &lease, store_says(MOMENT_FAR)), PROOF_NONE);
    struct evidence both = store_says(MOMENT_FAR);
    both.now.us = SEEN_US + WATCH_US + 1;
    assert_int_equal(judge(&settings, &lease, both), PROOF_WATCHED);
}

static void the_more_careful_settings_win(void **state)
{
    (void)state;
    struct lease_settings a = kit_settings(), b = kit_settings();
    a.drift_ppm = 500;
    b.margin = SPAN_S(3);
    a.skew_tolerance = SPAN_S(30);
    b.ttl_max = SPAN_S(7200);
    b.late_bound = SPAN_S(48 * 3600);
    b.watch_only = true;
    for (int turn = 0; turn < 2; turn++) {
        struct lease_settings strict =
            turn ? lease_settings_stricter(&a, &b) : lease_settings_stricter(&b, &a);
        assert_int_equal(strict.drift_ppm, 500);
        assert_int_equal(strict.margin.us, 3000000);
        assert_int_equal(strict.skew_tolerance.us, 30000000);
        /* A foreign lease could be as long as the longer of the two allows. */
        assert_int_equal(strict.ttl_max.us, INT64_C(7200000000));
        assert_int_equal(strict.late_bound.us, INT64_C(48) * 3600 * 1000000);
        assert_true(strict.watch_only);
    }
}

static void the_defaults_are_those_of_the_design(void **state)
{
    (void)state;
    struct lease_settings settings = lease_settings_default();
    assert_int_equal(settings.drift_ppm, 200);
    assert_int_equal(settings.skew_tolerance.us, 30000000);
    assert_int_equal(settings.late_bound.us, INT64_C(24) * 3600 * 1000000);
    assert_true(settings.margin.us > 0 && settings.ttl_max.us >= 300000000);
    assert_false(settings.watch_only);
}

/* ---- When it will be provable -------------------------------------------------------- */

/* The same evidence a while later, on clocks that all run alike. */
static struct evidence later(struct evidence evidence, int64_t us)
{
    evidence.now.us += us;
    evidence.earliest.us += us;
    evidence.latest.us += us;
    return evidence;
}

static void the_foretold_moment_is_right(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(11);
    for (int i = 0; i < 20000; i++) {
        struct lease_settings settings = kit_settings();
        struct lease lease = example();
        settings.watch_only = prng_below(&prng, 4) == 0;
        lease.wish.ttl.us =
            prng_below(&prng, 8) == 0 ? 0 : (int64_t)prng_below(&prng, 60000000);
        if (prng_below(&prng, 4) == 0)
            lease.clock = VIEW("clock-b");
        struct evidence evidence =
            store_says(END_US + (int64_t)prng_below(&prng, 40000000) - 20000000);
        evidence.now.us += (int64_t)prng_below(&prng, 30000000);
        evidence.time_known = prng_below(&prng, 4) != 0;
        enum lease_proof proof = PROOF_NONE;
        struct mono_time at = lease_provable_at(&settings, &lease, &evidence, &proof);
        int64_t wait = at.us - evidence.now.us;
        assert_true(proof != PROOF_NONE);
        /* Allowed to be late by what our clock may be slower than the store's. */
        int64_t slack = 2 + (wait > 0 ? wait / 5000 : 0);
        struct evidence then = later(evidence, wait > 0 ? wait + slack : 1);
        assert_true(judge(&settings, &lease, then) != PROOF_NONE);
        if (wait > slack)
            assert_int_equal(judge(&settings, &lease, later(evidence, wait - slack)),
                             PROOF_NONE);
        if (judge(&settings, &lease, evidence) != PROOF_NONE)
            assert_true(wait <= 0);
    }
}

/* ---- The holder comes first ---------------------------------------------------------- */

/* A true time that nobody sees, and clocks that follow it as badly as they may: two boot-time
 * clocks, and the store's, of which any reply may be wrong by half the tolerance. Any two rates
 * differ by at most the drift. */
struct universe {
    double holder_rate, contender_rate, store_rate;
    double holder_start, contender_start, store_start;
    double skew;
};

#define RATE_MAX 100e-6

/* Half of the draws are at an end of the allowed, where mistakes live. */
static double draw_between(struct prng *prng, double low, double high)
{
    uint64_t kind = prng_below(prng, 4);
    if (kind < 2)
        return kind ? high : low;
    return low + (high - low) * (double)prng_below(prng, 1000001) / 1e6;
}

static struct universe draw_universe(struct prng *prng)
{
    return (struct universe){
        .holder_rate = 1 + draw_between(prng, -RATE_MAX, RATE_MAX),
        .contender_rate = 1 + draw_between(prng, -RATE_MAX, RATE_MAX),
        .store_rate = 1 + draw_between(prng, -RATE_MAX, RATE_MAX),
        .holder_start = draw_between(prng, 0, 1e12),
        .contender_start = draw_between(prng, 0, 1e12),
        .store_start = draw_between(prng, 0, 1.7e15),
        .skew = 2e6,
    };
}

/* What one machine knows at a true time: never wrong, possibly very vague. */
static struct evidence knows(const struct universe *u, struct prng *prng, double start,
                             double rate, double at)
{
    double store = u->store_start + at * u->store_rate;
    double reply = store + draw_between(prng, -u->skew / 2, u->skew / 2);
    double vague = draw_between(prng, 0, 5e6);
    return (struct evidence){
        .now = { (int64_t)floor(start + at * rate) },
        .time_known = true,
        .earliest = { (int64_t)floor(reply - vague) },
        .latest = { (int64_t)ceil(reply + draw_between(prng, 0, 5e6)) },
        .clock = VIEW(KIT_CLOCK),
        .wall = { INT64_C(1770372000000000) },
        .nonce = kit_at(0).nonce,
    };
}

/* One grant or renewal; then the contender looks again and again while the holder is valid. */
static void contend(struct prng *prng, bool renewed)
{
    struct universe u = draw_universe(prng);
    struct lease_settings settings = kit_settings();
    settings.margin.us = (int64_t)prng_below(prng, 3) * 50000;
    settings.watch_only = prng_below(prng, 8) == 0;
    int64_t ttl = 200000 + 1000 * (int64_t)prng_below(prng, 3600000 - 200);
    struct hf_error error;
    struct table_op op;
    struct lease_table *table = table_new(&settings, 1, &error), *seen = NULL;
    assert_non_null(table);
    double t0 = draw_between(prng, 0, 1e11);
    struct evidence began = knows(&u, prng, u.holder_start, u.holder_rate, t0);
    struct wish wish = { .id = "s-1", .scopes = "named:x", .ttl_us = ttl };
    assert_status(HF_OK, kit_acquire(table, &op, began, wish), &op.error);
    if (renewed) {
        t0 += draw_between(prng, 0, (double)ttl / 2);
        began = knows(&u, prng, u.holder_start, u.holder_rate, t0);
        uint64_t token = op.granted;
        assert_status(HF_OK, kit_do(table, &op, began, TABLE_RENEW, "s-1", token), &op.error);
    }
    struct mono_time until = lease_valid_until(&settings, (struct span){ ttl }, &began);
    assert_true(until.us <= began.now.us + ttl);

    /* The reply that first shows it arrives at t0 at the earliest. */
    double shown = t0 + draw_between(prng, 0, 1e6);
    double arrived = floor(u.contender_start + shown * u.contender_rate);
    struct buffer text = kit_encode(table);
    assert_status(HF_OK,
                  table_decode(buffer_view(&text), (struct mono_time){ (int64_t)arrived }, NULL,
                               &seen, &error),
                  &error);
    const struct lease *lease = kit_lease(seen, "s-1");
    assert_int_equal(lease->wish.ttl.us, ttl);
    double end = ((double)until.us - u.holder_start) / u.holder_rate;
    for (int look = 0; look < 8 && end > shown; look++) {
        double at = draw_between(prng, shown, end - 2);
        struct evidence there = knows(&u, prng, u.contender_start, u.contender_rate, at);
        if (at >= shown && judge(&settings, lease, there) != PROOF_NONE)
            fail_msg("over for the contender %.0f us before the end of the holder", end - at);
    }
    buffer_release(&text);
    table_free(seen);
    table_free(table);
}

static void the_holder_is_always_first(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(5);
    for (int i = 0; i < 40000; i++)
        contend(&prng, i % 2 == 1);
}

/* The other side: what nobody renews does come to an end, within a bound. */
static void a_dead_lease_is_over_in_the_end(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(6);
    struct lease_settings settings = kit_settings();
    for (int i = 0; i < 5000; i++) {
        struct universe u = draw_universe(&prng);
        struct evidence began = knows(&u, &prng, u.holder_start, u.holder_rate, 0);
        struct lease lease = example();
        lease.expires.us = began.latest.us + TTL_US;
        struct evidence first = knows(&u, &prng, u.contender_start, u.contender_rate, 0);
        lease.seen = first.now;
        double bound = (double)WATCH_US * 1.0002 + 2;
        struct evidence then = knows(&u, &prng, u.contender_start, u.contender_rate, bound);
        assert_true(judge(&settings, &lease, then) != PROOF_NONE);
    }
}

static void odd_ttls_are_the_same_for_both_sides(void **state)
{
    (void)state;
    for (int64_t ttl = 150000; ttl < 151000; ttl += 111) {
        struct lease_table *table = kit_table();
        struct table_op op;
        struct wish wish = { .id = "s-1", .scopes = "named:x", .ttl_us = ttl };
        enum hf_status status = kit_acquire(table, &op, kit_at(0), wish);
        if (status == HF_OK) {
            table = kit_reload_afresh(table, 0);
            /* Whoever reads it must not think it shorter than its holder does. */
            assert_true(kit_lease(table, "s-1")->wish.ttl.us >= ttl);
        } else {
            assert_int_equal(status, HF_INVALID);
        }
        table_free(table);
    }
}

/* Evidence of one who has had no answer yet that tells the store's time. */
static struct evidence kit_without_time(int64_t ms)
{
    struct evidence evidence = kit_at(ms);
    evidence.time_known = false;
    return evidence;
}

static void once_per_asks_for_the_time(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = { .id = "a-1", .scopes = "named:x", .once_per = SPAN_S(3600) };
    assert_int_equal(kit_acquire(table, &op, kit_at(0), wish), HF_OK);
    uint64_t token = op.granted;
    assert_int_equal(kit_do(table, &op, kit_without_time(1), TABLE_COMPLETE, "a-1", token),
                     HF_UNAVAILABLE);
    assert_true(op.needs_time && op.changed);
    assert_int_equal(kit_do(table, &op, kit_at(2), TABLE_COMPLETE, "a-1", token), HF_OK);
    wish.id = "b-1";
    assert_int_equal(kit_acquire(table, &op, kit_without_time(3), wish), HF_UNAVAILABLE);
    assert_true(op.needs_time && op.changed);
    /* A store that has no clock never tells. */
    struct evidence clockless = kit_without_time(4);
    clockless.clock = VIEW("");
    assert_int_equal(kit_acquire(table, &op, clockless, wish), HF_ALREADY);
    assert_false(op.needs_time);
    table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("what is done once a period asks for the store's time first",
           once_per_asks_for_the_time),
        IT("store time proves the end once it is past expiry and tolerance, not at it",
           store_time_proves_it_past_end_and_tolerance),
        IT("the latest that store time can be proves nothing",
           the_latest_store_time_proves_nothing),
        IT("a lease watched unchanged for ttl, drift and margin is over, not a microsecond "
           "before",
           watching_proves_it),
        IT("drift and margin are those of the settings, on both sides",
           drift_and_margin_are_the_settings),
        IT("rounding favours neither the holder nor the contender",
           rounding_never_helps_either_side),
        IT("the time of another clock proves nothing", another_clock_proves_nothing),
        IT("no clock on either side proves nothing", no_clock_on_either_side_proves_nothing),
        IT("a lease without ttl is watched for the longest ttl",
           a_lease_without_ttl_is_watched_for_the_longest),
        IT("takeover=observed ignores store time", takeover_observed_ignores_store_time),
        IT("of two settings the more careful of each is taken", the_more_careful_settings_win),
        IT("the defaults are those of the design", the_defaults_are_those_of_the_design),
        IT("the moment at which a proof will be there is foretold",
           the_foretold_moment_is_right),
        IT("a holder's bound comes before any contender's proof, whatever clocks and delays do",
           the_holder_is_always_first),
        IT("a dead lease is over in the end", a_dead_lease_is_over_in_the_end),
        IT("a ttl of odd microseconds is never shorter for who reads it",
           odd_ttls_are_the_same_for_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
