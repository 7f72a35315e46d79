/* fenced_kit.h: clients that write fenced objects, in a world of one task: a clock that moves only
 * when somebody sleeps, and a bucket whose ETags are hashes of the content, as on S3, where equal
 * bytes written again look like no change.
 *
 * Each peer has a gate of its own to the bucket: a scripted store. */
#ifndef TESTS_FENCED_KIT_H
#define TESTS_FENCED_KIT_H

#include "base/prng.h"
#include "lock/client.h"
#include "scripted_store.h"
#include "test.h"

#define OBJECT "data/object"

/* ---- The world ----------------------------------------------------------------------- */

struct peer {
    struct script gate; /* a call takes 1 ms */
    struct hf_client *client;
    struct hf_lock *lock; /* on "job", unless the test makes another */
};

struct fenced_kit {
    struct env env; /* must stand first */
    int64_t now_us;
    struct prng prng;
    struct store *bucket;
    struct peer one, two;
};

/* Counts from 0 again, and all goes well. */
void gate_reset(struct script *gate);

int fenced_set_up(void **state);
int fenced_tear_down(void **state);

#define FENCED(sentence, function)                                    \
    {                                                                 \
        (sentence), (function), fenced_set_up, fenced_tear_down, NULL \
    }

/* The same for those who expect that it may fail; false without memory. */
bool fenced_kit_open(struct fenced_kit *kit);
void fenced_kit_close(struct fenced_kit *kit);

/* One holds the lock; then two takes it away from one, who does not notice. */
void one_holds(struct fenced_kit *kit);
void two_takes_over(struct fenced_kit *kit);

/* Passes the lease on: a handle of the peer to a lease of another. */
struct hf_lock *pass_on(struct hf_lock *lock, struct peer *to);

/* ---- Looking and touching, past all gates -------------------------------------------- */

/* The bytes under a key, or NULL; to be freed. */
char *bucket_text(struct fenced_kit *kit, const char *key);
void bucket_write(struct fenced_kit *kit, const char *key, struct view bytes);

/* How many bodies the object has, needed or not; and the name of the first. */
size_t bodies_of(struct fenced_kit *kit, const char *key);
void name_of_body(struct fenced_kit *kit, const char *key, char name[KEY_BYTES_MAX + 1]);

/* ---- Shorthands ---------------------------------------------------------------------- */

enum hf_status put(struct peer *peer, const char *text);
enum hf_status put_large(struct peer *peer, char fill);

/* The object is what the peer reads, and was written with this token. */
void assert_object(struct peer *peer, struct view expected, uint64_t token);

/* As many bytes as do not fit behind a fence, all the same. */
#define LARGE ((size_t)6000)
struct view large(char fill);

#endif
