/* SPDX-License-Identifier: Apache-2.0 */
/* lock_crowd_test.c: a thousand waiters for one lock of an sqlite store, in four processes.
 * They are served in the order of arrival, with at most one extra write per handover. One
 * process is killed while it waits, and one while it holds the lock. */
#include "lock_kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES   4
#define PER_PROCESS 250
#define CROWD       (PROCESSES * PER_PROCESS)

/* Shared between the processes. */
struct hall {
    pthread_barrier_t all_queued; /* with the parent, who holds meanwhile */
    pthread_mutex_t door;         /* one enters at a time: so the order is known */
    size_t entered;
    atomic_size_t served;
    atomic_int holders;
    atomic_uint conflicts, puts, looks, strange;
    size_t served_as[CROWD]; /* by the order of entering */
    struct mono_time first, last;
};

static struct hall *hall_new(void)
{
    struct hall *hall =
        mmap(NULL, sizeof *hall, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(hall != MAP_FAILED);
    pthread_barrierattr_t barrier;
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&hall->all_queued, &barrier, PROCESSES + 1);
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&hall->door, &mutex);
    return hall;
}

static void complain(struct hall *hall, const char *call, enum hf_status status,
                     const struct hf_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", call, hf_status_name(status), error->why);
    atomic_fetch_add(&hall->strange, 1);
}

struct hook {
    struct hf_lock *lock;
    size_t number;
    bool served;
};

static void enter(struct hall *hall, struct peer *peer, struct hook *hook)
{
    struct hf_error error;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.poll_ms = 5;
    enum hf_status status = hf_lock_new(peer->client, "deploy", &options, &hook->lock, &error);
    pthread_mutex_lock(&hall->door);
    if (status == HF_OK)
        status = hf_lock_begin(hook->lock, &error);
    hook->number = hall->entered++;
    pthread_mutex_unlock(&hall->door);
    if (status != HF_HELD)
        complain(hall, "begin", status, &error);
}

static void be_served(struct hall *hall, struct hook *hook)
{
    struct hf_error error;
    if (atomic_fetch_add(&hall->holders, 1) != 0)
        atomic_fetch_add(&hall->strange, 1);
    hall->served_as[hook->number] = atomic_fetch_add(&hall->served, 1);
    hall->last = now();
    hook->served = true;
    atomic_fetch_sub(&hall->holders, 1);
    enum hf_status status = hf_lock_release(hook->lock, &error);
    if (status != HF_OK)
        complain(hall, "release", status, &error);
    hf_lock_free(hook->lock);
}

static void run_hooks(struct hall *hall, struct hook *hooks)
{
    size_t left = PER_PROCESS;
    struct mono_time start = now();
    while (left > 0 && ms_since(start) < 60000) {
        bool any = false;
        for (size_t i = 0; i < PER_PROCESS; i++) {
            struct hf_error error;
            if (hooks[i].served)
                continue;
            enum hf_status status = hf_lock_poll(hooks[i].lock, &error);
            if (status == HF_OK) {
                be_served(hall, &hooks[i]);
                left--;
                any = true;
            } else if (status != HF_HELD) {
                complain(hall, "poll", status, &error);
            }
        }
        pass_ms(any ? 0 : 1);
    }
    if (left > 0)
        atomic_fetch_add(&hall->strange, 1);
}

static void run_process(struct world *world, struct hall *hall)
{
    static struct hook hooks[PER_PROCESS];
    static struct peer peer;
    peer_open(&peer, world, NULL);
    for (size_t i = 0; i < PER_PROCESS; i++)
        enter(hall, &peer, &hooks[i]);
    script_counts(&peer.way);
    pthread_barrier_wait(&hall->all_queued);
    run_hooks(hall, hooks);
    struct counts counts = script_counts(&peer.way);
    atomic_fetch_add(&hall->conflicts, counts.conflicts);
    atomic_fetch_add(&hall->puts, counts.puts);
    atomic_fetch_add(&hall->looks, counts.looks + counts.gets);
    peer_close(&peer);
}

/* A child must not use what its parent has opened: it leaves that alone. */
static pid_t fork_process(void (*run)(struct world *world, struct hall *hall),
                          struct world *world, struct hall *hall)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run(world, hall);
        _exit(0);
    }
    return child;
}

static void judge_order(struct hall *hall)
{
    size_t out_of_order = 0;
    for (size_t i = 0; i < CROWD; i++) {
        out_of_order += hall->served_as[i] != i;
        if (hall->served_as[i] > 2 * i + 10)
            FAIL("number %zu was served as number %zu", i, hall->served_as[i]);
    }
    print_message("# %d hand-overs in %d ms: %u puts, %u too late, %u gets; %zu out of order\n",
                  CROWD, (int)(mono_since(hall->last, hall->first).us / 1000),
                  atomic_load(&hall->puts), atomic_load(&hall->conflicts),
                  atomic_load(&hall->looks), out_of_order);
    ASSERT(out_of_order == 0);
}

static void a_thousand_in_four_processes(void **state)
{
    (void)state;
    struct world world;
    static struct peer peer;
    struct hall *hall = hall_new();
    world_open(&world);
    pid_t children[PROCESSES];
    struct hf_lock *holder = NULL;
    peer_open(&peer, &world, NULL);
    holder = lock_held(&peer, "deploy", 60000);
    for (size_t i = 0; i < PROCESSES; i++)
        children[i] = fork_process(run_process, &world, hall);
    pthread_barrier_wait(&hall->all_queued);
    hall->first = now();
    IS(HF_OK, hf_lock_release(holder, NULL));
    for (size_t i = 0; i < PROCESSES; i++) {
        int status = 1;
        waitpid(children[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(atomic_load(&hall->strange), 0);
    assert_int_equal(atomic_load(&hall->served), CROWD);
    judge_order(hall);
    ASSERT(atomic_load(&hall->conflicts) <= CROWD);
    hf_lock_free(holder);
    peer_close(&peer);
    world_close(&world);
    munmap(hall, sizeof *hall);
}

/* ---- Processes that are killed ------------------------------------------------------- */

static void stay_forever(void)
{
    for (;;)
        pause();
}

static void hold_and_stay(struct world *world, struct hall *hall)
{
    static struct peer peer;
    peer_open(&peer, world, NULL);
    struct hf_lock *lock = lock_held(&peer, "deploy", 500);
    (void)lock;
    atomic_fetch_add(&hall->holders, 1);
    stay_forever();
}

static void wait_in_line_and_stay(struct world *world, struct hall *hall)
{
    static struct peer peer;
    peer_open(&peer, world, NULL);
    for (int i = 0; i < 5; i++) {
        struct hf_lock *lock = lock_of(&peer, "deploy", 0);
        if (hf_lock_begin(lock, NULL) == HF_HELD)
            atomic_fetch_add(&hall->holders, 1);
    }
    stay_forever();
}

static bool five_of_them(void *argument)
{
    return atomic_load(&((struct hall *)argument)->holders) == 5;
}

static bool one_of_them(void *argument)
{
    return atomic_load(&((struct hall *)argument)->holders) == 1;
}

static void end_child(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

static void a_killed_holder_is_waited_out(void **state)
{
    (void)state;
    struct world world;
    struct hall *hall = hall_new();
    world_open(&world);
    pid_t child = fork_process(hold_and_stay, &world, hall);
    ASSERT(comes_true(one_of_them, hall, 5000));
    static struct peer peer;
    peer_open(&peer, &world, NULL);
    struct hf_lock *lock = lock_of(&peer, "deploy", 0);
    IS(HF_TIMEOUT, hf_lock_acquire(lock, 800, NULL)); /* it renews */
    struct mono_time killed = now();
    end_child(child);
    IS(HF_OK, hf_lock_acquire(lock, 5000, NULL));
    ASSERT(ms_since(killed) < 1500);
    hf_lock_free(lock);
    peer_close(&peer);
    world_close(&world);
    munmap(hall, sizeof *hall);
}

/* All its places go at once: the machine knows that the process has ended. */
static void a_killed_line_is_dropped(void **state)
{
    (void)state;
    struct world world;
    struct hall *hall = hall_new();
    world_open(&world);
    static struct peer peer;
    peer_open(&peer, &world, NULL);
    struct hf_lock *holder = lock_held(&peer, "deploy", 0);
    struct hf_lock *lock = lock_of(&peer, "deploy", 0);
    pid_t child = fork_process(wait_in_line_and_stay, &world, hall);
    ASSERT(comes_true(five_of_them, hall, 5000));
    IS(HF_OK, hf_lock_release(holder, NULL));
    IS(HF_HELD, hf_lock_acquire(lock, 0, NULL)); /* they are before us */
    end_child(child);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    hf_lock_free(lock);
    hf_lock_free(holder);
    peer_close(&peer);
    world_close(&world);
    munmap(hall, sizeof *hall);
}

int main(void)
{
    char *arguments[] = { (char *)(uintptr_t) "lock_crowd_test", (char *)(uintptr_t) "sqlite" };
    if (!world_kind_set(2, arguments))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("a thousand in four processes: in order, one write too many a hand-over at most",
           a_thousand_in_four_processes),
        IT("a holder that is killed is waited out", a_killed_holder_is_waited_out),
        IT("a line of somebody who is killed is dropped at once", a_killed_line_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
