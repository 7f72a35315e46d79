/* SPDX-License-Identifier: Apache-2.0 */
/* doc_lost_test.c: updates whose requests are lost, late, duplicated or throttled: the result
 * that is reported, the t0 from which it counts, and how long it is retried. */
#include "doc_kit.h"
#include "test.h"

/* ---- Lost answers -------------------------------------------------------------------- */

static void lost_reply(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LOSE_REPLY), PASS);
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 1, 1);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void late_then_again(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LATE), PASS);
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 1, 2);
    script_deliver(&kit->store);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void deliver_before_the_second_put(struct kit *kit, size_t call)
{
    if (call == 2)
        script_deliver(&kit->store);
}

/* The first attempt lands between the load that did not show it and the second put. */
static void counts_from_the_first(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit->before = deliver_before_the_second_put;
    kit_script(kit, SCRIPT(LATE), PASS);
    struct add add = add_of(&kit->env, 2);
    struct mono_time first = env_now(&kit->env);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 2, 2);
    assert_int_equal(kit_times(kit, 2), 1);
    assert_int_equal(add.op.attempt_count, 3);
    assert_string_equal(add.nonce, add.op.attempts[0].nonce);
    const struct doc_attempt *attempt = doc_attempt_of(&add.op, view_of(add.nonce));
    assert_ptr_equal(attempt, &add.op.attempts[0]);
    assert_int_equal(attempt->t0.us, first.us);
    assert_true(add.op.attempts[1].t0.us > first.us);
}

static void sent_twice(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(TWICE), PASS);
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_requests(kit, 1, 1);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void unsure_at_the_deadline(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LATE), REFUSE(HF_UNAVAILABLE));
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_UNSURE);
    assert_int_equal(kit_times(kit, 2), 0);
    script_deliver(&kit->store);
    assert_int_equal(kit_times(kit, 2), 1);
    assert_in_range(kit->now_us, add.op.deadline.us, add.op.deadline.us + kit->takes.us);
}

/* An operation in two parts, each of an attempt: the second is done where the first is found. */
struct two_parts {
    struct add first; /* must stand first */
    struct add second;
    enum hf_status (*apply)(struct doc_op *, void *, const struct evidence *);
};

static enum hf_status apply_two_parts(struct doc_op *op, void *body,
                                      const struct evidence *evidence)
{
    struct two_parts *parts = (struct two_parts *)(void *)op;
    enum hf_status status = parts->apply(op, body, evidence);
    if (status != HF_OK || op->changed)
        return status;
    op->found = true;
    parts->second.op.changed = false;
    status = parts->apply(&parts->second.op, body, evidence);
    op->changed = parts->second.op.changed;
    return status;
}

static void half_done_at_the_deadline(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LOSE_REPLY, PASS), REFUSE(HF_UNAVAILABLE));
    struct two_parts parts = { add_of(&kit->env, 2), add_of(&kit->env, 3), NULL };
    parts.apply = parts.first.op.apply;
    parts.first.op.apply = apply_two_parts;
    assert_int_equal(kit_update(kit, &parts.first), HF_UNSURE);
    assert_int_equal(kit_times(kit, 2), 1);
    assert_int_equal(kit_times(kit, 3), 0);
}

static void own_conflict_at_the_deadline(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(TWICE), REFUSE(HF_UNAVAILABLE));
    assert_int_equal(kit_add(kit, 2), HF_UNSURE);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void loaded_after_conflict(struct kit *kit, size_t call)
{
    if (call == 0)
        kit_other_adds(kit, 9);
}

/* Once the load has shown that the conflict was with another, not done is certain. */
static void foreign_conflict_at_the_deadline(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit->before = loaded_after_conflict;
    kit_script(kit, SCRIPT(PASS, PASS), REFUSE(HF_UNAVAILABLE));
    assert_int_equal(kit_add(kit, 2), HF_TIMEOUT);
    assert_true(kit_puts(kit) > 1);
    assert_int_equal(kit_times(kit, 2), 0);
}

static void throttled_to_the_deadline(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(REFUSE(HF_UNAVAILABLE)), REFUSE(HF_UNAVAILABLE));
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_TIMEOUT);
    assert_string_equal(add.op.error.why, "not done before the deadline: by the script");
    assert_in_range(kit->now_us, add.op.deadline.us, add.op.deadline.us + kit->takes.us);
    kit_script(kit, SCRIPT(PASS), PASS);
    assert_int_equal(kit_add(kit, 3), HF_OK);
    assert_int_equal(kit_times(kit, 2), 0);
}

/* The second apply refuses; but the first attempt may still land, so it must be shut out. */
static void refusal_shuts_out(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LATE), PASS);
    struct add add = add_of(&kit->env, 2);
    add.refuse_from = 2;
    assert_int_equal(kit_update(kit, &add), HF_HELD);
    assert_requests(kit, 1, 2);
    script_deliver(&kit->store);
    assert_int_equal(kit_times(kit, 2), 0);
}

static void refusal_that_cannot_shut_out(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LATE, PASS), REFUSE(HF_UNAVAILABLE));
    struct add add = add_of(&kit->env, 2);
    add.refuse_from = 2;
    assert_int_equal(kit_update(kit, &add), HF_UNSURE);
    script_deliver(&kit->store);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void other_adds_before_the_load(struct kit *kit, size_t call)
{
    if (call == 1)
        kit_other_adds(kit, 9);
}

static void shut_out_by_another(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit->before = other_adds_before_the_load;
    kit_script(kit, SCRIPT(LATE), PASS);
    struct add add = add_of(&kit->env, 2);
    add.refuse_from = 2;
    assert_int_equal(kit_update(kit, &add), HF_HELD);
    assert_requests(kit, 1, 1);
    script_deliver(&kit->store);
    assert_int_equal(kit_times(kit, 2), 0);
}

/* The same where the document does not exist. */
static void shut_out_of_nothing(void **state)
{
    struct kit *kit = *state;
    kit_script(kit, SCRIPT(PASS, LATE), PASS);
    struct add add = add_of(&kit->env, 2);
    add.refuse_from = 2;
    assert_int_equal(kit_update(kit, &add), HF_HELD);
    assert_requests(kit, 2, 2);
    script_deliver(&kit->store);
    assert_int_equal(kit_times(kit, 2), 0);
}

static void settling(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LATE), REFUSE(HF_UNAVAILABLE));
    assert_int_equal(kit_add(kit, 2), HF_UNSURE);
    kit_script(kit, SCRIPT(PASS), PASS);
    struct add settle = add_of(&kit->env, 3);
    settle.touch_nothing = true;
    settle.op.settle = true;
    assert_int_equal(kit_update(kit, &settle), HF_OK);
    assert_requests(kit, 1, 1);
    script_deliver(&kit->store);
    assert_int_equal(kit_times(kit, 2), 0);
}

static void given_again(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LATE), REFUSE(HF_UNAVAILABLE));
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_UNSURE);
    struct doc_attempt first = add.op.attempts[0];
    add.op.deadline = mono_add(env_now(&kit->env), KIT_DEADLINE);
    assert_int_equal(kit_update(kit, &add), HF_UNSURE);
    script_deliver(&kit->store);
    kit_script(kit, SCRIPT(PASS), PASS);
    add.op.deadline = mono_add(env_now(&kit->env), KIT_DEADLINE);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_requests(kit, 1, 0);
    assert_string_equal(add.nonce, first.nonce);
    assert_int_equal(doc_attempt_of(&add.op, view_of(add.nonce))->t0.us, first.t0.us);
}

/* It landed, and it finds itself; but its batch cannot be written. */
static void found_beside_one_that_fails(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LOSE_REPLY), REFUSE(HF_UNAVAILABLE));
    struct add one = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &one), HF_UNSURE);
    kit_script(kit, SCRIPT(PASS), REFUSE(HF_UNAVAILABLE));
    struct add two = add_of(&kit->env, 3);
    one.op.deadline = two.op.deadline;
    struct doc_op *ops[] = { &one.op, &two.op };
    assert_int_equal(doc_update_many(kit->doc, ops, 2), HF_UNSURE);
    assert_int_equal(one.op.error.status, HF_UNSURE);
    assert_int_equal(two.op.error.status, HF_TIMEOUT);
    assert_int_equal(kit_times(kit, 2), 1);
    assert_int_equal(kit_times(kit, 3), 0);
}

static void denied(void **state)
{
    struct kit *kit = *state;
    const enum hf_status fatal[] = { HF_DENIED, HF_INVALID, HF_UNSUPPORTED, HF_CORRUPT };
    kit_warm_up(kit);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        kit_script(kit, SCRIPT(REFUSE(fatal[i])), PASS);
        struct add add = add_of(&kit->env, 2);
        assert_int_equal(kit_update(kit, &add), fatal[i]);
        assert_string_equal(add.op.error.why, "by the script");
        assert_int_equal(kit->call_count, 1);
        kit_script(kit, SCRIPT(REFUSE(fatal[i])), PASS); /* now a load */
        assert_int_equal(kit_add(kit, 2), fatal[i]);
        assert_int_equal(kit->call_count, 1);
        kit_script(kit, SCRIPT(PASS), PASS);
        assert_int_equal(kit_add(kit, 10 + i), HF_OK);
    }
    assert_int_equal(kit_times(kit, 2), 0);
}

static void denied_while_unsure(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LATE, REFUSE(HF_DENIED)), PASS);
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_UNSURE);
    assert_string_equal(add.op.error.why, "by the script");
    script_deliver(&kit->store);
    assert_int_equal(kit_times(kit, 2), 1);
}

/* Only those whose change was in the put that got lost are unsure. */
static void unsure_each_by_itself(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(LATE), REFUSE(HF_UNAVAILABLE));
    struct add one = add_of(&kit->env, 2), two = add_of(&kit->env, 3);
    two.unless = 1;
    assert_int_equal(doc_update_many(kit->doc, (struct doc_op *[]){ &one.op, &two.op }, 2),
                     HF_UNSURE);
    assert_int_equal(one.op.error.status, HF_UNSURE);
    assert_int_equal(two.op.error.status, HF_TIMEOUT);
}

/* ---- "Not modified" that nobody asked for -------------------------------------------- */

/* The put was refused, so the body contains an addition that is not in the store. */
static void unasked_not_modified(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(REFUSE(HF_UNAVAILABLE), REFUSE(HF_NOT_MODIFIED)), PASS);
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_false(kit->calls[1].conditional);
    assert_requests(kit, 2, 2);
    assert_int_equal(kit_times(kit, 2), 1);
}

static void unasked_not_modified_at_first(void **state)
{
    struct kit *kit = *state;
    kit_script(kit, SCRIPT(REFUSE(HF_NOT_MODIFIED)), REFUSE(HF_NOT_MODIFIED));
    assert_int_equal(kit_add(kit, 2), HF_TIMEOUT);
    assert_int_equal(kit_puts(kit), 0);
    kit_script(kit, SCRIPT(REFUSE(HF_NOT_MODIFIED)), PASS);
    assert_int_equal(kit_add(kit, 2), HF_OK);
    assert_int_equal(kit_times(kit, 2), 1);
}

/* ---- Attempts ------------------------------------------------------------------------ */

static void first_and_last_attempts(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    struct fate fates[41];
    for (size_t i = 0; i < 40; i += 2) {
        fates[i] = LATE; /* a put; then a load that does not show it */
        fates[i + 1] = PASS;
    }
    fates[40] = KIT_END;
    kit_script(kit, fates, PASS);
    struct add add = add_of(&kit->env, 2);
    add.op.urgent = true; /* its retries are more than the budget of the store */
    struct mono_time first = env_now(&kit->env);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_int_equal(add.op.attempt_count, 21);
    struct mono_time last = first;
    for (size_t i = 0; i < DOC_ATTEMPTS_MAX; i++) {
        const struct doc_attempt *attempt = &add.op.attempts[i];
        assert_ptr_equal(doc_attempt_of(&add.op, view_of(attempt->nonce)), attempt);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(attempt->nonce, add.op.attempts[j].nonce);
        if (mono_before(last, attempt->t0))
            last = attempt->t0;
    }
    assert_int_equal(doc_attempt_of(&add.op, view_of(add.nonce))->t0.us, last.us);
    assert_ptr_equal(doc_attempt_of(&add.op, VIEW("another's")), &add.op.attempts[0]);
    assert_int_equal(add.op.attempts[0].t0.us, first.us);
    for (size_t i = 1; i < DOC_ATTEMPTS_MAX; i++) /* each after the 13th, two calls apart */
        assert_true(add.op.attempts[i].t0.us >= first.us + 13 * 2 * kit->takes.us);
}

static void time_passes_before_the_put(struct kit *kit, size_t call)
{
    (void)call;
    kit->now_us += 30000;
}

static void one_instant(void **state)
{
    struct kit *kit = *state;
    kit->before = time_passes_before_the_put;
    kit->takes = SPAN_US(0);
    struct add add = add_of(&kit->env, 1);
    assert_int_equal(kit_update(kit, &add), HF_OK);
    assert_int_equal(add.op.attempt_count, 1);
    /* after the load, which took 30 ms, and before the put */
    assert_int_equal(add.op.attempts[0].t0.us, kit->calls[0].at.us);
    assert_int_equal(kit->calls[1].at.us - kit->calls[0].at.us, 30000);
    assert_true(add.op.attempts[0].time_known);
    assert_int_equal(add.op.attempts[0].latest.us, add.op.attempts[0].t0.us);
}

static void each_write_is_new(void **state)
{
    struct kit *kit = *state;
    char texts[3][NONCE_SIZE];
    kit_warm_up(kit);
    for (int i = 0; i < 3; i++) {
        struct add add = add_of(&kit->env, 1);
        add.op.settle = true;
        assert_int_equal(kit_update(kit, &add), HF_OK);
        struct buffer text = BUFFER_INIT(KIB);
        struct get_call get = { .key = KIT_KEY, .body = &text };
        assert_status(HF_OK, store_get(kit->mem, &get), &get.error);
        memcpy(texts[i], text.data, NONCE_SIZE);
        buffer_release(&text);
    }
    assert_requests(kit, 0, 3);
    assert_memory_not_equal(texts[0], texts[1], NONCE_SIZE);
    assert_memory_not_equal(texts[1], texts[2], NONCE_SIZE);
}

/* ---- Time ---------------------------------------------------------------------------- */

static void backs_off_within_bounds(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit->takes = SPAN_MS(10);
    kit_script(kit, SCRIPT(REFUSE(HF_UNAVAILABLE)), REFUSE(HF_UNAVAILABLE));
    struct add add = add_of(&kit->env, 2);
    add.op.urgent = true; /* does not wait for the budget of the store */
    add.op.deadline = mono_add(env_now(&kit->env), SPAN_S(60));
    assert_int_equal(kit_update(kit, &add), HF_TIMEOUT);
    assert_true(kit->now_us >= add.op.deadline.us && kit->now_us <= add.op.deadline.us + 20000);
    assert_int_equal(kit->sleep_count, kit->call_count);
    int64_t longest = 0;
    for (size_t i = 0; i < kit->sleep_count; i++) {
        int64_t bound = INT64_C(10000) << (i + 1 < 8 ? i + 1 : 8);
        assert_true(kit->sleeps[i].us <= bound && kit->sleeps[i].us <= 2000000);
        longest = kit->sleeps[i].us > longest ? kit->sleeps[i].us : longest;
    }
    assert_true(longest > 500000);
    /* A minute of trying is some dozens of requests, not thousands. */
    assert_true(kit->call_count > 30 && kit->call_count < 130);
}

static void the_next_does_not_wait(void **state)
{
    struct kit *kit = *state;
    kit_warm_up(kit);
    kit_script(kit, SCRIPT(REFUSE(HF_UNAVAILABLE)), REFUSE(HF_UNAVAILABLE));
    assert_int_equal(kit_add(kit, 2), HF_TIMEOUT);
    kit_script(kit, SCRIPT(PASS), PASS);
    assert_int_equal(kit_add(kit, 3), HF_OK);
    assert_int_equal(kit->sleep_count, 0);
    kit_script(kit, SCRIPT(REFUSE(HF_UNAVAILABLE)), PASS);
    assert_int_equal(kit_add(kit, 4), HF_OK);
    assert_int_equal(kit->sleep_count, 1);
    assert_int_equal(kit_add(kit, 5), HF_OK);
    assert_int_equal(kit->sleep_count, 1);
}

static void too_late_to_begin(void **state)
{
    struct kit *kit = *state;
    struct add add = add_of(&kit->env, 2);
    add.op.deadline = env_now(&kit->env);
    assert_int_equal(kit_update(kit, &add), HF_TIMEOUT);
    assert_string_equal(add.op.error.why, "not done before the deadline");
    assert_int_equal(kit->call_count, 0);
}

static int64_t time_given(const struct kit *kit, size_t call)
{
    return mono_since(kit->calls[call].deadline, kit->calls[call].at).us;
}

static void deadlines_of_requests(void **state)
{
    struct kit *kit = *state;
    kit->takes = SPAN_US(0);
    struct add near = add_of(&kit->env, 2), far = add_of(&kit->env, 3);
    near.op.deadline = mono_add(env_now(&kit->env), SPAN_S(6));
    far.op.deadline = mono_add(env_now(&kit->env), SPAN_S(3600));
    struct doc_op *ops[] = { &far.op, &near.op };
    assert_int_equal(doc_update_many(kit->doc, ops, 2), HF_OK);
    assert_int_equal(time_given(kit, 0), 2000000);
    assert_int_equal(time_given(kit, 1), 2000000);
    near.id = 4;
    near.op.deadline = mono_add(env_now(&kit->env), SPAN_MS(1));
    assert_int_equal(kit_update(kit, &near), HF_OK);
    assert_int_equal(time_given(kit, 2), 500000);
    far.id = 5;
    assert_int_equal(kit_update(kit, &far), HF_OK);
    assert_int_equal(time_given(kit, 3), 10000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT("a lost reply: the operation finds itself", lost_reply),
        KIT("a late put and its repetition happen once", late_then_again),
        KIT("what the first attempt did counts from the first attempt", counts_from_the_first),
        KIT("a put that was sent twice is done, not a conflict", sent_twice),
        KIT("a put without an answer is unsure at the deadline", unsure_at_the_deadline),
        KIT("what is half done at the deadline is unsure", half_done_at_the_deadline),
        KIT("a conflict that may be our own is unsure at the deadline",
            own_conflict_at_the_deadline),
        KIT("a conflict that was another's is a time-out at the deadline",
            foreign_conflict_at_the_deadline),
        KIT("a throttled put is a time-out, with the reason", throttled_to_the_deadline),
        KIT("a refusal shuts out what may still land", refusal_shuts_out),
        KIT("a refusal that cannot do so is unsure", refusal_that_cannot_shut_out),
        KIT("what another's write has shut out needs no write", shut_out_by_another),
        KIT("a late birth is shut out too", shut_out_of_nothing),
        KIT("settling writes even if nothing changes", settling),
        KIT("an operation given again goes on where it stopped", given_again),
        KIT("what is there is not told as not done because its batch-mate cannot be written",
            found_beside_one_that_fails),
        KIT("what will not go better is told at once", denied),
        KIT("but as unsure, if an attempt may still land", denied_while_unsure),
        KIT("each operation of a lost put is unsure only if it changed something",
            unsure_each_by_itself),
        KIT("not modified that nobody asked for does not make an unwritten change done",
            unasked_not_modified),
        KIT("not modified does not stand for a document that was never read",
            unasked_not_modified_at_first),
        KIT("the first attempt and the last seven are remembered", first_and_last_attempts),
        KIT("an attempt's instant is before its put and after its load", one_instant),
        KIT("each write's bytes are new", each_write_is_new),
        KIT("waiting between attempts grows and is bounded", backs_off_within_bounds),
        KIT("whoever comes after a failure does not wait for it", the_next_does_not_wait),
        KIT("after its deadline nothing is begun", too_late_to_begin),
        KIT("a request gets a third of the time left, within bounds", deadlines_of_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
