/* SPDX-License-Identifier: Apache-2.0 */
/* retry.c: when a request that got no answer is sent again (retry.h). Without the budget, the
 * clients of a store that comes back after an outage would all send their retries at once. */
#include "store/retry.h"

#include "base/rule.h"

/* How often a wait looks for a token, and whether it is to go on. */
#define SLICE SPAN_MS(250)

static bool is_over(const struct retry *retry, struct mono_time now)
{
    const struct progress *progress = retry->progress;
    return (retry->until.us > 0 && !mono_before(now, retry->until)) ||
           (progress && !progress->step(progress->argument, 0, 0));
}

/* False if the series ends meanwhile. */
static bool pause_retry(const struct retry *retry, struct mono_time until)
{
    struct env *env = retry->store->env;
    struct mono_time now = env_now(env);
    while (mono_before(now, until)) {
        env_sleep_until(env, mono_earlier(mono_add(now, SLICE), until));
        now = env_now(env);
        if (is_over(retry, now))
            return false;
    }
    return true;
}

/* Tokens are shared with other tasks, so a task that finds none looks again at a random time. */
static bool wait_for_token(struct retry *retry)
{
    struct env *env = retry->store->env;
    struct mono_time now = env_now(env), until = mono_add(now, RETRY_TOKEN_MAX);
    while (!is_over(retry, now) && mono_before(now, until)) {
        retry->paid = retry_budget_take(store_budget(retry->store), now);
        if (retry->paid)
            return true;
        struct span wait = SPAN_US(1000 + env_jitter(env, SPAN_US(2 * SLICE.us)).us);
        if (!pause_retry(retry, mono_add(now, wait)))
            return false;
        now = env_now(env);
    }
    return false;
}

bool retry_after(struct retry *retry, enum hf_status status)
{
    struct env *env = retry->store->env;
    bool answered = retry_is_answered(status);
    if (retry->paid && answered)
        retry_budget_refund(store_budget(retry->store));
    retry->paid = false;
    if ((answered && !(retry->conflicts_too && status == HF_CONFLICT)) || retry->left == 0 ||
        is_over(retry, env_now(env)))
        return false;
    retry->left--;
    struct span limit = span_smaller(retry->pause, RETRY_PAUSE_MAX);
    retry->pause.us = 2 * limit.us;
    if (!pause_retry(retry, mono_add(env_now(env), env_jitter(env, limit))))
        return false;
    bool may = true;
    if (RULE(RETRIES_ARE_LIMITED) && !answered)
        may = wait_for_token(retry);
    return may;
}
