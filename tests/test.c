/* SPDX-License-Identifier: Apache-2.0 */
/* test.c: scratch directories for tests. */
#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *test_dir_make(void)
{
    const char *parent = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/holdfast-test-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
    (void)st;
    (void)flag;
    (void)walk;
    return remove(path);
}

void test_dir_remove(char *path)
{
    nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
    free(path);
}

void test_unseal(char *document)
{
    const size_t size = sizeof "~00000000" - 1;
    char *write = strstr(document, "\"write\":"), *mark = write ? strchr(write, '~') : NULL;
    if (mark && strcspn(mark, "\"") == size)
        memmove(mark, mark + size, strlen(mark + size) + 1);
}
