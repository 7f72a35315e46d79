/* SPDX-License-Identifier: Apache-2.0 */
/* change.h: an operation on the state of a key, as a hook of an operation on its lease table.
 * Whether it may happen is decided on one body of the document that also contains the lease,
 * which makes fencing exact. Pure; docs/design.md section 9. */
#ifndef KEY_CHANGE_H
#define KEY_CHANGE_H

#include "key/state.h"
#include "lock/client.h"

enum change_kind {
    CHANGE_LOOK, /* no change; notes the state */
    /* With a grant: takes the key for `txn`, if set, in the same write, and drops a stage that
     * has no transaction and whose lease is over. */
    CHANGE_ENLIST,
    CHANGE_PUBLISH, /* `version` becomes the published one */
    CHANGE_STAGE,   /* `version` is staged, for `txn` or for the lease alone */
    /* Seals the stage of `txn` if its lease is not over: no pending change to it can land any
     * more. */
    CHANGE_SEAL,
    /* Settles a stage of `txn` according to its record: promotes it if `commit`, else discards
     * it; then takes the key for `enlist`, if set. */
    CHANGE_SETTLE,
    /* With the end of a lease: promotes its own stage without a transaction if `commit`, else
     * discards it. */
    CHANGE_FINISH,
    /* With a scavenge: drops a stage without a transaction if its lease is then over. */
    CHANGE_TIDY,
    CHANGE_FORGET, /* `old` bodies are deleted; every other kind forgets them too */
    CHANGE_MEND,   /* marks a state that cannot be read as lost */
};

/* A change and its result. Pass it as the hook of a request of kind TABLE_KEEP, or of an
 * acquire (ENLIST) or release (FINISH, SETTLE). */
struct change {
    struct table_hook hook; /* must be the first member */
    enum change_kind kind;

    /* The request. */
    struct view lease;  /* id of the lease; ENLIST takes the granted one */
    uint64_t token;     /* and its token */
    struct view txn;    /* empty: none */
    struct view enlist; /* SETTLE: afterwards; empty: none */
    uint64_t under;     /* SETTLE: only a stage with this token that is not sealed; 0: any */
    bool commit;

    /* Its number is set here, and its time if zero; its bytes must live as long as the change.
     * FINISH: the staged version, to recognise that it was already published; may be NULL. */
    const struct state_version *version;
    bool if_version_set;
    uint64_t if_version; /* 0: never written, or removed */
    struct view if_etag; /* empty: any */
    const struct body_name *old;
    size_t old_count;

    /* The result. */
    enum hf_key_outcome outcome;
    bool already;           /* it had happened before */
    bool found;             /* SEAL, SETTLE, FINISH: there was a stage */
    bool abandoned;         /* there is a stage, and no lease with its token is active */
    struct key_state state; /* afterwards; released by change_release */
    uint64_t blocker;       /* token of an active lease there; 0: none */

    /* Private to the change. */
    bool refused; /* by the last body that it was applied to */
    /* PUBLISH, STAGE: the version number of the last attempt; 0: none yet. FINISH: that of the
     * version it published. */
    uint64_t number;
    /* STAGE, FINISH: the ETag of the stage that the last attempt found; empty: none. */
    char over[NONCE_SIZE + 1];
    struct buffer text;
};

void change_init(struct change *change, enum change_kind kind);
void change_release(struct change *change);

/* Whether a stage may be rolled back if its record is pending: the lease with its token is not
 * active in this document. False without a stage. */
bool stage_is_abandoned(const struct lease_table *table, const struct key_state *state);

/* An outcome's status, with its message. */
enum hf_status outcome_status(enum hf_key_outcome outcome);
const char *outcome_sentence(enum hf_key_outcome outcome);

#endif
