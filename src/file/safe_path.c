/* SPDX-License-Identifier: Apache-2.0 */
/* safe_path.c: follows a path without trusting other users' links, and removes a tree without
 * following links out of it. */
#include "file/safe_path.h"

#include "base/view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

/* The maximum number of links that are followed, the same as in the kernel. */
#define LINKS_MAX 40

/* The deepest nesting of folders that is removed; each level needs a descriptor. */
#define CLEAR_DEPTH_MAX 64

/* ---- Ownership ----------------------------------------------------------------------- */

bool is_planted(int folder, const struct stat *file)
{
    struct stat info;
    return fstat(folder, &info) == 0 && (info.st_mode & S_ISVTX) &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) && file->st_uid != geteuid() &&
           file->st_uid != info.st_uid;
}

enum hf_status folder_check_safe(int folder, struct hf_error *error)
{
    struct stat info;
    if (fstat(folder, &info) != 0)
        return error_from_errno(error, errno, "access it");
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return error_set(error, HF_DENIED,
                         "it belongs to another user (uid %lu), who could replace files in it",
                         (unsigned long)info.st_uid);
    if ((info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX))
        return error_set(error, HF_DENIED,
                         "every user can rename files in it (mode %04o): set its sticky bit, "
                         "or make it private",
                         (unsigned)info.st_mode & 07777);
    return HF_OK;
}

/* ---- Walking ------------------------------------------------------------------------- */

struct walk {
    int folder;          /* the current folder */
    char text[PATH_MAX]; /* the path so far, with a trailing slash unless it is empty */
    size_t text_size;
    char rest[PATH_MAX]; /* the rest of the path */
    int links;           /* how many were followed so far */
};

static enum hf_status too_long(struct hf_error *error)
{
    return error_from_errno(error, ENAMETOOLONG, "follow its path");
}

static enum hf_status start_at(struct walk *walk, const char *root, struct hf_error *error)
{
    int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_from_errno(error, errno, "open the folder in which its path starts");
    if (walk->folder >= 0)
        close(walk->folder);
    walk->folder = folder;
    walk->text_size = root[0] == '/' ? 1 : 0;
    memcpy(walk->text, root, walk->text_size);
    return HF_OK;
}

/* Takes the next name from the rest; false at the end. */
static bool next_name(struct walk *walk, char name[NAME_MAX + 2], bool *ret_last)
{
    const char *from = walk->rest + strspn(walk->rest, "/");
    size_t size = strcspn(from, "/"), kept = size <= NAME_MAX ? size : NAME_MAX + 1;
    memcpy(name, from, kept); /* the kernel refuses a name that is too long */
    name[kept] = '\0';
    *ret_last = from[size] == '\0';
    memmove(walk->rest, from + size, strlen(from + size) + 1);
    return size > 0;
}

/* Replaces the link's name with its target. */
static enum hf_status follow_link(struct walk *walk, const char *name, struct hf_error *error)
{
    char target[PATH_MAX];
    if (walk->links++ == LINKS_MAX)
        return error_from_errno(error, ELOOP, "follow its path");
    ssize_t size = readlinkat(walk->folder, name, target, sizeof target - 1);
    if (size < 0)
        return error_from_errno(error, errno, "read a link of its path");
    target[size] = '\0';
    size_t rest = strlen(walk->rest);
    if ((size_t)size + rest >= sizeof walk->rest)
        return too_long(error);
    memmove(walk->rest + size, walk->rest, rest + 1);
    memcpy(walk->rest, target, (size_t)size);
    return target[0] == '/' ? start_at(walk, "/", error) : HF_OK;
}

static enum hf_status append_name(struct walk *walk, const char *name, bool last,
                                  struct hf_error *error)
{
    size_t room = sizeof walk->text - walk->text_size;
    int size = snprintf(walk->text + walk->text_size, room, "%s%s", name, last ? "" : "/");
    if (size < 0 || (size_t)size >= room)
        return too_long(error);
    walk->text_size += (size_t)size;
    return HF_OK;
}

static enum hf_status enter_folder(struct walk *walk, const char *name, bool by_kernel,
                                   struct hf_error *error)
{
    int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | (by_kernel ? 0 : O_NOFOLLOW);
    int folder = openat(walk->folder, name, flags);
    if (folder < 0)
        return error_from_errno(error, errno, "open its folder");
    close(walk->folder);
    walk->folder = folder;
    return append_name(walk, name, /* last */ false, error);
}

static bool is_proc(int folder)
{
    struct statfs info;
    return fstatfs(folder, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

/* Advances by one name. *ret_done: the walk has reached the folder of the last name, `name`. */
static enum hf_status walk_step(struct walk *walk, const char *name, bool last,
                                struct safe_path *path, bool *ret_done, struct hf_error *error)
{
    struct stat info = { 0 };
    bool there = fstatat(walk->folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    bool is_link = there && S_ISLNK(info.st_mode);
    bool by_kernel = is_link && is_proc(walk->folder);
    *ret_done = last && (!is_link || by_kernel);
    path->by_kernel = by_kernel;
    if (*ret_done)
        return HF_OK;
    if (!is_link || by_kernel)
        return enter_folder(walk, name, by_kernel, error);
    if (is_planted(walk->folder, &info))
        return error_set(error, HF_DENIED,
                         "'%.60s' is a symbolic link that another user (uid %lu) created in a "
                         "folder that everyone can write to; it is not followed",
                         name, (unsigned long)info.st_uid);
    return follow_link(walk, name, error);
}

/* `name`: the last one; empty for a folder. */
static enum hf_status end_walk(struct walk *walk, const char *name, struct safe_path *path,
                               struct hf_error *error)
{
    size_t leaf = walk->text_size;
    enum hf_status status = append_name(walk, name, /* last */ true, error);
    if (status != HF_OK)
        return status;
    path->text = strdup(walk->text);
    if (!path->text)
        return error_no_memory(error);
    path->leaf = path->text + leaf;
    path->folder = walk->folder;
    walk->folder = -1;
    return HF_OK;
}

static enum hf_status walk_to_end(struct walk *walk, bool to_folder, struct safe_path *path,
                                  struct hf_error *error)
{
    char name[NAME_MAX + 2];
    bool last = false, done = false;
    enum hf_status status = HF_OK;
    while (status == HF_OK && !done) {
        if (next_name(walk, name, &last))
            status = walk_step(walk, name, last && !to_folder, path, &done, error);
        else if (to_folder)
            done = true;
        else
            status = error_set(error, HF_INVALID, "it is the path of a folder, not of a file");
    }
    return status == HF_OK ? end_walk(walk, to_folder ? "" : name, path, error) : status;
}

static enum hf_status open_path(const char *path, bool to_folder, struct safe_path *ret_path,
                                struct hf_error *error)
{
    struct walk walk = { .folder = -1 };
    size_t size = strlen(path);
    *ret_path = SAFE_PATH_INIT;
    if (size >= sizeof walk.rest)
        return too_long(error);
    memcpy(walk.rest, path, size + 1);
    enum hf_status status = start_at(&walk, path[0] == '/' ? "/" : ".", error);
    if (status == HF_OK)
        status = walk_to_end(&walk, to_folder, ret_path, error);
    if (walk.folder >= 0)
        close(walk.folder);
    return status;
}

enum hf_status safe_path_open(const char *path, struct safe_path *ret_path,
                              struct hf_error *error)
{
    return open_path(path, /* to_folder */ false, ret_path, error);
}

enum hf_status safe_folder_open(const char *path, struct safe_path *ret_path,
                                struct hf_error *error)
{
    return open_path(path, /* to_folder */ true, ret_path, error);
}

void safe_path_close(struct safe_path *path)
{
    if (path->folder >= 0)
        close(path->folder);
    free(path->text);
    *path = SAFE_PATH_INIT;
}

/* ---- Removing ------------------------------------------------------------------------ */

static void clear_to_depth(int folder, unsigned depth);

static void remove_entry(int folder, const char *name, unsigned depth)
{
    if (unlinkat(folder, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
        return;
    int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner >= 0) {
        clear_to_depth(inner, depth);
        close(inner);
    }
    (void)unlinkat(folder, name, AT_REMOVEDIR);
}

static void clear_to_depth(int folder, unsigned depth)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    if (copy >= 0 && !entries)
        close(copy);
    while (entries && depth > 0 && (entry = readdir(entries))) {
        struct view name = view_of(entry->d_name);
        if (!view_equal(name, VIEW(".")) && !view_equal(name, VIEW("..")))
            remove_entry(folder, entry->d_name, depth - 1);
    }
    if (entries)
        closedir(entries);
}

void folder_clear(int folder)
{
    clear_to_depth(folder, CLEAR_DEPTH_MAX);
}
