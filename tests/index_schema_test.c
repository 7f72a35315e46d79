/* SPDX-License-Identifier: Apache-2.0 */
/* index_schema_test.c: valid schemas, how they grow, and index.json. */
#include "index/schema.h"

#include "alloc.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NONCE        VIEW("0123456789abcdef")

static const struct view fields[] = { { "domain", 6 }, { "title", 5 }, { "updated_at", 10 } };

static struct schema of_three(void)
{
    struct schema schema;
    struct hf_error error;
    assert_status(HF_OK,
                  schema_new(&(struct schema_spec){ fields, 3, fields[0], fields[2], 2, true },
                             &schema, &error),
                  &error);
    return schema;
}

/* Domains with so many fields: domain, title, updated_at, more3, more4 ... */
static struct schema of_many(size_t count)
{
    struct schema schema;
    struct hf_error error;
    static char names[INDEX_FIELDS_MAX][32];
    struct view views[INDEX_FIELDS_MAX];
    assert_in_range(count, 3, INDEX_FIELDS_MAX);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "more%zu", i);
        views[i] = i < 3 ? fields[i] : view_of(names[i]);
    }
    assert_status(HF_OK,
                  schema_new(&(struct schema_spec){ views, count, fields[0], fields[2], 2,
                                                    true },
                             &schema, &error),
                  &error);
    return schema;
}

static void assert_same(const struct schema *a, const struct schema *b)
{
    assert_int_equal(a->digits, b->digits);
    assert_int_equal(a->foreign, b->foreign);
    assert_int_equal(a->key, b->key);
    assert_int_equal(a->time, b->time);
    assert_int_equal(a->field_count, b->field_count);
    for (size_t i = 0; i < a->field_count; i++)
        assert_string_equal(a->fields[i], b->fields[i]);
    assert_int_equal(a->version_count, b->version_count);
    for (size_t i = 0; i < a->version_count; i++) {
        assert_int_equal(a->versions[i].field_count, b->versions[i].field_count);
        assert_true(a->versions[i].hash == b->versions[i].hash);
    }
}

/* ---- Making ------------------------------------------------------------------------------ */

static void a_schema_is_made(void **state)
{
    (void)state;
    struct schema schema = of_three();
    assert_int_equal(schema.digits, 2);
    assert_true(schema.foreign);
    assert_int_equal(schema.key, 0);
    assert_int_equal(schema.time, 2);
    assert_int_equal(schema.field_count, 3);
    assert_int_equal(schema.version_count, 1);
    assert_int_equal(schema.versions[0].field_count, 3);
    assert_int_equal(schema_find(&schema, VIEW("title")), 1);
    assert_int_equal(schema_find(&schema, VIEW("titl")), 3);
    assert_int_equal(schema_find(&schema, VIEW("")), 3);
}

/* The fields as a comma list: names, then what the reason must say. */
struct bad_schema {
    const char *list;
    const char *key, *time;
    unsigned digits;
    const char *reason;
};

static size_t split(const char *list, struct view *ret_fields, size_t max)
{
    size_t count = 0;
    struct view rest = view_of(list);
    bool more = rest.size > 0;
    while (more && count < max) {
        more = view_find(rest, ',') < rest.size;
        ret_fields[count++] = view_cut(&rest, ',');
    }
    return count;
}

static void what_cannot_be_an_index_is_refused(void **state)
{
    (void)state;
    static const struct bad_schema bad[] = {
        { "", "a", "b", 2, "at least one field" },
        { "a,b", "a", "b", 0, "1 to 4 digits" },
        { "a,b", "a", "b", 5, "1 to 4 digits" },
        { "a,b", "c", "b", 2, "the key 'c' is not one of the fields" },
        { "a,b", "a", "c", 2, "the time 'c' is not one of the fields" },
        { "a,b", "a", "", 2, "the time '' is not one of the fields" },
        { "a,b", "a", "a", 2, "a cannot be both" },
        { "a,b,a", "a", "b", 2, "the field a is listed twice" },
        { "a,,b", "a", "b", 2, "a field has no name" },
        { "a,b c", "a", "b", 2, "starts with 'b'" },
        { "a,b\x1f", "a", "b", 2, "a-z A-Z 0-9 . _ -" },
        { "a,\xc3\xa4", "a", "b", 2, "something else" },
        { "a,\"b", "a", "b", 2, "something else" },
        { "a,x2345678901234567890123456789012345678901234567890123456789012345", "a", "b", 2,
          "longer than 64 bytes" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct view views[8];
        size_t count = split(bad[i].list, views, COUNT(views));
        struct schema schema = { .digits = 77 };
        struct hf_error error = { .why = "" };
        assert_status(HF_INVALID,
                      schema_new(&(struct schema_spec){ views, count, view_of(bad[i].key),
                                                        view_of(bad[i].time), bad[i].digits,
                                                        true },
                                 &schema, &error),
                      &error);
        if (!strstr(error.why, bad[i].reason))
            fail_msg("%s: the reason is: %s", bad[i].list, error.why);
        assert_int_equal(schema.digits, 77);
    }
}

static void the_most_fields_are_taken_and_no_more(void **state)
{
    (void)state;
    struct schema schema = of_many(INDEX_FIELDS_MAX);
    assert_int_equal(schema.field_count, INDEX_FIELDS_MAX);
    struct view views[INDEX_FIELDS_MAX + 1];
    struct hf_error error;
    for (size_t i = 0; i < INDEX_FIELDS_MAX; i++)
        views[i] = view_of(schema.fields[i]);
    views[INDEX_FIELDS_MAX] = VIEW("one-more");
    assert_status(HF_INVALID,
                  schema_new(&(struct schema_spec){ views, INDEX_FIELDS_MAX + 1, views[0],
                                                    views[2], 2, true },
                             &(struct schema){ 0 }, &error),
                  &error);
    assert_non_null(strstr(error.why, "at most 256 fields"));
}

static void the_hash_tells_fields_key_and_time_apart(void **state)
{
    (void)state;
    static const struct {
        const char *list, *key, *time;
    } others[] = {
        { "a,b,c", "a", "c" }, { "a,b,c", "a", "b" },   { "a,b,c", "b", "c" },
        { "a,c,b", "a", "c" }, { "a,b,c,d", "a", "c" }, { "a,bc", "a", "bc" },
        { "ab,c", "ab", "c" },
    };
    uint64_t hashes[COUNT(others)];
    for (size_t i = 0; i < COUNT(others); i++) {
        struct view views[8];
        struct schema schema;
        struct hf_error error;
        size_t count = split(others[i].list, views, COUNT(views));
        assert_status(HF_OK,
                      schema_new(&(struct schema_spec){ views, count, view_of(others[i].key),
                                                        view_of(others[i].time), 2, true },
                                 &schema, &error),
                      &error);
        hashes[i] = schema.versions[0].hash;
        for (size_t j = 0; j < i; j++)
            assert_true(hashes[i] != hashes[j]);
    }
}

/* ---- Growing ----------------------------------------------------------------------------- */

static void further_fields_are_a_further_version(void **state)
{
    (void)state;
    struct schema schema = of_three(), four = of_many(4), six = of_many(6);
    struct hf_error error;
    bool changed = true;
    assert_status(HF_OK, schema_extend(&schema, &four, &changed, &error), &error);
    assert_true(changed);
    assert_status(HF_OK, schema_extend(&schema, &six, &changed, &error), &error);
    assert_true(changed);
    assert_int_equal(schema.version_count, 3);
    assert_int_equal(schema.versions[0].field_count, 3);
    assert_int_equal(schema.versions[1].field_count, 4);
    assert_int_equal(schema.versions[2].field_count, 6);
    assert_true(schema.versions[1].hash == four.versions[0].hash);
    assert_true(schema.versions[2].hash == six.versions[0].hash);
    assert_string_equal(schema.fields[5], "more5");
    assert_status(HF_OK, schema_extend(&schema, &six, &changed, &error), &error);
    assert_false(changed);
    assert_int_equal(schema.version_count, 3);
}

static void what_was_a_version_is_there_still(void **state)
{
    (void)state;
    struct schema schema = of_three(), three = of_three(), four = of_many(4), six = of_many(6);
    struct hf_error error;
    bool changed = true;
    assert_status(HF_OK, schema_extend(&schema, &six, &changed, &error), &error);
    assert_status(HF_OK, schema_extend(&schema, &three, &changed, &error), &error);
    assert_false(changed);
    assert_int_equal(schema.field_count, 6);
    assert_status(HF_INVALID, schema_extend(&schema, &four, &changed, &error), &error);
}

static void assert_no_extension(struct schema wanted, const char *reason)
{
    struct schema schema = of_many(4), before = schema;
    struct hf_error error = { .why = "" };
    bool changed = true;
    assert_status(HF_INVALID, schema_extend(&schema, &wanted, &changed, &error), &error);
    if (!strstr(error.why, reason))
        fail_msg("expected '%s', the reason is: %s", reason, error.why);
    assert_true(changed);
    assert_same(&schema, &before);
}

static void any_other_change_is_refused_by_name(void **state)
{
    (void)state;
    struct schema wanted = of_many(5);
    wanted.digits = 3;
    assert_no_extension(wanted, "have 2 digits; this cannot be changed to 3");
    wanted = of_many(5);
    wanted.foreign = false;
    assert_no_extension(wanted, "accepts entries from other programs");
    wanted = of_many(5);
    wanted.key = 1;
    assert_no_extension(wanted, "the key of the index is domain, not title");
    wanted = of_many(5);
    wanted.time = 3;
    assert_no_extension(wanted, "the time of the index is updated_at, not more3");
    wanted = of_many(5);
    memcpy(wanted.fields[1], "headline", sizeof "headline");
    assert_no_extension(wanted, "field 2 of the index is title, not headline");
    assert_no_extension(of_three(), "the index also has the field more3");
}

static void versions_end_at_their_bound(void **state)
{
    (void)state;
    struct schema schema = of_three(), wanted;
    struct hf_error error;
    bool changed;
    for (size_t i = 1; i < INDEX_VERSIONS_MAX; i++) {
        wanted = of_many(3 + i);
        assert_status(HF_OK, schema_extend(&schema, &wanted, &changed, &error), &error);
    }
    wanted = of_many(3 + INDEX_VERSIONS_MAX);
    assert_status(HF_INVALID, schema_extend(&schema, &wanted, &changed, &error), &error);
    assert_non_null(strstr(error.why, "64 versions"));
    assert_int_equal(schema.version_count, INDEX_VERSIONS_MAX);
}

static void a_shards_version_is_judged(void **state)
{
    (void)state;
    struct schema schema = of_three(), wanted = of_many(5);
    struct hf_error error;
    bool changed;
    uint64_t first = schema.versions[0].hash;
    assert_status(HF_UNSUPPORTED,
                  schema_check_version(&schema, 2, wanted.versions[0].hash, &error), &error);
    assert_status(HF_OK, schema_extend(&schema, &wanted, &changed, &error), &error);
    assert_status(HF_OK, schema_check_version(&schema, 2, wanted.versions[0].hash, &error),
                  &error);
    assert_status(HF_OK, schema_check_version(&schema, 1, first, &error), &error);
    assert_status(HF_CORRUPT, schema_check_version(&schema, 2, first, &error), &error);
    assert_status(HF_CORRUPT, schema_check_version(&schema, 1, first ^ 1, &error), &error);
    assert_status(HF_CORRUPT, schema_check_version(&schema, 0, first, &error), &error);
    assert_status(HF_UNSUPPORTED, schema_check_version(&schema, UINT64_MAX, first, &error),
                  &error);
}

/* ---- index.json -------------------------------------------------------------------------- */

static void index_json_is_written_like_this(void **state)
{
    (void)state;
    struct schema schema = of_three();
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
    assert_true(schema_encode(&schema, VIEW(""), NONCE, &text));
    assert_string_equal(
        buffer_text(&text),
        "{\"format\":\"holdfast.index/1\",\"write\":\"0123456789abcdef\","
        "\"digits\":2,\"foreign\":true,\"key\":\"domain\",\"time\":\"updated_at\","
        "\"fields\":[\"domain\",\"title\",\"updated_at\"],\"versions\":[[3,"
        "\"fc453688648246b2\"]]}\n");
    buffer_release(&text);
}

static void index_json_comes_back_the_same(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
    struct hf_error error;
    struct schema schema = of_three(), again;
    bool changed;
    for (size_t i = 0; i < INDEX_VERSIONS_MAX; i++) {
        size_t count = 3 + i * 4 < INDEX_FIELDS_MAX ? 3 + i * 4 : INDEX_FIELDS_MAX;
        struct schema wanted = of_many(count);
        assert_status(HF_OK, schema_extend(&schema, &wanted, &changed, &error), &error);
        buffer_clear(&text);
        assert_true(schema_encode(&schema, VIEW(""), NONCE, &text));
        assert_status(HF_OK, schema_decode(buffer_view(&text), &again, &error), &error);
        assert_same(&schema, &again);
    }
    buffer_release(&text);
}

static void the_largest_index_json_fits(void **state)
{
    (void)state;
    struct schema schema = of_many(INDEX_FIELDS_MAX), again;
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
    struct hf_error error;
    for (size_t i = 3; i < INDEX_FIELDS_MAX; i++) {
        memset(schema.fields[i], 'x', INDEX_FIELD_BYTES);
        snprintf(schema.fields[i], 8, "%07zu", i);
        schema.fields[i][7] = 'x';
    }
    struct view views[INDEX_FIELDS_MAX];
    for (size_t i = 0; i < INDEX_FIELDS_MAX; i++)
        views[i] = view_of(schema.fields[i]);
    assert_status(HF_OK,
                  schema_new(&(struct schema_spec){ views, INDEX_FIELDS_MAX, views[0], views[2],
                                                    4, false },
                             &again, &error),
                  &error);
    assert_true(schema_encode(&again, VIEW(""), NONCE, &text));
    assert_status(HF_OK, schema_decode(buffer_view(&text), &schema, &error), &error);
    assert_same(&schema, &again);
    buffer_release(&text);
}

/* Replaces `from`, which must be there, in a good index.json. */
static void decode_changed(const char *from, const char *to, enum hf_status expected,
                           const char *reason)
{
    struct schema schema = of_three(), four = of_many(4), again = { .digits = 77 };
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX), changed = BUFFER_INIT(INDEX_BYTES_MAX);
    struct hf_error error = { .why = "" };
    bool grown;
    assert_status(HF_OK, schema_extend(&schema, &four, &grown, &error), &error);
    assert_true(schema_encode(&schema, VIEW(""), NONCE, &text));
    const char *at = strstr(buffer_text(&text), from);
    if (!at)
        fail_msg("%s is not in %s", from, buffer_text(&text));
    assert_non_null(at);
    buffer_append(&changed, (struct view){ text.data, (size_t)(at - text.data) });
    buffer_append(&changed, view_of(to));
    buffer_append(&changed, view_of(at + strlen(from)));
    enum hf_status status = schema_decode(buffer_view(&changed), &again, &error);
    if (status != expected || (reason && !strstr(error.why, reason)))
        fail_msg("%s became %s: %s %s", from, to, hf_status_name(status), error.why);
    if (expected != HF_OK)
        assert_int_equal(again.digits, 77);
    buffer_release(&text);
    buffer_release(&changed);
}

static void index_json_that_contradicts_itself_is_damaged(void **state)
{
    (void)state;
    static const char *const damaged[][2] = {
        { "\"digits\":2", "\"digits\":0" },
        { "\"digits\":2", "\"digits\":5" },
        { "\"digits\":2", "\"digits\":\"2\"" },
        { "\"digits\":2,", "" },
        { "\"foreign\":true", "\"foreign\":1" },
        { "\"foreign\":true,", "" },
        { "\"key\":\"domain\"", "\"key\":\"domains\"" },
        { "\"key\":\"domain\"", "\"key\":\"title\"" },
        { "\"key\":\"domain\"", "\"key\":\"more3\"" },
        { "\"key\":\"domain\",", "" },
        { "\"time\":\"updated_at\"", "\"time\":\"domain\"" },
        { "\"time\":\"updated_at\",", "" },
        { "\"title\"", "\"titel\"" },
        { "\"title\"", "\"tit le\"" },
        { "\"title\"", "\"domain\"" },
        { "\"title\"", "7" },
        { ",\"more3\"", "" },
        { ",\"more3\"", ",\"more3\",\"more4\"" },
        { "[3,", "[2," },
        { "[3,", "[4," },
        { "[3,", "[-3," },
        { "[3,", "[" },
        { "[4,", "[3," },
        { "[4,", "[5," },
        { "\"]]}", "\",1]]}" },
        { "\"]]}", "0\"]]}" },
        { "\"versions\":[[", "\"versions\":[],\"x\":[[" },
        { "\"versions\":[", "\"versions\":[[3,\"fc453688648246b2\"]," },
        { "\"versions\"", "\"versiones\"" },
        { "\"fields\"", "\"feilds\"" },
        { "\"fields\":[", "\"fields\":{" },
        { "{\"format\":\"holdfast.index/1\",", "{" },
        { "holdfast.index/1", "holdfast.catalog/1" },
        { "]]}", "]]}}" },
        { "]]}", "]]" },
    };
    for (size_t i = 0; i < COUNT(damaged); i++)
        decode_changed(damaged[i][0], damaged[i][1], HF_CORRUPT, "index.json is damaged: ");
}

/* The hashes are right; but version 1 could not have been without its key or its time. */
static void key_and_time_are_of_version_1(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"format\":\"holdfast.index/"
        "1\",\"digits\":2,\"foreign\":true,\"key\":\"b\",\"time\":\"a\","
        "\"fields\":[\"a\",\"b\"],\"versions\":[[1,\"e514cee34d6fdc43\"],[2,"
        "\"f344a063a1f8e1db\"]]}",
        "{\"format\":\"holdfast.index/"
        "1\",\"digits\":2,\"foreign\":true,\"key\":\"a\",\"time\":\"b\","
        "\"fields\":[\"a\",\"b\"],\"versions\":[[1,\"6a27bf92c53efe29\"],[2,"
        "\"a7fcb58244421bf5\"]]}",
    };
    struct schema schema;
    struct hf_error error;
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_status(HF_CORRUPT, schema_decode(view_of(texts[i]), &schema, &error), &error);
        assert_non_null(strstr(error.why, "its versions"));
    }
}

static void a_later_format_is_told_from_damage(void **state)
{
    (void)state;
    decode_changed("holdfast.index/1", "holdfast.index/3", HF_UNSUPPORTED, "holdfast.index/3");
    decode_changed("holdfast.index/1\",\"write\"", "holdfast.index/3\",\"digits\"",
                   HF_UNSUPPORTED, "later format");
}

static void members_that_we_do_not_know_are_passed_over(void **state)
{
    (void)state;
    decode_changed("\"digits\"", "\"note\":{\"digits\":9},\"digits\"", HF_OK, NULL);
}

static void no_text_is_taken_by_mistake(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "{}", "[]", "null", "{\"format\":7}", "\x1f" };
    struct hf_error error;
    struct schema schema;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_status(HF_CORRUPT, schema_decode(view_of(texts[i]), &schema, &error), &error);
}

static void without_memory_nothing_is_written(void **state)
{
    (void)state;
    struct schema schema = of_many(40);
    bool failed = true;
    long n = 0;
    for (; failed; n++) {
        struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
        alloc_fail_after(n);
        bool written = schema_encode(&schema, VIEW(""), NONCE, &text);
        failed = alloc_stop();
        assert_int_equal(written, !failed);
        buffer_release(&text);
    }
    assert_true(n > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a schema has its fields, key and time", a_schema_is_made),
        IT("what cannot be an index is refused, with the reason",
           what_cannot_be_an_index_is_refused),
        IT("as many fields as can be are taken, and not one more",
           the_most_fields_are_taken_and_no_more),
        IT("the hash tells other fields, another order, key or time",
           the_hash_tells_fields_key_and_time_apart),
        IT("further fields are a further version, the same ones are none",
           further_fields_are_a_further_version),
        IT("who asks for an earlier version finds it there", what_was_a_version_is_there_still),
        IT("any other change is refused, and the reason names it",
           any_other_change_is_refused_by_name),
        IT("an index has a bounded number of versions", versions_end_at_their_bound),
        IT("a shard of another hash is damaged, one of a later version is not known yet",
           a_shards_version_is_judged),
        IT("index.json is written byte for byte like this, for ever",
           index_json_is_written_like_this),
        IT("index.json comes back as the same schema, of any number of versions",
           index_json_comes_back_the_same),
        IT("the largest schema fits into index.json", the_largest_index_json_fits),
        IT("index.json that contradicts itself is damaged",
           index_json_that_contradicts_itself_is_damaged),
        IT("an index whose first version has no key or no time is damaged",
           key_and_time_are_of_version_1),
        IT("a later format is not taken for damage", a_later_format_is_told_from_damage),
        IT("members of index.json that we do not know are passed over",
           members_that_we_do_not_know_are_passed_over),
        IT("other texts are not taken for an index", no_text_is_taken_by_mistake),
        IT("without memory nothing is written, and nothing leaks",
           without_memory_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
