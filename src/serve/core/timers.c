/* SPDX-License-Identifier: Apache-2.0 */
/* timers.c: the heap of timers. It never allocates while a timer is set, so an event that has been
 * accepted cannot fail half-way for lack of memory. */
#include "serve/core/timers.h"

#include "base/check.h"

#include <stdlib.h>

#define CAPACITY_MIN ((size_t)16)

void core_timers_release(struct core_timers *timers)
{
    check(timers->count == 0 && timers->reserved == 0);
    free(timers->heap);
    *timers = CORE_TIMERS_INIT;
}

bool core_timers_reserve(struct core_timers *timers)
{
    if (timers->reserved == timers->capacity) {
        size_t more = timers->capacity > 0 ? 2 * timers->capacity : CAPACITY_MIN;
        struct core_timer **heap = realloc(timers->heap, more * sizeof(struct core_timer *));
        if (!heap)
            return false;
        timers->heap = heap;
        timers->capacity = more;
    }
    timers->reserved++;
    return true;
}

void core_timers_unreserve(struct core_timers *timers)
{
    check(timers->reserved > timers->count);
    timers->reserved--;
}

static bool is_due_before(const struct core_timer *a, const struct core_timer *b)
{
    return a->due.us != b->due.us ? a->due.us < b->due.us : a->serial < b->serial;
}

static void put_at(struct core_timers *timers, size_t index, struct core_timer *timer)
{
    timers->heap[index] = timer;
    timer->index = index + 1;
}

/* Moves a timer to where it belongs, from a place that is free. */
static void sift(struct core_timers *timers, size_t index, struct core_timer *timer)
{
    while (index > 0 && is_due_before(timer, timers->heap[(index - 1) / 2])) {
        put_at(timers, index, timers->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    for (size_t child = 2 * index + 1; child < timers->count; child = 2 * index + 1) {
        if (child + 1 < timers->count &&
            is_due_before(timers->heap[child + 1], timers->heap[child]))
            child++;
        if (!is_due_before(timers->heap[child], timer))
            break;
        put_at(timers, index, timers->heap[child]);
        index = child;
    }
    put_at(timers, index, timer);
}

void core_timer_clear(struct core_timers *timers, struct core_timer *timer)
{
    if (timer->index == 0)
        return;
    size_t index = timer->index - 1;
    struct core_timer *last = timers->heap[--timers->count];
    timer->index = 0;
    if (last != timer)
        sift(timers, index, last);
}

void core_timer_set(struct core_timers *timers, struct core_timer *timer, struct mono_time due)
{
    core_timer_clear(timers, timer);
    if (due.us >= MOMENT_FAR)
        return;
    check(timers->count < timers->reserved);
    timer->due = due;
    timer->serial = timers->serial++;
    sift(timers, timers->count++, timer);
}

struct core_timer *core_timers_first(const struct core_timers *timers)
{
    return timers->count > 0 ? timers->heap[0] : NULL;
}
