/* tend.h: what has to be cleared away: leases that ended with an output that nobody settled,
 * chunks that are past their retention, tombstones past grace, and objects to be deleted. Any
 * number of workers may do it at once.
 *
 *   settle   a lease that is over names its output: condemn it in the catalog (or learn
 *       that its commit happened),
 *            count the try against whom the lease's end blames, then forget the
 *            lease
 *   retire   live chunks whose newest record is past the retention become tombstones
 *   reap     graves past grace move to deleting; *then* pins are read afresh; what nobody
 *       has pinned is deleted
 *   drop     what has been deleting for D is deleted once more, *then* dropped from the
 *       catalog */
#ifndef COMPACT_TEND_H
#define COMPACT_TEND_H

#include "compact/shelf.h"

struct tend_report {
    uint64_t settled;   /* leases */
    uint64_t condemned; /* outputs that will never be */
    uint64_t retired;   /* chunks past their retention */
    uint64_t reaped;    /* chunks whose time of grace is over */
    uint64_t deleted;   /* objects */
    uint64_t pinned;    /* left since somebody reads them */
    uint64_t dropped;   /* names forgotten */
    uint64_t requests;
};

struct tend_options {
    bool short_lived; /* restamps what only somebody who watches could prove (stamp.h) */
    bool (*go_on)(void *argument); /* may be NULL; false stops it between two steps */
    void *argument;
};

/* One round over all catalogs of the shelf. A catalog that cannot be read is left out. */
enum hf_status tend_round(struct shelf *shelf, const struct tend_options *options,
                          struct tend_report *report, struct hf_error *error);

/* Settles the leases of one table that are over and touch one of these chunks; all when `keys`
 * is NULL. */
enum hf_status tend_settle(struct shelf *shelf, struct view home, const struct view *keys,
                           size_t count, struct tend_report *report, struct hf_error *error);

#endif
