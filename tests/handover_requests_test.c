/* SPDX-License-Identifier: Apache-2.0 */
/* handover_requests_test.c: how many requests it takes to pass a lock from one client to the next,
 * on a store with latency that does not notify its clients. (The workload `handover` of the
 * simulator shows the same for many delays and times of holding.) */
#include "lock/client_inside.h"
#include "meter.h"
#include "test.h"

#include <stdatomic.h>

#define CLIENTS 16
#define WARM_UP 64  /* hand-overs, until everybody knows the pace */
#define COUNTED 128 /* hand-overs */
#define STORE   VIEW("mem:?delay=10ms")
#define WAIT_MS 60000
#define HOLD    SPAN_MS(5) /* otherwise, with delays that are all alike, nobody gets into line */
#define FEW     6          /* requests for each; about five */

struct line_of_clients {
    struct store *store;
    struct meter meter;
    struct meter_counts counts[CALL_KIND_COUNT]; /* of the hand-overs that are counted */
    atomic_uint passed, failed;
    atomic_int holders;
};

struct runner {
    struct line_of_clients *line;
    struct env_task *task;
};

static void pass_around(struct line_of_clients *line, struct hf_lock *lock)
{
    struct hf_error error;
    while (atomic_load(&line->passed) < WARM_UP + COUNTED) {
        atomic_fetch_add(&line->failed, hf_lock_acquire(lock, WAIT_MS, &error) != HF_OK);
        atomic_fetch_add(&line->failed, atomic_fetch_add(&line->holders, 1) != 0);
        unsigned passed = atomic_fetch_add(&line->passed, 1) + 1;
        if (passed == WARM_UP)
            meter_reset(&line->meter);
        if (passed == WARM_UP + COUNTED)
            meter_read(&line->meter, line->counts);
        env_sleep(env_real(), HOLD);
        atomic_fetch_sub(&line->holders, 1);
        atomic_fetch_add(&line->failed, hf_lock_release(lock, &error) != HF_OK);
    }
}

static void run(void *argument)
{
    struct line_of_clients *line = ((struct runner *)argument)->line;
    struct hf_client *client = NULL;
    struct hf_lock *lock = NULL;
    struct hf_error error;
    if (client_new(line->store, NULL, &client, &error) == HF_OK &&
        hf_lock_new(client, "baton", NULL, &lock, &error) == HF_OK)
        pass_around(line, lock);
    else
        atomic_fetch_add(&line->failed, 1);
    hf_lock_free(lock);
    hf_client_close(client);
}

static void a_hand_over_takes_few_requests(void **state)
{
    struct env *env = env_real();
    struct line_of_clients line = { .store = NULL };
    struct runner runners[CLIENTS];
    struct store *inner;
    struct hf_error error;
    (void)state;
    meter_init(&line.meter, env);
    assert_status(HF_OK, store_open(env, STORE, &inner, &error), &error);
    assert_status(HF_OK, store_observe(inner, meter_observer(&line.meter), &line.store, &error),
                  &error);
    for (size_t i = 0; i < CLIENTS; i++) {
        runners[i].line = &line;
        assert_status(HF_OK, env_task_start(env, run, &runners[i], &runners[i].task, &error),
                      &error);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        env_task_join(env, runners[i].task);
    store_close(line.store);
    meter_release(&line.meter);
    assert_int_equal(atomic_load(&line.failed), 0);
    uint64_t puts = line.counts[CALL_PUT].calls, gets = line.counts[CALL_GET].calls;
    print_message("# each: %.2f puts, %.2f of them in vain, %.2f gets\n",
                  (double)puts / COUNTED, (double)line.counts[CALL_PUT].failed / COUNTED,
                  (double)gets / COUNTED);
    assert_in_range(puts + gets, 3 * COUNTED, FEW * COUNTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a lock passes between 16 clients with few requests each",
           a_hand_over_takes_few_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
