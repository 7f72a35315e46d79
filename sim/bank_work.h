/* bank_work.h: what the files of workload `bank` share. */
#ifndef SIM_BANK_WORK_H
#define SIM_BANK_WORK_H

#include "sim/judge_bank.h"
#include "sim/judge_sweep.h"
#include "sim/skew.h"
#include "sim/team.h"

#include <inttypes.h>

/* Keys that there are: pairs, whose two together are never negative, then others. */
#define BANK_KEYS  10
#define BANK_PAIRS 3
extern const char *const bank_keys[BANK_KEYS];

/* What kind of world a seed has, and what is done there. */
/* In some seeds nodes from this number on only watch the others: they read, or sweep. */
#define BANK_ONLOOKERS 4

struct bank_plan {
    size_t pairs;  /* the first so many of them are used */
    size_t others; /* and so many of those that are none, from the last on */
    int64_t ttl_ms;
    struct skew skew;
    bool apart;
    bool wild_calendars;
    bool both_hands; /* nodes do two things at a time */
    bool fast_hands; /* nobody thinks, and most stage twice: readers come in between */
    bool slow_hands; /* many think for longer than a lease lasts */
    bool fat;        /* most states are larger than what stands in a document */
    bool cuts;       /* nodes are cut off as they write, for about as long as they wait */
    bool litters;    /* all states are that large; onlookers sweep everything, at full speed */
    bool crowds;     /* fast transactions on three keys, each staged twice; onlookers read */
    unsigned joins;  /* one in so many transactions is shared */
    unsigned sweeps; /* one in so many operations is a sweep */
    struct span hour;
    struct span late_bound;
};

struct bank_plan bank_plan_draw(const struct world *world);
void bank_tune(struct run *run, struct plans *plans);

/* A transaction that is looking for somebody to join it. */
struct bank_offer {
    char id[HF_TXN_ID_SIZE + 1]; /* empty: none */
    bool open;                   /* whoever joins may decide it */
    bool careless;               /* nobody waits for who joins, who therefore moves nothing */
    bool taken, done;            /* somebody has joined; and has staged all it was going to */
};

/* A lease that its holder leaves to another, or shares with it: with another process, since one
 * may do in one write what several of its handles ask for, and nobody could tell what was done. */
struct bank_passed {
    size_t key;
    bool staged;                  /* whose changes are to be published with its release: */
    uint64_t operation;           /* the last that was told so; 0: none */
    bool shared;                  /* its holder goes on, ... */
    unsigned node;                /* ... which is this */
    char text[HF_LEASE_TEXT_MAX]; /* empty: none */
};

/* A key of a transaction, in which another may stage once more what is staged there. */
struct bank_lent {
    char id[HF_TXN_ID_SIZE + 1]; /* of the transaction */
    size_t key;
    int64_t balance;
    unsigned node;                /* that has it */
    char text[HF_LEASE_TEXT_MAX]; /* of its lease; empty: none */
};

/* A node that is cut off just as it writes. */
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
    struct judge_bank *judge;
    struct judge_sweep *sweep_judge;
    struct judge_swap *swap_judge;
    struct team team;
    struct bank_cut cuts[NODES_MAX + 1];
    struct bank_offer offer;
    struct bank_passed passed;
    struct bank_lent lent;
};

/* One life of a node; or one of its hands. */
struct teller {
    struct bank_work *work;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct sweep_cursor *cursor; /* of its sweeps */
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

#define TELLER_TRACE(teller, format, ...)                                    \
    trace_line(world_trace((teller)->work->run->world),                      \
               world_now_us((teller)->work->run->world), "node %u: " format, \
               node_number((teller)->node), __VA_ARGS__)

/* ---- bank_key.c: single keys ----------------------------------------------------------- */

/* One of the keys that are used. */
size_t teller_draw_key(const struct teller *teller);
size_t teller_draw_other(const struct teller *teller);

struct hf_key_options teller_key_options(const struct teller *teller);

/* Thinks for a while: now and then for longer than a lease lasts. */
void teller_think(const struct teller *teller);

/* Reads a key without a lease; false: not just now. */
bool teller_read(struct teller *teller, size_t key, int64_t *ret_balance,
                 struct hf_key_info *ret_info);

/* Writes a balance; 0 may be written by removing. `txn` may be empty; `staged`: it is seen when
 * that, or the lease, is committed. */
struct teller_write {
    struct hf_key *key;
    size_t number;
    struct view txn;
    bool staged;
    const struct hf_key_if *when; /* may be NULL */
    bool impossible;              /* and is false */
    uint64_t operation;           /* what it was; 0: it was never asked for */
    bool doubt;                   /* a try had no answer, and none after it was done */
    uint64_t waiting; /* what is staged under the lease alone, for certain; 0: nobody knows */
    bool shared;      /* others write under the same lease, ... */
    bool contested;   /* ... and may stage over it */
};
enum hf_status teller_write(struct teller *teller, struct teller_write *write, int64_t balance);

/* Takes a key, writes what it holds once more, in one way or another, and lets it go. */
void teller_rewrite(struct teller *teller);

/* Takes over a lease that another has passed on. */
void teller_adopt(struct teller *teller);

/* ---- bank_txn.c: transactions ---------------------------------------------------------- */

/* Moves money over two to four keys. */
void teller_transact(struct teller *teller);

/* Begins one, and lets another node take part in it; and the other one. */
void teller_share(struct teller *teller);
void teller_join(struct teller *teller);

/* Adopts a key of a transaction that another has lent, and stages once more what is there. */
void teller_borrow(struct teller *teller);

/* ---- bank_plan.c ------------------------------------------------------------------------ */

/* Soon, before what is about to be written leaves or while it is on its way. */
void teller_maybe_be_cut(const struct teller *teller);

/* ---- workload_bank.c ------------------------------------------------------------------- */

/* One sweep, as far as it may go. */
enum hf_sweep_stop teller_sweep(struct teller *teller, bool full, uint64_t ops_max);

#endif
