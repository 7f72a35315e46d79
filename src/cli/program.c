/* SPDX-License-Identifier: Apache-2.0 */
/* program.c: gathers the words of another program, and becomes it. */
#include "cli/program.h"

#include "install_paths.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORD_BYTES_MAX ((size_t)64 * 1024)

void program_add(struct cli *cli, struct program *program, struct view word)
{
    struct view copy = { NULL, 0 };
    if (program->count < PROGRAM_WORDS_MAX)
        copy = arena_copy(&cli->arena, word);
    if (copy.data)
        program->words[program->count++] = (char *)(uintptr_t)copy.data;
    else
        program->failed = true;
}

void program_begin(struct cli *cli, struct program *program)
{
    const char *variable = secure_getenv(program->variable);
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", HOLDFAST_LIBEXEC, program->name);
    program_add(cli, program, view_of(variable ? variable : path));
}

void program_add_switch(struct cli *cli, struct program *program, bool given, const char *word)
{
    if (given)
        program_add(cli, program, view_of(word));
}

void program_add_value(struct cli *cli, struct program *program, const char *name,
                       struct view value)
{
    struct buffer word = BUFFER_INIT(WORD_BYTES_MAX);
    buffer_print(&word, "--%s=%.*s", name, VIEW_ARGS(value));
    if (word.failed)
        program->failed = true;
    else
        program_add(cli, program, buffer_view(&word));
    buffer_release(&word);
}

void program_add_option(struct cli *cli, struct program *program, const char *name)
{
    for (const struct option_value *value = cli_option(cli, name); value; value = value->next)
        program_add_value(cli, program, name, value->text);
}

void program_add_span(struct cli *cli, struct program *program, const char *name)
{
    char option[64], ms[24];
    if (!cli_given(cli, name))
        return;
    snprintf(option, sizeof option, "%s-ms", name);
    snprintf(ms, sizeof ms, "%" PRId64, option_ms(cli, name, 0));
    program_add_value(cli, program, option, view_of(ms));
}

void program_add_size(struct cli *cli, struct program *program, const char *name)
{
    char bytes[24];
    if (!cli_given(cli, name))
        return;
    snprintf(bytes, sizeof bytes, "%" PRIu64, option_number(cli, name, 0));
    program_add_value(cli, program, name, view_of(bytes));
}

enum hf_status program_start(struct cli *cli, struct program *program)
{
    if (program->failed)
        return error_set(&cli->error, HF_INVALID, "there are too many options");
    execv(program->words[0], program->words);
    if (errno != ENOENT)
        return error_cannot_open(&cli->error, errno, program->words[0]);
    return error_set(&cli->error, HF_UNSUPPORTED,
                     "the program %s is not at '%.100s': install it, or set %s to its path",
                     program->name, program->words[0], program->variable);
}
