/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: the page of /metrics, in the Prometheus text format or as OpenMetrics. The two differ in
 * the names of counters in comments, and in the last line. */
#include "serve/metrics/metrics_inside.h"

#include <inttypes.h>

struct page {
    struct buffer *out;
    bool open;
};

/* ---- Words --------------------------------------------------------------------------- */

/* The head of a family. The names of counters are given without "_total". */
static void put_head(const struct page *page, const char *name, const char *type,
                     const char *help)
{
    const char *end = strcmp(type, "counter") == 0 && !page->open ? "_total" : "";
    buffer_print(page->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, end, help, name, end,
                 type);
}

static void put_count(const struct page *page, const char *name, const char *help,
                      uint64_t value)
{
    put_head(page, name, "counter", help);
    buffer_print(page->out, "%s_total %" PRIu64 "\n", name, value);
}

static void put_gauge(const struct page *page, const char *name, const char *help,
                      uint64_t value)
{
    put_head(page, name, "gauge", help);
    buffer_print(page->out, "%s %" PRIu64 "\n", name, value);
}

/* A span as seconds. */
static void put_seconds(const struct page *page, int64_t us)
{
    uint64_t size = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    buffer_print(page->out, "%s%" PRIu64 ".%06" PRIu64 "\n", us < 0 ? "-" : "", size / 1000000,
                 size % 1000000);
}

static void put_seconds_gauge(const struct page *page, const char *name, const char *help,
                              int64_t us)
{
    put_head(page, name, "gauge", help);
    buffer_print(page->out, "%s ", name);
    put_seconds(page, us);
}

/* ---- Requests ------------------------------------------------------------------------ */

static void put_codes(const struct page *page, const struct metrics *metrics)
{
    const char *name = "holdfast_http_requests";
    put_head(page, name, "counter",
             "Requests by route and HTTP status; hung_up: the client left before the reply.");
    for (unsigned i = 0; i < metrics->route_count; i++)
        for (size_t k = 0; k < METRICS_CODES; k++) {
            const struct route_figures *route = &metrics->routes[i];
            if (route->codes[k] == 0)
                continue;
            buffer_print(page->out, "%s_total{route=\"%s\",code=\"", name, route->label);
            if (k == 0)
                buffer_append(page->out, VIEW("hung_up"));
            else if (k == METRICS_CODES - 1)
                buffer_append(page->out, VIEW("other"));
            else
                buffer_append_i64(page->out, metrics_codes[k]);
            buffer_print(page->out, "\"} %" PRIu64 "\n", route->codes[k]);
        }
}

/* One series of a histogram, with its labels as text; nothing if it is empty. */
static void put_buckets(const struct page *page, const char *name, const char *labels,
                        const uint64_t counts[METRICS_BUCKETS], int64_t sum_us)
{
    uint64_t total = 0;
    for (size_t i = 0; i < METRICS_BUCKETS; i++)
        total += counts[i];
    if (total == 0)
        return;
    total = 0;
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        total += counts[i];
        buffer_print(page->out, "%s_bucket{%s,le=\"", name, labels);
        if (i == METRICS_BUCKETS - 1)
            buffer_append(page->out, VIEW("+Inf"));
        else
            buffer_print(page->out, "%g", (double)metrics_bounds_us[i] / 1e6);
        buffer_print(page->out, "\"} %" PRIu64 "\n", total);
    }
    buffer_print(page->out, "%s_sum{%s} ", name, labels);
    put_seconds(page, sum_us);
    buffer_print(page->out, "%s_count{%s} %" PRIu64 "\n", name, labels, total);
}

static void put_latencies(const struct page *page, const struct metrics *metrics)
{
    const char *name = "holdfast_http_request_duration_seconds";
    put_head(page, name, "histogram",
             "Time from the last byte of a request to its reply, waits for locks included.");
    for (unsigned i = 0; i < metrics->route_count; i++)
        for (size_t k = 0; k < METRICS_CLASSES; k++) {
            const struct route_figures *route = &metrics->routes[i];
            struct buffer labels = BUFFER_INIT(256);
            buffer_print(&labels, "route=\"%s\",result=\"%s\"", route->label,
                         metrics_class_names[k]);
            if (buffer_text(&labels))
                put_buckets(page, name, labels.data, route->took[k].buckets,
                            route->took[k].sum_us);
            buffer_release(&labels);
        }
}

static void put_http(const struct page *page, const struct http_figures *http)
{
    put_gauge(page, "holdfast_http_connections", "Open connections.", http->connections);
    put_gauge(page, "holdfast_http_requests_under_way",
              "Requests that have not been answered, waits included.", http->under_way);
    put_gauge(page, "holdfast_http_buffered_bytes",
              "Memory for requests and replies that are under way.", http->buffered_bytes);
    put_count(page, "holdfast_http_connections_accepted", "Accepted connections.",
              http->accepted);
    put_count(page, "holdfast_http_connections_refused", "Connections beyond a limit.",
              http->refused_peer);
    put_count(page, "holdfast_http_requests_refused",
              "Requests that were malformed, too large or too slow.", http->refused);
    put_count(page, "holdfast_http_hang_ups", "Clients that left before their reply.",
              http->hang_ups);
    put_count(page, "holdfast_http_cut_off", "Clients that did not read their reply or stream.",
              http->cut_off);
    put_count(page, "holdfast_http_accept_waits", "Times that descriptors or memory ran out.",
              http->accept_waits);
}

/* ---- The store ----------------------------------------------------------------------- */

static uint64_t load(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void put_store(const struct page *page, const struct metrics *metrics)
{
    const char *name = "holdfast_store_requests";
    put_head(page, name, "counter", "Requests to the store by call and result.");
    for (int call = 0; call < HF_STORE_CALL_COUNT; call++)
        for (int status = 0; status < HF_STATUS_COUNT; status++) {
            uint64_t count = load(&metrics->store_results[call][status]);
            if (count == 0)
                continue;
            buffer_print(page->out, "%s_total{call=\"%s\",result=\"", name,
                         hf_store_call_name((enum hf_store_call)call));
            metrics_put_status(page->out, (enum hf_status)status);
            buffer_print(page->out, "\"} %" PRIu64 "\n", count);
        }
    name = "holdfast_store_request_duration_seconds";
    put_head(page, name, "histogram", "How long requests to the store took.");
    for (int call = 0; call < HF_STORE_CALL_COUNT; call++) {
        const struct shared_histogram *shared = &metrics->store_took[call];
        uint64_t counts[METRICS_BUCKETS];
        struct buffer labels = BUFFER_INIT(64);
        for (size_t i = 0; i < METRICS_BUCKETS; i++)
            counts[i] = load(&shared->buckets[i]);
        buffer_print(&labels, "call=\"%s\"", hf_store_call_name((enum hf_store_call)call));
        if (buffer_text(&labels))
            put_buckets(page, name, labels.data, counts, atomic_load(&shared->sum_us));
        buffer_release(&labels);
    }
    put_count(page, "holdfast_store_sent_bytes", "Bytes of objects written.",
              load(&metrics->sent_bytes));
    put_count(page, "holdfast_store_received_bytes", "Bytes of objects read.",
              load(&metrics->received_bytes));
}

static void put_clock(const struct page *page, const struct metrics *metrics)
{
    if (!atomic_load(&metrics->clock.known))
        return;
    put_seconds_gauge(page, "holdfast_clock_interval_seconds",
                      "How exactly the store's time is known; 0 on a local store.",
                      atomic_load(&metrics->clock.interval_us));
    put_seconds_gauge(page, "holdfast_clock_offset_min_seconds",
                      "The store's time is ahead of this machine's by at least this.",
                      atomic_load(&metrics->clock.offset_min_us));
    put_seconds_gauge(page, "holdfast_clock_offset_max_seconds",
                      "The store's time is ahead of this machine's by at most this.",
                      atomic_load(&metrics->clock.offset_max_us));
}

/* ---- Leases -------------------------------------------------------------------------- */

static void put_leases(const struct page *page, const struct metrics_now *now)
{
    const struct hf_stats *stats = &now->stats;
    put_count(page, "holdfast_leases_granted", "Leases granted.", stats->granted);
    put_count(page, "holdfast_lease_renewals", "Leases renewed.", stats->renewed);
    put_count(page, "holdfast_leases_released", "Leases released.", stats->released);
    put_count(
        page, "holdfast_leases_lost",
        "Requests refused because their lease had ended, and leases that ended while held.",
        stats->lost + now->losses);
    put_count(page, "holdfast_leases_taken_over", "Expired leases of others that were ended.",
              stats->taken_over);
    put_count(page, "holdfast_conflicts",
              "Writes refused because another client wrote first, and retried.",
              stats->conflicts);
    put_count(page, "holdfast_transactions_committed", "Transactions committed.",
              stats->committed);
    put_count(page, "holdfast_transactions_rolled_back", "Transactions rolled back.",
              stats->rolled_back);
    put_count(page, "holdfast_retries",
              "Requests with the request_id of an earlier one, which got its result.",
              now->core.retries);
    put_gauge(page, "holdfast_waiters", "Requests that wait for a lock.", now->core.waiting);
    put_gauge(page, "holdfast_waited_for", "Locks that requests wait for.", now->core.lines);
    put_gauge(page, "holdfast_requests_under_way", "Requests under way, waits included.",
              now->core.requests);
    put_gauge(page, "holdfast_calls_under_way",
              "Calls that workers make, or that wait for one.", now->core.calls);
    put_gauge(page, "holdfast_results_remembered", "Results kept for retries.",
              now->core.remembered);
    put_gauge(page, "holdfast_namespaces", "Namespaces in use.", now->namespaces);
    put_gauge(page, "holdfast_event_streams", "Clients that read events.", now->streams);
    put_count(page, "holdfast_audit_failures",
              "Lines of the audit log that were not written or synced.", now->audit_failures);
}

/* ---- Background work ----------------------------------------------------------------- */

/* Runs by how they ended; of the aborts, only those that other work caused. */
static void put_sweep_runs(const struct page *page, const struct metrics *metrics)
{
    const atomic_uint_fast64_t *runs = metrics->sweep.runs;
    put_head(page, "holdfast_sweep_runs", "counter",
             "Runs of the idle sweeper by how they ended.");
    for (int stop = 0; stop < HF_SWEEP_STOP_COUNT; stop++)
        buffer_print(page->out, "holdfast_sweep_runs_total{result=\"%s\"} %" PRIu64 "\n",
                     hf_sweep_stop_name((enum hf_sweep_stop)stop), load(&runs[stop]));
    put_count(page, "holdfast_sweep_aborts", "Sweeps that ended early because of activity.",
              load(&runs[HF_SWEEP_STOP_ACTIVITY]) + load(&runs[HF_SWEEP_STOP_PEERS]) +
                  load(&runs[HF_SWEEP_STOP_CONFLICT]));
}

static void put_sweeps(const struct page *page, const struct metrics *metrics)
{
    const char *name = "holdfast_sweep_duration_seconds";
    uint64_t runs = 0;
    for (int stop = 0; stop < HF_SWEEP_STOP_COUNT; stop++)
        runs += load(&metrics->sweep.runs[stop]);
    put_sweep_runs(page, metrics);
    put_head(page, name, "summary", "How long sweeps took.");
    buffer_print(page->out, "%s_sum ", name);
    put_seconds(page, atomic_load(&metrics->sweep.duration_ms) * 1000);
    buffer_print(page->out, "%s_count %" PRIu64 "\n", name, runs);
    put_count(page, "holdfast_sweep_ops", "Entries that sweeps examined.",
              load(&metrics->sweep.ops));
    put_count(page, "holdfast_sweep_leases_cleared", "Expired leases cleared by sweeps.",
              load(&metrics->sweep.leases_cleared));
    put_count(page, "holdfast_sweep_decision_markers_deleted",
              "Records of transactions deleted by sweeps.",
              load(&metrics->sweep.markers_deleted));
    put_count(page, "holdfast_sweep_index_entries_deleted",
              "Entries of the expiry index deleted by sweeps.",
              load(&metrics->sweep.entries_deleted));
    put_count(page, "holdfast_sweep_failures", "Entries that failed, left for a later sweep.",
              load(&metrics->sweep.failed));
}

static void put_scrubs(const struct page *page, const struct metrics *metrics)
{
    put_count(page, "holdfast_scrub_runs", "Slices of the store that were scrubbed.",
              load(&metrics->scrub.runs));
    put_count(page, "holdfast_scrub_rounds", "How often a scrub reached the end of the store.",
              load(&metrics->scrub.rounds));
    put_count(page, "holdfast_scrub_objects", "Objects that scrubs read.",
              load(&metrics->scrub.objects));
    put_count(page, "holdfast_scrub_bytes", "Bytes that scrubs read.",
              load(&metrics->scrub.bytes));
    put_count(page, "holdfast_scrub_findings", "Damaged, missing or unknown objects found.",
              load(&metrics->scrub.findings));
    put_count(page, "holdfast_scrub_failures",
              "Slices that ended early, or whose position could not be kept.",
              load(&metrics->scrub.failures));
}

static void put_backlog(const struct page *page, const struct metrics *metrics)
{
    if (!atomic_load(&metrics->backlog.known))
        return;
    int64_t lag_ms = atomic_load(&metrics->backlog.lag_ms);
    put_gauge(page, "holdfast_compaction_backlog_chunks", "Chunks of level 0.",
              load(&metrics->backlog.chunks));
    put_gauge(page, "holdfast_compaction_due_groups", "Merges that are due.",
              load(&metrics->backlog.due_groups));
    put_gauge(page, "holdfast_compaction_due_bytes", "Bytes of the merges that are due.",
              load(&metrics->backlog.due_bytes));
    put_gauge(page, "holdfast_index_backlog_entries", "Entries that wait to be indexed.",
              load(&metrics->backlog.index_entries));
    if (lag_ms >= 0)
        put_seconds_gauge(page, "holdfast_index_lag_seconds",
                          "Age of the oldest entry that waits to be indexed.", lag_ms * 1000);
}

/* ---- The process --------------------------------------------------------------------- */

static void put_process(const struct page *page, const struct metrics *metrics)
{
    struct process_figures process = process_figures();
    put_head(page, "process_cpu_seconds", "counter", "User and system processor time.");
    buffer_append(page->out, VIEW("process_cpu_seconds_total "));
    put_seconds(page, (int64_t)process.cpu_us);
    put_gauge(page, "process_resident_memory_bytes", "Resident memory.",
              process.resident_bytes);
    put_gauge(page, "process_open_fds", "Open descriptors.", process.descriptors);
    put_gauge(page, "process_max_fds", "Largest number of descriptors.",
              process.descriptors_max);
    put_seconds_gauge(page, "process_start_time_seconds", "Start, in seconds since 1970.",
                      metrics->started.us);
    put_head(page, "holdfast_build_info", "gauge", "The version of the program.");
    buffer_print(page->out, "holdfast_build_info{version=\"%s\"} 1\n", hf_version());
}

void metrics_write(const struct metrics *metrics, const struct metrics_now *now,
                   bool open_metrics, struct buffer *page_text)
{
    struct page page = { page_text, open_metrics };
    put_codes(&page, metrics);
    put_latencies(&page, metrics);
    put_http(&page, &now->http);
    put_store(&page, metrics);
    put_clock(&page, metrics);
    put_leases(&page, now);
    put_sweeps(&page, metrics);
    put_scrubs(&page, metrics);
    put_backlog(&page, metrics);
    put_process(&page, metrics);
    if (open_metrics)
        buffer_append(page_text, VIEW("# EOF\n"));
}

/* Scrapers send a list with OpenMetrics first, or without it. */
bool metrics_wants_open(struct view accept)
{
    while (accept.size > 0) {
        struct view part = view_cut(&accept, ',');
        while (part.size > 0 && part.data[0] == ' ')
            part = view_from(part, 1);
        if (view_starts_with(part, VIEW("application/openmetrics-text")))
            return true;
        if (view_starts_with(part, VIEW("text/plain")))
            return false;
    }
    return false;
}
