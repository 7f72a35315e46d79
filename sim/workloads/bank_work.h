/* SPDX-License-Identifier: Apache-2.0 */
/* bank_work.h: declarations shared by the files of workload `bank`. */
#ifndef SIM_WORKLOADS_BANK_WORK_H
#define SIM_WORKLOADS_BANK_WORK_H

#include "sim/checkers/bank_checker.h"
#include "sim/checkers/sweep_checker.h"
#include "sim/world/skew.h"
#include "sim/world/team.h"

#include <inttypes.h>

/* All keys: first pairs, whose sum is never negative, then other keys. */
#define BANK_KEYS  10
#define BANK_PAIRS 3
extern const char *const bank_keys[BANK_KEYS];

/* The world of a seed, and the operations in it. */
/* In some seeds, nodes from this number on make no changes of their own: they only read, or
 * sweep. */
#define BANK_ONLOOKERS 4

struct bank_plan {
    size_t pairs;  /* how many pairs are used, starting with the first */
    size_t others; /* how many other keys are used, starting with the last */
    int64_t ttl_ms;
    struct skew skew;
    bool apart;
    bool wild_calendars;
    bool both_hands; /* nodes do two things concurrently */
    bool fast_hands; /* no pauses; many stage twice, so readers can read in between */
    bool slow_hands; /* many nodes wait for longer than a lease lasts */
    bool fat;        /* most states are too large for a document */
    bool cuts;       /* nodes are partitioned as they write, for about as long as they wait */
    bool litters;    /* all states are that large; onlookers run full sweeps, at full speed */
    bool crowds;     /* fast transactions on three keys, each staged twice; onlookers read */
    unsigned joins;  /* one in this many transactions is shared */
    unsigned sweeps; /* one in this many operations is a sweep */
    struct span hour;
    struct span late_bound;
};

struct bank_plan bank_plan_draw(const struct world *world);
void bank_tune(struct run *run, struct plans *plans);

/* A transaction that other nodes may join. */
struct bank_offer {
    char id[HF_TXN_ID_SIZE + 1]; /* empty: none */
    bool open;                   /* a node that joins may commit it or roll it back */
    bool careless;    /* no node waits for the joiner, which therefore moves no money */
    bool taken, done; /* a node has joined; it has staged everything */
};

/* A lease that its holder leaves to another process, or shares with it. It must be another process,
 * because a process may combine the requests of several handles into one write. The result could
 * then not be attributed to one of them. */
struct bank_passed {
    size_t key;
    bool staged;                  /* its changes are published by its release: */
    uint64_t operation;           /* the last one reported as staged; 0: none */
    bool shared;                  /* its holder continues, ... */
    unsigned node;                /* ... and is this node */
    char text[HF_LEASE_TEXT_MAX]; /* empty: none */
};

/* A key in a transaction that another node may adopt to stage the same value again. */
struct bank_lent {
    char id[HF_TXN_ID_SIZE + 1]; /* of the transaction */
    size_t key;
    int64_t balance;
    unsigned node;                /* the node that holds it */
    char text[HF_LEASE_TEXT_MAX]; /* its lease; empty: none */
};

/* A node that is partitioned just as it writes. */
struct bank_cut {
    struct bank_work *work;
    struct node *node;
    struct timer timer;
    int64_t length_us;
    bool is_cut;
};

struct bank_work {
    struct run *run;
    struct bank_plan plan;
    struct bank_checker *checker;
    struct sweep_checker *sweep_checker;
    struct swap_checker *swap_checker;
    struct team team;
    struct bank_cut cuts[NODES_MAX + 1];
    struct bank_offer offer;
    struct bank_passed passed;
    struct bank_lent lent;
};

/* One incarnation of a node, or one of its concurrent tasks. */
struct teller {
    struct bank_work *work;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct sweep_cursor *cursor; /* for its sweeps */
};

static inline uint64_t teller_below(const struct teller *teller, uint64_t bound)
{
    return env_random_below(teller->env, bound);
}

static inline bool teller_one_in(const struct teller *teller, uint64_t bound)
{
    return env_random_below(teller->env, bound) == 0;
}

static inline void teller_rest(const struct teller *teller, struct span most)
{
    env_sleep(teller->env, env_jitter(teller->env, most));
}

#define TELLER_TRACE(teller, format, ...)                                   \
    trace_line(world_trace((teller)->work->run->world), "node %u: " format, \
               node_number((teller)->node), __VA_ARGS__)

/* ---- bank_key.c: single keys ----------------------------------------------------------- */

/* Draws one of the keys in use. */
size_t teller_draw_key(const struct teller *teller);
size_t teller_draw_other(const struct teller *teller);

struct hf_key_options teller_key_options(const struct teller *teller);

/* Waits for a while, occasionally for longer than a lease lasts. */
void teller_think(const struct teller *teller);

/* Reads a key without a lease. Returns false if it cannot be read now. */
bool teller_read(struct teller *teller, size_t key, int64_t *ret_balance,
                 struct hf_key_info *ret_info);

/* Writes a balance; 0 may be written by removing the value. `txn` may be empty. If `staged`, the
 * change becomes visible when the transaction commits or, outside a transaction, when the lease is
 * released. */
struct teller_write {
    struct hf_key *key;
    size_t number;
    struct view txn;
    bool staged;
    const struct hf_key_if *when; /* may be NULL */
    bool impossible;              /* the condition is false */
    uint64_t operation;           /* its number; 0: never requested */
    bool doubt;                   /* an attempt got no reply, and no later one succeeded */
    uint64_t waiting;             /* the stage outside a transaction; 0: none, or uncertain */
    bool shared;                  /* another node writes under the same lease, ... */
    bool contested;               /* ... and may replace the stage */
};
enum hf_status teller_write(struct teller *teller, struct teller_write *write, int64_t balance);

/* The most changes in one call. */
#define TELLER_WRITES_MAX 4

/* Writes a balance to each of several keys of a transaction, at the same time. UNSURE: at least one
 * of them may or may not be staged. */
enum hf_status teller_write_many(struct teller *teller, struct hf_txn *txn,
                                 struct teller_write *writes, size_t count,
                                 const int64_t *balances);

/* Acquires a key, writes its current value again in one of several ways, and releases it. */
void teller_rewrite(struct teller *teller);

/* The same by hf_key_change, without a lease if the key is free. */
void teller_change_at_once(struct teller *teller);

/* Moves money between the two keys of a pair by hf_key_change_many, if the store can. */
void teller_move_at_once(struct teller *teller);

/* Adopts a lease that another node has passed on. */
void teller_adopt(struct teller *teller);

/* ---- bank_txn.c: transactions ---------------------------------------------------------- */

/* Moves money between two to four keys. */
void teller_transact(struct teller *teller);

/* Begins a transaction that another node may join, and joins such a transaction. */
void teller_share(struct teller *teller);
void teller_join(struct teller *teller);

/* Adopts a key of a transaction that another node has lent, and stages the current value again. */
void teller_borrow(struct teller *teller);

/* ---- bank_plan.c ------------------------------------------------------------------------ */

/* May partition the node soon: before its next write is sent, or while the write is in flight. */
void teller_maybe_be_cut(const struct teller *teller);

/* ---- bank.c ---------------------------------------------------------------------------- */

/* Runs one sweep, within its limits. */
enum hf_sweep_stop teller_sweep(struct teller *teller, bool full, uint64_t ops_max);

#endif
