/* record.c: the record of a transaction: its JSON and its moves. Pure; what a move must not do is
 * said beside it, since all of a transaction hangs on this one document. */
#include "key/record.h"

#include "base/check.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"

#include <inttypes.h>
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

/* ---- Names --------------------------------------------------------------------------- */

bool txn_id_valid(struct view id)
{
    return text_is_hex(id, TXN_ID_SIZE);
}

enum hf_status txn_check_id(struct view id, struct hf_error *error)
{
    if (txn_id_valid(id))
        return HF_OK;
    return error_set(error, HF_INVALID, "the id of a transaction is %d hexadecimal digits",
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

static void copy_text(char *to, size_t max, struct view text)
{
    check(text.size <= max);
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    to[text.size] = '\0';
}

/* ---- The keys that it names ---------------------------------------------------------- */

bool record_names(const struct txn_record *record, const struct txn_key *key)
{
    for (size_t i = 0; i < record->key_count; i++)
        if (strcmp(record->keys[i].name, key->name) == 0)
            return true;
    return false;
}

bool record_is_mark(const struct txn_record *record)
{
    return record->state == TXN_ROLLBACK && record->owner[0] == '\0';
}

static bool all_named(const struct txn_record *record, const struct record_op *op)
{
    for (size_t i = 0; i < op->key_count; i++)
        if (!record_names(record, &op->keys[i]))
            return false;
    return true;
}

/* Room for all that one can name, at the first key. False without memory. */
static bool have_room(struct txn_record *record)
{
    if (!record->keys)
        record->keys = calloc(TXN_KEYS_MAX, sizeof *record->keys);
    return record->keys != NULL;
}

/* The record is left as it was unless all of them fit. */
static enum hf_status add_keys(struct txn_record *record, struct record_op *op)
{
    size_t count = record->key_count;
    if (op->key_count > 0 && !have_room(record))
        return error_no_memory(&op->op.error);
    for (size_t i = 0; i < op->key_count; i++) {
        if (record_names(record, &op->keys[i]))
            continue;
        if (record->key_count == TXN_KEYS_MAX) {
            record->key_count = count;
            return error_set(&op->op.error, HF_INVALID, "a transaction has at most %d keys",
                             TXN_KEYS_MAX);
        }
        record->keys[record->key_count++] = op->keys[i];
    }
    return HF_OK;
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void write_stamp(struct buffer *text, const char *name, struct stamp stamp,
                        struct wall_time at)
{
    char of[STAMP_TEXT_MAX];
    buffer_print(text, ",\"%s\":\"%s\",\"%s_ms\":%" PRId64, name, stamp_text(stamp, of), name,
                 at.us / 1000);
}

static bool is_decided(const struct txn_record *record)
{
    return record->state == TXN_COMMIT || record->state == TXN_ROLLBACK;
}

bool record_encode(const struct txn_record *record, struct view nonce, struct buffer *text)
{
    buffer_print(text, "{\"format\":\"" LAYOUT_TXN_FORMAT "\",\"id\":\"%s\",\"state\":\"%s\"",
                 record->id, txn_state_name(record->state));
    if (record->owner[0]) {
        buffer_print(text, ",\"owner\":\"%s\",\"holder\":", record->owner);
        json_write_string(text, view_of(record->holder));
        write_stamp(text, "began", record->began, record->began_at);
    }
    if (record->open)
        buffer_append(text, VIEW(",\"open\":true"));
    if (is_decided(record))
        write_stamp(text, "decided", record->decided, record->decided_at);
    if (record->restamps > 0)
        buffer_print(text, ",\"restamps\":%u", record->restamps);
    if (record->applied)
        buffer_append(text, VIEW(",\"applied\":true"));
    if (record->key_count > 0)
        buffer_append(text, VIEW(",\"keys\":["));
    for (size_t i = 0; i < record->key_count; i++)
        buffer_print(text, "%s\"%s\"", i > 0 ? "," : "", record->keys[i].name);
    if (record->key_count > 0)
        buffer_append_byte(text, ']');
    buffer_append(text, buffer_view(&record->unknown));
    buffer_print(text, ",\"write\":\"%.*s\"}\n", VIEW_ARGS(nonce));
    return !text->failed;
}

static bool take_hex(struct json_reader *reader, size_t size, char *ret_text)
{
    struct view text;
    if (!json_take_plain(reader, &text))
        return false;
    if (!text_is_hex(text, size))
        return json_fail(reader, "an id is not one");
    copy_text(ret_text, size, text);
    return true;
}

static bool take_state(struct json_reader *reader, enum txn_state *ret_state)
{
    struct view text;
    if (!json_take_plain(reader, &text))
        return false;
    for (enum txn_state state = TXN_PENDING; state <= TXN_ROLLBACK; state++)
        if (view_equal(text, view_of(state_names[state]))) {
            *ret_state = state;
            return true;
        }
    return json_fail(reader, "its state is none");
}

static bool take_stamp(struct json_reader *reader, struct stamp *ret_stamp)
{
    struct view text;
    if (!json_take_plain(reader, &text))
        return false;
    return stamp_parse(text, ret_stamp) || json_fail(reader, "a stamp is none");
}

static bool take_time(struct json_reader *reader, struct wall_time *ret_time)
{
    int64_t ms;
    if (!json_take_i64(reader, &ms))
        return false;
    if (ms > MOMENT_FAR / 1000 || ms < -MOMENT_FAR / 1000)
        return json_fail(reader, "a time is none");
    *ret_time = (struct wall_time){ ms * 1000 };
    return true;
}

static bool take_holder(struct json_reader *reader, struct txn_record *record)
{
    struct buffer text = BUFFER_INIT(HOLDER_BYTES_MAX);
    record->no_memory = !buffer_reserve(&text, HOLDER_BYTES_MAX);
    bool taken = json_take_string(reader, &text);
    if (taken)
        copy_text(record->holder, HOLDER_BYTES_MAX, buffer_view(&text));
    buffer_release(&text);
    return taken;
}

/* "<ns>/<key>". */
static bool is_key(struct view text)
{
    struct view name = text, ns = view_cut(&name, '/');
    return name_check(ns, NULL) == HF_OK && name_check(name, NULL) == HF_OK;
}

static bool take_keys(struct json_reader *reader, struct txn_record *record)
{
    struct view text;
    if (record->keys)
        return json_fail(reader, "its keys stand there twice");
    if (!have_room(record)) {
        record->no_memory = true;
        return json_fail(reader, "out of memory");
    }
    for (json_enter_array(reader); json_next_element(reader);) {
        if (!json_take_plain(reader, &text))
            return false;
        if (record->key_count == TXN_KEYS_MAX || !is_key(text))
            return json_fail(reader, "its keys are none, or too many");
        copy_text(record->keys[record->key_count++].name, TXN_KEY_MAX, text);
    }
    return true;
}

static void take_unknown(struct json_reader *reader, struct view name,
                         struct txn_record *record)
{
    struct view raw;
    if (!json_skip(reader, &raw))
        return;
    buffer_print(&record->unknown, ",\"%.*s\":", VIEW_ARGS(name));
    buffer_append(&record->unknown, raw);
}

static void take_member(struct json_reader *reader, struct view name, struct txn_record *record)
{
    struct view skipped;
    uint64_t restamps;
    if (view_equal(name, VIEW("id")))
        take_hex(reader, TXN_ID_SIZE, record->id);
    else if (view_equal(name, VIEW("state")))
        take_state(reader, &record->state);
    else if (view_equal(name, VIEW("owner")))
        take_hex(reader, NONCE_SIZE, record->owner);
    else if (view_equal(name, VIEW("holder")))
        take_holder(reader, record);
    else if (view_equal(name, VIEW("open")))
        json_take_bool(reader, &record->open);
    else if (view_equal(name, VIEW("began")))
        take_stamp(reader, &record->began);
    else if (view_equal(name, VIEW("began_ms")))
        take_time(reader, &record->began_at);
    else if (view_equal(name, VIEW("decided")))
        take_stamp(reader, &record->decided);
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
    else
        take_unknown(reader, name, record);
}

/* Whether all of it was there, and fits together. */
static enum hf_status check_read(const struct txn_record *record, struct view format,
                                 const char *why, struct hf_error *error)
{
    if (format.size > 0 && !view_equal(format, VIEW(LAYOUT_TXN_FORMAT)) &&
        view_starts_with(format, VIEW("holdfast.txn/")))
        return error_set(error, HF_UNSUPPORTED,
                         "the record of the transaction is of a later version: %.*s",
                         VIEW_ARGS(view_first(format, 40)));
    if (record->no_memory || record->unknown.failed)
        return error_no_memory(error);
    if (!why && !view_equal(format, VIEW(LAYOUT_TXN_FORMAT)))
        why = "it has no format";
    if (!why && (record->id[0] == '\0' || record->state == TXN_ABSENT))
        why = "it has no id, or no state";
    if (!why && record->state == TXN_PENDING && record->owner[0] == '\0')
        why = "nobody has begun it";
    if (why)
        return error_set(error, HF_CORRUPT, "the record of a transaction is damaged: %s", why);
    return HF_OK;
}

enum hf_status record_decode(struct view text, struct txn_record *ret_record,
                             struct hf_error *error)
{
    struct txn_record record = { .unknown = BUFFER_INIT(RECORD_BYTES_MAX) };
    struct json_reader reader = json_read(text);
    struct view name, format = VIEW("");
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &format);
        else
            take_member(&reader, name, &record);
    }
    json_end(&reader);
    enum hf_status status = check_read(&record, format, reader.why, error);
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

static enum hf_status doc_decode(struct view bytes, struct mono_time arrived,
                                 const void *previous, void **ret_body, struct hf_error *error)
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

static enum hf_status doc_birth(void *context, struct view key, struct mono_time deadline,
                                void **ret_body, struct etag *ret_etag, struct hf_error *error)
{
    (void)context;
    (void)key;
    (void)deadline;
    (void)ret_etag;
    struct txn_record *record = calloc(1, sizeof *record);
    if (!record)
        return error_no_memory(error);
    record->unknown = BUFFER_INIT(RECORD_BYTES_MAX);
    *ret_body = record;
    return HF_OK;
}

static bool doc_encode(const void *body, struct view nonce, struct buffer *text)
{
    return record_encode(body, nonce, text);
}

static void doc_release(void *body)
{
    record_release(body);
    free(body);
}

const struct doc_type record_doc_type = {
    .bytes_max = RECORD_BYTES_MAX,
    .decode = doc_decode,
    .birth = doc_birth,
    .encode = doc_encode,
    .free = doc_release,
};

/* ---- Moves --------------------------------------------------------------------------- */

/* By the owner's nonce a begin knows the record of an attempt of its own that had no answer. */
static enum hf_status begin(struct record_op *op, struct txn_record *record,
                            const struct evidence *evidence)
{
    if (record->state != TXN_ABSENT && view_equal(view_of(record->owner), op->owner) &&
        record->state == TXN_PENDING)
        return HF_OK;
    if (record->state != TXN_ABSENT)
        return error_set(&op->op.error, HF_MISMATCH, "the transaction is %s already",
                         record->state == TXN_PENDING ? "begun" : "decided");
    copy_text(record->id, TXN_ID_SIZE, op->id);
    copy_text(record->owner, NONCE_SIZE, op->owner);
    copy_text(record->holder, HOLDER_BYTES_MAX, op->holder);
    record->state = TXN_PENDING;
    record->open = op->open;
    record->began = stamp_now(evidence);
    record->began_at = evidence->wall;
    record->seen = evidence->now;
    op->op.changed = true;
    return HF_OK;
}

static enum hf_status enlist(struct record_op *op, struct txn_record *record)
{
    bool late = record->state == TXN_COMMIT && !RULE(PARTICIPANTS_WITH_THE_DECISION);
    if (record->state != TXN_PENDING && !late)
        return error_set(&op->op.error, HF_MISMATCH, "the transaction is decided: %s",
                         record->state == TXN_COMMIT ? "commit" : "rollback");
    if (all_named(record, op))
        return HF_OK;
    enum hf_status status = add_keys(record, op);
    op->op.changed = status == HF_OK;
    return status;
}

/* Whether somebody else has taken a key for it that the operation does not know of. */
static bool names_others(const struct txn_record *record, const struct record_op *op)
{
    for (size_t i = 0; i < record->key_count; i++) {
        bool known = false;
        for (size_t j = 0; j < op->key_count && !known; j++)
            known = strcmp(record->keys[i].name, op->keys[j].name) == 0;
        if (!known)
            return true;
    }
    return false;
}

/* A decision is for ever, and only a record that is known to be pending can be committed: who
 * wants a key of a transaction that has come to nothing has rolled it back here before it went on
 * with that key. */
static bool may_decide(const struct record_op *op, const struct txn_record *record)
{
    if (record->state == TXN_PENDING)
        return true;
    if (op->decision == TXN_COMMIT)
        return record->state != TXN_COMMIT && !RULE(COMMIT_NEEDS_PENDING);
    return record->state == TXN_ABSENT && op->mark;
}

static enum hf_status decide(struct record_op *op, struct txn_record *record,
                             const struct evidence *evidence)
{
    if (!may_decide(op, record))
        return HF_OK;
    if (op->decision == TXN_COMMIT && names_others(record, op))
        return error_set(&op->op.error, HF_CONFLICT,
                         "somebody else has taken a key for the transaction");
    enum hf_status status = add_keys(record, op);
    if (status != HF_OK)
        return status;
    copy_text(record->id, TXN_ID_SIZE, op->id);
    record->state = op->decision;
    record->decided = stamp_now(evidence);
    record->decided_at = evidence->wall;
    record->restamps = 0;
    record->seen = evidence->now;
    op->op.changed = true;
    return HF_OK;
}

/* Who settled what it knew of need not know all: another may have committed it, with more. */
static void note_applied(struct record_op *op, struct txn_record *record)
{
    op->op.changed =
        record->state == TXN_COMMIT && !record->applied && !names_others(record, op);
    record->applied = record->applied || op->op.changed;
}

static void restamp(struct record_op *op, struct txn_record *record,
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

static enum hf_status apply(struct doc_op *base, void *body, const struct evidence *evidence)
{
    struct record_op *op = (struct record_op *)(void *)base;
    struct txn_record *record = body;
    enum hf_status status = HF_OK;
    switch (op->kind) {
    case RECORD_BEGIN: status = begin(op, record, evidence); break;
    case RECORD_ENLIST: status = enlist(op, record); break;
    case RECORD_DECIDE: status = decide(op, record, evidence); break;
    case RECORD_APPLIED: note_applied(op, record); break;
    case RECORD_RESTAMP: restamp(op, record, evidence); break;
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
    op->op.apply = apply;
    op->op.deadline = deadline;
    op->op.quiet = true; /* who waits for a key waits for its document */
}

bool record_may_purge(const struct txn_record *record, const struct lease_settings *settings,
                      const struct evidence *evidence)
{
    if (!is_decided(record))
        return false;
    return stamp_passed(record->decided, record->seen, settings->late_bound,
                        settings->skew_tolerance, evidence) ||
           !RULE(RECORD_PURGED_AFTER_D);
}
