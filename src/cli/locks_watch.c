/* locks_watch.c: `locks watch`: who holds what, kept up to date on a terminal, or as a line for
 * each change where there is none. */
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define INTERVAL_DEFAULT SPAN_S(1)
#define INTERVAL_LEAST   SPAN_MS(50)

/* Signals and a new size of the window are noticed within this. */
#define NAP SPAN_MS(50)

#define ROWS_ELSE    24
#define COLUMNS_ELSE 80

/* The second screen of a terminal, so that what stood there before comes back. */
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
    struct hf_error trouble; /* of the last look */
    bool on_screen;
    struct grid grid; /* of those that fit */
    size_t held, waiting, damaged;
};

/* ---- A screen ------------------------------------------------------------------------ */

static struct window window_of(const struct output *out)
{
    struct winsize size = { 0 };
    if (ioctl(out->fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return (struct window){ ROWS_ELSE, COLUMNS_ELSE };
    return (struct window){ size.ws_row, size.ws_col };
}

static bool windows_equal(struct window a, struct window b)
{
    return a.rows == b.rows && a.columns == b.columns;
}

static void draw_line(struct output *out, struct view text, size_t columns)
{
    size_t end = 0, width = 0;
    while (end < text.size) {
        bool starts = ((unsigned char)text.data[end] & 0xc0) != 0x80;
        if (starts && width++ == columns)
            break;
        end++;
    }
    output_bytes(out, view_first(text, end));
    output_text(out, LINE_END);
}

static void draw_head(struct watching *watching, size_t columns)
{
    char time[TIME_TEXT_MAX];
    struct buffer line = BUFFER_INIT(1024);
    buffer_print(&line, "%zu held, %zu waiting", watching->held, watching->waiting);
    if (watching->damaged > 0)
        buffer_print(&line, ", %zu table%s damaged", watching->damaged,
                     plural(watching->damaged));
    buffer_print(&line, "   %s", time_text(env_wall(watching->cli->env), time));
    if (watching->trouble.status != HF_OK) {
        buffer_print(&line, "   %s: ", hf_status_name(watching->trouble.status));
        escape_append(&line, view_of(watching->trouble.why));
    }
    draw_line(&watching->cli->out, buffer_view(&line), columns);
    buffer_release(&line);
}

/* The head, a blank line, the titles, the rows; the last line of the window stays free, so that
 * nothing scrolls. */
static enum hf_status draw(struct watching *watching, struct window window)
{
    struct output *out = &watching->cli->out;
    struct grid *grid = &watching->grid;
    struct buffer line = BUFFER_INIT(GRID_COLUMNS_MAX * 8 * KEY_BYTES_MAX);
    size_t room = window.rows > 4 ? window.rows - 4 : 1;
    size_t total = watching->held + watching->waiting;
    size_t shown = grid->count <= room && total == grid->count ? grid->count : room - 1;
    if (shown > grid->count)
        shown = grid->count;
    output_text(out, SCREEN_HOME);
    draw_head(watching, window.columns);
    draw_line(out, VIEW(""), window.columns);
    if (grid->count > 0)
        grid_append_titles(grid, &line);
    draw_line(out, buffer_view(&line), window.columns);
    for (size_t i = 0; i < shown; i++) {
        buffer_clear(&line);
        grid_append_row(grid, &line, i);
        draw_line(out, buffer_view(&line), window.columns);
    }
    if (shown < total) {
        buffer_clear(&line);
        buffer_print(&line, "… and %zu more", total - shown);
        draw_line(out, buffer_view(&line), window.columns);
    }
    output_text(out, SCREEN_END);
    buffer_release(&line);
    return output_flush(out, &watching->cli->error);
}

static void add_to_screen(struct watching *watching, const struct hf_lease_info *lease)
{
    *(lease->place > 0 ? &watching->waiting : &watching->held) += 1;
    if (watching->grid.count < GRID_ROWS_MAX)
        grid_add_lease(&watching->grid, /* all */ true, lease);
}

/* ---- Lines --------------------------------------------------------------------------- */

static void append_words(struct buffer *to, const struct hf_lease_info *lease)
{
    struct buffer raw = BUFFER_INIT(16 * KEY_BYTES_MAX);
    append_scopes(&raw, lease);
    buffer_print(&raw, "  %s  %s", hf_mode_name(lease->mode), lease->holder);
    escape_append(to, buffer_view(&raw));
    if (lease->place > 0)
        buffer_print(to, "  place %zu", lease->place);
    else
        buffer_print(to, "  token %" PRIu64, lease->token);
    buffer_release(&raw);
}

static void write_change(struct watching *watching, enum hf_change change,
                         const struct hf_lease_info *lease)
{
    struct cli *cli = watching->cli;
    char time[TIME_TEXT_MAX];
    time_text(env_wall(cli->env), time);
    if (cli->json) {
        json_t *object = lease_as_json(lease, lease->place);
        json_add(&object, "event", json_string(hf_change_name(change)));
        json_add(&object, "at", json_string(time));
        output_json(&cli->out, object);
        return;
    }
    struct buffer words = BUFFER_INIT(64 * KEY_BYTES_MAX);
    append_words(&words, lease);
    output_print(&cli->out, "%s  %-8s %.*s\n", time, hf_change_name(change),
                 VIEW_ARGS(buffer_view(&words)));
    buffer_release(&words);
}

/* ---- Looking ------------------------------------------------------------------------- */

static bool take_change(void *argument, enum hf_change change,
                        const struct hf_lease_info *lease)
{
    struct watching *watching = argument;
    bool gone = change == HF_CHANGE_ENDED || change == HF_CHANGE_LEFT;
    if (watching->on_screen && !gone)
        add_to_screen(watching, lease);
    else if (!watching->on_screen && change != HF_CHANGE_NONE)
        write_change(watching, change, lease);
    return true;
}

static void count_damaged(void *argument, const char *table, const struct hf_error *why)
{
    struct watching *watching = argument;
    (void)table;
    (void)why;
    watching->damaged++;
}

/* A store that does not answer now and then does not end the watch; whatever is no use trying
 * again does. */
static bool may_pass(enum hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_TIMEOUT || status == HF_UNSURE;
}

static enum hf_status look_once(struct watching *watching)
{
    struct cli *cli = watching->cli;
    if (watching->on_screen)
        grid_clear(&watching->grid);
    watching->held = watching->waiting = watching->damaged = 0;
    enum hf_status status =
        hf_watch_look(watching->watch, take_change, watching, &watching->trouble);
    if (status == HF_CANCELLED)
        interrupt_check(&watching->trouble);
    if (status != HF_OK && !may_pass(status)) {
        cli->error = watching->trouble;
        return status;
    }
    if (status != HF_OK && !watching->on_screen)
        cli_report(cli, cli_argument(cli, 0), &watching->trouble);
    return watching->on_screen ? HF_OK : output_flush(&cli->out, &cli->error);
}

/* Waits for the next look, and meanwhile fits the screen to its window. */
static enum hf_status wait_until(struct watching *watching, struct mono_time moment)
{
    struct cli *cli = watching->cli;
    struct window drawn = window_of(&cli->out);
    enum hf_status status = watching->on_screen ? draw(watching, drawn) : HF_OK;
    while (status == HF_OK && mono_before(env_now(cli->env), moment) && !interrupted()) {
        env_sleep_until(cli->env, mono_earlier(moment, mono_add(env_now(cli->env), NAP)));
        struct window now = window_of(&cli->out);
        if (watching->on_screen && !windows_equal(now, drawn)) {
            drawn = now;
            status = draw(watching, now);
        }
    }
    return status;
}

static enum hf_status watch(struct watching *watching)
{
    struct cli *cli = watching->cli;
    const struct option_value *length = cli_option(cli, "for");
    struct span pause = cli_span(cli, "interval", INTERVAL_DEFAULT);
    struct mono_time next = env_now(cli->env);
    struct mono_time end =
        length ? mono_add(next, length->span) : (struct mono_time){ MOMENT_FAR };
    enum hf_status status;
    if (pause.us < INTERVAL_LEAST.us)
        return error_set(&cli->error, HF_INVALID, "--interval is at least 50ms");
    do {
        status = look_once(watching);
        next = mono_earlier(mono_add(env_now(cli->env), pause), end);
        if (status == HF_OK)
            status = wait_until(watching, next);
        if (status == HF_OK)
            status = interrupt_check(&cli->error);
    } while (status == HF_OK && mono_before(next, end));
    return status;
}

/* Between the two the terminal is ours; the second Ctrl-C gives it back, too. */
static enum hf_status watch_on_screen(struct watching *watching)
{
    struct output *out = &watching->cli->out;
    struct hf_error ignored;
    interrupt_writes(SCREEN_LEAVE);
    output_text(out, SCREEN_ENTER);
    enum hf_status status = watch(watching);
    output_text(out, SCREEN_LEAVE);
    output_flush(out, &ignored);
    interrupt_writes(NULL);
    return status;
}

enum hf_status run_locks_watch(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct watching watching = { .cli = cli };
    struct hf_list_options options = HF_LIST_OPTIONS;
    const char *const *titles;
    size_t columns = lease_columns(/* all */ true, &titles);
    watching.on_screen = cli->out.terminal && !cli->json;
    options.damaged = count_damaged;
    options.proceed = not_interrupted;
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    status = hf_watch_new(client, cli->argument_count > 0 ? cli->arguments[0] : "", &options,
                          &watching.watch, &cli->error);
    if (!grid_init(&watching.grid, titles, columns) && status == HF_OK)
        status = error_no_memory(&cli->error);
    if (status == HF_OK)
        status = watching.on_screen ? watch_on_screen(&watching) : watch(&watching);
    grid_release(&watching.grid);
    hf_watch_free(watching.watch);
    hf_client_close(client);
    return status;
}
