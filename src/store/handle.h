/* handle.h: an open store as the public calls know it. It is counted: a store that clients are open
 * on goes with the last of them. */
#ifndef STORE_HANDLE_H
#define STORE_HANDLE_H

#include "store/bucket.h"
#include "store/observe.h"

#include <stdatomic.h>

struct hf_store {
    struct store *store;
    bool for_locks; /* the bucket has been checked for BUCKET_LOCKS (bucket.h) */
    atomic_size_t users;
    void (*trace)(void *argument, const struct hf_store_request *request); /* or NULL */
    void *trace_argument;
};

/* Takes `store` over; on failure it stays the caller's. With a `trace` it is told each call. */
enum hf_status store_handle_new(
    struct store *store, void (*trace)(void *argument, const struct hf_store_request *request),
    void *trace_argument, struct hf_store **ret_handle, struct hf_error *error);

/* Learns what must be known of the bucket before anything coordinates in it, unless it was learnt
 * already. */
enum hf_status store_handle_check_locks(struct hf_store *handle, struct hf_error *error);

/* One more, or one less, who uses it. */
struct hf_store *store_handle_keep(struct hf_store *handle);
void store_handle_drop(struct hf_store *handle);

#endif
