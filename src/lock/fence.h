/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h: the fence of a fenced object: which client wrote it last, and where its bytes are.
 *
 * The fence is stored under the object's key: one line of JSON, followed by the object's bytes if
 * there are only a few. It names the scopes that the object belongs to and the token of the last
 * write. A write with a lower token is refused, however late it arrives.
 *
 * A writer must hold an exclusive lock that covers each scope of the fence, and these scopes
 * never change. Any two such locks conflict: both cover the first scope of the fence, and any two
 * scopes that cover the same scope conflict (scope_covers). So both leases are in one table, and
 * the second was granted only after the first had ended. Their tokens are therefore in the order
 * in which the locks were held. Tokens of locks that do not conflict cannot be compared, even in
 * one table.
 *
 * Pure: no clock, no store. docs/decisions/0005-one-form-of-fenced-objects.md explains the
 * design. */
#ifndef LOCK_FENCE_H
#define LOCK_FENCE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/limits.h"
#include "lease/scope.h"

/* The format's name, followed by the version. */
#define FENCE_FORMAT "holdfast.fenced/"

/* Only Holdfast writes fences, and all of them start like this. So a damaged fence can be
 * distinguished from an object that was never a fence. */
#define FENCE_START VIEW("{ \"format\": \"" FENCE_FORMAT)

/* Bodies up to this size follow the fence's line; larger ones are separate objects. */
#define FENCE_INLINE_MAX (4 * KIB)

/* The total size of a fence's scopes as strings, each terminated by a NUL, and of its unknown
 * members. */
#define FENCE_SCOPES_MAX  (4 * KIB)
#define FENCE_UNKNOWN_MAX (4 * KIB)

/* The longest line: two keys and the scopes, with every byte escaped, and all other members. */
#define FENCE_LINE_MAX  (48 * KIB)
#define FENCE_BYTES_MAX (FENCE_LINE_MAX + FENCE_INLINE_MAX)

static_assert(12 * KEY_BYTES_MAX + 6 * FENCE_SCOPES_MAX + FENCE_UNKNOWN_MAX + KIB <=
                  FENCE_LINE_MAX,
              "a line with all that it may hold must fit");
static_assert(KEY_BYTES_MAX <= FENCE_INLINE_MAX, "a key must fit where a body does");
static_assert(SCOPE_TEXT_MAX + 1 <= FENCE_SCOPES_MAX, "the longest scope must fit");

enum fence_kind {
    FENCE_NONE,    /* not written yet; the line may exist and say so */
    FENCE_INLINE,  /* the body follows the line */
    FENCE_BODY,    /* the body is a separate object */
    FENCE_DELETED, /* no body; only the fence is left */
};

/* Identifies a write: its lock's table, its token, its session, and the number of the try. Numbers
 * rise in the order of a client's calls, so only the numbers of one session can be compared. No
 * two versions of an object have the same stamp. */
struct fence_stamp {
    char table[KEY_BYTES_MAX + 1]; /* the key of the lock's table */
    uint64_t token;
    char session[NONCE_SIZE + 1];
    uint64_t seq;
};

/* The scopes that a fence belongs to, as strings, each terminated by a NUL. */
struct fence_scopes {
    size_t size;
    char texts[FENCE_SCOPES_MAX];
};

/* A fence in memory. All of its parts are stored inline, so that no change can run out of
 * memory. */
struct fence {
    enum fence_kind kind;
    struct fence_stamp stamp;   /* all zero if no client has written yet */
    struct fence_stamp before;  /* the last write with the previous token; all zero: none */
    struct fence_scopes scopes; /* empty: no client has written yet, or version 1 */
    size_t unknown_size;
    char unknown[FENCE_UNKNOWN_MAX]; /* unknown members, each with a comma before it */
    uint64_t size;                   /* of the body */
    uint64_t xxh3;                   /* of its bytes */
    size_t text_size;
    char text[FENCE_INLINE_MAX]; /* the bytes, or the key of the object that holds them */
};

static inline struct view fence_text(const struct fence *fence)
{
    return (struct view){ fence->text, fence->text_size };
}

void fence_set_text(struct fence *fence, struct view text);

/* MISMATCH: not a fence; CORRUPT: a damaged fence; UNSUPPORTED: written by a later version, or
 * with more unknown members than we can keep. */
enum hf_status fence_decode(struct view bytes, struct fence *ret_fence, struct hf_error *error);

bool fence_encode(const struct fence *fence, struct view nonce, struct buffer *text);

/* The result of a write that is not refused. */
enum fence_outcome {
    FENCE_WRITE,      /* it may be written */
    FENCE_DONE,       /* it is already there */
    FENCE_SUPERSEDED, /* a later write of ours is there */
};

/* The writer, and the scopes that its lock covers. */
struct fence_writer {
    struct fence_stamp stamp;
    const struct scope *scopes;
    size_t scope_count;
};

/* Whether a write may replace the fence: OK with the outcome, FENCED, MISMATCH, or UNSUPPORTED if
 * the fence belongs to a scope that this version does not know. */
enum hf_status fence_check_writer(const struct fence *fence, const struct fence_writer *writer,
                                  enum fence_outcome *ret_outcome, struct hf_error *error);

/* Records the writer in the fence. A fence without scopes gets the writer's scopes, except pins,
 * which exclude nobody. MISMATCH: the writer has only pins. INVALID: the scopes are too long. On
 * failure the fence is unchanged. */
enum hf_status fence_sign(struct fence *fence, const struct fence_writer *writer,
                          struct hf_error *error);

/* Whether a write that tried to replace a fence with the stamp `over`, and is not in place now, may
 * have been in place for some time. */
bool fence_may_be_gone(const struct fence *fence, const struct fence_stamp *writer,
                       const struct fence_stamp *over);

bool fence_stamp_equal(const struct fence_stamp *a, const struct fence_stamp *b);

#endif
