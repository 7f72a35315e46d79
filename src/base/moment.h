/* SPDX-License-Identifier: Apache-2.0 */
/* moment.h: each clock has its own type. Code that adds two moments, or compares a wall clock with
 * a boot-time clock, does not compile. All types count microseconds. */
#ifndef BASE_MOMENT_H
#define BASE_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

/* A duration. */
struct span {
    int64_t us;
};

/* A moment on this machine's boot-time clock, which never jumps and runs during suspend. */
struct mono_time {
    int64_t us;
};

/* Wall-clock time, since 1970 in UTC: for display, and as other machines report it. */
struct wall_time {
    int64_t us;
};

/* Later than every deadline, and small enough that sums with it do not overflow. */
#define MOMENT_FAR INT64_C(0x3fffffffffffffff)

#define SPAN_US(n) ((struct span){ (int64_t)(n) })
#define SPAN_MS(n) ((struct span){ (int64_t)(n)*1000 })
#define SPAN_S(n)  ((struct span){ (int64_t)(n)*1000000 })

static inline struct mono_time mono_add(struct mono_time t, struct span s)
{
    return (struct mono_time){ t.us + s.us };
}

static inline struct span mono_since(struct mono_time later, struct mono_time earlier)
{
    return (struct span){ later.us - earlier.us };
}

static inline bool mono_before(struct mono_time a, struct mono_time b)
{
    return a.us < b.us;
}

static inline struct mono_time mono_earlier(struct mono_time a, struct mono_time b)
{
    return a.us < b.us ? a : b;
}

static inline struct wall_time wall_add(struct wall_time t, struct span s)
{
    return (struct wall_time){ t.us + s.us };
}

static inline struct span wall_since(struct wall_time later, struct wall_time earlier)
{
    return (struct span){ later.us - earlier.us };
}

static inline bool wall_before(struct wall_time a, struct wall_time b)
{
    return a.us < b.us;
}

static inline struct span span_smaller(struct span a, struct span b)
{
    return a.us < b.us ? a : b;
}

static inline struct span span_larger(struct span a, struct span b)
{
    return a.us > b.us ? a : b;
}

/* How far two clocks can drift apart in this span. Rounded up, so that a holder stops earlier
 * and a contender waits longer. */
static inline struct span span_drift(struct span span, int64_t ppm)
{
    return SPAN_US(span.us / 1000000 * ppm + (span.us % 1000000 * ppm + 999999) / 1000000);
}

#endif
