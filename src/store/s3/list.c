/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: reads one page of names. A page always starts after a key that we name, so no token from
 * the previous page is needed. */
#include "store/s3/inside.h"
#include "store/s3/xml.h"
#include "store/toolkit.h"

#include <stdio.h>

#define PAGE_BYTES_MAX (8 * MIB)

/* How many requests one call may make: the store may return fewer names than requested. */
#define PAGES_MAX 64

/* Appended to a group such as "a/", the highest code point skips all keys that start with "a/". */
#define HIGHEST VIEW("\xf4\x8f\xbf\xbf")

/* Requests up to page->max names after `after`. `further`: `after` came from an earlier page. */
static enum hf_status fetch_page(struct s3_store *s3, struct list_call *call, struct view after,
                                 bool further, struct mono_time deadline,
                                 struct remote_page *page)
{
    char prefix_space[REMOTE_KEY_SPACE], after_space[REMOTE_KEY_SPACE + 8], max_keys[24];
    struct remote_request request = { .method = "GET",
                                      .deadline = deadline,
                                      .body_max = PAGE_BYTES_MAX };
    struct view prefix, start;
    if (remote_key_prefix(&s3->remote, call->prefix, prefix_space, &prefix, &call->error) !=
            HF_OK ||
        remote_key_prefix(&s3->remote, after, after_space, &start, &call->error) != HF_OK)
        return call->error.status;
    if (list_is_group(call, after)) {
        memcpy(after_space + start.size, HIGHEST.data, HIGHEST.size);
        start = (struct view){ after_space, start.size + HIGHEST.size };
    }
    snprintf(max_keys, sizeof max_keys, "%zu", page->max);
    remote_add_parameter(&request, "list-type", VIEW("2"));
    remote_add_parameter(&request, "encoding-type", VIEW("url"));
    remote_add_parameter(&request, "max-keys", view_of(max_keys));
    if (prefix.size > 0)
        remote_add_parameter(&request, "prefix", prefix);
    if (further || (after.size > 0 && view_compare(after, call->prefix) >= 0))
        remote_add_parameter(&request, "start-after", start);
    if (call->delimiter.size > 0)
        remote_add_parameter(&request, "delimiter", call->delimiter);
    struct http_reply reply;
    if (remote_send(&s3->remote, &request, /* again */ NULL, NULL, &reply, &call->error) ==
        HF_OK)
        s3_xml_listing(buffer_view(&reply.body), s3_is_google(s3) ? "Generation" : "ETag", page,
                       &call->error);
    call->stamp = remote_stamp(&reply);
    http_reply_release(&reply);
    return call->error.status;
}

/* Moves *after to the last name of the page. False if that makes no progress. */
static bool advance_start(struct s3_store *s3, const struct remote_page *page, bool further,
                          struct view *after)
{
    if (page->count == 0)
        return false;
    struct view last = view_from(page->entries[page->count - 1].key, s3->remote.prefix_size);
    bool same = view_equal(last, *after) && further;
    *after = last;
    return !same;
}

void s3_list(struct store *store, struct list_call *call)
{
    struct s3_store *s3 = s3_of(store);
    if (s3_is_directory(s3)) {
        s3_list_unordered(store, call);
        return;
    }
    struct mono_time deadline = remote_deadline(&s3->remote, call->deadline);
    struct view after = call->after, own = { s3->remote.prefix, s3->remote.prefix_size };
    struct remote_page page = { .arena = &call->arena };
    page.entries = arena_take(&call->arena, call->max * sizeof *page.entries);
    if (!page.entries) {
        error_no_memory(&call->error);
        return;
    }
    for (int pages = 0; pages < PAGES_MAX; pages++) {
        bool further = pages > 0;
        page.max = call->max - call->count;
        bool cut; /* never: the page has as much room as the call */
        if (fetch_page(s3, call, after, further, deadline, &page) != HF_OK ||
            remote_page_add(call, &page, own, after, /* may_repeat */ false, &cut) != HF_OK)
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
