/* SPDX-License-Identifier: Apache-2.0 */
/* ladder.h: decides which member of a group starts a piece of work first, without messages.
 *
 * For each piece of work, every member ranks all members by a hash that each member can compute
 * (rendezvous hashing). The member with rank 0 may start immediately, and the member with rank k
 * only k steps after the work became due. So an absent leader costs one step, and each piece of
 * work may have a different leader. This is only an optimisation: two leaders waste work, but do
 * no other harm. Pure. See docs/design.md, section 7. */
#ifndef ELECT_LADDER_H
#define ELECT_LADDER_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"

#include <stddef.h>
#include <stdint.h>

/* One writer's progress: all of its sequence numbers up to `sequence`, without a gap. */
struct work_writer {
    struct view writer;
    uint64_t sequence;
};

/* A piece of work. Every member must use the same writers in the same order. Sequence numbers are
 * divided by `base` (at least 1) and rounded down, so a member with a slightly older view usually
 * computes the same leader. */
struct work {
    uint64_t level;
    uint64_t base;
    const struct work_writer *writers;
    size_t writer_count;
};

/* Sorts a piece of work's writers into the order that all members agree on, which is byte order.
 * INVALID if a writer is given twice. */
enum hf_status work_sort(struct work_writer *writers, size_t count, struct hf_error *error);

/* XXH3 of the fingerprint, the level and, for each writer, its name and sequence / base. Numbers
 * are eight bytes, little-endian. */
uint64_t ladder_score(struct view fingerprint, const struct work *work);

/* A member's position on the ladder for one piece of work. */
struct rung {
    uint64_t score;
    struct view fingerprint;
};

/* Whether `a` comes before `b`. The highest score leads and, among equal scores, the lowest
 * fingerprint. So the ranks never depend on the order of a listing. */
bool ladder_before(const struct rung *a, const struct rung *b);

/* How many members come before `own`, which need not be one of them. A member equal to `own` does
 * not count. */
size_t ladder_rank(const struct view *fingerprints, size_t count, struct view own,
                   const struct work *work);

/* The order of all members, for display: ret_order[0] is the index of the leader. */
void ladder_order(const struct view *fingerprints, size_t count, const struct work *work,
                  size_t *ret_order);

/* How long after the work became due a member of this rank may start. */
struct span ladder_delay(size_t rank, struct span step);

/* The minimum time for which the work has been due, by the timestamp in its document, as far as it
 * can be read, and since we first saw it due. The latter alone is not enough. A member that
 * arrives late or restarts would start counting again, and might never reach its step of the
 * ladder. */
struct span ladder_age(struct span since_due, struct span since_seen);

/* Whether a member of this rank may start work that has been due for this long. */
bool ladder_may_start(size_t rank, struct span step, struct span age);

/* How long it still has to wait; zero if it may start. */
struct span ladder_left(size_t rank, struct span step, struct span age);

/* Whether work that was planned earlier may begin. It may begin only if the document, read again
 * just before, shows that it is still due as planned. Another member may have done the work while
 * this member was waiting for its step, or while the job was waiting in its queue. */
bool ladder_guard(bool still_due);

#endif
