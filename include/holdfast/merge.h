/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h: merges files of records into one file. A merge reads its inputs in bounded memory and
 * writes one output. The output appears under its name only when it is complete and on disk. A
 * merge needs no store and no client.
 *
 *     const char *inputs[] = { "mon.csv", "tue.csv" };
 *     struct hf_merge_options options = HF_MERGE_OPTIONS;
 *     options.format = HF_MERGE_CSV;
 *     options.key = "id";
 *     options.time = "updated";
 *     hf_merge(inputs, 2, "now.csv", &options, NULL, &error);
 *
 * ORDER. With a key or a time, records are sorted by that field. Records with the same value in
 * that field keep their order within a file; between files, the smaller record comes first. With
 * both a key and a time, only the record with the latest time is kept for each key; if times are
 * equal, the greatest record is kept: by its bytes or, in CSV and TSV files with a header, by its
 * values, in the order of the columns' names. So merges in several steps, in any order, keep the
 * records that one merge of all files keeps. Keys are compared as bytes, without CSV
 * quotes and JSON escapes, or as numbers of any size ("id:number"); in descending order ("id:desc",
 * "id:number:desc"); by several fields ("country,id"). With :number, a key is a number as in JSON,
 * which may also start with + or zeros; in NDJSON, it must not be a string. A record with any other
 * key, such as an empty one or NaN, is rejected. Records are written unchanged, each followed by
 * LF. The order of the inputs does not affect the output. An input that is not sorted is detected
 * and sorted.
 *
 * COLUMNS. CSV and TSV inputs may have different headers. The output then has the columns of all of
 * them, by name, in the order in which they appear first in the inputs as given; where an input
 * lacks a column, its records get an empty field. Key, time and deleted field are found by name in
 * each input; if they are given by number, the column must have the same name in all inputs. If
 * headers differ, no header may have a name twice. NDJSON records keep their members.
 *
 * DELETIONS. If a deleted field is given, a record in which it is true is a deletion. It replaces
 * or is replaced by other records of its key, according to its time, and is written like them, so
 * that it also counts in a later merge. drop_deleted drops it instead.
 *
 * REJECTS. Each record that cannot be read is copied byte for byte to the reject file, one per
 * line. In the report, rows_in = rows_out + rows_superseded + rows_rejected + rows_deleted. If more
 * than rejects_max records are rejected, the merge fails: the reject file is kept, but the output
 * is not. A time without a time zone makes the whole merge fail immediately, unless the options
 * specify a time zone.
 *
 * PARQUET. A key and a time are columns, found by name. Keys are ordered by their type. Rows with
 * an equal key and time, or rows that are sorted by an equal field, are ordered by all other
 * columns, in the byte order of their names: of two such rows, the greater one is kept. The output
 * has the columns of all inputs; a column that an input lacks is NULL there. An input without the
 * key column, or with another type in a column, fails the merge. A row whose key or time is NULL is
 * rejected. A deleted field is a BOOLEAN column; a row in which it is NULL or missing is not a
 * deletion. The files are read and written by DuckDB's library, which the program holdfast-parquet
 * loads; HOLDFAST_DUCKDB names the library's file. At most 4096 files are merged at a time. Files
 * with many columns need more memory, about 320 KiB for each column.
 *
 * FAILURE. Unless a merge returns HF_OK, it leaves no new file under any name, except the reject
 * file of a merge with too many rejects. (If the folder of the output could not be synced, the
 * output may already have its name, and may still disappear in a power loss.) */
#ifndef HOLDFAST_MERGE_H
#define HOLDFAST_MERGE_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Formats ------------------------------------------------------------------------- */

/* File formats. Each row: constant, name, description. */
#define HF_MERGE_FORMAT_TABLE(ROW)                                                \
    ROW(USV, "usv", "fields separated by 0x1F, records terminated by LF or 0x1E") \
    ROW(CSV, "csv", "RFC 4180; inputs may have different headers")                \
    ROW(TSV, "tsv", "like csv, separated by tabs")                                \
    ROW(NDJSON, "ndjson", "one JSON object per line")                             \
    ROW(CONCAT, "concat", "no records: the bytes of the inputs, decompressed")    \
    ROW(EXEC, "exec", "no records: a command merges the inputs")                  \
    ROW(PARQUET, "parquet", "rows and columns; needs DuckDB's library")

#define HF_MERGE_FORMAT_ENUM_(name, word, text) HF_MERGE_##name,
enum hf_merge_format { HF_MERGE_FORMAT_TABLE(HF_MERGE_FORMAT_ENUM_) HF_MERGE_FORMAT_COUNT };
#undef HF_MERGE_FORMAT_ENUM_

/* Compression of the output. The compression of an input is detected from its first bytes. */
#define HF_MERGE_CODING_TABLE(ROW)                                              \
    ROW(AUTO, "auto", "by the suffix of the output: .gz, .zst; otherwise none") \
    ROW(PLAIN, "none", "not compressed")                                        \
    ROW(GZIP, "gzip", "compressed with gzip")                                   \
    ROW(ZSTD, "zstd", "compressed with zstd")

#define HF_MERGE_CODING_ENUM_(name, word, text) HF_MERGE_##name,
enum hf_merge_coding { HF_MERGE_CODING_TABLE(HF_MERGE_CODING_ENUM_) HF_MERGE_CODING_COUNT };
#undef HF_MERGE_CODING_ENUM_

/* Returns the name of a format or compression, such as "usv" or "gzip". */
HF_API const char *hf_merge_format_name(enum hf_merge_format format);
HF_API const char *hf_merge_coding_name(enum hf_merge_coding coding);

/* Converts a name to its format or compression. Returns HF_INVALID if the name is unknown. */
HF_API enum hf_status hf_merge_format_parse(const char *text, enum hf_merge_format *ret_format,
                                            struct hf_error *error);
HF_API enum hf_status hf_merge_coding_parse(const char *text, enum hf_merge_coding *ret_coding,
                                            struct hf_error *error);

/* ---- Options ------------------------------------------------------------------------- */

/* The progress of a merge. bytes_total is the size of the inputs, and does not change. bytes_done
 * never falls. If an input must be sorted, or the merge starts again with less memory, bytes_done
 * grows more slowly from then on. In the last call of a merge that succeeds, both numbers are
 * equal.
 *
 * While inputs that are not regular files are being copied, bytes_total is 0, and bytes_done is the
 * number of bytes copied; these bytes are then part of both numbers. While a command or the helper
 * for Parquet runs, both numbers are 0. */
struct hf_merge_progress {
    size_t struct_size;
    uint64_t bytes_done;
    uint64_t bytes_total;
};

/* Files that are written under a temporary name. */
enum hf_merge_part {
    HF_MERGE_PART_OUTPUT,
    HF_MERGE_PART_REJECTS,
    HF_MERGE_PART_FOLDER, /* the folder in which a command writes the output */
};

#define HF_MERGE_REJECTS_ANY ((uint64_t)INT64_MAX)
#define HF_MERGE_MEMORY_MIN  (UINT64_C(8) << 20)
#define HF_MERGE_MEMORY_MAX  (UINT64_C(16) << 30)
#define HF_MERGE_RECORD_MAX  (UINT64_C(1) << 30)
#define HF_MERGE_THREADS_MAX 64

struct hf_merge_options {
    size_t struct_size;
    enum hf_merge_format format;
    /* One to eight fields, separated by commas: each its number from 1, or its name in a header or
     * JSON object, then optionally :number, :desc or :number:desc. In a name, a comma, a colon and
     * a backslash are preceded by a backslash. */
    const char *key;
    /* One field: its number or name, without any of these additions. Times are RFC 3339, or s, ms,
     * us or ns since 1970, distinguished by their magnitude. */
    const char *time;
    /* For times without a time zone: "UTC", or an offset such as "+02:00". */
    const char *zone;
    bool headless;               /* csv, tsv: the first record is data */
    enum hf_merge_coding coding; /* of the output; does not apply to commands */
    /* Memory limit; 0: 64 MiB; at least 8 MiB. For Parquet, 0: 256 MiB, and at least 128
     * MiB. */
    uint64_t memory_bytes;
    /* Longer records are rejected; 0: 16 MiB, or a quarter of memory_bytes if that is less. */
    uint64_t record_bytes_max;
    /* The merge fails if more records are rejected; HF_MERGE_REJECTS_ANY: no limit. */
    uint64_t rejects_max;
    unsigned threads;        /* 0: one per processor, up to 4 */
    const char *reject_path; /* NULL: the name of the output plus ".rejects" */
    /* For sorting, and for an output given as a descriptor (default: the folder of the output, or
     * $TMPDIR or /tmp if it has no folder). */
    const char *scratch_folder;
    /* HF_MERGE_EXEC: the command, as words separated by blanks, quoted as in a shell. It is not run
     * by a shell. {inputs} stands for all inputs, {output} for the file to be written. Exit status
     * 0 means success. */
    const char *command;
    /* After this time, the command's process group is killed; 0: one hour. */
    int64_t command_limit_ms;
    /* Limits for each process of the command, as for setrlimit; 0: the limits of this process. */
    uint64_t command_memory_max;
    uint64_t command_file_max;
    int64_t command_cpu_ms;

    /* Optional. Called by the merging thread about once per megabyte of input, and a few times per
     * second while a command runs. Return false to stop the merge with HF_CANCELLED. */
    bool (*progress)(void *argument, const struct hf_merge_progress *progress);
    /* Optional. Called with the path of each file when it gets a temporary name, and with NULL when
     * it no longer has one. A program that is being terminated can use the path to remove the
     * file. */
    void (*unfinished)(void *argument, enum hf_merge_part part, const char *path);
    void *argument; /* for both callbacks */
    /* What errors and reasons call the inputs, for inputs that are descriptors or temporary files:
     * one name per input. NULL, or NULL for one of them: its path. A name that ends in .gz or .zst
     * says that the input is compressed, as a path does. */
    const char *const *input_names;
    /* The same for the output: HF_MERGE_AUTO takes the compression from its suffix. */
    const char *output_name;

    /* A field that marks deletions, by number or name; needs a key and a time. A record in which it
     * is true, yes or 1 (in upper or lower case, and in NDJSON as a string, number or boolean) is a
     * deletion. false, no, 0, null and nothing mean that it is not; any other value rejects the
     * record. An input whose header lacks the field has no deletions. */
    const char *deleted;
    /* Drops deletions that win, instead of writing them. Needs inputs_are_all: if a file that is
     * not among the inputs has an earlier record of the key, that record would come back. */
    bool drop_deleted;
    bool inputs_are_all; /* the caller states that no other file has records of these keys */
};
#define HF_MERGE_OPTIONS                                                                   \
    HF_VALUE_(hf_merge_options, sizeof(struct hf_merge_options), HF_MERGE_USV, NULL, NULL, \
              NULL, false, HF_MERGE_AUTO, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, NULL,  \
              NULL, NULL, NULL, NULL, NULL, false, false)

#define HF_MERGE_REASONS_MAX 4

/* The result of a merge. */
struct hf_merge_report {
    size_t struct_size;
    bool rows_counted; /* false for concat and exec, which do not count rows */
    bool rejects_kept; /* failed with too many rejects; the reject file was kept */
    bool zone_missing; /* failed because a time had no time zone */
    uint64_t rows_in, rows_out, rows_superseded, rows_rejected;
    uint64_t bytes_in;        /* of the input files on disk */
    uint64_t bytes_out;       /* of the output on disk */
    uint64_t bytes_spilled;   /* written to scratch files */
    uint64_t inputs_unsorted; /* inputs that had to be sorted first */
    int64_t took_ms;
    uint64_t reason_count; /* number of `reasons`: why the first few rows were rejected */
    char reasons[HF_MERGE_REASONS_MAX][HF_WHY_MAX];
    uint64_t rows_deleted; /* deletions that were dropped */
};
#define HF_MERGE_REPORT                                                                      \
    HF_VALUE_(hf_merge_report, sizeof(struct hf_merge_report), false, false, false, 0, 0, 0, \
              0, 0, 0, 0, 0, 0, 0, { { 0 } }, 0)

/* ---- Merging ------------------------------------------------------------------------- */

/* Merges 1 to 100,000 files into `output`, which is replaced if it exists. `options` and `report`
 * may be NULL; the report is set regardless of the status, and covers the work that was done.
 *
 * An input that is not a regular file, such as a named pipe, is read to its end and copied to an
 * unnamed file in the scratch folder first. All such inputs are read at the same time, so one
 * program may write to several of them. The copies may use the disk of that folder, except for a
 * 32nd part of it (at most 1 GiB): an input without an end fails the merge before the disk is full.
 *
 * Returns HF_OK if the output is complete and on disk. Returns HF_INVALID if an option is out of
 * range, an input is a folder, a header lacks the key or the time, headers differ and one of them
 * has a name twice, too many records were rejected, or a time has no time zone. Returns
 * HF_NOT_FOUND if an input does not exist, and HF_DENIED if it may not be read. Returns HF_CORRUPT
 * if compressed data is damaged or truncated. Returns HF_UNSUPPORTED if an input was compressed
 * with a window that exceeds the memory limit, or if what Parquet needs is not installed. Returns
 * HF_UNAVAILABLE if there is not enough space or memory, an I/O error occurred, an input changed
 * during the merge, or a command failed. Returns HF_TIMEOUT if a command ran too long, and
 * HF_CANCELLED if `progress` stopped the merge. */
HF_API enum hf_status hf_merge(const char *const *inputs, size_t input_count,
                               const char *output, const struct hf_merge_options *options,
                               struct hf_merge_report *report, struct hf_error *error);

/* A file, given by its path or, if `path` is NULL, by a descriptor. The descriptor still belongs to
 * the caller, and is not closed. */
struct hf_merge_file {
    const char *path;
    int fd;
};

/* Merges files given by path or descriptor. Otherwise like hf_merge.
 *
 * An input descriptor must be open for reading. A regular file is read from its start, and its
 * offset does not change. Anything else, such as a pipe, is read from its current position to its
 * end, and copied first. Errors name it /proc/self/fd/<number>, unless input_names names it.
 *
 * An output descriptor may be anything that can be written to, such as a pipe. The merge first
 * writes a scratch file. The contents of that file are then written at the descriptor's current
 * offset, and are not synced. Nothing is written to the descriptor unless the merge itself
 * succeeds. If a write to the descriptor fails, part of the output may already have been written:
 * the call returns HF_UNAVAILABLE, or HF_CANCELLED if the reader of a pipe has closed it. Rejects
 * need a reject_path if the output is a descriptor: the call returns HF_INVALID if rejects_max is
 * above 0 and reject_path is NULL. */
HF_API enum hf_status hf_merge_files(const struct hf_merge_file *inputs, size_t input_count,
                                     const struct hf_merge_file *output,
                                     const struct hf_merge_options *options,
                                     struct hf_merge_report *report, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
