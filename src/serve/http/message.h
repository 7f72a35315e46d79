/* SPDX-License-Identifier: Apache-2.0 */
/* message.h: reads a request from bytes, strictly, in pieces of any size. Pure: no socket,
 * no clock.
 *
 * The bytes of one connection are fed to one message after another. A message ends as
 * COMPLETE, and then leaves the bytes after it to the next one, or as REFUSED, with a status
 * and a sentence; nothing after a refused message can be trusted, so its connection is
 * closed.
 *
 * Two programs that disagree about where a request ends can be made to see different
 * requests (request smuggling). So there is one way to write each thing, the one of RFC
 * 9112, and everything else is refused: a line that ends with LF alone, a CR inside a line,
 * folded lines, white space before a colon or at the start of a line, control characters,
 * both lengths, a length twice or not in plain digits, transfer codings other than
 * "chunked", chunk extensions, trailers, other versions.
 *
 * Memory: the head, the body and, when the head is complete, the parsed parts. A message that is
 * used again (message_init_again) keeps the memory of the first two. */
#ifndef SERVE_HTTP_MESSAGE_H
#define SERVE_HTTP_MESSAGE_H

#include "base/buffer.h"
#include "serve/http/server.h"
#include "serve/http/target.h"

/* Headers that the server reads itself, and others that may occur once. Their numbers are
 * positions in message_rules.single; those of the caller follow. */
enum message_header {
    HEADER_HOST,
    HEADER_CONTENT_LENGTH,
    HEADER_TRANSFER_ENCODING,
    HEADER_EXPECT,
    HEADER_READ_COUNT, /* of these the message keeps the values */
};

#define MESSAGE_SINGLES_MAX 64
#define MESSAGE_FEW_HEADERS 6

/* What every message of a server obeys. */
struct message_rules {
    size_t head_bytes;
    size_t headers;
    size_t body_bytes;
    struct view single[MESSAGE_SINGLES_MAX];
    size_t single_count;
};

/* `more` ends with NULL, and may be NULL. False if there are too many. */
bool message_rules_init(struct message_rules *rules, const struct http_limits *limits,
                        const char *const *more);

enum message_phase {
    MESSAGE_HEAD,
    MESSAGE_BODY, /* of an announced length */
    MESSAGE_CHUNKS,
    MESSAGE_COMPLETE,
    MESSAGE_REFUSED,
};

enum chunk_state {
    CHUNK_SIZE_FIRST,
    CHUNK_SIZE_MORE,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_LAST_CR,
    CHUNK_LAST_LF,
};

struct message {
    const struct message_rules *rules;
    enum message_phase phase;
    int status; /* of a refused message, and why: a constant */
    const char *why;

    struct buffer head; /* the bytes of request line and headers, with the empty line */
    size_t line_start;
    size_t lines; /* complete ones; the first is the request line */
    bool skipped_empty_line;

    enum http_verb verb;
    uint8_t minor; /* HTTP/1.minor */
    bool keep_alive;
    bool expects_continue;
    struct view host;
    struct http_pair *headers; /* `few`, or a block of their own */
    size_t header_count;
    struct http_pair few[MESSAGE_FEW_HEADERS];
    struct target target;

    enum chunk_state chunk_state;
    uint64_t remaining; /* of the body, or of the current chunk */
    uint32_t chunk_digits;
    struct buffer body;
};

void message_init(struct message *message, const struct message_rules *rules);
void message_release(struct message *message);

/* Releases a message, and makes it a new one. */
void message_init_again(struct message *message);

/* Takes bytes until the message is complete or refused, and returns how many it took. */
size_t message_feed(struct message *message, struct view bytes);

/* Whether it has a body of more than so many bytes, as far as that is known. */
bool message_body_exceeds(const struct message *message, size_t bytes);

/* Refuses a message with a larger body, now or when the body turns out to be larger. */
void message_limit_body(struct message *message, size_t bytes);

/* Refuses a message for a reason of the caller's, such as time. */
void message_refuse(struct message *message, int status, const char *why);

/* Whether anything of it has arrived. */
static inline bool message_begun(const struct message *message)
{
    return message->phase != MESSAGE_HEAD || message->head.size > 0;
}

/* Memory that the message holds. */
size_t message_bytes(const struct message *message);

/* Whether two texts are equal but for the case of ASCII letters. */
bool message_same_nocase(struct view a, struct view b); /* of the same size */

static inline bool message_equal_nocase(struct view a, struct view b)
{
    return a.size == b.size && message_same_nocase(a, b);
}

/* Whether a text has no control character but the tab: so no NUL, and no CR inside a line. */
bool message_is_printable(struct view text);

/* ---- Between message.c, head.c and chunk.c ----------------------------------------------- */

/* Parses the complete head: sets the members above, and the phase to BODY, CHUNKS, COMPLETE or
 * REFUSED. */
void head_parse(struct message *message);

/* Takes bytes of a chunked body; returns how many. */
size_t chunk_feed(struct message *message, struct view bytes);

#endif
