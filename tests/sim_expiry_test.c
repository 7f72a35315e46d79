/* SPDX-License-Identifier: Apache-2.0 */
/* sim_expiry_test.c: the entries of the expiry index that a client writes for its leases, over
 * hours of simulated time: when, how many, and the effect of failures. */
#include "lock/client_inside.h"
#include "lock/expiry.h"
#include "sim_stage.h"

#include <stdio.h>

#define INDEX_FOLDER "default/.lease-index/"
#define ENTRIES_MAX  64

#define MINUTES(count) SPAN_S((count)*60)

/* One put of an entry, as it took effect. */
struct entered {
    char key[128]; /* below the folder of the index */
    int64_t at_us;
};

/* A holder, and what the store saw of it. */
struct story {
    struct stage stage; /* must stand first */
    struct bucket_watch watch;
    struct entered entered[ENTRIES_MAX];
    size_t count;
    uint64_t tables_written;

    int64_t ttl_ms;
    bool no_renewal;
    struct span wait; /* before it is asked for */
    struct span hold; /* then it is released, or the node crashes */
    bool lose_answer; /* that to the first entry: the store is cut off when it has it */
    bool in_danger, gone;
};

static void note_change(void *argument, const struct bucket_change *change)
{
    struct story *story = argument;
    if (!view_starts_with(change->key, VIEW(INDEX_FOLDER))) {
        story->tables_written += view_starts_with(change->key, VIEW("default/meta/"));
        return;
    }
    EXPECT(story->stage.world, change->body.data && story->count < ENTRIES_MAX);
    struct entered *entered = &story->entered[story->count++];
    struct view key = view_from(change->key, sizeof INDEX_FOLDER - 1);
    snprintf(entered->key, sizeof entered->key, "%.*s", VIEW_ARGS(key));
    entered->at_us = world_now_us(story->stage.world);
    if (story->lose_answer && story->count == 1)
        net_cut(story->stage.net, story->stage.node, true);
}

static struct story new_story(void)
{
    return (struct story){ .stage = new_stage(),
                           .watch = { .changed = note_change },
                           .ttl_ms = 1800000 };
}

static void open_story(struct story *story)
{
    open_stage(&story->stage);
    node_set_drift(story->stage.node, 0); /* so that minutes are minutes */
    story->watch.argument = story;
    bucket_add_watch(net_bucket(story->stage.net), &story->watch);
}

/* ---- Holders ------------------------------------------------------------------------- */

static void note_event(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    (void)lock;
    struct story *story = argument;
    story->in_danger = story->in_danger || event == HF_LOCK_DANGER;
    story->gone = story->gone || event == HF_LOCK_GONE;
}

static struct hf_client *client_of(struct story *story, struct store *store)
{
    struct hf_client *client;
    struct hf_error error;
    EXPECT(story->stage.world, client_new(store, /* options */ NULL, &client, &error) == HF_OK);
    return client;
}

static struct hf_lock *hold(struct story *story, struct hf_client *client, const char *scope)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    options.ttl_ms = story->ttl_ms;
    options.no_renewal = story->no_renewal;
    options.notify = note_event;
    options.notify_argument = story;
    EXPECT(story->stage.world, hf_lock_new(client, scope, &options, &lock, NULL) == HF_OK);
    struct hf_error error;
    if (hf_lock_acquire(lock, /* wait_ms */ 3600000, &error) != HF_OK)
        world_fail(story->stage.world, "%s was not granted: %s", scope, error.why);
    return lock;
}

static void hold_for_a_while(struct node *node, void *argument)
{
    struct story *story = argument;
    struct store *store = net_store_open(story->stage.net, node);
    struct hf_client *client = client_of(story, store);
    env_sleep(node_env(node), story->wait);
    struct hf_lock *lock = hold(story, client, "deploy");
    env_sleep(node_env(node), story->hold);
    hf_lock_free(lock);
    hf_client_close(client);
    store_close(store);
}

/* The minute, in true time, in which an entry was put. */
static int64_t minute_of(const struct entered *entered)
{
    return entered->at_us / MINUTES(1).us;
}

/* ---- When, and how many -------------------------------------------------------------- */

static void a_day_has_an_entry_an_hour(void **state)
{
    (void)state;
    struct story story = new_story();
    story.hold = MINUTES(24 * 60);
    open_story(&story);
    run_stage(&story.stage, hold_for_a_while);
    assert_int_equal(story.count, 25); /* in the last hour it would end on the next day */
    for (size_t i = 0; i < story.count; i++) {
        char key[128];
        snprintf(key, sizeof key, "202601%02zu%02zu/meta/deploy.json", 1 + i / 24, i % 24);
        assert_string_equal(story.entered[i].key, key);
    }
    assert_in_range(story.tables_written, 24 * 6, 24 * 6 + 4); /* it is renewed by thirds */
    assert_false(story.in_danger || story.gone);
    close_stage(&story.stage);
}

static void a_lock_has_none_before_half_of_its_ttl(void **state)
{
    (void)state;
    struct story story = new_story();
    story.hold = MINUTES(14);
    open_story(&story);
    run_stage(&story.stage, hold_for_a_while);
    assert_int_equal(story.count, 0);
    close_stage(&story.stage);

    story = new_story();
    story.hold = MINUTES(16);
    open_story(&story);
    run_stage(&story.stage, hold_for_a_while);
    assert_int_equal(story.count, 1);
    assert_int_equal(minute_of(&story.entered[0]), 15);
    close_stage(&story.stage);
}

static void what_is_not_renewed_has_one_too(void **state)
{
    (void)state;
    struct story story = new_story();
    story.no_renewal = true;
    story.wait = MINUTES(40);
    story.hold = MINUTES(29);
    open_story(&story);
    run_stage(&story.stage, hold_for_a_while);
    assert_int_equal(story.count, 1);
    assert_string_equal(story.entered[0].key, "2026010101/meta/deploy.json");
    assert_int_equal(minute_of(&story.entered[0]), 55);
    close_stage(&story.stage);
}

/* The first is due sooner, though it is held later; and while it is seen to, so is the other. */
static void hold_two(struct node *node, void *argument)
{
    struct story *story = argument;
    struct store *store = net_store_open(story->stage.net, node);
    struct hf_client *client = client_of(story, store);
    story->ttl_ms = MINUTES(44).us / 1000;
    struct hf_lock *later = hold(story, client, "later");
    env_sleep(node_env(node), MINUTES(1));
    story->ttl_ms = MINUTES(40).us / 1000;
    struct hf_lock *sooner = hold(story, client, "sooner");
    env_sleep(node_env(node), MINUTES(30));
    hf_lock_free(sooner);
    hf_lock_free(later);
    hf_client_close(client);
    store_close(store);
}

static void each_has_its_own_in_time(void **state)
{
    (void)state;
    struct story story = new_story();
    story.no_renewal = true;
    story.stage.options.bucket.clock = STORE_CLOCK_BOOT; /* nothing else wakes anybody */
    open_story(&story);
    run_stage(&story.stage, hold_two);
    assert_int_equal(story.count, 2);
    assert_non_null(strstr(story.entered[0].key, "sooner"));
    assert_int_equal(minute_of(&story.entered[0]), 21);
    assert_non_null(strstr(story.entered[1].key, "later"));
    assert_int_equal(minute_of(&story.entered[1]), 22);
    close_stage(&story.stage);
}

/* ---- When something goes wrong ------------------------------------------------------- */

struct outage {
    struct story *story;
    struct timer begin, end;
};

static void begin_outage(void *argument)
{
    struct outage *outage = argument;
    net_cut(outage->story->stage.net, outage->story->stage.node, true);
}

static void end_outage(void *argument)
{
    struct outage *outage = argument;
    net_cut(outage->story->stage.net, outage->story->stage.node, false);
}

/* The store cannot be reached from the 14th to the 16th minute: when the entry is due. */
static void plan_outage(struct outage *outage, struct story *story)
{
    outage->story = story;
    world_set_timer(story->stage.world, &outage->begin, MINUTES(14).us, begin_outage, outage);
    world_set_timer(story->stage.world, &outage->end, MINUTES(16).us, end_outage, outage);
}

static void one_that_failed_comes_with_the_next_renewal(void **state)
{
    (void)state;
    struct story story = new_story();
    struct outage outage = { .story = NULL };
    story.hold = MINUTES(29);
    open_story(&story);
    plan_outage(&outage, &story);
    run_stage(&story.stage, hold_for_a_while);
    assert_int_equal(story.count, 1);
    assert_int_equal(minute_of(&story.entered[0]), 20);
    assert_in_range(faults(&story.stage, NET_PARTITIONED), 1, 2); /* tried once */
    assert_false(story.in_danger || story.gone);
    close_stage(&story.stage);
}

static void without_renewals_it_comes_a_third_later(void **state)
{
    (void)state;
    struct story story = new_story();
    struct outage outage = { .story = NULL };
    story.hold = MINUTES(29);
    story.no_renewal = true;
    open_story(&story);
    plan_outage(&outage, &story);
    run_stage(&story.stage, hold_for_a_while);
    assert_int_equal(story.count, 1);
    assert_int_equal(minute_of(&story.entered[0]), 25);
    close_stage(&story.stage);
}

/* Its answer is lost: it stands, and is put again, which does no harm. */
static void one_without_an_answer_is_put_again(void **state)
{
    (void)state;
    struct story story = new_story();
    struct outage outage = { .story = &story };
    story.hold = MINUTES(29);
    story.lose_answer = true;
    open_story(&story);
    world_set_timer(story.stage.world, &outage.end, MINUTES(16).us, end_outage, &outage);
    run_stage(&story.stage, hold_for_a_while);
    assert_int_equal(story.count, 2);
    assert_string_equal(story.entered[0].key, story.entered[1].key);
    assert_int_equal(minute_of(&story.entered[0]), 15);
    assert_int_equal(minute_of(&story.entered[1]), 20);
    assert_false(story.in_danger || story.gone);
    close_stage(&story.stage);
}

static void crash(struct node *node, void *argument)
{
    struct story *story = argument;
    struct store *store = net_store_open(story->stage.net, node);
    hold(story, client_of(story, store), "deploy");
    env_sleep(node_env(node), story->hold);
    story->hold = SPAN_US(0);
    node_crash(node);
}

static void a_crash_leaves_the_entry_with_the_lease(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        struct story story = new_story();
        story.hold = early ? MINUTES(14) : MINUTES(16);
        open_story(&story);
        run_stage(&story.stage, crash);
        assert_int_equal(story.hold.us, 0);
        assert_int_equal(story.count, early ? 0 : 1);
        assert_non_null(held(&story.stage, VIEW("default/meta/deploy.json")).data);
        /* Whoever comes next remembers nothing, and enters what it holds itself. */
        story.hold = MINUTES(16);
        run_stage(&story.stage, hold_for_a_while);
        assert_int_equal(story.count, early ? 1 : 2);
        close_stage(&story.stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a lock that is held for a day has one entry for each hour in which it would end",
           a_day_has_an_entry_an_hour),
        IT("a lock has no entry before half of its ttl, and then one",
           a_lock_has_none_before_half_of_its_ttl),
        IT("a lock that is not renewed has one too, of the hour in which it ends",
           what_is_not_renewed_has_one_too),
        IT("of two locks each has its entry at half of its own ttl", each_has_its_own_in_time),
        IT("an entry that could not be put comes with the next renewal, which it does not "
           "delay",
           one_that_failed_comes_with_the_next_renewal),
        IT("without renewals it comes a third of the ttl later",
           without_renewals_it_comes_a_third_later),
        IT("an entry whose answer was lost is put again, under the same name",
           one_without_an_answer_is_put_again),
        IT("a crash leaves a lease with its entry, or without before half of its ttl",
           a_crash_leaves_the_entry_with_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
