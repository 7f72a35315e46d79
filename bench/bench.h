/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: reliable figures: several rounds, the two sides of a comparison in alternation, the
 * median with its spread or interval, and each limit beside the measured value. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUNDS_MAX 31

struct series {
    double values[ROUNDS_MAX];
    size_t count;
};

void series_add(struct series *series, double value);
double series_median(const struct series *series);
double series_least(const struct series *series);
double series_most(const struct series *series);

/* Pairs of rounds that a comparison has by default, where a round is short; and fewer than this
 * have no interval of 95 %. */
#define PAIRS          20
#define PAIRS_INTERVAL 6

/* How ours compares with theirs, round by round: each round gives a ratio. */
struct ratio {
    double median;
    double low, high; /* the 95 % interval of the median; with fewer pairs, all ratios */
    size_t pairs;
};

struct ratio series_ratio_interval(const struct series *ours, const struct series *theirs);

/* "95 % interval 0.783 to 0.929, 20 pairs" */
#define RATIO_TEXT_MAX 80
const char *ratio_text(struct ratio ratio, char text[RATIO_TEXT_MAX]);

struct bench {
    bool json;
    size_t rounds;
    double seconds;   /* one side of one round */
    uint64_t mib;     /* the size of the data, where it can be chosen; 0: the published size */
    const char *only; /* run the parts that start with this; NULL: all */
    size_t printed;
    size_t missed;
};

bool bench_wants(const struct bench *bench, const char *name);

/* One measured quantity: "sqlite, 64 tasks", "puts/s". */
void bench_figure(struct bench *bench, const char *name, const char *unit,
                  const struct series *series);

/* A limit: `measured` must be at least (or, with `at_most`, at most) `bar`. */
void bench_bar(struct bench *bench, const char *name, const char *unit, double measured,
               double bar, bool at_most);

/* The median over the rounds of ours / theirs, as a bar, with its interval; at least or at
 * most. */
void bench_ratio(struct bench *bench, const char *name, const struct series *ours,
                 const struct series *theirs, double bar);
void bench_ratio_at_most(struct bench *bench, const char *name, const struct series *ours,
                         const struct series *theirs, double bar);

void bench_end(struct bench *bench);

/* Memory that forked processes share, filled with zeros. munmap frees it. */
void *bench_share_memory(size_t size);

/* Initialises a barrier in such memory, for this many processes or threads. */
void bench_barrier(pthread_barrier_t *barrier, unsigned count);

/* Prints why and exits with 2: a benchmark that cannot measure has no result. */
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
