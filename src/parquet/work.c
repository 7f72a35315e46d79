/* SPDX-License-Identifier: Apache-2.0 */
/* work.c: the SQL of a survey, a merge and a conversion. Every statement is written so that its
 * result depends on the rows alone: not on the order of the inputs, the memory or the threads. */
#include "parquet/work.h"

#include "base/parse.h"
#include "parquet/schema.h"

#include <inttypes.h>
#include <stdatomic.h>

/* Row groups of a fixed number of rows, so that equal rows give equal bytes. */
#define WRITE_OPTIONS ", COMPRESSION zstd, USE_TMP_FILE false, ROW_GROUP_SIZE "

/* ---- Pieces of SQL ------------------------------------------------------------------- */

static bool has_key(const struct engine *engine)
{
    return engine->request->key[0] != '\0';
}

static bool has_time(const struct engine *engine)
{
    return engine->request->time[0] != '\0';
}

/* Whether a deleted field is given and some input has it. */
static bool has_deleted(const struct engine *engine, const struct schemas *schemas)
{
    const char *name = engine->request->deleted;
    return name[0] != '\0' && schemas_find(schemas, view_of(name)) != NULL;
}

/* Whether a row is a deletion; never NULL. */
static void add_is_deleted(struct engine *engine)
{
    sql_add(engine, "COALESCE(");
    sql_add_name(engine, view_of(engine->request->deleted));
    sql_add(engine, ", false)");
}

static void add_columns(struct engine *engine, const struct schemas *schemas)
{
    for (size_t i = 0; i < schemas->column_count; i++) {
        if (i > 0)
            sql_add(engine, ", ");
        sql_add_name(engine, schemas->columns[i].name);
    }
}

static void add_all_inputs(struct engine *engine)
{
    sql_add_inputs(engine, 0, engine->request->input_count);
}

/* "key" IS NULL OR "time" IS NULL, or the same with IS NOT NULL and AND. */
static void add_null_test(struct engine *engine, bool is_null)
{
    const char *test = is_null ? " IS NULL" : " IS NOT NULL";
    if (has_key(engine)) {
        sql_add_name(engine, view_of(engine->request->key));
        sql_add(engine, test);
    }
    if (has_key(engine) && has_time(engine))
        sql_add(engine, is_null ? " OR " : " AND ");
    if (has_time(engine)) {
        sql_add_name(engine, view_of(engine->request->time));
        sql_add(engine, test);
    }
}

/* All columns but the key and the time, each with a comma before it. They are in the order of their
 * names, which merging does not change: the order of the union depends on the files that were
 * merged before. */
static void add_rest(struct engine *engine, const struct schemas *schemas, const char *order)
{
    const struct parquet_request *request = engine->request;
    for (size_t i = 0; i < schemas->column_count; i++) {
        struct view name = schemas->by_name[i]->name;
        if (view_equal(name, view_of(request->key)) || view_equal(name, view_of(request->time)))
            continue;
        sql_add(engine, ", ");
        sql_add_name(engine, name);
        sql_add(engine, order);
    }
}

static void add_write_options(struct engine *engine, const char *format)
{
    sql_add(engine, " (FORMAT ");
    sql_add(engine, format);
    sql_add(engine, WRITE_OPTIONS);
    sql_add_number(engine, engine->request->group_rows);
    sql_add(engine, ")");
}

/* ---- Results ------------------------------------------------------------------------- */

/* A row of texts, kept in the arena. */
#define VALUES_MAX 7
struct values {
    struct engine *engine;
    uint64_t count;
    const char *text[VALUES_MAX]; /* "" for NULL */
};

static bool take_values(void *context, const struct engine *engine, duck_chunk chunk,
                        uint64_t row)
{
    struct values *values = context;
    for (uint64_t i = 0; i < values->count; i++) {
        struct view text = duckdb_text(&engine->duckdb, chunk, i, row);
        struct view copy =
            arena_copy(&values->engine->arena, text.data ? text : (struct view){ "", 0 });
        if (!copy.data)
            return false;
        values->text[i] = copy.data;
    }
    return true;
}

/* Runs a query of one row. */
static enum hf_status read_values(struct engine *engine, struct values *values, uint64_t count,
                                  struct hf_error *error)
{
    *values = (struct values){ .engine = engine, .count = count };
    for (uint64_t i = 0; i < VALUES_MAX; i++)
        values->text[i] = "";
    return engine_run(engine, take_values, values, error);
}

static enum hf_status parse_count(const char *text, uint64_t *ret_count, struct hf_error *error)
{
    if (parse_u64(view_of(text), INT64_MAX, ret_count, NULL) == HF_OK)
        return HF_OK;
    return error_set(error, HF_UNAVAILABLE, "DuckDB returned '%.40s' instead of a count", text);
}

/* COPY returns the number of rows that it wrote. It is a BIGINT, which no cast can reach. */
static bool take_written(void *context, const struct engine *engine, duck_chunk chunk,
                         uint64_t row)
{
    duck_vector vector = engine->duckdb.data_chunk_get_vector(chunk, 0);
    const int64_t *counts = engine->duckdb.vector_get_data(vector);
    *(uint64_t *)context = (uint64_t)counts[row];
    return true;
}

/* ---- Survey -------------------------------------------------------------------------- */

/* The condition of deletions that are not rejected, as a filter of an aggregate. */
static void add_deletion_filter(struct engine *engine)
{
    sql_add(engine, " FILTER (WHERE ");
    add_is_deleted(engine);
    sql_add(engine, " AND ");
    add_null_test(engine, /* is_null */ false);
    sql_add(engine, ")");
}

#define RFC3339_FORMAT "%Y-%m-%dT%H:%M:%S.%fZ"

static bool is_calendar_type(struct view type)
{
    return view_starts_with(type, VIEW("TIMESTAMP")) || view_equal(type, VIEW("DATE"));
}

/* A timestamp as RFC 3339; a number as it is. */
static void add_time_bound(struct engine *engine, struct view type, const char *function,
                           bool of_deletions)
{
    bool is_calendar = is_calendar_type(type);
    bool has_zone = view_equal(type, VIEW("TIMESTAMP WITH TIME ZONE"));
    sql_add(engine, is_calendar ? ", strftime(CAST(" : ", CAST(");
    sql_add(engine, function);
    sql_add(engine, "(");
    sql_add_name(engine, view_of(engine->request->time));
    sql_add(engine, ")");
    if (of_deletions)
        add_deletion_filter(engine);
    sql_add(engine, has_zone ? " AT TIME ZONE 'UTC'" : "");
    sql_add(engine, is_calendar ? " AS TIMESTAMP), '" RFC3339_FORMAT "')" : " AS VARCHAR)");
}

/* One pass over all values: the hash of a row needs all of them, so a page that cannot be decoded
 * is found here, and not by the first merge. */
static enum hf_status survey_rows(struct engine *engine, const struct schemas *schemas,
                                  struct parquet_report *report, struct hf_error *error)
{
    struct values values;
    bool marks = has_time(engine) && has_deleted(engine, schemas);
    sql_begin(engine, "SELECT CAST(count(*) AS VARCHAR), CAST(count(*) FILTER (WHERE ");
    add_null_test(engine, /* is_null */ true);
    sql_add(engine, ") AS VARCHAR), CAST(bit_xor(hash(");
    add_columns(engine, schemas);
    sql_add(engine, ")) AS VARCHAR)");
    if (has_time(engine)) {
        const struct column *time = schemas_find(schemas, view_of(engine->request->time));
        add_time_bound(engine, time->type, "min", /* of_deletions */ false);
        add_time_bound(engine, time->type, "max", /* of_deletions */ false);
        if (marks) {
            sql_add(engine, ", CAST(count(*)");
            add_deletion_filter(engine);
            sql_add(engine, " AS VARCHAR)");
            add_time_bound(engine, time->type, "max", /* of_deletions */ true);
        }
    }
    sql_add(engine, " FROM ");
    sql_add_inputs(engine, 0, 1);
    uint64_t count = !has_time(engine) ? 3 : marks ? 7 : 5;
    enum hf_status status = read_values(engine, &values, count, error);
    if (status == HF_OK)
        status = parse_count(values.text[0], &report->rows_in, error);
    if (status == HF_OK)
        status = parse_count(values.text[1], &report->rows_rejected, error);
    if (status == HF_OK && marks)
        status = parse_count(values.text[5], &report->deletions, error);
    report->last_deletion = values.text[6];
    report->first = values.text[3];
    report->last = values.text[4];
    return status;
}

static enum hf_status find_first_reject(struct engine *engine, struct parquet_report *report,
                                        struct hf_error *error)
{
    struct values values;
    const struct parquet_request *request = engine->request;
    sql_begin(engine, "SELECT CAST(min(n) AS VARCHAR) FROM (SELECT row_number() OVER () AS n");
    if (has_key(engine)) {
        sql_add(engine, ", ");
        sql_add_name(engine, view_of(request->key));
    }
    if (has_time(engine) && strcmp(request->key, request->time) != 0) {
        sql_add(engine, ", ");
        sql_add_name(engine, view_of(request->time));
    }
    sql_add(engine, " FROM ");
    sql_add_inputs(engine, 0, 1);
    sql_add(engine, ") WHERE ");
    add_null_test(engine, /* is_null */ true);
    enum hf_status status = read_values(engine, &values, 1, error);
    return status == HF_OK ? parse_count(values.text[0], &report->reject_first, error) : status;
}

enum hf_status work_survey(struct engine *engine, struct parquet_report *report,
                           struct hf_error *error)
{
    struct schemas schemas;
    enum hf_status status = schemas_read(engine, &schemas, &report->input, error);
    if (status == HF_OK) {
        schemas_keep_first(&schemas);
        status = schemas_check_fields(engine, &schemas, &report->input, error);
    }
    if (status != HF_OK)
        return status;
    status = survey_rows(engine, &schemas, report, error);
    if (status == HF_OK && report->rows_rejected > 0)
        status = find_first_reject(engine, report, error);
    if (status != HF_OK)
        report->input = 1;
    return status;
}

/* ---- Merge --------------------------------------------------------------------------- */

/* Counts rows without a key or a time. Row groups whose statistics say that they have none are not
 * read. */
static enum hf_status count_rejects(struct engine *engine, struct parquet_report *report,
                                    struct hf_error *error)
{
    struct values values;
    sql_begin(engine, "SELECT CAST(count(*) AS VARCHAR) FROM ");
    add_all_inputs(engine);
    sql_add(engine, " WHERE ");
    add_null_test(engine, /* is_null */ true);
    enum hf_status status = read_values(engine, &values, 1, error);
    if (status == HF_OK)
        status = parse_count(values.text[0], &report->rows_rejected, error);
    if (status == HF_OK && report->rows_rejected > engine->request->rejects_max)
        status =
            error_set(error, HF_INVALID,
                      "%" PRIu64 " row%s no key or no time, which is NULL; %" PRIu64
                      " may be rejected",
                      report->rows_rejected, report->rows_rejected == 1 ? " has" : "s have",
                      engine->request->rejects_max);
    return status;
}

static enum hf_status write_rejects(struct engine *engine, const struct schemas *schemas,
                                    struct hf_error *error)
{
    uint64_t written = 0;
    sql_begin(engine, "COPY (SELECT ");
    add_columns(engine, schemas);
    sql_add(engine, " FROM ");
    add_all_inputs(engine);
    sql_add(engine, " WHERE ");
    add_null_test(engine, /* is_null */ true);
    sql_add(engine, " ORDER BY ");
    add_columns(engine, schemas);
    sql_add(engine, ") TO ");
    sql_add_file(engine, engine->rejects);
    add_write_options(engine, "parquet");
    return engine_run(engine, take_written, &written, error);
}

/* Counts the rows that pass through it, those of them that are the latest of their keys, and the
 * deletions among these. Returns which rows are written. Several threads call it. */
#define COUNT_FUNCTION "holdfast_count"
static struct {
    const struct duckdb *duckdb;
    bool drops; /* deletions are not written */
    atomic_uint_fast64_t seen, latest, deletions;
} counter;

static void count_latest(duck_call call, duck_chunk arguments, duck_vector result)
{
    const struct duckdb *duckdb = counter.duckdb;
    uint64_t rows = duckdb->data_chunk_get_size(arguments);
    const bool *is_latest =
        duckdb->vector_get_data(duckdb->data_chunk_get_vector(arguments, 0));
    const bool *is_deleted =
        duckdb->vector_get_data(duckdb->data_chunk_get_vector(arguments, 1));
    bool *is_written = duckdb->vector_get_data(result);
    (void)call;
    uint64_t latest = 0, deletions = 0;
    for (uint64_t i = 0; i < rows; i++) {
        is_written[i] = is_latest[i] && !(counter.drops && is_deleted[i]);
        latest += is_latest[i];
        deletions += is_latest[i] && is_deleted[i];
    }
    atomic_fetch_add(&counter.seen, rows);
    atomic_fetch_add(&counter.latest, latest);
    atomic_fetch_add(&counter.deletions, deletions);
}

static enum hf_status add_counter(struct engine *engine, struct hf_error *error)
{
    const struct duckdb *duckdb = &engine->duckdb;
    duck_function function = duckdb->create_scalar_function();
    duck_type boolean = duckdb->create_logical_type(DUCK_TYPE_BOOLEAN);
    counter.duckdb = duckdb;
    counter.drops = engine->request->drops > 0;
    duckdb->scalar_function_set_name(function, COUNT_FUNCTION);
    duckdb->scalar_function_add_parameter(function, boolean);
    duckdb->scalar_function_add_parameter(function, boolean);
    duckdb->scalar_function_set_return_type(function, boolean);
    duckdb->scalar_function_set_volatile(function);
    duckdb->scalar_function_set_function(function, count_latest);
    if (duckdb->register_scalar_function(engine->connection, function) == 0)
        return HF_OK;
    return error_set(error, HF_UNSUPPORTED, "DuckDB: a function cannot be registered");
}

/* The rows to merge, without those that were rejected. */
static void add_rows(struct engine *engine, const struct schemas *schemas, bool has_rejects)
{
    sql_add(engine, "SELECT ");
    add_columns(engine, schemas);
    sql_add(engine, " FROM ");
    add_all_inputs(engine);
    if (!has_rejects)
        return;
    sql_add(engine, " WHERE ");
    add_null_test(engine, /* is_null */ false);
}

/* The latest row of each key, in the order of keys. Of rows with the same time, the greatest by
 * all other columns is kept, so that the order of the inputs does not matter. A window by key
 * was faster, and needed less memory, than one sort of all rows. */
static void add_latest(struct engine *engine, const struct schemas *schemas)
{
    const struct parquet_request *request = engine->request;
    sql_add(engine, " QUALIFY " COUNT_FUNCTION "(row_number() OVER (PARTITION BY ");
    sql_add_name(engine, view_of(request->key));
    sql_add(engine, " ORDER BY ");
    sql_add_name(engine, view_of(request->time));
    sql_add(engine, " DESC");
    add_rest(engine, schemas, " DESC");
    sql_add(engine, ") = 1, ");
    if (has_deleted(engine, schemas))
        add_is_deleted(engine);
    else
        sql_add(engine, "false");
    sql_add(engine, ") ORDER BY ");
    sql_add_name(engine, view_of(request->key));
}

/* All rows in the order of the field; equal ones in the order of all other columns. */
static void add_order(struct engine *engine, const struct schemas *schemas)
{
    const struct parquet_request *request = engine->request;
    sql_add(engine, " ORDER BY ");
    sql_add_name(engine, view_of(has_key(engine) ? request->key : request->time));
    add_rest(engine, schemas, "");
}

static enum hf_status write_merged(struct engine *engine, const struct schemas *schemas,
                                   struct parquet_report *report, struct hf_error *error)
{
    bool latest = has_key(engine) && has_time(engine);
    enum hf_status status = latest ? add_counter(engine, error) : HF_OK;
    if (status != HF_OK)
        return status;
    sql_begin(engine, "COPY (");
    add_rows(engine, schemas, report->rows_rejected > 0);
    if (latest)
        add_latest(engine, schemas);
    else
        add_order(engine, schemas);
    sql_add(engine, ") TO ");
    sql_add_file(engine, engine->output);
    add_write_options(engine, "parquet");
    status = engine_run(engine, take_written, &report->rows_out, error);
    uint64_t seen = latest ? atomic_load(&counter.seen) : report->rows_out;
    uint64_t deletions = atomic_load(&counter.deletions);
    report->rows_in = report->rows_rejected + seen;
    report->rows_superseded = latest ? seen - atomic_load(&counter.latest) : 0;
    report->rows_deleted = counter.drops ? deletions : 0;
    report->deletions = counter.drops ? 0 : deletions;
    return status;
}

enum hf_status work_merge(struct engine *engine, struct parquet_report *report,
                          struct hf_error *error)
{
    struct schemas schemas;
    enum hf_status status = schemas_read(engine, &schemas, &report->input, error);
    if (status == HF_OK)
        status = schemas_check_fields(engine, &schemas, &report->input, error);
    if (status == HF_OK)
        status = count_rejects(engine, report, error);
    if (status == HF_OK && report->rows_rejected > 0)
        status = write_rejects(engine, &schemas, error);
    if (status == HF_OK)
        status = write_merged(engine, &schemas, report, error);
    return status;
}

/* ---- Conversion ---------------------------------------------------------------------- */

/* How a text is read: without guesses, because a reader that guesses may skip lines. Its columns
 * are texts; JSON has types. */
#define READ_CSV(header)                                                                  \
    "header = " header ", all_varchar = true, delim = ',', quote = '\"', escape = '\"', " \
    "skip = 0, comment = '', null_padding = true, parallel = false, sample_size = -1, "   \
    "max_line_size = 16777216, buffer_size = 33554432"
static const struct {
    const char *name, *reader, *options;
} texts[] = {
    { "csv", "read_csv", READ_CSV("true") },
    { PARQUET_CSV_HEADLESS, "read_csv", READ_CSV("false") },
    { "ndjson", "read_json",
      "format = 'newline_delimited', records = true, sample_size = -1, "
      "map_inference_threshold = -1, field_appearance_threshold = 0" },
};
#define TEXT_COUNT (sizeof texts / sizeof texts[0])

static void add_reader(struct engine *engine, size_t text)
{
    sql_add(engine, texts[text].reader);
    sql_add(engine, "(");
    sql_add_file(engine, engine->inputs[0]);
    sql_add(engine, ", ");
    sql_add(engine, texts[text].options);
    sql_add(engine, ")");
}

/* Without a header, DuckDB calls the columns column0 or column00 and so on. Ours are numbered from
 * 1, as everywhere. */
static enum hf_status count_columns(struct engine *engine, size_t text, uint64_t *ret_count,
                                    uint64_t *ret_digits, struct hf_error *error)
{
    struct values values;
    sql_begin(engine, "SELECT CAST(count(*) AS VARCHAR), CAST(max(length(column_name)) AS "
                      "VARCHAR) FROM (DESCRIBE SELECT * FROM ");
    add_reader(engine, text);
    sql_add(engine, ")");
    enum hf_status status = read_values(engine, &values, 2, error);
    if (status == HF_OK)
        status = parse_count(values.text[0], ret_count, error);
    if (status == HF_OK)
        status = parse_count(values.text[1], ret_digits, error);
    *ret_digits -= strlen("column");
    return status;
}

static void add_numbered_columns(struct engine *engine, uint64_t count, uint64_t digits)
{
    for (uint64_t i = 0; i < count; i++)
        buffer_print(&engine->sql, "%scolumn%0*" PRIu64 " AS \"%" PRIu64 "\"",
                     i > 0 ? ", " : "", (int)digits, i, i + 1);
}

static enum hf_status convert_to_parquet(struct engine *engine, size_t text,
                                         struct parquet_report *report, struct hf_error *error)
{
    uint64_t count = 0, digits = 0;
    bool headless = strcmp(texts[text].name, PARQUET_CSV_HEADLESS) == 0;
    enum hf_status status =
        headless ? count_columns(engine, text, &count, &digits, error) : HF_OK;
    if (status != HF_OK)
        return status;
    sql_begin(engine, headless ? "COPY (SELECT " : "COPY (SELECT *");
    add_numbered_columns(engine, count, digits);
    sql_add(engine, " FROM ");
    add_reader(engine, text);
    sql_add(engine, ") TO ");
    sql_add_file(engine, engine->output);
    add_write_options(engine, "parquet");
    return engine_run(engine, take_written, &report->rows_out, error);
}

/* A time without a zone is taken as UTC. */
static void add_utc(struct engine *engine, const struct column *column)
{
    bool has_zone = view_equal(column->type, VIEW("TIMESTAMP WITH TIME ZONE"));
    sql_add(engine, has_zone ? "(" : "CAST(");
    sql_add_name(engine, column->name);
    sql_add(engine, has_zone ? " AT TIME ZONE 'UTC')" : " AS TIMESTAMP)");
}

static void add_call(struct engine *engine, const char *before, struct view name,
                     const char *after)
{
    sql_add(engine, before);
    sql_add_name(engine, name);
    sql_add(engine, after);
}

/* A column as JSON shows it. A timestamp, and the time of a row, is RFC 3339. JSON has no numbers
 * that are not finite, so these are texts. */
static void add_json(struct engine *engine, const struct column *column)
{
    struct view type = column->type, name = column->name;
    bool is_time = view_equal(name, view_of(engine->request->time));
    if (view_starts_with(type, VIEW("TIMESTAMP")) || (is_time && is_calendar_type(type))) {
        sql_add(engine, "strftime(");
        add_utc(engine, column);
        sql_add(engine, ", '" RFC3339_FORMAT "')");
    } else if (view_equal(type, VIEW("DOUBLE")) || view_equal(type, VIEW("FLOAT"))) {
        add_call(engine, "CASE WHEN isfinite(", name, ") THEN ");
        add_call(engine, "to_json(", name, ") ELSE ");
        add_call(engine, "to_json(CAST(", name, " AS VARCHAR)) END");
    } else {
        sql_add_name(engine, name);
    }
}

/* The time of a row, as an integer, in nanoseconds since 1970. The unit depends on the size of the
 * number, as in text (base/instant.h). */
static void add_epoch(struct engine *engine, struct view name)
{
    static const char *const cases[][2] = {
        { "WHEN abs(", ") < 100000000000 THEN 1000000000 " },
        { "WHEN abs(", ") < 100000000000000 THEN 1000000 " },
        { "WHEN abs(", ") < 100000000000000000 THEN 1000 " }
    };
    add_call(engine, "CAST(", name, " AS HUGEINT) * CASE ");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sql_add(engine, cases[i][0]);
        add_call(engine, "CAST(", name, " AS HUGEINT)");
        sql_add(engine, cases[i][1]);
    }
    sql_add(engine, "ELSE 1 END");
}

/* " AND time >= bound", or another comparison. The bound is a number of microseconds, from the
 * library and not from a user. */
static void add_bound(struct engine *engine, const struct column *time, const char *comparison,
                      const char *bound)
{
    bool is_calendar = is_calendar_type(time->type);
    if (bound[0] == '\0')
        return;
    sql_add(engine, " AND ");
    if (is_calendar)
        add_utc(engine, time);
    else
        add_epoch(engine, time->name);
    sql_add(engine, comparison);
    sql_add(engine, is_calendar ? "make_timestamp(" : "");
    sql_add(engine, bound);
    sql_add(engine, is_calendar ? ")" : "000");
}

static void add_selection(struct engine *engine, const struct schemas *schemas)
{
    const struct parquet_request *request = engine->request;
    const struct column *key = schemas_find(schemas, view_of(request->key));
    const struct column *time = schemas_find(schemas, view_of(request->time));
    sql_add(engine, " WHERE true");
    if (request->prefix[0] && key) {
        sql_add(engine, " AND starts_with(CAST(");
        add_json(engine, key);
        sql_add(engine, " AS VARCHAR), ");
        sql_add_text(engine, view_of(request->prefix));
        sql_add(engine, ")");
    }
    if (time) {
        add_bound(engine, time, " >= ", request->since);
        add_bound(engine, time, " < ", request->until);
    }
}

/* Selects rows of a Parquet file, and writes them as Parquet, with the same types, or as JSON. */
static enum hf_status convert_from_parquet(struct engine *engine, bool to_json,
                                           struct parquet_report *report,
                                           struct hf_error *error)
{
    struct schemas schemas;
    enum hf_status status = schemas_read(engine, &schemas, &report->input, error);
    if (status == HF_OK)
        status = schemas_check_fields(engine, &schemas, &report->input, error);
    if (status != HF_OK)
        return status;
    sql_begin(engine, "COPY (SELECT ");
    for (size_t i = 0; i < schemas.column_count; i++) {
        if (i > 0)
            sql_add(engine, ", ");
        if (to_json) {
            add_json(engine, &schemas.columns[i]);
            sql_add(engine, " AS ");
        }
        sql_add_name(engine, schemas.columns[i].name);
    }
    sql_add(engine, " FROM ");
    add_all_inputs(engine);
    add_selection(engine, &schemas);
    sql_add(engine, ") TO ");
    sql_add_file(engine, engine->output);
    if (to_json)
        sql_add(engine, " (FORMAT json, USE_TMP_FILE false)");
    else
        add_write_options(engine, "parquet");
    return engine_run(engine, take_written, &report->rows_out, error);
}

enum hf_status work_convert(struct engine *engine, struct parquet_report *report,
                            struct hf_error *error)
{
    const struct parquet_request *request = engine->request;
    bool to_parquet = strcmp(request->to, "parquet") == 0;
    bool to_json = strcmp(request->to, "ndjson") == 0;
    report->input = 1;
    if (strcmp(request->from, "parquet") == 0 && (to_parquet || to_json))
        return convert_from_parquet(engine, to_json, report, error);
    for (size_t i = 0; i < TEXT_COUNT; i++)
        if (to_parquet && strcmp(request->from, texts[i].name) == 0)
            return convert_to_parquet(engine, i, report, error);
    return error_set(error, HF_INVALID, "%.20s cannot be converted to %.20s", request->from,
                     request->to);
}
