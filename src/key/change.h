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
    CHANGE_SETTLE, /* a stage of `txn`, which the record of it has decided: promoted if `commit`,
                       else discarded; and then, if `enlist` is set, the key taken for that */
    CHANGE_FINISH, /* goes with the end of a lease: its own stage without a transaction is
                       promoted if `commit`, else discarded */
    CHANGE_FORGET, /* `old` bodies are deleted */
};

/* What is asked, and what came of it. To be passed as the guest of a request: of kind TABLE_KEEP,
 * or of an acquire (ENLIST) or release (FINISH, SETTLE). */
struct change {
    struct table_guest guest; /* first */
    enum change_kind kind;

    /* Asked. */
    struct view
        lease;       /* id of the lease under which it is done; ENLIST takes the granted one */
    uint64_t token;  /* and its token */
    struct view txn; /* empty: none */
    struct view enlist; /* SETTLE: afterwards; empty: none */
    bool commit;
    const struct state_version *version; /* number is drawn here */
    bool if_version_set;
    uint64_t if_version; /* 0: never written, or removed */
    struct view if_etag; /* empty: any */
    const struct body_name *old;
    size_t old_count;

    /* Answered. */
    enum hf_key_outcome outcome;
    bool already;           /* it had happened before */
    bool found;             /* SETTLE: the stage was there */
    struct key_state state; /* as it stands afterwards; released by change_release */
    uint64_t blocker;       /* token of the active lease there, 0: none */
};

void change_init(struct change *change, enum change_kind kind);
void change_release(struct change *change);

/* The status that goes with an outcome, with its sentence. */
enum hf_status outcome_status(enum hf_key_outcome outcome);

#endif
