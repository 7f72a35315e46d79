/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h: the workload `scale`: a fleet of workers on a store like S3, and what it costs. scale.c
 * has the fleet and its figures, scale_work.c what a worker does, and checkers/scale_checker.c what
 * must be true. */
#ifndef SIM_WORKLOADS_SCALE_H
#define SIM_WORKLOADS_SCALE_H

#include "base/map.h"
#include "holdfast/lock.h"
#include "sim/workloads/clients.h"
#include "store/observe.h"

#define SCALE_WORKERS_MAX    10000
#define SCALE_PARTITIONS_MAX 10000
#define SCALE_MINUTES_MAX    1440
#define SCALE_MINUTES_MIN    3
#define SCALE_WARM_UP        SPAN_S(60) /* all workers begin within the first half of it */

struct scale_options {
    unsigned workers;
    unsigned partitions;
    unsigned minutes;       /* simulated, with the warm-up */
    unsigned claim_every_s; /* per worker that merges, on average */
    unsigned poll_s;        /* how often a worker looks for work when it has none */
    unsigned beat_s; /* between two heartbeats of a worker in the roster of its partition */
    unsigned chunk_ttl_s, lock_ttl_s;
    bool mergers_only; /* no worker uses locks or leads */
};

#define SCALE_OPTIONS                             \
    ((struct scale_options){ .workers = 64,       \
                             .partitions = 4,     \
                             .minutes = 20,       \
                             .claim_every_s = 10, \
                             .poll_s = 2,         \
                             .beat_s = 10,        \
                             .chunk_ttl_s = 300,  \
                             .lock_ttl_s = 30 })

/* The options of the next run; NULL: drawn from the seed, for a small fleet. */
void scale_set_options(const struct scale_options *options);

/* Of each hundred workers, three are candidates for the same leader, and ten use locks that eight
 * of them share. All others merge. */
enum scale_role { SCALE_MERGES, SCALE_LOCKS, SCALE_LEADS };
enum scale_role scale_role_of(const struct scale_options *options, size_t worker);

/* Times in steps of a hundredth of a second up to ten minutes, and all longer ones in the last. */
#define SCALE_TIMES_MAX 60000
struct scale_times {
    uint64_t count;
    uint64_t of[SCALE_TIMES_MAX + 1];
};
void scale_times_add(struct scale_times *times, int64_t us);
double scale_times_at(const struct scale_times *times, double part); /* in seconds */

/* Requests, by what they are for. */
enum scale_purpose {
    FOR_LEASES,
    FOR_CATALOG,
    FOR_DATA,
    FOR_LOCKS,
    FOR_ROSTER,
    FOR_OTHER,
    PURPOSES
};

struct scale_requests {
    uint64_t puts, gets, lists, deletes;
    uint64_t conflicts; /* of the puts */
    uint64_t throttled; /* of all */
};

/* Counted after the warm-up. */
struct scale_figures {
    struct scale_requests requests[PURPOSES];
    uint64_t supplied, claims, commits, stale, held, failed;
    uint64_t dropped; /* groups that were not even listed, because too many were open */
    uint64_t locked, lock_timeouts;
    uint64_t deaths, crashes, sweeps, swept;
    struct scale_times wait;                  /* from when a group is due until it is claimed */
    struct scale_times lock_wait;             /* for a lock that others use */
    struct scale_times lead_over, group_over; /* from a holder's death to the next grant */
};
struct scale_requests scale_total(const struct scale_figures *figures);

/* What only one worker may hold, as far as the workers have been told. */
struct scale_held {
    struct hf_lock *lock; /* NULL: nobody */
    struct node *node;
    uint32_t life;
    size_t worker;
    uint64_t token;  /* the highest that a worker was told */
    int64_t died_us; /* when a holder died with it, and nobody has had it since; 0: none */
};

/* A group of chunks that is to be merged. Workers know its number, because it is freed when it is
 * committed. */
struct scale_group {
    struct scale_group *next, *previous;
    uint64_t number;
    int64_t due_us;
    bool claimed;
    struct scale_held held;
};

/* The open groups of a partition, oldest first. They stand for its catalog. */
struct scale_partition {
    struct scale_group *first, *last;
    uint64_t supplied;
    size_t open, workers; /* those that merge */
};

struct scale_checker;
struct scale {
    struct run *run;
    struct scale_options options;
    struct clients all;
    struct scale_checker *checker;
    struct scale_partition *partitions;
    struct scale_held *locks, *leaders; /* by number */
    size_t lock_count, leader_count;
    struct scale_figures figures;
    struct timer crash, restart;
    struct node *crashed;
    struct prng prng;
    int64_t ends_us;
    bool prepared; /* the bucket has been used once, as any bucket that is not new */
};

/* The figures of the last run that ended well. */
const struct scale_figures *scale_figures(void);

static inline bool scale_counts(const struct scale *scale)
{
    int64_t now_us = world_now_us(scale->run->world);
    return now_us >= SCALE_WARM_UP.us && now_us < scale->ends_us;
}

/* scale_work.c */
void scale_work(void *one_client);
void scale_observe(void *scale, const struct observation *seen);

/* Adds the groups that have become due. */
void scale_supply(struct scale *scale, struct scale_partition *partition);

/* The group, if it is not committed; else NULL. */
struct scale_group *scale_group_of(const struct scale_partition *partition, uint64_t number);

/* checkers/scale_checker.c. The run fails if
 *
 *   - a worker is told that it holds what another one, whose own hf_lock_check still returns OK,
 *     holds too;
 *   - the token of a grant is not higher than all that were told for the same lock or group before;
 *   - a document is written over a version that its writer has not seen;
 *   - a table has two active leases that conflict (one version in CHECK_EVERY is parsed);
 *   - a group is committed twice;
 *   - in the end, a lease of a dead holder that others wait for has not been taken over. */
struct scale_checker *scale_checker_new(struct scale *scale);
void scale_checker_free(struct scale_checker *checker);
void scale_checker_granted(struct scale *scale, struct scale_held *held,
                           const struct one_client *self, struct hf_lock *lock);
/* The holder stops relying on it. With `dies`, its lease stays. */
void scale_checker_over(struct scale *scale, struct scale_held *held,
                        const struct hf_lock *lock, bool dies);
void scale_checker_commit(struct scale *scale, struct scale_partition *partition,
                          uint64_t number);
void scale_checker_end(struct scale *scale);

#endif
