/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h: reads one file of records, selects some of them, and writes them in the same or
 * another format, or passes them to a callback. Needs bounded memory, and one pass over the file;
 * two passes if the columns of the output are the members of JSON objects.
 *
 * The values of a record keep their meaning, as follows:
 *
 *   names     of the fields: the header of csv and tsv, or the members of JSON objects, in the
 *             order in which they first appear. usv, and csv or tsv without a header, have none:
 *             their fields are numbered from 1, and csv or tsv made of them has no header either
 *   to csv    a missing field or member, and null, are empty. A JSON string is written without its
 *             escapes, any other JSON value as its JSON text
 *   to json   every value of another format is a string. A missing field has no member
 *   to usv    a value that contains a line end or a separator cannot be written, and fails it
 *
 * If the format stays the same, records are copied unchanged. */
#ifndef MERGE_CONVERT_H
#define MERGE_CONVERT_H

#include "base/instant.h"
#include "merge/merge.h"

/* Which records: those with a key that starts with the prefix, and since <= time < until. */
struct merge_selection {
    struct view key_prefix; /* of the value of the first key field; empty: all */
    bool has_since, has_until;
    struct instant since, until;
};

/* A record for the callback. The views are valid only during the call. */
struct merge_record {
    struct view bytes;  /* without a line end */
    struct view header; /* csv, tsv: the names of the fields; empty: none */
    bool has_key, has_time;
    struct view key; /* the value of the first key field */
    struct instant time;
};
typedef enum hf_status merge_record_fn(void *context, const struct merge_record *record,
                                       struct hf_error *error);

struct convert_order {
    const char *input;
    const char *input_name; /* in messages; NULL: its path */
    enum hf_merge_format to;
    struct merge_selection selection;
    const struct hf_merge_file *output; /* a new file, or a descriptor; NULL: use `each` */
    enum hf_merge_coding coding;        /* of the output */
    merge_record_fn *each;
    void *context;
};

struct convert_result {
    uint64_t rows_in, rows_out;
    uint64_t bytes_out; /* as written: compressed, if it is */
};

#define CONVERT_COLUMNS_MAX     10000
#define CONVERT_NAMES_BYTES_MAX (1 * MIB) /* of all columns together */

/* `options` describes the input as for merge_files; of the other members, memory_bytes and progress
 * are used. Both formats must be text.
 *
 *   INVALID      a value cannot be written in that format, the input is not UTF-8 and the output is
 *                JSON, or there are too many columns; the error names the record
 *   CORRUPT      a record cannot be read
 *   CANCELLED    stopped by progress, or the reader of a descriptor is gone
 *   others       from the file system, or from `each`
 *
 * Unless the result is OK, no file appears. Part of the output may have been written to a
 * descriptor. */
enum hf_status merge_convert(struct env *env, const struct merge_options *options,
                             const struct convert_order *order,
                             struct convert_result *ret_result, struct hf_error *error);

#endif
