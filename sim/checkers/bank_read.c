/* SPDX-License-Identifier: Apache-2.0 */
/* bank_read.c: parses key documents and decision records as docs/formats.md describes them. It is
 * independent of the library's parser, so it does not share that parser's bugs. */
#include "base/json.h"
#include "base/parse.h"
#include "sim/checkers/bank_inside.h"

bool banked_text_read(struct view text, uint64_t *ret_operation, int64_t *ret_balance)
{
    struct view operation = view_cut(&text, ' ');
    struct view balance = view_cut(&text, ' ');
    bool negative = view_starts_with(balance, VIEW("-"));
    uint64_t amount;
    if (parse_u64(operation, UINT64_MAX, ret_operation, NULL) != HF_OK ||
        parse_u64(view_from(balance, negative ? 1 : 0), INT64_MAX, &amount, NULL) != HF_OK)
        return false;
    *ret_balance = negative ? -(int64_t)amount : (int64_t)amount;
    return *ret_operation > 0;
}

/* Reads a string of at most this many bytes, and terminates it with a NUL. */
static void take_word(struct json_reader *r, char *word, size_t size_max)
{
    struct view text;
    if (!json_take_plain(r, &text))
        return;
    if (text.size > size_max) {
        json_fail(r, "a word that is too long");
        return;
    }
    memcpy(word, text.data, text.size);
    word[text.size] = '\0';
}

static void read_text(struct json_reader *r, struct banked_version *version)
{
    struct view text;
    if (!json_take_plain(r, &text))
        return;
    if (!banked_text_read(text, &version->operation, &version->balance))
        json_fail(r, "a state that nobody writes");
    else if (text.size != version->size)
        json_fail(r, "a state of another size than it says");
}

/* "size" comes before "text". */
static void read_state_version(struct json_reader *r, struct banked_version *version)
{
    struct view name, raw;
    for (json_enter_object(r); json_next_member(r, &name);)
        if (view_equal(name, VIEW("version")))
            json_take_u64(r, UINT64_MAX, &version->number);
        else if (view_equal(name, VIEW("token")))
            json_take_u64(r, UINT64_MAX, &version->token);
        else if (view_equal(name, VIEW("size")))
            json_take_u64(r, UINT64_MAX, &version->size);
        else if (view_equal(name, VIEW("etag")))
            take_word(r, version->etag, BANKED_ETAG_SIZE);
        else if (view_equal(name, VIEW("body")))
            json_take_bool(r, &version->has_body);
        else if (view_equal(name, VIEW("removed")))
            json_take_bool(r, &version->removed);
        else if (view_equal(name, VIEW("text")))
            read_text(r, version);
        else
            json_skip(r, &raw);
    if (!r->why && version->operation == 0 && !version->has_body && !version->removed)
        json_fail(r, "a version that holds nothing");
}

static void read_stage(struct json_reader *r, struct banked_stage *stage)
{
    struct view name, raw;
    stage->there = true;
    for (json_enter_object(r); json_next_member(r, &name);)
        if (view_equal(name, VIEW("txn")))
            take_word(r, stage->txn, BANKED_ID_SIZE);
        else if (view_equal(name, VIEW("token")))
            json_take_u64(r, UINT64_MAX, &stage->token);
        else if (view_equal(name, VIEW("next"))) {
            stage->changes = true;
            read_state_version(r, &stage->next);
        } else
            json_skip(r, &raw);
}

static void read_state(struct json_reader *r, struct banked_state *state)
{
    struct view name, raw;
    for (json_enter_object(r); json_next_member(r, &name);)
        if (view_equal(name, VIEW("now")))
            read_state_version(r, &state->now);
        else if (view_equal(name, VIEW("stage")))
            read_stage(r, &state->stage);
        else if (view_equal(name, VIEW("lost")))
            json_fail(r, "a state that is lost");
        else
            json_skip(r, &raw);
}

const char *banked_state_read(struct view document, struct banked_state *ret_state)
{
    struct json_reader r = json_read(document);
    struct view name, raw;
    *ret_state = (struct banked_state){ .now = { .number = 0 } };
    for (json_enter_object(&r); json_next_member(&r, &name);)
        if (view_equal(name, VIEW("state")))
            read_state(&r, ret_state);
        else
            json_skip(&r, &raw);
    return json_end(&r) ? NULL : r.why;
}

static void read_decision(struct json_reader *r, struct banked_record_text *record)
{
    struct view word;
    if (!json_take_plain(r, &word))
        return;
    if (view_equal(word, VIEW("pending")))
        record->record = RECORD_IS_PENDING;
    else if (view_equal(word, VIEW("commit")))
        record->record = RECORD_COMMITS;
    else if (view_equal(word, VIEW("rollback")))
        record->record = RECORD_ROLLS_BACK;
    else
        json_fail(r, "a decision that there is not");
}

static void read_keys(struct json_reader *r, struct banked_record_text *record)
{
    struct view key;
    for (json_enter_array(r); json_next_element(r) && json_take_plain(r, &key);)
        if (record->key_count <= BANK_KEYS_MAX)
            record->keys[record->key_count++] = key;
}

const char *banked_record_read(struct view text, struct banked_record_text *ret_record)
{
    struct json_reader r = json_read(text);
    struct view name, raw;
    *ret_record = (struct banked_record_text){ .record = RECORD_IS_ABSENT };
    for (json_enter_object(&r); json_next_member(&r, &name);)
        if (view_equal(name, VIEW("state")))
            read_decision(&r, ret_record);
        else if (view_equal(name, VIEW("id")))
            json_take_plain(&r, &ret_record->id);
        else if (view_equal(name, VIEW("keys")))
            read_keys(&r, ret_record);
        else
            json_skip(&r, &raw);
    if (!r.why && ret_record->record == RECORD_IS_ABSENT)
        json_fail(&r, "no decision");
    return json_end(&r) ? NULL : r.why;
}
