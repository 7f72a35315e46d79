/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: the progress line. It is drawn only with spaces and carriage returns, so it works on
 * every terminal. */
#include "cli/output/progress.h"

#include "base/parse.h"
#include "cli/interrupt.h"

#include <inttypes.h>
#include <stdarg.h>
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
        .start = env_now(cli->env),
    };
}

/* Overwrites the current line, padded with spaces if the new line is shorter. */
static void draw_gauge(struct gauge *gauge, struct view text)
{
    struct winsize size = { 0 };
    size_t columns = COLUMNS_ELSE;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        columns = size.ws_col;
    struct view shown = view_first(text, columns > 1 ? columns - 1 : 1);
    int padding = gauge->width > shown.size ? (int)(gauge->width - shown.size) : 0;
    fprintf(stderr, "\r%.*s%*s\r", VIEW_ARGS(shown), padding, "");
    fflush(stderr);
    gauge->width = shown.size;
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

/* "backup.tar  [#####...............]  25%  1.0 MiB  2.0 MiB/s  2s left" */
bool gauge_step(struct gauge *gauge, uint64_t done, uint64_t total)
{
    char space[LINE_MAX_], size[SIZE_TEXT_MAX], rate_text[SIZE_TEXT_MAX];
    struct buffer line = { .data = space, .capacity = sizeof space, .max = sizeof space };
    if (interrupted())
        return false;
    if (!gauge_is_due(gauge))
        return true;
    double seconds = (double)mono_since(gauge->last_shown, gauge->start).us / 1e6;
    double rate = (double)done / seconds;
    escape_append(&line, view_first(gauge->label, 24));
    buffer_append(&line, VIEW("  "));
    if (total > 0 && done <= total) {
        double share = (double)done / (double)total;
        buffer_append_byte(&line, '[');
        for (int i = 0; i < BAR_WIDTH; i++)
            buffer_append_byte(&line, i < (int)(share * BAR_WIDTH) ? '#' : '.');
        buffer_print(&line, "] %3d%%  ", (int)(share * 100));
    }
    buffer_print(&line, "%s  %s/s", size_text(done, size),
                 size_text((uint64_t)rate, rate_text));
    if (total > 0 && done <= total && rate >= 1)
        buffer_print(&line, "  %" PRIu64 "s left",
                     (uint64_t)((double)(total - done) / rate + 0.5));
    draw_gauge(gauge, buffer_view(&line));
    return true;
}

bool gauge_watch(void *gauge, const struct hf_progress *progress)
{
    return gauge_step(gauge, progress->done_bytes, progress->total_bytes);
}

void gauge_say(struct gauge *gauge, const char *format, ...)
{
    char words[4 * LINE_MAX_];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    if (gauge->visible)
        draw_gauge(gauge, view_of(words));
}

void gauge_clear(struct gauge *gauge)
{
    if (gauge->width > 0)
        draw_gauge(gauge, VIEW(""));
}
