/* main.c: the program `holdfast`: parses, runs one command, and says once what went wrong. */
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Arguments ----------------------------------------------------------------------- */

struct view cli_argument(const struct cli *cli, size_t index)
{
    if (index >= cli->argument_count)
        return (struct view){ NULL, 0 };
    return view_of(cli->arguments[index]);
}

static enum hf_status decode_hex(struct cli *cli, struct view text, struct view *ret_key)
{
    char *bytes = arena_take(&cli->arena, text.size / 2 + 1);
    if (!bytes)
        return error_no_memory(&cli->error);
    bool good = text.size % 2 == 0;
    for (size_t i = 0; good && i < text.size / 2; i++) {
        int high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);
        good = high >= 0 && low >= 0;
        bytes[i] = (char)(high * 16 + low);
    }
    if (!good)
        return error_set(&cli->error, HF_INVALID,
                         "'%.*s' is not hexadecimal: with --hex each byte is two digits",
                         VIEW_ARGS(view_first(text, 60)));
    bytes[text.size / 2] = '\0'; /* one of no bytes is an empty text to the library */
    *ret_key = (struct view){ bytes, text.size / 2 };
    return HF_OK;
}

enum hf_status cli_key(struct cli *cli, size_t index, struct view *ret_key)
{
    struct view text = cli_argument(cli, index);
    if (text.data && cli_given(cli, "hex"))
        return decode_hex(cli, text, ret_key);
    if (hf_store_is_url(text.data))
        return error_set(
            &cli->error, HF_INVALID,
            "'%.*s' looks like a store URL; pass it with %s (for a key that really "
            "starts this way, use --hex)",
            VIEW_ARGS(view_first(text, 60)),
            strcmp(cli->command->path, "store cp") == 0 ? "--from or --to" : "--store");
    *ret_key = text;
    return HF_OK;
}

/* ---- JSON on stderr ------------------------------------------------------------------ */

void write_error_line(json_t *object)
{
    struct output err;
    struct hf_error ignored;
    output_init(&err, STDERR_FILENO);
    output_json(&err, object);
    output_flush(&err, &ignored);
    output_release(&err);
}

/* ---- Errors -------------------------------------------------------------------------- */

/* "store put a/b", as far as the words of the command line got. */
static void append_title(struct cli *cli, struct buffer *title, struct view about)
{
    if (cli->command)
        buffer_append(title, view_of(cli->command->path));
    for (size_t i = 0; !cli->command && i < cli->word_count; i++) {
        if (i)
            buffer_append_byte(title, ' ');
        escape_append(title, cli->words[i]);
    }
    if (about.data && cli->command) {
        buffer_append_byte(title, ' ');
        escape_append(title, about.size ? about : VIEW("''"));
    }
}

json_t *error_as_json(struct cli *cli, enum hf_status status, struct view why,
                      struct view title)
{
    char outcome[32];
    const char *name = hf_status_name(status);
    size_t size = strlen(name) < sizeof outcome ? strlen(name) : sizeof outcome - 1;
    for (size_t i = 0; i < size; i++)
        outcome[i] = (char)tolower((unsigned char)name[i]);
    outcome[size] = '\0';
    json_t *object = json_object();
    json_add(&object, "status", json_string(name));
    json_add(&object, "outcome", json_string(cli->outcome ? cli->outcome : outcome));
    json_add(&object, "why", json_stringn(why.data ? why.data : "", why.size));
    json_add(&object, "command", json_stringn(title.data ? title.data : "", title.size));
    if (object && cli->refusal)
        json_object_update(object, cli->refusal);
    return object;
}

static void report_json(struct cli *cli, struct buffer *title, struct buffer *why,
                        enum hf_status status)
{
    write_error_line(error_as_json(cli, status, buffer_view(why), buffer_view(title)));
}

void cli_report(struct cli *cli, struct view about, const struct hf_error *error)
{
    struct buffer title = BUFFER_INIT(8 * KEY_BYTES_MAX), why = BUFFER_INIT(8 * HF_WHY_MAX);
    append_title(cli, &title, about);
    escape_append(&why, view_of(error->why));
    if (cli->json)
        report_json(cli, &title, &why, error->status);
    else
        fprintf(stderr, "holdfast: %.*s%s%s: %.*s\n", VIEW_ARGS(buffer_view(&title)),
                title.size ? ": " : "", hf_status_name(error->status),
                VIEW_ARGS(buffer_view(&why)));
    buffer_release(&title);
    buffer_release(&why);
}

/* ---- One run ------------------------------------------------------------------------- */

static enum hf_status run(struct cli *cli)
{
    if (cli_given(cli, "version"))
        return command_find(VIEW("version"))->run(cli);
    if (cli->command && cli_given(cli, "help"))
        return help_command(cli, cli->command), HF_OK;
    if (cli->command && cli->command->ends_in_order)
        interrupt_in_order(cli->quiet ? NULL
                           : cli->json
                               ? "{\"warning\":\"stopping; Ctrl-C again ends it at once\"}\n"
                               : "holdfast: stopping; Ctrl-C again ends it at once\n");
    if (cli->command)
        return cli->command->run(cli);
    if (cli->word_count > 0)
        return help_group(cli, cli->words[0]), HF_OK;
    if (cli_given(cli, "help"))
        return help_overview(cli), HF_OK;
    return help_welcome(cli), HF_OK;
}

/* The exit status to pass on, unless it was a signal: then we die of it too. */
static int end_like(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        interrupt_die_as(WTERMSIG(wait_status));
    return WEXITSTATUS(wait_status);
}

/* The error of the command stands before one of its output; either is told once. */
static int finish(struct cli *cli, enum hf_status status)
{
    struct hf_error output_error;
    enum hf_status written = output_flush(&cli->out, &output_error);
    if (status == HF_OK && written != HF_OK) {
        status = written;
        cli->error = output_error;
    }
    bool pipe_closed = output_is_closed(&cli->out);
    if (status != HF_OK && !pipe_closed && !cli->reported && !interrupted())
        cli_report(cli, cli_argument(cli, 0), &cli->error);
    hf_store_close(cli->handle);
    json_decref(cli->refusal);
    output_release(&cli->out);
    arena_release(&cli->arena);
    if (status != HF_OK && interrupted())
        interrupt_die(SIGINT);
    if (pipe_closed)
        interrupt_die(SIGPIPE);
    if (status == HF_OK && cli->passes_on)
        return end_like(cli->wait_status);
    return hf_status_exit_code(status);
}

/* A standard file that is closed would give its number to the next file opened, perhaps an
 * object. It is filled with one that refuses: writes to stdout then fail, as they should. */
static void fill_standard_files(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    fill_standard_files();
    struct cli cli = { .env = env_real(), .arena = ARENA_INIT };
    output_init(&cli.out, STDOUT_FILENO);
    interrupt_watch();
    enum hf_status status = cli_parse(&cli, argc, argv);
    if (status == HF_OK)
        status = run(&cli);
    return finish(&cli, status);
}
