/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_merge_test.c: a NULL for a pointer of a call of holdfast/merge.h is INVALID. */
#include "holdfast.h"

#include "public_calls_kit.h"
#include "test.h"

struct good {
    int none;
};

static const char *const names[] = { "a", "b" };
static const char *const with_null[] = { "a", NULL };

static int format_parse(const struct good *good, int argument, struct hf_error *error)
{
    enum hf_merge_format format;
    (void)good;
    return argument > 1
               ? -1
               : (int)hf_merge_format_parse(LEFT_OUT(0, "csv"), LEFT_OUT(1, &format), error);
}

static int coding_parse(const struct good *good, int argument, struct hf_error *error)
{
    enum hf_merge_coding coding;
    (void)good;
    return argument > 1
               ? -1
               : (int)hf_merge_coding_parse(LEFT_OUT(0, "gzip"), LEFT_OUT(1, &coding), error);
}

static int merge(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 2 ? -1
                        : (int)hf_merge(LEFT_OUT(0, argument == 2 ? with_null : names), 2,
                                        LEFT_OUT(1, "x"), NULL, NULL, error);
}

static int merge_files(const struct good *good, int argument, struct hf_error *error)
{
    const struct hf_merge_file file = { "a", -1 };
    (void)good;
    return argument > 1 ? -1
                        : (int)hf_merge_files(LEFT_OUT(0, &file), 1, LEFT_OUT(1, &file), NULL,
                                              NULL, error);
}

static const struct public_call_row calls[] = {
    { "hf_merge_format_parse", format_parse },
    { "hf_merge_coding_parse", coding_parse },
    { "hf_merge", merge },
    { "hf_merge_files", merge_files },
};

/* Those that take no pointer. */
static const char *const others[] = { "hf_merge_format_name", "hf_merge_coding_name" };

static void null_for_any_pointer_of_any_call_is_invalid_and_says_which(void **state)
{
    (void)state;
    struct good good = { 0 };
    assert_null_is_invalid(calls, sizeof calls / sizeof *calls, &good);
}

static void no_call_of_the_header_is_left_out_here(void **state)
{
    (void)state;
    assert_calls_listed("merge", calls, sizeof calls / sizeof *calls, others,
                        sizeof others / sizeof *others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_for_any_pointer_of_any_call_is_invalid_and_says_which),
        cmocka_unit_test(no_call_of_the_header_is_left_out_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
