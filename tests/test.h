/* SPDX-License-Identifier: Apache-2.0 */
/* test.h: cmocka, with sentences as names. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include "base/sanitizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* One row of a test table. */
#define IT(sentence, function)                   \
    {                                            \
        (sentence), (function), NULL, NULL, NULL \
    }

/* Asserts a status and shows the reason when it is another. */
#define assert_status(expected, call, error_pointer)                                          \
    do {                                                                                      \
        enum hf_status status_ = (call);                                                      \
        if (status_ != (expected))                                                            \
            fail_msg("%s: %s, expected %s: %s", #call, hf_status_name(status_),               \
                     hf_status_name(expected), status_ == HF_OK ? "" : (error_pointer)->why); \
    } while (0)

#define SANITIZED (WITH_ASAN || WITH_TSAN)

/* How many of `count` rounds that differ only in their seed a test runs: a fifth under a sanitizer,
 * which looks for mistakes that every round would show and is ten times slower. */
#define SEED_ROUNDS(count) (SANITIZED ? ((count) + 4) / 5 : (count))

/* A new, empty directory for this test, removed with all in it by test_dir_remove. Aborts the
 * test when it cannot. */
char *test_dir_make(void);
void test_dir_remove(char *path);

/* Removes the checksum from the text of a document, as whoever edits it must. */
void test_unseal(char *document);

#endif
