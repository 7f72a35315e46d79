/* fence.h: the fence of a fenced object: who wrote it last, and where its bytes are.
 *
 * It is what stands under the object's key: one line of JSON, and behind it the bytes
 * themselves when there are few. The fence says which scopes the object belongs to and with
 * which token it was last written; so a write with a lower token is refused, however late it
 * arrives.
 *
 * A writer must hold, alone, a lock that covers each scope of the fence, which never change. Any
 * two such locks conflict: both cover the first scope of the fence, and two scopes that cover a
 * third conflict (scope_covers). So both are leases of one table, of which one was granted only
 * after the other was over: their tokens are in the order in which they were held. Of locks that
 * do not conflict, tokens say nothing, even in one table.
 *
 * Pure: no clock, no store. docs/decisions/0005-one-form-of-fenced-objects.md says why it looks
 * like this. */
#ifndef LOCK_FENCE_H
#define LOCK_FENCE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/limits.h"
#include "lease/scope.h"

/* The format's name, and behind it the version. */
#define FENCE_FORMAT "holdfast.fenced/"

/* Bodies up to this size stand behind the fence's line, larger ones are objects of their own. */
#define FENCE_INLINE_MAX (4 * KIB)

/* The scopes of a fence as texts, with a NUL behind each; and members that we do not know. */
#define FENCE_SCOPES_MAX  (4 * KIB)
#define FENCE_UNKNOWN_MAX (4 * KIB)

/* A line with two keys and the scopes in it, every byte of them escaped, and all the rest. */
#define FENCE_LINE_MAX  (48 * KIB)
#define FENCE_BYTES_MAX (FENCE_LINE_MAX + FENCE_INLINE_MAX)

static_assert(12 * KEY_BYTES_MAX + 6 * FENCE_SCOPES_MAX + FENCE_UNKNOWN_MAX + KIB <=
                  FENCE_LINE_MAX,
              "a line with all that it may hold must fit");
static_assert(KEY_BYTES_MAX <= FENCE_INLINE_MAX, "a key must fit where a body does");
static_assert(SCOPE_TEXT_MAX + 1 <= FENCE_SCOPES_MAX, "the longest scope must fit");

enum fence_kind {
    FENCE_NONE,    /* nobody has written yet; there may be a line that says so */
    FENCE_INLINE,  /* the body stands behind the line */
    FENCE_BODY,    /* the body is an object of its own */
    FENCE_DELETED, /* no body; only the fence is left */
};

/* Who writes: under which lock, with which token, and the number of the try. Numbers rise in the
 * order of calls of one client, so they say something only between writes of one session. No two
 * versions of an object have the same stamp. */
struct fence_stamp {
    char table[KEY_BYTES_MAX + 1]; /* the key of the lock's table */
    uint64_t token;
    char session[NONCE_SIZE + 1];
    uint64_t seq;
};

/* What a fence belongs to: texts of scopes, each with a NUL behind it. */
struct fence_scopes {
    size_t size;
    char texts[FENCE_SCOPES_MAX];
};

/* All in place, so that changing one cannot fail. */
struct fence {
    enum fence_kind kind;
    struct fence_stamp stamp;  /* all zero while nobody has written */
    struct fence_stamp before; /* the last write of an earlier token; all zero: there is none */
    struct fence_scopes scopes; /* none: of nobody yet, or of version 1, which has none */
    size_t unknown_size;
    char unknown[FENCE_UNKNOWN_MAX]; /* members that we do not know, a comma before each */
    uint64_t size;                   /* of the body */
    uint64_t xxh3;                   /* of its bytes */
    size_t text_size;
    char text[FENCE_INLINE_MAX]; /* the bytes, or the key of the object that has them */
};

static inline struct view fence_text(const struct fence *fence)
{
    return (struct view){ fence->text, fence->text_size };
}

void fence_set_text(struct fence *fence, struct view text);

/* MISMATCH: this is not a fence; CORRUPT: it was one; UNSUPPORTED: of a later version, or with
 * more that we do not know than we can keep. */
enum hf_status fence_decode(struct view bytes, struct fence *ret_fence, struct hf_error *error);

bool fence_encode(const struct fence *fence, struct view nonce, struct buffer *text);

/* What a write comes to, where it is not refused. */
enum fence_outcome {
    FENCE_WRITE,      /* it may be written */
    FENCE_DONE,       /* it stands there already */
    FENCE_SUPERSEDED, /* a later one of ours stands there */
};

/* Who writes, and what its lock covers. */
struct fence_writer {
    struct fence_stamp stamp;
    const struct scope *scopes;
    size_t scope_count;
};

/* Whether a write may go over the fence that stands: OK with what it comes to, or FENCED, or
 * MISMATCH, or UNSUPPORTED when it belongs to a scope that we do not know. */
enum hf_status fence_judge(const struct fence *fence, const struct fence_writer *writer,
                           enum fence_outcome *ret_outcome, struct hf_error *error);

/* Puts the writer into the fence. Its scopes become those of a fence that has none yet: MISMATCH
 * when there are only pins, which keep nobody out and are left out; INVALID when they are too
 * long. Then the fence stays as it was. */
enum hf_status fence_sign(struct fence *fence, const struct fence_writer *writer,
                          struct hf_error *error);

/* Whether a write that was tried over a fence with the stamp `over`, and does not stand now, may
 * have been there all the same. */
bool fence_may_be_gone(const struct fence *fence, const struct fence_stamp *writer,
                       const struct fence_stamp *over);

bool fence_stamp_equal(const struct fence_stamp *a, const struct fence_stamp *b);

#endif
