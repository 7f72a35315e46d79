/* SPDX-License-Identifier: Apache-2.0 */
/* skew.c: the time to sign with. S3 and Azure refuse a request if the time in its signature differs
 * from their own by more than 15 minutes. Many machines have a wrong wall clock, such as boards
 * without a battery and guests that were suspended. So requests are signed with the store's own
 * time, taken from its replies and advanced by the boot-time clock, which never jumps.
 *
 * This time is only for signatures. src/doc/clock.c decides whether a lease has ended, and knows
 * how far off each date may be. */
#include "base/parse.h"
#include "store/remote/remote.h"
#include "store/remote/xml.h"

#include <stdlib.h>

/* A difference that no store objects to. */
#define CLEARLY_APART SPAN_S(300)

/* If a reply took longer than this, its date may be from its start or from its end. */
#define DATED_WITHIN SPAN_S(60)

struct wall_time remote_signing_time(struct remote_store *remote)
{
    env_mutex_lock(&remote->shared.mutex);
    bool known = remote->shared.time_known;
    int64_t offset_us = remote->shared.time_offset_us;
    env_mutex_unlock(&remote->shared.mutex);
    if (!known)
        return env_wall(remote->base.env);
    return (struct wall_time){ env_now(remote->base.env).us + offset_us };
}

static bool is_dated(const struct http_reply *reply)
{
    return reply->outcome == HTTP_ANSWERED && reply->has_date && !reply->has_age;
}

void remote_learn_time(struct remote_store *remote, const struct http_reply *reply)
{
    if (!is_dated(reply) || mono_since(reply->received, reply->sent).us > DATED_WITHIN.us)
        return;
    env_mutex_lock(&remote->shared.mutex);
    /* Once the store has refused its own dates, they are no longer used: a proxy may write them. */
    if (!remote->shared.dates_refused) {
        remote->shared.time_known = true;
        remote->shared.time_offset_us = reply->date.us - reply->received.us;
    }
    env_mutex_unlock(&remote->shared.mutex);
}

bool remote_store_time(const struct http_reply *reply, const struct xml_error_body *body,
                       struct wall_time *ret_time)
{
    struct hf_error ignored;
    if (body->server_time[0] &&
        parse_time(view_of(body->server_time), ret_time, &ignored) == HF_OK)
        return true;
    if (is_dated(reply))
        *ret_time = reply->date;
    return is_dated(reply);
}

static struct span apart(struct wall_time a, struct wall_time b)
{
    return SPAN_US(llabs(a.us - b.us));
}

/* Not every store says explicitly that it has refused the time. A refusal whose date is far from
 * our signature's time may have that reason. */
static bool refused_for_time(const struct remote_request *request,
                             const struct http_reply *reply, const struct xml_error_body *body)
{
    struct wall_time theirs;
    if (remote_is_skew_code(body->code))
        return true;
    return (reply->status == 401 || reply->status == 403) &&
           remote_store_time(reply, body, &theirs) &&
           apart(theirs, request->signed_at).us > CLEARLY_APART.us;
}

/* If a store refuses a signature with the time that it reported, that time is wrong (a proxy
 * may have written it), and only the wall clock is left. Dates that the refusal itself
 * contradicts are not trusted either. */
bool remote_correct_time(struct remote_store *remote, const struct remote_request *request,
                         const struct http_reply *reply)
{
    struct xml_error_body body;
    struct wall_time next = request->signed_at;
    if (reply->outcome != HTTP_ANSWERED || reply->status < 400 || reply->status > 403)
        return false;
    xml_error(buffer_view(&reply->body), &body);
    if (!refused_for_time(request, reply, &body))
        return false;
    bool told = remote_store_time(reply, &body, &next) &&
                apart(next, request->signed_at).us > SPAN_S(1).us;
    if (!told)
        next = env_wall(remote->base.env);
    bool contradicted = is_dated(reply) && apart(next, reply->date).us > CLEARLY_APART.us;
    env_mutex_lock(&remote->shared.mutex);
    remote->shared.time_known = told;
    remote->shared.time_offset_us = next.us - reply->received.us;
    remote->shared.dates_refused = remote->shared.dates_refused || !told || contradicted;
    env_mutex_unlock(&remote->shared.mutex);
    return apart(next, request->signed_at).us > SPAN_S(1).us;
}
