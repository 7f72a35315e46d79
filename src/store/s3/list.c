/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: reads one page of names. A page always starts after a key that we name, so no token from
 * the previous page is needed. It checks that the names that a store returns are in order, within
 * the prefix, and after the start. A store that lists in another order would hide objects between
 * pages. */
#include "store/s3/inside.h"
#include "store/s3/xml.h"
#include "store/toolkit.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_BYTES_MAX (8 * MIB)

/* How many requests one call may make: the store may return fewer names than requested. */
#define PAGES_MAX 64

/* Appended to a group such as "a/", the highest code point skips all keys that start with "a/". */
#define HIGHEST VIEW("\xf4\x8f\xbf\xbf")

static int compare_entry_keys(const void *a, const void *b)
{
    return view_compare(((const struct list_entry *)a)->key,
                        ((const struct list_entry *)b)->key);
}

/* Objects and groups arrive as two sequences, which are merged into one. */
static void sort_page(struct s3_page *page)
{
    for (size_t i = 1; i < page->count; i++)
        if (view_compare(page->entries[i - 1].key, page->entries[i].key) > 0) {
            qsort(page->entries, page->count, sizeof *page->entries, compare_entry_keys);
            return;
        }
}

/* Each of the two sequences must be in byte order; otherwise names could be missed between two
 * pages. */
static bool is_ordered(const struct s3_page *page)
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

/* Requests up to page->max names after `after`. `further`: `after` came from an earlier page. */
static enum hf_status fetch_page(struct s3_store *s3, struct list_call *call, struct view after,
                                 bool further, struct mono_time deadline, struct s3_page *page)
{
    char prefix_space[S3_KEY_SPACE], after_space[S3_KEY_SPACE + 8], max_keys[24];
    struct s3_request request = { .method = "GET",
                                  .deadline = deadline,
                                  .body_max = PAGE_BYTES_MAX };
    struct view prefix, start;
    if (s3_key(s3, call->prefix, prefix_space, &prefix, &call->error) != HF_OK ||
        s3_key(s3, after, after_space, &start, &call->error) != HF_OK)
        return call->error.status;
    if (list_is_group(call, after)) {
        memcpy(after_space + start.size, HIGHEST.data, HIGHEST.size);
        start = (struct view){ after_space, start.size + HIGHEST.size };
    }
    snprintf(max_keys, sizeof max_keys, "%zu", page->max);
    s3_add_parameter(&request, "list-type", VIEW("2"));
    s3_add_parameter(&request, "encoding-type", VIEW("url"));
    s3_add_parameter(&request, "max-keys", view_of(max_keys));
    if (prefix.size > 0)
        s3_add_parameter(&request, "prefix", prefix);
    if (further || (after.size > 0 && view_compare(after, call->prefix) >= 0))
        s3_add_parameter(&request, "start-after", start);
    if (call->delimiter.size > 0)
        s3_add_parameter(&request, "delimiter", call->delimiter);
    struct http_reply reply;
    if (s3_send(s3, &request, /* again */ NULL, NULL, &reply, &call->error) == HF_OK)
        s3_xml_listing(buffer_view(&reply.body), page, &call->error);
    call->stamp = s3_stamp(&reply);
    http_reply_release(&reply);
    return call->error.status;
}

/* Adds the new names of a page. */
static enum hf_status add_listed_names(struct s3_store *s3, struct list_call *call,
                                       struct s3_page *page, struct view after)
{
    struct view own = { s3->prefix, s3->prefix_size };
    if (!is_ordered(page))
        return error_set(&call->error, HF_CORRUPT, "the store does not list in byte order");
    sort_page(page);
    for (size_t i = 0; i < page->count; i++) {
        struct list_entry entry = page->entries[i];
        struct view name = view_from(entry.key, own.size);
        if (!view_starts_with(entry.key, own) || !view_starts_with(name, call->prefix))
            return error_set(&call->error, HF_CORRUPT,
                             "the store listed a key outside of the requested prefix");
        bool behind = name.size > 0 && view_compare(name, after) > 0;
        /* The folder marker of our own prefix may recur, and so may the group that `after` is
         * in. */
        bool may_recur = name.size == 0 || (entry.is_prefix && view_starts_with(after, name));
        if (!behind && !may_recur)
            return error_set(&call->error, HF_CORRUPT,
                             "the store listed a key before the requested start");
        if (!behind)
            continue;
        if (call->count > 0 && view_equal(name, call->entries[call->count - 1].key))
            return error_set(&call->error, HF_CORRUPT, "the store listed a key twice");
        entry.key = name;
        call->entries[call->count++] = entry;
    }
    return error_clear(&call->error);
}

/* Moves *after to the last name of the page. False if that makes no progress. */
static bool advance_start(struct s3_store *s3, const struct s3_page *page, bool further,
                          struct view *after)
{
    if (page->count == 0)
        return false;
    struct view last = view_from(page->entries[page->count - 1].key, s3->prefix_size);
    bool same = view_equal(last, *after) && further;
    *after = last;
    return !same;
}

void s3_list(struct store *store, struct list_call *call)
{
    struct s3_store *s3 = s3_of(store);
    struct mono_time deadline = s3_deadline(s3, call->deadline);
    struct view after = call->after;
    struct s3_page page = { .arena = &call->arena };
    page.entries = arena_take(&call->arena, call->max * sizeof *page.entries);
    if (!page.entries) {
        error_no_memory(&call->error);
        return;
    }
    for (int pages = 0; pages < PAGES_MAX; pages++) {
        bool further = pages > 0;
        page.max = call->max - call->count;
        if (fetch_page(s3, call, after, further, deadline, &page) != HF_OK ||
            add_listed_names(s3, call, &page, after) != HF_OK)
            return;
        call->more = page.truncated && call->count == call->max;
        if (!page.truncated || call->more)
            return;
        if (!advance_start(s3, &page, further, &after)) {
            error_set(&call->error, HF_CORRUPT,
                      "the store reports more names, but its listing does not advance");
            return;
        }
    }
    call->more = call->count > 0;
    if (!call->more)
        error_set(&call->error, HF_CORRUPT, "the store sends page after page without a name");
}
