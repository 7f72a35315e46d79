/* SPDX-License-Identifier: Apache-2.0 */
/* limits_checker.h: checks the longest ttl of leases, which the epoch document records. A run fails
 * if
 *
 *   - a table has a lease that has not ended by the store's clock, and whose ttl is longer than
 *     every limit recorded for its kind of table;
 *   - the barrier that replaces a damaged table is shorter than a limit that was recorded when the
 *     damage was marked, is still recorded, and may still cover a valid lease.
 *
 * The checker parses the documents itself. If the store's clock is not reliable, it checks
 * nothing. */
#ifndef SIM_CHECKERS_LIMITS_CHECKER_H
#define SIM_CHECKERS_LIMITS_CHECKER_H

#include "sim/run.h"

struct limits_checker;

/* Checks the tables with these keys; the keys must outlive the checker. */
struct limits_checker *limits_checker_new(struct run *run, const char *const *keys,
                                          size_t count);
void limits_checker_free(struct limits_checker *checker);

#endif
