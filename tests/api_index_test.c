/* SPDX-License-Identifier: Apache-2.0 */
/* api_index_test.c KIND: the promises of holdfast/index.h about indexes, records, queries and
 * threads, tested through the public headers only. KIND is mem or sqlite. */
#include "api_index_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Creating ------------------------------------------------------------------------ */

static void an_index_is_created_found_again_and_extended(void **state)
{
    struct place *place = *state;
    struct hf_index_options options = hosts_options(3);
    struct hf_index_info info = HF_INDEX_INFO;
    struct hf_index *index;
    enum hf_index_made made;
    OK(hf_index_create(place->client, "hosts", &options, &made, &index, &place->error));
    assert_string_equal(hf_index_made_name(made), "created");
    hf_index_close(index);
    options.digits = 0; /* as in the index that is there */
    OK(hf_index_create(place->client, "hosts", &options, &made, &index, &place->error));
    assert_int_equal(made, HF_INDEX_UNCHANGED);
    hf_index_close(index);
    options.field_count = 4;
    OK(hf_index_create(place->client, "hosts", &options, &made, &index, &place->error));
    assert_int_equal(made, HF_INDEX_EXTENDED);
    OK(hf_index_describe(index, &info, &place->error));
    assert_int_equal(info.field_count, 4);
    assert_int_equal(info.version, 2);
    assert_int_equal(info.shards, 16);
    assert_int_equal(info.digits, 1);
    assert_true(info.foreign);
    assert_string_equal(hf_index_field_name(index, info.key), "host");
    assert_string_equal(hf_index_field_name(index, info.time), "seen");
    assert_null(hf_index_field_name(index, 4));
    hf_index_close(index);
}

static void another_index_of_the_same_name_is_refused(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place), *other;
    struct hf_index_options options = hosts_options(3);
    options.key = "owner";
    IS(HF_INVALID,
       hf_index_create(place->client, "hosts", &options, NULL, &other, &place->error));
    assert_null(other);
    options = hosts_options(3);
    options.digits = 5;
    IS(HF_INVALID,
       hf_index_create(place->client, "others", &options, NULL, &other, &place->error));
    options = hosts_options(0);
    IS(HF_INVALID,
       hf_index_create(place->client, "others", &options, NULL, &other, &place->error));
    options = hosts_options(3);
    IS(HF_INVALID,
       hf_index_create(place->client, "No Name", &options, NULL, &other, &place->error));
    options.time = "host";
    IS(HF_INVALID,
       hf_index_create(place->client, "others", &options, NULL, &other, &place->error));
    IS(HF_NOT_FOUND, hf_index_open(place->client, "others", &other, &place->error));
    assert_null(other);
    IS(HF_INVALID, hf_index_open(place->client, "No Name", &other, &place->error));
    hf_index_close(index);
}

#define NAMES_TEXT_MAX 100
static bool note_name(void *argument, const char *name)
{
    char *text = argument;
    snprintf(text + strlen(text), NAMES_TEXT_MAX - strlen(text), "%s ", name);
    return strcmp(name, "middle") != 0;
}

static void indexes_are_listed_until_it_is_enough(void **state)
{
    struct place *place = *state;
    static const char *const names[] = { "first", "middle", "zlast" };
    struct hf_index_options options = hosts_options(3);
    char text[NAMES_TEXT_MAX] = "";
    OK(hf_index_list(place->client, note_name, text, &place->error));
    assert_string_equal(text, "");
    for (int i = 0; i < 3; i++) {
        struct hf_index *index;
        OK(hf_index_create(place->client, names[i], &options, NULL, &index, &place->error));
        hf_index_close(index);
    }
    OK(hf_index_list(place->client, note_name, text, &place->error));
    assert_string_equal(text, "first middle ");
}

static void an_unknown_field_is_told_with_those_that_there_are(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    size_t field = 77;
    OK(hf_index_find_field(index, "owner", &field, &place->error));
    assert_int_equal(field, 1);
    IS(HF_INVALID, hf_index_find_field(index, "ownr", &field, &place->error));
    assert_non_null(strstr(place->error.why, "did you mean 'owner'"));
    assert_non_null(strstr(place->error.why, "host, owner, seen"));
    assert_int_equal(field, 1);
    hf_index_close(index);
}

/* ---- Putting and getting ------------------------------------------------------------- */

static void the_latest_record_of_a_key_counts_in_any_order(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_record *record;
    OK(hosts_put(place, index, "a.example", "new", T2));
    OK(hosts_put(place, index, "a.example", "old", T1));
    assert_owner(place, index, "a.example", "new");
    OK(hf_index_compile(index, NULL, NULL, &place->error));
    assert_owner(place, index, "a.example", "new");
    OK(hosts_put(place, index, "a.example", "old", T1));
    OK(hosts_put(place, index, "a.example", "new", T2));
    assert_owner(place, index, "a.example", "new");
    IS(HF_NOT_FOUND, hf_index_get(index, "b.example", &record, &place->error));
    assert_null(record);
    hf_index_close(index);
}

static void a_record_without_a_time_is_of_now(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    const struct hf_index_value values[] = { { "host", "a.example" } };
    struct hf_index_record *record;
    OK(hosts_put(place, index, "a.example", "ada", T1));
    OK(hf_index_put(index, values, 1, &place->error));
    OK(hf_index_get(index, "a.example", &record, &place->error));
    assert_string_equal(hf_index_record_value(record, "owner", NULL), "");
    assert_int_equal(strlen(hf_index_record_value(record, "seen", NULL)),
                     strlen("2026-02-06T10:00:00.000000Z"));
    hf_index_record_free(record);
    hf_index_close(index);
}

static void what_is_no_record_is_invalid_and_none_is_put(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    const struct hf_index_value good[] = { { "host", "a" }, { "seen", T1 } };
    const struct hf_index_value no_key[] = { { "owner", "ada" } };
    const struct hf_index_value no_time[] = { { "host", "b" }, { "seen", "soon" } };
    const struct hf_index_value twice[] = { { "host", "b" }, { "host", "c" } };
    const struct hf_index_value unknown[] = { { "hst", "b" } };
    const struct hf_index_row bad[] = {
        { no_key, 1 }, { no_time, 2 }, { twice, 2 }, { unknown, 1 }
    };
    uint64_t count;
    for (size_t i = 0; i < 4; i++) {
        const struct hf_index_row rows[] = { { good, 2 }, bad[i], { no_key, 1 } };
        size_t wrong = 77;
        IS(HF_INVALID, hf_index_put_many(index, rows, 3, &wrong, &place->error));
        assert_int_equal(wrong, 1);
        IS(HF_INVALID, hf_index_put(index, bad[i].values, bad[i].count, &place->error));
    }
    OK(hf_index_count(index, NULL, &count, &place->error));
    assert_int_equal(count, 0);
    OK(hf_index_put_many(index, NULL, 0, NULL, &place->error));
    OK(hf_index_put_records(index, NULL, 0, NULL, &place->error));
    hf_index_close(index);
}

static void many_records_are_put_as_bytes_all_or_none_when_one_is_wrong(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    enum { MANY = 3000 };
    static char texts[MANY][64];
    static struct hf_index_bytes records[MANY];
    uint64_t count;
    size_t wrong = 77;
    for (size_t i = 0; i < MANY; i++) {
        int size = snprintf(texts[i], sizeof texts[i],
                            "h%zu\x1f"
                            "ada\x1f" T1,
                            i);
        records[i] = (struct hf_index_bytes){ texts[i], (size_t)size };
    }
    records[MANY - 1].size = 3;
    IS(HF_INVALID, hf_index_put_records(index, records, MANY, &wrong, &place->error));
    assert_int_equal(wrong, MANY - 1);
    OK(hf_index_count(index, NULL, &count, &place->error));
    assert_int_equal(count, 0);
    OK(hf_index_put_records(index, records, 2500, NULL, &place->error));
    OK(hf_index_count(index, NULL, &count, &place->error));
    assert_int_equal(count, 2500);
    hf_index_close(index);
}

static void any_byte_of_a_value_comes_back(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    /* a NUL in the owner, written as ESC @ */
    static const char bytes[] = "a.example\x1f"
                                "x\x1b@y\x1f" T1;
    const struct hf_index_bytes one = { bytes, sizeof bytes - 1 };
    struct hf_index_record *record;
    size_t size;
    OK(hf_index_put_records(index, &one, 1, NULL, &place->error));
    OK(hosts_put(place, index, "b.example", "line\nquote\"tab\tus\x1f,", T1));
    OK(hf_index_get(index, "a.example", &record, &place->error));
    const char *owner = hf_index_record_value(record, "owner", &size);
    const char *host = hf_index_record_value(record, "host", NULL);
    assert_int_equal(size, 3);
    assert_memory_equal(owner, "x\0y", 4);
    assert_string_equal(host, "a.example");
    assert_null(hf_index_record_value(record, "nothing", &size));
    hf_index_record_free(record);
    assert_owner(place, index, "b.example", "line\nquote\"tab\tus\x1f,");
    hf_index_close(index);
}

static void fields_that_others_have_added_are_noticed(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place), *later;
    struct hf_index_options options = hosts_options(4);
    const char *name = hf_index_field_name(index, 0);
    const struct hf_index_value values[] = { { "host", "a" }, { "note", "n" }, { "seen", T1 } };
    OK(hf_index_create(place->client, "hosts", &options, NULL, &later, &place->error));
    assert_null(hf_index_field_name(index, 3));
    OK(hf_index_put(index, values, 3, &place->error));
    assert_string_equal(hf_index_field_name(index, 3), "note");
    assert_ptr_equal(hf_index_field_name(index, 0), name);
    hf_index_close(later);
    hf_index_close(index);
}

/* ---- Queries ------------------------------------------------------------------------- */

static void queries_filter_by_prefix_time_field_and_shard(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    static const char shards[] = "0123456789abcdef";
    const struct hf_index_condition of_ada[] = { { "owner", "ada", false } };
    const struct hf_index_condition not_ada[] = { { "owner", "ada", true },
                                                  { "host", "b2", true } };
    size_t all = 0;
    OK(hosts_put(place, index, "a1", "ada", T1));
    OK(hosts_put(place, index, "a2", "joe", T2));
    OK(hosts_put(place, index, "b1", "joe", T1));
    OK(hf_index_compile(index, NULL, NULL, &place->error));
    OK(hosts_put(place, index, "b2", "joe", T2));
    OK(hosts_put(place, index, "a1", "ada", "2026-02-06T11:00:00+01:00"));
    struct hf_index_query query = HF_INDEX_QUERY;
    assert_string_equal(hosts_found(place, index, NULL), "a1 a2 b1 b2");
    assert_string_equal(hosts_found(place, index, &query), "a1 a2 b1 b2");
    query.prefix = "a";
    assert_string_equal(hosts_found(place, index, &query), "a1 a2");
    query.since = T2;
    assert_string_equal(hosts_found(place, index, &query), "a2");
    query.prefix = NULL;
    assert_string_equal(hosts_found(place, index, &query), "a2 b2");
    query.since = NULL;
    query.where = of_ada;
    query.where_count = 1;
    assert_string_equal(hosts_found(place, index, &query), "a1");
    query.where = not_ada;
    query.where_count = 2;
    assert_string_equal(hosts_found(place, index, &query), "a2 b1");
    query = HF_INDEX_QUERY;
    for (size_t i = 0; i < 16; i++) {
        const char shard[] = { shards[i], '\0' };
        uint64_t count;
        query.shard = shard;
        OK(hf_index_count(index, &query, &count, &place->error));
        all += count;
    }
    assert_int_equal(all, 4);
    hf_index_close(index);
}

static void queries_that_make_no_sense_are_invalid(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_cursor *cursor;
    uint64_t count;
    const struct hf_index_condition unknown[] = { { "ownr", "ada", false } };
    for (int i = 0; i < 6; i++) {
        struct hf_index_query query = HF_INDEX_QUERY;
        query.since = i == 0 ? "yesterday" : NULL;
        query.shard = i == 1 ? "00" : i == 2 ? "g" : i == 3 ? "" : NULL;
        query.where = unknown;
        query.where_count = i == 4 ? 1 : i == 5 ? HF_INDEX_WHERE_MAX + 1 : 0;
        IS(HF_INVALID, hf_index_cursor_open(index, &query, &cursor, &place->error));
        assert_null(cursor);
        IS(HF_INVALID, hf_index_count(index, &query, &count, &place->error));
        IS(HF_INVALID, hf_index_export(index, &query, 1, HF_INDEX_USV, NULL, &place->error));
    }
    IS(HF_INVALID, hf_index_export(index, NULL, 1, HF_INDEX_FORMAT_COUNT, NULL, &place->error));
    hf_index_close(index);
}

static bool stop_second(void *argument, const struct hf_index_progress *so_far)
{
    assert_int_equal(so_far->shards_read, ++*(int *)argument);
    return *(int *)argument < 2;
}

static void progress_cancels_a_walk(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_query query = HF_INDEX_QUERY;
    struct hf_index_cursor *cursor;
    struct hf_index_record *record;
    struct hf_index_progress progress = HF_INDEX_PROGRESS;
    enum hf_status status;
    int calls = 0;
    uint64_t count;
    hosts_put_forty(place, index);
    query.progress = stop_second;
    query.argument = &calls;
    IS(HF_CANCELLED, hf_index_count(index, &query, &count, &place->error));
    calls = 0;
    int fd = place_file(place, "");
    IS(HF_CANCELLED,
       hf_index_export(index, &query, fd, HF_INDEX_USV, &progress, &place->error));
    assert_int_equal(progress.shards_read, 2);
    close(fd);
    calls = 0;
    OK(hf_index_cursor_open(index, &query, &cursor, &place->error));
    hf_index_close(index); /* a cursor lives on */
    while ((status = hf_index_cursor_next(cursor, &record, &place->error)) == HF_OK)
        continue;
    assert_int_equal(status, HF_CANCELLED);
    assert_null(record);
    IS(HF_NOT_FOUND, hf_index_cursor_next(cursor, &record, &place->error));
    hf_index_cursor_close(cursor);
}

/* ---- Threads and lifetimes ----------------------------------------------------------- */

#define THREADS 4
#define EACH    25

struct worker {
    struct hf_index *index;
    int number;
    pthread_t thread;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    char key[16];
    for (int i = 0; i < EACH; i++) {
        struct hf_index_record *record = NULL;
        snprintf(key, sizeof key, "w%d-%d", worker->number, i);
        const struct hf_index_value values[] = { { "host", key }, { "seen", T1 } };
        if (hf_index_put(worker->index, values, 2, NULL) != HF_OK ||
            hf_index_get(worker->index, key, &record, NULL) != HF_OK)
            return NULL;
        hf_index_record_free(record);
        if (worker->number == 0 && hf_index_compile(worker->index, NULL, NULL, NULL) != HF_OK)
            return NULL;
    }
    return worker;
}

static void one_handle_serves_many_threads(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct worker workers[THREADS];
    uint64_t count;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .index = index, .number = i };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *done;
        pthread_join(workers[i].thread, &done);
        assert_non_null(done);
    }
    OK(hf_index_count(index, NULL, &count, &place->error));
    assert_int_equal(count, THREADS * EACH);
    hf_index_close(index);
}

static void an_index_a_cursor_and_a_record_outlive_the_client(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_cursor *cursor;
    struct hf_index_record *record, *next;
    OK(hosts_put(place, index, "a", "ada", T1));
    OK(hf_index_get(index, "a", &record, &place->error));
    OK(hf_index_cursor_open(index, NULL, &cursor, &place->error));
    hf_client_close(place->client);
    place->client = NULL;
    assert_owner(place, index, "a", "ada");
    hf_index_close(index);
    OK(hf_index_cursor_next(cursor, &next, &place->error));
    hf_index_cursor_close(cursor);
    assert_string_equal(hf_index_record_value(record, "owner", NULL), "ada");
    hf_index_record_free(record);
}

static void structs_that_were_not_initialised_are_invalid(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place), *other;
    struct hf_index_options options = { .struct_size = 0 };
    struct hf_index_query query = { .struct_size = 0 };
    struct hf_index_load_report loaded = { .struct_size = 0 };
    struct hf_index_stats stats = { .struct_size = 0 };
    struct hf_index_info info = { .struct_size = 0 };
    uint64_t count;
    IS(HF_INVALID, hf_index_create(place->client, "x", &options, NULL, &other, &place->error));
    IS(HF_INVALID, hf_index_count(index, &query, &count, &place->error));
    IS(HF_INVALID, hf_index_load(index, 0, HF_INDEX_CSV, NULL, &loaded, &place->error));
    IS(HF_INVALID, hf_index_status(index, NULL, &stats, &place->error));
    IS(HF_INVALID, hf_index_describe(index, &info, &place->error));
    assert_non_null(strstr(place->error.why, "HF_INDEX_INFO"));
    hf_index_close(index);
}

/* More keys than are deleted in one batch; the last one is not valid. */
static void a_key_that_is_not_valid_deletes_nothing(void **state)
{
    enum { COUNT = 1500 };
    static const char *const wrong[] = { "\xff", "" };
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    const char *keys[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        keys[i] = "a";
    IS(HF_OK, hosts_put(place, index, "a", "ada", T1));
    for (size_t i = 0; i < 2; i++) {
        size_t bad = 0;
        keys[COUNT - 1] = wrong[i];
        IS(HF_INVALID, hf_index_delete(index, keys, COUNT, T2, &bad, &place->error));
        assert_int_equal(bad, COUNT - 1);
        assert_owner(place, index, "a", "ada");
    }
    keys[COUNT - 1] = "b";
    IS(HF_OK, hf_index_delete(index, keys, COUNT, T2, NULL, &place->error));
    struct hf_index_record *record;
    IS(HF_NOT_FOUND, hf_index_get(index, "a", &record, &place->error));
    hf_index_close(index);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_is_created_found_again_and_extended),
        cmocka_unit_test(another_index_of_the_same_name_is_refused),
        cmocka_unit_test(indexes_are_listed_until_it_is_enough),
        cmocka_unit_test(an_unknown_field_is_told_with_those_that_there_are),
        cmocka_unit_test(the_latest_record_of_a_key_counts_in_any_order),
        cmocka_unit_test(a_record_without_a_time_is_of_now),
        cmocka_unit_test(what_is_no_record_is_invalid_and_none_is_put),
        cmocka_unit_test(a_key_that_is_not_valid_deletes_nothing),
        cmocka_unit_test(many_records_are_put_as_bytes_all_or_none_when_one_is_wrong),
        cmocka_unit_test(any_byte_of_a_value_comes_back),
        cmocka_unit_test(fields_that_others_have_added_are_noticed),
        cmocka_unit_test(queries_filter_by_prefix_time_field_and_shard),
        cmocka_unit_test(queries_that_make_no_sense_are_invalid),
        cmocka_unit_test(progress_cancels_a_walk),
        cmocka_unit_test(one_handle_serves_many_threads),
        cmocka_unit_test(an_index_a_cursor_and_a_record_outlive_the_client),
        cmocka_unit_test(structs_that_were_not_initialised_are_invalid),
    };
    return place_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
