/* SPDX-License-Identifier: Apache-2.0 */
/* scale_report.c: reads the size of a fleet, runs it, and prints what it did and what it costs: a
 * line per figure, or one JSON object. */
#include "sim/scale_report.h"

#include "base/check.h"
#include "base/parse.h"
#include "sim/options.h"
#include "sim/workloads/scale.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>

/* S3 Standard: dollars for each thousand requests. Deletes cost nothing. */
#define DOLLARS_PUT 0.005
#define DOLLARS_GET 0.0004

#define WORKERS_MIXED   8  /* so that there are some of each kind */
#define MACHINE_WORKERS 16 /* at least, until there are as many machines as nodes */

/* Each number: its option, where it is, its least and greatest value, and its help. */
#define NUMBER_TABLE(ROW)                                                                    \
    ROW("workers", workers, 1, SCALE_WORKERS_MAX, "workers (default: 64)")                   \
    ROW("partitions", partitions, 1, SCALE_PARTITIONS_MAX,                                   \
        "partitions that they share (default: 4)")                                           \
    ROW("minutes", minutes, SCALE_MINUTES_MIN, SCALE_MINUTES_MAX,                            \
        "simulated minutes, of which the first is not counted (default: 20)")                \
    ROW("claim-every", claim_every_s, 2, 86400,                                              \
        "seconds between two claims of a worker, on average (default: 10)")                  \
    ROW("poll", poll_s, 1, 3600, "seconds between two looks of an idle worker (default: 2)") \
    ROW("beat", beat_s, 1, 3600, "seconds between two heartbeats of a worker (default: 10)") \
    ROW("chunk-ttl", chunk_ttl_s, 5, 3600, "ttl of a claim, in seconds (default: 300)")      \
    ROW("lock-ttl", lock_ttl_s, 5, 3600, "ttl of a lock or leader, in seconds (default: 30)")

struct scale_arguments {
    struct run_options run;
    struct scale_options scale;
    bool json;
};

static void print_scale_help(void)
{
    printf("usage: holdfast-sim scale [OPTION...]\n"
           "\n"
           "Runs a fleet of workers on a simulated store with the latencies and limits of S3, "
           "and\n"
           "prints how many claims it makes, how long takeovers take, and what its requests "
           "cost.\n"
           "\n");
#define NUMBER_HELP_(name, member, least, most, about) \
    printf("  --%-14s %s\n", name " N", about);
    NUMBER_TABLE(NUMBER_HELP_)
#undef NUMBER_HELP_
    printf("  --%-14s %s\n", "seed N", "the seed (default: 1)");
    printf("  --%-14s %s\n", "mergers", "all workers merge, and none uses locks or leads");
    printf("  --%-14s %s\n", "broken-store", "the store ignores conditions; this must fail");
    printf("  --%-14s %s\n", "json", "print one JSON object");
    printf("  --%-14s %s\n", "help", "this text");
}

static unsigned read_unsigned(const char *name, const char *text, unsigned least, unsigned most)
{
    uint64_t value;
    if (parse_u64(view_of(text), most, &value, NULL) == HF_OK && value >= least)
        return (unsigned)value;
    fprintf(stderr,
            "holdfast-sim: --%s takes %u to %u, not '%s'; see holdfast-sim scale --help\n",
            name, least, most, text);
    exit(EXIT_USAGE);
}

enum {
    OPTION_NUMBER = 1,
    OPTION_SEED_,
    OPTION_BROKEN_,
    OPTION_MERGERS_,
    OPTION_JSON_,
    OPTION_HELP_
};

static void set_number(struct scale_options *scale, const char *name, const char *text)
{
#define NUMBER_SET_(option, member, least, most, about) \
    if (view_equal(view_of(name), view_of(option)))     \
        scale->member = read_unsigned(name, text, least, most);
    NUMBER_TABLE(NUMBER_SET_)
#undef NUMBER_SET_
}

static void read_scale(int argc, char **argv, struct scale_arguments *arguments)
{
#define NUMBER_OPTION_(name, member, least, most, about) \
    { name, required_argument, NULL, OPTION_NUMBER },
    static const struct option options[] = {
        NUMBER_TABLE(NUMBER_OPTION_){ "seed", required_argument, NULL, OPTION_SEED_ },
        { "broken-store", no_argument, NULL, OPTION_BROKEN_ },
        { "mergers", no_argument, NULL, OPTION_MERGERS_ },
        { "json", no_argument, NULL, OPTION_JSON_ },
        { "help", no_argument, NULL, OPTION_HELP_ },
        { NULL, 0, NULL, 0 }
    };
#undef NUMBER_OPTION_
    int option, index;
    while ((option = getopt_long(argc, argv, "", options, &index)) != -1)
        switch (option) {
        case OPTION_NUMBER: set_number(&arguments->scale, options[index].name, optarg); break;
        case OPTION_SEED_:
            arguments->run.seed = read_unsigned("seed", optarg, 0, UINT32_MAX);
            break;
        case OPTION_MERGERS_: arguments->scale.mergers_only = true; break;
        case OPTION_BROKEN_: arguments->run.ignore_conditions = true; break;
        case OPTION_JSON_: arguments->json = true; break;
        case OPTION_HELP_: print_scale_help(); exit(0);
        default: exit(EXIT_USAGE);
        }
    if (optind < argc)
        options_misused("unexpected argument", argv[optind]);
    if (arguments->scale.workers < WORKERS_MIXED && !arguments->scale.mergers_only)
        options_misused("fewer than 8 workers need --mergers", NULL);
    if (arguments->scale.partitions > arguments->scale.workers)
        options_misused("there must be at least as many workers as partitions", NULL);
}

/* ---- Figures ------------------------------------------------------------------------- */

struct report {
    const struct scale_arguments *arguments;
    bool first;
};

static void print_figure(struct report *report, const char *name, double value)
{
    if (report->arguments->json)
        printf("%s\"%s\":%.6g", report->first ? "{" : ",", name, value);
    else
        printf("%-28s %.6g\n", name, value);
    report->first = false;
}

static void print_requests(struct report *report, const char *name,
                           const struct scale_requests *requests, double seconds)
{
    double a_day = 86400 / seconds;
    double puts = (double)(requests->puts + requests->lists), gets = (double)requests->gets;
    char text[64];
    snprintf(text, sizeof text, "%s_requests_per_s", name);
    print_figure(report, text, (puts + gets + (double)requests->deletes) / seconds);
    snprintf(text, sizeof text, "%s_dollars_a_day", name);
    print_figure(report, text, (puts * DOLLARS_PUT + gets * DOLLARS_GET) / 1000 * a_day);
}

static void print_times(struct report *report, const char *name,
                        const struct scale_times *times)
{
    static const struct {
        const char *name;
        double part;
    } parts[] = { { "p50", 0.5 }, { "p99", 0.99 }, { "max", 1 } };
    char text[64];
    snprintf(text, sizeof text, "%s_count", name);
    print_figure(report, text, (double)times->count);
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%s_%s_s", name, parts[i].name);
        print_figure(report, text, scale_times_at(times, parts[i].part));
    }
}

static double share(uint64_t some, uint64_t all)
{
    return all > 0 ? (double)some / (double)all : 0;
}

static void print_report(const struct scale_arguments *arguments,
                         const struct run_result *result)
{
    static const char *const purposes[PURPOSES] = { "leases", "catalog", "data",
                                                    "locks",  "roster",  "other" };
    const struct scale_figures *figures = scale_figures();
    const struct scale_requests *leases = &figures->requests[FOR_LEASES];
    const struct scale_requests total = scale_total(figures);
    double seconds = arguments->scale.minutes * 60.0 - (double)SCALE_WARM_UP.us / 1e6;
    struct report report = { arguments, true };
#define NUMBER_PRINT_(name, member, least, most, about) \
    print_figure(&report, #member, arguments->scale.member);
    NUMBER_TABLE(NUMBER_PRINT_)
#undef NUMBER_PRINT_
    print_figure(&report, "offered_per_s", (double)figures->supplied / seconds);
    print_figure(&report, "claims_per_s", (double)figures->claims / seconds);
    print_figure(&report, "commits_per_s", (double)figures->commits / seconds);
    print_figure(&report, "claims_stale", (double)figures->stale);
    print_figure(&report, "claims_held", (double)figures->held);
    print_figure(&report, "claims_failed", (double)figures->failed);
    print_figure(&report, "lease_puts_per_claim", share(leases->puts, figures->claims));
    print_figure(&report, "lease_conflict_share", share(leases->conflicts, leases->puts));
    print_figure(&report, "locks_per_s", (double)figures->locked / seconds);
    print_figure(&report, "lock_timeouts", (double)figures->lock_timeouts);
    print_figure(&report, "deaths", (double)figures->deaths);
    print_figure(&report, "machine_crashes", (double)figures->crashes);
    print_figure(&report, "sweeps", (double)figures->sweeps);
    print_figure(&report, "sweep_entries", (double)figures->swept);
    print_times(&report, "claim_wait", &figures->wait);
    print_times(&report, "lock_wait", &figures->lock_wait);
    print_times(&report, "leader_takeover", &figures->lead_over);
    print_times(&report, "claim_takeover", &figures->group_over);
    for (size_t i = 0; i < PURPOSES; i++)
        print_requests(&report, purposes[i], &figures->requests[i], seconds);
    print_requests(&report, "all", &total, seconds);
    print_figure(&report, "puts_per_s", (double)total.puts / seconds);
    print_figure(&report, "gets_per_s", (double)total.gets / seconds);
    print_figure(&report, "throttled_share",
                 share(total.throttled, total.puts + total.gets + total.lists));
    print_figure(&report, "requests", (double)result->requests);
    if (arguments->json)
        printf("}\n");
}

int scale_main(int argc, char **argv)
{
    struct scale_arguments arguments = { .run = RUN_OPTIONS, .scale = SCALE_OPTIONS };
    struct run_result result;
    argv[1] = argv[0]; /* which getopt names in its messages */
    read_scale(argc - 1, argv + 1, &arguments);
    unsigned machines = arguments.scale.workers / MACHINE_WORKERS;
    arguments.run.nodes = machines < 2 ? 2 : machines > NODES_MAX ? NODES_MAX : machines;
    arguments.run.trace = TRACE_OFF;
    arguments.run.workload = &workload_scale;
    scale_set_options(&arguments.scale);
    run_seed(&arguments.run, &result);
    fiber_pool_release();
    if (!result.ok) {
        fprintf(stderr, "holdfast-sim: seed %" PRIu64 " of this fleet failed: %s\n",
                arguments.run.seed, result.failure);
        return EXIT_VIOLATION;
    }
    print_report(&arguments, &result);
    return 0;
}
