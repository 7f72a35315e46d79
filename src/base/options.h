/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: structs in the public headers that may get new members: options that a caller passes
 * in, and reports that it gets back. Their first member, struct_size, is the size of the struct
 * that the caller was compiled with. It may be smaller or larger than the size that the library
 * knows. New members are added at the end, and zero must select the behaviour that existed before
 * the member was added. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/error.h"
#include "base/moment.h"

/* A larger struct_size means that the struct is uninitialised. */
#define STRUCT_SIZE_MAX 4096

/* Copies the caller's options over `options`, which holds the defaults. `given` may be NULL.
 * INVALID: the struct was not initialised with the initialiser that the error names. UNSUPPORTED: a
 * member is set that this version does not know. */
enum hf_status read_caller_options(const char *initialiser, const void *given, void *options,
                                   size_t size, struct hf_error *error);

/* Whether a report, which may be NULL, can be written. */
enum hf_status check_caller_report(const char *initialiser, const void *report,
                                   struct hf_error *error);

/* Short forms for a public function that starts like this, with the defaults in `used`:
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

/* Copies as much of `filled` as fits into the caller's struct, and fills the rest of that struct
 * with zeros. `report` may be NULL; otherwise it must have been checked. */
void write_caller_report(void *report, const void *filled, size_t size);

#endif
