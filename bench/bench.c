#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
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

void bench_bar(struct bench *bench, const char *name, const char *unit, double measured,
               double bar, bool at_most)
{
    bool met = at_most ? measured <= bar : measured >= bar;
    double by = at_most ? measured - bar : bar - measured;
    bench->missed += !met;
    if (bench->json) {
        json_next(bench);
        printf("{\"bar\": \"%s\", \"unit\": \"%s\", \"measured\": %.6g, \"%s\": %.6g, "
               "\"met\": %s}",
               name, unit, measured, at_most ? "at_most" : "at_least", bar,
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

void bench_ratio(struct bench *bench, const char *name, const struct series *ours,
                 const struct series *theirs, double bar)
{
    struct series ratios = { .count = 0 };
    for (size_t i = 0; i < ours->count && i < theirs->count; i++)
        series_add(&ratios, ours->values[i] / theirs->values[i]);
    bench_bar(bench, name, "x", series_median(&ratios), bar, /* at_most */ false);
    if (!bench->json)
        printf("  %-52s %12s         (%.3g to %.3g round by round)\n", "", "",
               series_least(&ratios), series_most(&ratios));
}

void bench_end(struct bench *bench)
{
    if (bench->json)
        puts(bench->printed ? "]" : "[]");
    else
        printf("%s\n", bench->missed ? "some bars were missed" : "all bars were met");
}
