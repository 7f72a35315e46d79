/* SPDX-License-Identifier: Apache-2.0 */
/* unordered.c: reads one page of names from a directory bucket, which lists in no order, from no
 * given start, and only whole folders.
 *
 * All names of the folder are read and sorted, and the page is cut out of them. So a page costs as
 * many requests as the folder has thousands of names. Those that were read but did not fit are kept
 * for the next page of the same listing (list_call.continuation), and for no other: another listing
 * must see what was written before it began. */
#include "store/s3/inside.h"
#include "store/s3/listed.h"
#include "store/s3/xml.h"
#include "store/toolkit.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_BYTES_MAX (8 * MIB)
#define TOKEN_SIZE     4096

/* How many requests one call may make, and how many pages in a row may have no name. */
#define PAGES_MAX       100000
#define EMPTY_PAGES_MAX 64

/* A call without a deadline may take as long as so many requests: how many a folder needs depends
 * on its size. */
#define LISTING_TIMEOUTS 20

/* Names are kept for this long. */
#define NAMES_AGE_MAX SPAN_S(60)

/* ---- Names that are kept for the next page ------------------------------------------- */

void s3_forget_names(struct s3_store *s3)
{
    for (size_t i = 0; i < S3_NAMES_KEPT; i++)
        if (s3->shared.names[i]) {
            listed_release(s3->shared.names[i]);
            free(s3->shared.names[i]);
        }
}

static char delimiter_byte(const struct list_call *call)
{
    return call->delimiter.size > 0 ? call->delimiter.data[0] : '\0';
}

/* Takes the names that were kept for exactly this page, or returns NULL. */
static struct listed *take_names(struct s3_store *s3, const struct list_call *call)
{
    struct listed *found = NULL;
    struct mono_time now = env_now(s3->remote.base.env);
    env_mutex_lock(&s3->shared.mutex);
    for (size_t i = 0; i < S3_NAMES_KEPT && !found && call->continuation != 0; i++) {
        struct listed *names = s3->shared.names[i];
        if (!names || names->id != call->continuation)
            continue;
        found = names;
        s3->shared.names[i] = NULL;
    }
    env_mutex_unlock(&s3->shared.mutex);
    if (!found)
        return NULL;
    struct view prefix = { found->prefix, found->prefix_size };
    struct view after = { found->after, found->after_size };
    if (view_equal(prefix, call->prefix) && view_equal(after, call->after) &&
        found->delimiter == delimiter_byte(call) &&
        mono_before(now, mono_add(found->taken, NAMES_AGE_MAX)))
        return found;
    listed_release(found);
    free(found);
    return NULL;
}

static void keep_names(struct s3_store *s3, struct listed *names, struct list_call *call)
{
    struct view last = call->entries[call->count - 1].key;
    if (call->prefix.size > 0)
        memcpy(names->prefix, call->prefix.data, call->prefix.size);
    names->prefix_size = call->prefix.size;
    memcpy(names->after, last.data, last.size);
    names->after_size = last.size;
    names->delimiter = delimiter_byte(call);
    env_mutex_lock(&s3->shared.mutex);
    struct listed **place = &s3->shared.names[s3->shared.names_next++ % S3_NAMES_KEPT];
    struct listed *old = *place;
    *place = names;
    names->id = call->continuation = s3->shared.names_next;
    env_mutex_unlock(&s3->shared.mutex);
    if (old)
        listed_release(old);
    free(old);
}

/* ---- Reading the folder -------------------------------------------------------------- */

/* Groups of the store are of use unless the listing starts in the middle of one. */
static bool may_group(const struct list_call *call)
{
    struct view after = call->after;
    if (!view_equal(call->delimiter, VIEW("/")))
        return false;
    size_t slash = view_find(view_from(after, call->prefix.size), '/');
    return !view_starts_with(after, call->prefix) || list_is_group(call, after) ||
           slash == after.size - call->prefix.size;
}

/* Up to its last slash: only whole folders can be listed. */
static struct view whole_folder(struct view prefix)
{
    while (prefix.size > 0 && prefix.data[prefix.size - 1] != '/')
        prefix.size--;
    return prefix;
}

static struct mono_time listing_deadline(const struct s3_store *s3,
                                         const struct list_call *call)
{
    struct span longest = SPAN_US(LISTING_TIMEOUTS * s3->remote.time_out.us);
    return call->deadline.us != 0 ? call->deadline
                                  : mono_add(env_now(s3->remote.base.env), longest);
}

static enum hf_status fetch_any(struct s3_store *s3, struct list_call *call, bool group,
                                struct mono_time end, struct remote_page *page)
{
    char space[REMOTE_KEY_SPACE], token[TOKEN_SIZE];
    struct mono_time deadline = remote_deadline(&s3->remote, call->deadline);
    struct remote_request request = { .method = "GET",
                                      .deadline = mono_earlier(deadline, end),
                                      .body_max = PAGE_BYTES_MAX };
    struct view prefix;
    if (remote_key_prefix(&s3->remote, call->prefix, space, &prefix, &call->error) != HF_OK)
        return call->error.status;
    prefix = whole_folder(prefix);
    snprintf(token, sizeof token, "%s", page->marker);
    remote_add_parameter(&request, "list-type", VIEW("2"));
    remote_add_parameter(&request, "encoding-type", VIEW("url"));
    remote_add_parameter(&request, "max-keys", VIEW("1000"));
    if (prefix.size > 0)
        remote_add_parameter(&request, "prefix", prefix);
    if (group)
        remote_add_parameter(&request, "delimiter", VIEW("/"));
    if (token[0])
        remote_add_parameter(&request, "continuation-token", view_of(token));
    struct http_reply reply;
    if (remote_send(&s3->remote, &request, /* again */ NULL, NULL, &reply, &call->error) ==
            HF_OK &&
        s3_xml_listing(buffer_view(&reply.body), "ETag", page, &call->error) == HF_OK &&
        page->truncated && (page->marker[0] == '\0' || strcmp(page->marker, token) == 0))
        error_set(&call->error, HF_CORRUPT,
                  "the store reports more names, but its listing does not advance");
    call->stamp = remote_stamp(&reply);
    http_reply_release(&reply);
    return call->error.status;
}

/* Adds the names of a page that belong to the listing. */
static enum hf_status add_page(struct s3_store *s3, struct list_call *call,
                               const struct remote_page *page, struct listed *names)
{
    struct view own = { s3->remote.prefix, s3->remote.prefix_size }, after = call->after;
    for (size_t i = 0; i < page->count; i++) {
        struct list_entry entry = page->entries[i];
        if (!view_starts_with(entry.key, own))
            return error_set(&call->error, HF_CORRUPT,
                             "the store listed a key outside of the requested prefix");
        entry.key = view_from(entry.key, own.size);
        bool passed = view_compare(entry.key, after) <= 0 ||
                      (list_is_group(call, after) && view_starts_with(entry.key, after));
        if (entry.key.size > 0 && !passed && view_starts_with(entry.key, call->prefix) &&
            !listed_add(names, &entry))
            return error_no_memory(&call->error);
    }
    return HF_OK;
}

static enum hf_status read_folder(struct s3_store *s3, struct list_call *call,
                                  struct listed *names)
{
    bool group = may_group(call);
    char marker[TOKEN_SIZE] = "";
    struct remote_page page = { .marker = marker, .marker_size = sizeof marker };
    page.max = LIST_PAGE_MAX;
    page.entries = malloc(page.max * sizeof *page.entries);
    if (!page.entries)
        return error_no_memory(&call->error);
    struct mono_time end = listing_deadline(s3, call);
    names->taken = env_now(s3->remote.base.env);
    page.truncated = true;
    for (int pages = 0, empty = 0; page.truncated && call->error.status == HF_OK; pages++) {
        struct arena arena = ARENA_INIT;
        page.arena = &arena;
        if (pages == PAGES_MAX || empty == EMPTY_PAGES_MAX)
            error_set(&call->error, HF_CORRUPT, "the store sends page after page%s",
                      empty == EMPTY_PAGES_MAX ? " without a name" : "");
        else if (fetch_any(s3, call, group, end, &page) == HF_OK)
            add_page(s3, call, &page, names);
        empty = page.count > 0 ? 0 : empty + 1;
        arena_release(&arena);
    }
    free(page.entries);
    if (call->error.status == HF_OK && !listed_end(names))
        error_no_memory(&call->error);
    return call->error.status;
}

/* ---- Pages --------------------------------------------------------------------------- */

static void cut_page(struct list_call *call, const struct listed *names)
{
    struct list_cursor cursor;
    size_t next;
    list_start(call, &cursor);
    do
        next = listed_find(names, cursor.from, cursor.beyond);
    while (next < names->count &&
           list_offer(call, &cursor, names->entries[next].key, &names->entries[next].info));
    call->more = call->more || (names->cut && call->count > 0);
}

void s3_list_unordered(struct store *store, struct list_call *call)
{
    struct s3_store *s3 = s3_of(store);
    struct listed *names = take_names(s3, call);
    call->continuation = 0;
    if (names) {
        cut_page(call, names);
        /* The last page of names that were cut may be short, but it must not be empty. */
        if (call->error.status == HF_OK && (call->count > 0 || !names->cut))
            goto keep;
        listed_release(names);
        free(names);
        if (call->error.status != HF_OK)
            return;
    }
    names = calloc(1, sizeof *names);
    if (!names) {
        error_no_memory(&call->error);
        return;
    }
    if (read_folder(s3, call, names) == HF_OK)
        cut_page(call, names);
keep:
    if (call->error.status == HF_OK && call->more) {
        keep_names(s3, names, call);
        return;
    }
    listed_release(names);
    free(names);
}
