/* SPDX-License-Identifier: Apache-2.0 */
/* store_contract_listings.c: listings: order, pages, prefixes, groups. */
#include "store_contract.h"

#include "base/prng.h"

#include <stdio.h>
#include <stdlib.h>

#define NAMES_MAX 512

struct names {
    struct view names[NAMES_MAX];
    bool groups[NAMES_MAX];
    size_t count;
    struct arena arena;
};

/* Collects a whole listing by pages of `page`, with the row's prefix taken off. */
static bool collect(struct contract *c, struct view prefix, struct view delimiter, size_t page,
                    struct names *ret)
{
    struct contract_key full;
    contract_key(c, prefix, &full);
    struct view after = VIEW("");
    *ret = (struct names){ 0 };
    for (size_t pages = 0; pages <= NAMES_MAX; pages++) {
        struct list_call list = {
            .prefix = full.view, .after = after, .max = page, .delimiter = delimiter
        };
        if (store_list(c->store, &list) != HF_OK) {
            contract_fail(c, __FILE__, __LINE__, "list: %s", list.error.why);
            return false;
        }
        for (size_t i = 0; i < list.count && ret->count < NAMES_MAX; i++) {
            ret->groups[ret->count] = list.entries[i].is_prefix;
            struct view name = arena_copy(&ret->arena, list.entries[i].key);
            after = name;
            ret->names[ret->count++] = view_from(name, strlen(c->prefix));
        }
        bool more = list.more;
        bool full_page = list.count <= page;
        list_release(&list);
        if (!full_page) {
            contract_fail(c, __FILE__, __LINE__, "a page has more entries than were asked for");
            return false;
        }
        if (!more)
            return true;
    }
    contract_fail(c, __FILE__, __LINE__, "a listing that does not end");
    return false;
}

static bool names_are(const struct names *got, const char *const *expected, size_t count)
{
    if (got->count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!view_equal(got->names[i], view_of(expected[i])))
            return false;
    return true;
}

static void put_all(struct contract *c, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        contract_put(c, view_of(names[(i * 7 + 3) % count]), VIEW("x"), NULL);
}

static const char *const tree[] = {
    "a",     "a-b",   "a/b",   "a/b/c", "a/b/d", "a/c", "a0",
    "b/x/1", "b/x/2", "b/y/1", "c",     "d/1",   "d/2",
};
#define TREE (sizeof tree / sizeof tree[0])

static void listing_in_byte_order(struct contract *c)
{
    struct names got;
    put_all(c, tree, TREE);
    for (size_t page = 1; page <= 14 && c->failure[0] == '\0'; page += page < 4 ? 1 : 5) {
        bool good = collect(c, VIEW(""), VIEW(""), page, &got);
        good = good && names_are(&got, tree, TREE);
        arena_release(&got.arena);
        EXPECT(c, good);
    }
}

static void listing_by_prefix(struct contract *c)
{
    static const char *const under_a[] = { "a/b", "a/b/c", "a/b/d", "a/c" };
    static const char *const from_b[] = { "b/x/1", "b/x/2", "b/y/1" };
    struct names got;
    put_all(c, tree, TREE);
    bool good = collect(c, VIEW("a/"), VIEW(""), 3, &got) && names_are(&got, under_a, 4);
    arena_release(&got.arena);
    EXPECT(c, good);
    good = collect(c, VIEW("b"), VIEW(""), 2, &got) && names_are(&got, from_b, 3);
    arena_release(&got.arena);
    EXPECT(c, good);
    good = collect(c, VIEW("nothing"), VIEW(""), 2, &got) && got.count == 0;
    arena_release(&got.arena);
    EXPECT(c, good);
}

static void groups_stand_once(struct contract *c)
{
    static const char *const top[] = { "a", "a-b", "a/", "a0", "b/", "c", "d/" };
    static const char *const under_a[] = { "a/b", "a/b/", "a/c" };
    struct names got;
    put_all(c, tree, TREE);
    for (size_t page = 1; page <= 8; page++) {
        bool good = collect(c, VIEW(""), VIEW("/"), page, &got) && names_are(&got, top, 7);
        good = good && got.groups[2] && got.groups[4] && got.groups[6] && !got.groups[0];
        arena_release(&got.arena);
        EXPECT(c, good);
        good = collect(c, VIEW("a/"), VIEW("/"), page, &got) && names_are(&got, under_a, 3);
        arena_release(&got.arena);
        EXPECT(c, good);
    }
}

/* Behind the last byte there is none to jump to. */
static void groups_of_the_last_byte(struct contract *c)
{
    static const char *const names[] = { "a",
                                         "a\xff"
                                         "b",
                                         "a\xff"
                                         "c",
                                         "b\xff" };
    static const char *const grouped[] = { "a", "a\xff", "b\xff" };
    struct names got;
    if (!c->any_bytes)
        return;
    put_all(c, names, 4);
    for (size_t page = 1; page <= 4; page++) {
        bool good =
            collect(c, VIEW(""), VIEW("\xff"), page, &got) && names_are(&got, grouped, 3);
        arena_release(&got.arena);
        EXPECT(c, good);
    }
}

static void after_any_name(struct contract *c)
{
    put_all(c, tree, TREE);
    static const char *const places[] = { "0", "a", "a-", "a/b/c", "a/zzz", "b", "d/2", "zz" };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct contract_key prefix, after;
        contract_key(c, VIEW(""), &prefix);
        contract_key(c, view_of(places[i]), &after);
        struct list_call list = { .prefix = prefix.view, .after = after.view };
        EXPECT_STATUS(c, HF_OK, store_list(c->store, &list), list.error);
        size_t expected = 0;
        for (size_t k = 0; k < TREE; k++)
            expected += view_compare(view_of(tree[k]), view_of(places[i])) > 0;
        size_t count = list.count;
        list_release(&list);
        EXPECT(c, count == expected);
    }
}

static void listing_tells_what_get_tells(struct contract *c)
{
    struct etag etag;
    struct contract_key prefix;
    EXPECT(c, contract_put(c, VIEW("one"), VIEW("12345"), &etag));
    struct list_call list = { .prefix = contract_key(c, VIEW("o"), &prefix) };
    EXPECT_STATUS(c, HF_OK, store_list(c->store, &list), list.error);
    bool good = list.count == 1 && etag_equal(&list.entries[0].info.etag, &etag) &&
                list.entries[0].info.size == 5 && list.entries[0].info.modified.us > 0;
    list_release(&list);
    EXPECT(c, good);
}

static void listing_shows_the_last_write(struct contract *c)
{
    struct contract_key key, prefix;
    contract_key(c, VIEW("l/"), &prefix);
    for (int round = 0; round < 10; round++) {
        struct put_call put = { .key = contract_key(c, VIEW("l/x"), &key), .body = VIEW("1") };
        EXPECT_STATUS(c, HF_OK, store_put(c->store, &put), put.error);
        struct list_call list = { .prefix = prefix.view };
        EXPECT_STATUS(c, HF_OK, store_list(c->store, &list), list.error);
        size_t count = list.count;
        list_release(&list);
        EXPECT(c, count == 1);
        struct delete_call removal = { .key = key.view };
        EXPECT_STATUS(c, HF_OK, store_delete(c->store, &removal), removal.error);
        EXPECT_STATUS(c, HF_OK, store_list(c->store, &list), list.error);
        count = list.count;
        list_release(&list);
        EXPECT(c, count == 0);
    }
}

/* ---- Against a model ----------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    return view_compare(*(const struct view *)a, *(const struct view *)b);
}

/* A key of few letters, so that prefixes and groups are many; with all bytes where allowed. */
static struct view random_name(struct contract *c, struct prng *prng, char *space)
{
    static const char letters[] = "ab/-0";
    size_t size = 1 + prng_below(prng, 8);
    for (size_t i = 0; i < size; i++) {
        bool odd = c->any_bytes && prng_chance(prng, 200000);
        space[i] = odd ? (char)prng_next(prng) : letters[prng_below(prng, 5)];
    }
    if (!c->any_bytes) { /* what strict stores make of empty segments is their own affair */
        for (size_t i = 0; i < size; i++)
            if (space[i] == '/' && (i == 0 || i + 1 == size || space[i - 1] == '/'))
                space[i] = 'c';
    }
    return (struct view){ space, size };
}

static size_t unique(struct view *names, size_t count)
{
    qsort(names, count, sizeof *names, by_bytes);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || !view_equal(names[kept - 1], names[i]))
            names[kept++] = names[i];
    return kept;
}

static void listing_equals_sorted_names(struct contract *c)
{
    enum { COUNT = 200 };
    static char space[COUNT][8];
    struct view names[COUNT];
    struct prng prng = prng_seeded(env_random_u64(c->env));
    for (size_t i = 0; i < COUNT; i++) {
        names[i] = random_name(c, &prng, space[i]);
        EXPECT(c, contract_put(c, names[i], VIEW("x"), NULL));
    }
    size_t count = unique(names, COUNT);
    static const size_t pages[] = { 1, 7, 64, 1000 };
    for (size_t p = 0; p < 4; p++) {
        struct names got;
        bool good = collect(c, VIEW(""), VIEW(""), pages[p], &got) && got.count == count;
        for (size_t i = 0; good && i < count; i++)
            good = view_equal(got.names[i], names[i]);
        arena_release(&got.arena);
        EXPECT(c, good);
    }
    struct view rolled[COUNT];
    for (size_t i = 0; i < count; i++) {
        size_t at = view_find(names[i], '/');
        rolled[i] = at < names[i].size ? view_first(names[i], at + 1) : names[i];
    }
    size_t rolled_count = unique(rolled, count);
    for (size_t p = 0; p < 4; p++) {
        struct names got;
        bool good =
            collect(c, VIEW(""), VIEW("/"), pages[p], &got) && got.count == rolled_count;
        for (size_t i = 0; good && i < rolled_count; i++)
            good = view_equal(got.names[i], rolled[i]);
        arena_release(&got.arena);
        EXPECT(c, good);
    }
}

static void a_wrong_listing_is_refused(struct contract *c)
{
    struct list_call list = { .max = LIST_PAGE_MAX + 1 };
    EXPECT(c, store_list(c->store, &list) == HF_INVALID);
    list = (struct list_call){ .delimiter = VIEW("//") };
    EXPECT(c, store_list(c->store, &list) == HF_INVALID);
}

static const struct contract_row rows[] = {
    { "a listing is in byte order whatever the page size", listing_in_byte_order },
    { "a listing keeps to its prefix", listing_by_prefix },
    { "a group behind a delimiter stands once, in its place", groups_stand_once },
    { "a delimiter may be the last byte there is", groups_of_the_last_byte },
    { "a listing goes on after any name, also one that does not exist", after_any_name },
    { "a listing tells the ETag and size that a get tells", listing_tells_what_get_tells },
    { "a listing shows the last write and the last delete", listing_shows_the_last_write },
    { "a listing of random names equals the sorted names", listing_equals_sorted_names },
    { "a listing out of bounds is invalid", a_wrong_listing_is_refused },
};

const struct contract_rows contract_listings = { rows, sizeof rows / sizeof rows[0] };
