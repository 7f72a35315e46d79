/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c: the only file that calls OpenSSL. OpenSSL reads and writes the socket itself:
 * nothing is copied through a buffer in between, and a connection that waits holds no
 * record. */
#include "serve/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

struct tls_context {
    SSL_CTX *ssl;
};

struct tls {
    SSL *ssl;
    char *subject; /* NULL: none */
    bool wants_write;
};

#define SUBJECT_BYTES_MAX 4096

/* ---- Contexts ---------------------------------------------------------------------------- */

static enum hf_status tls_refuse_file(struct hf_error *error, const char *what,
                                      const char *file)
{
    char reason[160] = "unknown error";
    unsigned long code = ERR_peek_last_error();
    if (code)
        ERR_error_string_n(code, reason, sizeof reason);
    ERR_clear_error();
    return error_set(error, HF_DENIED, "cannot use %s '%s': %s", what, file, reason);
}

/* Without this OpenSSL would ask for a pass phrase on the terminal. */
static int tls_no_pass_phrase(char *text, int size, int writing, void *argument)
{
    (void)text;
    (void)size;
    (void)writing;
    (void)argument;
    return 0;
}

/* A client that offers protocols, but not ours, speaks something else: HTTP/2 for example. */
static int tls_choose_protocol(SSL *ssl, const unsigned char **ret_name,
                               unsigned char *ret_size, const unsigned char *offered,
                               unsigned offered_size, void *argument)
{
    static const unsigned char ours[] = "\x08http/1.1";
    (void)ssl;
    (void)argument;
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, ret_size, ours, sizeof ours - 1, offered,
                              offered_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret_name = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void tls_configure(SSL_CTX *ssl)
{
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ssl, 0);
    SSL_CTX_set_default_passwd_cb(ssl, tls_no_pass_phrase);
    SSL_CTX_set_alpn_select_cb(ssl, tls_choose_protocol, NULL);
}

static enum hf_status tls_load(SSL_CTX *ssl, const struct http_tls_files *files,
                               struct hf_error *error)
{
    if (SSL_CTX_use_certificate_chain_file(ssl, files->certificate) != 1)
        return tls_refuse_file(error, "the certificate", files->certificate);
    if (SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1)
        return tls_refuse_file(error, "the private key", files->key);
    if (SSL_CTX_check_private_key(ssl) != 1)
        return tls_refuse_file(error, "with this certificate the private key", files->key);
    if (!files->client_ca)
        return HF_OK;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->client_ca);
    if (!names || SSL_CTX_load_verify_locations(ssl, files->client_ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return tls_refuse_file(error, "the authority of clients", files->client_ca);
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl,
                       SSL_VERIFY_PEER |
                           (files->client_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT),
                       NULL);
    return HF_OK;
}

enum hf_status tls_context_new(const struct http_tls_files *files,
                               struct tls_context **ret_context, struct hf_error *error)
{
    ERR_clear_error();
    struct tls_context *context = malloc(sizeof *context);
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    if (!context || !ssl) {
        free(context);
        SSL_CTX_free(ssl);
        return error_no_memory(error);
    }
    tls_configure(ssl);
    context->ssl = ssl;
    enum hf_status status = tls_load(ssl, files, error);
    if (status != HF_OK) {
        tls_context_free(context);
        return status;
    }
    *ret_context = context;
    return HF_OK;
}

void tls_context_free(struct tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    free(context);
}

/* ---- Connections ------------------------------------------------------------------------- */

struct tls *tls_new(struct tls_context *context, int fd)
{
    struct tls *tls = calloc(1, sizeof *tls);
    SSL *ssl = tls ? SSL_new(context->ssl) : NULL;
    if (!ssl || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        free(tls);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_accept_state(ssl);
    tls->ssl = ssl;
    return tls;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    free(tls->subject);
    free(tls);
}

bool tls_wants_write(const struct tls *tls)
{
    return tls->wants_write;
}

/* What a call that did not succeed means. */
static ssize_t tls_outcome(struct tls *tls, int result)
{
    int reason = SSL_get_error(tls->ssl, result);
    ERR_clear_error();
    tls->wants_write = reason == SSL_ERROR_WANT_WRITE;
    switch (reason) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return TLS_BLOCKED;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: return TLS_FAILED;
    }
}

/* The subject as RFC 2253 writes it, which escapes what could be taken for something else. */
static bool tls_keep_subject(struct tls *tls)
{
    X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
    if (!certificate || SSL_get_verify_result(tls->ssl) != X509_V_OK)
        return true;
    BIO *text = BIO_new(BIO_s_mem());
    char *data = NULL;
    long size = -1;
    if (text &&
        X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0)
        size = BIO_get_mem_data(text, &data);
    if (size >= 0 && size <= SUBJECT_BYTES_MAX)
        tls->subject = strndup(data ? data : "", (size_t)size);
    BIO_free(text);
    return tls->subject != NULL;
}

ssize_t tls_handshake(struct tls *tls)
{
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result == 1) {
        tls->wants_write = false;
        return tls_keep_subject(tls) ? 1 : TLS_FAILED;
    }
    ssize_t outcome = tls_outcome(tls, result);
    return outcome == TLS_BLOCKED ? TLS_BLOCKED : TLS_FAILED;
}

ssize_t tls_read(struct tls *tls, char *bytes, size_t size)
{
    size_t count = 0;
    ERR_clear_error();
    int result = SSL_read_ex(tls->ssl, bytes, size, &count);
    if (result != 1)
        return tls_outcome(tls, result);
    tls->wants_write = false;
    return (ssize_t)count;
}

ssize_t tls_write(struct tls *tls, const char *bytes, size_t size)
{
    size_t count = 0;
    ERR_clear_error();
    int result = SSL_write_ex(tls->ssl, bytes, size, &count);
    if (result == 1) {
        tls->wants_write = false;
        return (ssize_t)count;
    }
    ssize_t outcome = tls_outcome(tls, result);
    return outcome == TLS_BLOCKED ? TLS_BLOCKED : TLS_FAILED;
}

void tls_end(struct tls *tls)
{
    ERR_clear_error();
    SSL_shutdown(tls->ssl);
    ERR_clear_error();
}

struct view tls_subject(const struct tls *tls)
{
    return tls->subject ? view_of(tls->subject) : VIEW("");
}
