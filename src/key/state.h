/* SPDX-License-Identifier: Apache-2.0 */
/* state.h: the state of a key: its published version, its stage, and the bodies to be deleted.
 *
 * The state is in the key's own document, beside its leases (member "state" of the lease table).
 * So a single swap checks the lease and publishes the state, which makes fencing exact. States of
 * up to STATE_INLINE_MAX bytes are stored in the document. Larger states are immutable objects,
 * which are written before the swap that names them and deleted only after a later swap that no
 * longer names them.
 *
 * Pure. See docs/design.md, section 9; the rules are in src/key/README.md. */
#ifndef KEY_STATE_H
#define KEY_STATE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/view.h"

#include <stdint.h>

/* States up to this size are in the document. */
#define STATE_INLINE_MAX 4096

/* The maximum number of bodies that are listed as not yet deleted. If there are more, the oldest
 * is left to a full sweep. */
#define STATE_OLD_MAX 16

/* How many replaced versions a state remembers, and how many digits of the ETag of each. */
#define STATE_RECENT_MAX    64
#define STATE_RECENT_DIGITS 4

/* The id of a transaction: 32 hexadecimal digits. */
#define TXN_ID_SIZE 32

/* One version of a key. Its ETag is a random value that its writer generates, and is never reused.
 * Its body, if it has one, is named <token>-<etag>. */
struct state_version {
    uint64_t number; /* 1, 2, ...; 0: the key was never written */
    uint64_t token;  /* of the lease under which it was written */
    uint64_t size;
    char etag[NONCE_SIZE + 1];
    struct wall_time at; /* for display */
    bool removed;        /* this version deletes the key's value */
    bool has_body;       /* if not, its content is in `bytes` */
    struct view bytes;   /* points into `space` of its state, or into the caller's memory */
    struct view unknown; /* unknown members, each with a comma before it */
};

/* The name of a body within its folder. */
struct body_name {
    uint64_t token;
    char etag[NONCE_SIZE + 1];
};

/* A prepared change that no reader sees yet. Until it is decided, the key is locked, even if the
 * lease has ended. */
struct state_stage {
    char txn[TXN_ID_SIZE + 1]; /* empty: no transaction; the release of the lease decides */
    uint64_t token;            /* of the lease under which the key was taken */
    bool changes;              /* false: the key is only taken, or read */
    /* A commit of the transaction may be in progress, so the stage must not change. */
    bool sealed;
    struct state_version next; /* with changes: the next version */
    struct view unknown;       /* unknown members, each with a comma before it */
};

/* Versions that changes without a lease have replaced. A client whose change met other changes, or
 * got no reply, can tell by them that its version was not published: another one has its number. */
struct state_recent {
    uint64_t number; /* of the latest of them */
    size_t count;    /* with the numbers number, number - 1, ... */
    char digits[STATE_RECENT_MAX][STATE_RECENT_DIGITS]; /* the first of the ETag of each */
};

struct key_state {
    bool lost; /* the document was damaged and replaced, so the state is unknown */
    struct state_version now;
    bool staged;
    struct state_stage stage;
    struct body_name old[STATE_OLD_MAX]; /* bodies that no version names; oldest first */
    size_t old_count;
    struct state_recent recent;
    struct view unknown; /* unknown members, each with a comma before it */
    struct buffer space; /* memory for the bytes of versions and unknown members */
};

void state_init(struct key_state *state);
void state_release(struct key_state *state);

/* Decodes the member of a document into an initialised state. An empty text means that the key was
 * never written. Returns CORRUPT if the text is invalid. After any failure the state is empty. */
enum hf_status state_read(struct view text, struct key_state *state, struct hf_error *error);

/* Appends the state's JSON: nothing for a key that was never written and has no stage. False if
 * out of memory, or if the text exceeds TABLE_STATE_MAX. */
bool state_write(const struct key_state *state, struct buffer *text);

/* Publishes the version with the next number; the previous body becomes old. Neither this function
 * nor those below copy bytes. After a loss, version numbers continue from the token. */
void state_publish(struct key_state *state, const struct state_version *version);

/* Remembers the published version, which is about to be replaced. */
void state_remember(struct key_state *state);

/* Whether the version with this number is known, and has another ETag. */
bool state_shows_other(const struct key_state *state, uint64_t number, const char *etag);

/* Sets the stage. It replaces an earlier stage under the same lease, whose body becomes old. */
void state_set_stage(struct key_state *state, const struct state_stage *stage);

/* Publishes the staged version, if the stage has changes, and removes the stage. */
void state_promote(struct key_state *state);

/* Removes the stage; its body becomes old. */
void state_discard(struct key_state *state);

/* Removes bodies that have been deleted from the list of old bodies. Other names are ignored. True
 * if the list has changed. */
bool state_forget_old(struct key_state *state, const struct body_name *names, size_t count);

bool body_is_among(const struct body_name *body, const struct body_name *names, size_t count);

/* Whether a version, published or staged, has this body. */
bool state_names_body(const struct key_state *state, const struct body_name *name);

/* The version that a reader sees: the staged version if its record says commit. */
const struct state_version *state_shown(const struct key_state *state, bool committed);

/* Convert a body's name to "<token>-<etag>" and back. */
#define BODY_NAME_MAX (20 + 1 + NONCE_SIZE)
const char *body_name_text(const struct body_name *name, char text[BODY_NAME_MAX + 1]);
bool body_name_parse(struct view text, struct body_name *ret_name);

#endif
