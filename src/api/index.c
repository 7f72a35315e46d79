/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: the calls of holdfast/index.h that create, open and describe indexes and put records. A
 * batch is checked as a whole before its first record is put. */
#include "api/index_inside.h"

#include "base/check.h"
#include "base/utf8.h"
#include "store/pages.h"

#include <stdio.h>
#include <stdlib.h>

#define DIGITS_USUAL 2

/* ---- The handle ---------------------------------------------------------------------- */

enum hf_status index_borrow(struct hf_index *handle, struct index **ret_index,
                            struct hf_error *error)
{
    env_mutex_lock(&handle->mutex);
    *ret_index = index_copy(handle->latest);
    env_mutex_unlock(&handle->mutex);
    return *ret_index ? HF_OK : error_no_memory(error);
}

void index_give_back(struct hf_index *handle, struct index *index)
{
    env_mutex_lock(&handle->mutex);
    index_learn(handle->latest, index);
    env_mutex_unlock(&handle->mutex);
    index_close(index);
}

enum hf_status hf_index_open(struct hf_client *client, const char *name,
                             struct hf_index **ret_index, struct hf_error *error)
{
    struct hf_error why;
    if (ret_index)
        *ret_index = NULL;
    if (ERROR_IF_NULL(error, client, name, ret_index) != HF_OK)
        return HF_INVALID;
    struct hf_index *handle = calloc(1, sizeof *handle);
    if (!handle)
        return error_no_memory(error);
    enum hf_status status =
        index_open(client_store(client), client, view_of(name), &handle->latest, &why);
    if (status == HF_OK) {
        handle->client = client;
        client_keep(client);
        env_mutex_init(client_env(client), &handle->mutex);
        *ret_index = handle;
    } else {
        free(handle);
    }
    return error_tell(error, status, &why);
}

void hf_index_close(struct hf_index *index)
{
    if (!index)
        return;
    index_close(index->latest);
    env_mutex_release(&index->mutex);
    client_drop(index->client);
    free(index);
}

/* ---- Creating ------------------------------------------------------------------------ */

static enum hf_status schema_of(const struct hf_index_options *options,
                                struct schema *ret_schema, struct hf_error *error)
{
    struct view fields[INDEX_FIELDS_MAX];
    if (options->field_count > INDEX_FIELDS_MAX)
        return error_set(error, HF_INVALID, "an index can have at most %d fields",
                         INDEX_FIELDS_MAX);
    for (size_t i = 0; i < options->field_count; i++)
        fields[i] = view_of(options->fields[i]);
    if (options->digits > INDEX_DIGITS_MAX)
        return error_set(error, HF_INVALID, "digits must be from 1 to %d, not %u",
                         INDEX_DIGITS_MAX, options->digits);
    enum hf_status status =
        schema_new(&(struct schema_spec){ fields, options->field_count, view_of(options->key),
                                          view_of(options->time),
                                          options->digits > 0 ? options->digits : DIGITS_USUAL,
                                          !options->no_foreign, options->plain },
                   ret_schema, error);
    if (status != HF_OK || !options->zone)
        return status;
    if (!options->zone[0])
        return error_set(error, HF_INVALID, "the time zone must not be empty");
    return schema_set_zone(ret_schema, view_of(options->zone), error);
}

/* Options that the caller did not set are taken from the existing index, if there is one. */
static enum hf_status inherit_options(struct store *store, struct view name,
                                      const struct hf_index_options *options,
                                      struct schema *schema, struct hf_error *error)
{
    struct index *index;
    enum hf_status status = index_open(store, /* client */ NULL, name, &index, error);
    if (status == HF_NOT_FOUND)
        return error_clear(error);
    if (status != HF_OK)
        return status;
    if (options->digits == 0)
        schema->digits = index->schema.digits;
    if (!options->no_foreign)
        schema->foreign = index->schema.foreign;
    schema->plain = options->plain || index->schema.plain;
    if (!options->zone) {
        schema->has_zone = index->schema.has_zone;
        schema->zone_east_s = index->schema.zone_east_s;
    }
    index_close(index);
    return HF_OK;
}

static enum hf_status create_index(struct hf_client *client, struct view name,
                                   const struct hf_index_options *options,
                                   enum index_made *ret_made, struct hf_error *error)
{
    struct store *store = client_store(client);
    struct schema *schema = malloc(sizeof *schema);
    if (!schema)
        return error_no_memory(error);
    enum hf_status status = schema_of(options, schema, error);
    if (status == HF_OK)
        status = inherit_options(store, name, options, schema, error);
    if (status == HF_OK)
        status = index_create(store, client, name, schema, ret_made, error);
    free(schema);
    return status;
}

enum hf_status hf_index_create(struct hf_client *client, const char *name,
                               const struct hf_index_options *options,
                               enum hf_index_made *ret_made, struct hf_index **ret_index,
                               struct hf_error *error)
{
    static const enum hf_index_made words[] = { [INDEX_CREATED] = HF_INDEX_CREATED,
                                                [INDEX_EXTENDED] = HF_INDEX_EXTENDED,
                                                [INDEX_UNCHANGED] = HF_INDEX_UNCHANGED };
    struct hf_index_options used = HF_INDEX_OPTIONS;
    enum index_made made;
    struct hf_error why;
    if (ret_index)
        *ret_index = NULL;
    if (ERROR_IF_NULL(&why, client, name, options, ret_index) != HF_OK ||
        READ_OPTIONS(HF_INDEX_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    const char *const *fields = used.fields;
    const char *key = used.key, *time = used.time;
    if (ERROR_IF_NULL(error, fields, key, time) != HF_OK ||
        error_if_null_among(error, "fields", fields, used.field_count) != HF_OK)
        return HF_INVALID;
    enum hf_status status = create_index(client, view_of(name), &used, &made, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    status = hf_index_open(client, name, ret_index, error);
    if (status == HF_OK && ret_made)
        *ret_made = words[made];
    return status;
}

/* ---- Description --------------------------------------------------------------------- */

enum hf_status hf_index_list(struct hf_client *client,
                             bool (*each)(void *argument, const char *name), void *argument,
                             struct hf_error *error)
{
    struct pages pages = { .list = { .prefix = VIEW(LAYOUT_INDEX_FOLDER),
                                     .delimiter = VIEW("/") } };
    const struct list_entry *entry;
    char name[INDEX_NAME_MAX + 1];
    struct hf_error why;
    bool more = true;
    if (ERROR_IF_NULL(error, client) != HF_OK || error_if_none(error, "each", each) != HF_OK)
        return HF_INVALID;
    while (more && (entry = pages_next_entry(&pages, client_store(client)))) {
        struct view rest = view_from(entry->key, strlen(LAYOUT_INDEX_FOLDER));
        struct view found = view_cut(&rest, '/');
        if (!entry->is_prefix || !layout_index_valid(found))
            continue;
        memcpy(name, found.data, found.size);
        name[found.size] = '\0';
        more = each(argument, name);
    }
    return error_tell(error, pages_end(&pages, HF_OK, &why), &why);
}

enum hf_status hf_index_describe(struct hf_index *index, struct hf_index_info *info,
                                 struct hf_error *error)
{
    if (ERROR_IF_NULL(error, index, info) != HF_OK ||
        CHECK_REPORT(HF_INDEX_INFO, info, error) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&index->mutex);
    const struct schema *schema = &index->latest->schema;
    struct hf_index_info filled = { .struct_size = sizeof filled,
                                    .field_count = schema->field_count,
                                    .key = schema->key,
                                    .time = schema->time,
                                    .version = schema->version_count,
                                    .digits = schema->digits,
                                    .shards = shard_count(schema->digits),
                                    .foreign = schema->foreign,
                                    .plain = schema->plain };
    char zone[ZONE_TEXT_MAX];
    if (schema->has_zone)
        snprintf(filled.zone, sizeof filled.zone, "%s", zone_text(schema, zone));
    env_mutex_unlock(&index->mutex);
    write_caller_report(info, &filled, sizeof filled);
    return error_clear(error);
}

/* The names remain valid, because fields can only be appended. */
const char *hf_index_field_name(struct hf_index *index, size_t field)
{
    if (!index)
        return NULL;
    env_mutex_lock(&index->mutex);
    const struct schema *schema = &index->latest->schema;
    const char *name = field < schema->field_count ? schema->fields[field] : NULL;
    env_mutex_unlock(&index->mutex);
    return name;
}

enum hf_status hf_index_find_field(struct hf_index *index, const char *name, size_t *ret_field,
                                   struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, index, name, ret_field) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&index->mutex);
    enum hf_status status = schema_pick(&index->latest->schema, view_of(name), ret_field, &why);
    env_mutex_unlock(&index->mutex);
    return error_tell(error, status, &why);
}

/* Like shard_number, but also accepts upper-case digits. */
static bool parse_shard(struct view text, unsigned digits, size_t *ret_number)
{
    char small[INDEX_DIGITS_MAX];
    if (text.size > sizeof small)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        bool upper = text.data[i] >= 'A' && text.data[i] <= 'F';
        small[i] = (char)(upper ? text.data[i] | 0x20 : text.data[i]);
    }
    return shard_number((struct view){ small, text.size }, digits, ret_number);
}

enum hf_status index_shard_of(const struct index *index, const char *text,
                              struct shard_id *ret_shard, struct hf_error *error)
{
    unsigned digits = index->schema.digits;
    size_t number;
    *ret_shard = (struct shard_id){ "" };
    if (!text)
        return HF_OK;
    if (!parse_shard(view_of(text), digits, &number))
        return error_set(error, HF_INVALID,
                         "shard takes %u hexadecimal digit%s, as in '%s', not '%.40s'", digits,
                         digits == 1 ? "" : "s", shard_of_number(0, digits).text, text);
    *ret_shard = shard_of_number(number, digits);
    return HF_OK;
}

/* ---- Putting ------------------------------------------------------------------------- */

/* Puts any number of records, all of which have been checked. */
static enum hf_status put_batches(struct index *index, const struct view *records, size_t count,
                                  size_t *ret_bad, struct hf_error *error)
{
    for (size_t done = 0; done < count; done += BATCH_MAX) {
        size_t bad = 0, now = count - done < BATCH_MAX ? count - done : BATCH_MAX;
        enum hf_status status = index_put(index, records + done, now, &bad, error);
        if (status == HF_INVALID)
            *ret_bad = done + bad;
        else if (status != HF_OK && done > 0)
            error_prefix(error, "%zu of %zu records were put before this failure", done, count);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* index_put checks one batch. All records must be checked before the first batch is put. */
static enum hf_status check_records(struct index *index, const struct view *records,
                                    size_t count, size_t *ret_bad, struct hf_error *error)
{
    struct buffer space = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count; i++) {
        struct record record;
        bool too_many = false;
        status = record_read(&index->schema, records[i], &space, &record, &too_many, error);
        if (status == HF_INVALID && too_many) {
            status = index_refresh(index, error);
            if (status == HF_OK)
                status = record_read(&index->schema, records[i], &space, &record, NULL, error);
        }
        if (status == HF_INVALID)
            *ret_bad = i;
        if (status != HF_OK)
            break;
    }
    buffer_release(&space);
    return status;
}

static enum hf_status read_row_values(const struct index *index, const struct hf_index_row *row,
                                      struct view *values, struct hf_error *error)
{
    if (row->count > 0 && !row->values)
        return error_set(error, HF_INVALID, "values must not be NULL");
    for (size_t i = 0; i < row->count; i++) {
        const struct hf_index_value *value = &row->values[i];
        size_t field;
        if (!value->field || !value->value)
            return error_set(error, HF_INVALID, "values[%zu].%s must not be NULL", i,
                             value->field ? "value" : "field");
        enum hf_status status =
            schema_pick(&index->schema, view_of(value->field), &field, error);
        if (status != HF_OK)
            return status;
        if (values[field].data)
            return error_set(error, HF_INVALID, "the field '%s' is given twice", value->field);
        values[field] = view_of(value->value);
    }
    return HF_OK;
}

/* A field that is unknown here may have been added by another client since, so the schema is read
 * again. */
static enum hf_status refresh_and_read_row(struct index *index, const struct hf_index_row *row,
                                           struct view *values, struct hf_error *error)
{
    struct hf_error why = *error;
    size_t fields = index->schema.field_count;
    if (index_refresh(index, error) != HF_OK || index->schema.field_count == fields) {
        *error = why;
        return why.status;
    }
    memset(values, 0, INDEX_FIELDS_MAX * sizeof *values);
    return read_row_values(index, row, values, error);
}

/* Builds the bytes of one record. */
static enum hf_status encode_row(struct index *index, const struct hf_index_row *row,
                                 struct arena *arena, struct view *ret_record,
                                 struct hf_error *error)
{
    struct view values[INDEX_FIELDS_MAX] = { 0 };
    struct buffer bytes = BUFFER_INIT(2 * INDEX_RECORD_BYTES_MAX);
    enum hf_status status = read_row_values(index, row, values, error);
    if (status == HF_INVALID)
        status = refresh_and_read_row(index, row, values, error);
    if (status != HF_OK)
        return status;
    if (!index_write_record(index, values, &bytes))
        status = bytes.size > INDEX_RECORD_BYTES_MAX
                     ? error_set(error, HF_INVALID, "the record is too long")
                     : error_no_memory(error);
    if (status == HF_OK) {
        *ret_record = arena_copy(arena, buffer_view(&bytes));
        if (!ret_record->data)
            status = error_no_memory(error);
    }
    buffer_release(&bytes);
    return status;
}

/* Builds records from rows or, if `rows` is NULL, uses the given bytes, and puts all of them. */
static enum hf_status put_converted(struct index *index, const struct hf_index_row *rows,
                                    const struct hf_index_bytes *bytes, size_t count,
                                    size_t *ret_bad, struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct view *records = calloc(count, sizeof *records);
    enum hf_status status = records ? HF_OK : error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        if (status != HF_OK)
            break;
        if (rows)
            status = encode_row(index, &rows[i], &arena, &records[i], error);
        else if (!bytes[i].data && bytes[i].size > 0)
            status = error_set(error, HF_INVALID, "records[%zu].data must not be NULL", i);
        else
            records[i] = (struct view){ bytes[i].data ? bytes[i].data : "", bytes[i].size };
        if (status == HF_INVALID)
            *ret_bad = i;
    }
    if (status == HF_OK && count > BATCH_MAX)
        status = check_records(index, records, count, ret_bad, error);
    if (status == HF_OK)
        status = put_batches(index, records, count, ret_bad, error);
    free(records);
    arena_release(&arena);
    return status;
}

static enum hf_status put_rows_or_bytes(struct hf_index *index, const struct hf_index_row *rows,
                                        const struct hf_index_bytes *bytes, size_t count,
                                        size_t *ret_bad, struct hf_error *error)
{
    struct index *own = NULL;
    struct hf_error why;
    size_t bad = 0;
    if (count == 0)
        return error_clear(error);
    enum hf_status status = index_borrow(index, &own, &why);
    if (status == HF_OK) {
        status = put_converted(own, rows, bytes, count, &bad, &why);
        index_give_back(index, own);
    }
    if (status == HF_INVALID && ret_bad)
        *ret_bad = bad;
    return error_tell(error, status, &why);
}

enum hf_status hf_index_put_many(struct hf_index *index, const struct hf_index_row *rows,
                                 size_t count, size_t *ret_bad, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, index) != HF_OK ||
        (count > 0 && ERROR_IF_NULL(error, rows) != HF_OK))
        return HF_INVALID;
    return put_rows_or_bytes(index, rows, /* bytes */ NULL, count, ret_bad, error);
}

enum hf_status hf_index_put(struct hf_index *index, const struct hf_index_value *values,
                            size_t count, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, index, values) != HF_OK)
        return HF_INVALID;
    const struct hf_index_row row = { values, count };
    return put_rows_or_bytes(index, &row, /* bytes */ NULL, 1, /* bad */ NULL, error);
}

enum hf_status hf_index_put_records(struct hf_index *index,
                                    const struct hf_index_bytes *records, size_t count,
                                    size_t *ret_bad, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, index) != HF_OK ||
        (count > 0 && ERROR_IF_NULL(error, records) != HF_OK))
        return HF_INVALID;
    return put_rows_or_bytes(index, /* rows */ NULL, records, count, ret_bad, error);
}

/* ---- Deleting ------------------------------------------------------------------------ */

/* Checks all keys and the time before the first deletion is put. */
static enum hf_status check_deletions(const struct index *index, const struct view *keys,
                                      size_t count, struct view time, size_t *ret_bad,
                                      struct hf_error *error)
{
    struct instant instant;
    if (time.data && !schema_parse_time(&index->schema, time, &instant))
        return error_set(error, HF_INVALID,
                         "time takes RFC 3339%s, or a number since 1970, not '%.*s'",
                         index->schema.has_zone ? "" : " with a zone",
                         VIEW_ARGS(view_first(time, 60)));
    for (size_t i = 0; i < count; i++) {
        *ret_bad = i;
        if (keys[i].size == 0 || keys[i].size > INDEX_KEY_BYTES_MAX)
            return error_set(error, HF_INVALID, "a key has 1 to %d bytes, not %zu",
                             INDEX_KEY_BYTES_MAX, keys[i].size);
        if (!utf8_is_valid(keys[i]))
            return error_set(error, HF_INVALID, "key %zu is not UTF-8", i + 1);
    }
    return HF_OK;
}

static enum hf_status delete_in_batches(struct index *index, const struct view *keys,
                                        size_t count, struct view time, size_t *ret_bad,
                                        struct hf_error *error)
{
    enum hf_status status = check_deletions(index, keys, count, time, ret_bad, error);
    for (size_t done = 0; done < count && status == HF_OK; done += BATCH_MAX) {
        size_t bad = 0, now = count - done < BATCH_MAX ? count - done : BATCH_MAX;
        status = index_delete(index, keys + done, now, time, &bad, error);
        if (status == HF_INVALID)
            *ret_bad = done + bad;
        else if (status != HF_OK && done > 0)
            error_prefix(error, "%zu of %zu keys were deleted before this failure", done,
                         count);
    }
    return status;
}

enum hf_status hf_index_delete(struct hf_index *index, const char *const *keys,
                               size_t key_count, const char *time, size_t *ret_bad,
                               struct hf_error *error)
{
    struct index *own = NULL;
    struct hf_error why;
    size_t bad = 0;
    if (ERROR_IF_NULL(error, index) != HF_OK ||
        (key_count > 0 && ERROR_IF_NULL(error, keys) != HF_OK) ||
        error_if_null_among(error, "keys", keys, key_count) != HF_OK)
        return HF_INVALID;
    struct view *views = calloc(key_count + 1, sizeof *views);
    enum hf_status status = views ? index_borrow(index, &own, &why) : error_no_memory(&why);
    if (status == HF_OK) {
        for (size_t i = 0; i < key_count; i++)
            views[i] = view_of(keys[i]);
        status = delete_in_batches(own, views, key_count,
                                   time ? view_of(time) : (struct view){ NULL, 0 }, &bad, &why);
        index_give_back(index, own);
    }
    free(views);
    if (status == HF_INVALID && ret_bad)
        *ret_bad = bad;
    return error_tell(error, status, &why);
}
