/* SPDX-License-Identifier: Apache-2.0 */
/* log_file.h: the write-ahead log as SQLite's connections open it. A commit is written to the log
 * with one system call, however many pages it changes.
 *
 * SQLite writes each page, and the header in front of it, with a system call of its own, while it
 * holds the lock for which all other writers wait. Between log_file_gather and log_file_gathered,
 * the bytes are kept in memory until SQLite syncs the log, which it does before it makes a commit
 * visible to others.
 *
 * Nothing may be kept after the lock is released: by then, another process may have written to the
 * same part of the log. So bytes are kept only during a commit that syncs the log. If such a commit
 * fails, what was kept is dropped, and SQLite does not rely on it either. */
#ifndef STORE_SQLITE_LOG_FILE_H
#define STORE_SQLITE_LOG_FILE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

/* What a VFS must add to the size of its files. */
size_t log_file_extra(void);

/* Opens the log with the VFS that does the work. `file` has the room of both. */
int log_file_open(sqlite3_vfs *usual, const char *name, sqlite3_file *file, int flags,
                  int *ret_flags);

/* Whether the connection has a log that was opened so: the database is in WAL mode. */
bool log_file_is_open(sqlite3 *handle);

/* Begins to keep what this connection writes to its log. Its next statement must be a COMMIT, with
 * synchronous = FULL, and log_file_gathered must follow. */
void log_file_gather(sqlite3 *handle);

/* Ends this. False: some of it was not written, and has been dropped; the COMMIT must have
 * failed. */
bool log_file_gathered(sqlite3 *handle);

#endif
