/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: heads, panes and the line of hints. Rows are sorted and filtered here. */
#include "top/page.h"

#include "base/escape.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR_COLUMNS        12
#define NAME_COLUMNS_LEAST 16
#define OTHER_COLUMNS      76 /* of a lock's row, without its name */
#define HEAD_LINES         4  /* above the rows, with their titles */
#define FOOT_LINES         1

/* ---- Lines --------------------------------------------------------------------------- */

void page_release(struct page *page)
{
    buffer_release(&page->text);
}

const char *page_line(const struct page *page, size_t line)
{
    return buffer_view(&page->text).data + page->starts[line];
}

/* Ends the line that begins at `start`: it is cut at the last column. */
static void end_line(struct page *page, size_t start, size_t columns, enum style style)
{
    struct view line = view_from(buffer_view(&page->text), start);
    page->text.size = start + text_first(line, columns).size;
    buffer_append_byte(&page->text, '\0');
    if (page->count == PAGE_LINES_MAX || page->text.failed)
        return;
    page->starts[page->count] = start;
    page->styles[page->count++] = style;
}

static size_t line_begins(const struct page *page)
{
    return buffer_view(&page->text).size;
}

/* Appends a cell that is `width` columns wide, and a space. A text that is too long ends in an
 * ellipsis. */
static void append_cell(struct buffer *line, const char *text, size_t width)
{
    struct view cell = view_of(text);
    size_t has = text_width(cell);
    buffer_append(line, has > width ? text_first(cell, width - 1) : cell);
    if (has > width)
        buffer_append(line, VIEW("…"));
    for (size_t i = has > width ? width : has; i <= width; i++)
        buffer_append_byte(line, ' ');
}

/* A span without parts below a second, or below a millisecond if it is shorter than that. */
static const char *short_span(int64_t ms, char text[SPAN_TEXT_MAX])
{
    int64_t unit = ms >= 1000 || ms <= -1000 ? 1000 : 1;
    return span_text(SPAN_MS(ms / unit * unit), text);
}

/* ---- History ------------------------------------------------------------------------- */

static uint64_t all_requests(const struct hf_stats *stats)
{
    return stats->gets.calls + stats->puts.calls + stats->deletes.calls + stats->lists.calls +
           stats->file_gets.calls + stats->file_puts.calls;
}

void history_add(struct history *history, const struct snapshot *snapshot)
{
    struct span passed = mono_since(snapshot->at, history->last_at);
    uint64_t granted = snapshot->granted - history->last_granted;
    uint64_t requests = all_requests(&snapshot->requests);
    if (history->last_at.us > 0 && passed.us > 0) {
        double seconds = (double)passed.us / 1e6;
        history->granted_rate = (double)granted / seconds;
        history->ended_rate = (double)(snapshot->ended - history->last_ended) / seconds;
        history->request_rate = (double)(requests - history->last_requests) / seconds;
        history->granted[history->count++ % HISTORY_SECONDS] = (uint32_t)granted;
    }
    history->last_at = snapshot->at;
    history->last_granted = snapshot->granted;
    history->last_ended = snapshot->ended;
    history->last_requests = requests;
}

/* The last reads as little bars, the newest on the right. */
static void append_history(struct buffer *line, const struct history *history, size_t width)
{
    static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    size_t kept = history->count < HISTORY_SECONDS ? history->count : HISTORY_SECONDS;
    size_t shown = kept < width ? kept : width;
    uint32_t most = 1;
    for (size_t i = history->count - shown; i < history->count; i++)
        if (history->granted[i % HISTORY_SECONDS] > most)
            most = history->granted[i % HISTORY_SECONDS];
    for (size_t i = history->count - shown; i < history->count; i++) {
        uint64_t height = (uint64_t)history->granted[i % HISTORY_SECONDS] * 7 / most;
        buffer_append(line, view_of(bars[height]));
    }
}

/* ---- The head ------------------------------------------------------------------------ */

static void add_head(struct page *page, const struct view_of_store *view, size_t columns)
{
    const struct snapshot *snapshot = view->snapshot;
    struct buffer *line = &page->text;
    char span[SPAN_TEXT_MAX];
    size_t start = line_begins(page);
    buffer_append(line, VIEW("holdfast top  "));
    escape_append(line, view_of(view->store));
    end_line(page, start, columns, STYLE_STRONG);
    start = line_begins(page);
    if (!snapshot && view->trouble->status == HF_OK) {
        buffer_append(line, VIEW("reading the store"));
    } else if (snapshot) {
        buffer_print(line, "%zu held, %zu waiting", snapshot->held, snapshot->waiting);
        if (snapshot->damaged > 0)
            buffer_print(line, ", %zu damaged", snapshot->damaged);
        buffer_print(line, "   %.1f granted/s, %.1f ended/s   read %s ago  ",
                     view->history->granted_rate, view->history->ended_rate,
                     short_span(mono_since(view->now, snapshot->at).us / 1000, span));
        append_history(line, view->history, HISTORY_SECONDS);
    }
    end_line(page, start, columns, STYLE_PLAIN);
    start = line_begins(page);
    if (view->trouble->status != HF_OK) {
        buffer_print(line, "%s: ", hf_status_name(view->trouble->status));
        escape_append(line, view_of(view->trouble->why));
    } else if (snapshot && snapshot->locks_beyond > 0) {
        buffer_print(line, "%zu further leases and waiters are not shown",
                     snapshot->locks_beyond);
    }
    end_line(page, start, columns, view->trouble->status != HF_OK ? STYLE_BAD : STYLE_WARNING);
}

/* ---- Locks --------------------------------------------------------------------------- */

static bool contains(const char *text, const char *part)
{
    return part[0] == '\0' || strcasestr(text, part) != NULL;
}

static int compare_numbers(int64_t one, int64_t other)
{
    return (one > other) - (one < other);
}

/* qsort has no argument of ours, and only one thread draws. */
static enum order sort_order;
static bool sort_backwards;

static int compare_locks_by_order(const struct top_lock *one, const struct top_lock *other)
{
    switch (sort_order) {
    case ORDER_HOLDER: return strcmp(one->holder, other->holder);
    case ORDER_HELD: return compare_numbers(other->held_ms, one->held_ms);
    case ORDER_WAITERS: return compare_numbers((int64_t)other->waiters, (int64_t)one->waiters);
    case ORDER_LEFT:
        if ((one->place > 0) != (other->place > 0))
            return one->place > 0 ? 1 : -1;
        return compare_numbers(one->remaining_ms, other->remaining_ms);
    case ORDER_NAME:
    case ORDER_COUNT: break;
    }
    return strcmp(one->scope, other->scope);
}

/* Rows that are equal in this order are told apart, so that they do not jump. */
static int compare_locks(const void *first, const void *second)
{
    const struct top_lock *one = *(const struct top_lock *const *)first;
    const struct top_lock *other = *(const struct top_lock *const *)second;
    int found = compare_locks_by_order(one, other) * (sort_backwards ? -1 : 1);
    if (found == 0)
        found = strcmp(one->scope, other->scope);
    if (found == 0)
        found = compare_numbers((int64_t)one->place, (int64_t)other->place);
    return found != 0 ? found : compare_numbers((int64_t)one->token, (int64_t)other->token);
}

/* Time that is left, as a bar that drains, and in words. */
static enum style append_left(struct buffer *line, const struct top_lock *lock, int64_t age_ms)
{
    char span[SPAN_TEXT_MAX];
    int64_t left = lock->remaining_ms - age_ms;
    if (left <= 0) {
        buffer_print(line, "%s for %s",
                     hf_lease_state_name(lock->state == HF_LEASE_ACTIVE ? HF_LEASE_OVERDUE
                                                                        : lock->state),
                     short_span(-left, span));
        return STYLE_BAD;
    }
    int64_t ttl = lock->ttl_ms > left ? lock->ttl_ms : left;
    int64_t full = (left * BAR_COLUMNS + ttl - 1) / ttl;
    for (int64_t i = 0; i < BAR_COLUMNS; i++)
        buffer_append(line, i < full ? VIEW("█") : VIEW("░"));
    buffer_print(line, " %s", short_span(left, span));
    return left * 3 < ttl ? STYLE_WARNING : STYLE_GOOD;
}

/* As wide as the longest name, as far as the other columns leave room. */
static size_t name_columns(const struct top_lock *const *locks, size_t count, size_t columns)
{
    size_t room = columns > OTHER_COLUMNS + NAME_COLUMNS_LEAST ? columns - OTHER_COLUMNS
                                                               : NAME_COLUMNS_LEAST;
    size_t widest = NAME_COLUMNS_LEAST;
    for (size_t i = 0; i < count; i++) {
        size_t width = text_width(view_of(locks[i]->scope));
        if (width > widest)
            widest = width;
    }
    return widest < room ? widest : room;
}

static void add_lock(struct page *page, const struct top_lock *lock, int64_t age_ms,
                     size_t name, size_t columns)
{
    struct buffer *line = &page->text;
    char span[SPAN_TEXT_MAX], number[48];
    size_t start = line_begins(page);
    append_cell(line, lock->scope, name);
    append_cell(line, lock->holder, 20);
    if (lock->place > 0) {
        buffer_print(line, "waiting, place %zu", lock->place);
        end_line(page, start, columns, STYLE_FAINT);
        return;
    }
    snprintf(number, sizeof number, "%" PRIu64, lock->token);
    append_cell(line, lock->barrier ? "-" : number, 8);
    append_cell(line, short_span(lock->held_ms + age_ms, span), 10);
    snprintf(number, sizeof number, "%zu", lock->waiters);
    append_cell(line, number, 7);
    enum style style = append_left(line, lock, age_ms);
    end_line(page, start, columns, lock->barrier ? STYLE_WARNING : style);
}

static void add_lock_titles(struct page *page, size_t name, size_t columns)
{
    size_t start = line_begins(page);
    append_cell(&page->text, "LOCK", name);
    buffer_append(&page->text, VIEW("HOLDER               TOKEN    HELD       WAITERS LEFT"));
    end_line(page, start, columns, STYLE_TITLE);
}

/* The rows that pass the filter, sorted. NULL if memory runs out. */
static const struct top_lock **chosen_locks(const struct snapshot *snapshot,
                                            const struct choice *choice, size_t *ret_count)
{
    const struct top_lock **chosen = calloc(snapshot->lock_count + 1, sizeof *chosen);
    *ret_count = 0;
    for (size_t i = 0; chosen && i < snapshot->lock_count; i++) {
        const struct top_lock *lock = &snapshot->locks[i];
        if (contains(lock->scope, choice->filter) || contains(lock->holder, choice->filter))
            chosen[(*ret_count)++] = lock;
    }
    sort_order = choice->order;
    sort_backwards = choice->backwards;
    if (chosen)
        qsort(chosen, *ret_count, sizeof *chosen, compare_locks);
    return chosen;
}

/* Which rows fit: from choice->first, which is made to fit itself. */
static size_t fit_rows(struct page *page, struct choice *choice, size_t count, size_t room)
{
    if (choice->first + room > count)
        choice->first = count > room ? count - room : 0;
    page->rows_in_all = count;
    page->rows = count - choice->first < room ? count - choice->first : room;
    return choice->first;
}

static bool add_locks(struct page *page, const struct view_of_store *view,
                      struct choice *choice, size_t room, size_t columns)
{
    size_t count;
    const struct top_lock **chosen = chosen_locks(view->snapshot, choice, &count);
    if (!chosen)
        return false;
    int64_t age_ms = mono_since(view->now, view->snapshot->at).us / 1000;
    size_t first = fit_rows(page, choice, count, room);
    size_t name = name_columns(chosen + first, page->rows, columns);
    add_lock_titles(page, name, columns);
    for (size_t i = first; i < first + page->rows; i++)
        add_lock(page, chosen[i], age_ms, name, columns);
    free(chosen);
    return true;
}

/* ---- Workers ------------------------------------------------------------------------- */

static int compare_workers(const void *first, const void *second)
{
    const struct top_worker *one = *(const struct top_worker *const *)first;
    const struct top_worker *other = *(const struct top_worker *const *)second;
    int found = 0;
    if (sort_order == ORDER_HELD)
        found = compare_numbers(other->held_ms, one->held_ms);
    if (sort_order == ORDER_LEFT)
        found = compare_numbers(one->remaining_ms, other->remaining_ms);
    if (sort_order == ORDER_WAITERS)
        found = compare_numbers((int64_t)other->waiting, (int64_t)one->waiting);
    if (found == 0)
        found = strcmp(one->holder, other->holder);
    return sort_backwards ? -found : found;
}

static void add_worker(struct page *page, const struct top_worker *worker, int64_t age_ms,
                       size_t columns)
{
    struct buffer *line = &page->text;
    char number[24], span[SPAN_TEXT_MAX];
    size_t start = line_begins(page);
    append_cell(line, worker->holder, 32);
    snprintf(number, sizeof number, "%zu", worker->held);
    append_cell(line, number, 8);
    snprintf(number, sizeof number, "%zu", worker->waiting);
    append_cell(line, number, 8);
    if (worker->held > 0) {
        append_cell(line, short_span(worker->held_ms + age_ms, span), 14);
        append_cell(line, short_span(worker->remaining_ms - age_ms, span), 14);
    }
    bool late = worker->held > 0 && worker->remaining_ms < age_ms;
    end_line(page, start, columns,
             worker->held == 0 ? STYLE_FAINT
             : late            ? STYLE_BAD
                               : STYLE_PLAIN);
}

static bool add_workers(struct page *page, const struct view_of_store *view,
                        struct choice *choice, size_t room, size_t columns)
{
    const struct snapshot *snapshot = view->snapshot;
    const struct top_worker **chosen = calloc(snapshot->worker_count + 1, sizeof *chosen);
    size_t count = 0, start = line_begins(page);
    if (!chosen)
        return false;
    for (size_t i = 0; i < snapshot->worker_count; i++)
        if (contains(snapshot->workers[i].holder, choice->filter))
            chosen[count++] = &snapshot->workers[i];
    sort_order = choice->order;
    sort_backwards = choice->backwards;
    qsort(chosen, count, sizeof *chosen, compare_workers);
    buffer_append(&page->text, VIEW("HOLDER                           LOCKS    WAITS    "
                                    "LONGEST HELD   LEAST LEFT"));
    end_line(page, start, columns, STYLE_TITLE);
    int64_t age_ms = mono_since(view->now, snapshot->at).us / 1000;
    size_t first = fit_rows(page, choice, count, room);
    for (size_t i = first; i < first + page->rows; i++)
        add_worker(page, chosen[i], age_ms, columns);
    free(chosen);
    return true;
}

/* ---- Merges and indexes -------------------------------------------------------------- */

static void add_partition(struct page *page, const struct top_partition *partition,
                          size_t columns)
{
    const struct hf_compact_status *status = &partition->status;
    struct buffer *line = &page->text;
    char bytes[SIZE_TEXT_MAX];
    size_t start = line_begins(page);
    append_cell(line, "partition", 10);
    append_cell(line, partition->name, 20);
    buffer_print(line,
                 "%" PRIu64 " chunks new, %" PRIu64 " groups due (%s), %" PRIu64
                 " merging, %" PRIu64 " merged and %" PRIu64 " failed in an hour",
                 status->levels[0].chunks, status->due_groups,
                 size_text(status->due_bytes, bytes), status->under_way, status->committed,
                 status->failed);
    if (status->quarantined > 0)
        buffer_print(line, ", %" PRIu64 " in quarantine", status->quarantined);
    if (status->paused)
        buffer_append(line, VIEW(", paused"));
    bool bad = status->damaged || status->barred || status->quarantined > 0;
    end_line(page, start, columns,
             bad              ? STYLE_BAD
             : status->paused ? STYLE_WARNING
                              : STYLE_PLAIN);
}

static void add_index(struct page *page, const struct top_index *index, size_t columns)
{
    const struct hf_index_stats *stats = &index->stats;
    struct buffer *line = &page->text;
    char bytes[SIZE_TEXT_MAX];
    size_t start = line_begins(page);
    append_cell(line, "index", 10);
    append_cell(line, index->name, 20);
    if (index->read)
        buffer_print(line,
                     "%" PRIu64 " entries wait, %" PRIu64 " shards (%s), %" PRIu64
                     " being compiled, %" PRIu64 " set aside",
                     stats->entries, stats->shards, size_text(stats->shard_bytes, bytes),
                     stats->holder_count, stats->aside);
    else
        buffer_append(line, VIEW("cannot be read"));
    end_line(page, start, columns,
             !index->read || stats->aside > 0 ? STYLE_WARNING : STYLE_PLAIN);
}

static bool add_work(struct page *page, const struct view_of_store *view, struct choice *choice,
                     size_t room, size_t columns)
{
    const struct snapshot *snapshot = view->snapshot;
    const struct top_partition *partitions[TOP_PARTITIONS_MAX];
    const struct top_index *indexes[TOP_INDEXES_MAX];
    size_t partition_count = 0, index_count = 0, start = line_begins(page);
    for (size_t i = 0; i < snapshot->partition_count; i++)
        if (snapshot->partitions[i].found &&
            contains(snapshot->partitions[i].name, choice->filter))
            partitions[partition_count++] = &snapshot->partitions[i];
    for (size_t i = 0; i < snapshot->index_count; i++)
        if (contains(snapshot->indexes[i].name, choice->filter))
            indexes[index_count++] = &snapshot->indexes[i];
    buffer_append(&page->text, VIEW("KIND       NAME                 WORK"));
    end_line(page, start, columns, STYLE_TITLE);
    size_t first = fit_rows(page, choice, partition_count + index_count, room);
    for (size_t i = first; i < first + page->rows; i++) {
        if (i < partition_count)
            add_partition(page, partitions[i], columns);
        else
            add_index(page, indexes[i - partition_count], columns);
    }
    return true;
}

/* ---- The store ----------------------------------------------------------------------- */

static bool add_store(struct page *page, const struct view_of_store *view,
                      struct choice *choice, size_t room, size_t columns)
{
    const struct hf_stats *stats = &view->snapshot->requests;
    const struct {
        const char *name;
        const struct hf_request_stats *figures;
    } rows[] = {
        { "get", &stats->gets },
        { "put", &stats->puts },
        { "delete", &stats->deletes },
        { "list", &stats->lists },
    };
    size_t start = line_begins(page);
    buffer_append(&page->text, VIEW("REQUESTS OF THIS PROGRAM  NUMBER     FAILED     BYTES"));
    end_line(page, start, columns, STYLE_TITLE);
    size_t first = fit_rows(page, choice, sizeof rows / sizeof rows[0], room);
    for (size_t i = first; i < first + page->rows; i++) {
        const struct hf_request_stats *figures = rows[i].figures;
        char number[24];
        start = line_begins(page);
        append_cell(&page->text, rows[i].name, 25);
        snprintf(number, sizeof number, "%" PRIu64, figures->calls);
        append_cell(&page->text, number, 10);
        snprintf(number, sizeof number, "%" PRIu64, figures->failed);
        append_cell(&page->text, number, 10);
        buffer_append(&page->text, view_of(size_text(figures->bytes, number)));
        end_line(page, start, columns, figures->failed > 0 ? STYLE_WARNING : STYLE_PLAIN);
    }
    return true;
}

/* ---- Hints --------------------------------------------------------------------------- */

static const char *const order_names[ORDER_COUNT] = { "name", "holder", "time held",
                                                      "time left", "waiters" };

static void add_help(struct page *page, size_t columns)
{
    static const char *const lines[] = {
        "1 locks   2 workers   3 merges and indexes   4 store   Tab: the next of them",
        "s: sort by the next column   r: the other way round",
        "/: type a part of a name or holder; Enter keeps it, Esc removes it",
        "arrows, Page Up, Page Down, Home, End: move",
        "p or space: pause; the rows stay as they are",
        "q: quit   ?: this help, on and off",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t start = line_begins(page);
        buffer_append(&page->text, view_of(lines[i]));
        end_line(page, start, columns, STYLE_PLAIN);
    }
}

static void add_nothing(struct page *page, const struct choice *choice, size_t columns)
{
    static const char *const sentences[PANE_COUNT] = {
        "nothing is locked", "nobody holds or waits for anything",
        "there is no such partition, and no index", "nothing was asked for yet"
    };
    size_t start = line_begins(page);
    buffer_append(&page->text, view_of(choice->filter[0] != '\0' ? "nothing matches the filter"
                                                                 : sentences[choice->pane]));
    end_line(page, start, columns, STYLE_FAINT);
}

static void add_foot(struct page *page, const struct choice *choice, size_t columns)
{
    struct buffer *line = &page->text;
    size_t start = line_begins(page);
    if (choice->typing) {
        buffer_append(line, VIEW("filter: "));
        escape_append(line, view_of(choice->filter));
    } else {
        buffer_append(line, VIEW("?: help  q: quit"));
        if (choice->pane == PANE_LOCKS || choice->pane == PANE_WORKERS)
            buffer_print(line, "  by %s%s", order_names[choice->order],
                         choice->backwards ? ", reversed" : "");
        if (choice->filter[0] != '\0') {
            buffer_append(line, VIEW("  filter: "));
            escape_append(line, view_of(choice->filter));
        }
        if (page->rows < page->rows_in_all)
            buffer_print(line, "  rows %zu to %zu of %zu", choice->first + 1,
                         choice->first + page->rows, page->rows_in_all);
        if (choice->paused)
            buffer_append(line, VIEW("  paused"));
    }
    end_line(page, start, columns, STYLE_FAINT);
}

typedef bool add_pane(struct page *page, const struct view_of_store *view,
                      struct choice *choice, size_t room, size_t columns);

bool page_make(struct page *page, const struct view_of_store *view, struct choice *choice,
               size_t lines, size_t columns)
{
    static add_pane *const panes[PANE_COUNT] = { add_locks, add_workers, add_work, add_store };
    size_t room = lines > HEAD_LINES + FOOT_LINES ? lines - HEAD_LINES - FOOT_LINES : 1;
    if (room > PAGE_LINES_MAX - HEAD_LINES - FOOT_LINES)
        room = PAGE_LINES_MAX - HEAD_LINES - FOOT_LINES;
    buffer_clear(&page->text);
    page->count = page->rows = page->rows_in_all = 0;
    add_head(page, view, columns);
    bool made = true;
    if (choice->helping)
        add_help(page, columns);
    else if (view->snapshot)
        made = panes[choice->pane](page, view, choice, room, columns);
    if (!choice->helping && view->snapshot && page->rows_in_all == 0)
        add_nothing(page, choice, columns);
    add_foot(page, choice, columns);
    return made && !page->text.failed;
}
