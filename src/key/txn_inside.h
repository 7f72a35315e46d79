/* txn_inside.h: what the files of transactions ask of each other; nobody else includes it. */
#ifndef KEY_TXN_INSIDE_H
#define KEY_TXN_INSIDE_H

#include "key/key.h"

/* By when a request must have its answer. */
static inline struct mono_time soon(const struct hf_client *client)
{
    return mono_add(env_now(client->env), REQUEST_TIME);
}

static inline struct view id_of(const struct hf_txn *txn)
{
    return view_of(txn->id);
}

/* ---- Handles (txn.c) ----------------------------------------------------------------- */

/* One change of its record. */
enum hf_status txn_ask(struct hf_txn *txn, struct record_op *op, struct hf_error *error);

enum hf_status txn_begin_record(struct hf_txn *txn, struct hf_error *error);

/* The names of the keys from `first` on, then of those that others have taken. NULL without
 * memory. */
struct txn_key *txn_names(const struct hf_txn *txn, size_t first, size_t *ret_count);

/* Learns from the record which keys others have taken, and what is decided. */
enum hf_status txn_learn_others(struct hf_txn *txn, enum txn_state *ret_state,
                                struct hf_error *error);

/* ---- Records (txn_look.c) ------------------------------------------------------------ */

/* A record, and the ETag of it (may be NULL), as they stand. NOT_FOUND when there is none. */
enum hf_status record_get(struct hf_client *client, struct view id,
                          struct txn_record *ret_record, struct etag *ret_etag,
                          struct hf_error *error);

/* One change of a record by who has no document of it. */
enum hf_status record_change(struct hf_client *client, struct record_op *op,
                             struct hf_error *error);

/* Writes the entry by which a record that is about to be written will be found when it can be
 * purged. */
enum hf_status record_announce(struct hf_client *client, struct view id,
                               struct hf_error *error);

/* ---- Records whose time is over (purge.c) --------------------------------------------- */

/* Whether an operation that has read this record may clear it, as far as time goes: D is proven to
 * have passed since its decision. Only where the store deletes on condition: else somebody may have
 * put a mark in its place since it was read. */
bool record_is_due(struct hf_client *client, const struct txn_record *record);

/* Deletes a record that is due, and had this ETag, if nobody needs it any more: it is a rollback,
 * or every participant was seen without its stage; `settled`: by the caller, just now. Never
 * earlier. What fails is left to the sweeper. True: it is gone. */
bool record_clear_read(struct hf_client *client, const struct txn_record *record,
                       const struct etag *etag, bool settled);

/* ---- Stages (settle.c) --------------------------------------------------------------- */

/* The stage of a transaction, as it stood in a document. */
struct stage_sight {
    bool there;
    char txn[TXN_ID_SIZE + 1];
    uint64_t token;
    bool changes;
    bool abandoned;               /* no lease of its token is active; else: */
    char lease[LEASE_ID_MAX + 1]; /* the id of that */
    bool over;                    /* it is, provably, and nobody has noted it yet */
};

/* There is none where there is no document. */
enum hf_status stage_see(struct place *place, struct stage_sight *ret_sight,
                         struct hf_error *error);

/* A stage that is decided is promoted or discarded, and the lease that it is under, if it still
 * has one, released in the same write. OK: the document was seen without it. */
enum hf_status stage_end(struct hf_client *client, const struct txn_key *key, struct view txn,
                         bool commit, struct hf_error *error);

/* Sees to it that the stage of a key, whoever has taken it, stands under a lease that is not over,
 * and stays as it is: OK, or EXPIRED. */
enum hf_status stage_seal(struct hf_client *client, const struct txn_key *key, struct view txn,
                          struct hf_error *error);

/* Tells that a transaction was decided. */
void txn_event(struct hf_client *client, struct view id, enum txn_state decided);

#endif
