/* key_kit.h: shorthands for tests of keys, on top of lock_kit.h; they fail the test when what they
 * do is not OK. */
#ifndef TESTS_KEY_KIT_H
#define TESTS_KEY_KIT_H

#include "key/key.h"
#include "lock_kit.h"

/* What tests call "k". */
#define STATE_FOLDER "default/state/"
#define DOCUMENT     "default/meta/k.json"

struct hf_key *key_with(struct peer *peer, const char *name, int64_t ttl_ms, bool staged);
struct hf_key *key_held(struct peer *peer, const char *name);
struct hf_key *staged_held(struct peer *peer, const char *name);

void update(struct hf_key *key, const char *text);

/* Releases it, with what is staged, and frees it. */
void done(struct hf_key *key);

/* All of it: acquire, update, release. */
void publish(struct peer *peer, const char *name, const char *text);

/* The key is read as this text, NULL: as nothing. */
struct hf_key_info reads(struct peer *peer, const char *name, const char *text);

/* As many bytes as a test needs, each differing from its neighbours; to be freed. */
char *bytes_of(size_t size, unsigned seed);

/* How many bodies a key has in the store, named or not. */
size_t bodies(struct world *world, const char *name);

/* Takes the lease of a key away from whoever holds it. */
void take_away(struct peer *peer, struct hf_key *key);

/* An update is refused like this. */
void refuses(struct hf_key *key, const struct hf_key_if *when, enum hf_key_outcome outcome,
             enum hf_status status);

#endif
