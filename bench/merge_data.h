/* SPDX-License-Identifier: Apache-2.0 */
/* merge_data.h: files of records to merge, and the output that merging them must give.
 *
 * The records follow from their numbers alone, so every run measures the same bytes. Every 20
 * records have 16 keys: a fifth of the records is superseded, some by a record of the same
 * file, some by one with the same time. Keys have random gaps, and fields and records have
 * random lengths. All times have the same format, so programs that compare times as text are
 * right too. */
#ifndef BENCH_MERGE_DATA_H
#define BENCH_MERGE_DATA_H

#include <stdbool.h>
#include <stdint.h>

#define DATA_FILES 64

/* The fields are id, region, at and body, in that order. */
enum data_format { DATA_USV, DATA_NDJSON, DATA_CSV };

struct merge_data {
    char folder[600]; /* has the folder "in" with the files, and "expected": latest wins */
    uint64_t bytes;   /* of the files in all */
};

/* `records` is a multiple of 20. Shuffled: in random order over all files; if not, each file is
 * sorted by id and at. The files are on disk when it returns. */
void data_make(struct merge_data *data, enum data_format format, uint64_t records,
               bool shuffled);
void data_remove(const struct merge_data *data);

#endif
