/* index.h: what the commands about indexes share. Their rows stand in index.c; index_put.c puts,
 * with index_rows.c to read files of records; index_read.c is get, query, export and count, with
 * index_show.c to write records; index_compile.c and index_status.c are what their commands are
 * called. */
#ifndef CLI_INDEX_H
#define CLI_INDEX_H

#include "cli/cli.h"
#include "index/index.h"

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
    struct hf_client *client; /* of those who compile */
    struct index *index;
};

/* Opens the store and the index of the first argument; with `compiles` a client too.
 * index_desk_close is needed on failure too. */
enum hf_status index_desk_open(struct index_desk *desk, struct cli *cli, bool compiles);
void index_desk_close(struct index_desk *desk);

/* The field of this name; INVALID, with the names that there are, when there is none. */
enum hf_status index_field(const struct schema *schema, struct view name, size_t *ret_field,
                           struct hf_error *error);

/* The shard of --shard; its text stays empty when it was not given. */
enum hf_status index_shard_option(struct index_desk *desk, struct shard_id *ret_shard);

/* ---- Formats ------------------------------------------------------------------------- */

enum rows_format {
    ROWS_USV,
    ROWS_CSV,
    ROWS_TSV,
    ROWS_NDJSON,
    ROWS_PLAIN, /* for people: tabs between fields, escaped, without a header; never read */
};

/* By how the name of a file ends; false when that tells nothing. */
bool index_format_of_name(struct view path, enum rows_format *ret_format);

/* The format of --format, or else `usual`. */
enum hf_status index_format_option(struct cli *cli, enum rows_format usual,
                                   enum rows_format *ret_format);

#endif
