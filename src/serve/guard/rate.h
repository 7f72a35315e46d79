/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h: how many requests a client may send: a token bucket for each. Pure.
 *
 * A client has two buckets: one for keepalives and releases, one for all other requests. So a
 * client that sends too many requests can still keep and return the leases that it has.
 *
 * The table has a fixed size. If more clients come than it holds, those that have not sent a
 * request for the longest time are forgotten, and begin again with a full bucket: a client can
 * get more than its rate by this, but never less. */
#ifndef SERVE_GUARD_RATE_H
#define SERVE_GUARD_RATE_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"

#define RATE_CLIENTS_MAX 4096
#define RATE_MAX         1000000

struct rate_limit {
    uint64_t per_s; /* 0: no limit */
    uint64_t burst;
};

/* "100" or "100:500": requests per second, and how many at once (default: as many). */
enum hf_status rate_limit_read(struct view text, struct rate_limit *ret_limit,
                               struct hf_error *error);

enum rate_kind { RATE_HOLDERS, RATE_OTHERS, RATE_KINDS };

struct rate_table;

/* NULL if memory runs out. */
struct rate_table *rate_table_new(const struct rate_limit *limit);
void rate_table_free(struct rate_table *table);

/* Takes one request of a client from its bucket. Returns 0, or how long the client must wait until
 * there is one. */
struct span rate_take(struct rate_table *table, struct view client, enum rate_kind kind,
                      struct mono_time now);

#endif
