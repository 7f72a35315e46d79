/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_serve_request.c: reads arbitrary bytes as the requests of one connection, as the
 * server does.
 *
 * The first byte says in what pieces the rest arrives. However it is cut, the same requests
 * must come out. Where our parser sees a request, http-parser must see the same one, or
 * refuse it: so another program cannot be made to see something else in it. And the parts of
 * a request must be as server.h promises. */
#include "base/check.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "serve/http/message.h"
#include "serve_other_parser.h"

#include <stdlib.h>

static void text_holds(struct view text)
{
    check(utf8_is_valid(text) && !memchr(text.data ? text.data : "", '\0', text.size));
}

static void message_holds(const struct message *message)
{
    const struct target *target = &message->target;
    check(message->verb <= HTTP_VERB_OPTIONS && message->minor <= 1);
    check(message->body.size <= message->rules->body_bytes);
    check(message->header_count <= message->rules->headers);
    check(target->path.size > 0 && target->path.data[0] == '/');
    check(target->segment_count > 0 && target->segment_count <= HTTP_SEGMENTS_MAX);
    check(target->parameter_count <= HTTP_PARAMETERS_MAX);
    for (size_t i = 0; i < target->segment_count; i++) {
        text_holds(target->segments[i]);
        check(!view_equal(target->segments[i], VIEW(".")) &&
              !view_equal(target->segments[i], VIEW("..")));
    }
    for (size_t i = 0; i < target->parameter_count; i++) {
        text_holds(target->parameters[i].name);
        text_holds(target->parameters[i].value);
    }
    for (size_t i = 0; i < message->header_count; i++)
        check(message->headers[i].name.size > 0 &&
              !memchr(message->headers[i].value.data, '\n', message->headers[i].value.size));
}

/* The same message, read in pieces of this size. */
static void pieces_agree(const struct message *whole, struct view bytes, size_t piece)
{
    struct message again;
    message_init(&again, whole->rules);
    size_t taken = 0;
    while (taken < bytes.size && again.phase < MESSAGE_COMPLETE)
        taken += message_feed(&again, view_first(view_from(bytes, taken), piece));
    check(again.phase == whole->phase && again.status == whole->status);
    if (whole->phase == MESSAGE_COMPLETE)
        check(taken == bytes.size && again.verb == whole->verb &&
              again.header_count == whole->header_count &&
              view_equal(buffer_view(&again.body), buffer_view(&whole->body)) &&
              view_equal(again.target.path, whole->target.path));
    message_release(&again);
}

/* What another program would see. */
static void other_parser_agrees(const struct message *message, struct view bytes)
{
    struct other_request other;
    if (!other_parser_read(bytes, &other))
        return;
    check(other.complete && other.taken == bytes.size && !other.more);
    check(other.minor == message->minor);
    check(strcmp(other.method, http_verb_name(message->verb)) == 0);
    check(other.headers == message->header_count);
    check(other.body_size == message->body.size);
    check(other.body_sum == other_parser_sum(0, buffer_view(&message->body)));
    if (message->keep_alive)
        check(other.keep_alive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_limits limits = HTTP_LIMITS;
    struct message_rules rules;
    limits.head_bytes = 2048;
    limits.headers = 20;
    limits.body_bytes = 1000;
    check(message_rules_init(&rules, &limits, NULL));
    struct view rest = { (const char *)data, size };
    size_t piece = size > 0 ? data[0] % 16 + 1u : 1;
    rest = view_from(rest, 1);
    bool more = true;
    while (more && rest.size > 0) {
        struct message message;
        message_init(&message, &rules);
        struct view bytes = view_first(rest, message_feed(&message, rest));
        if (message.phase == MESSAGE_COMPLETE) {
            message_holds(&message);
            other_parser_agrees(&message, bytes);
        }
        if (message.phase == MESSAGE_REFUSED)
            check(message.status >= 400 && message.status <= 505 && message.why);
        pieces_agree(&message, bytes, piece);
        more = message.phase == MESSAGE_COMPLETE;
        rest = view_from(rest, bytes.size);
        message_release(&message);
    }
    return 0;
}
