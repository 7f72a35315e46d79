/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: maps a reply to a status that the caller can act on, and a message with the remedy. The
 * rules are in docs/design.md section 3: a refusal (4xx) changed nothing; once a write has been
 * sent, every 5xx and every missing reply is UNSURE. */
#include "base/parse.h"
#include "store/s3/inside.h"
#include "store/s3/xml.h"

#include <stdio.h>

struct store_stamp s3_stamp(const struct http_reply *reply)
{
    return (struct store_stamp){
        .known = reply->outcome == HTTP_ANSWERED && reply->has_date,
        .cached = reply->has_age,
        .date = reply->date,
        .sent = reply->sent,
        .received = reply->received,
    };
}

/* ---- Refusals ------------------------------------------------------------------------ */

struct refusal {
    const char *code;
    enum hf_status status;
    const char *remedy; /* NULL: the store's own message */
};

static const struct refusal refusals[] = {
    { "InvalidAccessKeyId", HF_DENIED,
      "the store does not know this access key: check "
      "AWS_ACCESS_KEY_ID or the profile" },
    { "SignatureDoesNotMatch", HF_DENIED,
      "the secret key is wrong: check "
      "AWS_SECRET_ACCESS_KEY or the profile" },
    { "ExpiredToken", HF_DENIED, "the session token has expired: get new credentials" },
    { "InvalidToken", HF_DENIED, "the session token is not valid: get new credentials" },
    { "AccessDenied", HF_DENIED,
      "these credentials may not do this: check the policies of the "
      "user and the bucket" },
    { "BadDigest", HF_UNAVAILABLE, "the body was damaged in transit; nothing was stored" },
    { "XAmzContentSHA256Mismatch", HF_UNAVAILABLE,
      "the body changed while it was being sent; nothing was stored" },
    { "RequestTimeout", HF_UNAVAILABLE, "the store waited too long for the body" },
    { "IncompleteBody", HF_UNAVAILABLE, "the body arrived incomplete; nothing was stored" },
    { "EntityTooLarge", HF_INVALID, "the object is too large for one put" },
    { "KeyTooLongError", HF_INVALID, "the key is too long for this store" },
    { "NotImplemented", HF_UNSUPPORTED, NULL },
    { "MethodNotAllowed", HF_UNSUPPORTED, NULL },
};

static const struct refusal *find_refusal(const char *code)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (strcmp(refusals[i].code, code) == 0)
            return &refusals[i];
    return NULL;
}

/* "answered 403 AccessDenied", with the parts that exist. */
static enum hf_status set_reply_error(struct hf_error *error, enum hf_status status,
                                      const struct http_reply *reply,
                                      const struct s3_error_body *body, const char *remedy)
{
    const char *text = remedy ? remedy : body->message;
    return error_set(error, status, "the store answered %d%s%s%s%s", reply->status,
                     body->code[0] ? " " : "", body->code, text[0] ? ": " : "", text);
}

bool s3_is_skew_code(const char *code)
{
    return strcmp(code, "RequestTimeTooSkewed") == 0 || strcmp(code, "RequestExpired") == 0;
}

/* Shows all clocks, because one of them must be corrected. */
static enum hf_status set_skew_error(struct s3_store *s3, const struct s3_request *request,
                                     const struct http_reply *reply,
                                     const struct s3_error_body *body, struct hf_error *error)
{
    char ours[TIME_TEXT_MAX], used[TIME_TEXT_MAX];
    char theirs[TIME_TEXT_MAX] = "unknown";
    struct wall_time server;
    time_text(env_wall(s3->base.env), ours);
    time_text(request->signed_at, used);
    if (s3_store_time(reply, body, &server))
        time_text(server, theirs);
    return error_set(
        error, HF_DENIED,
        "the clocks differ too much (%s): this machine's says %s, the store's %s; a "
        "signature dated %s was refused; set this machine's clock",
        body->code, ours, theirs, used);
}

static enum hf_status set_region_error(struct s3_store *s3, const struct http_reply *reply,
                                       const struct s3_error_body *body, struct hf_error *error)
{
    const char *region = body->region[0] ? body->region : reply->region;
    if (region[0])
        return error_set(error, HF_INVALID,
                         "bucket '%s' is in region '%s', not '%s': put region=%s into the URL",
                         s3->bucket, region, s3->region, region);
    const char *where = body->endpoint[0] ? body->endpoint : reply->location;
    return error_set(
        error, HF_INVALID,
        "the store answered %d: bucket '%s' is at %s; correct endpoint= or region= "
        "in the URL",
        reply->status, s3->bucket, where[0] ? where : "another endpoint");
}

static enum hf_status check_not_found(struct s3_store *s3, const struct s3_request *request,
                                      const struct http_reply *reply,
                                      const struct s3_error_body *body, struct hf_error *error)
{
    if (strcmp(body->code, "NoSuchBucket") == 0)
        return error_set(error, HF_INVALID,
                         "there is no bucket '%s' at %s: create it, or correct the URL",
                         s3->bucket, s3->origin);
    if (body->code[0] == '\0' && reply->body.size > 0)
        return error_set(error, HF_UNAVAILABLE,
                         "%s answered 404 with a page that is not from S3: check endpoint= in "
                         "the URL",
                         s3->origin);
    if (request->condition == CONDITION_MATCH)
        return error_set(error, HF_NOT_FOUND, "the object is gone");
    /* Some stores answer 404 to the loser of a race. */
    if (request->source && request->condition == CONDITION_ABSENT)
        return set_reply_error(error, HF_CONFLICT, reply, body,
                               "another write was in progress");
    if (request->source) /* a put creates what it needs, but its upload may be gone */
        return set_reply_error(error, HF_UNAVAILABLE, reply, body, NULL);
    return error_set(error, HF_NOT_FOUND, "no such object");
}

static enum hf_status check_forbidden(const struct http_reply *reply,
                                      const struct s3_error_body *body,
                                      struct s3_advice *advice, struct hf_error *error)
{
    /* AccessDenied is about permissions. Other refusals may mean that the credentials have expired
     * or were replaced, so they are fetched again. */
    advice->distrust = strcmp(body->code, "AccessDenied") != 0;
    const struct refusal *refusal = find_refusal(body->code);
    return set_reply_error(error, HF_DENIED, reply, body,
                           refusal ? refusal->remedy
                                   : "check the credentials and their permissions");
}

static enum hf_status check_bad_request(struct s3_store *s3, const struct http_reply *reply,
                                        const struct s3_error_body *body,
                                        struct s3_advice *advice, struct hf_error *error)
{
    const struct refusal *refusal = find_refusal(body->code);
    enum hf_status status = refusal ? refusal->status : HF_INVALID;
    if (strcmp(body->code, "AuthorizationHeaderMalformed") == 0 && body->region[0])
        return set_region_error(s3, reply, body, error);
    advice->again = status == HF_UNAVAILABLE;
    advice->distrust = status == HF_DENIED;
    return set_reply_error(error, status, reply, body, refusal ? refusal->remedy : NULL);
}

static enum hf_status check_conflict(const struct s3_request *request,
                                     const struct http_reply *reply,
                                     const struct s3_error_body *body, struct s3_advice *advice,
                                     struct hf_error *error)
{
    bool asked = request->condition != CONDITION_ALWAYS;
    /* Without a condition, 409 means that another request for the key is in progress. */
    advice->again = !asked;
    if (request->condition == CONDITION_ABSENT)
        return set_reply_error(error, HF_CONFLICT, reply, body, "the object already exists");
    return set_reply_error(error, asked ? HF_CONFLICT : HF_UNAVAILABLE, reply, body,
                           asked ? "the object has changed" : NULL);
}

static enum hf_status check_server_error(const struct s3_request *request,
                                         const struct http_reply *reply,
                                         const struct s3_error_body *body,
                                         struct s3_advice *advice, struct hf_error *error)
{
    /* A gateway may fail after it has passed a write on, so a 5xx says nothing about the outcome of
     * a write. */
    advice->again = reply->status != 501;
    if (request->writes)
        return set_reply_error(error, HF_UNSURE, reply, body, NULL);
    return set_reply_error(error, reply->status == 501 ? HF_UNSUPPORTED : HF_UNAVAILABLE, reply,
                           body, NULL);
}

/* 304 is for reads, but some stores refuse a put with If-None-Match this way. */
static enum hf_status check_not_modified(const struct s3_request *request,
                                         struct hf_error *error)
{
    if (!request->writes)
        return error_set(error, HF_NOT_MODIFIED, "not modified");
    if (request->condition == CONDITION_ALWAYS)
        return error_set(error, HF_UNAVAILABLE, "the store answered 304 to a write");
    return error_set(error, HF_CONFLICT, "%s",
                     request->condition == CONDITION_ABSENT ? "the object already exists"
                                                            : "the object has changed");
}

/* ---- All replies --------------------------------------------------------------------- */

static enum hf_status check_no_answer(struct s3_store *s3, const struct s3_request *request,
                                      const struct http_reply *reply, struct s3_advice *advice,
                                      struct hf_error *error)
{
    advice->again = true;
    if (reply->outcome == HTTP_NO_ANSWER && request->writes)
        return error_set(error, HF_UNSURE, "no answer from %s: %s", s3->host, reply->error.why);
    if (reply->outcome == HTTP_NOT_SENT && reply->error.status != HF_UNAVAILABLE) {
        advice->again = false; /* no credentials: the error says why */
        *error = reply->error;
        return error->status;
    }
    if (reply->outcome == HTTP_NOT_SENT && reply->sent.us == 0) {
        *error = reply->error; /* it never reached the network */
        return error->status;
    }
    if (reply->bad_certificate) { /* perhaps because of this machine's clock */
        char ours[TIME_TEXT_MAX];
        return error_set(error, HF_UNAVAILABLE,
                         "cannot reach %s: %s (this machine's clock says %s)", s3->origin,
                         reply->error.why, time_text(env_wall(s3->base.env), ours));
    }
    return error_set(error, HF_UNAVAILABLE, "cannot reach %s: %s", s3->origin,
                     reply->error.why);
}

static enum hf_status check_http_status(struct s3_store *s3, const struct s3_request *request,
                                        const struct http_reply *reply,
                                        const struct s3_error_body *body,
                                        struct s3_advice *advice, struct hf_error *error)
{
    int status = reply->status;
    if (status >= 500)
        return check_server_error(request, reply, body, advice, error);
    if (s3_is_skew_code(body->code))
        return set_skew_error(s3, request, reply, body, error);
    switch (status) {
    case 304: return check_not_modified(request, error);
    case 400: return check_bad_request(s3, reply, body, advice, error);
    case 401:
    case 403: return check_forbidden(reply, body, advice, error);
    case 404: return check_not_found(s3, request, reply, body, error);
    case 409: return check_conflict(request, reply, body, advice, error);
    case 412:
        return error_set(error, HF_CONFLICT, "%s",
                         request->condition == CONDITION_ABSENT ? "the object already exists"
                                                                : "the object has changed");
    case 416:
        return error_set(error, HF_INVALID, "the range starts after the end of the object");
    case 408:
    case 429:
        advice->again = true;
        return set_reply_error(error, HF_UNAVAILABLE, reply, body, NULL);
    default: break;
    }
    if (status >= 300 && status < 400)
        return set_region_error(s3, reply, body, error);
    const struct refusal *refusal = find_refusal(body->code);
    return set_reply_error(error, refusal ? refusal->status : HF_INVALID, reply, body,
                           refusal ? refusal->remedy : NULL);
}

enum hf_status s3_check_reply(struct s3_store *s3, const struct s3_request *request,
                              const struct http_reply *reply, struct s3_advice *ret_advice,
                              struct hf_error *error)
{
    *ret_advice = (struct s3_advice){ false, false };
    /* A write that was stopped before a reply began was never sent completely. */
    if (reply->outcome == HTTP_STOPPED && request->writes && reply->status >= 200)
        return error_set(error, HF_UNSURE, "the reply cannot be used: %s", reply->error.why);
    if (reply->outcome == HTTP_STOPPED) {
        *error = reply->error;
        return error->status;
    }
    if (reply->outcome != HTTP_ANSWERED)
        return check_no_answer(s3, request, reply, ret_advice, error);
    bool done = reply->status >= 200 && reply->status < 300;
    /* S3 may answer a long write with 200 and an error document, so the bodies of replies to writes
     * are checked. */
    if (done && !request->writes)
        return error_clear(error);
    struct s3_error_body body;
    bool is_error = s3_xml_error(buffer_view(&reply->body), &body);
    if (done) /* success with an error in the body: the outcome is unknown */
        return is_error ? set_reply_error(error, HF_UNSURE, reply, &body, NULL)
                        : error_clear(error);
    return check_http_status(s3, request, reply, &body, ret_advice, error);
}

enum hf_status s3_check_code(struct view code, struct view message, struct hf_error *error)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", VIEW_ARGS(view_first(code, sizeof text - 1)));
    if (strcmp(text, "NoSuchKey") == 0)
        return error_clear(error);
    const struct refusal *refusal = find_refusal(text);
    return error_set(error, refusal ? refusal->status : HF_UNSURE,
                     "the store answered %s: %.*s", text, VIEW_ARGS(message));
}
