/* basic.c: the commands about the program itself. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static enum hf_status run_version(struct cli *cli)
{
    if (cli->json)
        output_json(&cli->out, json_pack("{ss}", "version", hf_version()));
    else
        output_print(&cli->out, "holdfast %s\n", hf_version());
    return HF_OK;
}

/* One page into DIR/holdfast-store-get.1; of NULL, that of the program. */
static enum hf_status write_man_page(struct cli *cli, const char *folder,
                                     const struct command *command)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/holdfast%s%s.1", folder, command ? "-" : "",
                        command ? command->path : "");
    for (char *at = path + strlen(folder); *at; at++)
        if (*at == ' ')
            *at = '-';
    int fd = size < (int)sizeof path
                 ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)
                 : (errno = ENAMETOOLONG, -1);
    if (fd < 0) {
        error_from_errno(&cli->error, errno, "write");
        error_about(&cli->error, path);
        return cli->error.status;
    }
    struct output out = cli->out;
    output_init(&cli->out, fd);
    if (command)
        help_man_command(cli, command);
    else
        help_man(cli);
    enum hf_status status = output_flush(&cli->out, &cli->error);
    output_release(&cli->out);
    cli->out = out;
    close(fd);
    return status;
}

static enum hf_status write_man_pages(struct cli *cli)
{
    const char *folder = cli_option(cli, "man-pages")->text.data;
    enum hf_status status = write_man_page(cli, folder, NULL);
    for (const struct command *c = NULL; status == HF_OK && (c = command_next(c));)
        status = write_man_page(cli, folder, c);
    return status;
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
    if (command && cli_given(cli, "man"))
        help_man_command(cli, command);
    else if (command)
        help_command(cli, command);
    else if (!path.failed && command_group_exists(words))
        help_group(cli, words);
    else
        status = cli_unknown_command(cli, words);
    buffer_release(&path);
    return status;
}

static enum hf_status run_help(struct cli *cli)
{
    if (cli->argument_count > 0)
        return help_of_words(cli);
    if (cli_given(cli, "man-pages"))
        return write_man_pages(cli);
    if (cli_given(cli, "man"))
        help_man(cli);
    else if (cli->json)
        help_json(cli);
    else
        help_overview(cli);
    return HF_OK;
}

#define COMPLETION_WORDS                                                                      \
    "Completes commands, options and their values, files, kinds of stores, commands behind "  \
    "run, "                                                                                   \
    "and names that the store has: locks, keys, objects, partitions, indexes, transactions, " \
    "groups. The script asks the program itself, for a second at most; when the store does "  \
    "not "                                                                                    \
    "answer, it offers nothing. 'make install' puts it where the shell finds it."

const struct command basic_commands[] = {
    {
        .path = "help",
        .summary = "show all commands, or all about one",
        .arguments = { { "COMMAND", ARGUMENT_ANY, COMPLETE_COMMAND,
                         "the command, in one or more words" } },
        .options = { { .name = "man",
                       .choice = 1,
                       .summary = "write the manual page, or that of COMMAND, as roff" },
                     { .name = "man-pages",
                       .type = OPTION_TEXT,
                       .choice = 1,
                       .value = "DIR",
                       .completion = COMPLETE_FILE,
                       .summary =
                           "write all manual pages, one per command, into this folder" } },
        .details = { "Every command also explains itself with --help. The manual pages have "
                     "the "
                     "same text: holdfast(1), and one per command, such as "
                     "holdfast-store-get(1)." },
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
        .details = { COMPLETION_WORDS },
        .examples = { { "holdfast completion bash > completion.bash && . ./completion.bash",
                        "complete in this shell" } },
        .run = run_completion_bash,
    },
    {
        .path = "completion zsh",
        .summary = "write a script that teaches zsh to complete holdfast's commands",
        .details = { COMPLETION_WORDS },
        .examples = { { "holdfast completion zsh > _holdfast", "for a folder of $fpath" } },
        .run = run_completion_zsh,
    },
    {
        .path = "completion fish",
        .summary = "write a script that teaches fish to complete holdfast's commands",
        .details = { COMPLETION_WORDS },
        .examples = { { "holdfast completion fish > holdfast.fish",
                        "for ~/.config/fish/completions" } },
        .run = run_completion_fish,
    },
    {
        .path = "completion words",
        .summary = "list what could end a command line, for these scripts",
        .arguments = { { "WORD", ARGUMENT_ANY, COMPLETE_NOTHING,
                         "the words so far, without the program's name; the last may be "
                         "empty" } },
        .details = { "The first line is the kind: 'words' or 'nospace', then one a line, with "
                     "a "
                     "tab and what it is for; 'file PREFIX', for a path behind that prefix; or "
                     "'program'. Nothing at all where nothing is known, or the store does not "
                     "answer at once. Never makes a store." },
        .examples = { { "holdfast completion words -- run --mode ''",
                        "exclusive and shared" } },
        .only_reads = true,
        .run = run_completion_words,
    },
    { .path = NULL },
};
