/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_sweep_test.c: a NULL for a pointer of a call of holdfast/sweep.h is INVALID. */
#include "holdfast.h"

#include "public_calls_kit.h"
#include "test.h"

struct good {
    struct hf_client *client;
    struct hf_sweeper *sweeper;
};

static bool see_name(void *argument, const char *ns)
{
    (void)argument, (void)ns;
    return true;
}

static int sweep(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_sweep(NULL, NULL, NULL, error);
}

static int sweeper_start(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_sweeper *sweeper = FILLED(hf_sweeper);
    if (argument > 1)
        return -1;
    int status =
        (int)hf_sweeper_start(LEFT_OUT(0, good->client), NULL, LEFT_OUT(1, &sweeper), error);
    assert_true(argument == 1 || sweeper == NULL);
    return status;
}

static int sweeper_report(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    if (argument > 1)
        return -1;
    return (int)hf_sweeper_report(LEFT_OUT(0, good->sweeper), LEFT_OUT(1, &report), error);
}

static int sweep_status(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_sweep_due due = HF_SWEEP_DUE;
    if (argument > 1)
        return -1;
    return (int)hf_sweep_status(LEFT_OUT(0, good->client), false, LEFT_OUT(1, &due), NULL, NULL,
                                error);
}

static int sweep_namespaces(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_sweep_namespaces(LEFT_OUT(0, good->client), false, LEFT_OUT(1, see_name),
                                    NULL, error);
}

static const struct public_call_row calls[] = {
    { "hf_sweep", sweep },
    { "hf_sweeper_start", sweeper_start },
    { "hf_sweeper_report", sweeper_report },
    { "hf_sweep_status", sweep_status },
    { "hf_sweep_namespaces", sweep_namespaces },
};

/* Those that give no status, or take no pointer. */
static const char *const others[] = { "hf_sweep_stop_name", "hf_sweep_stop_text",
                                      "hf_sweeper_stop", "hf_sweep_sees_others" };

static void null_for_any_pointer_of_any_call_is_invalid_and_says_which(void **state)
{
    (void)state;
    struct good good;
    assert_int_equal(hf_client_open("mem:", NULL, &good.client, NULL), HF_OK);
    assert_int_equal(hf_sweeper_start(good.client, NULL, &good.sweeper, NULL), HF_OK);
    assert_null_is_invalid(calls, sizeof calls / sizeof *calls, &good);
    hf_sweeper_stop(good.sweeper);
    hf_client_close(good.client);
}

static void calls_without_a_status_take_null(void **state)
{
    (void)state;
    hf_sweeper_stop(NULL);
    assert_false(hf_sweep_sees_others(NULL));
}

static void no_call_of_the_header_is_left_out_here(void **state)
{
    (void)state;
    assert_calls_listed("sweep", calls, sizeof calls / sizeof *calls, others,
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
