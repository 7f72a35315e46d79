/* SPDX-License-Identifier: Apache-2.0 */
/* serve_calls_test.c KIND: the calls of the server on a real store: the pool, the ids of leases,
 * the secret of a bucket, and the core with all of them. KIND is mem or sqlite. */
#include "api_client_kit.h"
#include "base/hash.h"
#include "base/parse.h"
#include "serve/calls/lease_order.h"
#include "serve/calls/stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A server without a network ------------------------------------------------------ */

#define REQUESTS_MAX 32

struct server {
    struct place *place;
    struct calls calls;
    struct lease_ids *ids;
    struct env_mutex mutex;
    struct env_cond changed;
    bool signalled;
    const char *txn_id; /* of the orders that follow, or NULL */
    struct core_result results[REQUESTS_MAX];
    bool answered[REQUESTS_MAX];
};

static void notify_server(void *argument)
{
    struct server *server = argument;
    env_mutex_lock(&server->mutex);
    server->signalled = true;
    env_cond_signal(&server->changed);
    env_mutex_unlock(&server->mutex);
}

static void keep_answer(void *argument, uint64_t request, const struct core_result *result)
{
    struct server *server = argument;
    assert_true(request < REQUESTS_MAX && !server->answered[request]);
    server->results[request] = *result;
    server->answered[request] = true;
}

static void open_server(struct server *server, struct place *place)
{
    unsigned char secret[LEASE_SECRET_BYTES];
    *server = (struct server){ .place = place };
    struct pool_options options = { .workers = 4,
                                    .jobs_max = CORE_LIMITS.calls_max,
                                    .notify = notify_server,
                                    .argument = server };
    env_mutex_init(env_real(), &server->mutex);
    env_cond_init(env_real(), &server->changed);
    OK(lease_secret_load(env_real(), hf_client_store(place->client), secret, &place->error));
    server->ids = lease_ids_new(env_real(), secret, /* cached_max */ 2);
    server->calls.core = core_new(&CORE_LIMITS, call_order_free);
    assert_true(server->ids && server->calls.core);
    OK(pool_new(env_real(), &options, &server->calls.pool, &place->error));
    server->calls.answer = keep_answer;
    server->calls.argument = server;
}

static void turn(struct server *server)
{
    calls_flush(&server->calls, env_now(env_real()));
    struct mono_time until =
        mono_earlier(calls_wake_at(&server->calls), mono_add(env_now(env_real()), SPAN_S(1)));
    env_mutex_lock(&server->mutex);
    while (!server->signalled && mono_before(env_now(env_real()), until))
        env_cond_wait_until(&server->changed, &server->mutex, until);
    server->signalled = false;
    env_mutex_unlock(&server->mutex);
    calls_collect(&server->calls, env_now(env_real()));
    calls_pass_time(&server->calls, env_now(env_real()));
}

static struct core_result *await(struct server *server, uint64_t request)
{
    for (int i = 0; i < 60 && !server->answered[request]; i++)
        turn(server);
    assert_true(server->answered[request]);
    return &server->results[request];
}

/* Nothing is under way. */
static void settle(struct server *server)
{
    for (int i = 0; i < 60 && !core_is_idle(server->calls.core); i++)
        turn(server);
    assert_true(core_is_idle(server->calls.core));
}

static void close_server(struct server *server)
{
    core_stop(server->calls.core, env_now(env_real()));
    calls_pump(&server->calls);
    settle(server);
    pool_free(server->calls.pool);
    core_free(server->calls.core);
    lease_ids_free(server->ids);
    env_cond_release(&server->changed);
    env_mutex_release(&server->mutex);
}

static void acquire(struct server *server, uint64_t request, const char *scope, bool waits)
{
    struct place *place = server->place;
    struct call_order *order;
    struct lease_task task = { .kind = LEASE_ACQUIRE,
                               .client = place->client,
                               .scope = scope,
                               .is_key = strchr(scope, ':') == NULL,
                               .ttl_ms = 60000,
                               .txn_id = server->txn_id,
                               .when = HF_KEY_IF };
    OK(lease_order_new(env_real(), server->ids, &task, &order, &place->error));
    struct core_wanted wanted = {
        .resource = view_of(scope), .waits = waits, .until = { MOMENT_FAR }, .order = order
    };
    OK(core_acquire(server->calls.core, request, &wanted, env_now(env_real()), &place->error));
    calls_pump(&server->calls);
}

static struct core_result *use(struct server *server, uint64_t request, const char *scope,
                               enum lease_order_kind kind, const char *lease_id, uint64_t token)
{
    struct place *place = server->place;
    struct call_order *order;
    struct lease_task task = { .kind = kind,
                               .client = place->client,
                               .scope = scope,
                               .is_key = strchr(scope, ':') == NULL,
                               .lease_id = lease_id,
                               .token = token,
                               .txn_id = server->txn_id,
                               .data = "state",
                               .size = kind == LEASE_UPDATE ? 5 : 0,
                               .when = HF_KEY_IF };
    OK(lease_order_new(env_real(), server->ids, &task, &order, &place->error));
    struct core_work work = { .resource = kind == LEASE_RELEASE ? view_of(scope) : VIEW(""),
                              .order = order };
    OK(core_work(server->calls.core, request, &work, env_now(env_real()), &place->error));
    calls_pump(&server->calls);
    return await(server, request);
}

/* ---- Leases -------------------------------------------------------------------------- */

static void a_lease_is_acquired_kept_alive_used_and_released(void **state)
{
    struct place *place = *state;
    struct server server;
    open_server(&server, place);
    static const char *const scopes[] = { "k", "path:/a" };
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t first = 1 + 10 * i;
        acquire(&server, first, scopes[i], /* waits */ false);
        struct core_result grant = *await(&server, first);
        assert_int_equal(grant.status, HF_OK);
        assert_true(grant.keep && grant.token > 0 && grant.ttl_ms == 60000);
        assert_true(text_is_hex(view_of(grant.lease_id), CORE_LEASE_ID_SIZE));
        assert_true(mono_before(env_now(env_real()), grant.valid_until));
        struct core_result *kept =
            use(&server, first + 1, scopes[i], LEASE_KEEPALIVE, grant.lease_id, grant.token);
        assert_int_equal(kept->status, HF_OK);
        assert_true(mono_before(grant.valid_until, kept->valid_until));
        assert_int_equal(use(&server, first + 2, scopes[i], LEASE_KEEPALIVE, grant.lease_id,
                             1234567)
                             ->status,
                         HF_FENCED);
        if (i == 0) {
            struct core_result *changed =
                use(&server, first + 3, scopes[i], LEASE_UPDATE, grant.lease_id, 0);
            assert_int_equal(changed->status, HF_OK);
            assert_int_equal(changed->version, 1);
            changed = use(&server, first + 4, scopes[i], LEASE_REMOVE, grant.lease_id, 0);
            assert_int_equal(changed->version, 2);
        }
        acquire(&server, first + 5, scopes[i], /* waits */ false);
        assert_int_equal(await(&server, first + 5)->status, HF_HELD);
        assert_int_equal(
            use(&server, first + 6, scopes[i], LEASE_RELEASE, grant.lease_id, 0)->status,
            HF_OK);
        struct core_result *again =
            use(&server, first + 7, scopes[i], LEASE_RELEASE, grant.lease_id, 0);
        assert_int_equal(again->status, HF_LOST);
        assert_int_equal(again->outcome, HF_KEY_LEASE_EXPIRED);
    }
    close_server(&server);
}

static void a_release_reaches_a_parked_waiter_at_once(void **state)
{
    struct place *place = *state;
    struct server server;
    open_server(&server, place);
    acquire(&server, 1, "k", /* waits */ true);
    struct core_result grant = *await(&server, 1);
    acquire(&server, 2, "k", /* waits */ true);
    acquire(&server, 3, "k", /* waits */ true);
    for (int i = 0; i < 3; i++)
        turn(&server);
    assert_true(!server.answered[2] && !server.answered[3]);
    use(&server, 4, "k", LEASE_RELEASE, grant.lease_id, 0);
    assert_int_equal(await(&server, 2)->status, HF_OK);
    assert_true(server.results[2].token > grant.token && !server.answered[3]);
    close_server(&server); /* the third wait ends */
    assert_int_equal(server.results[3].status, HF_CANCELLED);
}

/* A client that leaves keeps neither its place nor a grant. */
static void a_hang_up_leaves_nothing(void **state)
{
    struct place *place = *state;
    struct server server;
    struct hf_lock *lock = place_lock(place, "k", 60000);
    open_server(&server, place);
    for (uint64_t request = 1; request <= 8; request++) {
        acquire(&server, request, "k", /* waits */ request % 2 == 0);
        core_hang_up(server.calls.core, request, env_now(env_real()));
        calls_pump(&server.calls);
        settle(&server);
        OK(hf_lock_acquire(lock, 0, &place->error));
        OK(hf_lock_release(lock, &place->error));
    }
    OK(hf_lock_acquire(lock, 0, &place->error));
    acquire(&server, 10, "k", /* waits */ true);
    for (int i = 0; i < 2; i++)
        turn(&server);
    core_hang_up(server.calls.core, 10, env_now(env_real()));
    calls_pump(&server.calls);
    settle(&server);
    OK(hf_lock_release(lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error)); /* nobody is in the queue */
    hf_lock_free(lock);
    close_server(&server);
}

/* ---- Transactions -------------------------------------------------------------------- */

static enum hf_status read_state(struct place *place, const char *key)
{
    void *data = NULL;
    size_t size;
    enum hf_status status =
        hf_key_get(place->client, key, 100, &data, &size, NULL, &place->error);
    hf_free(data);
    return status;
}

static void a_transaction_is_staged_by_one_server_and_decided_by_another(void **state)
{
    struct place *place = *state;
    struct server one, two;
    char txn_id[HF_TXN_ID_SIZE + 1];
    OK(hf_txn_open(place->client, txn_id, &place->error));
    open_server(&one, place);
    open_server(&two, place);
    one.txn_id = two.txn_id = txn_id;
    acquire(&one, 1, "a", /* waits */ false);
    acquire(&two, 1, "b", /* waits */ true);
    struct core_result a = *await(&one, 1), b = *await(&two, 1);
    assert_true(a.status == HF_OK && b.status == HF_OK);
    assert_int_equal(use(&two, 2, "a", LEASE_UPDATE, a.lease_id, 0)->status, HF_OK);
    assert_int_equal(use(&one, 2, "b", LEASE_UPDATE, b.lease_id, 0)->status, HF_OK);
    assert_int_equal(read_state(place, "a"), HF_NOT_FOUND);
    one.txn_id = NULL;
    struct core_result *alone = use(&one, 3, "a", LEASE_UPDATE, a.lease_id, 0);
    assert_int_equal(alone->outcome, HF_KEY_TXN_MISMATCH);
    close_server(&one); /* and nothing is lost with it */
    assert_int_equal(use(&two, 3, "a", LEASE_RELEASE, a.lease_id, 0)->status, HF_OK);
    OK(read_state(place, "a"));
    OK(read_state(place, "b"));
    acquire(&two, 4, "c", /* waits */ false);
    assert_int_equal(await(&two, 4)->status, HF_MISMATCH); /* it is decided */
    close_server(&two);
}

static void an_acquire_for_a_transaction_waits_in_line_and_leaves_nothing(void **state)
{
    struct place *place = *state;
    struct server server;
    char first[HF_TXN_ID_SIZE + 1], second[HF_TXN_ID_SIZE + 1];
    OK(hf_txn_open(place->client, first, &place->error));
    OK(hf_txn_open(place->client, second, &place->error));
    open_server(&server, place);
    acquire(&server, 1, "k", /* waits */ false);
    struct core_result holder = *await(&server, 1);
    server.txn_id = first;
    acquire(&server, 2, "k", /* waits */ true);
    server.txn_id = second;
    acquire(&server, 3, "k", /* waits */ true);
    for (int i = 0; i < 3; i++)
        turn(&server);
    assert_true(!server.answered[2] && !server.answered[3]);
    core_hang_up(server.calls.core, 2, env_now(env_real()));
    server.txn_id = NULL;
    use(&server, 4, "k", LEASE_RELEASE, holder.lease_id, 0);
    assert_int_equal(await(&server, 3)->status, HF_OK);
    assert_false(server.answered[2]);
    OK(hf_txn_decide(place->client, first, HF_ROLLBACK, NULL, &place->error));
    OK(hf_txn_decide(place->client, second, HF_ROLLBACK, NULL, &place->error));
    struct hf_lock *lock = place_lock(place, "k", 60000);
    OK(hf_lock_acquire(lock, 0, &place->error)); /* nobody is in the queue */
    hf_lock_free(lock);
    close_server(&server);
}

/* ---- Ids ----------------------------------------------------------------------------- */

static void another_server_finds_the_lease_of_an_id(void **state)
{
    struct place *place = *state;
    struct server one, two;
    open_server(&one, place);
    acquire(&one, 1, "k", /* waits */ false);
    struct core_result grant = *await(&one, 1);
    close_server(&one);
    open_server(&two, place); /* with the same secret, and an empty cache */
    char other[CORE_LEASE_ID_SIZE + 1];
    memcpy(other, grant.lease_id, sizeof other);
    other[0] = other[0] == 'a' ? 'b' : 'a';
    assert_int_equal(use(&two, 1, "k", LEASE_RELEASE, other, 0)->status, HF_LOST);
    assert_int_equal(use(&two, 2, "k", LEASE_KEEPALIVE, grant.lease_id, 0)->status, HF_OK);
    assert_int_equal(use(&two, 3, "k", LEASE_RELEASE, grant.lease_id, 0)->status, HF_OK);
    close_server(&two);
}

static void the_cache_is_bounded(void **state)
{
    struct place *place = *state;
    struct server server;
    char ids[6][CORE_LEASE_ID_SIZE + 1];
    open_server(&server, place);
    for (uint64_t i = 0; i < 6; i++) {
        char name[8];
        snprintf(name, sizeof name, "k%d", (int)i);
        acquire(&server, 1 + i, name, /* waits */ false);
        memcpy(ids[i], await(&server, 1 + i)->lease_id, sizeof ids[i]);
    }
    for (uint64_t i = 0; i < 6; i++) {
        char name[8];
        snprintf(name, sizeof name, "k%d", (int)i);
        assert_int_equal(use(&server, 10 + i, name, LEASE_RELEASE, ids[i], 0)->status, HF_OK);
    }
    close_server(&server);
}

/* Against a plain list: which leases are cached after many were added, forgotten and dropped. */
static void the_cache_has_the_latest_leases(void **state)
{
    enum { ADDED = 2000, KEPT = 700 };
    static const unsigned char secret[LEASE_SECRET_BYTES] = { 7 };
    static char ids[ADDED][CORE_LEASE_ID_SIZE + 1];
    static bool forgotten[ADDED];
    char lease[HF_LEASE_TEXT_MAX], number[24];
    (void)state;
    struct lease_ids *cache = lease_ids_new(env_real(), secret, KEPT);
    assert_non_null(cache);
    for (size_t i = 0; i < ADDED; i++) {
        snprintf(lease, sizeof lease, "%zu", i);
        lease_id_of(cache, "k", lease, ids[i]);
        lease_id_of(cache, "k", lease, ids[i]); /* once more: it is cached already */
        if (i % 3 != 0)
            continue;
        forgotten[i / 2] = true;
        lease_id_forget(cache, ids[i / 2]);
        lease_id_forget(cache, ids[i / 2]);
    }
    for (size_t i = 0; i < ADDED; i++) {
        bool kept = i >= ADDED - KEPT && !forgotten[i];
        enum hf_status status = kept ? HF_OK : HF_UNSUPPORTED;
        assert_int_equal(lease_id_find(cache, NULL, "k", ids[i], lease, NULL), status);
        snprintf(number, sizeof number, "%zu", i);
        assert_true(!kept || strcmp(lease, number) == 0);
        if (kept)
            assert_int_equal(lease_id_find(cache, NULL, "j", ids[i], lease, NULL),
                             HF_NOT_FOUND);
    }
    for (size_t i = 0; i < ADDED; i++)
        lease_id_forget(cache, ids[i]);
    for (size_t i = 0; i < ADDED; i++)
        assert_int_equal(lease_id_find(cache, NULL, "k", ids[i], lease, NULL), HF_UNSUPPORTED);
    lease_ids_free(cache);
}

static void the_secret_of_a_bucket_is_created_once(void **state)
{
    struct place *place = *state;
    struct hf_store *store = hf_client_store(place->client);
    struct hf_store_put_options force = HF_STORE_PUT_OPTIONS;
    unsigned char one[LEASE_SECRET_BYTES], two[LEASE_SECRET_BYTES];
    force.force = true;
    OK(lease_secret_load(env_real(), store, one, &place->error));
    OK(lease_secret_load(env_real(), store, two, &place->error));
    assert_memory_equal(one, two, sizeof one);
    static const struct {
        const char *text;
        enum hf_status status;
    } rows[] = {
        { "{ \"format\": \"holdfast.serve/2\" }", HF_UNSUPPORTED },
        { "{ \"format\": \"holdfast.serve/1\" }", HF_CORRUPT },
        { "{ \"format\": \"holdfast.serve/1\", \"secret\": \"00\" }", HF_CORRUPT },
        { "no JSON", HF_CORRUPT },
        { "{ \"later\": [1], \"secret\": "
          "\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\", "
          "\"format\": \"holdfast.serve/1\" }",
          HF_OK },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(hf_store_put(store, LEASE_SECRET_KEY, rows[i].text, strlen(rows[i].text), &force,
                        NULL, &place->error));
        IS(rows[i].status, lease_secret_load(env_real(), store, one, &place->error));
    }
    assert_true(one[0] == 0 && one[31] == 0x1f);
}

static void orders_with_wrong_arguments_are_refused(void **state)
{
    struct place *place = *state;
    struct call_order *order;
    struct lease_task task = { .kind = LEASE_RELEASE,
                               .client = place->client,
                               .scope = "k",
                               .lease_id = "short",
                               .when = HF_KEY_IF };
    IS(HF_INVALID, lease_order_new(env_real(), NULL, &task, &order, &place->error));
    task.lease_id = "0123456789abcdef0123456789abcdef";
    task.when.etag = "0123456789abcdef0123456789abcdef0";
    IS(HF_INVALID, lease_order_new(env_real(), NULL, &task, &order, &place->error));
}

/* ---- The pool ------------------------------------------------------------------------ */

struct counted_job {
    struct pool_job job;
    int runs;
};

static void count_run(struct pool_job *job)
{
    ((struct counted_job *)(void *)job)->runs++;
}

static void ignore(void *argument)
{
    (void)argument;
}

static void a_pool_runs_every_job_once_and_refuses_too_many(void **state)
{
    struct place *place = *state;
    struct counted_job jobs[8] = { 0 };
    struct pool *pool;
    struct pool_options options = { .workers = 3, .jobs_max = 6, .notify = ignore };
    OK(pool_new(env_real(), &options, &pool, &place->error));
    size_t taken = 0;
    for (int i = 0; i < 8; i++) {
        jobs[i].job.run = count_run;
        assert_int_equal(pool_submit(pool, &jobs[i].job), i < 6);
    }
    while (taken < 6)
        taken += pool_take_ended(pool) != NULL;
    assert_true(pool_submit(pool, &jobs[6].job));
    pool_free(pool);
    for (int i = 0; i < 8; i++)
        assert_int_equal(jobs[i].runs, i < 7);
    pool_free(NULL);
}

/* A loop that only counts its turns; its jobs block until the loop has gone on without them. */
struct counted_loop {
    struct env_mutex mutex;
    struct env_cond changed;
    struct counted_loop_job {
        struct pool_job job;
        struct counted_loop *loop;
        bool blocks;
        bool was_collected, was_notified;
    } jobs[4];
    unsigned turns, next, ended;
};

static void block_until_next_turn(struct pool_job *job)
{
    const struct counted_loop_job *it = (struct counted_loop_job *)(void *)job;
    struct counted_loop *loop = it->loop;
    env_mutex_lock(&loop->mutex);
    unsigned now = loop->turns;
    while (it->blocks && loop->turns == now)
        env_cond_wait(&loop->changed, &loop->mutex);
    env_mutex_unlock(&loop->mutex);
}

static bool turn_loop(void *argument)
{
    struct counted_loop *loop = argument;
    env_mutex_lock(&loop->mutex);
    loop->turns++;
    env_cond_broadcast(&loop->changed);
    bool goes_on = loop->ended < 4;
    env_mutex_unlock(&loop->mutex);
    return goes_on;
}

static struct pool_job *take_blocking(void *argument)
{
    struct counted_loop *loop = argument;
    return loop->next < 4 ? &loop->jobs[loop->next++].job : NULL;
}

static void end_loop_job(struct counted_loop *loop, bool *ret_ended)
{
    env_mutex_lock(&loop->mutex);
    assert_false(*ret_ended);
    *ret_ended = true;
    loop->ended++;
    env_mutex_unlock(&loop->mutex);
}

static void note_collected(void *argument, struct pool_job *job)
{
    end_loop_job(argument, &((struct counted_loop_job *)(void *)job)->was_collected);
}

static void note_notified(void *argument, struct pool_job *job)
{
    end_loop_job(argument, &((struct counted_loop_job *)(void *)job)->was_notified);
}

static void a_loop_goes_on_while_a_job_of_its_thread_blocks(void **state)
{
    struct place *place = *state;
    struct env *env = env_real();
    struct counted_loop loop = { .turns = 0 };
    const struct stand_in_options options = { env,           turn_loop,
                                              take_blocking, note_collected,
                                              note_notified, &loop };
    env_mutex_init(env, &loop.mutex);
    env_cond_init(env, &loop.changed);
    for (unsigned i = 0; i < 4; i++)
        loop.jobs[i] = (struct counted_loop_job){ .job = { .run = block_until_next_turn },
                                                  .loop = &loop,
                                                  .blocks = i % 2 == 1 };
    OK(stand_in_run(&options, &place->error));
    for (unsigned i = 0; i < 4; i++) {
        const struct counted_loop_job *it = &loop.jobs[i];
        assert_true(it->was_collected != it->was_notified);
        assert_true(!it->blocks || it->was_notified);
    }
    env_cond_release(&loop.changed);
    env_mutex_release(&loop.mutex);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_acquired_kept_alive_used_and_released),
        cmocka_unit_test(a_release_reaches_a_parked_waiter_at_once),
        cmocka_unit_test(a_hang_up_leaves_nothing),
        cmocka_unit_test(a_transaction_is_staged_by_one_server_and_decided_by_another),
        cmocka_unit_test(an_acquire_for_a_transaction_waits_in_line_and_leaves_nothing),
        cmocka_unit_test(another_server_finds_the_lease_of_an_id),
        cmocka_unit_test(the_cache_is_bounded),
        cmocka_unit_test(the_cache_has_the_latest_leases),
        cmocka_unit_test(the_secret_of_a_bucket_is_created_once),
        cmocka_unit_test(orders_with_wrong_arguments_are_refused),
        cmocka_unit_test(a_pool_runs_every_job_once_and_refuses_too_many),
        cmocka_unit_test(a_loop_goes_on_while_a_job_of_its_thread_blocks),
    };
    return place_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
