/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h: the head of a reply as bytes. Pure. */
#ifndef SERVE_HTTP_REPLY_H
#define SERVE_HTTP_REPLY_H

#include "base/buffer.h"
#include "base/moment.h"
#include "serve/http/server.h"

struct reply_head {
    int status;
    uint8_t minor; /* of the request's version */
    bool close;
    bool chunked;     /* a stream in chunks */
    bool until_close; /* a stream for HTTP/1.0 */
    size_t length;    /* of the body, otherwise; also of one that HEAD does not get */
    struct view date;
    const struct http_header *headers;
    size_t header_count;
};

/* Whether names and values can stand in a reply: no control characters. */
bool reply_headers_valid(const struct http_header *headers, size_t count);

/* Appends the head. False if memory runs out. */
bool reply_append_head(struct buffer *out, const struct reply_head *head);

/* Whether a reply with this status has a body: not for 1xx, 204 and 304. */
bool reply_has_body(int status);

/* "OK", "Not Found"; "Unknown" for a status that has no words here. */
const char *reply_reason(int status);

#endif
