/* SPDX-License-Identifier: Apache-2.0 */
/* prng.h: a pseudo-random sequence from a seed, identical on every machine and with every compiler,
 * for fault plans, the simulator and tests. It is never used for names or nonces, which come from
 * env_random. */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
    uint64_t state;
};

static inline struct prng prng_seeded(uint64_t seed)
{
    return (struct prng){ seed };
}

/* SplitMix64: a counter passed through a mixing function. It passes the usual test suites. */
static inline uint64_t prng_next(struct prng *prng)
{
    uint64_t z = (prng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Returns a number in [0, bound); bound > 0. The modulo bias is below 2^-32 for bounds below
 * 2^32. */
static inline uint64_t prng_below(struct prng *prng, uint64_t bound)
{
    return prng_next(prng) % bound;
}

/* True with a probability of `per_million` in a million. */
static inline bool prng_chance(struct prng *prng, uint32_t per_million)
{
    return prng_below(prng, 1000000) < per_million;
}

#endif
