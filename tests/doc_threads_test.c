/* SPDX-License-Identifier: Apache-2.0 */
/* doc_threads_test.c: many tasks share one document. Their operations are written together, and
 * each task gets its own result. */
#include "doc_kit.h"
#include "fault_store.h"
#include "meter.h"
#include "test.h"

#define TASKS   64
#define NODES   3
#define OPS_MAX 8

/* ---- A store in threads, and documents of it ----------------------------------------- */

struct crowd {
    struct store *store; /* meter over faults over memory */
    struct store *fault;
    struct meter meter;
    struct doc_clock clock;
    struct ledger_context contexts[NODES];
    struct doc *docs[NODES]; /* each as another process would have it */
    unsigned docs_used;
    unsigned ops;
    struct span deadline;
};

struct worker {
    struct crowd *crowd;
    unsigned number;
    struct env_task *task;
    struct add adds[OPS_MAX];
    unsigned looks;
};

/* Takes the store over. */
static void crowd_meet(struct crowd *crowd, struct store *inner)
{
    struct env *env = env_real();
    struct hf_error error;
    meter_init(&crowd->meter, env);
    assert_status(HF_OK,
                  store_observe(inner, meter_observer(&crowd->meter), &crowd->store, &error),
                  &error);
    clock_init(&crowd->clock, crowd->store);
    for (unsigned i = 0; i < crowd->docs_used; i++)
        assert_status(HF_OK,
                      doc_new(crowd->store, &crowd->clock, KIT_KEY, &ledger_type,
                              &crowd->contexts[i], &crowd->docs[i], &error),
                      &error);
}

static void crowd_open(struct crowd *crowd, struct fault_plan plan)
{
    struct store *mem;
    struct hf_error error;
    assert_status(HF_OK, store_open(env_real(), VIEW("mem:"), &mem, &error), &error);
    assert_status(HF_OK, store_fault(mem, &plan, &crowd->fault, &error), &error);
    crowd_meet(crowd, crowd->fault);
}

static void crowd_close(struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->docs_used; i++)
        doc_free(crowd->docs[i]);
    clock_release(&crowd->clock);
    store_close(crowd->store);
    meter_release(&crowd->meter);
    assert_int_equal(ledger_bodies(), 0);
}

static uint64_t id_of(const struct worker *worker, unsigned op)
{
    return 1 + (uint64_t)worker->number * OPS_MAX + op;
}

static void work(void *argument)
{
    struct worker *worker = argument;
    struct crowd *crowd = worker->crowd;
    struct env *env = env_real();
    struct doc *doc = crowd->docs[worker->number % crowd->docs_used];
    for (unsigned i = 0; i < crowd->ops; i++) {
        worker->adds[i] = add_of(env, id_of(worker, i));
        worker->adds[i].op.deadline = mono_add(env_now(env), crowd->deadline);
        doc_update(doc, &worker->adds[i].op);
    }
}

static void count_look(void *argument, const void *body, const struct evidence *evidence)
{
    (void)body;
    (void)evidence;
    ++*(unsigned *)argument;
}

static void look_around(void *argument)
{
    struct worker *worker = argument;
    struct crowd *crowd = worker->crowd;
    struct hf_error error;
    for (unsigned i = 0; i < crowd->ops; i++)
        doc_look(crowd->docs[0], mono_add(env_now(env_real()), SPAN_S(20)), count_look,
                 &worker->looks, &error);
}

static void start(struct crowd *crowd, struct worker *worker, unsigned number,
                  void (*run)(void *))
{
    struct hf_error error;
    worker->crowd = crowd;
    worker->number = number;
    assert_status(HF_OK, env_task_start(env_real(), run, worker, &worker->task, &error),
                  &error);
}

static void join(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        env_task_join(env_real(), workers[i].task);
}

/* Fails the test unless what was told is so; counts by status. */
static void judge(struct crowd *crowd, const struct worker *workers, unsigned count,
                  unsigned told[HF_STATUS_COUNT])
{
    struct ledger *ledger = ledger_read(crowd->store);
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < crowd->ops; j++) {
            enum hf_status status = workers[i].adds[j].op.error.status;
            size_t times = ledger ? ledger_times(ledger, id_of(&workers[i], j)) : 0;
            told[status]++;
            if (status == HF_OK ? times != 1 : status == HF_UNSURE ? times > 1 : times > 0)
                fail_msg("told %s, and in the store %zu times", hf_status_name(status), times);
        }
    ledger_drop(ledger);
}

/* ---- Tests --------------------------------------------------------------------------- */

static void combining(void **state)
{
    (void)state;
    static struct worker workers[TASKS];
    struct crowd crowd = { .docs_used = 1, .ops = OPS_MAX, .deadline = SPAN_S(20) };
    crowd_open(&crowd,
               (struct fault_plan){ .seed = 1, .delay = 1000000, .delay_max = SPAN_MS(4) });
    for (unsigned i = 0; i < TASKS; i++)
        start(&crowd, &workers[i], i, work);
    join(workers, TASKS);
    unsigned told[HF_STATUS_COUNT] = { 0 };
    judge(&crowd, workers, TASKS, told);
    assert_int_equal(told[HF_OK], TASKS * OPS_MAX);
    struct meter_counts counts[CALL_KIND_COUNT];
    meter_read(&crowd.meter, counts);
    assert_true(counts[CALL_PUT].calls * 5 < TASKS * OPS_MAX);
    assert_int_equal(counts[CALL_PUT].failed, 0);
    assert_int_equal(counts[CALL_GET].calls, 2); /* the first load, and the judge's */
    crowd_close(&crowd);
}

static void looking_meanwhile(void **state)
{
    (void)state;
    static struct worker workers[16 + 8];
    struct crowd crowd = { .docs_used = 1, .ops = OPS_MAX, .deadline = SPAN_S(20) };
    crowd_open(&crowd,
               (struct fault_plan){ .seed = 2, .delay = 1000000, .delay_max = SPAN_MS(1) });
    struct add first = add_of(env_real(), 1000);
    assert_int_equal(doc_update(crowd.docs[0], &first.op), HF_OK);
    for (unsigned i = 0; i < 24; i++)
        start(&crowd, &workers[i], i, i < 16 ? work : look_around);
    join(workers, 24);
    unsigned told[HF_STATUS_COUNT] = { 0 };
    judge(&crowd, workers, 16, told);
    assert_int_equal(told[HF_OK], 16 * OPS_MAX);
    for (unsigned i = 16; i < 24; i++)
        assert_int_equal(workers[i].looks, OPS_MAX);
    crowd_close(&crowd);
}

/* Three processes, as it were, on a store that changes objects in one step. */
static void steps(void **state)
{
    (void)state;
    static struct worker workers[TASKS];
    struct crowd crowd = { .docs_used = NODES, .ops = OPS_MAX, .deadline = SPAN_S(20) };
    struct buffer url = BUFFER_INIT(KIB);
    struct store *store;
    struct hf_error error;
    char *folder = test_dir_make();
    assert_true(buffer_print(&url, "sqlite:%s/store", folder));
    assert_status(HF_OK, store_open(env_real(), buffer_view(&url), &store, &error), &error);
    crowd_meet(&crowd, store);
    for (unsigned i = 0; i < TASKS; i++)
        start(&crowd, &workers[i], i, work);
    join(workers, TASKS);
    unsigned told[HF_STATUS_COUNT] = { 0 };
    judge(&crowd, workers, TASKS, told);
    assert_int_equal(told[HF_OK], TASKS * OPS_MAX);
    crowd_close(&crowd);
    buffer_release(&url);
    test_dir_remove(folder);
}

/* Three processes, a store that does anything, and too little time: every status is told, and
 * each is so. */
static void trouble(void **state)
{
    (void)state;
    static struct worker workers[TASKS];
    unsigned told[HF_STATUS_COUNT] = { 0 };
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct crowd crowd = { .docs_used = NODES, .ops = OPS_MAX, .deadline = SPAN_MS(25) };
        crowd_open(&crowd, (struct fault_plan){ .seed = seed,
                                                .throttle = 60000,
                                                .refuse = 60000,
                                                .lose = 80000,
                                                .lose_reply = 80000,
                                                .late = 120000,
                                                .delay = 300000,
                                                .delay_max = SPAN_MS(3),
                                                .late_max = SPAN_MS(30) });
        for (unsigned i = 0; i < TASKS; i++)
            start(&crowd, &workers[i], i, work);
        join(workers, TASKS);
        store_fault_calm(crowd.fault);
        judge(&crowd, workers, TASKS, told);
        crowd_close(&crowd);
    }
    assert_true(told[HF_OK] > 0);
    assert_true(told[HF_UNSURE] > 0);
    assert_int_equal(told[HF_OK] + told[HF_UNSURE] + told[HF_TIMEOUT], 12 * TASKS * OPS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("operations of many tasks are written together, each counted once", combining),
        IT("those who look and those who write take turns", looking_meanwhile),
        IT("where a store changes objects in one step each is counted once, too", steps),
        IT("among faults and with little time what is told is so", trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
