/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h: an open store, as the public functions use it. Its users are counted, and the store is
 * closed when the last of them is gone. */
#ifndef STORE_HANDLE_H
#define STORE_HANDLE_H

#include "store/bucket.h"
#include "store/observe.h"

#include <stdatomic.h>

/* What the bucket's document recorded about placements when it was read. Clients keep no reference
 * to it, but another one may be opening, so an earlier text stays until the handle is gone. */
struct placements_read {
    struct placements_read *earlier;
    size_t size;
    char text[];
};

struct hf_store {
    struct store *store;
    struct env_mutex
        checking;          /* held while the bucket is checked for BUCKET_LOCKS (bucket.h) */
    atomic_bool for_locks; /* that is done; set after everything that the check sets */
    _Atomic(struct placements_read *) placements; /* the latest; NULL: none were ever read */
    atomic_size_t users;
    void (*trace)(void *argument, const struct hf_store_request *request); /* or NULL */
    void *trace_argument;
    /* The last position of a scrub that remembers it, for when the note in the store cannot be read
     * (api/store_scrub.c). */
    struct {
        struct env_mutex mutex;
        bool is_newer; /* than this version of the note, which could not be replaced */
        struct condition unchanged;
        size_t size;
        char after[HF_SCRUB_POSITION_MAX];
    } scrubbed;
};

/* The ETag as a NUL-terminated string, in `text`. */
const char *etag_to_text(const struct etag *etag, char text[HF_ETAG_MAX]);

/* Takes ownership of `store`; on failure the caller keeps it. `trace`, unless NULL, is called
 * for each request. */
enum hf_status store_handle_new(
    struct store *store, void (*trace)(void *argument, const struct hf_store_request *request),
    void *trace_argument, struct hf_store **ret_handle, struct hf_error *error);

/* Checks that the bucket can be used for locks (bucket_check), unless this was done before. Of
 * several threads one checks, and the others wait for it. */
enum hf_status store_handle_check_locks(struct hf_store *handle, struct hf_error *error);

/* The placements of the bucket's namespaces, as they were last read through this handle. The view
 * is valid as long as the handle. */
struct view store_handle_placements(const struct hf_store *handle);

/* Reads them again, so that clients that are opened from now on use them. */
enum hf_status store_handle_read_placements(struct hf_store *handle, struct hf_error *error);

/* Adds a user, or removes one. The store is closed when its last user is removed. */
struct hf_store *store_handle_keep(struct hf_store *handle);
void store_handle_drop(struct hf_store *handle);

#endif
