/* help.c: help, the manual page and the table for programs, all by walking the one table. */
#include "cli/cli.h"
#include "cli/page.h"

#include <inttypes.h>
#include <stdio.h>

#define TERM_MAX 160

static const char tagline[] =
    "leases, locks, compaction and indexes for anything that lives in a bucket";
static const char description[] = "Holdfast needs no lock server: everything that must be "
                                  "agreed on is a small document in an object store, changed "
                                  "only by conditional writes. A store is a folder, an SQLite "
                                  "file, or a bucket.";

static struct page text_page(struct cli *cli)
{
    return (struct page){ .out = &cli->out };
}

/* ---- Pieces -------------------------------------------------------------------------- */

static void append_option(struct buffer *to, const struct option_spec *option)
{
    buffer_print(to, "--%s", option->name);
    if (option->value)
        buffer_print(to, " %s", option->value);
}

/* Those of one choice stand together: "[--if-absent | --if-match ETAG]". */
static void append_options(struct buffer *to, const struct option_spec *options)
{
    for (const struct option_spec *o = options; o->name; o++) {
        bool first = true;
        for (const struct option_spec *before = options; before < o; before++)
            first = first && (!o->choice || before->choice != o->choice);
        if (!first)
            continue;
        buffer_append(to, o->needed ? VIEW(" ") : VIEW(" ["));
        append_option(to, o);
        for (const struct option_spec *more = o + 1; o->choice && more->name; more++) {
            if (more->choice != o->choice)
                continue;
            buffer_append(to, VIEW(" | "));
            append_option(to, more);
        }
        if (!o->needed)
            buffer_append_byte(to, ']');
        if (o->many)
            buffer_append(to, VIEW("..."));
    }
}

static void append_argument(struct buffer *to, const struct argument_spec *argument)
{
    switch (argument->count) {
    case ARGUMENT_ONE: buffer_print(to, " %s", argument->name); break;
    case ARGUMENT_OPTIONAL: buffer_print(to, " [%s]", argument->name); break;
    case ARGUMENT_MANY: buffer_print(to, " %s...", argument->name); break;
    case ARGUMENT_ANY: buffer_print(to, " [%s...]", argument->name); break;
    case ARGUMENT_COMMAND: buffer_print(to, " [--] %s...", argument->name); break;
    }
}

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

/* "holdfast store put [--if-absent | --if-match ETAG] KEY FILE" */
static void write_synopsis(struct page *page, const struct command *command)
{
    struct buffer text = BUFFER_INIT(1024);
    buffer_print(&text, "holdfast %s", command->path);
    append_options(&text, command->options);
    for (const struct argument_spec *a = command->arguments; a->name; a++)
        append_argument(&text, a);
    page_synopsis(page, buffer_text(&text));
    buffer_release(&text);
}

static void write_options(struct page *page, const struct option_spec *options)
{
    for (const struct option_spec *o = options; o->name; o++) {
        char term[TERM_MAX], letter[8] = "";
        if (o->letter)
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(term, sizeof term, "%s--%s%s%s", letter, o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        struct buffer text = BUFFER_INIT(1024);
        buffer_print(&text, "%s%s", o->summary, o->needed ? " (required)" : "");
        page_row(page, term, buffer_text(&text), 24);
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
    page_row(page, "130, 143, ...", "ended by a signal: 128 and its number, as shells count",
             24);
}

static void write_summaries(struct page *page, const struct command *commands,
                            struct view starting)
{
    for (const struct command *c = commands; c->path; c++)
        if (view_starts_with(view_of(c->path), starting))
            page_row(page, c->path, c->summary, 24);
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
    struct page page = text_page(cli);
    output_print(&cli->out, "Holdfast: %s.\n", tagline);
    page_paragraph(&page, description);
    output_text(&cli->out, "\nThree commands to try first:\n\n");
    for (const struct example *e = welcome_examples; e->line; e++)
        page_row(&page, e->line, e->what, 48);
    output_text(&cli->out, "\nholdfast help lists all commands.\n");
}

void help_overview(struct cli *cli)
{
    struct page page = text_page(cli);
    output_print(&cli->out, "Holdfast: %s.\n", tagline);
    output_text(&cli->out, "\n  holdfast [OPTION]... COMMAND [OPTION | ARGUMENT]...\n");
    for (const struct command_group *group = command_groups; group->title; group++) {
        page_heading(&page, group->title);
        write_summaries(&page, group->commands, VIEW(""));
    }
    page_heading(&page, "Options of every command");
    write_options(&page, global_options);
    for (const struct topic *topic = topics; topic->title; topic++)
        write_topic(&page, topic);
    write_exit_codes(&page);
    output_text(&cli->out, "\nholdfast COMMAND --help tells all about one command.\n");
}

void help_group(struct cli *cli, struct view path)
{
    struct page page = text_page(cli);
    output_print(&cli->out, "The commands of holdfast %.*s:\n\n", VIEW_ARGS(path));
    for (const struct command_group *group = command_groups; group->title; group++)
        write_summaries(&page, group->commands, path);
    output_text(&cli->out, "\nholdfast COMMAND --help tells all about one command.\n");
}

static void write_details(struct page *page, const struct command *command)
{
    for (size_t i = 0; i < DETAILS_MAX && command->details[i]; i++)
        page_paragraph(page, command->details[i]);
    struct buffer aliases = BUFFER_INIT(512);
    for (const struct command_alias *a = command_aliases; a->path; a++)
        if (strcmp(a->target, command->path) == 0)
            buffer_print(&aliases, "%s'%s'", aliases.size ? ", " : "Aliases: ", a->path);
    if (aliases.size > 0)
        page_paragraph(page, buffer_text(&aliases));
    buffer_release(&aliases);
    if (command->json) {
        char text[TERM_MAX * 2];
        snprintf(text, sizeof text, "With --json: %s.", command->json);
        page_paragraph(page, text);
    }
}

void help_command(struct cli *cli, const struct command *command)
{
    struct page page = text_page(cli);
    output_print(&cli->out, "holdfast %s: %s\n\n", command->path, command->summary);
    write_synopsis(&page, command);
    write_details(&page, command);
    if (command->arguments[0].name) {
        page_heading(&page, "Arguments");
        write_arguments(&page, command);
    }
    if (command->options[0].name) {
        page_heading(&page, "Options");
        write_options(&page, command->options);
    }
    page_heading(&page, "Options of every command");
    write_options(&page, global_options);
    if (command->examples[0].line) {
        page_heading(&page, "Examples");
        write_examples(&page, command->examples);
    }
}

/* ---- The manual page ----------------------------------------------------------------- */

static void write_man_command(struct page *page, const struct command *command)
{
    page_subheading(page, command->path);
    page_paragraph(page, command->summary);
    write_synopsis(page, command);
    write_details(page, command);
    write_arguments(page, command);
    write_options(page, command->options);
    write_examples(page, command->examples);
}

void help_man(struct cli *cli)
{
    struct page page = { .out = &cli->out, .roff = true };
    page_title(&page, "holdfast", hf_version());
    page_heading(&page, "Name");
    output_print(&cli->out, "holdfast \\- %s\n", tagline);
    page_heading(&page, "Synopsis");
    page_synopsis(&page, "holdfast [OPTION]... COMMAND [OPTION | ARGUMENT]...");
    page_heading(&page, "Description");
    page_paragraph(&page, description);
    write_examples(&page, welcome_examples);
    page_heading(&page, "Options of every command");
    write_options(&page, global_options);
    page_heading(&page, "Commands");
    for (const struct command *c = NULL; (c = command_next(c));)
        write_man_command(&page, c);
    for (const struct topic *topic = topics; topic->title; topic++)
        write_topic(&page, topic);
    write_exit_codes(&page);
}

/* holdfast-store-get(1). */
void help_man_command(struct cli *cli, const struct command *command)
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
    write_synopsis(&page, command);
    page_heading(&page, "Description");
    write_details(&page, command);
    if (command->arguments[0].name) {
        page_heading(&page, "Arguments");
        write_arguments(&page, command);
    }
    page_heading(&page, "Options");
    write_options(&page, command->options);
    write_options(&page, global_options);
    if (command->examples[0].line) {
        page_heading(&page, "Examples");
        write_examples(&page, command->examples);
    }
    page_heading(&page, "See also");
    page_paragraph(&page, "holdfast(1), which has the exit statuses and the environment.");
}

/* ---- The table for programs ---------------------------------------------------------- */

static json_t *options_as_json(const struct option_spec *options)
{
    json_t *list = json_array();
    for (const struct option_spec *o = options; list && o->name; o++) {
        char letter[2] = { o->letter, '\0' };
        json_array_append_new(
            list, json_pack("{s:s, s:s?, s:s?, s:s?, s:b, s:b, s:s}", "name", o->name, "letter",
                            o->letter ? letter : NULL, "value", o->value, "values", o->values,
                            "needed", o->needed, "many", o->many, "summary", o->summary));
    }
    return list;
}

static json_t *examples_as_json(const struct example *examples)
{
    json_t *list = json_array();
    for (const struct example *e = examples; list && e->line; e++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "line", e->line, "what", e->what));
    return list;
}

static json_t *command_as_json(const struct command *command)
{
    json_t *arguments = json_array();
    for (const struct argument_spec *a = command->arguments; arguments && a->name; a++) {
        bool many = a->count != ARGUMENT_ONE && a->count != ARGUMENT_OPTIONAL;
        bool needed = a->count != ARGUMENT_OPTIONAL && a->count != ARGUMENT_ANY;
        json_array_append_new(arguments,
                              json_pack("{s:s, s:b, s:b, s:s}", "name", a->name, "needed",
                                        needed, "many", many, "summary", a->summary));
    }
    json_t *aliases = json_array();
    for (const struct command_alias *a = command_aliases; aliases && a->path; a++)
        if (strcmp(a->target, command->path) == 0)
            json_array_append_new(aliases, json_string(a->path));
    return json_pack("{s:s, s:o, s:s, s:s?, s:b, s:o, s:o, s:o}", "command", command->path,
                     "aliases", aliases, "summary", command->summary, "json", command->json,
                     "only_reads", (int)command->only_reads, "arguments", arguments, "options",
                     options_as_json(command->options), "examples",
                     examples_as_json(command->examples));
}

static json_t *statuses_as_json(void)
{
    json_t *list = json_array();
    for (unsigned i = 0; list && i < HF_STATUS_COUNT; i++) {
        enum hf_status status = (enum hf_status)i;
        json_array_append_new(
            list, json_pack("{s:s, s:i, s:s}", "status", hf_status_name(status), "exit_code",
                            hf_status_exit_code(status), "text", hf_status_text(status)));
    }
    return list;
}

void help_json(struct cli *cli)
{
    json_t *commands = json_array();
    for (const struct command *c = NULL; commands && (c = command_next(c));)
        json_array_append_new(commands, command_as_json(c));
    output_json(&cli->out,
                json_pack("{s:s, s:o, s:o, s:o, s:o}", "version", hf_version(), "options",
                          options_as_json(global_options), "commands", commands, "welcome",
                          examples_as_json(welcome_examples), "statuses", statuses_as_json()));
}
