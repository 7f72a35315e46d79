#include "lock/keeper.h"

#include "base/check.h"
#include "lock/handle.h"

#include <stdlib.h>

/* Loose ends are tried again after this long, and closing a client waits no longer than that. */
#define TIE_UP_AGAIN SPAN_S(1)
#define CLOSE_TIME   SPAN_S(5)

/* Something to end whose request had no answer. */
struct loose_end {
    struct loose_end *next;
    struct place *place;
    enum table_op_kind kind;
    char id[LEASE_ID_MAX + 1];
    uint64_t token;
    struct mono_time try_at;
    struct mono_time give_up_at; /* nobody can mistake it for held any more */
    bool busy;
    size_t note_size;
    char note[];
};

void keeper_init(struct keeper *keeper, struct env *env)
{
    *keeper = (struct keeper){ 0 };
    env_mutex_init(env, &keeper->mutex);
    env_cond_init(env, &keeper->changed);
    env_cond_init(env, &keeper->unpinned);
}

/* ---- What is kept -------------------------------------------------------------------- */

void keeper_add_locked(struct hf_client *client, struct hf_lock *lock)
{
    struct keeper *keeper = &client->keeper;
    lock->previous = NULL;
    lock->next = keeper->first;
    if (keeper->first)
        keeper->first->previous = lock;
    keeper->first = lock;
    env_cond_broadcast(&keeper->changed);
}

void keeper_remove_locked(struct hf_client *client, struct hf_lock *lock)
{
    struct keeper *keeper = &client->keeper;
    if (lock->previous)
        lock->previous->next = lock->next;
    else
        keeper->first = lock->next;
    if (lock->next)
        lock->next->previous = lock->previous;
    lock->next = lock->previous = NULL;
    while (lock->pins > 0)
        env_cond_wait(&keeper->unpinned, &keeper->mutex);
}

static void unpin_locked(struct keeper *keeper, struct hf_lock *lock)
{
    if (--lock->pins == 0)
        env_cond_broadcast(&keeper->unpinned);
}

/* ---- The watcher --------------------------------------------------------------------- */

static void tell_locked(struct keeper *keeper, struct hf_lock *lock, enum hf_lock_event event)
{
    if (!lock->options.notify)
        return;
    lock->pins++;
    env_mutex_unlock(&keeper->mutex);
    lock->options.notify(lock->options.notify_argument, lock, event);
    env_mutex_lock(&keeper->mutex);
    unpin_locked(keeper, lock);
}

/* What is to be told of a lock now; if nothing, *next is no later than when there will be. */
static bool news_locked(struct hf_lock *lock, const struct evidence *evidence,
                        struct mono_time *next, enum hf_lock_event *ret_event)
{
    struct mono_time end = validity_end(&lock->validity, evidence);
    if (lock->gone == HF_OK && !mono_before(evidence->now, end)) {
        lock->gone = HF_EXPIRED;
        lock->tell_gone = true;
    }
    if (lock->tell_gone) {
        lock->tell_gone = lock->tell_safe = false;
        *ret_event = HF_LOCK_GONE;
        return true;
    }
    if (lock->gone != HF_OK)
        return false;
    if (lock->tell_safe) {
        lock->tell_safe = false;
        *ret_event = HF_LOCK_SAFE;
        return true;
    }
    if (!lock->in_danger && !mono_before(evidence->now, lock->danger_at)) {
        lock->in_danger = true;
        *ret_event = HF_LOCK_DANGER;
        return true;
    }
    *next = mono_earlier(*next, lock->in_danger ? end : mono_earlier(end, lock->danger_at));
    return false;
}

/* Tells one piece of news, if there is any. */
static bool tell_one_locked(struct hf_client *client, struct mono_time *next)
{
    struct evidence evidence = { .nonce = VIEW("") };
    enum hf_lock_event event;
    clock_evidence(&client->clock, &evidence);
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next)
        if (news_locked(lock, &evidence, next, &event)) {
            tell_locked(&client->keeper, lock, event);
            return true; /* the list may have changed */
        }
    return false;
}

static void start_renewer_locked(struct hf_client *client, struct mono_time *next);

static void watch(void *argument)
{
    struct hf_client *client = argument;
    struct keeper *keeper = &client->keeper;
    env_mutex_lock(&keeper->mutex);
    while (!keeper->stopping) {
        struct mono_time next = { MOMENT_FAR };
        if (tell_one_locked(client, &next))
            continue;
        start_renewer_locked(client, &next);
        env_cond_wait_until(&keeper->changed, &keeper->mutex, next);
    }
    env_mutex_unlock(&keeper->mutex);
}

/* ---- Renewing ------------------------------------------------------------------------ */

/* The leases of one table that are renewed together. */
struct renewal {
    struct place *place;
    struct hf_lock *locks[RENEW_BATCH_MAX];
    struct request *requests[RENEW_BATCH_MAX];
    size_t count;
};

static bool is_kept(const struct hf_lock *lock)
{
    return lock->gone == HF_OK && !lock->options.no_renewal;
}

/* Those that are due, or those that are not. */
static void collect_locked(struct hf_client *client, struct place *place, bool due,
                           struct renewal *renewal)
{
    struct mono_time now = env_now(client->env);
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next) {
        if (lock->place != place || !is_kept(lock) || renewal->count == RENEW_BATCH_MAX ||
            due == mono_before(now, lock->renew_at))
            continue;
        struct request *request = malloc(sizeof *request);
        if (!request)
            break;
        request_init(request, place, TABLE_RENEW, lock->validity.until);
        request->table.id = view_of(lock->id);
        request->table.token = lock->token;
        lock->pins++;
        renewal->requests[renewal->count] = request;
        renewal->locks[renewal->count++] = lock;
    }
}

/* Whether the answer means that the lease is certainly not ours any more. */
static bool is_lost(enum hf_status status)
{
    return status == HF_LOST || status == HF_MISMATCH || status == HF_NOT_FOUND;
}

static void note_renewal_locked(struct hf_client *client, struct hf_lock *lock,
                                const struct request *request)
{
    enum hf_status status = request->op.error.status;
    if (lock->gone != HF_OK)
        return;
    if (status == HF_OK) {
        struct validity validity = request_validity(request);
        lock->tell_safe = lock->in_danger;
        lock_renewed_locked(lock, &validity);
    } else if (is_lost(status)) {
        lock_gone_locked(lock, HF_LOST);
    } else {
        lock->renew_at = mono_add(env_now(client->env), SPAN_US(lock->ttl.us / 12));
    }
}

static void renew_locked(struct hf_client *client, struct place *place)
{
    struct keeper *keeper = &client->keeper;
    struct renewal renewal = { .place = place };
    collect_locked(client, place, /* due */ true, &renewal);
    collect_locked(client, place, /* due */ false,
                   &renewal); /* in the same write, if they fit */
    place->renewing = true;
    env_mutex_unlock(&keeper->mutex);
    if (renewal.count > 0)
        place_ask(place, renewal.requests, renewal.count);
    else
        env_sleep(client->env, SPAN_MS(10)); /* no memory just now */
    env_mutex_lock(&keeper->mutex);
    place->renewing = false;
    for (size_t i = 0; i < renewal.count; i++) {
        note_renewal_locked(client, renewal.locks[i], renewal.requests[i]);
        unpin_locked(keeper, renewal.locks[i]);
        free(renewal.requests[i]);
    }
    env_cond_broadcast(&keeper->changed);
}

/* ---- Loose ends ---------------------------------------------------------------------- */

static void drop_locked(struct keeper *keeper, struct loose_end *loose)
{
    struct loose_end **at = &keeper->loose;
    while (*at != loose)
        at = &(*at)->next;
    *at = loose->next;
    keeper->loose_count--;
}

static void tie_up_locked(struct hf_client *client, struct loose_end *loose)
{
    struct keeper *keeper = &client->keeper;
    loose->busy = true;
    struct mono_time now = env_now(client->env);
    env_mutex_unlock(&keeper->mutex);
    struct request request, *requests[] = { &request };
    request_init(&request, loose->place, loose->kind, mono_add(now, CLOSE_TIME));
    request.op.settle = true;
    request.table.id = view_of(loose->id);
    request.table.token = loose->token;
    request.table.note = (struct view){ loose->note, loose->note_size };
    enum hf_status status = place_ask(loose->place, requests, 1);
    bool settled = status != HF_UNSURE && status != HF_TIMEOUT && status != HF_UNAVAILABLE;
    now = env_now(client->env);
    struct place *place = loose->place;
    env_mutex_lock(&keeper->mutex);
    loose->busy = false;
    loose->try_at = mono_add(now, TIE_UP_AGAIN);
    bool over = settled || !mono_before(now, loose->give_up_at);
    if (over)
        drop_locked(keeper, loose);
    env_mutex_unlock(&keeper->mutex);
    if (over) {
        free(loose);
        place_drop(place);
    }
    env_mutex_lock(&keeper->mutex);
}

void keeper_tie_up(struct place *place, enum table_op_kind kind, struct view id, uint64_t token,
                   struct view note, struct span ttl)
{
    struct hf_client *client = place->client;
    struct keeper *keeper = &client->keeper;
    struct hf_error error;
    struct loose_end *loose = malloc(sizeof *loose + note.size);
    bool kept = loose && keeper_start(client, &error) == HF_OK;
    env_mutex_lock(&keeper->mutex);
    kept = kept && keeper->loose_count < LOOSE_ENDS_MAX;
    if (kept) {
        struct mono_time now = env_now(client->env);
        *loose = (struct loose_end){ .next = keeper->loose,
                                     .place = place,
                                     .kind = kind,
                                     .token = token,
                                     .try_at = now,
                                     .give_up_at = mono_add(now, ttl),
                                     .note_size = note.size };
        check(id.size <= LEASE_ID_MAX);
        memcpy(loose->id, id.data, id.size);
        if (note.size > 0)
            memcpy(loose->note, note.data, note.size);
        keeper->loose = loose;
        keeper->loose_count++;
        env_cond_broadcast(&keeper->changed);
    }
    env_mutex_unlock(&keeper->mutex);
    if (!kept) { /* then it ends by itself, when its time is over */
        free(loose);
        place_drop(place);
    }
}

/* ---- The renewers -------------------------------------------------------------------- */

/* The lock whose table is to be renewed next, or NULL. */
static struct hf_lock *first_due_locked(const struct keeper *keeper)
{
    struct hf_lock *first = NULL;
    for (struct hf_lock *lock = keeper->first; lock; lock = lock->next)
        if (is_kept(lock) && !lock->place->renewing &&
            (!first || mono_before(lock->renew_at, first->renew_at)))
            first = lock;
    return first;
}

static struct loose_end *first_loose_locked(const struct keeper *keeper)
{
    struct loose_end *first = NULL;
    for (struct loose_end *loose = keeper->loose; loose; loose = loose->next)
        if (!loose->busy && (!first || mono_before(loose->try_at, first->try_at)))
            first = loose;
    return first;
}

/* While stopping only loose ends are left to do, for a while. */
static bool go_on_locked(const struct keeper *keeper, struct mono_time now)
{
    return !keeper->stopping || (keeper->loose && mono_before(now, keeper->stop_at));
}

static void renew_and_tie_up(void *argument)
{
    struct hf_client *client = argument;
    struct keeper *keeper = &client->keeper;
    env_mutex_lock(&keeper->mutex);
    struct mono_time now = env_now(client->env);
    for (; go_on_locked(keeper, now); now = env_now(client->env)) {
        struct hf_lock *lock = keeper->stopping ? NULL : first_due_locked(keeper);
        struct loose_end *loose = first_loose_locked(keeper);
        struct mono_time next =
            keeper->stopping ? keeper->stop_at : (struct mono_time){ MOMENT_FAR };
        if (lock && !mono_before(now, lock->renew_at)) {
            renew_locked(client, lock->place);
            continue;
        }
        if (loose && !mono_before(now, loose->try_at)) {
            tie_up_locked(client, loose);
            continue;
        }
        if (lock)
            next = mono_earlier(next, lock->renew_at);
        if (loose)
            next = mono_earlier(next, loose->try_at);
        env_cond_wait_until(&keeper->changed, &keeper->mutex, next);
    }
    env_mutex_unlock(&keeper->mutex);
}

/* One more, when what is due is not being done; else *next is no later than when that would be
 * so. Failing to start one is no failure: there is another. */
static void start_renewer_locked(struct hf_client *client, struct mono_time *next)
{
    struct keeper *keeper = &client->keeper;
    struct hf_lock *lock = first_due_locked(keeper);
    struct hf_error error;
    if (!lock || keeper->renewer_count == RENEWERS_MAX)
        return;
    struct mono_time late = mono_add(lock->renew_at, SPAN_US(lock->ttl.us / 12));
    if (mono_before(env_now(client->env), late))
        *next = mono_earlier(*next, late);
    else if (env_task_start(client->env, renew_and_tie_up, client,
                            &keeper->renewers[keeper->renewer_count], &error) == HF_OK)
        keeper->renewer_count++;
}

enum hf_status keeper_start(struct hf_client *client, struct hf_error *error)
{
    struct keeper *keeper = &client->keeper;
    enum hf_status status = HF_OK;
    env_mutex_lock(&keeper->mutex);
    if (!keeper->watcher)
        status = env_task_start(client->env, watch, client, &keeper->watcher, error);
    if (status == HF_OK && keeper->renewer_count == 0) {
        status =
            env_task_start(client->env, renew_and_tie_up, client, &keeper->renewers[0], error);
        keeper->renewer_count = status == HF_OK ? 1 : 0;
    }
    env_mutex_unlock(&keeper->mutex);
    return status;
}

void keeper_release(struct hf_client *client)
{
    struct keeper *keeper = &client->keeper;
    env_mutex_lock(&keeper->mutex);
    check(!keeper->first);
    keeper->stopping = true;
    keeper->stop_at = mono_add(env_now(client->env), CLOSE_TIME);
    env_cond_broadcast(&keeper->changed);
    env_mutex_unlock(&keeper->mutex);
    if (keeper->watcher)
        env_task_join(client->env, keeper->watcher);
    for (size_t i = 0; i < keeper->renewer_count; i++)
        env_task_join(client->env, keeper->renewers[i]);
    while (keeper->loose) {
        struct loose_end *loose = keeper->loose;
        keeper->loose = loose->next;
        place_drop(loose->place);
        free(loose);
    }
    env_cond_release(&keeper->unpinned);
    env_cond_release(&keeper->changed);
    env_mutex_release(&keeper->mutex);
}
