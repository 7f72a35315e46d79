/* SPDX-License-Identifier: Apache-2.0 */
/* doc_pause_test.c: an operation that is queued while the leader pauses. The world of the kit has
 * one task, so a test queues it from within the sleep, as another task would. */
#include "doc/doc_inside.h"
#include "doc_kit.h"
#include "test.h"

#define PAUSE SPAN_S(7) /* the limit; the prng of the kit draws more than a second */

static struct add other; /* of the other task */
static struct env_cond wake;

static void queue_other(struct kit *kit)
{
    struct doc *doc = kit->doc;
    kit->asleep = NULL;
    other.op.state = DOC_OP_QUEUED;
    other.op.wake = &wake;
    env_mutex_lock(&doc->shared.mutex);
    doc->shared.last->next = &other.op;
    doc->shared.last = &other.op;
    env_mutex_unlock(&doc->shared.mutex);
}

static void queue_with_little_time(struct kit *kit)
{
    other = add_of(&kit->env, 3);
    other.op.deadline = mono_add(env_now(&kit->env), SPAN_S(1));
    queue_other(kit);
}

static void queue_renewal(struct kit *kit)
{
    other = add_of(&kit->env, 3);
    other.op.urgent = true;
    queue_other(kit);
}

/* A leader with much time, which pauses after its first attempt. */
static struct add lead_in_crowd(struct kit *kit, void (*asleep)(struct kit *kit))
{
    kit->takes = SPAN_MS(2);
    kit_warm_up(kit);
    kit->doc->crowd.pause = PAUSE;
    kit->doc->crowd.conflicted = env_now(&kit->env);
    kit->asleep = asleep;
    env_cond_init(&kit->env, &wake);
    struct add add = add_of(&kit->env, 2);
    add.op.deadline = mono_add(env_now(&kit->env), SPAN_S(60));
    return add;
}

static void a_pause_leaves_time_for_all(void **state)
{
    struct kit *kit = *state;
    struct add add = lead_in_crowd(kit, queue_with_little_time);
    kit_script(kit, SCRIPT(REFUSE(HF_CONFLICT)), PASS);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_status(HF_OK, other.op.error.status, &other.op.error);
    assert_requests(kit, 1, 2);
    /* It is noticed a slice of the pause later, which is 250 ms, and then a quarter is left. */
    struct span waited = mono_since(kit->calls[1].at, kit->calls[0].at);
    assert_in_range(waited.us, 250000, 450000);
}

static void a_pause_that_is_cut_teaches_nothing(void **state)
{
    struct kit *kit = *state;
    struct add add = lead_in_crowd(kit, queue_renewal);
    kit->doc->crowd.pause = SPAN_S(1);
    kit_script(kit, SCRIPT(REFUSE(HF_CONFLICT), PASS, REFUSE(HF_CONFLICT)), PASS);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_status(HF_OK, other.op.error.status, &other.op.error);
    assert_requests(kit, 2, 3);
    assert_true(mono_since(kit->calls[1].at, kit->calls[0].at).us >= 250000);
    assert_int_equal(kit->doc->crowd.pause.us, 1000000);
}

static void updates_that_take(struct kit *kit, unsigned count, struct span takes)
{
    kit->takes = takes;
    for (unsigned i = 0; i < count; i++) {
        struct add add = add_of(&kit->env, 1);
        add.op.deadline = mono_add(env_now(&kit->env), SPAN_S(60));
        assert_int_equal(kit_update(kit, &add), HF_OK);
    }
}

static void one_late_reply_does_not_lengthen_the_pauses(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    updates_that_take(kit, 40, SPAN_MS(2));
    assert_in_range(doc_round_trip(kit->doc).us, 1900, 2000);
    updates_that_take(kit, 1, SPAN_S(30));
    assert_in_range(doc_round_trip(kit->doc).us, 26000, 27000);
    updates_that_take(kit, 40, SPAN_MS(80)); /* a store that is slow from now on */
    assert_in_range(doc_round_trip(kit->doc).us, 78000, 80000);
    updates_that_take(kit, 1, SPAN_S(30));
    assert_in_range(doc_round_trip(kit->doc).us, 105000, 110000);
}

/* ---- With threads -------------------------------------------------------------------- */

/* Two tasks, on a store that does not answer. */
struct patience {
    struct script script;
    struct doc_clock clock;
    struct ledger_context context;
    struct doc *doc;
    struct add leading, waiting;
    struct env_task *task; /* that waits */
    struct mono_time returned;
};

static void wait_for_leader(void *argument)
{
    struct patience *it = argument;
    doc_update(it->doc, &it->waiting.op);
    it->returned = env_now(env_real());
}

/* During the first attempt, the other task queues its operation, which the next attempt takes. */
static void queue_beside_leader(void *argument)
{
    struct patience *it = argument;
    struct hf_error error;
    bool queued = false;
    assert_status(HF_OK, env_task_start(env_real(), wait_for_leader, it, &it->task, &error),
                  &error);
    while (!queued) {
        env_sleep(env_real(), SPAN_MS(1));
        env_mutex_lock(&it->doc->shared.mutex);
        queued = it->doc->shared.first != NULL;
        env_mutex_unlock(&it->doc->shared.mutex);
    }
}

/* During the second attempt, the other task is woken, as by a task that has left its turn to it,
 * and finds its operation taken. */
static void wake_other(void *argument)
{
    struct patience *it = argument;
    env_mutex_lock(&it->doc->shared.mutex);
    bool taken = it->waiting.op.state == DOC_OP_TAKEN;
    if (taken)
        env_cond_signal(it->waiting.op.wake);
    env_mutex_unlock(&it->doc->shared.mutex);
    assert_true(taken);
    env_sleep(env_real(), SPAN_MS(50));
}

static void a_task_returns_at_its_deadline(void **state)
{
    struct patience it = { .waiting = add_of(env_real(), 2) };
    struct env *env = env_real();
    struct hf_error error;
    struct store *mem;
    (void)state;
    assert_status(HF_OK, store_open(env, VIEW("mem:"), &mem, &error), &error);
    script_init(&it.script, mem);
    it.script.owns_inner = true;
    script_rule(&it.script, .name = "away", .fate = REFUSE(HF_UNAVAILABLE));
    script_rule(&it.script, .times = 1, .before = queue_beside_leader, .argument = &it);
    script_rule(&it.script, .skip = 1, .times = 1, .before = wake_other, .argument = &it);
    clock_init(&it.clock, &it.script.base);
    assert_status(HF_OK,
                  doc_new(&it.script.base, &it.clock, KIT_KEY, &ledger_type, &it.context,
                          &it.doc, &error),
                  &error);
    while (retry_budget_take(store_budget(&it.script.base), env_now(env)))
        continue;
    retry_budget_refund(store_budget(&it.script.base)); /* there is one retry */
    it.leading = add_of(env, 1);
    it.leading.op.deadline = mono_add(env_now(env), SPAN_S(4));
    it.waiting.op.deadline = mono_add(env_now(env), SPAN_S(1));
    assert_int_equal(doc_update(it.doc, &it.leading.op), HF_TIMEOUT);
    env_task_join(env, it.task);
    assert_int_equal(it.waiting.op.error.status, HF_TIMEOUT);
    assert_int_equal(script_met(&it.script, "away"), 2);
    assert_true(mono_since(it.returned, it.waiting.op.deadline).us < SPAN_S(2).us);
    doc_free(it.doc);
    clock_release(&it.clock);
    store_close(&it.script.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT("a pause takes no more than a quarter of the time that any operation in the queue "
            "has",
            a_pause_leaves_time_for_all),
        KIT("a pause that a renewal has cut short teaches nothing about pauses",
            a_pause_that_is_cut_teaches_nothing),
        KIT("one late reply does not lengthen the pauses after it",
            one_late_reply_does_not_lengthen_the_pauses),
        IT("a task returns at its deadline, however long its leader waits for the store",
           a_task_returns_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
