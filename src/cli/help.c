/* SPDX-License-Identifier: Apache-2.0 */
/* help.c: writes the help, the manual pages and the JSON description of all commands from the
 * command table; also implements the commands about the program itself: help, version, and the
 * scripts. */
#include "cli/cli.h"
#include "cli/output/page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define TERM_MAX 160

/* ---- Pieces -------------------------------------------------------------------------- */

void command_append_usage(struct buffer *to, const struct command *command)
{
    buffer_print(to, "holdfast %s", command->path);
    for (const struct option_spec *o = command->options; o->name; o++)
        if (o->needed)
            buffer_print(to, " --%s %s", o->name, o->value);
    for (const struct argument_spec *a = command->arguments; a->name; a++)
        if (a->count != ARGUMENT_OPTIONAL && a->count != ARGUMENT_ANY)
            buffer_print(to, a->count == ARGUMENT_COMMAND ? " -- %s" : " %s", a->name);
}

static void append_option(struct buffer *to, const struct option_spec *option)
{
    buffer_print(to, option->value ? "--%s %s" : "--%s", option->name, option->value);
}

/* "holdfast store put [--if-absent | --if-match ETAG] KEY FILE": mutually exclusive options are
 * grouped. */
static void write_synopsis(struct page *page, const struct command *command)
{
    static const char *const forms[][2] = { [ARGUMENT_ONE] = { " ", "" },
                                            [ARGUMENT_OPTIONAL] = { " [", "]" },
                                            [ARGUMENT_MANY] = { " ", "..." },
                                            [ARGUMENT_ANY] = { " [", "...]" },
                                            [ARGUMENT_COMMAND] = { " [--] ", "..." } };
    struct buffer text = BUFFER_INIT(1024);
    buffer_print(&text, "holdfast %s", command->path);
    for (const struct option_spec *o = command->options; o->name; o++) {
        bool first = true;
        for (const struct option_spec *before = command->options; before < o; before++)
            first = first && (!o->choice || before->choice != o->choice);
        if (!first)
            continue;
        buffer_append(&text, o->needed ? VIEW(" ") : VIEW(" ["));
        append_option(&text, o);
        for (const struct option_spec *more = o + 1; more->name; more++) {
            if (!o->choice || more->choice != o->choice)
                continue;
            buffer_append(&text, VIEW(" | "));
            append_option(&text, more);
        }
        buffer_print(&text, "%s%s", o->needed ? "" : "]", o->many ? "..." : "");
    }
    for (const struct argument_spec *a = command->arguments; a->name; a++)
        buffer_print(&text, "%s%s%s", forms[a->count][0], a->name, forms[a->count][1]);
    page_synopsis(page, buffer_text(&text));
    buffer_release(&text);
}

static void write_options(struct page *page, const struct option_spec *options)
{
    for (const struct option_spec *o = options; o->name; o++) {
        struct buffer term = BUFFER_INIT(TERM_MAX), text = BUFFER_INIT(1024);
        if (o->letter)
            buffer_print(&term, "-%c, ", o->letter);
        append_option(&term, o);
        buffer_print(&text, "%s%s", o->summary, o->needed ? " (required)" : "");
        page_row(page, buffer_text(&term), buffer_text(&text), 24);
        buffer_release(&term);
        buffer_release(&text);
    }
}

static void write_arguments(struct page *page, const struct command *command)
{
    for (const struct argument_spec *a = command->arguments; a->name; a++)
        page_row(page, a->name, a->summary, 24);
}

static void write_topic(struct page *page, const struct topic *topic)
{
    page_heading(page, topic->title);
    if (topic->intro && page->roff)
        page_paragraph(page, topic->intro);
    for (size_t i = 0; topic->rows[i].term; i++)
        page_row(page, topic->rows[i].term, topic->rows[i].text, 24);
}

static void write_exit_codes(struct page *page)
{
    page_heading(page, "Exit status");
    for (unsigned i = 0; i < HF_STATUS_COUNT; i++) {
        enum hf_status status = (enum hf_status)i;
        char term[TERM_MAX];
        snprintf(term, sizeof term, "%d %s", hf_status_exit_code(status),
                 hf_status_name(status));
        page_row(page, term, hf_status_text(status), 24);
    }
    page_row(page, "130, 143, ...", "ended by a signal: 128 plus its number, as in shells", 24);
}

static void write_examples(struct page *page, const struct example *examples)
{
    for (const struct example *e = examples; e->line; e++) {
        if (page->roff) {
            page_paragraph(page, e->what);
            page_code(page, e->line);
        } else {
            page_code(page, e->line);
            output_print(page->out, "      # %s\n", e->what);
        }
    }
}

/* ---- Help ---------------------------------------------------------------------------- */

void help_welcome(struct cli *cli)
{
    struct page page = { .out = &cli->out };
    output_print(&cli->out, "Holdfast: %s.\n", program_row.summary);
    page_paragraph(&page, program_row.details[0]);
    output_text(&cli->out, "\nThree commands to try first:\n\n");
    for (const struct example *e = program_row.examples; e->line; e++)
        page_row(&page, e->line, e->what, 48);
    output_text(&cli->out, "\nholdfast help lists all commands.\n");
}

void help_overview(struct cli *cli)
{
    struct page page = { .out = &cli->out };
    output_print(&cli->out, "Holdfast: %s.\n", program_row.summary);
    output_text(&cli->out, "\n  holdfast [OPTION]... COMMAND [OPTION | ARGUMENT]...\n");
    for (const struct command *c = command_table; c->path; c++) {
        if (c == command_table || strcmp(c->group, c[-1].group) != 0)
            page_heading(&page, c->group);
        page_row(&page, c->path, c->summary, 24);
    }
    page_heading(&page, "Options for all commands");
    write_options(&page, program_row.options);
    for (const struct topic *topic = topics; topic->title; topic++)
        write_topic(&page, topic);
    write_exit_codes(&page);
    output_text(&cli->out, "\n'holdfast COMMAND --help' shows the help of one command.\n");
}

void help_group(struct cli *cli, struct view path)
{
    struct page page = { .out = &cli->out };
    output_print(&cli->out, "The commands of holdfast %.*s:\n\n", VIEW_ARGS(path));
    for (const struct command *c = command_table; c->path; c++)
        if (view_starts_with(view_of(c->path), path))
            page_row(&page, c->path, c->summary, 24);
    output_text(&cli->out, "\n'holdfast COMMAND --help' shows the help of one command.\n");
}

static void write_details(struct page *page, const struct command *command)
{
    for (const char *const *paragraph = command->details; *paragraph; paragraph++)
        page_paragraph(page, *paragraph);
    struct buffer aliases = BUFFER_INIT(512);
    for (const char *const *alias = command->aliases; *alias; alias++)
        buffer_print(&aliases, "%s'%s'", aliases.size ? ", " : "Aliases: ", *alias);
    if (aliases.size > 0)
        page_paragraph(page, buffer_text(&aliases));
    buffer_release(&aliases);
    if (command->json) {
        struct buffer json = BUFFER_INIT(1024);
        buffer_print(&json, "With --json: %s.", command->json);
        page_paragraph(page, buffer_text(&json));
        buffer_release(&json);
    }
}

/* Writes everything about a command except its name. */
static void write_command(struct page *page, const struct command *command)
{
    write_synopsis(page, command);
    if (page->roff)
        page_heading(page, "Description");
    write_details(page, command);
    if (command->arguments[0].name) {
        page_heading(page, "Arguments");
        write_arguments(page, command);
    }
    if (command->options[0].name || page->roff) {
        page_heading(page, "Options");
        write_options(page, command->options);
    }
    if (!page->roff)
        page_heading(page, "Options for all commands");
    write_options(page, program_row.options);
    if (command->examples[0].line) {
        page_heading(page, "Examples");
        write_examples(page, command->examples);
    }
}

void help_command(struct cli *cli, const struct command *command)
{
    struct page page = { .out = &cli->out };
    output_print(&cli->out, "holdfast %s: %s\n\n", command->path, command->summary);
    write_command(&page, command);
}

/* ---- The manual page ----------------------------------------------------------------- */

static void help_man(struct cli *cli)
{
    struct page page = { .out = &cli->out, .roff = true };
    page_title(&page, "holdfast", hf_version());
    page_heading(&page, "Name");
    output_print(&cli->out, "holdfast \\- %s\n", program_row.summary);
    page_heading(&page, "Synopsis");
    page_synopsis(&page, "holdfast [OPTION]... COMMAND [OPTION | ARGUMENT]...");
    page_heading(&page, "Description");
    page_paragraph(&page, program_row.details[0]);
    write_examples(&page, program_row.examples);
    page_heading(&page, "Options for all commands");
    write_options(&page, program_row.options);
    page_heading(&page, "Commands");
    for (const struct command *c = command_table; c->path; c++) {
        page_subheading(&page, c->path);
        page_paragraph(&page, c->summary);
        write_synopsis(&page, c);
        write_details(&page, c);
        write_arguments(&page, c);
        write_options(&page, c->options);
        write_examples(&page, c->examples);
    }
    for (const struct topic *topic = topics; topic->title; topic++)
        write_topic(&page, topic);
    write_exit_codes(&page);
}

/* holdfast-store-get(1). */
static void help_man_command(struct cli *cli, const struct command *command)
{
    struct page page = { .out = &cli->out, .roff = true };
    char name[TERM_MAX];
    snprintf(name, sizeof name, "holdfast %s", command->path);
    page_title(&page, name, hf_version());
    page_heading(&page, "Name");
    for (char *at = name; *at; at++)
        output_print(&cli->out, *at == ' ' || *at == '-' ? "\\-" : "%c", *at);
    output_print(&cli->out, " \\- ");
    page_inline(&page, command->summary);
    page_heading(&page, "Synopsis");
    write_command(&page, command);
    page_heading(&page, "See also");
    page_paragraph(&page, "holdfast(1), which lists exit statuses and environment variables.");
}

/* ---- JSON ---------------------------------------------------------------------------- */

static json_t *options_as_json(const struct option_spec *options)
{
    json_t *list = json_array();
    for (const struct option_spec *o = options; o->name; o++) {
        char letter[2] = { o->letter, '\0' };
        json_push(&list,
                  json_pack("{s:s, s:s?, s:s?, s:s?, s:b, s:b, s:s}", "name", o->name, "letter",
                            o->letter ? letter : NULL, "value", o->value, "values", o->values,
                            "needed", o->needed, "many", o->many, "summary", o->summary));
    }
    return list;
}

static json_t *examples_as_json(const struct example *examples)
{
    json_t *list = json_array();
    for (const struct example *e = examples; e->line; e++)
        json_push(&list, json_pack("{s:s, s:s}", "line", e->line, "what", e->what));
    return list;
}

static json_t *command_as_json(const struct command *command)
{
    json_t *arguments = json_array();
    for (const struct argument_spec *a = command->arguments; a->name; a++) {
        bool many = a->count != ARGUMENT_ONE && a->count != ARGUMENT_OPTIONAL;
        bool needed = a->count != ARGUMENT_OPTIONAL && a->count != ARGUMENT_ANY;
        json_push(&arguments, json_pack("{s:s, s:b, s:b, s:s}", "name", a->name, "needed",
                                        needed, "many", many, "summary", a->summary));
    }
    json_t *aliases = json_array();
    for (const char *const *alias = command->aliases; *alias; alias++)
        json_push(&aliases, json_string(*alias));
    return json_pack("{s:s, s:o, s:s, s:s?, s:b, s:o, s:o, s:o}", "command", command->path,
                     "aliases", aliases, "summary", command->summary, "json", command->json,
                     "only_reads", (int)command->only_reads, "arguments", arguments, "options",
                     options_as_json(command->options), "examples",
                     examples_as_json(command->examples));
}

static void help_json(struct cli *cli)
{
    json_t *commands = json_array(), *statuses = json_array();
    for (const struct command *c = command_table; c->path; c++)
        json_push(&commands, command_as_json(c));
    for (enum hf_status i = HF_OK; i < HF_STATUS_COUNT; i++)
        json_push(&statuses,
                  json_pack("{s:s, s:i, s:s}", "status", hf_status_name(i), "exit_code",
                            hf_status_exit_code(i), "text", hf_status_text(i)));
    output_json(&cli->out,
                json_pack("{s:s, s:o, s:o, s:o, s:o}", "version", hf_version(), "options",
                          options_as_json(program_row.options), "commands", commands, "welcome",
                          examples_as_json(program_row.examples), "statuses", statuses));
}

/* ---- The commands -------------------------------------------------------------------- */

enum hf_status print_script(struct cli *cli)
{
    output_text(&cli->out, cli->command->script);
    return HF_OK;
}

enum hf_status run_version(struct cli *cli)
{
    if (cli->json)
        output_json(&cli->out, json_pack("{ss}", "version", hf_version()));
    else
        output_print(&cli->out, "holdfast %s\n", hf_version());
    return HF_OK;
}

/* Writes one page, such as DIR/holdfast-store-get.1. If `command` is NULL, writes the page of the
 * program itself. */
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

/* Shows the help for the words after `help`, which name a command or a group. */
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

enum hf_status run_help(struct cli *cli)
{
    const char *folder = option_text(cli, "man-pages");
    if (cli->argument_count > 0)
        return help_of_words(cli);
    if (folder) {
        enum hf_status status = write_man_page(cli, folder, NULL);
        for (const struct command *c = command_table; c->path; c++)
            if (status == HF_OK)
                status = write_man_page(cli, folder, c);
        return status;
    }
    if (cli_given(cli, "man"))
        help_man(cli);
    else if (cli->json)
        help_json(cli);
    else
        help_overview(cli);
    return HF_OK;
}
