/* base.h: what all headers of Holdfast share: statuses, errors, the conventions of calls, and the
 * client that most calls begin with.
 *
 *     struct hf_client *client;
 *     struct hf_error error;
 *     if (hf_client_open("sqlite:jobs.db", NULL, &client, &error) != HF_OK)
 *         fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.why);
 *     hf_client_close(client);
 *
 * CONVENTIONS. Handles are opaque. Outputs are named ret_... and are set only on success, except
 * that a handle is NULL after a failure. Texts end with NUL and are copied. `error` may be NULL;
 * otherwise it is always set. Any other pointer that is NULL, where nothing says that it may be,
 * is INVALID: a call that follows a failed one fails too, and does no harm.
 *
 * STRUCTS THAT GROW. Options and reports begin with struct_size, which their initialiser sets
 * (HF_LOCK_OPTIONS for struct hf_lock_options). Always start from the initialiser:
 *
 *     struct hf_lock_options options = HF_LOCK_OPTIONS;
 *     options.ttl_ms = 10000;
 *
 * A later version of the library may add members at the end. A program that was compiled before
 * that gets their defaults; a program that sets a member which the library it runs with does not
 * know gets UNSUPPORTED. A struct_size of 0 is INVALID.
 *
 * THREADS. Every function may be called from any thread, on the same handle too, except that
 * ..._close and ..._free must be the last call on a handle. A client has threads of its own,
 * started with the first lock that is held, and one that tells events to whoever asks for them.
 * After fork() a child must not use the handles of its parent. The library never logs, exits or
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

/* The value of an initialiser, in the words of either language. */
#ifdef __cplusplus
#define HF_VALUE_(type, ...) (type{ __VA_ARGS__ })
#else
#define HF_VALUE_(type, ...) ((struct type){ __VA_ARGS__ })
#endif

/* ---- Version ------------------------------------------------------------------------- */

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0

/* The version of these headers as one number that rises: 0.1.0 is 100. */
#define HF_VERSION (HF_VERSION_MAJOR * 10000 + HF_VERSION_MINOR * 100 + HF_VERSION_PATCH)

/* "0.1.0": the version of the library that runs. */
HF_API const char *hf_version(void);

/* The same as a number, to be compared with HF_VERSION. */
HF_API int hf_version_number(void);

/* ---- Statuses ------------------------------------------------------------------------ */

/* The one table of statuses. A status says what the caller may do next, not where it came from.
 * Each row: name, exit code of the program, sentence for a person.
 *
 * Exit codes start at 80 so that `holdfast run`, which passes on the exit status of its child,
 * is not mistaken for it by scripts that use the customary small numbers. */
#define HF_STATUS_TABLE(ROW)                                                        \
    ROW(OK, 0, "done")                                                              \
    ROW(NOT_FOUND, 80, "there is no such object or lease")                          \
    ROW(NOT_MODIFIED, 81, "the object is still the version that was named")         \
    ROW(CONFLICT, 82, "somebody else wrote first: read again, then decide again")   \
    ROW(UNSURE, 83, "the write may or may not have happened, and may still happen") \
    ROW(UNAVAILABLE, 84, "certainly not done; it may work later")                   \
    ROW(DENIED, 85, "not allowed: check the credentials or permissions")            \
    ROW(INVALID, 86, "the request makes no sense as it stands: correct it")         \
    ROW(UNSUPPORTED, 87, "this store or build cannot do that")                      \
    ROW(CORRUPT, 88, "stored data is damaged: keep it, and look before going on")   \
    ROW(HELD, 89, "somebody else holds it")                                         \
    ROW(LOST, 90, "the lease is no longer ours: stop the work it protected")        \
    ROW(EXPIRED, 91, "the lease ended before the call")                             \
    ROW(MISMATCH, 92, "it belongs to another lock or lease than the one named")     \
    ROW(FENCED, 93, "a later holder has written already: our token is stale")       \
    ROW(TIMEOUT, 94, "the time allowed is over, and nothing was changed")           \
    ROW(CANCELLED, 95, "stopped because the caller asked to")                       \
    ROW(ALREADY, 96, "it was done already, within the period that was named")       \
    ROW(UNREPORTED, 97, "done; the result could not be written")

#define HF_STATUS_ENUM_(name, code, text) HF_##name,
enum hf_status { HF_STATUS_TABLE(HF_STATUS_ENUM_) HF_STATUS_COUNT };
#undef HF_STATUS_ENUM_

/* "CONFLICT": the status as it is spelled in this header and in --json output; "UNKNOWN" for a
 * number that is none of these. */
HF_API const char *hf_status_name(enum hf_status status);

/* The sentence of the table. */
HF_API const char *hf_status_text(enum hf_status status);

/* What the program `holdfast` exits with; 1 for a number that is none of these. */
HF_API int hf_status_exit_code(enum hf_status status);

#define HF_WHY_MAX 240

/* A status and the reason, in words, that a person needs to act on it. */
struct hf_error {
    enum hf_status status;
    char why[HF_WHY_MAX];
};

/* ---- Memory -------------------------------------------------------------------------- */

/* Gives back data that a call has allocated for its caller. NULL is fine. */
HF_API void hf_free(void *data);

/* ---- The client ---------------------------------------------------------------------- */

/* One store, one namespace of locks, as one holder. A process needs one, whatever its number of
 * threads: calls that wait for one document share their requests. */
struct hf_client;

/* Something that happened to a client (observe.h). */
struct hf_event;

/* The most careful settings that any client of a table ever had stay with it. */
struct hf_client_options {
    size_t struct_size;
    const char *ns;     /* the namespace of its locks; NULL: "default". Not metadata, data,
                           indexes or roster, which are other folders of a bucket */
    const char *holder; /* a label that others see; NULL: host name and process id */
    int64_t ttl_max_ms; /* no lease here is longer; 0: an hour; at most a day. The same for all
                           clients of a namespace: after a restore nothing is granted for so
                           long */
    int64_t skew_tolerance_ms; /* of the store's clock; -1: by the kind of store */
    bool takeover_observed;    /* take over only what was watched, whatever the clocks say */

    /* May be NULL. Called for each event of observe.h, one after the other, from a thread of the
     * client that holds no lock of the library. It may call everything but hf_client_close and the
     * calls that free a handle of this client. */
    void (*event)(void *argument, const struct hf_event *event);
    void *event_argument;
};

#define HF_CLIENT_OPTIONS                                                                    \
    HF_VALUE_(hf_client_options, sizeof(struct hf_client_options), NULL, NULL, 0, -1, false, \
              NULL, NULL)

/* Opens by URL: mem:  dir:PATH  sqlite:FILE  s3://BUCKET/PREFIX. `options` may be NULL.
 * Reads what the bucket says of itself (one get); a store on the network that nobody has tried is
 * probed first, which takes some fifty small requests, once a month. UNSUPPORTED: the store does
 * not keep the promises that locks are built on, or the bucket uses a feature that this version
 * does not know. UNAVAILABLE: it could not be asked. A client that may only read can open it; then
 * every write is DENIED. */
HF_API enum hf_status hf_client_open(const char *url, const struct hf_client_options *options,
                                     struct hf_client **ret_client, struct hf_error *error);

/* Free the locks, keys and transactions of a client before you close it. What a handle that is
 * left still holds is given back, as hf_lock_free would: the handle is told LOST, is granted
 * nothing any more (CANCELLED, also to a call that waits in line), and must still be freed; the
 * memory and the store of the client go with the last one. Waits for what is being given back
 * in the background, for a few seconds at most. NULL is fine. */
HF_API void hf_client_close(struct hf_client *client);

#ifdef __cplusplus
}
#endif

#endif
