/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.c: reads ranges of a shard. Whole blocks are checked before any record is returned, and
 * all reads are conditional on one ETag, so a reader never mixes two versions. */
#include "index/cursor.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/rule.h"
#include "index/adopt.h"

#include <inttypes.h>

/* How many times to open a shard that is being replaced. */
#define OPEN_TRIES_MAX 4

#define WINDOW_MAX (SHARD_LINE_MAX + SHARD_BLOCK_MAX)

static_assert(SHARD_READ_LARGE <= WINDOW_MAX, "the first read fits");

/* Adds the shard's name to the error. */
static enum hf_status name_shard(const struct shard_cursor *cursor, struct hf_error *error)
{
    error_prefix(error, "%s", cursor->object);
    return error->status;
}

static enum hf_status shard_corrupt(const struct shard_cursor *cursor, const char *why,
                                    struct hf_error *error)
{
    error_set(error, HF_CORRUPT, "%s", why);
    return name_shard(cursor, error);
}

/* Appends a whole range of the opened version to the window. */
static enum hf_status read_shard_range(struct shard_cursor *cursor, uint64_t at, uint64_t size,
                                       struct hf_error *error)
{
    size_t before = cursor->window.size;
    struct get_call get = {
        .key = view_of(cursor->object), .offset = at, .length = size, .body = &cursor->window
    };
    if (RULE(ONE_VERSION_OF_A_SHARD))
        get.match = cursor->etag;
    if (!buffer_reserve(&cursor->window, size))
        return error_no_memory(error);
    enum hf_status status = store_get(cursor->index->store, &get);
    *error = get.error;
    if (status == HF_NOT_FOUND)
        status = error_set(error, HF_CONFLICT, "it is gone");
    if (status != HF_OK)
        return name_shard(cursor, error);
    if (cursor->window.size - before != size)
        return shard_corrupt(cursor, "the object ends before its last block", error);
    return HF_OK;
}

/* ---- Opening ------------------------------------------------------------------------- */

static enum hf_status check_shard_schema(struct shard_cursor *cursor,
                                         const struct shard_head *head, struct hf_error *error)
{
    struct index *index = cursor->index;
    enum hf_status status =
        schema_check_version(&index->schema, head->version, head->schema_hash, error);
    bool deletions_unknown = head->deleted > 0 && !index->schema.deletes;
    if (status != HF_UNSUPPORTED && !(status == HF_OK && deletions_unknown))
        return status;
    status = index_refresh(index, error);
    if (status == HF_OK)
        status = schema_check_version(&index->schema, head->version, head->schema_hash, error);
    if (status == HF_OK && head->deleted > 0 && !index->schema.deletes)
        status = error_set(error, HF_CORRUPT, "it has deletions, and the index has none");
    return status;
}

static bool blocks_are_whole(const struct shard_cursor *cursor, size_t first, size_t behind)
{
    struct view rest = cursor->loaded;
    for (size_t i = first; i < behind; i++) {
        const struct shard_block *block = &cursor->head.blocks[i];
        struct view bytes = view_first(rest, (size_t)block->size);
        if (crc32c(0, bytes) != block->crc32c || bytes.data[bytes.size - 1] != '\n')
            return false;
        rest = view_from(rest, bytes.size);
    }
    return true;
}

/* Uses the bytes of the window, starting at `at`, as the blocks from `first` up to but not
 * including `behind`. */
static enum hf_status use_blocks(struct shard_cursor *cursor, size_t at, size_t first,
                                 size_t behind, struct hf_error *error)
{
    cursor->loaded = view_from(buffer_view(&cursor->window), at);
    cursor->loaded_at = first < behind ? cursor->head.blocks[first].at : 0;
    if (!blocks_are_whole(cursor, first, behind)) {
        cursor->loaded = VIEW("");
        return shard_corrupt(cursor, "a block is damaged: its checksum is wrong", error);
    }
    cursor->rest = cursor->loaded;
    cursor->next_block = behind;
    return HF_OK;
}

/* Keeps the blocks that the first request returned completely. */
static enum hf_status keep_first_blocks(struct shard_cursor *cursor, struct hf_error *error)
{
    const struct shard_head *head = &cursor->head;
    uint64_t came = cursor->window.size - head->line_size, size = 0;
    size_t count = 0;
    while (count < head->block_count && size + head->blocks[count].size <= came)
        size += head->blocks[count++].size;
    cursor->window.size = (size_t)(head->line_size + size);
    return use_blocks(cursor, (size_t)head->line_size, 0, count, error);
}

/* Adopts an object of bare records. Its records may have fields that were added to the schema after
 * we read it, so the schema is read again before they are refused. */
static enum hf_status adopt_object(struct shard_cursor *cursor, struct view text,
                                   struct hf_error *error)
{
    struct index *index = cursor->index;
    enum hf_status status = shard_adopt(cursor, text, error);
    if (status == HF_CORRUPT) {
        struct etag known = index->etag;
        struct hf_error why = *error;
        if (index_refresh(index, error) != HF_OK)
            return error->status;
        *error = why;
        if (!etag_equal(&known, &index->etag)) {
            shard_head_release(&cursor->head);
            status = shard_adopt(cursor, text, error);
        }
    }
    cursor->bare = status == HF_OK;
    return status == HF_OK ? HF_OK : name_shard(cursor, error);
}

/* Reads the rest of an object that does not start like a shard, which may consist of bare
 * records. */
static enum hf_status read_bare(struct shard_cursor *cursor, uint64_t object_size,
                                struct hf_error *error)
{
    if (object_size > ADOPT_BYTES_MAX)
        return shard_corrupt(cursor,
                             "it does not start like a shard, and is too large to be read "
                             "as bare records",
                             error);
    if (cursor->window.size == object_size)
        return adopt_object(cursor, buffer_view(&cursor->window), error);
    struct buffer text = BUFFER_INIT(ADOPT_BYTES_MAX);
    struct get_call get = { .key = view_of(cursor->object),
                            .match = cursor->etag,
                            .body = &text };
    enum hf_status status = store_get(cursor->index->store, &get);
    if (status == HF_OK) {
        status = adopt_object(cursor, buffer_view(&text), error);
    } else {
        *error = get.error;
        if (status == HF_NOT_FOUND)
            error_set(error, HF_CONFLICT, "it is gone");
        status = name_shard(cursor, error);
    }
    buffer_release(&text);
    return status;
}

static enum hf_status read_head(struct shard_cursor *cursor, uint64_t object_size,
                                struct hf_error *error)
{
    uint64_t size;
    enum hf_status start = shard_line_size(buffer_view(&cursor->window), &size, error);
    bool ours = view_starts_with(buffer_view(&cursor->window), VIEW("{\"format\":\"holdfast."));
    if (start == HF_CORRUPT && !ours && cursor->index->schema.foreign)
        return read_bare(cursor, object_size, error);
    if (start != HF_OK)
        return name_shard(cursor, error);
    if (size > object_size)
        return shard_corrupt(cursor, "the object ends within its header line", error);
    uint64_t came = cursor->window.size;
    if (came < size && read_shard_range(cursor, came, size - came, error) != HF_OK)
        return error->status;
    struct view line = view_first(buffer_view(&cursor->window), (size_t)size);
    if (shard_head_read(line, &cursor->head, error) != HF_OK)
        return name_shard(cursor, error);
    if (object_size - size != cursor->head.size) {
        error_set(error, HF_CORRUPT,
                  "%" PRIu64 " bytes follow its header line, which records %" PRIu64,
                  object_size - size, cursor->head.size);
        return name_shard(cursor, error);
    }
    return check_shard_schema(cursor, &cursor->head, error) == HF_OK
               ? HF_OK
               : name_shard(cursor, error);
}

/* ---- Plain shards -------------------------------------------------------------------- */

/* Opens the version of the shard that the sidecar describes. CONFLICT: it is gone. */
static enum hf_status open_by_sidecar(struct shard_cursor *cursor, uint64_t first,
                                      struct hf_error *error)
{
    struct shard_head *described = &cursor->sidecar.head;
    struct get_call get = { .key = view_of(cursor->object),
                            .length = first,
                            .body = &cursor->window };
    if (RULE(SIDECAR_BY_ITS_ETAG))
        get.match = described->of;
    enum hf_status status = store_get(cursor->index->store, &get);
    *error = get.error;
    if (status == HF_NOT_FOUND)
        status = error_set(error, HF_CONFLICT, "it is gone");
    if (status != HF_OK)
        return name_shard(cursor, error);
    if (get.info.size != described->size)
        return shard_corrupt(cursor, "its sidecar describes another size", error);
    cursor->exists = true;
    cursor->etag = get.info.etag;
    cursor->head = *described;
    cursor->head.line_size = 0;
    described->arena = ARENA_INIT; /* the cursor has the blocks now */
    described->blocks = NULL;
    described->block_count = 0;
    return keep_first_blocks(cursor, error);
}

/* Whether the sidecar is still the one that was read before the shard. */
static enum hf_status check_sidecar_unchanged(const struct shard_cursor *cursor,
                                              struct hf_error *error)
{
    const struct sidecar *before = &cursor->sidecar;
    struct sidecar now;
    enum hf_status status = sidecar_read(cursor->index, cursor->shard,
                                         before->exists ? &before->etag : NULL, &now, error);
    if (status == HF_NOT_MODIFIED)
        return error_clear(error);
    if (status != HF_OK)
        return status;
    bool same = !before->exists && !now.exists;
    sidecar_release(&now);
    return same ? HF_OK
                : error_set(error, HF_CONFLICT, "%s: its sidecar has changed", cursor->object);
}

/* Reads a plain shard of any version, and merges it with the deletions of its sidecar. */
static enum hf_status open_whole(struct shard_cursor *cursor, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(ADOPT_BYTES_MAX);
    struct get_call get = { .key = view_of(cursor->object), .body = &text };
    enum hf_status status = store_get(cursor->index->store, &get);
    *error = get.error;
    cursor->etag = get.info.etag;
    if (status == HF_NOT_FOUND) {
        cursor->etag = (struct etag){ 0 };
        status = HF_OK;
    } else if (status == HF_INVALID) {
        status = error_set(error, HF_CORRUPT, "it is too large to be read as bare records");
    }
    if (status != HF_OK)
        status = name_shard(cursor, error);
    else
        status = check_sidecar_unchanged(cursor, error);
    cursor->exists = cursor->etag.size > 0 || cursor->sidecar.exists;
    if (status == HF_OK && cursor->exists)
        status = adopt_object(cursor, buffer_view(&text), error);
    buffer_release(&text);
    return status;
}

static enum hf_status open_plain(struct shard_cursor *cursor, uint64_t first,
                                 struct hf_error *error)
{
    struct sidecar *sidecar = &cursor->sidecar;
    cursor->opened = env_now(cursor->index->env);
    sidecar_release(sidecar);
    enum hf_status status =
        sidecar_read(cursor->index, cursor->shard, /* known */ NULL, sidecar, error);
    if (status == HF_OK && sidecar->exists &&
        check_shard_schema(cursor, &sidecar->head, error) != HF_OK)
        status = name_shard(cursor, error);
    if (status != HF_OK)
        return status;
    status = HF_CONFLICT;
    if (sidecar->head.of.size > 0 && sidecar->head.size > 0 && sidecar->deletions.size == 0)
        status = open_by_sidecar(cursor, first, error);
    if (status != HF_CONFLICT)
        return status;
    buffer_clear(&cursor->window);
    return open_whole(cursor, error);
}

/* ---- Opening, continued --------------------------------------------------------------- */

/* Uses the reply to the first request, whose bytes are in the window. */
static enum hf_status use_first_reply(struct shard_cursor *cursor, const struct get_call *get,
                                      struct hf_error *error)
{
    enum hf_status status = get->error.status;
    cursor->exists = false;
    if (status == HF_NOT_FOUND)
        return error_clear(error);
    *error = get->error;
    if (status == HF_INVALID) /* network stores refuse a range of an empty object */
        return shard_corrupt(cursor, "it is empty", error);
    if (status != HF_OK)
        return name_shard(cursor, error);
    cursor->exists = true;
    cursor->etag = get->info.etag;
    status = read_head(cursor, get->info.size, error);
    return status == HF_OK && !cursor->bare ? keep_first_blocks(cursor, error) : status;
}

static enum hf_status open_once(struct shard_cursor *cursor, uint64_t first,
                                struct hf_error *error)
{
    shard_head_release(&cursor->head);
    buffer_clear(&cursor->window);
    cursor->bare = false;
    if (cursor->index->schema.plain)
        return open_plain(cursor, first, error);
    struct get_call get = { .key = view_of(cursor->object),
                            .length = first,
                            .body = &cursor->window };
    if (!buffer_reserve(&cursor->window, first))
        return error_no_memory(error);
    store_get(cursor->index->store, &get);
    return use_first_reply(cursor, &get, error);
}

/* Makes a cursor that is open show the current version. If that is the one it has, the reply is
 * empty. Otherwise it is the beginning of the new version, as in open_once. */
static enum hf_status bring_up_to_date(struct shard_cursor *cursor, struct hf_error *error)
{
    struct buffer fresh = BUFFER_INIT(WINDOW_MAX);
    struct get_call get = { .key = view_of(cursor->object),
                            .none_match = cursor->etag,
                            .length = SHARD_READ_SMALL,
                            .body = &fresh };
    if (store_get(cursor->index->store, &get) == HF_NOT_MODIFIED) {
        buffer_release(&fresh);
        return error_clear(error);
    }
    shard_head_release(&cursor->head);
    buffer_release(&cursor->window);
    cursor->window = fresh;
    cursor->rest = cursor->loaded = VIEW("");
    cursor->next_block = 0;
    cursor->bare = false;
    return use_first_reply(cursor, &get, error);
}

enum hf_status shard_cursor_open(struct shard_cursor *cursor, struct index *index,
                                 struct shard_id shard, uint64_t first, struct hf_error *error)
{
    *cursor = (struct shard_cursor){
        .index = index,
        .shard = shard,
        .window = BUFFER_INIT(WINDOW_MAX),
        .window_max = first < SHARD_READ_LARGE ? SHARD_BLOCK : SHARD_READ_LARGE,
        .wanted = BUFFER_INIT(INDEX_KEY_BYTES_MAX + 1),
        .last_key = BUFFER_INIT(INDEX_KEY_BYTES_MAX),
        .key_space = BUFFER_INIT(INDEX_KEY_BYTES_MAX),
    };
    check(first >= SHARD_PROLOGUE && first <= SHARD_READ_LARGE);
    check(index_key(index, cursor->object, LAYOUT_SHARD_FOLDER "%s" LAYOUT_SHARD, shard.text));
    bool has_room = buffer_reserve(&cursor->wanted, cursor->wanted.max) &&
                    buffer_reserve(&cursor->last_key, cursor->last_key.max) &&
                    buffer_reserve(&cursor->key_space, cursor->key_space.max);
    enum hf_status status = has_room ? HF_CONFLICT : error_no_memory(error);
    int tries = 0;
    while (status == HF_CONFLICT && tries++ < OPEN_TRIES_MAX)
        status = open_once(cursor, first, error);
    if (status != HF_OK)
        shard_cursor_close(cursor);
    return status;
}

void shard_cursor_close(struct shard_cursor *cursor)
{
    shard_head_release(&cursor->head);
    sidecar_release(&cursor->sidecar);
    buffer_release(&cursor->window);
    buffer_release(&cursor->wanted);
    buffer_release(&cursor->last_key);
    buffer_release(&cursor->key_space);
    cursor->rest = cursor->loaded = VIEW("");
    cursor->next_block = 0;
    cursor->exists = false;
}

/* ---- Moving -------------------------------------------------------------------------- */

static bool is_loaded(const struct shard_cursor *cursor, const struct shard_block *block)
{
    return block->at >= cursor->loaded_at &&
           block->at + block->size <= cursor->loaded_at + cursor->loaded.size;
}

static void go_to_block(struct shard_cursor *cursor, size_t number)
{
    const struct shard_block *block = &cursor->head.blocks[number];
    if (is_loaded(cursor, block)) {
        cursor->rest = view_from(cursor->loaded, (size_t)(block->at - cursor->loaded_at));
        return;
    }
    cursor->rest = cursor->loaded = VIEW("");
    cursor->next_block = number;
}

void shard_cursor_seek(struct shard_cursor *cursor, struct view key, bool beyond)
{
    if (!cursor->exists)
        return;
    /* If a string is cut one byte after the maximum length of a key, it still compares with every
     * key like the whole string. */
    buffer_clear(&cursor->wanted);
    check(buffer_append(&cursor->wanted, view_first(key, cursor->wanted.max)));
    buffer_clear(&cursor->last_key);
    cursor->seeking = true;
    cursor->beyond = beyond;
    if (cursor->head.block_count > 0)
        go_to_block(cursor, shard_find_block(&cursor->head, buffer_view(&cursor->wanted)));
}

/* Reads the next block, or several small ones. Sequential reads become larger. */
static enum hf_status load_blocks(struct shard_cursor *cursor, struct hf_error *error)
{
    const struct shard_head *head = &cursor->head;
    size_t first = cursor->next_block, behind = first;
    uint64_t size = 0;
    do
        size += head->blocks[behind++].size;
    while (behind < head->block_count &&
           size + head->blocks[behind].size <= cursor->window_max);
    cursor->rest = cursor->loaded = VIEW("");
    buffer_clear(&cursor->window);
    if (read_shard_range(cursor, head->line_size + head->blocks[first].at, size, error) !=
        HF_OK)
        return error->status;
    if (cursor->window_max < SHARD_READ_LARGE)
        cursor->window_max *= 2;
    return use_blocks(cursor, 0, first, behind, error);
}

/* The key of a record as written in the shard. */
static bool read_record_key(struct shard_cursor *cursor, struct view bytes,
                            struct view *ret_key)
{
    const struct schema *schema = &cursor->index->schema;
    struct view field = VIEW("");
    bool more = true;
    size_t fields = 0;
    if (view_starts_with(bytes, VIEW(RECORD_DELETED)))
        bytes = view_from(bytes, strlen(RECORD_DELETED));
    while (fields <= schema->key && more) {
        field = field_cut(&bytes, &more);
        fields++;
    }
    *ret_key = field;
    if (memchr(field.data, '\x1b', field.size)) {
        buffer_clear(&cursor->key_space);
        if (!field_read(&cursor->key_space, field))
            return false;
        *ret_key = buffer_view(&cursor->key_space);
    }
    return fields > schema->key && ret_key->size > 0 && ret_key->size <= INDEX_KEY_BYTES_MAX;
}

/* Takes the next record from the loaded bytes, which must not be empty. */
static enum hf_status cut_record(struct shard_cursor *cursor, struct record *ret_record,
                                 struct hf_error *error)
{
    struct view bytes = view_cut(&cursor->rest, '\n'), key;
    if (!read_record_key(cursor, bytes, &key))
        return shard_corrupt(cursor, "a record has no key, or an invalid one", error);
    if (view_compare(buffer_view(&cursor->last_key), key) >= 0)
        return shard_corrupt(cursor, "the records are not in key order", error);
    buffer_clear(&cursor->last_key);
    check(buffer_append(&cursor->last_key, key));
    *ret_record = (struct record){ .bytes = bytes,
                                   .key = key,
                                   .deleted = view_starts_with(bytes, VIEW(RECORD_DELETED)) };
    return HF_OK;
}

static bool reached_wanted(struct shard_cursor *cursor, struct view key)
{
    if (!cursor->seeking)
        return true;
    int order = view_compare(key, buffer_view(&cursor->wanted));
    cursor->seeking = order < 0 || (order == 0 && cursor->beyond);
    return !cursor->seeking;
}

static enum hf_status no_further_record(struct hf_error *error)
{
    return error_set(error, HF_NOT_FOUND, "there are no more records");
}

enum hf_status shard_cursor_step(struct shard_cursor *cursor, struct record *ret_record,
                                 struct hf_error *error)
{
    enum hf_status status = HF_OK;
    do {
        if (cursor->rest.size == 0) {
            if (cursor->next_block == cursor->head.block_count)
                return no_further_record(error);
            status = load_blocks(cursor, error);
        }
        if (status == HF_OK)
            status = cut_record(cursor, ret_record, error);
    } while (status == HF_OK && !reached_wanted(cursor, ret_record->key));
    return status;
}

/* Parses the whole record, including its time. */
static enum hf_status read_whole(struct shard_cursor *cursor, struct record *record,
                                 struct hf_error *error)
{
    enum hf_status status =
        record_read_stored(&cursor->index->schema, record->bytes, &cursor->key_space, record,
                           /* ret_too_many_fields */ NULL, error);
    if (status == HF_INVALID) {
        error->status = HF_CORRUPT;
        error_prefix(error, "unreadable record");
        return name_shard(cursor, error);
    }
    return status;
}

enum hf_status shard_cursor_next(struct shard_cursor *cursor, struct record *ret_record,
                                 struct hf_error *error)
{
    enum hf_status status = shard_cursor_step(cursor, ret_record, error);
    return status == HF_OK ? read_whole(cursor, ret_record, error) : status;
}

/* So few bytes are read record by record. */
#define NARROW_BYTES 512

/* Skips records before this key, by bisection within its block, which is loaded. A record begins
 * after each LF, because every LF in a value is escaped. Records that are out of order only
 * make it stop elsewhere; what is read from there on is checked as usual. */
static void skip_by_bisection(struct shard_cursor *cursor, struct view key)
{
    struct view all = cursor->rest;
    size_t low = 0; /* where a record begins whose key is not greater than this one, or 0 */
    size_t high = cursor->head.blocks[shard_find_block(&cursor->head, key)].size;
    while (high - low > NARROW_BYTES) {
        size_t middle = low + (high - low) / 2;
        const char *end = memchr(all.data + middle, '\n', high - middle);
        size_t start = end ? (size_t)(end - all.data) + 1 : high;
        struct view rest = view_from(all, start), found;
        if (start < high && !read_record_key(cursor, view_cut(&rest, '\n'), &found))
            break; /* it is reported when it is read */
        if (start < high && view_compare(found, key) <= 0)
            low = start;
        else
            high = middle;
    }
    cursor->rest = view_from(all, low);
}

enum hf_status shard_cursor_find(struct shard_cursor *cursor, struct view key,
                                 struct record *ret_record, struct hf_error *error)
{
    shard_cursor_seek(cursor, key, /* beyond */ false);
    if (cursor->head.block_count == 0 ||
        view_compare(key, cursor->head.blocks[0].first_key) < 0)
        return no_further_record(error);
    enum hf_status status = cursor->rest.size > 0 ? HF_OK : load_blocks(cursor, error);
    if (status == HF_OK)
        skip_by_bisection(cursor, key);
    while (status == HF_OK && cursor->seeking && cursor->rest.size > 0) {
        status = cut_record(cursor, ret_record, error);
        if (status == HF_OK)
            reached_wanted(cursor, ret_record->key);
    }
    if (status != HF_OK)
        return status;
    if (cursor->seeking || !view_equal(ret_record->key, key))
        return no_further_record(error);
    return read_whole(cursor, ret_record, error);
}

/* Whether a find of this key will read a block. */
static bool find_will_read(const struct shard_cursor *cursor, struct view key)
{
    const struct shard_head *head = &cursor->head;
    if (head->block_count == 0 || view_compare(key, head->blocks[0].first_key) < 0)
        return false;
    const struct shard_block *block = &head->blocks[shard_find_block(head, key)];
    return !is_loaded(cursor, block);
}

enum hf_status shard_cursor_find_again(struct shard_cursor *cursor, struct view key,
                                       struct record *ret_record, struct hf_error *error)
{
    check(cursor->exists && !cursor->bare && !cursor->index->schema.plain);
    /* Another task may have read the shard with a later schema than ours. */
    enum hf_status status = check_shard_schema(cursor, &cursor->head, error);
    if (status != HF_OK)
        return name_shard(cursor, error);
    /* A block is read on condition of the ETag, which is a check in itself. */
    if (RULE(KEPT_SHARD_IS_CHECKED) && !find_will_read(cursor, key))
        status = bring_up_to_date(cursor, error);
    cursor->window_max = SHARD_BLOCK;
    return status == HF_OK ? shard_cursor_find(cursor, key, ret_record, error) : status;
}

/* Memory that is not worth a copy. */
#define TRIM_SLACK (4 * KIB)

bool shard_cursor_trim(struct shard_cursor *cursor)
{
    struct buffer exact = BUFFER_INIT(WINDOW_MAX);
    if (!cursor->exists || cursor->bare || cursor->index->schema.plain)
        return false;
    if (cursor->window.capacity <= cursor->loaded.size + TRIM_SLACK)
        return true;
    if (!buffer_append(&exact, cursor->loaded))
        return false;
    buffer_release(&cursor->window);
    cursor->window = exact;
    cursor->loaded = buffer_view(&cursor->window);
    cursor->rest = VIEW("");
    return true;
}

bool shard_hides(const struct shard_cursor *cursor, const struct record *record)
{
    return RULE(READERS_OBEY_THE_FLOOR) && cursor->exists && cursor->head.has_floor &&
           instant_compare(record->time, cursor->head.floor) <= 0;
}
