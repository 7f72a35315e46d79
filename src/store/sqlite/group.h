/* group.h: the writing side of an sqlite store: puts and deletes of many tasks,
 * committed together.
 *
 * A durable commit costs a sync of the disk, whatever it holds. So tasks queue their writes,
 * and one of them leads: it begins a transaction, runs what is queued and what comes in
 * meanwhile, commits, and answers each. While it waits for the disk, the next group gathers.
 * There is one connection that writes, and only the leader uses it.
 *
 * Each write is judged by itself, in the order of the queue, and is answered only after COMMIT.
 * A change shows its caller what is there; that must be what has been committed, so one that
 * meets what its own group has written begins the next group.
 * If a group cannot be committed as a whole (a full disk, say), its writes are tried one by
 * one, so that one that fails does not spoil the others.
 *
 * Batches arrive in a list that needs no mutex, since the leader looks there inside its
 * transaction, where it may make no call of env. Only the leader takes them out. Every batch has
 * a mutex and a condition of its own to wait by, and those who are answered tell it on from one
 * to the next: the leader, on whom all others wait, tells only the first. */
#ifndef STORE_SQLITE_GROUP_H
#define STORE_SQLITE_GROUP_H

#include "store/bell.h"
#include "store/sqlite/db.h"

#include <stdatomic.h>

/* One put or delete. */
struct sqlite_write {
    /* asked */
    bool is_delete;
    bool quiet; /* nobody need hear of it */
    struct view key;
    struct view body; /* of a put whose file has no name */
    uint64_t size;
    const char *file; /* of a put: NULL, or the name of the file that holds the body */
    const struct condition *condition;
    struct change_call *change; /* or this: what is written is decided inside */
    /* answered */
    struct hf_error *error;
    struct etag etag;
    bool put_off; /* a change of what its own transaction wrote: for the next one */
    char replaced[LARGE_NAME_SIZE]; /* when OK: the file that no row names any more, or empty */
};

enum sqlite_news { NEWS_NONE, NEWS_LEAD, NEWS_DONE };

/* Writes of one call: they go into one transaction, perhaps with others. */
struct sqlite_batch {
    struct sqlite_write *writes;
    size_t count;
    struct mono_time deadline;
    /* the queue's */
    struct sqlite_batch *next; /* when done: who is to be told next */
    struct env_mutex mutex;    /* guards the news */
    struct env_cond told;
    enum sqlite_news news;
};

struct sqlite_batches {
    struct sqlite_batch *first;
    struct sqlite_batch *last;
    size_t count;
};

struct sqlite_writer {
    const struct sqlite_database *database;
    const struct bell *bell;
    _Atomic(struct sqlite_batch *) arrived; /* the latest first */
    atomic_size_t arrived_count;
    atomic_size_t wanted; /* not 0: the leader waits until so many have arrived */
    struct env_mutex gather_mutex;
    struct env_cond gathered;
    atomic_bool led; /* a task is leading, and has all that follows to itself */
    struct sqlite_connection connection;
    struct sqlite_batches waiting; /* arrived before, in order */
    struct wall_time modified;     /* of the group under way */
    bool loud;                     /* something in it is to be heard */
    bool removed;                  /* something in it was deleted */
    uint64_t etag_begun;           /* the last one before it */
    struct span group_took;        /* the last one */
    size_t crowd;                  /* tasks that were writing when it was done */
    char etag_prefix[17];
    uint64_t etag_count;
    int wal_pages;
    int checkpoint_at; /* when the WAL has that many pages */
};

/* Takes the connection over. The bell is rung after each commit that changed
 * something, unless all of it was quiet. */
void sqlite_writer_init(struct sqlite_writer *writer, const struct sqlite_database *database,
                        const struct sqlite_connection *connection, const struct bell *bell);
void sqlite_writer_release(struct sqlite_writer *writer);

/* Lends the connection to a reader, unless somebody writes at this moment: false. It sees what is
 * committed. Until it is given back writes wait. */
bool sqlite_writer_lend(struct sqlite_writer *writer, struct sqlite_connection *ret_reader);
void sqlite_writer_take_back(struct sqlite_writer *writer);

/* Runs a batch and returns when each of its writes is answered: OK, CONFLICT, NOT_FOUND,
 * UNAVAILABLE, DENIED, CORRUPT, or UNSURE. */
void sqlite_writer_submit(struct sqlite_writer *writer, struct sqlite_batch *batch);

#endif
