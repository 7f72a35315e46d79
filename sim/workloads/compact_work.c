/* SPDX-License-Identifier: Apache-2.0 */
/* compact_work.c: the nodes of workload `compact`. They add chunks, merge them, delete old ones,
 * pin and read chunks, and sometimes do what an operator would do manually. */
#include "sim/workloads/compact_work.h"

#include "base/check.h"
#include "base/hash.h"
#include "compact/care/drop.h"
#include "compact/care/pin.h"
#include "compact/fsck/fsck.h"
#include "compact/work/worker.h"

#include <inttypes.h>
#include <stdlib.h>

#define UNSURE_MAX      3
#define PIN_KEYS_MAX    3
#define PIN_READS_MAX   6
#define HOUR_MS         INT64_C(3600000)
#define HOURS           3
#define SLEEP_MORE      SPAN_S(3 * 3600)
#define DRAIN_TRIES_MAX 20

#define ACTOR_TRACE(actor, ...) \
    trace_line(world_trace((actor)->compact->run->world), __VA_ARGS__)

/* ---- Adding -------------------------------------------------------------------------- */

/* Draws a time within this hour before the start of the run. */
static int64_t draw_ms(struct actor *actor, uint64_t hour)
{
    int64_t now_ms = WORLD_EPOCH_US / 1000;
    return now_ms - (int64_t)hour * HOUR_MS - (int64_t)actor_below(actor, HOUR_MS);
}

/* In seeds with deletions, a time within the last minutes, so that data is both late and recent. */
static int64_t draw_recent_ms(struct actor *actor)
{
    int64_t now_us = WORLD_EPOCH_US + world_now_us(actor->compact->run->world);
    return now_us / 1000 - (int64_t)actor_below(actor, 400000);
}

static void draw_rows(struct actor *actor, struct row *rows, size_t count)
{
    const struct compact_plan *plan = &actor->compact->plan;
    uint64_t hours = HOURS + (plan->settings.retention_ms > 0 ? 3 : 0);
    uint64_t hour = actor_below(actor, hours);
    bool wide = actor_one_in(actor, 5);
    for (size_t i = 0; i < count; i++) {
        uint64_t of = wide ? actor_below(actor, hours) : hour;
        rows[i].key = (unsigned)actor_below(actor, ROW_KEY_KILLER);
        rows[i].number = ++actor->compact->last_row;
        rows[i].ms = plan->deletes ? draw_recent_ms(actor) : draw_ms(actor, of);
    }
    if (actor->compact->last_row >= ROW_MAX)
        world_fail(actor->compact->run->world, "%d rows did not suffice", ROW_MAX);
    if (actor->compact->killers_left > 0 && actor_one_in(actor, 4)) {
        actor->compact->killers_left--;
        rows[0].key = ROW_KEY_KILLER;
    }
}

static struct chunk_markers markers_of(const struct row *rows, size_t count, bool known)
{
    struct chunk_markers markers = { .known = known };
    for (size_t i = 0; i < count && known; i++) {
        if (!row_is_marker(&rows[i]))
            continue;
        markers.ms = markers.count == 0 || rows[i].ms > markers.ms ? rows[i].ms : markers.ms;
        markers.count++;
    }
    return markers;
}

void compact_make_chunk(struct actor *actor, struct compact_batch *batch, size_t index)
{
    struct row rows[COMPACT_ROWS_MAX];
    struct chunk *chunk = &batch->chunks[index];
    size_t count = 1 + (size_t)actor_below(actor, COMPACT_ROWS_MAX);
    draw_rows(actor, rows, count);
    rows_sort(rows, count, actor->compact->plan.deletes);
    rows_write(rows, count, batch->bytes[index]);
    batch->rows[index] = rows[0].number;
    *chunk = (struct chunk){ .size = count * ROW_BYTES,
                             .rows_known = true,
                             .rows = count,
                             .min_ms = rows[0].ms,
                             .max_ms = rows[0].ms,
                             .writer = VIEW("w") };
    for (size_t i = 1; i < count; i++) {
        if (rows[i].ms < chunk->min_ms)
            chunk->min_ms = rows[i].ms;
        if (rows[i].ms > chunk->max_ms)
            chunk->max_ms = rows[i].ms;
    }
    chunk->crc32c = crc32c(0, (struct view){ batch->bytes[index], count * ROW_BYTES });
    if (actor->compact->plan.deletes)
        chunk->markers = markers_of(rows, count, /* known */ !actor_one_in(actor, 60));
}

/* Makes new chunks. Chunks with an id can be added again by any node. */
static void make_batch(struct actor *actor, struct compact_batch *batch)
{
    struct compact *compact = actor->compact;
    bool has_ids = !actor_one_in(actor, 3);
    batch->count = 1;
    if (actor_one_in(actor, 3))
        batch->count = 1 + (size_t)actor_below(actor, COMPACT_BATCH_MAX);
    for (size_t i = 0; i < batch->count; i++) {
        compact_make_chunk(actor, batch, i);
        if (has_ids)
            snprintf(batch->file_ids[i], sizeof batch->file_ids[i], "file-%u", batch->rows[i]);
    }
    batch->route_ms = batch->chunks[0].min_ms;
    if (has_ids)
        compact->made[compact->made_count++ % COMPACT_BATCHES_MAX] = *batch;
}

/* Makes a new batch, or takes one of the last batches again, from any node and in any state. */
static void draw_batch(struct actor *actor, struct compact_batch *batch)
{
    const struct compact *compact = actor->compact;
    size_t known =
        compact->made_count < COMPACT_BATCHES_MAX ? compact->made_count : COMPACT_BATCHES_MAX;
    if (known == 0 || !actor_one_in(actor, 3)) {
        make_batch(actor, batch);
        return;
    }
    *batch = compact->made[actor_below(actor, known)];
    ACTOR_TRACE(actor, "node %u: adds %s again", node_number(actor->node), batch->file_ids[0]);
}

static struct catalog_ref *slot_of(struct actor *actor, struct view partition)
{
    struct catalog_ref *ref;
    struct hf_error error;
    check(catalog_tree_ref(actor->tree, partition, &ref, &error) == HF_OK);
    return ref;
}

/* Removes the files that are already recorded in the catalogs above this one. */
static bool leave_out_known(struct actor *actor, struct compact_batch *batch)
{
    struct view file_ids[COMPACT_BATCH_MAX];
    bool known[COMPACT_BATCH_MAX] = { false };
    struct hf_error error;
    size_t kept = 0;
    for (size_t i = 0; i < batch->count; i++)
        file_ids[i] = view_of(batch->file_ids[i]);
    if (catalog_ref_files_above(slot_of(actor, view_of(batch->partition)), file_ids,
                                batch->count, known, &error) != HF_OK)
        return false;
    for (size_t i = 0; i < batch->count; i++) {
        if (known[i]) {
            checker_told_known(actor->compact->checker, batch->rows[i]);
            continue;
        }
        if (kept < i) {
            batch->chunks[kept] = batch->chunks[i];
            batch->rows[kept] = batch->rows[i];
            memcpy(batch->file_ids[kept], batch->file_ids[i], sizeof batch->file_ids[i]);
            memcpy(batch->bytes[kept], batch->bytes[i], sizeof batch->bytes[i]);
        }
        kept++;
    }
    batch->count = kept;
    return kept > 0;
}

/* Whether the catalog still remembers all files of the batch that were ever added. It may forget
 * old files, and then guarantees nothing. */
static bool are_remembered(struct actor *actor, const struct compact_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (!checker_remembers(actor->compact->checker, batch->rows[i]))
            return false;
    return true;
}

static void look_whether_dropping(void *argument, const struct catalog *catalog,
                                  const struct evidence *evidence)
{
    (void)evidence;
    *(bool *)argument = !catalog->is_dropping;
}

/* Whether the partition takes chunks, as far as a read can tell: an ingest reads the catalog before
 * it puts an object. */
static bool partition_is_there(struct actor *actor)
{
    bool there = false;
    struct hf_error error;
    return catalog_ref_show(slot_of(actor, VIEW(COMPACT_PARTITION)), look_whether_dropping,
                            &there, &error) == HF_OK &&
           there;
}

/* Names and puts all chunks of a batch, and drops those that cannot be put. */
static bool put_batch(struct actor *actor, struct compact_batch *batch)
{
    const struct compact_settings *settings = &actor->compact->plan.settings;
    struct hf_error error;
    size_t put = 0;
    if (actor->compact->plan.drops && !partition_is_there(actor))
        return false;
    if (catalog_tree_home(actor->tree, VIEW("seed"), batch->route_ms, batch->partition,
                          &error) != HF_OK ||
        !leave_out_known(actor, batch) || !are_remembered(actor, batch))
        return false;
    for (size_t i = 0; i < batch->count; i++) {
        struct mono_time drawn;
        struct view bytes = { batch->bytes[i], (size_t)batch->chunks[i].size };
        check(chunk_key_draw(actor->env,
                             &(struct chunk_key_parts){ view_of(batch->partition), 0,
                                                        batch->chunks[i].min_ms, settings },
                             batch->keys[i], &drawn, &error) == HF_OK);
        checker_drawn(actor->compact->checker, batch->keys[i]);
        batch->chunks[i].key = view_of(batch->keys[i]);
        batch->chunks[i].file_id = view_of(batch->file_ids[i]);
        if (i == 0)
            batch->drawn = drawn;
        put += compact_put(actor, batch->chunks[i].key, bytes, &error) == HF_OK;
    }
    return put == batch->count;
}

/* Between the put and the add, anything may happen, and any amount of time may pass. */
static void dawdle(struct actor *actor)
{
    const struct compact_settings *settings = &actor->compact->plan.settings;
    if (actor->compact->plan.sleepers && actor_one_in(actor, 4)) {
        ACTOR_TRACE(actor, "node %u: sleeps for longer than a name lasts",
                    node_number(actor->node));
        env_sleep(actor->env, SPAN_MS(settings->late_bound_ms / 2));
        actor_rest(actor, SPAN_MS(settings->late_bound_ms));
        env_sleep(actor->env, SLEEP_MORE);
    } else {
        actor_rest(actor, actor_one_in(actor, 4) ? SPAN_S(20) : SPAN_MS(300));
    }
}

/* When a request is repeated after UNSURE, only OK is conclusive. Any other status describes
 * the retry, and the first request may still take effect. */
static enum hf_status add_batch(struct actor *actor, struct compact_batch *batch, bool *known)
{
    struct catalog_ref *ref = slot_of(actor, view_of(batch->partition));
    enum hf_status status = HF_UNSURE;
    bool unsure = false;
    struct catalog_op op = { .kind = CATALOG_ADD,
                             .chunks = batch->chunks,
                             .chunk_count = batch->count,
                             .drawn = batch->drawn,
                             .ret_known = known };
    for (int i = 0; i < UNSURE_MAX && status == HF_UNSURE; i++) {
        status = catalog_ref_apply(ref, &op, (struct mono_time){ 0 });
        unsure |= status == HF_UNSURE;
    }
    if (unsure && status != HF_OK)
        status = HF_UNSURE;
    ACTOR_TRACE(actor, "node %u: adds %zu from %s, and is told %s", node_number(actor->node),
                batch->count, batch->keys[0], hf_status_name(status));
    for (size_t i = 0; i < batch->count; i++) {
        known[i] = known[i] && status == HF_OK;
        checker_told_added(actor->compact->checker, batch->keys[i],
                           known[i] ? HF_CONFLICT : status);
        if (known[i])
            checker_told_known(actor->compact->checker, batch->rows[i]);
    }
    return status;
}

static void condemn(struct actor *actor, const char *key)
{
    struct catalog_checker *checker = actor->compact->checker;
    struct view name = view_of(key);
    enum condemned answer = CONDEMN_DONE;
    struct catalog_op op = {
        .kind = CATALOG_CONDEMN, .keys = &name, .key_count = 1, .ret_condemned = &answer
    };
    checker_condemns_any(checker, actor->node, true);
    enum hf_status status =
        catalog_ref_apply(slot_of(actor, layout_home(name)), &op, (struct mono_time){ 0 });
    checker_condemns_any(checker, actor->node, false);
    ACTOR_TRACE(actor, "node %u: condemns %s, and is told %s, %s", node_number(actor->node),
                key, hf_status_name(status), answer == CONDEMN_DONE ? "done" : "it happened");
    if (status == HF_OK)
        checker_told_condemned(checker, key, answer == CONDEMN_HAPPENED);
}

static void add(struct actor *actor)
{
    struct compact_batch batch = { .count = 0 };
    draw_batch(actor, &batch);
    for (int i = 0; i < 2; i++) {
        bool known[COMPACT_BATCH_MAX] = { false };
        if (!put_batch(actor, &batch))
            return;
        dawdle(actor);
        enum hf_status status = add_batch(actor, &batch, known);
        for (size_t k = 0; k < batch.count && status == HF_OK; k++)
            if (known[k] && !actor_one_in(actor, 4))
                condemn(actor, batch.keys[k]);
        if (status == HF_OK || status == HF_UNAVAILABLE || status == HF_TIMEOUT)
            return;
        for (size_t k = 0; k < batch.count && !actor_one_in(actor, 4); k++)
            condemn(actor, batch.keys[k]);
        if (status == HF_UNSURE)
            return;
    }
}

/* ---- Merging ------------------------------------------------------------------------- */

static void note_job(struct actor *actor, const struct job_report *report)
{
    ACTOR_TRACE(actor, "node %u: its merge into %s ended %s", node_number(actor->node),
                report->output, hf_compact_end_name(report->end));
    if (report->product.markers_dropped)
        ACTOR_TRACE(actor, "node %u: ... and dropped %" PRIu64 " markers%s",
                    node_number(actor->node), report->product.rows_deleted,
                    report->needs_markers ? ", which it must keep" : "");
    /* The output of a range is neither live nor condemned yet. */
    if (report->output[0] != '\0' && report->end != HF_COMPACT_END_UNSURE &&
        report->end != HF_COMPACT_END_RANGE)
        checker_told_merged(actor->compact->checker, report->output,
                            report->end == HF_COMPACT_END_COMMITTED);
}

/* In seeds with deletions, nothing is added for a while, again and again, so that markers become
 * old enough to be dropped. */
static bool is_quiet(const struct actor *actor)
{
    int64_t now_us = world_now_us(actor->compact->run->world);
    return actor->compact->plan.deletes && now_us % SPAN_S(260).us > SPAN_S(90).us;
}

struct picking {
    struct actor *actor;
    struct order *order;
};

static enum hf_status pick_group(void *argument, struct catalog_ref *ref,
                                 const struct catalog *catalog, const struct evidence *evidence,
                                 const struct hf_error *why)
{
    struct picking *picking = argument;
    bool force = actor_one_in(picking->actor, 4) || is_quiet(picking->actor);
    struct plan_options options = { .force = force, .evidence = evidence };
    struct plan plan;
    struct hf_error error;
    (void)why;
    if (!catalog || plan_make(catalog, &options, &plan, &error) != HF_OK)
        return HF_OK;
    if (plan.count > 0 && (!picking->order || actor_one_in(picking->actor, 2))) {
        order_free(picking->order);
        check(order_copy(ref, &plan.groups[actor_below(picking->actor, plan.count)],
                         &picking->order, &error) == HF_OK);
    }
    plan_release(&plan);
    return HF_OK;
}

/* Merges one group, even if other nodes are merging it too. */
static void run_job(struct actor *actor)
{
    struct picking picking = { actor, NULL };
    struct job_options options = { .memory_bytes = MIB, .keep_record = actor_one_in(actor, 4) };
    struct job_report report;
    struct hf_error error;
    catalog_tree_walk(actor->tree, pick_group, &picking, &error);
    if (!picking.order)
        return;
    if (actor_one_in(actor, 4))
        actor_rest(actor, SPAN_S(10));
    job_run(actor->tree, &actor->merger.merger, picking.order, &options, &report);
    note_job(actor, &report);
    order_free(picking.order);
}

static void tell(void *argument, const struct worker_notice *notice)
{
    if (notice->event == HF_COMPACT_ENDED)
        note_job(argument, notice->report);
}

struct stopping {
    struct actor *actor;
    struct worker *worker;
    struct span after;
};

static void stop_later(void *argument)
{
    struct stopping *stopping = argument;
    env_sleep(stopping->actor->env, stopping->after);
    worker_stop(stopping->worker);
}

static enum hf_status run_to_its_end(struct actor *actor, struct worker *worker, bool stopped)
{
    struct stopping stopping = { actor, worker, env_jitter(actor->env, SPAN_S(3)) };
    struct hf_compact_totals totals;
    struct env_task *task = NULL;
    struct hf_error error;
    if (stopped)
        check(env_task_start(actor->env, stop_later, &stopping, &task, &error) == HF_OK);
    enum hf_status status = worker_run(worker, &totals, &error);
    if (task)
        env_task_join(actor->env, task);
    return status;
}

static enum hf_status run_worker(struct actor *actor, enum hf_compact_mode mode, bool force,
                                 bool stopped)
{
    struct worker_options options = { .mode = mode,
                                      .jobs = 1 + (size_t)actor_below(actor, 2),
                                      .memory_bytes = 64 * MIB,
                                      .force = force,
                                      .poll = SPAN_S(2),
                                      .beat = SPAN_S(10),
                                      .label = VIEW("worker"),
                                      .tell = tell,
                                      .argument = actor };
    struct worker *worker;
    struct hf_error error;
    enum hf_status status =
        worker_new(actor->tree, &actor->merger.merger, &options, &worker, &error);
    if (status != HF_OK)
        return status;
    status = run_to_its_end(actor, worker, stopped);
    worker_free(worker);
    return status;
}

void compact_drain(struct actor *actor)
{
    for (int i = 0; i < DRAIN_TRIES_MAX; i++)
        if (run_worker(actor, HF_COMPACT_DRAIN, /* force */ false, /* stopped */ false) ==
            HF_OK)
            return;
}

/* ---- Maintenance --------------------------------------------------------------------- */

void compact_maintain(struct actor *actor, bool short_lived)
{
    struct maintain_options options = { .short_lived = short_lived };
    struct maintain_report report = { 0 };
    struct hf_error error;
    enum hf_status status = maintain_round(actor->tree, &options, &report, &error);
    ACTOR_TRACE(actor,
                "node %u: tends: %s, settled %" PRIu64 ", reaped %" PRIu64 ", deleted %" PRIu64
                ", dropped %" PRIu64,
                node_number(actor->node), hf_status_name(status), report.settled, report.reaped,
                report.deleted, report.dropped);
}

void compact_fsck(struct actor *actor, struct span age)
{
    struct fsck_options options = { .repair = true, .shallow = true, .age = age };
    struct hf_fsck_report report;
    struct hf_error error;
    checker_condemns_any(actor->compact->checker, actor->node, true);
    enum hf_status status = fsck_run(actor->store, actor->client, VIEW(COMPACT_PARTITION),
                                     &options, &report, &error);
    checker_condemns_any(actor->compact->checker, actor->node, false);
    ACTOR_TRACE(actor, "node %u: looks through all: %s", node_number(actor->node),
                hf_status_name(status));
}

static void tell_finding(void *argument, const struct fsck_finding *finding)
{
    struct actor *actor = argument;
    bool spoilt = finding->kind == HF_FSCK_MISSING_OBJECT && actor->compact->plan.spoils;
    /* By an outside writer; the new version may have been merged and deleted since. */
    bool rewritten = actor->compact->plan.adopts && (finding->kind == HF_FSCK_REWRITTEN ||
                                                     finding->kind == HF_FSCK_MISSING_OBJECT);
    bool stray =
        finding->kind == HF_FSCK_STRAY_CATALOG; /* harmless here; meant for operators */
    if (!spoilt && !stray && !rewritten)
        world_fail(actor->compact->run->world, "in the end fsck finds %s: %.*s",
                   hf_fsck_kind_name(finding->kind), VIEW_ARGS(finding->key));
}

void compact_fsck_finds_nothing(struct actor *actor)
{
    struct fsck_options options = { .shallow = true, .tell = tell_finding, .argument = actor };
    struct hf_fsck_report report;
    struct hf_error error;
    enum hf_status status = fsck_run(actor->store, actor->client, VIEW(COMPACT_PARTITION),
                                     &options, &report, &error);
    if (status != HF_OK)
        world_fail(actor->compact->run->world, "in the end fsck is told %s: %s",
                   hf_status_name(status), error.why);
}

/* ---- Reading ------------------------------------------------------------------------- */

static size_t pick_keys(struct actor *actor, char keys[PIN_KEYS_MAX][KEY_BYTES_MAX + 1])
{
    size_t count = 0, most = 1 + (size_t)actor_below(actor, PIN_KEYS_MAX);
    for (size_t i = 0; i < most; i++) {
        bool dead = !actor_one_in(actor, 3);
        bool oldest = actor_one_in(actor, 2); /* the next to be deleted */
        uint64_t number = oldest ? 0 : env_random_u64(actor->env);
        const char *key = checker_pick(actor->compact->checker,
                                       dead ? CHECKED_DEAD_KEY : CHECKED_LIVE_KEY, number);
        if (!key || (count > 0 &&
                     !view_equal(layout_home(view_of(key)), layout_home(view_of(keys[0])))))
            continue;
        bool known = false;
        for (size_t k = 0; k < count; k++)
            known |= strcmp(keys[k], key) == 0;
        if (!known)
            snprintf(keys[count++], KEY_BYTES_MAX + 1, "%s", key);
    }
    return count;
}

static void pin_and_read(struct actor *actor)
{
    char space[PIN_KEYS_MAX][KEY_BYTES_MAX + 1];
    const char *keys[PIN_KEYS_MAX];
    struct hf_lock *lock;
    struct hf_error error;
    size_t count = pick_keys(actor, space);
    for (size_t i = 0; i < count; i++)
        keys[i] = space[i];
    int64_t ttl_ms = 1500 + (int64_t)actor_below(actor, 8000);
    if (count == 0 || pin_take(actor->tree, keys, count, ttl_ms, &lock, &error) != HF_OK)
        return;
    ACTOR_TRACE(actor, "node %u: has %s and %zu more pinned", node_number(actor->node), keys[0],
                count - 1);
    struct checked_pin *pin =
        checker_pinned(actor->compact->checker, actor->node, lock, keys, count);
    uint64_t reads = 1 + actor_below(actor, PIN_READS_MAX);
    for (uint64_t i = 0; i < reads; i++) {
        if (!compact_read_pinned(actor, pin, lock, keys[actor_below(actor, count)]))
            break;
        actor_rest(actor, SPAN_S(10));
    }
    checker_unpinned(pin);
    if (actor_one_in(actor, 2))
        hf_lock_release(lock, &error);
    hf_lock_free(lock);
}

/* ---- Manual operations --------------------------------------------------------------- */

/* Chooses a key of this kind; returns false if there is none. */
static bool pick(struct actor *actor, enum checked_kind_of_key kind,
                 char key[KEY_BYTES_MAX + 1])
{
    uint64_t number = env_random_u64(actor->env);
    const char *found = checker_pick(actor->compact->checker, kind, number);
    if (found)
        snprintf(key, KEY_BYTES_MAX + 1, "%s", found);
    return found != NULL;
}

static void undelete(struct actor *actor, enum checked_kind_of_key kind)
{
    char key[KEY_BYTES_MAX + 1];
    if (!pick(actor, kind, key))
        return;
    struct view name = view_of(key);
    int64_t asked_us = world_now_us(actor->compact->run->world);
    struct catalog_op op = { .kind = CATALOG_UNDELETE, .keys = &name, .key_count = 1 };
    enum hf_status status =
        catalog_ref_apply(slot_of(actor, layout_home(name)), &op, (struct mono_time){ 0 });
    ACTOR_TRACE(actor, "node %u: undeletes %s, and is told %s", node_number(actor->node), key,
                hf_status_name(status));
    if (status == HF_OK)
        checker_told_undeleted(actor->compact->checker, key, asked_us);
}

static void quarantine(struct actor *actor)
{
    char key[KEY_BYTES_MAX + 1];
    if (!pick(actor, CHECKED_LIVE_KEY, key))
        return;
    struct view name = view_of(key);
    struct catalog_op op = { .kind = CATALOG_QUARANTINE,
                             .keys = &name,
                             .key_count = 1,
                             .reason = actor_one_in(actor, 3) ? VIEW("by hand") : VIEW("") };
    checker_asks_quarantine(actor->compact->checker, key);
    catalog_ref_apply(slot_of(actor, layout_home(name)), &op, (struct mono_time){ 0 });
}

/* Gives up a chunk that is, perhaps, in quarantine. */
static void discard(struct actor *actor)
{
    char key[KEY_BYTES_MAX + 1];
    if (!pick(actor, CHECKED_LIVE_KEY, key))
        return;
    struct view name = view_of(key);
    struct catalog_op op = { .kind = CATALOG_DISCARD, .keys = &name, .key_count = 1 };
    checker_asks_discard(actor->compact->checker, key);
    enum hf_status status =
        catalog_ref_apply(slot_of(actor, layout_home(name)), &op, (struct mono_time){ 0 });
    ACTOR_TRACE(actor, "node %u: discards %s, and is told %s", node_number(actor->node), key,
                hf_status_name(status));
}

static void condemn_any(struct actor *actor)
{
    char key[KEY_BYTES_MAX + 1];
    if (pick(actor, actor_one_in(actor, 3) ? CHECKED_ANY_KEY : CHECKED_DEAD_KEY, key))
        condemn(actor, key);
}

static void split(struct actor *actor)
{
    char key[KEY_BYTES_MAX + 1];
    struct hf_error error;
    if (!pick(actor, CHECKED_LIVE_KEY, key))
        return;
    enum hf_status status =
        catalog_ref_split(slot_of(actor, layout_home(view_of(key))), &error);
    ACTOR_TRACE(actor, "node %u: splits, and is told %s", node_number(actor->node),
                hf_status_name(status));
}

static void spoil(struct actor *actor)
{
    char key[KEY_BYTES_MAX + 1];
    if (!pick(actor, CHECKED_LIVE_KEY, key))
        return;
    ACTOR_TRACE(actor, "node %u: %s is damaged", node_number(actor->node), key);
    checker_spoil(actor->compact->checker, key, /* gone */ actor_one_in(actor, 3));
}

static void pause_for_a_while(struct actor *actor)
{
    struct hf_error error;
    catalog_tree_pause(actor->tree, VIEW("for a while"), VIEW("somebody"), &error);
    actor_rest(actor, SPAN_S(5));
    catalog_tree_resume(actor->tree, &error);
}

static void drop_partition(struct actor *actor)
{
    const struct drop_options options = { .go_on = NULL };
    struct drop_report report;
    struct hf_error error;
    enum hf_status status = drop_step(actor->tree, &options, &report, &error);
    ACTOR_TRACE(actor,
                "node %u: drops the partition, and is told %s: %" PRIu64 " catalogs left",
                node_number(actor->node), hf_status_name(status), report.catalogs);
}

static void do_by_hand(struct actor *actor)
{
    const struct compact_plan *plan = &actor->compact->plan;
    struct hf_error ignored;
    if (plan->drops && actor_one_in(actor, 2)) {
        if (actor_one_in(actor, 3))
            drop_partition(actor);
        else
            catalog_tree_create(actor->tree, &plan->settings, &ignored);
        return;
    }
    if (plan->splits && actor_one_in(actor, 3)) {
        split(actor);
        return;
    }
    if (plan->spoils && actor_one_in(actor, 4)) {
        spoil(actor);
        return;
    }
    if (plan->discards && actor_one_in(actor, 4)) {
        discard(actor);
        return;
    }
    switch (actor_below(actor, 8)) {
    case 0:
    case 1:
    case 2: undelete(actor, CHECKED_DEAD_KEY); break;
    case 3: quarantine(actor); break;
    case 4:
    case 5: condemn_any(actor); break;
    case 6:
        if (plan->fscks)
            compact_fsck(actor, SPAN_S(1 + actor_below(actor, 60)));
        break;
    default:
        if (actor_one_in(actor, 3))
            pause_for_a_while(actor);
    }
}

static void run_some_worker(struct actor *actor)
{
    bool force = actor_one_in(actor, 4), stopped = actor_one_in(actor, 4);
    bool watches = stopped && actor_one_in(actor, 2);
    run_worker(actor, watches ? HF_COMPACT_WATCH : HF_COMPACT_ONCE, force, stopped);
}

static void do_one_thing(void *argument)
{
    struct actor *actor = argument;
    bool reads = actor->compact->plan.snapshots && node_number(actor->node) >= COMPACT_READERS;
    if (reads) {
        compact_read_snapshot(actor);
        return;
    }
    if (actor->compact->plan.adopts && actor_one_in(actor, is_quiet(actor) ? 8 : 2)) {
        compact_adopt_act(actor, is_quiet(actor));
        return;
    }
    if (actor->compact->plan.restores && is_quiet(actor) && actor_one_in(actor, 3)) {
        if (actor_one_in(actor, 2))
            compact_maintain(actor, /* short_lived */ false);
        else
            undelete(actor, CHECKED_RETIRED_KEY);
        return;
    }
    uint64_t what = actor_below(actor, 20);
    if (what < 8 && !is_quiet(actor))
        add(actor);
    else if (what < 12 || is_quiet(actor))
        run_job(actor);
    else if (what < 13)
        run_some_worker(actor);
    else if (what < 15)
        compact_maintain(actor, actor_one_in(actor, 2));
    else if (what < 17)
        pin_and_read(actor);
    else
        do_by_hand(actor);
}

void compact_act(struct actor *actor)
{
    struct env_task *task = NULL;
    struct hf_error error;
    if (actor->compact->plan.both_hands && actor_one_in(actor, 3))
        check(env_task_start(actor->env, do_one_thing, actor, &task, &error) == HF_OK);
    do_one_thing(actor);
    if (task)
        env_task_join(actor->env, task);
    bool long_rest = actor_one_in(actor, 3);
    if (actor->compact->plan.deletes)
        actor_rest(actor, SPAN_S(long_rest ? 240 : 15));
    else
        actor_rest(actor, SPAN_S(long_rest ? 15 : 3));
}
