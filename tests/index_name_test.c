/* SPDX-License-Identifier: Apache-2.0 */
/* index_name_test.c: names of entries: no two keys share a name, each name leads back to its
 * key, names of one key sort by time, and every object below an index is recognised. */
#include "index/name.h"

#include "alloc.h"
#include "base/evidence.h"
#include "base/prng.h"
#include "base/utf8.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NONCE        "0123456789abcdef0123456789abcdef"
#define ZEROS        "00000000000000000000000000000000"
#define SHA_OF_ABC   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static struct schema of_two(unsigned digits, bool foreign)
{
    const struct view fields[] = { VIEW("domain"), VIEW("updated_at") };
    struct schema schema;
    struct hf_error error;
    assert_status(HF_OK,
                  schema_new(&(struct schema_spec){ fields, 2, fields[0], fields[1], digits,
                                                    foreign },
                             &schema, &error),
                  &error);
    return schema;
}

static void assert_view(struct view view, struct view expected)
{
    assert_int_equal(view.size, expected.size);
    if (expected.size > 0)
        assert_memory_equal(view.data, expected.data, expected.size);
}

/* ---- Keys ---------------------------------------------------------------------------------- */

static void keys_are_written_like_this(void **state)
{
    (void)state;
    static const struct {
        struct view key;
        const char *name;
    } cases[] = {
        { { "example.com", 11 }, "example.com" },
        { { "AZaz09._-", 9 }, "AZaz09._-" },
        { { "a/b~c%d", 7 }, "a%2Fb%7Ec%25d" },
        { { "\0\xff", 2 }, "%00%FF" },
        { { "..", 2 }, ".." },
        { { "a b=", 4 }, "a%20b%3D" },
        { { "m\xc3\xbc", 3 }, "m%C3%BC" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct key_name name = key_name_of(cases[i].key);
        assert_string_equal(name.text, cases[i].name);
        assert_int_equal(name.size, strlen(cases[i].name));
    }
}

static void a_long_key_becomes_its_hash(void **state)
{
    (void)state;
    char key[INDEX_ESCAPED_MAX + 1];
    memset(key, 'k', sizeof key);
    assert_int_equal(key_name_of((struct view){ key, INDEX_ESCAPED_MAX }).size,
                     INDEX_ESCAPED_MAX);
    struct key_name hashed = key_name_of((struct view){ key, INDEX_ESCAPED_MAX + 1 });
    assert_int_equal(hashed.size, 2 + 64);
    assert_memory_equal(hashed.text, "%=", 2);
    key[INDEX_ESCAPED_MAX - 1] = '/';
    hashed = key_name_of((struct view){ key, INDEX_ESCAPED_MAX });
    assert_memory_equal(hashed.text, "%=", 2);
    struct shard_id shard = shard_of_key((struct view){ key, INDEX_ESCAPED_MAX }, 4);
    assert_memory_equal(hashed.text + 2, shard.text, 4);
    struct buffer back = BUFFER_INIT(1024);
    bool is_hash = false;
    assert_false(key_of_name((struct view){ hashed.text, hashed.size }, &back, &is_hash));
    assert_true(is_hash);
    assert_int_equal(back.size, 0);
    buffer_release(&back);
}

static void a_name_that_is_written_otherwise_is_none(void **state)
{
    (void)state;
    static const char *const none[] = { "",    "%",    "%4",         "%2",   "%2f",  "%41",
                                        "%2E", "%ZZ",  "a b",        "a/b",  "a~b",  "a%",
                                        "%=",  "%=00", ("%=" ZEROS), "%%2F", "%2F%", "\xc3\xa4",
                                        "%= ", "%2 F", "%+1" };
    struct buffer key = BUFFER_INIT(1024);
    for (size_t i = 0; i < COUNT(none); i++) {
        bool hashed = true;
        if (key_of_name(view_of(none[i]), &key, &hashed) || hashed)
            fail_msg("'%s' was taken", none[i]);
    }
    bool hashed;
    assert_true(key_of_name(VIEW("a%2Fb"), &key, &hashed));
    assert_true(key_of_name(VIEW("c"), &key, &hashed));
    assert_view(buffer_view(&key), VIEW("a/bc"));
    assert_false(
        key_of_name(VIEW("%=" ZEROS "0000000000000000000000000000000A"), &key, &hashed));
    assert_false(hashed);
    buffer_release(&key);
}

static size_t random_key(struct prng *prng, char bytes[INDEX_KEY_BYTES_MAX])
{
    static const char odd[] = {
        '/', '~', '%', 0, (char)0xff, '=', '2', 'F', '.', '\n', ' ', '-'
    };
    uint64_t kind = prng_below(prng, 8);
    size_t size = 1 + prng_below(prng, kind == 0 ? INDEX_KEY_BYTES_MAX : kind < 3 ? 200 : 4);
    for (size_t i = 0; i < size; i++)
        bytes[i] = kind % 2 ? odd[prng_below(prng, sizeof odd)] : (char)prng_next(prng);
    return size;
}

struct named {
    struct key_name name;
    size_t size;
    char key[INDEX_KEY_BYTES_MAX];
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name.text, ((const struct named *)b)->name.text);
}

static void assert_leads_back(const struct named *named)
{
    struct buffer back = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct view name = { named->name.text, named->name.size };
    bool hashed;
    assert_int_equal(strlen(named->name.text), named->name.size);
    if (key_of_name(name, &back, &hashed))
        assert_view(buffer_view(&back), (struct view){ named->key, named->size });
    else
        assert_true(hashed);
    assert_true(!hashed || named->size > INDEX_ESCAPED_MAX / 3);
    assert_int_equal(strspn(named->name.text,
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                            "0123456789._-%="),
                     named->name.size);
    buffer_release(&back);
}

static void no_two_keys_have_the_same_name(void **state)
{
    (void)state;
    size_t count = 20000;
    struct named *all = calloc(count, sizeof *all);
    struct prng prng = prng_seeded(10);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++) {
        all[i].size = random_key(&prng, all[i].key);
        all[i].name = key_name_of((struct view){ all[i].key, all[i].size });
        assert_leads_back(&all[i]);
    }
    qsort(all, count, sizeof *all, by_name);
    for (size_t i = 1; i < count; i++)
        if (by_name(&all[i - 1], &all[i]) == 0)
            assert_view((struct view){ all[i - 1].key, all[i - 1].size },
                        (struct view){ all[i].key, all[i].size });
    free(all);
}

static void random_names_are_names_of_one_key_or_none(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(11);
    struct buffer key = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    size_t taken = 0;
    for (int round = 0; round < 100000; round++) {
        static const char letters[] = "%%%02Ff=7E.a/";
        char text[8];
        size_t size = prng_below(&prng, sizeof text);
        bool hashed;
        for (size_t i = 0; i < size; i++)
            text[i] = letters[prng_below(&prng, sizeof letters - 1)];
        buffer_clear(&key);
        if (!key_of_name((struct view){ text, size }, &key, &hashed))
            continue;
        struct key_name again = key_name_of(buffer_view(&key));
        assert_view((struct view){ again.text, again.size }, (struct view){ text, size });
        taken++;
    }
    assert_true(taken > 1000);
    buffer_release(&key);
}

/* ---- Shards -------------------------------------------------------------------------------- */

static void example_com_is_in_shard_a3(void **state)
{
    (void)state;
    assert_string_equal(shard_of_key(VIEW("example.com"), 2).text, "a3");
    assert_string_equal(shard_of_key(VIEW("example.com"), 1).text, "a");
    assert_string_equal(shard_of_key(VIEW("example.com"), 4).text, "a379");
    assert_string_equal(shard_of_key(VIEW("abc"), 4).text, "ba78");
}

static void shards_have_numbers(void **state)
{
    (void)state;
    for (unsigned digits = 1; digits <= INDEX_DIGITS_MAX; digits++) {
        assert_int_equal(shard_count(digits), 1 << 4 * digits);
        for (size_t i = 0; i < shard_count(digits); i++) {
            struct shard_id shard = shard_of_number(i, digits);
            size_t number;
            assert_int_equal(strlen(shard.text), digits);
            assert_true(shard_number(view_of(shard.text), digits, &number));
            assert_int_equal(number, i);
        }
    }
    assert_string_equal(shard_of_number(163, 2).text, "a3");
    assert_string_equal(shard_of_number(10, 4).text, "000a");
    static const char *const none[] = {
        "", "a", "A3", "a33", "g0", "0x", " 1", "+1", "\xff\xff"
    };
    for (size_t i = 0; i < COUNT(none); i++) {
        size_t number;
        assert_false(shard_number(view_of(none[i]), 2, &number));
    }
}

/* ---- Entries ------------------------------------------------------------------------------- */

#define INBOX "inbox/a3/example.com"

struct reading {
    const char *rest;
    enum entry_kind kind;
    const char *key;
    const char *shard;
};

static const struct reading readings[] = {
    /* Ours. */
    { INBOX "~20260206T100000-" NONCE ".usv", ENTRY_OURS, "example.com", "a3" },
    { INBOX "~20260206T100000.25-" NONCE ".usv", ENTRY_OURS, "example.com", "a3" },
    { INBOX "~00010101T000000-" NONCE ".usv", ENTRY_OURS, "example.com", "a3" },
    { INBOX "~99991231T235959.999999999999999999-" NONCE ".usv", ENTRY_OURS, "example.com",
      "a3" },
    /* Those of others: flat, in the inbox, in a shard's folder. */
    { "example.com.usv", ENTRY_FOREIGN, "example.com", "a3" },
    { "inbox/example.com.usv", ENTRY_FOREIGN, "example.com", "a3" },
    { INBOX ".usv", ENTRY_FOREIGN, "example.com", "a3" },
    { "a%20b.usv", ENTRY_FOREIGN, "a b", "c8" },
    { "a b.usv", ENTRY_FOREIGN, "a b", "c8" },
    { "50%.usv", ENTRY_FOREIGN, "50%", NULL },
    { "a~b.usv", ENTRY_FOREIGN, "a~b", NULL },
    { "x.usv.usv", ENTRY_FOREIGN, "x.usv", NULL },
    { "shards.usv", ENTRY_FOREIGN, "shards", NULL },
    /* What looks like ours, but not quite, is another's with an odd key, or a stray. */
    { INBOX "~20260206T100000-" NONCE "0.usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~20260206T100000-g123456789abcdef0123456789abcdef.usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~20260206T100000-A123456789abcdef0123456789abcdef.usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~20260206T100000.250-" NONCE ".usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~20260206T100000.-" NONCE ".usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~20260230T100000-" NONCE ".usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~20260206T100060-" NONCE ".usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~20260206t100000-" NONCE ".usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~2026020XT100000-" NONCE ".usv", ENTRY_STRAY, "", "a3" },
    { INBOX "~20260206T1000000-" NONCE ".usv", ENTRY_STRAY, "", "a3" },
    { "inbox/a4/example.com~20260206T100000-" NONCE ".usv", ENTRY_STRAY, "", "a4" },
    { "inbox/a4/example.com.usv", ENTRY_STRAY, "", "a4" },
    { "inbox/a/example.com.usv", ENTRY_STRAY, "", "" },
    { "inbox/A3/example.com.usv", ENTRY_STRAY, "", "" },
    { "inbox/a3/b/example.com.usv", ENTRY_STRAY, "", "a3" },
    { "inbox//example.com.usv", ENTRY_STRAY, "", "" },
    { "inbox/a3/.usv", ENTRY_STRAY, "", "a3" },
    { "inbox/a3/usv", ENTRY_STRAY, "", "a3" },
    { "inbox/a3/", ENTRY_STRAY, "", "a3" },
    { "inbox/", ENTRY_STRAY, "", "" },
    { "inbox/.usv", ENTRY_STRAY, "", "" },
    { "inbox/example.com", ENTRY_STRAY, "", "" },
    { "inbox/example.com.usv.tmp", ENTRY_STRAY, "", "" },
    /* No entries at all. */
    { "", ENTRY_NONE, "", "" },
    { ".usv", ENTRY_NONE, "", "" },
    { "index.json", ENTRY_NONE, "", "" },
    { "manifest.json", ENTRY_NONE, "", "" },
    { "shards/a3.usv", ENTRY_NONE, "", "" },
    { "shards/a3.lock", ENTRY_NONE, "", "" },
    { "aside/0123.usv", ENTRY_NONE, "", "" },
    { "inbox", ENTRY_NONE, "", "" },
    { "other/example.com.usv", ENTRY_NONE, "", "" },
    { "example.com", ENTRY_NONE, "", "" },
};

static void objects_of_an_index_are_told_apart(void **state)
{
    (void)state;
    struct buffer key = BUFFER_INIT(1024);
    for (size_t i = 0; i < COUNT(readings); i++) {
        const struct reading *expected = &readings[i];
        struct entry_name name = entry_read(view_of(expected->rest), 2, &key);
        bool right = name.kind == expected->kind && !name.hashed &&
                     view_equal(buffer_view(&key), view_of(expected->key)) &&
                     (!expected->shard || strcmp(name.shard.text, expected->shard) == 0);
        if (!right)
            fail_msg("%s: kind %d, key '%s', shard '%s'", expected->rest, (int)name.kind,
                     buffer_text(&key), name.shard.text);
    }
    buffer_release(&key);
}

static void hashed_names_tell_their_shard(void **state)
{
    (void)state;
    struct buffer key = BUFFER_INIT(1024);
    struct entry_name name =
        entry_read(VIEW("inbox/ba/%=" SHA_OF_ABC "~20260206T100000-" NONCE ".usv"), 2, &key);
    assert_int_equal(name.kind, ENTRY_OURS);
    assert_true(name.hashed);
    assert_string_equal(name.shard.text, "ba");
    assert_int_equal(key.size, 0);
    name = entry_read(VIEW("%=" SHA_OF_ABC ".usv"), 4, &key);
    assert_int_equal(name.kind, ENTRY_FOREIGN);
    assert_true(name.hashed);
    assert_string_equal(name.shard.text, "ba78");
    name = entry_read(VIEW("inbox/bb/%=" SHA_OF_ABC ".usv"), 2, &key);
    assert_int_equal(name.kind, ENTRY_STRAY);
    assert_false(name.hashed);
    buffer_release(&key);
}

static void a_foreign_name_is_not_longer_than_ours(void **state)
{
    (void)state;
    char rest[INDEX_ESCAPED_MAX + 6] = { 0 };
    struct buffer key = BUFFER_INIT(1024);
    memset(rest, ' ', INDEX_ESCAPED_MAX + 1);
    memcpy(rest + INDEX_ESCAPED_MAX, ".usv", 4);
    struct entry_name name = entry_read(view_of(rest), 2, &key);
    assert_int_equal(name.kind, ENTRY_FOREIGN);
    assert_int_equal(key.size, INDEX_ESCAPED_MAX);
    memcpy(rest + INDEX_ESCAPED_MAX, " .usv", 5);
    name = entry_read(view_of(rest), 2, &key);
    assert_int_equal(name.kind, ENTRY_NONE);
    assert_int_equal(key.size, 0);
    buffer_release(&key);
}

static struct view below(const char *object)
{
    struct view prefix = VIEW("indexes/domains/");
    assert_true(view_starts_with(view_of(object), prefix));
    return view_from(view_of(object), prefix.size);
}

static void an_entry_is_named_like_this(void **state)
{
    (void)state;
    struct schema schema = of_two(2, true);
    char key[KEY_BYTES_MAX + 1];
    struct record record = { .key = VIEW("example.com"), .time = { 1770372000, 0 } };
    assert_true(entry_key(VIEW("domains"), &schema, &record, NONCE, key));
    assert_string_equal(key,
                        "indexes/domains/inbox/a3/example.com~20260206T100000-" NONCE ".usv");
    record.time.atto = UINT64_C(250000000000000000);
    assert_true(entry_key(VIEW("domains"), &schema, &record, NONCE, key));
    assert_string_equal(key, "indexes/domains/inbox/a3/example.com~20260206T100000.25-" NONCE
                             ".usv");
    record.time = (struct instant){ -1, 1 };
    assert_true(entry_key(VIEW("domains"), &schema, &record, NONCE, key));
    assert_string_equal(
        key, "indexes/domains/inbox/a3/example.com~19691231T235959.000000000000000001-" NONCE
             ".usv");
}

static void the_longest_entry_has_a_name(void **state)
{
    (void)state;
    struct schema schema = of_two(4, true);
    char text[INDEX_KEY_BYTES_MAX], index[INDEX_NAME_MAX], key[KEY_BYTES_MAX + 1];
    memset(text, 'k', sizeof text);
    memset(index, 'i', sizeof index);
    for (size_t size = INDEX_ESCAPED_MAX - 1; size <= sizeof text; size++) {
        struct record record = { .key = { text, size }, .time = { INSTANT_S_MAX, 1 } };
        assert_true(
            entry_key((struct view){ index, sizeof index }, &schema, &record, NONCE, key));
    }
}

static struct instant random_instant(struct prng *prng)
{
    static const uint64_t units[] = { 1, 1000, UINT64_C(1000000000),
                                      UINT64_C(100000000000000000) };
    uint64_t unit = units[prng_below(prng, COUNT(units))];
    uint64_t range = (uint64_t)(INSTANT_S_MAX - INSTANT_S_MIN) + 1;
    int64_t s = prng_chance(prng, 500000) ? INSTANT_S_MIN + (int64_t)prng_below(prng, range)
                                          : (int64_t)prng_below(prng, 4) - 2;
    return (struct instant){ s, prng_below(prng, UINT64_C(1000000000000000000) / unit) * unit };
}

static void names_of_a_key_are_in_the_order_of_their_times(void **state)
{
    (void)state;
    struct schema schema = of_two(2, true);
    struct prng prng = prng_seeded(12);
    struct buffer key = BUFFER_INIT(1024);
    for (int round = 0; round < 20000; round++) {
        struct record records[2] = { { .key = VIEW("a/b") }, { .key = VIEW("a/b") } };
        char names[2][KEY_BYTES_MAX + 1];
        for (size_t i = 0; i < 2; i++) {
            records[i].time = random_instant(&prng);
            assert_true(entry_key(VIEW("domains"), &schema, &records[i], ZEROS, names[i]));
            struct entry_name name = entry_read(below(names[i]), 2, &key);
            assert_int_equal(name.kind, ENTRY_OURS);
            assert_int_equal(instant_compare(name.time, records[i].time), 0);
            assert_view(buffer_view(&key), VIEW("a/b"));
        }
        int by_text = strcmp(names[0], names[1]);
        int by_time = instant_compare(records[0].time, records[1].time);
        assert_int_equal((by_text > 0) - (by_text < 0), by_time);
    }
    buffer_release(&key);
}

/* ---- Names that others may use ------------------------------------------------------------- */

static void assert_foreign(struct view key, const char *const *expected)
{
    struct schema schema = of_two(2, true);
    char keys[FOREIGN_NAMES_MAX][KEY_BYTES_MAX + 1];
    size_t count = foreign_keys(VIEW("domains"), &schema, key, keys), i = 0;
    for (; expected[i]; i++) {
        assert_true(i < count);
        assert_string_equal(below(keys[i]).data, expected[i]);
    }
    assert_int_equal(i, count);
}

static void others_have_up_to_six_names_for_a_key(void **state)
{
    (void)state;
    assert_foreign(VIEW("example.com"),
                   (const char *const[]){ "example.com.usv", "inbox/example.com.usv",
                                          "inbox/a3/example.com.usv", NULL });
    assert_foreign(VIEW("a b"), (const char *const[]){
                                    "a%20b.usv", "inbox/a%20b.usv", "inbox/c8/a%20b.usv",
                                    "a b.usv", "inbox/a b.usv", "inbox/c8/a b.usv", NULL });
    /* As it is, it would be another key's name, or in a folder. */
    assert_foreign(VIEW("a%20b"), (const char *const[]){ "a%2520b.usv", "inbox/a%2520b.usv",
                                                         "inbox/71/a%2520b.usv", NULL });
    assert_foreign(VIEW("%=" SHA_OF_ABC),
                   (const char *const[]){ "%25%3D" SHA_OF_ABC ".usv",
                                          "inbox/%25%3D" SHA_OF_ABC ".usv",
                                          "inbox/93/%25%3D" SHA_OF_ABC ".usv", NULL });
    assert_foreign(VIEW("a/b"), (const char *const[]){ "a%2Fb.usv", "inbox/a%2Fb.usv",
                                                       "inbox/c1/a%2Fb.usv", NULL });
    assert_foreign(VIEW("\xff"), (const char *const[]){ "%FF.usv", "inbox/%FF.usv",
                                                        "inbox/a8/%FF.usv", NULL });
}

static void who_takes_none_from_others_looks_for_none(void **state)
{
    (void)state;
    struct schema schema = of_two(2, false);
    char keys[FOREIGN_NAMES_MAX][KEY_BYTES_MAX + 1];
    assert_int_equal(foreign_keys(VIEW("domains"), &schema, VIEW("a b"), keys), 0);
}

static void assert_all_lead_back(struct view key, const struct schema *schema,
                                 struct buffer *back)
{
    char keys[FOREIGN_NAMES_MAX][KEY_BYTES_MAX + 1];
    size_t count = foreign_keys(VIEW("domains"), schema, key, keys);
    assert_in_range(count, 3, FOREIGN_NAMES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct entry_name name = entry_read(below(keys[i]), schema->digits, back);
        assert_int_equal(name.kind, ENTRY_FOREIGN);
        assert_true(name.hashed || view_equal(buffer_view(back), key));
        assert_string_equal(name.shard.text, shard_of_key(key, schema->digits).text);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
}

static void names_of_others_lead_back_to_the_key(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(13);
    struct buffer back = BUFFER_INIT(1024);
    for (int round = 0; round < 5000; round++) {
        struct schema schema = of_two(1 + (unsigned)prng_below(&prng, 4), true);
        char key[INDEX_KEY_BYTES_MAX];
        assert_all_lead_back((struct view){ key, random_key(&prng, key) }, &schema, &back);
    }
    buffer_release(&back);
}

/* What a listing shows is what a reader of that key asks for. */
static void every_foreign_entry_is_found_by_its_key(void **state)
{
    (void)state;
    static const char *const parts[] = { "inbox/", "a3/",  "example.com", "a",
                                         "%20",    "%",    "~",           " ",
                                         "/",      ".usv", "=",           "20260206T100000-",
                                         NONCE };
    struct schema schema = of_two(2, true);
    struct prng prng = prng_seeded(14);
    struct buffer key = BUFFER_INIT(1024), rest = BUFFER_INIT(1024);
    size_t foreign = 0;
    for (int round = 0; round < 20000; round++) {
        char keys[FOREIGN_NAMES_MAX][KEY_BYTES_MAX + 1];
        size_t count = 0, pieces = prng_below(&prng, 6);
        bool found = false;
        buffer_clear(&rest);
        for (size_t i = 0; i < pieces; i++)
            buffer_append(&rest, view_of(parts[prng_below(&prng, COUNT(parts))]));
        buffer_append(&rest, VIEW(".usv"));
        if (entry_read(buffer_view(&rest), 2, &key).kind == ENTRY_FOREIGN)
            count = foreign_keys(VIEW("domains"), &schema, buffer_view(&key), keys);
        for (size_t i = 0; i < count; i++)
            found = found || view_equal(below(keys[i]), buffer_view(&rest));
        if (count > 0 && !found)
            fail_msg("%s is not found", buffer_text(&rest));
        foreign += found;
    }
    assert_true(foreign > 2000);
    buffer_release(&key);
    buffer_release(&rest);
}

static void without_memory_the_buffer_says_so(void **state)
{
    (void)state;
    struct buffer key = BUFFER_INIT(1024);
    bool hashed;
    alloc_fail_after(0);
    struct entry_name name = entry_read(VIEW("example.com.usv"), 2, &key);
    assert_true(alloc_stop());
    assert_int_equal(name.kind, ENTRY_FOREIGN);
    assert_true(key.failed);
    buffer_clear(&key);
    alloc_fail_after(0);
    assert_false(key_of_name(VIEW("example.com"), &key, &hashed));
    assert_true(alloc_stop());
    assert_true(key.failed && !hashed);
    buffer_release(&key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("letters, digits and . _ - stand for themselves, all else is %XX",
           keys_are_written_like_this),
        IT("a key whose name would be too long is named by its hash",
           a_long_key_becomes_its_hash),
        IT("a name that is written otherwise is none",
           a_name_that_is_written_otherwise_is_none),
        IT("no two keys of any bytes have the same name, and each name leads back",
           no_two_keys_have_the_same_name),
        IT("a random name is that of exactly one key, or none",
           random_names_are_names_of_one_key_or_none),
        IT("example.com is in shard a3", example_com_is_in_shard_a3),
        IT("shards have numbers, and numbers shards", shards_have_numbers),
        IT("objects of an index are told apart by their names",
           objects_of_an_index_are_told_apart),
        IT("a hashed name tells its shard", hashed_names_tell_their_shard),
        IT("a name of another program is not longer than ours may be",
           a_foreign_name_is_not_longer_than_ours),
        IT("an entry is named after its key, time and nonce", an_entry_is_named_like_this),
        IT("the longest entry has a name that every store takes", the_longest_entry_has_a_name),
        IT("names of one key are in the order of their times, and tell them exactly",
           names_of_a_key_are_in_the_order_of_their_times),
        IT("others have up to six names for a key", others_have_up_to_six_names_for_a_key),
        IT("an index that takes none from others looks for none",
           who_takes_none_from_others_looks_for_none),
        IT("names of others lead back to the key, and are never alike",
           names_of_others_lead_back_to_the_key),
        IT("an entry of another program is found by its key wherever it stands",
           every_foreign_entry_is_found_by_its_key),
        IT("without memory the buffer says so", without_memory_the_buffer_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
