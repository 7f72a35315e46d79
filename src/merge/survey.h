/* survey.h: what is in one file of records: how many, how many that cannot be read, and their
 * first and last time. One pass, bounded memory. */
#ifndef MERGE_SURVEY_H
#define MERGE_SURVEY_H

#include "base/hash.h"
#include "merge/merge.h"

struct survey {
    bool rows_counted; /* false for concat and exec */
    uint64_t
        rows; /* malformed ones included; a header is none: what merge_files counts as rows_in */
    uint64_t malformed;
    uint64_t malformed_first;           /* the number of the first of them, ... */
    const char *malformed_why;          /* ... and what it lacks: "record 3 has no time" */
    bool times_known;                   /* options name a time, and some record has one */
    int64_t min_ms, max_ms;             /* since 1970: rounded down, and up */
    uint32_t crc32c;                    /* of the file as it lies on disk ... */
    unsigned char sha256[SHA256_BYTES]; /* ... and this */
    uint64_t size;
    enum merge_coding
        coding; /* how it is compressed; where rows are not counted, by its name */
};

/* `options` as for merge_files; only format, fields, header, memory, record_bytes_max and
 * progress are looked at. Fails as that does for the same file, and leaves nothing behind. */
enum hf_status merge_survey(struct env *env, const struct merge_options *options,
                            const char *path, struct survey *ret_survey,
                            struct hf_error *error);

/* How many bytes the file holds, decompressed. Of `options` only memory and progress are looked
 * at. */
enum hf_status merge_plain_size(struct env *env, const struct merge_options *options,
                                const char *path, uint64_t *ret_size, struct hf_error *error);

#endif
