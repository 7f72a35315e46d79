/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: parses the options of holdfast-sim, from its arguments or from a line of a seed file,
 * and formats the command that reproduces a run. */
#include "sim/options.h"

#include "base/check.h"
#include "base/parse.h"
#include "sim/mutants/mutant.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#define WORDS_MAX 32

/* Each option: its name, the name of its value (empty: no value), and its help. */
#define OPTION_TABLE(ROW)                                                                 \
    ROW(SEED, "seed", "N", "the first seed (default: 1)")                                 \
    ROW(FRESH, "fresh", "", "draw the first seed at random, and print it")                \
    ROW(SEEDS, "seeds", "COUNT", "how many seeds to run (default: 1)")                    \
    ROW(SECONDS, "seconds", "S",                                                          \
        "start no new seed after S seconds; --seeds is then unlimited by default")        \
    ROW(QUALIFIED, "qualified", "",                                                       \
        "count only seeds with 10 faults in flight and 50 operations")                    \
    ROW(NODES, "nodes", "K", "number of nodes, 1 to 64 (default: 5)")                     \
    ROW(OPERATIONS, "operations", "M",                                                    \
        "operations of all nodes together, 1 to 100000 (default: 50)")                    \
    ROW(WORKLOAD, "workload", "W", "what the nodes do (default: counter)")                \
    ROW(CALM, "calm", "", "no faults")                                                    \
    ROW(WITHOUT, "without", "F,F", "leave these faults out")                              \
    ROW(FAULTS_MAX, "faults-max", "N", "only the first N faults")                         \
    ROW(CRASH_AT, "crash-at", "N",                                                        \
        "no faults except a crash as request N leaves; Nr: as its reply arrives")         \
    ROW(CRASH_EVERYWHERE, "crash-everywhere", "", "run each seed once per such crash")    \
    ROW(BROKEN_STORE, "broken-store", "", "the store ignores conditions; this must fail") \
    ROW(MUTANT, "mutant", "RULE", "break this rule; this must fail")                      \
    ROW(MUTANTS, "mutants", "", "list the rules that can be broken, and exit")            \
    ROW(LIST, "list", "FILE",                                                             \
        "run the lines of FILE: WORKLOAD SEED NODES OPERATIONS [OPTION...]")              \
    ROW(KEEP_SIZE, "no-shrink", "", "do not search for a smaller run that fails too")     \
    ROW(TRACE, "trace", "", "print every event, one per line")                            \
    ROW(HASH, "hash", "", "print the hash of each seed's trace")                          \
    ROW(HELP, "help", "", "this text")

/* Numbers start at 1 and stay below '?' (63), which getopt_long returns for an unknown option. */
#define OPTION_ENUM_(option, name, takes, about) OPTION_##option,
enum option_number { OPTION_NONE_, OPTION_TABLE(OPTION_ENUM_) OPTION_COUNT };
#undef OPTION_ENUM_
_Static_assert((int)OPTION_COUNT < '?', "no option number collides with '?'");

/* Where the line that is being parsed comes from; NULL while the arguments are being parsed. */
static const char *reading;

_Noreturn void options_misused(const char *what, const char *value)
{
    fprintf(stderr, "holdfast-sim: %s%s%s%s%s%s; see holdfast-sim --help\n",
            reading ? reading : "", reading ? ": " : "", what, value ? " '" : "",
            value ? value : "", value ? "'" : "");
    exit(EXIT_USAGE);
}

/* ---- Help ---------------------------------------------------------------------------- */

static void print_names(void)
{
    printf("\nworkloads:\n");
    for (size_t i = 0; workloads[i]; i++)
        printf("  %-9s %s\n", workloads[i]->name, workloads[i]->about);
    printf("\nfaults:\n");
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        if (*fault_name((enum fault)i))
            printf("  %-17s %s\n", fault_name((enum fault)i), fault_count_text((enum fault)i));
}

static void print_help(void)
{
#define OPTION_HELP_(option, name, takes, about) { name, takes, about },
    static const struct {
        const char *name, *takes, *about;
    } rows[] = { OPTION_TABLE(OPTION_HELP_) };
#undef OPTION_HELP_
    printf("usage: holdfast-sim [OPTION...]\n"
           "       holdfast-sim scale [OPTION...]   (a fleet; holdfast-sim scale --help)\n"
           "\n"
           "Runs Holdfast in a simulated world in which anything may fail, once per seed, and\n"
           "checks that every promise holds. The same seed always gives the same run.\n"
           "\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char option[32];
        snprintf(option, sizeof option, "--%s %s", rows[i].name, rows[i].takes);
        printf("  %-19s %s\n", option, rows[i].about);
    }
    print_names();
    printf("\nexit status: 0 all seeds passed, %d a seed failed, %d usage error\n",
           EXIT_VIOLATION, EXIT_USAGE);
}

/* ---- Values -------------------------------------------------------------------------- */

static uint64_t read_number(struct view text, uint64_t min, uint64_t max, const char *what)
{
    uint64_t value;
    struct hf_error error;
    if (parse_u64(text, max, &value, &error) != HF_OK || value < min)
        options_misused(what, optarg);
    return value;
}

static const struct workload *read_workload(void)
{
    const struct workload *workload = workload_find(view_of(optarg));
    if (!workload)
        options_misused("unknown workload", optarg);
    return workload;
}

static uint64_t read_without(void)
{
    uint64_t without = 0;
    for (struct view rest = view_of(optarg); rest.size > 0;) {
        enum fault fault;
        if (!fault_find(view_cut(&rest, ','), &fault))
            options_misused("--without takes fault names separated by commas, not", optarg);
        without |= UINT64_C(1) << fault;
    }
    return without;
}

/* 17: as request 17 is sent; 17r: as its reply arrives. */
static struct crash_at read_crash_at(void)
{
    struct view text = view_of(optarg);
    bool answered = text.size > 0 && text.data[text.size - 1] == 'r';
    text.size -= answered;
    uint64_t request = read_number(text, 1, UINT64_MAX, "--crash-at takes 17 or 17r, not");
    return (struct crash_at){ .request = request, .answered = answered };
}

static void break_rule(void)
{
    if (!mutant_make(view_of(optarg)))
        options_misused("this build cannot break a rule named", optarg);
}

/* ---- Arguments ----------------------------------------------------------------------- */

/* Reads an option that defines a run, and is therefore part of the command that reproduces it. */
static bool read_run_option(struct run_options *run, int option)
{
    struct view value = view_of(optarg ? optarg : "");
    switch (option) {
    case OPTION_SEED:
        run->seed = read_number(value, 0, UINT64_MAX, "--seed takes a number, not");
        return true;
    case OPTION_NODES:
        run->nodes = (unsigned)read_number(value, 1, NODES_MAX, "--nodes takes 1 to 64, not");
        return true;
    case OPTION_OPERATIONS:
        run->operations = (unsigned)read_number(value, 1, OPERATIONS_MAX,
                                                "--operations takes 1 to 100000, not");
        return true;
    case OPTION_WORKLOAD: run->workload = read_workload(); return true;
    case OPTION_CALM: run->calm = true; return true;
    case OPTION_WITHOUT: run->limits.without |= read_without(); return true;
    case OPTION_FAULTS_MAX:
        run->limits.max = read_number(value, 0, UINT64_MAX, "--faults-max takes a number, not");
        return true;
    case OPTION_CRASH_AT: run->crash_at = read_crash_at(); return true;
    case OPTION_BROKEN_STORE: run->ignore_conditions = true; return true;
    case OPTION_MUTANT: break_rule(); return true;
    default: return false;
    }
}

static void read_option(struct arguments *arguments, int option)
{
    struct view value = view_of(optarg ? optarg : "");
    switch (option) {
    case OPTION_SEEDS:
        arguments->seeds = read_number(value, 1, UINT64_MAX, "--seeds takes a count, not");
        return;
    case OPTION_SECONDS:
        arguments->seconds =
            (int64_t)read_number(value, 1, 1000000, "--seconds takes 1 to 1000000, not");
        return;
    case OPTION_FRESH: arguments->fresh = true; return;
    case OPTION_QUALIFIED: arguments->qualified = true; return;
    case OPTION_CRASH_EVERYWHERE: arguments->crash_everywhere = true; return;
    case OPTION_KEEP_SIZE: arguments->keep_size = true; return;
    case OPTION_LIST: arguments->list = optarg; return;
    case OPTION_TRACE: arguments->run.trace = TRACE_PRINT; return;
    case OPTION_HASH: arguments->hash = true; return;
    case OPTION_HELP: print_help(); exit(0);
    case OPTION_MUTANTS: mutant_list(stdout); exit(0);
    default: check_unreachable();
    }
}

static void settle(struct arguments *arguments)
{
    struct run_options *run = &arguments->run;
    if (arguments->seeds == 0)
        arguments->seeds = arguments->seconds > 0 ? UINT64_MAX : 1;
    if (arguments->hash && run->trace == TRACE_OFF)
        run->trace = TRACE_HASH;
    if (arguments->crash_everywhere && run->crash_at.request > 0)
        options_misused("--crash-everywhere and --crash-at cannot be used together", NULL);
}

void options_read(int argc, char **argv, struct arguments *ret_arguments)
{
#define OPTION_LONG_(option, name, takes, about) \
    { name, takes[0] ? required_argument : no_argument, NULL, OPTION_##option },
    static const struct option options[] = { OPTION_TABLE(OPTION_LONG_){ NULL, 0, NULL, 0 } };
#undef OPTION_LONG_
    *ret_arguments = (struct arguments){ .run = RUN_OPTIONS };
    ret_arguments->run.workload = &workload_counter;
    ret_arguments->run.trace = TRACE_OFF;
    ret_arguments->run.trace_out = stdout;
    optind = 0; /* restarts getopt for each line */
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == '?')
            exit(EXIT_USAGE);
        if (!read_run_option(&ret_arguments->run, option))
            read_option(ret_arguments, option);
    }
    if (optind < argc)
        options_misused("unexpected argument", argv[optind]);
    settle(ret_arguments);
}

/* ---- Lines of a file ----------------------------------------------------------------- */

/* Splits a line into words, at most `max`, in place. */
static int split(char *line, char **words, int max)
{
    int count = 0;
    char *at = line;
    for (;;) {
        at += strspn(at, " \t\n");
        if (*at == '\0' || *at == '#')
            return count;
        if (count == max)
            options_misused("the line has too many words", NULL);
        words[count++] = at;
        at += strcspn(at, " \t\n");
        if (*at != '\0')
            *at++ = '\0';
    }
}

bool options_read_line(char *line, const char *where, struct arguments *ret_arguments)
{
    static char program[] = "holdfast-sim", workload[] = "--workload", seed[] = "--seed",
                nodes[] = "--nodes", operations[] = "--operations";
    char *words[WORDS_MAX];
    reading = where;
    int count = split(line, words, WORDS_MAX);
    if (count > 0 && count < 4)
        options_misused("a line must begin with WORKLOAD SEED NODES OPERATIONS, not", words[0]);
    if (count > 0) {
        char *argv[WORDS_MAX + 6] = { program, workload, words[0],   seed,    words[1],
                                      nodes,   words[2], operations, words[3] };
        int argc = 9;
        for (int i = 4; i < count; i++)
            argv[argc++] = words[i];
        options_read(argc, argv, ret_arguments);
    }
    reading = NULL;
    return count > 0;
}

/* ---- The command that reproduces a run ----------------------------------------------- */

__attribute__((format(printf, 3, 4))) static size_t add(struct replay *replay, size_t used,
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(replay->text + used, sizeof replay->text - used, format, arguments);
    va_end(arguments);
    check(size >= 0 && (size_t)size < sizeof replay->text - used);
    return used + (size_t)size;
}

static size_t add_faults(struct replay *replay, size_t used, const struct fault_limits *limits)
{
    const char *before = " --without ";
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        if (limits->without >> i & 1) {
            used = add(replay, used, "%s%s", before, fault_name((enum fault)i));
            before = ",";
        }
    if (limits->max < UINT64_MAX)
        used = add(replay, used, " --faults-max %" PRIu64, limits->max);
    return used;
}

void options_replay(const struct run_options *run, struct replay *ret_replay)
{
    struct replay *replay = ret_replay;
    size_t used =
        add(replay, 0,
            "holdfast-sim --seed %" PRIu64 " --nodes %u --operations %u --workload %s",
            run->seed, run->nodes, run->operations, run->workload->name);
    if (run->crash_at.request > 0)
        used = add(replay, used, " --crash-at %" PRIu64 "%s", run->crash_at.request,
                   run->crash_at.answered ? "r" : "");
    used = add_faults(replay, used, &run->limits);
    if (mutant_name())
        used = add(replay, used, " --mutant %s", mutant_name());
    add(replay, used, "%s%s --trace", run->calm ? " --calm" : "",
        run->ignore_conditions ? " --broken-store" : "");
}
