/* options.h: structs of the public headers that may grow: options that a caller passes in, reports
 * that it gets back. Their first member, struct_size, says how much of the struct the caller knows,
 * which may be less than we do, or more. New members are added at the end, and zero must mean what
 * was before there was such a member. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/error.h"

/* A larger struct_size is no size. */
#define STRUCT_SIZE_MAX 4096

/* Copies what the caller knows over `options`, which has the defaults. `given` may be NULL.
 * INVALID, naming the initialiser: it was not used. UNSUPPORTED: a member is set that this version
 * does not know. */
enum hf_status read_caller_options(const char *initialiser, const void *given, void *options,
                                   size_t size, struct hf_error *error);

/* Whether a report, which may be NULL, can be written. */
enum hf_status check_caller_report(const char *initialiser, const void *report,
                                   struct hf_error *error);

/* Writes as much of `filled` as the caller knows, and zeros behind it. `report` may be NULL;
 * otherwise it was checked. */
void write_caller_report(void *report, const void *filled, size_t size);

#endif
