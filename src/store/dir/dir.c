/* SPDX-License-Identifier: Apache-2.0 */
/* dir.c: the `dir:` store: human-readable files under a directory, for local data and shared file
 * systems. This file opens, closes and reads it (docs/design.md section 3).
 *
 * The other files: name.c turns keys into paths; file.c opens files and reads their labels;
 * lock.c keeps writers apart, and stops readers from trusting a change that is not durable yet;
 * temp.c holds files that have no name yet; folder.c creates and removes directories; write.c
 * changes objects; list.c lists them. */
#include "base/parse.h"
#include "store/backends.h"
#include "store/dir/inside.h"
#include "store/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A file that was not written by Holdfast may change while it is being read; it is then read
 * again. */
#define READ_TRIES_MAX 5

/* ---- Reading ------------------------------------------------------------------------- */

enum hf_status dir_look(struct dir_store *dir, const struct dir_path *path, int *ret_fd,
                        struct hf_error *error)
{
    struct dir_found found;
    enum hf_status status = dir_find(dir->root, path->text, path->size, &found, error);
    if (status == HF_OK)
        *ret_fd = found.fd;
    return status;
}

/* Where a get writes the bytes: to the body of the call, or to a file. With `lent` it copies
 * nothing, and returns the object's own file. */
struct sink {
    int fd;     /* -1: to the body */
    off_t size; /* of the file, before the get */
    const struct progress *progress;
    int *lent; /* NULL: copy the bytes */
};

/* Reads an open object. *ret_changed: somebody wrote to the file while it was being read. */
static enum hf_status read_open_file(int fd, struct get_call *call, const struct sink *sink,
                                     bool *ret_changed)
{
    struct object_info info;
    struct stat st;
    uint64_t length;
    size_t body_size = call->body ? call->body->size : 0;
    *ret_changed = false;
    if (dir_file_info(fd, &info, &st, &call->error) != HF_OK ||
        get_check(call, &info, &length) != HF_OK)
        return call->error.status;
    if (sink->lent) {
        *sink->lent = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        return *sink->lent >= 0 ? HF_OK
                                : error_from_errno(&call->error, errno, "open the object");
    }
    enum hf_status status =
        sink->fd < 0
            ? get_append_file(call, fd, length,
                              "the file became shorter while it was being read")
            : file_copy(fd, call->offset, length, sink->fd, sink->progress, &call->error);
    /* A file that seems too short is not damaged if somebody has just written to it. */
    if (status == HF_OK || status == HF_CORRUPT)
        *ret_changed = !dir_file_unchanged(fd, &st);
    /* Discard what this attempt has written: the next one may write fewer bytes. */
    if (*ret_changed && sink->fd < 0)
        call->body->size = body_size;
    else if (*ret_changed && ftruncate(sink->fd, sink->size) != 0)
        return error_from_errno(&call->error, errno, "truncate the file for another attempt");
    return status;
}

static void get_object(struct dir_store *dir, struct get_call *call, const struct sink *sink)
{
    struct dir_path path;
    if (store_is_forked(dir->pid, &call->error))
        return;
    dir_path_encode(call->key, &path);
    for (int tries = 0; tries < READ_TRIES_MAX; tries++) {
        int fd;
        if (dir_look(dir, &path, &fd, &call->error) != HF_OK)
            return;
        bool changed = false;
        uint64_t none;
        /* Wait for durability only after opening: what we opened may be a change that is
         * still being synced. */
        if (dir_settle(&dir->locks, dir_stripe(dir_path_view(&path)),
                       local_deadline(dir->base.env, call->deadline), &call->error) == HF_OK) {
            if (fd >= 0)
                read_open_file(fd, call, sink, &changed);
            else
                get_check(call, /* current */ NULL, &none);
        }
        if (fd >= 0)
            close(fd);
        if (!changed)
            return;
    }
    error_set(
        &call->error, HF_UNAVAILABLE,
        "the file keeps changing while it is being read; another process is writing to it");
}

static void dir_get(struct store *store, struct get_call *calls, size_t count)
{
    const struct sink sink = { .fd = -1 };
    for (size_t i = 0; i < count; i++)
        get_object(dir_of(store), &calls[i], &sink);
}

static void dir_get_file(struct store *store, struct get_call *call, int fd,
                         const struct progress *progress)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        error_from_errno(&call->error, errno, "read the status of the file");
        return;
    }
    const struct sink sink = { .fd = fd, .size = st.st_size, .progress = progress };
    get_object(dir_of(store), call, &sink);
}

static void dir_lend_file(struct store *store, struct get_call *call, int *ret_fd)
{
    const struct sink sink = { .fd = -1, .lent = ret_fd };
    get_object(dir_of(store), call, &sink);
}

static bool dir_peer_changes(struct store *store, uint64_t *ret_mark)
{
    struct dir_store *dir = dir_of(store);
    return !store_is_forked(dir->pid, /* error */ NULL) &&
           dir_changes_of_others(&dir->locks, ret_mark);
}

/* ---- Opening ------------------------------------------------------------------------- */

/* Creates the directory at `path`, but not its parents, so that a mistyped path is noticed. */
static enum hf_status make_root(const char *path, bool sync, struct hf_error *error)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        if (errno == ENOENT)
            return error_set(error, HF_NOT_FOUND,
                             "cannot create the folder '%.150s': No such file or directory",
                             path);
        return error_from_errno(error, errno, "create the store's folder");
    }
    /* Even if another process has created the directory, its name may not be durable yet. After a
     * power loss, all objects in it would be gone. */
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int above = root < 0 ? -1 : openat(root, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool failed = above < 0 || (sync && fsync(above) != 0);
    if (failed)
        error_from_errno(error, errno, "sync the folder above the store");
    if (above >= 0)
        close(above);
    if (root >= 0)
        close(root);
    return failed ? error->status : HF_OK;
}

static enum hf_status open_root(const char *path, bool sync, int *ret_root,
                                struct hf_error *error)
{
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 && errno == ENOENT) {
        if (make_root(path, sync, error) != HF_OK)
            return error->status;
        root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (root < 0 && errno == ENOTDIR)
        return error_set(error, HF_INVALID, "'%.150s' is not a folder", path);
    if (root < 0)
        return error_from_errno(error, errno, "open the store's folder");
    if (fgetxattr(root, "user.holdfast", NULL, 0) < 0 && errno != ENODATA) {
        error_set(
            error, HF_UNSUPPORTED,
            "the file system of '%.100s' does not support user attributes; use one that does "
            "(ext4, xfs, btrfs), or sqlite:",
            path);
        close(root);
        return error->status;
    }
    *ret_root = root;
    return HF_OK;
}

static void dir_close(struct store *store)
{
    struct dir_store *dir = dir_of(store);
    bool forked = store_is_forked(dir->pid, /* error */ NULL);
    write_notify_release(&dir->notify);
    dir_temp_release(&dir->temp, forked);
    dir_locks_close(&dir->locks);
    close(dir->root);
    free(dir);
}

static const struct store_ops dir_ops = {
    .name = "dir",
    .get = dir_get,
    .put = dir_put,
    .remove = dir_remove,
    .list = dir_list,
    .get_file = dir_get_file,
    .put_file = dir_put_file,
    .lend_file = dir_lend_file,
    .peer_changes = dir_peer_changes,
    .close = dir_close,
};

static enum hf_status read_dir_url(const struct url *url, bool *ret_sync,
                                   struct hf_error *error)
{
    static const char *const parameters[] = { "sync", NULL };
    if (url_only_parameters(url, parameters, error) != HF_OK)
        return error->status;
    if (url->host.size > 0 || url->path.size == 0)
        return error_set(error, HF_INVALID, "dir: needs a path: use dir:/srv/data or dir:data");
    *ret_sync = true;
    struct view sync = url_parameter(url, "sync");
    if (sync.data && parse_switch(sync, ret_sync, error) != HF_OK) {
        error_prefix(error, "dir: sync");
        return error->status;
    }
    return HF_OK;
}

enum hf_status dir_store_open(struct env *env, const struct url *url, struct store **ret_store,
                              struct hf_error *error)
{
    bool sync;
    char path[URL_BYTES_MAX + 1];
    if (read_dir_url(url, &sync, error) != HF_OK)
        return error->status;
    memcpy(path, url->path.data, url->path.size);
    path[url->path.size] = '\0';
    struct dir_store *dir = malloc(sizeof *dir);
    if (!dir)
        return error_no_memory(error);
    *dir = (struct dir_store){
        .base = { .ops = &dir_ops, .env = env, .traits = TRAITS_OF_OURS },
        .pid = getpid(),
        .sync = sync,
    };
    enum hf_status status = open_root(path, sync, &dir->root, error);
    if (status == HF_OK) {
        status = dir_locks_open(&dir->locks, env, dir->root, sync, error);
        if (status != HF_OK)
            close(dir->root);
    }
    if (status != HF_OK) {
        free(dir);
        return status;
    }
    dir_temp_init(&dir->temp, &dir->locks);
    dir_temp_sweep(&dir->temp);
    write_notify_init(&dir->notify, env, dir->root, "%bell", DIR_MARKS_FILE,
                      dir->locks.writable);
    dir->base.notify = &dir->notify;
    *ret_store = &dir->base;
    return HF_OK;
}
