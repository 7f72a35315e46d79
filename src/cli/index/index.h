/* SPDX-License-Identifier: Apache-2.0 */
/* index.h: declarations that the `index` commands share. put.c implements create and put; read.c
 * implements get, query, export and count; compile.c and status.c are named after their
 * commands. */
#ifndef CLI_INDEX_INDEX_H
#define CLI_INDEX_INDEX_H

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

#endif
