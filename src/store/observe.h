/* SPDX-License-Identifier: Apache-2.0 */
/* observe.h: a wrapper that passes every call on to its inner store and then reports the call and
 * its result to an observer. It is used for the trace of a public handle (handle.h), for events,
 * and for the request meter of the tests. */
#ifndef STORE_OBSERVE_H
#define STORE_OBSERVE_H

#include "store/store.h"

/* The same as enum hf_store_call; hf_store_call_name gives the name of either. */
enum call_kind {
    CALL_GET,
    CALL_PUT,
    CALL_DELETE,
    CALL_LIST,
    CALL_GET_FILE,
    CALL_PUT_FILE,
    CALL_KIND_COUNT
};

/* One call and its result. */
struct observation {
    enum call_kind kind;
    struct view key;                   /* for a listing: its prefix */
    const struct condition *condition; /* of a write, else NULL */
    const struct hf_error *error;
    const struct etag *etag; /* the ETag that the object has now, or NULL */
    uint64_t bytes_sent;
    uint64_t bytes_received;
    struct span took;
    bool first_of_batch; /* several calls may share one request to the store */
    /* The length of the longest chain of requests that ends with this one and in which each began
     * after the one before it had ended. On a store with latency, the depth of the last request of
     * an operation determines how long the operation takes. */
    uint64_t depth;
};

struct observer {
    void (*saw)(void *argument, const struct observation *observation);
    void *argument;
};

/* Takes ownership of `inner`, which is closed together with the wrapper; on failure the caller
 * keeps it. `saw` runs in the task that made the call, and must not call the store. */
enum hf_status store_observe(struct store *inner, struct observer observer,
                             struct store **ret_store, struct hf_error *error);

/* Makes a request that is not a call of the store, because the store is a server, and reports it to
 * all observers of the store. `make` fills in the observation, except for its time and depth. */
void observe_request(struct store *store,
                     void (*make)(void *argument, struct observation *seen), void *argument);

/* Frees only the wrapper. The inner store stays open and belongs to the caller again. */
void store_unobserve(struct store *observed);

#endif
