/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the options of holdfast-sim, from its arguments or from a line of a seed file. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "sim/run.h"

enum { EXIT_VIOLATION = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

struct arguments {
    struct run_options run;
    uint64_t seeds;
    int64_t seconds;       /* real time after which no seed is started; 0: no limit */
    bool fresh;            /* the first seed is random */
    bool qualified;        /* only seeds with enough faults and operations count */
    bool crash_everywhere; /* a crash at each request, and at each reply */
    bool keep_size;        /* a failing run is not shrunk */
    bool hash;
    const char *list; /* a file of runs; NULL: none */
};

/* Prints a message and exits if the arguments are invalid or help was requested. */
void options_read(int argc, char **argv, struct arguments *ret_arguments);

/* Parses a line of a file of runs:
 *
 *     WORKLOAD SEED NODES OPERATIONS [OPTION...]  # story
 *
 * Returns false if the line is empty or only a comment. The result points into `line`. `where`
 * names the line in error messages. */
bool options_read_line(char *line, const char *where, struct arguments *ret_arguments);

/* The command that reproduces a run. */
#define REPLAY_MAX 1024
struct replay {
    char text[REPLAY_MAX];
};
void options_replay(const struct run_options *run, struct replay *ret_replay);

/* Prints "holdfast-sim: WHAT 'VALUE'; see holdfast-sim --help" and exits. */
_Noreturn void options_misused(const char *what, const char *value);

#endif
