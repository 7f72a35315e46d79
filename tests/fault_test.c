/* SPDX-License-Identifier: Apache-2.0 */
/* fault_test.c: statuses are true when faults are injected, and the meter counts correctly. */
#include "base/prng.h"
#include "fault_store.h"
#include "meter.h"
#include "scripted_store.h"
#include "store/probe.h"
#include "store/store.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct store *open_mem(void)
{
    struct store *store = NULL;
    struct hf_error error;
    assert_status(HF_OK, store_open(env_real(), VIEW("mem:"), &store, &error), &error);
    return store;
}

static struct store *wrap_fault(struct store *inner, struct fault_plan plan)
{
    struct store *store = NULL;
    struct hf_error error;
    assert_status(HF_OK, store_fault(inner, &plan, &store, &error), &error);
    return store;
}

/* ---- A model of one key under faults ------------------------------------------------- */

/* What one key may hold: every value that a write without an answer may still bring counts. */
struct possible {
    bool value[4096]; /* value[n]: write number n may be what is there; 0: nothing is there */
};

static unsigned number_of(struct view body)
{
    unsigned number = 0;
    for (size_t i = 0; i < body.size; i++)
        number = number * 10 + (unsigned)(body.data[i] - '0');
    return number;
}

static enum hf_status read_number(struct store *store, unsigned *ret_number,
                                  struct etag *ret_etag)
{
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call get = { .key = VIEW("k"), .body = &body };
    enum hf_status status = store_get(store, &get);
    *ret_number = status == HF_OK ? number_of(buffer_view(&body)) : 0;
    *ret_etag = get.info.etag;
    buffer_release(&body);
    return status;
}

/* One conditional write of `number`; updates what is possible by the status alone. */
static void write_number(struct store *store, struct possible *possible, unsigned number,
                         unsigned current, const struct etag *etag)
{
    char body[16];
    snprintf(body, sizeof body, "%u", number);
    struct put_call put = { .key = VIEW("k"),
                            .body = view_of(body),
                            .condition = current ? if_match(etag) : if_absent() };
    enum hf_status status = store_put(store, &put);
    if (status == HF_OK) {
        /* An If-Match put that succeeds shuts out all earlier ones without an answer: their
         * ETags are old. */
        memset(possible, 0, sizeof *possible);
        possible->value[number] = true;
    } else if (status == HF_UNSURE) {
        possible->value[number] = true;
    } else {
        assert_true(status == HF_CONFLICT || status == HF_UNAVAILABLE ||
                    status == HF_NOT_FOUND);
    }
}

static void statuses_keep_their_word(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct fault_plan plan = { .seed = seed,
                                   .throttle = 50000,
                                   .refuse = 50000,
                                   .lose = 100000,
                                   .lose_reply = 100000,
                                   .late = 100000,
                                   .late_max = SPAN_US(200) };
        struct store *store = wrap_fault(open_mem(), plan);
        static struct possible possible;
        memset(&possible, 0, sizeof possible);
        possible.value[0] = true;
        unsigned current;
        struct etag etag;
        for (unsigned number = 1; number < 200; number++) {
            enum hf_status status = read_number(store, &current, &etag);
            if (status == HF_UNAVAILABLE)
                continue;
            assert_true(possible.value[current]);
            write_number(store, &possible, number, current, &etag);
        }
        store_fault_calm(store);
        assert_true(read_number(store, &current, &etag) != HF_UNAVAILABLE);
        assert_true(possible.value[current]);
        store_close(store);
    }
}

/* ---- Each fault by itself ------------------------------------------------------------ */

static enum hf_status put_text(struct store *store, const char *key, const char *body)
{
    struct put_call put = { .key = view_of(key), .body = view_of(body) };
    return store_put(store, &put);
}

static bool exists(struct store *store, const char *key)
{
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call get = { .key = view_of(key), .body = &body };
    enum hf_status status = store_get(store, &get);
    buffer_release(&body);
    return status == HF_OK;
}

static void always(struct fault_plan plan, enum hf_status expected, bool done)
{
    struct store *store = wrap_fault(open_mem(), plan);
    assert_int_equal(put_text(store, "k", "1"), expected);
    store_fault_calm(store);
    assert_int_equal(exists(store, "k"), done);
    store_close(store);
}

static void a_throttled_put_is_not_done(void **state)
{
    (void)state;
    always((struct fault_plan){ .throttle = 1000000 }, HF_UNAVAILABLE, false);
}

static void a_refused_put_is_not_done(void **state)
{
    (void)state;
    always((struct fault_plan){ .refuse = 1000000 }, HF_UNAVAILABLE, false);
}

static void a_lost_put_is_unsure_and_not_done(void **state)
{
    (void)state;
    always((struct fault_plan){ .lose = 1000000 }, HF_UNSURE, false);
}

static void a_put_with_a_lost_reply_is_unsure_and_done(void **state)
{
    (void)state;
    always((struct fault_plan){ .lose_reply = 1000000 }, HF_UNSURE, true);
}

static void a_late_put_is_unsure_and_done_later(void **state)
{
    (void)state;
    always((struct fault_plan){ .late = 1000000, .late_max = SPAN_MS(5) }, HF_UNSURE, true);
}

static void a_late_delete_happens_later(void **state)
{
    (void)state;
    struct store *inner = open_mem();
    assert_int_equal(put_text(inner, "k", "1"), HF_OK);
    struct store *store =
        wrap_fault(inner, (struct fault_plan){ .late = 1000000, .late_max = SPAN_MS(1) });
    struct delete_call removal = { .key = VIEW("k") };
    assert_int_equal(store_delete(store, &removal), HF_UNSURE);
    store_fault_calm(store);
    assert_false(exists(store, "k"));
    store_close(store);
}

static void late_writes_are_bounded(void **state)
{
    (void)state;
    struct store *store =
        wrap_fault(open_mem(),
                   (struct fault_plan){ .late = 1000000, .late_max = SPAN_S(3600) });
    for (int i = 0; i < 2 * FAULT_LATE_MAX; i++)
        assert_int_equal(put_text(store, "k", "1"), HF_UNSURE);
    store_close(store); /* does not wait an hour, frees all */
}

static void one_seed_gives_one_story(void **state)
{
    (void)state;
    enum hf_status first[200], second[200];
    for (int run = 0; run < 2; run++) {
        struct fault_plan plan = { .seed = 7, .refuse = 300000, .lose_reply = 300000 };
        struct store *store = wrap_fault(open_mem(), plan);
        for (int i = 0; i < 200; i++)
            (run == 0 ? first : second)[i] = put_text(store, "k", "1");
        store_close(store);
    }
    assert_memory_equal(first, second, sizeof first);
}

/* ---- The meter ----------------------------------------------------------------------- */

/* A thousand bytes there, ten of them back. */
static void read_range_and_put_file(struct store *store)
{
    int fd = memfd_create("thousand", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 1000), 0);
    struct put_call put = { .key = VIEW("c") };
    assert_status(HF_OK, store_put_file(store, &put, fd, NULL), &put.error);
    close(fd);
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call get = { .key = VIEW("c"), .body = &body, .offset = 5, .length = 10 };
    assert_status(HF_OK, store_get(store, &get), &get.error);
    buffer_release(&body);
}

static void the_meter_counts_by_kind(void **state)
{
    (void)state;
    struct meter meter;
    struct store *store = NULL;
    struct hf_error error;
    meter_init(&meter, env_real());
    assert_status(HF_OK, store_observe(open_mem(), meter_observer(&meter), &store, &error),
                  &error);
    put_text(store, "a", "12345");
    put_text(store, "b", "1");
    exists(store, "a");
    exists(store, "none");
    struct delete_call removals[2] = { { .key = VIEW("a") }, { .key = VIEW("b") } };
    store_delete_many(store, removals, 2);
    read_range_and_put_file(store);
    struct meter_counts kinds[CALL_KIND_COUNT];
    meter_read(&meter, kinds);
    assert_int_equal(kinds[CALL_PUT].calls, 2);
    assert_int_equal(kinds[CALL_PUT].bytes_sent, 6);
    assert_int_equal(kinds[CALL_GET].calls, 3);
    assert_int_equal(kinds[CALL_GET].failed, 1);
    assert_int_equal(kinds[CALL_GET].bytes_received, 5 + 10);
    assert_int_equal(kinds[CALL_PUT_FILE].bytes_sent, 1000);
    assert_int_equal(kinds[CALL_DELETE].calls, 2);
    assert_int_equal(kinds[CALL_DELETE].batches, 1);
    meter_reset(&meter);
    meter_read(&meter, kinds);
    assert_int_equal(kinds[CALL_PUT].calls, 0);
    store_close(store);
    meter_release(&meter);
}

static void get_a(void *argument)
{
    exists(*(struct store **)argument, "a");
}

/* A request that begins while another one is under way does not wait for it, so the two count as
 * one round trip, as a batch does. */
static void depth_counts_requests_that_waited_for_others(void **state)
{
    (void)state;
    struct meter meter;
    struct script script;
    struct store *inner = open_mem(), *store = NULL;
    struct hf_error error;
    meter_init(&meter, env_real());
    script_init(&script, inner);
    assert_status(HF_OK, store_observe(&script.base, meter_observer(&meter), &store, &error),
                  &error);
    put_text(store, "a", "1");
    assert_int_equal(meter.depth, 1);
    exists(store, "a");
    assert_int_equal(meter.depth, 2);
    struct delete_call removals[3] = { { .key = VIEW("x") },
                                       { .key = VIEW("y") },
                                       { .key = VIEW("z") } };
    store_delete_many(store, removals, 3);
    assert_int_equal(meter.depth, 3);
    script_rule(&script, .name = "beside", .on = ON_GET, .times = 1, .before = get_a,
                .argument = &store);
    exists(store, "b");
    assert_int_equal(script_met(&script, "beside"), 1);
    assert_int_equal(meter.depth, 4);
    exists(store, "a");
    assert_int_equal(meter.depth, 5);
    store_close(store);
    store_close(inner);
    meter_release(&meter);
}

/* ---- The probe ----------------------------------------------------------------------- */

static void the_probe_accepts_a_good_store(void **state)
{
    (void)state;
    struct store *store = open_mem();
    struct probe_report report;
    struct hf_error error;
    assert_status(HF_OK, store_probe(store, (struct mono_time){ 0 }, &report, &error), &error);
    assert_true(report.traits.etag_fresh && report.traits.delete_conditional);
    struct list_call list = { 0 };
    assert_status(HF_OK, store_list(store, &list), &list.error);
    assert_int_equal(list.count, 0); /* it cleans up */
    list_release(&list);
    store_close(store);
}

/* A store that takes conditions and ignores some of them, as real ones do. */
struct liar {
    struct store *inner;
    enum condition_kind ignores;
    bool in_races_only; /* it is right when asked slowly */
    bool denies;        /* and does not own up to it: the losers' bytes are there */
};

static struct fate lie(void *argument, struct script_call *call)
{
    struct liar *liar = argument;
    struct put_call *put = call->put, careless = *put;
    bool race = view_starts_with(put->body, VIEW("racer"));
    if (put->condition.kind != liar->ignores || (liar->in_races_only && !race))
        return PASS;
    store_put(liar->inner, put);
    careless.condition.kind = CONDITION_ALWAYS;
    if (put->error.status != HF_OK) {
        store_put(liar->inner, &careless);
        if (!liar->denies)
            *put = careless;
    }
    return ANSWERED;
}

static void probe_of_a_liar(struct liar liar, const char *what)
{
    struct script script;
    struct probe_report report;
    struct hf_error error;
    liar.inner = open_mem();
    script_init(&script, liar.inner);
    script.base.traits = (struct store_traits){ 0 };
    script_rule(&script, .on = ON_PUT, .decide = lie, .argument = &liar);
    assert_status(HF_UNSUPPORTED,
                  store_probe(&script.base, (struct mono_time){ 0 }, &report, &error), &error);
    assert_non_null(strstr(error.why, what));
    assert_int_equal(report.findings[report.count - 1].verdict, HF_FINDING_REFUSED);
    store_close(&script.base);
    store_close(liar.inner);
}

static void the_probe_refuses_a_store_that_ignores_absent(void **state)
{
    (void)state;
    probe_of_a_liar((struct liar){ .ignores = CONDITION_ABSENT }, "put if absent");
}

static void the_probe_refuses_a_store_that_ignores_match(void **state)
{
    (void)state;
    probe_of_a_liar((struct liar){ .ignores = CONDITION_MATCH }, "put if match, wrong ETag");
}

static void the_probe_refuses_two_winners(void **state)
{
    (void)state;
    struct liar liar = { .in_races_only = true, .ignores = CONDITION_ABSENT };
    probe_of_a_liar(liar, "one winner, if absent");
    liar.ignores = CONDITION_MATCH;
    probe_of_a_liar(liar, "one winner, if match");
}

static void the_probe_refuses_bytes_of_losers(void **state)
{
    (void)state;
    struct liar liar = { .in_races_only = true, .denies = true, .ignores = CONDITION_ABSENT };
    probe_of_a_liar(liar, "one winner, if absent");
    liar.ignores = CONDITION_MATCH;
    probe_of_a_liar(liar, "one winner, if match");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("under faults a status never claims what is not so", statuses_keep_their_word),
        IT("a throttled put is not done", a_throttled_put_is_not_done),
        IT("a refused put is not done", a_refused_put_is_not_done),
        IT("a lost put is unsure and not done", a_lost_put_is_unsure_and_not_done),
        IT("a put with a lost reply is unsure and done",
           a_put_with_a_lost_reply_is_unsure_and_done),
        IT("a late put is unsure and done later", a_late_put_is_unsure_and_done_later),
        IT("a late delete happens later", a_late_delete_happens_later),
        IT("late writes are bounded and closing does not wait for them",
           late_writes_are_bounded),
        IT("one seed of a fault plan gives one story", one_seed_gives_one_story),
        IT("the meter counts calls, batches and bytes by kind", the_meter_counts_by_kind),
        IT("depth counts requests that waited for others, and a batch once",
           depth_counts_requests_that_waited_for_others),
        IT("the probe accepts a good store and cleans up", the_probe_accepts_a_good_store),
        IT("the probe refuses a store in which a race has two winners",
           the_probe_refuses_two_winners),
        IT("the probe refuses a store that keeps the bytes of those who lost",
           the_probe_refuses_bytes_of_losers),
        IT("the probe refuses a store that ignores if-absent",
           the_probe_refuses_a_store_that_ignores_absent),
        IT("the probe refuses a store that ignores if-match",
           the_probe_refuses_a_store_that_ignores_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
