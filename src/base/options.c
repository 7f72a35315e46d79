/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: copies option and report structs between caller and library, whose versions may
 * differ in size. It never reads or writes past the size that the caller declared. */
#include "base/options.h"

#include "base/check.h"

#include <string.h>

static size_t struct_size(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

enum hf_status check_caller_report(const char *initialiser, const void *report,
                                   struct hf_error *error)
{
    if (!report)
        return HF_OK;
    size_t size = struct_size(report);
    if (size > sizeof size && size <= STRUCT_SIZE_MAX)
        return HF_OK;
    return error_set(error, HF_INVALID, "struct_size is %zu: initialise the struct with %s",
                     size, initialiser);
}

enum hf_status read_caller_options(const char *initialiser, const void *given, void *options,
                                   size_t size, struct hf_error *error)
{
    enum hf_status status = check_caller_report(initialiser, given, error);
    if (!given || status != HF_OK)
        return status;
    size_t known = struct_size(given);
    const char *bytes = given;
    for (size_t i = size; i < known; i++)
        if (bytes[i] != 0)
            return error_set(error, HF_UNSUPPORTED,
                             "an option is set that version %s of the library does not support "
                             "(struct_size is %zu, but the library knows only %zu bytes)",
                             hf_version(), known, size);
    memcpy(options, given, known < size ? known : size);
    memcpy(options, &size, sizeof size);
    return HF_OK;
}

void write_caller_report(void *report, const void *filled, size_t size)
{
    if (!report)
        return;
    size_t known = struct_size(report);
    check(known > sizeof known && known <= STRUCT_SIZE_MAX);
    memset(report, 0, known);
    memcpy(report, filled, known < size ? known : size);
    memcpy(report, &known, sizeof known);
}
