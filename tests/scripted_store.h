/* SPDX-License-Identifier: Apache-2.0 */
/* scripted_store.h: a store that passes every call on to an inner store, except where a test's
 * rules say otherwise. It is for tests of everything above the store: what happens when this very
 * call is refused, loses its answer or hangs, or when another client acts just before it.
 * (fault_store.h draws faults by chance; here the test names them.)
 *
 *     struct script script;
 *     script_init(&script, inner);
 *     script_rule(&script, .on = ON_PUT, .part = "/meta/", .skip = 1, .fate = LOSE_REPLY);
 *     script_rule(&script, .name = "race", .on = ON_DELETE, .times = 1,
 *                 .before = other_client_writes, .argument = &other);
 *     ...                                  test what uses &script.base
 *     assert_int_equal(script_met(&script, "race"), 1);
 *     store_close(&script.base);           the inner store stays the caller's
 *
 * A rule matches calls by kind and key. Of those it leaves out the first `skip`, and then applies
 * to `times` calls, or to all of them. Every rule that applies to a call has its hooks called, in
 * the order in which the rules were made; the fate of the call is that of the newest rule that
 * does not say PASS.
 *
 * A batch stays one batch, apart from calls that have another fate than PASS or whose answer a rule
 * looks at: those are made one by one, in their place.
 *
 * A test that wants a store that can do less sets an optional member of `ops` to NULL, or changes
 * base.traits. A script is not to be copied or moved.
 *
 * Calls, rules and counts may be used from many tasks. Hooks are called without a lock held, by
 * the task that makes the call: they may call this store, and make and drop rules. */
#ifndef TESTS_SCRIPTED_STORE_H
#define TESTS_SCRIPTED_STORE_H

#include "store/observe.h"

/* ---- What becomes of a call ---------------------------------------------------------- */

/* A read is never UNSURE: where this says so it is answered UNAVAILABLE. */
enum fate_kind {
    FATE_PASS,
    FATE_REFUSE,     /* not done; answered with the status */
    FATE_LOSE,       /* not done; no answer (UNSURE) */
    FATE_LOSE_REPLY, /* a write is done; no answer */
    FATE_LATE,       /* no answer; a put or change is done when script_deliver is called */
    FATE_TWICE,      /* a put is done and sent again by a proxy; answered for the second */
    FATE_HANG,       /* LOSE, at the call's deadline or when a rule is dropped */
    FATE_SLOW,       /* done 250 ms later */
    FATE_DECIDED,    /* a change: it was decided, then REFUSE; other calls: REFUSE */
    FATE_AGAIN,      /* a change: it is decided twice, as if the first try had failed */
    FATE_ANSWERED,   /* by the hook `decide`, which has filled in the answer */
};

struct fate {
    enum fate_kind kind;
    enum hf_status status;
};

#define PASS           ((struct fate){ FATE_PASS, HF_OK })
#define REFUSE(which)  ((struct fate){ FATE_REFUSE, (which) })
#define LOSE           ((struct fate){ FATE_LOSE, HF_UNSURE })
#define LOSE_REPLY     ((struct fate){ FATE_LOSE_REPLY, HF_UNSURE })
#define LATE           ((struct fate){ FATE_LATE, HF_UNSURE })
#define TWICE          ((struct fate){ FATE_TWICE, HF_OK })
#define HANG           ((struct fate){ FATE_HANG, HF_UNSURE })
#define SLOW           ((struct fate){ FATE_SLOW, HF_OK })
#define DECIDED(which) ((struct fate){ FATE_DECIDED, (which) })
#define AGAIN          ((struct fate){ FATE_AGAIN, HF_OK })
#define ANSWERED       ((struct fate){ FATE_ANSWERED, HF_OK })

/* ---- Rules --------------------------------------------------------------------------- */

#define CALL_CHANGE CALL_KIND_COUNT

#define ON_KIND(kind) (1u << (kind))
#define ON_GET        ON_KIND(CALL_GET)
#define ON_PUT        ON_KIND(CALL_PUT)
#define ON_DELETE     ON_KIND(CALL_DELETE)
#define ON_LIST       ON_KIND(CALL_LIST)
#define ON_GET_FILE   ON_KIND(CALL_GET_FILE) /* and lend_file */
#define ON_PUT_FILE   ON_KIND(CALL_PUT_FILE)
#define ON_CHANGE     ON_KIND(CALL_CHANGE)
#define ON_FIRST      ON_KIND(CALL_CHANGE + 1) /* only the first call of each batch */

/* One call, as a hook sees it: of the pointers only that of its kind is set. */
struct script_call {
    unsigned kind; /* enum call_kind, or CALL_CHANGE */
    bool first;    /* of its batch */
    struct view key;
    struct mono_time deadline;
    struct hf_error *error;
    struct get_call *get; /* get_file and lend_file, too */
    struct put_call *put; /* put_file, too */
    struct delete_call *removal;
    struct list_call *list; /* `key` is its prefix */
    struct change_call *change;
    int fd;
    int *ret_fd; /* of lend_file */
    const struct progress *progress;
};

#define SCRIPT_RULES_MAX 8
#define FATES_MAX        8

struct rule {
    const char *name; /* a new rule takes the place of one of the same name; may be NULL */
    unsigned on;      /* kinds, as ON_GET | ON_PUT; 0: all */
    const char *key;  /* exactly this one; NULL: any */
    const char *part; /* keys that contain this; NULL: any */
    unsigned skip;
    unsigned times; /* 0: without end */
    struct fate fate;
    struct fate fates[FATES_MAX]; /* of the first calls, one by one; PASS: as `fate` says */
    void (*before)(void *argument);
    struct fate (*decide)(void *argument, struct script_call *call); /* instead of `fate` */
    void (*reply)(void *argument, struct script_call *call);         /* may change the answer */
    void (*after)(void *argument);
    void *argument;
    unsigned seen; /* kept by the script: calls that matched */
};

/* ---- The store ----------------------------------------------------------------------- */

/* Calls by kind, whatever came of them. A change in one step counts as the get and the put that it
 * stands for. */
struct counts {
    unsigned gets;  /* without those that name the version they have: */
    unsigned looks; /* these are counted here */
    unsigned puts;
    unsigned conflicts; /* of these: answered CONFLICT */
    unsigned others;    /* deletes, listings, files */
    unsigned deletes;   /* of these */
};

struct late_put;

struct script {
    struct store base; /* must stand first */
    struct store *inner;
    struct store_ops ops; /* of `base`: a copy, so that a test can take some away */
    bool owns_inner;      /* closes it, too */
    struct {
        struct env_mutex mutex; /* guards what stands beside it */
        struct env_cond dropped;
        struct rule rules[SCRIPT_RULES_MAX]; /* oldest first */
        size_t rule_count;
        uint64_t drops;
        struct counts counts;
        struct late_put *late; /* oldest first */
    } shared;
};

void script_init(struct script *script, struct store *inner);

#define script_rule(script, ...) script_add((script), (struct rule){ __VA_ARGS__ })
void script_add(struct script *script, struct rule rule);

/* Calls that hang are answered now. */
void script_drop(struct script *script, const char *name);

/* To how many calls the rule applied; 0 when there is none of this name. */
unsigned script_met(struct script *script, const char *name);

/* Drops all rules, late puts and counts. */
void script_reset(struct script *script);

/* What was counted since the last time. */
struct counts script_counts(struct script *script);

/* Late puts: how many there are; and they arrive now. */
size_t script_late(struct script *script);
void script_deliver(struct script *script);

/* From now on objects are changed in one step, made of a get and a put of an inner store that has
 * no such call. For one task. */
void script_take_steps(struct script *script);

#endif
