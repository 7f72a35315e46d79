/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: reads the token file, and decides what a request may do. */
#include "serve/guard/guard.h"

#include "base/hash.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_FILE_MAX  (1024 * 1024)
#define TOKEN_BYTES_MIN 16 /* a shorter token could be guessed */
#define TOKEN_NAME_MAX  64
#define NAMESPACES_MAX  32
#define NAMESPACE_MAX   128
#define HOST_MAX        255

struct token {
    char name[TOKEN_NAME_MAX + 1];
    unsigned char hash[SHA256_BYTES];
    unsigned rights;
    size_t namespace_count;
    char namespaces[NAMESPACES_MAX][NAMESPACE_MAX + 1]; /* may end with an asterisk */
};

struct guard {
    bool has_tokens;
    size_t token_count, host_count;
    struct token *tokens;
    char hosts[GUARD_HOSTS_MAX][HOST_MAX + 1];
};

/* ---- The token file ------------------------------------------------------------------ */

/* Takes the next word of a line. Empty: there is none. */
static struct view cut_word(struct view *line)
{
    size_t start = 0, end;
    while (start < line->size && (line->data[start] == ' ' || line->data[start] == '\t'))
        start++;
    for (end = start; end < line->size && line->data[end] != ' ' && line->data[end] != '\t';)
        end++;
    struct view word = { line->data + start, end - start };
    *line = view_from(*line, end);
    return word;
}

static enum hf_status read_rights(struct view words, unsigned *ret_rights,
                                  struct hf_error *error)
{
    static const struct {
        const char *name;
        enum right right;
    } names[] = { { "read", RIGHT_READ },
                  { "lock", RIGHT_LOCK },
                  { "write", RIGHT_WRITE },
                  { "admin", RIGHT_ADMIN } };
    *ret_rights = 0;
    while (words.size > 0) {
        struct view word = view_cut(&words, ',');
        unsigned right = 0;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (view_equal(word, view_of(names[i].name)))
                right = names[i].right;
        if (right == 0)
            return error_set(
                error, HF_INVALID,
                "'%.*s' is not a right; the rights are read, lock, write and admin",
                VIEW_ARGS(view_first(word, 40)));
        *ret_rights |= right;
    }
    return *ret_rights ? HF_OK : error_set(error, HF_INVALID, "the rights are missing");
}

static enum hf_status read_namespaces(struct view words, struct token *token,
                                      struct hf_error *error)
{
    while (words.size > 0) {
        struct view word = view_cut(&words, ',');
        if (word.size == 0 || word.size > NAMESPACE_MAX)
            return error_set(error, HF_INVALID, "a namespace has 1 to %d bytes", NAMESPACE_MAX);
        if (token->namespace_count == NAMESPACES_MAX)
            return error_set(error, HF_INVALID, "more than %d namespaces", NAMESPACES_MAX);
        memcpy(token->namespaces[token->namespace_count++], word.data, word.size);
    }
    return token->namespace_count > 0
               ? HF_OK
               : error_set(error, HF_INVALID, "the namespaces are missing; * stands for all");
}

static enum hf_status read_token(struct view line, struct token *token, struct hf_error *error)
{
    struct view name = cut_word(&line), hash = cut_word(&line);
    struct view rights = cut_word(&line), namespaces = cut_word(&line);
    if (name.size > TOKEN_NAME_MAX)
        return error_set(error, HF_INVALID, "a name has at most %d bytes", TOKEN_NAME_MAX);
    if (!text_is_hex(hash, (size_t)2 * SHA256_BYTES))
        return error_set(
            error, HF_INVALID,
            "the second word must be the SHA-256 of the token, %d hexadecimal digits",
            2 * SHA256_BYTES);
    if (cut_word(&line).size > 0)
        return error_set(error, HF_INVALID, "there is a fifth word; use commas without spaces");
    memcpy(token->name, name.data, name.size);
    for (size_t i = 0; i < SHA256_BYTES; i++)
        token->hash[i] =
            (unsigned char)(hex_digit(hash.data[2 * i]) << 4 | hex_digit(hash.data[2 * i + 1]));
    enum hf_status status = read_rights(rights, &token->rights, error);
    return status == HF_OK ? read_namespaces(namespaces, token, error) : status;
}

static enum hf_status read_tokens(struct guard *guard, struct view text, struct hf_error *error)
{
    guard->tokens = calloc(GUARD_TOKENS_MAX, sizeof *guard->tokens);
    if (!guard->tokens)
        return error_no_memory(error);
    for (size_t number = 1; text.size > 0; number++) {
        struct view line = view_cut(&text, '\n'), rest = line;
        struct view first = cut_word(&rest);
        if (first.size == 0 || first.data[0] == '#')
            continue;
        enum hf_status status =
            guard->token_count < GUARD_TOKENS_MAX
                ? read_token(line, &guard->tokens[guard->token_count++], error)
                : error_set(error, HF_INVALID, "more than %d tokens", GUARD_TOKENS_MAX);
        if (status != HF_OK) {
            error_prefix(error, "line %zu: ", number);
            return status;
        }
    }
    return HF_OK;
}

/* Reads a file whole. Others than its owner must not be able to write to it. */
static enum hf_status read_file(const char *path, char **ret_text, size_t *ret_size,
                                struct hf_error *error)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return error_cannot_open(error, errno, path);
    enum hf_status status = HF_OK;
    char *text = NULL;
    ssize_t size = 0;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > TOKEN_FILE_MAX)
        status = error_set(error, HF_INVALID, "not a file of at most 1 MiB");
    else if (st.st_mode & 0022)
        status = error_set(error, HF_DENIED, "others may write to it: run chmod go-w");
    else if (!(text = malloc((size_t)st.st_size + 1)))
        status = error_no_memory(error);
    else if ((size = read(fd, text, (size_t)st.st_size)) < 0)
        status = error_from_errno(error, errno, "read");
    close(fd);
    if (status != HF_OK) {
        free(text);
        error_about(error, path);
        return status;
    }
    *ret_text = text;
    *ret_size = (size_t)size;
    return HF_OK;
}

static enum hf_status load_tokens(struct guard *guard, const char *path, struct hf_error *error)
{
    char *text = NULL;
    size_t size = 0;
    enum hf_status status = read_file(path, &text, &size, error);
    if (status != HF_OK)
        return status;
    guard->has_tokens = true;
    status = read_tokens(guard, (struct view){ text, size }, error);
    if (status != HF_OK)
        error_about(error, path);
    free(text);
    return status;
}

/* ---- Loading ------------------------------------------------------------------------- */

enum hf_status guard_load(const char *token_file, const char *const *hosts,
                          struct guard **ret_guard, struct hf_error *error)
{
    struct guard *guard = calloc(1, sizeof *guard);
    *ret_guard = NULL;
    if (!guard)
        return error_no_memory(error);
    enum hf_status status = token_file ? load_tokens(guard, token_file, error) : HF_OK;
    for (size_t i = 0; status == HF_OK && hosts && hosts[i]; i++) {
        if (guard->host_count == GUARD_HOSTS_MAX || strlen(hosts[i]) > HOST_MAX)
            status = error_set(error, HF_INVALID,
                               "there are more than %d hosts, or a name is too long",
                               GUARD_HOSTS_MAX);
        else
            memcpy(guard->hosts[guard->host_count++], hosts[i], strlen(hosts[i]));
    }
    if (status != HF_OK) {
        guard_free(guard);
        return status;
    }
    *ret_guard = guard;
    return error_clear(error);
}

void guard_free(struct guard *guard)
{
    if (guard)
        free(guard->tokens);
    free(guard);
}

bool guard_has_tokens(const struct guard *guard)
{
    return guard->has_tokens;
}

/* ---- Hosts --------------------------------------------------------------------------- */

/* The host without its port. */
static struct view without_port(struct view host)
{
    size_t end = host.size;
    while (end > 0 && host.data[end - 1] >= '0' && host.data[end - 1] <= '9')
        end--;
    return end > 0 && host.data[end - 1] == ':' ? view_first(host, end - 1) : host;
}

/* An address in numbers: "127.0.0.1" or "[::1]". */
static bool is_numeric(struct view name)
{
    size_t digits = 0;
    while (digits < name.size &&
           (name.data[digits] == '.' || (name.data[digits] >= '0' && name.data[digits] <= '9')))
        digits++;
    return name.size > 0 && (name.data[0] == '[' || digits == name.size);
}

static bool is_same_name(struct view a, const char *b)
{
    return a.size == strlen(b) && strncasecmp(a.data, b, a.size) == 0;
}

/* The owner of a web page can point a name to this machine, but not an address in numbers. */
static bool is_our_host(const struct guard *guard, struct view host)
{
    struct view name = without_port(host);
    bool ours = is_numeric(name) || is_same_name(name, "localhost");
    for (size_t i = 0; i < guard->host_count; i++)
        ours = ours || is_same_name(name, guard->hosts[i]);
    return ours;
}

static bool has_our_host(const struct guard *guard, const struct http_request *request)
{
    struct http_peer peer;
    struct view origin, host = http_request_host(request);
    http_request_peer(request, &peer);
    if (!peer.is_unix && host.size > 0 && !is_our_host(guard, host))
        return false;
    if (http_request_header(request, VIEW("Origin"), &origin) == 0)
        return true;
    struct view scheme = peer.is_tls ? VIEW("https://") : VIEW("http://");
    return view_starts_with(origin, scheme) && view_equal(view_from(origin, scheme.size), host);
}

/* ---- Tokens -------------------------------------------------------------------------- */

/* All tokens are compared, so that the time does not tell which one is nearly right. */
static const struct token *find_token(const struct guard *guard,
                                      const struct http_request *request)
{
    struct view header, prefix = VIEW("Bearer ");
    unsigned char hash[SHA256_BYTES];
    const struct token *found = NULL;
    if (http_request_header(request, VIEW("Authorization"), &header) != 1 ||
        header.size < prefix.size + TOKEN_BYTES_MIN ||
        strncasecmp(header.data, prefix.data, prefix.size) != 0)
        return NULL;
    hash_sha256(view_from(header, prefix.size), hash);
    for (size_t i = 0; i < guard->token_count; i++)
        if (hash_is_same_secret(hash, guard->tokens[i].hash, SHA256_BYTES))
            found = &guard->tokens[i];
    return found;
}

static bool covers_namespace(const struct token *token, const char *ns)
{
    for (size_t i = 0; i < token->namespace_count; i++) {
        struct view pattern = view_of(token->namespaces[i]);
        if (view_equal(pattern, view_of(ns)) ||
            (view_ends_with(pattern, VIEW("*")) &&
             view_starts_with(view_of(ns), view_first(pattern, pattern.size - 1))))
            return true;
    }
    return false;
}

enum guard_verdict guard_check(const struct guard *guard, const struct http_request *request,
                               unsigned right, const char *ns, const char **ret_name)
{
    *ret_name = NULL;
    if (!has_our_host(guard, request))
        return GUARD_WRONG_HOST;
    if (!guard->has_tokens || right == 0)
        return GUARD_PASSES;
    const struct token *token = find_token(guard, request);
    if (!token)
        return GUARD_NO_TOKEN;
    *ret_name = token->name;
    bool may = (token->rights & right) == right && (!ns || covers_namespace(token, ns));
    return may ? GUARD_PASSES : GUARD_NO_RIGHT;
}
