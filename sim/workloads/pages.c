/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c: locks on paths and trees of a namespace that keeps them in pages, as in `ranges`. Every
 * process first creates the namespace. The nodes want different numbers of pages, so the first
 * creation must win, and all nodes must use its pages. Some processes lock a path before they know
 * about pages, as a program does that opened the store earlier. They may be first as well, and all
 * paths then stay in one table.
 *
 * From time to time, a node asks for a tree that would contain paths of several pages. */
#include "base/check.h"
#include "lock/handle.h"
#include "lock/placement.h"
#include "sim/workloads/lock_inside.h"
#include "store/bucket.h"

#include <stdlib.h>

/* The numbers of pages that nodes want; the first two segments determine a page. */
static const struct placement placements[] = { { 5, 2 }, { 8, 2 } };
enum { PLACEMENTS = sizeof placements / sizeof *placements };

#define CREATE_TRIES_MAX 10000
#define CREATE_PAUSE_MS  2000
#define PLACEMENTS_BYTES ((size_t)4096)

/* The pages are not known beforehand; wishes of the same key are in the same page. */
static const struct lock_wish wishes[] = {
    { "default/paths/a/b", { "tree:/a/b" }, 1, HF_EXCLUSIVE, 0 },
    { "default/paths/a/b", { "path:/a/b/c" }, 1, HF_EXCLUSIVE, 0 },
    { "default/paths/a/b", { "path:/a/b/c/d", "tree:/a/b/c/e" }, 2, HF_EXCLUSIVE, 0 },
    { "default/paths/a/b", { "tree:/a/b/c" }, 1, HF_SHARED, 0 },
    { "default/paths/a/b", { "path:/a/b" }, 1, HF_SHARED, 0 },
    { "default/paths/a/bc", { "path:/a/bc/c" }, 1, HF_EXCLUSIVE, 0 },
    { "default/paths/a/bc", { "tree:/a/bc" }, 1, HF_SHARED, 0 },
    { "default/paths/a", { "path:/a" }, 1, HF_EXCLUSIVE, 0 },
    { "default/inode/7.json", { "range:7:0-4096" }, 1, HF_EXCLUSIVE, 0 },
};

/* Refused, because the paths under it are in several pages. */
static const struct lock_wish short_tree = {
    "default/paths.json", { "tree:/a" }, 1, HF_EXCLUSIVE, 0
};

struct paging {
    struct run *run;
    struct lock_work *work;
    struct lock_beside beside;
};

/* Asks for a lock once, and holds it if it is granted. */
static void use_once(struct process *process, const struct lock_wish *wish)
{
    struct hf_error error;
    struct use use;
    lock_use_open(&use, process, wish, /* final */ false);
    checker_asks(use.claim, CHECKER_ASKS_ONCE, 0);
    enum hf_status status = hf_lock_acquire(use.lock, 0, &error);
    USE_TRACE(&use, "asks in %.*s, and is told %s", VIEW_ARGS(doc_key(use.lock->ref->doc)),
              hf_status_name(status));
    if (status == HF_OK)
        lock_use_hold(&use, /* adopted */ false);
    else
        checker_refused(use.claim, status);
    lock_use_close(&use);
}

/* ---- Opening a client ------------------------------------------------------------------ */

/* Creates the namespace with one of the placements. MISMATCH: it has none of them. */
static enum hf_status create_once(const struct process *process, struct hf_error *error)
{
    enum hf_status status = HF_MISMATCH;
    for (unsigned i = 0; i < PLACEMENTS && status == HF_MISMATCH; i++) {
        unsigned wanted = (node_number(process->node) + i) % PLACEMENTS;
        status = placement_create(process->store, VIEW("default"), &placements[wanted], error);
    }
    return status;
}

/* Sets the client's placement, as opening a store does. */
static enum hf_status read_placement(const struct process *process, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(PLACEMENTS_BYTES);
    enum hf_status status = bucket_read_placements(process->store, &text, error);
    if (status == HF_OK)
        status = placement_find(buffer_view(&text), VIEW("default"),
                                &process->client->space.placement, error);
    buffer_release(&text);
    return status;
}

static void opened(void *argument, struct process *process)
{
    struct paging *paging = argument;
    struct hf_error error;
    enum hf_status status = HF_UNAVAILABLE;
    bool faults = process_true_now(process) < paging->run->calm_us;
    if (faults && process_one_in(process, 4))
        use_once(process, &wishes[process_below(process, 3)]);
    for (int i = 0; i < CREATE_TRIES_MAX; i++) {
        status = create_once(process, &error);
        if (status == HF_OK || status == HF_MISMATCH)
            status = read_placement(process, &error);
        if (status == HF_OK)
            break;
        env_sleep(process->env, process_up_to_ms(process, CREATE_PAUSE_MS));
    }
    trace_line(world_trace(paging->run->world), "node %u: has %u pages",
               node_number(process->node), process->client->space.placement.pages);
    if (status != HF_OK)
        world_fail(paging->run->world, "node %u cannot create the namespace: %s",
                   node_number(process->node), error.why);
}

/* ---- The workload ---------------------------------------------------------------------- */

static void act(void *argument, struct process *process)
{
    struct hf_lock *lock;
    (void)argument;
    if (hf_lock_new(process->client, short_tree.scopes[0], NULL, &lock, NULL) == HF_OK) {
        hf_lock_free(lock);
        use_once(process, &short_tree);
    }
    env_sleep(process->env, process_up_to_ms(process, 2000));
}

static void *start(struct run *run)
{
    struct paging *paging = calloc(1, sizeof *paging);
    check(paging);
    paging->run = run;
    paging->beside = (struct lock_beside){ .late_bound = lease_settings_default().late_bound,
                                           .hour = SPAN_S(3600),
                                           .keeps_tables = true,
                                           .argument = paging,
                                           .opened = opened,
                                           .act = act };
    paging->work =
        lock_work_new_beside(run, wishes, sizeof wishes / sizeof *wishes, &paging->beside);
    return paging;
}

static void checker(struct run *run, void *state)
{
    struct paging *paging = state;
    (void)run;
    lock_work_end(paging->work);
}

static void free_state(void *state)
{
    struct paging *paging = state;
    lock_work_free(paging->work);
    free(paging);
}

const struct workload workload_pages = {
    .name = "pages",
    .about = "nodes lock paths in pages, after a race to create them; what overlaps excludes",
    .tune = lock_work_tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
