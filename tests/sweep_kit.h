/* sweep_kit.h: a store in memory and two clients of it, in a world whose clock moves only when
 * somebody sleeps or the test says so: hours and days pass at once. Tasks that a client starts do
 * not run, unless the test wants threads; so nothing is renewed, and nothing enters the index by
 * itself. */
#ifndef TESTS_SWEEP_KIT_H
#define TESTS_SWEEP_KIT_H

#include "key_kit.h"
#include "sweep/sweep.h"

#include <pthread.h>
#include <stdatomic.h>

/* It begins at 2026-01-08 11:00, which is an hour's first moment. */
#define KIT_BEGIN_S INT64_C(1767870000)

struct sweep_kit {
    struct env env; /* must stand first */
    atomic_int_fast64_t now_us;
    pthread_t owner;     /* when it sleeps, time passes; others wait for that */
    atomic_bool joining; /* unless it waits for one of them */
    atomic_bool threads; /* tasks that are started now run */
    struct world world;
    struct peer one, two; /* one sweeps */
    struct sweep_cursor cursor;
};

int sweep_set_up(void **state);
int sweep_tear_down(void **state);

#define SWEEP(sentence, function)                                   \
    {                                                               \
        (sentence), (function), sweep_set_up, sweep_tear_down, NULL \
    }

/* Nothing happens for so long. */
void pass(struct sweep_kit *kit, struct span span);
#define HOURS(count) SPAN_S((count)*3600)

/* D, and the two hours at most until an entry of then is in an hour that is over. */
#define PAST_D HOURS(27)

/* Takes a lock of this name and goes away without a word. */
void leave_lock(struct peer *peer, const char *name, int64_t ttl_ms);

/* The same of a key, whose state is this text then. */
void leave_key(struct peer *peer, const char *name, int64_t ttl_ms, const char *text);

/* Writes an entry for the table of a name, in the hour of now. */
void enter(struct sweep_kit *kit, const char *name);

/* Locks "<name>0", "<name>1", ... that nobody will give back, with their entries. */
void leave_locks(struct sweep_kit *kit, const char *name, size_t count, int64_t ttl_ms);

/* How many objects have keys that start like this. */
size_t objects(struct sweep_kit *kit, const char *prefix);
#define ENTRIES     "default/.lease-index/"
#define TXN_ENTRIES ".txn-decisions/e/"
#define TXN_RECORDS ".txn-decisions/m/"

/* All that is in the store: equal when nothing was written. */
uint64_t fingerprint(struct sweep_kit *kit);

/* How many leases are active in the table of a name. */
size_t leases(struct sweep_kit *kit, const char *name);

/* By hand, without a delay or a cap that matters. */
struct sweep_options by_hand(void);

/* Runs, by client one from the kit's cursor; must be OK. */
struct sweep_report run_with(struct sweep_kit *kit, const struct sweep_options *options);
struct sweep_report run(struct sweep_kit *kit);
struct sweep_report run_full(struct sweep_kit *kit);

/* Requests of client one since the last time. */
unsigned requests(struct sweep_kit *kit);

#endif
