/* SPDX-License-Identifier: Apache-2.0 */
/* try_many.c: acquires, releases and renews many locks in one attempt. It guards against results
 * that a single call would not have: whatever the attempt leaves undecided is undone, and reported
 * as not done. */
#include "lock/handle.h"

#include "base/check.h"
#include "lock/client_inside.h"

static enum hf_status leave_undecided(struct lock_try *it)
{
    return error_set(
        &it->error, HF_CONFLICT,
        "not done: it takes more than one write; make the call for this lock alone");
}

static bool is_in_use(struct hf_lock *lock)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    bool used = lock->state != LOCK_IDLE;
    env_mutex_unlock(&lock->client->keeper.mutex);
    return used;
}

static void begin_try(struct lock_try *it)
{
    struct hf_lock *lock = it->lock;
    env_mutex_lock(&lock->calls);
    if (it->kind == HF_TRY_RELEASE) {
        it->sent =
            lock_begin_end(lock, TABLE_RELEASE, VIEW(""), &it->request, &it->over, &it->error);
    } else if (it->kind == HF_TRY_RENEW) {
        it->sent = lock_begin_renew(lock, &it->renewal, &it->request, &it->error);
    } else if (is_in_use(lock)) { /* a waiter, or another acquire by its holder */
        leave_undecided(it);
    } else {
        table_ref_await_ended(lock->ref);
        it->sent = lock_begin_acquire(lock, it->kind == HF_TRY_BEGIN, &it->wanted, &it->request,
                                      &it->error) == HF_OK;
    }
}

/* Nothing was written: a lease that was to be released or renewed is held as before, and a waiter
 * is not in the queue. */
static void undo_try(struct lock_try *it)
{
    const struct lock_ending ending = { .held = true, .last = true };
    if (it->kind == HF_TRY_RELEASE)
        lock_resume(it->lock, &ending);
    else if (it->kind == HF_TRY_BEGIN)
        wait_queue_leave(it->lock->ref, &it->lock->waiter);
    leave_undecided(it);
}

static void end_try(struct lock_try *it)
{
    struct hf_lock *lock = it->lock;
    if (it->sent && request_is_undecided(&it->request)) {
        undo_try(it);
    } else if (it->sent && it->kind == HF_TRY_RELEASE) {
        lock_finish_end(lock, &it->request, it->over, &it->error);
    } else if (it->sent && it->kind == HF_TRY_RENEW) {
        lock_finish_renew(&it->renewal, &it->request, &it->error);
    } else if (it->sent) {
        lock_finish_acquire(lock, &it->request, &it->error);
    }
    env_mutex_unlock(&lock->calls);
}

/* Adds the requests that are releases, or those that are not. */
static size_t add_requests(struct lock_try *tries, size_t count, bool releases,
                           struct request **requests, size_t sent)
{
    for (size_t i = 0; i < count; i++)
        if (tries[i].sent && (tries[i].kind == HF_TRY_RELEASE) == releases)
            requests[sent++] = &tries[i].request;
    return sent;
}

void lock_try_many(struct lock_try *tries, size_t count)
{
    struct request *requests[EACH_MAX];
    check(count <= EACH_MAX);
    for (size_t i = 0; i < count; i++) {
        tries[i].sent = false;
        if (tries[i].lock)
            begin_try(&tries[i]);
    }
    /* What is released can be acquired in the same write. */
    size_t sent = add_requests(tries, count, /* releases */ true, requests, 0);
    sent = add_requests(tries, count, /* releases */ false, requests, sent);
    if (sent > 0)
        table_refs_ask_each(requests, sent);
    for (size_t i = 0; i < count; i++)
        if (tries[i].lock)
            end_try(&tries[i]);
}
