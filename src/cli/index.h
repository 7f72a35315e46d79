/* index.h: what the commands about indexes share. Their rows stand in index.c; index_put.c creates
 * and puts; index_read.c is get, query, export and count; index_compile.c and index_status.c are
 * what their commands are called. */
#ifndef CLI_INDEX_H
#define CLI_INDEX_H

#include "cli/cli.h"

enum hf_status run_index_create(struct cli *cli);
enum hf_status run_index_put(struct cli *cli);
enum hf_status run_index_get(struct cli *cli);
enum hf_status run_index_query(struct cli *cli);
enum hf_status run_index_export(struct cli *cli);
enum hf_status run_index_count(struct cli *cli);
enum hf_status run_index_compile(struct cli *cli);
enum hf_status run_index_status(struct cli *cli);

/* ---- The index that a command works on ------------------------------------------------ */

struct index_desk {
    struct cli *cli;
    struct hf_client *client;
    struct hf_index *index;
    struct hf_index_info info; /* as it was when it was opened */
};

/* Opens the store and the index of the first argument. index_desk_close is needed on failure
 * too. */
enum hf_status index_desk_open(struct index_desk *desk, struct cli *cli);
void index_desk_close(struct index_desk *desk);

/* The library names what is wrong with an option of its own: shard, since, where. Here they start
 * with dashes. */
enum hf_status index_option_error(struct cli *cli, enum hf_status status);

/* ---- Formats ------------------------------------------------------------------------- */

/* For people: tabs between fields, escaped, without a header; never read. */
#define FORMAT_PLAIN HF_INDEX_FORMAT_COUNT

/* The format of --format, or else `usual`. */
enum hf_status index_format_option(struct cli *cli, enum hf_index_format usual,
                                   enum hf_index_format *ret_format);

#endif
