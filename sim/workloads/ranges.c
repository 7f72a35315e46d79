/* SPDX-License-Identifier: Apache-2.0 */
/* ranges.c: locks on ranges of one inode, on paths and trees of a namespace, and on chunks, some
 * with several scopes in one lock. */
#include "sim/workloads/lock_work.h"

static const struct lock_wish wishes[] = {
    { "default/inode/7.json", { "inode:7" }, 1, HF_EXCLUSIVE, 0 },
    { "default/inode/7.json", { "range:7:0-4096" }, 1, HF_EXCLUSIVE, 0 },
    { "default/inode/7.json", { "range:7:4096-8192" }, 1, HF_EXCLUSIVE, 0 },
    { "default/inode/7.json", { "range:7:4000-" }, 1, HF_SHARED, 0 },
    { "default/inode/7.json", { "range:7:0-100", "range:7:8000-9000" }, 2, HF_EXCLUSIVE, 0 },
    { "default/inode/7.json", { "range:7:50-60", "range:7:200-300" }, 2, HF_SHARED, 0 },
    { "default/paths.json", { "tree:/a" }, 1, HF_EXCLUSIVE, 0 },
    { "default/paths.json", { "path:/a/b" }, 1, HF_EXCLUSIVE, 0 },
    { "default/paths.json", { "path:/ab", "tree:/a/b" }, 2, HF_EXCLUSIVE, 0 },
    { "default/paths.json", { "path:/ab" }, 1, HF_EXCLUSIVE, 0 },
    { "default/paths.json", { "tree:/a/b/c" }, 1, HF_SHARED, 0 },
    { "metadata/compaction-leases.json",
      { "chunk:data/x", "chunk:data/y" },
      2,
      HF_EXCLUSIVE,
      0 },
    { "metadata/compaction-leases.json", { "chunk:data/y", "pin:data/z" }, 2, HF_EXCLUSIVE, 0 },
    { "metadata/compaction-leases.json", { "chunk:data/z" }, 1, HF_EXCLUSIVE, 0 },
    { "metadata/compaction-leases.json", { "pin:data/x" }, 1, HF_SHARED, 0 },
};

static void *start(struct run *run)
{
    return lock_work_new(run, wishes, sizeof wishes / sizeof *wishes, /* once_per */ false);
}

static void checker(struct run *run, void *state)
{
    (void)run;
    lock_work_end(state);
}

static void free_state(void *state)
{
    lock_work_free(state);
}

const struct workload workload_ranges = {
    .name = "ranges",
    .about = "nodes hold ranges, trees and chunks, several at once; what overlaps excludes",
    .tune = lock_work_tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
