/* SPDX-License-Identifier: Apache-2.0 */
/* locks_watch.c: `locks watch`: shows the current leases, refreshed on a terminal, or prints one
 * line per change if the output is not a terminal. */
#include "base/map.h"
#include "cli/interrupt.h"
#include "cli/lock/lock.h"

#include <stdlib.h>
#include <sys/ioctl.h>

#define INTERVAL_DEFAULT SPAN_S(1)
#define INTERVAL_LEAST   SPAN_MS(50)

/* How often signals and the window size are checked. */
#define NAP SPAN_MS(50)

#define ROWS_ELSE    24
#define COLUMNS_ELSE 80

/* The alternate screen of a terminal: leaving it restores the previous content. */
#define SCREEN_ENTER "\033[?1049h"
#define SCREEN_LEAVE "\033[?1049l"
#define SCREEN_HOME  "\033[H"
#define LINE_END     "\033[K\r\n"
#define SCREEN_END   "\033[J"

struct window {
    size_t rows, columns;
};

struct watching {
    struct cli *cli;
    struct hf_watch *watch;
    struct hf_error trouble; /* from the last read of the store */
    bool on_screen;
    struct grid grid; /* the leases that fit on the screen */
    size_t held, waiting, damaged;
    struct map reported; /* of struct damaged_table; empty on a screen, which has the count */
    uint64_t round;
};

/* ---- A screen ------------------------------------------------------------------------ */

static struct window window_of(const struct output *out)
{
    struct winsize size = { 0 };
    if (ioctl(out->fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return (struct window){ ROWS_ELSE, COLUMNS_ELSE };
    return (struct window){ size.ws_row, size.ws_col };
}

/* Writes the line, truncated to the window's width, and clears the buffer. */
static void draw_line(struct output *out, struct buffer *line, size_t columns)
{
    output_bytes(out, text_first(buffer_view(line), columns));
    output_text(out, LINE_END);
    buffer_clear(line);
}

/* Draws the header, a blank line, the titles and the rows. The last line of the window stays free,
 * so the terminal does not scroll. */
static enum hf_status draw_screen(struct watching *watching, struct window window)
{
    struct output *out = &watching->cli->out;
    struct grid *grid = &watching->grid;
    struct buffer line = BUFFER_INIT(GRID_COLUMNS_MAX * 8 * KEY_BYTES_MAX);
    char time[TIME_TEXT_MAX];
    size_t room = window.rows > 4 ? window.rows - 4 : 1;
    size_t total = watching->held + watching->waiting;
    size_t shown = grid->count <= room && total == grid->count ? grid->count : room - 1;
    if (shown > grid->count)
        shown = grid->count;
    output_text(out, SCREEN_HOME);
    buffer_print(&line, "%zu held, %zu waiting", watching->held, watching->waiting);
    if (watching->damaged > 0)
        buffer_print(&line, ", %zu table%s damaged", watching->damaged,
                     plural(watching->damaged));
    buffer_print(&line, "   %s", time_text(env_wall(watching->cli->env), time));
    if (watching->trouble.status != HF_OK) {
        buffer_print(&line, "   %s: ", hf_status_name(watching->trouble.status));
        escape_append(&line, view_of(watching->trouble.why));
    }
    draw_line(out, &line, window.columns);
    draw_line(out, &line, window.columns);
    if (grid->count > 0)
        grid_append_row(grid, &line, GRID_TITLES);
    draw_line(out, &line, window.columns);
    for (size_t i = 0; i < shown; i++) {
        grid_append_row(grid, &line, i);
        draw_line(out, &line, window.columns);
    }
    if (shown < total) {
        buffer_print(&line, "… and %zu more", total - shown);
        draw_line(out, &line, window.columns);
    }
    output_text(out, SCREEN_END);
    buffer_release(&line);
    return output_flush(out, &watching->cli->error);
}

/* ---- Lines --------------------------------------------------------------------------- */

struct change {
    struct hf_lease_info lease;
    enum hf_change event;
    int64_t at_ms;
};

const struct field change_record[] = CHANGE_RECORD;

/* ---- Changes ------------------------------------------------------------------------- */

static bool take_change(void *argument, enum hf_change event, const struct hf_lease_info *lease)
{
    struct watching *watching = argument;
    struct cli *cli = watching->cli;
    if (!watching->on_screen && event != HF_CHANGE_NONE) {
        struct change change = { *lease, event, env_wall(cli->env).us / 1000 };
        record_show(cli, change_record, &change, CHANGE_TEXT);
    } else if (watching->on_screen && event != HF_CHANGE_ENDED && event != HF_CHANGE_LEFT) {
        *(lease->place > 0 ? &watching->waiting : &watching->held) += 1;
        if (watching->grid.count < GRID_ROWS_MAX)
            grid_add(&watching->grid, lease_record, lease, lease_row);
    }
    return true;
}

/* ---- Damaged tables ------------------------------------------------------------------ */

/* A table that cannot be read. It is reported once, and again if the reason changes. */
struct damaged_table {
    uint64_t round; /* the last read that found it damaged */
    struct hf_error error;
    size_t key_size;
    char key[];
};

static struct view damaged_key(const struct damaged_table *table)
{
    return (struct view){ table->key, table->key_size };
}

/* The entry for a table, which is created if there is none. NULL if memory runs out. */
static struct damaged_table *find_damaged(struct map *tables, struct view key)
{
    void *old;
    struct damaged_table *table = map_get(tables, key);
    if (table)
        return table;
    table = calloc(1, sizeof *table + key.size);
    if (!table)
        return NULL;
    table->key_size = key.size;
    memcpy(table->key, key.data, key.size);
    if (map_put(tables, damaged_key(table), table, &old))
        return table;
    free(table);
    return NULL;
}

static void report_damaged(void *argument, const char *key, const struct hf_error *why)
{
    struct watching *watching = argument;
    watching->damaged++;
    if (watching->on_screen)
        return;
    struct damaged_table *table = find_damaged(&watching->reported, view_of(key));
    bool changed = !table || strcmp(table->error.why, why->why) != 0;
    if (table) {
        table->round = watching->round;
        table->error = *why;
    }
    if (changed)
        cli_report(watching->cli, view_of(key), why);
}

/* Forgets all tables, or those that the last read did not find damaged. */
static void forget_damaged(struct watching *watching, bool all)
{
    struct map *tables = &watching->reported;
    struct damaged_table *table = map_seek(tables, VIEW(""), /* beyond */ false);
    while (table) {
        struct damaged_table *next = map_seek(tables, damaged_key(table), /* beyond */ true);
        if (all || table->round != watching->round) {
            map_take(tables, damaged_key(table));
            free(table);
        }
        table = next;
    }
}

/* ---- Reading the store --------------------------------------------------------------- */

/* An error that may be temporary does not end the watch. */
static enum hf_status read_changes(struct watching *watching)
{
    struct cli *cli = watching->cli;
    if (watching->on_screen)
        grid_clear(&watching->grid);
    watching->held = watching->waiting = watching->damaged = 0;
    watching->round++;
    enum hf_status status =
        hf_watch_look(watching->watch, take_change, watching, &watching->trouble);
    if (status == HF_OK)
        forget_damaged(watching, /* all */ false);
    if (status == HF_CANCELLED)
        interrupt_check(&watching->trouble);
    if (status != HF_OK && !status_is_temporary(status)) {
        cli->error = watching->trouble;
        return status;
    }
    if (status != HF_OK && !watching->on_screen)
        cli_report(cli, cli_argument(cli, 0), &watching->trouble);
    return watching->on_screen ? HF_OK : output_flush(&cli->out, &cli->error);
}

/* Waits until the next read, and redraws when the window size changes. */
static enum hf_status wait_and_draw(struct watching *watching, struct mono_time moment)
{
    struct cli *cli = watching->cli;
    struct window drawn = window_of(&cli->out);
    enum hf_status status = watching->on_screen ? draw_screen(watching, drawn) : HF_OK;
    while (status == HF_OK && mono_before(env_now(cli->env), moment) && !interrupted()) {
        env_sleep_until(cli->env, mono_earlier(moment, mono_add(env_now(cli->env), NAP)));
        struct window now = window_of(&cli->out);
        bool changed = now.rows != drawn.rows || now.columns != drawn.columns;
        if (watching->on_screen && changed)
            status = draw_screen(watching, now);
        drawn = now;
    }
    return status;
}

static enum hf_status watch_leases(struct watching *watching)
{
    struct cli *cli = watching->cli;
    struct span pause = cli_span(cli, "interval", INTERVAL_DEFAULT);
    struct mono_time next = env_now(cli->env), end = { MOMENT_FAR };
    enum hf_status status;
    if (cli_given(cli, "for"))
        end = mono_add(next, cli_option(cli, "for")->span);
    if (pause.us < INTERVAL_LEAST.us)
        return cli_invalid(cli, "--interval must be at least 50ms");
    do {
        status = read_changes(watching);
        next = mono_earlier(mono_add(env_now(cli->env), pause), end);
        if (status == HF_OK)
            status = wait_and_draw(watching, next);
        if (status == HF_OK)
            status = interrupt_check(&cli->error);
    } while (status == HF_OK && mono_before(next, end));
    return status;
}

/* On a terminal, the alternate screen is used; a second Ctrl-C also leaves it. */
enum hf_status run_locks_watch(struct cli *cli)
{
    struct watching watching = { .cli = cli,
                                 .on_screen = cli->out.terminal && !cli->json,
                                 .reported = MAP_INIT };
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_error ignored;
    options.damaged = report_damaged;
    options.proceed = not_interrupted;
    enum hf_status status =
        hf_watch_new(cli->client, cli->argument_count > 0 ? cli->arguments[0] : "", &options,
                     &watching.watch, &cli->error);
    if (!grid_init(&watching.grid, LEASE_TITLES) && status == HF_OK)
        status = error_no_memory(&cli->error);
    if (status == HF_OK && watching.on_screen) {
        interrupt_writes(SCREEN_LEAVE);
        output_text(&cli->out, SCREEN_ENTER);
        status = watch_leases(&watching);
        output_text(&cli->out, SCREEN_LEAVE);
        output_flush(&cli->out, &ignored);
        interrupt_writes(NULL);
    } else if (status == HF_OK) {
        status = watch_leases(&watching);
    }
    forget_damaged(&watching, /* all */ true);
    map_release(&watching.reported);
    grid_release(&watching.grid);
    hf_watch_free(watching.watch);
    return status;
}
