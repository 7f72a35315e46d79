/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_look.c: reads the current state of a catalog, a key or an object. Every finding is checked
 * again this way, because the result of the first pass may be outdated. */
#include "base/check.h"
#include "compact/catalog/prefixes.h"
#include "compact/fsck/fsck_inside.h"
#include "store/pages.h"
#include "store/retry.h"

#include <stdio.h>

#define PAUSE_FIRST SPAN_MS(80)

/* ---- Retrying ------------------------------------------------------------------------ */

bool fsck_is_damage(enum hf_status status)
{
    return status == HF_CORRUPT || status == HF_UNSUPPORTED || status == HF_MISMATCH ||
           status == HF_INVALID;
}

static struct retry new_retry(const struct fsck *fsck)
{
    return (struct retry){ .store = fsck->store, .pause = PAUSE_FIRST, .left = FSCK_TRIES - 1 };
}

/* ---- Catalogs ------------------------------------------------------------------------ */

/* Each read opens its own catalog tree, so thousands of catalogs are not kept in memory. */
static enum hf_status open_catalog(struct fsck *fsck, struct view partition,
                                   struct catalog_tree **ret_tree, struct catalog_ref **ret_ref,
                                   struct hf_error *error)
{
    struct catalog_tree *tree;
    enum hf_status status =
        catalog_tree_open(fsck->store, fsck->client, partition, &tree, error);
    if (status != HF_OK)
        return status;
    status = catalog_tree_ref(tree, partition, ret_ref, error);
    if (status == HF_OK)
        *ret_tree = tree;
    else
        catalog_tree_close(tree);
    return status;
}

enum hf_status fsck_show(struct fsck *fsck, struct view partition, catalog_ref_look *look,
                         void *argument, struct hf_error *error)
{
    struct catalog_tree *tree;
    struct catalog_ref *ref;
    enum hf_status status = open_catalog(fsck, partition, &tree, &ref, error);
    if (status != HF_OK)
        return status;
    status = catalog_ref_show(ref, look, argument, error);
    catalog_tree_close(tree);
    return status;
}

enum hf_status fsck_apply(struct fsck *fsck, struct view partition, struct catalog_op *op,
                          struct hf_error *error)
{
    struct catalog_tree *tree;
    struct catalog_ref *ref;
    enum hf_status status = open_catalog(fsck, partition, &tree, &ref, error);
    if (status != HF_OK)
        return status;
    status = catalog_ref_apply(ref, op, (struct mono_time){ 0 });
    catalog_tree_close(tree);
    *error = op->error;
    return status;
}

/* ---- Finding a key ------------------------------------------------------------------- */

struct following {
    struct view key;
    struct fsck_place *place;
    char next[PARTITION_BYTES_MAX + 1]; /* the child that has it; empty: none */
};

static void read_key_state(void *argument, const struct catalog *catalog,
                           const struct evidence *evidence)
{
    (void)evidence;
    struct following *following = argument;
    struct fsck_place *place = following->place;
    following->next[0] = '\0';
    place->state = catalog_state(catalog, following->key);
    const struct reference *reference = catalog_reference(catalog, following->key);
    if (reference && reference->child < catalog->child_count)
        snprintf(following->next, sizeof following->next, "%.*s",
                 VIEW_ARGS(catalog->children[reference->child]));
    const struct removal *removal = catalog_removal_by_key(catalog, following->key);
    if (removal)
        place->done = removal->done;
    const struct chunk *chunk = catalog_find(catalog, following->key);
    if (chunk) {
        place->size = chunk->size;
        place->rows = chunk->rows;
        place->rows_known = chunk->rows_known;
        place->crc32c = chunk->crc32c;
        place->quarantined = chunk->quarantine.size > 0;
    }
}

enum hf_status fsck_follow(struct fsck *fsck, struct view partition, struct view key,
                           struct fsck_place *ret_place, struct hf_error *error)
{
    struct following following = { .key = key, .place = ret_place };
    *ret_place = (struct fsck_place){ .state = CHUNK_UNKNOWN };
    check(partition.size <= PARTITION_BYTES_MAX);
    snprintf(ret_place->partition, sizeof ret_place->partition, "%.*s", VIEW_ARGS(partition));
    for (int depth = 0; depth <= CATALOG_TREE_DEPTH_MAX; depth++) {
        struct view at = view_of(ret_place->partition);
        enum hf_status status = fsck_show(fsck, at, read_key_state, &following, error);
        /* A missing catalog that another catalog names is reported elsewhere. */
        const struct fsck_catalog *known = fsck_find(fsck, at);
        ret_place->homeless =
            status == HF_NOT_FOUND && depth == 0 && !(known && known->state == FSCK_ABSENT);
        ret_place->hidden = status != HF_OK && !ret_place->homeless;
        if (status == HF_NOT_FOUND || fsck_is_damage(status))
            return error_clear(error);
        if (status != HF_OK || following.next[0] == '\0')
            return status;
        ret_place->moved = true;
        memcpy(ret_place->partition, following.next, sizeof following.next);
    }
    ret_place->hidden = true; /* a cycle of references, which no split creates */
    return HF_OK;
}

/* ---- Objects ------------------------------------------------------------------------- */

/* Uses a listing, which also works for empty objects and for objects that may not be read. */
enum hf_status fsck_object(struct fsck *fsck, struct view key, bool *ret_there,
                           struct object_info *ret_info, struct hf_error *error)
{
    enum hf_status status;
    struct retry retry = new_retry(fsck);
    do {
        struct list_call list = { .prefix = key, .max = 1 };
        status = store_list(fsck->store, &list);
        *error = list.error;
        bool there = status == HF_OK && list.count > 0 && view_equal(list.entries[0].key, key);
        *ret_there = there;
        if (there && ret_info)
            *ret_info = list.entries[0].info;
        list_release(&list);
    } while (retry_after(&retry, status));
    return status;
}

static void note_times(struct fsck *fsck, const struct list_call *list)
{
    bool dated = fsck->store->traits.clock == STORE_CLOCK_DATE && list->stamp.known &&
                 !list->stamp.cached;
    if (dated && wall_before(fsck->dated, list->stamp.date))
        fsck->dated = list->stamp.date;
    for (size_t i = 0; i < list->count; i++)
        if (wall_before(fsck->newest, list->entries[i].info.modified))
            fsck->newest = list->entries[i].info.modified;
}

/* False after the last page, or if the store keeps failing. */
static bool list_next_page(struct fsck *fsck, struct pages *pages)
{
    struct retry retry = new_retry(fsck);
    bool more = pages_next(pages, fsck->store);
    while (!more && retry_after(&retry, pages->list.error.status)) {
        pages->begun = false; /* the same page again */
        more = pages_next(pages, fsck->store);
    }
    return more;
}

enum hf_status fsck_list(struct fsck *fsck, struct view prefix, fsck_each *each,
                         struct hf_error *error)
{
    struct pages pages = { .list = { .prefix = prefix } };
    const struct list_call *list = &pages.list;
    enum hf_status status = HF_OK;
    while (status == HF_OK && list_next_page(fsck, &pages)) {
        note_times(fsck, list);
        for (size_t i = 0; i < list->count; i++)
            if (status == HF_OK)
                status = each(fsck, &list->entries[i], error);
        /* The loop terminates, because each page must start after the last key of the previous
         * page. */
        if (status == HF_OK && list->more &&
            view_compare(list->entries[list->count - 1].key, list->after) <= 0)
            status = error_set(error, HF_CORRUPT,
                               "the store returned the same page of a listing again");
        if (status == HF_OK)
            status = fsck_go_on(fsck, error);
    }
    return pages_end(&pages, status, error);
}

enum hf_status fsck_delete(struct fsck *fsck, struct view key, const struct etag *etag,
                           struct hf_error *error)
{
    struct delete_call call = { .key = key };
    if (etag && fsck->store->traits.delete_conditional)
        call.condition = if_match(etag);
    enum hf_status status = store_delete(fsck->store, &call);
    *error = call.error;
    return status;
}

/* ---- The paths of adopted objects ---------------------------------------------------- */

/* Read twice, because a single read may have been damaged on its way. */
enum hf_status fsck_adopted(struct fsck *fsck, struct hf_error *error)
{
    struct retry retry = new_retry(fsck);
    enum hf_status status = HF_OK;
    for (int reads = 0; reads < 2; reads++) {
        struct buffer text = BUFFER_INIT(PREFIXES_BYTES_MAX);
        struct prefix_list *list = NULL;
        struct get_call get = { .key = VIEW(LAYOUT_ADOPTED_KEY), .body = &text };
        do {
            buffer_clear(&text);
            status = store_get(fsck->store, &get);
        } while (retry_after(&retry, status));
        *error = get.error;
        if (status == HF_OK)
            status = prefix_list_decode(buffer_view(&text), &list, error);
        prefix_list_free(list);
        buffer_release(&text);
        if (!fsck_is_damage(status))
            return status == HF_NOT_FOUND ? error_clear(error) : status;
    }
    fsck_report_finding(
        fsck, HF_FSCK_BAD_CATALOG, VIEW(LAYOUT_ADOPTED_KEY), VIEW(""), error->why,
        fsck_advice("no object is adopted until you have put a good copy in its "
                    "place"));
    return error_clear(error);
}
