/* compact_status.c: `compact status`: how a partition is, gathered from its catalogs, lease
 * tables, records of jobs, and the roster of its workers. */
#include "cli/compact_status.h"
#include "base/parse.h"
#include "cli/compact.h"
#include "lock/chunks.h"

#include <stdio.h>

/* ---- Catalogs ------------------------------------------------------------------------ */

static void count_chunk(struct overview *view, const struct chunk *chunk)
{
    unsigned level = chunk->level < CASCADE_LEVELS_MAX ? chunk->level : CASCADE_LEVELS_MAX - 1;
    struct level_sum *sum = &view->levels[level];
    sum->chunks++;
    sum->bytes += chunk->size;
    sum->rows += chunk->rows_known ? chunk->rows : 0;
    if (chunk->quarantine.size > 0) {
        view->quarantined_count++;
        if (view->quarantined_count <= SHOWN_MAX)
            json_push(&view->quarantined, chunk_as_json(chunk));
    }
}

static void count_dead(struct overview *view, const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        view->tombstones += grave->count;
        for (size_t j = 0; j < grave->count; j++)
            view->tombstone_bytes += grave->chunks[j].size;
    }
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        *(removal->how == DELETING_RETIRED ? &view->retired : &view->condemned) +=
            removal->count;
    }
}

static json_t *catalog_as_json(const struct slot *slot, const struct catalog *catalog)
{
    json_t *object = json_object();
    json_add(&object, "partition", json_string(slot->partition));
    json_add_count(&object, "depth", catalog->depth);
    json_add_count(&object, "chunks", catalog->live_count);
    json_add_count(&object, "live_bytes", catalog->live_bytes);
    json_add_count(&object, "dead", catalog->dead_count);
    json_add_count(&object, "dead_bytes", catalog->dead_bytes);
    json_add_count(&object, "writers", catalog->writer_count);
    json_add_bool(&object, "split", catalog->child_count > 0);
    json_add_count(&object, "pressure", catalog_pressure(catalog));
    json_add_bool(&object, "clogged", catalog_is_clogged(catalog));
    return object;
}

/* Whether more is due than is planned by others already does not matter here. */
static enum hf_status count_due(struct overview *view, const struct catalog *catalog)
{
    struct plan plan;
    struct plan_options options = { .is_leased = chunk_is_leased, .argument = &view->leased };
    enum hf_status status = plan_make(catalog, &options, &plan, &view->desk->cli->error);
    if (status != HF_OK)
        return status;
    view->due_groups += plan.count;
    view->due_bytes += plan.bytes;
    plan_release(&plan);
    return HF_OK;
}

static void look_at_command(struct overview *view, const struct compact_settings *settings)
{
    const char *program;
    struct hf_error why;
    if (settings->command.size == 0 || view->needs_allow_exec ||
        allow_exec_find(&view->allowed, settings->command, &program, &why) != HF_DENIED)
        return;
    view->needs_allow_exec = true;
    snprintf(view->needs_why, sizeof view->needs_why, "%s", why.why);
}

static enum hf_status look_at_catalog(void *argument, struct slot *slot,
                                      const struct catalog *catalog,
                                      const struct evidence *evidence)
{
    struct overview *view = argument;
    (void)evidence;
    if (view->catalog_count++ == 0)
        view->settings = settings_as_json(&catalog->settings);
    if (view->catalog_count == 1)
        view->backlog_max = catalog->settings.backlog_max;
    look_at_command(view, &catalog->settings);
    for (size_t i = 0; i < catalog->live_count; i++)
        count_chunk(view, &catalog->live[i]);
    count_dead(view, catalog);
    uint64_t pressure = catalog_pressure(catalog);
    view->pressure = pressure > view->pressure ? pressure : view->pressure;
    json_push(&view->catalogs, catalog_as_json(slot, catalog));
    return count_due(view, catalog);
}

/* ---- Jobs under way ------------------------------------------------------------------ */

static json_t *lease_as_job(const struct lease_table *table, const struct lease *lease,
                            const struct evidence *evidence)
{
    json_t *object = json_object();
    struct span left = lease_left(lease, evidence);
    json_add(&object, "state",
             json_string(
                 hf_lease_state_name(lease_shown_state(&table->settings, lease, evidence))));
    json_add_words(&object, "holder", lease->holder);
    json_add_count(&object, "level", lease->level);
    json_add_count(&object, "chunks", lease->scope_count);
    json_add_words(&object, "output", lease->output);
    json_add_count(&object, "token", lease->token);
    json_add_count(&object, "renewals", lease->renewals);
    json_add(&object, "held_ms",
             json_integer((json_int_t)(lease_held(lease, evidence).us / 1000)));
    json_add(&object, "expires_in_ms", json_integer((json_int_t)(left.us / 1000)));
    return object;
}

static bool is_pin(const struct lease *lease)
{
    return lease->scope_count > 0 && lease->scopes[0].kind == SCOPE_PIN;
}

static void note_barrier(struct overview *view, const struct lease_table *table,
                         const struct lease *lease, const struct evidence *evidence)
{
    struct buffer text = BUFFER_INIT(HF_WHY_MAX);
    enum lease_proof proof;
    struct mono_time end = lease_provable_at(&table->settings, lease, evidence, &proof);
    append_barrier_words(&text, lease->holder, lease->acquired_at,
                         mono_since(end, evidence->now));
    snprintf(view->blocked, sizeof view->blocked, "%.*s", VIEW_ARGS(buffer_view(&text)));
    buffer_release(&text);
}

static void look_at_leases(void *argument, const struct lease_table *table,
                           const struct evidence *evidence)
{
    struct overview *view = argument;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        bool over = chunks_lease_over(table, lease, evidence);
        if (!over && is_pin(lease))
            view->pins++;
        else if (!over && lease_is_barrier(lease))
            note_barrier(view, table, lease, evidence);
        else if (!over)
            json_push(&view->jobs, lease_as_job(table, lease, evidence));
        else if (lease->output.size > 0 && lease->status != LEASE_COMPLETED)
            view->unsettled++;
    }
}

/* A table that cannot be read hides who is at work, and nothing else. */
static enum hf_status look_at_tables(struct overview *view)
{
    struct desk *desk = view->desk;
    struct catalog_names names;
    enum hf_status status = catalog_names_read(desk, &names);
    if (status == HF_OK)
        status = leased_chunks_read(desk, &names, &view->leased);
    for (size_t i = 0; i < names.count && status == HF_OK; i++) {
        status =
            chunks_look(desk->client, names.names[i], look_at_leases, view, &desk->cli->error);
        if (status == HF_CORRUPT) /* that was told */
            status = error_clear(&desk->cli->error);
    }
    catalog_names_release(&names);
    return status;
}

/* ---- Jobs of the last hour ----------------------------------------------------------- */

static json_t *record_as_json(const struct job_record *record)
{
    json_t *object = json_object();
    json_add_words(&object, "id", record->id);
    json_add_words(&object, "worker", record->worker);
    json_add_words(&object, "end", record->end);
    json_add_words(&object, "why", record->why);
    json_add_count(&object, "level", record->level);
    json_add_count(&object, "sources", record->sources);
    json_add_count(&object, "input_bytes", record->bytes_in);
    json_add_count(&object, "output_bytes", record->bytes_out);
    json_add_count(&object, "rows_in", record->rows_in);
    json_add_count(&object, "rows_out", record->rows_out);
    json_add_count(&object, "rows_superseded", record->rows_superseded);
    json_add_count(&object, "rows_expired", record->rows_expired);
    json_add_count(&object, "rows_rejected", record->rows_rejected);
    json_add(&object, "took_ms", json_integer((json_int_t)record->took_ms));
    json_add_time_ms(&object, "ended_at", record->ended_at.us / 1000);
    return object;
}

static void count_record(struct overview *view, const struct job_record *record)
{
    if (view_equal(record->end, view_of(job_end_name(JOB_COMMITTED)))) {
        view->committed++;
        view->committed_bytes += record->bytes_in;
        view->committed_ms += record->took_ms;
    } else if (view_equal(record->end, view_of(job_end_name(JOB_FAILED)))) {
        view->failed++;
        snprintf(view->last_failure, sizeof view->last_failure, "%.*s",
                 VIEW_ARGS(view_first(record->why, sizeof view->last_failure - 1)));
    } else if (view_equal(record->end, view_of(job_end_name(JOB_LOST)))) {
        view->lost++;
    }
    json_push(&view->records, record_as_json(record));
}

static enum hf_status look_at_records(struct overview *view)
{
    struct arena arena = ARENA_INIT;
    struct job_record *records = NULL;
    size_t count = 0;
    enum hf_status status =
        jobs_read(view->desk->shelf, &arena, &records, &count, &view->desk->cli->error);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        count_record(view, &records[i]);
    arena_release(&arena);
    return status;
}

/* ---- Members ------------------------------------------------------------------------- */

/* Of workers that were not told another. */
#define BEAT_USUAL SPAN_S(10)

static json_t *member_as_json(const struct member *member)
{
    json_t *object = json_object();
    json_add_key(&object, "member", member->fingerprint);
    json_add_time_ms(&object, "modified_at", member->modified.us / 1000);
    return object;
}

static enum hf_status look_at_members(struct overview *view)
{
    struct cli *cli = view->desk->cli;
    struct arena arena = ARENA_INIT;
    struct member *members = NULL;
    size_t count = 0;
    char group[ROSTER_GROUP_MAX + 1];
    snprintf(group, sizeof group, "compact-%s", view->desk->shelf->partition);
    enum hf_status status = roster_members(cli->store, view_of(group), BEAT_USUAL, &arena,
                                           &members, &count, &cli->error);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        if (members[i].present) {
            view->present++;
            json_push(&view->members, member_as_json(&members[i]));
        }
    arena_release(&arena);
    return status;
}

/* ---- All of it ----------------------------------------------------------------------- */

/* The catalogs come last: one that cannot be read leaves the rest worth telling. */
static enum hf_status gather(struct overview *view)
{
    struct desk *desk = view->desk;
    struct hf_error *error = &desk->cli->error;
    enum hf_status status = shelf_is_paused(desk->shelf, &view->paused, view->why, error);
    if (status == HF_OK)
        status = look_at_tables(view);
    if (status == HF_OK)
        status = look_at_records(view);
    if (status == HF_OK)
        status = look_at_members(view);
    if (status == HF_OK)
        status = desk_walk(desk, look_at_catalog, view);
    return leased_chunks_judge(desk->cli, &view->leased, status);
}

enum hf_status run_compact_status(struct cli *cli)
{
    struct desk desk;
    struct overview view = { .desk = &desk,
                             .leased = LEASED_CHUNKS_INIT,
                             .quarantined = json_array(),
                             .catalogs = json_array(),
                             .jobs = json_array(),
                             .records = json_array(),
                             .members = json_array() };
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = take_allow_exec(cli, &view.allowed);
    if (status == HF_OK)
        status = gather(&view);
    if (status == HF_OK || (cli->reported && view.catalog_count > 0)) {
        if (cli->json)
            overview_tell_json(&view);
        else
            overview_tell(&view);
    }
    json_decref(view.settings);
    json_decref(view.quarantined);
    json_decref(view.catalogs);
    json_decref(view.jobs);
    json_decref(view.records);
    json_decref(view.members);
    leased_chunks_release(&view.leased);
    desk_close(&desk);
    return status;
}
