/* SPDX-License-Identifier: Apache-2.0 */
/* key.c: key handles: acquire and release a key, and pass its lease on. publish.c changes the
 * state. A release never reports more than it knows: if it is unclear how a lease ended, the
 * result is UNSURE. */
#include "key/key.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/rule.h"

#include <stdio.h>
#include <stdlib.h>

/* How long an acquire waits for a decided transaction to be settled, even if it does not wait for
 * other holders. If the process that decided has died, the key is then HELD until the lease
 * expires. */
#define SETTLE_MAX   SPAN_S(2)
#define SETTLE_PAUSE SPAN_MS(100)

/* ---- Handles ------------------------------------------------------------------------- */

/* Separates a key's options from those of its lock. */
static enum hf_status split_key_options(const struct hf_key_options *options, bool *ret_staged,
                                        struct hf_lock_options *ret_lock,
                                        struct hf_error *error)
{
    struct hf_key_options used = HF_KEY_OPTIONS;
    *ret_lock = HF_LOCK_OPTIONS;
    enum hf_status status =
        read_caller_options("HF_KEY_OPTIONS", options, &used, sizeof used, error);
    *ret_staged = used.staged;
    ret_lock->ttl_ms = used.ttl_ms;
    ret_lock->no_renewal = used.no_renewal;
    ret_lock->poll_ms = used.poll_ms;
    ret_lock->note = used.note;
    ret_lock->notify = used.notify;
    ret_lock->notify_argument = used.notify_argument;
    ret_lock->unconfirmed = used.unconfirmed;
    return status;
}

/* Wraps a lock, and takes ownership of it. NULL if out of memory. */
static struct hf_key *key_around_lock(struct hf_client *client, struct view name,
                                      struct hf_lock *lock, bool staged, struct hf_txn *txn)
{
    struct hf_key *key = calloc(1, sizeof *key);
    if (!key)
        return NULL;
    check(name.size <= NAME_BYTES_MAX);
    memcpy(key->name, name.data, name.size);
    key->client = client;
    key->lock = lock;
    key->staged = staged;
    key->txn = txn;
    key->kept.bytes = BUFFER_INIT(STATE_INLINE_MAX);
    change_init(&key->enlist, CHANGE_ENLIST);
    lock->hook = &key->enlist.hook;
    env_mutex_init(client_env(client), &key->calls);
    return key;
}

enum hf_status key_new_for(struct hf_client *client, const char *name,
                           const struct hf_key_options *options, struct hf_txn *txn,
                           struct hf_key **ret_key, struct hf_error *error)
{
    struct hf_lock_options lock_options;
    struct hf_lock *lock;
    bool staged;
    char scope[sizeof "named:" + NAME_BYTES_MAX];
    enum hf_status status = split_key_options(options, &staged, &lock_options, error);
    if (status == HF_OK)
        status = name_check(view_of(name), error);
    if (status == HF_OK && staged)
        status = client_needs_bucket(client, "a key whose changes are staged", error);
    if (status != HF_OK)
        return status;
    memcpy(scope, "named:", sizeof "named:" - 1);
    memcpy(scope + sizeof "named:" - 1, name, strlen(name) + 1);
    status = hf_lock_new(client, scope, &lock_options, &lock, error);
    if (status != HF_OK)
        return status;
    struct hf_key *key = key_around_lock(client, view_of(name), lock, staged, txn);
    if (!key) {
        hf_lock_free(lock);
        return error_no_memory(error);
    }
    *ret_key = key;
    return HF_OK;
}

enum hf_status hf_key_new(struct hf_client *client, const char *name,
                          const struct hf_key_options *options, struct hf_key **ret_key,
                          struct hf_error *error)
{
    if (ret_key)
        *ret_key = NULL;
    if (ERROR_IF_NULL(error, client, name, ret_key) != HF_OK)
        return HF_INVALID;
    enum hf_status status = key_new_for(client, name, options, /* txn */ NULL, ret_key, error);
    return status == HF_OK ? error_clear(error) : status;
}

/* Frees everything except the lock. */
static void free_key_without_lock(struct hf_key *key)
{
    if (key->keeps_txn)
        txn_drop(key->txn);
    change_release(&key->enlist);
    buffer_release(&key->kept.bytes);
    env_mutex_release(&key->calls);
    free(key);
}

void key_leave_turn(struct hf_key *key)
{
    if (key->has_turn)
        local_turn_leave(key->lock->ref);
    key->has_turn = false;
}

void hf_key_free(struct hf_key *key)
{
    if (!key)
        return;
    key_leave_turn(key);
    hf_lock_free(key->lock);
    free_key_without_lock(key);
}

/* The process that takes over the lease may never change the key, so the old bodies are deleted
 * now. */
void hf_key_detach(struct hf_key *key)
{
    if (!key)
        return;
    keys_clear_up(&key, 1);
    key_leave_turn(key);
    hf_lock_detach(key->lock);
    free_key_without_lock(key);
}

struct hf_lock *hf_key_lock(struct hf_key *key)
{
    return key ? key->lock : NULL;
}

const char *hf_key_name(const struct hf_key *key)
{
    return key ? key->name : "";
}

enum hf_status hf_key_seen(struct hf_key *key, struct hf_key_info *info, struct hf_error *error)
{
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key, info) != HF_OK)
        return HF_INVALID;
    if (key->lock->adopted || hf_lock_token(key->lock) == 0)
        return error_set(error, HF_NOT_FOUND, "this handle has not acquired the key");
    env_mutex_lock(&key->calls);
    key_info_fill(&key->enlist.state, &key->enlist.state.now, HF_KEY_NONE, info);
    env_mutex_unlock(&key->calls);
    return error_clear(error);
}

enum hf_status key_lease(struct hf_key *key, struct key_lease *ret_lease)
{
    enum hf_status status = lock_lease(key->lock, ret_lease->id, &ret_lease->token);
    return status == HF_UNSURE ? HF_OK : status;
}

static struct view txn_of(const struct hf_key *key)
{
    return key->txn ? view_of(key->txn->id) : VIEW("");
}

/* ---- Acquiring ----------------------------------------------------------------------- */

/* Stores the state that the latest change has seen. */
static void keep_seen_state(struct hf_key *key, struct change *change)
{
    struct key_state before = key->enlist.state;
    key->enlist.state = change->state;
    change->state = before;
}

/* Settles another transaction's stage, whose lease must have ended because we hold the key, and
 * takes the key for our own transaction in the same write. A stage of our own transaction under an
 * earlier lease is treated in the same way: that lease has ended, so the transaction is rolled
 * back. */
static enum hf_status settle_earlier_stage(struct hf_key *key, struct hf_error *error)
{
    const struct key_state *state = &key->enlist.state;
    struct key_lease lease;
    struct change settled;
    key_lease(key, &lease);
    bool locked = RULE(STAGE_LOCKS_THE_KEY) && state->staged && state->stage.txn[0] != '\0' &&
                  state->stage.token != lease.token;
    if (!locked)
        return HF_OK;
    change_init(&settled, CHANGE_SETTLE);
    struct stage_claim claim = { view_of(lease.id), lease.token, txn_of(key) };
    enum hf_status status =
        stage_settle(key->lock->ref, view_of(key->name), &claim, &settled, error);
    if (status == HF_OK)
        keep_seen_state(key, &settled);
    change_release(&settled);
    return status;
}

/* The table can be read but the state cannot. Saves a copy of the document, and marks the state as
 * lost. The leases stay. */
static enum hf_status mark_state_lost(struct hf_key *key, struct hf_error *error)
{
    struct table_ref *ref = key->lock->ref;
    struct buffer bytes = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct change change;
    struct get_call get = { .key = doc_key(ref->doc), .body = &bytes };
    get.deadline = client_deadline(key->client);
    enum hf_status status = store_get(client_store(key->client), &get);
    *error = get.error;
    if (status == HF_OK)
        status = table_keep_aside(client_store(key->client), get.key, buffer_view(&bytes),
                                  get.deadline, error);
    buffer_release(&bytes);
    if (status != HF_OK)
        return status;
    change_init(&change, CHANGE_MEND);
    status = change_ask(ref, &change, (struct mono_time){ 0 }, error);
    change_release(&change);
    return status;
}

void key_begin_acquire_locked(struct hf_key *key)
{
    change_release(&key->enlist);
    change_init(&key->enlist, CHANGE_ENLIST);
    key->enlist.txn = key->enlist.hook.txn = txn_of(key);
    key->enlist.old = key->bodies.gone;
    key->enlist.old_count = key->bodies.gone_count;
}

static enum hf_status acquire_lease(struct hf_key *key, int64_t wait_ms, struct hf_error *error)
{
    key_begin_acquire_locked(key);
    return hf_lock_acquire(key->lock, wait_ms, error);
}

bool key_is_being_settled(struct hf_key *key)
{
    const struct key_state *state = &key->enlist.state;
    struct txn_record record;
    if (!client_is_remote(key->client) || !state->staged || state->stage.txn[0] == '\0' ||
        txn_look(key->client, view_of(state->stage.txn), &record, NULL) != HF_OK)
        return false;
    bool decided = record.state != TXN_PENDING;
    record_release(&record);
    return decided;
}

/* A caller that does not want to wait for other holders still waits until a transaction that has
 * been decided lets go of the key. That transaction waits for nothing, and this caller does not
 * join the queue meanwhile. */
static enum hf_status acquire_or_settled(struct hf_key *key, int64_t wait_ms,
                                         struct hf_error *error)
{
    enum hf_status status = acquire_lease(key, wait_ms, error);
    struct mono_time until = mono_add(client_now(key->client), SETTLE_MAX);
    while (status == HF_HELD && wait_ms <= 0 && !key->hasty &&
           mono_before(client_now(key->client), until) && key_is_being_settled(key)) {
        env_sleep(client_env(key->client), SETTLE_PAUSE);
        status = acquire_lease(key, wait_ms, error);
    }
    return status;
}

/* A lease was granted: what the handle knew about the state before no longer applies. A stage that
 * an earlier transaction has left is settled first; if that is not possible, the key is
 * released. */
enum hf_status key_finish_acquire_locked(struct hf_key *key, struct hf_error *error)
{
    key->changed = key->unconfirmed = key->kept.there = false;
    enum hf_status status = settle_earlier_stage(key, error);
    if (status == HF_OK)
        key_note_state(key, &key->enlist.state);
    else if (lock_end(key->lock, TABLE_RELEASE, /* note */ NULL, /* hook */ NULL, NULL) ==
             HF_UNSURE)
        status = error_set(error, HF_UNSURE,
                           "the key was granted and cannot be used; it is being released");
    return status;
}

/* Acquires a new lease. */
static enum hf_status acquire_new(struct hf_key *key, int64_t wait_ms, struct hf_error *error)
{
    enum hf_status status = acquire_or_settled(key, wait_ms, error);
    if (status == HF_CORRUPT && (status = mark_state_lost(key, error)) == HF_OK)
        status = acquire_lease(key, wait_ms, error);
    return status == HF_OK ? key_finish_acquire_locked(key, error) : status;
}

enum hf_status key_undo_acquire(struct hf_key *key, struct hf_error *error)
{
    struct change change;
    change_init(&change, CHANGE_UNDO);
    change.lease = view_of(key->lock->id);
    change.txn = txn_of(key);
    enum hf_status status = lock_undo_acquire(key->lock, &change.hook, error);
    if (status == HF_CORRUPT) /* an unreadable state is no reason to keep the lease */
        status = lock_undo_acquire(key->lock, /* hook */ NULL, error);
    change_release(&change);
    return status;
}

/* The key is already held. A transaction releases all its keys together, so a second acquire does
 * not increment the depth. */
static enum hf_status acquire_held(struct hf_key *key, struct hf_error *error)
{
    struct change look;
    change_init(&look, CHANGE_LOOK);
    enum hf_status status = change_ask(key->lock->ref, &look, (struct mono_time){ 0 }, error);
    if (status == HF_OK && !key->txn)
        status = hf_lock_acquire(key->lock, /* wait_ms */ 0, error);
    if (status == HF_OK)
        keep_seen_state(key, &look);
    change_release(&look);
    return status;
}

static enum hf_key_outcome acquire_outcome(enum hf_status status)
{
    if (status == HF_MISMATCH)
        return HF_KEY_TXN_MISMATCH;
    return status == HF_HELD || status == HF_TIMEOUT ? HF_KEY_WAITING : HF_KEY_NONE;
}

/* A handle can acquire its key for a transaction only once. A change that it staged under a second
 * lease might belong to a transaction that is already committed, and would count as committed. */
static enum hf_status acquire_key_locked(struct hf_key *key, int64_t wait_ms,
                                         struct hf_error *error)
{
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "wait must not be negative");
    if (key->sealed)
        return error_set(error, HF_MISMATCH, "the key's transaction is decided, or may be");
    bool held = hf_lock_check(key->lock, NULL) == HF_OK;
    if (key->txn && !held &&
        hf_lock_token(key->lock) != 0) /* another client may have rolled it back */
        return error_set(
            error, HF_MISMATCH,
            "the lease on this key has ended, so its transaction is decided, or will be");
    return held ? acquire_held(key, error) : acquire_new(key, wait_ms, error);
}

void key_report_acquired_locked(const struct hf_key *key, enum hf_status status,
                                struct hf_key_info *info)
{
    const struct key_state *state = status == HF_OK ? &key->enlist.state : NULL;
    if (info)
        key_info_fill(state, state ? &state->now : NULL, acquire_outcome(status), info);
}

enum hf_status hf_key_acquire(struct hf_key *key, int64_t wait_ms, struct hf_key_info *info,
                              struct hf_error *error)
{
    struct hf_error why;
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    client_active(key->client);
    env_mutex_lock(&key->calls);
    enum hf_status status = acquire_key_locked(key, wait_ms, &why);
    key_report_acquired_locked(key, status, info);
    env_mutex_unlock(&key->calls);
    return error_tell(error, status, &why);
}

/* ---- Acquiring in steps -------------------------------------------------------------- */

/* The result of a step: a damaged state is set aside, and a grant is taken. */
static enum hf_status take_step(struct hf_key *key, enum hf_status status,
                                struct hf_error *error)
{
    if (status == HF_CORRUPT && (status = mark_state_lost(key, error)) == HF_OK) {
        key_begin_acquire_locked(key);
        status = hf_lock_begin(key->lock, error);
    }
    key->waiting = status == HF_HELD;
    if (status != HF_OK)
        return status;
    status = key_finish_acquire_locked(key, error);
    /* HELD would mean that the handle is in the queue, but the lease has been ended. */
    return status == HF_HELD ? error_set(error, HF_UNAVAILABLE, "a transaction has the key")
                             : status;
}

static enum hf_status begin_key_locked(struct hf_key *key, struct hf_error *error)
{
    if (key->txn)
        return error_set(error, HF_INVALID,
                         "acquire the keys of a transaction with hf_txn_acquire");
    if (hf_lock_check(key->lock, NULL) == HF_OK)
        return acquire_held(key, error);
    if (key->waiting && lock_is_waiting(key->lock))
        return error_set(error, HF_INVALID, "the key is already waiting; poll or cancel it");
    key_begin_acquire_locked(key);
    return take_step(key, hf_lock_begin(key->lock, error), error);
}

enum hf_status hf_key_begin(struct hf_key *key, struct hf_key_info *info,
                            struct hf_error *error)
{
    struct hf_error why;
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    client_active(key->client);
    env_mutex_lock(&key->calls);
    enum hf_status status = begin_key_locked(key, &why);
    key_report_acquired_locked(key, status, info);
    env_mutex_unlock(&key->calls);
    return error_tell(error, status, &why);
}

enum hf_status hf_key_poll(struct hf_key *key, struct hf_key_info *info, struct hf_error *error)
{
    struct hf_error why;
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    client_active(key->client);
    env_mutex_lock(&key->calls);
    enum hf_status status = hf_lock_poll(key->lock, &why);
    if (key->waiting)
        status = take_step(key, status, &why);
    key_report_acquired_locked(key, status, info);
    env_mutex_unlock(&key->calls);
    return error_tell(error, status, &why);
}

/* Does not wait for `calls`, because the call that is to be cancelled may hold it. A later poll
 * finds that the handle has left the queue. */
enum hf_status hf_key_cancel(struct hf_key *key, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    return hf_lock_cancel(key->lock, error);
}

enum hf_status hf_key_keepalive(struct hf_key *key, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    client_active(key->client);
    return hf_lock_renew(key->lock, error);
}

/* ---- Ending -------------------------------------------------------------------------- */

static void init_end_change(struct change *change, enum change_kind kind,
                            const struct hf_key *key, struct view lease, uint64_t token,
                            bool commit)
{
    change_init(change, kind);
    change->lease = lease;
    change->token = token;
    change->commit = commit;
    change->old = key->bodies.gone;
    change->old_count = key->bodies.gone_count;
}

/* Determines from the document whether the staged version was published when its lease ended. An
 * attempt that got no reply may have published it, or it was dropped because the lease had already
 * ended. */
static enum hf_status check_published_by_release(const struct hf_key *key,
                                                 const struct change *change,
                                                 struct hf_error *error)
{
    bool promoted = change->found && change->outcome == HF_KEY_NONE;
    if (promoted || change->already)
        return error_clear(error);
    uint64_t number = key->changed ? key->next.number : change->number;
    bool is_behind = !change->state.lost && change->state.now.number <= number;
    if (change->found || is_behind)
        return error_set(
            error, HF_LOST,
            "the lease ended before the release, and the staged change was discarded");
    return error_set(error, HF_UNSURE,
                     "the key was changed or lost after the lease ended; the staged change may "
                     "have been published before that");
}

/* A version that this handle wanted to drop may have been published by another process with the
 * same lease. If it was not, the result is `told`. */
static enum hf_status check_dropped_by_release(const struct hf_key *key,
                                               const struct change *change, enum hf_status told,
                                               struct hf_error *error)
{
    bool is_behind = change->state.now.number <= key->next.number;
    if (change->already)
        return error_set(error, HF_MISMATCH,
                         "another process with the same lease has published the staged change");
    if (change->found || (key->changed && is_behind && !change->state.lost))
        return told;
    return error_set(
        error, HF_UNSURE,
        "another process with the same lease may have published the staged change");
}

/* Releases the lease without its hook, because an unreadable state is no reason to keep the
 * lease. */
static void release_without_state(struct hf_key *key, const struct key_lease *lease)
{
    struct request request;
    request_init(&request, key->lock->ref, TABLE_RELEASE, (struct mono_time){ 0 });
    request.table.id = view_of(lease->id);
    request.table.token = lease->token;
    table_ref_ask(key->lock->ref, (struct request *[]){ &request }, 1);
}

static enum hf_status end_without_txn(struct hf_key *key, bool commit, struct hf_error *error)
{
    struct key_lease lease;
    struct change change;
    if (commit && key->unconfirmed)
        return error_set(error, HF_UNSURE, "a change got no reply; repeat it, or roll back");
    key_clear_up_locked(key); /* first, so that the release's write also forgets them */
    key_lease(key, &lease);
    init_end_change(&change, CHANGE_FINISH, key, view_of(lease.id), lease.token, commit);
    if (key->changed)
        change.version = &key->next;
    enum hf_status status =
        lock_end(key->lock, TABLE_RELEASE, /* note */ NULL, &change.hook, error);
    bool ended =
        hf_lock_check(key->lock, NULL) == HF_NOT_FOUND; /* if not, it was acquired twice */
    bool answered = ended && (status == HF_OK || status == HF_LOST);
    if (status == HF_CORRUPT)
        release_without_state(key, &lease);
    /* A handle that adopted the lease may find a version that another process staged. */
    bool known = answered && (key->changed || change.found || change.over[0]);
    if (known && commit)
        status = check_published_by_release(key, &change, error);
    else if (known)
        status = check_dropped_by_release(key, &change, status, error);
    /* A handle that adopted its lease does not know what was staged under it before. */
    else if (answered && commit && status == HF_LOST && key->lock->adopted &&
             change.state.now.token >= lease.token)
        status = error_set(error, HF_UNSURE,
                           "the lease is gone; the change staged under it may have been "
                           "published when it ended");
    if (answered) {
        key_note_state(key, &change.state);
        key_clear_up_locked(key);
    }
    if (ended)
        key->changed = key->unconfirmed = false;
    change_release(&change);
    return status;
}

enum hf_status hf_key_release(struct hf_key *key, enum hf_decision decision,
                              struct hf_error *error)
{
    if (ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    client_active(key->client);
    if (key->txn)
        return decision == HF_COMMIT ? hf_txn_commit(key->txn, /* ret_decision */ NULL, error)
                                     : hf_txn_rollback(key->txn, NULL, error);
    env_mutex_lock(&key->calls);
    enum hf_status status = end_without_txn(key, decision == HF_COMMIT, error);
    env_mutex_unlock(&key->calls);
    return status;
}

static void finish_ending(struct hf_key *key)
{
    if (key->ending.last)
        table_ref_finish_ending(key->lock->ref);
    key->ending.last = false;
}

void key_stop_locked(struct hf_key *key)
{
    if (key->stopped)
        return;
    key->stopped = true;
    key->ending = lock_stop(key->lock);
    if (key->ending.last)
        table_ref_begin_ending(key->lock->ref);
}

void key_stop(struct hf_key *key)
{
    env_mutex_lock(&key->calls);
    key_stop_locked(key);
    env_mutex_unlock(&key->calls);
}

void key_resume_locked(struct hf_key *key)
{
    lock_resume(key->lock, &key->ending);
    finish_ending(key);
    key->stopped = false;
}

/* The lease was released in the step that committed the transaction. */
void key_committed_locked(struct hf_key *key, const struct change *change)
{
    key_note_state(key, &change->state);
    key->changed = key->unconfirmed = key->kept.there = false;
    finish_ending(key);
    key->ending.held = false;
}

void key_init_commit(struct change *change, const struct hf_key *key)
{
    init_end_change(change, CHANGE_COMMIT, key, view_of(key->ending.id), key->ending.token,
                    /* commit */ true);
    change->txn = txn_of(key);
    if (RULE(STEP_PUBLISHES_KEPT_CHANGES) && key->kept.there)
        change->version = &key->kept.version;
}

void key_abandon(struct hf_key *key)
{
    env_mutex_lock(&key->calls);
    finish_ending(key);
    env_mutex_unlock(&key->calls);
}

void key_ended_by_server(struct hf_key *key)
{
    env_mutex_lock(&key->calls);
    key_stop_locked(key);
    if (key->ending.last && !key->ending.over)
        lock_event(key->lock, HF_EVENT_RELEASED, HF_OK);
    key->changed = key->unconfirmed = key->in_doubt = key->ending.held = false;
    finish_ending(key);
    key_leave_turn(key);
    env_mutex_unlock(&key->calls);
}

enum hf_status key_end(struct hf_key *key, bool commit, struct hf_error *error)
{
    struct hf_error why;
    struct change change;
    check(key->txn != NULL);
    env_mutex_lock(&key->calls);
    key_stop_locked(key);
    key->in_doubt = false;
    init_end_change(&change, CHANGE_SETTLE, key, view_of(key->ending.id), key->ending.token,
                    commit);
    change.txn = txn_of(key);
    /* If this key was given up before and the reply was lost, another process in the transaction
     * may have taken it since. */
    if (key->txn->known == TXN_PENDING)
        change.under = key->ending.token;
    enum hf_status status = lock_end_stopped(key->lock, &key->ending, &change.hook, &why);
    /* The lease had ended, or nothing was released because a caller had acquired the lock itself.
     * In both cases only the stage remains to be settled. */
    if (status == HF_NOT_FOUND || status == HF_LOST || (status == HF_OK && !key->ending.last))
        status = change_ask(key->lock->ref, &change, (struct mono_time){ 0 }, &why);
    if (status == HF_OK) {
        key_note_state(key, &change.state);
        key->changed = key->unconfirmed = false;
    }
    change_release(&change);
    finish_ending(key);
    key_leave_turn(key);
    env_mutex_unlock(&key->calls);
    return error_tell(error, status, &why);
}

/* ---- Passing a lease on -------------------------------------------------------------- */

/* The name of the key in "<token>:<id>:<ns>/meta/<name>.json"; false for any other table. The lock
 * checks the rest. */
static bool name_in_lease(const struct hf_client *client, struct view lease,
                          struct view *ret_name)
{
    struct view rest = lease;
    view_cut(&rest, ':');
    view_cut(&rest, ':');
    struct view ns = view_first(rest, view_find(rest, '/'));
    struct view path = view_from(rest, ns.size);
    if (!view_equal(ns, view_of(client_ns(client))) ||
        !view_starts_with(path, VIEW(LAYOUT_META_FOLDER)) ||
        !view_ends_with(path, VIEW(".json")))
        return false;
    struct view name = view_from(path, sizeof LAYOUT_META_FOLDER - 1);
    if (name.size <= sizeof ".json" - 1)
        return false;
    *ret_name = view_first(name, name.size - (sizeof ".json" - 1));
    return name_check(*ret_name, NULL) == HF_OK;
}

enum hf_status key_adopt_for(struct hf_client *client, const char *lease,
                             const struct hf_key_options *options, struct hf_txn *txn,
                             struct hf_key **ret_key, struct hf_error *error)
{
    struct hf_lock_options lock_options;
    struct hf_lock *lock;
    bool staged;
    struct view name;
    enum hf_status status = split_key_options(options, &staged, &lock_options, error);
    /* The process that began the transaction seals its keys only in its own handles. A change by
     * another process could become visible after the commit. */
    if (status == HF_OK && txn && !txn->open)
        status = error_set(error, HF_DENIED,
                           "only the process that began the transaction can change its keys");
    if (status == HF_OK && !name_in_lease(client, view_of(lease), &name))
        status = error_set(error, HF_INVALID, "'%.80s' is not a lease of a key in namespace %s",
                           lease, client_ns(client));
    if (status == HF_OK)
        status = hf_lock_adopt(client, lease, &lock_options, &lock, error);
    if (status != HF_OK)
        return status;
    struct hf_key *key = key_around_lock(client, name, lock, staged, txn);
    if (!key) {
        hf_lock_detach(lock);
        return error_no_memory(error);
    }
    key->keeps_txn = txn != NULL;
    if (txn)
        txn_keep(txn);
    *ret_key = key;
    return HF_OK;
}

enum hf_status hf_key_adopt(struct hf_client *client, const char *lease,
                            const struct hf_key_options *options, struct hf_key **ret_key,
                            struct hf_error *error)
{
    if (ret_key)
        *ret_key = NULL;
    if (ERROR_IF_NULL(error, client, lease, ret_key) != HF_OK)
        return HF_INVALID;
    client_active(client);
    enum hf_status status =
        key_adopt_for(client, lease, options, /* txn */ NULL, ret_key, error);
    return status == HF_OK ? error_clear(error) : status;
}
