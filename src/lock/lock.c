/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c: lock handles, and how they acquire a lease: with one request, or by waiting in the
 * queue. It guards against leases and waiters without an owner: if the outcome of a request is
 * unknown, the cleanup task cancels it, and keeps trying until the outcome is known. */
#include "lock/client_inside.h"
#include "lock/handle.h"
#include "lock/served_begin.h"

#include "base/check.h"
#include "base/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A request to join the queue is given at least this much time, however short the wait. */
#define ASK_TIME_MIN SPAN_S(1)

#define ONCE_PER_MS_MAX (INT64_C(3660) * 24 * 3600000)

/* A lease that was not released expires after its ttl, but a place in the queue does not. Each
 * abandoned place delays the other waiters by one claim window. So the client keeps trying to
 * leave the queue for at least this long. */
#define LEAVE_TIME_MIN SPAN_S(600)

/* ---- Handles ------------------------------------------------------------------------- */

static enum hf_status check_lock_options(const struct hf_lock_options *options,
                                         struct hf_error *error)
{
    enum hf_status status = ttl_ms_check(options->ttl_ms, error);
    if (status != HF_OK)
        return status;
    if (options->poll_ms < 0 || options->poll_ms > 3600000)
        return error_set(error, HF_INVALID, "the poll interval must be between 0 and 1 hour");
    if (options->once_per_ms < 0 || options->once_per_ms > ONCE_PER_MS_MAX)
        return error_set(error, HF_INVALID, "once_per must be between 0 and ten years");
    if (options->once_slack_ms < HF_NO_SLACK ||
        (options->once_slack_ms > 0 && options->once_slack_ms >= options->once_per_ms))
        return error_set(error, HF_INVALID, "the slack must be less than once_per");
    if ((unsigned)options->mode > HF_SLOTS)
        return error_set(error, HF_INVALID, "unknown mode; use exclusive, shared or slots");
    if ((options->mode == HF_SLOTS) != (options->slots > 0))
        return error_set(
            error, HF_INVALID,
            "the mode 'slots' needs a number of slots, and no other mode may have one");
    return HF_OK;
}

enum hf_status lock_new_for(struct hf_client *client, struct table_ref *ref,
                            const struct hf_lock_options *options, struct hf_lock **ret_lock,
                            struct hf_error *error)
{
    struct hf_lock *lock = calloc(1, sizeof *lock);
    if (!lock)
        return error_no_memory(error);
    lock->options = *options; /* with our own copies of the strings */
    char *output = options->output ? strdup(options->output) : NULL;
    char *note = options->note ? strdup(options->note) : NULL;
    lock->options.output = output;
    lock->options.note = note;
    if ((options->output && !output) || (options->note && !note)) {
        free(output);
        free(note);
        free(lock);
        return error_no_memory(error);
    }
    lock->client = client;
    lock->ref = ref;
    lock->ttl = SPAN_MS(options->ttl_ms);
    lock->waiter.poll = options->poll_ms > 0 ? SPAN_MS(options->poll_ms) : client->poll;
    env_mutex_init(client->env, &lock->calls);
    env_cond_init(client->env, &lock->waiter.wake);
    lock->number = client_keep(client);
    *ret_lock = lock;
    return HF_OK;
}

static void free_lock(struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    env_cond_release(&lock->waiter.wake);
    env_mutex_release(&lock->calls);
    table_ref_drop(lock->ref);
    free((char *)(uintptr_t)lock->options.output);
    free((char *)(uintptr_t)lock->options.note);
    free(lock->scopes);
    free(lock->blocked);
    free(lock);
    client_drop(client);
}

static bool is_path(const struct scope *scope)
{
    return scope->kind == SCOPE_PATH || scope->kind == SCOPE_TREE;
}

/* Either all scopes of a lock are acquired or none, by one write, so they must be in one table. */
static enum hf_status refuse_two_tables(const struct hf_client *client, const struct scope *one,
                                        const struct scope *other, struct hf_error *error)
{
    char first[SCOPE_TEXT_MAX + 1], second[SCOPE_TEXT_MAX + 1];
    uint32_t segments = client->space.placement.segments;
    scope_text(one, first);
    scope_text(other, second);
    char same[32] = "segment";
    if (segments > 1)
        snprintf(same, sizeof same, "%" PRIu32 " segments", segments);
    if (segments > 0 && is_path(one) && is_path(other))
        return error_set(error, HF_INVALID,
                         "'%.60s' and '%.60s' cannot be one lock: they are in different pages; "
                         "use a lock for each, or paths with the same first %s",
                         first, second, same);
    return error_set(error, HF_INVALID,
                     "'%.60s' and '%.60s' cannot be one lock: they belong to different tables",
                     first, second);
}

/* Parses the scopes into one allocation that also holds their texts, and finds their table, which
 * must be the same for all. */
static enum hf_status read_scopes(struct hf_client *client, const char *const *texts,
                                  size_t count, enum hf_mode mode, struct scope **ret_scopes,
                                  char key[KEY_BYTES_MAX + 1], struct hf_error *error)
{
    char table[KEY_BYTES_MAX + 1];
    size_t bytes = count * sizeof(struct scope);
    for (size_t i = 0; i < count; i++)
        bytes += strlen(texts[i]);
    struct scope *scopes = malloc(bytes);
    if (!scopes)
        return error_no_memory(error);
    char *copy = (char *)(scopes + count);
    for (size_t i = 0; i < count; i++) {
        char other[KEY_BYTES_MAX + 1];
        struct view text = { copy, strlen(texts[i]) };
        memcpy(copy, texts[i], text.size);
        copy += text.size;
        enum hf_status status = scope_parse(text, &scopes[i], error);
        if (status == HF_OK && client->server && i == 0)
            status = table_key_at_server(&client->space, &scopes[i], mode == HF_EXCLUSIVE, key,
                                         error);
        if (status == HF_OK)
            status = table_key(&client->space, &scopes[i], i == 0 ? table : other, error);
        if (status == HF_OK && i > 0 && strcmp(table, other) != 0)
            status = refuse_two_tables(client, &scopes[0], &scopes[i], error);
        if (status != HF_OK) {
            free(scopes);
            return status;
        }
    }
    if (!client->server)
        memcpy(key, table, sizeof table);
    *ret_scopes = scopes;
    return HF_OK;
}

/* A lease that names an output stays in its table until the output has been settled. Only
 * compaction settles outputs, and only those of leases on chunks. */
static enum hf_status check_output(const char *output, const struct scope *scopes, size_t count,
                                   struct hf_error *error)
{
    bool of_chunks = false;
    for (size_t i = 0; i < count; i++)
        of_chunks = of_chunks || scopes[i].kind == SCOPE_CHUNK;
    if (of_chunks || !output || output[0] == '\0')
        return HF_OK;
    return error_set(error, HF_INVALID, "only a lock on chunks (chunk:KEY) can name an output");
}

enum hf_status hf_lock_new_many(struct hf_client *client, const char *const *scopes,
                                size_t count, const struct hf_lock_options *options,
                                struct hf_lock **ret_lock, struct hf_error *error)
{
    struct hf_lock_options used = HF_LOCK_OPTIONS;
    struct scope *parsed = NULL;
    struct table_ref *ref;
    struct hf_lock *lock;
    char key[KEY_BYTES_MAX + 1];
    if (ret_lock)
        *ret_lock = NULL;
    if (ERROR_IF_NULL(error, client, scopes, ret_lock) != HF_OK)
        return HF_INVALID;
    if (count == 0 || count > LEASE_SCOPES_MAX)
        return error_set(error, HF_INVALID, "a lock must have 1 to %d scopes",
                         LEASE_SCOPES_MAX);
    if (error_if_null_among(error, "scopes", scopes, count) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_LOCK_OPTIONS", options, &used, sizeof used, error);
    if (status == HF_OK)
        status = check_lock_options(&used, error);
    if (status == HF_OK && used.output)
        status = client_needs_bucket(client, "a lock with an output", error);
    if (status == HF_OK)
        status = read_scopes(client, scopes, count, used.mode, &parsed, key, error);
    if (status != HF_OK)
        return status;
    bool *blocked = calloc(2 * count, sizeof *blocked);
    status = blocked ? check_output(used.output, parsed, count, error) : error_no_memory(error);
    if (status == HF_OK)
        status = table_ref_take(client, view_of(key), &ref, error);
    if (status == HF_OK && (status = lock_new_for(client, ref, &used, &lock, error)) != HF_OK)
        table_ref_drop(ref);
    if (status != HF_OK) {
        free(blocked);
        free(parsed);
        return status;
    }
    lock->scopes = parsed;
    lock->scope_count = count;
    lock->blocked = blocked;
    *ret_lock = lock;
    return error_clear(error);
}

enum hf_status hf_lock_new(struct hf_client *client, const char *scope,
                           const struct hf_lock_options *options, struct hf_lock **ret_lock,
                           struct hf_error *error)
{
    if (ret_lock)
        *ret_lock = NULL;
    if (ERROR_IF_NULL(error, client, scope, ret_lock) != HF_OK)
        return HF_INVALID;
    return hf_lock_new_many(client, &scope, 1, options, ret_lock, error);
}

/* ---- Results of a request ------------------------------------------------------------ */

void lock_renewed_locked(struct hf_lock *lock, const struct validity *validity)
{
    if (mono_before(validity->t0, lock->validity.t0))
        return; /* two renewals were in progress, and the later one was reported first */
    bool more_often = validity->by_store && !lock->validity.by_store;
    lock->validity = *validity;
    if (more_often && !keeper_may_ignore(lock)) /* the watcher must check more often */
        env_cond_broadcast(&lock->client->keeper.changed);
    lock->renew_at = mono_add(validity->t0, SPAN_US(lock->ttl.us / 3));
    lock->danger_at = mono_add(validity->t0, SPAN_US(lock->ttl.us * 2 / 3));
    /* A caller that renews the lease itself needs no warning. */
    lock->in_danger = lock->options.no_renewal;
    lock->index_at =
        mono_before(validity->t0, lock->half_life) ? lock->half_life : validity->t0;
}

void lock_give_back(struct hf_lock *lock)
{
    struct span time = lock->ttl.us > LEAVE_TIME_MIN.us ? lock->ttl : LEAVE_TIME_MIN;
    release_later(table_ref_share(lock->ref), TABLE_CANCEL, view_of(lock->id), 0, VIEW(""),
                  time);
}

bool lock_hold_granted(struct hf_lock *lock, const struct request *request)
{
    struct keeper *keeper = &lock->client->keeper;
    struct validity validity = request_validity(request);
    env_mutex_lock(&keeper->mutex);
    lock->token = request->table.granted;
    lock->ttl = request->ttl;
    if (request->served.id[0])
        memcpy(lock->id, request->served.id, sizeof request->served.id);
    lock->gone = HF_OK;
    lock->given_back = lock->unconfirmed = false;
    lock->depth = 1;
    lock->state = LOCK_HELD;
    lock->report_safe = lock->report_gone = false;
    lock->half_life = mono_add(validity.t0, SPAN_US(lock->ttl.us / 2));
    lock->validity.by_store = validity.by_store; /* it is not watched yet */
    lock_renewed_locked(lock, &validity);
    /* The ttl is counted from t0, so the lease may have expired before a slow reply arrived. */
    bool valid = lock_check_locked(lock) == HF_OK && !keeper->closed;
    if (valid)
        keeper_add_locked(lock->client, lock);
    else
        lock->state = LOCK_IDLE;
    env_mutex_unlock(&keeper->mutex);
    return valid;
}

static enum hf_status refuse_closed(struct hf_error *error)
{
    return error_set(error, HF_CANCELLED, "the client is closed");
}

static bool is_closed(struct hf_client *client)
{
    env_mutex_lock(&client->keeper.mutex);
    bool closed = client->keeper.closed;
    env_mutex_unlock(&client->keeper.mutex);
    return closed;
}

static enum hf_status become_held(struct hf_lock *lock, const struct request *request,
                                  struct hf_error *error)
{
    if (lock_hold_granted(lock, request)) {
        lock_event(lock, HF_EVENT_GRANTED, HF_OK);
        return error_clear(error);
    }
    lock_give_back(lock);
    if (is_closed(lock->client))
        return refuse_closed(error);
    return error_set(error, HF_LOST,
                     "the reply came too late to use the lease, which is being released");
}

/* OK: held. HELD: in the queue, or refused. */
static enum hf_status take_reply(struct hf_lock *lock, struct request *request,
                                 struct hf_error *error)
{
    enum hf_status status = request->op.error.status;
    if (status == HF_OK && request->table.outcome == TABLE_GRANTED)
        return become_held(lock, request, error);
    if (status == HF_OK)
        return error_set(error, HF_HELD, "in the queue, with %zu ahead",
                         request->table.position);
    bool in_line = request->table.in_line && status != HF_ALREADY;
    /* An attempt that got no reply may have put us into the queue. */
    if (status == HF_UNSURE || in_line)
        lock_give_back(lock);
    if (error)
        *error = request->op.error;
    return status;
}

/* ---- Asking -------------------------------------------------------------------------- */

void lock_set_state(struct hf_lock *lock, enum lock_state state)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    lock->state = state;
    env_mutex_unlock(&lock->client->keeper.mutex);
}

static struct lease_request wanted_lease(const struct hf_lock *lock)
{
    static const enum lease_mode modes[] = {
        [HF_EXCLUSIVE] = LEASE_EXCLUSIVE, [HF_SHARED] = LEASE_SHARED, [HF_SLOTS] = LEASE_SLOTS
    };
    const struct hf_lock_options *options = &lock->options;
    return (struct lease_request){ .id = view_of(lock->id),
                                   .holder = view_of(lock->client->holder),
                                   .session = view_of(lock->client->session),
                                   .output = view_of(options->output ? options->output : ""),
                                   .note = view_of(options->note ? options->note : ""),
                                   .wish = { .scopes = lock->scopes,
                                             .scope_count = lock->scope_count,
                                             .mode = modes[options->mode],
                                             .slots = options->slots,
                                             .level = options->level,
                                             .ttl = SPAN_MS(options->ttl_ms),
                                             .poll = lock->waiter.poll } };
}

struct span once_slack(const struct hf_lock_options *options)
{
    int64_t slack_ms = options->once_slack_ms;
    return slack_ms > 0    ? SPAN_MS(slack_ms)
           : slack_ms == 0 ? SPAN_US(SPAN_MS(options->once_per_ms).us / 10)
                           : SPAN_US(0);
}

static void init_grant_request(struct hf_lock *lock, bool wait, struct mono_time deadline,
                               struct lease_request *wanted, struct request *request)
{
    *wanted = wanted_lease(lock);
    if (wait)
        wanted->place = store_session_join(&lock->client->presence);
    request_init(request, lock->ref, TABLE_ACQUIRE, deadline);
    request->table.wanted = wanted;
    request->table.wait = wait;
    request->hook = lock->hook;
    request->table.once_per = SPAN_MS(lock->options.once_per_ms);
    request->table.once_slack = once_slack(&lock->options);
    /* The reply goes into the second half of the array, because hf_lock_blocked may be reading the
     * first half. */
    request->blocked = lock->blocked + lock->scope_count;
    request->waiter = wait ? &lock->waiter : NULL;
}

enum hf_status lock_finish_acquire(struct hf_lock *lock, struct request *request,
                                   struct hf_error *error)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    memcpy(lock->blocked, request->blocked, lock->scope_count * sizeof(bool));
    env_mutex_unlock(&lock->client->keeper.mutex);
    enum hf_status status = take_reply(lock, request, error);
    if (request->table.wait && status == HF_HELD) {
        wait_queue_mark_queued(lock->ref, &lock->waiter);
        lock_set_state(lock, LOCK_WAITING);
    } else if (request->table.wait) {
        wait_queue_leave(lock->ref, &lock->waiter);
    }
    return status;
}

/* Sends one request for a grant. */
static enum hf_status request_grant(struct hf_lock *lock, bool wait, struct mono_time deadline,
                                    struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    struct lease_request wanted;
    init_grant_request(lock, wait, deadline, &wanted, &request);
    table_ref_ask(lock->ref, requests, 1);
    return lock_finish_acquire(lock, &request, error);
}

/* Each request has a new id. If an id were reused, the late effect of an abandoned request could be
 * mistaken for the effect of the new request. */
static void draw_id(struct hf_lock *lock)
{
    lock->waiter.number = client_next_id(lock->client);
    struct buffer id = { .data = lock->id,
                         .capacity = sizeof lock->id,
                         .max = sizeof lock->id - 1 };
    buffer_append(&id, view_of(lock->client->session));
    buffer_append_byte(&id, '-');
    buffer_append_u64(&id, lock->waiter.number);
    check(!id.failed);
    lock->id[id.size] = '\0';
}

/* The deadline of one request by a caller that waits until `deadline`. */
static struct mono_time ask_deadline(const struct hf_lock *lock, struct mono_time deadline)
{
    struct mono_time now = env_now(lock->client->env);
    struct mono_time least = mono_add(now, ASK_TIME_MIN), most = mono_add(now, REQUEST_TIME);
    return mono_before(deadline, least) ? least : mono_earlier(deadline, most);
}

/* Requests the lock. HELD: it was not free, and the handle now has a waiter in the queue. The
 * waiter is added to the wait queue before the request is sent, because another task may read the
 * table, and see our turn, before we get the reply. */
static enum hf_status join_queue(struct hf_lock *lock, struct mono_time deadline,
                                 struct hf_error *error)
{
    draw_id(lock);
    enum hf_status status = wait_queue_enter(lock->ref, &lock->waiter, error);
    if (status != HF_OK)
        return status;
    return request_grant(lock, /* wait */ true, ask_deadline(lock, deadline), error);
}

static void leave_queue(struct hf_lock *lock)
{
    wait_queue_leave(lock->ref, &lock->waiter);
    lock_set_state(lock, LOCK_IDLE);
}

/* Claims the waiter's turn. HELD: it was not our turn after all. LOST: we are no longer in the
 * queue, and the waiter has been removed. */
static enum hf_status send_claim(struct hf_lock *lock, struct mono_time deadline,
                                 struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    /* Cleared before the request is sent, so that a turn that the wait queue sees from now on
     * counts as a new one. */
    wait_queue_clear_turn(lock->ref, &lock->waiter);
    request_init(&request, lock->ref, TABLE_CLAIM, ask_deadline(lock, deadline));
    request.hook = lock->hook;
    request.table.id = view_of(lock->id);
    request.table.once_per = SPAN_MS(lock->options.once_per_ms);
    request.table.once_slack = once_slack(&lock->options);
    table_ref_ask(lock->ref, requests, 1);
    enum hf_status status = request.op.error.status;
    bool not_done = status == HF_TIMEOUT || status == HF_UNAVAILABLE;
    if (status != HF_HELD && !not_done)
        leave_queue(lock);
    if (not_done) { /* the table still has us in the queue */
        wait_queue_claim_again(lock->ref, &lock->waiter, deadline);
        return error_set(error, HF_HELD, "waiting; the store does not respond");
    }
    /* In these cases the table has given an answer, or take_reply passes an attempt that may have
     * taken effect to the cleanup task. */
    bool replied = status == HF_OK || status == HF_HELD || status == HF_LOST ||
                   status == HF_ALREADY || status == HF_UNSURE;
    if (!replied) /* we have left the wait queue, but are still in the table's queue */
        lock_give_back(lock);
    return take_reply(lock, &request, error);
}

static enum hf_status cancel_wait(struct hf_lock *lock, enum hf_status why, const char *words,
                                  struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    leave_queue(lock);
    request_init(&request, lock->ref, TABLE_CANCEL,
                 ask_deadline(lock, (struct mono_time){ 0 }));
    request.table.id = view_of(lock->id);
    if (table_ref_ask(lock->ref, requests, 1) != HF_OK)
        lock_give_back(lock);
    return error_set(error, why, "%s", words);
}

/* Continues a wait after news from the wait queue. OK: the lock is held. HELD: still in the
 * queue. LOST: the waiter was too slow to claim its turn, and has to join the queue again, at the
 * end. */
static enum hf_status continue_wait(struct hf_lock *lock, enum wait_queue_news news,
                                    struct mono_time deadline, struct hf_error *error)
{
    if (news == QUEUE_TURN)
        news = wait_queue_stagger(lock->ref, &lock->waiter, deadline);
    switch (news) {
    case QUEUE_NOTHING: return error_set(error, HF_HELD, "in the queue");
    case QUEUE_CANCELLED:
        return cancel_wait(lock, HF_CANCELLED, "the wait was cancelled", error);
    case QUEUE_TURN: return send_claim(lock, deadline, error);
    case QUEUE_MISSING: leave_queue(lock); break;
    }
    return HF_LOST;
}

/* ---- The calls ----------------------------------------------------------------------- */

/* Whether a handle may request the lock now: OK, or the reason why it may not. *ret_held: the
 * handle already holds the lock. */
static enum hf_status may_ask(struct hf_lock *lock, bool *ret_held, struct hf_error *error)
{
    struct keeper *keeper = &lock->client->keeper;
    env_mutex_lock(&keeper->mutex);
    enum hf_status status = lock->state == LOCK_HELD ? lock_check_locked(lock) : HF_OK;
    *ret_held = lock->state == LOCK_HELD && status == HF_OK;
    if (*ret_held && !lock->adopted)
        lock->depth++;
    bool waiting = lock->state == LOCK_WAITING;
    bool closed = keeper->closed;
    env_mutex_unlock(&keeper->mutex);
    if (closed)
        return refuse_closed(error);
    if (status != HF_OK && status != HF_UNSURE) /* UNSURE: adopted, and not confirmed */
        return error_set(error, status, "the lock was lost: release it, then acquire it again");
    if (waiting)
        return error_set(error, HF_INVALID, "the lock is already waiting; poll or cancel it");
    if (lock->adopted)
        return error_set(error, HF_INVALID, "an adopted lease cannot be acquired again");
    return *ret_held ? error_clear(error) : keeper_start_for(lock, error);
}

enum hf_status lock_begin_acquire(struct hf_lock *lock, bool waits,
                                  struct lease_request *wanted, struct request *request,
                                  struct hf_error *error)
{
    bool held;
    struct mono_time deadline = { 0 };
    wait_queue_clear_cancel(lock->ref, &lock->waiter);
    enum hf_status status = may_ask(lock, &held, error);
    if (status != HF_OK)
        return status;
    check(!held);
    draw_id(lock);
    if (waits) {
        status = wait_queue_enter(lock->ref, &lock->waiter, error);
        deadline = ask_deadline(lock, (struct mono_time){ MOMENT_FAR });
    }
    if (status == HF_OK)
        init_grant_request(lock, waits, deadline, wanted, request);
    return status;
}

static struct mono_time wait_deadline(struct env *env, int64_t wait_ms)
{
    struct mono_time now = env_now(env);
    bool far = wait_ms >= (MOMENT_FAR - now.us) / 1000;
    return far ? (struct mono_time){ MOMENT_FAR } : mono_add(now, SPAN_MS(wait_ms));
}

/* Whether the table has granted or refused a request for a grant. */
static bool is_answer_of_table(enum hf_status status)
{
    return status == HF_OK || status == HF_HELD || status == HF_ALREADY ||
           status == HF_MISMATCH || status == HF_INVALID;
}

/* Repeats the request until it is answered, because a caller that waits for the lock also waits
 * for the store and for room in the table. Each request has an id of its own. If one of them got
 * no reply, or an earlier one of this wait (`unsure`), its grant may still appear, until the
 * cleanup task has given it back. So the result is then UNSURE, unless the table has answered a
 * later one. */
static enum hf_status ask_until_answered(struct hf_lock *lock, bool unsure,
                                         struct mono_time deadline, struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status;
    enum wait_queue_news news = QUEUE_NOTHING;
    bool settled, closed = false;
    do {
        status = join_queue(lock, deadline, &why);
        unsure = unsure || status == HF_UNSURE;
        settled = request_settled(status);
        if (!settled) {
            wait_queue_note_trouble(lock->ref, &why);
            news = wait_queue_pause(lock->ref, &lock->waiter, deadline);
            closed = is_closed(lock->client);
        }
    } while (!settled && !closed && news == QUEUE_NOTHING &&
             mono_before(env_now(lock->client->env), deadline));
    wait_queue_note_trouble(lock->ref, NULL);
    if (unsure && !is_answer_of_table(status))
        return error_set(error, HF_UNSURE,
                         "the lease may still be granted, and is then released: %s", why.why);
    if (closed)
        return refuse_closed(error);
    if (news == QUEUE_CANCELLED && (status == HF_UNAVAILABLE || status == HF_TIMEOUT))
        return error_set(error, HF_CANCELLED, "the wait was cancelled");
    return error_tell(error, status, &why);
}

/* The server keeps the place in the queue, as long as the connection is there. */
static enum hf_status wait_at_server(struct hf_lock *lock, struct mono_time deadline,
                                     struct hf_error *error)
{
    draw_id(lock);
    enum hf_status status = wait_queue_enter(lock->ref, &lock->waiter, error);
    if (status != HF_OK)
        return status;
    status = request_grant(lock, /* wait */ true, deadline, error);
    if (status == HF_HELD) /* after every other status, it has left */
        leave_queue(lock);
    return status == HF_CANCELLED && is_closed(lock->client) ? refuse_closed(error) : status;
}

/* Requests the lock, and waits until the deadline. */
static enum hf_status wait_for_grant(struct hf_lock *lock, struct mono_time deadline,
                                     struct hf_error *error)
{
    if (lock->client->server)
        return wait_at_server(lock, deadline, error);
    enum hf_status status = HF_LOST;
    for (;;) {
        /* A claim without a reply has been given back, and its place with it. */
        bool unsure = status == HF_UNSURE;
        if (status == HF_LOST || unsure)
            status = ask_until_answered(lock, unsure, deadline, error);
        if (status != HF_HELD)
            return status;
        enum wait_queue_news news = wait_queue_wait(lock->ref, &lock->waiter, deadline);
        if (news == QUEUE_NOTHING && !mono_before(env_now(lock->client->env), deadline))
            return cancel_wait(lock, HF_TIMEOUT, "still held by other clients", error);
        status = continue_wait(lock, news, deadline, error);
    }
}

enum hf_status hf_lock_acquire(struct hf_lock *lock, int64_t wait_ms, struct hf_error *error)
{
    bool held;
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "wait must not be negative");
    client_active(lock->client);
    struct mono_time deadline = wait_deadline(lock->client->env, wait_ms);
    env_mutex_lock(&lock->calls);
    wait_queue_clear_cancel(lock->ref, &lock->waiter);
    enum hf_status status = may_ask(lock, &held, error);
    if (status == HF_OK && !held)
        table_ref_await_ended(lock->ref);
    if (status == HF_OK && !held && wait_ms == 0) {
        draw_id(lock);
        status = request_grant(lock, /* wait */ false, (struct mono_time){ 0 }, error);
    } else if (status == HF_OK && !held) {
        status = wait_for_grant(lock, deadline, error);
    }
    env_mutex_unlock(&lock->calls);
    return status;
}

/* One attempt that does not wait, so that a free lock needs no task. */
static enum hf_status begin_at_server(struct hf_lock *lock, struct hf_error *error)
{
    draw_id(lock);
    enum hf_status status =
        request_grant(lock, /* wait */ false, (struct mono_time){ 0 }, error);
    return status == HF_HELD ? served_begin_start(lock, error) : status;
}

enum hf_status hf_lock_begin(struct hf_lock *lock, struct hf_error *error)
{
    bool held;
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    env_mutex_lock(&lock->calls);
    wait_queue_clear_cancel(lock->ref, &lock->waiter);
    enum hf_status status = may_ask(lock, &held, error);
    if (status == HF_OK && !held)
        table_ref_await_ended(lock->ref);
    if (status == HF_OK && !held && lock->client->server)
        status = begin_at_server(lock, error);
    else if (status == HF_OK && !held)
        status = join_queue(lock, (struct mono_time){ MOMENT_FAR }, error);
    env_mutex_unlock(&lock->calls);
    return status;
}

static enum lock_state state_now(struct hf_lock *lock)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    enum lock_state state = lock->state;
    env_mutex_unlock(&lock->client->keeper.mutex);
    return state;
}

bool lock_is_waiting(struct hf_lock *lock)
{
    return state_now(lock) == LOCK_WAITING;
}

enum hf_status hf_lock_poll(struct hf_lock *lock, struct hf_error *error)
{
    struct mono_time far = { MOMENT_FAR };
    enum hf_status status;
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    env_mutex_lock(&lock->calls);
    switch (state_now(lock)) {
    case LOCK_IDLE:
        status = error_set(error, HF_NOT_FOUND, "the handle is not in the queue");
        break;
    case LOCK_HELD: status = hf_lock_check(lock, error); break;
    case LOCK_WAITING:
    default:
        if (lock->begun) {
            status = served_begin_poll(lock, error);
            break;
        }
        status = continue_wait(lock, wait_queue_poll(lock->ref, &lock->waiter), far, error);
        if (status == HF_LOST)
            status = join_queue(lock, far, error);
    }
    env_mutex_unlock(&lock->calls);
    return status;
}

enum hf_status hf_lock_cancel(struct hf_lock *lock, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    wait_queue_cancel_begin(lock->ref, &lock->waiter);
    env_mutex_lock(&lock->calls);
    if (lock->begun)
        served_begin_cancel(lock);
    else if (state_now(lock) == LOCK_WAITING)
        cancel_wait(lock, HF_OK, "", error);
    env_mutex_unlock(&lock->calls);
    wait_queue_cancel_end(lock->ref, &lock->waiter);
    return error_clear(error);
}

bool hf_lock_blocked(struct hf_lock *lock, size_t index)
{
    if (!lock)
        return false;
    env_mutex_lock(&lock->client->keeper.mutex);
    bool blocked = lock->blocked && index < lock->scope_count && lock->blocked[index];
    env_mutex_unlock(&lock->client->keeper.mutex);
    return blocked;
}

/* Leaves the queue and the keeper. True if the lease was held and has not been released. */
static bool leave_queue_and_keeper(struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    if (lock->begun) {
        served_begin_cancel(lock);
    } else if (state_now(lock) == LOCK_WAITING) {
        leave_queue(lock);
        lock_give_back(lock);
    }
    env_mutex_lock(&client->keeper.mutex);
    bool held = lock->state == LOCK_HELD && !lock->unconfirmed;
    if (held)
        keeper_remove_locked(client, lock);
    bool to_end = held && !lock->given_back;
    env_mutex_unlock(&client->keeper.mutex);
    return to_end;
}

void hf_lock_free(struct hf_lock *lock)
{
    if (!lock)
        return;
    if (leave_queue_and_keeper(lock)) {
        client_active(lock->client);
        lock_give_back(lock);
        if (lock->gone == HF_OK)
            lock_event(lock, HF_EVENT_RELEASED, HF_OK);
    }
    free_lock(lock);
}

void hf_lock_detach(struct hf_lock *lock)
{
    if (!lock)
        return;
    if (leave_queue_and_keeper(lock))
        keeper_index_detached(lock);
    free_lock(lock);
}
