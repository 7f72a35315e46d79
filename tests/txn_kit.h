/* SPDX-License-Identifier: Apache-2.0 */
/* txn_kit.h: short calls for tests of transactions, on top of key_kit.h. They fail the test if
 * a call is not OK. */
#ifndef TESTS_TXN_KIT_H
#define TESTS_TXN_KIT_H

#include "key_kit.h"

struct hf_txn *begin(struct peer *peer);
struct hf_txn *join(struct peer *peer, const char *id);

/* Takes two free keys for a transaction. */
void take_two(struct hf_txn *txn, const char *first, const char *second, int64_t ttl_ms,
              struct hf_key *ret_keys[2]);
struct hf_key *take_one(struct hf_txn *txn, const char *name);

/* A transaction that has taken "a" and "b" and changed them. */
struct transfer {
    struct hf_txn *txn;
    struct hf_key *keys[2];
    char id[HF_TXN_ID_SIZE + 1];
    char leases[2][HF_LEASE_TEXT_MAX];
};
struct transfer transfer_staged(struct peer *peer, const char *a, const char *b);

/* Its process is as good as dead, and its leases are over. */
void transfer_dies(struct transfer *transfer, struct peer *peer, struct peer *other);

/* Decides the transaction; the result must be as requested. */
void commit(struct hf_txn *txn);
void roll_back(struct hf_txn *txn);

/* Checks that "a" and "b" read as these. */
void both_read(struct peer *peer, const char *a, const char *b);

/* The state in its record; ABSENT: there is no record. */
enum txn_state recorded(struct peer *peer, const char *id);

/* Whether the record contains this text. */
bool record_says(struct world *world, const char *id, const char *piece);

/* Whether the document of a key has a stage. */
bool is_staged(struct world *world, const char *name);

/* The number of objects whose keys have this prefix. */
size_t objects_below(struct world *world, const char *prefix);

/* From now on this client uses this D. */
void set_late_bound(struct peer *peer, struct span span);

/* From now on this client takes its store for one on a network: requests that do not depend on each
 * other are made side by side, and decided transactions are settled in the background. */
void make_remote(struct peer *peer);

/* Waits until nothing is left to settle in the background. */
void await_settled(struct peer *peer);

/* Purges the record, and returns the result. */
enum purge_result purge(struct peer *peer, const char *id);

#endif
