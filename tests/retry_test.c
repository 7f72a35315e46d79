/* SPDX-License-Identifier: Apache-2.0 */
/* retry_test.c: requests that got no answer are sent again within the budget of the store. */
#include "catalog_tree_kit.h"
#include "store/retry.h"

static unsigned take_tokens(struct store *store)
{
    unsigned taken = 0;
    while (taken < 1000 && retry_budget_take(store_budget(store), env_now(env_real())))
        taken++;
    return taken;
}

static struct retry some_retry(struct ground *ground)
{
    return (struct retry){ .store = ground->store, .pause = SPAN_MS(1), .left = 3 };
}

/* How often a request that always ends like this is sent again. */
static unsigned count_retries(struct retry *retry, enum hf_status status)
{
    unsigned count = 0;
    while (count < 100 && retry_after(retry, status))
        count++;
    return count;
}

static void answers_end_it(void **state)
{
    static const enum hf_status answers[] = { HF_OK, HF_CONFLICT, HF_NOT_FOUND, HF_HELD,
                                              HF_INVALID };
    struct ground ground;
    (void)state;
    ground_open(&ground, "mem", NULL, 0);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct retry retry = some_retry(&ground);
        assert_int_equal(count_retries(&retry, answers[i]), 0);
    }
    assert_int_equal(take_tokens(ground.store), RETRY_TOKENS_MAX);
    ground_close(&ground);
}

static void sent_again_and_paid(void **state)
{
    static const enum hf_status failures[] = { HF_UNAVAILABLE, HF_UNSURE, HF_TIMEOUT };
    struct ground ground;
    (void)state;
    ground_open(&ground, "mem", NULL, 0);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        struct retry retry = some_retry(&ground);
        assert_int_equal(count_retries(&retry, failures[i]), 3);
    }
    assert_int_equal(take_tokens(ground.store), RETRY_TOKENS_MAX - 9);
    ground_close(&ground);
}

static void an_answer_pays_back(void **state)
{
    struct ground ground;
    (void)state;
    ground_open(&ground, "mem", NULL, 0);
    struct retry retry = some_retry(&ground);
    assert_true(retry_after(&retry, HF_UNAVAILABLE));
    assert_false(retry_after(&retry, HF_OK));
    assert_int_equal(take_tokens(ground.store), RETRY_TOKENS_MAX);
    ground_close(&ground);
}

static void nothing_without_a_token(void **state)
{
    struct ground ground;
    (void)state;
    ground_open(&ground, "mem", NULL, 0);
    struct retry retry = some_retry(&ground);
    take_tokens(ground.store);
    retry.until = mono_add(env_now(env_real()), SPAN_MS(50));
    assert_false(retry_after(&retry, HF_UNAVAILABLE));
    assert_false(mono_before(env_now(env_real()), retry.until));
    ground_close(&ground);
}

static void conflicts_are_free(void **state)
{
    struct ground ground;
    (void)state;
    ground_open(&ground, "mem", NULL, 0);
    struct retry retry = some_retry(&ground);
    retry.conflicts_too = true;
    take_tokens(ground.store);
    assert_int_equal(count_retries(&retry, HF_CONFLICT), 3);
    ground_close(&ground);
}

static bool stop_soon(void *argument, uint64_t done, uint64_t total)
{
    unsigned *left = argument;
    (void)done;
    (void)total;
    return (*left)-- > 0;
}

static void a_stop_ends_the_wait(void **state)
{
    struct ground ground;
    unsigned left = 1;
    const struct progress progress = { stop_soon, &left };
    (void)state;
    ground_open(&ground, "mem", NULL, 0);
    struct retry retry = some_retry(&ground);
    retry.progress = &progress;
    take_tokens(ground.store);
    assert_false(retry_after(&retry, HF_UNAVAILABLE));
    ground_close(&ground);
}

/* Without an answer of the store, each repeated read of a catalog costs a token. */
static void catalogs_are_read_within_the_budget(void **state)
{
    const struct fault_plan down = { .seed = 1, .throttle = 1000000 };
    struct ground ground;
    struct catalog_ref *ref;
    struct hf_error error;
    (void)state;
    ground_open(&ground, "mem", &down, 1);
    struct catalog_tree *tree = ground.beds[0].tree;
    assert_status(HF_OK, catalog_tree_ref(tree, VIEW("default"), &ref, &error), &error);
    assert_int_equal(HF_UNAVAILABLE, catalog_ref_show(ref, NULL, NULL, &error));
    assert_int_equal(take_tokens(ground.store), RETRY_TOKENS_MAX - 2);
    ground_close(&ground);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("an answer of the store ends the series, and costs nothing", answers_end_it),
        IT("a request without an answer is sent again, and each time takes a token",
           sent_again_and_paid),
        IT("a retry that the store answers gets its token back", an_answer_pays_back),
        IT("without a token, nothing is sent again", nothing_without_a_token),
        IT("a conflict is an answer, so what follows it takes no token", conflicts_are_free),
        IT("a stop ends the wait for a token", a_stop_ends_the_wait),
        IT("a catalog that cannot be read is read again within the budget",
           catalogs_are_read_within_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
