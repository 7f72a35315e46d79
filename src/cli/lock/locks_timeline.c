/* SPDX-License-Identifier: Apache-2.0 */
/* locks_timeline.c: `locks timeline`: who held a lock when, as a server has noted it; or else as
 * far as the lock's table tells, or can be seen by reading it again and again. As lines, JSON or a
 * picture. */
#include "base/timeline.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/lock/lock.h"
#include "cli/output/record.h"
#include "cli/output/svg.h"

#include <stdio.h>

#define INTERVAL_DEFAULT SPAN_MS(250)
#define INTERVAL_LEAST   SPAN_MS(50)
#define NAP              SPAN_MS(50) /* how often signals are checked */
#define HOLDS_MAX        10000

/* The picture, in pixels. */
#define WIDTH      960
#define NAMES_END  200 /* the room for owners */
#define TOP        40
#define ROW_HEIGHT 24
#define BAR_HEIGHT 16
#define BAR_LEAST  2
#define ROWS_MAX   60
#define NAME_SHOWN 28 /* characters */

struct told_hold {
    struct timeline_hold hold;
    const char *owner, *began, *ended;
    int64_t held_ms, ended_within_ms, expires_ms;
};

const struct field hold_record[] = HOLD_RECORD;

struct timeline_reading {
    struct cli *cli;
    struct timeline *timeline;
    struct hf_table_info table; /* only the scope is known of a server's */
    int64_t now_ms;             /* of the last read, by the clock of what was read */
    bool has_server;
    bool has_read;   /* once at least */
    bool in_trouble; /* an error was reported, and no read has succeeded since */
    bool no_memory;
};

/* ---- Reading ------------------------------------------------------------------------- */

/* The note has the label that a client of a server gave. */
static bool see_lease(void *argument, const struct hf_lease_info *lease)
{
    struct timeline_reading *reading = argument;
    struct timeline_hold hold;
    if (!timeline_read_lease(lease, &hold))
        return true;
    json_t *note = json_loads(lease->note, 0, NULL);
    const char *owner = json_string_value(json_object_get(note, "owner"));
    hold.owner = owner ? owner : lease->holder;
    reading->no_memory |= !timeline_see(reading->timeline, &hold);
    json_decref(note);
    return true;
}

/* Only a break, of which the table lists the lease, has somebody who did it. */
static bool see_audit(void *argument, const char *json)
{
    struct timeline_reading *reading = argument;
    struct buffer by = BUFFER_INIT(4096), why = BUFFER_INIT(16384);
    struct timeline_hold hold = { .token = timeline_read_audit(json, &by, &why) };
    hold.by = by.failed ? NULL : buffer_text(&by);
    hold.reason = why.failed ? NULL : buffer_text(&why);
    reading->no_memory |= !timeline_note(reading->timeline, &hold);
    buffer_release(&by);
    buffer_release(&why);
    return true;
}

static enum timeline_end end_of_name(const char *name)
{
    for (unsigned end = TIMELINE_RELEASE; end < TIMELINE_END_COUNT; end++)
        if (strcmp(name, timeline_end_name((enum timeline_end)end)) == 0)
            return (enum timeline_end)end;
    return name[0] ? TIMELINE_UNKNOWN : TIMELINE_HELD;
}

/* The server does not say who the holder of a lease is that it granted: it is itself. */
static bool note_served_hold(void *argument, const struct hf_hold *served)
{
    struct timeline_reading *reading = argument;
    struct timeline_hold hold = {
        .token = served->token,
        .began = { served->began_at_ms, served->began_precision_ms },
        .end = end_of_name(served->ended),
        .ended = { served->ended_at_ms, served->ended_precision_ms },
        .expires_ms = served->expires_at_ms,
        .exclusive = served->mode == HF_EXCLUSIVE && served->scope[0] == '\0',
        .mode = hf_mode_name(served->mode),
        .owner = served->owner,
        .holder = served->holder[0] ? served->holder : served->owner,
        .scope = served->scope,
        .by = served->ended_by,
        .reason = served->reason,
    };
    reading->no_memory |= !timeline_note(reading->timeline, &hold);
    return true;
}

/* Each reply has all that the server knows. */
static enum hf_status read_server_once(struct timeline_reading *reading)
{
    struct cli *cli = reading->cli;
    struct hf_timeline_info info = HF_TIMELINE_INFO;
    struct timeline *before = reading->timeline, *now = timeline_new(HOLDS_MAX, 0);
    if (!now)
        return error_no_memory(&cli->error);
    reading->timeline = now;
    enum hf_status status = hf_locks_timeline(cli->client, cli->arguments[0], &info,
                                              note_served_hold, reading, &cli->error);
    if (status == HF_OK && reading->no_memory)
        status = error_no_memory(&cli->error);
    if (status == HF_OK) {
        reading->now_ms = info.now_ms;
        snprintf(reading->table.scope, sizeof reading->table.scope, "%s", info.scope);
    } else {
        reading->timeline = before;
    }
    timeline_free(status == HF_OK ? before : now);
    return status;
}

static enum hf_status read_timeline_once(struct timeline_reading *reading)
{
    struct cli *cli = reading->cli;
    if (reading->has_server) {
        enum hf_status status = read_server_once(reading);
        if (status != HF_UNSUPPORTED)
            return status;
        reading->has_server = false;
    }
    struct hf_table_info table = HF_TABLE_INFO;
    int64_t at_ms = env_wall(cli->env).us / 1000;
    timeline_begin_look(reading->timeline);
    enum hf_status status = hf_locks_show(cli->client, cli->arguments[0], &table, see_lease,
                                          see_audit, reading, &cli->error);
    if (status == HF_OK && reading->no_memory)
        status = error_no_memory(&cli->error);
    if (status == HF_OK) {
        reading->now_ms = at_ms;
        reading->table = table;
        timeline_end_look(reading->timeline, table.next_token, at_ms);
    }
    return status;
}

/* An error that may be temporary is reported once, and does not end a watch. */
static enum hf_status read_or_report(struct timeline_reading *reading)
{
    struct cli *cli = reading->cli;
    reading->no_memory = false;
    enum hf_status status = read_timeline_once(reading);
    bool trouble = cli_given(cli, "for") && status_is_temporary(status);
    reading->has_read |= status == HF_OK;
    if (trouble && !reading->in_trouble)
        cli_report(cli, cli_argument(cli, 0), &cli->error);
    reading->in_trouble = trouble;
    return trouble ? HF_OK : status;
}

/* Ctrl-C ends the watch, and what was seen is shown, even if the store does not answer a read. */
static enum hf_status read_for_a_while(struct timeline_reading *reading)
{
    struct cli *cli = reading->cli;
    struct span pause = cli_span(cli, "interval", INTERVAL_DEFAULT);
    struct mono_time end = env_now(cli->env);
    if (cli_given(cli, "for"))
        end = mono_add(end, cli_option(cli, "for")->span);
    if (pause.us < INTERVAL_LEAST.us)
        return cli_invalid(cli, "--interval must be at least 50ms");
    if (cli_given(cli, "for"))
        cli_end_in_order(cli);
    enum hf_status status = read_or_report(reading);
    while (status == HF_OK && mono_before(env_now(cli->env), end) && !interrupted()) {
        struct mono_time next = mono_earlier(mono_add(env_now(cli->env), pause), end);
        while (mono_before(env_now(cli->env), next) && !interrupted())
            env_sleep_until(cli->env, mono_earlier(next, mono_add(env_now(cli->env), NAP)));
        if (!interrupted())
            status = read_or_report(reading);
    }
    if (status != HF_OK || reading->has_read)
        return status;
    cli->reported = true;
    return cli->error.status;
}

/* ---- Lines --------------------------------------------------------------------------- */

static struct told_hold told_hold(const struct timeline *timeline, size_t index, int64_t now_ms)
{
    const struct timeline_hold *hold = timeline_at(timeline, index);
    bool held = hold->end == TIMELINE_HELD;
    struct told_hold told = { .hold = *hold,
                              .owner = hold->owner ? hold->owner : "",
                              .began = timeline_began_name(timeline, index),
                              .expires_ms = held ? hold->expires_ms : 0 };
    if (!held) {
        told.ended = timeline_end_name(hold->end);
        told.ended_within_ms = hold->ended.slack_ms > 0 ? hold->ended.slack_ms : 0;
    }
    int64_t until_ms = held ? now_ms : hold->ended.at_ms;
    told.held_ms = until_ms > hold->began.at_ms ? until_ms - hold->began.at_ms : 0;
    return told;
}

static void print_holds(struct timeline_reading *reading, int64_t now_ms)
{
    struct cli *cli = reading->cli;
    size_t count = timeline_count(reading->timeline);
    for (size_t i = 0; i < count; i++) {
        struct told_hold told = told_hold(reading->timeline, i, now_ms);
        record_show(cli, hold_record, &told, HOLD_TEXT);
    }
    if (count == 0 && !cli->json && !cli->quiet)
        output_print(&cli->out, "nobody holds %s, and its %s lists no hold that ended\n",
                     reading->table.scope, reading->has_server ? "server" : "table");
}

/* ---- A picture ----------------------------------------------------------------------- */

struct lanes {
    const char *names[ROWS_MAX];
    size_t count;
};

/* The row of an owner. Beyond the bound, the last row is for all others. */
static size_t lane_of(struct lanes *lanes, const char *owner)
{
    size_t i = 0;
    while (i < lanes->count && strcmp(lanes->names[i], owner) != 0)
        i++;
    if (i < lanes->count)
        return i;
    if (lanes->count == ROWS_MAX - 1)
        owner = "others";
    if (lanes->count < ROWS_MAX)
        lanes->names[lanes->count++] = owner;
    return lanes->count - 1;
}

static struct svg_axis axis_of(const struct timeline *timeline, int64_t now_ms)
{
    struct svg_axis axis = { NAMES_END, WIDTH - 20, now_ms, now_ms };
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        int64_t began = timeline_at(timeline, i)->began.at_ms;
        axis.first_ms = began < axis.first_ms ? began : axis.first_ms;
    }
    if (axis.last_ms - axis.first_ms < 1000)
        axis.first_ms = axis.last_ms - 1000;
    return axis;
}

static void draw_hold(struct svg *svg, const struct svg_axis *axis, struct lanes *lanes,
                      const struct told_hold *told)
{
    const struct timeline_hold *hold = &told->hold;
    struct buffer tip = BUFFER_INIT(64 * 1024);
    bool held = hold->end == TIMELINE_HELD;
    double x = svg_axis_at(axis, hold->began.at_ms);
    double end = svg_axis_at(axis, held ? axis->last_ms : hold->ended.at_ms);
    double y = TOP + (double)lane_of(lanes, told->owner) * ROW_HEIGHT;
    record_append(&tip, /* raw */ false, hold_record, told,
                  "{owner}, token {token}, {mode}, {held_ms} from {began_at}, "
                  "[{ended?}ended ({ended})|holds][ by {ended_by}][: {reason}]");
    svg_rect(svg, timeline_end_name(hold->end), x, y + (ROW_HEIGHT - BAR_HEIGHT) / 2.0,
             end - x > BAR_LEAST ? end - x : BAR_LEAST, BAR_HEIGHT, buffer_text(&tip));
    buffer_release(&tip);
}

static void draw_lanes(struct svg *svg, const struct lanes *lanes)
{
    for (size_t i = 0; i < lanes->count; i++) {
        char name[4 * NAME_SHOWN + 4];
        struct view shown = text_first(view_of(lanes->names[i]), NAME_SHOWN);
        bool cut = shown.size < strlen(lanes->names[i]);
        double y = TOP + (double)i * ROW_HEIGHT;
        snprintf(name, sizeof name, "%.*s%s", VIEW_ARGS(shown), cut ? "…" : "");
        svg_rect(svg, "lane", NAMES_END, y + 2, WIDTH - 20 - NAMES_END, ROW_HEIGHT - 4, NULL);
        svg_text(svg, "name", NAMES_END - 8, y + 16, name);
    }
}

static void draw_timeline(struct timeline_reading *reading, int64_t now_ms)
{
    const struct timeline *timeline = reading->timeline;
    struct svg svg;
    struct lanes lanes = { .count = 0 };
    struct svg_axis axis = axis_of(timeline, now_ms);
    struct buffer title = BUFFER_INIT(8192);
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        struct told_hold told = told_hold(timeline, i, now_ms);
        lane_of(&lanes, told.owner);
    }
    double bottom = TOP + (double)(lanes.count > 0 ? lanes.count : 1) * ROW_HEIGHT;
    buffer_print(&title, "%s: %zu hold%s", reading->table.scope, timeline_count(timeline),
                 plural(timeline_count(timeline)));
    const char *title_text = buffer_text(&title);
    svg_begin(&svg, WIDTH, (int)bottom + 60, title_text ? title_text : "");
    svg_text(&svg, "title", 12, 24, title_text ? title_text : "");
    draw_lanes(&svg, &lanes);
    svg_axis_draw(&svg, &axis, TOP, bottom);
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        struct told_hold told = told_hold(timeline, i, now_ms);
        draw_hold(&svg, &axis, &lanes, &told);
    }
    static const char *const ends[] = { "held", "release", "expiry", "break", "unknown" };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        svg_rect(&svg, ends[i], NAMES_END + 110.0 * (double)i, bottom + 30, 12, 12, NULL);
        svg_text(&svg, "note", NAMES_END + 18 + 110.0 * (double)i, bottom + 40, ends[i]);
    }
    svg_end(&svg);
    output_svg(&reading->cli->out, &svg);
    buffer_release(&title);
}

enum hf_status run_locks_timeline(struct cli *cli)
{
    struct timeline_reading reading = { .cli = cli,
                                        .timeline = timeline_new(HOLDS_MAX, 0),
                                        .table = HF_TABLE_INFO,
                                        .has_server = true };
    bool draws = cli_given(cli, "svg");
    enum hf_status status = reading.timeline ? HF_OK : error_no_memory(&cli->error);
    if (status == HF_OK && draws && cli->json)
        status = cli_invalid(cli, "use either --svg or --json");
    if (status == HF_OK)
        status = read_for_a_while(&reading);
    int64_t now_ms = reading.now_ms;
    if (reading.has_read && draws)
        draw_timeline(&reading, now_ms);
    else if (reading.has_read)
        print_holds(&reading, now_ms);
    timeline_free(reading.timeline);
    return status == HF_OK ? interrupt_check(&cli->error) : status;
}
