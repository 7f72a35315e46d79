/* fence_test.c: the fence as a pure type: written and read back, damaged, and who may write over
 * whom. */
#include "lock/fence.h"

#include "base/hash.h"
#include "test.h"

#include <stdio.h>

#define NONCE VIEW("0123456789abcdef0123456789abcdef")

static struct fence_stamp stamp_of(uint64_t token, const char *session, uint64_t seq)
{
    struct fence_stamp stamp = { .token = token, .seq = seq };
    snprintf(stamp.table, sizeof stamp.table, "default/meta/job.json");
    snprintf(stamp.session, sizeof stamp.session, "%s", session);
    return stamp;
}

static struct fence fence_of(enum fence_kind kind, struct view text)
{
    struct fence fence = { .kind = kind, .stamp = stamp_of(41, "aa", 7) };
    if (kind == FENCE_INLINE) {
        fence.size = text.size;
        fence.xxh3 = hash_xxh3(text);
    } else if (kind == FENCE_BODY) {
        fence.size = 5000;
        fence.xxh3 = UINT64_C(0xfedcba9876543210);
    }
    fence_set_text(&fence, text);
    return fence;
}

static void survives(const struct fence *fence)
{
    struct buffer text = BUFFER_INIT(FENCE_BYTES_MAX);
    struct fence again;
    struct hf_error error;
    assert_true(fence_encode(fence, NONCE, &text));
    assert_status(HF_OK, fence_decode(buffer_view(&text), &again, &error), &error);
    assert_int_equal(again.kind, fence->kind);
    assert_true(fence_stamp_equal(&again.stamp, &fence->stamp));
    assert_int_equal(again.size, fence->size);
    assert_true(again.xxh3 == fence->xxh3);
    assert_true(view_equal(fence_text(&again), fence_text(fence)));
    buffer_release(&text);
}

static void every_kind_is_read_back_as_it_was_written(void **state)
{
    (void)state;
    char bytes[FENCE_INLINE_MAX];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i % 251 == 0 ? '\n' : i);
    for (size_t size = 0; size <= sizeof bytes; size += size < 4 ? 1 : 1023) {
        struct fence fence = fence_of(FENCE_INLINE, (struct view){ bytes, size });
        survives(&fence);
    }
    struct fence body = fence_of(FENCE_BODY, VIEW("a \"b\"/\\\xc3\xa9\x01.hf/41-7-00ff"));
    struct fence gone = fence_of(FENCE_DELETED, VIEW(""));
    struct fence none = { .kind = FENCE_NONE };
    survives(&body);
    survives(&gone);
    survives(&none);
}

static void the_longest_keys_fit(void **state)
{
    (void)state;
    char key[KEY_BYTES_MAX];
    memset(key, 1, sizeof key); /* six bytes each, escaped */
    struct fence fence = fence_of(FENCE_BODY, (struct view){ key, sizeof key });
    memcpy(fence.stamp.table, key, sizeof key);
    fence.stamp.token = fence.stamp.seq = UINT64_MAX;
    fence.size = OBJECT_BYTES_MAX;
    survives(&fence);
}

static enum hf_status decode(struct view bytes)
{
    struct fence fence;
    struct hf_error error = { .why = "" };
    enum hf_status status = fence_decode(bytes, &fence, &error);
    assert_true(status == HF_OK || error.why[0] != '\0');
    return status;
}

static void what_is_not_a_fence_is_told_from_what_was_one(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum hf_status status;
    } rows[] = {
        { "", HF_MISMATCH },
        { "{", HF_MISMATCH },
        { "plain text", HF_MISMATCH },
        { "{ \"format\": \"holdfast.leases/1\" }\n", HF_MISMATCH },
        { "{ \"format\": \"holdfast.fenced/", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/1\"", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/1\" }", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/1\" }\n", HF_OK },
        { "{ \"format\": \"holdfast.fenced/1\" }\nx", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/1\", \"token\": 4 }\n", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/1\", \"deleted\": true }\n", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/2\", \"new\": [] }\n", HF_UNSUPPORTED },
        { "{ \"format\": \"holdfast.fenced/x\" }\n", HF_CORRUPT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(decode(view_of(rows[i].text)), rows[i].status);
}

static void members_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *change, *from;
        enum hf_status status;
    } rows[] = {
        { "\"token\": 41", "\"token\": 41", HF_OK },
        { "\"new\": {}", "\"nothing\": 1", HF_OK },
        { "\"token\": 0", "\"token\": 41", HF_CORRUPT },
        { "\"token\": -1", "\"token\": 41", HF_CORRUPT },
        { "\"token\": \"41\"", "\"token\": 41", HF_CORRUPT },
        { "\"token\": 4.1", "\"token\": 41", HF_CORRUPT },
        { "\"seq\": 0", "\"seq\": 7", HF_CORRUPT },
        { "\"table\": \"\"", "\"table\": \"t\"", HF_CORRUPT },
        { "\"table\": \"a\\u0000b\"", "\"table\": \"t\"", HF_CORRUPT },
        { "\"session\": \"\"", "\"session\": \"aa\"", HF_CORRUPT },
        { "\"size\": 3", "\"size\": 4", HF_CORRUPT },
        { "\"size\": 5", "\"size\": 4", HF_CORRUPT },
        { "\"xxh3\": \"0123\"", "\"xxh3\": \"", HF_CORRUPT },
        { "\"inline\": false", "\"inline\": true", HF_CORRUPT },
        { "\"inline\": true, \"deleted\": true", "\"inline\": true", HF_CORRUPT },
        { "\"body\": \"a.hf/1\", \"inline\": true", "\"inline\": true", HF_CORRUPT },
        { "\"body\": \"a.hf/1\"", "\"inline\": true", HF_CORRUPT },
        { "\"deleted\": true", "\"inline\": true", HF_CORRUPT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        const char *members[] = { "\"table\": \"t\"", "\"token\": 41",   "\"session\": \"aa\"",
                                  "\"seq\": 7",       "\"size\": 4",     "\"xxh3\": \"",
                                  "\"nothing\": 1",   "\"inline\": true" };
        int size = snprintf(text, sizeof text, "{ \"format\": \"holdfast.fenced/1\"");
        for (size_t j = 0; j < sizeof members / sizeof members[0]; j++) {
            bool changed = strcmp(members[j], rows[i].from) == 0;
            size += snprintf(text + size, sizeof text - (size_t)size, ", %s",
                             changed ? rows[i].change : members[j]);
            if (strcmp(members[j], "\"xxh3\": \"") == 0 && !changed)
                size += snprintf(text + size, sizeof text - (size_t)size, "%016llx\"",
                                 (unsigned long long)hash_xxh3(VIEW("body")));
        }
        snprintf(text + size, sizeof text - (size_t)size, " }\nbody");
        if (decode(view_of(text)) != rows[i].status)
            fail_msg("%s", text);
    }
}

/* No damage of one bit or by cutting off makes a good fence of it, or one of another's. */
static void no_small_damage_goes_unnoticed_where_it_counts(void **state)
{
    (void)state;
    struct fence fence = fence_of(FENCE_INLINE, VIEW("the body")), read;
    struct buffer text = BUFFER_INIT(FENCE_BYTES_MAX);
    struct hf_error error;
    assert_true(fence_encode(&fence, NONCE, &text));
    for (size_t size = 0; size < text.size; size++)
        assert_int_not_equal(decode((struct view){ text.data, size }), HF_OK);
    size_t body = text.size - strlen("the body");
    for (size_t bit = 8 * body; bit < 8 * text.size; bit++) {
        text.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(fence_decode(buffer_view(&text), &read, &error), HF_CORRUPT);
        text.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    buffer_release(&text);
}

/* ---- Judging ------------------------------------------------------------------------- */

static void who_may_write_over_whom(void **state)
{
    (void)state;
    const struct {
        struct fence_stamp last; /* token 0: nobody has written */
        enum hf_status status;
        enum fence_outcome outcome;
    } rows[] = {
        { { .token = 0 }, HF_OK, FENCE_WRITE },
        { stamp_of(40, "bb", 99), HF_OK, FENCE_WRITE },
        { stamp_of(40, "aa", 99), HF_OK, FENCE_WRITE },
        { stamp_of(42, "bb", 1), HF_FENCED, FENCE_WRITE },
        { stamp_of(42, "aa", 1), HF_FENCED, FENCE_WRITE },
        { stamp_of(41, "aa", 6), HF_OK, FENCE_WRITE },
        { stamp_of(41, "aa", 7), HF_OK, FENCE_DONE },
        { stamp_of(41, "aa", 8), HF_OK, FENCE_SUPERSEDED },
        /* The lease was passed on: numbers of another session say nothing. */
        { stamp_of(41, "bb", 99), HF_OK, FENCE_WRITE },
        { stamp_of(41, "bb", 7), HF_OK, FENCE_WRITE },
    };
    const struct fence_stamp writer = stamp_of(41, "aa", 7);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fence fence = { .kind = rows[i].last.token ? FENCE_DELETED : FENCE_NONE,
                               .stamp = rows[i].last };
        enum fence_outcome outcome;
        struct hf_error error;
        assert_int_equal(fence_judge(&fence, &writer, &outcome, &error), rows[i].status);
        assert_int_equal(outcome, rows[i].outcome);
    }
}

static void a_try_may_be_gone_when_the_same_token_has_written_since(void **state)
{
    (void)state;
    const struct {
        struct fence_stamp over, last;
        bool may_be_gone;
    } rows[] = {
        { stamp_of(41, "bb", 1), stamp_of(41, "bb", 1), false },
        { stamp_of(41, "bb", 1), stamp_of(41, "bb", 2), true },
        { stamp_of(40, "cc", 1), stamp_of(41, "bb", 1), true },
        { { .token = 0 }, stamp_of(41, "bb", 1), true },
        { stamp_of(39, "bb", 1), stamp_of(40, "bb", 1), false },
        { stamp_of(39, "bb", 1), { .token = 0 }, false },
    };
    const struct fence_stamp writer = stamp_of(41, "aa", 7);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fence fence = { .kind = FENCE_DELETED, .stamp = rows[i].last };
        assert_int_equal(fence_may_be_gone(&fence, &writer, &rows[i].over),
                         rows[i].may_be_gone);
    }
}

static void another_table_is_a_mismatch_whatever_the_token(void **state)
{
    (void)state;
    const struct fence_stamp writer = stamp_of(41, "aa", 7);
    for (uint64_t token = 40; token <= 42; token++) {
        struct fence fence = { .kind = FENCE_DELETED, .stamp = stamp_of(token, "aa", 7) };
        enum fence_outcome outcome;
        struct hf_error error;
        snprintf(fence.stamp.table, sizeof fence.stamp.table, "default/meta/other.json");
        assert_int_equal(fence_judge(&fence, &writer, &outcome, &error), HF_MISMATCH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("every kind of fence is read back as it was written",
           every_kind_is_read_back_as_it_was_written),
        IT("the longest keys fit, every byte escaped", the_longest_keys_fit),
        IT("what is not a fence is told from what was one",
           what_is_not_a_fence_is_told_from_what_was_one),
        IT("members are checked, unknown ones passed over", members_are_checked),
        IT("a fence that is cut off, or a body with one bit changed, is CORRUPT",
           no_small_damage_goes_unnoticed_where_it_counts),
        IT("a fence says who may write over whom", who_may_write_over_whom),
        IT("a try may be gone when another with the same token has written since",
           a_try_may_be_gone_when_the_same_token_has_written_since),
        IT("another table is a MISMATCH, whatever the token",
           another_table_is_a_mismatch_whatever_the_token),
    };
    return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
