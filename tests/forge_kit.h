/* forge_kit.h: a store with some chunks, and a forge that merges them, for tests of the forge. */
#ifndef TESTS_FORGE_KIT_H
#define TESTS_FORGE_KIT_H

#include "compact/forge.h"
#include "lock_kit.h"

#define SOURCES 3
#define US      "\x1f"
#define RS      "\x1e"

/* A store with some chunks, and a forge. */
struct smithy {
    struct world world;
    struct peer peer;
    char *scratch;
    struct forge *forge;
    struct compact_settings settings;
    char keys[SOURCES][64];
    struct forge_source sources[SOURCES];
    size_t memory_bytes;
    uint64_t stop_after; /* calls of go_on; 0: never */
    uint64_t asked, last_done, last_total;
    struct forge_product product;
    struct hf_error error;
};

#define OUTPUT "data/default/L1/2026/11/output.usv"

/* The sources, of two rows each. */
extern const char *const smithy_bodies[SOURCES];

/* What the sources become by merging. */
#define MERGED "a" US "1\nb" US "2\nc" US "3\nd" US "4\ne" US "5\nf" US "6\n"

/* The programs that commands may be: sh, sort, and two that cannot be run. */
extern const struct allow_exec smithy_programs;

void smithy_open(struct smithy *smithy);
void smithy_close(struct smithy *smithy);

/* Another body for a source, and how many rows the catalog says. */
void put_source(struct smithy *smithy, size_t index, struct view body, uint64_t rows);

/* Files that are in a folder and those in it, the forge's own folder and lock not counted. */
size_t files_in(const char *folder);

/* Merges all sources. */
enum hf_status forge(struct smithy *smithy);

void expect_output(struct smithy *smithy, const char *expected);

#endif
