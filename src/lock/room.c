#include "lock/room.h"

#include "base/check.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lock/client.h"

#include <stdlib.h>

/* All who act on a proof do so within this time of it, the first in line first. */
#define STAGGER_MAX SPAN_S(2)

/* A look is given this long; the next one may go better. */
#define LOOK_TIME SPAN_S(2)

/* After acting in vain. */
#define POLL_AGAIN SPAN_MS(100)

void room_init(struct room *room, struct env *env)
{
    *room = (struct room){ .look_at = { 0 }, .act_at = { MOMENT_FAR } };
    env_mutex_init(env, &room->mutex);
}

void room_release(struct room *room)
{
    check(room->seat_count == 0);
    free(room->seats);
    env_mutex_release(&room->mutex);
}

/* ---- Seats --------------------------------------------------------------------------- */

/* Where a seat of this number is, or would be. */
static size_t seat_index(const struct room *room, uint64_t number)
{
    size_t low = 0, high = room->seat_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (room->seats[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room_locked(struct room *room)
{
    if (room->seat_count < room->seat_room)
        return true;
    size_t more = room->seat_room > 0 ? 2 * room->seat_room : 8;
    struct seat **seats = realloc(room->seats, more * sizeof(struct seat *));
    if (!seats)
        return false;
    room->seats = seats;
    room->seat_room = more;
    return true;
}

enum hf_status room_enter(struct place *place, struct seat *seat, struct hf_error *error)
{
    struct room *room = &place->room;
    enum hf_status status = HF_OK;
    env_mutex_lock(&room->mutex);
    if (room->seat_count >= ROOM_SEATS_MAX)
        status = error_set(error, HF_UNAVAILABLE, "too many wait for it in this process");
    else if (!make_room_locked(room))
        status = error_no_memory(error);
    if (status == HF_OK) {
        size_t index = seat_index(room, seat->number);
        memmove(&room->seats[index + 1], &room->seats[index],
                (room->seat_count - index) * sizeof(struct seat *));
        room->seats[index] = seat;
        room->seat_count++;
        seat->queued = seat->turn = seat->missing = false;
        struct mono_time look_at = mono_add(env_now(place->client->env), seat->poll);
        room->look_at = room->seat_count == 1 ? look_at : mono_earlier(room->look_at, look_at);
    }
    env_mutex_unlock(&room->mutex);
    return status;
}

/* Somebody must look: the one who did has left. */
static void pass_on_locked(struct room *room)
{
    for (size_t i = 0; i < room->seat_count && !room->looking; i++)
        if (room->seats[i]->asleep && !room->seats[i]->turn) {
            env_cond_signal(&room->seats[i]->wake);
            return;
        }
}

void room_leave(struct place *place, struct seat *seat)
{
    struct room *room = &place->room;
    env_mutex_lock(&room->mutex);
    size_t index = seat_index(room, seat->number);
    check(index < room->seat_count && room->seats[index] == seat);
    room->seat_count--;
    memmove(&room->seats[index], &room->seats[index + 1],
            (room->seat_count - index) * sizeof(struct seat *));
    pass_on_locked(room);
    env_mutex_unlock(&room->mutex);
}

void room_queued(struct place *place, struct seat *seat)
{
    env_mutex_lock(&place->room.mutex);
    seat->queued = true;
    env_mutex_unlock(&place->room.mutex);
}

void room_wait_on(struct place *place, struct seat *seat)
{
    env_mutex_lock(&place->room.mutex);
    seat->turn = false;
    env_mutex_unlock(&place->room.mutex);
}

/* ---- Learning ------------------------------------------------------------------------ */

/* The seat of a waiter of the table, or NULL: not one of ours. */
static struct seat *seat_of(const struct place *place, struct view id)
{
    const struct room *room = &place->room;
    const char *session = place->client->session;
    if (id.size <= NONCE_SIZE + 1 || memcmp(id.data, session, NONCE_SIZE) != 0)
        return NULL;
    uint64_t number;
    if (parse_u64(view_from(id, NONCE_SIZE + 1), UINT64_MAX, &number, NULL) != HF_OK)
        return NULL;
    size_t index = seat_index(room, number);
    bool found = index < room->seat_count && room->seats[index]->number == number;
    return found ? room->seats[index] : NULL;
}

/* Whoever has the seat wakes: also where it listens to the bell, which its own process does not
 * ring for it. */
static void wake_locked(struct place *place, struct seat *seat)
{
    if (seat == place->room.listener)
        store_ring(place->client->store);
    else
        env_cond_signal(&seat->wake);
}

static void give_turn_locked(struct place *place, struct seat *seat)
{
    if (!seat->turn)
        wake_locked(place, seat);
    seat->turn = true;
}

void room_cancel(struct place *place, struct seat *seat)
{
    env_mutex_lock(&place->room.mutex);
    seat->cancelled = true;
    wake_locked(place, seat);
    env_mutex_unlock(&place->room.mutex);
}

void room_cancel_all(struct place *place)
{
    struct room *room = &place->room;
    env_mutex_lock(&room->mutex);
    for (size_t i = 0; i < room->seat_count; i++) {
        room->seats[i]->cancelled = true;
        wake_locked(place, room->seats[i]);
    }
    env_mutex_unlock(&room->mutex);
}

/* Those who are first in line act first on what is provably over, and one by one. */
static struct mono_time act_at(const struct place *place, const struct lease_table *table,
                               const struct evidence *evidence, size_t position)
{
    struct mono_time due = table_due_at(table, evidence);
    if (due.us >= MOMENT_FAR)
        return due;
    struct span round_trip = doc_round_trip(place->doc);
    int64_t most = STAGGER_MAX.us / (round_trip.us + 1);
    struct span stagger =
        (int64_t)position < most ? SPAN_US((int64_t)position * round_trip.us) : STAGGER_MAX;
    return mono_add(due, stagger);
}

void room_seen(void *argument, const void *body, const struct evidence *evidence)
{
    struct place *place = argument;
    struct room *room = &place->room;
    const struct lease_table *table = body;
    size_t first = table->waiter_count;
    env_mutex_lock(&room->mutex);
    if (room->seat_count > 0) {
        for (size_t i = 0; i < room->seat_count; i++)
            room->seats[i]->missing = room->seats[i]->queued;
        for (size_t i = 0; i < table->waiter_count; i++) {
            struct seat *seat = seat_of(place, table->waiters[i].wanted->id);
            if (!seat)
                continue;
            first = i < first ? i : first;
            seat->missing = false;
            if (table->waiters[i].reserved)
                give_turn_locked(place, seat);
        }
        for (size_t i = 0; !RULE(CLAIM_BY_OWN_PUT) && i < table->lease_count; i++) {
            struct seat *seat = seat_of(place, table->leases[i]->id);
            if (seat && seat->queued)
                give_turn_locked(place, seat);
        }
        for (size_t i = 0; i < room->seat_count; i++)
            if (room->seats[i]->missing)
                wake_locked(place, room->seats[i]);
        room->act_at = act_at(place, table, evidence, first);
    }
    env_mutex_unlock(&room->mutex);
}

/* ---- Looking ------------------------------------------------------------------------- */

static void nothing_more(void *argument, const void *body, const struct evidence *evidence)
{
    (void)argument;
    (void)body;
    (void)evidence;
}

/* There is no table any more. */
static void all_missing(struct place *place)
{
    struct room *room = &place->room;
    env_mutex_lock(&room->mutex);
    for (size_t i = 0; i < room->seat_count; i++) {
        room->seats[i]->missing = room->seats[i]->queued;
        if (room->seats[i]->missing)
            wake_locked(place, room->seats[i]);
    }
    env_mutex_unlock(&room->mutex);
}

/* Reads the table if it has changed; what it says is learnt by room_seen. */
static void look(struct place *place)
{
    struct hf_error error;
    struct mono_time deadline = mono_add(env_now(place->client->env), LOOK_TIME);
    enum hf_status status = doc_look(place->doc, deadline, nothing_more, NULL, &error);
    if (status == HF_NOT_FOUND)
        all_missing(place);
    if (status == HF_CORRUPT)
        table_replace(place->space, doc_key(place->doc), deadline, &error);
}

/* Marks what is over as over, which makes somebody else's turn. Looks first: it may have been
 * renewed. */
static void act(struct place *place)
{
    struct room *room = &place->room;
    struct env *env = place->client->env;
    look(place);
    env_mutex_lock(&room->mutex);
    bool due = !mono_before(env_now(env), room->act_at);
    if (due) /* if it comes to nothing, not again at once */
        room->act_at = mono_add(env_now(env), POLL_AGAIN);
    env_mutex_unlock(&room->mutex);
    if (!due)
        return;
    struct request request, *requests[] = { &request };
    request_init(&request, place, TABLE_SCAVENGE, mono_add(env_now(env), LOOK_TIME));
    place_ask(place, requests, 1);
}

static struct span shortest_poll_locked(const struct room *room, struct span poll)
{
    for (size_t i = 0; i < room->seat_count; i++)
        poll = span_smaller(poll, room->seats[i]->poll);
    return poll;
}

/* Looks in the way that is due now; with the mutex held, which is let go meanwhile. */
static void look_locked(struct place *place, const struct seat *seat, bool rang)
{
    struct room *room = &place->room;
    struct env *env = place->client->env;
    struct mono_time now = env_now(env);
    bool act_now = !mono_before(now, room->act_at);
    bool poll_now = !mono_before(now, room->look_at);
    if (poll_now) {
        struct span poll = shortest_poll_locked(room, seat->poll);
        room->look_at =
            mono_add(now, SPAN_US(poll.us - env_jitter(env, SPAN_US(poll.us / 8)).us));
    }
    env_mutex_unlock(&room->mutex);
    if (act_now)
        act(place);
    else if (poll_now || rang)
        look(place);
    env_mutex_lock(&room->mutex);
}

/* ---- Waiting ------------------------------------------------------------------------- */

static enum room_news news_locked(const struct seat *seat)
{
    return seat->cancelled ? ROOM_CANCELLED
           : seat->turn    ? ROOM_TURN
           : seat->missing ? ROOM_MISSING
                           : ROOM_NOTHING;
}

/* Waits for the bell, or for the next moment at which there is something to do. */
static void look_out_locked(struct place *place, struct seat *seat, struct mono_time deadline)
{
    struct room *room = &place->room;
    struct store *store = place->client->store;
    struct mono_time moment = mono_earlier(deadline, mono_earlier(room->look_at, room->act_at));
    bool rang = false;
    if (store_listens(store)) {
        room->listener = seat;
        env_mutex_unlock(&room->mutex);
        rang = store_listen(store, &room->ticket, moment);
        env_mutex_lock(&room->mutex);
        room->listener = NULL;
    } else {
        env_cond_wait_until(&seat->wake, &room->mutex, moment);
    }
    if (news_locked(seat) == ROOM_NOTHING)
        look_locked(place, seat, rang);
}

enum room_news room_wait(struct place *place, struct seat *seat, struct mono_time deadline)
{
    struct room *room = &place->room;
    struct env *env = place->client->env;
    env_mutex_lock(&room->mutex);
    while (news_locked(seat) == ROOM_NOTHING && mono_before(env_now(env), deadline)) {
        if (room->looking) {
            seat->asleep = true;
            env_cond_wait_until(&seat->wake, &room->mutex, deadline);
            seat->asleep = false;
            continue;
        }
        room->looking = true;
        look_out_locked(place, seat, deadline);
        room->looking = false;
    }
    enum room_news news = news_locked(seat);
    pass_on_locked(room);
    env_mutex_unlock(&room->mutex);
    return news;
}

enum room_news room_pause(struct place *place, struct seat *seat, struct mono_time deadline)
{
    struct hf_client *client = place->client;
    struct mono_time pause_end =
        mono_add(env_now(client->env), span_smaller(seat->poll, client->poll));
    struct mono_time until = mono_earlier(deadline, pause_end);
    env_mutex_lock(&place->room.mutex);
    while (!seat->cancelled && mono_before(env_now(client->env), until))
        env_cond_wait_until(&seat->wake, &place->room.mutex, until);
    enum room_news news = seat->cancelled ? ROOM_CANCELLED : ROOM_NOTHING;
    env_mutex_unlock(&place->room.mutex);
    return news;
}

void room_note_trouble(struct place *place, const struct hf_error *why)
{
    env_mutex_lock(&place->room.mutex);
    if (why)
        place->room.trouble = *why;
    else
        error_clear(&place->room.trouble);
    env_mutex_unlock(&place->room.mutex);
}

bool room_trouble(struct place *place, struct hf_error *ret_why)
{
    env_mutex_lock(&place->room.mutex);
    *ret_why = place->room.trouble;
    env_mutex_unlock(&place->room.mutex);
    return ret_why->status != HF_OK || doc_trouble(place->doc, ret_why);
}

enum room_news room_glance(struct place *place, struct seat *seat)
{
    struct room *room = &place->room;
    env_mutex_lock(&room->mutex);
    if (news_locked(seat) == ROOM_NOTHING && !room->looking) {
        room->looking = true;
        look_locked(place, seat, /* rang */ false);
        room->looking = false;
    }
    enum room_news news = news_locked(seat);
    pass_on_locked(room);
    env_mutex_unlock(&room->mutex);
    return news;
}
