/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c: merges new records into a shard and swaps the shard. Entries may be cleared only if the
 * swap is known to have happened. If they were cleared after a write that was lost, their records
 * would be lost too. README.md contains the rules. */
#include "index/fold.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "index/plain.h"
#include "index/swap.h"

#include <inttypes.h>
#include <stdlib.h>

/* Drops no deletion. */
#define KEEP_ALL SPAN_US(0)

struct fold {
    struct index *index;
    struct shard_cursor cursor; /* the current shard */
    struct shard_writer writer; /* the new shard */
    struct buffer line;
    struct buffer key_space;
    struct fold_report report;
    /* Deletions. */
    struct evidence evidence;
    bool dropping; /* those that the shard has sealed */
    bool again;    /* a deletion was added to the sealed ones */
    bool any_past; /* the latest deletion that is not in the future: */
    struct instant past_to;
};

static int compare_keys(const void *left, const void *right)
{
    const struct record *a = left, *b = right;
    int order = view_compare(a->key, b->key);
    return order != 0 ? order : view_compare(a->bytes, b->bytes);
}

/* ---- Deletions ------------------------------------------------------------------------- */

static struct instant instant_of_wall(struct wall_time time)
{
    int64_t us = time.us % 1000000;
    int64_t s = time.us / 1000000 - (us < 0);
    return (struct instant){ s,
                             (uint64_t)(us < 0 ? us + 1000000 : us) * UINT64_C(1000000000000) };
}

/* The put of a sealed shard is sent within this part of D after its stamp, or not at all. */
#define SEAL_AGE_MAX(d) SPAN_US((d).us / 2)

/* A deletion must have been in the shard for `keep`. The shard with the stamp may have been put
 * later than the stamp was made: up to SEAL_AGE_MAX until the put was sent, and up to D until it
 * took effect. So 2 D more have to pass since the stamp. */
static void begin_deletions(struct fold *fold, struct span keep)
{
    struct hf_client *client = fold->index->client;
    const struct shard_head *head = &fold->cursor.head;
    fold->evidence = (struct evidence){ .wall = env_wall(fold->index->env) };
    if (!client)
        return;
    clock_evidence(client_clock(client), &fold->evidence);
    fold->dropping = head->sealed && keep.us > 0;
    if (RULE(DELETIONS_ARE_KEPT_FOR_2D) &&
        !stamp_passed(head->sealed_at, /* seen */ fold->evidence.now,
                      SPAN_US(keep.us + 2 * client_settings(client)->late_bound.us),
                      client_settings(client)->skew_tolerance, &fold->evidence))
        fold->dropping = false;
}

static bool is_sealed(const struct fold *fold, struct instant time)
{
    const struct shard_head *head = &fold->cursor.head;
    return head->sealed && instant_compare(time, head->sealed_to) <= 0;
}

/* Notes a deletion that the new shard has. */
static void note_deletion(struct fold *fold, struct instant time, bool is_new)
{
    if (is_new && is_sealed(fold, time))
        fold->again = true;
    if (instant_compare(time, instant_of_wall(fold->evidence.wall)) > 0)
        return;
    if (!fold->any_past || instant_compare(time, fold->past_to) > 0)
        fold->past_to = time;
    fold->any_past = true;
}

/* Parses a record of the shard. */
static enum hf_status read_old_record(struct fold *fold, const struct record *old,
                                      struct record *ret_record, struct hf_error *error)
{
    enum hf_status status =
        record_read_stored(&fold->index->schema, old->bytes, &fold->key_space, ret_record,
                           /* ret_too_many_fields */ NULL, error);
    if (status == HF_INVALID) {
        error_prefix(error, "%s: unreadable record", fold->cursor.object);
        return error->status = HF_CORRUPT;
    }
    return status;
}

/* Whether this fold drops a deletion that the shard has. */
static bool is_dropped(const struct fold *fold, const struct record *deletion)
{
    return deletion->deleted && fold->dropping && is_sealed(fold, deletion->time);
}

/* Writes a record that the shard had, unless it is a deletion to be dropped. */
static enum hf_status write_old_record(struct fold *fold, const struct record *old,
                                       struct hf_error *error)
{
    struct record deletion;
    if (!old->deleted)
        return shard_writer_add(&fold->writer, old, error);
    enum hf_status status = read_old_record(fold, old, &deletion, error);
    if (status != HF_OK)
        return status;
    if (is_dropped(fold, &deletion)) {
        fold->report.dropped++;
        return HF_OK;
    }
    note_deletion(fold, deletion.time, /* is_new */ false);
    return shard_writer_add(&fold->writer, &deletion, error);
}

/* Writes a new record whose key the shard does not have, or whose old record is earlier. */
static enum hf_status write_new(struct fold *fold, const struct record *new, bool key_is_new,
                                struct hf_error *error)
{
    if (new->deleted) {
        fold->report.deleted++;
        note_deletion(fold, new->time, /* is_new */ true);
    } else {
        fold->report.records_new += key_is_new;
        fold->report.records_later += !key_is_new;
    }
    /* A deletion stays even if there is nothing to delete: an older record of its key may still be
     * on its way. */
    bool nothing_to_delete = new->deleted &&key_is_new;
    return RULE(DELETIONS_OF_ABSENT_KEYS_STAY) || !nothing_to_delete
               ? shard_writer_add(&fold->writer, new, error)
               : HF_OK;
}

/* Whether the floor of the shard refuses a record whose key the shard does not have. */
static bool is_refused(const struct fold *fold, const struct record *new)
{
    const struct shard_head *head = &fold->cursor.head;
    return RULE(FOLDS_OBEY_THE_FLOOR) && fold->cursor.exists && head->has_floor &&
           instant_compare(new->time, head->floor) <= 0;
}

/* The latest of these records of one key is not later than the floor, so neither are the others.
 * Each is refused, also one that is superseded by another: what is set aside must not depend on
 * which entries are folded together. A deletion that is refused has nothing to delete. */
static void refuse_records(struct fold *fold, struct record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        records[i].refused = !records[i].deleted;
        records[i].moot = records[i].deleted;
        fold->report.refused += records[i].refused;
        fold->report.superseded += records[i].deleted;
    }
}

/* Writes into the line of the new shard what it knows of deletions. */
static void end_deletions(struct fold *fold)
{
    const struct shard_head *old = &fold->cursor.head;
    struct shard_head *head = &fold->writer.head;
    struct stamp now = stamp_now(&fold->evidence);
    head->has_floor = old->has_floor;
    head->floor = old->floor;
    if (RULE(DROPPING_RAISES_THE_FLOOR) && fold->report.dropped > 0 &&
        (!old->has_floor || instant_compare(old->floor, old->sealed_to) < 0)) {
        head->has_floor = true;
        head->floor = old->sealed_to;
    }
    if (old->sealed && !fold->dropping) {
        bool readable = stamp_is_readable(old->sealed_at, &fold->evidence);
        head->sealed = true;
        head->sealed_to = old->sealed_to;
        head->sealed_at = (fold->again || !readable) && now.clock != 0 ? now : old->sealed_at;
    } else if (fold->any_past && now.clock != 0) {
        head->sealed = true;
        head->sealed_to = fold->past_to;
        head->sealed_at = now;
    }
}

/* ---- Merging ------------------------------------------------------------------------- */

/* Writes the later of two records with the same key. Only here is the time of an old record
 * needed. */
static enum hf_status write_later(struct fold *fold, const struct record *old,
                                  struct record *new, struct hf_error *error)
{
    struct record there;
    enum hf_status status = read_old_record(fold, old, &there, error);
    if (status != HF_OK)
        return status;
    if (record_compare(&there, new) < 0)
        return write_new(fold, new, /* key_is_new */ there.deleted, error);
    fold->report.superseded++;
    new->moot = is_dropped(fold, &there);
    return write_old_record(fold, old, error);
}

/* Writes the old records that precede this new record, then the later of the two records with its
 * key. `old` is the next record of the shard; *at_end: no record is left. *ret_refused: the floor
 * refused the new record. */
static enum hf_status write_up_to(struct fold *fold, struct record *new, struct record *old,
                                  bool *at_end, bool *ret_refused, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    int order = -1;
    while (status == HF_OK && !*at_end && (order = view_compare(old->key, new->key)) <= 0) {
        status =
            order < 0 ? write_old_record(fold, old, error) : write_later(fold, old, new, error);
        if (status == HF_OK)
            status = shard_cursor_step(&fold->cursor, old, error);
        *at_end = status == HF_NOT_FOUND;
        if (*at_end)
            status = HF_OK;
        if (order == 0)
            return status;
    }
    *ret_refused = status == HF_OK && is_refused(fold, new);
    if (status != HF_OK || *ret_refused)
        return status;
    return write_new(fold, new, /* key_is_new */ true, error);
}

/* Merges the new records, which are sorted, with those of the shard. */
static enum hf_status merge_records(struct fold *fold, struct record *records, size_t count,
                                    struct hf_error *error)
{
    struct record old = { .bytes = VIEW(""), .key = VIEW("") };
    enum hf_status status = shard_cursor_step(&fold->cursor, &old, error);
    bool at_end = status == HF_NOT_FOUND;
    if (status != HF_OK && !at_end)
        return status;
    for (size_t i = 0, behind; i < count; i = behind) {
        bool refused = false;
        struct record *latest = record_latest(records, i, count, &behind);
        status = write_up_to(fold, latest, &old, &at_end, &refused, error);
        if (status != HF_OK)
            return status;
        if (refused)
            refuse_records(fold, &records[i], behind - i);
        else
            fold->report.superseded += behind - i - 1;
    }
    while (!at_end) {
        status = write_old_record(fold, &old, error);
        if (status == HF_OK)
            status = shard_cursor_step(&fold->cursor, &old, error);
        at_end = status == HF_NOT_FOUND;
        if (status != HF_OK && !at_end)
            return status;
    }
    return HF_OK;
}

/* ---- The swap ------------------------------------------------------------------------ */

/* The tokens of a shard's lock increase with each grant, so a token lower than the shard's belongs
 * to a lease that has ended. This stops a compiler that was suspended for a long time. For the one
 * exception, a lost token counter, see fold_under_lock() in compile.c. */
static enum hf_status check_token(const struct shard_cursor *cursor, uint64_t token,
                                  struct hf_error *error)
{
    if (RULE(STALE_COMPILERS_ARE_FENCED) && cursor->exists && cursor->head.token > token)
        return error_set(error, HF_FENCED,
                         "%s: it was written with a later token, %" PRIu64 "; ours is %" PRIu64,
                         cursor->object, cursor->head.token, token);
    return HF_OK;
}

static enum hf_status put_shard(void *argument, struct hf_error *error)
{
    struct fold *fold = argument;
    const struct shard_cursor *cursor = &fold->cursor;
    struct put_call put = { .key = view_of(cursor->object) };
    const struct hf_client *client = fold->index->client;
    if (client && fold->writer.head.sealed &&
        mono_since(env_now(fold->index->env), fold->evidence.now).us >
            SEAL_AGE_MAX(client_settings(client)->late_bound).us)
        return error_set(error, HF_CONFLICT, "%s: its deletions were sealed too long ago",
                         cursor->object);
    /* This compiler may have been suspended since it last looked (rule 14). */
    if (index_check_mark(fold->index, error) != HF_OK)
        return error->status;
    if (RULE(SHARDS_ARE_SWAPPED) && cursor->exists)
        put.condition = if_match(&cursor->etag);
    /* Without a condition, two compilers could both write a first version, and one would replace
     * the other's records. */
    if (RULE(FIRST_SHARD_IF_ABSENT) && !cursor->exists)
        put.condition = if_absent();
    enum hf_status status = object_writer_put(&fold->writer.writer, fold->index->store,
                                              buffer_view(&fold->line), &put);
    if (status == HF_NOT_FOUND)
        status = error_set(&put.error, HF_CONFLICT, "it is gone");
    if (status == HF_OK)
        return HF_OK;
    *error = put.error;
    error_prefix(error, "%s", cursor->object);
    MUTANT(mutant_takes_shard_for_stored(&status));
    return status;
}

/* The nonce tells our version from all others. */
static enum stored_version look_at_shard(void *argument)
{
    const struct fold *fold = argument;
    struct shard_cursor now;
    struct hf_error ignored;
    const struct shard_cursor *then = &fold->cursor;
    if (shard_cursor_open(&now, fold->index, then->shard, SHARD_READ_SMALL, &ignored) != HF_OK)
        return STORED_UNREADABLE;
    enum stored_version version = STORED_ANOTHER;
    if (now.exists && view_equal(view_of(now.head.nonce), view_of(fold->writer.head.nonce)))
        version = STORED_OURS;
    else if (now.exists == then->exists && (!now.exists || etag_equal(&now.etag, &then->etag)))
        version = STORED_OLD;
    shard_cursor_close(&now);
    return version;
}

static enum hf_status swap_shard(struct fold *fold, struct hf_error *error)
{
    const struct swap swap = { fold->index->env, put_shard, look_at_shard, fold };
    enum hf_status status = shard_writer_end(&fold->writer, &fold->line, error);
    return status == HF_OK ? swap_object(&swap, error) : status;
}

static enum hf_status swap_plain_shard(struct fold *fold, const struct shard_records *new,
                                       struct hf_error *error)
{
    return plain_swap(&(struct plain_fold){ .index = fold->index,
                                            .cursor = &fold->cursor,
                                            .writer = &fold->writer,
                                            .adds_deletions = fold->report.deleted > 0,
                                            .records = new->records,
                                            .count = new->count },
                      error);
}

/* ---- Both ---------------------------------------------------------------------------- */

static enum hf_status begin_writing(struct fold *fold, uint64_t token,
                                    const struct shard_records *new, struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    uint64_t expected = fold->cursor.head.size;
    for (size_t i = 0; i < new->count; i++)
        expected += new->records[i].bytes.size + sizeof RECORD_END - 1;
    env_random_hex(fold->index->env, NONCE_SIZE, nonce);
    enum hf_status status =
        shard_writer_init(&fold->writer, &fold->index->schema, token, nonce, expected, error);
    /* Token and number of writes identify the version, so that statistics never go backwards. */
    fold->writer.head.writes = fold->cursor.head.writes + 1;
    fold->writer.head.plain = fold->index->schema.plain;
    return status;
}

static void end_report(struct fold *fold)
{
    const struct shard_head *head = &fold->writer.head;
    fold->report.records = head->records - (head->plain ? 0 : head->deleted);
    fold->report.deletions = head->deleted;
    fold->report.bytes = fold->line.size + fold->writer.writer.size;
    fold->report.token = head->token;
    fold->report.writes = head->writes;
}

enum hf_status index_fold(struct index *index, uint64_t token, const struct shard_records *new,
                          struct fold_report *ret_report, struct hf_error *error)
{
    return index_fold_and_drop(index, token, new, KEEP_ALL, ret_report, error);
}

enum hf_status index_fold_and_drop(struct index *index, uint64_t token,
                                   const struct shard_records *new, struct span keep,
                                   struct fold_report *ret_report, struct hf_error *error)
{
    struct fold fold = { .index = index,
                         .line = BUFFER_INIT(SHARD_LINE_MAX),
                         .key_space = BUFFER_INIT(INDEX_KEY_BYTES_MAX),
                         .report = { .records_in = new->count } };
    object_writer_init(&fold.writer.writer);
    enum hf_status status =
        shard_cursor_open(&fold.cursor, index, new->shard, SHARD_READ_LARGE, error);
    if (status == HF_OK)
        status = check_token(&fold.cursor, token, error);
    if (status == HF_OK)
        status = begin_writing(&fold, token, new, error);
    if (status == HF_OK && new->count > 1)
        qsort(new->records, new->count, sizeof *new->records, compare_keys);
    if (status == HF_OK) {
        begin_deletions(&fold, keep);
        status = merge_records(&fold, new->records, new->count, error);
    }
    if (status == HF_OK) {
        end_deletions(&fold);
        status = index->schema.plain ? swap_plain_shard(&fold, new, error)
                                     : swap_shard(&fold, error);
    }
    if (status == HF_OK) {
        end_report(&fold);
        *ret_report = fold.report;
    }
    if (status == HF_FENCED)
        *ret_report = (struct fold_report){ .fence = fold.cursor.head.token };
    shard_cursor_close(&fold.cursor);
    shard_writer_release(&fold.writer);
    buffer_release(&fold.line);
    buffer_release(&fold.key_space);
    return status;
}
