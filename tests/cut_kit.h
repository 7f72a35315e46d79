/* cut_kit.h: bytes in, rows out: one input cut in every way, and shown as text. */
#ifndef TESTS_CUT_KIT_H
#define TESTS_CUT_KIT_H

#include "merge/format.h"

struct cut_setup {
    const struct format *format;
    const char *key;  /* as --key has it; NULL: none */
    const char *time; /* likewise */
    size_t columns;
    char separator;          /* NUL: a comma */
    size_t record_bytes_max; /* 0: more than any input has */
};

/* One row a line: "key|record", "key|record|seconds" where a time is asked for, or
 * "!FAULT|record". A key that is a time is shown as "@seconds". The input is cut as a whole, in two
 * halves that meet at each of its bytes, and with room for a single row; each time the rows
 * must be those expected. */
void assert_rows_of(const struct cut_setup *setup, struct view input, const char *expected);
#define assert_rows(setup, input, expected) assert_rows_of(setup, VIEW(input), expected)

/* A cutter with a batch that holds these bytes. */
struct cut {
    struct cutter cutter;
    struct batch batch;
};
void cut_open(struct cut *cut, const struct cut_setup *setup, struct view input);
void cut_close(struct cut *cut);

/* Skips the rest of a record, in pieces of this size; returns its size. */
size_t cut_skip(const struct format *format, struct view bytes, size_t piece, bool *ret_ended);

/* Cutting the input, which is in order but for its last row, stops before that row, of `last` bytes
 * with its end. The row before it has the key of the one before that. */
void assert_disorder_is_noticed(const struct cut_setup *setup, struct view input, size_t last);

/* The first row, of `first` bytes with its end, needs no memory; where there is none for the key
 * of the second, that is left. */
void assert_key_needs_memory(const struct cut_setup *setup, struct view input, size_t first);

#endif
