/* SPDX-License-Identifier: Apache-2.0 */
/* s3_clock_test.c: an S3 store seen from a machine whose wall clock is wrong or jumps. Requests
 * are signed with the store's own time, which is used for nothing else. */
#include "s3_fake.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DAY SPAN_S(86400)

/* The real world with another calendar. */
static struct env_ops shifted_ops;
static struct env shifted = { &shifted_ops };
static struct span shift;

static struct wall_time read_shifted_wall(struct env *env)
{
    (void)env;
    return wall_add(env_wall(env_real()), shift);
}

static struct store *open_shifted(const char *bucket, struct span by)
{
    fake_reset();
    shift = by;
    return fake_open_in(&shifted, bucket, "&etag=quoted");
}

static struct hf_error last; /* of the last call below */

static enum hf_status put(struct store *store, struct condition condition)
{
    struct put_call call = { .key = VIEW("k"), .body = VIEW("body"), .condition = condition };
    store_put(store, &call);
    last = call.error;
    return last.status;
}

static enum hf_status get(struct store *store, struct store_stamp *ret_stamp)
{
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call call = { .key = VIEW("k"), .body = &body };
    store_get(store, &call);
    buffer_release(&body);
    last = call.error;
    if (ret_stamp)
        *ret_stamp = call.stamp;
    return last.status;
}

static void wrong_from_the_start(void **state)
{
    (void)state;
    const struct span shifts[] = { DAY, SPAN_S(-86400), SPAN_S(-56LL * 366 * 86400),
                                   SPAN_S(70LL * 366 * 86400) };
    for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++) {
        struct store *store = open_shifted("clocked", shifts[i]);
        struct delete_call removal = { .key = VIEW("k") };
        assert_status(HF_OK, put(store, if_absent()), &last);
        assert_int_equal(fake_seen("PUT", "clocked"), 2);
        assert_int_equal(put(store, if_absent()), HF_CONFLICT);
        assert_int_equal(fake_seen("PUT", "clocked"), 3);
        assert_status(HF_OK, get(store, NULL), &last);
        assert_int_equal(fake_seen("GET", "clocked"), 1);
        assert_status(HF_OK, store_delete(store, &removal), &removal.error);
        assert_int_equal(fake_seen("DELETE", "clocked"), 1);
        store_close(store);
    }
}

static void jumps_while_open(void **state)
{
    (void)state;
    struct store *store = open_shifted("clocked", SPAN_S(0));
    const struct span shifts[] = { SPAN_S(0), DAY, SPAN_S(-86400), SPAN_S(0) };
    for (size_t i = 0; i < 4; i++) {
        shift = shifts[i];
        assert_status(HF_OK, put(store, (struct condition){ 0 }), &last);
        assert_int_equal(fake_seen("PUT", "clocked"), i + 1);
    }
    store_close(store);
}

/* Both the first time and after the refusal the whole file must go out. */
static void files_too(void **state)
{
    (void)state;
    struct store *store = open_shifted("clocked", DAY);
    char path[] = "/tmp/holdfast-clock-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0 && unlink(path) == 0);
    assert_int_equal(write(fd, "from a file", 11), 11);
    struct put_call call = { .key = VIEW("k") };
    assert_status(HF_OK, store_put_file(store, &call, fd, /* progress */ NULL), &call.error);
    assert_int_equal(fake_seen("PUT", "clocked"), 2);
    assert_int_equal(ftruncate(fd, 0), 0);
    struct get_call back = { .key = VIEW("k") };
    assert_status(HF_OK, store_get_file(store, &back, fd, /* progress */ NULL), &back.error);
    char text[16] = "";
    assert_int_equal(pread(fd, text, sizeof text - 1, 0), 11);
    assert_string_equal(text, "from a file");
    close(fd);
    store_close(store);
}

static void without_a_word_of_time(void **state)
{
    (void)state;
    struct store *store = open_shifted("clocked-tersely", DAY);
    assert_status(HF_OK, put(store, if_absent()), &last);
    assert_int_equal(fake_seen("PUT", "clocked-tersely"), 2);
    store_close(store);
    /* One that refuses for another reason is asked once. */
    store = open_shifted("denied", SPAN_S(0));
    assert_int_equal(put(store, if_absent()), HF_DENIED);
    assert_int_equal(fake_seen("PUT", "denied"), 1);
    store_close(store);
}

static void dates_that_lie(void **state)
{
    (void)state;
    struct store *store = open_shifted("wrong-dates", SPAN_S(0));
    assert_status(HF_OK, put(store, (struct condition){ 0 }), &last);
    assert_int_equal(fake_seen("PUT", "wrong-dates"), 1);
    assert_status(HF_OK, put(store, (struct condition){ 0 }), &last); /* by the date: refused */
    assert_int_equal(fake_seen("PUT", "wrong-dates"), 3);
    assert_status(HF_OK, put(store, (struct condition){ 0 }), &last);
    assert_int_equal(fake_seen("PUT", "wrong-dates"), 4);
    store_close(store);
}

static void dates_out_of_a_cache(void **state)
{
    (void)state;
    struct store *store = open_shifted("old-dates", SPAN_S(0));
    assert_status(HF_OK, get(store, NULL), &last);
    assert_status(HF_OK, get(store, NULL), &last);
    assert_int_equal(fake_seen("GET", "old-dates"), 2);
    store_close(store);
}

static void refused_all_the_same(void **state)
{
    (void)state;
    struct store *store = open_shifted("skewed", SPAN_S(0));
    assert_int_equal(put(store, if_absent()), HF_DENIED);
    assert_int_equal(fake_seen("PUT", "skewed"), 2);
    assert_non_null(strstr(last.why, "RequestTimeTooSkewed"));
    assert_non_null(strstr(last.why, "the store's 2001-02-03T04:05:06"));
    assert_non_null(strstr(last.why, "set this machine's clock"));
    store_close(store);
}

/* What a reply says of the store's clock is passed on as it came, and not as we sign. */
static void signs_only(void **state)
{
    (void)state;
    struct store *store = open_shifted("clocked", DAY);
    struct store_stamp stamp;
    assert_status(HF_OK, put(store, if_absent()), &last);
    assert_status(HF_OK, get(store, &stamp), &last);
    assert_true(stamp.known);
    int64_t off_us = wall_since(env_wall(env_real()), stamp.date).us;
    assert_true(off_us > -2000000 && off_us < 10000000);
    assert_true(mono_since(env_now(env_real()), stamp.received).us < 10000000);
    store_close(store);
}

static int set_up(void **state)
{
    (void)state;
    shifted_ops = *env_real()->ops;
    shifted_ops.wall = read_shifted_wall;
    setenv("AWS_ACCESS_KEY_ID", "access", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    fake_start();
    return 0;
}

/* ---- Time that passes ---------------------------------------------------------------- */

static struct span later;

static struct mono_time read_later(struct env *env)
{
    (void)env;
    return mono_add(env_now(env_real()), later);
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

#define BURST 32

static void idle_connections_are_closed(void **state)
{
    (void)state;
    struct put_call calls[BURST];
    later = SPAN_US(0);
    shifted_ops.now = read_later;
    struct store *store = open_shifted("clocked", SPAN_US(0));
    assert_status(HF_OK, put(store, (struct condition){ 0 }), &last);
    size_t one = open_descriptors();
    for (int i = 0; i < BURST; i++)
        calls[i] = (struct put_call){ .key = VIEW("k"), .body = VIEW("x") };
    assert_int_equal(store_put_many(store, calls, BURST), HF_OK);
    size_t many = open_descriptors();
    assert_true(many > one);
    for (int i = 0; i < BURST; i++)
        assert_status(HF_OK, get(store, NULL), &last);
    assert_int_equal(open_descriptors(), many); /* soon enough for the next burst */
    later = SPAN_S(20);
    for (int i = 0; i < BURST; i++)
        assert_status(HF_OK, get(store, NULL), &last);
    assert_int_equal(open_descriptors(), one);
    store_close(store);
    shifted_ops.now = env_real()->ops->now;
}

static int tear_down(void **state)
{
    (void)state;
    fake_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a wrong wall clock costs one refused request, and nothing after that",
           wrong_from_the_start),
        IT("a wall clock that jumps while the store is open costs nothing", jumps_while_open),
        IT("what is streamed from a file is signed anew too", files_too),
        IT("a refusal that does not name the time, but is dated far from ours, is one of the "
           "time",
           without_a_word_of_time),
        IT("dates that the store itself does not accept are not signed with", dates_that_lie),
        IT("dates out of a cache are not signed with", dates_out_of_a_cache),
        IT("a time that is refused all the same is told with all clocks", refused_all_the_same),
        IT("the learnt time signs, and changes nothing that is told of the store's clock",
           signs_only),
        IT("connections that a burst of requests has opened are closed when they are idle",
           idle_connections_are_closed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
