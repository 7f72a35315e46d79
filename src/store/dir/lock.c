#include "store/dir/lock.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Waiting starts with short steps, since most holders need microseconds, and ends with long
 * ones, since some need a disk. */
#define WAIT_US_MIN 50
#define WAIT_US_MAX 4000

/* ---- The files ----------------------------------------------------------------------- */

#define FILE_FLAGS (O_CLOEXEC | O_NOFOLLOW)

/* The number of moves stands behind the marks, and those of writers behind it. */
#define MOVES_AT   DIR_STRIPES
#define WRITERS_AT (MOVES_AT + sizeof(uint64_t))
#define MARKS_SIZE (WRITERS_AT + DIR_WRITERS * sizeof(uint64_t))

/* Room for all marks at once: a delete must work on a full disk too. fallocate changes no byte
 * that is there, whoever else does the same. Without room the file stays sparse. */
static void reserve_marks(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size < (off_t)MARKS_SIZE &&
        fallocate(fd, 0, 0, MARKS_SIZE) != 0 && errno != ENOSPC)
        (void)!ftruncate(fd, MARKS_SIZE);
}

static bool ignores_case(int root)
{
    return faccessat(root, "%LOCK", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The mode without the right to read of those who may not write. */
static mode_t writers_only(mode_t mode)
{
    return mode & (0222 | (mode & 0222) << 1);
}

/* False unless something has the name then. Some file systems know only one of the two calls. */
static bool give_name(int root, const char *from, const char *name)
{
    if (renameat2(root, from, root, name, RENAME_NOREPLACE) == 0 || errno == EEXIST)
        return true;
    return (errno == EINVAL || errno == ENOSYS) &&
           (linkat(root, from, root, name, 0) == 0 || errno == EEXIST);
}

/* A name of its own until it has its mode, so that nobody can open it before. */
static int make_lock_file(struct dir_locks *locks)
{
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%s-%016" PRIx64, DIR_LOCK_FILE, env_random_u64(locks->env));
    int fd = openat(locks->root, name, O_RDWR | O_CREAT | O_EXCL | FILE_FLAGS, 0666);
    if (fd < 0)
        return -1;
    bool made = fstat(fd, &st) == 0 && fchmod(fd, writers_only(st.st_mode & 0777)) == 0 &&
                give_name(locks->root, name, DIR_LOCK_FILE);
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
        return error_from_errno(error, errno, "make the lock file");
    locks->fd = openat(locks->root, DIR_LOCK_FILE, O_RDONLY | FILE_FLAGS);
    if (locks->fd < 0 && errno != ENOENT && errno != EACCES)
        return error_from_errno(error, errno, "open the lock file");
    return HF_OK;
}

/* Whoever may lock may mark. The lock file of an earlier version could be read by all, and had the
 * marks; what they stand for is made durable once. */
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
    if (writers_only(lock.st_mode & 0777) != (lock.st_mode & 0777))
        (void)!fchmod(locks->fd, writers_only(lock.st_mode & 0777));
    if (marks.st_size < (off_t)MARKS_SIZE) {
        if (lock.st_size > 0 && syncfs(locks->root) != 0)
            return error_from_errno(error, errno, "sync what an earlier version marked");
        (void)!fchmod(locks->marks, (marks.st_mode | lock.st_mode) & 0666);
        reserve_marks(locks->marks);
    }
    return HF_OK;
}

static void close_files(struct dir_locks *locks)
{
    if (locks->fd >= 0)
        close(locks->fd);
    if (locks->marks >= 0)
        close(locks->marks);
}

static uint64_t read_moves(const struct dir_locks *locks);

/* A mover that died has left an odd number, which those who may not lock wait for. */
static void end_move_of_the_dead(struct dir_locks *locks)
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
        error_set(
            error, HF_UNSUPPORTED,
            "this file system takes 'a' and 'A' for one name; use a folder that tells them "
            "apart");
    if (error->status != HF_OK) {
        close_files(locks);
        return error->status;
    }
    uint64_t drawn = env_random_u64(env);
    locks->writer = (size_t)(drawn % DIR_WRITERS);
    locks->id = drawn >> 32;
    atomic_init(&locks->changes, 0);
    env_mutex_init(env, &locks->idle.mutex);
    end_move_of_the_dead(locks);
    return HF_OK;
}

void dir_locks_close(struct dir_locks *locks)
{
    while (locks->idle.count > 0)
        close(locks->idle.fds[--locks->idle.count]);
    env_mutex_release(&locks->idle.mutex);
    close_files(locks);
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
    return syncfs(locks->root) == 0 ? HF_OK
                                    : error_from_errno(error, errno, "sync what a writer left");
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
        if (locks->fd < 0)
            return sync_all(locks, error);
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
    if (!locks->sync || locks->marks < 0)
        return HF_OK;
    char *marks = calloc(1, DIR_STRIPES);
    if (!marks)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    ssize_t size = pread(locks->marks, marks, DIR_STRIPES, 0);
    if (size < 0)
        status = error_from_errno(error, errno, "read the marks file");
    if (size > 0 && locks->fd < 0) { /* once for all of them */
        status = memchr(marks, 1, (size_t)size) ? sync_all(locks, error) : HF_OK;
        size = 0;
    }
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
    int64_t step_us = WAIT_US_MIN;
    while ((*ret_moves = read_moves(locks)) & 1)
        if (!wait_step(locks->env, &step_us, deadline))
            return error_set(error, HF_UNAVAILABLE,
                             "a file of the store is being moved for too long");
    return HF_OK;
}

/* ---- Changes of others --------------------------------------------------------------- */

/* Another writer, dead or alive, may have used our slot: what we replace goes on counting as its
 * number, so that a change of ours does not look like one of others. */
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

/* The file may end before them: then nobody has written yet. */
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
