#include "store/dir/lock.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Waiting starts with short steps, since most holders need microseconds, and ends with long
 * ones, since some need a disk. */
#define WAIT_US_MIN 50
#define WAIT_US_MAX 4000

/* ---- The file ------------------------------------------------------------------------ */

/* Room for all marks at once: a delete must work on a full disk too. fallocate changes no byte
 * that is there, whoever else does the same. Without room the file stays sparse. */
static void reserve_marks(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size < DIR_STRIPES &&
        fallocate(fd, 0, 0, DIR_STRIPES) != 0 && errno != ENOSPC)
        (void)!ftruncate(fd, DIR_STRIPES);
}

static bool ignores_case(int root)
{
    int fd = openat(root, "%LOCK", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

enum hf_status dir_locks_open(struct dir_locks *locks, struct env *env, int root, bool sync,
                              struct hf_error *error)
{
    *locks = (struct dir_locks){ .env = env, .root = root, .sync = sync, .writable = true };
    locks->fd = openat(root, DIR_LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (locks->fd < 0 && (errno == EROFS || errno == EACCES || errno == EPERM)) {
        locks->writable = false;
        locks->fd = openat(root, DIR_LOCK_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (locks->fd < 0 && errno != ENOENT && errno != EACCES)
            return error_from_errno(error, errno, "open the lock file");
    } else if (locks->fd < 0) {
        return error_from_errno(error, errno, "make the lock file");
    }
    if (locks->writable)
        reserve_marks(locks->fd);
    if (locks->fd >= 0 && ignores_case(root)) {
        close(locks->fd);
        return error_set(error, HF_UNSUPPORTED,
                         "this file system takes 'a' and 'A' for one name; use a folder that "
                         "tells them apart");
    }
    env_mutex_init(env, &locks->idle.mutex);
    return HF_OK;
}

void dir_locks_close(struct dir_locks *locks)
{
    while (locks->idle.count > 0)
        close(locks->idle.fds[--locks->idle.count]);
    env_mutex_release(&locks->idle.mutex);
    if (locks->fd >= 0)
        close(locks->fd);
}

int64_t dir_stripe(struct view path)
{
    return (int64_t)(hash_xxh3(path) % DIR_STRIPES);
}

/* ---- Locks --------------------------------------------------------------------------- */

/* A description of its own for each lock that is held. */
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

static int set_lock(int fd, int64_t at, short type)
{
    struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &range);
}

static short lock_type(enum dir_lock_mode mode)
{
    return mode == DIR_LOCK_SHARED ? F_RDLCK : F_WRLCK;
}

static bool is_busy(int errno_value)
{
    return errno_value == EAGAIN || errno_value == EACCES || errno_value == EINTR;
}

/* Sleeps a growing, jittered step; false once the deadline has come. */
static bool wait_step(struct env *env, int64_t *step_us, struct mono_time deadline)
{
    struct mono_time now = env_now(env);
    if (!mono_before(now, deadline))
        return false;
    struct span step = SPAN_US(*step_us / 2 + env_jitter(env, SPAN_US(*step_us / 2)).us);
    env_sleep_until(env, mono_earlier(mono_add(now, step), deadline));
    if (*step_us < WAIT_US_MAX)
        *step_us *= 2;
    return true;
}

enum hf_status dir_lock_take(struct dir_locks *locks, int64_t at, enum dir_lock_mode mode,
                             struct mono_time deadline, struct dir_lock *ret_lock,
                             struct hf_error *error)
{
    int fd = take_fd(locks);
    if (fd < 0)
        return error_from_errno(error, errno == ENOENT ? EIO : errno, "open the lock file");
    int64_t step_us = WAIT_US_MIN;
    while (set_lock(fd, at, lock_type(mode)) != 0) {
        int failed = errno;
        if (is_busy(failed) && wait_step(locks->env, &step_us, deadline))
            continue;
        give_fd(locks, fd);
        if (is_busy(failed))
            return error_set(error, HF_UNAVAILABLE,
                             "somebody else kept the object's lock for too long");
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

void dir_lock_drop(struct dir_locks *locks, struct dir_lock *lock)
{
    if (set_lock(lock->fd, lock->at, F_UNLCK) == 0)
        give_fd(locks, lock->fd);
    else
        close(lock->fd);
    lock->fd = -1;
}

/* ---- Marks --------------------------------------------------------------------------- */

/* A file that ends before the byte, or that nobody has made, has no marks. */
static enum hf_status read_mark(struct dir_locks *locks, int64_t stripe, bool *ret_marked,
                                struct hf_error *error)
{
    char byte = 0;
    if (locks->sync && locks->fd >= 0 && pread(locks->fd, &byte, 1, stripe) < 0)
        return error_from_errno(error, errno, "read the lock file");
    *ret_marked = byte != 0;
    return HF_OK;
}

enum hf_status dir_stripe_mark(struct dir_locks *locks, int64_t stripe, struct hf_error *error)
{
    if (locks->sync && pwrite(locks->fd, "\1", 1, stripe) != 1)
        return error_from_errno(error, errno, "write the lock file");
    return HF_OK;
}

void dir_stripe_clear(struct dir_locks *locks, int64_t stripe)
{
    if (locks->sync && locks->writable)
        (void)!pwrite(locks->fd, "", 1, stripe);
}

/* With the stripe held, shared or exclusively, so no writer is under way: a mark is that of a
 * dead one. It may have changed any directory, so all are synced. */
static enum hf_status settle_held(struct dir_locks *locks, int64_t stripe,
                                  struct hf_error *error)
{
    bool marked = false;
    if (read_mark(locks, stripe, &marked, error) != HF_OK)
        return error->status;
    if (!marked)
        return HF_OK;
    if (syncfs(locks->root) != 0)
        return error_from_errno(error, errno, "sync what a dead writer left");
    dir_stripe_clear(locks, stripe);
    return HF_OK;
}

enum hf_status dir_stripe_take(struct dir_locks *locks, int64_t stripe,
                               struct mono_time deadline, struct dir_lock *ret_lock,
                               struct hf_error *error)
{
    if (!locks->writable)
        return error_set(error, HF_DENIED, "the folder may not be written to");
    if (dir_lock_take(locks, stripe, DIR_LOCK_EXCLUSIVE, deadline, ret_lock, error) != HF_OK)
        return error->status;
    enum hf_status status = settle_held(locks, stripe, error);
    if (status != HF_OK)
        dir_lock_drop(locks, ret_lock);
    return status;
}

enum hf_status dir_settle(struct dir_locks *locks, int64_t stripe, struct mono_time deadline,
                          struct hf_error *error)
{
    int64_t step_us = WAIT_US_MIN;
    for (;;) {
        bool marked = false;
        if (read_mark(locks, stripe, &marked, error) != HF_OK)
            return error->status;
        if (!marked)
            return HF_OK;
        struct dir_lock lock;
        if (dir_lock_try(locks, stripe, DIR_LOCK_SHARED, &lock)) {
            enum hf_status status = settle_held(locks, stripe, error);
            dir_lock_drop(locks, &lock);
            return status;
        }
        if (!wait_step(locks->env, &step_us, deadline))
            return error_set(error, HF_UNAVAILABLE,
                             "a write of the object took too long to reach the disk");
    }
}

enum hf_status dir_settle_all(struct dir_locks *locks, struct mono_time deadline,
                              struct hf_error *error)
{
    if (!locks->sync || locks->fd < 0)
        return HF_OK;
    char *marks = calloc(1, DIR_STRIPES);
    if (!marks)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    ssize_t size = pread(locks->fd, marks, DIR_STRIPES, 0);
    if (size < 0)
        status = error_from_errno(error, errno, "read the lock file");
    for (ssize_t at = 0; status == HF_OK && at < size; at++) {
        const char *next = memchr(marks + at, 1, (size_t)(size - at));
        if (!next)
            break;
        at = next - marks;
        status = dir_settle(locks, at, deadline, error);
    }
    free(marks);
    return status;
}
