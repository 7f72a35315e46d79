/* holdfast.h: leases, locks and compaction for anything that lives in a bucket.
 *
 * Holdfast needs no lock server. Everything that must be agreed on is a small document in an
 * object store (a directory, an SQLite file, S3), and every change to it is a compare-and-swap:
 * load it, compute the new one, write it back only if nobody else did meanwhile.
 *
 * This header is the whole public interface. It holds what every later part stands on: the
 * statuses and the version. Handles are opaque, options are structs with an initialiser and are
 * refused when out of range, outputs are named ret_... and are set on success only.
 *
 * The library never logs, exits or installs signal handlers. Every function here may be called
 * from any thread.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

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
    ROW(ALREADY, 96, "it was done already, within the period that was named")

#define HF_STATUS_ENUM_(name, code, text) HF_##name,
enum hf_status { HF_STATUS_TABLE(HF_STATUS_ENUM_) HF_STATUS_COUNT };
#undef HF_STATUS_ENUM_

/* "CONFLICT": the status as it is spelled in this header and in --json output. */
HF_API const char *hf_status_name(enum hf_status status);

/* The sentence of the table. */
HF_API const char *hf_status_text(enum hf_status status);

/* What the program `holdfast` exits with. */
HF_API int hf_status_exit_code(enum hf_status status);

/* "0.1.0". */
HF_API const char *hf_version(void);

#ifdef __cplusplus
}
#endif

#endif
