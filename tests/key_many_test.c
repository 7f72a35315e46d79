/* SPDX-License-Identifier: Apache-2.0 */
/* key_many_test.c KIND: changing several keys in one step: all or none, where the store can. KIND
 * is mem, sqlite or dir. */
#include "key_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hf_error error;

#define TWO 2

/* Two keys, "a" and "b", named in the wrong order. */
struct two {
    struct hf_key_write writes[TWO];
    struct hf_key_info infos[TWO];
    struct hf_key_if when[TWO];
};

static struct two two_of(const char *of_b, const char *of_a)
{
    const struct hf_key_if any = HF_KEY_IF;
    const struct hf_key_info none = HF_KEY_INFO;
    return (struct two){ .writes = { { .name = "b", .data = of_b, .size = strlen(of_b) },
                                     { .name = "a", .data = of_a, .size = strlen(of_a) } },
                         .infos = { none, none },
                         .when = { any, any } };
}

static enum hf_status change_two(struct peer *peer, struct two *two, int64_t wait_ms)
{
    for (size_t i = 0; i < TWO; i++)
        two->writes[i].when = &two->when[i];
    return hf_key_change_many(peer->client, two->writes, TWO, wait_ms, two->infos, &error);
}

static void change_both(struct peer *peer, const char *of_b, const char *of_a)
{
    struct two two = two_of(of_b, of_a);
    MUST(change_two(peer, &two, 0));
    ASSERT(two.infos[0].size == strlen(of_b) && two.infos[1].size == strlen(of_a));
}

static void read_both(struct peer *peer, const char *of_b, const char *of_a)
{
    reads(peer, "b", of_b);
    reads(peer, "a", of_a);
}

static bool store_can(struct pair *pair)
{
    return pair->world.truth->ops->change != NULL;
}

/* ---- All or none ----------------------------------------------------------------------- */

static void where_the_store_cannot(void **state)
{
    struct pair *pair = *state;
    struct two two = two_of("b", "a");
    if (store_can(pair))
        return;
    IS(HF_UNSUPPORTED, change_two(&pair->one, &two, 0));
    ASSERT(strstr(error.why, "hf_txn_begin"));
    read_both(&pair->two, NULL, NULL);
}

static void new_keys_and_known_ones(void **state)
{
    struct pair *pair = *state;
    if (!store_can(pair))
        return;
    change_both(&pair->one, "1", "2"); /* under leases: the documents must be created */
    read_both(&pair->two, "1", "2");
    struct hf_key_info before = reads(&pair->one, "a", "2");
    change_both(&pair->one, "3", "4");
    read_both(&pair->two, "3", "4");
    struct hf_key_info now = reads(&pair->one, "a", "4");
    ASSERT(now.version == before.version + 1);
    change_both(&pair->two, "5", "6"); /* its documents are outdated */
    change_both(&pair->one, "7", "8");
    read_both(&pair->two, "7", "8");
}

/* Each pair of many keys, some of which exist. */
static void some_that_exist(void **state)
{
    struct pair *pair = *state;
    char names[8][8];
    if (!store_can(pair))
        return;
    for (size_t i = 0; i < 8; i++)
        snprintf(names[i], sizeof names[i], "k%zu", i);
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 8; j++) {
            struct hf_key_write writes[TWO] = { { .name = names[i], .data = "x", .size = 1 },
                                                { .name = names[j], .data = "y", .size = 1 } };
            if (i != j)
                MUST(hf_key_change_many((i + j) % 3 ? pair->one.client : pair->two.client,
                                        writes, TWO, 0, NULL, &error));
        }
}

static void without_a_lease(void **state)
{
    struct pair *pair = *state;
    if (!store_can(pair))
        return;
    change_both(&pair->one, "1", "2");
    change_both(&pair->one, "3", "4");
    struct hf_key_info first = reads(&pair->one, "a", "4");
    change_both(&pair->one, "5", "6");
    ASSERT(reads(&pair->one, "a", "6").token == first.token + 1); /* of its own, and no more */
}

static void one_condition_refuses_all(void **state)
{
    struct pair *pair = *state;
    if (!store_can(pair))
        return;
    change_both(&pair->one, "1", "2");
    for (size_t i = 0; i < TWO; i++) {
        struct two two = two_of("x", "y");
        two.when[i].version_set = true;
        two.when[i].version = 7;
        IS(HF_CONFLICT, change_two(&pair->one, &two, 0));
        ASSERT(two.infos[i].outcome == HF_KEY_VERSION_CONFLICT && two.infos[i].version == 1);
        ASSERT(two.infos[1 - i].outcome == HF_KEY_NONE);
        ASSERT(strncmp(error.why, two.writes[i].name, 1) == 0);
        read_both(&pair->one, "1", "2");
        read_both(&pair->two, "1", "2");
    }
    change_both(&pair->one, "3", "4"); /* its bodies are not outdated */
    read_both(&pair->two, "3", "4");
}

/* The other client knows only the versions before. */
static void conditions_on_what_is_there_now(void **state)
{
    struct pair *pair = *state;
    if (!store_can(pair))
        return;
    change_both(&pair->two, "1", "2");
    change_both(&pair->one, "3", "4");
    struct two late = two_of("x", "y"), good = two_of("5", "6");
    late.when[0].version_set = late.when[1].version_set = true;
    late.when[0].version = late.when[1].version = 1;
    IS(HF_CONFLICT, change_two(&pair->two, &late, 0));
    read_both(&pair->two, "3", "4");
    good.when[0].version_set = good.when[1].version_set = true;
    good.when[0].version = good.when[1].version = 2;
    MUST(change_two(&pair->two, &good, 0));
    read_both(&pair->one, "5", "6");
}

/* ---- No reply -------------------------------------------------------------------------- */

/* Whether or not the step took place, it did so as a whole, and is not made again. */
static void no_reply_is_unsure(void **state)
{
    struct pair *pair = *state;
    if (!store_can(pair))
        return;
    change_both(&pair->one, "1", "2");
    for (int i = 0; i < 2; i++) {
        struct two two = two_of("3", "4");
        script_rule(&pair->one.way, .name = "lose", .on = ON_CHANGE, .times = 1,
                    .fate = i == 0 ? LOSE : LOSE_REPLY);
        IS(HF_UNSURE, change_two(&pair->one, &two, 0));
        ASSERT(script_met(&pair->one.way, "lose") > 0);
        script_drop(&pair->one.way, "lose");
        read_both(&pair->two, i == 0 ? "1" : "3", i == 0 ? "2" : "4");
        read_both(&pair->one, i == 0 ? "1" : "3", i == 0 ? "2" : "4");
    }
    ASSERT(reads(&pair->two, "a", "4").version == 2);
    change_both(&pair->one, "5", "6"); /* its documents are not outdated */
    read_both(&pair->two, "5", "6");
}

static void without_an_error(void **state)
{
    struct pair *pair = *state;
    struct two two = two_of("x", "y");
    struct hf_client *client = pair->one.client;
    enum hf_status made = store_can(pair) ? HF_OK : HF_UNSUPPORTED;
    ASSERT(hf_key_change_many(client, two.writes, TWO, 0, NULL, NULL) == made);
    ASSERT(hf_key_change_many(client, two.writes, TWO, 0, NULL, NULL) == made);
    struct hf_key *key = key_held(&pair->two, "b");
    enum hf_status refused = store_can(pair) ? HF_HELD : HF_UNSUPPORTED;
    ASSERT(hf_key_change_many(client, two.writes, TWO, 0, NULL, NULL) == refused);
    done(key);
}

/* ---- Keys that are not free ------------------------------------------------------------ */

static void held(void **state)
{
    struct pair *pair = *state;
    struct two two = two_of("x", "y");
    if (!store_can(pair))
        return;
    change_both(&pair->one, "1", "2");
    struct hf_key *key = key_held(&pair->one, "b");
    IS(HF_HELD, change_two(&pair->two, &two, 0));
    read_both(&pair->two, "1", "2");
    IS(HF_TIMEOUT, change_two(&pair->two, &two, 50));
    read_both(&pair->two, "1", "2");
    struct hf_key *first = key_held(&pair->two, "a"); /* it was released */
    done(first);
    update(key, "still");
    done(key);
    change_both(&pair->two, "3", "4");
    read_both(&pair->one, "3", "4");
}

static void staged_by_a_transaction(void **state)
{
    struct pair *pair = *state;
    const char *const name = "a";
    struct two two = two_of("x", "y");
    struct hf_txn *txn;
    struct hf_key *key;
    if (!store_can(pair))
        return;
    change_both(&pair->one, "1", "2");
    MUST(hf_txn_begin(pair->one.client, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, &name, 1, NULL, 0, &key, &error));
    update(key, "staged");
    IS(HF_HELD, change_two(&pair->two, &two, 0));
    MUST(hf_txn_commit(txn, NULL, &error));
    hf_txn_free(txn);
    read_both(&pair->two, "1", "staged");
}

static void removed(void **state)
{
    struct pair *pair = *state;
    struct two two = two_of("", "y");
    if (!store_can(pair))
        return;
    change_both(&pair->one, "1", "2");
    two.writes[0].removes = true;
    MUST(change_two(&pair->two, &two, 0));
    ASSERT(two.infos[0].removed && !two.infos[1].removed);
    read_both(&pair->one, NULL, "y");
}

static void bad_arguments(void **state)
{
    struct pair *pair = *state;
    struct hf_key_write many[HF_KEYS_TOGETHER_MAX + 1] = { { .name = "a" } };
    struct two two = two_of("x", "y");
    char *bytes = bytes_of(STATE_INLINE_MAX + 1, 3);
    IS(HF_INVALID, hf_key_change_many(NULL, many, 1, 0, NULL, &error));
    IS(HF_INVALID, hf_key_change_many(pair->one.client, NULL, 1, 0, NULL, &error));
    IS(HF_INVALID, hf_key_change_many(pair->one.client, many, 0, 0, NULL, &error));
    IS(HF_INVALID,
       hf_key_change_many(pair->one.client, many, HF_KEYS_TOGETHER_MAX + 1, 0, NULL, &error));
    IS(HF_INVALID,
       hf_key_change_many(pair->one.client, many, 2, 0, NULL, &error)); /* no name */
    IS(HF_INVALID, change_two(&pair->one, &two, -1));
    two.writes[0].name = "a";
    IS(HF_INVALID, change_two(&pair->one, &two, 0));
    ASSERT(strstr(error.why, "twice"));
    two.writes[0].name = "../b";
    IS(HF_INVALID, change_two(&pair->one, &two, 0));
    two.writes[0] =
        (struct hf_key_write){ .name = "b", .data = bytes, .size = STATE_INLINE_MAX + 1 };
    IS(HF_INVALID, change_two(&pair->one, &two, 0));
    ASSERT(strstr(error.why, "transaction"));
    free(bytes);
    read_both(&pair->one, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("a store that cannot do it says so, and nothing is changed",
             where_the_store_cannot),
        PAIR("new keys and known ones are changed together", new_keys_and_known_ones),
        PAIR("some exist and some do not", some_that_exist),
        PAIR("free keys are changed without a lease", without_a_lease),
        PAIR("if one condition does not hold, none is changed", one_condition_refuses_all),
        PAIR("conditions are checked against what is there now",
             conditions_on_what_is_there_now),
        PAIR("without a reply, all are changed or none, and it says UNSURE",
             no_reply_is_unsure),
        PAIR("a caller need not ask for the reason of a refusal", without_an_error),
        PAIR("if one key is held, none is changed", held),
        PAIR("nor if a transaction has staged one", staged_by_a_transaction),
        PAIR("a value is removed in the same way", removed),
        PAIR("bad arguments change nothing", bad_arguments),
    };
    return cmocka_run_group_tests_name("key_many", tests, NULL, NULL);
}
