/* SPDX-License-Identifier: Apache-2.0 */
/* s3_fake_test.c: how the s3 store handles what a healthy gateway never does: half a reply, a
 * cut connection, throttling, foreign pages, endless listings. Each row of the first table is
 * one behaviour of the fake server, and the required result of each kind of call. */
#include "alloc.h"
#include "s3_fake.h"
#include "store/s3/s3.h"
#include "test.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BODY_MAX (256 * KIB)

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

static enum hf_status get(struct store *store, const char *key)
{
    struct buffer body = BUFFER_INIT(BODY_MAX);
    struct get_call call = { .key = view_of(key), .body = &body };
    store_get(store, &call);
    buffer_release(&body);
    last = call.error;
    return last.status;
}

static enum hf_status list(struct store *store, struct view prefix)
{
    struct list_call call = { .prefix = prefix };
    store_list(store, &call);
    list_release(&call);
    last = call.error;
    return last.status;
}

static enum hf_status remove_key(struct store *store, const char *key)
{
    struct delete_call call = { .key = view_of(key) };
    store_delete(store, &call);
    last = call.error;
    return last.status;
}

/* ---- One row a behaviour ------------------------------------------------------------- */

struct row {
    const char *bucket;
    const char *parameters;
    enum hf_status put;
    enum hf_status put_absent;
    enum hf_status get;
    enum hf_status removal;
    unsigned
        puts_seen;    /* of the two puts; each may arrive once only, unless it was undecided */
    const char *says; /* in the reason of the get; NULL: anything */
};

static const struct row rows[] = {
    { "silent", "", HF_UNSURE, HF_UNSURE, HF_UNAVAILABLE, HF_UNSURE, 2, "cannot reach" },
    { "half-reply", "", HF_UNSURE, HF_UNSURE, HF_UNAVAILABLE, HF_UNSURE, 2, NULL },
    { "trailers", "", HF_OK, HF_OK, HF_OK, HF_OK, 2, NULL },
    { "endless", "", HF_OK, HF_OK, HF_CORRUPT, HF_OK, 2, "without a length" },
    { "half-refusal", "", HF_UNSURE, HF_UNSURE, HF_UNAVAILABLE, HF_UNSURE, 2, NULL },
    { "slow", "&timeout=200ms", HF_UNSURE, HF_UNSURE, HF_UNAVAILABLE, HF_UNSURE, 2, NULL },
    { "drip", "&timeout=200ms", HF_UNSURE, HF_UNSURE, HF_UNAVAILABLE, HF_UNSURE, 2, NULL },
    { "always-500", "", HF_UNSURE, HF_UNSURE, HF_UNAVAILABLE, HF_UNSURE, 2,
      "500 InternalError" },
    { "not-implemented", "", HF_UNSURE, HF_UNSURE, HF_UNSUPPORTED, HF_UNSURE, 2,
      "NotImplemented" },
    { "throttled-429", "", HF_UNAVAILABLE, HF_UNAVAILABLE, HF_UNAVAILABLE, HF_UNAVAILABLE, 2,
      "429" },
    { "conflict-409", "", HF_UNAVAILABLE, HF_CONFLICT, HF_UNAVAILABLE, HF_UNAVAILABLE, 7,
      NULL },
    { "gone-404", "", HF_UNAVAILABLE, HF_CONFLICT, HF_NOT_FOUND, HF_OK, 2, "no such object" },
    { "no-bucket", "", HF_INVALID, HF_INVALID, HF_INVALID, HF_INVALID, 2, "create it" },
    { "not-s3", "", HF_UNAVAILABLE, HF_UNAVAILABLE, HF_UNAVAILABLE, HF_UNAVAILABLE, 2,
      "not from S3" },
    { "denied", "", HF_DENIED, HF_DENIED, HF_DENIED, HF_DENIED, 2, "policies" },
    { "bad-key", "", HF_DENIED, HF_DENIED, HF_DENIED, HF_DENIED, 2, "AWS_ACCESS_KEY_ID" },
    { "bad-secret", "", HF_DENIED, HF_DENIED, HF_DENIED, HF_DENIED, 2,
      "AWS_SECRET_ACCESS_KEY" },
    { "bad-digest", "", HF_UNAVAILABLE, HF_UNAVAILABLE, HF_UNAVAILABLE, HF_UNAVAILABLE, 2,
      "damaged" },
    { "big-error", "", HF_DENIED, HF_DENIED, HF_DENIED, HF_DENIED, 2, "403" },
    { "big-answer", "", HF_UNSURE, HF_UNSURE, HF_INVALID, HF_UNSURE, 2, "more than" },
    { "redirect", "", HF_INVALID, HF_INVALID, HF_INVALID, HF_INVALID, 2, "b.s3.example.com" },
    { "other-region", "", HF_INVALID, HF_INVALID, HF_INVALID, HF_INVALID, 2,
      "put region=eu-central-1 into the URL" },
    { "malformed-region", "", HF_INVALID, HF_INVALID, HF_INVALID, HF_INVALID, 2,
      "put region=eu-west-1 into the URL" },
    { "no-etag", "", HF_UNSURE, HF_UNSURE, HF_CORRUPT, HF_OK, 2, "without an ETag" },
};

static void expect(const struct row *row, const char *what, enum hf_status wanted)
{
    if (last.status != wanted)
        fail_msg("%s of '%s': %s, expected %s: %s", what, row->bucket,
                 hf_status_name(last.status), hf_status_name(wanted), last.why);
    if (wanted != HF_OK && last.why[0] == '\0')
        fail_msg("%s of '%s' gives no reason", what, row->bucket);
}

static void statuses_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        struct store *store = fake_open(row->bucket, row->parameters);
        fake_reset();
        put(store, "key", (struct condition){ 0 });
        expect(row, "put", row->put);
        put(store, "key", if_absent());
        expect(row, "put if absent", row->put_absent);
        assert_int_equal(fake_seen("PUT", row->bucket), row->puts_seen);
        remove_key(store, "key");
        expect(row, "delete", row->removal);
        assert_int_equal(fake_seen("DELETE", row->bucket), 1);
        get(store, "key");
        expect(row, "get", row->get);
        if (row->says && !strstr(last.why, row->says))
            fail_msg("get of '%s' says '%s', not '%s'", row->bucket, last.why, row->says);
        store_close(store);
    }
}

/* ---- Sizes --------------------------------------------------------------------------- */

static void trailers_say_nothing(void **state)
{
    (void)state;
    struct store *store = fake_open("trailers", "");
    struct buffer body = BUFFER_INIT(BODY_MAX);
    struct get_call call = { .key = VIEW("k"), .body = &body };
    assert_status(HF_OK, store_get(store, &call), &call.error);
    assert_true(view_equal(buffer_view(&body), VIEW("hello")));
    assert_true(view_equal(etag_view(&call.info.etag), VIEW("right")));
    assert_int_equal(call.info.size, 5);
    struct put_call write = { .key = VIEW("k"), .body = VIEW("x"), .condition = if_absent() };
    assert_status(HF_OK, store_put(store, &write), &write.error);
    assert_true(view_equal(etag_view(&write.etag), VIEW("right")));
    buffer_release(&body);
    store_close(store);
}

/* Those who can do without the bytes go by the size. */
static void too_large_is_told_with_its_size(void **state)
{
    (void)state;
    static const char *const buckets[] = { "large", "large-in-chunks" };
    for (size_t i = 0; i < 2; i++) {
        struct store *store = fake_open(buckets[i], "&timeout=5s");
        struct buffer body = BUFFER_INIT(BODY_MAX);
        struct get_call call = { .key = VIEW("k"), .body = &body };
        assert_status(HF_INVALID, store_get(store, &call), &call.error);
        assert_true(call.info.size > BODY_MAX);
        assert_true(view_equal(etag_view(&call.info.etag), VIEW("x")));
        buffer_release(&body);
        store_close(store);
    }
}

/* ---- Writes -------------------------------------------------------------------------- */

static void a_put_is_never_sent_twice(void **state)
{
    (void)state;
    struct store *store = fake_open("stale", "");
    fake_reset();
    assert_status(HF_OK, put(store, "a", (struct condition){ 0 }), &last);
    /* The kept connection now dies under the next request, of each kind in turn. */
    assert_int_equal(put(store, "b", if_absent()), HF_UNSURE);
    assert_int_equal(fake_seen("PUT", "stale"), 2);
    assert_status(HF_OK, put(store, "c", (struct condition){ 0 }), &last);
    assert_int_equal(remove_key(store, "a"), HF_UNSURE);
    assert_int_equal(fake_seen("DELETE", "stale"), 1);
    assert_status(HF_OK, put(store, "d", (struct condition){ 0 }), &last);
    struct put_call empty = { .key = VIEW("e"), .body = VIEW("") };
    assert_int_equal(store_put(store, &empty), HF_UNSURE);
    assert_int_equal(fake_seen("PUT", "stale"), 5);
    /* A get may be sent again, and is. */
    assert_status(HF_OK, put(store, "f", (struct condition){ 0 }), &last);
    assert_status(HF_OK, get(store, "f"), &last);
    assert_int_equal(fake_seen("GET", "stale"), 2);
    store_close(store);
}

static void a_body_cut_on_its_way_is_unsure(void **state)
{
    (void)state;
    struct store *store = fake_open("cut-mid-body", "");
    char *body = calloc(1, 4 * MIB);
    struct put_call call = { .key = VIEW("k"), .body = { body, 4 * MIB } };
    fake_reset();
    assert_int_equal(store_put(store, &call), HF_UNSURE);
    assert_int_equal(fake_seen("PUT", "cut-mid-body"), 1);
    free(body);
    store_close(store);
}

static void nothing_listens(void **state)
{
    (void)state;
    struct store *store = NULL;
    struct hf_error error;
    assert_status(HF_OK,
                  store_open(env_real(), VIEW("s3://bucket?endpoint=http://127.0.0.1:1"),
                             &store, &error),
                  &error);
    assert_int_equal(put(store, "k", if_absent()), HF_UNAVAILABLE);
    assert_non_null(strstr(last.why, "http://127.0.0.1:1"));
    assert_int_equal(remove_key(store, "k"), HF_UNAVAILABLE);
    assert_int_equal(get(store, "k"), HF_UNAVAILABLE);
    assert_int_equal(list(store, VIEW("")), HF_UNAVAILABLE);
    store_close(store);
}

static void a_time_out_ends_in_time(void **state)
{
    (void)state;
    struct store *store = fake_open("slow", "&timeout=30s");
    struct mono_time start = env_now(env_real());
    struct put_call call = { .key = VIEW("k"),
                             .body = VIEW("x"),
                             .deadline = mono_add(start, SPAN_MS(300)) };
    assert_int_equal(store_put(store, &call), HF_UNSURE);
    assert_true(mono_since(env_now(env_real()), start).us < SPAN_S(2).us);
    /* A deadline that has passed already: nothing is sent. */
    fake_reset();
    call.deadline = start;
    assert_int_equal(store_put(store, &call), HF_UNAVAILABLE);
    assert_int_equal(fake_seen("PUT", "slow"), 0);
    store_close(store);
}

static void busy_connections_are_waited_for(void **state)
{
    (void)state;
    struct store *store = fake_open("slow", "&connections=1&timeout=500ms");
    struct put_call calls[3];
    fake_reset();
    for (int i = 0; i < 3; i++)
        calls[i] = (struct put_call){ .key = VIEW("k"), .body = VIEW("x") };
    assert_int_not_equal(store_put_many(store, calls, 3), HF_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(calls[i].error.status, HF_UNSURE);
    assert_int_equal(fake_seen("PUT", "slow"), 3);
    store_close(store);
}

/* ---- Reads --------------------------------------------------------------------------- */

static void an_undecided_write_is_sent_again(void **state)
{
    (void)state;
    struct store *store = fake_open("busy-409", "");
    fake_reset();
    assert_status(HF_OK, put(store, "k", if_absent()), &last);
    assert_int_equal(fake_seen("PUT", "busy-409"), 3);
    /* 412 is the store's decision. */
    assert_int_equal(put(store, "k", if_absent()), HF_CONFLICT);
    assert_int_equal(fake_seen("PUT", "busy-409"), 4);
    store_close(store);
}

static void throttled_reads_are_tried_again(void **state)
{
    (void)state;
    struct store *store = fake_open("slowdown", "");
    fake_reset();
    assert_int_equal(put(store, "k", (struct condition){ 0 }), HF_UNSURE);
    assert_int_equal(put(store, "k", (struct condition){ 0 }), HF_UNSURE);
    assert_status(HF_OK, put(store, "k", (struct condition){ 0 }), &last);
    assert_int_equal(fake_seen("PUT", "slowdown"), 3);
    assert_status(HF_OK, get(store, "k"), &last);
    assert_int_equal(fake_seen("GET", "slowdown"), 3);
    store_close(store);
}

#define LARGE (3 * MIB + 17)

static char *large_body(void)
{
    char *body = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        body[i] = (char)(i * 2654435761u >> 24);
    return body;
}

static void put_large(struct store *store, const char *body)
{
    struct put_call call = { .key = VIEW("k"), .body = { body, LARGE } };
    assert_status(HF_OK, store_put(store, &call), &call.error);
}

static void a_broken_body_is_read_again(void **state)
{
    (void)state;
    struct store *store = fake_open("flaky", "");
    char *expected = large_body();
    struct buffer body = BUFFER_INIT(LARGE + 10);
    struct get_call call = { .key = VIEW("k"), .body = &body };
    fake_reset();
    put_large(store, expected);
    buffer_append(&body, VIEW("before"));
    assert_status(HF_OK, store_get(store, &call), &call.error);
    assert_int_equal(body.size, LARGE + 6);
    assert_memory_equal(body.data, "before", 6);
    assert_memory_equal(body.data + 6, expected, LARGE);
    buffer_release(&body);
    free(expected);
    store_close(store);
}

static int scratch_file(void)
{
    char path[] = "/tmp/holdfast-fake-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

/* Reads an object into a file whose first reply breaks off. */
static void read_broken_file(const char *bucket)
{
    struct store *store = fake_open(bucket, "");
    char *expected = large_body();
    char *got = malloc(LARGE);
    int fd = scratch_file();
    struct get_call call = { .key = VIEW("k") };
    fake_reset();
    put_large(store, expected);
    assert_status(HF_OK, store_get_file(store, &call, fd, NULL), &call.error);
    assert_int_equal(fake_seen("GET", bucket), 2);
    assert_int_equal(lseek(fd, 0, SEEK_END), LARGE);
    assert_int_equal(pread(fd, got, LARGE, 0), LARGE);
    assert_memory_equal(got, expected, LARGE);
    assert_int_equal(call.info.size, LARGE);
    close(fd);
    free(got);
    free(expected);
    store_close(store);
}

static void a_broken_file_goes_on_where_it_broke(void **state)
{
    (void)state;
    read_broken_file("flaky");
}

static void a_file_that_breaks_off_behind_its_end_is_read_again(void **state)
{
    (void)state;
    read_broken_file("whole-but-broken");
}

static void two_objects_are_never_mixed(void **state)
{
    (void)state;
    struct store *store = fake_open("changing", "");
    char *expected = large_body();
    int fd = scratch_file();
    struct get_call call = { .key = VIEW("k") };
    fake_reset();
    put_large(store, expected);
    assert_int_not_equal(store_get_file(store, &call, fd, NULL), HF_OK);
    close(fd);
    free(expected);
    store_close(store);
}

static void a_cached_reply_tells_no_time(void **state)
{
    (void)state;
    struct store *store = fake_open("aged", "");
    struct buffer body = BUFFER_INIT(100);
    struct get_call call = { .key = VIEW("k"), .body = &body };
    assert_status(HF_OK, store_get(store, &call), &call.error);
    assert_true(call.stamp.cached);
    buffer_release(&body);
    store_close(store);
    store = fake_open("plain", "");
    struct put_call fresh = { .key = VIEW("k"), .body = VIEW("x") };
    assert_status(HF_OK, store_put(store, &fresh), &fresh.error);
    assert_true(fresh.stamp.known && !fresh.stamp.cached);
    assert_true(fresh.stamp.sent.us <= fresh.stamp.received.us);
    store_close(store);
}

/* ---- Listings ------------------------------------------------------------------------ */

static void bad_listings_are_corrupt(void **state)
{
    (void)state;
    static const char *const buckets[] = { "looping", "empty-pages", "cut-listing" };
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++) {
        struct store *store = fake_open(buckets[i], "");
        fake_reset();
        assert_int_equal(list(store, VIEW("")), HF_CORRUPT);
        assert_true(fake_seen("GET", buckets[i]) <= 3);
        store_close(store);
    }
    struct store *store = fake_open("foreign-keys", "");
    assert_int_equal(list(store, VIEW("mine/")), HF_CORRUPT);
    store_close(store);
}

/* ---- ETags --------------------------------------------------------------------------- */

static void swap_once(struct store *store)
{
    struct put_call first = { .key = VIEW("doc"), .body = VIEW("1") };
    assert_status(HF_OK, store_put(store, &first), &first.error);
    struct put_call second = { .key = VIEW("doc"),
                               .body = VIEW("2"),
                               .condition = if_match(&first.etag) };
    assert_status(HF_OK, store_put(store, &second), &second.error);
    struct put_call third = { .key = VIEW("doc"),
                              .body = VIEW("3"),
                              .condition = if_match(&first.etag) };
    assert_int_equal(store_put(store, &third), HF_CONFLICT);
}

static void the_form_of_etags_is_found_out(void **state)
{
    (void)state;
    static const struct {
        const char *bucket;
        enum s3_etag_form form;
        unsigned puts; /* three of ours, two or three to find out */
    } forms[] = { { "plain", S3_ETAG_QUOTED, 5 }, { "bare-only", S3_ETAG_BARE, 6 } };
    for (size_t i = 0; i < 2; i++) {
        struct store *store = fake_open(forms[i].bucket, "");
        fake_reset();
        swap_once(store);
        assert_true(s3_is(store));
        assert_int_equal(s3_etag_form(store), forms[i].form);
        assert_int_equal(fake_seen("PUT", forms[i].bucket), forms[i].puts);
        assert_int_equal(fake_seen("DELETE", forms[i].bucket), 1);
        store_close(store);
    }
    /* What is known need not be found out. */
    struct store *store = fake_open("bare-only", "&etag=bare");
    fake_reset();
    swap_once(store);
    assert_int_equal(fake_seen("PUT", "bare-only"), 3);
    store_close(store);
}

static void a_store_that_takes_no_etag_is_refused(void **state)
{
    (void)state;
    struct store *store = fake_open("never-matches", "");
    struct put_call first = { .key = VIEW("doc"), .body = VIEW("1") };
    assert_status(HF_OK, store_put(store, &first), &first.error);
    assert_int_equal(put(store, "doc", if_match(&first.etag)), HF_UNSUPPORTED);
    store_close(store);
}

/* ---- Uploads and deletes ------------------------------------------------------------- */

static enum hf_status put_large_file(struct store *store, const char *key,
                                     struct etag *ret_etag)
{
    int fd = scratch_file();
    assert_int_equal(ftruncate(fd, 65 * (off_t)MIB), 0);
    struct put_call call = { .key = view_of(key) };
    enum hf_status status = store_put_file(store, &call, fd, NULL);
    *ret_etag = call.etag;
    close(fd);
    return status;
}

static void uploads_end_whole_or_are_aborted(void **state)
{
    (void)state;
    struct store *store = fake_open("uploads", "");
    struct etag etag;
    fake_reset();
    assert_int_equal(put_large_file(store, "good", &etag), HF_OK);
    assert_true(view_equal(etag_view(&etag), VIEW("whole-1")));
    assert_int_equal(fake_seen("PUT", "uploads"), 5);
    assert_int_equal(fake_seen("DELETE", "uploads"), 0);
    assert_int_equal(put_large_file(store, "part", &etag), HF_INVALID);
    assert_int_equal(fake_seen("DELETE", "uploads"), 1);
    assert_int_equal(put_large_file(store, "refuse", &etag), HF_INVALID);
    assert_int_equal(fake_seen("DELETE", "uploads"), 2);
    /* It may have ended well after all: not aborted. */
    assert_int_equal(put_large_file(store, "complete", &etag), HF_UNSURE);
    assert_int_equal(fake_seen("DELETE", "uploads"), 2);
    store_close(store);
}

static void many_deletes_are_one_request(void **state)
{
    (void)state;
    struct delete_call calls[4] = { { .key = VIEW("a") },
                                    { .key = VIEW("kept") },
                                    { .key = VIEW("b\x01") },
                                    { .key = VIEW("c") } };
    struct store *store = fake_open("deletes", "");
    fake_reset();
    assert_int_equal(store_delete_many(store, calls, 4), HF_DENIED);
    assert_int_equal(calls[0].error.status, HF_OK);
    assert_int_equal(calls[1].error.status, HF_DENIED);
    assert_int_equal(calls[2].error.status, HF_OK);
    assert_int_equal(calls[3].error.status, HF_OK);
    assert_int_equal(fake_seen("POST", "deletes"), 1);
    assert_int_equal(fake_seen("DELETE", "deletes"), 1); /* what XML cannot carry */
    store_close(store);
    store = fake_open("no-multi-delete", "");
    fake_reset();
    assert_int_equal(store_delete_many(store, calls, 4), HF_OK);
    assert_int_equal(fake_seen("DELETE", "no-multi-delete"), 4);
    store_close(store);
}

/* ---- URLs and keys ------------------------------------------------------------------- */

static void bad_urls_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "s3:",
        "s3://",
        "s3://ab",
        "s3://bucket?endpoint=example.com",
        "s3://bucket?endpoint=http://",
        "s3://bucket?endpoint=http://a/b",
        "s3://bucket?endpoint=http://user@host",
        "s3://bucket?style=other",
        "s3://bucket?connections=0",
        "s3://bucket?connections=1000",
        "s3://bucket?timeout=5",
        "s3://bucket?timeout=0s",
        "s3://bucket?region=",
        "s3://bucket?region=a%0d%0ab",
        "s3://bucket?etag=maybe",
        "s3://bucket?colour=red",
        "s3://buck%20et",
        "s3://bucket/%ff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct store *store = NULL;
        struct hf_error error;
        enum hf_status status = store_open(env_real(), view_of(bad[i]), &store, &error);
        if (status != HF_INVALID)
            fail_msg("%s: %s", bad[i], hf_status_name(status));
    }
}

static void keys_that_are_no_text_are_invalid(void **state)
{
    (void)state;
    const struct view bad[] = {
        VIEW("a\0b"),     VIEW("\xff"),         VIEW("\xc3"),
        VIEW("\xc0\x80"), VIEW("\xed\xa0\x80"), VIEW("\xf4\x90\x80\x80")
    };
    struct store *store = fake_open("plain", "");
    fake_reset();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct put_call call = { .key = bad[i], .body = VIEW("x") };
        assert_int_equal(store_put(store, &call), HF_INVALID);
        assert_int_equal(list(store, bad[i]), HF_INVALID);
    }
    assert_int_equal(fake_seen("PUT", "plain"), 0);
    store_close(store);
}

/* ---- On the way ---------------------------------------------------------------------- */

/* A certificate for 127.0.0.1 that vouches for itself, with its key, in one file. */
static void write_certificate(const char *path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"fake", -1, -1,
                               0);
    X509_set_issuer_name(certificate, name);
    X509_set_version(certificate, X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_EXTENSION *names =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate, names, -1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(PEM_write_X509(file, certificate) &&
                PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL));
    fclose(file);
    X509_EXTENSION_free(names);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static struct store *open_tls(const char *bucket, int port, const char *parameters)
{
    char url[4400];
    struct store *store = NULL;
    struct hf_error error;
    snprintf(url, sizeof url, "s3://%s?endpoint=https://127.0.0.1:%d%s", bucket, port,
             parameters);
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    return store;
}

static void certificates_are_checked(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    char path[4200], parameter[4300];
    snprintf(path, sizeof path, "%s/certificate.pem", folder);
    write_certificate(path);
    snprintf(parameter, sizeof parameter, "&ca=%s", path);
    int port = fake_serve_tls(path);
    struct store *stranger = open_tls("plain", port, "");
    assert_int_equal(put(stranger, "k", if_absent()), HF_UNAVAILABLE);
    assert_non_null(strstr(last.why, "certificate"));
    assert_non_null(strstr(last.why, "this machine's clock says"));
    store_close(stranger);
    fake_reset();
    struct store *store = open_tls("plain", port, parameter);
    assert_status(HF_OK, put(store, "k", if_absent()), &last);
    assert_status(HF_OK, get(store, "k"), &last);
    assert_int_equal(put(store, "k", if_absent()), HF_CONFLICT);
    store_close(store);
    /* A proxy passes the channel on, and does not see into it. */
    char proxy[64];
    snprintf(proxy, sizeof proxy, "http://me:proxy-password@127.0.0.1:%d", fake_port());
    setenv("HTTPS_PROXY", proxy, 1);
    store = open_tls("plain", port, parameter);
    assert_status(HF_OK, get(store, "k"), &last);
    assert_int_equal(fake_seen("CONNECT", "proxy"), 1);
    store_close(store);
    setenv("HTTPS_PROXY", "http://me:proxy-password@127.0.0.1:1", 1);
    store = open_tls("plain", port, parameter);
    assert_int_equal(put(store, "k", if_absent()), HF_UNAVAILABLE);
    assert_null(strstr(last.why, "proxy-password"));
    store_close(store);
    setenv("NO_PROXY", "example.com,127.0.0.1", 1);
    store = open_tls("plain", port, parameter);
    assert_status(HF_OK, get(store, "k"), &last);
    assert_int_equal(fake_seen("CONNECT", "proxy"), 1);
    store_close(store);
    unsetenv("HTTPS_PROXY");
    unsetenv("NO_PROXY");
    setenv("AWS_CA_BUNDLE", path, 1);
    store = open_tls("unsigned-only", port, "");
    unsetenv("AWS_CA_BUNDLE");
    /* The channel protects a stream; a document is hashed all the same. */
    int fd = scratch_file();
    struct put_call call = { .key = VIEW("k"), .condition = if_absent() };
    assert_status(HF_OK, store_put_file(store, &call, fd, NULL), &call.error);
    assert_int_equal(put(store, "k", (struct condition){ 0 }), HF_INVALID);
    close(fd);
    store_close(store);
    test_dir_remove(folder);
}

static void proxies_and_host_names_are_used(void **state)
{
    (void)state;
    char proxy[64];
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", fake_port());
    setenv("http_proxy", proxy, 1);
    static const char *const urls[] = {
        "s3://plain?endpoint=http://s3.invalid",
        "s3://plain?endpoint=http://s3.invalid:80/&style=host",
    };
    for (size_t i = 0; i < 2; i++) {
        struct store *store = NULL;
        struct hf_error error;
        fake_reset();
        assert_status(HF_OK, store_open(env_real(), view_of(urls[i]), &store, &error), &error);
        assert_status(HF_OK, put(store, "k", if_absent()), &last);
        assert_int_equal(fake_seen("PUT", "plain"), 1);
        store_close(store);
    }
    unsetenv("http_proxy");
}

/* ---- Memory -------------------------------------------------------------------------- */

static void without_memory_calls_fail_cleanly(void **state)
{
    (void)state;
    struct store *store = fake_open("plain", "");
    assert_status(HF_OK, put(store, "k", (struct condition){ 0 }), &last);
    for (long n = 0;; n++) {
        alloc_fail_after(n);
        enum hf_status putting = put(store, "k", (struct condition){ 0 });
        enum hf_status getting = get(store, "k");
        if (!alloc_stop())
            break;
        assert_true(putting == HF_OK || putting == HF_UNAVAILABLE || putting == HF_UNSURE);
        assert_true(getting == HF_OK || getting == HF_UNAVAILABLE);
    }
    store_close(store);
}

static void without_memory_opening_fails_cleanly(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct store *store = NULL;
        struct hf_error error;
        alloc_fail_after(n);
        enum hf_status status = store_open(env_real(), VIEW("s3://bucket"), &store, &error);
        bool failed = alloc_stop();
        if (status == HF_OK)
            store_close(store);
        if (!failed)
            break;
        assert_true(status == HF_OK || status == HF_UNAVAILABLE);
    }
}

static int set_up(void **state)
{
    (void)state;
    setenv("AWS_ACCESS_KEY_ID", "access", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
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
        IT("each way to fail gives its status and a reason, and each write arrives once",
           statuses_are_right),
        IT("what stands behind the body of a chunked reply says nothing", trailers_say_nothing),
        IT("an object larger than asked for is refused before it is read, with its size",
           too_large_is_told_with_its_size),
        IT("a write is never sent twice, even when its connection dies",
           a_put_is_never_sent_twice),
        IT("a body that is cut on its way is unsure", a_body_cut_on_its_way_is_unsure),
        IT("an endpoint where nothing listens is unavailable, and named", nothing_listens),
        IT("a time-out ends in time", a_time_out_ends_in_time),
        IT("a busy connection is waited for", busy_connections_are_waited_for),
        IT("a write that another one kept from being decided (409) is sent again, until it is",
           an_undecided_write_is_sent_again),
        IT("throttled reads are tried again, throttled writes are unsure",
           throttled_reads_are_tried_again),
        IT("a body that breaks off is read again", a_broken_body_is_read_again),
        IT("a file that breaks off goes on where it broke",
           a_broken_file_goes_on_where_it_broke),
        IT("a file that breaks off behind its last byte is read again",
           a_file_that_breaks_off_behind_its_end_is_read_again),
        IT("two versions of an object are never mixed in one file",
           two_objects_are_never_mixed),
        IT("a reply out of a cache tells no time", a_cached_reply_tells_no_time),
        IT("a listing that loops, stands still, breaks off or strays is corrupt",
           bad_listings_are_corrupt),
        IT("the form of ETags that a store wants is found out once",
           the_form_of_etags_is_found_out),
        IT("a store that takes no form of ETag is refused",
           a_store_that_takes_no_etag_is_refused),
        IT("an upload in parts ends whole, or is aborted, or is unsure",
           uploads_end_whole_or_are_aborted),
        IT("many deletes are one request, each answered by itself",
           many_deletes_are_one_request),
        IT("URLs that make no sense are refused", bad_urls_are_refused),
        IT("keys that are not text are invalid and are not sent",
           keys_that_are_no_text_are_invalid),
        IT("a certificate that nobody vouches for is refused, and ca= vouches",
           certificates_are_checked),
        IT("proxies are used, and buckets in host names", proxies_and_host_names_are_used),
        IT("without memory calls fail and leak nothing", without_memory_calls_fail_cleanly),
        IT("without memory opening fails and leaks nothing",
           without_memory_opening_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
