/* key_race_test.c [KIND]: what another process does to a key just before or after one put of ours,
 * and memory that is short just then. What is told is true all the same. */
#include "alloc.h"
#include "txn_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define RECORDS ".txn-decisions/m/"

static struct hf_error error;

/* ---- A moment in the way of a peer --------------------------------------------------- */

/* At the next put to a key with `part` in it, `act` is done once, before it arrives or after. */
static struct {
    const char *part; /* NULL: nothing more is to be done */
    bool before, lose_reply;
    void (*act)(void *argument);
    void *argument;
} moment;

static const struct store_ops *plain;
static struct store_ops with_moment;

static void act(void)
{
    moment.part = NULL;
    moment.act(moment.argument);
}

static void put(struct store *store, struct put_call *calls, size_t count)
{
    char key[KEY_BYTES_MAX + 1];
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(calls[0].key));
    bool now = moment.part && strstr(key, moment.part);
    if (now && moment.before)
        act();
    plain->put(store, calls, count);
    if (now && !moment.before)
        act();
    if (now && moment.lose_reply)
        calls[0].error = (struct hf_error){ .status = HF_UNSURE };
}

/* Those of a peer go through here from now on. */
static void watch(struct peer *peer)
{
    struct store *store = &peer->way.base;
    plain = store->ops;
    with_moment = *plain;
    with_moment.put = put;
    with_moment.change = NULL;
    store->ops = &with_moment;
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
    watch(&pair->one);
    for (n = 0; failed && n < ALLOCATIONS_MAX; n++) {
        struct hf_key_info info;
        void *data;
        size_t size;
        moment.part = DOCUMENT;
        moment.before = false;
        moment.lose_reply = true;
        moment.act = fail_after;
        moment.argument = &n;
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
    watch(&pair->one);
    moment.part = RECORDS;
    moment.before = moment.lose_reply = false;
    moment.act = change_late;
    moment.argument = &late;
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
    watch(&pair->one);
    for (int publishes = 0; publishes < 2; publishes++) {
        struct hf_key *key = staged_held(&pair->two, "k");
        update(key, "staged");
        struct hf_key *one = adopt(&pair->one, key, NULL), *two = adopt(&pair->two, key, NULL);
        hf_key_detach(key);
        moment.part = DOCUMENT;
        moment.before = true;
        moment.lose_reply = false;
        moment.act = publishes ? release_and_publish : release_and_drop;
        moment.argument = two;
        struct hf_error why;
        IS(publishes ? HF_OK : HF_LOST, hf_key_release(one, HF_COMMIT, &why));
        ASSERT(!moment.part);
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
        watch(&pair->one);
        moment.part = DOCUMENT;
        moment.before = true;
        moment.lose_reply = false;
        moment.act = release_and_publish;
        moment.argument = two;
        if (early) /* and not in between */
            act();
        struct hf_error why;
        IS(HF_MISMATCH, hf_key_release(one, HF_ROLLBACK, &why));
        reads(&pair->two, "k", "staged");
        pair->one.way.base.ops = plain;
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
