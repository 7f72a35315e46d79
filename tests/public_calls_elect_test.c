/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_elect_test.c: a NULL for a pointer of a call of holdfast/elect.h is INVALID. */
#include "holdfast.h"

#include "public_calls_kit.h"
#include "test.h"

struct good {
    struct hf_client *client;
    struct hf_elect_member *member;
};

static const char *const names[] = { "a", "b" };
static const char *const with_null[] = { "a", NULL };

static bool see_change(void *argument, const char *name, bool present)
{
    (void)argument, (void)name, (void)present;
    return true;
}

static bool see_member(void *argument, const struct hf_elect_info *info)
{
    (void)argument, (void)info;
    return true;
}

static int elect_rank(const struct good *good, int argument, struct hf_error *error)
{
    size_t rank;
    (void)good;
    if (argument > 3)
        return -1;
    return (int)hf_elect_rank(NULL, LEFT_OUT(0, argument == 3 ? with_null : names), 2,
                              LEFT_OUT(1, "a"), LEFT_OUT(2, &rank), NULL, error);
}

static int elect_order(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_elect_place places[2];
    (void)good;
    if (argument > 2)
        return -1;
    return (int)hf_elect_order(NULL, LEFT_OUT(0, argument == 2 ? with_null : names), 2,
                               LEFT_OUT(1, places), error);
}

static int cascade_completed(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_cascade_completed(NULL, 1, error);
}

static int elect_join(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_elect_member *member = FILLED(hf_elect_member);
    if (argument > 2)
        return -1;
    int status = (int)hf_elect_join(LEFT_OUT(0, good->client), LEFT_OUT(1, "g"), NULL,
                                    LEFT_OUT(2, &member), error);
    assert_true(argument == 2 || member == NULL);
    return status;
}

static int elect_keep(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_elect_keep(NULL, error);
}

static int elect_look(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_elect_look(NULL, error);
}

static int elect_changes(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_elect_changes(LEFT_OUT(0, good->member), LEFT_OUT(1, see_change), NULL,
                                 error);
}

static int elect_rank_own(const struct good *good, int argument, struct hf_error *error)
{
    size_t rank;
    if (argument > 1)
        return -1;
    return (int)hf_elect_rank_own(LEFT_OUT(0, good->member), NULL, LEFT_OUT(1, &rank), NULL,
                                  error);
}

static int elect_members(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 2)
        return -1;
    return (int)hf_elect_members(LEFT_OUT(0, good->client), LEFT_OUT(1, "g"), 0,
                                 LEFT_OUT(2, see_member), NULL, error);
}

static const struct public_call_row calls[] = {
    { "hf_elect_rank", elect_rank },
    { "hf_elect_order", elect_order },
    { "hf_elect_join", elect_join },
    { "hf_elect_keep", elect_keep },
    { "hf_elect_look", elect_look },
    { "hf_elect_changes", elect_changes },
    { "hf_elect_rank_own", elect_rank_own },
    { "hf_elect_members", elect_members },
    { "hf_cascade_completed", cascade_completed },
};

/* Those that give no status, or take no pointer. */
static const char *const others[] = {
    "hf_elect_starts_in_ms", "hf_elect_leave",    "hf_elect_detach",
    "hf_elect_name",         "hf_cascade_target", "hf_cascade_added",
};

static void null_for_any_pointer_of_any_call_is_invalid_and_says_which(void **state)
{
    (void)state;
    struct good good;
    assert_int_equal(hf_client_open("mem:", NULL, &good.client, NULL), HF_OK);
    assert_int_equal(hf_elect_join(good.client, "g", NULL, &good.member, NULL), HF_OK);
    assert_null_is_invalid(calls, sizeof calls / sizeof *calls, &good);
    hf_elect_leave(good.member);
    hf_client_close(good.client);
}

static void calls_without_a_status_take_null(void **state)
{
    (void)state;
    hf_elect_leave(NULL);
    hf_elect_detach(NULL);
    hf_cascade_added(NULL, 1);
    assert_string_equal(hf_elect_name(NULL), "");
    assert_int_equal(hf_cascade_target(NULL, 2), 0);
}

static void a_part_without_a_writer_is_invalid(void **state)
{
    (void)state;
    const struct hf_elect_part none[] = { { NULL, 7 } };
    struct hf_elect_work work = HF_ELECT_WORK;
    struct hf_error error;
    size_t rank;
    work.part_count = 1;
    assert_int_equal(hf_elect_rank(&work, names, 2, "a", &rank, NULL, &error), HF_INVALID);
    work.parts = none;
    assert_int_equal(hf_elect_rank(&work, names, 2, "a", &rank, NULL, &error), HF_INVALID);
    assert_int_equal(hf_elect_rank(&work, names, 2, "a", &rank, NULL, NULL), HF_INVALID);
}

static void no_call_of_the_header_is_left_out_here(void **state)
{
    (void)state;
    assert_calls_listed("elect", calls, sizeof calls / sizeof *calls, others,
                        sizeof others / sizeof *others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_for_any_pointer_of_any_call_is_invalid_and_says_which),
        cmocka_unit_test(calls_without_a_status_take_null),
        cmocka_unit_test(a_part_without_a_writer_is_invalid),
        cmocka_unit_test(no_call_of_the_header_is_left_out_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
