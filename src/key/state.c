/* SPDX-License-Identifier: Apache-2.0 */
/* state.c: the state of a key: its transitions and its JSON. No body is deleted while a version
 * names it: a body becomes old only in the transition that drops its name. Pure. */
#include "key/state.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "lease/table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* The JSON of a state. One of "text", "base64", "body" and "removed" states where the bytes of a
 * version are:
 *
 *   {"now":{"version":7,"token":4294967299,"etag":"<32 digits>","size":5,"updated_ms":...,
 *     "text":"hello"},
 *    "stage":{"txn":"<id>","token":4294967301,"next":{...}},
 *    "old":["4294967298-<32 digits>"],
 *    "recent":{"version":6,"etags":"<4 digits><4 digits>"}} */

/* The maximum size of a version or stage without its bytes and unknown members. */
#define FIELDS_MAX ((size_t)320)

/* A byte of text takes at most two bytes in JSON. Content that would take more is written as
 * base64. */
static_assert(2 * (2 * STATE_INLINE_MAX + FIELDS_MAX) + FIELDS_MAX +
                      STATE_OLD_MAX * (BODY_NAME_MAX + 3) + FIELDS_MAX +
                      STATE_RECENT_MAX * STATE_RECENT_DIGITS <
                  TABLE_STATE_MAX / 2 + TABLE_STATE_MAX / 8,
              "a state fits, with room for members that we do not know");

void state_init(struct key_state *state)
{
    *state = (struct key_state){ .space = BUFFER_INIT(TABLE_STATE_MAX) };
}

void state_release(struct key_state *state)
{
    buffer_release(&state->space);
    state_init(state);
}

/* ---- Names of bodies ----------------------------------------------------------------- */

const char *body_name_text(const struct body_name *name, char text[BODY_NAME_MAX + 1])
{
    int size = snprintf(text, BODY_NAME_MAX + 1, "%" PRIu64 "-%s", name->token, name->etag);
    check(size > 0 && size <= BODY_NAME_MAX);
    return text;
}

bool body_name_parse(struct view text, struct body_name *ret_name)
{
    struct body_name name;
    struct view token = view_cut(&text, '-');
    bool plain = token.size == 1 || (token.size > 1 && token.data[0] != '0');
    if (!plain || !text_is_hex(text, NONCE_SIZE) ||
        parse_u64(token, UINT64_MAX, &name.token, NULL) != HF_OK)
        return false;
    memcpy(name.etag, text.data, NONCE_SIZE);
    name.etag[NONCE_SIZE] = '\0';
    *ret_name = name;
    return true;
}

static bool is_body_of(const struct state_version *version, const struct body_name *name)
{
    return version->has_body && version->token == name->token &&
           strcmp(version->etag, name->etag) == 0;
}

bool state_names_body(const struct key_state *state, const struct body_name *name)
{
    bool staged = state->staged && state->stage.changes;
    return is_body_of(&state->now, name) || (staged && is_body_of(&state->stage.next, name));
}

/* ---- Transitions --------------------------------------------------------------------- */

/* Adds the body of a version that the state no longer names to the list of old bodies. */
static void retire_body(struct key_state *state, const struct state_version *version)
{
    struct body_name name = { .token = version->token };
    memcpy(name.etag, version->etag, sizeof name.etag);
    if (!version->has_body || state_names_body(state, &name))
        return;
    if (state->old_count == STATE_OLD_MAX)
        memmove(&state->old[0], &state->old[1], --state->old_count * sizeof *state->old);
    state->old[state->old_count++] = name;
}

/* The last version number of a lost state is unknown, so the new version gets its token as its
 * number. This number is new, because the damaged table was replaced by one with higher tokens. */
static uint64_t next_number(const struct key_state *state, const struct state_version *version)
{
    return state->lost ? version->token : state->now.number + 1;
}

void state_publish(struct key_state *state, const struct state_version *version)
{
    struct state_version before = state->now;
    struct state_version now = *version; /* copied, because it may be the stage's own */
    now.number = next_number(state, version);
    state->now = now;
    state->lost = false;
    retire_body(state, &before);
}

void state_remember(struct key_state *state)
{
    struct state_recent *recent = &state->recent;
    bool follows = recent->count > 0 && recent->number + 1 == state->now.number;
    if (state->now.number == 0)
        return;
    if (!follows)
        recent->count = 0;
    if (recent->count == STATE_RECENT_MAX)
        recent->count--;
    memmove(recent->digits + 1, recent->digits, recent->count * sizeof recent->digits[0]);
    memcpy(recent->digits[0], state->now.etag, sizeof recent->digits[0]);
    recent->number = state->now.number;
    recent->count++;
}

/* Digits that are equal prove nothing. */
bool state_shows_other(const struct key_state *state, uint64_t number, const char *etag)
{
    const struct state_recent *recent = &state->recent;
    if (number == state->now.number)
        return strcmp(state->now.etag, etag) != 0;
    if (number > recent->number || recent->number - number >= recent->count)
        return false;
    return memcmp(recent->digits[recent->number - number], etag, STATE_RECENT_DIGITS) != 0;
}

void state_set_stage(struct key_state *state, const struct state_stage *stage)
{
    struct state_stage put = *stage;
    if (put.changes)
        put.next.number = next_number(state, &put.next);
    struct state_stage before = state->stage;
    bool had = state->staged && before.changes;
    state->stage = put;
    state->staged = true;
    if (had)
        retire_body(state, &before.next);
}

void state_promote(struct key_state *state)
{
    check(state->staged);
    state->staged = false;
    if (state->stage.changes)
        state_publish(state, &state->stage.next);
    state->stage = (struct state_stage){ .token = 0 };
}

void state_discard(struct key_state *state)
{
    check(state->staged);
    struct state_stage before = state->stage;
    state->staged = false;
    state->stage = (struct state_stage){ .token = 0 };
    if (before.changes)
        retire_body(state, &before.next);
}

bool body_is_among(const struct body_name *body, const struct body_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (names[i].token == body->token && strcmp(names[i].etag, body->etag) == 0)
            return true;
    return false;
}

bool state_forget_old(struct key_state *state, const struct body_name *names, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->old_count; i++)
        if (!body_is_among(&state->old[i], names, count))
            state->old[kept++] = state->old[i];
    bool changed = kept < state->old_count;
    state->old_count = kept;
    return changed;
}

const struct state_version *state_shown(const struct key_state *state, bool committed)
{
    bool staged = state->staged && state->stage.changes;
    return committed && staged ? &state->stage.next : &state->now;
}

/* ---- Writing ------------------------------------------------------------------------- */

/* Whether the bytes can be written as text. Control characters would take up to six bytes each. */
static bool is_plain_text(struct view bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        if ((unsigned char)bytes.data[i] < ' ' && !strchr("\b\f\n\r\t", bytes.data[i]))
            return false;
    return utf8_is_text(bytes);
}

static void write_base64(struct buffer *text, struct view bytes)
{
    buffer_append(text, VIEW(",\"base64\":\""));
    if (buffer_reserve(text, BASE64_SIZE(bytes.size))) {
        base64_encode(bytes, text->data + text->size);
        text->size += BASE64_SIZE(bytes.size);
    }
    buffer_append_byte(text, '"');
}

static void write_bytes(struct buffer *text, const struct state_version *version)
{
    if (version->removed) {
        buffer_append(text, VIEW(",\"removed\":true"));
    } else if (version->has_body) {
        buffer_append(text, VIEW(",\"body\":true"));
    } else if (is_plain_text(version->bytes)) {
        buffer_append(text, VIEW(",\"text\":"));
        json_write_string(text, version->bytes);
    } else {
        write_base64(text, version->bytes);
    }
}

static void write_version(struct buffer *text, const struct state_version *version)
{
    check(version->has_body || version->size == version->bytes.size);
    buffer_append(text, VIEW("{\"version\":"));
    buffer_append_u64(text, version->number);
    buffer_append(text, VIEW(",\"token\":"));
    buffer_append_u64(text, version->token);
    buffer_append(text, VIEW(",\"etag\":\""));
    buffer_append(text, view_of(version->etag));
    buffer_append(text, VIEW("\",\"size\":"));
    buffer_append_u64(text, version->size);
    buffer_append(text, VIEW(",\"updated_ms\":"));
    buffer_append_i64(text, version->at.us / 1000);
    write_bytes(text, version);
    buffer_append(text, version->unknown);
    buffer_append_byte(text, '}');
}

static void write_stage(struct buffer *text, const struct state_stage *stage)
{
    buffer_append(text, VIEW(",\"stage\":{\"token\":"));
    buffer_append_u64(text, stage->token);
    if (stage->txn[0]) {
        buffer_append(text, VIEW(",\"txn\":\""));
        buffer_append(text, view_of(stage->txn));
        buffer_append_byte(text, '"');
    }
    if (stage->changes) {
        buffer_append(text, VIEW(",\"next\":"));
        write_version(text, &stage->next);
    }
    if (stage->sealed)
        buffer_append(text, VIEW(",\"sealed\":true"));
    buffer_append(text, stage->unknown);
    buffer_append_byte(text, '}');
}

static void write_old(struct buffer *text, const struct key_state *state)
{
    char name[BODY_NAME_MAX + 1];
    buffer_append(text, VIEW(",\"old\":["));
    for (size_t i = 0; i < state->old_count; i++) {
        buffer_append(text, i == 0 ? VIEW("\"") : VIEW(",\""));
        buffer_append(text, view_of(body_name_text(&state->old[i], name)));
        buffer_append_byte(text, '"');
    }
    buffer_append_byte(text, ']');
}

static void write_recent(struct buffer *text, const struct state_recent *recent)
{
    buffer_append(text, VIEW(",\"recent\":{\"version\":"));
    buffer_append_u64(text, recent->number);
    buffer_append(text, VIEW(",\"etags\":\""));
    for (size_t i = 0; i < recent->count; i++)
        buffer_append(text, (struct view){ recent->digits[i], STATE_RECENT_DIGITS });
    buffer_append(text, VIEW("\"}"));
}

/* Enough for a small state, so that its text grows once. */
#define STATE_TEXT_USUAL 512

bool state_write(const struct key_state *state, struct buffer *text)
{
    size_t start = text->size;
    if (text->capacity == 0 && text->max >= STATE_TEXT_USUAL)
        buffer_reserve(text, STATE_TEXT_USUAL);
    if (state->now.number > 0) {
        buffer_append(text, VIEW(",\"now\":"));
        write_version(text, &state->now);
    }
    if (state->staged)
        write_stage(text, &state->stage);
    if (state->old_count > 0)
        write_old(text, state);
    if (state->recent.count > 0)
        write_recent(text, &state->recent);
    if (state->lost)
        buffer_append(text, VIEW(",\"lost\":true"));
    buffer_append(text, state->unknown);
    if (text->size > start) { /* each member starts with a comma; the first becomes a brace */
        text->data[start] = '{';
        buffer_append_byte(text, '}');
    }
    return !text->failed && text->size - start <= TABLE_STATE_MAX;
}

/* ---- Reading ------------------------------------------------------------------------- */

/* A decoding in progress: memory whose addresses must not change, and the first error. */
struct reading {
    struct buffer *space; /* has room for the whole text, so it is never reallocated */
    const char *why;      /* NULL while there is no error */
};

static bool fail_reading(struct reading *reading, const char *why)
{
    if (!reading->why)
        reading->why = why;
    return false;
}

#define MEMBERS_MAX 9

/* Reads the values of an object by member name. Unknown members are kept, each with a comma before
 * it. */
static bool read_state_members(struct reading *reading, struct view object,
                               const char *const *names, struct view values[MEMBERS_MAX],
                               struct view *ret_unknown)
{
    struct buffer *space = reading->space;
    size_t start = space->size;
    struct view name, value;
    struct json_reader reader = json_read(object);
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        size_t known = 0;
        while (names[known] && !view_equal(name, view_of(names[known])))
            known++;
        if (!json_skip(&reader, &value))
            break;
        if (!names[known]) {
            buffer_append(space, VIEW(",\""));
            buffer_append(space, name);
            buffer_append(space, VIEW("\":"));
            buffer_append(space, value);
        } else if (values[known].size > 0) {
            json_fail(&reader, "a member occurs twice");
        } else {
            values[known] = value;
        }
    }
    *ret_unknown = view_from(buffer_view(space), start);
    return json_end(&reader) || fail_reading(reading, reader.why);
}

static bool read_u64(struct reading *reading, struct view value, uint64_t max, uint64_t *ret)
{
    struct json_reader reader = json_read(value);
    json_take_u64(&reader, max, ret);
    return json_end(&reader) || fail_reading(reading, "a number is missing or out of range");
}

static bool read_updated_time(struct reading *reading, struct view value,
                              struct wall_time *ret_time)
{
    int64_t ms = 0;
    struct json_reader reader = json_read(value);
    json_take_i64(&reader, &ms);
    if (!json_end(&reader) || ms > INT64_MAX / 1000 || ms < INT64_MIN / 1000)
        return fail_reading(reading, "a time is missing or out of range");
    ret_time->us = ms * 1000;
    return true;
}

/* Reads a member that is true, false or absent. */
static bool read_flag(struct reading *reading, struct view value, bool *ret)
{
    struct json_reader reader = json_read(value.size > 0 ? value : VIEW("false"));
    json_take_bool(&reader, ret);
    return json_end(&reader) || fail_reading(reading, "a flag is neither true nor false");
}

/* Reads an ETag or a transaction id, and appends a NUL. */
static bool read_hex(struct reading *reading, struct view value, size_t size, char *ret_text)
{
    struct view text = VIEW("");
    struct json_reader reader = json_read(value);
    json_take_plain(&reader, &text);
    if (!json_end(&reader) || !text_is_hex(text, size))
        return fail_reading(reading, "an ETag or id is invalid");
    memcpy(ret_text, text.data, size);
    ret_text[size] = '\0';
    return true;
}

static bool read_inline_text(struct reading *reading, struct view value, struct view *ret_bytes)
{
    size_t start = reading->space->size;
    struct json_reader reader = json_read(value);
    json_take_string(&reader, reading->space);
    *ret_bytes = view_from(buffer_view(reading->space), start);
    return json_end(&reader) || fail_reading(reading, "a string cannot be read");
}

static bool read_base64(struct reading *reading, struct view value, struct view *ret_bytes)
{
    struct buffer *space = reading->space;
    size_t start = space->size, size = 0;
    struct view text = VIEW("");
    struct json_reader reader = json_read(value);
    json_take_plain(&reader, &text);
    if (!json_end(&reader) || !base64_decode(text, space->data + start, &size))
        return fail_reading(reading, "the base64 cannot be read");
    space->size += size;
    *ret_bytes = view_from(buffer_view(space), start);
    return true;
}

static bool read_version(struct reading *reading, struct view value,
                         struct state_version *version)
{
    enum { NUMBER, TOKEN, ETAG, SIZE, UPDATED, TEXT, BASE64, BODY, REMOVED, MEMBERS };
    static const char *const names[MEMBERS + 1] = { "version", "token",      "etag",
                                                    "size",    "updated_ms", "text",
                                                    "base64",  "body",       "removed" };
    static_assert((int)MEMBERS <= MEMBERS_MAX, "there is room for the values");
    struct view values[MEMBERS_MAX] = { { NULL, 0 } };
    version->bytes = VIEW("");
    if (!read_state_members(reading, value, names, values, &version->unknown) ||
        !read_u64(reading, values[NUMBER], INT64_MAX, &version->number) ||
        !read_u64(reading, values[TOKEN], UINT64_MAX, &version->token) ||
        !read_u64(reading, values[SIZE], INT64_MAX, &version->size) ||
        !read_hex(reading, values[ETAG], NONCE_SIZE, version->etag) ||
        !read_updated_time(reading, values[UPDATED], &version->at) ||
        !read_flag(reading, values[BODY], &version->has_body) ||
        !read_flag(reading, values[REMOVED], &version->removed) ||
        (values[TEXT].size > 0 && !read_inline_text(reading, values[TEXT], &version->bytes)) ||
        (values[BASE64].size > 0 && !read_base64(reading, values[BASE64], &version->bytes)))
        return false;
    int places = version->has_body + version->removed + (values[TEXT].size > 0) +
                 (values[BASE64].size > 0);
    if (version->number == 0 || places != 1)
        return fail_reading(reading, "a version has no number, or not exactly one content");
    if (!version->has_body && version->size != version->bytes.size)
        return fail_reading(reading, "the size of a version differs from its bytes");
    return true;
}

static bool read_stage(struct reading *reading, struct view value, struct state_stage *stage)
{
    enum { TXN, TOKEN, NEXT, SEALED, MEMBERS };
    static const char *const names[MEMBERS + 1] = { "txn", "token", "next", "sealed" };
    struct view values[MEMBERS_MAX] = { { NULL, 0 } };
    if (!read_state_members(reading, value, names, values, &stage->unknown) ||
        !read_u64(reading, values[TOKEN], UINT64_MAX, &stage->token) ||
        !read_flag(reading, values[SEALED], &stage->sealed) ||
        (values[TXN].size > 0 && !read_hex(reading, values[TXN], TXN_ID_SIZE, stage->txn)) ||
        (values[NEXT].size > 0 && !read_version(reading, values[NEXT], &stage->next)))
        return false;
    stage->changes = values[NEXT].size > 0;
    return stage->changes || stage->txn[0] ||
           fail_reading(reading, "a stage has neither a change nor a transaction");
}

/* Reads the list of old bodies. If there are too many, the newest are kept. */
static bool read_old(struct reading *reading, struct view value, struct key_state *state)
{
    struct view text;
    struct body_name name;
    struct json_reader reader = json_read(value);
    for (json_enter_array(&reader); json_next_element(&reader);) {
        if (!json_take_plain(&reader, &text))
            break;
        if (!body_name_parse(text, &name))
            return fail_reading(reading, "the name of a body is invalid");
        if (state_names_body(state, &name)) /* it is in use, so it is not old */
            continue;
        if (state->old_count == STATE_OLD_MAX)
            memmove(&state->old[0], &state->old[1], --state->old_count * sizeof name);
        state->old[state->old_count++] = name;
    }
    return json_end(&reader) || fail_reading(reading, reader.why);
}

/* Reads the versions that were replaced. If there are too many, the latest are kept. */
static bool read_recent(struct reading *reading, struct view value, struct state_recent *recent)
{
    enum { NUMBER, ETAGS, MEMBERS };
    static const char *const names[MEMBERS + 1] = { "version", "etags" };
    struct view values[MEMBERS_MAX] = { { NULL, 0 } }, unknown, text = VIEW("");
    if (!read_state_members(reading, value, names, values, &unknown) ||
        !read_u64(reading, values[NUMBER], INT64_MAX, &recent->number))
        return false;
    struct json_reader reader = json_read(values[ETAGS]);
    json_take_plain(&reader, &text);
    size_t count = text.size / STATE_RECENT_DIGITS;
    if (!json_end(&reader) || text.size % STATE_RECENT_DIGITS != 0 || count > recent->number ||
        !text_is_hex(text, text.size))
        return fail_reading(reading, "the ETags of replaced versions are invalid");
    recent->count = count < STATE_RECENT_MAX ? count : STATE_RECENT_MAX;
    memcpy(recent->digits, text.data, recent->count * sizeof recent->digits[0]);
    return true;
}

static bool read_state(struct reading *reading, struct view text, struct key_state *state)
{
    enum { NOW, STAGE, OLD, LOST, RECENT, MEMBERS };
    static const char *const names[MEMBERS + 1] = { "now", "stage", "old", "lost", "recent" };
    struct view values[MEMBERS_MAX] = { { NULL, 0 } };
    if (!read_state_members(reading, text, names, values, &state->unknown) ||
        !read_flag(reading, values[LOST], &state->lost) ||
        (values[NOW].size > 0 && !read_version(reading, values[NOW], &state->now)) ||
        (values[STAGE].size > 0 && !read_stage(reading, values[STAGE], &state->stage)) ||
        (values[RECENT].size > 0 && !read_recent(reading, values[RECENT], &state->recent)))
        return false;
    state->staged = values[STAGE].size > 0;
    return values[OLD].size == 0 || read_old(reading, values[OLD], state);
}

enum hf_status state_read(struct view text, struct key_state *state, struct hf_error *error)
{
    state_release(state);
    if (text.size == 0)
        return HF_OK;
    if (text.size > TABLE_STATE_MAX)
        return error_set(error, HF_CORRUPT, "the state of the key is too large");
    if (!buffer_reserve(&state->space, text.size))
        return error_no_memory(error);
    struct reading reading = { .space = &state->space };
    if (read_state(&reading, text, state))
        return HF_OK;
    state_release(state);
    return error_set(error, HF_CORRUPT, "the state of the key cannot be read: %s", reading.why);
}
