/* SPDX-License-Identifier: Apache-2.0 */
/* toolkit.h: the decisions that all our own back ends share, such as conditions and listings. */
#ifndef STORE_TOOLKIT_H
#define STORE_TOOLKIT_H

#include "store/store.h"

#include <sys/stat.h>
#include <sys/types.h>

/* The traits of our own stores. */
#define TRAITS_OF_OURS                                                                \
    {                                                                                 \
        .delete_conditional = true, .put_file_conditional = true, .etag_fresh = true, \
        .list_ordered = true, .conflict_final = true, .clock = STORE_CLOCK_BOOT       \
    }

/* True, with INVALID, if this process is a forked child of the one that opened the store. */
bool store_is_forked(pid_t opened_by, struct hf_error *error);

/* Whether a name in a folder refers to this open file, which may also have other names. */
bool file_has_name(int fd, int folder, const char *name);

/* The mode without read permission for everybody without write permission. A file with locks must
 * have it: a shared lock needs only read permission, and would block the writers. */
mode_t mode_of_writers(mode_t mode);

/* Gives a new file or folder this mode, and the owner and the group of another file, as far as this
 * process may: the members of a group that share a store must be able to use each other's files. */
void file_make_like(int fd, const struct stat *like, mode_t mode);

/* The deadline of a call, or a default if the call has none. */
struct mono_time local_deadline(struct env *env, struct mono_time asked);

/* Whether the condition of a write holds: OK, CONFLICT or NOT_FOUND. `current` is NULL when
 * there is no object. */
enum hf_status condition_check(const struct condition *condition, const struct etag *current,
                               struct hf_error *error);

/* Whether a get returns bytes of `current`, and if so, how many from call->offset. Fills in
 * call->info. `current` is NULL when there is no object. */
enum hf_status get_check(struct get_call *call, const struct object_info *current,
                         uint64_t *ret_length);

/* Appends bytes to call->body. Fails the call when its bound is exceeded or memory runs out. */
enum hf_status get_append(struct get_call *call, struct view bytes);

/* The same for `length` bytes of a file, from call->offset on. CORRUPT, with the reason
 * `why_short`, if the file has fewer. */
enum hf_status get_append_file(struct get_call *call, int fd, uint64_t length,
                               const char *why_short);

/* Sets the error of every call of a batch, when the store as a whole fails. */
#define CALLS_FAIL(calls, count, why)           \
    do                                          \
        for (size_t i_ = 0; i_ < (count); i_++) \
            (calls)[i_].error = (why);          \
    while (0)

/* Pauses while another client holds a lock. They grow up to `most`, and are random, so that waiters
 * do not all retry at the same time. */
struct patience {
    struct env *env;
    struct mono_time deadline;
    struct span pause, most;
};
struct patience patience_until(struct env *env, struct mono_time deadline, struct span most);

/* Sleeps for the next pause. Returns false immediately when the deadline has passed. */
bool patience_wait(struct patience *patience);

/* Lists keys in order. The back end looks up the first key that is >= `from` (with `beyond`: >),
 * offers it, and repeats while list_offer returns true. These functions handle the prefix, `after`,
 * the delimiter and the page size. They skip a group without visiting its keys. */
struct list_cursor {
    struct view from;
    bool beyond;
    char space[KEY_BYTES_MAX + 1];
};

/* Whether a name in the listing is a group: all keys up to and including a delimiter. */
bool list_is_group(const struct list_call *call, struct view name);

void list_start(const struct list_call *call, struct list_cursor *cursor);

/* False when the page is complete (call->more says whether there is another) or the call has
 * failed. `key` need not outlive the call. */
bool list_offer(struct list_call *call, struct list_cursor *cursor, struct view key,
                const struct object_info *info);

#endif
