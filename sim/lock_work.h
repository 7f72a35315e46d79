/* lock_work.h: what nodes do in the workloads of locks: they want things, wait for them in every
 * way there is, hold them for a while, and let them go in every way there is. The workloads
 * differ in what is wanted and in what happens to the tables. */
#ifndef SIM_LOCK_WORK_H
#define SIM_LOCK_WORK_H

#include "sim/judge_lock.h"

/* How the world of a seed keeps time, and what its clients assume. */
struct lock_plan {
    bool observed;             /* take over only what was watched */
    bool all_again;            /* in the calm everybody must get something of each table */
    bool exclusion;            /* the world keeps to what was assumed */
    bool store_time;           /* the store's clock stays near true time */
    int64_t skew_tolerance_ms; /* that clients allow for */
    int64_t ttl_max_ms;
    int64_t ttl_ms_max; /* of what is asked for */
    struct span store_step_max;
    struct span skew_max; /* of the store's front ends, either way; zero: as drawn */
    bool lying_dates;
    int64_t drift_ppm_max; /* of the nodes' clocks; 0: as is assumed */
    uint32_t cached_date_chance;
    bool apart; /* a local store's nodes are on machines of their own */
    bool local; /* the store has no clock of its own */
};

struct lock_plan lock_plan_draw(const struct world *world);

/* A workload's `tune`. */
void lock_work_tune(struct run *run, struct plans *plans);

struct lock_work;
struct lock_beside;

/* Boots the nodes. The wishes outlive the run; `once_per` says whether the first one may be asked
 * for once a period. */
struct lock_work *lock_work_new(struct run *run, const struct lock_wish *wishes, size_t count,
                                bool once_per);

/* The same, with what is done beside (lock_inside.h), which outlives it. */
struct lock_work *lock_work_new_beside(struct run *run, const struct lock_wish *wishes,
                                       size_t count, const struct lock_beside *beside);

/* Most leases are to be short, and a few as long as can be. */
void lock_work_mix_ttls(struct lock_work *work);
void lock_work_free(struct lock_work *work);
struct judge_lock *lock_work_judge(struct lock_work *work);

/* After the run. */
void lock_work_end(struct lock_work *work);

#endif
