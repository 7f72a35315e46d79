/* state.h: what a key holds: its published version, what is staged, and the bodies to be deleted.
 *
 * It stands in the key's own document, beside its leases (member "state" of the lease table), so
 * one swap checks the lease and publishes at once: exact fencing. States up to STATE_INLINE_MAX
 * stand there whole; larger ones are objects of their own, immutable, written before the swap that
 * names them and deleted only after a later swap that does not.
 *
 * Pure. docs/design.md section 9; src/key/README.md has the rules. */
#ifndef KEY_STATE_H
#define KEY_STATE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/view.h"

#include <stdint.h>

/* States up to this size stand in the document. */
#define STATE_INLINE_MAX 4096

/* Bodies that are not known to be deleted; when there are more, the oldest is left to a full
 * sweep. */
#define STATE_OLD_MAX 16

/* The id of a transaction: 32 hexadecimal digits. */
#define TXN_ID_SIZE 32

/* One version of a key. Its ETag is random, drawn by who wrote it, and never used again; its body,
 * if it has one, is called <token>-<etag>. */
struct state_version {
    uint64_t number; /* 1, 2, ...; 0: the key was never written */
    uint64_t token;  /* of the lease under which it was written */
    uint64_t size;
    char etag[NONCE_SIZE + 1];
    struct wall_time at; /* for display */
    bool removed;        /* this version says that the key holds nothing */
    bool has_body;       /* else it is in `bytes` */
    struct view bytes; /* points into `space` of its state, or to wherever the caller has it */
    struct view unknown; /* members that we do not know, each with a comma before it */
};

/* The name of a body within its folder. */
struct body_name {
    uint64_t token;
    char etag[NONCE_SIZE + 1];
};

/* What a lease has prepared and nobody sees yet. While it is undecided the key is locked, whatever
 * its lease says. */
struct state_stage {
    char txn[TXN_ID_SIZE + 1]; /* empty: of this lease alone, decided by its release */
    uint64_t token;            /* of the lease that holds, or held, the key for it */
    bool changes;              /* false: the key is only taken, or read */
    bool sealed;               /* somebody commits the transaction: it stays as it is */
    struct state_version next; /* with changes: what it will be */
    struct view unknown;       /* members that we do not know, each with a comma before it */
};

struct key_state {
    bool lost; /* the document was damaged and replaced: nobody knows what was here */
    struct state_version now;
    bool staged;
    struct state_stage stage;
    struct body_name old[STATE_OLD_MAX]; /* named by no version any more; oldest first */
    size_t old_count;
    struct view unknown; /* members that we do not know, each with a comma before it */
    struct buffer space; /* where the bytes of versions and unknown members are kept */
};

void state_init(struct key_state *state);
void state_release(struct key_state *state);

/* Reads the member of a document into a state that was initialised; empty text: a key that was
 * never written. CORRUPT when it cannot be one; then, and without memory, the state is empty. */
enum hf_status state_read(struct view text, struct key_state *state, struct hf_error *error);

/* Appends it; nothing for a key that was never written and has nothing staged. False without memory
 * or when it does not fit into TABLE_STATE_MAX. */
bool state_write(const struct key_state *state, struct buffer *text);

/* ---- Moves --------------------------------------------------------------------------- */

/* The version becomes the published one, with the next number; the body before joins the old. Its
 * bytes are not copied, here and below. After a loss the numbers go on from the token. */
void state_publish(struct key_state *state, const struct state_version *version);

/* Puts a stage there, in the place of an earlier one of the same lease, whose body joins the
 * old. */
void state_set_stage(struct key_state *state, const struct state_stage *stage);

/* What is staged becomes the published version, if it changes anything; then nothing is staged. */
void state_promote(struct key_state *state);

/* Nothing is staged any more; a body that it had joins the old. */
void state_discard(struct key_state *state);

/* Bodies that were deleted need not be named any more. Those that the state does not name as old
 * are passed over. True when something changed. */
bool state_forget_old(struct key_state *state, const struct body_name *names, size_t count);

/* Whether a version, published or staged, has this body. */
bool state_names_body(const struct key_state *state, const struct body_name *name);

/* What "staged state if the record says commit" means to a reader: the version to show. */
const struct state_version *state_shown(const struct key_state *state, bool committed);

/* "<token>-<etag>" and back. */
#define BODY_NAME_MAX (20 + 1 + NONCE_SIZE)
const char *body_name_text(const struct body_name *name, char text[BODY_NAME_MAX + 1]);
bool body_name_parse(struct view text, struct body_name *ret_name);

#endif
