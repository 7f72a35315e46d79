/* replay.c: runs every file of a corpus through a fuzzer, without libFuzzer: what was once
 * found stays found, with any compiler. `replay FOLDER` prints TAP. */
#include "fuzz.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX (1 << 20)

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In a block of exactly its size, so that a sanitizer sees the first byte read past it. */
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
    struct dirent **entries = NULL;
    int count = scandir(argv[1], &entries, is_input, alphasort);
    printf("1..2\n%s 1 - the corpus has inputs\n", count > 0 ? "ok" : "not ok");
    bool good = count > 0;
    for (int i = 0; i < count; i++) {
        good = replay(argv[1], entries[i]->d_name) && good;
        free(entries[i]);
    }
    free(entries);
    printf("%s 2 - each of the %d inputs keeps the promise\n", good ? "ok" : "not ok", count);
    return good ? 0 : 1;
}
