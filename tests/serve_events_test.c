/* SPDX-License-Identifier: Apache-2.0 */
/* serve_events_test.c: the ring of events and its readers, and the way of events from the library's
 * threads to the loop (src/serve/events). Streams are in serve_operator_test.py. */
#include "alloc.h"
#include "serve/events/inbox.h"
#include "serve/events/ring.h"
#include "serve/events/timelines.h"
#include "test.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESS 0x5f3a09c1

static void join(struct event_ring *ring, struct event_reader *reader, const char *ns,
                 const char *kinds, const char *last_id, uint64_t since)
{
    struct hf_error error;
    *reader = (struct event_reader){ .ns = ns };
    assert_int_equal(stream_kinds_read(view_of(kinds), &reader->kinds, &error), HF_OK);
    event_reader_join(ring, reader, view_of(last_id), since);
}

/* What a reader gets: "granted,lost(3)," */
static const char *all_of(struct event_ring *ring, struct event_reader *reader,
                          struct buffer *told)
{
    struct buffer text = BUFFER_INIT(1024 * 1024);
    buffer_clear(told);
    while (event_reader_take(ring, reader, &text)) {
        const char *event = strstr(buffer_text(&text), "event: ") + strlen("event: ");
        const char *data = strstr(event, "\ndata: ") + strlen("\ndata: ");
        buffer_append(told, (struct view){ event, (size_t)(strchr(event, '\n') - event) });
        if (strncmp(event, "lost\n", 5) == 0)
            buffer_print(told, "(%.*s)", (int)(strchr(data, '\n') - data), data);
        buffer_append_byte(told, ',');
        buffer_clear(&text);
    }
    buffer_release(&text);
    return buffer_text(told);
}

static void readers_get_what_they_chose(void **state)
{
    (void)state;
    struct event_ring *ring = event_ring_new(PROCESS);
    struct event_reader all, some, other;
    struct buffer told = BUFFER_INIT(1024 * 1024);
    event_ring_add(ring, "a", HF_EVENT_GRANTED, VIEW("{}")); /* before they came */
    join(ring, &all, "a", "", "", 1);
    join(ring, &some, "a", "lease_lost,wait_began", "", 1);
    join(ring, &other, "b", "", "", 1);
    event_ring_add(ring, "a", HF_EVENT_LOST, VIEW("{}"));
    event_ring_add(ring, "b", STREAM_WAIT_ENDED, VIEW("{}"));
    event_ring_add(ring, "a", HF_EVENT_RELEASED, VIEW("{}"));
    event_ring_add(ring, "", STREAM_LOST, VIEW("{\"count\":2}"));
    assert_string_equal(all_of(ring, &all, &told), "lease_lost,released,lost({\"count\":2}),");
    assert_string_equal(all_of(ring, &some, &told), "lease_lost,lost({\"count\":2}),");
    assert_string_equal(all_of(ring, &other, &told), "wait_ended,lost({\"count\":2}),");
    assert_string_equal(all_of(ring, &all, &told), "");
    event_reader_leave(ring, &some);
    event_reader_leave(ring, &all);
    event_reader_leave(ring, &other);
    buffer_release(&told);
    event_ring_free(ring);
}

static void an_event_is_written_as_the_standard_wants_it(void **state)
{
    (void)state;
    struct event_ring *ring = event_ring_new(PROCESS);
    struct event_reader reader;
    struct buffer text = BUFFER_INIT(4096);
    join(ring, &reader, "a", "", "", 1);
    event_reader_open(ring, &reader, &text);
    event_ring_add(ring, "a", HF_EVENT_GRANTED, VIEW("{\"x\":1}"));
    assert_true(event_reader_take(ring, &reader, &text));
    assert_string_equal(buffer_text(&text),
                        "id: 5f3a09c1-0\nevent: open\nretry: 2000\ndata: {}\n\n"
                        "id: 5f3a09c1-1\nevent: granted\ndata: {\"x\":1}\n\n");
    event_reader_leave(ring, &reader);
    buffer_release(&text);
    event_ring_free(ring);
}

static void a_slow_reader_learns_exactly_how_many_it_lost(void **state)
{
    (void)state;
    struct event_ring *ring = event_ring_new(PROCESS);
    struct event_reader slow;
    struct buffer told = BUFFER_INIT(1024 * 1024);
    join(ring, &slow, "a", "granted", "", 1);
    for (int i = 0; i < EVENT_RING_COUNT_MAX + 30; i++)
        event_ring_add(ring, i % 3 == 2 ? "b" : "a",
                       i % 3 == 0 ? HF_EVENT_GRANTED : HF_EVENT_RELEASED, VIEW("{}"));
    const char *text = all_of(ring, &slow, &told);
    assert_int_equal(strncmp(text, "lost({\"count\":10}),granted,", 27), 0);
    size_t granted = 0;
    for (const char *at = text; (at = strstr(at, "granted")); at++)
        granted++;
    assert_int_equal(granted + 10, (EVENT_RING_COUNT_MAX + 30 + 2) / 3);
    event_reader_leave(ring, &slow);
    buffer_release(&told);
    event_ring_free(ring);
}

static void the_ring_is_bounded_in_bytes_too(void **state)
{
    (void)state;
    struct event_ring *ring = event_ring_new(PROCESS);
    struct event_reader slow;
    struct buffer told = BUFFER_INIT(1024 * 1024);
    static char big[100 * 1024];
    memset(big, ' ', sizeof big);
    join(ring, &slow, "a", "", "", 1);
    for (int i = 0; i < 30; i++)
        event_ring_add(ring, "a", HF_EVENT_GRANTED, (struct view){ big, sizeof big });
    assert_int_equal(strncmp(all_of(ring, &slow, &told), "lost({\"count\":20}),", 19), 0);
    event_reader_leave(ring, &slow);
    buffer_release(&told);
    event_ring_free(ring);
}

static void a_reader_that_comes_again_continues_where_it_was(void **state)
{
    (void)state;
    static const struct {
        const char *last_id;
        uint64_t since;
        const char *told;
    } cases[] = {
        { "", 1, "" },
        { "5f3a09c1-2", 1, "released,swept," },
        { "5f3a09c1-4", 1, "" },
        { "5f3a09c1-2", 3, "released,swept," },
        { "5f3a09c1-2", 4, "lost({\"count\":null}),swept," }, /* nobody listened for a while */
        { "5f3a09c1-5", 1,
          "lost({\"count\":null}),granted,renewed,released,swept," }, /* a lie */
        { "00000000-2", 1, "lost({\"count\":null}),granted,renewed,released,swept," },
        { "nonsense", 4, "lost({\"count\":null}),swept," },
        { "5f3a09c1-", 5, "lost({\"count\":null})," },
    };
    struct event_ring *ring = event_ring_new(PROCESS);
    struct buffer told = BUFFER_INIT(4096);
    event_ring_add(ring, "a", HF_EVENT_GRANTED, VIEW("{}"));
    event_ring_add(ring, "a", HF_EVENT_RENEWED, VIEW("{}"));
    event_ring_add(ring, "a", HF_EVENT_RELEASED, VIEW("{}"));
    event_ring_add(ring, "a", HF_EVENT_SWEPT, VIEW("{}"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct event_reader reader;
        join(ring, &reader, "a", "", cases[i].last_id, cases[i].since);
        assert_string_equal(all_of(ring, &reader, &told), cases[i].told);
        event_reader_leave(ring, &reader);
    }
    buffer_release(&told);
    event_ring_free(ring);
}

static void every_kind_but_requests_and_losses_can_be_chosen(void **state)
{
    (void)state;
    struct hf_error error;
    uint64_t kinds;
    for (unsigned kind = 0; kind < STREAM_KINDS; kind++) {
        enum hf_status status =
            stream_kinds_read(view_of(stream_kind_name(kind)), &kinds, &error);
        bool chosen = kind != HF_EVENT_REQUEST && kind != STREAM_LOST;
        assert_int_equal(status, chosen ? HF_OK : HF_INVALID);
        assert_true(!chosen || kinds == UINT64_C(1) << kind);
    }
    assert_int_equal(stream_kinds_read(VIEW("granted,"), &kinds, &error), HF_OK);
    assert_int_equal(stream_kinds_read(VIEW(",granted"), &kinds, &error), HF_INVALID);
}

static void without_memory_an_event_counts_as_lost(void **state)
{
    (void)state;
    struct event_ring *ring = event_ring_new(PROCESS);
    struct event_reader reader;
    struct buffer told = BUFFER_INIT(4096);
    join(ring, &reader, "a", "", "", 1);
    alloc_fail_after(0);
    event_ring_add(ring, "a", HF_EVENT_GRANTED, VIEW("{}"));
    assert_true(alloc_stop());
    event_ring_add(ring, "a", HF_EVENT_RELEASED, VIEW("{}"));
    assert_string_equal(all_of(ring, &reader, &told), "lost({\"count\":1}),released,");
    event_reader_leave(ring, &reader);
    buffer_release(&told);
    event_ring_free(ring);
}

/* ---- The inbox ----------------------------------------------------------------------- */

static struct hf_event event_of(enum hf_event_kind kind)
{
    return (struct hf_event){ .struct_size = sizeof(struct hf_event),
                              .kind = kind,
                              .at_ms = 7,
                              .key = "default/meta/a.json",
                              .scope = "named:\"a\"",
                              .holder = "",
                              .txn = "a-secret-transaction",
                              .why = "a-secret-reason",
                              .note = "",
                              .token = 3 };
}

static void count_call(void *argument)
{
    atomic_int *calls = argument;
    atomic_fetch_add(calls, 1);
}

static void events_arrive_in_order_and_without_secrets(void **state)
{
    (void)state;
    atomic_int calls = 0;
    struct event_inbox *inbox = event_inbox_new(env_real(), count_call, &calls);
    struct hf_event event = event_of(HF_EVENT_GRANTED);
    event_inbox_put(inbox, "default", &event);
    event.kind = HF_EVENT_REQUEST;
    event_inbox_put(inbox, "default", &event);
    event.kind = HF_EVENT_RELEASED;
    event.dropped = 4;
    event_inbox_put(inbox, "default", &event);
    assert_int_equal(calls, 1); /* the loop wakes up once */
    struct inbox_event *first = event_inbox_take(inbox), *second = first->next;
    assert_null(second->next);
    assert_string_equal(first->ns, "default");
    assert_true(view_equal(first->json, VIEW("{\"at_ms\":7,\"namespace\":\"default\","
                                             "\"scope\":\"named:\\\"a\\\"\","
                                             "\"table\":\"default/meta/a.json\","
                                             "\"fencing_token\":3}")));
    assert_int_equal(second->kind, HF_EVENT_RELEASED);
    assert_int_equal(second->dropped, 4);
    free(first);
    free(second);
    event.key = ".txn-decisions/m/a-secret-transaction";
    event.scope = "";
    event_inbox_put(inbox, "default", &event);
    first = event_inbox_take(inbox);
    assert_true(view_equal(first->json, VIEW("{\"at_ms\":7,\"namespace\":\"default\","
                                             "\"fencing_token\":3}")));
    free(first);
    assert_null(event_inbox_take(inbox));
    event_inbox_free(inbox);
}

static void an_event_names_the_owner_in_the_note_and_the_ttl(void **state)
{
    (void)state;
    atomic_int calls = 0;
    struct event_inbox *inbox = event_inbox_new(env_real(), count_call, &calls);
    struct hf_event event = event_of(HF_EVENT_GRANTED);
    event.key = event.scope = "";
    event.note = "{\"owner\":\"ci \\\"7\\\"\",\"note\":{\"step\":1}}";
    event.ttl_ms = 30000;
    event_inbox_put(inbox, "default", &event);
    event.note = "{\"owner\":7}"; /* of another program */
    event_inbox_put(inbox, "default", &event);
    struct inbox_event *first = event_inbox_take(inbox), *second = first->next;
    assert_true(view_equal(first->json, VIEW("{\"at_ms\":7,\"namespace\":\"default\","
                                             "\"owner\":\"ci \\\"7\\\"\","
                                             "\"fencing_token\":3,\"ttl_ms\":30000}")));
    assert_true(view_equal(second->json, VIEW("{\"at_ms\":7,\"namespace\":\"default\","
                                              "\"fencing_token\":3,\"ttl_ms\":30000}")));
    free(first);
    free(second);
    event_inbox_free(inbox);
}

static void what_does_not_fit_is_dropped_and_counted(void **state)
{
    (void)state;
    atomic_int calls = 0;
    struct event_inbox *inbox = event_inbox_new(env_real(), count_call, &calls);
    struct hf_event event = event_of(HF_EVENT_GRANTED);
    size_t count = 0;
    for (int i = 0; i < EVENT_INBOX_MAX + 5; i++)
        event_inbox_put(inbox, "default", &event);
    for (struct inbox_event *one = event_inbox_take(inbox), *next; one; one = next, count++) {
        next = one->next;
        assert_int_equal(one->dropped, 0);
        free(one);
    }
    assert_int_equal(count, EVENT_INBOX_MAX);
    event.dropped = 2;
    event_inbox_put(inbox, "default", &event);
    struct inbox_event *last = event_inbox_take(inbox);
    assert_int_equal(last->dropped, 7);
    free(last);
    event_inbox_put(inbox, "default", &event); /* left in the inbox */
    event_inbox_free(inbox);
}

#define THREADS    4
#define PER_THREAD 2000

static void *put_many(void *argument)
{
    struct hf_event event = event_of(HF_EVENT_GRANTED);
    for (int i = 0; i < PER_THREAD; i++)
        event_inbox_put(argument, "default", &event);
    return NULL;
}

static void many_threads_lose_nothing_without_saying_so(void **state)
{
    (void)state;
    atomic_int calls = 0;
    struct event_inbox *inbox = event_inbox_new(env_real(), count_call, &calls);
    pthread_t threads[THREADS];
    struct hf_event event = event_of(HF_EVENT_RELEASED);
    uint64_t seen = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, inbox), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 2; i++) { /* the second time, for those dropped at the end */
        for (struct inbox_event *one = event_inbox_take(inbox), *next; one; one = next) {
            next = one->next;
            seen += 1 + one->dropped;
            free(one);
        }
        if (i == 0)
            event_inbox_put(inbox, "default", &event);
    }
    assert_int_equal(seen, THREADS * PER_THREAD + 1);
    event_inbox_free(inbox);
}

/* ---- Timelines ----------------------------------------------------------------------- */

static const unsigned char timelines_key[SIPHASH_KEY_BYTES] = "sixteen letters";

static void note_lease(struct timelines *timelines, const char *resource, uint64_t token,
                       int64_t at_ms, const char *owner)
{
    struct timeline_hold hold = { .token = token,
                                  .began = { at_ms, TIMELINE_EXACT },
                                  .exclusive = true,
                                  .mode = "exclusive",
                                  .owner = owner };
    timelines_note(timelines, view_of(resource), &hold, at_ms);
}

static void timelines_are_bounded_and_say_what_is_missing(void **state)
{
    (void)state;
    struct timelines *timelines = timelines_new(1000, timelines_key);
    char owner[1001] = "", resource[32];
    memset(owner, 'o', sizeof owner - 1);
    for (int i = 0; i < 20000; i++) {
        snprintf(resource, sizeof resource, "default/named:%d", i);
        note_lease(timelines, resource, 1, 2000 + i, owner);
        assert_true(timelines_bytes(timelines) <= TIMELINES_BYTES_MAX);
    }
    assert_true(timelines_bytes(timelines) > TIMELINES_BYTES_MAX / 2);
    struct timeline *last = timelines_open(timelines, view_of(resource));
    assert_int_equal(timeline_count(last), 1);
    assert_true(timeline_complete_since(last) > 2000 && timeline_complete_since(last) < 21999);
    struct timeline *first = timelines_open(timelines, VIEW("default/named:0"));
    assert_int_equal(timeline_count(first), 0);
    assert_true(timeline_complete_since(first) > 2000);
    timelines_free(timelines);
}

static void only_a_grant_begins_a_timeline(void **state)
{
    (void)state;
    struct timelines *timelines = timelines_new(1000, timelines_key);
    struct timeline_hold ended = { .token = 1,
                                   .end = TIMELINE_RELEASE,
                                   .ended = { 2000, TIMELINE_EXACT } };
    timelines_note(timelines, VIEW("default/named:x"), &ended, 2000);
    assert_int_equal(timelines_bytes(timelines), 0);
    note_lease(timelines, "default/named:x", 1, 1500, "ada");
    timelines_note(timelines, VIEW("default/named:x"), &ended, 2000);
    struct timeline *timeline = timelines_open(timelines, VIEW("default/named:x"));
    assert_int_equal(timeline_at(timeline, 0)->end, TIMELINE_RELEASE);
    assert_int_equal(timeline_complete_since(timeline), 1000);
    timelines_free(timelines);
}

static void looking_for_a_timeline_begins_none(void **state)
{
    (void)state;
    char resource[32];
    struct timelines *timelines = timelines_new(1000, timelines_key);
    assert_null(timelines_find(timelines, VIEW("default/named:x")));
    note_lease(timelines, "default/named:x", 1, 1500, "ada");
    assert_ptr_equal(timelines_find(timelines, VIEW("default/named:x")),
                     timelines_open(timelines, VIEW("default/named:x")));
    size_t before = timelines_bytes(timelines);
    /* One that was begun for a look counts, even if the look has found nothing. */
    for (int i = 0; i < 20000; i++) {
        snprintf(resource, sizeof resource, "default/named:%d", i);
        assert_null(timelines_find(timelines, view_of(resource)));
        assert_non_null(timelines_open(timelines, view_of(resource)));
        timelines_looked(timelines, view_of(resource), 2000 + i);
        assert_true(timelines_bytes(timelines) > before || i > 1000);
        assert_true(timelines_bytes(timelines) <= TIMELINES_BYTES_MAX);
        before = timelines_bytes(timelines);
    }
    assert_null(timelines_find(timelines, VIEW("default/named:x")));
    timelines_free(timelines);
}

/* The wall clock is an hour ahead, until it is corrected. */
static void a_step_of_the_wall_clock_leaves_the_holds_as_they_were(void **state)
{
    (void)state;
    enum { HOUR_MS = 3600 * 1000, STEP_MS = 10 };
    struct timelines *timelines = timelines_new(1000, timelines_key);
    struct timeline *timeline;
    int64_t wall_ms = 5 * HOUR_MS, now_ms = 77, first_ms = 0;
    for (int i = 0; i < 20; i++) {
        if (i == 10)
            wall_ms -= HOUR_MS;
        wall_ms += STEP_MS, now_ms += STEP_MS;
        int64_t at_ms = timelines_clock_ms(timelines, (struct wall_time){ wall_ms * 1000 },
                                           (struct mono_time){ now_ms * 1000 });
        first_ms = i == 0 ? at_ms : first_ms;
        note_lease(timelines, "default/named:x", (uint64_t)i + 1, at_ms, "ada");
    }
    assert_int_equal(first_ms, 5 * HOUR_MS + STEP_MS);
    timeline = timelines_open(timelines, VIEW("default/named:x"));
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(timeline_at(timeline, i)->began.at_ms,
                         first_ms + (int64_t)i * STEP_MS);
    /* A step forwards is followed, for most clocks that are wrong at first are behind. */
    wall_ms += 3 * HOUR_MS;
    assert_int_equal(timelines_clock_ms(timelines, (struct wall_time){ wall_ms * 1000 },
                                        (struct mono_time){ now_ms * 1000 }),
                     wall_ms);
    timelines_free(timelines);
}

static void without_memory_a_timeline_is_forgotten_whole(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct timelines *timelines = timelines_new(1000, timelines_key);
        note_lease(timelines, "default/named:x", 1, 1500, "ada");
        alloc_fail_after(n);
        note_lease(timelines, "default/named:x", 2, 1600, "bob");
        note_lease(timelines, "default/named:y", 1, 1600, "bob");
        bool failed = alloc_stop();
        struct timeline *timeline = timelines_open(timelines, VIEW("default/named:x"));
        size_t count = timeline_count(timeline);
        assert_true(count == 2 || (failed && count == 0));
        assert_true(count == 2 || timeline_complete_since(timeline) == 1601);
        timelines_free(timelines);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_get_what_they_chose),
        cmocka_unit_test(an_event_is_written_as_the_standard_wants_it),
        cmocka_unit_test(a_slow_reader_learns_exactly_how_many_it_lost),
        cmocka_unit_test(the_ring_is_bounded_in_bytes_too),
        cmocka_unit_test(a_reader_that_comes_again_continues_where_it_was),
        cmocka_unit_test(every_kind_but_requests_and_losses_can_be_chosen),
        cmocka_unit_test(without_memory_an_event_counts_as_lost),
        cmocka_unit_test(events_arrive_in_order_and_without_secrets),
        cmocka_unit_test(an_event_names_the_owner_in_the_note_and_the_ttl),
        cmocka_unit_test(what_does_not_fit_is_dropped_and_counted),
        cmocka_unit_test(many_threads_lose_nothing_without_saying_so),
        cmocka_unit_test(timelines_are_bounded_and_say_what_is_missing),
        cmocka_unit_test(only_a_grant_begins_a_timeline),
        cmocka_unit_test(looking_for_a_timeline_begins_none),
        cmocka_unit_test(a_step_of_the_wall_clock_leaves_the_holds_as_they_were),
        cmocka_unit_test(without_memory_a_timeline_is_forgotten_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
