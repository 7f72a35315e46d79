/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c: computes medians, intervals and ratios of measurements, and prints each figure
 * beside its limit. */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

/* ---- Processes ------------------------------------------------------------------------ */

void *bench_share_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("mmap: %s", strerror(errno));
    return memory;
}

void bench_barrier(pthread_barrier_t *barrier, unsigned count)
{
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &attributes, count);
}

/* ---- Series -------------------------------------------------------------------------- */

void series_add(struct series *series, double value)
{
    if (series->count == ROUNDS_MAX)
        bench_die("more than %d rounds", ROUNDS_MAX);
    series->values[series->count++] = value;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct series sorted(const struct series *series)
{
    struct series copy = *series;
    qsort(copy.values, copy.count, sizeof copy.values[0], compare_doubles);
    return copy;
}

double series_median(const struct series *series)
{
    struct series s = sorted(series);
    size_t middle = s.count / 2;
    if (s.count == 0)
        return 0;
    return s.count % 2 ? s.values[middle] : (s.values[middle - 1] + s.values[middle]) / 2;
}

double series_least(const struct series *series)
{
    return series->count ? sorted(series).values[0] : 0;
}

double series_most(const struct series *series)
{
    return series->count ? sorted(series).values[series->count - 1] : 0;
}

/* ---- Ratios -------------------------------------------------------------------------- */

/* The rank from either end of the sorted values that bounds the 95 % interval of their median; 0 if
 * there are too few. Each value is below the true median with probability 1/2, regardless of the
 * distribution, so the number of values below it is binomial. tools/ab.py does the same. */
static size_t interval_rank(size_t count)
{
    double all = 1, ways = 1, below = 0;
    size_t rank = 0;
    for (size_t i = 0; i < count; i++)
        all *= 2;
    for (size_t i = 0; i < count; i++) {
        below += ways;
        if (below > 0.025 * all)
            break;
        rank = i + 1;
        ways = ways * (double)(count - i) / (double)(i + 1);
    }
    return rank;
}

struct ratio series_ratio_interval(const struct series *ours, const struct series *theirs)
{
    struct series ratios = { .count = 0 };
    for (size_t i = 0; i < ours->count && i < theirs->count; i++)
        series_add(&ratios, ours->values[i] / theirs->values[i]);
    if (ratios.count == 0)
        return (struct ratio){ .pairs = 0 };
    struct series ordered = sorted(&ratios);
    size_t rank = interval_rank(ordered.count);
    size_t outside = rank > 0 ? rank - 1 : 0;
    return (struct ratio){ .median = series_median(&ordered),
                           .low = ordered.values[outside],
                           .high = ordered.values[ordered.count - 1 - outside],
                           .pairs = ordered.count };
}

const char *ratio_text(struct ratio ratio, char text[RATIO_TEXT_MAX])
{
    snprintf(text, RATIO_TEXT_MAX, "%s %.3g to %.3g, %zu pair%s",
             ratio.pairs < PAIRS_INTERVAL ? "all from" : "95 % interval", ratio.low, ratio.high,
             ratio.pairs, ratio.pairs == 1 ? "" : "s");
    return text;
}

/* ---- Printing ------------------------------------------------------------------------ */

bool bench_wants(const struct bench *bench, const char *name)
{
    return !bench->only || strncmp(name, bench->only, strlen(bench->only)) == 0;
}

static void json_next(struct bench *bench)
{
    fputs(bench->printed++ ? ",\n " : "[", stdout);
}

void bench_figure(struct bench *bench, const char *name, const char *unit,
                  const struct series *series)
{
    double median = series_median(series);
    double least = series_least(series);
    double most = series_most(series);
    if (bench->json) {
        json_next(bench);
        printf("{\"figure\": \"%s\", \"unit\": \"%s\", \"median\": %.6g, \"least\": %.6g, "
               "\"most\": %.6g, \"rounds\": %zu}",
               name, unit, median, least, most, series->count);
    } else {
        printf("  %-52s %12.0f %-7s (%.0f to %.0f, %zu rounds)\n", name, median, unit, least,
               most, series->count);
    }
    fflush(stdout);
}

/* `interval` is additional JSON for the measured value, or empty. */
static void print_bar(struct bench *bench, const char *name, const char *unit, double measured,
                      double bar, bool at_most, const char *interval)
{
    bool met = at_most ? measured <= bar : measured >= bar;
    double by = at_most ? measured - bar : bar - measured;
    bench->missed += !met;
    if (bench->json) {
        json_next(bench);
        printf("{\"bar\": \"%s\", \"unit\": \"%s\", \"measured\": %.6g, %s\"%s\": %.6g, "
               "\"met\": %s}",
               name, unit, measured, interval, at_most ? "at_most" : "at_least", bar,
               met ? "true" : "false");
    } else {
        printf("  %-52s %12.6g %-7s bar %s %.6g: ", name, measured, unit,
               at_most ? "<=" : ">=", bar);
        if (met)
            puts("met");
        else
            printf("missed by %.6g (%.1f %%)\n", by, 100 * by / bar);
    }
    fflush(stdout);
}

void bench_bar(struct bench *bench, const char *name, const char *unit, double measured,
               double bar, bool at_most)
{
    print_bar(bench, name, unit, measured, bar, at_most, "");
}

static void print_ratio(struct bench *bench, const char *name, struct ratio ratio, double bar,
                        bool at_most)
{
    char text[RATIO_TEXT_MAX], interval[120];
    snprintf(interval, sizeof interval, "\"low\": %.6g, \"high\": %.6g, \"pairs\": %zu, ",
             ratio.low, ratio.high, ratio.pairs);
    print_bar(bench, name, "x", ratio.median, bar, at_most, interval);
    if (!bench->json)
        printf("  %-52s %12s         (%s)\n", "", "", ratio_text(ratio, text));
}

void bench_ratio(struct bench *bench, const char *name, const struct series *ours,
                 const struct series *theirs, double bar)
{
    print_ratio(bench, name, series_ratio_interval(ours, theirs), bar, /* at_most */ false);
}

void bench_ratio_at_most(struct bench *bench, const char *name, const struct series *ours,
                         const struct series *theirs, double bar)
{
    print_ratio(bench, name, series_ratio_interval(ours, theirs), bar, /* at_most */ true);
}

void bench_end(struct bench *bench)
{
    if (bench->json)
        puts(bench->printed ? "]" : "[]");
    else
        printf("%s\n", bench->missed ? "some bars were missed" : "all bars were met");
}
