/* SPDX-License-Identifier: Apache-2.0 */
/* compact_end.c: checks that after a long quiet period only live chunks are left, and no more of
 * them than the plan would leave. */
#include "sim/checkers/compact_inside.h"

#include <inttypes.h>

#define HOUR_MS INT64_C(3600000)

#define UNSETTLED(checker, ...)                                               \
    (snprintf((checker)->unsettled, sizeof(checker)->unsettled, __VA_ARGS__), \
     (checker)->unsettled)

/* ---- Chunks to be merged ------------------------------------------------------------- */

static int64_t hour_of(int64_t ms)
{
    return ms / HOUR_MS - (ms % HOUR_MS < 0);
}

static struct view home_of(const struct listed *entry)
{
    struct view rest = entry->key;
    view_cut(&rest, '/');
    return view_cut(&rest, '/');
}

static bool may_be_merged(const struct listed *entry)
{
    return entry->state == LISTED_LIVE && !entry->quarantined;
}

/* Whether two chunks may be merged with each other; chunks of level 0 must belong to the
 * same hour. */
static bool are_alike(const struct listed *a, const struct listed *b)
{
    return may_be_merged(b) && a->level == b->level && a->tries == b->tries &&
           view_equal(home_of(a), home_of(b));
}

static uint64_t level_bytes(const struct catalog_checker *checker, uint64_t level)
{
    uint64_t bytes = checker->options.level1_bytes;
    for (uint64_t i = 1; i < level; i++)
        bytes *= checker->options.level_factor;
    return bytes;
}

/* How many chunks form a group, regardless of their size. */
static uint64_t group_size(const struct catalog_checker *checker, const struct listed *entry)
{
    uint64_t most = checker->options.group_max;
    if (entry->level == 0 && checker->options.level0_count < most)
        most = checker->options.level0_count;
    return most;
}

/* Whether the entry's hour has passed: some live chunk has data from at least two hours later. */
static bool is_hour_over(const struct catalog_version *version, const struct listed *entry)
{
    for (size_t i = 0; i < version->count; i++)
        if (version->entries[i].state == LISTED_LIVE &&
            hour_of(version->entries[i].max_ms) >= hour_of(entry->min_ms) + 2)
            return true;
    return false;
}

static uint64_t count_of_hour(const struct catalog_version *version, const struct listed *entry)
{
    uint64_t count = 0;
    for (size_t i = 0; i < version->count; i++)
        count += are_alike(entry, &version->entries[i]) &&
                 hour_of(entry->min_ms) == hour_of(version->entries[i].min_ms);
    return count;
}

/* Whether the entry is the only chunk of a past hour. */
static bool is_lone(const struct catalog_version *version, const struct listed *entry)
{
    return is_hour_over(version, entry) && count_of_hour(version, entry) == 1;
}

static bool is_due_at_level_0(const struct catalog_checker *checker,
                              const struct catalog_version *version, const struct listed *entry)
{
    uint64_t count = count_of_hour(version, entry), lone = 0;
    if (entry->tries > 0) /* a suspect chunk is retried immediately, finally by itself */
        return true;
    if (count >= group_size(checker, entry) || (count >= 2 && is_hour_over(version, entry)))
        return true;
    for (size_t i = 0; i < version->count && is_lone(version, entry); i++)
        lone +=
            are_alike(entry, &version->entries[i]) && is_lone(version, &version->entries[i]);
    return lone >= group_size(checker, entry);
}

/* The chunks that one divided merge made are one run, and are merged together. */
static bool same_run(const struct listed *a, const struct listed *b)
{
    return a == b || (b->state == LISTED_LIVE && a->run.size > 0 && view_equal(a->run, b->run));
}

static uint64_t run_bytes(const struct catalog_version *version, const struct listed *entry)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < version->count; i++)
        bytes += same_run(entry, &version->entries[i]) ? version->entries[i].size : 0;
    return bytes;
}

static bool is_first_of_run(const struct catalog_version *version, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (same_run(&version->entries[index], &version->entries[i]) &&
            may_be_merged(&version->entries[i]))
            return false;
    return true;
}

static bool is_due_above(const struct catalog_checker *checker,
                         const struct catalog_version *version, const struct listed *entry)
{
    uint64_t wanted = level_bytes(checker, entry->level), count = 0, runs = 0, bytes = 0;
    for (size_t i = 0; i < version->count; i++) {
        const struct listed *other = &version->entries[i];
        if (!are_alike(entry, other) || run_bytes(version, other) >= wanted)
            continue;
        count++;
        runs += is_first_of_run(version, i);
        bytes += other->size;
    }
    if (run_bytes(version, entry) >= wanted || entry->tries > 0)
        return run_bytes(version, entry) < wanted;
    return runs >= 2 && (bytes >= wanted || count >= group_size(checker, entry));
}

/* With a cascade, a merge may omit some chunks (already tried, too many, or from another home) and
 * still counts as complete. These chunks wait for the next merge, so nothing can be required
 * here. */
static const char *unmerged_in(struct catalog_checker *checker, const struct checked_doc *doc)
{
    const struct catalog_version *version = doc->now;
    if (version->merge_count > 0)
        return UNSETTLED(checker, "a divided merge is not committed in %s", doc->key);
    if (!view_equal(version->policy, VIEW("levels")))
        return NULL;
    for (size_t i = 0; i < version->count; i++) {
        const struct listed *entry = &version->entries[i];
        if (!may_be_merged(entry))
            continue;
        bool due = entry->level == 0 ? is_due_at_level_0(checker, version, entry)
                                     : is_due_above(checker, version, entry);
        if (due)
            return UNSETTLED(checker, "%s is not merged with others of level %" PRIu64,
                             entry->chunk->key, entry->level);
    }
    return NULL;
}

/* ---- Objects to be deleted ----------------------------------------------------------- */

static const char *dead_in(struct catalog_checker *checker, const struct checked_doc *doc)
{
    for (size_t i = 0; i < doc->now->count; i++) {
        const struct listed *entry = &doc->now->entries[i];
        if (entry->state != LISTED_LIVE && entry->state != LISTED_MOVED)
            return UNSETTLED(checker, "%s is still %s in %s", entry->chunk->key,
                             entry->state == LISTED_TOMBSTONE ? "a tombstone" : "being deleted",
                             doc->key);
    }
    return NULL;
}

static const char *unsettled_leases(struct catalog_checker *checker)
{
    for (size_t i = 0; i < checker->lease_count; i++) {
        const struct checked_lease *lease = checker->leases[i];
        if (!lease->forgotten && !lease->completed)
            return UNSETTLED(checker, "the lease that was to make %s is not settled",
                             lease->output->key);
    }
    return NULL;
}

static const char *orphans(struct catalog_checker *checker)
{
    const struct bucket *bucket = net_bucket(checker->run->net);
    for (size_t i = 0; i < checker->chunk_count; i++) {
        const struct checked_chunk *chunk = checker->chunks[i];
        if (!chunk->live && bucket_peek(bucket, view_of(chunk->key)).data)
            return UNSETTLED(checker, "the object %s is left, which no catalog names",
                             chunk->key);
    }
    return NULL;
}

const char *checker_unsettled(struct catalog_checker *checker)
{
    const char *why = unsettled_leases(checker);
    for (struct checked_doc *doc = checker->docs; doc && !why; doc = doc->next) {
        if (!doc->reachable || !doc->now)
            continue;
        why = dead_in(checker, doc);
        if (!why)
            why = unmerged_in(checker, doc);
    }
    return why ? why : orphans(checker);
}

void catalog_checker_end(struct catalog_checker *checker)
{
    const char *why = checker_unsettled(checker);
    if (why)
        world_fail(catalog_world(checker), "in the end %s", why);
}
