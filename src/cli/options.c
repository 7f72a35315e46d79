/* options.c: from the words of a command line to a command, its options and its arguments, by
 * the table alone. */
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
    const struct option_spec *spec = find_in(global_options, name, letter);
    if (spec) {
        check(spec - global_options < GLOBAL_OPTIONS_MAX);
        *ret_value = &cli->global_values[spec - global_options];
        return spec;
    }
    spec = cli->command ? find_in(cli->command->options, name, letter) : NULL;
    if (spec)
        *ret_value = &cli->values[spec - cli->command->options];
    return spec;
}

bool cli_has_option(struct cli *cli, const char *name)
{
    struct option_value *value;
    return find_option(cli, view_of(name), /* letter */ 0, &value) != NULL;
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

static enum hf_status unknown_option(struct cli *cli, struct view name)
{
    struct nearest nearest = { .wanted = name };
    for (const struct option_spec *o = global_options; o->name; o++)
        nearest_offer(&nearest, view_of(o->name));
    for (const struct option_spec *o = cli->command ? cli->command->options : NULL;
         o && o->name; o++)
        nearest_offer(&nearest, view_of(o->name));
    struct view shown = view_first(name, 40);
    if (nearest.best.data)
        return error_set(&cli->error, HF_INVALID, "unknown option --%.*s; did you mean --%.*s?",
                         VIEW_ARGS(shown), VIEW_ARGS(nearest.best));
    if (!cli->command)
        return error_set(&cli->error, HF_INVALID,
                         "unknown option --%.*s; the options of a command must come after it",
                         VIEW_ARGS(shown));
    return error_set(&cli->error, HF_INVALID, "unknown option --%.*s; --help lists the options",
                     VIEW_ARGS(shown));
}

static enum hf_status parse_value(struct cli *cli, const struct option_spec *spec,
                                  struct option_value *value)
{
    enum hf_status status = HF_OK;
    switch (spec->type) {
    case OPTION_FLAG:
    case OPTION_TEXT: break;
    case OPTION_COUNT:
        status = parse_u64(value->text, INT64_MAX, &value->number, &cli->error);
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

/* Where the next value of an option goes that may be given many times. */
static struct option_value *append_value(struct cli *cli, struct option_value *value)
{
    while (value->next)
        value = value->next;
    value->next = arena_take(&cli->arena, sizeof *value->next);
    if (value->next)
        *value->next = (struct option_value){ .given = false };
    return value->next;
}

/* Stores one option. `inline_value` has data when it was written as --name=value; else a value
 * is taken from the next word, at *at. */
static enum hf_status take_option(struct cli *cli, const struct option_spec *spec,
                                  struct option_value *value, struct view inline_value,
                                  char **words, int count, int *at)
{
    if (value->given && spec->many)
        value = append_value(cli, value);
    else if (value->given && spec->type != OPTION_FLAG)
        return error_set(&cli->error, HF_INVALID, "--%s is given twice", spec->name);
    if (!value)
        return error_no_memory(&cli->error);
    value->given = true;
    if (spec->type == OPTION_FLAG) {
        if (inline_value.data)
            return error_set(&cli->error, HF_INVALID, "--%s takes no value", spec->name);
        return HF_OK;
    }
    value->text = inline_value;
    if (!value->text.data) {
        if (*at + 1 >= count)
            return error_set(&cli->error, HF_INVALID, "--%s needs a value: %s", spec->name,
                             spec->value);
        value->text = view_of(words[++*at]);
    }
    return parse_value(cli, spec, value);
}

static enum hf_status take_long(struct cli *cli, char **words, int count, int *at)
{
    struct view name = view_of(words[*at] + 2);
    struct view inline_value = { NULL, 0 };
    size_t equals = view_find(name, '=');
    if (equals < name.size) {
        inline_value = view_from(name, equals + 1);
        name = view_first(name, equals);
    }
    struct option_value *value;
    const struct option_spec *spec = find_option(cli, name, /* letter */ 0, &value);
    if (!spec)
        return unknown_option(cli, name);
    return take_option(cli, spec, value, inline_value, words, count, at);
}

/* "-rl" is "-r -l"; a letter that takes a value stands last. */
static enum hf_status take_letters(struct cli *cli, char **words, int count, int *at)
{
    for (const char *letter = words[*at] + 1; *letter; letter++) {
        struct option_value *value;
        const struct option_spec *spec = find_option(cli, VIEW(""), *letter, &value);
        if (!spec)
            return error_set(&cli->error, HF_INVALID,
                             "unknown option -%c; --help lists the options; put -- before an "
                             "argument that starts with a dash",
                             *letter >= ' ' && *letter < 0x7f ? *letter : '?');
        if (spec->type != OPTION_FLAG && letter[1])
            return error_set(&cli->error, HF_INVALID, "-%c needs a value: write -%c %s",
                             *letter, *letter, spec->value);
        enum hf_status status =
            take_option(cli, spec, value, (struct view){ NULL, 0 }, words, count, at);
        if (status != HF_OK || spec->type != OPTION_FLAG)
            return status;
    }
    return HF_OK;
}

/* ---- The command --------------------------------------------------------------------- */

/* "store get" out of the words so far. */
static struct view joined_words(const struct cli *cli, char *space, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < cli->word_count && used < size; i++) {
        int n = snprintf(space + used, size - used, "%s%.*s", i ? " " : "",
                         VIEW_ARGS(cli->words[i]));
        used += n > 0 ? (size_t)n : 0;
    }
    return (struct view){ space, used < size ? used : size - 1 };
}

#define NO_DELETING                                                                           \
    "indexes and records cannot be deleted; to hide a record, put a newer one with the same " \
    "key and exclude it with --where"

/* What people type who know other programs, and what does that here. */
static const struct {
    const char *path;
    const char *instead;
} other_words[] = {
    { "lock",
      "holdfast run NAME -- COMMAND holds a lock while a command runs; holdfast acquire NAME "
      "takes one for a script" },
    { "unlock", "'holdfast release LEASE' releases a lease that 'holdfast acquire' printed; "
                "'holdfast locks "
                "break NAME --reason TEXT' breaks somebody else's lock" },
    { "index delete", NO_DELETING },
    { "index rm", NO_DELETING },
    { "ls", "holdfast locks ls lists locks, key ls keys, store ls objects" },
    { "get", "holdfast key get reads a key, store get an object, read a fenced one" },
    { "put", "holdfast key update changes a key, store put an object, write a fenced one" },
    { "rm", "holdfast key rm removes a key, store rm an object" },
    { "flock", "holdfast run NAME -- COMMAND holds a lock while a command runs" },
};

static const char *other_word(struct view path)
{
    for (size_t i = 0; i < sizeof other_words / sizeof *other_words; i++)
        if (view_equal(path, view_of(other_words[i].path)))
            return other_words[i].instead;
    return NULL;
}

/* The commands of a group by the words behind it, or all groups and commands when it is empty. */
static void offer_commands(struct nearest *nearest, struct view group)
{
    size_t skip = group.size ? group.size + 1 : 0;
    for (const struct command *c = NULL; (c = command_next(c));) {
        struct view whole = view_of(c->path);
        if (!view_starts_with(whole, group) || (skip && whole.data[group.size] != ' '))
            continue;
        struct view rest = view_from(whole, skip);
        nearest_offer(nearest, view_first(rest, view_find(rest, ' ')));
        nearest_offer(nearest, rest);
    }
}

static enum hf_status tell_group(struct cli *cli, struct view group, const char *before)
{
    struct buffer names = BUFFER_INIT(HF_WHY_MAX);
    for (const struct command *c = NULL; (c = command_next(c));)
        if (view_starts_with(view_of(c->path), group) && c->path[group.size] == ' ')
            buffer_print(&names, "%s%s", names.size ? ", " : "", c->path + group.size + 1);
    error_set(&cli->error, HF_INVALID, "%s: %.*s", before, VIEW_ARGS(buffer_view(&names)));
    buffer_release(&names);
    return HF_INVALID;
}

/* A group may be mistyped as well as a command; of a group that is right only the last word is
 * compared, since the others would make any word seem near. */
enum hf_status cli_unknown_command(struct cli *cli, struct view path)
{
    size_t last = path.size;
    while (last > 0 && path.data[last - 1] != ' ')
        last--;
    struct view group = view_first(path, last > 0 ? last - 1 : 0);
    struct nearest nearest = { .wanted = view_from(path, last) };
    offer_commands(&nearest, group);
    struct nearest other = { .wanted = path };
    for (size_t i = 0; i < sizeof other_words / sizeof *other_words; i++)
        nearest_offer(&other, view_of(other_words[i].path));
    struct view shown = view_first(path, 60);
    if (other.best.data && (!nearest.best.data || other.distance < nearest.distance))
        return error_set(&cli->error, HF_INVALID, "unknown command '%.*s'; %s",
                         VIEW_ARGS(shown), other_word(other.best));
    if (nearest.best.data)
        return error_set(&cli->error, HF_INVALID,
                         "unknown command '%.*s'; did you mean '%.*s%s%.*s'?", VIEW_ARGS(shown),
                         VIEW_ARGS(group), group.size ? " " : "", VIEW_ARGS(nearest.best));
    if (group.size == 0)
        return error_set(&cli->error, HF_INVALID,
                         "unknown command '%.*s'; 'holdfast help' lists the commands",
                         VIEW_ARGS(shown));
    char before[128];
    snprintf(before, sizeof before, "unknown command '%.*s'; the commands are",
             VIEW_ARGS(shown));
    return tell_group(cli, group, before);
}

/* Whether a command that has taken nothing yet goes on with this word: `sweep` is one, and
 * `sweep status` another. */
static bool goes_deeper(struct cli *cli, const char *word)
{
    char space[128];
    if (cli->argument_count > 0 || cli->word_count == sizeof cli->words / sizeof cli->words[0])
        return false;
    for (size_t i = 0; cli->command->options[i].name; i++)
        if (cli->values[i].given)
            return false;
    cli->words[cli->word_count++] = view_of(word);
    const struct command *deeper = command_find(joined_words(cli, space, sizeof space));
    cli->word_count--;
    return deeper != NULL;
}

static enum hf_status take_word(struct cli *cli, const char *word)
{
    if (cli->command && !goes_deeper(cli, word)) {
        cli->arguments[cli->argument_count++] = word;
        return HF_OK;
    }
    char space[128];
    if (cli->word_count == sizeof cli->words / sizeof cli->words[0])
        return cli_unknown_command(cli, joined_words(cli, space, sizeof space));
    cli->words[cli->word_count++] = view_of(word);
    struct view path = joined_words(cli, space, sizeof space);
    cli->command = command_find(path);
    if (cli->command || command_group_exists(path))
        return HF_OK;
    return cli_unknown_command(cli, path);
}

/* ---- What must fit together ---------------------------------------------------------- */

static enum hf_status check_choices(struct cli *cli)
{
    const struct option_spec *options = cli->command->options;
    for (size_t i = 0; options[i].name; i++)
        for (size_t j = i + 1; options[j].name; j++)
            if (options[i].choice && options[i].choice == options[j].choice &&
                cli->values[i].given && cli->values[j].given)
                return error_set(&cli->error, HF_INVALID,
                                 "--%s and --%s cannot be used together", options[i].name,
                                 options[j].name);
    return HF_OK;
}

/* Says what is missing, and how the shortest command line that lacks nothing is written. */
static enum hf_status missing(struct cli *cli, const char *dashes, const char *name,
                              const char *value)
{
    struct buffer usage = BUFFER_INIT(HF_WHY_MAX);
    command_append_usage(&usage, cli->command);
    error_set(&cli->error, HF_INVALID,
              "%s%s%s%s is missing; usage: %.*s; --help shows all options", dashes, name,
              value ? " " : "", value ? value : "", VIEW_ARGS(buffer_view(&usage)));
    buffer_release(&usage);
    return HF_INVALID;
}

static enum hf_status check_needed(struct cli *cli)
{
    const struct option_spec *options = cli->command->options;
    for (size_t i = 0; options[i].name; i++)
        if (options[i].needed && !cli->values[i].given)
            return missing(cli, "--", options[i].name, options[i].value);
    return HF_OK;
}

static enum hf_status check_arguments(struct cli *cli)
{
    const struct argument_spec *spec = cli->command->arguments;
    size_t most = 0;
    for (; spec->name; spec++, most++) {
        bool needed = spec->count != ARGUMENT_OPTIONAL && spec->count != ARGUMENT_ANY;
        if (needed && cli->argument_count <= most)
            return missing(cli, "", spec->name, /* value */ NULL);
        if (spec->count != ARGUMENT_ONE && spec->count != ARGUMENT_OPTIONAL)
            return HF_OK;
    }
    if (cli->argument_count > most)
        return error_set(&cli->error, HF_INVALID,
                         "unexpected argument '%.60s'; --help shows the usage",
                         cli->arguments[most]);
    return HF_OK;
}

static enum hf_status check_group(struct cli *cli)
{
    char space[128];
    struct view path = joined_words(cli, space, sizeof space);
    return tell_group(cli, path, "a subcommand is missing");
}

/* An error in the words before --json should obey it all the same. */
static bool asks_for_json(char **words, int count)
{
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++)
        if (strcmp(words[i], "--json") == 0)
            return true;
    return false;
}

/* Whether what follows is the command line of another program, options and all. */
static bool rest_is_foreign(const struct cli *cli)
{
    if (!cli->command || cli->argument_count == 0)
        return false;
    const struct argument_spec *last = cli->command->arguments;
    for (size_t i = 1; i < cli->argument_count && last[1].name; i++)
        last++;
    return last->count == ARGUMENT_COMMAND;
}

static enum hf_status take_all(struct cli *cli, char **words, int count)
{
    bool options_over = false;
    for (int i = 0; i < count; i++) {
        const char *word = words[i];
        enum hf_status status = HF_OK;
        if (options_over || rest_is_foreign(cli) || word[0] != '-' || word[1] == '\0')
            status = take_word(cli, word);
        else if (strcmp(word, "--") == 0)
            options_over = true;
        else if (word[1] == '-')
            status = take_long(cli, words, count, &i);
        else
            status = take_letters(cli, words, count, &i);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

enum hf_status cli_parse(struct cli *cli, int argc, char **argv)
{
    cli->json = asks_for_json(argv + 1, argc - 1);
    cli->arguments = arena_take(&cli->arena, sizeof *cli->arguments * (size_t)argc);
    if (!cli->arguments)
        return error_no_memory(&cli->error);
    enum hf_status status = take_all(cli, argv + 1, argc - 1);
    if (status != HF_OK)
        return status;
    cli->json = cli_given(cli, "json");
    cli->quiet = cli_given(cli, "quiet");
    if (cli_given(cli, "help") || cli_given(cli, "version"))
        return HF_OK;
    if (!cli->command)
        return cli->word_count > 0 ? check_group(cli) : HF_OK;
    status = check_choices(cli);
    if (status == HF_OK)
        status = check_needed(cli);
    return status == HF_OK ? check_arguments(cli) : status;
}
