/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the options of holdfast-sim, from its arguments or from a line of a seed file. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "sim/run.h"

enum { EXIT_VIOLATION = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

struct arguments {
    struct run_options run;
    uint64_t seeds;
    int64_t seconds;       /* of real time, after which no seed is started; 0: no limit */
    bool fresh;            /* the first seed is drawn */
    bool qualified;        /* only seeds with enough faults and operations count */
    bool crash_everywhere; /* for each request: at sending, and at its reply */
    bool keep_size;        /* a seed that fails is not shrunk */
    bool hash;
    const char *list; /* a file of runs; NULL: none */
};

/* Prints a message and exits if they are invalid, or if help was requested. */
void options_read(int argc, char **argv, struct arguments *ret_arguments);

/* A line of a file of runs:
 *
 *     WORKLOAD SEED NODES OPERATIONS [OPTION...]  # story
 *
 * Returns false if the line is empty or only a comment. The words stay in `line`. `where`
 * names the line in error messages. */
bool options_read_line(char *line, const char *where, struct arguments *ret_arguments);

/* The command that runs it again. */
#define REPLAY_MAX 1024
struct replay {
    char text[REPLAY_MAX];
};
void options_replay(const struct run_options *run, struct replay *ret_replay);

/* "holdfast-sim: WHAT 'VALUE'; see holdfast-sim --help"; exits. */
_Noreturn void options_misused(const char *what, const char *value);

#endif
