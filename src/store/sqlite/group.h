/* SPDX-License-Identifier: Apache-2.0 */
/* group.h: the writing side of an sqlite store: puts and deletes by many tasks, committed together.
 *
 * A durable commit takes one disk sync, regardless of how much it contains. So tasks queue their
 * writes, and one of them leads: it begins a transaction, runs the queued writes and those that
 * arrive in the meantime, commits, and answers each of them. While it waits for the disk, the next
 * group gathers. Only one connection writes, and only the leader uses it.
 *
 * Each write has its own condition, checked in the order of the queue, and is answered only after
 * COMMIT. A change (store_change) must show its caller only committed state. If it reads a row that
 * its own group has written, it starts the next group instead. If a group cannot be committed as a
 * whole (on a full disk, for example), its writes are tried one by one, so one bad write does not
 * fail the others.
 *
 * Batches arrive in a lock-free list, because the leader reads it inside its transaction, where
 * it must not call env. Only the leader removes them. Every batch has its own mutex and
 * condition to wait on. The leader, for which all others wait, wakes only the first answered
 * task; each task wakes the next. */
#ifndef STORE_SQLITE_GROUP_H
#define STORE_SQLITE_GROUP_H

#include "store/sqlite/db.h"
#include "store/sqlite/queue.h"
#include "store/write_notify.h"

#include <stdatomic.h>

/* One put or delete. */
struct sqlite_write {
    /* request */
    bool is_delete;
    bool quiet; /* need not wake listeners */
    struct view key;
    struct view body; /* of a put without a file */
    uint64_t size;
    const char *file; /* of a put: the name of the file with the body, or NULL */
    const struct condition *condition;
    struct change_call *change; /* or a change: its callback decides what is written */
    /* result */
    struct hf_error *error;
    struct etag etag;
    bool postponed; /* a change to a row that this transaction wrote: wait for the next */
    char replaced[LARGE_NAME_SIZE]; /* if OK: the file that no row names any more */
};

enum sqlite_news { NEWS_NONE, NEWS_LEAD, NEWS_DONE };

/* The writes of one call. They go into one transaction, perhaps with others. */
struct sqlite_batch {
    struct sqlite_write *writes;
    size_t count;
    bool together; /* changes that all take place, or none */
    struct mono_time deadline;
    /* used by the queue */
    struct sqlite_batch *next; /* when done: the task to wake next */
    struct env_mutex mutex;    /* guards `news` */
    struct env_cond told;
    enum sqlite_news news;
};

struct sqlite_batches {
    struct sqlite_batch *first;
    struct sqlite_batch *last;
    size_t count;
};

struct sqlite_writer {
    struct sqlite_database *database;
    const struct write_notify *notify;
    _Atomic(struct sqlite_batch *) arrived; /* the latest first */
    atomic_size_t arrived_count;
    atomic_size_t wanted; /* not 0: the leader waits until this many have arrived */
    struct env_mutex gather_mutex;
    struct env_cond gathered;
    atomic_bool led; /* a task leads, and owns the members below */
    struct sqlite_connection connection;
    struct write_queue queue;      /* of the processes that write to this database */
    struct sqlite_batches waiting; /* arrived earlier, in order */
    struct wall_time modified;     /* of the current group */
    bool wakes_listeners;          /* a write in it must wake listeners */
    bool removed;                  /* something in it was deleted */
    uint64_t etag_begun;           /* the last ETag count before it */
    struct span group_took;        /* by the last group */
    size_t active_tasks;           /* tasks that were writing when it was done */
    char etag_prefix[17];
    uint64_t etag_count;
    int wal_pages;
    int checkpoint_at; /* when the WAL has this many pages */
};

/* Takes ownership of the connection. Listeners are notified after each commit that changed
 * something, unless all its writes were quiet. */
void sqlite_writer_init(struct sqlite_writer *writer, struct sqlite_database *database,
                        const struct sqlite_connection *connection,
                        const struct write_notify *notify);
void sqlite_writer_release(struct sqlite_writer *writer);

/* Lends the connection to a reader, which sees committed state. False if a write is in progress.
 * Writes wait until the reader gives it back. */
bool sqlite_writer_lend(struct sqlite_writer *writer, struct sqlite_connection *ret_reader);
void sqlite_writer_take_back(struct sqlite_writer *writer);

/* Makes a durable commit that changes nothing. It overwrites, in the log, any commit that a writer
 * could not complete and that would become visible when the log is read from the start (README,
 * "The log of sqlite"). False: the database is busy, or the commit failed. Only while no other task
 * uses the writer. */
bool sqlite_writer_discard_unseen(struct sqlite_writer *writer);

/* Runs a batch and returns when each of its writes is answered: OK, CONFLICT, NOT_FOUND,
 * UNAVAILABLE, DENIED, CORRUPT, or UNSURE. */
void sqlite_writer_submit(struct sqlite_writer *writer, struct sqlite_batch *batch);

#endif
