/* SPDX-License-Identifier: Apache-2.0 */
/* hold.c: a holder's calls: check, renew or end the lease, or pass it on as text. It guards
 * against a holder that relies on an expired lease: validity is computed in each call, and a
 * release that gets no reply is retried in the background. */
#include "lock/client_inside.h"
#include "lock/handle.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/options.h"
#include "base/rule.h"
#include "lock/lease_name.h"

#include <inttypes.h>
#include <stdlib.h>

/* How many times an adopted lease is renewed if the reply comes too late to use it. */
#define ADOPT_TRIES_MAX 3

/* ---- Without requests ---------------------------------------------------------------- */

static struct mono_time end_locked(struct hf_lock *lock, struct mono_time *ret_now)
{
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(&lock->client->clock, &evidence);
    *ret_now = evidence.now;
    return validity_end(&lock->validity, &evidence);
}

void lock_mark_gone_locked(struct hf_lock *lock, enum hf_status how)
{
    lock->gone = how;
    lock->report_gone = true;
    lock_event(lock, HF_EVENT_LOST, how);
    env_cond_broadcast(&lock->client->keeper.changed);
}

enum hf_status lock_check_locked(struct hf_lock *lock)
{
    struct mono_time now;
    if (lock->state != LOCK_HELD)
        return HF_NOT_FOUND;
    if (lock->unconfirmed)
        return HF_UNSURE;
    struct mono_time end = end_locked(lock, &now);
    if (lock->gone == HF_OK && !mono_before(now, end))
        lock_mark_gone_locked(lock, HF_EXPIRED);
    return lock->gone;
}

enum hf_status lock_lease(struct hf_lock *lock, char ret_id[LEASE_ID_MAX + 1],
                          uint64_t *ret_token)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    enum hf_status status = lock_check_locked(lock);
    memcpy(ret_id, lock->id, sizeof lock->id);
    *ret_token = lock->token;
    env_mutex_unlock(&lock->client->keeper.mutex);
    return status;
}

static enum hf_status set_status_text(enum hf_status status, struct hf_error *error)
{
    if (status == HF_UNSURE)
        return error_set(error, status, "the lease is not confirmed: renew it first");
    return status == HF_OK ? error_clear(error)
                           : error_set(error, status, "%s", hf_status_text(status));
}

enum hf_status hf_lock_check(struct hf_lock *lock, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&lock->client->keeper.mutex);
    enum hf_status status = lock_check_locked(lock);
    env_mutex_unlock(&lock->client->keeper.mutex);
    if (status == HF_NOT_FOUND)
        return error_set(error, status, "the lock is not held");
    return set_status_text(status, error);
}

int64_t hf_lock_remaining_ms(struct hf_lock *lock)
{
    struct mono_time now;
    if (!lock)
        return 0;
    env_mutex_lock(&lock->client->keeper.mutex);
    struct mono_time end = end_locked(lock, &now);
    bool held = lock_check_locked(lock) == HF_OK;
    env_mutex_unlock(&lock->client->keeper.mutex);
    return held && mono_before(now, end) ? mono_since(end, now).us / 1000 : 0;
}

uint64_t hf_lock_token(struct hf_lock *lock)
{
    if (!lock)
        return 0;
    env_mutex_lock(&lock->client->keeper.mutex);
    uint64_t token = lock->token;
    env_mutex_unlock(&lock->client->keeper.mutex);
    return token;
}

enum hf_status lock_fence(struct hf_lock *lock, uint64_t *ret_token, uint64_t *ret_sequence,
                          struct hf_error *error)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    enum hf_status status = lock_check_locked(lock);
    uint64_t token = lock->token;
    env_mutex_unlock(&lock->client->keeper.mutex);
    if (RULE(FENCE_ASKS_THE_LEASE) && status == HF_NOT_FOUND)
        return error_set(error, HF_EXPIRED, "the lock is not held");
    if (RULE(FENCE_ASKS_THE_LEASE) && status != HF_OK)
        return set_status_text(status, error);
    *ret_token = token;
    *ret_sequence = client_next_id(lock->client);
    return error_clear(error);
}

/* ---- Renewing by hand ---------------------------------------------------------------- */

/* Applies the result of a renewal. Called with the keeper's mutex held. */
static enum hf_status note_own_renewal_locked(struct hf_lock *lock,
                                              const struct request *request,
                                              struct hf_error *error)
{
    enum hf_status status = request->op.error.status;
    if (lock->gone != HF_OK)
        return set_status_text(lock->gone,
                               error); /* its loss was reported, so it is never revived */
    if (status == HF_OK) {
        struct validity validity = request_validity(request);
        lock_renewed_locked(lock, &validity);
        lock_event(lock, HF_EVENT_RENEWED, HF_OK);
        env_cond_broadcast(&lock->client->keeper.changed); /* it may end in another hour */
    }
    if (error)
        *error = request->op.error;
    if (status != HF_LOST && status != HF_MISMATCH)
        return status;
    lock_mark_gone_locked(lock, HF_LOST);
    if (error)
        error->status = HF_LOST;
    return HF_LOST;
}

void lock_set_renewal_note(struct hf_lock *lock, struct view note)
{
    check(table_takes_note(note));
    env_mutex_lock(&lock->client->keeper.mutex);
    lock->renewal_note = note;
    env_mutex_unlock(&lock->client->keeper.mutex);
}

static bool begin_adoption(struct lock_renewal *renewal, struct request *request,
                           struct hf_error *error);
static enum hf_status finish_adoption(struct lock_renewal *renewal,
                                      const struct request *request, struct hf_error *error);

bool lock_begin_renew(struct hf_lock *lock, struct lock_renewal *renewal,
                      struct request *request, struct hf_error *error)
{
    struct keeper *keeper = &lock->client->keeper;
    struct mono_time now;
    env_mutex_lock(&keeper->mutex);
    enum hf_status status = lock_check_locked(lock);
    struct mono_time end = end_locked(lock, &now);
    struct view note = lock->renewal_note;
    env_mutex_unlock(&keeper->mutex);
    *renewal = (struct lock_renewal){ .lock = lock, .adopts = status == HF_UNSURE };
    if (renewal->adopts)
        return begin_adoption(renewal, request, error);
    set_status_text(status, error);
    request_init(request, lock->ref, TABLE_RENEW,
                 mono_earlier(end, mono_add(now, REQUEST_TIME)));
    request->table.id = view_of(lock->id);
    request->table.token = lock->token;
    request->table.note = note;
    return status == HF_OK;
}

enum hf_status lock_finish_renew(struct lock_renewal *renewal, const struct request *request,
                                 struct hf_error *error)
{
    struct keeper *keeper = &renewal->lock->client->keeper;
    if (renewal->adopts)
        return finish_adoption(renewal, request, error);
    env_mutex_lock(&keeper->mutex);
    enum hf_status status = note_own_renewal_locked(renewal->lock, request, error);
    env_mutex_unlock(&keeper->mutex);
    return status;
}

enum hf_status hf_lock_renew(struct hf_lock *lock, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    struct request request, *requests[] = { &request };
    struct lock_renewal renewal;
    struct hf_error why;
    client_active(lock->client);
    env_mutex_lock(&lock->calls);
    if (lock_begin_renew(lock, &renewal, &request, &why)) {
        table_ref_ask(lock->ref, requests, 1);
        lock_finish_renew(&renewal, &request, &why);
    }
    env_mutex_unlock(&lock->calls);
    return error_tell(error, why.status, &why);
}

/* ---- Ending -------------------------------------------------------------------------- */

/* False if out of memory. Only events need the note: without memory, they do not have it. */
static bool keep_adopted_scopes(struct hf_lock *lock, const struct lease *lease)
{
    size_t count = lease->wish.scope_count;
    struct scope *scopes = scopes_copy(lease->wish.scopes, count), *before;
    if (events_wanted(lock->client)) {
        free((char *)(uintptr_t)lock->options.note);
        lock->options.note =
            lease->note.size > 0 ? strndup(lease->note.data, lease->note.size) : NULL;
    }
    if (!scopes)
        return false;
    env_mutex_lock(&lock->client->keeper.mutex); /* other tasks may be reading them */
    before = lock->scopes;
    lock->scopes = scopes;
    lock->scope_count = count;
    env_mutex_unlock(&lock->client->keeper.mutex);
    free(before);
    return true;
}

/* A lease that its text alone names has its scopes and its note in its table, until it ends. */
static enum hf_status note_ending(struct table_hook *hook, struct lease_table *table,
                                  const struct evidence *evidence, bool *changed,
                                  struct hf_error *error)
{
    struct hf_lock *lock =
        (struct hf_lock *)(void *)((char *)hook - offsetof(struct hf_lock, end_hook));
    const struct lease *lease = table_find(table, view_of(lock->id));
    (void)evidence, (void)changed;
    if (lease)
        keep_adopted_scopes(lock, lease);
    return error_clear(error);
}

bool lock_begin_end(struct hf_lock *lock, enum table_op_kind kind, struct view note,
                    struct request *request, bool *ret_over, struct hf_error *error)
{
    struct hf_client *client = lock->client;
    env_mutex_lock(&client->keeper.mutex);
    enum hf_status status = lock_check_locked(lock);
    bool held = status != HF_NOT_FOUND, last = held && --lock->depth == 0;
    *ret_over = held && status != HF_OK;
    if (last && lock->unconfirmed) {
        lock->state = LOCK_IDLE;
    } else if (last) {
        /* Stop renewing first, and wait for a renewal that is in progress, because it must not
         * take effect after the release. */
        keeper_remove_locked(client, lock);
        lock->state = LOCK_IDLE;
    }
    env_mutex_unlock(&client->keeper.mutex);
    if (!held)
        error_set(error, HF_NOT_FOUND, "the lock is not held");
    else if (*ret_over && !last)
        error_set(error, HF_LOST, "the lease has ended: %s", hf_status_text(status));
    else
        error_clear(error);
    request_init(request, lock->ref, kind, (struct mono_time){ 0 });
    request->table.id = view_of(lock->id);
    request->table.token = lock->token;
    request->table.note = note;
    if (last && lock->unconfirmed && events_wanted(client)) {
        lock->end_hook = (struct table_hook){ .before = note_ending };
        request->hook = &lock->end_hook;
    }
    return last;
}

/* What the reply to a request to end a lease means. `over`: by our own clock, the lease had expired
 * before the request. A released lease leaves no trace. If an expired lease is missing, another
 * client may have taken it over, so the release is not reported as OK merely because an attempt of
 * ours got no reply. A completed or failed lease stays in the table, and only its holder can
 * complete or fail it. */
static enum hf_status read_end(struct hf_lock *lock, struct request *request, bool over)
{
    enum table_op_kind kind = request->table.kind;
    enum hf_status status = request->op.error.status;
    bool by_others = (over && kind == TABLE_RELEASE) || request->taken ||
                     request->op.doubt == DOC_DOUBT_NONE;
    /* The ttl of a lease that was not confirmed is not known. */
    struct span ttl = lock->unconfirmed ? lock->ref->space->settings.ttl_max : lock->ttl;
    /* Whoever has a lease by its text may repeat a release that was denied, and must not find then
     * that the lease is gone. */
    if (!request_settled(status) || (!end_is_final(status) && !lock->unconfirmed))
        release_later(table_ref_share(lock->ref), kind, request->table.id, request->table.token,
                      request->table.note, ttl);
    if (!request_settled(status)) {
        const struct hf_error why = request->op.error;
        return error_set(
            &request->op.error, HF_UNSURE,
            "not confirmed; the client tries again in the background, if the store "
            "allows it, until the lease is over: %s",
            why.why);
    }
    if (status == HF_OK && request->table.already && by_others)
        return error_set(&request->op.error, HF_LOST,
                         "the lease had already ended: it expired, was broken, or was released "
                         "by another process");
    if (status == HF_MISMATCH)
        return error_set(&request->op.error, HF_LOST, "the lease belongs to another holder");
    return status;
}

enum hf_status lock_finish_end(struct hf_lock *lock, struct request *request, bool over,
                               struct hf_error *error)
{
    enum hf_status status = read_end(lock, request, over);
    if (status == HF_OK || status == HF_UNSURE)
        lock_event(lock, HF_EVENT_RELEASED, HF_OK);
    else if (status == HF_LOST && !over) /* otherwise the loss was already reported */
        lock_event(lock, HF_EVENT_LOST, HF_LOST);
    if (error)
        *error = request->op.error;
    return status;
}

enum hf_status lock_end(struct hf_lock *lock, enum table_op_kind kind, const char *note,
                        struct table_hook *hook, struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    struct hf_error why;
    bool over;
    /* The note is checked first. If only the table refused it, the handle would already be idle,
     * and the lease would stay active until it expires. */
    if (note && !table_takes_note(view_of(note)))
        return error_set(error, HF_INVALID, "a note must be JSON of at most %d bytes",
                         NOTE_BYTES_MAX);
    client_active(lock->client);
    env_mutex_lock(&lock->calls);
    if (lock_begin_end(lock, kind, view_of(note ? note : ""), &request, &over, &why)) {
        if (hook)
            request.hook = hook;
        table_ref_ask(lock->ref, requests, 1);
        lock_finish_end(lock, &request, over, &why);
    }
    env_mutex_unlock(&lock->calls);
    return error_tell(error, why.status, &why);
}

/* ---- Ending a lease later ------------------------------------------------------------ */

struct lock_ending lock_stop(struct hf_lock *lock)
{
    struct lock_ending ending;
    struct request request;
    struct hf_error why;
    env_mutex_lock(&lock->calls);
    ending.last = lock_begin_end(lock, TABLE_RELEASE, VIEW(""), &request, &ending.over, &why);
    ending.held = why.status != HF_NOT_FOUND;
    ending.token = request.table.token;
    memcpy(ending.id, lock->id, sizeof ending.id);
    env_mutex_unlock(&lock->calls);
    return ending;
}

void lock_init_ending(struct hf_lock *lock, const struct lock_ending *ending,
                      struct table_hook *hook, struct request *ret_request)
{
    request_init(ret_request, lock->ref, TABLE_RELEASE, (struct mono_time){ 0 });
    ret_request->table.id = view_of(ending->id);
    ret_request->table.token = ending->token;
    ret_request->hook = hook;
}

enum hf_status lock_end_stopped(struct hf_lock *lock, const struct lock_ending *ending,
                                struct table_hook *hook, struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    if (!ending->held)
        return error_set(error, HF_NOT_FOUND, "the lock is not held");
    if (!ending->last)
        return error_clear(error);
    lock_init_ending(lock, ending, hook, &request);
    table_ref_ask(lock->ref, requests, 1);
    return lock_finish_end(lock, &request, ending->over, error);
}

void lock_resume(struct hf_lock *lock, const struct lock_ending *ending)
{
    struct keeper *keeper = &lock->client->keeper;
    env_mutex_lock(&keeper->mutex);
    bool closed = ending->last && keeper->closed;
    if (ending->held && !closed)
        lock->depth++;
    if (ending->last && !closed) {
        lock->state = LOCK_HELD;
        if (!lock->unconfirmed)
            keeper_add_locked(lock->client, lock);
    }
    env_mutex_unlock(&keeper->mutex);
    if (closed && !lock->unconfirmed)
        lock_give_back(lock);
}

/* Writes even if there is nothing to end, because only a later swap makes earlier writes that are
 * still in flight fail. */
enum hf_status lock_undo_acquire(struct hf_lock *lock, struct table_hook *hook,
                                 struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    if (lock->id[0] == '\0') /* nothing was ever requested */
        return error_clear(error);
    request_init(&request, lock->ref, TABLE_CANCEL, (struct mono_time){ 0 });
    request.op.settle = true;
    request.hook = hook;
    request.table.id = view_of(lock->id);
    enum hf_status status = table_ref_ask(lock->ref, requests, 1);
    if (error)
        *error = request.op.error;
    return status;
}

enum hf_status hf_lock_release(struct hf_lock *lock, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    return lock_end(lock, TABLE_RELEASE, NULL, NULL, error);
}

enum hf_status hf_lock_complete(struct hf_lock *lock, const char *note, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    return lock_end(lock, TABLE_COMPLETE, note, NULL, error);
}

enum hf_status hf_lock_fail(struct hf_lock *lock, const char *note, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    return lock_end(lock, TABLE_FAIL, note, NULL, error);
}

/* ---- The request --------------------------------------------------------------------- */

int64_t hf_lock_ttl_ms(struct hf_lock *lock)
{
    if (!lock)
        return 0;
    env_mutex_lock(&lock->client->keeper.mutex);
    struct span ttl = lock->ttl;
    env_mutex_unlock(&lock->client->keeper.mutex);
    return ttl.us / 1000;
}

enum hf_status hf_lock_scope(struct hf_lock *lock, size_t index, char text[HF_SCOPE_TEXT_MAX],
                             struct hf_error *error)
{
    static_assert(HF_SCOPE_TEXT_MAX > SCOPE_TEXT_MAX, "every scope fits");
    if (ERROR_IF_NULL(error, lock, text) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&lock->client->keeper.mutex);
    bool has = index < lock->scope_count;
    if (has)
        scope_text(&lock->scopes[index], text);
    env_mutex_unlock(&lock->client->keeper.mutex);
    return has ? error_clear(error)
               : error_set(error, HF_NOT_FOUND, "the lock has no scope with this index");
}

void hf_lock_interrupt(struct hf_lock *lock)
{
    if (lock)
        wait_queue_cancel(lock->ref, &lock->waiter);
}

enum hf_status hf_lock_trouble(struct hf_lock *lock, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    bool trouble = wait_queue_trouble(lock->ref, &why);
    return error_tell(error, trouble ? why.status : HF_OK, &why);
}

/* ---- As text ------------------------------------------------------------------------- */

enum hf_status hf_lock_text(struct hf_lock *lock, char text[HF_LEASE_TEXT_MAX],
                            struct hf_error *error)
{
    if (ERROR_IF_NULL(error, lock, text) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&lock->client->keeper.mutex);
    bool held = lock->state == LOCK_HELD;
    struct buffer to = { .data = text,
                         .capacity = HF_LEASE_TEXT_MAX,
                         .max = HF_LEASE_TEXT_MAX - 1 };
    if (held) { /* otherwise another thread may be drawing the next id */
        struct lease_name name = { lock->token, view_of(lock->id), doc_key(lock->ref->doc) };
        lease_name_append(&to, &name);
        buffer_text(&to);
    }
    env_mutex_unlock(&lock->client->keeper.mutex);
    return held ? error_clear(error) : error_set(error, HF_NOT_FOUND, "the lock is not held");
}

static enum hf_status parse_lease(const struct hf_client *client, const char *text,
                                  char space[KEY_BYTES_MAX], struct lease_name *ret_name,
                                  struct hf_error *error)
{
    enum hf_status status = lease_name_parse(view_of(text), space, ret_name, error);
    if (status != HF_OK)
        return status;
    struct view key = ret_name->key, rest = key;
    bool common = table_key_is_of_chunks(key) || table_key_is_of_shard(key);
    if (table_key_is_at_server(key) && !client->server)
        return error_set(error, HF_MISMATCH,
                         "the lease was granted by a server: use the URL of the server");
    /* Tokens of another namespace belong to another epoch, which only a client of that namespace
     * knows. */
    if (!common && !view_equal(view_cut(&rest, '/'), view_of(client->space.ns)))
        return error_set(error, HF_MISMATCH, "the lease belongs to a namespace other than %s",
                         client->space.ns);
    return HF_OK;
}

/* The scopes and the mode of an adopted lease are not in its text form; they are read from its
 * table. */
static void note_adopted(struct table_hook *hook, struct lease_table *table,
                         const struct table_op *op, bool *changed)
{
    static const enum hf_mode modes[] = {
        [LEASE_EXCLUSIVE] = HF_EXCLUSIVE, [LEASE_SHARED] = HF_SHARED, [LEASE_SLOTS] = HF_SLOTS
    };
    struct lock_renewal *adoption = (struct lock_renewal *)(void *)hook;
    struct hf_lock *lock = adoption->lock;
    const struct lease *lease = table_find(table, op->id);
    (void)changed;
    adoption->no_memory = !keep_adopted_scopes(lock, lease);
    lock->options.mode = modes[lease->wish.mode];
}

static void init_adoption(struct lock_renewal *renewal, uint64_t token, struct request *request)
{
    struct hf_lock *lock = renewal->lock;
    renewal->hook.after = note_adopted;
    request_init(request, lock->ref, TABLE_RENEW, (struct mono_time){ 0 });
    request->table.id = view_of(lock->id);
    request->table.token = token;
    request->hook = &renewal->hook;
}

/* Marks the renewed lease as held if the reply came in time; EXPIRED otherwise. */
static enum hf_status hold_adopted(struct lock_renewal *renewal, const struct request *request,
                                   struct hf_error *error)
{
    enum hf_status status = request->op.error.status;
    *error = request->op.error;
    if (status == HF_MISMATCH)
        return error_set(error, HF_LOST, "the lease with this token has ended");
    if (status == HF_OK && renewal->no_memory)
        return error_no_memory(error);
    if (status != HF_OK)
        return status;
    if (lock_hold_granted(renewal->lock, request)) {
        lock_event(renewal->lock, HF_EVENT_RENEWED, HF_OK);
        return HF_OK;
    }
    return error_set(error, HF_EXPIRED, "the reply came too late to use the lease");
}

static enum hf_status renew_adopted(struct hf_lock *lock, const struct lease_name *name,
                                    struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    struct lock_renewal renewal = { .lock = lock };
    init_adoption(&renewal, name->token, &request);
    table_ref_ask(lock->ref, requests, 1);
    return hold_adopted(&renewal, &request, error);
}

/* The ttl of the renewed lease is counted from the time at which the renewal was sent. If the reply
 * was so late that no time is left, the lease is renewed again. */
static enum hf_status adopt_lease(struct hf_lock *lock, const struct lease_name *name,
                                  struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status = HF_EXPIRED;
    for (int tries = 0; tries < ADOPT_TRIES_MAX; tries++) {
        status = renew_adopted(lock, name, &why);
        if (status != HF_EXPIRED)
            break;
    }
    if (status == HF_EXPIRED)
        why.status = status = HF_LOST;
    if (error)
        *error = why;
    return status;
}

/* A lease that was only named so far is renewed, as in an ordinary adoption. If it has ended, the
 * handle holds nothing. */
static bool begin_adoption(struct lock_renewal *renewal, struct request *request,
                           struct hf_error *error)
{
    init_adoption(renewal, renewal->lock->token, request);
    return keeper_start_for(renewal->lock, error) == HF_OK;
}

/* The handle has the lease as its text names it, and makes no request. */
static void name_lease(struct hf_lock *lock, const struct lease_name *name)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    lock->unconfirmed = true;
    lock->token = name->token;
    lock->depth = 1;
    lock->state = LOCK_HELD;
    env_mutex_unlock(&lock->client->keeper.mutex);
}

/* After a renewal that came too late, the next one may have failed or landed unseen: the handle is
 * as it was before them. */
static enum hf_status finish_adoption(struct lock_renewal *renewal,
                                      const struct request *request, struct hf_error *error)
{
    struct hf_lock *lock = renewal->lock;
    const struct lease_name name = { lock->token, view_of(lock->id), doc_key(lock->ref->doc) };
    enum hf_status status = hold_adopted(renewal, request, error);
    if (status == HF_EXPIRED)
        status = adopt_lease(lock, &name, error);
    if (status == HF_LOST)
        lock_set_state(lock, LOCK_IDLE);
    else if (status != HF_OK)
        name_lease(lock, &name);
    return status;
}

/* A server does not say what a lease covers; the lease's table does. False if out of memory. */
static bool name_scope_at_server(struct hf_lock *lock)
{
    struct scope scope;
    if (!table_scope_at_server(&lock->client->space, doc_key(lock->ref->doc), &scope))
        return true;
    lock->scopes = scopes_copy(&scope, 1);
    lock->scope_count = lock->scopes ? 1 : 0;
    return lock->scopes != NULL;
}

enum hf_status hf_lock_adopt(struct hf_client *client, const char *text,
                             const struct hf_lock_options *options, struct hf_lock **ret_lock,
                             struct hf_error *error)
{
    struct hf_lock_options used = HF_LOCK_OPTIONS;
    struct lease_name name = { 0 };
    char space[KEY_BYTES_MAX];
    struct table_ref *ref;
    struct hf_lock *lock;
    if (ret_lock)
        *ret_lock = NULL;
    if (ERROR_IF_NULL(error, client, text, ret_lock) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_LOCK_OPTIONS", options, &used, sizeof used, error);
    if (status != HF_OK)
        return status;
    used.ttl_ms = used.poll_ms = 0; /* not used, so any value is allowed */
    used.output = used.note = NULL;
    client_active(client);
    status = parse_lease(client, text, space, &name, error);
    if (status == HF_OK)
        status = table_ref_take(client, name.key, &ref, error);
    if (status != HF_OK)
        return status;
    status = lock_new_for(client, ref, &used, &lock, error);
    if (status != HF_OK) {
        table_ref_drop(ref);
        return status;
    }
    lock->adopted = true;
    memcpy(lock->id, name.id.data, name.id.size);
    if (client->server && !name_scope_at_server(lock))
        status = error_no_memory(error);
    if (status == HF_OK && used.unconfirmed) {
        name_lease(lock, &name);
        status = error_clear(error);
    } else if (status == HF_OK) {
        status = keeper_start_for(lock, error);
        if (status == HF_OK)
            status = adopt_lease(lock, &name, error);
    }
    if (status == HF_OK)
        *ret_lock = lock;
    else
        hf_lock_free(lock);
    return status;
}

enum hf_status hf_break(struct hf_client *client, const char *text, const char *by,
                        const char *reason, struct hf_error *error)
{
    struct lease_name name = { 0 };
    char space[KEY_BYTES_MAX];
    struct table_ref *ref;
    struct request request, *requests[] = { &request };
    if (ERROR_IF_NULL(error, client, text) != HF_OK)
        return HF_INVALID;
    client_active(client);
    enum hf_status status = parse_lease(client, text, space, &name, error);
    if (status == HF_OK)
        status = table_ref_take(client, name.key, &ref, error);
    if (status != HF_OK)
        return status;
    request_init(&request, ref, TABLE_BREAK, (struct mono_time){ 0 });
    request.table.id = name.id;
    request.table.token = name.token;
    request.table.by = view_of(by ? by : "");
    request.table.note = view_of(reason ? reason : "");
    status = table_ref_ask(ref, requests, 1);
    if (status == HF_MISMATCH)
        status = error_set(&request.op.error, HF_LOST, "the lease with this token has ended");
    if (error)
        *error = request.op.error;
    table_ref_drop(ref);
    return status;
}
