/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_kit.h: clients that write fenced objects, in an env with one task and a clock that
 * moves only during sleeps. The ETags of the bucket are hashes of the content, as on S3, where
 * writing equal bytes again looks like no change.
 *
 * Each peer reaches the bucket through its own scripted store, the gate. */
#ifndef TESTS_FENCED_KIT_H
#define TESTS_FENCED_KIT_H

#include "base/prng.h"
#include "lock/client_inside.h"
#include "scripted_store.h"
#include "test.h"

#define OBJECT "data/object"

/* ---- The world ----------------------------------------------------------------------- */

struct peer {
    struct script gate; /* a call takes 1 ms */
    struct hf_client *client;
    struct hf_lock *lock; /* on "job", unless the test creates another */
};

struct fenced_kit {
    struct env env; /* must be first */
    int64_t now_us;
    struct prng prng;
    struct store *bucket;
    struct peer one, two;
};

/* Restarts the count at 0 and removes all rules. */
void gate_reset(struct script *gate);

int fenced_set_up(void **state);
int fenced_tear_down(void **state);

#define FENCED(sentence, function)                                    \
    {                                                                 \
        (sentence), (function), fenced_set_up, fenced_tear_down, NULL \
    }

/* The same for tests in which it may fail. False if memory runs out. */
bool fenced_kit_open(struct fenced_kit *kit);
void fenced_kit_close(struct fenced_kit *kit);

/* Peer one holds the lock; then peer two takes it over, and one does not notice. */
void one_holds(struct fenced_kit *kit);
void two_takes_over(struct fenced_kit *kit);

/* Passes the lease on: returns a handle of `to` on a lease of another peer. */
struct hf_lock *pass_on(struct hf_lock *lock, struct peer *to);

/* ---- Reading and writing directly ---------------------------------------------------- */

/* The bytes under a key, or NULL. The caller frees them. */
char *bucket_text(struct fenced_kit *kit, const char *key);
void bucket_write(struct fenced_kit *kit, const char *key, struct view bytes);

/* How many bodies the object has, including unused ones; and the name of the first. */
size_t bodies_of(struct fenced_kit *kit, const char *key);
void name_of_body(struct fenced_kit *kit, const char *key, char name[KEY_BYTES_MAX + 1]);

/* ---- Short calls --------------------------------------------------------------------- */

enum hf_status put(struct peer *peer, const char *text);
enum hf_status put_large(struct peer *peer, char fill);

/* Checks that the peer reads this object, written with this token. */
void assert_object(struct peer *peer, struct view expected, uint64_t token);

/* More bytes than fit into a fence, all equal. */
#define LARGE ((size_t)6000)
struct view large(char fill);

#endif
