/* SPDX-License-Identifier: Apache-2.0 */
/* readers.h: the connections with which an open sqlite store reads. There are only a few, and they
 * are opened on demand.
 *
 * The first rows are read without them. Opening a connection takes longer than everything else
 * that a short-lived program does with the store, so these reads use the write connection when no
 * write is in progress. */
#ifndef STORE_SQLITE_READERS_H
#define STORE_SQLITE_READERS_H

#include "store/sqlite/group.h"

#define READERS_MAX    8
#define READS_LENT_MAX 4 /* rows */

struct sqlite_readers {
    const struct sqlite_database *database;
    struct sqlite_writer *writer;
    struct env_mutex mutex; /* guards the members below */
    struct env_cond freed;
    struct sqlite_connection idle[READERS_MAX];
    size_t idle_count;
    size_t open_count;
    size_t lent_count; /* reads on the write connection, so far */
};

void sqlite_readers_init(struct sqlite_readers *readers, const struct sqlite_database *database,
                         struct sqlite_writer *writer);

/* All connections must have been given back. Must not be called in a forked child. */
void sqlite_readers_close_all(struct sqlite_readers *readers);
void sqlite_readers_release(struct sqlite_readers *readers);

/* Takes a connection for reading. UNAVAILABLE if all are busy until the deadline. */
enum hf_status sqlite_reader_take(struct sqlite_readers *readers, struct mono_time deadline,
                                  struct sqlite_connection *ret_reader, struct hf_error *error);

/* Lends the write connection for reading one row. Writes wait for it past their deadlines, so its
 * user must not wait itself, and returns it with sqlite_writer_take_back. False if a reader is open
 * or a write is in progress. */
bool sqlite_readers_lend(struct sqlite_readers *readers,
                         struct sqlite_connection *ret_connection);

void sqlite_reader_give_back(struct sqlite_readers *readers,
                             const struct sqlite_connection *reader);

#endif
