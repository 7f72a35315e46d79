/* SPDX-License-Identifier: Apache-2.0 */
/* index_work.h: declarations shared by the files of workload `index`. */
#ifndef SIM_WORKLOADS_INDEX_WORK_H
#define SIM_WORKLOADS_INDEX_WORK_H

#include "index/compile.h"
#include "index/read.h"
#include "sim/checkers/index_checker.h"
#include "sim/world/skew.h"
#include "sim/world/team.h"

#define SIM_INDEX        "things"
#define SIM_INDEX_DIGITS 1

/* The number of keys, and the number of fields per record before and after the schema is
 * extended. */
#define INDEX_KEYS         8
#define INDEX_FIELDS_FIRST 3
#define INDEX_FIELDS_LAST  4

/* The world of a seed, and the operations in it. */
struct index_plan {
    size_t keys; /* how many keys are used, starting with the first */
    int64_t ttl_ms;
    struct skew skew;
    bool apart;
    bool foreign;      /* another program also writes entries */
    bool malformed;    /* some of its entries cannot be read */
    bool goes_back;    /* some entries are older than earlier ones, while many nodes read */
    bool extends;      /* a field is added to the schema */
    bool all_compile;  /* all nodes compile concurrently during the fault-free phase */
    bool both_hands;   /* nodes do two things concurrently */
    size_t batch;      /* the number of entries in one fold */
    bool locks_vanish; /* a node deletes locks */
    bool fat;          /* records are so large that a shard is read in several pieces */
    enum { LOCK_ABSENT, LOCK_OF_ANOTHER, LOCK_OF_GARBAGE } lock; /* at the start of the run */
    unsigned moments;  /* the number of different times, besides those of wall clocks */
    bool deletes;      /* keys are deleted, and deletions are dropped after a while */
    unsigned calendar; /* one in this many records is timed by its node's wall clock */
    bool plain;        /* shards are plain, and another program rewrites them */
};

/* D, if keys are deleted: short, so that deletions are dropped while nodes still put and read. */
#define INDEX_LATE_BOUND SPAN_S(6)

/* How long deletions are kept. A compiler that is paused right before it sends a plain shard counts
 * as a request that arrives late, and pauses are longer than D. */
static inline struct span index_keep_deleted(const struct index_plan *plan)
{
    return SPAN_US((plan->plain ? 9 : 2) * INDEX_LATE_BOUND.us);
}

/* Each name that another program uses for an entry is written by one node only. */
#define FOREIGN_PLACES 3

struct index_work {
    struct run *run;
    struct index_plan plan;
    struct index_checker *checker;
    struct swap_checker *swap_checker;
    struct team team;
    unsigned last_record;               /* the number of the last record made */
    unsigned foreign_clock[INDEX_KEYS]; /* in seconds; increases with each entry of the key */
};

/* One incarnation of a node, or one of its concurrent tasks. */
struct indexer {
    struct index_work *work;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct index *index; /* NULL: not opened yet */
    bool alone;          /* all other nodes are idle, in the fault-free phase */
};

static inline uint64_t indexer_below(const struct indexer *indexer, uint64_t bound)
{
    return env_random_below(indexer->env, bound);
}

static inline bool indexer_one_in(const struct indexer *indexer, uint64_t bound)
{
    return env_random_below(indexer->env, bound) == 0;
}

static inline void indexer_rest(const struct indexer *indexer, struct span most)
{
    env_sleep(indexer->env, env_jitter(indexer->env, most));
}

#define INDEXER_TRACE(indexer, ...) \
    trace_line(world_trace((indexer)->work->run->world), __VA_ARGS__)

/* ---- index_plan.c ---------------------------------------------------------------------- */

struct index_plan index_plan_draw(const struct run *run);
void index_tune(struct run *run, struct plans *plans);
struct view index_plan_key(size_t number);

/* ---- index_put.c: writers -------------------------------------------------------------- */

/* Creates the index, or extends it to this many fields, and opens it. Returns false if this
 * fails. */
bool indexer_open(struct indexer *indexer, size_t fields);

void indexer_put(struct indexer *indexer);

/* Draws one of the names under which this node writes as another program. Returns false if it has
 * none. */
bool indexer_draw_foreign(const struct indexer *indexer, size_t *ret_key, size_t *ret_place);

/* Writes an entry there as the other program: a record that is later than all earlier records of
 * the key, or one with any time. */
enum foreign_time { FOREIGN_LATER, FOREIGN_ANY_TIME };
void indexer_put_foreign(struct indexer *indexer, size_t key, size_t place,
                         enum foreign_time time);

/* Deletes a key, as of any time. */
void indexer_delete(struct indexer *indexer);

void indexer_put_straight(struct indexer *indexer);

/* Rewrites a plain shard as another program that knows nothing of sidecars: reads it, replaces a
 * record by a later one, and puts it on condition of its ETag. */
void indexer_rewrite_plain(struct indexer *indexer);
void indexer_extend(struct indexer *indexer);
void indexer_delete_lock(struct indexer *indexer);

/* ---- index_act.c: compilers and readers ------------------------------------------------ */

struct compile_options indexer_options(const struct indexer *indexer);

/* Draws and runs one operation of a node. */
void indexer_act(struct indexer *indexer);

/* Compiles all shards. Returns true if nothing is left to do. */
bool indexer_compile_all(struct indexer *indexer);

/* Checks that a second compile changes nothing, and that readers find every record. */
void indexer_check_all(struct indexer *indexer);

#endif
