/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: statuses, errors, calling conventions, and the client.
 *
 *     struct hf_client *client;
 *     struct hf_error error;
 *     if (hf_client_open("sqlite:jobs.db", NULL, &client, &error) != HF_OK)
 *         fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.why);
 *     hf_client_close(client);
 *
 * CONVENTIONS. Handles are opaque. Output parameters are named ret_... and are set only on success.
 * A handle is set to NULL on failure. Strings are NUL-terminated, and the library copies them.
 * `error` may be NULL; otherwise it is always set. If any other pointer is NULL, the call returns
 * HF_INVALID, unless the pointer is documented as optional. You can therefore pass the NULL handle
 * from a failed call to the next call, which then also fails and does no harm. The ..._name and
 * ..._text functions return "unknown" for a value that is not in their table. A call marked "Local"
 * makes no request to the store. If a callback named `each` returns false, the listing stops; this
 * is not an error, unless documented otherwise.
 *
 * EXTENSIBLE STRUCTS. Options and reports begin with struct_size, which their initialiser sets
 * (HF_LOCK_OPTIONS for struct hf_lock_options). Always start from the initialiser:
 *
 *     struct hf_lock_options options = HF_LOCK_OPTIONS;
 *     options.ttl_ms = 10000;
 *
 * A later version of the library may add members at the end. A program compiled against an older
 * version gets default values for the new members. If a program sets a member that the library does
 * not support, the call returns HF_UNSUPPORTED. If struct_size is 0, the call returns HF_INVALID.
 * Structs passed to a callback also begin with struct_size: before you read a member that was added
 * in a later version, check that struct_size covers it.
 *
 * Structs without struct_size never change, because they are array elements, are embedded in other
 * structs, or are complete as they are: hf_error, hf_elect_part, hf_elect_place, hf_cascade,
 * hf_index_value, hf_index_row, hf_index_bytes, hf_index_condition, hf_index_folded, hf_merge_file,
 * hf_merger_source, hf_compact_level, hf_key_write, hf_request_stats, hf_store_clock_sample,
 * hf_try, hf_txn_change.
 *
 * THREADS. Every function may be called from any thread, even if several threads use the same
 * handle, but ..._close and ..._free must be the last call on a handle. A client starts its own
 * threads when it first holds a lock, and another thread for events if the event callback is set.
 * After fork(), the child must not use the handles of its parent. The library never logs, exits or
 * installs signal handlers. */
#ifndef HOLDFAST_BASE_H
#define HOLDFAST_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

/* The value of an initialiser: a compound literal in C, a braced temporary in C++. */
#ifdef __cplusplus
#define HF_VALUE_(type, ...) (type{ __VA_ARGS__ })
#else
#define HF_VALUE_(type, ...) ((struct type){ __VA_ARGS__ })
#endif

/* ---- Version ------------------------------------------------------------------------- */

#define HF_VERSION_MAJOR 1
#define HF_VERSION_MINOR 0
#define HF_VERSION_PATCH 0

/* The version of these headers as a number that increases with each version: 1.0.0 is 10000. */
#define HF_VERSION (HF_VERSION_MAJOR * 10000 + HF_VERSION_MINOR * 100 + HF_VERSION_PATCH)

/* Returns the version of the library in use, such as "1.0.0". */
HF_API const char *hf_version(void);

/* Returns the version of the library in use as a number. Compare it with HF_VERSION. */
HF_API int hf_version_number(void);

/* ---- Statuses ------------------------------------------------------------------------ */

/* All statuses. A status says how the caller can proceed, not where the error occurred. Each row
 * contains the name, the exit code of the program, and a sentence for display.
 *
 * Exit codes start at 80 because `holdfast run` passes on the exit status of its command. Scripts
 * can thus distinguish Holdfast's exit codes from the small numbers that commands customarily
 * use. */
#define HF_STATUS_TABLE(ROW)                                                        \
    ROW(OK, 0, "done")                                                              \
    ROW(NOT_FOUND, 80, "no such object or lease")                                   \
    ROW(NOT_MODIFIED, 81, "the object still has the given ETag")                    \
    ROW(CONFLICT, 82, "another client wrote first: read again, then retry")         \
    ROW(UNSURE, 83, "the write may or may not have happened, and may still happen") \
    ROW(UNAVAILABLE, 84, "not done; it may work later")                             \
    ROW(DENIED, 85, "not allowed: check the credentials or permissions")            \
    ROW(INVALID, 86, "the request is not valid: correct it")                        \
    ROW(UNSUPPORTED, 87, "this store or build cannot do that")                      \
    ROW(CORRUPT, 88, "stored data is damaged: inspect it before you continue")      \
    ROW(HELD, 89, "another client holds it")                                        \
    ROW(LOST, 90, "the lease is lost: stop the work that it protected")             \
    ROW(EXPIRED, 91, "the lease ended before the call")                             \
    ROW(MISMATCH, 92, "it belongs to a different lock or lease")                    \
    ROW(FENCED, 93, "a later holder has already written: the token is stale")       \
    ROW(TIMEOUT, 94, "the time limit has passed; nothing was changed")              \
    ROW(CANCELLED, 95, "stopped at the caller's request")                           \
    ROW(ALREADY, 96, "already done within the given period")                        \
    ROW(UNREPORTED, 97, "done, but the result could not be written")

#define HF_STATUS_ENUM_(name, code, text) HF_##name,
enum hf_status { HF_STATUS_TABLE(HF_STATUS_ENUM_) HF_STATUS_COUNT };
#undef HF_STATUS_ENUM_

/* Returns the name of a status as spelled in the table, such as "CONFLICT". */
HF_API const char *hf_status_name(enum hf_status status);

/* Returns a one-sentence description of a status. */
HF_API const char *hf_status_text(enum hf_status status);

/* Returns the exit code of the program `holdfast` for a status, or 1 for an unknown status. */
HF_API int hf_status_exit_code(enum hf_status status);

#define HF_WHY_MAX 240

/* A status, and the reason for it in words that a person can act on. */
struct hf_error {
    enum hf_status status;
    char why[HF_WHY_MAX];
};

/* ---- Memory -------------------------------------------------------------------------- */

/* Frees memory that a call allocated for its caller. Does nothing if `data` is NULL. */
HF_API void hf_free(void *data);

/* ---- The client ---------------------------------------------------------------------- */

/* A client uses one store and one namespace of locks, as one holder. One client per process is
 * enough, regardless of the number of threads: calls that are waiting for the same document share
 * their requests. */
struct hf_client;

/* An event that a client reports (observe.h). */
struct hf_event;

/* A lock table keeps the most conservative settings that any of its clients has ever used. */
struct hf_client_options {
    size_t struct_size;
    /* The namespace of the client's locks (default: "default"). It must not be metadata, data,
     * indexes or roster, which are the names of other folders in a bucket. */
    const char *ns;
    const char *holder; /* a label shown to others (default: host name and process id) */
    /* The longest ttl that a lease may have; 0: one hour; at most one day. It must be the same for
     * all clients of a namespace. After a restore, no lease is granted for this long. */
    int64_t ttl_max_ms;
    /* How far off the store's clock may be; -1: depends on the kind of store. */
    int64_t skew_tolerance_ms;
    bool takeover_observed; /* take over only by watching, never by the store's clock */

    /* Optional. Called for each event (observe.h), one at a time, from a client thread that holds
     * none of the library's internal locks. The callback may call any function except
     * hf_client_close and functions that free a handle of this client. */
    void (*event)(void *argument, const struct hf_event *event);
    void *event_argument;
};

#define HF_CLIENT_OPTIONS                                                                    \
    HF_VALUE_(hf_client_options, sizeof(struct hf_client_options), NULL, NULL, 0, -1, false, \
              NULL, NULL)

/* Opens a client. The URL is mem:, dir:PATH, sqlite:FILE, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or
 * azure://ACCOUNT/CONTAINER/PREFIX, or that of a server (`holdfast serve`): http://HOST:PORT,
 * https://HOST:PORT or unix:PATH. `options` may be NULL.
 *
 * A server has the locks and keys of a store, and the calls on them do the same as on the store. A
 * call that needs anything else returns HF_UNSUPPORTED: docs/serve.md lists what does. No request
 * is made to a server when it is opened. ttl_max_ms, skew_tolerance_ms and takeover_observed have
 * no effect there: a server uses the defaults.
 *
 * The call reads the bucket's description (one get; on S3 one more request, which asks whether the
 * bucket keeps versions). A network store without a recent probe result is probed first. The probe
 * takes about fifty small requests, once a month. A client without write permission can open a
 * store; its writes then return HF_DENIED.
 *
 * Returns HF_UNSUPPORTED if the store does not provide the guarantees that locks need, or if the
 * bucket uses a feature that this version does not support. Returns HF_UNAVAILABLE if the store
 * could not be reached. */
HF_API enum hf_status hf_client_open(const char *url, const struct hf_client_options *options,
                                     struct hf_client **ret_client, struct hf_error *error);

/* Closes a client. Free its locks, keys and transactions first. Does nothing if `client` is NULL.
 *
 * If a remaining handle still holds a lease, the lease is released, as by hf_lock_free, and the
 * handle reports HF_LOST. The handle can no longer acquire anything: its calls return HF_CANCELLED,
 * including a call that is waiting in the queue. The handle must still be freed; the memory and the
 * store of the client are freed with the last handle. The call waits at most a few seconds for
 * releases that are in progress in the background.
 *
 * A process that ends without this call does not give its leases back: each lasts until its ttl has
 * passed. This includes the keys of a transaction whose commit has returned but whose keys are
 * still being released in the background. So close the client before the process exits. */
HF_API void hf_client_close(struct hf_client *client);

#ifdef __cplusplus
}
#endif

#endif
