/* fsck_look.c: one look at a catalog, at the whereabouts of a key, or at an object, each as it
 * is now. */
#include "base/check.h"
#include "compact/fsck_inside.h"

#include <stdio.h>

#define PAUSE_FIRST SPAN_MS(20)

/* ---- Asking again -------------------------------------------------------------------- */

bool fsck_is_damage(enum hf_status status)
{
    return status == HF_CORRUPT || status == HF_UNSUPPORTED || status == HF_MISMATCH ||
           status == HF_INVALID;
}

/* Whether to ask once more, after a little. */
static bool again(struct fsck *fsck, enum hf_status status, unsigned *tried)
{
    bool passing = status == HF_UNAVAILABLE || status == HF_TIMEOUT;
    if (!passing || ++*tried >= FSCK_TRIES)
        return false;
    env_sleep(fsck->env, SPAN_US(PAUSE_FIRST.us << *tried));
    return true;
}

/* ---- Catalogs ------------------------------------------------------------------------ */

/* A shelf of its own for each look: thousands of catalogs are not held at once. */
static enum hf_status open_slot(struct fsck *fsck, struct view partition,
                                struct shelf **ret_shelf, struct slot **ret_slot,
                                struct hf_error *error)
{
    struct shelf *shelf;
    enum hf_status status = shelf_open(fsck->store, fsck->client, partition, &shelf, error);
    if (status != HF_OK)
        return status;
    status = shelf_slot(shelf, partition, ret_slot, error);
    if (status == HF_OK)
        *ret_shelf = shelf;
    else
        shelf_close(shelf);
    return status;
}

enum hf_status fsck_show(struct fsck *fsck, struct view partition, slot_look *look,
                         void *argument, struct hf_error *error)
{
    struct shelf *shelf;
    struct slot *slot;
    enum hf_status status = open_slot(fsck, partition, &shelf, &slot, error);
    if (status != HF_OK)
        return status;
    status = slot_show(slot, look, argument, error);
    shelf_close(shelf);
    return status;
}

enum hf_status fsck_apply(struct fsck *fsck, struct view partition, struct catalog_op *op,
                          struct hf_error *error)
{
    struct shelf *shelf;
    struct slot *slot;
    enum hf_status status = open_slot(fsck, partition, &shelf, &slot, error);
    if (status != HF_OK)
        return status;
    status = slot_apply(slot, op, (struct mono_time){ 0 });
    shelf_close(shelf);
    *error = op->error;
    return status;
}

/* ---- The whereabouts of a key -------------------------------------------------------- */

struct following {
    struct view key;
    struct fsck_place *place;
    char next[PARTITION_BYTES_MAX + 1]; /* the child that has it; empty: none */
};

static bool is_done(const struct catalog *catalog, struct view key)
{
    for (size_t i = 0; i < catalog->removal_count; i++)
        for (size_t j = 0; j < catalog->removals[i].count; j++)
            if (view_equal(catalog->removals[i].keys[j], key))
                return catalog->removals[i].done;
    return false;
}

static void note_child(struct following *following, const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->reference_count; i++) {
        const struct reference *reference = &catalog->references[i];
        if (view_equal(reference->key, following->key) &&
            reference->child < catalog->child_count)
            snprintf(following->next, sizeof following->next, "%.*s",
                     VIEW_ARGS(catalog->children[reference->child]));
    }
}

static void find_key(void *argument, const struct catalog *catalog,
                     const struct evidence *evidence)
{
    (void)evidence;
    struct following *following = argument;
    struct fsck_place *place = following->place;
    following->next[0] = '\0';
    place->state = catalog_state(catalog, following->key);
    if (place->state == CHUNK_MOVED)
        note_child(following, catalog);
    if (place->state == CHUNK_RETIRED || place->state == CHUNK_CONDEMNED)
        place->done = is_done(catalog, following->key);
    const struct chunk *chunk = catalog_find(catalog, following->key);
    if (chunk) {
        place->size = chunk->size;
        place->rows = chunk->rows;
        place->rows_known = chunk->rows_known;
        place->crc32c = chunk->crc32c;
        place->quarantined = chunk->quarantine.size > 0;
    }
}

/* Whether a catalog that is not there is one that another names: that is told elsewhere. */
static bool is_missed(const struct fsck *fsck, struct view partition)
{
    const struct fsck_catalog *catalog = fsck_find(fsck, partition);
    return catalog && catalog->state == FSCK_ABSENT;
}

enum hf_status fsck_follow(struct fsck *fsck, struct view partition, struct view key,
                           struct fsck_place *ret_place, struct hf_error *error)
{
    struct following following = { .key = key, .place = ret_place };
    *ret_place = (struct fsck_place){ .state = CHUNK_UNKNOWN };
    check(partition.size <= PARTITION_BYTES_MAX);
    snprintf(ret_place->partition, sizeof ret_place->partition, "%.*s", VIEW_ARGS(partition));
    for (int depth = 0; depth <= SHELF_DEPTH_MAX; depth++) {
        struct view at = view_of(ret_place->partition);
        enum hf_status status = fsck_show(fsck, at, find_key, &following, error);
        ret_place->homeless = status == HF_NOT_FOUND && depth == 0 && !is_missed(fsck, at);
        ret_place->hidden = status != HF_OK && !ret_place->homeless;
        if (status == HF_NOT_FOUND || fsck_is_damage(status))
            return error_clear(error);
        if (status != HF_OK || following.next[0] == '\0')
            return status;
        ret_place->moved = true;
        memcpy(ret_place->partition, following.next, sizeof following.next);
    }
    ret_place->hidden = true; /* a ring of references: no split makes one */
    return HF_OK;
}

/* ---- Objects ------------------------------------------------------------------------- */

/* By a listing: it answers alike for an empty object and for one that may not be read. */
enum hf_status fsck_object(struct fsck *fsck, struct view key, bool *ret_there,
                           struct object_info *ret_info, struct hf_error *error)
{
    enum hf_status status;
    unsigned tried = 0;
    do {
        struct list_call list = { .prefix = key, .max = 1 };
        status = store_list(fsck->store, &list);
        *error = list.error;
        bool there = status == HF_OK && list.count > 0 && view_equal(list.entries[0].key, key);
        *ret_there = there;
        if (there && ret_info)
            *ret_info = list.entries[0].info;
        list_release(&list);
    } while (again(fsck, status, &tried));
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

static enum hf_status list_page(struct fsck *fsck, struct list_call *list)
{
    unsigned tried = 0;
    while (store_list(fsck->store, list) != HF_OK && again(fsck, list->error.status, &tried)) {
        struct list_call fresh = { .prefix = list->prefix, .after = list->after };
        list_release(list);
        *list = fresh;
    }
    return list->error.status;
}

/* The key behind which the next page begins. The loop over pages ends since that rises. */
static enum hf_status turn_page(const struct list_call *list, char after[KEY_BYTES_MAX + 1],
                                struct hf_error *error)
{
    struct view last = list->entries[list->count - 1].key;
    if (view_compare(last, view_of(after)) <= 0)
        return error_set(error, HF_CORRUPT, "the store's listing does not go on");
    snprintf(after, KEY_BYTES_MAX + 1, "%.*s", VIEW_ARGS(last));
    return HF_OK;
}

enum hf_status fsck_list(struct fsck *fsck, struct view prefix, fsck_each *each,
                         struct hf_error *error)
{
    char after[KEY_BYTES_MAX + 1] = "";
    enum hf_status status = HF_OK;
    bool more = true;
    while (more && status == HF_OK) {
        struct list_call list = { .prefix = prefix, .after = view_of(after) };
        status = list_page(fsck, &list);
        if (status != HF_OK)
            *error = list.error;
        note_times(fsck, &list);
        for (size_t i = 0; i < list.count && status == HF_OK; i++)
            status = each(fsck, &list.entries[i], error);
        more = list.more && list.count > 0;
        if (more && status == HF_OK)
            status = turn_page(&list, after, error);
        list_release(&list);
        if (status == HF_OK)
            status = fsck_go_on(fsck, error);
    }
    return status;
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
