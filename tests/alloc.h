/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h: allocations that fail on demand.
 *
 * Every test program is linked so that malloc, aligned_alloc, calloc, realloc, strdup and
 * strndup of our own code (not of the shared libraries under it) come through here. To fail each
 * allocation of a call in turn:
 *
 *     for (long n = 0;; n++) {
 *         alloc_fail_after(n);
 *         status = the_call(...);
 *         if (!alloc_stop())
 *             break;             // nothing failed any more: the call saw all its memory
 *         ... the status is UNAVAILABLE and nothing leaked ...
 *     }
 */
#ifndef TESTS_ALLOC_H
#define TESTS_ALLOC_H

#include <stdbool.h>

/* From now on `count` allocations succeed and the next one, and only that, fails. */
void alloc_fail_after(long count);

/* Back to normal; whether the failure has happened. */
bool alloc_stop(void);

/* Allocations since alloc_fail_after or the start of the program. */
long alloc_count(void);

#endif
