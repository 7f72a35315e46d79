/* index_work.h: what the files of workload `index` share. */
#ifndef SIM_INDEX_WORK_H
#define SIM_INDEX_WORK_H

#include "index/compile.h"
#include "index/read.h"
#include "sim/judge_index.h"
#include "sim/skew.h"
#include "sim/team.h"

#define SIM_INDEX        "things"
#define SIM_INDEX_DIGITS 1

/* Keys that there are, and of how many fields records are: before the schema is extended, and
 * since. */
#define INDEX_KEYS         8
#define INDEX_FIELDS_FIRST 3
#define INDEX_FIELDS_LAST  4

/* What kind of world a seed has, and what is done there. */
struct index_plan {
    size_t keys; /* the first so many of them */
    int64_t ttl_ms;
    struct skew skew;
    bool apart;
    bool foreign;      /* another program writes entries, too */
    bool malformed;    /* some of which cannot be read */
    bool goes_back;    /* some are older than those before, and many read meanwhile */
    bool extends;      /* the schema gets a further field */
    bool all_compile;  /* in the calm, at once */
    bool both_hands;   /* nodes do two things at a time */
    size_t batch;      /* entries of one fold */
    bool locks_vanish; /* somebody deletes locks */
    bool fat;          /* records are so large that a shard is read in several pieces */
    enum { LOCK_ABSENT, LOCK_OF_ANOTHER, LOCK_OF_GARBAGE } lock; /* as there is one at first */
    unsigned moments;  /* so many different times, besides those of calendars */
    unsigned calendar; /* one in so many records has the time of its node's calendar */
};

/* The name of an entry of another program is written by one node only. */
#define FOREIGN_PLACES 3

struct index_work {
    struct run *run;
    struct index_plan plan;
    struct judge_index *judge;
    struct judge_swap *swap_judge;
    struct team team;
    unsigned last_record;               /* that was ever made */
    unsigned foreign_clock[INDEX_KEYS]; /* seconds: rises with each entry of the key */
};

/* One life of a node; or one of its hands. */
struct indexer {
    struct index_work *work;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct index *index; /* NULL: could not be opened yet */
    bool alone;          /* all others rest, and nothing goes wrong any more */
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

#define INDEXER_TRACE(indexer, ...)                      \
    trace_line(world_trace((indexer)->work->run->world), \
               world_now_us((indexer)->work->run->world), __VA_ARGS__)

/* ---- index_plan.c ---------------------------------------------------------------------- */

struct index_plan index_plan_draw(const struct world *world);
void index_tune(struct run *run, struct plans *plans);
struct view index_plan_key(size_t number);

/* ---- index_put.c: those who write ------------------------------------------------------ */

/* Creates the index, or extends it to so many fields, and opens it; false: not just now. */
bool indexer_open(struct indexer *indexer, size_t fields);

void indexer_put(struct indexer *indexer);

/* One of the names that are this node's as another program; false: there is none. */
bool indexer_draw_foreign(const struct indexer *indexer, size_t *ret_key, size_t *ret_place);

/* The other program writes there: what is later than all before of the key, or of any time. */
enum foreign_time { FOREIGN_LATER, FOREIGN_ANY_TIME };
void indexer_put_foreign(struct indexer *indexer, size_t key, size_t place,
                         enum foreign_time time);

void indexer_put_straight(struct indexer *indexer);
void indexer_extend(struct indexer *indexer);
void indexer_delete_lock(struct indexer *indexer);

/* ---- index_act.c: those who compile and read ------------------------------------------- */

struct compile_options indexer_options(const struct indexer *indexer);

/* What a node does at one time, drawn. */
void indexer_act(struct indexer *indexer);

/* Compiles all; true: there is nothing left to do. */
bool indexer_compile_all(struct indexer *indexer);

/* A second compile changes nothing; readers find all there is. */
void indexer_check_all(struct indexer *indexer);

#endif
