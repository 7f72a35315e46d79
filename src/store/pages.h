/* pages.h: a listing to its end, page by page:
 *
 *     struct pages pages = { .list = { .prefix = VIEW("a/") } };
 *     while (status == HF_OK && pages_next(&pages, store))
 *         status = look_at(pages.list.entries, pages.list.count, error);
 *     return pages_end(&pages, status, error);
 *
 * Each page goes on behind the last name of the one before: what is written meanwhile is shown or
 * not, and nothing is shown twice. */
#ifndef STORE_PAGES_H
#define STORE_PAGES_H

#include "store/store.h"

struct pages {
    struct list_call list; /* what is asked; then the page, until the next call */
    char last[KEY_BYTES_MAX];
    bool begun;
};

/* False behind the last page, and when the store fails. */
bool pages_next(struct pages *pages, struct store *store);

/* Ends it, at whatever page. `status` is what came of looking at them; returned where it is not OK,
 * with `error` as it is, else whether the store failed. */
enum hf_status pages_end(struct pages *pages, enum hf_status status, struct hf_error *error);

#endif
