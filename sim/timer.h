/* timer.h: what is to happen later, in order of time and, at one moment, in order of setting.
 */
#ifndef SIM_TIMER_H
#define SIM_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lives inside whatever it is the timer of. Zero-initialised it is not set. */
struct timer {
    int64_t due_us;
    uint64_t order;
    size_t place; /* in the queue, counted from 1; 0: not set */
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

/* Sets it, or sets it anew. Aborts without memory: the world cannot go on without its clock. */
void timer_set(struct timer_queue *queue, struct timer *timer, int64_t due_us,
               void (*ring)(void *), void *argument);

/* Fine when it is not set. */
void timer_cancel(struct timer_queue *queue, struct timer *timer);

static inline bool timer_is_set(const struct timer *timer)
{
    return timer->place > 0;
}

/* The one that is due first, still in the queue; NULL when there is none. */
static inline struct timer *timer_first(const struct timer_queue *queue)
{
    return queue->count > 0 ? queue->timers[0] : NULL;
}

#endif
