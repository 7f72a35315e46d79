/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_kit.h: tables of the public calls, each called with NULL for every pointer in
 * turn, and checked against the headers for completeness. A header PART.h whose calls are not
 * in public_calls_test has a public_calls_PART_test. */
#ifndef TESTS_PUBLIC_CALLS_KIT_H
#define TESTS_PUBLIC_CALLS_KIT_H

#include "holdfast.h"

struct good;

/* Makes the call with NULL for the pointer of this number, counted from 0; -1 if it has no such
 * pointer. A test defines struct good, with valid arguments for its calls. */
typedef int public_call(const struct good *good, int argument, struct hf_error *error);

struct public_call_row {
    const char *name;
    public_call *call;
};

/* NULL for the chosen pointer. */
#define LEFT_OUT(number, value) (argument == (number) ? NULL : (value))

/* A handle that a failed call did not create must be NULL, whatever it was before. */
extern char was_here_before[];
#define FILLED(type) (struct type *)(void *)was_here_before

/* Checks that every row is INVALID for every pointer, with and without an error to fill. */
void assert_null_is_invalid(const struct public_call_row *rows, size_t count,
                            const struct good *good);

/* Checks that every call that the header declares is in `rows` or in `others`, and no other is.
 * Header NULL: all headers without a test of their own. */
void assert_calls_listed(const char *header, const struct public_call_row *rows, size_t count,
                         const char *const *others, size_t other_count);

#endif
