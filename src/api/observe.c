/* SPDX-License-Identifier: Apache-2.0 */
/* observe.c: the counters of a client, and which events it delivers. */
#include "base/options.h"
#include "key/record.h"
#include "lock/client.h"

static uint64_t read_count(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static struct hf_request_stats requests_of(const struct events *events, enum hf_store_call kind)
{
    return (struct hf_request_stats){ read_count(&events->requests[kind].calls),
                                      read_count(&events->requests[kind].failed),
                                      read_count(&events->requests[kind].bytes) };
}

enum hf_status hf_client_stats(struct hf_client *client, struct hf_stats *stats,
                               struct hf_error *error)
{
    if (CHECK_REPORT(HF_STATS, stats, error) != HF_OK ||
        ERROR_IF_NULL(error, client, stats) != HF_OK)
        return HF_INVALID;
    const struct events *events = events_of(client);
    const atomic_uint_fast64_t *counts = events->counts;
    struct hf_stats filled = {
        .struct_size = sizeof filled,
        .gets = requests_of(events, HF_STORE_CALL_GET),
        .puts = requests_of(events, HF_STORE_CALL_PUT),
        .deletes = requests_of(events, HF_STORE_CALL_DELETE),
        .lists = requests_of(events, HF_STORE_CALL_LIST),
        .file_gets = requests_of(events, HF_STORE_CALL_GET_FILE),
        .file_puts = requests_of(events, HF_STORE_CALL_PUT_FILE),
        .conflicts = read_count(&counts[HF_EVENT_CONFLICT]),
        .granted = read_count(&counts[HF_EVENT_GRANTED]),
        .renewed = read_count(&counts[HF_EVENT_RENEWED]),
        .lost = read_count(&counts[HF_EVENT_LOST]),
        .released = read_count(&counts[HF_EVENT_RELEASED]),
        .taken_over = read_count(&counts[HF_EVENT_TAKEN_OVER]),
        .swept = read_count(&counts[HF_EVENT_SWEPT]),
        .committed = read_count(&counts[HF_EVENT_COMMITTED]),
        .rolled_back = read_count(&counts[HF_EVENT_ROLLED_BACK]),
        .events_dropped = read_count(&events->dropped),
        .depth = read_count(&events->depth),
    };
    write_caller_report(stats, &filled, sizeof filled);
    return error_clear(error);
}

enum hf_status hf_client_choose_events(struct hf_client *client, uint64_t kinds,
                                       struct hf_error *error)
{
    if (ERROR_IF_NULL(error, client) != HF_OK)
        return HF_INVALID;
    if (kinds & ~HF_EVENTS_ALL)
        return error_set(error, HF_INVALID, "a bit stands for no kind of event");
    events_choose(client, kinds);
    return error_clear(error);
}
