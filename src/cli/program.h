/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: commands that are programs of their own, so that no other command loads the libraries
 * that only they need. The command's process becomes that program. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "cli/cli.h"

#define PROGRAM_WORDS_MAX 128

struct program {
    const char *name;     /* in the folder of such programs */
    const char *variable; /* the environment variable that may name another path */
    char *words[PROGRAM_WORDS_MAX + 1];
    size_t count;
    bool failed; /* there are too many words, or memory ran out */
};

/* The program's path is its first word. */
void program_begin(struct cli *cli, struct program *program);

/* Adds a word as it is. */
void program_add(struct cli *cli, struct program *program, struct view word);

/* Adds the word if the switch was given. */
void program_add_switch(struct cli *cli, struct program *program, bool given, const char *word);

/* Adds "--name=value". */
void program_add_value(struct cli *cli, struct program *program, const char *name,
                       struct view value);

/* Adds every value that the command was given for the option. */
void program_add_option(struct cli *cli, struct program *program, const char *name);

/* Adds a span that the command was given as "--name-ms=N"; nothing if it was not given. */
void program_add_span(struct cli *cli, struct program *program, const char *name);

/* Adds an option that is a size, in bytes, if it was given. */
void program_add_size(struct cli *cli, struct program *program, const char *name);

/* Returns only if the program could not be started. */
enum hf_status program_start(struct cli *cli, struct program *program);

#endif
