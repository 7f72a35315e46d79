/* SPDX-License-Identifier: Apache-2.0 */
/* page.h: what the screen shows: lines of text with a style, made from a snapshot. Knows no
 * terminal, so that tests read the same lines as a person. */
#ifndef TOP_PAGE_H
#define TOP_PAGE_H

#include "base/buffer.h"
#include "base/error.h"
#include "top/snapshot.h"

#define FILTER_MAX      64
#define PAGE_LINES_MAX  512
#define HISTORY_SECONDS 60

enum pane { PANE_LOCKS, PANE_WORKERS, PANE_WORK, PANE_STORE, PANE_COUNT };

/* By what rows are sorted. Some orders make no sense in some panes; there, the name counts. */
enum order { ORDER_NAME, ORDER_HOLDER, ORDER_HELD, ORDER_LEFT, ORDER_WAITERS, ORDER_COUNT };

enum style {
    STYLE_PLAIN,
    STYLE_STRONG,  /* figures that matter */
    STYLE_TITLE,   /* titles of columns */
    STYLE_GOOD,    /* a lease with time left */
    STYLE_WARNING, /* less than a third of its time is left */
    STYLE_BAD,     /* its time has passed; trouble */
    STYLE_FAINT,   /* waiters, hints */
};

/* What the person at the keyboard has chosen. */
struct choice {
    enum pane pane;
    enum order order;
    bool backwards;
    bool paused, helping, typing;
    char filter[FILTER_MAX + 1];
    size_t first; /* the first row that is shown */
};

/* Grants in each of the last seconds, by which the load is drawn. */
struct history {
    uint32_t granted[HISTORY_SECONDS];
    size_t count;
    uint64_t last_granted, last_requests;
    struct mono_time last_at;
    double granted_rate, ended_rate, request_rate; /* a second */
    uint64_t last_ended;
};

/* Notes a new snapshot. */
void history_add(struct history *history, const struct snapshot *snapshot);

struct page {
    struct buffer text; /* lines, each ended by a NUL */
    size_t starts[PAGE_LINES_MAX];
    enum style styles[PAGE_LINES_MAX];
    size_t count, rows, rows_in_all; /* rows of the pane that are shown, and that there are */
};

#define PAGE_INIT ((struct page){ .text = BUFFER_INIT(4 << 20) })
void page_release(struct page *page);
const char *page_line(const struct page *page, size_t line);

/* What a page shows. `snapshot` is NULL before the first read. */
struct view_of_store {
    const char *store;
    const struct snapshot *snapshot;
    const struct history *history;
    const struct hf_error *trouble; /* of the last read */
    struct mono_time now;
};

/* Makes the page anew. It has at most `lines` lines of at most `columns` characters. Corrects
 * choice->first if there are fewer rows. Returns false if memory runs out. */
bool page_make(struct page *page, const struct view_of_store *view, struct choice *choice,
               size_t lines, size_t columns);

#endif
