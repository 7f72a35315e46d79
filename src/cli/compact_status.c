/* compact_status.c: `compact status`: how a partition is, gathered. */
#include "cli/compact_status.h"

#include "base/parse.h"

static bool add_job(void *argument, const struct hf_compact_job_info *job)
{
    struct overview *view = argument;
    json_t *object = json_object();
    json_add(&object, "state", json_string(job->state));
    json_add_words(&object, "holder", view_of(job->holder));
    json_add_count(&object, "level", job->level);
    json_add_count(&object, "chunks", job->chunks);
    json_add_words(&object, "output", view_of(job->output));
    json_add_count(&object, "token", job->token);
    json_add_count(&object, "renewals", job->renewals);
    json_add(&object, "held_ms", json_integer((json_int_t)job->held_ms));
    json_add(&object, "expires_in_ms", json_integer((json_int_t)job->expires_in_ms));
    json_push(&view->jobs, object);
    return true;
}

static bool add_record(void *argument, const struct hf_compact_record *record)
{
    struct overview *view = argument;
    json_t *object = json_object();
    json_add_words(&object, "id", view_of(record->id));
    json_add_words(&object, "worker", view_of(record->worker));
    json_add_words(&object, "end", view_of(record->end));
    json_add_words(&object, "why", view_of(record->why));
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
    json_add_time_ms(&object, "ended_at", record->ended_ms);
    json_push(&view->records, object);
    return true;
}

static bool add_catalog(void *argument, const struct hf_compact_catalog *catalog)
{
    struct overview *view = argument;
    json_t *object = json_object();
    json_add(&object, "partition", json_string(catalog->partition));
    json_add_count(&object, "depth", catalog->depth);
    json_add_count(&object, "chunks", catalog->chunks);
    json_add_count(&object, "live_bytes", catalog->live_bytes);
    json_add_count(&object, "dead", catalog->dead);
    json_add_count(&object, "dead_bytes", catalog->dead_bytes);
    json_add_count(&object, "writers", catalog->writers);
    json_add_bool(&object, "split", catalog->split);
    json_add_count(&object, "pressure", catalog->pressure);
    json_add_bool(&object, "clogged", catalog->clogged);
    json_push(&view->catalogs, object);
    return true;
}

static bool add_member(void *argument, const struct hf_compact_member *member)
{
    struct overview *view = argument;
    json_t *object = json_object();
    json_add_key(&object, "member", view_of(member->fingerprint));
    json_add_time_ms(&object, "modified_at", member->modified_ms);
    json_push(&view->members, object);
    return true;
}

static bool add_quarantined(void *argument, const struct hf_chunk_info *chunk)
{
    struct overview *view = argument;
    json_push(&view->quarantined, chunk_as_json(chunk));
    return json_array_size(view->quarantined) < SHOWN_MAX;
}

/* What is named beside the sums is asked for where there is any. */
static enum hf_status gather(struct overview *view)
{
    struct desk *desk = view->desk;
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    struct hf_compact_status_options options = HF_COMPACT_STATUS_OPTIONS;
    struct hf_error ignored; /* it was told when the sums were made */
    options.each_job = add_job;
    options.each_record = add_record;
    options.each_catalog = add_catalog;
    options.each_member = add_member;
    options.argument = view;
    enum hf_status status =
        desk_end(desk, hf_compact_get_status(desk->compact, &options, &view->status,
                                             &desk->cli->error));
    if (view->status.quarantined > 0 && desk->broken.status == HF_OK)
        hf_compact_chunks(desk->compact, HF_CHUNKS_QUARANTINED, add_quarantined, view,
                          &ignored);
    if (view->status.catalogs > 0 &&
        hf_compact_get_settings(desk->compact, &settings, &ignored) == HF_OK)
        view->settings = settings_as_json(&settings);
    return status;
}

enum hf_status run_compact_status(struct cli *cli)
{
    struct desk desk = { .cli = cli };
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct overview view = { .desk = &desk,
                             .status = HF_COMPACT_STATUS,
                             .quarantined = json_array(),
                             .catalogs = json_array(),
                             .jobs = json_array(),
                             .records = json_array(),
                             .members = json_array() };
    enum hf_status status = take_allow_exec(cli, &options);
    if (status == HF_OK)
        status = desk_open_exec(&desk, cli, &options);
    if (status == HF_OK)
        status = gather(&view);
    if (status == HF_OK || (cli->reported && view.status.catalogs > 0)) {
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
    desk_close(&desk);
    return status;
}
