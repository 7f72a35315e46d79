/* merge.h: many files of records into one.
 *
 * A merge reads its inputs once, in bounded memory, and writes one output, which appears under
 * its name only when it is whole and on disk. The formats usv, csv, tsv and ndjson are made of
 * records; concat and exec are not.
 *
 *   plain         a key or a time is named: all records, in the order of that field. Records
 *                 that are equal in it keep the order of their file; between files the smaller
 *                 record goes first
 *   latest wins   both are named: of the records with one key only that with the latest time
 *                 is kept, and of two with the same time the one with the greater bytes
 *
 * Keys are ordered by their bytes, as values: a quoted field of CSV without its quotes, a JSON
 * string without its escapes. Records are written as they stood, each ended by LF. Equal inputs
 * in any order give the same output. An input that is not in order is noticed and sorted.
 *
 * A record that cannot be read is rejected: it goes to the reject file, byte for byte, one per
 * line, and rows_in = rows_out + rows_superseded + rows_rejected. More rejects than the options
 * allow, which is none by default, fail the merge: the reject file stays, the output does not. An
 * empty line is no record. A time without a zone is not rejected but fails the merge at once,
 * unless the options name the zone. */
#ifndef MERGE_MERGE_H
#define MERGE_MERGE_H

#include "base/error.h"
#include "base/limits.h"
#include "base/moment.h"
#include "base/view.h"

#include <stdint.h>

struct env;

enum merge_format {
    MERGE_USV,
    MERGE_CSV,
    MERGE_TSV,
    MERGE_NDJSON,
    MERGE_CONCAT,
    MERGE_EXEC,
    MERGE_FORMAT_COUNT
};

/* How the output is compressed. Inputs tell it by their first bytes. */
enum merge_coding { MERGE_PLAIN, MERGE_GZIP, MERGE_ZSTD, MERGE_CODING_COUNT };

/* "usv", "gzip", ...: as options and documents spell them. */
const char *merge_format_name(enum merge_format format);
const char *merge_coding_name(enum merge_coding coding);
enum hf_status merge_format_parse(struct view text, enum merge_format *ret_format,
                                  struct hf_error *error);

/* What a name promises by its end: .gz, .zst. */
enum merge_coding merge_coding_of_name(struct view name);

enum hf_status merge_coding_parse(struct view text, enum merge_coding *ret_coding,
                                  struct hf_error *error);

/* Called from the thread that merges, about once a megabyte of input. Bytes are those of the
 * input files; an input that must be sorted is read twice, which raises the total. False stops
 * the merge: it ends CANCELLED and leaves nothing behind. */
struct merge_progress {
    bool (*step)(void *context, uint64_t bytes_done, uint64_t bytes_total);
    /* Files that are written under a name that is not theirs yet, for who wants to remove them
     * should the process end by force: 0 for the output, 1 for rejects, 2 for the folder in which a
     * command writes the output; NULL: no more. */
    void (*writes)(void *context, int which, const char *path);
    void *context;
};

/* What exec runs: words separated by blanks, with '...', "..." and \ as in a shell, but no shell
 * runs. The word {inputs} stands for all inputs, one word each; {output}, alone or within a
 * word, for the file to be written. Exit status 0 and a file there: merged. */
struct merge_command {
    struct view line;
    struct span time_limit; /* then it is killed, with all that it started in its group */
    /* Limits as of setrlimit, for each of its processes; 0: as ours. */
    uint64_t memory_bytes_max;
    uint64_t file_bytes_max;
    struct span cpu_limit;
    /* NULL: the line is the user's own. It runs with our environment, and its first word is looked
     * for in $PATH. Else the line is somebody else's: this program runs, whatever the first word
     * says, with no more of our environment than PATH, HOME, LANG, LC_ALL, LC_COLLATE, LC_CTYPE, TZ
     * and TMPDIR, and leaves no core. */
    const char *program;
};

struct merge_options {
    enum merge_format format;
    struct view key; /* a field: its number from 1, or its name in a header or JSON object */
    struct view
        time;      /* the same; RFC 3339, or s, ms, us or ns since 1970, told by their size */
    bool has_zone; /* times that name no zone are those of one: */
    int64_t zone_east_s; /* seconds east of UTC */
    bool headless;       /* csv, tsv: the first record is no header */
    enum merge_coding coding;
    size_t memory_bytes;     /* all that is held at once, sorting included */
    size_t record_bytes_max; /* a longer one streams to the reject file; 0: 16 MiB, or a quarter
                              * of memory_bytes where that is less */
    bool record_max_is_fixed; /* it may be more than a quarter of memory_bytes: the merge fails
                               * (UNAVAILABLE) for a record that there is no room for */
    uint64_t rejects_max;     /* more fail the merge; up to MERGE_REJECTS_ANY */
    size_t threads;
    const char *reject_path; /* NULL: the output's name with ".rejects" behind it */
    const char
        *scratch_folder; /* where sorted runs wait, nameless; NULL: the output's folder */
    /* The output is a step on the way to somewhere else: it is not synced, and its checksum is
     * told. */
    bool intermediate;
    bool
        synced_later; /* of an intermediate one: somebody will sync it, so the disk is kept busy */
    struct merge_command command;
    struct merge_progress progress;
};

#define MERGE_MEMORY_DEFAULT  (64 * MIB)
#define MERGE_MEMORY_MIN      (8 * MIB)
#define MERGE_MEMORY_MAX      (16 * GIB)
#define MERGE_RECORD_DEFAULT  (16 * MIB)
#define MERGE_RECORD_MAX      (1 * GIB)
#define MERGE_REJECTS_DEFAULT 0
#define MERGE_REJECTS_ANY     ((uint64_t)INT64_MAX)
#define MERGE_REJECTS_BEYOND  1000 /* kept to be looked at; then a merge that must fail stops */
#define MERGE_THREADS_MAX     64
#define MERGE_INPUTS_MAX      100000

#define MERGE_OPTIONS                                              \
    ((struct merge_options){ .memory_bytes = MERGE_MEMORY_DEFAULT, \
                             .rejects_max = MERGE_REJECTS_DEFAULT, \
                             .threads = 1,                         \
                             .command = { .time_limit = { INT64_C(3600) * 1000000 } } })

#define MERGE_REASONS_MAX 4

struct merge_result {
    bool rows_counted; /* false for concat and exec, which know no rows */
    uint64_t rows_in;
    uint64_t rows_out;
    uint64_t rows_superseded;
    uint64_t rows_rejected;
    uint64_t bytes_in;      /* of the input files, as they lie on disk */
    uint64_t bytes_out;     /* of the output, likewise */
    uint64_t bytes_spilled; /* written to scratch files on the way */
    size_t inputs_unsorted; /* that had to be sorted first */
    uint32_t crc32c;        /* of an intermediate output that is not a command's */
    bool command_ended;     /* a command was started, and came to an end */
    bool disk_full;         /* it failed since there was no room for more output */
    bool rejects_kept;      /* it failed for them, and the reject file has its name */
    bool zone_missing;      /* it failed for a time without a zone */
    size_t reason_count;    /* the first few rejected rows, in words: */
    char reasons[MERGE_REASONS_MAX][HF_WHY_MAX];
};

/* Merges the files into `output`, which it replaces if it is there. `ret_result` is set on
 * failure too, as far as it got, so that a caller can show why rows were rejected.
 *
 *   INVALID      options out of range, an input that is no file, headers that differ, a key that
 *                no header has, more rejects than allowed, a time without a zone
 *   CORRUPT      compressed data that is damaged or ends early
 *   UNAVAILABLE  no space, no memory, an I/O error, an input that changed; a command that failed
 *   UNSUPPORTED  compressed with a window that the memory setting has no room for
 *   TIMEOUT      a command that ran too long
 *   CANCELLED    progress said so
 *
 * Unless it is OK there is no new file under any name, but for two cases. More rejects than
 * allowed leave the reject file, with up to MERGE_REJECTS_BEYOND more than that number, unless the
 * output is intermediate. And the output may have its name when its folder could not be synced, so
 * that a power loss may still take it back. */
enum hf_status merge_files(struct env *env, const struct merge_options *options,
                           const char *const *inputs, size_t input_count, const char *output,
                           struct merge_result *ret_result, struct hf_error *error);

#endif
