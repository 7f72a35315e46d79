/* SPDX-License-Identifier: Apache-2.0 */
/* sim_stage.c: one simulated node and its store, for tests of the simulator. */
#include "sim_stage.h"

#include "base/limits.h"

struct stage new_stage(void)
{
    return (struct stage){ .options = NET_OPTIONS };
}

void open_stage_of(struct stage *stage, uint64_t seed)
{
    struct world_options options = WORLD_OPTIONS;
    options.seed = seed;
    stage->world = world_new(&options);
    stage->net = net_new(stage->world, &stage->options);
    stage->node = node_new(stage->world, &NODE_OPTIONS);
}

void open_stage(struct stage *stage)
{
    open_stage_of(stage, WORLD_OPTIONS.seed);
}

void close_stage(struct stage *stage)
{
    assert_int_equal(net_open_requests(stage->net), 0);
    world_stop(stage->world);
    net_free(stage->net);
    world_free(stage->world);
}

void run_stage(struct stage *stage, node_program *program)
{
    node_boot(stage->node, program, stage);
    if (!world_run(stage->world))
        fail_msg("%s", world_failure(stage->world));
}

struct view held(struct stage *stage, struct view key)
{
    return bucket_peek(net_bucket(stage->net), key);
}

uint64_t faults(struct stage *stage, enum fault fault)
{
    return net_faults(stage->net)->counts[fault];
}

enum hf_status stage_put(struct store *store, struct view key, struct view body,
                         struct condition condition, struct put_call *call)
{
    *call = (struct put_call){ .key = key, .body = body, .condition = condition };
    return store_put(store, call);
}

enum hf_status get(struct store *store, struct view key)
{
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call call = { .key = key, .body = &body };
    enum hf_status status = store_get(store, &call);
    buffer_release(&body);
    return status;
}

void put_and_get(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    struct put_call call;
    int64_t began = world_now_us(stage->world);
    stage->put = stage_put(store, VIEW("k"), VIEW("one"), if_absent(), &call);
    stage->put_took_us = world_now_us(stage->world) - began;
    stage->stamp = call.stamp;
    stage->body_at_answer = held(stage, VIEW("k"));
    stage->get = get(store, VIEW("k"));
    store_close(store);
}
