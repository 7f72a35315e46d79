/* SPDX-License-Identifier: Apache-2.0 */
/* timers.h: timers ordered by time, and by when they were set if the times are equal: a binary heap
 * of pointers. Room is reserved when the owner of a timer is created, so that setting a timer
 * cannot fail. Pure. */
#ifndef SERVE_CORE_TIMERS_H
#define SERVE_CORE_TIMERS_H

#include "base/moment.h"

#include <stddef.h>

struct core_timer {
    struct mono_time due;
    uint64_t serial;
    size_t index; /* in the heap, from 1; 0: not set */
};

struct core_timers {
    struct core_timer **heap; /* heap[0] is the first that is due */
    size_t count;
    size_t reserved; /* owners */
    size_t capacity;
    uint64_t serial;
};

#define CORE_TIMERS_INIT ((struct core_timers){ .heap = NULL })

void core_timers_release(struct core_timers *timers);

/* Makes room for one more timer. False if memory runs out. */
bool core_timers_reserve(struct core_timers *timers);

/* The owner of a timer is gone. The timer must not be set. */
void core_timers_unreserve(struct core_timers *timers);

/* Sets a timer, or sets it anew. A time that is MOMENT_FAR or later clears it. */
void core_timer_set(struct core_timers *timers, struct core_timer *timer, struct mono_time due);

/* Does nothing if the timer is not set. */
void core_timer_clear(struct core_timers *timers, struct core_timer *timer);

/* The first timer; NULL if none is set. */
struct core_timer *core_timers_first(const struct core_timers *timers);

#endif
