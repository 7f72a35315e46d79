/* SPDX-License-Identifier: Apache-2.0 */
/* lock_work.h: the nodes of the lock workloads: they ask for locks, wait in every way, hold
 * them for a while, and end them in every way. The workloads differ in the scopes and in what
 * happens to the tables. */
#ifndef SIM_WORKLOADS_LOCK_WORK_H
#define SIM_WORKLOADS_LOCK_WORK_H

#include "sim/checkers/lock_checker.h"

/* How accurate the clocks in a seed's world are, and what its clients assume. */
struct lock_plan {
    bool observed;             /* take over only by watching */
    bool all_again;            /* in the calm, each node must acquire a lock in each table */
    bool exclusion;            /* the world stays within the assumptions */
    bool store_time;           /* the store's clock stays near true time */
    int64_t skew_tolerance_ms; /* that clients allow for */
    int64_t ttl_max_ms;
    int64_t ttl_ms_max; /* of the requests */
    struct span store_step_max;
    struct span skew_max; /* of the store's front ends, either way; zero: as drawn */
    bool lying_dates;
    int64_t drift_ppm_max; /* of the nodes' clocks; 0: as is assumed */
    uint32_t cached_date_chance;
    bool apart; /* a local store's nodes are on machines of their own */
    bool local; /* the store has no clock */
};

struct lock_plan lock_plan_draw(const struct world *world);

/* A workload's `tune`. */
void lock_work_tune(struct run *run, struct plans *plans);

struct lock_work;
struct lock_beside;

/* Boots the nodes. The wishes must outlive the run; `once_per` says whether the first one
 * may be requested once per period. */
struct lock_work *lock_work_new(struct run *run, const struct lock_wish *wishes, size_t count,
                                bool once_per);

/* The same, with additional work (lock_inside.h), which outlives it. */
struct lock_work *lock_work_new_beside(struct run *run, const struct lock_wish *wishes,
                                       size_t count, const struct lock_beside *beside);

/* Most leases should be short, and a few as long as possible. */
void lock_work_mix_ttls(struct lock_work *work);
void lock_work_free(struct lock_work *work);
struct lock_checker *lock_work_judge(struct lock_work *work);

/* After the run. */
void lock_work_end(struct lock_work *work);

#endif
