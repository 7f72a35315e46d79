/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.h: who held one lock when, within a bound. Pure: no I/O, clock or thread.
 *
 * What is known about a hold arrives in parts, in any order and more than once: by the calls of
 * this process, and by reading the lock's table. Each part is noted under the fencing token of the
 * hold.
 *
 *     timeline_note(timeline, &hold);                        what a call of ours did
 *
 *     timeline_begin_look(timeline);                         a read of the table
 *     timeline_see(timeline, &hold);                         ... each lease in it
 *     timeline_end_look(timeline, table.next_token, at_ms);
 *
 * INVARIANTS.
 *
 *   - The holds are in the order of their tokens, which is that of their grants. No two have the
 *     same token.
 *   - An end is final: a read that began before the release, and shows the lease as held, changes
 *     nothing. Better knowledge replaces worse: what our own call did, then what the table says,
 *     then what follows from others.
 *   - Exact times do not contradict the order of the tokens: an exclusive hold begins when the hold
 *     before it has ended, even if the release is answered after the grant.
 *   - A hold has ended if a look does not find it, unless its token is not below next_token: then
 *     it was granted after the read. It has also ended if a later one is exclusive.
 *   - At most so many holds are kept as timeline_new says. The oldest is dropped first, and
 *     timeline_complete_since says so. */
#ifndef BASE_TIMELINE_H
#define BASE_TIMELINE_H

#include "base/buffer.h"
#include "holdfast.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum timeline_end {
    TIMELINE_HELD, /* it has not ended, as far as is known */
    TIMELINE_RELEASE,
    TIMELINE_EXPIRY,
    TIMELINE_BREAK,
    TIMELINE_UNKNOWN, /* it has ended, but nobody saw how */
    TIMELINE_END_COUNT
};

/* "held", "release", "expiry", "break", "unknown". */
const char *timeline_end_name(enum timeline_end end);

/* How exactly a time is known, if not by how many milliseconds the event may have been earlier. */
#define TIMELINE_EXACT        0
#define TIMELINE_OTHERS_CLOCK (-1) /* it is what the holder wrote, by its own clock */

struct timeline_time {
    int64_t at_ms; /* since 1970; 0: not known */
    int64_t slack_ms;
};

/* A hold, or a part of what is known about it: members that are 0 or NULL are not known. */
struct timeline_hold {
    uint64_t token;
    struct timeline_time began, ended;
    enum timeline_end end;
    int64_t expires_ms; /* unless renewed */
    bool exclusive;     /* no other hold overlaps with it */
    const char *mode;   /* a text that stays */
    const char *owner, *holder,
        *scope;              /* scope: of a lease on another scope, which covers this */
    const char *by, *reason; /* of a break */
};

struct timeline;

/* `complete_since_ms`: holds before that may be missing. NULL if memory runs out. */
struct timeline *timeline_new(size_t holds_max, int64_t complete_since_ms);
void timeline_free(struct timeline *timeline);

/* Texts are copied. A part of a hold that is not known is kept only if it says when the hold began.
 * False if memory ran out: the part is not kept. */
bool timeline_note(struct timeline *timeline, const struct timeline_hold *hold);

void timeline_begin_look(struct timeline *timeline);
bool timeline_see(struct timeline *timeline, const struct timeline_hold *hold);
void timeline_end_look(struct timeline *timeline, uint64_t next_token, int64_t at_ms);

/* ---- Tables -------------------------------------------------------------------------- */

/* What a table, as hf_locks_show shows it, says about a hold, except for its owner. The texts are
 * those of the lease. False: it is no hold of this scope, or of one that conflicts with it. */
bool timeline_read_lease(const struct hf_lease_info *lease, struct timeline_hold *ret_hold);

/* Appends who broke a lease, and why, as an audit entry of the table says. Returns the token of the
 * lease; 0: the entry is about something else. */
uint64_t timeline_read_audit(const char *json, struct buffer *by, struct buffer *why);

/* ---- What is known ------------------------------------------------------------------- */

size_t timeline_count(const struct timeline *timeline);
const struct timeline_hold *timeline_at(const struct timeline *timeline, size_t index);

/* How the hold began: "grant"; "takeover": the lease before it had expired; or "seen": what the
 * table said later. */
const char *timeline_began_name(const struct timeline *timeline, size_t index);

uint64_t timeline_dropped(const struct timeline *timeline);
int64_t timeline_complete_since(const struct timeline *timeline);
int64_t timeline_looked_at(const struct timeline *timeline); /* the last look; 0: none */
size_t timeline_bytes(const struct timeline *timeline);      /* of memory */

/* A time in which nobody held the lock, as far as is known. */
struct timeline_gap {
    int64_t from_ms, to_ms; /* to_ms 0: until now */
    bool certain;           /* the tokens show that there was no other grant */
};

/* The first gap at or after hold number *at, which is advanced. Begin with 0. False: there is none
 * left. */
bool timeline_next_gap(const struct timeline *timeline, size_t *at,
                       struct timeline_gap *ret_gap);

#endif
