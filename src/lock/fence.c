/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c: an object's fence as JSON, and the check whether a write may replace it. It guards
 * against a holder whose lease has expired: once the next holder has written, the late write has a
 * lower token than the fence and is refused, however late it arrives. Pure. */
#include "lock/fence.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/rule.h"

#include <inttypes.h>

/* Version 1 records neither the fence's scopes nor the previous writer. */
#define FENCE_OLD     VIEW("1\"")
#define FENCE_CURRENT VIEW("2\"")

#define XXH3_DIGITS 16

void fence_set_text(struct fence *fence, struct view text)
{
    check(text.size <= sizeof fence->text);
    if (text.size > 0)
        memcpy(fence->text, text.data, text.size);
    fence->text_size = text.size;
}

bool fence_stamp_equal(const struct fence_stamp *a, const struct fence_stamp *b)
{
    return a->token == b->token && a->seq == b->seq && strcmp(a->session, b->session) == 0 &&
           strcmp(a->table, b->table) == 0;
}

/* ---- Reading ------------------------------------------------------------------------- */

static const char too_much[] =
    "it has more unknown members than this version can keep; upgrade Holdfast";

/* Copies a string of bounded size, and appends a NUL. */
static bool copy_json_text(struct json_reader *reader, char *to, size_t max, size_t *ret_size)
{
    char bytes[SCOPE_TEXT_MAX + 1];
    struct buffer space = { .data = bytes, .capacity = sizeof bytes, .max = sizeof bytes - 1 };
    struct view text;
    if (!json_take_text(reader, &space, &text))
        return false;
    if (text.size == 0 || text.size > max || view_find(text, '\0') < text.size)
        return json_fail(reader, "a string is empty or too long");
    memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    *ret_size = text.size;
    return true;
}

static bool take_hash(struct json_reader *reader, uint64_t *ret_hash)
{
    struct view text;
    uint64_t hash = 0;
    if (!json_take_plain(reader, &text))
        return false;
    size_t digits = text.size < XXH3_DIGITS ? text.size : XXH3_DIGITS;
    for (size_t i = 0; i < digits; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0)
            return json_fail(reader, "a hash must be hexadecimal");
        hash = hash << 4 | (uint64_t)digit;
    }
    if (text.size != XXH3_DIGITS)
        return json_fail(reader, "a hash must have 16 digits");
    *ret_hash = hash;
    return true;
}

/* "inline" and "deleted" are true if present. */
static bool take_mark(struct json_reader *reader, struct fence *fence, enum fence_kind kind)
{
    bool on = false;
    if (!json_take_bool(reader, &on))
        return false;
    if (!on || fence->kind != FENCE_NONE)
        return json_fail(reader, "the body is specified twice");
    fence->kind = kind;
    return true;
}

static bool take_body_key(struct json_reader *reader, struct fence *fence)
{
    if (fence->kind != FENCE_NONE)
        return json_fail(reader, "the body is specified twice");
    fence->kind = FENCE_BODY;
    return copy_json_text(reader, fence->text, KEY_BYTES_MAX, &fence->text_size);
}

static bool take_fence_scopes(struct json_reader *reader, struct fence_scopes *scopes)
{
    scopes->size = 0;
    for (json_enter_array(reader); json_next_element(reader);) {
        size_t room = sizeof scopes->texts - scopes->size, size = 0;
        size_t most = room > SCOPE_TEXT_MAX ? SCOPE_TEXT_MAX : room - 1;
        if (room <= 1)
            return json_fail(reader, "the scopes are too long");
        if (copy_json_text(reader, scopes->texts + scopes->size, most, &size))
            scopes->size += size + 1;
    }
    return !reader->why;
}

static bool keep_member(struct json_reader *reader, struct view name, struct fence *fence)
{
    struct view raw;
    if (!json_skip(reader, &raw))
        return false;
    struct view pieces[] = { VIEW(", \""), name, VIEW("\": "), raw };
    size_t size = 0;
    for (size_t i = 0; i < 4; i++)
        size += pieces[i].size;
    if (size > sizeof fence->unknown - fence->unknown_size)
        return json_fail(reader, too_much);
    for (size_t i = 0; i < 4; i++) {
        memcpy(fence->unknown + fence->unknown_size, pieces[i].data, pieces[i].size);
        fence->unknown_size += pieces[i].size;
    }
    return true;
}

static bool take_fence_member(struct json_reader *reader, struct view name, struct fence *fence)
{
    struct fence_stamp *stamp = &fence->stamp, *before = &fence->before;
    size_t size;
    struct view raw;
    if (view_equal(name, VIEW("table")))
        return copy_json_text(reader, stamp->table, KEY_BYTES_MAX, &size);
    if (view_equal(name, VIEW("token")))
        return json_take_u64(reader, UINT64_MAX, &stamp->token);
    if (view_equal(name, VIEW("session")))
        return copy_json_text(reader, stamp->session, NONCE_SIZE, &size);
    if (view_equal(name, VIEW("seq")))
        return json_take_u64(reader, UINT64_MAX, &stamp->seq);
    if (view_equal(name, VIEW("scopes")))
        return take_fence_scopes(reader, &fence->scopes);
    if (view_equal(name, VIEW("before_token")))
        return json_take_u64(reader, UINT64_MAX, &before->token);
    if (view_equal(name, VIEW("before_session")))
        return copy_json_text(reader, before->session, NONCE_SIZE, &size);
    if (view_equal(name, VIEW("before_seq")))
        return json_take_u64(reader, UINT64_MAX, &before->seq);
    if (view_equal(name, VIEW("size")))
        return json_take_u64(reader, OBJECT_BYTES_MAX, &fence->size);
    if (view_equal(name, VIEW("xxh3")))
        return take_hash(reader, &fence->xxh3);
    if (view_equal(name, VIEW("body")))
        return take_body_key(reader, fence);
    if (view_equal(name, VIEW("inline")))
        return take_mark(reader, fence, FENCE_INLINE);
    if (view_equal(name, VIEW("deleted")))
        return take_mark(reader, fence, FENCE_DELETED);
    if (view_equal(name, VIEW("format")) || view_equal(name, VIEW("write")))
        return json_skip(reader, &raw);
    return keep_member(reader, name, fence);
}

/* Whether the bytes after the line match it. */
static const char *check_rest(const struct fence *fence, bool old, struct view rest)
{
    const struct fence_stamp *stamp = &fence->stamp, *before = &fence->before;
    const struct fence_stamp nobody = { .token = 0 };
    bool signed_by = stamp->token > 0 && stamp->seq > 0 && stamp->table[0] != '\0' &&
                     stamp->session[0] != '\0' && (fence->scopes.size > 0) != old;
    bool blank = fence_stamp_equal(stamp, &nobody) && fence->scopes.size == 0;
    bool some_before = before->token > 0 && before->seq > 0 && before->session[0] != '\0';
    if (fence->kind == FENCE_NONE ? !blank : !signed_by)
        return "a member is missing";
    bool may_be_before = some_before && !old && fence->kind != FENCE_NONE;
    if (!fence_stamp_equal(before, &nobody) && !may_be_before)
        return "the previous writer is missing";
    if ((fence->kind == FENCE_BODY) != (fence->size > 0) && fence->kind != FENCE_INLINE)
        return "the size is impossible";
    if (fence->kind != FENCE_INLINE)
        return rest.size > 0 ? "there are bytes after the fence" : NULL;
    if (rest.size != fence->size || rest.size > FENCE_INLINE_MAX)
        return "the size of the body differs from the fence";
    return hash_xxh3(rest) != fence->xxh3 ? "the body is not the one that was written" : NULL;
}

static enum hf_status decode_ours(struct view bytes, bool old, struct fence *fence,
                                  struct hf_error *error)
{
    struct view name, rest = bytes;
    struct view line = view_cut(&rest, '\n');
    struct json_reader reader = json_read(line);
    *fence = (struct fence){ .kind = FENCE_NONE };
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        take_fence_member(&reader, name, fence);
    const char *why = json_end(&reader) ? check_rest(fence, old, rest) : reader.why;
    if (line.size == bytes.size)
        why = "the first line is cut off";
    if (why == too_much)
        return error_set(error, HF_UNSUPPORTED, "the fence of the object cannot be changed: %s",
                         why);
    if (why)
        return error_set(error, HF_CORRUPT, "the fence of the object is damaged: %s", why);
    if (fence->kind == FENCE_INLINE)
        fence_set_text(fence, rest);
    /* The previous writer of a version 1 fence is unknown. The fence's own stamp is used instead,
     * which does not rule out that a write was in place. */
    if (old)
        fence->before = fence->stamp;
    else if (fence->before.token > 0) /* in the same table as every possible writer */
        memcpy(fence->before.table, fence->stamp.table, sizeof fence->before.table);
    return HF_OK;
}

enum hf_status fence_decode(struct view bytes, struct fence *ret_fence, struct hf_error *error)
{
    if (!view_starts_with(bytes, FENCE_START))
        return error_set(error, HF_MISMATCH, "this is not a fenced object");
    struct view line = view_first(bytes, view_find(bytes, '\n') + 1);
    if (checksum_check(line) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT,
                         "the fence of the object is damaged: " CHECKSUM_MISTAKE);
    struct view version = view_from(bytes, FENCE_START.size);
    if (view_starts_with(version, FENCE_CURRENT) || view_starts_with(version, FENCE_OLD))
        return decode_ours(bytes, view_starts_with(version, FENCE_OLD), ret_fence, error);
    struct view number = view_first(version, view_find(version, '"'));
    uint64_t later;
    if (number.size < version.size && parse_u64(number, UINT64_MAX, &later, NULL) == HF_OK)
        return error_set(error, HF_UNSUPPORTED,
                         "the fence of the object has version %" PRIu64
                         ", which this version does not know; upgrade Holdfast",
                         later);
    return error_set(error, HF_CORRUPT, "the fence of the object is damaged: it ends early");
}

/* ---- Writing ------------------------------------------------------------------------- */

/* A fence stays at version 1 until a writer with known scopes writes it. */
static bool is_version_1(const struct fence *fence)
{
    return fence->kind != FENCE_NONE && fence->scopes.size == 0;
}

/* The scope after this one, or the first if `text` is NULL; NULL after the last. */
static const char *next_scope(const struct fence_scopes *scopes, const char *text)
{
    const char *next = text ? text + strlen(text) + 1 : scopes->texts;
    return next < scopes->texts + scopes->size ? next : NULL;
}

static void write_fence_scopes(const struct fence_scopes *scopes, struct buffer *text)
{
    buffer_append(text, VIEW(", \"scopes\": ["));
    for (const char *at = next_scope(scopes, NULL); at; at = next_scope(scopes, at)) {
        buffer_append(text, at == scopes->texts ? VIEW("") : VIEW(", "));
        json_write_string(text, view_of(at));
    }
    buffer_append(text, VIEW("]"));
}

static void write_fence_stamp(const struct fence *fence, struct buffer *text)
{
    const struct fence_stamp *stamp = &fence->stamp;
    buffer_append(text, VIEW(", \"table\": "));
    json_write_string(text, view_of(stamp->table));
    if (!is_version_1(fence))
        write_fence_scopes(&fence->scopes, text);
    buffer_print(text, ", \"token\": %" PRIu64 ", \"session\": ", stamp->token);
    json_write_string(text, view_of(stamp->session));
    buffer_print(text,
                 ", \"seq\": %" PRIu64 ", \"size\": %" PRIu64 ", \"xxh3\": \"%016" PRIx64 "\"",
                 stamp->seq, fence->size, fence->xxh3);
    if (is_version_1(fence) || fence->before.token == 0)
        return;
    buffer_print(text,
                 ", \"before_token\": %" PRIu64 ", \"before_session\": ", fence->before.token);
    json_write_string(text, view_of(fence->before.session));
    buffer_print(text, ", \"before_seq\": %" PRIu64, fence->before.seq);
}

bool fence_encode(const struct fence *fence, struct view nonce, struct buffer *text)
{
    buffer_append(text, FENCE_START);
    buffer_append(text, is_version_1(fence) ? FENCE_OLD : FENCE_CURRENT);
    buffer_append(text, VIEW(", \"write\": "));
    checksum_append_write(text, nonce);
    if (fence->kind != FENCE_NONE)
        write_fence_stamp(fence, text);
    switch (fence->kind) {
    case FENCE_NONE: break;
    case FENCE_INLINE: buffer_append(text, VIEW(", \"inline\": true")); break;
    case FENCE_DELETED: buffer_append(text, VIEW(", \"deleted\": true")); break;
    case FENCE_BODY:
        buffer_append(text, VIEW(", \"body\": "));
        json_write_string(text, fence_text(fence));
        break;
    }
    buffer_append(text, (struct view){ fence->unknown, fence->unknown_size });
    buffer_append(text, VIEW(" }\n"));
    checksum_finish(text);
    return fence->kind == FENCE_INLINE ? buffer_append(text, fence_text(fence)) : !text->failed;
}

/* ---- The scopes of a fence ----------------------------------------------------------- */

static bool covers(const struct fence_writer *writer, const struct scope *scope)
{
    for (size_t i = 0; i < writer->scope_count; i++)
        if (scope_covers(&writer->scopes[i], scope))
            return true;
    return false;
}

/* A version 1 fence names only its table. A lock on the whole table covers the fence, regardless
 * of the scope under which it was written. So does the lease that wrote it last. */
static enum hf_status check_version_1(const struct fence *fence,
                                      const struct fence_writer *writer, struct hf_error *error)
{
    if (fence->stamp.token == writer->stamp.token)
        return HF_OK;
    for (size_t i = 0; i < writer->scope_count; i++)
        if (scope_is_whole_table(&writer->scopes[i]))
            return HF_OK;
    return error_set(error, HF_MISMATCH,
                     "the object does not say to which lock of %.80s it belongs: "
                     "write it once under inode:N or tree:/, which cover them all",
                     fence->stamp.table);
}

/* Whether the writer's lock covers each scope of the fence. */
static enum hf_status check_covered(const struct fence *fence,
                                    const struct fence_writer *writer, struct hf_error *error)
{
    struct scope scope;
    if (strcmp(fence->stamp.table, writer->stamp.table) != 0)
        return error_set(
            error, HF_MISMATCH,
            "the object belongs to the lock table %.120s, not to that of this lock",
            fence->stamp.table);
    if (is_version_1(fence))
        return check_version_1(fence, writer, error);
    const struct fence_scopes *scopes = &fence->scopes;
    for (const char *at = next_scope(scopes, NULL); at; at = next_scope(scopes, at)) {
        if (scope_parse(view_of(at), &scope, NULL) != HF_OK)
            return error_set(error, HF_UNSUPPORTED,
                             "the object belongs to a scope that this version does not know: "
                             "%.100s; upgrade Holdfast",
                             at);
        if (RULE(WRITER_COVERS_THE_FENCE) && !covers(writer, &scope))
            return error_set(error, HF_MISMATCH,
                             "the object belongs to %.120s, which the lock does not cover", at);
    }
    return HF_OK;
}

static enum hf_status set_scopes(const struct fence_writer *writer, struct fence_scopes *scopes,
                                 struct hf_error *error)
{
    char text[SCOPE_TEXT_MAX + 1];
    scopes->size = 0;
    for (size_t i = 0; i < writer->scope_count; i++) {
        size_t size = strlen(scope_text(&writer->scopes[i], text)) + 1;
        if (scope_is_passive(&writer->scopes[i]))
            continue;
        if (size > sizeof scopes->texts - scopes->size) {
            scopes->size = 0;
            return error_set(error, HF_INVALID,
                             "the scopes of the lock are too long for a new fenced object: "
                             "more than %zu bytes in all",
                             sizeof scopes->texts);
        }
        memcpy(scopes->texts + scopes->size, text, size);
        scopes->size += size;
    }
    if (scopes->size == 0)
        return error_set(
            error, HF_MISMATCH,
            "the lock covers only pins, which exclude nobody; it cannot write fenced objects");
    return HF_OK;
}

enum hf_status fence_sign(struct fence *fence, const struct fence_writer *writer,
                          struct hf_error *error)
{
    bool keeps = RULE(FENCE_KEEPS_ITS_SCOPES) && fence->scopes.size > 0;
    enum hf_status status = HF_OK;
    if (!keeps)
        status = set_scopes(writer, &fence->scopes, error);
    if (status != HF_OK)
        return status;
    /* Without `before`, a writer that is overtaken after a lost reply could never learn that its
     * write was not done. */
    if (fence->stamp.token != writer->stamp.token)
        fence->before = fence->stamp;
    fence->stamp = writer->stamp;
    return HF_OK;
}

/* ---- Judging ------------------------------------------------------------------------- */

enum hf_status fence_check_writer(const struct fence *fence, const struct fence_writer *by,
                                  enum fence_outcome *ret_outcome, struct hf_error *error)
{
    const struct fence_stamp *last = &fence->stamp, *writer = &by->stamp;
    *ret_outcome = FENCE_WRITE;
    if (fence->kind == FENCE_NONE)
        return HF_OK;
    enum hf_status status = check_covered(fence, by, error);
    if (status != HF_OK)
        return status;
    if (RULE(LOWER_TOKEN_IS_FENCED) && last->token > writer->token)
        return error_set(error, HF_FENCED,
                         "the object was written with token %" PRIu64
                         ", and ours is lower: %" PRIu64,
                         last->token, writer->token);
    /* Numbers rise only within one session, and cannot be compared between sessions. Otherwise one
     * process's write would count as done because of another process's higher number. */
    bool of_another = RULE(SEQ_OF_A_SESSION) && strcmp(last->session, writer->session) != 0;
    if (last->token != writer->token || of_another)
        return HF_OK;
    if (last->seq == writer->seq)
        *ret_outcome = FENCE_DONE;
    if (RULE(SAME_TOKEN_IN_ORDER) && last->seq > writer->seq)
        *ret_outcome = FENCE_SUPERSEDED;
    return HF_OK;
}

/* A lease can be passed on, so several sessions may write with one token in any order, and the
 * numbers of different sessions cannot be compared. If another session has written with our token
 * since, our write may have been in place before. If the fence's token is lower than ours, our
 * write was never in place, because the lower token would then have been refused.
 *
 * If the fence's token is higher, `before` is the last write with the previous token. If the token
 * of `before` is lower than ours, no write with our token was ever in place. If it is ours, our
 * write may have been in place, unless `before` is the version that we tried to replace. If it is
 * higher than ours, this can no longer be determined. */
bool fence_may_be_gone(const struct fence *fence, const struct fence_stamp *writer,
                       const struct fence_stamp *over)
{
    const struct fence_stamp *last = &fence->stamp;
    if (last->token > writer->token) {
        bool may_be =
            RULE(OVERTAKEN_MAY_HAVE_BEEN_THERE) && fence->before.token >= writer->token;
        if (!may_be)
            return false;
        last = &fence->before;
    }
    return RULE(MAYBE_GONE_IS_NOT_DONE) && last->token >= writer->token &&
           !fence_stamp_equal(last, over);
}
