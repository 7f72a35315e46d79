/* SPDX-License-Identifier: Apache-2.0 */
/* svg.c: writes pictures. It guards against names that contain markup, or characters that XML does
 * not allow: they are shown as text, and the picture stays well-formed. */
#include "cli/output/svg.h"

#include "base/parse.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>

#define SVG_BYTES_MAX (64 * 1024 * 1024)
#define TICKS_MIN     4

static const char style[] =
    "<style>\n"
    "text{font:12px system-ui,sans-serif;fill:#222}\n"
    ".title{font-weight:600;font-size:15px}.name{text-anchor:end}.tick{text-anchor:middle}\n"
    ".note,.tick{fill:#666}.lane{fill:#f2f2f2}.rule{stroke:#ccc}.back{fill:#fff}\n"
    ".held{fill:#1a7f37}.release{fill:#0969da}.expiry{fill:#bf8700}.break,.bad{fill:#cf222e}\n"
    ".unknown{fill:#8c959f}.held,.release,.expiry,.break,.unknown{stroke:#fff;stroke-width:.5}."
    "full{fill:#0969da}.chunk{fill:#0969da;fill-opacity:.6}\n"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.note,.tick{fill:#999}.lane{fill:#222}\n"
    ".rule{stroke:#444}.back{fill:#111}.held{fill:#3fb950}.release,.full,.chunk{fill:#58a6ff}\n"
    ".expiry{fill:#d29922}.break,.bad{fill:#f85149}.unknown{fill:#6e7681}}\n"
    "</style>\n";

/* Bytes that are not UTF-8, and characters that XML forbids, become U+FFFD. */
static void put_escaped(struct buffer *to, const char *text)
{
    struct view rest = view_of(text);
    while (rest.size > 0) {
        size_t size = utf8_size(rest);
        char c = rest.data[0];
        bool allowed = size > 0 && ((unsigned char)c >= 0x20 || c == '\t') &&
                       !view_starts_with(rest, VIEW("\xef\xbf\xbe")) &&
                       !view_starts_with(rest, VIEW("\xef\xbf\xbf"));
        if (c == '<')
            buffer_append(to, VIEW("&lt;"));
        else if (c == '>')
            buffer_append(to, VIEW("&gt;"));
        else if (c == '&')
            buffer_append(to, VIEW("&amp;"));
        else if (c == '"')
            buffer_append(to, VIEW("&quot;"));
        else if (allowed)
            buffer_append(to, view_first(rest, size));
        else
            buffer_append(to, VIEW("\xef\xbf\xbd"));
        rest = view_from(rest, size > 0 ? size : 1);
    }
}

void svg_begin(struct svg *svg, int width, int height, const char *title)
{
    svg->text = BUFFER_INIT(SVG_BYTES_MAX);
    buffer_print(&svg->text,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                 "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
                 width, height, width, height);
    put_escaped(&svg->text, title);
    buffer_append(&svg->text, VIEW("</title>\n"));
    buffer_append(&svg->text, view_of(style));
    svg_rect(svg, "back", 0, 0, width, height, NULL);
}

void svg_end(struct svg *svg)
{
    buffer_append(&svg->text, VIEW("</svg>\n"));
}

void output_svg(struct output *out, struct svg *svg)
{
    if (!svg->text.failed)
        output_bytes(out, buffer_view(&svg->text));
    else if (out->failed_errno == 0)
        out->failed_errno = ENOMEM;
    buffer_release(&svg->text);
}

void svg_rect(struct svg *svg, const char *class, double x, double y, double width,
              double height, const char *tooltip)
{
    buffer_print(&svg->text,
                 "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"",
                 class, x, y, width, height);
    if (!tooltip) {
        buffer_append(&svg->text, VIEW("/>\n"));
        return;
    }
    buffer_append(&svg->text, VIEW("><title>"));
    put_escaped(&svg->text, tooltip);
    buffer_append(&svg->text, VIEW("</title></rect>\n"));
}

void svg_text(struct svg *svg, const char *class, double x, double y, const char *text)
{
    buffer_print(&svg->text, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    put_escaped(&svg->text, text);
    buffer_append(&svg->text, VIEW("</text>\n"));
}

void svg_rule(struct svg *svg, double x, double y0, double y1)
{
    buffer_print(&svg->text,
                 "<line class=\"rule\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x,
                 y0, x, y1);
}

/* ---- Axes ---------------------------------------------------------------------------- */

double svg_axis_at(const struct svg_axis *axis, int64_t at_ms)
{
    double all = (double)(axis->last_ms - axis->first_ms);
    double part = all > 0 ? (double)(at_ms - axis->first_ms) / all : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    return axis->x0 + part * (axis->x1 - axis->x0);
}

/* The largest round step that gives enough ticks. */
static int64_t tick_step_ms(int64_t all_ms)
{
    static const int64_t steps[] = { 1,         2,          5,          10,         20,
                                     50,        100,        200,        500,        1000,
                                     2000,      5000,       10000,      30000,      60000,
                                     120000,    300000,     600000,     1800000,    3600000,
                                     7200000,   21600000,   43200000,   86400000,   172800000,
                                     604800000, 2592000000, 7776000000, 31536000000 };
    size_t i = 0, count = sizeof steps / sizeof steps[0];
    while (i + 1 < count && all_ms / steps[i + 1] >= TICKS_MIN)
        i++;
    int64_t step = steps[i];
    while (all_ms / step > 4 * TICKS_MIN) /* centuries */
        step *= 2;
    return step;
}

void svg_axis_draw(struct svg *svg, const struct svg_axis *axis, double top, double bottom)
{
    int64_t step = tick_step_ms(axis->last_ms - axis->first_ms);
    int64_t at = axis->first_ms / step * step;
    for (; at <= axis->last_ms; at += step) {
        char text[TIME_TEXT_MAX], shown_text[TIME_TEXT_MAX];
        if (at < axis->first_ms)
            continue;
        double x = svg_axis_at(axis, at);
        svg_rule(svg, x, top, bottom);
        /* 2026-11-18T05:06:26.746Z: the date for days, the time for what is shorter. */
        struct view shown = view_of(time_text((struct wall_time){ at * 1000 }, text));
        if (step >= 86400000)
            shown = view_first(shown, 10);
        else if (axis->last_ms - axis->first_ms > 86400000)
            shown = view_first(view_from(shown, 5), 11); /* 11-18T05:06 */
        else if (shown.size > 12)
            shown = view_first(view_from(shown, 11), step >= 60000 ? 5 : step >= 1000 ? 8 : 12);
        snprintf(shown_text, sizeof shown_text, "%.*s", VIEW_ARGS(shown));
        svg_text(svg, "tick", x, bottom + 14, shown_text);
    }
}
