/* SPDX-License-Identifier: Apache-2.0 */
/* leaks_test.c: leaks.c never skips a leak check that would find something. The test runs
 * itself as another process, which leaks nothing or two bytes (the sanitizer never counts less
 * than one). */
#include "base/sanitizer.h"
#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *const *arguments;

/* Starts this program anew with an argument; whether it ended without a complaint. */
static bool exits_with_zero(const char *how)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(125);
        execl("/proc/self/exe", arguments[0], how, (char *)NULL);
        _exit(126);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) != 125 && WEXITSTATUS(status) != 126);
    return WEXITSTATUS(status) == 0;
}

static void two_bytes_that_are_lost_are_found(void **state)
{
    (void)state;
    assert_true(WITH_ASAN);
    assert_false(exits_with_zero("leak"));
}

static void what_the_c_library_keeps_is_no_leak(void **state)
{
    (void)state;
    assert_true(exits_with_zero("keep"));
}

static int leak(void)
{
    void *volatile lost = malloc(2);
    memset(lost, 0, 2);
    lost = NULL;
    return 0;
}

/* A zone of time and a variable stay with the C library until the end. */
static int keep(void)
{
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
    return 0;
}

int main(int argc, char **argv)
{
    arguments = argv;
    if (argc > 1)
        return strcmp(argv[1], "leak") == 0 ? leak() : keep();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_bytes_that_are_lost_are_found),
        cmocka_unit_test(what_the_c_library_keeps_is_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
