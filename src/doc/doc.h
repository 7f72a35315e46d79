/* doc.h: one document, changed by compare-and-swap: the only way in which anything that must be
 * agreed on is ever changed.
 *
 * A change is an operation: a pure function of the document's body and of evidence of time. It
 * is applied to the body that we have, the result is written if the ETag is still the one that
 * was loaded, and on a conflict, or when the answer is lost, it is applied again to a fresh
 * body. So an operation must recognise its own effect: applied where it already happened it
 * says so and succeeds. docs/design.md section 4; src/doc/README.md has the invariants.
 *
 * Operations of one process that wait for one document are applied together and written in one
 * put. Results, refusals included, are told only when that put is known to be done; what needs no
 * put is told only of a body that was in the store after it was asked for. */
#ifndef DOC_DOC_H
#define DOC_DOC_H

#include "doc/clock.h"
#include "store/store.h"

/* What differs between kinds of documents. A body is changed in place; when its write fails it
 * is thrown away. */
struct doc_type {
    size_t bytes_max; /* of a document that is read */

    /* A body from bytes that arrived at this moment; `previous` is the body that we had before,
     * or NULL, and is freed after the call. */
    enum hf_status (*decode)(struct view bytes, struct mono_time arrived, const void *previous,
                             void **ret_body, struct hf_error *error);

    /* May be NULL. Whether prepare can do without the store. */
    bool (*is_whole)(const void *body);

    /* May be NULL. Finishes a body that cannot be used as it was read, by asking the store for what
     * it lacks. CONFLICT: the object is another by now, read it again. */
    enum hf_status (*prepare)(void *context, void *body, struct mono_time deadline,
                              struct hf_error *error);

    /* The object does not exist: makes the first body. May write it, and then sets *ret_etag; else
     * leaves that empty, and the first change is written if the object is still absent. */
    enum hf_status (*birth)(void *context, struct view key, struct mono_time deadline,
                            void **ret_body, struct etag *ret_etag, struct hf_error *error);

    bool (*encode)(const void *body, struct view nonce, struct buffer *text);

    /* May be NULL. The body, which was changed, is known to stand in the store since now at the
     * latest. */
    void (*written)(void *body, struct mono_time now);
    void (*free)(void *body);
};

/* One try at writing: its nonce is in the document if it landed, and its evidence says from
 * when what it granted counts. */
struct doc_attempt {
    char nonce[NONCE_SIZE + 1];
    struct mono_time t0;
    struct store_time latest;
    bool time_known;
};

/* An operation remembers its first attempt and the last few. */
#define DOC_ATTEMPTS_MAX 8

/* Who has an operation: it waits, a leader works on it, or it is its caller's again. */
enum doc_op_state { DOC_OP_QUEUED, DOC_OP_TAKEN, DOC_OP_DONE };

/* What came of it. */
enum doc_answer {
    DOC_UNANSWERED,
    DOC_KNOWN,   /* the answer is of a body that stood in the store, as it was changed */
    DOC_FAILED,  /* the store failed, or the time was over */
    DOC_DAMAGED, /* the document cannot be read: CORRUPT, or that is why it is UNSURE */
};

/* Whether a write of it that was not told as done has landed. It changes when
 *
 *               a write of it      a body shows that no write     the answer
 *               has no answer      of it can land any more        is known
 *     NONE      OPEN               NONE                           NONE
 *     OPEN      OPEN               OVER                           OVER
 *     OVER      OPEN               OVER                           OVER */
enum doc_doubt { DOC_DOUBT_NONE, DOC_DOUBT_OPEN, DOC_DOUBT_OVER };

/* Zeroed, but for what is asked. Given again, after UNSURE or for another reason, it goes on where
 * it stopped: with the attempts it remembers, and the one that may still land. */
struct doc_op {
    /* Asked. Pure; returns OK or a refusal with its reason in `error`, and notes in `changed`
     * whether the body must be written; without that the body is left as it was. Called once an
     * attempt, maybe many times. One that finds an earlier attempt of its own there, and has more
     * to do, notes that in `found`; one that has nothing more to do need not. */
    enum hf_status (*apply)(struct doc_op *op, void *body, const struct evidence *evidence);
    struct mono_time deadline;
    bool quiet;  /* may be set by apply: who waits for this store need not wake */
    bool settle; /* write even if nothing changes: shuts out earlier writes without an answer */

    /* Answered. */
    bool changed;
    bool found;
    enum doc_answer answer;
    enum doc_doubt doubt; /* not NONE: what it found may be its own doing */
    unsigned conflicts;   /* writes of it that were refused: somebody else had written */
    struct hf_error error;
    struct doc_attempt attempts[DOC_ATTEMPTS_MAX]; /* the first, then the last ones */
    size_t attempt_count;

    /* The document's own. */
    enum doc_op_state state;
    struct env_cond *wake; /* the caller's */
    struct etag
        doubt_base; /* while this is the ETag (empty: absent) a write in doubt may land */
    struct doc_op *next;
};

struct doc;

enum hf_status doc_new(struct store *store, struct doc_clock *clock, struct view key,
                       const struct doc_type *type, void *context, struct doc **ret_doc,
                       struct hf_error *error);

/* No operation may be under way. NULL is fine. */
void doc_free(struct doc *doc);

struct view doc_key(const struct doc *doc);

/* Why what is under way was not done at the last attempt, which will be made again; false: nothing
 * is amiss, but for conflicts. For those who tell people what is waited for. */
bool doc_trouble(struct doc *doc, struct hf_error *ret_why);

/* The ETag of the body as we know it. False: we know none, or somebody is at it just now. */
bool doc_etag(struct doc *doc, struct etag *ret_etag);

/* What a request takes, smoothed; for those who are called by the doc. */
struct span doc_round_trip(const struct doc *doc);

/* To be set before the first use: `seen` is shown each body that is known to be in the store: after
 * a load, and after a put with the body as written and the evidence that it was made with. It is
 * called by whichever task leads, before results are told, and must not call the document. */
void doc_observe(struct doc *doc,
                 void (*seen)(void *argument, const void *body,
                              const struct evidence *evidence),
                 void *argument);

/* Applies an operation until it is done, refused, or its deadline has come:
 *   OK         done
 *   UNSURE     the deadline came, or the store failed, while an attempt may have landed or may yet
 *   TIMEOUT    the deadline came, and nothing has or will be changed
 *   others     the operation's refusal, or why the store cannot
 * No attempt is begun after the deadline; one that is under way is finished, and each of its
 * requests given half a second, however near the deadline is, but only a third of the time left,
 * however far it is: when an answer is lost there is time to ask again. */
enum hf_status doc_update(struct doc *doc, struct doc_op *op);

/* Many at once, each answered by itself; the first status that is not OK. */
enum hf_status doc_update_many(struct doc *doc, struct doc_op *const *ops, size_t count);

/* Shows the current body to `look`: freshly loaded unless the one that we have is still current
 * (a conditional get, not tried again). NOT_FOUND when there is none. `look` must not call the
 * document. */
enum hf_status doc_look(struct doc *doc, struct mono_time deadline,
                        void (*look)(void *argument, const void *body,
                                     const struct evidence *evidence),
                        void *argument, struct hf_error *error);

/* The attempt that made this nonce; the first one when it is none of ours that we remember. */
const struct doc_attempt *doc_attempt_of(const struct doc_op *op, struct view nonce);

#endif
