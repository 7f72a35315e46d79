/* body.h: bodies: objects of their own that hold what is too large for the document that names
 * them.
 *
 * A body has a name that was never used before, so it is written once and never changes. It stands
 * before the swap that names it; who dies in between leaves one that nothing names. */
#ifndef LOCK_BODY_H
#define LOCK_BODY_H

#include "lock/client.h"

/* What is written: bytes, or, with a file that is not -1, its contents. */
struct body {
    struct view key;
    struct view bytes;
    int fd;
    uint64_t size;
};

/* Whether it is still worth while, asked before it is sent once more: OK, or why not. */
typedef enum hf_status body_check(void *argument, struct hf_error *error);

/* OK when it is there whole. Else nothing has happened, since nothing names it. */
enum hf_status body_put(struct hf_client *client, const struct body *body, body_check *check,
                        void *argument, struct hf_error *error);

/* One that is not needed any more. Whatever comes of it: what stays is found by a sweep. */
#define BODY_DISCARD_TIME SPAN_S(2)
void body_discard(struct hf_client *client, struct view key);

#endif
