/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c: completes some leases and acquires other locks in one write. It guards against a
 * result that depends on another: each is what the single call would return. */
#include "lock/handle.h"

#include "base/check.h"
#include "base/mutant.h"
#include "lock/client_inside.h"

/* One lease to complete, or one lock to acquire, as part of an exchange. */
struct exchanged {
    struct request request;
    struct lease_request wanted;
    struct hf_error why;
    bool sent, over;
};

static bool is_in_one_table(const struct lock_exchange *exchange)
{
    const struct table_ref *ref =
        exchange->done_count > 0 ? exchange->done[0]->ref : exchange->next[0]->ref;
    for (size_t i = 0; i < exchange->done_count; i++)
        if (exchange->done[i]->ref != ref)
            return false;
    for (size_t i = 0; i < exchange->next_count; i++)
        if (exchange->next[i]->ref != ref)
            return false;
    return true;
}

static void exchange_one_by_one(struct lock_exchange *exchange)
{
    struct hf_error ignored;
    for (size_t i = 0; i < exchange->done_count; i++)
        exchange->completed[i] = hf_lock_complete(exchange->done[i], /* note */ NULL, &ignored);
    for (size_t i = 0; i < exchange->next_count; i++)
        exchange->acquired[i] =
            hf_lock_acquire(exchange->next[i], /* wait_ms */ 0, &exchange->errors[i]);
}

static void exchange_in_one_write(struct lock_exchange *exchange)
{
    struct exchanged ending[LOCK_EXCHANGE_MAX], asking[LOCK_EXCHANGE_MAX];
    struct request *requests[2 * LOCK_EXCHANGE_MAX];
    struct table_ref *ref = NULL;
    size_t count = 0;
    for (size_t i = 0; i < exchange->done_count; i++) {
        struct hf_lock *lock = exchange->done[i];
        env_mutex_lock(&lock->calls);
        ref = lock->ref;
        ending[i].sent = lock_begin_end(lock, TABLE_COMPLETE, VIEW(""), &ending[i].request,
                                        &ending[i].over, &ending[i].why);
        if (ending[i].sent)
            requests[count++] = &ending[i].request;
    }
    for (size_t i = 0; i < exchange->next_count; i++) {
        struct hf_lock *lock = exchange->next[i];
        env_mutex_lock(&lock->calls);
        ref = lock->ref;
        exchange->acquired[i] = lock_begin_acquire(lock, /* waits */ false, &asking[i].wanted,
                                                   &asking[i].request, &exchange->errors[i]);
        asking[i].sent = exchange->acquired[i] == HF_OK;
        if (asking[i].sent)
            requests[count++] = &asking[i].request;
        MUTANT(mutant_claims_beside_others(&asking[i].wanted.wish));
    }
    if (count > 0)
        table_ref_ask(ref, requests, count);
    for (size_t i = 0; i < exchange->done_count; i++) {
        struct exchanged *end = &ending[i];
        exchange->completed[i] =
            end->sent ? lock_finish_end(exchange->done[i], &end->request, end->over, &end->why)
                      : end->why.status;
        env_mutex_unlock(&exchange->done[i]->calls);
    }
    for (size_t i = 0; i < exchange->next_count; i++) {
        if (asking[i].sent) {
            MUTANT(mutant_believes_in_claim(&asking[i].request));
            exchange->acquired[i] = lock_finish_acquire(exchange->next[i], &asking[i].request,
                                                        &exchange->errors[i]);
        }
        env_mutex_unlock(&exchange->next[i]->calls);
    }
}

void lock_exchange(struct lock_exchange *exchange)
{
    check(exchange->done_count <= LOCK_EXCHANGE_MAX);
    check(exchange->next_count <= LOCK_EXCHANGE_MAX);
    if (exchange->done_count + exchange->next_count == 0)
        return;
    client_active(exchange->done_count > 0 ? exchange->done[0]->client
                                           : exchange->next[0]->client);
    if (is_in_one_table(exchange))
        exchange_in_one_write(exchange);
    else
        exchange_one_by_one(exchange);
}
