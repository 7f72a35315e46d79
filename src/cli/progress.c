/* progress.c: the progress line. Drawn with spaces and carriage returns alone, so it works on
 * every terminal. */
#include "cli/progress.h"

#include "base/parse.h"
#include "cli/interrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BAR_WIDTH    20
#define LINE_MAX_    256
#define SHOW_AFTER   SPAN_S(1)
#define SHOW_EACH    SPAN_MS(100)
#define COLUMNS_ELSE 80

void gauge_start(struct gauge *gauge, struct cli *cli, struct view label)
{
    *gauge = (struct gauge){
        .env = cli->env,
        .visible = !cli->quiet && isatty(STDERR_FILENO) == 1,
        .label = label,
        .passes = 1,
        .start = env_now(cli->env),
    };
}

static size_t terminal_columns(void)
{
    struct winsize size = { 0 };
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS_ELSE;
    return size.ws_col;
}

static void append_bar(struct buffer *line, double share)
{
    int full = (int)(share * BAR_WIDTH);
    buffer_append_byte(line, '[');
    for (int i = 0; i < BAR_WIDTH; i++)
        buffer_append_byte(line, i < full ? '#' : '.');
    buffer_print(line, "] %3d%%  ", (int)(share * 100));
}

static void append_figures(struct buffer *line, uint64_t done, uint64_t total, double seconds)
{
    char size[SIZE_TEXT_MAX], rate_text[SIZE_TEXT_MAX];
    double rate = (double)done / seconds;
    buffer_print(line, "%s  %s/s", size_text(done, size), size_text((uint64_t)rate, rate_text));
    if (total > 0 && rate >= 1)
        buffer_print(line, "  %" PRIu64 "s left",
                     (uint64_t)((double)(total - done) / rate + 0.5));
}

/* Overwrites the line that stands there; a shorter one is filled up with spaces. */
static void draw(struct gauge *gauge, struct view text)
{
    size_t columns = terminal_columns();
    struct view shown = view_first(text, columns > 1 ? columns - 1 : 1);
    int padding = gauge->width > shown.size ? (int)(gauge->width - shown.size) : 0;
    fprintf(stderr, "\r%.*s%*s\r", VIEW_ARGS(shown), padding, "");
    fflush(stderr);
    gauge->width = shown.size;
}

static void show(struct gauge *gauge, uint64_t done, uint64_t total, struct mono_time now)
{
    char space[LINE_MAX_];
    struct buffer line = { .data = space, .capacity = sizeof space, .max = sizeof space };
    double seconds = (double)mono_since(now, gauge->start).us / 1e6;
    if (done > total)
        total = 0;
    escape_append(&line, view_first(gauge->label, 24));
    buffer_append(&line, VIEW("  "));
    if (total > 0)
        append_bar(&line, (double)done / (double)total);
    append_figures(&line, done, total, seconds);
    draw(gauge, buffer_view(&line));
}

bool gauge_is_due(struct gauge *gauge)
{
    struct mono_time now = env_now(gauge->env);
    if (!gauge->visible || mono_before(now, mono_add(gauge->start, SHOW_AFTER)) ||
        mono_before(now, mono_add(gauge->last_shown, SHOW_EACH)))
        return false;
    gauge->last_shown = now;
    return true;
}

bool gauge_step(struct gauge *gauge, uint64_t done, uint64_t total)
{
    if (interrupted())
        return false;
    if (!gauge_is_due(gauge))
        return true;
    struct mono_time now = gauge->last_shown;
    if (gauge->total > 0) {
        uint64_t here = (gauge->pass * gauge->size + done) / gauge->passes;
        show(gauge, gauge->before + here, gauge->total, now);
    } else {
        show(gauge, done, total, now);
    }
    return true;
}

static bool step(void *gauge, uint64_t done, uint64_t total)
{
    return gauge_step(gauge, done, total);
}

struct progress gauge_progress(struct gauge *gauge)
{
    return (struct progress){ step, gauge };
}

bool gauge_watch(void *gauge, const struct hf_progress *progress)
{
    return gauge_step(gauge, progress->done_bytes, progress->total_bytes);
}

void gauge_say(struct gauge *gauge, struct view words)
{
    if (gauge->visible)
        draw(gauge, words);
}

void gauge_clear(struct gauge *gauge)
{
    if (gauge->width > 0)
        draw(gauge, VIEW(""));
}
