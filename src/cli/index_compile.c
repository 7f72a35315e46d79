/* index_compile.c: `index compile`: entries of the inbox into shards, once or until stopped. */
#include "base/parse.h"
#include "cli/index.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>

struct compiling {
    struct index_desk desk;
    struct hf_index_compile_options options;
    struct hf_index_compile_report totals;
    struct gauge gauge;
    struct mono_time begun;
    uint64_t shards, entries; /* so far, for the gauge */
    bool nobody_reads;        /* our output cannot be written any more */
};

/* ---- Telling ------------------------------------------------------------------------- */

static void add_cleared(json_t **object, const struct hf_index_folded *folded)
{
    json_add_count(object, "deleted", folded->deleted);
    json_add_count(object, "marked", folded->marked);
    json_add_count(object, "newer", folded->newer);
    json_add_count(object, "left", folded->left);
}

static json_t *report_as_json(const struct hf_index_shard *report)
{
    json_t *object = json_object();
    json_add(&object, "event", json_string("shard"));
    json_add(&object, "shard", json_string(report->shard));
    json_add(&object, "end", json_string(hf_index_end_name(report->end)));
    json_add_words(&object, "why", view_of(report->why->why));
    json_add_count(&object, "token", report->token);
    json_add_count(&object, "entries", report->folded.entries);
    json_add_count(&object, "new", report->folded.records_new);
    json_add_count(&object, "later", report->folded.records_later);
    json_add_count(&object, "superseded", report->folded.superseded);
    json_add_count(&object, "records", report->records);
    json_add_count(&object, "size_bytes", report->bytes);
    json_add_count(&object, "aside", report->folded.aside);
    json_add_words(&object, "first_aside", view_of(report->first_aside));
    add_cleared(&object, &report->folded);
    return object;
}

/* "a3  done: 12 entries, 3 new, 2 later, 7 superseded; 120 records, 4.2 KiB" */
static void tell_report(struct output *out, const struct hf_index_shard *report)
{
    char size[SIZE_TEXT_MAX];
    output_print(out, "%s  %s", report->shard, hf_index_end_name(report->end));
    if (report->end == HF_INDEX_END_DONE) {
        output_print(out, ": %" PRIu64 " entr%s", report->folded.entries,
                     report->folded.entries == 1 ? "y" : "ies");
        output_print(out, ", %" PRIu64 " new, %" PRIu64 " later, %" PRIu64 " superseded",
                     report->folded.records_new, report->folded.records_later,
                     report->folded.superseded);
        if (report->writes > 0) {
            output_text(out, "; ");
            output_count(out, report->records, "record");
            output_print(out, ", %s", size_text(report->bytes, size));
        }
    }
    if (report->why->status != HF_OK) {
        output_text(out, ": ");
        output_words(out, view_of(report->why->why));
    }
    if (report->folded.aside > 0) {
        output_print(out, "; %" PRIu64 " set aside, the first since ", report->folded.aside);
        output_words(out, view_of(report->first_aside));
    }
    output_text(out, "\n");
}

/* Of a single pass, whose totals are told at its end, only what somebody should look at. */
static bool is_worth_a_line(const struct compiling *compiling,
                            const struct hf_index_shard *report)
{
    if (compiling->desk.cli->quiet || report->end == HF_INDEX_END_NOTHING)
        return false;
    return compiling->options.watch || report->end != HF_INDEX_END_DONE ||
           report->folded.aside > 0 || report->why->status != HF_OK;
}

static void flush(struct compiling *compiling)
{
    gauge_clear(&compiling->gauge);
    output_flush(&compiling->desk.cli->out, /* error */ NULL);
    compiling->nobody_reads = output_is_closed(&compiling->desk.cli->out);
}

static void show_progress(struct compiling *compiling)
{
    struct gauge *gauge = &compiling->gauge;
    char words[80];
    if (compiling->options.watch || !gauge_is_due(gauge))
        return;
    snprintf(words, sizeof words, "compile  %" PRIu64 " shards  %" PRIu64 " entries",
             compiling->shards, compiling->entries);
    gauge_say(gauge, view_of(words));
}

static void tell(void *argument, const struct hf_index_shard *report)
{
    struct compiling *compiling = argument;
    struct cli *cli = compiling->desk.cli;
    compiling->shards++;
    compiling->entries += report->folded.entries;
    show_progress(compiling);
    if (cli->json && report->end != HF_INDEX_END_NOTHING)
        output_json(&cli->out, report_as_json(report));
    else if (!cli->json && is_worth_a_line(compiling, report))
        tell_report(&cli->out, report);
    else
        return;
    flush(compiling);
}

static void tell_trouble(void *argument, const struct hf_error *error)
{
    struct compiling *compiling = argument;
    struct cli *cli = compiling->desk.cli;
    if (cli->json) {
        json_t *object = json_object();
        json_add(&object, "event", json_string("trouble"));
        json_add(&object, "status", json_string(hf_status_name(error->status)));
        json_add_words(&object, "why", view_of(error->why));
        output_json(&cli->out, object);
    } else {
        output_print(&cli->out, "trouble: %s: ", hf_status_name(error->status));
        output_words(&cli->out, view_of(error->why));
        output_text(&cli->out, "\n");
    }
    flush(compiling);
}

static json_t *totals_as_json(const struct hf_index_compile_report *totals)
{
    json_t *object = json_object();
    json_add_count(&object, "shards_done", totals->shards_done);
    json_add_count(&object, "shards_held", totals->shards_held);
    json_add_count(&object, "shards_lost", totals->shards_lost);
    json_add_count(&object, "shards_failed", totals->shards_failed);
    json_add_count(&object, "entries", totals->folded.entries);
    json_add_count(&object, "new", totals->folded.records_new);
    json_add_count(&object, "later", totals->folded.records_later);
    json_add_count(&object, "superseded", totals->folded.superseded);
    json_add_count(&object, "aside", totals->folded.aside);
    add_cleared(&object, &totals->folded);
    return object;
}

static void tell_totals(struct output *out, const struct hf_index_compile_report *totals)
{
    output_text(out, "compiled ");
    output_count(out, totals->shards_done, "shard");
    output_print(
        out, ": %" PRIu64 " entr%s, %" PRIu64 " new, %" PRIu64 " later, %" PRIu64 " superseded",
        totals->folded.entries, totals->folded.entries == 1 ? "y" : "ies",
        totals->folded.records_new, totals->folded.records_later, totals->folded.superseded);
    if (totals->folded.aside > 0)
        output_print(out, ", %" PRIu64 " set aside", totals->folded.aside);
    if (totals->folded.left > 0)
        output_print(out, ", %" PRIu64 " not cleared yet", totals->folded.left);
    if (totals->shards_held > 0)
        output_print(out, "; %" PRIu64 " held by others", totals->shards_held);
    if (totals->shards_lost > 0)
        output_print(out, "; %" PRIu64 " lost to others", totals->shards_lost);
    if (totals->shards_failed > 0)
        output_print(out, "; %" PRIu64 " failed", totals->shards_failed);
    output_text(out, "\n");
}

static void tell_done(struct compiling *compiling)
{
    struct cli *cli = compiling->desk.cli;
    struct span took = mono_since(env_now(cli->env), compiling->begun);
    if (!cli->json) {
        if (!cli->quiet)
            tell_totals(&cli->out, &compiling->totals);
        return;
    }
    json_t *object = json_object();
    json_add(&object, "event", json_string("done"));
    json_add_span(&object, "took_ms", took);
    json_add(&object, "totals", totals_as_json(&compiling->totals));
    output_json(&cli->out, object);
}

/* ---- The command --------------------------------------------------------------------- */

static bool goes_on(void *argument)
{
    const struct compiling *compiling = argument;
    return !interrupted() && !compiling->nobody_reads;
}

static enum hf_status take_options(struct compiling *compiling)
{
    struct cli *cli = compiling->desk.cli;
    struct hf_index_compile_options *options = &compiling->options;
    const struct option_value *ttl = cli_option(cli, "ttl"), *poll = cli_option(cli, "poll");
    const struct option_value *wait = cli_option(cli, "wait");
    const struct option_value *shard = cli_option(cli, "shard");
    options->watch = cli_given(cli, "watch");
    if (poll && !options->watch)
        return error_set(&cli->error, HF_INVALID, "--poll goes with --watch");
    if (wait && options->watch)
        return error_set(&cli->error, HF_INVALID, "--wait goes with --once");
    if (wait)
        options->wait_ms = wait->span.us / 1000;
    if (ttl)
        options->ttl_ms = ttl->span.us / 1000;
    if (poll)
        options->poll_ms = poll->span.us / 1000;
    options->shard = shard ? shard->text.data : NULL;
    return HF_OK;
}

/* What was refused before anything was done has no totals. */
static enum hf_status compile_now(struct compiling *compiling)
{
    struct cli *cli = compiling->desk.cli;
    gauge_start(&compiling->gauge, cli, VIEW("compile"));
    enum hf_status status = hf_index_compile(compiling->desk.index, &compiling->options,
                                             &compiling->totals, &cli->error);
    gauge_clear(&compiling->gauge);
    if (status == HF_INVALID)
        return index_option_error(cli, status);
    tell_done(compiling);
    return status;
}

enum hf_status run_index_compile(struct cli *cli)
{
    struct compiling compiling = { .begun = env_now(cli->env),
                                   .options = HF_INDEX_COMPILE_OPTIONS,
                                   .totals = HF_INDEX_COMPILE_REPORT };
    compiling.options.go_on = goes_on;
    compiling.options.shard_done = tell;
    compiling.options.trouble = tell_trouble;
    compiling.options.argument = &compiling;
    enum hf_status status = index_desk_open(&compiling.desk, cli);
    if (status == HF_OK)
        status = take_options(&compiling);
    if (status == HF_OK)
        status = compile_now(&compiling);
    index_desk_close(&compiling.desk);
    return status;
}
