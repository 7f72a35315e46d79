/* basic.c: the commands about the program itself. */
#include "cli/cli.h"

static enum hf_status run_version(struct cli *cli)
{
    if (cli->json)
        output_json(&cli->out, json_pack("{ss}", "version", hf_version()));
    else
        output_print(&cli->out, "holdfast %s\n", hf_version());
    return HF_OK;
}

/* The words behind `help`, as the path of a command or a group. */
static enum hf_status help_of_words(struct cli *cli)
{
    struct buffer path = BUFFER_INIT(256);
    for (size_t i = 0; i < cli->argument_count; i++)
        buffer_print(&path, "%s%s", i ? " " : "", cli->arguments[i]);
    struct view words = buffer_view(&path);
    const struct command *command = command_find(words);
    enum hf_status status = HF_OK;
    if (command)
        help_command(cli, command);
    else if (!path.failed && command_group_exists(words))
        help_group(cli, words);
    else
        status = error_set(&cli->error, HF_INVALID,
                           "there is no command '%.*s'; 'holdfast help' lists them",
                           VIEW_ARGS(view_first(words, 60)));
    buffer_release(&path);
    return status;
}

static enum hf_status run_help(struct cli *cli)
{
    if (cli->argument_count > 0)
        return help_of_words(cli);
    if (cli_given(cli, "man"))
        help_man(cli);
    else if (cli->json)
        help_json(cli);
    else
        help_overview(cli);
    return HF_OK;
}

static enum hf_status run_completion_bash(struct cli *cli)
{
    completion_bash(cli);
    return HF_OK;
}

const struct command basic_commands[] = {
    {
        .path = "help",
        .summary = "show all commands, or all about one",
        .arguments = { { "COMMAND", ARGUMENT_ANY, COMPLETE_COMMAND,
                         "the command, in one or more words" } },
        .options = { { .name = "man", .summary = "write the manual page, as roff" } },
        .details = { "Every command also explains itself with --help. The manual page "
                     "holdfast(1) has the same text." },
        .json = "one JSON object with every command, option and example, for programs",
        .examples = { { "holdfast help store get", "all about one command" },
                      { "holdfast help --man > holdfast.1", "make the manual page" } },
        .run = run_help,
    },
    {
        .path = "version",
        .summary = "show the version",
        .json = "one JSON object",
        .examples = { { "holdfast version", "which version this is" } },
        .run = run_version,
    },
    {
        .path = "completion bash",
        .summary = "write a script that teaches bash to complete holdfast's commands",
        .details = { "It completes commands, options, kinds of stores and files, and needs "
                     "nothing but bash." },
        .examples = { { "holdfast completion bash > completion.bash && . ./completion.bash",
                        "complete in this shell" } },
        .run = run_completion_bash,
    },
    { .path = NULL },
};
