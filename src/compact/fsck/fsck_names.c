/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_names.c: checks that each key is in only one catalog, and that its home leads to that
 * catalog. If a key is in two catalogs, its object could be deleted because of one while it is data
 * in the other. */
#include "compact/fsck/fsck_inside.h"

#include <stdio.h>

/* All names of one key, holders first. */
struct group {
    const struct fsck_name *names;
    size_t count, holders;
};

/* Whether this catalog now holds the key itself, not just a reference. */
static enum hf_status still_holds(struct fsck *fsck, const struct fsck_name *name, bool *ret_it,
                                  struct hf_error *error)
{
    struct fsck_place place;
    enum hf_status status =
        fsck_follow(fsck, name->catalog->partition, name->key, &place, error);
    *ret_it = status == HF_OK && !place.hidden && !place.homeless && !place.moved &&
              place.state != CHUNK_UNKNOWN;
    return status;
}

/* ---- In two catalogs ----------------------------------------------------------------- */

static enum hf_status check_two_holders(struct fsck *fsck, const struct group *group,
                                        struct hf_error *error)
{
    const struct fsck_name *held[2] = { NULL, NULL };
    size_t count = 0;
    for (size_t i = 0; i < group->holders; i++) {
        bool holds;
        enum hf_status status = still_holds(fsck, &group->names[i], &holds, error);
        if (status != HF_OK)
            return status;
        if (holds)
            held[count++] = &group->names[i];
        if (count == 2)
            break;
    }
    if (count < 2)
        return HF_OK;
    char why[HF_WHY_MAX];
    snprintf(why, sizeof why, "%s in %.*s and %s in %.*s", chunk_state_name(held[0]->state),
             VIEW_ARGS(held[0]->catalog->partition), chunk_state_name(held[1]->state),
             VIEW_ARGS(held[1]->catalog->partition));
    fsck_report_finding(fsck, HF_FSCK_TWICE, held[0]->key, held[0]->catalog->partition, why,
                        fsck_advice("pause compaction with 'holdfast compact pause' and remove "
                                    "it from one of them by hand"));
    return HF_OK;
}

/* ---- In a wrong catalog -------------------------------------------------------------- */

/* Whether the references, as they were read, lead from a key's home to its holder. */
static bool references_lead(const struct fsck *fsck, const struct group *group)
{
    const struct fsck_catalog *at = fsck_find(fsck, layout_home(group->names[0].key));
    for (int depth = 0; depth <= CATALOG_TREE_DEPTH_MAX; depth++) {
        if (!at || at == group->names[0].catalog)
            return at != NULL;
        const struct fsck_catalog *next = NULL;
        for (size_t i = group->holders; i < group->count; i++)
            if (group->names[i].catalog == at && group->names[i].child < at->child_count)
                next = fsck_find(fsck, at->children[group->names[i].child]);
        at = next;
    }
    return false;
}

/* Whether a catalog may descend from another. False only if all its ancestors are known and
 * the other is not among them. */
static bool may_be_below(const struct fsck *fsck, const struct fsck_catalog *catalog,
                         struct view above, bool *ret_open)
{
    *ret_open = false;
    for (int depth = 0; depth <= CATALOG_TREE_DEPTH_MAX; depth++) {
        if (view_equal(catalog->partition, above))
            return true;
        *ret_open = catalog->state != FSCK_READ;
        if (*ret_open || catalog->parent.size == 0)
            return *ret_open;
        if (view_equal(catalog->parent, above))
            return true;
        catalog = fsck_find(fsck, catalog->parent);
        *ret_open = !catalog;
        if (!catalog)
            break;
    }
    return true;
}

/* The home of a key must lead to the catalog that holds the key. If a catalog on the way cannot be
 * read, only the ancestors of the holder can be checked. */
static enum hf_status check_home(struct fsck *fsck, const struct group *group,
                                 struct hf_error *error)
{
    const struct fsck_name *name = &group->names[0];
    struct view home = layout_home(name->key), holder = name->catalog->partition;
    struct fsck_place place;
    bool open, holds;
    if (references_lead(fsck, group))
        return HF_OK;
    bool below = may_be_below(fsck, name->catalog, home, &open);
    if (below && open)
        return HF_OK;
    enum hf_status status = fsck_follow(fsck, home, name->key, &place, error);
    if (status != HF_OK || (below && place.hidden) ||
        view_equal(view_of(place.partition), holder))
        return status;
    status = still_holds(fsck, name, &holds, error);
    if (status != HF_OK || !holds)
        return status;
    char why[HF_WHY_MAX];
    if (below)
        snprintf(why, sizeof why, "its home %.*s does not record that it moved to %.*s",
                 VIEW_ARGS(home), VIEW_ARGS(holder));
    else
        snprintf(why, sizeof why, "its home is %.*s, which is not an ancestor of %.*s",
                 VIEW_ARGS(home), VIEW_ARGS(holder));
    fsck_report_finding(fsck, HF_FSCK_WRONG_HOME, name->key, holder, why,
                        fsck_advice("pause compaction with 'holdfast compact pause' and remove "
                                    "it by hand"));
    return HF_OK;
}

enum hf_status fsck_names(struct fsck *fsck, struct hf_error *error)
{
    size_t next = 0;
    while (next < fsck->name_count) {
        struct group group = { .names = &fsck->names[next] };
        while (next < fsck->name_count &&
               view_equal(fsck->names[next].key, group.names[0].key)) {
            group.holders += fsck->names[next++].state != CHUNK_MOVED;
            group.count++;
        }
        enum hf_status status = HF_OK;
        if (group.holders > 1)
            status = check_two_holders(fsck, &group, error);
        else if (group.holders == 1)
            status = check_home(fsck, &group, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}
