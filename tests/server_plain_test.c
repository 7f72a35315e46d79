/* SPDX-License-Identifier: Apache-2.0 */
/* server_plain_test.c: requests without libcurl, to a thread that stands in for a server: it
 * answers, trickles, stays silent, or closes the connection. */
#include "store/server/plain.h"

#include "env/env.h"
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

/* What is done with each request; the last one also with all that follow. */
enum deed { ANSWER, ANSWER_AFTER_ANOTHER, ANSWER_AND_CLOSE, CLOSE, SILENT, TRICKLE, HALF };

/* The real world, later. */
static struct env_ops later_ops;
static struct env later = { &later_ops };
static struct span shift;

static struct mono_time read_later(struct env *env)
{
    (void)env;
    return mono_add(env_now(env_real()), shift);
}

struct stand_in {
    struct plain_pool *pool;
    char *folder, path[108];
    int listener;
    const enum deed *deeds;
    size_t deed_count;
    atomic_int accepted, closed, requests;
    atomic_bool ends;
    pthread_t thread;
};

/* True once there is something to read; false if the stand-in ends. */
static bool readable(struct stand_in *it, int fd)
{
    struct pollfd one = { fd, POLLIN, 0 };
    while (!atomic_load(&it->ends))
        if (poll(&one, 1, 5) > 0)
            return true;
    return false;
}

static void trickle(struct stand_in *it, int fd)
{
    static const char byte = 'H';
    while (!atomic_load(&it->ends) && send(fd, &byte, 1, MSG_NOSIGNAL) == 1)
        poll(NULL, 0, 5);
}

/* False if the connection is to be closed. */
static bool serve_one(struct stand_in *it, int fd)
{
    char request[4096];
    if (!readable(it, fd) || recv(fd, request, sizeof request, 0) <= 0)
        return false;
    size_t number = (size_t)atomic_fetch_add(&it->requests, 1);
    enum deed deed = it->deeds[number < it->deed_count ? number : it->deed_count - 1];
    while (deed == ANSWER_AFTER_ANOTHER && atomic_load(&it->accepted) < 2)
        poll(NULL, 0, 1);
    if (deed == ANSWER || deed == ANSWER_AFTER_ANOTHER || deed == ANSWER_AND_CLOSE)
        send(fd, REPLY, strlen(REPLY), MSG_NOSIGNAL);
    if (deed == HALF)
        send(fd, REPLY, strlen(REPLY) - 1, MSG_NOSIGNAL);
    if (deed == TRICKLE) {
        send(fd, "HTTP/1.1 200 OK\r\nX: ", 20, MSG_NOSIGNAL);
        trickle(it, fd);
    }
    if (deed == SILENT)
        readable(it, fd);
    return deed == ANSWER || deed == ANSWER_AFTER_ANOTHER;
}

static void *stand_in_runs(void *argument)
{
    struct stand_in *it = argument;
    while (readable(it, it->listener)) {
        int fd = accept(it->listener, NULL, NULL);
        if (fd < 0)
            continue; /* the other thread was faster */
        atomic_fetch_add(&it->accepted, 1);
        while (serve_one(it, fd)) {
        }
        close(fd);
        atomic_fetch_add(&it->closed, 1);
    }
    return NULL;
}

static void begin(struct stand_in *it, const enum deed *deeds, size_t count)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    struct hf_error error;
    *it = (struct stand_in){ .folder = test_dir_make(), .deeds = deeds, .deed_count = count };
    snprintf(it->path, sizeof it->path, "%s/s", it->folder);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", it->path);
    it->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(it->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(it->listener, 5), 0);
    assert_int_equal(pthread_create(&it->thread, NULL, stand_in_runs, it), 0);
    struct plain_place place = { .socket_path = it->path, .host_header = "localhost" };
    assert_status(HF_OK, plain_pool_open(&later, &place, 2, SPAN_S(5), &it->pool, &error),
                  &error);
}

static void end(struct stand_in *it)
{
    atomic_store(&it->ends, true);
    pthread_join(it->thread, NULL);
    close(it->listener);
    plain_pool_close(it->pool);
    test_dir_remove(it->folder);
}

static void ask(struct stand_in *it, struct span limit, const struct progress *progress,
                struct http_reply *reply)
{
    struct plain_request request = { .method = "POST",
                                     .path = "/v1/acquire",
                                     .has_body = true,
                                     .body = VIEW("{}"),
                                     .deadline = mono_add(env_now(&later), limit),
                                     .progress = progress };
    plain_perform(it->pool, &request, 100, reply);
}

static void answers(struct stand_in *it)
{
    struct http_reply reply;
    ask(it, SPAN_S(30), NULL, &reply);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    assert_true(view_equal(buffer_view(&reply.body), VIEW("{}")));
    http_reply_release(&reply);
}

static void a_connection_is_kept(void **state)
{
    (void)state;
    static const enum deed deeds[] = { ANSWER };
    struct stand_in it;
    begin(&it, deeds, 1);
    for (int i = 0; i < 5; i++)
        answers(&it);
    assert_int_equal(atomic_load(&it.accepted), 1);
    end(&it);
}

static void a_request_is_sent_again_if_a_kept_connection_was_dead(void **state)
{
    (void)state;
    static const enum deed deeds[] = { ANSWER, CLOSE, ANSWER_AND_CLOSE };
    struct stand_in it;
    begin(&it, deeds, 3);
    answers(&it);
    answers(&it); /* the second request is closed without a reply, and the third one answered */
    assert_int_equal(atomic_load(&it.requests), 3);
    answers(&it); /* that connection was closed after the reply */
    assert_int_equal(atomic_load(&it.accepted), 3);
    end(&it);
}

/* Each ends in time, with the outcome that leaves open whether the request took effect. */
static void what_gets_no_reply_is_unsure(void **state)
{
    (void)state;
    static const enum deed deeds[] = { CLOSE, SILENT, TRICKLE, HALF };
    for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++) {
        struct stand_in it;
        struct http_reply reply;
        begin(&it, &deeds[i], 1);
        struct mono_time begun = env_now(env_real());
        ask(&it, SPAN_MS(150), NULL, &reply);
        assert_true(mono_since(env_now(env_real()), begun).us < SPAN_S(20).us);
        assert_int_equal(reply.outcome, HTTP_NO_ANSWER);
        assert_int_equal(reply.error.status, HF_UNSURE);
        assert_int_equal(atomic_load(&it.accepted),
                         1); /* a new connection is not tried again */
        http_reply_release(&reply);
        end(&it);
    }
}

static bool stop_after_five(void *argument, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return ++*(int *)argument < 5;
}

static void a_wait_ends_when_its_caller_says_so(void **state)
{
    (void)state;
    static const enum deed deeds[] = { SILENT };
    struct stand_in it;
    struct http_reply reply;
    int asked = 0;
    const struct progress progress = { stop_after_five, &asked };
    begin(&it, deeds, 1);
    ask(&it, SPAN_S(600), &progress, &reply);
    assert_int_equal(reply.outcome, HTTP_NO_ANSWER);
    assert_int_equal(asked, 5);
    http_reply_release(&reply);
    end(&it);
}

static bool ask_another(void *argument, uint64_t done, uint64_t total)
{
    struct stand_in *it = argument;
    (void)done;
    (void)total;
    if (atomic_load(&it->accepted) < 2)
        answers(it);
    return true;
}

static void a_connection_that_is_not_needed_is_closed(void **state)
{
    (void)state;
    static const enum deed deeds[] = { ANSWER_AFTER_ANOTHER, ANSWER };
    struct stand_in it;
    struct http_reply reply;
    pthread_t second;
    const struct progress progress = { ask_another, &it };
    begin(&it, deeds, 2);
    assert_int_equal(pthread_create(&second, NULL, stand_in_runs, &it), 0);
    ask(&it, SPAN_S(600), &progress, &reply);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    http_reply_release(&reply);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&it.closed), 0);
        shift = SPAN_US(shift.us + PLAIN_IDLE_MAX.us * 2 / 5);
        answers(&it);
    }
    while (atomic_load(&it.closed) == 0)
        poll(NULL, 0, 1);
    answers(&it);
    assert_int_equal(atomic_load(&it.accepted), 2);
    atomic_store(&it.ends, true);
    pthread_join(second, NULL);
    end(&it);
    shift = SPAN_US(0);
}

static void without_a_server_nothing_is_sent(void **state)
{
    (void)state;
    static const struct plain_place places[] = {
        { .socket_path = "/nowhere/socket", .host_header = "localhost" },
        { .host = { "127.0.0.1", 9 }, .port = 1, .host_header = "127.0.0.1:1" },
        { .host = { "localhost", 9 }, .port = 1, .host_header = "localhost:1" },
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct stand_in it = { .pool = NULL };
        struct hf_error error;
        struct http_reply reply;
        assert_status(HF_OK,
                      plain_pool_open(env_real(), &places[i], 1, SPAN_S(5), &it.pool, &error),
                      &error);
        ask(&it, SPAN_S(30), NULL, &reply);
        assert_int_equal(reply.outcome, HTTP_NOT_SENT);
        assert_int_equal(reply.error.status, HF_UNAVAILABLE);
        assert_non_null(strstr(reply.error.why, "cannot connect to "));
        http_reply_release(&reply);
        plain_pool_close(it.pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a connection is kept", a_connection_is_kept),
        IT("a request is sent again if a kept connection was dead",
           a_request_is_sent_again_if_a_kept_connection_was_dead),
        IT("what gets no reply in time is unsure", what_gets_no_reply_is_unsure),
        IT("a wait ends when its caller says so", a_wait_ends_when_its_caller_says_so),
        IT("a connection that only a burst needed is closed",
           a_connection_that_is_not_needed_is_closed),
        IT("without a server nothing is sent", without_a_server_nothing_is_sent),
    };
    later_ops = *env_real()->ops;
    later_ops.now = read_later;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
