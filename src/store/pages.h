/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h: reads a listing to its end, page by page:
 *
 *     struct pages pages = { .list = { .prefix = VIEW("a/") } };
 *     while (status == HF_OK && pages_next(&pages, store))
 *         status = check_page(pages.list.entries, pages.list.count, error);
 *     return pages_end(&pages, status, error);
 *
 * or entry by entry:
 *
 *     while (status == HF_OK && (entry = pages_next_entry(&pages, store)))
 *         status = check_entry(entry, error);
 *
 * Each page starts after the last name of the previous page. An object that is written during the
 * listing may or may not appear, and no name appears twice. */
#ifndef STORE_PAGES_H
#define STORE_PAGES_H

#include "store/store.h"

struct pages {
    struct list_call list; /* the request; then the page, until the next call */
    char last[KEY_BYTES_MAX];
    size_t taken; /* entries of the page that pages_next_entry has returned */
    bool begun;
};

/* False after the last page, and when the store fails. */
bool pages_next(struct pages *pages, struct store *store);

/* The next entry, valid until the next call; NULL after the last, and when the store fails. */
const struct list_entry *pages_next_entry(struct pages *pages, struct store *store);

/* Ends the listing; may be called at any point. `status` is the result of the caller's work on the
 * pages. If it is not OK, it is returned and `error` stays unchanged. Otherwise the store's failure
 * is returned, or OK. */
enum hf_status pages_end(struct pages *pages, enum hf_status status, struct hf_error *error);

#endif
