/* observe.h: a store that passes every call on and tells somebody what was asked and what came
 * of it. The meter below is one who listens, the trace of a public handle (handle.h) another. */
#ifndef STORE_OBSERVE_H
#define STORE_OBSERVE_H

#include "store/store.h"

/* As enum hf_store_call, whose names (hf_store_call_name) are theirs too. */
enum call_kind {
    CALL_GET,
    CALL_PUT,
    CALL_DELETE,
    CALL_LIST,
    CALL_GET_FILE,
    CALL_PUT_FILE,
    CALL_KIND_COUNT
};

/* One call, after it was answered. */
struct observation {
    enum call_kind kind;
    struct view key;                   /* of a listing: its prefix */
    const struct condition *condition; /* of a write; else NULL */
    const struct hf_error *error;
    const struct etag *etag; /* that the object has now, or NULL */
    uint64_t bytes_sent;
    uint64_t bytes_received;
    struct span took;
    bool first_of_batch; /* a batch of calls is one to the store */
};

struct observer {
    void (*saw)(void *argument, const struct observation *observation);
    void *argument;
};

/* Takes `inner` over and closes it with itself; on failure it stays the caller's. `saw` is
 * called from whatever task made the call, and must not call the store. */
enum hf_status store_observe(struct store *inner, struct observer observer,
                             struct store **ret_store, struct hf_error *error);

/* Ends the observing of a store that is to live on, which is its caller's again. */
void store_unobserve(struct store *observed);

/* ---- Listening by counting ----------------------------------------------------------- */

struct meter_counts {
    uint64_t calls;
    uint64_t batches;
    uint64_t failed; /* answered by anything but OK and NOT_MODIFIED */
    uint64_t bytes_sent;
    uint64_t bytes_received;
};

struct meter {
    struct env_mutex mutex;
    struct meter_counts kinds[CALL_KIND_COUNT];
};

void meter_init(struct meter *meter, struct env *env);
void meter_release(struct meter *meter);
struct observer meter_observer(struct meter *meter);
void meter_reset(struct meter *meter);

/* A copy of all counts, indexed by call_kind. */
void meter_read(struct meter *meter, struct meter_counts ret_kinds[CALL_KIND_COUNT]);

#endif
