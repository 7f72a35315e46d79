/* SPDX-License-Identifier: Apache-2.0 */
/* compact_work.h: declarations shared by the files of workload `compact`. */
#ifndef SIM_WORKLOADS_COMPACT_WORK_H
#define SIM_WORKLOADS_COMPACT_WORK_H

#include "compact/catalog/catalog_tree.h"
#include "compact/work/job.h"
#include "sim/checkers/catalog_checker.h"
#include "sim/checkers/compact_rows.h"
#include "sim/world/skew.h"
#include "sim/world/team.h"

#define COMPACT_PARTITION "default"

/* A row with this key crashes every node that merges it. */
#define ROW_KEY_KILLER (ROW_KEYS - 1)

/* The world of a seed, and the operations in it. */
struct compact_plan {
    struct compact_settings settings;
    bool latest_wins;
    bool by_date, apart;
    struct skew skew;
    struct span cut_max; /* may be longer than any node waits */
    unsigned killers;    /* how many chunks crash the nodes that merge them */
    bool spoils;         /* chunks are damaged */
    bool splits;
    bool sleepers; /* some nodes add their chunks more than D/2 after the put */
    bool fscks;
    bool mergers_fail;
    bool cuts;       /* nodes are partitioned as they commit */
    bool all_drain;  /* during the fault-free phase, all nodes merge due groups concurrently */
    bool both_hands; /* nodes do two things concurrently */
    bool adopts;     /* outside writers put objects, which nodes adopt */
    bool snapshots;  /* nodes from COMPACT_READERS on only take snapshots and read them */
    bool deletes;    /* the latest time wins, and some rows are deletion markers */
    bool restores;   /* ... and chunks that retention took are undeleted when markers are old */
    bool drops;      /* nodes drop the partition, and create it again */
    bool discards;   /* nodes give up chunks that are in quarantine */
    struct span standstill; /* the longest stop between a decision and its request */
};

#define COMPACT_READERS 4

/* Restarts a node that has crashed itself. */
struct compact_restart {
    struct compact *compact;
    struct node *node;
    struct timer timer;
};

/* A node that is partitioned just as it commits a merge, for longer than its timeout. */
struct compact_cut {
    struct compact *compact;
    struct node *node;
    struct timer timer;
    int64_t length_us;
    bool is_cut;
};

#define COMPACT_ROWS_MAX    4 /* in a chunk that is added */
#define COMPACT_BATCH_MAX   3
#define COMPACT_BATCHES_MAX 16

/* Chunks that are added together, and their current names. All of them belong to one catalog, so a
 * batch is always added again as a whole. */
struct compact_batch {
    struct chunk chunks[COMPACT_BATCH_MAX];
    char keys[COMPACT_BATCH_MAX][KEY_BYTES_MAX + 1];
    char file_ids[COMPACT_BATCH_MAX][FILE_ID_DIGITS + 1]; /* empty: the file has no id */
    char bytes[COMPACT_BATCH_MAX][COMPACT_ROWS_MAX * ROW_BYTES + 1];
    unsigned rows[COMPACT_BATCH_MAX]; /* the number of one row of each chunk */
    char partition[PARTITION_BYTES_MAX + 1];
    size_t count;
    int64_t route_ms;
    struct mono_time drawn; /* when the oldest name was generated */
};

struct compact {
    struct run *run;
    struct compact_plan plan;
    struct catalog_checker *checker;
    struct swap_checker *swap_checker;
    struct team team;
    struct compact_restart restarts[NODES_MAX + 1];
    struct compact_cut cuts[NODES_MAX + 1];
    unsigned last_row; /* the number of the last row made */
    unsigned killers_left;
    struct compact_batch made[COMPACT_BATCHES_MAX]; /* the last batches, to be added again */
    size_t made_count;                              /* since the start */
    unsigned outside;                               /* objects that outside writers have put */
};

/* One incarnation of a node. */
struct actor {
    struct compact *compact;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct catalog_tree *tree;
    struct sim_merger {
        struct merger merger;
        struct actor *actor;
    } merger;
};

static inline uint64_t actor_below(const struct actor *actor, uint64_t bound)
{
    return env_random_below(actor->env, bound);
}

static inline bool actor_one_in(const struct actor *actor, uint64_t bound)
{
    return env_random_below(actor->env, bound) == 0;
}

static inline void actor_rest(const struct actor *actor, struct span most)
{
    env_sleep(actor->env, env_jitter(actor->env, most));
}

/* ---- compact_plan.c ------------------------------------------------------------------ */

struct compact_plan compact_plan_draw(const struct world *world);
void compact_tune(struct run *run, struct plans *plans);

/* ---- compact_merger.c ----------------------------------------------------------------- */

void compact_merger_init(struct actor *actor);

/* Puts a new object, and retries until the outcome is known. Returns OK, the status of the failure,
 * or UNSURE if the object may exist. */
enum hf_status compact_put(const struct actor *actor, struct view key, struct view bytes,
                           struct hf_error *error);

/* ---- compact_read.c ------------------------------------------------------------------ */

/* Takes a snapshot of the partition, and reads its chunks for a while. */
void compact_read_snapshot(struct actor *actor);

/* Reads a pinned chunk, and reports the result to the checker if the pin is still held. */
bool compact_read_pinned(struct actor *actor, struct checked_pin *pin, struct hf_lock *lock,
                         const char *key);

/* ---- compact_adopt.c ----------------------------------------------------------------- */

/* An outside writer, or a node that adopts what such writers put, or releases a path. If `quiet`,
 * nothing is put or adopted. */
void compact_adopt_act(struct actor *actor, bool quiet);

/* ---- compact_work.c ------------------------------------------------------------------ */

/* Makes the bytes and the entry of a new chunk. */
void compact_make_chunk(struct actor *actor, struct compact_batch *batch, size_t index);

/* Draws and runs one operation of a node. */
void compact_act(struct actor *actor);

/* Merges everything that is due, in this node. */
void compact_drain(struct actor *actor);
void compact_maintain(struct actor *actor, bool short_lived);
void compact_fsck(struct actor *actor, struct span age);

/* Fails the run if fsck finds anything. */
void compact_fsck_finds_nothing(struct actor *actor);

#endif
