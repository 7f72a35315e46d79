/* SPDX-License-Identifier: Apache-2.0 */
/* chunk.c: decodes a chunked body: "5 CRLF hello CRLF 0 CRLF CRLF", and nothing that
 * deviates from it. Extensions and trailers are refused: no client that we know sends them,
 * no handler could see them, and parsers that skip them have disagreed about where they end. */
#include "serve/http/message.h"

#include "base/check.h"
#include "base/parse.h"

/* Four GiB; longer numbers are refused before they can overflow. */
#define CHUNK_DIGITS_MAX 8

static enum chunk_state chunk_fail(struct message *message, const char *why)
{
    message_refuse(message, 400, why);
    return message->chunk_state;
}

/* A digit of the size, or the CR after it. */
static enum chunk_state chunk_size(struct message *message, char byte)
{
    int digit = hex_digit(byte);
    if (digit >= 0) {
        if (message->chunk_digits++ == CHUNK_DIGITS_MAX)
            return chunk_fail(message, "the size of a chunk is too long");
        message->remaining = message->remaining * 16 + (uint64_t)digit;
        return CHUNK_SIZE_MORE;
    }
    if (byte == ';')
        return chunk_fail(message, "chunk extensions are not accepted");
    if (byte != '\r' || message->chunk_state == CHUNK_SIZE_FIRST)
        return chunk_fail(message, "the size of a chunk must be hexadecimal digits and CR LF");
    return CHUNK_SIZE_LF;
}

/* The size is known: data follows, or the end. */
static enum chunk_state chunk_begin(struct message *message)
{
    message->chunk_digits = 0;
    if (message->remaining > message->body.max - message->body.size)
        message_refuse(message, 413, "the body is too large");
    return message->remaining ? CHUNK_DATA : CHUNK_LAST_CR;
}

static enum chunk_state chunk_byte(struct message *message, char byte)
{
    switch (message->chunk_state) {
    case CHUNK_SIZE_FIRST:
    case CHUNK_SIZE_MORE: return chunk_size(message, byte);
    case CHUNK_SIZE_LF:
        return byte == '\n' ? chunk_begin(message)
                            : chunk_fail(message, "the size of a chunk must end with CR LF");
    case CHUNK_DATA_CR:
        return byte == '\r' ? CHUNK_DATA_LF
                            : chunk_fail(message, "a chunk is longer than its size");
    case CHUNK_DATA_LF:
        return byte == '\n' ? CHUNK_SIZE_FIRST
                            : chunk_fail(message, "a chunk must end with CR LF");
    case CHUNK_LAST_CR:
        return byte == '\r' ? CHUNK_LAST_LF : chunk_fail(message, "trailers are not accepted");
    case CHUNK_LAST_LF:
        if (byte == '\n')
            message->phase = MESSAGE_COMPLETE;
        else
            message_refuse(message, 400, "the last chunk must end with CR LF");
        return CHUNK_LAST_LF;
    case CHUNK_DATA: break;
    }
    check_unreachable();
}

size_t chunk_feed(struct message *message, struct view bytes)
{
    if (message->chunk_state != CHUNK_DATA) {
        message->chunk_state = chunk_byte(message, bytes.data[0]);
        return 1;
    }
    size_t take = bytes.size < message->remaining ? bytes.size : (size_t)message->remaining;
    if (!buffer_append(&message->body, view_first(bytes, take)))
        message_refuse(message, 503, "the server is out of memory");
    message->remaining -= take;
    if (message->remaining == 0)
        message->chunk_state = CHUNK_DATA_CR;
    return take;
}
