/* judge_limits.h: how long leases can be, as the epoch document keeps it. A run is failed when
 *
 *   - a lease stands in a table, not over by the store's clock, that is longer than anything that
 *     is recorded for its kind of table;
 *   - the barrier in the place of a damaged table is shorter than a limit that was recorded when
 *     the damage was marked, is recorded still, and under which a lease can be alive.
 *
 * It reads the documents by itself. Where the store's clock is not to be relied on it judges
 * nothing. */
#ifndef SIM_JUDGE_LIMITS_H
#define SIM_JUDGE_LIMITS_H

#include "sim/run.h"

struct judge_limits;

/* Of the tables of these keys, which outlive it. */
struct judge_limits *judge_limits_new(struct run *run, const char *const *keys, size_t count);
void judge_limits_free(struct judge_limits *judge);

#endif
