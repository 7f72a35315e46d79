/* judge_lock.h: judges holders of leases by what they believe and by what the store applied.
 *
 * A holder believes as long as its own hf_lock_check would say OK, asked from outside at the very
 * moment of true time at which somebody else is granted something, also when it is paused. The
 * judge knows the public calls, the JSON of a table and what scopes mean, and nothing of how
 * it is done.
 *
 * It fails the run when
 *   - a lease is granted that conflicts with one whose holder still believes;
 *   - a lease whose holder still believes is ended by a write that was not asked for;
 *   - a holder believes again after it was told that its lease is over;
 *   - a token does not rise, is told without having been granted, or is told twice;
 *   - a lease that was over in one version of the table is active in a later one, or is renewed
 *     long after its holder let it go;
 *   - one who waits is overtaken by a later one that it conflicts with;
 *   - a release says OK of what was already over, or leaves it active;
 *   - at the end anything is active or in line, but of processes that crashed.
 * Where the world goes beyond what exclusion assumes, `exclusion` is false and the first two are
 * not judged. */
#ifndef SIM_JUDGE_LOCK_H
#define SIM_JUDGE_LOCK_H

#include "holdfast.h"
#include "sim/judge_table.h"
#include "sim/run.h"

struct judge_lock;

struct judge_lock_options {
    bool exclusion;
    bool store_time; /* the store's clock stays near true time: late renewals can be told */
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

/* One handle, from its grant to its end. Lives as long as the judge. */
struct claim;

/* Which life of which node asks: to be the note of all its locks. */
struct life_note {
    char text[32];
};
struct life_note judge_life_note(const struct node *node);

struct claim *judge_claim(struct judge_lock *judge, struct node *node,
                          const struct lock_wish *wish);

/* It was granted. `adopted`: another handle had that lease before. */
void judge_held(struct claim *claim, struct hf_lock *lock, bool adopted);

/* The holder asked, and was told that it is over. */
void judge_told_over(struct claim *claim);

/* The keeper told that it is gone. */
void judge_told_gone(struct claim *claim);
bool judge_was_told_gone(const struct claim *claim);

/* The holder stops relying on it, and is going to end it. */
void judge_let_go(struct claim *claim);

/* What release, complete or fail said. */
void judge_released(struct claim *claim, enum hf_status status);

/* The holder leaves it to whoever adopts it, and believes on its own risk. */
void judge_passed_on(struct claim *claim);

/* Somebody begins to adopt it, or has done so: to be renewed for it is no longer in vain. */
void judge_adopting(struct judge_lock *judge, const char *key, uint64_t token, bool begins);

/* Somebody asks for the lease to be broken: from now on its holder may believe what is not so. */
void judge_forgive(struct judge_lock *judge, const char *key, uint64_t token);

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

/* ---- The end ------------------------------------------------------------------------- */

void judge_lock_end(struct judge_lock *judge);

#endif
