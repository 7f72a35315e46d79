/* SPDX-License-Identifier: Apache-2.0 */
/* http.c: sends one request with libcurl and reads the reply. It stops libcurl from silently
 * sending a write twice, and records whether an unanswered request may have been sent, which
 * decides between UNAVAILABLE and UNSURE. */
#include "store/remote/http.h"

#include "base/check.h"
#include "base/parse.h"
#include "store/remote/crypto.h"
#include "store/remote/xml.h"
#include "store/stream.h"

#include <curl/curl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A connection that was idle for longer is not reused: servers close idle connections, and a
 * request that is sent just as the server closes the connection gets no reply. Its handle is closed
 * when another one comes back, so that a burst of requests does not keep descriptors forever. */
#define IDLE_SECONDS_MAX 15L

/* A stream that is slower than this for the whole timeout counts as stalled. Otherwise an
 * occasional byte would keep it open forever. */
#define STALL_BYTES_A_SECOND 1024L

struct idle_handle {
    CURL *handle;
    struct mono_time since;
};

struct http_pool {
    struct env *env;
    struct http_options options;
    /* Our copies of the names in the options. */
    char *ca_file, *certificate_file, *key_file, *socket_path;
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        struct env_cond freed;
        /* The most recently used last: still connected. */
        struct idle_handle idle[HTTP_CONNECTIONS_MAX];
        size_t idle_count;
        size_t made;
    } shared;
};

/* The state that the callbacks of one request share. */
struct transfer {
    const struct http_request *request;
    struct http_reply *reply;
    uint64_t taken;   /* bytes of the source passed to libcurl */
    uint64_t arrived; /* bytes passed to the sink */
    int begun;        /* how many times a connection was ready to send */
    bool body_cut;    /* the error page exceeded its limit */
    size_t body_max;
};

/* ---- The pool ------------------------------------------------------------------------ */

static bool copy_file_name(const char *name, char **ret_copy, const char **ret_name)
{
    *ret_name = *ret_copy = name ? strdup(name) : NULL;
    return !name || *ret_copy;
}

static bool copy_file_names(struct http_pool *pool, const struct http_options *options)
{
    struct http_options *own = &pool->options;
    *own = *options;
    bool copied = copy_file_name(options->ca_file, &pool->ca_file, &own->ca_file);
    copied &= copy_file_name(options->certificate_file, &pool->certificate_file,
                             &own->certificate_file);
    copied &= copy_file_name(options->key_file, &pool->key_file, &own->key_file);
    copied &= copy_file_name(options->socket_path, &pool->socket_path, &own->socket_path);
    return copied;
}

static void free_file_names(struct http_pool *pool)
{
    if (!pool)
        return;
    free(pool->ca_file);
    free(pool->certificate_file);
    free(pool->key_file);
    free(pool->socket_path);
}

static enum hf_status check_curl_options(const struct http_pool *pool, struct hf_error *error);

enum hf_status http_pool_open(struct env *env, const struct http_options *options,
                              struct http_pool **ret_pool, struct hf_error *error)
{
    check(options->connections >= 1 && options->connections <= HTTP_CONNECTIONS_MAX);
    if (!crypto_load() || !xml_load() || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(error, HF_UNAVAILABLE,
                         "cannot load libcurl, libcrypto or libexpat: the library is missing, "
                         "or out of memory");
    struct http_pool *pool = calloc(1, sizeof *pool);
    if (!pool || !copy_file_names(pool, options)) {
        free_file_names(pool);
        free(pool);
        curl_global_cleanup();
        return error_no_memory(error);
    }
    pool->env = env;
    env_mutex_init(env, &pool->shared.mutex);
    env_cond_init(env, &pool->shared.freed);
    if (check_curl_options(pool, error) != HF_OK) {
        http_pool_close(pool);
        return error->status;
    }
    *ret_pool = pool;
    return HF_OK;
}

void http_pool_close(struct http_pool *pool)
{
    if (!pool)
        return;
    check(pool->shared.idle_count == pool->shared.made);
    for (size_t i = 0; i < pool->shared.idle_count; i++)
        curl_easy_cleanup(pool->shared.idle[i].handle);
    env_cond_release(&pool->shared.freed);
    env_mutex_release(&pool->shared.mutex);
    free_file_names(pool);
    free(pool);
    curl_global_cleanup();
}

/* NULL, with an error, if the deadline passes or memory runs out first. */
static CURL *take_handle(struct http_pool *pool, struct mono_time deadline,
                         struct hf_error *error)
{
    CURL *handle = NULL;
    bool in_time = true;
    env_mutex_lock(&pool->shared.mutex);
    while (pool->shared.idle_count == 0 && pool->shared.made == pool->options.connections &&
           in_time)
        in_time = env_cond_wait_until(&pool->shared.freed, &pool->shared.mutex, deadline);
    bool make = pool->shared.idle_count == 0 && in_time;
    if (pool->shared.idle_count > 0)
        handle = pool->shared.idle[--pool->shared.idle_count].handle;
    else if (make)
        pool->shared.made++;
    env_mutex_unlock(&pool->shared.mutex);
    if (handle)
        return handle;
    if (!make) {
        error_set(error, HF_UNAVAILABLE, "all %zu connections are busy",
                  pool->options.connections);
        return NULL;
    }
    handle = curl_easy_init();
    if (!handle) {
        env_mutex_lock(&pool->shared.mutex);
        pool->shared.made--;
        env_cond_signal(&pool->shared.freed);
        env_mutex_unlock(&pool->shared.mutex);
        error_no_memory(error);
    }
    return handle;
}

/* The handle that was idle for longest, if that was too long. */
static CURL *remove_stale_locked(struct http_pool *pool, struct mono_time now)
{
    struct idle_handle *idle = pool->shared.idle;
    if (pool->shared.idle_count == 0 ||
        mono_since(now, idle[0].since).us <= SPAN_S(IDLE_SECONDS_MAX).us)
        return NULL;
    CURL *stale = idle[0].handle;
    pool->shared.made--;
    memmove(idle, idle + 1, --pool->shared.idle_count * sizeof idle[0]);
    return stale;
}

static void give_handle(struct http_pool *pool, CURL *handle)
{
    struct mono_time now = env_now(pool->env);
    env_mutex_lock(&pool->shared.mutex);
    CURL *stale = remove_stale_locked(pool, now);
    pool->shared.idle[pool->shared.idle_count++] =
        (struct idle_handle){ .handle = handle, .since = now };
    env_cond_signal(&pool->shared.freed);
    env_mutex_unlock(&pool->shared.mutex);
    if (stale)
        curl_easy_cleanup(stale);
}

/* ---- Callbacks of libcurl ------------------------------------------------------------ */

/* Whether anything that could take effect may have been sent. If there is a body and no byte of it
 * was passed to libcurl, nothing was. A request without a body consists only of headers, and may
 * have been sent. */
static bool may_have_left(const struct transfer *transfer)
{
    const struct http_source *source = transfer->request->source;
    if (transfer->begun == 0)
        return false;
    return !source || source->size == 0 || transfer->taken > 0;
}

/* Called when a connection is ready and the request is about to be sent. A second call means that
 * libcurl wants to send the request again, because a kept connection was dead. That is harmless
 * only if nothing that could take effect has been sent. */
static int on_begin(void *argument, char *peer, char *local, int peer_port, int local_port)
{
    struct transfer *transfer = argument;
    (void)peer;
    (void)local;
    (void)peer_port;
    (void)local_port;
    bool again = may_have_left(transfer);
    transfer->begun++;
    return again && !transfer->request->may_send_again ? CURL_PREREQFUNC_ABORT
                                                       : CURL_PREREQFUNC_OK;
}

/* libcurl rewinds a body in order to send it again, which must not happen once part of a write was
 * sent. If nothing was read yet, the body is still at its start. libcurl also rewinds such a body
 * if the previous request on this handle ended in a rewind. */
static int on_seek(void *argument, curl_off_t offset, int origin)
{
    struct transfer *transfer = argument;
    if (offset != 0 || origin != SEEK_SET)
        return CURL_SEEKFUNC_FAIL;
    if (transfer->taken > 0 && !transfer->request->may_send_again)
        return CURL_SEEKFUNC_FAIL;
    transfer->taken = 0;
    return CURL_SEEKFUNC_OK;
}

/* Progress is reported before a piece is passed on, so a body that the caller stops was never
 * sent completely. */
static size_t on_read(char *to, size_t size, size_t count, void *argument)
{
    struct transfer *transfer = argument;
    const struct http_request *request = transfer->request;
    const struct http_source *source = request->source;
    uint64_t left = source->size - transfer->taken;
    size_t wanted = left < size * count ? (size_t)left : size * count;
    if (wanted == 0)
        return 0;
    uint64_t total = request->progress_total ? request->progress_total : source->size;
    struct hf_error *error = &transfer->reply->error;
    if (!progress_step(request->progress, request->progress_base + transfer->taken + wanted,
                       total, error))
        return CURL_READFUNC_ABORT;
    size_t got = wanted;
    if (source->fd < 0)
        memcpy(to, source->bytes.data + transfer->taken, wanted);
    else if (file_read_at(source->fd, to, wanted, source->offset + transfer->taken, &got,
                          error) != HF_OK)
        return CURL_READFUNC_ABORT;
    if (got < wanted) {
        error_set(error, HF_CORRUPT, "the file became shorter while it was being read");
        return CURL_READFUNC_ABORT;
    }
    transfer->taken += got;
    return got;
}

static size_t store_body(struct transfer *transfer, struct view bytes, size_t max)
{
    struct buffer *body = &transfer->reply->body;
    body->max = max;
    size_t room = max - body->size;
    if (buffer_append(body, view_first(bytes, room)) && bytes.size <= room)
        return bytes.size;
    transfer->body_cut = true;
    return 0;
}

static size_t on_write(char *from, size_t size, size_t count, void *argument)
{
    struct transfer *transfer = argument;
    const struct http_request *request = transfer->request;
    struct http_reply *reply = transfer->reply;
    struct view bytes = { from, size * count };
    if (reply->status < 200 || reply->status > 299)
        return store_body(transfer, bytes, HTTP_ERROR_BODY_MAX);
    if (!request->sink.write)
        return store_body(transfer, bytes, transfer->body_max);
    if (!request->sink.write(request->sink.argument, reply, bytes)) {
        if (reply->error.status == HF_OK)
            error_set(&reply->error, HF_CANCELLED, "stopped");
        return 0;
    }
    transfer->arrived += bytes.size;
    uint64_t total = request->progress_total ? request->progress_total : reply->length;
    if (!progress_step(request->progress, request->progress_base + transfer->arrived, total,
                       &reply->error))
        return 0;
    return bytes.size;
}

/* Called about once a second while no data moves, so the caller can stop a stalled transfer. A body
 * that was sent completely cannot be recalled: the outcome is then "no answer". */
static int on_wait(void *argument, curl_off_t to_come, curl_off_t came, curl_off_t to_go,
                   curl_off_t went)
{
    struct transfer *transfer = argument;
    const struct http_request *request = transfer->request;
    const struct http_source *source = request->source;
    struct hf_error error;
    (void)to_come;
    (void)came;
    (void)to_go;
    (void)went;
    if (transfer->reply->error.status != HF_OK)
        return 1; /* already stopped */
    uint64_t total = request->progress_total ? request->progress_total
                     : source                ? source->size
                                             : transfer->reply->length;
    uint64_t done = request->progress_base + (source ? transfer->taken : transfer->arrived);
    if (progress_step(request->progress, done, total, &error))
        return 0;
    if (!source || transfer->taken < source->size)
        transfer->reply->error = error;
    return 1;
}

/* ---- Headers of the reply ------------------------------------------------------------ */

/* A server can send anything. A header that cannot be parsed counts as missing. */

static struct view trimmed_header(struct view text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = view_from(text, 1);
    while (text.size > 0 && strchr(" \t\r\n", text.data[text.size - 1]))
        text.size--;
    return text;
}

static bool name_is(struct view name, const char *wanted)
{
    return name.size == strlen(wanted) && strncasecmp(name.data, wanted, name.size) == 0;
}

/* The last second of the year 9999. */
#define DATE_SECONDS_MAX INT64_C(253402300799)

bool http_read_date(struct view text, struct wall_time *ret_time)
{
    char date[64];
    snprintf(date, sizeof date, "%.*s", VIEW_ARGS(view_first(text, sizeof date - 1)));
    time_t seconds = curl_getdate(date, NULL);
    if (seconds < 0 || seconds > DATE_SECONDS_MAX)
        return false;
    *ret_time = (struct wall_time){ (int64_t)seconds * 1000000 };
    return true;
}

struct view http_unquoted(struct view text)
{
    if (text.size >= 2 && text.data[0] == '"' && text.data[text.size - 1] == '"')
        return (struct view){ text.data + 1, text.size - 2 };
    return text;
}

/* "bytes 0-9/1234" */
static void read_content_range(struct http_reply *reply, struct view text)
{
    struct hf_error error;
    struct view total = text;
    struct view end = view_cut(&total, '/');
    if (view_starts_with(end, VIEW("bytes ")))
        end = view_from(end, 6);
    struct view start = view_cut(&end, '-');
    uint64_t first, last, size;
    bool readable = parse_u64(start, OBJECT_BYTES_MAX, &first, &error) == HF_OK &&
                    parse_u64(end, OBJECT_BYTES_MAX, &last, &error) == HF_OK &&
                    parse_u64(total, OBJECT_BYTES_MAX, &size, &error) == HF_OK;
    reply->has_range = readable && first <= last && last < size;
    reply->past_end = readable && first == size && last + 1 == first;
    reply->range_start = reply->has_range ? first : 0;
    reply->range_total = reply->has_range ? size : 0;
}

static void copy_header_value(char *to, size_t size, struct view value)
{
    snprintf(to, size, "%.*s", VIEW_ARGS(view_first(value, size - 1)));
}

static void read_length(struct http_reply *reply, struct view text)
{
    struct hf_error error;
    uint64_t length;
    reply->has_length = parse_u64(text, OBJECT_BYTES_MAX, &length, &error) == HF_OK;
    reply->length = reply->has_length ? length : 0;
}

static void read_number(struct view text, uint64_t *ret_number)
{
    if (parse_u64(text, UINT64_MAX, ret_number, NULL) != HF_OK)
        *ret_number = 0;
}

static void store_header(struct http_reply *reply, struct view name, struct view value)
{
    if (name_is(name, "etag"))
        etag_set(&reply->content_tag, http_unquoted(value));
    if (name_is(name, reply->version_header ? reply->version_header : "etag"))
        etag_set(&reply->etag, http_unquoted(value));
    else if (name_is(name, "date"))
        reply->has_date = http_read_date(value, &reply->date);
    else if (name_is(name, "age"))
        reply->has_age = true;
    else if (name_is(name, "x-amz-version-id") || name_is(name, "x-ms-version-id")) {
        reply->has_version = true;
        reply->null_version = name_is(value, "null");
    } else if (name_is(name, "last-modified"))
        http_read_date(value, &reply->modified);
    else if (name_is(name, "content-length"))
        read_length(reply, value);
    else if (name_is(name, "transfer-encoding"))
        reply->chunked = name_is(value, "chunked");
    else if (name_is(name, "content-range"))
        read_content_range(reply, value);
    else if (name_is(name, "x-amz-bucket-region"))
        copy_header_value(reply->region, sizeof reply->region, value);
    else if (name_is(name, "location"))
        copy_header_value(reply->location, sizeof reply->location, value);
    else if (name_is(name, "x-key-version"))
        read_number(value, &reply->key_version);
    else if (name_is(name, "x-fencing-token"))
        read_number(value, &reply->token);
    else if (name_is(name, HTTP_MARK_HEADER) || name_is(name, HTTP_MARK_HEADER_GOOGLE))
        copy_header_value(reply->mark, sizeof reply->mark, value);
}

static void clear_headers(struct http_reply *reply)
{
    reply->etag.size = reply->content_tag.size = 0;
    reply->has_date = reply->has_age = reply->has_length = reply->has_range = false;
    reply->chunked = reply->whole_headers = reply->past_end = false;
    reply->has_version = reply->null_version = false;
    reply->length = reply->range_start = reply->range_total = 0;
    reply->key_version = reply->token = 0;
    reply->modified = (struct wall_time){ 0 };
    reply->region[0] = reply->location[0] = reply->mark[0] = '\0';
}

/* A status line starts a new reply (after 100, or from a proxy). Lines after the body of a
 * chunked reply are its trailers, which are ignored. */
void http_reply_line(struct http_reply *reply, struct view line)
{
    if (reply->whole_headers && reply->status >= 200)
        return;
    if (view_starts_with(line, VIEW("HTTP/"))) {
        clear_headers(reply);
        struct view rest = line;
        view_cut(&rest, ' ');
        struct hf_error error;
        uint64_t status = 0;
        parse_u64(view_first(rest, 3), 999, &status, &error);
        reply->status = (int)status;
        return;
    }
    reply->whole_headers = trimmed_header(line).size == 0;
    struct view value = line;
    struct view name = view_cut(&value, ':');
    store_header(reply, trimmed_header(name), trimmed_header(value));
}

static size_t on_header(char *from, size_t size, size_t count, void *argument)
{
    http_reply_line(argument, (struct view){ from, size * count });
    return size * count;
}

/* ---- One request --------------------------------------------------------------------- */

/* A handle that is being prepared for a request. An option that libcurl refuses, because it does
 * not know it or memory runs out, may be one that a rule depends on. So the request is not sent. */
struct setup {
    CURL *handle;
    CURLcode code; /* of the first option that was refused */
};

#define SET(setup, option, value)                                          \
    do {                                                                   \
        CURLcode code_ = curl_easy_setopt((setup)->handle, option, value); \
        (setup)->code = (setup)->code == CURLE_OK ? code_ : (setup)->code; \
    } while (0)

static void set_common(struct setup *setup, const struct http_pool *pool)
{
    SET(setup, CURLOPT_NOSIGNAL, 1L);
    SET(setup, CURLOPT_TCP_NODELAY, 1L);
    SET(setup, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(setup, CURLOPT_MAXAGE_CONN, IDLE_SECONDS_MAX);
    SET(setup, CURLOPT_MAXCONNECTS, 2L);
    SET(setup, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    /* Since 7.85. An older libcurl is given no other URLs either. */
    (void)curl_easy_setopt(setup->handle, CURLOPT_PROTOCOLS_STR, "http,https");
    /* A redirect would send a request that is signed for this host to another host. */
    SET(setup, CURLOPT_FOLLOWLOCATION, 0L);
    SET(setup, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* not part of the reply */
    /* The path must be sent exactly as it was signed. */
    SET(setup, CURLOPT_PATH_AS_IS, 1L);
    SET(setup, CURLOPT_USERAGENT, "holdfast/" HOLDFAST_VERSION);
    SET(setup, CURLOPT_BUFFERSIZE, 128L * 1024);
    SET(setup, CURLOPT_UPLOAD_BUFFERSIZE, 128L * 1024);
    if (pool->options.no_proxy)
        SET(setup, CURLOPT_NOPROXY, "*");
    if (pool->options.ca_file)
        SET(setup, CURLOPT_CAINFO, pool->options.ca_file);
    if (pool->options.certificate_file) {
        SET(setup, CURLOPT_SSLCERT, pool->options.certificate_file);
        SET(setup, CURLOPT_SSLKEY, pool->options.key_file);
    }
    if (pool->options.socket_path)
        SET(setup, CURLOPT_UNIX_SOCKET_PATH, pool->options.socket_path);
}

static void set_callbacks(struct setup *setup, struct transfer *transfer)
{
    SET(setup, CURLOPT_PREREQFUNCTION, on_begin);
    SET(setup, CURLOPT_PREREQDATA, transfer);
    SET(setup, CURLOPT_SEEKFUNCTION, on_seek);
    SET(setup, CURLOPT_SEEKDATA, transfer);
    SET(setup, CURLOPT_READFUNCTION, on_read);
    SET(setup, CURLOPT_READDATA, transfer);
    SET(setup, CURLOPT_WRITEFUNCTION, on_write);
    SET(setup, CURLOPT_WRITEDATA, transfer);
    SET(setup, CURLOPT_HEADERFUNCTION, on_header);
    SET(setup, CURLOPT_HEADERDATA, transfer->reply);
    if (transfer->request->progress) {
        SET(setup, CURLOPT_XFERINFOFUNCTION, on_wait);
        SET(setup, CURLOPT_XFERINFODATA, transfer);
        SET(setup, CURLOPT_NOPROGRESS, 0L);
    }
}

static void set_time_outs(struct setup *setup, const struct http_pool *pool,
                          const struct http_request *request, struct span left)
{
    int64_t left_ms = left.us / 1000 > 0 ? left.us / 1000 : 1;
    long total_ms = left_ms < INT_MAX ? (long)left_ms : INT_MAX;
    struct span connect = span_smaller(left, pool->options.connect_time_out);
    SET(setup, CURLOPT_TIMEOUT_MS, total_ms);
    SET(setup, CURLOPT_CONNECTTIMEOUT_MS,
        connect.us / 1000 > 0 ? (long)(connect.us / 1000) : 1L);
    if (request->stall.us <= 0)
        return;
    long seconds = (long)((request->stall.us + 999999) / 1000000);
    SET(setup, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES_A_SECOND);
    SET(setup, CURLOPT_LOW_SPEED_TIME, seconds);
}

/* The nodes are in the caller's array and point to the caller's strings; libcurl only reads
 * them. */
static struct curl_slist *link_headers(const struct http_request *request,
                                       struct curl_slist *nodes)
{
    static char no_expect[] = "Expect:";
    check(request->header_count <= HTTP_HEADERS_MAX);
    /* An empty Expect header: libcurl would otherwise wait for "100 Continue" before a body. */
    nodes[0] = (struct curl_slist){ no_expect, NULL };
    for (size_t i = 0; i < request->header_count; i++) {
        nodes[i + 1] = (struct curl_slist){ (char *)(size_t)request->headers[i], NULL };
        nodes[i].next = &nodes[i + 1];
    }
    return nodes;
}

static void set_method(struct setup *setup, const struct http_request *request)
{
    SET(setup, CURLOPT_URL, request->url);
    if (request->source) {
        SET(setup, CURLOPT_UPLOAD, 1L);
        SET(setup, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->source->size);
    }
    SET(setup, CURLOPT_CUSTOMREQUEST, request->method);
}

/* Why there was no reply. If the URL of a proxy cannot be parsed, libcurl's message contains all of
 * it, and the host that it finds there may be a part of the password. */
static const char *explain_no_reply(CURLcode code, const char *detail)
{
    if (code == CURLE_OK)
        return "the reply ended within its headers";
    if (code == CURLE_ABORTED_BY_CALLBACK || code == CURLE_SEND_FAIL_REWIND)
        return "the connection was closed before a reply arrived";
    if (code == CURLE_COULDNT_RESOLVE_PROXY ||
        view_starts_with(view_of(detail), VIEW("Unsupported proxy")))
        return "the proxy in the environment has an unknown host, or its URL is not valid";
    return detail[0] ? detail : curl_easy_strerror(code);
}

static void set_outcome(struct transfer *transfer, CURLcode code, const char *detail)
{
    struct http_reply *reply = transfer->reply;
    /* libcurl reports success even if a reply is cut off inside its headers. */
    bool answered = code == CURLE_OK && reply->whole_headers;
    /* An error page may be longer than what we keep of it. Its status is nevertheless a reply. */
    if (code == CURLE_WRITE_ERROR && transfer->body_cut && reply->status >= 300)
        answered = true;
    if (code == CURLE_WRITE_ERROR && transfer->body_cut && !answered)
        error_set(&reply->error, HF_CORRUPT, "the store sent more bytes than requested");
    if (answered && reply->status >= 100) {
        reply->outcome = HTTP_ANSWERED;
        return;
    }
    if (reply->error.status != HF_OK) {
        reply->outcome = HTTP_STOPPED;
        return;
    }
    reply->outcome = may_have_left(transfer) ? HTTP_NO_ANSWER : HTTP_NOT_SENT;
    reply->bad_certificate = code == CURLE_PEER_FAILED_VERIFICATION;
    error_set(&reply->error, reply->outcome == HTTP_NO_ANSWER ? HF_UNSURE : HF_UNAVAILABLE,
              "%s", explain_no_reply(code, detail));
}

/* Before 7.80, libcurl does not tell when it begins to send a request. Then every lost reply to a
 * write would be reported as if nothing had been sent. */
static enum hf_status check_curl_options(const struct http_pool *pool, struct hf_error *error)
{
    const struct http_request request = { .method = "GET" };
    struct transfer transfer = { .request = &request };
    struct setup setup = { curl_easy_init(), CURLE_OK };
    if (!setup.handle)
        return error_no_memory(error);
    set_common(&setup, pool);
    set_callbacks(&setup, &transfer);
    curl_easy_cleanup(setup.handle);
    if (setup.code == CURLE_OUT_OF_MEMORY)
        return error_no_memory(error);
    if (setup.code != CURLE_OK)
        return error_set(error, HF_UNSUPPORTED,
                         "libcurl is too old or was built without what is needed (%s); install "
                         "version 7.80 or later",
                         curl_easy_strerror(setup.code));
    return HF_OK;
}

void http_reply_release(struct http_reply *reply)
{
    buffer_release(&reply->body);
}

void http_perform(struct http_pool *pool, const struct http_request *request, size_t body_max,
                  struct http_reply *reply)
{
    *reply = (struct http_reply){ .outcome = HTTP_NOT_SENT,
                                  .version_header = pool->options.version_header,
                                  .body = BUFFER_INIT(HTTP_ERROR_BODY_MAX) };
    CURL *handle = take_handle(pool, request->deadline, &reply->error);
    if (!handle)
        return;
    struct transfer transfer = { .request = request, .reply = reply, .body_max = body_max };
    struct curl_slist nodes[HTTP_HEADERS_MAX + 1];
    char detail[CURL_ERROR_SIZE] = "";
    struct setup setup = { handle, CURLE_OK };
    set_common(&setup, pool);
    set_callbacks(&setup, &transfer);
    set_method(&setup, request);
    SET(&setup, CURLOPT_HTTPHEADER, link_headers(request, nodes));
    SET(&setup, CURLOPT_ERRORBUFFER, detail);
    reply->sent = env_now(pool->env);
    struct span left = mono_since(request->deadline, reply->sent);
    set_time_outs(&setup, pool, request, left);
    if (left.us <= 0) {
        error_set(&reply->error, HF_UNAVAILABLE, "no time was left to send the request");
    } else if (setup.code != CURLE_OK) {
        error_set(&reply->error, HF_UNAVAILABLE, "cannot prepare the request: %s",
                  curl_easy_strerror(setup.code));
    } else {
        CURLcode code = curl_easy_perform(handle);
        reply->received = env_now(pool->env);
        set_outcome(&transfer, code, detail);
    }
    /* The handle outlives this function, so it must not keep pointers to its variables. */
    curl_easy_reset(handle);
    give_handle(pool, handle);
}
