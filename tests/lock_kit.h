/* SPDX-License-Identifier: Apache-2.0 */
/* lock_kit.h: clients for tests of locks. They share a store, and each reaches it through its
 * own scripted store, its way. The way counts calls, and handles them as the test says. */
#ifndef TESTS_LOCK_KIT_H
#define TESTS_LOCK_KIT_H

#include "lock/client_inside.h"
#include "scripted_store.h"
#include "test.h"

#include <stdio.h>

/* ---- A way to the store -------------------------------------------------------------- */

/* From now on, calls whose key contains `part` (a literal; "" matches all) meet this fate. */
void way_shut(struct script *way, const char *part, struct fate fate);

/* Removes all fates, and lets hanging calls go on. */
void way_open(struct script *way);

/* The call with this number, counted from 0 from now on, meets this fate. */
void way_fail(struct script *way, long number, struct fate fate);

/* The same, and all calls after it are refused for good (INVALID, after which nothing is tried
 * again in the background): the client of this way is as good as dead. */
void way_die(struct script *way, long number, struct fate fate);

/* Whether the call has failed; also removes the fate. A dead way stays dead. */
bool way_has_failed(struct script *way);

/* ---- Worlds and peers ---------------------------------------------------------------- */

/* One store: mem, sqlite, dir, or url for $HOLDFAST_TEST_URL, below a path of its own. */
struct world {
    char url[4200];
    char *folder;
    struct store *truth; /* for reading directly */
};

/* Sets the kind from the argument of the test program (default: mem). */
bool world_kind_set(int argc, char **argv);
bool world_is_local(void);

void world_open(struct world *world);
void world_close(struct world *world);

/* The bytes of an object; NULL: there is none. The caller frees them. */
char *world_text(struct world *world, const char *key);
void world_write(struct world *world, const char *key, struct view text);

/* How often an object contains a text. */
size_t world_times(struct world *world, const char *key, const char *piece);

/* A client with its own way. Unless the store is in memory, it also has its own connection, as
 * in another process. */
struct peer {
    struct script way;
    struct hf_client *client;
};

void peer_open(struct peer *peer, struct world *world, const struct hf_client_options *options);
void peer_close(struct peer *peer);

/* The same for tests in which it may fail. */
enum hf_status peer_try_open(struct peer *peer, struct world *world,
                             const struct hf_client_options *options, struct hf_error *error);

/* ---- Short calls, which fail the test on an error ------------------------------------ */

/* `ttl_ms` of 0: the default. */
struct hf_lock *lock_of(struct peer *peer, const char *scope, int64_t ttl_ms);
struct hf_lock *lock_with(struct peer *peer, const char *scope,
                          const struct hf_lock_options *options);
struct hf_lock *lock_held(struct peer *peer, const char *scope, int64_t ttl_ms);

void must(enum hf_status status, const struct hf_error *error, const char *call, int line);
#define MUST(call) must((call), &error, #call, __LINE__)

/* Fails the test, and leaves its peers and their locks behind. The sentence is printed here, since
 * the TAP output of cmocka leaves it out. */
#define FAIL(...)                 \
    do {                          \
        kit_failed = true;        \
        printf("# " __VA_ARGS__); \
        putchar('\n');            \
        fail_msg(__VA_ARGS__);    \
    } while (0)
extern bool kit_failed;

#define ASSERT(condition)                              \
    do {                                               \
        if (!(condition))                              \
            FAIL("line %d: %s", __LINE__, #condition); \
    } while (0)

/* Checks that a call returns this status. */
void answers(enum hf_status status, enum hf_status expected, const char *call, int line);
#define IS(expected, call) answers((call), (expected), #call, __LINE__)

/* ---- Time ---------------------------------------------------------------------------- */

/* Options of a lock; all others are zero. */
#define LOCK_OPTIONS(...) \
    ((struct hf_lock_options){ .struct_size = sizeof(struct hf_lock_options), __VA_ARGS__ })

struct mono_time now(void);
void pass_ms(int64_t ms);
/* A duration of a test, longer on a gateway: replies may be slow on a busy machine, and a lease
 * must outlast them. */
int64_t scaled_ms(int64_t ms);
int64_t ms_since(struct mono_time start);

/* Polls every millisecond until it is true; false after `within_ms`. */
bool comes_true(bool (*is)(void *argument), void *argument, int64_t within_ms);

/* ---- One world and two peers, as the state of a test --------------------------------- */

struct pair {
    struct world world;
    struct peer one, two;
};

int pair_set_up(void **state);
int pair_tear_down(void **state);

#define PAIR(sentence, function)                                  \
    {                                                             \
        (sentence), (function), pair_set_up, pair_tear_down, NULL \
    }

#endif
