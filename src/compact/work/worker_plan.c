/* SPDX-License-Identifier: Apache-2.0 */
/* worker_plan.c: finds the work for a worker, and sorts it by when the worker's turn comes. Groups
 * that another worker has leased are left out, so that two workers do not merge the same chunks. */
#include "compact/work/worker_inside.h"

#include "base/hash.h"
#include "elect/ladder.h"
#include "lock/chunks.h"

#include <stdlib.h>

/* How many times the walk is made, as long as it finds homes whose lease tables were not read
 * before it. */
#define WALKS_MAX 3

/* How long a single run waits for the workers that are ranked before it. */
#define ONCE_WAIT_MAX SPAN_S(60)

/* A run that is supposed to terminate gives up on a group after this many consecutive failures with
 * no chunk to blame. */
#define GIVE_UP_AFTER 3

/* ---- Known groups -------------------------------------------------------------------- */

static struct view id_view(const uint64_t *id)
{
    return (struct view){ (const char *)id, sizeof *id };
}

static uint64_t group_id(const struct plan_group *group)
{
    struct hash_stream stream;
    hash_stream_init(&stream);
    for (size_t i = 0; i < group->count; i++)
        hash_stream_add(&stream, group->sources[i]->key);
    if (group->merge) {
        hash_stream_add(&stream, group->merge->id);
        hash_stream_add(&stream, id_view(&(uint64_t){ group->range }));
    }
    return hash_stream_xxh3(&stream);
}

struct known_group *worker_known(struct worker *worker, uint64_t id, struct mono_time now)
{
    struct known_group *known = map_get(&worker->known, id_view(&id));
    void *old;
    if (known || worker->known_count >= KNOWN_MAX)
        return known;
    known = calloc(1, sizeof *known);
    if (!known)
        return NULL;
    *known = (struct known_group){ .id = id, .first_seen = now, .next = worker->known_first };
    if (!map_put(&worker->known, id_view(&known->id), known, &old)) {
        free(known);
        return NULL;
    }
    worker->known_first = known;
    worker->known_count++;
    return known;
}

/* Forgets groups that are no longer planned. */
static void forget_groups(struct worker *worker, bool all)
{
    for (struct known_group **at = &worker->known_first; *at;) {
        struct known_group *known = *at;
        if (!all && known->round == worker->round) {
            at = &known->next;
            continue;
        }
        *at = known->next;
        map_take(&worker->known, id_view(&known->id));
        worker->known_count--;
        free(known);
    }
}

/* ---- Leased chunks ------------------------------------------------------------------- */

/* The keys that other workers have leased, and the keys of our own jobs, which have leased them or
 * are about to do so. */
struct leases {
    struct worker *worker;
    struct arena arena;
    struct map keys;   /* values: &own_lease or &others_lease */
    struct home *home; /* whose table is being read */
    bool barred;       /* some table grants nothing */
    bool others;       /* another worker has leased a chunk that could be merged */
    bool no_memory;
};

static char own_lease, others_lease; /* only their addresses matter */

static void note_key(struct leases *leases, struct view key, char *whose)
{
    void *old;
    struct view copy = arena_copy(&leases->arena, key);
    if (map_get(&leases->keys, key))
        return;
    if (!copy.data || !map_put(&leases->keys, copy, whose, &old))
        leases->no_memory = true;
}

static void note_leased_chunks(void *argument, const struct lease_table *table,
                               const struct evidence *evidence)
{
    struct leases *leases = argument;
    leases->home->barred = chunks_are_barred(table, evidence);
    leases->barred |= leases->home->barred;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (chunks_lease_over(table, lease, evidence))
            continue;
        for (size_t j = 0; j < lease->wish.scope_count; j++)
            if (lease->wish.scopes[j].kind == SCOPE_CHUNK)
                note_key(leases, lease->wish.scopes[j].name, &others_lease);
    }
}

static bool key_is_leased(void *argument, struct view key)
{
    struct leases *leases = argument;
    const char *whose = map_get(&leases->keys, key);
    leases->others |= whose == &others_lease;
    if (whose || !leases->barred)
        return whose != NULL;
    /* A table that grants nothing now cannot lease its chunks to us. But nobody else is working on
     * them either, so `others` is not set, and a run that drains the partition does not wait. */
    struct view partition = layout_home(key);
    for (const struct home *home = leases->worker->homes; home; home = home->next)
        if (home->barred && view_equal(view_of(home->partition), partition))
            return true;
    return false;
}

static void note_order(struct leases *leases, const struct order *order)
{
    if (!order)
        return;
    if (order->merge_id[0]) {
        note_key(leases, order->lease_name, &own_lease);
        return;
    }
    for (size_t i = 0; i < order->count; i++)
        note_key(leases, order->sources[i].key, &own_lease);
}

static enum hf_status find_leases(struct leases *leases, struct hf_error *error)
{
    struct worker *worker = leases->worker;
    for (size_t i = 0; i < worker->options.jobs; i++) {
        const struct runner *runner = &worker->shared.runners[i];
        note_order(leases, runner->order);
        if (!runner->order)
            continue;
        for (size_t k = 0; k < runner->batch.next_count; k++) /* which this job is claiming */
            note_order(leases, runner->batch.next[k].order);
        for (size_t k = 0; k < runner->batch.waiting_count; k++)
            note_order(leases, runner->batch.waiting[k].candidate.order);
    }
    for (struct home *home = worker->homes; home; home = home->next) {
        home->barred = false;
        leases->home = home;
        enum hf_status status =
            chunks_look_mended(worker->tree->client, view_of(home->partition),
                               note_leased_chunks, leases, error);
        if (status != HF_OK)
            return status;
    }
    return leases->no_memory ? error_no_memory(error) : HF_OK;
}

/* ---- Candidates ---------------------------------------------------------------------- */

void worker_drop_candidates(struct worker *worker)
{
    for (size_t i = 0; i < worker->candidate_count; i++)
        order_free(worker->candidates[i].order);
    worker->candidate_count = 0;
}

bool candidate_is_ready(const struct worker *worker, const struct candidate *candidate,
                        struct mono_time now)
{
    bool waited = worker->options.mode == HF_COMPACT_ONCE &&
                  mono_since(now, candidate->first_seen).us >= ONCE_WAIT_MAX.us;
    struct span since_due = { candidate->age.us + mono_since(now, candidate->planned).us };
    struct span age = ladder_age(since_due, mono_since(now, candidate->first_seen));
    return worker->options.force || waited ||
           ladder_may_start(candidate->rank, candidate->step, age);
}

static int by_turn(const void *a, const void *b)
{
    const struct candidate *one = a, *two = b;
    if (one->rank != two->rank)
        return one->rank < two->rank ? -1 : 1;
    if (one->age.us != two->age.us)
        return one->age.us > two->age.us ? -1 : 1;
    return one->id < two->id ? -1 : one->id > two->id;
}

/* Sorts the candidates, and drops the last ones if there are too many. */
static void keep_best_candidates(struct worker *worker, size_t most)
{
    if (worker->candidate_count > 1)
        qsort(worker->candidates, worker->candidate_count, sizeof *worker->candidates, by_turn);
    while (worker->candidate_count > most)
        order_free(worker->candidates[--worker->candidate_count].order);
}

static size_t candidates_max(const struct worker *worker)
{
    return worker->options.mode == HF_COMPACT_ONCE ? CANDIDATES_ONCE_MAX : CANDIDATES_MAX;
}

static bool make_candidate_room(struct worker *worker)
{
    if (worker->candidate_count == 2 * candidates_max(worker))
        keep_best_candidates(worker, candidates_max(worker));
    if (worker->candidate_count < worker->candidate_room)
        return true;
    size_t room = worker->candidate_room ? 2 * worker->candidate_room : 64;
    struct candidate *grown = realloc(worker->candidates, room * sizeof *grown);
    if (!grown)
        return false;
    worker->candidates = grown;
    worker->candidate_room = room;
    return true;
}

void worker_put_back(struct worker *worker, const struct candidate *candidate)
{
    if (!make_candidate_room(worker)) {
        order_free(candidate->order);
        worker->stale = true;
        return;
    }
    memmove(worker->candidates + 1, worker->candidates,
            worker->candidate_count * sizeof *worker->candidates);
    worker->candidates[0] = *candidate;
    worker->candidate_count++;
}

/* ---- Planning ------------------------------------------------------------------------ */

struct planning {
    struct worker *worker;
    struct leases *leases;
    struct mono_time now;
    struct work_writer *vector; /* the state vector of the current catalog, in cascades */
    bool new_homes;
    uint64_t groups, bytes;
    struct hf_error trouble; /* the first error; planning continues */
};

static bool note_home(struct planning *planning, const char *partition)
{
    for (const struct home *home = planning->worker->homes; home; home = home->next)
        if (view_equal(view_of(home->partition), view_of(partition)))
            return true;
    struct home *home = calloc(1, sizeof *home);
    if (!home)
        return false;
    memcpy(home->partition, partition, sizeof home->partition);
    home->next = planning->worker->homes;
    planning->worker->homes = home;
    planning->new_homes = true;
    return true;
}

/* How many members are ranked before us for this group. */
static size_t rank_of(const struct planning *planning, const struct catalog *catalog,
                      const struct plan_group *group)
{
    const struct worker *worker = planning->worker;
    /* Each range has another order of workers. */
    const struct work_writer first = { .writer =
                                           group->sources[group->range % group->count]->key };
    struct work work = {
        .level = group->level, .base = 1, .writers = &first, .writer_count = 1
    };
    if (!worker->joined)
        return 0;
    if (planning->vector) {
        work.base = catalog->settings.cascade_base;
        work.writers = planning->vector;
        work.writer_count = catalog->writer_count;
    }
    return ladder_rank(worker->roster.present, worker->roster.present_count,
                       view_of(worker->roster.fingerprint), &work);
}

/* False if out of memory. */
static bool take_group(struct planning *planning, struct catalog_ref *ref,
                       const struct catalog *catalog, const struct plan_group *group,
                       const struct evidence *evidence)
{
    struct worker *worker = planning->worker;
    struct candidate candidate = { .id = group_id(group),
                                   .step = SPAN_MS(catalog->settings.step_ms),
                                   .planned = planning->now,
                                   .first_seen = planning->now };
    struct known_group *known = worker_known(worker, candidate.id, planning->now);
    bool ends = worker->options.mode != HF_COMPACT_WATCH;
    if (worker->only_ranges && !group->merge)
        return true;
    planning->groups++;
    planning->bytes += group->bytes;
    if (known) {
        known->round = worker->round;
        candidate.first_seen = known->first_seen;
    }
    if (known && ends && known->failures >= GIVE_UP_AFTER)
        return true;
    worker->pending++;
    if (known && mono_before(planning->now, known->not_before))
        return true;
    candidate.rank = rank_of(planning, catalog, group);
    candidate.age = stamp_age(group->due, /* unreadable */ SPAN_US(0), evidence);
    struct hf_error error;
    if (!make_candidate_room(worker) ||
        order_copy(ref, group, &candidate.order, &error) != HF_OK)
        return false;
    worker->candidates[worker->candidate_count++] = candidate;
    return true;
}

static bool make_vector(struct planning *planning, const struct catalog *catalog)
{
    planning->vector = NULL;
    if (catalog->settings.policy != HF_COMPACT_CASCADE || catalog->writer_count == 0)
        return true;
    planning->vector = calloc(catalog->writer_count, sizeof *planning->vector);
    if (!planning->vector)
        return false;
    for (size_t i = 0; i < catalog->writer_count; i++)
        planning->vector[i] =
            (struct work_writer){ catalog->writers[i].name, catalog->writers[i].sequence };
    return true;
}

static void keep_plan_error(struct planning *planning, const struct hf_error *error)
{
    if (planning->trouble.status == HF_OK)
        planning->trouble = *error;
}

static void plan_catalog(struct planning *planning, struct catalog_ref *ref,
                         const struct catalog *catalog, const struct evidence *evidence)
{
    struct plan_options options = { .is_leased = key_is_leased,
                                    .argument = planning->leases,
                                    .force = planning->worker->options.force,
                                    .evidence =
                                        planning->worker->keep_markers ? NULL : evidence };
    struct merger *merger = planning->worker->merger;
    struct plan plan;
    struct hf_error error;
    if (catalog_check_dropping(catalog, &error) != HF_OK) {
        keep_plan_error(planning, &error);
        return;
    }
    if (merger->allows && merger->allows(merger, &catalog->settings, &error) != HF_OK) {
        error_prefix(&error, "the partition %s", ref->partition);
        keep_plan_error(planning, &error);
        return;
    }
    if (plan_make(catalog, &options, &plan, &error) != HF_OK) {
        keep_plan_error(planning, &error);
        return;
    }
    if (plan.paused) {
        error_set(&error, HF_UNAVAILABLE, "%s", plan.paused);
        keep_plan_error(planning, &error);
    }
    bool good = make_vector(planning, catalog);
    for (size_t i = 0; i < plan.count; i++)
        good = good && take_group(planning, ref, catalog, &plan.groups[i], evidence);
    if (!good) {
        error_no_memory(&error);
        keep_plan_error(planning, &error);
    }
    free(planning->vector);
    planning->vector = NULL;
    plan_release(&plan);
}

static enum hf_status visit_catalog(void *argument, struct catalog_ref *ref,
                                    const struct catalog *catalog,
                                    const struct evidence *evidence, const struct hf_error *why)
{
    struct planning *planning = argument;
    if (!note_home(planning, ref->partition))
        return HF_UNAVAILABLE;
    if (!catalog) {
        struct hf_error error = *why;
        error_prefix(&error, "the catalog of %s", ref->partition);
        keep_plan_error(planning, &error);
        return HF_OK;
    }
    plan_catalog(planning, ref, catalog, evidence);
    return HF_OK;
}

/* Reads all tables, then walks the catalogs once. In this order, a chunk that another worker is
 * merging is found leased or no longer live, because a worker commits before it completes its
 * lease. */
static enum hf_status walk_catalogs(struct planning *planning, struct hf_error *error)
{
    struct worker *worker = planning->worker;
    struct leases leases = { .worker = worker, .arena = ARENA_INIT, .keys = MAP_INIT };
    worker_drop_candidates(worker);
    worker->pending = 0;
    worker->round++;
    planning->leases = &leases;
    planning->new_homes = false;
    planning->groups = planning->bytes = 0;
    error_clear(&planning->trouble);
    enum hf_status status = find_leases(&leases, error);
    planning->now = env_now(worker->tree->env);
    if (status == HF_OK)
        status = catalog_tree_walk(worker->tree, visit_catalog, planning, error);
    if (leases.barred) {
        struct hf_error barred;
        error_set(&barred, HF_UNAVAILABLE, "%s", CHUNKS_BARRED);
        keep_plan_error(planning, &barred);
    }
    worker->barred = leases.barred;
    worker->others_at_work = leases.others;
    map_release(&leases.keys);
    arena_release(&leases.arena);
    return status;
}

enum hf_status worker_plan(struct worker *worker, struct hf_error *error)
{
    struct planning planning = { .worker = worker };
    if (!note_home(&planning, worker->tree->partition))
        return error_no_memory(error);
    for (int i = 0; i < WALKS_MAX; i++) {
        enum hf_status status = walk_catalogs(&planning, error);
        if (status != HF_OK)
            return status;
        if (!planning.new_homes)
            break;
    }
    keep_best_candidates(worker, candidates_max(worker));
    forget_groups(worker, /* all */ false);
    env_mutex_lock(&worker->shared.mutex);
    struct hf_compact_totals *totals = &worker->shared.totals;
    totals->groups_planned = planning.groups;
    totals->bytes_planned = planning.bytes;
    for (size_t i = 0; i < worker->options.jobs; i++)
        if (worker->shared.runners[i].order) {
            totals->groups_planned++;
            totals->bytes_planned += worker->shared.runners[i].order->bytes;
            const struct batch *batch = &worker->shared.runners[i].batch;
            totals->groups_planned += batch->waiting_count;
            for (size_t k = 0; k < batch->waiting_count; k++)
                totals->bytes_planned += batch->waiting[k].candidate.order->bytes;
        }
    env_mutex_unlock(&worker->shared.mutex);
    *error = planning.trouble;
    return planning.trouble.status;
}

void worker_plan_release(struct worker *worker)
{
    worker_drop_candidates(worker);
    free(worker->candidates);
    forget_groups(worker, /* all */ true);
    while (worker->homes) {
        struct home *home = worker->homes;
        worker->homes = home->next;
        free(home);
    }
}
