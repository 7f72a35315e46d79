/* SPDX-License-Identifier: Apache-2.0 */
/* sso_token.c: the token of a login with IAM Identity Center, as `aws sso login` leaves it in a
 * cache. A token that ends soon is refreshed, if the login allows it, and the new one is written
 * back, so that the other programs of this user find it. */
#include "base/json.h"
#include "base/parse.h"
#include "file/bytes.h"
#include "file/new_file.h"
#include "store/remote/remote.h"
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define CACHE_BYTES_MAX (64 * KIB)
#define SAVED_BYTES_MAX (2 * CACHE_BYTES_MAX)

/* A token is refreshed this long before it ends. */
#define REFRESH_TOKEN_BEFORE SPAN_S(300)

struct login {
    char path[4096];
    struct buffer text; /* of the file */
    struct buffer token, expires, refresh, client_id, client_secret;
    uint64_t seconds; /* in an answer: how long its token lasts */
};

/* All room is reserved at once: growing a buffer would leave copies of secrets in memory. */
static bool init_login(struct login *login)
{
    struct buffer *all[] = { &login->text,    &login->token,     &login->expires,
                             &login->refresh, &login->client_id, &login->client_secret };
    bool good = true;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i] = BUFFER_INIT(CACHE_BYTES_MAX);
        good = good && buffer_reserve(all[i], i == 0 ? CACHE_BYTES_MAX / 2 : S3_TOKEN_MAX - 1);
    }
    return good;
}

static void release_login(struct login *login)
{
    struct buffer *all[] = { &login->text,    &login->token,     &login->expires,
                             &login->refresh, &login->client_id, &login->client_secret };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        secret_buffer_release(all[i]);
}

/* ---- The cache ----------------------------------------------------------------------- */

/* The file is named after the session, or after the URL of an older login. */
static enum hf_status find_cache(const struct s3_sso *sso, struct login *login,
                                 struct hf_error *error)
{
    unsigned char digest[SHA1_SIZE];
    char name[2 * SHA1_SIZE + 1];
    const char *home = remote_variable("HOME", NULL);
    if (!home)
        return error_set(error, HF_INVALID, "HOME is not set");
    if (!sha1(sso->session.size > 0 ? sso->session : sso->start_url, digest))
        return error_set(error, HF_UNSUPPORTED, "this system does not allow SHA-1");
    hex_encode(digest, sizeof digest, name);
    snprintf(login->path, sizeof login->path, "%s/.aws/sso/cache/%s.json", home, name);
    return error_clear(error);
}

/* Reads the members of the file, or of an answer, over those that are known. */
static bool decode_login(struct view text, struct login *login)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    const struct {
        struct view name;
        struct buffer *to;
    } strings[] = { { VIEW("accessToken"), &login->token },
                    { VIEW("expiresAt"), &login->expires },
                    { VIEW("refreshToken"), &login->refresh },
                    { VIEW("clientId"), &login->client_id },
                    { VIEW("clientSecret"), &login->client_secret } };
    enum { STRINGS = sizeof strings / sizeof strings[0] };
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        size_t row = 0;
        while (row < STRINGS && !view_equal(name, strings[row].name))
            row++;
        if (row < STRINGS) {
            buffer_clear(strings[row].to);
            json_take_string(&reader, strings[row].to);
        } else if (view_equal(name, VIEW("expiresIn")))
            json_take_u64(&reader, UINT64_MAX, &login->seconds);
        else
            json_skip(&reader, &raw);
    }
    return json_end(&reader) && login->token.size > 0;
}

static enum hf_status read_login(struct login *login, struct hf_error *error)
{
    buffer_clear(&login->text);
    if (provider_read_file(login->path, &login->text, error) == HF_NOT_FOUND)
        return error_set(error, HF_DENIED, "there is no login: " S3_SSO_LOGIN);
    if (error->status == HF_OK && !decode_login(buffer_view(&login->text), login))
        error_set(error, HF_INVALID, "the cached login cannot be read: " S3_SSO_LOGIN);
    return error->status;
}

static bool lasts(struct s3_provider *provider, const struct login *login, struct span span)
{
    struct wall_time expires;
    struct hf_error unreadable;
    return parse_time(buffer_view(&login->expires), &expires, &unreadable) == HF_OK &&
           wall_since(expires, env_wall(provider->cache.env)).us > span.us;
}

/* The file as it was, but for the token. */
static bool write_login(const struct login *login, struct buffer *to)
{
    struct json_reader reader = json_read(buffer_view(&login->text));
    struct view name, raw;
    buffer_append(to, VIEW("{\"accessToken\":"));
    json_write_string(to, buffer_view(&login->token));
    buffer_append(to, VIEW(",\"expiresAt\":"));
    json_write_string(to, buffer_view(&login->expires));
    buffer_append(to, VIEW(",\"refreshToken\":"));
    json_write_string(to, buffer_view(&login->refresh));
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (view_equal(name, VIEW("accessToken")) || view_equal(name, VIEW("expiresAt")) ||
            view_equal(name, VIEW("refreshToken")))
            json_skip(&reader, &raw);
        else
            json_keep_member(&reader, name, to);
    return json_end(&reader) && buffer_append(to, VIEW("}\n"));
}

/* Creates the file that will replace the cached one, and reserves room for the login in it. A
 * refresh uses up a token that is good once, so it is certain before that its result can be saved.
 * Every failure is UNAVAILABLE, because it is not the fault of the login. */
static enum hf_status create_login_file(struct s3_provider *provider, const struct login *login,
                                        struct new_file *file, struct hf_error *error)
{
    enum hf_status status =
        new_file_create_private(file, provider->cache.env, login->path, error);
    int failed = status == HF_OK ? posix_fallocate(file->fd, 0, SAVED_BYTES_MAX) : 0;
    if (failed && failed != EOPNOTSUPP) /* not every file system can reserve room */
        status = error_from_errno(error, failed, "reserve room");
    if (status != HF_OK) {
        error_prefix(error, "its file in ~/.aws/sso/cache cannot be written");
        status = error->status = HF_UNAVAILABLE;
    }
    return status;
}

/* If this fails although there was room, this search has its token, but later ones find only the
 * old login, whose refresh token is used up. */
static void save_login(const struct login *login, struct new_file *file)
{
    struct buffer text = BUFFER_INIT(SAVED_BYTES_MAX);
    struct hf_error error;
    if (buffer_reserve(&text, SAVED_BYTES_MAX - 1) && write_login(login, &text) &&
        file_write_at(file->fd, buffer_view(&text), 0, &error) == HF_OK &&
        file_set_size(file->fd, text.size, &error) == HF_OK && fsync(file->fd) == 0)
        new_file_keep(file, &error);
    secret_buffer_release(&text);
}

/* ---- Refreshing ---------------------------------------------------------------------- */

static void find_endpoint_of_oidc(const struct s3_sso *sso, char *uri, size_t size)
{
    const char *named = remote_variable("AWS_ENDPOINT_URL_SSO_OIDC", NULL);
    if (named)
        snprintf(uri, size, "%s/token", named);
    else
        snprintf(uri, size, "https://oidc.%.*s.amazonaws.com/token", VIEW_ARGS(sso->region));
}

static bool write_refresh(const struct login *login, struct buffer *to)
{
    buffer_append(to, VIEW("{\"grantType\":\"refresh_token\",\"clientId\":"));
    json_write_string(to, buffer_view(&login->client_id));
    buffer_append(to, VIEW(",\"clientSecret\":"));
    json_write_string(to, buffer_view(&login->client_secret));
    buffer_append(to, VIEW(",\"refreshToken\":"));
    json_write_string(to, buffer_view(&login->refresh));
    return buffer_append(to, VIEW("}"));
}

/* The time at which the token of an answer ends, as the cache has it. */
static bool set_expiry(struct s3_provider *provider, struct login *login)
{
    char text[TIME_TEXT_MAX];
    uint64_t seconds = login->seconds < TOKEN_SECONDS_MAX ? login->seconds : TOKEN_SECONDS_MAX;
    time_text(wall_add(env_wall(provider->cache.env), SPAN_S((int64_t)seconds)), text);
    text[strcspn(text, ".Z")] = '\0';
    buffer_clear(&login->expires);
    return buffer_append(&login->expires, view_of(text)) &&
           buffer_append_byte(&login->expires, 'Z');
}

static enum hf_status request_login(struct s3_provider *provider, const struct s3_sso *sso,
                                    struct login *login, struct hf_error *error)
{
    static const char *const lines[] = { "Content-Type: application/json" };
    char uri[1024];
    struct buffer body = BUFFER_INIT(4 * CACHE_BYTES_MAX);
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    find_endpoint_of_oidc(sso, uri, sizeof uri);
    bool ready = buffer_reserve(&body, CACHE_BYTES_MAX) && write_refresh(login, &body);
    struct http_source source = { buffer_view(&body), -1, 0, body.size };
    struct http_request request = {
        .method = "POST", .url = uri, .headers = lines, .header_count = 1, .source = &source
    };
    if (!ready)
        error_no_memory(error);
    else if (provider_request(&provider->cache, &request, /* metadata */ false, &answer,
                              error) == HF_OK) {
        login->seconds = 0;
        if (!decode_login(buffer_view(&answer), login) || login->seconds == 0)
            error_set(error, HF_INVALID, "the answer to the refresh cannot be read");
        else if (!set_expiry(provider, login))
            error_no_memory(error);
    }
    secret_buffer_release(&body);
    secret_buffer_release(&answer);
    return error->status;
}

static enum hf_status refresh_login(struct s3_provider *provider, const struct s3_sso *sso,
                                    struct login *login, struct hf_error *error)
{
    struct new_file file;
    if (create_login_file(provider, login, &file, error) == HF_OK &&
        request_login(provider, sso, login, error) == HF_OK)
        save_login(login, &file);
    new_file_release(&file);
    return error->status;
}

/* A refresh token may be used only once. So after a refusal another program may have been faster,
 * and its token is in the cache. */
static enum hf_status renew_login(struct s3_provider *provider, const struct s3_sso *sso,
                                  struct login *login, struct hf_error *error)
{
    bool still = lasts(provider, login, SPAN_US(0));
    bool able = sso->session.size > 0 && login->refresh.size > 0 && login->client_id.size > 0 &&
                login->client_secret.size > 0;
    struct hf_error refusal = { .status = HF_DENIED };
    if (able && refresh_login(provider, sso, login, &refusal) == HF_OK)
        return error_clear(error);
    if (able && (read_login(login, error) != HF_OK || lasts(provider, login, SPAN_US(0))))
        return error->status;
    if (still)
        return error_clear(error);
    if (refusal.status != HF_DENIED) { /* a later attempt may succeed */
        *error = refusal;
        return error_prefix(error, "cannot refresh the login"), error->status;
    }
    return error_set(error, HF_DENIED, "the login has expired: " S3_SSO_LOGIN);
}

enum hf_status s3_sso_token(struct s3_provider *provider, const struct s3_sso *sso,
                            struct buffer *token, struct hf_error *error)
{
    struct login *login = secret_new(sizeof *login);
    if (!login)
        return error_no_memory(error);
    if (!init_login(login))
        error_no_memory(error);
    else if (find_cache(sso, login, error) == HF_OK && read_login(login, error) == HF_OK &&
             !lasts(provider, login, REFRESH_TOKEN_BEFORE))
        renew_login(provider, sso, login, error);
    struct view text = buffer_view(&login->token);
    if (error->status == HF_OK &&
        (view_find(text, '\n') < text.size || view_find(text, '\r') < text.size))
        error_set(error, HF_INVALID, "the cached login contains a line break");
    if (error->status == HF_OK &&
        (!buffer_reserve(token, S3_TOKEN_MAX - 1) || !buffer_append(token, text)))
        error_no_memory(error);
    release_login(login);
    secret_free(login, sizeof *login);
    return error->status;
}
