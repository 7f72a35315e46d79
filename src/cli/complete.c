/* complete.c: what could stand at the end of a command line, for the scripts of completion.c.
 *
 * The first line tells the kind: `words` (one a line, with a tab and what it is for), `nospace`
 * (the same, and a word goes on), `file PREFIX` (a path behind PREFIX) or `program` (the name of
 * one). Names of locks, keys and so on are asked of the store, which is never made by asking. That
 * takes COMPLETE_S at most, and fails in silence: somebody is typing. */
#include "base/layout.h"
#include "cli/connect.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define COMPLETE_S     1
#define COMPLETE_NAMES 200

/* A command line, as far as it was typed. */
struct typed {
    struct cli *cli;
    const struct command *command;
    struct view path; /* of the command, or of the group so far */
    char path_space[128];
    size_t arguments; /* before the current word */
    bool options_over;
    const struct option_spec *value; /* of which the current word is the value */
    struct view before;              /* "--name=" of the current word */
    struct view current;             /* behind that */
    struct view store, ns;           /* of --store and --ns; data NULL: not given */
    struct view help_of;             /* the words behind `help` */
    char help_space[128];
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

static void write_file(struct typed *typed, struct view more)
{
    output_print(&typed->cli->out, "file %.*s%.*s\n", VIEW_ARGS(typed->before),
                 VIEW_ARGS(more));
}

/* ---- Words of the table -------------------------------------------------------------- */

static void offer_options(struct typed *typed)
{
    const struct option_spec *lists[] = { typed->command ? typed->command->options : NULL,
                                          global_options };
    write_kind(typed, "words");
    for (size_t i = 0; i < 2; i++)
        for (const struct option_spec *o = lists[i]; o && o->name; o++) {
            char word[64];
            snprintf(word, sizeof word, "--%s", o->name);
            write_word(typed, view_of(word), o->summary);
            snprintf(word, sizeof word, "-%c", o->letter);
            if (o->letter)
                write_word(typed, view_of(word), o->summary);
        }
}

/* The word of a command behind this path; data NULL when it is not of that group. */
static struct view next_word(const struct command *command, struct view path)
{
    struct view whole = view_of(command->path);
    if (path.size > 0 && !(view_starts_with(whole, path) && command->path[path.size] == ' '))
        return (struct view){ NULL, 0 };
    struct view rest = view_from(whole, path.size > 0 ? path.size + 1 : 0);
    return view_first(rest, view_find(rest, ' '));
}

/* The next word of every command that starts with this path; each once. */
static void offer_commands(struct typed *typed, struct view path)
{
    write_kind(typed, "words");
    for (const struct command *c = NULL; (c = command_next(c));) {
        struct view word = next_word(c, path);
        bool first = word.data != NULL;
        for (const struct command *before = NULL;
             first && (before = command_next(before)) != c;) {
            struct view other = next_word(before, path);
            first = !other.data || !view_equal(other, word);
        }
        bool is_whole = first && word.data + word.size == c->path + strlen(c->path);
        if (first)
            write_word(typed, word, is_whole ? c->summary : NULL);
    }
}

/* The words of a list that is separated by blanks. */
static void offer_values(struct typed *typed, const char *values)
{
    struct view rest = view_of(values);
    write_kind(typed, "words");
    while (rest.size > 0)
        write_word(typed, view_cut(&rest, ' '), NULL);
}

/* "dir:" of dir:PATH, "s3://" of s3://BUCKET. */
static struct view scheme_of(const char *form)
{
    struct view whole = view_of(form);
    size_t size = view_find(whole, ':') + 1;
    if (view_starts_with(view_from(whole, size), VIEW("//")))
        size += 2;
    return view_first(whole, size);
}

static void offer_urls(struct typed *typed)
{
    if (view_starts_with(typed->current, VIEW("dir:")) ||
        view_starts_with(typed->current, VIEW("sqlite:"))) {
        write_file(typed, view_first(typed->current, view_find(typed->current, ':') + 1));
        return;
    }
    write_kind(typed, "nospace");
    for (size_t i = 0; topics[TOPIC_STORES].rows[i].term; i++)
        write_word(typed, scheme_of(topics[TOPIC_STORES].rows[i].term), NULL);
}

/* ---- Names in the store -------------------------------------------------------------- */

/* Where the names of a kind stand: between a folder and an ending, or before the next slash. */
static const struct name_place {
    enum completion kind;
    const char *folder; /* behind the namespace, if it starts with a slash */
    const char *ending;
    bool rolled_up;
} name_places[] = {
    { COMPLETE_LOCK, LAYOUT_META_FOLDER, ".json", false },
    { COMPLETE_OBJECT, "", "", true },
    { COMPLETE_PARTITION, LAYOUT_CHUNK_FOLDER, "/", true },
    { COMPLETE_INDEX, LAYOUT_INDEX_FOLDER, "/", true },
    { COMPLETE_TXN, LAYOUT_TXN_FOLDER, "", false },
    { COMPLETE_GROUP, LAYOUT_ROSTER_FOLDER, "/", true },
    { COMPLETE_NAMESPACE, LAYOUT_EPOCH_FOLDER, ".json", false },
};

static void give_up_waiting(int number)
{
    (void)number;
    _exit(0);
}

static void limit_time(void)
{
    signal(SIGALRM, give_up_waiting);
    alarm(COMPLETE_S);
}

/* Where a name that is offered stands. */
struct offering {
    struct typed *typed;
    const struct name_place *place;
    size_t folder_size;
    bool begun;
};

/* Says what follows, once. */
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
        if (view_equal(name, VIEW(LAYOUT_CATALOG))) /* that of the default one */
            write_word(offering->typed, VIEW(LAYOUT_PARTITION_DEFAULT), NULL);
    } else if (name.size > ending && view_ends_with(name, view_of(place->ending))) {
        write_word(offering->typed, view_first(name, name.size - ending), NULL);
    }
    return true;
}

static void offer_names(struct typed *typed, const struct name_place *place)
{
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct offering offering = { .typed = typed, .place = place };
    struct buffer prefix = BUFFER_INIT(2 * KEY_BYTES_MAX);
    struct view url = typed->store;
    struct cli *cli = typed->cli;
    struct hf_store *store = NULL;
    limit_time();
    if (cli_find_store(cli, &url) != HF_OK ||
        cli_open_url(cli, url, /* coordinates */ false, cli->command->only_reads, &store) !=
            HF_OK)
        return;
    if (place->folder[0] == '/')
        buffer_append(&prefix, typed->ns.data ? typed->ns : VIEW(LAYOUT_NAMESPACE_DEFAULT));
    buffer_append(&prefix, view_of(place->folder));
    offering.folder_size = prefix.size;
    if (place->kind != COMPLETE_PARTITION) /* the default one has another place */
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

static void offer(struct typed *typed, enum completion kind, const char *values)
{
    if (values) {
        offer_values(typed, values);
        return;
    }
    for (size_t i = 0; i < sizeof name_places / sizeof *name_places; i++)
        if (name_places[i].kind == kind)
            offer_names(typed, &name_places[i]);
    switch (kind) {
    case COMPLETE_FILE: write_file(typed, VIEW("")); break;
    case COMPLETE_URL: offer_urls(typed); break;
    case COMPLETE_PROGRAM: write_kind(typed, "program"); break;
    case COMPLETE_COMMAND: offer_commands(typed, typed->help_of); break;
    case COMPLETE_NOTHING:
    case COMPLETE_LOCK:
    case COMPLETE_OBJECT:
    case COMPLETE_PARTITION:
    case COMPLETE_INDEX:
    case COMPLETE_TXN:
    case COMPLETE_GROUP:
    case COMPLETE_NAMESPACE: break;
    }
}

/* ---- Reading the line ---------------------------------------------------------------- */

static const struct option_spec *option_of(const struct typed *typed, struct view word)
{
    const struct option_spec *lists[] = { global_options,
                                          typed->command ? typed->command->options : NULL };
    bool is_long = view_starts_with(word, VIEW("--"));
    struct view name = view_from(word, is_long ? 2 : 1);
    for (size_t i = 0; i < 2; i++)
        for (const struct option_spec *o = lists[i]; o && o->name; o++)
            if (is_long ? view_equal(name, view_of(o->name))
                        : name.size > 0 && o->letter == name.data[name.size - 1])
                return o;
    return NULL;
}

static void note_value(struct typed *typed, const struct option_spec *option, struct view value)
{
    if (view_equal(view_of(option->name), VIEW("store")))
        typed->store = value;
    else if (view_equal(view_of(option->name), VIEW("ns")))
        typed->ns = value;
}

/* The argument that the current word would be; the last may be many words. */
static const struct argument_spec *argument_now(const struct typed *typed)
{
    const struct argument_spec *spec = typed->command->arguments;
    size_t index = 0;
    while (spec->name && index < typed->arguments) {
        if (spec->count != ARGUMENT_ONE && spec->count != ARGUMENT_OPTIONAL)
            return spec;
        spec++;
        index++;
    }
    return spec->name ? spec : NULL;
}

/* Adds a word to the path in `space`; as it is when there is no room. */
static struct view longer(char *space, size_t size, struct view path, struct view word)
{
    if (path.size + 1 + word.size >= size)
        return path;
    size_t at = path.size;
    if (at > 0)
        space[at++] = ' ';
    memcpy(space + at, word.data, word.size);
    return (struct view){ space, at + word.size };
}

static void read_plain(struct typed *typed, struct view word)
{
    if (typed->arguments == 0) {
        char space[sizeof typed->path_space];
        memcpy(space, typed->path_space, sizeof space);
        struct view path = longer(space, sizeof space, typed->path, word);
        if (!typed->command || command_find(path)) {
            typed->path =
                longer(typed->path_space, sizeof typed->path_space, typed->path, word);
            typed->command = command_find(typed->path);
            return;
        }
    }
    typed->help_of = longer(typed->help_space, sizeof typed->help_space, typed->help_of, word);
    const struct argument_spec *spec = argument_now(typed);
    if (spec && spec->count == ARGUMENT_COMMAND)
        typed->options_over = true;
    typed->arguments++;
}

/* All words but the current one. */
static void read_words(struct typed *typed, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct view word = view_of(words[i]);
        if (typed->options_over || word.size < 2 || word.data[0] != '-') {
            read_plain(typed, word);
            continue;
        }
        if (view_equal(word, VIEW("--"))) {
            typed->options_over = true;
            continue;
        }
        size_t equals = view_find(word, '=');
        const struct option_spec *option = option_of(typed, view_first(word, equals));
        if (!option || !option->value)
            continue;
        if (equals < word.size)
            note_value(typed, option, view_from(word, equals + 1));
        else if (++i < count)
            note_value(typed, option, view_of(words[i]));
        else
            typed->value = option;
    }
}

/* "--mode=sh": the value of an option in the same word. */
static void split_current(struct typed *typed)
{
    struct view word = typed->current;
    size_t equals = view_find(word, '=');
    if (typed->value || typed->options_over || !view_starts_with(word, VIEW("--")) ||
        equals == word.size)
        return;
    typed->value = option_of(typed, view_first(word, equals));
    typed->before = view_first(word, equals + 1);
    typed->current = view_from(word, equals + 1);
}

static void offer_arguments(struct typed *typed)
{
    const struct argument_spec *spec = argument_now(typed);
    bool first_of_program = spec && spec > typed->command->arguments
                                ? typed->arguments == (size_t)(spec - typed->command->arguments)
                                : typed->arguments == 0;
    if (typed->arguments == 0 && command_group_exists(typed->path))
        offer_commands(typed, typed->path);
    else if (spec)
        offer(typed,
              spec->completion == COMPLETE_PROGRAM && !first_of_program ? COMPLETE_FILE
                                                                        : spec->completion,
              /* values */ NULL);
}

enum hf_status run_completion_words(struct cli *cli)
{
    size_t count = cli->argument_count > 0 ? cli->argument_count - 1 : 0;
    struct typed typed = {
        .cli = cli, .path = VIEW(""), .before = VIEW(""), .help_of = VIEW("")
    };
    typed.current = cli->argument_count > 0 ? view_of(cli->arguments[count]) : VIEW("");
    read_words(&typed, cli->arguments, count);
    split_current(&typed);
    if (typed.value)
        offer(&typed, typed.value->completion, typed.value->values);
    else if (!typed.options_over && view_starts_with(typed.current, VIEW("-")))
        offer_options(&typed);
    else if (typed.command)
        offer_arguments(&typed);
    else
        offer_commands(&typed, typed.path);
    return HF_OK;
}
