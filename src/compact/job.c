/* job.c: one group from lease to commit. Whatever happens, the lease is ended, and what it
 * leaves is settled by us or by whoever comes next; nothing is deleted here. */
#include "compact/job.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/rule.h"
#include "compact/job_note.h"
#include "compact/jobs.h"
#include "compact/tend.h"
#include "elect/ladder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char *job_end_name(enum job_end end)
{
    static const char *const names[] = {
        [JOB_COMMITTED] = "committed", [JOB_HELD] = "held",     [JOB_PASSED] = "passed",
        [JOB_LOST] = "lost",           [JOB_FAILED] = "failed", [JOB_STOPPED] = "stopped",
        [JOB_UNSURE] = "unsure",
    };
    return names[end];
}

/* ---- Orders -------------------------------------------------------------------------- */

static bool copy_chunk(struct arena *arena, const struct chunk *from, struct chunk *to)
{
    *to = *from;
    to->key = arena_copy(arena, from->key);
    to->writer = arena_copy(arena, from->writer);
    to->quarantine = VIEW("");
    to->raw = VIEW("");
    return to->key.data && to->writer.data;
}

enum hf_status order_copy(struct slot *slot, const struct plan_group *group,
                          struct order **ret_order, struct hf_error *error)
{
    struct order *order = calloc(1, sizeof *order);
    if (!order)
        return error_no_memory(error);
    *order = (struct order){ .slot = slot,
                             .level = group->level,
                             .forced = group->forced,
                             .bytes = group->bytes,
                             .rows = group->rows,
                             .due = group->due,
                             .arena = ARENA_INIT };
    order->sources = arena_take(&order->arena, (group->count + 1) * sizeof *order->sources);
    bool good = order->sources != NULL;
    for (size_t i = 0; i < group->count && good; i++)
        good = copy_chunk(&order->arena, group->sources[i], &order->sources[i]);
    order->count = group->count;
    if (!good) {
        order_free(order);
        return error_no_memory(error);
    }
    *ret_order = order;
    return HF_OK;
}

void order_free(struct order *order)
{
    if (!order)
        return;
    arena_release(&order->arena);
    free(order);
}

/* ---- A job --------------------------------------------------------------------------- */

struct job {
    struct shelf *shelf;
    struct forge *forge;
    const struct order *order;
    const struct job_options *options;
    struct job_report *report;
    struct arena arena;
    struct compact_settings settings;
    struct view *keys; /* of the sources */
    struct hf_lock *lock;
    struct mono_time drawn;
    bool told_to_stop, lease_gone;
    bool took_too_long; /* more than D/2 from name to commit */
};

/* What a look at the catalog finds. */
struct glance {
    struct job *job;
    bool holds;
    bool no_memory;
};

/* A source that was tried in vain since the plan was made belongs to another, smaller group: else
 * what kills its workers would take all of this one with it. */
static bool none_was_tried_since(const struct order *order, const struct catalog *catalog)
{
    for (size_t i = 0; i < order->count; i++) {
        const struct chunk *now = catalog_find(catalog, order->sources[i].key);
        if (now && now->tries != order->sources[i].tries)
            return false;
    }
    return true;
}

static void glance(void *argument, const struct catalog *catalog,
                   const struct evidence *evidence)
{
    struct glance *seen = argument;
    struct job *job = seen->job;
    (void)evidence;
    job->settings = catalog->settings;
    seen->no_memory = !compact_settings_keep(&job->settings, &job->arena);
    seen->holds = none_was_tried_since(job->order, catalog) &&
                  plan_still_holds(catalog, job->order->level, job->keys, job->order->count,
                                   job->order->forced);
}

/* Whether the group is still to be done, by the catalog as it is now. The first look also tells
 * how: by which settings. */
static enum hf_status look_again(struct job *job, bool *ret_holds, struct hf_error *error)
{
    struct glance seen = { .job = job };
    enum hf_status status = slot_show(job->order->slot, glance, &seen, error);
    if (status == HF_OK && seen.no_memory)
        status = error_no_memory(error);
    *ret_holds = ladder_guard(seen.holds);
    return status;
}

/* The smallest and the greatest time of the sources. */
static void times_of(const struct order *order, int64_t *ret_min_ms, int64_t *ret_max_ms)
{
    *ret_min_ms = order->sources[0].min_ms;
    *ret_max_ms = order->sources[0].max_ms;
    for (size_t i = 1; i < order->count; i++) {
        if (order->sources[i].min_ms < *ret_min_ms)
            *ret_min_ms = order->sources[i].min_ms;
        if (order->sources[i].max_ms > *ret_max_ms)
            *ret_max_ms = order->sources[i].max_ms;
    }
}

/* What is wrong with names that say what is in them: two who merge the same use the same. */
static void name_after_sources(const struct job *job, char *output)
{
    char digits[17], *name = strrchr(output, '/') + 1;
    struct hash_stream stream;
    hash_stream_init(&stream);
    for (size_t i = 0; i < job->order->count; i++)
        hash_stream_add(&stream, job->keys[i]);
    snprintf(digits, sizeof digits, "%016" PRIx64, hash_stream_xxh3(&stream));
    memcpy(name, digits, 16);
    memcpy(name + 16, digits, 16);
}

static enum hf_status draw_output(struct job *job, struct hf_error *error)
{
    int64_t min_ms, max_ms;
    times_of(job->order, &min_ms, &max_ms);
    enum hf_status status =
        chunk_key_draw(job->shelf->env, view_of(job->order->slot->partition), job->order->level,
                       min_ms, &job->settings, job->report->output, &job->drawn, error);
    if (status == HF_OK && !RULE(FRESH_OUTPUT_NAMES))
        name_after_sources(job, job->report->output);
    return status;
}

/* ---- The lease ----------------------------------------------------------------------- */

static enum hf_status make_scopes(struct job *job, const char ***ret_scopes,
                                  struct hf_error *error)
{
    size_t count = job->order->count;
    const char **scopes = arena_take(&job->arena, count * sizeof *scopes);
    if (!scopes)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        struct scope scope = { .kind = SCOPE_CHUNK, .name = job->keys[i] };
        char text[SCOPE_TEXT_MAX + 1];
        scopes[i] = arena_copy(&job->arena, view_of(scope_text(&scope, text))).data;
        if (!scopes[i])
            return error_no_memory(error);
    }
    *ret_scopes = scopes;
    return HF_OK;
}

/* HELD when somebody else has one of the chunks. */
static enum hf_status lease(struct job *job, struct hf_error *error)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    const char **scopes = NULL;
    options.ttl_ms = job->settings.ttl_ms;
    options.output = job->report->output;
    options.level = job->order->level;
    enum hf_status status = make_scopes(job, &scopes, error);
    if (status == HF_OK)
        status = hf_lock_new_many(job->shelf->client, scopes, job->order->count, &options,
                                  &job->lock, error);
    if (status == HF_OK)
        status = hf_lock_acquire(job->lock, /* wait_ms */ 0, error);
    return status;
}

/* Settles the leases that are over and touch our chunks: those of dead workers, and our own
 * once it has failed. */
static enum hf_status settle(struct job *job, uint64_t *ret_settled, struct hf_error *error)
{
    struct tend_report tended = { 0 };
    enum hf_status status = tend_settle(job->shelf, layout_home(job->keys[0]), job->keys,
                                        job->order->count, &tended, error);
    *ret_settled = tended.settled;
    return status;
}

/* Condemns our own output, and counts against whom the job's end blames; or learns that the commit
 * happened. */
static enum hf_status condemn_output(struct job *job, enum blame blame, struct view culprit,
                                     enum condemned *ret_answer)
{
    struct view output = view_of(job->report->output);
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = &output,
                             .key_count = 1,
                             .blame = blame,
                             .sources = job->keys,
                             .source_count = job->order->count,
                             .culprit = culprit,
                             .reason = view_of(job->report->error.why),
                             .ret_condemned = ret_answer };
    return slot_apply(job->order->slot, &op, (struct mono_time){ 0 });
}

/* Ends the lease of a job that came to nothing. We condemn the output ourselves before: if our
 * lease was taken for that of a dead worker meanwhile, whoever settles it would blame the group.
 * The note says the same, for one who does it in our place. Where nothing was put, and nobody is to
 * blame, there is nothing to condemn: a worker that fails again and again leaves nothing. */
static void give_up(struct job *job, enum blame blame, struct view culprit)
{
    struct buffer text = BUFFER_INIT(2 * (size_t)NOTE_BYTES_MAX);
    struct job_note note = { .blame = blame,
                             .culprit = culprit,
                             .why = view_of(job->report->error.why),
                             .unsent =
                                 blame == BLAME_NOBODY && !job->report->product.put_sent };
    struct hf_error ignored;
    enum condemned answer;
    uint64_t settled;
    if (!note.unsent && job->report->end != JOB_UNSURE)
        condemn_output(job, blame, culprit, &answer);
    const char *words = job_note_encode(&note, &text) ? buffer_text(&text) : NULL;
    hf_lock_fail(job->lock, words, &ignored);
    buffer_release(&text);
    if (job->report->end != JOB_UNSURE) /* it has been asked in vain just now */
        settle(job, &settled, &ignored);
}

/* ---- The merge ----------------------------------------------------------------------- */

static bool may_go_on(void *argument, uint64_t done, uint64_t total)
{
    struct job *job = argument;
    const struct job_options *options = job->options;
    if (options->go_on && !options->go_on(options->argument, done, total))
        job->told_to_stop = true;
    else if (hf_lock_check(job->lock, NULL) != HF_OK)
        job->lease_gone = true;
    return !job->told_to_stop && !job->lease_gone;
}

static enum hf_status forge(struct job *job, struct hf_error *error)
{
    const struct order *order = job->order;
    struct forge_source *sources = arena_take(&job->arena, order->count * sizeof *sources);
    if (!sources)
        return error_no_memory(error);
    for (size_t i = 0; i < order->count; i++)
        sources[i] = (struct forge_source){ .key = order->sources[i].key,
                                            .size = order->sources[i].size,
                                            .rows_known = order->sources[i].rows_known,
                                            .rows = order->sources[i].rows,
                                            .crc32c = order->sources[i].crc32c };
    struct forge_order asked = { .settings = &job->settings,
                                 .sources = sources,
                                 .source_count = order->count,
                                 .output = view_of(job->report->output),
                                 .memory_bytes = job->options->memory_bytes,
                                 .level = order->level,
                                 .go_on = may_go_on,
                                 .argument = job };
    if (!may_go_on(job, 0, 2 * order->bytes))
        return error_set(error, HF_CANCELLED, "stopped before it began");
    enum hf_status status = job->forge->make(job->forge, &asked, &job->report->product, error);
    job->report->bytes_merged = job->report->product.bytes_read;
    return status;
}

/* What a forge says must add up, whoever made it. */
static enum hf_status check_rows(const struct job *job, struct hf_error *error)
{
    const struct forge_product *product = &job->report->product;
    bool all_known = true;
    for (size_t i = 0; i < job->order->count; i++)
        all_known &= job->order->sources[i].rows_known;
    if (!product->rows_known)
        return HF_OK;
    if (product->rows_in !=
        product->rows_out + product->rows_superseded + product->rows_rejected)
        return error_set(error, HF_CORRUPT,
                         "the rows do not add up: %" PRIu64 " in, %" PRIu64 " out, %" PRIu64
                         " superseded, %" PRIu64 " rejected",
                         product->rows_in, product->rows_out, product->rows_superseded,
                         product->rows_rejected);
    if (all_known && product->rows_in != job->order->rows)
        return error_set(error, HF_CORRUPT,
                         "%" PRIu64 " rows were merged, but the catalog has %" PRIu64,
                         product->rows_in, job->order->rows);
    return HF_OK;
}

struct liveness {
    struct view key;
    bool live;
};

static void look_whether_live(void *argument, const struct catalog *catalog,
                              const struct evidence *evidence)
{
    struct liveness *seen = argument;
    (void)evidence;
    seen->live = catalog_find(catalog, seen->key) != NULL;
}

/* A source whose object is gone: a chunk that is still data has been lost, any other was
 * merged or retired by somebody else. */
static enum job_end judge_missing(struct job *job, struct view key, enum blame *blame)
{
    struct liveness seen = { .key = key };
    struct hf_error error;
    if (slot_show(job->order->slot, look_whether_live, &seen, &error) != HF_OK)
        return JOB_FAILED; /* nobody knows: nobody is blamed */
    if (!seen.live)
        return JOB_PASSED;
    *blame = BLAME_CHUNK;
    return JOB_FAILED;
}

/* The forge failed: whose fault, and what that makes of the job. */
static void end_unforged(struct job *job, const struct hf_error *error)
{
    struct job_report *report = job->report;
    const struct forge_product *product = &report->product;
    struct view culprit = VIEW("");
    report->error = *error;
    report->blame = BLAME_NOBODY;
    report->end = JOB_FAILED;
    if (job->told_to_stop)
        report->end = JOB_STOPPED;
    else if (job->lease_gone) {
        report->end = JOB_LOST;
        error_set(&report->error, HF_LOST, "the lease ended while its chunks were merged");
    } else if (product->culprit < job->order->count) {
        culprit = job->keys[product->culprit];
        if (error->status == HF_NOT_FOUND)
            report->end = judge_missing(job, culprit, &report->blame);
        else
            report->blame = BLAME_CHUNK;
    } else if (product->group_fault)
        report->blame = BLAME_GROUP;
    give_up(job, report->blame, culprit);
}

/* ---- The commit ---------------------------------------------------------------------- */

static struct chunk target_of(const struct job *job)
{
    const struct forge_product *product = &job->report->product;
    struct chunk target = { .key = view_of(job->report->output),
                            .level = job->order->level,
                            .size = product->size,
                            .rows_known = product->rows_known,
                            .rows = product->rows_out,
                            .crc32c = product->crc32c,
                            .writer = VIEW(""),
                            .quarantine = VIEW(""),
                            .rejects = product->rows_rejected };
    times_of(job->order, &target.min_ms, &target.max_ms);
    return target;
}

/* Nobody knows whether the commit happened, or it certainly has not and may not any more:
 * whoever condemns the output is told. */
static enum job_end ask_whether_committed(struct job *job, struct hf_error *error)
{
    enum condemned answer = CONDEMN_DONE;
    if (!RULE(UNSURE_COMMIT_IS_ASKED)) {
        struct delete_call call = { .key = view_of(job->report->output) };
        store_delete(job->shelf->store, &call);
        return JOB_LOST;
    }
    if (condemn_output(job, BLAME_NOBODY, VIEW(""), &answer) != HF_OK) {
        error_prefix(error, "the commit had no answer");
        return JOB_UNSURE;
    }
    return answer == CONDEMN_HAPPENED ? JOB_COMMITTED : JOB_LOST;
}

static enum job_end commit(struct job *job, struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_COMMIT,
                             .keys = job->keys,
                             .key_count = job->order->count,
                             .target = target_of(job),
                             .drawn = job->drawn };
    enum hf_status status = slot_apply(job->order->slot, &op, (struct mono_time){ 0 });
    *error = op.error;
    if (status == HF_OK)
        return JOB_COMMITTED;
    job->took_too_long = status == HF_EXPIRED;
    if (status == HF_CONFLICT || status == HF_EXPIRED)
        return JOB_LOST;
    return status == HF_INVALID ? JOB_FAILED : ask_whether_committed(job, error);
}

static void finish(struct job *job)
{
    struct job_report *report = job->report;
    struct hf_error error = { .status = HF_OK };
    if (hf_lock_check(job->lock, &error) == HF_OK)
        report->end = commit(job, &error);
    else
        report->end = JOB_LOST;
    if (report->end == JOB_COMMITTED) {
        hf_lock_complete(job->lock, /* note */ NULL,
                         &error); /* else whoever settles it finds out */
        error_clear(&report->error);
        return;
    }
    report->error = error;
    /* A group that takes longer than a name is good for will do so again: a smaller one may not. */
    report->blame = job->took_too_long ? BLAME_GROUP : BLAME_NOBODY;
    give_up(job, report->blame, VIEW(""));
}

/* ---- The steps ----------------------------------------------------------------------- */

/* Takes the lease, unless there is nothing to do. False: the report says how it ended. */
static bool take_lease(struct job *job)
{
    struct job_report *report = job->report;
    bool holds = false;
    enum hf_status status = look_again(job, &holds, &report->error);
    if (status == HF_OK && !holds) {
        report->end = JOB_PASSED;
        return false;
    }
    if (status == HF_OK)
        status = draw_output(job, &report->error);
    if (status == HF_OK)
        status = lease(job, &report->error);
    if (status != HF_OK)
        report->end = status == HF_HELD ? JOB_HELD : JOB_FAILED;
    return status == HF_OK;
}

/* With the lease held: what the dead have left is settled, and the catalog looked at once
 * more. */
static bool guard(struct job *job)
{
    struct job_report *report = job->report;
    bool holds = false;
    enum hf_status status = settle(job, &report->took_over, &report->error);
    if (status == HF_OK)
        status = look_again(job, &holds, &report->error);
    if (status == HF_OK && holds)
        return true;
    report->end = status == HF_OK ? JOB_PASSED : JOB_FAILED;
    give_up(job, BLAME_NOBODY, VIEW(""));
    return false;
}

static void work(struct job *job)
{
    struct job_report *report = job->report;
    struct hf_error error = { .status = HF_OK };
    if (!take_lease(job) || !guard(job))
        return;
    enum hf_status status = forge(job, &error);
    if (status == HF_OK && check_rows(job, &error) != HF_OK) {
        status = error.status;
        report->product.culprit = FORGE_NOBODY;
        report->product.group_fault = true;
    }
    if (status == HF_OK)
        finish(job);
    else
        end_unforged(job, &error);
}

static void keep_record(const struct job *job)
{
    const struct job_report *report = job->report;
    const struct forge_product *product = &report->product;
    struct evidence evidence = { .nonce = VIEW("") };
    struct hf_error ignored;
    if (report->end == JOB_HELD || report->end == JOB_PASSED)
        return;
    clock_evidence(&job->shelf->client->clock, &evidence);
    bool committed = report->end == JOB_COMMITTED;
    struct job_record record = { .id = view_of(report->output),
                                 .worker = view_of(job->shelf->client->holder),
                                 .end = view_of(job_end_name(report->end)),
                                 .why = view_of(report->error.why),
                                 .level = job->order->level,
                                 .sources = job->order->count,
                                 .bytes_in = job->order->bytes,
                                 .bytes_out = committed ? product->size : 0,
                                 .rows_in = committed ? product->rows_in : 0,
                                 .rows_out = committed ? product->rows_out : 0,
                                 .rows_superseded = committed ? product->rows_superseded : 0,
                                 .rows_rejected = committed ? product->rows_rejected : 0,
                                 .took_ms = report->took.us / 1000,
                                 .ended = stamp_now(&evidence),
                                 .ended_at = evidence.wall };
    jobs_note(job->shelf, &record, &ignored);
}

void job_run(struct shelf *shelf, struct forge *forge, const struct order *order,
             const struct job_options *options, struct job_report *ret_report)
{
    struct job job = { .shelf = shelf,
                       .forge = forge,
                       .order = order,
                       .options = options,
                       .report = ret_report,
                       .arena = ARENA_INIT };
    struct mono_time started = env_now(shelf->env);
    check(order->count > 0);
    *ret_report =
        (struct job_report){ .end = JOB_FAILED, .product = { .culprit = FORGE_NOBODY } };
    job.keys = arena_take(&job.arena, order->count * sizeof *job.keys);
    for (size_t i = 0; i < order->count && job.keys; i++)
        job.keys[i] = order->sources[i].key;
    if (job.keys)
        work(&job);
    else
        error_no_memory(&ret_report->error);
    hf_lock_free(job.lock);
    ret_report->took = mono_since(env_now(shelf->env), started);
    if (options->keep_record && job.keys)
        keep_record(&job);
    arena_release(&job.arena);
}
