/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h: what the server counts, and how /metrics shows it.
 *
 * Three kinds of figures:
 *
 *   - those of requests are the loop's own, without a lock or an atomic: metrics_request;
 *   - those of workers and of the library's threads are atomics: metrics_store_request,
 *     metrics_sweep, metrics_scrub, metrics_set_backlog, metrics_set_clock. Any thread may call
 *     these;
 *   - those that other parts of the server keep anyway are read for each reply: struct
 *     metrics_now.
 *
 * INVARIANTS. No label holds an id, a key, a namespace or a path: every label has a fixed set of
 * values, which are in the program. So the memory is bounded, by the number of routes, and is
 * allocated once. A counter never decreases, except by a restart. */
#ifndef SERVE_METRICS_METRICS_H
#define SERVE_METRICS_METRICS_H

#include "base/buffer.h"
#include "env/env.h"
#include "holdfast.h"
#include "serve/core/core.h"
#include "serve/http/server.h"

struct metrics;

#define METRICS_ROUTES_MAX 128

/* NULL if memory runs out. */
struct metrics *metrics_new(struct env *env);
void metrics_free(struct metrics *metrics);

/* ---- Requests: the loop only ----------------------------------------------------------- */

/* Names a route, before the first request, and returns its number. "/v1/locks/break" is shown as
 * "locks_break". Number 0 exists already: requests without a route. At most METRICS_ROUTES_MAX
 * routes; any more are counted under 0. */
unsigned metrics_add_route(struct metrics *metrics, const char *path);

/* Its name: "locks_break". */
const char *metrics_route_name(const struct metrics *metrics, unsigned route);

#define METRICS_HUNG_UP 0 /* instead of a status: the client left before the reply */

/* A request has been answered with this HTTP status. */
void metrics_request(struct metrics *metrics, unsigned route, int status, struct span took);

/* ---- Other threads --------------------------------------------------------------------- */

/* hf_store_options.trace; its argument is the metrics. */
void metrics_store_request(void *metrics, const struct hf_store_request *request);

/* hf_sweeper_options.ran; its argument is the metrics. One run of the idle sweeper has ended. */
void metrics_sweep(void *metrics, const struct hf_sweep_report *run);

/* A slice of the store was scrubbed; `succeeded`: to its end, and its position was noted. */
void metrics_scrub(struct metrics *metrics, const struct hf_store_scrub_report *slice,
                   bool succeeded);

/* What compaction and index workers have yet to do, as they last saw it, over all partitions and
 * indexes. Until the first call, these figures are not shown. */
struct metrics_backlog {
    uint64_t chunks;     /* of level 0 */
    uint64_t due_groups; /* merges that are due */
    uint64_t due_bytes;
    uint64_t index_entries; /* that wait in inboxes */
    int64_t lag_ms;         /* the age of the oldest of these; -1: unknown */
};
void metrics_set_backlog(struct metrics *metrics, const struct metrics_backlog *backlog);

/* The store's clock, as last read. */
void metrics_set_clock(struct metrics *metrics, const struct hf_store_clock_report *report);

/* ---- The page -------------------------------------------------------------------------- */

/* What others count. */
struct metrics_now {
    struct core_counts core;
    struct http_figures http;
    struct hf_stats stats; /* the sum over all clients, closed ones included */
    size_t namespaces;
    uint64_t losses; /* requests that learned that their lease had ended */
    size_t streams;  /* of events */
    uint64_t audit_failures;
};

/* Appends the page: OpenMetrics 1.0, or the Prometheus text format 0.0.4. The loop only. */
void metrics_write(const struct metrics *metrics, const struct metrics_now *now,
                   bool open_metrics, struct buffer *page);

/* Appends the same figures as a JSON object. The loop only. */
void metrics_write_json(const struct metrics *metrics, const struct metrics_now *now,
                        struct buffer *json);

/* When the server was started, in milliseconds since 1970. */
int64_t metrics_started_ms(const struct metrics *metrics);

#define METRICS_TYPE      "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Whether the Accept header of a scrape asks for OpenMetrics. */
bool metrics_wants_open(struct view accept);

#endif
