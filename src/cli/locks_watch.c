/* locks_watch.c: `locks watch`: who holds what, kept up to date on a terminal, or as a line for
 * each change where there is none. */
#include "cli/interrupt.h"
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

/* What was known of a lease or a waiter at the last look. */
struct known {
    uint64_t round;
    size_t place;      /* in line, from 1; 0: a lease */
    const char *state; /* of a lease, as lease_state has it */
    json_t *object;    /* as it was */
    char *words;       /* for people */
    size_t id_size;
    char id[]; /* the key of its table, and its own */
};

struct watching {
    struct cli *cli;
    struct view start;
    struct look look;
    struct hf_error trouble; /* of the last look */
    bool on_screen;
    struct grid grid; /* of those that fit */
    size_t held, waiting, damaged;
    struct map known; /* of struct known; for lines */
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

static void add_to_screen(struct watching *watching, const struct sight *sight,
                          const struct lease *lease, size_t place)
{
    *(place > 0 ? &watching->waiting : &watching->held) += 1;
    if (watching->grid.count < GRID_ROWS_MAX)
        grid_add_lease(&watching->grid, /* all */ true, sight, lease, place);
}

/* ---- Lines --------------------------------------------------------------------------- */

static void known_free(struct known *known)
{
    json_decref(known->object);
    free(known->words);
    free(known);
}

/* Takes `object` over. */
static void write_event(struct watching *watching, const char *event, const char *words,
                        json_t *object)
{
    struct cli *cli = watching->cli;
    char time[TIME_TEXT_MAX];
    time_text(env_wall(cli->env), time);
    if (!cli->json) {
        output_print(&cli->out, "%s  %-8s %s\n", time, event, words);
        json_decref(object);
        return;
    }
    if (object) {
        json_object_set_new(object, "event", json_string(event));
        json_object_set_new(object, "at", json_string(time));
    }
    output_json(&cli->out, object);
}

static char *words_of(const struct sight *sight, const struct lease *lease, size_t place)
{
    struct buffer raw = BUFFER_INIT(16 * KEY_BYTES_MAX), text = BUFFER_INIT(64 * KEY_BYTES_MAX);
    append_scopes(&raw, sight, lease);
    buffer_print(&raw, "  %s  ", lease_mode_name(lease->mode));
    buffer_append(&raw, lease->holder);
    escape_append(&text, buffer_view(&raw));
    if (place > 0)
        buffer_print(&text, "  place %zu", place);
    else
        buffer_print(&text, "  token %" PRIu64, lease->token);
    char *words = text.failed ? NULL : strdup(buffer_text(&text));
    buffer_release(&raw);
    buffer_release(&text);
    return words;
}

/* An entry for something that was not there before; NULL without memory. */
static struct known *known_new(struct watching *watching, struct view id)
{
    void *old;
    struct known *known = calloc(1, sizeof *known + id.size);
    if (!known)
        return NULL;
    known->id_size = id.size;
    memcpy(known->id, id.data, id.size);
    if (map_put(&watching->known, (struct view){ known->id, id.size }, known, &old))
        return known;
    free(known);
    return NULL;
}

static const char *event_of(const struct known *known, const char *state, bool is_new,
                            size_t place)
{
    bool active = strcmp(state, lease_status_name(LEASE_ACTIVE)) == 0;
    if (place > 0)
        return "waiting";
    if (!active)
        return state;
    return is_new || known->place > 0 ? "granted" : "renewed";
}

/* A waiter that turned into a lease is granted; one whose time is past is overdue, then over, or
 * renewed after all. Other changes (renewals, places) say nothing. */
static enum hf_status note(struct watching *watching, const struct sight *sight,
                           const struct lease *lease, size_t place)
{
    char space[KEY_BYTES_MAX + HOLDER_BYTES_MAX + 2];
    int size =
        snprintf(space, sizeof space, "%.*s %.*s", VIEW_ARGS(sight->key), VIEW_ARGS(lease->id));
    struct view id = { space, (size_t)size < sizeof space ? (size_t)size : sizeof space - 1 };
    struct known *known = map_get(&watching->known, id);
    bool is_new = !known;
    if (!known)
        known = known_new(watching, id);
    if (!known)
        return error_no_memory(&watching->cli->error);
    known->round = watching->round;
    const char *state = place > 0 ? "" : lease_state(&sight->settings, lease, &sight->evidence);
    bool same_kind = !is_new && (known->place > 0) == (place > 0);
    if (same_kind && (place > 0 || strcmp(known->state, state) == 0))
        return HF_OK;
    const char *event = event_of(known, state, is_new, place);
    json_decref(known->object);
    free(known->words);
    known->place = place;
    known->state = state;
    known->object = watching->cli->json ? lease_as_json(sight, lease, place) : NULL;
    known->words = words_of(sight, lease, place);
    if (!known->words)
        return error_no_memory(&watching->cli->error);
    write_event(watching, event, known->words, json_copy(known->object));
    return HF_OK;
}

/* Those that the last look did not find. */
static void tell_gone(struct watching *watching, bool all)
{
    struct known *known = map_seek(&watching->known, VIEW(""), /* beyond */ false);
    while (known) {
        struct view id = { known->id, known->id_size };
        struct known *next = map_seek(&watching->known, id, /* beyond */ true);
        if (all || known->round != watching->round) {
            if (!all)
                write_event(watching, known->place > 0 ? "left" : "ended", known->words,
                            json_incref(known->object));
            map_take(&watching->known, id);
            known_free(known);
        }
        known = next;
    }
}

/* ---- Looking ------------------------------------------------------------------------- */

static enum hf_status take_one(struct watching *watching, const struct sight *sight,
                               const struct lease *lease, size_t place)
{
    if (!look_matches(lease, watching->start))
        return HF_OK;
    if (!watching->on_screen)
        return note(watching, sight, lease, place);
    add_to_screen(watching, sight, lease, place);
    return HF_OK;
}

static enum hf_status take_table(void *argument, const struct sight *sight,
                                 struct hf_error *error)
{
    struct watching *watching = argument;
    const struct lease_table *table = sight->table;
    enum hf_status status = interrupt_check(error);
    watching->damaged += table == NULL;
    for (size_t i = 0; table && i < table->lease_count && status == HF_OK; i++)
        if (table->leases[i]->status == LEASE_ACTIVE)
            status = take_one(watching, sight, table->leases[i], /* place */ 0);
    for (size_t i = 0; table && i < table->waiter_count && status == HF_OK; i++)
        status = take_one(watching, sight, table->waiters[i].wanted, i + 1);
    if (status != HF_OK && error->status == HF_OK)
        *error = watching->cli->error;
    return status;
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
    error_clear(&watching->trouble);
    if (watching->on_screen)
        grid_clear(&watching->grid);
    watching->held = watching->waiting = watching->damaged = 0;
    watching->round++;
    enum hf_status status =
        look_around(&watching->look, watching->start, take_table, watching, &watching->trouble);
    if (status == HF_OK && !watching->on_screen)
        tell_gone(watching, /* all */ false);
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
    struct watching watching = { .cli = cli, .known = MAP_INIT };
    const char *const *titles;
    size_t columns = lease_columns(/* all */ true, &titles);
    watching.start = cli->argument_count > 0 ? cli_argument(cli, 0) : VIEW("");
    watching.on_screen = cli->out.terminal && !cli->json;
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    look_init(&watching.look, client);
    watching.look.remembers = true;
    if (!grid_init(&watching.grid, titles, columns))
        status = error_no_memory(&cli->error);
    if (status == HF_OK)
        status = watching.on_screen ? watch_on_screen(&watching) : watch(&watching);
    tell_gone(&watching, /* all */ true);
    map_release(&watching.known);
    grid_release(&watching.grid);
    look_release(&watching.look);
    hf_client_close(client);
    return status;
}
