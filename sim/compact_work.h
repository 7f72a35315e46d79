/* compact_work.h: what the files of workload `compact` share. */
#ifndef SIM_COMPACT_WORK_H
#define SIM_COMPACT_WORK_H

#include "compact/job.h"
#include "compact/shelf.h"
#include "sim/compact_rows.h"
#include "sim/judge_catalog.h"
#include "sim/skew.h"
#include "sim/team.h"

#define COMPACT_PARTITION "default"

/* A row of this key kills whoever merges it. */
#define ROW_KEY_KILLER (ROW_KEYS - 1)

/* What kind of world a seed has, and what is done there. */
struct compact_plan {
    struct compact_settings settings;
    bool latest_wins;
    bool by_date, apart;
    struct skew skew;
    struct span cut_max; /* for longer than anybody's patience, too */
    unsigned killers;    /* chunks that kill whoever merges them */
    bool spoils;         /* chunks are damaged */
    bool splits;
    bool sleepers; /* some add what they have put after more than D/2 */
    bool fscks;
    bool forges_fail;
    bool cuts;       /* nodes are cut off as they commit */
    bool all_drain;  /* in the calm all nodes merge what is due, at once */
    bool both_hands; /* nodes do two things at a time */
};

/* A node that killed itself starts again. */
struct compact_restart {
    struct compact *compact;
    struct node *node;
    struct timer timer;
};

/* A node that has merged is cut off just as it commits, for longer than it waits. */
struct compact_cut {
    struct compact *compact;
    struct node *node;
    struct timer timer;
    int64_t length_us;
    bool is_cut;
};

#define COMPACT_ROWS_MAX    4 /* of a chunk that is added */
#define COMPACT_BATCH_MAX   3
#define COMPACT_BATCHES_MAX 16

/* Chunks that are added at once, and the names that they have for now. All go to one catalog, so
 * what was added as a batch is added again as a batch. */
struct compact_batch {
    struct chunk chunks[COMPACT_BATCH_MAX];
    char keys[COMPACT_BATCH_MAX][KEY_BYTES_MAX + 1];
    char file_ids[COMPACT_BATCH_MAX][FILE_ID_DIGITS + 1]; /* empty: its writer gives none */
    char bytes[COMPACT_BATCH_MAX][COMPACT_ROWS_MAX * ROW_BYTES + 1];
    unsigned rows[COMPACT_BATCH_MAX]; /* the number of one row of each */
    char partition[PARTITION_BYTES_MAX + 1];
    size_t count;
    int64_t route_ms;
    struct mono_time drawn; /* of the oldest name */
};

struct compact {
    struct run *run;
    struct compact_plan plan;
    struct judge_catalog *judge;
    struct judge_swap *swap_judge;
    struct team team;
    struct compact_restart restarts[NODES_MAX + 1];
    struct compact_cut cuts[NODES_MAX + 1];
    unsigned last_row; /* that was ever made */
    unsigned killers_left;
    struct compact_batch made[COMPACT_BATCHES_MAX]; /* the last ones; to be added again */
    size_t made_count;                              /* ever */
};

/* One life of a node. */
struct actor {
    struct compact *compact;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct shelf *shelf;
    struct sim_forge {
        struct forge forge;
        struct actor *actor;
    } forge;
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

/* How long a process may stand still between what it decides and what it sends, by these plans. */
#define COMPACT_STANDSTILL SPAN_S(2 * 3600 + 600)

/* ---- compact_forge.c ----------------------------------------------------------------- */

void compact_forge_init(struct actor *actor);

/* Puts a new object until that is known: OK, or why not; UNSURE when it may be there. */
enum hf_status compact_put(const struct actor *actor, struct view key, struct view bytes,
                           struct hf_error *error);

/* ---- compact_work.c ------------------------------------------------------------------ */

/* What a node does at one time, drawn. */
void compact_act(struct actor *actor);

/* All that is due is merged, by ourselves. */
void compact_drain(struct actor *actor);
void compact_tend(struct actor *actor, bool short_lived);
void compact_fsck(struct actor *actor, struct span age);

/* Fails the run if there is anything to be found. */
void compact_fsck_finds_nothing(struct actor *actor);

#endif
