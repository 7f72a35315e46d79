/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.h: Parquet files, read and written by a helper process, holdfast-parquet, which loads
 * DuckDB's library. This process never loads it: a crash, a leak or a hang of the library costs
 * one merge. The helper is started like a command: in a process group of its own, with a time
 * limit, and without our environment.
 *
 * $HOLDFAST_DUCKDB is the path of DuckDB's library, and $HOLDFAST_PARQUET that of the helper
 * (default: the one that was installed with this library). UNSUPPORTED: one of them is missing;
 * the reason says what to install or set.
 *
 * What the helper reports is not believed: the rows of the inputs and of the output are also
 * counted here, from the footers of the files. */
#ifndef MERGE_PARQUET_H
#define MERGE_PARQUET_H

#include "merge/convert.h"
#include "merge/job.h"
#include "merge/survey.h"

/* Below this, DuckDB cannot sort. */
#define PARQUET_MEMORY_MIN     (128 * MIB)
#define PARQUET_MEMORY_DEFAULT (256 * MIB)

/* Whether the helper and DuckDB's library can be used here. */
enum hf_status parquet_probe(struct env *env, struct hf_error *error);

/* Merges the inputs into the job's output, as merge_files describes. On failure the result says
 * which input caused it, if that is known. */
enum hf_status parquet_merge(struct job *job, const char *const *inputs, size_t count,
                             struct hf_error *error);

/* Counts the rows, the rows without a key or a time, and finds the earliest and latest time. Reads
 * every value, so that a file that passes can be merged. */
enum hf_status parquet_survey(struct job *job, const char *path, struct survey *survey,
                              struct hf_error *error);

/* A conversion from Parquet to Parquet or ndjson, or from csv or ndjson to Parquet. */
struct parquet_conversion {
    const char *from, *from_name; /* the name is for errors */
    enum hf_merge_format from_format;
    uint64_t rows;  /* of the input, unless it is Parquet */
    const char *to; /* must not exist; after a failure it does not */
    enum hf_merge_format to_format;
    /* From Parquet: which rows, by the fields of the options; NULL: all. */
    const struct merge_selection *selection;
};

/* Converts a file, and counts the rows that were written. From Parquet to Parquet, types and values
 * do not change. In JSON, a timestamp is RFC 3339 in UTC, and one without a zone is taken as UTC. A
 * csv file has a header, unless `headless` is set, and its columns become texts; an empty field is
 * NULL. Only the fields, memory, threads, time limit, headless and progress of the options are
 * used. */
enum hf_status parquet_convert(struct env *env, const struct merge_options *options,
                               const struct parquet_conversion *conversion, uint64_t *ret_rows,
                               struct hf_error *error);

#endif
