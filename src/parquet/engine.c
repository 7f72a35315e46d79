/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c: opens DuckDB, takes away what it must not do, and runs queries. */
#include "parquet/engine.h"

#include "base/check.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FD_FOLDER    "/proc/self/fd/"
#define MEMORY_LEAST ((uint64_t)128 << 20)

/* ---- SQL ----------------------------------------------------------------------------- */

void sql_begin(struct engine *engine, const char *text)
{
    buffer_clear(&engine->sql);
    sql_add(engine, text);
}

void sql_add(struct engine *engine, const char *text)
{
    buffer_append(&engine->sql, view_of(text));
}

/* SQL ends at a NUL, so a text with one makes the query fail. */
static void add_quoted(struct buffer *sql, struct view text, char quote)
{
    if (view_find(text, '\0') < text.size)
        sql->failed = true;
    buffer_append_byte(sql, quote);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == quote)
            buffer_append_byte(sql, quote);
        buffer_append_byte(sql, text.data[i]);
    }
    buffer_append_byte(sql, quote);
}

void sql_add_name(struct engine *engine, struct view name)
{
    add_quoted(&engine->sql, name, '"');
}

void sql_add_text(struct engine *engine, struct view text)
{
    add_quoted(&engine->sql, text, '\'');
}

void sql_add_number(struct engine *engine, uint64_t number)
{
    buffer_append_u64(&engine->sql, number);
}

void sql_add_file(struct engine *engine, int fd)
{
    buffer_print(&engine->sql, "'" FD_FOLDER "%d'", fd);
}

void sql_add_inputs(struct engine *engine, uint64_t first, uint64_t end)
{
    sql_add(engine, "read_parquet([");
    for (uint64_t i = first; i < end; i++) {
        if (i > first)
            sql_add(engine, ", ");
        sql_add_file(engine, engine->inputs[i]);
    }
    sql_add(engine, "], union_by_name = true, hive_partitioning = false)");
}

/* ---- Queries ------------------------------------------------------------------------- */

/* The first line of DuckDB's message, without the names that we gave to the files. */
static void describe_failure(struct hf_error *error, enum hf_status status, const char *message)
{
    char line[HF_WHY_MAX];
    size_t size = 0;
    while (*message && *message != '\n' && size + 1 < sizeof line) {
        if (strncmp(message, FD_FOLDER, strlen(FD_FOLDER)) == 0) {
            message += strlen(FD_FOLDER);
            message += strspn(message, "0123456789");
            size += (size_t)snprintf(line + size, sizeof line - size, "the file");
            size = size < sizeof line ? size : sizeof line - 1;
        } else {
            line[size++] = *message++;
        }
    }
    line[size] = '\0';
    error_set(error, status, "DuckDB: %s", line);
}

static enum hf_status query_failed(struct engine *engine, duck_result *result,
                                   struct hf_error *error)
{
    const char *message = engine->duckdb.result_error(result);
    int kind = engine->duckdb.result_error_type(result);
    message = message ? message : "the query failed without a reason";
    engine->overload = kind == DUCK_ERROR_OUT_OF_MEMORY;
    engine->disk_full = kind == DUCK_ERROR_IO && (strstr(message, "No space left on device") ||
                                                  strstr(message, "Disk quota exceeded"));
    if (engine->overload) {
        char limit[SIZE_TEXT_MAX];
        return error_set(error, HF_UNAVAILABLE,
                         "it needs more than the %s of memory that it may use",
                         size_text(engine->request->memory_bytes, limit));
    }
    enum hf_status status = kind == DUCK_ERROR_CATALOG ? HF_UNSUPPORTED : HF_CORRUPT;
    describe_failure(error, engine->disk_full ? HF_UNAVAILABLE : status, message);
    return error->status;
}

static enum hf_status use_rows(struct engine *engine, duck_result *result, engine_row *use,
                               void *context, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    duck_chunk chunk;
    while (status == HF_OK && (chunk = engine->duckdb.fetch_chunk(*result))) {
        uint64_t rows = engine->duckdb.data_chunk_get_size(chunk);
        for (uint64_t i = 0; i < rows && status == HF_OK; i++)
            if (!use(context, engine, chunk, i))
                status = error_no_memory(error);
        engine->duckdb.destroy_data_chunk(&chunk);
    }
    return status;
}

enum hf_status engine_run(struct engine *engine, engine_row *use, void *context,
                          struct hf_error *error)
{
    duck_result result = { { 0 }, { NULL } };
    if (!buffer_append_byte(&engine->sql, '\0'))
        return error_set(error, HF_INVALID,
                         "the names of the columns are too long, or contain a NUL");
    enum hf_status status = HF_OK;
    if (engine->duckdb.query(engine->connection, engine->sql.data, &result) != 0)
        status = query_failed(engine, &result, error);
    else if (use)
        status = use_rows(engine, &result, use, context, error);
    engine->duckdb.destroy_result(&result);
    return status;
}

/* ---- Files --------------------------------------------------------------------------- */

static enum hf_status create_file(const char *path, int *ret_fd, struct hf_error *error)
{
    if (path[0] == '\0')
        return HF_OK;
    *ret_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    return *ret_fd < 0 ? error_from_errno(error, errno, "create the output") : HF_OK;
}

static enum hf_status open_all(struct engine *engine, struct hf_error *error)
{
    const struct parquet_request *request = engine->request;
    engine->output = engine->rejects = -1;
    engine->inputs =
        arena_take(&engine->arena, (request->input_count + 1) * sizeof *engine->inputs);
    if (!engine->inputs)
        return error_no_memory(error);
    for (uint64_t i = 0; i < request->input_count; i++) {
        engine->inputs[i] = open(request->inputs[i], O_RDONLY | O_CLOEXEC);
        if (engine->inputs[i] < 0)
            return error_cannot_open(error, errno, request->inputs[i]);
    }
    if (request->temporary[0] && mkdir(request->temporary, 0700) != 0)
        return error_from_errno(error, errno, "create a folder for temporary files");
    enum hf_status status = create_file(request->output, &engine->output, error);
    if (status == HF_OK)
        status = create_file(request->rejects, &engine->rejects, error);
    return status;
}

/* ---- Opening the database ------------------------------------------------------------ */

static bool set_number(struct engine *engine, duck_config config, const char *name,
                       uint64_t number, const char *unit)
{
    char value[40];
    snprintf(value, sizeof value, "%" PRIu64 "%s", number, unit);
    return engine->duckdb.set_config(config, name, value) == 0;
}

/* A part of the memory is left for what DuckDB does not count, such as decoders; not of the least
 * with which it can sort. */
static uint64_t counted_memory(const struct parquet_request *request)
{
    uint64_t counted = request->memory_bytes - request->memory_bytes / 12;
    return counted > MEMORY_LEAST ? counted : request->memory_bytes;
}

static bool configure(struct engine *engine, duck_config config)
{
    static const char *const settings[][2] = {
        { "autoinstall_known_extensions", "false" }, { "autoload_known_extensions", "false" },
        { "allow_community_extensions", "false" },   { "allow_unsigned_extensions", "false" },
        { "allow_persistent_secrets", "false" },     { "preserve_insertion_order", "true" },
        { "default_null_order", "nulls_last" },      { "default_order", "asc" },
    };
    const struct parquet_request *request = engine->request;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (engine->duckdb.set_config(config, settings[i][0], settings[i][1]) != 0)
            return false;
    /* "" switches temporary files off: a survey needs none. */
    return engine->duckdb.set_config(config, "temp_directory", request->temporary) == 0 &&
           set_number(engine, config, "max_temp_directory_size", request->temporary_bytes,
                      "B") &&
           set_number(engine, config, "memory_limit", counted_memory(request), "B") &&
           set_number(engine, config, "threads", request->threads, "");
}

/* A file is allowed by the name that SQL uses, and by the path to which that name leads. */
static void allow_file(struct engine *engine, int fd)
{
    char link[40], path[PATH_MAX];
    snprintf(link, sizeof link, FD_FOLDER "%d", fd);
    ssize_t size = readlink(link, path, sizeof path);
    sql_add_file(engine, fd);
    if (size > 0) {
        sql_add(engine, ", ");
        sql_add_text(engine, (struct view){ path, (size_t)size });
    }
}

/* From here on, DuckDB can open only the files of this request and temporary files, and none of
 * this can be changed again. */
static enum hf_status lock_up(struct engine *engine, struct hf_error *error)
{
    static const char *const last[] = { "SET enable_external_access = false",
                                        "SET lock_configuration = true" };
    const struct parquet_request *request = engine->request;
    sql_begin(engine, "SET allowed_paths = [");
    for (uint64_t i = 0; i < request->input_count; i++) {
        allow_file(engine, engine->inputs[i]);
        sql_add(engine, ", ");
    }
    if (engine->output >= 0) {
        allow_file(engine, engine->output);
        sql_add(engine, ", ");
    }
    if (engine->rejects >= 0) {
        allow_file(engine, engine->rejects);
        sql_add(engine, ", ");
    }
    sql_add(engine, "'/dev/null']");
    enum hf_status status = engine_run(engine, NULL, NULL, error);
    for (size_t i = 0; i < 2 && status == HF_OK; i++) {
        sql_begin(engine, last[i]);
        status = engine_run(engine, NULL, NULL, error);
    }
    return status;
}

static enum hf_status open_database(struct engine *engine, struct hf_error *error)
{
    duck_config config = NULL;
    duck_database database = NULL;
    char *why = NULL;
    if (engine->duckdb.create_config(&config) != 0 || !configure(engine, config))
        return error_set(error, HF_UNSUPPORTED,
                         "DuckDB %.20s lacks a setting that Holdfast needs; use version 1.4 "
                         "or later",
                         engine->duckdb.library_version());
    duck_state state = engine->duckdb.open_ext(NULL, &database, config, &why);
    engine->duckdb.destroy_config(&config);
    if (state != 0) {
        describe_failure(error, HF_UNSUPPORTED, why ? why : "the database cannot be opened");
        return HF_UNSUPPORTED;
    }
    if (engine->duckdb.connect(database, &engine->connection) != 0)
        return error_set(error, HF_UNSUPPORTED, "DuckDB: cannot connect to the database");
    return HF_OK;
}

/* What fails here is not the fault of an input. */
enum hf_status engine_open(struct engine *engine, const struct parquet_request *request,
                           struct hf_error *error)
{
    *engine = (struct engine){ .request = request,
                               .arena = ARENA_INIT,
                               .sql = BUFFER_INIT(SQL_BYTES_MAX) };
    enum hf_status status = duckdb_load(request->library, &engine->duckdb, error);
    if (status == HF_OK)
        status = open_all(engine, error);
    if (status == HF_OK)
        status = open_database(engine, error);
    if (status == HF_OK && lock_up(engine, error) != HF_OK)
        status = error->status = HF_UNSUPPORTED;
    return status;
}
