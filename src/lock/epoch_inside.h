/* SPDX-License-Identifier: Apache-2.0 */
/* epoch_inside.h: an epoch's two objects and a change to them, for epoch.c and the mutants of its
 * rules. */
#ifndef LOCK_EPOCH_INSIDE_H
#define LOCK_EPOCH_INSIDE_H

#include "base/buffer.h"
#include "lock/epoch.h"

#define PAIR_SIZE 16

/* One of the two objects. */
struct epoch_file {
    struct epoch_ref ref;
    bool is_copy;
    bool rebuild; /* a lost object starts at 0, because the caller states the epoch to reach */
    bool empty;   /* a scan found that no token was ever issued */
    bool waited;  /* it has given another client the time to create the object */
    bool begun;   /* when it was read, another client had begun to create it */
};

struct epoch_body {
    uint64_t epoch;
    bool blank;     /* a placeholder without an epoch ... */
    bool ours;      /* ... that this change has just written */
    bool unwritten; /* this version is not in the store yet */
    struct epoch_limits limits;
    /* In the copy: its id, which is new each time the copy is recreated, and whether the copy is
     * unconfirmed (`fresh`), because the document may be ahead of it. In the document: the id of
     * the copy that the document was last changed with. */
    char pair[PAIR_SIZE + 1];
    bool fresh;
    struct buffer unknown;       /* unknown members, each with a comma before it */
    struct buffer unknown_kinds; /* unknown kinds of tables */
};

/* A body with epoch 0 and without limits; NULL if out of memory. */
struct epoch_body *epoch_body_new(struct hf_error *error);

struct epoch_op {
    struct doc_op op; /* must be the first member */
    bool to_copy;     /* changes the copy, not the document */
    uint64_t by;
    uint64_t at_least;
    char pair[PAIR_SIZE + 1]; /* the id of the copy that was changed, for the document */
    bool pair_anew;           /* replaces the id in the document if it names another copy */
    bool confirm;             /* merges `limits` into the copy, which is then confirmed */
    bool forget_limits;
    bool rebuild;                    /* see epoch_file */
    bool waited;                     /* the same */
    const struct table_space *space; /* NULL: limits are not requested */
    enum table_kind kind;
    struct span record; /* a ttl, or 0 */

    uint64_t before, epoch; /* results */
    bool fresh;             /* the copy is unconfirmed */
    bool stale;             /* it found another copy: nothing was changed */
    bool paired;            /* the document named another copy before */
    struct epoch_limits limits;
    struct span longest;
    struct ttl_limit limit; /* the limit that was recorded */
};

/* Changes one of the objects. */
enum hf_status epoch_change_file(struct epoch_file *file, struct epoch_op *change,
                                 struct hf_error *error);

#endif
