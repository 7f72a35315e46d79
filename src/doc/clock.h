/* clock.h: what the store's clock can be, learnt from its replies.
 *
 * Each reply that carries a date bounds the offset between the store's clock and our boot-time
 * clock: the date was true at some moment between sending and receiving, give or take the
 * second that it was cut to. We keep the last samples and take the widest interval that they
 * allow, not the narrowest: front ends of a store may disagree, and then each was right for
 * somebody.
 *
 * On a local store the clock is the boot-time clock of this machine, known exactly, under the
 * boot's id: another boot or machine cannot use it. docs/design.md section 5. */
#ifndef DOC_CLOCK_H
#define DOC_CLOCK_H

#include "base/evidence.h"
#include "store/store.h"

#define CLOCK_SAMPLES 16

/* A sample that is wider than this is of a request that took long. */
#define CLOCK_SAMPLE_WIDE SPAN_S(3)

/* Boot-time clocks of two machines, and so a sample, drift by no more than this. */
#define CLOCK_DRIFT_PPM 200

/* Dates are cut to the second. */
#define CLOCK_DATE_GRAIN SPAN_S(1)

/* The clock id of stores that tell their date. */
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
    size_t sample_count; /* ever taken */
    bool undated;        /* a write was answered, and that told no time */
    char id[CLOCK_ID_MAX + 1];
};

void clock_init(struct doc_clock *clock, struct store *store);
void clock_release(struct doc_clock *clock);

/* Learns from a reply. Stamps of unknown date, or out of a cache, say nothing. */
void clock_learn(struct doc_clock *clock, const struct store_stamp *stamp);

/* The same of a write, whose answer no cache gives: if one that was done tells no time, none will.
 */
void clock_learn_from_write(struct doc_clock *clock, const struct store_stamp *stamp,
                            bool done);

/* Fills in now, the interval, the clock's id and the wall time; the nonce is left alone. Without an
 * id there is no store time, and will be none; with one it may only not be known yet. */
void clock_evidence(struct doc_clock *clock, struct evidence *evidence);

/* A copy of the samples, newest first, for people to look at. */
size_t clock_samples(struct doc_clock *clock, struct clock_sample ret[CLOCK_SAMPLES]);

#endif
