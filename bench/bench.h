/* bench.h: figures that can be trusted: several rounds, the two sides of a comparison in turn,
 * the median with its spread, and each bar with what was measured against it. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

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

struct bench {
    bool json;
    size_t rounds;
    double seconds;   /* one side of one round */
    const char *only; /* run what starts with this; NULL: all */
    size_t printed;
    size_t missed;
};

bool bench_wants(const struct bench *bench, const char *name);

/* One measured quantity: "sqlite, 64 tasks", "puts/s". */
void bench_figure(struct bench *bench, const char *name, const char *unit,
                  const struct series *series);

/* What must hold: `measured` at least (or, with `at_most`, at most) `bar`. */
void bench_bar(struct bench *bench, const char *name, const char *unit, double measured,
               double bar, bool at_most);

/* The median over the rounds of ours / theirs, as a bar. */
void bench_ratio(struct bench *bench, const char *name, const struct series *ours,
                 const struct series *theirs, double bar);

void bench_end(struct bench *bench);

/* Prints why and exits: a benchmark that cannot measure has no result. */
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
