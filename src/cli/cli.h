/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h: the shared parts of the program `holdfast`: the command table, and the state of the
 * running command.
 *
 * The parser, the help, the manual pages and the completion all read the same rows (struct
 * command). tools/commands.py generates these rows from the files in commands/. A new command
 * therefore needs one paragraph in such a file and one function, which command_table.h declares.
 *
 * A command reads its options by name, writes to cli->out, and returns a status. If the status is
 * not OK, cli->error contains the reason; main prints that error once and exits with the exit code
 * for that status. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/arena.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/moment.h"
#include "base/nearest.h"
#include "cli/command_table.h"
#include "cli/output/output.h"
#include "env/env.h"

#include <stdatomic.h>

/* ---- The table ----------------------------------------------------------------------- */

enum option_type {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_COUNT,
    OPTION_LIMIT, /* a count, or "any": INT64_MAX */
    OPTION_SIZE,
    OPTION_SPAN,
    OPTION_WAIT, /* a span, or "forever": WAIT_FOREVER */
    OPTION_EXIT_CODE,
};

/* Longer than anyone waits, yet short enough that adding it to the current time cannot overflow. */
#define WAIT_FOREVER SPAN_S(INT64_C(100) * 366 * 24 * 3600)

/* The words that a shell offers for a value or an argument. */
enum completion {
    COMPLETE_NOTHING,
    COMPLETE_FILE,
    COMPLETE_URL,
    COMPLETE_COMMAND, /* a holdfast command */
    COMPLETE_PROGRAM, /* any other program, then files */
    COMPLETE_PROFILE, /* of the configuration file */
    /* Names that are read from the store: */
    COMPLETE_LOCK, /* also keys, which are locks with a state */
    COMPLETE_OBJECT,
    COMPLETE_PARTITION,
    COMPLETE_INDEX,
    COMPLETE_TXN,
    COMPLETE_GROUP,
    COMPLETE_NAMESPACE,
};

struct option_spec {
    const char *name; /* without the dashes; NULL ends a list */
    char letter;      /* the short form, or 0 */
    enum option_type type;
    int choice;         /* options of a command with the same number are mutually exclusive */
    bool needed;        /* the command is refused without this option */
    bool many;          /* may be given more than once; all values are used */
    const char *value;  /* how the help names the value; NULL for a flag */
    const char *values; /* the allowed values, separated by spaces; NULL: any text */
    enum completion completion;
    const char *summary;
};

enum argument_count {
    ARGUMENT_ONE,
    ARGUMENT_OPTIONAL,
    ARGUMENT_MANY,
    ARGUMENT_ANY,
    ARGUMENT_COMMAND,
};

/* The last argument of a command may repeat: MANY is one or more, ANY is zero or more. COMMAND is
 * the command line of another program; its words are never parsed as holdfast options. */
struct argument_spec {
    const char *name; /* NULL ends a list */
    enum argument_count count;
    enum completion completion;
    const char *summary;
};

/* A line that works exactly as written, in the environment that commands/README.md describes. A
 * test runs every example. */
struct example {
    const char *line; /* NULL ends a list */
    const char *what;
};

/* What main opens before it runs a command. A command that must check its options first opens the
 * store or client itself. */
enum opens {
    OPENS_NOTHING,
    OPENS_OBJECTS,   /* cli_open_objects */
    OPENS_STORE,     /* cli_open_store */
    OPENS_CLIENT,    /* cli_connect */
    OPENS_PARTITION, /* cli_open_partition */
    OPENS_INDEX,     /* cli_open_index */
};

/* Each list ends with a row whose first member is NULL. */
struct command {
    const char *group; /* the overview heading under which the command is listed */
    const char *path;  /* "store get"; NULL ends the table */
    const char *summary;
    const struct argument_spec *arguments;
    const struct option_spec *options;
    const char *const *details; /* paragraphs */
    const char *json;           /* the form of the command's output with --json, or NULL */
    const struct example *examples;
    const char *script;         /* the text that print_script prints, or NULL */
    const char *const *aliases; /* names that similar programs use for the same command */
    bool ends_in_order; /* after Ctrl-C, it still releases its leases or reports its progress */
    bool no_config;     /* works without the configuration files, whatever is in them */
    bool only_reads;    /* never creates a local store: NOT_FOUND if it is missing */
    enum opens opens;
    enum hf_status (*run)(struct cli *cli);
};

struct term {
    const char *term; /* NULL ends a list */
    const char *text;
};

/* The index in `topics` of the list of store URL forms, which the completion offers. */
#define TOPIC_STORES 0

/* A list of terms for the whole program: kinds of stores, environment variables, files. */
struct topic {
    const char *title; /* NULL ends a list */
    const char *intro; /* or NULL */
    const struct term *rows;
};

extern const struct command command_table[];
extern const struct topic topics[];
extern const struct term command_hints[]; /* advice for command names from other programs */
extern const struct command program_row;  /* the program itself: summary, options, examples */

/* The command with exactly this path or alias, or NULL. */
const struct command *command_find(struct view path);

/* Whether these words are the start of a longer path, as `store` is the start of `store get`. */
bool command_group_exists(struct view path);

/* ---- The current command ------------------------------------------------------------- */

struct option_value {
    bool given;
    bool by_default; /* by a configuration file, not by the command line */
    struct view text;
    uint64_t number; /* the value of a count, limit, size or exit code */
    struct span span;
    struct option_value *next; /* the next value of a repeated option; NULL after the last */
};

struct config;

/* Where the log goes, and what it contains (log.h). */
struct cli_log {
    int fd;
    bool is_file;    /* not stderr */
    bool json;       /* JSON lines */
    bool structured; /* by --log: every line has its time */
    bool trace;      /* every request */
    unsigned level;  /* 1: events, and requests that fail; 2: also every request */
};

struct cli {
    struct env *env;
    struct mono_time begun; /* when the program started */
    const struct command *command;
    struct option_value global_values[GLOBAL_OPTIONS_MAX];
    struct option_value values[OPTIONS_MAX];
    struct view words[PATH_WORDS_MAX]; /* the given words of the command's path */
    size_t word_count;
    const char **arguments;
    size_t argument_count;
    bool options_over;                     /* every following word is an argument */
    bool dashes_first;                     /* "--" came before the first argument */
    const struct option_spec *lacks_value; /* the last word: an option that lacks its value */
    bool json;
    bool quiet;
    const char *outcome; /* the member `outcome` of an error; NULL: the status in lower case */
    json_t *refusal;     /* more members of an error with --json, such as the holder; or NULL */
    bool conflict;       /* it failed because another client holds what it asked for */
    bool reported;       /* the command has printed its errors itself */
    bool passes_on;      /* exit with the wait status of another program: */
    int wait_status;
    struct output out;
    struct cli_log log;
    struct hf_store *handle;    /* the store given by --store, once opened */
    struct hf_client *client;   /* a client on that store, once connected */
    struct wait_log *wait_log;  /* of the wait for a lock that is logged; or NULL */
    struct hf_compact *compact; /* the partition given by --partition, once opened */
    struct hf_error broken;     /* for the first part that cannot be read; already printed */
    struct hf_index *index;     /* the index named by the first argument, once opened */
    struct hf_index_info info;  /* as of when the index was opened */
    bool counts_requests;       /* set before the store is opened, to count its requests: */
    atomic_uint_fast64_t requests;
    struct config *config; /* the configuration files, once they are read; or NULL */
    struct view store_url; /* the absolute URL of the store; data NULL: not determined yet */
    bool uses_default;     /* neither --store, $HOLDFAST_STORE nor a file names a store */
    struct arena arena;    /* lives as long as the command */
    struct hf_error error;
};

/* Fills in command, options and arguments. Without a command, or with --help or --version,
 * cli->command may remain NULL. */
enum hf_status cli_parse(struct cli *cli, int argc, char **argv);

/* Parses a line that is still being typed: words that make no sense yet are skipped. Only the arena
 * of `line` must be initialised. */
void cli_parse_typed(struct cli *line, const char *const *words, size_t count);

/* The path, such as "store get", from the words parsed so far. */
#define COMMAND_PATH_MAX 128
struct view cli_path(const struct cli *cli, char space[COMMAND_PATH_MAX]);

/* The command's option or the global option of this name, or NULL. */
const struct option_spec *cli_option_spec(struct cli *cli, struct view name);

/* The value of an option of this command, or of a global option; NULL if it was not given. */
const struct option_value *cli_option(struct cli *cli, const char *name);

/* The value of an option: a duration, a duration in milliseconds, or a number; `otherwise` if the
 * option was not given. For a string, the value is then NULL. */
struct span cli_span(struct cli *cli, const char *name, struct span otherwise);
int64_t option_ms(struct cli *cli, const char *name, int64_t otherwise);
uint64_t option_number(struct cli *cli, const char *name, uint64_t otherwise);
const char *option_text(struct cli *cli, const char *name);

/* Gives an option a value, unless the command line gives it or one that excludes it, or the command
 * has no such option. The value must live as long as the command. */
enum hf_status cli_set_default(struct cli *cli, const char *name, struct view value);

/* Parses value->text as a value of this option. */
enum hf_status cli_parse_value(struct cli *cli, const struct option_spec *spec,
                               struct option_value *value);

/* Whether this command accepts an option of this name. */
bool cli_has_option(struct cli *cli, const char *name);

static inline bool cli_given(struct cli *cli, const char *name)
{
    return cli_option(cli, name) != NULL;
}

/* Whether the command line itself gives this option. */
static inline bool cli_typed(struct cli *cli, const char *name)
{
    return cli_given(cli, name) && !cli_option(cli, name)->by_default;
}

/* The argument at this position; data is NULL if fewer arguments were given. */
struct view cli_argument(const struct cli *cli, size_t index);

/* Like cli_argument, but for an object key, which the user may write in hexadecimal with --hex. */
enum hf_status cli_key(struct cli *cli, size_t index, struct view *ret_key);

/* The ETag of --if-match, or NULL if it was not given. INVALID if it is not a valid ETag. */
enum hf_status cli_if_match(struct cli *cli, const char **ret_etag);

/* ---- Stores and clients -------------------------------------------------------------- */

/* Reads the configuration files, and gives the options of the command their defaults
 * (config/config.h). */
enum hf_status cli_apply_config(struct cli *cli);

/* Replaces the name of a store by its URL; leaves a URL alone. */
enum hf_status cli_named_store(struct cli *cli, struct view *url);

/* Makes a URL absolute. If its data is NULL, it becomes the URL given by --store or
 * $HOLDFAST_STORE, or the URL of the default store. */
enum hf_status cli_find_store(struct cli *cli, struct view *url);

/* Opens the store given by --store or $HOLDFAST_STORE, or the default store, into cli->handle. The
 * first function opens the store for locks and everything built on them, the second only for plain
 * objects. */
enum hf_status cli_open_store(struct cli *cli);
enum hf_status cli_open_objects(struct cli *cli);

/* Opens a store by URL; `coordinates` and `must_exist` as in struct hf_store_options. */
enum hf_status cli_open_url(struct cli *cli, struct view url, bool coordinates, bool must_exist,
                            struct hf_store **ret_store);

/* Opens a store from which objects are deleted only if they have not changed: if nobody knows
 * whether it can do that, it is probed. One that cannot be used for locks is opened all the
 * same. */
enum hf_status cli_open_for_deletes(struct cli *cli, struct view url, bool must_exist,
                                    struct hf_store **ret_store);

/* Opens the store into cli->handle, unless it is already open, and a client on it into cli->client.
 * main closes both. `ns` NULL: the namespace given by --ns, or the default namespace. `holder`
 * NULL: the host name and process id. */
enum hf_status cli_connect_as(struct cli *cli, const char *ns, const char *holder);
enum hf_status cli_connect(struct cli *cli);
enum hf_status cli_connect_as_user(struct cli *cli); /* --holder, or "joe@host" */

/* Connects, and opens the partition given by --partition or the index given by the first argument;
 * main closes it. If part of a partition cannot be read, the reason is printed to stderr and the
 * command continues with the other parts. `options` may be NULL; cli_open_partition sets its
 * `trouble` callback. */
enum hf_status cli_open_partition(struct cli *cli, struct hf_compact_options *options);
enum hf_status cli_open_index(struct cli *cli);

/* Opens what this command needs, according to the table of commands. */
enum hf_status cli_open(struct cli *cli);

/* Opens another client on the same store. The caller closes it. */
enum hf_status cli_connect_another(struct cli *cli, const struct hf_client_options *options,
                                   struct hf_client **ret_client);

/* Closes the index, the partition and the client of the command; the store stays open. */
void cli_disconnect(struct cli *cli);

/* ---- Errors -------------------------------------------------------------------------- */

/* Refuses the command line: sets cli->error to INVALID with this message, and returns INVALID. */
#define cli_invalid(cli, ...) error_set(&(cli)->error, HF_INVALID, __VA_ARGS__)

/* Writes `object` as one line on stderr, with a single write, and frees it. */
void write_error_line(json_t *object);

/* Prints an error immediately. `about` names the object that the failure is about; data NULL: only
 * the command is named. */
void cli_report(struct cli *cli, struct view about, const struct hf_error *error);

/* Whether a later attempt may succeed, so that a command that watches something continues. */
bool status_is_temporary(enum hf_status status);

/* From now on, the command may need more than a second to end after Ctrl-C, and says so. */
void cli_end_in_order(struct cli *cli);

/* Prints a warning on stderr. */
void cli_warn(struct cli *cli, const char *sentence);

/* ---- Help ---------------------------------------------------------------------------- */

void help_welcome(struct cli *cli);
void help_overview(struct cli *cli);
void help_command(struct cli *cli, const struct command *command);
void help_group(struct cli *cli, struct view path);

/* Fails with INVALID, and suggests the command that was probably meant. */
enum hf_status cli_unknown_command(struct cli *cli, struct view path);

/* Appends "holdfast store put KEY FILE": the command with all required options and arguments. */
void command_append_usage(struct buffer *to, const struct command *command);

#endif
