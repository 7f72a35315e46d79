/* SPDX-License-Identifier: Apache-2.0 */
/* order.c: copies of planned groups. A plan refers to the catalog that it was made from, which may
 * be replaced while a job runs. */
#include "compact/work/job.h"

#include <stdlib.h>
#include <string.h>

static bool copy_chunk(struct arena *arena, const struct chunk *from, struct chunk *to)
{
    *to = *from;
    to->key = arena_copy(arena, from->key);
    to->writer = arena_copy(arena, from->writer);
    to->object = arena_copy(arena, from->object);
    to->etag = arena_copy(arena, from->etag);
    to->run = to->quarantine = VIEW("");
    to->raw = VIEW("");
    return to->key.data && to->writer.data && to->object.data && to->etag.data;
}

/* Copies what a range job needs to know of the record. */
static bool copy_range(struct order *order, const struct plan_group *group)
{
    const struct divided_merge *merge = group->merge;
    struct arena *arena = &order->arena;
    char name[RANGE_LEASE_MAX + 1];
    uint64_t *starts = arena_take(arena, 2 * group->count * sizeof *starts);
    uint64_t *sizes = starts + group->count;
    if (!starts)
        return false;
    for (size_t i = 0; i < group->count; i++) {
        starts[i] = merge->ranges[group->range].starts[i];
        sizes[i] = range_part(merge, group->range, i, group->sources[i]->size);
    }
    bool last = group->range + 1 == merge->range_count;
    struct view to = last ? VIEW("") : merge->ranges[group->range + 1].from;
    order->parts = (struct merge_parts){
        .starts = starts,
        .sizes = sizes,
        .from = arena_copy(arena, merge->ranges[group->range].from),
        .to = arena_copy(arena, to),
    };
    memcpy(order->merge_id, merge->id.data, MERGE_ID_DIGITS);
    order->range = group->range;
    order->range_count = merge->range_count;
    range_lease_name(view_of(order->ref->partition), merge, group->range, name);
    order->lease_name = arena_copy(arena, view_of(name));
    return order->parts.from.data && order->parts.to.data && order->lease_name.data;
}

enum hf_status order_copy(struct catalog_ref *ref, const struct plan_group *group,
                          struct order **ret_order, struct hf_error *error)
{
    struct order *order = calloc(1, sizeof *order);
    if (!order)
        return error_no_memory(error);
    *order = (struct order){ .ref = ref,
                             .level = group->level,
                             .forced = group->forced,
                             .test = group->test,
                             .large = group->large,
                             .drops = group->drops,
                             .bytes = group->bytes,
                             .rows = group->rows,
                             .due = group->due,
                             .arena = ARENA_INIT };
    order->sources = arena_take(&order->arena, (group->count + 1) * sizeof *order->sources);
    bool good = order->sources != NULL;
    for (size_t i = 0; i < group->count; i++)
        good = good && copy_chunk(&order->arena, group->sources[i], &order->sources[i]);
    order->count = group->count;
    if (group->merge)
        good = good && copy_range(order, group);
    if (!good) {
        order_free(order);
        return error_no_memory(error);
    }
    *ret_order = order;
    return HF_OK;
}

void order_free(struct order *order)
{
    if (!order)
        return;
    arena_release(&order->arena);
    free(order);
}

void order_source_times(const struct order *order, int64_t *ret_min_ms, int64_t *ret_max_ms)
{
    const struct chunk *source = order->sources, *last = source + order->count - 1;
    while (source < last && chunk_is_empty(source))
        source++;
    *ret_min_ms = source->min_ms;
    *ret_max_ms = source->max_ms;
    for (; source <= last; source++) {
        if (!chunk_is_empty(source) && source->min_ms < *ret_min_ms)
            *ret_min_ms = source->min_ms;
        if (!chunk_is_empty(source) && source->max_ms > *ret_max_ms)
            *ret_max_ms = source->max_ms;
    }
}
