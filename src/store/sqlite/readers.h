/* readers.h: the connections by which one open sqlite store reads: a few, opened when wanted.
 *
 * The first short reads do without. To open a connection takes longer than all else that a
 * short-lived program does with the store, so they go by the connection that writes, if nobody
 * writes at that moment. */
#ifndef STORE_SQLITE_READERS_H
#define STORE_SQLITE_READERS_H

#include "store/sqlite/group.h"

#define READERS_MAX    8
#define READS_LENT_MAX 4

struct sqlite_readers {
    const struct sqlite_database *database;
    struct sqlite_writer *writer;
    struct env_mutex mutex; /* guards what follows */
    struct env_cond freed;
    struct sqlite_connection idle[READERS_MAX];
    size_t idle_count;
    size_t open_count;
    size_t lent_count; /* reads by the connection that writes, so far */
};

void sqlite_readers_init(struct sqlite_readers *readers, const struct sqlite_database *database,
                         struct sqlite_writer *writer);

/* All must have been given back. Not in a forked child, which may not touch them. */
void sqlite_readers_close_all(struct sqlite_readers *readers);
void sqlite_readers_release(struct sqlite_readers *readers);

/* A connection to read by. UNAVAILABLE when all are busy until the deadline. */
enum hf_status sqlite_reader_take(struct sqlite_readers *readers, struct mono_time deadline,
                                  struct sqlite_connection *ret_reader, struct hf_error *error);

/* The same for a read that is soon over: writes may have to wait for it. */
enum hf_status sqlite_reader_take_briefly(struct sqlite_readers *readers,
                                          struct mono_time deadline,
                                          struct sqlite_connection *ret_reader,
                                          struct hf_error *error);

void sqlite_reader_give_back(struct sqlite_readers *readers,
                             const struct sqlite_connection *reader);

#endif
