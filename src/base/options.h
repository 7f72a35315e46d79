/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: structs of the public headers that may grow: options that a caller passes in, and
 * reports that it gets back. Their first member, struct_size, says how much of the struct the
 * caller knows, which may be less than the library knows, or more. New members are added at the
 * end, and zero must mean the behaviour from before the member existed. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/error.h"
#include "base/moment.h"

/* A larger struct_size means that the struct is uninitialised. */
#define STRUCT_SIZE_MAX 4096

/* Copies the caller's options over `options`, which holds the defaults. `given` may be NULL.
 * INVALID: the struct was not initialised with the initialiser, which the error names.
 * UNSUPPORTED: a member is set that this version does not know. */
enum hf_status read_caller_options(const char *initialiser, const void *given, void *options,
                                   size_t size, struct hf_error *error);

/* Whether a report, which may be NULL, can be written. */
enum hf_status check_caller_report(const char *initialiser, const void *report,
                                   struct hf_error *error);

/* Short forms, for a public call that starts like this, with the defaults in `used`:
 *
 *     if (ERROR_IF_NULL(&why, client) != HF_OK ||
 *         READ_OPTIONS(HF_SWEEP_OPTIONS, options, &used, &why) != HF_OK ||
 *         CHECK_REPORT(HF_SWEEP_REPORT, report, &why) != HF_OK)
 *         return error_tell(error, why.status, &why); */
#define READ_OPTIONS(INITIALISER, given, used, why) \
    read_caller_options(#INITIALISER, given, used, sizeof *(used), why)
#define CHECK_REPORT(INITIALISER, report, why) check_caller_report(#INITIALISER, report, why)

/* Converts a caller's milliseconds to a span. Every negative value becomes -1 us. Very large values
 * are limited, so adding the span to a moment cannot overflow. */
static inline struct span span_of_ms(int64_t ms)
{
    const int64_t most = MOMENT_FAR / 4;
    return SPAN_US(ms < 0 ? -1 : ms < most / 1000 ? ms * 1000 : most);
}

/* Writes as much of `filled` as the caller knows, and zeros after it. `report` may be NULL;
 * otherwise it must have been checked. */
void write_caller_report(void *report, const void *filled, size_t size);

#endif
