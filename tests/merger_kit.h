/* SPDX-License-Identifier: Apache-2.0 */
/* merger_kit.h: a store with some chunks, and a merger that merges them, for tests of the
 * merger. */
#ifndef TESTS_MERGER_KIT_H
#define TESTS_MERGER_KIT_H

#include "compact/work/merger.h"
#include "lock_kit.h"

#define SOURCES 3
#define US      "\x1f"
#define RS      "\x1e"

/* A store with some chunks, and a merger. */
struct smithy {
    struct world world;
    struct peer peer;
    char *scratch;
    struct merger *merger;
    struct compact_settings settings;
    char keys[SOURCES][64];
    struct chunk sources[SOURCES];
    size_t memory_bytes;
    uint64_t stop_after; /* stop at this call of go_on; 0: never */
    uint64_t asked, last_done, last_total;
    struct merge_product product;
    struct hf_error error;
};

#define OUTPUT "data/default/L1/2026/11/output.usv"

/* The sources, with two rows each. */
extern const char *const smithy_bodies[SOURCES];

/* The merged sources. */
#define MERGED "a" US "1\nb" US "2\nc" US "3\nd" US "4\ne" US "5\nf" US "6\n"

/* The programs that commands may run: sh, sort, and two that cannot be executed. */
extern const struct allow_exec smithy_programs;

void smithy_open(struct smithy *smithy);
void smithy_close(struct smithy *smithy);

/* Replaces the body of a source, and sets the row count in the catalog. */
void put_source(struct smithy *smithy, size_t index, struct view body, uint64_t rows);

/* Counts files in a directory and below, without the merger's own directory and lock. */
size_t files_in(const char *folder);

/* Merges all sources. */
enum hf_status merger(struct smithy *smithy);

void expect_output(struct smithy *smithy, const char *expected);

#endif
