/* doc_kit.h: a document for tests, and a world of its own around it: one task, a clock that
 * moves only when somebody sleeps or a request takes time, and a store that does with each call
 * what the test's script says.
 *
 * The document is a ledger: a list of ids, each with the nonce of the attempt that wrote it.
 * Adding an id is the operation, and it knows itself by the id. So whether an operation happened,
 * and how often, can be read in the store. */
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
    struct mono_time previous_arrived; /* of the body that this one took the place of, or 0 */
};

/* Births write a stub if `stub`; prepare answers CONFLICT so often, then with `prepare_status`. */
struct ledger_context {
    struct store *store;
    bool stub;
    int prepare_conflicts;
    enum hf_status prepare_status;
    int prepared;
};

extern const struct doc_type ledger_type;

/* Whether prepare can do without the store: what ledger_type.is_whole answers. */
extern bool ledger_whole;

/* Bodies that are alive now, of all documents. */
int ledger_bodies(void);

const struct ledger_entry *ledger_find(const struct ledger *ledger, uint64_t id);

/* How often an id is in it. */
size_t ledger_times(const struct ledger *ledger, uint64_t id);

/* What the store holds, to be freed by ledger_drop; NULL: there is no such object. Fails the test
 * when it is no ledger. */
struct ledger *ledger_read(struct store *store);
void ledger_drop(struct ledger *ledger);

/* Adds an id. */
struct add {
    struct doc_op op;
    uint64_t id;
    uint64_t unless;            /* HELD if this id is there; 0: never */
    unsigned refuse_from;       /* HELD from this apply on, counted from 1; 0: never */
    bool touch_nothing;         /* OK, and nothing to write */
    unsigned applied;           /* so often */
    char nonce[NONCE_SIZE + 1]; /* of the entry, as it was written or found */
};

struct add add_of(struct env *env, uint64_t id);

/* ---- The world ----------------------------------------------------------------------- */

struct kit_call {
    unsigned kind;    /* CALL_GET, CALL_PUT or CALL_CHANGE */
    bool conditional; /* a get that names the ETag it has */
    enum condition_kind condition;
    struct mono_time at;
    struct mono_time deadline;
    enum hf_status status;
};

struct kit {
    struct env env; /* must stand first */
    struct script store;
    int64_t now_us;
    struct prng prng;
    struct span sleeps[KIT_SLEEPS_MAX];
    size_t sleep_count;
    int locked;

    struct store *mem;                /* the truth */
    struct fate fates[KIT_CALLS_MAX]; /* by number of the call; all others pass */
    struct fate rest;                 /* for those behind the script */
    size_t fate_count;
    struct span takes; /* each call */
    void (*before)(struct kit *kit, size_t call);
    struct kit_call calls[KIT_CALLS_MAX];
    size_t call_count; /* since kit_script */

    struct ledger_context context, other_context;
    struct doc_clock clock;
    struct doc *doc;
    struct doc *other; /* another process, with a good way to the store */
};

/* False without memory; then nothing is left of it. */
bool kit_open(struct kit *kit);
void kit_close(struct kit *kit);

/* Throws the document away, as a new process would not have it. */
bool kit_cold(struct kit *kit);

/* The fates of the calls from now on, up to one of kind PASS with status CONFLICT (KIT_END), and
 * then `rest`. Forgets the calls and sleeps so far. */
#define KIT_END ((struct fate){ FATE_PASS, HF_CONFLICT })
void kit_script(struct kit *kit, const struct fate *fates, struct fate rest);

#define SCRIPT(...) ((const struct fate[]){ __VA_ARGS__, KIT_END })

/* Adds an id as another process would. */
void kit_other_adds(struct kit *kit, uint64_t id);

/* How often the id is in the store. */
size_t kit_times(struct kit *kit, uint64_t id);

size_t kit_puts(const struct kit *kit);
size_t kit_gets(const struct kit *kit);
size_t kit_steps(const struct kit *kit);

/* ---- For tests ----------------------------------------------------------------------- */

enum hf_status kit_update(struct kit *kit, struct add *add);
enum hf_status kit_add(struct kit *kit, uint64_t id);

/* Makes a document that is cached, with id 1 in it. */
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

/* One row of a test table, with a kit as its state. */
int kit_set_up(void **state);
int kit_tear_down(void **state);
#define KIT(sentence, function)                                 \
    {                                                           \
        (sentence), (function), kit_set_up, kit_tear_down, NULL \
    }

#endif
