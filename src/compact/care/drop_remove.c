/* SPDX-License-Identifier: Apache-2.0 */
/* drop_remove.c: removes the catalogs of a partition that is being dropped, with everything that
 * belongs to them. It guards against two mistakes: removing a catalog while its names can still
 * matter to anybody, and deleting a document of a partition that was created again under the same
 * name. */
#include "compact/care/drop.h"

#include "compact/care/release.h"
#include "lock/chunks.h"

#include <stdio.h>

/* How many pages of a listing are deleted in one call. The rest is left to the next call. */
#define PAGES_MAX 64

/* ---- Looking ------------------------------------------------------------------------- */

/* A marked catalog, as found by walking the tree; children come after their parents. */
struct marked {
    struct catalog_ref *ref;
    bool is_child;
    size_t child_count;
    char children[CATALOG_CHILDREN][PARTITION_BYTES_MAX + 1];
    struct marked *before; /* in the order of the walk */
};

struct removing {
    struct catalog_tree *tree;
    const struct drop_options *options;
    struct arena arena;
    struct marked *last;
    struct delete_call *calls; /* BATCH_MAX */
    uint64_t *deleted;
    bool no_memory;
};

static bool removing_goes_on(const struct removing *removing)
{
    return !removing->options->go_on || removing->options->go_on(removing->options->argument);
}

static enum hf_status list_spent(void *argument, struct catalog_ref *ref,
                                 const struct catalog *catalog, const struct evidence *evidence,
                                 const struct hf_error *why)
{
    struct removing *removing = argument;
    (void)why;
    if (!catalog || !catalog_is_spent(catalog, evidence))
        return HF_OK;
    struct marked *marked = arena_take(&removing->arena, sizeof *marked);
    if (!marked) {
        removing->no_memory = true;
        return HF_UNAVAILABLE;
    }
    *marked = (struct marked){ .ref = ref,
                               .is_child = catalog->parent.size > 0,
                               .child_count = catalog->child_count,
                               .before = removing->last };
    for (size_t i = 0; i < catalog->child_count; i++)
        snprintf(marked->children[i], sizeof marked->children[i], "%.*s",
                 VIEW_ARGS(catalog->children[i]));
    removing->last = marked;
    return HF_OK;
}

/* HELD: some child still has a catalog. */
static enum hf_status check_children_gone(struct removing *removing,
                                          const struct marked *marked, struct hf_error *error)
{
    for (size_t i = 0; i < marked->child_count; i++) {
        struct catalog_ref *child;
        enum hf_status status =
            catalog_tree_ref(removing->tree, view_of(marked->children[i]), &child, error);
        if (status == HF_OK)
            status = catalog_ref_show(child, NULL, NULL, error);
        if (status != HF_NOT_FOUND)
            return status == HF_OK ? error_set(error, HF_HELD, "a child is still there")
                                   : status;
    }
    return error_clear(error);
}

/* Whether a lease that is not settled has an output with this home. */
struct output_search {
    struct view home;
    bool found;
};

static void look_for_outputs(void *argument, const struct lease_table *table,
                             const struct evidence *evidence)
{
    struct output_search *search = argument;
    (void)evidence;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        search->found |= lease->output.size > 0 && lease->status != LEASE_COMPLETED &&
                         view_equal(layout_home(lease->output), search->home);
    }
}

/* The catalog above, or "". The walk has read this one. */
static void copy_parent(struct catalog_ref *ref, char ret_parent[PARTITION_BYTES_MAX + 1])
{
    env_mutex_lock(&ref->tree->mutex);
    memcpy(ret_parent, ref->route.parent, PARTITION_BYTES_MAX + 1);
    env_mutex_unlock(&ref->tree->mutex);
}

/* HELD: a lease in the table of a catalog above has an output that only this catalog can condemn.
 * Without it, the lease could never be settled, and the table above would stay. */
static enum hf_status check_outputs_settled(struct catalog_ref *ref, struct hf_error *error)
{
    struct output_search search = { .home = view_of(ref->partition) };
    char above[PARTITION_BYTES_MAX + 1];
    enum hf_status status = HF_OK;
    copy_parent(ref, above);
    for (int depth = 0; depth <= CATALOG_TREE_DEPTH_MAX && above[0]; depth++) {
        struct catalog_ref *parent;
        status =
            chunks_look(ref->tree->client, view_of(above), look_for_outputs, &search, error);
        if (status == HF_OK && search.found)
            status = error_set(error, HF_HELD, "a lease above has an output of this catalog");
        if (status == HF_OK)
            status = catalog_tree_ref(ref->tree, view_of(above), &parent, error);
        if (status != HF_OK)
            return status;
        copy_parent(parent, above);
    }
    return status;
}

/* ---- Deleting ------------------------------------------------------------------------ */

static void look_whether_spent(void *argument, const struct catalog *catalog,
                               const struct evidence *evidence)
{
    *(bool *)argument = catalog_is_spent(catalog, evidence);
}

/* CONFLICT: other clients have finished the drop, and the partition may have been created again.
 * So what was found under its name before this call belongs to a partition that is dropped. */
static enum hf_status check_still_spent(const struct marked *marked, struct hf_error *error)
{
    bool spent = false;
    enum hf_status status = catalog_ref_show(marked->ref, look_whether_spent, &spent, error);
    if ((status == HF_OK && !spent) || status == HF_NOT_FOUND)
        return error_set(error, HF_CONFLICT, "the partition was dropped meanwhile");
    return status;
}

/* Deletes the objects of one page of a listing. A delete that arrives late hits nothing else: the
 * names of chunks are never used again, and the other objects are deleted in the version that was
 * listed, if the store can do that. */
static enum hf_status delete_leftovers(struct removing *removing, const struct marked *marked,
                                       const struct list_call *page, struct hf_error *error)
{
    struct store *store = removing->tree->store;
    struct delete_call *calls = removing->calls;
    enum hf_status status = check_still_spent(marked, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < page->count; i++) {
        calls[i] = (struct delete_call){ .key = page->entries[i].key };
        if (store->traits.delete_conditional)
            calls[i].condition = if_match(&page->entries[i].info.etag);
    }
    store_delete_many(store, calls, page->count);
    for (size_t i = 0; i < page->count; i++) {
        bool gone = calls[i].error.status == HF_OK || calls[i].error.status == HF_NOT_FOUND;
        *removing->deleted += gone;
        if (!gone && status == HF_OK) {
            *error = calls[i].error;
            status = error->status;
        }
    }
    return status;
}

/* Deletes all objects with this prefix. They belong to the partition by their names, no catalog
 * lists them, and none ever will. *ret_all: nothing is left. */
static enum hf_status delete_prefix(struct removing *removing, const struct marked *marked,
                                    const char *prefix, bool *ret_all, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    *ret_all = false;
    for (int page = 0; page < PAGES_MAX && status == HF_OK && !*ret_all; page++) {
        struct list_call list = { .prefix = view_of(prefix), .max = BATCH_MAX };
        if (!removing_goes_on(removing))
            return HF_OK;
        status = store_list(removing->tree->store, &list);
        *error = list.error;
        *ret_all = status == HF_OK && list.count == 0;
        if (status == HF_OK && list.count > 0)
            status = delete_leftovers(removing, marked, &list, error);
        list_release(&list);
    }
    return status;
}

static enum hf_status delete_unlisted(struct removing *removing, const struct marked *marked,
                                      bool *ret_all, struct hf_error *error)
{
    static const char *const folders[] = {
        LAYOUT_DATA_FOLDER,
        LAYOUT_KEPT_FOLDER LAYOUT_DATA_FOLDER,
        LAYOUT_ROSTER_FOLDER "compact-",
    };
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char prefix[KEY_BYTES_MAX + 1];
        snprintf(prefix, sizeof prefix, "%s%s/", folders[i], marked->ref->partition);
        enum hf_status status = delete_prefix(removing, marked, prefix, ret_all, error);
        if (status != HF_OK || !*ret_all)
            return status;
    }
    return HF_OK;
}

/* Deletes a document that only informs, or that a client writes unconditionally anyway. */
static enum hf_status delete_document(struct removing *removing, const struct marked *marked,
                                      const char *leaf, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    if (!layout_partition_key(view_of(marked->ref->partition), leaf, key))
        return HF_OK;
    struct list_call list = { .prefix = view_of(key), .max = 1 };
    enum hf_status status = store_list(removing->tree->store, &list);
    *error = list.error;
    if (status == HF_OK && list.count > 0 && view_equal(list.entries[0].key, view_of(key)))
        status = delete_leftovers(removing, marked, &list, error);
    list_release(&list);
    return status;
}

/* ---- The catalog itself -------------------------------------------------------------- */

/* Deletes the catalog if it is still the version that was just found to be spent: a lease may have
 * been settled since then, which condemns a name. */
static enum hf_status delete_catalog(struct catalog_ref *ref, bool conditional,
                                     struct hf_error *error)
{
    struct etag before, after;
    bool spent = false;
    bool known = catalog_ref_etag(ref, &before);
    enum hf_status status = catalog_ref_show(ref, look_whether_spent, &spent, error);
    if (status != HF_OK)
        return status == HF_NOT_FOUND ? error_clear(error) : status;
    if (!spent || !known || !catalog_ref_etag(ref, &after) || !etag_equal(&before, &after))
        return error_set(error, HF_CONFLICT, "the catalog has just changed");
    struct delete_call call = { .key = catalog_ref_key(ref) };
    if (conditional)
        call.condition = if_match(&after);
    status = store_delete(ref->tree->store, &call);
    *error = call.error;
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}

static enum hf_status remove_catalog(struct removing *removing, const struct marked *marked,
                                     struct hf_error *error)
{
    struct catalog_ref *ref = marked->ref;
    bool conditional = removing->tree->store->traits.delete_conditional;
    if (conditional || marked->is_child)
        return delete_catalog(ref, conditional, error);
    struct catalog_op op = { .kind = CATALOG_DROPPED };
    enum hf_status status = catalog_ref_apply(ref, &op, (struct mono_time){ 0 });
    *error = op.error;
    return status;
}

/* No catalog of the partition lists an object any more, and none ever will. HELD: a path must still
 * wait. If the catalog were removed first, nobody would know that its paths are to be released. */
static enum hf_status release_registered(struct removing *removing, struct hf_error *error)
{
    size_t left;
    enum hf_status status = release_all(removing->tree, /* unused */ true, &left, error);
    return status == HF_OK && left > 0 ? error_set(error, HF_HELD, "a path is not released")
                                       : status;
}

/* The catalog goes last: until then it says what remains to be done. */
static enum hf_status remove_partition(struct removing *removing, const struct marked *marked,
                                       struct hf_error *error)
{
    const char *partition = marked->ref->partition;
    bool all = false, again = !marked->is_child;
    enum hf_status status = check_children_gone(removing, marked, error);
    if (status == HF_OK)
        status = check_outputs_settled(marked->ref, error);
    if (status == HF_OK)
        status = delete_unlisted(removing, marked, &all, error);
    if (status == HF_OK && all)
        status = check_still_spent(marked, error);
    if (status != HF_OK || !all)
        return status;
    if (!marked->is_child)
        status = release_registered(removing, error);
    if (status != HF_OK)
        return status;
    status = chunks_remove(removing->tree->client, view_of(partition), again, error);
    if (status == HF_UNSUPPORTED && again)
        status = error_clear(error);
    if (status == HF_OK)
        status = delete_document(removing, marked, LAYOUT_JOBS, error);
    if (status == HF_OK)
        status = delete_document(removing, marked, LAYOUT_PAUSE, error);
    return status == HF_OK ? remove_catalog(removing, marked, error) : status;
}

enum hf_status drop_remove(struct catalog_tree *tree, const struct drop_options *options,
                           uint64_t *deleted, struct hf_error *error)
{
    struct removing removing = {
        .tree = tree, .options = options, .arena = ARENA_INIT, .deleted = deleted
    };
    enum hf_status status = catalog_tree_walk(tree, list_spent, &removing, error);
    if (removing.last)
        removing.calls = arena_take(&removing.arena, BATCH_MAX * sizeof *removing.calls);
    if (removing.no_memory || (removing.last && !removing.calls))
        status = error_no_memory(error);
    if (status == HF_NOT_FOUND)
        status = error_clear(error);
    for (const struct marked *marked = removing.last; marked; marked = marked->before) {
        if (status != HF_OK || !removing_goes_on(&removing))
            break;
        status = remove_partition(&removing, marked, error);
        /* Another client is still using it, or is removing it too. */
        if (status == HF_HELD || status == HF_CONFLICT)
            status = error_clear(error);
    }
    arena_release(&removing.arena);
    return status;
}
