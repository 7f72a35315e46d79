/* SPDX-License-Identifier: Apache-2.0 */
/* body.h: bodies, the objects that hold data that is too large for the documents that name them.
 *
 * A body's name was never used before, so a body is written once and never changes. It is written
 * before the swap that names it. A client that dies in between leaves a body that nothing
 * names. */
#ifndef LOCK_BODY_H
#define LOCK_BODY_H

#include "lock/client.h"

/* The content: bytes, or, if `fd` is not -1, the contents of that file. */
struct body {
    struct view key;
    struct view bytes;
    int fd;
    uint64_t size;
};

/* Whether the body is still needed: OK, or the reason why it is not. Called before the body is
 * sent again. */
typedef enum hf_status body_check(void *argument, struct hf_error *error);

/* OK: the whole body is in the store. Otherwise nothing has happened, because nothing names the
 * body. */
enum hf_status body_put(struct hf_client *client, const struct body *body, body_check *check,
                        void *argument, struct hf_error *error);

/* Deletes a body that is no longer needed. A failure is ignored, because a sweep finds the
 * body. */
#define BODY_DISCARD_TIME SPAN_S(2)
void body_discard(struct hf_client *client, struct view key);

#endif
