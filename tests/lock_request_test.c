/* SPDX-License-Identifier: Apache-2.0 */
/* lock_request_test.c KIND: the number of requests of each call, as promised in docs/design.md
 * section 4. KIND is mem, sqlite, or url ($HOLDFAST_TEST_URL). */
#include "lock/handle.h"
#include "lock_kit.h"

#include <stdio.h>

/* Client `one` does what is counted; `two` is everybody else. */
struct scene {
    struct pair *pair;
    struct hf_lock *lock, *other;
    struct hf_lock *many[5];
    struct peer third;
    bool third_open;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_error error;
};

struct row {
    const char *sentence;
    void (*prepare)(struct scene *scene);
    void (*act)(struct scene *scene);
    struct counts expected;
    bool birth; /* one put more: its stub */
};

static void ok(struct scene *scene, enum hf_status status)
{
    must(status, &scene->error, "a call of the scene", __LINE__);
}

/* ---- Before -------------------------------------------------------------------------- */

static void nothing(struct scene *scene)
{
    (void)scene;
}

static void new_lock(struct scene *scene)
{
    scene->lock = lock_of(&scene->pair->one, "deploy", 60000);
}

/* Others have used another name: the namespace has an epoch. */
static void new_name(struct scene *scene)
{
    hf_lock_free(lock_held(&scene->pair->two, "other", 60000));
    new_lock(scene);
}

static void warm(struct scene *scene)
{
    new_lock(scene);
    ok(scene, hf_lock_acquire(scene->lock, 0, &scene->error));
    ok(scene, hf_lock_release(scene->lock, &scene->error));
}

/* Since then, the client has used this many other tables. */
static void use_others(struct scene *scene, int count)
{
    char name[32];
    warm(scene);
    hf_lock_free(scene->lock);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "other-%d", i);
        hf_lock_free(lock_of(&scene->pair->one, name, 60000));
    }
    new_lock(scene);
}

static void used_lately(struct scene *scene)
{
    use_others(scene, 1000);
}

static void used_long_ago(struct scene *scene)
{
    use_others(scene, 1024);
}

static void warm_in_a_page(struct scene *scene)
{
    scene->pair->one.client->space.placement = (struct placement){ 64, 1 };
    scene->lock = lock_of(&scene->pair->one, "path:/a/b", 60000);
    ok(scene, hf_lock_acquire(scene->lock, 0, &scene->error));
    ok(scene, hf_lock_release(scene->lock, &scene->error));
}

static void held(struct scene *scene)
{
    warm(scene);
    ok(scene, hf_lock_acquire(scene->lock, 0, &scene->error));
}

static void known_to_others(struct scene *scene)
{
    struct hf_lock *other = lock_held(&scene->pair->two, "deploy", 60000);
    ok(scene, hf_lock_release(other, &scene->error));
    hf_lock_free(other);
    new_lock(scene);
}

static void held_by_others(struct scene *scene)
{
    scene->other = lock_held(&scene->pair->two, "deploy", 60000);
    new_lock(scene);
}

static void seen_held_by_others(struct scene *scene)
{
    held_by_others(scene);
    IS(HF_HELD, hf_lock_acquire(scene->lock, 0, &scene->error));
}

static void waiting(struct scene *scene)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.poll_ms = 20;
    scene->other = lock_held(&scene->pair->two, "deploy", 60000);
    scene->lock = lock_with(&scene->pair->one, "deploy", &options);
    IS(HF_HELD, hf_lock_begin(scene->lock, &scene->error));
    pass_ms(30);
    IS(HF_HELD, hf_lock_poll(scene->lock, &scene->error));
}

/* Of one who was cut off while it held, and whose time is over since long. */
static void held_by_the_dead(struct scene *scene)
{
    struct hf_client_options careless = HF_CLIENT_OPTIONS;
    careless.skew_tolerance_ms = world_is_local() ? 0 : 2000;
    scene->third_open = true;
    peer_open(&scene->third, &scene->pair->world, &careless);
    scene->other = lock_held(&scene->third, "deploy", scaled_ms(200));
    way_shut(&scene->third.way, "", LOSE);
    pass_ms(world_is_local() ? 400 : 5600);
    peer_close(&scene->pair->one);
    peer_open(&scene->pair->one, &scene->pair->world, &careless);
    new_lock(scene);
}

static void five_ranges(struct scene *scene)
{
    for (int i = 0; i < 5; i++) {
        char scope[64];
        snprintf(scope, sizeof scope, "range:7:%d-%d", i * 100, i * 100 + 50);
        scene->many[i] = lock_held(&scene->pair->one, scope, scaled_ms(600));
    }
}

static void text_of_others(struct scene *scene)
{
    scene->other = lock_held(&scene->pair->two, "deploy", 60000);
    ok(scene, hf_lock_text(scene->other, scene->text, &scene->error));
}

/* ---- What is counted ----------------------------------------------------------------- */

static void acquire(struct scene *scene)
{
    ok(scene, hf_lock_acquire(scene->lock, 0, &scene->error));
}

static void acquire_with_patience(struct scene *scene)
{
    ok(scene, hf_lock_acquire(scene->lock, 60000, &scene->error));
}

static void acquire_in_vain(struct scene *scene)
{
    IS(HF_HELD, hf_lock_acquire(scene->lock, 0, &scene->error));
}

static void begin_in_vain(struct scene *scene)
{
    IS(HF_HELD, hf_lock_begin(scene->lock, &scene->error));
}

static void renew(struct scene *scene)
{
    ok(scene, hf_lock_renew(scene->lock, &scene->error));
}

static void release(struct scene *scene)
{
    ok(scene, hf_lock_release(scene->lock, &scene->error));
}

static void complete(struct scene *scene)
{
    ok(scene, hf_lock_complete(scene->lock, "{\"rows\": 3}", &scene->error));
}

static void ask_locally(struct scene *scene)
{
    for (int i = 0; i < 100; i++) {
        ok(scene, hf_lock_check(scene->lock, &scene->error));
        assert_true(hf_lock_remaining_ms(scene->lock) > 0);
        assert_true(hf_lock_token(scene->lock) > 0);
        ok(scene, hf_lock_acquire(scene->lock, 0, &scene->error));
        ok(scene, hf_lock_release(scene->lock, &scene->error));
        hf_lock_blocked(scene->lock, 0);
        ok(scene, hf_lock_text(scene->lock, scene->text, &scene->error));
    }
}

static void make_and_free(struct scene *scene)
{
    for (int i = 0; i < 10; i++)
        hf_lock_free(lock_of(&scene->pair->one, "deploy", 60000));
}

static void break_it(struct scene *scene)
{
    ok(scene, hf_break(scene->pair->one.client, scene->text, "anna", "stuck", &scene->error));
}

static void look_for_chunks(struct scene *scene)
{
    const char *keys[3] = { "data/a", "data/b", "data/c" };
    bool free_ones[3];
    ok(scene, hf_chunks_unleased(scene->pair->one.client, keys, 3, free_ones, &scene->error));
}

static void three_chunks(struct scene *scene)
{
    const char *scopes[3] = { "chunk:data/a", "chunk:data/b", "pin:data/c" };
    struct hf_lock *other = lock_held(&scene->pair->two, "chunk:data/z", 60000);
    hf_lock_release(other, NULL);
    hf_lock_free(other);
    ok(scene,
       hf_lock_new_many(scene->pair->one.client, scopes, 3, NULL, &scene->lock, &scene->error));
}

/* Two ranges of one table: the first is held. */
static void one_of_two(struct scene *scene)
{
    scene->lock = lock_held(&scene->pair->one, "range:7:0-9", 60000);
    scene->other = lock_of(&scene->pair->one, "range:7:20-29", 60000);
}

static void complete_and_acquire(struct scene *scene)
{
    struct lock_exchange exchange = {
        .done = { scene->lock }, .next = { scene->other }, .done_count = 1, .next_count = 1
    };
    lock_exchange(&exchange);
    IS(HF_OK, exchange.acquired[0]);
    IS(HF_OK, exchange.completed[0]);
    IS(HF_NOT_FOUND, hf_lock_check(scene->lock, &scene->error));
    IS(HF_OK, hf_lock_check(scene->other, &scene->error));
}

/* The second is held by another client. */
static void one_of_two_held(struct scene *scene)
{
    scene->many[0] = lock_held(&scene->pair->two, "range:7:25-26", 60000);
    one_of_two(scene);
}

static void complete_and_be_refused(struct scene *scene)
{
    struct lock_exchange exchange = {
        .done = { scene->lock }, .next = { scene->other }, .done_count = 1, .next_count = 1
    };
    lock_exchange(&exchange);
    IS(HF_HELD, exchange.acquired[0]);
    IS(HF_OK, exchange.completed[0]);
    IS(HF_NOT_FOUND, hf_lock_check(scene->lock, &scene->error));
    IS(HF_NOT_FOUND, hf_lock_check(scene->other, &scene->error));
}

/* ---- The table ----------------------------------------------------------------------- */

static const struct row rows[] = {
    { "a warm acquire is one put", warm, acquire, { .puts = 1 }, false },
    { "a warm acquire in a page is one put", warm_in_a_page, acquire, { .puts = 1 }, false },
    { "of the last thousand tables, each is warm", used_lately, acquire, { .puts = 1 }, false },
    { "a table that was used before all of these is a get more",
      used_long_ago,
      acquire,
      { .gets = 1, .puts = 1 },
      false },
    { "a warm acquire that would wait is one put when it need not",
      warm,
      acquire_with_patience,
      { .puts = 1 },
      false },
    { "a renewal is one put", held, renew, { .puts = 1 }, false },
    { "a release is one put", held, release, { .puts = 1 }, false },
    { "a completion is one put", held, complete, { .puts = 1 }, false },
    { "to complete a lease and acquire another in its table is one put",
      one_of_two,
      complete_and_acquire,
      { .puts = 1 },
      false },
    { "to complete a lease and be refused another is one put",
      one_of_two_held,
      complete_and_be_refused,
      { .puts = 1 },
      false },
    { "a cold acquire is a get more",
      known_to_others,
      acquire,
      { .gets = 1, .puts = 1 },
      false },
    { "the first use of a name is one more get, and a put where stubs may go",
      new_name,
      acquire,
      { .gets = 2, .puts = 1 },
      true },
    { "three chunks are acquired like one",
      three_chunks,
      acquire,
      { .gets = 1, .puts = 1 },
      false },
    { "a refusal to who never looked is one get",
      held_by_others,
      acquire_in_vain,
      { .gets = 1 },
      false },
    { "a refusal from memory is checked by one conditional get",
      seen_held_by_others,
      acquire_in_vain,
      { .looks = 1 },
      false },
    { "to stand in line is one put", seen_held_by_others, begin_in_vain, { .puts = 1 }, false },
    { "a lease long dead is taken over by a get and a put",
      held_by_the_dead,
      acquire,
      { .gets = 1, .puts = 1 },
      false },
    { "what is marked local, and acquiring again, asks nothing",
      held,
      ask_locally,
      { 0 },
      false },
    { "to make a handle asks nothing", nothing, make_and_free, { 0 }, false },
    { "to break a lease is a get and a put",
      text_of_others,
      break_it,
      { .gets = 1, .puts = 1 },
      false },
    { "to look for free chunks is one get", nothing, look_for_chunks, { .gets = 1 }, false },
};
#define ROWS (sizeof rows / sizeof rows[0])

static void scene_close(struct scene *scene)
{
    hf_lock_free(scene->lock);
    hf_lock_free(scene->other);
    for (int i = 0; i < 5; i++)
        hf_lock_free(scene->many[i]);
    if (scene->third_open) {
        way_open(&scene->third.way);
        peer_close(&scene->third);
    }
}

static void run_row(void **state)
{
    struct row row = *(const struct row *)*state;
    void *pair = NULL;
    pair_set_up(&pair);
    struct scene scene = { .pair = pair };
    row.prepare(&scene);
    row.expected.puts += row.birth;
    script_counts(&scene.pair->one.way);
    row.act(&scene);
    struct counts counts = script_counts(&scene.pair->one.way);
    if (memcmp(&counts, &row.expected, sizeof counts) != 0)
        FAIL("%u gets, %u conditional ones, %u puts, %u others; expected %u, %u, %u, %u",
             counts.gets, counts.looks, counts.puts, counts.others, row.expected.gets,
             row.expected.looks, row.expected.puts, row.expected.others);
    scene_close(&scene);
    pair_tear_down(&pair);
}

/* ---- What takes some time ------------------------------------------------------------ */

static void five_ranges_are_renewed_by_one_put(void **state)
{
    struct scene scene = { .pair = *state };
    five_ranges(&scene);
    script_counts(&scene.pair->one.way);
    pass_ms(scaled_ms(900));
    struct counts counts = script_counts(&scene.pair->one.way);
    /* Every third of 600 ms for 900 ms; one by one they would be twenty. */
    assert_in_range(counts.puts, 3, 6);
    assert_int_equal(counts.gets + counts.looks + counts.others, 0);
    for (int i = 0; i < 5; i++)
        IS(HF_OK, hf_lock_check(scene.many[i], &scene.error));
    scene_close(&scene);
}

static void who_waits_looks_by_conditional_gets(void **state)
{
    struct scene scene = { .pair = *state };
    waiting(&scene);
    script_counts(&scene.pair->one.way);
    struct mono_time start = now();
    while (ms_since(start) < 300)
        IS(HF_HELD, hf_lock_poll(scene.lock, &scene.error));
    struct counts counts = script_counts(&scene.pair->one.way);
    assert_int_equal(counts.gets + counts.puts + counts.others, 0);
    assert_in_range(counts.looks, 1, 300 / 20 + 1);
    IS(HF_OK, hf_lock_cancel(scene.lock, &scene.error));
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    struct CMUnitTest tests[ROWS + 2] = {
        PAIR("five ranges of an inode are renewed by one put",
             five_ranges_are_renewed_by_one_put),
        PAIR("who waits looks by conditional gets, as often as it said and no more",
             who_waits_looks_by_conditional_gets),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[2 + i] = (struct CMUnitTest){ .name = rows[i].sentence,
                                            .test_func = run_row,
                                            .initial_state = (void *)(uintptr_t)&rows[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
