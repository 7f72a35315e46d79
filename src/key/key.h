/* key.h: keys inside the library: what a handle is made of, and what the files of this folder, the
 * sweeper and the program ask of each other. The public calls are in holdfast.h. */
#ifndef KEY_KEY_H
#define KEY_KEY_H

#include "base/options.h"
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
    struct state_version next; /* that: its ETag, by which its release knows itself */
    struct hf_txn *txn;        /* whose key it is, or NULL */
    bool sealed;               /* that is decided, or may be: no more changes */
    struct {
        struct body_name old[STATE_OLD_MAX]; /* named as old, to be deleted */
        size_t old_count;
        struct body_name gone[STATE_OLD_MAX]; /* deleted: the next change forgets them */
        size_t gone_count;
        struct body_name doubt; /* of a change without an answer; empty ETag: none */
    } bodies;
    struct env_mutex calls; /* serialises what changes the state */
};

struct hf_txn {
    struct hf_client *client;
    char id[TXN_ID_SIZE + 1];
    char owner[NONCE_SIZE + 1];
    bool joined;     /* begun by another process: its keys are written into the record, too */
    bool open;       /* joined: those who join may commit it */
    struct doc *doc; /* its record */
    struct {         /* whatever waits in line for it, to be interrupted */
        struct env_mutex mutex;
        struct hf_lock *lock; /* NULL: nothing does */
    } waiting;
    struct env_mutex mutex;    /* guards what follows; held by every call */
    enum txn_state known;      /* what we know of its record */
    bool asked;                /* a commit had no answer: it may be done, and even purged */
    struct mono_time asked_at; /* since then */
    struct hf_key **keys;      /* in the order in which they were taken */
    size_t key_count;
    struct txn_key *others; /* taken for it by other processes, as far as we know */
    size_t other_count;
};

/* ---- Handles, for transactions (key.c) ----------------------------------------------- */

/* As hf_key_new and hf_key_adopt, for a transaction (NULL: for none): its changes are staged for
 * that, and its release decides it. `options` may be NULL. A lease is adopted for an open one only
 * (DENIED): of another its own process alone knows what it has staged. */
enum hf_status key_new_for(struct hf_client *client, const char *name,
                           const struct hf_key_options *options, struct hf_txn *txn,
                           struct hf_key **ret_key, struct hf_error *error);
enum hf_status key_adopt_for(struct hf_client *client, const char *lease,
                             const struct hf_key_options *options, struct hf_txn *txn,
                             struct hf_key **ret_key, struct hf_error *error);

/* The lease of a key as its handle has it. OK, EXPIRED, LOST, or NOT_FOUND: none is held. */
struct key_lease {
    char id[LEASE_ID_MAX + 1];
    uint64_t token;
};
enum hf_status key_lease(struct hf_key *key, struct key_lease *ret_lease);

/* Ends a key of a decided transaction: its stage is promoted or discarded and its lease released,
 * in one write. OK: its document was seen without the stage. Bodies that became old are left to
 * keys_clear_up. */
enum hf_status key_end(struct hf_key *key, bool commit, struct hf_error *error);

/* Deletes the old bodies of keys of one client, as many at once as can be. Never fails. */
void keys_clear_up(struct hf_key *const *keys, size_t count);

/* The same for one, by who holds its `calls`. */
void key_clear_up_locked(struct hf_key *key);

/* Notes what a change that is known to stand has left: which bodies are to be deleted. With `calls`
 * held. */
void key_note_state(struct hf_key *key, const struct key_state *state);

/* ---- Looking (read.c) ---------------------------------------------------------------- */

/* A key as it stands: what anybody would read, and who holds it. */
struct key_description {
    struct hf_key_info info; /* version 0: it was never written */
    bool lost;               /* its document was damaged: nobody knows what it held */
    bool staged;             /* something is staged, of a lease alone or of info.txn */
    bool held;
    char holder[HOLDER_BYTES_MAX + 1];
    uint64_t token;              /* of that lease */
    struct span remaining;       /* by calendars: for people; not below zero */
    struct wall_time expires_at; /* as remaining */
    size_t waiters;
};

/* What is over is cleared away first, as well as that can be. NOT_FOUND: there is no such key, and
 * no lock of that name. */
enum hf_status key_describe(struct hf_client *client, const char *name,
                            struct key_description *ret_description, struct hf_error *error);

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

/* Begins a public call: INVALID when `ret_info`, which may be NULL, was not initialised; else
 * nothing is known yet. */
static inline enum hf_status key_info_begin(struct hf_key_info *ret_info,
                                            struct hf_error *error)
{
    enum hf_status status = check_caller_report("HF_KEY_INFO", ret_info, error);
    if (status == HF_OK && ret_info)
        key_info_fill(NULL, NULL, HF_KEY_NONE, ret_info);
    return status;
}

/* ---- Stages of transactions (settle.c) ----------------------------------------------- */

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

/* Begins one that is left to those who join it by its id, and commit it by that (txn_decide): it
 * has no handle. */
enum hf_status txn_open(struct hf_client *client, char ret_id[TXN_ID_SIZE + 1],
                        struct hf_error *error);

/* Decides a transaction by its id alone, for those who did not begin it: commit takes the keys that
 * its record names, each of which must have its stage, under a lease that is still active. */
enum hf_status txn_decide(struct hf_client *client, struct view id, enum hf_decision decision,
                          enum txn_state *ret_recorded, struct hf_error *error);

/* A record that cannot be read is kept aside, for people, and a rollback put in its place
 * (give_up.c): for who was told that it is damaged, and wants its keys back. OK also when it can be
 * read, or there is none; *ret_done: it was replaced by this call. */
enum hf_status txn_give_up(struct hf_client *client, struct view id, bool *ret_done,
                           struct hf_error *error);

/* What became of a record that was looked at in order to purge it. */
enum purge_result {
    PURGE_GONE,    /* there is none, or somebody else purged it just now */
    PURGE_DONE,    /* purged by this call */
    PURGE_NOT_YET, /* its time has not come */
    PURGE_DECIDED, /* it was pending for longer than D, and is rolled back now */
};

/* Purges a record if its time has come: D after its decision, when every participant has been seen
 * applied; those that were not are settled first. */
enum hf_status txn_purge(struct hf_client *client, struct view id,
                         enum purge_result *ret_result, struct hf_error *error);

#endif
