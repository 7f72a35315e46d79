/* SPDX-License-Identifier: Apache-2.0 */
/* ends.c: finds out what each argument of `merge` is, and opens it. The output is opened first:
 * the version of an object that the merge replaces must be from before anything was read. */
#include "cli/merge/ends.h"

#include "cli/files.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- Names --------------------------------------------------------------------------- */

static enum hf_status check_input(struct cli *cli, const char *path, bool *stdin_seen)
{
    if (path[0] == '\0')
        return cli_invalid(cli, "the name of an input is empty");
    if (place_is_object(cli, path))
        return place_check(cli, path);
    if (!is_stdin(path))
        return HF_OK;
    if (*stdin_seen)
        return cli_invalid(cli, "'%s' was given twice, but stdin can be read only once", path);
    *stdin_seen = true;
    return HF_OK;
}

enum hf_status merge_ends_check(struct merge_ends *ends, struct cli *cli, const char *output)
{
    bool stdin_seen = false;
    enum hf_status status = HF_OK;
    *ends = (struct merge_ends){ .cli = cli, .output = output, .places = { .cli = cli } };
    ends->to = (struct hf_merge_file){ .fd = -1 };
    if (output[0] == '\0')
        return cli_invalid(cli, "the name of the output is empty");
    ends->to_stdout = is_stdout(output);
    ends->to_object = place_is_object(cli, output);
    if (ends->to_object)
        status = place_check(cli, output);
    else if (!ends->to_stdout)
        status = target_is_stream(cli, view_of(output), &ends->to_stream);
    ends->to_stream = ends->to_stream || ends->to_stdout;
    for (size_t i = 0; i < cli->argument_count; i++)
        if (status == HF_OK)
            status = check_input(cli, cli->arguments[i], &stdin_seen);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------- */

static enum hf_status open_output(struct merge_ends *ends)
{
    struct cli *cli = ends->cli;
    enum hf_status status = HF_OK;
    if (ends->to_stdout) {
        ends->to.fd = STDOUT_FILENO;
    } else if (ends->to_stream) {
        status = target_open_stream(cli, ends->output, &ends->to.fd);
    } else if (ends->to_object) {
        status = place_target_find(&ends->places, ends->output, &ends->target);
        if (status == HF_OK)
            status = temporary_file(&ends->to.fd, &cli->error);
    } else {
        ends->to.path = ends->output;
    }
    return status;
}

/* If the shell has already read a part of a file, as in `(read line; holdfast merge ... -) <FILE`,
 * the merge continues there. The library would read the file from its start. */
static enum hf_status open_stdin(struct merge_ends *ends, struct hf_merge_file *input)
{
    input->fd = STDIN_FILENO;
    if (lseek(STDIN_FILENO, 0, SEEK_CUR) <= 0)
        return HF_OK;
    return source_take(ends->cli, "-", VIEW("stdin"), &input->fd);
}

enum hf_status merge_ends_open(struct merge_ends *ends)
{
    struct cli *cli = ends->cli;
    size_t count = cli->argument_count;
    enum hf_status status = HF_OK;
    ends->inputs = arena_take(&cli->arena, count * sizeof *ends->inputs);
    ends->names = arena_take(&cli->arena, count * sizeof *ends->names);
    if (!ends->inputs || !ends->names)
        return error_no_memory(&cli->error);
    for (size_t i = 0; i < count; i++) {
        ends->inputs[i] = (struct hf_merge_file){ cli->arguments[i], -1 };
        ends->names[i] = NULL;
    }
    status = open_output(ends);
    for (size_t i = 0; status == HF_OK && i < count; i++) {
        const char *name = cli->arguments[i];
        struct hf_merge_file *input = &ends->inputs[i];
        bool is_object = place_is_object(cli, name);
        if (!is_object && !is_stdin(name))
            continue;
        input->path = NULL;
        ends->names[i] = is_object ? name : "stdin";
        status =
            is_object ? place_fetch(&ends->places, name, &input->fd) : open_stdin(ends, input);
    }
    return status;
}

/* ---- The end ------------------------------------------------------------------------- */

enum hf_status merge_ends_put(struct merge_ends *ends)
{
    return ends->to_object ? place_put(ends->cli, &ends->target, ends->to.fd) : HF_OK;
}

void merge_ends_close(struct merge_ends *ends)
{
    size_t count = ends->inputs ? ends->cli->argument_count : 0;
    for (size_t i = 0; i < count; i++)
        if (ends->inputs[i].fd > STDERR_FILENO)
            close(ends->inputs[i].fd);
    if (ends->to.fd > STDERR_FILENO)
        close(ends->to.fd);
    places_close(&ends->places);
}
