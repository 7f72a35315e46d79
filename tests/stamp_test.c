/* SPDX-License-Identifier: Apache-2.0 */
/* stamp_test.c: moments in documents, and when a span has certainly passed. */
#include "base/stamp.h"

#include "catalog_kit.h"
#include "test.h"

#include <string.h>

#define SKEW SPAN_S(30)
#define HOUR SPAN_S(3600)

static void is_the_latest(void **state)
{
    (void)state;
    struct evidence now = catalog_kit_at(100);
    struct stamp stamp = stamp_now(&now);
    assert_int_equal(stamp.us, 101000000);
    assert_true(stamp.clock != 0);
    assert_true(stamp_is_readable(stamp, &now));
    struct evidence other = kit_at_clock(100, "clock-b");
    assert_false(stamp_is_readable(stamp, &other));
    struct evidence nothing = kit_at_clock(100, "");
    assert_false(stamp_is_readable(stamp, &nothing));
    assert_int_equal(stamp_now(&nothing).clock, 0);
    assert_false(stamp_is_readable(stamp_now(&nothing), &nothing));
}

static bool passed(struct stamp stamp, int64_t seen, struct evidence at)
{
    return stamp_passed(stamp, (struct mono_time){ seen * 1000000 }, HOUR, SKEW, &at);
}

static void passes_by_the_store(void **state)
{
    (void)state;
    struct evidence then = catalog_kit_at(100);
    struct stamp stamp = stamp_now(&then);
    assert_false(passed(stamp, 3700, catalog_kit_at(100 + 3600)));
    assert_false(passed(stamp, 3700, catalog_kit_at(101 + 3600 + 30)));
    assert_true(passed(stamp, 3700, catalog_kit_at(102 + 3600 + 30)));
}

static void passes_by_watching(void **state)
{
    (void)state;
    struct evidence then = catalog_kit_at(100);
    struct stamp stamp = stamp_now(&then);
    /* 200 ppm of an hour are 720 ms, and 50 ms of margin. */
    struct evidence later = kit_at_clock(0, "clock-b");
    later.now.us = INT64_C(200000000) + 3600770000 - 1;
    assert_false(passed(stamp, 200, later));
    later.now.us++;
    assert_true(passed(stamp, 200, later));
}

static void another_clock_proves_nothing(void **state)
{
    (void)state;
    struct evidence then = catalog_kit_at(100);
    struct stamp stamp = stamp_now(&then);
    assert_false(passed(stamp, 1000000, kit_at_clock(1000000, "clock-b")));
    assert_false(passed(stamp, 1000000, kit_at_clock(1000000, "")));
    assert_false(passed((struct stamp){ 0, 0 }, 1000000, catalog_kit_at(1000000)));
}

static void has_an_age(void **state)
{
    (void)state;
    struct evidence then = catalog_kit_at(100), later = catalog_kit_at(160),
                    sooner = catalog_kit_at(99);
    struct stamp stamp = stamp_now(&then);
    assert_int_equal(stamp_age(stamp, HOUR, &later).us, 59000000);
    assert_int_equal(stamp_age(stamp, HOUR, &sooner).us, 0);
    struct evidence other = kit_at_clock(160, "clock-b");
    assert_int_equal(stamp_age(stamp, HOUR, &other).us, HOUR.us);
    assert_int_equal(stamp_age(stamp, SPAN_US(0), &other).us, 0);
}

static void survives_as_text(void **state)
{
    (void)state;
    struct stamp stamp = { UINT64_C(0x0f86d081884c7d65), INT64_C(1763200000000000) }, again;
    char text[STAMP_TEXT_MAX];
    assert_string_equal(stamp_text(stamp, text), "0f86d081884c7d65:1763200000000000");
    assert_true(stamp_parse(view_of(text), &again));
    assert_memory_equal(&stamp, &again, sizeof stamp);
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       ":",
                                       "0f86d081884c7d65",
                                       "0f86d081884c7d65:",
                                       "0f86d081884c7d6:12",
                                       "0f86d081884c7d6g:12",
                                       "0f86d081884c7d65:-1",
                                       "0f86d081884c7d65:1x",
                                       "0f86d081884c7d65:9223372036854775807",
                                       "0f86d081884c7d65 12" };
    struct stamp stamp = { 7, 8 };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(stamp_parse(view_of(bad[i]), &stamp));
    assert_int_equal(stamp.clock, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a stamp is the latest that the store's clock can be, and names the clock",
           is_the_latest),
        IT("a span has passed once the earliest time is past it and the tolerance",
           passes_by_the_store),
        IT("a span has passed once it was watched, with the drift of clocks",
           passes_by_watching),
        IT("a stamp of another clock proves nothing by itself", another_clock_proves_nothing),
        IT("its age is the least that it can be, and what is asked for when unreadable",
           has_an_age),
        IT("a stamp survives as text", survives_as_text),
        IT("texts that are no stamp are refused", bad_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
