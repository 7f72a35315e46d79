/* SPDX-License-Identifier: Apache-2.0 */
/* svg.h: writes a picture as SVG, element by element. Lengths are pixels.
 *
 *     svg_begin(&svg, 960, 200, "who held deploy");
 *     svg_rect(&svg, "held", 10, 20, 300, 16, "ada: token 7");
 *     svg_text(&svg, "name", 10, 32, "ada");
 *     svg_end(&svg);
 *
 * The picture is one file without outside references, in light or dark colours as the viewer
 * prefers. Texts are escaped: nothing that a client chose becomes markup. */
#ifndef CLI_OUTPUT_SVG_H
#define CLI_OUTPUT_SVG_H

#include "cli/output/output.h"

struct svg {
    struct buffer text; /* the whole picture */
};

void svg_begin(struct svg *svg, int width, int height, const char *title);
void svg_end(struct svg *svg);

/* Writes the picture, and releases it. If memory was exhausted, this counts as a failed write. */
void output_svg(struct output *out, struct svg *svg);

/* Classes: "held", "release", "expiry", "break", "unknown", "bad" (a quarantined chunk), "chunk",
 * "lane" (the background of a row), "full" (of a gauge). A tooltip may be NULL. */
void svg_rect(struct svg *svg, const char *class, double x, double y, double width,
              double height, const char *tooltip);

/* Classes: "title", "name" (ends at x), "note" (starts at x), "tick" (centred at x). */
void svg_text(struct svg *svg, const char *class, double x, double y, const char *text);

/* A thin vertical line. */
void svg_rule(struct svg *svg, double x, double y0, double y1);

/* An axis of time below y0: some ticks between the two times, with their texts in UTC, and rules up
 * to the top. Times are milliseconds since 1970. */
struct svg_axis {
    double x0, x1;             /* pixels */
    int64_t first_ms, last_ms; /* what they stand for */
};
double svg_axis_at(const struct svg_axis *axis, int64_t at_ms);
void svg_axis_draw(struct svg *svg, const struct svg_axis *axis, double top, double bottom);

#endif
