/* SPDX-License-Identifier: Apache-2.0 */
/* fence_test.c: the fence as a pure type: writing and reading it, damage, and which writer may
 * overwrite which. */
#include "lock/fence.h"

#include "base/hash.h"
#include "test.h"

#include <stdio.h>

#define NONCE VIEW("0123456789abcdef")

static struct fence_stamp stamp_of(uint64_t token, const char *session, uint64_t seq)
{
    struct fence_stamp stamp = { .token = token, .seq = seq };
    snprintf(stamp.table, sizeof stamp.table, "default/meta/job.json");
    snprintf(stamp.session, sizeof stamp.session, "%s", session);
    return stamp;
}

static struct scope scope_of(const char *text)
{
    struct scope scope;
    struct hf_error error;
    assert_status(HF_OK, scope_parse(view_of(text), &scope, &error), &error);
    return scope;
}

static enum hf_status sign(struct fence *fence, struct fence_stamp stamp,
                           const struct scope *scopes, size_t count)
{
    const struct fence_writer writer = { stamp, scopes, count };
    const struct fence before = *fence;
    struct hf_error error = { .why = "" };
    enum hf_status status = fence_sign(fence, &writer, &error);
    if (status != HF_OK) {
        assert_true(error.why[0] != '\0');
        assert_true(fence_stamp_equal(&fence->stamp, &before.stamp));
        assert_int_equal(fence->scopes.size, before.scopes.size);
    }
    return status;
}

static void sign_with(struct fence *fence, struct fence_stamp stamp, const char *text)
{
    const struct scope scope = scope_of(text);
    assert_int_equal(sign(fence, stamp, &scope, 1), HF_OK);
}

static struct fence_scopes scopes_of(const char *text)
{
    struct fence fence = { .kind = FENCE_NONE };
    sign_with(&fence, stamp_of(1, "aa", 1), text);
    return fence.scopes;
}

static struct fence fence_of(enum fence_kind kind, struct view text)
{
    struct fence fence = { .kind = kind, .stamp = stamp_of(41, "aa", 7) };
    fence.scopes = scopes_of("named:job");
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
    assert_true(fence_stamp_equal(&again.before, &fence->before));
    assert_int_equal(again.scopes.size, fence->scopes.size);
    assert_memory_equal(again.scopes.texts, fence->scopes.texts, fence->scopes.size);
    assert_int_equal(again.unknown_size, fence->unknown_size);
    assert_memory_equal(again.unknown, fence->unknown, fence->unknown_size);
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
    body.before = stamp_of(39, "cc", 12);
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
    fence.before = fence.stamp;
    fence.size = OBJECT_BYTES_MAX;
    memset(fence.scopes.texts, 1, sizeof fence.scopes.texts);
    fence.scopes.size = sizeof fence.scopes.texts;
    for (size_t end = 1000; end <= fence.scopes.size; end += 1000)
        fence.scopes.texts[end - 1] = '\0';
    fence.scopes.texts[fence.scopes.size - 1] = '\0';
    int size = snprintf(fence.unknown, sizeof fence.unknown, ", \"later\": \"%0*d\"",
                        (int)FENCE_UNKNOWN_MAX - 14, 0);
    fence.unknown_size = (size_t)size;
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
        { "{ \"format\": \"holdfast.fenced/1\", \"scopes\": [\"job\"] }\n", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/2\" }\n", HF_OK },
        { "{ \"format\": \"holdfast.fenced/2\", \"new\": [] }\n", HF_OK },
        { "{ \"format\": \"holdfast.fenced/2\", \"before_token\": 4 }\n", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/2\", \"deleted\": true }\n", HF_CORRUPT },
        { "{ \"format\": \"holdfast.fenced/3\", \"new\": [] }\n", HF_UNSUPPORTED },
        { "{ \"format\": \"holdfast.fenced/22\" }\n", HF_UNSUPPORTED },
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
        { "\"nothing\": 1", "\"scopes\": [\"job\"]", HF_CORRUPT },
        { "\"scopes\": []", "\"scopes\": [\"job\"]", HF_CORRUPT },
        { "\"scopes\": \"job\"", "\"scopes\": [\"job\"]", HF_CORRUPT },
        { "\"scopes\": [\"\"]", "\"scopes\": [\"job\"]", HF_CORRUPT },
        { "\"scopes\": [\"later:x\", \"job\"]", "\"scopes\": [\"job\"]", HF_OK },
        { "\"before_token\": 3", "\"nothing\": 1", HF_CORRUPT },
        { "\"before_token\": 3, \"before_session\": \"cc\", \"before_seq\": 1",
          "\"nothing\": 1", HF_OK },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        const char *members[] = { "\"table\": \"t\"",     "\"token\": 41",
                                  "\"session\": \"aa\"",  "\"seq\": 7",
                                  "\"size\": 4",          "\"xxh3\": \"",
                                  "\"nothing\": 1",       "\"inline\": true",
                                  "\"scopes\": [\"job\"]" };
        int size = snprintf(text, sizeof text, "{ \"format\": \"holdfast.fenced/2\"");
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

/* ---- Other versions ------------------------------------------------------------------ */

static void members_that_we_do_not_know_stay(void **state)
{
    (void)state;
    static const char line[] =
        "{ \"format\": \"holdfast.fenced/2\", \"later\": {\"a\":[1, \"}\\n\"]}, \"table\": "
        "\"default/meta/job.json\", \"scopes\": [\"job\"], \"token\": 41, \"session\": \"aa\", "
        "\"seq\": 7, \"size\": 0, "
        "\"xxh3\": \"2d06800538d394c2\", \"deleted\": true, \"b\": null, \"write\": \"00\" }\n";
    static const char kept[] = ", \"later\": {\"a\":[1, \"}\\n\"]}, \"b\": null";
    struct fence fence;
    struct hf_error error;
    assert_status(HF_OK, fence_decode(view_of(line), &fence, &error), &error);
    assert_int_equal(fence.unknown_size, strlen(kept));
    assert_memory_equal(fence.unknown, kept, strlen(kept));
    survives(&fence);
    sign_with(&fence, stamp_of(42, "bb", 1), "job");
    survives(&fence);
    assert_memory_equal(fence.unknown, kept, strlen(kept));
}

static void more_than_can_be_kept_is_unsupported(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT(FENCE_BYTES_MAX);
    buffer_print(&text, "{ \"format\": \"holdfast.fenced/2\", \"later\": \"%0*d\" }\n",
                 (int)FENCE_UNKNOWN_MAX, 0);
    assert_int_equal(decode(buffer_view(&text)), HF_UNSUPPORTED);
    buffer_release(&text);
}

/* Version 1 knows its table only. It stays of that version until its scopes are known, also when
 * it is written again just to shut others out. */
static const char old_line[] =
    "{ \"format\": \"holdfast.fenced/1\", \"table\": \"default/meta/job.json\", \"token\": 40, "
    "\"session\": \"bb\", \"seq\": 3, \"size\": 3, \"xxh3\": \"78af5f94892f3950\", "
    "\"inline\": true, \"write\": \"00\" }\nabc";

static void version_1_is_read(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT(FENCE_BYTES_MAX);
    struct fence fence;
    struct hf_error error;
    assert_status(HF_OK, fence_decode(view_of(old_line), &fence, &error), &error);
    assert_true(view_equal(fence_text(&fence), VIEW("abc")));
    assert_int_equal(fence.scopes.size, 0);
    assert_true(fence_encode(&fence, NONCE, &text));
    assert_true(
        view_starts_with(buffer_view(&text), VIEW("{ \"format\": \"holdfast.fenced/1\"")));
    survives(&fence);
    sign_with(&fence, stamp_of(41, "aa", 7), "job");
    buffer_clear(&text);
    assert_true(fence_encode(&fence, NONCE, &text));
    assert_true(
        view_starts_with(buffer_view(&text), VIEW("{ \"format\": \"holdfast.fenced/2\"")));
    survives(&fence);
    assert_int_equal(fence.before.token, 40);
    buffer_release(&text);
}

/* ---- Judging ------------------------------------------------------------------------- */

static enum hf_status judge(const struct fence *fence, const struct fence_stamp *stamp,
                            const char *scope, enum fence_outcome *ret_outcome)
{
    struct scope held = scope_of(scope);
    const struct fence_writer writer = { *stamp, &held, 1 };
    struct hf_error error = { .why = "" };
    enum hf_status status = fence_check_writer(fence, &writer, ret_outcome, &error);
    assert_true(status == HF_OK || error.why[0] != '\0');
    return status;
}

static void a_writer_covers_each_scope_of_the_fence(void **state)
{
    (void)state;
    static const struct {
        const char *kept[2], *held;
        enum hf_status status;
    } rows[] = {
        { { "path:/a/b" }, "path:/a/b", HF_OK },
        { { "path:/a/b" }, "tree:/a", HF_OK },
        { { "path:/a/b" }, "path:/unrelated", HF_MISMATCH },
        { { "path:/a/b" }, "tree:/c", HF_MISMATCH },
        { { "tree:/a" }, "tree:/b", HF_MISMATCH },
        { { "tree:/a" }, "tree:/a/b", HF_MISMATCH },
        { { "tree:/a" }, "path:/a", HF_MISMATCH },
        { { "path:/a", "path:/b" }, "tree:/", HF_OK },
        { { "path:/a", "path:/b" }, "path:/a", HF_MISMATCH },
        { { "path:/a", "path:/b" }, "path:/b", HF_MISMATCH },
        { { "range:7:0-10" }, "range:7:20-30", HF_MISMATCH },
        { { "range:7:0-10" }, "range:7:0-20", HF_OK },
        { { "range:7:0-10" }, "range:7:5-20", HF_MISMATCH },
        { { "range:7:0-10" }, "inode:7", HF_OK },
        { { "inode:7" }, "range:7:0-10", HF_MISMATCH },
        { { "later:x" }, "tree:/", HF_UNSUPPORTED },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint64_t token = 40; token <= 42; token++) { /* whatever the tokens are */
            const struct fence_stamp writer = stamp_of(41, "aa", 7);
            struct fence fence = { .kind = FENCE_DELETED, .stamp = stamp_of(token, "bb", 1) };
            for (size_t j = 0; j < 2 && rows[i].kept[j]; j++) {
                size_t size = strlen(rows[i].kept[j]) + 1;
                memcpy(fence.scopes.texts + fence.scopes.size, rows[i].kept[j], size);
                fence.scopes.size += size;
            }
            enum fence_outcome outcome;
            enum hf_status expected =
                rows[i].status == HF_OK && token > 41 ? HF_FENCED : rows[i].status;
            if (judge(&fence, &writer, rows[i].held, &outcome) != expected)
                fail_msg("%s under %s", rows[i].kept[0], rows[i].held);
        }
}

/* The scope that a fence of version 1 was made under is unknown: so a lock must cover all that it
 * can have been, or be the lease that wrote it last. */
static void version_1_is_for_whoever_has_all_of_its_table(void **state)
{
    (void)state;
    static const struct {
        const char *held;
        uint64_t token;
        enum hf_status status;
    } rows[] = {
        { "job", 41, HF_OK },
        { "tree:/", 41, HF_OK },
        { "inode:7", 41, HF_OK },
        { "shard:x/a3", 41, HF_OK },
        { "path:/a", 41, HF_MISMATCH },
        { "tree:/a", 41, HF_MISMATCH },
        { "range:7:0-", 41, HF_MISMATCH },
        { "chunk:x", 41, HF_MISMATCH },
        { "path:/a", 40, HF_OK },
        { "chunk:x", 40, HF_OK },
        { "path:/a", 39, HF_MISMATCH },
        { "job", 39, HF_FENCED },
    };
    struct fence fence;
    struct hf_error error;
    assert_status(HF_OK, fence_decode(view_of(old_line), &fence, &error), &error);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct fence_stamp writer = stamp_of(rows[i].token, "aa", 7);
        enum fence_outcome outcome;
        if (judge(&fence, &writer, rows[i].held, &outcome) != rows[i].status)
            fail_msg("%s", rows[i].held);
    }
}

static void the_scopes_of_a_fence_never_change(void **state)
{
    (void)state;
    struct fence fence = { .kind = FENCE_NONE };
    sign_with(&fence, stamp_of(41, "aa", 7), "path:/a/b");
    assert_string_equal(fence.scopes.texts, "path:/a/b");
    sign_with(&fence, stamp_of(42, "bb", 1), "tree:/a");
    assert_string_equal(fence.scopes.texts, "path:/a/b");
    assert_int_equal(fence.scopes.size, strlen("path:/a/b") + 1);
}

static void pins_and_too_many_scopes_cannot_be_kept(void **state)
{
    (void)state;
    char long_path[1024];
    int size = snprintf(long_path, sizeof long_path, "path:/%01000d", 0);
    assert_true(size > 1000);
    const struct scope path = scope_of(long_path), pin = scope_of("pin:x");
    const struct scope mixed[] = { pin, scope_of("chunk:x") };
    const struct scope five[] = { path, path, path, path, path };
    const struct fence_stamp stamp = stamp_of(41, "aa", 7);
    struct fence fence = { .kind = FENCE_NONE };
    assert_int_equal(sign(&fence, stamp, &pin, 1), HF_MISMATCH);
    assert_int_equal(sign(&fence, stamp, NULL, 0), HF_MISMATCH);
    assert_int_equal(sign(&fence, stamp, five, 5), HF_INVALID);
    assert_int_equal(sign(&fence, stamp, mixed, 2), HF_OK);
    assert_string_equal(fence.scopes.texts, "chunk:x");
    assert_int_equal(sign(&fence, stamp, five, 5), HF_OK); /* nothing is to be kept of these */
    fence.scopes.size = 0;
    assert_int_equal(sign(&fence, stamp, five, 4), HF_OK);
}

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
                               .stamp = rows[i].last,
                               .scopes = scopes_of("job") };
        enum fence_outcome outcome;
        assert_int_equal(judge(&fence, &writer, "job", &outcome), rows[i].status);
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

/* A later holder has written. Whether ours was there before is told by the last write of the token
 * before the later one. */
static void a_try_may_be_gone_when_a_later_token_has_written(void **state)
{
    (void)state;
    const struct {
        struct fence_stamp over, before;
        bool may_be_gone;
    } rows[] = {
        { { .token = 0 }, { .token = 0 }, false },               /* nobody wrote before it */
        { stamp_of(40, "cc", 1), stamp_of(40, "cc", 1), false }, /* nobody of our token */
        { stamp_of(39, "cc", 1), stamp_of(40, "cc", 1), false },
        { stamp_of(41, "aa", 6), stamp_of(41, "aa", 6), false }, /* the one before ours */
        { stamp_of(41, "aa", 6), stamp_of(41, "aa", 7), true },  /* ours */
        { stamp_of(40, "cc", 1), stamp_of(41, "aa", 7), true },
        { stamp_of(40, "cc", 1), stamp_of(41, "bb", 1), true }, /* of our token, after ours? */
        { stamp_of(40, "cc", 1), stamp_of(42, "dd", 1), true }, /* two have written since */
    };
    const struct fence_stamp writer = stamp_of(41, "aa", 7);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fence fence = { .kind = FENCE_DELETED,
                               .stamp = stamp_of(43, "ee", 1),
                               .before = rows[i].before };
        assert_int_equal(fence_may_be_gone(&fence, &writer, &rows[i].over),
                         rows[i].may_be_gone);
    }
}

static void a_fence_names_the_last_write_of_the_token_before(void **state)
{
    (void)state;
    const struct fence_stamp stamps[] = { stamp_of(40, "aa", 1), stamp_of(40, "bb", 9),
                                          stamp_of(42, "aa", 5), stamp_of(42, "aa", 6) };
    struct fence fence = { .kind = FENCE_NONE };
    for (size_t i = 0; i < 4; i++) {
        sign_with(&fence, stamps[i], "job");
        fence.kind = FENCE_DELETED;
    }
    assert_true(fence_stamp_equal(&fence.before, &stamps[1]));
}

static void another_table_is_a_mismatch_whatever_the_token(void **state)
{
    (void)state;
    const struct fence_stamp writer = stamp_of(41, "aa", 7);
    for (uint64_t token = 40; token <= 42; token++) {
        struct fence fence = { .kind = FENCE_DELETED, .stamp = stamp_of(token, "aa", 7) };
        enum fence_outcome outcome;
        fence.scopes = scopes_of("job");
        snprintf(fence.stamp.table, sizeof fence.stamp.table, "default/meta/other.json");
        assert_int_equal(judge(&fence, &writer, "job", &outcome), HF_MISMATCH);
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
        IT("members are checked", members_are_checked),
        IT("members that we do not know stay, over writes too",
           members_that_we_do_not_know_stay),
        IT("a fence with more that we do not know than we can keep is UNSUPPORTED",
           more_than_can_be_kept_is_unsupported),
        IT("a fence of version 1 is read, and of that version until its scopes are known",
           version_1_is_read),
        IT("a fence that is cut off, or a body with one bit changed, is CORRUPT",
           no_small_damage_goes_unnoticed_where_it_counts),
        IT("a fence says who may write over whom", who_may_write_over_whom),
        IT("a try may be gone when another with the same token has written since",
           a_try_may_be_gone_when_the_same_token_has_written_since),
        IT("a try may be gone when a later token has written since, unless the fence tells",
           a_try_may_be_gone_when_a_later_token_has_written),
        IT("a fence names the last write of the token before",
           a_fence_names_the_last_write_of_the_token_before),
        IT("a writer covers each scope of the fence, whatever its token",
           a_writer_covers_each_scope_of_the_fence),
        IT("a fence of version 1 is for whoever has all of its table, or wrote it last",
           version_1_is_for_whoever_has_all_of_its_table),
        IT("the scopes of a fence never change", the_scopes_of_a_fence_never_change),
        IT("a fence keeps no pins, and so many bytes of scopes",
           pins_and_too_many_scopes_cannot_be_kept),
        IT("another table is a MISMATCH, whatever the token",
           another_table_is_a_mismatch_whatever_the_token),
    };
    return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
