/* SPDX-License-Identifier: Apache-2.0 */
/* sim_contract_test.c: the simulated store, of every kind, keeps the contract of
 * src/store/store.h like all others; and so does mem: in the simulator, where the seed chooses
 * the next task. */
#include "sim/world/net.h"
#include "store_contract.h"
#include "test.h"

#include <stdio.h>

struct kind {
    const char *name;
    bool is_mem;
    struct bucket_options bucket;
};

static const struct kind kinds[] = {
    { "with new ETags", false, { .delete_conditional = true, .clock = STORE_CLOCK_DATE } },
    { "with content ETags, as S3 has them",
      false,
      { .etag_by_content = true, .clock = STORE_CLOCK_DATE } },
    { "with the clock of its machine",
      false,
      { .delete_conditional = true, .clock = STORE_CLOCK_BOOT } },
    { "that takes what is missing for changed",
      false,
      { .missing_is_conflict = true, .clock = STORE_CLOCK_DATE } },
    { "that is mem:, in a simulated world", true, { .clock = STORE_CLOCK_BOOT } },
};

struct subject {
    const struct kind *kind;
    struct net *net;
    const struct contract_row *row;
    struct contract contract;
    bool kept;
};

static struct store *open_subject(struct subject *subject, struct node *node)
{
    struct store *store = NULL;
    struct hf_error error;
    if (!subject->kind->is_mem)
        store = net_store_open(subject->net, node);
    else if (store_open(node_env(node), VIEW("mem:"), &store, &error) != HF_OK)
        world_fail(node_world(node), "%s", error.why);
    return store;
}

static void run_row(struct node *node, void *argument)
{
    struct subject *subject = argument;
    subject->contract = (struct contract){ .env = node_env(node),
                                           .store = open_subject(subject, node),
                                           .any_bytes = true,
                                           .racers = 64,
                                           .rounds = 5 };
    subject->kept = contract_run(&subject->contract, subject->row);
    store_close(subject->contract.store);
}

static void hold_to_row(const struct kind *kind, const struct contract_row *row)
{
    struct world_options world_options = WORLD_OPTIONS;
    struct net_options net_options = NET_OPTIONS;
    net_options.bucket = kind->bucket;
    struct world *world = world_new(&world_options);
    struct subject subject = { .kind = kind, .net = net_new(world, &net_options), .row = row };
    node_boot(node_new(world, &NODE_OPTIONS), run_row, &subject);
    if (!world_run(world))
        fail_msg("a store %s: %s: %s", kind->name, row->sentence, world_failure(world));
    if (!subject.kept)
        fail_msg("a store %s: %s: %s", kind->name, row->sentence, subject.contract.failure);
    world_stop(world);
    net_free(subject.net);
    world_free(world);
}

static void keeps_the_contract(void **state)
{
    size_t rows = 0;
    while (contract_row(rows))
        hold_to_row(*state, contract_row(rows++));
    assert_true(rows >= 10);
}

int main(void)
{
    struct CMUnitTest tests[sizeof kinds / sizeof kinds[0]];
    char names[sizeof kinds / sizeof kinds[0]][80];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(names[i], sizeof names[i], "a store %s keeps the contract", kinds[i].name);
        tests[i] = (struct CMUnitTest){ names[i], keeps_the_contract, NULL, NULL,
                                        (void *)(uintptr_t)&kinds[i] };
    }
    int failed = cmocka_run_group_tests_name("sim_contract", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
