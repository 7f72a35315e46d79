/* compact_end.c: what may be left once all has been quiet for long: live chunks, as few as planning
 * makes of them, and nothing else. */
#include "sim/compact_judge.h"

#include <inttypes.h>

#define HOUR_MS INT64_C(3600000)

#define UNSETTLED(judge, ...) \
    (snprintf((judge)->unsettled, sizeof(judge)->unsettled, __VA_ARGS__), (judge)->unsettled)

/* ---- What is to be merged ------------------------------------------------------------ */

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

/* Whether two may be merged with each other, if those of level 0 are of one hour. */
static bool are_alike(const struct listed *a, const struct listed *b)
{
    return may_be_merged(b) && a->level == b->level && a->tries == b->tries &&
           view_equal(home_of(a), home_of(b));
}

static uint64_t level_bytes(const struct judge_catalog *judge, uint64_t level)
{
    uint64_t bytes = judge->options.level1_bytes;
    for (uint64_t i = 1; i < level; i++)
        bytes *= judge->options.level_factor;
    return bytes;
}

/* So many are a group, whatever their size. */
static uint64_t group_size(const struct judge_catalog *judge, const struct listed *entry)
{
    uint64_t most = judge->options.group_max;
    if (entry->level == 0 && judge->options.level0_count < most)
        most = judge->options.level0_count;
    return most;
}

/* Whether there is data of an hour that begins an hour after its end. */
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

/* Of hours that are over, with nothing else of its hour. */
static bool is_lone(const struct catalog_version *version, const struct listed *entry)
{
    return is_hour_over(version, entry) && count_of_hour(version, entry) == 1;
}

static bool is_due_at_level_0(const struct judge_catalog *judge,
                              const struct catalog_version *version, const struct listed *entry)
{
    uint64_t count = count_of_hour(version, entry), lone = 0;
    if (entry->tries > 0) /* a suspect is tried again at once, alone in the end */
        return true;
    if (count >= group_size(judge, entry) || (count >= 2 && is_hour_over(version, entry)))
        return true;
    for (size_t i = 0; i < version->count && is_lone(version, entry); i++)
        lone +=
            are_alike(entry, &version->entries[i]) && is_lone(version, &version->entries[i]);
    return lone >= group_size(judge, entry);
}

static bool is_due_above(const struct judge_catalog *judge,
                         const struct catalog_version *version, const struct listed *entry)
{
    uint64_t wanted = level_bytes(judge, entry->level), count = 0, bytes = 0;
    for (size_t i = 0; i < version->count; i++) {
        if (!are_alike(entry, &version->entries[i]) || version->entries[i].size >= wanted)
            continue;
        count++;
        bytes += version->entries[i].size;
    }
    if (entry->size >= wanted || entry->tries > 0)
        return entry->size < wanted;
    return count >= 2 && (bytes >= wanted || count >= group_size(judge, entry));
}

/* By cascade a merge may leave some out (tried before, too many, of another home) and counts as
 * if it had not: these wait for the next, so nothing can be asked for. */
static const char *unmerged_in(struct judge_catalog *judge, const struct judged_doc *doc)
{
    const struct catalog_version *version = doc->now;
    if (!view_equal(version->policy, VIEW("levels")))
        return NULL;
    for (size_t i = 0; i < version->count; i++) {
        const struct listed *entry = &version->entries[i];
        if (!may_be_merged(entry))
            continue;
        bool due = entry->level == 0 ? is_due_at_level_0(judge, version, entry)
                                     : is_due_above(judge, version, entry);
        if (due)
            return UNSETTLED(judge, "%s is not merged with others of level %" PRIu64,
                             entry->chunk->key, entry->level);
    }
    return NULL;
}

/* ---- What is to be gone -------------------------------------------------------------- */

static const char *dead_in(struct judge_catalog *judge, const struct judged_doc *doc)
{
    for (size_t i = 0; i < doc->now->count; i++) {
        const struct listed *entry = &doc->now->entries[i];
        if (entry->state != LISTED_LIVE && entry->state != LISTED_MOVED)
            return UNSETTLED(judge, "%s is still %s in %s", entry->chunk->key,
                             entry->state == LISTED_TOMBSTONE ? "a tombstone" : "being deleted",
                             doc->key);
    }
    return NULL;
}

static const char *unsettled_leases(struct judge_catalog *judge)
{
    for (size_t i = 0; i < judge->lease_count; i++) {
        const struct judged_lease *lease = judge->leases[i];
        if (!lease->forgotten && !lease->completed)
            return UNSETTLED(judge, "the lease that was to make %s is not settled",
                             lease->output->key);
    }
    return NULL;
}

static const char *orphans(struct judge_catalog *judge)
{
    const struct bucket *bucket = net_bucket(judge->run->net);
    for (size_t i = 0; i < judge->chunk_count; i++) {
        const struct judged_chunk *chunk = judge->chunks[i];
        if (!chunk->live && bucket_peek(bucket, view_of(chunk->key)).data)
            return UNSETTLED(judge, "the object %s is left, which no catalog names",
                             chunk->key);
    }
    return NULL;
}

const char *judge_unsettled(struct judge_catalog *judge)
{
    const char *why = unsettled_leases(judge);
    for (struct judged_doc *doc = judge->docs; doc && !why; doc = doc->next) {
        if (!doc->reachable || !doc->now)
            continue;
        why = dead_in(judge, doc);
        if (!why)
            why = unmerged_in(judge, doc);
    }
    return why ? why : orphans(judge);
}

void judge_catalog_end(struct judge_catalog *judge)
{
    const char *why = judge_unsettled(judge);
    if (why)
        world_fail(catalog_world(judge), "in the end %s", why);
}
