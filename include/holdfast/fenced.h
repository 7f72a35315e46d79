/* fenced.h: objects that remember the highest token that wrote them, and what their first writer
 * held. To write one, hold an exclusive lock that covers that: the same scopes, a tree above a path
 * or tree, a range around a range, the inode of a range. Any two such locks exclude each other, so
 * their tokens are in the order in which they were held.
 *   OK        written
 *   FENCED    not written: somebody with a later token has written
 *   EXPIRED   the lease is over (LOST: taken away)
 *   MISMATCH  the object belongs to another lock, or is not a fenced one; or the lock is not held
 *             alone (shared, slots, pins)
 *   UNSURE    it may have been written, or may yet be: no answer, or a later holder has written
 *             since; write it again with the same lock to be sure
 *   INVALID   the key cannot be used, or the scopes of the first writer have more than 4 KiB
 *   UNSUPPORTED  a later version of Holdfast wrote it
 *
 *     hf_lock_acquire(lock, 60000, &error);
 *     hf_fenced_put(lock, "out/report.json", data, size, &error);
 *
 * Writes of one client count in the order of the calls; those of others with the same lease,
 * which was passed on as text, in any order. A file must not change meanwhile. */
#ifndef HOLDFAST_FENCED_H
#define HOLDFAST_FENCED_H

#include "holdfast/lock.h"

#ifdef __cplusplus
extern "C" {
#endif

HF_API enum hf_status hf_fenced_put(struct hf_lock *lock, const char *key, const void *data,
                                    size_t size, struct hf_error *error);
HF_API enum hf_status hf_fenced_put_file(struct hf_lock *lock, const char *key, int fd,
                                         struct hf_error *error);

/* Leaves the fence: a stale token cannot bring the object back. */
HF_API enum hf_status hf_fenced_delete(struct hf_lock *lock, const char *key,
                                       struct hf_error *error);

/* NOT_FOUND when there is none or it was deleted; MISMATCH when it is not a fenced object. The
 * data is given back by hf_free; `ret_token`, of who wrote it, may be NULL. */
HF_API enum hf_status hf_fenced_get(struct hf_client *client, const char *key, size_t size_max,
                                    void **ret_data, size_t *ret_size, uint64_t *ret_token,
                                    struct hf_error *error);

/* The file becomes the object. It is read back to compare, so it must be open for both. */
HF_API enum hf_status hf_fenced_get_file(struct hf_client *client, const char *key, int fd,
                                         uint64_t *ret_token, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
