/* SPDX-License-Identifier: Apache-2.0 */
/* reply_parser.h: reads the reply to one HTTP/1.1 request, piece by piece, as it arrives. Pure: it
 * has no socket and no clock.
 *
 * The server is not trusted. A reply must have one way to say where it ends, and everything in it
 * is bounded: the head by REPLY_HEAD_MAX, the body of a 2xx reply by what the caller can use. What
 * deviates from that is refused, and never guessed at: lines without CR LF, two lengths, a length
 * and chunks, chunk extensions, trailers, and a 2xx reply that ends when the connection does, which
 * cannot be told from one that is cut off. */
#ifndef STORE_SERVER_REPLY_PARSER_H
#define STORE_SERVER_REPLY_PARSER_H

#include "store/remote/http.h"

#define REPLY_HEAD_MAX    ((size_t)16 * KIB)
#define REPLY_INTERIM_MAX 4 /* replies with a status of 1xx before the reply itself */

enum reply_phase {
    REPLY_HEAD,
    REPLY_BODY,      /* `left` bytes */
    REPLY_CHUNK,     /* `left` bytes of a chunk */
    REPLY_CHUNK_END, /* the CR LF after a chunk */
    REPLY_SIZE,      /* the line with the size of a chunk */
    REPLY_LAST,      /* the empty line after the last chunk */
    REPLY_TO_END,    /* an error page until the connection ends */
    REPLY_COMPLETE,
    REPLY_TOO_LARGE, /* a 2xx body with more than body_max bytes */
    REPLY_REFUSED,   /* `why` */
};

struct reply_parser {
    struct http_reply *reply; /* the result; its body is kept there */
    size_t body_max;          /* of a 2xx reply */
    enum reply_phase phase;
    uint64_t left;
    int interim;
    bool keeps;         /* the connection can be used for another request */
    const char *why;    /* of REPLY_REFUSED */
    struct buffer line; /* the head, or a line of a chunk, as far as it has arrived */
};

#define REPLY_PARSER(result, max)                \
    ((struct reply_parser){ .reply = (result),   \
                            .body_max = (max),   \
                            .phase = REPLY_HEAD, \
                            .keeps = true,       \
                            .line = BUFFER_INIT(REPLY_HEAD_MAX) })

void reply_parser_release(struct reply_parser *parser);

/* Takes bytes until the reply is over; further ones make `keeps` false. */
void reply_feed(struct reply_parser *parser, struct view bytes);

/* The connection has ended. */
void reply_feed_end(struct reply_parser *parser);

/* Whether no further byte is wanted. */
static inline bool reply_is_over(const struct reply_parser *parser)
{
    return parser->phase >= REPLY_COMPLETE;
}

#endif
