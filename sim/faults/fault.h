/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h: all faults, in two tables; which of them may happen in a run; and how often they
 * happened.
 *
 * A row has the name of the fault, its name for --without (empty: the fault follows from another
 * one and cannot be omitted by itself), its text in the totals, and its text in the trace. */
#ifndef SIM_FAULTS_FAULT_H
#define SIM_FAULTS_FAULT_H

#include "base/view.h"

#include <stdint.h>

/* Faults of a request in flight: "put a/b (#12) of node 2 ..." */
#define NET_FAULT_TABLE(ROW)                                                                  \
    ROW(NET_REQUEST_LOST, "lost-requests", "requests lost",                                   \
        "gets lost on the way to the store")                                                  \
    ROW(NET_REPLY_LOST, "lost-replies", "replies lost", "will get no reply back: it is lost") \
    ROW(NET_LATE_APPLY, "late-applies", "writes applied late",                                \
        "is held up on its way: its node gives up, and it is done later")                     \
    ROW(NET_SLOW, "slow-messages", "messages slow", "is slow on one of its ways")             \
    ROW(NET_THROTTLED, "throttling", "requests throttled", "will be throttled, and not done") \
    ROW(NET_BUSY, "busy-errors", "requests throttled in doubt",                               \
        "will be throttled, by an answer that could mean anything, and not done")             \
    ROW(NET_ERROR_UNDONE, "errors-undone", "internal errors, nothing done",                   \
        "will end in an error of the store, and not be done")                                 \
    ROW(NET_ERROR_DONE, "errors-done", "internal errors, yet done",                           \
        "will end in an error of the store, but be done")                                     \
    ROW(NET_REFUSED, "refusals", "writes refused without need",                               \
        "will be refused whether or not its condition holds")                                 \
    ROW(NET_RESENT, "resends", "writes sent twice by a proxy",                                \
        "is sent twice by a proxy, which passes on the second answer")                        \
    ROW(NET_CACHED_DATE, "cached-dates", "dates from a cache",                                \
        "is answered by a cache, with an old date, and so are others for a while")            \
    ROW(NET_LYING_DATE, "lying-dates", "dates that lie",                                      \
        "is answered with an old date, as if it were new")                                    \
    ROW(NET_PARTITIONED, "", "messages cut off by a partition", "is cut off by a partition")  \
    ROW(NET_SLEPT_THROUGH, "", "replies lost to a suspended machine",                         \
        "is answered while its machine is suspended: the reply is lost")

/* Faults of nodes and clocks: "node 2 ..., for 3 s". A fault without a text is traced by the
 * component that it affects. */
#define CHAOS_TABLE(ROW)                                                                      \
    ROW(CHAOS_CRASH, "crashes", "crashes", "crashes")                                         \
    ROW(CHAOS_REBOOT, "reboots", "machine reboots", "loses power with its machine")           \
    ROW(CHAOS_PAUSE, "pauses", "pauses", "is paused")                                         \
    ROW(CHAOS_SUSPEND, "suspends", "suspensions", "is suspended with its machine")            \
    ROW(CHAOS_CUT, "partitions", "partitions", "is cut off from the store")                   \
    ROW(CHAOS_SPLIT, "splits", "partitions of several nodes", "is cut off along with others") \
    ROW(CHAOS_BURST, "bursts", "bursts of throttling", "")                                    \
    ROW(CHAOS_WALL_STEP, "calendar-steps", "steps of a calendar", "")                         \
    ROW(CHAOS_STORE_STEP, "store-steps", "steps of the store's clock", "")                    \
    ROW(CHAOS_CRASH_LEFT, "crashes-leaving", "crashes as a request left",                     \
        "crashes just as its request has left")                                               \
    ROW(CHAOS_CRASH_ANSWERED, "crashes-answered", "crashes as a reply came",                  \
        "crashes just as a reply arrives")                                                    \
    ROW(CHAOS_PAUSE_LEAVING, "pauses-leaving", "pauses before a request left",                \
        "is paused just before its request leaves")                                           \
    ROW(CHAOS_PAUSE_ANSWERED, "pauses-answered", "pauses as a reply came",                    \
        "is paused just as a reply arrives")

#define FAULT_ENUM_(fault, name, count, one) fault,
enum fault { NET_FAULT_TABLE(FAULT_ENUM_) CHAOS_TABLE(FAULT_ENUM_) FAULT_COUNT };
#undef FAULT_ENUM_

/* The name for --without; empty if the fault only follows from another one. */
const char *fault_name(enum fault fault);
const char *fault_count_text(enum fault fault);
const char *fault_story(enum fault fault);

/* Returns false if no fault has this name. */
bool fault_find(struct view name, enum fault *ret_fault);

/* The faults that a run may have, regardless of its plans; used for shrinking. A fault that is
 * omitted is still drawn, so the rest of the run stays the same. */
struct fault_limits {
    uint64_t without; /* one bit, 1 << fault, for each fault that must not happen */
    uint64_t max;     /* only the first `max` faults happen */
};

#define FAULT_LIMITS ((struct fault_limits){ .max = UINT64_MAX })

struct faults {
    struct fault_limits limits;
    uint64_t happened; /* not counting those that only follow from others */
    uint64_t hits;     /* of these, those that affected a request in flight */
    uint64_t counts[FAULT_COUNT];
};

/* Whether a fault that was drawn may happen; if so, counts it. */
bool fault_happens(struct faults *faults, enum fault fault);

/* Counts a fault that follows from another one. */
void fault_follows(struct faults *faults, enum fault fault);

#endif
