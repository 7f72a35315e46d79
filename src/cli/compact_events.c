/* compact_events.c: what a worker tells while it works, as JSON and in words. */
#include "cli/compact_events.h"

#include "base/parse.h"
#include "cli/compact.h"
#include "cli/lock.h"

#include <inttypes.h>

/* ---- As JSON ------------------------------------------------------------------------- */

static void add_tended(json_t **object, const struct hf_compact_totals *tended)
{
    json_add_count(object, "settled", tended->settled);
    json_add_count(object, "condemned", tended->condemned);
    json_add_count(object, "retired", tended->retired);
    json_add_count(object, "reaped", tended->reaped);
    json_add_count(object, "deleted", tended->deleted);
    json_add_count(object, "pinned", tended->pinned);
    json_add_count(object, "dropped", tended->dropped);
}

json_t *totals_as_json(const struct hf_compact_totals *totals)
{
    json_t *object = json_object(), *tended = json_object();
    json_add_count(&object, "groups_planned", totals->groups_planned);
    json_add_count(&object, "planned_bytes", totals->bytes_planned);
    json_add_count(&object, "groups_committed", totals->groups_committed);
    json_add_count(&object, "groups_failed", totals->groups_failed);
    json_add_count(&object, "groups_lost", totals->groups_lost);
    json_add_count(&object, "done_bytes", totals->bytes_done);
    json_add_count(&object, "wasted_bytes", totals->bytes_in_vain);
    json_add_count(&object, "rows_in", totals->rows_in);
    json_add_count(&object, "rows_out", totals->rows_out);
    json_add_count(&object, "rows_superseded", totals->rows_superseded);
    json_add_count(&object, "rows_expired", totals->rows_expired);
    json_add_count(&object, "rows_rejected", totals->rows_rejected);
    json_add_count(&object, "claims", totals->claims);
    json_add_count(&object, "claims_held", totals->claims_held);
    json_add_count(&object, "takeovers", totals->takeovers);
    add_tended(&tended, totals);
    json_add(&object, "tended", tended);
    return object;
}

static void add_group(json_t **object, const struct hf_compact_group *order)
{
    json_t *sources = json_array();
    for (size_t i = 0; i < order->source_count; i++)
        json_push(&sources, json_string(order->sources[i]));
    json_add(object, "partition", json_string(order->partition));
    json_add_count(object, "level", order->level);
    json_add_bool(object, "forced", order->forced);
    json_add_count(object, "input_bytes", order->bytes);
    json_add_count(object, "rows", order->rows);
    json_add(object, "sources", sources);
}

static const char *blame_name(enum hf_compact_blame blame)
{
    static const char *const names[] = { [HF_COMPACT_BLAME_NOBODY] = "nobody",
                                         [HF_COMPACT_BLAME_GROUP] = "group",
                                         [HF_COMPACT_BLAME_CHUNK] = "chunk" };
    return names[blame];
}

static void add_result(json_t **object, const struct hf_compact_result *report)
{
    json_add(object, "end", json_string(hf_compact_end_name(report->end)));
    json_add_words(object, "output", view_of(report->output));
    json_add_count(object, "merged_bytes", report->merged_bytes);
    json_add_span(object, "took_ms", SPAN_MS(report->took_ms));
    json_add_count(object, "took_over", report->took_over);
    if (report->end == HF_COMPACT_END_COMMITTED) {
        json_add_count(object, "output_bytes", report->output_bytes);
        json_add_count(object, "rows_in", report->rows_in);
        json_add_count(object, "rows_out", report->rows_out);
        json_add_count(object, "rows_superseded", report->rows_superseded);
        json_add_count(object, "rows_rejected", report->rows_rejected);
        if (report->rejects[0])
            json_add_key(object, "rejects", view_of(report->rejects));
    }
    if (report->error.status == HF_OK)
        return;
    json_add(object, "status", json_string(hf_status_name(report->error.status)));
    json_add_words(object, "why", view_of(report->error.why));
    json_add(object, "blame", json_string(blame_name(report->blame)));
}

json_t *event_as_json(const struct hf_compact_event *event)
{
    json_t *object = json_object();
    json_add(&object, "event", json_string(hf_compact_event_name(event->kind)));
    if (event->group)
        add_group(&object, event->group);
    if (event->result)
        add_result(&object, event->result);
    else if (event->kind == HF_COMPACT_PAUSED || event->kind == HF_COMPACT_TROUBLE)
        json_add_words(&object, "why", view_of(event->why));
    json_add(&object, "totals", totals_as_json(event->totals));
    return object;
}

/* ---- In words ------------------------------------------------------------------------ */

static void tell_group(struct output *out, const char *verb,
                       const struct hf_compact_group *order)
{
    char size[SIZE_TEXT_MAX];
    output_print(out, "%s L%u of %zu chunk%s, %s", verb, order->level, order->source_count,
                 plural(order->source_count), size_text(order->bytes, size));
}

static void tell_rows(struct output *out, uint64_t in, uint64_t rows_out, uint64_t superseded,
                      uint64_t rejected)
{
    output_print(out,
                 "%" PRIu64 " row%s in, %" PRIu64 " out, %" PRIu64 " superseded, %" PRIu64
                 " rejected",
                 in, plural(in), rows_out, superseded, rejected);
}

static void tell_end(struct output *out, const struct hf_compact_event *event)
{
    const struct hf_compact_result *report = event->result;
    char span[SPAN_TEXT_MAX];
    tell_group(out, hf_compact_end_name(report->end), event->group);
    if (report->end == HF_COMPACT_END_COMMITTED) {
        output_print(out, " in %s: ", brief_text(SPAN_MS(report->took_ms), span));
        tell_rows(out, report->rows_in, report->rows_out, report->rows_superseded,
                  report->rows_rejected);
        if (report->rejects[0]) {
            output_text(out, ", kept in ");
            output_key(out, view_of(report->rejects));
        }
    } else if (report->error.status != HF_OK) {
        output_print(out, ": %s: ", hf_status_name(report->error.status));
        output_words(out, view_of(report->error.why));
    }
    output_text(out, "\n");
}

static void tell_tended(struct output *out, const struct hf_compact_totals *tended)
{
    const struct {
        const char *what;
        uint64_t count;
    } parts[] = { { "settled", tended->settled }, { "condemned", tended->condemned },
                  { "retired", tended->retired }, { "reaped", tended->reaped },
                  { "deleted", tended->deleted }, { "pinned", tended->pinned },
                  { "dropped", tended->dropped } };
    const char *between = "tended, in all: ";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].count == 0)
            continue;
        output_print(out, "%s%" PRIu64 " %s", between, parts[i].count, parts[i].what);
        between = ", ";
    }
    output_text(out, "\n");
}

void tell_event(struct output *out, const struct hf_compact_event *event)
{
    char size[SIZE_TEXT_MAX];
    switch (event->kind) {
    case HF_COMPACT_PLANNED:
        output_text(out, "planned ");
        output_count(out, event->totals->groups_planned, "group");
        output_print(out, ", %s\n", size_text(event->totals->bytes_planned, size));
        break;
    case HF_COMPACT_STARTED:
        tell_group(out, "started", event->group);
        output_text(out, "\n");
        break;
    case HF_COMPACT_ENDED: tell_end(out, event); break;
    case HF_COMPACT_TENDED: tell_tended(out, event->totals); break;
    case HF_COMPACT_PAUSED:
    case HF_COMPACT_TROUBLE:
        output_print(out, "%s: ", hf_compact_event_name(event->kind));
        output_words(out, view_of(event->why));
        output_text(out, "\n");
        break;
    case HF_COMPACT_NEEDED:
    case HF_COMPACT_PROGRESS:
    case HF_COMPACT_EVENT_COUNT: break;
    }
}

static uint64_t rate(uint64_t bytes, struct span took)
{
    return took.us > 0 ? (uint64_t)((double)bytes * 1e6 / (double)took.us) : bytes;
}

/* "compacted 27 groups, 12.5 MiB in 3s, 4.2 MiB/s: 4000 rows in, ..." */
void tell_totals(struct output *out, const struct hf_compact_totals *totals, struct span took)
{
    char size[SIZE_TEXT_MAX], speed[SIZE_TEXT_MAX], span[SPAN_TEXT_MAX];
    output_text(out, "compacted ");
    output_count(out, totals->groups_committed, "group");
    output_print(out, ", %s in %s, %s/s: ", size_text(totals->bytes_done, size),
                 brief_text(took, span), size_text(rate(totals->bytes_done, took), speed));
    tell_rows(out, totals->rows_in, totals->rows_out, totals->rows_superseded,
              totals->rows_rejected);
    if (totals->rows_expired > 0)
        output_print(out, ", %" PRIu64 " expired", totals->rows_expired);
    if (totals->groups_failed > 0)
        output_print(out, "; %" PRIu64 " failed", totals->groups_failed);
    if (totals->groups_lost > 0)
        output_print(out, "; %" PRIu64 " lost", totals->groups_lost);
    if (totals->bytes_in_vain > 0)
        output_print(out, "; %s merged in vain", size_text(totals->bytes_in_vain, size));
    output_text(out, "\n");
}
