/* SPDX-License-Identifier: Apache-2.0 */
/* wait_queue.h: this process's waiters for one table, one of which polls the table for all of
 * them.
 *
 * Each waiter is an entry in the queue. One waiter, the poller, waits for a local store's
 * notification or for the next poll, reads the table, and wakes the waiters whose turn has come.
 * Any other read or write of the table by this process updates the wait queue too. */
#ifndef LOCK_WAIT_QUEUE_H
#define LOCK_WAIT_QUEUE_H

#include "lease/table.h"
#include "lock/line.h"
#include "store/store.h"

#include <stdatomic.h>

struct table_ref;

/* Guarded by the wait queue's mutex. */
struct queue_waiter {
    uint64_t number;          /* in the waiter's id: "<session>-<number>" */
    bool queued;              /* the table is known to contain it */
    bool turn;                /* it has its turn, according to the table ... */
    struct mono_time turn_at; /* ... and claims it from then on */
    bool missing;             /* the table no longer contains it */
    bool cancelled;
    unsigned cancelling; /* calls of hf_lock_cancel that have not returned */
    bool asleep;         /* its task is waiting on `wake` */
    struct span poll;
    struct env_cond wake;
};

#define WAIT_QUEUE_MAX TABLE_WAITERS_MAX

struct wait_queue {
    struct env_mutex mutex;
    struct queue_waiter **waiters; /* in order of number */
    size_t waiter_count, waiter_capacity;
    bool closed;  /* who enters is cancelled */
    bool polling; /* one of them is the poller ... */
    /* ... and may be waiting for a notification from the store: this one, or NULL. */
    struct queue_waiter *listener;
    struct mono_time next_poll_at;
    /* A waiter that blocks, on a store that does not notify it, polls earlier when the table is
     * likely to have changed. */
    struct mono_time soon_at;
    struct queue_line line;       /* of our first waiter in the table */
    struct mono_time takeover_at; /* when there will be a proof, if nothing changes */
    uint64_t ticket;              /* of the store's notifications */
    atomic_bool has_line;         /* the table had waiters when it was last seen */
    struct hf_error trouble;      /* why the last request got no reply; OK: it got one */
};

void wait_queue_init(struct wait_queue *queue, struct env *env);
void wait_queue_release(struct wait_queue *queue);

/* Updates the wait queue from a table that was read or written. This is the `seen` callback of the
 * table's document, with the table_ref as its argument. */
void wait_queue_learn(void *table_ref, const void *table, const struct evidence *evidence);

/* Adds a waiter. Every table that is seen from now on is checked for its turn. */
enum hf_status wait_queue_enter(struct table_ref *ref, struct queue_waiter *waiter,
                                struct hf_error *error);
void wait_queue_leave(struct table_ref *ref, struct queue_waiter *waiter);

/* Notes that the table contains this waiter. */
void wait_queue_mark_queued(struct table_ref *ref, struct queue_waiter *waiter);

enum wait_queue_news { QUEUE_NOTHING, QUEUE_TURN, QUEUE_MISSING, QUEUE_CANCELLED };

/* Waits until the waiter may claim its turn. If several waiters have their turn together, those
 * before this one have had the time to claim it by then. Ends at the deadline, and when the wait
 * is cancelled. */
enum wait_queue_news wait_queue_stagger(struct table_ref *ref, struct queue_waiter *waiter,
                                        struct mono_time deadline);

/* Clears a turn that is about to be claimed; a later turn is then a new one. */
void wait_queue_clear_turn(struct table_ref *ref, struct queue_waiter *waiter);

/* After a claim that got no reply: the waiter may still have its turn, and an unchanged table would
 * not tell it again. Gives it the turn again after a pause, unless the deadline comes first. */
void wait_queue_claim_again(struct table_ref *ref, struct queue_waiter *waiter,
                            struct mono_time deadline);

/* Waits for news about a waiter until the deadline. Polls for all waiters if no other task is
 * polling. */
enum wait_queue_news wait_queue_wait(struct table_ref *ref, struct queue_waiter *waiter,
                                     struct mono_time deadline);

/* The same without waiting: polls only if a poll is due. */
enum wait_queue_news wait_queue_poll(struct table_ref *ref, struct queue_waiter *waiter);

/* Pauses between two attempts to join the queue: for one poll interval, or until the deadline
 * or a cancellation. */
enum wait_queue_news wait_queue_pause(struct table_ref *ref, struct queue_waiter *waiter,
                                      struct mono_time deadline);

/* Notes why a request that is being repeated got no reply. If `why` is NULL, the request got a
 * reply or is no longer repeated. */
void wait_queue_note_trouble(struct table_ref *ref, const struct hf_error *why);

/* The last failure that was noted, or the failure of the request in progress; false if there is
 * none. For progress messages. */
bool wait_queue_trouble(struct table_ref *ref, struct hf_error *ret_why);

/* Wakes this waiter's task and ends its wait. */
void wait_queue_cancel(struct table_ref *ref, struct queue_waiter *waiter);

/* The same for a caller that then waits for the task's call to return. Until cancel_end, every wait
 * of this waiter is cancelled, including one that has only just begun. Otherwise a wait that began
 * after the flag was set, and cleared it, would block the caller for as long as it lasts. */
void wait_queue_cancel_begin(struct table_ref *ref, struct queue_waiter *waiter);
void wait_queue_cancel_end(struct table_ref *ref, struct queue_waiter *waiter);

bool wait_queue_is_cancelled(struct table_ref *ref, const struct queue_waiter *waiter);

/* For a wait that begins: earlier cancellations no longer count. */
void wait_queue_clear_cancel(struct table_ref *ref, struct queue_waiter *waiter);

/* Ends the waits of all waiters of this table, and of those that enter from now on, because the
 * client is being closed. A call that found the client open may enter later. */
void wait_queue_close(struct table_ref *ref);

#endif
