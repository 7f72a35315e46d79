/* SPDX-License-Identifier: Apache-2.0 */
/* write.c: put and delete in a `dir:` store.
 *
 * A put writes a temporary file, labels it, syncs it, and only then acquires the lock of its path.
 * Under the lock it checks the condition, gives the file its name and syncs the directory. So a
 * name always leads to a complete object, and the lock is held only for one rename and one fsync.
 *
 * The calls of a batch are done in groups. A group writes all its files and then syncs them at the
 * same time, in a few tasks: the file system commits and the disk flushes for many of them at once.
 * Then it gives all of them their names and syncs each directory once, again at the same time. It
 * holds the locks of all its paths until then. A path whose lock is not free is done after the
 * group, by itself.
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
#include "env/parallel.h"
#include "store/dir/inside.h"
#include "store/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Directories may vanish, and files may move aside, between the check and the write. A writer that
 * is waiting for a busy lock may find its directory gone each time, so after WRITE_TRIES_POLITE
 * attempts it acquires DIR_LOCK_KEEP, which prevents the removal of directories. */
#define WRITE_TRIES_MAX    20
#define WRITE_TRIES_POLITE 3

/* How many calls of a batch are done together. Each needs a descriptor for its file, perhaps one
 * for its directory, and 4 KiB. A group uses at most a quarter of the descriptors that the process
 * may have, so that a process with few of them can make a batch, too. */
#define GROUP_MAX         128
#define DESCRIPTORS_EACH  2
#define DESCRIPTORS_SHARE 4

/* One write of one path. It must not be moved, because `leaf` points into it. */
struct change {
    struct dir_path path;
    int64_t stripe;
    const struct condition *condition;
    struct mono_time deadline;
    struct dir_new *file; /* NULL: a delete */
    int folder;           /* changes in the same directory share the descriptor */
    const char *leaf;
    bool holds;   /* the lock of its stripe */
    bool marked;  /* the mark of its stripe is ours */
    bool visible; /* it has happened, durable or not */
    bool quiet;   /* need not wake listeners */
    bool again;   /* nothing was written because the path was changed or locked: start over */
    struct hf_error *error;
    enum hf_status status;
};

static void init_change(struct change *change, struct dir_store *dir, struct view key,
                        const struct condition *condition, struct mono_time deadline,
                        struct hf_error *error)
{
    dir_path_encode(key, &change->path);
    change->stripe = dir_stripe(dir_path_view(&change->path));
    change->condition = condition;
    change->deadline = local_deadline(dir->base.env, deadline);
    change->file = NULL;
    change->folder = -1;
    change->leaf = dir_leaf(&change->path);
    change->holds = change->marked = change->visible = change->quiet = change->again = false;
    change->error = error;
    change->status = store_is_forked(dir->pid, error) ? error->status : HF_OK;
}

static size_t calls_at_once(bool has_memory, size_t left)
{
    size_t most = has_memory ? GROUP_MAX : 1;
    long limit = sysconf(_SC_OPEN_MAX); /* -1: there is none */
    size_t fit = limit > 0 ? (size_t)limit / (DESCRIPTORS_EACH * DESCRIPTORS_SHARE) : most;
    if (fit < most)
        most = fit > 0 ? fit : 1;
    return left < most ? left : most;
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

/* Marks before the change: a reader that sees the change must also find the mark. */
static enum hf_status mark_locked(struct dir_store *dir, struct change *change)
{
    enum hf_status status = dir_stripe_mark(&dir->locks, change->stripe, change->error);
    change->marked = status == HF_OK;
    return status;
}

/* The rename or unlink failed, so nothing has changed. */
static enum hf_status cancel_locked(struct change *change, int errno_value)
{
    /* The directory was removed, or the name was taken, after they were checked. */
    change->again = errno_value == ENOENT || errno_value == EEXIST;
    return error_from_errno(change->error, change->again ? EBUSY : errno_value,
                            "rename or remove the object's file");
}

static enum hf_status place_locked(struct dir_store *dir, struct change *change,
                                   const struct dir_found *found)
{
    char aside[256 + 2];
    dir_aside_name(change->leaf, strlen(change->leaf), aside);
    const char *name = found->aside ? aside : change->leaf;
    if (mark_locked(dir, change) != HF_OK)
        return change->error->status;
    if (dir_new_place(change->file, change->folder, name, found->fd >= 0) != 0)
        return cancel_locked(change, errno);
    change->visible = true;
    return HF_OK;
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
                                    const struct dir_found *found)
{
    if (found->fd < 0)
        return HF_OK;
    char aside[256 + 2];
    dir_aside_name(change->leaf, strlen(change->leaf), aside);
    if (!found->aside && !drop_meaningless_locked(dir, change, aside))
        return error_from_errno(change->error, errno, "remove a leftover of the object");
    if (mark_locked(dir, change) != HF_OK)
        return change->error->status;
    if (unlinkat(change->folder, found->aside ? aside : change->leaf, 0) != 0)
        return cancel_locked(change, errno);
    change->visible = true;
    return HF_OK;
}

static enum hf_status apply_locked(struct dir_store *dir, struct change *change)
{
    struct dir_found found = { .fd = -1 };
    if (change->folder >= 0 && dir_find(change->folder, change->leaf, strlen(change->leaf),
                                        &found, change->error) != HF_OK)
        return change->error->status;
    /* The early check was made without the lock, so only this one counts. */
    enum hf_status status = check_current(change->condition, found.fd, change->error);
    if (status == HF_OK && change->file)
        status = place_locked(dir, change, &found);
    else if (status == HF_OK)
        status = unlink_locked(dir, change, &found);
    if (found.fd >= 0)
        close(found.fd);
    return status;
}

/* ---- Syncing together ---------------------------------------------------------------- */

/* Files or directories that are synced at the same time, and what came of each. */
struct sync_round {
    size_t count;
    int fds[GROUP_MAX];
    int failed[GROUP_MAX]; /* errno; 0: it is synced */
};

static void sync_one(void *argument, size_t index)
{
    struct sync_round *round = argument;
    round->failed[index] = fsync(round->fds[index]) == 0 ? 0 : errno;
}

/* ---- A group of changes -------------------------------------------------------------- */

static bool in_same_folder(const struct change *one, const struct change *other)
{
    size_t size = (size_t)(one->leaf - one->path.text);
    return size == (size_t)(other->leaf - other->path.text) &&
           memcmp(one->path.text, other->path.text, size) == 0;
}

/* Opens the directories, before any lock is held: creating one needs locks too. */
static void open_folders(struct dir_store *dir, struct change *const *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct change *change = changes[i];
        for (size_t k = 0; k < i && change->folder < 0; k++)
            if (in_same_folder(changes[k], change))
                change->folder = changes[k]->folder;
        if (change->status != HF_OK || change->folder >= 0)
            continue;
        change->status =
            change->file ? dir_folder_open(dir, &change->path, change->deadline,
                                           &change->folder, change->error)
                         : dir_folder_find(dir, &change->path, &change->folder, change->error);
    }
}

static void close_folders(struct change *const *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int folder = changes[i]->folder;
        for (size_t k = i; k < count; k++)
            if (changes[k]->folder == folder)
                changes[k]->folder = -1;
        if (folder >= 0)
            close(folder);
    }
}

/* The first lock may be waited for, because none is held yet. A change also has to start over if an
 * earlier one of its stripe does: they may be of the same path. */
static void lock_change(struct dir_store *dir, struct change *const *changes, size_t at,
                        struct dir_lock *lock)
{
    struct change *change = changes[at];
    bool busy = false;
    for (size_t k = 0; k < at; k++) {
        if (changes[k]->stripe != change->stripe)
            continue;
        change->holds = change->holds || changes[k]->holds;
        busy = busy || changes[k]->again;
    }
    if (!change->holds && !busy)
        change->status = lock->fd < 0 ? dir_stripe_take(&dir->locks, change->stripe,
                                                        change->deadline, lock, change->error)
                                      : dir_stripe_add(&dir->locks, change->stripe, lock, &busy,
                                                       change->error);
    change->again = busy;
    change->holds = change->holds || (change->status == HF_OK && !busy);
}

/* The place of a directory in a round, or its count. */
static size_t find_in_round(const struct sync_round *round, int folder)
{
    size_t at = 0;
    while (at < round->count && round->fds[at] != folder)
        at++;
    return at;
}

/* Makes what was changed in the directories durable, or reports UNSURE. */
static void sync_folders(struct env *env, struct change *const *changes, size_t count)
{
    struct sync_round round = { .count = 0 };
    for (size_t i = 0; i < count; i++)
        if (changes[i]->visible && find_in_round(&round, changes[i]->folder) == round.count)
            round.fds[round.count++] = changes[i]->folder;
    parallel_run(env, round.count, sync_one, &round);
    for (size_t i = 0; i < count; i++) {
        int failed =
            changes[i]->visible ? round.failed[find_in_round(&round, changes[i]->folder)] : 0;
        if (failed == 0)
            continue;
        error_from_errno(changes[i]->error, failed, "sync the folder");
        changes[i]->status = changes[i]->error->status = HF_UNSURE;
    }
}

/* Until all changes of a stripe are durable, its mark keeps readers from reporting them. */
static void clear_marks(struct dir_store *dir, struct change *const *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool durable = changes[i]->marked;
        for (size_t k = 0; k < count; k++)
            if (changes[k]->stripe == changes[i]->stripe)
                durable = durable && changes[k]->status != HF_UNSURE;
        if (durable)
            dir_stripe_clear(&dir->locks, changes[i]->stripe);
    }
}

/* Makes one attempt at each change, in this order. */
static void apply_once(struct dir_store *dir, struct change *const *changes, size_t count)
{
    struct dir_lock lock = { .fd = -1 };
    bool visible = false, loud = false;
    open_folders(dir, changes, count);
    for (size_t i = 0; i < count; i++) {
        struct change *change = changes[i];
        if (change->status == HF_OK)
            lock_change(dir, changes, i, &lock);
        if (change->status == HF_OK && change->holds && !change->again)
            change->status = apply_locked(dir, change);
        visible = visible || change->visible;
        loud = loud || (change->visible && !change->quiet);
    }
    if (dir->sync)
        sync_folders(dir->base.env, changes, count);
    clear_marks(dir, changes, count);
    if (lock.fd >= 0)
        dir_stripes_drop(&dir->locks, &lock);
    /* Even if the sync has failed, readers can see the changes. */
    if (visible)
        dir_note_change(&dir->locks);
    if (loud)
        write_notify_ring(&dir->notify);
    close_folders(changes, count);
}

static void start_over(struct change *change)
{
    change->holds = change->marked = change->again = false;
    change->status = error_clear(change->error);
}

static void apply_with_retries(struct dir_store *dir, struct change *change)
{
    struct dir_lock keep = { .fd = -1 };
    for (int tries = 1; tries < WRITE_TRIES_MAX && change->again; tries++) {
        if (tries == WRITE_TRIES_POLITE &&
            dir_lock_take(&dir->locks, DIR_LOCK_KEEP, DIR_LOCK_SHARED, change->deadline, &keep,
                          change->error) != HF_OK) {
            change->status = change->error->status;
            return;
        }
        start_over(change);
        apply_once(dir, &change, 1);
    }
    if (keep.fd >= 0)
        dir_lock_drop(&dir->locks, &keep);
}

static void apply_changes(struct dir_store *dir, struct change *const *changes, size_t count)
{
    apply_once(dir, changes, count);
    for (size_t i = 0; i < count; i++)
        apply_with_retries(dir, changes[i]);
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

/* The file of a put, before it has its name. */
struct new_object {
    struct change change;
    struct dir_new file;
    struct etag etag;
};

static void write_new_object(struct dir_store *dir, struct put_call *call,
                             struct source *source, struct new_object *new)
{
    struct change *change = &new->change;
    struct hf_error *error = &call->error;
    init_change(change, dir, call->key, &call->condition, call->deadline, error);
    change->quiet = call->quiet;
    if (change->status == HF_OK)
        change->status = check_condition_early(dir, change, error);
    if (change->status == HF_OK)
        change->status = dir_temp_make(&dir->temp, call->give ? source->fd : -1, &new->file,
                                       &source->given, error);
    if (change->status != HF_OK)
        return;
    change->file = &new->file;
    change->status = fill_new_file(new->file.fd, source, error);
    if (change->status == HF_OK)
        change->status = dir_file_label(new->file.fd, new->file.random, &new->etag, error);
}

/* Starting all writes before waiting for the first lets the disk do them together. The first call
 * is only a hint; the fsync counts. */
static void sync_new_objects(struct env *env, struct new_object *news, size_t count)
{
    struct sync_round round = { .count = 0 };
    for (size_t i = 0; i < count; i++) {
        if (news[i].change.status != HF_OK)
            continue;
        if (count > 1)
            (void)!sync_file_range(news[i].file.fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        round.fds[round.count++] = news[i].file.fd;
    }
    parallel_run(env, round.count, sync_one, &round);
    for (size_t i = 0, at = 0; i < count; i++) {
        struct change *change = &news[i].change;
        int failed = change->status == HF_OK ? round.failed[at++] : 0;
        if (failed != 0)
            change->status = error_from_errno(change->error, failed, "sync the new file");
    }
}

static void put_group(struct dir_store *dir, struct put_call *calls, struct source *sources,
                      struct new_object *news, size_t count)
{
    struct change *changes[GROUP_MAX] = { NULL };
    for (size_t i = 0; i < count; i++) {
        write_new_object(dir, &calls[i], &sources[i], &news[i]);
        changes[i] = &news[i].change;
    }
    if (dir->sync)
        sync_new_objects(dir->base.env, news, count);
    apply_changes(dir, changes, count);
    for (size_t i = 0; i < count; i++) {
        if (changes[i]->status == HF_OK) {
            error_clear(&calls[i].error);
            calls[i].etag = news[i].etag;
        }
        if (changes[i]->file)
            dir_new_release(&news[i].file, /* keep */ changes[i]->status == HF_UNSURE);
    }
}

/* Without memory for a group, its calls are made one by one. */
void dir_put(struct store *store, struct put_call *calls, size_t count)
{
    struct new_object one, *many = count > 1 ? malloc(GROUP_MAX * sizeof *many) : NULL;
    struct source sources[GROUP_MAX];
    for (size_t at = 0, size; at < count; at += size) {
        size = calls_at_once(many != NULL, count - at);
        for (size_t i = 0; i < size; i++)
            sources[i] = (struct source){ .body = calls[at + i].body, .fd = -1 };
        put_group(dir_of(store), &calls[at], sources, many ? many : &one, size);
    }
    free(many);
}

void dir_put_file(struct store *store, struct put_call *call, int fd,
                  const struct progress *progress)
{
    struct source source = { .fd = fd, .progress = progress };
    struct new_object new;
    put_group(dir_of(store), call, &source, &new, 1);
}

/* ---- Delete -------------------------------------------------------------------------- */

static void remove_group(struct dir_store *dir, struct delete_call *calls,
                         struct change *removals, size_t count)
{
    struct change *changes[GROUP_MAX] = { NULL };
    for (size_t i = 0; i < count; i++) {
        changes[i] = &removals[i];
        init_change(changes[i], dir, calls[i].key, &calls[i].condition, calls[i].deadline,
                    &calls[i].error);
    }
    apply_changes(dir, changes, count);
    for (size_t i = 0; i < count; i++) {
        if (changes[i]->status != HF_OK)
            continue;
        error_clear(&calls[i].error);
        dir_folder_prune(dir, &changes[i]->path);
    }
}

void dir_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct change one, *many = count > 1 ? malloc(GROUP_MAX * sizeof *many) : NULL;
    for (size_t at = 0, size; at < count; at += size) {
        size = calls_at_once(many != NULL, count - at);
        remove_group(dir_of(store), &calls[at], many ? many : &one, size);
    }
    free(many);
}
