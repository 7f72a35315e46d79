/* SPDX-License-Identifier: Apache-2.0 */
/* options_test.c: structs of the public headers as older and newer programs pass them. */
#include "base/options.h"
#include "holdfast.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

struct old_options {
    size_t struct_size;
    int64_t first;
};

struct options {
    size_t struct_size;
    int64_t first, second;
};

struct new_options {
    size_t struct_size;
    int64_t first, second, third;
};

static struct options read_options_of(const void *given, enum hf_status expected)
{
    struct options options = { sizeof options, 1, 2 };
    struct hf_error error;
    assert_int_equal(read_caller_options("INIT", given, &options, sizeof options, &error),
                     expected);
    return options;
}

static void without_options_there_are_defaults(void **state)
{
    (void)state;
    struct options options = read_options_of(NULL, HF_OK);
    assert_true(options.first == 1 && options.second == 2);
}

static void an_older_program_gets_defaults_for_what_it_does_not_know(void **state)
{
    (void)state;
    struct old_options given = { sizeof given, 7 };
    struct options options = read_options_of(&given, HF_OK);
    assert_true(options.first == 7 && options.second == 2);
    assert_int_equal(options.struct_size, sizeof options);
}

static void a_newer_program_may_set_only_what_is_known(void **state)
{
    (void)state;
    struct new_options given = { sizeof given, 7, 8, 0 };
    struct options options = read_options_of(&given, HF_OK);
    assert_true(options.first == 7 && options.second == 8);
    given.third = 1;
    options = read_options_of(&given, HF_UNSUPPORTED);
    assert_true(options.first == 1 && options.second == 2);
}

static void a_struct_that_was_not_initialised_is_invalid(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, sizeof(size_t), STRUCT_SIZE_MAX + 1, SIZE_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct options given = { sizes[i], 7, 8 };
        struct hf_error error;
        read_options_of(&given, HF_INVALID);
        assert_int_equal(check_caller_report("HF_SOMETHING", &given, &error), HF_INVALID);
        assert_non_null(strstr(error.why, "HF_SOMETHING"));
    }
}

static void a_report_is_cut_or_filled_up_with_zeros(void **state)
{
    (void)state;
    const struct options filled = { sizeof filled, 7, 8 };
    struct old_options old[2] = { { sizeof *old, 1 }, { sizeof *old, 1 } };
    write_caller_report(old, &filled, sizeof filled);
    assert_true(old[0].struct_size == sizeof *old && old[0].first == 7);
    assert_true(old[1].struct_size == sizeof *old && old[1].first == 1);
    struct new_options new = { sizeof new, 1, 2, 3 };
    write_caller_report(&new, &filled, sizeof filled);
    assert_true(new.struct_size == sizeof new &&new.second == 8 && new.third == 0);
    write_caller_report(NULL, &filled, sizeof filled);
}

/* As programs do that were compiled before a struct had all of its members. */
static void the_public_calls_take_shorter_structs(void **state)
{
    (void)state;
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_error error;
    struct hf_client_options client_options = HF_CLIENT_OPTIONS;
    client_options.struct_size = offsetof(struct hf_client_options, ttl_max_ms);
    client_options.ttl_max_ms = -1;
    assert_int_equal(hf_client_open("mem:", &client_options, &client, &error), HF_OK);
    struct hf_lock_options lock_options = HF_LOCK_OPTIONS;
    lock_options.struct_size = offsetof(struct hf_lock_options, mode);
    lock_options.mode = (enum hf_mode)77;
    assert_int_equal(hf_lock_new(client, "a", &lock_options, &lock, &error), HF_OK);
    hf_lock_free(lock);
    lock_options = HF_LOCK_OPTIONS;
    lock_options.struct_size = 0;
    assert_int_equal(hf_lock_new(client, "a", &lock_options, &lock, &error), HF_INVALID);
    assert_non_null(strstr(error.why, "HF_LOCK_OPTIONS"));
    hf_client_close(client);
}

static void the_version_is_one(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", HF_VERSION_MAJOR, HF_VERSION_MINOR,
             HF_VERSION_PATCH);
    assert_string_equal(hf_version(), text);
    assert_int_equal(hf_version_number(), HF_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_options_there_are_defaults),
        cmocka_unit_test(an_older_program_gets_defaults_for_what_it_does_not_know),
        cmocka_unit_test(a_newer_program_may_set_only_what_is_known),
        cmocka_unit_test(a_struct_that_was_not_initialised_is_invalid),
        cmocka_unit_test(a_report_is_cut_or_filled_up_with_zeros),
        cmocka_unit_test(the_public_calls_take_shorter_structs),
        cmocka_unit_test(the_version_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
