/* SPDX-License-Identifier: Apache-2.0 */
/* azure_fake_test.c: the azure store with a stand-in that does what Azurite never does. */
#include "s3_fake.h"
#include "store/probe.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The stand-in behaves as `behaviour` says. */
static struct store *open_azure(const char *behaviour)
{
    char url[200];
    struct store *store = NULL;
    struct hf_error error;
    snprintf(url, sizeof url, "azure://account/data?endpoint=http://127.0.0.1:%d/%s",
             fake_port(), behaviour);
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    fake_reset();
    return store;
}

/* ---- Listings ------------------------------------------------------------------------ */

#define PAGES "azure-pages"

static void put_keys(struct store *store, const char *letters)
{
    for (; *letters; letters++) {
        struct put_call put = { .key = { letters, 1 }, .body = VIEW("x") };
        assert_status(HF_OK, store_put(store, &put), &put.error);
    }
}

/* The next page of a listing, after the key `after`, has these keys of one letter. */
static void expect_page(struct store *store, struct list_call *list, const char *after,
                        const char *letters, bool more)
{
    char found[30] = "";
    list->after = view_of(after);
    assert_status(HF_OK, store_list(store, list), &list->error);
    for (size_t i = 0; i < list->count; i++)
        found[i] = list->entries[i].key.data[0];
    assert_string_equal(found, letters);
    assert_int_equal(list->more, more);
    list_release(list);
}

static void a_new_listing_sees_what_was_put_before_it(void **state)
{
    (void)state;
    struct store *store = open_azure(PAGES);
    struct list_call first = { .max = 3 }, second = { .max = 3 };
    put_keys(store, "abcfg");
    expect_page(store, &first, "", "abc", true);
    put_keys(store, "d");
    expect_page(store, &second, "c", "dfg", false);
    store_close(store);
}

static void a_listing_that_goes_on_is_one_request_a_page(void **state)
{
    (void)state;
    struct store *store = open_azure(PAGES);
    struct list_call list = { .max = 2 };
    put_keys(store, "abcdefg");
    expect_page(store, &list, "", "ab", true);
    expect_page(store, &list, "b", "cd", true);
    expect_page(store, &list, "d", "ef", true);
    expect_page(store, &list, "f", "g", false);
    assert_int_equal(fake_seen("GET", PAGES), 4);
    store_close(store);
}

/* A page that begins in the middle is cut out of a larger one, which is read again. */
static void a_listing_from_the_middle_misses_nothing(void **state)
{
    (void)state;
    struct store *store = open_azure(PAGES);
    struct list_call list = { .max = 2 };
    put_keys(store, "abcdefg");
    expect_page(store, &list, "b", "cd", true);
    expect_page(store, &list, "d", "ef", true);
    expect_page(store, &list, "f", "g", false);
    store_close(store);
}

static void listings_at_the_same_time_keep_their_places(void **state)
{
    (void)state;
    struct store *store = open_azure(PAGES);
    struct list_call lists[20];
    put_keys(store, "abcdefg");
    for (size_t i = 0; i < 20; i++) {
        lists[i] = (struct list_call){ .max = 2 };
        expect_page(store, &lists[i], "", "ab", true);
    }
    for (size_t i = 0; i < 20; i++)
        expect_page(store, &lists[i], "b", "cd", true);
    assert_int_equal(fake_seen("GET", PAGES), 40);
    for (size_t i = 0; i < 20; i++)
        expect_page(store, &lists[i], "d", "ef", true);
    assert_int_equal(fake_seen("GET", PAGES), 60);
    store_close(store);
}

/* ---- Reading ------------------------------------------------------------------------- */

static void a_304_counts_only_for_a_comparison(void **state)
{
    (void)state;
    struct store *store = open_azure("unmodified-304");
    struct buffer body = BUFFER_INIT(100);
    struct get_call call = { .key = VIEW("k"), .body = &body };
    assert_status(HF_UNAVAILABLE, store_get(store, &call), &call.error);
    etag_set(&call.none_match, VIEW("x"));
    assert_status(HF_NOT_MODIFIED, store_get(store, &call), &call.error);
    buffer_release(&body);
    store_close(store);
}

/* ---- Block lists --------------------------------------------------------------------- */

/* A proxy may have passed the block list on, lost the reply, and sent it again. */
static void a_refused_block_list_is_unsure(void **state)
{
    (void)state;
    struct store *store = open_azure("azure-blocks");
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 65 * (off_t)MIB), 0);
    struct put_call put = { .key = VIEW("large") };
    assert_int_equal(store_put_file(store, &put, fd, NULL), HF_UNSURE);
    assert_non_null(strstr(put.error.why, "InvalidBlockList"));
    close(fd);
    store_close(store);
}

static void a_block_list_without_an_answer_is_no_verdict(void **state)
{
    (void)state;
    static const struct {
        const char *behaviour;
        bool unanswered;
    } rows[] = { { "azure-busy", true }, { "denied", false } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store *store = open_azure(rows[i].behaviour);
        struct probe_report report = { .count = 0 };
        store->ops->inspect(store, mono_add(env_now(env_real()), SPAN_S(2)), &report);
        assert_false(report.traits.put_file_conditional);
        assert_int_equal(report.unanswered, rows[i].unanswered);
        store_close(store);
    }
}

static int set_up(void **state)
{
    (void)state;
    setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=signature", 1);
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
        IT("a new listing after a name sees what was put there before it began",
           a_new_listing_sees_what_was_put_before_it),
        IT("a listing that goes on is one request per page",
           a_listing_that_goes_on_is_one_request_a_page),
        IT("a listing from the middle misses nothing",
           a_listing_from_the_middle_misses_nothing),
        IT("listings at the same time keep their places",
           listings_at_the_same_time_keep_their_places),
        IT("not modified is an answer only to a read that named a version",
           a_304_counts_only_for_a_comparison),
        IT("a block list that is refused may have been committed before",
           a_refused_block_list_is_unsure),
        IT("a block list without an answer says nothing about the store",
           a_block_list_without_an_answer_is_no_verdict),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
