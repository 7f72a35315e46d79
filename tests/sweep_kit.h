/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_kit.h: a store in memory and two clients of it, with a clock that moves only during
 * sleeps or when the test moves it, so days pass at once. Tasks that a client starts do not
 * run, unless the test wants threads. So nothing is renewed, and nothing enters the expiry
 * index by itself. */
#ifndef TESTS_SWEEP_KIT_H
#define TESTS_SWEEP_KIT_H

#include "key_kit.h"
#include "sweep/sweep.h"

#include <pthread.h>
#include <stdatomic.h>

/* The start: 2026-01-08 11:00, the first moment of an hour. */
#define KIT_BEGIN_S INT64_C(1767870000)

struct sweep_kit {
    struct env env; /* must be first */
    atomic_int_fast64_t now_us;
    pthread_t owner;     /* time passes when it sleeps; others wait for that */
    atomic_bool joining; /* except while it waits for one of them */
    atomic_bool threads; /* tasks that are started now run */
    struct world world;
    struct peer one, two; /* one is the sweeper */
    struct sweep_cursor cursor;
};

int sweep_set_up(void **state);
int sweep_tear_down(void **state);

#define SWEEP(sentence, function)                                   \
    {                                                               \
        (sentence), (function), sweep_set_up, sweep_tear_down, NULL \
    }

/* Lets this much time pass. */
void pass(struct sweep_kit *kit, struct span span);
#define HOURS(count) SPAN_S((count)*3600)

/* D, plus at most two hours until an entry written then is in an hour that is over. */
#define PAST_D HOURS(27)

/* Takes a lock of this name and never releases it. */
void leave_lock(struct peer *peer, const char *name, int64_t ttl_ms);

/* The same for a key, with this text as its state. */
void leave_key(struct peer *peer, const char *name, int64_t ttl_ms, const char *text);

/* Writes an entry for the table of a name, in the current hour. */
void enter(struct sweep_kit *kit, const char *name);

/* Leaves locks "<name>0", "<name>1", ... with their entries. */
void leave_locks(struct sweep_kit *kit, const char *name, size_t count, int64_t ttl_ms);

/* How many objects have keys with this prefix. */
size_t objects(struct sweep_kit *kit, const char *prefix);
#define ENTRIES     "default/.lease-index/"
#define TXN_ENTRIES ".txn-decisions/e/"
#define TXN_RECORDS ".txn-decisions/m/"

/* A hash of everything in the store: equal if nothing was written. */
uint64_t fingerprint(struct sweep_kit *kit);

/* How many leases are active in the table of a name. */
size_t leases(struct sweep_kit *kit, const char *name);

/* Options of a sweep by hand, with no delay and no relevant cap. */
struct sweep_options by_hand(void);

/* Runs a sweep with client one from the kit's cursor; must be OK. */
struct sweep_report run_with(struct sweep_kit *kit, const struct sweep_options *options);
struct sweep_report run(struct sweep_kit *kit);
struct sweep_report run_full(struct sweep_kit *kit);

/* Requests of client one since the last call. */
unsigned requests(struct sweep_kit *kit);

#endif
