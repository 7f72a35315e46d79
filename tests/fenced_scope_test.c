/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_scope_test.c: a fenced object belongs to the scopes of its first writer. Tests which
 * other holders in the same table may write it afterwards. */
#include "fenced_kit.h"

#include "lock/fence.h"

#include <stdio.h>
#include <stdlib.h>

/* A lock of up to two scopes, held by the peer. */
static struct hf_lock *hold(struct peer *peer, const char *first, const char *second,
                            enum hf_mode mode)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    const char *scopes[] = { first, second };
    struct hf_lock *lock;
    struct hf_error error;
    options.no_renewal = true;
    options.mode = mode;
    options.slots = mode == HF_SLOTS ? 1 : 0;
    assert_status(
        HF_OK, hf_lock_new_many(peer->client, scopes, second ? 2 : 1, &options, &lock, &error),
        &error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &error), &error);
    return lock;
}

static struct hf_lock *hold_one(struct peer *peer, const char *scope)
{
    return hold(peer, scope, NULL, HF_EXCLUSIVE);
}

static enum hf_status write_as(struct hf_lock *lock, const char *text)
{
    struct hf_error error;
    enum hf_status status = hf_fenced_put(lock, OBJECT, text, strlen(text), &error);
    assert_int_equal(error.status, status);
    return status;
}

static void give_back(struct hf_lock *lock)
{
    struct hf_error error;
    assert_status(HF_OK, hf_lock_release(lock, &error), &error);
    hf_lock_free(lock);
}

static void assert_scopes(struct fenced_kit *kit, const char *expected)
{
    char *text = bucket_text(kit, OBJECT);
    assert_non_null(text);
    if (!strstr(text, expected))
        fail_msg("%s is not in: %s", expected, text);
    free(text);
}

/* ---- Locks of one table -------------------------------------------------------------- */

/* Both are held at once, so neither token says who was first. */
static void another_lock_of_the_same_table_is_a_mismatch(void **state)
{
    struct fenced_kit *kit = *state;
    static const char *const pairs[][2] = {
        { "path:/a/b", "path:/unrelated" }, { "tree:/a", "tree:/b" },
        { "path:/a", "tree:/a/b" },         { "range:7:0-10", "range:7:10-20" },
        { "range:7:0-10", "range:7:90-" },  { "chunk:x", "chunk:y" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char key[16];
        struct hf_error error;
        snprintf(key, sizeof key, "thing/%zu", i);
        struct hf_lock *one = hold_one(&kit->one, pairs[i][0]);
        struct hf_lock *two = hold_one(&kit->two, pairs[i][1]);
        assert_true(hf_lock_token(two) > hf_lock_token(one));
        assert_status(HF_OK, hf_fenced_put(one, key, "mine", 4, &error), &error);
        assert_status(HF_MISMATCH, hf_fenced_put(two, key, "x", 1, &error), &error);
        assert_non_null(strstr(error.why, pairs[i][0]));
        assert_status(HF_MISMATCH, hf_fenced_delete(two, key, &error), &error);
        assert_status(HF_OK, hf_fenced_put(one, key, "still mine", 10, &error), &error);
        give_back(one);
        give_back(two);
    }
}

static void a_lock_that_covers_it_may_write_and_the_scope_stays(void **state)
{
    struct fenced_kit *kit = *state;
    static const char *const rows[][2] = {
        { "path:/a/b", "tree:/a" },
        { "tree:/a/b", "tree:/" },
        { "range:7:4-8", "range:7:0-10" },
        { "range:7:4-8", "inode:7" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char scopes[64];
        struct delete_call removal = { .key = VIEW(OBJECT) };
        store_delete(kit->bucket, &removal);
        snprintf(scopes, sizeof scopes, "\"scopes\": [\"%s\"]", rows[i][0]);
        for (int round = 0; round < 3; round++) {
            struct hf_lock *small = hold_one(&kit->one, rows[i][0]);
            assert_int_equal(write_as(small, "small"), HF_OK);
            assert_scopes(kit, scopes);
            give_back(small);
            struct hf_lock *wide = hold_one(&kit->two, rows[i][1]);
            assert_int_equal(write_as(wide, "wide"), HF_OK);
            assert_scopes(kit, scopes);
            give_back(wide);
        }
    }
}

static void a_lock_of_several_scopes_leaves_them_all(void **state)
{
    struct fenced_kit *kit = *state;
    struct hf_lock *both = hold(&kit->one, "path:/a", "path:/b", HF_EXCLUSIVE);
    assert_int_equal(write_as(both, "both"), HF_OK);
    assert_scopes(kit, "\"scopes\": [\"path:/a\", \"path:/b\"]");
    give_back(both);
    struct hf_lock *a = hold_one(&kit->one, "path:/a"), *b = hold_one(&kit->two, "path:/b");
    assert_int_equal(write_as(a, "a"), HF_MISMATCH);
    assert_int_equal(write_as(b, "b"), HF_MISMATCH);
    give_back(a);
    give_back(b);
    struct hf_lock *more = hold(&kit->two, "tree:/b", "path:/a", HF_EXCLUSIVE);
    assert_int_equal(write_as(more, "more"), HF_OK);
    give_back(more);
    struct hf_lock *root = hold_one(&kit->two, "tree:/");
    assert_int_equal(write_as(root, "root"), HF_OK);
    assert_scopes(kit, "\"scopes\": [\"path:/a\", \"path:/b\"]");
    give_back(root);
}

static void what_is_not_held_alone_does_not_write(void **state)
{
    struct fenced_kit *kit = *state;
    static const struct {
        const char *scope;
        enum hf_mode mode;
    } rows[] = { { "job", HF_SHARED },
                 { "path:/a", HF_SHARED },
                 { "job", HF_SLOTS },
                 { "pin:data/x", HF_EXCLUSIVE } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hf_lock *lock = hold(&kit->one, rows[i].scope, NULL, rows[i].mode);
        assert_int_equal(write_as(lock, "x"), HF_MISMATCH);
        struct hf_lock *given = pass_on(lock, &kit->two);
        assert_int_equal(write_as(given, "x"), HF_MISMATCH);
        assert_null(bucket_text(kit, OBJECT));
        hf_lock_detach(given);
        give_back(lock);
    }
}

static void a_lease_that_was_passed_on_covers_what_it_did(void **state)
{
    struct fenced_kit *kit = *state;
    struct hf_lock *path = hold(&kit->one, "path:/a", "path:/b", HF_EXCLUSIVE);
    struct hf_lock *other = hold_one(&kit->one, "path:/c");
    struct hf_lock *given = pass_on(path, &kit->two), *strange = pass_on(other, &kit->two);
    assert_int_equal(write_as(given, "given"), HF_OK);
    assert_scopes(kit, "\"scopes\": [\"path:/a\", \"path:/b\"]");
    assert_int_equal(write_as(strange, "strange"), HF_MISMATCH);
    assert_int_equal(write_as(path, "path"), HF_OK);
    hf_lock_detach(given);
    hf_lock_detach(strange);
    give_back(path);
    give_back(other);
}

static void more_scopes_than_a_fence_keeps_are_invalid(void **state)
{
    struct fenced_kit *kit = *state;
    enum { MANY = 8 };
    static char texts[MANY][1024];
    const char *scopes[MANY];
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    struct hf_error error;
    options.no_renewal = true;
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "path:/%d/%0900d", i, 0);
        scopes[i] = texts[i];
    }
    assert_status(HF_OK,
                  hf_lock_new_many(kit->one.client, scopes, MANY, &options, &lock, &error),
                  &error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &error), &error);
    assert_int_equal(write_as(lock, "x"), HF_INVALID);
    assert_null(bucket_text(kit, OBJECT));
    assert_int_equal(hf_lock_release(lock, NULL), HF_OK);
    struct hf_lock *one = hold_one(&kit->two, scopes[0]);
    assert_int_equal(write_as(one, "one"), HF_OK);
    give_back(one);
    assert_int_equal(hf_lock_acquire(lock, 0, NULL), HF_OK);
    assert_int_equal(write_as(lock, "many"), HF_OK); /* they cover it all the same */
    give_back(lock);
}

/* ---- Other versions ------------------------------------------------------------------ */

/* What an earlier version left under this table. */
static void write_old(struct fenced_kit *kit, const char *table)
{
    char text[512];
    int size = snprintf(text, sizeof text,
                        "{ \"format\": \"holdfast.fenced/1\", \"table\": \"%s\", \"token\": 1, "
                        "\"session\": \"aa\", \"seq\": 32, \"size\": 3, "
                        "\"xxh3\": \"78af5f94892f3950\", \"inline\": true, \"later\": [1], "
                        "\"write\": \"00\" }\nabc",
                        table);
    bucket_write(kit, OBJECT, (struct view){ text, (size_t)size });
}

static void an_object_of_version_1_is_read_and_written(void **state)
{
    struct fenced_kit *kit = *state;
    write_old(kit, "default/meta/job.json");
    assert_object(&kit->two, VIEW("abc"), 1);
    one_holds(kit);
    assert_int_equal(put(&kit->one, "new"), HF_OK);
    assert_scopes(kit, "\"scopes\": [\"named:job\"]");
    assert_scopes(kit, "\"later\": [1]");
    assert_object(&kit->two, VIEW("new"), hf_lock_token(kit->one.lock));
}

static void version_1_of_a_path_needs_the_whole_table(void **state)
{
    struct fenced_kit *kit = *state;
    write_old(kit, "default/paths.json");
    give_back(hold_one(&kit->one, "path:/a")); /* the lease of its token, which may write */
    struct hf_lock *path = hold_one(&kit->one, "path:/a");
    assert_int_equal(write_as(path, "x"), HF_MISMATCH);
    assert_object(&kit->two, VIEW("abc"), 1);
    give_back(path);
    struct hf_lock *root = hold_one(&kit->one, "tree:/");
    assert_int_equal(write_as(root, "root"), HF_OK);
    assert_scopes(kit, "\"scopes\": [\"tree:/\"]");
    give_back(root);
}

static void members_of_later_versions_stay(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "first"), HF_OK);
    char *text = bucket_text(kit, OBJECT), more[1024];
    char *at = strchr(text, '~'); /* an earlier version writes no checksum */
    assert_non_null(at);
    int size = snprintf(more, sizeof more, "%.*s\", \"later\": {\"a\": [\"b\"]}%s",
                        (int)(at - text), text, at + sizeof "~00000000\"" - 1);
    bucket_write(kit, OBJECT, (struct view){ more, (size_t)size });
    free(text);
    two_takes_over(kit);
    assert_int_equal(put(&kit->two, "second"), HF_OK);
    assert_int_equal(put_large(&kit->two, 'l'), HF_OK);
    assert_int_equal(hf_fenced_delete(kit->two.lock, OBJECT, NULL), HF_OK);
    assert_scopes(kit, ", \"later\": {\"a\": [\"b\"]}");
}

static void what_a_later_version_wrote_is_left_alone(void **state)
{
    struct fenced_kit *kit = *state;
    static const char *const lines[] = {
        "{ \"format\": \"holdfast.fenced/3\", \"body\": \"x\" }\n",
        "{ \"format\": \"holdfast.fenced/2\", \"table\": \"default/meta/job.json\", "
        "\"scopes\": "
        "[\"later:job\"], \"token\": 1, \"session\": \"aa\", \"seq\": 32, \"size\": 0, "
        "\"xxh3\": \"2d06800538d394c2\", \"deleted\": true, \"write\": \"00\" }\n",
    };
    void *data;
    size_t size;
    one_holds(kit);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        bucket_write(kit, OBJECT, view_of(lines[i]));
        assert_int_equal(put(&kit->one, "x"), HF_UNSUPPORTED);
        assert_int_equal(put_large(&kit->one, 'x'), HF_UNSUPPORTED);
        assert_int_equal(hf_fenced_delete(kit->one.lock, OBJECT, NULL), HF_UNSUPPORTED);
        assert_int_equal(bodies_of(kit, OBJECT), 0);
        char *text = bucket_text(kit, OBJECT);
        assert_string_equal(text, lines[i]);
        free(text);
    }
    bucket_write(kit, OBJECT, view_of(lines[0]));
    assert_int_equal(hf_fenced_get(kit->one.client, OBJECT, MIB, &data, &size, NULL, NULL),
                     HF_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED("another lock of the same table is a MISMATCH, and fences nobody",
               another_lock_of_the_same_table_is_a_mismatch),
        FENCED("a lock that covers the object's may write it, and the scope stays",
               a_lock_that_covers_it_may_write_and_the_scope_stays),
        FENCED("a lock of several scopes leaves them all, and a writer covers each",
               a_lock_of_several_scopes_leaves_them_all),
        FENCED("a shared lock, a slot or a pin does not write",
               what_is_not_held_alone_does_not_write),
        FENCED("a lease that was passed on covers what it did",
               a_lease_that_was_passed_on_covers_what_it_did),
        FENCED("more scopes than a fence keeps are INVALID for a new object",
               more_scopes_than_a_fence_keeps_are_invalid),
        FENCED("an object of version 1 is read, and written under its name",
               an_object_of_version_1_is_read_and_written),
        FENCED("an object of version 1 of a path takes a lock of the whole table",
               version_1_of_a_path_needs_the_whole_table),
        FENCED("members of later versions stay", members_of_later_versions_stay),
        FENCED("what a later version wrote is UNSUPPORTED, and left alone",
               what_a_later_version_wrote_is_left_alone),
    };
    return cmocka_run_group_tests_name("scopes of fenced objects", tests, NULL, NULL);
}
