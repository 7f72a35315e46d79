/* SPDX-License-Identifier: Apache-2.0 */
/* env.c: unbiased random numbers, and jitter, built on env_random. */
#include "env/env.h"

#include "base/check.h"
#include "base/parse.h"

uint64_t env_random_u64(struct env *env)
{
    uint64_t value;
    env_random(env, &value, sizeof value);
    return value;
}

void env_random_hex(struct env *env, size_t digits, char *text)
{
    unsigned char bytes[32];
    check(digits % 2 == 0 && digits / 2 <= sizeof bytes);
    env_random(env, bytes, digits / 2);
    hex_encode(bytes, digits / 2, text);
}

uint64_t env_random_below(struct env *env, uint64_t bound)
{
    check(bound > 0);
    uint64_t fair = UINT64_MAX - UINT64_MAX % bound; /* larger values would be biased */
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
