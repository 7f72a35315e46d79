/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c: `serve`: starts the server, which is a program of its own, so that no other command
 * loads the libraries that only the server needs. */
#include "cli/cli.h"
#include "install_paths.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SERVER_NAME     "holdfast-serve"
#define SERVER_DEFAULT  HOLDFAST_LIBEXEC "/" SERVER_NAME
#define SERVER_VARIABLE "HOLDFAST_SERVE"

/* Every option may be given several times at most this often. */
#define WORDS_MAX 128

struct words {
    char *list[WORDS_MAX + 1];
    size_t count;
    bool failed; /* there are too many, or memory ran out */
};

static void add_word(struct cli *cli, struct words *words, const char *name, struct view value)
{
    struct buffer word = BUFFER_INIT(64 * 1024);
    buffer_print(&word, "--%s=%.*s", name, VIEW_ARGS(value));
    struct view copy = { NULL, 0 };
    if (!word.failed && words->count < WORDS_MAX)
        copy = arena_copy(&cli->arena, buffer_view(&word));
    buffer_release(&word);
    if (copy.data)
        words->list[words->count++] = (char *)(uintptr_t)copy.data;
    else
        words->failed = true;
}

/* `word` is a constant. */
static void add_switch(struct words *words, bool given, const char *word)
{
    if (given && words->count < WORDS_MAX)
        words->list[words->count++] = (char *)(uintptr_t)word;
    else if (given)
        words->failed = true;
}

/* A duration, which the server takes in milliseconds. */
static void add_span(struct cli *cli, struct words *words, const char *name,
                     const char *ms_name)
{
    char ms[24];
    if (!cli_given(cli, name))
        return;
    snprintf(ms, sizeof ms, "%" PRId64, option_ms(cli, name, 0));
    add_word(cli, words, ms_name, view_of(ms));
}

/* The options as the server reads them. */
static void add_options(struct cli *cli, struct words *words)
{
    static const char *const names[] = { "listen",        "tokens",  "host",    "tls-cert",
                                         "tls-key",       "workers", "max-ops", "compact",
                                         "tls-client-ca", "index",   "elect" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (const struct option_value *value = cli_option(cli, names[i]); value;
             value = value->next)
            add_word(cli, words, names[i], value->text);
    add_switch(words, cli_given(cli, "insecure"), "--insecure");
    add_switch(words, cli_given(cli, "no-sweep"), "--no-sweep");
    add_switch(words, cli->quiet, "--quiet");
    add_switch(words, cli->json, "--json");
    add_span(cli, words, "for", "for-ms");
    add_span(cli, words, "idle-grace", "idle-grace-ms");
    add_span(cli, words, "op-delay", "op-delay-ms");
    add_span(cli, words, "max-runtime", "max-runtime-ms");
}

enum hf_status run_serve(struct cli *cli)
{
    struct view url = { NULL, 0 };
    struct words words = { .count = 0 };
    const char *variable = secure_getenv(SERVER_VARIABLE);
    const char *program = variable ? variable : SERVER_DEFAULT;
    if (cli_given(cli, "trace"))
        return error_set(&cli->error, HF_INVALID, "a server cannot be traced");
    enum hf_status status = cli_find_store(cli, &url);
    if (status != HF_OK)
        return status;
    words.list[words.count++] = (char *)(uintptr_t)program;
    add_word(cli, &words, "store", url);
    add_options(cli, &words);
    if (words.failed)
        return error_set(&cli->error, HF_INVALID, "there are too many options");
    execv(program, words.list);
    if (errno != ENOENT)
        return error_cannot_open(&cli->error, errno, program);
    return error_set(&cli->error, HF_UNSUPPORTED,
                     "the program " SERVER_NAME
                     " is not at '%.100s': install it, or set " SERVER_VARIABLE " to its path",
                     program);
}
