/* SPDX-License-Identifier: Apache-2.0 */
/* sim_bucket_test.c: several nodes obtain the verdict on a store at once, while requests are
 * lost, late and sent twice. A correct store is never refused; a store that ignores conditions
 * is used by nobody. */
#include "base/layout.h"
#include "sim_stage.h"
#include "store/bucket.h"

#define NODES      3
#define TRIES_MAX  40
#define SEEDS_EACH 300

struct learning {
    struct stage stage;
    unsigned passed, refused, given_up;
};

/* Everything goes wrong now and then, but not so often that forty requests in a row never
 * succeed. */
static struct net_plan uneasy(void)
{
    struct net_plan plan = NET_PLAN_ROUGH;
    uint32_t *const chances[] = { &plan.slow_chance,       &plan.request_lost_chance,
                                  &plan.reply_lost_chance, &plan.late_chance,
                                  &plan.throttle_chance,   &plan.busy_chance,
                                  &plan.error_chance,      &plan.error_done_chance,
                                  &plan.refuse_chance,     &plan.resend_chance };
    for (size_t i = 0; i < sizeof chances / sizeof chances[0]; i++)
        *chances[i] /= 10;
    return plan;
}

/* As a program that is started again and again until it can work, or is told that it cannot. */
static void learn(struct node *node, void *argument)
{
    struct learning *learning = argument;
    enum hf_status status = HF_UNAVAILABLE;
    for (int i = 0; i < TRIES_MAX && status == HF_UNAVAILABLE; i++) {
        struct store *store = net_store_open(learning->stage.net, node);
        struct hf_error error;
        status = bucket_check(store, BUCKET_LOCKS, &error);
        store_close(store);
    }
    EXPECT(learning->stage.world,
           status == HF_OK || status == HF_UNSUPPORTED || status == HF_UNAVAILABLE);
    learning->passed += status == HF_OK;
    learning->refused += status == HF_UNSUPPORTED;
    learning->given_up += status == HF_UNAVAILABLE;
}

static void run_learning(struct learning *learning, uint64_t seed)
{
    struct stage *stage = &learning->stage;
    open_stage_of(stage, seed);
    node_boot(stage->node, learn, learning);
    for (int i = 1; i < NODES; i++)
        node_boot(node_new(stage->world, &NODE_OPTIONS), learn, learning);
    if (!world_run(stage->world))
        fail_msg("seed %u: %s", (unsigned)seed, world_failure(stage->world));
}

static void an_honest_store_is_never_refused(void **state)
{
    (void)state;
    unsigned passed = 0;
    for (uint64_t seed = 1; seed <= SEED_ROUNDS(SEEDS_EACH); seed++) {
        struct learning learning = { .stage = new_stage() };
        learning.stage.options.plan = uneasy();
        learning.stage.options.bucket.etag_by_content = seed % 2;
        learning.stage.options.bucket.delete_conditional = seed % 3 != 0;
        run_learning(&learning, seed);
        if (learning.refused > 0)
            fail_msg("seed %u: refused", (unsigned)seed);
        passed += learning.passed;
        close_stage(&learning.stage);
    }
    assert_true(passed > SEED_ROUNDS(SEEDS_EACH) * NODES * 9 / 10);
}

static void a_lying_store_is_used_by_nobody(void **state)
{
    (void)state;
    unsigned refused = 0;
    for (uint64_t seed = 1; seed <= SEED_ROUNDS(SEEDS_EACH); seed++) {
        struct learning learning = { .stage = new_stage() };
        learning.stage.options.plan = NET_PLAN_ROUGH;
        learning.stage.options.bucket.etag_by_content = seed % 2;
        learning.stage.options.bucket.ignore_conditions = true;
        run_learning(&learning, seed);
        if (learning.passed > 0)
            fail_msg("seed %u: used", (unsigned)seed);
        refused += learning.refused;
        close_stage(&learning.stage);
    }
    assert_true(refused > SEED_ROUNDS(SEEDS_EACH) * NODES * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("an honest store is never refused, whatever becomes of requests",
           an_honest_store_is_never_refused),
        IT("a lying store is used by nobody", a_lying_store_is_used_by_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
