/* SPDX-License-Identifier: Apache-2.0 */
/* page.h: the dashboard, which the server serves at /. Its files are in this folder, and part of
 * the program (tools/page.py). They hold nothing that is secret, so they need no token; what they
 * show comes from API v1, which does. */
#ifndef SERVE_PAGE_PAGE_H
#define SERVE_PAGE_PAGE_H

#include "serve/api/exchange.h"

struct page_file {
    const char *type;
    const char *etag;
    struct view bytes;
};

/* In the same order as page_routes. */
extern const struct page_file page_files[];

/* Replies with the file of the exchange's route. */
void begin_page(struct exchange *exchange);

#endif
