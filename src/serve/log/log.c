/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: the log of requests. It guards against a log that nobody reads: the buffer is bounded, and
 * only its thread waits. */
#include "serve/log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define LAST_WORDS SPAN_S(2)
#define POLL_MS    100

struct serve_log {
    struct env *env;
    int fd;
    bool json;
    enum log_requests which;
    struct env_task *task;
    struct buffer line, out; /* of the loop; of the thread */
    struct env_mutex mutex;  /* guards the members below */
    struct env_cond changed;
    struct buffer waiting;
    uint64_t dropped;
    bool stopping;
    struct mono_time stop_at;
};

/* ---- The thread ---------------------------------------------------------------------- */

static bool log_gives_up(struct serve_log *log)
{
    env_mutex_lock(&log->mutex);
    bool late = log->stopping && !mono_before(env_now(log->env), log->stop_at);
    env_mutex_unlock(&log->mutex);
    return late;
}

/* Writes as the reader reads. The descriptor may be shared, so its flags stay as they are: a pipe
 * that poll() calls writable takes PIPE_BUF bytes without a wait. */
static void write_patiently(struct serve_log *log, struct view text)
{
    while (text.size > 0 && !log_gives_up(log)) {
        struct pollfd one = { .fd = log->fd, .events = POLLOUT };
        if (poll(&one, 1, POLL_MS) == 0 || !(one.revents & POLLOUT))
            if (!(one.revents & (POLLERR | POLLNVAL | POLLHUP)))
                continue;
        ssize_t written = write(log->fd, text.data, text.size < 4096 ? text.size : 4096);
        if (written < 0 && errno != EINTR && errno != EAGAIN)
            return; /* nobody will ever read it */
        if (written > 0)
            text = view_from(text, (size_t)written);
    }
}

/* Tells how many lines are missing. There is room for it. */
static void tell_dropped(struct serve_log *log)
{
    if (log->dropped == 0)
        return;
    buffer_print(&log->waiting,
                 log->json ? "{\"message\":\"lines dropped\",\"count\":%" PRIu64 "}\n"
                           : "holdfast serve: %" PRIu64 " lines of the log were dropped\n",
                 log->dropped);
    if (!log->waiting.failed) /* else out of memory: the next time */
        log->dropped = 0;
    log->waiting.failed = false;
}

static void write_log(void *argument)
{
    struct serve_log *log = argument;
    env_mutex_lock(&log->mutex);
    while (log->waiting.size > 0 || !log->stopping) {
        if (log->waiting.size == 0) {
            env_cond_wait(&log->changed, &log->mutex);
            continue;
        }
        struct buffer full = log->waiting;
        log->waiting = log->out;
        log->out = full;
        tell_dropped(log);
        env_mutex_unlock(&log->mutex);
        write_patiently(log, buffer_view(&log->out));
        buffer_clear(&log->out);
        env_mutex_lock(&log->mutex);
    }
    env_mutex_unlock(&log->mutex);
}

/* ---- The loop ------------------------------------------------------------------------ */

enum hf_status serve_log_new(struct env *env, int fd, bool json, enum log_requests which,
                             struct serve_log **ret_log, struct hf_error *error)
{
    struct serve_log *log = calloc(1, sizeof *log);
    *ret_log = NULL;
    if (!log)
        return error_no_memory(error);
    log->env = env;
    log->fd = fd;
    log->json = json;
    log->which = which;
    log->line = BUFFER_INIT(LOG_BUFFER_MAX);
    log->waiting = log->out = BUFFER_INIT(LOG_BUFFER_MAX);
    env_mutex_init(env, &log->mutex);
    env_cond_init(env, &log->changed);
    enum hf_status status = HF_OK;
    if (which != LOG_NO_REQUESTS)
        status = env_task_start(env, write_log, log, &log->task, error);
    if (status != HF_OK) {
        serve_log_free(log);
        return status;
    }
    *ret_log = log;
    return error_clear(error);
}

void serve_log_free(struct serve_log *log)
{
    if (!log)
        return;
    env_mutex_lock(&log->mutex);
    log->stopping = true;
    log->stop_at = mono_add(env_now(log->env), LAST_WORDS);
    env_cond_signal(&log->changed);
    env_mutex_unlock(&log->mutex);
    if (log->task)
        env_task_join(log->env, log->task);
    buffer_release(&log->line);
    buffer_release(&log->waiting);
    buffer_release(&log->out);
    env_cond_release(&log->changed);
    env_mutex_release(&log->mutex);
    free(log);
}

bool serve_log_wants(const struct serve_log *log, int status)
{
    return log->which == LOG_ALL_REQUESTS ||
           (log->which == LOG_FAILED_REQUESTS && status >= 400);
}

void serve_log_request(struct serve_log *log, const struct log_entry *entry)
{
    struct buffer *line = &log->line;
    buffer_clear(line);
    if (log->json)
        log_entry_json(entry, /* audits */ false, line);
    else
        log_entry_text(entry, line);
    env_mutex_lock(&log->mutex);
    if (log->waiting.size == 0)
        tell_dropped(log);
    if (line->failed || log->dropped > 0 || !buffer_append(&log->waiting, buffer_view(line))) {
        log->waiting.failed = false;
        log->dropped++;
    }
    env_cond_signal(&log->changed);
    env_mutex_unlock(&log->mutex);
}
