/* workload_locks.c: named locks: exclusive, shared and with slots, with waiters, renewals under
 * loss, breaks, adoption, and things that are done once a period. */
#include "sim/lock_work.h"

static const struct lock_wish wishes[] = {
    { "default/meta/once.json", { "named:once" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/door.json", { "named:door" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/door.json", { "door" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_SHARED, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_SHARED, 0 },
    { "default/meta/pool.json", { "named:pool" }, 1, HF_SLOTS, 2 },
    { "default/meta/pool.json", { "named:pool" }, 1, HF_SLOTS, 2 },
};

static void *start(struct run *run)
{
    return lock_work_new(run, wishes, sizeof wishes / sizeof *wishes, /* once_per */ true);
}

static void judge(struct run *run, void *state)
{
    (void)run;
    lock_work_end(state);
}

static void free_state(void *state)
{
    lock_work_free(state);
}

const struct workload workload_locks = {
    .name = "locks",
    .about = "nodes wait for, hold and lose named locks; never two believe to hold one",
    .tune = lock_work_tune,
    .start = start,
    .judge = judge,
    .free = free_state,
};
