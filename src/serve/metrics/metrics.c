/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c: counts. It guards against labels that clients could choose: a status, a call or a
 * reason that is not in the tables here is counted as another one, and never becomes a label. */
#include "serve/metrics/metrics_inside.h"

#include "base/check.h"

#include <stdlib.h>

const int64_t metrics_bounds_us[METRICS_BUCKETS - 1] = { 250,      500,      1000,     2500,
                                                         5000,     10000,    25000,    50000,
                                                         100000,   250000,   1000000,  2500000,
                                                         10000000, 60000000, 600000000 };

const int metrics_codes[METRICS_CODES] = { METRICS_HUNG_UP,
                                           200,
                                           201,
                                           202,
                                           204,
                                           304,
                                           400,
                                           401,
                                           403,
                                           404,
                                           405,
                                           406,
                                           408,
                                           409,
                                           412,
                                           413,
                                           415,
                                           421,
                                           422,
                                           429,
                                           500,
                                           503,
                                           504,
                                           -1 };

const char *const metrics_class_names[METRICS_CLASSES] = {
    [METRICS_CLASS_OK] = "ok",
    [METRICS_CLASS_REFUSED] = "refused",
    [METRICS_CLASS_FAILED] = "failed",
    [METRICS_CLASS_HUNG_UP] = "hung_up",
};

void metrics_put_status(struct buffer *out, enum hf_status status)
{
    for (const char *at = hf_status_name(status); *at; at++)
        buffer_append_byte(out, *at >= 'A' && *at <= 'Z' ? (char)(*at | 0x20) : *at);
}

struct metrics *metrics_new(struct env *env)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    metrics->routes = calloc(METRICS_ROUTES_MAX, sizeof *metrics->routes);
    if (!metrics->routes) {
        free(metrics);
        return NULL;
    }
    metrics->env = env;
    metrics->started = env_wall(env);
    metrics_add_route(metrics, "none");
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (metrics)
        free(metrics->routes);
    free(metrics);
}

int64_t metrics_started_ms(const struct metrics *metrics)
{
    return metrics->started.us / 1000;
}

/* ---- Requests ------------------------------------------------------------------------ */

unsigned metrics_add_route(struct metrics *metrics, const char *path)
{
    struct view text = view_of(path);
    if (metrics->route_count == METRICS_ROUTES_MAX)
        return 0;
    if (view_starts_with(text, VIEW("/v1/")))
        text = view_from(text, 4);
    else if (view_starts_with(text, VIEW("/")))
        text = view_from(text, 1);
    struct route_figures *route = &metrics->routes[metrics->route_count];
    memset(route->label, 0, sizeof route->label);
    for (size_t i = 0; i < text.size && i < sizeof route->label - 1; i++) {
        char c = text.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        route->label[i] = plain ? c : '_';
    }
    for (unsigned i = 0; i < metrics->route_count; i++)
        if (strcmp(metrics->routes[i].label, route->label) == 0)
            return i; /* the same path, with another method */
    return metrics->route_count++;
}

const char *metrics_route_name(const struct metrics *metrics, unsigned route)
{
    check(route < metrics->route_count);
    return metrics->routes[route].label;
}

static size_t bucket_of(struct span took)
{
    size_t i = 0;
    while (i < METRICS_BUCKETS - 1 && took.us > metrics_bounds_us[i])
        i++;
    return i;
}

static size_t code_index(int status)
{
    size_t i = 0;
    while (i < METRICS_CODES - 1 && metrics_codes[i] != status)
        i++;
    return i;
}

static enum metrics_class class_of(int status)
{
    if (status == METRICS_HUNG_UP)
        return METRICS_CLASS_HUNG_UP;
    if (status >= 500)
        return METRICS_CLASS_FAILED;
    return status >= 400 ? METRICS_CLASS_REFUSED : METRICS_CLASS_OK;
}

void metrics_request(struct metrics *metrics, unsigned route, int status, struct span took)
{
    check(route < metrics->route_count);
    struct route_figures *figures = &metrics->routes[route];
    struct loop_histogram *histogram = &figures->took[class_of(status)];
    figures->codes[code_index(status)]++;
    histogram->buckets[bucket_of(took)]++;
    histogram->sum_us += took.us;
}

/* ---- Other threads ------------------------------------------------------------------- */

static void add(atomic_uint_fast64_t *count, uint64_t more)
{
    atomic_fetch_add_explicit(count, more, memory_order_relaxed);
}

static void set(atomic_uint_fast64_t *figure, uint64_t value)
{
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

void metrics_store_request(void *argument, const struct hf_store_request *request)
{
    struct metrics *metrics = argument;
    if ((unsigned)request->call >= HF_STORE_CALL_COUNT ||
        (unsigned)request->status >= HF_STATUS_COUNT)
        return;
    struct shared_histogram *histogram = &metrics->store_took[request->call];
    add(&metrics->store_results[request->call][request->status], 1);
    add(&histogram->buckets[bucket_of(SPAN_US(request->took_us))], 1);
    atomic_fetch_add_explicit(&histogram->sum_us, request->took_us, memory_order_relaxed);
    add(&metrics->sent_bytes, request->sent_bytes);
    add(&metrics->received_bytes, request->received_bytes);
}

void metrics_sweep(void *argument, const struct hf_sweep_report *run)
{
    struct metrics *metrics = argument;
    if ((unsigned)run->stop < HF_SWEEP_STOP_COUNT)
        add(&metrics->sweep.runs[run->stop], 1);
    add(&metrics->sweep.ops, run->ops);
    add(&metrics->sweep.leases_cleared, run->leases_cleared);
    add(&metrics->sweep.markers_deleted, run->markers_deleted);
    add(&metrics->sweep.entries_deleted, run->entries_deleted);
    add(&metrics->sweep.failed, run->failed);
    atomic_fetch_add_explicit(&metrics->sweep.duration_ms, run->duration_ms,
                              memory_order_relaxed);
}

void metrics_scrub(struct metrics *metrics, const struct hf_store_scrub_report *slice,
                   bool succeeded)
{
    add(&metrics->scrub.runs, 1);
    add(&metrics->scrub.failures, !succeeded);
    add(&metrics->scrub.rounds, slice->complete);
    add(&metrics->scrub.objects, slice->objects);
    add(&metrics->scrub.bytes, slice->bytes_read);
    add(&metrics->scrub.findings,
        slice->damaged + slice->missing + slice->unreadable + slice->too_new + slice->unknown);
}

void metrics_set_backlog(struct metrics *metrics, const struct metrics_backlog *backlog)
{
    set(&metrics->backlog.chunks, backlog->chunks);
    set(&metrics->backlog.due_groups, backlog->due_groups);
    set(&metrics->backlog.due_bytes, backlog->due_bytes);
    set(&metrics->backlog.index_entries, backlog->index_entries);
    atomic_store_explicit(&metrics->backlog.lag_ms, backlog->lag_ms, memory_order_relaxed);
    atomic_store(&metrics->backlog.known, true);
}

void metrics_set_clock(struct metrics *metrics, const struct hf_store_clock_report *report)
{
    atomic_store(&metrics->clock.interval_us, report->latest_us - report->earliest_us);
    atomic_store(&metrics->clock.offset_min_us, report->offset_min_us);
    atomic_store(&metrics->clock.offset_max_us, report->offset_max_us);
    atomic_store(&metrics->clock.known, report->known);
}
