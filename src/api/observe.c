/* observe.c: names of what observe.h tells, and the counters. */
#include "base/options.h"
#include "key/record.h"
#include "lock/client.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- Names --------------------------------------------------------------------------- */

/* A number that is none of the enumeration's has a name too: it may come from a caller. */
static const char *name_of(const char *const *names, size_t count, size_t number)
{
    return number < count ? names[number] : "unknown";
}

#define WORD_OF_THREE(name, word, text) word,
#define WORD_OF_TWO(name, word)         word,

const char *hf_event_name(enum hf_event_kind kind)
{
    static const char *const names[] = { HF_EVENT_TABLE(WORD_OF_THREE) };
    return name_of(names, COUNT_OF(names), (size_t)kind);
}

const char *hf_request_name(enum hf_request_kind kind)
{
    static const char *const names[] = { HF_REQUEST_TABLE(WORD_OF_TWO) };
    return name_of(names, COUNT_OF(names), (size_t)kind);
}

const char *hf_lease_state_name(enum hf_lease_state state)
{
    static const char *const names[] = { HF_LEASE_STATE_TABLE(WORD_OF_THREE) };
    return name_of(names, COUNT_OF(names), (size_t)state);
}

const char *hf_change_name(enum hf_change change)
{
    static const char *const names[] = { HF_CHANGE_TABLE(WORD_OF_THREE) };
    return name_of(names, COUNT_OF(names), (size_t)change);
}

const char *hf_txn_state_name(enum hf_txn_state state)
{
    static const char *const names[] = { HF_TXN_STATE_TABLE(WORD_OF_THREE) };
    return name_of(names, COUNT_OF(names), (size_t)state);
}

const char *hf_mode_name(enum hf_mode mode)
{
    static const char *const names[] = {
        [HF_EXCLUSIVE] = "exclusive", [HF_SHARED] = "shared", [HF_SLOTS] = "slots"
    };
    return name_of(names, COUNT_OF(names), (size_t)mode);
}

const char *hf_proof_name(enum hf_proof proof)
{
    static const char *const names[] = { [HF_PROOF_NONE] = "none",
                                         [HF_PROOF_STORE_TIME] = "store time",
                                         [HF_PROOF_WATCHED] = "watched" };
    return name_of(names, COUNT_OF(names), (size_t)proof);
}

/* ---- Counters ------------------------------------------------------------------------ */

static uint64_t read_count(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static struct hf_request_stats requests_of(const struct events *events,
                                           enum hf_request_kind kind)
{
    return (struct hf_request_stats){ read_count(&events->requests[kind].calls),
                                      read_count(&events->requests[kind].failed),
                                      read_count(&events->requests[kind].bytes) };
}

enum hf_status hf_client_stats(struct hf_client *client, struct hf_stats *stats,
                               struct hf_error *error)
{
    if (check_caller_report("HF_STATS", stats, error) != HF_OK ||
        ERROR_IF_NULL(error, client, stats) != HF_OK)
        return HF_INVALID;
    const struct events *events = &client->events;
    const atomic_uint_fast64_t *counts = events->counts;
    struct hf_stats filled = {
        .struct_size = sizeof filled,
        .gets = requests_of(events, HF_REQUEST_GET),
        .puts = requests_of(events, HF_REQUEST_PUT),
        .deletes = requests_of(events, HF_REQUEST_DELETE),
        .lists = requests_of(events, HF_REQUEST_LIST),
        .file_gets = requests_of(events, HF_REQUEST_GET_FILE),
        .file_puts = requests_of(events, HF_REQUEST_PUT_FILE),
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
    };
    write_caller_report(stats, &filled, sizeof filled);
    return error_clear(error);
}
