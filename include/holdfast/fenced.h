/* SPDX-License-Identifier: Apache-2.0 */
/* fenced.h: objects that refuse writes with a stale token. A fenced object records the highest
 * token with which it was written, and the scopes that its first writer held.
 *
 *     hf_lock_acquire(lock, 60000, &error);
 *     hf_fenced_put(lock, "out/report.json", data, size, &error);
 *
 * To write a fenced object, hold an exclusive lock that covers the scopes of its first writer.
 * Each scope covers itself. A tree also covers the paths and trees in it, a range the ranges in
 * it, and an inode all its ranges. Any two such locks exclude each other, so their tokens increase
 * in the order in which the locks were held.
 *
 * A client's writes take effect in the order in which it issued them. If the lease was passed on as
 * text, writes by different clients with that lease may take effect in any order. */
#ifndef HOLDFAST_FENCED_H
#define HOLDFAST_FENCED_H

#include "holdfast/lock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a fenced object from memory or from a file, which must not change during the call.
 *
 * Returns HF_FENCED, and writes nothing, if a client with a later token has written the object.
 * Returns HF_EXPIRED if the lease has expired or the lock was released during the write, and
 * HF_LOST if another client ended the lease. Returns HF_MISMATCH if the object belongs to another
 * lock or is not a fenced object, or if the lock is not exclusive (shared, slots, pins). Returns
 * HF_INVALID if the key cannot be used, or if the scopes of the first writer exceed 4 KiB. Returns
 * HF_UNSUPPORTED if a later version of Holdfast wrote the object.
 *
 * Returns HF_UNSURE if the write may have happened or may still happen: the store did not reply, or
 * a later holder has written since. Write again with the same lock to find out. */
HF_API enum hf_status hf_fenced_put(struct hf_lock *lock, const char *key, const void *data,
                                    size_t size, struct hf_error *error);
HF_API enum hf_status hf_fenced_put_file(struct hf_lock *lock, const char *key, int fd,
                                         struct hf_error *error);

/* Deletes a fenced object but keeps its fence, so a stale token cannot recreate the object. Returns
 * the same statuses as hf_fenced_put. */
HF_API enum hf_status hf_fenced_delete(struct hf_lock *lock, const char *key,
                                       struct hf_error *error);

/* Reads a fenced object. Free the data with hf_free. `ret_token` receives the writer's token, and
 * may be NULL. Returns HF_NOT_FOUND if the object does not exist or was deleted. Returns
 * HF_MISMATCH if the object is not a fenced object. */
HF_API enum hf_status hf_fenced_get(struct hf_client *client, const char *key, size_t size_max,
                                    void **ret_data, size_t *ret_size, uint64_t *ret_token,
                                    struct hf_error *error);

/* Reads a fenced object into a file, and replaces the contents of the file. The file is read back
 * to verify it, so it must be open for reading and writing. Otherwise like hf_fenced_get. */
HF_API enum hf_status hf_fenced_get_file(struct hf_client *client, const char *key, int fd,
                                         uint64_t *ret_token, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
