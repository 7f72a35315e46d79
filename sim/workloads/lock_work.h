/* SPDX-License-Identifier: Apache-2.0 */
/* lock_work.h: the nodes of the lock workloads. They ask for locks, wait in every possible way,
 * hold locks for a while, and end them in every possible way. The workloads differ in the scopes
 * and in what happens to the tables. */
#ifndef SIM_WORKLOADS_LOCK_WORK_H
#define SIM_WORKLOADS_LOCK_WORK_H

#include "sim/checkers/lock_checker.h"

/* The accuracy of the clocks in a seed's world, and what its clients assume. */
struct lock_plan {
    bool observed;   /* clients take over only by watching */
    bool all_again;  /* after the faults, each node must acquire a lock in each table */
    bool exclusion;  /* the world stays within the assumptions */
    bool store_time; /* the store's clock stays near true time */
    int64_t skew_tolerance_ms; /* the tolerance that clients assume */
    int64_t ttl_max_ms;
    int64_t ttl_ms_max; /* the longest ttl that nodes request */
    struct span store_step_max;
    struct span skew_max; /* of the store's front ends, in either direction; 0: as drawn */
    bool lying_dates;
    int64_t drift_ppm_max; /* of the nodes' clocks; 0: as assumed */
    uint32_t cached_date_chance;
    bool apart; /* the nodes of a local store are on separate machines */
    bool local; /* the store has no clock */
};

struct lock_plan lock_plan_draw(const struct world *world);

/* The `tune` function of a lock workload. */
void lock_work_tune(struct run *run, struct plans *plans);

struct lock_work;
struct lock_beside;

/* Boots the nodes. The list of locks must outlive the run. `once_per`: the first lock may be
 * requested with a once_per period. */
struct lock_work *lock_work_new(struct run *run, const struct lock_wish *wishes, size_t count,
                                bool once_per);

/* Like lock_work_new, with additional work (lock_inside.h), which must outlive the result. */
struct lock_work *lock_work_new_beside(struct run *run, const struct lock_wish *wishes,
                                       size_t count, const struct lock_beside *beside);

/* Makes most leases short, and a few as long as possible. */
void lock_work_mix_ttls(struct lock_work *work);
void lock_work_free(struct lock_work *work);
struct lock_checker *lock_work_checker(struct lock_work *work);

/* Called after the run. */
void lock_work_end(struct lock_work *work);

#endif
