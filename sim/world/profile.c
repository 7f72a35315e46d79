/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: draws latencies, and counts requests against the limits of profile.h. */
#include "sim/world/profile.h"

#include "base/check.h"
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

const struct store_profile profile_s3 = {
    .read_us = { 8000, 15000, 30000, 80000, 200000, 500000 },
    .write_us = { 35000, 60000, 90000, 200000, 500000, 1000000 },
    .prefix_reads_per_s = 5500,
    .prefix_writes_per_s = 3500,
    .object_writes_per_s = 15,
};

/* A prefix may send the requests of one second at once. */
#define BURST_NS INT64_C(1000000000)

/* A prefix, or an object that is written conditionally. */
struct limited {
    int64_t reads_ns, writes_ns; /* of a prefix: until when its rates are used up */
    int64_t wrote_us;            /* of an object: its last write */
    struct view key;
    char space[];
};

struct profile_limits {
    struct map prefixes, objects;
};

struct profile_limits *profile_limits_new(void)
{
    struct profile_limits *limits = calloc(1, sizeof *limits);
    check(limits);
    return limits;
}

static void free_all(struct map *map)
{
    struct limited *limited;
    while ((limited = map_seek(map, VIEW(""), /* beyond */ false)))
        free(map_take(map, limited->key));
    map_release(map);
}

void profile_limits_free(struct profile_limits *limits)
{
    free_all(&limits->prefixes);
    free_all(&limits->objects);
    free(limits);
}

static struct limited *limited_of(struct map *map, struct view key)
{
    struct limited *limited = map_get(map, key);
    void *old;
    if (limited)
        return limited;
    limited = calloc(1, sizeof *limited + key.size);
    check(limited);
    memcpy(limited->space, key.data, key.size);
    limited->key = (struct view){ limited->space, key.size };
    limited->wrote_us = INT64_MIN;
    check(map_put(map, limited->key, limited, &old));
    return limited;
}

int64_t profile_draw_us(const struct store_profile *profile, bool write, struct prng *prng)
{
    static const int64_t parts[PROFILE_QUANTILES] = {
        0, 500000, 900000, 990000, 999000, 1000000
    };
    const int64_t *us = write ? profile->write_us : profile->read_us;
    int64_t part = (int64_t)prng_below(prng, 1000000);
    size_t i = 1;
    while (part >= parts[i])
        i++;
    return us[i - 1] + (us[i] - us[i - 1]) * (part - parts[i - 1]) / (parts[i] - parts[i - 1]);
}

/* Each request uses up a part of a second; the rate is exceeded if more than the burst is used. */
static bool use_rate(int64_t *until_ns, int64_t per_s, int64_t now_ns)
{
    int64_t from_ns = *until_ns > now_ns ? *until_ns : now_ns;
    if (from_ns - now_ns > BURST_NS)
        return false;
    *until_ns = from_ns + INT64_C(1000000000) / per_s;
    return true;
}

enum profile_answer profile_admit(struct profile_limits *limits,
                                  const struct store_profile *profile,
                                  const struct profile_request *request)
{
    struct view rest = request->key;
    struct limited *prefix = limited_of(&limits->prefixes, view_cut(&rest, '/'));
    bool in_rate =
        use_rate(request->write ? &prefix->writes_ns : &prefix->reads_ns,
                 request->write ? profile->prefix_writes_per_s : profile->prefix_reads_per_s,
                 request->at_us * 1000);
    if (!in_rate)
        return PROFILE_THROTTLES;
    const struct limited *object =
        request->conditional ? map_get(&limits->objects, request->key) : NULL;
    bool busy = object && object->wrote_us != INT64_MIN &&
                request->at_us - object->wrote_us < 1000000 / profile->object_writes_per_s;
    return busy ? PROFILE_REFUSES : PROFILE_ADMITS;
}

void profile_wrote(struct profile_limits *limits, struct view key, int64_t at_us)
{
    limited_of(&limits->objects, key)->wrote_us = at_us;
}
