/* SPDX-License-Identifier: Apache-2.0 */
/* doc_test.c: how many requests an update takes, and what it reports if requests fail. A script
 * decides the result of every call. */
#include "doc_kit.h"
#include "test.h"

/* ---- Requests ------------------------------------------------------------------------ */

static void first_update(void **state)
{
    struct kit *kit = *state;
    assert_int_equal(kit_add(kit, 1), HF_OK);
    assert_requests(kit, 1, 1);
    assert_int_equal(kit->calls[1].condition, CONDITION_ABSENT);
    assert_int_equal(kit_times(kit, 1), 1);
}

static void first_update_with_stub(void **state)
{
    struct kit *kit = *state;
    kit->context.stub = true;
    assert_int_equal(kit_add(kit, 1), HF_OK);
    assert_requests(kit, 1, 2);
    assert_int_equal(kit->calls[1].condition, CONDITION_ABSENT);
    assert_int_equal(kit->calls[2].condition, CONDITION_MATCH);
    assert_int_equal(kit_times(kit, 1), 1);
}

static void warm_update(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    for (uint64_t id = 2; id < 12; id++)
        assert_int_equal(kit_add(kit, id), HF_OK);
    assert_requests(kit, 0, 10);
    for (uint64_t id = 1; id < 12; id++)
        assert_int_equal(kit_times(kit, id), 1);
}

static void cold_update(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    assert_true(kit_cold(kit));
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_requests(kit, 1, 1);
}

static void cold_refusal(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    assert_true(kit_cold(kit));
    struct add add = add_of(&kit->env, 2);
    add.unless = 1;
    assert_int_equal(kit_update(kit, &add), HF_HELD);
    assert_string_equal(add.op.error.why, "1 is there");
    assert_requests(kit, 1, 0);
    assert_int_equal(add.applied, 1);
}

static void warm_refusal(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    struct add add = add_of(&kit->env, 2);
    add.unless = 1;
    assert_int_equal(kit_update(kit, &add), HF_HELD);
    assert_requests(kit, 1, 0);
    assert_true(kit->calls[0].conditional);
    assert_int_equal(kit->calls[0].status, HF_NOT_MODIFIED);
    assert_int_equal(add.applied, 2);
}

static void count_look(void *argument, const void *body, const struct evidence *evidence)
{
    const struct ledger *ledger = body;
    (void)evidence;
    *(size_t *)argument = ledger->count;
}

static bool recalls(struct kit *kit, size_t ids)
{
    size_t count = 0;
    bool known = doc_recall(kit->doc, SPAN_MS(10), count_look, &count);
    assert_int_equal(count, known ? ids : 0);
    return known;
}

static void recalled(void **state)
{
    struct kit *kit = *state;
    assert_false(recalls(kit, 0));
    kit_warm_up(kit);
    assert_true(recalls(kit, 1));
    kit->now_us += 10000;
    assert_true(recalls(kit, 1));
    kit->now_us += 1;
    assert_false(recalls(kit, 1));
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_true(recalls(kit, 2));
    assert_requests(kit, 0, 1);
}

/* The cached body contains the change of a put that was refused. */
static void not_recalled(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(REFUSE(HF_DENIED)), PASS);
    assert_int_equal(kit_add(kit, 2), HF_DENIED);
    assert_false(recalls(kit, 1));
    assert_int_equal(kit_add(kit, 3), HF_OK);
    assert_true(recalls(kit, 2));
}

/* Another process replaces the ledger by one without id 1. */
static void replace_ledger(struct kit *kit)
{
    struct delete_call removal = { .key = KIT_KEY };
    assert_status(HF_OK, store_delete(kit->mem, &removal), &removal.error);
    kit_other_adds(kit, 9);
}

static void outdated_refusal(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    replace_ledger(kit);
    struct add add = add_of(&kit->env, 2);
    add.unless = 1;
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 1, 1);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void outdated_nothing_to_do(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    struct add add = add_of(&kit->env, 1);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 1, 0);
    replace_ledger(kit);
    kit_script(kit, SCRIPT(PASS), PASS);
    add = add_of(&kit->env, 1);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 1, 1);
    assert_int_equal(kit_times(kit, 1), 1);
}

static void nothing_to_do_on_an_absent_one(void **state)
{
    struct kit *kit = *state;
    for (int i = 0; i < 2; i++) {
        struct add add = add_of(&kit->env, 1);
        add.touch_nothing = true;
        assert_int_equal(kit_update(kit, &add), HF_OK);
        assert_requests(kit, (size_t)i + 1, 0);
    }
}

/* ---- Conflicts ----------------------------------------------------------------------- */

static void conflict(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_other_adds(kit, 9);
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 1, 2);
    assert_int_equal(kit->calls[0].status, HF_CONFLICT);
    assert_false(kit->calls[1].conditional);
    assert_int_equal(add.applied, 2);
    assert_int_equal(kit_times(kit, 1), 1);
    assert_int_equal(kit_times(kit, 2), 1);
    assert_int_equal(kit_times(kit, 9), 1);
}

static void refused_after_conflict(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_other_adds(kit, 9);
    struct add add = add_of(&kit->env, 2);
    add.unless = 9;
    assert_int_equal(kit_update(kit, &add), HF_HELD);
    assert_requests(kit, 1, 1);
    assert_int_equal(kit_times(kit, 2), 0);
}

static void object_gone(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    struct delete_call removal = { .key = KIT_KEY };
    assert_status(HF_OK, store_delete(kit->mem, &removal), &removal.error);
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_requests(kit, 1, 2);
    assert_int_equal(kit->calls[2].condition, CONDITION_ABSENT);
    assert_int_equal(kit_times(kit, 1), 0);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void two_births(void **state)
{
    struct kit *kit = *state;
    kit->context.stub = true;
    kit_script(kit, SCRIPT(PASS, TWICE), PASS);
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_requests(kit, 2, 2);
    assert_int_equal(kit_times(kit, 2), 1);
}

/* ---- Batches ------------------------------------------------------------------------- */

static void many_in_one_put(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    struct add adds[300];
    struct doc_op *ops[300];
    for (size_t i = 0; i < 300; i++) {
        adds[i] = add_of(&kit->env, 2 + i);
        ops[i] = &adds[i].op;
    }
    adds[7].unless = 1;
    assert_int_equal(doc_update_many(kit->doc, ops, 100), HF_HELD);
    assert_requests(kit, 0, 1);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(adds[i].op.error.status, i == 7 ? HF_HELD : HF_OK);
        assert_int_equal(kit_times(kit, 2 + i), i == 7 ? 0 : 1);
    }
    assert_int_equal(doc_update_many(kit->doc, ops + 100, 200), HF_OK);
    assert_requests(kit, 0, 2);
    assert_int_equal(doc_update_many(kit->doc, ops, 300), HF_HELD);
    assert_requests(kit, 2, 2); /* two batches of nothing to do, each compared */
    assert_int_equal(doc_update_many(kit->doc, NULL, 0), HF_OK);
}

/* What a batch-mate did makes a refusal, and then it did not happen after all. */
static void refusal_by_a_batch_mate(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_other_adds(kit, 9);
    struct add one = add_of(&kit->env, 2), two = add_of(&kit->env, 3);
    one.unless = 9;
    two.unless = 2;
    assert_int_equal(doc_update_many(kit->doc, (struct doc_op *[]){ &one.op, &two.op }, 2),
                     HF_HELD);
    assert_int_equal(one.op.error.status, HF_HELD);
    assert_int_equal(two.op.error.status, HF_OK);
    assert_int_equal(kit_times(kit, 2), 0);
    assert_int_equal(kit_times(kit, 3), 1);
}

static void order_in_a_batch(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_other_adds(kit, 9);
    struct add adds[4];
    struct doc_op *ops[4];
    for (size_t i = 0; i < 4; i++) {
        adds[i] = add_of(&kit->env, 2 + i);
        adds[i].unless = i > 0 ? 2 : 0;
        ops[i] = &adds[i].op;
    }
    assert_int_equal(doc_update_many(kit->doc, ops, 4), HF_HELD);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(adds[i].applied, 2);
        assert_int_equal(adds[i].op.error.status, i > 0 ? HF_HELD : HF_OK);
    }
}

static void refusal_with_a_failed_put(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(REFUSE(HF_DENIED)), PASS);
    struct add one = add_of(&kit->env, 2), two = add_of(&kit->env, 3);
    two.unless = 2;
    struct doc_op *ops[] = { &one.op, &two.op };
    assert_int_equal(doc_update_many(kit->doc, ops, 2), HF_DENIED);
    assert_int_equal(two.op.error.status, HF_DENIED);
    kit_script(kit, SCRIPT(PASS), REFUSE(HF_UNAVAILABLE));
    assert_int_equal(doc_update_many(kit->doc, ops, 2), HF_TIMEOUT);
    assert_int_equal(two.op.error.status, HF_TIMEOUT);
    assert_string_equal(two.op.error.why, "not done before the deadline: by the script");
    assert_int_equal(kit_times(kit, 2), 0);
}

/* ---- Looking and being shown --------------------------------------------------------- */

struct sight {
    unsigned times;
    size_t count;
    struct mono_time previous_arrived;
    struct mono_time now;
    size_t nonce_size;
};

static void look(void *argument, const void *body, const struct evidence *evidence)
{
    struct sight *sight = argument;
    const struct ledger *ledger = body;
    sight->times++;
    sight->count = ledger->count;
    sight->previous_arrived = ledger->previous_arrived;
    sight->now = evidence->now;
    sight->nonce_size = evidence->nonce.size;
}

static enum hf_status look_now(struct kit *kit, struct sight *sight)
{
    struct hf_error error = { .status = HF_OK };
    enum hf_status status =
        doc_look(kit->doc, mono_add(env_now(&kit->env), KIT_DEADLINE), look, sight, &error);
    assert_true(status == HF_OK || error.status == status);
    return status;
}

static void looking(void **state)
{
    struct kit *kit = *state;
    struct sight sight = { 0 };
    assert_int_equal(look_now(kit, &sight), HF_NOT_FOUND);
    kit_other_adds(kit, 1);
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(sight.count, 1);
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(kit->calls[2].status, HF_NOT_MODIFIED);
    kit_other_adds(kit, 2);
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(sight.count, 2);
    assert_int_equal(sight.times, 3);
    assert_requests(kit, 4, 0);
    assert_int_equal(kit_add(kit, 3), HF_OK); /* a look has made it warm */
    assert_requests(kit, 4, 1);
    kit_script(kit, SCRIPT(REFUSE(HF_UNAVAILABLE)), PASS);
    assert_int_equal(look_now(kit, &sight), HF_UNAVAILABLE);
    assert_int_equal(sight.times, 3);
}

static void looking_after_a_failed_put(void **state)
{
    struct kit *kit = *state;
    struct sight sight = { 0 };
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(REFUSE(HF_DENIED)), PASS);
    assert_int_equal(kit_add(kit, 2), HF_DENIED);
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(sight.count, 1);
    assert_false(kit->calls[1].conditional);
}

/* To look asks for nothing more than what is there, and changes nothing. */
static void looking_does_not_prepare(void **state)
{
    struct kit *kit = *state;
    struct sight sight = { 0 };
    kit_other_adds(kit, 1);
    kit->context.prepare_status = HF_DENIED;
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(sight.times, 1);
    assert_int_equal(kit->context.prepared, 0);
    assert_int_equal(kit_add(kit, 2), HF_DENIED);
    kit->context.prepare_status = HF_OK;
    assert_int_equal(kit_add(kit, 3), HF_OK);
    assert_int_equal(kit->context.prepared, 2);
    assert_int_equal(kit_add(kit, 4), HF_OK);
    assert_int_equal(kit->context.prepared, 2); /* once a body */
}

/* What preparing has added must be in the store before anything is told of it. */
static void prepared_is_written(void **state)
{
    struct kit *kit = *state;
    kit_other_adds(kit, 1);
    ledger_whole = false;
    struct add add = add_of(&kit->env, 2);
    add.unless = 1;
    assert_int_equal(kit_update(kit, &add), HF_HELD);
    ledger_whole = true;
    assert_requests(kit, 1, 1);
    assert_int_equal(kit_times(kit, 1), 1);
    assert_int_equal(kit_times(kit, 2), 0);
}

static void being_shown(void **state)
{
    struct kit *kit = *state;
    struct sight seen = { 0 };
    kit_other_adds(kit, 1);
    doc_observe(kit->doc, look, &seen);
    kit->takes = SPAN_MS(5);
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_int_equal(seen.times, 2); /* as loaded, as written */
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.now.us, add.op.attempts[0].t0.us);
    assert_int_equal(seen.nonce_size, NONCE_SIZE);
    kit_other_adds(kit, 3);
    kit_script(kit, SCRIPT(PASS, REFUSE(HF_DENIED)), PASS);
    assert_int_equal(kit_add(kit, 4), HF_UNSURE);
    assert_int_equal(seen.times, 2); /* neither what was not written nor what was not read */
    struct sight sight = { 0 };
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(seen.times, 3);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.nonce_size, 0);
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(seen.times, 3); /* not modified: nothing new */
}

static void being_shown_a_birth(void **state)
{
    struct kit *kit = *state;
    struct sight seen = { 0 };
    doc_observe(kit->doc, look, &seen);
    struct add add = add_of(&kit->env, 1);
    add.touch_nothing = true;
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_int_equal(seen.times, 0); /* nothing is in the store */
    kit->context.stub = true;
    assert_true(kit_cold(kit));
    doc_observe(kit->doc, look, &seen);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_int_equal(seen.times, 1);
}

/* A body that could not be written still passes on what it knows of sightings. */
static void sightings(void **state)
{
    struct kit *kit = *state;
    struct sight sight = { 0 };
    kit_other_adds(kit, 1);
    struct mono_time first = mono_add(env_now(&kit->env), kit->takes);
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(sight.previous_arrived.us, 0);
    kit->now_us += 7000000;
    kit_other_adds(kit, 9);
    assert_int_equal(kit_add(kit, 2), HF_OK); /* after a conflict */
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(sight.previous_arrived.us, first.us);
}

/* ---- Bodies that cannot be used ------------------------------------------------------ */

static void prepared_again(void **state)
{
    struct kit *kit = *state;
    kit_other_adds(kit, 1);
    kit->context.prepare_conflicts = 2;
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_requests(kit, 3, 1);
    assert_int_equal(kit->context.prepared, 3);
    assert_true(kit_cold(kit));
    kit->context.prepare_status = HF_DENIED;
    struct add add = add_of(&kit->env, 4);
    assert_int_equal(kit_update(kit, &add), HF_DENIED);
    assert_string_equal(add.op.error.why, "cannot be prepared");
    assert_int_equal(add.applied, 0);
    kit->context.prepare_status = HF_OK;
    add.op.deadline = mono_add(env_now(&kit->env), KIT_DEADLINE);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_int_equal(kit_times(kit, 4), 1);
}

static void write_raw(struct kit *kit, struct view text)
{
    struct put_call put = { .key = KIT_KEY, .body = text };
    assert_status(HF_OK, store_put(kit->mem, &put), &put.error);
}

static void damaged(void **state)
{
    struct kit *kit = *state;
    struct sight sight = { 0 };
    kit_warm_up(kit);
    write_raw(kit, VIEW("something else"));
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_UNSURE); /* the conflict may have been our own */
    assert_string_equal(add.op.error.why, "this is no ledger");
    assert_int_equal(look_now(kit, &sight), HF_CORRUPT);
    add = add_of(&kit->env, 3);
    assert_int_equal(kit_update(kit, &add), HF_CORRUPT);
    write_raw(kit, VIEW("0123456789abcdef0123456789abcdef\n"));
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_int_equal(kit_times(kit, 3), 1);
}

static void too_large(void **state)
{
    struct kit *kit = *state;
    static char text[256 * 1024 + 1];
    memset(text, 'x', sizeof text);
    write_raw(kit, (struct view){ text, sizeof text });
    struct add add = add_of(&kit->env, 2);
    enum hf_status status = kit_update(kit, &add);
    assert_true(status != HF_OK && status != HF_UNSURE);
    assert_true(strlen(add.op.error.why) > 0);
}

/* ---- In one step --------------------------------------------------------------------- */

static void in_one_step(void **state)
{
    struct kit *kit = *state;
    script_take_steps(&kit->store);
    assert_int_equal(kit_add(kit, 1), HF_OK);
    assert_steps(kit, 1, 0, 1); /* the step shows that there is nothing */
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_steps(kit, 2, 0, 1);
    assert_true(kit->calls[2].conditional);
    kit_other_adds(kit, 9);
    assert_int_equal(kit_add(kit, 3), HF_OK); /* no conflict */
    assert_steps(kit, 3, 0, 1);
    struct add refused = add_of(&kit->env, 4);
    refused.unless = 9;
    assert_int_equal(kit_update(kit, &refused), HF_HELD);
    assert_int_equal(refused.applied, 1);
    assert_true(kit_cold(kit));
    assert_int_equal(kit_add(kit, 5), HF_OK);
    assert_steps(kit, 5, 0, 1);
    for (uint64_t id = 1; id <= 5; id++)
        assert_int_equal(kit_times(kit, id), id != 4);
}

static void a_step_on_nothing(void **state)
{
    struct kit *kit = *state;
    script_take_steps(&kit->store);
    assert_int_equal(kit_add(kit, 1), HF_OK);
    struct delete_call removal = { .key = KIT_KEY };
    assert_status(HF_OK, store_delete(kit->mem, &removal), &removal.error);
    kit_script(kit, SCRIPT(PASS), PASS);
    struct add add = add_of(&kit->env, 2);
    add.unless = 1;
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_steps(kit, 1, 0, 1);
    assert_int_equal(kit->calls[1].condition, CONDITION_ABSENT);
    assert_int_equal(kit_times(kit, 1), 0);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void a_step_that_needs_more(void **state)
{
    struct kit *kit = *state;
    script_take_steps(&kit->store);
    kit_other_adds(kit, 1);
    ledger_whole = false;
    assert_int_equal(kit_add(kit, 2), HF_OK);
    ledger_whole = true;
    assert_steps(kit, 1, 0, 1); /* the step has read it */
    kit_other_adds(kit, 3);
    kit_script(kit, SCRIPT(AGAIN), PASS);
    assert_int_equal(kit_add(kit, 4), HF_OK);
    assert_steps(kit, 1, 1, 1);
    kit_script(kit, SCRIPT(REFUSE(HF_UNSUPPORTED)), PASS);
    assert_int_equal(kit_add(kit, 5), HF_OK);
    assert_steps(kit, 1, 1, 1); /* its body has a change that was not written */
    for (uint64_t id = 1; id <= 5; id++)
        assert_int_equal(kit_times(kit, id), 1);
}

static void a_step_after_a_look(void **state)
{
    struct kit *kit = *state;
    struct sight sight = { 0 };
    script_take_steps(&kit->store);
    kit_other_adds(kit, 1);
    assert_int_equal(look_now(kit, &sight), HF_OK);
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_int_equal(kit->context.prepared, 1);
    assert_int_equal(kit_add(kit, 3), HF_OK);
    assert_int_equal(kit->context.prepared, 1);
}

static void a_step_without_an_answer(void **state)
{
    struct kit *kit = *state;
    script_take_steps(&kit->store);
    kit_other_adds(kit, 1);
    kit_script(kit, SCRIPT(LOSE_REPLY), PASS);
    assert_int_equal(kit_add(kit, 2), HF_OK);
    kit_script(kit, SCRIPT(DECIDED(HF_UNSURE)), PASS);
    assert_int_equal(kit_add(kit, 3), HF_OK);
    kit_script(kit, SCRIPT(DECIDED(HF_UNSURE)), REFUSE(HF_UNAVAILABLE));
    assert_int_equal(kit_add(kit, 4), HF_UNSURE);
    kit_script(kit, SCRIPT(DECIDED(HF_UNAVAILABLE)), REFUSE(HF_UNAVAILABLE));
    assert_int_equal(kit_add(kit, 5), HF_TIMEOUT);
    for (uint64_t id = 1; id <= 5; id++)
        assert_int_equal(kit_times(kit, id), id <= 3);
}

static void steps_are_shown(void **state)
{
    struct kit *kit = *state;
    struct sight seen = { 0 };
    script_take_steps(&kit->store);
    kit_other_adds(kit, 1);
    doc_observe(kit->doc, look, &seen);
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_int_equal(seen.times, 1); /* as written */
    assert_int_equal(seen.count, 2);
    kit_other_adds(kit, 3);
    assert_int_equal(kit_add(kit, 2), HF_OK); /* nothing to do, but something to see */
    assert_int_equal(seen.times, 2);
    assert_int_equal(seen.count, 3);
    assert_int_equal(kit_add(kit, 2), HF_OK); /* neither */
    assert_int_equal(seen.times, 2);
    kit_script(kit, SCRIPT(DECIDED(HF_DENIED)), PASS);
    assert_int_equal(kit_add(kit, 4), HF_DENIED);
    assert_int_equal(seen.times, 2);
}

/* ---- Others --------------------------------------------------------------------------- */

static void add_after_other(struct kit *kit, uint64_t id, struct span idle)
{
    kit_other_adds(kit, 100 + id);
    env_sleep(&kit->env, idle);
    kit_script(kit, (const struct fate[]){ KIT_END }, PASS);
    assert_int_equal(kit_add(kit, id), HF_OK);
}

static void reading_first_where_others_write(void **state)
{
    struct kit *kit = *state;
    kit->takes = SPAN_MS(2);
    kit_warm_up(kit);
    add_after_other(kit, 2, SPAN_S(10));
    assert_requests(kit, 1, 2); /* a conflict */
    add_after_other(kit, 3, SPAN_S(10));
    assert_requests(kit, 1, 1);
    kit_script(kit, (const struct fate[]){ KIT_END }, PASS);
    assert_int_equal(kit_add(kit, 4), HF_OK);
    assert_requests(kit, 0, 1); /* its own write is the latest */
}

static void alone_again(void **state)
{
    struct kit *kit = *state;
    kit->takes = SPAN_MS(2);
    kit_warm_up(kit);
    add_after_other(kit, 2, SPAN_S(10));
    for (uint64_t id = 3; id < 40; id++) { /* nobody else has written for 16 times as long */
        env_sleep(&kit->env, SPAN_S(10));
        kit_script(kit, (const struct fate[]){ KIT_END }, PASS);
        assert_int_equal(kit_add(kit, id), HF_OK);
        assert_requests(kit, id < 3 + 15 ? 1 : 0, 1);
    }
}

/* Two conflicts in a row: then there is a crowd. The third attempt is not refused. */
static struct add add_in_crowd(struct kit *kit)
{
    kit->takes = SPAN_MS(2);
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(REFUSE(HF_CONFLICT), PASS, REFUSE(HF_CONFLICT), PASS), PASS);
    return add_of(&kit->env, 2);
}

static void an_urgent_operation_hardly_pauses(void **state)
{
    struct kit *kit = *state;
    struct add add = add_in_crowd(kit);
    add.op.urgent = true;
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 2, 3);
    /* It is tried again at once, and then after at most two round trips. */
    assert_true(mono_since(kit->calls[1].at, kit->calls[0].at).us <= kit->takes.us + 1);
    assert_true(mono_since(kit->calls[3].at, kit->calls[2].at).us <= 3 * kit->takes.us + 1);
}

static void a_store_that_fails_is_asked_less(void **state)
{
    struct kit *kit = *state;
    kit->takes = SPAN_MS(2);
    kit_warm_up(kit);
    kit_script(kit, (const struct fate[]){ KIT_END }, REFUSE(HF_UNAVAILABLE));
    struct add add = add_of(&kit->env, 2);
    add.op.deadline = mono_add(env_now(&kit->env), SPAN_S(100));
    assert_int_equal(kit_update(kit, &add), HF_TIMEOUT);
    /* The budget, one more in each five seconds, and the first attempt. */
    assert_in_range(kit->call_count, 20, 1 + 10 + 20);
}

static void a_renewal_does_not_wait_for_the_budget(void **state)
{
    struct kit *kit = *state;
    kit->takes = SPAN_MS(2);
    kit_warm_up(kit);
    kit_script(kit, (const struct fate[]){ KIT_END }, REFUSE(HF_UNAVAILABLE));
    struct add add = add_of(&kit->env, 2);
    add.op.urgent = true;
    add.op.deadline = mono_add(env_now(&kit->env), SPAN_S(20));
    assert_int_equal(kit_update(kit, &add), HF_TIMEOUT);
    assert_true(kit->call_count > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT("the first update of a document is one get and one put", first_update),
        KIT("where a stub is written first it is one put more", first_update_with_stub),
        KIT("a warm update is one put", warm_update),
        KIT("a cold update is one get and one put", cold_update),
        KIT("a cold refusal is one get", cold_refusal),
        KIT("a warm refusal is checked by one conditional get", warm_refusal),
        KIT("a body is recalled if it was read or written lately", recalled),
        KIT("a body that was not written is not recalled", not_recalled),
        KIT("a refusal from an outdated body is not told", outdated_refusal),
        KIT("nothing to do, by an outdated body, is not told", outdated_nothing_to_do),
        KIT("nothing to do on an absent document writes nothing",
            nothing_to_do_on_an_absent_one),
        KIT("a conflict: load and apply again", conflict),
        KIT("a conflict may turn into a refusal", refused_after_conflict),
        KIT("a document that is gone is born again", object_gone),
        KIT("a birth that meets another reads again", two_births),
        KIT("many operations are one put, each with its own result", many_in_one_put),
        KIT("a refusal caused by a batch-mate is told only if the put is done",
            refusal_by_a_batch_mate),
        KIT("operations keep their order when they are tried again", order_in_a_batch),
        KIT("a refusal is not told when the put of its batch fails", refusal_with_a_failed_put),
        KIT("a look loads what has changed and nothing else", looking),
        KIT("a look does not show what was not written", looking_after_a_failed_put),
        KIT("a look does not prepare, an update does, once", looking_does_not_prepare),
        KIT("what preparing has changed is written", prepared_is_written),
        KIT("an observer is shown what is in the store, and nothing else", being_shown),
        KIT("an observer is shown a birth that is in the store", being_shown_a_birth),
        KIT("sightings go from body to body", sightings),
        KIT("a body that cannot be prepared is read again, or the reason told", prepared_again),
        KIT("a damaged document is told, and used again when repaired", damaged),
        KIT("a document beyond its bound is refused", too_large),
        KIT("where a store can, an update is one step", in_one_step),
        KIT("a step that finds nothing is a birth", a_step_on_nothing),
        KIT("what a step cannot do is done by a get and a put", a_step_that_needs_more),
        KIT("a step does not use a body that was only looked at", a_step_after_a_look),
        KIT("a step without an answer is as unsure as a put", a_step_without_an_answer),
        KIT("an observer is shown what a step wrote or found", steps_are_shown),
        KIT("where others write, an old body is read before it is put",
            reading_first_where_others_write),
        KIT("a client that is alone again stops reading first", alone_again),
        KIT("an urgent operation that conflicts is tried again at once",
            an_urgent_operation_hardly_pauses),
        KIT("a store that fails is asked less and less", a_store_that_fails_is_asked_less),
        KIT("an urgent operation does not wait for the budget",
            a_renewal_does_not_wait_for_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
