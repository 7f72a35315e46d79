/* sim_store_test.c: the simulated store and the way to it: each fault does what it says.
 *
 * One chance of a plan is set to certain, a node makes a few calls, and the test compares what
 * the node was told with what the store holds. */
#include "base/limits.h"
#include "sim/net.h"
#include "store/probe.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#define ALWAYS 1000000

#define EXPECT(world, condition)                                               \
    do {                                                                       \
        if (!(condition))                                                      \
            world_fail((world), "line %d: expected %s", __LINE__, #condition); \
    } while (0)

struct stage {
    struct net_options options;
    struct world *world;
    struct net *net;
    struct node *node;
    /* what a program saw */
    enum hf_status put;
    enum hf_status get;
    enum hf_status second_put;
    struct store_stamp stamp;
    int64_t put_took_us;
    struct view body_at_answer; /* what the store held when the put was answered */
};

static struct stage new_stage(void)
{
    return (struct stage){ .options = NET_OPTIONS };
}

static void open_stage_of(struct stage *stage, uint64_t seed)
{
    struct world_options options = WORLD_OPTIONS;
    options.seed = seed;
    stage->world = world_new(&options);
    stage->net = net_new(stage->world, &stage->options);
    stage->node = node_new(stage->world, &NODE_OPTIONS);
}

static void open_stage(struct stage *stage)
{
    open_stage_of(stage, WORLD_OPTIONS.seed);
}

static void close_stage(struct stage *stage)
{
    assert_int_equal(net_open_requests(stage->net), 0);
    world_stop(stage->world);
    net_free(stage->net);
    world_free(stage->world);
}

static void run_stage(struct stage *stage, node_program *program)
{
    node_boot(stage->node, program, stage);
    if (!world_run(stage->world))
        fail_msg("%s", world_failure(stage->world));
}

static struct view held(struct stage *stage, struct view key)
{
    return bucket_peek(net_bucket(stage->net), key);
}

static uint64_t faults(struct stage *stage, enum net_fault fault)
{
    return net_fault_count(stage->net, fault);
}

/* ---- A program that writes and reads ------------------------------------------------- */

static enum hf_status put(struct store *store, struct view key, struct view body,
                          struct condition condition, struct put_call *call)
{
    *call = (struct put_call){ .key = key, .body = body, .condition = condition };
    return store_put(store, call);
}

static enum hf_status get(struct store *store, struct view key)
{
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call call = { .key = key, .body = &body };
    enum hf_status status = store_get(store, &call);
    buffer_release(&body);
    return status;
}

static void put_and_get(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    struct put_call call;
    int64_t began = world_now_us(stage->world);
    stage->put = put(store, VIEW("k"), VIEW("one"), if_absent(), &call);
    stage->put_took_us = world_now_us(stage->world) - began;
    stage->stamp = call.stamp;
    stage->body_at_answer = held(stage, VIEW("k"));
    stage->get = get(store, VIEW("k"));
    store_close(store);
}

static void all_goes_well_when_calm(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_OK);
    assert_int_equal(stage.get, HF_OK);
    assert_in_range(stage.put_took_us, 1000, 50000);
    for (unsigned i = 0; i < NET_FAULT_COUNT; i++)
        assert_int_equal(faults(&stage, (enum net_fault)i), 0);
    close_stage(&stage);
}

/* ---- Loss ---------------------------------------------------------------------------- */

static void a_lost_request_is_unsure_and_not_done(void **state)
{
    (void)state;
    for (int noticed = 0; noticed < 2; noticed++) {
        struct stage stage = new_stage();
        stage.options.plan.request_lost_chance = ALWAYS;
        stage.options.plan.reset_chance = noticed ? ALWAYS : 0;
        open_stage(&stage);
        run_stage(&stage, put_and_get);
        assert_int_equal(stage.put, HF_UNSURE);
        assert_int_equal(stage.get, HF_UNAVAILABLE);
        assert_null(held(&stage, VIEW("k")).data);
        assert_int_equal(faults(&stage, NET_REQUEST_LOST), 2);
        if (noticed)
            assert_in_range(stage.put_took_us, 0, 210000);
        else
            assert_in_range(stage.put_took_us, 29990000, 30010000);
        close_stage(&stage);
    }
}

static void a_lost_reply_is_unsure_and_done(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.reply_lost_chance = ALWAYS;
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_UNSURE);
    assert_int_equal(stage.get, HF_UNAVAILABLE);
    assert_true(view_equal(held(&stage, VIEW("k")), VIEW("one")));
    assert_false(stage.stamp.known);
    close_stage(&stage);
}

static void a_late_write_is_unsure_and_done_later(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.late_chance = ALWAYS;
    stage.options.plan.late_max = SPAN_S(3600);
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_UNSURE);
    assert_null(stage.body_at_answer.data);
    assert_int_equal(stage.get, HF_NOT_FOUND);
    assert_true(view_equal(held(&stage, VIEW("k")), VIEW("one")));
    assert_in_range(world_now_us(stage.world), 30000000, 3601000000);
    close_stage(&stage);
}

static void a_throttled_request_is_not_done(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.throttle_chance = ALWAYS;
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_UNAVAILABLE);
    assert_int_equal(stage.get, HF_UNAVAILABLE);
    assert_in_range(stage.put_took_us, 0, 100000);
    assert_null(held(&stage, VIEW("k")).data);
    close_stage(&stage);
}

static void a_resent_write_conflicts_with_itself(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.resend_chance = ALWAYS;
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_CONFLICT);
    assert_true(view_equal(held(&stage, VIEW("k")), VIEW("one")));
    assert_int_equal(faults(&stage, NET_RESENT), 1);
    close_stage(&stage);
}

static void slow_messages_take_long(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.slow_chance = ALWAYS;
    stage.options.plan.slow_max = SPAN_S(10);
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_OK);
    assert_in_range(stage.put_took_us, 100000, 20100000);
    assert_int_equal(faults(&stage, NET_SLOW), 4);
    close_stage(&stage);
}

static void put_with_deadline(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    struct mono_time now = env_now(store->env);
    int64_t began = world_now_us(stage->world);
    struct put_call call = { .key = VIEW("k"),
                             .body = VIEW("one"),
                             .deadline = mono_add(now, SPAN_S(3)) };
    stage->put = store_put(store, &call);
    stage->put_took_us = world_now_us(stage->world) - began;
    call.deadline = now; /* has passed */
    stage->second_put = store_put(store, &call);
    store_close(store);
}

static void a_deadline_is_kept(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.request_lost_chance = ALWAYS;
    open_stage(&stage);
    run_stage(&stage, put_with_deadline);
    assert_int_equal(stage.put, HF_UNSURE);
    assert_in_range(stage.put_took_us, 2990000, 3010000);
    assert_int_equal(stage.second_put, HF_UNAVAILABLE);
    assert_int_equal(net_request_count(stage.net), 1);
    close_stage(&stage);
}

/* ---- Partition, crash, suspend ------------------------------------------------------- */

static void put_in_and_after_partition(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    struct put_call call;
    net_cut(stage->net, node, true);
    stage->put = put(store, VIEW("k"), VIEW("one"), if_absent(), &call);
    stage->body_at_answer = held(stage, VIEW("k"));
    net_cut(stage->net, node, false);
    stage->second_put = put(store, VIEW("k"), VIEW("two"), if_absent(), &call);
    store_close(store);
}

static void a_partition_cuts_a_node_off(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    open_stage(&stage);
    run_stage(&stage, put_in_and_after_partition);
    assert_int_equal(stage.put, HF_UNSURE);
    assert_null(stage.body_at_answer.data);
    assert_int_equal(stage.second_put, HF_OK);
    assert_true(view_equal(held(&stage, VIEW("k")), VIEW("two")));
    assert_int_equal(faults(&stage, NET_PARTITIONED), 1);
    close_stage(&stage);
}

struct planned {
    struct stage *stage;
    struct timer timer;
};

static void crash_now(void *argument)
{
    struct planned *planned = argument;
    node_crash(planned->stage->node);
}

static void a_request_outlives_its_node(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.delay_min = SPAN_S(2);
    stage.options.plan.delay_max = SPAN_S(3);
    open_stage(&stage);
    stage.put = HF_STATUS_COUNT;
    struct planned planned = { .stage = &stage };
    world_set_timer(stage.world, &planned.timer, 1000000, crash_now, &planned);
    run_stage(&stage, put_and_get);
    assert_false(node_is_up(stage.node));
    assert_int_equal(stage.put, HF_STATUS_COUNT); /* it never heard */
    assert_true(view_equal(held(&stage, VIEW("k")), VIEW("one")));
    close_stage(&stage);
}

static void suspend_now(void *argument)
{
    struct planned *planned = argument;
    node_suspend_machine(planned->stage->node);
}

static void pause_now(void *argument)
{
    struct planned *planned = argument;
    node_pause(planned->stage->node);
}

static void resume_now(void *argument)
{
    struct planned *planned = argument;
    node_resume(planned->stage->node);
}

static void a_reply_waits_for_a_pause_not_a_suspend(void **state)
{
    (void)state;
    for (int suspended = 0; suspended < 2; suspended++) {
        struct stage stage = new_stage();
        stage.options.plan.delay_min = SPAN_S(2);
        stage.options.plan.delay_max = SPAN_S(3);
        open_stage(&stage);
        struct planned stop = { .stage = &stage }, go = { .stage = &stage };
        world_set_timer(stage.world, &stop.timer, 1000000, suspended ? suspend_now : pause_now,
                        &stop);
        world_set_timer(stage.world, &go.timer, 20000000, resume_now, &go);
        run_stage(&stage, put_and_get);
        assert_int_equal(stage.put, suspended ? HF_UNSURE : HF_OK);
        assert_in_range(stage.put_took_us, 19000000, 20000000);
        assert_true(view_equal(held(&stage, VIEW("k")), VIEW("one")));
        close_stage(&stage);
    }
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

static void put_after_two_hours(struct node *node, void *argument)
{
    env_sleep(node_env(node), SPAN_S(7200));
    put_and_get(node, argument);
}

static void a_stale_date_lies_in_the_past(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.stale_date_chance = ALWAYS;
    stage.options.plan.stale_max = SPAN_S(3600);
    open_stage(&stage);
    run_stage(&stage, put_after_two_hours);
    assert_int_equal(stage.put, HF_OK);
    assert_in_range(date_off_us(&stage), SPAN_S(3600).us, SPAN_S(7199).us);
    assert_int_equal(stage.stamp.date.us % 1000000, 0);
    close_stage(&stage);
}

static void put_many_times(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int i = 0; i < 50; i++) {
        struct put_call call;
        EXPECT(stage->world,
               put(store, VIEW("k"), VIEW("x"), (struct condition){ 0 }, &call) == HF_OK);
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
    put(store, VIEW("k"), VIEW("same"), (struct condition){ 0 }, &first);
    put(store, VIEW("k"), VIEW("same"), (struct condition){ 0 }, &second);
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
    stage->put = store_probe(store, &report, &error);
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
        IT("a lost request is unsure, and not done", a_lost_request_is_unsure_and_not_done),
        IT("a lost reply is unsure, and done", a_lost_reply_is_unsure_and_done),
        IT("a late write is unsure, and done later", a_late_write_is_unsure_and_done_later),
        IT("a throttled request is certainly not done", a_throttled_request_is_not_done),
        IT("a write sent twice conflicts with itself", a_resent_write_conflicts_with_itself),
        IT("slow messages take long", slow_messages_take_long),
        IT("a deadline is kept, and nothing sent after it", a_deadline_is_kept),
        IT("a partition cuts a node off", a_partition_cuts_a_node_off),
        IT("a request outlives its node", a_request_outlives_its_node),
        IT("a reply waits for a paused process, not for a suspended machine",
           a_reply_waits_for_a_pause_not_a_suspend),
        IT("replies tell the store's time in whole seconds", replies_tell_the_time),
        IT("a stale date lies in the past", a_stale_date_lies_in_the_past),
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
