/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c: the audit log: who did what, when, and with which result. One line of JSON each. */
#include "serve/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AUDIT_LINE_MAX (16 * 1024)

struct audit {
    int fd;
    uint64_t failures;
    struct buffer line;
    char path[];
};

static enum hf_status open_audit_file(const char *path, int *ret_fd, struct hf_error *error)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return error_cannot_open(error, errno, path);
    *ret_fd = fd;
    return HF_OK;
}

enum hf_status audit_open(const char *path, struct audit **ret_audit, struct hf_error *error)
{
    struct audit *audit = calloc(1, sizeof *audit + strlen(path) + 1);
    *ret_audit = NULL;
    if (!audit)
        return error_no_memory(error);
    memcpy(audit->path, path, strlen(path));
    audit->line = BUFFER_INIT(AUDIT_LINE_MAX);
    enum hf_status status = open_audit_file(path, &audit->fd, error);
    if (status != HF_OK) {
        free(audit);
        return status;
    }
    *ret_audit = audit;
    return error_clear(error);
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    close(audit->fd);
    buffer_release(&audit->line);
    free(audit);
}

enum hf_status audit_reopen(struct audit *audit, struct hf_error *error)
{
    int fd = -1;
    enum hf_status status = open_audit_file(audit->path, &fd, error);
    if (status != HF_OK)
        return status;
    close(audit->fd);
    audit->fd = fd;
    return HF_OK;
}

void audit_write(struct audit *audit, const struct log_entry *entry)
{
    struct buffer *line = &audit->line;
    ssize_t written = -1;
    buffer_clear(line);
    log_entry_json(entry, /* audits */ true, line);
    if (!line->failed)
        do
            written = write(audit->fd, line->data, line->size);
        while (written < 0 && errno == EINTR);
    audit->failures += written < 0 || (size_t)written != line->size;
}

uint64_t audit_failures(const struct audit *audit)
{
    return audit->failures;
}
