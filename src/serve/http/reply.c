/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: the head of a reply as bytes. */
#include "serve/http/reply.h"

#include "serve/http/message.h"

#include <stdio.h>

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    { 200, "OK" },
    { 100, "Continue" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 304, "Not Modified" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 417, "Expectation Failed" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 423, "Locked" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
    { 507, "Insufficient Storage" },
};

const char *reply_reason(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

bool reply_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

bool reply_headers_valid(const struct http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (headers[i].name[0] == '\0' || !message_is_printable(view_of(headers[i].name)) ||
            !message_is_printable(headers[i].value))
            return false;
    return true;
}

static void reply_append_line(struct buffer *out, const char *name, struct view value)
{
    buffer_append(out, view_of(name));
    buffer_append(out, VIEW(": "));
    buffer_append(out, value);
    buffer_append(out, VIEW("\r\n"));
}

bool reply_append_head(struct buffer *out, const struct reply_head *head)
{
    buffer_append(out, VIEW("HTTP/1.1 "));
    buffer_append_u64(out, (uint64_t)head->status);
    buffer_append_byte(out, ' ');
    buffer_append(out, view_of(reply_reason(head->status)));
    buffer_append(out, VIEW("\r\n"));
    buffer_append(out, VIEW("Date: "));
    buffer_append(out, head->date);
    buffer_append(out, VIEW("\r\n"));
    for (size_t i = 0; i < head->header_count; i++)
        reply_append_line(out, head->headers[i].name, head->headers[i].value);
    if (head->chunked) {
        reply_append_line(out, "Transfer-Encoding", VIEW("chunked"));
    } else if (!head->until_close && reply_has_body(head->status)) {
        buffer_append(out, VIEW("Content-Length: "));
        buffer_append_u64(out, head->length);
        buffer_append(out, VIEW("\r\n"));
    }
    if (head->close)
        reply_append_line(out, "Connection", VIEW("close"));
    else if (head->minor == 0)
        reply_append_line(out, "Connection", VIEW("keep-alive"));
    return buffer_append(out, VIEW("\r\n")) && !out->failed;
}
