/* main.c: the program holdfast-sim: runs seeds, says which one failed and how to see it again.
 */
#include "base/check.h"
#include "base/parse.h"
#include "sim/run.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_VIOLATION = 1, EXIT_USAGE = 2 };

struct arguments {
    struct run_options run;
    uint64_t seeds;
    bool trace;
    bool hash;
};

struct totals {
    uint64_t passed;
    uint64_t steps;
    uint64_t requests;
    int64_t time_s;
    uint64_t net_faults[NET_FAULT_COUNT];
    uint64_t chaos_faults[CHAOS_FAULT_COUNT];
};

static void print_help(void)
{
    printf(
        "usage: holdfast-sim [--seed N] [--seeds COUNT] [--nodes K] [--workload W] [--trace]\n"
        "\n"
        "Runs Holdfast in a simulated world in which anything may fail, once for each seed,\n"
        "and judges what came of it. One seed always gives one and the same run.\n"
        "\n"
        "  --seed N        the first seed (1)\n"
        "  --seeds COUNT   how many seeds, from the first on (1)\n"
        "  --nodes K       nodes of the world, 1 to %d (5)\n"
        "  --operations M  operations of all nodes together, 1 to %d (50)\n"
        "  --workload W    what the nodes do (counter)\n"
        "  --calm          no faults\n"
        "  --broken-store  the store ignores conditions: shows that the judge notices\n"
        "  --trace         print all that happens, a line each\n"
        "  --hash          print the hash of each seed's trace\n"
        "  --help          this text\n"
        "\n"
        "workloads:\n",
        NODES_MAX, OPERATIONS_MAX);
    for (size_t i = 0; workloads[i]; i++)
        printf("  %-15s %s\n", workloads[i]->name, workloads[i]->about);
    printf("\nexits with 0 when all seeds passed, %d when one failed, %d when misused\n",
           EXIT_VIOLATION, EXIT_USAGE);
}

_Noreturn static void misused(const char *what, const char *value)
{
    fprintf(stderr, "holdfast-sim: %s%s%s%s; see holdfast-sim --help\n", what,
            value ? " '" : "", value ? value : "", value ? "'" : "");
    exit(EXIT_USAGE);
}

/* ---- Arguments ----------------------------------------------------------------------- */

static uint64_t read_number(const char *text, uint64_t min, uint64_t max, const char *what)
{
    uint64_t value;
    struct hf_error error;
    if (parse_u64(view_of(text), max, &value, &error) != HF_OK || value < min)
        misused(what, text);
    return value;
}

static const struct workload *read_workload(const char *name)
{
    const struct workload *workload = workload_find(view_of(name));
    if (!workload)
        misused("there is no workload", name);
    return workload;
}

static void read_option(struct arguments *arguments, int option)
{
    struct run_options *run = &arguments->run;
    switch (option) {
    case 's':
        run->seed = read_number(optarg, 0, UINT64_MAX, "--seed takes a number, not");
        return;
    case 'c':
        arguments->seeds = read_number(optarg, 1, UINT64_MAX, "--seeds takes a count, not");
        return;
    case 'n':
        run->nodes = (unsigned)read_number(optarg, 1, NODES_MAX,
                                           "--nodes takes a number from 1 to 64, not");
        return;
    case 'o':
        run->operations =
            (unsigned)read_number(optarg, 1, OPERATIONS_MAX,
                                  "--operations takes a number from 1 to 100000, not");
        return;
    case 'w': run->workload = read_workload(optarg); return;
    case 'a': run->calm = true; return;
    case 'b': run->ignore_conditions = true; return;
    case 't': arguments->trace = true; return;
    case 'x': arguments->hash = true; return;
    case 'h': print_help(); exit(0);
    default: exit(EXIT_USAGE);
    }
}

static void read_arguments(int argc, char **argv, struct arguments *arguments)
{
    static const struct option options[] = {
        { "seed", required_argument, NULL, 's' },
        { "seeds", required_argument, NULL, 'c' },
        { "nodes", required_argument, NULL, 'n' },
        { "operations", required_argument, NULL, 'o' },
        { "workload", required_argument, NULL, 'w' },
        { "calm", no_argument, NULL, 'a' },
        { "broken-store", no_argument, NULL, 'b' },
        { "trace", no_argument, NULL, 't' },
        { "hash", no_argument, NULL, 'x' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        read_option(arguments, option);
    if (optind < argc)
        misused("there is no use for", argv[optind]);
}

/* ---- How to see it again ------------------------------------------------------------- */

static char replay[256];

static void note_replay(const struct run_options *run)
{
    snprintf(replay, sizeof replay,
             "holdfast-sim --seed %" PRIu64 " --nodes %u --operations %u --workload %s%s%s "
             "--trace\n",
             run->seed, run->nodes, run->operations, run->workload->name,
             run->calm ? " --calm" : "", run->ignore_conditions ? " --broken-store" : "");
}

static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

/* A check that failed, or a stack that ran over, still names its seed. */
static void died(int signal_number)
{
    say("the simulator itself died; to see it again:\n  ");
    say(replay);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Where a sanitizer is built in it reports memory faults itself. */
#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
static const int deadly[] = { SIGABRT };
#else
static const int deadly[] = { SIGABRT, SIGSEGV, SIGBUS };
#endif

/* On a stack of its own, since the fiber's may be what is used up. */
static void watch_for_death(void)
{
    static char stack[64 * 1024];
    stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
    check(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = { .sa_handler = died, .sa_flags = SA_ONSTACK };
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        check(sigaction(deadly[i], &action, NULL) == 0);
}

/* ---- Running ------------------------------------------------------------------------- */

static void add(struct totals *totals, const struct run_result *result)
{
    totals->passed += result->ok;
    totals->steps += result->steps;
    totals->requests += result->requests;
    totals->time_s += result->time_us / 1000000;
    for (size_t i = 0; i < NET_FAULT_COUNT; i++)
        totals->net_faults[i] += result->net_faults[i];
    for (size_t i = 0; i < CHAOS_FAULT_COUNT; i++)
        totals->chaos_faults[i] += result->chaos_faults[i];
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec t;
    check(clock_gettime(clock, &t) == 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t a_second(uint64_t count, int64_t took_us)
{
    return (int64_t)count * 1000000 / (took_us > 0 ? took_us : 1);
}

/* The machine may be busy with something else: the rate of the core itself is told too. */
static void print_totals(const struct arguments *arguments, const struct totals *totals,
                         int64_t took_us, int64_t core_us)
{
    const char *gap = "";
    printf("faults:");
    for (unsigned i = 0; i < NET_FAULT_COUNT; i++, gap = ",")
        printf("%s %" PRIu64 " %s", gap, totals->net_faults[i],
               net_fault_text((enum net_fault)i));
    for (unsigned i = 0; i < CHAOS_FAULT_COUNT; i++)
        printf(", %" PRIu64 " %s", totals->chaos_faults[i],
               chaos_fault_text((enum chaos_fault)i));
    int64_t days_tenths = totals->time_s / 8640;
    printf("\n%" PRIu64 " requests, %" PRIu64 " steps, %" PRId64 ".%" PRId64
           " simulated days\n",
           totals->requests, totals->steps, days_tenths / 10, days_tenths % 10);
    printf("%s: %" PRIu64 " of %" PRIu64 " seeds passed, %u nodes, %u operations each; %" PRId64
           " seeds/s, %" PRId64 " a second of one core\n",
           arguments->run.workload->name, totals->passed, arguments->seeds,
           arguments->run.nodes, arguments->run.operations, a_second(totals->passed, took_us),
           a_second(totals->passed, core_us));
}

static bool run_one(struct arguments *arguments, struct totals *totals)
{
    struct run_result result;
    note_replay(&arguments->run);
    run_seed(&arguments->run, &result);
    add(totals, &result);
    if (arguments->hash)
        printf("%s %u %u %" PRIu64 " %016" PRIx64 "\n", arguments->run.workload->name,
               arguments->run.nodes, arguments->run.operations, arguments->run.seed,
               result.hash);
    if (result.ok)
        return true;
    fflush(stdout);
    fprintf(stderr, "seed %" PRIu64 " failed: %s\nto see it again:\n  %s", arguments->run.seed,
            result.failure, replay);
    return false;
}

int main(int argc, char **argv)
{
    struct arguments arguments = { .run = RUN_OPTIONS, .seeds = 1 };
    arguments.run.workload = &workload_counter;
    read_arguments(argc, argv, &arguments);
    arguments.run.trace_out = stdout;
    arguments.run.trace = arguments.trace  ? TRACE_PRINT
                          : arguments.hash ? TRACE_HASH
                                           : TRACE_OFF;
    watch_for_death();
    struct totals totals = { 0 };
    int64_t began = clock_us(CLOCK_MONOTONIC);
    int64_t core_began = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    bool ok = true;
    for (uint64_t i = 0; i < arguments.seeds && ok; i++, arguments.run.seed++)
        ok = run_one(&arguments, &totals);
    if (!arguments.hash)
        print_totals(&arguments, &totals, clock_us(CLOCK_MONOTONIC) - began,
                     clock_us(CLOCK_PROCESS_CPUTIME_ID) - core_began);
    fiber_pool_release();
    return ok ? 0 : EXIT_VIOLATION;
}
