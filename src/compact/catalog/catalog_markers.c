/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_markers.c: decides whether a merge may drop the deletion markers of its sources. A marker
 * hides the older records of its key. If it were dropped while such a record is left anywhere, or
 * can still arrive, a deleted row would come back. The worker asks before it merges, and the commit
 * asks again in its own swap. */
#include "base/parse.h"
#include "base/rule.h"
#include "compact/catalog/catalog_inside.h"

struct chunk_markers catalog_markers_of(const struct catalog *catalog, const struct view *keys,
                                        size_t count, const struct evidence *evidence)
{
    struct chunk_markers all = { .known = catalog->settings.deleted.size > 0 };
    bool readable = true;
    for (size_t i = 0; i < count; i++) {
        const struct chunk *chunk = catalog_find(catalog, keys[i]);
        if (!chunk || !chunk->markers.known)
            all.known = false;
        if (!chunk || chunk->markers.count == 0)
            continue;
        const struct chunk_markers *one = &chunk->markers;
        readable = readable && stamp_is_readable(one->since, evidence);
        all.ms = all.count == 0 || one->ms > all.ms ? one->ms : all.ms;
        if (all.count == 0 || one->since.us > all.since.us)
            all.since = one->since;
        all.count = one->count < CHUNK_NUMBER_MAX - all.count ? all.count + one->count
                                                              : CHUNK_NUMBER_MAX;
    }
    if (!all.known)
        return (struct chunk_markers){ .known = false };
    /* Stamps of other clocks cannot be compared, so the time starts again. */
    if (all.count > 0 && !readable)
        all.since = stamp_now(evidence);
    return all;
}

struct chunk_markers catalog_markers_left(const struct catalog_op *op,
                                          struct chunk_markers markers)
{
    if (op->drops_markers || (markers.known && op->markers_counted && op->markers_kept == 0))
        return (struct chunk_markers){ .known = true };
    if (op->markers_counted && op->markers_kept < markers.count)
        markers.count = op->markers_kept;
    return markers;
}

void catalog_raise_floor(struct catalog *catalog, int64_t ms)
{
    if (!catalog->has_floor || ms > catalog->floor_ms)
        catalog->floor_ms = ms;
    catalog->has_floor = true;
}

enum hf_status catalog_check_floor(const struct catalog *catalog, const struct chunk *chunk,
                                   struct hf_error *error)
{
    char earliest[TIME_TEXT_MAX], floor[TIME_TEXT_MAX];
    if (!catalog->has_floor || chunk->min_ms > catalog->floor_ms || chunk_is_empty(chunk))
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "its earliest record is of %s, but the partition takes only records later "
                     "than %s, because deletion markers up to that time were dropped",
                     time_text((struct wall_time){ chunk->min_ms * 1000 }, earliest),
                     time_text((struct wall_time){ catalog->floor_ms * 1000 }, floor));
}

/* ---- Whether markers may be dropped -------------------------------------------------- */

struct marker_check {
    const struct catalog *catalog;
    const struct view *sources;
    size_t count;
    int64_t ms; /* the newest marker: nothing else may reach back to this time */
};

static bool is_source(const struct marker_check *asked, struct view key)
{
    for (size_t i = 0; i < asked->count; i++)
        if (view_equal(asked->sources[i], key))
            return true;
    return false;
}

/* Whether the chunk may contain a record that one of the markers hides. */
static bool reaches_back(const struct marker_check *asked, const struct chunk *chunk)
{
    return chunk->min_ms <= asked->ms && !chunk_is_empty(chunk);
}

static const struct chunk *find_older_live(const struct marker_check *asked)
{
    const struct catalog *catalog = asked->catalog;
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        bool counts = chunk->quarantine.size > 0 ? RULE(MARKERS_SEE_QUARANTINE)
                                                 : RULE(MARKERS_SEE_ALL_LIVE);
        if (counts && reaches_back(asked, chunk) && !is_source(asked, chunk->key))
            return chunk;
    }
    return NULL;
}

/* Whether a target of a divided merge is a source. Such a merge is undone only while all of its
 * targets are live. */
static bool divided_into_source(const struct marker_check *asked, const struct grave *grave)
{
    for (size_t i = 0; i < grave->target_count; i++)
        if (is_source(asked, grave->targets[i]))
            return true;
    return false;
}

/* Whether undelete can bring these tombstones back while the markers stay dropped. A tombstone that
 * was merged into a source comes back only after our own merge was undone, and that brings the
 * markers back first. A chain of merges is followed to its last output. */
static bool can_be_restored(const struct marker_check *asked, const struct grave *grave)
{
    const struct catalog *catalog = asked->catalog;
    for (size_t i = 0; i <= catalog->grave_count; i++) {
        if (grave->undone)
            return false;
        if (grave->into.size == 0)
            return true;
        if (grave->target_count > 0)
            return !divided_into_source(asked, grave);
        switch (catalog_state(catalog, grave->into)) {
        case CHUNK_LIVE: return !is_source(asked, grave->into);
        case CHUNK_TOMBSTONE: break;
        case CHUNK_RETIRED:
        case CHUNK_CONDEMNED:
        case CHUNK_UNKNOWN: return false;
        case CHUNK_PENDING:
        case CHUNK_MOVED: return true;
        }
        grave = catalog_grave_by_key(catalog, grave->into);
    }
    return true; /* a cycle, which only a document written by hand can have */
}

static const struct chunk *find_older_tombstone(const struct marker_check *asked)
{
    const struct catalog *catalog = asked->catalog;
    for (size_t i = 0; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        for (size_t k = 0; k < grave->count; k++)
            if (RULE(MARKERS_SEE_TOMBSTONES) && reaches_back(asked, &grave->chunks[k]) &&
                can_be_restored(asked, grave))
                return &grave->chunks[k];
    }
    return NULL;
}

static enum hf_status check_older(const struct marker_check *asked, struct hf_error *error)
{
    const struct chunk *live = find_older_live(asked);
    const struct chunk *dead = live ? NULL : find_older_tombstone(asked);
    if (live)
        return error_set(error, HF_CONFLICT, "%.*s may contain records that they delete",
                         VIEW_ARGS(view_first(live->key, 120)));
    if (dead)
        return error_set(error, HF_CONFLICT,
                         "%.*s can be undeleted, and may contain records that they delete",
                         VIEW_ARGS(view_first(dead->key, 120)));
    return HF_OK;
}

/* Whether a marker is of the future, or of the last 2 D. A floor there would refuse what writers
 * send now, and the floor never sinks. The store's clock may count from the start of a machine, so
 * the wall clock is asked: if it is wrong, markers go too late or the floor is too high, but no
 * deleted row comes back. */
static bool is_recent(int64_t marker_ms, int64_t late_bound_ms, const struct evidence *evidence)
{
    return marker_ms > evidence->wall.us / 1000 - 2 * late_bound_ms;
}

enum hf_status catalog_check_markers(const struct catalog *catalog, const struct view *keys,
                                     size_t count, const struct evidence *evidence,
                                     struct hf_error *error)
{
    struct chunk_markers markers = catalog_markers_of(catalog, keys, count, evidence);
    const struct compact_settings *settings = &catalog->settings;
    bool is_split = catalog->parent.size > 0 || catalog->child_count > 0;
    char newest[TIME_TEXT_MAX];
    if (settings->deleted.size == 0 || (markers.known && markers.count == 0))
        return error_set(error, HF_NOT_FOUND, "there are no deletion markers");
    enum hf_status status = HF_OK;
    if (!markers.known)
        status = error_set(error, HF_CONFLICT, "a source may contain unknown markers");
    else if (is_split && RULE(SPLIT_KEEPS_MARKERS))
        status = error_set(error, HF_CONFLICT, "the partition was split");
    else if (RULE(MARKERS_STAY_FOR_2D) &&
             !stamp_passed(markers.since, evidence->now, SPAN_MS(2 * settings->late_bound_ms),
                           SPAN_MS(settings->skew_tolerance_ms), evidence))
        status = error_set(error, HF_CONFLICT, "they were ingested too recently");
    else if (is_recent(markers.ms, settings->late_bound_ms, evidence))
        status = error_set(error, HF_CONFLICT,
                           "the newest is of %s, and no record until then could be ingested "
                           "any more",
                           time_text((struct wall_time){ markers.ms * 1000 }, newest));
    if (status == HF_OK) {
        const struct marker_check asked = { catalog, keys, count, markers.ms };
        status = check_older(&asked, error);
    }
    if (status != HF_OK)
        error_prefix(error, "deletion markers must be kept");
    return status;
}
