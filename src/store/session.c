/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: the sessions folder of a local store: locks that show which sessions are alive, and
 * bells that wake one of them. It never concludes that a living session is gone: in doubt, a
 * session is there. */
#include "store/session.h"

#include "base/check.h"
#include "store/toolkit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The ending of a notify file's name. The sessions folder has another ending in its place. */
#define NOTIFY_ENDING   "bell"
#define SESSIONS_ENDING "sessions"

/* Bytes before this offset are not those of sessions: the first is locked by the process that
 * writes the place. */
#define OFFSET_MIN 4096

/* Which digits of an id choose the bell, and which the offset. */
#define BELL_DIGITS   2
#define OFFSET_DIGITS 15

/* How many times, and how often, a process looks for the place that another one is writing. */
#define PLACE_TRIES_MAX 20
#define PLACE_PAUSE     SPAN_MS(1)

#define PATH_ROOM      (PATH_MAX + 32)
#define BELL_NAME_ROOM 8

/* ---- Ids ------------------------------------------------------------------------------- */

static bool read_digits(struct view text, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool letter = c >= 'a' && c <= 'f';
        if (!letter && (c < '0' || c > '9'))
            return false;
        value = value << 4 | (uint64_t)(letter ? c - 'a' + 10 : c - '0');
    }
    *ret_value = value;
    return true;
}

/* The bell and the offset of a session. False if the id is not one of ours. */
static bool read_id(struct view id, unsigned *ret_bell, off_t *ret_offset)
{
    uint64_t bell, offset;
    if (id.size < BELL_DIGITS + OFFSET_DIGITS || !read_digits(view_first(id, 2), &bell) ||
        !read_digits(view_first(view_from(id, BELL_DIGITS), OFFSET_DIGITS), &offset))
        return false;
    *ret_bell = (unsigned)bell;
    *ret_offset = (off_t)(offset + OFFSET_MIN);
    return true;
}

/* ---- The files --------------------------------------------------------------------------- */

static const struct write_notify *notify_of(const struct store_session *session)
{
    return session->local ? session->local->notify : NULL;
}

/* The path of a file in the sessions folder; of the folder itself, if `name` is empty. */
static void path_of(const struct write_notify *notify, const char *name, char path[PATH_ROOM])
{
    size_t size = strlen(notify->name) - (sizeof NOTIFY_ENDING - 1);
    snprintf(path, PATH_ROOM, "%.*s" SESSIONS_ENDING "%s%s", (int)size, notify->name,
             name[0] ? "/" : "", name);
}

/* The name of a bell's file. */
static void bell_name(unsigned bell, char name[BELL_NAME_ROOM])
{
    snprintf(name, BELL_NAME_ROOM, "%02x", bell & (SESSION_BELLS - 1));
}

/* Opens the folder; with `create`, it is made if need be. A user who may write to the store may use
 * it. A link in its place is not followed: whoever may write to the store could otherwise make us
 * write to files elsewhere. */
static int open_folder(const struct write_notify *notify, bool create)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char path[PATH_ROOM];
    struct stat like;
    path_of(notify, "", path);
    int fd = openat(notify->folder, path, flags);
    if (fd >= 0 || errno != ENOENT || !create ||
        fstatat(notify->folder, notify->like, &like, 0) != 0)
        return fd;
    mode_t mode = like.st_mode & 0666;
    mode |= (mode & 0444) >> 2; /* whoever may read it may also enter it */
    bool made = mkdirat(notify->folder, path, mode) == 0;
    fd = openat(notify->folder, path, flags);
    if (made && fd >= 0)
        file_make_like(fd, &like, mode);
    return fd;
}

static bool read_place(int fd, char place[SESSION_PLACE_SIZE + 1])
{
    uint64_t ignored;
    ssize_t size = pread(fd, place, SESSION_PLACE_SIZE, 0);
    place[SESSION_PLACE_SIZE] = '\0';
    return size == SESSION_PLACE_SIZE &&
           read_digits((struct view){ place, SESSION_PLACE_SIZE }, &ignored);
}

static bool lock_byte(int fd, short type, off_t offset)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Whether the file is one that has no place yet: it is empty, or consists of zeros, as a power loss
 * may leave it. Any other file is not ours. */
static bool lacks_place(int fd)
{
    static const char zeros[SESSION_PLACE_SIZE];
    char bytes[SESSION_PLACE_SIZE + 1];
    ssize_t size = pread(fd, bytes, sizeof bytes, 0);
    return size >= 0 && size <= SESSION_PLACE_SIZE && memcmp(bytes, zeros, (size_t)size) == 0;
}

/* Writes a place into a file that has none. Only one process does so; the others wait for it, for
 * a moment. */
static bool make_place(struct env *env, int fd, char place[SESSION_PLACE_SIZE + 1])
{
    for (int i = 0; i < PLACE_TRIES_MAX; i++) {
        if (lock_byte(fd, F_WRLCK, 0)) {
            bool good = read_place(fd, place);
            if (!good && lacks_place(fd)) {
                env_random_hex(env, SESSION_PLACE_SIZE, place);
                good = pwrite(fd, place, SESSION_PLACE_SIZE, 0) == SESSION_PLACE_SIZE;
            }
            lock_byte(fd, F_UNLCK, 0);
            return good;
        }
        if (read_place(fd, place))
            return true;
        env_sleep(env, PLACE_PAUSE);
    }
    return false;
}

/* Opens the file `present` in this folder; with `create`, it is made if need be. */
static int open_present_file(const struct write_notify *notify, int folder, bool create)
{
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    struct stat like, st;
    int fd = openat(folder, "present", flags);
    if (fd < 0 && create && errno == ENOENT &&
        fstatat(notify->folder, notify->like, &like, 0) == 0) {
        mode_t mode = mode_of_writers(like.st_mode & 0666);
        fd = openat(folder, "present", flags | O_CREAT | O_EXCL, mode);
        if (fd >= 0)
            file_make_like(fd, &like, mode);
        else if (errno == EEXIST)
            fd = openat(folder, "present", flags);
    }
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Opens `present`, with `create` making it if need be, and reads its place. */
static bool open_present(struct store_session *session, bool create)
{
    const struct write_notify *notify = session->local->notify;
    int folder = open_folder(notify, create);
    int fd = folder < 0 ? -1 : open_present_file(notify, folder, create);
    if (folder >= 0)
        close(folder);
    if (fd >= 0 && !read_place(fd, session->place) &&
        !(create && make_place(session->local->env, fd, session->place))) {
        close(fd);
        fd = -1;
    }
    session->fd = fd;
    return fd >= 0;
}

/* ---- Joining ---------------------------------------------------------------------------- */

void store_session_init(struct store_session *session, struct store *store, const char *id)
{
    *session = (struct store_session){ .store = store, .id = id, .folder = -1, .fd = -1 };
    struct store *local = store;
    while (local && !local->notify && !local->ops->session_enter)
        local = local->inner;
    if (local && local->notify && local->notify->unsupported)
        local = NULL;
    session->local = local;
    atomic_init(&session->entering, false);
    atomic_init(&session->found, false);
    atomic_init(&session->joined, false);
    env_mutex_init(store->env, &session->mutex);
}

void store_session_release(struct store_session *session)
{
    if (atomic_load(&session->joined) && notify_of(session))
        write_notify_release(&session->bell);
    if (session->fd >= 0)
        close(session->fd);
    if (session->folder >= 0)
        close(session->folder);
    env_mutex_release(&session->mutex);
}

/* Finds the place. With `join`, in a store without files, the session also joins there. Only one
 * task at a time: the one that has set `entering`. */
static bool enter(struct store_session *session, bool join)
{
    struct store *local = session->local;
    bool entered = atomic_load(&session->found);
    if (!local->notify)
        entered = local->ops->session_enter(local, join ? session->id : NULL, session->place);
    else if (!entered)
        entered = open_present(session, /* create */ join);
    if (entered)
        atomic_store(&session->found, true);
    return entered;
}

/* Does not call env, because the caller may be inside a step of the store. If another task is
 * looking, the place is not known yet. */
void store_session_find(struct store_session *session)
{
    if (!session->local || atomic_load(&session->found) ||
        atomic_exchange(&session->entering, true))
        return;
    if (!atomic_load(&session->found))
        (void)enter(session, /* join */ false);
    atomic_store(&session->entering, false);
}

/* A task that only looks is done after two system calls. */
static bool enter_and_join(struct store_session *session)
{
    while (atomic_exchange(&session->entering, true))
        env_sleep(session->local->env, PLACE_PAUSE);
    bool entered = enter(session, /* join */ true);
    atomic_store(&session->entering, false);
    return entered;
}

/* Locks the byte of this session in the file that has the name now, and prepares its bell. */
static bool lock_present(struct store_session *session)
{
    const struct write_notify *notify = session->local->notify;
    const char *above = notify->folder == AT_FDCWD ? "" : "../"; /* from the folder to `like` */
    char name[BELL_NAME_ROOM];
    unsigned bell;
    off_t offset;
    if (!read_id(view_of(session->id), &bell, &offset) ||
        snprintf(session->like, sizeof session->like, "%s%s", above, notify->like) >=
            (int)sizeof session->like)
        return false;
    session->folder = open_folder(notify, /* create */ false);
    if (session->folder < 0 || !lock_byte(session->fd, F_WRLCK, offset) ||
        !file_has_name(session->fd, session->folder, "present"))
        return false;
    bell_name(bell, name);
    write_notify_init(&session->bell, session->local->env, session->folder, name, session->like,
                      /* writable */ true);
    return true;
}

struct view store_session_join(struct store_session *session)
{
    if (!session->local)
        return VIEW("");
    env_mutex_lock(&session->mutex);
    if (!session->tried) {
        session->tried = true;
        bool entered = enter_and_join(session);
        atomic_store(&session->joined,
                     entered && (!session->local->notify || lock_present(session)));
    }
    bool joined = atomic_load(&session->joined);
    env_mutex_unlock(&session->mutex);
    return joined ? view_of(session->place) : VIEW("");
}

struct view store_session_place(const struct store_session *session)
{
    return atomic_load(&session->found) ? view_of(session->place) : VIEW("");
}

bool store_session_gone(const struct store_session *session, struct view id)
{
    unsigned bell;
    off_t offset;
    if (!atomic_load(&session->found))
        return false;
    check(!view_equal(id, view_of(session->id)));
    if (!session->local->notify)
        return session->local->ops->session_gone(session->local, session->place, id);
    if (!read_id(id, &bell, &offset))
        return false;
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1
    };
    return fcntl(session->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/* ---- Bells ------------------------------------------------------------------------------ */

bool store_session_has_bell(const struct store_session *session)
{
    return atomic_load(&session->joined) && notify_of(session);
}

bool store_session_listens(const struct store_session *session)
{
    return store_session_has_bell(session) ? write_notify_listens(&session->bell)
                                           : store_listens(session->store);
}

bool store_session_listen(struct store_session *session, uint64_t *ticket,
                          struct mono_time until)
{
    return store_session_has_bell(session) ? write_notify_listen(&session->bell, ticket, until)
                                           : store_listen(session->store, ticket, until);
}

void store_session_ring_own(struct store_session *session)
{
    if (store_session_has_bell(session))
        write_notify_ring(&session->bell);
    else
        store_ring(session->store);
}

bool session_bells_add(struct session_bells *bells, struct view id)
{
    unsigned bell;
    off_t offset;
    if (!read_id(id, &bell, &offset))
        return false;
    bells->bits[bell / 64] |= UINT64_C(1) << bell % 64;
    return true;
}

bool store_session_can_ring(const struct store_session *session)
{
    return notify_of(session) != NULL;
}

void store_session_ring(const struct store_session *session, const struct session_bells *bells)
{
    const struct write_notify *notify = notify_of(session);
    char name[BELL_NAME_ROOM], path[PATH_ROOM];
    for (unsigned word = 0; notify && word < SESSION_BELLS / 64; word++)
        for (uint64_t left = bells->bits[word]; left != 0; left &= left - 1) {
            bell_name(64 * word + (unsigned)__builtin_ctzll(left), name);
            path_of(notify, name, path);
            write_notify_ring_file(notify->folder, path);
        }
}
