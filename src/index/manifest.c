/* manifest.c: the manifest of an index, read, written, and swapped. Nothing is decided by it. */
#include "index/manifest.h"

#include "base/check.h"
#include "base/evidence.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/rule.h"

#include <stdlib.h>

#define MANIFEST_TRIES_MAX 3
#define ROWS_AT_FIRST      ((size_t)16)

/* ---- Rows ---------------------------------------------------------------------------- */

void manifest_release(struct manifest *manifest)
{
    free(manifest->rows);
    *manifest = (struct manifest){ 0 };
}

/* Where the row of this shard is, or would be. Mostly they come in order. */
static size_t find_row(const struct manifest *manifest, size_t shard)
{
    size_t low = 0, high = manifest->count;
    if (high > 0 && manifest->rows[high - 1].shard < shard)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (manifest->rows[middle].shard < shard)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room(struct manifest *manifest)
{
    if (manifest->count < manifest->capacity)
        return true;
    size_t capacity = manifest->capacity > 0 ? manifest->capacity * 2 : ROWS_AT_FIRST;
    struct manifest_row *rows = realloc(manifest->rows, capacity * sizeof *rows);
    if (!rows)
        return false;
    manifest->rows = rows;
    manifest->capacity = capacity;
    return true;
}

struct manifest_row manifest_row_of(size_t shard, const struct fold_report *report)
{
    return (struct manifest_row){ .shard = shard,
                                  .records = report->records,
                                  .bytes = report->bytes,
                                  .token = report->token,
                                  .writes = report->writes };
}

/* Tokens of a shard never fall; a program that does not count writes begins with a higher one. */
static bool is_earlier(const struct manifest_row *row, const struct manifest_row *other)
{
    if (row->token != other->token)
        return row->token < other->token;
    return row->writes < other->writes;
}

bool manifest_note(struct manifest *manifest, struct manifest_row row)
{
    size_t at = find_row(manifest, row.shard);
    bool known = at < manifest->count && manifest->rows[at].shard == row.shard;
    if (known && RULE(STATISTICS_GO_FORWARD) && is_earlier(&row, &manifest->rows[at]))
        return true;
    if (!known) {
        if (!make_room(manifest))
            return false;
        struct manifest_row *place = &manifest->rows[at];
        memmove(place + 1, place, (manifest->count - at) * sizeof row);
        manifest->count++;
    }
    manifest->rows[at] = row;
    return true;
}

static bool same_rows(const struct manifest_row *a, const struct manifest_row *b)
{
    return a->shard == b->shard && a->records == b->records && a->bytes == b->bytes &&
           a->token == b->token && a->writes == b->writes;
}

/* Notes all rows; *ret_changed says whether any came to differ. False without memory. */
static bool note_all(struct manifest *manifest, const struct manifest *noted, bool *ret_changed)
{
    *ret_changed = false;
    for (size_t i = 0; i < noted->count; i++) {
        const struct manifest_row *row = &noted->rows[i];
        size_t at = find_row(manifest, row->shard), count = manifest->count;
        struct manifest_row had = at < count ? manifest->rows[at] : (struct manifest_row){ 0 };
        if (!manifest_note(manifest, *row))
            return false;
        if (manifest->count > count || !same_rows(&had, &manifest->rows[at]))
            *ret_changed = true;
    }
    return true;
}

/* ---- The document -------------------------------------------------------------------- */

/* "a3":[records,bytes,token,writes] for each shard; older ones have the first two. False without
 * memory. */
static bool read_rows(struct json_reader *reader, unsigned digits, struct manifest *manifest)
{
    struct view name;
    for (json_enter_object(reader); json_next_member(reader, &name);) {
        uint64_t values[4] = { 0, 0, 0, 0 };
        struct manifest_row row;
        if (!shard_number(name, digits, &row.shard))
            json_fail(reader, "a row that is of no shard");
        size_t count = 0;
        for (json_enter_array(reader); json_next_element(reader); count++)
            json_take_u64(reader, UINT64_MAX, &values[count % 4]);
        if (count != 2 && count != 4)
            json_fail(reader, "a row that is neither two numbers nor four");
        row.records = values[0], row.bytes = values[1];
        row.token = values[2], row.writes = values[3];
        if (!reader->why && !manifest_note(manifest, row))
            return false;
    }
    return true;
}

static void read_time(struct json_reader *reader, struct wall_time *ret_time)
{
    struct view text;
    struct hf_error why;
    if (json_take_plain(reader, &text) && parse_time(text, ret_time, &why) != HF_OK)
        json_fail(reader, "a time that is none");
}

static enum hf_status decode(struct view text, unsigned digits, struct manifest *manifest,
                             struct hf_error *error)
{
    struct json_reader reader = json_read(text);
    struct view name, raw, format = VIEW("");
    bool rows = false;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format"))) {
            json_take_plain(&reader, &format);
        } else if (view_equal(name, VIEW("written_at"))) {
            read_time(&reader, &manifest->written_at);
        } else if (view_equal(name, VIEW("shards"))) {
            rows = true;
            if (!read_rows(&reader, digits, manifest))
                return error_no_memory(error);
        } else {
            json_skip(&reader, &raw);
        }
    }
    if (!json_end(&reader))
        return error_set(error, HF_CORRUPT, "%s", reader.why);
    if (!view_equal(format, VIEW(MANIFEST_FORMAT)) || !rows)
        return error_set(error, HF_CORRUPT, "it is not a manifest of the format %s",
                         MANIFEST_FORMAT);
    return HF_OK;
}

static bool encode(struct index *index, const struct manifest *manifest, struct buffer *text)
{
    char nonce[NONCE_SIZE + 1], at[TIME_TEXT_MAX];
    uint64_t records = 0, bytes = 0;
    for (size_t i = 0; i < manifest->count; i++) {
        records += manifest->rows[i].records;
        bytes += manifest->rows[i].bytes;
    }
    env_random_hex(index->env, NONCE_SIZE, nonce);
    buffer_print(text, "{\"format\":\"" MANIFEST_FORMAT "\",\"write\":\"%s\",", nonce);
    buffer_print(text,
                 "\"written_at\":\"%s\",\"records\":", time_text(env_wall(index->env), at));
    buffer_append_u64(text, records);
    buffer_append(text, VIEW(",\"bytes\":"));
    buffer_append_u64(text, bytes);
    buffer_append(text, VIEW(",\"shards\":{"));
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_row *row = &manifest->rows[i];
        struct shard_id shard = shard_of_number(row->shard, index->schema.digits);
        buffer_append(text, i > 0 ? VIEW(",\n\"") : VIEW("\n\""));
        buffer_append(text, view_of(shard.text));
        buffer_append(text, VIEW("\":["));
        buffer_append_u64(text, row->records);
        buffer_append_byte(text, ',');
        buffer_append_u64(text, row->bytes);
        buffer_append_byte(text, ',');
        buffer_append_u64(text, row->token);
        buffer_append_byte(text, ',');
        buffer_append_u64(text, row->writes);
        buffer_append_byte(text, ']');
    }
    return buffer_append(text, VIEW("}}\n"));
}

/* ---- Reading and writing ------------------------------------------------------------- */

/* *ret_etag is set whenever there is one, readable or not. */
static enum hf_status load(struct index *index, struct manifest *ret_manifest,
                           struct etag *ret_etag, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(MANIFEST_BYTES_MAX);
    struct manifest manifest = { 0 };
    check(index_key(index, key, LAYOUT_MANIFEST));
    struct get_call get = { .key = view_of(key), .body = &text };
    enum hf_status status = store_get(index->store, &get);
    *error = get.error;
    if (status == HF_OK)
        status = decode(buffer_view(&text), index->schema.digits, &manifest, error);
    else if (status == HF_INVALID)
        status = error_set(error, HF_CORRUPT, "it is too large to be a manifest");
    if (status != HF_OK)
        error_prefix(error, "%s", key);
    *ret_etag = get.info.etag;
    if (status == HF_OK)
        *ret_manifest = manifest;
    else
        manifest_release(&manifest);
    buffer_release(&text);
    return status;
}

enum hf_status manifest_read(struct index *index, struct manifest *ret_manifest,
                             struct hf_error *error)
{
    struct etag etag;
    return load(index, ret_manifest, &etag, error);
}

static enum hf_status swap(struct index *index, const struct manifest *manifest,
                           const struct etag *etag, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(MANIFEST_BYTES_MAX);
    check(index_key(index, key, LAYOUT_MANIFEST));
    struct put_call put = { .key = view_of(key),
                            .condition = etag->size > 0 ? if_match(etag) : if_absent(),
                            .quiet = true };
    enum hf_status status = HF_OK;
    if (encode(index, manifest, &text)) {
        put.body = buffer_view(&text);
        status = store_put(index->store, &put);
        *error = put.error;
    } else {
        status = error_no_memory(error);
    }
    buffer_release(&text);
    return status;
}

static enum hf_status write_once(struct index *index, const struct manifest *noted,
                                 struct hf_error *error)
{
    struct manifest manifest = { 0 };
    struct etag etag = { 0 };
    bool changed;
    enum hf_status status = load(index, &manifest, &etag, error);
    if (status != HF_OK && status != HF_NOT_FOUND && status != HF_CORRUPT)
        return status;
    if (!note_all(&manifest, noted, &changed))
        status = error_no_memory(error);
    else
        status = changed ? swap(index, &manifest, &etag, error) : error_clear(error);
    manifest_release(&manifest);
    return status;
}

enum hf_status manifest_write(struct index *index, const struct manifest *noted,
                              struct hf_error *error)
{
    enum hf_status status = HF_CONFLICT;
    if (noted->count == 0)
        return error_clear(error);
    for (int tries = 0; tries < MANIFEST_TRIES_MAX; tries++) {
        status = write_once(index, noted, error);
        if (status != HF_CONFLICT && status != HF_UNSURE && status != HF_NOT_FOUND)
            break;
    }
    return status;
}
