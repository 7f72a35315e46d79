/* record.h: the record of a transaction: .txn-decisions/m/<id>, the one document that decides.
 *
 *     (absent) --begin--> pending --decide--> commit | rollback --purge, D later--> (absent)
 *     (absent) --roll back--> rollback
 *
 * Commit is only ever a swap of a pending record; one that is missing means rolled back. The body
 * and its moves are pure; docs/design.md section 9. */
#ifndef KEY_RECORD_H
#define KEY_RECORD_H

#include "base/stamp.h"
#include "doc/doc.h"
#include "key/state.h"
#include "lease/lease.h"

/* Keys of one transaction. */
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
    char owner[NONCE_SIZE + 1]; /* the nonce of who began it: a begin knows its own effect */
    char holder[HOLDER_BYTES_MAX + 1];
    bool open; /* whoever takes a key for it names that here first, so that anybody may commit;
                   else only who began it may, who alone knows its keys */
    struct stamp began, decided;
    unsigned restamps;
    struct wall_time began_at, decided_at; /* for display */
    struct txn_key
        *keys; /* pending: enlisted by processes that share it; decided: participants */
    size_t key_count;
    bool applied;          /* every participant was seen applied */
    struct mono_time seen; /* since when we see it stand there like this */
    struct buffer unknown;
    bool no_memory; /* while it is read: there was none, so what follows says nothing */
};

/* Reads and writes one. CORRUPT when it is none, UNSUPPORTED when it is one of a later version. */
enum hf_status record_decode(struct view text, struct txn_record *ret_record,
                             struct hf_error *error);
bool record_encode(const struct txn_record *record, struct view nonce, struct buffer *text);
void record_release(struct txn_record *record);

/* ROLLBACK, by who found none, or one that was damaged: it says nothing about what a record that
 * was there before had said. */
bool record_is_mark(const struct txn_record *record);

/* Whether it names a key. */
bool record_names(const struct txn_record *record, const struct txn_key *key);

/* Bodies are struct txn_record; no context. */
#define RECORD_BYTES_MAX ((size_t)256 * 1024)
extern const struct doc_type record_doc_type;

enum record_op_kind {
    RECORD_BEGIN, /* absent -> pending; by `owner` */
    RECORD_ENLIST, /* pending: `keys` join those that it names; MISMATCH when it is not any more */
    RECORD_DECIDE, /* pending -> `decision`, with `keys`; CONFLICT when it is to be committed and
                       names a key that is not among them. Decided already, or absent: OK, and
                       `recorded` says how; with `mark` an absent one is rolled back */
    RECORD_APPLIED, /* committed: all of `keys` were seen without their stage; nothing when it names
                       another */
    RECORD_RESTAMP, /* decided or begun by a clock that nobody can read: starts anew */
};

/* One change of a record. */
struct record_op {
    struct doc_op op; /* first; its apply is set by record_op_init */
    enum record_op_kind kind;
    struct view id;
    struct view owner, holder;
    bool open; /* begin */
    enum txn_state decision;
    bool mark;
    const struct txn_key *keys;
    size_t key_count;

    enum txn_state recorded; /* what it says now; ABSENT: there is none */
    bool marked;             /* record_is_mark */
};

void record_op_init(struct record_op *op, enum record_op_kind kind, struct view id,
                    struct mono_time deadline);

/* "<key>" of a record, and of its entry in the index. */
void record_key(struct view id, char ret_key[KEY_BYTES_MAX + 1]);
void record_entry_key(struct view id, struct view hour, char ret_key[KEY_BYTES_MAX + 1]);
bool txn_id_valid(struct view id);
enum hf_status txn_check_id(struct view id, struct hf_error *error); /* OK, or INVALID */

/* Whether a decided record may be purged, as far as time goes: D after its decision. */
bool record_may_purge(const struct txn_record *record, const struct lease_settings *settings,
                      const struct evidence *evidence);

#endif
