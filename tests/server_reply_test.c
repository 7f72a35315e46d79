/* SPDX-License-Identifier: Apache-2.0 */
/* server_reply_test.c: which replies of a server are accepted, which are refused, and what is read
 * from them. The fuzzer of the same name cuts arbitrary replies into pieces. */
#include "store/server/reply_parser.h"

#include "store/server/plain.h"
#include "test.h"

#define BODY_MAX 10
#define OK_HEAD  "HTTP/1.1 200 OK\r\n"
#define CHUNKED  OK_HEAD "Transfer-Encoding: chunked\r\n\r\n"

static const struct reply_case {
    const char *text;
    enum reply_phase phase; /* at the end of the connection */
    bool keeps;
    int status;
    const char *body;
} replies[] = {
    { OK_HEAD "Content-Length: 2\r\n\r\n{}", REPLY_COMPLETE, true, 200, "{}" },
    { OK_HEAD "content-length:\t2 \r\n\r\n{}", REPLY_COMPLETE, true, 200, "{}" },
    { OK_HEAD "Content-Length: 0\r\n\r\n", REPLY_COMPLETE, true, 200, "" },
    { OK_HEAD "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", REPLY_COMPLETE, true, 200,
      "{}" },
    { "HTTP/1.1 204\r\n\r\n", REPLY_COMPLETE, true, 204, "" },
    { "HTTP/1.1 100 Continue\r\n\r\n" OK_HEAD "Content-Length: 1\r\n\r\nx", REPLY_COMPLETE,
      true, 200, "x" },
    { CHUNKED "3\r\nabc\r\n00000002\r\nde\r\n0\r\n\r\n", REPLY_COMPLETE, true, 200, "abcde" },
    { "HTTP/1.1 500 Oops\r\nContent-Length: 12\r\n\r\nmore than 10", REPLY_COMPLETE, true, 500,
      "more than 10" },

    /* The connection cannot be used again. */
    { OK_HEAD "Connection: close\r\nContent-Length: 1\r\n\r\nx", REPLY_COMPLETE, false, 200,
      "x" },
    { "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", REPLY_COMPLETE, false, 200, "x" },
    { OK_HEAD "Content-Length: 1\r\n\r\nxHTTP/1.1 200", REPLY_COMPLETE, false, 200, "x" },
    { "HTTP/1.1 404 Not Found\r\n\r\n<html>", REPLY_COMPLETE, false, 404, "<html>" },

    /* More than was asked for. */
    { OK_HEAD "Content-Length: 11\r\n\r\n01234567890", REPLY_TOO_LARGE, false, 200, "" },
    { CHUNKED "9\r\n012345678\r\n2\r\n90\r\n0\r\n\r\n", REPLY_TOO_LARGE, false, 200,
      "012345678" },

    /* Cut off. */
    { "", REPLY_HEAD, false, 0, "" },
    { OK_HEAD "Content-Len", REPLY_REFUSED, false, 0, "" },
    { OK_HEAD "Content-Length: 5\r\n\r\nabcd", REPLY_REFUSED, false, 200, "abcd" },
    { CHUNKED "3\r\nabc\r\n", REPLY_REFUSED, false, 200, "abc" },
    { CHUNKED "3\r\nabc\r\n0\r\n", REPLY_REFUSED, false, 200, "abc" },

    /* What has no end, or two. */
    { OK_HEAD "\r\n{}", REPLY_REFUSED, false, 200, "" },
    { OK_HEAD "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", REPLY_REFUSED, false, 200,
      "" },
    { OK_HEAD "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx", REPLY_REFUSED, false,
      200, "" },
    { OK_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\nx", REPLY_REFUSED, false, 200, "" },
    { OK_HEAD "Content-Length: -1\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { OK_HEAD "Content-Length: 99999999999999999999\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { CHUNKED "3;x=y\r\nabc\r\n0\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { CHUNKED "000000003\r\nabc\r\n0\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { CHUNKED "\r\nabc\r\n0\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { CHUNKED "3\nabc\r\n0\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { CHUNKED "3\r\nabcd\r\n0\r\n\r\n", REPLY_REFUSED, false, 200, "abc" },
    { CHUNKED "0\r\nETag: x\r\n\r\n", REPLY_REFUSED, false, 200, "" },

    /* No HTTP. */
    { "hello\n", REPLY_REFUSED, false, 0, "" },
    { "SSH-2.0-OpenSSH_9.2\r\n", REPLY_REFUSED, false, 0, "" },
    { "HTTP/2 200\r\n\r\n", REPLY_REFUSED, false, 0, "" },
    { "HTTP/1.1 20\r\n\r\n", REPLY_REFUSED, false, 0, "" },
    { "HTTP/1.1 2000\r\n\r\n", REPLY_REFUSED, false, 0, "" },
    { "HTTP/1.1 200 OK\nContent-Length: 0\n\n", REPLY_REFUSED, false, 0, "" },
    { OK_HEAD "Content-Length: 0\r\n folded\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { OK_HEAD "Content-Length : 0\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { OK_HEAD "no colon\r\n\r\n", REPLY_REFUSED, false, 200, "" },
    { "HTTP/1.1 101 Switching\r\n\r\n", REPLY_REFUSED, false, 101, "" },
};

static void each_reply_is_read_as_it_should_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        const struct reply_case *one = &replies[i];
        struct http_reply reply = { .body = BUFFER_INIT(HTTP_ERROR_BODY_MAX) };
        struct reply_parser parser = REPLY_PARSER(&reply, BODY_MAX);
        reply_feed(&parser, view_of(one->text));
        bool keeps = parser.keeps;
        if (!reply_is_over(&parser)) {
            reply_feed_end(&parser);
            keeps = parser.keeps;
        }
        if (parser.phase != one->phase || keeps != one->keeps || reply.status != one->status ||
            !view_equal(buffer_view(&reply.body), view_of(one->body)))
            fail_msg("%s\nphase %d, status %d, keeps %d, %zu bytes, %s", one->text,
                     (int)parser.phase, reply.status, keeps, reply.body.size,
                     parser.why ? parser.why : "");
        reply_parser_release(&parser);
        http_reply_release(&reply);
    }
}

static void the_state_of_a_key_has_a_version_a_token_and_an_etag(void **state)
{
    (void)state;
    struct http_reply reply = { .body = BUFFER_INIT(HTTP_ERROR_BODY_MAX) };
    struct reply_parser parser = REPLY_PARSER(&reply, BODY_MAX);
    reply_feed(&parser, VIEW("HTTP/1.1 103 Early\r\nX-Key-Version: 3\r\n\r\n" OK_HEAD
                             "Date: Wed, 18 Nov 2026 04:00:00 GMT\r\nETag: \"abc\"\r\n"
                             "x-key-version: 7\r\nX-Fencing-Token: 9\r\nContent-Length: 0\r\n"
                             "\r\n"));
    assert_int_equal(parser.phase, REPLY_COMPLETE);
    assert_true(reply.key_version == 7 && reply.token == 9);
    assert_true(view_equal(etag_view(&reply.etag), VIEW("abc")));
    assert_false(reply.has_date); /* libcurl, which reads dates, is not loaded */
    reply_parser_release(&parser);
    http_reply_release(&reply);
}

static void a_head_and_interim_replies_without_end_are_refused(void **state)
{
    (void)state;
    static const char *const pieces[] = { "A: b\r\n", "x", "HTTP/1.1 100 Continue\r\n\r\n" };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct http_reply reply = { .body = BUFFER_INIT(HTTP_ERROR_BODY_MAX) };
        struct reply_parser parser = REPLY_PARSER(&reply, BODY_MAX);
        if (i < 2)
            reply_feed(&parser, VIEW(OK_HEAD));
        size_t fed = 0;
        for (; !reply_is_over(&parser); fed += strlen(pieces[i])) {
            assert_true(fed <= REPLY_HEAD_MAX);
            reply_feed(&parser, view_of(pieces[i]));
        }
        assert_int_equal(parser.phase, REPLY_REFUSED);
        reply_parser_release(&parser);
        http_reply_release(&reply);
    }
}

static void only_hosts_in_numbers_need_no_name_server(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool plain;
    } hosts[] = {
        { "127.0.0.1", true },
        { "localhost", true },
        { "::1", true },
        { "192.0.2.1", true },
        { "", false },
        { "locks.example.com", false },
        { "127.1", false },
        { "1.2.3.4.5", false },
        { "localhost.", false },
        { "0123:4567:89ab:cdef:0123:4567:89ab:cdef:0123:4567:89ab", false },
    };
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (plain_can_reach(view_of(hosts[i].host)) != hosts[i].plain)
            fail_msg("%s", hosts[i].host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("each reply is read as it should be, or refused",
           each_reply_is_read_as_it_should_be),
        IT("the state of a key has a version, a token and an ETag",
           the_state_of_a_key_has_a_version_a_token_and_an_etag),
        IT("a head and interim replies without end are refused",
           a_head_and_interim_replies_without_end_are_refused),
        IT("only hosts in numbers need no name server",
           only_hosts_in_numbers_need_no_name_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
