/* SPDX-License-Identifier: Apache-2.0 */
/* dead_waiter_test.c KIND: processes that wait for one lock of a local store, some of which are
 * killed. The next living one has the lock at once, a stopped one keeps its place, a lease outlives
 * its process, and a hand-over costs one write on each side. */
#include "lock/handle.h"
#include "lock_kit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEAD 7

/* Shared between the processes. */
struct hall {
    atomic_uint queued, granted;
    atomic_bool asked; /* the parent waits for the lock */
    struct mono_time granted_at;
    struct counts counts; /* of the one that was granted the lock, since it is in the queue */
};

static struct hall *hall;
static struct world world;

static void stay_forever(void)
{
    for (;;)
        pause();
}

static pid_t fork_process(void (*run)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no process behind */
        run();
        _exit(0);
    }
    return child;
}

static void end_process(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

static bool are_queued(void *argument)
{
    return atomic_load(&hall->queued) >= *(unsigned *)argument;
}

static bool is_granted(void *argument)
{
    return atomic_load(&hall->granted) >= *(unsigned *)argument;
}

static void await_queued(unsigned count)
{
    ASSERT(comes_true(are_queued, &count, 20000));
}

static void await_granted(unsigned count)
{
    ASSERT(comes_true(is_granted, &count, 20000));
}

/* ---- What processes do ----------------------------------------------------------------- */

static void queue_and_stay(void)
{
    static struct peer peer;
    peer_open(&peer, &world, NULL);
    if (hf_lock_begin(lock_of(&peer, "deploy", 0), NULL) == HF_HELD)
        atomic_fetch_add(&hall->queued, 1);
    stay_forever();
}

static void hold_and_stay(void)
{
    static struct peer peer;
    peer_open(&peer, &world, NULL);
    lock_held(&peer, "deploy", 3000);
    atomic_fetch_add(&hall->granted, 1);
    stay_forever();
}

struct waiting {
    struct peer peer;
    struct hf_lock *lock;
};

static bool is_in_queue(void *argument)
{
    struct waiting *waiting = argument;
    env_mutex_lock(&waiting->lock->ref->queue.mutex);
    bool queued = waiting->lock->waiter.queued;
    env_mutex_unlock(&waiting->lock->ref->queue.mutex);
    return queued;
}

static void tell_when_queued(void *argument)
{
    struct waiting *waiting = argument;
    if (comes_true(is_in_queue, waiting, 20000)) {
        pass_ms(30); /* it listens by now */
        script_counts(&waiting->peer.way);
        atomic_fetch_add(&hall->queued, 1);
    }
}

static void acquire_once(struct waiting *waiting)
{
    struct env_task *task;
    struct hf_error error;
    waiting->lock->waiter.queued = false;
    MUST(env_task_start(env_real(), tell_when_queued, waiting, &task, &error));
    MUST(hf_lock_acquire(waiting->lock, 60000, &error));
    hall->granted_at = now();
    hall->counts = script_counts(&waiting->peer.way);
    env_task_join(env_real(), task);
    atomic_fetch_add(&hall->granted, 1);
}

static void wait_for_it(void)
{
    static struct waiting waiting;
    peer_open(&waiting.peer, &world, NULL);
    waiting.lock = lock_of(&waiting.peer, "deploy", 0);
    acquire_once(&waiting); /* it gets to know the table */
    while (!atomic_load(&hall->asked))
        pass_ms(1);
    hf_lock_release(waiting.lock, NULL);
    acquire_once(&waiting);
    hf_lock_release(waiting.lock, NULL);
    hf_lock_free(waiting.lock);
    peer_close(&waiting.peer);
}

/* ---- The tests ------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    hall = mmap(NULL, sizeof *hall, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(hall != MAP_FAILED);
    world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_close(&world);
    munmap(hall, sizeof *hall);
    return 0;
}

#define TEST(sentence, function)                        \
    {                                                   \
        (sentence), (function), set_up, tear_down, NULL \
    }

static void the_next_living_one_has_it(void **state)
{
    (void)state;
    static struct peer peer;
    pid_t dead[DEAD];
    peer_open(&peer, &world, NULL);
    struct hf_lock *holder = lock_held(&peer, "deploy", 60000);
    for (unsigned i = 0; i < DEAD; i++) {
        dead[i] = fork_process(queue_and_stay);
        await_queued(i + 1);
    }
    pid_t living = fork_process(wait_for_it);
    await_queued(DEAD + 1);
    for (unsigned i = 0; i < DEAD; i++)
        end_process(dead[i]);
    script_counts(&peer.way);
    struct mono_time start = now();
    IS(HF_OK, hf_lock_release(holder, NULL));
    struct counts counts = script_counts(&peer.way);
    await_granted(1);
    print_message("# granted %d ms after the release, with %d dead ahead\n",
                  (int)(mono_since(hall->granted_at, start).us / 1000), DEAD);
    ASSERT(mono_since(hall->granted_at, start).us < 1500000); /* less than one claim window */
    assert_int_equal(counts.puts - counts.conflicts, 1);
    end_process(living);
    hf_lock_free(holder);
    peer_close(&peer);
}

/* Killed after it was given its turn: nobody releases anything any more. */
static void a_turn_of_the_dead_is_passed_on(void **state)
{
    (void)state;
    static struct peer peer;
    peer_open(&peer, &world, NULL);
    struct hf_lock *holder = lock_held(&peer, "deploy", 60000);
    pid_t dead = fork_process(queue_and_stay);
    await_queued(1);
    pid_t living = fork_process(wait_for_it);
    await_queued(2);
    IS(HF_OK, hf_lock_release(holder, NULL));
    pass_ms(50);
    assert_int_equal(atomic_load(&hall->granted), 0); /* it is the first one's turn */
    struct mono_time start = now();
    end_process(dead);
    await_granted(1);
    ASSERT(mono_since(hall->granted_at, start).us < 1500000);
    end_process(living);
    hf_lock_free(holder);
    peer_close(&peer);
}

static void a_stopped_one_keeps_its_place(void **state)
{
    (void)state;
    static struct peer peer;
    peer_open(&peer, &world, NULL);
    struct hf_lock *holder = lock_held(&peer, "deploy", 60000);
    pid_t slow = fork_process(queue_and_stay);
    await_queued(1);
    pid_t living = fork_process(wait_for_it);
    await_queued(2);
    kill(slow, SIGSTOP);
    struct mono_time start = now();
    IS(HF_OK, hf_lock_release(holder, NULL));
    await_granted(1);
    ASSERT(mono_since(hall->granted_at, start).us >= 1900000); /* the whole claim window */
    kill(slow, SIGCONT);
    end_process(slow);
    end_process(living);
    hf_lock_free(holder);
    peer_close(&peer);
}

static void a_lease_outlives_its_process(void **state)
{
    (void)state;
    static struct peer peer;
    pid_t holder = fork_process(hold_and_stay);
    await_granted(1);
    peer_open(&peer, &world, NULL);
    struct hf_lock *lock = lock_of(&peer, "deploy", 0);
    end_process(holder);
    struct mono_time start = now();
    IS(HF_HELD, hf_lock_acquire(lock, 0, NULL));
    IS(HF_OK, hf_lock_acquire(lock, 20000, NULL));
    ASSERT(ms_since(start) >= 1500); /* it was renewed at most a second before */
    hf_lock_free(lock);
    peer_close(&peer);
}

static bool has_lock(void *lock)
{
    return hf_lock_poll(lock, NULL) == HF_OK;
}

/* A process that knows the table claims its turn as soon as its bell rings. */
static void a_hand_over_costs_a_write_each(void **state)
{
    (void)state;
    static struct peer peer;
    peer_open(&peer, &world, NULL);
    struct hf_lock *holder = lock_held(&peer, "deploy", 60000);
    pid_t living = fork_process(wait_for_it);
    for (unsigned i = 1; i <= 2; i++) {
        await_queued(i);
        script_counts(&peer.way);
        IS(HF_OK, hf_lock_release(holder, NULL));
        struct counts counts = script_counts(&peer.way);
        assert_int_equal(counts.puts - counts.conflicts, 1);
        await_granted(i);
        if (i == 2)
            break;
        IS(HF_HELD, hf_lock_begin(holder, NULL));
        atomic_store(&hall->asked, true);
        ASSERT(comes_true(has_lock, holder, 20000));
    }
    print_message("# the claim: %u puts, %u gets, %u looks\n", hall->counts.puts,
                  hall->counts.gets, hall->counts.looks);
    assert_int_equal(hall->counts.puts, 1);
    end_process(living);
    hf_lock_free(holder);
    peer_close(&peer);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        TEST("with seven dead ahead, the next living one has the lock at once",
             the_next_living_one_has_it),
        TEST("the turn of one that is killed is passed on", a_turn_of_the_dead_is_passed_on),
        TEST("one that is stopped keeps its place for a claim window",
             a_stopped_one_keeps_its_place),
        TEST("a lease outlives its process", a_lease_outlives_its_process),
        TEST("a hand-over costs one write on each side", a_hand_over_costs_a_write_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
