/* fold.c: the merge of a shard with new records, and the swap, whose outcome must be known before
 * anybody clears away what was folded. README.md has the rules. */
#include "index/fold.h"

#include "base/check.h"
#include "base/rule.h"

#include <inttypes.h>
#include <stdlib.h>

/* Puts without an answer, and the pause behind the first of them. */
#define PUT_TRIES_MAX   4
#define PUT_PAUSE_FIRST SPAN_MS(50)

struct fold {
    struct index *index;
    struct shard_cursor cursor; /* the shard as it is */
    struct shard_writer writer; /* as it will be */
    struct buffer line;
    struct buffer key_space;
    struct fold_report report;
};

static void fold_release(struct fold *fold)
{
    shard_cursor_close(&fold->cursor);
    shard_writer_release(&fold->writer);
    buffer_release(&fold->line);
    buffer_release(&fold->key_space);
}

/* ---- Merging ------------------------------------------------------------------------- */

static int compare_keys(const void *left, const void *right)
{
    const struct record *a = left, *b = right;
    int order = view_compare(a->key, b->key);
    return order != 0 ? order : view_compare(a->bytes, b->bytes);
}

/* The latest of the records with the key of the first; *ret_behind is the first with another. */
static const struct record *latest_of(struct fold *fold, const struct record *records,
                                      size_t first, size_t count, size_t *ret_behind)
{
    const struct record *latest = &records[first];
    size_t behind = first + 1;
    for (; behind < count && view_equal(records[behind].key, latest->key); behind++)
        if (record_compare(latest, &records[behind]) < 0)
            latest = &records[behind];
    fold->report.superseded += behind - first - 1;
    *ret_behind = behind;
    return latest;
}

/* Writes the later of two records with one key. Only here the time of an old one matters. */
static enum hf_status write_later(struct fold *fold, const struct record *old,
                                  const struct record *new, struct hf_error *error)
{
    struct record there;
    enum hf_status status = record_read(&fold->index->schema, old->bytes, &fold->key_space,
                                        &there, /* ret_too_many_fields */ NULL, error);
    if (status == HF_INVALID) {
        error_prefix(error, "%s: a record that cannot be read", fold->cursor.object);
        return error->status = HF_CORRUPT;
    }
    if (status != HF_OK)
        return status;
    bool later = record_compare(&there, new) < 0;
    fold->report.records_later += later;
    fold->report.superseded += !later;
    return shard_writer_add(&fold->writer, later ? new : &there, error);
}

/* Writes the old records up to this new one, and it, or the old one that is later. `old` is the
 * next of the shard, *at_end when there is none. */
static enum hf_status write_up_to(struct fold *fold, const struct record *new,
                                  struct record *old, bool *at_end, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    int order = -1;
    while (status == HF_OK && !*at_end && (order = view_compare(old->key, new->key)) <= 0) {
        status = order < 0 ? shard_writer_add(&fold->writer, old, error)
                           : write_later(fold, old, new, error);
        if (status == HF_OK)
            status = shard_cursor_step(&fold->cursor, old, error);
        *at_end = status == HF_NOT_FOUND;
        if (*at_end)
            status = HF_OK;
        if (order == 0)
            return status;
    }
    if (status != HF_OK)
        return status;
    fold->report.records_new++;
    return shard_writer_add(&fold->writer, new, error);
}

static enum hf_status write_rest(struct fold *fold, struct record *old, bool at_end,
                                 struct hf_error *error)
{
    if (at_end)
        return HF_OK;
    enum hf_status status = HF_OK;
    while (status == HF_OK) {
        status = shard_writer_add(&fold->writer, old, error);
        if (status == HF_OK)
            status = shard_cursor_step(&fold->cursor, old, error);
    }
    return status == HF_NOT_FOUND ? HF_OK : status;
}

/* The records are sorted. */
static enum hf_status merge(struct fold *fold, const struct record *records, size_t count,
                            struct hf_error *error)
{
    struct record old = { .bytes = VIEW(""), .key = VIEW("") };
    enum hf_status status = shard_cursor_step(&fold->cursor, &old, error);
    bool at_end = status == HF_NOT_FOUND;
    if (at_end)
        status = HF_OK;
    for (size_t i = 0, behind; status == HF_OK && i < count; i = behind) {
        const struct record *latest = latest_of(fold, records, i, count, &behind);
        status = write_up_to(fold, latest, &old, &at_end, error);
    }
    return status == HF_OK ? write_rest(fold, &old, at_end, error) : status;
}

/* ---- The swap ------------------------------------------------------------------------ */

/* Tokens of a shard's lock rise: a lower one than the shard's is of a lease that is over. */
static enum hf_status check_token(const struct shard_cursor *cursor, uint64_t token,
                                  struct hf_error *error)
{
    if (!RULE(STALE_COMPILERS_ARE_FENCED) || !cursor->exists || cursor->head.token <= token)
        return HF_OK;
    return error_set(error, HF_FENCED,
                     "%s: token %" PRIu64 " has written it, after %" PRIu64 " was given out",
                     cursor->object, cursor->head.token, token);
}

static struct condition condition_of(const struct shard_cursor *cursor)
{
    const struct condition always = { .kind = CONDITION_ALWAYS };
    if (cursor->exists)
        return RULE(SHARDS_ARE_SWAPPED) ? if_match(&cursor->etag) : always;
    return RULE(FIRST_SHARD_IF_ABSENT) ? if_absent() : always;
}

static enum hf_status put_shard(struct fold *fold, struct hf_error *error)
{
    struct put_call put = { .key = view_of(fold->cursor.object),
                            .condition = condition_of(&fold->cursor) };
    enum hf_status status =
        draft_put(&fold->writer.draft, fold->index->store, buffer_view(&fold->line), &put);
    if (status == HF_NOT_FOUND)
        status = error_set(&put.error, HF_CONFLICT, "it is gone");
    if (status == HF_OK)
        return HF_OK;
    *error = put.error;
    error_prefix(error, "%s", fold->cursor.object);
    if (status == HF_CONFLICT && !RULE(CONFLICT_CLEARS_NOTHING))
        return HF_OK;
    if (status == HF_UNSURE && !RULE(UNSURE_CLEARS_NOTHING))
        return HF_OK;
    return status;
}

/* What a look at the shard tells after a put that was not answered by OK. */
enum sight {
    SIGHT_OURS,    /* it carries our nonce */
    SIGHT_OLD,     /* it is still the version that we read */
    SIGHT_ANOTHER, /* somebody else's */
    SIGHT_NONE,    /* it cannot be read just now */
};

static enum sight look(struct fold *fold, struct hf_error *error)
{
    struct shard_cursor now;
    const struct shard_cursor *then = &fold->cursor;
    if (shard_cursor_open(&now, fold->index, then->shard, SHARD_READ_SMALL, error) != HF_OK)
        return SIGHT_NONE;
    enum sight sight = SIGHT_ANOTHER;
    if (now.exists && view_equal(view_of(now.head.nonce), view_of(fold->writer.head.nonce)))
        sight = SIGHT_OURS;
    else if (now.exists == then->exists && (!now.exists || etag_equal(&now.etag, &then->etag)))
        sight = SIGHT_OLD;
    shard_cursor_close(&now);
    return sight;
}

/* Once a put was not answered, only OK and our own nonce tell that it is done, and nothing tells
 * that it is not: somebody else may have read it and written the shard since. */
static enum hf_status swap(struct fold *fold, struct hf_error *error)
{
    struct env *env = fold->index->env;
    struct span pause = PUT_PAUSE_FIRST;
    bool unsure = false;
    struct hf_error why = { .status = HF_OK };
    for (int tries = 0; tries < PUT_TRIES_MAX; tries++) {
        enum hf_status status = put_shard(fold, &why);
        unsure = unsure || status == HF_UNSURE;
        if (status == HF_OK)
            return HF_OK;
        if (!unsure && status != HF_CONFLICT)
            break;
        struct hf_error ignored;
        enum sight sight = look(fold, &ignored);
        if (sight == SIGHT_OURS)
            return HF_OK;
        if (!unsure || sight == SIGHT_ANOTHER)
            break;
        if (tries + 1 < PUT_TRIES_MAX)
            env_sleep(env, env_jitter(env, pause));
        pause.us *= 2;
    }
    *error = why;
    return unsure ? error->status = HF_UNSURE : why.status;
}

/* ---- Both ---------------------------------------------------------------------------- */

static enum hf_status begin_writing(struct fold *fold, uint64_t token,
                                    const struct record *records, size_t count,
                                    struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    uint64_t expected = fold->cursor.head.size;
    for (size_t i = 0; i < count; i++)
        expected += records[i].bytes.size + sizeof RECORD_END - 1;
    env_random_hex(fold->index->env, NONCE_SIZE, nonce);
    enum hf_status status =
        shard_writer_init(&fold->writer, &fold->index->schema, token, nonce, expected, error);
    fold->writer.head.writes = fold->cursor.head.writes + 1;
    return status;
}

static enum hf_status fold_all(struct fold *fold, uint64_t token, struct record *records,
                               size_t count, struct hf_error *error)
{
    enum hf_status status = check_token(&fold->cursor, token, error);
    if (status == HF_OK)
        status = begin_writing(fold, token, records, count, error);
    if (status == HF_OK && count > 1)
        qsort(records, count, sizeof *records, compare_keys);
    if (status == HF_OK)
        status = merge(fold, records, count, error);
    if (status == HF_OK)
        status = shard_writer_end(&fold->writer, &fold->line, error);
    return status == HF_OK ? swap(fold, error) : status;
}

enum hf_status index_fold(struct index *index, struct shard_id shard, uint64_t token,
                          struct record *records, size_t count, struct fold_report *ret_report,
                          struct hf_error *error)
{
    struct fold fold = { .index = index,
                         .line = BUFFER_INIT(SHARD_LINE_MAX),
                         .key_space = BUFFER_INIT(INDEX_KEY_BYTES_MAX),
                         .report = { .records_in = count } };
    draft_init(&fold.writer.draft);
    enum hf_status status =
        shard_cursor_open(&fold.cursor, index, shard, SHARD_READ_LARGE, error);
    if (status == HF_OK)
        status = fold_all(&fold, token, records, count, error);
    if (status == HF_OK) {
        fold.report.records = fold.writer.head.records;
        fold.report.bytes = fold.line.size + fold.writer.draft.size;
        fold.report.token = fold.writer.head.token;
        fold.report.writes = fold.writer.head.writes;
        *ret_report = fold.report;
    }
    if (status == HF_FENCED)
        *ret_report = (struct fold_report){ .fence = fold.cursor.head.token };
    fold_release(&fold);
    return status;
}
