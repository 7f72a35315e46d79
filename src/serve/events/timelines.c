/* SPDX-License-Identifier: Apache-2.0 */
/* timelines.c: finds the timeline of a lock, and forgets what has not changed for long. */
#include "serve/events/timelines.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

/* The memory is bounded, so that there are a few timelines in a slot at most. */
#define SLOTS ((size_t)4096)

struct kept {
    struct timeline *timeline;
    struct kept *older, *newer; /* by their last change */
    struct kept *next;          /* in the same slot */
    uint64_t hash;
    int64_t changed_ms;
    size_t bytes;
    size_t size;
    char resource[];
};

struct timelines {
    unsigned char key[SIPHASH_KEY_BYTES];
    struct kept *slots[SLOTS]; /* by the hash of the resource */
    struct kept *oldest, *newest;
    size_t bytes;
    int64_t complete_since_ms; /* of a timeline that begins anew */
    int64_t ahead_us;          /* of the boot-time clock: how far the wall clock was at most */
};

struct timelines *timelines_new(int64_t now_ms, const unsigned char key[SIPHASH_KEY_BYTES])
{
    struct timelines *timelines = calloc(1, sizeof *timelines);
    if (!timelines)
        return NULL;
    memcpy(timelines->key, key, SIPHASH_KEY_BYTES);
    timelines->complete_since_ms = now_ms;
    timelines->ahead_us = INT64_MIN;
    return timelines;
}

int64_t timelines_clock_ms(struct timelines *timelines, struct wall_time wall,
                           struct mono_time now)
{
    int64_t ahead_us = wall.us - now.us;
    if (ahead_us > timelines->ahead_us)
        timelines->ahead_us = ahead_us;
    return (now.us + timelines->ahead_us) / 1000;
}

static void unlink_kept(struct timelines *timelines, struct kept *kept)
{
    *(kept->older ? &kept->older->newer : &timelines->oldest) = kept->newer;
    *(kept->newer ? &kept->newer->older : &timelines->newest) = kept->older;
}

static void link_newest(struct timelines *timelines, struct kept *kept)
{
    kept->older = timelines->newest;
    kept->newer = NULL;
    *(kept->older ? &kept->older->newer : &timelines->oldest) = kept;
    timelines->newest = kept;
}

static struct view resource_of(const struct kept *kept)
{
    return (struct view){ kept->resource, kept->size };
}

/* Where the pointer to the timeline of this resource is, or would be. */
static struct kept **find_kept(struct timelines *timelines, struct view resource, uint64_t hash)
{
    struct kept **at = &timelines->slots[hash % SLOTS];
    while (*at && !((*at)->hash == hash && view_equal(resource_of(*at), resource)))
        at = &(*at)->next;
    return at;
}

static struct kept *get_kept(struct timelines *timelines, struct view resource)
{
    return *find_kept(timelines, resource, hash_siphash(timelines->key, resource));
}

static void forget_timeline(struct timelines *timelines, struct kept *kept)
{
    if (kept->changed_ms >= timelines->complete_since_ms)
        timelines->complete_since_ms = kept->changed_ms + 1;
    *find_kept(timelines, resource_of(kept), kept->hash) = kept->next;
    unlink_kept(timelines, kept);
    timelines->bytes -= kept->bytes;
    timeline_free(kept->timeline);
    free(kept);
}

void timelines_free(struct timelines *timelines)
{
    if (!timelines)
        return;
    while (timelines->oldest)
        forget_timeline(timelines, timelines->oldest);
    free(timelines);
}

static struct kept *kept_new(struct timelines *timelines, struct view resource, uint64_t hash)
{
    struct kept *kept = calloc(1, sizeof *kept + resource.size);
    if (!kept)
        return NULL;
    kept->hash = hash;
    kept->size = resource.size;
    memcpy(kept->resource, resource.data, resource.size);
    kept->timeline = timeline_new(TIMELINE_HOLDS_MAX, timelines->complete_since_ms);
    if (!kept->timeline) {
        free(kept);
        return NULL;
    }
    struct kept **slot = &timelines->slots[hash % SLOTS];
    kept->next = *slot;
    *slot = kept;
    link_newest(timelines, kept);
    return kept;
}

static struct kept *open_kept(struct timelines *timelines, struct view resource)
{
    uint64_t hash = hash_siphash(timelines->key, resource);
    struct kept *kept = *find_kept(timelines, resource, hash);
    return kept ? kept : kept_new(timelines, resource, hash);
}

struct timeline *timelines_find(struct timelines *timelines, struct view resource)
{
    struct kept *kept = get_kept(timelines, resource);
    return kept ? kept->timeline : NULL;
}

struct timeline *timelines_open(struct timelines *timelines, struct view resource)
{
    struct kept *kept = open_kept(timelines, resource);
    return kept ? kept->timeline : NULL;
}

/* The newest one stays, even if it alone is too large: its holds are bounded. */
static void note_timeline_change(struct timelines *timelines, struct kept *kept, int64_t now_ms)
{
    timelines->bytes -= kept->bytes;
    kept->bytes = sizeof *kept + kept->size + timeline_bytes(kept->timeline);
    timelines->bytes += kept->bytes;
    kept->changed_ms = now_ms;
    unlink_kept(timelines, kept);
    link_newest(timelines, kept);
    while (timelines->bytes > TIMELINES_BYTES_MAX && timelines->oldest != kept)
        forget_timeline(timelines, timelines->oldest);
}

void timelines_note(struct timelines *timelines, struct view resource,
                    const struct timeline_hold *hold, int64_t now_ms)
{
    struct kept *kept =
        hold->began.at_ms > 0 ? open_kept(timelines, resource) : get_kept(timelines, resource);
    if (!kept)
        return;
    bool noted = timeline_note(kept->timeline, hold);
    note_timeline_change(timelines, kept, now_ms);
    if (!noted)
        forget_timeline(timelines, kept);
}

void timelines_looked(struct timelines *timelines, struct view resource, int64_t now_ms)
{
    struct kept *kept = get_kept(timelines, resource);
    check(kept);
    note_timeline_change(timelines, kept, now_ms);
}

size_t timelines_bytes(const struct timelines *timelines)
{
    return timelines->bytes;
}
