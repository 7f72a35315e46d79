/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c: the lock file and the marks file of a `dir:` store. Locks keep two writers of one path
 * apart; marks stop a reader from reporting a change that a power loss could still undo. */
#include "store/dir/lock.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "store/toolkit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The longest pause while waiting for a lock. */
#define WAIT_MAX SPAN_MS(4)

/* ---- The files ----------------------------------------------------------------------- */

#define FILE_FLAGS (O_CLOEXEC | O_NOFOLLOW)

/* The count of moves follows the marks, and the numbers of the writers follow the count. */
#define MOVES_AT   DIR_STRIPES
#define WRITERS_AT (MOVES_AT + sizeof(uint64_t))
#define MARKS_SIZE (WRITERS_AT + DIR_WRITERS * sizeof(uint64_t))

/* Reserves room for all marks in one step, because a delete must also work on a full disk.
 * fallocate changes no existing byte, so several processes may do this. On a full disk the file
 * stays sparse. */
static void reserve_marks(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size < (off_t)MARKS_SIZE &&
        fallocate(fd, 0, 0, MARKS_SIZE) != 0 && errno != ENOSPC)
        (void)!ftruncate(fd, MARKS_SIZE);
}

static bool ignores_case(int root)
{
    /* Only "%lock" was created, so the file system ignores case if this name exists too. */
    return faccessat(root, "%LOCK", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Returns true if a file has the name afterwards, whether ours or another. Some file systems
 * support only one of the two calls. */
static bool rename_if_absent(int root, const char *from, const char *name)
{
    if (renameat2(root, from, root, name, RENAME_NOREPLACE) == 0 || errno == EEXIST)
        return true;
    return (errno == EINVAL || errno == ENOSYS) &&
           (linkat(root, from, root, name, 0) == 0 || errno == EEXIST);
}

/* Creates the file under a temporary name, so nobody can open it before its mode is set. */
static int make_lock_file(struct dir_locks *locks)
{
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%s-%016" PRIx64, DIR_LOCK_FILE, env_random_u64(locks->env));
    int fd = openat(locks->root, name, O_RDWR | O_CREAT | O_EXCL | FILE_FLAGS, 0666);
    if (fd < 0)
        return -1;
    bool made = fstat(fd, &st) == 0 && fchmod(fd, mode_of_writers(st.st_mode & 0777)) == 0 &&
                rename_if_absent(locks->root, name, DIR_LOCK_FILE);
    int failed = errno;
    close(fd);
    unlinkat(locks->root, name, 0);
    errno = failed;
    return made ? openat(locks->root, DIR_LOCK_FILE, O_RDWR | FILE_FLAGS) : -1;
}

static enum hf_status open_lock_file(struct dir_locks *locks, struct hf_error *error)
{
    locks->fd = openat(locks->root, DIR_LOCK_FILE, O_RDWR | FILE_FLAGS);
    if (locks->fd < 0 && errno == ENOENT)
        locks->fd = make_lock_file(locks);
    locks->writable = locks->fd >= 0;
    if (locks->writable)
        return HF_OK;
    if (errno != EROFS && errno != EACCES && errno != EPERM)
        return error_from_errno(error, errno, "create the lock file");
    locks->fd = openat(locks->root, DIR_LOCK_FILE, O_RDONLY | FILE_FLAGS);
    if (locks->fd < 0 && errno != ENOENT && errno != EACCES)
        return error_from_errno(error, errno, "open the lock file");
    return HF_OK;
}

/* A process that may lock may also mark. In earlier versions the lock file held the marks, and
 * everybody could read it. Changes that were marked there are made durable once. */
static enum hf_status open_marks(struct dir_locks *locks, struct hf_error *error)
{
    struct stat lock, marks;
    locks->marks = openat(locks->root, DIR_MARKS_FILE,
                          (locks->writable ? O_RDWR | O_CREAT : O_RDONLY) | FILE_FLAGS, 0666);
    if (locks->marks < 0 && !locks->writable && (errno == ENOENT || errno == EACCES))
        return HF_OK;
    if (locks->marks < 0)
        return error_from_errno(error, errno, "open the marks file");
    if (!locks->writable || fstat(locks->fd, &lock) != 0 || fstat(locks->marks, &marks) != 0)
        return HF_OK;
    if (mode_of_writers(lock.st_mode & 0777) != (lock.st_mode & 0777))
        (void)!fchmod(locks->fd, mode_of_writers(lock.st_mode & 0777));
    if (marks.st_size < (off_t)MARKS_SIZE) {
        if (lock.st_size > 0 && syncfs(locks->root) != 0)
            return error_from_errno(error, errno,
                                    "sync the changes made by an earlier version");
        (void)!fchmod(locks->marks, (marks.st_mode | lock.st_mode) & 0666);
        reserve_marks(locks->marks);
    }
    return HF_OK;
}

static void close_lock_files(struct dir_locks *locks)
{
    if (locks->fd >= 0)
        close(locks->fd);
    if (locks->marks >= 0)
        close(locks->marks);
}

static uint64_t read_moves(const struct dir_locks *locks);

/* A process that died during a move leaves an odd count, and readers without permission to lock
 * wait for it to become even. */
static void end_abandoned_move(struct dir_locks *locks)
{
    struct dir_lock move;
    if (!locks->writable || !(read_moves(locks) & 1) ||
        !dir_lock_try(locks, DIR_LOCK_MOVE, DIR_LOCK_EXCLUSIVE, &move))
        return;
    dir_move_end(locks);
    dir_lock_drop(locks, &move);
}

enum hf_status dir_locks_open(struct dir_locks *locks, struct env *env, int root, bool sync,
                              struct hf_error *error)
{
    *locks =
        (struct dir_locks){ .env = env, .root = root, .sync = sync, .fd = -1, .marks = -1 };
    error_clear(error);
    if (open_lock_file(locks, error) == HF_OK && open_marks(locks, error) == HF_OK &&
        ignores_case(root))
        error_set(error, HF_UNSUPPORTED,
                  "this file system ignores case: 'a' and 'A' are the same name; use one that "
                  "does not ignore case");
    if (error->status != HF_OK) {
        close_lock_files(locks);
        return error->status;
    }
    uint64_t drawn = env_random_u64(env);
    locks->writer = (size_t)(drawn % DIR_WRITERS);
    locks->id = drawn >> 32;
    atomic_init(&locks->changes, 0);
    env_mutex_init(env, &locks->idle.mutex);
    end_abandoned_move(locks);
    return HF_OK;
}

void dir_locks_close(struct dir_locks *locks)
{
    while (locks->idle.count > 0)
        close(locks->idle.fds[--locks->idle.count]);
    env_mutex_release(&locks->idle.mutex);
    close_lock_files(locks);
}

int64_t dir_stripe(struct view path)
{
    return (int64_t)(hash_xxh3(path) % DIR_STRIPES);
}

/* ---- Locks --------------------------------------------------------------------------- */

/* Each lock that is held needs its own open file description. */
static int take_fd(struct dir_locks *locks)
{
    int fd = -1;
    env_mutex_lock(&locks->idle.mutex);
    if (locks->idle.count > 0)
        fd = locks->idle.fds[--locks->idle.count];
    env_mutex_unlock(&locks->idle.mutex);
    if (fd >= 0)
        return fd;
    int access = locks->writable ? O_RDWR : O_RDONLY;
    return openat(locks->root, DIR_LOCK_FILE, access | O_CLOEXEC | O_NOFOLLOW);
}

static void give_fd(struct dir_locks *locks, int fd)
{
    env_mutex_lock(&locks->idle.mutex);
    bool kept = locks->idle.count < DIR_LOCKS_IDLE_MAX;
    if (kept)
        locks->idle.fds[locks->idle.count++] = fd;
    env_mutex_unlock(&locks->idle.mutex);
    if (!kept)
        close(fd);
}

static int set_locks(int fd, int64_t at, int64_t count, short type)
{
    struct flock range = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = count
    };
    return fcntl(fd, F_OFD_SETLK, &range);
}

static int set_lock(int fd, int64_t at, short type)
{
    return set_locks(fd, at, 1, type);
}

static short lock_type(enum dir_lock_mode mode)
{
    return mode == DIR_LOCK_SHARED ? F_RDLCK : F_WRLCK;
}

static bool is_busy(int errno_value)
{
    return errno_value == EAGAIN || errno_value == EACCES || errno_value == EINTR;
}

enum hf_status dir_lock_take(struct dir_locks *locks, int64_t at, enum dir_lock_mode mode,
                             struct mono_time deadline, struct dir_lock *ret_lock,
                             struct hf_error *error)
{
    int fd = take_fd(locks);
    if (fd < 0)
        return error_from_errno(error, errno == ENOENT ? EIO : errno, "open the lock file");
    /* The lock is polled, because a blocking fcntl would ignore the deadline and bypass env. */
    struct patience patience = patience_until(locks->env, deadline, WAIT_MAX);
    while (set_lock(fd, at, lock_type(mode)) != 0) {
        int failed = errno;
        if (is_busy(failed) && patience_wait(&patience))
            continue;
        give_fd(locks, fd);
        if (is_busy(failed))
            return error_set(error, HF_UNAVAILABLE,
                             "another process held the lock of the object for too long");
        return error_from_errno(error, failed, "lock");
    }
    *ret_lock = (struct dir_lock){ fd, at };
    return HF_OK;
}

bool dir_lock_try(struct dir_locks *locks, int64_t at, enum dir_lock_mode mode,
                  struct dir_lock *ret_lock)
{
    int fd = take_fd(locks);
    if (fd < 0)
        return false;
    if (set_lock(fd, at, lock_type(mode)) != 0) {
        give_fd(locks, fd);
        return false;
    }
    *ret_lock = (struct dir_lock){ fd, at };
    return true;
}

/* If the locks cannot be released, closing their only descriptor releases them too. */
static void drop_locks(struct dir_locks *locks, struct dir_lock *lock, int64_t at,
                       int64_t count)
{
    if (set_locks(lock->fd, at, count, F_UNLCK) == 0)
        give_fd(locks, lock->fd);
    else
        close(lock->fd);
    lock->fd = -1;
}

void dir_lock_drop(struct dir_locks *locks, struct dir_lock *lock)
{
    drop_locks(locks, lock, lock->at, 1);
}

void dir_stripes_drop(struct dir_locks *locks, struct dir_lock *lock)
{
    drop_locks(locks, lock, 0, DIR_STRIPES);
}

/* ---- Marks --------------------------------------------------------------------------- */

/* A byte beyond the end of the file, or a missing file, means that there is no mark. */
static enum hf_status read_mark(struct dir_locks *locks, int64_t stripe, bool *ret_marked,
                                struct hf_error *error)
{
    char byte = 0;
    if (locks->sync && locks->marks >= 0 && pread(locks->marks, &byte, 1, stripe) < 0)
        return error_from_errno(error, errno, "read the marks file");
    *ret_marked = byte != 0;
    return HF_OK;
}

enum hf_status dir_stripe_mark(struct dir_locks *locks, int64_t stripe, struct hf_error *error)
{
    if (locks->sync && pwrite(locks->marks, "\1", 1, stripe) != 1)
        return error_from_errno(error, errno, "write the marks file");
    return HF_OK;
}

void dir_stripe_clear(struct dir_locks *locks, int64_t stripe)
{
    if (locks->sync && locks->writable)
        (void)!pwrite(locks->marks, "", 1, stripe);
}

static enum hf_status sync_all(struct dir_locks *locks, struct hf_error *error)
{
    return syncfs(locks->root) == 0
               ? HF_OK
               : error_from_errno(error, errno, "sync the changes made by a writer that died");
}

/* The stripe is held, shared or exclusively, so no writer is active. If there is a mark, a writer
 * has died. It may have changed any directory, so everything is synced. */
static enum hf_status settle_held(struct dir_locks *locks, int64_t stripe,
                                  struct hf_error *error)
{
    bool marked = false;
    if (read_mark(locks, stripe, &marked, error) != HF_OK)
        return error->status;
    if (!marked)
        return HF_OK;
    if (sync_all(locks, error) != HF_OK)
        return error->status;
    dir_stripe_clear(locks, stripe);
    return HF_OK;
}

enum hf_status dir_not_writable(const struct dir_locks *locks, struct hf_error *error)
{
    char link[32], path[ERROR_PATH_MAX + 1];
    snprintf(link, sizeof link, "/proc/self/fd/%d", locks->root);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    return error_set(error, HF_DENIED, "the folder '%s' cannot be written to", path);
}

enum hf_status dir_stripe_take(struct dir_locks *locks, int64_t stripe,
                               struct mono_time deadline, struct dir_lock *ret_lock,
                               struct hf_error *error)
{
    if (!locks->writable)
        return dir_not_writable(locks, error);
    if (dir_lock_take(locks, stripe, DIR_LOCK_EXCLUSIVE, deadline, ret_lock, error) != HF_OK)
        return error->status;
    enum hf_status status = settle_held(locks, stripe, error);
    if (status != HF_OK)
        dir_lock_drop(locks, ret_lock);
    return status;
}

enum hf_status dir_stripe_add(struct dir_locks *locks, int64_t stripe, struct dir_lock *lock,
                              bool *ret_busy, struct hf_error *error)
{
    *ret_busy = false;
    if (set_lock(lock->fd, stripe, F_WRLCK) == 0)
        return settle_held(locks, stripe, error);
    *ret_busy = is_busy(errno);
    return *ret_busy ? HF_OK : error_from_errno(error, errno, "lock");
}

enum hf_status dir_settle(struct dir_locks *locks, int64_t stripe, struct mono_time deadline,
                          struct hf_error *error)
{
    struct patience patience = patience_until(locks->env, deadline, WAIT_MAX);
    for (;;) {
        bool marked = false;
        if (read_mark(locks, stripe, &marked, error) != HF_OK)
            return error->status;
        if (!marked)
            return HF_OK;
        /* Without permission to lock, we cannot find out whether the writer is still active. A sync
         * makes the change durable in any case. */
        if (locks->fd < 0)
            return sync_all(locks, error);
        /* If the lock is free, the writer that set the mark is dead or has just finished. */
        struct dir_lock lock;
        if (dir_lock_try(locks, stripe, DIR_LOCK_SHARED, &lock)) {
            enum hf_status status = settle_held(locks, stripe, error);
            dir_lock_drop(locks, &lock);
            return status;
        }
        if (!patience_wait(&patience))
            return error_set(error, HF_UNAVAILABLE,
                             "a write of the object is taking too long to reach the disk");
    }
}

enum hf_status dir_settle_all(struct dir_locks *locks, struct mono_time deadline,
                              struct hf_error *error)
{
    if (!locks->sync || locks->marks < 0)
        return HF_OK;
    char *marks = calloc(1, DIR_STRIPES);
    if (!marks)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    ssize_t size = pread(locks->marks, marks, DIR_STRIPES, 0);
    if (size < 0)
        status = error_from_errno(error, errno, "read the marks file");
    if (size > 0 && locks->fd < 0) { /* one sync covers all marks */
        status = memchr(marks, 1, (size_t)size) ? sync_all(locks, error) : HF_OK;
        size = 0;
    }
    const char *next = size > 0 ? memchr(marks, 1, (size_t)size) : NULL;
    while (next && status == HF_OK) {
        status = dir_settle(locks, next - marks, deadline, error);
        next++;
        next = memchr(next, 1, (size_t)(marks + size - next));
    }
    free(marks);
    return status;
}

/* ---- Moves --------------------------------------------------------------------------- */

static uint64_t read_moves(const struct dir_locks *locks)
{
    uint64_t moves = 0;
    if (locks->marks >= 0)
        (void)!pread(locks->marks, &moves, sizeof moves, MOVES_AT);
    return moves;
}

static bool write_moves(struct dir_locks *locks, uint64_t moves)
{
    return pwrite(locks->marks, &moves, sizeof moves, MOVES_AT) == sizeof moves;
}

enum hf_status dir_move_begin(struct dir_locks *locks, struct hf_error *error)
{
    /* Odd in any case, even if a process that died during a move has left an odd count. */
    if (!write_moves(locks, (read_moves(locks) + 1) | 1))
        return error_from_errno(error, errno, "write the marks file");
    return HF_OK;
}

void dir_move_end(struct dir_locks *locks)
{
    write_moves(locks, (read_moves(locks) | 1) + 1);
}

enum hf_status dir_moves(struct dir_locks *locks, struct mono_time deadline,
                         uint64_t *ret_moves, struct hf_error *error)
{
    struct patience patience = patience_until(locks->env, deadline, WAIT_MAX);
    while ((*ret_moves = read_moves(locks)) & 1)
        if (!patience_wait(&patience))
            return error_set(error, HF_UNAVAILABLE,
                             "a file of the store is taking too long to move");
    return HF_OK;
}

/* ---- Changes by others --------------------------------------------------------------- */

/* Another writer, dead or alive, may use the same slot. We overwrite its number, but remember it
 * and still count it as the slot's number, so that our own change does not look like a change by
 * others. */
void dir_note_change(struct dir_locks *locks)
{
    uint64_t count = atomic_fetch_add(&locks->changes, 1) + 1;
    uint64_t number = locks->id << 32 | (count & UINT32_MAX), old = 0;
    off_t at = (off_t)(WRITERS_AT + locks->writer * sizeof number);
    (void)!pread(locks->marks, &old, sizeof old, at);
    if (old >> 32 != locks->id)
        atomic_store(&locks->replaced, old);
    (void)!pwrite(locks->marks, &number, sizeof number, at);
}

/* If the file ends before the numbers, nobody has written yet. */
bool dir_changes_of_others(const struct dir_locks *locks, uint64_t *ret_mark)
{
    uint64_t numbers[DIR_WRITERS] = { 0 };
    if (locks->marks < 0 || pread(locks->marks, numbers, sizeof numbers, WRITERS_AT) < 0)
        return false;
    if (numbers[locks->writer] >> 32 == locks->id)
        numbers[locks->writer] = atomic_load(&locks->replaced);
    *ret_mark = hash_xxh3((struct view){ (const char *)numbers, sizeof numbers });
    return true;
}
