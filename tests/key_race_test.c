/* SPDX-License-Identifier: Apache-2.0 */
/* key_race_test.c [KIND]: another process changes a key just before or after one of our puts,
 * or memory runs out at that moment. The report must be true all the same. */
#include "alloc.h"
#include "txn_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define RECORDS ".txn-decisions/m/"

static struct hf_error error;

/* ---- A moment in the way of a peer --------------------------------------------------- */

/* Does `act` once, before the peer's next put to a key with `part` in it arrives. */
static void act_before(struct peer *peer, const char *part, void (*act)(void *argument),
                       void *argument)
{
    script_rule(&peer->way, .name = "moment", .on = ON_PUT, .part = part, .times = 1,
                .before = act, .argument = argument);
}

static struct hf_key *adopt(struct peer *peer, struct hf_key *key, struct hf_txn *txn)
{
    char text[HF_LEASE_TEXT_MAX];
    struct hf_key *adopted;
    MUST(hf_lock_text(hf_key_lock(key), text, &error));
    MUST(key_adopt_for(peer->client, text, NULL, txn, &adopted, &error));
    return adopted;
}

/* ---- Short of memory ----------------------------------------------------------------- */

#define LARGE           ((size_t)10000)
#define ALLOCATIONS_MAX 200

static void fail_after(void *argument)
{
    alloc_fail_after(*(long *)argument);
}

/* It stands, without an answer, and looking whether it does takes memory: whichever allocation of
 * that fails, it is not told as refused, and its body is not deleted. */
static void no_memory_to_see_that_it_stands(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_held(&pair->one, "k");
    char *bytes = bytes_of(LARGE, 1);
    bool failed = true;
    long n;
    pair->one.way.ops.change = NULL;
    for (n = 0; failed && n < ALLOCATIONS_MAX; n++) {
        struct hf_key_info info = HF_KEY_INFO;
        void *data;
        size_t size;
        script_rule(&pair->one.way, .name = "moment", .on = ON_PUT, .part = DOCUMENT,
                    .times = 1, .fate = LOSE_REPLY, .after = fail_after, .argument = &n);
        enum hf_status status = hf_key_update(key, bytes, LARGE, NULL, &info, &error);
        failed = alloc_stop();
        ASSERT(status == HF_OK || status == HF_UNSURE);
        MUST(hf_key_get(pair->two.client, "k", LARGE, &data, &size, &info, &error));
        ASSERT(size == LARGE && memcmp(data, bytes, LARGE) == 0);
        ASSERT(info.version == (uint64_t)n + 1);
        hf_free(data);
    }
    ASSERT(n > 3 && n < ALLOCATIONS_MAX);
    free(bytes);
    done(key);
    ASSERT(bodies(&pair->world, "k") == 1);
}

/* ---- A lease that several processes have --------------------------------------------- */

struct late {
    struct hf_key *key;
    struct peer *reader;
    enum hf_status status;
};

static void change_late(void *argument)
{
    struct late *late = argument;
    reads(late->reader, "a", "first");
    late->status = hf_key_update(late->key, "late", 4, NULL, NULL, &error);
}

/* Who commits what it shares seals its own keys, too: others may have their leases. */
static void what_is_committed_stays_whoever_has_the_lease(void **state)
{
    struct pair *pair = *state;
    char id[TXN_ID_SIZE + 1];
    MUST(txn_open(pair->one.client, id, &error));
    struct hf_txn *one = join(&pair->one, id), *two = join(&pair->two, id);
    struct hf_key *key = take_one(one, "a");
    update(key, "first");
    struct late late = { .key = adopt(&pair->two, key, two), .reader = &pair->two };
    pair->one.way.ops.change = NULL;
    script_rule(&pair->one.way, .on = ON_PUT, .part = RECORDS, .times = 1, .after = change_late,
                .argument = &late);
    commit(one);
    ASSERT(late.status == HF_MISMATCH);
    ASSERT(reads(&pair->two, "a", "first").version == 1);
    hf_key_detach(late.key);
    hf_txn_free(two);
    hf_txn_free(one);
}

static void release_and_drop(void *argument)
{
    MUST(hf_key_release(argument, HF_ROLLBACK, &error));
}

static void release_and_publish(void *argument)
{
    MUST(hf_key_release(argument, HF_COMMIT, &error));
}

/* What was staged, by whomever, was dropped or published by another who has the lease as well, just
 * before we release it: then we are told which. */
static void released_by_another_who_has_the_lease(void **state)
{
    struct pair *pair = *state;
    pair->one.way.ops.change = NULL;
    for (int publishes = 0; publishes < 2; publishes++) {
        struct hf_key *key = staged_held(&pair->two, "k");
        update(key, "staged");
        struct hf_key *one = adopt(&pair->one, key, NULL), *two = adopt(&pair->two, key, NULL);
        hf_key_detach(key);
        act_before(&pair->one, DOCUMENT, publishes ? release_and_publish : release_and_drop,
                   two);
        struct hf_error why;
        IS(publishes ? HF_OK : HF_LOST, hf_key_release(one, HF_COMMIT, &why));
        ASSERT(script_met(&pair->one.way, "moment") == 1);
        reads(&pair->two, "k", publishes ? "staged" : NULL);
        hf_key_free(one);
        hf_key_free(two);
    }
}

/* And whoever has staged it, and wants to drop it, is told that it is published. */
static void published_by_another_who_has_the_lease(void **state)
{
    struct pair *pair = *state;
    for (int early = 0; early < 2; early++) {
        struct hf_key *one = staged_held(&pair->one, "k");
        update(one, "staged");
        struct hf_key *two = adopt(&pair->two, one, NULL);
        pair->one.way.ops.change = NULL;
        if (early) /* and not in between */
            release_and_publish(two);
        else
            act_before(&pair->one, DOCUMENT, release_and_publish, two);
        struct hf_error why;
        IS(HF_MISMATCH, hf_key_release(one, HF_ROLLBACK, &why));
        reads(&pair->two, "k", "staged");
        hf_key_free(one);
        hf_key_free(two);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PAIR("a change that stands is not refused, nor its body deleted, when memory is short",
             no_memory_to_see_that_it_stands),
        PAIR("what is committed stays as it was read, whoever has a lease of it",
             what_is_committed_stays_whoever_has_the_lease),
        PAIR("a release tells whether another who has the lease dropped what was staged",
             released_by_another_who_has_the_lease),
        PAIR("a rollback tells that another who has the lease published what was staged",
             published_by_another_who_has_the_lease),
    };
    return world_kind_set(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
