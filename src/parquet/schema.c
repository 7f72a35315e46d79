/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c: reads and unites the columns of the inputs. */
#include "parquet/schema.h"

#include "base/map.h"

#include <ctype.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- Types --------------------------------------------------------------------------- */

/* Types that unite with one another, from narrow to wide. */
static const char *const families[][5] = {
    { "TINYINT", "SMALLINT", "INTEGER", "BIGINT" },
    { "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT" },
    { "FLOAT", "DOUBLE" },
};
#define FAMILY_COUNT (sizeof families / sizeof families[0])
#define NO_FAMILY    SIZE_MAX

/* The family of a type, and its place there. */
static size_t find_family(struct view type, size_t *ret_place)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        for (size_t j = 0; families[i][j]; j++)
            if (view_equal(type, view_of(families[i][j]))) {
                *ret_place = j;
                return i;
            }
    return NO_FAMILY;
}

/* The type that holds the values of both; data NULL: there is none. */
static struct view unite_types(struct view a, struct view b)
{
    size_t place_a = 0, place_b = 0; /* set by find_family where they are used */
    if (view_equal(a, b))
        return a;
    size_t family_a = find_family(a, &place_a), family_b = find_family(b, &place_b);
    if (family_a == NO_FAMILY || family_a != family_b)
        return (struct view){ NULL, 0 };
    return place_a > place_b ? a : b;
}

static bool is_nested(struct view type)
{
    bool has_parts = view_find(type, '(') < type.size || view_find(type, '[') < type.size;
    return has_parts && !view_starts_with(type, VIEW("DECIMAL("));
}

static bool is_time_type(struct view type)
{
    size_t place, family = find_family(type, &place);
    return family == 0 || family == 1 || view_equal(type, VIEW("DATE")) ||
           view_starts_with(type, VIEW("TIMESTAMP"));
}

/* ---- Reading ------------------------------------------------------------------------- */

static bool add_column(void *context, const struct engine *engine, duck_chunk chunk,
                       uint64_t row)
{
    struct buffer *text = context;
    for (uint64_t i = 0; i < 2; i++) {
        struct view part = duckdb_text(&engine->duckdb, chunk, i, row);
        if (view_find(part, '\0') < part.size)
            text->failed = true;
        buffer_append(text, part);
        buffer_append_byte(text, '\0');
    }
    return !text->failed;
}

/* Splits the text of a schema into its columns. */
static bool split_columns(struct engine *engine, struct schema *schema)
{
    struct view rest = schema->text;
    size_t count = 0;
    for (size_t i = 0; i < rest.size; i++)
        count += rest.data[i] == '\0';
    schema->count = count / 2;
    schema->columns = arena_take(&engine->arena, (schema->count + 1) * sizeof *schema->columns);
    if (!schema->columns)
        return false;
    for (size_t i = 0; i < schema->count; i++) {
        schema->columns[i].name = view_cut(&rest, '\0');
        schema->columns[i].type = view_cut(&rest, '\0');
    }
    return true;
}

/* The size of an input, counted from 1. */
static uint64_t bytes_of(const struct engine *engine, uint64_t input)
{
    struct stat info;
    return fstat(engine->inputs[input - 1], &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* Adds an input to the schema with the same text, or to a new one. */
static enum hf_status keep_schema(struct engine *engine, struct schemas *schemas,
                                  struct map *by_text, struct view text, uint64_t input,
                                  struct hf_error *error)
{
    void *old;
    struct schema *known = map_get(by_text, text);
    if (known) {
        known->bytes += bytes_of(engine, input);
        return HF_OK;
    }
    struct schema *schema = &schemas->list[schemas->count++];
    *schema = (struct schema){ .text = arena_copy(&engine->arena, text),
                               .first_input = input,
                               .bytes = bytes_of(engine, input) };
    if (!schema->text.data || !split_columns(engine, schema) ||
        !map_put(by_text, schema->text, schema, &old))
        return error_no_memory(error);
    if (schema->count > COLUMNS_MAX)
        return error_set(error, HF_INVALID, "it has %zu columns; at most %d can be read",
                         schema->count, COLUMNS_MAX);
    return HF_OK;
}

static enum hf_status read_schemas(struct engine *engine, struct schemas *schemas,
                                   uint64_t *ret_input, struct hf_error *error)
{
    struct map by_text = MAP_INIT;
    struct buffer text = BUFFER_INIT(SQL_BYTES_MAX);
    enum hf_status status = HF_OK;
    for (uint64_t i = 0; i < engine->request->input_count && status == HF_OK; i++) {
        *ret_input = i + 1;
        buffer_clear(&text);
        sql_begin(engine, "SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM ");
        sql_add_inputs(engine, i, i + 1);
        sql_add(engine, ")");
        status = engine_run(engine, add_column, &text, error);
        if (status == HF_OK)
            status = keep_schema(engine, schemas, &by_text, buffer_view(&text), i + 1, error);
    }
    map_release(&by_text);
    buffer_release(&text);
    return status;
}

/* ---- The union ----------------------------------------------------------------------- */

/* DuckDB compares names without regard to the case of ASCII letters. */
static struct view fold_case(struct arena *arena, struct view name)
{
    char *folded = arena_take(arena, name.size + 1);
    if (!folded)
        return (struct view){ NULL, 0 };
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        folded[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return (struct view){ folded, name.size };
}

/* The schema that most of the data has first, so that it determines the types. */
static int compare_bytes(const void *a, const void *b)
{
    const struct schema *one = a, *other = b;
    if (one->bytes != other->bytes)
        return one->bytes > other->bytes ? -1 : 1;
    return view_compare(one->text, other->text);
}

static int compare_columns(const void *a, const void *b)
{
    const struct schema *one = a, *other = b;
    if (one->count != other->count)
        return one->count < other->count ? -1 : 1;
    return view_compare(one->text, other->text);
}

static enum hf_status unite_column(struct column *known, const struct column *column,
                                   struct hf_error *error)
{
    if (!view_equal(known->name, column->name))
        return error_set(error, HF_INVALID,
                         "the columns '%.*s' and '%.*s' differ only in case, which DuckDB "
                         "does not tell apart",
                         VIEW_ARGS(view_first(known->name, 60)),
                         VIEW_ARGS(view_first(column->name, 60)));
    struct view type = unite_types(known->type, column->type);
    if (!type.data)
        return error_set(error, HF_INVALID,
                         "the column '%.*s' is %.*s, but it is %.*s in other files",
                         VIEW_ARGS(view_first(column->name, 60)),
                         VIEW_ARGS(view_first(column->type, 40)),
                         VIEW_ARGS(view_first(known->type, 40)));
    known->type = type;
    return HF_OK;
}

/* Unites the columns of all schemas, in the order of the list. */
static enum hf_status unite_schemas(struct engine *engine, struct schemas *schemas,
                                    uint64_t *ret_input, struct hf_error *error)
{
    struct map by_name = MAP_INIT;
    enum hf_status status = HF_OK;
    void *old;
    size_t all = 0;
    for (size_t i = 0; i < schemas->count; i++)
        all += schemas->list[i].count;
    schemas->columns = arena_take(&engine->arena, (all + 1) * sizeof *schemas->columns);
    schemas->column_count = 0;
    if (!schemas->columns)
        return error_no_memory(error);
    for (size_t i = 0; i < schemas->count && status == HF_OK; i++) {
        const struct schema *schema = &schemas->list[i];
        *ret_input = schema->first_input;
        for (size_t j = 0; j < schema->count && status == HF_OK; j++) {
            struct view folded = fold_case(&engine->arena, schema->columns[j].name);
            struct column *known = folded.data ? map_get(&by_name, folded) : NULL;
            if (known) {
                status = unite_column(known, &schema->columns[j], error);
                continue;
            }
            known = &schemas->columns[schemas->column_count++];
            *known = schema->columns[j];
            if (!folded.data || !map_put(&by_name, folded, known, &old))
                status = error_no_memory(error);
        }
    }
    map_release(&by_name);
    return status;
}

static int compare_column_names(const void *a, const void *b)
{
    const struct column *const *one = a, *const *other = b;
    return view_compare((*one)->name, (*other)->name);
}

static bool sort_by_name(struct engine *engine, struct schemas *schemas)
{
    schemas->by_name =
        arena_take(&engine->arena, (schemas->column_count + 1) * sizeof *schemas->by_name);
    if (!schemas->by_name)
        return false;
    for (size_t i = 0; i < schemas->column_count; i++)
        schemas->by_name[i] = &schemas->columns[i];
    qsort(schemas->by_name, schemas->column_count, sizeof *schemas->by_name,
          compare_column_names);
    return true;
}

enum hf_status schemas_read(struct engine *engine, struct schemas *ret_schemas,
                            uint64_t *ret_input, struct hf_error *error)
{
    struct schemas schemas = { .list = NULL };
    uint64_t count = engine->request->input_count;
    schemas.list = arena_take(&engine->arena, (count + 1) * sizeof *schemas.list);
    if (!schemas.list)
        return error_no_memory(error);
    enum hf_status status = read_schemas(engine, &schemas, ret_input, error);
    if (status != HF_OK)
        return status;
    if (engine->request->work == PARQUET_SURVEY && schemas.count == 2)
        schemas.list[1].bytes = UINT64_MAX;
    qsort(schemas.list, schemas.count, sizeof *schemas.list, compare_bytes);
    status = unite_schemas(engine, &schemas, ret_input, error);
    if (status != HF_OK)
        return status;
    qsort(schemas.list, schemas.count, sizeof *schemas.list, compare_columns);
    status = unite_schemas(engine, &schemas, ret_input, error);
    if (status == HF_OK && !sort_by_name(engine, &schemas))
        status = error_no_memory(error);
    if (status == HF_OK) {
        *ret_schemas = schemas;
        *ret_input = 0;
    }
    return status;
}

/* ---- Fields -------------------------------------------------------------------------- */

void schemas_keep_first(struct schemas *schemas)
{
    for (size_t i = 0; i < schemas->count; i++) {
        if (schemas->list[i].first_input != 1)
            continue;
        schemas->list[0] = schemas->list[i];
        break;
    }
    schemas->count = 1;
    schemas->columns = schemas->list[0].columns;
    schemas->column_count = schemas->list[0].count;
}

static const struct column *find_column(const struct column *columns, size_t count,
                                        struct view name)
{
    for (size_t i = 0; i < count; i++)
        if (view_equal(columns[i].name, name))
            return &columns[i];
    return NULL;
}

const struct column *schemas_find(const struct schemas *schemas, struct view name)
{
    return find_column(schemas->columns, schemas->column_count, name);
}

static enum hf_status check_column(const struct schema *schema, const char *what,
                                   const char *name, struct hf_error *error)
{
    const struct column *column =
        name[0] ? find_column(schema->columns, schema->count, view_of(name)) : NULL;
    bool is_key = what[0] == 'k';
    if (name[0] == '\0')
        return HF_OK;
    if (!column)
        return error_set(error, HF_INVALID, "it has no column '%.80s', which is the %s", name,
                         what);
    if (is_key && is_nested(column->type))
        return error_set(error, HF_INVALID,
                         "the key column '%.80s' is %.*s; a key cannot be "
                         "nested",
                         name, VIEW_ARGS(view_first(column->type, 60)));
    if (!is_key && !is_time_type(column->type))
        return error_set(error, HF_INVALID,
                         "the time column '%.80s' is %.*s; it must be a timestamp, a date or "
                         "an integer",
                         name, VIEW_ARGS(view_first(column->type, 60)));
    return HF_OK;
}

/* The deleted column may be missing: then nothing of this input is a deletion. */
static enum hf_status check_deleted(const struct schema *schema, const char *name,
                                    struct hf_error *error)
{
    const struct column *column = find_column(schema->columns, schema->count, view_of(name));
    if (name[0] == '\0' || !column || view_equal(column->type, VIEW("BOOLEAN")))
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "the deleted column '%.80s' is %.*s; it must be a BOOLEAN", name,
                     VIEW_ARGS(view_first(column->type, 60)));
}

enum hf_status schemas_check_fields(const struct engine *engine, const struct schemas *schemas,
                                    uint64_t *ret_input, struct hf_error *error)
{
    for (size_t i = 0; i < schemas->count; i++) {
        const struct schema *schema = &schemas->list[i];
        enum hf_status status = check_column(schema, "key", engine->request->key, error);
        if (status == HF_OK)
            status = check_column(schema, "time", engine->request->time, error);
        if (status == HF_OK)
            status = check_deleted(schema, engine->request->deleted, error);
        if (status != HF_OK) {
            *ret_input = schema->first_input;
            return status;
        }
    }
    return HF_OK;
}
