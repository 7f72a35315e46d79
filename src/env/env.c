#include "env/env.h"

#include "base/check.h"

uint64_t env_random_u64(struct env *env)
{
    uint64_t value;
    env_random(env, &value, sizeof value);
    return value;
}

uint64_t env_random_below(struct env *env, uint64_t bound)
{
    check(bound > 0);
    uint64_t fair = UINT64_MAX - UINT64_MAX % bound; /* above it the remainders are uneven */
    uint64_t value;
    do
        value = env_random_u64(env);
    while (value >= fair);
    return value % bound;
}

struct span env_jitter(struct env *env, struct span limit)
{
    return SPAN_US(env_random_below(env, (uint64_t)limit.us + 1));
}
