/* limits.h: how long the leases of a kind of table can be, as the epoch document of a namespace
 * keeps it.
 *
 * When a table is damaged nobody knows who held what, and nothing is granted in its place until
 * every lease that it may have had is over. So it must be known how long such a lease can be: each
 * is granted and renewed only under a limit that is known to be recorded, and a limit is dropped
 * only when every lease that was granted under it is over for certain. A limit is a ttl and a
 * moment on the store's clock until which leases up to that ttl may be granted. docs/design.md
 * section 5.
 *
 * Pure. */
#ifndef LOCK_LIMITS_H
#define LOCK_LIMITS_H

#include "lease/table.h"

#define LIMITS_MAX 16

/* How limits are made, the same for all clients of a namespace. */
struct limit_policy {
    struct span floor;  /* no limit is lower: leases that differ by less need no record each */
    struct span period; /* how long a limit can be used once it is recorded */
};

#define LIMIT_POLICY ((struct limit_policy){ .floor = SPAN_S(60), .period = SPAN_S(24 * 3600) })

/* Of one kind of table: by their ttl, the shortest first; no two of the same. */
struct limits {
    size_t count;
    struct ttl_limit of[LIMITS_MAX];
};

/* Takes in one as it was read. When there are too many the two shortest become one. */
void limits_add(struct limits *limits, struct ttl_limit limit);

/* The limit that a lease of this ttl can be granted under for at least half of the period more.
 * False: there is none. */
bool limits_find(const struct limits *limits, const struct lease_settings *settings,
                 struct span ttl, const struct limit_policy *policy,
                 const struct evidence *evidence, struct ttl_limit *ret_limit);

/* Records one for leases of this ttl, from now on, and drops those that are over. */
void limits_record(struct limits *limits, const struct lease_settings *settings,
                   struct span ttl, const struct limit_policy *policy,
                   const struct evidence *evidence);

/* Drops those under which no lease can be alive any more; the shortest stays, to tell how long
 * leases are. */
void limits_drop_over(struct limits *limits, const struct lease_settings *settings,
                      const struct evidence *evidence);

/* The longest ttl; 0 when there is none. */
struct span limits_longest(const struct limits *limits);

#endif
