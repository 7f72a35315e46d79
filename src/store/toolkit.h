/* toolkit.h: what every back end of ours decides in the same way, decided in one place. */
#ifndef STORE_TOOLKIT_H
#define STORE_TOOLKIT_H

#include "store/store.h"

/* Does the condition of a write hold for what is there? OK, CONFLICT or NOT_FOUND. `current` is
 * NULL when there is no object. */
enum hf_status condition_judge(const struct condition *condition, const struct etag *current,
                               struct hf_error *error);

/* Whether a get is to be answered with bytes of `current`, and then how many from call->offset;
 * fills in call->info. `current` is NULL when there is no object. */
enum hf_status get_judge(struct get_call *call, const struct object_info *current,
                         uint64_t *ret_length);

/* Appends bytes to call->body, or fails the call when its bound or the memory ends. */
enum hf_status get_append(struct get_call *call, struct view bytes);

/* An answer of only a status, for all calls: when the store as a whole cannot. */
void get_fail_all(struct get_call *calls, size_t count, const struct hf_error *error);
void put_fail_all(struct put_call *calls, size_t count, const struct hf_error *error);
void delete_fail_all(struct delete_call *calls, size_t count, const struct hf_error *error);

/* Listing ordered keys: the back end looks up the first key that is >= `from` (with `beyond`:
 * >), offers it, and repeats while list_offer says so. Prefix, `after`, delimiter and page size
 * are seen to here; a group behind a delimiter is jumped over, not walked through. */
struct list_cursor {
    struct view from;
    bool beyond;
    char space[KEY_BYTES_MAX + 1];
};

void list_start(const struct list_call *call, struct list_cursor *cursor);

/* False when the page is complete (call->more says if there is another) or has failed. `key`
 * may die after the call. */
bool list_offer(struct list_call *call, struct list_cursor *cursor, struct view key,
                const struct object_info *info);

#endif
