/* SPDX-License-Identifier: Apache-2.0 */
/* checker_inside.h: the data of the lock checkers, shared by their source files. */
#ifndef SIM_CHECKERS_CHECKER_INSIDE_H
#define SIM_CHECKERS_CHECKER_INSIDE_H

#include "sim/checkers/lock_checker.h"

/* A process that was just resumed may need this long to notify its holders, because a wait may
 * detect a suspension late. */
#define CHECKER_WAKE_TIME_US INT64_C(1200000)

/* The checker's data about a token. */
struct checked_token {
    uint64_t token;
    uint64_t id; /* a hash of the lease's id: each token is granted once */
    bool over;   /* some version of the table did not have it as active */
    uint64_t renewals;
    uint64_t nodes;    /* one bit per node that has, or had, a handle for it */
    unsigned holders;  /* handles for it that have not been ended */
    bool told;         /* a handle was told that it holds the lease */
    bool adopted;      /* or may be: it can have several holders, any of which may end it */
    bool let_go;       /* a handle has started to end it */
    bool forgiven;     /* another node may end it without asking its holders */
    unsigned breaks;   /* nodes that asked to break it, and may have succeeded */
    bool unlisted;     /* its table has been damaged since then */
    char end[16];      /* its status in the table when first seen over; "": none */
    unsigned ended_by; /* the node that wrote that; 0: none */
    int64_t let_go_us; /* when its last handle was freed */
};

/* The time since which a waiter has had its turn. If a turn is withdrawn and granted again, even to
 * a waiter that left the queue and came back, the time is counted from the first grant, because a
 * polling client cannot tell the difference. */
struct checked_turn {
    char id[64];
    int64_t since_us;
};

struct checked_table {
    struct checked_table *next;
    char *key;
    struct checked_version *version; /* NULL: absent or damaged */
    bool marked;                     /* it is a placement mark */
    uint64_t next_token;             /* the highest seen */
    struct checked_token *tokens;    /* in grant order, which is also token order */
    size_t token_count;
    struct checked_turn *turns; /* of all waiters that ever had a turn */
    size_t turn_count;
};

struct claim {
    struct lock_checker *checker;
    struct claim *next; /* in the list of open claims */
    uint64_t number;
    struct node *node;
    uint32_t life;
    struct checked_table *table;
    struct checked_wish wish;
    bool open;        /* its handle exists, and its process is running */
    int64_t freed_us; /* since when it has not been open */

    /* Asking. */
    bool asking;
    enum checker_ask how;
    int64_t asked_us, may_leave_us;
    bool leaving;
    bool in_way;            /* it was blocked at some instant since it asked */
    enum hf_status refused; /* the final refusal; OK: none */

    /* Holding. */
    struct hf_lock *lock; /* NULL: the holder does not rely on it */
    uint64_t token;
    int64_t held_us;
    bool counted;   /* among the handles of its token */
    bool told_over; /* by hf_lock_check */
    bool told_gone, told_danger;
    int64_t doubted_us; /* when it was first seen not to believe; 0: never */
    bool passed_on;     /* left to an adopter, ... */
    bool forgiven;      /* ... and a node adopts it */
    enum checker_end end;
    int64_t sure_until_us; /* when it ends without another renewal, as of the release */
    bool over_before_release;
};

struct lock_checker {
    struct run *run;
    struct lock_checker_options options;
    struct bucket_watch watch;
    struct node_watch node_watches[NODES_MAX];
    struct checked_table *tables;
    struct claim **claims; /* by number, from 0 */
    size_t claim_count;
    struct claim *open;
    bool damaging, damaged;
    bool spoiling; /* damaging so that it can be detected */
};

static inline struct world *checker_world(const struct lock_checker *checker)
{
    return checker->run->world;
}

static inline int64_t checker_now_us(const struct lock_checker *checker)
{
    return world_now_us(checker->run->world);
}

/* lock_checker.c */

/* Zeroed memory that belongs to no node. */
void *checker_allocate(size_t size);

/* Makes room for one more item in a list of `count` items; doubles the list when it is full. */
void *checker_grow(void *list, size_t count, size_t size);

struct checked_table *checked_table_of(struct lock_checker *checker, struct view key);
struct checked_token *checked_token_of(const struct checked_table *table, uint64_t token);

/* The token that a claim got. */
struct checked_token *checked_own_token(const struct claim *claim);

/* Whether the claim's holder relies on the lease at its own risk. */
bool checked_forgiven(const struct claim *claim);

/* The handle that a table entry belongs to; NULL if it is unknown. */
struct claim *checked_claim_of(const struct lock_checker *checker,
                               const struct checked_entry *entry);

/* claim_checker.c */
void checker_node_ended(void *argument, struct node *node);

/* line_checker.c */

/* Checks a table that is about to change from its current version to `now`. */
void line_checker(struct lock_checker *checker, struct checked_table *table,
                  const struct checked_version *now);

/* Whether another client in this version of the table blocks this one, by holding a conflicting
 * lease or by waiting. */
bool checked_in_way(const struct claim *claim, const struct checked_version *version);

/* Reports that a request was granted; it may or may not have been waiting. */
void checker_order(struct lock_checker *checker, const struct checked_table *table,
                   const struct checked_version *now, const struct checked_entry *granted);

#endif
