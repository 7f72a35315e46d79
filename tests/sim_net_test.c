/* SPDX-License-Identifier: Apache-2.0 */
/* sim_net_test.c: each fault between a node and the store, and each fault of a call, has the
 * described effect.
 *
 * The test sets one probability of a plan to certain, lets a node make a few calls, and
 * compares the results that the node got with the contents of the store. */
#include "sim/world/profile.h"
#include "sim_stage.h"

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

/* Of any size: within the time-out, within minutes, within an hour. */
static void a_late_write_is_unsure_and_done_later(void **state)
{
    (void)state;
    unsigned soon = 0, late = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct stage stage = new_stage();
        stage.options.plan.late_chance = ALWAYS;
        stage.options.plan.late_max = SPAN_S(3600);
        open_stage_of(&stage, seed);
        run_stage(&stage, put_and_get);
        int64_t landed_us = world_now_us(stage.world);
        assert_int_equal(stage.put, HF_UNSURE);
        assert_true(stage.get == HF_OK || !stage.body_at_answer.data);
        assert_true(view_equal(held(&stage, VIEW("k")), VIEW("one")));
        assert_in_range(landed_us, 29990000, 3601000000);
        soon += stage.body_at_answer.data != NULL;
        late += landed_us > SPAN_S(1200).us;
        close_stage(&stage);
    }
    assert_in_range(soon, 20, 80);
    assert_in_range(late, 3, 40);
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

static void a_burst_throttles_nearly_everybody(void **state)
{
    (void)state;
    unsigned throttled = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct stage stage = new_stage();
        open_stage_of(&stage, seed);
        net_throttle(stage.net, true);
        run_stage(&stage, put_and_get);
        bool was_throttled = stage.put == HF_UNAVAILABLE;
        throttled += was_throttled;
        net_throttle(stage.net, false);
        node_restart(stage.node);
        assert_true(world_run(stage.world));
        assert_int_equal(stage.put, was_throttled ? HF_OK : HF_CONFLICT);
        close_stage(&stage);
    }
    assert_in_range(throttled, 75, 99);
}

/* ---- Errors and refusals ------------------------------------------------------------- */

static void an_error_tells_nothing(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct stage stage = new_stage();
        struct net_plan *plan = &stage.options.plan;
        *(how == 0   ? &plan->error_chance
          : how == 1 ? &plan->busy_chance
                     : &plan->error_done_chance) = ALWAYS;
        open_stage(&stage);
        run_stage(&stage, put_and_get);
        bool done = how == 2;
        assert_int_equal(stage.put, HF_UNSURE);
        assert_in_range(stage.put_took_us, 1000, 50000); /* not by time-out */
        assert_true(stage.stamp.known);
        assert_int_equal(stage.get, done ? HF_OK : HF_UNAVAILABLE);
        assert_int_equal(held(&stage, VIEW("k")).data != NULL, done);
        assert_int_equal(net_faults(stage.net)->hits, done ? 1 : 2);
        close_stage(&stage);
    }
}

static void a_write_is_refused_without_need(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    stage.options.plan.refuse_chance = ALWAYS;
    open_stage(&stage);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_CONFLICT);
    assert_int_equal(stage.get, HF_NOT_FOUND);
    assert_int_equal(faults(&stage, NET_REFUSED), 1);
    close_stage(&stage);
}

static void replace_what_is_missing(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    struct etag etag;
    EXPECT(stage->world, etag_set(&etag, VIEW("v1")));
    struct put_call call;
    stage->put = stage_put(store, VIEW("k"), VIEW("one"), if_match(&etag), &call);
    store_close(store);
}

static void what_is_missing_may_be_a_conflict(void **state)
{
    (void)state;
    for (int conflict = 0; conflict < 2; conflict++) {
        struct stage stage = new_stage();
        stage.options.bucket.missing_is_conflict = conflict;
        open_stage(&stage);
        run_stage(&stage, replace_what_is_missing);
        assert_int_equal(stage.put, conflict ? HF_CONFLICT : HF_NOT_FOUND);
        assert_null(held(&stage, VIEW("k")).data);
        close_stage(&stage);
    }
}

/* ---- Limits -------------------------------------------------------------------------- */

static void faults_can_be_left_out(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct stage stage = new_stage();
        stage.options.plan.throttle_chance = ALWAYS;
        if (how == 0)
            stage.options.limits.without = UINT64_C(1) << NET_THROTTLED;
        else
            stage.options.limits.max = 1;
        open_stage(&stage);
        run_stage(&stage, put_and_get);
        assert_int_equal(stage.put, how == 0 ? HF_OK : HF_UNAVAILABLE);
        assert_int_equal(stage.get, how == 0 ? HF_OK : HF_NOT_FOUND);
        assert_int_equal(faults(&stage, NET_THROTTLED), how);
        assert_int_equal(net_faults(stage.net)->happened, how);
        close_stage(&stage);
    }
}

/* ---- Doubled, slow ------------------------------------------------------------------- */

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
    assert_in_range(stage.put_took_us, 50000, 20100000);
    assert_int_equal(faults(&stage, NET_SLOW), 4);
    close_stage(&stage);
}

static void put_with_patience(struct node *node, void *argument)
{
    struct stage *stage = argument;
    struct store *store = net_store_open(stage->net, node);
    int64_t began = world_now_us(stage->world);
    struct put_call call = { .key = VIEW("k"),
                             .body = VIEW("one"),
                             .deadline = mono_add(env_now(store->env), SPAN_S(3 * 3600)) };
    stage->put = store_put(store, &call);
    stage->put_took_us = world_now_us(stage->world) - began;
    store_close(store);
}

static void who_has_time_gets_slow_replies(void **state)
{
    (void)state;
    unsigned slow = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct stage stage = new_stage();
        stage.options.plan.slow_chance = ALWAYS;
        stage.options.plan.slow_max = SPAN_S(3600);
        open_stage_of(&stage, seed);
        run_stage(&stage, put_with_patience);
        assert_int_equal(stage.put, HF_OK);
        slow += stage.put_took_us > SPAN_S(1200).us;
        close_stage(&stage);
    }
    assert_in_range(slow, 3, 60);
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
    stage->put = stage_put(store, VIEW("k"), VIEW("one"), if_absent(), &call);
    stage->body_at_answer = held(stage, VIEW("k"));
    net_cut(stage->net, node, false);
    stage->second_put = stage_put(store, VIEW("k"), VIEW("two"), if_absent(), &call);
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

/* ---- The moments of a call ----------------------------------------------------------- */

struct moments {
    char text[16]; /* a letter for each: Decided, Left, Answered */
    size_t count;
    struct stage *stage;
    enum call_moment crash_at;
};

static bool note_moment(void *argument, struct node *node, enum call_moment moment,
                        uint64_t number)
{
    struct moments *moments = argument;
    struct net *net = moments->stage->net;
    EXPECT(moments->stage->world, (number == 0) == (moment == CALL_DECIDED));
    EXPECT(moments->stage->world, net_is_busy(net, node) == (moment != CALL_DECIDED));
    moments->text[moments->count++] = "DLA"[moment];
    if (moment != moments->crash_at)
        return false;
    node_crash(node);
    return true;
}

static struct moments watch_moments(struct stage *stage, struct moments *moments,
                                    enum call_moment crash_at)
{
    *moments = (struct moments){ .stage = stage, .crash_at = crash_at };
    net_set_call_watch(stage->net,
                       &(struct call_watch){ .at = note_moment, .argument = moments });
    run_stage(stage, put_and_get);
    return *moments;
}

#define NO_MOMENT ((enum call_moment)3)

static void a_call_has_its_moments(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    struct moments moments;
    open_stage(&stage);
    assert_string_equal(watch_moments(&stage, &moments, NO_MOMENT).text, "DLADLA");
    assert_false(net_is_busy(stage.net, stage.node));
    close_stage(&stage);
}

static void a_node_crashes_at_its_call(void **state)
{
    (void)state;
    for (int answered = 0; answered < 2; answered++) {
        struct stage stage = new_stage();
        struct moments moments;
        open_stage(&stage);
        stage.put = HF_STATUS_COUNT;
        watch_moments(&stage, &moments, answered ? CALL_ANSWERED : CALL_LEFT);
        assert_string_equal(moments.text, answered ? "DLA" : "DL");
        assert_false(node_is_up(stage.node));
        assert_int_equal(stage.put, HF_STATUS_COUNT); /* it never heard */
        assert_true(view_equal(held(&stage, VIEW("k")), VIEW("one")));
        assert_false(net_is_busy(stage.net, stage.node));
        close_stage(&stage);
    }
}

static void a_node_is_paused_before_it_sends(void **state)
{
    (void)state;
    struct stage stage = new_stage();
    open_stage(&stage);
    struct chaos_plan plan = { .until = SPAN_S(1),
                               .pause_at_call_chance = ALWAYS,
                               .pause_max = SPAN_S(3600) };
    struct chaos *chaos = chaos_new(stage.world, stage.net, &plan);
    run_stage(&stage, put_and_get);
    assert_int_equal(stage.put, HF_OK);
    assert_true(faults(&stage, CHAOS_PAUSE_LEAVING) > 0);
    /* whole seconds: the store's date is that of the arrival, long after the decision */
    int64_t left_us = stage.stamp.date.us - WORLD_EPOCH_US;
    assert_true(stage.put_took_us > 2000000);
    assert_true(left_us > 0 && left_us <= stage.put_took_us);
    chaos_free(chaos);
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

/* ---- Limits -------------------------------------------------------------------------- */

static void a_prefix_has_a_rate(void **state)
{
    struct profile_limits *limits = profile_limits_new();
    struct profile_request request = { .key = VIEW("a/b"), .write = true };
    unsigned admitted = 0;
    (void)state;
    for (request.at_us = 0; request.at_us < 3000000; request.at_us += 100) /* 10,000 a second */
        admitted += profile_admit(limits, &profile_s3, &request) == PROFILE_ADMITS;
    assert_in_range(admitted, 4 * 3500 - 10, 4 * 3500 + 10); /* and the burst of one second */
    request.write = false;
    assert_int_equal(profile_admit(limits, &profile_s3, &request), PROFILE_ADMITS);
    request = (struct profile_request){ .key = VIEW("b/b"), .write = true };
    assert_int_equal(profile_admit(limits, &profile_s3, &request), PROFILE_ADMITS);
    profile_limits_free(limits);
}

static void an_object_is_busy_after_a_write(void **state)
{
    struct profile_limits *limits = profile_limits_new();
    struct profile_request request = { .key = VIEW("a/b"), .write = true, .conditional = true };
    (void)state;
    assert_int_equal(profile_admit(limits, &profile_s3, &request), PROFILE_ADMITS);
    profile_wrote(limits, request.key, 0);
    request.at_us = 60000;
    assert_int_equal(profile_admit(limits, &profile_s3, &request), PROFILE_REFUSES);
    request.conditional = false;
    assert_int_equal(profile_admit(limits, &profile_s3, &request), PROFILE_ADMITS);
    request.conditional = true;
    request.at_us = 67000;
    assert_int_equal(profile_admit(limits, &profile_s3, &request), PROFILE_ADMITS);
    profile_limits_free(limits);
}

/* A put of an object that is not there takes at least 35 ms, and half of all take 60 ms. */
static void a_profile_has_latencies(void **state)
{
    unsigned fast = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct stage stage = new_stage();
        stage.options.plan.profile = &profile_s3;
        open_stage_of(&stage, seed);
        run_stage(&stage, put_and_get);
        assert_int_equal(stage.put, HF_OK);
        assert_in_range(stage.put_took_us, 35000, 1010000);
        fast += stage.put_took_us < 64000;
        close_stage(&stage);
    }
    assert_in_range(fast, 60, 170);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a lost request is unsure, and not done", a_lost_request_is_unsure_and_not_done),
        IT("a lost reply is unsure, and done", a_lost_reply_is_unsure_and_done),
        IT("a late write is unsure, and done later", a_late_write_is_unsure_and_done_later),
        IT("a throttled request is certainly not done", a_throttled_request_is_not_done),
        IT("a burst throttles nearly everybody, until it ends",
           a_burst_throttles_nearly_everybody),
        IT("an internal error tells nothing, whether or not it is done",
           an_error_tells_nothing),
        IT("a write may be refused although its condition holds",
           a_write_is_refused_without_need),
        IT("to replace what is missing is NOT_FOUND, or CONFLICT, as the store is asked",
           what_is_missing_may_be_a_conflict),
        IT("faults can be left out, by kind or from some number on", faults_can_be_left_out),
        IT("a write sent twice conflicts with itself", a_resent_write_conflicts_with_itself),
        IT("slow messages take long", slow_messages_take_long),
        IT("who has time gets replies that take up to an hour", who_has_time_gets_slow_replies),
        IT("a deadline is kept, and nothing sent after it", a_deadline_is_kept),
        IT("a partition cuts a node off", a_partition_cuts_a_node_off),
        IT("a request outlives its node", a_request_outlives_its_node),
        IT("a call has its moments: decided, left, answered", a_call_has_its_moments),
        IT("a node that crashes as its request leaves, or as its reply comes, has written",
           a_node_crashes_at_its_call),
        IT("a node that is paused before its request leaves sends it later",
           a_node_is_paused_before_it_sends),
        IT("a reply waits for a paused process, not for a suspended machine",
           a_reply_waits_for_a_pause_not_a_suspend),
        IT("a prefix takes so many requests a second, and refuses the others",
           a_prefix_has_a_rate),
        IT("an object that was just written refuses a conditional write",
           an_object_is_busy_after_a_write),
        IT("requests take as long as the profile says", a_profile_has_latencies),
    };
    int failed = cmocka_run_group_tests_name("sim_net", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
