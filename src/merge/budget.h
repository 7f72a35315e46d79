/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h: the memory that all parts of a merge may use together. Any thread may take memory from
 * it. */
#ifndef MERGE_BUDGET_H
#define MERGE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct budget {
    atomic_size_t used;
    size_t limit;
};

/* False if too little is left; then nothing was taken. */
static inline bool budget_take(struct budget *budget, size_t bytes)
{
    size_t used = atomic_fetch_add(&budget->used, bytes) + bytes;
    if (used <= budget->limit)
        return true;
    atomic_fetch_sub(&budget->used, bytes);
    return false;
}

static inline void budget_give(struct budget *budget, size_t bytes)
{
    atomic_fetch_sub(&budget->used, bytes);
}

static inline size_t budget_left(const struct budget *budget)
{
    size_t used = atomic_load(&budget->used);
    return used < budget->limit ? budget->limit - used : 0;
}

#endif
