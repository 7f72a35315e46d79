/* SPDX-License-Identifier: Apache-2.0 */
/* scale_work.c: what a worker of the fleet does, until it dies or the run ends: it merges, uses
 * locks, or is a candidate for leadership. Leases, locks, rosters and the ladder are those of the
 * library. Of a merge, only the requests are simulated: the sources are read, the output is put,
 * and a document that stands for the catalog is swapped. */
#include "base/check.h"
#include "base/layout.h"
#include "elect/ladder.h"
#include "elect/roster.h"
#include "lock/handle.h"
#include "sim/workloads/scale.h"
#include "sim/workloads/tally.h"
#include "store/bucket.h"
#include "sweep/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LADDER_STEP     SPAN_S(1)
#define CANDIDATES_MAX  32
#define PATIENCE        SPAN_S(30)
#define DOWN_MAX        SPAN_S(20)   /* between the death of a worker and its next life */
#define MERGER_LIFE     SPAN_S(7200) /* on average */
#define LEADER_LIFE     SPAN_S(600)
#define LOCK_EVERY      SPAN_S(20)
#define LOCK_HELD       SPAN_S(1)
#define LOCK_WAIT_MS    30000
#define LEAD_WAIT_MS    60000
#define SWEEP_EVERY     SPAN_S(300)
#define OPEN_PER_WORKER 4 /* groups beyond which a partition lists no more */

enum scale_role scale_role_of(const struct scale_options *options, size_t worker)
{
    size_t of_hundred = worker % 100;
    if (options->mergers_only)
        return SCALE_MERGES;
    if (of_hundred >= 1 && of_hundred <= 3)
        return SCALE_LEADS;
    return of_hundred % 10 == 0 ? SCALE_LOCKS : SCALE_MERGES;
}

/* ---- Groups -------------------------------------------------------------------------- */

void scale_supply(struct scale *scale, struct scale_partition *partition)
{
    int64_t now_us = world_now_us(scale->run->world);
    int64_t every_us = (int64_t)scale->options.claim_every_s * 1000000;
    size_t open_max = OPEN_PER_WORKER * partition->workers + 4;
    uint64_t due = (uint64_t)now_us * partition->workers / (uint64_t)every_us;
    while (partition->supplied < due) {
        uint64_t number = ++partition->supplied;
        scale->figures.supplied += scale_counts(scale);
        if (partition->open >= open_max) {
            scale->figures.dropped += scale_counts(scale);
            continue;
        }
        struct heap *before = heap_enter(NULL);
        struct scale_group *group = calloc(1, sizeof *group);
        heap_enter(before);
        check(group);
        group->number = number;
        group->due_us = (int64_t)(number * (uint64_t)every_us / partition->workers);
        group->previous = partition->last;
        if (partition->last)
            partition->last->next = group;
        else
            partition->first = group;
        partition->last = group;
        partition->open++;
    }
}

struct scale_group *scale_group_of(const struct scale_partition *partition, uint64_t number)
{
    struct scale_group *group = partition->first;
    while (group && group->number != number)
        group = group->next;
    return group;
}

/* ---- A worker ------------------------------------------------------------------------ */

struct worker {
    const struct one_client *self;
    struct scale *scale;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    int64_t dies_us;
    char partition_name[24];
    struct scale_partition *partition;
    struct roster roster;
    struct tally_client catalog;
};

static bool lives(const struct worker *worker)
{
    int64_t now_us = world_now_us(worker->scale->run->world);
    return now_us < worker->scale->ends_us && now_us < worker->dies_us;
}

static bool dies(const struct worker *worker)
{
    return world_now_us(worker->scale->run->world) < worker->scale->ends_us;
}

static struct span around(struct worker *worker, struct span average)
{
    return env_jitter(worker->env, SPAN_US(2 * average.us));
}

static void open_client(struct worker *worker)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    struct store *inner = net_store_open(worker->scale->run->net, worker->self->node);
    check(inner);
    check(store_observe(inner, (struct observer){ scale_observe, worker->scale },
                        &worker->store, &error) == HF_OK);
    options.skew_tolerance_ms = 2000;                              /* as on AWS */
    bool probed = !worker->scale->run->options->ignore_conditions; /* it would be refused */
    while (probed && bucket_check(worker->store, BUCKET_LOCKS, &error) != HF_OK)
        env_sleep(worker->env, around(worker, SPAN_S(1)));
    check(client_new(worker->store, &options, &worker->client, &error) == HF_OK);
}

static void close_client(struct worker *worker)
{
    hf_client_close(worker->client);
    store_close(worker->store);
}

/* ---- Merging ------------------------------------------------------------------------- */

struct merge {
    struct hf_lock *lock; /* NULL: none */
    uint64_t group;
};

static void chunk_key(const struct worker *worker, uint64_t group, char part, char text[96])
{
    snprintf(text, 96, "data/%s/L0/2026/01/%012" PRIu64 "%c.usv", worker->partition_name, group,
             part);
}

/* Whether so few members are before us on the ladder that we may start. */
static bool may_start(const struct worker *worker, const struct scale_group *group)
{
    const struct roster *roster = &worker->roster;
    struct view own = view_of(roster->fingerprint);
    struct work_writer writer = { VIEW("group"), group->number };
    struct work work = { .base = 1, .writers = &writer, .writer_count = 1 };
    struct span age = SPAN_US(world_now_us(worker->scale->run->world) - group->due_us);
    struct rung mine = { ladder_score(own, &work), own };
    size_t rank = 0;
    for (size_t i = 0; i < roster->present_count; i++) {
        struct rung other = { ladder_score(roster->present[i], &work), roster->present[i] };
        rank += !view_equal(other.fingerprint, own) && ladder_before(&other, &mine);
        if (!ladder_may_start(rank, LADDER_STEP, age))
            return false;
    }
    return true;
}

/* Reads the document that stands for the catalog, as a worker does before it plans and again before
 * it begins to merge. */
static void read_catalog(struct worker *worker)
{
    struct buffer body = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = doc_key(worker->catalog.doc), .body = &body };
    (void)store_get(worker->store, &get);
    buffer_release(&body);
}

/* A group that is not leased, as far as its table shows; 0 if there is none. */
static uint64_t plan_group(struct worker *worker, uint64_t own)
{
    const struct scale_partition *partition = worker->partition;
    uint64_t numbers[CANDIDATES_MAX];
    char keys[CANDIDATES_MAX][96];
    const char *texts[CANDIDATES_MAX];
    bool is_free[CANDIDATES_MAX];
    size_t count = 0;
    struct hf_error error;
    scale_supply(worker->scale, worker->partition);
    for (const struct scale_group *group = partition->first; group && count < CANDIDATES_MAX;
         group = group->next) {
        if (group->number == own || !may_start(worker, group))
            continue;
        chunk_key(worker, group->number, 'a', keys[count]);
        texts[count] = keys[count];
        numbers[count++] = group->number;
    }
    if (count == 0 ||
        hf_chunks_unleased(worker->client, texts, count, is_free, &error) != HF_OK)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (is_free[i])
            return numbers[i];
    return 0;
}

static struct hf_lock *new_claim(struct worker *worker, uint64_t group)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_error error;
    struct hf_lock *lock;
    char a[96], b[96], scope_a[112], scope_b[112];
    const char *const scopes[] = { scope_a, scope_b };
    chunk_key(worker, group, 'a', a);
    chunk_key(worker, group, 'b', b);
    snprintf(scope_a, sizeof scope_a, "chunk:%s", a);
    snprintf(scope_b, sizeof scope_b, "chunk:%s", b);
    options.ttl_ms = (int64_t)worker->scale->options.chunk_ttl_s * 1000;
    check(hf_lock_new_many(worker->client, scopes, 2, &options, &lock, &error) == HF_OK);
    return lock;
}

static void note_claim(struct worker *worker, const struct merge *next)
{
    struct scale *scale = worker->scale;
    struct scale_group *group = scale_group_of(worker->partition, next->group);
    scale->figures.claims += scale_counts(scale);
    if (!group) /* it was committed after we had planned; the guard notices */
        return;
    int64_t now_us = world_now_us(scale->run->world), died_us = group->held.died_us;
    scale_checker_granted(scale, &group->held, worker->self, next->lock);
    if (scale_counts(scale) && died_us > 0)
        scale_times_add(&scale->figures.group_over, now_us - died_us);
    else if (scale_counts(scale) && !group->claimed)
        scale_times_add(&scale->figures.wait, now_us - group->due_us);
    group->claimed = true;
}

static void note_end(struct worker *worker, const struct merge *held, bool dead)
{
    struct scale_group *group = scale_group_of(worker->partition, held->group);
    if (group)
        scale_checker_over(worker->scale, &group->held, held->lock, dead);
}

/* Completes one claim and makes the next, in one write. Either may be none. */
static void exchange(struct worker *worker, struct merge *done, struct merge *next)
{
    struct lock_exchange exchange = { .done_count = 0 };
    struct scale_figures *figures = &worker->scale->figures;
    if (done->lock) {
        note_end(worker, done, /* dead */ false);
        exchange.done[exchange.done_count++] = done->lock;
    }
    if (next->group > 0) {
        next->lock = new_claim(worker, next->group);
        exchange.next[exchange.next_count++] = next->lock;
    }
    if (done->lock || next->lock)
        lock_exchange(&exchange);
    hf_lock_free(done->lock);
    *done = (struct merge){ 0 };
    if (!next->lock)
        return;
    if (exchange.acquired[0] == HF_OK) {
        note_claim(worker, next);
        return;
    }
    if (scale_counts(worker->scale)) {
        figures->held += exchange.acquired[0] == HF_HELD;
        figures->failed += exchange.acquired[0] != HF_HELD;
    }
    hf_lock_free(next->lock);
    *next = (struct merge){ 0 };
}

static void put_output(struct worker *worker)
{
    char key[96];
    snprintf(key, sizeof key, "data/%s/L1/2026/01/%zu.usv", worker->partition_name,
             worker->self->index);
    struct put_call put = { .key = view_of(key), .body = VIEW("output") };
    (void)store_put(worker->store, &put);
}

static void get_source(struct worker *worker)
{
    char key[96];
    snprintf(key, sizeof key, "data/%s/L1/2026/01/%zu.usv", worker->partition_name,
             worker->self->index);
    struct buffer body = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = view_of(key), .body = &body };
    (void)store_get(worker->store, &get);
    buffer_release(&body);
}

/* A worker sends heartbeats also while it merges. */
static void sleep_in_roster(struct worker *worker, struct span span)
{
    struct mono_time until = mono_add(env_now(worker->env), span);
    struct hf_error error;
    while (mono_before(env_now(worker->env), until)) {
        struct mono_time beat =
            mono_add(env_now(worker->env), SPAN_S(worker->scale->options.beat_s));
        env_sleep_until(worker->env, mono_earlier(beat, until));
        (void)roster_keep(&worker->roster, env_now(worker->env), &error);
    }
}

/* Merges, and commits if it still holds the lease. A worker that dies leaves all as it is. */
static void merge(struct worker *worker, const struct merge *merge)
{
    struct scale *scale = worker->scale;
    struct hf_error error;
    read_catalog(worker);
    if (!scale_group_of(worker->partition, merge->group)) {
        scale->figures.stale += scale_counts(scale);
        return;
    }
    get_source(worker);
    get_source(worker);
    sleep_in_roster(worker, around(worker, SPAN_S(scale->options.claim_every_s / 2)));
    put_output(worker);
    if (!lives(worker) || hf_lock_check(merge->lock, &error) != HF_OK)
        return;
    if (tally_change(&worker->catalog, PATIENCE) != HF_OK ||
        hf_lock_check(merge->lock, &error) != HF_OK)
        return; /* the next holder merges it again, as the catalog allows only one commit */
    scale_checker_commit(scale, worker->partition, merge->group);
    scale->figures.commits += scale_counts(scale);
}

static void work_on_partition(struct worker *worker)
{
    struct merge merges[2] = { { 0 }, { 0 } }, *held = &merges[0], *next = &merges[1];
    struct hf_error error;
    while (lives(worker)) {
        (void)roster_keep(&worker->roster, env_now(worker->env), &error);
        read_catalog(worker);
        next->group = plan_group(worker, held->group);
        exchange(worker, held, next);
        struct merge *swapped = held;
        held = next;
        next = swapped;
        if (held->lock)
            merge(worker, held);
        else
            sleep_in_roster(worker, around(worker, SPAN_S(worker->scale->options.poll_s)));
    }
    if (held->lock && dies(worker)) {
        note_end(worker, held, /* dead */ true);
        hf_lock_detach(held->lock);
    } else {
        exchange(worker, held, next);
    }
}

static void merge_in_partition(struct worker *worker)
{
    struct scale *scale = worker->scale;
    size_t number = worker->self->index % scale->options.partitions;
    struct hf_error error;
    char key[64];
    worker->partition = &scale->partitions[number];
    snprintf(worker->partition_name, sizeof worker->partition_name, "p%05zu", number);
    struct roster_options options = { .group = view_of(worker->partition_name),
                                      .label = VIEW("worker"),
                                      .beat = SPAN_S(scale->options.beat_s) };
    snprintf(key, sizeof key, "metadata/%s/commits.json", worker->partition_name);
    tally_open(&worker->catalog, scale->run->net, worker->self->node, worker->self->index + 1,
               view_of(key), (struct observer){ scale_observe, scale });
    while (roster_join(&worker->roster, worker->store, &options, &error) != HF_OK)
        env_sleep(worker->env, around(worker, SPAN_S(1)));
    work_on_partition(worker);
    if (dies(worker))
        roster_release(&worker->roster);
    else
        roster_leave(&worker->roster);
    tally_close(&worker->catalog);
}

/* ---- Locks and leaders --------------------------------------------------------------- */

static struct hf_lock *new_named(struct worker *worker, const char *kind, size_t number)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_error error;
    struct hf_lock *lock;
    char name[48];
    snprintf(name, sizeof name, "named:%s-%zu", kind, number);
    options.ttl_ms = (int64_t)worker->scale->options.lock_ttl_s * 1000;
    check(hf_lock_new(worker->client, name, &options, &lock, &error) == HF_OK);
    return lock;
}

/* One worker sweeps from time to time. */
static void sweep_in_time(struct worker *worker, struct sweep_cursor *cursor, int64_t *next_us)
{
    struct scale *scale = worker->scale;
    int64_t now_us = world_now_us(scale->run->world);
    if (worker->self->index != 0 || now_us < *next_us)
        return;
    *next_us = now_us + SWEEP_EVERY.us;
    struct sweep_options options = { .settings = SWEEP_SETTINGS, .mode = SWEEP_MANUAL };
    struct sweep_report report = { .runs = 0 };
    struct hf_error error;
    enum hf_status status = sweep_run(worker->client, &options, cursor, &report, &error);
    if (status == HF_OK && scale_counts(scale)) {
        scale->figures.sweeps++;
        scale->figures.swept += report.ops;
    }
}

static void use_locks(struct worker *worker)
{
    struct scale *scale = worker->scale;
    size_t number = worker->self->index / 10 / 8;
    struct hf_lock *lock = new_named(worker, "crew", number);
    struct sweep_cursor cursor = { .turn = 0 };
    int64_t sweep_us = 0;
    struct hf_error error;
    while (lives(worker)) {
        env_sleep(worker->env, around(worker, LOCK_EVERY));
        sweep_in_time(worker, &cursor, &sweep_us);
        int64_t asked_us = world_now_us(scale->run->world);
        enum hf_status status = hf_lock_acquire(lock, LOCK_WAIT_MS, &error);
        if (status != HF_OK) {
            scale->figures.lock_timeouts += scale_counts(scale);
            continue;
        }
        scale_checker_granted(scale, &scale->locks[number], worker->self, lock);
        if (scale_counts(scale)) {
            scale->figures.locked++;
            scale_times_add(&scale->figures.lock_wait,
                            world_now_us(scale->run->world) - asked_us);
        }
        env_sleep(worker->env, around(worker, LOCK_HELD));
        scale_checker_over(scale, &scale->locks[number], lock, /* dies */ false);
        (void)hf_lock_release(lock, &error);
    }
    hf_lock_free(lock);
}

/* Leads until it dies, with the lease in its hands. */
static void lead(struct worker *worker)
{
    struct scale *scale = worker->scale;
    size_t number = worker->self->index / 100;
    struct scale_held *held = &scale->leaders[number];
    struct hf_lock *lock = new_named(worker, "leader", number);
    struct hf_error error;
    bool leads = false;
    while (!leads && world_now_us(scale->run->world) < scale->ends_us)
        leads = hf_lock_acquire(lock, LEAD_WAIT_MS, &error) == HF_OK;
    if (leads) {
        int64_t now_us = world_now_us(scale->run->world), died_us = held->died_us;
        scale_checker_granted(scale, held, worker->self, lock);
        if (died_us > 0 && scale_counts(scale))
            scale_times_add(&scale->figures.lead_over, now_us - died_us);
        worker->dies_us = now_us + around(worker, LEADER_LIFE).us;
        while (lives(worker) && hf_lock_check(lock, &error) == HF_OK)
            env_sleep(worker->env, SPAN_S(5));
        bool with_it = dies(worker) && hf_lock_check(lock, &error) == HF_OK;
        scale_checker_over(scale, held, lock, with_it);
        if (with_it) {
            hf_lock_detach(lock);
            return;
        }
        (void)hf_lock_release(lock, &error);
    }
    hf_lock_free(lock);
}

/* ---- Life and death ------------------------------------------------------------------ */

static void live_once(struct worker *worker, enum scale_role role)
{
    int64_t now_us = world_now_us(worker->scale->run->world);
    open_client(worker);
    worker->dies_us =
        role == SCALE_MERGES ? now_us + around(worker, MERGER_LIFE).us : INT64_MAX;
    switch (role) {
    case SCALE_MERGES: merge_in_partition(worker); break;
    case SCALE_LOCKS: use_locks(worker); break;
    case SCALE_LEADS: lead(worker); break;
    }
    close_client(worker);
    if (dies(worker)) {
        worker->scale->figures.deaths += scale_counts(worker->scale);
        env_sleep(worker->env, env_jitter(worker->env, DOWN_MAX));
    }
}

/* The bucket was used before: it has a verdict, an epoch and a limit of ttls for each kind of
 * table. */
static void prepare_bucket(struct worker *worker)
{
    struct scale *scale = worker->scale;
    struct hf_error error;
    snprintf(worker->partition_name, sizeof worker->partition_name, "p%05d", 0);
    open_client(worker);
    struct hf_lock *locks[] = { new_named(worker, "first", 0),
                                new_claim(worker, /* group */ 0) };
    for (size_t i = 0; i < 2; i++) {
        while (hf_lock_acquire(locks[i], 0, &error) != HF_OK)
            env_sleep(worker->env, SPAN_S(1));
        (void)hf_lock_release(locks[i], &error);
        hf_lock_free(locks[i]);
    }
    close_client(worker);
    scale->prepared = true;
}

void scale_work(void *argument)
{
    const struct one_client *self = argument;
    struct worker *worker = calloc(1, sizeof *worker);
    check(worker);
    *worker =
        (struct worker){ .self = self, .scale = self->state, .env = node_env(self->node) };
    if (self->index == 0 && !worker->scale->prepared)
        prepare_bucket(worker);
    env_sleep(worker->env, env_jitter(worker->env, SPAN_US(SCALE_WARM_UP.us / 2)));
    while (!worker->scale->prepared)
        env_sleep(worker->env, SPAN_S(1));
    while (world_now_us(worker->scale->run->world) < worker->scale->ends_us)
        live_once(worker, scale_role_of(&worker->scale->options, self->index));
    free(worker);
}
