/* SPDX-License-Identifier: Apache-2.0 */
/* head.c: parses the complete head of a request: request line, headers, and what they say
 * about the length of the body and the connection. */
#include "serve/http/message.h"

#include "base/check.h"

#include <stdlib.h>

#define LENGTH_DIGITS_MAX 18

/* What the headers of one message say. */
struct head_facts {
    struct view target;
    bool has[MESSAGE_SINGLES_MAX];
    struct view value[HEADER_READ_COUNT];
    bool close;
    bool keep_alive;
};

static bool head_refuse(struct message *message, int status, const char *why)
{
    message_refuse(message, status, why);
    return false;
}

/* tchar of RFC 9110: the characters of a header's name and of a method. */
static bool head_is_token(struct view text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!plain && (c == '\0' || !strchr(others, c)))
            return false;
    }
    return text.size > 0;
}

static struct view head_trimmed(struct view text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = view_from(text, 1);
    while (text.size > 0 &&
           (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
        text.size--;
    return text;
}

/* The next line of the head, without its CRLF. */
static struct view head_next_line(struct view *rest)
{
    struct view line = view_cut(rest, '\n');
    check(line.size > 0);
    return view_first(line, line.size - 1);
}

/* ---- The request line -------------------------------------------------------------------- */

static const char *const verb_names[] = {
    [HTTP_VERB_GET] = "GET",         [HTTP_VERB_HEAD] = "HEAD",     [HTTP_VERB_POST] = "POST",
    [HTTP_VERB_PUT] = "PUT",         [HTTP_VERB_DELETE] = "DELETE", [HTTP_VERB_PATCH] = "PATCH",
    [HTTP_VERB_OPTIONS] = "OPTIONS",
};

const char *http_verb_name(enum http_verb verb)
{
    return verb_names[verb];
}

static bool head_parse_verb(struct message *message, struct view name)
{
    for (size_t i = 0; i < sizeof verb_names / sizeof verb_names[0]; i++)
        if (view_equal(name, view_of(verb_names[i]))) {
            message->verb = (enum http_verb)i;
            return true;
        }
    return head_is_token(name) ? head_refuse(message, 501, "the method is not implemented")
                               : head_refuse(message, 400, "the method is malformed");
}

static bool head_parse_version(struct message *message, struct view version)
{
    if (version.size != 8 || !view_starts_with(version, VIEW("HTTP/")) ||
        version.data[6] != '.' || version.data[5] < '0' || version.data[5] > '9' ||
        version.data[7] < '0' || version.data[7] > '9')
        return head_refuse(message, 400,
                           "the request line must be a method, a path and HTTP/1.1, with one "
                           "space between them");
    if (version.data[5] != '1' || version.data[7] > '1')
        return head_refuse(message, 505, "the version must be HTTP/1.1 or HTTP/1.0");
    message->minor = (uint8_t)(version.data[7] - '0');
    return true;
}

static bool head_parse_line(struct message *message, struct view line, struct head_facts *facts)
{
    struct view rest = line;
    struct view verb = view_cut(&rest, ' ');
    facts->target = view_cut(&rest, ' ');
    return head_parse_version(message, rest) && head_parse_verb(message, verb);
}

/* ---- Headers ----------------------------------------------------------------------------- */

/* Notes "close" and "keep-alive" of a Connection header, which is a list. */
static void head_note_connection(struct view list, struct head_facts *facts)
{
    while (list.size > 0) {
        struct view word = head_trimmed(view_cut(&list, ','));
        if (message_equal_nocase(word, VIEW("close")))
            facts->close = true;
        else if (message_equal_nocase(word, VIEW("keep-alive")))
            facts->keep_alive = true;
    }
}

static bool head_note_header(struct message *message, const struct http_pair *pair,
                             struct head_facts *facts)
{
    const struct message_rules *rules = message->rules;
    if (message_equal_nocase(pair->name, VIEW("connection")))
        head_note_connection(pair->value, facts);
    for (size_t i = 0; i < rules->single_count; i++)
        if (message_equal_nocase(pair->name, rules->single[i])) {
            if (facts->has[i])
                return head_refuse(message, 400,
                                   "a header occurs twice that must occur only once");
            facts->has[i] = true;
            if (i < HEADER_READ_COUNT)
                facts->value[i] = pair->value;
        }
    return true;
}

static bool head_parse_header(struct message *message, struct view line, struct http_pair *pair)
{
    if (line.data[0] == ' ' || line.data[0] == '\t')
        return head_refuse(message, 400, "a header must not be continued on another line");
    size_t colon = view_find(line, ':');
    struct view name = view_first(line, colon);
    if (colon == line.size || !head_is_token(name))
        return head_refuse(
            message, 400,
            "a header must be a name, directly followed by a colon and its value");
    struct view value = view_from(line, colon + 1);
    if (!message_is_printable(value))
        return head_refuse(message, 400, "a header contains a control character");
    *pair = (struct http_pair){ name, head_trimmed(value) };
    return true;
}

static bool head_parse_headers(struct message *message, struct view rest,
                               struct head_facts *facts)
{
    size_t count = message->lines - 1;
    if (count == 0)
        return true;
    message->headers =
        count <= MESSAGE_FEW_HEADERS ? message->few : malloc(count * sizeof *message->headers);
    if (!message->headers)
        return head_refuse(message, 503, "the server is out of memory");
    for (size_t i = 0; i < count; i++) {
        struct http_pair *pair = &message->headers[i];
        if (!head_parse_header(message, head_next_line(&rest), pair) ||
            !head_note_header(message, pair, facts))
            return false;
        message->header_count = i + 1;
    }
    return true;
}

/* ---- Host and target --------------------------------------------------------------------- */

static bool head_is_authority(struct view host)
{
    static const char others[] = "-._~!$&'()*+,;=%:[]";
    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!plain && (c == '\0' || !strchr(others, c)))
            return false;
    }
    return true;
}

/* "http://host/path" becomes "/path". The host in it must be that of the Host header:
 * otherwise two programs could believe that the request is for different hosts. */
static bool head_cut_absolute(struct message *message, struct head_facts *facts)
{
    struct view rest = facts->target;
    size_t scheme = message_equal_nocase(view_first(rest, 7), VIEW("http://"))    ? 7
                    : message_equal_nocase(view_first(rest, 8), VIEW("https://")) ? 8
                                                                                  : 0;
    if (scheme == 0)
        return head_refuse(message, 400, "the path must begin with a slash");
    rest = view_from(rest, scheme);
    size_t end = 0;
    while (end < rest.size && rest.data[end] != '/' && rest.data[end] != '?')
        end++;
    struct view host = view_first(rest, end);
    if (!facts->has[HEADER_HOST] && head_is_authority(host))
        message->host = host;
    if (host.size == 0 || !message_equal_nocase(host, message->host))
        return head_refuse(message, 400, "the host of the URL and the Host header differ");
    facts->target = view_from(rest, end);
    return true;
}

static bool head_parse_target(struct message *message, struct head_facts *facts)
{
    if (!facts->has[HEADER_HOST] && message->minor == 1)
        return head_refuse(message, 400, "the Host header is missing");
    message->host = facts->has[HEADER_HOST] ? facts->value[HEADER_HOST] : VIEW("");
    if (!head_is_authority(message->host))
        return head_refuse(message, 400, "the Host header is malformed");
    if (!view_starts_with(facts->target, VIEW("/")) && !head_cut_absolute(message, facts))
        return false;
    struct view query = facts->target;
    struct view path = view_cut(&query, '?');
    if (path.size == 0)
        path = VIEW("/");
    const char *why = NULL;
    int status = target_parse(path, query, &message->target, &why);
    return status == 0 || head_refuse(message, status, why);
}

/* ---- The body ---------------------------------------------------------------------------- */

static bool head_parse_length(struct message *message, struct view digits)
{
    uint64_t length = 0;
    bool plain = digits.size > 0;
    for (size_t i = 0; i < digits.size; i++)
        plain = plain && digits.data[i] >= '0' && digits.data[i] <= '9';
    if (!plain)
        return head_refuse(message, 400, "Content-Length must be plain digits");
    for (size_t i = 0; i < digits.size && i < LENGTH_DIGITS_MAX; i++)
        length = length * 10 + (uint64_t)(digits.data[i] - '0');
    if (digits.size > LENGTH_DIGITS_MAX || length > message->rules->body_bytes)
        return head_refuse(message, 413, "the body is too large");
    message->remaining = length;
    message->body.max = (size_t)length;
    return true;
}

/* Where the body ends: by chunks, by its length, or at once. */
static bool head_parse_framing(struct message *message, const struct head_facts *facts)
{
    bool coded = facts->has[HEADER_TRANSFER_ENCODING];
    bool counted = facts->has[HEADER_CONTENT_LENGTH];
    if (coded && counted)
        return head_refuse(message, 400,
                           "a request must not have both Content-Length and Transfer-Encoding");
    if (coded && message->minor == 0)
        return head_refuse(message, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (coded && !message_equal_nocase(facts->value[HEADER_TRANSFER_ENCODING], VIEW("chunked")))
        return head_refuse(message, 501, "the only transfer encoding is 'chunked'");
    if (facts->has[HEADER_EXPECT]) {
        if (!message_equal_nocase(facts->value[HEADER_EXPECT], VIEW("100-continue")))
            return head_refuse(message, 417, "the only expectation is '100-continue'");
        message->expects_continue = message->minor == 1;
    }
    if (counted && !head_parse_length(message, facts->value[HEADER_CONTENT_LENGTH]))
        return false;
    message->keep_alive = !facts->close && (message->minor == 1 || facts->keep_alive);
    message->phase = coded                    ? MESSAGE_CHUNKS
                     : message->remaining > 0 ? MESSAGE_BODY
                                              : MESSAGE_COMPLETE;
    return true;
}

void head_parse(struct message *message)
{
    struct head_facts facts = { .close = false };
    struct view rest = buffer_view(&message->head);
    struct view line = head_next_line(&rest);
    if (head_parse_line(message, line, &facts) && head_parse_headers(message, rest, &facts) &&
        head_parse_target(message, &facts))
        head_parse_framing(message, &facts);
    check(message->phase != MESSAGE_HEAD);
}
