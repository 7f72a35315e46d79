/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: writes the log. Each line is a single write, because other threads and other processes
 * write theirs at the same time. A line that cannot be written is lost: the log never makes a
 * command fail. */
#include "cli/log.h"

#include "base/parse.h"
#include "cli/config/config.h"
#include "cli/lock/lock.h"
#include "cli/output/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOG_LINE_MAX (16 * KIB)

/* What every line of --log begins with. */
struct log_head {
    int64_t at_ms; /* wall-clock time */
    int64_t pid;
    const char *event;
};

struct logged_request {
    struct log_head head;
    const struct hf_store_request *request;
};

struct logged_event {
    struct log_head head;
    const struct hf_event *event;
};

struct logged_message {
    struct log_head head;
    const char *status; /* or NULL */
    struct view command;
    struct view why;
};

/* Appends the numbers of bytes sent and received; nothing if both are 0. */
static void append_bytes(struct buffer *to, const struct hf_store_request *request)
{
    uint64_t bytes = request->sent_bytes + request->received_bytes;
    if (bytes > 0)
        buffer_print(to, "%" PRIu64, bytes);
}

static const struct field request_record[] = REQUEST_RECORD;
static const struct field log_head_record[] = LOG_HEAD_RECORD;
static const struct field client_event_record[] = CLIENT_EVENT_RECORD;
static const struct field logged_request_record[] = LOGGED_REQUEST_RECORD;
static const struct field logged_event_record[] = LOGGED_EVENT_RECORD;
static const struct field logged_message_record[] = LOGGED_MESSAGE_RECORD;

/* ---- Options ------------------------------------------------------------------------- */

const char *cli_chosen(struct cli *cli, const char *option, const char *variable,
                       const char **ret_origin)
{
    const char *set = getenv(variable);
    const struct config_setting *found = config_default(cli, option);
    if (cli_given(cli, option)) {
        *ret_origin = "the command line";
        return option_text(cli, option);
    }
    *ret_origin = set && set[0] ? variable : NULL;
    return *ret_origin ? set : found ? found->value.data : NULL;
}

/* "text", "json", "text:FILE" or "json:FILE". */
static enum hf_status read_log_form(struct cli *cli, struct view value, bool *ret_json,
                                    struct view *ret_path)
{
    size_t colon = view_find(value, ':');
    struct view form = view_first(value, colon);
    *ret_json = view_equal(form, VIEW("json"));
    *ret_path = view_from(value, colon < value.size ? colon + 1 : colon);
    if (!*ret_json && !view_equal(form, VIEW("text")))
        return cli_invalid(cli,
                           "'%.*s' is not a form of the log: use text, json, text:FILE or "
                           "json:FILE",
                           VIEW_ARGS(view_first(value, 60)));
    return colon < value.size && ret_path->size == 0
               ? cli_invalid(cli, "the name of the file is missing after '%.*s'",
                             VIEW_ARGS(view_first(value, 60)))
               : HF_OK;
}

static enum hf_status read_verbosity(struct cli *cli, struct view value, unsigned *ret_level)
{
    bool digit = value.size == 1 && value.data[0] >= '0' && value.data[0] <= '2';
    if (!digit)
        return cli_invalid(cli, "'%.*s' is not 0, 1 or 2", VIEW_ARGS(view_first(value, 60)));
    *ret_level = (unsigned)(value.data[0] - '0');
    return HF_OK;
}

static enum hf_status read_color(struct cli *cli, struct view value)
{
    if (view_equal(value, VIEW("auto")) || view_equal(value, VIEW("always")) ||
        view_equal(value, VIEW("never")))
        return HF_OK;
    return cli_invalid(cli, "'%.*s' is not auto, always or never",
                       VIEW_ARGS(view_first(value, 60)));
}

enum hf_status log_check_value(struct cli *cli, const char *option, struct view value)
{
    unsigned level;
    bool json;
    struct view path;
    enum hf_status status = HF_OK;
    if (strcmp(option, "verbose") == 0)
        status = read_verbosity(cli, value, &level);
    else if (strcmp(option, "log") == 0)
        status = read_log_form(cli, value, &json, &path);
    else if (strcmp(option, "color") == 0)
        status = read_color(cli, value);
    if (status != HF_OK)
        error_prefix(&cli->error, "--%s", option);
    return status;
}

enum hf_status log_color(struct cli *cli)
{
    const char *origin, *value = cli_chosen(cli, "color", "HOLDFAST_COLOR", &origin);
    const char *none = getenv("NO_COLOR");
    if (!value)
        return HF_OK;
    enum hf_status status = log_check_value(cli, "color", view_of(value));
    if (status != HF_OK || (!origin && none && none[0])) /* NO_COLOR comes before the file */
        return status;
    if (strcmp(value, "auto") != 0)
        cli->out.bold = strcmp(value, "always") == 0;
    return HF_OK;
}

/* -v, -vv, or a number from elsewhere. */
static enum hf_status choose_verbosity(struct cli *cli)
{
    const char *origin, *value = cli_chosen(cli, "verbose", "HOLDFAST_VERBOSE", &origin);
    const struct option_value *given = cli_option(cli, "verbose");
    for (const struct option_value *at = given; at; at = at->next)
        cli->log.level++;
    if (given || !value)
        return HF_OK;
    enum hf_status status = log_check_value(cli, "verbose", view_of(value));
    return status == HF_OK ? read_verbosity(cli, view_of(value), &cli->log.level) : status;
}

enum hf_status log_open(struct cli *cli)
{
    const char *origin, *value = cli_chosen(cli, "log", "HOLDFAST_LOG", &origin);
    struct view path = { NULL, 0 };
    cli->log = (struct cli_log){ .fd = STDERR_FILENO,
                                 .json = cli->json,
                                 .trace = cli_given(cli, "trace") };
    enum hf_status status = choose_verbosity(cli);
    if (status == HF_OK && value)
        status = log_check_value(cli, "log", view_of(value));
    if (status == HF_OK && value)
        status = read_log_form(cli, view_of(value), &cli->log.json, &path);
    cli->log.structured = value != NULL;
    if (value && !cli->log.trace && cli->log.level == 0) /* a log must have something in it */
        cli->log.level = 1;
    if (status != HF_OK || path.size == 0)
        return status;
    if (cli->command->run == run_serve)
        return cli_invalid(
            cli,
            "a server writes its log to stderr: set the log to %s, not '%.100s', "
            "and redirect stderr",
            cli->log.json ? "json" : "text", value);
    cli->log.fd = open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    cli->log.is_file = cli->log.fd >= 0;
    if (!cli->log.is_file) {
        cli->log.fd = STDERR_FILENO;
        return error_cannot_open(&cli->error, errno, path.data);
    }
    return HF_OK;
}

void log_close(struct cli *cli)
{
    if (cli->log.is_file)
        close(cli->log.fd);
    cli->log = (struct cli_log){ .fd = STDERR_FILENO };
}

bool log_wants_requests(const struct cli *cli)
{
    return cli->log.level > 0 || cli->log.trace;
}

bool log_wants_events(const struct cli *cli)
{
    return cli->log.level > 0;
}

/* ---- Lines --------------------------------------------------------------------------- */

static struct log_head log_head_now(const struct cli *cli, const char *event)
{
    return (struct log_head){ env_wall(cli->env).us / 1000, getpid(), event };
}

static void write_log_text(const struct cli *cli, const struct log_head *head,
                           const struct field *record, const void *value, const char *text)
{
    struct buffer line = BUFFER_INIT(LOG_LINE_MAX);
    char time[TIME_TEXT_MAX];
    if (cli->log.structured)
        buffer_print(&line, "%s holdfast[%" PRId64 "]: ",
                     time_text((struct wall_time){ head->at_ms * 1000 }, time), head->pid);
    else
        buffer_append(&line, VIEW("holdfast: "));
    record_append(&line, /* raw */ false, record, value, text);
    buffer_append_byte(&line, '\n');
    if (!line.failed)
        (void)!write(cli->log.fd, line.data, line.size);
    buffer_release(&line);
}

static void write_log_json(const struct cli *cli, json_t *object)
{
    struct output out;
    struct hf_error ignored;
    output_init(&out, cli->log.fd);
    output_json(&out, object);
    output_flush(&out, &ignored);
    output_release(&out);
}

/* Without --log, a request is shown as --trace has always shown it. */
void log_request(void *argument, const struct hf_store_request *request)
{
    struct cli *cli = argument;
    bool failed = request->status != HF_OK && request->status != HF_NOT_MODIFIED &&
                  request->status != HF_NOT_FOUND;
    atomic_fetch_add(&cli->requests, 1);
    if (!cli->log.trace && cli->log.level < (failed ? 1 : 2))
        return;
    struct logged_request logged = { log_head_now(cli, "request"), request };
    if (!cli->log.json)
        write_log_text(cli, &logged.head, request_record, request, REQUEST_TEXT);
    else if (cli->log.structured)
        write_log_json(cli, record_json(logged_request_record, &logged));
    else
        write_log_json(cli, record_json(request_record, request));
}

void log_event(void *argument, const struct hf_event *event)
{
    struct cli *cli = argument;
    if (event->kind == HF_EVENT_REQUEST) /* the store reports them to log_request */
        return;
    struct logged_event logged = { log_head_now(cli, hf_event_name(event->kind)), event };
    logged.head.at_ms = event->at_ms;
    if (cli->log.json)
        write_log_json(cli, record_json(logged_event_record, &logged));
    else
        write_log_text(cli, &logged.head, logged_event_record, &logged, LOGGED_EVENT_TEXT);
}

static void write_message(struct cli *cli, const struct logged_message *logged,
                          const char *text)
{
    if (cli->log.json)
        write_log_json(cli, record_json(logged_message_record, logged));
    else
        write_log_text(cli, &logged->head, logged_message_record, logged, text);
}

void log_message(struct cli *cli, const char *kind, enum hf_status status, struct view about,
                 struct view text)
{
    struct logged_message logged = { log_head_now(cli, kind),
                                     status == HF_OK ? NULL : hf_status_name(status), about,
                                     text };
    if (cli->log.is_file)
        write_message(cli, &logged, LOGGED_MESSAGE_TEXT);
}

/* ---- Waits --------------------------------------------------------------------------- */

#define BLOCKER_FIRST SPAN_MS(50)
#define BLOCKER_PAUSE SPAN_S(1) /* between two reads */

/* Reads of the store may take long, so they have a task and a handle of their own: neither the
 * grant nor a signal waits for them. */
struct wait_log {
    struct cli *cli;
    struct hf_lock *lock;
    struct env_task *task;
    struct env_mutex mutex; /* guards `over` */
    struct env_cond ended;
    bool over;
};

/* What is found after the wait could be the lease that it got. */
static bool log_blocker(struct wait_log *log)
{
    struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
    append_blocker(&text, log->lock);
    struct logged_message logged = { log_head_now(log->cli, "waiting"), NULL, VIEW(""),
                                     buffer_view(&text) };
    bool found = text.size > 0;
    env_mutex_lock(&log->mutex);
    if (found && !log->over)
        write_message(log->cli, &logged, LOGGED_WAITING_TEXT);
    env_mutex_unlock(&log->mutex);
    buffer_release(&text);
    return found;
}

static void find_blocker(void *argument)
{
    struct wait_log *log = argument;
    struct env *env = log->cli->env;
    struct span pause = BLOCKER_FIRST;
    for (bool found = false, over = false; !found && !over;) {
        struct mono_time next = mono_add(env_now(env), pause);
        env_mutex_lock(&log->mutex);
        while (!log->over && env_cond_wait_until(&log->ended, &log->mutex, next))
            ;
        over = log->over;
        env_mutex_unlock(&log->mutex);
        found = !over && log_blocker(log);
        pause = BLOCKER_PAUSE;
    }
}

/* A handle with the same scopes and mode; NULL if there is no memory. */
static struct hf_lock *copy_lock(struct cli *cli, struct hf_lock *lock)
{
    struct arena arena = ARENA_INIT;
    struct names scopes = { .arena = &arena };
    struct hf_lock_options options;
    struct hf_lock *copy = NULL;
    char scope[HF_SCOPE_TEXT_MAX];
    bool good = lock_options(cli, cli_has_option(cli, "mode"), &options) == HF_OK;
    while (good && hf_lock_scope(lock, scopes.count, scope, /* error */ NULL) == HF_OK)
        good = names_add(&scopes, view_of(scope));
    if (good)
        hf_lock_new_many(cli->client, scopes.names, scopes.count, &options, &copy,
                         /* error */ NULL);
    arena_release(&arena);
    return copy;
}

void log_wait_begin(struct cli *cli, struct hf_lock *lock)
{
    if (cli->wait_log || !lock || !log_wants_events(cli))
        return;
    struct wait_log *log = calloc(1, sizeof *log);
    if (!log)
        return;
    log->cli = cli;
    env_mutex_init(cli->env, &log->mutex);
    env_cond_init(cli->env, &log->ended);
    cli->wait_log = log;
    log->lock = copy_lock(cli, lock);
    if (log->lock)
        env_task_start(cli->env, find_blocker, log, &log->task, /* error */ NULL);
}

void log_wait_end(struct cli *cli)
{
    struct wait_log *log = cli->wait_log;
    if (!log)
        return;
    env_mutex_lock(&log->mutex);
    log->over = true;
    env_cond_signal(&log->ended);
    env_mutex_unlock(&log->mutex);
}

void log_wait_release(struct cli *cli)
{
    struct wait_log *log = cli->wait_log;
    if (!log)
        return;
    log_wait_end(cli);
    if (log->task)
        env_task_join(cli->env, log->task);
    hf_lock_free(log->lock);
    env_cond_release(&log->ended);
    env_mutex_release(&log->mutex);
    free(log);
    cli->wait_log = NULL;
}
