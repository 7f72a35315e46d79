/* SPDX-License-Identifier: Apache-2.0 */
/* map_test.c: compares the ordered map with a sorted array. */
#include "alloc.h"
#include "base/map.h"
#include "base/prng.h"
#include "test.h"

#include <stdlib.h>

#define OPERATIONS 1000000
#define MODEL_MAX  600
#define KEY_MAX    48

/* A value, with its key inside, as the map's users have it. */
struct entry {
    size_t size;
    char key[KEY_MAX];
};

struct model {
    struct entry *rows[MODEL_MAX];
    size_t count;
};

static struct view key_of(const struct entry *entry)
{
    return (struct view){ entry->key, entry->size };
}

/* The index of the first row whose key is >= the one given. */
static size_t model_find(const struct model *model, struct view key)
{
    size_t low = 0, high = model->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (view_compare(key_of(model->rows[middle]), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool model_has(const struct model *model, size_t at, struct view key)
{
    return at < model->count && view_equal(key_of(model->rows[at]), key);
}

/* Keys that make trouble: few distinct bytes, so that many are prefixes of others and differ in
 * NUL bytes only; now and then any bytes, or a long common start. */
static void draw_key(struct prng *prng, struct entry *ret)
{
    static const char few[] = { '\0', '\x01', 'a', '\x7f', '\x80', '\xff' };
    uint64_t kind = prng_below(prng, 8);
    memset(ret->key, 'p', sizeof ret->key);
    if (kind == 0) {
        ret->size = (size_t)prng_below(prng, 3);
        for (size_t i = 0; i < ret->size; i++)
            ret->key[i] = (char)prng_next(prng);
    } else if (kind == 1) {
        ret->size = 40 + (size_t)prng_below(prng, 8);
        for (size_t i = 40; i < ret->size; i++)
            ret->key[i] = few[prng_below(prng, 2)];
    } else {
        ret->size = (size_t)prng_below(prng, 6);
        for (size_t i = 0; i < ret->size; i++)
            ret->key[i] = few[prng_below(prng, sizeof few)];
    }
}

static void put_in_both(struct map *map, struct model *model, const struct entry *drawn)
{
    struct entry *entry = malloc(sizeof *entry);
    assert_non_null(entry);
    *entry = *drawn;
    size_t at = model_find(model, key_of(entry));
    bool there = model_has(model, at, key_of(entry));
    if (!there && model->count == MODEL_MAX) {
        free(entry);
        return;
    }
    void *old = &old;
    assert_true(map_put(map, key_of(entry), entry, &old));
    if (there) {
        assert_ptr_equal(old, model->rows[at]);
        free(old);
    } else {
        assert_null(old);
        memmove(&model->rows[at + 1], &model->rows[at],
                (model->count - at) * sizeof model->rows[0]);
        model->count++;
    }
    model->rows[at] = entry;
}

static void take_from_both(struct map *map, struct model *model, struct view key)
{
    size_t at = model_find(model, key);
    struct entry *taken = map_take(map, key);
    if (!model_has(model, at, key)) {
        assert_null(taken);
        return;
    }
    assert_ptr_equal(taken, model->rows[at]);
    memmove(&model->rows[at], &model->rows[at + 1],
            (model->count - at - 1) * sizeof model->rows[0]);
    model->count--;
    free(taken);
}

static void look_in_both(const struct map *map, const struct model *model, struct view key)
{
    size_t at = model_find(model, key);
    bool there = model_has(model, at, key);
    assert_ptr_equal(map_get(map, key), there ? model->rows[at] : NULL);
    assert_ptr_equal(map_seek(map, key, false), at < model->count ? model->rows[at] : NULL);
    size_t next = at + (there ? 1 : 0);
    assert_ptr_equal(map_seek(map, key, true), next < model->count ? model->rows[next] : NULL);
}

static void walk_both(const struct map *map, const struct model *model)
{
    assert_int_equal(map->count, model->count);
    struct entry *entry = map_seek(map, VIEW(""), false);
    for (size_t i = 0; i < model->count; i++) {
        assert_ptr_equal(entry, model->rows[i]);
        entry = map_seek(map, key_of(entry), true);
    }
    assert_null(entry);
}

static void agrees_with_a_sorted_array(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(5);
    struct map map = MAP_INIT;
    struct model model = { .count = 0 };
    for (int i = 0; i < OPERATIONS; i++) {
        struct entry drawn;
        draw_key(&prng, &drawn);
        /* The balance tips back and forth, so that the map is often nearly empty and nearly
         * full. */
        uint64_t puts = i / 20000 % 2 ? 15 : 50;
        uint64_t dice = prng_below(&prng, 100);
        if (dice < puts)
            put_in_both(&map, &model, &drawn);
        else if (dice < 65)
            take_from_both(&map, &model, key_of(&drawn));
        else
            look_in_both(&map, &model, key_of(&drawn));
        assert_int_equal(map.count, model.count);
        if (i % 5000 == 0)
            walk_both(&map, &model);
    }
    walk_both(&map, &model);
    map_release(&map);
    for (size_t i = 0; i < model.count; i++)
        free(model.rows[i]);
}

static void an_empty_map_has_nothing(void **state)
{
    (void)state;
    struct map map = MAP_INIT;
    assert_null(map_get(&map, VIEW("")));
    assert_null(map_take(&map, VIEW("a")));
    assert_null(map_seek(&map, VIEW(""), false));
    assert_null(map_seek(&map, VIEW("\xff"), true));
    map_release(&map);
}

static void the_empty_key_is_a_key(void **state)
{
    (void)state;
    struct map map = MAP_INIT;
    int one = 1, two = 2;
    void *old;
    assert_true(map_put(&map, (struct view){ NULL, 0 }, &one, &old));
    assert_null(old);
    assert_ptr_equal(map_get(&map, VIEW("")), &one);
    assert_true(map_put(&map, (struct view){ "\0", 1 }, &two, &old));
    assert_null(old);
    assert_ptr_equal(map_get(&map, VIEW("")), &one);
    assert_ptr_equal(map_get(&map, (struct view){ "\0", 1 }), &two);
    assert_ptr_equal(map_seek(&map, VIEW(""), true), &two);
    assert_ptr_equal(map_take(&map, VIEW("")), &one);
    assert_null(map_get(&map, VIEW("")));
    assert_ptr_equal(map_take(&map, (struct view){ "\0", 1 }), &two);
    assert_int_equal(map.count, 0);
    map_release(&map);
}

static void a_replaced_key_may_be_freed(void **state)
{
    (void)state;
    struct map map = MAP_INIT;
    int one = 1, two = 2, other = 3;
    char *first = strdup("key"), *second = strdup("key");
    void *old;
    assert_true(map_put(&map, view_of(first), &one, &old));
    assert_true(map_put(&map, VIEW("kez"), &other, &old));
    assert_true(map_put(&map, view_of(second), &two, &old));
    assert_ptr_equal(old, &one);
    memset(first, '!', 3);
    free(first);
    assert_ptr_equal(map_get(&map, VIEW("key")), &two);
    assert_ptr_equal(map_seek(&map, VIEW("ke"), false), &two);
    assert_int_equal(map.count, 2);
    map_release(&map);
    free(second);
}

static void every_single_byte_is_in_order(void **state)
{
    (void)state;
    struct map map = MAP_INIT;
    static char bytes[256];
    for (unsigned i = 0; i < 256; i++)
        bytes[i] = (char)i;
    for (unsigned i = 0; i < 256; i++) {
        void *old;
        unsigned mixed = i * 167 % 256;
        assert_true(map_put(&map, (struct view){ &bytes[mixed], 1 }, &bytes[mixed], &old));
    }
    for (unsigned i = 0; i < 256; i++) {
        struct view key = { &bytes[i], 1 };
        assert_ptr_equal(map_seek(&map, key, false), &bytes[i]);
        assert_ptr_equal(map_seek(&map, key, true), i == 255 ? NULL : &bytes[i + 1]);
    }
    map_release(&map);
}

static void a_deep_chain_of_prefixes_is_no_trouble(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    struct map map = MAP_INIT;
    char *text = malloc(DEEP);
    assert_non_null(text);
    memset(text, 'x', DEEP);
    void *old;
    for (size_t size = 1; size <= DEEP; size += 97)
        assert_true(map_put(&map, (struct view){ text, size }, text + size - 1, &old));
    size_t seen = 0;
    struct view key = { text, 0 };
    for (char *value; (value = map_seek(&map, key, true)); seen++)
        key.size = (size_t)(value - text) + 1;
    assert_int_equal(seen, map.count);
    map_release(&map);
    free(text);
}

static void a_put_without_memory_changes_nothing(void **state)
{
    (void)state;
    int values[3] = { 0, 1, 2 };
    for (long n = 0;; n++) {
        struct map map = MAP_INIT;
        void *old;
        bool first, second = false;
        alloc_fail_after(n);
        first = map_put(&map, VIEW("a"), &values[0], &old);
        if (first)
            second = map_put(&map, VIEW("ab"), &values[1], &old);
        bool failed = alloc_stop();
        assert_int_equal(failed, !(first && second));
        assert_int_equal(map.count, first + second);
        assert_ptr_equal(map_get(&map, VIEW("a")), first ? &values[0] : NULL);
        assert_ptr_equal(map_get(&map, VIEW("ab")), second ? &values[1] : NULL);
        assert_true(map_put(&map, VIEW("b"), &values[2], &old));
        assert_ptr_equal(map_seek(&map, VIEW("ac"), false), &values[2]);
        map_release(&map);
        if (!failed)
            return;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a million random operations agree with a sorted array", agrees_with_a_sorted_array),
        IT("an empty map has nothing in it", an_empty_map_has_nothing),
        IT("the empty key is a key like any other", the_empty_key_is_a_key),
        IT("the key of a replaced value may be freed", a_replaced_key_may_be_freed),
        IT("every single byte is a key, in unsigned order", every_single_byte_is_in_order),
        IT("keys that are prefixes of each other by the thousand are no trouble",
           a_deep_chain_of_prefixes_is_no_trouble),
        IT("a put without memory changes nothing", a_put_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
