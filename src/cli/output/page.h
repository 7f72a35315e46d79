/* SPDX-License-Identifier: Apache-2.0 */
/* page.h: the building blocks of help texts and manual pages, written as plain text of at most 79
 * columns or as roff. */
#ifndef CLI_OUTPUT_PAGE_H
#define CLI_OUTPUT_PAGE_H

#include "cli/output/output.h"

struct page {
    struct output *out;
    bool roff;
};

/* Only manual pages have a title, such as "HOLDFAST-STORE-GET(1)", ... */
void page_title(struct page *page, const char *name, const char *version);

void page_heading(struct page *page, const char *text);

/* ... a text that ends the current line, ... */
void page_inline(struct page *page, const char *text);

/* ... and headings inside a section. */
void page_subheading(struct page *page, const char *text);

void page_paragraph(struct page *page, const char *text);

/* Writes the syntax of a command, which may take several lines. */
void page_synopsis(struct page *page, const char *text);

/* Writes a line exactly as the user types it. */
void page_code(struct page *page, const char *text);

/* Writes a term and its explanation, on one line if the term is short. All explanations in the list
 * begin at `column`. */
void page_row(struct page *page, const char *term, const char *text, size_t column);

#endif
