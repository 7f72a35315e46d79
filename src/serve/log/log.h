/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: what the server writes about requests: a line for each in its log, if that is wanted,
 * and a line for each change in its audit log.
 *
 * NO SECRETS. The entry below is all that is ever written. It has no member for a token, a lease
 * id, a request id, the id of a transaction, a body, a path or a query. Names that clients choose
 * are written as JSON strings, so that none of them can begin a line of its own.
 *
 * THE LOG goes to a descriptor that may be a pipe whose reader is slow. So a thread writes it,
 * from a bounded buffer. Lines that do not fit are dropped, and the next line tells how many. The
 * loop never waits for it.
 *
 * THE AUDIT LOG is a file. Each line is one write at its end, made before the reply is sent, so
 * what a client was told is in the file (but not yet on the disk). A line that cannot be written
 * is counted, and the request is answered all the same. */
#ifndef SERVE_LOG_LOG_H
#define SERVE_LOG_LOG_H

#include "base/buffer.h"
#include "base/error.h"
#include "env/env.h"
#include "serve/log/trace.h"

/* Bytes of what clients choose: of one text, and of the name of a client. The audit log has room
 * for a line with all of them, so that nobody can choose texts that keep a request out of it. */
#define LOG_TEXT_MAX 1032 /* a scope with its kind */
#define LOG_WHO_MAX  4096
#define LOG_PEER_MAX 128

struct log_entry {
    struct wall_time at;
    struct span took;
    const char *method;
    const char *route; /* its name in the metrics */
    int status;        /* 0: the client hung up */
    const char *word;  /* why it was refused, or NULL */
    const char *ns;    /* NULL: not known to exist */
    const char *who;   /* the name of its token, its certificate or its user; "": anybody */
    const char *peer;
    struct trace_context trace;
    /* The audit log only. */
    const char *scope, *owner, *reason; /* NULL: none */
    uint64_t token;                     /* 0: none */
};

enum log_requests { LOG_NO_REQUESTS, LOG_FAILED_REQUESTS, LOG_ALL_REQUESTS };

struct serve_log;

#define LOG_BUFFER_MAX ((size_t)256 * 1024)

/* Logs requests to `fd`, which stays the caller's; with LOG_NO_REQUESTS, nothing. */
enum hf_status serve_log_new(struct env *env, int fd, bool json, enum log_requests which,
                             struct serve_log **ret_log, struct hf_error *error);

/* Writes what is left, for at most two seconds. Does nothing if `log` is NULL. */
void serve_log_free(struct serve_log *log);

/* Whether a request with this status is logged. */
bool serve_log_wants(const struct serve_log *log, int status);
void serve_log_request(struct serve_log *log, const struct log_entry *entry);

/* ---- The audit log --------------------------------------------------------------------- */

struct audit;

/* Opens the file, and creates it if necessary, readable by its owner only. A task of its own syncs
 * the lines to the disk, within about a second, and audit_close waits for that. */
enum hf_status audit_open(struct env *env, const char *path, struct audit **ret_audit,
                          struct hf_error *error);
void audit_close(struct audit *audit);

/* After the file was renamed. On failure, the old one stays in use. */
enum hf_status audit_reopen(struct audit *audit, struct hf_error *error);

void audit_write(struct audit *audit, const struct log_entry *entry);

/* Lines that could not be written, and syncs that failed. */
uint64_t audit_failures(struct audit *audit);

/* How many lines were synced. */
uint64_t audit_synced(struct audit *audit);

/* ---- Texts, for tests ------------------------------------------------------------------ */

void log_entry_json(const struct log_entry *entry, bool audits, struct buffer *line);
void log_entry_text(const struct log_entry *entry, struct buffer *line);

#endif
