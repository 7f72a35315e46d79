/* SPDX-License-Identifier: Apache-2.0 */
/* log_file.c: keeps what SQLite writes to its log during a commit, and writes it at once when the
 * log is synced (log_file.h). It guards against bytes that are written after the commit has
 * ended. */
#include "store/sqlite/log_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The maximum that is kept: 31 pages of 4 KiB with their headers. A larger commit is written in
 * pieces of this size. */
#define KEPT_MAX ((size_t)31 * (4096 + 24))

/* SQLite's own file follows in memory. */
struct log_file {
    sqlite3_file base;
    bool gathers;
    char *kept; /* KEPT_MAX bytes, or NULL if they were never needed */
    size_t size;
    sqlite3_int64 offset; /* of the kept bytes */
};

size_t log_file_extra(void)
{
    return sizeof(struct log_file);
}

static struct log_file *log_file_of(sqlite3_file *file)
{
    return (struct log_file *)(void *)file;
}

static sqlite3_file *usual_of(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)(log_file_of(file) + 1);
}

/* ---- Keeping bytes --------------------------------------------------------------------- */

static int write_kept(sqlite3_file *file)
{
    struct log_file *log = log_file_of(file);
    sqlite3_file *usual = usual_of(file);
    int size = (int)log->size;
    log->size = 0;
    return size > 0 ? usual->pMethods->xWrite(usual, log->kept, size, log->offset) : SQLITE_OK;
}

static int gathering_write(sqlite3_file *file, const void *bytes, int size,
                           sqlite3_int64 offset)
{
    struct log_file *log = log_file_of(file);
    sqlite3_file *usual = usual_of(file);
    bool follows = offset == log->offset + (sqlite3_int64)log->size;
    int code = SQLITE_OK;
    if (log->size > 0 && (!follows || log->size + (size_t)size > KEPT_MAX))
        code = write_kept(file);
    if (code != SQLITE_OK)
        return code;
    if (!log->gathers || (size_t)size > KEPT_MAX)
        return usual->pMethods->xWrite(usual, bytes, size, offset);
    if (log->size == 0)
        log->offset = offset;
    memcpy(log->kept + log->size, bytes, (size_t)size);
    log->size += (size_t)size;
    return SQLITE_OK;
}

static int gathering_sync(sqlite3_file *file, int flags)
{
    int code = write_kept(file);
    return code == SQLITE_OK ? usual_of(file)->pMethods->xSync(usual_of(file), flags) : code;
}

/* ---- Everything else sees what was kept ------------------------------------------------ */

static int gathering_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset)
{
    int code = write_kept(file);
    return code == SQLITE_OK
               ? usual_of(file)->pMethods->xRead(usual_of(file), bytes, size, offset)
               : code;
}

static int gathering_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = write_kept(file);
    return code == SQLITE_OK ? usual_of(file)->pMethods->xTruncate(usual_of(file), size) : code;
}

static int gathering_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    int code = write_kept(file);
    return code == SQLITE_OK ? usual_of(file)->pMethods->xFileSize(usual_of(file), ret_size)
                             : code;
}

static int gathering_close(sqlite3_file *file)
{
    free(log_file_of(file)->kept);
    return usual_of(file)->pMethods->xClose(usual_of(file));
}

static int gathering_lock(sqlite3_file *file, int level)
{
    return usual_of(file)->pMethods->xLock(usual_of(file), level);
}

static int gathering_unlock(sqlite3_file *file, int level)
{
    return usual_of(file)->pMethods->xUnlock(usual_of(file), level);
}

static int gathering_check_lock(sqlite3_file *file, int *ret_reserved)
{
    return usual_of(file)->pMethods->xCheckReservedLock(usual_of(file), ret_reserved);
}

static int gathering_control(sqlite3_file *file, int what, void *argument)
{
    return usual_of(file)->pMethods->xFileControl(usual_of(file), what, argument);
}

static int gathering_sector(sqlite3_file *file)
{
    return usual_of(file)->pMethods->xSectorSize(usual_of(file));
}

static int gathering_traits(sqlite3_file *file)
{
    return usual_of(file)->pMethods->xDeviceCharacteristics(usual_of(file));
}

/* Version 1: SQLite maps no part of a log into memory. */
static const sqlite3_io_methods gathering_methods = {
    .iVersion = 1,
    .xClose = gathering_close,
    .xRead = gathering_read,
    .xWrite = gathering_write,
    .xTruncate = gathering_truncate,
    .xSync = gathering_sync,
    .xFileSize = gathering_size,
    .xLock = gathering_lock,
    .xUnlock = gathering_unlock,
    .xCheckReservedLock = gathering_check_lock,
    .xFileControl = gathering_control,
    .xSectorSize = gathering_sector,
    .xDeviceCharacteristics = gathering_traits,
};

int log_file_open(sqlite3_vfs *usual, const char *name, sqlite3_file *file, int flags,
                  int *ret_flags)
{
    *log_file_of(file) = (struct log_file){ .kept = NULL };
    int code = usual->xOpen(usual, name, usual_of(file), flags, ret_flags);
    /* If a failed open has set the methods, SQLite closes the file. */
    file->pMethods = usual_of(file)->pMethods ? &gathering_methods : NULL;
    return code;
}

/* ---- A commit -------------------------------------------------------------------------- */

/* NULL: the connection has no log, or one of another VFS. */
static struct log_file *find_log(sqlite3 *handle)
{
    sqlite3_file *file = NULL;
    if (sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK)
        return NULL;
    return file && file->pMethods == &gathering_methods ? log_file_of(file) : NULL;
}

bool log_file_is_open(sqlite3 *handle)
{
    return find_log(handle) != NULL;
}

void log_file_gather(sqlite3 *handle)
{
    struct log_file *log = find_log(handle);
    if (log && !log->kept)
        log->kept = malloc(KEPT_MAX);
    if (log)
        log->gathers = log->kept != NULL;
}

bool log_file_gathered(sqlite3 *handle)
{
    struct log_file *log = find_log(handle);
    bool whole = !log || log->size == 0;
    if (log) {
        log->gathers = false;
        log->size = 0;
    }
    return whole;
}
