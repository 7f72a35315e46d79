/* SPDX-License-Identifier: Apache-2.0 */
/* compact_status.c: the status of a partition, computed from its catalogs, lease tables, merge
 * records and worker roster. A damaged part does not hide the others. */
#include "api/compact_inside.h"
#include "base/parse.h"
#include "compact/plan/plan.h"
#include "compact/work/job_note.h"
#include "compact/work/jobs.h"
#include "elect/roster.h"
#include "lock/chunks.h"

#include <assert.h>
#include <stdio.h>

static_assert(HF_COMPACT_LEVELS_MAX == CASCADE_LEVELS_MAX, "each level has its sum");

/* A worker's default heartbeat interval. */
#define BEAT_USUAL SPAN_S(10)

/* A running merge, to be reported when its table is no longer in use. */
struct noted_job {
    struct hf_compact_job_info info;
    struct view merge; /* id of the divided merge whose range it merges; empty: none */
    struct noted_job *next;
};

struct overview {
    struct hf_compact *compact;
    struct hf_compact_status_options options;
    struct hf_compact_status status;
    struct chunk_leases leases;
    struct arena arena; /* for the report */
    struct noted_job *first_job, *last_job;
    struct hf_compact_catalog catalog; /* the catalog being read */
    bool tells_catalogs;               /* true until the caller stops the reports */
    bool no_memory;
};

/* ---- Catalogs ------------------------------------------------------------------------ */

static void count_live(struct hf_compact_status *status, const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        unsigned last = HF_COMPACT_LEVELS_MAX - 1;
        struct hf_compact_level *sum =
            &status->levels[chunk->level < last ? chunk->level : last];
        sum->chunks++;
        sum->bytes += chunk->size;
        sum->rows += chunk->rows_known ? chunk->rows : 0;
        status->quarantined += chunk->quarantine.size > 0;
    }
}

static void count_dead(struct hf_compact_status *status, const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        status->tombstones += grave->count;
        for (size_t j = 0; j < grave->count; j++)
            status->tombstone_bytes += grave->chunks[j].size;
    }
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        *(removal->how == DELETING_RETIRED ? &status->retired : &status->condemned) +=
            removal->count;
    }
}

static bool count_due(struct overview *view, const struct catalog *catalog,
                      const struct evidence *evidence)
{
    struct plan plan;
    struct plan_options options = { .is_leased = chunk_leases_have,
                                    .argument = &view->leases,
                                    .evidence = evidence };
    struct hf_error ignored; /* only memory can run out */
    if (plan_make(catalog, &options, &plan, &ignored) != HF_OK)
        return false;
    view->status.due_groups += plan.count;
    view->status.due_bytes += plan.bytes;
    plan_release(&plan);
    return true;
}

/* A lease names only the range; the catalog knows its merge. */
static void complete_ranges(struct overview *view, const struct catalog *catalog)
{
    for (struct noted_job *job = view->first_job; job; job = job->next) {
        const struct divided_merge *merge = catalog_merge(catalog, job->merge);
        if (!merge)
            continue;
        job->info.chunks = merge->source_count;
        job->info.ranges = (unsigned)merge->range_count;
    }
}

static enum hf_status count_catalog(void *argument, struct catalog_ref *ref,
                                    const struct catalog *catalog,
                                    const struct evidence *evidence)
{
    struct overview *view = argument;
    struct hf_compact_status *status = &view->status;
    uint64_t pressure = catalog_pressure(catalog);
    struct hf_error why;
    status->dropping |= catalog->is_dropping;
    if (status->catalogs++ == 0)
        status->backlog_max = catalog->settings.backlog_max;
    if (!status->exec_denied && !command_may_run(view->compact, &catalog->settings, &why)) {
        status->exec_denied = true;
        snprintf(status->exec_why, sizeof status->exec_why, "%s", why.why);
    }
    count_live(status, catalog);
    count_dead(status, catalog);
    complete_ranges(view, catalog);
    status->pressure = pressure > status->pressure ? pressure : status->pressure;
    view->catalog = (struct hf_compact_catalog){ .struct_size = sizeof view->catalog,
                                                 .partition = ref->partition,
                                                 .depth = catalog->depth,
                                                 .chunks = catalog->live_count,
                                                 .live_bytes = catalog->live_bytes,
                                                 .dead = catalog->dead_count,
                                                 .dead_bytes = catalog->dead_bytes,
                                                 .writers = catalog->writer_count,
                                                 .split = catalog->child_count > 0,
                                                 .clogged = catalog_is_clogged(catalog),
                                                 .pressure = pressure };
    return count_due(view, catalog, evidence) ? HF_OK : HF_UNAVAILABLE;
}

/* Counts every catalog, even after the caller has stopped the reports. */
static bool report_catalog(void *argument)
{
    struct overview *view = argument;
    if (view->tells_catalogs)
        view->tells_catalogs =
            view->options.each_catalog(view->options.argument, &view->catalog);
    return true;
}

/* ---- Running merges ------------------------------------------------------------------ */

/* What its worker said in the last renewal, and how much longer the merge takes at that rate. */
static void tell_percent_done(const struct lease *lease, const struct evidence *evidence,
                              struct hf_compact_job_info *info)
{
    info->done_percent = job_note_percent(lease->note);
    if (info->done_percent == 0)
        return;
    struct wall_time renewed = wall_add(lease->expires_at, SPAN_US(-lease->wish.ttl.us));
    int64_t until_then = span_larger(wall_since(renewed, lease->acquired_at), SPAN_US(0)).us;
    int64_t since = wall_since(evidence->wall, renewed).us;
    int64_t left = until_then / info->done_percent * (100 - info->done_percent) - since;
    info->eta_ms = left > 0 ? left / 1000 : 0;
}

static void note_job(struct overview *view, const struct lease_table *table,
                     const struct lease *lease, const struct evidence *evidence)
{
    view->status.under_way++;
    struct noted_job *job = arena_take(&view->arena, sizeof *job);
    if (!job) {
        view->no_memory = true;
        return;
    }
    size_t range;
    job->next = NULL;
    job->merge = VIEW("");
    job->info = (struct hf_compact_job_info){
        .struct_size = sizeof job->info,
        .holder = text_in(&view->arena, lease->holder),
        .state = hf_lease_state_name(lease_shown_state(&table->settings, lease, evidence)),
        .level = (unsigned)lease->wish.level,
        .chunks = lease->wish.scope_count,
        .output = text_in(&view->arena, lease->output),
        .token = lease->token,
        .renewals = lease->renewals,
        .held_ms = lease_held(lease, evidence).us / 1000,
        .expires_in_ms = lease_left(lease, evidence).us / 1000,
    };
    tell_percent_done(lease, evidence, &job->info);
    if (lease->wish.scope_count == 1 &&
        range_lease_parse(lease->wish.scopes[0].name, &job->merge, &range)) {
        job->merge = arena_copy(&view->arena, job->merge);
        job->info.range = (unsigned)range + 1;
        job->info.chunks = 0;
    }
    view->no_memory |= !job->info.holder || !job->info.output || !job->merge.data;
    *(view->last_job ? &view->last_job->next : &view->first_job) = job;
    view->last_job = job;
}

/* "blocked: the table was damaged and replaced at 14:03 UTC; free again in 59s". Until this lease
 * has expired, nothing is granted. It has no holder. */
static void note_barrier(struct overview *view, const struct lease_table *table,
                         const struct lease *lease, const struct evidence *evidence)
{
    char time[TIME_TEXT_MAX], span[SPAN_TEXT_MAX];
    enum lease_proof proof;
    struct mono_time end = lease_provable_at(&table->settings, lease, evidence, &proof);
    struct span left = mono_since(end, evidence->now);
    int64_t unit = left.us >= 1000000 ? 1000000 : 1000;
    bool replaced = view_equal(lease->holder, VIEW(HF_TABLE_REPLACED));
    struct view by =
        replaced ? VIEW("the table was damaged and replaced") : view_first(lease->holder, 60);
    struct view minute =
        view_first(view_from(view_of(time_text(lease->acquired_at, time)), 11), 5);
    span_text(SPAN_US(left.us / unit * unit), span);
    snprintf(view->status.barred_why, sizeof view->status.barred_why,
             "blocked: %.*s at %.*s UTC; free again %s%s", VIEW_ARGS(by), VIEW_ARGS(minute),
             left.us > 0 ? "in " : "now", left.us > 0 ? span : "");
}

static void count_leases(void *argument, const struct lease_table *table,
                         const struct evidence *evidence)
{
    struct overview *view = argument;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        bool over = chunks_lease_over(table, lease, evidence);
        bool pin = lease->wish.scope_count > 0 && scope_is_passive(&lease->wish.scopes[0]);
        if (!over && pin)
            view->status.pins++;
        else if (!over && lease_is_barrier(lease))
            note_barrier(view, table, lease, evidence);
        else if (!over)
            note_job(view, table, lease, evidence);
        else if (lease->output.size > 0 && lease->status != LEASE_COMPLETED)
            view->status.unsettled++;
    }
}

/* A table that cannot be read hides only the merges of its own catalog. */
static enum hf_status read_tables(struct overview *view, struct hf_error *error)
{
    view->leases.also = count_leases;
    view->leases.argument = view;
    enum hf_status status = chunk_leases_read(view->compact, &view->leases, error);
    view->status.barred = view->leases.barred.count > 0;
    view->status.damaged = view->leases.damage.status != HF_OK;
    return status == HF_OK && view->no_memory ? error_no_memory(error) : status;
}

static void report_jobs(const struct overview *view)
{
    const struct noted_job *job = view->options.each_job ? view->first_job : NULL;
    while (job && view->options.each_job(view->options.argument, &job->info))
        job = job->next;
}

/* ---- Merges of the last hour --------------------------------------------------------- */

static void count_record(struct hf_compact_status *status, const struct job_record *record)
{
    if (view_equal(record->end, view_of(hf_compact_end_name(HF_COMPACT_END_COMMITTED)))) {
        status->committed++;
        status->committed_bytes += record->bytes_in;
        status->committed_ms += record->took_ms;
    } else if (view_equal(record->end, view_of(hf_compact_end_name(HF_COMPACT_END_FAILED)))) {
        status->failed++;
        snprintf(status->last_failure, sizeof status->last_failure, "%.*s",
                 VIEW_ARGS(view_first(record->why, sizeof status->last_failure - 1)));
    } else if (view_equal(record->end, view_of(hf_compact_end_name(HF_COMPACT_END_LOST)))) {
        status->lost++;
    }
}

static bool report_job_record(struct overview *view, const struct job_record *record)
{
    struct hf_compact_record told = {
        .struct_size = sizeof told,
        .id = text_in(&view->arena, record->id),
        .worker = text_in(&view->arena, record->worker),
        .end = text_in(&view->arena, record->end),
        .why = text_in(&view->arena, record->why),
        .level = record->level,
        .sources = record->sources,
        .bytes_in = record->bytes_in,
        .bytes_out = record->bytes_out,
        .rows_in = record->rows_in,
        .rows_out = record->rows_out,
        .rows_superseded = record->rows_superseded,
        .rows_expired = record->rows_expired,
        .rows_rejected = record->rows_rejected,
        .rows_deleted = record->rows_deleted,
        .took_ms = record->took_ms,
        .ended_ms = record->ended_at.us / 1000,
    };
    if (!told.id || !told.worker || !told.end || !told.why) {
        view->no_memory = true;
        return false;
    }
    return view->options.each_record(view->options.argument, &told);
}

static enum hf_status report_records(struct overview *view, struct hf_error *error)
{
    struct job_record *records = NULL;
    size_t count = 0;
    bool telling = view->options.each_record != NULL;
    enum hf_status status =
        jobs_read(view->compact->tree, &view->arena, &records, &count, error);
    for (size_t i = 0; i < count; i++) {
        count_record(&view->status, &records[i]);
        telling = telling && report_job_record(view, &records[i]);
    }
    return status == HF_OK && view->no_memory ? error_no_memory(error) : status;
}

/* ---- Members ------------------------------------------------------------------------- */

static enum hf_status report_members(struct overview *view, struct hf_error *error)
{
    struct member_list list = { NULL, 0 };
    char group[ROSTER_GROUP_MAX + 1];
    bool telling = view->options.each_member != NULL;
    snprintf(group, sizeof group, "compact-%s", view->compact->tree->partition);
    enum hf_status status =
        roster_members(client_store(view->compact->client), view_of(group), BEAT_USUAL,
                       /* own_beats */ true, &view->arena, &list, error);
    const struct member *members = list.members;
    for (size_t i = 0; i < list.count; i++) {
        if (!members[i].present)
            continue;
        struct hf_compact_member told = { .struct_size = sizeof told,
                                          .fingerprint =
                                              text_in(&view->arena, members[i].fingerprint),
                                          .modified_ms = members[i].modified.us / 1000 };
        view->status.members++;
        telling = telling && told.fingerprint &&
                  view->options.each_member(view->options.argument, &told);
    }
    return status;
}

/* ---- All of it ----------------------------------------------------------------------- */

/* The catalogs are read last, so if one cannot be read, the rest is reported all the same. */
static enum hf_status read_status(struct overview *view, struct hf_error *error)
{
    struct compact_walk walk = { .look = count_catalog,
                                 .told = report_catalog,
                                 .argument = view };
    enum hf_status status = catalog_tree_is_paused(view->compact->tree, &view->status.paused,
                                                   view->status.paused_why, error);
    if (status == HF_OK)
        status = read_tables(view, error);
    if (status == HF_OK)
        status = report_records(view, error);
    if (status == HF_OK)
        status = report_members(view, error);
    if (status == HF_OK)
        status = compact_walk(view->compact, &walk, error);
    if (!view->no_memory)
        report_jobs(view);
    if (status == HF_OK && view->status.damaged) {
        *error = view->leases.damage;
        status = error->status;
    }
    return status;
}

enum hf_status hf_compact_get_status(struct hf_compact *compact,
                                     const struct hf_compact_status_options *options,
                                     struct hf_compact_status *ret_status,
                                     struct hf_error *error)
{
    struct overview view = { .compact = compact,
                             .options = HF_COMPACT_STATUS_OPTIONS,
                             .status = HF_COMPACT_STATUS,
                             .leases = CHUNK_LEASES_INIT,
                             .arena = ARENA_INIT };
    struct hf_error why;
    if (ERROR_IF_NULL(&why, compact, ret_status) != HF_OK ||
        READ_OPTIONS(HF_COMPACT_STATUS_OPTIONS, options, &view.options, &why) != HF_OK ||
        CHECK_REPORT(HF_COMPACT_STATUS, ret_status, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    view.tells_catalogs = view.options.each_catalog != NULL;
    enum hf_status status = read_status(&view, &why);
    if (view.status.catalogs > 0)
        write_caller_report(ret_status, &view.status, sizeof view.status);
    chunk_leases_release(&view.leases);
    arena_release(&view.arena);
    return error_tell(error, status, &why);
}
