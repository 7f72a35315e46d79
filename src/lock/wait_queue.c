/* SPDX-License-Identifier: Apache-2.0 */
/* wait_queue.c: this process's waiters for one table, one of which polls the table for all of
 * them. It guards against one poll per waiter, against a lost wake-up when the polling waiter
 * leaves, and against all waiters writing at the same time when a lease has expired. */
#include "lock/wait_queue.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "lock/client_inside.h"

#include <stdlib.h>

/* Waiters act on a proof in the order of the queue, all of them within this time. */
#define STAGGER_MAX SPAN_S(2)

/* The time limit of one poll. If it fails, the next one may succeed. */
#define READ_TIME SPAN_S(2)

/* The pause after a takeover attempt that changed nothing. */
#define TAKEOVER_PAUSE SPAN_MS(100)

void wait_queue_init(struct wait_queue *queue, struct env *env)
{
    *queue = (struct wait_queue){ .next_poll_at = { 0 },
                                  .soon_at = { MOMENT_FAR },
                                  .takeover_at = { MOMENT_FAR } };
    env_mutex_init(env, &queue->mutex);
}

void wait_queue_release(struct wait_queue *queue)
{
    check(queue->waiter_count == 0);
    free(queue->waiters);
    env_mutex_release(&queue->mutex);
}

/* ---- Waiters --------------------------------------------------------------------------- */

/* The index of the waiter with this number, or the index where it would be inserted. */
static size_t waiter_index(const struct wait_queue *queue, uint64_t number)
{
    size_t low = 0, high = queue->waiter_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (queue->waiters[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room_locked(struct wait_queue *queue)
{
    if (queue->waiter_count < queue->waiter_capacity)
        return true;
    size_t more = queue->waiter_capacity > 0 ? 2 * queue->waiter_capacity : 8;
    struct queue_waiter **waiters =
        realloc(queue->waiters, more * sizeof(struct queue_waiter *));
    if (!waiters)
        return false;
    queue->waiters = waiters;
    queue->waiter_capacity = more;
    return true;
}

enum hf_status wait_queue_enter(struct table_ref *ref, struct queue_waiter *waiter,
                                struct hf_error *error)
{
    struct wait_queue *queue = &ref->queue;
    enum hf_status status = HF_OK;
    env_mutex_lock(&queue->mutex);
    if (queue->waiter_count >= WAIT_QUEUE_MAX)
        status =
            error_set(error, HF_UNAVAILABLE, "too many waiters for this lock in one process");
    else if (!make_room_locked(queue))
        status = error_no_memory(error);
    if (status == HF_OK) {
        size_t index = waiter_index(queue, waiter->number);
        memmove(&queue->waiters[index + 1], &queue->waiters[index],
                (queue->waiter_count - index) * sizeof(struct queue_waiter *));
        queue->waiters[index] = waiter;
        queue->waiter_count++;
        waiter->queued = waiter->turn = waiter->missing = false;
        waiter->cancelled = waiter->cancelled || queue->closed;
        /* A newcomer may only make the next poll earlier. If it could delay the poll, a steady
         * stream of newcomers would prevent every poll. */
        struct mono_time poll_at = mono_add(env_now(ref->client->env), waiter->poll);
        queue->next_poll_at =
            queue->waiter_count == 1 ? poll_at : mono_earlier(queue->next_poll_at, poll_at);
        if (queue->waiter_count == 1)
            queue->soon_at = (struct mono_time){ MOMENT_FAR };
    }
    env_mutex_unlock(&queue->mutex);
    return status;
}

/* Wakes another waiter to poll, if no task is polling any more. Otherwise the waiters would sleep
 * until their deadlines. A waiter that has its turn is not chosen, because it will not poll. */
static void wake_poller_locked(struct wait_queue *queue)
{
    if (queue->polling)
        return;
    for (size_t i = 0; i < queue->waiter_count; i++)
        if (queue->waiters[i]->asleep && !queue->waiters[i]->turn) {
            env_cond_signal(&queue->waiters[i]->wake);
            return;
        }
}

void wait_queue_leave(struct table_ref *ref, struct queue_waiter *waiter)
{
    struct wait_queue *queue = &ref->queue;
    env_mutex_lock(&queue->mutex);
    size_t index = waiter_index(queue, waiter->number);
    check(index < queue->waiter_count && queue->waiters[index] == waiter);
    queue->waiter_count--;
    memmove(&queue->waiters[index], &queue->waiters[index + 1],
            (queue->waiter_count - index) * sizeof(struct queue_waiter *));
    wake_poller_locked(queue);
    env_mutex_unlock(&queue->mutex);
}

void wait_queue_mark_queued(struct table_ref *ref, struct queue_waiter *waiter)
{
    env_mutex_lock(&ref->queue.mutex);
    waiter->queued = true;
    env_mutex_unlock(&ref->queue.mutex);
}

void wait_queue_clear_turn(struct table_ref *ref, struct queue_waiter *waiter)
{
    env_mutex_lock(&ref->queue.mutex);
    waiter->turn = false;
    env_mutex_unlock(&ref->queue.mutex);
}

/* ---- Reading tables that were seen --------------------------------------------------- */

/* Our waiter with this id, or NULL if the id belongs to another process. */
static struct queue_waiter *waiter_of(const struct table_ref *ref, struct view id)
{
    const struct wait_queue *queue = &ref->queue;
    const char *session = ref->client->session;
    if (id.size <= NONCE_SIZE + 1 || memcmp(id.data, session, NONCE_SIZE) != 0)
        return NULL;
    uint64_t number;
    if (parse_u64(view_from(id, NONCE_SIZE + 1), UINT64_MAX, &number, NULL) != HF_OK)
        return NULL;
    size_t index = waiter_index(queue, number);
    bool found = index < queue->waiter_count && queue->waiters[index]->number == number;
    return found ? queue->waiters[index] : NULL;
}

/* Wakes a waiter's task. A task that is waiting for the store's notification does not wait on its
 * condition, and this process's own writes do not notify it. So it is woken by a notification that
 * is sent only for this purpose. */
static void wake_locked(struct table_ref *ref, struct queue_waiter *waiter)
{
    if (waiter == ref->queue.listener)
        store_session_ring_own(&ref->client->presence);
    else
        env_cond_signal(&waiter->wake);
}

void wait_queue_cancel(struct table_ref *ref, struct queue_waiter *waiter)
{
    env_mutex_lock(&ref->queue.mutex);
    waiter->cancelled = true;
    wake_locked(ref, waiter);
    env_mutex_unlock(&ref->queue.mutex);
}

void wait_queue_cancel_begin(struct table_ref *ref, struct queue_waiter *waiter)
{
    env_mutex_lock(&ref->queue.mutex);
    waiter->cancelling++;
    env_mutex_unlock(&ref->queue.mutex);
    wait_queue_cancel(ref, waiter);
}

void wait_queue_cancel_end(struct table_ref *ref, struct queue_waiter *waiter)
{
    env_mutex_lock(&ref->queue.mutex);
    check(waiter->cancelling > 0);
    waiter->cancelling--;
    env_mutex_unlock(&ref->queue.mutex);
}

void wait_queue_clear_cancel(struct table_ref *ref, struct queue_waiter *waiter)
{
    env_mutex_lock(&ref->queue.mutex);
    waiter->cancelled = waiter->cancelling > 0;
    env_mutex_unlock(&ref->queue.mutex);
}

bool wait_queue_is_cancelled(struct table_ref *ref, const struct queue_waiter *waiter)
{
    env_mutex_lock(&ref->queue.mutex);
    bool cancelled = waiter->cancelled;
    env_mutex_unlock(&ref->queue.mutex);
    return cancelled;
}

void wait_queue_close(struct table_ref *ref)
{
    struct wait_queue *queue = &ref->queue;
    env_mutex_lock(&queue->mutex);
    queue->closed = true;
    for (size_t i = 0; i < queue->waiter_count; i++) {
        queue->waiters[i]->cancelled = true;
        wake_locked(ref, queue->waiters[i]);
    }
    env_mutex_unlock(&queue->mutex);
}

/* How many waiters that have their turn are looked up at each reading of the table. */
#define TURNS_LOOKED_UP 4

/* Whether a waiter has its turn and its process has ended, so that nobody will claim the turn. */
static bool is_turn_of_gone(const struct table_ref *ref, const struct lease_table *table)
{
    size_t turns = 0;
    for (size_t i = 0; i < table->waiter_count && turns < TURNS_LOOKED_UP; i++) {
        if (!table->waiters[i].reserved)
            continue;
        turns++;
        if (client_waiter_gone(ref->client, &table->waiters[i].wanted->asked))
            return true;
    }
    return false;
}

/* When this process may act on a proof. The first waiter in the queue acts first, and each later
 * one a round trip after the one before it. So a thousand waiters do not write at the same time,
 * and the later ones see what the first one wrote. */
static struct mono_time takeover_time(const struct table_ref *ref,
                                      const struct lease_table *table,
                                      const struct evidence *evidence, size_t position)
{
    struct mono_time due =
        is_turn_of_gone(ref, table) ? evidence->now : table_due_at(table, evidence);
    if (due.us >= MOMENT_FAR)
        return due;
    struct span round_trip = doc_round_trip(ref->doc);
    int64_t most = STAGGER_MAX.us / (round_trip.us + 1);
    struct span stagger =
        (int64_t)position < most ? SPAN_US((int64_t)position * round_trip.us) : STAGGER_MAX;
    return mono_add(due, stagger);
}

/* When a waiter with its turn may claim it. After a missed turn, several waiters get the next one
 * together. They claim it in the order of the queue, a round trip apart, so that a living one is
 * rarely overtaken. */
static struct mono_time claim_time(const struct table_ref *ref, const struct lease_table *table,
                                   const struct evidence *evidence, size_t index)
{
    int64_t before = 0;
    for (size_t i = 0; table->missed > 0 && i < index; i++)
        before += table->waiters[i].reserved;
    struct span round_trip = span_smaller(doc_round_trip(ref->doc), STAGGER_MAX);
    return mono_add(evidence->now, span_smaller(SPAN_US(before * round_trip.us), STAGGER_MAX));
}

/* ---- When to poll -------------------------------------------------------------------- */

/* Sets the times of the next reads from what is known about the line (line.h). */
static void plan_reads_locked(struct table_ref *ref, struct mono_time now)
{
    struct wait_queue *queue = &ref->queue;
    queue->soon_at = (struct mono_time){ MOMENT_FAR };
    if (store_session_listens(&ref->client->presence))
        return;
    queue->soon_at = line_read_at(&queue->line, now);
    queue->next_poll_at = line_poll_at(&queue->line, queue->next_poll_at, now);
}

/* ---- Learning ------------------------------------------------------------------------ */

void wait_queue_learn(void *argument, const void *body, const struct evidence *evidence)
{
    struct table_ref *ref = argument;
    struct wait_queue *queue = &ref->queue;
    const struct lease_table *table = body;
    size_t first = table->waiter_count;
    atomic_store(&queue->has_line, table->waiter_count > 0);
    env_mutex_lock(&queue->mutex);
    if (queue->waiter_count > 0) {
        /* Only a waiter that is known to have been in the table can be missing from it. The
         * request of any other waiter may still be in progress. */
        for (size_t i = 0; i < queue->waiter_count; i++)
            queue->waiters[i]->missing = queue->waiters[i]->queued;
        for (size_t i = 0; i < table->waiter_count; i++) {
            struct queue_waiter *waiter = waiter_of(ref, table->waiters[i].wanted->asked.id);
            if (!waiter)
                continue;
            if (first == table->waiter_count) {
                first = i;
                line_note(&queue->line, waiter->number, waiter->poll, i,
                          table->waiters[i].reserved, evidence->now);
                plan_reads_locked(ref, evidence->now);
            }
            waiter->missing = false;
            /* A turn is set here and cleared only by the waiter's own claim. If the turn has been
             * withdrawn meanwhile, the claim finds that out. */
            if (table->waiters[i].reserved && !waiter->turn) {
                waiter->turn = true;
                waiter->turn_at = claim_time(ref, table, evidence, i);
                wake_locked(ref, waiter);
            }
        }
        MUTANT(mutant_takes_handed_lease(ref, table));
        for (size_t i = 0; i < queue->waiter_count; i++)
            if (queue->waiters[i]->missing)
                wake_locked(ref, queue->waiters[i]);
        queue->takeover_at = takeover_time(ref, table, evidence, first);
    }
    env_mutex_unlock(&queue->mutex);
}

/* ---- Reading tables ------------------------------------------------------------------ */

/* After each reading, of a table that may be unchanged: a waiter may have ended after it was given
 * its turn, and the next poll may be due soon. */
static void look_again(void *argument, const void *body, const struct evidence *evidence)
{
    struct table_ref *ref = argument;
    bool gone = is_turn_of_gone(ref, body);
    env_mutex_lock(&ref->queue.mutex);
    if (gone)
        ref->queue.takeover_at = mono_earlier(ref->queue.takeover_at, evidence->now);
    if (ref->queue.waiter_count > 0)
        plan_reads_locked(ref, evidence->now);
    env_mutex_unlock(&ref->queue.mutex);
}

/* The table does not exist any more, so all queued waiters must join the queue again. */
static void mark_all_missing(struct table_ref *ref)
{
    struct wait_queue *queue = &ref->queue;
    env_mutex_lock(&queue->mutex);
    for (size_t i = 0; i < queue->waiter_count; i++) {
        queue->waiters[i]->missing = queue->waiters[i]->queued;
        if (queue->waiters[i]->missing)
            wake_locked(ref, queue->waiters[i]);
    }
    env_mutex_unlock(&queue->mutex);
}

/* Reads the table if it has changed. The document passes it to wait_queue_learn. */
static void poll_table(struct table_ref *ref)
{
    struct hf_error error;
    struct mono_time deadline = mono_add(env_now(ref->client->env), READ_TIME);
    enum hf_status status = doc_look(ref->doc, deadline, look_again, ref, &error);
    if (status == HF_NOT_FOUND)
        mark_all_missing(ref);
    if (status != HF_CORRUPT)
        return;
    /* A request that changes nothing, but causes a damaged table to be replaced. If all clients
     * only waited, nothing else would replace the table. */
    struct request request, *requests[] = { &request };
    request_init(&request, ref, TABLE_KEEP, deadline);
    table_ref_ask(ref, requests, 1);
}

/* Marks leases that are proven to have ended as expired, which gives a waiter its turn. Reads the
 * table first: the lease may have been renewed, or another client may have acted already. */
static void take_over_ended(struct table_ref *ref)
{
    struct wait_queue *queue = &ref->queue;
    struct env *env = ref->client->env;
    poll_table(ref);
    env_mutex_lock(&queue->mutex);
    bool due = !mono_before(env_now(env), queue->takeover_at);
    if (due) /* if the attempt changes nothing, the next one must not follow immediately */
        queue->takeover_at = mono_add(env_now(env), TAKEOVER_PAUSE);
    env_mutex_unlock(&queue->mutex);
    if (!due)
        return;
    struct request request, *requests[] = { &request };
    request_init(&request, ref, TABLE_SCAVENGE, mono_add(env_now(env), READ_TIME));
    table_ref_ask(ref, requests, 1);
}

/* Reads the table, or acts on a proof, whichever is due. Called with the mutex held; the mutex is
 * released during requests, because every reply takes it in wait_queue_learn. */
static void poll_if_due_locked(struct table_ref *ref, const struct queue_waiter *waiter,
                               bool notified)
{
    struct wait_queue *queue = &ref->queue;
    struct env *env = ref->client->env;
    struct mono_time now = env_now(env);
    bool proof_due = !mono_before(now, queue->takeover_at);
    bool poll_due = !mono_before(now, queue->next_poll_at);
    if (poll_due || notified) {
        struct span poll = waiter->poll;
        for (size_t i = 0; i < queue->waiter_count; i++)
            poll = span_smaller(poll, queue->waiters[i]->poll);
        queue->next_poll_at =
            mono_add(now, SPAN_US(poll.us - env_jitter(env, SPAN_US(poll.us / 8)).us));
    }
    env_mutex_unlock(&queue->mutex);
    if (proof_due)
        take_over_ended(ref);
    else if (poll_due || notified)
        poll_table(ref);
    env_mutex_lock(&queue->mutex);
}

/* ---- Waiting ------------------------------------------------------------------------- */

static enum wait_queue_news news_of_locked(const struct queue_waiter *waiter)
{
    return waiter->cancelled ? QUEUE_CANCELLED
           : waiter->turn    ? QUEUE_TURN
           : waiter->missing ? QUEUE_MISSING
                             : QUEUE_NOTHING;
}

/* Waits for a notification, or for the next poll or proof. */
static void await_poll_locked(struct table_ref *ref, struct queue_waiter *waiter,
                              struct mono_time deadline)
{
    struct wait_queue *queue = &ref->queue;
    struct store_session *presence = &ref->client->presence;
    struct mono_time until =
        mono_earlier(deadline, mono_earlier(queue->next_poll_at, queue->takeover_at));
    until = mono_earlier(until, queue->soon_at);
    bool notified = false;
    if (store_session_listens(presence)) {
        bool listened = queue->ticket != 0;
        /* Set while the mutex is still held. From now on wake_locked rings this session's bell
         * instead of signalling the condition, so no wake-up is lost in between. */
        queue->listener = waiter;
        atomic_fetch_add(&ref->client->listening, 1);
        env_mutex_unlock(&queue->mutex);
        notified = store_session_listen(presence, &queue->ticket, until);
        env_mutex_lock(&queue->mutex);
        queue->listener = NULL;
        bool alone = atomic_fetch_sub(&ref->client->listening, 1) == 1;
        /* A session's own bell rings when one of its waiters has its turn. If there is only one,
         * its claim finds out whether that is so, and the table need not be read first. */
        if (notified && listened && alone && store_session_has_bell(presence) &&
            queue->waiter_count == 1 && waiter->queued)
            waiter->turn = true;
    } else {
        env_cond_wait_until(&waiter->wake, &queue->mutex, until);
        notified = !mono_before(env_now(ref->client->env), queue->soon_at);
        if (notified) /* look_again sets the next one; if there is no reply, there is none */
            queue->soon_at = (struct mono_time){ MOMENT_FAR };
    }
    if (news_of_locked(waiter) == QUEUE_NOTHING)
        poll_if_due_locked(ref, waiter, notified);
}

enum wait_queue_news wait_queue_stagger(struct table_ref *ref, struct queue_waiter *waiter,
                                        struct mono_time deadline)
{
    struct env *env = ref->client->env;
    env_mutex_lock(&ref->queue.mutex);
    struct mono_time until = mono_earlier(deadline, waiter->turn_at);
    while (!waiter->cancelled && mono_before(env_now(env), until))
        env_cond_wait_until(&waiter->wake, &ref->queue.mutex, until);
    enum wait_queue_news news = waiter->cancelled ? QUEUE_CANCELLED : QUEUE_TURN;
    env_mutex_unlock(&ref->queue.mutex);
    return news;
}

enum wait_queue_news wait_queue_wait(struct table_ref *ref, struct queue_waiter *waiter,
                                     struct mono_time deadline)
{
    struct wait_queue *queue = &ref->queue;
    struct env *env = ref->client->env;
    env_mutex_lock(&queue->mutex);
    while (news_of_locked(waiter) == QUEUE_NOTHING && mono_before(env_now(env), deadline)) {
        /* Another task polls for us. It wakes us with news, or to become the poller. */
        if (queue->polling) {
            waiter->asleep = true;
            env_cond_wait_until(&waiter->wake, &queue->mutex, deadline);
            waiter->asleep = false;
            continue;
        }
        queue->polling = true;
        await_poll_locked(ref, waiter, deadline);
        queue->polling = false;
    }
    enum wait_queue_news news = news_of_locked(waiter);
    wake_poller_locked(queue);
    env_mutex_unlock(&queue->mutex);
    return news;
}

/* A full table refuses immediately, and so may a store. Without a pause, a client that waits would
 * send thousands of requests per second. */
static struct mono_time pause_end(const struct table_ref *ref,
                                  const struct queue_waiter *waiter)
{
    const struct hf_client *client = ref->client;
    return mono_add(env_now(client->env), span_smaller(waiter->poll, client->poll));
}

enum wait_queue_news wait_queue_pause(struct table_ref *ref, struct queue_waiter *waiter,
                                      struct mono_time deadline)
{
    struct env *env = ref->client->env;
    struct mono_time until = mono_earlier(deadline, pause_end(ref, waiter));
    env_mutex_lock(&ref->queue.mutex);
    while (!waiter->cancelled && mono_before(env_now(env), until))
        env_cond_wait_until(&waiter->wake, &ref->queue.mutex, until);
    enum wait_queue_news news = waiter->cancelled ? QUEUE_CANCELLED : QUEUE_NOTHING;
    env_mutex_unlock(&ref->queue.mutex);
    return news;
}

void wait_queue_claim_again(struct table_ref *ref, struct queue_waiter *waiter,
                            struct mono_time deadline)
{
    struct mono_time until = pause_end(ref, waiter);
    env_mutex_lock(&ref->queue.mutex);
    waiter->turn = mono_before(until, deadline);
    waiter->turn_at = until;
    env_mutex_unlock(&ref->queue.mutex);
}

void wait_queue_note_trouble(struct table_ref *ref, const struct hf_error *why)
{
    env_mutex_lock(&ref->queue.mutex);
    if (why)
        ref->queue.trouble = *why;
    else
        error_clear(&ref->queue.trouble);
    env_mutex_unlock(&ref->queue.mutex);
}

bool wait_queue_trouble(struct table_ref *ref, struct hf_error *ret_why)
{
    env_mutex_lock(&ref->queue.mutex);
    *ret_why = ref->queue.trouble;
    env_mutex_unlock(&ref->queue.mutex);
    return ret_why->status != HF_OK || doc_trouble(ref->doc, ret_why);
}

enum wait_queue_news wait_queue_poll(struct table_ref *ref, struct queue_waiter *waiter)
{
    struct wait_queue *queue = &ref->queue;
    env_mutex_lock(&queue->mutex);
    if (news_of_locked(waiter) == QUEUE_NOTHING && !queue->polling) {
        queue->polling = true;
        poll_if_due_locked(ref, waiter, /* notified */ false);
        queue->polling = false;
    }
    enum wait_queue_news news = news_of_locked(waiter);
    wake_poller_locked(queue);
    env_mutex_unlock(&queue->mutex);
    return news;
}
