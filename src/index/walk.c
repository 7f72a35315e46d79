/* walk.c: all keys, as readers see them: shard by shard, what waits in the inbox merged with
 * what is in the shard. */
#include "base/check.h"
#include "base/rule.h"
#include "index/marks.h"
#include "index/pending.h"
#include "index/read.h"

#include <stdlib.h>

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
    bool (*progress)(void *argument, const struct walk_totals *totals);
    void *argument;
    bool counts; /* keys only: shards to which nothing comes need not be read */
    struct marks marks;
    struct entry_list flat;
    struct walk_totals totals;
    size_t number; /* of the shard that is next, or is being read: */
    bool within;   /* ... that one, by this: */
    struct merge merge;
    bool shard_ended;  /* `progress` is to be told */
    unsigned failures; /* of the store, in a row */
    bool over;
};

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

static enum hf_status walk_new(struct index *index, const struct index_query *query,
                               const struct index_visitor *visitor, bool counts,
                               struct walk **ret_walk, struct hf_error *error)
{
    struct walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return error_no_memory(error);
    *walk = (struct walk){ .index = index,
                           .query = query,
                           .progress = visitor ? visitor->progress : NULL,
                           .argument = visitor ? visitor->argument : NULL,
                           .counts = counts };
    client_active(index->client);
    enum hf_status status = look_around(walk, error);
    if (status == HF_OK)
        *ret_walk = walk;
    else
        walk_close(walk);
    return status;
}

enum hf_status walk_open(struct index *index, const struct index_query *query,
                         const struct index_visitor *visitor, struct walk **ret_walk,
                         struct hf_error *error)
{
    return walk_new(index, query, visitor, /* counts */ false, ret_walk, error);
}

struct walk_totals walk_totals(const struct walk *walk)
{
    struct walk_totals totals = walk->totals;
    if (walk->within) {
        totals.pending += walk->merge.pending.count;
        totals.unreadable += walk->merge.pending.unreadable;
    }
    return totals;
}

static void leave_shard(struct walk *walk)
{
    walk->totals = walk_totals(walk);
    if (walk->within)
        merge_release(&walk->merge);
    walk->within = false;
}

void walk_close(struct walk *walk)
{
    if (!walk)
        return;
    leave_shard(walk);
    marks_release(&walk->marks);
    entry_list_release(&walk->flat);
    free(walk);
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
    return status == HF_OK ? HF_NOT_FOUND : status;
}

static bool takes_all(const struct index_query *query)
{
    return query->prefix.size == 0 && !query->since_given && query->where_count == 0;
}

/* NOT_FOUND: there is nothing to be read in it. Where no entries had been listed before, there is
 * nothing to wait for. */
static enum hf_status enter_shard(struct walk *walk, struct hf_error *error)
{
    struct merge *merge = &walk->merge;
    bool waiting = walk->marks.of[walk->number] & MARK_WAITING;
    struct shard_id shard = shard_of_number(walk->number, walk->index->schema.digits);
    if (walk->counts && !waiting && takes_all(walk->query))
        return count_by_line(walk, shard, error);
    size_t flat_count;
    struct entry *flat = marks_find_flat(&walk->flat, shard, &flat_count);
    enum hf_status status = HF_OK;
    merge_init(merge, walk->index, walk->query, shard);
    walk->within = true;
    merge->waiting.ended = !waiting;
    if (waiting && !RULE(INBOX_BEFORE_SHARD))
        status = open_shard(merge, error);
    if (waiting && status == HF_OK)
        status = list_entries(merge, flat, flat_count, error);
    if (merge->stale && status == HF_OK)
        status = open_shard(merge, error);
    return status;
}

/* Tells of the shard that has ended, and goes to the next; NOT_FOUND: there is none. */
static enum hf_status next_shard(struct walk *walk, struct hf_error *error)
{
    if (walk->shard_ended && walk->progress && !walk->progress(walk->argument, &walk->totals)) {
        walk->over = true;
        return error_set(error, HF_CANCELLED, "stopped on the way");
    }
    walk->shard_ended = false;
    while (walk->number < walk->marks.count && walk->marks.of[walk->number] == 0)
        walk->number++;
    if (walk->number < walk->marks.count && walk->failures < SHARD_FAILURES_MAX)
        return HF_OK;
    walk->over = true;
    return HF_NOT_FOUND;
}

/* The next record of this shard that is wanted. */
static enum hf_status next_wanted(struct walk *walk, struct record *ret_record,
                                  struct hf_error *error)
{
    enum hf_status status;
    while ((status = merge_next(&walk->merge, ret_record, error)) == HF_OK)
        if (index_query_takes(walk->query, ret_record))
            break;
    return status;
}

/* Notes how a shard has ended: NOT_FOUND is its end. */
static void end_shard(struct walk *walk, enum hf_status status)
{
    bool good = status == HF_NOT_FOUND;
    leave_shard(walk);
    walk->number++;
    walk->shard_ended = true;
    walk->totals.shards_read += good;
    walk->failures = good || shard_is_the_matter(status) ? 0 : walk->failures + 1;
}

enum hf_status walk_next(struct walk *walk, struct record *ret_record, struct hf_error *error)
{
    if (walk->over)
        return HF_NOT_FOUND;
    for (;;) {
        enum hf_status status = HF_OK;
        if (!walk->within) {
            status = next_shard(walk, error);
            if (status != HF_OK)
                return status;
            status = enter_shard(walk, error);
        }
        if (status == HF_OK)
            status = next_wanted(walk, ret_record, error);
        if (status == HF_OK) {
            walk->totals.records++;
            return HF_OK;
        }
        end_shard(walk, status);
        if (status != HF_NOT_FOUND)
            return status;
        error_clear(error);
    }
}

/* ---- All of it ----------------------------------------------------------------------- */

/* One who counts shows nothing. What the visitor says ends it is not the trouble of a shard. */
static enum hf_status walk_all(struct walk *walk, const struct index_visitor *visitor,
                               struct hf_error *error)
{
    struct hf_error first = { .status = HF_OK };
    struct record record;
    for (;;) {
        struct hf_error why = { .status = HF_OK };
        enum hf_status status = walk_next(walk, &record, &why);
        if (status == HF_NOT_FOUND) {
            *error = first;
            return first.status;
        }
        if (status == HF_OK && !walk->counts) {
            status = visitor->show(visitor->argument, &record, &why);
            walk->over = status != HF_OK;
            walk->totals.records -= walk->over;
        }
        if (walk->over) {
            *error = why;
            return status;
        }
        if (status == HF_OK)
            continue;
        if (first.status == HF_OK)
            first = why;
        if (visitor && visitor->trouble)
            visitor->trouble(visitor->argument, &why);
    }
}

static enum hf_status walk_run(struct index *index, const struct index_query *query,
                               const struct index_visitor *visitor, bool counts,
                               struct walk_totals *ret_totals, struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    struct walk *walk;
    *ret_totals = (struct walk_totals){ 0 };
    enum hf_status status = walk_new(index, query, visitor, counts, &walk, &why);
    if (status == HF_OK) {
        status = walk_all(walk, visitor, &why);
        *ret_totals = walk_totals(walk);
        walk_close(walk);
    }
    if (error)
        *error = why;
    return status;
}

enum hf_status index_walk(struct index *index, const struct index_query *query,
                          const struct index_visitor *visitor, struct walk_totals *ret_totals,
                          struct hf_error *error)
{
    struct walk_totals totals;
    check(visitor->show);
    enum hf_status status = walk_run(index, query, visitor, /* counts */ false, &totals, error);
    if (ret_totals)
        *ret_totals = totals;
    return status;
}

enum hf_status index_count(struct index *index, const struct index_query *query,
                           const struct index_visitor *visitor, uint64_t *ret_count,
                           struct hf_error *error)
{
    const struct index_query all = { .where_count = 0 };
    struct walk_totals totals;
    enum hf_status status =
        walk_run(index, query ? query : &all, visitor, /* counts */ true, &totals, error);
    if (status == HF_OK)
        *ret_count = totals.records;
    return status;
}
