/* SPDX-License-Identifier: Apache-2.0 */
/* merger_scratch.c: scratch folders on a local disk. A killed worker leaves its folder behind, but
 * the kernel releases its lock, and the next worker removes the folder. In /tmp any user can create
 * a folder or a link with such a name. So a folder is removed only if our user owns it and others
 * have no access to it, and only through descriptors. */
#include "compact/work/merger_scratch.h"

#include "base/parse.h"
#include "base/view.h"
#include "file/safe_path.h"

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

/* Limits per start: folders of dead workers to remove, and names to examine. */
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

/* ---- Folders of dead workers --------------------------------------------------------- */

/* Whether it belongs to our user, and others have no access to it. */
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

/* A folder without a lock file may belong to a worker that is just creating it. It is removed only
 * if it is empty, and its creator then tries another name. */
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

/* Folders that belong to other users do not count towards the limit, so other users cannot keep our
 * folders from being removed. */
static bool is_our_scratch(int above, const char *name)
{
    struct stat info;
    struct view digits = view_from(view_of(name), sizeof SCRATCH_NAME - 1);
    return view_starts_with(view_of(name), VIEW(SCRATCH_NAME)) &&
           text_is_hex(digits, SCRATCH_DIGITS) &&
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
    int removed = 0;
    for (int i = 0; i < NAMES_MAX; i++) {
        const struct dirent *entry = readdir(entries);
        if (!entry || removed == STALE_MAX)
            break;
        if (is_our_scratch(above, entry->d_name)) {
            remove_if_stale(above, entry->d_name);
            removed++;
        }
    }
    closedir(entries);
}

/* ---- Our own folder ------------------------------------------------------------------ */

static void close_scratch_files(struct scratch *scratch)
{
    int *files[] = { &scratch->lock, &scratch->folder, &scratch->above };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (*files[i] >= 0)
            close(*files[i]);
        *files[i] = -1;
    }
}

/* Creates and locks the folder. False, with errno set, if that fails or if another worker removed
 * the folder before it was locked. */
static bool create_locked_folder(struct scratch *scratch)
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
        /* Another worker has taken the new folder for a dead worker's. The caller must try another
         * name, so errno must not keep a value from an earlier call. */
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
        if (create_locked_folder(scratch))
            return HF_OK;
        if (errno != EEXIST && errno != ENOENT && errno != EWOULDBLOCK)
            break;
    }
    return error_from_errno(error, errno, "create a scratch folder");
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
        close_scratch_files(scratch);
    }
    return status;
}

void scratch_close(struct scratch *scratch)
{
    folder_clear(scratch->folder);
    (void)unlinkat(scratch->above, scratch->name, AT_REMOVEDIR);
    close_scratch_files(scratch);
}

/* ---- Files in the folder ------------------------------------------------------------- */

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
    for (size_t i = 0; i < end.size; i++)
        plain = plain && ((end.data[i] >= 'a' && end.data[i] <= 'z') || end.data[i] == '.');
    return plain ? end : VIEW("");
}

/* Whether a path ends before this character. A path must not match as the prefix of a longer
 * one. */
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
