/* SPDX-License-Identifier: Apache-2.0 */
/* key_kit.h: short calls for tests of keys, on top of lock_kit.h. They fail the test if a call
 * is not OK. */
#ifndef TESTS_KEY_KIT_H
#define TESTS_KEY_KIT_H

#include "key/key.h"
#include "lock_kit.h"

/* The objects of the key "k". */
#define STATE_FOLDER "default/state/"
#define DOCUMENT     "default/meta/k.json"

struct hf_key *key_with(struct peer *peer, const char *name, int64_t ttl_ms, bool staged);
struct hf_key *key_held(struct peer *peer, const char *name);
struct hf_key *staged_held(struct peer *peer, const char *name);

void update(struct hf_key *key, const char *text);

/* Releases the key with HF_COMMIT, which publishes what is staged, and frees it. */
void done(struct hf_key *key);

/* Acquires, updates and releases. */
void publish(struct peer *peer, const char *name, const char *text);

/* Checks that the key reads as this text; NULL: no value. */
struct hf_key_info reads(struct peer *peer, const char *name, const char *text);

/* Bytes for a test, each different from its neighbours. The caller frees them. */
char *bytes_of(size_t size, unsigned seed);

/* How many bodies a key has in the store, used or not. */
size_t bodies(struct world *world, const char *name);

/* Takes the lease of a key away from its holder. */
void take_away(struct peer *peer, struct hf_key *key);

/* From now on this client makes each change by a request of its own, even if its store could change
 * several objects in one step (txn_step_test.c). */
void take_no_steps(struct peer *peer);

/* Checks that an update is refused like this. */
void refuses(struct hf_key *key, const struct hf_key_if *when, enum hf_key_outcome outcome,
             enum hf_status status);

#endif
