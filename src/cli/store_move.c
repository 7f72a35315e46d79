/* store_move.c: `store get` and `store put`: one object from or to a file. */
#include "base/parse.h"
#include "cli/files.h"
#include "cli/json_add.h"
#include "cli/store.h"

#include <unistd.h>

/* ---- get ----------------------------------------------------------------------------- */

struct getting {
    struct cli *cli;
    struct view key;
    struct hf_store_get_options options;
    struct hf_object_info info;
};

/* "A-B" or "A-", half open. */
static enum hf_status parse_range(struct cli *cli, struct hf_store_get_options *options)
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
    options->offset = from;
    options->length = end.size > 0 ? to - from : 0;
    return HF_OK;
}

static enum hf_status fetch_object(void *argument, int fd, struct hf_error *error)
{
    struct getting *getting = argument;
    struct gauge gauge;
    gauge_start(&gauge, getting->cli, getting->key);
    getting->options.progress = gauge_watch;
    getting->options.progress_argument = &gauge;
    enum hf_status status = hf_store_get_file(getting->cli->handle, getting->key.data, fd,
                                              &getting->options, &getting->info, error);
    gauge_clear(&gauge);
    return status;
}

static void tell_got(struct getting *getting, struct view path)
{
    json_t *object = json_object();
    json_add_key(&object, "key", getting->key);
    json_add_key(&object, "etag", view_of(getting->info.etag));
    json_add_count(&object, "size_bytes", getting->info.size);
    json_add_time_ms(&object, "modified_at", getting->info.modified_ms);
    json_add_key(&object, "file", path);
    output_json(&getting->cli->out, object);
}

enum hf_status run_store_get(struct cli *cli)
{
    struct getting getting = { .cli = cli,
                               .options = HF_STORE_GET_OPTIONS,
                               .info = HF_OBJECT_INFO };
    struct view path = cli_argument(cli, 1);
    bool stream = false, is_file;
    enum hf_status status = cli_key(cli, 0, &getting.key);
    getting.options.key_size = getting.key.size;
    if (status == HF_OK)
        status = parse_range(cli, &getting.options);
    if (status == HF_OK && !is_stdout(path.data))
        status = target_is_stream(cli, path, &stream);
    if (status == HF_OK)
        status = cli_open_objects(cli);
    if (status == HF_OK)
        status = target_fetch(cli, path.data, fetch_object, &getting, &is_file);
    if (status == HF_OK && cli->json && !is_stdout(path.data))
        tell_got(&getting, path);
    return status;
}

/* ---- put ----------------------------------------------------------------------------- */

static void tell_put(struct cli *cli, struct view key, const struct hf_object_info *info)
{
    if (!cli->json) {
        if (!cli->quiet)
            output_print(&cli->out, "%s\n", info->etag);
        return;
    }
    json_t *object = json_object();
    json_add_key(&object, "key", key);
    json_add_key(&object, "etag", view_of(info->etag));
    json_add_count(&object, "size_bytes", info->size);
    output_json(&cli->out, object);
}

enum hf_status run_store_put(struct cli *cli)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    struct hf_object_info info = HF_OBJECT_INFO;
    struct gauge gauge;
    struct view key;
    int fd;
    enum hf_status status = cli_key(cli, 0, &key);
    options.force = cli_given(cli, "force");
    options.if_absent = cli_given(cli, "if-absent");
    if (status == HF_OK)
        status = hf_store_check_key(key.data, key.size, options.force, &cli->error);
    if (status == HF_OK)
        status = parse_if_match(cli, &options.if_match);
    if (status == HF_OK)
        status = cli_open_objects(cli);
    if (status == HF_OK)
        status = source_take(cli, cli_argument(cli, 1).data, key, &fd);
    if (status != HF_OK)
        return status;
    gauge_start(&gauge, cli, key);
    options.key_size = key.size;
    options.progress = gauge_watch;
    options.progress_argument = &gauge;
    status = hf_store_put_file(cli->handle, key.data, fd, &options, &info, &cli->error);
    gauge_clear(&gauge);
    close(fd);
    if (status == HF_OK)
        tell_put(cli, key, &info);
    return status;
}
