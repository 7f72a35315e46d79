/* SPDX-License-Identifier: Apache-2.0 */
/* serve_checker.c: checks what servers tell their clients, by the answers, by what clients rely on,
 * and by the writes that the store applied. It knows the format of a table, and nothing of the
 * core. A run fails if:
 *
 *   - two clients rely on leases of one key at the same time;
 *   - a token is given twice, or is lower than one that was answered before its request arrived;
 *   - a lease ends while its client relies on it, and the client has not released it;
 *   - a grant is answered that is not in the store, or with more time than its write allows;
 *   - a keepalive is acknowledged, and the lease was not renewed since it arrived;
 *   - a request that came later is granted while one that came before it waits at the same server;
 *   - the same server gives a retry another lease, or another version, than the request had;
 *   - a retry is refused, and the same server answered the request with OK shortly before;
 *   - a lease is answered to two different requests;
 *   - a server that is stopping grants a lease;
 *   - more calls are under way, or more results are kept, than the limits say.
 *
 * And when nothing of the faults is left:
 *
 *   - a lease or a place in the queue is left of a request whose client has long hung up;
 *   - a wait lasts longer than its limit;
 *   - clients have long waited at a server that has no place in the queue;
 *   - a wait in vain is answered, or withdrawn, and its place in the queue is still there;
 *   - a request that withdraws a wait is itself kept waiting;
 *   - with one server, a release does not reach the next waiter within a second;
 *   - a request is never answered. */
#include "base/check.h"
#include "sim/checkers/table_checker.h"
#include "sim/workloads/serve_work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEASES_MAX    8192
#define INSTANCES_MAX 8192

#define KEPT_SURELY 4 /* results that a server has not forgotten, whatever else it keeps */
#define LOOK_EVERY  SPAN_S(1)
#define GONE_MAX    SPAN_S(6)
#define LIMIT_SLACK SPAN_S(5)
#define PLACE_MAX   SPAN_S(4)
#define WAKE_MAX    SPAN_MS(800)
#define LEAVE_MAX   SPAN_MS(800) /* a server may wait this long until a place is given up */

/* A lease that was seen in the store. */
struct stored_lease {
    size_t key;
    uint64_t token;
    uint64_t exchange; /* from its note */
    int64_t since_us, renewed_us;
    uint64_t renewals, ttl_ms;
    bool active;
};

/* A result that was answered. */
struct told_result {
    const struct exchange *first; /* the request that got it first */
    uint64_t kept;                /* how many its server had kept before */
};

struct serve_checker {
    struct serve_work *work;
    struct bucket_watch watch;
    struct timer look;
    struct stored_lease *leases;
    size_t lease_count;
    struct told_result *told;
    size_t told_count;
    uint64_t *kept;                 /* results, by instance */
    int64_t changed_us[SERVE_KEYS]; /* when the table was last written */
};

static struct world *world_of(const struct serve_checker *checker)
{
    return checker->work->run->world;
}

/* ---- The store ----------------------------------------------------------------------- */

static const char *const documents[SERVE_KEYS] = {
    "default/meta/a.json",   "default/meta/b.json",     "default/meta/jar.json",
    "default/meta/jug.json", "default/meta/purse.json", "default/meta/till.json"
};

static uint64_t exchange_in(struct view note)
{
    static const char name[] = "\"exchange\":";
    uint64_t number = 0;
    for (size_t i = 0; i + sizeof name <= note.size; i++) {
        if (memcmp(note.data + i, name, sizeof name - 1) != 0)
            continue;
        for (i += sizeof name - 1; i < note.size; i++) {
            if (note.data[i] == ' ')
                continue;
            if (note.data[i] < '0' || note.data[i] > '9')
                break;
            number = number * 10 + (uint64_t)(note.data[i] - '0');
        }
    }
    return number;
}

static struct stored_lease *find_stored(struct serve_checker *checker, size_t key,
                                        uint64_t token)
{
    for (size_t i = checker->lease_count; i > 0; i--)
        if (checker->leases[i - 1].key == key && checker->leases[i - 1].token == token)
            return &checker->leases[i - 1];
    return NULL;
}

static void see_lease(struct serve_checker *checker, size_t key,
                      const struct checked_entry *entry)
{
    int64_t now = serve_now(checker->work);
    struct stored_lease *lease = find_stored(checker, key, entry->token);
    if (!lease) {
        check(checker->lease_count < LEASES_MAX);
        lease = &checker->leases[checker->lease_count++];
        *lease = (struct stored_lease){ .key = key,
                                        .token = entry->token,
                                        .exchange = exchange_in(entry->note),
                                        .ttl_ms = entry->ttl_ms,
                                        .renewals = entry->renewals,
                                        .since_us = now,
                                        .renewed_us = now };
    }
    if (entry->renewals != lease->renewals)
        lease->renewed_us = now;
    lease->renewals = entry->renewals;
    lease->active = true;
}

static void table_changed(void *argument, const struct bucket_change *change)
{
    struct serve_checker *checker = argument;
    serve_txn_record_changed(checker->work, change);
    for (size_t key = 0; key < SERVE_KEYS; key++) {
        if (!view_equal(change->key, view_of(documents[key])) || !change->body.data)
            continue;
        struct checked_version *version = checked_version_read(change->body, NULL);
        checker->changed_us[key] = serve_now(checker->work);
        if (!version)
            continue;
        for (size_t i = 0; i < checker->lease_count; i++)
            if (checker->leases[i].key == key)
                checker->leases[i].active = false;
        for (size_t i = 0; i < version->lease_count; i++)
            if (version->leases[i].active)
                see_lease(checker, key, &version->leases[i]);
        checked_version_free(version);
    }
}

/* ---- Answers ------------------------------------------------------------------------- */

static bool is_same_request(const struct exchange *a, const struct exchange *b)
{
    return a == b || (a->id > 0 && a->id == b->id && a->content == b->content &&
                      a->kind == b->kind && a->instance == b->instance);
}

static bool is_granted(const struct exchange *exchange)
{
    return exchange->kind == EXCHANGE_ACQUIRE && exchange->result.status == HF_OK;
}

/* When the request, or the first one that it may have joined, arrived. */
static uint64_t first_place(const struct serve_checker *checker,
                            const struct exchange *exchange)
{
    uint64_t place = exchange->place;
    for (size_t i = 0; i < checker->work->exchange_count; i++) {
        const struct exchange *other = &checker->work->exchanges[i];
        if (other->place > 0 && other->place < place && is_same_request(other, exchange))
            place = other->place;
    }
    return place;
}

static int64_t first_arrival(const struct serve_checker *checker,
                             const struct exchange *exchange)
{
    int64_t at = exchange->arrived_us;
    for (size_t i = 0; i < checker->work->exchange_count; i++) {
        const struct exchange *other = &checker->work->exchanges[i];
        if (other->place > 0 && other->arrived_us < at && is_same_request(other, exchange))
            at = other->arrived_us;
    }
    return at;
}

/* Whether a retry that does not wait has arrived after the request. */
static bool is_withdrawn(const struct serve_checker *checker, const struct exchange *exchange)
{
    for (size_t i = 0; i < checker->work->exchange_count; i++) {
        const struct exchange *other = &checker->work->exchanges[i];
        if (!other->waits && other->place > exchange->place && is_same_request(other, exchange))
            return true;
    }
    return false;
}

/* Whether the request waits at its server. After its limit it only waits for its answer; the
 * server's clock may be a little fast. */
static bool is_waiting(const struct serve_checker *checker, const struct exchange *exchange)
{
    int64_t waited = serve_now(checker->work) - exchange->arrived_us;
    bool over =
        exchange->limit_us > 0 && waited >= exchange->limit_us - exchange->limit_us / 1000;
    return exchange->kind == EXCHANGE_ACQUIRE && exchange->state == EXCHANGE_OPEN &&
           exchange->waits && !over && !is_withdrawn(checker, exchange);
}

/* A lease that is answered for the first time. */
static void check_new_grant(struct serve_checker *checker, const struct exchange *exchange)
{
    const struct core_result *result = &exchange->result;
    int64_t arrived = first_arrival(checker, exchange);
    for (size_t i = 0; i < checker->told_count; i++) {
        const struct exchange *other = checker->told[i].first;
        if (!is_granted(other) || other->key != exchange->key)
            continue;
        if (other->result.token == result->token)
            world_fail(world_of(checker),
                       "requests %" PRIu64 " and %" PRIu64 " were granted with token %" PRIu64,
                       other->number, exchange->number, result->token);
        if (other->answered_us < arrived && other->result.token > result->token)
            world_fail(world_of(checker),
                       "request %" PRIu64 " was granted a lower token than request %" PRIu64
                       " before it",
                       exchange->number, other->number);
    }
    if (checker->work->nodes[exchange->node].stopping)
        world_fail(world_of(checker), "n%u granted request %" PRIu64 " while it was stopping",
                   exchange->node, exchange->number);
    uint64_t place = first_place(checker, exchange);
    for (size_t i = 0; i < checker->work->exchange_count; i++) {
        const struct exchange *other = &checker->work->exchanges[i];
        if (is_waiting(checker, other) && other->instance == exchange->instance &&
            other->key == exchange->key && other->place < place &&
            !is_same_request(other, exchange))
            world_fail(world_of(checker),
                       "request %" PRIu64 " was granted before request %" PRIu64
                       ", which came first",
                       exchange->number, other->number);
    }
}

/* What the store has must allow the time that the client is told. */
static void check_time_left(struct serve_checker *checker, const struct exchange *exchange)
{
    const struct core_result *result = &exchange->result;
    const struct stored_lease *lease = find_stored(checker, exchange->key, result->token);
    if (!lease) {
        world_fail(world_of(checker),
                   "request %" PRIu64 " was told of token %" PRIu64
                   ", which is not in the store",
                   exchange->number, result->token);
        return;
    }
    bool renews = exchange->kind == EXCHANGE_KEEPALIVE;
    if (renews && lease->renewed_us < exchange->arrived_us)
        world_fail(world_of(checker), "keepalive %" PRIu64 " was acknowledged without a write",
                   exchange->number);
    int64_t from = renews ? lease->renewed_us : lease->since_us;
    int64_t ttl = (int64_t)lease->ttl_ms * 1000;
    int64_t until = exchange->answered_us + exchange->left_us;
    if (exchange->left_us > 0 && until > from + ttl + ttl / 1000 + 1000)
        world_fail(world_of(checker),
                   "request %" PRIu64 " was told %" PRId64 " us more than its lease lasts",
                   exchange->number, until - from - ttl);
}

static bool same_result(const struct exchange *a, const struct exchange *b)
{
    if (a->kind == EXCHANGE_ACQUIRE)
        return strcmp(a->result.lease_id, b->result.lease_id) == 0;
    return a->result.version == b->result.version;
}

/* Results with an effect: a retry must get the same one, and nobody else may. */
static void check_told(struct serve_checker *checker, const struct exchange *exchange)
{
    uint64_t *kept = &checker->kept[exchange->instance];
    for (size_t i = 0; i < checker->told_count; i++) {
        const struct told_result *told = &checker->told[i];
        const struct exchange *first = told->first;
        bool same = same_result(first, exchange);
        if (first->kind != exchange->kind)
            continue;
        if (is_same_request(first, exchange) && same)
            return;
        if (is_same_request(first, exchange) && *kept - told->kept < KEPT_SURELY)
            world_fail(world_of(checker),
                       "request %" PRIu64 " is a retry of request %" PRIu64
                       ", and has another result",
                       exchange->number, first->number);
        if (exchange->kind == EXCHANGE_ACQUIRE && same)
            world_fail(world_of(checker),
                       "request %" PRIu64 " got the lease of request %" PRIu64,
                       exchange->number, first->number);
    }
    if (exchange->kind == EXCHANGE_ACQUIRE)
        check_new_grant(checker, exchange);
    check(checker->told_count < LEASES_MAX);
    checker->told[checker->told_count++] = (struct told_result){ exchange, *kept };
    *kept += exchange->id > 0;
}

/* A refusal, of which the server must know better. */
static void check_refusal(struct serve_checker *checker, const struct exchange *exchange)
{
    bool stopping = exchange->result.status == HF_CANCELLED;
    for (size_t i = 0; i < checker->told_count && !stopping; i++) {
        const struct told_result *told = &checker->told[i];
        if (told->first->kind == exchange->kind && is_same_request(told->first, exchange) &&
            checker->kept[exchange->instance] - told->kept < KEPT_SURELY)
            world_fail(world_of(checker),
                       "request %" PRIu64 " is a retry of request %" PRIu64
                       ", which was answered OK, and is refused: %s",
                       exchange->number, told->first->number,
                       hf_status_name(exchange->result.status));
    }
}

/* Whether the lock was granted again before the release was answered: the release has then already
 * reached the next waiter. */
static bool is_granted_since(const struct exchange *other, const struct exchange *release)
{
    return other->kind == EXCHANGE_ACQUIRE && other->state == EXCHANGE_ANSWERED &&
           other->key == release->key && other->result.status == HF_OK &&
           other->answered_us >= release->arrived_us;
}

/* With one server, a release reaches the next waiter soon. If several wait, the checker does not
 * know which of them is the next: a retry may have joined an earlier request. */
static void note_release(struct serve_checker *checker, const struct exchange *release)
{
    struct serve_work *work = checker->work;
    struct exchange *next = NULL;
    if (work->plan.nodes > 1 || !serve_is_calm(work))
        return;
    for (size_t i = 0; i < work->exchange_count; i++) {
        struct exchange *other = &work->exchanges[i];
        if (other != release && is_same_request(other, release))
            return; /* a retry gets an earlier result */
        if (is_granted_since(other, release))
            return;
        if (other->kind != EXCHANGE_ACQUIRE || other->state != EXCHANGE_OPEN || !other->waits ||
            other->key != release->key || is_withdrawn(checker, other))
            continue;
        if (next)
            return;
        next = other;
    }
    if (next && next->wake_due == 0)
        next->wake_due = serve_now(work) + WAKE_MAX.us;
}

/* The release has reached somebody, who need not be the waiter: a request that does not wait may
 * have come before it. */
static void note_grant(struct serve_checker *checker, const struct exchange *grant)
{
    for (size_t i = 0; i < checker->work->exchange_count; i++)
        if (checker->work->exchanges[i].key == grant->key)
            checker->work->exchanges[i].wake_due = 0;
}

/* A wait was withdrawn by this request, which does not wait. The place in the queue is gone, unless
 * the store was slow, or a later request waits again. */
static void check_withdrawal(struct serve_checker *checker, const struct exchange *exchange)
{
    struct serve_work *work = checker->work;
    int64_t took = serve_now(work) - exchange->arrived_us;
    if (serve_is_calm(work) && took > LIMIT_SLACK.us)
        world_fail(world_of(checker), "request %" PRIu64 " does not wait, and was kept waiting",
                   exchange->number);
    if (!serve_is_calm(work) || took > LEAVE_MAX.us)
        return;
    for (size_t i = 0; i < work->exchange_count; i++) {
        const struct exchange *other = &work->exchanges[i];
        if (other->place > exchange->place && is_same_request(other, exchange))
            return;
    }
    struct view body =
        bucket_peek(net_bucket(work->run->net), view_of(documents[exchange->key]));
    struct checked_version *version = body.data ? checked_version_read(body, NULL) : NULL;
    for (size_t i = 0; version && i < version->waiter_count; i++) {
        uint64_t number = exchange_in(version->waiters[i].note);
        /* The place of a request that has hung up itself is given up a little later. */
        if (number > 0 && number <= work->exchange_count &&
            !work->exchanges[number - 1].hung_up &&
            is_same_request(&work->exchanges[number - 1], exchange))
            world_fail(world_of(checker),
                       "request %" PRIu64 " has withdrawn a wait that is still in the queue",
                       exchange->number);
    }
    checked_version_free(version);
}

/* A wait in vain. Its place in the queue is gone, unless the store was slow, or a request with the
 * same id still waits. */
static void check_left_the_queue(struct serve_checker *checker, const struct exchange *exchange)
{
    struct serve_work *work = checker->work;
    int64_t late = serve_now(work) - exchange->arrived_us - exchange->limit_us;
    if (!serve_is_calm(work) || late > LEAVE_MAX.us)
        return;
    for (size_t i = 0; i < work->exchange_count; i++) {
        const struct exchange *other = &work->exchanges[i];
        if (other != exchange && is_same_request(other, exchange))
            return;
    }
    struct view body =
        bucket_peek(net_bucket(work->run->net), view_of(documents[exchange->key]));
    struct checked_version *version = body.data ? checked_version_read(body, NULL) : NULL;
    for (size_t i = 0; version && i < version->waiter_count; i++)
        if (exchange_in(version->waiters[i].note) == exchange->number)
            world_fail(world_of(checker),
                       "request %" PRIu64 " has waited in vain, and is still in the queue",
                       exchange->number);
    checked_version_free(version);
}

void serve_checker_answers(struct serve_checker *checker, const struct exchange *exchange)
{
    bool ok = exchange->result.status == HF_OK;
    check(exchange->instance < INSTANCES_MAX);
    serve_txn_answers(checker->work, exchange);
    if (exchange->wake_due > 0 && serve_now(checker->work) > exchange->wake_due)
        world_fail(world_of(checker),
                   "request %" PRIu64 " was answered long after its lock was released",
                   exchange->number);
    if (ok && exchange->kind == EXCHANGE_ACQUIRE)
        note_grant(checker, exchange);
    if (ok && exchange->kind == EXCHANGE_RELEASE)
        note_release(checker, exchange);
    if (exchange->result.status == HF_TIMEOUT && exchange->waits)
        check_left_the_queue(checker, exchange);
    else if (exchange->result.status == HF_TIMEOUT)
        check_withdrawal(checker, exchange);
    bool changes = exchange->kind == EXCHANGE_ACQUIRE || exchange->kind == EXCHANGE_UPDATE;
    if (ok && changes)
        check_told(checker, exchange);
    else if (changes)
        check_refusal(checker, exchange);
    if (ok && exchange->kind <= EXCHANGE_KEEPALIVE)
        check_time_left(checker, exchange);
}

/* ---- Clients ------------------------------------------------------------------------- */

static bool relies(const struct serve_client *client, int64_t now)
{
    return client->state == CLIENT_HOLDING && !client->ending && now < client->until_us;
}

void serve_checker_relies(struct serve_checker *checker, const struct serve_client *client)
{
    int64_t now = serve_now(checker->work);
    if (!relies(client, now))
        return;
    for (unsigned i = 0; i < checker->work->plan.clients; i++) {
        const struct serve_client *other = &checker->work->clients[i];
        if (other != client && other->key == client->key && relies(other, now))
            world_fail(world_of(checker), "clients %u and %u both rely on key %zu",
                       other->number, client->number, client->key);
    }
}

void serve_checker_told(struct serve_checker *checker, const struct exchange *exchange)
{
    const struct serve_client *client = exchange->client;
    enum hf_status status = exchange->result.status;
    bool lost = status == HF_LOST || status == HF_EXPIRED || status == HF_FENCED;
    bool uses = exchange->kind == EXCHANGE_KEEPALIVE || exchange->kind == EXCHANGE_UPDATE;
    if (uses && lost && relies(client, serve_now(checker->work)))
        world_fail(world_of(checker),
                   "request %" PRIu64 " was told that the lease of client %u is over, which it "
                   "was not",
                   exchange->number, client->number);
}

void serve_checker_counts(struct serve_checker *checker, const struct core_counts *counts)
{
    if (counts->calls > SERVE_CALLS_MAX)
        world_fail(world_of(checker), "%zu calls are under way", counts->calls);
    if (counts->remembered > SERVE_KEPT_MAX)
        world_fail(world_of(checker), "%zu results are kept", counts->remembered);
}

/* ---- Without faults ------------------------------------------------------------------ */

/* Since when no client wants what the request asked for; INT64_MAX: one does, or has got it, or the
 * server has ended. */
static int64_t unwanted_since(const struct serve_checker *checker, uint64_t number)
{
    const struct serve_work *work = checker->work;
    if (number == 0 || number > work->exchange_count)
        return INT64_MAX;
    const struct exchange *asked = &work->exchanges[number - 1];
    if (work->nodes[asked->node].instance != asked->instance)
        return INT64_MAX;
    /* The keys of tellers are used less often: what was left during the faults may be there still,
     * although it expired long ago. */
    if (asked->key >= SERVE_LEASE_KEYS && asked->sent_us < work->run->calm_us + SERVE_SETTLE_US)
        return INT64_MAX;
    int64_t since = 0;
    for (size_t i = 0; i < work->exchange_count; i++) {
        const struct exchange *other = &work->exchanges[i];
        if (!is_same_request(other, asked))
            continue;
        bool answered = other->state == EXCHANGE_ANSWERED || other->answered_us > 0;
        if ((!answered && other->state != EXCHANGE_BROKEN) ||
            (answered && other->result.status == HF_OK))
            return INT64_MAX;
        int64_t gone = answered ? other->answered_us : other->broken_us;
        since = gone > since ? gone : since;
    }
    return since;
}

/* Whether a request of this server has a place in the queue. */
static bool has_place(const struct serve_checker *checker,
                      const struct checked_version *version, uint64_t instance)
{
    for (size_t i = 0; i < version->waiter_count; i++) {
        uint64_t number = exchange_in(version->waiters[i].note);
        if (number > 0 && number <= checker->work->exchange_count &&
            checker->work->exchanges[number - 1].instance == instance)
            return true;
    }
    return false;
}

/* A server whose clients wait has a place in the queue, but for a moment after the table
 * has changed: the one before has left, and the next one asks. */
static void check_places(const struct serve_checker *checker, size_t key,
                         const struct checked_version *version)
{
    const struct serve_work *work = checker->work;
    int64_t now = serve_now(work), changed = checker->changed_us[key];
    bool used = changed >= work->run->calm_us + SERVE_SETTLE_US; /* it needs no repair */
    /* A waiter for a transaction has no place, and those behind it have none either. */
    if (!used || key >= SERVE_LEASE_KEYS || now - changed < PLACE_MAX.us)
        return;
    for (size_t i = 0; i < work->exchange_count; i++) {
        const struct exchange *exchange = &work->exchanges[i];
        if (exchange->key != key || exchange->kind != EXCHANGE_ACQUIRE ||
            work->nodes[exchange->node].instance != exchange->instance ||
            work->nodes[exchange->node].stopping || !is_waiting(checker, exchange) ||
            now - exchange->arrived_us < PLACE_MAX.us)
            continue;
        if (!has_place(checker, version, exchange->instance))
            world_fail(world_of(checker),
                       "request %" PRIu64 " waits, and its server has no place in the queue",
                       exchange->number);
    }
}

static void look_at_tables(struct serve_checker *checker)
{
    int64_t now = serve_now(checker->work);
    for (size_t key = 0; key < SERVE_KEYS; key++) {
        struct view body =
            bucket_peek(net_bucket(checker->work->run->net), view_of(documents[key]));
        struct checked_version *version = body.data ? checked_version_read(body, NULL) : NULL;
        for (size_t i = 0; version && i < version->lease_count; i++) {
            const struct checked_entry *entry = &version->leases[i];
            const struct stored_lease *lease = find_stored(checker, key, entry->token);
            int64_t since = unwanted_since(checker, exchange_in(entry->note));
            if (entry->active && lease && since < INT64_MAX && now - since > GONE_MAX.us &&
                now - lease->since_us > GONE_MAX.us)
                world_fail(world_of(checker),
                           "the lease of request %" PRIu64 " is kept, whose client has left",
                           lease->exchange);
        }
        for (size_t i = 0; version && i < version->waiter_count; i++) {
            uint64_t number = exchange_in(version->waiters[i].note);
            int64_t since = unwanted_since(checker, number);
            if (since < INT64_MAX && now - since > GONE_MAX.us)
                world_fail(world_of(checker),
                           "request %" PRIu64 " is in the queue, and its client has left",
                           number);
        }
        if (version)
            check_places(checker, key, version);
        checked_version_free(version);
    }
}

static void look(void *argument)
{
    struct serve_checker *checker = argument;
    struct serve_work *work = checker->work;
    int64_t now = serve_now(work);
    for (size_t i = 0; i < work->exchange_count; i++) {
        const struct exchange *exchange = &work->exchanges[i];
        bool open = exchange->state == EXCHANGE_OPEN && exchange->waits;
        if (open && exchange->limit_us > 0 &&
            now > exchange->arrived_us + exchange->limit_us + LIMIT_SLACK.us)
            world_fail(world_of(checker), "request %" PRIu64 " waits longer than its limit",
                       exchange->number);
    }
    look_at_tables(checker);
    serve_txn_look(work);
    if (work->ended < work->plan.clients)
        world_set_timer(work->run->world, &checker->look, now + LOOK_EVERY.us, look, checker);
}

struct serve_checker *serve_checker_new(struct serve_work *work)
{
    struct serve_checker *checker = calloc(1, sizeof *checker);
    check(checker);
    checker->work = work;
    checker->leases = calloc(LEASES_MAX, sizeof *checker->leases);
    checker->told = calloc(LEASES_MAX, sizeof *checker->told);
    checker->kept = calloc(INSTANCES_MAX, sizeof *checker->kept);
    check(checker->leases && checker->told && checker->kept);
    checker->watch = (struct bucket_watch){ .changed = table_changed, .argument = checker };
    bucket_add_watch(net_bucket(work->run->net), &checker->watch);
    world_set_timer(work->run->world, &checker->look, work->run->calm_us + SERVE_SETTLE.us,
                    look, checker);
    return checker;
}

void serve_checker_free(struct serve_checker *checker)
{
    world_cancel_timer(checker->work->run->world, &checker->look);
    free(checker->leases);
    free(checker->told);
    free(checker->kept);
    free(checker);
}

void serve_checker_end(struct serve_checker *checker)
{
    const struct serve_work *work = checker->work;
    if (work->ended != work->plan.clients)
        world_fail(world_of(checker), "%u of %u clients have ended", work->ended,
                   work->plan.clients);
    for (size_t i = 0; i < work->exchange_count; i++)
        if (work->exchanges[i].state == EXCHANGE_OPEN)
            world_fail(world_of(checker), "request %" PRIu64 " was never answered",
                       work->exchanges[i].number);
}
