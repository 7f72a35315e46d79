/* store.h: what the calls of include/holdfast/store.h share. */
#ifndef API_STORE_H
#define API_STORE_H

#include "base/options.h"
#include "store/handle.h"

/* A text of the caller: with a size, or, with 0, up to its NUL. */
static inline struct view caller_view(const char *text, size_t size)
{
    return size > 0 ? (struct view){ text, size } : view_of(text);
}

/* Zero for 0, which is the store's own. INVALID when it is negative. */
enum hf_status deadline_after(struct hf_store *store, int64_t timeout_ms,
                              struct mono_time *ret_deadline, struct hf_error *error);

/* What the layers below call, for a progress function of the caller. */
struct caller_progress {
    hf_progress_fn *step; /* or NULL */
    void *argument;
};
struct progress progress_for(struct caller_progress *caller);

/* Whether an object of this key is Holdfast's own. */
bool key_is_own(struct view key);

/* INVALID, with the way out: it is Holdfast's own, and `force` was not said. */
enum hf_status check_not_own(struct view key, bool force, struct hf_error *error);

/* The key, if an object can have it, and it may be written. */
enum hf_status check_written_key(struct view key, bool force, struct hf_error *error);

/* A copy of an ETag, as text. */
void etag_to_text(const struct etag *etag, char text[HF_ETAG_MAX]);

#endif
