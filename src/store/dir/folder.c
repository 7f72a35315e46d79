/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c: creates directories of a `dir:` store with the first object in them, and removes
 * them with the last.
 *
 * Like a new object, a new directory is marked in the marks file until it is durable. A task
 * that puts an object into a directory that another task has just created must not report
 * success before the directory itself would survive a power loss. */
#include "base/check.h"
#include "store/dir/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* How many times a directory is created again while others remove it or put a file in its place. */
#define FOLDER_TRIES_MAX 100

/* The length of the directory part of a path; 0 for the root. */
static size_t folder_size(const struct dir_path *path)
{
    size_t size = path->size;
    while (size > 0 && path->text[size - 1] != '/')
        size--;
    return size > 0 ? size - 1 : 0;
}

const char *dir_leaf(const struct dir_path *path)
{
    size_t size = folder_size(path);
    return path->text + (size > 0 ? size + 1 : 0);
}

static int open_parent(struct dir_store *dir, const struct dir_path *path)
{
    char folder[DIR_PATH_MAX] = ".";
    size_t size = folder_size(path);
    if (size > 0) {
        memcpy(folder, path->text, size);
        folder[size] = '\0';
    }
    return dir_open_beneath(dir->root, folder, O_RDONLY | O_DIRECTORY);
}

static enum hf_status error_symbolic_link(struct hf_error *error)
{
    return error_set(error, HF_INVALID,
                     "the path contains a symbolic link, which a dir: store does not follow");
}

enum hf_status dir_folder_find(struct dir_store *dir, const struct dir_path *path,
                               int *ret_folder, struct hf_error *error)
{
    *ret_folder = open_parent(dir, path);
    if (*ret_folder >= 0 || errno == ENOENT || errno == ENOTDIR)
        return HF_OK;
    return errno == ELOOP ? error_symbolic_link(error)
                          : error_from_errno(error, errno, "open the object's folder");
}

/* ---- Creating ------------------------------------------------------------------------ */

/* One directory on the way to an object. */
struct step {
    struct view path; /* of the directory, from the root, without a trailing "/" */
    int above;        /* the directory that holds it */
    char name[256];   /* its name there */
    struct mono_time deadline;
};

/* Creates the directory unless its name is taken. The caller checks that it exists, because others
 * may remove it immediately. */
static enum hf_status make_step_folder(struct dir_store *dir, const struct step *step,
                                       struct hf_error *error)
{
    int64_t stripe = dir_stripe((struct view){ step->path.data, step->path.size + 1 });
    struct dir_lock lock;
    if (dir->sync &&
        dir_stripe_take(&dir->locks, stripe, step->deadline, &lock, error) != HF_OK)
        return error->status;
    enum hf_status status = dir_stripe_mark(&dir->locks, stripe, error);
    if (status == HF_OK) {
        bool made = mkdirat(step->above, step->name, 0777) == 0;
        if (!made && errno != EEXIST && errno != ENOENT)
            status = error_from_errno(error, errno, "create a folder");
        /* The mark stays if the sync fails: the next task that uses the directory must make it
         * durable. */
        bool durable = !made || !dir->sync || fsync(step->above) == 0;
        if (!durable)
            status = error_from_errno(error, errno, "sync a folder");
        else
            dir_stripe_clear(&dir->locks, stripe);
    }
    if (dir->sync)
        dir_lock_drop(&dir->locks, &lock);
    return status;
}

/* Moves an object's file aside, to free its name for a directory. The move is durable before
 * the directory can be created, so the two never claim the same name on disk. */
static enum hf_status move_aside_locked(struct dir_store *dir, const struct step *step,
                                        struct hf_error *error)
{
    struct stat st;
    if (fstatat(step->above, step->name, &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(st.st_mode))
        return HF_OK;
    if (S_ISLNK(st.st_mode))
        return error_symbolic_link(error);
    struct dir_name name;
    if (!S_ISREG(st.st_mode) || !dir_name_decode(view_of(step->name), &name) ||
        name.kind != DIR_NAME_PLAIN)
        return error_set(error, HF_INVALID,
                         "a file that is not an object has the same name as the folder");
    char aside[sizeof step->name + 2];
    dir_aside_name(step->name, strlen(step->name), aside);
    if (renameat(step->above, step->name, step->above, aside) != 0 ||
        (dir->sync && fsync(step->above) != 0))
        return error_from_errno(error, errno, "move an object aside");
    return HF_OK;
}

static enum hf_status move_aside(struct dir_store *dir, const struct step *step,
                                 struct hf_error *error)
{
    struct dir_lock move;
    struct dir_lock lock;
    if (dir_lock_take(&dir->locks, DIR_LOCK_MOVE, DIR_LOCK_EXCLUSIVE, step->deadline, &move,
                      error) != HF_OK)
        return error->status;
    enum hf_status status =
        dir_stripe_take(&dir->locks, dir_stripe(step->path), step->deadline, &lock, error);
    if (status == HF_OK) {
        status = dir_move_begin(&dir->locks, error);
        if (status == HF_OK)
            status = move_aside_locked(dir, step, error);
        dir_move_end(&dir->locks);
        dir_lock_drop(&dir->locks, &lock);
    }
    dir_lock_drop(&dir->locks, &move);
    return status;
}

/* Opens the directory of a step, and creates it first if it is missing. -1 and OK: the directory
 * above has been removed. */
static enum hf_status open_step_folder(struct dir_store *dir, const struct step *step,
                                       int *ret_fd, struct hf_error *error)
{
    *ret_fd = -1;
    for (int tries = 0; tries < FOLDER_TRIES_MAX; tries++) {
        *ret_fd = dir_open_beneath(step->above, step->name, O_RDONLY | O_DIRECTORY);
        if (*ret_fd >= 0)
            return HF_OK;
        struct stat st;
        enum hf_status status = HF_OK;
        if (errno == ELOOP)
            status = error_symbolic_link(error);
        else if (errno == ENOTDIR)
            status = move_aside(dir, step, error);
        else if (errno != ENOENT)
            status = error_from_errno(error, errno, "open a folder");
        /* The directory above has been removed, so nothing can be created in it. */
        else if (fstat(step->above, &st) == 0 && st.st_nlink == 0)
            return HF_OK;
        else
            status = make_step_folder(dir, step, error);
        if (status != HF_OK)
            return status;
    }
    return error_set(error, HF_UNAVAILABLE,
                     "other processes keep removing the object's folder");
}

/* Walks down the path from the root and creates missing directories. -1 and OK: try again. */
static enum hf_status make_folders(struct dir_store *dir, const struct dir_path *path,
                                   struct mono_time deadline, int *ret_fd,
                                   struct hf_error *error)
{
    struct step step = { .deadline = deadline };
    step.above = dir_open_beneath(dir->root, ".", O_RDONLY | O_DIRECTORY);
    if (step.above < 0)
        return error_from_errno(error, errno, "open the store's folder");
    struct view rest = { path->text, folder_size(path) };
    enum hf_status status = HF_OK;
    while (rest.size > 0 && step.above >= 0) {
        struct view name = view_cut(&rest, '/');
        check(name.size < sizeof step.name);
        memcpy(step.name, name.data, name.size);
        step.name[name.size] = '\0';
        step.path = (struct view){ path->text, (size_t)(name.data + name.size - path->text) };
        int next;
        status = open_step_folder(dir, &step, &next, error);
        close(step.above);
        step.above = next;
    }
    *ret_fd = step.above;
    return status;
}

/* Waits until all directories above the object, which another task may have created, are
 * durable. */
static enum hf_status settle_folders(struct dir_store *dir, const struct dir_path *path,
                                     struct mono_time deadline, struct hf_error *error)
{
    for (size_t i = 0; i < path->size; i++)
        if (path->text[i] == '/' &&
            dir_settle(&dir->locks, dir_stripe((struct view){ path->text, i + 1 }), deadline,
                       error) != HF_OK)
            return error->status;
    return HF_OK;
}

enum hf_status dir_folder_open(struct dir_store *dir, const struct dir_path *path,
                               struct mono_time deadline, int *ret_folder,
                               struct hf_error *error)
{
    int folder = -1;
    for (int tries = 0; tries < FOLDER_TRIES_MAX; tries++) {
        enum hf_status status = dir_folder_find(dir, path, &folder, error);
        if (status == HF_OK && folder < 0)
            status = make_folders(dir, path, deadline, &folder, error);
        if (status != HF_OK)
            return status;
        if (folder >= 0)
            break;
    }
    if (folder < 0)
        return error_set(error, HF_UNAVAILABLE,
                         "other processes keep removing the object's folder");
    if (settle_folders(dir, path, deadline, error) != HF_OK) {
        close(folder);
        return error->status;
    }
    *ret_folder = folder;
    return HF_OK;
}

/* ---- Removing ------------------------------------------------------------------------ */

/* Removes the directory of a path and then the directories above it, as long as they are empty. */
static void remove_empty(struct dir_store *dir, const struct dir_path *path)
{
    struct dir_path folder = *path;
    for (;;) {
        folder.size = folder_size(&folder);
        if (folder.size == 0)
            return;
        folder.text[folder.size] = '\0';
        int above = open_parent(dir, &folder);
        if (above < 0)
            return;
        int failed = unlinkat(above, dir_leaf(&folder), AT_REMOVEDIR);
        close(above);
        if (failed)
            return;
    }
}

/* No sync is needed: an empty directory that reappears after a power loss does no harm. */
void dir_folder_prune(struct dir_store *dir, const struct dir_path *path)
{
    struct dir_lock keep;
    if (folder_size(path) == 0 ||
        !dir_lock_try(&dir->locks, DIR_LOCK_KEEP, DIR_LOCK_EXCLUSIVE, &keep))
        return;
    remove_empty(dir, path);
    dir_lock_drop(&dir->locks, &keep);
}
