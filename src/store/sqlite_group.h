/* sqlite_group.h: the writing side of an sqlite store: puts and deletes of many tasks,
 * committed together.
 *
 * A durable commit costs a sync of the disk, whatever it holds. So tasks queue their writes,
 * and one of them leads: it begins a transaction, runs what is queued and what comes in
 * meanwhile, commits, and answers each. While it waits for the disk, the next group gathers.
 * There is one connection that writes, and only the leader uses it.
 *
 * Each write is judged by itself, in the order of the queue, and is answered only after COMMIT.
 * If a group cannot be committed as a whole (a full disk, say), its writes are tried one by
 * one, so that one that fails does not spoil the others.
 *
 * Writes come in through a list that needs no mutex, since the leader looks there inside its
 * transaction, where it may make no call of env. Only the leader takes them out. */
#ifndef STORE_SQLITE_GROUP_H
#define STORE_SQLITE_GROUP_H

#include "store/sqlite_db.h"

#include <stdatomic.h>

/* One put or delete. */
struct sqlite_write {
    /* asked */
    bool is_delete;
    struct view key;
    struct view body; /* of a put whose file has no name */
    uint64_t size;
    const char *file; /* of a put: NULL, or the name of the file that holds the body */
    const struct condition *condition;
    /* answered */
    struct error *error;
    struct etag etag;
    char replaced[LARGE_NAME_SIZE]; /* when OK: the file that no row names any more, or empty */
};

/* Writes of one call: they go into one transaction, perhaps with others. */
struct sqlite_batch {
    struct sqlite_write *writes;
    size_t count;
    struct mono_time deadline;
    /* the queue's */
    struct sqlite_batch *next;
    struct env_cond wake; /* done, or the turn to lead has come */
    bool done;
};

struct sqlite_batches {
    struct sqlite_batch *first;
    struct sqlite_batch *last;
    size_t count;
};

struct sqlite_writer {
    const struct sqlite_database *database;
    _Atomic(struct sqlite_batch *) arrived; /* the latest first */
    atomic_size_t arrived_count;
    struct {
        struct env_mutex mutex;     /* guards what stands beside it, and `done` of batches */
        struct sqlite_batches done; /* their tasks have not left yet */
        struct sqlite_batch *gathering; /* the leader's, while it waits for more to arrive */
        size_t wanted;                  /* so many */
        bool led;                       /* a task is leading, and has what follows to itself */
    } queue;
    struct sqlite_connection connection;
    struct sqlite_batches waiting; /* arrived before, in order */
    struct wall_time modified;     /* of the group under way */
    struct span group_took;        /* the last one */
    size_t crowd;                  /* tasks that were writing when it was done */
    char etag_prefix[17];
    uint64_t etag_count;
    int wal_pages;
    int checkpoint_at; /* when the WAL has that many pages */
};

/* Takes the connection over. */
void sqlite_writer_init(struct sqlite_writer *writer, const struct sqlite_database *database,
                        const struct sqlite_connection *connection);
void sqlite_writer_release(struct sqlite_writer *writer);

/* Runs a batch and returns when each of its writes is answered: OK, CONFLICT, NOT_FOUND,
 * UNAVAILABLE, DENIED, CORRUPT, or UNSURE. */
void sqlite_writer_submit(struct sqlite_writer *writer, struct sqlite_batch *batch);

#endif
