/* SPDX-License-Identifier: Apache-2.0 */
/* cascade.c: decides which level log-like data is compacted into next, by counting the merges
 * into each level. Counts saturate, so a damaged document cannot overflow them. Pure. */
#include "elect/cascade.h"

#include "base/check.h"
#include "base/rule.h"

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

unsigned cascade_target(const struct hf_cascade *cascade, uint64_t base)
{
    check(base > 0);
    unsigned target = 0;
    bool below = false; /* whether the level below is due and would add one */
    for (unsigned level = 1; level < CASCADE_LEVELS_MAX; level++) {
        below = saturating_add(cascade->counts[level], below) >= base;
        if (below)
            target = level;
    }
    return target;
}

void cascade_added(struct hf_cascade *cascade, uint64_t count)
{
    cascade->counts[1] = saturating_add(cascade->counts[1], count);
}

void cascade_completed(struct hf_cascade *cascade, unsigned level)
{
    check(level >= 1 && level < CASCADE_LEVELS_MAX);
    for (unsigned i = 1; i <= level; i++)
        cascade->counts[i] = 0;
    if (RULE(CASCADE_CARRIES) && level + 1 < CASCADE_LEVELS_MAX)
        cascade->counts[level + 1] = saturating_add(cascade->counts[level + 1], 1);
}
