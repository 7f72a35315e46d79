/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: decides which chunks of a catalog to merge, in groups. Pure: every worker that sees the
 * same catalog makes the same plan.
 *
 * Levels. Chunks of level 0 are grouped by the hour of their data, and by home, because the lease
 * of a group is in one table. Within an hour they are taken in the order in which they were added:
 * every level0_count of them form a group. If two or more are left, they become a group once the
 * hour is closed, that is, once there is data of an hour that begins at least one hour after its
 * end. Chunks that are the only ones left in their hours are grouped with each other, level0_count
 * at a time; otherwise a partition with one chunk per hour would never be compacted. A group stays
 * the same when more chunks are added, so its due time does not change. Chunks of a higher level
 * are grouped, in the order in which they were added, until they reach the size of their level. A
 * chunk that has that size by itself is not merged. A group has 2 to group_max chunks. Its output
 * has the next level.
 *
 * Cascade. All chunks below the target (elect/cascade.h) form one group of up to group_max chunks,
 * oldest first. Quarantined chunks, leased chunks and chunks of another home are left out. While
 * chunks are leased, chunks that were added since then are not merged until there are cascade_base
 * of them; otherwise each long merge would be followed by many small merges into its high level.
 *
 * Tried chunks. Chunks whose merges failed are grouped, immediately and in smaller groups, with
 * chunks that have the same number of tries: level0_count or group_max is halved with each try, and
 * for the last try each chunk is alone. In a cascade a group also has at most half of the chunks
 * with that number of tries. So a chunk that kills its workers is isolated before it is
 * quarantined, and the other chunks of its group are not quarantined.
 *
 * Tests. A tried chunk that is alone is only tested: it is merged by itself, and the output is
 * thrown away. A group of one would otherwise commit a copy of its chunk one level higher, again
 * and again. A chunk that passes has no tries any more, and is grouped with others again. Each time
 * a chunk has passed its last try, its next groups are smaller: at most a half, then a quarter, of
 * the chunks that it can be merged with, but not less than two.
 *
 * Large groups. A group of merged chunks that have a key and never failed is `large` if it has more
 * bytes than output_max: its merge is divided into ranges (docs/design.md section 8). While the
 * catalog has the record of a divided merge, its sources are in no other group, and each range that
 * is neither done nor leased is a group of its own. If the catalog has no room for another record,
 * large groups are not planned until there is. The chunks that a divided merge made are one sorted
 * run. A run counts as one chunk with the size of all of them: its chunks are in one group
 * together, unless they were tried, and a group needs two runs.
 *
 * Forced. All chunks of a home, of any hour and level, are merged in groups of up to group_max. If
 * this is repeated until nothing is left to do, one chunk per catalog remains, apart from chunks
 * that have the size of their level, and quarantined ones. The output has the first level that can
 * hold its bytes, starting at the highest level of its sources, so the level does not increase each
 * time. A chunk of another home that has no partner is rewritten alone, and then has partners; its
 * level stays the same, apart from level 0, which only an ingested chunk can have. Tried chunks are
 * grouped as above. In a cascade, each group goes to the level above its highest source, or to the
 * last level.
 *
 * Deletion markers. A chunk of level 1 or higher that is in no group, or a run of such chunks, is
 * rewritten alone, at its own level, if all its deletion markers may be dropped (catalog.h):
 * otherwise they would stay in a chunk that has no partner. A plan has at most 16 groups of a
 * single run. */
#ifndef COMPACT_PLAN_PLAN_H
#define COMPACT_PLAN_PLAN_H

#include "base/arena.h"
#include "compact/catalog/catalog.h"

struct plan_group {
    unsigned level;               /* of the output */
    const struct chunk **sources; /* entries of the catalog */
    size_t count;
    uint64_t bytes;
    uint64_t rows;    /* of sources with known rows */
    struct stamp due; /* when it became due, according to the document */
    bool forced;
    bool drops; /* the only run is rewritten at its level, to drop its deletion markers */
    bool test;  /* the only chunk is tested, and nothing is committed; `level` is its own */
    bool large; /* to be divided, if the merger can */
    const struct divided_merge *merge; /* a range of this merge; NULL: a whole group */
    size_t range;
};

struct plan {
    struct arena arena;
    struct plan_group *groups; /* oldest first, lower levels first */
    size_t count;
    uint64_t bytes;
    size_t leased;      /* chunks left out because another worker has leased them */
    size_t quarantined; /* chunks left out because they are quarantined */
    const char *paused; /* NULL, or why nothing is planned */
};

struct plan_options {
    /* May be NULL. Returns whether this chunk is leased. If so, its whole group is left out, so
     * that nobody regroups chunks that another worker is merging. */
    bool (*is_leased)(void *argument, struct view key);
    void *argument;
    bool force; /* merge everything that has a partner, ignoring thresholds */
    /* The time of the catalog, for the age of deletion markers; NULL: no chunk is rewritten because
     * of them. */
    const struct evidence *evidence;
};

/* The plan points into the catalog. */
enum hf_status plan_make(const struct catalog *catalog, const struct plan_options *options,
                         struct plan *ret_plan, struct hf_error *error);
void plan_release(struct plan *plan);

/* Called just before work starts: whether the group should still be merged. All sources must be
 * live and not quarantined, and no divided merge may have one of them. In a cascade the level must
 * also still be the target, unless the group is forced or a test (`at_any_level`). */
bool plan_still_holds(const struct catalog *catalog, unsigned level, const struct view *sources,
                      size_t count, bool at_any_level);

#endif
