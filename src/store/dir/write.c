/* SPDX-License-Identifier: Apache-2.0 */
/* write.c: put and delete in a `dir:` store.
 *
 * A put writes a temporary file, labels it, syncs it, and only then acquires the lock of its path.
 * Under the lock it checks the condition, gives the file its name and syncs the directory. So a
 * name always leads to a complete object, and the lock is held only for one rename and one fsync.
 *
 * A failure before the rename means that nothing has happened. If the sync after the rename fails,
 * the outcome is unknown: the status is UNSURE, and the mark stays until the next reader or writer
 * of the path has made the change durable.
 *
 *     killed here             leaves                              cleaned up by
 *     before the rename       a temporary file                    the next open
 *     after the rename        the new object and a mark; after    the next reader or writer;
 *                             a swap, the old one in %tmp         the next open
 *     after the fsync         a mark                              the next reader or writer */
#include "base/check.h"
#include "store/dir/inside.h"
#include "store/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Directories may vanish, and files may move aside, between the check and the write. A writer that
 * is waiting for a busy lock may find its directory gone each time, so after WRITE_TRIES_POLITE
 * attempts it acquires DIR_LOCK_KEEP, which prevents the removal of directories. */
#define WRITE_TRIES_MAX    20
#define WRITE_TRIES_POLITE 3

/* One write of one path. */
struct change {
    struct dir_path path;
    int64_t stripe;
    const struct condition *condition;
    struct mono_time deadline;
    struct dir_new *file; /* NULL: a delete */
    int folder;
    const char *leaf;
    bool visible; /* it has happened, durable or not */
    bool quiet;   /* need not wake listeners */
    bool again;   /* the path has changed, and nothing was written: start over */
};

static void init_change(struct change *change, struct dir_store *dir, struct view key,
                        const struct condition *condition, struct mono_time deadline)
{
    dir_path_encode(key, &change->path);
    change->stripe = dir_stripe(dir_path_view(&change->path));
    change->condition = condition;
    change->deadline = local_deadline(dir->base.env, deadline);
    change->file = NULL;
    change->folder = -1;
    change->leaf = dir_leaf(&change->path);
    change->visible = false;
    change->quiet = false;
    change->again = false;
}

/* ---- Checking conditions ------------------------------------------------------------- */

/* Only a condition that names an ETag needs the ETag; otherwise a foreign file is not read. */
static enum hf_status check_current(const struct condition *condition, int fd,
                                    struct hf_error *error)
{
    struct object_info info = { .size = 0 };
    struct stat st;
    if (fd < 0)
        return condition_check(condition, /* current */ NULL, error);
    if (condition->kind == CONDITION_MATCH && dir_file_info(fd, &info, &st, error) != HF_OK)
        return error->status;
    return condition_check(condition, &info.etag, error);
}

/* Checks the condition before any other work: if it fails now, no file, sync or lock is needed. */
static enum hf_status check_condition_early(struct dir_store *dir, const struct change *change,
                                            struct hf_error *error)
{
    int fd;
    if (change->condition->kind == CONDITION_ALWAYS)
        return error_clear(error);
    if (dir_look(dir, &change->path, &fd, error) != HF_OK)
        return error->status;
    enum hf_status status = check_current(change->condition, fd, error);
    if (fd >= 0)
        close(fd);
    /* Do not report a conflict with a change that a power loss could still undo. */
    if (status == HF_CONFLICT || status == HF_NOT_FOUND) {
        struct hf_error unsettled;
        if (dir_settle(&dir->locks, change->stripe, change->deadline, &unsettled) != HF_OK) {
            *error = unsettled;
            status = error->status;
        }
    }
    return status;
}

/* ---- Changing, under the lock of the stripe ------------------------------------------ */

/* Makes a directory change durable, or reports UNSURE. */
static enum hf_status finish_locked(struct dir_store *dir, struct change *change,
                                    struct hf_error *error)
{
    change->visible = true;
    if (dir->sync && fsync(change->folder) != 0) {
        error_from_errno(error, errno, "sync the folder");
        error->status = HF_UNSURE;
        return HF_UNSURE;
    }
    /* Only now: until the change is durable, the mark keeps readers from reporting it. */
    dir_stripe_clear(&dir->locks, change->stripe);
    return HF_OK;
}

/* The rename or unlink failed, so nothing has changed. */
static enum hf_status cancel_locked(struct dir_store *dir, struct change *change,
                                    int errno_value, struct hf_error *error)
{
    dir_stripe_clear(&dir->locks, change->stripe);
    /* The directory was removed, or the name was taken, after they were checked. */
    change->again = errno_value == ENOENT || errno_value == EEXIST;
    return error_from_errno(error, change->again ? EBUSY : errno_value,
                            "rename or remove the object's file");
}

static enum hf_status place_locked(struct dir_store *dir, struct change *change,
                                   const struct dir_found *found, struct hf_error *error)
{
    char aside[256 + 2];
    dir_aside_name(change->leaf, strlen(change->leaf), aside);
    const char *name = found->aside ? aside : change->leaf;
    /* Mark before the change: a reader that sees the new object must also find the mark. */
    if (dir_stripe_mark(&dir->locks, change->stripe, error) != HF_OK)
        return error->status;
    if (dir_new_place(change->file, change->folder, name, found->fd >= 0) != 0)
        return cancel_locked(dir, change, errno, error);
    return finish_locked(dir, change, error);
}

/* Removes a file aside that a plain file hides. It would become the object once the plain file
 * is deleted. */
static bool drop_meaningless_locked(struct dir_store *dir, const struct change *change,
                                    const char *aside)
{
    if (unlinkat(change->folder, aside, 0) != 0)
        return errno == ENOENT;
    return !dir->sync || fsync(change->folder) == 0;
}

static enum hf_status unlink_locked(struct dir_store *dir, struct change *change,
                                    const struct dir_found *found, struct hf_error *error)
{
    if (found->fd < 0)
        return HF_OK;
    char aside[256 + 2];
    dir_aside_name(change->leaf, strlen(change->leaf), aside);
    if (!found->aside && !drop_meaningless_locked(dir, change, aside))
        return error_from_errno(error, errno, "remove a leftover of the object");
    if (dir_stripe_mark(&dir->locks, change->stripe, error) != HF_OK)
        return error->status;
    if (unlinkat(change->folder, found->aside ? aside : change->leaf, 0) != 0)
        return cancel_locked(dir, change, errno, error);
    return finish_locked(dir, change, error);
}

static enum hf_status apply_locked(struct dir_store *dir, struct change *change,
                                   struct hf_error *error)
{
    struct dir_found found = { .fd = -1 };
    if (change->folder >= 0 &&
        dir_find(change->folder, change->leaf, strlen(change->leaf), &found, error) != HF_OK)
        return error->status;
    /* The early check was made without the lock, so only this one counts. */
    enum hf_status status = check_current(change->condition, found.fd, error);
    if (status == HF_OK && change->file)
        status = place_locked(dir, change, &found, error);
    else if (status == HF_OK)
        status = unlink_locked(dir, change, &found, error);
    if (found.fd >= 0)
        close(found.fd);
    return status;
}

/* ---- One attempt, and retries -------------------------------------------------------- */

static enum hf_status apply_once(struct dir_store *dir, struct change *change,
                                 struct hf_error *error)
{
    enum hf_status status =
        change->file
            ? dir_folder_open(dir, &change->path, change->deadline, &change->folder, error)
            : dir_folder_find(dir, &change->path, &change->folder, error);
    if (status != HF_OK)
        return status;
    struct dir_lock lock;
    status = dir_stripe_take(&dir->locks, change->stripe, change->deadline, &lock, error);
    if (status == HF_OK) {
        status = apply_locked(dir, change, error);
        dir_lock_drop(&dir->locks, &lock);
    }
    /* Even if the sync has failed, readers can see the change. */
    if (change->visible)
        dir_note_change(&dir->locks);
    if (change->visible && !change->quiet)
        write_notify_ring(&dir->notify);
    if (change->folder >= 0)
        close(change->folder);
    return status;
}

static enum hf_status apply_with_retries(struct dir_store *dir, struct change *change,
                                         struct hf_error *error)
{
    struct dir_lock keep = { .fd = -1 };
    enum hf_status status = HF_OK;
    for (int tries = 0; tries < WRITE_TRIES_MAX; tries++) {
        if (tries == WRITE_TRIES_POLITE &&
            dir_lock_take(&dir->locks, DIR_LOCK_KEEP, DIR_LOCK_SHARED, change->deadline, &keep,
                          error) != HF_OK)
            return error->status;
        change->again = false;
        status = apply_once(dir, change, error);
        if (!change->again)
            break;
    }
    if (keep.fd >= 0)
        dir_lock_drop(&dir->locks, &keep);
    return status;
}

/* ---- Put ----------------------------------------------------------------------------- */

/* Where the bytes of a put come from. */
struct source {
    struct view body;
    int fd; /* -1: from the body */
    const struct progress *progress;
    bool given; /* the file itself becomes the object; nothing is copied */
};

static enum hf_status fill_new_file(int to, const struct source *source, struct hf_error *error)
{
    uint64_t size;
    if (source->given)
        return HF_OK;
    if (source->fd < 0)
        return file_write_at(to, source->body, 0, error);
    if (file_size(source->fd, &size, error) != HF_OK)
        return error->status;
    return file_copy(source->fd, 0, size, to, source->progress, error);
}

static void put_as_file(struct dir_store *dir, struct put_call *call, struct source *source)
{
    struct change change;
    struct dir_new file;
    struct etag etag;
    struct hf_error *error = &call->error;
    if (store_is_forked(dir->pid, error))
        return;
    init_change(&change, dir, call->key, &call->condition, call->deadline);
    change.quiet = call->quiet;
    if (check_condition_early(dir, &change, error) != HF_OK ||
        dir_temp_make(&dir->temp, call->give ? source->fd : -1, &file, &source->given, error) !=
            HF_OK)
        return;
    change.file = &file;
    enum hf_status status = fill_new_file(file.fd, source, error);
    if (status == HF_OK)
        status = dir_file_label(file.fd, file.random, &etag, error);
    if (status == HF_OK && dir->sync && fsync(file.fd) != 0)
        status = error_from_errno(error, errno, "sync the new file");
    if (status == HF_OK)
        status = apply_with_retries(dir, &change, error);
    if (status == HF_OK)
        call->etag = etag;
    dir_new_release(&file, /* keep */ status == HF_UNSURE);
}

void dir_put(struct store *store, struct put_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct source source = { .body = calls[i].body, .fd = -1 };
        put_as_file(dir_of(store), &calls[i], &source);
    }
}

void dir_put_file(struct store *store, struct put_call *call, int fd,
                  const struct progress *progress)
{
    struct source source = { .fd = fd, .progress = progress };
    put_as_file(dir_of(store), call, &source);
}

/* ---- Delete -------------------------------------------------------------------------- */

void dir_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct dir_store *dir = dir_of(store);
    for (size_t i = 0; i < count; i++) {
        struct change change;
        if (store_is_forked(dir->pid, &calls[i].error))
            continue;
        init_change(&change, dir, calls[i].key, &calls[i].condition, calls[i].deadline);
        if (apply_with_retries(dir, &change, &calls[i].error) == HF_OK) {
            error_clear(&calls[i].error);
            dir_folder_prune(dir, &change.path);
        }
    }
}
