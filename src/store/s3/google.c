/* SPDX-License-Identifier: Apache-2.0 */
/* google.c: what Google Cloud Storage does in another way than S3, in the XML interface of both.
 *
 * The version of an object is its generation number, which is new on every write. Writes and
 * deletes are conditional on it; 0 means that the object must not exist. Google ignores If-Match
 * and If-None-Match on writes, and on reads they compare hashes of the content. So ETags are not
 * used at all: where store.h says ETag, this store has generations. */
#include "base/parse.h"
#include "store/s3/inside.h"

#define MATCH_HEADER "x-goog-if-generation-match"

/* ---- Conditions ---------------------------------------------------------------------- */

/* A positive number without leading zeros. "0" would mean that the object must not exist. */
static bool is_generation(const struct etag *etag)
{
    struct view text = etag_view(etag);
    uint64_t number;
    return text.size > 0 && text.data[0] != '0' &&
           parse_u64(text, INT64_MAX, &number, NULL) == HF_OK;
}

enum hf_status google_add_condition(struct remote_request *request,
                                    const struct condition *condition, struct hf_error *error)
{
    request->condition = condition->kind;
    if (condition->kind == CONDITION_ALWAYS)
        return HF_OK;
    if (condition->kind == CONDITION_ABSENT) {
        remote_add_header(request, MATCH_HEADER, VIEW("0"));
        return HF_OK;
    }
    if (!is_generation(&condition->etag))
        return error_set(error, HF_CONFLICT, "the object has changed");
    remote_add_header(request, MATCH_HEADER, etag_view(&condition->etag));
    return HF_OK;
}

/* ---- Refusals ------------------------------------------------------------------------ */

#define CHECK_KEYS "check GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, or the profile"

static const struct remote_refusal refusals[] = {
    { "InvalidAccessKeyId", HF_DENIED, "Google does not know this HMAC key: " CHECK_KEYS },
    { "InvalidSecurity", HF_DENIED, "Google does not know this HMAC key: " CHECK_KEYS },
    { "SignatureDoesNotMatch", HF_DENIED, "the secret key is wrong: " CHECK_KEYS },
    { "AccessDenied", HF_DENIED,
      "the account of this HMAC key may not do this: give it the role Storage Object Admin for "
      "the bucket" },
    { "BadDigest", HF_UNAVAILABLE, "the body was damaged in transit; nothing was stored" },
    { "IncompleteBody", HF_UNAVAILABLE, "the body arrived incomplete; nothing was stored" },
    { "RequestTimeout", HF_UNAVAILABLE, "the store waited too long for the body" },
    { "EntityTooLarge", HF_INVALID, "the object is too large for one put" },
    { "KeyTooLongError", HF_INVALID, "the key is too long for this store" },
    { "NotImplemented", HF_UNSUPPORTED, NULL },
    { "MethodNotAllowed", HF_UNSUPPORTED, NULL },
};

static const char *const permission_codes[] = { "AccessDenied", NULL };

/* Google accepts no line breaks in names, and no object that is called "." or "..". */
static enum hf_status google_check_key(struct view key, struct hf_error *error)
{
    if (view_find(key, '\n') < key.size || view_find(key, '\r') < key.size)
        return error_set(error, HF_INVALID,
                         "Google Cloud Storage accepts no line breaks in keys");
    if (view_equal(key, VIEW(".")) || view_equal(key, VIEW("..")))
        return error_set(error, HF_INVALID,
                         "Google Cloud Storage accepts no key '.' and no key '..'");
    return HF_OK;
}

const struct remote_dialect google_dialect = {
    .service = "Google Cloud Storage",
    .credentials_size = sizeof(struct s3_credentials),
    .send = s3_dialect_send,
    .distrust = s3_distrust_credentials,
    .refusals = refusals,
    .refusal_count = sizeof refusals / sizeof refusals[0],
    .permission_codes = permission_codes,
    .explain = s3_explain_bucket,
    .check_key = google_check_key,
    .version_header = "x-goog-generation",
    .match_header = MATCH_HEADER,
    .is_version = is_generation,
    .limits_writes = true, /* about one write per second of the same object */
};
