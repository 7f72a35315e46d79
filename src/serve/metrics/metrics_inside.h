/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_inside.h: the counters, and the figures of the process, for the files of this folder. */
#ifndef SERVE_METRICS_METRICS_INSIDE_H
#define SERVE_METRICS_METRICS_INSIDE_H

#include "serve/metrics/metrics.h"

#include <stdatomic.h>

/* The upper bounds of the buckets; the last one has none. A wait for a lock may take an hour. */
#define METRICS_BUCKETS 16
extern const int64_t metrics_bounds_us[METRICS_BUCKETS - 1];

/* Replies by status. Number 0 is METRICS_HUNG_UP, and the last one any other status. */
#define METRICS_CODES 24
extern const int metrics_codes[METRICS_CODES];

/* The latency is shown by these, because a series a status would be many. */
enum metrics_class {
    METRICS_CLASS_OK,
    METRICS_CLASS_REFUSED,
    METRICS_CLASS_FAILED,
    METRICS_CLASS_HUNG_UP,
    METRICS_CLASSES
};
extern const char *const metrics_class_names[METRICS_CLASSES];

/* Appends the name of a status, as labels are written. */
void metrics_put_status(struct buffer *out, enum hf_status status);

struct loop_histogram {
    uint64_t buckets[METRICS_BUCKETS];
    int64_t sum_us;
};

struct shared_histogram {
    atomic_uint_fast64_t buckets[METRICS_BUCKETS];
    atomic_int_fast64_t sum_us;
};

struct route_figures {
    char label[64];
    uint64_t codes[METRICS_CODES];
    struct loop_histogram took[METRICS_CLASSES];
};

struct metrics {
    struct env *env;
    struct wall_time started;
    unsigned route_count;
    struct route_figures *routes;

    /* The rest is shared by threads. */
    atomic_uint_fast64_t store_results[HF_STORE_CALL_COUNT][HF_STATUS_COUNT];
    struct shared_histogram store_took[HF_STORE_CALL_COUNT];
    atomic_uint_fast64_t sent_bytes, received_bytes;
    struct {
        atomic_uint_fast64_t runs[HF_SWEEP_STOP_COUNT];
        atomic_uint_fast64_t ops, leases_cleared, markers_deleted, entries_deleted, failed;
        atomic_int_fast64_t duration_ms;
    } sweep;
    struct {
        atomic_uint_fast64_t runs, rounds, objects, bytes, findings, failures;
    } scrub;
    struct {
        atomic_bool known;
        atomic_uint_fast64_t chunks, due_groups, due_bytes, index_entries;
        atomic_int_fast64_t lag_ms;
    } backlog;
    struct {
        atomic_bool known;
        atomic_int_fast64_t interval_us, offset_min_us, offset_max_us;
    } clock;
};

/* The figures of this process. */
struct process_figures {
    uint64_t resident_bytes;
    uint64_t cpu_us;
    uint64_t descriptors, descriptors_max;
};
struct process_figures process_figures(void);

#endif
