/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h: reads a partition as it is at one point in time, while workers merge and delete.
 *
 *     struct hf_compact_reader *reader;
 *     struct hf_compact_export_options options = HF_COMPACT_EXPORT_OPTIONS;
 *     struct hf_merge_file output = { "all.csv", -1 };
 *     hf_compact_reader_open(compact, NULL, &reader, &error);
 *     hf_compact_reader_export(reader, &output, &options, NULL, &error);
 *     hf_compact_reader_close(reader);
 *
 * A SNAPSHOT contains the live chunks of the partition. The reader pins it, with one lease for each
 * catalog, which is renewed in the background. Until the reader is closed, no object of the
 * snapshot is deleted, whatever is merged meanwhile. Readers do not delay merges, and a later
 * reader does not delay the deletion of what an earlier one has held.
 *
 * RECORDS. An export merges all chunks on read, as a worker would: with a key and a time, each key
 * has one record, the latest. The result depends only on the data, not on which chunks have been
 * merged before. It needs bounded memory, but scratch space for copies of the chunks (unless the
 * store is a local folder) and, if records are filtered or converted, for all merged records.
 *
 * OTHER ENGINES may read the objects themselves: list the chunks (hf_compact_reader_next), keep
 * them pinned (hf_compact_reader_detach), merge by key and time where it matters, and then leave
 * out deletion markers, if the partition has a deleted field. */
#ifndef HOLDFAST_READER_H
#define HOLDFAST_READER_H

#include "holdfast/lock.h"
#include "holdfast/merge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Snapshots ----------------------------------------------------------------------- */

struct hf_compact;    /* a partition: compact.h */
struct hf_chunk_info; /* compact.h */

/* A pinned snapshot of the live chunks. */
struct hf_compact_reader;

struct hf_compact_reader_options {
    size_t struct_size;
    int64_t ttl_ms; /* of the pins, which are renewed in the background; 0: a minute */
};
#define HF_COMPACT_READER_OPTIONS \
    HF_VALUE_(hf_compact_reader_options, sizeof(struct hf_compact_reader_options), 0)

/* Pins all live chunks. Together they contain each row of the partition once, as of the time at
 * which the catalog was read. If the partition was split, its catalogs are read at different times.
 * Merges continue, and do not change what the reader sees. `options` may be NULL. Returns
 * HF_NOT_FOUND if the partition does not exist or is being dropped. Returns HF_CONFLICT if it was
 * dropped and created again, or restored from a backup, during the call: try again. Returns
 * HF_UNAVAILABLE if the store does not reply. Returns HF_CORRUPT if a catalog cannot be read,
 * because rows would be missing. */
HF_API enum hf_status hf_compact_reader_open(struct hf_compact *compact,
                                             const struct hf_compact_reader_options *options,
                                             struct hf_compact_reader **ret_reader,
                                             struct hf_error *error);

/* Returns the next chunk, or HF_NOT_FOUND at the end. The reader owns the strings of the chunk. */
HF_API enum hf_status hf_compact_reader_next(struct hf_compact_reader *reader,
                                             struct hf_chunk_info *ret_chunk,
                                             struct hf_error *error);

/* Starts again with the first chunk. */
HF_API void hf_compact_reader_rewind(struct hf_compact_reader *reader);

/* Returns the number of chunks. Local. */
HF_API uint64_t hf_compact_reader_count(struct hf_compact_reader *reader);

/* Checks whether all chunks are still pinned. Returns HF_OK, HF_EXPIRED or HF_LOST, like
 * hf_lock_check. Call it after the last read: HF_OK means that all data was pinned. Local. */
HF_API enum hf_status hf_compact_reader_check(struct hf_compact_reader *reader,
                                              struct hf_error *error);

/* Writes one of the reader's chunks to a file, from the start of the file, and verifies the bytes.
 * Returns HF_CORRUPT if the bytes do not match the catalog. Returns HF_NOT_FOUND if the reader does
 * not contain the chunk, or if the chunk's object no longer exists. */
HF_API enum hf_status hf_compact_reader_fetch(struct hf_compact_reader *reader, const char *key,
                                              int fd, struct hf_error *error);

/* Closes a reader and releases its pins. Does nothing if `reader` is NULL. */
HF_API void hf_compact_reader_close(struct hf_compact_reader *reader);

/* Closes a reader but leaves its pins in place, for ttl_ms from now on, for other programs that
 * read the objects. `each`, which may be NULL, is called with the text of each pin's lease
 * (hf_lock_text): pass it to hf_lock_adopt and hf_lock_release, or to 'holdfast release', to end
 * the pin early. `reader` is no longer valid afterwards, regardless of the status. Returns
 * HF_EXPIRED or HF_LOST if a pin had already ended, and HF_UNAVAILABLE or HF_UNSURE if a pin could
 * not be renewed; then all of them are released. */
HF_API enum hf_status hf_compact_reader_detach(struct hf_compact_reader *reader,
                                               void (*each)(void *argument, const char *lease),
                                               void *argument, struct hf_error *error);

/* ---- Records ------------------------------------------------------------------------- */

/* The progress of an export. bytes_done never falls. */
struct hf_compact_export_progress {
    size_t struct_size;
    uint64_t bytes_done;
    uint64_t bytes_total;
};

struct hf_compact_export_options {
    size_t struct_size;
    bool convert;                /* write `format` instead of the partition's format */
    enum hf_merge_format format; /* a format with records */
    enum hf_merge_coding coding; /* of the output; AUTO: by its suffix */
    /* Only records whose key (the first field of the key) starts with this text; NULL: all. */
    const char *key_prefix;
    /* Only records with since_ms <= time < until_ms, in milliseconds since 1970. Each record is the
     * latest of its key: an older one does not take the place of one that is filtered out. */
    int64_t since_ms, until_ms;
    /* Leave out chunks in quarantine, which may be unreadable. Their records are missing then, and
     * those that one of them deletes or replaces appear again. */
    bool skip_quarantined;
    uint64_t memory_bytes; /* memory limit; 0: 40 MiB; at least 8 MiB */
    unsigned threads;      /* 0: one per processor, up to 4 */
    /* Optional. Return false to stop with HF_CANCELLED. */
    bool (*progress)(void *argument, const struct hf_compact_export_progress *progress);
    /* Optional. The temporary path of the output, as in hf_merge_options. */
    void (*unfinished)(void *argument, enum hf_merge_part part, const char *path);
    void *argument; /* for both callbacks */
};
#define HF_COMPACT_EXPORT_OPTIONS                                                         \
    HF_VALUE_(hf_compact_export_options, sizeof(struct hf_compact_export_options), false, \
              HF_MERGE_USV, HF_MERGE_AUTO, NULL, INT64_MIN, INT64_MAX, false, 0, 0, NULL, \
              NULL, NULL)

/* rows_in = rows_superseded + rows_rejected + rows_deleted + rows_unselected + rows_out. */
struct hf_compact_export_report {
    size_t struct_size;
    uint64_t chunks;      /* chunks read */
    uint64_t skipped;     /* chunks without a record in the time range */
    uint64_t quarantined; /* chunks left out because of skip_quarantined */
    uint64_t bytes_read;  /* from the store */
    bool rows_counted;    /* false if the format has no records */
    uint64_t rows_in, rows_superseded, rows_rejected;
    uint64_t rows_deleted;    /* deletions that were the latest record of their key */
    uint64_t rows_unselected; /* filtered out */
    uint64_t rows_out;
    uint64_t bytes_out;
    int64_t took_ms;
};
#define HF_COMPACT_EXPORT_REPORT                                                             \
    HF_VALUE_(hf_compact_export_report, sizeof(struct hf_compact_export_report), 0, 0, 0, 0, \
              false, 0, 0, 0, 0, 0, 0, 0, 0)

/* Writes the records of the snapshot to a file, which appears only when it is complete and on disk,
 * or to a descriptor, at its current offset. If records are not filtered or converted, nothing is
 * written to a descriptor unless the merge has succeeded. `options` and `report` may be NULL; the
 * report is set regardless of the status.
 *
 * CONVERSION. The fields of csv and tsv are named by the header, and those of JSON objects by their
 * members. Other fields have only numbers, counted from 1: csv and tsv made of them have no header,
 * and JSON objects and Parquet files made of them have members or columns named "1", "2" and so on.
 * In JSON, all values of other formats are strings. In csv, a JSON string is written without its
 * escapes, null and a missing member are empty, and any other JSON value is its JSON text; the
 * columns are the members of all objects, in the order in which they first appear. From Parquet to
 * Parquet, types and values do not change. From Parquet to text, NULL is null in JSON, a timestamp
 * is RFC 3339 in UTC with microseconds, and a number that is not finite is a string. To Parquet,
 * the columns of csv, tsv and usv are texts, and empty fields are NULL; DuckDB determines the types
 * of JSON members: a number becomes a 64-bit integer or a double, and a column whose strings are
 * all dates, timestamps or UUIDs gets that type.
 *
 * Returns HF_INVALID if the partition has no key or time to filter by, or if a value cannot be
 * written in that format. Returns HF_UNSUPPORTED if only a command can merge the partition's
 * chunks, if there is no record to make a Parquet file of, or if what Parquet needs is not
 * installed. Returns HF_CORRUPT if a chunk is damaged.
 * Returns HF_EXPIRED or HF_LOST if the pins ended and a chunk has been deleted. Returns
 * HF_CANCELLED if `progress` stopped the export, or if the reader of a pipe has closed it.
 * HF_UNAVAILABLE and HF_DENIED come from the file system and the store. */
HF_API enum hf_status hf_compact_reader_export(struct hf_compact_reader *reader,
                                               const struct hf_merge_file *output,
                                               const struct hf_compact_export_options *options,
                                               struct hf_compact_export_report *report,
                                               struct hf_error *error);

/* One record. Nothing here ends with a NUL. */
struct hf_compact_row {
    size_t struct_size;
    const char *bytes; /* the record, without a line end */
    size_t size;
    const char *key; /* the first field of the key */
    size_t key_size; /* 0 if the partition has no key */
    bool has_time;
    int64_t time_ms;    /* rounded down */
    const char *header; /* csv and tsv: the names of the fields */
    size_t header_size; /* 0: they have no names */
};

/* Passes the records to `each`, in the order of the partition, instead of writing them. `each` may
 * call any function except those that close the reader; return false to stop, after which the call
 * returns HF_OK. Otherwise like hf_compact_reader_export; `coding` is ignored. */
HF_API enum hf_status hf_compact_reader_rows(
    struct hf_compact_reader *reader,
    bool (*each)(void *argument, const struct hf_compact_row *row), void *argument,
    const struct hf_compact_export_options *options, struct hf_compact_export_report *report,
    struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
