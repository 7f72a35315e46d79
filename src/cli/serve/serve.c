/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c: `serve`: starts the server, which is a program of its own. */
#include "cli/log.h"
#include "cli/program.h"

/* The form of the log may also come from a variable or a configuration file. */
static void add_log(struct cli *cli, struct program *program)
{
    const char *origin, *form = cli_chosen(cli, "log", "HOLDFAST_LOG", &origin);
    if (form)
        program_add_value(cli, program, "log", view_of(form));
}

/* The options as the server reads them. */
static void add_options(struct cli *cli, struct program *program)
{
    static const char *const names[] = { "listen",        "tokens",  "host",    "tls-cert",
                                         "tls-key",       "workers", "max-ops", "compact",
                                         "tls-client-ca", "index",   "elect",   "log-requests",
                                         "audit",         "rate" };
    static const char *const spans[] = { "for", "idle-grace", "op-delay", "max-runtime" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        program_add_option(cli, program, names[i]);
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        program_add_span(cli, program, spans[i]);
    add_log(cli, program);
    program_add_size(cli, program, "scrub");
    program_add_switch(cli, program, cli_given(cli, "insecure"), "--insecure");
    program_add_switch(cli, program, cli_given(cli, "no-sweep"), "--no-sweep");
    program_add_switch(cli, program, cli->quiet, "--quiet");
    program_add_switch(cli, program, cli->json, "--json");
}

enum hf_status run_serve(struct cli *cli)
{
    struct program program = { .name = "holdfast-serve", .variable = "HOLDFAST_SERVE" };
    struct view url = { NULL, 0 };
    if (cli_given(cli, "trace") || cli_given(cli, "verbose"))
        return error_set(&cli->error, HF_INVALID,
                         "a server cannot be traced; --log-requests logs its requests");
    enum hf_status status = cli_find_store(cli, &url);
    if (status != HF_OK)
        return status;
    program_begin(cli, &program);
    program_add_value(cli, &program, "store", url);
    add_options(cli, &program);
    return program_start(cli, &program);
}
