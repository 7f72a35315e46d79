/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: the write-ahead log of an sqlite store (log.h). It guards against an answer that depends
 * on a commit that a power loss would undo, and against a log whose name is lost. In doubt, it
 * syncs. */
#include "store/sqlite/log.h"

#include "base/hash.h"
#include "store/sqlite/log_file.h"
#include "store/toolkit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MARK_NAME  "user.holdfast"
#define MARK_BYTES 34 /* two numbers, with a byte between them and a NUL */

static void log_path(const struct sqlite_log *log, char path[LOG_PATH_ROOM])
{
    snprintf(path, LOG_PATH_ROOM, "%s" LOG_ENDING, log->database);
}

/* ---- The mark ------------------------------------------------------------------------ */

/* The mark that the file must have. False if there is no file. */
static bool make_mark(const char *path, char mark[MARK_BYTES])
{
    struct stat file;
    if (lstat(path, &file) != 0)
        return false;
    snprintf(mark, MARK_BYTES, "%016" PRIx64 "-%016" PRIx64, (uint64_t)file.st_ino,
             hash_xxh3(view_of(path)));
    return true;
}

static bool is_marked(const char *path)
{
    char mark[MARK_BYTES], found[MARK_BYTES];
    return lgetxattr(path, MARK_NAME, found, sizeof found) == MARK_BYTES - 1 &&
           make_mark(path, mark) && memcmp(mark, found, MARK_BYTES - 1) == 0;
}

static bool sync_folder_above(const char *path)
{
    char copy[LOG_PATH_ROOM];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return synced;
}

/* SQLite has just synced the directory, but does not report whether that failed. */
static void mark_log(const struct sqlite_log *log)
{
    char path[LOG_PATH_ROOM], mark[MARK_BYTES];
    log_path(log, path);
    if (make_mark(path, mark) && sync_folder_above(path))
        (void)lsetxattr(path, MARK_NAME, mark, MARK_BYTES - 1, /* flags */ 0);
}

/* ---- Opening ------------------------------------------------------------------------- */

/* SQLite's default VFS, except for how a log is opened. Each store registers its own, so that none
 * is left when the last store is closed. */
struct log_vfs {
    sqlite3_vfs base;
    sqlite3_vfs *usual;
    struct sqlite_log *log;
    char name[32];
};

/* A log without a mark is opened as SQLite asks: created if necessary, and its directory synced. */
static int open_with_mark(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                          int *ret_flags)
{
    struct log_vfs *own = (struct log_vfs *)(void *)vfs;
    if (!(flags & SQLITE_OPEN_WAL) || !own->log->durable)
        return own->usual->xOpen(own->usual, name, file, flags, ret_flags);
    if (is_marked(name)) {
        int code =
            log_file_open(own->usual, name, file, flags & ~SQLITE_OPEN_CREATE, ret_flags);
        atomic_store(&own->log->named, code == SQLITE_OK);
        if (code == SQLITE_OK)
            return code;
    }
    return log_file_open(own->usual, name, file, flags, ret_flags);
}

static struct log_vfs *log_vfs_new(struct sqlite_log *log)
{
    struct log_vfs *own = sqlite3_initialize() == SQLITE_OK ? malloc(sizeof *own) : NULL;
    if (!own)
        return NULL;
    own->usual = sqlite3_vfs_find(NULL);
    own->log = log;
    own->base = *own->usual;
    snprintf(own->name, sizeof own->name, "holdfast-%" PRIxPTR, (uintptr_t)own);
    own->base.zName = own->name;
    own->base.szOsFile += (int)log_file_extra();
    own->base.xOpen = open_with_mark;
    if (sqlite3_vfs_register(&own->base, /* as default */ 0) == SQLITE_OK)
        return own;
    free(own);
    return NULL;
}

bool sqlite_log_init(struct sqlite_log *log, const char *database, bool durable)
{
    *log = (struct sqlite_log){ .database = database, .durable = durable };
    atomic_init(&log->unsettled, durable);
    atomic_init(&log->named, !durable);
    log->vfs = log_vfs_new(log);
    return log->vfs != NULL;
}

void sqlite_log_release(struct sqlite_log *log, bool forked)
{
    if (forked)
        return;
    sqlite3_vfs_unregister(&log->vfs->base);
    free(log->vfs);
}

const char *sqlite_log_vfs(const struct sqlite_log *log)
{
    return log->vfs->name;
}

/* ---- Commits ------------------------------------------------------------------------- */

/* SQLite holds no lock on the file, so closing this descriptor drops none. As in SQLite, the times
 * of the file need not be durable. If there is no log, it has been checkpointed, which syncs it. */
enum hf_status sqlite_log_settle(struct sqlite_log *log, struct hf_error *error)
{
    char path[LOG_PATH_ROOM];
    if (!atomic_load(&log->unsettled))
        return HF_OK;
    log_path(log, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return error_from_errno(error, errno, "open the log to sync it");
    int failed = fd >= 0 && fdatasync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (failed)
        return error_from_errno(error, failed, "sync the log");
    atomic_store(&log->unsettled, false);
    return HF_OK;
}

void sqlite_log_committed(struct sqlite_log *log)
{
    if (!log->durable)
        return;
    atomic_store(&log->unsettled, false);
    if (!atomic_exchange(&log->named, true))
        mark_log(log);
}
