/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c: continues a listing after the last name of each page, until the end or the first
 * error. */
#include "store/pages.h"

#include "base/check.h"

bool pages_next(struct pages *pages, struct store *store)
{
    struct list_call *list = &pages->list;
    if (pages->begun) {
        if (list->error.status != HF_OK || !list->more)
            return false;
        struct view last = list->entries[list->count - 1].key;
        check(last.size <= sizeof pages->last);
        memcpy(pages->last, last.data, last.size);
        list->after = (struct view){ pages->last, last.size };
        list_release(list);
    }
    pages->begun = true;
    return store_list(store, list) == HF_OK;
}

const struct list_entry *pages_next_entry(struct pages *pages, struct store *store)
{
    while (!pages->begun || pages->taken == pages->list.count) {
        pages->taken = 0;
        if (!pages_next(pages, store))
            return NULL;
    }
    return &pages->list.entries[pages->taken++];
}

enum hf_status pages_end(struct pages *pages, enum hf_status status, struct hf_error *error)
{
    if (pages->begun)
        list_release(&pages->list);
    if (status != HF_OK || pages->list.error.status == HF_OK)
        return status;
    *error = pages->list.error;
    return error->status;
}
