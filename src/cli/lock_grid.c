/* lock_grid.c: leases in columns. */
#include "base/parse.h"
#include "cli/lock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Columns ------------------------------------------------------------------------- */

/* Columns of a terminal, near enough: one a character. */
static size_t width_of(struct view text)
{
    size_t width = 0;
    for (size_t i = 0; i < text.size; i++)
        width += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return width;
}

bool grid_init(struct grid *grid, const char *const *titles, size_t columns)
{
    *grid = (struct grid){ .columns = columns, .titles = titles, .arena = ARENA_INIT };
    grid->cells = calloc(GRID_ROWS_MAX * columns, sizeof *grid->cells);
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
    grid->count = grid->filled = 0;
    grid->failed = false;
    for (size_t i = 0; i < grid->columns; i++)
        grid->widths[i] = strlen(grid->titles[i]);
}

void grid_cell(struct grid *grid, struct view text)
{
    struct buffer escaped = BUFFER_INIT(8 * KEY_BYTES_MAX);
    escape_append(&escaped, text);
    struct view cell = arena_copy(&grid->arena, buffer_view(&escaped));
    grid->failed = grid->failed || escaped.failed || !cell.data;
    buffer_release(&escaped);
    if (grid->failed)
        return;
    size_t column = grid->filled, width = width_of(cell);
    grid->cells[grid->count * grid->columns + column] = cell;
    if (width > grid->widths[column])
        grid->widths[column] = width;
    grid->filled = (column + 1) % grid->columns;
    grid->count += grid->filled == 0;
}

void grid_print(struct grid *grid, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    grid_cell(grid, view_of(text));
}

/* The last column is not filled up. */
static void append_cell(const struct grid *grid, struct buffer *line, size_t column,
                        struct view text)
{
    buffer_append(line, text);
    if (column + 1 == grid->columns)
        return;
    for (size_t i = width_of(text); i < grid->widths[column] + 2; i++)
        buffer_append_byte(line, ' ');
}

void grid_append_row(const struct grid *grid, struct buffer *line, size_t row)
{
    for (size_t i = 0; i < grid->columns; i++)
        append_cell(grid, line, i, grid->cells[row * grid->columns + i]);
}

void grid_append_titles(const struct grid *grid, struct buffer *line)
{
    for (size_t i = 0; i < grid->columns; i++)
        append_cell(grid, line, i, view_of(grid->titles[i]));
}

bool grid_write(struct grid *grid, struct output *out, bool titles)
{
    struct buffer line = BUFFER_INIT(GRID_COLUMNS_MAX * 8 * KEY_BYTES_MAX);
    bool failed = grid->failed;
    if (titles && grid->count > 0) {
        grid_append_titles(grid, &line);
        output_bold(out, buffer_view(&line));
        output_text(out, "\n");
    }
    for (size_t i = 0; i < grid->count && !failed; i++) {
        buffer_clear(&line);
        grid_append_row(grid, &line, i);
        output_print(out, "%.*s\n", VIEW_ARGS(buffer_view(&line)));
        failed = line.failed;
    }
    buffer_release(&line);
    grid_clear(grid);
    return !failed;
}

/* ---- Leases -------------------------------------------------------------------------- */

size_t lease_columns(bool all, const char *const **ret_titles)
{
    static const char *const titles[] = { "STATE", "SCOPE", "MODE",    "HOLDER",
                                          "TOKEN", "HELD",  "EXPIRES", "WAITERS" };
    *ret_titles = all ? titles : titles + 1;
    return all ? 8 : 7;
}

static void add_mode(struct grid *grid, const struct hf_lease_info *lease)
{
    if (lease->mode == HF_SLOTS)
        grid_print(grid, "slots=%" PRIu64, lease->slots);
    else
        grid_print(grid, "%s", hf_mode_name(lease->mode));
}

static void add_times(struct grid *grid, const struct hf_lease_info *lease)
{
    char text[AGO_TEXT_MAX];
    grid_print(grid, "%s", brief_text(SPAN_MS(lease->held_ms), text));
    if (!lease_is_active(lease))
        grid_print(grid, "-");
    else if (lease->remaining_ms > 0)
        grid_print(grid, "in %s", brief_text(SPAN_MS(lease->remaining_ms), text));
    else
        grid_print(grid, "%s (%s)", hf_lease_state_name(lease->state),
                   ago_text(SPAN_MS(-lease->remaining_ms), text));
}

void grid_add_lease(struct grid *grid, bool all, const struct hf_lease_info *lease)
{
    struct buffer scopes = BUFFER_INIT(4 * KEY_BYTES_MAX);
    append_scopes(&scopes, lease);
    if (all && lease->place > 0)
        grid_print(grid, "waiting %zu", lease->place);
    else if (all)
        grid_print(grid, "%s", hf_lease_state_name(lease->state));
    grid_cell(grid, buffer_view(&scopes));
    add_mode(grid, lease);
    if (lease_is_active(lease) && lease->barrier) {
        buffer_clear(&scopes);
        append_barrier(&scopes, lease);
        grid_cell(grid, buffer_view(&scopes));
    } else {
        grid_cell(grid, view_of(lease->holder));
    }
    if (lease->place > 0) {
        for (int i = 0; i < 4; i++)
            grid_cell(grid, VIEW("-"));
    } else {
        grid_print(grid, "%" PRIu64, lease->token);
        add_times(grid, lease);
        if (lease_is_active(lease))
            grid_print(grid, "%zu", lease->waiters);
        else
            grid_cell(grid, VIEW("-"));
    }
    grid->failed = grid->failed || scopes.failed;
    buffer_release(&scopes);
}
