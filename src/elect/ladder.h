/* SPDX-License-Identifier: Apache-2.0 */
/* ladder.h: which member of a group does a piece of work first, without messages.
 *
 * Every member ranks all members for every piece of work by a hash that each can compute
 * (rendezvous hashing). Rank 0 may start immediately, rank k only k steps after the work became
 * due. So an absent leader costs one step, and each piece of work may have a different leader.
 * This is only an optimisation: two leaders waste work, nothing more. Pure. docs/design.md
 * section 7. */
#ifndef ELECT_LADDER_H
#define ELECT_LADDER_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"

#include <stddef.h>
#include <stdint.h>

/* One writer's progress: all its numbers up to `sequence`, without a gap. */
struct work_writer {
    struct view writer;
    uint64_t sequence;
};

/* A piece of work. It has the same writers, in the same order, for every member. Sequences count
 * in steps of `base` (at least 1), so a member with a slightly older view usually computes the
 * same leader. */
struct work {
    uint64_t level;
    uint64_t base;
    const struct work_writer *writers;
    size_t writer_count;
};

/* Sorts a piece of work's writers into the order that all members agree on: byte order. INVALID
 * if one is given twice. */
enum hf_status work_sort(struct work_writer *writers, size_t count, struct hf_error *error);

/* XXH3 of: the fingerprint, the level, and for each writer its name and sequence / base;
 * numbers as eight bytes, little-endian. */
uint64_t ladder_score(struct view fingerprint, const struct work *work);

/* A member's position on the ladder for one piece of work. */
struct rung {
    uint64_t score;
    struct view fingerprint;
};

/* Whether `a` comes before `b`: the highest score leads; among equal scores, the lowest
 * fingerprint. So the order never depends on a listing's order. */
bool ladder_before(const struct rung *a, const struct rung *b);

/* How many members come before `own`, which need not be among them; a member equal to it does
 * not count. */
size_t ladder_rank(const struct view *fingerprints, size_t count, struct view own,
                   const struct work *work);

/* The order of all members, for display: ret_order[0] is the index of the leader. */
void ladder_order(const struct view *fingerprints, size_t count, const struct work *work,
                  size_t *ret_order);

/* How long after the work became due a member of this rank starts. */
struct span ladder_delay(size_t rank, struct span step);

/* At least how long the work has been due: by the timestamp in its document, as far as it can be
 * read, and by when we first saw it due. The latter is not enough: a member that arrives late, or
 * restarts, would start counting again, and might never reach its step of the ladder. */
struct span ladder_age(struct span since_due, struct span since_seen);

/* Whether a member of this rank may start work that has been due for this long. */
bool ladder_may_start(size_t rank, struct span step, struct span age);

/* How long it still has to wait; zero: it may start. */
struct span ladder_left(size_t rank, struct span step, struct span age);

/* Whether work that was planned earlier may begin: only if the document, read again just before,
 * says that it is still due as planned. Another member may have done it in the meantime, while
 * this one waited for its step or in its job queue. */
bool ladder_guard(bool still_due);

#endif
