/* store_move.c: `store get` and `store put`: one object from or to a file. */
#include "base/parse.h"
#include "cli/files.h"
#include "cli/store.h"
#include "store/stream.h"

#include <unistd.h>

/* ---- get ----------------------------------------------------------------------------- */

/* "A-B" or "A-", half open. */
static enum hf_status parse_range(struct cli *cli, struct get_call *get)
{
    const struct option_value *range = cli_option(cli, "range");
    if (!range)
        return HF_OK;
    struct view end = range->text, text = view_cut(&end, '-');
    uint64_t from, to = 0;
    enum hf_status status = parse_size(text, &from, &cli->error);
    if (status == HF_OK && end.size > 0)
        status = parse_size(end, &to, &cli->error);
    bool has_dash = text.size < range->text.size;
    if (status != HF_OK || !has_dash || (end.size > 0 && to <= from))
        return error_set(
            &cli->error, HF_INVALID,
            "'%.*s' is not a range; write A-B with B greater than A, or A- for the rest",
            VIEW_ARGS(view_first(range->text, 60)));
    get->offset = from;
    get->length = end.size > 0 ? to - from : 0;
    return HF_OK;
}

static enum hf_status fetch(struct cli *cli, struct get_call *get, int fd)
{
    struct gauge gauge;
    gauge_start(&gauge, cli, get->key);
    struct progress progress = gauge_progress(&gauge);
    enum hf_status status = store_get_file(cli->store, get, fd, &progress);
    gauge_clear(&gauge);
    if (status != HF_OK)
        cli->error = get->error;
    return status;
}

static enum hf_status get_to_stream(struct cli *cli, struct get_call *get, int to)
{
    int spool;
    enum hf_status status = spool_open(cli, &spool);
    if (status != HF_OK)
        return status;
    status = fetch(cli, get, spool);
    if (status == HF_OK)
        status = spool_send(cli, spool, to);
    close(spool);
    return status;
}

static enum hf_status get_to_device(struct cli *cli, struct get_call *get, struct view path)
{
    int fd;
    enum hf_status status = target_open_stream(cli, path.data, &fd);
    if (status != HF_OK)
        return status;
    status = get_to_stream(cli, get, fd);
    close(fd);
    return status;
}

static enum hf_status get_to_file(struct cli *cli, struct get_call *get, struct view path)
{
    struct new_file file;
    enum hf_status status = target_create(cli, path, &file);
    if (status != HF_OK)
        return status;
    status = fetch(cli, get, file.fd);
    if (status != HF_OK) {
        new_file_release(&file);
        return status;
    }
    return target_keep(cli, &file);
}

static void tell_got(struct cli *cli, const struct get_call *get, struct view path)
{
    char time[TIME_TEXT_MAX];
    json_t *object = json_object();
    if (object && json_set_key(object, "key", get->key) &&
        json_set_key(object, "etag", etag_view(&get->info.etag)) &&
        json_object_set_new(object, "size_bytes", json_integer((json_int_t)get->info.size)) ==
            0 &&
        json_object_set_new(object, "modified_at",
                            json_string(time_text(get->info.modified, time))) == 0 &&
        json_set_key(object, "file", path)) {
        output_json(&cli->out, object);
        return;
    }
    json_decref(object);
    output_json(&cli->out, NULL);
}

enum hf_status run_store_get(struct cli *cli)
{
    struct get_call get = { 0 };
    struct view path = cli_argument(cli, 1);
    bool stream = false;
    enum hf_status status = cli_key(cli, 0, &get.key);
    if (status == HF_OK)
        status = parse_range(cli, &get);
    if (status == HF_OK && !is_stdout(path.data))
        status = target_is_stream(cli, path, &stream);
    if (status == HF_OK)
        status = cli_open_objects(cli);
    if (status != HF_OK)
        return status;
    if (is_stdout(path.data))
        return get_to_stream(cli, &get, STDOUT_FILENO);
    status = stream ? get_to_device(cli, &get, path) : get_to_file(cli, &get, path);
    if (status == HF_OK && cli->json)
        tell_got(cli, &get, path);
    return status;
}

/* ---- put ----------------------------------------------------------------------------- */

/* Replaces *fd, which can be read only once, by a spool of all it gives. */
static enum hf_status spool_input(struct cli *cli, struct gauge *gauge, int *fd)
{
    int spool;
    enum hf_status status = spool_open(cli, &spool);
    if (status != HF_OK)
        return status;
    status = spool_fill(cli, gauge, *fd, spool);
    if (*fd != STDIN_FILENO)
        close(*fd);
    *fd = spool;
    return status;
}

static enum hf_status send_file(struct cli *cli, struct put_call *put, struct gauge *gauge,
                                int fd, uint64_t *ret_size)
{
    struct progress progress = gauge_progress(gauge);
    enum hf_status status = file_size(fd, ret_size, &cli->error);
    if (status == HF_OK && store_put_file(cli->store, put, fd, &progress) != HF_OK) {
        cli->error = put->error;
        status = put->error.status;
    }
    return status;
}

static void tell_put(struct cli *cli, const struct put_call *put, uint64_t size)
{
    if (!cli->json) {
        if (!cli->quiet)
            output_print(&cli->out, "%.*s\n", VIEW_ARGS(etag_view(&put->etag)));
        return;
    }
    json_t *object = json_object();
    if (object && json_set_key(object, "key", put->key) &&
        json_set_key(object, "etag", etag_view(&put->etag)) &&
        json_object_set_new(object, "size_bytes", json_integer((json_int_t)size)) == 0) {
        output_json(&cli->out, object);
        return;
    }
    json_decref(object);
    output_json(&cli->out, NULL);
}

static enum hf_status parse_condition(struct cli *cli, struct condition *condition)
{
    if (cli_given(cli, "if-absent"))
        *condition = if_absent();
    if (!cli_given(cli, "if-match"))
        return HF_OK;
    condition->kind = CONDITION_MATCH;
    return parse_if_match(cli, &condition->etag);
}

enum hf_status run_store_put(struct cli *cli)
{
    struct put_call put = { 0 };
    struct view path = cli_argument(cli, 1);
    enum hf_status status = cli_key(cli, 0, &put.key);
    if (status == HF_OK)
        status = check_not_guarded(cli, put.key);
    if (status == HF_OK)
        status = parse_condition(cli, &put.condition);
    if (status == HF_OK)
        status = cli_open_objects(cli);
    int fd = STDIN_FILENO;
    bool regular = false;
    if (status == HF_OK && !is_stdin(path.data))
        status = source_open(cli, path, &fd, &regular);
    if (status != HF_OK)
        return status;
    struct gauge gauge;
    uint64_t size = 0;
    gauge_start(&gauge, cli, put.key);
    if (!regular)
        status = spool_input(cli, &gauge, &fd);
    if (status == HF_OK)
        status = send_file(cli, &put, &gauge, fd, &size);
    gauge_clear(&gauge);
    if (fd != STDIN_FILENO)
        close(fd);
    if (status == HF_OK)
        tell_put(cli, &put, size);
    return status;
}
