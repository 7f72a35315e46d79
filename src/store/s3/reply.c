/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: the refusals that only S3 sends. store/remote/reply.c maps all other replies. */
#include "store/remote/xml.h"
#include "store/s3/inside.h"

#include <stdio.h>

static const struct remote_refusal refusals[] = {
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

static const char *const permission_codes[] = { "AccessDenied", NULL };

static enum hf_status set_region_error(struct s3_store *s3, const struct http_reply *reply,
                                       const struct xml_error_body *body,
                                       struct hf_error *error)
{
    const char *region = body->region[0] ? body->region : reply->region;
    if (region[0])
        return error_set(error, HF_INVALID,
                         "bucket '%s' is in region '%s', not '%s': put region=%s into the URL",
                         s3->remote.bucket, region, s3->region, region);
    const char *where = body->endpoint[0] ? body->endpoint : reply->location;
    return error_set(
        error, HF_INVALID,
        "the store answered %d: bucket '%s' is at %s; correct endpoint= or region= "
        "in the URL",
        reply->status, s3->remote.bucket, where[0] ? where : "another endpoint");
}

bool s3_explain_bucket(struct remote_store *remote, const struct http_reply *reply,
                       const struct xml_error_body *body, struct hf_error *error)
{
    struct s3_store *s3 = s3_of(&remote->base);
    bool malformed = reply->status == 400 &&
                     strcmp(body->code, "AuthorizationHeaderMalformed") == 0 && body->region[0];
    bool elsewhere = reply->status >= 300 && reply->status < 400 && reply->status != 304;
    if (reply->status == 404 && strcmp(body->code, "NoSuchBucket") == 0)
        error_set(error, HF_INVALID,
                  "there is no bucket '%s' at %s: create it, or correct the URL",
                  remote->bucket, remote->origin);
    else if (malformed || elsewhere)
        set_region_error(s3, reply, body, error);
    else
        return false;
    return true;
}

const struct remote_dialect s3_dialect = {
    .service = "S3",
    .credentials_size = sizeof(struct s3_credentials),
    .send = s3_dialect_send,
    .distrust = s3_distrust_credentials,
    .refusals = refusals,
    .refusal_count = sizeof refusals / sizeof refusals[0],
    .permission_codes = permission_codes,
    .explain = s3_explain_bucket,
};

enum hf_status s3_check_code(struct s3_store *s3, struct view code, struct view message,
                             struct hf_error *error)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", VIEW_ARGS(view_first(code, sizeof text - 1)));
    if (strcmp(text, "NoSuchKey") == 0)
        return error_clear(error);
    const struct remote_refusal *refusal = remote_find_refusal(&s3->remote, text);
    return error_set(error, refusal ? refusal->status : HF_UNSURE,
                     "the store answered %s: %.*s", text, VIEW_ARGS(message));
}
