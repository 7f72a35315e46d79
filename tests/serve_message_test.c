/* SPDX-License-Identifier: Apache-2.0 */
/* serve_message_test.c: requests from bytes (src/serve/http/message.h): in pieces of every
 * size, and with memory that runs out at every allocation. What is refused, and how, is in
 * serve_http_test.py. */
#include "alloc.h"
#include "base/check.h"
#include "base/instant.h"
#include "serve/http/message.h"
#include "serve/http/reply.h"
#include "test.h"

#include <stdio.h>

static const char chunked_request[] = "POST /a%20b/c?x=1&y=%2B HTTP/1.1\r\n"
                                      "Host: example.org\r\n"
                                      "Transfer-Encoding: chunked\r\n"
                                      "Expect: 100-continue\r\n"
                                      "\r\n"
                                      "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";

static void set_up(struct message_rules *rules)
{
    struct http_limits limits = HTTP_LIMITS;
    limits.body_bytes = 100;
    check(message_rules_init(rules, &limits, NULL));
}

static void assert_view(const char *expected, struct view found)
{
    assert_true(view_equal(view_of(expected), found));
}

static void assert_parsed(const struct message *message)
{
    assert_int_equal(message->phase, MESSAGE_COMPLETE);
    assert_int_equal(message->verb, HTTP_VERB_POST);
    assert_int_equal(message->minor, 1);
    assert_true(message->keep_alive && message->expects_continue);
    assert_view("example.org", message->host);
    assert_view("/a%20b/c", message->target.path);
    assert_int_equal(message->target.segment_count, 2);
    assert_view("a b", message->target.segments[0]);
    assert_int_equal(message->target.parameter_count, 2);
    assert_view("y", message->target.parameters[1].name);
    assert_view("+", message->target.parameters[1].value);
    assert_int_equal(message->header_count, 3);
    assert_view("Expect", message->headers[2].name);
    assert_view("hello world", buffer_view(&message->body));
}

static void a_request_is_the_same_in_pieces_of_every_size(void **state)
{
    (void)state;
    struct message_rules rules;
    set_up(&rules);
    struct view whole = view_of(chunked_request);
    for (size_t piece = 1; piece <= whole.size; piece++) {
        struct message message;
        size_t taken = 0;
        message_init(&message, &rules);
        while (taken < whole.size)
            taken += message_feed(&message, view_first(view_from(whole, taken), piece));
        assert_parsed(&message);
        message_release(&message);
    }
}

static void the_bytes_after_a_request_are_left(void **state)
{
    (void)state;
    struct message_rules rules;
    struct message message;
    set_up(&rules);
    struct view two =
        VIEW("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1");
    message_init(&message, &rules);
    assert_int_equal(message_feed(&message, two), two.size - strlen("GET / HTTP/1.1"));
    assert_int_equal(message.phase, MESSAGE_COMPLETE);
    assert_view("abc", buffer_view(&message.body));
    assert_int_equal(message_feed(&message, VIEW("more")), 0);
    message_release(&message);
}

static void a_body_may_have_the_largest_size_and_no_byte_more(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        int status;
    } rows[] = {
        { "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 0 },
        { "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n", 413 },
        { "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n", 0 },
        { "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", 413 },
        { "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n64\r\n",
          413 },
    };
    struct message_rules rules;
    set_up(&rules);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct message message;
        message_init(&message, &rules);
        message_feed(&message, view_of(rows[i].head));
        assert_int_equal(message.status, rows[i].status);
        assert_int_equal(message.phase == MESSAGE_REFUSED, rows[i].status != 0);
        message_release(&message);
    }
}

static void a_body_may_have_a_smaller_bound_than_others(void **state)
{
    (void)state;
    static const struct {
        const char *head, *body;
        int status;
    } rows[] = {
        { "Content-Length: 9", "", 0 },
        { "Content-Length: 10", "", 413 },
        { "Content-Length: 10", "all of it.", 413 },
        { "Transfer-Encoding: chunked", "9\r\n", 0 },
        { "Transfer-Encoding: chunked", "a\r\n", 413 },
        { "Transfer-Encoding: chunked", "4\r\nfour\r\n6\r\n", 413 },
        { "Transfer-Encoding: chunked", "a\r\nall of it.\r\n0\r\n\r\n", 413 },
    };
    struct message_rules rules;
    set_up(&rules);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct view body = view_of(rows[i].body);
        for (size_t early = 0; early <= body.size; early++) { /* when the bound is told */
            struct message message;
            message_init(&message, &rules);
            message_feed(&message, VIEW("POST / HTTP/1.1\r\nHost: x\r\n"));
            assert_false(message_body_exceeds(&message, 0));
            message_feed(&message, view_of(rows[i].head));
            message_feed(&message, VIEW("\r\n\r\n"));
            message_feed(&message, view_first(body, early));
            message_limit_body(&message, 9);
            message_feed(&message, view_from(body, early));
            assert_int_equal(message.status, rows[i].status);
            message_release(&message);
        }
    }
}

static void without_memory_a_request_gets_503_and_leaks_nothing(void **state)
{
    (void)state;
    struct message_rules rules;
    set_up(&rules);
    for (long n = 0;; n++) {
        struct message message;
        message_init(&message, &rules);
        alloc_fail_after(n);
        message_feed(&message, view_of(chunked_request));
        bool failed = alloc_stop();
        if (failed)
            assert_int_equal(message.status, 503);
        else
            assert_parsed(&message);
        message_release(&message);
        if (!failed)
            break;
        assert_true(n < 100);
    }
}

static void callers_can_name_headers_that_occur_once(void **state)
{
    (void)state;
    struct http_limits limits = HTTP_LIMITS;
    struct message_rules rules;
    const char *many[MESSAGE_SINGLES_MAX + 1] = { NULL };
    assert_true(message_rules_init(&rules, &limits, many));
    for (size_t i = 0; i < MESSAGE_SINGLES_MAX; i++)
        many[i] = "x";
    assert_false(message_rules_init(&rules, &limits, many));
}

static void names_are_compared_without_case_but_exactly(void **state)
{
    (void)state;
    assert_true(message_equal_nocase(VIEW("Host"), VIEW("hOST")));
    assert_false(message_equal_nocase(VIEW("@"), VIEW("`")));
    assert_false(message_equal_nocase(VIEW("["), VIEW("{")));
    assert_false(message_equal_nocase(VIEW("a"), VIEW("ab")));
}

static void a_date_is_written_as_http_wants_it(void **state)
{
    (void)state;
    char text[HTTP_DATE_MAX];
    http_date_text((struct wall_time){ INT64_C(784111777) * 1000000 }, text);
    assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    http_date_text((struct wall_time){ 0 }, text);
    assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
}

static void a_reply_has_exactly_the_headers_that_it_should(void **state)
{
    (void)state;
    struct buffer out = BUFFER_INIT(1000);
    struct http_header type = { "Content-Type", VIEW("text/plain") };
    struct reply_head head = { .status = 200,
                               .minor = 0,
                               .length = 3,
                               .date = VIEW("D"),
                               .headers = &type,
                               .header_count = 1 };
    assert_true(reply_append_head(&out, &head));
    assert_string_equal(buffer_text(&out),
                        "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Type: text/plain\r\n"
                        "Content-Length: 3\r\nConnection: keep-alive\r\n\r\n");
    buffer_clear(&out);
    head = (struct reply_head){ .status = 204, .minor = 1, .date = VIEW("D"), .close = true };
    assert_true(reply_append_head(&out, &head));
    assert_string_equal(buffer_text(&out),
                        "HTTP/1.1 204 No Content\r\nDate: D\r\nConnection: close\r\n\r\n");
    buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_the_same_in_pieces_of_every_size),
        cmocka_unit_test(the_bytes_after_a_request_are_left),
        cmocka_unit_test(a_body_may_have_the_largest_size_and_no_byte_more),
        cmocka_unit_test(a_body_may_have_a_smaller_bound_than_others),
        cmocka_unit_test(without_memory_a_request_gets_503_and_leaks_nothing),
        cmocka_unit_test(callers_can_name_headers_that_occur_once),
        cmocka_unit_test(names_are_compared_without_case_but_exactly),
        cmocka_unit_test(a_date_is_written_as_http_wants_it),
        cmocka_unit_test(a_reply_has_exactly_the_headers_that_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
