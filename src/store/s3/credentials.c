/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.c: parses credentials from profiles, JSON and XML. No files, no network. Rejects
 * values that could not be sent in a header. */
#include "store/s3/credentials.h"

#include "base/json.h"
#include "base/parse.h"
#include "store/remote/secret.h"
#include "store/remote/xml.h"

#include <stdio.h>

/* Keys and tokens are sent in headers, so they must be printable and must not contain spaces. */
static bool copy_printable(char *to, size_t size, struct view value)
{
    if (value.size >= size)
        return false;
    for (size_t i = 0; i < value.size; i++)
        if (value.data[i] <= ' ' || value.data[i] > '~')
            return false;
    if (value.size > 0)
        memcpy(to, value.data, value.size);
    to[value.size] = '\0';
    return true;
}

static enum hf_status copy_keys(struct view access_key, struct view secret, struct view token,
                                struct s3_credentials *ret_credentials, struct hf_error *error)
{
    struct s3_credentials *to = ret_credentials;
    to->life.ends = false;
    if (access_key.size == 0 || secret.size == 0)
        return error_set(error, HF_INVALID, "an access key or its secret is missing");
    if (!copy_printable(to->access_key, sizeof to->access_key, access_key) ||
        !copy_printable(to->secret, sizeof to->secret, secret) ||
        !copy_printable(to->token, sizeof to->token, token))
        return error_set(error, HF_INVALID,
                         "the access key, secret or token is too long or contains whitespace");
    return error_clear(error);
}

static enum hf_status copy_expiration(struct view expiration,
                                      struct s3_credentials *credentials,
                                      struct hf_error *error)
{
    if (expiration.size == 0)
        return error_clear(error);
    if (parse_time(expiration, &credentials->life.expires, error) != HF_OK) {
        error_prefix(error, "invalid expiration of the credentials");
        return error->status;
    }
    credentials->life.ends = true;
    return HF_OK;
}

/* ---- Profiles ------------------------------------------------------------------------ */

static struct view trimmed_value(struct view text)
{
    while (text.size > 0 && strchr(" \t\r", text.data[0]))
        text = view_from(text, 1);
    while (text.size > 0 && strchr(" \t\r", text.data[text.size - 1]))
        text.size--;
    return text;
}

/* "[name]" or "[profile name]" */
static bool is_section(struct view line, struct view *ret_name)
{
    if (line.size < 2 || line.data[0] != '[')
        return false;
    struct view name = view_from(line, 1);
    name = trimmed_value(view_first(name, view_find(name, ']')));
    if (view_starts_with(name, VIEW("profile ")) || view_starts_with(name, VIEW("profile\t")))
        name = trimmed_value(view_from(name, 8));
    *ret_name = name;
    return true;
}

/* Indented lines belong to a nested setting and are skipped. If a name occurs more than once, the
 * last occurrence counts. */
struct view s3_ini_find(struct view text, struct view profile, const char *name)
{
    struct view found = { NULL, 0 };
    bool inside = false;
    while (text.size > 0) {
        struct view line = view_cut(&text, '\n');
        struct view section;
        if (line.size == 0 || strchr(" \t#;", line.data[0]))
            continue;
        if (is_section(line, &section)) {
            inside = view_equal(section, profile);
            continue;
        }
        struct view value = line;
        struct view left = trimmed_value(view_cut(&value, '='));
        if (inside && view_equal(left, view_of(name)))
            found = trimmed_value(value);
    }
    return found;
}

bool s3_ini_has_profile(struct view text, struct view profile)
{
    while (text.size > 0) {
        struct view name;
        if (is_section(view_cut(&text, '\n'), &name) && view_equal(name, profile))
            return true;
    }
    return false;
}

bool s3_ini_value(struct view text, struct view profile, const char *name, char *ret_value,
                  size_t size)
{
    struct view value = s3_ini_find(text, profile, name);
    return value.size > 0 && copy_printable(ret_value, size, value);
}

enum hf_status s3_credentials_from_ini(struct view text, struct view profile,
                                       struct s3_credentials *ret_credentials,
                                       struct hf_error *error)
{
    struct view access_key = s3_ini_find(text, profile, "aws_access_key_id");
    struct view secret = s3_ini_find(text, profile, "aws_secret_access_key");
    struct view token = s3_ini_find(text, profile, "aws_session_token");
    if (!access_key.data && !secret.data)
        return error_set(error, HF_NOT_FOUND, "profile '%.*s' has no keys",
                         VIEW_ARGS(view_first(profile, 60)));
    return copy_keys(access_key, secret, token, ret_credentials, error);
}

/* ---- Replies of endpoints ------------------------------------------------------------ */

/* Copies a string member into `to`. A member of another type, such as null, counts as missing. */
static void decode_text(struct json_reader *reader, struct buffer *to)
{
    struct view raw;
    buffer_clear(to);
    if (json_peek(reader) == JSON_KIND_STRING)
        json_take_string(reader, to);
    else
        json_skip(reader, &raw);
}

struct endpoint_answer {
    struct buffer code, access_key, secret, token, expiration;
    uint64_t version;   /* of the output of a command; 0: none */
    int64_t expires_ms; /* of IAM Identity Center; 0: none */
};

/* Decodes the members of an object. Every kind of answer has its own names for them. */
static void decode_key_members(struct json_reader *reader, struct endpoint_answer *answer)
{
    const struct {
        struct view name;
        struct buffer *to;
    } members[] = {
        { VIEW("Code"), &answer->code },
        { VIEW("AccessKeyId"), &answer->access_key },
        { VIEW("SecretAccessKey"), &answer->secret },
        { VIEW("Token"), &answer->token },
        { VIEW("SessionToken"), &answer->token },
        { VIEW("Expiration"), &answer->expiration },
        { VIEW("accessKeyId"), &answer->access_key },
        { VIEW("secretAccessKey"), &answer->secret },
        { VIEW("sessionToken"), &answer->token },
    };
    const size_t count = sizeof members / sizeof members[0];
    struct view name, raw;
    for (json_enter_object(reader); json_next_member(reader, &name);) {
        size_t i = 0;
        while (i < count && !view_equal(name, members[i].name))
            i++;
        if (i < count)
            decode_text(reader, members[i].to);
        else if (view_equal(name, VIEW("Version")) && json_peek(reader) == JSON_KIND_NUMBER)
            json_take_u64(reader, UINT64_MAX, &answer->version);
        else if (view_equal(name, VIEW("expiration")))
            json_take_i64(reader, &answer->expires_ms);
        else
            json_skip(reader, &raw);
    }
}

static bool decode_answer(struct view text, const char *inside, struct endpoint_answer *answer)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    if (!inside)
        decode_key_members(&reader, answer);
    else
        for (json_enter_object(&reader); json_next_member(&reader, &name);)
            if (view_equal(name, view_of(inside)))
                decode_key_members(&reader, answer);
            else
                json_skip(&reader, &raw);
    return json_end(&reader);
}

static void release_answer(struct endpoint_answer *answer)
{
    struct buffer *all[] = { &answer->code, &answer->access_key, &answer->secret,
                             &answer->token, &answer->expiration };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        secret_buffer_release(all[i]);
}

/* Reads the keys of a JSON object, or of its member `inside`. `who` has answered. */
static enum hf_status read_keys(struct view text, const char *who, const char *inside,
                                bool versioned, struct s3_credentials *ret_credentials,
                                struct hf_error *error)
{
    struct endpoint_answer answer = { BUFFER_INIT(256),
                                      BUFFER_INIT(S3_TOKEN_MAX),
                                      BUFFER_INIT(S3_TOKEN_MAX),
                                      BUFFER_INIT(S3_TOKEN_MAX),
                                      BUFFER_INIT(256),
                                      0,
                                      0 };
    buffer_reserve(&answer.secret, S3_SECRET_MAX); /* no copy left behind by growth */
    bool read = decode_answer(text, inside, &answer);
    struct view code = buffer_view(&answer.code);
    if (!read)
        error_set(error, HF_INVALID, "the answer of the %s is not a JSON object of keys", who);
    else if (versioned && answer.version != 1)
        error_set(error, HF_INVALID, "the answer of the %s has no \"Version\": 1", who);
    else if (code.size > 0 && !view_equal(code, VIEW("Success")))
        error_set(error, HF_DENIED, "the %s answered '%.*s'", who,
                  VIEW_ARGS(view_first(code, 60)));
    else if (copy_keys(buffer_view(&answer.access_key), buffer_view(&answer.secret),
                       buffer_view(&answer.token), ret_credentials, error) == HF_OK)
        copy_expiration(buffer_view(&answer.expiration), ret_credentials, error);
    if (error->status == HF_OK && answer.expires_ms > 0 &&
        answer.expires_ms < MOMENT_FAR / 1000) {
        ret_credentials->life.ends = true;
        ret_credentials->life.expires = (struct wall_time){ answer.expires_ms * 1000 };
    }
    release_answer(&answer);
    return error->status;
}

enum hf_status s3_credentials_from_json(struct view text,
                                        struct s3_credentials *ret_credentials,
                                        struct hf_error *error)
{
    return read_keys(text, "endpoint", NULL, /* versioned */ false, ret_credentials, error);
}

enum hf_status s3_credentials_from_process(struct view text,
                                           struct s3_credentials *ret_credentials,
                                           struct hf_error *error)
{
    return read_keys(text, "command", NULL, /* versioned */ true, ret_credentials, error);
}

enum hf_status s3_credentials_from_sso(struct view text, struct s3_credentials *ret_credentials,
                                       struct hf_error *error)
{
    return read_keys(text, "endpoint", "roleCredentials", /* versioned */ false,
                     ret_credentials, error);
}

bool s3_is_china(const char *region)
{
    return strncmp(region, "cn-", 3) == 0;
}

enum hf_status s3_credentials_from_xml(struct view text, const char *root,
                                       struct s3_credentials *ret_credentials,
                                       struct hf_error *error)
{
    struct s3_credentials *to = ret_credentials;
    char expiration[64];
    const struct xml_field fields[] = {
        { "AccessKeyId", to->access_key, sizeof to->access_key },
        { "SecretAccessKey", to->secret, sizeof to->secret },
        { "SessionToken", to->token, sizeof to->token },
        { "Expiration", expiration, sizeof expiration },
    };
    if (xml_fields(text, root, fields, 4, error) != HF_OK ||
        copy_keys(view_of(to->access_key), view_of(to->secret), view_of(to->token), to,
                  error) != HF_OK)
        return error->status;
    return copy_expiration(view_of(expiration), to, error);
}
