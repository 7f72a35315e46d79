/* SPDX-License-Identifier: Apache-2.0 */
/* state.h: the state of a key: its published version, its stage, and the bodies to be deleted.
 *
 * It is in the key's own document, beside its leases (member "state" of the lease table), so one
 * swap checks the lease and publishes, which makes fencing exact. States up to STATE_INLINE_MAX
 * are stored in the document. Larger ones are immutable objects, written before the swap that
 * names them and deleted only after a later swap drops the name.
 *
 * Pure. docs/design.md section 9; src/key/README.md has the rules. */
#ifndef KEY_STATE_H
#define KEY_STATE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/view.h"

#include <stdint.h>

/* States up to this size are in the document. */
#define STATE_INLINE_MAX 4096

/* The maximum number of bodies not known to be deleted; beyond that, the oldest is left to a full
 * sweep. */
#define STATE_OLD_MAX 16

/* The id of a transaction: 32 hexadecimal digits. */
#define TXN_ID_SIZE 32

/* One version of a key. Its ETag is random, drawn by its writer, and never reused; its body, if
 * it has one, is called <token>-<etag>. */
struct state_version {
    uint64_t number; /* 1, 2, ...; 0: the key was never written */
    uint64_t token;  /* of the lease under which it was written */
    uint64_t size;
    char etag[NONCE_SIZE + 1];
    struct wall_time at; /* for display */
    bool removed;        /* this version deletes the key's value */
    bool has_body;       /* else it is in `bytes` */
    struct view bytes;   /* points into `space` of its state, or into the caller's memory */
    struct view unknown; /* unknown members, each with a comma before it */
};

/* The name of a body within its folder. */
struct body_name {
    uint64_t token;
    char etag[NONCE_SIZE + 1];
};

/* A prepared change that no reader sees yet. Until it is decided, the key is locked, whatever the
 * state of its lease. */
struct state_stage {
    char txn[TXN_ID_SIZE + 1]; /* empty: no transaction; decided by the lease's release */
    uint64_t token;            /* of the lease that holds, or held, the key for it */
    bool changes;              /* false: the key is only taken, or read */
    /* A commit of the transaction is under way: it must not change. */
    bool sealed;
    struct state_version next; /* with changes: the next version */
    struct view unknown;       /* unknown members, each with a comma before it */
};

struct key_state {
    bool lost; /* the document was damaged and replaced: the state is unknown */
    struct state_version now;
    bool staged;
    struct state_stage stage;
    struct body_name old[STATE_OLD_MAX]; /* no version names them any more; oldest first */
    size_t old_count;
    struct view unknown; /* unknown members, each with a comma before it */
    struct buffer space; /* memory for the bytes of versions and unknown members */
};

void state_init(struct key_state *state);
void state_release(struct key_state *state);

/* Decodes the member of a document into an initialised state; empty text: a key that was never
 * written. CORRUPT if it is invalid; then, and if out of memory, the state is empty. */
enum hf_status state_read(struct view text, struct key_state *state, struct hf_error *error);

/* Appends it; nothing for a key that was never written and has no stage. False if out of memory,
 * or if it exceeds TABLE_STATE_MAX. */
bool state_write(const struct key_state *state, struct buffer *text);

/* Publishes the version with the next number; the previous body becomes old. Bytes are not
 * copied, here and below. After a loss, version numbers continue from the token. */
void state_publish(struct key_state *state, const struct state_version *version);

/* Sets the stage, replacing an earlier one of the same lease, whose body becomes old. */
void state_set_stage(struct key_state *state, const struct state_stage *stage);

/* Publishes the staged version, if there is a change; then nothing is staged. */
void state_promote(struct key_state *state);

/* Removes the stage; its body becomes old. */
void state_discard(struct key_state *state);

/* Removes deleted bodies from the old ones. Other names are ignored. True if something
 * changed. */
bool state_forget_old(struct key_state *state, const struct body_name *names, size_t count);

bool body_is_among(const struct body_name *body, const struct body_name *names, size_t count);

/* Whether a version, published or staged, has this body. */
bool state_names_body(const struct key_state *state, const struct body_name *name);

/* The version that a reader sees: the staged one if its record says commit. */
const struct state_version *state_shown(const struct key_state *state, bool committed);

/* "<token>-<etag>" and back. */
#define BODY_NAME_MAX (20 + 1 + NONCE_SIZE)
const char *body_name_text(const struct body_name *name, char text[BODY_NAME_MAX + 1]);
bool body_name_parse(struct view text, struct body_name *ret_name);

#endif
