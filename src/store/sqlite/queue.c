/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: the order in which processes write to one sqlite store: numbers in a mapped file, and
 * futexes on which processes sleep until their numbers are called. It guards against processes that
 * starve, and against a lock that is idle while all who want it sleep. It does not know what is
 * written, and the correctness of a write must not depend on it. */
#include "store/sqlite/queue.h"

#include "base/check.h"
#include "store/toolkit.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* If more processes than this wait, some share a slot: a call may wake both, and a dead one is only
 * passed over after QUEUE_WAIT. */
#define QUEUE_SLOTS 256

/* More processes than this do not wait: a machine does not have as many. */
#define QUEUE_LENGTH_MAX (UINT32_C(1) << 22)

#define QUEUE_FILE_BYTES 8192

/* How many seats a process tries to lock. */
#define SEAT_TRIES_MAX 8

/* A file that does not begin like this is not ours, and is left alone. */
#define QUEUE_MAGIC "holdfast queue 1"

/* All numbers wrap around. */
struct queue_page {
    char magic[16];
    _Atomic uint32_t next;    /* the number that is drawn next */
    _Atomic uint32_t serving; /* the number whose turn it is */
    struct queue_slot {
        /* The number that was last drawn for this slot, and the seat of its process. Seat 0: the
         * process has given up its place. */
        _Atomic uint64_t drawn;
        _Atomic uint32_t calls; /* the futex: how often a number of this slot was called */
        uint32_t unused;
    } slots[QUEUE_SLOTS];
};

static_assert(sizeof QUEUE_MAGIC == sizeof((struct queue_page *)NULL)->magic + 1, "it fits");
static_assert(sizeof(struct queue_page) <= QUEUE_FILE_BYTES, "the file holds the page");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
              "other processes do not share a lock that the compiler adds");

/* ---- Seats --------------------------------------------------------------------------- */

static struct flock seat_range(uint32_t seat)
{
    return (struct flock){ .l_type = F_WRLCK,
                           .l_whence = SEEK_SET,
                           .l_start = (off_t)QUEUE_FILE_BYTES + seat,
                           .l_len = 1 };
}

/* The lock belongs to this open file, not to the process: closing another descriptor of the same
 * file does not drop it. */
static bool take_seat(struct write_queue *queue)
{
    for (int i = 0; i < SEAT_TRIES_MAX; i++) {
        uint32_t seat = 1 + (uint32_t)env_random_below(queue->env, INT32_MAX);
        struct flock range = seat_range(seat);
        if (fcntl(queue->fd, F_OFD_SETLK, &range) == 0) {
            queue->seat = seat;
            return true;
        }
    }
    return false;
}

static bool is_seat_taken(const struct write_queue *queue, uint32_t seat)
{
    struct flock range = seat_range(seat);
    return fcntl(queue->fd, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

/* ---- Calling numbers ----------------------------------------------------------------- */

/* Whether number `a` is called before number `b`. */
static bool is_called_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static struct queue_slot *queue_slot_of(struct queue_page *page, uint32_t number)
{
    return &page->slots[number % QUEUE_SLOTS];
}

/* The seat of the process that drew the number. False: it is not known. */
static bool find_seat(struct queue_page *page, uint32_t number, uint32_t *ret_seat)
{
    uint64_t drawn = atomic_load(&queue_slot_of(page, number)->drawn);
    *ret_seat = (uint32_t)drawn;
    return drawn >> 32 == number;
}

static bool has_left(struct queue_page *page, uint32_t number)
{
    uint32_t seat;
    return find_seat(page, number, &seat) && seat == 0;
}

/* Calls the next number, if it is the turn of `number`. Numbers whose processes have given up their
 * places are skipped. One that gives it up just now sees that it was called, or is seen here. */
static void pass_turn(struct queue_page *page, uint32_t number)
{
    uint32_t called = number;
    do {
        uint32_t serving = called++;
        if (!atomic_compare_exchange_strong(&page->serving, &serving, called))
            return;
        if (called == atomic_load(&page->next)) /* not drawn yet, so nobody waits for it */
            return;
    } while (has_left(page, called));
    struct queue_slot *slot = queue_slot_of(page, called);
    atomic_fetch_add(&slot->calls, 1);
    syscall(SYS_futex, &slot->calls, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- Waiting ------------------------------------------------------------------------- */

static bool queue_turn_is_ours(const struct write_queue *queue)
{
    return !is_called_before(atomic_load(&queue->page->serving), queue->number);
}

/* If the file was damaged, the number whose turn it is may be ahead of all that were drawn, or so
 * far behind them that nobody would reach it. The queue then begins anew with ours. */
static void skip_impossible(struct queue_page *page, uint32_t number)
{
    /* Read in this order: it is never the turn of a number that has not been drawn. */
    uint32_t serving = atomic_load(&page->serving);
    uint32_t next = atomic_load(&page->next);
    if (next - serving > QUEUE_LENGTH_MAX)
        atomic_compare_exchange_strong(&page->serving, &serving, number);
}

static void draw_number(struct write_queue *queue)
{
    if (queue->queued)
        return;
    queue->number = atomic_fetch_add(&queue->page->next, 1);
    skip_impossible(queue->page, queue->number);
    atomic_store(&queue_slot_of(queue->page, queue->number)->drawn,
                 (uint64_t)queue->number << 32 | queue->seat);
    queue->queued = true;
}

static void sleep_for_a_slice(struct write_queue *queue)
{
    struct queue_slot *slot = queue_slot_of(queue->page, queue->number);
    /* As this system call has it. On a 32-bit machine, `struct timespec` may be longer. */
    const struct {
        long s, ns;
    } slice = { 0, QUEUE_SLICE_MS * 1000000L };
    /* Read before `serving`: if the number is called in between, the sleep ends at once. */
    uint32_t calls = atomic_load(&slot->calls);
    if (!queue_turn_is_ours(queue))
        syscall(SYS_futex, &slot->calls, FUTEX_WAIT, calls, &slice, NULL, 0);
}

/* Sleeps until our number is called. If it was the turn of one number all the time, that number is
 * passed over: at once if its process has died, otherwise at the end of the wait. */
static void wait_for_call(struct write_queue *queue)
{
    struct queue_page *page = queue->page;
    uint32_t first = atomic_load(&page->serving);
    for (int i = 1; i <= QUEUE_WAIT_SLICES && !queue_turn_is_ours(queue); i++) {
        uint32_t seat, serving = atomic_load(&page->serving);
        sleep_for_a_slice(queue);
        if (queue_turn_is_ours(queue) || atomic_load(&page->serving) != serving)
            continue;
        bool dead = find_seat(page, serving, &seat) && !is_seat_taken(queue, seat);
        bool stuck = i == QUEUE_WAIT_SLICES && serving == first;
        if (dead || stuck)
            pass_turn(page, serving);
    }
}

/* ---- Joining ------------------------------------------------------------------------- */

/* Creates the file with the owner of the database, for those who may write to the database. */
static int create_queue_file(const char *path, const char *database)
{
    struct stat like;
    if (stat(database, &like) != 0)
        return -1;
    mode_t mode = mode_of_writers(like.st_mode & 0666);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd >= 0)
        file_make_like(fd, &like, mode);
    return fd;
}

static int open_queue_file(const char *path, const char *database)
{
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = open(path, flags);
    if (fd < 0 && errno == ENOENT)
        fd = create_queue_file(path, database);
    if (fd < 0 && errno == EEXIST)
        fd = open(path, flags);
    return fd;
}

static bool is_complete(int fd)
{
    char start[sizeof((struct queue_page *)NULL)->magic];
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == QUEUE_FILE_BYTES &&
           pread(fd, start, sizeof start, 0) == sizeof start &&
           memcmp(start, QUEUE_MAGIC, sizeof start) == 0;
}

/* What the file contains at first. */
static const char first_bytes[QUEUE_FILE_BYTES] = QUEUE_MAGIC;

/* Whether the file is the start of such a file, or consists of zeros. It may be empty. A process
 * that dies while it fills the file, a full disk and a power loss leave such files. */
static bool is_unfinished(int fd)
{
    static const char zeros[QUEUE_FILE_BYTES];
    char bytes[QUEUE_FILE_BYTES + 1];
    ssize_t size = pread(fd, bytes, sizeof bytes, 0);
    return size >= 0 && size <= QUEUE_FILE_BYTES &&
           (memcmp(bytes, first_bytes, (size_t)size) == 0 ||
            memcmp(bytes, zeros, (size_t)size) == 0);
}

/* Fills a file that is unfinished. The bytes are written and not only mapped, because a full disk
 * would end the process at its first access to a page that has no space. No process has mapped
 * the file, because it is mapped only when it is complete. */
static bool fill_queue_file(int fd)
{
    bool filled = flock(fd, LOCK_EX | LOCK_NB) == 0 && !is_complete(fd) && is_unfinished(fd) &&
                  pwrite(fd, first_bytes, sizeof first_bytes, 0) == sizeof first_bytes;
    flock(fd, LOCK_UN);
    return filled;
}

/* Maps the file. NULL: not now; with *ret_never, it is not ours, or cannot be mapped. */
static struct queue_page *map_queue_file(int fd, bool *ret_never)
{
    bool complete = is_complete(fd);
    *ret_never = !complete && !is_unfinished(fd);
    if (*ret_never || (!complete && !fill_queue_file(fd)))
        return NULL;
    struct queue_page *page =
        mmap(NULL, QUEUE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *ret_never = page == MAP_FAILED;
    return *ret_never ? NULL : page;
}

/* False: there is no queue. If another process is just creating it, the next call tries again. */
static bool join_write_queue(struct write_queue *queue)
{
    char path[PATH_MAX + sizeof WRITE_QUEUE_ENDING];
    if (queue->page || queue->unusable)
        return queue->page != NULL;
    snprintf(path, sizeof path, "%s" WRITE_QUEUE_ENDING, queue->database);
    queue->fd = open_queue_file(path, queue->database);
    queue->unusable = queue->fd < 0 && errno != EMFILE && errno != ENFILE;
    if (queue->fd >= 0)
        queue->page = map_queue_file(queue->fd, &queue->unusable);
    if (queue->page && !take_seat(queue))
        queue->unusable = true;
    if (!queue->page || queue->unusable)
        write_queue_release(queue);
    return queue->page != NULL;
}

/* ---- The calls ----------------------------------------------------------------------- */

void write_queue_init(struct write_queue *queue, struct env *env, const char *database)
{
    *queue = (struct write_queue){ .env = env, .database = database, .fd = -1 };
}

void write_queue_release(struct write_queue *queue)
{
    check(!queue->queued);
    if (queue->page)
        munmap(queue->page, QUEUE_FILE_BYTES);
    if (queue->fd >= 0)
        close(queue->fd);
    queue->page = NULL;
    queue->fd = -1;
}

void write_queue_enter(struct write_queue *queue)
{
    if (!queue->page)
        return;
    draw_number(queue);
    wait_for_call(queue);
}

bool write_queue_wait(struct write_queue *queue)
{
    if (!join_write_queue(queue))
        return false;
    draw_number(queue);
    if (queue_turn_is_ours(queue))
        return false;
    wait_for_call(queue);
    return true;
}

void write_queue_leave(struct write_queue *queue)
{
    if (!queue->queued)
        return;
    queue->queued = false;
    atomic_store(&queue_slot_of(queue->page, queue->number)->drawn,
                 (uint64_t)queue->number << 32);
    pass_turn(queue->page, queue->number);
}
