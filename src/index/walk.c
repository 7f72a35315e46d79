/* walk.c: all keys, as readers see them: shard by shard, what waits in the inbox merged with
 * what is in the shard. */
#include "base/check.h"
#include "base/rule.h"
#include "index/marks.h"
#include "index/pending.h"
#include "index/read.h"

/* A shard may be replaced while it is read: so often without a record in between. */
#define SHARD_TRIES_MAX 8

/* ---- One shard, merged with its entries ---------------------------------------------- */

/* One of the two streams, and the record that is next in it. */
struct head {
    bool ready;
    bool ended;
    struct record record;
};

struct merge {
    struct index *index;
    const struct index_query *query;
    struct shard_id shard;
    struct entry_list list;
    struct pending pending;
    struct head waiting; /* in the inbox */
    struct shard_cursor cursor;
    struct head there;  /* in the shard */
    bool stale;         /* the shard must be opened before it is read */
    unsigned conflicts; /* since the last record */
    bool any_passed;
    struct buffer passed; /* the last key that was shown, or passed over */
};

static enum hf_status open_as_it_is(struct shard_cursor *cursor, struct index *index,
                                    struct shard_id shard, uint64_t first,
                                    struct hf_error *error)
{
    enum hf_status status = HF_CONFLICT;
    for (unsigned i = 0; i < SHARD_TRIES_MAX && status == HF_CONFLICT; i++) {
        shard_cursor_close(cursor);
        status = shard_cursor_open(cursor, index, shard, first, error);
    }
    return status;
}

/* Opens the shard as it is now, and goes to where we are. */
static enum hf_status open_shard(struct merge *merge, struct hf_error *error)
{
    const struct view prefix = merge->query->prefix;
    enum hf_status status =
        open_as_it_is(&merge->cursor, merge->index, merge->shard,
                      prefix.size > 0 ? SHARD_READ_SMALL : SHARD_READ_LARGE, error);
    merge->there = (struct head){ 0 };
    if (status != HF_OK)
        return status;
    if (merge->any_passed)
        shard_cursor_seek(&merge->cursor, buffer_view(&merge->passed), /* beyond */ true);
    else if (prefix.size > 0)
        shard_cursor_seek(&merge->cursor, prefix, /* beyond */ false);
    /* What had vanished by now is in this version. */
    merge->pending.vanished = false;
    merge->stale = false;
    return HF_OK;
}

static enum hf_status list_entries(struct merge *merge, struct entry *flat, size_t flat_count,
                                   struct hf_error *error)
{
    enum hf_status status = inbox_list(merge->index, merge->shard, /* after */ VIEW(""),
                                       INBOX_LIST_MAX, &merge->list, error);
    if (status == HF_OK && merge->list.more)
        status = error_set(error, HF_UNAVAILABLE, "more than %d entries wait in its inbox",
                           INBOX_LIST_MAX);
    if (status == HF_OK)
        status = pending_add(&merge->pending, merge->list.entries, merge->list.count, error);
    if (status == HF_OK)
        status = pending_add(&merge->pending, flat, flat_count, error);
    if (status != HF_OK)
        error_prefix(error, "inbox of shard %s", merge->shard.text);
    return status;
}

static void merge_init(struct merge *merge, struct index *index,
                       const struct index_query *query, struct shard_id shard)
{
    *merge = (struct merge){ .index = index,
                             .query = query,
                             .shard = shard,
                             .stale = true,
                             .passed = BUFFER_INIT(INDEX_KEY_BYTES_MAX) };
    pending_init(&merge->pending, index, query);
}

static void merge_release(struct merge *merge)
{
    shard_cursor_close(&merge->cursor);
    pending_release(&merge->pending);
    entry_list_release(&merge->list);
    buffer_release(&merge->passed);
}

static enum hf_status read_waiting(struct merge *merge, struct hf_error *error)
{
    struct head *head = &merge->waiting;
    if (head->ready || head->ended)
        return HF_OK;
    enum hf_status status = pending_next(&merge->pending, &head->record, error);
    head->ready = status == HF_OK;
    head->ended = status == HF_NOT_FOUND;
    /* Somebody has folded what was listed, perhaps after the shard was opened. */
    if (merge->pending.vanished && RULE(VANISHED_IS_IN_THE_SHARD))
        merge->stale = true;
    if (!head->ready && !head->ended)
        error_prefix(error, "inbox of shard %s", merge->shard.text);
    return head->ended ? HF_OK : status;
}

/* Once it is ended, by its end or behind the prefix, it stays so until it is opened anew. */
static enum hf_status read_there(struct merge *merge, struct hf_error *error)
{
    struct head *head = &merge->there;
    enum hf_status status = HF_OK;
    do {
        if (merge->stale)
            status = open_shard(merge, error);
        if (status == HF_OK && !head->ready && !head->ended)
            status = shard_cursor_next(&merge->cursor, &head->record, error);
        else if (status == HF_OK)
            return HF_OK;
        merge->stale = status == HF_CONFLICT;
    } while (status == HF_CONFLICT && ++merge->conflicts < SHARD_TRIES_MAX);
    head->ready = status == HF_OK && view_starts_with(head->record.key, merge->query->prefix);
    head->ended = status == HF_NOT_FOUND || (status == HF_OK && !head->ready);
    if (head->ready)
        merge->conflicts = 0;
    return head->ended ? HF_OK : status;
}

/* The record of the next key: NOT_FOUND at the end. It lives until the next call. */
static enum hf_status merge_next(struct merge *merge, struct record *ret_record,
                                 struct hf_error *error)
{
    struct head *waiting = &merge->waiting, *there = &merge->there;
    enum hf_status status = read_waiting(merge, error);
    if (status == HF_OK)
        status = read_there(merge, error);
    if (status != HF_OK)
        return status;
    if (!waiting->ready && !there->ready)
        return HF_NOT_FOUND;
    int order = !waiting->ready ? 1
                : !there->ready ? -1
                                : view_compare(waiting->record.key, there->record.key);
    bool take_waiting =
        order < 0 || (order == 0 && record_compare(&there->record, &waiting->record) < 0);
    *ret_record = take_waiting ? waiting->record : there->record;
    waiting->ready = waiting->ready && order > 0;
    there->ready = there->ready && order < 0;
    buffer_clear(&merge->passed);
    merge->any_passed = true;
    return buffer_append(&merge->passed, ret_record->key) ? HF_OK : error_no_memory(error);
}

/* ---- Walking ------------------------------------------------------------------------- */

struct walk {
    struct index *index;
    const struct index_query *query;
    const struct index_visitor *visitor;
    bool counts; /* keys only: shards to which nothing comes need not be read */
    struct marks marks;
    struct entry_list flat;
    struct walk_totals totals;
    bool over; /* what ended it is not the shard's trouble, but what the visitor said */
};

static enum hf_status show(struct walk *walk, const struct record *record,
                           struct hf_error *error)
{
    if (!index_query_takes(walk->query, record))
        return HF_OK;
    enum hf_status status = HF_OK;
    if (!walk->counts)
        status = walk->visitor->show(walk->visitor->argument, record, error);
    walk->over = status != HF_OK;
    if (status == HF_OK)
        walk->totals.records++;
    return status;
}

/* `waiting`: there may be entries of it. Else none had been listed before this is called. */
static enum hf_status walk_shard(struct walk *walk, struct shard_id shard, bool waiting,
                                 struct hf_error *error)
{
    struct merge merge;
    struct record record;
    size_t flat_count;
    struct entry *flat = marks_find_flat(&walk->flat, shard, &flat_count);
    enum hf_status status = HF_OK;
    merge_init(&merge, walk->index, walk->query, shard);
    merge.waiting.ended = !waiting;
    if (waiting && !RULE(INBOX_BEFORE_SHARD))
        status = open_shard(&merge, error);
    if (waiting && status == HF_OK)
        status = list_entries(&merge, flat, flat_count, error);
    if (merge.stale && status == HF_OK)
        status = open_shard(&merge, error);
    while (status == HF_OK && (status = merge_next(&merge, &record, error)) == HF_OK)
        status = show(walk, &record, error);
    walk->totals.pending += merge.pending.count;
    walk->totals.unreadable += merge.pending.unreadable;
    merge_release(&merge);
    return status == HF_NOT_FOUND && !walk->over ? error_clear(error) : status;
}

/* The line of a shard says how many keys it has. */
static enum hf_status count_by_line(struct walk *walk, struct shard_id shard,
                                    struct hf_error *error)
{
    struct shard_cursor cursor = { 0 };
    enum hf_status status = open_as_it_is(&cursor, walk->index, shard, SHARD_READ_SMALL, error);
    if (status == HF_OK && cursor.exists)
        walk->totals.records += cursor.head.records;
    shard_cursor_close(&cursor);
    return status;
}

/* Which shards there are to be read, and what waits for them. A shard that has no entries when the
 * inbox is listed, and is not there when the shards are listed after that, has no records. */
static enum hf_status look_around(struct walk *walk, struct hf_error *error)
{
    struct index *index = walk->index;
    const struct shard_id shard = walk->query->shard;
    size_t number;
    enum hf_status status = marks_init(&walk->marks, index, error);
    if (status == HF_OK)
        status = inbox_list_flat(index, shard, &walk->flat, error);
    if (status == HF_OK && walk->flat.more)
        status = error_set(error, HF_UNAVAILABLE,
                           "more than %d entries of other programs wait in the index %s",
                           INBOX_LIST_MAX, index->name);
    if (status != HF_OK)
        return status;
    marks_flat(&walk->marks, index, &walk->flat);
    if (shard.text[0] != '\0') {
        if (!shard_number(view_of(shard.text), index->schema.digits, &number))
            return error_set(error, HF_INVALID, "the index %s has no shard %s", index->name,
                             shard.text);
        walk->marks.of[number] = MARK_WAITING;
        walk->totals.shards_total = 1;
        return HF_OK;
    }
    status = marks_waiting(&walk->marks, index, error);
    if (status == HF_OK)
        status = marks_there(&walk->marks, index, error);
    for (size_t i = 0; i < walk->marks.count; i++)
        walk->totals.shards_total += walk->marks.of[i] != 0;
    return status;
}

static enum hf_status walk_one(struct walk *walk, size_t number, struct hf_error *error)
{
    bool waiting = walk->marks.of[number] & MARK_WAITING;
    struct shard_id shard = shard_of_number(number, walk->index->schema.digits);
    return walk->counts && !waiting ? count_by_line(walk, shard, error)
                                    : walk_shard(walk, shard, waiting, error);
}

static enum hf_status walk_all(struct walk *walk, struct hf_error *error)
{
    const struct index_visitor *visitor = walk->visitor;
    struct hf_error first = { .status = HF_OK };
    unsigned failures = 0;
    for (size_t i = 0; i < walk->marks.count && failures < SHARD_FAILURES_MAX; i++) {
        struct hf_error why = { .status = HF_OK };
        if (walk->marks.of[i] == 0)
            continue;
        enum hf_status status = walk_one(walk, i, &why);
        if (walk->over) {
            *error = why;
            return status;
        }
        if (status != HF_OK && first.status == HF_OK)
            first = why;
        if (status != HF_OK && visitor->trouble)
            visitor->trouble(visitor->argument, &why);
        failures = status == HF_OK || shard_is_the_matter(status) ? 0 : failures + 1;
        walk->totals.shards_read += status == HF_OK;
        if (visitor->progress && !visitor->progress(visitor->argument, &walk->totals))
            return error_set(error, HF_CANCELLED, "stopped on the way");
    }
    *error = first;
    return first.status;
}

static enum hf_status walk_run(struct walk *walk, struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = look_around(walk, &why);
    if (status == HF_OK)
        status = walk_all(walk, &why);
    marks_release(&walk->marks);
    entry_list_release(&walk->flat);
    if (error)
        *error = why;
    return status;
}

enum hf_status index_walk(struct index *index, const struct index_query *query,
                          const struct index_visitor *visitor, struct walk_totals *ret_totals,
                          struct hf_error *error)
{
    struct walk walk = { .index = index, .query = query, .visitor = visitor };
    check(visitor->show);
    client_active(index->client);
    enum hf_status status = walk_run(&walk, error);
    if (ret_totals)
        *ret_totals = walk.totals;
    return status;
}

enum hf_status index_count(struct index *index, const struct index_visitor *visitor,
                           uint64_t *ret_count, struct hf_error *error)
{
    const struct index_query all = { .where_count = 0 };
    const struct index_visitor nobody = { .show = NULL };
    struct walk walk = {
        .index = index, .query = &all, .visitor = visitor ? visitor : &nobody, .counts = true
    };
    client_active(index->client);
    enum hf_status status = walk_run(&walk, error);
    if (status == HF_OK)
        *ret_count = walk.totals.records;
    return status;
}
