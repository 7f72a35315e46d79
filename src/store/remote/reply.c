/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: maps a reply to a status that the caller can act on, and a message with the remedy. The
 * rules are in docs/design.md section 3: a refusal (4xx) changed nothing; once a write has been
 * sent, every 5xx and every missing reply is UNSURE. */
#include "base/parse.h"
#include "store/remote/remote.h"
#include "store/remote/xml.h"

#include <stdio.h>

struct store_stamp remote_stamp(const struct http_reply *reply)
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

const struct remote_refusal *remote_find_refusal(const struct remote_store *remote,
                                                 const char *code)
{
    const struct remote_dialect *dialect = remote->dialect;
    for (size_t i = 0; i < dialect->refusal_count; i++)
        if (strcmp(dialect->refusals[i].code, code) == 0)
            return &dialect->refusals[i];
    return NULL;
}

enum hf_status remote_set_error(struct hf_error *error, enum hf_status status,
                                const struct http_reply *reply,
                                const struct xml_error_body *body, const char *remedy)
{
    const char *text = remedy ? remedy : body->message;
    return error_set(error, status, "the store answered %d%s%s%s%s", reply->status,
                     body->code[0] ? " " : "", body->code, text[0] ? ": " : "", text);
}

bool remote_is_undecided_code(const char *code)
{
    return strcmp(code, "ConditionalRequestConflict") == 0;
}

bool remote_is_skew_code(const char *code)
{
    return strcmp(code, "RequestTimeTooSkewed") == 0 || strcmp(code, "RequestExpired") == 0;
}

/* Shows all clocks, because one of them must be corrected. */
static enum hf_status set_skew_error(struct remote_store *remote,
                                     const struct remote_request *request,
                                     const struct http_reply *reply,
                                     const struct xml_error_body *body, struct hf_error *error)
{
    char ours[TIME_TEXT_MAX], used[TIME_TEXT_MAX];
    char theirs[TIME_TEXT_MAX] = "unknown";
    struct wall_time server;
    time_text(env_wall(remote->base.env), ours);
    time_text(request->signed_at, used);
    if (remote_store_time(reply, body, &server))
        time_text(server, theirs);
    return error_set(
        error, HF_DENIED,
        "the clocks differ too much (%s): this machine's says %s, the store's %s; a "
        "signature dated %s was refused; set this machine's clock",
        body->code, ours, theirs, used);
}

static enum hf_status check_not_found(struct remote_store *remote,
                                      const struct remote_request *request,
                                      const struct http_reply *reply,
                                      const struct xml_error_body *body, struct hf_error *error)
{
    if (body->code[0] == '\0' && reply->body.size > 0)
        return error_set(error, HF_UNAVAILABLE,
                         "%s answered 404 with a page that is not from %s: check endpoint= in "
                         "the URL",
                         remote->origin, remote->dialect->service);
    if (request->condition == CONDITION_MATCH)
        return error_set(error, HF_NOT_FOUND, "the object is gone");
    /* Some stores answer 404 to the loser of a race. */
    if (request->source && request->condition == CONDITION_ABSENT)
        return remote_set_error(error, HF_CONFLICT, reply, body,
                                "another write was in progress");
    if (request->source) /* a put creates what it needs, but its upload may be gone */
        return remote_set_error(error, HF_UNAVAILABLE, reply, body, NULL);
    return error_set(error, HF_NOT_FOUND, "no such object");
}

static bool is_about_permission(const struct remote_store *remote, const char *code)
{
    for (const char *const *at = remote->dialect->permission_codes; *at; at++)
        if (strcmp(*at, code) == 0)
            return true;
    return false;
}

static enum hf_status check_forbidden(struct remote_store *remote,
                                      const struct http_reply *reply,
                                      const struct xml_error_body *body,
                                      struct remote_advice *advice, struct hf_error *error)
{
    /* Unless it is about permissions, a refusal may mean that the credentials have expired or were
     * replaced, so they are fetched again. */
    const struct remote_refusal *refusal = remote_find_refusal(remote, body->code);
    advice->distrust = !is_about_permission(remote, body->code);
    return remote_set_error(error, HF_DENIED, reply, body,
                            refusal ? refusal->remedy
                                    : "check the credentials and their permissions");
}

static enum hf_status check_bad_request(struct remote_store *remote,
                                        const struct http_reply *reply,
                                        const struct xml_error_body *body,
                                        struct remote_advice *advice, struct hf_error *error)
{
    const struct remote_refusal *refusal = remote_find_refusal(remote, body->code);
    enum hf_status status = refusal ? refusal->status : HF_INVALID;
    advice->again = status == HF_UNAVAILABLE;
    advice->distrust = status == HF_DENIED;
    return remote_set_error(error, status, reply, body, refusal ? refusal->remedy : NULL);
}

static enum hf_status check_conflict(struct remote_store *remote,
                                     const struct remote_request *request,
                                     const struct http_reply *reply,
                                     const struct xml_error_body *body,
                                     struct remote_advice *advice, struct hf_error *error)
{
    bool asked = request->condition != CONDITION_ALWAYS;
    const struct remote_refusal *refusal = remote_find_refusal(remote, body->code);
    if (refusal) /* something else than the condition */
        return remote_set_error(error, refusal->status, reply, body, refusal->remedy);
    /* AWS answers so where another write or delete of the object was in progress, whatever came of
     * it. The condition was not decided, and nothing was changed: the request is sent again, unless
     * the caller does more than that. */
    bool undecided = asked && remote_is_undecided_code(body->code);
    advice->resend = undecided;
    /* Without a condition, 409 means that another request for the key is in progress. */
    advice->again = !asked || undecided;
    if (undecided)
        return remote_set_error(error, HF_CONFLICT, reply, body,
                                "another write was in progress");
    if (request->condition == CONDITION_ABSENT)
        return remote_set_error(error, HF_CONFLICT, reply, body, "the object already exists");
    return remote_set_error(error, asked ? HF_CONFLICT : HF_UNAVAILABLE, reply, body,
                            asked ? "the object has changed" : NULL);
}

static enum hf_status check_server_error(const struct remote_request *request,
                                         const struct http_reply *reply,
                                         const struct xml_error_body *body,
                                         struct remote_advice *advice, struct hf_error *error)
{
    /* A gateway may fail after it has passed a write on, so a 5xx says nothing about the outcome of
     * a write. */
    advice->again = reply->status != 501;
    if (request->writes)
        return remote_set_error(error, HF_UNSURE, reply, body, NULL);
    return remote_set_error(error, reply->status == 501 ? HF_UNSUPPORTED : HF_UNAVAILABLE,
                            reply, body, NULL);
}

/* Whether this attempt names a version that the caller has. */
static bool names_known_version(const struct remote_request *request)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (view_equal(request->headers[i].name, VIEW("if-none-match")))
            return true;
    return false;
}

/* 304 is for reads, but some stores refuse a put with If-None-Match this way. A broken cache may
 * answer so to any read. It would then stand for a version that the caller does not have. */
static enum hf_status check_not_modified(const struct remote_request *request,
                                         struct hf_error *error)
{
    if (!request->writes && names_known_version(request))
        return error_set(error, HF_NOT_MODIFIED, "not modified");
    if (!request->writes)
        return error_set(error, HF_UNAVAILABLE,
                         "the store answered 304 to a read without a condition");
    if (request->condition == CONDITION_ALWAYS)
        return error_set(error, HF_UNAVAILABLE, "the store answered 304 to a write");
    return error_set(error, HF_CONFLICT, "%s",
                     request->condition == CONDITION_ABSENT ? "the object already exists"
                                                            : "the object has changed");
}

/* ---- All replies --------------------------------------------------------------------- */

static enum hf_status check_no_answer(struct remote_store *remote,
                                      const struct remote_request *request,
                                      const struct http_reply *reply,
                                      struct remote_advice *advice, struct hf_error *error)
{
    advice->again = true;
    if (reply->outcome == HTTP_NO_ANSWER && request->writes)
        return error_set(error, HF_UNSURE, "no answer from %s: %s", remote->host,
                         reply->error.why);
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
                         "cannot reach %s: %s (this machine's clock says %s)", remote->origin,
                         reply->error.why, time_text(env_wall(remote->base.env), ours));
    }
    return error_set(error, HF_UNAVAILABLE, "cannot reach %s: %s", remote->origin,
                     reply->error.why);
}

static enum hf_status check_http_status(struct remote_store *remote,
                                        const struct remote_request *request,
                                        const struct http_reply *reply,
                                        const struct xml_error_body *body,
                                        struct remote_advice *advice, struct hf_error *error)
{
    int status = reply->status;
    if (status >= 500)
        return check_server_error(request, reply, body, advice, error);
    if (remote_is_skew_code(body->code))
        return set_skew_error(remote, request, reply, body, error);
    if (remote->dialect->explain(remote, reply, body, error))
        return error->status;
    const struct remote_refusal *refusal = remote_find_refusal(remote, body->code);
    switch (status) {
    case 304: return check_not_modified(request, error);
    case 400: return check_bad_request(remote, reply, body, advice, error);
    case 401:
    case 403: return check_forbidden(remote, reply, body, advice, error);
    case 404: return check_not_found(remote, request, reply, body, error);
    case 409: return check_conflict(remote, request, reply, body, advice, error);
    case 412:
        if (refusal)
            return remote_set_error(error, refusal->status, reply, body, refusal->remedy);
        return error_set(error, HF_CONFLICT, "%s",
                         request->condition == CONDITION_ABSENT ? "the object already exists"
                                                                : "the object has changed");
    case 416:
        return error_set(error, HF_INVALID, "the range starts after the end of the object");
    case 408:
    case 429:
        advice->again = true;
        advice->resend = status == 429 && remote->dialect->limits_writes;
        return remote_set_error(error, HF_UNAVAILABLE, reply, body, NULL);
    default: break;
    }
    return remote_set_error(error, refusal ? refusal->status : HF_INVALID, reply, body,
                            refusal ? refusal->remedy : NULL);
}

enum hf_status remote_check_reply(struct remote_store *remote,
                                  const struct remote_request *request,
                                  const struct http_reply *reply,
                                  struct remote_advice *ret_advice, struct hf_error *error)
{
    *ret_advice = (struct remote_advice){ 0 };
    /* A write that was stopped before a reply began was never sent completely. */
    if (reply->outcome == HTTP_STOPPED && request->writes && reply->status >= 200)
        return error_set(error, HF_UNSURE, "the reply cannot be used: %s", reply->error.why);
    if (reply->outcome == HTTP_STOPPED) {
        *error = reply->error;
        return error->status;
    }
    if (reply->outcome != HTTP_ANSWERED)
        return check_no_answer(remote, request, reply, ret_advice, error);
    bool done = reply->status >= 200 && reply->status < 300;
    /* S3 may answer a long write with 200 and an error document, so the bodies of replies to writes
     * are checked. */
    if (done && !request->writes)
        return error_clear(error);
    struct xml_error_body body;
    bool is_error = xml_error(buffer_view(&reply->body), &body);
    if (done) /* success with an error in the body: the outcome is unknown */
        return is_error ? remote_set_error(error, HF_UNSURE, reply, &body, NULL)
                        : error_clear(error);
    return check_http_status(remote, request, reply, &body, ret_advice, error);
}
