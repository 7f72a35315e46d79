/* plan.h: which chunks of a catalog are to be merged, as groups. Pure: every worker that sees
 * the same catalog makes the same plan.
 *
 * Levels: chunks of level 0 are grouped by the hour of their data (and by home, since the
 * leases of a group live in one table), in the order in which they came: level0_count of them
 * make a group; what is left of an hour, if two or more, does once the hour is over, which is
 * when there is data of an hour that begins an hour after its end. A chunk that is left alone in
 * its hour is grouped with others like it, level0_count of them, whatever their hours: else a
 * partition with one chunk an hour would never be compacted. Groups that came together
 * stay together whatever is added later, so that nobody waits anew. Chunks of a higher level
 * are grouped, in the order in which they came, until they come to the size of their level; a
 * chunk that has that size alone is left where it is. Groups are of two or more and up to
 * group_max. The output is of the next level.
 *
 * Cascade: everything below the target (elect/cascade.h), as one group of up to group_max,
 * oldest first; less than all when quarantined or leased chunks, or some of another home, are in
 * the way. While chunks are leased, what came since waits until it is cascade_base chunks itself:
 * else a long merge would be followed by many small ones to its high level.
 *
 * Chunks that were tried in vain are grouped among their like, by number of tries, at once and in
 * smaller groups: level0_count or group_max halved for each try, and for the last try each alone
 * (the only groups of one); by cascade no more than half of them either. So what kills its workers
 * is found before it is quarantined, and the innocent get away.
 *
 * Forced: all chunks of a home, whatever their hour and level, in groups of up to group_max. So
 * merging until nothing is left to do makes one chunk of a catalog, besides those that have the
 * size of their level, which stay, and those that are quarantined. The output is of the first
 * level, from the highest of its sources on, that holds so many bytes: it does not rise each time.
 * A chunk of another home that has no partner is written anew alone, and finds one then. What was
 * tried is grouped as ever. By cascade each goes to the level above its highest, or the last. */
#ifndef COMPACT_PLAN_H
#define COMPACT_PLAN_H

#include "base/arena.h"
#include "compact/catalog.h"

struct plan_group {
    unsigned level;               /* of the output */
    const struct chunk **sources; /* of the catalog */
    size_t count;
    uint64_t bytes;
    uint64_t rows;    /* of those that are known */
    struct stamp due; /* when it came to be due: by the document, not by who looks */
    bool forced;
};

struct plan {
    struct arena arena;
    struct plan_group *groups; /* oldest first, lower levels first */
    size_t count;
    uint64_t bytes;
    size_t leased;      /* chunks that were left out since somebody merges them */
    size_t quarantined; /* and since they are quarantined */
    const char *paused; /* NULL, or why nothing is planned */
};

struct plan_options {
    /* May be NULL: whether somebody has leased this chunk. Its group is left out whole: so nobody
     * regroups what others are at. */
    bool (*is_leased)(void *argument, struct view key);
    void *argument;
    bool force; /* everything that can be merged with another, below any threshold */
};

/* The plan points into the catalog. */
enum hf_status plan_make(const struct catalog *catalog, const struct plan_options *options,
                         struct plan *ret_plan, struct hf_error *error);
void plan_release(struct plan *plan);

/* Just before work starts: whether a group is still to be done as it was planned: all its
 * sources live and not quarantined; cascade: still the target, unless it is forced. */
bool plan_still_holds(const struct catalog *catalog, unsigned level, const struct view *sources,
                      size_t count, bool forced);

#endif
