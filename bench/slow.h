/* SPDX-License-Identifier: Apache-2.0 */
/* slow.h: stores with latency. Where a benchmark names a store, "20ms+mem:" is that store with
 * 20 ms added to each request, and "s3like+mem:" one with the latencies of an object store in the
 * same region. Any number of milliseconds and any store can be named.
 *
 * The latency is added in the thread that made the request, after the store has answered it, as if
 * the answer took this long to arrive. The calls of a batch share one latency, because a store on
 * the network has them under way at the same time. What such a store cannot do is not modelled:
 * mem: still wakes listeners, and sqlite: still changes an object in one step. */
#ifndef BENCH_SLOW_H
#define BENCH_SLOW_H

#include "holdfast.h"

#include <stdatomic.h>

typedef void slow_trace(void *argument, const struct hf_store_request *request);

struct slow {
    double fixed_ms; /* 0: like S3 */
    atomic_uint_fast64_t requests;
    slow_trace *next; /* called after the delay; or NULL */
    void *argument;
};

/* The URL of the store itself. *ret_slow is what it takes to slow it down, or NULL if the URL asks
 * for no latency; free it when the store is closed. */
const char *slow_parse(const char *url, struct slow **ret_slow);

/* The trace of struct hf_store_options that adds the latency; its argument is a struct slow. */
void slow_delay(void *slow, const struct hf_store_request *request);

#endif
