/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: a transaction's record: its JSON and its transitions. A decision never changes, and
 * only a pending record can be committed. Pure. */
#include "key/record.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const state_names[] = {
    [TXN_ABSENT] = "absent",
    [TXN_PENDING] = "pending",
    [TXN_COMMIT] = "commit",
    [TXN_ROLLBACK] = "rollback",
};

const char *txn_state_name(enum txn_state state)
{
    return state_names[state];
}

/* Most transactions have two keys. */
#define DECODED_KEYS_FIRST 4

/* ---- Names --------------------------------------------------------------------------- */

bool txn_id_valid(struct view id)
{
    return text_is_hex(id, TXN_ID_SIZE);
}

enum hf_status txn_check_id(struct view id, struct hf_error *error)
{
    if (txn_id_valid(id))
        return HF_OK;
    return error_set(error, HF_INVALID, "a transaction id must be %d hexadecimal digits",
                     TXN_ID_SIZE);
}

void record_key(struct view id, char ret_key[KEY_BYTES_MAX + 1])
{
    snprintf(ret_key, KEY_BYTES_MAX + 1, "%s%.*s", LAYOUT_TXN_FOLDER, VIEW_ARGS(id));
}

void record_entry_key(struct view id, struct view hour, char ret_key[KEY_BYTES_MAX + 1])
{
    snprintf(ret_key, KEY_BYTES_MAX + 1, "%s%.*s/%.*s", LAYOUT_TXN_EXPIRY_FOLDER,
             VIEW_ARGS(hour), VIEW_ARGS(id));
}

static void copy_record_text(char *to, size_t max, struct view text)
{
    check(text.size <= max);
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    to[text.size] = '\0';
}

/* ---- The keys that it names ---------------------------------------------------------- */

static bool is_among_keys(const struct txn_key *keys, size_t count, const struct txn_key *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].name, key->name) == 0)
            return true;
    return false;
}

bool record_names(const struct txn_record *record, const struct txn_key *key)
{
    return is_among_keys(record->keys, record->key_count, key);
}

bool record_is_mark(const struct txn_record *record)
{
    return record->state == TXN_ROLLBACK && record->owner[0] == '\0';
}

/* Makes room for this many keys, or for all that a transaction can have, if that is less. False if
 * out of memory. */
static bool reserve_record_keys(struct txn_record *record, size_t count)
{
    size_t room = count < TXN_KEYS_MAX ? count : TXN_KEYS_MAX;
    if (room <= record->key_room)
        return true;
    struct txn_key *keys = realloc(record->keys, room * sizeof *keys);
    if (!keys)
        return false;
    record->keys = keys;
    record->key_room = room;
    return true;
}

/* Adds the operation's keys. Unless all of them fit, the record is unchanged. */
static enum hf_status add_keys(struct txn_record *record, struct record_op *op)
{
    size_t count = record->key_count;
    if (!reserve_record_keys(record, count + op->key_count))
        return error_no_memory(&op->op.error);
    for (size_t i = 0; i < op->key_count; i++) {
        if (record_names(record, &op->keys[i]))
            continue;
        if (record->key_count == TXN_KEYS_MAX) {
            record->key_count = count;
            return error_set(&op->op.error, HF_INVALID,
                             "a transaction can have at most %d keys", TXN_KEYS_MAX);
        }
        record->keys[record->key_count++] = op->keys[i];
    }
    return HF_OK;
}

/* ---- JSON ---------------------------------------------------------------------------- */

/* The text needs no escapes. `before` ends with the opening quotation mark. */
static void write_plain(struct buffer *text, struct view before, const char *plain)
{
    buffer_append(text, before);
    buffer_append(text, view_of(plain));
    buffer_append_byte(text, '"');
}

static void write_stamp_and_time(struct buffer *text, const char *name, struct stamp stamp,
                                 struct wall_time at)
{
    char of[STAMP_TEXT_MAX];
    write_plain(text, VIEW(",\""), name);
    write_plain(text, VIEW(":\""), stamp_text(stamp, of));
    buffer_append(text, VIEW(",\""));
    buffer_append(text, view_of(name));
    buffer_append(text, VIEW("_ms\":"));
    buffer_append_i64(text, at.us / 1000);
}

static bool is_decided(const struct txn_record *record)
{
    return record->state == TXN_COMMIT || record->state == TXN_ROLLBACK;
}

bool record_encode(const struct txn_record *record, struct view nonce, struct buffer *text)
{
    buffer_append(text, VIEW("{\"format\":\"" LAYOUT_TXN_FORMAT "\",\"write\":"));
    checksum_append_write(text, nonce);
    write_plain(text, VIEW(",\"id\":\""), record->id);
    write_plain(text, VIEW(",\"state\":\""), txn_state_name(record->state));
    if (record->owner[0]) {
        write_plain(text, VIEW(",\"owner\":\""), record->owner);
        buffer_append(text, VIEW(",\"holder\":"));
        json_write_string(text, view_of(record->holder));
        write_stamp_and_time(text, "began", record->began, record->began_at);
    }
    if (record->open)
        buffer_append(text, VIEW(",\"open\":true"));
    if (is_decided(record))
        write_stamp_and_time(text, "decided", record->decided, record->decided_at);
    if (record->restamps > 0)
        buffer_print(text, ",\"restamps\":%u", record->restamps);
    if (record->applied)
        buffer_append(text, VIEW(",\"applied\":true"));
    if (record->key_count > 0)
        buffer_append(text, VIEW(",\"keys\":["));
    for (size_t i = 0; i < record->key_count; i++)
        write_plain(text, i > 0 ? VIEW(",\"") : VIEW("\""), record->keys[i].name);
    if (record->key_count > 0)
        buffer_append_byte(text, ']');
    buffer_append(text, buffer_view(&record->unknown));
    buffer_append(text, VIEW("}\n"));
    return checksum_finish(text);
}

static bool take_record_id(struct json_reader *reader, size_t size, char *ret_text)
{
    struct view text;
    if (!json_take_plain(reader, &text))
        return false;
    if (!text_is_hex(text, size))
        return json_fail(reader, "an id is invalid");
    copy_record_text(ret_text, size, text);
    return true;
}

static bool take_txn_state(struct json_reader *reader, enum txn_state *ret_state)
{
    struct view text;
    if (!json_take_plain(reader, &text))
        return false;
    for (enum txn_state state = TXN_PENDING; state <= TXN_ROLLBACK; state++)
        if (view_equal(text, view_of(state_names[state]))) {
            *ret_state = state;
            return true;
        }
    return json_fail(reader, "the state is unknown");
}

static bool take_record_stamp(struct json_reader *reader, struct stamp *ret_stamp)
{
    struct view text;
    if (!json_take_plain(reader, &text))
        return false;
    return stamp_parse(text, ret_stamp) || json_fail(reader, "a timestamp is invalid");
}

static bool take_time(struct json_reader *reader, struct wall_time *ret_time)
{
    int64_t ms;
    if (!json_take_i64(reader, &ms))
        return false;
    if (ms > MOMENT_FAR / 1000 || ms < -MOMENT_FAR / 1000)
        return json_fail(reader, "a time is out of range");
    *ret_time = (struct wall_time){ ms * 1000 };
    return true;
}

static bool take_holder(struct json_reader *reader, struct txn_record *record)
{
    struct buffer text = BUFFER_INIT(HOLDER_BYTES_MAX);
    record->no_memory = !buffer_reserve(&text, HOLDER_BYTES_MAX);
    bool taken = json_take_string(reader, &text);
    if (taken)
        copy_record_text(record->holder, HOLDER_BYTES_MAX, buffer_view(&text));
    buffer_release(&text);
    return taken;
}

static bool take_keys(struct json_reader *reader, struct txn_record *record)
{
    struct view text;
    if (record->keys)
        return json_fail(reader, "the member 'keys' occurs twice");
    size_t room = DECODED_KEYS_FIRST;
    record->no_memory = !reserve_record_keys(record, room);
    if (record->no_memory)
        return json_fail(reader, "out of memory");
    for (json_enter_array(reader); json_next_element(reader);) {
        if (!json_take_plain(reader, &text))
            return false;
        struct view name = text, ns = view_cut(&name, '/');
        room = record->key_count < room ? room : 2 * room;
        record->no_memory = !reserve_record_keys(record, room);
        if (record->no_memory)
            return json_fail(reader, "out of memory");
        if (record->key_count == TXN_KEYS_MAX || name_check(ns, NULL) != HF_OK ||
            name_check(name, NULL) != HF_OK)
            return json_fail(reader, "a key is invalid, or there are too many");
        copy_record_text(record->keys[record->key_count++].name, TXN_KEY_MAX, text);
    }
    return true;
}

static void take_record_member(struct json_reader *reader, struct view name,
                               struct txn_record *record)
{
    struct view skipped;
    uint64_t restamps;
    if (view_equal(name, VIEW("id")))
        take_record_id(reader, TXN_ID_SIZE, record->id);
    else if (view_equal(name, VIEW("state")))
        take_txn_state(reader, &record->state);
    else if (view_equal(name, VIEW("owner")))
        take_record_id(reader, NONCE_SIZE, record->owner);
    else if (view_equal(name, VIEW("holder")))
        take_holder(reader, record);
    else if (view_equal(name, VIEW("open")))
        json_take_bool(reader, &record->open);
    else if (view_equal(name, VIEW("began")))
        take_record_stamp(reader, &record->began);
    else if (view_equal(name, VIEW("began_ms")))
        take_time(reader, &record->began_at);
    else if (view_equal(name, VIEW("decided")))
        take_record_stamp(reader, &record->decided);
    else if (view_equal(name, VIEW("decided_ms")))
        take_time(reader, &record->decided_at);
    else if (view_equal(name, VIEW("restamps"))) {
        if (json_take_u64(reader, UINT32_MAX, &restamps))
            record->restamps = (unsigned)restamps;
    } else if (view_equal(name, VIEW("applied")))
        json_take_bool(reader, &record->applied);
    else if (view_equal(name, VIEW("keys")))
        take_keys(reader, record);
    else if (view_equal(name, VIEW("write")))
        json_skip(reader, &skipped);
    else if (json_skip(reader, &skipped)) { /* unknown members are kept */
        buffer_print(&record->unknown, ",\"%.*s\":", VIEW_ARGS(name));
        buffer_append(&record->unknown, skipped);
    }
}

/* Whether all members are present and consistent. */
static enum hf_status check_record(const struct txn_record *record, struct view format,
                                   const char *why, struct hf_error *error)
{
    if (format.size > 0 && !view_equal(format, VIEW(LAYOUT_TXN_FORMAT)) &&
        view_starts_with(format, VIEW("holdfast.txn/")))
        return error_set(error, HF_UNSUPPORTED,
                         "the transaction record has the unknown format %.*s; upgrade Holdfast",
                         VIEW_ARGS(view_first(format, 40)));
    if (record->no_memory || record->unknown.failed)
        return error_no_memory(error);
    if (!why && !view_equal(format, VIEW(LAYOUT_TXN_FORMAT)))
        why = "the format is missing";
    if (!why && (record->id[0] == '\0' || record->state == TXN_ABSENT))
        why = "the id or the state is missing";
    if (!why && record->state == TXN_PENDING && record->owner[0] == '\0')
        why = "the owner is missing";
    if (why)
        return error_set(error, HF_CORRUPT, "the transaction record is damaged: %s", why);
    return HF_OK;
}

enum hf_status record_decode(struct view text, struct txn_record *ret_record,
                             struct hf_error *error)
{
    struct txn_record record = { .unknown = BUFFER_INIT(RECORD_BYTES_MAX) };
    struct json_reader reader = json_read(text);
    struct view name, format = VIEW("");
    if (checksum_check(text) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT,
                         "the transaction record is damaged: " CHECKSUM_MISTAKE);
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &format);
        else
            take_record_member(&reader, name, &record);
    }
    json_end(&reader);
    enum hf_status status = check_record(&record, format, reader.why, error);
    if (status == HF_OK)
        *ret_record = record;
    else
        record_release(&record);
    return status;
}

void record_release(struct txn_record *record)
{
    free(record->keys);
    buffer_release(&record->unknown);
    *record = (struct txn_record){ .state = TXN_ABSENT };
}

/* ---- The document -------------------------------------------------------------------- */

static bool stamps_equal(struct stamp a, struct stamp b)
{
    return a.clock == b.clock && a.us == b.us;
}

static enum hf_status record_doc_decode(struct view bytes, struct mono_time arrived,
                                        const void *previous, void **ret_body,
                                        struct hf_error *error)
{
    const struct txn_record *before = previous;
    struct txn_record *record = malloc(sizeof *record);
    if (!record)
        return error_no_memory(error);
    enum hf_status status = record_decode(bytes, record, error);
    if (status != HF_OK) {
        free(record);
        return status;
    }
    bool same = before && before->state == record->state &&
                stamps_equal(before->began, record->began) &&
                stamps_equal(before->decided, record->decided);
    record->seen = same ? before->seen : arrived;
    *ret_body = record;
    return HF_OK;
}

static void *record_doc_birth(void *context)
{
    (void)context;
    struct txn_record *record = calloc(1, sizeof *record);
    if (record)
        record->unknown = BUFFER_INIT(RECORD_BYTES_MAX);
    return record;
}

static bool record_doc_encode(const void *body, struct view nonce, struct buffer *text)
{
    return record_encode(body, nonce, text);
}

static void record_doc_free(void *body)
{
    record_release(body);
    free(body);
}

const struct doc_type record_doc_type = {
    .bytes_max = RECORD_BYTES_MAX,
    .decode = record_doc_decode,
    .birth = record_doc_birth,
    .encode = record_doc_encode,
    .free = record_doc_free,
};

/* ---- Transitions --------------------------------------------------------------------- */

/* A begin recognises the record of its own earlier attempt by the owner's nonce. */
static enum hf_status apply_begin(struct record_op *op, struct txn_record *record,
                                  const struct evidence *evidence)
{
    if (record->state != TXN_ABSENT && view_equal(view_of(record->owner), op->owner) &&
        record->state == TXN_PENDING)
        return HF_OK;
    if (record->state != TXN_ABSENT)
        return error_set(&op->op.error, HF_MISMATCH, "the transaction is already %s",
                         record->state == TXN_PENDING ? "begun" : "decided");
    copy_record_text(record->id, TXN_ID_SIZE, op->id);
    copy_record_text(record->owner, NONCE_SIZE, op->owner);
    copy_record_text(record->holder, HOLDER_BYTES_MAX, op->holder);
    record->state = TXN_PENDING;
    record->open = op->open;
    record->began = stamp_now(evidence);
    record->began_at = evidence->wall;
    record->seen = evidence->now;
    op->op.changed = true;
    return HF_OK;
}

static enum hf_status apply_enlist(struct record_op *op, struct txn_record *record)
{
    if (record->state != TXN_PENDING)
        return error_set(&op->op.error, HF_MISMATCH, "the transaction is decided: %s",
                         record->state == TXN_COMMIT ? "commit" : "rollback");
    size_t count = record->key_count;
    enum hf_status status = add_keys(record, op);
    op->op.changed = record->key_count > count;
    return status;
}

/* Whether the record names a key that the operation does not know, because another process has
 * taken it for the transaction. */
static bool names_others(const struct txn_record *record, const struct record_op *op)
{
    for (size_t i = 0; i < record->key_count; i++)
        if (!is_among_keys(op->keys, op->key_count, &record->keys[i]))
            return true;
    return false;
}

/* A decision is final, and only a pending record can be committed. A client that wants a key of an
 * abandoned transaction first rolls the transaction back here. A commit that is still in flight
 * then fails. */
static enum hf_status apply_decide(struct record_op *op, struct txn_record *record,
                                   const struct evidence *evidence)
{
    MUTANT(mutant_commits_any_record(op, record));
    bool marks = record->state == TXN_ABSENT && op->decision == TXN_ROLLBACK && op->mark;
    if (op->settles && record->state != TXN_PENDING)
        return error_set(&op->op.error, HF_MISMATCH, "the transaction is already decided");
    if (record->state != TXN_PENDING && !marks)
        return HF_OK;
    if (op->decision == TXN_COMMIT && names_others(record, op))
        return error_set(&op->op.error, HF_CONFLICT,
                         "another process has taken a key for the transaction");
    enum hf_status status = add_keys(record, op);
    if (status != HF_OK)
        return status;
    copy_record_text(record->id, TXN_ID_SIZE, op->id);
    record->state = op->decision;
    record->decided = stamp_now(evidence);
    record->decided_at = evidence->wall;
    record->restamps = 0;
    record->applied = record->applied || op->settles;
    record->seen = evidence->now;
    op->op.changed = true;
    return HF_OK;
}

/* A process that has settled all the keys it knows may not know all keys, because another process
 * may have committed the transaction with more. */
static void apply_applied(struct record_op *op, struct txn_record *record)
{
    op->op.changed =
        record->state == TXN_COMMIT && !record->applied && !names_others(record, op);
    record->applied = record->applied || op->op.changed;
}

static void apply_restamp(struct record_op *op, struct txn_record *record,
                          const struct evidence *evidence)
{
    struct stamp *stamp = is_decided(record) ? &record->decided : &record->began;
    struct stamp now = stamp_now(evidence);
    if (record->state == TXN_ABSENT || now.clock == 0 || stamp->clock == now.clock ||
        record->restamps >= STAMP_RESTAMPS_MAX)
        return;
    *stamp = now;
    record->restamps++;
    record->seen = evidence->now;
    op->op.changed = true;
}

static enum hf_status apply_record_op(struct doc_op *base, void *body,
                                      const struct evidence *evidence)
{
    struct record_op *op = (struct record_op *)(void *)base;
    struct txn_record *record = body;
    enum hf_status status = HF_OK;
    switch (op->kind) {
    case RECORD_BEGIN: status = apply_begin(op, record, evidence); break;
    case RECORD_ENLIST: status = apply_enlist(op, record); break;
    case RECORD_DECIDE: status = apply_decide(op, record, evidence); break;
    case RECORD_APPLIED: apply_applied(op, record); break;
    case RECORD_RESTAMP: apply_restamp(op, record, evidence); break;
    default: check_unreachable();
    }
    op->recorded = record->state;
    op->marked = record_is_mark(record);
    return status;
}

void record_op_init(struct record_op *op, enum record_op_kind kind, struct view id,
                    struct mono_time deadline)
{
    *op = (struct record_op){ .kind = kind, .id = id };
    op->op.apply = apply_record_op;
    op->op.deadline = deadline;
    op->op.quiet = true; /* clients that wait for a key watch the key's own document */
}

bool record_may_purge(const struct txn_record *record, const struct lease_settings *settings,
                      const struct evidence *evidence)
{
    bool early = RULE(RECORD_PURGED_AFTER_D) &&
                 !stamp_passed(record->decided, record->seen, settings->late_bound,
                               settings->skew_tolerance, evidence);
    return is_decided(record) && !early;
}
