/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: files for the large objects of an sqlite store, and the removal of files that no row
 * names. A lock on each new file keeps the sweep from removing one whose row is about to be
 * committed. */
#include "store/sqlite/files.h"

#include "base/parse.h"
#include "store/stream.h"
#include "store/toolkit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_TRIES_MAX 16
#define RANDOM_BYTES   16

/* A sweep counts at least this many files, if there are so many, and at most so many times more. */
#define REACH_MIN    100000
#define REACH_FACTOR 1000

static_assert(LARGE_NAME_SIZE == 16 + 2 * RANDOM_BYTES + 1, "a name is an id and random bytes");

/* ---- The folder ---------------------------------------------------------------------- */

static enum hf_status sync_folder_of(const char *path, struct hf_error *error)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_from_errno(error, errno, "open the folder above");
    enum hf_status status = HF_OK;
    if (fsync(fd) != 0)
        status = error_from_errno(error, errno, "sync the folder above");
    close(fd);
    return status;
}

enum hf_status folder_make(const char *path, unsigned mode, struct hf_error *error)
{
    if (mkdir(path, (mode_t)mode) == 0)
        return sync_folder_of(path, error);
    if (errno == EEXIST)
        return HF_OK;
    char what[ERROR_PATH_MAX + 24];
    snprintf(what, sizeof what, "create the folder '%.*s'", ERROR_PATH_MAX, path);
    return error_from_errno(error, errno, what);
}

/* Does not follow a link: files that no row names are removed here, and a link may lead to the
 * objects of another store. */
static enum hf_status open_objects_folder(struct large_folder *folder, const char *path,
                                          bool create, struct hf_error *error)
{
    struct stat info;
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = errno;
    if (folder->fd >= 0 || (failed == ENOENT && !create))
        return HF_OK;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return error_set(error, HF_INVALID, "it is a symbolic link, and must be a folder");
    return error_from_errno(error, failed, "open it");
}

enum hf_status large_folder_open(struct large_folder *folder, const char *database_path,
                                 bool create, struct hf_error *error)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s.objects", database_path);
    if (size < 0 || (size_t)size >= sizeof path)
        return error_set(error, HF_INVALID, "the path of the store is too long");
    enum hf_status status = create ? folder_make(path, 0777, error) : HF_OK;
    if (status == HF_OK)
        status = open_objects_folder(folder, path, create, error);
    if (status != HF_OK)
        error_prefix(error, "the folder of large objects, %s", path);
    return status;
}

void large_folder_close(struct large_folder *folder)
{
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = -1;
}

enum hf_status large_folder_sync(const struct large_folder *folder, struct hf_error *error)
{
    if (folder->durable && fsync(folder->fd) != 0)
        return error_from_errno(error, errno, "sync the folder of large objects");
    return HF_OK;
}

/* ---- Files --------------------------------------------------------------------------- */

bool large_name_is_good(struct view name)
{
    if (name.size != LARGE_NAME_SIZE - 1)
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (hex_digit(name.data[i]) < 0)
            return false;
    return true;
}

static bool lock_is_held(int fd)
{
    while (flock(fd, LOCK_EX | LOCK_NB) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

enum hf_status large_file_new(const struct large_folder *folder, int given,
                              struct large_file *ret_file, bool *ret_is_given,
                              struct hf_error *error)
{
    if (folder->fd < 0)
        return error_set(error, HF_DENIED, "the store cannot be written to");
    for (int i = 0; i < NAME_TRIES_MAX; i++) {
        memcpy(ret_file->name, folder->store_id, 16);
        env_random_hex(folder->env, 2 * RANDOM_BYTES, ret_file->name + 16);
        *ret_is_given = given >= 0 && file_link(given, folder->fd, ret_file->name);
        int flags = O_RDWR | O_CLOEXEC;
        int fd = openat(folder->fd, ret_file->name,
                        *ret_is_given ? flags : flags | O_CREAT | O_EXCL, 0666);
        if (fd < 0 && errno == ENOENT)
            return error_set(error, HF_UNAVAILABLE, "the folder of large objects is gone");
        if (fd < 0)
            return error_from_errno(error, errno, "create a file for a large object");
        /* Before the file was locked, a sweep may have mistaken it for an orphan. */
        if (lock_is_held(fd) && file_has_name(fd, folder->fd, ret_file->name)) {
            ret_file->fd = fd;
            return HF_OK;
        }
        close(fd);
    }
    return error_set(error, HF_UNAVAILABLE,
                     "other processes keep removing new files for large objects");
}

enum hf_status large_file_sync(const struct large_folder *folder, const struct large_file *file,
                               struct hf_error *error)
{
    if (folder->durable && fsync(file->fd) != 0)
        return error_from_errno(error, errno, "sync the file of a large object");
    return HF_OK;
}

void large_file_keep(struct large_file *file)
{
    close(file->fd);
    file->fd = -1;
}

void large_file_drop(const struct large_folder *folder, struct large_file *file)
{
    large_name_remove(folder, file->name);
    large_file_keep(file);
}

/* A file that cannot be removed now is left to a later sweep. */
void large_name_remove(const struct large_folder *folder, const char *name)
{
    (void)unlinkat(folder->fd, name, 0);
}

enum hf_status large_file_read(const struct large_folder *folder, const char *name, int *ret_fd,
                               struct hf_error *error)
{
    if (folder->fd < 0)
        return error_set(error, HF_NOT_FOUND, "the folder of large objects is missing");
    int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_from_errno(error, errno, "open the file of a large object");
    *ret_fd = fd;
    return HF_OK;
}

/* ---- The sweep ----------------------------------------------------------------------- */

static bool is_large_entry(const struct large_folder *folder, const struct dirent *entry)
{
    return large_name_is_good(view_of(entry->d_name)) &&
           memcmp(entry->d_name, folder->store_id, 16) == 0;
}

/* Locks the file if it seems to be an orphan. */
static bool lock_orphan(const struct large_folder *folder, const char *name,
                        const struct large_rows *rows, struct large_file *ret_file)
{
    /* Most files have a row. They need not be opened and locked. */
    if (rows->is_named(rows->argument, name))
        return false;
    int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (!lock_is_held(fd)) {
        close(fd);
        return false;
    }
    ret_file->fd = fd;
    memcpy(ret_file->name, name, LARGE_NAME_SIZE);
    return true;
}

/* Looks for each row again: it may have been committed before the file was locked. All files are
 * locked before what cannot be seen is discarded, because a writer may die until then. */
static void drop_orphans(const struct large_folder *folder, struct large_file *orphans,
                         size_t count, const struct large_rows *rows)
{
    bool discarded = count > 0 && rows->discard_unseen(rows->argument);
    for (size_t i = 0; i < count; i++)
        if (discarded && !rows->is_named(rows->argument, orphans[i].name))
            large_file_drop(folder, &orphans[i]);
        else
            large_file_keep(&orphans[i]);
}

/* How many files a sweep counts: at least n times the minimum in one of n sweeps. So most opens are
 * fast, and no file of a large folder is out of reach. */
static uint64_t draw_reach(struct env *env)
{
    return REACH_MIN * (REACH_FACTOR / (1 + env_random_below(env, REACH_FACTOR)));
}

void large_folder_sweep(const struct large_folder *folder, const struct large_rows *rows)
{
    struct large_file orphans[SWEEP_MAX];
    size_t orphan_count = 0;
    int copy = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *walk = copy < 0 ? NULL : fdopendir(copy);
    if (!walk) {
        if (copy >= 0)
            close(copy);
        return;
    }
    const struct dirent *entry;
    uint64_t count = 0, reach = draw_reach(folder->env);
    while (count < reach && (entry = readdir(walk)))
        count += is_large_entry(folder, entry);
    uint64_t start = count > SWEEP_MAX ? env_random_below(folder->env, count) : 0;
    rewinddir(walk);
    uint64_t seen = 0;
    while (seen < count && (entry = readdir(walk))) {
        if (!is_large_entry(folder, entry))
            continue;
        if ((seen + count - start) % count < SWEEP_MAX &&
            lock_orphan(folder, entry->d_name, rows, &orphans[orphan_count]))
            orphan_count++;
        seen++;
    }
    closedir(walk);
    drop_orphans(folder, orphans, orphan_count, rows);
}
