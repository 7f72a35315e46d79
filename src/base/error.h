/* SPDX-License-Identifier: Apache-2.0 */
/* error.h: a status together with the reason, in words that a user can act on.
 *
 * The error is passed up with the result. Each layer may prepend its own context, so that the whole
 * message reads like "renew jobs/db-1: put: the store answered 412". */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "holdfast.h"

/* Sets the status and the reason, and returns the status, so that a function can end with `return
 * error_set(e, HF_DENIED, "...")`. A reason that does not fit is truncated. `error` may be NULL. */
__attribute__((format(printf, 3, 4))) enum hf_status error_set(struct hf_error *error,
                                                               enum hf_status status,
                                                               const char *format, ...);

/* Sets the status and the reason for an errno value: full disks and busy files are UNAVAILABLE,
 * missing permissions and read-only file systems are DENIED, and so on. `what` names the failed
 * step as an infinitive: "open the log" becomes "cannot open the log: No such file or
 * directory". */
enum hf_status error_from_errno(struct hf_error *error, int errno_value, const char *what);

/* The same for a file that could not be opened: "cannot open 'PATH': ...". If the path looks like a
 * pattern of the shell, the reason says that patterns are not expanded. */
enum hf_status error_cannot_open(struct hf_error *error, int errno_value, const char *path);

/* Prepends "prefix: " to the reason. */
__attribute__((format(printf, 2, 3))) void error_prefix(struct hf_error *error,
                                                        const char *format, ...);

/* Prepends the path of a file to the reason. A long path is truncated to leave room for the
 * reason. */
#define ERROR_PATH_MAX 120
void error_about(struct hf_error *error, const char *path);

static inline enum hf_status error_clear(struct hf_error *error)
{
    if (error) {
        error->status = HF_OK;
        error->why[0] = '\0';
    }
    return HF_OK;
}

/* Ends a public call: copies `why` to the caller's error, which may be NULL, and returns the
 * status. */
static inline enum hf_status error_tell(struct hf_error *error, enum hf_status status,
                                        const struct hf_error *why)
{
    if (status == HF_OK)
        return error_clear(error);
    if (error)
        *error = *why;
    return status;
}

/* Returns INVALID, and names the first of these pointers that is NULL. Public functions use this
 * macro to check their required arguments before they do anything else. At most ten pointers. */
#define ERROR_IF_NULL(error, ...)                                            \
    error_if_null(error, #__VA_ARGS__, (const void *const[]){ __VA_ARGS__ }, \
                  sizeof((const void *const[]){ __VA_ARGS__ }) / sizeof(void *))
enum hf_status error_if_null(struct hf_error *error, const char *names,
                             const void *const *pointers, size_t count);

/* The same for an array of strings. */
enum hf_status error_if_null_among(struct hf_error *error, const char *name,
                                   const char *const *texts, size_t count);

/* The same for a callback that the caller must set. */
static inline enum hf_status error_if_none(struct hf_error *error, const char *name, bool given)
{
    return given ? HF_OK : error_set(error, HF_INVALID, "%s must not be NULL", name);
}

static inline enum hf_status error_no_memory(struct hf_error *error)
{
    return error_set(error, HF_UNAVAILABLE, "out of memory");
}

#endif
