/* SPDX-License-Identifier: Apache-2.0 */
/* real.c: the env of this machine: threads, CLOCK_BOOTTIME, getrandom. Waits are divided into
 * slices, so that a deadline that passed while the machine was suspended is noticed soon after it
 * resumes. */
#include "base/check.h"
#include "env/env.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (512 * 1024)

/* A condition variable can wait only on the monotonic clock, which stops during suspend. Because
 * waits are divided into slices, a deadline on the boot-time clock is noticed at most one slice
 * late after a resume. */
#define WAIT_SLICE SPAN_S(1)

struct env_task {
    pthread_t thread;
    void (*run)(void *);
    void *argument;
};

static_assert(sizeof(pthread_mutex_t) <= sizeof(((struct env_mutex *)NULL)->state),
              "the mutex fits in place");
static_assert(sizeof(pthread_cond_t) <= sizeof(((struct env_cond *)NULL)->state),
              "the condition fits in place");

static int64_t read_clock_us(clockid_t clock)
{
    struct timespec t;
    check(clock_gettime(clock, &t) == 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static struct timespec timespec_of_us(int64_t us)
{
    return (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
}

static struct mono_time real_now(struct env *env)
{
    (void)env;
    return (struct mono_time){ read_clock_us(CLOCK_BOOTTIME) };
}

static struct wall_time real_wall(struct env *env)
{
    (void)env;
    return (struct wall_time){ read_clock_us(CLOCK_REALTIME) };
}

/* ---- The boot id: read once, from the kernel ----------------------------------------- */

static char boot_id[64];
static pthread_once_t boot_id_once = PTHREAD_ONCE_INIT;

/* Reads a small file in /proc. Returns the size, or 0. */
static size_t read_small(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, room - 1);
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    return size > 0 ? (size_t)size : 0;
}

/* In a time namespace the boot-time clock has an offset. So it is a different clock, and needs a
 * different id. The line reads "boottime <seconds> <nanoseconds>", and is appended to the id
 * without its spaces. */
static void add_clock_offset(void)
{
    char offsets[256];
    read_small("/proc/self/timens_offsets", offsets, sizeof offsets);
    char *line = strstr(offsets, "boottime");
    if (!line)
        return;
    line[strcspn(line, "\n")] = '\0';
    if (!strpbrk(line, "123456789"))
        return;
    size_t used = strlen(boot_id);
    boot_id[used++] = '+';
    while (*line && used < sizeof boot_id - 1) {
        if (*line == '-' || (*line >= '0' && *line <= '9'))
            boot_id[used++] = *line;
        line++;
    }
    boot_id[used] = '\0';
}

static void read_boot_id(void)
{
    size_t size = read_small("/proc/sys/kernel/random/boot_id", boot_id, 40);
    while (size > 0 && boot_id[size - 1] == '\n')
        boot_id[--size] = '\0';
    if (size > 0) {
        add_clock_offset();
        return;
    }
    /* Without /proc the id is random, so boot-time timestamps of different processes are never
     * compared. */
    uint64_t random = env_random_u64(env_real());
    for (int i = 0; i < 16; i++, random >>= 4)
        boot_id[i] = "0123456789abcdef"[random & 15];
    boot_id[16] = '\0';
}

static const char *real_boot_id(struct env *env)
{
    (void)env;
    pthread_once(&boot_id_once, read_boot_id);
    return boot_id;
}

static void real_sleep_until(struct env *env, struct mono_time moment)
{
    (void)env;
    struct timespec until = timespec_of_us(moment.us < 0 ? 0 : moment.us);
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* ---- Randomness ---------------------------------------------------------------------- */

/* Random bytes are fetched in advance, because nearly every write needs some, and each call to the
 * kernel costs as much as the rest of a nonce. The kernel empties this page in a forked child, so
 * that a child never has the bytes of its parent; a mutex that another thread held is free then. */
struct random_pool {
    pthread_mutex_t mutex; /* zeros are an unlocked mutex, or there is no pool */
    size_t left;           /* the last ones of `bytes` */
    unsigned char bytes[512];
};

#define RANDOM_POOLED_MAX 32 /* longer requests are passed on */

static struct random_pool *random_pool; /* NULL: every request is passed on */
static pthread_once_t random_pool_once = PTHREAD_ONCE_INIT;

static void fetch_random(void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        check(got > 0 || errno == EINTR);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
}

static void make_random_pool(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_mutex_t zeros;
    struct random_pool *pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, /* fd */ -1, 0);
    if (pool == MAP_FAILED)
        return;
    if (madvise(pool, sizeof *pool, MADV_WIPEONFORK) == 0 &&
        memcmp(&unlocked, &zeros, sizeof zeros) == 0)
        random_pool = pool;
    else
        munmap(pool, sizeof *pool);
}

static void take_random(struct random_pool *pool, void *bytes, size_t size)
{
    pthread_mutex_lock(&pool->mutex);
    if (pool->left < size) {
        fetch_random(pool->bytes, sizeof pool->bytes);
        pool->left = sizeof pool->bytes;
    }
    unsigned char *from = pool->bytes + sizeof pool->bytes - pool->left;
    memcpy(bytes, from, size);
    memset(from, 0, size); /* nobody who reads this memory later learns what was handed out */
    pool->left -= size;
    pthread_mutex_unlock(&pool->mutex);
}

static void real_random(struct env *env, void *bytes, size_t size)
{
    (void)env;
    pthread_once(&random_pool_once, make_random_pool);
    if (random_pool && size <= RANDOM_POOLED_MAX)
        take_random(random_pool, bytes, size);
    else
        fetch_random(bytes, size);
}

/* ---- Tasks --------------------------------------------------------------------------- */

static void *run_task(void *argument)
{
    struct env_task *task = argument;
    task->run(task->argument);
    return NULL;
}

static enum hf_status real_task_start(struct env *env, void (*run)(void *), void *argument,
                                      struct env_task **ret_task, struct hf_error *error)
{
    (void)env;
    struct env_task *task = malloc(sizeof *task);
    if (!task)
        return error_no_memory(error);
    *task = (struct env_task){ .run = run, .argument = argument };
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&task->thread, &attributes, run_task, task);
    pthread_attr_destroy(&attributes);
    if (failed) {
        free(task);
        return error_from_errno(error, failed, "start a thread");
    }
    *ret_task = task;
    return HF_OK;
}

static void real_task_join(struct env *env, struct env_task *task)
{
    (void)env;
    check(pthread_join(task->thread, NULL) == 0);
    free(task);
}

/* ---- Mutex and condition ------------------------------------------------------------- */

static pthread_mutex_t *mutex_of(struct env_mutex *mutex)
{
    return (pthread_mutex_t *)(void *)mutex->state;
}

static pthread_cond_t *cond_of(struct env_cond *cond)
{
    return (pthread_cond_t *)(void *)cond->state;
}

static void real_mutex_init(struct env_mutex *mutex)
{
    check(pthread_mutex_init(mutex_of(mutex), NULL) == 0);
}

static void real_mutex_release(struct env_mutex *mutex)
{
    check(pthread_mutex_destroy(mutex_of(mutex)) == 0);
}

static void real_mutex_lock(struct env_mutex *mutex)
{
    check(pthread_mutex_lock(mutex_of(mutex)) == 0);
}

static void real_mutex_unlock(struct env_mutex *mutex)
{
    check(pthread_mutex_unlock(mutex_of(mutex)) == 0);
}

static void real_cond_init(struct env_cond *cond)
{
    check(pthread_cond_init(cond_of(cond), NULL) == 0);
}

static void real_cond_release(struct env_cond *cond)
{
    check(pthread_cond_destroy(cond_of(cond)) == 0);
}

static bool real_cond_wait_until(struct env_cond *cond, struct env_mutex *mutex,
                                 struct mono_time moment)
{
    if (moment.us >= MOMENT_FAR) {
        check(pthread_cond_wait(cond_of(cond), mutex_of(mutex)) == 0);
        return true;
    }
    struct span left = mono_since(moment, real_now(cond->env));
    if (left.us <= 0)
        return false;
    left = span_smaller(left, WAIT_SLICE);
    struct timespec until = timespec_of_us(read_clock_us(CLOCK_MONOTONIC) + left.us);
    int result =
        pthread_cond_clockwait(cond_of(cond), mutex_of(mutex), CLOCK_MONOTONIC, &until);
    check(result == 0 || result == ETIMEDOUT);
    return mono_before(real_now(cond->env), moment);
}

static void real_cond_signal(struct env_cond *cond)
{
    check(pthread_cond_signal(cond_of(cond)) == 0);
}

static void real_cond_broadcast(struct env_cond *cond)
{
    check(pthread_cond_broadcast(cond_of(cond)) == 0);
}

static const struct env_ops real_ops = {
    .now = real_now,
    .wall = real_wall,
    .boot_id = real_boot_id,
    .sleep_until = real_sleep_until,
    .random = real_random,
    .task_start = real_task_start,
    .task_join = real_task_join,
    .mutex_init = real_mutex_init,
    .mutex_release = real_mutex_release,
    .mutex_lock = real_mutex_lock,
    .mutex_unlock = real_mutex_unlock,
    .cond_init = real_cond_init,
    .cond_release = real_cond_release,
    .cond_wait_until = real_cond_wait_until,
    .cond_signal = real_cond_signal,
    .cond_broadcast = real_cond_broadcast,
};

struct env *env_real(void)
{
    static struct env real = { .ops = &real_ops };
    return &real;
}
