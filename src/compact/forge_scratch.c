/* forge_scratch.c: folders of workers on a local disk. Who is killed leaves its folder, and a
 * lock that the kernel has taken back: by that the next one knows. */
#include "compact/forge_scratch.h"

#include "base/parse.h"
#include "base/view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SCRATCH_NAME   "holdfast-scratch-"
#define SCRATCH_DIGITS 16
#define SCRATCH_LOCK   "lock"
#define SCRATCH_TRIES  16

/* Folders of the dead that are removed at one start. */
#define STALE_MAX 256

/* Descriptors that a removal may use. */
#define REMOVE_DEPTH 8

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    (void)remove(path); /* what cannot be removed now is the next one's */
    return 0;
}

void scratch_remove(const char *path)
{
    (void)nftw(path, remove_entry, REMOVE_DEPTH, FTW_DEPTH | FTW_PHYS);
}

struct scratch_room scratch_room(const char *path)
{
    struct statvfs info;
    if (statvfs(path, &info) != 0)
        return (struct scratch_room){ 0, 0 };
    return (struct scratch_room){ (uint64_t)info.f_bavail * info.f_frsize,
                                  (uint64_t)info.f_blocks * info.f_frsize };
}

/* False when it does not fit. */
static bool join(char to[PATH_MAX], const char *folder, const char *name)
{
    int size = snprintf(to, PATH_MAX, "%s/%s", folder, name);
    return size > 0 && size < PATH_MAX;
}

/* One that has no lock yet may be just being made: it is removed only if it is empty, and its
 * maker tries another name. */
static void remove_if_stale(const char *folder)
{
    char path[PATH_MAX];
    if (!join(path, folder, SCRATCH_LOCK))
        return;
    int lock = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0) {
        if (errno == ENOENT)
            (void)rmdir(folder);
        return;
    }
    if (flock(lock, LOCK_EX | LOCK_NB) == 0)
        scratch_remove(folder);
    close(lock);
}

/* Whether a worker has named it, and nobody else. */
static bool is_ours(struct view name)
{
    struct view digits = view_from(name, sizeof SCRATCH_NAME - 1);
    bool good = view_starts_with(name, VIEW(SCRATCH_NAME)) && digits.size == SCRATCH_DIGITS;
    for (size_t i = 0; i < digits.size && good; i++)
        good = hex_digit(digits.data[i]) >= 0;
    return good;
}

static void remove_stale(const char *parent)
{
    char path[PATH_MAX];
    DIR *folder = opendir(parent);
    if (!folder)
        return;
    struct dirent *entry;
    for (int i = 0; i < STALE_MAX && (entry = readdir(folder)) != NULL;) {
        if (!is_ours(view_of(entry->d_name)))
            continue;
        i++;
        if (join(path, parent, entry->d_name))
            remove_if_stale(path);
    }
    closedir(folder);
}

/* True when the folder is ours: locked, and not removed by somebody before it was. */
static bool claim(struct scratch *scratch)
{
    char path[PATH_MAX];
    struct stat info;
    if (!join(path, scratch->path, SCRATCH_LOCK))
        return false;
    scratch->lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (scratch->lock < 0)
        return false;
    if (flock(scratch->lock, LOCK_EX | LOCK_NB) == 0 && fstat(scratch->lock, &info) == 0 &&
        info.st_nlink > 0)
        return true;
    close(scratch->lock);
    scratch->lock = -1;
    errno = ENOENT; /* somebody took it for one of the dead */
    return false;
}

enum hf_status scratch_open(struct scratch *scratch, struct env *env, const char *parent,
                            struct hf_error *error)
{
    char name[sizeof SCRATCH_NAME + SCRATCH_DIGITS];
    remove_stale(parent);
    memcpy(name, SCRATCH_NAME, sizeof SCRATCH_NAME);
    for (int i = 0; i < SCRATCH_TRIES; i++) {
        env_random_hex(env, SCRATCH_DIGITS, name + sizeof SCRATCH_NAME - 1);
        if (!join(scratch->path, parent, name))
            return error_set(error, HF_INVALID, "the path of the scratch folder is too long");
        if (mkdir(scratch->path, 0700) == 0 && claim(scratch))
            return HF_OK;
        if (errno != EEXIST && errno != ENOENT && errno != EWOULDBLOCK)
            break;
    }
    error_from_errno(error, errno, "make a scratch folder");
    error_about(error, parent);
    return error->status;
}

void scratch_close(struct scratch *scratch)
{
    scratch_remove(scratch->path);
    close(scratch->lock);
    scratch->lock = -1;
}
