/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h: the longest lease ttl per kind of table, kept in the epoch document of a namespace.
 *
 * When a table is damaged, its holders are unknown. Its replacement grants nothing until every
 * lease that the damaged table may have contained has expired, so the longest possible ttl must be
 * known. Therefore a lease is granted and renewed only under a limit that is known to be recorded,
 * and a limit is dropped only when every lease granted under it is known to have expired. A limit
 * consists of a ttl and a time on the store's clock. Leases of up to that ttl may be granted until
 * that time. See docs/design.md, section 5.
 *
 * Pure. */
#ifndef LOCK_LIMITS_H
#define LOCK_LIMITS_H

#include "lease/table.h"

#define LIMITS_MAX 16

/* Parameters of limits, the same for all clients of a namespace. */
struct limit_policy {
    struct span floor;  /* the shortest limit, which all shorter leases share */
    struct span period; /* how long a recorded limit can be used */
};

#define LIMIT_POLICY ((struct limit_policy){ .floor = SPAN_S(60), .period = SPAN_S(24 * 3600) })

/* The limits of one kind of table, in order of ttl, the shortest first. No two have the same
 * ttl. */
struct limits {
    size_t count;
    struct ttl_limit of[LIMITS_MAX];
};

/* Adds a limit that was read. If there are too many limits, the two shortest are merged. */
void limits_add(struct limits *limits, struct ttl_limit limit);

bool limits_equal(const struct limits *one, const struct limits *other);

/* The shortest limit under which a lease of this ttl can be granted for at least another half
 * period; false if there is none. */
bool limits_find(const struct limits *limits, const struct lease_settings *settings,
                 struct span ttl, const struct limit_policy *policy,
                 const struct evidence *evidence, struct ttl_limit *ret_limit);

/* Records a limit for leases of this ttl, for one period from now, and drops old limits. */
void limits_record(struct limits *limits, const struct lease_settings *settings,
                   struct span ttl, const struct limit_policy *policy,
                   const struct evidence *evidence);

/* Drops limits under which no lease can be valid any more. The shortest limit stays, so that there
 * is always one. */
void limits_drop_over(struct limits *limits, const struct lease_settings *settings,
                      const struct evidence *evidence);

/* The longest ttl, or 0 if there is no limit. */
struct span limits_longest(const struct limits *limits);

#endif
