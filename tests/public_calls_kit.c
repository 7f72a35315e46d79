/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_kit.c: calls every public function with NULL for each pointer, and checks the
 * list of calls against the headers. */
#include "public_calls_kit.h"

#include "test.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char was_here_before[] = "was here before";

void assert_null_is_invalid(const struct public_call_row *rows, size_t count,
                            const struct good *good)
{
    for (size_t i = 0; i < count; i++) {
        int argument = 0;
        for (;; argument++) {
            struct hf_error error = { .status = HF_OK, .why = "" };
            int status = rows[i].call(good, argument, &error);
            if (status < 0)
                break;
            if (status != HF_INVALID || error.status != HF_INVALID ||
                !strstr(error.why, "must not be NULL"))
                fail_msg("%s, pointer %d: %s: %s", rows[i].name, argument,
                         hf_status_name((enum hf_status)status), error.why);
            assert_int_equal(rows[i].call(good, argument, /* error */ NULL), HF_INVALID);
        }
        assert_true(argument > 0);
    }
}

/* ---- Compared with the headers ------------------------------------------------------- */

struct listing {
    const struct public_call_row *rows;
    size_t count;
    const char *const *others;
    size_t other_count;
};

static bool is_listed(const struct listing *listing, const char *name)
{
    for (size_t i = 0; i < listing->count; i++)
        if (strcmp(listing->rows[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < listing->other_count; i++)
        if (strcmp(listing->others[i], name) == 0)
            return true;
    return false;
}

/* Counts the calls that a header declares; each must be listed. */
static size_t count_calls(const struct listing *listing, const char *path)
{
    char line[512], name[64];
    size_t found = 0;
    FILE *header = fopen(path, "r");
    assert_non_null(header);
    while (fgets(line, sizeof line, header)) {
        const char *start;
        if (strncmp(line, "HF_API ", 7) == 0 && strchr(line, '(')) {
            const char *end = strchr(line, '(');
            for (start = end; isalnum(start[-1]) || start[-1] == '_';)
                start--;
            snprintf(name, sizeof name, "%.*s", (int)(end - start), start);
            found++;
            if (!is_listed(listing, name))
                fail_msg("%s is in no table of this test", name);
        }
    }
    fclose(header);
    return found;
}

/* Headers whose calls are listed by the test of another header. */
static const char *const beside[] = { "adopt.h", "drop.h", "fsck.h", "reader.h", "scrub.h" };

static bool has_own_test(const char *header)
{
    char path[4096];
    const char *name = strrchr(header, '/') + 1;
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (strcmp(name, beside[i]) == 0)
            return true;
    snprintf(path, sizeof path, "%s/public_calls_%.*s_test.c", getenv("HOLDFAST_TESTS"),
             (int)strcspn(name, "."), name);
    return access(path, F_OK) == 0;
}

void assert_calls_listed(const char *header, const struct public_call_row *rows, size_t count,
                         const char *const *others, size_t other_count)
{
    struct listing listing = { rows, count, others, other_count };
    char pattern[4096];
    glob_t headers;
    size_t found = 0;
    snprintf(pattern, sizeof pattern, "%s/../include/holdfast/%s.h", getenv("HOLDFAST_TESTS"),
             header ? header : "*");
    assert_int_equal(glob(pattern, GLOB_BRACE, NULL, &headers), 0);
    for (size_t i = 0; i < headers.gl_pathc; i++)
        if (header || !has_own_test(headers.gl_pathv[i]))
            found += count_calls(&listing, headers.gl_pathv[i]);
    globfree(&headers);
    assert_int_equal(found, count + other_count);
}
