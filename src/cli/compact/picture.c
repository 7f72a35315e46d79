/* SPDX-License-Identifier: Apache-2.0 */
/* picture.c: `compact status --svg`: the levels of a partition as a picture. Each chunk is a bar,
 * as wide as the time of its records, and as high as the logarithm of its size. */
#include "cli/compact/compact.h"
#include "cli/output/svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Pixels. */
#define WIDTH      960
#define NAMES_END  200 /* the room for the names of levels */
#define TOP        70
#define LANE       72
#define BAR_LEAST  3
#define CHUNKS_MAX 5000 /* bars; of more chunks, the largest are drawn */

struct drawn_chunk {
    unsigned level;
    uint64_t bytes, rows;
    int64_t min_ms, max_ms;
    bool bad;
};

struct chunk_picture {
    struct drawn_chunk *chunks;
    size_t count, room;
    bool no_memory;
};

static bool take_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct chunk_picture *picture = argument;
    if (picture->count == picture->room) {
        size_t room = picture->room > 0 ? 2 * picture->room : 256;
        struct drawn_chunk *chunks = realloc(picture->chunks, room * sizeof *chunks);
        picture->no_memory = !chunks;
        if (!chunks)
            return false;
        picture->chunks = chunks;
        picture->room = room;
    }
    picture->chunks[picture->count++] =
        (struct drawn_chunk){ chunk->level,  chunk->size,   chunk->rows_known ? chunk->rows : 0,
                              chunk->min_ms, chunk->max_ms, chunk->quarantine[0] != '\0' };
    return true;
}

static int compare_chunk_sizes(const void *a, const void *b)
{
    const struct drawn_chunk *one = a, *other = b;
    return (one->bytes < other->bytes) - (one->bytes > other->bytes);
}

/* From 0 for one byte to 1 for the largest chunk. */
static double height_of(uint64_t bytes, uint64_t largest)
{
    double height = 0, all = 0;
    for (uint64_t rest = bytes; rest > 1; rest /= 2)
        height++;
    for (uint64_t rest = largest; rest > 1; rest /= 2)
        all++;
    return all > 0 ? height / all : 1;
}

static void draw_chunk(struct svg *svg, const struct svg_axis *axis,
                       const struct drawn_chunk *chunk, uint64_t largest)
{
    char tip[256], size[SIZE_TEXT_MAX], from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
    double x = svg_axis_at(axis, chunk->min_ms), end = svg_axis_at(axis, chunk->max_ms);
    double height = 6 + (LANE - 16) * height_of(chunk->bytes, largest);
    double bottom = TOP + ((double)chunk->level + 1) * LANE - 6;
    snprintf(tip, sizeof tip, "level %u, %s, %" PRIu64 " row%s, %s to %s%s", chunk->level,
             size_text(chunk->bytes, size), chunk->rows, plural(chunk->rows),
             time_text((struct wall_time){ chunk->min_ms * 1000 }, from),
             time_text((struct wall_time){ chunk->max_ms * 1000 }, to),
             chunk->bad ? ", in quarantine" : "");
    svg_rect(svg, chunk->bad ? "bad" : "chunk", x, bottom - height,
             end - x > BAR_LEAST ? end - x : BAR_LEAST, height, tip);
}

static size_t level_count(const struct hf_compact_status *status)
{
    size_t count = HF_COMPACT_LEVELS_MAX;
    while (count > 1 && status->levels[count - 1].chunks == 0)
        count--;
    return count;
}

static void draw_levels(struct svg *svg, const struct hf_compact_status *status)
{
    for (size_t i = 0; i < level_count(status); i++) {
        const struct hf_compact_level *level = &status->levels[i];
        char name[64], sum[128], size[SIZE_TEXT_MAX];
        double y = TOP + (double)i * LANE;
        snprintf(name, sizeof name, "level %zu", i);
        snprintf(sum, sizeof sum, "%" PRIu64 " chunk%s, %s", level->chunks,
                 plural(level->chunks), size_text(level->bytes, size));
        svg_rect(svg, "lane", NAMES_END, y + 4, WIDTH - 20 - NAMES_END, LANE - 8, NULL);
        svg_text(svg, "name", NAMES_END - 8, y + LANE / 2.0 - 4, name);
        svg_text(svg, "name", NAMES_END - 8, y + LANE / 2.0 + 12, sum);
    }
}

/* How many chunks of level 0 there are, of those at which ingest waits. */
static void draw_backlog(struct svg *svg, const struct hf_compact_status *status)
{
    char text[256], size[SIZE_TEXT_MAX];
    double width = WIDTH - 20 - NAMES_END;
    double part = status->backlog_max > 0
                      ? (double)status->levels[0].chunks / (double)status->backlog_max
                      : 0;
    snprintf(text, sizeof text,
             "backlog: %" PRIu64 " of %" PRIu64 " chunks; due: %" PRIu64 " merge%s, %s%s",
             status->levels[0].chunks, status->backlog_max, status->due_groups,
             plural(status->due_groups), size_text(status->due_bytes, size),
             status->paused ? "; paused" : "");
    svg_rect(svg, "lane", NAMES_END, 36, width, 8, NULL);
    svg_rect(svg, "full", NAMES_END, 36, width * (part > 1 ? 1 : part), 8, NULL);
    svg_text(svg, "note", NAMES_END, 60, text);
}

static struct svg_axis chunk_axis(const struct chunk_picture *picture)
{
    struct svg_axis axis = { NAMES_END, WIDTH - 20, 0, 1000 };
    for (size_t i = 0; i < picture->count; i++) {
        const struct drawn_chunk *chunk = &picture->chunks[i];
        if (i == 0 || chunk->min_ms < axis.first_ms)
            axis.first_ms = chunk->min_ms;
        if (i == 0 || chunk->max_ms > axis.last_ms)
            axis.last_ms = chunk->max_ms;
    }
    if (axis.last_ms - axis.first_ms < 1000)
        axis.last_ms = axis.first_ms + 1000;
    return axis;
}

static void draw_partition(struct cli *cli, struct view partition,
                           const struct hf_compact_status *status,
                           const struct chunk_picture *picture)
{
    struct svg svg;
    char title[256];
    struct svg_axis axis = chunk_axis(picture);
    size_t drawn = picture->count < CHUNKS_MAX ? picture->count : CHUNKS_MAX;
    double bottom = TOP + (double)level_count(status) * LANE;
    snprintf(title, sizeof title, "partition %.*s: %zu chunk%s", VIEW_ARGS(partition),
             picture->count, plural(picture->count));
    if (drawn < picture->count)
        snprintf(title + strlen(title), sizeof title - strlen(title), ", the largest %zu shown",
                 drawn);
    svg_begin(&svg, WIDTH, (int)bottom + 30, title);
    svg_text(&svg, "title", 12, 24, title);
    draw_backlog(&svg, status);
    draw_levels(&svg, status);
    if (picture->count > 0)
        svg_axis_draw(&svg, &axis, TOP, bottom);
    for (size_t i = 0; i < drawn; i++)
        if (picture->chunks[i].level < HF_COMPACT_LEVELS_MAX)
            draw_chunk(&svg, &axis, &picture->chunks[i], picture->chunks[0].bytes);
    svg_end(&svg);
    output_svg(&cli->out, &svg);
}

enum hf_status picture_levels(struct cli *cli, struct view partition)
{
    struct hf_compact_status totals = HF_COMPACT_STATUS;
    struct chunk_picture picture = { .count = 0 };
    enum hf_status status =
        partition_end(cli, hf_compact_get_status(cli->compact, NULL, &totals, &cli->error));
    if (status == HF_OK)
        status = partition_end(cli, hf_compact_chunks(cli->compact, HF_CHUNKS_LIVE, take_chunk,
                                                      &picture, &cli->error));
    if (status == HF_OK && picture.no_memory)
        status = error_no_memory(&cli->error);
    if (status == HF_OK && picture.count > 0)
        qsort(picture.chunks, picture.count, sizeof *picture.chunks, compare_chunk_sizes);
    if (status == HF_OK)
        draw_partition(cli, partition, &totals, &picture);
    free(picture.chunks);
    return status;
}
