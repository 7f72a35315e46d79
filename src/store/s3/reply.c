/* reply.c: what a reply means: a status the caller can act on, and one sentence with the
 * remedy. The rules are those of docs/design.md section 3: a refusal (4xx) changed nothing;
 * after a write has left, every 5xx and every silence is UNSURE. */
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
    { "BadDigest", HF_UNAVAILABLE, "the body was damaged on its way; nothing was stored" },
    { "XAmzContentSHA256Mismatch", HF_UNAVAILABLE,
      "the body changed while it was sent; nothing was stored" },
    { "RequestTimeout", HF_UNAVAILABLE, "the store waited too long for the body" },
    { "IncompleteBody", HF_UNAVAILABLE, "the body did not arrive whole; nothing was stored" },
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

/* "answered 403 AccessDenied", with as much as there is. */
static enum hf_status say(struct hf_error *error, enum hf_status status,
                          const struct http_reply *reply, const struct s3_error_body *body,
                          const char *remedy)
{
    const char *text = remedy ? remedy : body->message;
    return error_set(error, status, "the store answered %d%s%s%s%s", reply->status,
                     body->code[0] ? " " : "", body->code, text[0] ? ": " : "", text);
}

bool s3_is_skew_code(const char *code)
{
    return strcmp(code, "RequestTimeTooSkewed") == 0 || strcmp(code, "RequestExpired") == 0;
}

/* All clocks, since one of them must be set right. */
static enum hf_status say_skewed(struct s3_store *s3, const struct s3_request *request,
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
        "the clocks differ too much (%s): this machine's says %s, the store's %s, and "
        "a signature of %s was refused; set this machine's clock",
        body->code, ours, theirs, used);
}

static enum hf_status say_elsewhere(struct s3_store *s3, const struct http_reply *reply,
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

static enum hf_status judge_not_found(struct s3_store *s3, const struct s3_request *request,
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
    if (request->source && request->condition == CONDITION_ABSENT)
        return say(error, HF_CONFLICT, reply, body, "another write was under way");
    if (request->source) /* what a put needs is there or is made; an upload may be gone */
        return say(error, HF_UNAVAILABLE, reply, body, NULL);
    return error_set(error, HF_NOT_FOUND, "no such object");
}

static enum hf_status judge_forbidden(const struct http_reply *reply,
                                      const struct s3_error_body *body, bool *ret_distrust,
                                      struct hf_error *error)
{
    *ret_distrust = strcmp(body->code, "AccessDenied") != 0;
    const struct refusal *refusal = find_refusal(body->code);
    return say(error, HF_DENIED, reply, body,
               refusal ? refusal->remedy : "check the credentials and their permissions");
}

static enum hf_status judge_bad_request(struct s3_store *s3, const struct http_reply *reply,
                                        const struct s3_error_body *body, bool *ret_again,
                                        bool *ret_distrust, struct hf_error *error)
{
    const struct refusal *refusal = find_refusal(body->code);
    enum hf_status status = refusal ? refusal->status : HF_INVALID;
    if (strcmp(body->code, "AuthorizationHeaderMalformed") == 0 && body->region[0])
        return say_elsewhere(s3, reply, body, error);
    *ret_again = status == HF_UNAVAILABLE;
    *ret_distrust = status == HF_DENIED;
    return say(error, status, reply, body, refusal ? refusal->remedy : NULL);
}

static enum hf_status judge_conflict(const struct s3_request *request,
                                     const struct http_reply *reply,
                                     const struct s3_error_body *body, bool *ret_again,
                                     struct hf_error *error)
{
    bool asked = request->condition != CONDITION_ALWAYS;
    *ret_again = !asked;
    if (request->condition == CONDITION_ABSENT)
        return say(error, HF_CONFLICT, reply, body, "the object exists already");
    return say(error, asked ? HF_CONFLICT : HF_UNAVAILABLE, reply, body,
               asked ? "the object has changed" : NULL);
}

static enum hf_status judge_server_error(const struct s3_request *request,
                                         const struct http_reply *reply,
                                         const struct s3_error_body *body, bool *ret_again,
                                         struct hf_error *error)
{
    *ret_again = reply->status != 501;
    if (request->writes)
        return say(error, HF_UNSURE, reply, body, NULL);
    return say(error, reply->status == 501 ? HF_UNSUPPORTED : HF_UNAVAILABLE, reply, body,
               NULL);
}

/* 304 is for reads; some stores refuse a put with If-None-Match so. */
static enum hf_status judge_not_modified(const struct s3_request *request,
                                         struct hf_error *error)
{
    if (!request->writes)
        return error_set(error, HF_NOT_MODIFIED, "not modified");
    if (request->condition == CONDITION_ALWAYS)
        return error_set(error, HF_UNAVAILABLE, "the store answered 304 to a write");
    return error_set(error, HF_CONFLICT, "%s",
                     request->condition == CONDITION_ABSENT ? "the object exists already"
                                                            : "the object has changed");
}

/* ---- All replies --------------------------------------------------------------------- */

static enum hf_status judge_silence(struct s3_store *s3, const struct s3_request *request,
                                    const struct http_reply *reply, bool *ret_again,
                                    struct hf_error *error)
{
    *ret_again = true;
    if (reply->outcome == HTTP_NO_ANSWER && request->writes)
        return error_set(error, HF_UNSURE, "no answer from %s: %s", s3->host, reply->error.why);
    if (reply->outcome == HTTP_NOT_SENT && reply->error.status != HF_UNAVAILABLE) {
        *ret_again = false; /* no credentials: the reason stands for itself */
        *error = reply->error;
        return error->status;
    }
    if (reply->outcome == HTTP_NOT_SENT && reply->sent.us == 0) {
        *error = reply->error; /* it did not come as far as the network */
        return error->status;
    }
    if (reply->bad_certificate) { /* by the calendar, perhaps */
        char ours[TIME_TEXT_MAX];
        return error_set(error, HF_UNAVAILABLE,
                         "%s cannot be reached: %s (this machine's clock says %s)", s3->origin,
                         reply->error.why, time_text(env_wall(s3->base.env), ours));
    }
    return error_set(error, HF_UNAVAILABLE, "%s cannot be reached: %s", s3->origin,
                     reply->error.why);
}

static enum hf_status judge_status(struct s3_store *s3, const struct s3_request *request,
                                   const struct http_reply *reply,
                                   const struct s3_error_body *body, bool *ret_again,
                                   bool *ret_distrust, struct hf_error *error)
{
    int status = reply->status;
    if (status >= 500)
        return judge_server_error(request, reply, body, ret_again, error);
    if (s3_is_skew_code(body->code))
        return say_skewed(s3, request, reply, body, error);
    switch (status) {
    case 304: return judge_not_modified(request, error);
    case 400: return judge_bad_request(s3, reply, body, ret_again, ret_distrust, error);
    case 401:
    case 403: return judge_forbidden(reply, body, ret_distrust, error);
    case 404: return judge_not_found(s3, request, reply, body, error);
    case 409: return judge_conflict(request, reply, body, ret_again, error);
    case 412:
        return error_set(error, HF_CONFLICT, "%s",
                         request->condition == CONDITION_ABSENT ? "the object exists already"
                                                                : "the object has changed");
    case 416: return error_set(error, HF_INVALID, "the range starts behind the object's end");
    case 408:
    case 429: *ret_again = true; return say(error, HF_UNAVAILABLE, reply, body, NULL);
    default: break;
    }
    if (status >= 300 && status < 400)
        return say_elsewhere(s3, reply, body, error);
    const struct refusal *refusal = find_refusal(body->code);
    return say(error, refusal ? refusal->status : HF_INVALID, reply, body,
               refusal ? refusal->remedy : NULL);
}

enum hf_status s3_judge(struct s3_store *s3, const struct s3_request *request,
                        const struct http_reply *reply, bool *ret_again, bool *ret_distrust,
                        struct hf_error *error)
{
    *ret_again = *ret_distrust = false;
    /* A write that was stopped before a reply began was never sent whole. */
    if (reply->outcome == HTTP_STOPPED && request->writes && reply->status >= 200)
        return error_set(error, HF_UNSURE, "the answer is unusable: %s", reply->error.why);
    if (reply->outcome == HTTP_STOPPED) {
        *error = reply->error;
        return error->status;
    }
    if (reply->outcome != HTTP_ANSWERED)
        return judge_silence(s3, request, reply, ret_again, error);
    bool done = reply->status >= 200 && reply->status < 300;
    if (done && !request->writes)
        return error_clear(error);
    struct s3_error_body body;
    bool is_error = s3_xml_error(buffer_view(&reply->body), &body);
    if (done) /* and an error in the same answer: nobody knows */
        return is_error ? say(error, HF_UNSURE, reply, &body, NULL) : error_clear(error);
    return judge_status(s3, request, reply, &body, ret_again, ret_distrust, error);
}

enum hf_status s3_judge_code(struct view code, struct view message, struct hf_error *error)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", VIEW_ARGS(view_first(code, sizeof text - 1)));
    if (strcmp(text, "NoSuchKey") == 0)
        return error_clear(error);
    const struct refusal *refusal = find_refusal(text);
    return error_set(error, refusal ? refusal->status : HF_UNSURE,
                     "the store answered %s: %.*s", text, VIEW_ARGS(message));
}
