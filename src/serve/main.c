/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: holdfast-serve, which `holdfast serve` starts: options, the loop, signals, and the
 * order in which things stop.
 *
 * The loop, which two threads run in turn, owns everything but the workers. SIGTERM and SIGINT stop
 * the server: it grants nothing more, ends the waits, answers what is under way, and leaves the
 * leases of its clients alone. A second signal ends it at once. SIGHUP reads the token file and the
 * TLS files again, and opens the audit log again; if one of them is wrong, the old one stays in
 * use. */
#include "base/buffer.h"
#include "base/check.h"
#include "base/json.h"
#include "base/parse.h"
#include "serve/api/api.h"
#include "serve/calls/stand_in.h"
#include "serve/log/words.h"
#include "serve/upkeep/upkeep.h"

#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define ADDRESS_DEFAULT "127.0.0.1:9341"
#define STOP_GRACE_MS   10000
#define WAIT_MAX        SPAN_S(3600)
#define WORKERS_LOCAL   16
#define WORKERS_NETWORK 64
#define WORKERS_MAX     256
#define CACHED_LEASES   131072

struct options {
    const char *store, *token_file;
    struct http_listener listeners[HTTP_LISTENERS_MAX];
    size_t listener_count;
    const char *hosts[GUARD_HOSTS_MAX + 1];
    size_t host_count;
    struct http_tls_files tls;
    uint64_t workers, for_ms;
    bool insecure, json, quiet;
    struct upkeep_options upkeep;
    struct {
        bool json;
        enum log_requests requests;
        const char *audit;
    } log;
    struct rate_limit rate;
};

struct daemon {
    struct options options;
    struct env *env;
    uv_loop_t loop;
    uv_async_t ended;      /* a worker has ended a call */
    uv_timer_t timer, end; /* when the core has something to do; when to stop */
    uv_prepare_t prepare;  /* before the loop waits */
    uv_poll_t gather;      /* watches `gather_timer`: the timers of libuv are too coarse */
    int gather_timer;
    struct mono_time gather_until; /* when it expires; MOMENT_FAR: it is not set */
    uv_signal_t signals[3];
    struct hf_store *store;
    struct lease_ids *ids;
    struct guard *guard;
    struct metrics *metrics;
    struct upkeep *upkeep;
    struct serve_log *log;
    struct audit *audit;
    struct api *api;
    struct http_server *http;
    bool stopping, http_stopped, ended_all;
};

/* ---- Words --------------------------------------------------------------------------- */

/* How say() writes; set once, by --log. */
static bool says_json;

/* A line to the operator. Any thread. */
static void say_text(struct view text)
{
    struct buffer line = BUFFER_INIT(WORDS_LINE_MAX);
    words_write_line(text, says_json, env_wall(env_real()), &line);
    if (!line.failed && buffer_text(&line))
        fputs(line.data, stderr);
    buffer_release(&line);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    say_text(view_of(text));
}

/* As the other commands report an error. */
static int fail(const struct options *options, const struct hf_error *error)
{
    struct buffer json = BUFFER_INIT(4096);
    buffer_print(&json, "{\"status\":\"%s\",\"why\":", hf_status_name(error->status));
    json_write_string(&json, view_of(error->why));
    buffer_append_byte(&json, '}');
    if (options->json && !json.failed)
        fprintf(stderr, "%.*s\n", VIEW_ARGS(buffer_view(&json)));
    else
        say("%s: %s", hf_status_name(error->status), error->why);
    buffer_release(&json);
    return hf_status_exit_code(error->status);
}

/* Tells systemd, if it started us, how we are. */
static void notify_systemd(const char *text)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || strlen(path) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    close(fd);
}

/* ---- Options ------------------------------------------------------------------------- */

enum {
    OPTION_STORE = 256,
    OPTION_LISTEN,
    OPTION_TOKENS,
    OPTION_HOST,
    OPTION_CERTIFICATE,
    OPTION_KEY,
    OPTION_CLIENT_CA,
    OPTION_WORKERS,
    OPTION_LOG,
    OPTION_LOG_REQUESTS,
    OPTION_AUDIT,
    OPTION_RATE,
    OPTION_INSECURE,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_FOR_MS,
    OPTION_NO_SWEEP,
    OPTION_IDLE_GRACE,
    OPTION_OP_DELAY,
    OPTION_OPS_MAX,
    OPTION_RUNTIME_MAX,
    OPTION_SCRUB,
    OPTION_COMPACT,
    OPTION_INDEX,
    OPTION_ELECT
};

static const struct option long_options[] = {
    { "store", required_argument, NULL, OPTION_STORE },
    { "listen", required_argument, NULL, OPTION_LISTEN },
    { "tokens", required_argument, NULL, OPTION_TOKENS },
    { "host", required_argument, NULL, OPTION_HOST },
    { "tls-cert", required_argument, NULL, OPTION_CERTIFICATE },
    { "tls-key", required_argument, NULL, OPTION_KEY },
    { "tls-client-ca", required_argument, NULL, OPTION_CLIENT_CA },
    { "workers", required_argument, NULL, OPTION_WORKERS },
    { "log", required_argument, NULL, OPTION_LOG },
    { "log-requests", required_argument, NULL, OPTION_LOG_REQUESTS },
    { "audit", required_argument, NULL, OPTION_AUDIT },
    { "rate", required_argument, NULL, OPTION_RATE },
    { "insecure", no_argument, NULL, OPTION_INSECURE },
    { "json", no_argument, NULL, OPTION_JSON },
    { "quiet", no_argument, NULL, OPTION_QUIET },
    { "for-ms", required_argument, NULL, OPTION_FOR_MS },
    { "no-sweep", no_argument, NULL, OPTION_NO_SWEEP },
    { "idle-grace-ms", required_argument, NULL, OPTION_IDLE_GRACE },
    { "op-delay-ms", required_argument, NULL, OPTION_OP_DELAY },
    { "max-ops", required_argument, NULL, OPTION_OPS_MAX },
    { "max-runtime-ms", required_argument, NULL, OPTION_RUNTIME_MAX },
    { "scrub", required_argument, NULL, OPTION_SCRUB },
    { "compact", required_argument, NULL, OPTION_COMPACT },
    { "index", required_argument, NULL, OPTION_INDEX },
    { "elect", required_argument, NULL, OPTION_ELECT },
    { NULL, 0, NULL, 0 },
};

static enum hf_status add_listener(struct options *options, const char *address,
                                   struct hf_error *error)
{
    if (options->listener_count == HTTP_LISTENERS_MAX)
        return error_set(error, HF_INVALID, "more than %d addresses", HTTP_LISTENERS_MAX);
    options->listeners[options->listener_count++] =
        (struct http_listener){ .address = address };
    return HF_OK;
}

/* Adds a name to a list of upkeep. */
static enum hf_status add_upkeep_name(const char *names[UPKEEP_NAMES_MAX], size_t *count,
                                      const char *name, struct hf_error *error)
{
    if (*count == UPKEEP_NAMES_MAX)
        return error_set(error, HF_INVALID, "more than %d names", UPKEEP_NAMES_MAX);
    names[(*count)++] = name;
    return HF_OK;
}

static enum hf_status set_ms(const char *value, int64_t *ret_ms, struct hf_error *error)
{
    uint64_t ms = 0;
    enum hf_status status = parse_u64(view_of(value), INT64_MAX, &ms, error);
    *ret_ms = (int64_t)ms;
    return status;
}

/* The range of each is checked by the library. */
static enum hf_status set_upkeep_option(struct upkeep_options *upkeep, int option,
                                        const char *value, struct hf_error *error)
{
    struct hf_sweeper_options *sweeper = &upkeep->sweeper;
    switch (option) {
    case OPTION_NO_SWEEP: upkeep->sweeps = false; return HF_OK;
    case OPTION_IDLE_GRACE: return set_ms(value, &sweeper->idle_grace_ms, error);
    case OPTION_OP_DELAY: return set_ms(value, &sweeper->op_delay_ms, error);
    case OPTION_RUNTIME_MAX: return set_ms(value, &sweeper->runtime_max_ms, error);
    case OPTION_OPS_MAX: return parse_u64(view_of(value), UINT64_MAX, &sweeper->ops_max, error);
    case OPTION_SCRUB:
        return parse_u64(view_of(value), UINT64_MAX, &upkeep->scrub_bytes, error);
    case OPTION_COMPACT:
        return add_upkeep_name(upkeep->partitions, &upkeep->partition_count, value, error);
    case OPTION_INDEX:
        return add_upkeep_name(upkeep->indexes, &upkeep->index_count, value, error);
    case OPTION_ELECT: upkeep->group = value; return HF_OK;
    default: return error_set(error, HF_INVALID, "unknown option; see 'holdfast serve --help'");
    }
}

/* The index of the value among these words, which end with NULL. */
static enum hf_status read_word(const char *option, const char *value,
                                const char *const words[], int *ret_index,
                                struct hf_error *error)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(value, words[i]) == 0) {
            *ret_index = i;
            return HF_OK;
        }
    return error_set(error, HF_INVALID,
                     "'%.40s' is no value of --%s; see 'holdfast serve --help'", value, option);
}

/* What an operator sees, and limits. */
static enum hf_status set_log_option(struct options *options, int option, const char *value,
                                     struct hf_error *error)
{
    static const char *const formats[] = { "text", "json", NULL };
    static const char *const requests[] = { [LOG_NO_REQUESTS] = "none",
                                            [LOG_FAILED_REQUESTS] = "failed",
                                            [LOG_ALL_REQUESTS] = "all",
                                            [LOG_ALL_REQUESTS + 1] = NULL };
    int index = 0;
    enum hf_status status;
    switch (option) {
    case OPTION_LOG:
        status = read_word("log", value, formats, &index, error);
        options->log.json = says_json = index == 1;
        return status;
    case OPTION_LOG_REQUESTS:
        status = read_word("log-requests", value, requests, &index, error);
        options->log.requests = (enum log_requests)index;
        return status;
    case OPTION_AUDIT: options->log.audit = value; return HF_OK;
    case OPTION_RATE: return rate_limit_read(view_of(value), &options->rate, error);
    default: return set_upkeep_option(&options->upkeep, option, value, error);
    }
}

static enum hf_status set_option(struct options *options, int option, const char *value,
                                 struct hf_error *error)
{
    switch (option) {
    case OPTION_STORE: options->store = value; return HF_OK;
    case OPTION_LISTEN: return add_listener(options, value, error);
    case OPTION_TOKENS: options->token_file = value; return HF_OK;
    case OPTION_CERTIFICATE: options->tls.certificate = value; return HF_OK;
    case OPTION_KEY: options->tls.key = value; return HF_OK;
    case OPTION_CLIENT_CA: options->tls.client_ca = value; return HF_OK;
    case OPTION_INSECURE: options->insecure = true; return HF_OK;
    case OPTION_JSON: options->json = true; return HF_OK;
    case OPTION_QUIET: options->quiet = true; return HF_OK;
    case OPTION_FOR_MS: return parse_u64(view_of(value), INT32_MAX, &options->for_ms, error);
    case OPTION_WORKERS:
        return parse_u64(view_of(value), WORKERS_MAX, &options->workers, error);
    case OPTION_HOST:
        if (options->host_count == GUARD_HOSTS_MAX)
            return error_set(error, HF_INVALID, "more than %d hosts", GUARD_HOSTS_MAX);
        options->hosts[options->host_count++] = value;
        return HF_OK;
    default: return set_log_option(options, option, value, error);
    }
}

static bool is_local(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0 ||
           strncmp(address, "unix:", 5) == 0;
}

/* Addresses that others can reach need TLS, and a way to tell clients apart. */
static enum hf_status secure_listeners(struct options *options, struct hf_error *error)
{
    bool has_tls = options->tls.certificate != NULL;
    bool knows_clients = options->token_file || options->tls.client_ca;
    if (has_tls != (options->tls.key != NULL))
        return error_set(error, HF_INVALID, "--tls-cert and --tls-key belong together");
    if (options->tls.client_ca && !has_tls)
        return error_set(error, HF_INVALID, "--tls-client-ca needs --tls-cert and --tls-key");
    for (size_t i = 0; i < options->listener_count; i++) {
        struct http_listener *listener = &options->listeners[i];
        listener->tls = has_tls && strncmp(listener->address, "unix:", 5) != 0;
        if (is_local(listener->address) || options->insecure)
            continue;
        if (!has_tls)
            return error_set(error, HF_INVALID,
                             "'%s' can be reached from other machines: use --tls-cert and "
                             "--tls-key, or --insecure if something else protects it",
                             listener->address);
        if (!knows_clients)
            return error_set(error, HF_INVALID,
                             "'%s' can be reached from other machines: use --tokens or "
                             "--tls-client-ca, or --insecure to let everybody in",
                             listener->address);
    }
    return HF_OK;
}

static enum hf_status read_options(struct options *options, int argc, char **argv,
                                   struct hf_error *error)
{
    enum hf_status status = HF_OK;
    int option;
    opterr = 0;
    options->store = getenv("HOLDFAST_STORE");
    options->upkeep.sweeps = true;
    options->upkeep.sweeper = HF_SWEEPER_OPTIONS;
    while (status == HF_OK && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        status = set_option(options, option, optarg, error);
    if (status == HF_OK && optind < argc)
        return error_set(error, HF_INVALID, "unexpected argument '%.100s'", argv[optind]);
    if (status == HF_OK && (!options->store || options->store[0] == '\0'))
        return error_set(error, HF_INVALID, "no store is given: use --store URL");
    if (status == HF_OK && options->upkeep.scrub_bytes > 0 && !options->upkeep.sweeps)
        return error_set(error, HF_INVALID,
                         "--scrub cannot be used with --no-sweep: a scrub follows each sweep");
    if (status == HF_OK && options->listener_count == 0)
        status = add_listener(options, ADDRESS_DEFAULT, error);
    return status == HF_OK ? secure_listeners(options, error) : status;
}

/* ---- The loop ------------------------------------------------------------------------ */

static void finish_if_idle(struct daemon *daemon)
{
    if (!daemon->stopping || !daemon->http_stopped || !api_is_idle(daemon->api))
        return;
    daemon->ended_all = true;
    uv_stop(&daemon->loop);
}

static void on_timer(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    api_pass_time(daemon->api);
    finish_if_idle(daemon);
}

/* Wakes up when the core has something to do. */
static void wake_for_core(struct daemon *daemon)
{
    struct mono_time at = api_wake_at(daemon->api);
    struct span left = mono_since(at, env_now(daemon->env));
    if (at.us == MOMENT_FAR)
        uv_timer_stop(&daemon->timer);
    else
        uv_timer_start(&daemon->timer, on_timer, left.us > 0 ? (uint64_t)left.us / 1000 + 1 : 0,
                       0);
}

static void on_ended(uv_async_t *async)
{
    struct daemon *daemon = async->data;
    api_collect(daemon->api);
    finish_if_idle(daemon);
}

/* The calls have gathered for long enough: on_prepare starts their batch. */
static void on_gather_timer(uv_poll_t *poll, int status, int events)
{
    struct daemon *daemon = poll->data;
    uint64_t times;
    (void)status;
    (void)events;
    (void)!read(daemon->gather_timer, &times, sizeof times);
    daemon->gather_until.us = MOMENT_FAR;
}

/* Wakes up when calls have gathered for long enough. A timer that is no longer needed is left
 * alone. */
static void wake_for_gathered(struct daemon *daemon)
{
    struct mono_time until = api_gather_until(daemon->api);
    if (until.us == MOMENT_FAR || until.us == daemon->gather_until.us)
        return;
    struct span left = mono_since(until, env_now(daemon->env));
    struct itimerspec when = { .it_value.tv_nsec = left.us > 0 ? left.us * 1000 : 1 };
    daemon->gather_until = until;
    check(timerfd_settime(daemon->gather_timer, 0, &when, NULL) == 0);
}

/* All events that were there have been taken, and the loop is about to wait. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct daemon *daemon = prepare->data;
    if (!daemon->api)
        return;
    api_flush(daemon->api);
    wake_for_core(daemon);
    wake_for_gathered(daemon);
}

static void notify_loop(void *argument)
{
    struct daemon *daemon = argument;
    uv_async_send(&daemon->ended);
}

/* The thread that runs the loop makes short writes itself (stand_in.h). */

static bool run_loop_once(void *argument)
{
    struct daemon *daemon = argument;
    uv_run(&daemon->loop, UV_RUN_ONCE);
    return !daemon->ended_all;
}

static struct pool_job *take_loop_job(void *argument)
{
    struct daemon *daemon = argument;
    return api_take_job(daemon->api);
}

static void collect_loop_job(void *argument, struct pool_job *job)
{
    struct daemon *daemon = argument;
    api_end_job(daemon->api, job);
    uv_update_time(&daemon->loop);
    on_ended(&daemon->ended);
}

static void notify_of_loop_job(void *argument, struct pool_job *job)
{
    struct daemon *daemon = argument;
    api_end_job(daemon->api, job);
    notify_loop(daemon);
}

static enum hf_status run_daemon(struct daemon *daemon, struct hf_error *error)
{
    const struct stand_in_options options = { .env = daemon->env,
                                              .run = run_loop_once,
                                              .take = take_loop_job,
                                              .collect = collect_loop_job,
                                              .notify = notify_of_loop_job,
                                              .argument = daemon };
    return stand_in_run(&options, error);
}

static struct http_figures read_http_figures(void *argument)
{
    struct daemon *daemon = argument;
    return http_server_figures(daemon->http);
}

static void on_request(void *argument, struct http_request *request)
{
    struct daemon *daemon = argument;
    upkeep_note_request(daemon->upkeep, request);
    api_request(daemon->api, request);
}

static bool on_large_body(void *argument, struct http_request *request, size_t *ret_body_max)
{
    struct daemon *daemon = argument;
    return api_admit(daemon->api, request, ret_body_max);
}

static void on_hang_up(void *argument, struct http_request *request)
{
    struct daemon *daemon = argument;
    api_hang_up(daemon->api, request);
}

static void on_http_stopped(void *argument)
{
    struct daemon *daemon = argument;
    daemon->http_stopped = true;
    finish_if_idle(daemon);
}

/* ---- Signals ------------------------------------------------------------------------- */

/* With the time by the clock that systemd compares it with. */
static void notify_reloading(void)
{
    char text[64];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, uv_hrtime() / 1000);
    notify_systemd(text);
}

static void reload(struct daemon *daemon)
{
    const struct options *options = &daemon->options;
    struct hf_error error;
    struct guard *guard;
    notify_reloading();
    if (guard_load(options->token_file, options->hosts, &guard, &error) != HF_OK) {
        say("the old tokens stay in use: %s", error.why);
    } else {
        api_set_guard(daemon->api, guard);
        guard_free(daemon->guard);
        daemon->guard = guard;
    }
    if (daemon->audit && audit_reopen(daemon->audit, &error) != HF_OK)
        say("the old audit log stays in use: %s", error.why);
    if (options->tls.certificate && http_server_reload_tls(daemon->http, &error) != HF_OK)
        say("the old TLS files stay in use: %s", error.why);
    notify_systemd("READY=1");
}

static void stop(struct daemon *daemon, const char *reason)
{
    if (daemon->stopping)
        _exit(1);
    if (!daemon->options.quiet)
        say("%s: stopping; leases stay as they are", reason);
    daemon->stopping = true;
    notify_systemd("STOPPING=1");
    upkeep_stop(daemon->upkeep);
    api_stop(daemon->api);
    http_server_stop(daemon->http, STOP_GRACE_MS, on_http_stopped, daemon);
}

static void on_time_over(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    if (!daemon->stopping)
        stop(daemon, "the time is over");
}

static void on_uv_signal(uv_signal_t *handle, int number)
{
    if (number == SIGHUP)
        reload(handle->data);
    else
        stop(handle->data, number == SIGINT ? "SIGINT" : "SIGTERM");
}

/* ---- Start --------------------------------------------------------------------------- */

static bool is_network_store(const char *url)
{
    struct view text = view_of(url);
    return view_starts_with(text, VIEW("s3:")) || view_starts_with(text, VIEW("gs:")) ||
           view_starts_with(text, VIEW("azure:"));
}

/* Opens the store for clients, with all checks that they make, and reads the bucket's secret. */
static enum hf_status open_store(struct daemon *daemon, struct hf_error *error)
{
    struct hf_store_options options = HF_STORE_OPTIONS;
    unsigned char secret[LEASE_SECRET_BYTES];
    options.coordinates = true;
    options.trace = metrics_store_request;
    options.trace_argument = daemon->metrics;
    enum hf_status status =
        hf_store_open(daemon->options.store, &options, &daemon->store, error);
    if (status == HF_OK)
        status = lease_secret_load(daemon->env, daemon->store, secret, error);
    if (status != HF_OK)
        return status;
    daemon->ids = lease_ids_new(daemon->env, secret, CACHED_LEASES);
    explicit_bzero(secret, sizeof secret);
    return daemon->ids ? HF_OK : error_no_memory(error);
}

static void start_loop(struct daemon *daemon)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    uv_loop_init(&daemon->loop);
    uv_async_init(&daemon->loop, &daemon->ended, on_ended);
    uv_timer_init(&daemon->loop, &daemon->timer);
    uv_timer_init(&daemon->loop, &daemon->end);
    uv_prepare_init(&daemon->loop, &daemon->prepare);
    daemon->prepare.data = daemon;
    uv_prepare_start(&daemon->prepare, on_prepare);
    daemon->gather_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    check(daemon->gather_timer >= 0);
    daemon->gather_until.us = MOMENT_FAR;
    uv_poll_init(&daemon->loop, &daemon->gather, daemon->gather_timer);
    daemon->gather.data = daemon;
    uv_poll_start(&daemon->gather, UV_READABLE, on_gather_timer);
    daemon->ended.data = daemon->timer.data = daemon->end.data = daemon;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uv_signal_init(&daemon->loop, &daemon->signals[i]);
        daemon->signals[i].data = daemon;
        uv_signal_start(&daemon->signals[i], on_uv_signal, numbers[i]);
    }
}

static enum hf_status start_api(struct daemon *daemon, struct hf_error *error)
{
    const struct options *options = &daemon->options;
    unsigned workers = is_network_store(options->store) ? WORKERS_NETWORK : WORKERS_LOCAL;
    struct api_options wanted = { .env = daemon->env,
                                  .store = daemon->store,
                                  .guard = daemon->guard,
                                  .wait_max = WAIT_MAX,
                                  .ids = daemon->ids,
                                  .metrics = daemon->metrics,
                                  .log = daemon->log,
                                  .audit = daemon->audit,
                                  .rate = options->rate,
                                  .workers =
                                      options->workers ? (unsigned)options->workers : workers,
                                  .notify = notify_loop,
                                  .figures = read_http_figures,
                                  .argument = daemon };
    return api_new(&wanted, &daemon->api, error);
}

static enum hf_status start_http(struct daemon *daemon, struct hf_error *error)
{
    static const char *const single[] = {
        "X-Lease-ID",      "X-Fencing-Token", "X-Txn-ID", "X-If-Version",
        "X-If-State-ETag", "X-Request-ID",    NULL
    };
    const struct options *options = &daemon->options;
    struct http_server_options wanted = {
        .env = daemon->env,
        .loop = &daemon->loop,
        .handler = { on_request, on_hang_up, on_large_body, daemon },
        .limits = HTTP_LIMITS,
        .listeners = options->listeners,
        .listener_count = options->listener_count,
        .tls = options->tls.certificate ? &options->tls : NULL,
        .single_headers = single,
        .error_body = api_error_body,
        .error_content_type = "application/json",
    };
    return http_server_new(&wanted, &daemon->http, error);
}

/* Called by threads of upkeep. */
static void say_upkeep_failed(void *argument, const char *part, const struct hf_error *why)
{
    (void)argument;
    say("%s: %s; trying again", part, why->why);
}

static void say_found(void *argument, const struct hf_scrub_finding *finding)
{
    struct buffer text = BUFFER_INIT(WORDS_MAX);
    (void)argument;
    words_write_finding(finding, &text);
    say_text(buffer_view(&text));
    buffer_release(&text);
}

static enum hf_status start_upkeep(struct daemon *daemon, struct hf_error *error)
{
    struct upkeep_options *options = &daemon->options.upkeep;
    options->env = daemon->env;
    options->store = daemon->store;
    options->metrics = daemon->metrics;
    options->failed = say_upkeep_failed;
    options->found = say_found;
    options->argument = daemon;
    return upkeep_start(options, &daemon->upkeep, error);
}

static void say_started(struct daemon *daemon)
{
    const struct options *options = &daemon->options;
    for (size_t i = 0; i < options->listener_count; i++) {
        char address[HTTP_ADDRESS_MAX];
        const char *scheme = options->listeners[i].tls ? "https://" : "http://";
        http_server_address(daemon->http, i, address);
        if (strncmp(address, "unix:", 5) == 0)
            scheme = "";
        if (!options->quiet)
            say("listening on %s%s", scheme, address);
    }
    if (!options->token_file && !options->quiet)
        say("there is no token file: whoever can connect may do everything");
    notify_systemd("READY=1");
    if (options->for_ms > 0)
        uv_timer_start(&daemon->end, on_time_over, options->for_ms, 0);
}

static enum hf_status open_logs(struct daemon *daemon, struct hf_error *error)
{
    const struct options *options = &daemon->options;
    enum hf_status status = serve_log_new(daemon->env, STDERR_FILENO, options->log.json,
                                          options->log.requests, &daemon->log, error);
    if (status == HF_OK && options->log.audit)
        status = audit_open(daemon->env, options->log.audit, &daemon->audit, error);
    return status;
}

static enum hf_status start(struct daemon *daemon, struct hf_error *error)
{
    daemon->metrics = metrics_new(daemon->env);
    enum hf_status status = open_logs(daemon, error);
    if (status == HF_OK)
        status = daemon->metrics ? open_store(daemon, error) : error_no_memory(error);
    if (status == HF_OK)
        status = guard_load(daemon->options.token_file, daemon->options.hosts, &daemon->guard,
                            error);
    if (status == HF_OK)
        status = start_api(daemon, error);
    if (status == HF_OK)
        status = start_upkeep(daemon, error);
    if (status == HF_OK)
        status = start_http(daemon, error);
    return status;
}

static void close_uv_handle(uv_handle_t *handle, void *argument)
{
    (void)argument;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void release_daemon(struct daemon *daemon)
{
    http_server_free(daemon->http);
    upkeep_free(daemon->upkeep);
    api_free(daemon->api);
    daemon->api = NULL;
    uv_walk(&daemon->loop, close_uv_handle, NULL);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    uv_loop_close(&daemon->loop);
    close(daemon->gather_timer);
    lease_ids_free(daemon->ids);
    guard_free(daemon->guard);
    hf_store_close(daemon->store);
    metrics_free(daemon->metrics);
    audit_close(daemon->audit);
    serve_log_free(daemon->log);
}

int main(int argc, char **argv)
{
    static struct daemon daemon;
    struct hf_error error;
    signal(SIGPIPE, SIG_IGN);
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1); /* otherwise each worker keeps a megabyte */
#endif
    daemon.env = env_real();
    enum hf_status status = read_options(&daemon.options, argc, argv, &error);
    if (status != HF_OK)
        return fail(&daemon.options, &error);
    start_loop(&daemon);
    status = start(&daemon, &error);
    if (status == HF_OK) {
        say_started(&daemon);
        status = run_daemon(&daemon, &error);
    }
    release_daemon(&daemon);
    return status == HF_OK ? 0 : fail(&daemon.options, &error);
}
