/* SPDX-License-Identifier: Apache-2.0 */
/* write_notify.c: the notify file of a local store: ringing it, watching it with inotify, and
 * listening. A write that is committed while nobody is listening, or while the notify file is
 * removed and created again, is never missed. */
#include "store/write_notify.h"

#include "store/toolkit.h"

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

/* A ring, or any event after which the name may belong to another file. */
#define EVENTS (IN_OPEN | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)

/* The kernel merges consecutive equal events, so there are never many. Events that do not fit are
 * read the next time. */
#define EVENTS_BYTES 1024

/* How many times the notify file may be removed between the search for it and the watch. */
#define WATCH_TRIES_MAX 8

/* poll uses a clock that stops during suspend (see env/real.c), so it sleeps in short slices. */
#define POLL_SLICE SPAN_S(1)

/* Not in linux/magic.h. */
#define ZFS_MAGIC      0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e

/* ---- Creating and releasing ---------------------------------------------------------- */

/* File systems that only this kernel changes. On a file system that is shared with other
 * machines, a watch would miss their writes. */
static bool is_local_filesystem(const struct statfs *system)
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

void write_notify_init(struct write_notify *notify, struct env *env, int folder,
                       const char *name, const char *like, bool writable)
{
    *notify =
        (struct write_notify){ .env = env, .pid = getpid(), .folder = folder, .like = like };
    int size = snprintf(notify->name, sizeof notify->name, "%s", name);
    struct statfs system;
    int failed = folder == AT_FDCWD ? statfs(like, &system) : fstatfs(folder, &system);
    notify->unsupported = !writable || size >= (int)sizeof notify->name || failed ||
                          !is_local_filesystem(&system);
    atomic_init(&notify->unwatched, notify->unsupported);
    notify->shared.fd = -1;
    notify->shared.watch = -1;
    notify->shared.heard = 1;
    env_mutex_init(env, &notify->shared.mutex);
    env_cond_init(env, &notify->shared.turned);
}

void write_notify_release(struct write_notify *notify)
{
    if (notify->shared.fd >= 0)
        close(notify->shared.fd);
    if (getpid() != notify->pid)
        return;
    env_cond_release(&notify->shared.turned);
    env_mutex_release(&notify->shared.mutex);
}

/* ---- Ringing ------------------------------------------------------------------------- */

/* If the notify file cannot be opened, for example because this process has no descriptor left,
 * setting the times of the file also notifies its watchers. */
void write_notify_ring_file(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0)
        close(fd);
    else if (errno != ENOENT)
        (void)!utimensat(folder, name, /* now */ NULL, AT_SYMLINK_NOFOLLOW);
}

void write_notify_ring(const struct write_notify *notify)
{
    if (!notify->unsupported)
        write_notify_ring_file(notify->folder, notify->name);
}

/* ---- Watching ------------------------------------------------------------------------ */

/* Creates the notify file with the owner and the mode of `like`. If `like` is missing, the store
 * itself is gone and needs no notify file. */
static void make_notify(const struct write_notify *notify)
{
    struct stat like;
    if (fstatat(notify->folder, notify->like, &like, 0) != 0)
        return;
    mode_t mode = like.st_mode & 0666;
    int fd = openat(notify->folder, notify->name,
                    O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return;
    file_make_like(fd, &like, mode);
    close(fd);
}

/* An O_PATH descriptor refers to the file without ringing it. */
static int find_or_make(const struct write_notify *notify)
{
    int flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    int file = openat(notify->folder, notify->name, flags);
    if (file >= 0 || errno != ENOENT)
        return file;
    make_notify(notify);
    return openat(notify->folder, notify->name, flags);
}

/* Watches the file that has the name now, and stops watching the one that had it before. Watching
 * the same file again changes nothing. False with *ret_again: the name belongs to another file by
 * now. */
static bool watch_locked(struct write_notify *notify, bool *ret_again)
{
    char path[32];
    *ret_again = false;
    int file = find_or_make(notify);
    if (file < 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int watch = inotify_add_watch(notify->shared.fd, path, EVENTS);
    bool good = watch >= 0 && file_has_name(file, notify->folder, notify->name);
    close(file);
    if (notify->shared.watch >= 0 && notify->shared.watch != watch)
        (void)inotify_rm_watch(notify->shared.fd, notify->shared.watch);
    notify->shared.watch = watch;
    *ret_again = watch >= 0 && !good;
    return good;
}

/* Establishes the watch. If that fails, the store does not listen until a later attempt works.
 * Only the task that polls may call this, or any task while none polls. */
static void start_watch_locked(struct write_notify *notify)
{
    bool good = false;
    if (notify->shared.fd < 0)
        notify->shared.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    bool again = notify->shared.fd >= 0;
    for (int i = 0; i < WATCH_TRIES_MAX; i++) {
        if (!again)
            break;
        good = watch_locked(notify, &again);
    }
    if (!good && notify->shared.fd >= 0) {
        close(notify->shared.fd);
        notify->shared.fd = -1;
        notify->shared.watch = -1;
    }
    atomic_store(&notify->unwatched, !good);
}

/* ---- Listening ----------------------------------------------------------------------- */

bool write_notify_listens(const struct write_notify *notify)
{
    return getpid() == notify->pid && !atomic_load(&notify->unwatched);
}

/* A ticket that differs from the count makes its listener return. */
static void count_ring_locked(struct write_notify *notify)
{
    notify->shared.heard++;
    if (notify->shared.waiting > 0)
        env_cond_broadcast(&notify->shared.turned);
}

/* Reads the events. Any event but a ring may mean that the name belongs to another file now.
 * IN_IGNORED, which ends a watch, does not count, because another event announces it. */
static void read_events_locked(struct write_notify *notify)
{
    char events[EVENTS_BYTES];
    ssize_t size = read(notify->shared.fd, events, sizeof events);
    if (size <= 0)
        return;
    bool strange = false;
    struct inotify_event event;
    for (size_t at = 0; at + sizeof event <= (size_t)size; at += sizeof event + event.len) {
        memcpy(&event, events + at, sizeof event);
        strange = strange || (event.mask & ~(uint32_t)(IN_OPEN | IN_IGNORED)) != 0;
    }
    if (strange)
        start_watch_locked(notify);
    count_ring_locked(notify);
}

/* Waits for events until the given time, and returns whether there are any. May return early. */
static bool poll_notify(struct env *env, int fd, struct mono_time until)
{
    struct pollfd notify = { .fd = fd, .events = POLLIN };
    struct span left = mono_since(until, env_now(env));
    left = span_smaller(left.us > 0 ? left : SPAN_US(0), POLL_SLICE);
    struct timespec slice = { .tv_sec = left.us / 1000000,
                              .tv_nsec = left.us % 1000000 * 1000 };
    return ppoll(&notify, 1, until.us >= MOMENT_FAR ? NULL : &slice, /* sigmask */ NULL) > 0;
}

static void poll_locked(struct write_notify *notify, struct mono_time until)
{
    int fd = notify->shared.fd;
    notify->shared.polled = true;
    env_mutex_unlock(&notify->shared.mutex);
    bool rung = poll_notify(notify->env, fd, until);
    env_mutex_lock(&notify->shared.mutex);
    notify->shared.polled = false;
    if (rung)
        read_events_locked(notify);
}

/* Waits while another task polls. At the deadline that task may not have read the last ring yet. So
 * this task checks for events itself and counts them; the polling task will count them once
 * more. */
static void wait_beside_locked(struct write_notify *notify, struct mono_time until)
{
    struct mono_time now = { 0 };
    notify->shared.waiting++;
    bool in_time = env_cond_wait_until(&notify->shared.turned, &notify->shared.mutex, until);
    notify->shared.waiting--;
    if (!in_time && notify->shared.polled && poll_notify(notify->env, notify->shared.fd, now))
        count_ring_locked(notify);
}

/* Waits until the count differs from the ticket, or until the given time. */
static void listen_locked(struct write_notify *notify, uint64_t ticket, struct mono_time until)
{
    bool in_time = true;
    while (in_time && notify->shared.fd >= 0 && notify->shared.heard == ticket) {
        if (notify->shared.polled)
            wait_beside_locked(notify, until);
        else
            poll_locked(notify, until);
        in_time = mono_before(env_now(notify->env), until);
    }
    /* This task stops polling, so a waiting one must take its place. */
    if (!notify->shared.polled && notify->shared.waiting > 0)
        env_cond_signal(&notify->shared.turned);
}

bool write_notify_listen(struct write_notify *notify, uint64_t *ticket, struct mono_time until)
{
    if (getpid() != notify->pid)
        return true;
    env_mutex_lock(&notify->shared.mutex);
    if (notify->shared.fd < 0 && !notify->unsupported) {
        start_watch_locked(notify);
        /* Writes before the watch were not counted, so every listener must read once after it. */
        if (notify->shared.fd >= 0)
            notify->shared.heard++;
    }
    listen_locked(notify, *ticket, until);
    bool news = *ticket != notify->shared.heard;
    bool watched = notify->shared.fd >= 0;
    *ticket = notify->shared.heard;
    env_mutex_unlock(&notify->shared.mutex);
    if (!news && !watched)
        env_sleep_until(notify->env, until);
    return news;
}
