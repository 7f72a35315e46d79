/* SPDX-License-Identifier: Apache-2.0 */
/* served_begin.c: a wait at a server in steps (hf_lock_begin, hf_lock_poll, hf_lock_cancel). A
 * server keeps a place in its queue for as long as the request is open. So a task keeps the request
 * open, and a poll takes its result. It guards against a grant that nobody takes: whoever ends the
 * wait joins the task, and releases what it was granted. */
#include "lock/served_begin.h"

#include "base/check.h"
#include "lock/client_inside.h"

#include <stdatomic.h>
#include <stdlib.h>

struct served_begin {
    struct hf_lock *lock;
    struct env_task *task;
    struct lease_request wanted;
    struct request request;
    atomic_bool done; /* the request has its result */
};

static void keep_waiting(void *argument)
{
    struct served_begin *begun = argument;
    struct request *requests[] = { &begun->request };
    table_ref_ask(begun->lock->ref, requests, 1);
    atomic_store(&begun->done, true);
}

static enum hf_status start_begun(struct served_begin *begun, struct hf_error *error)
{
    struct hf_lock *lock = begun->lock;
    enum hf_status status =
        lock_begin_acquire(lock, /* waits */ true, &begun->wanted, &begun->request, error);
    if (status != HF_OK)
        return status;
    begun->request.op.deadline = (struct mono_time){ MOMENT_FAR };
    status = env_task_start(lock->client->env, keep_waiting, begun, &begun->task, error);
    if (status != HF_OK)
        wait_queue_leave(lock->ref, &lock->waiter);
    return status;
}

enum hf_status served_begin_start(struct hf_lock *lock, struct hf_error *error)
{
    struct served_begin *begun = calloc(1, sizeof *begun);
    check(!lock->begun);
    if (!begun)
        return error_no_memory(error);
    begun->lock = lock;
    enum hf_status status = start_begun(begun, error);
    if (status != HF_OK) {
        free(begun);
        return status;
    }
    lock->begun = begun;
    lock_set_state(lock, LOCK_WAITING);
    return error_set(error, HF_HELD, "in the queue of the server");
}

/* Waits for the task, and takes its result. The handle holds the lock afterwards, or is idle. */
static enum hf_status finish_begun(struct hf_lock *lock, struct hf_error *error)
{
    struct served_begin *begun = lock->begun;
    env_task_join(lock->client->env, begun->task);
    check(begun->request.op.error.status != HF_HELD);
    lock->begun = NULL;
    lock_set_state(lock, LOCK_IDLE);
    enum hf_status status = lock_finish_acquire(lock, &begun->request, error);
    free(begun);
    return status;
}

enum hf_status served_begin_poll(struct hf_lock *lock, struct hf_error *error)
{
    if (!atomic_load(&lock->begun->done))
        return error_set(error, HF_HELD, "in the queue of the server");
    return finish_begun(lock, error);
}

void served_begin_cancel(struct hf_lock *lock)
{
    struct request request, *requests[] = { &request };
    struct hf_error ignored;
    bool over;
    wait_queue_cancel_begin(lock->ref, &lock->waiter);
    enum hf_status status = finish_begun(lock, &ignored);
    wait_queue_cancel_end(lock->ref, &lock->waiter);
    if (status != HF_OK ||
        !lock_begin_end(lock, TABLE_RELEASE, VIEW(""), &request, &over, &ignored))
        return;
    table_ref_ask(lock->ref, requests, 1);
    lock_finish_end(lock, &request, over, &ignored);
}
