/* SPDX-License-Identifier: Apache-2.0 */
/* s3_listed_test.c: the names of a listing without an order, sorted in bounded memory. */
#include "store/s3/listed.h"
#include "test.h"

#include <stdio.h>

/* Adds the names of 0 to count - 1 in an order that has nothing to do with theirs; some twice. */
static void add_scattered(struct listed *names, size_t count)
{
    char text[24];
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "n%08zu", i * 7919 % count);
        struct list_entry entry = { .key = view_of(text), .info = { .size = i } };
        assert_true(listed_add(names, &entry));
        if (i % 1000 == 0)
            assert_true(listed_add(names, &entry));
    }
    assert_true(listed_end(names));
}

static void assert_first_names(const struct listed *names, size_t count)
{
    char text[24];
    assert_int_equal(names->count, count);
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "n%08zu", i);
        assert_true(view_equal(names->entries[i].key, view_of(text)));
    }
}

static void names_are_sorted_and_stand_once(void **state)
{
    (void)state;
    struct listed names = { .arena = ARENA_INIT };
    assert_true(listed_end(&names));
    assert_int_equal(listed_find(&names, VIEW("a"), false), 0);
    add_scattered(&names, 5000);
    assert_first_names(&names, 5000);
    assert_false(names.cut);
    assert_int_equal(listed_find(&names, VIEW(""), false), 0);
    assert_int_equal(listed_find(&names, VIEW("n00000042"), false), 42);
    assert_int_equal(listed_find(&names, VIEW("n00000042"), true), 43);
    assert_int_equal(listed_find(&names, VIEW("n00000042x"), false), 43);
    assert_int_equal(listed_find(&names, VIEW("o"), false), 5000);
    listed_release(&names);
}

static void the_first_are_kept_of_too_many(void **state)
{
    (void)state;
    static const size_t counts[] = { LISTED_MAX, LISTED_MAX + 1, 5 * LISTED_MAX };
    for (size_t i = 0; i < 3; i++) {
        struct listed names = { .arena = ARENA_INIT };
        add_scattered(&names, counts[i]);
        assert_first_names(&names, LISTED_MAX);
        assert_int_equal(names.cut, counts[i] > LISTED_MAX);
        assert_true(names.capacity <= 2 * LISTED_MAX);
        listed_release(&names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("names are sorted, and one that was listed twice stands once",
           names_are_sorted_and_stand_once),
        IT("of too many names the first are kept", the_first_are_kept_of_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
