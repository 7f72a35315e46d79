/* cli.h: what the program `holdfast` is made of: one table of commands, and the state of the
 * one command that runs.
 *
 * Parser, help, man page and completion all read the same rows (struct command), so a new
 * command is one row in the table of its group and one function. A command reads its options by
 * name, writes to cli->out, and returns a status; when that is not OK, cli->error says why, and
 * main prints it once and exits with the status's code. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/arena.h"
#include "base/error.h"
#include "base/moment.h"
#include "base/nearest.h"
#include "cli/output.h"
#include "store/bucket.h"

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
};

/* Longer than anybody waits, and still a moment when it is added to now. */
#define WAIT_FOREVER SPAN_S(INT64_C(100) * 366 * 24 * 3600)

/* What a shell offers for a value or an argument. */
enum completion {
    COMPLETE_NOTHING,
    COMPLETE_FILE,
    COMPLETE_URL,
    COMPLETE_COMMAND, /* of ours */
    COMPLETE_PROGRAM, /* any other, then files */
    /* Names that the store has: */
    COMPLETE_LOCK, /* and keys, which are locks with a state */
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
    int choice;         /* options of one command with the same number exclude each other */
    bool needed;        /* the command does nothing without it */
    bool many;          /* may be given more than once: each one counts */
    const char *value;  /* what its value is called; NULL for a flag */
    const char *values; /* all that it can be, separated by blanks; NULL: anything else */
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

/* The last argument of a command may be given many times (at least once) or any number; or be a
 * command line of another program, whose words are not looked at from the first on. */
struct argument_spec {
    const char *name; /* NULL ends a list */
    enum argument_count count;
    enum completion completion;
    const char *summary;
};

/* A line that works as it stands in a folder with the files `report.csv` and `older.csv` and two
 * each of `events-*.ndjson` and `part-*.usv`, on a store with objects `reports/today.csv` and
 * `reports/old.csv` ($ETAG is that of the first), and under the lock `deploy`, which is held
 * ($HOLDFAST_LEASE), a fenced one, `state.csv`; for those about compaction also a partition with
 * chunks ($CHUNK is one) and some that were merged ($TOMBSTONE); for those about indexes an index
 * `domains` of the fields domain, owner and updated_at with a few records, some of them compiled,
 * and a file `domains.csv` of such; for those about keys a key `orders/42` with one version. A test
 * runs them all. */
struct example {
    const char *line; /* NULL ends a list */
    const char *what;
};

/* Of commands that write what the store has to stdout (spool_send). */
#define BINARY_OPTION                                                         \
    {                                                                         \
        .name = "force", .summary = "write binary data to a terminal as well" \
    }

#define ARGUMENTS_MAX 4
#define OPTIONS_MAX   24
#define DETAILS_MAX   8
#define EXAMPLES_MAX  6

struct cli;

struct command {
    const char *path; /* "store get"; NULL ends a list */
    const char *summary;
    struct argument_spec arguments[ARGUMENTS_MAX + 1];
    struct option_spec options[OPTIONS_MAX + 1];
    const char *details[DETAILS_MAX + 1]; /* paragraphs */
    const char *json;                     /* what --json makes of its output, or NULL */
    struct example examples[EXAMPLES_MAX + 1];
    bool ends_in_order; /* Ctrl-C lets it give back what it holds, or tell how far it came */
    bool only_reads;    /* where there is no local store it is NOT_FOUND: it makes none */
    enum hf_status (*run)(struct cli *cli);
};

struct command_group {
    const char *title;
    const struct command *commands;
};

/* The topic whose terms are the forms of store URLs; shells complete them. */
#define TOPIC_STORES 0

/* A list of terms that belongs to the whole program: kinds of stores, environment, files. */
struct topic {
    const char *title;
    const char *intro;
    struct {
        const char *term; /* NULL ends the list */
        const char *text;
    } rows[8];
};

extern const struct command_group command_groups[]; /* ends with a title of NULL */
extern const struct topic topics[];                 /* ends with a title of NULL */
extern const struct option_spec global_options[];
extern const struct example welcome_examples[];

extern const struct command basic_commands[];
extern const struct command store_commands[];
extern const struct command run_commands[];
extern const struct command lock_commands[];
extern const struct command merge_commands[];
extern const struct command elect_commands[];
extern const struct command compact_commands[];
extern const struct command index_commands[];
extern const struct command key_commands[];
extern const struct command sweep_commands[];

/* Other words for a command. One thing has one word: rm, renew, show for one thing that has a name,
 * status for how work stands; these are for who is used to another. */
struct command_alias {
    const char *path; /* NULL ends the list */
    const char *target;
};
extern const struct command_alias command_aliases[];

/* The table as one walk: the command after `last`, or the first after NULL; NULL at the end. */
const struct command *command_next(const struct command *last);

/* The command of exactly this path, or of this alias; or NULL. */
const struct command *command_find(struct view path);

/* Whether some command's path starts with these words and goes on. */
bool command_group_exists(struct view path);

/* ---- The command that runs ----------------------------------------------------------- */

#define GLOBAL_OPTIONS_MAX 8

struct option_value {
    bool given;
    struct view text;
    uint64_t number; /* of a count, limit or size */
    struct span span;
    struct option_value *next; /* when it was given the next time; NULL: that was the last */
};

struct cli {
    struct env *env;
    const struct command *command;
    struct option_value global_values[GLOBAL_OPTIONS_MAX];
    struct option_value values[OPTIONS_MAX];
    struct view words[4]; /* of the command, as far as they were given */
    size_t word_count;
    const char **arguments;
    size_t argument_count;
    bool json;
    bool quiet;
    const char *outcome; /* of a refusal, for --json; NULL: the status in lower case */
    json_t *refusal;     /* further members of the error, for --json: who holds it; or NULL */
    bool reported;       /* the command has printed its errors itself */
    bool passes_on;      /* the end of another program stands for ours: */
    int wait_status;
    struct output out;
    struct hf_store *handle; /* of --store, once opened */
    bool counts_requests;    /* to be set before it is opened: */
    atomic_uint_fast64_t requests;
    struct view store_url; /* of that store, absolute; data NULL: not found out yet */
    bool uses_default;     /* neither --store nor $HOLDFAST_STORE name it */
    struct arena arena;    /* lives as long as the command */
    struct hf_error error;
};

/* Fills in command, options and arguments. Without a command, or with --help or --version,
 * cli->command may stay NULL. */
enum hf_status cli_parse(struct cli *cli, int argc, char **argv);

/* The value of an option of this command, or a global one; NULL when it was not given. */
const struct option_value *cli_option(struct cli *cli, const char *name);

/* The value of an option that takes a duration, or `otherwise` if it is not given. */
struct span cli_span(struct cli *cli, const char *name, struct span otherwise);

/* Whether this command has such an option at all. */
bool cli_has_option(struct cli *cli, const char *name);

static inline bool cli_given(struct cli *cli, const char *name)
{
    return cli_option(cli, name) != NULL;
}

/* The argument, or a view with data NULL when there are not that many. */
struct view cli_argument(const struct cli *cli, size_t index);

/* The same for a key, which --hex lets people write in hexadecimal. */
enum hf_status cli_key(struct cli *cli, size_t index, struct view *ret_key);

/* Makes a URL absolute; one of data NULL becomes that of --store, $HOLDFAST_STORE or the default.
 */
enum hf_status cli_find_store(struct cli *cli, struct view *url);

/* Says on a terminal that nobody else shares this store, if it is there by default. */
void cli_tell_default_store(struct cli *cli);

/* Opens the store of --store, $HOLDFAST_STORE or the default into cli->handle: for
 * locks and all that is built on them, or for objects by hand. */
enum hf_status cli_open_store(struct cli *cli);
enum hf_status cli_open_objects(struct cli *cli);

/* Takes `object` over; one line on stderr, by one write. */
void write_error_line(json_t *object);

/* An error as --json tells it: `status`, `outcome`, `why`, `command`, and what else is known. */
json_t *error_as_json(struct cli *cli, enum hf_status status, struct view why,
                      struct view title);

/* Prints an error now, naming what it was about (data NULL: only the command). */
void cli_report(struct cli *cli, struct view about, const struct hf_error *error);

/* ---- Help ---------------------------------------------------------------------------- */

void help_welcome(struct cli *cli);
void help_overview(struct cli *cli);
void help_command(struct cli *cli, const struct command *command);
void help_group(struct cli *cli, struct view path);
void help_man(struct cli *cli);
void help_json(struct cli *cli);
void help_man_command(struct cli *cli, const struct command *command);

enum hf_status run_completion_bash(struct cli *cli);
enum hf_status run_completion_zsh(struct cli *cli);
enum hf_status run_completion_fish(struct cli *cli);
enum hf_status run_completion_words(struct cli *cli);

/* INVALID, with what was probably meant. */
enum hf_status cli_unknown_command(struct cli *cli, struct view path);

/* "holdfast store put KEY FILE": a command with what it cannot do without. */
void command_append_usage(struct buffer *to, const struct command *command);

#endif
