/* SPDX-License-Identifier: Apache-2.0 */
/* s3_strange_test.c: how the s3 store handles replies that are well-formed but wrong: ranges
 * that nobody requested, listings in another order, unusual refusals, and credential endpoints
 * that hang. */
#include "lock/purge.h"
#include "meter.h"
#include "s3_fake.h"
#include "store/bucket.h"
#include "store/s3/s3.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct hf_error last; /* of the last call below */

static enum hf_status put(struct store *store, const char *key, struct condition condition)
{
    struct put_call call = { .key = view_of(key),
                             .body = VIEW("body"),
                             .condition = condition };
    store_put(store, &call);
    last = call.error;
    return last.status;
}

/* ---- Refusals in odd forms ----------------------------------------------------------- */

static void odd_refusals_of_a_put(void **state)
{
    (void)state;
    static const struct {
        const char *bucket;
        enum hf_status always, absent;
    } rows[] = {
        { "only-100", HF_UNSURE, HF_UNSURE },
        { "timeout-408", HF_UNAVAILABLE, HF_UNAVAILABLE },
        { "unmodified-304", HF_UNAVAILABLE, HF_CONFLICT },
        { "gone-404", HF_UNAVAILABLE, HF_CONFLICT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store *store = fake_open(rows[i].bucket, "");
        assert_status(rows[i].always, put(store, "k", (struct condition){ 0 }), &last);
        assert_status(rows[i].absent, put(store, "k", if_absent()), &last);
        store_close(store);
    }
}

static void a_failure_under_an_unknown_name_is_nobodys_success(void **state)
{
    (void)state;
    struct store *store = fake_open("deletes-other", "");
    struct delete_call calls[2] = { { .key = VIEW("a") }, { .key = VIEW("kept") } };
    assert_int_equal(store_delete_many(store, calls, 2), HF_UNSURE);
    assert_int_equal(calls[0].error.status, HF_UNSURE);
    assert_int_equal(calls[1].error.status, HF_UNSURE);
    store_close(store);
}

static void a_prefix_that_xml_cannot_carry(void **state)
{
    (void)state;
    struct store *store = fake_open("deletes/%01", "");
    struct delete_call calls[2] = { { .key = VIEW("a") }, { .key = VIEW("b") } };
    fake_reset();
    assert_int_equal(store_delete_many(store, calls, 2), HF_OK);
    assert_int_equal(fake_seen("POST", "deletes"), 0);
    assert_int_equal(fake_seen("DELETE", "deletes"), 2);
    store_close(store);
}

/* ---- Ranges -------------------------------------------------------------------------- */

static void ranges_are_checked(void **state)
{
    (void)state;
    static const char *const buckets[] = { "wrong-range", "short-range" };
    for (size_t i = 0; i < 2; i++) {
        struct store *store = fake_open(buckets[i], "");
        struct buffer body = BUFFER_INIT(100);
        struct get_call call = { .key = VIEW("k"), .offset = 4, .length = 4, .body = &body };
        assert_status(HF_CORRUPT, store_get(store, &call), &call.error);
        buffer_release(&body);
        store_close(store);
    }
}

static int scratch_file(void)
{
    char path[] = "/tmp/holdfast-strange-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static void a_silent_store_ends_a_stream_in_time(void **state)
{
    (void)state;
    struct store *store = fake_open("slow", "&timeout=1s");
    int fd = scratch_file();
    struct get_call call = { .key = VIEW("k") };
    struct mono_time start = env_now(env_real());
    assert_int_equal(store_get_file(store, &call, fd, NULL), HF_UNAVAILABLE);
    assert_true(mono_since(env_now(env_real()), start).us < SPAN_S(4).us);
    close(fd);
    store_close(store);
}

/* Goes on for as long as bytes move, and then says stop. */
static bool stop_when_still(void *argument, uint64_t done, uint64_t total)
{
    uint64_t *before = argument;
    bool moves = done != *before || done == 0;
    *before = done;
    return moves && total < 1000;
}

static bool stop(void *argument, uint64_t done, uint64_t total)
{
    struct mono_time *until = argument;
    (void)done;
    (void)total;
    return mono_before(env_now(env_real()), *until);
}

static void a_stream_can_be_stopped_while_it_stands_still(void **state)
{
    (void)state;
    struct store *store = fake_open("slow", "&timeout=30s");
    int fd = scratch_file();
    struct mono_time start = env_now(env_real()), until = mono_add(start, SPAN_MS(100));
    struct progress progress = { stop, &until };
    struct get_call call = { .key = VIEW("k") };
    assert_int_equal(store_get_file(store, &call, fd, &progress), HF_CANCELLED);
    /* The body has left: nobody can tell. */
    uint64_t before = 0;
    struct progress still = { stop_when_still, &before };
    struct put_call sent = { .key = VIEW("k") };
    assert_int_equal(write(fd, "abc", 3), 3);
    assert_int_equal(store_put_file(store, &sent, fd, &still), HF_UNSURE);
    assert_true(mono_since(env_now(env_real()), start).us < SPAN_S(8).us);
    close(fd);
    store_close(store);
}

/* ---- "Not modified" that nobody asked for -------------------------------------------- */

static enum hf_status get(struct store *store, const char *none_match)
{
    struct buffer body = BUFFER_INIT(100);
    struct get_call call = { .key = VIEW("k"), .body = &body };
    etag_set(&call.none_match, view_of(none_match));
    store_get(store, &call);
    buffer_release(&body);
    last = call.error;
    return last.status;
}

static void a_304_counts_only_for_a_comparison(void **state)
{
    (void)state;
    struct store *store = fake_open("unmodified-304", "");
    assert_status(HF_UNAVAILABLE, get(store, ""), &last);
    assert_status(HF_NOT_MODIFIED, get(store, "x"), &last);
    store_close(store);
}

/* The conditions of gs are of generations, and it compares them by itself. */
static void a_304_of_google_is_no_answer(void **state)
{
    (void)state;
    char url[128];
    struct store *store = NULL;
    setenv("GS_ACCESS_KEY_ID", "access", 1);
    setenv("GS_SECRET_ACCESS_KEY", "secret", 1);
    snprintf(url, sizeof url, "gs://unmodified-304?endpoint=http://127.0.0.1:%d", fake_port());
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &last), &last);
    assert_status(HF_UNAVAILABLE, get(store, ""), &last);
    assert_status(HF_UNAVAILABLE, get(store, "1"), &last);
    store_close(store);
}

/* The request for the rest of an object names the version that it must be of, and no other. */
static void a_304_is_no_rest_of_an_object(void **state)
{
    (void)state;
    struct store *store = fake_open("unmodified-rest", "");
    int fd = scratch_file();
    struct get_call call = { .key = VIEW("k") };
    etag_set(&call.none_match, VIEW("y"));
    assert_status(HF_UNAVAILABLE, store_get_file(store, &call, fd, NULL), &call.error);
    close(fd);
    store_close(store);
}

static void etags_cannot_smuggle_headers(void **state)
{
    (void)state;
    struct store *store = fake_open("strange-headers", "");
    struct buffer body = BUFFER_INIT(100);
    struct get_call call = { .key = VIEW("k"), .body = &body };
    etag_set(&call.match, VIEW("x\"\r\nX-Injected: yes\r\nX-Rest: \""));
    assert_int_equal(store_get(store, &call), HF_INVALID);
    call.none_match = call.match;
    call.match.size = 0;
    assert_int_equal(store_get(store, &call), HF_INVALID);
    buffer_release(&body);
    store_close(store);
}

static void an_etag_is_one_version(void **state)
{
    (void)state;
    struct store *store = fake_open("plain", "&etag=bare");
    static const char *const texts[] = { "*", "\"a\", \"b\"", "a\", \"b", "a\r\nb" };
    fake_reset();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct etag etag;
        assert_true(etag_set(&etag, view_of(texts[i])));
        assert_status(HF_INVALID, put(store, "k", if_match(&etag)), &last);
    }
    assert_int_equal(fake_seen("PUT", "plain"), 0);
    store_close(store);
}

/* ---- Listings ------------------------------------------------------------------------ */

/* Lists page by page, `max` names at a time; the names, each with a comma behind it. */
static enum hf_status list_names(struct store *store, struct list_call call, char *names,
                                 size_t size)
{
    char after[64];
    size_t used = 0, max = call.max;
    for (bool more = true; more;) {
        call.max = max;
        if (store_list(store, &call) != HF_OK) {
            last = call.error;
            return last.status;
        }
        for (size_t i = 0; i < call.count && used < size; i++)
            used += (size_t)snprintf(names + used, size - used, "%.*s,",
                                     VIEW_ARGS(call.entries[i].key));
        more = call.more;
        if (more) {
            snprintf(after, sizeof after, "%.*s", VIEW_ARGS(call.entries[call.count - 1].key));
            call.after = view_of(after);
        }
        list_release(&call);
    }
    return HF_OK;
}

static void pages_of_any_size_show_all(void **state)
{
    (void)state;
    struct store *store = fake_open("folders/p", "");
    for (size_t max = 1; max <= 5; max++) {
        char names[200] = "";
        struct list_call call = { .max = max };
        assert_status(HF_OK, list_names(store, call, names, sizeof names), &last);
        assert_string_equal(names, "a,b/1,b/2,c,");
        names[0] = '\0';
        call.delimiter = VIEW("/");
        assert_status(HF_OK, list_names(store, call, names, sizeof names), &last);
        assert_string_equal(names, "a,b/,c,");
        names[0] = '\0';
        call.after = VIEW("b/1"); /* in the middle of a group */
        assert_status(HF_OK, list_names(store, call, names, sizeof names), &last);
        assert_string_equal(names, "c,");
    }
    store_close(store);
}

static void short_pages_are_put_together(void **state)
{
    (void)state;
    struct store *store = fake_open("short-pages", "");
    char *names = calloc(1, 4 * KIB);
    assert_status(HF_OK, list_names(store, (struct list_call){ 0 }, names, 4 * KIB), &last);
    assert_int_equal(strlen(names), 200 * 5);
    free(names);
    store_close(store);
}

static void another_order_is_not_hidden(void **state)
{
    (void)state;
    struct store *store = fake_open("unordered", "");
    char names[100];
    assert_int_equal(list_names(store, (struct list_call){ 0 }, names, sizeof names),
                     HF_CORRUPT);
    assert_non_null(strstr(last.why, "order"));
    store_close(store);
}

/* ---- The probe ----------------------------------------------------------------------- */

static void any_rule_that_is_on_is_seen(void **state)
{
    (void)state;
    struct store *store = fake_open("rules", "");
    struct probe_report report = { .count = 0 };
    store->ops->inspect(store, (struct mono_time){ 0 }, &report);
    bool warned = false;
    for (size_t i = 0; i < report.count; i++)
        if (strcmp(report.findings[i].what, "lifecycle rules") == 0)
            warned = report.findings[i].verdict == HF_FINDING_WARNING;
    assert_true(warned);
    store_close(store);
}

/* What a request without an answer says of conditional uploads is not kept for other clients. */
static void an_unanswered_question_is_asked_again(void **state)
{
    (void)state;
    struct hf_error error;
    unsigned puts[4];
    fake_reset();
    for (size_t i = 0; i < 4; i++) {
        puts[i] = fake_seen("PUT", "late-uploads");
        struct store *store = fake_open("late-uploads", "");
        assert_status(HF_OK, bucket_check(store, BUCKET_LOCKS, &error), &error);
        assert_int_equal(store->traits.put_file_conditional, i > 0);
        store_close(store);
    }
    assert_true(puts[2] > puts[1] + 10); /* probed again */
    assert_int_equal(puts[3], puts[2]);  /* and kept */
}

static void a_store_without_uploads_has_answered(void **state)
{
    (void)state;
    static const char *const buckets[] = { "not-implemented", "plain" };
    for (size_t i = 0; i < 2; i++) {
        struct store *store = fake_open(buckets[i], "");
        struct probe_report report = { .count = 0 };
        store->ops->inspect(store, (struct mono_time){ 0 }, &report);
        assert_false(report.unanswered || report.traits.put_file_conditional);
        store_close(store);
    }
}

static void the_settings_are_asked_for_until_the_deadline(void **state)
{
    (void)state;
    struct store *store = fake_open("slow", "&timeout=2s");
    struct probe_report report = { .count = 0 };
    struct mono_time start = env_now(env_real());
    store->ops->inspect(store, mono_add(start, SPAN_MS(100)), &report);
    assert_true(report.unanswered);
    /* One request removes what may have been put. */
    assert_true(mono_since(env_now(env_real()), start).us < SPAN_S(5).us);
    store_close(store);
}

static struct hf_error swap(struct store *store)
{
    struct put_call first = { .key = VIEW("doc"), .body = VIEW("1") };
    assert_status(HF_OK, store_put(store, &first), &first.error);
    struct put_call second = { .key = VIEW("doc"),
                               .body = VIEW("2"),
                               .condition = if_match(&first.etag) };
    store_put(store, &second);
    return second.error;
}

static void a_saved_form_of_etags_is_used(void **state)
{
    (void)state;
    static const char *const buckets[] = { "plain", "bare-only" };
    for (size_t i = 0; i < 2; i++) {
        fake_reset();
        struct store *store = fake_open(buckets[i], "");
        struct hf_error error;
        assert_status(HF_OK, bucket_check(store, BUCKET_LOCKS, &error), &error);
        store_close(store);
        /* Another one, and through a wrapper. */
        struct meter meter;
        struct store *wrapped = NULL;
        meter_init(&meter, env_real());
        assert_status(HF_OK,
                      store_observe(fake_open(buckets[i], ""), meter_observer(&meter), &wrapped,
                                    &error),
                      &error);
        unsigned gets = fake_seen("GET", buckets[i]), puts = fake_seen("PUT", buckets[i]);
        assert_status(HF_OK, bucket_check(wrapped, BUCKET_LOCKS, &error), &error);
        assert_int_equal(fake_seen("GET", buckets[i]), gets + 2); /* with the settings */
        error = swap(wrapped);
        assert_status(HF_OK, error.status, &error);
        assert_int_equal(fake_seen("PUT", buckets[i]), puts + 2);
        store_close(wrapped);
        meter_release(&meter);
    }
}

/* What it can do is known to whoever opens it next, by one get; and it is asked anew once the
 * bucket keeps versions, which on some stores is the end of conditions. */
static void a_verdict_is_of_one_state_of_versions(void **state)
{
    (void)state;
    struct hf_error error;
    unsigned puts[4];
    fake_reset();
    for (size_t i = 0; i < 4; i++) {
        struct store *store = fake_open("plain", "");
        assert_false(store->traits.delete_conditional);
        assert_status(HF_OK, bucket_check(store, BUCKET_LOCKS, &error), &error);
        assert_true(store->traits.delete_conditional);
        if (i == 1) {
            struct put_call on = { .key = VIEW("versions-on"), .body = VIEW("1") };
            assert_status(HF_OK, store_put(store, &on), &on.error);
        }
        puts[i] = fake_seen("PUT", "plain");
        store_close(store);
    }
    assert_int_equal(puts[1], puts[0] + 1); /* the one above, and no probe */
    assert_true(puts[2] > puts[1] + 10);    /* which is probed again, once */
    assert_int_equal(puts[3], puts[2]);
    fake_reset();
}

/* The reply has no length, so it is read again from the start. */
static void a_shorter_object_leaves_no_old_bytes(void **state)
{
    (void)state;
    static char longer[100000];
    int fd = memfd_create("object", MFD_CLOEXEC);
    struct store *store = fake_open("shrinking", "");
    struct put_call first = { .key = VIEW("k"), .body = { longer, sizeof longer } };
    struct get_call call = { .key = VIEW("k") };
    fake_reset();
    assert_status(HF_OK, store_put(store, &first), &first.error);
    assert_status(HF_OK, store_get_file(store, &call, fd, NULL), &call.error);
    assert_int_equal(call.info.size, 5);
    assert_int_equal(lseek(fd, 0, SEEK_END), 5);
    close(fd);
    store_close(store);
}

/* libcurl repeats the URL of a proxy that it does not understand. */
static void a_mistaken_proxy_is_not_repeated(void **state)
{
    (void)state;
    static const char *const mistaken[] = {
        "http://me:proxy-password#1@127.0.0.1:1",    "http://me:12/proxy-password@127.0.0.1:1",
        "http://me:12@proxy-password#1@127.0.0.1:1", "ftp://me:proxy-password@127.0.0.1:1",
        "http://me:proxy-password@127.0.0.1:port",
    };
    for (size_t i = 0; i < sizeof mistaken / sizeof mistaken[0]; i++) {
        setenv("http_proxy", mistaken[i], 1);
        struct store *store = fake_open("plain", "");
        assert_status(HF_UNAVAILABLE, put(store, "k", if_absent()), &last);
        assert_null(strstr(last.why, "proxy-password"));
        assert_non_null(strstr(last.why, "the proxy in the environment"));
        store_close(store);
    }
    unsetenv("http_proxy");
}

static struct store *open_for_locks(const char *bucket)
{
    struct hf_error error;
    struct store *store = fake_open(bucket, "");
    assert_status(HF_OK, bucket_check(store, BUCKET_LOCKS, &error), &error);
    return store;
}

/* The document with the verdict is older than the versions of the bucket, so it has none. */
static void the_first_write_shows_versions(void **state)
{
    (void)state;
    static const struct {
        struct condition condition;
        enum hf_status status;
    } rows[] = { { { CONDITION_ABSENT }, HF_UNSURE }, { { CONDITION_ALWAYS }, HF_OK } };
    fake_reset();
    struct store *early[2] = { open_for_locks("late-versions"),
                               open_for_locks("late-versions") };
    struct store *other = fake_open("late-versions", "");
    assert_status(HF_OK, put(other, "before", if_absent()), &last);
    assert_status(HF_OK, put(other, "switch", if_absent()), &last);
    for (size_t i = 0; i < 4; i++) {
        struct store *store = i < 2 ? early[i] : open_for_locks("late-versions");
        struct buffer body = BUFFER_INIT(100);
        struct get_call get = { .key = VIEW("before"), .body = &body };
        assert_status(HF_OK, store_get(store, &get), &get.error);
        assert_status(rows[i % 2].status, put(store, "k", rows[i % 2].condition), &last);
        assert_status(HF_UNSUPPORTED, put(store, "k", rows[i % 2].condition), &last);
        assert_non_null(strstr(last.why, "keeps versions now"));
        assert_status(HF_UNSUPPORTED, store_get(store, &get), &get.error);
        buffer_release(&body);
        store_close(store);
    }
    /* A client that relies on no verdict is as free as before. */
    assert_status(HF_OK, put(other, "k", if_absent()), &last);
    assert_status(HF_OK, put(other, "k", if_absent()), &last);
    store_close(other);
}

/* Replies that refuse a write name no version. */
static void refused_writes_have_the_settings_asked(void **state)
{
    (void)state;
    struct mono_time soon = mono_add(env_now(env_real()), SPAN_S(10));
    fake_reset();
    struct store *store = open_for_locks("refusing-versions");
    struct hf_error error = swap(store);
    assert_status(HF_OK, error.status, &error);
    store_doubt(store, soon); /* in vain: it keeps none */
    error = swap(store);
    assert_status(HF_OK, error.status, &error);
    assert_status(HF_OK, put(store, "switch", if_absent()), &last);
    assert_status(HF_OK, put(store, "secret", if_absent()), &last);
    assert_int_equal(swap(store).status, HF_CONFLICT);
    store_doubt(store, soon); /* that is not permitted */
    assert_int_equal(swap(store).status, HF_CONFLICT);
    struct delete_call removal = { .key = VIEW("secret") };
    assert_status(HF_OK, store_delete(store, &removal), &removal.error);
    store_doubt(store, soon);
    unsigned gets = fake_seen("GET", "refusing-versions");
    assert_status(HF_UNSUPPORTED, put(store, "k", if_absent()), &last);
    assert_non_null(strstr(last.why, "keeps versions now"));
    store_doubt(store, soon); /* it is known */
    assert_int_equal(fake_seen("GET", "refusing-versions"), gets);
    store_close(store);
}

/* A lock that is held when the bucket begins to keep versions cannot be released. */
static void a_release_ends_when_versions_begin(void **state)
{
    (void)state;
    char url[128];
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_error error;
    snprintf(url, sizeof url, "s3://refusing-versions?endpoint=http://127.0.0.1:%d",
             fake_port());
    fake_reset();
    assert_status(HF_OK, hf_client_open(url, NULL, &client, &error), &error);
    assert_status(HF_OK, hf_lock_new(client, "job", NULL, &lock, &error), &error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &error), &error);
    struct store *other = fake_open("refusing-versions", "");
    assert_status(HF_OK, put(other, "switch", if_absent()), &last);
    store_close(other);
    unsigned gets = fake_seen("GET", "refusing-versions");
    unsigned puts = fake_seen("PUT", "refusing-versions");
    assert_int_equal(hf_lock_release(lock, &error), HF_UNSURE);
    assert_non_null(strstr(error.why, "keeps versions now"));
    hf_lock_free(lock);
    hf_client_close(client);
    /* Each of the two puts is followed by a load, and then the settings are asked for. */
    assert_int_equal(fake_seen("GET", "refusing-versions"), gets + 3);
    assert_int_equal(fake_seen("PUT", "refusing-versions"), puts + 2);
    fake_reset();
}

static void the_settings_show_versions(void **state)
{
    (void)state;
    struct hf_error error;
    fake_reset();
    store_close(open_for_locks("told-versions"));
    store_close(open_for_locks("told-versions"));
    struct store *other = fake_open("told-versions", "");
    assert_status(HF_OK, put(other, "switch", if_absent()), &last);
    store_close(other);
    unsigned gets = 0, puts = 0;
    for (size_t i = 0; i < 2; i++) {
        struct store *store = fake_open("told-versions", "");
        gets = fake_seen("GET", "told-versions");
        puts = fake_seen("PUT", "told-versions");
        assert_status(HF_UNSUPPORTED, bucket_check(store, BUCKET_LOCKS, &error), &error);
        assert_non_null(strstr(error.why, "put if absent"));
        store_close(store);
    }
    assert_int_equal(fake_seen("GET", "told-versions"), gets + 1); /* the first was kept */
    assert_int_equal(fake_seen("PUT", "told-versions"), puts);
}

static void take_once(struct hf_client *client, const char *name)
{
    struct hf_lock *lock;
    struct hf_error error;
    assert_status(HF_OK, hf_lock_new(client, name, NULL, &lock, &error), &error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &error), &error);
    assert_status(HF_OK, hf_lock_release(lock, &error), &error);
    hf_lock_free(lock);
}

/* Opening costs one get, and one for the settings, once there is a verdict, which also switches on
 * what the store can do. */
static void tables_are_born_in_two_writes_and_purged(void **state)
{
    (void)state;
    char url[128];
    struct hf_client *client;
    struct hf_error error;
    snprintf(url, sizeof url, "s3://plain?endpoint=http://127.0.0.1:%d", fake_port());
    fake_reset();
    assert_status(HF_OK, hf_client_open(url, NULL, &client, &error), &error);
    take_once(client, "first"); /* makes the epoch of the namespace */
    hf_client_close(client);

    unsigned gets = fake_seen("GET", "plain"), puts = fake_seen("PUT", "plain");
    assert_status(HF_OK, hf_client_open(url, NULL, &client, &error), &error);
    assert_int_equal(fake_seen("GET", "plain"), gets + 2);
    assert_int_equal(fake_seen("PUT", "plain"), puts);
    struct hf_lock *lock;
    assert_status(HF_OK, hf_lock_new(client, "job", NULL, &lock, &error), &error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &error), &error);
    assert_int_equal(fake_seen("PUT", "plain"), puts + 2);
    assert_int_equal(fake_seen("GET", "plain"), gets + 4); /* the table, then the epoch */
    assert_status(HF_OK, hf_lock_release(lock, &error), &error);
    hf_lock_free(lock);

    struct buffer body = BUFFER_INIT(MIB);
    struct get_call get = { .key = VIEW("default/meta/job.json"), .body = &body };
    assert_status(HF_OK, client_get(client, &get), &get.error);
    struct etag other = get.info.etag;
    other.data[0] ^= 1;
    assert_status(HF_CONFLICT, table_purge(client, get.key, &other, &error), &error);
    assert_status(HF_OK, table_purge(client, get.key, &get.info.etag, &error), &error);
    buffer_clear(&body);
    assert_status(HF_NOT_FOUND, client_get(client, &get), &get.error);
    buffer_release(&body);
    hf_client_close(client);
    fake_reset();
}

/* ---- Credentials that do not come ---------------------------------------------------- */

static struct store *open_without_keys(const char *parameters)
{
    char uri[80];
    snprintf(uri, sizeof uri, "http://127.0.0.1:%d/slow", fake_port());
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/a", 1);
    setenv("AWS_CONFIG_FILE", "/nonexistent/b", 1);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri, 1);
    return fake_open("plain", parameters);
}

static void restore_keys(void)
{
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    setenv("AWS_ACCESS_KEY_ID", "access", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
}

static void those_who_wait_for_keys_fail_together(void **state)
{
    (void)state;
    struct store *store = open_without_keys("&connections=8");
    struct put_call calls[8];
    struct mono_time start = env_now(env_real());
    fake_reset();
    for (int i = 0; i < 8; i++)
        calls[i] = (struct put_call){ .key = VIEW("k"), .body = VIEW("x") };
    assert_int_equal(store_put_many(store, calls, 8), HF_UNAVAILABLE);
    assert_true(mono_since(env_now(env_real()), start).us < SPAN_S(6).us);
    assert_true(fake_seen("GET", "slow") <= 2);
    assert_null(strstr(calls[0].error.why, "cannot reach"));
    assert_non_null(strstr(calls[0].error.why, "container"));
    store_close(store);
    restore_keys();
}

static void a_deadline_holds_for_keys_too(void **state)
{
    (void)state;
    struct store *store = open_without_keys("");
    struct mono_time start = env_now(env_real());
    struct put_call call = { .key = VIEW("k"),
                             .body = VIEW("x"),
                             .deadline = mono_add(start, SPAN_MS(200)) };
    assert_int_equal(store_put(store, &call), HF_UNAVAILABLE);
    assert_true(mono_since(env_now(env_real()), start).us < SPAN_S(1).us);
    store_close(store);
    restore_keys();
}

static void passwords_are_not_repeated(void **state)
{
    (void)state;
    struct store *store = NULL;
    struct hf_error error;
    assert_int_equal(store_open(env_real(),
                                VIEW("s3://bucket?endpoint=http://user:hunter2@host"), &store,
                                &error),
                     HF_INVALID);
    assert_null(strstr(error.why, "hunter2"));
}

static void hosts_of_aws_are_named(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "s3://bucket?region=eu-west-1", "s3 https://bucket.s3.eu-west-1.amazonaws.com" },
        { "s3://bucket?region=eu-west-1&style=path",
          "s3 https://s3.eu-west-1.amazonaws.com/bucket" },
        { "s3://bucket?region=eu-west-1&dualstack=on",
          "s3 https://bucket.s3.dualstack.eu-west-1.amazonaws.com" },
        { "s3://my.bucket?region=cn-north-1&dualstack=on",
          "s3 https://s3.dualstack.cn-north-1.amazonaws.com.cn/my.bucket" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store *store = NULL;
        struct hf_error error;
        struct buffer text = BUFFER_INIT(KIB);
        assert_status(HF_OK, store_open(env_real(), view_of(rows[i][0]), &store, &error),
                      &error);
        assert_true(store_identify(store, &text));
        buffer_append_byte(&text, '\0');
        assert_string_equal(text.data, rows[i][1]);
        buffer_release(&text);
        store_close(store);
    }
}

static int set_up(void **state)
{
    (void)state;
    restore_keys();
    fake_start();
    return 0;
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
        IT("a put that is refused in an odd form has a status of a put", odd_refusals_of_a_put),
        IT("a delete that failed under an unknown name is nobody's success",
           a_failure_under_an_unknown_name_is_nobodys_success),
        IT("below a prefix that XML cannot carry, objects are deleted one by one",
           a_prefix_that_xml_cannot_carry),
        IT("a range that is not the one asked for is corrupt", ranges_are_checked),
        IT("a store that is silent ends a stream after its time-out",
           a_silent_store_ends_a_stream_in_time),
        IT("a stream can be stopped while nothing moves",
           a_stream_can_be_stopped_while_it_stands_still),
        IT("not modified is an answer only to a read that named a version",
           a_304_counts_only_for_a_comparison),
        IT("not modified is no answer of Google at all", a_304_of_google_is_no_answer),
        IT("not modified is no answer to a request for the rest of an object",
           a_304_is_no_rest_of_an_object),
        IT("an ETag with line breaks is never sent", etags_cannot_smuggle_headers),
        IT("what If-Match takes for any version, or for several, is no ETag",
           an_etag_is_one_version),
        IT("pages of any size show all names, once", pages_of_any_size_show_all),
        IT("pages shorter than asked for are put together", short_pages_are_put_together),
        IT("a listing in another order is corrupt, not sorted in silence",
           another_order_is_not_hidden),
        IT("the probe warns of any lifecycle rule that is on, not of the first only",
           any_rule_that_is_on_is_seen),
        IT("what a request without an answer says of uploads is not kept, and asked again",
           an_unanswered_question_is_asked_again),
        IT("a store that says that it has no uploads has answered",
           a_store_without_uploads_has_answered),
        IT("the settings of a bucket are asked for until the deadline of the probe",
           the_settings_are_asked_for_until_the_deadline),
        IT("the form of ETags that a probe has written down is not sought again",
           a_saved_form_of_etags_is_used),
        IT("a verdict counts as long as the bucket does or does not keep versions",
           a_verdict_is_of_one_state_of_versions),
        IT("if a shorter version is read after all, no byte of the longer one stays in the "
           "file",
           a_shorter_object_leaves_no_old_bytes),
        IT("the URL of a proxy that libcurl does not understand is not repeated",
           a_mistaken_proxy_is_not_repeated),
        IT("if a bucket begins to keep versions, the first write shows it and nothing follows",
           the_first_write_shows_versions),
        IT("if conditions are refused although they hold, the settings are asked for versions",
           refused_writes_have_the_settings_asked),
        IT("a lock that is held when versions begin is released by a few requests, and UNSURE",
           a_release_ends_when_versions_begin),
        IT("if a bucket keeps versions and may be asked, a verdict from before does not count",
           the_settings_show_versions),
        IT("on S3 a table is born in two writes, and can be purged",
           tables_are_born_in_two_writes_and_purged),
        IT("those who wait for credentials that do not come fail together",
           those_who_wait_for_keys_fail_together),
        IT("a deadline holds while credentials are fetched", a_deadline_holds_for_keys_too),
        IT("an error never repeats a password", passwords_are_not_repeated),
        IT("the hosts of AWS are named by region, style and dual stack",
           hosts_of_aws_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
