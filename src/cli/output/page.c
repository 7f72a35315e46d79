/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: writes the blocks of help texts and manual pages as plain text or as roff. */
#include "cli/output/page.h"

#include <ctype.h>

#define COLUMNS 79
#define INDENT  2

/* Writes the words of a paragraph, and breaks lines before the last column. The first line begins
 * at column `at`, later ones at `indent`. */
static void wrap(struct output *out, const char *text, size_t indent, size_t at)
{
    struct view rest = view_of(text);
    bool first = true;
    while (rest.size > 0) {
        struct view word = view_cut(&rest, ' ');
        if (!first && at + 1 + word.size > COLUMNS) {
            output_text(out, "\n");
            output_print(out, "%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            output_text(out, " ");
            at++;
        }
        output_bytes(out, word);
        at += word.size;
        first = false;
    }
    output_text(out, "\n");
}

/* Escapes a string so that roff shows it unchanged: no line is interpreted as a request, and no
 * dash becomes a hyphen. */
static void roff_text(struct output *out, const char *text, bool upper)
{
    if (text[0] == '.' || text[0] == '\'')
        output_text(out, "\\&");
    for (; *text; text++) {
        switch (*text) {
        case '\\': output_text(out, "\\(rs"); break;
        case '-': output_text(out, "\\-"); break;
        case '\'': output_text(out, "\\(aq"); break;
        case '`': output_text(out, "\\(ga"); break;
        case '^': output_text(out, "\\(ha"); break;
        case '~': output_text(out, "\\(ti"); break;
        default: output_print(out, "%c", upper ? toupper((unsigned char)*text) : *text); break;
        }
    }
    output_text(out, "\n");
}

static void roff_request(struct output *out, const char *request, const char *text, bool upper)
{
    output_print(out, "%s ", request);
    roff_text(out, text, upper);
}

void page_title(struct page *page, const char *name, const char *version)
{
    output_text(page->out, ".TH ");
    for (; *name; name++)
        output_print(page->out, "%c", *name == ' ' ? '-' : toupper((unsigned char)*name));
    output_print(page->out, " 1 \"\" \"holdfast %s\" \"User Commands\"\n", version);
}

void page_heading(struct page *page, const char *text)
{
    if (page->roff) {
        roff_request(page->out, ".SH", text, /* upper */ true);
    } else {
        output_text(page->out, "\n");
        output_bold(page->out, view_of(text));
        output_text(page->out, ":\n");
    }
}

void page_inline(struct page *page, const char *text)
{
    roff_text(page->out, text, /* upper */ false);
}

void page_subheading(struct page *page, const char *text)
{
    roff_request(page->out, ".SS", text, /* upper */ false);
}

void page_paragraph(struct page *page, const char *text)
{
    if (page->roff) {
        output_text(page->out, ".PP\n");
        roff_text(page->out, text, /* upper */ false);
    } else {
        output_text(page->out, "\n");
        wrap(page->out, text, 0, 0);
    }
}

void page_synopsis(struct page *page, const char *text)
{
    if (page->roff) {
        output_text(page->out, ".PP\n.RS\n.nh\n.na\n");
        roff_text(page->out, text, /* upper */ false);
        output_text(page->out, ".ad\n.hy\n.RE\n");
    } else {
        output_print(page->out, "%*s", INDENT, "");
        wrap(page->out, text, INDENT + 4, INDENT);
    }
}

void page_code(struct page *page, const char *text)
{
    if (page->roff) {
        output_text(page->out, ".PP\n.nf\n.RS\n");
        roff_text(page->out, text, /* upper */ false);
        output_text(page->out, ".RE\n.fi\n");
    } else {
        output_print(page->out, "%*s%s\n", INDENT, "", text);
    }
}

void page_row(struct page *page, const char *term, const char *text, size_t column)
{
    struct output *out = page->out;
    size_t used = INDENT + strlen(term);
    if (page->roff) {
        output_text(out, ".TP\n");
        roff_request(out, ".B", term, /* upper */ false);
        roff_text(out, text, /* upper */ false);
        return;
    }
    output_print(out, "%*s", INDENT, "");
    output_bold(out, view_of(term));
    if (used + 2 > column) {
        output_text(out, "\n");
        used = 0;
    }
    output_print(out, "%*s", (int)(column - used), "");
    wrap(out, text, column, column);
}
