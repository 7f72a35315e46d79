/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_drop.c: the transitions that drop a partition. The mark guards against every client that
 * does not know of the drop yet: whatever it adds or commits after the mark is refused by its own
 * swap. */
#include "base/check.h"
#include "base/rule.h"
#include "compact/catalog/catalog_inside.h"

enum hf_status catalog_check_dropping(const struct catalog *catalog, struct hf_error *error)
{
    if (RULE(DROPPING_REFUSES) && catalog->is_dropping)
        return error_set(
            error, HF_NOT_FOUND,
            "the partition is being dropped; 'holdfast compact drop --dry-run' shows "
            "what is left of it");
    return HF_OK;
}

bool catalog_is_spent(const struct catalog *catalog, const struct evidence *evidence)
{
    bool is_young =
        RULE(DROP_WAITS_FOR_D) && !catalog_has_stood(catalog, &catalog->dropping,
                                                     catalog->settings.late_bound_ms, evidence);
    size_t names = catalog->live_count + catalog->dead_count + catalog->merge_count;
    return catalog->is_dropping && names == 0 && !is_young;
}

/* The chunks become tombstones, not names in deleting: a reader without a pin has the grace period
 * to finish, as after a merge. */
enum hf_status catalog_apply_drop(struct catalog *catalog, struct catalog_op *op,
                                  const struct evidence *evidence)
{
    size_t count = catalog->live_count;
    if (catalog->is_dropping) {
        op->already = true;
        return HF_OK;
    }
    struct chunk *chunks = catalog_take(catalog, (count + 1) * sizeof *chunks);
    if (!chunks || !catalog_room_graves(catalog, 1) || !catalog_reserve_keys(catalog, count))
        return error_no_memory(&op->error);
    for (size_t i = 0; i < count; i++) {
        chunks[i] = catalog->live[i];
        catalog->live[i].leaving = true;
    }
    catalog_sweep_live(catalog);
    if (count > 0) {
        struct grave grave = catalog_new_grave(evidence, VIEW(""), chunks, count);
        catalog_push_grave(catalog, &grave);
    }
    catalog->is_dropping = true;
    catalog->dropping = catalog_new_part(evidence);
    catalog->inside->unwritten = true;
    catalog->cascade = (struct hf_cascade){ 0 };
    catalog->due = (struct stamp){ 0, 0 };
    op->moved = count;
    op->changed = true;
    return HF_OK;
}

enum hf_status catalog_apply_dropped(struct catalog *catalog, struct catalog_op *op,
                                     const struct evidence *evidence)
{
    if (catalog->is_dropped) {
        op->already = true;
        return HF_OK;
    }
    if (!catalog_is_spent(catalog, evidence))
        return error_set(&op->error, HF_CONFLICT, "the catalog is still in use");
    catalog->is_dropped = true;
    op->changed = true;
    return HF_OK;
}
