/* lock.c: handles, and how they come to hold: asking once, or standing in line. */
#include "lock/handle.h"

#include "base/check.h"
#include "base/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A request to stand in line is given at least this long, however short the wait. */
#define ASK_TIME_MIN SPAN_S(1)

#define ONCE_PER_MS_MAX (INT64_C(3660) * 24 * 3600000)

/* A lease that was not given back is over after its ttl; a place in line is not, and each one
 * that is left behind costs the others the time in which it could take its turn. So we go on
 * trying to leave for at least this long. */
#define LINE_TIME SPAN_S(600)

/* ---- Handles ------------------------------------------------------------------------- */

static enum hf_status check_options(const struct hf_lock_options *options,
                                    struct hf_error *error)
{
    enum hf_status status = ttl_ms_check(options->ttl_ms, error);
    if (status != HF_OK)
        return status;
    if (options->poll_ms < 0 || options->poll_ms > 3600000)
        return error_set(error, HF_INVALID, "a poll interval is at most an hour");
    if (options->once_per_ms < 0 || options->once_per_ms > ONCE_PER_MS_MAX)
        return error_set(error, HF_INVALID, "once_per is at most ten years");
    if (options->once_slack_ms < HF_NO_SLACK ||
        (options->once_slack_ms > 0 && options->once_slack_ms >= options->once_per_ms))
        return error_set(error, HF_INVALID, "the slack is less than once_per");
    if ((unsigned)options->mode > HF_SLOTS)
        return error_set(error, HF_INVALID, "a mode is exclusive, shared or slots");
    if ((options->mode == HF_SLOTS) != (options->slots > 0))
        return error_set(error, HF_INVALID, "the number of slots goes with the mode of slots");
    return HF_OK;
}

/* The texts of options, copied: `output` and `note`. */
static bool copy_text(const char **text)
{
    if (!*text)
        return true;
    *text = strdup(*text);
    return *text != NULL;
}

enum hf_status lock_new_at(struct hf_client *client, struct place *place,
                           const struct hf_lock_options *options, struct hf_lock **ret_lock,
                           struct hf_error *error)
{
    struct hf_lock *lock = calloc(1, sizeof *lock);
    if (!lock)
        return error_no_memory(error);
    lock->options = *options;
    bool copied = copy_text(&lock->options.output);
    if (!copied || !copy_text(&lock->options.note)) {
        free(copied ? (char *)(uintptr_t)lock->options.output : NULL);
        free(lock);
        return error_no_memory(error);
    }
    lock->client = client;
    lock->place = place;
    lock->ttl = SPAN_MS(options->ttl_ms);
    lock->seat.poll = options->poll_ms > 0 ? SPAN_MS(options->poll_ms) : client->poll;
    env_mutex_init(client->env, &lock->calls);
    env_cond_init(client->env, &lock->seat.wake);
    client_keep(client);
    *ret_lock = lock;
    return HF_OK;
}

static void free_handle(struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    env_cond_release(&lock->seat.wake);
    env_mutex_release(&lock->calls);
    place_drop(lock->place);
    free((char *)(uintptr_t)lock->options.output);
    free((char *)(uintptr_t)lock->options.note);
    free(lock->scopes);
    free(lock->blocked);
    free(lock);
    client_drop(client);
}

/* Reads the scopes into one allocation with their texts, and finds their table: all must live
 * in one. */
static enum hf_status read_scopes(struct hf_client *client, const char *const *texts,
                                  size_t count, struct scope **ret_scopes,
                                  char key[KEY_BYTES_MAX + 1], struct hf_error *error)
{
    size_t bytes = count * sizeof(struct scope);
    for (size_t i = 0; i < count; i++)
        bytes += strlen(texts[i]);
    struct scope *scopes = malloc(bytes);
    if (!scopes)
        return error_no_memory(error);
    char *copy = (char *)(scopes + count);
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        char other[KEY_BYTES_MAX + 1];
        struct view text = { copy, strlen(texts[i]) };
        memcpy(copy, texts[i], text.size);
        copy += text.size;
        status = scope_parse(text, &scopes[i], error);
        if (status == HF_OK)
            status = table_key(&client->space, &scopes[i], i == 0 ? key : other, error);
        if (status == HF_OK && i > 0 && strcmp(key, other) != 0)
            status =
                error_set(error, HF_INVALID, "'%.60s' and '%.60s' cannot be held as one lock",
                          texts[0], texts[i]);
    }
    if (status == HF_OK)
        *ret_scopes = scopes;
    else
        free(scopes);
    return status;
}

/* A lease that names an output stays in its table until somebody has settled what became of that,
 * which only compaction does, for chunks. */
static enum hf_status check_output(const char *output, const struct scope *scopes, size_t count,
                                   struct hf_error *error)
{
    bool of_chunks = false;
    for (size_t i = 0; i < count; i++)
        of_chunks = of_chunks || scopes[i].kind == SCOPE_CHUNK;
    if (of_chunks || !output || output[0] == '\0')
        return HF_OK;
    return error_set(error, HF_INVALID, "only a lock of chunks (chunk:KEY) can name an output");
}

enum hf_status hf_lock_new_many(struct hf_client *client, const char *const *scopes,
                                size_t count, const struct hf_lock_options *options,
                                struct hf_lock **ret_lock, struct hf_error *error)
{
    struct hf_lock_options used = HF_LOCK_OPTIONS;
    struct scope *parsed = NULL;
    struct place *place;
    struct hf_lock *lock;
    char key[KEY_BYTES_MAX + 1];
    if (ret_lock)
        *ret_lock = NULL;
    if (ERROR_IF_NULL(error, client, scopes, ret_lock) != HF_OK)
        return HF_INVALID;
    if (count == 0 || count > LEASE_SCOPES_MAX)
        return error_set(error, HF_INVALID, "a lock has 1 to %d scopes", LEASE_SCOPES_MAX);
    if (error_if_null_among(error, "scopes", scopes, count) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_LOCK_OPTIONS", options, &used, sizeof used, error);
    if (status == HF_OK)
        status = check_options(&used, error);
    if (status == HF_OK)
        status = read_scopes(client, scopes, count, &parsed, key, error);
    if (status != HF_OK)
        return status;
    bool *blocked = calloc(2 * count, sizeof *blocked);
    status = blocked ? check_output(used.output, parsed, count, error) : error_no_memory(error);
    if (status == HF_OK)
        status = place_take(client, view_of(key), &place, error);
    if (status == HF_OK && (status = lock_new_at(client, place, &used, &lock, error)) != HF_OK)
        place_drop(place);
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

/* ---- What came of a request ---------------------------------------------------------- */

void lock_renewed_locked(struct hf_lock *lock, const struct validity *validity)
{
    if (mono_before(validity->t0, lock->validity.t0))
        return; /* two renewals were under way, and the later was told first */
    if (validity->by_store && !lock->validity.by_store) /* the watcher must look more often */
        env_cond_broadcast(&lock->client->keeper.changed);
    lock->validity = *validity;
    lock->renew_at = mono_add(validity->t0, SPAN_US(lock->ttl.us / 3));
    lock->danger_at = mono_add(validity->t0, SPAN_US(lock->ttl.us * 2 / 3));
    lock->in_danger = lock->options.no_renewal; /* whoever renews by hand needs no warning */
    lock->index_at =
        mono_before(validity->t0, lock->half_life) ? lock->half_life : validity->t0;
}

void lock_give_back(struct hf_lock *lock)
{
    struct span time = lock->ttl.us > LINE_TIME.us ? lock->ttl : LINE_TIME;
    tie_up(place_share(lock->place), TABLE_CANCEL, view_of(lock->id), 0, VIEW(""), time);
}

bool lock_take_up(struct hf_lock *lock, const struct request *request)
{
    struct keeper *keeper = &lock->client->keeper;
    struct validity validity = request_validity(request);
    env_mutex_lock(&keeper->mutex);
    lock->token = request->table.granted;
    lock->ttl = request->ttl;
    lock->gone = HF_OK;
    lock->given_back = false;
    lock->depth = 1;
    lock->state = LOCK_HELD;
    lock->tell_safe = lock->tell_gone = false;
    lock->half_life = mono_add(validity.t0, SPAN_US(lock->ttl.us / 2));
    lock_renewed_locked(lock, &validity);
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
    return error_set(error, HF_CANCELLED, "its client is closed");
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
    if (lock_take_up(lock, request)) {
        lock_event(lock, HF_EVENT_GRANTED, HF_OK);
        return error_clear(error);
    }
    lock_give_back(lock);
    if (is_closed(lock->client))
        return refuse_closed(error);
    return error_set(error, HF_LOST, "it was granted too late to be of use, and is given back");
}

/* OK: held. HELD: in line, or refused. */
static enum hf_status take_answer(struct hf_lock *lock, struct request *request,
                                  struct hf_error *error)
{
    enum hf_status status = request->op.error.status;
    if (status == HF_OK && request->table.outcome == TABLE_GRANTED)
        return become_held(lock, request, error);
    if (status == HF_OK)
        return error_set(error, HF_HELD, "in line behind %zu", request->table.position);
    bool in_line = request->table.in_line && status != HF_ALREADY;
    if (status == HF_UNSURE || in_line) /* an attempt without an answer may have put us there */
        lock_give_back(lock);
    if (error)
        *error = request->op.error;
    return status;
}

/* ---- Asking -------------------------------------------------------------------------- */

static void set_state(struct hf_lock *lock, enum lock_state state)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    lock->state = state;
    env_mutex_unlock(&lock->client->keeper.mutex);
}

static struct lease wanted_lease(const struct hf_lock *lock)
{
    static const enum lease_mode modes[] = {
        [HF_EXCLUSIVE] = LEASE_EXCLUSIVE, [HF_SHARED] = LEASE_SHARED, [HF_SLOTS] = LEASE_SLOTS
    };
    const struct hf_lock_options *options = &lock->options;
    return (struct lease){ .id = view_of(lock->id),
                           .holder = view_of(lock->client->holder),
                           .session = view_of(lock->client->session),
                           .output = view_of(options->output ? options->output : ""),
                           .note = view_of(options->note ? options->note : ""),
                           .scopes = lock->scopes,
                           .scope_count = lock->scope_count,
                           .mode = modes[options->mode],
                           .slots = options->slots,
                           .level = options->level,
                           .ttl = SPAN_MS(options->ttl_ms),
                           .poll = lock->seat.poll };
}

/* Of work that is done once a period: the next may begin a little before that is over, since those
 * who start it are never quite on time. */
static void set_period(struct request *request, const struct hf_lock_options *options)
{
    int64_t slack_ms = options->once_slack_ms;
    request->table.once_per = SPAN_MS(options->once_per_ms);
    request->table.once_slack = slack_ms > 0    ? SPAN_MS(slack_ms)
                                : slack_ms == 0 ? SPAN_US(request->table.once_per.us / 10)
                                                : SPAN_US(0);
}

/* One request to be granted. */
static enum hf_status ask(struct hf_lock *lock, bool wait, struct mono_time deadline,
                          struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    struct lease wanted = wanted_lease(lock);
    request_init(&request, lock->place, TABLE_ACQUIRE, deadline);
    request.table.wanted = &wanted;
    request.table.wait = wait;
    request.guest = lock->guest;
    set_period(&request, &lock->options);
    /* Whoever asks for us writes behind what hf_lock_blocked may be reading. */
    request.blocked = lock->blocked + lock->scope_count;
    place_ask(lock->place, requests, 1);
    env_mutex_lock(&lock->client->keeper.mutex);
    memcpy(lock->blocked, request.blocked, lock->scope_count * sizeof(bool));
    env_mutex_unlock(&lock->client->keeper.mutex);
    return take_answer(lock, &request, error);
}

static void new_id(struct hf_lock *lock)
{
    lock->seat.number = client_next_id(lock->client);
    snprintf(lock->id, sizeof lock->id, "%s-%" PRIu64, lock->client->session,
             lock->seat.number);
}

static enum hf_status ask_once(struct hf_lock *lock, struct hf_error *error)
{
    new_id(lock);
    return ask(lock, /* wait */ false, (struct mono_time){ 0 }, error);
}

/* How long one request may take of one who waits until the deadline. */
static struct mono_time request_deadline(const struct hf_lock *lock, struct mono_time deadline)
{
    struct mono_time now = env_now(lock->client->env);
    struct mono_time least = mono_add(now, ASK_TIME_MIN), most = mono_add(now, REQUEST_TIME);
    return mono_before(deadline, least) ? least : mono_earlier(deadline, most);
}

/* Asks, or stands in line: HELD, with a seat. */
static enum hf_status ask_in_line(struct hf_lock *lock, struct mono_time deadline,
                                  struct hf_error *error)
{
    new_id(lock);
    enum hf_status status = room_enter(lock->place, &lock->seat, error);
    if (status != HF_OK)
        return status;
    status = ask(lock, /* wait */ true, request_deadline(lock, deadline), error);
    if (status == HF_HELD) {
        room_queued(lock->place, &lock->seat);
        set_state(lock, LOCK_WAITING);
    } else {
        room_leave(lock->place, &lock->seat);
    }
    return status;
}

static void give_up_seat(struct hf_lock *lock)
{
    room_leave(lock->place, &lock->seat);
    set_state(lock, LOCK_IDLE);
}

/* Whether a claim was answered by the table, or may be by an attempt that take_answer ties up. */
static bool is_answer(enum hf_status status)
{
    return status == HF_OK || status == HF_HELD || status == HF_LOST || status == HF_ALREADY ||
           status == HF_UNSURE;
}

/* Takes its turn. HELD: it was not our turn after all. LOST: no longer in line, and no seat. */
static enum hf_status claim(struct hf_lock *lock, struct mono_time deadline,
                            struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    room_wait_on(lock->place, &lock->seat); /* first: what is seen from now on is news */
    request_init(&request, lock->place, TABLE_CLAIM, request_deadline(lock, deadline));
    request.guest = lock->guest;
    request.table.id = view_of(lock->id);
    set_period(&request, &lock->options);
    place_ask(lock->place, requests, 1);
    enum hf_status status = request.op.error.status;
    bool not_done = status == HF_TIMEOUT || status == HF_UNAVAILABLE;
    if (status != HF_HELD && !not_done)
        give_up_seat(lock);
    if (not_done) /* the table still has us in line */
        return error_set(error, HF_HELD, "in line; the store does not answer");
    if (!is_answer(status)) /* so it has, and nobody will come */
        lock_give_back(lock);
    return take_answer(lock, &request, error);
}

static enum hf_status leave_line(struct hf_lock *lock, enum hf_status why, const char *words,
                                 struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    give_up_seat(lock);
    request_init(&request, lock->place, TABLE_CANCEL,
                 request_deadline(lock, (struct mono_time){ 0 }));
    request.table.id = view_of(lock->id);
    if (place_ask(lock->place, requests, 1) != HF_OK)
        lock_give_back(lock);
    return error_set(error, why, "%s", words);
}

/* Goes on with one who is in line, by what the room has to tell: OK; HELD: still in line. */
static enum hf_status go_on(struct hf_lock *lock, enum room_news news,
                            struct mono_time deadline, struct hf_error *error)
{
    enum hf_status status = HF_LOST;
    switch (news) {
    case ROOM_NOTHING: return error_set(error, HF_HELD, "in line");
    case ROOM_CANCELLED: return leave_line(lock, HF_CANCELLED, "the wait was cancelled", error);
    case ROOM_TURN: status = claim(lock, deadline, error); break;
    case ROOM_MISSING: give_up_seat(lock); break;
    }
    /* Who was too slow to take its turn stands in line again, at the end. */
    return status == HF_LOST ? ask_in_line(lock, deadline, error) : status;
}

/* ---- The calls ----------------------------------------------------------------------- */

/* Whether a handle may ask now: OK. Else what to say: held already (OK by *ret_held), or why
 * not. */
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
    if (status != HF_OK)
        return error_set(error, status, "release what was lost, then acquire again");
    if (waiting)
        return error_set(error, HF_INVALID, "it stands in line already: poll or cancel");
    if (lock->adopted)
        return error_set(error, HF_INVALID, "an adopted lease cannot be acquired again");
    return *ret_held ? error_clear(error) : keeper_start_for(lock, error);
}

static void forget_cancel(struct hf_lock *lock)
{
    env_mutex_lock(&lock->place->room.mutex);
    lock->seat.cancelled = false;
    env_mutex_unlock(&lock->place->room.mutex);
}

static struct mono_time deadline_after(struct env *env, int64_t wait_ms)
{
    struct mono_time now = env_now(env);
    bool far = wait_ms >= (MOMENT_FAR - now.us) / 1000;
    return far ? (struct mono_time){ MOMENT_FAR } : mono_add(now, SPAN_MS(wait_ms));
}

/* Asks until there is an answer: whoever wants to wait for the lock waits for the store, too, and
 * for room in the table. */
static enum hf_status keep_asking(struct hf_lock *lock, struct mono_time deadline,
                                  struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status;
    enum room_news news;
    do {
        status = ask_in_line(lock, deadline, &why);
        bool settled = request_settled(status);
        room_note_trouble(lock->place, settled ? NULL : &why);
        if (error)
            *error = why;
        if (settled)
            return status;
        news = room_pause(lock->place, &lock->seat, deadline);
        if (is_closed(lock->client) && status == HF_UNAVAILABLE)
            return refuse_closed(error);
    } while (news == ROOM_NOTHING && mono_before(env_now(lock->client->env), deadline));
    room_note_trouble(lock->place, NULL);
    if (news == ROOM_CANCELLED && status == HF_UNAVAILABLE)
        return error_set(error, HF_CANCELLED, "the wait was cancelled");
    return status;
}

/* Asks, and waits until the deadline. */
static enum hf_status acquire(struct hf_lock *lock, struct mono_time deadline,
                              struct hf_error *error)
{
    enum hf_status status = keep_asking(lock, deadline, error);
    while (status == HF_HELD) {
        enum room_news news = room_wait(lock->place, &lock->seat, deadline);
        if (news == ROOM_NOTHING && !mono_before(env_now(lock->client->env), deadline))
            return leave_line(lock, HF_TIMEOUT, "still held by others", error);
        status = go_on(lock, news, deadline, error);
    }
    return status;
}

enum hf_status hf_lock_acquire(struct hf_lock *lock, int64_t wait_ms, struct hf_error *error)
{
    bool held;
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "a wait is not less than nothing");
    client_active(lock->client);
    struct mono_time deadline = deadline_after(lock->client->env, wait_ms);
    env_mutex_lock(&lock->calls);
    forget_cancel(lock);
    enum hf_status status = may_ask(lock, &held, error);
    if (status == HF_OK && !held)
        status = wait_ms == 0 ? ask_once(lock, error) : acquire(lock, deadline, error);
    env_mutex_unlock(&lock->calls);
    return status;
}

enum hf_status hf_lock_begin(struct hf_lock *lock, struct hf_error *error)
{
    bool held;
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    env_mutex_lock(&lock->calls);
    forget_cancel(lock);
    enum hf_status status = may_ask(lock, &held, error);
    if (status == HF_OK && !held)
        status = ask_in_line(lock, (struct mono_time){ MOMENT_FAR }, error);
    env_mutex_unlock(&lock->calls);
    return status;
}

static enum lock_state state_of(struct hf_lock *lock)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    enum lock_state state = lock->state;
    env_mutex_unlock(&lock->client->keeper.mutex);
    return state;
}

enum hf_status hf_lock_poll(struct hf_lock *lock, struct hf_error *error)
{
    enum hf_status status;
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    env_mutex_lock(&lock->calls);
    switch (state_of(lock)) {
    case LOCK_IDLE: status = error_set(error, HF_NOT_FOUND, "it does not stand in line"); break;
    case LOCK_HELD: status = hf_lock_check(lock, error); break;
    case LOCK_WAITING:
    default:
        status = go_on(lock, room_glance(lock->place, &lock->seat),
                       (struct mono_time){ MOMENT_FAR }, error);
    }
    env_mutex_unlock(&lock->calls);
    return status;
}

enum hf_status hf_lock_cancel(struct hf_lock *lock, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    client_active(lock->client);
    room_cancel(lock->place, &lock->seat);
    env_mutex_lock(&lock->calls);
    if (state_of(lock) == LOCK_WAITING)
        leave_line(lock, HF_OK, "", error);
    env_mutex_unlock(&lock->calls);
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

/* Leaves the line and the keeper's hands. True when it was held, and nobody has given it back. */
static bool let_go(struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    if (state_of(lock) == LOCK_WAITING) {
        give_up_seat(lock);
        lock_give_back(lock);
    }
    env_mutex_lock(&client->keeper.mutex);
    bool held = lock->state == LOCK_HELD;
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
    if (let_go(lock)) {
        client_active(lock->client);
        lock_give_back(lock);
        if (lock->gone == HF_OK)
            lock_event(lock, HF_EVENT_RELEASED, HF_OK);
    }
    free_handle(lock);
}

void hf_lock_detach(struct hf_lock *lock)
{
    if (!lock)
        return;
    if (let_go(lock))
        keeper_index_left(lock);
    free_handle(lock);
}
