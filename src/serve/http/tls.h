/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h: TLS 1.2 and 1.3 by OpenSSL, on a socket that does not block.
 *
 * A context is made from files and never changes; reloading makes another. A connection
 * keeps the context that it began with. Sessions are not resumed, so a client certificate is
 * checked for every connection, and nothing of a connection outlives it. There is no
 * renegotiation and no compression. Of the protocols that a client offers (ALPN), "http/1.1"
 * is chosen. */
#ifndef SERVE_HTTP_TLS_H
#define SERVE_HTTP_TLS_H

#include "serve/http/server.h"

#include <sys/types.h>

struct tls_context;
struct tls;

/* DENIED, with the file and OpenSSL's reason. */
enum hf_status tls_context_new(const struct http_tls_files *files,
                               struct tls_context **ret_context, struct hf_error *error);
void tls_context_free(struct tls_context *context);

/* NULL if memory runs out. */
struct tls *tls_new(struct tls_context *context, int fd);
void tls_free(struct tls *tls);

/* The results of the calls below, besides a number of bytes; 0 bytes read is the end. */
#define TLS_BLOCKED ((ssize_t)-1)
#define TLS_FAILED  ((ssize_t)-2)

/* 1 when the handshake is complete. */
ssize_t tls_handshake(struct tls *tls);
/* Reads what is left of a record, at most 16 KiB: with that much room nothing stays behind
 * in OpenSSL, and the socket tells when there is more. */
#define TLS_RECORD_MAX (16 * 1024)
ssize_t tls_read(struct tls *tls, char *bytes, size_t size);
ssize_t tls_write(struct tls *tls, const char *bytes, size_t size);
/* Tells the client that nothing more will follow. */
void tls_end(struct tls *tls);

/* Whether the call that was blocked last waits for the socket to become writable. */
bool tls_wants_write(const struct tls *tls);

/* The subject of the client's verified certificate, or empty. */
struct view tls_subject(const struct tls *tls);

#endif
