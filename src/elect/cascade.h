/* cascade.h: which level log-like data is to be compacted into: a counter of base `base`, one
 * digit a level.
 *
 * counts[L] is how many entries were made at level L - 1 since the last compaction into L; L
 * runs from 1, counts[0] is not used. A level whose count, plus the one that the level below
 * would add, reaches the base is the target; the highest such level is taken at once. Pure.
 * docs/design.md section 7. */
#ifndef ELECT_CASCADE_H
#define ELECT_CASCADE_H

#include <stdint.h>

#define CASCADE_LEVELS_MAX 8 /* levels 0 to 7 */
#define CASCADE_BASE       20

struct cascade {
    uint64_t counts[CASCADE_LEVELS_MAX];
};

/* The level to compact into, or 0 for none. */
unsigned cascade_target(const struct cascade *cascade, uint64_t base);

/* So many entries were added at level 0. */
void cascade_added(struct cascade *cascade, uint64_t count);

/* Everything below `level` was compacted into one entry of it: zeroes 1 to level and adds one to
 * level + 1, if there is such a level. */
void cascade_completed(struct cascade *cascade, unsigned level);

#endif
