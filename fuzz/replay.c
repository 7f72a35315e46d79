/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c: runs every file of a corpus through a fuzzer without libFuzzer, so that every input
 * that once failed is tested again with any compiler. `replay FOLDER` prints TAP. */
#include "fuzz.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX (1 << 20)
#define INPUTS_MAX      4096
#define NAME_BYTES      256

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The names of a folder's inputs, in order. scandir is not used, because memory that libc
 * allocates cannot be freed in the simulator's world. */
static size_t list_inputs(const char *folder, char names[][NAME_BYTES])
{
    size_t count = 0;
    DIR *listing = opendir(folder);
    struct dirent *entry;
    while (listing && count < INPUTS_MAX && (entry = readdir(listing)))
        if (entry->d_name[0] != '.')
            snprintf(names[count++], NAME_BYTES, "%s", entry->d_name);
    if (listing)
        closedir(listing);
    qsort(names, count, NAME_BYTES, compare_names);
    return count;
}

/* Uses a block of exactly the input's size, so a sanitizer sees the first byte read past it. */
static bool replay(const char *folder, const char *name)
{
    static uint8_t bytes[INPUT_BYTES_MAX];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    bool whole = !ferror(file) && size < sizeof bytes;
    fclose(file);
    uint8_t *exact = malloc(size ? size : 1);
    if (!whole || !exact) {
        free(exact);
        return false;
    }
    memcpy(exact, bytes, size);
    printf("# %s\n", name);
    fflush(stdout);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    static char names[INPUTS_MAX][NAME_BYTES];
    size_t count = list_inputs(argv[1], names);
    bool good = count > 0 && count < INPUTS_MAX;
    printf("1..2\n%s 1 - the corpus has inputs\n", good ? "ok" : "not ok");
    for (size_t i = 0; i < count; i++)
        good = replay(argv[1], names[i]) && good;
    printf("%s 2 - each of the %zu inputs keeps the promise\n", good ? "ok" : "not ok", count);
    return good ? 0 : 1;
}
