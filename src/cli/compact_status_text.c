/* compact_status_text.c: what `compact status` knows, as JSON and in words. */
#include "cli/compact_status.h"

#include "base/parse.h"

#include <inttypes.h>

/* ---- As JSON ------------------------------------------------------------------------- */

static json_t *levels_as_json(const struct overview *view)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < HF_COMPACT_LEVELS_MAX; i++) {
        const struct hf_compact_level *sum = &view->status.levels[i];
        if (sum->chunks == 0)
            continue;
        json_t *object = json_object();
        json_add_count(&object, "level", i);
        json_add_count(&object, "chunks", sum->chunks);
        json_add_count(&object, "size_bytes", sum->bytes);
        json_add_count(&object, "rows", sum->rows);
        json_push(&list, object);
    }
    return list;
}

static double rate(const struct overview *view)
{
    return view->status.committed_ms > 0
               ? (double)view->status.committed_bytes * 1000 / (double)view->status.committed_ms
               : 0;
}

static json_t *last_hour_as_json(struct overview *view)
{
    json_t *object = json_object();
    json_add_count(&object, "committed", view->status.committed);
    json_add_count(&object, "failed", view->status.failed);
    json_add_count(&object, "lost", view->status.lost);
    json_add_count(&object, "committed_bytes", view->status.committed_bytes);
    json_add(&object, "bytes_per_second", json_integer((json_int_t)rate(view)));
    json_add(&object, "records", json_incref(view->records));
    return object;
}

static json_t *pair(const char *a, uint64_t x, const char *b, uint64_t y)
{
    return json_pack("{s:I, s:I}", a, (json_int_t)x, b, (json_int_t)y);
}

void overview_tell_json(struct overview *view)
{
    json_t *object = json_object();
    struct view partition = partition_option(view->desk->cli);
    json_add(&object, "partition", json_stringn(partition.data, partition.size));
    json_add_bool(&object, "paused", view->status.paused);
    json_add_words(&object, "paused_why",
                   view_of(view->status.paused ? view->status.paused_why : ""));
    json_add_bool(&object, "barred", view->status.barred);
    json_add_words(&object, "barred_why", view_of(view->status.barred_why));
    json_add_bool(&object, "needs_allow_exec", view->status.exec_denied);
    json_add(&object, "settings", json_incref(view->settings));
    json_add(&object, "levels", levels_as_json(view));
    json_add(&object, "backlog",
             pair("chunks", view->status.levels[0].chunks, "most", view->status.backlog_max));
    json_add_count(&object, "pressure", view->status.pressure);
    json_add(&object, "due",
             pair("groups", view->status.due_groups, "input_bytes", view->status.due_bytes));
    json_add(&object, "under_way", json_incref(view->jobs));
    json_add_count(&object, "unsettled", view->status.unsettled);
    json_add_count(&object, "pins", view->status.pins);
    json_add(&object, "last_hour", last_hour_as_json(view));
    json_add_count(&object, "quarantined_count", view->status.quarantined);
    json_add(&object, "quarantined", json_incref(view->quarantined));
    json_add(&object, "tombstones",
             pair("chunks", view->status.tombstones, "size_bytes",
                  view->status.tombstone_bytes));
    json_add(&object, "deleting",
             pair("retired", view->status.retired, "condemned", view->status.condemned));
    json_add(&object, "members", json_incref(view->members));
    json_add(&object, "catalogs", json_incref(view->catalogs));
    output_json(&view->desk->cli->out, object);
}

/* ---- In words ------------------------------------------------------------------------ */

#define LABEL "%-12s "

/* Of a table of which nobody knows more. */
#define BARRED \
    "nothing is granted until the lease table that was damaged or restored is safe again"

static struct view text_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_string(value)
               ? (struct view){ json_string_value(value), json_string_length(value) }
               : VIEW("");
}

static json_int_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void tell_levels(struct output *out, const struct overview *view)
{
    char label[16], size[SIZE_TEXT_MAX];
    bool any = false;
    for (unsigned i = 0; i < HF_COMPACT_LEVELS_MAX; i++) {
        const struct hf_compact_level *sum = &view->status.levels[i];
        if (sum->chunks == 0)
            continue;
        any = true;
        snprintf(label, sizeof label, "level %u", i);
        output_print(out, LABEL, label);
        output_count(out, sum->chunks, "chunk");
        output_print(out, ", %s, %" PRIu64 " row%s\n", size_text(sum->bytes, size), sum->rows,
                     plural(sum->rows));
    }
    if (!any)
        output_print(out, LABEL "none\n", "chunks");
}

static void tell_jobs(struct output *out, const struct overview *view)
{
    char held[SPAN_TEXT_MAX], left[SPAN_TEXT_MAX];
    size_t i;
    json_t *job;
    output_print(out, LABEL "%zu\n", "under way", json_array_size(view->jobs));
    json_array_foreach(view->jobs, i, job)
    {
        output_text(out, "  ");
        output_words(out, text_of(job, "holder"));
        output_print(out,
                     ": L%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
                     " chunks, for %s; the lease expires in %s unless renewed\n",
                     number_of(job, "level"), number_of(job, "chunks"),
                     brief_text(SPAN_MS(number_of(job, "held_ms")), held),
                     brief_text(SPAN_MS(number_of(job, "expires_in_ms")), left));
    }
    if (view->status.unsettled > 0)
        output_print(out, LABEL "%" PRIu64 " lease%s that ended without a result\n",
                     "unsettled", view->status.unsettled, plural(view->status.unsettled));
    if (view->status.pins > 0)
        output_print(out, LABEL "%" PRIu64 "\n", "pins", view->status.pins);
}

static void tell_last_hour(struct output *out, const struct overview *view)
{
    char size[SIZE_TEXT_MAX], speed[SIZE_TEXT_MAX];
    output_print(
        out, LABEL "%" PRIu64 " committed, %" PRIu64 " failed, %" PRIu64 " lost; %s at %s/s\n",
        "last hour", view->status.committed, view->status.failed, view->status.lost,
        size_text(view->status.committed_bytes, size), size_text((uint64_t)rate(view), speed));
    if (!view->status.last_failure[0])
        return;
    output_text(out, "  failed last: ");
    output_words(out, view_of(view->status.last_failure));
    output_text(out, "\n");
}

static void tell_quarantined(struct output *out, const struct overview *view)
{
    size_t i;
    json_t *chunk;
    output_print(out, LABEL "%" PRIu64 "\n", "quarantined", view->status.quarantined);
    json_array_foreach(view->quarantined, i, chunk)
    {
        output_text(out, "  ");
        output_words(out, text_of(chunk, "key"));
        output_text(out, ": ");
        output_words(out, text_of(chunk, "quarantine"));
        output_text(out, "\n");
    }
}

static void tell_dead(struct output *out, const struct overview *view)
{
    char size[SIZE_TEXT_MAX];
    output_print(out, LABEL "%" PRIu64 " chunk%s, %s\n", "tombstones", view->status.tombstones,
                 plural(view->status.tombstones),
                 size_text(view->status.tombstone_bytes, size));
    output_print(out, LABEL "%" PRIu64 " retired, %" PRIu64 " condemned\n", "deleting",
                 view->status.retired, view->status.condemned);
}

static void tell_settings(struct output *out, const struct overview *view)
{
    const json_t *settings = view->settings;
    output_print(out, LABEL "%.*s, policy %.*s", "settings",
                 VIEW_ARGS(text_of(settings, "format")),
                 VIEW_ARGS(text_of(settings, "policy")));
    static const char *const names[] = { "key", "time", "command" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct view text = text_of(settings, names[i]);
        if (text.size == 0)
            continue;
        output_print(out, ", %s ", names[i]);
        output_words(out, text);
    }
    output_text(out, "\n");
}

void overview_tell(struct overview *view)
{
    struct output *out = &view->desk->cli->out;
    char size[SIZE_TEXT_MAX];
    output_print(out, LABEL "%.*s, in ", "partition",
                 VIEW_ARGS(partition_option(view->desk->cli)));
    output_count(out, view->status.catalogs, "catalog");
    output_text(out, "\n");
    tell_settings(out, view);
    if (view->status.paused) {
        output_print(out, LABEL, "paused");
        output_words(out, view_of(view->status.paused_why[0] ? view->status.paused_why
                                                             : "nobody said why"));
        output_text(out, "\n");
    }
    if (view->status.exec_denied) {
        output_print(out, LABEL, "command");
        output_words(out, view_of(view->status.exec_why));
        output_text(out, "\n");
    }
    if (view->status.damaged)
        output_print(out, LABEL "damaged: a run replaces it\n", "lease table");
    else if (view->status.barred)
        output_print(out, LABEL "%s\n", "lease table",
                     view->status.barred_why[0] ? view->status.barred_why : BARRED);
    tell_levels(out, view);
    output_print(out, LABEL "%" PRIu64 " of %" PRIu64 " at level 0, pressure %" PRIu64 " %%\n",
                 "backlog", view->status.levels[0].chunks, view->status.backlog_max,
                 view->status.pressure);
    output_print(out, LABEL, "due");
    output_count(out, view->status.due_groups, "group");
    output_print(out, ", %s\n", size_text(view->status.due_bytes, size));
    tell_jobs(out, view);
    tell_last_hour(out, view);
    tell_quarantined(out, view);
    tell_dead(out, view);
    output_print(out, LABEL "%" PRIu64 " present\n", "members", view->status.members);
}
