/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: parses a command line into a command, its options and its arguments, as the command
 * table describes them. */
#include "base/check.h"
#include "base/parse.h"
#include "cli/cli.h"

#include <stdio.h>

/* ---- Options ------------------------------------------------------------------------- */

static const struct option_spec *find_in(const struct option_spec *list, struct view name,
                                         char letter)
{
    for (; list->name; list++)
        if (letter ? list->letter == letter : view_equal(view_of(list->name), name))
            return list;
    return NULL;
}

static const struct option_spec *find_option(struct cli *cli, struct view name, char letter,
                                             struct option_value **ret_value)
{
    const struct option_spec *spec = find_in(program_row.options, name, letter);
    if (spec) {
        *ret_value = &cli->global_values[spec - program_row.options];
        return spec;
    }
    spec = cli->command ? find_in(cli->command->options, name, letter) : NULL;
    if (spec)
        *ret_value = &cli->values[spec - cli->command->options];
    return spec;
}

const struct option_spec *cli_option_spec(struct cli *cli, struct view name)
{
    struct option_value *value;
    return find_option(cli, name, /* letter */ 0, &value);
}

bool cli_has_option(struct cli *cli, const char *name)
{
    return cli_option_spec(cli, view_of(name)) != NULL;
}

const struct option_value *cli_option(struct cli *cli, const char *name)
{
    struct option_value *value;
    check(find_option(cli, view_of(name), /* letter */ 0, &value));
    return value->given ? value : NULL;
}

struct span cli_span(struct cli *cli, const char *name, struct span otherwise)
{
    const struct option_value *option = cli_option(cli, name);
    return option ? option->span : otherwise;
}

int64_t option_ms(struct cli *cli, const char *name, int64_t otherwise)
{
    const struct option_value *option = cli_option(cli, name);
    return option ? option->span.us / 1000 : otherwise;
}

uint64_t option_number(struct cli *cli, const char *name, uint64_t otherwise)
{
    const struct option_value *option = cli_option(cli, name);
    return option ? option->number : otherwise;
}

const char *option_text(struct cli *cli, const char *name)
{
    const struct option_value *option = cli_option(cli, name);
    return option ? option->text.data : NULL; /* a word of the command line is NUL-terminated */
}

static enum hf_status unknown_option(struct cli *cli, struct view name)
{
    struct nearest nearest = { .wanted = name };
    for (const struct option_spec *o = cli->command ? cli->command->options : NULL;
         o && o->name; o++)
        nearest_offer(&nearest, view_of(o->name));
    for (const struct option_spec *o = program_row.options; o->name; o++)
        nearest_offer(&nearest, view_of(o->name));
    struct view shown = view_first(name, 40);
    if (nearest.best.data)
        return cli_invalid(cli, "unknown option --%.*s; did you mean --%.*s?", VIEW_ARGS(shown),
                           VIEW_ARGS(nearest.best));
    if (!cli->command)
        return cli_invalid(cli,
                           "unknown option --%.*s; the options of a command must come after it",
                           VIEW_ARGS(shown));
    return cli_invalid(cli, "unknown option --%.*s; --help lists the options",
                       VIEW_ARGS(shown));
}

enum hf_status cli_parse_value(struct cli *cli, const struct option_spec *spec,
                               struct option_value *value)
{
    enum hf_status status = HF_OK;
    switch (spec->type) {
    case OPTION_FLAG:
    case OPTION_TEXT: break;
    case OPTION_COUNT:
        status = parse_u64(value->text, INT64_MAX, &value->number, &cli->error);
        break;
    case OPTION_EXIT_CODE:
        status = parse_u64(value->text, UINT8_MAX, &value->number, &cli->error);
        break;
    case OPTION_LIMIT:
        value->number = INT64_MAX;
        if (!view_equal(value->text, VIEW("any")))
            status = parse_u64(value->text, INT64_MAX, &value->number, &cli->error);
        break;
    case OPTION_SIZE: status = parse_size(value->text, &value->number, &cli->error); break;
    case OPTION_WAIT:
        value->span = WAIT_FOREVER;
        if (view_equal(value->text, VIEW("forever")))
            break;
        status = parse_span(value->text, &value->span, &cli->error);
        if (status != HF_OK && !view_starts_with(value->text, VIEW("-")))
            error_set(&cli->error, status, "%.200s, or 'forever'", cli->error.why);
        if (value->span.us > WAIT_FOREVER.us)
            value->span = WAIT_FOREVER;
        break;
    case OPTION_SPAN: status = parse_span(value->text, &value->span, &cli->error); break;
    }
    if (status != HF_OK)
        error_prefix(&cli->error, "--%s", spec->name);
    return status;
}

enum hf_status cli_set_default(struct cli *cli, const char *name, struct view text)
{
    struct option_value *value;
    const struct option_spec *spec = find_option(cli, view_of(name), /* letter */ 0, &value);
    if (!spec || value->given)
        return HF_OK;
    for (size_t i = 0; spec->choice && cli->command->options[i].name; i++)
        if (cli->command->options[i].choice == spec->choice && cli->values[i].given)
            return HF_OK;
    *value = (struct option_value){ .given = true, .by_default = true, .text = text };
    return cli_parse_value(cli, spec, value);
}

/* The words of a command line, and the word that is being parsed. */
struct words {
    const char *const *words;
    int count, at;
};

/* Stores one option. `inline_value` has data if the option was written as --name=value; otherwise,
 * the value is the next word. */
static enum hf_status take_option(struct cli *cli, const struct option_spec *spec,
                                  struct option_value *value, struct view inline_value,
                                  struct words *words)
{
    if (value->given && spec->many) { /* all values are used */
        while (value->next)
            value = value->next;
        value->next = arena_take(&cli->arena, sizeof *value->next);
        value = value->next;
        if (!value)
            return error_no_memory(&cli->error);
        *value = (struct option_value){ .given = true };
    } else if (value->given && spec->type != OPTION_FLAG) {
        return cli_invalid(cli, "--%s was given twice", spec->name);
    }
    value->given = true;
    if (spec->type == OPTION_FLAG)
        return inline_value.data ? cli_invalid(cli, "--%s takes no value", spec->name) : HF_OK;
    value->text = inline_value;
    if (!value->text.data) {
        cli->lacks_value = words->at + 1 >= words->count ? spec : NULL;
        if (cli->lacks_value)
            return cli_invalid(cli, "--%s needs a value: %s", spec->name, spec->value);
        value->text = view_of(words->words[++words->at]);
    }
    return cli_parse_value(cli, spec, value);
}

static enum hf_status take_long(struct cli *cli, struct words *words)
{
    struct view name = view_of(words->words[words->at] + 2), inline_value = { NULL, 0 };
    size_t equals = view_find(name, '=');
    if (equals < name.size) {
        inline_value = view_from(name, equals + 1);
        name = view_first(name, equals);
    }
    struct option_value *value;
    const struct option_spec *spec = find_option(cli, name, /* letter */ 0, &value);
    return spec ? take_option(cli, spec, value, inline_value, words)
                : unknown_option(cli, name);
}

/* "-rl" is "-r -l"; only the last letter may take a value. */
static enum hf_status take_short(struct cli *cli, struct words *words)
{
    for (const char *letter = words->words[words->at] + 1; *letter; letter++) {
        struct option_value *value;
        const struct option_spec *spec = find_option(cli, VIEW(""), *letter, &value);
        if (!spec)
            return cli_invalid(cli,
                               "unknown option -%c; --help lists the options; put -- before an "
                               "argument that starts with a dash",
                               *letter >= ' ' && *letter < 0x7f ? *letter : '?');
        if (spec->type != OPTION_FLAG && letter[1])
            return cli_invalid(cli, "-%c needs a value: use -%c %s", *letter, *letter,
                               spec->value);
        enum hf_status status = take_option(cli, spec, value, (struct view){ NULL, 0 }, words);
        if (status != HF_OK || spec->type != OPTION_FLAG)
            return status;
    }
    return HF_OK;
}

/* ---- The command --------------------------------------------------------------------- */

struct view cli_path(const struct cli *cli, char space[COMMAND_PATH_MAX])
{
    size_t used = 0;
    for (size_t i = 0; i < cli->word_count; i++) {
        if (used >= COMMAND_PATH_MAX)
            break;
        int n = snprintf(space + used, COMMAND_PATH_MAX - used, "%s%.*s", i ? " " : "",
                         VIEW_ARGS(cli->words[i]));
        used += n > 0 ? (size_t)n : 0;
    }
    return (struct view){ space, used < COMMAND_PATH_MAX ? used : COMMAND_PATH_MAX - 1 };
}

const struct command *command_find(struct view path)
{
    for (const struct command *c = command_table; c->path; c++) {
        if (view_equal(view_of(c->path), path))
            return c;
        for (const char *const *alias = c->aliases; *alias; alias++)
            if (view_equal(view_of(*alias), path))
                return c;
    }
    return NULL;
}

bool command_group_exists(struct view path)
{
    for (const struct command *c = command_table; c->path; c++)
        if (view_starts_with(view_of(c->path), path) && c->path[path.size] == ' ')
            return true;
    return false;
}

static enum hf_status tell_group(struct cli *cli, struct view group, const char *before)
{
    struct buffer names = BUFFER_INIT(HF_WHY_MAX);
    for (const struct command *c = command_table; c->path; c++)
        if (view_starts_with(view_of(c->path), group) && c->path[group.size] == ' ')
            buffer_print(&names, "%s%s", names.size ? ", " : "", c->path + group.size + 1);
    cli_invalid(cli, "%s: %.*s", before, VIEW_ARGS(buffer_view(&names)));
    buffer_release(&names);
    return HF_INVALID;
}

/* The name of a group may also be mistyped, so the first words of all commands are compared too.
 * Within an existing group, only the last word is compared, because the shared words would make
 * every command seem similar. */
enum hf_status cli_unknown_command(struct cli *cli, struct view path)
{
    size_t last = path.size;
    while (last > 0 && path.data[last - 1] != ' ')
        last--;
    struct view group = view_first(path, last > 0 ? last - 1 : 0), shown = view_first(path, 60);
    struct nearest nearest = { .wanted = view_from(path, last) }, other = { .wanted = path };
    for (const struct command *c = command_table; c->path; c++) {
        struct view whole = view_of(c->path), rest = view_from(whole, last);
        if (!view_starts_with(whole, group) || (last > 0 && whole.data[group.size] != ' '))
            continue;
        nearest_offer(&nearest, view_first(rest, view_find(rest, ' ')));
        nearest_offer(&nearest, rest);
    }
    const char *hint = NULL;
    for (const struct term *row = command_hints; row->term; row++) {
        nearest_offer(&other, view_of(row->term));
        if (other.best.data == row->term)
            hint = row->text;
    }
    if (hint && (!nearest.best.data || other.distance < nearest.distance))
        return cli_invalid(cli, "unknown command '%.*s'; %s", VIEW_ARGS(shown), hint);
    if (nearest.best.data)
        return cli_invalid(cli, "unknown command '%.*s'; did you mean '%.*s%s%.*s'?",
                           VIEW_ARGS(shown), VIEW_ARGS(group), group.size ? " " : "",
                           VIEW_ARGS(nearest.best));
    if (group.size == 0)
        return cli_invalid(cli, "unknown command '%.*s'; 'holdfast help' lists the commands",
                           VIEW_ARGS(shown));
    char before[128];
    snprintf(before, sizeof before, "unknown command '%.*s'; the commands are",
             VIEW_ARGS(shown));
    return tell_group(cli, group, before);
}

/* If a command has no options or arguments yet, the next word may form a longer command with it:
 * `sweep` is a command, and so is `sweep status`. */
static enum hf_status take_plain_word(struct cli *cli, const char *word)
{
    char space[COMMAND_PATH_MAX];
    bool complete =
        cli->command && (cli->argument_count > 0 || cli->word_count == PATH_WORDS_MAX);
    for (size_t i = 0; i < OPTIONS_MAX; i++)
        complete = complete || cli->values[i].given;
    if (!complete && cli->word_count == PATH_WORDS_MAX)
        return cli_unknown_command(cli, cli_path(cli, space));
    if (!complete) {
        cli->words[cli->word_count++] = view_of(word);
        struct view path = cli_path(cli, space);
        const struct command *found = command_find(path);
        if (found || !cli->command) {
            cli->command = found;
            return found || command_group_exists(path) ? HF_OK : cli_unknown_command(cli, path);
        }
        cli->word_count--;
    }
    cli->arguments[cli->argument_count++] = word;
    return HF_OK;
}

/* ---- Consistency checks -------------------------------------------------------------- */

/* Names the missing option or argument, and prints the shortest valid command line. */
static enum hf_status missing(struct cli *cli, const char *dashes, const char *name,
                              const char *value, const char *where)
{
    struct buffer usage = BUFFER_INIT(HF_WHY_MAX);
    command_append_usage(&usage, cli->command);
    cli_invalid(cli, "%s%s%s%s is missing%s; usage: %.*s; --help shows all options", dashes,
                name, value ? " " : "", value ? value : "", where,
                VIEW_ARGS(buffer_view(&usage)));
    buffer_release(&usage);
    return HF_INVALID;
}

static enum hf_status check_given_options(struct cli *cli)
{
    const struct option_spec *options = cli->command->options;
    for (size_t i = 0; options[i].name; i++)
        for (size_t j = i + 1; options[j].name; j++)
            if (options[i].choice && options[i].choice == options[j].choice &&
                cli->values[i].given && cli->values[j].given)
                return cli_invalid(cli, "--%s and --%s cannot be used together",
                                   options[i].name, options[j].name);
    for (size_t i = 0; options[i].name; i++)
        if (options[i].needed && !cli->values[i].given)
            return missing(cli, "--", options[i].name, options[i].value, "");
    return HF_OK;
}

/* In "run -- ./deploy.sh", the only word is the command, and the lock before "--" is missing. */
static enum hf_status check_arguments(struct cli *cli)
{
    const struct argument_spec *spec = cli->command->arguments;
    size_t most = 0;
    for (; spec->name; spec++, most++) {
        bool needed = spec->count != ARGUMENT_OPTIONAL && spec->count != ARGUMENT_ANY;
        if (spec->count == ARGUMENT_COMMAND && cli->dashes_first && cli->argument_count == 1)
            return missing(cli, "", cli->command->arguments->name, "(the name of the lock)",
                           " before '--'");
        if (needed && cli->argument_count <= most)
            return missing(cli, "", spec->name, /* value */ NULL, "");
        if (spec->count != ARGUMENT_ONE && spec->count != ARGUMENT_OPTIONAL)
            return HF_OK;
    }
    if (cli->argument_count <= most)
        return HF_OK;
    bool by_lease = most == 0 && cli_has_option(cli, "lease");
    return cli_invalid(cli, "unexpected argument '%.60s'; %s", cli->arguments[most],
                       by_lease ? "a key is renewed or released by its lease, not by its name: "
                                  "use --lease LEASE"
                                : "--help shows the usage");
}

/* Whether the following words are the command line of another program, including options. */
static bool rest_is_foreign(const struct cli *cli)
{
    if (!cli->command || cli->argument_count == 0)
        return false;
    const struct argument_spec *last = cli->command->arguments;
    for (size_t i = 1; i < cli->argument_count; i++)
        last += last[1].name != NULL;
    return last->count == ARGUMENT_COMMAND;
}

/* Parses one word and, if it is an option, the value after it. */
static enum hf_status take_next_word(struct cli *cli, struct words *words)
{
    const char *word = words->words[words->at];
    cli->options_over = cli->options_over || rest_is_foreign(cli);
    if (cli->options_over || word[0] != '-' || word[1] == '\0')
        return take_plain_word(cli, word);
    if (strcmp(word, "--") != 0)
        return word[1] == '-' ? take_long(cli, words) : take_short(cli, words);
    cli->options_over = true;
    cli->dashes_first = cli->argument_count == 0;
    return HF_OK;
}

void cli_parse_typed(struct cli *line, const char *const *words, size_t count)
{
    struct words parsed = { words, (int)count, 0 };
    line->arguments = arena_take(&line->arena, sizeof *line->arguments * (count + 1));
    while (line->arguments && parsed.at < parsed.count) {
        take_next_word(line, &parsed);
        parsed.at++;
    }
    line->options_over = line->options_over || rest_is_foreign(line);
}

/* Looks for --json first, so that an error in an earlier word is also printed as JSON. */
enum hf_status cli_parse(struct cli *cli, int argc, char **argv)
{
    struct words words = { (const char *const *)argv + 1, argc - 1, 0 };
    for (int i = 0; i < words.count; i++) {
        if (strcmp(words.words[i], "--") == 0)
            break;
        cli->json = cli->json || strcmp(words.words[i], "--json") == 0;
    }
    cli->arguments = arena_take(&cli->arena, sizeof *cli->arguments * (size_t)argc);
    if (!cli->arguments)
        return error_no_memory(&cli->error);
    enum hf_status status = HF_OK;
    while (status == HF_OK && words.at < words.count) {
        status = take_next_word(cli, &words);
        words.at++;
    }
    if (status != HF_OK)
        return status;
    cli->json = cli_given(cli, "json");
    cli->quiet = cli_given(cli, "quiet");
    if (cli_given(cli, "help") || cli_given(cli, "version"))
        return HF_OK;
    char space[COMMAND_PATH_MAX];
    if (!cli->command)
        return cli->word_count > 0
                   ? tell_group(cli, cli_path(cli, space), "a subcommand is missing")
                   : HF_OK;
    status = check_given_options(cli);
    return status == HF_OK ? check_arguments(cli) : status;
}
