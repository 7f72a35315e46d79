/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h: a store with the latencies and the limits of a provider.
 *
 * A request takes a time that is drawn from a table of quantiles, half of it in each direction. The
 * store refuses a request with a 503 if the requests of its prefix exceed a rate, and with a 409 if
 * the object is still being written by another conditional write. So an object can be written only
 * so often, however many clients try.
 *
 * The prefix of a key is its first segment. S3 divides prefixes further when they are busy, which
 * takes it minutes; here it never does. */
#ifndef SIM_WORLD_PROFILE_H
#define SIM_WORLD_PROFILE_H

#include "base/prng.h"
#include "base/view.h"

#include <stdbool.h>
#include <stdint.h>

#define PROFILE_QUANTILES 6 /* 0, 50 %, 90 %, 99 %, 99.9 % and 100 % */

struct store_profile {
    int64_t read_us[PROFILE_QUANTILES];
    int64_t write_us[PROFILE_QUANTILES];
    int64_t prefix_reads_per_s;
    int64_t prefix_writes_per_s;
    int64_t object_writes_per_s; /* conditional ones that succeed */
};

/* S3 Standard, in its own region: published figures, not measurements of ours. One object takes
 * about 15 conditional writes a second, of 58 to 68 ms each; a prefix takes 3,500 writes and 5,500
 * reads a second. The tails are assumptions. */
extern const struct store_profile profile_s3;

/* The time of a request, in both directions together. */
int64_t profile_draw_us(const struct store_profile *profile, bool write, struct prng *prng);

/* What has been used of the limits. */
struct profile_limits;
struct profile_limits *profile_limits_new(void);
void profile_limits_free(struct profile_limits *limits);

struct profile_request {
    struct view key; /* for a listing: its prefix */
    bool write, conditional;
    int64_t at_us;
};

enum profile_answer {
    PROFILE_ADMITS,
    PROFILE_THROTTLES, /* 503 */
    PROFILE_REFUSES,   /* 409 */
};

enum profile_answer profile_admit(struct profile_limits *limits,
                                  const struct store_profile *profile,
                                  const struct profile_request *request);

/* A conditional write has succeeded; the object is busy for a while. */
void profile_wrote(struct profile_limits *limits, struct view key, int64_t at_us);

#endif
