/* SPDX-License-Identifier: Apache-2.0 */
/* cut_kit.h: cuts an input into rows in every possible way, and shows them as text. */
#ifndef TESTS_CUT_KIT_H
#define TESTS_CUT_KIT_H

#include "merge/format.h"

struct cut_setup {
    const struct format *format;
    const char *key;  /* as in --key; NULL: no key */
    const char *time; /* likewise */
    size_t columns;
    char separator;          /* NUL: a comma */
    size_t record_bytes_max; /* 0: larger than any input */
};

/* One line per row: "key|record", "key|record|seconds" if a time is set, or "!FAULT|record". A
 * key that is a time is shown as "@seconds". The input is cut as a whole, in two parts that
 * meet at each of its bytes, and with room for a single row. Each result must equal the
 * expected rows. */
void assert_rows_of(const struct cut_setup *setup, struct view input, const char *expected);
#define assert_rows(setup, input, expected) assert_rows_of(setup, VIEW(input), expected)

/* A cutter with a batch that holds these bytes. */
struct cut {
    char key_space[KEY_TEXT_MAX];
    struct cutter cutter;
    struct batch batch;
};
void cut_open(struct cut *cut, const struct cut_setup *setup, struct view input);
void cut_close(struct cut *cut);

/* Skips the rest of a record in pieces of this size. Returns its size. */
size_t cut_skip(const struct format *format, struct view bytes, size_t piece, bool *ret_ended);

/* The input is sorted except for its last row, of `last` bytes with its end. Cutting must stop
 * before that row. The row before it has the same key as its predecessor. */
void assert_disorder_is_noticed(const struct cut_setup *setup, struct view input, size_t last);

/* The first row, of `first` bytes with its end, needs no memory. If there is none for the key
 * of the second row, cutting stops before it. */
void assert_key_needs_memory(const struct cut_setup *setup, struct view input, size_t first);

#endif
