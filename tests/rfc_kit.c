/* SPDX-License-Identifier: Apache-2.0 */
/* rfc_kit.c: merges one input from an unnamed file to another, and compares. */
#include "rfc_kit.h"

#include "base/instant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* All cases of the program, with their groups. */
struct test_case {
    const struct rfc_group *group;
    const struct rfc_case *rule;
};
static struct test_case *all;
static size_t all_count;

static int file_of(struct view bytes)
{
    int fd = memfd_create("rfc", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static void assert_output(int fd, const char *expected)
{
    size_t size = strlen(expected);
    off_t end = lseek(fd, 0, SEEK_END);
    char *bytes = calloc(1, (size_t)end + 1);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)end, 0), end);
    if ((size_t)end != size || memcmp(bytes, expected, size) != 0)
        fail_msg("the output is '%.200s', expected '%.200s'", bytes, expected);
    free(bytes);
}

static void check_timestamp(const struct rfc_case *rule)
{
    struct instant instant = { 0 };
    bool good = instant_parse(rule->input, &instant);
    if (good != (rule->output != NULL))
        fail_msg("the timestamp was %s", good ? "accepted" : "rejected");
    if (good && (instant.s != rule->s || instant.atto != rule->atto))
        fail_msg("the timestamp is %lld s and %llu", (long long)instant.s,
                 (unsigned long long)instant.atto);
}

static void check_case(void **state)
{
    const struct test_case *one = *state;
    const struct rfc_case *rule = one->rule;
    struct hf_error error;
    struct hf_merge_file from = { NULL, file_of(rule->input) };
    struct hf_merge_file to = { NULL, file_of(VIEW("")) };
    enum hf_status status = hf_merge_files(&from, 1, &to, &one->group->options, NULL, &error);
    if (status == HF_OK && !rule->output)
        fail_msg("it was accepted");
    if (status != HF_OK && rule->output)
        fail_msg("it was rejected: %s", error.why);
    if (status != HF_OK && (status != HF_INVALID || !strstr(error.why, rule->why)))
        fail_msg("it was rejected for another reason: %s", error.why);
    assert_output(to.fd, rule->output ? rule->output : "");
    if (one->group->timestamps)
        check_timestamp(rule);
    close(from.fd);
    close(to.fd);
}

/* "RFC 8259 section 7, escapes: ..." is about the rule "RFC 8259 section 7, escapes". */
static bool is_same_rule(const char *a, const char *b)
{
    size_t size = strcspn(a, ":");
    return strncmp(a, b, size) == 0 && b[size] == ':';
}

static void check_every_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < all_count; i++) {
        bool accepts = false, rejects = false;
        for (size_t j = 0; j < all_count; j++) {
            bool same = is_same_rule(all[i].rule->name, all[j].rule->name);
            accepts = accepts || (same && all[j].rule->output);
            rejects = rejects || (same && !all[j].rule->output);
        }
        if (!accepts || !rejects)
            fail_msg("%s: its rule has no %s case", all[i].rule->name,
                     accepts ? "rejecting" : "accepting");
    }
}

int rfc_run(const char *rfc, const struct rfc_group *groups, size_t group_count)
{
    size_t count = 0;
    for (size_t i = 0; i < group_count; i++)
        count += groups[i].count;
    struct CMUnitTest *tests = calloc(count + 1, sizeof *tests);
    all = calloc(count, sizeof *all);
    if (!tests || !all)
        return 1;
    for (size_t i = 0; i < group_count; i++)
        for (size_t j = 0; j < groups[i].count; j++) {
            all[all_count] = (struct test_case){ &groups[i], &groups[i].cases[j] };
            tests[all_count] = (struct CMUnitTest)IT(groups[i].cases[j].name, check_case);
            tests[all_count].initial_state = &all[all_count];
            all_count++;
        }
    tests[count] = (struct CMUnitTest)IT("every rule has an accepting and a rejecting case",
                                         check_every_rule);
    int failed = _cmocka_run_group_tests(rfc, tests, count + 1, NULL, NULL);
    free(tests);
    free(all);
    return failed;
}
