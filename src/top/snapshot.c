/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c: collects leases, and sums them up by holder. */
#include "top/snapshot.h"

#include "base/escape.h"
#include "base/owner.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 8192
#define LOCKS_AT_FIRST 64

struct snapshot *snapshot_new(struct mono_time at)
{
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (snapshot) {
        snapshot->at = at;
        snapshot->requests = HF_STATS;
    }
    return snapshot;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    arena_release(&snapshot->arena);
    free(snapshot->locks);
    free(snapshot->workers);
    free(snapshot);
}

static const char *copy_escaped(struct snapshot *snapshot, struct view prefix, struct view text,
                                size_t others)
{
    struct buffer line = BUFFER_INIT(TEXT_BYTES_MAX);
    struct view copy = { NULL, 0 };
    buffer_append(&line, prefix);
    escape_append(&line, text);
    if (others > 0)
        buffer_print(&line, " and %zu more", others);
    if (!line.failed)
        copy = arena_copy(&snapshot->arena, buffer_view(&line));
    buffer_release(&line);
    snapshot->no_memory |= !copy.data;
    return copy.data;
}

const char *snapshot_text(struct snapshot *snapshot, const char *text)
{
    return copy_escaped(snapshot, VIEW(""), view_of(text), 0);
}

/* A name stands without its kind, as the other commands write it. */
static const char *copy_scopes(struct snapshot *snapshot, const struct hf_lease_info *lease)
{
    if (lease->scope_count == 0)
        return copy_escaped(snapshot, VIEW("everything in "), view_of(lease->table), 0);
    struct view first = view_of(lease->scopes[0]);
    if (view_starts_with(first, VIEW("named:")))
        first = view_from(first, strlen("named:"));
    return copy_escaped(snapshot, VIEW(""), first, lease->scope_count - 1);
}

static struct top_lock *next_lock(struct snapshot *snapshot)
{
    if (snapshot->lock_count == TOP_LOCKS_MAX) {
        snapshot->locks_beyond++;
        return NULL;
    }
    if (snapshot->lock_count == snapshot->lock_room) {
        size_t room = snapshot->lock_room > 0 ? 2 * snapshot->lock_room : LOCKS_AT_FIRST;
        struct top_lock *more = realloc(snapshot->locks, room * sizeof *more);
        if (!more) {
            snapshot->no_memory = true;
            return NULL;
        }
        snapshot->locks = more;
        snapshot->lock_room = room;
    }
    return &snapshot->locks[snapshot->lock_count];
}

void snapshot_add_lock(struct snapshot *snapshot, const struct hf_lease_info *lease)
{
    *(lease->place > 0 ? &snapshot->waiting : &snapshot->held) += 1;
    struct top_lock *lock = next_lock(snapshot);
    if (!lock)
        return;
    const char *owner = owner_text(&snapshot->arena, lease->note, lease->holder);
    snapshot->no_memory |= !owner;
    *lock = (struct top_lock){
        .scope = copy_scopes(snapshot, lease),
        .holder = snapshot_text(snapshot, owner ? owner : ""),
        .state = lease->state,
        .mode = lease->mode,
        .barrier = lease->barrier,
        .place = lease->place,
        .waiters = lease->waiters,
        .token = lease->token,
        .held_ms = lease->held_ms,
        .remaining_ms = lease->remaining_ms,
        .ttl_ms = lease->ttl_ms,
    };
    if (!snapshot->no_memory)
        snapshot->lock_count++;
}

/* ---- Workers ------------------------------------------------------------------------- */

static int compare_holders(const void *first, const void *second)
{
    const struct top_lock *const *one = first, *const *other = second;
    return strcmp((*one)->holder, (*other)->holder);
}

static void count_for(struct top_worker *worker, const struct top_lock *lock)
{
    if (lock->place > 0) {
        worker->waiting++;
        return;
    }
    if (worker->held == 0 || lock->remaining_ms < worker->remaining_ms)
        worker->remaining_ms = lock->remaining_ms;
    if (lock->held_ms > worker->held_ms)
        worker->held_ms = lock->held_ms;
    worker->held++;
}

void snapshot_finish(struct snapshot *snapshot)
{
    size_t count = snapshot->lock_count;
    if (count == 0)
        return;
    struct top_lock **sorted = calloc(count, sizeof *sorted);
    snapshot->workers = calloc(count, sizeof *snapshot->workers);
    if (!sorted || !snapshot->workers) {
        free(sorted);
        snapshot->no_memory = true;
        return;
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = &snapshot->locks[i];
    qsort(sorted, count, sizeof *sorted, compare_holders);
    struct top_worker *worker = NULL;
    for (size_t i = 0; i < count; i++) {
        if (sorted[i]->barrier) /* nobody holds it */
            continue;
        if (!worker || strcmp(worker->holder, sorted[i]->holder) != 0) {
            worker = &snapshot->workers[snapshot->worker_count++];
            worker->holder = sorted[i]->holder;
        }
        count_for(worker, sorted[i]);
    }
    free(sorted);
}
