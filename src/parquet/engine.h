/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h: a DuckDB database in memory that can do the work of one request and nothing else.
 *
 * The helper opens every file of the request itself, and SQL names them /proc/self/fd/<number>. So
 * no path of a user is ever part of SQL, and none is taken for a pattern. Only these files and the
 * folder for temporary files are accessible: extensions, other files, the network and changes of
 * the settings are off before the first input is read. */
#ifndef PARQUET_ENGINE_H
#define PARQUET_ENGINE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "merge/parquet_message.h"
#include "parquet/duckdb.h"

#define SQL_BYTES_MAX ((size_t)64 << 20)

struct engine {
    struct duckdb duckdb;
    const struct parquet_request *request;
    struct arena arena;
    duck_connection connection;
    int *inputs;         /* open files */
    int output, rejects; /* -1: none */
    struct buffer sql;   /* the query to run */
    bool overload;       /* a query needed more than its memory */
    bool disk_full;      /* a query failed because the disk was full */
};

/* Opens the files and the database. It is closed by ending the process. */
enum hf_status engine_open(struct engine *engine, const struct parquet_request *request,
                           struct hf_error *error);

/* Starts the next query with this text. */
void sql_begin(struct engine *engine, const char *text);

/* Appends to the query: text as it is, a name in double quotes, a text in single quotes. */
void sql_add(struct engine *engine, const char *text);
void sql_add_name(struct engine *engine, struct view name);
void sql_add_text(struct engine *engine, struct view text);
void sql_add_number(struct engine *engine, uint64_t number);

/* Appends the name of an open file, as a text. */
void sql_add_file(struct engine *engine, int fd);

/* Appends a table function that reads the inputs from `first` to before `end` as Parquet. */
void sql_add_inputs(struct engine *engine, uint64_t first, uint64_t end);

/* Called for each row of a result; all its columns are VARCHAR. False: out of memory. */
typedef bool engine_row(void *context, const struct engine *engine, duck_chunk chunk,
                        uint64_t row);

/* Runs the query. `use` may be NULL.
 *
 *   UNAVAILABLE   it needs more memory than it may use (overload), or the disk is full (disk_full)
 *   UNSUPPORTED   the library was built without a function that we need
 *   CORRUPT       anything else: an input is damaged, or of a kind that DuckDB cannot read */
enum hf_status engine_run(struct engine *engine, engine_row *use, void *context,
                          struct hf_error *error);

#endif
