/* SPDX-License-Identifier: Apache-2.0 */
/* doc_kit.h: a document for tests, with its own env: one task, a clock that moves only during a
 * sleep or a request, and a store that handles each call as the script of the test says.
 *
 * The document is a ledger: a list of ids, each with the nonce of the attempt that wrote it.
 * The operation adds an id, and recognises itself by that id. So the store shows whether an
 * operation happened, and how often. */
#ifndef TESTS_DOC_KIT_H
#define TESTS_DOC_KIT_H

#include "base/prng.h"
#include "doc/doc.h"
#include "scripted_store.h"

#define KIT_KEY        VIEW("ledger")
#define KIT_CALLS_MAX  256
#define KIT_SLEEPS_MAX 256
#define KIT_DEADLINE   SPAN_S(10)

/* ---- The ledger ---------------------------------------------------------------------- */

struct ledger_entry {
    uint64_t id;
    char nonce[NONCE_SIZE + 1];
};

struct ledger {
    size_t count;
    size_t room;
    struct ledger_entry *entries;
    struct mono_time arrived;
    struct mono_time previous_arrived; /* when the previous body arrived, or 0 */
    bool stub;                         /* just created, not prepared yet */
};

/* With `stub`, the first write creates a stub. prepare returns CONFLICT this many times, then
 * `prepare_status`. */
struct ledger_context {
    bool stub;
    int prepare_conflicts;
    enum hf_status prepare_status;
    int prepared;
};

extern const struct doc_type ledger_type;

/* The result of ledger_type.is_whole: whether prepare needs no request. */
extern bool ledger_whole;

/* How many bodies of all documents are allocated now. */
int ledger_bodies(void);

const struct ledger_entry *ledger_find(const struct ledger *ledger, uint64_t id);

/* How often the ledger contains an id. */
size_t ledger_times(const struct ledger *ledger, uint64_t id);

/* The ledger in the store, freed with ledger_drop; NULL: there is no such object. Fails the
 * test if the object is not a ledger. */
struct ledger *ledger_read(struct store *store);
void ledger_drop(struct ledger *ledger);

/* The operation that adds an id. */
struct add {
    struct doc_op op;
    uint64_t id;
    uint64_t unless;            /* HELD if this id is in the ledger; 0: never */
    unsigned refuse_from;       /* HELD from this apply on, counted from 1; 0: never */
    bool touch_nothing;         /* return OK without a write */
    unsigned applied;           /* how often it was applied */
    char nonce[NONCE_SIZE + 1]; /* of the entry, as written or found */
};

struct add add_of(struct env *env, uint64_t id);

/* ---- The world ----------------------------------------------------------------------- */

struct kit_call {
    unsigned kind;    /* CALL_GET, CALL_PUT or CALL_CHANGE */
    bool conditional; /* a get with if-none-match */
    enum condition_kind condition;
    struct mono_time at;
    struct mono_time deadline;
    enum hf_status status;
};

struct kit {
    struct env env; /* must be first */
    struct script store;
    int64_t now_us;
    struct prng prng;
    struct span sleeps[KIT_SLEEPS_MAX];
    size_t sleep_count;
    int locked;

    struct store *mem;                /* the real contents */
    struct fate fates[KIT_CALLS_MAX]; /* by call number; others pass */
    struct fate rest;                 /* of the calls after the script */
    size_t fate_count;
    struct span takes; /* duration of each call */
    void (*before)(struct kit *kit, size_t call);
    void (*asleep)(struct kit *kit); /* called when a sleep begins */
    struct kit_call calls[KIT_CALLS_MAX];
    size_t call_count; /* since kit_script */

    struct ledger_context context, other_context;
    struct doc_clock clock;
    struct doc *doc;
    struct doc *other; /* another process, whose calls never fail */
};

/* False if memory runs out; everything is freed then. */
bool kit_open(struct kit *kit);
void kit_close(struct kit *kit);

/* Drops the cached document, as in a new process. */
bool kit_cold(struct kit *kit);

/* The fates of the next calls, up to KIT_END (kind PASS with status CONFLICT), and then `rest`.
 * Clears the record of calls and sleeps. */
#define KIT_END ((struct fate){ FATE_PASS, HF_CONFLICT })
void kit_script(struct kit *kit, const struct fate *fates, struct fate rest);

#define SCRIPT(...) ((const struct fate[]){ __VA_ARGS__, KIT_END })

/* Adds an id as another process. */
void kit_other_adds(struct kit *kit, uint64_t id);

/* How often the store contains the id. */
size_t kit_times(struct kit *kit, uint64_t id);

size_t kit_puts(const struct kit *kit);
size_t kit_gets(const struct kit *kit);
size_t kit_steps(const struct kit *kit);

/* ---- For tests ----------------------------------------------------------------------- */

enum hf_status kit_update(struct kit *kit, struct add *add);
enum hf_status kit_add(struct kit *kit, uint64_t id);

/* Creates and caches a document that contains id 1. */
void kit_warm_up(struct kit *kit);

#define assert_steps(kit, steps, gets, puts)       \
    do {                                           \
        assert_int_equal(kit_steps(kit), (steps)); \
        assert_requests(kit, gets, puts);          \
    } while (0)

#define assert_requests(kit, gets, puts)         \
    do {                                         \
        assert_int_equal(kit_gets(kit), (gets)); \
        assert_int_equal(kit_puts(kit), (puts)); \
    } while (0)

/* One row of a test table whose state is a kit. */
int kit_set_up(void **state);
int kit_tear_down(void **state);
#define KIT(sentence, function)                                 \
    {                                                           \
        (sentence), (function), kit_set_up, kit_tear_down, NULL \
    }

#endif
