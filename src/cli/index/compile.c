/* SPDX-License-Identifier: Apache-2.0 */
/* compile.c: `index compile`: moves entries from the inbox into shards, once or until stopped. */
#include "cli/index/index.h"
#include "cli/interrupt.h"

#include <inttypes.h>

struct compiling {
    struct cli *cli;
    struct hf_index_compile_options options;
    struct hf_index_compile_report totals;
    struct gauge gauge;
    uint64_t shards, entries; /* so far, for the gauge */
    bool nobody_reads;        /* the reader of the output is gone */
};

static const struct field folded_record[] = FOLDED_RECORD;
static const struct field cleared_record[] = CLEARED_RECORD;

struct told_shard {
    const char *event;
    struct hf_index_shard shard;
    struct hf_error why;
    bool done;
};

const struct field compiled_shard_record[] = COMPILED_SHARD_RECORD;

static void flush_line(struct compiling *compiling)
{
    gauge_clear(&compiling->gauge);
    output_flush(&compiling->cli->out, /* error */ NULL);
    compiling->nobody_reads = output_is_closed(&compiling->cli->out);
}

/* A watch prints every shard. A single pass prints its totals at the end, so it prints a shard only
 * if there was a problem. */
static void print_compiled_shard(void *argument, const struct hf_index_shard *shard)
{
    struct compiling *compiling = argument;
    struct cli *cli = compiling->cli;
    bool watch = compiling->options.watch, done = shard->end == HF_INDEX_END_DONE;
    bool shown = cli->json || (!cli->quiet && (watch || !done || shard->folded.aside > 0 ||
                                               shard->why->status != HF_OK));
    compiling->shards++;
    compiling->entries += shard->folded.entries;
    if (!watch && gauge_is_due(&compiling->gauge))
        gauge_say(&compiling->gauge, "compile  %" PRIu64 " shards  %" PRIu64 " entries",
                  compiling->shards, compiling->entries);
    if (!shown || shard->end == HF_INDEX_END_NOTHING)
        return;
    struct told_shard told = { "shard", *shard, *shard->why, done };
    record_show(cli, compiled_shard_record, &told, COMPILED_SHARD_TEXT);
    flush_line(compiling);
}

struct compile_trouble {
    const char *event;
    struct hf_error error;
};

const struct field compile_trouble_record[] = COMPILE_TROUBLE_RECORD;

static void print_compile_trouble(void *argument, const struct hf_error *error)
{
    struct compiling *compiling = argument;
    record_show(compiling->cli, compile_trouble_record,
                &(struct compile_trouble){ "trouble", *error }, "trouble: {status}: {why}\n");
    flush_line(compiling);
}

static const struct field compile_totals_record[] = COMPILE_TOTALS_RECORD;

struct compile_done {
    const char *event;
    int64_t took_ms;
    struct hf_index_compile_report totals;
};

const struct field compile_done_record[] = COMPILE_DONE_RECORD;

static bool compile_goes_on(void *argument)
{
    const struct compiling *compiling = argument;
    return !interrupted() && !compiling->nobody_reads;
}

/* A call that returned INVALID has done nothing, so it has no totals. */
enum hf_status run_index_compile(struct cli *cli)
{
    struct compiling compiling = { .cli = cli,
                                   .options = HF_INDEX_COMPILE_OPTIONS,
                                   .totals = HF_INDEX_COMPILE_REPORT };
    struct hf_index_compile_options *options = &compiling.options;
    struct compile_done done = { .event = "done" };
    options->go_on = compile_goes_on;
    options->shard_done = print_compiled_shard;
    options->trouble = print_compile_trouble;
    options->argument = &compiling;
    options->watch = cli_given(cli, "watch");
    if (cli_given(cli, "poll") && !options->watch)
        return cli_invalid(cli, "--poll requires --watch");
    if (cli_given(cli, "wait") && options->watch)
        return cli_invalid(cli, "--wait cannot be used with --watch");
    options->wait_ms = option_ms(cli, "wait", options->wait_ms);
    options->ttl_ms = option_ms(cli, "ttl", options->ttl_ms);
    options->poll_ms = option_ms(cli, "poll", options->poll_ms);
    options->keep_deleted_ms = option_ms(cli, "keep-deleted", options->keep_deleted_ms);
    options->shard = option_text(cli, "shard");
    gauge_start(&compiling.gauge, cli, VIEW("compile"));
    enum hf_status status =
        hf_index_compile(cli->index, options, &compiling.totals, &cli->error);
    gauge_clear(&compiling.gauge);
    if (status == HF_INVALID)
        return index_option_error(cli, status);
    done.took_ms = mono_since(env_now(cli->env), cli->begun).us / 1000;
    done.totals = compiling.totals;
    record_tell(cli, compile_done_record, &done, COMPILE_DONE_TEXT);
    return status;
}
