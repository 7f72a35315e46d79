/* SPDX-License-Identifier: Apache-2.0 */
/* timer.c: a heap of timers. They are ordered by time, and timers with equal times by the order in
 * which they were set. The order never depends on addresses. */
#include "sim/world/timer.h"

#include "base/check.h"

#include <stdlib.h>

static bool is_before(const struct timer *a, const struct timer *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->order < b->order;
}

static void place(struct timer_queue *queue, size_t at, struct timer *timer)
{
    queue->timers[at] = timer;
    timer->place = at + 1;
}

static void move_up(struct timer_queue *queue, size_t at)
{
    struct timer *timer = queue->timers[at];
    while (at > 0 && is_before(timer, queue->timers[(at - 1) / 2])) {
        place(queue, at, queue->timers[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(queue, at, timer);
}

static void move_down(struct timer_queue *queue, size_t at)
{
    struct timer *timer = queue->timers[at];
    size_t child;
    while ((child = 2 * at + 1) < queue->count) {
        if (child + 1 < queue->count &&
            is_before(queue->timers[child + 1], queue->timers[child]))
            child++;
        if (!is_before(queue->timers[child], timer))
            break;
        place(queue, at, queue->timers[child]);
        at = child;
    }
    place(queue, at, timer);
}

void timer_queue_release(struct timer_queue *queue)
{
    free(queue->timers);
    *queue = (struct timer_queue){ 0 };
}

static void make_room(struct timer_queue *queue)
{
    if (queue->count < queue->capacity)
        return;
    size_t capacity = queue->capacity ? queue->capacity * 2 : 64;
    struct timer **timers = realloc(queue->timers, capacity * sizeof *timers);
    check(timers);
    queue->timers = timers;
    queue->capacity = capacity;
}

void timer_set(struct timer_queue *queue, struct timer *timer, int64_t due_us,
               void (*ring)(void *), void *argument)
{
    timer_cancel(queue, timer);
    make_room(queue);
    timer->due_us = due_us;
    timer->order = ++queue->orders;
    timer->ring = ring;
    timer->argument = argument;
    queue->timers[queue->count++] = timer;
    move_up(queue, queue->count - 1);
}

void timer_cancel(struct timer_queue *queue, struct timer *timer)
{
    if (!timer_is_set(timer))
        return;
    size_t at = timer->place - 1;
    check(at < queue->count && queue->timers[at] == timer);
    timer->place = 0;
    struct timer *last = queue->timers[--queue->count];
    if (last == timer)
        return;
    place(queue, at, last);
    move_up(queue, at);
    if (queue->timers[at] == last)
        move_down(queue, at);
}
