/* SPDX-License-Identifier: Apache-2.0 */
/* swap.h: replaces an object on condition that nobody else has, and finds out whether that happened
 * if the reply is lost. */
#ifndef INDEX_SWAP_H
#define INDEX_SWAP_H

#include "base/error.h"
#include "env/env.h"

/* What a read shows after a put that did not return OK. */
enum stored_version {
    STORED_OURS,       /* the version that we put */
    STORED_OLD,        /* still the version that we read */
    STORED_ANOTHER,    /* written by another client */
    STORED_UNREADABLE, /* cannot be read now */
};

struct swap {
    struct env *env;
    /* Puts the object, always with the same condition, so at most one attempt can succeed. */
    enum hf_status (*put)(void *argument, struct hf_error *error);
    enum stored_version (*look)(void *argument);
    void *argument;
};

/* Puts the object, a few times if there is no answer. Only OK, or our own version in the store,
 * proves that the swap happened. After an unanswered put nothing proves that it did not happen: the
 * object may be the old version because the put is still on its way, or another version because
 * another client has read ours and replaced it. So once a put has gone unanswered, the result is OK
 * or UNSURE. */
enum hf_status swap_object(const struct swap *swap, struct hf_error *error);

#endif
