#include "lock/fence.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/rule.h"

#include <inttypes.h>

/* We alone write fences, and all start like this: so a damaged one is told from what never was. */
#define FENCE_START   VIEW("{ \"format\": \"" FENCE_FORMAT)
#define FENCE_VERSION VIEW("1\"")

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

/* A text of a bounded size into its place; with room for the NUL. */
static bool take_into(struct json_reader *reader, char *place, size_t max, size_t *ret_size)
{
    char bytes[KEY_BYTES_MAX + 1];
    struct buffer space = { .data = bytes, .capacity = sizeof bytes, .max = sizeof bytes - 1 };
    struct view text;
    if (!json_take_text(reader, &space, &text))
        return false;
    if (text.size == 0 || text.size > max || view_find(text, '\0') < text.size)
        return json_fail(reader, "a text is not as long as it should be");
    memcpy(place, text.data, text.size);
    place[text.size] = '\0';
    *ret_size = text.size;
    return true;
}

static bool take_hash(struct json_reader *reader, uint64_t *ret_hash)
{
    struct view text;
    uint64_t hash = 0;
    if (!json_take_plain(reader, &text))
        return false;
    for (size_t i = 0; i < text.size && i < XXH3_DIGITS; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0)
            return json_fail(reader, "a hash is written in hexadecimal");
        hash = hash << 4 | (uint64_t)digit;
    }
    if (text.size != XXH3_DIGITS)
        return json_fail(reader, "a hash has 16 digits");
    *ret_hash = hash;
    return true;
}

/* "inline" and "deleted" are true when they are there. */
static bool take_mark(struct json_reader *reader, struct fence *fence, enum fence_kind kind)
{
    bool on = false;
    if (!json_take_bool(reader, &on))
        return false;
    if (!on || fence->kind != FENCE_NONE)
        return json_fail(reader, "a body is in one place");
    fence->kind = kind;
    return true;
}

static bool take_body(struct json_reader *reader, struct fence *fence)
{
    if (fence->kind != FENCE_NONE)
        return json_fail(reader, "a body is in one place");
    fence->kind = FENCE_BODY;
    return take_into(reader, fence->text, KEY_BYTES_MAX, &fence->text_size);
}

static bool take_member(struct json_reader *reader, struct view name, struct fence *fence)
{
    struct fence_stamp *stamp = &fence->stamp;
    size_t size;
    struct view raw;
    if (view_equal(name, VIEW("table")))
        return take_into(reader, stamp->table, KEY_BYTES_MAX, &size);
    if (view_equal(name, VIEW("token")))
        return json_take_u64(reader, UINT64_MAX, &stamp->token);
    if (view_equal(name, VIEW("session")))
        return take_into(reader, stamp->session, NONCE_SIZE, &size);
    if (view_equal(name, VIEW("seq")))
        return json_take_u64(reader, UINT64_MAX, &stamp->seq);
    if (view_equal(name, VIEW("size")))
        return json_take_u64(reader, OBJECT_BYTES_MAX, &fence->size);
    if (view_equal(name, VIEW("xxh3")))
        return take_hash(reader, &fence->xxh3);
    if (view_equal(name, VIEW("body")))
        return take_body(reader, fence);
    if (view_equal(name, VIEW("inline")))
        return take_mark(reader, fence, FENCE_INLINE);
    if (view_equal(name, VIEW("deleted")))
        return take_mark(reader, fence, FENCE_DELETED);
    return json_skip(reader, &raw);
}

/* Whether what stands behind the line is what the line says. */
static const char *check_rest(const struct fence *fence, struct view rest)
{
    const struct fence_stamp *stamp = &fence->stamp, nobody = { .token = 0 };
    bool signed_by = stamp->token > 0 && stamp->seq > 0 && stamp->table[0] != '\0' &&
                     stamp->session[0] != '\0';
    if (fence->kind == FENCE_NONE ? !fence_stamp_equal(stamp, &nobody) : !signed_by)
        return "something is missing";
    if ((fence->kind == FENCE_BODY) != (fence->size > 0) && fence->kind != FENCE_INLINE)
        return "its size cannot be";
    if (fence->kind != FENCE_INLINE)
        return rest.size > 0 ? "there is something behind it" : NULL;
    if (rest.size != fence->size || rest.size > FENCE_INLINE_MAX)
        return "the body is not as long as it says";
    return hash_xxh3(rest) != fence->xxh3 ? "the body is not the one that was written" : NULL;
}

static enum hf_status decode_ours(struct view bytes, struct fence *fence,
                                  struct hf_error *error)
{
    struct view name, rest = bytes;
    struct view line = view_cut(&rest, '\n');
    struct json_reader reader = json_read(line);
    *fence = (struct fence){ .kind = FENCE_NONE };
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        take_member(&reader, name, fence);
    const char *why = json_end(&reader) ? check_rest(fence, rest) : reader.why;
    if (line.size == bytes.size)
        why = "its line has no end";
    if (why)
        return error_set(error, HF_CORRUPT, "the fence of the object is damaged: %s", why);
    if (fence->kind == FENCE_INLINE)
        fence_set_text(fence, rest);
    return HF_OK;
}

enum hf_status fence_decode(struct view bytes, struct fence *ret_fence, struct hf_error *error)
{
    if (!view_starts_with(bytes, FENCE_START))
        return error_set(error, HF_MISMATCH, "this is not a fenced object");
    struct view version = view_from(bytes, FENCE_START.size);
    if (view_starts_with(version, FENCE_VERSION))
        return decode_ours(bytes, ret_fence, error);
    struct view number = view_first(version, view_find(version, '"'));
    uint64_t later;
    if (number.size < version.size && parse_u64(number, UINT64_MAX, &later, NULL) == HF_OK)
        return error_set(error, HF_UNSUPPORTED,
                         "the fence of the object is of version %" PRIu64
                         ", which this program does not know",
                         later);
    return error_set(error, HF_CORRUPT, "the fence of the object is damaged: it ends early");
}

/* ---- Writing ------------------------------------------------------------------------- */

static void write_stamp(const struct fence *fence, struct buffer *text)
{
    const struct fence_stamp *stamp = &fence->stamp;
    buffer_append(text, VIEW(", \"table\": "));
    json_write_string(text, view_of(stamp->table));
    buffer_print(text, ", \"token\": %" PRIu64 ", \"session\": ", stamp->token);
    json_write_string(text, view_of(stamp->session));
    buffer_print(text,
                 ", \"seq\": %" PRIu64 ", \"size\": %" PRIu64 ", \"xxh3\": \"%016" PRIx64 "\"",
                 stamp->seq, fence->size, fence->xxh3);
}

bool fence_encode(const struct fence *fence, struct view nonce, struct buffer *text)
{
    buffer_append(text, FENCE_START);
    buffer_append(text, FENCE_VERSION);
    if (fence->kind != FENCE_NONE)
        write_stamp(fence, text);
    switch (fence->kind) {
    case FENCE_NONE: break;
    case FENCE_INLINE: buffer_append(text, VIEW(", \"inline\": true")); break;
    case FENCE_DELETED: buffer_append(text, VIEW(", \"deleted\": true")); break;
    case FENCE_BODY:
        buffer_append(text, VIEW(", \"body\": "));
        json_write_string(text, fence_text(fence));
        break;
    }
    buffer_print(text, ", \"write\": \"%.*s\" }\n", VIEW_ARGS(nonce));
    return fence->kind == FENCE_INLINE ? buffer_append(text, fence_text(fence)) : !text->failed;
}

/* ---- Judging ------------------------------------------------------------------------- */

enum hf_status fence_judge(const struct fence *fence, const struct fence_stamp *writer,
                           enum fence_outcome *ret_outcome, struct hf_error *error)
{
    const struct fence_stamp *last = &fence->stamp;
    *ret_outcome = FENCE_WRITE;
    if (fence->kind == FENCE_NONE)
        return HF_OK;
    if (strcmp(last->table, writer->table) != 0)
        return error_set(error, HF_MISMATCH, "the object is written under the lock of %.120s",
                         last->table);
    if (last->token > writer->token && RULE(LOWER_TOKEN_IS_FENCED))
        return error_set(error, HF_FENCED,
                         "token %" PRIu64 " has written, ours is only %" PRIu64, last->token,
                         writer->token);
    bool same_session = strcmp(last->session, writer->session) == 0 || !RULE(SEQ_OF_A_SESSION);
    if (last->token == writer->token && same_session && last->seq >= writer->seq &&
        (last->seq == writer->seq || RULE(SAME_TOKEN_IN_ORDER)))
        *ret_outcome = last->seq == writer->seq ? FENCE_DONE : FENCE_SUPERSEDED;
    return HF_OK;
}

/* A lease can be passed on, so several sessions may write with one token, in any order, and the
 * numbers of one say nothing about another. If one of them has written where we tried to, then
 * ours was there before it, or never; nobody can tell. Over a lower token it certainly was not:
 * that would have been refused. */
bool fence_may_be_gone(const struct fence *fence, const struct fence_stamp *writer,
                       const struct fence_stamp *over)
{
    return fence->stamp.token == writer->token && !fence_stamp_equal(&fence->stamp, over) &&
           RULE(MAYBE_GONE_IS_NOT_DONE);
}
