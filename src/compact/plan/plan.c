/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: groups the chunks that should be merged together. Chunks are sorted into classes. The
 * chunks of a class may be merged with each other. They are in the order in which they were added,
 * and each class is cut into groups. Every worker must compute the same groups; otherwise two
 * workers would try to lease overlapping ones. */
#include "compact/plan/plan.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/rule.h"

#include <stdlib.h>

/* The highest level that an output can have. */
#define LEVEL_MAX (CASCADE_LEVELS_MAX - 1)

/* A chunk that may be merged. Chunks with the same class, home, tries and hour may be merged with
 * each other. */
struct candidate {
    const struct chunk *chunk;
    unsigned class; /* by levels: its level */
    uint64_t home;  /* hash of its home: the lease of a group is in one table */
    int64_t hour;   /* by levels: for level 0 */
    size_t at;      /* its index in the catalog */
    struct stamp ripe;
};

/* The first chunk of the catalog that has data of this hour or later. */
struct horizon {
    int64_t hour;
    size_t at;
};

struct planner {
    const struct catalog *catalog;
    const struct plan_options *options;
    struct plan *plan;
    struct candidate *candidates; /* in catalog order, then by class */
    size_t count;
    struct candidate *lone; /* chunks left over from their hours, one each */
    size_t lone_count;
    struct horizon *horizons; /* in order of their hours */
    size_t horizon_count;
    const struct chunk **sources; /* room for the sources of all groups */
    bool *divided;                /* for each live chunk: a divided merge has it */
};

/* ---- Time ---------------------------------------------------------------------------- */

/* The later of two stamps. Stamps of different clocks cannot be compared, so in that case this is
 * the stamp of the chunk that was added later. */
static struct stamp later_stamp(struct stamp earlier_chunk, struct stamp later_chunk)
{
    bool is_later =
        earlier_chunk.clock == later_chunk.clock && earlier_chunk.us > later_chunk.us;
    return is_later ? earlier_chunk : later_chunk;
}

/* The chunk that closed this hour; NULL while the hour is open. */
static const struct horizon *find_closer(const struct planner *planner, int64_t hour)
{
    size_t low = 0, high = planner->horizon_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (planner->horizons[middle].hour >= hour + 2)
            high = middle;
        else
            low = middle + 1;
    }
    return low < planner->horizon_count ? &planner->horizons[low] : NULL;
}

/* The time from which the chunk was in the catalog and its hour was closed. */
static struct stamp ripe_when_closed(const struct planner *planner,
                                     const struct candidate *candidate,
                                     const struct horizon *closer)
{
    if (!closer)
        return candidate->ripe;
    struct stamp closed = planner->catalog->live[closer->at].since;
    return closer->at < candidate->at ? later_stamp(closed, candidate->ripe)
                                      : later_stamp(candidate->ripe, closed);
}

/* ---- Candidates ---------------------------------------------------------------------- */

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    if (one->class != other->class)
        return one->class < other->class ? -1 : 1;
    if (one->home != other->home)
        return one->home < other->home ? -1 : 1;
    if (one->chunk->tries != other->chunk->tries)
        return one->chunk->tries < other->chunk->tries ? -1 : 1;
    if (one->hour != other->hour)
        return one->hour < other->hour ? -1 : 1;
    return one->at < other->at ? -1 : one->at > other->at;
}

/* How many candidates, counted from the first, are in one class. */
static size_t class_size(const struct candidate *first, const struct candidate *end)
{
    const struct candidate *next = first;
    while (next < end && first->class == next->class && first->home == next->home &&
           first->chunk->tries == next->chunk->tries && first->hour == next->hour)
        next++;
    return (size_t)(next - first);
}

static bool is_leased(const struct planner *planner, const struct chunk *chunk)
{
    const struct plan_options *options = planner->options;
    return options->is_leased && options->is_leased(options->argument, chunk->key);
}

static bool same_run(const struct chunk *a, const struct chunk *b)
{
    return a->run.size > 0 && view_equal(a->run, b->run);
}

/* The size of the run of a live chunk. Its chunks were added together, so they are neighbours. */
static uint64_t run_bytes(const struct catalog *catalog, size_t at)
{
    const struct chunk *live = catalog->live;
    uint64_t bytes = live[at].size;
    for (size_t i = at; i > 0 && same_run(&live[at], &live[i - 1]); i--)
        bytes += live[i - 1].size;
    for (size_t i = at + 1; i < catalog->live_count && same_run(&live[at], &live[i]); i++)
        bytes += live[i].size;
    return bytes;
}

/* Whether a chunk may be merged if there are others. Only chunks of lower levels than `below` are
 * candidates. */
static bool is_candidate(const struct planner *planner, size_t at, unsigned below)
{
    const struct catalog *catalog = planner->catalog;
    const struct chunk *chunk = &catalog->live[at];
    if (chunk->quarantine.size || chunk->level >= below || planner->divided[at])
        return false;
    return catalog->settings.policy == HF_COMPACT_CASCADE || chunk->level == 0 ||
           run_bytes(catalog, at) < compact_level_bytes(&catalog->settings, chunk->level);
}

static void add_candidate(struct planner *planner, size_t at)
{
    const struct chunk *chunk = &planner->catalog->live[at];
    bool all_together = planner->options->force && chunk->tries == 0;
    bool by_level = planner->catalog->settings.policy == HF_COMPACT_LEVELS && !all_together;
    planner->candidates[planner->count++] = (struct candidate){
        .chunk = chunk,
        .class = by_level ? chunk->level : 0,
        .home = hash_xxh3(layout_home(chunk->key)),
        .hour = by_level && chunk->level == 0 ? hour_of_ms(chunk->min_ms) : 0,
        .at = at,
        .ripe = chunk->since,
    };
}

static void sort_candidates(struct candidate *candidates, size_t count)
{
    if (count)
        qsort(candidates, count, sizeof *candidates, compare_candidates);
}

/* ---- Groups -------------------------------------------------------------------------- */

/* The group size for chunks with this many tries: halved with each try, and 1 for the last try, so
 * that the chunk that is to blame is found. Such a chunk is only tested. */
static uint64_t group_size(const struct compact_settings *settings, uint64_t most,
                           unsigned tries)
{
    uint64_t halved = tries < 64 ? most >> tries : 0;
    if (tries > 0 && tries + 1 >= settings->tries_max)
        return 1;
    return halved < 2 ? 2 : halved;
}

/* The same for a group of a class with `count` chunks, in which a chunk has passed this many tests.
 * The groups of that chunk failed all the same, so they become smaller. */
static uint64_t group_limit(const struct planner *planner, uint64_t most, unsigned tries,
                            unsigned tested, size_t count)
{
    uint64_t size = group_size(&planner->catalog->settings, most, tries);
    uint64_t share = tested < 32 ? (count + (UINT64_C(1) << tested) - 1) >> tested : 0;
    if (tested == 0 || size <= 2)
        return size;
    share = share < 2 ? 2 : share;
    return share < size ? share : size;
}

static unsigned more_tested(unsigned tested, const struct candidate *member)
{
    return member->chunk->tested > tested ? member->chunk->tested : tested;
}

/* Whether the next chunk belongs to the same group, because it continues the run. The chunks of a
 * run that failed are separated, so that the one to blame is found. */
static bool run_continues(const struct candidate *members, size_t at, size_t count)
{
    return at + 1 < count && members[at].chunk->tries == 0 &&
           same_run(members[at].chunk, members[at + 1].chunk);
}

/* How many runs these chunks are. */
static size_t count_runs(const struct candidate *members, size_t count)
{
    size_t runs = 0;
    for (size_t i = 0; i < count; i++)
        runs += !run_continues(members, i, count);
    return runs;
}

/* The size of a group that has `size` chunks or a few more: whole runs, and two of them if there
 * are two. */
static size_t whole_runs(const struct candidate *members, size_t size, size_t count)
{
    while (size > 0 && size < count &&
           (run_continues(members, size - 1, count) ||
            (size > 1 && count_runs(members, size) == 1)))
        size++;
    return size;
}

/* Whether the outputs of this group should be cut. Only merged chunks are known to be sorted, and
 * only those without a failure are worth the effort. */
static bool is_large(const struct planner *planner, const struct plan_group *group)
{
    const struct compact_settings *settings = &planner->catalog->settings;
    bool good = group->bytes > settings->output_max && settings->key.size > 0 &&
                settings->command.size == 0 && group->count > 1;
    for (size_t i = 0; i < group->count; i++)
        good = good && group->sources[i]->level > 0 && group->sources[i]->tries == 0 &&
               group->sources[i]->tested == 0;
    return good;
}

/* Adds a group, unless one of its chunks is leased, or it must wait to be divided. */
static void add_group(struct planner *planner, unsigned level, const struct candidate *members,
                      size_t count, struct stamp due)
{
    struct plan *plan = planner->plan;
    /* The whole group is left out. If the unleased chunks were grouped again, the groups would
     * depend on when each worker read the lease table. */
    for (size_t i = 0; i < count; i++)
        if (is_leased(planner, members[i].chunk)) {
            plan->leased += count;
            return;
        }
    struct plan_group *group = &plan->groups[plan->count++];
    bool test = RULE(ALONE_IS_TESTED) && count == 1 && members->chunk->tries > 0;
    if (test)
        level = members->chunk->level;
    *group = (struct plan_group){
        .level = level < LEVEL_MAX ? level : LEVEL_MAX,
        .sources = planner->sources,
        .count = count,
        .due = due,
        .forced = planner->options->force,
        .test = test,
    };
    for (size_t i = 0; i < count; i++) {
        group->sources[i] = members[i].chunk;
        group->bytes += members[i].chunk->size;
        group->rows += members[i].chunk->rows_known ? members[i].chunk->rows : 0;
    }
    group->large = is_large(planner, group);
    if (group->large && planner->catalog->merge_count == CATALOG_MERGES_MAX) {
        plan->count--; /* there is no room for its record yet */
        return;
    }
    planner->sources += count;
    plan->bytes += group->bytes;
}

static struct stamp latest_stamp(const struct candidate *members, size_t count)
{
    struct stamp stamp = members[0].ripe;
    for (size_t i = 1; i < count; i++)
        stamp = later_stamp(stamp, members[i].ripe);
    return stamp;
}

static int compare_groups(const void *a, const void *b)
{
    const struct plan_group *one = a, *other = b;
    if (one->level != other->level)
        return one->level < other->level ? -1 : 1;
    /* Sources are entries of one array, so their addresses give the order. */
    if (one->sources[0] != other->sources[0])
        return one->sources[0] < other->sources[0] ? -1 : 1;
    return one->range < other->range ? -1 : one->range > other->range;
}

/* ---- Divided merges ------------------------------------------------------------------ */

/* Adds each range that is neither done nor leased. The groups of one merge share their sources. */
static void add_ranges(struct planner *planner, const struct divided_merge *merge)
{
    const struct catalog *catalog = planner->catalog;
    struct plan *plan = planner->plan;
    const struct chunk **sources = planner->sources;
    uint64_t bytes = 0, rows = 0;
    for (size_t i = 0; i < merge->source_count; i++) {
        sources[i] = catalog_find(catalog, merge->sources[i]);
        bytes += sources[i]->size;
        rows += sources[i]->rows_known ? sources[i]->rows : 0;
    }
    planner->sources += merge->source_count;
    for (size_t r = 0; r < merge->range_count; r++) {
        const struct plan_options *options = planner->options;
        char name[RANGE_LEASE_MAX + 1];
        range_lease_name(catalog->partition, merge, r, name);
        if (merge->ranges[r].done)
            continue;
        if (options->is_leased && options->is_leased(options->argument, view_of(name))) {
            plan->leased += merge->source_count;
            continue;
        }
        struct plan_group *group = &plan->groups[plan->count++];
        *group = (struct plan_group){ .level = merge->level,
                                      .sources = sources,
                                      .count = merge->source_count,
                                      .due = merge->since,
                                      .forced = options->force,
                                      .merge = merge,
                                      .range = r };
        for (size_t i = 0; i < merge->source_count; i++)
            group->bytes += range_part(merge, r, i, sources[i]->size);
        group->rows =
            bytes > 0 ? (uint64_t)((double)rows * (double)group->bytes / (double)bytes) : 0;
        plan->bytes += group->bytes;
    }
}

/* The sources of a merge that can no longer be committed are free for others. */
static void plan_divided(struct planner *planner)
{
    const struct catalog *catalog = planner->catalog;
    for (size_t i = 0; i < catalog->merge_count; i++) {
        const struct divided_merge *merge = &catalog->merges[i];
        if (catalog_merge_is_broken(catalog, merge))
            continue;
        for (size_t k = 0; k < merge->source_count; k++)
            planner->divided[catalog_find(catalog, merge->sources[k]) - catalog->live] = true;
        add_ranges(planner, merge);
    }
}

/* ---- Levels -------------------------------------------------------------------------- */

/* How many of these, counted from the first, form a complete group; 0: there are too few. */
static size_t complete_group(const struct planner *planner, const struct candidate *members,
                             size_t count)
{
    const struct compact_settings *settings = &planner->catalog->settings;
    unsigned level = members->chunk->level, tries = members->chunk->tries, tested = 0;
    uint64_t most = settings->group_max, bytes_wanted = UINT64_MAX, bytes = 0;
    if (level == 0 && settings->level0_count < most)
        most = settings->level0_count;
    if (level > 0)
        bytes_wanted = compact_level_bytes(settings, level);
    for (size_t i = 0, runs = 0; i < count; i++) {
        bytes += members[i].chunk->size;
        tested = more_tested(tested, &members[i]);
        if (run_continues(members, i, count))
            continue;
        runs++;
        uint64_t limit = group_limit(planner, most, tries, tested, count);
        if ((i + 1 >= limit && (runs > 1 || limit == 1)) || (runs > 1 && bytes >= bytes_wanted))
            return i + 1;
    }
    return 0;
}

/* When the chunks of a closed hour became a group: as soon as there were two of them. Chunks that
 * were added later do not delay the group. */
static struct stamp due_when_closed(const struct planner *planner,
                                    const struct candidate *members,
                                    const struct horizon *closer)
{
    struct candidate second = members[1];
    second.ripe = latest_stamp(members, 2);
    return ripe_when_closed(planner, &second, closer);
}

/* Returns how many chunks are left at the end of the class. */
static size_t cut_class(struct planner *planner, const struct candidate *members, size_t count,
                        const struct horizon *closer)
{
    while (count) {
        size_t size = complete_group(planner, members, count);
        if (size == 0)
            break;
        struct stamp due = latest_stamp(members, size);
        if (members->chunk->tries > 0)
            due = members->ripe; /* due immediately, however few they are */
        else if (closer) {
            struct stamp closed = due_when_closed(planner, members, closer);
            due = due.clock == closed.clock && due.us < closed.us ? due : closed;
        }
        add_group(planner, members->chunk->level + 1, members, size, due);
        members += size;
        count -= size;
    }
    return count;
}

/* Cuts a class into groups: complete groups first, then the rest if its hour is closed or its
 * chunks were tried before. */
static void cut_by_level(struct planner *planner, const struct candidate *members, size_t count)
{
    unsigned level = members->chunk->level;
    bool tried = members->chunk->tries > 0;
    const struct horizon *closer = level == 0 ? find_closer(planner, members->hour) : NULL;
    size_t left = cut_class(planner, members, count, closer);
    const struct candidate *rest = members + count - left;
    if (left == 0 || (!closer && !tried))
        return;
    if (tried) {
        add_group(planner, level + 1, rest, left, rest->ripe);
    } else if (left > 1) {
        add_group(planner, level + 1, rest, left, due_when_closed(planner, rest, closer));
    } else if (level == 0) {
        struct candidate *lone = &planner->lone[planner->lone_count++];
        *lone = rest[0];
        lone->ripe = ripe_when_closed(planner, rest, closer);
        lone->hour = 0;
    }
}

/* The level of a forced output: the first level that can hold it, starting at the highest level of
 * its sources. */
static unsigned level_of_all(const struct planner *planner, const struct candidate *members,
                             size_t count)
{
    const struct compact_settings *settings = &planner->catalog->settings;
    unsigned level = 1;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += members[i].chunk->size;
        level = members[i].chunk->level > level ? members[i].chunk->level : level;
    }
    while (level < LEVEL_MAX && bytes > compact_level_bytes(settings, level))
        level++;
    return level;
}

/* How many of these, counted from the first, fit into one chunk. */
static size_t forced_size(const struct planner *planner, const struct candidate *members,
                          size_t count)
{
    const struct compact_settings *settings = &planner->catalog->settings;
    uint64_t bytes = 0, bytes_max = compact_level_bytes(settings, LEVEL_MAX);
    unsigned tested = 0;
    size_t size = 0;
    while (size < count &&
           size < group_limit(planner, settings->group_max, /* tries */ 0, tested, count) &&
           (size == 0 || members[size].chunk->size <= bytes_max - bytes)) {
        tested = more_tested(tested, &members[size]);
        bytes += members[size++].chunk->size;
    }
    return size;
}

/* Whether a chunk without a partner in its home would have partners if it were rewritten under
 * another home. */
static bool is_alone_abroad(const struct planner *planner, const struct candidate *members,
                            size_t count)
{
    return count == 1 && planner->count > 1 &&
           members->home != hash_xxh3(planner->catalog->partition);
}

/* Cuts a whole class into groups. */
static void force_class(struct planner *planner, const struct candidate *members, size_t count)
{
    bool alone = is_alone_abroad(planner, members, count);
    while (count > 0) {
        size_t size = whole_runs(members, forced_size(planner, members, count), count);
        if (count_runs(members, size) > 1 || alone)
            add_group(planner, level_of_all(planner, members, size), members, size,
                      latest_stamp(members, size));
        members += size;
        count -= size;
    }
}

static void plan_levels(struct planner *planner)
{
    bool force = planner->options->force;
    unsigned below = force ? LEVEL_MAX + 1 : LEVEL_MAX;
    for (size_t i = 0; i < planner->catalog->live_count; i++)
        if (is_candidate(planner, i, below))
            add_candidate(planner, i);
    for (size_t i = 0; i < planner->catalog->live_count; i++) {
        int64_t hour = hour_of_ms(planner->catalog->live[i].max_ms);
        size_t count = planner->horizon_count;
        if (count == 0 || hour > planner->horizons[count - 1].hour)
            planner->horizons[planner->horizon_count++] = (struct horizon){ hour, i };
    }
    sort_candidates(planner->candidates, planner->count);
    const struct candidate *end = planner->candidates + planner->count;
    for (const struct candidate *first = planner->candidates; first < end;) {
        size_t size = class_size(first, end);
        if (force && first->chunk->tries == 0)
            force_class(planner, first, size);
        else
            cut_by_level(planner, first, size);
        first += size;
    }
    /* Chunks that are each the only one left in their hour are grouped together. */
    sort_candidates(planner->lone, planner->lone_count);
    end = planner->lone + planner->lone_count;
    for (const struct candidate *first = planner->lone; first < end;) {
        size_t size = class_size(first, end);
        cut_class(planner, first, size, /* closer */ NULL);
        first += size;
    }
}

/* ---- Cascade ------------------------------------------------------------------------- */

/* How many chunks of a class are merged together. After a failed try this is at most half of the
 * existing ones, so that groups shrink even if there are few chunks. */
static size_t cascade_size(const struct planner *planner, const struct candidate *members,
                           size_t count)
{
    const struct compact_settings *settings = &planner->catalog->settings;
    unsigned tries = members->chunk->tries, tested = 0;
    size_t half = tries ? (count + 1) / 2 : count, size = 0;
    if (half < 2 && count > 1)
        half = 2; /* only the last try is alone; group_limit sees to that */
    while (size < half &&
           size < group_limit(planner, settings->group_max, tries, tested, count))
        tested = more_tested(tested, &members[size++]);
    return whole_runs(members, size, count);
}

/* Collects the unleased chunks below the target level. */
static void find_unleased(struct planner *planner, unsigned below)
{
    for (size_t i = 0; i < planner->catalog->live_count; i++) {
        const struct chunk *chunk = &planner->catalog->live[i];
        if (!is_candidate(planner, i, below))
            continue;
        if (is_leased(planner, chunk))
            planner->plan->leased++;
        else
            add_candidate(planner, i);
    }
    sort_candidates(planner->candidates, planner->count);
}

static void add_cascade_group(struct planner *planner, unsigned level,
                              const struct candidate *members, size_t count)
{
    bool alone = count == 1; /* rewritten under another home, which is no merge */
    for (size_t i = 0; i < count; i++)
        if (planner->options->force && members[i].chunk->level + !alone > level)
            level = members[i].chunk->level + !alone;
    add_group(planner, level, members, count, planner->catalog->due);
}

/* Merges everything, group by group. Each group goes to the level above its highest source. */
static void force_cascade(struct planner *planner)
{
    find_unleased(planner, LEVEL_MAX + 1);
    const struct candidate *end = planner->candidates + planner->count;
    for (const struct candidate *first = planner->candidates; first < end;) {
        size_t left = class_size(first, end), most = cascade_size(planner, first, left);
        bool alone = first->chunk->tries > 0 || is_alone_abroad(planner, first, left);
        while (left > 0 && (count_runs(first, left) > 1 || (left == 1 && alone))) {
            size_t size = whole_runs(first, left < most ? left : most, left);
            add_cascade_group(planner, /* at least */ 1, first, size);
            first += size;
            left -= size;
        }
        first += left;
    }
}

/* Makes one group, from the class of the oldest chunk that has a partner. While some chunks are
 * leased, later ones do not form a group until there are cascade_base of them: otherwise many small
 * merges would follow each long one. */
static void plan_cascade(struct planner *planner, unsigned target)
{
    find_unleased(planner, target);
    const struct candidate *end = planner->candidates + planner->count, *oldest = NULL;
    size_t oldest_size = 0;
    uint64_t wanted = planner->plan->leased ? planner->catalog->settings.cascade_base : 2;
    for (const struct candidate *first = planner->candidates; first < end;) {
        size_t size = class_size(first, end), runs = count_runs(first, size);
        bool tried = first->chunk->tries > 0;
        if ((tried || (runs > 1 && runs >= wanted)) && (!oldest || first->at < oldest->at)) {
            oldest = first;
            oldest_size = size;
        }
        first += size;
    }
    if (oldest)
        add_cascade_group(planner, target, oldest, cascade_size(planner, oldest, oldest_size));
}

/* ---- Deletion markers ---------------------------------------------------------------- */

/* How many runs of one plan are rewritten alone. The next plan finds more. */
#define MARKER_GROUPS_MAX 16

static bool is_planned(const struct plan *plan, const struct chunk *chunk)
{
    for (size_t i = 0; i < plan->count; i++)
        for (size_t k = 0; k < plan->groups[i].count; k++)
            if (plan->groups[i].sources[k] == chunk)
                return true;
    return false;
}

/* The run that starts with this chunk: its candidates, their keys, and how many there are. */
static size_t list_run(const struct planner *planner, size_t at, struct candidate *members,
                       struct view *keys)
{
    const struct catalog *catalog = planner->catalog;
    size_t count = 0;
    do {
        members[count] =
            (struct candidate){ .chunk = &catalog->live[at + count], .at = at + count };
        keys[count] = catalog->live[at + count].key;
        count++;
    } while (count < MERGE_RANGES_MAX && at + count < catalog->live_count &&
             same_run(&catalog->live[at], &catalog->live[at + count]));
    return count;
}

/* Whether the chunks of a run, or a chunk that is none, can be rewritten now without their deletion
 * markers. */
static bool may_drop_markers(const struct planner *planner, const struct candidate *members,
                             const struct view *keys, size_t count)
{
    const struct catalog *catalog = planner->catalog;
    struct hf_error ignored;
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= members[i].chunk->markers.count > 0;
    for (size_t i = 0; i < count && any; i++) {
        const struct chunk *chunk = members[i].chunk;
        if (chunk->level == 0 || chunk->tries > 0 || chunk->quarantine.size > 0 ||
            planner->divided[members[i].at] || is_planned(planner->plan, chunk))
            return false;
    }
    return any && catalog_check_markers(catalog, keys, count, planner->options->evidence,
                                        &ignored) == HF_OK;
}

static void plan_markers(struct planner *planner)
{
    const struct catalog *catalog = planner->catalog;
    struct candidate members[MERGE_RANGES_MAX];
    struct view keys[MERGE_RANGES_MAX];
    size_t added = 0, count;
    if (!planner->options->evidence || catalog->settings.deleted.size == 0)
        return;
    for (size_t i = 0; i < catalog->live_count && added < MARKER_GROUPS_MAX; i += count) {
        count = list_run(planner, i, members, keys);
        if (!may_drop_markers(planner, members, keys, count))
            continue;
        size_t before = planner->plan->count;
        add_group(planner, members->chunk->level, members, count,
                  members->chunk->markers.since);
        if (planner->plan->count > before) {
            planner->plan->groups[before].drops = true;
            added++;
        }
    }
}

/* ---- Entry points -------------------------------------------------------------------- */

static void make_groups(struct planner *planner)
{
    const struct catalog *catalog = planner->catalog;
    struct plan *plan = planner->plan;
    for (size_t i = 0; i < catalog->live_count; i++)
        plan->quarantined += catalog->live[i].quarantine.size > 0;
    unsigned target = 0;
    if (catalog->settings.policy == HF_COMPACT_CASCADE)
        target = cascade_target(&catalog->cascade, catalog->settings.cascade_base);
    plan_divided(planner);
    if (catalog->settings.policy == HF_COMPACT_LEVELS)
        plan_levels(planner);
    else if (planner->options->force)
        force_cascade(planner);
    else if (target)
        plan_cascade(planner, target);
    plan_markers(planner);
    if (plan->count)
        qsort(plan->groups, plan->count, sizeof *plan->groups, compare_groups);
}

enum hf_status plan_make(const struct catalog *catalog, const struct plan_options *options,
                         struct plan *ret_plan, struct hf_error *error)
{
    struct plan plan = { .arena = ARENA_INIT };
    size_t count = catalog->live_count;
    struct planner planner = { .catalog = catalog, .options = options, .plan = &plan };
    if (catalog_is_clogged(catalog))
        plan.paused = "too many merged chunks are waiting to be deleted";
    if (catalog->is_dropping)
        plan.paused = "the partition is being dropped";
    if (plan.paused || count == 0) {
        *ret_plan = plan;
        return HF_OK;
    }
    planner.candidates = calloc(count, sizeof *planner.candidates);
    planner.lone = calloc(count, sizeof *planner.lone);
    planner.horizons = calloc(count, sizeof *planner.horizons);
    planner.sources = arena_take(&plan.arena, count * sizeof *planner.sources);
    planner.divided = calloc(count, sizeof *planner.divided);
    plan.groups =
        arena_take(&plan.arena,
                   (count + 1 + catalog->merge_count * MERGE_RANGES_MAX) * sizeof *plan.groups);
    bool has_memory = planner.candidates && planner.lone && planner.horizons &&
                      planner.sources && plan.groups && planner.divided;
    if (has_memory)
        make_groups(&planner);
    free(planner.candidates);
    free(planner.lone);
    free(planner.horizons);
    free(planner.divided);
    if (!has_memory) {
        plan_release(&plan);
        return error_no_memory(error);
    }
    *ret_plan = plan;
    return HF_OK;
}

void plan_release(struct plan *plan)
{
    arena_release(&plan->arena);
    *plan = (struct plan){ .arena = ARENA_INIT };
}

bool plan_still_holds(const struct catalog *catalog, unsigned level, const struct view *sources,
                      size_t count, bool at_any_level)
{
    for (size_t i = 0; i < count; i++) {
        const struct chunk *chunk = catalog_find(catalog, sources[i]);
        if (!chunk || chunk->quarantine.size || catalog_merge_of_source(catalog, sources[i]))
            return false;
    }
    if (catalog->settings.policy != HF_COMPACT_CASCADE || at_any_level)
        return true;
    return cascade_target(&catalog->cascade, catalog->settings.cascade_base) == level;
}
