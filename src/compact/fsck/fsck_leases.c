/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_leases.c: checks that the lease tables can be read, and that no ended lease is unsettled. An
 * output that an unsettled lease names must not be taken for an orphan. */
#include "compact/care/maintain.h"
#include "compact/fsck/fsck_inside.h"
#include "lock/chunks.h"

#include <stdio.h>

/* ---- Looking at a table -------------------------------------------------------------- */

static bool is_unsettled(const struct lease *lease)
{
    return lease->output.size > 0 && lease->status != LEASE_COMPLETED;
}

struct lease_search {
    struct fsck *fsck;
    struct fsck_catalog *catalog;
    struct fsck_lease *leases;
    bool no_memory;
};

static void list_unsettled(void *argument, const struct lease_table *table,
                           const struct evidence *evidence)
{
    struct lease_search *search = argument;
    struct arena *arena = &search->fsck->arena;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (!is_unsettled(lease) || !chunks_lease_over(table, lease, evidence))
            continue;
        struct fsck_lease *found = arena_take(arena, sizeof *found);
        struct view id = arena_copy(arena, lease->id);
        if (!found || !id.data) {
            search->no_memory = true;
            return;
        }
        *found =
            (struct fsck_lease){ .id = id, .catalog = search->catalog, .next = search->leases };
        search->leases = found;
    }
}

enum hf_status fsck_leases_first(struct fsck *fsck, struct hf_error *error)
{
    struct lease_search search = { .fsck = fsck };
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < fsck->catalog_count; i++) {
        search.catalog = fsck->catalogs[i];
        if (!search.catalog->has_leases || (fsck->root.size > 0 && !search.catalog->in_scope))
            continue;
        struct view partition = search.catalog->partition;
        for (unsigned tried = 0; tried < FSCK_TRIES; tried++) {
            status = chunks_look(fsck->client, partition, list_unsettled, &search, error);
            if (status == HF_OK)
                break;
        }
        char key[KEY_BYTES_MAX + 1];
        if (fsck_is_damage(status)) {
            if (layout_partition_key(partition, LAYOUT_LEASES, key))
                fsck_report_finding(
                    fsck, HF_FSCK_BAD_LEASES, view_of(key), partition, error->why,
                    fsck_advice("the next client that needs a lease replaces it, after a "
                                "barrier, and keeps a copy"));
            status = error_clear(error);
        }
        if (search.no_memory)
            status = error_no_memory(error);
        if (status != HF_OK)
            break;
    }
    fsck->leases = search.leases;
    return status;
}

/* ---- Outputs of leases --------------------------------------------------------------- */

struct claims {
    const struct view *keys;
    size_t count;
    bool *claimed;
};

static void look_for_claims(void *argument, const struct lease_table *table,
                            const struct evidence *evidence)
{
    (void)evidence;
    struct claims *claims = argument;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        for (size_t j = 0; j < claims->count; j++)
            claims->claimed[j] |=
                is_unsettled(lease) && view_equal(lease->output, claims->keys[j]);
    }
}

/* The lease of a merge is in the table of its sources' home. After a split, that home may be an
 * ancestor of the output's catalog. */
enum hf_status fsck_claimed(struct fsck *fsck, struct view partition, const struct view *keys,
                            size_t count, bool *ret_claimed, struct hf_error *error)
{
    struct claims claims = { keys, count, ret_claimed };
    memset(ret_claimed, 0, count * sizeof *ret_claimed);
    for (int depth = 0; depth <= CATALOG_TREE_DEPTH_MAX; depth++) {
        if (partition.size == 0)
            break;
        enum hf_status status =
            chunks_look(fsck->client, partition, look_for_claims, &claims, error);
        if (status != HF_OK && !fsck_is_damage(status))
            return status;
        const struct fsck_catalog *catalog = fsck_find(fsck, partition);
        partition = catalog ? catalog->parent : VIEW("");
    }
    return error_clear(error);
}

/* ---- At the end ---------------------------------------------------------------------- */

struct lease_state {
    struct view id;
    bool found;
    char output[OUTPUT_BYTES_MAX + 1];
    char why[HF_WHY_MAX];
};

static void look_for_lease(void *argument, const struct lease_table *table,
                           const struct evidence *evidence)
{
    struct lease_state *look = argument;
    const struct lease *lease = table_find(table, look->id);
    look->found = lease && is_unsettled(lease) && chunks_lease_over(table, lease, evidence);
    if (!look->found)
        return;
    bool ended = lease->status != LEASE_ACTIVE;
    snprintf(look->output, sizeof look->output, "%.*s", VIEW_ARGS(lease->output));
    snprintf(look->why, sizeof look->why, "the lease %.*s held by %.*s %s%s",
             VIEW_ARGS(view_first(lease->id, 60)), VIEW_ARGS(view_first(lease->holder, 40)),
             ended ? "is " : "has expired", ended ? lease_status_name(lease->status) : "");
}

static enum hf_status reread_lease(struct fsck *fsck, const struct fsck_lease *lease,
                                   struct lease_state *ret_look, struct hf_error *error)
{
    *ret_look = (struct lease_state){ .id = lease->id };
    enum hf_status status =
        chunks_look(fsck->client, lease->catalog->partition, look_for_lease, ret_look, error);
    return fsck_is_damage(status) ? error_clear(error) : status;
}

/* Settles all ended leases of a table, as a worker would. */
static void settle_table(struct fsck *fsck, struct view partition)
{
    struct maintain_report report = { 0 };
    struct hf_error error;
    struct catalog_tree *tree;
    if (catalog_tree_open(fsck->store, fsck->client, partition, &tree, &error) != HF_OK)
        return;
    maintain_settle(tree, partition, NULL, 0, &report, &error);
    catalog_tree_close(tree);
}

/* Keeps the leases that are still unsettled. Copies their strings now, because the repair of one
 * lease settles all leases of its table. */
static enum hf_status keep_unsettled(struct fsck *fsck, struct hf_error *error)
{
    struct fsck_lease **link = &fsck->leases;
    while (*link) {
        struct lease_state look;
        enum hf_status status = reread_lease(fsck, *link, &look, error);
        if (status != HF_OK)
            return status;
        if (!look.found) {
            *link = (*link)->next;
            continue;
        }
        (*link)->output = arena_copy(&fsck->arena, view_of(look.output));
        (*link)->why = arena_copy(&fsck->arena, view_of(look.why)).data;
        if (!(*link)->output.data || !(*link)->why)
            return error_no_memory(error);
        link = &(*link)->next;
    }
    return HF_OK;
}

enum hf_status fsck_leases_again(struct fsck *fsck, struct hf_error *error)
{
    const struct fsck_catalog *settled = NULL;
    enum hf_status status = keep_unsettled(fsck, error);
    if (status != HF_OK)
        return status;
    for (struct fsck_lease *lease = fsck->leases; lease; lease = lease->next) {
        const char *repair =
            "can be cleaned up with " FSCK_BY_REPAIR "; the next worker will do so too";
        struct lease_state look = { .found = true };
        if (fsck->options->repair) {
            if (lease->catalog != settled)
                settle_table(fsck, lease->catalog->partition);
            settled = lease->catalog;
            status = reread_lease(fsck, lease, &look, error);
            repair = look.found ? "could not be cleaned up: check again later" : "cleaned up";
        }
        fsck_report_finding(fsck, HF_FSCK_UNSETTLED_LEASE, lease->output,
                            lease->catalog->partition, lease->why,
                            (struct fsck_repair){ repair, !look.found });
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}
