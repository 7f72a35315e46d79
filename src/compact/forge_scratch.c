/* forge_scratch.c: folders of workers on a local disk. A worker that is killed leaves its folder,
 * and a lock that the kernel has taken back: by that the next one knows.
 *
 * The folder above is mostly /tmp, where any user may make a folder of that name, or a link. So one
 * of the dead is removed only if it is a folder that our own user made for itself alone, and by
 * descriptors: a name that is swapped meanwhile leads nowhere. */
#include "compact/forge_scratch.h"

#include "base/parse.h"
#include "base/view.h"
#include "merge/safe_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SCRATCH_LOCK  "lock"
#define SCRATCH_TRIES 16

/* Folders of the dead that are removed at one start, and names that are looked at for them. */
#define STALE_MAX 256
#define NAMES_MAX 1000000

struct scratch_room scratch_room(const char *path)
{
    struct statvfs info;
    if (statvfs(path, &info) != 0)
        return (struct scratch_room){ 0, 0 };
    return (struct scratch_room){ (uint64_t)info.f_bavail * info.f_frsize,
                                  (uint64_t)info.f_blocks * info.f_frsize };
}

/* ---- Those of the dead --------------------------------------------------------------- */

/* Of our user, who let nobody else in. */
static bool is_private(const struct stat *info)
{
    return info->st_uid == geteuid() && (info->st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

static int open_private_folder(int above, const char *name)
{
    struct stat info;
    int folder = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && fstat(folder, &info) == 0 && is_private(&info))
        return folder;
    if (folder >= 0)
        close(folder);
    return -1;
}

/* One that has no lock yet may be just being made: it is removed only if it is empty, and its
 * maker tries another name. */
static void remove_if_stale(int above, const char *name)
{
    int folder = open_private_folder(above, name);
    if (folder < 0)
        return;
    int lock = openat(folder, SCRATCH_LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool unlocked = lock < 0 ? errno == ENOENT : flock(lock, LOCK_EX | LOCK_NB) == 0;
    if (lock >= 0 && unlocked)
        folder_clear(folder);
    if (unlocked)
        (void)unlinkat(above, name, AT_REMOVEDIR);
    if (lock >= 0)
        close(lock);
    close(folder);
}

/* Whether a worker may have named it. */
static bool is_scratch_name(struct view name)
{
    struct view digits = view_from(name, sizeof SCRATCH_NAME - 1);
    bool good = view_starts_with(name, VIEW(SCRATCH_NAME)) && digits.size == SCRATCH_DIGITS;
    for (size_t i = 0; i < digits.size && good; i++)
        good = hex_digit(digits.data[i]) >= 0;
    return good;
}

/* Names of other users cost a look and do not count: they cannot keep ours from being removed. */
static bool is_ours(int above, const char *name)
{
    struct stat info;
    return is_scratch_name(view_of(name)) &&
           fstatat(above, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && is_private(&info);
}

static void remove_stale(int above)
{
    int copy = openat(above, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    if (!entries) {
        if (copy >= 0)
            close(copy);
        return;
    }
    struct dirent *entry;
    for (int i = 0, removed = 0;
         i < NAMES_MAX && removed < STALE_MAX && (entry = readdir(entries)) != NULL; i++)
        if (is_ours(above, entry->d_name)) {
            remove_if_stale(above, entry->d_name);
            removed++;
        }
    closedir(entries);
}

/* ---- Our own ------------------------------------------------------------------------- */

static void close_files(struct scratch *scratch)
{
    int *files[] = { &scratch->lock, &scratch->folder, &scratch->above };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (*files[i] >= 0)
            close(*files[i]);
        *files[i] = -1;
    }
}

/* Makes it and locks it. False and errno when that did not work, or when somebody took it for
 * one of the dead before it was locked. */
static bool claim(struct scratch *scratch)
{
    struct stat info;
    if (mkdirat(scratch->above, scratch->name, 0700) != 0)
        return false;
    scratch->folder =
        openat(scratch->above, scratch->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (scratch->folder < 0)
        return false;
    scratch->lock = openat(scratch->folder, SCRATCH_LOCK,
                           O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (scratch->lock >= 0) {
        if (flock(scratch->lock, LOCK_EX | LOCK_NB) == 0 && fstat(scratch->lock, &info) == 0 &&
            info.st_nlink > 0)
            return true;
        close(scratch->lock);
        scratch->lock = -1;
        errno = ENOENT;
    }
    int failed = errno;
    close(scratch->folder);
    scratch->folder = -1;
    errno = failed;
    return false;
}

static enum hf_status make_own(struct scratch *scratch, struct env *env, const char *above,
                               struct hf_error *error)
{
    memcpy(scratch->name, SCRATCH_NAME, sizeof SCRATCH_NAME);
    for (int i = 0; i < SCRATCH_TRIES; i++) {
        env_random_hex(env, SCRATCH_DIGITS, scratch->name + sizeof SCRATCH_NAME - 1);
        int size = snprintf(scratch->path, sizeof scratch->path, "%s%s", above, scratch->name);
        if (size < 0 || size >= (int)sizeof scratch->path)
            return error_set(error, HF_INVALID, "the path of the scratch folder is too long");
        if (claim(scratch))
            return HF_OK;
        if (errno != EEXIST && errno != ENOENT && errno != EWOULDBLOCK)
            break;
    }
    return error_from_errno(error, errno, "make a scratch folder");
}

enum hf_status scratch_open(struct scratch *scratch, struct env *env, const char *parent,
                            struct hf_error *error)
{
    struct safe_path above;
    *scratch = (struct scratch){ .above = -1, .folder = -1, .lock = -1 };
    enum hf_status status = safe_folder_open(parent, &above, error);
    if (status == HF_OK)
        status = folder_check_safe(above.folder, error);
    if (status == HF_OK) {
        scratch->above = above.folder;
        above.folder = -1;
        remove_stale(scratch->above);
        status = make_own(scratch, env, above.text, error);
    }
    safe_path_close(&above);
    if (status != HF_OK) {
        error_prefix(error, "the scratch folder %.*s", ERROR_PATH_MAX, parent);
        close_files(scratch);
    }
    return status;
}

void scratch_close(struct scratch *scratch)
{
    folder_clear(scratch->folder);
    (void)unlinkat(scratch->above, scratch->name, AT_REMOVEDIR);
    close_files(scratch);
}

/* ---- In it --------------------------------------------------------------------------- */

bool scratch_make(const struct scratch *scratch, const char *name)
{
    return mkdirat(scratch->folder, name, 0700) == 0;
}

void scratch_remove(const struct scratch *scratch, const char *name)
{
    int folder = openat(scratch->folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
        folder_clear(folder);
        close(folder);
    }
    (void)unlinkat(scratch->folder, name, AT_REMOVEDIR);
}

/* ---- Names --------------------------------------------------------------------------- */

struct view scratch_name_end(struct view key)
{
    size_t from = key.size;
    while (from > 0 && key.data[from - 1] != '/')
        from--;
    struct view leaf = view_from(key, from);
    struct view end = view_from(leaf, view_find(leaf, '.'));
    bool plain = end.size < 16;
    for (size_t i = 0; i < end.size && plain; i++)
        plain = (end.data[i] >= 'a' && end.data[i] <= 'z') || end.data[i] == '.';
    return plain ? end : VIEW("");
}

/* A path stands for itself only where no longer one begins with it. */
static bool ends_path(char c)
{
    return c == '\0' || c == ':' || c == ' ' || c == ',' || c == ';' || c == '\'';
}

void scratch_rename(struct hf_error *error, const char *path, struct view key)
{
    char before[HF_WHY_MAX];
    const char *at = strstr(error->why, path);
    if (!at || !ends_path(at[strlen(path)]))
        return;
    snprintf(before, sizeof before, "%.*s", (int)(at - error->why), error->why);
    error_set(error, error->status, "%s%.*s%s", before,
              VIEW_ARGS(view_first(key, ERROR_PATH_MAX)), at + strlen(path));
}
