/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c: iterates over all keys as readers see them: shard by shard, each merged with its entries
 * in the inbox. The inbox is listed first, and the shard is opened again if a listed entry has
 * vanished, so no key is missed during a compile. */
#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "index/pending.h"
#include "index/read.h"
#include "index/shard_set.h"

#include <stdlib.h>

/* How many times a shard may be replaced before one of its records is read. */
#define SHARD_TRIES_MAX 8

/* ---- One shard, merged with its entries ---------------------------------------------- */

/* One of the two streams, and its next record. */
struct head {
    bool ready;
    bool ended;
    struct record record;
};

struct shard_merge {
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
    struct buffer passed; /* the last key returned or skipped */
    /* If only some keys are wanted: those of this shard, and the next one to look up in it. */
    const struct wanted_key *keys;
    size_t key_count, next_key;
};

static enum hf_status open_as_it_is(struct shard_cursor *cursor, struct index *index,
                                    struct shard_id shard, uint64_t first,
                                    struct hf_error *error)
{
    enum hf_status status = HF_CONFLICT;
    unsigned tries = 0;
    while (status == HF_CONFLICT && tries++ < SHARD_TRIES_MAX) {
        shard_cursor_close(cursor);
        status = shard_cursor_open(cursor, index, shard, first, error);
    }
    return status;
}

/* The first wanted key after the last key returned. */
static size_t find_next_key(const struct shard_merge *merge)
{
    size_t next = 0;
    if (merge->any_passed)
        while (next < merge->key_count &&
               view_compare(merge->keys[next].key, buffer_view(&merge->passed)) <= 0)
            next++;
    return next;
}

/* Opens the current version of the shard, and seeks to our position. */
static enum hf_status open_shard(struct shard_merge *merge, struct hf_error *error)
{
    const struct view prefix = merge->query->prefix;
    enum hf_status status =
        open_as_it_is(&merge->cursor, merge->index, merge->shard,
                      prefix.size > 0 || merge->keys ? SHARD_READ_SMALL : SHARD_READ_LARGE,
                      error);
    merge->there = (struct head){ 0 };
    if (status != HF_OK)
        return status;
    if (merge->keys)
        merge->next_key = find_next_key(merge);
    else if (merge->any_passed)
        shard_cursor_seek(&merge->cursor, buffer_view(&merge->passed), /* beyond */ true);
    else if (prefix.size > 0)
        shard_cursor_seek(&merge->cursor, prefix, /* beyond */ false);
    /* The records of entries that have vanished by now are in this version or a later one, because
     * a compiler clears an entry only after the shard is stored. */
    merge->pending.vanished = false;
    merge->stale = false;
    return HF_OK;
}

static enum hf_status list_entries(struct shard_merge *merge, struct entry *flat,
                                   size_t flat_count, struct hf_error *error)
{
    enum hf_status status = inbox_list(merge->index, merge->shard, /* after */ VIEW(""),
                                       INBOX_LIST_MAX, &merge->list, error);
    if (status == HF_OK && merge->list.more)
        status = error_set(error, HF_UNAVAILABLE,
                           "more than %d entries are waiting in its inbox", INBOX_LIST_MAX);
    if (status == HF_OK)
        status = pending_add(&merge->pending, merge->list.entries, merge->list.count, error);
    if (status == HF_OK)
        status = pending_add(&merge->pending, flat, flat_count, error);
    if (status != HF_OK)
        error_prefix(error, "inbox of shard %s", merge->shard.text);
    return status;
}

static enum hf_status read_waiting(struct shard_merge *merge, struct hf_error *error)
{
    struct head *head = &merge->waiting;
    if (head->ready || head->ended)
        return HF_OK;
    enum hf_status status = pending_next(&merge->pending, &head->record, error);
    head->ready = status == HF_OK;
    head->ended = status == HF_NOT_FOUND;
    /* A listed entry was folded, perhaps after the shard was opened. Then the open version does not
     * have its record. */
    if (RULE(VANISHED_IS_IN_THE_SHARD) && merge->pending.vanished)
        merge->stale = true;
    if (!head->ready && !head->ended)
        error_prefix(error, "inbox of shard %s", merge->shard.text);
    return head->ended ? HF_OK : status;
}

/* The next record of the shard or, if only some keys are wanted, the next one of these. */
static enum hf_status next_there(struct shard_merge *merge, struct record *ret_record,
                                 struct hf_error *error)
{
    if (!merge->keys)
        return shard_cursor_next(&merge->cursor, ret_record, error);
    enum hf_status status = HF_NOT_FOUND;
    while (status == HF_NOT_FOUND && merge->next_key < merge->key_count)
        status = shard_cursor_find(&merge->cursor, merge->keys[merge->next_key++].key,
                                   ret_record, error);
    return status;
}

/* Reads the next record of the shard. After the last record, or past the prefix, the stream stays
 * at its end until the shard is opened again. */
static enum hf_status read_there(struct shard_merge *merge, struct hf_error *error)
{
    struct head *head = &merge->there;
    enum hf_status status = HF_OK;
    do {
        if (merge->stale)
            status = open_shard(merge, error);
        if (status == HF_OK && !head->ready && !head->ended)
            status = next_there(merge, &head->record, error);
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

/* The record of the next key, valid until the next call. *ret_hidden: it is not to be shown: it is
 * a deletion, or may have been deleted. NOT_FOUND at the end. */
static enum hf_status shard_merge_next(struct shard_merge *merge, struct record *ret_record,
                                       bool *ret_hidden, struct hf_error *error)
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
    *ret_hidden = ret_record->deleted || (order < 0 && shard_hides(&merge->cursor, ret_record));
    buffer_clear(&merge->passed);
    merge->any_passed = true;
    return buffer_append(&merge->passed, ret_record->key) ? HF_OK : error_no_memory(error);
}

/* ---- Walking ------------------------------------------------------------------------- */

struct walk {
    struct index *index;
    const struct index_query *query;
    bool (*progress)(void *argument, const struct hf_index_progress *totals);
    void *argument;
    bool counts; /* only counts keys: shards without entries need not be read */
    struct shard_set shards_due;
    struct entry_list flat;
    struct hf_index_progress totals;
    size_t number; /* the next shard or, if `within`, the shard that is being read */
    size_t key_at; /* the first wanted key of that shard or a later one */
    bool within;   /* a shard is being read, with this: */
    struct shard_merge merge;
    bool shard_ended;  /* `progress` must be called */
    unsigned failures; /* consecutive store failures */
    bool over;
};

/* Above this many shards, a listing of all of them shows which have entries. */
#define SHARDS_LISTED_EACH 2

/* Marks only the shards of the wanted keys. Returns how many there are. */
static size_t mark_shards_of_keys(struct walk *walk)
{
    const struct index_query *query = walk->query;
    struct shard_set *due = &walk->shards_due;
    size_t count = 0;
    memset(due->of, 0, due->count);
    for (size_t i = 0; i < query->key_count; i++) {
        count += due->of[query->keys[i].shard] == 0;
        due->of[query->keys[i].shard] = MARK_WAITING;
    }
    return count;
}

/* Like find_shards, for some keys. The shards whose inboxes have no entries are found by one
 * listing of the inbox's folders. A shard that does not exist is found to be missing when it is
 * read. */
static enum hf_status find_shards_of_keys(struct walk *walk, struct hf_error *error)
{
    const struct index_query *query = walk->query;
    struct shard_set *due = &walk->shards_due;
    walk->totals.shards_total = mark_shards_of_keys(walk);
    if (walk->totals.shards_total <= SHARDS_LISTED_EACH)
        return HF_OK;
    memset(due->of, 0, due->count);
    shard_set_flat(due, walk->index, &walk->flat);
    enum hf_status status = shard_set_waiting(due, walk->index, error);
    if (status != HF_OK)
        return status;
    size_t next = 0;
    for (size_t i = 0; i < due->count; i++) {
        bool wanted = next < query->key_count && query->keys[next].shard == i;
        due->of[i] = wanted ? due->of[i] | MARK_THERE : 0;
        while (next < query->key_count && query->keys[next].shard == i)
            next++;
    }
    return HF_OK;
}

/* Finds the shards to read, and their entries. The inbox is listed first. If a shard has no entries
 * then, and does not exist when the shards are listed after that, it has no records. */
static enum hf_status find_shards(struct walk *walk, struct hf_error *error)
{
    struct index *index = walk->index;
    const struct shard_id shard = walk->query->shard;
    size_t number;
    enum hf_status status = shard_set_init(&walk->shards_due, index, error);
    if (status == HF_OK)
        status = inbox_list_flat(index, shard, &walk->flat, error);
    if (status == HF_OK && walk->flat.more)
        status =
            error_set(error, HF_UNAVAILABLE,
                      "more than %d entries from other programs are waiting in the index %s",
                      INBOX_LIST_MAX, index->name);
    if (status != HF_OK)
        return status;
    shard_set_flat(&walk->shards_due, index, &walk->flat);
    if (walk->query->keys)
        return find_shards_of_keys(walk, error);
    if (shard.text[0] != '\0') {
        if (!shard_number(view_of(shard.text), index->schema.digits, &number))
            return error_set(error, HF_INVALID, "the index %s has no shard %s", index->name,
                             shard.text);
        walk->shards_due.of[number] = MARK_WAITING;
        walk->totals.shards_total = 1;
        return HF_OK;
    }
    status = shard_set_waiting(&walk->shards_due, index, error);
    if (status == HF_OK)
        status = shard_set_there(&walk->shards_due, index, error);
    for (size_t i = 0; i < walk->shards_due.count; i++)
        walk->totals.shards_total += walk->shards_due.of[i] != 0;
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
                           .counts = counts,
                           .totals = HF_INDEX_PROGRESS };
    client_active(index->client);
    enum hf_status status = find_shards(walk, error);
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

struct hf_index_progress walk_totals(const struct walk *walk)
{
    struct hf_index_progress totals = walk->totals;
    if (walk->within) {
        totals.pending += walk->merge.pending.count;
        totals.unreadable += walk->merge.pending.unreadable;
    }
    return totals;
}

size_t walk_shard(const struct walk *walk)
{
    return walk->within ? walk->number : walk->number - 1;
}

bool walk_gave_up(const struct walk *walk)
{
    return walk->failures >= SHARD_FAILURES_MAX;
}

static void leave_shard(struct walk *walk)
{
    walk->totals = walk_totals(walk);
    if (!walk->within)
        return;
    walk->within = false;
    shard_cursor_close(&walk->merge.cursor);
    pending_free(&walk->merge.pending);
    entry_list_release(&walk->merge.list);
    buffer_release(&walk->merge.passed);
}

void walk_close(struct walk *walk)
{
    if (!walk)
        return;
    leave_shard(walk);
    shard_set_release(&walk->shards_due);
    entry_list_release(&walk->flat);
    free(walk);
}

/* The header line of a shard contains the number of its keys. */
static enum hf_status count_by_line(struct walk *walk, struct shard_id shard,
                                    struct hf_error *error)
{
    struct shard_cursor cursor = { 0 };
    enum hf_status status = open_as_it_is(&cursor, walk->index, shard, SHARD_READ_SMALL, error);
    if (status == HF_OK && cursor.exists)
        walk->totals.records += cursor.head.records - cursor.head.deleted;
    shard_cursor_close(&cursor);
    return status == HF_OK ? HF_NOT_FOUND : status;
}

/* Restricts the shard that is being entered to its wanted keys. */
static void take_keys_of_shard(struct walk *walk)
{
    const struct index_query *query = walk->query;
    struct shard_merge *merge = &walk->merge;
    while (walk->key_at < query->key_count && query->keys[walk->key_at].shard < walk->number)
        walk->key_at++;
    merge->keys = query->keys + walk->key_at;
    while (walk->key_at + merge->key_count < query->key_count &&
           merge->keys[merge->key_count].shard == walk->number)
        merge->key_count++;
    merge->pending.keys = merge->keys;
    merge->pending.key_count = merge->key_count;
}

/* Starts to read a shard. NOT_FOUND: there is nothing to read in it. If the shard has no entries,
 * its inbox is not listed. */
static enum hf_status enter_shard(struct walk *walk, struct hf_error *error)
{
    struct shard_merge *merge = &walk->merge;
    bool waiting = walk->shards_due.of[walk->number] & MARK_WAITING;
    struct shard_id shard = shard_of_number(walk->number, walk->index->schema.digits);
    const struct index_query *query = walk->query;
    bool takes_all = query->prefix.size == 0 && !query->since_given &&
                     query->where_count == 0 && !query->keys;
    if (walk->counts && !waiting && takes_all)
        return count_by_line(walk, shard, error);
    size_t flat_count;
    struct entry *flat = shard_set_find_flat(&walk->flat, shard, &flat_count);
    enum hf_status status = HF_OK;
    *merge = (struct shard_merge){ .index = walk->index,
                                   .query = walk->query,
                                   .shard = shard,
                                   .waiting.ended = !waiting,
                                   .stale = true,
                                   .passed = BUFFER_INIT(INDEX_KEY_BYTES_MAX) };
    pending_init(&merge->pending, walk->index, walk->query);
    if (query->keys)
        take_keys_of_shard(walk);
    walk->within = true;
    if (waiting) {
        MUTANT(mutant_opens_shard_first(open_shard, merge));
        status = list_entries(merge, flat, flat_count, error);
    }
    if (merge->stale && status == HF_OK)
        status = open_shard(merge, error);
    return status;
}

/* Reports the finished shard, and moves to the next one. NOT_FOUND: there is none, or the store
 * keeps failing. */
static enum hf_status next_shard(struct walk *walk, struct hf_error *error)
{
    if (walk->shard_ended && walk->progress && !walk->progress(walk->argument, &walk->totals)) {
        walk->over = true;
        return error_set(error, HF_CANCELLED, "stopped by the caller");
    }
    walk->shard_ended = false;
    while (walk->number < walk->shards_due.count && walk->shards_due.of[walk->number] == 0)
        walk->number++;
    if (walk->number < walk->shards_due.count && walk->failures < SHARD_FAILURES_MAX)
        return HF_OK;
    walk->over = true;
    return HF_NOT_FOUND;
}

/* The next matching record of this shard. */
static enum hf_status next_wanted(struct walk *walk, struct record *ret_record,
                                  struct hf_error *error)
{
    enum hf_status status;
    bool hidden;
    while ((status = shard_merge_next(&walk->merge, ret_record, &hidden, error)) == HF_OK)
        if (!hidden && index_query_takes(walk->query, ret_record))
            break;
    return status;
}

/* Records how reading a shard ended. NOT_FOUND is the regular end. */
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

/* ---- Entry points -------------------------------------------------------------------- */

/* A count shows no records. If the visitor fails, the walk ends with the visitor's status, which is
 * not an error of the shard. */
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

static enum hf_status run_walk(struct index *index, const struct index_query *query,
                               const struct index_visitor *visitor, bool counts,
                               struct hf_index_progress *ret_totals, struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    struct walk *walk;
    *ret_totals = HF_INDEX_PROGRESS;
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
                          const struct index_visitor *visitor,
                          struct hf_index_progress *ret_totals, struct hf_error *error)
{
    struct hf_index_progress totals;
    check(visitor->show);
    enum hf_status status = run_walk(index, query, visitor, /* counts */ false, &totals, error);
    if (ret_totals)
        *ret_totals = totals;
    return status;
}

enum hf_status index_count(struct index *index, const struct index_query *query,
                           const struct index_visitor *visitor, uint64_t *ret_count,
                           struct hf_error *error)
{
    const struct index_query all = { .where_count = 0 };
    struct hf_index_progress totals;
    enum hf_status status =
        run_walk(index, query ? query : &all, visitor, /* counts */ true, &totals, error);
    if (status == HF_OK)
        *ret_count = totals.records;
    return status;
}
