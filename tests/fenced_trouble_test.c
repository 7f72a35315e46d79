/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_trouble_test.c: fenced objects when store calls or allocations fail. Each call returns
 * a status, the fence never goes back, and a body that a fence may name is never removed. */
#include "alloc.h"
#include "fenced_kit.h"

#include "lock/fence.h"

#include <stdio.h>
#include <stdlib.h>

static enum hf_status do_get(struct peer *peer);

static uint64_t token_of(struct peer *peer)
{
    return hf_lock_token(peer->lock);
}

/* The fence as it stands in the bucket. */
static struct fence fence_now(struct fenced_kit *kit)
{
    struct fence fence = { .kind = FENCE_NONE };
    struct hf_error error;
    char *text = bucket_text(kit, OBJECT);
    if (text)
        assert_status(HF_OK, fence_decode(view_of(text), &fence, &error), &error);
    free(text);
    return fence;
}

/* All that can become of a call. */
#define TROUBLES \
    ((const struct fate[]){ REFUSE(HF_UNAVAILABLE), LOSE, LOSE_REPLY, LATE, TWICE })
#define TROUBLE_COUNT ((size_t)5)

static void one_meets(struct fenced_kit *kit, unsigned call, struct fate fate)
{
    gate_reset(&kit->one.gate);
    script_rule(&kit->one.gate, .name = "meets", .skip = call, .times = 1, .fate = fate);
}

/* Every put of the object meets this fate. */
static void every_put_meets(struct fenced_kit *kit, struct fate fate)
{
    script_rule(&kit->one.gate, .on = ON_PUT, .key = OBJECT, .fate = fate);
}

/* ---- Lost replies -------------------------------------------------------------------- */

static void a_lost_reply_is_found_out(void **state)
{
    struct fenced_kit *kit = *state;
    const struct fate fates[] = { LOSE_REPLY, TWICE };
    one_holds(kit);
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    for (size_t i = 0; i < 2; i++) {
        one_meets(kit, 0, fates[i]);
        assert_int_equal(put(&kit->one, "once"), HF_OK);
        struct counts counts = script_counts(&kit->one.gate);
        assert_int_equal(counts.puts, 1); /* it was done already */
        assert_int_equal(counts.gets + counts.looks, 1);
        one_meets(kit, 1, fates[i]);
        assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
        assert_int_equal(script_counts(&kit->one.gate).puts, 2);
        one_meets(kit, 1, fates[i]);
        assert_int_equal(put_large(&kit->one, 'b'), HF_OK);
        assert_int_equal(bodies_of(kit, OBJECT), 1); /* that of 'a' is removed all the same */
        assert_object(&kit->two, large('b'), token_of(&kit->one));
        assert_int_equal(put(&kit->one, "warm"), HF_OK);
    }
}

static void a_body_without_an_answer_is_sent_again(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    for (size_t i = 0; i < TROUBLE_COUNT; i++) {
        one_meets(kit, 0, TROUBLES[i]);
        assert_int_equal(put_large(&kit->one, (char)('b' + i)), HF_OK);
        script_deliver(&kit->one.gate);
        assert_object(&kit->two, large((char)('b' + i)), token_of(&kit->one));
        assert_int_equal(bodies_of(kit, OBJECT), 1);
    }
}

/* ---- Late writes --------------------------------------------------------------------- */

static void a_late_put_of_an_old_token_does_not_land(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    one_meets(kit, 0, LATE);
    assert_int_equal(put(&kit->one, "one"), HF_OK); /* tried again, and done */
    one_meets(kit, 0, LATE);
    every_put_meets(kit, LATE);
    assert_int_equal(put(&kit->one, "late"), HF_UNSURE);
    assert_true(script_late(&kit->one.gate) > 0);
    two_takes_over(kit);
    assert_int_equal(put(&kit->two, "two"), HF_OK);
    script_deliver(&kit->one.gate);
    assert_object(&kit->two, VIEW("two"), token_of(&kit->two));
    gate_reset(&kit->one.gate);
    assert_int_equal(put(&kit->one, "later"), HF_FENCED);
}

static void a_late_first_put_does_not_land_over_a_later_one(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    every_put_meets(kit, LATE);
    assert_int_equal(put(&kit->one, "late"), HF_UNSURE);
    two_takes_over(kit);
    assert_int_equal(hf_fenced_delete(kit->two.lock, OBJECT, NULL), HF_OK);
    script_deliver(&kit->one.gate);
    assert_int_equal(fence_now(kit).kind, FENCE_DELETED);
    assert_int_equal(fence_now(kit).stamp.token, token_of(&kit->two));
}

/* Nobody knows whether the fence was swapped: then its body must stay, for it may land yet. */
static void the_body_of_an_unsure_write_stays(void **state)
{
    struct fenced_kit *kit = *state;
    const struct fate fates[] = { LATE, LOSE };
    one_holds(kit);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
    for (size_t i = 0; i < 2; i++) {
        gate_reset(&kit->one.gate);
        every_put_meets(kit, fates[i]);
        assert_int_equal(put_large(&kit->one, 'b'), HF_UNSURE);
        assert_int_equal(script_counts(&kit->one.gate).deletes, 0);
        assert_object(&kit->two, large('a'), token_of(&kit->one));
        if (fates[i].kind == FATE_LATE) {
            script_deliver(&kit->one.gate);
            assert_object(&kit->two, large('b'), token_of(&kit->one));
            gate_reset(&kit->one.gate);
            assert_int_equal(put_large(&kit->one, 'a'), HF_OK); /* "write it again" */
            assert_object(&kit->two, large('a'), token_of(&kit->one));
        }
    }
}

static void the_body_of_a_write_that_cannot_happen_goes(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    gate_reset(&kit->one.gate);
    every_put_meets(kit, REFUSE(HF_UNAVAILABLE));
    assert_int_equal(put_large(&kit->one, 'b'), HF_TIMEOUT);
    assert_int_equal(bodies_of(kit, OBJECT), 0);
    assert_object(&kit->two, VIEW("warm"), token_of(&kit->one));
}

static void two_takes_and_writes(void *argument)
{
    struct fenced_kit *kit = argument;
    two_takes_over(kit);
    assert_int_equal(put_large(&kit->two, 't'), HF_OK);
}

/* The lease ends, and another holder writes, between the put of the body and that of the fence. */
static void a_takeover_between_body_and_fence_is_fenced(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    gate_reset(&kit->one.gate);
    script_rule(&kit->one.gate, .skip = 1, .times = 1, .before = two_takes_and_writes,
                .argument = kit);
    assert_int_equal(put_large(&kit->one, 'o'), HF_FENCED);
    assert_object(&kit->one, large('t'), token_of(&kit->two));
    assert_int_equal(bodies_of(kit, OBJECT), 1);
}

/* ---- Overtaken ----------------------------------------------------------------------- */

/* A reader sees what one has written; then a later holder writes over it, some more holders too. */
struct overtaking {
    struct fenced_kit *kit;
    const char *seen; /* NULL: nobody looks */
    int times;        /* that the lock goes to the next holder */
};

static void others_read_and_write(void *argument)
{
    struct overtaking *overtaking = argument;
    struct fenced_kit *kit = overtaking->kit;
    if (overtaking->seen)
        assert_object(&kit->two, view_of(overtaking->seen), token_of(&kit->one));
    two_takes_over(kit);
    for (int i = 0; i < overtaking->times; i++) {
        if (i > 0) {
            assert_int_equal(hf_lock_release(kit->two.lock, NULL), HF_OK);
            assert_int_equal(hf_lock_acquire(kit->two.lock, 0, NULL), HF_OK);
        }
        assert_int_equal(put(&kit->two, "two"), HF_OK);
        assert_int_equal(put(&kit->two, "two again"), HF_OK);
    }
}

/* One writes; the first try meets this fate, and others are at work before one looks what became
 * of it. */
static enum hf_status write_and_be_overtaken(struct fenced_kit *kit, struct fate fate,
                                             struct overtaking overtaking,
                                             struct hf_error *error)
{
    overtaking.kit = kit;
    gate_reset(&kit->one.gate);
    script_rule(&kit->one.gate, .on = ON_PUT, .key = OBJECT, .times = 1, .fate = fate);
    script_rule(&kit->one.gate, .on = ON_GET, .key = OBJECT, .times = 1,
                .before = others_read_and_write, .argument = &overtaking);
    return hf_fenced_put(kit->one.lock, OBJECT, "one", 3, error);
}

static void what_readers_saw_is_not_told_as_fenced(void **state)
{
    (void)state;
    const struct fate fates[] = { LOSE_REPLY, TWICE };
    for (size_t i = 0; i < 2; i++)
        for (int times = 1; times <= 2; times++) {
            struct fenced_kit kit;
            struct hf_error error;
            assert_true(fenced_kit_open(&kit));
            one_holds(&kit);
            assert_int_equal(put(&kit.one, "warm"), HF_OK);
            assert_status(HF_UNSURE,
                          write_and_be_overtaken(
                              &kit, fates[i],
                              (struct overtaking){ .seen = "one", .times = times }, &error),
                          &error);
            assert_object(&kit.one, VIEW("two again"), token_of(&kit.two));
            fenced_kit_close(&kit);
        }
}

/* What was certainly never there is FENCED, though its answer was lost: the fence says who wrote
 * before the later holder. Once two of them have written nobody can tell. */
static void what_was_never_there_is_fenced(void **state)
{
    (void)state;
    for (int times = 1; times <= 2; times++) {
        struct fenced_kit kit;
        struct hf_error error;
        assert_true(fenced_kit_open(&kit));
        one_holds(&kit);
        assert_int_equal(put(&kit.one, "warm"), HF_OK);
        assert_status(times == 1 ? HF_FENCED : HF_UNSURE,
                      write_and_be_overtaken(&kit, LOSE, (struct overtaking){ .times = times },
                                             &error),
                      &error);
        assert_object(&kit.one, VIEW("two again"), token_of(&kit.two));
        fenced_kit_close(&kit);
    }
}

/* The body of a write that was overtaken is named by nobody any more, whatever it is told as. */
static void the_body_of_what_was_overtaken_goes(void **state)
{
    struct fenced_kit *kit = *state;
    struct overtaking overtaking = { .kit = kit, .times = 1 };
    one_holds(kit);
    assert_int_equal(put(&kit->one, "warm"), HF_OK);
    gate_reset(&kit->one.gate);
    script_rule(&kit->one.gate, .on = ON_PUT, .key = OBJECT, .times = 1, .fate = LOSE_REPLY);
    script_rule(&kit->one.gate, .on = ON_GET, .key = OBJECT, .times = 1,
                .before = others_read_and_write, .argument = &overtaking);
    assert_int_equal(put_large(&kit->one, 'o'), HF_UNSURE);
    assert_int_equal(bodies_of(kit, OBJECT), 0);
}

static void two_seconds_pass(void *argument)
{
    ((struct fenced_kit *)argument)->now_us += 2000000;
}

/* The first put of all may still land when the lease is over: a fence that nobody has written
 * shuts it out, and is in nobody's way. */
static void a_write_that_is_refused_in_doubt_is_shut_out(void **state)
{
    struct fenced_kit *kit = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    struct hf_error error;
    options.no_renewal = true;
    options.ttl_ms = 1000;
    assert_status(HF_OK, hf_lock_new(kit->one.client, "brief", &options, &lock, &error),
                  &error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &error), &error);
    one_meets(kit, 1, LATE); /* behind the get of a cold start */
    script_rule(&kit->one.gate, .skip = 1, .times = 1, .before = two_seconds_pass,
                .argument = kit);
    assert_status(HF_EXPIRED, hf_fenced_put(lock, OBJECT, "late", 4, &error), &error);
    assert_int_equal(script_late(&kit->one.gate), 1);
    script_deliver(&kit->one.gate);
    assert_int_equal(do_get(&kit->two), HF_NOT_FOUND);
    char *text = bucket_text(kit, OBJECT);
    assert_non_null(text);
    assert_int_equal(fence_now(kit).kind, FENCE_NONE);
    free(text);
    hf_lock_free(lock);
    one_holds(kit);
    assert_int_equal(put(&kit->one, "another lock"), HF_OK);
    assert_object(&kit->two, VIEW("another lock"), token_of(&kit->one));
}

/* ---- Readers ------------------------------------------------------------------------- */

static char next_fill = 'b';

static void one_writes(void *argument)
{
    struct fenced_kit *kit = argument;
    assert_int_equal(put_large(&kit->one, next_fill), HF_OK);
}

static void a_reader_that_finds_the_body_gone_reads_again(void **state)
{
    struct fenced_kit *kit = *state;
    one_holds(kit);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
    gate_reset(&kit->two.gate);
    script_rule(&kit->two.gate, .skip = 1, /* between fence and body */
                .times = 1, .before = one_writes, .argument = kit);
    assert_object(&kit->two, large('b'), token_of(&kit->one));
    struct counts counts = script_counts(&kit->two.gate);
    assert_int_equal(counts.gets + counts.looks, 4);
}

static void a_reader_that_is_always_overtaken_gives_up(void **state)
{
    struct fenced_kit *kit = *state;
    void *data;
    size_t size;
    struct hf_error error;
    one_holds(kit);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
    gate_reset(&kit->two.gate);
    script_rule(&kit->two.gate, .before = one_writes, .argument = kit);
    assert_status(HF_UNAVAILABLE,
                  hf_fenced_get(kit->two.client, OBJECT, MIB, &data, &size, NULL, &error),
                  &error);
    assert_non_null(strstr(error.why, "faster than"));
}

/* ---- Everything in turn -------------------------------------------------------------- */

/* What a peer does in the tests below; any status will do. */
static enum hf_status do_put(struct peer *peer)
{
    return put(peer, "small");
}

static enum hf_status do_put_large(struct peer *peer)
{
    return put_large(peer, 'l');
}

static enum hf_status do_delete(struct peer *peer)
{
    return hf_fenced_delete(peer->lock, OBJECT, NULL);
}

static enum hf_status do_get(struct peer *peer)
{
    void *data;
    size_t size;
    enum hf_status status = hf_fenced_get(peer->client, OBJECT, MIB, &data, &size, NULL, NULL);
    if (status == HF_OK) {
        assert_memory_equal(data, large('a').data, size);
        hf_free(data);
    }
    return status;
}

static enum hf_status (*const deeds[])(struct peer *peer) = { do_put, do_put_large, do_delete,
                                                              do_get };
#define DEEDS (sizeof deeds / sizeof deeds[0])

/* After any one failure: the fence has not gone back, what stands is whole, and all goes on. */
static void assert_unharmed(struct fenced_kit *kit, const struct fence *before,
                            enum hf_status status, size_t deed)
{
    struct fence now = fence_now(kit);
    assert_true(now.stamp.token >= before->stamp.token);
    assert_true(now.stamp.token > before->stamp.token || now.stamp.seq >= before->stamp.seq);
    bool written = !fence_stamp_equal(&now.stamp, &before->stamp);
    if (deeds[deed] == do_get)
        assert_false(written);
    else if (status != HF_UNSURE)
        assert_int_equal(written, status == HF_OK);
    void *data;
    size_t size;
    struct hf_error error;
    enum hf_status seen =
        hf_fenced_get(kit->two.client, OBJECT, MIB, &data, &size, NULL, &error);
    assert_true(seen == HF_OK || (seen == HF_NOT_FOUND && now.kind == FENCE_DELETED));
    if (seen == HF_OK)
        hf_free(data);
    gate_reset(&kit->one.gate);
    assert_int_equal(put(&kit->one, "goes on"), HF_OK);
    assert_object(&kit->two, VIEW("goes on"), token_of(&kit->one));
}

static void prepare(struct fenced_kit *kit)
{
    assert_true(fenced_kit_open(kit));
    one_holds(kit);
    assert_int_equal(put_large(&kit->one, 'a'), HF_OK);
}

static void every_call_of_the_store_may_fail(void **state)
{
    (void)state;
    size_t failed = 0;
    for (size_t deed = 0; deed < DEEDS; deed++)
        for (size_t i = 0; i < TROUBLE_COUNT; i++)
            for (unsigned call = 0;; call++) {
                struct fenced_kit kit;
                prepare(&kit);
                struct fence before = fence_now(&kit);
                one_meets(&kit, call, TROUBLES[i]);
                enum hf_status status = deeds[deed](&kit.one);
                bool met = script_met(&kit.one.gate, "meets") > 0;
                script_deliver(&kit.one.gate);
                assert_unharmed(&kit, &before, status, deed);
                fenced_kit_close(&kit);
                failed += met;
                if (!met)
                    break;
            }
    assert_true(failed > 40);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    size_t failed = 0;
    for (size_t deed = 0; deed < DEEDS; deed++)
        for (long number = 0;; number++) {
            struct fenced_kit kit;
            prepare(&kit);
            struct fence before = fence_now(&kit);
            alloc_fail_after(number);
            enum hf_status status = deeds[deed](&kit.one);
            bool met = alloc_stop();
            assert_true(met || status == HF_OK);
            assert_unharmed(&kit, &before, status, deed);
            fenced_kit_close(&kit);
            failed += met;
            if (!met)
                break;
        }
    assert_true(failed > 8);
}

/* The same for a client that has never written the object. */
static void every_allocation_of_a_first_write_may_fail(void **state)
{
    (void)state;
    for (size_t deed = 0; deed < DEEDS; deed++)
        for (long number = 0;; number++) {
            struct fenced_kit kit;
            prepare(&kit);
            two_takes_over(&kit);
            struct fence before = fence_now(&kit);
            alloc_fail_after(number);
            enum hf_status status = deeds[deed](&kit.two);
            bool met = alloc_stop();
            assert_true(met || status == HF_OK);
            struct fence now = fence_now(&kit);
            assert_true(now.stamp.token >= before.stamp.token);
            if (deeds[deed] != do_get && status != HF_UNSURE)
                assert_int_equal(now.stamp.token == token_of(&kit.two), status == HF_OK);
            fenced_kit_close(&kit);
            if (!met)
                break;
        }
}

static void opening_a_client_may_fail(void **state)
{
    (void)state;
    for (long number = 0;; number++) {
        struct fenced_kit kit;
        alloc_fail_after(number);
        bool opened = fenced_kit_open(&kit);
        bool met = alloc_stop();
        if (opened)
            fenced_kit_close(&kit);
        assert_true(opened != met);
        if (!met)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED("a lost reply is found out, and the write not done twice",
               a_lost_reply_is_found_out),
        FENCED("a body without an answer is sent again",
               a_body_without_an_answer_is_sent_again),
        FENCED("a late put of an old token does not land after a later one",
               a_late_put_of_an_old_token_does_not_land),
        FENCED("a late first put does not bring back what was deleted",
               a_late_first_put_does_not_land_over_a_later_one),
        FENCED("the body of a write that is UNSURE stays", the_body_of_an_unsure_write_stays),
        FENCED("the body of a write that certainly does not happen goes",
               the_body_of_a_write_that_cannot_happen_goes),
        FENCED("a takeover between body and fence is FENCED",
               a_takeover_between_body_and_fence_is_fenced),
        IT("a write that readers saw is UNSURE, not FENCED, when a later holder wrote over it",
           what_readers_saw_is_not_told_as_fenced),
        IT("a write that was never there is FENCED, as far as the fence tells",
           what_was_never_there_is_fenced),
        FENCED("the body of a write that was overtaken goes",
               the_body_of_what_was_overtaken_goes),
        FENCED("a write that is refused in doubt is shut out",
               a_write_that_is_refused_in_doubt_is_shut_out),
        FENCED("a reader that finds the body gone reads again",
               a_reader_that_finds_the_body_gone_reads_again),
        FENCED("a reader that is always overtaken gives up",
               a_reader_that_is_always_overtaken_gives_up),
        IT("every call of the store may fail", every_call_of_the_store_may_fail),
        IT("every allocation may fail", every_allocation_may_fail),
        IT("every allocation of a first write may fail",
           every_allocation_of_a_first_write_may_fail),
        IT("every allocation of opening a client may fail", opening_a_client_may_fail),
    };
    return cmocka_run_group_tests_name("fenced objects in trouble", tests, NULL, NULL);
}
