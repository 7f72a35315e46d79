/* SPDX-License-Identifier: Apache-2.0 */
/* sim_table_test.c: a check that reads only the changed parts of a table sees the same as one
 * that reads all of it. */
#include "base/buffer.h"
#include "base/prng.h"
#include "sim/checkers/table_checker.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define ENTRIES_MAX 6

/* A table that changes from version to version: entries come, go, change, wait and are reserved. */
struct made {
    unsigned leases[ENTRIES_MAX], waiters[ENTRIES_MAX]; /* 0: not there; else what it says */
    unsigned wanted;
    unsigned reserved;
};

static void change(struct made *made, struct prng *random)
{
    size_t at = (size_t)prng_below(random, ENTRIES_MAX);
    switch (prng_below(random, 4)) {
    case 0: made->leases[at] = (unsigned)prng_below(random, 4); break;
    case 1: made->waiters[at] = (unsigned)prng_below(random, 4); break;
    case 2: made->wanted = (unsigned)prng_below(random, 3); break;
    default: made->reserved = (unsigned)prng_below(random, 1 << ENTRIES_MAX);
    }
}

static void write_leases(const struct made *made, struct buffer *text)
{
    const char *before = "";
    for (unsigned i = 0; i < ENTRIES_MAX; i++) {
        if (made->leases[i] == 0)
            continue;
        buffer_print(
            text,
            "%s\n\"l%u\":{\"lease_id\":\"l%u\",\"scopes\":[\"named:n%u\",\"range:%u:0-9\"],"
            "\"token\":%u,\"status\":\"%s\",\"note\":\"of %u\",\"else\":{\"a\":[1]}}",
            before, i, i, i, i, 10 + i, made->leases[i] == 1 ? "active" : "released",
            made->leases[i]);
        before = ",";
    }
}

/* One who waits says itself what for, or wants what the table says. */
static void write_waiters(const struct made *made, struct buffer *text)
{
    const char *before = "";
    for (unsigned i = 0; i < ENTRIES_MAX; i++) {
        if (made->waiters[i] == 0)
            continue;
        buffer_print(text, "%s\n{\"lease_id\":\"w%u\"", before, i);
        if (made->waiters[i] > 1)
            buffer_print(text, ",\"scopes\":[\"path:/%u\"],\"poll_ms\":%u", i,
                         made->waiters[i]);
        buffer_append_byte(text, '}');
        before = ",";
    }
}

static void write_table(const struct made *made, struct buffer *text)
{
    const char *before = "";
    buffer_clear(text);
    buffer_print(text, "{\"format\":\"f\",\"next_token\":99,\"reserved\":[");
    for (unsigned i = 0; i < ENTRIES_MAX; i++)
        if (made->reserved >> i & 1) {
            buffer_print(text, "%s\"w%u\"", before, i);
            before = ",";
        }
    buffer_print(text, "],\"settings\":{\"x\":1},\"leases\":{");
    write_leases(made, text);
    buffer_print(text, "},\"wanted\":{\"scopes\":[\"tree:/t%u\"],\"poll_ms\":%u},\"waiters\":[",
                 made->wanted, 100 + made->wanted);
    write_waiters(made, text);
    assert_true(buffer_print(text, "],\"audit\":[]}"));
}

static bool is_inside(struct view part, const struct checked_version *version, size_t size)
{
    return part.size == 0 ||
           (part.data >= version->text && part.data + part.size <= version->text + size);
}

static void entries_are_alike(const struct checked_entry *a, const struct checked_entry *b,
                              const struct checked_version *of_a, size_t size)
{
    assert_true(view_equal(a->id, b->id) && is_inside(a->id, of_a, size));
    assert_true(view_equal(a->bytes, b->bytes) && is_inside(a->bytes, of_a, size));
    assert_true(view_equal(a->status, b->status) && is_inside(a->status, of_a, size));
    assert_true(view_equal(a->note, b->note) && is_inside(a->note, of_a, size));
    assert_true(a->token == b->token && a->active == b->active && a->reserved == b->reserved &&
                a->poll_ms == b->poll_ms);
    assert_int_equal(a->wish.scope_count, b->wish.scope_count);
    for (size_t i = 0; i < a->wish.scope_count; i++) {
        const struct checked_scope *one = &a->wish.scopes[i], *other = &b->wish.scopes[i];
        assert_true(one->kind == other->kind && view_equal(one->name, other->name) &&
                    is_inside(one->name, of_a, size) && one->inode == other->inode &&
                    one->start == other->start && one->end == other->end);
    }
}

static void versions_are_alike(const struct checked_version *a, const struct checked_version *b,
                               size_t size)
{
    assert_int_equal(a->next_token, b->next_token);
    assert_int_equal(a->lease_count, b->lease_count);
    assert_int_equal(a->waiter_count, b->waiter_count);
    for (size_t i = 0; i < a->lease_count; i++)
        entries_are_alike(&a->leases[i], &b->leases[i], a, size);
    for (size_t i = 0; i < a->waiter_count; i++)
        entries_are_alike(&a->waiters[i], &b->waiters[i], a, size);
}

static void what_changed_is_seen(void **state)
{
    (void)state;
    struct prng random = prng_seeded(4);
    struct made made = { .leases = { 1 } };
    struct buffer text = BUFFER_INIT((size_t)1 << 16);
    struct checked_version *before = NULL;
    for (int i = 0; i < 3000; i++) {
        change(&made, &random);
        write_table(&made, &text);
        struct checked_version *now = checked_version_read(buffer_view(&text), before);
        struct checked_version *whole = checked_version_read(buffer_view(&text), NULL);
        assert_non_null(now);
        assert_non_null(whole);
        checked_version_free(before); /* nothing of the new one points into it */
        versions_are_alike(now, whole, text.size);
        checked_version_free(whole);
        before = now;
    }
    checked_version_free(before);
    buffer_release(&text);
}

static void a_table_that_ends_early_is_none(void **state)
{
    (void)state;
    struct made made = { .leases = { 1, 2, 0, 3 }, .waiters = { 1, 2 } };
    struct buffer text = BUFFER_INIT((size_t)1 << 16);
    write_table(&made, &text);
    struct checked_version *before = checked_version_read(buffer_view(&text), NULL);
    assert_non_null(before);
    for (size_t size = 0; size < text.size; size++)
        assert_null(checked_version_read(view_first(buffer_view(&text), size), before));
    checked_version_free(before);
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a table read with the version before it is as one that is read whole",
           what_changed_is_seen),
        IT("a table that ends early is none, though its start stood there before",
           a_table_that_ends_early_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
