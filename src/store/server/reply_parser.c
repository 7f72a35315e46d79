/* SPDX-License-Identifier: Apache-2.0 */
/* reply_parser.c: reads a reply. It guards against a server, or something in its place, that sends
 * too much, or something that can be read in two ways. */
#include "store/server/reply_parser.h"

#include "base/check.h"
#include "base/parse.h"

#include <strings.h>

/* Four GiB; longer numbers are refused before they can overflow. */
#define REPLY_CHUNK_DIGITS_MAX 8

void reply_parser_release(struct reply_parser *parser)
{
    buffer_release(&parser->line);
}

static void reply_refuse(struct reply_parser *parser, const char *why)
{
    parser->phase = REPLY_REFUSED;
    parser->why = why;
    parser->keeps = false;
}

static bool reply_is_2xx(const struct reply_parser *parser)
{
    return parser->reply->status >= 200 && parser->reply->status <= 299;
}

/* ---- The head ---------------------------------------------------------------------------- */

static bool reply_name_is(struct view name, const char *wanted)
{
    return name.size == strlen(wanted) && strncasecmp(name.data, wanted, name.size) == 0;
}

static struct view reply_trimmed(struct view text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = view_from(text, 1);
    while (text.size > 0 && strchr(" \t", text.data[text.size - 1]))
        text.size--;
    return text;
}

/* "HTTP/1.1 200 OK" */
static bool is_status_line(struct view line)
{
    bool good = line.size >= 12 && view_starts_with(line, VIEW("HTTP/1.")) &&
                (line.data[7] == '0' || line.data[7] == '1') && line.data[8] == ' ' &&
                line.data[9] >= '1' && line.data[9] <= '9';
    for (size_t i = 10; good && i < 12; i++)
        good = line.data[i] >= '0' && line.data[i] <= '9';
    return good && (line.size == 12 || line.data[12] == ' ');
}

/* What the lines of one head say about its body. */
struct reply_facts {
    bool has_length, chunked, closes, keeps;
    uint64_t length;
};

/* False if the head must be refused. */
static bool take_reply_header(struct reply_parser *parser, struct view line,
                              struct reply_facts *facts)
{
    static const char *const kept[] = { "etag", "x-key-version", "x-fencing-token" };
    struct view value = line, name = view_cut(&value, ':');
    if (name.size == 0 || name.size == line.size || strchr(" \t", name.data[0]) ||
        strchr(" \t", name.data[name.size - 1]))
        return false;
    value = reply_trimmed(value);
    if (reply_name_is(name, "content-length")) {
        uint64_t length;
        if (parse_u64(value, OBJECT_BYTES_MAX, &length, NULL) != HF_OK ||
            (facts->has_length && facts->length != length))
            return false;
        facts->has_length = true;
        facts->length = length;
    } else if (reply_name_is(name, "transfer-encoding")) {
        if (facts->chunked || !reply_name_is(value, "chunked"))
            return false;
        facts->chunked = true;
    } else if (reply_name_is(name, "connection")) {
        facts->closes |= reply_name_is(value, "close");
        facts->keeps |= reply_name_is(value, "keep-alive");
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (reply_name_is(name, kept[i]))
            http_reply_line(parser->reply, line);
    return true;
}

/* Where the body ends. */
static void begin_reply_body(struct reply_parser *parser, const struct reply_facts *facts)
{
    struct http_reply *reply = parser->reply;
    reply->whole_headers = true;
    reply->has_length = facts->has_length;
    reply->length = facts->length;
    reply->chunked = facts->chunked;
    reply->body.max = reply_is_2xx(parser) ? parser->body_max : HTTP_ERROR_BODY_MAX;
    if (reply->status == 204 || reply->status == 304) {
        parser->phase = REPLY_COMPLETE;
    } else if (facts->chunked) {
        parser->phase = REPLY_SIZE;
    } else if (facts->has_length) {
        parser->left = facts->length;
        parser->phase = facts->length > 0 ? REPLY_BODY : REPLY_COMPLETE;
    } else if (reply_is_2xx(parser)) {
        reply_refuse(parser, "the reply does not say where it ends");
    } else {
        parser->keeps = false;
        parser->phase = REPLY_TO_END;
    }
    if (parser->phase == REPLY_BODY && reply_is_2xx(parser) && parser->left > parser->body_max)
        parser->phase = REPLY_TOO_LARGE;
}

/* The head is complete, with its empty line. */
static void parse_head(struct reply_parser *parser)
{
    struct reply_facts facts = { .has_length = false };
    struct view rest = buffer_view(&parser->line);
    bool good = true, first = true, old = false;
    while (good && rest.size > 2) {
        struct view line = view_cut(&rest, '\n');
        good = line.size > 1 && line.data[line.size - 1] == '\r';
        line.size -= good;
        for (size_t i = 0; good && i < line.size; i++)
            good = (unsigned char)line.data[i] >= ' ' || line.data[i] == '\t';
        if (good && first) {
            good = is_status_line(line);
            old = good && line.data[7] == '0';
            if (good)
                http_reply_line(parser->reply, line);
        } else if (good) {
            good = take_reply_header(parser, line, &facts);
        }
        first = false;
    }
    buffer_clear(&parser->line);
    if (!good || first || (facts.has_length && facts.chunked)) {
        reply_refuse(parser, "the head of the reply is not valid HTTP");
        return;
    }
    parser->keeps = !facts.closes && (!old || facts.keeps);
    bool interim = parser->reply->status < 200;
    if (interim && (parser->interim++ == REPLY_INTERIM_MAX || parser->reply->status == 101))
        reply_refuse(parser, "the server sent only interim replies");
    else if (!interim)
        begin_reply_body(parser, &facts);
}

/* Takes bytes up to and including `end`; false while it has not arrived. */
static bool take_until(struct reply_parser *parser, struct view *bytes, struct view end,
                       size_t max)
{
    while (bytes->size > 0 && parser->phase != REPLY_REFUSED) {
        size_t piece = view_find(*bytes, '\n') + 1;
        struct view taken = view_first(*bytes, piece);
        *bytes = view_from(*bytes, taken.size);
        if (parser->line.size + taken.size > max) {
            reply_refuse(parser, "a line or the head of the reply is too long");
        } else if (!buffer_append(&parser->line, taken)) {
            reply_refuse(parser, "out of memory");
        } else if (view_ends_with(taken, VIEW("\n")) &&
                   !view_ends_with(buffer_view(&parser->line), VIEW("\r\n"))) {
            reply_refuse(parser, "a line of the reply does not end with CR LF");
        } else if (view_ends_with(buffer_view(&parser->line), end)) {
            return true;
        }
    }
    return false;
}

/* ---- The body ---------------------------------------------------------------------------- */

/* The part of an error page that is kept is its beginning. */
static void keep_body(struct reply_parser *parser, struct view bytes)
{
    struct buffer *body = &parser->reply->body;
    size_t room = body->max - body->size;
    if (bytes.size > room && reply_is_2xx(parser)) {
        parser->phase = REPLY_TOO_LARGE;
    } else if (!buffer_append(body, view_first(bytes, room))) {
        reply_refuse(parser, "out of memory");
    } else if (bytes.size > room) {
        parser->keeps = false;
        parser->phase = REPLY_COMPLETE;
    }
}

/* Bytes of a body, or of a chunk, of which the size is known. */
static void take_counted(struct reply_parser *parser, struct view *bytes)
{
    size_t size = bytes->size < parser->left ? bytes->size : (size_t)parser->left;
    parser->left -= size;
    keep_body(parser, view_first(*bytes, size));
    *bytes = view_from(*bytes, size);
    if (parser->left > 0 || reply_is_over(parser))
        return;
    parser->phase = parser->phase == REPLY_CHUNK ? REPLY_CHUNK_END : REPLY_COMPLETE;
}

static void parse_chunk_size(struct reply_parser *parser)
{
    struct view digits = view_first(buffer_view(&parser->line), parser->line.size - 2);
    bool good = digits.size > 0 && digits.size <= REPLY_CHUNK_DIGITS_MAX;
    parser->left = 0;
    for (size_t i = 0; good && i < digits.size; i++) {
        int digit = hex_digit(digits.data[i]);
        good = digit >= 0;
        parser->left = parser->left * 16 + (uint64_t)(good ? digit : 0);
    }
    buffer_clear(&parser->line);
    if (good)
        parser->phase = parser->left > 0 ? REPLY_CHUNK : REPLY_LAST;
    else
        reply_refuse(parser, "the size of a chunk is not valid");
}

/* The lines between chunks have at most these digits and CR LF. */
static void take_chunk_line(struct reply_parser *parser, struct view *bytes)
{
    bool empty = parser->phase != REPLY_SIZE;
    size_t max = (empty ? 0 : REPLY_CHUNK_DIGITS_MAX) + 2;
    if (!take_until(parser, bytes, VIEW("\r\n"), max))
        return;
    if (parser->phase == REPLY_SIZE) {
        parse_chunk_size(parser);
        return;
    }
    buffer_clear(&parser->line);
    parser->phase = parser->phase == REPLY_LAST ? REPLY_COMPLETE : REPLY_SIZE;
}

/* ---- The seam ---------------------------------------------------------------------------- */

/* What does not begin as a reply is refused at once, because whatever sends it may wait for us. */
static void take_head(struct reply_parser *parser, struct view *bytes)
{
    static const struct view start = { "HTTP/1.", 7 };
    bool whole = take_until(parser, bytes, VIEW("\r\n\r\n"), REPLY_HEAD_MAX);
    struct view begun = view_first(buffer_view(&parser->line), start.size);
    if (parser->phase == REPLY_REFUSED)
        return;
    if (!view_starts_with(start, begun))
        reply_refuse(parser, "the reply is not HTTP");
    else if (whole)
        parse_head(parser);
}

void reply_feed(struct reply_parser *parser, struct view bytes)
{
    while (bytes.size > 0 && !reply_is_over(parser)) {
        switch (parser->phase) {
        case REPLY_HEAD: take_head(parser, &bytes); break;
        case REPLY_BODY:
        case REPLY_CHUNK: take_counted(parser, &bytes); break;
        case REPLY_CHUNK_END:
        case REPLY_SIZE:
        case REPLY_LAST: take_chunk_line(parser, &bytes); break;
        case REPLY_TO_END:
            keep_body(parser, bytes);
            bytes = VIEW("");
            break;
        case REPLY_COMPLETE:
        case REPLY_TOO_LARGE:
        case REPLY_REFUSED:
        default: check_unreachable();
        }
    }
    if (bytes.size > 0)
        parser->keeps = false;
}

void reply_feed_end(struct reply_parser *parser)
{
    parser->keeps = false;
    if (parser->phase == REPLY_TO_END)
        parser->phase = REPLY_COMPLETE;
    else if (parser->phase == REPLY_HEAD && parser->line.size > 0)
        reply_refuse(parser, "the reply ended within its headers");
    else if (!reply_is_over(parser) && parser->phase != REPLY_HEAD)
        reply_refuse(parser, "the reply ended within its body");
}
