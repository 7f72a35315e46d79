/* SPDX-License-Identifier: Apache-2.0 */
/* top.c: `top`: starts the program that shows a store in a terminal. */
#include "cli/program.h"

#define INTERVAL_LEAST_MS 50

enum hf_status run_top(struct cli *cli)
{
    struct program program = { .name = "holdfast-top", .variable = "HOLDFAST_TOP" };
    struct view url = { NULL, 0 };
    if (cli->json || cli_given(cli, "trace") || cli_given(cli, "verbose"))
        return cli_invalid(cli, "top is for people; for a program, use 'holdfast locks watch "
                                "--json' and 'holdfast compact status --json'");
    if (option_ms(cli, "interval", INTERVAL_LEAST_MS) < INTERVAL_LEAST_MS)
        return cli_invalid(cli, "--interval must be at least 50ms");
    enum hf_status status = cli_find_store(cli, &url);
    if (status != HF_OK)
        return status;
    program_begin(cli, &program);
    program_add_value(cli, &program, "store", url);
    program_add_option(cli, &program, "ns");
    program_add_option(cli, &program, "partition");
    program_add_span(cli, &program, "interval");
    program_add_span(cli, &program, "for");
    program_add(cli, &program, VIEW("--"));
    if (cli->argument_count > 0)
        program_add(cli, &program, view_of(cli->arguments[0]));
    return program_start(cli, &program);
}
