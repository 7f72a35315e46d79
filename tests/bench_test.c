/* SPDX-License-Identifier: Apache-2.0 */
/* bench_test.c: the interval of a ratio in bench/bench.c, on data whose answer is known. */
#include "../bench/bench.h"
#include "test.h"

#include <string.h>

/* 1, 2, ... in an order that is not sorted. */
static struct series ramp(size_t count)
{
    struct series series = { .count = 0 };
    for (size_t i = 0; i < count; i++)
        series_add(&series, (double)(i * 7 % count + 1));
    return series;
}

static struct series ones(size_t count)
{
    struct series series = { .count = 0 };
    for (size_t i = 0; i < count; i++)
        series_add(&series, 1);
    return series;
}

static void assert_ratio(size_t pairs, double median, double low, double high)
{
    struct series ours = ramp(pairs), theirs = ones(pairs);
    struct ratio ratio = series_ratio_interval(&ours, &theirs);
    assert_int_equal(ratio.pairs, pairs);
    assert_float_equal(ratio.median, median, 1e-9);
    assert_float_equal(ratio.low, low, 1e-9);
    assert_float_equal(ratio.high, high, 1e-9);
}

static void the_interval_of_20_pairs_is_from_the_6th_to_the_15th(void **state)
{
    (void)state;
    assert_ratio(PAIRS, 10.5, 6, 15);
    assert_ratio(9, 5, 2, 8);
    assert_ratio(31, 16, 10, 22);
}

static void six_pairs_are_the_fewest_with_an_interval(void **state)
{
    char text[RATIO_TEXT_MAX];
    struct series five = ones(PAIRS_INTERVAL - 1), six = ones(PAIRS_INTERVAL), one = ones(1);
    (void)state;
    assert_ratio(PAIRS_INTERVAL, 3.5, 1, 6);
    assert_string_equal(ratio_text(series_ratio_interval(&six, &six), text),
                        "95 % interval 1 to 1, 6 pairs");
    assert_string_equal(ratio_text(series_ratio_interval(&five, &six), text),
                        "all from 1 to 1, 5 pairs");
    assert_string_equal(ratio_text(series_ratio_interval(&one, &six), text),
                        "all from 1 to 1, 1 pair");
}

static void a_round_that_one_side_lacks_is_no_pair(void **state)
{
    struct series ours = ones(3), theirs = ramp(20), none = { .count = 0 };
    (void)state;
    assert_int_equal(series_ratio_interval(&ours, &theirs).pairs, 3);
    assert_int_equal(series_ratio_interval(&ours, &none).pairs, 0);
}

static void a_ratio_is_of_the_two_of_one_round(void **state)
{
    struct series ours = ramp(20), theirs = ramp(20);
    (void)state;
    for (size_t i = 0; i < ours.count; i++)
        ours.values[i] *= 1.5;
    struct ratio ratio = series_ratio_interval(&ours, &theirs);
    assert_float_equal(ratio.low, 1.5, 1e-9);
    assert_float_equal(ratio.high, 1.5, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the interval of 20 pairs is from the 6th to the 15th",
           the_interval_of_20_pairs_is_from_the_6th_to_the_15th),
        IT("six pairs are the fewest with an interval",
           six_pairs_are_the_fewest_with_an_interval),
        IT("a round that one side lacks is no pair", a_round_that_one_side_lacks_is_no_pair),
        IT("a ratio is of the two of one round", a_ratio_is_of_the_two_of_one_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
