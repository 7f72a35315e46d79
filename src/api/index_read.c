/* SPDX-License-Identifier: Apache-2.0 */
/* index_read.c: the calls of holdfast/index.h that read records, open cursors, count and export. */
#include "api/index_inside.h"

#include "index/export.h"
#include "index/sorter.h"
#include "index/text.h"

#include <stdlib.h>

/* ---- Records ------------------------------------------------------------------------- */

struct hf_index_record {
    struct schema schema; /* as of when the record was read or its cursor was opened */
    struct buffer bytes;
    struct buffer values; /* all fields, each NUL-terminated; built on first use */
    struct {
        size_t at, size;
    } parts[INDEX_FIELDS_MAX];
    bool decoded;
    struct buffer space, text; /* for hf_index_record_text */
};

static struct hf_index_record *record_new(const struct schema *schema)
{
    struct hf_index_record *record = malloc(sizeof *record);
    if (!record)
        return NULL;
    schema_copy(&record->schema, schema);
    record->decoded = false; /* so `parts` is not set yet */
    record->bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    record->values = BUFFER_INIT(INDEX_RECORD_BYTES_MAX + INDEX_FIELDS_MAX);
    record->space = BUFFER_INIT(INDEX_TEXT_MAX);
    record->text = BUFFER_INIT(INDEX_TEXT_MAX);
    return record;
}

void hf_index_record_free(struct hf_index_record *record)
{
    if (!record)
        return;
    buffer_release(&record->bytes);
    buffer_release(&record->values);
    buffer_release(&record->space);
    buffer_release(&record->text);
    free(record);
}

/* The escapes in a stored record are valid, so this fails only if memory runs out. */
static bool decode_values(struct hf_index_record *record)
{
    struct view rest = buffer_view(&record->bytes);
    bool more = true;
    buffer_clear(&record->values);
    for (size_t i = 0; i < record->schema.field_count; i++) {
        size_t at = record->values.size;
        if (more && !field_read(&record->values, field_cut(&rest, &more)))
            return false;
        record->parts[i].at = at;
        record->parts[i].size = record->values.size - at;
        if (!buffer_append_byte(&record->values, '\0'))
            return false;
    }
    record->decoded = true;
    return true;
}

const char *hf_index_record_value(struct hf_index_record *record, const char *field,
                                  size_t *ret_size)
{
    if (!record || !field)
        return NULL;
    size_t number = schema_find(&record->schema, view_of(field));
    if (number == record->schema.field_count || (!record->decoded && !decode_values(record)))
        return NULL;
    if (ret_size)
        *ret_size = record->parts[number].size;
    return record->values.data + record->parts[number].at;
}

const char *hf_index_record_text(struct hf_index_record *record, enum hf_index_format format,
                                 bool first, size_t *ret_size)
{
    if (!record || !ret_size || (unsigned)format >= HF_INDEX_FORMAT_COUNT)
        return NULL;
    buffer_clear(&record->text);
    if (!text_of_record(&record->schema, format, buffer_view(&record->bytes), first,
                        &record->space, &record->text))
        return NULL;
    *ret_size = record->text.size;
    return record->text.data;
}

enum hf_status index_check_format(enum hf_index_format format, struct hf_error *error)
{
    if ((unsigned)format < HF_INDEX_FORMAT_COUNT)
        return HF_OK;
    return error_set(error, HF_INVALID, "unknown format %d", (int)format);
}

enum hf_status hf_index_header(struct hf_index *index, enum hf_index_format format,
                               char **ret_text, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(INDEX_FIELDS_MAX * (INDEX_FIELD_BYTES + 2));
    if (ERROR_IF_NULL(error, index, ret_text) != HF_OK ||
        index_check_format(format, error) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&index->mutex);
    bool good = text_of_header(&index->latest->schema, format, &text);
    env_mutex_unlock(&index->mutex);
    if (!good || !buffer_append_byte(&text, '\0')) {
        buffer_release(&text);
        return error_no_memory(error);
    }
    *ret_text = text.data;
    return error_clear(error);
}

bool hf_index_format_of_path(const char *path, enum hf_index_format *ret_format)
{
    return path && ret_format && format_of_path(view_of(path), ret_format);
}

enum hf_status hf_index_get(struct hf_index *index, const char *key,
                            struct hf_index_record **ret_record, struct hf_error *error)
{
    struct index *own = NULL;
    struct buffer bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    struct hf_error why;
    if (ret_record)
        *ret_record = NULL;
    if (ERROR_IF_NULL(error, index, key, ret_record) != HF_OK)
        return HF_INVALID;
    enum hf_status status = index_borrow(index, &own, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    status = index_get(own, view_of(key), &bytes, &why);
    /* The read may have loaded a newer schema. */
    struct hf_index_record *record = status == HF_OK ? record_new(&own->schema) : NULL;
    if (record)
        record->bytes = bytes;
    else
        buffer_release(&bytes);
    if (status == HF_OK && !record)
        status = error_no_memory(&why);
    *ret_record = record;
    index_give_back(index, own);
    return error_tell(error, status, &why);
}

/* What hf_index_get_many shows. */
struct got_many {
    bool (*each)(void *argument, size_t number, struct hf_index_record *record,
                 const struct hf_error *why);
    void *argument;
    struct index *index;
    struct hf_index_record *record;
};

static enum hf_status record_set(struct hf_index_record *record, struct view bytes,
                                 struct hf_error *error)
{
    record->decoded = false;
    buffer_clear(&record->bytes);
    return buffer_append(&record->bytes, bytes) ? HF_OK : error_no_memory(error);
}

static enum hf_status show_got(void *argument, size_t number, const struct record *record,
                               const struct hf_error *why, struct hf_error *error)
{
    struct got_many *got = argument;
    if (record) {
        got->record->schema = got->index->schema; /* reading may have loaded a newer one */
        if (record_set(got->record, record->bytes, error) != HF_OK)
            return error->status;
    }
    return got->each(got->argument, number, record ? got->record : NULL, why)
               ? HF_OK
               : error_set(error, HF_CANCELLED, "stopped by the caller");
}

enum hf_status hf_index_get_many(struct hf_index *index, const char *const *keys,
                                 size_t key_count,
                                 bool (*each)(void *argument, size_t number,
                                              struct hf_index_record *record,
                                              const struct hf_error *why),
                                 void *argument, struct hf_error *error)
{
    struct got_many got = { .each = each, .argument = argument };
    const struct index_getter getter = { show_got, &got };
    struct hf_error why;
    if (ERROR_IF_NULL(error, index) != HF_OK ||
        (key_count > 0 && ERROR_IF_NULL(error, keys) != HF_OK) ||
        error_if_none(error, "each", each) != HF_OK ||
        error_if_null_among(error, "keys", keys, key_count) != HF_OK)
        return HF_INVALID;
    enum hf_status status = index_borrow(index, &got.index, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    struct view *views = calloc(key_count + 1, sizeof *views);
    got.record = record_new(&got.index->schema);
    status = views && got.record ? HF_OK : error_no_memory(&why);
    if (status == HF_OK) {
        for (size_t i = 0; i < key_count; i++)
            views[i] = view_of(keys[i]);
        status = index_get_many(got.index, views, key_count, &getter, &why);
    }
    hf_index_record_free(got.record);
    free(views);
    index_give_back(index, got.index);
    return error_tell(error, status, &why);
}

/* ---- Queries ------------------------------------------------------------------------- */

/* A query in the form that src/index uses, with copies of everything it points to, and the
 * callbacks. */
struct query {
    struct hf_index_query given;
    struct arena arena;
    struct condition_on_field where[HF_INDEX_WHERE_MAX];
    struct index_query query;
    bool sorted;
    struct sort_order order;
};

static enum hf_status copy_query_text(struct arena *arena, const char *text,
                                      struct view *ret_view, struct hf_error *error)
{
    *ret_view = arena_copy(arena, view_of(text ? text : ""));
    return ret_view->data ? HF_OK : error_no_memory(error);
}

static enum hf_status convert_condition(struct query *query, const struct schema *schema,
                                        const struct hf_index_condition *given,
                                        struct condition_on_field *ret_condition,
                                        struct hf_error *error)
{
    if (!given->field || !given->value)
        return error_set(error, HF_INVALID, "where: the %s must not be NULL",
                         given->field ? "value" : "field");
    ret_condition->differs = given->differs;
    enum hf_status status =
        schema_pick(schema, view_of(given->field), &ret_condition->field, error);
    if (status != HF_OK) {
        error_prefix(error, "where");
        return status;
    }
    return copy_query_text(&query->arena, given->value, &ret_condition->value, error);
}

static enum hf_status convert_filter(struct query *query, const struct schema *schema,
                                     const char *given,
                                     struct condition_on_field *ret_condition,
                                     struct hf_error *error)
{
    struct view text;
    enum hf_status status = copy_query_text(&query->arena, given, &text, error);
    if (status != HF_OK)
        return status;
    status = condition_parse(schema, text, ret_condition, error);
    if (status != HF_OK)
        error_prefix(error, "where");
    return status;
}

static enum hf_status convert_where(struct query *query, const struct schema *schema,
                                    struct hf_error *error)
{
    const struct hf_index_query *given = &query->given;
    if (given->where_count > HF_INDEX_WHERE_MAX ||
        given->filter_count > HF_INDEX_WHERE_MAX - given->where_count)
        return error_set(error, HF_INVALID, "where can have at most %d conditions",
                         HF_INDEX_WHERE_MAX);
    if (given->where_count > 0 && !given->where)
        return error_set(error, HF_INVALID, "where must not be NULL");
    if (given->filter_count > 0 &&
        (!given->filters ||
         error_if_null_among(error, "filters", given->filters, given->filter_count) != HF_OK))
        return error_set(error, HF_INVALID, "filters must not be NULL");
    for (size_t i = 0; i < given->where_count; i++) {
        enum hf_status status =
            convert_condition(query, schema, &given->where[i], &query->where[i], error);
        if (status != HF_OK)
            return status;
    }
    for (size_t i = 0; i < given->filter_count; i++) {
        enum hf_status status = convert_filter(query, schema, given->filters[i],
                                               &query->where[given->where_count + i], error);
        if (status != HF_OK)
            return status;
    }
    query->query.where = query->where;
    query->query.where_count = given->where_count + given->filter_count;
    return HF_OK;
}

static enum hf_status convert_since(struct query *query, const struct schema *schema,
                                    struct hf_error *error)
{
    const char *since = query->given.since;
    query->query.since_given = since != NULL;
    if (!since || schema_parse_time(schema, view_of(since), &query->query.since))
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "since takes RFC 3339%s, as in 2026-02-06T10:00:00Z, or a "
                     "number since 1970, not '%.*s'",
                     schema->has_zone ? "" : " with a zone",
                     VIEW_ARGS(view_first(view_of(since), 60)));
}

static enum hf_status convert_sort(struct query *query, const struct schema *schema,
                                   struct hf_error *error)
{
    const char *sort = query->given.sort;
    query->sorted = sort != NULL;
    if (!sort)
        return HF_OK;
    enum hf_status status = sort_order_parse(schema, view_of(sort), &query->order, error);
    if (status != HF_OK)
        error_prefix(error, "sort");
    return status;
}

/* Release the arena even after a failure. */
static enum hf_status query_init(struct query *query, const struct index *index,
                                 const struct hf_index_query *given, struct hf_error *error)
{
    struct hf_index_query used = HF_INDEX_QUERY;
    *query = (struct query){ .arena = ARENA_INIT };
    enum hf_status status = READ_OPTIONS(HF_INDEX_QUERY, given, &used, error);
    if (status != HF_OK)
        return status;
    query->given = used;
    status = copy_query_text(&query->arena, used.prefix, &query->query.prefix, error);
    if (status == HF_OK)
        status = convert_since(query, &index->schema, error);
    if (status == HF_OK)
        status = convert_sort(query, &index->schema, error);
    if (status == HF_OK)
        status = index_shard_of(index, used.shard, &query->query.shard, error);
    return status == HF_OK ? convert_where(query, &index->schema, error) : status;
}

static struct index_visitor query_visitor(const struct hf_index_query *query)
{
    return (struct index_visitor){ .progress = query->progress,
                                   .trouble = query->trouble,
                                   .argument = query->argument };
}

/* ---- Cursors ------------------------------------------------------------------------- */

struct hf_index_cursor {
    struct hf_client *client;
    struct index *index; /* the cursor's own copy */
    struct query query;
    struct walk *walk;
    struct record_sorter *sorter; /* NULL: records are returned as they are read */
    bool all_read;                /* the sorter has all records ... */
    bool unsorted;                /* ... or has failed: no more records follow */
    uint64_t returned;
    struct hf_index_record *record; /* the last one returned */
};

void hf_index_cursor_close(struct hf_index_cursor *cursor)
{
    if (!cursor)
        return;
    walk_close(cursor->walk);
    record_sorter_free(cursor->sorter);
    hf_index_record_free(cursor->record);
    arena_release(&cursor->query.arena);
    index_close(cursor->index);
    client_drop(cursor->client);
    free(cursor);
}

static enum hf_status cursor_start(struct hf_index_cursor *cursor, struct hf_index *index,
                                   const struct hf_index_query *query, struct hf_error *error)
{
    enum hf_status status = index_borrow(index, &cursor->index, error);
    if (status == HF_OK)
        status = query_init(&cursor->query, cursor->index, query, error);
    if (status == HF_OK) {
        cursor->record = record_new(&cursor->index->schema);
        status = cursor->record ? HF_OK : error_no_memory(error);
    }
    if (status == HF_OK && cursor->query.sorted) {
        cursor->sorter = record_sorter_new(cursor->index->env, cursor->query.order,
                                           cursor->query.given.limit);
        status = cursor->sorter ? HF_OK : error_no_memory(error);
    }
    if (status != HF_OK)
        return status;
    const struct index_visitor visitor = query_visitor(&cursor->query.given);
    return walk_open(cursor->index, &cursor->query.query, &visitor, &cursor->walk, error);
}

enum hf_status hf_index_cursor_open(struct hf_index *index, const struct hf_index_query *query,
                                    struct hf_index_cursor **ret_cursor, struct hf_error *error)
{
    struct hf_error why;
    if (ret_cursor)
        *ret_cursor = NULL;
    if (ERROR_IF_NULL(error, index, ret_cursor) != HF_OK)
        return HF_INVALID;
    struct hf_index_cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor)
        return error_no_memory(error);
    cursor->client = index->client;
    client_keep(cursor->client);
    enum hf_status status = cursor_start(cursor, index, query, &why);
    if (status == HF_OK)
        *ret_cursor = cursor;
    else
        hf_index_cursor_close(cursor);
    return error_tell(error, status, &why);
}

/* The next record of a sorted cursor. All records are read before the first one is returned. A
 * shard that cannot be read is reported, and the next call continues with the next shard. */
static enum hf_status next_sorted(struct hf_index_cursor *cursor, struct view *ret_bytes,
                                  struct hf_error *error)
{
    if (cursor->unsorted)
        return HF_NOT_FOUND;
    while (!cursor->all_read) {
        struct record record;
        enum hf_status status = walk_next(cursor->walk, &record, error);
        cursor->all_read = status == HF_NOT_FOUND;
        if (status == HF_OK) {
            status = record_sorter_add(cursor->sorter, &record, error);
            cursor->unsorted = status != HF_OK;
        }
        if (status != HF_OK && status != HF_NOT_FOUND)
            return status;
    }
    enum hf_status status = record_sorter_next(cursor->sorter, ret_bytes, error);
    cursor->unsorted = status != HF_OK;
    return status;
}

static enum hf_status next_bytes(struct hf_index_cursor *cursor, struct view *ret_bytes,
                                 struct hf_error *error)
{
    struct record record;
    const uint64_t limit = cursor->query.given.limit;
    if (cursor->sorter)
        return next_sorted(cursor, ret_bytes, error);
    if (limit > 0 && cursor->returned == limit)
        return HF_NOT_FOUND;
    enum hf_status status = walk_next(cursor->walk, &record, error);
    if (status == HF_OK) {
        *ret_bytes = record.bytes;
        cursor->returned++;
    }
    return status;
}

/* All records of a cursor have the fields that the index had when the cursor was opened. */
enum hf_status hf_index_cursor_next(struct hf_index_cursor *cursor,
                                    struct hf_index_record **ret_record, struct hf_error *error)
{
    struct view bytes;
    struct hf_error why = { .status = HF_OK };
    if (ret_record)
        *ret_record = NULL;
    if (ERROR_IF_NULL(error, cursor, ret_record) != HF_OK)
        return HF_INVALID;
    enum hf_status status = next_bytes(cursor, &bytes, &why);
    if (status == HF_NOT_FOUND)
        return error_set(error, HF_NOT_FOUND, "there are no more records");
    if (status == HF_OK)
        status = record_set(cursor->record, bytes, &why);
    if (status == HF_OK)
        *ret_record = cursor->record;
    return error_tell(error, status, &why);
}

enum hf_status hf_index_cursor_progress(struct hf_index_cursor *cursor,
                                        struct hf_index_progress *progress,
                                        struct hf_error *error)
{
    if (ERROR_IF_NULL(error, cursor, progress) != HF_OK ||
        CHECK_REPORT(HF_INDEX_PROGRESS, progress, error) != HF_OK)
        return HF_INVALID;
    const struct hf_index_progress filled = walk_totals(cursor->walk);
    write_caller_report(progress, &filled, sizeof filled);
    return error_clear(error);
}

/* ---- Whole index --------------------------------------------------------------------- */

/* One walk over all matching records. */
struct whole_walk {
    uint64_t *ret_count; /* count the records; NULL: write them to `fd` */
    int fd;
    enum hf_index_format format;
    struct hf_index_progress totals;
};

static enum hf_status walk_whole(struct hf_index *handle, const struct hf_index_query *given,
                                 struct whole_walk *walk, struct hf_error *error)
{
    struct index *index = NULL;
    struct query query;
    struct hf_error why;
    enum hf_status status = index_borrow(handle, &index, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    status = query_init(&query, index, given, &why);
    if (status == HF_OK && (query.sorted || query.given.limit > 0))
        status = error_set(&why, HF_INVALID, "sort and limit apply only to cursors");
    const struct index_visitor visitor = query_visitor(&query.given);
    if (status == HF_OK && walk->ret_count)
        status = index_count(index, &query.query, &visitor, walk->ret_count, &why);
    else if (status == HF_OK)
        status =
            index_export(index, &query.query, &(struct export_file){ walk->fd, walk->format },
                         &visitor, &walk->totals, &why);
    arena_release(&query.arena);
    index_give_back(handle, index);
    return error_tell(error, status, &why);
}

enum hf_status hf_index_count(struct hf_index *index, const struct hf_index_query *query,
                              uint64_t *ret_count, struct hf_error *error)
{
    struct whole_walk walk = { .ret_count = ret_count };
    if (ERROR_IF_NULL(error, index, ret_count) != HF_OK)
        return HF_INVALID;
    return walk_whole(index, query, &walk, error);
}

enum hf_status hf_index_export(struct hf_index *index, const struct hf_index_query *query,
                               int fd, enum hf_index_format format,
                               struct hf_index_progress *progress, struct hf_error *error)
{
    struct whole_walk walk = { .fd = fd, .format = format, .totals = HF_INDEX_PROGRESS };
    if (ERROR_IF_NULL(error, index) != HF_OK ||
        CHECK_REPORT(HF_INDEX_PROGRESS, progress, error) != HF_OK ||
        index_check_format(format, error) != HF_OK)
        return HF_INVALID;
    enum hf_status status = walk_whole(index, query, &walk, error);
    write_caller_report(progress, &walk.totals, sizeof walk.totals);
    return status;
}
