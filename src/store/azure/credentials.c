/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.c: parses what authorizes requests to Azure. No files, no network. Rejects values
 * that could not be sent in a header or a URL. */
#include "store/azure/credentials.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/parse.h"
#include "store/remote/secret.h"

#include <stdio.h>

static enum hf_status set_secret(struct azure_credentials *to, enum azure_way way,
                                 struct view secret, const char *what, struct hf_error *error)
{
    for (size_t i = 0; i < secret.size; i++)
        if (secret.data[i] <= ' ' || secret.data[i] > '~')
            return error_set(error, HF_INVALID,
                             "%s contains whitespace or a character that is not ASCII", what);
    if (secret.size == 0 || secret.size > AZURE_SECRET_MAX)
        return error_set(error, HF_INVALID, "%s is empty or too long", what);
    to->life.ends = false;
    to->way = way;
    to->secret_size = secret.size;
    memcpy(to->secret, secret.data, secret.size);
    to->secret[secret.size] = '\0';
    return error_clear(error);
}

enum hf_status azure_credentials_from_key(struct view text,
                                          struct azure_credentials *ret_credentials,
                                          struct hf_error *error)
{
    struct azure_credentials *to = ret_credentials;
    to->life.ends = false;
    to->way = AZURE_SHARED_KEY;
    if (text.size == 0 || text.size > AZURE_SECRET_MAX ||
        !base64_decode(text, to->secret, &to->secret_size))
        return error_set(error, HF_INVALID,
                         "the account key is not base64: copy the whole key, with the '=' at "
                         "its end");
    to->secret[to->secret_size] = '\0';
    return error_clear(error);
}

enum hf_status azure_credentials_from_sas(struct view text,
                                          struct azure_credentials *ret_credentials,
                                          struct hf_error *error)
{
    if (view_starts_with(text, VIEW("?")))
        text = view_from(text, 1);
    bool is_signed = view_starts_with(text, VIEW("sig="));
    for (struct view rest = text; rest.size > 0 && !is_signed;) {
        view_cut(&rest, '&');
        is_signed = view_starts_with(rest, VIEW("sig="));
    }
    if (!is_signed)
        return error_set(error, HF_INVALID,
                         "the SAS has no signature ('sig='): copy the whole query string");
    return set_secret(ret_credentials, AZURE_SAS, text, "the SAS", error);
}

/* ---- The token of an identity -------------------------------------------------------- */

struct token_answer {
    struct buffer token;
    uint64_t in_s; /* expires_in; 0: unknown */
    uint64_t on_s; /* expires_on, as seconds since 1970; 0: unknown */
};

/* Azure sends these numbers as strings, except where it does not. Anything else is 0: unknown. */
static void take_seconds(struct json_reader *reader, uint64_t *ret_seconds)
{
    struct buffer text = BUFFER_INIT(64);
    struct view raw = VIEW("");
    if (json_peek(reader) == JSON_KIND_STRING) {
        json_take_string(reader, &text);
        raw = buffer_view(&text);
    } else {
        json_skip(reader, &raw);
    }
    if (parse_u64(raw, INT64_MAX / 1000000, ret_seconds, NULL) != HF_OK)
        *ret_seconds = 0;
    buffer_release(&text);
}

static bool decode_token(struct view text, struct token_answer *answer)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("access_token")) && json_peek(&reader) == JSON_KIND_STRING)
            json_take_string(&reader, &answer->token);
        else if (view_equal(name, VIEW("expires_in")))
            take_seconds(&reader, &answer->in_s);
        else if (view_equal(name, VIEW("expires_on")))
            take_seconds(&reader, &answer->on_s);
        else
            json_skip(&reader, &raw);
    }
    return json_end(&reader);
}

enum hf_status azure_credentials_from_json(struct view text, struct wall_time date,
                                           struct azure_credentials *ret_credentials,
                                           struct hf_error *error)
{
    struct azure_credentials *to = ret_credentials;
    struct token_answer answer = { .token = BUFFER_INIT(AZURE_SECRET_MAX) };
    buffer_reserve(&answer.token, text.size); /* no copy left behind by growth */
    if (!decode_token(text, &answer))
        error_set(error, HF_INVALID, "the identity endpoint's answer is not a JSON object");
    else
        set_secret(to, AZURE_TOKEN, buffer_view(&answer.token), "the token", error);
    if (error->status == HF_OK && (answer.in_s > 0 || answer.on_s > 0)) {
        struct wall_time on = { (int64_t)answer.on_s * 1000000 };
        struct span life =
            answer.in_s > 0 ? SPAN_S((int64_t)answer.in_s) : wall_since(on, date);
        to->life.ends = true;
        to->life.expires = wall_add(date, span_smaller(life, SPAN_S(TOKEN_SECONDS_MAX)));
    }
    secret_buffer_release(&answer.token);
    return error->status;
}

struct view azure_connection_value(struct view text, const char *name)
{
    while (text.size > 0) {
        struct view value = view_cut(&text, ';');
        struct view found = view_cut(&value, '=');
        if (view_equal(found, view_of(name)))
            return value;
    }
    return (struct view){ NULL, 0 };
}
