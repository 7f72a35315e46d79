/* judge_inside.h: what the judges of locks know, for their own files. */
#ifndef SIM_JUDGE_INSIDE_H
#define SIM_JUDGE_INSIDE_H

#include "sim/judge_lock.h"

/* A process that has just gone on may need this long to tell: waits notice a suspend late. */
#define JUDGE_WAKE_TIME_US INT64_C(1200000)

/* What is known of a token. */
struct judged_token {
    uint64_t token;
    uint64_t id; /* a hash of the lease's: a token is granted once */
    bool over;   /* some version of the table had it not active any more */
    uint64_t renewals;
    uint64_t nodes;    /* a bit each: those that have, or had, a handle of it */
    unsigned holders;  /* handles of it that have not been ended */
    bool told;         /* some handle was told that it holds it */
    bool adopted;      /* or was to be: it may have several holders, who end it as they like */
    bool let_go;       /* some handle was to end it */
    bool forgiven;     /* somebody ends it without asking those who rely on it */
    unsigned breaks;   /* who asked for it to be broken, and may have been heard */
    bool unlisted;     /* its table was damaged since */
    char end[16];      /* what the table said first once it was over; "": nothing */
    unsigned ended_by; /* the number of the node whose write that was; 0: nobody's */
    int64_t let_go_us; /* since when it has no handle */
};

/* Since when it is somebody's turn. One that is taken back and given again, also to one who
 * left the line and came back, counts from the first time: whoever looks now and then cannot
 * know. */
struct judged_turn {
    char id[64];
    int64_t since_us;
};

struct judged_table {
    struct judged_table *next;
    char *key;
    struct judged_version *version; /* NULL: absent or damaged */
    uint64_t next_token;            /* the highest seen */
    struct judged_token *tokens;    /* in order of grants, which is that of the tokens */
    size_t token_count;
    struct judged_turn *turns; /* of all whose turn it ever was */
    size_t turn_count;
};

struct claim {
    struct judge_lock *judge;
    struct claim *next; /* of those that are open */
    uint64_t number;
    struct node *node;
    uint32_t life;
    struct judged_table *table;
    struct judged_wish wish;
    bool open;        /* its handle is there, and its process lives */
    int64_t freed_us; /* since when it is not */

    /* Asking. */
    bool asking;
    enum judge_ask how;
    int64_t asked_us, may_leave_us;
    bool leaving;
    bool in_way;            /* something was, at some moment since it asked */
    enum hf_status refused; /* for good; OK: not */

    /* Holding. */
    struct hf_lock *lock; /* NULL: does not rely on it */
    uint64_t token;
    int64_t held_us;
    bool counted;   /* among the handles of its token */
    bool told_over; /* by hf_lock_check */
    bool told_gone, told_danger;
    int64_t doubted_us; /* since when it was seen not to believe any more; 0: it was not */
    bool passed_on;     /* left to whoever adopts it ... */
    bool forgiven;      /* ... and somebody does */
    enum judge_end end;
    int64_t sure_until_us; /* when it was let go: if nothing is renewed */
    bool over_before_release;
};

struct judge_lock {
    struct run *run;
    struct judge_lock_options options;
    struct bucket_watch watch;
    struct node_watch node_watches[NODES_MAX];
    struct judged_table *tables;
    struct claim **claims; /* by number, from 0 */
    size_t claim_count;
    struct claim *open;
    bool damaging, damaged;
};

static inline struct world *judge_world(const struct judge_lock *judge)
{
    return judge->run->world;
}

static inline int64_t judge_now_us(const struct judge_lock *judge)
{
    return world_now_us(judge->run->world);
}

/* judge_lock.c */

/* Zeroed memory that belongs to no node. */
void *judge_allocate(size_t size);

/* Room for one more in a list of so many; doubles it whenever it is full. */
void *judge_grow(void *list, size_t count, size_t size);

struct judged_table *judged_table_of(struct judge_lock *judge, struct view key);
struct judged_token *judged_token_of(const struct judged_table *table, uint64_t token);

/* The token that a claim was told. */
struct judged_token *judged_own_token(const struct claim *claim);

/* Whether its holder believes on its own risk. */
bool judged_forgiven(const struct claim *claim);

/* The handle that an entry of a table is of; NULL: of none that we know. */
struct claim *judged_claim_of(const struct judge_lock *judge, const struct judged_entry *entry);

/* judge_claim.c */
void judge_node_ended(void *argument, struct node *node);

/* judge_line.c */

/* A table is about to change from its version to this one. */
void judge_line(struct judge_lock *judge, struct judged_table *table,
                const struct judged_version *now);

/* Whether somebody else is in the way of this, by what the table says: holds it, or waits. */
bool judged_in_way(const struct claim *claim, const struct judged_version *version);

/* This one is granted, which was waiting, or not. */
void judge_order(struct judge_lock *judge, const struct judged_table *table,
                 const struct judged_version *now, const struct judged_entry *granted);

#endif
