/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h: the order in which processes write to one sqlite store.
 *
 * SQLite's write lock has no queue. A process that finds it locked has to sleep and try again. So
 * the lock is idle while all who want it sleep, and a process that is unlucky waits for very long.
 * Processes that compete for the lock therefore queue in a small mapped file beside the database,
 * FILE-writers. A process draws a number, sleeps until its number is called, writes, and calls the
 * next number, which wakes exactly one process.
 *
 * The queue is advice:
 *
 *   1. It protects nothing. SQLite's lock alone decides which process writes. If the queue is
 *      wrong, writes are slower or less fair, but never wrong.
 *   2. No process waits for longer than QUEUE_WAIT before it tries SQLite's lock without its turn.
 *      If that fails, it keeps its number and waits again.
 *   3. The kernel releases what a dead process held. Each process locks one byte of the file, its
 *      seat, for as long as it has the store open. A waiting process checks every QUEUE_SLICE
 *      whether the process whose turn it is still has its seat, and otherwise passes over it. A
 *      forked child keeps the seat of its parent; rule 4 ends such a turn.
 *   4. A turn that lasts longer than QUEUE_WAIT is passed over too, because its process may be
 *      stopped. A process whose turn was passed over need not wait any more.
 *   5. A process that writes all the time keeps its turn for a few writes, because passing it on
 *      costs more than a write: two processes have to be switched, and the next one reads what the
 *      others have written. It keeps the turn only if it has returned within QUEUE_RETURN several
 *      times in succession, for at most QUEUE_KEPT_WRITES_MAX writes and QUEUE_KEPT_MAX. If it does
 *      not return, the next process takes the turn away from it after two looks, QUEUE_LOOK apart.
 *   6. A process joins the queue when it first finds the database busy. A process that never does
 *      creates no file, and a turn that nobody else waits for costs no system call.
 *
 * The file may be removed at any time. Processes that have it open then queue apart from those that
 * create a new one. Like SQLite's own FILE-shm, it must not be truncated while it is in use: the
 * kernel ends a process that uses a mapped page that is gone (SIGBUS). */
#ifndef STORE_SQLITE_QUEUE_H
#define STORE_SQLITE_QUEUE_H

#include "base/moment.h"
#include "env/env.h"

#include <stdbool.h>
#include <stdint.h>

#define WRITE_QUEUE_ENDING "-writers"

#define QUEUE_WAIT_SLICES 5
#define QUEUE_SLICE_MS    10
#define QUEUE_WAIT        SPAN_MS(QUEUE_WAIT_SLICES *QUEUE_SLICE_MS)

struct queue_page;

/* A turn may be kept for this many writes, and for this long; for less if many processes wait, so
 * that each of them has its turn within half of QUEUE_WAIT. */
#define QUEUE_KEPT_WRITES_MAX 32
#define QUEUE_KEPT_MAX        SPAN_MS(2)

/* Used by one task at a time: the one that leads the writes of its process. */
struct write_queue {
    struct env *env;
    const char *database;    /* its path; must stay valid */
    struct queue_page *page; /* NULL: not joined */
    int fd;                  /* of the file; holds the lock on our seat */
    uint32_t seat;
    uint32_t number;
    bool queued;   /* `number` was drawn and its turn has not ended */
    bool unusable; /* there can be no queue here */
    struct {
        bool now;               /* our turn is kept between two writes */
        uint32_t writes;        /* so many writes in this turn ... */
        struct mono_time since; /* ... which began then */
        uint32_t returns;       /* how often in succession this process returned soon ... */
        struct mono_time ended; /* ... after its last write, which ended then */
    } kept;
};

/* Touches no file. */
void write_queue_init(struct write_queue *queue, struct env *env, const char *database);
void write_queue_release(struct write_queue *queue);

/* Waits for our turn if this process has joined the queue, at most QUEUE_WAIT. */
void write_queue_enter(struct write_queue *queue);

/* The database is busy. Joins the queue if necessary, and waits for our turn, at most QUEUE_WAIT.
 * Returns false immediately if it is our turn already or if there is no queue. The caller must then
 * wait in another way. */
bool write_queue_wait(struct write_queue *queue);

/* Ends our turn, or gives up our place. */
void write_queue_leave(struct write_queue *queue);

#endif
