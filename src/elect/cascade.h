/* SPDX-License-Identifier: Apache-2.0 */
/* cascade.h: decides which level log-like data is compacted into. The counts work like a counter
 * in base `base` with one digit per level.
 *
 * counts[L] is the number of entries made at level L - 1 since the last compaction into L. L
 * starts at 1; counts[0] is not used. A level is due if its count, plus one if the level below is
 * also due, reaches the base. The target is the highest level that is due. Pure. See
 * docs/design.md, section 7. */
#ifndef ELECT_CASCADE_H
#define ELECT_CASCADE_H

#include "holdfast/elect.h"

#define CASCADE_LEVELS_MAX HF_CASCADE_LEVELS /* levels 0 to 7 */
#define CASCADE_BASE       HF_CASCADE_BASE

/* The level to compact into, or 0 for none. */
unsigned cascade_target(const struct hf_cascade *cascade, uint64_t base);

/* Notes that this many entries were added at level 0. */
void cascade_added(struct hf_cascade *cascade, uint64_t count);

/* Notes that everything below `level` was compacted into one entry of that level: sets counts 1 to
 * level to zero and, if level + 1 exists, adds one to its count. */
void cascade_completed(struct hf_cascade *cascade, unsigned level);

#endif
