/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: the figures of /metrics as JSON, for a page that shows them. What never happened is left
 * out, as in /metrics. */
#include "serve/json.h"
#include "serve/metrics/metrics_inside.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t load_count(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* ---- Durations ----------------------------------------------------------------------- */

/* The duration that `percent` of all do not exceed, if those in a bucket are spread evenly in it.
 * What is beyond all bounds counts as the last bound. */
static int64_t quantile_us(const uint64_t counts[METRICS_BUCKETS], uint64_t total, int percent)
{
    double wanted = (double)total * percent / 100, before = 0;
    for (size_t i = 0; i < METRICS_BUCKETS - 1; i++) {
        int64_t least = i > 0 ? metrics_bounds_us[i - 1] : 0;
        if (counts[i] > 0 && before + (double)counts[i] >= wanted)
            return least + (int64_t)((double)(metrics_bounds_us[i] - least) *
                                     (wanted - before) / (double)counts[i]);
        before += (double)counts[i];
    }
    return metrics_bounds_us[METRICS_BUCKETS - 2];
}

/* The members of a histogram that is not empty. */
static void put_durations(struct buffer *json, const uint64_t counts[METRICS_BUCKETS],
                          int64_t sum_us)
{
    uint64_t total = 0;
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        total += counts[i];
    json_put_u64(json, "count", total);
    json_put_thousandths(json, "sum_ms", sum_us);
    json_put_thousandths(json, "p50_ms", quantile_us(counts, total, 50));
    json_put_thousandths(json, "p90_ms", quantile_us(counts, total, 90));
    json_put_thousandths(json, "p99_ms", quantile_us(counts, total, 99));
    json_open(json, "buckets", '[');
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        json_next(json);
        buffer_append_u64(json, counts[i]);
    }
    buffer_append_byte(json, ']');
}

static bool has_durations(const uint64_t counts[METRICS_BUCKETS])
{
    uint64_t total = 0;
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        total += counts[i];
    return total > 0;
}

static void put_bounds(struct buffer *json)
{
    json_open(json, "bounds_ms", '[');
    for (size_t i = 0; i < METRICS_BUCKETS - 1; i++) {
        json_next(json);
        buffer_print(json, "%g", (double)metrics_bounds_us[i] / 1e3);
    }
    buffer_append_byte(json, ']');
}

/* ---- Requests ------------------------------------------------------------------------ */

static void put_route_codes(struct buffer *json, const struct route_figures *route)
{
    json_open(json, "codes", '{');
    for (size_t i = 0; i < METRICS_CODES; i++) {
        char name[16];
        if (route->codes[i] == 0)
            continue;
        snprintf(name, sizeof name, "%d", metrics_codes[i]);
        if (i == 0)
            snprintf(name, sizeof name, "hung_up");
        else if (i == METRICS_CODES - 1)
            snprintf(name, sizeof name, "other");
        json_put_u64(json, name, route->codes[i]);
    }
    buffer_append_byte(json, '}');
}

static void put_route_durations(struct buffer *json, const struct route_figures *route)
{
    json_open(json, "took", '{');
    for (size_t i = 0; i < METRICS_CLASSES; i++) {
        const struct loop_histogram *took = &route->took[i];
        if (!has_durations(took->buckets))
            continue;
        json_open(json, metrics_class_names[i], '{');
        put_durations(json, took->buckets, took->sum_us);
        buffer_append_byte(json, '}');
    }
    buffer_append_byte(json, '}');
}

static void put_requests(struct buffer *json, const struct metrics *metrics)
{
    json_open(json, "requests", '[');
    for (unsigned i = 0; i < metrics->route_count; i++) {
        const struct route_figures *route = &metrics->routes[i];
        bool used = false;
        for (size_t k = 0; k < METRICS_CODES; k++)
            used = used || route->codes[k] > 0;
        if (!used)
            continue;
        json_next(json);
        buffer_append_byte(json, '{');
        json_put_text(json, "route", route->label);
        put_route_codes(json, route);
        put_route_durations(json, route);
        buffer_append_byte(json, '}');
    }
    buffer_append_byte(json, ']');
}

static void put_http_figures(struct buffer *json, const struct http_figures *http)
{
    json_open(json, "http", '{');
    json_put_u64(json, "connections", http->connections);
    json_put_u64(json, "under_way", http->under_way);
    json_put_u64(json, "buffered_bytes", http->buffered_bytes);
    json_put_u64(json, "accepted", http->accepted);
    json_put_u64(json, "connections_refused", http->refused_peer);
    json_put_u64(json, "requests_refused", http->refused);
    json_put_u64(json, "hang_ups", http->hang_ups);
    json_put_u64(json, "cut_off", http->cut_off);
    buffer_append_byte(json, '}');
}

/* ---- The store ----------------------------------------------------------------------- */

static void put_call_results(struct buffer *json, const atomic_uint_fast64_t *results)
{
    json_open(json, "results", '{');
    for (int status = 0; status < HF_STATUS_COUNT; status++) {
        uint64_t count = load_count(&results[status]);
        struct buffer name = BUFFER_INIT(64);
        metrics_put_status(&name, (enum hf_status)status);
        if (count > 0 && buffer_text(&name))
            json_put_u64(json, name.data, count);
        buffer_release(&name);
    }
    buffer_append_byte(json, '}');
}

static void put_store_calls(struct buffer *json, const struct metrics *metrics)
{
    json_open(json, "calls", '[');
    for (int call = 0; call < HF_STORE_CALL_COUNT; call++) {
        const struct shared_histogram *shared = &metrics->store_took[call];
        uint64_t counts[METRICS_BUCKETS];
        for (size_t i = 0; i < METRICS_BUCKETS; i++)
            counts[i] = load_count(&shared->buckets[i]);
        if (!has_durations(counts))
            continue;
        json_next(json);
        buffer_append_byte(json, '{');
        json_put_text(json, "call", hf_store_call_name((enum hf_store_call)call));
        put_call_results(json, metrics->store_results[call]);
        put_durations(json, counts, atomic_load(&shared->sum_us));
        buffer_append_byte(json, '}');
    }
    buffer_append_byte(json, ']');
}

static void put_store_figures(struct buffer *json, const struct metrics *metrics)
{
    json_open(json, "store", '{');
    put_store_calls(json, metrics);
    json_put_u64(json, "sent_bytes", load_count(&metrics->sent_bytes));
    json_put_u64(json, "received_bytes", load_count(&metrics->received_bytes));
    buffer_append_byte(json, '}');
    if (!atomic_load(&metrics->clock.known))
        return;
    json_open(json, "clock", '{');
    json_put_thousandths(json, "interval_ms", atomic_load(&metrics->clock.interval_us));
    json_put_thousandths(json, "offset_min_ms", atomic_load(&metrics->clock.offset_min_us));
    json_put_thousandths(json, "offset_max_ms", atomic_load(&metrics->clock.offset_max_us));
    buffer_append_byte(json, '}');
}

/* ---- Leases -------------------------------------------------------------------------- */

static void put_lease_figures(struct buffer *json, const struct metrics_now *now)
{
    const struct hf_stats *stats = &now->stats;
    json_open(json, "leases", '{');
    json_put_u64(json, "granted", stats->granted);
    json_put_u64(json, "renewed", stats->renewed);
    json_put_u64(json, "released", stats->released);
    json_put_u64(json, "lost", stats->lost + now->losses);
    json_put_u64(json, "taken_over", stats->taken_over);
    buffer_append_byte(json, '}');
    json_open(json, "transactions", '{');
    json_put_u64(json, "committed", stats->committed);
    json_put_u64(json, "rolled_back", stats->rolled_back);
    buffer_append_byte(json, '}');
    json_put_u64(json, "conflicts", stats->conflicts);
    json_put_u64(json, "retries", now->core.retries);
    json_put_u64(json, "waiters", now->core.waiting);
    json_put_u64(json, "waited_for", now->core.lines);
    json_put_u64(json, "requests_under_way", now->core.requests);
    json_put_u64(json, "calls_under_way", now->core.calls);
    json_put_u64(json, "results_remembered", now->core.remembered);
    json_put_u64(json, "namespaces", now->namespaces);
    json_put_u64(json, "event_streams", now->streams);
    json_put_u64(json, "audit_failures", now->audit_failures);
}

/* ---- Background work ----------------------------------------------------------------- */

static void put_sweep_figures(struct buffer *json, const struct metrics *metrics)
{
    json_open(json, "sweep", '{');
    json_open(json, "runs", '{');
    for (int stop = 0; stop < HF_SWEEP_STOP_COUNT; stop++)
        json_put_u64(json, hf_sweep_stop_name((enum hf_sweep_stop)stop),
                     load_count(&metrics->sweep.runs[stop]));
    buffer_append_byte(json, '}');
    json_put_i64(json, "duration_ms", atomic_load(&metrics->sweep.duration_ms));
    json_put_u64(json, "ops", load_count(&metrics->sweep.ops));
    json_put_u64(json, "leases_cleared", load_count(&metrics->sweep.leases_cleared));
    json_put_u64(json, "markers_deleted", load_count(&metrics->sweep.markers_deleted));
    json_put_u64(json, "entries_deleted", load_count(&metrics->sweep.entries_deleted));
    json_put_u64(json, "failed", load_count(&metrics->sweep.failed));
    buffer_append_byte(json, '}');
}

static void put_backlog_figures(struct buffer *json, const struct metrics *metrics)
{
    int64_t lag_ms = atomic_load(&metrics->backlog.lag_ms);
    if (!atomic_load(&metrics->backlog.known))
        return;
    json_open(json, "backlog", '{');
    json_put_u64(json, "chunks", load_count(&metrics->backlog.chunks));
    json_put_u64(json, "due_groups", load_count(&metrics->backlog.due_groups));
    json_put_u64(json, "due_bytes", load_count(&metrics->backlog.due_bytes));
    json_put_u64(json, "index_entries", load_count(&metrics->backlog.index_entries));
    if (lag_ms >= 0)
        json_put_i64(json, "index_lag_ms", lag_ms);
    buffer_append_byte(json, '}');
}

static void put_process_figures(struct buffer *json)
{
    struct process_figures process = process_figures();
    json_open(json, "process", '{');
    json_put_u64(json, "resident_bytes", process.resident_bytes);
    json_put_u64(json, "cpu_ms", process.cpu_us / 1000);
    json_put_u64(json, "descriptors", process.descriptors);
    json_put_u64(json, "descriptors_max", process.descriptors_max);
    buffer_append_byte(json, '}');
}

void metrics_write_json(const struct metrics *metrics, const struct metrics_now *now,
                        struct buffer *json)
{
    buffer_append_byte(json, '{');
    json_put_i64(json, "now_ms", env_wall(metrics->env).us / 1000);
    json_put_i64(json, "started_ms", metrics_started_ms(metrics));
    put_bounds(json);
    put_requests(json, metrics);
    put_http_figures(json, &now->http);
    put_store_figures(json, metrics);
    put_lease_figures(json, now);
    put_sweep_figures(json, metrics);
    put_backlog_figures(json, metrics);
    put_process_figures(json);
    buffer_append_byte(json, '}');
}
