/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_index_test.c: a NULL for a pointer of a call of holdfast/index.h is INVALID. */
#include "holdfast.h"

#include "public_calls_kit.h"
#include "test.h"

struct good {
    struct hf_client *client;
    struct hf_index *index;
    struct hf_index_cursor *cursor;
};

static const char *const fields[] = { "k", "t" };
static const char *const with_null[] = { "k", NULL };

static bool see_name(void *argument, const char *name)
{
    (void)argument, (void)name;
    return true;
}

static struct hf_index_options good_options(void)
{
    struct hf_index_options options = HF_INDEX_OPTIONS;
    options.fields = fields;
    options.field_count = 2;
    options.key = "k";
    options.time = "t";
    return options;
}

/* The last four are those of its options. */
static int index_create(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_index *index = FILLED(hf_index);
    struct hf_index_options options = good_options();
    if (argument > 7)
        return -1;
    options.fields = LEFT_OUT(4, argument == 5 ? with_null : fields);
    options.key = LEFT_OUT(6, options.key);
    options.time = LEFT_OUT(7, options.time);
    int status = (int)hf_index_create(LEFT_OUT(0, good->client), LEFT_OUT(1, "x"),
                                      LEFT_OUT(2, &options), NULL, LEFT_OUT(3, &index), error);
    assert_true(argument == 3 || index == NULL);
    return status;
}

static int index_open(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_index *index = FILLED(hf_index);
    if (argument > 2)
        return -1;
    int status = (int)hf_index_open(LEFT_OUT(0, good->client), LEFT_OUT(1, "x"),
                                    LEFT_OUT(2, &index), error);
    assert_true(argument == 2 || index == NULL);
    return status;
}

static int index_list(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_index_list(LEFT_OUT(0, good->client), LEFT_OUT(1, see_name), NULL, error);
}

static int index_describe(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_index_info info = HF_INDEX_INFO;
    if (argument > 1)
        return -1;
    return (int)hf_index_describe(LEFT_OUT(0, good->index), LEFT_OUT(1, &info), error);
}

static int find_field(const struct good *good, int argument, struct hf_error *error)
{
    size_t field;
    if (argument > 2)
        return -1;
    return (int)hf_index_find_field(LEFT_OUT(0, good->index), LEFT_OUT(1, "k"),
                                    LEFT_OUT(2, &field), error);
}

static int index_put(const struct good *good, int argument, struct hf_error *error)
{
    const struct hf_index_value values[] = { { LEFT_OUT(2, "k"), LEFT_OUT(3, "v") } };
    if (argument > 3)
        return -1;
    return (int)hf_index_put(LEFT_OUT(0, good->index), LEFT_OUT(1, values), 1, error);
}

static int put_many(const struct good *good, int argument, struct hf_error *error)
{
    const struct hf_index_value values[] = { { "k", "v" } };
    const struct hf_index_row rows[] = { { LEFT_OUT(2, values), 1 } };
    if (argument > 2)
        return -1;
    return (int)hf_index_put_many(LEFT_OUT(0, good->index), LEFT_OUT(1, rows), 1, NULL, error);
}

static int put_records(const struct good *good, int argument, struct hf_error *error)
{
    const struct hf_index_bytes records[] = { { LEFT_OUT(2, "v\x1f"
                                                            "7"),
                                                3 } };
    if (argument > 2)
        return -1;
    return (int)hf_index_put_records(LEFT_OUT(0, good->index), LEFT_OUT(1, records), 1, NULL,
                                     error);
}

static int index_load(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_index_load(NULL, 0, HF_INDEX_CSV, NULL, NULL, error);
}

static int index_get(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_index_record *record = FILLED(hf_index_record);
    if (argument > 2)
        return -1;
    int status = (int)hf_index_get(LEFT_OUT(0, good->index), LEFT_OUT(1, "k"),
                                   LEFT_OUT(2, &record), error);
    assert_true(argument == 2 || record == NULL);
    return status;
}

static bool see_got(void *argument, size_t number, struct hf_index_record *record,
                    const struct hf_error *why)
{
    (void)argument;
    (void)number;
    (void)record;
    (void)why;
    return true;
}

static int index_get_many(const struct good *good, int argument, struct hf_error *error)
{
    const char *const keys[] = { LEFT_OUT(3, "k") };
    if (argument > 3)
        return -1;
    return (int)hf_index_get_many(LEFT_OUT(0, good->index), LEFT_OUT(1, keys), 1,
                                  LEFT_OUT(2, see_got), NULL, error);
}

static int index_delete(const struct good *good, int argument, struct hf_error *error)
{
    const char *const keys[] = { LEFT_OUT(2, "k") };
    if (argument > 2)
        return -1;
    return (int)hf_index_delete(LEFT_OUT(0, good->index), LEFT_OUT(1, keys), 1, NULL, NULL,
                                error);
}

static int index_drop(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_index_drop(LEFT_OUT(0, good->client), LEFT_OUT(1, "things"), NULL, NULL,
                              error);
}

static int index_header(const struct good *good, int argument, struct hf_error *error)
{
    char *text;
    if (argument > 1)
        return -1;
    return (int)hf_index_header(LEFT_OUT(0, good->index), HF_INDEX_CSV, LEFT_OUT(1, &text),
                                error);
}

/* The last three are those of its conditions. */
static int cursor_open(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_index_cursor *cursor = FILLED(hf_index_cursor);
    const struct hf_index_condition where[] = { { LEFT_OUT(3, "k"), LEFT_OUT(4, "v"), false } };
    struct hf_index_query query = HF_INDEX_QUERY;
    if (argument > 4)
        return -1;
    query.where = LEFT_OUT(2, where);
    query.where_count = 1;
    int status = (int)hf_index_cursor_open(LEFT_OUT(0, good->index), &query,
                                           LEFT_OUT(1, &cursor), error);
    assert_true(argument == 1 || cursor == NULL);
    return status;
}

static int cursor_next(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_index_record *record = FILLED(hf_index_record);
    if (argument > 1)
        return -1;
    int status =
        (int)hf_index_cursor_next(LEFT_OUT(0, good->cursor), LEFT_OUT(1, &record), error);
    assert_true(argument == 1 || record == NULL);
    return status;
}

static int cursor_progress(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_index_progress progress = HF_INDEX_PROGRESS;
    if (argument > 1)
        return -1;
    return (int)hf_index_cursor_progress(LEFT_OUT(0, good->cursor), LEFT_OUT(1, &progress),
                                         error);
}

static int index_count(const struct good *good, int argument, struct hf_error *error)
{
    uint64_t count;
    if (argument > 1)
        return -1;
    return (int)hf_index_count(LEFT_OUT(0, good->index), NULL, LEFT_OUT(1, &count), error);
}

static int index_export(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_index_export(NULL, NULL, 1, HF_INDEX_CSV, NULL, error);
}

static int index_compile(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_index_compile(NULL, NULL, NULL, error);
}

static int index_status(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_index_stats stats = HF_INDEX_STATS;
    if (argument > 1)
        return -1;
    return (int)hf_index_status(LEFT_OUT(0, good->index), NULL, LEFT_OUT(1, &stats), error);
}

static const struct public_call_row calls[] = {
    { "hf_index_create", index_create },
    { "hf_index_open", index_open },
    { "hf_index_list", index_list },
    { "hf_index_describe", index_describe },
    { "hf_index_find_field", find_field },
    { "hf_index_put", index_put },
    { "hf_index_drop", index_drop },
    { "hf_index_get_many", index_get_many },
    { "hf_index_delete", index_delete },
    { "hf_index_put_many", put_many },
    { "hf_index_put_records", put_records },
    { "hf_index_load", index_load },
    { "hf_index_get", index_get },
    { "hf_index_header", index_header },
    { "hf_index_cursor_open", cursor_open },
    { "hf_index_cursor_next", cursor_next },
    { "hf_index_count", index_count },
    { "hf_index_export", index_export },
    { "hf_index_compile", index_compile },
    { "hf_index_status", index_status },
    { "hf_index_cursor_progress", cursor_progress },
};

/* Those that give no status, or take no pointer. */
static const char *const others[] = {
    "hf_index_made_name",    "hf_index_close",          "hf_index_field_name",
    "hf_index_format_name",  "hf_index_format_of_path", "hf_index_record_free",
    "hf_index_record_value", "hf_index_record_text",    "hf_index_cursor_close",
    "hf_index_end_name",
};

static void null_for_any_pointer_of_any_call_is_invalid_and_says_which(void **state)
{
    (void)state;
    struct good good;
    const struct hf_index_options options = good_options();
    assert_int_equal(hf_client_open("mem:", NULL, &good.client, NULL), HF_OK);
    assert_int_equal(hf_index_create(good.client, "x", &options, NULL, &good.index, NULL),
                     HF_OK);
    assert_int_equal(hf_index_cursor_open(good.index, NULL, &good.cursor, NULL), HF_OK);
    assert_null_is_invalid(calls, sizeof calls / sizeof *calls, &good);
    hf_index_cursor_close(good.cursor);
    hf_index_close(good.index);
    hf_client_close(good.client);
}

static void calls_without_a_status_take_null(void **state)
{
    (void)state;
    enum hf_index_format format;
    size_t size;
    hf_index_close(NULL);
    hf_index_record_free(NULL);
    hf_index_cursor_close(NULL);
    assert_null(hf_index_field_name(NULL, 0));
    assert_null(hf_index_record_value(NULL, "k", NULL));
    assert_null(hf_index_record_text(NULL, HF_INDEX_CSV, true, &size));
    assert_false(hf_index_format_of_path(NULL, &format));
    assert_false(hf_index_format_of_path("x.csv", NULL));
}

static void no_call_of_the_header_is_left_out_here(void **state)
{
    (void)state;
    assert_calls_listed("index", calls, sizeof calls / sizeof *calls, others,
                        sizeof others / sizeof *others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_for_any_pointer_of_any_call_is_invalid_and_says_which),
        cmocka_unit_test(calls_without_a_status_take_null),
        cmocka_unit_test(no_call_of_the_header_is_left_out_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
