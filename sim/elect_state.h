/* elect_state.h: the document that the nodes of the workload `elect` share, and what the judge
 * knows of it: who does what is decided by workload_elect.c, and judged by judge_elect.c.
 *
 * The document holds everything that ever happened to it: entries that were added at level 0, and
 * levels that were compacted into, in order. Beside that stand the counts of the cascade as
 * src/elect keeps them, and since when work is due; both follow from the history, which the judge
 * counts by itself. */
#ifndef SIM_ELECT_STATE_H
#define SIM_ELECT_STATE_H

#include "base/evidence.h"
#include "elect/cascade.h"
#include "elect/ladder.h"
#include "elect/roster.h"
#include "sim/run.h"

#define ELECT_KEY   VIEW("elect/state")
#define ELECT_GROUP VIEW("crew")

#define ELECT_EVENTS_MAX  1024
#define ELECT_MEMBERS_MAX 512

enum elect_kind { ELECT_ADDED, ELECT_COMPLETED };

struct elect_event {
    enum elect_kind kind;
    uint64_t id;
    uint64_t node;
    uint64_t value; /* how many entries; the level */
};

/* When the work became due: by the store's clock, and in truth, which only the judge reads. */
struct elect_due {
    bool set;
    uint64_t clock; /* hash of its id */
    int64_t us;
    int64_t true_us;
};

struct elect_body {
    struct cascade cascade;
    struct elect_due due;
    size_t count;
    struct elect_event events[ELECT_EVENTS_MAX];
};

/* False: this is no such document. */
bool elect_parse(struct view text, struct elect_body *ret_body);

/* Only as many events as there are. */
void elect_copy(struct elect_body *to, const struct elect_body *from);

/* How often anything was compacted: the number of the work that is due, or will be next. */
uint64_t elect_generation(const struct elect_body *body);

/* How many times a node has added entries. */
uint64_t elect_sequence(const struct elect_body *body, uint64_t node);

/* ---- What is drawn for a seed -------------------------------------------------------- */

struct elect_plan {
    uint64_t base;
    struct span step, beat, poll;
    struct span queue_max; /* between a node's turn and its start */
    struct span work_max;
    uint64_t score_mask; /* all bits, or so few that scores are often equal */
    bool honest;         /* clocks keep to what is assumed */
    struct span skew_max;
};

/* ---- The judge ----------------------------------------------------------------------- */

/* A member's object, as the store has it. */
struct elect_member {
    char name[FINGERPRINT_MAX + 1];
    bool there;
    int64_t since_us;   /* since when it has been there without a break */
    int64_t written_us; /* last */
};

struct elect_judge {
    struct run *run;
    const struct elect_plan *plan;
    struct elect_body known, written;
    struct etag version;                    /* of the document */
    int64_t completed_us[ELECT_EVENTS_MAX]; /* by generation */
    struct elect_member members[ELECT_MEMBERS_MAX];
    size_t member_count;
};

/* Told of each write. */
void elect_judge_write(struct elect_judge *judge, const struct bucket_change *change);

/* The roster as it stands before a node asks for it, ... */
struct elect_asked {
    int64_t at_us;
    size_t member_count;
    int64_t written_us[ELECT_MEMBERS_MAX]; /* INT64_MIN: not there */
};
void elect_judge_asks(const struct elect_judge *judge, struct elect_asked *ret_asked);

/* ... and whom it was told to be present, itself left aside. */
void elect_judge_told(const struct elect_judge *judge, const struct elect_asked *asked,
                      unsigned node, const struct roster *roster);

/* What a node made of a look at the document: `body` is as it was shown, `present` whom it knows
 * of, `waits` whether it found that its turn has not come. `earliest_us` is the earliest that the
 * store's clock can be at that, INT64_MIN where the due stamp cannot be compared with it. */
struct elect_turn {
    unsigned node;
    const struct elect_body *body;
    const struct roster *roster;
    size_t rank;
    int64_t earliest_us;
    bool waits;
};
void elect_judge_turn(const struct elect_judge *judge, const struct elect_turn *turn);

/* A node begins the work of this generation. */
void elect_judge_start(const struct elect_judge *judge, unsigned node, uint64_t generation);

/* How many entries were made a level below since the last compaction into it or above, and the
 * level that is due by that; 0: none. */
uint64_t elect_model_count(const struct elect_body *body, unsigned level);
unsigned elect_model_target(const struct elect_body *body, uint64_t base);

#endif
