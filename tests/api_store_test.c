/* api_store_test.c KIND: what holdfast/store.h says, by a program that knows nothing else of us.
 * KIND is mem or sqlite. */
#include "holdfast.h"

#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *kind;

struct place {
    char *folder;
    char url[300];
    struct hf_store *store;
    struct hf_error error;
};

static void open_with(struct place *place, const struct hf_store_options *options)
{
    assert_status(HF_OK, hf_store_open(place->url, options, &place->store, &place->error),
                  &place->error);
}

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    place->folder = test_dir_make();
    snprintf(place->url, sizeof place->url,
             strcmp(kind, "mem") == 0 ? "mem:" : "sqlite:%s/s.db", place->folder);
    open_with(place, NULL);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    hf_store_close(place->store);
    test_dir_remove(place->folder);
    free(place);
    return 0;
}

#define OK(call)         assert_status(HF_OK, call, &place->error)
#define IS(status, call) assert_status(status, call, &place->error)

static void put(struct place *place, const char *key, const char *text)
{
    OK(hf_store_put(place->store, key, text, strlen(text), NULL, NULL, &place->error));
}

static void assert_holds(struct hf_store *store, const char *key, const char *text)
{
    void *data;
    size_t size;
    struct hf_error error;
    assert_status(HF_OK, hf_store_get(store, key, 1000, NULL, &data, &size, NULL, &error),
                  &error);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(data, text, size);
    hf_free(data);
}

static int scratch(const struct place *place)
{
    int fd = open(place->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

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
    assert_holds(place->store, "a", "3");
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
    put(place, "a", "0123456789");
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
    assert_holds(place->store, key, "x");
    OK(hf_store_delete(place->store, key, &away, &place->error));
}

/* ---- Files --------------------------------------------------------------------------- */

static bool count_steps(void *argument, const struct hf_progress *progress)
{
    unsigned *steps = argument;
    assert_true(progress->total_bytes == 0 || progress->done_bytes <= progress->total_bytes);
    ++*steps;
    return true;
}

static bool say_stop(void *argument, const struct hf_progress *progress)
{
    (void)argument, (void)progress;
    return false;
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
    put(place, "a", "1");
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
    put(place, "a", "1");
    put(place, "b", "1");
    put(place, "c", "1");
    OK(hf_store_delete_many(place->store, keys, NULL, 3, NULL, see_deleted, &deleted,
                            &place->error));
    assert_int_equal(deleted.count, 3);
    assert_int_equal(deleted.last, HF_OK);
    IS(HF_INVALID,
       hf_store_delete_many(place->store, guarded, NULL, 2, NULL, NULL, NULL, &place->error));
    assert_holds(place->store, "c", "1");
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
    put(place, "k0000", "1");
    put(place, "k1400", "1");
    OK(hf_store_delete_many(place->store, keys, NULL, 1500, NULL, see_deleted, &deleted,
                            &place->error));
    assert_int_equal(deleted.count, 1);
    assert_holds(place->store, "k1400", "1");
    IS(HF_NOT_FOUND,
       hf_store_get(place->store, "k0000", 9, NULL, &data, &size, NULL, &place->error));
}

/* ---- list ---------------------------------------------------------------------------- */

struct listed {
    char names[4000];
    size_t count;
    size_t stop_after;
    size_t pages;
};

static bool see_entry(void *argument, const struct hf_store_entry *entry)
{
    struct listed *listed = argument;
    size_t used = strlen(listed->names);
    assert_int_equal(entry->key_size, strlen(entry->key));
    assert_true(entry->is_prefix || (entry->etag[0] != '\0' && entry->modified_ms > 0));
    if (used < sizeof listed->names - 20)
        snprintf(listed->names + used, sizeof listed->names - used, "%s ", entry->key);
    listed->pages += entry->last_of_page;
    return ++listed->count != listed->stop_after;
}

static void assert_lists(struct place *place, const char *prefix,
                         const struct hf_store_list_options *options, const char *names)
{
    struct listed listed = { .count = 0 };
    OK(hf_store_list(place->store, prefix, options, see_entry, &listed, &place->error));
    assert_string_equal(listed.names, names);
}

static void a_listing_is_in_byte_order_rolled_up_and_bounded(void **state)
{
    struct place *place = *state;
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct listed listed = { .stop_after = 2 };
    const char *keys[] = { "b/2", "a", "b/1", "c", "b/x/1" };
    for (size_t i = 0; i < 5; i++)
        put(place, keys[i], "12");
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

static void a_listing_goes_on_over_its_pages(void **state)
{
    struct place *place = *state;
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct listed listed = { .count = 0 };
    char key[32];
    for (int i = 0; i < 1100; i++) {
        snprintf(key, sizeof key, "k%04d", i);
        put(place, key, "1");
    }
    OK(hf_store_list(place->store, "k", NULL, see_entry, &listed, &place->error));
    assert_int_equal(listed.count, 1100);
    assert_int_equal(listed.pages, 2);
    listed = (struct listed){ .count = 0 };
    options.max = 1050;
    OK(hf_store_list(place->store, "k", &options, see_entry, &listed, &place->error));
    assert_int_equal(listed.count, 1050);
}

/* ---- copy ---------------------------------------------------------------------------- */

struct copied {
    size_t count;
    size_t stop_after;
    bool last_copied;
    uint32_t crc32c;
};

static bool see_copied(void *argument, const struct hf_store_copied *copied)
{
    struct copied *seen = argument;
    seen->last_copied = copied->copied;
    seen->crc32c = copied->crc32c;
    return ++seen->count != seen->stop_after;
}

static void an_object_is_copied_and_left_alone_when_it_is_equal(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    struct copied seen = { 0 };
    options.each = see_copied;
    options.each_argument = &seen;
    put(place, "a", "123456789");
    OK(hf_store_copy(place->store, "a", place->store, "b", &options, &report, &place->error));
    assert_holds(place->store, "b", "123456789");
    assert_true(seen.last_copied && seen.crc32c == 0xe3069283);
    assert_true(report.copied == 1 && report.copied_bytes == 9 && report.equal == 0);
    OK(hf_store_copy(place->store, "a", place->store, "b", &options, &report, &place->error));
    assert_true(!seen.last_copied && report.copied == 0 && report.equal == 1);
    put(place, "b", "other");
    options.if_absent = true;
    IS(HF_CONFLICT,
       hf_store_copy(place->store, "a", place->store, "b", &options, NULL, &place->error));
    options.if_absent = false;
    OK(hf_store_copy(place->store, "a", place->store, "b", &options, NULL, &place->error));
    assert_holds(place->store, "b", "123456789");
}

static void a_copy_that_makes_no_sense_is_refused(void **state)
{
    struct place *place = *state;
    put(place, "a", "1");
    IS(HF_NOT_FOUND,
       hf_store_copy(place->store, "none", place->store, "b", NULL, NULL, &place->error));
    IS(HF_INVALID,
       hf_store_copy(place->store, "a", place->store, "a", NULL, NULL, &place->error));
    IS(HF_INVALID, hf_store_copy(place->store, "a", place->store, ".holdfast/format.json", NULL,
                                 NULL, &place->error));
    IS(HF_INVALID,
       hf_store_copy_all(place->store, "a", place->store, "ab", NULL, NULL, &place->error));
}

static void all_objects_of_a_prefix_go_to_another_store(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    struct hf_store *other;
    unsigned steps = 0;
    OK(hf_store_open("mem:", NULL, &other, &place->error));
    put(place, "r/1", "one");
    put(place, "r/2", "two");
    put(place, "s", "three");
    options.count_first = true;
    options.progress = count_steps;
    options.progress_argument = &steps;
    OK(hf_store_copy_all(place->store, "r/", other, "copy/", &options, &report, &place->error));
    assert_true(report.copied == 2 && report.copied_bytes == 6 && report.vanished == 0);
    assert_true(steps > 0);
    assert_holds(other, "copy/1", "one");
    assert_holds(other, "copy/2", "two");
    OK(hf_store_copy_all(place->store, "", other, "", NULL, &report, &place->error));
    assert_int_equal(report.copied, 3);
    assert_holds(other, "s", "three");
    hf_store_close(other);
}

static void a_copy_that_is_stopped_goes_on_with_the_next_call(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    struct copied seen = { .stop_after = 1 };
    put(place, "r/1", "one");
    put(place, "r/2", "two");
    options.each = see_copied;
    options.each_argument = &seen;
    OK(hf_store_copy_all(place->store, "r/", place->store, "t/", &options, &report,
                         &place->error));
    assert_int_equal(report.copied, 1);
    options.each = NULL;
    options.progress = say_stop;
    IS(HF_CANCELLED, hf_store_copy_all(place->store, "r/", place->store, "t/", &options, NULL,
                                       &place->error));
    options.progress = NULL;
    OK(hf_store_copy_all(place->store, "r/", place->store, "t/", &options, &report,
                         &place->error));
    assert_true(report.copied == 1 && report.equal == 1);
}

static void holdfasts_own_objects_are_copied_only_where_there_are_none(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_store *other;
    OK(hf_client_open_on(place->store, NULL, &client, &place->error));
    OK(hf_lock_new(client, "deploy", NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    OK(hf_store_open("mem:", NULL, &other, &place->error));
    OK(hf_store_copy_all(place->store, "", other, "", NULL, NULL, &place->error));
    OK(hf_lock_release(lock, &place->error));
    IS(HF_INVALID, hf_store_copy_all(place->store, "", other, "", NULL, NULL, &place->error));
    options.force = true;
    OK(hf_store_copy_all(place->store, "", other, "", &options, NULL, &place->error));
    hf_lock_free(lock);
    hf_client_close(client);
    hf_store_close(other);
}

/* ---- Clients and the trace ----------------------------------------------------------- */

static void clients_share_a_store_and_keep_it(void **state)
{
    struct place *place = *state;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *one, *two;
    struct hf_lock *lock, *other;
    options.ns = "second";
    OK(hf_client_open_on(place->store, NULL, &one, &place->error));
    OK(hf_client_open_on(place->store, &options, &two, &place->error));
    hf_store_close(place->store);
    place->store = NULL;
    OK(hf_lock_new(one, "x", NULL, &lock, &place->error));
    OK(hf_lock_new(two, "x", NULL, &other, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    OK(hf_lock_acquire(other, 0, &place->error)); /* of another namespace */
    OK(hf_store_put(hf_client_store(one), "a", "1", 1, NULL, NULL, &place->error));
    assert_holds(hf_client_store(two), "a", "1");
    hf_lock_free(other);
    hf_client_close(two);
    hf_client_close(one); /* before its lock is freed */
    IS(HF_LOST, hf_lock_check(lock, &place->error));
    hf_lock_free(lock);
    options.ns = "metadata";
    open_with(place, NULL);
    IS(HF_INVALID, hf_client_open_on(place->store, &options, &one, &place->error));
    assert_null(one);
}

static void a_client_lends_its_store(void **state)
{
    struct place *place = *state;
    struct hf_client *client;
    OK(hf_client_open("mem:", NULL, &client, &place->error));
    OK(hf_store_put(hf_client_store(client), "a", "1", 1, NULL, NULL, &place->error));
    assert_holds(hf_client_store(client), "a", "1");
    hf_client_close(client);
}

struct traced {
    size_t count;
    struct hf_store_request last;
    char key[HF_KEY_BYTES_MAX + 1], why[HF_WHY_MAX], if_match[HF_ETAG_MAX];
};

static void see_request(void *argument, const struct hf_store_request *request)
{
    struct traced *traced = argument;
    traced->count++;
    traced->last = *request;
    snprintf(traced->key, sizeof traced->key, "%s", request->key);
    snprintf(traced->why, sizeof traced->why, "%s", request->why);
    snprintf(traced->if_match, sizeof traced->if_match, "%s",
             request->if_match ? request->if_match : "");
}

static void the_trace_tells_each_call(void **state)
{
    struct place *place = *state;
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct hf_store_put_options condition = HF_STORE_PUT_OPTIONS;
    struct traced traced = { .count = 0 };
    options.trace = see_request;
    options.trace_argument = &traced;
    hf_store_close(place->store);
    open_with(place, &options);
    assert_int_equal(traced.count, 1); /* what the bucket says of itself */
    assert_string_equal(traced.key, ".holdfast/format.json");
    condition.if_absent = true;
    OK(hf_store_put(place->store, "a\nb", "12", 2, &condition, NULL, &place->error));
    assert_int_equal(traced.count, 2);
    assert_int_equal(traced.last.call, HF_STORE_CALL_PUT);
    assert_string_equal(hf_store_call_name(traced.last.call), "put");
    assert_string_equal(traced.key, "a\nb");
    assert_true(traced.last.if_absent && traced.last.status == HF_OK && traced.last.etag);
    assert_int_equal(traced.last.sent_bytes, 2);
    assert_string_equal(traced.why, "");
    IS(HF_CONFLICT,
       hf_store_put(place->store, "a\nb", "12", 2, &condition, NULL, &place->error));
    assert_int_equal(traced.last.status, HF_CONFLICT);
    assert_string_equal(traced.why, "the object exists already");
    condition.if_absent = false;
    condition.if_match = "7f";
    IS(HF_CONFLICT,
       hf_store_put(place->store, "a\nb", "12", 2, &condition, NULL, &place->error));
    assert_string_equal(traced.if_match, "7f");
}

static void a_store_opened_for_clients_is_asked_once(void **state)
{
    struct place *place = *state;
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct hf_client *client;
    struct traced traced = { .count = 0 };
    options.coordinates = true;
    options.trace = see_request;
    options.trace_argument = &traced;
    hf_store_close(place->store);
    open_with(place, &options);
    assert_int_equal(traced.count, 1);
    OK(hf_client_open_on(place->store, NULL, &client, &place->error));
    assert_int_equal(traced.count, 1);
    hf_client_close(client);
}

static void an_unknown_feature_of_the_bucket_is_unsupported(void **state)
{
    struct place *place = *state;
    struct hf_store_put_options force = HF_STORE_PUT_OPTIONS;
    struct hf_client *client;
    const char *format =
        "{\"format\": \"holdfast.bucket/1\", \"features\": {\"compatible\": [], "
        "\"read_only\": [], \"incompatible\": [\"from-the-future\"]}}";
    force.force = true;
    OK(hf_store_put(place->store, ".holdfast/format.json", format, strlen(format), &force, NULL,
                    &place->error));
    IS(HF_UNSUPPORTED, hf_client_open_on(place->store, NULL, &client, &place->error));
    assert_null(client);
    assert_non_null(strstr(place->error.why, "from-the-future"));
}

/* ---- The probe, the clock, restores -------------------------------------------------- */

static bool count_findings(void *argument, const struct hf_store_finding *finding)
{
    uint32_t *count = argument;
    assert_true(finding->what[0] != '\0');
    assert_string_not_equal(hf_finding_name(finding->finding), "refused");
    ++*count;
    return true;
}

static void the_probe_accepts_this_store(void **state)
{
    struct place *place = *state;
    struct hf_store_probe_options options = HF_STORE_PROBE_OPTIONS;
    struct hf_store_probe_report report = HF_STORE_PROBE_REPORT;
    uint32_t count = 0;
    options.each = count_findings;
    options.argument = &count;
    options.no_save = true;
    OK(hf_store_probe(place->store, &options, &report, &place->error));
    assert_true(report.usable && report.findings == count && count > 5 && report.requests > 10);
    assert_true(report.delete_conditional && report.etag_fresh && report.list_ordered);
    assert_lists(place, "", NULL, ""); /* it cleans up, and was told not to keep it */
    OK(hf_store_probe(place->store, NULL, NULL, &place->error));
    assert_lists(place, "", NULL, ".holdfast/format.json ");
}

static void a_local_store_has_the_clock_of_the_machine(void **state)
{
    struct place *place = *state;
    struct hf_store_clock_report report = HF_STORE_CLOCK_REPORT;
    OK(hf_store_clock(place->store, &report, &place->error));
    assert_int_equal(report.kind, HF_STORE_CLOCK_BOOT);
    assert_string_equal(hf_store_clock_name(report.kind), "boot");
    assert_true(report.known && report.id[0] != '\0' && report.since_boot_us > 0);
    assert_true(report.earliest_us == report.latest_us && report.sample_count == 0);
    report = (struct hf_store_clock_report){ 0 };
    IS(HF_INVALID, hf_store_clock(place->store, &report, &place->error));
}

struct restored {
    size_t namespaces, tables, stop_after;
    uint64_t epoch;
};

static bool see_restored(void *argument, const struct hf_store_restored_info *info)
{
    struct restored *seen = argument;
    assert_true(!info->ns != !info->table);
    seen->namespaces += info->ns != NULL;
    seen->tables += info->table != NULL;
    if (info->ns)
        seen->epoch = info->epoch;
    return seen->namespaces + seen->tables != seen->stop_after;
}

static void after_a_restore_nothing_is_granted_and_tokens_are_higher(void **state)
{
    struct place *place = *state;
    struct hf_store_restored_options options = HF_STORE_RESTORED_OPTIONS;
    struct hf_store_restored_report report = HF_STORE_RESTORED_REPORT;
    struct restored seen = { 0 };
    struct hf_client *client;
    struct hf_lock *lock;
    OK(hf_client_open_on(place->store, NULL, &client, &place->error));
    OK(hf_lock_new(client, "deploy", NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    OK(hf_lock_release(lock, &place->error));
    options.each = see_restored;
    options.argument = &seen;
    options.dry_run = true;
    OK(hf_store_restored(place->store, &options, &report, &place->error));
    assert_true(seen.namespaces == 1 && report.namespaces == 1 && report.tables == seen.tables);
    OK(hf_lock_acquire(lock, 0, &place->error)); /* nothing was changed */
    OK(hf_lock_release(lock, &place->error));
    options.dry_run = false;
    seen = (struct restored){ .stop_after = 1 };
    IS(HF_CANCELLED, hf_store_restored(place->store, &options, NULL, &place->error));
    seen = (struct restored){ 0 };
    OK(hf_store_restored(place->store, &options, &report, &place->error));
    assert_true(report.tables >= 1 && report.barrier_ms >= 1000 && seen.epoch > 4096);
    IS(HF_HELD, hf_lock_acquire(lock, 0, &place->error));
    options.ns = "no/slash";
    IS(HF_INVALID, hf_store_restored(place->store, &options, &report, &place->error));
    hf_lock_free(lock);
    hf_client_close(client);
}

static bool see_epoch(void *argument, const struct hf_store_epoch_info *info)
{
    struct hf_store_epoch_info *seen = argument;
    *seen = *info;
    seen->ns = NULL;
    return true;
}

static void an_epoch_is_never_written_lower(void **state)
{
    struct place *place = *state;
    struct hf_store_epoch_info seen = { 0 };
    struct hf_client *client;
    struct hf_lock *lock;
    OK(hf_client_open_on(place->store, NULL, &client, &place->error));
    OK(hf_lock_new(client, "deploy", NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    uint64_t token = hf_lock_token(lock);
    OK(hf_store_repair_epoch(place->store, NULL, see_epoch, &seen, &place->error));
    assert_true(seen.known && !seen.lost && seen.epoch >= seen.epoch_before);
    assert_true(seen.epoch >= token >> 32 && seen.highest_token >= token);
    OK(hf_store_repair_epoch(place->store, "default", see_epoch, &seen, &place->error));
    assert_true(seen.epoch >= token >> 32);
    IS(HF_INVALID, hf_store_repair_epoch(place->store, "A B", NULL, NULL, &place->error));
    hf_lock_free(lock);
    hf_client_close(client);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(urls_are_told_from_other_texts),
        CASE(a_url_is_made_absolute),
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
        CASE(a_listing_goes_on_over_its_pages),
        CASE(an_object_is_copied_and_left_alone_when_it_is_equal),
        CASE(a_copy_that_makes_no_sense_is_refused),
        CASE(all_objects_of_a_prefix_go_to_another_store),
        CASE(a_copy_that_is_stopped_goes_on_with_the_next_call),
        CASE(holdfasts_own_objects_are_copied_only_where_there_are_none),
        CASE(clients_share_a_store_and_keep_it),
        CASE(a_client_lends_its_store),
        CASE(the_trace_tells_each_call),
        CASE(a_store_opened_for_clients_is_asked_once),
        CASE(an_unknown_feature_of_the_bucket_is_unsupported),
        CASE(the_probe_accepts_this_store),
        CASE(a_local_store_has_the_clock_of_the_machine),
        CASE(after_a_restore_nothing_is_granted_and_tokens_are_higher),
        CASE(an_epoch_is_never_written_lower),
    };
    if (argc != 2)
        return 2;
    kind = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
