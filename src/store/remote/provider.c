/* SPDX-License-Identifier: Apache-2.0 */
/* provider.c: caches credentials, and fetches them again before they end. */
#include "store/remote/provider.h"

#include "store/remote/secret.h"
#include "store/remote/xml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Credentials are fetched again this long before they expire, unless their source says another
 * time. */
#define REFRESH_BEFORE SPAN_S(300)

/* The shortest time between two searches, after the store has refused the credentials or an
 * endpoint has failed. */
#define LOOK_AGAIN_AFTER SPAN_S(5)

#define METADATA_TIME_OUT SPAN_S(2)
#define IDENTITY_TIME_OUT SPAN_S(10)

/* ---- For sources --------------------------------------------------------------------- */

enum hf_status provider_read_file(const char *path, struct buffer *to, struct hf_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? error_set(error, HF_NOT_FOUND, "no such file: %s", path)
                   : error_cannot_open(error, errno, path);
    struct stat st;
    ssize_t got = 1;
    /* Reserve the whole size first: growing the buffer would leave copies of the secret in
     * memory. */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < (off_t)to->max)
        buffer_reserve(to, (size_t)st.st_size + 1);
    while (got > 0 && buffer_reserve(to, 1)) {
        got = read(fd, to->data + to->size, to->capacity - to->size - 1);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            to->size += (size_t)got;
    }
    int failed = got < 0 ? errno : 0;
    close(fd);
    if (failed)
        return error_cannot_open(error, failed, path);
    return to->failed ? error_set(error, HF_INVALID, "%s is too large", path)
                      : error_clear(error);
}

enum hf_status provider_request(struct provider *provider, const struct http_request *asked,
                                bool metadata, struct buffer *to, struct hf_error *error)
{
    struct http_options options = { .connections = 1,
                                    .connect_time_out = metadata ? SPAN_S(1) : SPAN_S(5),
                                    .ca_file = provider->ca_file,
                                    .no_proxy = metadata };
    struct http_pool *pool;
    if (http_pool_open(provider->env, &options, &pool, error) != HF_OK)
        return error->status;
    struct http_request request = *asked;
    request.deadline =
        mono_add(env_now(provider->env), metadata ? METADATA_TIME_OUT : IDENTITY_TIME_OUT);
    if (mono_before(provider->deadline, request.deadline))
        request.deadline = provider->deadline;
    struct http_reply reply;
    http_perform(pool, &request, PROVIDER_ANSWER_MAX, &reply);
    provider->answered = reply.received;
    provider->date = reply.has_date && !reply.has_age ? reply.date : env_wall(provider->env);
    struct xml_error_body body;
    if (reply.outcome != HTTP_ANSWERED)
        error_set(error, HF_UNAVAILABLE, "%s", reply.error.why);
    else if (reply.status < 200 || reply.status > 299)
        error_set(error, reply.status >= 500 ? HF_UNAVAILABLE : HF_DENIED,
                  "the endpoint answered %d %s", reply.status,
                  xml_error(buffer_view(&reply.body), &body) ? body.code : "");
    else if (!buffer_append(to, buffer_view(&reply.body)))
        error_no_memory(error);
    else
        error_clear(error);
    secret_buffer_release(&reply.body);
    http_pool_close(pool);
    return error->status;
}

/* ---- Caching ------------------------------------------------------------------------- */

enum hf_status provider_init(struct provider *provider, struct env *env, const char *ca_file,
                             const struct provider_source *source, struct hf_error *error)
{
    void *credentials = secret_new(source->size);
    char *ca_copy = ca_file ? strdup(ca_file) : NULL;
    if (!credentials || (ca_file && !ca_copy)) {
        secret_free(credentials, source->size);
        free(ca_copy);
        return error_no_memory(error);
    }
    *provider = (struct provider){ .env = env, .source = source, .ca_file = ca_copy };
    provider->shared.credentials = credentials;
    env_mutex_init(env, &provider->shared.mutex);
    env_cond_init(env, &provider->shared.fetched);
    return error_clear(error);
}

void provider_release(struct provider *provider)
{
    env_cond_release(&provider->shared.fetched);
    env_mutex_release(&provider->shared.mutex);
    free(provider->ca_file);
    secret_free(provider->shared.credentials, provider->source->size);
}

static const struct credentials_life *life_of(const struct provider *provider)
{
    return provider->shared.credentials;
}

static bool good_for_locked(struct provider *provider, struct span span)
{
    if (!provider->shared.have)
        return false;
    return !life_of(provider)->ends ||
           mono_before(mono_add(env_now(provider->env), span), provider->shared.ends_at);
}

/* Whether to use the cached credentials. Credentials that expire soon, or that were refused, are
 * used only if they are still valid and a search is running or has just ended. */
static bool cache_is_usable_locked(struct provider *provider)
{
    int seconds = provider->source->refresh_before_s;
    struct span before = seconds > 0 ? SPAN_S(seconds) : REFRESH_BEFORE;
    bool settled = !provider->shared.distrusted && good_for_locked(provider, before);
    struct mono_time again = mono_add(provider->shared.looked_at, LOOK_AGAIN_AFTER);
    bool recent =
        provider->shared.looked_at.us != 0 && mono_before(env_now(provider->env), again);
    bool wait = provider->shared.fetching || recent;
    return settled || (wait && good_for_locked(provider, SPAN_US(0)));
}

static void fetch_locked(struct provider *provider, struct mono_time deadline, void *space,
                         struct hf_error *error)
{
    provider->shared.fetching = true;
    provider->deadline = deadline;
    env_mutex_unlock(&provider->shared.mutex);
    enum hf_status status = provider->source->search(provider, space, error);
    env_mutex_lock(&provider->shared.mutex);
    if (status == HF_OK) {
        memcpy(provider->shared.credentials, space, provider->source->size);
        const struct credentials_life *life = life_of(provider);
        if (life->ends)
            /* On the boot-time clock, computed from the date of the answer that contained them,
             * because the wall clock of this machine may be wrong. */
            provider->shared.ends_at =
                mono_add(provider->answered, wall_since(life->expires, provider->date));
        provider->shared.have = true;
        provider->shared.distrusted = false;
    }
    provider->shared.looked_at = env_now(provider->env);
    provider->shared.cut_short = !mono_before(provider->shared.looked_at, deadline);
    if (status != HF_OK && provider->shared.cut_short)
        error_set(error, HF_UNAVAILABLE, "the credentials did not arrive before the deadline");
    provider->shared.failure = *error;
    provider->shared.fetching = false;
    env_cond_broadcast(&provider->shared.fetched);
}

enum hf_status provider_get(struct provider *provider, struct mono_time deadline,
                            void *ret_credentials, struct hf_error *error)
{
    bool in_time = true, waited = false;
    error_clear(error);
    env_mutex_lock(&provider->shared.mutex);
    while (!cache_is_usable_locked(provider) && provider->shared.fetching && in_time) {
        in_time =
            env_cond_wait_until(&provider->shared.fetched, &provider->shared.mutex, deadline);
        waited = !provider->shared.fetching && !provider->shared.cut_short;
    }
    /* A task that waited for a search takes its result, even a failure; otherwise all tasks would
     * search, one after the other. */
    if (waited)
        *error = provider->shared.failure;
    else if (!cache_is_usable_locked(provider) && !provider->shared.fetching)
        fetch_locked(provider, deadline, ret_credentials, error);
    if (good_for_locked(provider, SPAN_US(0))) {
        memcpy(ret_credentials, provider->shared.credentials, provider->source->size);
        error_clear(error);
    } else if (error->status == HF_OK) {
        error_set(error, HF_UNAVAILABLE, "the credentials did not arrive before the deadline");
    }
    env_mutex_unlock(&provider->shared.mutex);
    return error->status;
}

void provider_distrust(struct provider *provider)
{
    env_mutex_lock(&provider->shared.mutex);
    provider->shared.distrusted = true;
    env_mutex_unlock(&provider->shared.mutex);
}
