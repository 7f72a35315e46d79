/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: reads one page of names.
 *
 * Azure lists from the start of a prefix or from a marker of its own, but not from a name that we
 * choose. So the marker that it has sent with a page is kept for a while, for the next page of the
 * same listing (list_call.continuation), and for no other: a marker names the key at which the next
 * page starts, so it hides every key that was put between the two pages, and another listing must
 * see what was written before it began. A listing from any other name begins at the start of the
 * prefix, and skips names. */
#include "store/azure/inside.h"
#include "store/azure/xml.h"
#include "store/toolkit.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_BYTES_MAX (8 * MIB)

/* How many pages in a row may have no new name. Azure may send such pages. */
#define EMPTY_PAGES_MAX 64

/* Azure does not say how long a marker is valid. It is used for as long as a listing that goes on
 * may take between two pages. */
#define MARKER_AGE_MAX SPAN_S(600)

/* ---- Markers ------------------------------------------------------------------------- */

void azure_forget_markers(struct azure_store *azure)
{
    for (size_t i = 0; i < AZURE_MARKERS_MAX; i++)
        free(azure->shared.markers[i]);
}

static char delimiter_of(const struct list_call *call)
{
    return call->delimiter.size > 0 ? call->delimiter.data[0] : '\0';
}

static struct view marker_at(const struct azure_marker *marker)
{
    return (struct view){ marker->at, marker->at_size };
}

static bool is_usable(const struct azure_marker *marker, const struct list_call *call,
                      struct mono_time now)
{
    struct view prefix = { marker->prefix, marker->prefix_size };
    return marker->id == call->continuation && view_equal(prefix, call->prefix) &&
           marker->delimiter == delimiter_of(call) &&
           view_compare(marker_at(marker), call->after) <= 0 &&
           mono_before(now, mono_add(marker->kept, MARKER_AGE_MAX));
}

/* The marker that was kept for this listing, or the start of the listing. */
static void find_marker(struct azure_store *azure, const struct list_call *call,
                        struct azure_marker *ret_marker)
{
    struct mono_time now = env_now(azure->remote.base.env);
    *ret_marker = (struct azure_marker){ .delimiter = delimiter_of(call) };
    if (call->prefix.size > 0)
        memcpy(ret_marker->prefix, call->prefix.data, call->prefix.size);
    ret_marker->prefix_size = call->prefix.size;
    if (call->continuation == 0)
        return;
    env_mutex_lock(&azure->shared.mutex);
    for (size_t i = 0; i < AZURE_MARKERS_MAX; i++) {
        const struct azure_marker *marker = azure->shared.markers[i];
        if (marker && is_usable(marker, call, now))
            *ret_marker = *marker;
    }
    env_mutex_unlock(&azure->shared.mutex);
}

/* The place of the marker that the listing has used so far; else a free one, or the oldest. */
static struct azure_marker **find_place_locked(struct azure_store *azure, uint64_t id)
{
    struct azure_marker **oldest = &azure->shared.markers[0];
    for (size_t i = 0; i < AZURE_MARKERS_MAX; i++) {
        struct azure_marker **place = &azure->shared.markers[i];
        if (!*place || (*place)->id == id)
            return place;
        if (mono_before((*place)->kept, (*oldest)->kept))
            oldest = place;
    }
    return oldest;
}

/* Keeps the marker for the next page of this listing. Without memory that page only takes
 * longer. */
static void keep_marker(struct azure_store *azure, const struct azure_marker *marker,
                        struct list_call *call)
{
    env_mutex_lock(&azure->shared.mutex);
    struct azure_marker **place = find_place_locked(azure, call->continuation);
    if (!*place)
        *place = malloc(sizeof **place);
    if (*place) {
        **place = *marker;
        (*place)->id = call->continuation = ++azure->shared.last_id;
        (*place)->kept = env_now(azure->remote.base.env);
    }
    env_mutex_unlock(&azure->shared.mutex);
}

/* ---- Pages --------------------------------------------------------------------------- */

/* Requests up to page->max names from the marker, and replaces it by that of the next page. */
static enum hf_status azure_fetch_page(struct azure_store *azure, struct list_call *call,
                                       struct mono_time deadline, char *marker,
                                       struct remote_page *page)
{
    char prefix_space[REMOTE_KEY_SPACE], max_results[24];
    struct remote_request request = { .method = "GET",
                                      .deadline = deadline,
                                      .body_max = PAGE_BYTES_MAX };
    struct view prefix;
    if (remote_key_prefix(&azure->remote, call->prefix, prefix_space, &prefix, &call->error) !=
        HF_OK)
        return call->error.status;
    snprintf(max_results, sizeof max_results, "%zu", page->max);
    remote_add_parameter(&request, "restype", VIEW("container"));
    remote_add_parameter(&request, "comp", VIEW("list"));
    remote_add_parameter(&request, "maxresults", view_of(max_results));
    if (prefix.size > 0)
        remote_add_parameter(&request, "prefix", prefix);
    if (marker[0])
        remote_add_parameter(&request, "marker", view_of(marker));
    if (call->delimiter.size > 0)
        remote_add_parameter(&request, "delimiter", call->delimiter);
    struct http_reply reply;
    if (remote_send(&azure->remote, &request, /* again */ NULL, NULL, &reply, &call->error) ==
        HF_OK)
        azure_xml_listing(buffer_view(&reply.body), page, marker, AZURE_MARKER_MAX + 1,
                          &call->error);
    call->stamp = remote_stamp(&reply);
    http_reply_release(&reply);
    return call->error.status;
}

/* Moves the marker's name to the last one of a page. False if that makes no progress. */
static bool advance_marker(const struct remote_store *remote, const struct remote_page *page,
                           struct azure_marker *marker)
{
    if (page->count == 0)
        return false;
    struct view last = view_from(page->entries[page->count - 1].key, remote->prefix_size);
    bool further = view_compare(last, marker_at(marker)) > 0;
    memcpy(marker->at, last.data, last.size);
    marker->at_size = last.size;
    return further;
}

void azure_list(struct store *store, struct list_call *call)
{
    struct azure_store *azure = azure_of(store);
    struct remote_store *remote = &azure->remote;
    struct mono_time deadline = remote_deadline(remote, call->deadline);
    struct view own = { remote->prefix, remote->prefix_size };
    struct remote_page page = { .arena = &call->arena };
    struct azure_marker marker, read_from;
    find_marker(azure, call, &marker);
    page.entries = arena_take(&call->arena, LIST_PAGE_MAX * sizeof *page.entries);
    if (!page.entries) {
        error_no_memory(&call->error);
        return;
    }
    for (int empty = 0; empty < EMPTY_PAGES_MAX;) {
        /* Names up to call->after, and those that were added, are skipped where they recur. */
        bool skipping = view_compare(marker_at(&marker), call->after) < 0;
        struct view after = skipping ? call->after : marker_at(&marker);
        bool cut;
        read_from = marker;
        page.max = skipping ? LIST_PAGE_MAX : call->max - call->count;
        if (azure_fetch_page(azure, call, deadline, marker.marker, &page) != HF_OK ||
            remote_page_add(call, &page, own, after, skipping, &cut) != HF_OK)
            return;
        call->more = cut || (page.truncated && call->count == call->max);
        empty = advance_marker(remote, &page, &marker) ? 0 : empty + 1;
        if (call->more) {
            keep_marker(azure, cut ? &read_from : &marker, call);
            return;
        }
        if (!page.truncated)
            return;
    }
    error_set(&call->error, HF_CORRUPT, "the store sends page after page without a name");
}
