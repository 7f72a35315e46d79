/* SPDX-License-Identifier: Apache-2.0 */
/* api_time.c: the real environment with a clock that can be set forward. The linker makes the
 * library use it (--wrap=env_real). A wait in the fuzzer's thread lasts only a moment, and then
 * the clock jumps to the end of the wait, so no call takes long. */
#include "api_play.h"
#include "env/env.h"

#include <pthread.h>
#include <stdatomic.h>

/* A task checks the clock this often. */
#define SLICE SPAN_MS(2)

struct env *__real_env_real(void);
struct env *__wrap_env_real(void);

static _Atomic int64_t ahead_us;
static pthread_t player;

static struct mono_time now(struct env *env)
{
    (void)env;
    return mono_add(env_now(__real_env_real()), SPAN_US(atomic_load(&ahead_us)));
}

static struct wall_time wall(struct env *env)
{
    (void)env;
    return wall_add(env_wall(__real_env_real()), SPAN_US(atomic_load(&ahead_us)));
}

/* The player does not wait for a moment: the moment comes. */
static void catch_up(struct env *env, struct mono_time moment)
{
    int64_t left = mono_since(moment, now(env)).us;
    if (left > 0 && pthread_equal(pthread_self(), player))
        atomic_fetch_add(&ahead_us, left);
}

static void sleep_until(struct env *env, struct mono_time moment)
{
    catch_up(env, moment);
    while (mono_before(now(env), moment))
        env_sleep(__real_env_real(), SLICE);
}

static bool cond_wait_until(struct env_cond *cond, struct env_mutex *mutex,
                            struct mono_time moment)
{
    struct env *real = __real_env_real();
    if (moment.us >= MOMENT_FAR)
        return real->ops->cond_wait_until(cond, mutex, moment);
    if (!mono_before(now(cond->env), moment))
        return false;
    /* Waits may wake without a reason, so callers expect this. */
    if (!real->ops->cond_wait_until(cond, mutex, mono_add(env_now(real), SLICE)))
        catch_up(cond->env, moment);
    return mono_before(now(cond->env), moment);
}

struct env *__wrap_env_real(void)
{
    static struct env_ops ops;
    static struct env env = { .ops = &ops };
    if (!ops.now) {
        ops = *__real_env_real()->ops;
        ops.now = now;
        ops.wall = wall;
        ops.sleep_until = sleep_until;
        ops.cond_wait_until = cond_wait_until;
        player = pthread_self();
    }
    return &env;
}

void play_reset_time(void)
{
    atomic_store(&ahead_us, 0);
}

void play_pass_time(const struct play *play, int index)
{
    static const int64_t spans_ms[] = { 1, 40, 70, 150, 11000, 40000, 3700000, 90000000 };
    size_t count = sizeof spans_ms / sizeof *spans_ms;
    atomic_fetch_add(&ahead_us, spans_ms[play_byte(play, index) % count] * 1000);
}
