/* SPDX-License-Identifier: Apache-2.0 */
/* index.h: declarations that the `index` commands share. put.c implements create, put and rm;
 * get.c implements get; read.c implements query, export and count; compile.c and status.c are
 * named after their commands. */
#ifndef CLI_INDEX_INDEX_H
#define CLI_INDEX_INDEX_H

#include "cli/lock/lock.h"
#include "cli/output/progress.h"
#include "cli/output/record.h"

/* Rewrites an error about a library option (shard, since, where) to name the command-line option
 * (--shard, --since, --where). */
enum hf_status index_option_error(struct cli *cli, enum hf_status status);

/* A format for people: escaped fields separated by tabs, without a header. It is only written,
 * never read. */
#define FORMAT_PLAIN HF_INDEX_FORMAT_COUNT

/* The format given by --format (default: `usual`). */
enum hf_status index_format_option(struct cli *cli, enum hf_index_format usual,
                                   enum hf_index_format *ret_format);

/* The same for records on stdout: --json selects JSON lines, regardless of the default. */
enum hf_status take_record_format(struct cli *cli, enum hf_index_format usual,
                                  enum hf_index_format *ret_format);

/* The keys of the arguments after the index, and then those of --keys-from. INVALID if there are
 * none. */
enum hf_status take_key_arguments(struct cli *cli, struct names *keys);

/* Records that are being printed. */
struct showing {
    struct cli *cli;
    enum hf_index_format format;
    bool began; /* the first record was printed */
};

enum hf_status print_header(const struct showing *showing);
enum hf_status print_record(struct showing *showing, struct hf_index_record *record,
                            struct hf_error *error);

#endif
