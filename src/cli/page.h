/* page.h: what help and the manual page are written with: the same few kinds of blocks, as
 * plain text of at most 79 columns or as roff. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include "cli/output.h"

struct page {
    struct output *out;
    bool roff;
};

/* "HOLDFAST-STORE-GET(1)": only a manual page has one. */
void page_title(struct page *page, const char *name, const char *version);

void page_heading(struct page *page, const char *text);

/* The rest of a line that was begun. */
void page_inline(struct page *page, const char *text);

/* A heading inside a section. */
void page_subheading(struct page *page, const char *text);

void page_paragraph(struct page *page, const char *text);

/* How a command is written; may take several lines. */
void page_synopsis(struct page *page, const char *text);

/* A line as it is typed. */
void page_code(struct page *page, const char *text);

/* A term and its explanation, side by side when the term is short. `column` is where the
 * explanations of this list begin. */
void page_row(struct page *page, const char *term, const char *text, size_t column);

#endif
