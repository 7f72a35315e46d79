/* SPDX-License-Identifier: Apache-2.0 */
/* try_many_test.c KIND: acquiring and releasing many locks and keys in one attempt (hf_try_many),
 * with the results that the single calls would have. KIND is mem, sqlite or dir. */
#include "key_kit.h"

#include <stdio.h>
#include <string.h>

static struct hf_error error;

#define MANY 10

static bool store_can(struct pair *pair)
{
    return pair->world.truth->ops->change != NULL;
}

static unsigned puts_of(struct peer *peer)
{
    env_mutex_lock(&peer->way.shared.mutex);
    unsigned puts = peer->way.shared.counts.puts;
    env_mutex_unlock(&peer->way.shared.mutex);
    return puts;
}

/* MANY locks, "named:l0" or "path:/l0" and so on. */
struct many {
    struct hf_try tries[MANY];
};

static struct many many_of(struct peer *peer, const char *start)
{
    struct many many = { 0 };
    for (size_t i = 0; i < MANY; i++) {
        char scope[32];
        snprintf(scope, sizeof scope, "%sl%zu", start, i);
        many.tries[i].lock = lock_of(peer, scope, 30000);
    }
    return many;
}

static void free_many(struct many *many)
{
    for (size_t i = 0; i < MANY; i++)
        hf_lock_free(many->tries[i].lock);
}

static void try_many(struct many *many, enum hf_try_kind kind)
{
    for (size_t i = 0; i < MANY; i++)
        many->tries[i].kind = kind;
    MUST(hf_try_many(many->tries, MANY, &error));
}

static void all_are(const struct many *many, enum hf_status status)
{
    for (size_t i = 0; i < MANY; i++)
        if (many->tries[i].error.status != status)
            FAIL("lock %zu: %s: %s", i, hf_status_name(many->tries[i].error.status),
                 many->tries[i].error.why);
}

/* The tables exist from now on. */
static void create_tables(struct many *many)
{
    for (size_t i = 0; i < MANY; i++) {
        MUST(hf_lock_acquire(many->tries[i].lock, 0, &error));
        MUST(hf_lock_release(many->tries[i].lock, &error));
    }
}

static bool is_free(struct peer *peer, const char *scope)
{
    struct hf_lock *lock = lock_of(peer, scope, 30000);
    bool acquired = hf_lock_acquire(lock, 0, &error) == HF_OK;
    if (acquired)
        MUST(hf_lock_release(lock, &error));
    hf_lock_free(lock);
    return acquired;
}

/* ---- One attempt ----------------------------------------------------------------------- */

static void where_the_store_cannot(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    if (!store_can(pair))
        IS(HF_UNSUPPORTED, hf_try_many(many.tries, MANY, &error));
    free_many(&many);
}

static void many_names(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    uint64_t token = 0;
    if (!store_can(pair)) {
        free_many(&many);
        return;
    }
    create_tables(&many);
    for (int round = 0; round < 3; round++) {
        try_many(&many, HF_TRY_ACQUIRE);
        all_are(&many, HF_OK);
        ASSERT(hf_lock_token(many.tries[0].lock) > token);
        token = hf_lock_token(many.tries[0].lock);
        for (size_t i = 0; i < MANY; i++)
            IS(HF_OK, hf_lock_check(many.tries[i].lock, &error));
        ASSERT(!is_free(&pair->two, "named:l3"));
        try_many(&many, HF_TRY_RELEASE);
        all_are(&many, HF_OK);
        ASSERT(is_free(&pair->two, "named:l3")); /* and the first client's table is outdated */
    }
    try_many(&many, HF_TRY_RELEASE);
    all_are(&many, HF_NOT_FOUND);
    free_many(&many);
}

static void one_table(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "path:/");
    if (!store_can(pair)) {
        free_many(&many);
        return;
    }
    create_tables(&many);
    unsigned before = puts_of(&pair->one);
    try_many(&many, HF_TRY_ACQUIRE);
    all_are(&many, HF_OK);
    ASSERT(puts_of(&pair->one) == before + 1);
    try_many(&many, HF_TRY_RELEASE);
    all_are(&many, HF_OK);
    ASSERT(puts_of(&pair->one) == before + 2);
    free_many(&many);
}

/* Tables that do not exist are created by the single call only. */
static void new_names(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    if (!store_can(pair)) {
        free_many(&many);
        return;
    }
    try_many(&many, HF_TRY_ACQUIRE);
    all_are(&many, HF_CONFLICT);
    for (size_t i = 0; i < MANY; i++)
        IS(HF_NOT_FOUND, hf_lock_check(many.tries[i].lock, &error));
    create_tables(&many);
    try_many(&many, HF_TRY_ACQUIRE);
    all_are(&many, HF_OK);
    try_many(&many, HF_TRY_ACQUIRE); /* a second time: the single call counts it */
    all_are(&many, HF_CONFLICT);
    MUST(hf_lock_release(many.tries[0].lock, &error));
    free_many(&many);
}

static void each_has_its_own_result(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "path:/");
    if (!store_can(pair)) {
        free_many(&many);
        return;
    }
    create_tables(&many);
    struct hf_lock *other = lock_held(&pair->two, "path:/l4", 30000);
    try_many(&many, HF_TRY_ACQUIRE);
    for (size_t i = 0; i < MANY; i++)
        ASSERT(many.tries[i].error.status == (i == 4 ? HF_HELD : HF_OK));
    ASSERT(hf_lock_blocked(many.tries[4].lock, 0));
    try_many(&many, HF_TRY_RELEASE);
    for (size_t i = 0; i < MANY; i++)
        ASSERT(many.tries[i].error.status == (i == 4 ? HF_NOT_FOUND : HF_OK));
    hf_lock_free(other);
    free_many(&many);
}

/* ---- Lost replies ---------------------------------------------------------------------- */

static void lost_replies(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    if (!store_can(pair)) {
        free_many(&many);
        return;
    }
    create_tables(&many);
    for (int i = 0; i < 4; i++) {
        script_rule(&pair->one.way, .name = "lose", .on = ON_CHANGE, .times = 3,
                    .fate = i % 2 == 0 ? LOSE : LOSE_REPLY);
        try_many(&many, i < 2 ? HF_TRY_ACQUIRE : HF_TRY_RELEASE);
        all_are(&many, HF_OK);
        ASSERT(script_met(&pair->one.way, "lose") == 3);
        script_drop(&pair->one.way, "lose");
        ASSERT(is_free(&pair->two, "named:l1") == (i >= 2));
        if (i == 0 || i == 2)
            try_many(&many, i == 0 ? HF_TRY_RELEASE : HF_TRY_ACQUIRE);
        all_are(&many, HF_OK);
    }
    free_many(&many);
}

static void refused_by_the_store(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    if (!store_can(pair)) {
        free_many(&many);
        return;
    }
    create_tables(&many);
    for (int i = 0; i < 2; i++) {
        enum hf_try_kind kind = i == 0 ? HF_TRY_ACQUIRE : HF_TRY_RELEASE;
        script_rule(&pair->one.way, .name = "no", .on = ON_CHANGE,
                    .fate = REFUSE(HF_UNAVAILABLE));
        try_many(&many, kind);
        all_are(&many, HF_CONFLICT);
        script_drop(&pair->one.way, "no");
        IS(i == 0 ? HF_NOT_FOUND : HF_OK, hf_lock_check(many.tries[0].lock, &error));
        try_many(&many, kind);
        all_are(&many, HF_OK);
    }
    free_many(&many);
}

/* Leases that are held, one that was only named, and one that has ended. */
static void renewals(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    char text[HF_LEASE_TEXT_MAX];
    if (!store_can(pair)) {
        free_many(&many);
        return;
    }
    create_tables(&many);
    try_many(&many, HF_TRY_ACQUIRE);
    all_are(&many, HF_OK);
    MUST(hf_lock_text(many.tries[1].lock, text, &error));
    hf_lock_detach(many.tries[1].lock);
    options.no_renewal = options.unconfirmed = true;
    MUST(hf_lock_adopt(pair->one.client, text, &options, &many.tries[1].lock, &error));
    IS(HF_UNSURE, hf_lock_check(many.tries[1].lock, &error));
    MUST(hf_lock_text(many.tries[2].lock, text, &error));
    MUST(hf_break(pair->two.client, text, "anna", "to see", &error));
    pass_ms(20);
    int64_t before = hf_lock_remaining_ms(many.tries[0].lock);
    try_many(&many, HF_TRY_RENEW);
    for (size_t i = 0; i < MANY; i++)
        IS(i == 2 ? HF_LOST : HF_OK, many.tries[i].error.status);
    ASSERT(hf_lock_remaining_ms(many.tries[0].lock) > before);
    ASSERT(hf_lock_remaining_ms(many.tries[1].lock) > 0);
    IS(HF_OK, hf_lock_check(many.tries[1].lock, &error));
    IS(HF_LOST, hf_lock_check(many.tries[2].lock, &error));
    free_many(&many);
}

/* The entries are not in this order: the handles are ordered by their addresses. */
static void released_and_acquired(void **state)
{
    struct pair *pair = *state;
    if (!store_can(pair))
        return;
    for (size_t waits = 0; waits < 2; waits++) {
        struct hf_lock *locks[2] = { lock_of(&pair->one, "named:passed", 30000),
                                     lock_of(&pair->one, "named:passed", 30000) };
        MUST(hf_lock_acquire(locks[0], 0, &error));
        for (size_t i = 0; i < 4; i++) { /* each handle is the one with the lower address */
            struct hf_try tries[] = { { .lock = locks[(i + 1) % 2] },
                                      { .lock = locks[i % 2], .kind = HF_TRY_RELEASE } };
            tries[0].kind = waits ? HF_TRY_BEGIN : HF_TRY_ACQUIRE;
            MUST(hf_try_many(tries, 2, &error));
            IS(HF_OK, tries[0].error.status);
            IS(HF_OK, tries[1].error.status);
        }
        MUST(hf_lock_release(locks[0], &error));
        hf_lock_free(locks[0]);
        hf_lock_free(locks[1]);
    }
}

/* ---- Waiting, and leases that were passed on ------------------------------------------- */

static void joining_the_queue(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    if (!store_can(pair)) {
        free_many(&many);
        return;
    }
    create_tables(&many);
    struct hf_lock *other = lock_held(&pair->two, "named:l4", 30000);
    try_many(&many, HF_TRY_BEGIN);
    for (size_t i = 0; i < MANY; i++)
        ASSERT(many.tries[i].error.status == (i == 4 ? HF_HELD : HF_OK));
    IS(HF_HELD, hf_lock_poll(many.tries[4].lock, &error));
    MUST(hf_lock_release(other, &error));
    IS(HF_HELD, hf_lock_acquire(other, 0, &error)); /* it has a waiter */
    while (hf_lock_poll(many.tries[4].lock, &error) == HF_HELD)
        pass_ms(10);
    IS(HF_OK, hf_lock_check(many.tries[4].lock, &error));
    hf_lock_free(other);
    free_many(&many);
}

static void leases_that_were_named(void **state)
{
    struct pair *pair = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    char text[HF_LEASE_TEXT_MAX];
    options.no_renewal = options.unconfirmed = true;
    struct hf_lock *lock = lock_held(&pair->one, "named:l0", 30000);
    MUST(hf_lock_text(lock, text, &error));
    hf_lock_detach(lock);
    struct hf_try one = { .kind = HF_TRY_RELEASE };
    MUST(hf_lock_adopt(pair->one.client, text, &options, &one.lock, &error));
    if (store_can(pair)) {
        script_rule(&pair->one.way, .name = "no", .on = ON_CHANGE, .times = 1,
                    .fate = REFUSE(HF_UNAVAILABLE));
        MUST(hf_try_many(&one, 1, &error));
        ASSERT(one.error.status == HF_CONFLICT);
        IS(HF_UNSURE, hf_lock_check(one.lock, &error)); /* as before */
        ASSERT(!is_free(&pair->two, "named:l0"));
        MUST(hf_try_many(&one, 1, &error));
        ASSERT(one.error.status == HF_OK && is_free(&pair->two, "named:l0"));
    }
    hf_lock_free(one.lock);
}

/* ---- Keys ------------------------------------------------------------------------------ */

static void keys(void **state)
{
    struct pair *pair = *state;
    if (!store_can(pair))
        return;
    publish(&pair->one, "a", "1");
    publish(&pair->one, "a", "2");
    publish(&pair->two, "b", "3");
    struct hf_key_info infos[] = { HF_KEY_INFO, HF_KEY_INFO, HF_KEY_INFO };
    struct hf_try tries[] = { { .key = key_with(&pair->one, "a", 30000, false) },
                              { .key = key_with(&pair->one, "b", 30000, false) },
                              { .key = key_with(&pair->one, "new", 30000, false) } };
    for (size_t i = 0; i < 3; i++)
        tries[i].info = &infos[i];
    struct hf_key *other = key_held(&pair->two, "b");
    MUST(hf_try_many(tries, 3, &error));
    ASSERT(tries[0].error.status == HF_OK && infos[0].version == 2);
    ASSERT(tries[1].error.status == HF_HELD && infos[1].outcome == HF_KEY_WAITING);
    ASSERT(tries[2].error.status == HF_CONFLICT);
    update(tries[0].key, "4");
    reads(&pair->two, "a", "4");
    tries[1].kind = HF_TRY_BEGIN;
    MUST(hf_try_many(&tries[1], 1, &error));
    ASSERT(tries[1].error.status == HF_HELD);
    done(other);
    while (hf_key_poll(tries[1].key, &infos[1], &error) == HF_HELD)
        pass_ms(10);
    ASSERT(infos[1].version == 1);
    for (size_t i = 0; i < 3; i++)
        hf_key_free(tries[i].key);
}

/* ---- Side by side ---------------------------------------------------------------------- */

#define ROUNDS 40

struct side {
    struct peer *peer;
    bool backwards;
    bool failed;
};

/* Acquires and releases the same locks as another task, in another order. */
static void try_again_and_again(void *argument)
{
    struct side *side = argument;
    struct many many = many_of(side->peer, "named:");
    for (size_t i = 0; side->backwards && i < MANY / 2; i++) {
        struct hf_try one = many.tries[i];
        many.tries[i] = many.tries[MANY - 1 - i];
        many.tries[MANY - 1 - i] = one;
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct hf_error why;
        struct hf_try held[MANY];
        size_t count = 0;
        for (size_t i = 0; i < MANY; i++)
            many.tries[i].kind = HF_TRY_ACQUIRE;
        side->failed |= hf_try_many(many.tries, MANY, &why) != HF_OK;
        for (size_t i = 0; i < MANY; i++) {
            enum hf_status status = many.tries[i].error.status;
            side->failed |= status != HF_OK && status != HF_HELD && status != HF_CONFLICT;
            if (status == HF_OK)
                held[count++] =
                    (struct hf_try){ .kind = HF_TRY_RELEASE, .lock = many.tries[i].lock };
        }
        if (count > 0)
            side->failed |= hf_try_many(held, count, &why) != HF_OK;
        for (size_t i = 0; i < count; i++)
            if (held[i].error.status == HF_CONFLICT)
                side->failed |= hf_lock_release(held[i].lock, &why) != HF_OK;
            else
                side->failed |= held[i].error.status != HF_OK;
    }
    free_many(&many);
}

static void side_by_side(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    struct side sides[] = { { &pair->one, false, false },
                            { &pair->one, true, false },
                            { &pair->two, true, false } };
    struct env_task *tasks[3];
    if (store_can(pair)) {
        create_tables(&many);
        for (size_t i = 0; i < 3; i++)
            MUST(env_task_start(env_real(), try_again_and_again, &sides[i], &tasks[i], &error));
        for (size_t i = 0; i < 3; i++)
            env_task_join(env_real(), tasks[i]);
        for (size_t i = 0; i < 3; i++)
            ASSERT(!sides[i].failed);
        try_many(&many, HF_TRY_ACQUIRE);
        all_are(&many, HF_OK);
    }
    free_many(&many);
}

static void bad_arguments(void **state)
{
    struct pair *pair = *state;
    struct many many = many_of(&pair->one, "named:");
    struct hf_lock *other = lock_of(&pair->two, "named:l0", 30000);
    struct hf_key *key = key_with(&pair->one, "k", 30000, false);
    IS(HF_INVALID, hf_try_many(NULL, 1, &error));
    IS(HF_INVALID, hf_try_many(many.tries, 0, &error));
    IS(HF_INVALID, hf_try_many(many.tries, HF_TRY_MAX + 1, &error));
    struct hf_try twice[] = { many.tries[0], many.tries[1], many.tries[0] };
    IS(HF_INVALID, hf_try_many(twice, 3, &error));
    ASSERT(strstr(error.why, "twice"));
    struct hf_try nothing = { .kind = HF_TRY_ACQUIRE };
    IS(HF_INVALID, hf_try_many(&nothing, 1, &error));
    struct hf_try both = { .lock = many.tries[0].lock, .key = key };
    IS(HF_INVALID, hf_try_many(&both, 1, &error));
    struct hf_try released = { .kind = HF_TRY_RELEASE, .key = key };
    IS(HF_INVALID, hf_try_many(&released, 1, &error));
    struct hf_try two_clients[] = { many.tries[0], { .lock = other } };
    IS(HF_INVALID, hf_try_many(two_clients, 2, &error));
    ASSERT(strstr(error.why, "one client"));
    hf_key_free(key);
    hf_lock_free(other);
    free_many(&many);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("a store that cannot do it says so", where_the_store_cannot),
        PAIR("many names are acquired and released", many_names),
        PAIR("locks of one table take one write", one_table),
        PAIR("a new table is left to the single call", new_names),
        PAIR("each lock has its own result", each_has_its_own_result),
        PAIR("a lost reply is followed up, as by the single call", lost_replies),
        PAIR("what the store refuses is not done, and the handle is as before",
             refused_by_the_store),
        PAIR("leases are renewed, and one that has ended is not", renewals),
        PAIR("what is released is acquired in the same attempt", released_and_acquired),
        PAIR("a lock that is not free is waited for in the queue", joining_the_queue),
        PAIR("a lease that was passed on is released", leases_that_were_named),
        PAIR("keys are acquired with their states", keys),
        PAIR("calls with the same locks do not wait for each other", side_by_side),
        PAIR("bad arguments do nothing", bad_arguments),
    };
    return cmocka_run_group_tests_name("try_many", tests, NULL, NULL);
}
