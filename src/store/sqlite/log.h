/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: FILE-wal, the write-ahead log of an sqlite store: whether its commits are durable, and
 * whether its name is. Both are facts that SQLite does not keep between two processes. It assumes
 * the worst, which would cost each process two more syncs.
 *
 * 1. Commits. If a writer dies after it has written its commit to the log and before it has synced
 *    the log, the commit becomes visible when the database is opened. It must be durable before
 *    anybody acts on it. So every answer that depends on what the database contains waits for
 *    sqlite_log_settle, which syncs the log unless that has been done since the store was opened.
 *    Our own first commit does it too, because it syncs the same file.
 *
 * 2. The name. SQLite syncs the directory of the log before the first commit of each process,
 *    because that process may have created the log. Once a process has synced the directory, it
 *    marks the log (an extended attribute). SQLite is not told to create a log with a mark, and
 *    does not sync its directory. The mark contains the number of the inode and a hash of the
 *    path, so that it does not count for a copy, or after the store was moved. A log that was
 *    removed takes its mark along. A file system without extended attributes costs the sync. */
#ifndef STORE_SQLITE_LOG_H
#define STORE_SQLITE_LOG_H

#include "base/error.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdatomic.h>

#define LOG_ENDING    "-wal"
#define LOG_PATH_ROOM (PATH_MAX + sizeof LOG_ENDING)

struct log_vfs;

struct sqlite_log {
    const char *database; /* its path; must stay valid */
    struct log_vfs *vfs;
    bool durable;          /* otherwise nothing is synced */
    atomic_bool unsettled; /* it may contain a commit that is not durable */
    atomic_bool named;     /* it has a mark, or cannot get one */
};

/* False: out of memory. */
bool sqlite_log_init(struct sqlite_log *log, const char *database, bool durable);

/* After the last connection is closed. In a forked child, SQLite must not be touched; its VFS is
 * then left where it is. */
void sqlite_log_release(struct sqlite_log *log, bool forked);

/* The name of the VFS that connections must use. */
const char *sqlite_log_vfs(const struct sqlite_log *log);

/* UNAVAILABLE or DENIED: the log could not be synced, and the answer must not be given. */
enum hf_status sqlite_log_settle(struct sqlite_log *log, struct hf_error *error);

/* Call this after a commit that SQLite has written and synced. */
void sqlite_log_committed(struct sqlite_log *log);

#endif
