/* SPDX-License-Identifier: Apache-2.0 */
/* budget_test.c: the bucket of tokens that limits the retries of a store. */
#include "store/budget.h"
#include "test.h"

static struct mono_time at_ms(int64_t ms)
{
    return (struct mono_time){ 1000000 + ms * 1000 };
}

static unsigned take_all(struct retry_budget *budget, int64_t ms)
{
    unsigned taken = 0;
    while (taken < 1000 && retry_budget_take(budget, at_ms(ms)))
        taken++;
    return taken;
}

static void full_at_first(void **state)
{
    struct retry_budget budget = { 0 };
    (void)state;
    assert_int_equal(take_all(&budget, 0), RETRY_TOKENS_MAX);
    assert_int_equal(take_all(&budget, 0), 0);
}

static void refilled_by_time(void **state)
{
    struct retry_budget budget = { 0 };
    (void)state;
    take_all(&budget, 0);
    assert_int_equal(take_all(&budget, 4999), 0);
    assert_int_equal(take_all(&budget, 5000), 1);
    assert_int_equal(take_all(&budget, 20000), 3);
    assert_int_equal(take_all(&budget, 100000000), RETRY_TOKENS_MAX);
}

/* However often it is asked, no time is lost. */
static void asked_often(void **state)
{
    struct retry_budget budget = { 0 };
    unsigned taken = 0;
    (void)state;
    take_all(&budget, 0);
    for (int64_t ms = 1; ms <= 50000; ms++)
        taken += take_all(&budget, ms);
    assert_int_equal(taken, 10);
}

static void ten_answers_are_a_retry(void **state)
{
    struct retry_budget budget = { 0 };
    (void)state;
    take_all(&budget, 0);
    for (int i = 0; i < 9; i++)
        retry_budget_answered(&budget, HF_OK);
    assert_int_equal(take_all(&budget, 0), 0);
    retry_budget_answered(&budget, HF_CONFLICT); /* an answer too */
    assert_int_equal(take_all(&budget, 0), 1);
    for (int i = 0; i < 100; i++) {
        retry_budget_answered(&budget, HF_UNAVAILABLE);
        retry_budget_answered(&budget, HF_UNSURE);
        retry_budget_answered(&budget, HF_TIMEOUT);
    }
    assert_int_equal(take_all(&budget, 0), 0);
    for (int i = 0; i < 10000; i++)
        retry_budget_answered(&budget, HF_OK);
    assert_int_equal(take_all(&budget, 0), RETRY_TOKENS_MAX);
}

static void a_retry_that_succeeds_costs_nothing(void **state)
{
    struct retry_budget budget = { 0 };
    (void)state;
    take_all(&budget, 0);
    retry_budget_refund(&budget);
    assert_int_equal(take_all(&budget, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the budget is full at first, and then empty", full_at_first),
        IT("a token comes back every five seconds, up to the limit", refilled_by_time),
        IT("no time is lost, however often it is asked", asked_often),
        IT("ten answers of the store allow a retry, and failures allow none",
           ten_answers_are_a_retry),
        IT("a retry that succeeds costs nothing", a_retry_that_succeeds_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
