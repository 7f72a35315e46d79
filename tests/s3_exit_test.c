/* SPDX-License-Identifier: Apache-2.0 */
/* s3_exit_test.c: a program may call exit() while its threads still use a store. Libraries that
 * were loaded for the store then clean up behind their backs. */
#include "env/env.h"
#include "s3_fake.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAMS 20
#define THREADS  8

static atomic_uint puts_done;

static void *put_for_ever(void *store)
{
    for (unsigned i = 0;; i++) {
        struct put_call call = { .key = VIEW("object"), .body = VIEW("a body") };
        store_put(store, &call);
        atomic_fetch_add(&puts_done, 1);
    }
    return NULL;
}

/* Runs after the handlers of the libraries, and before that of cmocka. */
static void leave(void)
{
    env_sleep(env_real(), SPAN_MS(20)); /* the threads go on meanwhile */
    _exit(0);
}

/* Ends in the middle of puts: each program after another number of them. */
static void run_program(unsigned number)
{
    atexit(leave);
    struct store *store = fake_open("bucket", "");
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, put_for_ever, store))
            _exit(1);
    while (atomic_load(&puts_done) < THREADS + number)
        env_sleep(env_real(), SPAN_US(100));
    exit(0);
}

static void a_program_may_exit(void **state)
{
    (void)state;
    for (unsigned number = 0; number < PROGRAMS; number++) {
        int status;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            run_program(number);
        assert_int_equal(pid, waitpid(pid, &status, 0));
        assert_true(WIFEXITED(status));
        assert_int_equal(0, WEXITSTATUS(status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a program may exit while its threads write to a store on the network",
           a_program_may_exit),
    };
    fake_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fake_stop();
    return failed;
}
