/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the program holdfast-sim. It runs seeds, reports the first one that fails, and prints
 * the command that reproduces it. */
#include "base/check.h"
#include "base/sanitizer.h"
#include "sim/options.h"
#include "sim/scale_report.h"
#include "sim/shrink.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* The minimums for a seed to count with --qualified. */
#define HITS_MIN       10
#define OPERATIONS_MIN 50

#define SEEDS_FOR_A_QUALIFIED 100

#define SHRINK_TIME SPAN_S(20)

#define LIST_LINE_MAX 1024

struct totals {
    uint64_t runs;
    uint64_t passed;
    uint64_t qualified;
    uint64_t with_few_hits;
    uint64_t with_few_operations;
    uint64_t hits_min;
    uint64_t operations_min;
    uint64_t steps;
    uint64_t requests;
    int64_t time_us;
    uint64_t faults[FAULT_COUNT];
};

#define TOTALS ((struct totals){ .hits_min = UINT64_MAX, .operations_min = UINT64_MAX })

struct session {
    struct arguments arguments;
    struct totals totals;
    int64_t began_us;
    int64_t core_began_us;
    int64_t told_us; /* when progress was last printed */
    bool tells;      /* stderr is a terminal */
};

static int64_t clock_us(clockid_t clock)
{
    struct timespec t;
    check(clock_gettime(clock, &t) == 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- Signals ------------------------------------------------------------------------- */

static volatile sig_atomic_t is_interrupted;
static struct replay replay; /* reproduces the current run */

static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

/* Prints the command that reproduces the run, even after a failed check or a stack overflow. */
static void died(int signal_number)
{
    say("the simulator itself died; to reproduce:\n  ");
    say(replay.text);
    say("\n");
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void interrupted(int signal_number)
{
    (void)signal_number;
    is_interrupted = 1;
}

/* In a sanitizer build, the sanitizer itself reports memory faults. */
#if WITH_ASAN
static const int deadly[] = { SIGABRT };
#else
static const int deadly[] = { SIGABRT, SIGSEGV, SIGBUS };
#endif

/* The handlers run on their own stack, because the fiber's stack may be the one that
 * overflowed. The first interrupt stops after the current run; the second ends the program
 * immediately. */
static void watch_for_signals(void)
{
    static char stack[64 * 1024];
    stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
    check(sigaltstack(&alternate, NULL) == 0);
    struct sigaction on_death = { .sa_handler = died, .sa_flags = SA_ONSTACK };
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        check(sigaction(deadly[i], &on_death, NULL) == 0);
    struct sigaction on_interrupt = { .sa_handler = interrupted,
                                      .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK) };
    check(sigaction(SIGINT, &on_interrupt, NULL) == 0);
}

/* ---- Totals -------------------------------------------------------------------------- */

static bool is_qualified(const struct run_result *result)
{
    return result->faults.hits >= HITS_MIN && result->operations >= OPERATIONS_MIN;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void add(struct totals *totals, const struct run_result *result)
{
    totals->runs++;
    totals->passed += result->ok;
    totals->qualified += is_qualified(result);
    totals->with_few_hits += result->faults.hits < HITS_MIN;
    totals->with_few_operations += result->operations < OPERATIONS_MIN;
    totals->hits_min = lesser(totals->hits_min, result->faults.hits);
    totals->operations_min = lesser(totals->operations_min, result->operations);
    totals->steps += result->steps;
    totals->requests += result->requests;
    totals->time_us += result->time_us;
    for (size_t i = 0; i < FAULT_COUNT; i++)
        totals->faults[i] += result->faults.counts[i];
}

static int64_t a_second(uint64_t count, int64_t took_us)
{
    return (int64_t)count * 1000000 / (took_us > 0 ? took_us : 1);
}

static void print_faults(const struct totals *totals)
{
    const char *gap = "";
    printf("faults:");
    for (unsigned i = 0; i < FAULT_COUNT; i++, gap = ",")
        printf("%s %" PRIu64 " %s", gap, totals->faults[i], fault_count_text((enum fault)i));
    printf("\nin each seed at least %" PRIu64
           " faults that hit a request in flight, and %" PRIu64
           " operations; fewer than %d and %d in %" PRIu64 " and %" PRIu64 " of them\n",
           totals->runs > 0 ? totals->hits_min : 0,
           totals->runs > 0 ? totals->operations_min : 0, HITS_MIN, OPERATIONS_MIN,
           totals->with_few_hits, totals->with_few_operations);
}

/* The machine may be busy with other work, so the rate per second of CPU time is also printed. */
static void print_totals(const struct session *session)
{
    const struct arguments *arguments = &session->arguments;
    const struct totals *totals = &session->totals;
    int64_t took_us = clock_us(CLOCK_MONOTONIC) - session->began_us;
    int64_t core_us = clock_us(CLOCK_PROCESS_CPUTIME_ID) - session->core_began_us;
    int64_t years_1000 = totals->time_us / (INT64_C(31557600) * 1000);
    print_faults(totals);
    printf("%" PRIu64 " requests, %" PRIu64 " steps, %" PRId64 ".%03" PRId64
           " simulated years\n",
           totals->requests, totals->steps, years_1000 / 1000, years_1000 % 1000);
    if (arguments->list)
        printf("%s: ", arguments->list);
    else
        printf("%s, %u nodes, %u operations each: ", arguments->run.workload->name,
               arguments->run.nodes, arguments->run.operations);
    if (arguments->qualified)
        printf("%" PRIu64 " qualified, ", totals->qualified);
    printf("%" PRIu64 " of %" PRIu64 " seeds passed; %" PRId64 " seeds/s, %" PRId64
           " per second of one core\n",
           totals->passed, totals->runs, a_second(totals->passed, took_us),
           a_second(totals->passed, core_us));
}

/* Prints the progress once per second, on a terminal only. */
static void tell_progress(struct session *session)
{
    const struct totals *totals = &session->totals;
    int64_t now_us = clock_us(CLOCK_MONOTONIC);
    if (!session->tells || now_us - session->told_us < 1000000)
        return;
    session->told_us = now_us;
    fprintf(stderr, "\r%" PRIu64 " seeds passed, %" PRId64 " seeds/s \r", totals->passed,
            a_second(totals->passed, now_us - session->began_us));
}

/* ---- A seed that fails --------------------------------------------------------------- */

/* Builds the command that reproduces the run before the run, which may crash the simulator. */
static void run_noted(const struct run_options *options, struct run_result *ret_result)
{
    options_replay(options, &replay);
    run_seed(options, ret_result);
}

static bool run_smaller(void *argument, const struct run_options *options,
                        struct run_result *ret_result)
{
    const int64_t *until_us = argument;
    if (is_interrupted || clock_us(CLOCK_MONOTONIC) > *until_us)
        return false;
    run_noted(options, ret_result);
    return !ret_result->ok;
}

static void report_smaller(const struct run_options *options, const struct run_result *result)
{
    int64_t until_us = clock_us(CLOCK_MONOTONIC) + SHRINK_TIME.us;
    struct shrunk shrunk = shrink(options, result, run_smaller, &until_us);
    options_replay(&shrunk.options, &replay);
    fprintf(stderr,
            "smallest failing run of %u tried: seed %" PRIu64
            ", %u nodes, %u operations, %" PRIu64 " faults: %s\nto reproduce:\n  %s\n",
            shrunk.runs, shrunk.options.seed, shrunk.options.nodes, shrunk.options.operations,
            shrunk.result.faults.happened, shrunk.result.failure, replay.text);
}

static void report(const struct session *session, const struct run_options *options,
                   const struct run_result *result)
{
    fflush(stdout);
    fprintf(stderr, "seed %" PRIu64 " failed: %s\nto reproduce:\n  %s\n", options->seed,
            result->failure, replay.text);
    if (!session->arguments.keep_size && options->trace == TRACE_OFF)
        report_smaller(options, result);
}

/* ---- Running ------------------------------------------------------------------------- */

static bool run_one(struct session *session, const struct run_options *options,
                    struct run_result *ret_result)
{
    run_noted(options, ret_result);
    add(&session->totals, ret_result);
    if (session->arguments.hash)
        printf("%s %u %u %" PRIu64 " %016" PRIx64 "\n", options->workload->name, options->nodes,
               options->operations, options->seed, ret_result->hash);
    if (!ret_result->ok)
        report(session, options, ret_result);
    tell_progress(session);
    return ret_result->ok;
}

/* The first run has a crash that never happens, and counts the requests. Then each request
 * gets one run with a crash as it is sent, and one with a crash as its reply arrives. */
static bool run_crashes(struct session *session, const struct run_options *options)
{
    struct run_options crashing = *options;
    struct run_result whole, result;
    crashing.crash_at = (struct crash_at){ .request = UINT64_MAX };
    bool ok = run_one(session, &crashing, &whole);
    for (uint64_t i = 0; ok && !is_interrupted && i < 2 * whole.requests_in_chaos; i++) {
        crashing.crash_at = (struct crash_at){ .request = 1 + i / 2, .answered = i % 2 == 1 };
        ok = run_one(session, &crashing, &result);
    }
    return ok;
}

/* The program ends even if hardly any seed qualifies; the totals then show why. */
static bool goes_on(const struct session *session, uint64_t done)
{
    const struct arguments *arguments = &session->arguments;
    return done < arguments->seeds && !is_interrupted &&
           (!arguments->qualified ||
            session->totals.runs / SEEDS_FOR_A_QUALIFIED < arguments->seeds) &&
           (arguments->seconds == 0 ||
            clock_us(CLOCK_MONOTONIC) - session->began_us < arguments->seconds * 1000000);
}

static bool run_seeds(struct session *session)
{
    const struct arguments *arguments = &session->arguments;
    struct run_options options = arguments->run;
    struct run_result result;
    bool ok = true;
    for (uint64_t done = 0; ok && goes_on(session, done); options.seed++) {
        if (arguments->crash_everywhere)
            ok = run_crashes(session, &options);
        else
            ok = run_one(session, &options, &result);
        done = arguments->qualified ? session->totals.qualified : done + 1;
    }
    return ok;
}

static bool run_line(struct session *session, char *line, const char *where)
{
    struct session one = *session;
    if (!options_read_line(line, where, &one.arguments))
        return true;
    bool ok = run_seeds(&one);
    session->totals = one.totals;
    return ok;
}

static bool run_list(struct session *session)
{
    const char *path = session->arguments.list;
    char line[LIST_LINE_MAX], where[LIST_LINE_MAX];
    FILE *file = fopen(path, "r");
    bool ok = true;
    if (!file)
        options_misused("cannot read", path);
    for (unsigned number = 1; ok && !is_interrupted && fgets(line, sizeof line, file);
         number++) {
        snprintf(where, sizeof where, "%s:%u", path, number);
        if (strlen(line) == sizeof line - 1)
            options_misused("there is a line that is too long in", path);
        ok = run_line(session, line, where);
    }
    fclose(file);
    return ok;
}

static void draw_seed(struct arguments *arguments)
{
    uint64_t seed;
    check(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    arguments->run.seed = seed >> 16; /* 48 bits are easier to copy */
    printf("the first seed is %" PRIu64 "\n", arguments->run.seed);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct session session = { .totals = TOTALS, .tells = isatty(STDERR_FILENO) };
    if (argc > 1 && view_equal(view_of(argv[1]), VIEW("scale")))
        return scale_main(argc, argv);
    options_read(argc, argv, &session.arguments);
    if (session.arguments.fresh)
        draw_seed(&session.arguments);
    watch_for_signals();
    session.began_us = clock_us(CLOCK_MONOTONIC);
    session.core_began_us = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    bool ok = session.arguments.list ? run_list(&session) : run_seeds(&session);
    if (!session.arguments.hash)
        print_totals(&session);
    fiber_pool_release();
    if (!ok)
        return EXIT_VIOLATION;
    return is_interrupted ? EXIT_INTERRUPTED : 0;
}
