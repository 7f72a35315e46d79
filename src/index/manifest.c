/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c: reads, writes and swaps the manifest of an index. The manifest contains only
 * statistics, but a slow writer must not replace newer numbers with older ones. */
#include "index/manifest.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/evidence.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/rule.h"

#include <stdlib.h>

#define ROWS_AT_FIRST     ((size_t)16)
#define UNKNOWN_BYTES_MAX (64 * KIB)

/* ---- Rows ---------------------------------------------------------------------------- */

void manifest_release(struct manifest *manifest)
{
    free(manifest->rows);
    buffer_release(&manifest->unknown);
    *manifest = (struct manifest){ 0 };
}

/* The index of a shard's row, or the index at which to insert it. Rows usually arrive in order. */
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

static bool reserve_row(struct manifest *manifest)
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
                                  .deletions = report->deletions,
                                  .token = report->token,
                                  .writes = report->writes };
}

/* The token of a shard never decreases. A program that does not count writes sets the count back,
 * but it writes with a higher token, so its row still counts as later. */
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
    if (RULE(STATISTICS_GO_FORWARD) && known && is_earlier(&row, &manifest->rows[at]))
        return true;
    if (!known) {
        if (!reserve_row(manifest))
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
           a->deletions == b->deletions && a->token == b->token && a->writes == b->writes;
}

/* Notes all rows. *ret_changed: some row differs now. False if out of memory. */
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

/* Reads "a3":[records,bytes,token,writes] for each shard. Older manifests have only the first two
 * numbers. False if out of memory. */
static bool read_rows(struct json_reader *reader, struct manifest *manifest)
{
    struct view name;
    for (json_enter_object(reader); json_next_member(reader, &name);) {
        uint64_t values[4] = { 0, 0, 0, 0 };
        struct manifest_row row = { .shard = 0 };
        if (manifest->digits == 0)
            manifest->digits = (unsigned)name.size;
        if (!shard_number(name, manifest->digits, &row.shard))
            json_fail(reader, "a row for a shard that does not exist");
        size_t count = 0;
        for (json_enter_array(reader); json_next_element(reader); count++)
            json_take_u64(reader, UINT64_MAX, &values[count % 4]);
        if (count != 2 && count != 4)
            json_fail(reader, "a row must have two or four numbers");
        row.records = values[0], row.bytes = values[1];
        row.token = values[2], row.writes = values[3];
        if (!reader->why && !manifest_note(manifest, row))
            return false;
    }
    return true;
}

/* Reads "a3":2, the deletions of shards that have some. A program that does not know deletions
 * drops this member, and the next compile of the shard writes it again. */
static void read_deletions(struct json_reader *reader, struct manifest *manifest)
{
    struct view name;
    for (json_enter_object(reader); json_next_member(reader, &name);) {
        uint64_t count = 0;
        size_t shard = 0;
        json_take_u64(reader, UINT64_MAX, &count);
        if (!shard_number(name, manifest->digits, &shard))
            json_fail(reader, "a row for a shard that does not exist");
        size_t at = find_row(manifest, shard);
        if (at < manifest->count && manifest->rows[at].shard == shard)
            manifest->rows[at].deletions = count;
    }
}

/* Members that are computed when the manifest is written. */
static bool is_derived(struct view name)
{
    return view_equal(name, VIEW("write")) || view_equal(name, VIEW("records")) ||
           view_equal(name, VIEW("bytes"));
}

static enum hf_status read_manifest(struct view text, struct manifest *manifest,
                                    struct hf_error *error)
{
    struct json_reader reader = json_read(text);
    struct view name, raw, format = VIEW("");
    struct hf_error why;
    bool rows = false;
    manifest->unknown = BUFFER_INIT(UNKNOWN_BYTES_MAX);
    if (checksum_check(text) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT, CHECKSUM_MISTAKE);
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format"))) {
            json_take_plain(&reader, &format);
        } else if (view_equal(name, VIEW("written_at"))) {
            if (json_take_plain(&reader, &raw) &&
                parse_time(raw, &manifest->written_at, &why) != HF_OK)
                json_fail(&reader, "invalid time");
        } else if (view_equal(name, VIEW("shards"))) {
            rows = true;
            if (!read_rows(&reader, manifest))
                return error_no_memory(error);
        } else if (view_equal(name, VIEW("deletions")) && rows) {
            read_deletions(&reader, manifest);
        } else if (view_equal(name, VIEW("deletions")) || is_derived(name)) {
            json_skip(&reader, &raw);
        } else {
            json_keep_member(&reader, name, &manifest->unknown);
        }
    }
    if (!json_end(&reader))
        return error_set(error, HF_CORRUPT, "%s", reader.why);
    if (!view_equal(format, VIEW(MANIFEST_FORMAT)) || !rows)
        return error_set(error, HF_CORRUPT, "not a manifest of format %s", MANIFEST_FORMAT);
    return HF_OK;
}

/* Writes the deletions of the shards that have some, after the rows. */
static void write_deletion_counts(const struct manifest *manifest, struct buffer *text)
{
    bool any = false;
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_row *row = &manifest->rows[i];
        if (row->deletions == 0)
            continue;
        buffer_append(text, any ? VIEW(",\"") : VIEW(",\"deletions\":{\""));
        buffer_append(text, view_of(shard_of_number(row->shard, manifest->digits).text));
        buffer_append(text, VIEW("\":"));
        buffer_append_u64(text, row->deletions);
        any = true;
    }
    if (any)
        buffer_append_byte(text, '}');
}

static bool manifest_encode(const void *body, struct view nonce, struct buffer *text)
{
    const struct manifest *manifest = body;
    char at[TIME_TEXT_MAX];
    uint64_t records = 0, bytes = 0;
    for (size_t i = 0; i < manifest->count; i++) {
        records += manifest->rows[i].records;
        bytes += manifest->rows[i].bytes;
    }
    buffer_append(text, VIEW("{\"format\":\"" MANIFEST_FORMAT "\",\"write\":"));
    checksum_append_write(text, nonce);
    buffer_print(text,
                 ",\"written_at\":\"%s\",\"records\":", time_text(manifest->written_at, at));
    buffer_append_u64(text, records);
    buffer_append(text, VIEW(",\"bytes\":"));
    buffer_append_u64(text, bytes);
    buffer_append(text, VIEW(",\"shards\":{"));
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_row *row = &manifest->rows[i];
        struct shard_id shard = shard_of_number(row->shard, manifest->digits);
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
    buffer_append_byte(text, '}');
    write_deletion_counts(manifest, text);
    buffer_append(text, buffer_view(&manifest->unknown));
    buffer_append(text, VIEW("}\n"));
    return checksum_finish(text);
}

/* ---- Reading and writing ------------------------------------------------------------- */

enum hf_status manifest_read(struct index *index, struct manifest *ret_manifest,
                             struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(MANIFEST_BYTES_MAX);
    struct manifest manifest = { 0 };
    check(index_key(index, key, LAYOUT_MANIFEST));
    struct get_call get = { .key = view_of(key), .body = &text };
    enum hf_status status = store_get(index->store, &get);
    *error = get.error;
    if (status == HF_OK)
        status = read_manifest(buffer_view(&text), &manifest, error);
    else if (status == HF_INVALID)
        status = error_set(error, HF_CORRUPT, "too large for a manifest");
    if (status == HF_OK && manifest.count > 0 && manifest.digits != index->schema.digits)
        status = error_set(error, HF_CORRUPT, "a row for a shard that does not exist");
    if (status != HF_OK)
        error_prefix(error, "%s", key);
    if (status == HF_OK)
        *ret_manifest = manifest;
    else
        manifest_release(&manifest);
    buffer_release(&text);
    return status;
}

static void *manifest_birth(void *context)
{
    (void)context;
    return calloc(1, sizeof(struct manifest));
}

static void manifest_free(void *body)
{
    manifest_release(body);
    free(body);
}

static enum hf_status manifest_decode(struct view bytes, struct mono_time arrived,
                                      const void *previous, void **ret_body,
                                      struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    struct manifest *manifest = manifest_birth(NULL);
    enum hf_status status =
        manifest ? read_manifest(bytes, manifest, error) : error_no_memory(error);
    if (status == HF_OK)
        *ret_body = manifest;
    else if (manifest)
        manifest_free(manifest);
    return status;
}

/* Replaces an unreadable manifest. The lost rows are written again when their shards are
 * compiled. */
static enum hf_status manifest_rescue(void *context, struct view key, struct view bytes,
                                      struct mono_time deadline, void **ret_body,
                                      struct hf_error *error)
{
    (void)key;
    (void)bytes;
    (void)deadline;
    *ret_body = manifest_birth(context);
    return *ret_body ? HF_OK : error_no_memory(error);
}

static const struct doc_type manifest_type = { .bytes_max = MANIFEST_BYTES_MAX,
                                               .decode = manifest_decode,
                                               .birth = manifest_birth,
                                               .rescue = manifest_rescue,
                                               .encode = manifest_encode,
                                               .free = manifest_free };

struct noting {
    struct doc_op op;
    const struct manifest *noted;
    unsigned digits;
};

static enum hf_status apply_rows(struct doc_op *op, void *body, const struct evidence *evidence)
{
    struct noting *noting = (struct noting *)(void *)op;
    struct manifest *manifest = body;
    if (manifest->digits != noting->digits) /* from an earlier index of this name */
        manifest->count = 0;
    manifest->digits = noting->digits;
    manifest->written_at = evidence->wall;
    return note_all(manifest, noting->noted, &op->changed) ? HF_OK
                                                           : error_no_memory(&op->error);
}

enum hf_status manifest_write(struct index *index, const struct manifest *noted,
                              struct hf_error *error)
{
    struct noting noting = { .op = { .apply = apply_rows, .quiet = true },
                             .noted = noted,
                             .digits = index->schema.digits };
    if (noted->count == 0)
        return error_clear(error);
    return index_change(index, LAYOUT_MANIFEST, &manifest_type, &noting.op, error);
}
