/* SPDX-License-Identifier: Apache-2.0 */
/* express.c: directory buckets, S3 Express One Zone. Their names end in "--ZONE--x-s3". They are in
 * one zone, at an endpoint of that zone, and requests are signed with the keys of a session, which
 * lasts five minutes. Their listings have no order (unordered.c), their ETags are random, and they
 * accept no Content-MD5 where objects are put. */
#include "store/remote/secret.h"
#include "store/s3/inside.h"
#include "store/s3/sources.h"

#include <stdio.h>
#include <stdlib.h>

/* A session is replaced this long before it ends. */
#define SESSION_REFRESH_BEFORE_S 60

struct s3_session {
    struct provider cache; /* of the session's keys */
    struct s3_store *s3;
};

bool s3_find_zone(const char *bucket, char zone[S3_ZONE_MAX + 1])
{
    struct view name = view_of(bucket), end = VIEW("--x-s3");
    zone[0] = '\0';
    if (!view_ends_with(name, end))
        return false;
    name.size -= end.size;
    size_t start = name.size;
    while (start > 1 && strncmp(bucket + start - 2, "--", 2) != 0)
        start--;
    struct view found = view_from(name, start);
    if (start <= 3 || found.size == 0 || found.size > S3_ZONE_MAX)
        return false;
    snprintf(zone, S3_ZONE_MAX + 1, "%.*s", VIEW_ARGS(found));
    return true;
}

void s3_zone_endpoint(const struct s3_store *s3, bool dualstack, char *uri, size_t size)
{
    snprintf(uri, size, "https://s3express-%s.%s%s.amazonaws.com%s", s3->zone,
             dualstack ? "dualstack." : "", s3->region, s3_is_china(s3->region) ? ".cn" : "");
}

/* ---- Sessions ------------------------------------------------------------------------ */

/* The keys of the caller buy those of a session, which allow reads and writes. */
static enum hf_status create_session(struct provider *cache, void *ret_credentials,
                                     struct hf_error *error)
{
    struct s3_session *session = (struct s3_session *)cache;
    struct s3_store *s3 = session->s3;
    struct s3_credentials *keys = secret_new(sizeof *keys);
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    char uri[REMOTE_HOST_MAX + 16];
    if (!keys)
        return error_no_memory(error);
    snprintf(uri, sizeof uri, "%s/", s3->remote.origin);
    const struct s3_signed_call call = { .method = "GET",
                                         .uri = uri,
                                         .query = VIEW("session="),
                                         .region = view_of(s3->region),
                                         .service = VIEW("s3express") };
    if (s3_provider_get(s3->provider, cache->deadline, keys, error) == HF_OK &&
        s3_send_signed(cache, &call, keys, remote_signing_time(&s3->remote), &answer, error) ==
            HF_OK)
        s3_credentials_from_xml(buffer_view(&answer), "CreateSessionResult", ret_credentials,
                                error);
    else if (error->status == HF_DENIED)
        s3_provider_distrust(s3->provider);
    if (error->status != HF_OK)
        error_prefix(error,
                     "no session with the directory bucket '%s' (it needs the permission "
                     "s3express:CreateSession)",
                     s3->remote.bucket);
    secret_buffer_release(&answer);
    secret_free(keys, sizeof *keys);
    return error->status;
}

static const struct provider_source source_of_sessions = {
    .size = sizeof(struct s3_credentials),
    .search = create_session,
    .refresh_before_s = SESSION_REFRESH_BEFORE_S,
};

enum hf_status s3_session_open(struct s3_store *s3, const char *ca_file, struct hf_error *error)
{
    struct s3_session *session = calloc(1, sizeof *session);
    if (!session)
        return error_no_memory(error);
    session->s3 = s3;
    if (provider_init(&session->cache, s3->remote.base.env, ca_file, &source_of_sessions,
                      error) != HF_OK) {
        free(session);
        return error->status;
    }
    s3->session = session;
    return HF_OK;
}

void s3_session_close(struct s3_session *session)
{
    if (!session)
        return;
    provider_release(&session->cache);
    free(session);
}

enum hf_status s3_find_keys(struct s3_store *s3, struct mono_time deadline,
                            struct s3_credentials *ret_credentials, struct hf_error *error)
{
    return s3->session ? provider_get(&s3->session->cache, deadline, ret_credentials, error)
                       : s3_provider_get(s3->provider, deadline, ret_credentials, error);
}

void s3_distrust_credentials(struct remote_store *remote)
{
    struct s3_store *s3 = s3_of(&remote->base);
    if (s3->session)
        provider_distrust(&s3->session->cache);
    else
        s3_provider_distrust(s3->provider);
}
