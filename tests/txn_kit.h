/* txn_kit.h: shorthands for tests of transactions, on top of key_kit.h; they fail the test when
 * what they do is not OK. */
#ifndef TESTS_TXN_KIT_H
#define TESTS_TXN_KIT_H

#include "key_kit.h"

struct hf_txn *begin(struct peer *peer);
struct hf_txn *join(struct peer *peer, const char *id);

/* Takes two keys, which are free, for a transaction. */
void take_two(struct hf_txn *txn, const char *first, const char *second, int64_t ttl_ms,
              struct hf_key *ret_keys[2]);
struct hf_key *take_one(struct hf_txn *txn, const char *name);

/* One that has taken "a" and "b" and changed them to these; what they are called is in `texts`. */
struct transfer {
    struct hf_txn *txn;
    struct hf_key *keys[2];
    char id[HF_TXN_ID_SIZE + 1];
    char leases[2][HF_LEASE_TEXT_MAX];
};
struct transfer transfer_staged(struct peer *peer, const char *a, const char *b);

/* Its process is as good as dead, and its leases are over. */
void transfer_dies(struct transfer *transfer, struct peer *peer, struct peer *other);

/* Decides it; what is asked must come of it. */
void commit(struct hf_txn *txn);
void roll_back(struct hf_txn *txn);

/* "a" and "b" are read as these. */
void both_read(struct peer *peer, const char *a, const char *b);

/* What its record says; ABSENT: there is none. */
enum txn_state recorded(struct peer *peer, const char *id);

/* Whether the record has this text in it. */
bool record_says(struct world *world, const char *id, const char *piece);

/* Whether something is staged in the document of a key. */
bool is_staged(struct world *world, const char *name);

/* Objects whose key starts like this. */
size_t objects_below(struct world *world, const char *prefix);

/* From now on this client takes D for so long. */
void set_late_bound(struct peer *peer, struct span span);

/* Purges it, and says what came of that. */
enum purge_result purge(struct peer *peer, const char *id);

#endif
