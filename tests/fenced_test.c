/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_test.c: fenced objects as users see them: every status, which writer wins, and the
 * number of requests. */
#include "fenced_kit.h"

#include "lock/fence.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t token_of(struct peer *peer)
{
    return hf_lock_token(peer->lock);
}

static void assert_calls(struct peer *peer, unsigned gets, unsigned puts, unsigned deletes)
{
    struct counts counts = script_counts(&peer->gate);
    assert_int_equal(counts.gets + counts.looks, gets);
    assert_int_equal(counts.puts, puts);
    assert_int_equal(counts.deletes, deletes);
    assert_int_equal(counts.others, deletes);
    gate_reset(&peer->gate);
}

static enum hf_status get(struct peer *peer, const char *key)
{
    void *data;
    size_t size;
    struct hf_error error;
    enum hf_status status =
        hf_fenced_get(peer->client, key, MIB, &data, &size, /* ret_token */ NULL, &error);
    assert_int_equal(error.status, status);
    if (status == HF_OK)
        hf_free(data);
    return status;
}

/* ---- Writing and reading ------------------------------------------------------------- */

static void what_was_put_is_read_back(void **state)
{
    struct fenced_kit *kit = *state;
    static char bytes[3 * FENCE_INLINE_MAX];
    one_holds(kit);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    const size_t sizes[] = { 0, 1, 100, FENCE_INLINE_MAX, FENCE_INLINE_MAX + 1, sizeof bytes };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct hf_error error;
        assert_status(HF_OK, hf_fenced_put(kit->one.lock, OBJECT, bytes, sizes[i], &error),
                      &error);
        assert_object(&kit->two, (struct view){ bytes, sizes[i] }, token_of(&kit->one));
        assert_int_equal(bodies_of(kit, OBJECT), sizes[i] > FENCE_INLINE_MAX ? 1 : 0);
    }
}

static void what_is_not_there_is_not_found(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(get(&kit->one, OBJECT), HF_NOT_FOUND);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
    assert_int_equal(get(&kit->one, OBJECT), HF_OK);
    assert_int_equal(hf_fenced_delete(kit->one.lock, OBJECT, NULL), HF_OK);
    assert_int_equal(get(&kit->one, OBJECT), HF_NOT_FOUND);
    assert_int_equal(bodies_of(kit, OBJECT), 0);
    assert_int_equal(put(&kit->one, "again"), HF_OK);
    assert_object(&kit->two, VIEW("again"), token_of(&kit->one));
}

static void what_was_deleted_is_not_brought_back(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "old"), HF_OK);
    two_takes_over(kit);
    assert_int_equal(hf_fenced_delete(kit->two.lock, OBJECT, NULL), HF_OK);
    assert_int_equal(put(&kit->one, "back"), HF_FENCED);
    assert_int_equal(put_large(&kit->one, 'b'), HF_FENCED);
    assert_int_equal(get(&kit->two, OBJECT), HF_NOT_FOUND);
    assert_int_equal(bodies_of(kit, OBJECT), 0);
}

static void deleting_nothing_leaves_a_fence(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    two_takes_over(kit);
    assert_int_equal(hf_fenced_delete(kit->two.lock, OBJECT, NULL), HF_OK);
    assert_int_equal(put(&kit->one, "late"), HF_FENCED);
    assert_int_equal(get(&kit->one, OBJECT), HF_NOT_FOUND);
}

static void an_object_that_is_too_large_is_not_read(void **state)
{
    struct fenced_kit *kit = *state;
    void *data = NULL;
    size_t size = 0;
    struct hf_error error;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "1234567890"), HF_OK);
    assert_status(HF_INVALID,
                  hf_fenced_get(kit->one.client, OBJECT, 9, &data, &size, NULL, &error),
                  &error);
    assert_non_null(strstr(error.why, "more than"));
    assert_int_equal(put_large(&kit->one, 'x'), HF_OK);
    assert_status(HF_INVALID,
                  hf_fenced_get(kit->one.client, OBJECT, LARGE - 1, &data, &size, NULL, &error),
                  &error);
    assert_null(data);
    assert_status(HF_OK,
                  hf_fenced_get(kit->one.client, OBJECT, LARGE, &data, &size, NULL, &error),
                  &error);
    hf_free(data);
}

/* ---- Tokens -------------------------------------------------------------------------- */

static void a_stale_token_is_fenced(void **state)
{
    struct fenced_kit *kit = *state;
    struct hf_error error;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "same"), HF_OK);
    two_takes_over(kit);
    assert_int_equal(put(&kit->one, "not yet fenced"), HF_OK); /* two has not written */
    assert_int_equal(put(&kit->two, "same"), HF_OK);
    assert_status(HF_FENCED, hf_fenced_put(kit->one.lock, OBJECT, "same", 4, &error), &error);
    assert_non_null(strstr(error.why, "token"));
    assert_int_equal(put_large(&kit->one, 'x'), HF_FENCED);
    assert_int_equal(hf_fenced_delete(kit->one.lock, OBJECT, NULL), HF_FENCED);
    assert_object(&kit->one, VIEW("same"), token_of(&kit->two));
    assert_int_equal(bodies_of(kit, OBJECT), 0);
}

static void two_writes_the_same(void *argument)
{
    struct fenced_kit *kit = argument;
    two_takes_over(kit);
    assert_int_equal(put(&kit->two, "same"), HF_OK);
}

/* One reads, then pauses; two rewrites the same bytes; where ETags are hashes of the content the
 * condition of one's put must fail all the same. */
static void equal_bytes_do_not_let_the_fence_go_back(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "same"), HF_OK);
    gate_reset(&kit->one.gate);
    script_rule(&kit->one.gate, .times = 1, .before = two_writes_the_same, .argument = kit);
    assert_int_equal(put(&kit->one, "same"), HF_FENCED);
    assert_int_equal(script_counts(&kit->one.gate).puts, 1);
    assert_object(&kit->one, VIEW("same"), token_of(&kit->two));
}

static void a_lease_that_is_over_is_told(void **state)
{
    struct fenced_kit *kit = *state;
    assert_int_equal(put(&kit->one, "never held"), HF_EXPIRED);
    one_holds(kit);
    assert_int_equal(put(&kit->one, "held"), HF_OK);
    kit->now_us += 30000000;
    assert_int_equal(put(&kit->one, "too late"), HF_EXPIRED);
    assert_int_equal(hf_fenced_delete(kit->one.lock, OBJECT, NULL), HF_EXPIRED);
    hf_lock_release(kit->one.lock, NULL);
    assert_int_equal(put(&kit->one, "released"), HF_EXPIRED);
    assert_object(&kit->two, VIEW("held"), token_of(&kit->one));
    one_holds(kit);
    assert_int_equal(put(&kit->one, "held again"), HF_OK);
    two_takes_over(kit);
    assert_int_equal(hf_lock_renew(kit->one.lock, NULL), HF_LOST);
    assert_int_equal(put(&kit->one, "taken away"), HF_LOST);
    assert_object(&kit->two, VIEW("held again"), token_of(&kit->one));
}

static void time_passes(void *argument)
{
    ((struct fenced_kit *)argument)->now_us += 30000000;
}

/* The lease ends while a put is under way that turns out not to have happened. */
static void a_lease_that_ends_between_two_tries_is_told(void **state)
{
    struct fenced_kit *kit = *state;
    const struct fate fates[] = { REFUSE(HF_UNAVAILABLE), LOSE };
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        one_holds(kit);
        gate_reset(&kit->one.gate);
        script_rule(&kit->one.gate, .skip = 1, /* behind the get of a cold start */
                    .times = 1, .fate = fates[i], .before = time_passes, .argument = kit);
        char key[16];
        snprintf(key, sizeof key, "cold/%zu", i);
        enum hf_status status = hf_fenced_put(kit->one.lock, key, "x", 1, NULL);
        assert_true(status == HF_EXPIRED || status == HF_TIMEOUT || status == HF_UNSURE);
        assert_int_equal(get(&kit->two, key), HF_NOT_FOUND);
        hf_lock_release(kit->one.lock, NULL);
    }
}

static void another_lock_is_a_mismatch(void **state)
{
    struct fenced_kit *kit = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *other;
    struct hf_error error;
    options.no_renewal = true;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "mine"), HF_OK);
    assert_status(HF_OK, hf_lock_new(kit->two.client, "other", &options, &other, &error),
                  &error);
    for (int i = 0; i < 3; i++) { /* whatever its token is */
        assert_status(HF_OK, hf_lock_acquire(other, 0, &error), &error);
        assert_status(HF_MISMATCH, hf_fenced_put(other, OBJECT, "x", 1, &error), &error);
        assert_status(HF_MISMATCH, hf_fenced_delete(other, OBJECT, &error), &error);
        assert_status(HF_OK, hf_lock_release(other, &error), &error);
    }
    hf_lock_free(other);
    assert_object(&kit->two, VIEW("mine"), token_of(&kit->one));
}

/* ---- A lease that is passed on ------------------------------------------------------- */

/* Each process that is given the lease counts its calls from the start: none of their writes may
 * be taken for done already. */
static void every_write_under_a_lease_that_was_passed_on_counts(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "one"), HF_OK);
    assert_int_equal(put(&kit->one, "one again"), HF_OK);
    for (int i = 0; i < 3; i++) {
        struct hf_lock *given = pass_on(kit->one.lock, i % 2 ? &kit->one : &kit->two);
        char text[16];
        snprintf(text, sizeof text, "given %d", i);
        assert_int_equal(hf_fenced_put(given, OBJECT, text, strlen(text), NULL), HF_OK);
        assert_object(&kit->one, view_of(text), token_of(&kit->one));
        assert_int_equal(put_large(&kit->one, (char)('a' + i)), HF_OK);
        assert_object(&kit->two, large((char)('a' + i)), token_of(&kit->one));
        hf_lock_free(given);
    }
    assert_int_equal(bodies_of(kit, OBJECT), 1);
}

struct passed {
    struct fenced_kit *kit;
    struct hf_lock *given;
};

static void the_other_writes_over(void *argument)
{
    struct passed *passed = argument;
    struct view bytes = large('o');
    assert_int_equal(hf_fenced_put(passed->given, OBJECT, bytes.data, bytes.size, NULL), HF_OK);
}

/* One's large write lands, its reply is lost, and before one looks the other has written over it
 * and removed its body. One must not name that body again. */
static void a_body_that_may_be_gone_is_not_named_again(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    struct passed passed = { kit, pass_on(kit->one.lock, &kit->two) };
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    gate_reset(&kit->one.gate);
    script_rule(&kit->one.gate, .skip = 1, /* the body, then the fence */
                .times = 1, .fate = LOSE_REPLY);
    script_rule(&kit->one.gate, .skip = 2, .times = 1, .before = the_other_writes_over,
                .argument = &passed);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
    assert_object(&kit->two, large('a'), token_of(&kit->one));
    assert_int_equal(bodies_of(kit, OBJECT), 1);
    hf_lock_free(passed.given);
}

/* ---- What others left there ---------------------------------------------------------- */

static void what_is_not_a_fenced_object_is_left_alone(void **state)
{
    struct fenced_kit *kit = *state;
    static char huge[FENCE_BYTES_MAX + 1];
    const struct view things[] = {
        VIEW(""), VIEW("plain text\n"), VIEW("{ \"format\": \"x\" }"), { huge, sizeof huge }
    };
    one_holds(kit);
    for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
        char key[16];
        struct hf_error error;
        snprintf(key, sizeof key, "thing/%zu", i);
        bucket_write(kit, key, things[i]);
        assert_status(HF_MISMATCH, hf_fenced_put(kit->one.lock, key, "x", 1, &error), &error);
        assert_non_null(strstr(error.why, "not a fenced object"));
        assert_status(HF_MISMATCH, hf_fenced_delete(kit->one.lock, key, &error), &error);
        assert_int_equal(get(&kit->one, key), HF_MISMATCH);
        char *text = bucket_text(kit, key);
        assert_memory_equal(text, things[i].data, things[i].size);
        free(text);
    }
}

static void a_damaged_fence_is_corrupt_and_left_alone(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "precious"), HF_OK);
    two_takes_over(kit);
    char *text = bucket_text(kit, OBJECT);
    size_t size = strlen(text);
    const struct view damaged[] = { { text, size - 1 }, { text, size / 2 }, { text, 40 } };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        bucket_write(kit, OBJECT, damaged[i]);
        assert_int_equal(put(&kit->two, "x"), HF_CORRUPT);
        assert_int_equal(put_large(&kit->two, 'x'), HF_CORRUPT);
        assert_int_equal(get(&kit->one, OBJECT), HF_CORRUPT);
        char *still = bucket_text(kit, OBJECT);
        assert_int_equal(strlen(still), damaged[i].size);
        assert_int_equal(bodies_of(kit, OBJECT), 0);
        free(still);
    }
    free(text);
    bucket_write(kit, OBJECT, VIEW("{ \"format\": \"holdfast.fenced/3\" }\n"));
    assert_int_equal(put(&kit->two, "x"), HF_UNSUPPORTED);
    assert_int_equal(get(&kit->one, OBJECT), HF_UNSUPPORTED);
}

static void a_damaged_body_is_corrupt(void **state)
{
    struct fenced_kit *kit = *state;
    char name[KEY_BYTES_MAX + 1];
    static char longer[LARGE + 1];
    one_holds(kit);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
    name_of_body(kit, OBJECT, name);
    memset(longer, 'a', sizeof longer);
    bucket_write(kit, name, (struct view){ longer, LARGE + 1 });
    assert_int_equal(get(&kit->two, OBJECT), HF_CORRUPT);
    bucket_write(kit, name, (struct view){ longer, LARGE - 1 });
    assert_int_equal(get(&kit->two, OBJECT), HF_CORRUPT);
    longer[LARGE / 2] = 'b';
    bucket_write(kit, name, (struct view){ longer, LARGE });
    assert_int_equal(get(&kit->two, OBJECT), HF_CORRUPT);
    struct delete_call removal = { .key = view_of(name) };
    assert_status(HF_OK, store_delete(kit->bucket, &removal), &removal.error);
    assert_int_equal(get(&kit->two, OBJECT), HF_CORRUPT);
    assert_int_equal(put(&kit->one, "mended"), HF_OK);
    assert_object(&kit->two, VIEW("mended"), token_of(&kit->one));
}

static void a_fence_that_was_copied_harms_nobody(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
    char *text = bucket_text(kit, OBJECT);
    bucket_write(kit, "copy", view_of(text));
    free(text);
    assert_int_equal(get(&kit->two, "copy"), HF_CORRUPT);
    assert_int_equal(hf_fenced_put(kit->one.lock, "copy", "x", 1, NULL), HF_CORRUPT);
    assert_object(&kit->two, large('a'), token_of(&kit->one));
}

/* ---- Keys ---------------------------------------------------------------------------- */

static void keys_that_cannot_be_are_refused(void **state)
{
    struct fenced_kit *kit = *state;
    char longest[KEY_BYTES_MAX + 1] = "", body[] = "x";
    const size_t most = KEY_BYTES_MAX - strlen(".hf/") - (20 + 1 + 20 + 1 + NONCE_SIZE);
    const char *bad[] = { "",
                          longest,
                          "a\xff"
                          "b",
                          ".holdfast/format.json",
                          ".holdfast/x",
                          "default/meta/job.json",
                          "default/meta/another.json",
                          "default/inode/7.json",
                          "default/paths.json",
                          "default/paths/3.json",
                          "metadata/compaction-leases.json",
                          "metadata/p1/compaction-leases.json",
                          "data/object.hf/1-1-00" };
    const char *good[] = {
        "default/paths/x.json", longest, "default/met", "defaults/meta/x.json",
        "metadata/x.json",      "a.hf",  "a.hfx/b",     ".holdfas",
        "a \"b\"\\\n"
    };
    one_holds(kit);
    memset(longest, 'k', most + 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hf_fenced_put(kit->one.lock, bad[i], body, 1, NULL), HF_INVALID);
        assert_int_equal(hf_fenced_delete(kit->one.lock, bad[i], NULL), HF_INVALID);
        assert_int_equal(get(&kit->one, bad[i]), HF_INVALID);
    }
    assert_calls(&kit->one, 0, 0, 0);
    longest[most] = '\0';
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct view bytes = large('g');
        assert_int_equal(hf_fenced_put(kit->one.lock, good[i], bytes.data, bytes.size, NULL),
                         HF_OK);
        assert_int_equal(get(&kit->two, good[i]), HF_OK);
    }
}

/* ---- Requests ------------------------------------------------------------------------ */

static void requests_are_counted(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "cold"), HF_OK);
    assert_calls(&kit->one, 1, 1, 0);
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    assert_calls(&kit->one, 0, 1, 0);
    assert_int_equal(get(&kit->one, OBJECT), HF_OK);
    assert_calls(&kit->one, 1, 0, 0);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
    assert_calls(&kit->one, 0, 2, 0);
    assert_int_equal(put_large(&kit->one, 'b'), HF_OK);
    assert_calls(&kit->one, 0, 2, 1);
    assert_int_equal(get(&kit->one, OBJECT), HF_OK);
    assert_calls(&kit->one, 2, 0, 0);
    assert_int_equal(hf_fenced_delete(kit->one.lock, OBJECT, NULL), HF_OK);
    assert_calls(&kit->one, 0, 1, 1);
    assert_int_equal(get(&kit->one, OBJECT), HF_NOT_FOUND);
    assert_calls(&kit->one, 1, 0, 0);
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    assert_calls(&kit->one, 0, 1, 0);
    two_takes_over(kit);
    assert_int_equal(put(&kit->two, "two"), HF_OK);
    assert_calls(&kit->two, 1, 1, 0);
    assert_int_equal(put(&kit->one, "stale"), HF_FENCED); /* a put too late, and a look */
    assert_calls(&kit->one, 1, 1, 0);
    assert_int_equal(put(&kit->one, "stale"), HF_FENCED); /* known, and looked at once more */
    assert_calls(&kit->one, 1, 0, 0);
}

/* More objects than are kept warm. */
static void only_so_many_fences_are_kept_warm(void **state)
{
    struct fenced_kit *kit = *state;
    char key[16];
    one_holds(kit);
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "many/%d", i);
        assert_int_equal(hf_fenced_put(kit->one.lock, key, "x", 1, NULL), HF_OK);
    }
    gate_reset(&kit->one.gate);
    assert_int_equal(hf_fenced_put(kit->one.lock, "many/199", "y", 1, NULL), HF_OK);
    assert_calls(&kit->one, 0, 1, 0);
    assert_int_equal(hf_fenced_put(kit->one.lock, "many/0", "y", 1, NULL), HF_OK);
    assert_calls(&kit->one, 1, 1, 0);
    assert_true(kit->one.client->fences.fences.count <= 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED("what was put is read back, with the token that wrote it",
               what_was_put_is_read_back),
        FENCED("an object that was never written, or was deleted, is NOT_FOUND",
               what_is_not_there_is_not_found),
        FENCED("a stale token does not bring back what was deleted",
               what_was_deleted_is_not_brought_back),
        FENCED("deleting what is not there leaves a fence all the same",
               deleting_nothing_leaves_a_fence),
        FENCED("an object larger than is allowed is INVALID, and not read",
               an_object_that_is_too_large_is_not_read),
        FENCED("a stale token is FENCED as soon as a later one has written",
               a_stale_token_is_fenced),
        FENCED("equal bytes on a store whose ETags are hashes do not let the fence go back",
               equal_bytes_do_not_let_the_fence_go_back),
        FENCED("a lease that is over is EXPIRED, one that was taken away LOST",
               a_lease_that_is_over_is_told),
        FENCED("a lease that ends between two tries writes nothing any more",
               a_lease_that_ends_between_two_tries_is_told),
        FENCED("the token of another lock is a MISMATCH, however high",
               another_lock_is_a_mismatch),
        FENCED("every write under a lease that was passed on counts",
               every_write_under_a_lease_that_was_passed_on_counts),
        FENCED("a body that may be gone is not named again",
               a_body_that_may_be_gone_is_not_named_again),
        FENCED("what is not a fenced object is a MISMATCH, and is left alone",
               what_is_not_a_fenced_object_is_left_alone),
        FENCED("a damaged fence is CORRUPT, and is left alone",
               a_damaged_fence_is_corrupt_and_left_alone),
        FENCED("a damaged body is CORRUPT, until it is written again",
               a_damaged_body_is_corrupt),
        FENCED("a fence that was copied to another key harms nobody",
               a_fence_that_was_copied_harms_nobody),
        FENCED("keys of Holdfast's own, or too long for a body's name, are INVALID",
               keys_that_cannot_be_are_refused),
        FENCED("a warm put is one put, a large one another and a delete, a get one get",
               requests_are_counted),
        FENCED("only so many fences are kept warm", only_so_many_fences_are_kept_warm),
    };
    return cmocka_run_group_tests_name("fenced objects", tests, NULL, NULL);
}
