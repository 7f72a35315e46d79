/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c: the audit log: who did what, when, and with which result. One line of JSON each.
 *
 * The loop writes the lines, and never waits for the disk. A task of its own syncs the file, at
 * most once per second, so that a power failure loses the lines of the last second or two. */
#include "serve/log/log.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A namespace, scope, owner and reason, a client and its address, of which JSON may write each byte
 * as six (\u0001); and what the server itself chooses. */
#define AUDIT_LINE_MAX (6 * (4 * LOG_TEXT_MAX + LOG_WHO_MAX + LOG_PEER_MAX) + 1024)
#define SYNC_EACH      SPAN_S(1)

struct audit {
    struct env *env;
    struct env_task *task;
    struct buffer line;     /* of the loop */
    struct env_mutex mutex; /* guards the members below */
    struct env_cond changed;
    int fd;
    int replaced; /* the file before, if it has lines to sync; -1: none */
    uint64_t written, synced, failures;
    bool stopping;
    char path[];
};

/* ---- Syncing --------------------------------------------------------------------------- */

/* Syncs a file, and closes it. A pipe or a device cannot be synced, which is no failure. */
static bool sync_and_close(int fd)
{
    bool done = fd >= 0 && (fdatasync(fd) == 0 || errno == EINVAL || errno == EROFS);
    if (fd >= 0)
        close(fd);
    return done;
}

/* Syncs what was written so far. The file may be replaced meanwhile, so the task has a descriptor
 * of its own. Called with the mutex held. */
static void sync_audit_locked(struct audit *audit)
{
    uint64_t written = audit->written;
    int fd = fcntl(audit->fd, F_DUPFD_CLOEXEC, 0), replaced = audit->replaced;
    audit->replaced = -1;
    env_mutex_unlock(&audit->mutex);
    bool done = replaced < 0 || sync_and_close(replaced);
    done = sync_and_close(fd) && done;
    env_mutex_lock(&audit->mutex);
    audit->synced = written;
    audit->failures += !done;
}

static void sync_audit(void *argument)
{
    struct audit *audit = argument;
    env_mutex_lock(&audit->mutex);
    while (!audit->stopping || audit->synced < audit->written) {
        if (audit->synced == audit->written) {
            env_cond_wait(&audit->changed, &audit->mutex);
            continue;
        }
        struct mono_time next = mono_add(env_now(audit->env), SYNC_EACH);
        sync_audit_locked(audit);
        while (!audit->stopping && env_cond_wait_until(&audit->changed, &audit->mutex, next))
            continue;
    }
    env_mutex_unlock(&audit->mutex);
}

/* ---- The file -------------------------------------------------------------------------- */

static enum hf_status open_audit_file(const char *path, int *ret_fd, struct hf_error *error)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return error_cannot_open(error, errno, path);
    *ret_fd = fd;
    return HF_OK;
}

static void free_audit(struct audit *audit)
{
    env_cond_release(&audit->changed);
    env_mutex_release(&audit->mutex);
    close(audit->fd);
    buffer_release(&audit->line);
    free(audit);
}

enum hf_status audit_open(struct env *env, const char *path, struct audit **ret_audit,
                          struct hf_error *error)
{
    struct audit *audit = calloc(1, sizeof *audit + strlen(path) + 1);
    *ret_audit = NULL;
    if (!audit)
        return error_no_memory(error);
    memcpy(audit->path, path, strlen(path));
    audit->env = env;
    audit->line = BUFFER_INIT(AUDIT_LINE_MAX);
    audit->replaced = -1;
    enum hf_status status = buffer_reserve(&audit->line, AUDIT_LINE_MAX)
                                ? open_audit_file(path, &audit->fd, error)
                                : error_no_memory(error);
    if (status != HF_OK) {
        buffer_release(&audit->line);
        free(audit);
        return status;
    }
    env_mutex_init(env, &audit->mutex);
    env_cond_init(env, &audit->changed);
    status = env_task_start(env, sync_audit, audit, &audit->task, error);
    if (status != HF_OK) {
        free_audit(audit);
        return status;
    }
    *ret_audit = audit;
    return error_clear(error);
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    env_mutex_lock(&audit->mutex);
    audit->stopping = true;
    env_cond_signal(&audit->changed);
    env_mutex_unlock(&audit->mutex);
    env_task_join(audit->env, audit->task);
    free_audit(audit);
}

/* The task syncs the lines in the old file, and closes it. If it has not come to that since the
 * last time, which takes a second at most, the system writes them later. */
enum hf_status audit_reopen(struct audit *audit, struct hf_error *error)
{
    int fd = -1;
    enum hf_status status = open_audit_file(audit->path, &fd, error);
    if (status != HF_OK)
        return status;
    env_mutex_lock(&audit->mutex);
    int old = audit->fd;
    audit->fd = fd;
    if (audit->synced < audit->written) {
        int before = audit->replaced;
        audit->replaced = old;
        old = before;
    }
    env_mutex_unlock(&audit->mutex);
    if (old >= 0)
        close(old);
    return HF_OK;
}

void audit_write(struct audit *audit, const struct log_entry *entry)
{
    struct buffer *line = &audit->line;
    ssize_t written;
    buffer_clear(line);
    log_entry_json(entry, /* audits */ true, line);
    check(!line->failed); /* it has room for any entry */
    do
        written = write(audit->fd, line->data, line->size);
    while (written < 0 && errno == EINTR);
    env_mutex_lock(&audit->mutex);
    if (written < 0 || (size_t)written != line->size)
        audit->failures++;
    else if (audit->written++ == audit->synced)
        env_cond_signal(&audit->changed);
    env_mutex_unlock(&audit->mutex);
}

uint64_t audit_failures(struct audit *audit)
{
    env_mutex_lock(&audit->mutex);
    uint64_t failures = audit->failures;
    env_mutex_unlock(&audit->mutex);
    return failures;
}

uint64_t audit_synced(struct audit *audit)
{
    env_mutex_lock(&audit->mutex);
    uint64_t synced = audit->synced;
    env_mutex_unlock(&audit->mutex);
    return synced;
}
