/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.h: what a client learns from conflicts about the other clients that write a document. It
 * only saves requests: whatever it returns, every write is conditional.
 *
 * A put conflicts for one of two reasons, and each has its own remedy:
 *
 *   The body was outdated. Others write from time to time, and one of them has done so since this
 *   client last saw the document. The client measures the time between two changes of others (the
 *   gap), and reads the document before it puts a body that others may well have replaced: one that
 *   is older than a small part of the gap. A put is not wasted, and nobody waits. A read that finds
 *   no change shows little, because most reads in a gap find none. Only a longer time without any
 *   change does.
 *
 *   The body was new, and another client was faster. Then several clients are writing at the same
 *   time. After such a conflict the client pauses. The limit of the pause grows when a pause was
 *   too short and shrinks when it was long enough, so it follows the number of clients without
 *   anybody counting them. It is remembered from one change to the next: a client that had to
 *   learn it again each time would waste several puts each time.
 *
 * There are documents that several clients change at the same moment, again and again, because the
 * same event makes them do so: of two workers that have found the same group of chunks, the second
 * claims when its turn comes, a fraction of a second after the first. Their gap says nothing. Once
 * a change of others was noticed, such a document is read before each put (`reads_first`), unless
 * it was read or written a round trip ago; its changes are rare, and nobody waits for them.
 *
 * A client that has just written has the latest body, so it may write again with a single put, and
 * a series of such puts is what makes good use of a crowded document. But it also keeps the others
 * out, because each of them must read before it writes. So after RUN_MAX changes in a row it pauses
 * once, if it has seen a conflict lately. A change that has waited for long pauses less than its
 * limit, so that no client waits much longer than the others.
 *
 * Pure: times are passed in. */
#ifndef DOC_CROWD_H
#define DOC_CROWD_H

#include "base/moment.h"

#include <stdbool.h>

/* Zero-initialised: no change of others has been seen. */
struct crowd {
    struct span pause; /* the limit of the pause after a conflict */
    struct span gap;   /* between two changes of others, on average; 0: none was noticed */
    struct mono_time
        changed; /* when their last change was noticed, or the first body; 0: never */
    struct mono_time conflicted; /* the last conflict that a new body had; 0: none */
    unsigned in_row;             /* changes written since the last conflict or pause */
    bool outdated;               /* the last conflict was that of an outdated body */
    bool gave_way;               /* paused after a series */
    bool reads_first; /* others change it at the same time as this client; see above */
};

/* A put of a body that was known to be current this long ago has conflicted, or has succeeded.
 * `again`: the attempt before it had failed too. */
void crowd_note_conflict(struct crowd *crowd, struct span age, bool again,
                         struct span round_trip, struct mono_time now);
void crowd_note_written(struct crowd *crowd, struct span age, struct mono_time now);

/* An attempt has succeeded, with or without a put. `again`: the one before it had failed. */
void crowd_note_success(struct crowd *crowd, bool again);

/* A body of this age was compared with the store. */
void crowd_note_read(struct crowd *crowd, struct span age, bool changed, struct mono_time now);

/* Whether to read the document before a body of this age is put. */
bool crowd_doubts(const struct crowd *crowd, struct span age, struct span round_trip,
                  struct mono_time now);

/* The longest pause before the next attempt. The caller draws the pause from 0 up to this limit.
 * `again`: the attempt before it has failed, and `waited` is the time since the first attempt. */
struct span crowd_pause(struct crowd *crowd, bool again, struct span waited,
                        struct span round_trip, struct mono_time now);

#endif
