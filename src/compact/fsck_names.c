/* fsck_names.c: whether each key stands in one catalog, and in one that its home answers for. */
#include "compact/fsck_inside.h"

#include <stdio.h>

/* All that is said of one key, its holders first. */
struct group {
    const struct fsck_name *names;
    size_t count, holders;
};

/* Whether this catalog has the key now, and not only a reference to where it went. */
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

static enum hf_status check_twice(struct fsck *fsck, const struct group *group,
                                  struct hf_error *error)
{
    const struct fsck_name *held[2] = { NULL, NULL };
    size_t count = 0;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < group->holders && count < 2 && status == HF_OK; i++) {
        bool holds;
        status = still_holds(fsck, &group->names[i], &holds, error);
        if (status == HF_OK && holds)
            held[count++] = &group->names[i];
    }
    if (status != HF_OK || count < 2)
        return status;
    char why[HF_WHY_MAX];
    snprintf(why, sizeof why, "%s in %.*s and %s in %.*s", chunk_state_name(held[0]->state),
             VIEW_ARGS(held[0]->catalog->partition), chunk_state_name(held[1]->state),
             VIEW_ARGS(held[1]->catalog->partition));
    fsck_tell(fsck, FSCK_TWICE, held[0]->key, held[0]->catalog->partition, why, false,
              "pause compaction and take it out of one of them by hand");
    return HF_OK;
}

/* ---- In a catalog that it cannot belong to ------------------------------------------- */

/* Whether the references, as they were read, lead from a key's home to its holder. */
static bool references_lead(const struct fsck *fsck, const struct group *group)
{
    const struct fsck_catalog *at = fsck_find(fsck, layout_home(group->names[0].key));
    for (int depth = 0; at && depth <= SHELF_DEPTH_MAX; depth++) {
        if (at == group->names[0].catalog)
            return true;
        const struct fsck_catalog *next = NULL;
        for (size_t i = group->holders; i < group->count; i++)
            if (group->names[i].catalog == at && group->names[i].child < at->child_count)
                next = fsck_find(fsck, at->children[group->names[i].child]);
        at = next;
    }
    return false;
}

/* Whether a catalog may be below another: not if the way up is known and does not lead there. A
 * catalog that cannot be read, or whose parent we were not asked about, leaves it open. */
static bool may_be_below(const struct fsck *fsck, const struct fsck_catalog *catalog,
                         struct view above, bool *ret_open)
{
    *ret_open = false;
    for (int depth = 0; catalog && depth <= SHELF_DEPTH_MAX; depth++) {
        if (view_equal(catalog->partition, above))
            return true;
        *ret_open = catalog->state != FSCK_READ;
        if (*ret_open || catalog->parent.size == 0)
            return *ret_open;
        if (view_equal(catalog->parent, above))
            return true;
        catalog = fsck_find(fsck, catalog->parent);
        *ret_open = !catalog;
    }
    return true;
}

/* What its home answers must lead to where it is. Where a catalog on the way cannot be read, who
 * its ancestors are is all that is known. */
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
        snprintf(why, sizeof why, "its home %.*s does not say that it went to %.*s",
                 VIEW_ARGS(home), VIEW_ARGS(holder));
    else
        snprintf(why, sizeof why, "its home is %.*s, which %.*s does not come from",
                 VIEW_ARGS(home), VIEW_ARGS(holder));
    fsck_tell(fsck, FSCK_WRONG_HOME, name->key, holder, why, false,
              "pause compaction and take it out by hand");
    return HF_OK;
}

enum hf_status fsck_names(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0, next; i < fsck->name_count && status == HF_OK; i = next) {
        struct group group = { .names = &fsck->names[i] };
        for (next = i;
             next < fsck->name_count && view_equal(fsck->names[next].key, group.names[0].key);
             next++)
            group.holders += fsck->names[next].state != CHUNK_MOVED;
        group.count = next - i;
        if (group.holders > 1)
            status = check_twice(fsck, &group, error);
        else if (group.holders == 1)
            status = check_home(fsck, &group, error);
    }
    return status;
}
