/* SPDX-License-Identifier: Apache-2.0 */
/* timelines.h: the timelines (base/timeline.h) of all locks that are used through this server, or
 * that somebody looked at. Pure, and bounded: each has at most TIMELINE_HOLDS_MAX holds, and all
 * of them together take at most TIMELINES_BYTES_MAX. Beyond that, the timeline is forgotten that
 * has not changed for the longest time, and the next one of the same lock says since when it is
 * complete. */
#ifndef SERVE_EVENTS_TIMELINES_H
#define SERVE_EVENTS_TIMELINES_H

#include "base/moment.h"
#include "base/siphash.h"
#include "base/timeline.h"
#include "base/view.h"

#define TIMELINE_HOLDS_MAX  512
#define TIMELINES_BYTES_MAX (2 * 1024 * 1024)

struct timelines;

/* `now_ms` is the start of the server, in milliseconds since 1970. They are found by a hash with
 * this key, so that nobody can choose names that are found slowly. NULL if memory runs out. */
struct timelines *timelines_new(int64_t now_ms, const unsigned char key[SIPHASH_KEY_BYTES]);
void timelines_free(struct timelines *timelines);

/* The time at which an event is noted, in milliseconds since 1970. It is the wall clock, but it is
 * never set back: after the wall clock was, it continues at the rate of the boot-time clock.
 * Otherwise the next event would pull back every event before it. `wall` must have been read just
 * before `now`, so that a pause between the two cannot set this clock ahead. */
int64_t timelines_clock_ms(struct timelines *timelines, struct wall_time wall,
                           struct mono_time now);

/* The timeline of a lock, by its resource, "<namespace>/<scope>"; NULL if there is none. It is
 * valid until the next call here. */
struct timeline *timelines_find(struct timelines *timelines, struct view resource);

/* The same, but a new one if there is none; NULL if memory runs out. timelines_looked must follow:
 * only then does its memory count. */
struct timeline *timelines_open(struct timelines *timelines, struct view resource);

/* Notes what a call did. Only a grant begins a new timeline. Without memory, the timeline of the
 * lock is forgotten. */
void timelines_note(struct timelines *timelines, struct view resource,
                    const struct timeline_hold *hold, int64_t now_ms);

/* After a look, which may have made the timeline larger. */
void timelines_looked(struct timelines *timelines, struct view resource, int64_t now_ms);

size_t timelines_bytes(const struct timelines *timelines);

#endif
