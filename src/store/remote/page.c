/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: checks a page of names that a store has sent. The names must be in order, within the
 * prefix, and after the start. A store that lists in another order would hide objects between
 * pages. */
#include "store/remote/page.h"

#include <stdlib.h>

static int compare_entry_keys(const void *a, const void *b)
{
    return view_compare(((const struct list_entry *)a)->key,
                        ((const struct list_entry *)b)->key);
}

/* Objects and groups arrive as two sequences, which are merged into one. */
static void sort_page(struct remote_page *page)
{
    for (size_t i = 1; i < page->count; i++)
        if (view_compare(page->entries[i - 1].key, page->entries[i].key) > 0) {
            qsort(page->entries, page->count, sizeof *page->entries, compare_entry_keys);
            return;
        }
}

/* Each of the two sequences must be in byte order; otherwise names could be missed between two
 * pages. */
static bool is_ordered(const struct remote_page *page)
{
    struct view object = { "", 0 }, group = { "", 0 };
    for (size_t i = 0; i < page->count; i++) {
        struct view *last = page->entries[i].is_prefix ? &group : &object;
        if (view_compare(*last, page->entries[i].key) > 0)
            return false;
        *last = page->entries[i].key;
    }
    return true;
}

enum hf_status remote_page_add(struct list_call *call, struct remote_page *page,
                               struct view own, struct view after, bool may_repeat,
                               bool *ret_cut)
{
    *ret_cut = false;
    if (!is_ordered(page))
        return error_set(&call->error, HF_CORRUPT, "the store does not list in byte order");
    sort_page(page);
    for (size_t i = 0; i < page->count && !*ret_cut; i++) {
        struct list_entry entry = page->entries[i];
        struct view name = view_from(entry.key, own.size);
        if (!view_starts_with(entry.key, own) || !view_starts_with(name, call->prefix))
            return error_set(&call->error, HF_CORRUPT,
                             "the store listed a key outside of the requested prefix");
        bool behind = name.size > 0 && view_compare(name, after) > 0;
        /* The folder marker of our own prefix may recur, and so may the group that `after` is
         * in. */
        bool may_recur =
            may_repeat || name.size == 0 || (entry.is_prefix && view_starts_with(after, name));
        if (!behind && !may_recur)
            return error_set(&call->error, HF_CORRUPT,
                             "the store listed a key before the requested start");
        if (!behind)
            continue;
        if (call->count > 0 && view_equal(name, call->entries[call->count - 1].key))
            return error_set(&call->error, HF_CORRUPT, "the store listed a key twice");
        *ret_cut = call->count == call->max;
        entry.key = name;
        if (!*ret_cut)
            call->entries[call->count++] = entry;
    }
    return error_clear(&call->error);
}
