/* error.h: a status together with the reason, in words, that a person needs to act on it.
 *
 * It travels with the request; each layer on the way up may put its own name in front, so the
 * whole reads like "renew jobs/db-1: put: the store answered 412". */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "holdfast.h"

/* Sets both and returns the status, so that `return error_set(e, HF_DENIED, "...")` reads well.
 * A reason that does not fit is cut. `error` may be NULL where nobody asks. */
__attribute__((format(printf, 3, 4))) enum hf_status error_set(struct hf_error *error,
                                                               enum hf_status status,
                                                               const char *format, ...);

/* Status and reason of an errno value: full disks and busy files are UNAVAILABLE, missing
 * permissions and read-only file systems DENIED, and so on. "what" is the failed step as an
 * order, "open the log", which becomes "cannot open the log: No such file or directory". */
enum hf_status error_from_errno(struct hf_error *error, int errno_value, const char *what);

/* The same of a file that was to be opened, by its path. */
enum hf_status error_cannot_open(struct hf_error *error, int errno_value, const char *path);

/* Puts "prefix: " in front of the reason. */
__attribute__((format(printf, 2, 3))) void error_prefix(struct hf_error *error,
                                                        const char *format, ...);

/* Puts the path of a file in front, cut so that room is left for the reason. */
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

/* Ends a call whose caller may not want the reason: tells it how that came out. */
static inline enum hf_status error_tell(struct hf_error *error, enum hf_status status,
                                        const struct hf_error *why)
{
    if (status == HF_OK)
        return error_clear(error);
    if (error)
        *error = *why;
    return status;
}

/* INVALID with the name of the first of these pointers that is NULL: what a public call cannot do
 * without, checked before anything is touched. At most ten of them. */
#define ERROR_IF_NULL(error, ...)                                            \
    error_if_null(error, #__VA_ARGS__, (const void *const[]){ __VA_ARGS__ }, \
                  sizeof((const void *const[]){ __VA_ARGS__ }) / sizeof(void *))
enum hf_status error_if_null(struct hf_error *error, const char *names,
                             const void *const *pointers, size_t count);

/* The same for the texts of an array. */
enum hf_status error_if_null_among(struct hf_error *error, const char *name,
                                   const char *const *texts, size_t count);

/* The same for a function that the caller must give. */
static inline enum hf_status error_if_none(struct hf_error *error, const char *name, bool given)
{
    return given ? HF_OK : error_set(error, HF_INVALID, "%s must not be NULL", name);
}

static inline enum hf_status error_no_memory(struct hf_error *error)
{
    return error_set(error, HF_UNAVAILABLE, "out of memory");
}

#endif
