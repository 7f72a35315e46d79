/* SPDX-License-Identifier: Apache-2.0 */
/* timer.h: events that are due later. They are ordered by time, and events with equal times by the
 * order in which they were set. */
#ifndef SIM_WORLD_TIMER_H
#define SIM_WORLD_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A timer is a member of the struct that it belongs to. A zero-initialised timer is not set. */
struct timer {
    int64_t due_us;
    uint64_t order;
    size_t place; /* in the queue, from 1; 0: not set */
    void (*ring)(void *argument);
    void *argument;
};

/* A binary heap of pointers to timers. */
struct timer_queue {
    struct timer **timers;
    size_t count;
    size_t capacity;
    uint64_t orders;
};

void timer_queue_release(struct timer_queue *queue);

/* Sets or resets the timer. Aborts if memory runs out, because the world cannot continue without
 * its timers. */
void timer_set(struct timer_queue *queue, struct timer *timer, int64_t due_us,
               void (*ring)(void *), void *argument);

/* Has no effect if the timer is not set. */
void timer_cancel(struct timer_queue *queue, struct timer *timer);

static inline bool timer_is_set(const struct timer *timer)
{
    return timer->place > 0;
}

/* Returns the timer that is due first, without removing it from the queue; NULL if there is
 * none. */
static inline struct timer *timer_first(const struct timer_queue *queue)
{
    return queue->count > 0 ? queue->timers[0] : NULL;
}

#endif
