/* SPDX-License-Identifier: Apache-2.0 */
/* listed.h: the names that a listing without an order has shown so far, sorted, in bounded memory:
 * if there are more than LISTED_MAX, the first LISTED_MAX in byte order are kept. No network. */
#ifndef STORE_S3_LISTED_H
#define STORE_S3_LISTED_H

#include "store/store.h"

#ifndef LISTED_MAX /* a test makes it small */
#define LISTED_MAX 65536
#endif

struct listed {
    struct arena arena;
    struct list_entry *entries;
    size_t count, capacity;
    bool cut; /* some names after the last one were left out */
    /* The listing that they belong to, for a later page (list_call.continuation). */
    uint64_t id;
    char prefix[KEY_BYTES_MAX], after[KEY_BYTES_MAX];
    size_t prefix_size, after_size;
    char delimiter; /* or NUL */
    struct mono_time taken;
};

/* Adds an entry, and copies its key. False if memory runs out. */
bool listed_add(struct listed *names, const struct list_entry *entry);

/* Sorts the names after the last of them was added. A name that was listed twice stands once. */
bool listed_end(struct listed *names);

/* The number of the first entry whose name is >= `from`, or with `beyond` > `from`. */
size_t listed_find(const struct listed *names, struct view from, bool beyond);

void listed_release(struct listed *names);

#endif
