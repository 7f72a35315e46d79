/* SPDX-License-Identifier: Apache-2.0 */
/* serve_other_parser.c: reads a request with http-parser. */
#include "serve_other_parser.h"

#include <http_parser.h>

struct sight {
    struct other_request *request;
    bool in_value;
};

uint64_t other_parser_sum(uint64_t sum, struct view bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        sum = sum * 31 + (unsigned char)bytes.data[i];
    return sum;
}

static int see_begin(http_parser *parser)
{
    struct sight *sight = parser->data;
    sight->request->more = sight->request->complete;
    return 0;
}

static int see_field(http_parser *parser, const char *at, size_t size)
{
    struct sight *sight = parser->data;
    (void)at;
    (void)size;
    sight->in_value = false;
    return 0;
}

/* A value comes at once, or in pieces, but never without a call. */
static int see_value(http_parser *parser, const char *at, size_t size)
{
    struct sight *sight = parser->data;
    (void)at;
    (void)size;
    sight->request->headers += !sight->in_value;
    sight->in_value = true;
    return 0;
}

static int see_body(http_parser *parser, const char *at, size_t size)
{
    struct other_request *request = ((struct sight *)parser->data)->request;
    request->body_size += size;
    request->body_sum = other_parser_sum(request->body_sum, (struct view){ at, size });
    return 0;
}

static int see_end(http_parser *parser)
{
    struct other_request *request = ((struct sight *)parser->data)->request;
    request->complete = true;
    request->minor = parser->http_minor;
    request->method = http_method_str((enum http_method)parser->method);
    request->keep_alive = http_should_keep_alive(parser) != 0;
    return 0;
}

bool other_parser_read(struct view bytes, struct other_request *ret_request)
{
    static const http_parser_settings settings = { .on_message_begin = see_begin,
                                                   .on_header_field = see_field,
                                                   .on_header_value = see_value,
                                                   .on_body = see_body,
                                                   .on_message_complete = see_end };
    http_parser parser;
    struct sight sight = { .request = ret_request };
    *ret_request = (struct other_request){ .complete = false };
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = &sight;
    ret_request->taken = http_parser_execute(&parser, &settings, bytes.data, bytes.size);
    /* An offer to upgrade, which we do not take, ends its reading. */
    return HTTP_PARSER_ERRNO(&parser) == HPE_OK;
}
