/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: the store's clock, known only as an interval that is computed from the dates of the
 * store's replies.
 *
 * Each reply that carries a date bounds the offset between the store's clock and our boot-time
 * clock: the date was correct, to within one second, at some time between sending the request and
 * receiving the reply. (Dates are truncated to whole seconds.) We keep the most recent samples and
 * use the widest interval that they allow, not the narrowest, because the front ends of a store may
 * disagree.
 *
 * On a local store the clock is the boot-time clock of this machine. It is known exactly. Its clock
 * id is the boot id, because its times mean nothing after a reboot or on another machine. See
 * docs/design.md section 5. */
#ifndef DOC_CLOCK_H
#define DOC_CLOCK_H

#include "base/evidence.h"
#include "store/store.h"

#define CLOCK_SAMPLES 16

/* A sample wider than this comes from a slow request. */
#define CLOCK_SAMPLE_WIDE SPAN_S(3)

/* The maximum drift between the boot-time clocks of two machines. */
#define CLOCK_DRIFT_PPM 200

/* HTTP dates are truncated to the second. */
#define CLOCK_DATE_GRAIN SPAN_S(1)

/* The clock id of stores whose replies carry a date. */
#define CLOCK_ID_STORE "store"

struct clock_sample {
    struct mono_time taken;
    int64_t offset_min_us, offset_max_us; /* store time minus boot time */
};

struct doc_clock {
    struct env *env;
    enum store_clock kind;
    struct env_mutex mutex; /* guards the samples */
    struct clock_sample samples[CLOCK_SAMPLES];
    size_t sample_count; /* number of samples ever taken */
    bool undated;        /* a write succeeded, and its reply had no date */
    char id[CLOCK_ID_MAX + 1];
};

void clock_init(struct doc_clock *clock, struct store *store);
void clock_release(struct doc_clock *clock);

/* Learns from a reply. A stamp without a date, or from a cache, is ignored. */
void clock_learn(struct doc_clock *clock, const struct store_stamp *stamp);

/* Learns from the reply to a write. No cache answers a write, so a successful write whose reply has
 * no date shows that the store sends no dates. */
void clock_learn_from_write(struct doc_clock *clock, const struct store_stamp *stamp,
                            bool done);

/* Sets `now`, the interval, the clock id and the wall time, but not the nonce. An empty clock id
 * means that this store has no store time. Even if there is a clock id, the time may still be
 * unknown. */
void clock_evidence(struct doc_clock *clock, struct evidence *evidence);

/* Copies the samples, newest first, and returns their number. For display. */
size_t clock_samples(struct doc_clock *clock, struct clock_sample ret[CLOCK_SAMPLES]);

#endif
