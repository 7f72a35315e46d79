/* fsck_leases.c: the lease tables of partitions: whether they can be read, and whether the outputs
 * of leases that are over are settled. */
#include "compact/fsck_inside.h"
#include "compact/tend.h"
#include "lock/chunks.h"

#include <stdio.h>

/* ---- Looking at a table -------------------------------------------------------------- */

static bool is_unsettled(const struct lease *lease)
{
    return lease->output.size > 0 && lease->status != LEASE_COMPLETED;
}

struct gathering {
    struct fsck *fsck;
    struct fsck_catalog *catalog;
    struct fsck_lease *leases;
    bool no_memory;
};

static void gather(void *argument, const struct lease_table *table,
                   const struct evidence *evidence)
{
    struct gathering *gathering = argument;
    struct arena *arena = &gathering->fsck->arena;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (!is_unsettled(lease) || !chunks_lease_over(table, lease, evidence))
            continue;
        struct fsck_lease *found = arena_take(arena, sizeof *found);
        struct view id = arena_copy(arena, lease->id);
        if (!found || !id.data) {
            gathering->no_memory = true;
            return;
        }
        *found = (struct fsck_lease){ .id = id,
                                      .catalog = gathering->catalog,
                                      .next = gathering->leases };
        gathering->leases = found;
    }
}

static void tell_damaged(struct fsck *fsck, const struct fsck_catalog *catalog, const char *why)
{
    char key[KEY_BYTES_MAX + 1];
    if (layout_partition_key(catalog->partition, LAYOUT_LEASES, key))
        fsck_tell(fsck, FSCK_BAD_LEASES, view_of(key), catalog->partition, why, false,
                  "who next asks for a lease keeps it aside and starts anew, after a barrier");
}

static bool is_looked_at(const struct fsck *fsck, const struct fsck_catalog *catalog)
{
    return catalog->has_leases && (fsck->root.size == 0 || catalog->in_scope);
}

enum hf_status fsck_leases_first(struct fsck *fsck, struct hf_error *error)
{
    struct gathering gathering = { .fsck = fsck };
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < fsck->catalog_count && status == HF_OK; i++) {
        gathering.catalog = fsck->catalogs[i];
        if (!is_looked_at(fsck, gathering.catalog))
            continue;
        struct view partition = gathering.catalog->partition;
        for (unsigned tried = 0; tried < FSCK_TRIES; tried++) {
            status = chunks_look(fsck->client, partition, gather, &gathering, error);
            if (status == HF_OK)
                break;
        }
        if (fsck_is_damage(status)) {
            tell_damaged(fsck, gathering.catalog, error->why);
            status = error_clear(error);
        }
        if (gathering.no_memory)
            status = error_no_memory(error);
    }
    fsck->leases = gathering.leases;
    return status;
}

/* ---- Whose output a key is ----------------------------------------------------------- */

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
    for (size_t i = 0; i < table->lease_count; i++)
        for (size_t j = 0; j < claims->count && is_unsettled(table->leases[i]); j++)
            claims->claimed[j] |= view_equal(table->leases[i]->output, claims->keys[j]);
}

/* The leases of a merge stand in the table of its sources' home, which after a split is an
 * ancestor of the catalog that the output goes to. */
enum hf_status fsck_claimed(struct fsck *fsck, struct view partition, const struct view *keys,
                            size_t count, bool *ret_claimed, struct hf_error *error)
{
    struct claims claims = { keys, count, ret_claimed };
    memset(ret_claimed, 0, count * sizeof *ret_claimed);
    for (int depth = 0; depth <= SHELF_DEPTH_MAX && partition.size > 0; depth++) {
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

struct second_look {
    struct view id;
    bool found;
    char output[OUTPUT_BYTES_MAX + 1];
    char why[HF_WHY_MAX];
};

static void look_for_lease(void *argument, const struct lease_table *table,
                           const struct evidence *evidence)
{
    struct second_look *look = argument;
    const struct lease *lease = table_find(table, look->id);
    look->found = lease && is_unsettled(lease) && chunks_lease_over(table, lease, evidence);
    if (!look->found)
        return;
    bool ended = lease->status != LEASE_ACTIVE;
    snprintf(look->output, sizeof look->output, "%.*s", VIEW_ARGS(lease->output));
    snprintf(look->why, sizeof look->why, "the lease %.*s of %.*s %s%s",
             VIEW_ARGS(view_first(lease->id, 60)), VIEW_ARGS(view_first(lease->holder, 40)),
             ended ? "is " : "is over", ended ? lease_status_name(lease->status) : "");
}

static enum hf_status look_again(struct fsck *fsck, const struct fsck_lease *lease,
                                 struct second_look *ret_look, struct hf_error *error)
{
    *ret_look = (struct second_look){ .id = lease->id };
    enum hf_status status =
        chunks_look(fsck->client, lease->catalog->partition, look_for_lease, ret_look, error);
    return fsck_is_damage(status) ? error_clear(error) : status;
}

/* Settles all of a table, as whoever compacts would. */
static void settle(struct fsck *fsck, struct view partition)
{
    struct tend_report report = { 0 };
    struct hf_error error;
    struct shelf *shelf;
    if (shelf_open(fsck->store, fsck->client, partition, &shelf, &error) != HF_OK)
        return;
    tend_settle(shelf, partition, NULL, 0, &report, &error);
    shelf_close(shelf);
}

/* Keeps those that are still not settled, with what is to be told of them: settling one table
 * settles all of it. */
static enum hf_status keep_unsettled(struct fsck *fsck, struct hf_error *error)
{
    struct fsck_lease **link = &fsck->leases;
    while (*link) {
        struct second_look look;
        enum hf_status status = look_again(fsck, *link, &look, error);
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
    for (struct fsck_lease *lease = fsck->leases; lease && status == HF_OK;
         lease = lease->next) {
        const char *repair = "can be settled, as whoever compacts next will do";
        struct second_look look = { .found = true };
        if (fsck->options->repair) {
            if (lease->catalog != settled)
                settle(fsck, lease->catalog->partition);
            settled = lease->catalog;
            status = look_again(fsck, lease, &look, error);
            repair = look.found ? "could not be settled: look again later" : "settled";
        }
        fsck_tell(fsck, FSCK_UNSETTLED_LEASE, lease->output, lease->catalog->partition,
                  lease->why, !look.found, repair);
    }
    return status;
}
