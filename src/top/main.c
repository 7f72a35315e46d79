/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: holdfast-top, which `holdfast top` starts. The words were checked there. */
#include "base/error.h"
#include "base/escape.h"
#include "base/parse.h"
#include "top/screen.h"

#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#define INTERVAL_DEFAULT_MS 1000
#define LOOK_MS             10  /* how often the first snapshot is looked for */
#define PRINTED_COLUMNS     200 /* without a terminal */

struct options {
    struct reader_options reader;
    uint64_t interval_ms, for_ms;
    bool ends; /* after for_ms */
};

enum { OPTION_STORE = 256, OPTION_NAMESPACE, OPTION_PARTITION, OPTION_INTERVAL, OPTION_FOR };

static const struct option long_options[] = {
    { "store", required_argument, NULL, OPTION_STORE },
    { "ns", required_argument, NULL, OPTION_NAMESPACE },
    { "partition", required_argument, NULL, OPTION_PARTITION },
    { "interval-ms", required_argument, NULL, OPTION_INTERVAL },
    { "for-ms", required_argument, NULL, OPTION_FOR },
    { NULL, 0, NULL, 0 },
};

static enum hf_status set_top_option(struct options *options, int option, const char *value,
                                     struct hf_error *error)
{
    struct reader_options *reader = &options->reader;
    switch (option) {
    case OPTION_STORE: reader->store = value; return HF_OK;
    case OPTION_NAMESPACE: reader->name_space = value; return HF_OK;
    case OPTION_INTERVAL:
        return parse_u64(view_of(value), MOMENT_FAR / 1000, &options->interval_ms, error);
    case OPTION_FOR:
        options->ends = true;
        return parse_u64(view_of(value), MOMENT_FAR / 1000, &options->for_ms, error);
    case OPTION_PARTITION:
        if (reader->partition_count == TOP_PARTITIONS_MAX)
            return error_set(error, HF_INVALID, "more than %d partitions", TOP_PARTITIONS_MAX);
        reader->partitions[reader->partition_count++] = value;
        return HF_OK;
    default: return error_set(error, HF_INVALID, "unknown option; see 'holdfast top --help'");
    }
}

static enum hf_status read_top_options(struct options *options, int argc, char **argv,
                                       struct hf_error *error)
{
    enum hf_status status = HF_OK;
    int option;
    opterr = 0;
    while (status == HF_OK && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        status = set_top_option(options, option, optarg, error);
    if (status == HF_OK && optind < argc)
        options->reader.prefix = argv[optind++];
    if (status == HF_OK && (optind < argc || !options->reader.store))
        status = error_set(error, HF_INVALID, "use 'holdfast top' to start this program");
    return status;
}

/* Without a terminal: one page, as lines. */
static enum hf_status print_page(struct env *env, const struct options *options,
                                 struct reader *reader, struct hf_error *error)
{
    struct page page = PAGE_INIT;
    struct history history = { .count = 0 };
    struct choice choice = { .pane = PANE_LOCKS };
    struct snapshot *snapshot = NULL;
    enum hf_status status = HF_OK;
    while (!snapshot && status == HF_OK) {
        env_sleep(env, SPAN_MS(LOOK_MS));
        snapshot = reader_take(reader, error);
        status = error->status;
    }
    struct view_of_store view = { options->reader.store, snapshot, &history, error,
                                  env_now(env) };
    if (snapshot && !page_make(&page, &view, &choice, PAGE_LINES_MAX, PRINTED_COLUMNS))
        status = error_no_memory(error);
    for (size_t i = 0; status == HF_OK && i + 1 < page.count; i++) /* no keys, no hints */
        if (page_line(&page, i)[0] != '\0')
            printf("%s\n", page_line(&page, i));
    if (page.rows < page.rows_in_all)
        printf("and %zu more\n", page.rows_in_all - page.rows);
    if (fflush(stdout) != 0 && status == HF_OK)
        status = error_set(error, HF_UNAVAILABLE, "cannot write the output");
    snapshot_free(snapshot);
    page_release(&page);
    return status;
}

static enum hf_status show(struct env *env, const struct options *options,
                           struct hf_error *error)
{
    struct reader *reader = NULL;
    struct mono_time end = { MOMENT_FAR };
    bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    if (options->ends)
        end = mono_add(env_now(env), SPAN_MS(options->for_ms));
    enum hf_status status = reader_start(env, &options->reader, &reader, error);
    if (status == HF_OK && terminal)
        status = screen_run(env, reader, options->reader.store, end, error);
    else if (status == HF_OK)
        status = print_page(env, options, reader, error);
    reader_stop(reader);
    return status;
}

static void report_top_error(const struct hf_error *error)
{
    struct buffer why = BUFFER_INIT(8 * HF_WHY_MAX);
    escape_append(&why, view_of(error->why));
    fprintf(stderr, "holdfast: top: %s: %.*s\n", hf_status_name(error->status),
            VIEW_ARGS(buffer_view(&why)));
    buffer_release(&why);
}

int main(int argc, char **argv)
{
    struct options options = { .reader = { .prefix = "" }, .interval_ms = INTERVAL_DEFAULT_MS };
    struct hf_error error;
    enum hf_status status = read_top_options(&options, argc, argv, &error);
    if (options.reader.partition_count == 0)
        options.reader.partitions[options.reader.partition_count++] = "default";
    options.reader.interval = SPAN_MS(options.interval_ms);
    if (status == HF_OK)
        status = show(env_real(), &options, &error);
    if (status != HF_OK)
        report_top_error(&error);
    return hf_status_exit_code(status);
}
