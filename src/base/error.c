/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: sets, prefixes and maps errors. A reason that does not fit is truncated. */
#include "base/error.h"

#include "base/no_space.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum hf_status error_set(struct hf_error *error, enum hf_status status, const char *format, ...)
{
    if (!error)
        return status;
    char why[HF_WHY_MAX]; /* the arguments may point into error->why */
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    error->status = status;
    memcpy(error->why, why, strlen(why) + 1);
    return status;
}

static enum hf_status status_of_errno(int value)
{
    switch (value) {
    case ENOENT: return HF_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS: return HF_DENIED;
    case ENOTSUP:
    case ENOSYS: return HF_UNSUPPORTED;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP: return HF_INVALID;
    default: return HF_UNAVAILABLE;
    }
}

enum hf_status error_from_errno(struct hf_error *error, int errno_value, const char *what)
{
    char text[96] = "";
    const char *reason = strerror_r(errno_value, text, sizeof text);
    if (errno_value == ENOSPC)
        reason = NO_SPACE_ERRNO_TEXT; /* in every language */
    else if (errno_value == EDQUOT)
        reason = NO_SPACE_ERRNO_TEXT " (disk quota exceeded)";
    return error_set(error, status_of_errno(errno_value), "cannot %s: %s", what, reason);
}

bool error_is_no_space(const struct hf_error *error)
{
    return error->status == HF_UNAVAILABLE &&
           (strstr(error->why, NO_SPACE_TEXT) || strstr(error->why, NO_SPACE_ERRNO_TEXT));
}

enum hf_status error_cannot_open(struct hf_error *error, int errno_value, const char *path)
{
    char what[ERROR_PATH_MAX + 8];
    snprintf(what, sizeof what, "open '%.*s'", ERROR_PATH_MAX, path);
    enum hf_status status = error_from_errno(error, errno_value, what);
    if (error && errno_value == ENOENT && strpbrk(path, "*?["))
        error_set(error, status, "%s; patterns are not expanded", error->why);
    return status;
}

void error_prefix(struct hf_error *error, const char *format, ...)
{
    if (!error)
        return;
    char whole[2 * HF_WHY_MAX + 2] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(whole, HF_WHY_MAX, format, args);
    va_end(args);
    size_t used = strlen(whole);
    snprintf(whole + used, sizeof whole - used, ": %s", error->why);
    whole[HF_WHY_MAX - 1] = '\0';
    memcpy(error->why, whole, HF_WHY_MAX);
}

void error_about(struct hf_error *error, const char *path)
{
    error_prefix(error, "%.*s", ERROR_PATH_MAX, path);
}

enum hf_status error_if_null(struct hf_error *error, const char *names,
                             const void *const *pointers, size_t count)
{
    size_t at = 0;
    while (at < count && pointers[at])
        at++;
    if (at == count)
        return HF_OK;
    for (; at > 0; at--) {
        names += strcspn(names, ",");
        names += strspn(names, ", ");
    }
    return error_set(error, HF_INVALID, "%.*s must not be NULL", (int)strcspn(names, ","),
                     names);
}

enum hf_status error_if_null_among(struct hf_error *error, const char *name,
                                   const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!texts[i])
            return error_set(error, HF_INVALID, "%s[%zu] must not be NULL", name, i);
    return HF_OK;
}
