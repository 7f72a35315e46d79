/* SPDX-License-Identifier: Apache-2.0 */
/* api_store_test.c KIND: the promises of holdfast/store.h about URLs, objects, files and
 * listings, tested through the public headers only. KIND is mem or sqlite. */
#include "api_store_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- URLs ---------------------------------------------------------------------------- */

static void urls_are_told_from_other_texts(void **state)
{
    (void)state;
    assert_true(hf_store_is_url("mem:"));
    assert_true(hf_store_is_url("s3://bucket/prefix"));
    assert_false(hf_store_is_url("reports/today.csv"));
    assert_false(hf_store_is_url("http://host/"));
    assert_false(hf_store_is_url(""));
}

static void a_url_is_made_absolute(void **state)
{
    struct place *place = *state;
    char url[HF_STORE_URL_MAX], folder[2000], wanted[2100];
    assert_non_null(getcwd(folder, sizeof folder));
    OK(hf_store_url_absolute("dir:data?sync=off", url, &place->error));
    snprintf(wanted, sizeof wanted, "dir:%s/data?sync=off", folder);
    assert_string_equal(url, wanted);
    OK(hf_store_url_absolute("s3://b/p", url, &place->error));
    assert_string_equal(url, "s3://b/p");
    IS(HF_INVALID, hf_store_url_absolute("nonsense", url, &place->error));
    assert_string_equal(url, "s3://b/p");
    char long_url[HF_STORE_URL_MAX + 10];
    snprintf(long_url, sizeof long_url, "dir:/%*s", HF_STORE_URL_MAX, "x");
    IS(HF_INVALID, hf_store_url_absolute(long_url, url, &place->error));
}

static void the_url_of_an_object_is_its_store_and_its_key(void **state)
{
    struct place *place = *state;
    static const struct {
        const char *url, *store, *key;
    } rows[] = {
        { "sqlite:jobs.db#reports/today.csv", "sqlite:jobs.db", "reports/today.csv" },
        { "s3://b/p?endpoint=http://h:1&region=r#k", "s3://b/p?endpoint=http://h:1&region=r",
          "k" },
        { "s3://b#a b?c%20#d", "s3://b", "a b?c%20#d" },
        { "dir:a%23b#c", "dir:a%23b", "c" },
        { "mem:#\xff", "mem:", "\xff" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char store[HF_STORE_URL_MAX];
        const char *key;
        OK(hf_store_url_split(rows[i].url, store, &key, &place->error));
        assert_string_equal(store, rows[i].store);
        assert_string_equal(key, rows[i].key);
    }
}

static void what_names_no_object_is_not_split(void **state)
{
    struct place *place = *state;
    char long_key[HF_KEY_BYTES_MAX + 20], long_store[HF_STORE_URL_MAX + 20];
    snprintf(long_key, sizeof long_key, "mem:#%*s", HF_KEY_BYTES_MAX + 1, "x");
    snprintf(long_store, sizeof long_store, "dir:%*s#k", HF_STORE_URL_MAX - 4, "x");
    const struct {
        const char *url, *why;
    } rows[] = {
        { "", "not the URL of an object" },
        { "today.csv", "not the URL of an object" },
        { "http://host/x#k", "not the URL of an object" },
        { "s3://bucket/today.csv", "append '#' and the key" },
        { "s3://bucket#", "must be 1 to 1024 bytes long, not 0" },
        { long_key, "must be 1 to 1024 bytes long, not 1025" },
        { long_store, "at most 2048 bytes" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char store[HF_STORE_URL_MAX] = "as before";
        const char *key = "as before";
        IS(HF_INVALID, hf_store_url_split(rows[i].url, store, &key, &place->error));
        if (!strstr(place->error.why, rows[i].why))
            fail_msg("%s: %s", rows[i].url, place->error.why);
        assert_string_equal(store, "as before");
        assert_string_equal(key, "as before");
    }
}

static void a_store_that_nobody_made_is_not_found_and_not_made(void **state)
{
    struct place *place = *state;
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct hf_store *store = NULL;
    char url[300];
    snprintf(url, sizeof url, "sqlite:%s/none.db", place->folder);
    IS(HF_NOT_FOUND, hf_store_check_present(url, &place->error));
    assert_non_null(strstr(place->error.why, "none.db"));
    options.must_exist = true;
    IS(HF_NOT_FOUND, hf_store_open(url, &options, &store, &place->error));
    assert_null(store);
    IS(HF_NOT_FOUND, hf_store_check_present(url, &place->error));
    OK(hf_store_open(url, NULL, &store, &place->error));
    OK(hf_store_check_present(url, &place->error));
    OK(hf_store_check_present("s3://nobody-asks/it", &place->error));
    hf_store_close(store);
}

/* ---- One object ---------------------------------------------------------------------- */

static void what_is_put_is_got(void **state)
{
    struct place *place = *state;
    struct hf_object_info wrote = HF_OBJECT_INFO, read = HF_OBJECT_INFO;
    void *data = NULL;
    size_t size = 0;
    OK(hf_store_put(place->store, "a", "12\0003", 4, NULL, &wrote, &place->error));
    OK(hf_store_get(place->store, "a", 4, NULL, &data, &size, &read, &place->error));
    assert_int_equal(size, 4);
    assert_memory_equal(data, "12\0003", 4);
    hf_free(data);
    assert_string_equal(wrote.etag, read.etag);
    assert_int_equal(wrote.size, 4);
    assert_int_equal(read.size, 4);
    assert_int_equal(wrote.modified_ms, 0);
    assert_true(read.modified_ms > INT64_C(1600000000000));
    data = NULL;
    IS(HF_INVALID, hf_store_get(place->store, "a", 3, NULL, &data, &size, NULL, &place->error));
    IS(HF_NOT_FOUND,
       hf_store_get(place->store, "b", 3, NULL, &data, &size, NULL, &place->error));
    assert_null(data);
}

static void conditions_of_a_put_hold(void **state)
{
    struct place *place = *state;
    struct hf_store_put_options absent = HF_STORE_PUT_OPTIONS, match = HF_STORE_PUT_OPTIONS;
    struct hf_object_info first = HF_OBJECT_INFO;
    absent.if_absent = true;
    OK(hf_store_put(place->store, "a", "1", 1, &absent, &first, &place->error));
    IS(HF_CONFLICT, hf_store_put(place->store, "a", "2", 1, &absent, NULL, &place->error));
    match.if_match = first.etag;
    OK(hf_store_put(place->store, "a", "3", 1, &match, NULL, &place->error));
    IS(HF_CONFLICT, hf_store_put(place->store, "a", "4", 1, &match, NULL, &place->error));
    IS(HF_NOT_FOUND, hf_store_put(place->store, "b", "4", 1, &match, NULL, &place->error));
    assert_object_holds(place->store, "a", "3");
    match.if_match = "";
    IS(HF_INVALID, hf_store_put(place->store, "a", "4", 1, &match, NULL, &place->error));
    match.if_match = first.etag;
    match.if_absent = true;
    IS(HF_INVALID, hf_store_put(place->store, "a", "4", 1, &match, NULL, &place->error));
}

static void conditions_and_ranges_of_a_get_hold(void **state)
{
    struct place *place = *state;
    struct hf_store_get_options options = HF_STORE_GET_OPTIONS;
    struct hf_object_info info = HF_OBJECT_INFO;
    void *data;
    size_t size;
    put_object(place, "a", "0123456789");
    options.offset = 3;
    options.length = 4;
    OK(hf_store_get(place->store, "a", 4, &options, &data, &size, &info, &place->error));
    assert_memory_equal(data, "3456", 4);
    assert_int_equal(size, 4);
    assert_int_equal(info.size, 10);
    hf_free(data);
    options.offset = 10;
    IS(HF_INVALID,
       hf_store_get(place->store, "a", 9, &options, &data, &size, NULL, &place->error));
    options = HF_STORE_GET_OPTIONS;
    options.if_none_match = info.etag;
    IS(HF_NOT_MODIFIED,
       hf_store_get(place->store, "a", 9, &options, &data, &size, NULL, &place->error));
    options.if_none_match = NULL;
    options.if_match = "another";
    IS(HF_CONFLICT,
       hf_store_get(place->store, "a", 99, &options, &data, &size, NULL, &place->error));
    options.if_match = NULL;
    options.timeout_ms = -1;
    IS(HF_INVALID,
       hf_store_get(place->store, "a", 99, &options, &data, &size, NULL, &place->error));
    options.timeout_ms = 60000;
    OK(hf_store_get(place->store, "a", 99, &options, &data, &size, NULL, &place->error));
    hf_free(data);
}

static void a_key_may_hold_a_nul_byte(void **state)
{
    struct place *place = *state;
    struct hf_store_put_options to = HF_STORE_PUT_OPTIONS;
    struct hf_store_get_options from = HF_STORE_GET_OPTIONS;
    struct hf_store_delete_options away = HF_STORE_DELETE_OPTIONS;
    void *data;
    size_t size;
    to.key_size = from.key_size = away.key_size = 3;
    OK(hf_store_put(place->store, "a\0b", "1", 1, &to, NULL, &place->error));
    OK(hf_store_get(place->store, "a\0b", 9, &from, &data, &size, NULL, &place->error));
    hf_free(data);
    IS(HF_NOT_FOUND,
       hf_store_get(place->store, "a", 9, NULL, &data, &size, NULL, &place->error));
    OK(hf_store_delete(place->store, "a\0b", &away, &place->error));
    IS(HF_NOT_FOUND,
       hf_store_get(place->store, "a\0b", 9, &from, &data, &size, NULL, &place->error));
}

static void holdfasts_own_objects_take_force(void **state)
{
    struct place *place = *state;
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    struct hf_store_delete_options away = HF_STORE_DELETE_OPTIONS;
    const char *key = ".holdfast/format.json";
    IS(HF_INVALID, hf_store_check_key(key, 0, false, &place->error));
    OK(hf_store_check_key(key, 0, true, &place->error));
    OK(hf_store_check_key("reports/x", 0, false, &place->error));
    IS(HF_INVALID, hf_store_check_key("", 0, true, &place->error));
    IS(HF_INVALID, hf_store_put(place->store, key, "x", 1, NULL, NULL, &place->error));
    IS(HF_INVALID, hf_store_put_file(place->store, key, 0, NULL, NULL, &place->error));
    IS(HF_INVALID, hf_store_delete(place->store, key, NULL, &place->error));
    options.force = away.force = true;
    OK(hf_store_put(place->store, key, "x", 1, &options, NULL, &place->error));
    assert_object_holds(place->store, key, "x");
    OK(hf_store_delete(place->store, key, &away, &place->error));
}

/* ---- Files --------------------------------------------------------------------------- */

static int scratch(const struct place *place)
{
    int fd = open(place->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

#define FILE_BYTES ((size_t)3 << 20)

static void fill(int fd)
{
    char *bytes = malloc(FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    assert_int_equal(pwrite(fd, bytes, FILE_BYTES, 0), (ssize_t)FILE_BYTES);
    free(bytes);
}

static void files_go_in_and_come_out(void **state)
{
    struct place *place = *state;
    struct hf_store_put_options to = HF_STORE_PUT_OPTIONS;
    struct hf_store_get_options from = HF_STORE_GET_OPTIONS;
    struct hf_object_info info = HF_OBJECT_INFO;
    unsigned steps = 0;
    int fd = scratch(place), back = scratch(place);
    fill(fd);
    to.progress = count_steps;
    to.progress_argument = &steps;
    OK(hf_store_put_file(place->store, "big", fd, &to, &info, &place->error));
    assert_int_equal(info.size, FILE_BYTES);
    assert_true(steps > 0);
    steps = 0;
    from.progress = count_steps;
    from.progress_argument = &steps;
    OK(hf_store_get_file(place->store, "big", back, &from, &info, &place->error));
    assert_true(steps > 0);
    char *one = malloc(FILE_BYTES), *two = malloc(FILE_BYTES);
    assert_int_equal(pread(fd, one, FILE_BYTES, 0), (ssize_t)FILE_BYTES);
    assert_int_equal(pread(back, two, FILE_BYTES, 0), (ssize_t)FILE_BYTES);
    assert_memory_equal(one, two, FILE_BYTES);
    free(one);
    free(two);
    close(fd);
    close(back);
}

static void a_stream_that_is_stopped_is_cancelled_and_writes_nothing(void **state)
{
    struct place *place = *state;
    struct hf_store_put_options to = HF_STORE_PUT_OPTIONS;
    struct hf_store_get_options from = HF_STORE_GET_OPTIONS;
    int fd = scratch(place), back = scratch(place);
    fill(fd);
    to.progress = say_stop;
    IS(HF_CANCELLED, hf_store_put_file(place->store, "big", fd, &to, NULL, &place->error));
    IS(HF_NOT_FOUND, hf_store_get_file(place->store, "big", back, NULL, NULL, &place->error));
    OK(hf_store_put_file(place->store, "big", fd, NULL, NULL, &place->error));
    from.progress = say_stop;
    IS(HF_CANCELLED, hf_store_get_file(place->store, "big", back, &from, NULL, &place->error));
    close(fd);
    close(back);
}

static void a_file_that_is_not_open_is_refused(void **state)
{
    struct place *place = *state;
    struct hf_object_info info = HF_OBJECT_INFO;
    put_object(place, "a", "1");
    assert_true(hf_store_put_file(place->store, "b", -1, NULL, &info, &place->error) != HF_OK);
    assert_true(hf_store_get_file(place->store, "a", -1, NULL, &info, &place->error) != HF_OK);
    assert_string_equal(info.etag, "");
}

/* ---- delete -------------------------------------------------------------------------- */

static void conditions_of_a_delete_hold(void **state)
{
    struct place *place = *state;
    struct hf_store_delete_options options = HF_STORE_DELETE_OPTIONS;
    struct hf_object_info info = HF_OBJECT_INFO;
    OK(hf_store_put(place->store, "a", "1", 1, NULL, &info, &place->error));
    options.if_match = "another";
    IS(HF_CONFLICT, hf_store_delete(place->store, "a", &options, &place->error));
    options.if_match = info.etag;
    OK(hf_store_delete(place->store, "a", &options, &place->error));
    OK(hf_store_delete(place->store, "a", NULL, &place->error));
}

struct deleted {
    size_t count;
    size_t stop_after;
    enum hf_status last;
};

static bool see_deleted(void *argument, size_t index, const struct hf_error *error)
{
    struct deleted *deleted = argument;
    assert_int_equal(index, deleted->count);
    deleted->last = error->status;
    return ++deleted->count != deleted->stop_after;
}

static void many_deletes_are_answered_one_by_one(void **state)
{
    struct place *place = *state;
    const char *keys[] = { "a", "none", "b" };
    const char *guarded[] = { "c", ".holdfast/format.json" };
    struct deleted deleted = { 0 };
    put_object(place, "a", "1");
    put_object(place, "b", "1");
    put_object(place, "c", "1");
    OK(hf_store_delete_many(place->store, keys, NULL, 3, NULL, see_deleted, &deleted,
                            &place->error));
    assert_int_equal(deleted.count, 3);
    assert_int_equal(deleted.last, HF_OK);
    IS(HF_INVALID,
       hf_store_delete_many(place->store, guarded, NULL, 2, NULL, NULL, NULL, &place->error));
    assert_object_holds(place->store, "c", "1");
    OK(hf_store_delete_many(place->store, keys, NULL, 0, NULL, NULL, NULL, &place->error));
}

static void a_caller_that_has_seen_enough_deletes_no_further_batch(void **state)
{
    struct place *place = *state;
    static char names[1500][8];
    static const char *keys[1500];
    struct deleted deleted = { .stop_after = 1 };
    void *data;
    size_t size;
    for (size_t i = 0; i < 1500; i++) {
        snprintf(names[i], sizeof names[i], "k%04zu", i);
        keys[i] = names[i];
    }
    put_object(place, "k0000", "1");
    put_object(place, "k1400", "1");
    OK(hf_store_delete_many(place->store, keys, NULL, 1500, NULL, see_deleted, &deleted,
                            &place->error));
    assert_int_equal(deleted.count, 1);
    assert_object_holds(place->store, "k1400", "1");
    IS(HF_NOT_FOUND,
       hf_store_get(place->store, "k0000", 9, NULL, &data, &size, NULL, &place->error));
}

/* ---- list ---------------------------------------------------------------------------- */

static void a_listing_is_in_byte_order_rolled_up_and_bounded(void **state)
{
    struct place *place = *state;
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct listed listed = { .stop_after = 2 };
    const char *keys[] = { "b/2", "a", "b/1", "c", "b/x/1" };
    for (size_t i = 0; i < 5; i++)
        put_object(place, keys[i], "12");
    assert_lists(place, "", NULL, "a b/1 b/2 b/x/1 c ");
    assert_lists(place, "b/", NULL, "b/1 b/2 b/x/1 ");
    options.delimiter = '/';
    assert_lists(place, "", &options, "a b/ c ");
    assert_lists(place, "b/", &options, "b/1 b/2 b/x/ ");
    options.after = "b/1";
    assert_lists(place, "b/", &options, "b/2 b/x/ ");
    options = HF_STORE_LIST_OPTIONS;
    options.max = 2;
    assert_lists(place, "", &options, "a b/1 ");
    OK(hf_store_list(place->store, "", NULL, see_entry, &listed, &place->error));
    assert_string_equal(listed.names, "a b/1 ");
    assert_lists(place, "nothing/", NULL, "");
}

/* Copies each object, and deletes it. */
static bool move_entry(void *argument, const struct hf_store_entry *entry)
{
    struct place *place = argument;
    char target[100];
    assert_int_equal(entry->struct_size, sizeof *entry);
    snprintf(target, sizeof target, "moved/%s", entry->key);
    OK(hf_store_copy(place->store, entry->key, place->store, target, NULL, NULL,
                     &place->error));
    OK(hf_store_delete(place->store, entry->key, NULL, &place->error));
    return true;
}

static void a_listing_may_use_the_store(void **state)
{
    struct place *place = *state;
    struct hf_error error;
    put_object(place, "a/1", "one");
    put_object(place, "a/2", "two");
    assert_status(HF_OK, hf_store_list(place->store, "a/", NULL, move_entry, place, &error),
                  &error);
    assert_lists(place, "", NULL, "moved/a/1 moved/a/2 ");
    assert_object_holds(place->store, "moved/a/2", "two");
}

static void a_listing_goes_on_over_its_pages(void **state)
{
    struct place *place = *state;
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct listed listed = { .count = 0 };
    char key[32];
    for (int i = 0; i < 1100; i++) {
        snprintf(key, sizeof key, "k%04d", i);
        put_object(place, key, "1");
    }
    OK(hf_store_list(place->store, "k", NULL, see_entry, &listed, &place->error));
    assert_int_equal(listed.count, 1100);
    assert_int_equal(listed.pages, 2);
    listed = (struct listed){ .count = 0 };
    options.max = 1050;
    OK(hf_store_list(place->store, "k", &options, see_entry, &listed, &place->error));
    assert_int_equal(listed.count, 1050);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(urls_are_told_from_other_texts),
        CASE(a_url_is_made_absolute),
        CASE(the_url_of_an_object_is_its_store_and_its_key),
        CASE(what_names_no_object_is_not_split),
        CASE(a_store_that_nobody_made_is_not_found_and_not_made),
        CASE(what_is_put_is_got),
        CASE(conditions_of_a_put_hold),
        CASE(conditions_and_ranges_of_a_get_hold),
        CASE(a_key_may_hold_a_nul_byte),
        CASE(holdfasts_own_objects_take_force),
        CASE(files_go_in_and_come_out),
        CASE(a_stream_that_is_stopped_is_cancelled_and_writes_nothing),
        CASE(a_file_that_is_not_open_is_refused),
        CASE(conditions_of_a_delete_hold),
        CASE(many_deletes_are_answered_one_by_one),
        CASE(a_caller_that_has_seen_enough_deletes_no_further_batch),
        CASE(a_listing_is_in_byte_order_rolled_up_and_bounded),
        CASE(a_listing_may_use_the_store),
        CASE(a_listing_goes_on_over_its_pages),
    };
    if (argc != 2)
        return 2;
    store_kind = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
