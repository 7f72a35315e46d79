/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_sweep_record.c: parses arbitrary bytes as the record of past sweeps, and as the time
 * since when an object has been seen that nothing names. An accepted value must be within
 * bounds, safe to add up, and written and read back as the same. A refused one must count as
 * nothing. */
#include "base/check.h"
#include "fuzz.h"
#include "lock/client_inside.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

static const struct view memory_key_of = { LAYOUT_SWEEP_FOLDER "default.json",
                                           sizeof LAYOUT_SWEEP_FOLDER "default.json" - 1 };
static const struct view about = { "data/x.usv", 10 };
static const struct view about_key = { LAYOUT_SIGHT_FOLDER "data/x.usv",
                                       sizeof LAYOUT_SIGHT_FOLDER "data/x.usv" - 1 };

static void put(struct hf_client *client, struct view key, struct view body)
{
    struct put_call call = { .key = key, .body = body };
    check(store_put(client->store, &call) == HF_OK);
}

static void cursor_holds(const struct sweep_cursor *cursor)
{
    check(memchr(cursor->lease_entry, '\0', sizeof cursor->lease_entry));
    check(memchr(cursor->txn_entry, '\0', sizeof cursor->txn_entry));
    check(memchr(cursor->partition, '\0', sizeof cursor->partition));
    check(memchr(cursor->full, '\0', sizeof cursor->full));
}

static void same_cursor(const struct sweep_cursor *a, const struct sweep_cursor *b)
{
    check(strcmp(a->lease_entry, b->lease_entry) == 0);
    check(strcmp(a->txn_entry, b->txn_entry) == 0);
    check(strcmp(a->partition, b->partition) == 0);
    check(strcmp(a->full, b->full) == 0);
    check(a->turn == b->turn && a->raised_hour == b->raised_hour);
}

static void same_report(const struct sweep_report *a, const struct sweep_report *b)
{
    check(a->runs == b->runs && a->ops == b->ops && a->failed == b->failed);
    check(a->leases_cleared == b->leases_cleared && a->names_dropped == b->names_dropped);
    check(a->duration.us == b->duration.us && a->stop == b->stop);
}

static void memory_holds(struct hf_client *client, struct view bytes)
{
    struct sweep_memory memory, again;
    struct hf_error error;
    put(client, memory_key_of, bytes);
    check(sweep_recall(client, /* all */ false, &memory, &error) == HF_OK);
    cursor_holds(&memory.cursor);
    check(memory.last.stop < HF_SWEEP_STOP_COUNT && memory.total.stop < HF_SWEEP_STOP_COUNT);
    check(memory.at.us >= 0 && memory.last.duration.us >= 0);
    check(sweep_remember(client, /* all */ false, &memory, &error) == HF_OK);
    check(sweep_recall(client, /* all */ false, &again, &error) == HF_OK);
    same_cursor(&memory.cursor, &again.cursor);
    same_report(&memory.last, &again.last);
    same_report(&memory.total, &again.total);
    check(memory.at.us == again.at.us);
    struct sweep_report total = memory.total;
    sweep_report_add(&total, &memory.last);
    check(total.duration.us >= memory.total.duration.us);
}

/* A run that would go on from there. */
static void sweep_holds(struct hf_client *client)
{
    struct sweep_options options = { .settings = SWEEP_SETTINGS, .mode = SWEEP_MANUAL };
    struct sweep_memory memory;
    struct sweep_report report;
    struct hf_error error;
    options.settings.op_delay = SPAN_US(0);
    check(sweep_recall(client, /* all */ false, &memory, &error) == HF_OK);
    check(sweep_run(client, &options, &memory.cursor, &report, &error) == HF_OK);
    check(report.stop == HF_SWEEP_STOP_DONE);
    cursor_holds(&memory.cursor);
}

/* Seen just now for the first time, or earlier; never passed for a span that no clock has. */
static void sight_holds(struct hf_client *client, struct view bytes)
{
    struct sweep_options options = { .settings = SWEEP_SETTINGS, .mode = SWEEP_MANUAL };
    struct sweep_report report = { 0 };
    struct sweep_cursor cursor = { .turn = 0 };
    struct sweep_run run = { .caller = client,
                             .client = client,
                             .options = &options,
                             .cursor = &cursor,
                             .report = &report,
                             .began = env_now(client->env) };
    struct hf_error error;
    bool passed, again;
    run.end = mono_add(run.began, SPAN_S(10));
    put(client, about_key, bytes);
    check(sight_passed(&run, about, SPAN_S(3600), &passed, &error) == HF_OK);
    check(sight_passed(&run, about, SPAN_S(3600), &again, &error) == HF_OK);
    check(again == passed);
    check(sight_forget(&run, about, &error) == HF_OK);
    check(sight_passed(&run, about, SPAN_S(3600), &passed, &error) == HF_OK && !passed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view input = { (const char *)data, size };
    struct hf_client *client;
    struct hf_error error;
    check(hf_client_open("mem:", NULL, &client, &error) == HF_OK);
    memory_holds(client, input);
    sweep_holds(client);
    sight_holds(client, input);
    hf_client_close(client);
    return 0;
}
