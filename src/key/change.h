/* change.h: an operation on the state of a key, as a guest of an operation on its lease table.
 *
 * Whether it may happen is decided here, on one body of the document, with the lease in it: that is
 * what makes fencing exact. Pure; docs/design.md section 9. */
#ifndef KEY_CHANGE_H
#define KEY_CHANGE_H

#include "key/state.h"
#include "lock/client.h"

enum change_kind {
    CHANGE_LOOK,   /* nothing; notes what stands there */
    CHANGE_ENLIST, /* goes with a grant: takes the key for `txn`, if it is set, in the same write;
                       clears a stage of a lease that is over and of no transaction */
    CHANGE_PUBLISH, /* `version` becomes the published one */
    CHANGE_STAGE,   /* `version` is staged, for `txn` or for the lease alone */
    CHANGE_SEAL, /* what is staged for `txn`, under a lease that is not over, stays as it is: no
                       change of it that is under way comes through any more */
    CHANGE_SETTLE, /* a stage of `txn`, which the record of it has decided: promoted if `commit`,
                       else discarded; and then, if `enlist` is set, the key taken for that */
    CHANGE_FINISH, /* goes with the end of a lease: its own stage without a transaction is
                       promoted if `commit`, else discarded */
    CHANGE_TIDY, /* goes with a scavenge: a stage of no transaction is dropped when its lease is
                       over then */
    CHANGE_FORGET, /* `old` bodies are deleted; every other kind forgets them as well */
    CHANGE_MEND,   /* a state that cannot be read is lost from now on */
};

/* What is asked, and what came of it. To be passed as the guest of a request: of kind TABLE_KEEP,
 * or of an acquire (ENLIST) or release (FINISH, SETTLE). */
struct change {
    struct table_guest guest; /* first */
    enum change_kind kind;

    /* Asked. */
    struct view lease;  /* id under which it is done; ENLIST takes the granted one */
    uint64_t token;     /* and its token */
    struct view txn;    /* empty: none */
    struct view enlist; /* SETTLE: afterwards; empty: none */
    uint64_t under;     /* SETTLE: only a stage under this token, not sealed; 0: any */
    bool commit;

    /* Its number is drawn here, and its time if that is zero; its bytes must stay as long as the
     * change. FINISH: what was staged, to find that it was published already; may be NULL. */
    const struct state_version *version;
    bool if_version_set;
    uint64_t if_version; /* 0: never written, or removed */
    struct view if_etag; /* empty: any */
    const struct body_name *old;
    size_t old_count;

    /* Answered. */
    enum hf_key_outcome outcome;
    bool already;           /* it had happened before */
    bool found;             /* SEAL, SETTLE, FINISH: the stage was there */
    bool abandoned;         /* something is staged, and no lease of its token is active */
    struct key_state state; /* as it stands afterwards; released by change_release */
    uint64_t blocker;       /* token of an active lease there, 0: none */

    /* The change's own. */
    bool refused;    /* by the last body that it was applied to */
    uint64_t number; /* PUBLISH, STAGE: that of the version by the last attempt; 0: none yet.
                         FINISH: that of what it has published */
    char over[NONCE_SIZE + 1]; /* STAGE, FINISH: the ETag of what that found staged; empty:
                                   nothing */
    struct buffer text;
};

void change_init(struct change *change, enum change_kind kind);
void change_release(struct change *change);

/* Whether a stage may be rolled back when its record is pending: the lease of its token is not
 * active in the document as it was read. False when nothing is staged. */
bool stage_is_abandoned(const struct lease_table *table, const struct key_state *state);

/* The status that goes with an outcome, and its sentence. */
enum hf_status outcome_status(enum hf_key_outcome outcome);
const char *outcome_sentence(enum hf_key_outcome outcome);

#endif
