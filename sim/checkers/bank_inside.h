/* SPDX-License-Identifier: Apache-2.0 */
/* bank_inside.h: the data of the checker for keys and transactions, shared by its source
 * files. */
#ifndef SIM_CHECKERS_BANK_INSIDE_H
#define SIM_CHECKERS_BANK_INSIDE_H

#include "base/arena.h"
#include "base/map.h"
#include "sim/checkers/bank_checker.h"
#include "sim/checkers/table_checker.h"

#define BANKED_ETAG_SIZE 32
#define BANKED_ID_SIZE   32

/* One version of a key, as stored in its document. Operation 0: the key has no value. */
struct banked_version {
    uint64_t number, token, size;
    char etag[BANKED_ETAG_SIZE + 1];
    bool removed, has_body;
    uint64_t operation;
    int64_t balance;
};

struct banked_stage {
    bool there;
    char txn[BANKED_ID_SIZE + 1]; /* empty: outside a transaction */
    uint64_t token;
    bool changes;
    struct banked_version next;
};

struct banked_state {
    struct banked_version now;
    struct banked_stage stage;
};

/* A key's value, starting with one change to the store. */
struct banked_moment {
    uint64_t since;
    struct banked_version version;
};

/* A version that was replaced in the write that made it, so no document shows it. */
struct banked_unseen {
    uint64_t number;
    bool told; /* a node was told that it made this version */
};

struct banked_key {
    const char *name;
    size_t number;
    struct checked_version *table; /* NULL: no document */
    struct banked_state state;
    uint64_t next_token; /* the highest seen */
    unsigned taker;      /* the node that acquired it for the stage's transaction; 0: unknown */
    struct banked_moment *moments;
    size_t moment_count;
    struct banked_unseen *unseen;
    size_t unseen_count;
};

enum banked_record { RECORD_IS_ABSENT, RECORD_IS_PENDING, RECORD_COMMITS, RECORD_ROLLS_BACK };

struct banked_txn {
    char id[BANKED_ID_SIZE + 1];
    enum banked_record record;
    bool was_pending, was_commit, was_rollback;
    bool told_rollback;
    int64_t decided_us;
    bool names[BANK_KEYS_MAX];
    uint64_t tokens[BANK_KEYS_MAX];       /* of the stages that it was committed with */
    bool told_staged[BANK_KEYS_MAX];      /* a change was reported as staged, ... */
    uint64_t staged_since[BANK_KEYS_MAX]; /* ... most recently by this change to the store */
    /* The last change that was reported as staged, if no document had it: the node has kept it, and
     * must write it with the commit. 0: none. */
    uint64_t told_kept[BANK_KEYS_MAX];
    bool told_taken[BANK_KEYS_MAX];
    struct banked_txn *next;
};

struct banked_operation {
    uint64_t number;
    size_t key;
    struct banked_txn *txn; /* NULL: outside a transaction */
    int64_t balance;
    bool removes;           /* several nodes may have done it */
    bool done;              /* was reported as done */
    uint64_t version;       /* as which it was published; 0: it was not */
    bool staged, published; /* seen in a document, ... */
    uint64_t staged_since;  /* ... in this change to the store or a later one */
    bool refused;           /* must never be seen, ... */
    bool dropped;           /* ... or never as published */
};

struct banked_body {
    struct view name; /* <key>/<token>-<etag> */
    bool there, named;
    uint64_t size, operation;
    int64_t balance;
    struct banked_body *next;
};

/* A session of a client that has waited for a key. */
struct banked_session {
    const struct node *node;
    uint32_t life; /* the incarnation of the node */
};

struct bank_checker {
    struct run *run;
    struct bank_checker_options options;
    struct arena arena;
    struct bucket_watch watch;
    uint64_t changes;             /* to the store, so far */
    struct banked_txn *committed; /* by the step that is being applied; NULL: none */
    struct banked_key keys[BANK_KEYS_MAX];
    struct map sessions; /* of waiters, by their names */
    struct map txns;     /* by their ids */
    struct banked_txn *first_txn;
    struct map bodies; /* by their names */
    struct banked_body *first_body;
    struct banked_operation **operations;
    size_t operation_count;
};

static inline struct world *bank_world(const struct bank_checker *checker)
{
    return checker->run->world;
}

#define BANK_FAIL(checker, ...) world_fail(bank_world(checker), __VA_ARGS__)

/* bank_checker.c */

/* Zeroed memory that lives as long as the checker. */
void *banked_new(struct bank_checker *checker, size_t size);

/* NULL if the operation does not exist. */
struct banked_operation *banked_operation_of(const struct bank_checker *checker,
                                             uint64_t number);

/* Finds a transaction by its id; creates it on first use. */
struct banked_txn *banked_txn_of(struct bank_checker *checker, struct view id);

/* The current value of the key. */
const struct banked_version *banked_worth(struct bank_checker *checker,
                                          const struct banked_key *key);

/* How many changes without a lease may have removed the key's value, and were not reported yet. */
size_t banked_open_removals(const struct bank_checker *checker, const struct banked_key *key);

/* bank_read.c */

/* Parses "17 -3 ....": the operation and the balance. Returns false if no node writes such text. */
bool banked_text_read(struct view text, uint64_t *ret_operation, int64_t *ret_balance);

/* Parses the state in a document; a version with a body has no operation yet. Returns NULL, or a
 * description of what is wrong. */
const char *banked_state_read(struct view document, struct banked_state *ret_state);

/* The contents of a record. */
struct banked_record_text {
    enum banked_record record;
    struct view id;
    struct view keys[BANK_KEYS_MAX + 1];
    size_t key_count;
};
const char *banked_record_read(struct view text, struct banked_record_text *ret_record);

/* bank_diff.c: handles a change to the store. */
void checker_document_changed(struct bank_checker *checker, struct banked_key *key,
                              const struct bucket_change *change);
void checker_record_changed(struct bank_checker *checker, struct view id,
                            const struct bucket_change *change);

/* All writes of a step have been applied. */
void checker_step_ended(struct bank_checker *checker);

/* Whether the key has a stage of this transaction, under a lease that is active. */
bool banked_is_held_for(const struct banked_key *key, struct view txn);

/* Whether the published or staged state in the document has this body. */
bool banked_names(const struct banked_key *key, struct view body);
void checker_body_changed(struct bank_checker *checker, struct view name,
                          const struct bucket_change *change);

#endif
