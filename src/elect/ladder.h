/* ladder.h: who does a piece of work first, without a word between the members of a group.
 *
 * Every member ranks all members for every piece of work by a hash that each can compute
 * (rendezvous hashing). Rank 0 may start at once, rank k after k steps since the work became due:
 * so an absent leader costs one step, and who leads changes with the work. Only an optimisation:
 * two leaders waste work, nothing more. Pure. docs/design.md section 7. */
#ifndef ELECT_LADDER_H
#define ELECT_LADDER_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"

#include <stddef.h>
#include <stdint.h>

/* How far one writer has come: all its numbers up to `sequence`, without a gap. */
struct work_writer {
    struct view writer;
    uint64_t sequence;
};

/* What is to be done. The same work has the same writers, in the same order, for every member;
 * sequences count in steps of `base` (at least 1), so that a member whose view is a little older
 * mostly finds the same leader. */
struct work {
    uint64_t level;
    uint64_t base;
    const struct work_writer *writers;
    size_t writer_count;
};

/* Puts the writers of a piece of work into the order that all members agree on, whatever order they
 * came in: that of their bytes. INVALID when one is given twice. */
enum hf_status work_sort(struct work_writer *writers, size_t count, struct hf_error *error);

/* XXH3 of: the fingerprint, the level, and for each writer its name and sequence / base; numbers
 * as eight bytes, the lowest first. */
uint64_t ladder_score(struct view fingerprint, const struct work *work);

/* A member as it stands on the ladder for one piece of work. */
struct rung {
    uint64_t score;
    struct view fingerprint;
};

/* Whether `a` comes before `b`: the highest score leads, of equal scores the lowest
 * fingerprint. So who comes first never depends on the order of a listing. */
bool ladder_before(const struct rung *a, const struct rung *b);

/* How many members come before `own`, which need not be among them; one of them that equals it
 * does not count. */
size_t ladder_rank(const struct view *fingerprints, size_t count, struct view own,
                   const struct work *work);

/* The order of all members, for people to look at: ret_order[0] is the index of the leader. */
void ladder_order(const struct view *fingerprints, size_t count, const struct work *work,
                  size_t *ret_order);

/* How long after the work became due a member of this rank starts. */
struct span ladder_delay(size_t rank, struct span step);

/* For how long the work has been due, at least: by the stamp in its document, as far as that
 * tells, and by since when we have seen it due. Never by the second alone: who comes late, or
 * starts anew, would begin to count again, and the ladder never come to its end. */
struct span ladder_age(struct span since_due, struct span since_seen);

/* Whether one of this rank may start work that has been due for so long. */
bool ladder_may_start(size_t rank, struct span step, struct span age);

/* How long it still has to wait; zero: it may start. */
struct span ladder_left(size_t rank, struct span step, struct span age);

/* Whether work that was planned a while ago is begun: only if the document, looked at again just
 * before, says that it is still due as it was planned. On the way (the steps of the ladder, a
 * queue of jobs) somebody else may have done it. */
bool ladder_guard(bool still_due);

#endif
