/* room.h: the waiting room of one table: all of this process who wait there look once.
 *
 * Who waits has a seat. One of them looks for all: it waits for the bell of a local store or for
 * the next poll, looks at the table, and tells those whose turn has come. Whatever else this
 * process reads or writes of the table is learnt on the way. */
#ifndef LOCK_ROOM_H
#define LOCK_ROOM_H

#include "lease/table.h"
#include "store/store.h"

struct place;

/* Guarded by the room's mutex. */
struct seat {
    uint64_t number; /* of the id of the waiter: "<session>-<number>" */
    bool queued;     /* the table is known to have it */
    bool turn;       /* the table says that it is our turn */
    bool missing;    /* the table no longer has it */
    bool cancelled;
    bool asleep; /* somebody waits on `wake` */
    struct span poll;
    struct env_cond wake;
};

#define ROOM_SEATS_MAX TABLE_WAITERS_MAX

struct room {
    struct env_mutex mutex;
    struct seat **seats; /* in order of number */
    size_t seat_count, seat_room;
    bool looking;             /* one of them looks ... */
    struct seat *listener;    /* ... and listens to the store's bell: this one, or NULL */
    struct mono_time look_at; /* the next poll is due */
    struct mono_time act_at;  /* something is provably over then, if nothing changes */
    uint64_t ticket;          /* of the store's bell */
    struct hf_error trouble;  /* why the last who asked had no answer; OK: it had one */
};

void room_init(struct room *room, struct env *env);
void room_release(struct room *room);

/* Learns what the table says: a doc's `seen` hook, with the place as its argument. */
void room_seen(void *place, const void *table, const struct evidence *evidence);

/* Takes a seat; from now on what is seen of this number counts. */
enum hf_status room_enter(struct place *place, struct seat *seat, struct hf_error *error);
void room_leave(struct place *place, struct seat *seat);

/* The table has the waiter of this seat. */
void room_queued(struct place *place, struct seat *seat);

/* Its turn came to nothing: it waits on. */
void room_wait_on(struct place *place, struct seat *seat);

enum room_news { ROOM_NOTHING, ROOM_TURN, ROOM_MISSING, ROOM_CANCELLED };

/* Waits for news of a seat, until the deadline; looks for the others meanwhile if nobody does. */
enum room_news room_wait(struct place *place, struct seat *seat, struct mono_time deadline);

/* The same without waiting: looks if it is time to. */
enum room_news room_glance(struct place *place, struct seat *seat);

/* Between two tries to enter the table: waits as long as between two looks at it, unless the
 * deadline comes or the wait is cancelled. */
enum room_news room_pause(struct place *place, struct seat *seat, struct mono_time deadline);

/* Notes why one who asks had no answer, and goes on asking; `why` NULL: it had one, or stopped. */
void room_note_trouble(struct place *place, const struct hf_error *why);

/* What was noted last, or what the request meets that is under way; false: nothing is amiss. For
 * those who tell people what is waited for. */
bool room_trouble(struct place *place, struct hf_error *ret_why);

/* Wakes who waits on this seat, for good. */
void room_cancel(struct place *place, struct seat *seat);

/* The same for all who wait here at this moment. */
void room_cancel_all(struct place *place);

#endif
