#include "store/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* A ring, or what can make the watched file another than the one that has the name. */
#define EVENTS (IN_OPEN | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)

/* Equal events that follow each other are one, so there are never many; what does not fit is
 * heard the next time. */
#define EVENTS_BYTES 1024

/* So often the bell may be removed between finding and watching it. */
#define WATCH_TRIES_MAX 8

/* poll counts by a clock that stands still in suspend: see env/real.c. */
#define POLL_SLICE SPAN_S(1)

/* Not in linux/magic.h. */
#define ZFS_MAGIC      0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e

/* ---- Life ---------------------------------------------------------------------------- */

/* File systems whose files change by no other hand than this kernel's. On one that is shared
 * with other machines a watch would miss what these do. */
static bool is_local(const struct statfs *system)
{
    switch ((unsigned long)system->f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case ZFS_MAGIC:
    case BCACHEFS_MAGIC: return true;
    default: return false;
    }
}

void bell_init(struct bell *bell, struct env *env, int folder, const char *name,
               const char *like, bool writable)
{
    *bell = (struct bell){ .env = env, .folder = folder, .like = like };
    int size = snprintf(bell->name, sizeof bell->name, "%s", name);
    struct statfs system;
    int failed = folder == AT_FDCWD ? statfs(like, &system) : fstatfs(folder, &system);
    bell->hopeless =
        !writable || size >= (int)sizeof bell->name || failed || !is_local(&system);
    atomic_init(&bell->deaf, bell->hopeless);
    bell->shared.fd = -1;
    bell->shared.watch = -1;
    bell->shared.heard = 1;
    env_mutex_init(env, &bell->shared.mutex);
    env_cond_init(env, &bell->shared.turned);
}

void bell_release(struct bell *bell, bool forked)
{
    if (bell->shared.fd >= 0)
        close(bell->shared.fd);
    if (forked)
        return;
    env_cond_release(&bell->shared.turned);
    env_mutex_release(&bell->shared.mutex);
}

/* ---- Ringing ------------------------------------------------------------------------- */

/* Where the bell cannot be opened, as when this process has no descriptor left, new times of the
 * file are heard as well. */
void bell_ring(const struct bell *bell)
{
    if (bell->hopeless)
        return;
    int fd = openat(bell->folder, bell->name,
                    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0)
        close(fd);
    else if (errno != ENOENT)
        (void)!utimensat(bell->folder, bell->name, /* now */ NULL, AT_SYMLINK_NOFOLLOW);
}

/* ---- Watching ------------------------------------------------------------------------ */

/* Without the file that it is to be like, the store itself is gone, and needs no bell. */
static void make_bell(const struct bell *bell)
{
    struct stat like;
    if (fstatat(bell->folder, bell->like, &like, 0) != 0)
        return;
    mode_t mode = like.st_mode & 0666;
    int fd = openat(bell->folder, bell->name,
                    O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return;
    (void)!fchown(fd, like.st_uid, like.st_gid);
    (void)!fchmod(fd, mode);
    close(fd);
}

/* An O_PATH descriptor names the file without ringing it. */
static int find_or_make(const struct bell *bell)
{
    int flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    int file = openat(bell->folder, bell->name, flags);
    if (file >= 0 || errno != ENOENT)
        return file;
    make_bell(bell);
    return openat(bell->folder, bell->name, flags);
}

static bool has_the_name(const struct bell *bell, int file)
{
    struct stat watched;
    struct stat named;
    return fstat(file, &watched) == 0 &&
           fstatat(bell->folder, bell->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           watched.st_dev == named.st_dev && watched.st_ino == named.st_ino;
}

/* Watches the file that has the name now; the one that had it before no more. To watch it again
 * changes nothing. False with *ret_again: the name has gone to another file meanwhile. */
static bool watch_locked(struct bell *bell, bool *ret_again)
{
    char path[32];
    *ret_again = false;
    int file = find_or_make(bell);
    if (file < 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int watch = inotify_add_watch(bell->shared.fd, path, EVENTS);
    bool good = watch >= 0 && has_the_name(bell, file);
    close(file);
    if (bell->shared.watch >= 0 && bell->shared.watch != watch)
        (void)inotify_rm_watch(bell->shared.fd, bell->shared.watch);
    bell->shared.watch = watch;
    *ret_again = watch >= 0 && !good;
    return good;
}

/* Makes sure of the watch, or else of nothing: then the store is deaf until it works again. The
 * caller is the one who polls, or nobody does. */
static void tune_in_locked(struct bell *bell)
{
    bool good = false;
    bool again = true;
    if (bell->shared.fd < 0)
        bell->shared.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    for (int i = 0; bell->shared.fd >= 0 && again && i < WATCH_TRIES_MAX; i++)
        good = watch_locked(bell, &again);
    if (!good && bell->shared.fd >= 0) {
        close(bell->shared.fd);
        bell->shared.fd = -1;
        bell->shared.watch = -1;
    }
    atomic_store(&bell->deaf, !good);
}

/* ---- Listening ----------------------------------------------------------------------- */

bool bell_listens(const struct bell *bell)
{
    return !atomic_load(&bell->deaf);
}

/* Whoever's ticket is older than this has news. */
static void count_locked(struct bell *bell)
{
    bell->shared.heard++;
    if (bell->shared.waiting > 0)
        env_cond_broadcast(&bell->shared.turned);
}

/* Takes the events out. Any that says more than that the bell was rung, or that a watch has ended
 * (which another has foretold), may mean that the name belongs to another file now. */
static void hear_locked(struct bell *bell)
{
    char events[EVENTS_BYTES];
    ssize_t size = read(bell->shared.fd, events, sizeof events);
    if (size <= 0)
        return;
    bool strange = false;
    struct inotify_event event;
    for (size_t at = 0; at + sizeof event <= (size_t)size; at += sizeof event + event.len) {
        memcpy(&event, events + at, sizeof event);
        strange = strange || (event.mask & ~(uint32_t)(IN_OPEN | IN_IGNORED)) != 0;
    }
    if (strange)
        tune_in_locked(bell);
    count_locked(bell);
}

/* Are there events, now or before long? Returns early at times. */
static bool poll_bell(struct env *env, int fd, struct mono_time until)
{
    struct pollfd bell = { .fd = fd, .events = POLLIN };
    struct span left = mono_since(until, env_now(env));
    left = span_smaller(left.us > 0 ? left : SPAN_US(0), POLL_SLICE);
    struct timespec slice = { .tv_sec = left.us / 1000000,
                              .tv_nsec = left.us % 1000000 * 1000 };
    return ppoll(&bell, 1, until.us >= MOMENT_FAR ? NULL : &slice, /* sigmask */ NULL) > 0;
}

static void poll_locked(struct bell *bell, struct mono_time until)
{
    int fd = bell->shared.fd;
    bell->shared.polled = true;
    env_mutex_unlock(&bell->shared.mutex);
    bool rung = poll_bell(bell->env, fd, until);
    env_mutex_lock(&bell->shared.mutex);
    bell->shared.polled = false;
    if (rung)
        hear_locked(bell);
}

/* Beside the one who polls. If the bell was rung at the last moment, that one may not have heard
 * it yet: it will, and count it once more. */
static void wait_locked(struct bell *bell, struct mono_time until)
{
    struct mono_time now = { 0 };
    bell->shared.waiting++;
    bool in_time = env_cond_wait_until(&bell->shared.turned, &bell->shared.mutex, until);
    bell->shared.waiting--;
    if (!in_time && bell->shared.polled && poll_bell(bell->env, bell->shared.fd, now))
        count_locked(bell);
}

/* Until the count differs from the ticket, or the moment. */
static void listen_locked(struct bell *bell, uint64_t ticket, struct mono_time until)
{
    bool in_time = true;
    while (in_time && bell->shared.fd >= 0 && bell->shared.heard == ticket) {
        if (bell->shared.polled)
            wait_locked(bell, until);
        else
            poll_locked(bell, until);
        in_time = mono_before(env_now(bell->env), until);
    }
    if (!bell->shared.polled && bell->shared.waiting > 0)
        env_cond_signal(&bell->shared.turned);
}

bool bell_listen(struct bell *bell, uint64_t *ticket, struct mono_time until)
{
    env_mutex_lock(&bell->shared.mutex);
    if (bell->shared.fd < 0 && !bell->hopeless) {
        tune_in_locked(bell);
        if (bell->shared.fd >= 0)
            bell->shared.heard++;
    }
    listen_locked(bell, *ticket, until);
    bool news = *ticket != bell->shared.heard;
    bool deaf = bell->shared.fd < 0;
    *ticket = bell->shared.heard;
    env_mutex_unlock(&bell->shared.mutex);
    if (!news && deaf)
        env_sleep_until(bell->env, until);
    return news;
}
