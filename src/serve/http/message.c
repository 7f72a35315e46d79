/* SPDX-License-Identifier: Apache-2.0 */
/* message.c: collects the lines of a head, and a body of an announced length. head.c parses
 * the head when it is complete; chunk.c decodes the other kind of body.
 *
 * Lines are counted while they arrive, so a head with too many of them, or with a line that
 * does not end in CRLF, is refused as soon as that is known. */
#include "serve/http/message.h"

#include "base/check.h"
#include "base/word.h"

#include <stdlib.h>

/* How much memory a head gets at first, at most. */
#define HEAD_USUAL ((size_t)512)

/* The order of the first ones is that of enum message_header. */
static const char *const single_headers[] = {
    "host",          "content-length", "transfer-encoding", "expect",  "content-type",
    "authorization", "origin",         "content-encoding",  "referer", "user-agent",
    "traceparent",   "if-none-match",  "last-event-id",     NULL,
};

bool message_rules_init(struct message_rules *rules, const struct http_limits *limits,
                        const char *const *more)
{
    *rules = (struct message_rules){ .head_bytes = limits->head_bytes,
                                     .headers = limits->headers,
                                     .body_bytes = limits->body_bytes };
    const char *const *lists[] = { single_headers, more };
    for (size_t i = 0; i < 2; i++)
        for (const char *const *name = lists[i]; name && *name; name++) {
            if (rules->single_count == MESSAGE_SINGLES_MAX)
                return false;
            rules->single[rules->single_count++] = view_of(*name);
        }
    return true;
}

void message_init(struct message *message, const struct message_rules *rules)
{
    *message = (struct message){ .rules = rules,
                                 .phase = MESSAGE_HEAD,
                                 .head = BUFFER_INIT(rules->head_bytes),
                                 .body = BUFFER_INIT(rules->body_bytes) };
}

static void message_release_parts(struct message *message)
{
    target_release(&message->target);
    if (message->headers != message->few)
        free(message->headers);
    message->headers = NULL;
    message->header_count = 0;
}

void message_release(struct message *message)
{
    buffer_release(&message->head);
    buffer_release(&message->body);
    message_release_parts(message);
}

void message_init_again(struct message *message)
{
    struct buffer head = message->head, body = message->body;
    message_release_parts(message);
    message_init(message, message->rules);
    head.size = body.size = 0;
    head.failed = body.failed = false;
    body.max = message->body.max;
    message->head = head;
    message->body = body;
}

size_t message_bytes(const struct message *message)
{
    size_t headers = message->headers != message->few ? message->header_count : 0;
    return message->head.capacity + message->body.capacity +
           headers * sizeof *message->headers + message->target.bytes;
}

bool message_body_exceeds(const struct message *message, size_t bytes)
{
    return message->phase != MESSAGE_HEAD && message->phase != MESSAGE_REFUSED &&
           message->body.size + message->remaining > bytes;
}

void message_limit_body(struct message *message, size_t bytes)
{
    if (message_body_exceeds(message, bytes))
        message_refuse(message, 413, "the body is too large");
    else if (bytes < message->body.max)
        message->body.max = bytes;
}

void message_refuse(struct message *message, int status, const char *why)
{
    if (message->phase == MESSAGE_REFUSED)
        return;
    message->phase = MESSAGE_REFUSED;
    message->status = status;
    message->why = why;
}

/* Whether eight bytes differ at most in the case of letters. */
static bool is_same_word_nocase(uint64_t a, uint64_t b)
{
    uint64_t differ = a ^ b;
    uint64_t small = (b | EACH_BYTE(0x20)) & EACH_BYTE(0x7f);
    uint64_t from_a = small + EACH_BYTE(0x80 - 'a'), above_z = small + EACH_BYTE(0x7f - 'z');
    uint64_t letters = from_a & ~above_z & ~b & EACH_BYTE(0x80);
    return (differ & ~(letters >> 2)) == 0;
}

bool message_same_nocase(struct view a, struct view b)
{
    size_t i = 0;
    for (; a.size - i >= 8; i += 8)
        if (!is_same_word_nocase(load_little_endian(a.data + i),
                                 load_little_endian(b.data + i)))
            return false;
    for (; i < a.size; i++) {
        char x = a.data[i], y = b.data[i];
        bool letter = (x | 0x20) >= 'a' && (x | 0x20) <= 'z';
        if (x != y && !(letter && (x ^ y) == 0x20))
            return false;
    }
    return true;
}

/* Whether one of eight bytes may be a control character. */
static bool may_have_control(uint64_t word)
{
    uint64_t low = (word - EACH_BYTE(0x20)) & ~word;
    uint64_t flipped = word ^ EACH_BYTE(0x7f);
    uint64_t deleted = (flipped - EACH_BYTE(1)) & ~flipped;
    return ((low | deleted) & EACH_BYTE(0x80)) != 0;
}

bool message_is_printable(struct view text)
{
    size_t i = 0;
    while (text.size - i >= 8 && !may_have_control(load_little_endian(text.data + i)))
        i += 8;
    for (; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* A line of the head is complete; its LF is the last byte of the head so far. */
static void message_end_line(struct message *message)
{
    const struct buffer *head = &message->head;
    size_t size = head->size - message->line_start;
    if (size < 2 || head->data[head->size - 2] != '\r') {
        message_refuse(message, 400,
                       "a line of the head must end with CR LF, not with LF alone");
    } else if (size > 2) {
        if (message->lines > message->rules->headers)
            message_refuse(message, 431, "the request has too many headers");
        message->lines++;
        message->line_start = head->size;
    } else if (message->lines > 0) {
        head_parse(message);
    } else if (message->skipped_empty_line) {
        message_refuse(message, 400, "the request begins with empty lines");
    } else {
        /* Some clients send one CRLF too many after a body, and RFC 9112 section 2.2 lets
         * them. */
        message->skipped_empty_line = true;
        buffer_clear(&message->head);
    }
}

/* What cannot be a request is refused at its first byte, not after the time for a whole
 * head. */
static void message_check_first(struct message *message, char first)
{
    if (first == 0x16)
        message_refuse(message, 400,
                       "this port speaks plain HTTP, and the client began with TLS");
    else if (first != '\r' && first != '\n' && !(first >= 'A' && first <= 'Z'))
        message_refuse(message, 400, "the request does not begin with a method");
}

static size_t message_feed_head(struct message *message, struct view bytes)
{
    if (message->head.size == 0) {
        message_check_first(message, bytes.data[0]);
        /* Mostly all of it is here. If there is no memory, the append says so. */
        (void)buffer_reserve(&message->head, bytes.size < HEAD_USUAL ? bytes.size : HEAD_USUAL);
    }
    size_t lf = view_find(bytes, '\n');
    struct view piece = view_first(bytes, lf + 1);
    if (message->phase == MESSAGE_REFUSED)
        return piece.size;
    if (piece.size > message->rules->head_bytes - message->head.size) {
        if (message->lines == 0)
            message_refuse(message, 414, "the request line is too long");
        else
            message_refuse(message, 431, "the headers are too long");
    } else if (!buffer_append(&message->head, piece)) {
        message_refuse(message, 503, "the server is out of memory");
    } else if (lf < bytes.size) {
        message_end_line(message);
    }
    return piece.size;
}

static size_t message_feed_body(struct message *message, struct view bytes)
{
    size_t take = bytes.size < message->remaining ? bytes.size : (size_t)message->remaining;
    if (!buffer_append(&message->body, view_first(bytes, take)))
        message_refuse(message, 503, "the server is out of memory");
    message->remaining -= take;
    if (message->remaining == 0 && message->phase == MESSAGE_BODY)
        message->phase = MESSAGE_COMPLETE;
    return take;
}

static size_t message_feed_some(struct message *message, struct view bytes)
{
    switch (message->phase) {
    case MESSAGE_HEAD: return message_feed_head(message, bytes);
    case MESSAGE_BODY: return message_feed_body(message, bytes);
    case MESSAGE_CHUNKS: return chunk_feed(message, bytes);
    case MESSAGE_COMPLETE:
    case MESSAGE_REFUSED: break;
    }
    check_unreachable();
}

size_t message_feed(struct message *message, struct view bytes)
{
    size_t taken = 0;
    while (taken < bytes.size && message->phase < MESSAGE_COMPLETE)
        taken += message_feed_some(message, view_from(bytes, taken));
    return taken;
}
