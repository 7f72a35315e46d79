/* SPDX-License-Identifier: Apache-2.0 */
/* env.h: clocks, sleep, randomness, tasks, mutexes and conditions behind one interface.
 *
 * Code that uses this header is sequential and blocking. In the program a task is a thread
 * (env/real.c). In the simulator it is a fiber, and time is virtual (sim/). Outside src/env, code
 * under src/ does not read a clock, sleep, generate random numbers or start a thread by any other
 * means. It holds no library lock and keeps no thread-local state across a call to env, because in
 * the simulator another fiber of the same thread may run in the meantime.
 *
 * Any task of an env may make any call. Only env_task_start can fail. */
#ifndef ENV_ENV_H
#define ENV_ENV_H

#include "base/error.h"
#include "base/moment.h"

#include <stdatomic.h>
#include <stddef.h>

struct env;
struct env_task;

/* The struct itself has room for the state of either implementation, so initialisation cannot
 * fail. */
struct env_mutex {
    struct env *env;
    uint64_t state[8];
};

struct env_cond {
    struct env *env;
    uint64_t state[8];
};

struct env_ops {
    struct mono_time (*now)(struct env *env);
    struct wall_time (*wall)(struct env *env);
    const char *(*boot_id)(struct env *env);
    void (*sleep_until)(struct env *env, struct mono_time moment);
    void (*random)(struct env *env, void *bytes, size_t size);

    enum hf_status (*task_start)(struct env *env, void (*run)(void *), void *argument,
                                 struct env_task **ret_task, struct hf_error *error);
    void (*task_join)(struct env *env, struct env_task *task);

    void (*mutex_init)(struct env_mutex *mutex);
    void (*mutex_release)(struct env_mutex *mutex);
    void (*mutex_lock)(struct env_mutex *mutex);
    void (*mutex_unlock)(struct env_mutex *mutex);

    void (*cond_init)(struct env_cond *cond);
    void (*cond_release)(struct env_cond *cond);
    bool (*cond_wait_until)(struct env_cond *cond, struct env_mutex *mutex,
                            struct mono_time moment);
    void (*cond_signal)(struct env_cond *cond);
    void (*cond_broadcast)(struct env_cond *cond);
};

struct env {
    const struct env_ops *ops;
    atomic_bool sweeping; /* one sweep per process */
};

/* The real env: one for the whole process, never freed. */
struct env *env_real(void);

/* The boot-time clock. It runs during suspend, never jumps, and has no meaning on another
 * machine. */
static inline struct mono_time env_now(struct env *env)
{
    return env->ops->now(env);
}

/* The wall clock of this machine, for display only. */
static inline struct wall_time env_wall(struct env *env)
{
    return env->ops->wall(env);
}

/* The id of the current boot. Boot-time timestamps from two processes can be compared only if their
 * boot ids are equal. */
static inline const char *env_boot_id(struct env *env)
{
    return env->ops->boot_id(env);
}

static inline void env_sleep_until(struct env *env, struct mono_time moment)
{
    env->ops->sleep_until(env, moment);
}

static inline void env_sleep(struct env *env, struct span span)
{
    env_sleep_until(env, mono_add(env_now(env), span));
}

/* Unpredictable bytes. (In the simulator they come from the seed.) */
static inline void env_random(struct env *env, void *bytes, size_t size)
{
    env->ops->random(env, bytes, size);
}

uint64_t env_random_u64(struct env *env);

/* Writes `digits` random lower-case hexadecimal digits and a NUL, for names and nonces. `digits`
 * must be even and at most 64. */
void env_random_hex(struct env *env, size_t digits, char *text);

/* Uniform in [0, bound); bound > 0. */
uint64_t env_random_below(struct env *env, uint64_t bound);

/* Uniform in [0, limit]: full jitter. */
struct span env_jitter(struct env *env, struct span limit);

/* Every task that was started must be joined exactly once. */
static inline enum hf_status env_task_start(struct env *env, void (*run)(void *),
                                            void *argument, struct env_task **ret_task,
                                            struct hf_error *error)
{
    return env->ops->task_start(env, run, argument, ret_task, error);
}

static inline void env_task_join(struct env *env, struct env_task *task)
{
    env->ops->task_join(env, task);
}

static inline void env_mutex_init(struct env *env, struct env_mutex *mutex)
{
    mutex->env = env;
    env->ops->mutex_init(mutex);
}

static inline void env_mutex_release(struct env_mutex *mutex)
{
    mutex->env->ops->mutex_release(mutex);
}

static inline void env_mutex_lock(struct env_mutex *mutex)
{
    mutex->env->ops->mutex_lock(mutex);
}

static inline void env_mutex_unlock(struct env_mutex *mutex)
{
    mutex->env->ops->mutex_unlock(mutex);
}

static inline void env_cond_init(struct env *env, struct env_cond *cond)
{
    cond->env = env;
    env->ops->cond_init(cond);
}

static inline void env_cond_release(struct env_cond *cond)
{
    cond->env->ops->cond_release(cond);
}

/* Unlocks the mutex, waits for a signal or until the given time, and locks the mutex again. Returns
 * false once that time has come. It may also wake spuriously, so always call it in a loop that
 * checks the condition itself. */
static inline bool env_cond_wait_until(struct env_cond *cond, struct env_mutex *mutex,
                                       struct mono_time moment)
{
    return cond->env->ops->cond_wait_until(cond, mutex, moment);
}

static inline void env_cond_wait(struct env_cond *cond, struct env_mutex *mutex)
{
    env_cond_wait_until(cond, mutex, (struct mono_time){ MOMENT_FAR });
}

static inline void env_cond_signal(struct env_cond *cond)
{
    cond->env->ops->cond_signal(cond);
}

static inline void env_cond_broadcast(struct env_cond *cond)
{
    cond->env->ops->cond_broadcast(cond);
}

#endif
