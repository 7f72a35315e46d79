/* SPDX-License-Identifier: Apache-2.0 */
/* get.c: `index get`: the records of some keys, read in one pass. Also how records are printed,
 * which `query` and `export` share. */
#include "cli/files.h"
#include "cli/index/index.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Records on stdout --------------------------------------------------------------- */

/* --json selects JSON lines, regardless of the default. */
enum hf_status take_record_format(struct cli *cli, enum hf_index_format usual,
                                  enum hf_index_format *ret_format)
{
    enum hf_status status =
        index_format_option(cli, cli->json ? HF_INDEX_NDJSON : usual, ret_format);
    if (status == HF_OK && cli->json && *ret_format != HF_INDEX_NDJSON)
        return cli_invalid(cli, "--json and --format %s cannot be used together",
                           option_text(cli, "format"));
    return status;
}

/* The maximum number of bytes appended to the output in one step. */
#define PIECE (1 * MIB)

/* The maximum size of a record as text for people. */
#define PLAIN_MAX (8 * MIB)

enum hf_status print_header(const struct showing *showing)
{
    struct cli *cli = showing->cli;
    char *text;
    if (showing->format == FORMAT_PLAIN)
        return HF_OK;
    enum hf_status status = hf_index_header(cli->index, showing->format, &text, &cli->error);
    if (status == HF_OK) {
        output_text(&cli->out, text);
        hf_free(text);
    }
    return status;
}

/* Appends a record for people: escaped fields, separated by tabs. */
static void append_plain(struct buffer *to, struct cli *cli, struct hf_index_record *record)
{
    for (size_t i = 0; i < cli->info.field_count; i++) {
        size_t size = 0;
        const char *name = hf_index_field_name(cli->index, i);
        const char *value = hf_index_record_value(record, name, &size);
        to->failed = to->failed || !value;
        buffer_append(to, i > 0 ? VIEW("\t") : VIEW(""));
        escape_append(to, (struct view){ value, size });
    }
    buffer_append_byte(to, '\n');
}

/* The text of a record, in `plain` or valid as long as the record. data NULL: out of memory. */
static struct view render_record(const struct showing *showing, struct hf_index_record *record,
                                 struct buffer *plain)
{
    struct view text = { NULL, 0 };
    if (showing->format != FORMAT_PLAIN) {
        text.data =
            hf_index_record_text(record, showing->format, /* first */ false, &text.size);
        return text;
    }
    append_plain(plain, showing->cli, record);
    return plain->failed ? text : buffer_view(plain);
}

/* A reader skips a byte order mark at the start of a file, so a first record that starts with one
 * gets another. */
static void print_text(struct showing *showing, struct view text)
{
    struct output *out = &showing->cli->out;
    if (!showing->began && showing->format == HF_INDEX_USV &&
        view_starts_with(text, VIEW("\xef\xbb\xbf")))
        output_text(out, "\xef\xbb\xbf");
    showing->began = true;
    for (; text.size > 0; text = view_from(text, PIECE))
        output_bytes(out, view_first(text, PIECE));
}

enum hf_status print_record(struct showing *showing, struct hf_index_record *record,
                            struct hf_error *error)
{
    struct buffer plain = BUFFER_INIT(PLAIN_MAX);
    struct view text = render_record(showing, record, &plain);
    bool good = text.data != NULL;
    if (good)
        print_text(showing, text);
    buffer_release(&plain);
    return good ? HF_OK : error_no_memory(error);
}

/* ---- get ----------------------------------------------------------------------------- */

#define KEYS_MAX 1000000

/* Records arrive shard by shard, and are printed in the order of the keys. They wait in memory for
 * their turn; if more than this is waiting, they are printed as they come. */
#define HELD_MAX (64 * MIB)

struct held_record {
    char *text; /* NULL: there is nothing to print */
    size_t size;
    bool answered;
};

struct getting {
    struct showing showing;
    const char *const *keys;
    size_t count;
    struct held_record *held; /* by the number of the key */
    size_t next;              /* the first key whose record was not printed */
    size_t held_bytes;
    bool any_order;
    struct hf_error first; /* why the first key has no record */
    bool failed;           /* memory or the output has failed; see cli->error */
};

static void print_held(struct getting *getting, struct held_record *held)
{
    if (!held->text)
        return;
    print_text(&getting->showing, (struct view){ held->text, held->size });
    getting->held_bytes -= held->size;
    free(held->text);
    held->text = NULL;
}

/* Prints the records whose turn has come, after this one was answered. */
static void print_due(struct getting *getting, size_t number)
{
    if (getting->any_order) {
        print_held(getting, &getting->held[number]);
        return;
    }
    if (getting->held_bytes > HELD_MAX) {
        getting->any_order = true;
        for (size_t i = getting->next; i < getting->count; i++)
            print_held(getting, &getting->held[i]);
    }
    while (getting->next < getting->count && getting->held[getting->next].answered)
        print_held(getting, &getting->held[getting->next++]);
}

static bool hold_record(struct getting *getting, size_t number, struct hf_index_record *record)
{
    struct held_record *held = &getting->held[number];
    struct buffer plain = BUFFER_INIT(PLAIN_MAX);
    struct view text = render_record(&getting->showing, record, &plain);
    if (text.data)
        held->text = malloc(text.size + 1);
    if (held->text) {
        memcpy(held->text, text.data, text.size);
        held->size = text.size;
        getting->held_bytes += text.size;
    }
    buffer_release(&plain);
    return held->text != NULL;
}

/* A missing key is reported, and the other keys are still printed. */
static bool take_answer(void *argument, size_t number, struct hf_index_record *record,
                        const struct hf_error *why)
{
    struct getting *getting = argument;
    struct cli *cli = getting->showing.cli;
    getting->held[number].answered = true;
    if (record && !hold_record(getting, number, record)) {
        error_no_memory(&cli->error);
        getting->failed = true;
    }
    if (!record && getting->first.status == HF_OK)
        getting->first = *why;
    if (!record) {
        cli_report(cli, view_of(getting->keys[number]), why);
        cli->reported = true;
    }
    print_due(getting, number);
    if (!getting->failed && cli->out.failed_errno)
        getting->failed = output_flush(&cli->out, &cli->error) != HF_OK;
    return !getting->failed && !interrupted();
}

/* Adds one key per line. Lines may end with CRLF. Empty lines are skipped. A key with a NUL would
 * be taken for a shorter one. */
static enum hf_status read_key_lines(struct cli *cli, FILE *file, struct names *keys)
{
    char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t size = 0;
    enum hf_status status = HF_OK;
    errno = 0;
    while (status == HF_OK && (size = getline(&line, &room, file)) >= 0) {
        struct view key = { line, (size_t)size };
        number++;
        if (view_ends_with(key, VIEW("\n")))
            key.size--;
        if (view_ends_with(key, VIEW("\r")))
            key.size--;
        if (key.size == 0)
            continue;
        if (memchr(key.data, '\0', key.size))
            status = cli_invalid(cli, "line %zu of the keys contains a NUL byte", number);
        else if (keys->count == KEYS_MAX)
            status = cli_invalid(cli, "--keys-from takes at most %d keys", KEYS_MAX);
        else if (!names_add(keys, key))
            status = error_no_memory(&cli->error);
    }
    if (status == HF_OK && ferror(file))
        status = error_from_errno(&cli->error, errno, "read the keys");
    free(line);
    return status;
}

static enum hf_status read_key_file(struct cli *cli, const char *path, struct names *keys)
{
    int fd;
    enum hf_status status = source_take(cli, path, VIEW("keys"), &fd);
    if (status != HF_OK)
        return status;
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return error_no_memory(&cli->error);
    }
    status = read_key_lines(cli, file, keys);
    fclose(file);
    return status;
}

enum hf_status take_key_arguments(struct cli *cli, struct names *keys)
{
    const char *path = option_text(cli, "keys-from");
    for (size_t i = 1; i < cli->argument_count; i++)
        if (!names_add(keys, cli_argument(cli, i)))
            return error_no_memory(&cli->error);
    if (!path && keys->count == 0)
        return cli_invalid(cli, "give a KEY or --keys-from");
    return path ? read_key_file(cli, path, keys) : HF_OK;
}

/* All keys are read in one pass, and each that is missing is reported. */
static enum hf_status print_keys(struct cli *cli, struct getting *getting)
{
    getting->held = calloc(getting->count + 1, sizeof *getting->held);
    if (!getting->held)
        return error_no_memory(&cli->error);
    struct hf_error error = { HF_OK, "" };
    enum hf_status status = hf_index_get_many(cli->index, getting->keys, getting->count,
                                              take_answer, getting, &error);
    for (size_t i = 0; i < getting->count; i++)
        free(getting->held[i].text);
    free(getting->held);
    if (getting->failed)
        return cli->error.status;
    if (interrupted())
        return interrupt_check(&cli->error);
    if (status != HF_OK && getting->first.status != HF_OK)
        error = getting->first;
    cli->error = error;
    return error.status;
}

enum hf_status run_index_get(struct cli *cli)
{
    struct getting getting = { .showing.cli = cli };
    struct names keys = { .arena = &cli->arena };
    enum hf_status status = take_record_format(cli, FORMAT_PLAIN, &getting.showing.format);
    if (status == HF_OK)
        status = take_key_arguments(cli, &keys);
    if (status == HF_OK)
        status = cli_open_index(cli);
    if (status == HF_OK)
        status = print_header(&getting.showing);
    getting.keys = keys.names;
    getting.count = keys.count;
    return status == HF_OK ? print_keys(cli, &getting) : status;
}
