/* SPDX-License-Identifier: Apache-2.0 */
/* slow.c: adds latency to the requests of a store, from the callback that reports them. */
#include "slow.h"

#include "base/prng.h"
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Latencies of small requests to an object store in the same region, in milliseconds: an assumption
 * in round figures, not a measurement of any provider. The last column is the maximum. */
#define QUANTILES 6
static const double parts[QUANTILES] = { 0, 0.5, 0.9, 0.99, 0.999, 1 };
static const double reads_ms[QUANTILES] = { 8, 15, 30, 80, 200, 500 };
static const double writes_ms[QUANTILES] = { 15, 30, 60, 150, 400, 1000 };

const char *slow_parse(const char *url, struct slow **ret_slow)
{
    char *end;
    double fixed_ms = strtod(url, &end);
    bool fixed = end > url && fixed_ms > 0 && strncmp(end, "ms+", 3) == 0;
    bool like_s3 = strncmp(url, "s3like+", 7) == 0;
    *ret_slow = NULL;
    if (!fixed && !like_s3)
        return url;
    *ret_slow = calloc(1, sizeof **ret_slow);
    if (!*ret_slow)
        bench_die("out of memory");
    (*ret_slow)->fixed_ms = fixed ? fixed_ms : 0;
    return fixed ? end + 3 : url + 7;
}

/* The n-th latency of a sequence that is the same in every run. */
static double draw_ms(const double quantiles[QUANTILES], uint64_t number)
{
    struct prng prng = prng_seeded(number);
    double part = (double)prng_below(&prng, 1000000) / 1e6;
    size_t i = 1;
    while (part > parts[i])
        i++;
    double within = (part - parts[i - 1]) / (parts[i] - parts[i - 1]);
    return quantiles[i - 1] + within * (quantiles[i] - quantiles[i - 1]);
}

static void sleep_ms(double ms)
{
    int64_t ns = (int64_t)(ms * 1e6);
    struct timespec left = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void slow_delay(void *argument, const struct hf_store_request *request)
{
    struct slow *slow = argument;
    bool write = request->call == HF_STORE_CALL_PUT ||
                 request->call == HF_STORE_CALL_PUT_FILE ||
                 request->call == HF_STORE_CALL_DELETE;
    if (request->first_of_batch) {
        uint64_t number = atomic_fetch_add(&slow->requests, 1);
        sleep_ms(slow->fixed_ms > 0 ? slow->fixed_ms
                                    : draw_ms(write ? writes_ms : reads_ms, number));
    }
    if (slow->next)
        slow->next(slow->argument, request);
}
