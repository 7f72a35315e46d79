/* lock_kit.h: clients for tests of locks, each with a scripted store of its own in front of a store
 * that they have in common: their way there. It counts what passes, and does with calls what the
 * test says. */
#ifndef TESTS_LOCK_KIT_H
#define TESTS_LOCK_KIT_H

#include "lock/client.h"
#include "scripted_store.h"
#include "test.h"

/* ---- A way to the store -------------------------------------------------------------- */

/* From now on calls whose key contains `part` (a literal; "" is in all) meet this fate. */
void way_shut(struct script *way, const char *part, struct fate fate);

/* All goes well again, and nothing hangs any more. */
void way_open(struct script *way);

/* Of the calls from now on, the one of this number, from 0, meets this fate. */
void way_fail(struct script *way, long number, struct fate fate);

/* The same, and all calls after that are refused for good (DENIED): whoever goes this way is as
 * good as dead. */
void way_die(struct script *way, long number, struct fate fate);

/* Whether it has; and back to normal. One that is dead stays so. */
bool way_has_failed(struct script *way);

/* ---- Worlds and peers ---------------------------------------------------------------- */

/* One store: mem, sqlite, dir, or url for $HOLDFAST_TEST_URL, below a folder of its own. */
struct world {
    char url[4200];
    char *folder;
    struct store *truth; /* to look at, past all ways */
};

/* By the argument of the test program, or mem. */
bool world_kind_set(int argc, char **argv);
bool world_is_local(void);

void world_open(struct world *world);
void world_close(struct world *world);

/* The bytes of an object; NULL: there is none. To be freed. */
char *world_text(struct world *world, const char *key);
void world_write(struct world *world, const char *key, struct view text);

/* How often a piece of text is in an object. */
size_t world_times(struct world *world, const char *key, const char *piece);

/* A client with a way of its own. Where the store is not in memory its connection is its own
 * too, as that of another process would be. */
struct peer {
    struct script way;
    struct hf_client *client;
};

void peer_open(struct peer *peer, struct world *world, const struct hf_client_options *options);
void peer_close(struct peer *peer);

/* The same, for those who expect that it may fail. */
enum hf_status peer_try_open(struct peer *peer, struct world *world,
                             const struct hf_client_options *options, struct hf_error *error);

/* ---- Shorthands, which fail the test when it is not OK ------------------------------- */

/* `ttl_ms` of 0: as the options are without saying anything. */
struct hf_lock *lock_of(struct peer *peer, const char *scope, int64_t ttl_ms);
struct hf_lock *lock_with(struct peer *peer, const char *scope,
                          const struct hf_lock_options *options);
struct hf_lock *lock_held(struct peer *peer, const char *scope, int64_t ttl_ms);

void must(enum hf_status status, const struct hf_error *error, const char *call, int line);
#define MUST(call) must((call), &error, #call, __LINE__)

/* Fails the test. Its peers, whose locks nobody frees now, are left behind. */
#define FAIL(...)              \
    do {                       \
        kit_failed = true;     \
        fail_msg(__VA_ARGS__); \
    } while (0)
extern bool kit_failed;

#define ASSERT(condition)                              \
    do {                                               \
        if (!(condition))                              \
            FAIL("line %d: %s", __LINE__, #condition); \
    } while (0)

/* That it answers with this status. */
void answers(enum hf_status status, enum hf_status expected, const char *call, int line);
#define IS(expected, call) answers((call), (expected), #call, __LINE__)

/* ---- Time ---------------------------------------------------------------------------- */

/* Options of a lock of which only these are not zero. */
#define LOCK_OPTIONS(...) \
    ((struct hf_lock_options){ .struct_size = sizeof(struct hf_lock_options), __VA_ARGS__ })

struct mono_time now(void);
void pass_ms(int64_t ms);
/* A time of a scenario, longer on a gateway: its replies may take a while on a busy machine, and a
 * lease must outlast them. */
int64_t scaled_ms(int64_t ms);
int64_t ms_since(struct mono_time start);

/* Looks every millisecond until it is true; false after so long. */
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
