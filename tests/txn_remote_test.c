/* SPDX-License-Identifier: Apache-2.0 */
/* txn_remote_test.c [KIND [slow]]: transactions on a store with latency. Keys are asked for side
 * by side, changes are staged side by side, and the caller returns when the decision is known.
 * Requests and their depth are asserted: on such a store the depth determines how long a
 * transaction takes. */
#include "env/parallel.h"
#include "meter.h"
#include "txn_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

/* ---- Requests and depth ---------------------------------------------------------------- */

/* A request that starts after another one has ended counts as one that waited for it. A machine
 * that needs longer than the delay to start all requests of a round, is measured again with a
 * longer one. */
static const char *const slow_stores[] = { "mem:?delay=60ms", "mem:?delay=300ms",
                                           "mem:?delay=1500ms" };
#define SLOW_STORES (sizeof slow_stores / sizeof *slow_stores)
#define KEYS        10

struct metered {
    struct meter meter;
    struct store *store;
    struct peer peer; /* without its way */
};

static void metered_open(struct metered *metered, const char *url)
{
    struct store *inner;
    *metered = (struct metered){ .store = NULL };
    meter_init(&metered->meter, env_real());
    MUST(store_open(env_real(), view_of(url), &inner, &error));
    MUST(store_observe(inner, meter_observer(&metered->meter), &metered->store, &error));
    MUST(client_new(metered->store, NULL, &metered->peer.client, &error));
}

static void metered_close(struct metered *metered)
{
    hf_client_close(metered->peer.client);
    store_close(metered->store);
    meter_release(&metered->meter);
}

static uint64_t calls_of(struct metered *metered)
{
    struct meter_counts kinds[CALL_KIND_COUNT];
    uint64_t calls = 0;
    meter_read(&metered->meter, kinds);
    for (size_t i = 0; i < CALL_KIND_COUNT; i++)
        calls += kinds[i].calls;
    return calls;
}

static uint64_t depth_of(struct metered *metered)
{
    env_mutex_lock(&metered->meter.mutex);
    uint64_t depth = metered->meter.depth;
    env_mutex_unlock(&metered->meter.mutex);
    return depth;
}

/* Changes all keys to this many bytes. Returns the transaction, which is committed. */
static struct hf_txn *change_all(struct hf_client *client, size_t size)
{
    static const char *const names[KEYS] = { "k0", "k1", "k2", "k3", "k4",
                                             "k5", "k6", "k7", "k8", "k9" };
    struct hf_txn_change changes[KEYS];
    struct hf_key *keys[KEYS];
    struct hf_txn *txn;
    char *bytes = bytes_of(size, 1);
    MUST(hf_txn_begin(client, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, names, KEYS, NULL, 60000, keys, &error));
    for (size_t i = 0; i < KEYS; i++)
        changes[i] = (struct hf_txn_change){ .key = keys[i], .data = bytes, .size = size };
    MUST(hf_txn_update(txn, changes, KEYS, &error));
    commit(txn);
    free(bytes);
    return txn;
}

/* The depth of a warm transaction until its commit is known. Its requests are asserted. */
static uint64_t depth_of_commit(const char *url, size_t size, uint64_t calls,
                                uint64_t calls_in_all)
{
    struct metered metered;
    metered_open(&metered, url);
    hf_txn_free(change_all(metered.peer.client, size));
    await_settled(&metered.peer);
    uint64_t depth = depth_of(&metered), before = calls_of(&metered);
    struct hf_txn *txn = change_all(metered.peer.client, size);
    depth = depth_of(&metered) - depth;
    ASSERT(calls_of(&metered) - before >= calls);
    await_settled(&metered.peer);
    uint64_t in_all = calls_of(&metered) - before;
    printf("# %s, %zu bytes: depth %u until the commit is known, %u requests in all\n", url,
           size, (unsigned)depth, (unsigned)in_all);
    ASSERT(in_all == calls_in_all);
    hf_txn_free(txn);
    metered_close(&metered);
    return depth;
}

static void costs(size_t size, uint64_t depth_max, uint64_t calls, uint64_t calls_in_all)
{
    uint64_t depth = UINT64_MAX;
    for (size_t i = 0; i < SLOW_STORES && depth > depth_max; i++)
        depth = depth_of_commit(slow_stores[i], size, calls, calls_in_all);
    ASSERT(depth <= depth_max);
}

static void ten_keys_take_five_round_trips(void **state)
{
    (void)state;
    costs(4096, /* depth_max */ 5, /* calls */ 23, /* calls_in_all */ 34);
}

static void bodies_take_one_more(void **state)
{
    (void)state;
    costs(5000, /* depth_max */ 6, /* calls */ 33, /* calls_in_all */ 54);
}

/* ---- Taking keys ----------------------------------------------------------------------- */

static void interrupt_it(void *argument)
{
    hf_txn_interrupt(argument);
}

/* The interrupt comes while the keys are asked for, or given back, without a wait in a queue. */
static void an_early_interrupt_counts(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    publish(&pair->one, "a", "old a");
    publish(&pair->one, "b", "old b");
    struct hf_key *held = key_held(&pair->two, "b");
    for (unsigned skip = 0; skip < 3; skip++) {
        struct hf_txn *txn = begin(&pair->one);
        script_rule(&pair->one.way, .name = "early", .part = "/meta/", .skip = skip, .times = 1,
                    .before = interrupt_it, .argument = txn);
        IS(HF_CANCELLED,
           hf_txn_acquire(txn, (const char *[]){ "a", "b" }, 2, NULL, 60000, keys, &error));
        ASSERT(script_met(&pair->one.way, "early") == 1);
        script_drop(&pair->one.way, "early");
        /* It does not count for the next call, which does not wait. */
        IS(HF_HELD,
           hf_txn_acquire(txn, (const char *[]){ "a", "b" }, 2, NULL, 0, keys, &error));
        hf_txn_interrupt(txn); /* no call is in progress */
        MUST(hf_txn_acquire(txn, (const char *[]){ "a" }, 1, NULL, 60000, keys, &error));
        hf_txn_free(txn);
    }
    done(held);
}

static bool is_held(struct world *world, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "default/meta/%s.json", name);
    return world_times(world, key, "\"status\":\"active\"") > 0;
}

static void is_free(struct pair *pair, const char *name)
{
    ASSERT(!is_staged(&pair->world, name) && !is_held(&pair->world, name));
}

static struct pair *remote_pair(void **state)
{
    struct pair *pair = *state;
    make_remote(&pair->one);
    make_remote(&pair->two);
    return pair;
}

static const char *const abc[] = { "a", "b", "c" };

static void a_refused_key_leaves_none(void **state)
{
    struct pair *pair = remote_pair(state);
    for (size_t i = 0; i < 3; i++) {
        struct hf_key *keys[3], *other = key_held(&pair->two, abc[i]);
        struct hf_txn *txn = begin(&pair->one);
        IS(HF_HELD, hf_txn_acquire(txn, abc, 3, NULL, 0, keys, &error));
        for (size_t j = 0; j < 3; j++)
            if (j != i)
                is_free(pair, abc[j]);
        done(other);
        MUST(hf_txn_acquire(txn, abc, 3, NULL, 0, keys, &error));
        roll_back(txn);
        hf_txn_free(txn);
        await_settled(&pair->one);
    }
}

struct patient {
    struct hf_txn *txn;
    struct hf_key *keys[3];
    enum hf_status status;
    struct hf_error error;
    pthread_t id;
};

static void *wait_for_all(void *argument)
{
    struct patient *patient = argument;
    patient->status =
        hf_txn_acquire(patient->txn, abc, 3, NULL, 60000, patient->keys, &patient->error);
    return NULL;
}

static bool is_waited_for(void *argument)
{
    return world_times(argument, "default/meta/a.json", "\"waiters\":[]") == 0;
}

/* While it waits for the first key, the others are free. */
static void a_wait_holds_no_later_key(void **state)
{
    struct pair *pair = remote_pair(state);
    struct hf_key *first = key_held(&pair->two, "a");
    struct patient patient = { .txn = begin(&pair->one) };
    ASSERT(pthread_create(&patient.id, NULL, wait_for_all, &patient) == 0);
    ASSERT(comes_true(is_waited_for, &pair->world, 60000));
    is_free(pair, "b");
    is_free(pair, "c");
    done(first);
    ASSERT(pthread_join(patient.id, NULL) == 0);
    must(patient.status, &patient.error, "hf_txn_acquire", __LINE__);
    roll_back(patient.txn);
    hf_txn_free(patient.txn);
    await_settled(&pair->one);
}

/* A key that may still be held could be what another transaction waits for. */
static void no_reply_to_a_give_back_is_unsure(void **state)
{
    struct pair *pair = remote_pair(state);
    struct hf_key *keys[3], *first = key_held(&pair->two, "a");
    struct hf_txn *txn = begin(&pair->one);
    script_rule(&pair->one.way, .name = "b", .on = ON_PUT, .part = "meta/b.json", .skip = 1,
                .fate = LOSE);
    publish(&pair->two, "b",
            "x"); /* so that its document exists, and the first put is a grant */
    IS(HF_UNSURE, hf_txn_acquire(txn, abc, 3, NULL, 60000, keys, &error));
    ASSERT(strstr(error.why, "b may still be held"));
    ASSERT(!is_waited_for(&pair->world));
    script_drop(&pair->one.way, "b");
    hf_txn_free(txn);
    await_settled(&pair->one);
    done(first);
}

static void let_the_lease_pass(void *argument)
{
    (void)argument;
    pass_ms(1500);
}

/* The stage of the late grant is under a lease that has ended. Either it is removed, and the keys
 * are acquired in order, or somebody has acted on it, and the transaction is over. In both cases
 * none of the keys stays locked. */
static void a_grant_that_comes_too_late_is_undone_or_ends_it(void **state)
{
    struct pair *pair = remote_pair(state);
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *keys[3];
    options.ttl_ms = 1000;
    for (size_t i = 0; i < 3; i++)
        publish(&pair->one, abc[i], "x");
    struct hf_txn *txn = begin(&pair->one);
    script_rule(&pair->one.way, .name = "late", .on = ON_PUT, .part = "meta/b.json", .times = 1,
                .after = let_the_lease_pass);
    enum hf_status status = hf_txn_acquire(txn, abc, 3, &options, 60000, keys, &error);
    ASSERT(status == HF_OK || status == HF_MISMATCH);
    if (status == HF_OK)
        MUST(hf_txn_rollback(txn, NULL, &error));
    ASSERT(recorded(&pair->two, hf_txn_id(txn)) == TXN_ROLLBACK);
    hf_txn_free(txn);
    await_settled(&pair->one);
    for (size_t i = 0; i < 3; i++)
        publish(&pair->two, abc[i], "y");
}

/* ---- Staging --------------------------------------------------------------------------- */

static void each_change_has_its_own_result(void **state)
{
    struct pair *pair = remote_pair(state);
    struct hf_key_if never = HF_KEY_IF;
    struct hf_key *keys[3];
    struct hf_txn *txn = begin(&pair->one);
    never.version_set = true;
    never.version = 7;
    publish(&pair->two, "b", "old");
    MUST(hf_txn_acquire(txn, abc, 3, NULL, 0, keys, &error));
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_txn_change changes[] = {
        { .key = keys[0], .data = "A", .size = 1 },
        { .key = keys[1], .removes = true, .info = &info },
        { .key = keys[2], .data = "C", .size = 1, .when = &never },
    };
    IS(HF_CONFLICT, hf_txn_update(txn, changes, 3, &error));
    ASSERT(changes[0].status == HF_OK && changes[1].status == HF_OK);
    ASSERT(changes[2].status == HF_CONFLICT && info.removed);
    ASSERT(strncmp(error.why, "c: ", 3) == 0);
    changes[2].when = NULL;
    MUST(hf_txn_update(txn, changes, 3, &error));
    commit(txn);
    reads(&pair->two, "a", "A");
    reads(&pair->two, "b", NULL);
    reads(&pair->two, "c", "C");
    IS(HF_DENIED, hf_txn_update(txn, changes, 1, &error)); /* it holds no key any more */
    hf_txn_free(txn);
    await_settled(&pair->one);
}

static void wrong_changes_are_refused_whole(void **state)
{
    struct pair *pair = remote_pair(state);
    struct hf_key *keys[2], *alone = key_held(&pair->one, "z");
    struct hf_txn *txn = begin(&pair->one);
    MUST(hf_txn_acquire(txn, abc, 2, NULL, 0, keys, &error));
    struct hf_txn_change twice[] = { { .key = keys[0], .data = "1", .size = 1 },
                                     { .key = keys[0], .data = "2", .size = 1 } };
    struct hf_txn_change foreign[] = { { .key = keys[0], .data = "1", .size = 1 },
                                       { .key = alone, .data = "2", .size = 1 } };
    struct hf_txn_change removed = { .key = keys[0], .data = "1", .size = 1, .removes = true };
    IS(HF_INVALID, hf_txn_update(txn, twice, 2, &error));
    ASSERT(strstr(error.why, "a is listed twice"));
    IS(HF_INVALID, hf_txn_update(txn, foreign, 2, &error));
    IS(HF_INVALID, hf_txn_update(txn, &removed, 1, &error));
    IS(HF_INVALID, hf_txn_update(txn, twice, 0, &error));
    commit(txn);
    hf_txn_free(txn);
    await_settled(&pair->one);
    reads(&pair->two, "a", NULL);
    done(alone);
}

/* ---- Settling in the background ---------------------------------------------------------- */

/* From now on nothing that is written to a key's document arrives, and no reply comes. */
static void documents_hang(struct peer *peer)
{
    script_rule(&peer->way, .name = "hang", .on = ON_PUT, .part = "/meta/", .fate = HANG);
}

static void the_caller_returns_before_the_settling(void **state)
{
    struct pair *pair = remote_pair(state);
    struct transfer transfer = transfer_staged(&pair->one, "1", "2");
    documents_hang(&pair->one);
    commit(transfer.txn);
    IS(HF_NOT_FOUND, hf_lock_check(hf_key_lock(transfer.keys[0]), &error));
    ASSERT(is_staged(&pair->world, "a") && is_staged(&pair->world, "b"));
    both_read(&pair->two, "1", "2"); /* readers do not wait for it */
    IS(HF_MISMATCH, hf_txn_rollback(transfer.txn, NULL, &error));
    hf_txn_free(transfer.txn);
    script_drop(&pair->one.way, "hang");
    hf_client_close(pair->one.client); /* settles first */
    is_free(pair, "a");
    is_free(pair, "b");
    both_read(&pair->two, "1", "2");
    MUST(client_new(&pair->one.way.base, NULL, &pair->one.client, &error));
}

static void *drop_hang_soon(void *argument)
{
    pass_ms(100);
    script_drop(argument, "hang");
    return NULL;
}

/* It is not refused because of the lease that it has released. */
static void this_process_can_take_the_keys_at_once(void **state)
{
    struct pair *pair = remote_pair(state);
    struct transfer transfer = transfer_staged(&pair->one, "1", "2");
    pthread_t id;
    documents_hang(&pair->one);
    commit(transfer.txn);
    hf_txn_free(transfer.txn);
    ASSERT(pthread_create(&id, NULL, drop_hang_soon, &pair->one.way) == 0);
    struct hf_key *key = key_held(&pair->one, "a"); /* without waiting for others */
    reads(&pair->two, "a", "1");
    done(key);
    ASSERT(pthread_join(id, NULL) == 0);
    await_settled(&pair->one);
}

/* Not even if it does not want to wait; but not for long. */
static void another_process_waits_for_the_settling(void **state)
{
    struct pair *pair = remote_pair(state);
    struct transfer transfer = transfer_staged(&pair->one, "1", "2");
    struct hf_key *key = key_with(&pair->two, "a", 60000, false), *keys[2];
    pthread_t id;
    IS(HF_HELD, hf_key_acquire(key, 0, NULL, &error)); /* pending, so it is simply held */
    documents_hang(&pair->one);
    commit(transfer.txn);
    hf_txn_free(transfer.txn);
    struct mono_time began = now();
    IS(HF_HELD, hf_key_acquire(key, 0, NULL, &error));
    ASSERT(ms_since(began) >= 1500);
    ASSERT(pthread_create(&id, NULL, drop_hang_soon, &pair->one.way) == 0);
    MUST(hf_key_acquire(key, 0, NULL, &error));
    ASSERT(pthread_join(id, NULL) == 0);
    done(key);
    await_settled(&pair->one);
    transfer = transfer_staged(&pair->one, "3", "4");
    documents_hang(&pair->one);
    commit(transfer.txn);
    hf_txn_free(transfer.txn);
    struct hf_txn *txn = begin(&pair->two);
    ASSERT(pthread_create(&id, NULL, drop_hang_soon, &pair->one.way) == 0);
    take_two(txn, "a", "b", 60000, keys); /* without a wait, too */
    ASSERT(pthread_join(id, NULL) == 0);
    both_read(&pair->two, "3", "4");
    roll_back(txn);
    hf_txn_free(txn);
    await_settled(&pair->one);
    await_settled(&pair->two);
}

/* The lease and the stage are left to others, and the close does not take forever. */
static void a_close_without_replies_is_bounded(void **state)
{
    struct pair *pair = remote_pair(state);
    struct transfer transfer = transfer_staged(&pair->one, "1", "2");
    documents_hang(&pair->one);
    commit(transfer.txn);
    hf_txn_free(transfer.txn);
    struct mono_time began = now();
    hf_client_close(pair->one.client);
    ASSERT(ms_since(began) < 40000);
    both_read(&pair->two, "1", "2");
    script_drop(&pair->one.way, "hang");
    MUST(client_new(&pair->one.way.base, NULL, &pair->one.client, &error));
}

/* ---- Bounds ------------------------------------------------------------------------------ */

struct gate {
    struct background_job job;
    atomic_bool *open;
    atomic_size_t *ran, *abandoned;
};

static void pass_gate(struct background_job *job, bool abandoned)
{
    struct gate *gate = job->argument;
    while (!atomic_load(gate->open))
        pass_ms(1);
    atomic_fetch_add(abandoned ? gate->abandoned : gate->ran, 1);
}

static size_t running_jobs(struct hf_client *client)
{
    env_mutex_lock(&client->background.mutex);
    size_t running = client->background.running;
    env_mutex_unlock(&client->background.mutex);
    return running;
}

static void jobs_in_the_background_are_bounded(void **state)
{
    enum { MOST = BACKGROUND_TASKS_MAX + BACKGROUND_JOBS_MAX };
    struct pair *pair = *state;
    static struct gate gates[MOST + 1];
    atomic_bool open = false;
    atomic_size_t ran = 0, abandoned = 0;
    size_t added = 0;
    for (size_t i = 0; i <= MOST; i++) {
        gates[i] = (struct gate){ .job = { .run = pass_gate, .argument = &gates[i] },
                                  .open = &open,
                                  .ran = &ran,
                                  .abandoned = &abandoned };
        while (running_jobs(pair->one.client) <
               (i < BACKGROUND_TASKS_MAX ? i : BACKGROUND_TASKS_MAX))
            pass_ms(1);
        added += background_add(pair->one.client, &gates[i].job);
    }
    ASSERT(added == MOST);
    atomic_store(&open, true);
    hf_client_close(pair->one.client);
    ASSERT(atomic_load(&ran) + atomic_load(&abandoned) == added);
    MUST(client_new(&pair->one.way.base, NULL, &pair->one.client, &error));
}

struct count {
    atomic_size_t calls[100];
    atomic_size_t at_once, most;
};

static void count_step(void *argument, size_t index)
{
    struct count *count = argument;
    size_t now_running = atomic_fetch_add(&count->at_once, 1) + 1, most;
    while ((most = atomic_load(&count->most)) < now_running &&
           !atomic_compare_exchange_weak(&count->most, &most, now_running))
        continue;
    pass_ms(1);
    atomic_fetch_add(&count->calls[index], 1);
    atomic_fetch_sub(&count->at_once, 1);
}

static void each_step_is_taken_once(void **state)
{
    static const size_t sizes[] = { 0, 1, 2, PARALLEL_MAX, 100 };
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct count count = { .most = 0 };
        parallel_run(env_real(), sizes[i], count_step, &count);
        ASSERT(count.most <= PARALLEL_MAX);
        for (size_t j = 0; j < 100; j++)
            ASSERT(count.calls[j] == (j < sizes[i]));
    }
}

/* Requests without a reply take ten seconds. */
static const struct CMUnitTest slow_tests[] = {
    PAIR("if a key may still be held, it does not wait, and says UNSURE",
         no_reply_to_a_give_back_is_unsure),
    PAIR("a close is bounded if nothing can be settled", a_close_without_replies_is_bounded),
};

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IT("ten keys, warm: the commit is known after five round trips",
           ten_keys_take_five_round_trips),
        IT("bodies take one more", bodies_take_one_more),
        PAIR("a transaction that is refused a key holds none", a_refused_key_leaves_none),
        PAIR("an interrupt counts before the first wait, too", an_early_interrupt_counts),
        PAIR("while it waits for a key, it holds none with a later name",
             a_wait_holds_no_later_key),
        PAIR("a grant that comes too late to be used is undone, or ends the transaction",
             a_grant_that_comes_too_late_is_undone_or_ends_it),
        PAIR("of several changes, each has its own result", each_change_has_its_own_result),
        PAIR("changes that make no sense are refused together",
             wrong_changes_are_refused_whole),
        PAIR("a commit returns before its keys are settled, and the close settles them",
             the_caller_returns_before_the_settling),
        PAIR("the process that committed can take the keys at once",
             this_process_can_take_the_keys_at_once),
        PAIR("another process waits for a moment until a decided transaction lets go",
             another_process_waits_for_the_settling),
        PAIR("the jobs in the background are bounded, and none is lost",
             jobs_in_the_background_are_bounded),
        IT("steps side by side: each is taken once, and not too many at the same time",
           each_step_is_taken_once),
    };
    if (argc > 2 && strcmp(argv[2], "slow") == 0)
        return world_kind_set(argc, argv) ? cmocka_run_group_tests(slow_tests, NULL, NULL) : 2;
    return world_kind_set(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
