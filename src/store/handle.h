/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h: an open store, as the public functions use it. Its users are counted, and the store is
 * closed when the last of them is gone. */
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

/* The ETag as a NUL-terminated string, in `text`. */
const char *etag_to_text(const struct etag *etag, char text[HF_ETAG_MAX]);

/* Takes ownership of `store`; on failure the caller keeps it. `trace`, unless NULL, is called
 * for each request. */
enum hf_status store_handle_new(
    struct store *store, void (*trace)(void *argument, const struct hf_store_request *request),
    void *trace_argument, struct hf_store **ret_handle, struct hf_error *error);

/* Checks that the bucket can be used for locks (bucket_check), unless this was done before. */
enum hf_status store_handle_check_locks(struct hf_store *handle, struct hf_error *error);

/* Adds a user, or removes one. The store is closed when its last user is removed. */
struct hf_store *store_handle_keep(struct hf_store *handle);
void store_handle_drop(struct hf_store *handle);

#endif
