/* SPDX-License-Identifier: Apache-2.0 */
/* page.h: one page of names as a store on the network sent it. */
#ifndef STORE_REMOTE_PAGE_H
#define STORE_REMOTE_PAGE_H

#include "store/store.h"

/* Keys are complete and decoded, and are stored in the arena. Objects and groups are in the order
 * in which the store sent them. */
struct remote_page {
    struct arena *arena;
    struct list_entry *entries;
    size_t max; /* room in `entries`; a page with more is CORRUPT */
    size_t count;
    bool truncated;
    /* May be NULL: room for the store's own name of the next page, an empty string if there is
     * none. */
    char *marker;
    size_t marker_size;
};

/* Sorts the page and appends its new names to call->entries, which has room for them: those after
 * `after`, without the store's prefix `own`. CORRUPT if the store listed names out of order,
 * outside of the prefix or twice. A name before `after` is skipped if `may_repeat` is set, and
 * CORRUPT otherwise. A name that no longer fits (call->max) is left out, and so are those after it;
 * *ret_cut says that there were such names. */
enum hf_status remote_page_add(struct list_call *call, struct remote_page *page,
                               struct view own, struct view after, bool may_repeat,
                               bool *ret_cut);

#endif
