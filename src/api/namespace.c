/* SPDX-License-Identifier: Apache-2.0 */
/* namespace.c: creates namespaces whose locks on paths are in pages, and reads the placement of a
 * namespace. The rules are in lock/placement.h. */
#include "api/store.h"
#include "lock/tables.h"

static enum hf_status create_namespace(struct hf_store *store, struct view ns,
                                       const struct hf_placement *wanted,
                                       struct hf_error *error)
{
    const struct placement placement = { wanted->pages, wanted->segments };
    enum hf_status status = placement_check(&placement, error);
    if (status == HF_OK)
        status = namespace_check(ns, error);
    if (status == HF_OK)
        status = store_handle_check_locks(store, error);
    if (status == HF_OK)
        status = placement_create(store->store, ns, &placement, error);
    /* Clients that this handle opens from now on use the pages. */
    return status == HF_OK ? store_handle_read_placements(store, error) : status;
}

enum hf_status hf_namespace_create(struct hf_store *store, const char *ns,
                                   const struct hf_placement *placement, struct hf_error *error)
{
    struct hf_placement used = HF_PLACEMENT;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, store, ns, placement) != HF_OK ||
        READ_OPTIONS(HF_PLACEMENT, placement, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = create_namespace(store, view_of(ns), &used, &why);
    return error_tell(error, status, &why);
}

enum hf_status hf_namespace_placement(struct hf_store *store, const char *ns,
                                      struct hf_placement *ret_placement,
                                      struct hf_error *error)
{
    struct hf_placement filled = HF_PLACEMENT;
    struct placement found;
    struct hf_error why;
    if (CHECK_REPORT(HF_PLACEMENT, ret_placement, error) != HF_OK ||
        ERROR_IF_NULL(error, store, ns, ret_placement) != HF_OK)
        return HF_INVALID;
    enum hf_status status = namespace_check(view_of(ns), &why);
    if (status == HF_OK)
        status = store_handle_check_locks(store, &why);
    if (status == HF_OK)
        status = store_handle_read_placements(store, &why);
    if (status == HF_OK)
        status = placement_find(store_handle_placements(store), view_of(ns), &found, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    filled.pages = found.pages;
    filled.segments = found.pages > 0 ? found.segments : filled.segments;
    write_caller_report(ret_placement, &filled, sizeof filled);
    return error_clear(error);
}
