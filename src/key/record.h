/* SPDX-License-Identifier: Apache-2.0 */
/* record.h: a transaction's record, .txn-decisions/m/<id>, the only document that contains its
 * decision.
 *
 *   (absent) --begin--> pending --decide--> commit | rollback --purge, D later--> (absent)
 *   (absent) --roll back--> rollback
 *
 * A commit is always a swap of a pending record. A missing record means rolled back. The body and
 * its transitions are pure. See docs/design.md, section 9. */
#ifndef KEY_RECORD_H
#define KEY_RECORD_H

#include "base/stamp.h"
#include "doc/doc.h"
#include "key/state.h"
#include "lease/lease.h"

/* The maximum number of keys in one transaction. */
#define TXN_KEYS_MAX 128

enum txn_state {
    TXN_ABSENT,
    TXN_PENDING,
    TXN_COMMIT,
    TXN_ROLLBACK,
};

const char *txn_state_name(enum txn_state state);

/* A key of a transaction: "<ns>/<key>". */
#define TXN_KEY_MAX (2 * NAME_BYTES_MAX + 1)
struct txn_key {
    char name[TXN_KEY_MAX + 1];
};

struct txn_record {
    enum txn_state state;
    char id[TXN_ID_SIZE + 1];
    /* The nonce of the process that began it. A begin recognises its own effect by this nonce. */
    char owner[NONCE_SIZE + 1];
    char holder[HOLDER_BYTES_MAX + 1];
    /* If set, any member may commit, because each process names the keys that it takes in this
     * record before it stages a change. Otherwise only the process that began the transaction may
     * commit, because only that process knows all keys. */
    bool open;
    struct stamp began, decided;
    unsigned restamps;
    struct wall_time began_at, decided_at; /* for display */
    /* While pending: keys named by processes that share the transaction. When decided: all
     * participants. */
    struct txn_key *keys;
    size_t key_count, key_room;
    bool applied;          /* every participant has been observed to have no stage left */
    struct mono_time seen; /* when we first saw it unchanged */
    struct buffer unknown;
    bool no_memory; /* while decoding: out of memory, so the rest means nothing */
};

/* Decode and encode a record. CORRUPT: the text is not a record. UNSUPPORTED: a later version
 * wrote it. */
enum hf_status record_decode(struct view text, struct txn_record *ret_record,
                             struct hf_error *error);
bool record_encode(const struct txn_record *record, struct view nonce, struct buffer *text);
void record_release(struct txn_record *record);

/* Whether it is a mark: a rollback written by a client that found no record or a damaged one. A
 * mark says nothing about the decision in a record that existed before. */
bool record_is_mark(const struct txn_record *record);

/* Whether the record names a key. */
bool record_names(const struct txn_record *record, const struct txn_key *key);

/* The body of the document is a struct txn_record; it has no context. */
#define RECORD_BYTES_MAX ((size_t)256 * 1024)
extern const struct doc_type record_doc_type;

enum record_op_kind {
    RECORD_BEGIN, /* absent -> pending, by `owner` */
    /* Pending: adds `keys`; MISMATCH if it is no longer pending. */
    RECORD_ENLIST,
    /* Pending -> `decision`, with `keys`. CONFLICT: this is a commit, and the record names a key
     * that is not among `keys`. If the record is already decided or is absent, the result is OK
     * and `recorded` is its state. With `mark`, an absent record becomes a rollback. */
    RECORD_DECIDE,
    /* Committed: all of `keys` have been observed to have no stage left. Changes nothing if the
     * record names another key. */
    RECORD_APPLIED,
    RECORD_RESTAMP, /* replaces a timestamp on an unreadable clock; D is counted anew */
};

/* One change to a record. */
struct record_op {
    struct doc_op op; /* must be the first member; its apply is set by record_op_init */
    enum record_op_kind kind;
    struct view id;
    struct view owner, holder;
    bool open; /* begin */
    enum txn_state decision;
    bool mark;
    /* A commit that settles `keys` in the same step of the store, which the record notes. MISMATCH,
     * so that the step changes nothing, if the record is not pending. */
    bool settles;
    const struct txn_key *keys;
    size_t key_count;

    enum txn_state recorded; /* the record's state now; ABSENT: there is no record */
    bool marked;             /* record_is_mark */
};

void record_op_init(struct record_op *op, enum record_op_kind kind, struct view id,
                    struct mono_time deadline);

/* The keys of a record and of its index entry. */
void record_key(struct view id, char ret_key[KEY_BYTES_MAX + 1]);
void record_entry_key(struct view id, struct view hour, char ret_key[KEY_BYTES_MAX + 1]);
bool txn_id_valid(struct view id);
enum hf_status txn_check_id(struct view id, struct hf_error *error); /* OK, or INVALID */

/* Whether enough time has passed to purge a decided record: D since its decision. */
bool record_may_purge(const struct txn_record *record, const struct lease_settings *settings,
                      const struct evidence *evidence);

#endif
