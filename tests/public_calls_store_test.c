/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_store_test.c: a NULL for a pointer of a call of holdfast/store.h is INVALID. */
#include "holdfast.h"

#include "public_calls_kit.h"
#include "test.h"

struct good {
    struct hf_store *store;
};

static const char *const names[] = { "a", "b" };
static const char *const with_null[] = { "a", NULL };

static bool see_entry(void *argument, const struct hf_store_entry *entry)
{
    (void)argument, (void)entry;
    return true;
}

static int store_open(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_store *store = FILLED(hf_store);
    (void)good;
    if (argument > 1)
        return -1;
    int status = (int)hf_store_open(LEFT_OUT(0, "mem:"), NULL, LEFT_OUT(1, &store), error);
    assert_true(argument == 1 || store == NULL);
    return status;
}

static int client_open_on(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_client *client = FILLED(hf_client);
    if (argument > 1)
        return -1;
    int status =
        (int)hf_client_open_on(LEFT_OUT(0, good->store), NULL, LEFT_OUT(1, &client), error);
    assert_true(argument == 1 || client == NULL);
    return status;
}

static int url_absolute(const struct good *good, int argument, struct hf_error *error)
{
    char url[HF_STORE_URL_MAX];
    (void)good;
    return argument > 1
               ? -1
               : (int)hf_store_url_absolute(LEFT_OUT(0, "mem:"), LEFT_OUT(1, url), error);
}

static int url_split(const struct good *good, int argument, struct hf_error *error)
{
    char store[HF_STORE_URL_MAX];
    const char *key;
    (void)good;
    return argument > 2 ? -1
                        : (int)hf_store_url_split(LEFT_OUT(0, "mem:#k"), LEFT_OUT(1, store),
                                                  LEFT_OUT(2, &key), error);
}

static int check_present(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_store_check_present(NULL, error);
}

static int check_key(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_store_check_key(NULL, 0, false, error);
}

static int store_get(const struct good *good, int argument, struct hf_error *error)
{
    void *data;
    size_t size;
    if (argument > 3)
        return -1;
    return (int)hf_store_get(LEFT_OUT(0, good->store), LEFT_OUT(1, "a"), 100, NULL,
                             LEFT_OUT(2, &data), LEFT_OUT(3, &size), NULL, error);
}

static int store_get_file(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_store_get_file(LEFT_OUT(0, good->store), LEFT_OUT(1, "a"), 0, NULL, NULL,
                                  error);
}

static int store_put(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 2)
        return -1;
    return (int)hf_store_put(LEFT_OUT(0, good->store), LEFT_OUT(1, "a"), LEFT_OUT(2, "x"), 1,
                             NULL, NULL, error);
}

static int store_put_file(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_store_put_file(LEFT_OUT(0, good->store), LEFT_OUT(1, "a"), 0, NULL, NULL,
                                  error);
}

static int store_delete(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_store_delete(LEFT_OUT(0, good->store), LEFT_OUT(1, "a"), NULL, error);
}

static int delete_many(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 2)
        return -1;
    return (int)hf_store_delete_many(LEFT_OUT(0, good->store),
                                     LEFT_OUT(1, argument == 2 ? with_null : names), NULL, 2,
                                     NULL, NULL, NULL, error);
}

static int store_list(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 2)
        return -1;
    return (int)hf_store_list(LEFT_OUT(0, good->store), LEFT_OUT(1, ""), NULL,
                              LEFT_OUT(2, see_entry), NULL, error);
}

static int store_copy(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 3)
        return -1;
    return (int)hf_store_copy(LEFT_OUT(0, good->store), LEFT_OUT(1, "a"),
                              LEFT_OUT(2, good->store), LEFT_OUT(3, "b"), NULL, NULL, error);
}

static int copy_all(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 3)
        return -1;
    return (int)hf_store_copy_all(LEFT_OUT(0, good->store), LEFT_OUT(1, "a"),
                                  LEFT_OUT(2, good->store), LEFT_OUT(3, "b"), NULL, NULL,
                                  error);
}

static int store_probe(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_store_probe(NULL, NULL, NULL, error);
}

static int store_scrub(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_store_scrub(NULL, NULL, NULL, error);
}

static int store_upgrade(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_store_upgrade(NULL, NULL, NULL, error);
}

static int store_clock(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_store_clock_report report = HF_STORE_CLOCK_REPORT;
    if (argument > 1)
        return -1;
    return (int)hf_store_clock(LEFT_OUT(0, good->store), LEFT_OUT(1, &report), error);
}

static int restored(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_store_restored(NULL, NULL, NULL, error);
}

static int repair_epoch(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_store_repair_epoch(NULL, NULL, NULL, NULL, error);
}

static int namespace_create(const struct good *good, int argument, struct hf_error *error)
{
    const struct hf_placement placement = { sizeof placement, 2, 1 };
    if (argument > 2)
        return -1;
    return (int)hf_namespace_create(LEFT_OUT(0, good->store), LEFT_OUT(1, "many"),
                                    LEFT_OUT(2, &placement), error);
}

static int namespace_placement(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_placement placement = HF_PLACEMENT;
    if (argument > 2)
        return -1;
    return (int)hf_namespace_placement(LEFT_OUT(0, good->store), LEFT_OUT(1, "many"),
                                       LEFT_OUT(2, &placement), error);
}

static const struct public_call_row calls[] = {
    { "hf_store_open", store_open },
    { "hf_client_open_on", client_open_on },
    { "hf_store_url_absolute", url_absolute },
    { "hf_store_check_present", check_present },
    { "hf_store_url_split", url_split },
    { "hf_store_check_key", check_key },
    { "hf_store_get", store_get },
    { "hf_store_get_file", store_get_file },
    { "hf_store_put", store_put },
    { "hf_store_put_file", store_put_file },
    { "hf_store_delete", store_delete },
    { "hf_store_delete_many", delete_many },
    { "hf_store_list", store_list },
    { "hf_store_copy", store_copy },
    { "hf_store_copy_all", copy_all },
    { "hf_store_probe", store_probe },
    { "hf_store_scrub", store_scrub },
    { "hf_store_upgrade", store_upgrade },
    { "hf_store_clock", store_clock },
    { "hf_store_restored", restored },
    { "hf_store_repair_epoch", repair_epoch },
    { "hf_namespace_create", namespace_create },
    { "hf_namespace_placement", namespace_placement },
};

/* Those that give no status, or take no pointer. */
static const char *const others[] = {
    "hf_store_is_url", "hf_store_call_name",  "hf_store_close",     "hf_client_store",
    "hf_finding_name", "hf_store_clock_name", "hf_scrub_kind_name", "hf_scrub_kind_text",
};

static void null_for_any_pointer_of_any_call_is_invalid_and_says_which(void **state)
{
    (void)state;
    struct good good;
    assert_int_equal(hf_store_open("mem:", NULL, &good.store, NULL), HF_OK);
    assert_null_is_invalid(calls, sizeof calls / sizeof *calls, &good);
    hf_store_close(good.store);
}

static void calls_without_a_status_take_null(void **state)
{
    (void)state;
    hf_store_close(NULL);
    assert_null(hf_client_store(NULL));
    assert_false(hf_store_is_url(NULL));
}

static void a_number_that_no_table_has_is_unknown(void **state)
{
    (void)state;
    int number = 1000; /* as a later version may have it */
    assert_string_equal(hf_store_call_name((enum hf_store_call)number), "unknown");
    assert_string_equal(hf_finding_name((enum hf_finding)number), "unknown");
    assert_string_equal(hf_store_clock_name((enum hf_store_clock)number), "unknown");
}

static void no_bytes_may_be_at_null(void **state)
{
    (void)state;
    struct hf_store *store;
    struct hf_error error;
    assert_int_equal(hf_store_open("mem:", NULL, &store, &error), HF_OK);
    assert_int_equal(hf_store_put(store, "a", NULL, 0, NULL, NULL, &error), HF_OK);
    hf_store_close(store);
}

static void no_call_of_the_header_is_left_out_here(void **state)
{
    (void)state;
    assert_calls_listed("{scrub,store}", calls, sizeof calls / sizeof *calls, others,
                        sizeof others / sizeof *others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_for_any_pointer_of_any_call_is_invalid_and_says_which),
        cmocka_unit_test(calls_without_a_status_take_null),
        cmocka_unit_test(a_number_that_no_table_has_is_unknown),
        cmocka_unit_test(no_bytes_may_be_at_null),
        cmocka_unit_test(no_call_of_the_header_is_left_out_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
