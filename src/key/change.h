/* SPDX-License-Identifier: Apache-2.0 */
/* change.h: an operation on the state of a key, as a hook of an operation on its lease table.
 * Whether it is allowed is decided on a single body of the document, which also contains the
 * lease. This makes fencing exact. Pure. See docs/design.md, section 9. */
#ifndef KEY_CHANGE_H
#define KEY_CHANGE_H

#include "key/state.h"
#include "lock/client.h"

enum change_kind {
    CHANGE_LOOK, /* no change; only reads the state */
    /* With a grant: takes the key for `txn`, if set, in the same write, and drops a stage that
     * has no transaction and whose lease has ended. */
    CHANGE_ENLIST,
    /* With the cancellation of such a grant, which may or may not have been made under `lease`:
     * removes the stage that it made. */
    CHANGE_UNDO,
    CHANGE_PUBLISH, /* `version` becomes the published version */
    /* The same without a lease, under the next token of the table. Refused (WAITING) if the key has
     * an active lease, a waiter that may be alive or a stage, or if the table must be prepared
     * before it can issue a token. */
    CHANGE_ONCE,
    CHANGE_STAGE, /* `version` is staged, for `txn` or for the lease alone */
    /* Seals the stage of `txn` if its lease has not ended. After that, no pending change to the
     * stage can take effect. */
    CHANGE_SEAL,
    /* Settles a stage of `txn` according to its record: promotes it if `commit`, otherwise
     * discards it. Then takes the key for `enlist`, if set. */
    CHANGE_SETTLE,
    /* With the end of a lease, and with the decision of `txn` in the same step of the store:
     * promotes the stage of `txn`, after replacing its changes by `version`, if set. Refused unless
     * the stage is there under the lease, which must be active. */
    CHANGE_COMMIT,
    /* With the end of a lease: promotes the lease's own stage, which has no transaction, if
     * `commit`, otherwise discards it. */
    CHANGE_FINISH,
    /* With a scavenge: drops a stage without a transaction if its lease has then ended. */
    CHANGE_TIDY,
    CHANGE_FORGET, /* forgets the `old` bodies, which are deleted; so does every other kind */
    CHANGE_MEND,   /* marks a state that cannot be read as lost */
};

/* A change and its result. Pass it as the hook of a request of kind TABLE_KEEP, or of an
 * acquire (ENLIST) or release (FINISH, SETTLE). */
struct change {
    struct table_hook hook; /* must be the first member */
    enum change_kind kind;

    /* The request. */
    struct view lease;  /* id of the lease; ENLIST uses the lease that is granted */
    uint64_t token;     /* the lease's token */
    struct view txn;    /* empty: none */
    struct view enlist; /* SETTLE: the transaction to take the key for; empty: none */
    uint64_t under;     /* SETTLE: only an unsealed stage with this token; 0: any stage */
    bool commit;

    /* The new version. Its number is set by the change, and so is its time if it is zero. Its
     * bytes must live as long as the change. FINISH: the staged version, by which the change
     * recognises that it was already published; may be NULL. */
    const struct state_version *version;
    bool if_version_set;
    uint64_t if_version; /* 0: never written, or removed */
    struct view if_etag; /* empty: any */
    const struct body_name *old;
    size_t old_count;
    /* ONCE: remember the version that it replaces, for changes that meet it (state_shows_other). */
    bool remembers;
    /* ONCE: whether a waiter's process has ended, so that it does not count. NULL: all count. */
    bool (*gone)(void *argument, const struct lease_request *waiter);
    void *gone_argument;

    /* The result. */
    enum hf_key_outcome outcome;
    bool already;           /* an earlier attempt had already done it */
    bool found;             /* SEAL, SETTLE, FINISH: there was a stage */
    bool abandoned;         /* there is a stage, and no lease with its token is active */
    struct key_state state; /* afterwards; released by change_release */
    uint64_t blocker;       /* the token of an active lease on the key; 0: none */

    /* Private to the change. */
    bool refused; /* by the last body that it was applied to */
    /* PUBLISH, ONCE, STAGE: the version number of the last attempt; 0: none yet. FINISH: the number
     * of the version that it published. */
    uint64_t number;
    /* STAGE, FINISH: the ETag of the stage that the last attempt found; empty: none. */
    char over[NONCE_SIZE + 1];
    struct { /* the same before the last attempt, which may turn out not to have been sent */
        uint64_t number;
        char over[NONCE_SIZE + 1];
    } before;
    struct buffer text;
};

void change_init(struct change *change, enum change_kind kind);
void change_release(struct change *change);

/* Whether the stage may be rolled back even though its record is pending, because no lease with
 * its token is active in this document. False if there is no stage. */
bool stage_is_abandoned(const struct lease_table *table, const struct key_state *state);

/* An outcome's status, with its message. */
enum hf_status outcome_status(enum hf_key_outcome outcome);
const char *outcome_sentence(enum hf_key_outcome outcome);

#endif
