/* SPDX-License-Identifier: Apache-2.0 */
/* temp.c: files of a `dir:` store that have no name yet, and the removal of files that dead writers
 * left behind. A lock per open store distinguishes the two, so a sweep never removes a file in
 * use. */
#include "store/dir/temp.h"
#include "store/stream.h"

#include "base/check.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define TEMP_DIRECTORY "%tmp"

/* Ids have 48 random bits, so it is unlikely that an id is in use. If four in a row are, a process
 * has locked the whole file. */
#define ID_BYTES     6
#define ID_TRIES_MAX 4

/* How many entries one sweep visits; the next sweep continues. */
#define SWEEP_DIRECTORIES_MAX 1024
#define SWEEP_FILES_MAX       65536

void dir_temp_init(struct dir_temp *temp, struct dir_locks *locks)
{
    *temp = (struct dir_temp){ .locks = locks };
    temp->own.fd = -1;
    env_mutex_init(locks->env, &temp->own.mutex);
}

void dir_temp_release(struct dir_temp *temp, bool forked)
{
    if (temp->own.fd >= 0) {
        close(temp->own.fd);
        int root = temp->locks->root;
        int all = forked ? -1 : dir_open_beneath(root, TEMP_DIRECTORY, O_RDONLY | O_DIRECTORY);
        if (all >= 0) {
            unlinkat(all, temp->own.name, AT_REMOVEDIR);
            close(all);
        }
        if (forked)
            close(temp->own.alive.fd); /* the parent still owns the lock */
        else
            dir_lock_drop(temp->locks, &temp->own.alive);
    }
    env_mutex_release(&temp->own.mutex);
}

static int64_t alive_at(uint64_t id)
{
    return DIR_LOCK_ALIVE + (int64_t)id;
}

/* ---- The directory of this store ----------------------------------------------------- */

/* Generates an id, locks its byte and only then creates the directory. So a sweep never finds the
 * directory of a live store with a free byte. */
static enum hf_status make_own_locked(struct dir_temp *temp, int all, struct hf_error *error)
{
    for (int tries = 0; tries < ID_TRIES_MAX; tries++) {
        uint64_t id = env_random_u64(temp->locks->env) >> (64 - 8 * ID_BYTES);
        if (!dir_lock_try(temp->locks, alive_at(id), DIR_LOCK_EXCLUSIVE, &temp->own.alive))
            continue;
        snprintf(temp->own.name, sizeof temp->own.name, "%012" PRIx64, id);
        if (mkdirat(all, temp->own.name, 0777) == 0)
            temp->own.fd = dir_open_beneath(all, temp->own.name, O_RDONLY | O_DIRECTORY);
        if (temp->own.fd >= 0)
            return HF_OK;
        int failed = errno;
        dir_lock_drop(temp->locks, &temp->own.alive);
        if (failed != EEXIST)
            return error_from_errno(error, failed, "create a folder for temporary files");
    }
    return error_set(error, HF_UNAVAILABLE,
                     "cannot lock a byte of '%s': the file system does not support locks, or "
                     "another process has locked the whole file",
                     DIR_LOCK_FILE);
}

static enum hf_status prepare_own_locked(struct dir_temp *temp, struct hf_error *error)
{
    if (temp->own.fd >= 0)
        return HF_OK;
    int root = temp->locks->root;
    if (!temp->locks->writable)
        return dir_not_writable(temp->locks, error);
    if (mkdirat(root, TEMP_DIRECTORY, 0777) != 0 && errno != EEXIST)
        return error_from_errno(error, errno, "create the folder for temporary files");
    int all = dir_open_beneath(root, TEMP_DIRECTORY, O_RDONLY | O_DIRECTORY);
    if (all < 0)
        return error_from_errno(error, errno, "open the folder for temporary files");
    enum hf_status status = make_own_locked(temp, all, error);
    close(all);
    return status;
}

/* ---- Files --------------------------------------------------------------------------- */

enum hf_status dir_temp_make(struct dir_temp *temp, int given, struct dir_new *ret_new,
                             bool *ret_is_given, struct hf_error *error)
{
    env_mutex_lock(&temp->own.mutex);
    enum hf_status status = prepare_own_locked(temp, error);
    ret_new->directory = temp->own.fd;
    env_mutex_unlock(&temp->own.mutex);
    if (status != HF_OK)
        return status;
    env_random(temp->locks->env, ret_new->random, sizeof ret_new->random);
    hex_encode(ret_new->random, sizeof ret_new->random, ret_new->name);
    *ret_is_given = given >= 0 && file_link(given, ret_new->directory, ret_new->name);
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    ret_new->fd = openat(ret_new->directory, ret_new->name,
                         *ret_is_given ? flags : flags | O_CREAT | O_EXCL, 0666);
    if (ret_new->fd < 0)
        return error_from_errno(error, errno == ENOENT ? EIO : errno,
                                "create a temporary file");
    return HF_OK;
}

/* On some file systems, swapping two names and removing the old file later is much faster than
 * renaming over it. If renameat2 does not support these flags, the older calls have the same
 * effect. */
int dir_new_place(struct dir_new *file, int parent, const char *name, bool replace)
{
    unsigned flags = replace ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (renameat2(file->directory, file->name, parent, name, flags) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (replace)
        return renameat(file->directory, file->name, parent, name);
    return linkat(file->directory, file->name, parent, name, 0);
}

void dir_new_release(struct dir_new *file, bool keep)
{
    close(file->fd);
    if (!keep)
        unlinkat(file->directory, file->name, 0);
}

/* ---- Files of dead writers ----------------------------------------------------------- */

static bool parse_id(const char *name, uint64_t *ret_id)
{
    uint64_t id = 0;
    size_t size = strlen(name);
    for (size_t i = 0; i < size; i++) {
        int digit = hex_digit(name[i]);
        if (digit < 0)
            return false;
        id = id << 4 | (uint64_t)digit;
    }
    *ret_id = id;
    return size == 2 * ID_BYTES;
}

/* A stream over a directory below `at`, or NULL. */
static DIR *open_folder_stream(int at, const char *name)
{
    int fd = dir_open_beneath(at, name, O_RDONLY | O_DIRECTORY);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !stream)
        close(fd);
    return stream;
}

static void remove_directory(int all, const char *name)
{
    DIR *stream = open_folder_stream(all, name);
    if (!stream)
        return;
    struct dirent *entry;
    int seen = 0;
    while (seen++ < SWEEP_FILES_MAX && (entry = readdir(stream)))
        unlinkat(dirfd(stream), entry->d_name, 0);
    closedir(stream);
    unlinkat(all, name, AT_REMOVEDIR);
}

void dir_temp_sweep(struct dir_temp *temp)
{
    DIR *stream =
        temp->locks->writable ? open_folder_stream(temp->locks->root, TEMP_DIRECTORY) : NULL;
    if (!stream)
        return;
    struct dirent *entry;
    int seen = 0;
    while (seen++ < SWEEP_DIRECTORIES_MAX && (entry = readdir(stream))) {
        uint64_t id;
        struct dir_lock alive;
        if (!parse_id(entry->d_name, &id) ||
            !dir_lock_try(temp->locks, alive_at(id), DIR_LOCK_EXCLUSIVE, &alive))
            continue;
        remove_directory(dirfd(stream), entry->d_name);
        dir_lock_drop(temp->locks, &alive);
    }
    closedir(stream);
}
