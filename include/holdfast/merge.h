/* merge.h: many files of records into one. A merge reads its inputs in bounded memory and writes
 * one output, which appears under its name only when it is whole and on disk. It needs no store
 * and no client.
 *
 *     const char *inputs[] = { "mon.csv", "tue.csv" };
 *     struct hf_merge_options options = HF_MERGE_OPTIONS;
 *     options.format = HF_MERGE_CSV;
 *     options.key = "id";
 *     options.time = "updated";
 *     hf_merge(inputs, 2, "now.csv", &options, NULL, &error);
 *
 * ORDER. With a key or a time, all records come out in the order of that field; records that are
 * equal in it keep the order of their file, and between files the smaller record goes first. With
 * both, only the record with the latest time of each key is kept; of two with the same time, the
 * one with the greater bytes. Keys are compared as bytes, without the quotes of CSV and the escapes
 * of JSON. Records are written as they stood, each ended by LF. The same inputs in any order give
 * the same output. An input that is not in order is noticed and sorted.
 *
 * REJECTS. A record that cannot be read goes to the reject file, byte for byte, one per line, and
 * rows_in = rows_out + rows_superseded + rows_rejected. More rejects than rejects_max fail the
 * merge: the reject file stays, the output does not. A time without a zone is not rejected but
 * fails the merge at once, unless the options name the zone.
 *
 * FAILURE. Unless a merge is OK there is no new file under any name, except the reject file of a
 * merge that rejected too much. (When the output's folder could not be synced, the output may have
 * its name, and a power loss may still take it back.) */
#ifndef HOLDFAST_MERGE_H
#define HOLDFAST_MERGE_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Formats ------------------------------------------------------------------------- */

/* Each row: name, the name as text, sentence. */
#define HF_MERGE_FORMAT_TABLE(ROW)                                                    \
    ROW(USV, "usv", "fields separated by the byte 0x1F, records ended by LF or 0x1E") \
    ROW(CSV, "csv", "RFC 4180; all inputs have the same header")                      \
    ROW(TSV, "tsv", "the same, separated by tabs")                                    \
    ROW(NDJSON, "ndjson", "a JSON object on each line")                               \
    ROW(CONCAT, "concat", "no records: the bytes of the inputs, decompressed")        \
    ROW(EXEC, "exec", "no records: a command merges")

#define HF_MERGE_FORMAT_ENUM_(name, word, text) HF_MERGE_##name,
enum hf_merge_format { HF_MERGE_FORMAT_TABLE(HF_MERGE_FORMAT_ENUM_) HF_MERGE_FORMAT_COUNT };
#undef HF_MERGE_FORMAT_ENUM_

/* How an output is compressed. Inputs tell it by their first bytes. */
#define HF_MERGE_CODING_TABLE(ROW)                                             \
    ROW(AUTO, "auto", "as the output's name ends: .gz, .zst; otherwise plain") \
    ROW(PLAIN, "none", "not compressed")                                       \
    ROW(GZIP, "gzip", "by gzip")                                               \
    ROW(ZSTD, "zstd", "by zstd")

#define HF_MERGE_CODING_ENUM_(name, word, text) HF_MERGE_##name,
enum hf_merge_coding { HF_MERGE_CODING_TABLE(HF_MERGE_CODING_ENUM_) HF_MERGE_CODING_COUNT };
#undef HF_MERGE_CODING_ENUM_

/* "usv", "gzip": the words of the tables; "" for a number that is not in them. */
HF_API const char *hf_merge_format_name(enum hf_merge_format format);
HF_API const char *hf_merge_coding_name(enum hf_merge_coding coding);

/* The same backwards. INVALID: there is no such format, or no such compression. */
HF_API enum hf_status hf_merge_format_parse(const char *text, enum hf_merge_format *ret_format,
                                            struct hf_error *error);
HF_API enum hf_status hf_merge_coding_parse(const char *text, enum hf_merge_coding *ret_coding,
                                            struct hf_error *error);

/* ---- Options ------------------------------------------------------------------------- */

/* How far a merge is. Bytes are those of the input files; an input that must be sorted is read
 * twice, which raises the total. Of a command nothing is known but that it still runs: zeros. */
struct hf_merge_progress {
    size_t struct_size;
    uint64_t bytes_done;
    uint64_t bytes_total;
};

/* Files that are written under a name that is not theirs yet. */
enum hf_merge_part {
    HF_MERGE_PART_OUTPUT,
    HF_MERGE_PART_REJECTS,
    HF_MERGE_PART_FOLDER, /* in which a command writes the output */
};

#define HF_MERGE_REJECTS_ANY ((uint64_t)INT64_MAX)
#define HF_MERGE_MEMORY_MIN  (UINT64_C(8) << 20)
#define HF_MERGE_MEMORY_MAX  (UINT64_C(16) << 30)
#define HF_MERGE_RECORD_MAX  (UINT64_C(1) << 30)
#define HF_MERGE_THREADS_MAX 64

struct hf_merge_options {
    size_t struct_size;
    enum hf_merge_format format;
    const char *key; /* a field: its number from 1, or its name in a header or JSON object */
    const char
        *time; /* the same; RFC 3339, or s, ms, us or ns since 1970, told by their size */
    const char *zone; /* of times that name none: "UTC", or an offset such as "+02:00" */
    bool headless;    /* csv, tsv: the first record is data */
    enum hf_merge_coding coding; /* of the output; not of what a command writes */
    uint64_t memory_bytes;     /* at most so much is held at once; 0: 64 MiB; 8 MiB at least */
    uint64_t record_bytes_max; /* a longer record is rejected; 0: 16 MiB, or a quarter of
                                    memory_bytes where that is less */
    uint64_t rejects_max;      /* more fail the merge; HF_MERGE_REJECTS_ANY: none does */
    unsigned threads;          /* 0: one per processor, up to 4 */
    const char *reject_path;   /* NULL: the output's name with ".rejects" behind it */
    const char
        *scratch_folder;      /* for sorting, and for an output that is a descriptor; NULL: the
                                    output's folder, or $TMPDIR or /tmp where it has none */
    const char *command;      /* exec: words separated by blanks, quoted as in a shell, but no
                                    shell runs. {inputs} stands for all inputs, {output} for the
                                    file to be written. Exit status 0: merged */
    int64_t command_limit_ms; /* then it is killed, with its process group; 0: an hour */
    uint64_t command_memory_max; /* limits of each of its processes, as of setrlimit; 0: ours */
    uint64_t command_file_max;
    int64_t command_cpu_ms;

    /* Called by the thread that merges, about once a megabyte of input, and while a command runs a
     * few times per second. False ends the merge: CANCELLED. May be NULL. */
    bool (*progress)(void *argument, const struct hf_merge_progress *progress);
    /* Told of each file while it has a temporary name (NULL: no more), so that a program that ends
     * by force can remove it. May be NULL. */
    void (*unfinished)(void *argument, enum hf_merge_part part, const char *path);
    void *argument; /* of both */
};
#define HF_MERGE_OPTIONS                                                                   \
    HF_VALUE_(hf_merge_options, sizeof(struct hf_merge_options), HF_MERGE_USV, NULL, NULL, \
              NULL, false, HF_MERGE_AUTO, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, 0, NULL,  \
              NULL, NULL)

#define HF_MERGE_REASONS_MAX 4

/* What came of it. */
struct hf_merge_report {
    size_t struct_size;
    bool rows_counted; /* false for concat and exec, which know no rows */
    bool rejects_kept; /* it failed for rejects, and the reject file has its name */
    bool zone_missing; /* it failed for a time without a zone */
    uint64_t rows_in, rows_out, rows_superseded, rows_rejected;
    uint64_t bytes_in;        /* of the input files, as they lie on disk */
    uint64_t bytes_out;       /* of the output, likewise */
    uint64_t bytes_spilled;   /* written to scratch files on the way */
    uint64_t inputs_unsorted; /* that had to be sorted first */
    int64_t took_ms;
    uint64_t reason_count; /* the first few rejected rows, in words: */
    char reasons[HF_MERGE_REASONS_MAX][HF_WHY_MAX];
};
#define HF_MERGE_REPORT                                                                      \
    HF_VALUE_(hf_merge_report, sizeof(struct hf_merge_report), false, false, false, 0, 0, 0, \
              0, 0, 0, 0, 0, 0, 0, { { 0 } })

/* ---- Merging ------------------------------------------------------------------------- */

/* Merges 1 to 100,000 files into `output`, which it replaces if it is there. `options` and `report`
 * may be NULL; the report is set whatever the status is, as far as the merge got.
 *   OK           merged, whole and on disk
 *   INVALID      options out of range, an input that is no file, headers that differ, a key that no
 *                header has, more rejects than allowed, a time without a zone
 *   NOT_FOUND, DENIED  an input that is not there, or that may not be read
 *   CORRUPT      compressed data that is damaged or ends early
 *   UNAVAILABLE  no space, no memory, an I/O error, an input that changed; a command that failed
 *   UNSUPPORTED  compressed with a window that the memory setting has no room for
 *   TIMEOUT      a command that ran too long
 *   CANCELLED    progress said so */
HF_API enum hf_status hf_merge(const char *const *inputs, size_t input_count,
                               const char *output, const struct hf_merge_options *options,
                               struct hf_merge_report *report, struct hf_error *error);

/* A file by its path, or, where that is NULL, by a descriptor, which stays the caller's. */
struct hf_merge_file {
    const char *path;
    int fd;
};

/* The same with descriptors. One that is an input must be of a regular file and open for reading;
 * it is read from its start, whatever its offset, which does not move, and errors call it
 * /proc/self/fd/<number>. One that is the output may be of anything that can be written to, a pipe
 * too: the merge ends in a scratch file, and then its bytes are written at the descriptor's offset
 * and are not synced. So nothing is written to it unless the merge itself is OK; when that write
 * fails (UNAVAILABLE, or CANCELLED where the reader of a pipe is gone), a part may have been.
 * Rejects of such a merge need a reject_path: INVALID where rejects_max is above 0 without one. */
HF_API enum hf_status hf_merge_files(const struct hf_merge_file *inputs, size_t input_count,
                                     const struct hf_merge_file *output,
                                     const struct hf_merge_options *options,
                                     struct hf_merge_report *report, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
