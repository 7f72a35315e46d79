/* fenced_inside.h: what writing and reading fenced objects have in common. */
#ifndef LOCK_FENCED_INSIDE_H
#define LOCK_FENCED_INSIDE_H

#include "lock/client.h"

/* INVALID unless an object of the user's can have this name, and its bodies theirs. */
enum hf_status fenced_check_key(const struct hf_client *client, struct view key,
                                struct hf_error *error);

/* Whether this is the name of a body of that object: a fence that was copied to another key names
 * the bodies of the first, which are not its own to read or to delete. */
bool fenced_is_body_of(struct view key, struct view name);
enum hf_status fenced_strange_body(struct hf_error *error);

/* The fence as it is now; NOT_FOUND also when it says that there is no object. */
enum hf_status fenced_read_fence(struct hf_client *client, struct view key, struct fence *fence,
                                 struct hf_error *error);

/* Of the first `size` bytes, in pieces. CORRUPT if the file ends before. */
enum hf_status fenced_hash_file(int fd, uint64_t size, uint64_t *ret_xxh3,
                                struct hf_error *error);

#endif
