#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum hf_status error_set(struct error *error, enum hf_status status, const char *format, ...)
{
    if (!error)
        return status;
    va_list args;
    va_start(args, format);
    error->status = status;
    vsnprintf(error->why, sizeof error->why, format, args);
    va_end(args);
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

enum hf_status error_from_errno(struct error *error, int errno_value, const char *what)
{
    char text[96] = "";
    const char *reason = strerror_r(errno_value, text, sizeof text);
    return error_set(error, status_of_errno(errno_value), "%s: %s", what, reason);
}

void error_prefix(struct error *error, const char *format, ...)
{
    if (!error)
        return;
    char old[ERROR_WHY_MAX];
    memcpy(old, error->why, sizeof old);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(error->why, sizeof error->why, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof error->why)
        snprintf(error->why + used, sizeof error->why - (size_t)used, ": %s", old);
}
