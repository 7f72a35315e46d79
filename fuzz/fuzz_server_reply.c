/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_server_reply.c: parses arbitrary bytes as the reply of a server. However the bytes are cut
 * into pieces, the result must be the same. A reply that is complete has a status, and a body
 * within its bounds and as long as it says. */
#include "base/check.h"
#include "fuzz.h"
#include "store/server/reply_parser.h"

#define BODY_MAX 600

struct parsed_reply {
    struct reply_parser parser;
    struct http_reply reply;
};

static void parse_in_pieces(struct parsed_reply *parsed, struct view bytes, size_t piece)
{
    parsed->reply = (struct http_reply){ .body = BUFFER_INIT(HTTP_ERROR_BODY_MAX) };
    parsed->parser = REPLY_PARSER(&parsed->reply, BODY_MAX);
    while (bytes.size > 0 && !reply_is_over(&parsed->parser)) {
        reply_feed(&parsed->parser, view_first(bytes, piece));
        bytes = view_from(bytes, piece);
    }
    if (!reply_is_over(&parsed->parser))
        reply_feed_end(&parsed->parser);
}

static void parsed_reply_holds(const struct parsed_reply *parsed)
{
    const struct http_reply *reply = &parsed->reply;
    bool complete = parsed->parser.phase == REPLY_COMPLETE;
    bool good = reply->status >= 200 && reply->status <= 299;
    check(reply->body.size <= (good ? BODY_MAX : HTTP_ERROR_BODY_MAX));
    check(!complete || (reply->status >= 200 && reply->status <= 999 && reply->whole_headers));
    if (complete && good && reply->has_length && reply->status != 204)
        check(reply->body.size == reply->length);
    check((parsed->parser.phase == REPLY_REFUSED) == (parsed->parser.why != NULL));
}

static void release_parsed(struct parsed_reply *parsed)
{
    reply_parser_release(&parsed->parser);
    http_reply_release(&parsed->reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t pieces[] = { 1, 7, SIZE_MAX / 2 };
    struct view bytes = { (const char *)data, size };
    struct parsed_reply first;
    parse_in_pieces(&first, bytes, pieces[0]);
    parsed_reply_holds(&first);
    for (size_t i = 1; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct parsed_reply other;
        parse_in_pieces(&other, bytes, pieces[i]);
        parsed_reply_holds(&other);
        check(first.parser.phase == other.parser.phase);
        check(first.reply.status == other.reply.status);
        check(view_equal(buffer_view(&first.reply.body), buffer_view(&other.reply.body)) ||
              first.parser.phase != REPLY_COMPLETE);
        check(first.reply.token == other.reply.token);
        release_parsed(&other);
    }
    release_parsed(&first);
    return 0;
}
