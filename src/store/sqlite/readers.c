/* SPDX-License-Identifier: Apache-2.0 */
/* readers.c: lends connections for reading. Their number is bounded, and a task waits for a
 * free one only until its deadline. */
#include "store/sqlite/readers.h"

void sqlite_readers_init(struct sqlite_readers *readers, const struct sqlite_database *database,
                         struct sqlite_writer *writer)
{
    *readers = (struct sqlite_readers){ .database = database, .writer = writer };
    env_mutex_init(database->env, &readers->mutex);
    env_cond_init(database->env, &readers->freed);
}

void sqlite_readers_close_all(struct sqlite_readers *readers)
{
    for (size_t i = 0; i < readers->idle_count; i++)
        sqlite_connection_close(&readers->idle[i]);
}

void sqlite_readers_release(struct sqlite_readers *readers)
{
    env_cond_release(&readers->freed);
    env_mutex_release(&readers->mutex);
}

enum hf_status sqlite_reader_take(struct sqlite_readers *readers, struct mono_time deadline,
                                  struct sqlite_connection *ret_reader, struct hf_error *error)
{
    bool in_time = true;
    env_mutex_lock(&readers->mutex);
    while (in_time && readers->idle_count == 0 && readers->open_count == READERS_MAX)
        in_time = env_cond_wait_until(&readers->freed, &readers->mutex, deadline);
    bool idle = readers->idle_count > 0;
    bool fresh = !idle && readers->open_count < READERS_MAX;
    if (idle)
        *ret_reader = readers->idle[--readers->idle_count];
    readers->open_count += fresh;
    env_mutex_unlock(&readers->mutex);
    if (!idle && !fresh)
        return error_set(error, HF_UNAVAILABLE, "all readers of the database are busy");
    if (idle || sqlite_connection_open(readers->database, deadline, ret_reader, error) == HF_OK)
        return HF_OK;
    env_mutex_lock(&readers->mutex);
    readers->open_count--;
    env_cond_signal(&readers->freed);
    env_mutex_unlock(&readers->mutex);
    return error->status;
}

bool sqlite_readers_lend(struct sqlite_readers *readers,
                         struct sqlite_connection *ret_connection)
{
    env_mutex_lock(&readers->mutex);
    /* Once a reader is open, there is nothing to save by borrowing the write connection. */
    bool lend = readers->open_count == 0 && readers->lent_count < READS_LENT_MAX;
    readers->lent_count += lend;
    env_mutex_unlock(&readers->mutex);
    return lend && sqlite_writer_lend(readers->writer, ret_connection);
}

void sqlite_reader_give_back(struct sqlite_readers *readers,
                             const struct sqlite_connection *reader)
{
    env_mutex_lock(&readers->mutex);
    readers->idle[readers->idle_count++] = *reader;
    env_cond_signal(&readers->freed);
    env_mutex_unlock(&readers->mutex);
}
