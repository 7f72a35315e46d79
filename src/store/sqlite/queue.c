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

/* A process that returns this soon after a write, so many times in succession, writes all the
 * time. A process that passes a lock on writes only three times in succession. */
#define QUEUE_RETURN      SPAN_US(100)
#define QUEUE_RETURNS_MIN 4

/* How often the next process looks whether a turn that is kept is used. */
#define QUEUE_LOOK_NS 100000L

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
    /* Above 2^32: the number whose turn is kept between two writes, and how many writes there were.
     * Otherwise: none. */
    _Atomic uint64_t kept;
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

/* Wakes the process that waits with this number. */
static void wake_number(struct queue_page *page, uint32_t number)
{
    struct queue_slot *slot = queue_slot_of(page, number);
    atomic_fetch_add(&slot->calls, 1);
    syscall(SYS_futex, &slot->calls, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
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
    wake_number(page, called);
}

/* ---- Keeping a turn ------------------------------------------------------------------ */

/* The mark of a turn that is kept. It differs after every write, so that a process that sees it
 * twice knows that there was none in between. */
static uint64_t kept_mark(uint32_t number, uint32_t writes)
{
    return (uint64_t)(writes + 1) << 32 | number;
}

/* Whether this process will probably write again at once, and others wait, but not too many. */
static bool is_kept_worthwhile(const struct write_queue *queue)
{
    uint32_t waiting = atomic_load(&queue->page->next) - queue->number - 1;
    if (waiting == 0 || waiting > QUEUE_SLOTS ||
        atomic_load(&queue->page->serving) != queue->number)
        return false;
    struct span most = span_smaller(QUEUE_KEPT_MAX, SPAN_US(QUEUE_WAIT.us / 2 / waiting));
    return queue->kept.returns >= QUEUE_RETURNS_MIN &&
           queue->kept.writes < QUEUE_KEPT_WRITES_MAX &&
           mono_since(queue->kept.ended, queue->kept.since).us < most.us;
}

/* Wakes the next process that has not given up its place. It then watches the turn that is kept. */
static void wake_watcher(struct queue_page *page, uint32_t number)
{
    uint32_t end = atomic_load(&page->next);
    for (number++; is_called_before(number, end) && has_left(page, number);)
        number++;
    if (is_called_before(number, end))
        wake_number(page, number);
}

static void keep_turn(struct write_queue *queue)
{
    queue->kept.now = true;
    atomic_store(&queue->page->kept, kept_mark(queue->number, queue->kept.writes));
    if (queue->kept.writes == 1)
        wake_watcher(queue->page, queue->number);
}

/* Ends the keeping. False: another process has taken the turn, and passed it on. */
static bool is_still_kept(struct write_queue *queue)
{
    uint64_t mark = kept_mark(queue->number, queue->kept.writes);
    return atomic_compare_exchange_strong(&queue->page->kept, &mark, 0);
}

static bool is_kept_mark(uint64_t mark, uint32_t number)
{
    return mark >> 32 != 0 && (uint32_t)mark == number;
}

/* Takes a turn that is kept if it was not used since the mark was seen. */
static void take_if_unused(struct queue_page *page, uint32_t number, uint64_t mark)
{
    if (atomic_compare_exchange_strong(&page->kept, &mark, 0))
        pass_turn(page, number);
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

static void note_turn_began(struct write_queue *queue)
{
    queue->kept.writes = 0;
    queue->kept.since = env_now(queue->env);
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
    note_turn_began(queue);
}

static void sleep_until_called(struct write_queue *queue, long ns_max)
{
    struct queue_slot *slot = queue_slot_of(queue->page, queue->number);
    /* As this system call has it. On a 32-bit machine, `struct timespec` may be longer. */
    const struct {
        long s, ns;
    } at_most = { 0, ns_max };
    /* Read before `serving`: if the number is called in between, the sleep ends at once. */
    uint32_t calls = atomic_load(&slot->calls);
    if (!queue_turn_is_ours(queue))
        syscall(SYS_futex, &slot->calls, FUTEX_WAIT, calls, &at_most, NULL, 0);
}

/* Whether it is our turn after that of `serving`. */
static bool is_next_in_queue(const struct write_queue *queue, uint32_t serving)
{
    uint32_t ahead = queue->number - serving - 1;
    for (uint32_t i = 1; i <= ahead && ahead < QUEUE_SLOTS; i++)
        if (!has_left(queue->page, serving + i))
            return false;
    return ahead < QUEUE_SLOTS;
}

/* Sleeps for a while. If it was the turn of one number all the time, and its process keeps the turn
 * without using it or has died, the next number is called. */
static void wait_a_little(struct write_queue *queue)
{
    struct queue_page *page = queue->page;
    uint32_t seat, serving = atomic_load(&page->serving);
    uint64_t kept = atomic_load(&page->kept);
    bool watches = is_kept_mark(kept, serving) && is_next_in_queue(queue, serving);
    sleep_until_called(queue, watches ? QUEUE_LOOK_NS : QUEUE_SLICE_MS * 1000000L);
    if (queue_turn_is_ours(queue) || atomic_load(&page->serving) != serving)
        return;
    if (watches)
        take_if_unused(page, serving, kept);
    else if (find_seat(page, serving, &seat) && !is_seat_taken(queue, seat))
        pass_turn(page, serving);
}

/* Sleeps until our number is called. If it was the turn of one number all the time, that number is
 * passed over at the end. */
static void wait_for_call(struct write_queue *queue)
{
    struct mono_time until = mono_add(env_now(queue->env), QUEUE_WAIT);
    uint32_t first = atomic_load(&queue->page->serving);
    while (!queue_turn_is_ours(queue) && env_now(queue->env).us < until.us)
        wait_a_little(queue);
    if (!queue_turn_is_ours(queue) && atomic_load(&queue->page->serving) == first)
        pass_turn(queue->page, first);
    note_turn_began(queue);
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

static void end_turn(struct write_queue *queue)
{
    queue->queued = queue->kept.now = false;
    atomic_store(&queue_slot_of(queue->page, queue->number)->drawn,
                 (uint64_t)queue->number << 32);
    pass_turn(queue->page, queue->number);
}

void write_queue_release(struct write_queue *queue)
{
    if (queue->kept.now)
        end_turn(queue);
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
    bool soon = mono_since(env_now(queue->env), queue->kept.ended).us < QUEUE_RETURN.us;
    queue->kept.returns = soon ? queue->kept.returns + 1 : 0;
    if (queue->kept.now && is_still_kept(queue)) {
        queue->kept.now = false;
        return;
    }
    if (queue->kept.now)
        end_turn(queue);
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
    queue->kept.writes++;
    queue->kept.ended = env_now(queue->env);
    if (is_kept_worthwhile(queue))
        keep_turn(queue);
    else
        end_turn(queue);
}
