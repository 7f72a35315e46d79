/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the program `holdfast`: parses the command line, runs one command, and prints its error
 * once. */
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/log.h"

#include <ctype.h>
#include <fcntl.h>
#include <malloc.h>
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
    for (size_t i = 0; i < text.size / 2; i++) {
        int high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);
        good = good && high >= 0 && low >= 0;
        bytes[i] = (char)(high * 16 + low);
    }
    bytes[text.size / 2] = '\0'; /* the library expects an empty key to be an empty string */
    *ret_key = (struct view){ bytes, text.size / 2 };
    return good ? HF_OK
                : cli_invalid(cli,
                              "'%.*s' is not hexadecimal: with --hex each byte is two digits",
                              VIEW_ARGS(view_first(text, 60)));
}

enum hf_status cli_key(struct cli *cli, size_t index, struct view *ret_key)
{
    struct view text = cli_argument(cli, index);
    if (text.data && cli_given(cli, "hex"))
        return decode_hex(cli, text, ret_key);
    *ret_key = text;
    if (!hf_store_is_url(text.data))
        return HF_OK;
    return cli_invalid(cli,
                       "'%.*s' looks like a store URL; pass it with %s (for a key that really "
                       "starts this way, use --hex)",
                       VIEW_ARGS(view_first(text, 60)),
                       strcmp(cli->command->path, "store cp") == 0 ? "--from or --to"
                                                                   : "--store");
}

void write_error_line(json_t *object)
{
    struct output err;
    struct hf_error ignored;
    output_init(&err, STDERR_FILENO);
    output_json(&err, object);
    output_flush(&err, &ignored);
    output_release(&err);
}

/* The error with --json: `status`, `outcome`, `why`, `command`, and the members of cli->refusal. */
static json_t *error_as_json(struct cli *cli, enum hf_status status, struct view why,
                             struct view title)
{
    char outcome[32] = "";
    const char *name = hf_status_name(status);
    snprintf(outcome, sizeof outcome, "%s", name);
    for (char *at = outcome; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    json_t *object = json_object();
    json_add(&object, "status", json_string(name));
    json_add(&object, "outcome", json_string(cli->outcome ? cli->outcome : outcome));
    json_add(&object, "why", json_stringn(why.data ? why.data : "", why.size));
    json_add(&object, "command", json_stringn(title.data ? title.data : "", title.size));
    if (object && cli->refusal)
        json_object_update(object, cli->refusal);
    return object;
}

/* The title is "store put a/b", or the words of the command that were parsed so far. */
void cli_report(struct cli *cli, struct view about, const struct hf_error *error)
{
    struct buffer title = BUFFER_INIT(8 * KEY_BYTES_MAX), why = BUFFER_INIT(8 * HF_WHY_MAX);
    struct buffer space = BUFFER_INIT(2 * HF_WHY_MAX);
    if (cli->command)
        buffer_append(&title, view_of(cli->command->path));
    else
        for (size_t i = 0; i < cli->word_count; i++) {
            buffer_append(&title, i ? VIEW(" ") : VIEW(""));
            escape_append(&title, cli->words[i]);
        }
    if (about.data && cli->command) {
        buffer_append_byte(&title, ' ');
        escape_append(&title, about.size ? about : VIEW("''"));
    }
    escape_append(&why, own_words(view_of(error->why), &space));
    log_message(cli, "error", error->status, buffer_view(&title), buffer_view(&why));
    if (cli->json)
        write_error_line(
            error_as_json(cli, error->status, buffer_view(&why), buffer_view(&title)));
    else
        fprintf(stderr, "holdfast: %.*s%s%s: %.*s\n", VIEW_ARGS(buffer_view(&title)),
                title.size ? ": " : "", hf_status_name(error->status),
                VIEW_ARGS(buffer_view(&why)));
    buffer_release(&title);
    buffer_release(&why);
    buffer_release(&space);
}

bool status_is_temporary(enum hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_TIMEOUT || status == HF_UNSURE;
}

/* ---- One run ------------------------------------------------------------------------- */

void cli_end_in_order(struct cli *cli)
{
    interrupt_in_order(cli->quiet ? NULL
                       : cli->json
                           ? "{\"warning\":\"stopping; press Ctrl-C again to exit now\"}\n"
                           : "holdfast: stopping; press Ctrl-C again to exit now\n");
}

/* Help and versions are shown whatever is in the configuration files. */
static enum hf_status run(struct cli *cli)
{
    bool configured = cli->command && !cli->command->no_config && !cli_given(cli, "version") &&
                      !cli_given(cli, "help");
    enum hf_status status = configured ? cli_apply_config(cli) : HF_OK;
    if (status == HF_OK)
        status = log_color(cli);
    if (status == HF_OK && configured)
        status = log_open(cli);
    if (status != HF_OK)
        return status;
    if (cli_given(cli, "version"))
        return command_find(VIEW("version"))->run(cli);
    if (cli->command && cli_given(cli, "help"))
        return help_command(cli, cli->command), HF_OK;
    if (cli->command && cli->command->ends_in_order)
        cli_end_in_order(cli);
    if (cli->command) {
        status = cli_open(cli);
        return status == HF_OK ? cli->command->run(cli) : status;
    }
    if (cli->word_count > 0)
        return help_group(cli, cli->words[0]), HF_OK;
    if (cli_given(cli, "help"))
        return help_overview(cli), HF_OK;
    return help_welcome(cli), HF_OK;
}

/* The command's error takes precedence over an output error; only one is printed. If a signal ended
 * the command that we ran, we end with the same signal. */
static int finish_run(struct cli *cli, enum hf_status status)
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
    cli_disconnect(cli);
    hf_store_close(cli->handle);
    log_close(cli);
    json_decref(cli->refusal);
    output_release(&cli->out);
    arena_release(&cli->arena);
    if (status != HF_OK && interrupted())
        interrupt_die(SIGINT);
    if (pipe_closed)
        interrupt_die(SIGPIPE);
    if (status != HF_OK && cli->conflict && cli_has_option(cli, "conflict-exit-code"))
        return (int)option_number(cli, "conflict-exit-code",
                                  (uint64_t)hf_status_exit_code(status));
    if (status != HF_OK || !cli->passes_on)
        return hf_status_exit_code(status);
    if (WIFSIGNALED(cli->wait_status))
        interrupt_die_as(WTERMSIG(cli->wait_status));
    return WEXITSTATUS(cli->wait_status);
}

/* If stdin, stdout or stderr is closed, the next file that is opened would get its descriptor
 * number, and output could end up in an object. Each closed descriptor is therefore replaced by one
 * that refuses reads or writes. */
int main(int argc, char **argv)
{
    /* Otherwise each thread may get a heap of its own, whose free memory the others cannot use, and
     * a program that runs for weeks grows for hours. Nothing here allocates all the time. */
    mallopt(M_ARENA_MAX, 2);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    struct cli cli = { .env = env_real(), .arena = ARENA_INIT, .log = { .fd = STDERR_FILENO } };
    cli.begun = env_now(cli.env);
    output_init(&cli.out, STDOUT_FILENO);
    interrupt_watch();
    enum hf_status status = cli_parse(&cli, argc, argv);
    if (status == HF_OK)
        status = run(&cli);
    return finish_run(&cli, status);
}
