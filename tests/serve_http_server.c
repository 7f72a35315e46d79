/* SPDX-License-Identifier: Apache-2.0 */
/* serve_http_server.c: a server on src/serve/http for tests/serve_http_test.py. It parks,
 * echoes and streams as it is told.
 *
 *     serve_http_server [NAME=NUMBER ...] [tls=CERT,KEY[,CA[,optional]]] ADDRESS...
 *
 * NAME is a member of struct http_limits. An address that begins with "tls:" speaks TLS.
 * Prints the addresses, then "ready", then a line for each hang-up: "hang_up ID
 * MICROSECONDS", by the clock that Python calls monotonic. SIGTERM stops it gracefully:
 * parked requests get 503. */
#include "base/buffer.h"
#include "base/check.h"
#include "base/parse.h"
#include "env/env.h"
#include "serve/http/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#define ID_MAX     64
#define PARKED_MAX 20000

struct parked {
    struct http_request *request;
    bool is_stream;
    char id[ID_MAX];
};

static struct http_server *server;
static uv_loop_t *loop;
static struct parked parked[PARKED_MAX];
static size_t parked_count;
static uv_signal_t term;
static struct http_body kept;

static void answer(struct http_request *request, int status, struct view body)
{
    struct http_header type = { "Content-Type", VIEW("text/plain") };
    http_reply(request, status, &type, 1, body);
}

static struct view parameter(const struct http_request *request, const char *name)
{
    struct view value = VIEW("");
    http_request_parameter(request, view_of(name), &value);
    return value;
}

static uint64_t number(const struct http_request *request, const char *name)
{
    uint64_t value = 0;
    struct hf_error error;
    parse_u64(parameter(request, name), UINT64_MAX, &value, &error);
    return value;
}

/* ---- Parking and streams ----------------------------------------------------------------- */

static void park(struct http_request *request, bool is_stream)
{
    check(parked_count < PARKED_MAX);
    struct parked *one = &parked[parked_count];
    *one = (struct parked){ .request = request, .is_stream = is_stream };
    snprintf(one->id, ID_MAX, "%.*s", VIEW_ARGS(parameter(request, "id")));
    http_request_set_user(request, (void *)(uintptr_t)++parked_count);
}

static void forget(struct http_request *request)
{
    size_t i = (uintptr_t)http_request_user(request) - 1;
    parked[i] = parked[--parked_count];
    if (i < parked_count)
        http_request_set_user(parked[i].request, (void *)(uintptr_t)(i + 1));
}

static void hang_up(void *argument, struct http_request *request)
{
    (void)argument;
    size_t i = (uintptr_t)http_request_user(request) - 1;
    printf("hang_up %s %llu\n", parked[i].id, (unsigned long long)uv_hrtime() / 1000);
    fflush(stdout);
    forget(request);
}

/* Ends everything that is parked: with a reply, or the end of its stream. */
static size_t wake(int status)
{
    size_t count = parked_count;
    while (parked_count > 0) {
        struct parked one = parked[parked_count - 1];
        forget(one.request);
        if (one.is_stream)
            http_stream_end(one.request);
        else
            answer(one.request, status, view_of(one.id));
    }
    return count;
}

/* Writes to every stream; returns how many were cut off. */
static size_t emit(struct view bytes, uint64_t times)
{
    size_t cut = 0;
    for (uint64_t n = 0; n < times; n++)
        for (size_t i = parked_count; i-- > 0;)
            if (parked[i].is_stream) {
                struct http_request *request = parked[i].request;
                size_t last = parked_count - 1;
                if (!http_stream_write(request, bytes)) {
                    parked[i] = parked[last];
                    parked_count--;
                    if (i < last)
                        http_request_set_user(parked[i].request, (void *)(uintptr_t)(i + 1));
                    cut++;
                }
            }
    return cut;
}

/* ---- Routes ------------------------------------------------------------------------------ */

static void describe(struct http_request *request)
{
    struct buffer text = BUFFER_INIT(1 << 20);
    struct http_peer peer;
    char address[HTTP_ADDRESS_MAX];
    const struct http_pair *pairs;
    http_request_peer(request, &peer);
    http_request_address(request, address);
    buffer_print(&text, "verb %s\npath %.*s\nhost %.*s\nbody %zu\n",
                 http_verb_name(http_request_verb(request)),
                 VIEW_ARGS(http_request_path(request)), VIEW_ARGS(http_request_host(request)),
                 http_request_body(request).size);
    for (size_t i = 0; i < http_request_segments(request); i++) {
        struct view segment;
        check(http_request_segment(request, i, &segment));
        buffer_print(&text, "segment %.*s\n", VIEW_ARGS(segment));
    }
    size_t count = http_request_parameters(request, &pairs);
    for (size_t i = 0; i < count; i++)
        buffer_print(&text, "parameter %.*s=%.*s\n", VIEW_ARGS(pairs[i].name),
                     VIEW_ARGS(pairs[i].value));
    count = http_request_headers(request, &pairs);
    for (size_t i = 0; i < count; i++)
        buffer_print(&text, "header %.*s=%.*s\n", VIEW_ARGS(pairs[i].name),
                     VIEW_ARGS(pairs[i].value));
    buffer_print(&text, "peer %s unix %d loopback %d tls %d uid %u subject %.*s listener %zu\n",
                 address, peer.is_unix, peer.is_loopback, peer.is_tls, peer.uid,
                 VIEW_ARGS(peer.subject), peer.listener);
    answer(request, 200, buffer_view(&text));
    buffer_release(&text);
}

static void report(struct http_request *request)
{
    struct http_figures f = http_server_figures(server);
    char text[512];
    snprintf(text, sizeof text,
             "{\"accepted\":%llu,\"refused_peer\":%llu,\"requests\":%llu,\"refused\":%llu,"
             "\"hang_ups\":%llu,\"cut_off\":%llu,\"accept_waits\":%llu,\"connections\":%zu,"
             "\"under_way\":%zu,\"buffered_bytes\":%zu}\n",
             (unsigned long long)f.accepted, (unsigned long long)f.refused_peer,
             (unsigned long long)f.requests, (unsigned long long)f.refused,
             (unsigned long long)f.hang_ups, (unsigned long long)f.cut_off,
             (unsigned long long)f.accept_waits, f.connections, f.under_way, f.buffered_bytes);
    answer(request, 200, view_of(text));
}

static void send_big(struct http_request *request)
{
    struct buffer body = BUFFER_INIT(1 << 28);
    size_t size = (size_t)number(request, "size");
    check(buffer_reserve(&body, size));
    memset(body.data, 'x', size);
    body.size = size;
    answer(request, 200, buffer_view(&body));
    buffer_release(&body);
}

static void send_injection(struct http_request *request)
{
    struct http_header header = { "X-Copied", parameter(request, "value") };
    http_reply(request, 200, &header, 1, VIEW("body"));
}

static void send_events(struct http_request *request)
{
    struct buffer body = BUFFER_INIT(1 << 28);
    size_t size = (size_t)number(request, "size");
    char text[32];
    check(buffer_reserve(&body, size));
    memset(body.data, 'e', size);
    body.size = size;
    int count =
        snprintf(text, sizeof text, "%zu", emit(buffer_view(&body), number(request, "times")));
    buffer_release(&body);
    answer(request, 200, (struct view){ text, (size_t)count });
}

static void reload(struct http_request *request)
{
    struct hf_error error = { .why = "" };
    enum hf_status status = http_server_reload_tls(server, &error);
    answer(request, status == HF_OK ? 200 : 500, view_of(error.why));
}

static void echo(struct http_request *request)
{
    struct http_body body;
    http_request_take_body(request, &body);
    answer(request, 200, (struct view){ body.data ? body.data : "", body.size });
    http_body_release(&body);
}

/* Keeps a body beyond its request, until the next one. */
static void keep(struct http_request *request)
{
    http_body_release(&kept);
    http_request_take_body(request, &kept);
    answer(request, 200, VIEW("kept"));
}

/* "/denied" takes no large body; the parameter "most" bounds that of another. */
static bool admit(void *argument, struct http_request *request, size_t *ret_body_max)
{
    (void)argument;
    struct view name;
    check(http_request_segment(request, 0, &name));
    if (view_equal(name, VIEW("denied"))) {
        answer(request, 401, VIEW("without a token"));
        return false;
    }
    if (http_request_parameter(request, VIEW("most"), NULL) > 0)
        *ret_body_max = (size_t)number(request, "most");
    return true;
}

static void handle(void *argument, struct http_request *request)
{
    (void)argument;
    struct view name;
    char text[32];
    check(http_request_segment(request, 0, &name));
    if (view_equal(name, VIEW("ok"))) {
        answer(request, 200, VIEW("ok\n"));
    } else if (view_equal(name, VIEW("describe"))) {
        describe(request);
    } else if (view_equal(name, VIEW("echo"))) {
        echo(request);
    } else if (view_equal(name, VIEW("keep"))) {
        keep(request);
    } else if (view_equal(name, VIEW("park"))) {
        park(request, false);
    } else if (view_equal(name, VIEW("stream"))) {
        park(request, true);
        http_stream_begin(request, "text/event-stream");
    } else if (view_equal(name, VIEW("emit"))) {
        send_events(request);
    } else if (view_equal(name, VIEW("wake"))) {
        snprintf(text, sizeof text, "%zu", wake(200));
        answer(request, 200, view_of(text));
    } else if (view_equal(name, VIEW("big"))) {
        send_big(request);
    } else if (view_equal(name, VIEW("inject"))) {
        send_injection(request);
    } else if (view_equal(name, VIEW("figures"))) {
        report(request);
    } else if (view_equal(name, VIEW("reload"))) {
        reload(request);
    } else if (view_equal(name, VIEW("bye"))) {
        http_reply_and_close(request, 401, NULL, 0, VIEW("bye"));
    } else {
        answer(request, 404, VIEW("there is no such thing"));
    }
}

/* ---- Start and stop ---------------------------------------------------------------------- */

static void stopped(void *argument)
{
    (void)argument;
    uv_close((uv_handle_t *)&term, NULL);
    http_body_release(&kept);
    http_server_free(server);
    printf("stopped\n");
    fflush(stdout);
}

static void stop(uv_signal_t *signal_handle, int number_of_signal)
{
    (void)signal_handle;
    (void)number_of_signal;
    http_server_stop(server, 3000, stopped, NULL);
    wake(503);
}

static bool set_limit(struct http_limits *limits, struct view name, uint64_t value)
{
    const struct {
        const char *name;
        size_t *size;
        uint32_t *ms;
    } members[] = {
        { "head_bytes", &limits->head_bytes, NULL },
        { "headers", &limits->headers, NULL },
        { "body_bytes", &limits->body_bytes, NULL },
        { "small_bytes", &limits->small_bytes, NULL },
        { "ahead_bytes", &limits->ahead_bytes, NULL },
        { "stream_bytes", &limits->stream_bytes, NULL },
        { "buffered_bytes", &limits->buffered_bytes, NULL },
        { "reserve_bytes", &limits->reserve_bytes, NULL },
        { "connections", &limits->connections, NULL },
        { "peer_connections", &limits->peer_connections, NULL },
        { "head_ms", NULL, &limits->head_ms },
        { "rate_ms", NULL, &limits->rate_ms },
        { "rate_bytes", NULL, &limits->rate_bytes },
        { "idle_ms", NULL, &limits->idle_ms },
        { "stall_ms", NULL, &limits->stall_ms },
        { "linger_ms", NULL, &limits->linger_ms },
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (view_equal(name, view_of(members[i].name))) {
            if (members[i].size)
                *members[i].size = (size_t)value;
            else
                *members[i].ms = (uint32_t)value;
            return true;
        }
    if (view_equal(name, VIEW("local_peers_unlimited")))
        limits->local_peers_unlimited = value != 0;
    return view_equal(name, VIEW("local_peers_unlimited"));
}

static void set_tls(struct http_tls_files *files, char *text)
{
    files->certificate = strsep(&text, ",");
    files->key = strsep(&text, ",");
    files->client_ca = strsep(&text, ",");
    files->client_optional = text != NULL;
}

static bool read_arguments(int argc, char **argv, struct http_server_options *options,
                           struct http_listener *listeners, struct http_tls_files *files)
{
    for (int i = 1; i < argc; i++) {
        struct view value = view_of(argv[i]);
        struct view name = view_cut(&value, '=');
        uint64_t amount = 0;
        struct hf_error error;
        if (view_equal(name, VIEW("tls"))) {
            set_tls(files, argv[i] + 4);
            options->tls = files;
        } else if (value.size > 0) {
            if (parse_u64(value, UINT64_MAX, &amount, &error) != HF_OK ||
                !set_limit(&options->limits, name, amount))
                return false;
        } else {
            bool tls = strncmp(argv[i], "tls:", 4) == 0;
            listeners[options->listener_count++] =
                (struct http_listener){ .address = argv[i] + (tls ? 4 : 0), .tls = tls };
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static const char *const singles[] = { "X-Lease-ID", NULL };
    struct http_listener listeners[HTTP_LISTENERS_MAX];
    struct http_tls_files files = { .certificate = NULL };
    loop = uv_default_loop();
    struct http_server_options options = {
        .env = env_real(),
        .loop = loop,
        .handler = { .request = handle, .hang_up = hang_up, .admit = admit },
        .limits = HTTP_LIMITS,
        .listeners = listeners,
        .single_headers = singles
    };
    struct hf_error error;
    signal(SIGPIPE, SIG_IGN);
    if (!read_arguments(argc, argv, &options, listeners, &files)) {
        fprintf(stderr, "serve_http_server: bad argument\n");
        return 2;
    }
    if (http_server_new(&options, &server, &error) != HF_OK) {
        fprintf(stderr, "serve_http_server: %s\n", error.why);
        return 1;
    }
    for (size_t i = 0; i < options.listener_count; i++) {
        char text[HTTP_ADDRESS_MAX];
        printf("%s\n", http_server_address(server, i, text));
    }
    printf("ready\n");
    fflush(stdout);
    uv_signal_init(loop, &term);
    uv_signal_start(&term, stop, SIGTERM);
    uv_run(loop, UV_RUN_DEFAULT);
    return uv_loop_close(loop) == 0 ? 0 : 1;
}
