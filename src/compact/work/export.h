/* SPDX-License-Identifier: Apache-2.0 */
/* export.h: reads a snapshot as one sequence of records: merged as a worker would merge all of its
 * chunks, filtered, and written to a file or passed to a callback.
 *
 * Each chunk is fetched once, a few at a time, into the scratch folder, or read in place if a local
 * store lends it. All of them are checked against the catalog. Then they are merged, so memory does
 * not depend on their number or size; scratch space for copies of the chunks is needed, and, if
 * records are filtered or converted, for the merged records.
 *
 * A filter by time applies to the records that are left after the merge: a record that a later one
 * has replaced does not appear again because the later one is filtered out. So the result does not
 * depend on which chunks have been merged before. */
#ifndef COMPACT_WORK_EXPORT_H
#define COMPACT_WORK_EXPORT_H

#include "compact/care/snapshot.h"
#include "merge/convert.h"

struct export_order {
    const struct snapshot *snapshot;
    const char *scratch; /* a folder on a local disk */
    size_t threads;
    size_t memory_bytes;
    enum hf_merge_format to; /* the partition's format, or another one with records */
    enum hf_merge_coding coding;
    struct merge_selection selection;
    bool skip_quarantined;
    const struct hf_merge_file *output; /* NULL: use `each` */
    merge_record_fn *each;
    void *context;
    /* Called from time to time; false stops the export with CANCELLED. `done` never decreases. */
    bool (*go_on)(void *argument, uint64_t done, uint64_t total);
    /* The temporary name of the output, as in merge_progress. */
    void (*writes)(void *argument, int which, const char *path);
    void *argument; /* for both */
};

/*   INVALID      the selection needs a key or a time that the partition does not have; or a value
 *                cannot be written in that format
 *   UNSUPPORTED  only a command can merge the chunks of this partition; there is no record to make
 *                a Parquet file of; or what Parquet needs is not installed
 *   CORRUPT      a chunk differs from the catalog, or its object is missing although it is pinned
 *   EXPIRED, LOST  the pins ended, and a chunk has been deleted
 *   CANCELLED    go_on returned false, or the reader of a descriptor is gone
 *   others       as in merge.h and store.h
 *
 * Unless the result is OK, no file appears. The report is set in any case, apart from took_ms. */
enum hf_status export_run(const struct export_order *order,
                          struct hf_compact_export_report *ret_report, struct hf_error *error);

#endif
