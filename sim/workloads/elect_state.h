/* SPDX-License-Identifier: Apache-2.0 */
/* elect_state.h: the document that the nodes of workload `elect` share, and the checker's data
 * about it. elect.c changes the document, and elect_checker.c checks the changes.
 *
 * The document contains its whole history, in order: entries that were added at level 0, and
 * levels that were compacted into. It also contains the counts of the cascade as src/elect
 * keeps them, and when work became due. Both follow from the history, and the checker
 * computes them itself. */
#ifndef SIM_WORKLOADS_ELECT_STATE_H
#define SIM_WORKLOADS_ELECT_STATE_H

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
    uint64_t value; /* the number of entries, or the level */
};

/* When the work became due: by the store's clock, and in true time, which only the checker
 * reads. */
struct elect_due {
    bool set;
    uint64_t clock; /* hash of its id */
    int64_t us;
    int64_t true_us;
};

struct elect_body {
    struct hf_cascade cascade;
    struct elect_due due;
    size_t count;
    struct elect_event events[ELECT_EVENTS_MAX];
};

/* Returns false if the text is not such a document. */
bool elect_parse(struct view text, struct elect_body *ret_body);

/* Copies only the events that exist. */
void elect_copy(struct elect_body *to, const struct elect_body *from);

/* How many compactions there have been, which is the number of the work that is due now or next. */
uint64_t elect_generation(const struct elect_body *body);

/* How many times a node has added entries. */
uint64_t elect_sequence(const struct elect_body *body, uint64_t node);

/* ---- Draws for a seed ---------------------------------------------------------------- */

struct elect_plan {
    uint64_t base;
    struct span step, beat, poll;
    struct span queue_max; /* longest time between a node's turn and its start */
    struct span work_max;
    uint64_t score_mask; /* all bits, or few enough that scores are often equal */
    bool honest;         /* clocks stay within the assumptions */
    struct span skew_max;
};

/* ---- The checker ----------------------------------------------------------------------- */

/* A member's object, as the store has it. */
struct elect_member {
    char name[FINGERPRINT_MAX + 1];
    bool there;
    int64_t since_us;   /* since when it has existed without interruption */
    int64_t written_us; /* last */
};

struct elect_checker_state {
    struct run *run;
    const struct elect_plan *plan;
    struct elect_body known, written;
    struct etag version;                    /* of the document */
    int64_t completed_us[ELECT_EVENTS_MAX]; /* by generation */
    struct elect_member members[ELECT_MEMBERS_MAX];
    size_t member_count;
};

/* Called for each write that the store applied. */
void elect_checker_write(struct elect_checker_state *checker,
                         const struct bucket_change *change);

/* The roster before a node requests it, ... */
struct elect_asked {
    int64_t at_us;
    size_t member_count;
    int64_t written_us[ELECT_MEMBERS_MAX]; /* INT64_MIN: not there */
};
void elect_checker_asks(const struct elect_checker_state *checker,
                        struct elect_asked *ret_asked);

/* ... and the members that the node found present, without itself. */
void elect_checker_told(const struct elect_checker_state *checker,
                        const struct elect_asked *asked, unsigned node,
                        const struct roster *roster);

/* The result of a node's read of the document: `body` is what it read, `roster` the members that it
 * knows, and `waits` whether it found that its turn has not come. `earliest_us` is the earliest
 * possible store time at that instant, or INT64_MIN if the due stamp cannot be compared with it. */
struct elect_turn {
    unsigned node;
    const struct elect_body *body;
    const struct roster *roster;
    size_t rank;
    int64_t earliest_us;
    bool waits;
};
void elect_checker_turn(const struct elect_checker_state *checker,
                        const struct elect_turn *turn);

/* Called when a node begins the work of this generation. */
void elect_checker_start(const struct elect_checker_state *checker, unsigned node,
                         uint64_t generation);

/* How many entries were added at the level below since the last compaction into this level or a
 * higher one; and the level that is therefore due (0: none). */
uint64_t elect_model_count(const struct elect_body *body, unsigned level);
unsigned elect_model_target(const struct elect_body *body, uint64_t base);

#endif
