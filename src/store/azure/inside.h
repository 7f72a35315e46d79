/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h: declarations that the files of the azure back end share. */
#ifndef STORE_AZURE_INSIDE_H
#define STORE_AZURE_INSIDE_H

#include "store/azure/credentials.h"
#include "store/remote/remote.h"

/* The version of the protocol that we speak: the first that sends names that XML cannot represent
 * in an encoded form is 2021-02-12. */
#define AZURE_VERSION "2021-12-02"

#define AZURE_MARKER_MAX  (4 * KIB)
#define AZURE_MARKERS_MAX 32

/* Where a listing can go on: from this marker, Azure shows the names of this prefix, grouped by
 * this delimiter, that came after `at` when it sent the marker. */
struct azure_marker {
    uint64_t id; /* list_call.continuation of the listing's next page */
    char prefix[KEY_BYTES_MAX];
    size_t prefix_size;
    char delimiter; /* 0: none */
    char at[KEY_BYTES_MAX];
    size_t at_size;
    struct mono_time kept;
    char marker[AZURE_MARKER_MAX + 1];
};

struct azure_store {
    struct remote_store remote;
    struct azure_provider provider;
    char account[AZURE_ACCOUNT_MAX + 1];
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        struct azure_marker
            *markers[AZURE_MARKERS_MAX]; /* NULL: not used yet, nor are the next */
        uint64_t last_id;
    } shared;
};

static inline struct azure_store *azure_of(struct store *store)
{
    return (struct azure_store *)store;
}

/* ---- Requests and replies ------------------------------------------------------------ */

extern const struct remote_dialect azure_dialect; /* reply.c */

void azure_dialect_send(struct remote_store *remote, struct remote_request *request,
                        struct http_reply *reply);

/* ---- Conditions and puts (azure.c) --------------------------------------------------- */

/* Adds If-Match or If-None-Match; `space` holds the value. */
enum hf_status azure_add_condition(struct remote_request *request,
                                   const struct condition *condition,
                                   char space[REMOTE_ETAG_SPACE], struct hf_error *error);

/* Sends a request that writes the object of the call, and fills in the call's result. The key and
 * the condition are added here. */
void azure_send_put(struct azure_store *azure, struct put_call *call,
                    struct remote_request *request);

/* ---- The other calls ----------------------------------------------------------------- */

void azure_list(struct store *store, struct list_call *call);
void azure_put_file(struct store *store, struct put_call *call, int fd,
                    const struct progress *progress);
void azure_inspect(struct store *store, struct mono_time deadline, struct probe_report *report);

/* Frees the markers. */
void azure_forget_markers(struct azure_store *azure);

#endif
