/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: serves the files of the dashboard. A browser may keep them, but asks each time whether
 * they have changed, so that a newer server is never used with an older page. */
#include "serve/page/page.h"

/* Only what this server itself sends is run, shown or contacted, and no other page may embed it. */
#define PAGE_POLICY                                                                       \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "       \
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; " \
    "require-trusted-types-for 'script'; trusted-types 'none'"

static bool browser_has(const struct exchange *exchange, const struct page_file *file)
{
    struct view known;
    return http_request_header(exchange->http, VIEW("If-None-Match"), &known) == 1 &&
           view_equal(known, view_of(file->etag));
}

void begin_page(struct exchange *exchange)
{
    const struct page_file *file = &page_files[exchange->route - page_routes];
    const struct http_header headers[] = {
        { "Cache-Control", VIEW("no-cache") },
        { "ETag", view_of(file->etag) },
        { "Content-Security-Policy", VIEW(PAGE_POLICY) },
        { "X-Content-Type-Options", VIEW("nosniff") },
        { "Referrer-Policy", VIEW("no-referrer") },
        { "Cross-Origin-Opener-Policy", VIEW("same-origin") },
        { "Cross-Origin-Resource-Policy", VIEW("same-origin") },
    };
    size_t count = sizeof headers / sizeof headers[0];
    if (browser_has(exchange, file))
        exchange_reply(exchange, 304, NULL, headers, count, VIEW(""));
    else
        exchange_reply(exchange, 200, file->type, headers, count, file->bytes);
}
