/* SPDX-License-Identifier: Apache-2.0 */
/* record.h: a transaction's record, .txn-decisions/m/<id>, the one document that holds its
 * decision.
 *
 *   (absent) --begin--> pending --decide--> commit | rollback --purge, D later--> (absent)
 *   (absent) --roll back--> rollback
 *
 * A commit is always a swap of a pending record; a missing record means rolled back. The body and
 * its transitions are pure; docs/design.md section 9. */
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
    /* The nonce of the process that began it, by which a begin recognises its own effect. */
    char owner[NONCE_SIZE + 1];
    char holder[HOLDER_BYTES_MAX + 1];
    /* If set, a process that takes a key for the transaction names the key here first, so that
     * any member may commit. Otherwise only the process that began it may commit, because it
     * alone knows the keys. */
    bool open;
    struct stamp began, decided;
    unsigned restamps;
    struct wall_time began_at, decided_at; /* for display */
    /* Pending: enlisted by processes that share it; decided: participants. */
    struct txn_key *keys;
    size_t key_count;
    bool applied;          /* every participant was seen applied */
    struct mono_time seen; /* since when we have seen it unchanged */
    struct buffer unknown;
    bool no_memory; /* while decoding: out of memory, so the rest means nothing */
};

/* Decodes and encodes a record. CORRUPT if it is not one, UNSUPPORTED if a later version wrote
 * it. */
enum hf_status record_decode(struct view text, struct txn_record *ret_record,
                             struct hf_error *error);
bool record_encode(const struct txn_record *record, struct view nonce, struct buffer *text);
void record_release(struct txn_record *record);

/* Whether it is a ROLLBACK written by a client that found no record, or a damaged one. It says
 * nothing about the decision of a record that existed before. */
bool record_is_mark(const struct txn_record *record);

/* Whether it names a key. */
bool record_names(const struct txn_record *record, const struct txn_key *key);

/* Bodies are struct txn_record; no context. */
#define RECORD_BYTES_MAX ((size_t)256 * 1024)
extern const struct doc_type record_doc_type;

enum record_op_kind {
    RECORD_BEGIN, /* absent -> pending; by `owner` */
    /* Pending: adds `keys`; MISMATCH if it is no longer pending. */
    RECORD_ENLIST,
    /* Pending -> `decision`, with `keys`; CONFLICT if it is to be committed and names a key
     * that is not among them. If already decided, or absent: OK, and `recorded` says how; with
     * `mark` an absent one is rolled back. */
    RECORD_DECIDE,
    /* Committed: all of `keys` were seen without their stage. No change if the record names
     * another. */
    RECORD_APPLIED,
    RECORD_RESTAMP, /* decided or begun on an unreadable clock: starts again */
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
    const struct txn_key *keys;
    size_t key_count;

    enum txn_state recorded; /* its state now; ABSENT: there is none */
    bool marked;             /* record_is_mark */
};

void record_op_init(struct record_op *op, enum record_op_kind kind, struct view id,
                    struct mono_time deadline);

/* The key of a record, and of its entry in the index. */
void record_key(struct view id, char ret_key[KEY_BYTES_MAX + 1]);
void record_entry_key(struct view id, struct view hour, char ret_key[KEY_BYTES_MAX + 1]);
bool txn_id_valid(struct view id);
enum hf_status txn_check_id(struct view id, struct hf_error *error); /* OK, or INVALID */

/* Whether enough time has passed to purge a decided record: D after its decision. */
bool record_may_purge(const struct txn_record *record, const struct lease_settings *settings,
                      const struct evidence *evidence);

#endif
