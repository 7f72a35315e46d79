/* SPDX-License-Identifier: Apache-2.0 */
/* sim_store_test.c: the configured properties of the simulated store: its clock, ETags and
 * listings. */
#include "base/limits.h"
#include "sim_stage.h"
#include "store/probe.h"

static void all_goes_well_when_calm(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_OK);
    assert_int_equal(stage.get, HF_OK);
    assert_in_range(stage.put_took_us, 1000, 50000);
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        assert_int_equal(faults(&stage, (enum fault)i), 0);
    assert_int_equal(net_faults(stage.net)->hits, 0);
    close_stage(&stage);
}

/* ---- Time ---------------------------------------------------------------------------- */

static int64_t date_off_us(const struct stage *stage)
{
    return stage->stamp.date.us - WORLD_EPOCH_US;
}

static void replies_tell_the_time(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_true(stage.stamp.known);
    assert_int_equal(date_off_us(&stage), 0); /* whole seconds */
    assert_int_equal(mono_since(stage.stamp.received, stage.stamp.sent).us > 0, 1);
    close_stage(&stage);

    stage = new_stage();
    stage.options.bucket.clock = STORE_CLOCK_BOOT;
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_false(stage.stamp.known);
    close_stage(&stage);
}

/* A write has no date out of a cache. */
static void read_after_two_hours(struct node *node, void *argument)
{
    struct stage *stage = argument;
    env_sleep(node_env(node), SPAN_S(7200));
    struct store *store = net_store_open(stage->net, node);
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call read = { .key = VIEW("k"), .body = &body };
    stage->get = store_get(store, &read);
    stage->stamp = read.stamp;
    struct put_call call;
    stage->put = stage_put(store, VIEW("k"), VIEW("one"), if_absent(), &call);
    EXPECT(stage->world, !call.stamp.cached);
    buffer_release(&body);
    store_close(store);
}

static void an_old_date_says_so_or_lies(void **state)
{
    (void)state;
    for (int lies = 0; lies < 2; lies++) {
        int64_t least = INT64_MAX;
        for (uint64_t seed = 1; seed <= 50; seed++) {
            struct stage stage = new_stage();
            *(lies ? &stage.options.plan.lying_date_chance
                   : &stage.options.plan.cached_date_chance) = ALWAYS;
            stage.options.plan.stale_max = SPAN_S(3600);
            open_stage_of(&stage, seed);
            run_stage(&stage, read_after_two_hours);
            assert_int_equal(stage.get, HF_NOT_FOUND);
            assert_int_equal(stage.put, HF_OK);
            assert_true(stage.stamp.known);
            assert_int_equal(stage.stamp.cached, !lies);
            assert_in_range(date_off_us(&stage), SPAN_S(3600).us, SPAN_S(7201).us);
            assert_int_equal(stage.stamp.date.us % 1000000, 0);
            least = date_off_us(&stage) < least ? date_off_us(&stage) : least;
            close_stage(&stage);
        }
        assert_true(least < SPAN_S(6600).us);
    }
}

static void put_many_times(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int i = 0; i < 50; i++) {
        struct put_call call;
        EXPECT(stage->world,
               stage_put(store, VIEW("k"), VIEW("x"), (struct condition){ 0 }, &call) == HF_OK);
        int64_t off = call.stamp.date.us - WORLD_EPOCH_US - world_now_us(stage->world);
        least = off < least ? off : least;
        most = off > most ? off : most;
    }
    stage->put_took_us = most - least;
    store_close(store);
}

static void front_ends_disagree(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    open_stage(&stage);
    run_stage(&stage, put_many_times);
    assert_true(stage.put_took_us < 1100000); /* only the cut to seconds */
    close_stage(&stage);

    stage = new_stage();
    stage.options.front_ends = 8;
    stage.options.skew_max = SPAN_S(60);
    open_stage(&stage);
    run_stage(&stage, put_many_times);
    assert_in_range(stage.put_took_us, 10000000, 121000000);
    close_stage(&stage);
}

static void the_clock_of_the_store_steps(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    open_stage(&stage);
    net_step_clock(stage.net, SPAN_S(-500));
    run_stage(&stage, put_and_get);
    assert_int_equal(date_off_us(&stage), SPAN_S(-500).us);
    close_stage(&stage);
}

/* ---- What kind of store -------------------------------------------------------------- */

static void write_equal_bytes(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    struct put_call first, second;
    stage_put(store, VIEW("k"), VIEW("same"), (struct condition){ 0 }, &first);
    stage_put(store, VIEW("k"), VIEW("same"), (struct condition){ 0 }, &second);
    bool equal = etag_equal(&first.etag, &second.etag);
    EXPECT(stage->world, equal == stage->options.bucket.etag_by_content);
    EXPECT(stage->world, equal == !store->traits.etag_fresh);
    struct delete_call stale = { .key = VIEW("k"), .condition = if_match(&first.etag) };
    stage->put = store_delete(store, &stale);
    store_close(store);
}

static void etags_and_deletes_are_as_asked(void **state)
{
    (void)state;
    for (int by_content = 0; by_content < 2; by_content++)
        for (int conditional = 0; conditional < 2; conditional++) {
            struct stage stage = new_stage();
            stage.options.bucket.etag_by_content = by_content;
            stage.options.bucket.delete_conditional = conditional;
            open_stage(&stage);
            run_stage(&stage, write_equal_bytes);
            assert_int_equal(stage.put, !conditional ? HF_UNSUPPORTED
                                        : by_content ? HF_OK
                                                     : HF_CONFLICT);
            close_stage(&stage);
        }
}

static void probe_it(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    struct probe_report report;
    struct hf_error error;
    stage->put = store_probe(store, (struct mono_time){ 0 }, &report, &error);
    store_close(store);
}

/* Its racers must not take each other's version for their own. */
static void the_probe_accepts_etags_of_content(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct stage stage = new_stage();
        stage.options.bucket.etag_by_content = true;
        open_stage_of(&stage, seed);
        run_stage(&stage, probe_it);
        assert_int_equal(stage.put, HF_OK);
        close_stage(&stage);
    }
}

static void put_and_get_many(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    enum { MANY = 20 };
    char keys[MANY][8];
    struct put_call puts[MANY];
    for (int i = 0; i < MANY; i++) {
        int size = snprintf(keys[i], sizeof keys[i], "k%02d", i);
        puts[i] = (struct put_call){ .key = { keys[i], (size_t)size },
                                     .body = VIEW("x"),
                                     .condition = if_absent() };
    }
    int64_t began = world_now_us(stage->world);
    EXPECT(stage->world, store_put_many(store, puts, MANY) == HF_OK);
    EXPECT(stage->world, world_now_us(stage->world) - began < 60000); /* side by side */
    EXPECT(stage->world, store_put_many(store, puts, MANY) == HF_CONFLICT);
    struct list_call list = { .prefix = VIEW("k"), .max = 15 };
    EXPECT(stage->world, store_list(store, &list) == HF_OK);
    EXPECT(stage->world, list.count == 15 && list.more);
    EXPECT(stage->world, view_equal(list.entries[14].key, VIEW("k14")));
    list_release(&list);
    store_close(store);
}

static void many_calls_travel_side_by_side(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    open_stage(&stage);
    run_stage(&stage, put_and_get_many);
    close_stage(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("when calm all goes well", all_goes_well_when_calm),
        IT("replies tell the store's time in whole seconds", replies_tell_the_time),
        IT("an old date is marked as cached, or lies", an_old_date_says_so_or_lies),
        IT("front ends disagree about the time", front_ends_disagree),
        IT("the clock of the store steps", the_clock_of_the_store_steps),
        IT("ETags and conditional deletes are as asked", etags_and_deletes_are_as_asked),
        IT("the probe accepts a store whose ETags are hashes, whoever is first",
           the_probe_accepts_etags_of_content),
        IT("many calls travel side by side", many_calls_travel_side_by_side),
    };
    int failed = cmocka_run_group_tests_name("sim_store", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
