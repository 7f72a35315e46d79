/* SPDX-License-Identifier: Apache-2.0 */
/* index_work.h: declarations that the files of workload `index` share. */
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
    size_t keys; /* how many of them, starting with the first */
    int64_t ttl_ms;
    struct skew skew;
    bool apart;
    bool foreign;      /* another program writes entries, too */
    bool malformed;    /* some of which cannot be read */
    bool goes_back;    /* some are older than those before, and many read meanwhile */
    bool extends;      /* a field is added to the schema */
    bool all_compile;  /* in the calm, at once */
    bool both_hands;   /* nodes do two things concurrently */
    size_t batch;      /* entries of one fold */
    bool locks_vanish; /* a node deletes locks */
    bool fat;          /* records are so large that a shard is read in several pieces */
    enum { LOCK_ABSENT, LOCK_OF_ANOTHER, LOCK_OF_GARBAGE } lock; /* one exists at the start */
    unsigned moments;  /* the number of different times, besides those of wall clocks */
    unsigned calendar; /* one in this many records has the time of its node's wall clock */
};

/* Each name that another program uses for an entry is written by one node only. */
#define FOREIGN_PLACES 3

struct index_work {
    struct run *run;
    struct index_plan plan;
    struct index_checker *checker;
    struct swap_checker *swap_judge;
    struct team team;
    unsigned last_record;               /* that was ever made */
    unsigned foreign_clock[INDEX_KEYS]; /* seconds: rises with each entry of the key */
};

/* One life of a node, or one of its concurrent tasks. */
struct indexer {
    struct index_work *work;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct index *index; /* NULL: could not be opened yet */
    bool alone;          /* all others rest, in the calm */
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

struct index_plan index_plan_draw(const struct world *world);
void index_tune(struct run *run, struct plans *plans);
struct view index_plan_key(size_t number);

/* ---- index_put.c: writers -------------------------------------------------------------- */

/* Creates the index, or extends it to this many fields, and opens it; false if that fails
 * this time. */
bool indexer_open(struct indexer *indexer, size_t fields);

void indexer_put(struct indexer *indexer);

/* One of the names that this node uses as another program; false if it has none. */
bool indexer_draw_foreign(const struct indexer *indexer, size_t *ret_key, size_t *ret_place);

/* The other program writes an entry there: a record that is later than all earlier ones of
 * the key, or one with any time. */
enum foreign_time { FOREIGN_LATER, FOREIGN_ANY_TIME };
void indexer_put_foreign(struct indexer *indexer, size_t key, size_t place,
                         enum foreign_time time);

void indexer_put_straight(struct indexer *indexer);
void indexer_extend(struct indexer *indexer);
void indexer_delete_lock(struct indexer *indexer);

/* ---- index_act.c: compilers and readers ------------------------------------------------ */

struct compile_options indexer_options(const struct indexer *indexer);

/* Draws and runs one operation of a node. */
void indexer_act(struct indexer *indexer);

/* Compiles all shards; true: nothing is left to do. */
bool indexer_compile_all(struct indexer *indexer);

/* A second compile must change nothing, and readers must find every record. */
void indexer_check_all(struct indexer *indexer);

#endif
