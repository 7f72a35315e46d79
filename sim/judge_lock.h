/* judge_lock.h: judges holders of leases, and those who wait for one, by what they are told and
 * by what the store applied.
 *
 * A holder believes as long as its own hf_lock_check would say OK, asked from outside at the very
 * moment of true time at which somebody else is granted something, also when it is paused. The
 * judge knows the public calls, the JSON of a table and what scopes mean, and nothing of how
 * it is done. Each handle has a note of its own, which the table carries, so that every entry
 * of a table can be told to be whose.
 *
 * It fails the run when, of holders (judge_lock.c, judge_claim.c),
 *   - a lease is granted that conflicts with one whose holder still believes;
 *   - a lease whose holder still believes is ended by a write that was not asked for;
 *   - a lease is taken for over before its holder, who runs, was told that it is gone; or it
 *     does not believe any more, and is not told;
 *   - a lease is ended by one who does not hold it, or in a way that nobody asked for;
 *   - a holder believes again after it was told that its lease is over;
 *   - a token does not rise, is told without having been granted, or is told twice;
 *   - a lease that was over in one version of the table is active in a later one;
 *   - a renewal leaves after the call that ended the work has returned;
 *   - a release says OK of what was already over, or leaves it active, or ended it otherwise,
 *     or says LOST of what it has ended itself in time;
 *   - it is gone for want of renewal, and nobody said before that it is in danger;
 * of those who ask and wait (judge_line.c),
 *   - one who waits is overtaken by a later one that it conflicts with;
 *   - one who waits is put out of the line by another before its turn is over;
 *   - one is refused what nothing was in the way of while it asked;
 *   - one is told that it was done already, and it never was;
 *   - one is told that it was refused, and is granted it afterwards;
 * and of all: when the trouble is over, what nobody asks for any more is still held or in line.
 *
 * Where the world goes beyond what exclusion assumes, `exclusion` is false and what rests on
 * clocks is not judged. */
#ifndef SIM_JUDGE_LOCK_H
#define SIM_JUDGE_LOCK_H

#include "holdfast.h"
#include "sim/judge_table.h"
#include "sim/run.h"

struct judge_lock;

struct judge_lock_options {
    bool exclusion;
    bool own_clock; /* holders count by their own clock alone, or by one that is as good */
    bool purged;    /* tables may go: another judge says when */
};

struct judge_lock *judge_lock_new(struct run *run, const struct judge_lock_options *options);
void judge_lock_free(struct judge_lock *judge);

/* ---- What nodes ask for and are told ------------------------------------------------- */

/* A lock as the user of the library names it; outlives the run. */
struct lock_wish {
    const char *key; /* of its table */
    const char *scopes[JUDGED_SCOPES_MAX];
    size_t scope_count;
    enum hf_mode mode;
    uint32_t slots;
};

/* One handle, from its making to its end. Lives as long as the judge. */
struct claim;

struct claim *judge_claim(struct judge_lock *judge, struct node *node,
                          const struct lock_wish *wish);

/* Which handle of which life of which node it is: to be the note of its lock. */
struct claim_note {
    char text[48];
};
struct claim_note judge_note(const struct claim *claim);

enum judge_ask {
    JUDGE_ASKS_ONCE,     /* takes no for an answer */
    JUDGE_STANDS_IN_LINE /* until it leaves */
};

/* It begins to ask. `patience_ms`: after so long it may leave the line by itself. */
void judge_asks(struct claim *claim, enum judge_ask how, int64_t patience_ms);

/* It was told that it is not free: refused, or in line. */
void judge_told_held(struct claim *claim);

/* It was told that it was done already. */
void judge_told_already(struct claim *claim);

/* It asks no more, was told this and holds nothing. */
void judge_refused(struct claim *claim, enum hf_status status);

/* Somebody is going to make it leave the line. */
void judge_leaves(struct claim *claim);

/* It was granted. `adopted`: another handle had that lease before. */
void judge_held(struct claim *claim, struct hf_lock *lock, bool adopted);

/* The holder asked, and was told that it is over. */
void judge_told_over(struct claim *claim);

/* What the keeper told. `kept`: it is the keeper who renews it. */
void judge_told(struct claim *claim, enum hf_lock_event event, bool kept);
bool judge_was_told_gone(const struct claim *claim);

/* The holder stops relying on it, and is going to end it like this. */
enum judge_end {
    JUDGE_RELEASES,
    JUDGE_COMPLETES,
    JUDGE_FAILS,
    JUDGE_FREES,
    JUDGE_ABANDONS, /* leaves it as it stands */
};
void judge_lets_go(struct claim *claim, enum judge_end how);

/* What release, complete or fail said. */
void judge_released(struct claim *claim, enum hf_status status);

/* The handle is no more. */
void judge_freed(struct claim *claim);

/* The holder leaves it to whoever adopts it, and believes on its own risk. */
void judge_passed_on(struct claim *claim);

/* Its node begins to adopt the lease of this token, or has done so: that is a use of it. */
void judge_adopting(struct claim *claim, uint64_t token, bool begins);

/* Somebody asks for the lease to be broken: from now on its holder may believe what is not so,
 * unless the answer says that it certainly was not. */
void judge_breaks(struct judge_lock *judge, const char *key, uint64_t token);
void judge_broke(struct judge_lock *judge, const char *key, uint64_t token,
                 enum hf_status status);

/* Looks at what all holders believe just now. */
void judge_look(struct judge_lock *judge);

/* ---- What happens to a table --------------------------------------------------------- */

enum judge_damage {
    DAMAGE_VISIBLE, /* anybody can see that this is no table: exclusion must hold */
    DAMAGE_HIDDEN, /* it looks good: who held what is forgotten, tokens must rise all the same */
};

/* Puts these bytes in the place of a table; data NULL: deletes it. */
void judge_damage(struct judge_lock *judge, struct view key, struct view body,
                  enum judge_damage damage);

/* Whether that has ever happened. */
bool judge_any_damage(const struct judge_lock *judge);

/* ---- The end ------------------------------------------------------------------------- */

/* The node has been quiet for long, and so has everything around it: what its handles of before
 * left behind must be gone. */
void judge_quiet(struct judge_lock *judge, struct node *node, struct span since);

/* After the run, at whose end somebody had everything once. */
void judge_lock_end(struct judge_lock *judge);

#endif
