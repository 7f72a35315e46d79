/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h: merges many files of records into one.
 *
 * A merge reads its inputs once, in bounded memory, and writes one output, which appears under its
 * name only when it is complete and on disk. The formats usv, csv, tsv and ndjson consist of
 * records; concat and exec do not. Parquet files consist of rows, which a helper process reads and
 * writes (parquet.h).
 *
 *   plain         a key or a time field is given: all records are kept, in the order of that field.
 *                 Records with equal fields keep the order of their file; among records of
 *                 different files, the smaller record is first
 *   latest wins   both fields are given: for each key only the record with the latest time is
 *                 kept; if the times are equal, the greater record (ties.h)
 *
 * Keys are ordered by the bytes of their values (a quoted CSV field without its quotes, a JSON
 * string without its escapes), or as key.h describes. Records are written unchanged, each ended by
 * LF; if the headers of csv or tsv inputs differ, as layout.h describes. Equal inputs in any order
 * give the same output, except for the order of columns if headers differ. With latest wins, merges
 * in several steps, in any order and grouping, give the same records as one merge of all inputs. An
 * input that is not in order is detected and sorted.
 *
 * With a deleted field, a record in which it is true is a deletion: it wins or loses against other
 * records of its key by time, as they do. A deletion that wins is written like a record, so that
 * it also wins in a later merge, or dropped.
 *
 * A record that cannot be read is rejected: it is written to the reject file, byte for byte, one
 * record per line. So rows_in = rows_out + superseded + rejected + deleted. If there are more
 * rejects than allowed (default: none), the merge fails: the reject file is kept, but the output is
 * not. An empty line is not a record. A time without a zone fails the merge immediately, instead of
 * being rejected, unless the options specify the zone. */
#ifndef MERGE_MERGE_H
#define MERGE_MERGE_H

#include "base/error.h"
#include "base/limits.h"
#include "base/moment.h"
#include "base/view.h"

#include <stdint.h>

struct env;

/* Whether a format consists of records, which have fields and are counted. */
static inline bool merge_has_records(enum hf_merge_format format)
{
    return format != HF_MERGE_CONCAT && format != HF_MERGE_EXEC;
}

/* Whether a format is text that is cut into records here. */
static inline bool merge_is_text(enum hf_merge_format format)
{
    return merge_has_records(format) && format != HF_MERGE_PARQUET;
}

/* Like hf_merge_format_parse and hf_merge_coding_parse. HF_MERGE_AUTO occurs only in the options of
 * the public API: here every output is plain, gzip or zstd. */
enum hf_status merge_format_parse(struct view text, enum hf_merge_format *ret_format,
                                  struct hf_error *error);
enum hf_status merge_coding_parse(struct view text, enum hf_merge_coding *ret_coding,
                                  struct hf_error *error);

/* The coding that a file name implies: .gz, .zst. */
enum hf_merge_coding merge_coding_of_name(struct view name);

/* `step` is called from the merging thread, about once per megabyte of input. The total is the size
 * of the input files; it never changes, and bytes_done never falls. Work that turns out to be
 * necessary, such as sorting an input, makes bytes_done grow more slowly. Returning false stops the
 * merge, which then returns CANCELLED and leaves nothing behind. */
struct merge_progress {
    bool (*step)(void *context, uint64_t bytes_done, uint64_t bytes_total);
    /* Called with each temporary path, so that a caller can remove the files if the process is
     * killed: 0 for the output, 1 for rejects, 2 for the folder in which a command writes. NULL:
     * the file no longer exists under that path. */
    void (*writes)(void *context, int which, const char *path);
    void *context;
    uint64_t done_before; /* bytes that were already shown as done; part of both numbers */
};

/* The command of exec: words separated by blanks, with '...', "..." and \ as in a shell, but no
 * shell is run. The word {inputs} is replaced by all inputs, one word each; {output}, alone or
 * within a word, is replaced by the file to write. The command has succeeded if its exit status is
 * 0 and the file exists. */
struct merge_command {
    struct view line;
    struct span time_limit; /* after this time its whole process group is killed */
    /* Limits for each of its processes, as for setrlimit; 0: our own limits. */
    uint64_t memory_bytes_max;
    uint64_t file_bytes_max;
    struct span cpu_limit;
    const char *name; /* in errors; NULL: the first word */
    /* NULL: the command is the user's own. It runs with our environment, and its first word is
     * looked up in $PATH. Otherwise the command comes from the bucket: this program is run,
     * regardless of the first word, with only PATH, HOME, LANG, LC_ALL, LC_COLLATE, LC_CTYPE, TZ
     * and TMPDIR from our environment, and without core dumps. */
    const char *program;
};

/* What the key is in the records of an ndjson input: two bits per key field, the first field's
 * lowest. 0: unknown, or not ndjson. */
#define MERGE_KEY_STRING    1U
#define MERGE_KEY_NUMBER    2U
#define MERGE_KEY_BOTH      3U
#define MERGE_KEY_KIND_BITS 2

/* The size and CRC32C of an input as it is stored, computed while it was read for the merge. */
struct merge_input_sum {
    bool known; /* it was read from start to end, the last time */
    uint64_t size;
    uint32_t crc32c;
};

struct merge_options {
    enum hf_merge_format format;
    struct view
        key; /* fields, by number from 1, or by name in a header or JSON object (key.h) */
    struct view time;      /* a field; RFC 3339, or s, ms, us or ns since 1970, by magnitude */
    struct view deleted;   /* a field that marks deletions; needs a key and a time */
    bool drop_deleted;     /* drop deletions that win; only if ... */
    bool inputs_are_all;   /* ... no other file has records of their keys */
    bool distinct_columns; /* a survey refuses a header that has a name twice */
    bool has_zone;         /* times without a zone are in this one: */
    int64_t zone_east_s;   /* seconds east of UTC */
    bool headless;         /* csv, tsv: the first record is not a header */
    enum hf_merge_coding coding;
    size_t memory_bytes;      /* memory limit, including sorting */
    size_t record_bytes_max;  /* longer records are streamed to the reject file; 0: 16 MiB, or a
                              * quarter of memory_bytes if less */
    bool record_max_is_fixed; /* it may exceed a quarter of memory_bytes: a record that does not
                               * fit fails the merge (UNAVAILABLE) */
    uint64_t rejects_max;     /* more rejects fail the merge; up to HF_MERGE_REJECTS_ANY */
    size_t threads;
    const char *reject_path;    /* NULL: the output's name with ".rejects" appended */
    const char *scratch_folder; /* for sorted runs, unnamed files; NULL: the output's folder */
    /* The output is temporary: it is not synced, and its checksum is returned. */
    bool intermediate;
    bool
        synced_later; /* the caller will sync an intermediate output, so writing starts early */
    /* Survey only: a file with whose columns the surveyed one must agree: in their types or, for
     * csv and tsv, in the names of fields that are given by number. It may be incomplete: only its
     * footer or its header is read. NULL: none. */
    const char *columns_like;
    struct merge_command command;
    struct merge_progress progress;
    const char *const *input_names; /* in messages; NULL: the paths of the inputs */
    /* One per input, all zero; NULL: not wanted. After a merge that is OK, all are known, and are
     * those of the bytes that were merged. Not for Parquet and exec, where another process reads
     * the inputs. */
    struct merge_input_sum *input_sums;
};

#define MERGE_MEMORY_DEFAULT  (64 * MIB)
#define MERGE_RECORD_DEFAULT  (16 * MIB)
#define MERGE_REJECTS_DEFAULT 0
#define MERGE_REJECTS_BEYOND  1000 /* rows kept beyond the limit before the merge fails */
#define MERGE_INPUTS_MAX      100000

#define MERGE_OPTIONS                                              \
    ((struct merge_options){ .coding = HF_MERGE_PLAIN,             \
                             .memory_bytes = MERGE_MEMORY_DEFAULT, \
                             .rejects_max = MERGE_REJECTS_DEFAULT, \
                             .threads = 1,                         \
                             .command = { .time_limit = { INT64_C(3600) * 1000000 } } })

struct merge_result {
    bool rows_counted; /* false for concat and exec, which have no rows */
    uint64_t rows_in;
    uint64_t rows_out;
    uint64_t rows_superseded;
    uint64_t rows_rejected;
    uint64_t rows_deleted;   /* deletions that were dropped */
    uint64_t deletions_kept; /* deletions in the output */
    unsigned key_kinds;      /* of all inputs together */
    uint64_t bytes_in;       /* of the input files, as stored on disk */
    uint64_t bytes_out;      /* of the output, likewise */
    uint64_t bytes_spilled;  /* written to scratch files */
    size_t inputs_unsorted;  /* inputs that had to be sorted first */
    uint32_t crc32c;         /* of an intermediate output not written by a command */
    bool command_ended;      /* a command was started and has ended; for Parquet: the helper
                             * failed by itself, by its limits or for lack of memory */
    size_t culprit;          /* the input that caused the failure, counted from 1; 0: unknown */
    bool disk_full;          /* it failed because the disk was full */
    bool rejects_kept;       /* it failed because of rejects, and the reject file was kept */
    bool zone_missing;       /* it failed because of a time without a zone */
    size_t reason_count;     /* reasons for the first few rejected rows: */
    char reasons[HF_MERGE_REASONS_MAX][HF_WHY_MAX];
};

struct merge_paths {
    const char *const *inputs;
    size_t input_count;
    const char *output;
};

/* Merges the inputs into the output, replacing it if it exists. `ret_result` is filled in even on
 * failure, so that a caller can show why rows were rejected.
 *
 *   INVALID      options out of range, an input that is not a file, a header without the key or
 *                the time, headers that differ and have a name twice, more rejects than allowed, a
 *                time without a zone
 *   CORRUPT      compressed data that is damaged or ends early
 *   UNAVAILABLE  no space, no memory, an I/O error, an input that changed; a command that failed
 *   UNSUPPORTED  compressed with a window larger than the memory setting allows; what Parquet
 *                needs is not installed
 *   TIMEOUT      a command that ran too long
 *   CANCELLED    stopped by progress
 *
 * Unless the result is OK, the merge leaves no new file, with two exceptions. After too many
 * rejects the reject file is kept, with up to MERGE_REJECTS_BEYOND more rows than allowed, unless
 * the output is intermediate. And if the folder could not be synced, the output has its name, but a
 * power loss may undo that. */
enum hf_status merge_files(struct env *env, const struct merge_options *options,
                           const struct merge_paths *paths, struct merge_result *ret_result,
                           struct hf_error *error);

#endif
