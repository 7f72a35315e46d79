/* key.h: keys inside the library: what a handle is made of, and what the files of this folder, the
 * sweeper and the program ask of each other. The public calls are in holdfast.h. */
#ifndef KEY_KEY_H
#define KEY_KEY_H

#include "key/change.h"
#include "key/record.h"
#include "lock/handle.h"

struct hf_key {
    struct hf_client *client;
    struct hf_lock *lock;
    struct change enlist; /* the guest of its lock's grants */
    char name[NAME_BYTES_MAX + 1];
    bool staged;      /* changes wait for the release */
    bool unconfirmed; /* a stage had no answer: it can only be rolled back, or changed again */
    bool changed;     /* something of ours is staged */
    struct hf_txn *txn;                  /* whose key it is, or NULL */
    struct body_name old[STATE_OLD_MAX]; /* to be deleted and then forgotten */
    size_t old_count;
    struct env_mutex calls; /* serialises what changes the state */
};

struct hf_txn {
    struct hf_client *client;
    char id[TXN_ID_SIZE + 1];
    bool joined;     /* begun by another process: its keys are written into the record, too */
    struct doc *doc; /* its record */
    struct env_mutex mutex; /* guards what follows; held by every call */
    enum txn_state known;   /* what we know of its record */
    struct hf_key **keys;   /* in the order in which they were taken */
    size_t key_count;
};

/* ---- Operations on one key (change.c, publish.c) ------------------------------------- */

/* Asks the table at a place for a change alone; `deadline` of zero: REQUEST_TIME from now. A
 * refusal has change->outcome. An op that may have landed, and then finds the lease gone, is
 * UNSURE. */
enum hf_status change_ask(struct place *place, struct change *change, struct mono_time deadline,
                          struct hf_error *error);

/* The key of a name's document, in a namespace. INVALID when it is no name. */
enum hf_status key_document(struct view ns, struct view name, char ret_key[KEY_BYTES_MAX + 1],
                            struct hf_error *error);

/* The key of a body: <ns>/state/<key>/<token>-<etag>. False when it is too long. */
bool key_body_key(struct view ns, struct view name, const struct body_name *body,
                  char ret_key[KEY_BYTES_MAX + 1]);

/* Deletes bodies, as many at once as can be, and tells which are gone for certain: they come first
 * in `names`, *ret_gone of them. Never waits long. */
void bodies_delete(struct hf_client *client, struct view ns, struct view name,
                   struct body_name *names, size_t count, size_t *ret_gone);

/* What stands there after `change`: fills in info, for a caller that holds it or not. */
void key_info_fill(const struct key_state *state, const struct state_version *version,
                   enum hf_key_outcome outcome, struct hf_key_info *ret_info);

/* ---- Stages of transactions (settle.c) ----------------------------------------------- */

/* Whether a stage may be rolled back when its record is pending: the lease of its token is not
 * active in the document as it was read. */
bool stage_is_abandoned(const struct lease_table *table, const struct key_state *state);

/* Finds out what is decided about a stage. With `abandoned` a pending one is rolled back, which is
 * recorded before this returns; else PENDING is returned. A record that is missing is marked as
 * rolled back. */
enum hf_status stage_decision(struct hf_client *client, struct view txn, bool abandoned,
                              enum txn_state *ret_state, struct hf_error *error);

/* Settles the stage of a place, if it has one that is decided or abandoned: reads the record, then
 * promotes or discards, and takes the key for `enlist` in the same write (empty: none). `lease` and
 * `token` are the caller's own (empty and 0: none). HELD: it is pending, and not abandoned. The
 * bodies that became old are deleted. */
enum hf_status stage_settle(struct place *place, struct view ns, struct view name,
                            struct view lease, uint64_t token, struct view enlist,
                            struct change *ret_change, struct hf_error *error);

/* ---- Transactions, for the sweeper and the program (txn.c, txn_look.c) ---------------- */

/* A record as it stands: NOT_FOUND when there is none. Released by record_release. */
enum hf_status txn_look(struct hf_client *client, struct view id, struct txn_record *ret_record,
                        struct hf_error *error);
void record_release(struct txn_record *record);

/* Decides a transaction by its id alone, for those who did not begin it: commit takes the keys that
 * its record names, each of which must have its stage, under a lease that is still active. */
enum hf_status txn_decide(struct hf_client *client, struct view id, enum hf_decision decision,
                          enum txn_state *ret_recorded, struct hf_error *error);

/* What became of a record that was looked at in order to purge it. */
enum purge_result {
    PURGE_GONE,    /* it is not there: purged now, or before */
    PURGE_NOT_YET, /* its time has not come */
    PURGE_DECIDED, /* it was pending for longer than D, and is rolled back now */
};

/* Purges a record if its time has come: D after its decision, when every participant has been seen
 * applied; those that were not are settled first. */
enum hf_status txn_purge(struct hf_client *client, struct view id,
                         enum purge_result *ret_result, struct hf_error *error);

#endif
