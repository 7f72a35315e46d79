/* SPDX-License-Identifier: Apache-2.0 */
/* serve_gather_test.c: how long calls wait for others, so that they share a sync of the disk. */
#include "serve/calls/gather.h"
#include "test.h"

#define CLIENTS_MAX 64

/* Clients that each make one call after the other, and a server that writes one batch at a time.
 * Time passes in steps of 10 us. */
struct closed_loop {
    struct span sync; /* what a batch takes ... */
    struct span
        pause; /* from an answer to the next call of the first client that was answered */
    struct span spread; /* each further one calls this much later than the one before it */
    size_t clients;
    /* counted */
    size_t batches, calls;
    struct span waited; /* by calls, while nothing was written */
};

static void run_clients(struct closed_loop *run, struct span length)
{
    struct gather gather = { .answered = 0 };
    struct mono_time calls_at[CLIENTS_MAX], began = { 0 };
    bool waits[CLIENTS_MAX] = { false }, in_batch[CLIENTS_MAX] = { false }, writes = false;
    assert_true(run->clients <= CLIENTS_MAX);
    for (size_t i = 0; i < run->clients; i++) /* they start one after the other */
        calls_at[i].us = (int64_t)i * 100;
    for (struct mono_time now = { 0 }; now.us < length.us; now.us += 10) {
        size_t batch = 0, waiting = 0, arrived = 0;
        bool ends = writes && !mono_before(now, mono_add(began, run->sync));
        for (size_t i = 0; ends && i < run->clients; i++)
            if (in_batch[i]) {
                calls_at[i].us = now.us + run->pause.us + (int64_t)batch++ * run->spread.us;
                in_batch[i] = false;
            }
        if (ends)
            gather_batch_ended(&gather, batch, run->sync, now);
        writes = writes && !ends;
        for (size_t i = 0; i < run->clients; i++) {
            bool arrives = !waits[i] && !in_batch[i] && !mono_before(now, calls_at[i]);
            waits[i] = waits[i] || arrives;
            arrived += arrives;
            waiting += waits[i];
        }
        gather_add(&gather, arrived, now);
        if (writes || waiting == 0)
            continue;
        if (gather_waits(&gather, now)) {
            run->waited.us += 10 * (int64_t)waiting;
            continue;
        }
        for (size_t i = 0; i < run->clients; i++) {
            in_batch[i] = waits[i];
            waits[i] = false;
        }
        run->batches++;
        run->calls += waiting;
        writes = true;
        began = now;
    }
}

static void clients_on_a_slow_disk_share_each_sync(void **state)
{
    (void)state;
    for (size_t clients = 2; clients <= CLIENTS_MAX; clients *= 2) {
        struct closed_loop run = {
            .sync = SPAN_MS(3), .pause = SPAN_US(100), .spread = SPAN_US(10), .clients = clients
        };
        run_clients(&run, SPAN_S(1));
        assert_true(run.calls * 10 >= run.batches * clients * 9);
    }
}

static void one_client_never_waits(void **state)
{
    (void)state;
    for (int64_t pause = 0; pause < 3000; pause += 100) {
        struct closed_loop run = { .sync = SPAN_MS(2), .pause = SPAN_US(pause), .clients = 1 };
        run_clients(&run, SPAN_S(1));
        assert_true(run.calls > 190 && run.waited.us == 0);
    }
}

static void nobody_waits_on_a_fast_disk(void **state)
{
    (void)state;
    struct closed_loop run = { .sync = SPAN_US(200), .pause = SPAN_US(50), .clients = 16 };
    run_clients(&run, SPAN_S(1));
    assert_true(run.waited.us == 0);
}

/* They think for longer than the others can wait. */
static void nobody_waits_for_clients_that_do_not_come_back_soon(void **state)
{
    (void)state;
    struct closed_loop run = {
        .sync = SPAN_MS(2), .pause = SPAN_US(1500), .spread = SPAN_US(10), .clients = 16
    };
    run_clients(&run, SPAN_S(1));
    assert_true(run.waited.us == 0);
}

/* Half of them leave: the others wait for them once, for half of a sync. */
static void who_does_not_come_back_is_waited_for_once(void **state)
{
    (void)state;
    struct gather gather = { .answered = 0 };
    struct mono_time now = { 0 };
    for (int i = 0; i < 2; i++) {
        gather_batch_ended(&gather, 16, SPAN_MS(4), now);
        gather_add(&gather, 16, now);
        assert_false(gather_waits(&gather, now));
        now = mono_add(now, SPAN_MS(4));
    }
    gather_batch_ended(&gather, 16, SPAN_MS(4), now);
    gather_add(&gather, 8, now);
    assert_true(gather_waits(&gather, mono_add(now, SPAN_US(1990))));
    assert_false(gather_waits(&gather, mono_add(now, SPAN_MS(2))));
    now = mono_add(now, SPAN_MS(6));
    gather_batch_ended(&gather, 8, SPAN_MS(4), now);
    gather_add(&gather, 3, now);
    assert_true(gather_waits(&gather, now)); /* half of 8 */
    gather_add(&gather, 1, now);
    assert_false(gather_waits(&gather, now));
}

static void a_very_slow_disk_delays_a_call_by_10_ms_at_most(void **state)
{
    (void)state;
    struct gather gather = { .answered = 0 };
    struct mono_time now = { 0 };
    gather_batch_ended(&gather, 2, SPAN_S(1), now);
    gather_add(&gather, 2, now);
    gather_batch_ended(&gather, 2, SPAN_S(1), now);
    assert_true(gather_waits(&gather, mono_add(now, SPAN_US(9990))));
    assert_false(gather_waits(&gather, mono_add(now, SPAN_MS(10))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_on_a_slow_disk_share_each_sync),
        cmocka_unit_test(one_client_never_waits),
        cmocka_unit_test(nobody_waits_on_a_fast_disk),
        cmocka_unit_test(nobody_waits_for_clients_that_do_not_come_back_soon),
        cmocka_unit_test(who_does_not_come_back_is_waited_for_once),
        cmocka_unit_test(a_very_slow_disk_delays_a_call_by_10_ms_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
