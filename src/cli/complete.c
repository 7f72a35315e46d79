/* SPDX-License-Identifier: Apache-2.0 */
/* complete.c: implements `completion words`, which lists candidates for the last word of a command
 * line for the shell scripts in commands/completion.*.
 *
 * The first line of the output is its kind: `words` (one word per line, with a tab and a summary),
 * `nospace` (the same, but a word may continue), `file PREFIX` (a path after PREFIX) or `program`
 * (the name of a program). Names of stores and profiles are read from the configuration files, and
 * names of locks, keys and so on from the store, which is never created. Reading takes at most
 * COMPLETE_S and fails silently, because the user is typing. */
#include "cli/config/config.h"
#include "cli/lock/lock.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define COMPLETE_S     1
#define COMPLETE_NAMES 200

/* A command line, as typed so far. */
struct typed {
    struct cli *cli;                 /* the command `completion words` itself */
    struct cli line;                 /* all words except the current one, parsed */
    const struct option_spec *value; /* the option whose value the current word is, or NULL */
    struct view before;              /* the part "--name=" of the current word */
    struct view current;             /* the rest of the current word */
};

/* ---- Writing ------------------------------------------------------------------------- */

static void write_word(struct typed *typed, struct view word, const char *what)
{
    struct output *out = &typed->cli->out;
    if (!view_starts_with(word, typed->current) || view_find(word, '\n') < word.size ||
        view_find(word, '\t') < word.size)
        return;
    output_print(out, "%.*s%.*s", VIEW_ARGS(typed->before), VIEW_ARGS(word));
    output_print(out, what ? "\t%s\n" : "\n", what);
}

static void write_kind(struct typed *typed, const char *kind)
{
    output_print(&typed->cli->out, "%s\n", kind);
}

static void write_file_kind(struct typed *typed, struct view more)
{
    output_print(&typed->cli->out, "file %.*s%.*s\n", VIEW_ARGS(typed->before),
                 VIEW_ARGS(more));
}

/* ---- Commands and options ------------------------------------------------------------ */

static void offer_options(struct typed *typed)
{
    const struct command *command = typed->line.command;
    static const struct option_spec none = { .name = NULL };
    const struct option_spec *lists[] = { command ? command->options : &none,
                                          program_row.options };
    write_kind(typed, "words");
    for (size_t i = 0; i < 2; i++)
        for (const struct option_spec *o = lists[i]; o->name; o++) {
            char word[64];
            snprintf(word, sizeof word, "--%s", o->name);
            write_word(typed, view_of(word), o->summary);
            snprintf(word, sizeof word, "-%c", o->letter);
            if (o->letter)
                write_word(typed, view_of(word), o->summary);
        }
}

/* The word that follows `path` in a command's path; data NULL if the command is not in the
 * group. */
static struct view next_word(const struct command *command, struct view path)
{
    struct view whole = view_of(command->path);
    if (path.size > 0 && !(view_starts_with(whole, path) && command->path[path.size] == ' '))
        return (struct view){ NULL, 0 };
    struct view rest = view_from(whole, path.size > 0 ? path.size + 1 : 0);
    return view_first(rest, view_find(rest, ' '));
}

/* Offers the next word of every command whose path starts with `path`, each word once. */
static void offer_commands(struct typed *typed, struct view path)
{
    write_kind(typed, "words");
    for (const struct command *c = command_table; c->path; c++) {
        struct view word = next_word(c, path);
        bool first = word.data != NULL;
        for (const struct command *before = command_table; before < c; before++) {
            struct view other = next_word(before, path);
            first = first && (!other.data || !view_equal(other, word));
        }
        bool is_whole = first && word.data + word.size == c->path + strlen(c->path);
        if (first)
            write_word(typed, word, is_whole ? c->summary : NULL);
    }
}

/* Offers the names of stores or of profiles in the configuration files, each once. */
static void offer_config_names(struct typed *typed, enum config_section section)
{
    const struct config *config = typed->cli->config;
    for (size_t i = 0; config && i < config->count; i++) {
        const struct config_setting *at = &config->settings[i];
        bool first = at->section == section;
        for (size_t j = 0; j < i; j++)
            first = first && (config->settings[j].section != section ||
                              !view_equal(config->settings[j].subject, at->subject));
        if (first)
            write_word(typed, at->subject, section == CONFIG_STORE ? at->value.data : NULL);
    }
}

/* Offers "dir:" for dir:PATH and "s3://" for s3://BUCKET; after a scheme that is followed by a file
 * name, offers files. */
static void offer_urls(struct typed *typed)
{
    struct view current = typed->current;
    if (view_starts_with(current, VIEW("dir:")) || view_starts_with(current, VIEW("sqlite:"))) {
        write_file_kind(typed, view_first(current, view_find(current, ':') + 1));
        return;
    }
    write_kind(typed, "nospace");
    for (size_t i = 0; topics[TOPIC_STORES].rows[i].term; i++) {
        struct view form = view_of(topics[TOPIC_STORES].rows[i].term);
        size_t size = view_find(form, ':') + 1;
        bool slashes = view_starts_with(view_from(form, size), VIEW("//"));
        write_word(typed, view_first(form, slashes ? size + 2 : size), NULL);
    }
    offer_config_names(typed, CONFIG_STORE);
}

/* ---- Names in the store -------------------------------------------------------------- */

/* The keys that contain names of one kind (docs/formats.md). The name is between `folder` and
 * `ending`, or ends at the next slash. */
static const struct name_place {
    enum completion kind;
    const char *folder; /* follows the namespace if it starts with a slash */
    const char *ending;
    bool rolled_up;
} name_places[] = {
    { COMPLETE_LOCK, "/meta/", ".json", false },
    { COMPLETE_OBJECT, "", "", true },
    { COMPLETE_PARTITION, "metadata/", "/", true },
    { COMPLETE_INDEX, "indexes/", "/", true },
    { COMPLETE_TXN, ".txn-decisions/m/", "", false },
    { COMPLETE_GROUP, "roster/", "/", true },
    { COMPLETE_NAMESPACE, ".holdfast/epoch/", ".json", false },
};

static void give_up_waiting(int number)
{
    (void)number;
    _exit(0);
}

/* A listing of the store whose names are offered. */
struct offering {
    struct typed *typed;
    const struct name_place *place;
    size_t folder_size;
    bool begun;
};

/* Writes the kind of the output, once. */
static void begin_offering(struct offering *offering)
{
    if (!offering->begun)
        write_kind(offering->typed,
                   offering->place->kind == COMPLETE_OBJECT ? "nospace" : "words");
    offering->begun = true;
}

static bool offer_name(void *argument, const struct hf_store_entry *entry)
{
    struct offering *offering = argument;
    const struct name_place *place = offering->place;
    struct view name =
        view_from((struct view){ entry->key, entry->key_size }, offering->folder_size);
    size_t ending = strlen(place->ending);
    begin_offering(offering);
    if (place->kind == COMPLETE_PARTITION && !entry->is_prefix) {
        if (view_equal(name, VIEW("catalog.json"))) /* the catalog of the default partition */
            write_word(offering->typed, VIEW("default"), NULL);
    } else if (name.size > ending && view_ends_with(name, view_of(place->ending))) {
        write_word(offering->typed, view_first(name, name.size - ending), NULL);
    }
    return true;
}

/* `url` is that of the store, or NULL: the store of the command line. */
static void offer_names(struct typed *typed, const struct name_place *place, struct view url)
{
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct offering offering = { .typed = typed, .place = place };
    struct buffer prefix = BUFFER_INIT(2 * HF_KEY_BYTES_MAX);
    struct cli *cli = typed->cli, *line = &typed->line;
    const char *ns = cli_has_option(line, "ns") ? option_text(line, "ns") : NULL;
    struct hf_store *store = NULL;
    if (!url.data && cli_given(line, "store"))
        url = cli_option(line, "store")->text;
    signal(SIGALRM, give_up_waiting);
    alarm(COMPLETE_S);
    if (cli_find_store(cli, &url) != HF_OK ||
        cli_open_url(cli, url, /* coordinates */ false, cli->command->only_reads, &store) !=
            HF_OK)
        return;
    if (place->folder[0] == '/')
        buffer_append(&prefix, view_of(ns ? ns : "default"));
    buffer_append(&prefix, view_of(place->folder));
    offering.folder_size = prefix.size;
    if (place->kind != COMPLETE_PARTITION) /* the default partition has a different key */
        buffer_append(&prefix, typed->current);
    options.max = COMPLETE_NAMES;
    options.delimiter = place->rolled_up ? '/' : '\0';
    const char *text = buffer_text(&prefix);
    if (text &&
        hf_store_list(store, text, &options, offer_name, &offering, /* error */ NULL) == HF_OK)
        begin_offering(&offering);
    buffer_release(&prefix);
    hf_store_close(store);
}

/* After STORE#, where an object is accepted in place of a file or store, offers its objects. */
static bool offer_objects_of_place(struct typed *typed, enum completion kind)
{
    struct view word = typed->current, store = view_first(word, view_find(word, '#'));
    struct cli *cli = typed->cli;
    if ((kind != COMPLETE_FILE && kind != COMPLETE_URL) || store.size == word.size ||
        (!hf_store_is_url(word.data) && !config_has_store(cli, store)))
        return false;
    struct buffer before = BUFFER_INIT(2 * HF_STORE_URL_MAX);
    buffer_append(&before, typed->before);
    buffer_append(&before, view_first(word, store.size + 1));
    typed->before = arena_copy(&cli->arena, buffer_view(&before));
    typed->current = view_from(word, store.size + 1);
    store = arena_copy(&cli->arena, store); /* adds a NUL */
    for (size_t i = 0; i < sizeof name_places / sizeof *name_places; i++)
        if (store.data && typed->before.data && name_places[i].kind == COMPLETE_OBJECT)
            offer_names(typed, &name_places[i], store);
    buffer_release(&before);
    return true;
}

static void offer_kind(struct typed *typed, enum completion kind)
{
    struct buffer path = BUFFER_INIT(128);
    if (offer_objects_of_place(typed, kind))
        return;
    for (size_t i = 0; i < sizeof name_places / sizeof *name_places; i++)
        if (name_places[i].kind == kind)
            offer_names(typed, &name_places[i], (struct view){ NULL, 0 });
    if (kind == COMPLETE_PROFILE) {
        write_kind(typed, "words");
        offer_config_names(typed, CONFIG_PROFILE);
    } else if (kind == COMPLETE_FILE) {
        write_file_kind(typed, VIEW(""));
    } else if (kind == COMPLETE_URL) {
        offer_urls(typed);
    } else if (kind == COMPLETE_PROGRAM) {
        write_kind(typed, "program");
    } else if (kind == COMPLETE_COMMAND) { /* the arguments of `help` are command words */
        for (size_t i = 0; i < typed->line.argument_count; i++)
            buffer_print(&path, "%s%s", i ? " " : "", typed->line.arguments[i]);
        offer_commands(typed, buffer_view(&path));
    }
    buffer_release(&path);
}

/* ---- Reading the line ---------------------------------------------------------------- */

/* The current word belongs to an argument; the last argument may have many words. */
static void offer_arguments(struct typed *typed, struct view path)
{
    const struct cli *line = &typed->line;
    const struct argument_spec *spec = line->command->arguments;
    size_t at = 0;
    while (spec->name && at < line->argument_count &&
           (spec->count == ARGUMENT_ONE || spec->count == ARGUMENT_OPTIONAL)) {
        at++;
        spec++;
    }
    bool later_of_program = spec->completion == COMPLETE_PROGRAM && at < line->argument_count;
    if (line->argument_count == 0 && command_group_exists(path))
        offer_commands(typed, path);
    else if (spec->name)
        offer_kind(typed, later_of_program ? COMPLETE_FILE : spec->completion);
}

static bool ignore_mistake(void *argument, const struct hf_error *error)
{
    (void)argument, (void)error;
    return true;
}

/* Reads the configuration files, as far as they can be read, for the names of stores and for the
 * store that they choose. A profile on the typed line counts. */
static void read_typed_config(struct typed *typed)
{
    struct cli *cli = typed->cli;
    const struct option_value *profile = cli_option(&typed->line, "profile");
    if (profile)
        cli_set_default(cli, "profile", profile->text);
    config_read(cli, ignore_mistake, NULL, &cli->config);
}

/* A word such as "--mode=sh" is an option and the start of its value. */
enum hf_status run_completion_words(struct cli *cli)
{
    size_t count = cli->argument_count > 0 ? cli->argument_count - 1 : 0;
    char space[COMMAND_PATH_MAX];
    struct typed typed = { .cli = cli, .line = { .arena = ARENA_INIT }, .before = VIEW("") };
    cli_parse_typed(&typed.line, cli->arguments, count);
    read_typed_config(&typed);
    struct view path = cli_path(&typed.line, space);
    struct view word = cli->argument_count > 0 ? view_of(cli->arguments[count]) : VIEW("");
    size_t equals = view_find(word, '=');
    typed.value = typed.line.lacks_value;
    typed.current = word;
    if (!typed.value && !typed.line.options_over && view_starts_with(word, VIEW("--")) &&
        equals < word.size) {
        typed.value = cli_option_spec(&typed.line, view_from(view_first(word, equals), 2));
        typed.before = view_first(word, equals + 1);
        typed.current = view_from(word, equals + 1);
    }
    if (typed.value && typed.value->values) {
        struct view rest = view_of(typed.value->values);
        write_kind(&typed, "words");
        while (rest.size > 0)
            write_word(&typed, view_cut(&rest, ' '), NULL);
    } else if (typed.value) {
        offer_kind(&typed, typed.value->completion);
    } else if (!typed.line.options_over && view_starts_with(typed.current, VIEW("-"))) {
        offer_options(&typed);
    } else if (typed.line.command) {
        offer_arguments(&typed, path);
    } else {
        offer_commands(&typed, path);
    }
    arena_release(&typed.line.arena);
    return HF_OK;
}
