/* SPDX-License-Identifier: Apache-2.0 */
/* grid.c: aligns records in columns, and writes lists of them to stdout. */
#include "cli/output/grid.h"

#include "cli/interrupt.h"

#include <stdlib.h>

bool grid_init(struct grid *grid, const char *titles)
{
    struct view rest = view_of(titles);
    *grid = (struct grid){ .arena = ARENA_INIT };
    while (rest.size > 0)
        grid->titles[grid->columns++] = view_cut(&rest, '\t');
    grid->cells = calloc(GRID_ROWS_MAX * grid->columns, sizeof *grid->cells);
    grid_clear(grid);
    return grid->cells != NULL;
}

void grid_release(struct grid *grid)
{
    arena_release(&grid->arena);
    free(grid->cells);
}

void grid_clear(struct grid *grid)
{
    arena_release(&grid->arena);
    grid->arena = ARENA_INIT;
    grid->count = 0;
    grid->failed = false;
    for (size_t i = 0; i < grid->columns; i++)
        grid->widths[i] = text_width(grid->titles[i]);
}

void grid_add(struct grid *grid, const struct field *record, const void *value, const char *row)
{
    struct buffer line = BUFFER_INIT(GRID_COLUMNS_MAX * 8 * KEY_BYTES_MAX);
    record_append(&line, /* raw */ false, record, value, row);
    struct view rest = arena_copy(&grid->arena, buffer_view(&line));
    grid->failed = grid->failed || line.failed || !rest.data;
    buffer_release(&line);
    if (grid->failed)
        return;
    for (size_t i = 0; i < grid->columns; i++) {
        struct view cell = view_cut(&rest, '\t');
        size_t width = text_width(cell);
        grid->cells[grid->count * grid->columns + i] = cell;
        if (width > grid->widths[i])
            grid->widths[i] = width;
    }
    grid->count++;
}

/* The last column is not padded. */
void grid_append_row(const struct grid *grid, struct buffer *line, size_t row)
{
    const struct view *cells =
        row == GRID_TITLES ? grid->titles : &grid->cells[row * grid->columns];
    for (size_t i = 0; i < grid->columns; i++) {
        buffer_append(line, cells[i]);
        size_t wanted = i + 1 < grid->columns ? grid->widths[i] + 2 : 0;
        for (size_t used = text_width(cells[i]); used < wanted; used++)
            buffer_append_byte(line, ' ');
    }
}

enum hf_status listing_begin(struct listing *listing, struct cli *cli, const char *titles,
                             const char *row)
{
    *listing = (struct listing){ .cli = cli, .row = row };
    return grid_init(&listing->grid, titles) ? HF_OK : error_no_memory(&cli->error);
}

/* Writes all rows and clears the grid. Titles are written above the first row. */
static enum hf_status write_grid(struct listing *listing)
{
    struct cli *cli = listing->cli;
    struct grid *grid = &listing->grid;
    struct buffer line = BUFFER_INIT(GRID_COLUMNS_MAX * 8 * KEY_BYTES_MAX);
    bool failed = grid->failed;
    if (!listing->titled && !cli->quiet) {
        grid_append_row(grid, &line, GRID_TITLES);
        output_bold(&cli->out, buffer_view(&line));
        output_text(&cli->out, "\n");
    }
    listing->titled = true;
    for (size_t i = 0; i < grid->count; i++) {
        if (failed)
            break;
        buffer_clear(&line);
        grid_append_row(grid, &line, i);
        buffer_append_byte(&line, '\n');
        output_bytes(&cli->out, buffer_view(&line));
        failed = line.failed;
    }
    buffer_release(&line);
    grid_clear(grid);
    return failed ? error_no_memory(&cli->error) : output_flush(&cli->out, &cli->error);
}

bool listing_add_record(struct listing *listing, const struct field *record, const void *value)
{
    if (listing->cli->json) {
        output_json(&listing->cli->out, record_json(record, value));
        return true;
    }
    grid_add(&listing->grid, record, value, listing->row);
    if (listing->grid.count == GRID_ROWS_MAX || listing->grid.failed)
        listing->status = write_grid(listing);
    return listing->status == HF_OK;
}

void listing_damaged(void *argument, const char *what, const struct hf_error *why)
{
    struct listing *listing = argument;
    cli_report(listing->cli, view_of(what), why);
    listing->cli->reported = true;
    if (listing->damage.status == HF_OK)
        listing->damage = *why;
}

enum hf_status listing_end(struct listing *listing, enum hf_status status,
                           struct hf_error *error)
{
    struct cli *cli = listing->cli;
    if (status == HF_CANCELLED)
        interrupt_check(error);
    if (status != HF_OK)
        cli->error = *error;
    else if (listing->status == HF_OK && listing->grid.count > 0)
        status = write_grid(listing);
    else
        status = listing->status; /* its error is already in cli->error */
    grid_release(&listing->grid);
    if (status == HF_OK && listing->damage.status != HF_OK) {
        cli->error = listing->damage;
        return cli->error.status;
    }
    if (status != HF_OK)
        cli->reported = false;
    return status;
}
