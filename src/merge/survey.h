/* SPDX-License-Identifier: Apache-2.0 */
/* survey.h: examines one file of records: how many records it has, how many of them are unreadable,
 * and the earliest and latest time. Needs one pass and bounded memory. */
#ifndef MERGE_SURVEY_H
#define MERGE_SURVEY_H

#include "base/hash.h"
#include "merge/merge.h"

struct survey {
    bool rows_counted; /* false for concat and exec */
    uint64_t rows; /* rows_in as merge_files counts it: with malformed rows, without a header */
    uint64_t malformed;
    uint64_t malformed_first;  /* the number of the first malformed row, ... */
    const char *malformed_why; /* ... and its fault: "record 3 has no time" */
    unsigned key_kinds;        /* what its key is (merge.h) */
    bool times_known;          /* a time was requested, and some record has one */
    int64_t min_ms, max_ms;    /* since 1970, rounded down and up */
    uint64_t deletions;        /* rows that mark deletions, if a field was requested, ... */
    int64_t deletion_ms;       /* ... and the time of the last of them, rounded up */
    uint32_t crc32c;           /* of the file as stored on disk ... */
    unsigned char sha256[SHA256_BYTES]; /* ... and so is this */
    uint64_t size;
    enum hf_merge_coding
        coding; /* how it is compressed; if rows are not counted, judged by its name */
};

/* `options` is as for merge_files, but only format, fields, header, memory, record_bytes_max,
 * columns_like and progress are used. Fails as a merge of this file would, and leaves nothing
 * behind. */
enum hf_status merge_survey(struct env *env, const struct merge_options *options,
                            const char *path, struct survey *ret_survey,
                            struct hf_error *error);

/* The decompressed size of the file. Of `options`, only memory and progress are used. */
enum hf_status merge_plain_size(struct env *env, const struct merge_options *options,
                                const char *path, uint64_t *ret_size, struct hf_error *error);

#endif
